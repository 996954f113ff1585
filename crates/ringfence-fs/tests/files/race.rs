//! A second thread swaps directories, links and files while everything is tried a hundred thousand times: nothing lands outside.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use ringfence_fs::{FileError, Root};
use rustix::fs::{CWD, RenameFlags};

use crate::ground::Ground;

const OPERATIONS: usize = 100_000;

/// Lays out what is swapped: directories with links to the outside, files with links to files there, and a directory that moves.
fn lay_out(ground: &Ground) {
    for dir in ["a", "b", "c/d", "m"] {
        fs::create_dir_all(ground.inside(dir)).unwrap();
    }
    fs::create_dir(ground.outside("d")).unwrap();
    fs::write(ground.outside("f"), "SECRET").unwrap();
    fs::write(ground.outside("g"), "SECRET").unwrap();
    fs::write(ground.outside("d/f"), "SECRET").unwrap();
    symlink(ground.outside(""), ground.inside("a-link")).unwrap();
    symlink("../../out/f", ground.inside("b/f-link")).unwrap();
    fs::write(ground.inside("b/f"), "inside").unwrap();
    symlink("../../out", ground.inside("c/link")).unwrap();
}

/// Swaps without end. Whatever the other thread did to its pieces, it puts them back.
fn swap(ground: &Ground, is_over: &AtomicBool) {
    let exchange = |one: &str, other: &str| {
        let _ = rustix::fs::renameat_with(CWD, ground.inside(one), CWD, ground.inside(other), RenameFlags::EXCHANGE);
    };
    let put = |name: &str| fs::rename(ground.inside("spare"), ground.inside(name));
    while !is_over.load(Ordering::Relaxed) {
        let _ = fs::write(ground.inside("spare"), "inside").and_then(|()| put("b/f"));
        let _ = symlink("../../out/f", ground.inside("spare")).and_then(|()| put("b/f-link"));
        exchange("a", "a-link");
        exchange("b/f", "b/f-link");
        // A directory goes and a link to the outside stands in its place, without an exchange.
        let _ = fs::rename(ground.inside("c/d"), ground.inside("c/away"));
        let _ = symlink("../../out/d", ground.inside("c/d"));
        exchange("c/d", "c/link");
        let _ = fs::remove_file(ground.inside("c/d"));
        let _ = fs::rename(ground.inside("c/away"), ground.inside("c/d"));
        let _ = symlink("../../out", ground.inside("c/link"));
        // A directory moves within the root: `..` from inside it leads elsewhere each time.
        let _ = fs::rename(ground.inside("m"), ground.inside("b/m"));
        exchange("a", "a-link");
        let _ = fs::rename(ground.inside("b/m"), ground.inside("m"));
    }
}

/// What was done, and what was refused.
#[derive(Debug, Default)]
struct Tally {
    done: usize,
    escapes: usize,
    others: usize,
}

impl Tally {
    fn note(&mut self, result: Result<(), FileError>) {
        match result {
            Ok(()) => self.done += 1,
            Err(FileError::PathEscape { .. }) => self.escapes += 1,
            Err(FileError::NoOpenat2 | FileError::NotLinux | FileError::PathNotAllowed { .. }) => panic!("no reason"),
            Err(_) => self.others += 1,
        }
    }
}

fn operate(root: &Root, number: usize) -> Result<(), FileError> {
    const PLACES: [&str; 6] = ["a", "b", "c/d", "m", "a/m/../x", "b/m"];
    let place = Path::new(PLACES[number / 12 % PLACES.len()]);
    let (f, g) = (place.join("f"), place.join("g"));
    match number % 12 {
        0 | 1 => root.read(&f, 100).map(|content| assert_ne!(content, b"SECRET", "the outside was read")),
        2 => root.open_for_write(&f).map(|mut file| file.write_all(b"inside").unwrap()),
        3 => root.write(&f, b"inside"),
        4 => root.create_dir_all(place.join("x/y")),
        5 => root.rename(&f, &g),
        6 => root.remove(&g),
        7 => root.remove_dir(place.join("x/y")),
        8 => root.list(place, 100).map(|entries| {
            assert!(entries.iter().all(|entry| !entry.path.ends_with("secret")), "the outside was listed");
        }),
        9 => root.glob(place.join("**"), 1000).map(|found| {
            assert!(found.entries.iter().all(|entry| !entry.path.ends_with("secret")), "the outside was searched");
        }),
        10 => root.rename(place.join("x"), place.join("z")),
        _ => root.remove_dir(place.join("z")),
    }
}

/// T2 and T5, with every kind of operation.
#[test]
fn t5_nothing_lands_outside_while_the_tree_is_swapped() {
    let ground = Ground::new();
    lay_out(&ground);
    let (root, before) = (ground.root(), ground.outsides());
    let is_over = AtomicBool::new(false);
    let (mut tally, mut lured) = (Tally::default(), 0);
    std::thread::scope(|scope| {
        scope.spawn(|| swap(&ground, &is_over));
        for number in 0..OPERATIONS {
            tally.note(operate(&root, number));
            // Whoever looks first and opens then is lured: the swaps are real.
            if number % 4 == 0 && fs::read(ground.inside("b/f")).is_ok_and(|content| content == b"SECRET") {
                lured += 1;
            }
        }
        is_over.store(true, Ordering::Relaxed);
    });
    assert_eq!(ground.outsides(), before, "something landed outside");
    assert!(tally.done > OPERATIONS / 50, "{tally:?}");
    assert!(tally.escapes > 100, "{tally:?}");
    assert!(lured > 100, "nobody was lured, so nothing was shown: {lured}");
}

/// A directory that moves out of the root while a call works in it: only what is in that directory changes.
#[test]
fn t5_a_directory_that_is_moved_out() {
    let ground = Ground::new();
    fs::create_dir_all(ground.inside("m/n")).unwrap();
    let (root, before) = (ground.root(), ground.outsides());
    let is_over = AtomicBool::new(false);
    let mut done = 0;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                let _ = fs::rename(ground.inside("m"), ground.outside("m"));
                if fs::rename(ground.outside("m"), ground.inside("m")).is_err() {
                    // A write has made the directory anew.
                    let _ = fs::remove_dir_all(ground.inside("m"));
                }
            }
        });
        for number in 0..20_000 {
            let result = match number % 6 {
                0 => root.write("m/n/f", b"inside"),
                1 => root.open_for_write("m/../m/n/g").map(drop),
                2 => root.rename("m/n/f", "m/n/g"),
                3 => root.read("m/n/g", 100).map(drop),
                4 => root.remove("m/n/g"),
                _ => root.read("m/n/../../secret", 100).map(|content| assert_ne!(content, b"SECRET")),
            };
            done += usize::from(result.is_ok());
        }
        is_over.store(true, Ordering::Relaxed);
    });
    let moved = |path: &Path| path.starts_with("m");
    let after: Vec<_> = ground.outsides().into_iter().filter(|(path, _)| !moved(path)).collect();
    assert_eq!(after, before.into_iter().collect::<Vec<_>>());
    assert!(done > 100, "{done}");
}
