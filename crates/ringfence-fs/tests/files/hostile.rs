//! Trees that somebody made to hold us up, to fill our memory, or to make us look away.

use std::ffi::OsStr;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ringfence_fs::{FileError, FileKind, Found, GlobFault};
use rustix::fs::{CWD, FileType, Mode, OFlags, RenameFlags};

use crate::ground::Ground;

fn paths(found: &Found) -> Vec<&Path> {
    found.entries.iter().map(|entry| entry.path.as_path()).collect()
}

#[test]
fn a_file_of_ten_gigabytes_is_refused_or_read_in_parts() {
    let ground = Ground::new();
    let root = ground.root();
    fs::File::create(ground.inside("large")).unwrap().set_len(10 << 30).unwrap();
    let said = root.read("large", 1 << 20).unwrap_err();
    assert!(matches!(said, FileError::TooLarge { most: 1_048_576, .. }), "{said}");
    let part = root.read_part("large", 9 << 30, 4096).unwrap();
    assert_eq!((part.bytes.as_slice(), part.size), ([0; 4096].as_slice(), 10 << 30));
    assert_eq!(root.read_part("large", 11 << 30, 4096).unwrap().bytes, b"");
    assert_eq!(root.read_part("large", (10 << 30) - 3, usize::MAX).unwrap().bytes, [0; 3]);
    assert_eq!(root.read_part("large", u64::MAX, 10).unwrap().bytes, b"");
}

/// A bound that is none, and a file that costs nothing and says that it is larger than any memory.
#[test]
fn a_file_larger_than_memory_is_an_error() {
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let root = ringfence_fs::Root::open(dir.path(), ringfence_fs::Writable::nothing()).unwrap();
    for size in [1 << 60, i64::MAX.unsigned_abs()] {
        fs::File::create(dir.path().join("huge")).unwrap().set_len(size).unwrap();
        let failed = [root.read("huge", u64::MAX).unwrap_err(), root.read_part("huge", 0, usize::MAX).unwrap_err()];
        for said in failed {
            let is_memory = matches!(&said, FileError::Io { source, .. } if source.kind() == ErrorKind::OutOfMemory);
            assert!(is_memory, "{said:?}");
        }
    }
}

#[test]
fn the_bound_of_a_read_is_exact() {
    let ground = Ground::new();
    let root = ground.root();
    root.write("f", b"12345").unwrap();
    assert_eq!(root.read("f", 5).unwrap(), b"12345");
    assert_eq!(root.read("f", u64::MAX).unwrap(), b"12345");
    assert!(matches!(root.read("f", 4), Err(FileError::TooLarge { .. })));
    root.write("empty", b"").unwrap();
    assert_eq!(root.read("empty", 0).unwrap(), b"");
    // A file that says it is empty and is not.
    let proc = ringfence_fs::Root::open("/proc/self", ringfence_fs::Writable::nothing()).unwrap();
    assert!(matches!(proc.read("status", 10), Err(FileError::TooLarge { .. })));
}

#[test]
fn names_are_bytes() {
    let ground = Ground::new();
    let root = ground.root();
    let names: [&[u8]; 6] = [b"a\nb", b"\xff\xfe", b" ", b"-rf", b"\x1b[2J", "é".as_bytes()];
    for name in names {
        let path = Path::new(OsStr::from_bytes(name)).join("f");
        root.write(&path, name).unwrap();
        assert_eq!(root.read(&path, 100).unwrap(), name);
    }
    let mut expected: Vec<PathBuf> = names.iter().map(|name| OsStr::from_bytes(name).into()).collect();
    expected.sort();
    let listed: Vec<PathBuf> = root.list("", 100).unwrap().into_iter().map(|entry| entry.path).collect();
    assert_eq!(listed, expected);
    assert_eq!(root.glob("*/f", 100).unwrap().entries.len(), names.len());
    assert_eq!(
        paths(&root.glob(OsStr::from_bytes(b"\xff*"), 100).unwrap()),
        [Path::new(OsStr::from_bytes(b"\xff\xfe"))]
    );
    // A message never moves the cursor of whoever reads it.
    let said = root.read(OsStr::from_bytes(b"\x1b[2J\nx"), 10).unwrap_err().to_string();
    assert!(said.chars().all(|character| !character.is_control()), "{said:?}");
}

/// Deeper than a path can say: what is not reached is told, and nothing hangs.
#[test]
fn a_tree_deeper_than_any_path() {
    let ground = Ground::new();
    let root = ground.root();
    let name = "d".repeat(20);
    let mut at = rustix::fs::open(ground.inside(""), OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).unwrap();
    for _ in 0..400 {
        rustix::fs::mkdirat(&at, &name, Mode::RWXU).unwrap();
        at = rustix::fs::openat(&at, &name, OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).unwrap();
    }
    let found = root.glob("**", 10_000).unwrap();
    assert_eq!((found.skipped.len(), found.is_cut), (1, false));
    assert!((190..400).contains(&found.entries.len()), "{}", found.entries.len());
    let long = format!("{name}/").repeat(400);
    for result in [
        root.read(&long, 10).map(drop),
        root.write(format!("{long}f"), b""),
        root.create_dir_all(&long),
        root.list(&long, 10).map(drop),
    ] {
        assert_eq!(result.unwrap_err().io_kind(), Some(ErrorKind::InvalidFilename));
    }
}

