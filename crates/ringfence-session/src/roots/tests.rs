//! Roots that are made, used, changed and removed.

use super::*;

struct Ground {
    _place: tempfile::TempDir,
    dir: AbsPath,
    roots: Roots,
}

fn ground() -> Ground {
    let place = tempfile::tempdir().unwrap();
    let dir = AbsPath::lexical(place.path().canonicalize().unwrap().as_os_str().as_bytes()).unwrap();
    let roots = Roots::of(&dir.join("data/ringfence"), &dir.join("state/ringfence")).unwrap();
    Ground { _place: place, dir, roots }
}

fn wanted(name: &str, with: impl IntoIterator<Item = Class>) -> Wanted<'_> {
    Wanted { name, with: with.into_iter().collect(), owner: None, workspace: None, path: OsStr::new(""), carries: None }
}

fn write(path: &AbsPath, text: &str) {
    if os_path(path).exists() {
        fs::set_permissions(os_path(path), Permissions::from_mode(0o644)).unwrap();
    }
    fs::write(os_path(path), text).unwrap();
}

/// Everything below a directory that is no directory itself.
fn files(dir: &AbsPath, found: &mut BTreeSet<AbsPath>) {
    for entry in fs::read_dir(os_path(dir)).unwrap().flatten() {
        let path = dir.child(entry.file_name().as_bytes());
        if entry.file_type().unwrap().is_dir() { files(&path, found) } else { assert!(found.insert(path)) }
    }
}

/// M2: a root holds no file that is not in its manifest, and every file that is.
#[test]
fn m2_a_root_is_its_manifest() {
    let ground = ground();
    let root = ground.roots.create(&wanted("a", [Class::Shell, Class::Git])).unwrap();
    let mut found = BTreeSet::new();
    files(&root.tree(), &mut found);
    let listed = root.manifest().entries.iter().filter(|entry| entry.kind != Kind::Directory);
    let listed: BTreeSet<AbsPath> = listed.map(|entry| root.within(&entry.path().unwrap())).collect();
    assert_eq!(found, listed);
    root.check(Depth::Everything).unwrap();
    let is_there = |path: &str| os_path(&root.tree().join(path)).exists();
    assert!(is_there("usr/bin/git") && is_there("bin/sh") && is_there("etc/nsswitch.conf"));
    assert!(!is_there("etc/shadow") && !is_there("etc/gitconfig"));
    // The same host gives the same manifest.
    let again = Roots::of(&ground.dir.join("other/ringfence"), &ground.roots.state).unwrap();
    let again = again.create(&wanted("a", [Class::Git, Class::Shell])).unwrap();
    let programs = |root: &Root| {
        let is_system = |entry: &&Entry| !entry.path().unwrap().is_within(&ground.dir);
        root.manifest().entries.iter().filter(is_system).cloned().collect::<Vec<_>>()
    };
    assert_eq!(programs(&again), programs(&root));
}

/// What is copied is a file of its own: nothing that changes inside changes outside.
#[test]
fn m2_no_file_is_shared_with_the_host() {
    use std::os::unix::fs::MetadataExt as _;
    let ground = ground();
    let root = ground.roots.create(&wanted("a", [Class::Shell])).unwrap();
    let id = |path: &AbsPath| fs::metadata(os_path(path)).map(|found| (found.dev(), found.ino())).unwrap();
    for entry in root.manifest().entries.iter().filter(|entry| matches!(entry.kind, Kind::File { .. })) {
        let path = entry.path().unwrap();
        if os_path(&path).exists() {
            assert_ne!(id(&path), id(&root.within(&path)), "{path}");
        }
    }
}

