//! The jail as a library. Landlock and filters bind the thread that asks for them, so each test has its own; what whole processes
//! can and cannot do is tested with the command line.

#![cfg(target_os = "linux")]
#![forbid(unsafe_code)]

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use ringfence_plan::{Errno, SyscallAction, SyscallRule};
use ringfence_session::jail::{Jail, JailError, LandlockUnavailable, probe, run_jail_exec, wrap};
use ringfence_surface::{GlobFault, GlobListError};
use ringfence_sys::seccomp::{self, Flags};

/// In a thread of its own, which may be restricted for good.
fn apart<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| scope.spawn(work).join().expect("the work does not panic"))
}

/// In a thread for which the kernel answers a call so.
fn on_a_kernel_that_answers<T: Send>(name: &'static str, errno: Errno, work: impl FnOnce() -> T + Send) -> T {
    let rule = SyscallRule { name, when: &[], action: SyscallAction::Errno(errno), reason: "an old kernel" };
    let program = seccomp::compile(&[rule]).expect("one rule").program;
    apart(|| {
        rustix::thread::set_no_new_privs(true).expect("always possible");
        seccomp::install(&program, Flags::NONE).expect("the tests run where filters can be installed");
        work()
    })
}

fn words(words: &[&str]) -> Vec<OsString> {
    words.iter().map(OsString::from).collect()
}

/// T6: strict, and without side effects.
#[test]
fn t6_the_probe() {
    let dir = tempfile::tempdir().unwrap();
    assert!(probe().unwrap().number() >= 3);
    fs::write(dir.path().join("after"), "the probe restricted nothing").unwrap();
    for errno in [Errno::ENOSYS, Errno::EOPNOTSUPP, Errno::EPERM] {
        let failed = on_a_kernel_that_answers("landlock_create_ruleset", errno, probe).unwrap_err();
        let LandlockUnavailable::Missing { source } = failed else { panic!("{failed}") };
        assert_eq!(source.raw_os_error(), Some(i32::from(errno.0)));
    }
}

/// T7: a restricted thread writes where it may; the others are as before.
#[test]
fn t7_a_thread_is_restricted() {
    let dir = tempfile::tempdir().unwrap();
    let (inside, outside) = (dir.path().join("in"), dir.path().join("out"));
    fs::create_dir(&inside).unwrap();
    fs::create_dir(&outside).unwrap();
    let jail = Jail::new(dir.path(), &["in/*"]).unwrap();
    // What is put in the place of a directory that was opened does not count.
    fs::rename(&inside, dir.path().join("moved")).unwrap();
    symlink(&outside, &inside).unwrap();
    apart(|| {
        jail.restrict().unwrap();
        fs::write(dir.path().join("moved/file"), "x").unwrap();
        let denied = |result: std::io::Result<()>| {
            assert_eq!(result.map_err(|cause| cause.kind()), Err(std::io::ErrorKind::PermissionDenied));
        };
        denied(fs::write(inside.join("file"), "x"));
        denied(fs::write(outside.join("file"), "x"));
        denied(fs::write(dir.path().join("file"), "x"));
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
    });
    fs::write(outside.join("file"), "this thread is free").unwrap();
}

/// T7: each failure has its code, and the variants say what it was.
#[test]
fn t7_exit_codes() {
    let dir = tempfile::tempdir().unwrap();
    let anchor = dir.path().to_str().unwrap();
    let run = |arguments: &[&str]| run_jail_exec(&words(arguments));
    for arguments in [&[] as &[&str], &["--"], &["--", "--", "true"], &["--", anchor, "*", "--"], &["x", "--", "y"]] {
        let failed = run(arguments);
        assert!(matches!(failed, JailError::Usage { .. }) && failed.exit_code() == 2, "{arguments:?}: {failed}");
    }
    let failed = run(&["--", anchor, "--", "true"]);
    assert!(matches!(failed, JailError::Globs(GlobListError::EmptyList)) && failed.exit_code() == 2);
    let failed = run(&["--", anchor, "*", "a/../../b", "--", "true"]);
    assert!(
        matches!(failed, JailError::Globs(GlobListError::Escape { fault: GlobFault::Parent, .. }))
            && failed.exit_code() == 2
    );
    let failed = run(&["--", "/no/such/anchor", "*", "--", "true"]);
    assert!(matches!(failed, JailError::Anchor { .. }) && failed.exit_code() == 2);
    let failed = run(&["--", anchor, "no/such/*", "--", "true"]);
    assert!(matches!(failed, JailError::Prefix { .. }) && failed.exit_code() == 2);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "nothing was made");
    // The arguments are judged before the kernel is asked for anything.
    let old = |name, arguments: &[&str]| on_a_kernel_that_answers(name, Errno::ENOSYS, || run(arguments).exit_code());
    let good = ["--", anchor, "*", "--", "true"];
    for name in ["landlock_create_ruleset", "landlock_add_rule", "landlock_restrict_self"] {
        assert_eq!(old(name, &good), 3, "{name}");
        assert_eq!(old(name, &["--", anchor, "/x", "--", "true"]), 2, "{name}");
    }
    let failed = apart(|| run(&["--", anchor, "*", "--", "/no/such/program"]));
    assert!(matches!(failed, JailError::Exec { .. }) && failed.exit_code() == 4, "{failed}");
    assert_eq!(failed.to_string(), "execvp(/no/such/program)");
}

/// T8: the form of the rewritten command.
#[test]
fn t8_a_wrapped_command() {
    let odd = OsStr::from_bytes(b"\xff");
    let mut command = Command::new("bash");
    command.arg("-c").arg(odd).arg("--").current_dir("/somewhere").env("A", odd).env_remove("B");
    let wrapped = wrap(command, Path::new("/anchor"), &[OsStr::new("src/**"), odd]).unwrap();
    assert_eq!(wrapped.get_program(), "/proc/self/exe");
    let expected: Vec<&OsStr> = ["jail-exec", "--", "/anchor", "src/**"].map(OsStr::new).into();
    let rest = [odd, OsStr::new("--"), OsStr::new("bash"), OsStr::new("-c"), odd, OsStr::new("--")];
    assert_eq!(wrapped.get_args().collect::<Vec<_>>(), [expected, rest.into()].concat());
    assert_eq!(wrapped.get_current_dir(), Some(Path::new("/somewhere")));
    assert_eq!(wrapped.get_envs().collect::<Vec<_>>(), [(OsStr::new("A"), Some(odd)), (OsStr::new("B"), None)]);
}

/// T8: the command may start elsewhere, so a relative anchor is made absolute here and now.
#[test]
fn t8_a_relative_anchor_is_meant_from_here() {
    let wrapped = wrap(Command::new("true"), Path::new("project"), &["*"]).unwrap();
    let here = std::env::current_dir().unwrap().join("project");
    assert_eq!(wrapped.get_args().nth(2), Some(here.as_os_str()));
}
