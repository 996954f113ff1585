//! T4 and T9: what no glob covers is refused by its name alone, before anything is touched.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ringfence_fs::{Environment, FileError, GlobListError, LocalEnvironment, Operation, Root, RootError, Writable};

use crate::ground::Ground;

#[track_caller]
fn refused(result: Result<(), FileError>, expected: Operation) {
    let FileError::PathNotAllowed { operation, .. } = result.unwrap_err() else { panic!("another error") };
    assert_eq!(operation, expected);
}

#[test]
fn t9_a_refused_change_leaves_nothing_behind() {
    let ground = Ground::new();
    fs::create_dir_all(ground.inside("src/deep")).unwrap();
    fs::write(ground.inside("src/deep/main.rs"), "1").unwrap();
    fs::write(ground.inside("keep"), "2").unwrap();
    let root = ground.root_with(&["src/**/*.rs", "*.md"]);
    let before = ground.insides();
    refused(root.write("new/dir/x", b""), Operation::Write);
    refused(root.write("src/new/x.c", b""), Operation::Write);
    refused(root.open_for_write("new/x").map(drop), Operation::Write);
    refused(root.open_for_write("keep").map(drop), Operation::Write);
    refused(root.write("docs/a.md", b""), Operation::Write);
    refused(root.create_dir_all("new/dir"), Operation::CreateDirectory);
    refused(root.remove("keep"), Operation::Remove);
    refused(root.remove_dir("src/deep"), Operation::Remove);
    refused(root.rename("keep", "src/x.rs"), Operation::Rename);
    refused(root.rename("src/deep/main.rs", "main.c"), Operation::Rename);
    refused(root.write("new/../keep", b""), Operation::Write);
    assert_eq!(ground.insides(), before);
    root.write("src/new/deeper/x.rs", b"x").unwrap();
    root.create_dir_all("src/other").unwrap();
    root.rename("src/deep/main.rs", "a.md").unwrap();
    root.remove("a.md").unwrap();
    assert_eq!(fs::read(ground.inside("src/new/deeper/x.rs")).unwrap(), b"x");
}

/// Everything in a directory moves with it, so all of it must be writable.
#[test]
fn t9_a_directory_is_renamed_only_where_all_of_it_may_be_written() {
    let ground = Ground::new();
    fs::create_dir_all(ground.inside("a.d/inner")).unwrap();
    fs::write(ground.inside("a.d/fixed"), "").unwrap();
    refused(ground.root_with(&["*.d"]).rename("a.d", "b.d"), Operation::Rename);
    refused(ground.root_with(&["a.d", "*.d"]).rename("a.d", "b.d"), Operation::Rename);
    refused(ground.root_with(&["a.d/**", "b.d"]).rename("a.d", "b.d"), Operation::Rename);
    ground.root_with(&["a.d", "b.d"]).rename("a.d", "b.d").unwrap();
    ground.root_with(&["**"]).rename("b.d", "c.d").unwrap();
    assert!(ground.inside("c.d/fixed").exists());
}

#[test]
fn t4_three_classes_of_globs_that_cannot_be_used() {
    assert_eq!(Writable::globs::<&str>([]), Err(GlobListError::EmptyList));
    for glob in ["/etc/**", "~/x", "../x", "a/../b", r"C:\x", r"\\server\share"] {
        assert!(matches!(Writable::globs(["ok/**", glob]), Err(GlobListError::Escape { .. })), "{glob}");
    }
    for glob in ["", "{a,b}", "**/a/**", "*/a/**", "foo/**bar", "a[b", r"a\b", "!a"] {
        assert!(matches!(Writable::globs(["ok/**", glob]), Err(GlobListError::Malformed { .. })), "{glob}");
    }
}

#[test]
fn t5_a_root_can_be_for_reading_only() {
    let ground = Ground::new();
    fs::write(ground.inside("f"), "1").unwrap();
    let root = Root::open(ground.inside(""), Writable::nothing()).unwrap();
    assert_eq!(root.read("f", 10).unwrap(), b"1");
    refused(root.write("f", b"2"), Operation::Write);
    refused(root.remove("f"), Operation::Remove);
    refused(root.create_dir_all("d"), Operation::CreateDirectory);
    assert!(matches!(root.read(".", 10), Err(FileError::WrongKind { .. })));
    let missing = Root::open(ground.inside("none"), Writable::everything());
    assert!(matches!(missing, Err(RootError::Open { .. })));
}

