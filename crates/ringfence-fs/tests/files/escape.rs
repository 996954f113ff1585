//! T2 and T5: nothing leads out, and what is no escape is not called one.

use std::fs;
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use ringfence_fs::{Escape, FileError, Root, RootError, Writable};

use crate::ground::{Ground, as_ordinary_user, give};

/// What every operation says of a path.
fn all_of(root: &Root, path: &Path) -> Vec<(&'static str, FileError)> {
    let mut said = Vec::new();
    let mut tell = |name, result: Result<(), FileError>| match result {
        Ok(()) => panic!("{name} of {} was done", path.display()),
        Err(error) => said.push((name, error)),
    };
    tell("read", root.read(path, 100).map(drop));
    tell("read_part", root.read_part(path, 0, 100).map(drop));
    tell("open_for_write", root.open_for_write(path).map(drop));
    tell("write", root.write(path, b"new"));
    tell("create_dir_all", root.create_dir_all(path));
    tell("list", root.list(path, 100).map(drop));
    tell("remove_dir", root.remove_dir(path));
    tell("rename from", root.rename(path, "free"));
    said
}

#[track_caller]
fn escapes(ground: &Ground, path: &str, expected: Escape) {
    let before = (ground.insides(), ground.outsides());
    let root = ground.root();
    let path = Path::new(path);
    let mut said = all_of(&root, path);
    said.push(("remove", root.remove(path).unwrap_err()));
    said.push(("rename to", root.rename("f", path).unwrap_err()));
    for (name, error) in said {
        let FileError::PathEscape { how, .. } = error else { panic!("{name} of {}: {error:?}", path.display()) };
        assert_eq!(how, expected, "{name} of {}", path.display());
    }
    assert_eq!(before, (ground.insides(), ground.outsides()));
}

#[test]
fn t2_no_spelling_leads_out() {
    let ground = Ground::new();
    fs::write(ground.inside("f"), "inside").unwrap();
    for path in ["..", "../out/secret", "a/../../out/secret", "./../out", "f/../../out"] {
        escapes(&ground, path, Escape::Parent);
    }
    let absolute = ground.outside("secret");
    escapes(&ground, absolute.to_str().unwrap(), Escape::Absolute);
    escapes(&ground, ground.inside("f").to_str().unwrap(), Escape::Absolute);
}

#[test]
fn t5_no_link_is_followed_on_the_way() {
    let ground = Ground::new();
    fs::write(ground.inside("f"), "inside").unwrap();
    fs::create_dir(ground.inside("d")).unwrap();
    symlink(ground.outside(""), ground.inside("absolute")).unwrap();
    symlink("../out", ground.inside("relative")).unwrap();
    symlink("d", ground.inside("within")).unwrap();
    symlink("loop", ground.inside("loop")).unwrap();
    for path in ["absolute/secret", "absolute/new", "absolute/dir/f", "relative/secret", "within/x", "loop/x"] {
        escapes(&ground, path, Escape::Link);
    }
}

/// A link at the end is neither read nor written through; it can be removed and renamed, itself.
#[test]
fn t5_no_link_is_followed_at_the_end() {
    let ground = Ground::new();
    let root = ground.root();
    let before = ground.outsides();
    for (name, target) in [("file", "../out/secret"), ("dir", "../out/dir"), ("dangling", "../out/new")] {
        symlink(target, ground.inside(name)).unwrap();
        for result in [
            root.read(name, 100).map(drop),
            root.open_for_write(name).map(drop),
            root.write(name, b"new"),
            root.create_dir_all(name),
            root.list(name, 100).map(drop),
        ] {
            assert!(matches!(result, Err(FileError::PathEscape { how: Escape::Link, .. })), "{name}: {result:?}");
        }
        root.rename(name, "moved").unwrap();
        assert!(fs::symlink_metadata(ground.inside("moved")).unwrap().is_symlink());
        root.remove("moved").unwrap();
        assert!(fs::symlink_metadata(ground.inside("moved")).is_err());
    }
    assert_eq!(ground.outsides(), before);
}

/// The links of the proc file system lead anywhere without being links.
#[test]
fn t5_no_magic_link_is_followed() {
    let root = Root::open("/proc/self", Writable::everything()).unwrap();
    for path in ["root/etc/passwd", "cwd/Cargo.toml", "exe", "fd/0", "root"] {
        let said = root.read(path, 1 << 20).unwrap_err();
        assert!(matches!(said, FileError::PathEscape { how: Escape::Link, .. }), "{path}: {said}");
    }
    assert!(root.read("status", 1 << 20).unwrap().starts_with(b"Name:"));
}

