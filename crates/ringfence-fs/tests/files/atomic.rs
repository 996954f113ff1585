//! A file is replaced whole, and what it was stays what it was.

use std::fs;
use std::io::{self, ErrorKind, Write as _};
use std::os::fd::BorrowedFd;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::sync::{Arc, Mutex};

use ringfence_fs::{FileError, FileKind, RecordNames};
use ringfence_plan::Errno;
use ringfence_testkit::report_skip;
use rustix::fs::{AtFlags, XattrFlags};

use crate::ground::{Ground, ORDINARY, as_ordinary_user, give};
use crate::old_kernel::on_a_kernel_that_answers;

/// The disk fails.
const EIO: Errno = Errno(5);

fn mode(mode: u32) -> fs::Permissions {
    fs::Permissions::from_mode(mode)
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[test]
fn permissions_and_owner_are_kept() {
    let ground = Ground::new();
    let root = ground.root();
    for before in [0o755, 0o600, 0o4755, 0o640] {
        fs::write(ground.inside("f"), "old").unwrap();
        fs::set_permissions(ground.inside("f"), mode(before)).unwrap();
        if is_root() {
            chown(ground.inside("f"), Some(ORDINARY), Some(ORDINARY)).unwrap();
            fs::set_permissions(ground.inside("f"), mode(before)).unwrap();
        }
        let old = fs::metadata(ground.inside("f")).unwrap();
        root.write("f", b"new").unwrap();
        let new = fs::metadata(ground.inside("f")).unwrap();
        assert_eq!(fs::read(ground.inside("f")).unwrap(), b"new");
        // What a write into the old file would have cleared is cleared.
        assert_eq!(new.mode() & 0o7777, before & 0o777, "{before:o}");
        assert_eq!((new.uid(), new.gid()), (old.uid(), old.gid()));
        assert_ne!(new.ino(), old.ino());
        fs::remove_file(ground.inside("f")).unwrap();
    }
    root.write("new", b"").unwrap();
    fs::write(ground.inside("plain"), "").unwrap();
    let of = |name: &str| fs::metadata(ground.inside(name)).unwrap().mode();
    assert_eq!(of("new"), of("plain"), "a new file has the mode that any program gives");
    assert_eq!(ground.insides().len(), 2, "nothing else is left");
}

#[test]
fn attributes_are_kept() {
    let ground = Ground::new();
    let root = ground.root();
    fs::write(ground.inside("f"), "old").unwrap();
    if let Err(errno) = rustix::fs::setxattr(ground.inside("f"), "user.note", b"mine", XattrFlags::empty()) {
        assert_eq!(errno, rustix::io::Errno::NOTSUP, "only a file system without attributes excuses from this");
        return report_skip("attributes of files: the file system has none");
    }
    root.write("f", b"new").unwrap();
    let mut value = [0; 16];
    let length = rustix::fs::getxattr(ground.inside("f"), "user.note", &mut value).unwrap();
    assert_eq!(&value[..length], b"mine");
}

/// Without the list the group would get what the list gives to one other person.
#[test]
fn an_access_control_list_is_kept() {
    const ACL: &str = "system.posix_acl_access";
    let ground = Ground::new();
    fs::write(ground.inside("f"), "old").unwrap();
    let entry = |tag: u16, permissions: u16, id: u32| {
        [&tag.to_le_bytes()[..], &permissions.to_le_bytes(), &id.to_le_bytes()].concat()
    };
    let list = [
        2_u32.to_le_bytes().to_vec(),
        entry(1, 6, u32::MAX),
        entry(2, 6, ORDINARY),
        entry(4, 0, u32::MAX),
        entry(0x10, 6, u32::MAX),
        entry(0x20, 0, u32::MAX),
    ]
    .concat();
    if let Err(errno) = rustix::fs::setxattr(ground.inside("f"), ACL, &list, XattrFlags::empty()) {
        assert_eq!(errno, rustix::io::Errno::NOTSUP, "only a file system without lists excuses from this");
        return report_skip("access control lists: the file system has none");
    }
    ground.root().write("f", b"new").unwrap();
    let mut value = [0; 256];
    let length = rustix::fs::getxattr(ground.inside("f"), ACL, &mut value).unwrap();
    assert_eq!(&value[..length], list);
}

/// A directory that may be written is no way around a file that may not.
#[test]
fn what_may_not_be_written_is_not_replaced() {
    let ground = Ground::new();
    fs::write(ground.inside("fixed"), "old").unwrap();
    give(&ground.inside(""));
    fs::set_permissions(ground.inside("fixed"), mode(0o444)).unwrap();
    as_ordinary_user(|| {
        let said = ground.root().write("fixed", b"new").unwrap_err();
        assert_eq!(said.io_kind(), Some(ErrorKind::PermissionDenied));
    });
    assert_eq!(fs::read(ground.inside("fixed")).unwrap(), b"old");
    assert_eq!(ground.insides().len(), 1);
}

/// Somebody who may write a file of another cannot give the new one to its owner.
#[test]
fn an_owner_that_cannot_be_kept_is_a_failure() {
    if !is_root() {
        return report_skip("a file of another owner: the tests do not run as root");
    }
    let ground = Ground::new();
    give(&ground.inside(""));
    fs::write(ground.inside("theirs"), "old").unwrap();
    fs::set_permissions(ground.inside("theirs"), mode(0o666)).unwrap();
    as_ordinary_user(|| {
        let root = ground.root();
        let FileError::Io { call, source, .. } = root.write("theirs", b"new").unwrap_err() else { panic!() };
        assert_eq!((call, source.kind()), ("fchown", ErrorKind::PermissionDenied));
        assert_eq!(fs::read(ground.inside("theirs")).unwrap(), b"old");
        assert_eq!(ground.insides().len(), 1);
        // It can be written into.
        root.open_for_write("theirs").unwrap().write_all(b"new").unwrap();
    });
    assert_eq!(fs::read(ground.inside("theirs")).unwrap(), b"new");
}

#[test]
fn a_failure_at_any_step_leaves_the_old_file_alone() {
    let rename: &[libc::c_long] = &[
        #[cfg(target_arch = "x86_64")]
        libc::SYS_renameat,
        libc::SYS_renameat2,
    ];
    let calls = [&[libc::SYS_write], &[libc::SYS_fsync], rename, &[libc::SYS_fchmod], &[libc::SYS_flistxattr]];
    for call in calls {
        let ground = Ground::new();
        let root = ground.root();
        root.write("f", b"old").unwrap();
        let said = on_a_kernel_that_answers(call, EIO, || root.write("f", b"new").unwrap_err());
        let FileError::Io { source, .. } = said else { panic!("{call:?}: {said}") };
        assert_eq!(source.raw_os_error(), Some(i32::from(EIO.0)), "{call:?}");
        assert_eq!(ground.insides().len(), 1, "{call:?} leaves nothing");
        assert_eq!(fs::read(ground.inside("f")).unwrap(), b"old");
    }
}

/// Where files without names cannot be linked, as without /proc, the file has a name from the start.
#[test]
fn a_file_is_placed_also_where_nothing_can_be_linked() {
    let ground = Ground::new();
    let root = ground.root();
    on_a_kernel_that_answers(&[libc::SYS_linkat], Errno::EPERM, || {
        root.write("a/f", b"old").unwrap();
        root.write("a/f", b"new").unwrap();
    });
    assert_eq!(fs::read(ground.inside("a/f")).unwrap(), b"new");
    assert_eq!(ground.insides().len(), 2);
    let said =
        on_a_kernel_that_answers(&[libc::SYS_linkat, libc::SYS_fsync], EIO, || root.write("a/f", b"x").unwrap_err());
    assert_eq!(said.io_kind(), Some(std::io::Error::from_raw_os_error(5).kind()));
    assert_eq!(ground.insides().len(), 2);
}

/// Whoever kills us in the middle of a new file leaves nothing: there is never another name.
#[test]
fn a_new_file_has_no_name_before_it_is_whole() {
    let ground = Ground::new();
    let root = ground.root();
    let is_over = std::sync::atomic::AtomicBool::new(false);
    let content = vec![b'x'; 100_000];
    std::thread::scope(|scope| {
        let look = || {
            let mut looks = 0;
            while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                for entry in fs::read_dir(ground.inside("")).unwrap().flatten() {
                    assert!(!entry.file_name().to_str().unwrap().starts_with(".ringfence-"));
                    assert_eq!(entry.metadata().unwrap().len(), 100_000);
                    looks += 1;
                }
            }
            looks
        };
        let looker = scope.spawn(look);
        for number in 0..1000 {
            root.write(number.to_string(), &content).unwrap();
        }
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
        assert!(looker.join().unwrap() > 0);
    });
}

