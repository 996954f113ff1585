//! Private caches start with what the project's lock file names, copied from the user's own.
//!
//! Without this the first build inside would download everything again, and one that needs a private registry would need its
//! password. A lock file names each package with its hash. Whoever knows the hash has had the package in hand, so copying by
//! hash shows the agent nothing of other projects, although it may write the lock file.
//!
//! There is nothing of the kind for pip, uv, poetry, Maven and Gradle: their caches are not addressed by what a lock file says.
//! They fill their private caches from the network.

mod cargo;
mod go;
mod npm;
mod text;

use std::fs::File;
use std::io;

use ringfence_surface::curated::packs::{Cache, LockFile, pack};
use ringfence_surface::{AbsPath, Look};

use crate::beneath::{Dir, Tree, read_real};
use crate::home::Ground;

/// Longer lock files are not read.
const MOST_LOCK_BYTES: u64 = 64 << 20;
/// Larger packages are left to the network.
const MOST_PACKAGE_BYTES: u64 = 1 << 30;
/// The file beside the caches, out of the agent's reach, that says what was done already.
const DONE: &str = "copied";

/// What was copied.
#[derive(Debug, Default, PartialEq, Eq, Clone, Copy)]
pub(crate) struct Seeded {
    /// Packages that were copied now.
    pub(crate) copied: usize,
    /// Packages that the user has not, or not with this hash.
    pub(crate) missing: usize,
}

/// The packages of the user's own cache, and those of the project's.
struct Job {
    lock: Vec<u8>,
    from: Tree,
    into: Dir,
    seeded: Seeded,
}

/// Fills the caches of the packs that take part.
///
/// # Errors
/// When a cache cannot be written; what the user's own lacks is no error.
pub(crate) fn seed(ground: &Ground<'_>, look: &mut dyn Look) -> io::Result<Seeded> {
    let root = ground.surface.root();
    let Some(caches) = ground.facts.project_cache(root).and_then(|caches| ground.real(&caches, look)) else {
        return Ok(Seeded::default());
    };
    let done = read_real(&caches.join(DONE), 4096).unwrap_or_default();
    let mut now = Vec::new();
    let mut sum = Seeded::default();
    for cache in ground.surface.packs().iter().filter_map(|name| pack(name)).flat_map(|pack| pack.caches) {
        let Some(kind) = cache.lock else { continue };
        let lock = root.join(file_name(kind));
        let Some(from) = users_own(cache, ground).and_then(|own| ground.real(&own.join(packages(kind)), look)) else {
            continue;
        };
        // What the agent may write itself is no cache of the user's.
        if ground.is_denied_by_policy(&from) || ground.is_writable(&from) {
            continue;
        }
        let Some(mark) = mark(cache, &lock, &watched(kind, &from)) else { continue };
        let mut seeded = Seeded::default();
        if !is_done(&done, &mark) || !is_filled(&caches.join(cache.dir).join(packages(kind))) {
            let (Ok(lock), Ok(from)) = (read_real(&lock, MOST_LOCK_BYTES), Tree::open(&from)) else { continue };
            let into = Dir::open(&caches.join(cache.dir), ground.owner)?.below(packages(kind).as_bytes())?;
            seeded = Job { lock, from, into, seeded }.run(kind)?;
            sum = Seeded { copied: sum.copied + seeded.copied, missing: sum.missing + seeded.missing };
        }
        // Nothing in Go's cache tells that a module arrived deep in it, so what is missing is looked for each time.
        if kind != LockFile::Go || seeded.missing == 0 {
            now.extend(mark);
        }
    }
    if now != done && !now.is_empty() {
        Dir::open(&caches, None)?.put(DONE.as_bytes(), &now)?;
    }
    Ok(sum)
}

fn file_name(kind: LockFile) -> &'static str {
    match kind {
        LockFile::Cargo => "Cargo.lock",
        LockFile::Go => "go.sum",
        LockFile::Npm => "package-lock.json",
    }
}

/// Where the user's own cache is: where its variable says, or at its usual place.
fn users_own(cache: &Cache, ground: &Ground<'_>) -> Option<AbsPath> {
    let variable = |name: &str| AbsPath::lexical(ground.caller.get(name.as_bytes())?).ok();
    let usual = || Some(ground.facts.all_homes().into_iter().next()?.join(cache.home.strip_prefix("~/")?));
    let by_go_path =
        || variable("GOPATH").filter(|_| cache.lock == Some(LockFile::Go)).map(|path| path.join("pkg/mod"));
    variable(cache.variable).or_else(by_go_path).or_else(usual)
}

/// Where in a cache the packages are.
fn packages(kind: LockFile) -> &'static str {
    match kind {
        LockFile::Cargo => "registry",
        LockFile::Go => "cache/download",
        LockFile::Npm => "_cacache",
    }
}

/// A directory below that changes when a package arrives.
fn watched(kind: LockFile, from: &AbsPath) -> AbsPath {
    match kind {
        LockFile::Cargo => from.join("cache"),
        LockFile::Go => from.clone(),
        // npm writes each package there before it moves it to its place.
        LockFile::Npm => from.join("tmp"),
    }
}

/// One line that is the same as long as there is nothing new to copy; `None` where there is nothing to copy at all.
fn mark(cache: &Cache, lock: &AbsPath, watched: &AbsPath) -> Option<Vec<u8>> {
    let lock = rustix::fs::lstat(lock.as_bytes()).ok()?;
    let times = newest(watched)?;
    let line =
        format!("{} {} {} {}.{} {times}\n", cache.dir, lock.st_ino, lock.st_size, lock.st_mtime, lock.st_mtime_nsec);
    Some(line.into_bytes())
}

/// When the directory or one directly in it last changed.
fn newest(dir: &AbsPath) -> Option<String> {
    let time = |path: &AbsPath| {
        let status = rustix::fs::stat(path.as_bytes()).ok()?;
        Some((status.st_mtime, status.st_mtime_nsec))
    };
    let inner = text::names(dir).into_iter().take(64).filter_map(|name| time(&dir.child(&name)));
    let (seconds, nanoseconds) = inner.chain(time(dir)).max()?;
    Some(format!("{seconds}.{nanoseconds}"))
}

fn is_done(done: &[u8], mark: &[u8]) -> bool {
    done.split_inclusive(|byte| *byte == b'\n').any(|line| line == mark)
}

/// The agent may have emptied it since.
fn is_filled(cache: &AbsPath) -> bool {
    Tree::open(cache).is_ok_and(|cache| !cache.names(b".").is_empty())
}

impl Job {
    fn run(mut self, kind: LockFile) -> io::Result<Seeded> {
        match kind {
            LockFile::Cargo => self.cargo()?,
            LockFile::Go => self.go()?,
            LockFile::Npm => self.npm()?,
        }
        Ok(self.seeded)
    }

    fn open(&self, path: &[u8]) -> Option<File> {
        self.from.file(path, MOST_PACKAGE_BYTES).ok()
    }

    /// Copies a file that goes with a package, where the project has none.
    fn beside(&self, path: &[u8], dir: &Dir, name: &[u8]) -> io::Result<()> {
        match self.open(path) {
            Some(file) if !dir.has(name) => dir.copy(name, &file),
            _ => Ok(()),
        }
    }
}