#[test]
fn links_are_found_and_not_followed() {
    let ground = Ground::new();
    let root = ground.root();
    fs::create_dir_all(ground.inside("a/b")).unwrap();
    fs::write(ground.inside("a/f"), "").unwrap();
    symlink("..", ground.inside("a/b/up")).unwrap();
    symlink(".", ground.inside("self")).unwrap();
    symlink("../out", ground.inside("out")).unwrap();
    let found = root.glob("**", 100).unwrap();
    assert_eq!(paths(&found), ["a", "a/b", "a/b/up", "a/f", "out", "self"].map(Path::new));
    let links: Vec<_> = found.entries.iter().filter(|entry| entry.kind == FileKind::Link).collect();
    assert_eq!(links.len(), 3);
    assert!(paths(&root.glob("*/secret", 100).unwrap()).is_empty());
    assert!(root.glob("out/*", 100).unwrap_err().is_escape());
    assert!(root.glob("out/secret", 100).unwrap_err().is_escape());
    assert_eq!(paths(&root.glob("a/f", 100).unwrap()), [Path::new("a/f")]);
    assert_eq!(paths(&root.glob("self", 100).unwrap()), [Path::new("self")]);
    for nothing in ["none", "none/*", "a/f/*", "a/f/x", "."] {
        assert_eq!(root.glob(nothing, 100).unwrap(), Found { entries: vec![], is_cut: false, skipped: vec![] });
    }
    let FileError::Pattern(error) = root.glob("**x", 100).unwrap_err() else { panic!() };
    assert_eq!(error.fault(), Some(GlobFault::GluedDoubleStar));
}

/// The work grows with the tree, and not with the choices of a pattern.
#[test]
fn a_pattern_of_many_stars() {
    let ground = Ground::new();
    let root = ground.root();
    for a in 0..6 {
        for b in 0..6 {
            for c in 0..6 {
                fs::create_dir_all(ground.inside(&format!("{a}/{b}/{c}/x/y/z/w"))).unwrap();
            }
        }
    }
    let start = Instant::now();
    for pattern in ["**/*/**/*/**/*/**/*/**/*/**/*/none", "*/*/*/*/*/*/*/*/*/*/*/*/*/*", "**/**/**/**/none"] {
        assert!(root.glob(pattern, 100_000).unwrap().entries.is_empty());
    }
    assert!(start.elapsed() < Duration::from_secs(60), "a thousand directories take no time");
}

#[test]
fn a_directory_of_a_hundred_thousand_entries() {
    let ground = Ground::new();
    let root = ground.root();
    fs::create_dir(ground.inside("many")).unwrap();
    fs::write(ground.inside("many/0"), "").unwrap();
    let dir = rustix::fs::open(ground.inside("many"), OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).unwrap();
    for number in 1..100_000 {
        rustix::fs::mknodat(&dir, number.to_string(), FileType::Fifo, Mode::RUSR, 0).unwrap();
    }
    assert!(matches!(root.list("many", 99_999), Err(FileError::TooLarge { .. })));
    assert_eq!(root.list("many", 100_000).unwrap().len(), 100_000);
    let found = root.glob("many/*", 1000).unwrap();
    assert_eq!((found.entries.len(), found.is_cut), (1000, true));
    let found = root.glob("many/*9", 100_000).unwrap();
    assert_eq!((found.entries.len(), found.is_cut), (10_000, false));
}

/// Directories at the end of a long path cost nothing to make, and much to remember.
#[test]
fn a_search_remembers_only_so_much() {
    let ground = Ground::new();
    let root = ground.root();
    let long = format!("{}/", "d".repeat(250)).repeat(15);
    root.create_dir_all(&long).unwrap();
    let dir = rustix::fs::open(ground.inside(&long), OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).unwrap();
    for number in 0..12_000 {
        rustix::fs::mkdirat(&dir, number.to_string(), Mode::RWXU).unwrap();
    }
    let found = root.glob("**/none", 10).unwrap();
    assert!(found.is_cut && found.entries.is_empty() && found.skipped.is_empty());
    assert!(!root.glob("*/*/none", 10).unwrap().is_cut);
}

/// Between any look and any open: a read never waits for a writer, whatever stands there.
#[test]
fn a_pipe_is_swapped_in() {
    let ground = Ground::new();
    let root = ground.root();
    fs::write(ground.inside("f"), "inside").unwrap();
    rustix::fs::mknodat(CWD, ground.inside("pipe"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let is_over = std::sync::atomic::AtomicBool::new(false);
    let (mut read, mut refused) = (0, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                let (one, other) = (ground.inside("f"), ground.inside("pipe"));
                rustix::fs::renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE).unwrap();
            }
        });
        for _ in 0..20_000 {
            match root.read("f", 100) {
                Ok(content) => {
                    assert_eq!(content, b"inside");
                    read += 1;
                }
                Err(FileError::WrongKind { found: FileKind::Fifo, .. }) => refused += 1,
                Err(FileError::KeepsChanging { .. }) => {}
                Err(other) => panic!("{other:?}"),
            }
            match root.open_for_write("f").map(|mut file| std::io::Write::write_all(&mut file, b"inside")) {
                Ok(written) => written.unwrap(),
                Err(FileError::WrongKind { found: FileKind::Fifo, .. } | FileError::KeepsChanging { .. }) => {}
                // It was a pipe when it was opened, and a file when it was looked at.
                Err(FileError::Io { source, .. }) => assert_eq!(source.raw_os_error(), Some(6), "{source}"),
                Err(other) => panic!("{other:?}"),
            }
        }
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    assert!(read > 0 && refused > 0, "{read} {refused}");
}