/// M2: a change of any kind is found at the next use, and what only looks changed is not.
#[test]
fn m2_a_changed_root_is_refused() {
    let ground = ground();
    ground.roots.create(&wanted("a", [Class::Shell])).unwrap();
    #[track_caller]
    fn check(ground: &Ground, change: impl FnOnce(&AbsPath), expected: &str, undo: impl FnOnce(&AbsPath)) {
        let root = ground.roots.open("a").unwrap();
        root.check(Depth::Changed).unwrap();
        change(&root.tree());
        let said = root.check(Depth::Changed).unwrap_err().to_string();
        assert!(said.contains(expected), "{said}");
        undo(&root.tree());
        root.check(Depth::Changed).unwrap();
    }
    let hosts = |tree: &AbsPath| tree.join("etc/hosts");
    let text = fs::read_to_string(os_path(&hosts(&ground.roots.open("a").unwrap().tree()))).unwrap();
    let again = |tree: &AbsPath| {
        write(&hosts(tree), &text);
        fs::set_permissions(os_path(&hosts(tree)), Permissions::from_mode(0o444)).unwrap();
    };
    // As long as it was, so that only its content tells.
    let other = text.replace('1', "2");
    let replace = |tree: &AbsPath| {
        write(&hosts(tree), &other);
        fs::set_permissions(os_path(&hosts(tree)), Permissions::from_mode(0o444)).unwrap();
    };
    check(&ground, replace, "/etc/hosts has another content", again);
    check(
        &ground,
        |tree| fs::set_permissions(os_path(&hosts(tree)), Permissions::from_mode(0o666)).unwrap(),
        "/etc/hosts has another mode",
        |tree| fs::set_permissions(os_path(&hosts(tree)), Permissions::from_mode(0o444)).unwrap(),
    );
    check(
        &ground,
        |tree| fs::rename(os_path(&hosts(tree)), os_path(&tree.join("work/hosts"))).unwrap(),
        "/etc/hosts is gone",
        |tree| fs::rename(os_path(&tree.join("work/hosts")), os_path(&hosts(tree))).unwrap(),
    );
    let planted = |tree: &AbsPath| tree.join("usr/bin/planted");
    check(
        &ground,
        |tree| write(&planted(tree), "x"),
        "/usr/bin holds planted, which is not in the manifest",
        |tree| fs::remove_file(os_path(&planted(tree))).unwrap(),
    );
    let at_the_top = |tree: &AbsPath| tree.join("planted");
    check(
        &ground,
        |tree| write(&at_the_top(tree), "x"),
        "/ holds planted",
        |tree| fs::remove_file(os_path(&at_the_top(tree))).unwrap(),
    );
}

#[test]
fn names() {
    for good in ["a", "A-1", "tenant.42_x"] {
        assert!(checked(good).is_ok(), "{good}");
    }
    for bad in ["", ".a", "-a", "a/b", "..", "a b", "é", &"x".repeat(65)] {
        assert!(checked(bad).is_err(), "{bad}");
    }
}

#[test]
fn what_cannot_be_made_leaves_nothing() {
    let ground = ground();
    let root = ground.roots.create(&wanted("a", [Class::File])).unwrap();
    assert!(matches!(ground.roots.create(&wanted("a", [Class::File])), Err(RootError::Exists { .. })));
    assert!(matches!(ground.roots.open("b"), Err(RootError::NotFound { .. })));
    assert_eq!(ground.roots.list().unwrap(), ["a"]);
    assert_eq!(fs::read_dir(os_path(&ground.roots.dir)).unwrap().count(), 1);
    drop(root);
}

/// M6: roots go when they are told to, and not while they are used or while there is work in them.
#[test]
fn m6_roots_are_removed() {
    let ground = ground();
    let root = ground.roots.create(&wanted("a", [Class::File])).unwrap();
    assert!(matches!(ground.roots.remove("a", Work::Removed), Err(RootError::InUse { .. })));
    fs::write(os_path(&root.work().join("file")), "x").unwrap();
    let tmp = root.tree().join("dev/shm/file");
    fs::write(os_path(&tmp), "x").unwrap();
    drop(root);
    assert!(!os_path(&tmp).exists(), "the last who leaves takes temporary files along");
    assert!(matches!(ground.roots.remove("a", Work::Kept), Err(RootError::Work { .. })));
    ground.roots.remove("a", Work::Removed).unwrap();
    assert_eq!(fs::read_dir(os_path(&ground.roots.dir)).unwrap().count(), 0);
}

/// M6: what creations left that never ended, and roots of workspaces that are gone.
#[test]
fn m6_leftovers_are_collected() {
    let ground = ground();
    let workspace = ground.dir.join("workspace");
    fs::create_dir(os_path(&workspace)).unwrap();
    for name in ["empty", "work", "used"] {
        let wanted = Wanted { workspace: Some(&workspace), ..wanted(name, [Class::File]) };
        ground.roots.create(&wanted).unwrap();
    }
    ground.roots.create(&wanted("own", [Class::File])).unwrap();
    fs::create_dir_all(os_path(&ground.roots.dir.join(".new-x-1/tree/usr"))).unwrap();
    assert_eq!(ground.roots.gc().removed, [".new-x-1"]);
    fs::remove_dir(os_path(&workspace)).unwrap();
    let used = ground.roots.open("used").unwrap();
    fs::write(os_path(&ground.roots.open("work").unwrap().work().join("file")), "x").unwrap();
    let left = used.within(&ground.roots.state.join("sessions/gone/home"));
    let own = ground.roots.open("own").unwrap();
    let dead = own.within(&ground.roots.state.join("sessions/gone"));
    drop(own);
    for dir in [&left, &dead] {
        fs::create_dir_all(os_path(dir)).unwrap();
    }
    assert_eq!(ground.roots.gc(), CollectedRoots { removed: vec!["empty".into()], left: vec![] });
    assert!(os_path(&left).exists() && !os_path(&dead).exists());
    assert_eq!(ground.roots.list().unwrap(), ["own", "used", "work"]);
    drop(used);
}
