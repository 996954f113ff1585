//! Kernels that lack a call, and what is said then.

use std::fs;

use ringfence_fs::{FileError, Root, RootError, Writable};
use ringfence_plan::{Errno, SyscallAction};
use ringfence_sys::bpf::{Arch, Rule, filter};
use ringfence_sys::seccomp::{self, Flags};

use crate::ground::{Ground, apart};

/// In a thread for which the kernel answers some calls so.
pub(crate) fn on_a_kernel_that_answers<T: Send>(
    calls: &[libc::c_long],
    errno: Errno,
    work: impl FnOnce() -> T + Send,
) -> T {
    let action = SyscallAction::Errno(errno);
    let rules: Vec<Rule<'_>> =
        calls.iter().map(|call| Rule { number: u32::try_from(*call).unwrap(), when: &[], action }).collect();
    let program = filter(&rules, seccomp::NEWEST, Arch::NATIVE.unwrap()).unwrap();
    apart(|| {
        rustix::thread::set_no_new_privs(true).expect("always possible");
        seccomp::install(&program, Flags::NONE).expect("the tests run where filters can be installed");
        work()
    })
}

/// There is no other way to stay beneath a root, so there is no root.
#[test]
fn t5_without_openat2_there_is_no_root() {
    let ground = Ground::new();
    fs::write(ground.inside("f"), "inside").unwrap();
    let root = ground.root();
    for errno in [Errno::ENOSYS, Errno::EPERM] {
        let opened = on_a_kernel_that_answers(&[libc::SYS_openat2], errno, || {
            Root::open(ground.inside(""), Writable::everything()).map(drop)
        });
        assert!(matches!(opened, Err(RootError::NoOpenat2)), "{opened:?}");
    }
    let before = ground.insides();
    on_a_kernel_that_answers(&[libc::SYS_openat2], Errno::ENOSYS, || {
        for result in [
            root.read("f", 10).map(drop),
            root.write("f", b"x"),
            root.write("a/b", b"x"),
            root.open_for_write("f").map(drop),
            root.create_dir_all("d/e"),
            root.remove("f"),
            root.rename("f", "g"),
            root.list("", 10).map(drop),
            root.glob("*", 10).map(drop),
        ] {
            assert!(matches!(result, Err(FileError::NoOpenat2)), "{result:?}");
        }
    });
    assert_eq!(ground.insides(), before);
}

/// Somebody who renames without end does not hold us for ever.
#[test]
fn t5_a_lookup_is_tried_again_and_not_for_ever() {
    let ground = Ground::new();
    let root = ground.root();
    let said = on_a_kernel_that_answers(&[libc::SYS_openat2], Errno(11), || root.write("f", b"x").unwrap_err());
    assert!(matches!(said, FileError::KeepsChanging { tries: 128, .. }), "{said}");
}