/// What is linked from a store outside is not changed through the link.
#[test]
fn t5_other_names_of_a_file_keep_what_they_show() {
    let ground = Ground::new();
    let root = ground.root();
    fs::hard_link(ground.outside("secret"), ground.inside("linked")).unwrap();
    let said = root.open_for_write("linked").unwrap_err();
    assert!(matches!(said, FileError::HardLinked { .. }) && said.hint().is_some(), "{said}");
    assert_eq!(fs::read(ground.outside("secret")).unwrap(), b"SECRET", "nor was it cut short");
    root.write("linked", b"new").unwrap();
    assert_eq!(fs::read(ground.inside("linked")).unwrap(), b"new");
    assert_eq!(fs::read(ground.outside("secret")).unwrap(), b"SECRET");
    root.open_for_write("linked").unwrap();
}

#[test]
fn only_regular_files_are_written() {
    let ground = Ground::new();
    let root = ground.root();
    fs::create_dir(ground.inside("dir")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        ground.inside("fifo"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
        0,
    )
    .unwrap();
    let _listener = std::os::unix::net::UnixListener::bind(ground.inside("socket")).unwrap();
    let check = |path: &str, expected: FileKind| {
        for result in [root.write(path, b"x"), root.open_for_write(path).map(drop), root.read(path, 10).map(drop)] {
            let error = result.unwrap_err();
            assert!(matches!(error, FileError::WrongKind { found, .. } if found == expected), "{path}: {error:?}");
        }
    };
    check("dir", FileKind::Directory);
    check("fifo", FileKind::Fifo);
    check("socket", FileKind::Socket);
    // Also where somebody waits at the other end.
    let flags = rustix::fs::OFlags::RDWR | rustix::fs::OFlags::NONBLOCK;
    let _reader = rustix::fs::open(ground.inside("fifo"), flags, rustix::fs::Mode::empty()).unwrap();
    check("fifo", FileKind::Fifo);
    assert!(matches!(root.remove("dir"), Err(FileError::WrongKind { found: FileKind::Directory, .. })));
    root.remove("fifo").unwrap();
    root.remove("socket").unwrap();
    root.remove_dir("dir").unwrap();
    assert!(ground.insides().is_empty());
    let devices = ringfence_fs::Root::open("/dev", ringfence_fs::Writable::everything()).unwrap();
    for result in [devices.write("null", b"x"), devices.read("zero", 10).map(drop)] {
        assert!(matches!(result, Err(FileError::WrongKind { found: FileKind::Device, .. })), "{result:?}");
    }
}

/// Records names as a journal does, and what was in the directory while each was recorded.
#[derive(Debug, Default)]
struct Names {
    recorded: Mutex<Vec<(String, bool, bool)>>,
}

impl RecordNames for Names {
    fn with_name(&self, dir: BorrowedFd<'_>, work: &mut dyn FnMut(&str) -> io::Result<()>) -> io::Result<()> {
        let name = format!(".ringfence-{:016x}", self.recorded.lock().unwrap().len());
        let is_there = || rustix::fs::statat(dir, name.as_str(), AtFlags::SYMLINK_NOFOLLOW).is_ok();
        let before = is_there();
        work(&name)?;
        let after = is_there();
        self.recorded.lock().unwrap().push((name, before, after));
        Ok(())
    }
}

/// [G4] A temporary name exists only while it is recorded, so that a killed process leaves nothing that is not.
#[test]
fn g4_temporary_names_are_recorded() {
    let ground = Ground::new();
    let names = Arc::new(Names::default());
    let root = ground.root().recording_names(names.clone());
    root.write("new", b"one").unwrap();
    assert_eq!(names.recorded.lock().unwrap().len(), 0, "a file without a name takes a free one");
    root.write("new", b"two").unwrap();
    assert_eq!(*names.recorded.lock().unwrap(), [(".ringfence-0000000000000000".to_owned(), false, false)]);
    assert_eq!(fs::read(ground.inside("new")).unwrap(), b"two");
    let left = fs::read_dir(ground.inside("")).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert_eq!(left.filter(|name| name.starts_with(".ringfence-")).count(), 0);
}

/// [G4] Nothing is replaced with a name that could not be recorded.
#[test]
fn g4_without_a_record_there_is_no_temporary_name() {
    #[derive(Debug)]
    struct Full;
    impl RecordNames for Full {
        fn with_name(&self, _: BorrowedFd<'_>, _: &mut dyn FnMut(&str) -> io::Result<()>) -> io::Result<()> {
            Err(ErrorKind::StorageFull.into())
        }
    }
    let ground = Ground::new();
    fs::write(ground.inside("f"), "old").unwrap();
    let failed = ground.root().recording_names(Arc::new(Full)).write("f", b"new").unwrap_err();
    assert!(matches!(&failed, FileError::Io { source, .. } if source.kind() == ErrorKind::StorageFull), "{failed}");
    assert_eq!(fs::read(ground.inside("f")).unwrap(), b"old");
}
