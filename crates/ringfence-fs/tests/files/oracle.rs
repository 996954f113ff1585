//! Where nobody is hostile, a root does what the standard library does.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use ringfence_fs::{FileError, FileKind};
use ringfence_surface::RelativeGlob;

use crate::ground::{Ground, snapshot};

/// Small numbers without a pattern, the same in every run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % sides as u64).unwrap()
    }

    fn path(&mut self) -> PathBuf {
        const NAMES: [&str; 5] = ["a", "b", "c", "d.txt", "\u{e9}"];
        let depth = 1 + self.roll(3);
        (0..depth).map(|_| NAMES[self.roll(NAMES.len())]).collect()
    }
}

type Said<T> = Result<T, ErrorKind>;

fn ours<T>(result: Result<T, FileError>) -> Said<T> {
    result.map_err(|error| match error {
        FileError::WrongKind { found: FileKind::Directory, .. } => ErrorKind::IsADirectory,
        error => error.io_kind().unwrap_or_else(|| panic!("{error:?}")),
    })
}

fn theirs<T>(result: io::Result<T>) -> Said<T> {
    result.map_err(|error| error.kind())
}

fn names(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let mut names = fs::read_dir(dir)?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
    names.sort();
    Ok(names)
}

#[test]
fn a_root_agrees_with_the_standard_library() {
    let (mut done, mut failed) = (0, 0);
    for seed in 1..=150 {
        let ground = Ground::new();
        fs::create_dir(ground.base().join("naive")).unwrap();
        let naive = ground.base().join("naive");
        let root = ground.root();
        let mut dice = Dice(0x9E37_79B9_7F4A_7C15_u64.wrapping_mul(seed));
        for step in 0..120 {
            let (path, other) = (dice.path(), dice.path());
            let (there, elsewhere) = (naive.join(&path), naive.join(&other));
            let content = vec![b'x'; dice.roll(100)];
            let (ours, theirs): (Said<Vec<u8>>, Said<Vec<u8>>) = match dice.roll(8) {
                0 => (
                    ours(root.write(&path, &content)).map(|()| vec![]),
                    theirs(write(&there, &content)).map(|()| vec![]),
                ),
                1 => (
                    ours(root.open_for_write(&path)).map(|mut file| {
                        io::Write::write_all(&mut file, &content).unwrap();
                        vec![]
                    }),
                    theirs(write(&there, &content)).map(|()| vec![]),
                ),
                2 => (
                    ours(root.create_dir_all(&path)).map(|()| vec![]),
                    theirs(fs::create_dir_all(&there)).map(|()| vec![]),
                ),
                3 => (ours(root.remove(&path)).map(|()| vec![]), theirs(fs::remove_file(&there)).map(|()| vec![])),
                4 => (ours(root.remove_dir(&path)).map(|()| vec![]), theirs(fs::remove_dir(&there)).map(|()| vec![])),
                5 => (
                    ours(root.rename(&path, &other)).map(|()| vec![]),
                    theirs(fs::rename(&there, &elsewhere)).map(|()| vec![]),
                ),
                6 => (ours(root.read(&path, 1 << 20)), theirs(fs::read(&there))),
                _ => (
                    ours(root.list(&path, 1000)).map(|all| joined(all.into_iter().map(|entry| entry.path))),
                    theirs(names(&there))
                        .map(|all| joined(all.into_iter().map(|path| path.strip_prefix(&naive).unwrap().to_owned()))),
                ),
            };
            let place = format!("seed {seed}, step {step}: {} and {}", path.display(), other.display());
            match (ours, theirs) {
                // The library stops at a file that is in the way with another word for it.
                (Err(ErrorKind::NotADirectory), Err(ErrorKind::AlreadyExists)) => failed += 1,
                (Ok(ours), Ok(theirs)) => {
                    assert_eq!(ours, theirs, "{place}");
                    done += 1;
                }
                (ours, theirs) => {
                    assert_eq!(ours, theirs, "{place}");
                    failed += 1;
                }
            }
        }
        assert_eq!(snapshot(&ground.inside("")), snapshot(&naive), "seed {seed}");
        globs_agree(&ground);
    }
    assert!(done > 4000 && failed > 4000, "{done} {failed}");
}

fn write(path: &Path, content: &[u8]) -> io::Result<()> {
    fs::create_dir_all(path.parent().unwrap())?;
    fs::write(path, content)
}

fn joined(paths: impl Iterator<Item = PathBuf>) -> Vec<u8> {
    use std::os::unix::ffi::OsStrExt as _;
    paths.map(|path| path.as_os_str().as_bytes().to_vec()).collect::<Vec<_>>().join(&0)
}

/// A search beside a walk that asks the pattern about every path.
fn globs_agree(ground: &Ground) {
    use std::os::unix::ffi::OsStrExt as _;
    let all = ground.insides();
    for pattern in ["**", "*", "a/**", "**/*.txt", "*/b", "a/*/c", "**/a/**/b", "[ab]/**", "?", "a/b", "a/b/**"] {
        let glob = RelativeGlob::search(pattern.as_bytes()).unwrap();
        let expected: Vec<&PathBuf> =
            all.keys().filter(|path| glob.is_match(glob.after(path.as_os_str().as_bytes()))).collect();
        let found = ground.root().glob(pattern, 100_000).unwrap();
        assert_eq!(found.entries.iter().map(|entry| &entry.path).collect::<Vec<_>>(), expected, "{pattern}");
    }
}