#[test]
fn the_root_itself_cannot_be_changed() {
    let ground = Ground::new();
    let root = ground.root();
    for path in ["", ".", "a/.."] {
        for result in [
            root.write(path, b""),
            root.remove(path),
            root.remove_dir(path),
            root.rename(path, "x"),
            root.rename("x", path),
        ] {
            assert!(matches!(result, Err(FileError::BadPath { .. })), "{path}: {result:?}");
        }
        root.create_dir_all(path).unwrap();
    }
    assert!(matches!(root.write("a\0b", b""), Err(FileError::BadPath { .. })));
}

/// T9 and M5: whoever carries a change out, the path is checked first.
#[test]
fn t9_the_seams_are_asked_only_for_what_is_allowed() {
    let ground = Ground::new();
    fs::create_dir(ground.inside("src")).unwrap();
    fs::write(ground.inside("src/old"), "").unwrap();
    let (opened, removed) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (opens, removes) = (opened.clone(), removed.clone());
    let environment = LocalEnvironment::new(ground.root_with(&["src/**"]))
        .write_opener(move |root, path| {
            opens.fetch_add(1, Ordering::Relaxed);
            root.open_for_write(path)
        })
        .remover(move |root, path| {
            removes.fetch_add(1, Ordering::Relaxed);
            root.remove(path)
        });
    refused(environment.write(Path::new("other/x"), b"1"), Operation::Write);
    refused(environment.remove(Path::new("other/x")), Operation::Remove);
    assert!(environment.write(Path::new("src/../../out/x"), b"1").unwrap_err().is_escape());
    assert_eq!((opened.load(Ordering::Relaxed), removed.load(Ordering::Relaxed)), (0, 0));
    assert!(!ground.inside("other").exists());
    environment.write(Path::new("src/a/x"), b"1").unwrap();
    environment.remove(&ground.inside("src/old")).unwrap();
    assert_eq!((opened.load(Ordering::Relaxed), removed.load(Ordering::Relaxed)), (1, 1));
    assert_eq!(fs::read(ground.inside("src/a/x")).unwrap(), b"1");
    assert!(!ground.inside("src/old").exists());
}

/// T1: one interface, behind which it does not matter what there is. K4 K15: files need no fence of the kernel's.
#[test]
fn t1_an_environment_of_files() {
    let ground = Ground::new();
    let environment: Box<dyn Environment> = Box::new(LocalEnvironment::new(ground.root()));
    assert_eq!(environment.working_dir(), ground.base().join("in"));
    environment.write(Path::new("a/b.rs"), b"1").unwrap();
    // Tools name files by absolute paths as well.
    environment.write(&ground.inside("a/c.rs"), b"2").unwrap();
    assert_eq!(environment.read(&ground.inside("a/b.rs"), 10).unwrap(), b"1");
    let found = environment.glob(Path::new("**/*.rs"), 10).unwrap();
    let paths: Vec<&Path> = found.entries.iter().map(|entry| entry.path.as_path()).collect();
    assert_eq!(paths, [Path::new("a/b.rs"), Path::new("a/c.rs")]);
    assert_eq!(environment.glob(&ground.inside("a/*"), 10).unwrap().entries.len(), 2);
    environment.remove(Path::new("a/b.rs")).unwrap();
    for path in [ground.outside("secret"), ground.inside("../out/secret"), "/etc/passwd".into()] {
        assert!(environment.read(&path, 100).unwrap_err().is_escape(), "{}", path.display());
        assert!(environment.write(&path, b"").unwrap_err().is_escape(), "{}", path.display());
        assert!(environment.remove(&path).unwrap_err().is_escape(), "{}", path.display());
    }
    assert!(environment.glob(Path::new("../out/*"), 10).is_err());
    // A name that only begins like the root's.
    let beside = ground.base().join("inside");
    fs::write(&beside, "SECRET").unwrap();
    assert!(environment.read(&beside, 100).unwrap_err().is_escape());
}