/// A permission that is missing is told as that.
#[test]
fn t5_a_missing_permission_is_no_escape() {
    let ground = Ground::new();
    for dir in ["closed/d", "fixed"] {
        fs::create_dir_all(ground.inside(dir)).unwrap();
    }
    fs::write(ground.inside("closed/f"), "").unwrap();
    fs::write(ground.inside("fixed/f"), "").unwrap();
    give(&ground.inside(""));
    fs::set_permissions(ground.inside("closed"), fs::Permissions::from_mode(0o000)).unwrap();
    fs::set_permissions(ground.inside("fixed"), fs::Permissions::from_mode(0o555)).unwrap();
    as_ordinary_user(|| {
        let root = ground.root();
        for path in ["closed/f", "closed/new", "closed/d/x"] {
            for (name, error) in all_of(&root, Path::new(path)) {
                assert_eq!(error.io_kind(), Some(ErrorKind::PermissionDenied), "{name} of {path}: {error:?}");
            }
        }
        for result in [
            root.remove("fixed/f"),
            root.create_dir_all("fixed/new"),
            root.write("fixed/new", b""),
            root.open_for_write("fixed/new").map(drop),
            root.rename("fixed/f", "free"),
        ] {
            assert_eq!(result.unwrap_err().io_kind(), Some(ErrorKind::PermissionDenied));
        }
        assert_eq!(root.read("none", 1).unwrap_err().io_kind(), Some(ErrorKind::NotFound));
        assert_eq!(root.read("fixed/f/x", 1).unwrap_err().io_kind(), Some(ErrorKind::NotADirectory));
    });
    fs::set_permissions(ground.inside("closed"), fs::Permissions::from_mode(0o755)).unwrap();
}

/// The root is the directory that was opened, whatever is put in its place.
#[test]
fn t2_the_anchor_is_swapped() {
    let ground = Ground::new();
    let root = ground.root();
    fs::rename(ground.inside(""), ground.base().join("was")).unwrap();
    symlink("out", ground.base().join("in")).unwrap();
    let before = ground.outsides();
    root.write("a/f", b"here").unwrap();
    root.open_for_write("g").unwrap().write_all(b"here").unwrap();
    assert_eq!(root.read("a/f", 100).unwrap(), b"here");
    assert_eq!(root.read("secret", 100).unwrap_err().io_kind(), Some(ErrorKind::NotFound));
    assert_eq!(fs::read(ground.base().join("was/a/f")).unwrap(), b"here");
    assert_eq!(ground.outsides(), before);
}

#[test]
fn t4_a_working_directory_stays_within_its_session() {
    let ground = Ground::new();
    fs::create_dir_all(ground.inside("a/b")).unwrap();
    fs::write(ground.inside("f"), "").unwrap();
    symlink("../out", ground.inside("link")).unwrap();
    symlink("a", ground.inside("within")).unwrap();
    let open = |dir: &Path| Root::open_within(ground.inside(""), dir, Writable::everything());
    for dir in ["a/b", "./a/../a/b", ".", ""] {
        open(Path::new(dir)).unwrap();
    }
    let root = open(&ground.inside("a/b")).unwrap();
    assert_eq!(root.path(), ground.inside("a/b"));
    root.write("x", b"1").unwrap();
    assert_eq!(fs::read(ground.inside("a/b/x")).unwrap(), b"1");
    for dir in ["..", "../out", "a/../../out", "link", "link/dir", "within", "within/b", "/", "/etc"] {
        let said = open(Path::new(dir)).unwrap_err();
        assert!(matches!(said, RootError::WorkingDirEscapes { .. }), "{dir}: {said}");
        assert!(said.to_string().contains("escapes the session root"), "{said}");
    }
    // Named like the session's root, and not below it.
    let beside = format!("{}-beside", ground.base().join("in").display());
    fs::create_dir(&beside).unwrap();
    assert!(matches!(open(Path::new(&beside)), Err(RootError::WorkingDirEscapes { .. })));
    for dir in ["none", "f"] {
        assert!(matches!(open(Path::new(dir)), Err(RootError::Open { .. })), "{dir}");
    }
}

/// What is mounted beneath the root is the administrator's, unless the caller wants one file system only.
#[test]
fn mounts_can_be_refused() {
    let root = Root::open("/", Writable::nothing()).unwrap();
    assert!(root.read("proc/version", 1 << 16).is_ok());
    let said = root.on_one_file_system().read("proc/version", 1 << 16).unwrap_err();
    assert!(matches!(said, FileError::PathEscape { how: Escape::Elsewhere, .. }), "{said}");
}
