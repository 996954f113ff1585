//! Landlock on the real kernel, as root and as an ordinary user.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use ringfence_plan::{Errno, SyscallAction};
use ringfence_sys::bpf::{self, Arch};
use ringfence_sys::landlock::{AccessFs, AccessNet, RestrictFlags, Ruleset, Scope, abi, supported};
use ringfence_sys::seccomp::{self, Flags, NEWEST};
use rustix::fs::{Mode, OFlags, open};

use crate::child::{Who, everybody, expect_silence, in_child};

/// A directory that everybody may write to, with `in/` and `out/` in it. It goes away with the value.
struct Ground(PathBuf);

impl Ground {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("ringfence-sys-{name}-{}", std::process::id()));
        for dir in [path.clone(), path.join("in"), path.join("out")] {
            fs::create_dir_all(&dir).expect("a directory");
            fs::set_permissions(&dir, fs::Permissions::from_mode(0o777)).expect("our own directory");
        }
        let file = path.join("out/file");
        fs::write(&file, "content").expect("a file");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o666)).expect("our own file");
        Self(path)
    }

    fn path(&self, below: &str) -> PathBuf {
        self.0.join(below)
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        // What stays behind is in the temporary directory.
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn add(ruleset: &Ruleset, path: &Path, access: AccessFs) -> io::Result<()> {
    let fd = open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    ruleset.add_path(fd.as_fd(), access)
}

/// Everything is readable, `in/` is writable.
fn restrict(ground: &Ground) -> io::Result<()> {
    let ruleset = Ruleset::create(supported()?.fs, AccessNet::NONE, Scope::NONE)?;
    add(&ruleset, Path::new("/"), AccessFs::READ)?;
    add(&ruleset, Path::new("/dev/null"), AccessFs::DEVICE)?;
    add(&ruleset, &ground.path("in"), AccessFs::ABI_5)?;
    rustix::thread::set_no_new_privs(true)?;
    ruleset.restrict_self(RestrictFlags::NONE)
}

fn outcome<T>(complaints: &mut Vec<String>, what: &str, result: io::Result<T>, expected: Option<i32>) {
    let got = result.err().map(|cause| cause.raw_os_error().unwrap_or(0));
    if got != expected {
        complaints.push(format!("{what}: {got:?}, not {expected:?}"));
    }
}

#[test]
fn writes_end_at_the_rule() {
    let ground = Ground::new("writes");
    for who in everybody() {
        let complaints = in_child(who, || {
            if let Err(cause) = restrict(&ground) {
                return vec![format!("not restricted: {cause}")];
            }
            let mut complaints = Vec::new();
            let mut check = |what: &str, result, expected| outcome(&mut complaints, what, result, expected);
            let (inside, outside) = (ground.path("in/new"), ground.path("out/file"));
            check("write inside", fs::write(&inside, "x"), None);
            check("mkdir inside", fs::create_dir(ground.path("in/d")), None);
            check("rename inside", fs::rename(&inside, ground.path("in/d/other")), None);
            check("remove inside", fs::remove_dir_all(ground.path("in/d")), None);
            check("write to a device", fs::write("/dev/null", "x"), None);
            check("read outside", fs::read(&outside).map(|_| ()), None);
            check("list outside", fs::read_dir(ground.path("out")).map(|_| ()), None);
            check("write outside", fs::write(&outside, "x"), Some(libc::EACCES));
            check("create outside", fs::write(ground.path("out/new"), "x"), Some(libc::EACCES));
            check("append outside", OpenOptions::new().append(true).open(&outside).map(|_| ()), Some(libc::EACCES));
            check("mkdir outside", fs::create_dir(ground.path("out/d")), Some(libc::EACCES));
            check("remove outside", fs::remove_file(&outside), Some(libc::EACCES));
            let truncated = rustix::fs::open(&outside, OFlags::RDONLY | OFlags::TRUNC, Mode::empty());
            check("truncate outside", truncated.map(|_| ()).map_err(Into::into), Some(libc::EACCES));
            complaints
        });
        expect_silence(who, &complaints);
        assert_eq!(fs::read(ground.path("out/file")).unwrap(), b"content");
    }
}

/// On a file the rights that concern directories would be EINVAL; they are left out.
#[test]
fn a_rule_on_a_file() {
    let ground = Ground::new("file");
    let complaints = in_child(Who::Caller, || {
        let made = Ruleset::create(AccessFs::ABI_3, AccessNet::NONE, Scope::NONE).and_then(|ruleset| {
            add(&ruleset, &ground.path("out/file"), AccessFs::ABI_5)?;
            // Nothing of this is handled for a file: no rule, and no error.
            add(&ruleset, &ground.path("out/file"), AccessFs::MAKE_DIR)?;
            rustix::thread::set_no_new_privs(true)?;
            ruleset.restrict_self(RestrictFlags::NONE)
        });
        let mut complaints = Vec::new();
        outcome(&mut complaints, "restrict", made, None);
        outcome(&mut complaints, "write", fs::write(ground.path("out/file"), "x"), None);
        outcome(&mut complaints, "read another", File::open("/etc/passwd"), Some(libc::EACCES));
        complaints
    });
    expect_silence(Who::Caller, &complaints);
}

/// Signals and abstract sockets stay among the restricted, and a domain without rights on files leaves files alone.
#[test]
fn scopes_without_files() {
    let Ok(scoped) = supported().map(|supported| supported.scoped) else { panic!("Landlock is needed") };
    assert_eq!(scoped, Scope::of_abi(abi().unwrap()));
    let parent = rustix::process::getpid();
    for who in everybody() {
        let complaints = in_child(who, || {
            let made = Ruleset::create(AccessFs::NONE, AccessNet::NONE, scoped).and_then(|ruleset| {
                rustix::thread::set_no_new_privs(true)?;
                ruleset.restrict_self(RestrictFlags::NONE)
            });
            let mut complaints = Vec::new();
            outcome(&mut complaints, "restrict", made, None);
            let signalled = rustix::process::test_kill_process(parent).map_err(io::Error::from);
            outcome(&mut complaints, "signal the parent", signalled, Some(libc::EPERM));
            let own = rustix::process::test_kill_process(rustix::process::getpid()).map_err(io::Error::from);
            outcome(&mut complaints, "signal oneself", own, None);
            outcome(&mut complaints, "read", fs::read("/etc/passwd"), None);
            complaints
        });
        expect_silence(who, &complaints);
    }
}

#[test]
fn restricting_needs_no_new_privs() {
    let who = everybody().pop().expect("somebody");
    let complaints = in_child(who, || {
        let mut complaints = Vec::new();
        let made = Ruleset::create(AccessFs::ABI_1, AccessNet::NONE, Scope::NONE)
            .and_then(|ruleset| ruleset.restrict_self(RestrictFlags::NONE));
        outcome(&mut complaints, "restrict", made, Some(libc::EPERM));
        complaints
    });
    expect_silence(who, &complaints);
}

/// T6: asking changes nothing, and what is reported is really taken.
#[test]
fn t6_the_probe_has_no_side_effects() {
    let descriptors = || fs::read_dir("/proc/self/fd").map(Iterator::count).unwrap_or_default();
    for who in everybody() {
        let complaints = in_child(who, || {
            let before = descriptors();
            let mut complaints = Vec::new();
            match (abi(), supported()) {
                (Ok(abi), Ok(found)) if found.abi == abi && found.fs == AccessFs::of_abi(abi) => {}
                other => complaints.push(format!("{other:?}")),
            }
            if descriptors() != before {
                complaints.push("a descriptor is left".to_owned());
            }
            outcome(&mut complaints, "write", fs::write("/dev/null", "x"), None);
            complaints
        });
        expect_silence(who, &complaints);
    }
}

/// T6: kernels without Landlock, and one on which it is switched off.
#[test]
fn t6_a_kernel_without_landlock_is_an_error() {
    for errno in [libc::ENOSYS, libc::EOPNOTSUPP] {
        let action = SyscallAction::Errno(Errno(u16::try_from(errno).expect("small")));
        let number = seccomp::number("landlock_create_ruleset").expect("known");
        let old_kernel = bpf::filter(&[bpf::Rule { number, when: &[], action }], NEWEST, Arch::NATIVE.expect("known"));
        let old_kernel = old_kernel.expect("one rule");
        let complaints = in_child(Who::Caller, || {
            let mut complaints = Vec::new();
            let _ = rustix::thread::set_no_new_privs(true);
            outcome(&mut complaints, "filter", seccomp::install(&old_kernel, Flags::NONE), None);
            outcome(&mut complaints, "abi", abi(), Some(errno));
            outcome(&mut complaints, "supported", supported(), Some(errno));
            outcome(
                &mut complaints,
                "create",
                Ruleset::create(AccessFs::ABI_1, AccessNet::NONE, Scope::NONE),
                Some(errno),
            );
            complaints
        });
        expect_silence(Who::Caller, &complaints);
    }
}

#[test]
fn bits_of_each_abi() {
    let counts = (0..9).map(|abi| AccessFs::of_abi(abi).each().count()).collect::<Vec<_>>();
    assert_eq!(counts, [0, 13, 14, 15, 15, 16, 16, 16, 16]);
    assert_eq!(AccessNet::of_abi(3), AccessNet::NONE);
    assert_eq!(Scope::of_abi(6).bits(), 3);
    assert!(AccessFs::ABI_5.contains(AccessFs::OF_A_FILE) && !AccessFs::OF_A_FILE.contains(AccessFs::REFER));
}
