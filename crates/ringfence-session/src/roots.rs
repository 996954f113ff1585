//! Roots: directories that hold the programs of a few classes of tools with exactly what those need, and a place to work in.
//!
//! A root is what a command sees as `/` in the chroot backend. It holds no file that is not in its manifest, but in its places:
//! the work, temporary files, caches, and what belongs to a session. It is made beside its place and moved there when it is whole.
//!
//! Paths are the same inside and outside: in each root a link at the path of the root itself leads to `/`.

mod check;
mod classes;
mod collect;
mod compilers;
mod elf;
mod error;
mod make;
mod manifest;
mod search;

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};

use ringfence_surface::AbsPath;
use rustix::fs::{FlockOperation, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

use crate::aliases::mount_points;
use crate::remove::remove_tree;
use crate::text::Bytes;
use crate::walk::os_path;

pub use check::Depth;
pub use classes::Class;
pub use error::RootError;
pub use manifest::{Entry, Kind, LeftOut, Manifest, SCHEMA};

/// All roots of a user.
#[derive(Debug, Clone)]
pub struct Roots {
    /// Where sessions keep what is their own, which their commands see at its own path.
    state: AbsPath,
    dir: AbsPath,
}

/// What a new root is to be.
#[derive(Debug)]
pub struct Wanted<'w> {
    /// What it is called.
    pub name: &'w str,
    /// For which classes of tools.
    pub with: BTreeSet<Class>,
    /// Who works in it, where root makes it for somebody else: user and group.
    pub owner: Option<(u32, u32)>,
    /// The directory outside that it is made for.
    pub workspace: Option<&'w AbsPath>,
    /// The caller's PATH.
    pub path: &'w OsStr,
    /// A program that somebody puts there later: the libraries that it needs are in it.
    pub carries: Option<&'w AbsPath>,
}

/// A root that is there. As long as this lives it is not removed.
#[derive(Debug)]
pub struct Root {
    dir: AbsPath,
    manifest: Manifest,
    lock: OwnedFd,
}

/// A root that is there for as long as this lives. It is listed nowhere, and one that a killed process left is collected.
#[derive(Debug)]
pub struct Passing(Root);

/// What was collected of roots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CollectedRoots {
    /// Roots whose workspace is gone, by name; and creations that never ended.
    pub removed: Vec<String>,
    /// What could not be removed.
    pub left: Vec<AbsPath>,
}

/// Where the work is, in every root.
pub const WORK: &str = "work";

/// What begins the name of a root that is being made.
const UNFINISHED: &str = ".new-";

/// Directories that programs write without being told to.
const TEMPORARY: [&str; 3] = ["tmp", "var/tmp", "dev/shm"];

/// Where caches of a project are.
const CACHE: &str = "var/cache";

/// A path inside, seen from outside.
pub(crate) fn within(tree: &AbsPath, path: &AbsPath) -> AbsPath {
    path.components().fold(tree.clone(), |place, name| place.child(name))
}

impl Roots {
    /// Those below ringfence's data directory. They are not kept with its state: no session sees anything of that, and in a root
    /// is the work.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn of(data: &AbsPath, state: &AbsPath) -> io::Result<Self> {
        let made = |dir: &AbsPath| {
            fs::DirBuilder::new().recursive(true).mode(0o711).create(os_path(dir))?;
            // A root is named without links, and so is a session.
            let dir = fs::canonicalize(os_path(dir))?;
            AbsPath::lexical(dir.as_os_str().as_bytes()).map_err(io::Error::other)
        };
        Ok(Self { dir: made(&data.join("roots"))?, state: made(state)? })
    }

    /// Makes one.
    ///
    /// # Errors
    /// [`RootError`]; nothing is left.
    pub fn create(&self, wanted: &Wanted<'_>) -> Result<Root, RootError> {
        let name = checked(wanted.name)?;
        let place = self.dir.join(name);
        if os_path(&place).exists() {
            return Err(RootError::Exists { name: name.to_owned() });
        }
        let (collector, places) = self.collected(wanted, &place)?;
        let new = self.dir.join(&format!("{UNFINISHED}{name}-{}", std::process::id()));
        let failed = |source| RootError::File { path: new.clone(), source };
        fs::DirBuilder::new().mode(0o711).create(os_path(&new)).map_err(failed)?;
        let made = self.fill(&new, wanted, &collector, &places).and_then(|(manifest, lock)| {
            match rustix::fs::renameat_with(
                rustix::fs::CWD,
                new.as_bytes(),
                rustix::fs::CWD,
                place.as_bytes(),
                RenameFlags::NOREPLACE,
            ) {
                Ok(()) => Ok(Root { dir: place.clone(), manifest, lock }),
                Err(Errno::EXIST) => Err(RootError::Exists { name: name.to_owned() }),
                Err(errno) => Err(RootError::File { path: place.clone(), source: errno.into() }),
            }
        });
        let root = made.inspect_err(|_| {
            // What is left is collected later.
            let _ = remove_tree(os_path(&new));
        })?;
        root.check(Depth::Changed)?;
        Ok(root)
    }

    /// Makes one that goes with the value.
    ///
    /// # Errors
    /// As [`Roots::create`].
    pub fn create_passing(&self, wanted: &Wanted<'_>) -> Result<Passing, RootError> {
        let place = self.dir.join(&format!("{UNFINISHED}{}-{}", checked(wanted.name)?, std::process::id()));
        let (collector, places) = self.collected(wanted, &place)?;
        let failed = |source| RootError::File { path: place.clone(), source };
        fs::DirBuilder::new().mode(0o711).create(os_path(&place)).map_err(failed)?;
        let made = self.fill(&place, wanted, &collector, &places);
        let (manifest, lock) = made.inspect_err(|_| {
            // What is left is collected later.
            let _ = remove_tree(os_path(&place));
        })?;
        Ok(Passing(Root { dir: place, manifest, lock }))
    }

    /// What a root in this place is made of, and its places.
    fn collected(
        &self,
        wanted: &Wanted<'_>,
        place: &AbsPath,
    ) -> Result<(collect::Collector, BTreeSet<AbsPath>), RootError> {
        let mut collector = collect::Collector::new(wanted.path.as_bytes());
        wanted.with.iter().try_for_each(|class| classes::collect(*class, &mut collector))?;
        if let Some(program) = wanted.carries {
            let missing = |why| RootError::Carried { program: program.clone(), why };
            collector.needs_of(program).map_err(missing)?;
        }
        classes::common(&mut collector, wanted.owner);
        classes::devices(&mut collector);
        collector.finish();
        // What is at a path outside is at the same path inside.
        let itself = place.join("tree");
        collector.own(&itself, collect::Item::Link { target: b"/".to_vec() });
        let places = self.places();
        for path in &places {
            collector.own(path, collect::Item::Directory);
        }
        collector.items.retain(|path, _| !places.contains(path));
        Ok((collector, places))
    }

    fn places(&self) -> BTreeSet<AbsPath> {
        let own = TEMPORARY.iter().chain(&[WORK, CACHE]).map(|path| AbsPath::root().join(path));
        // Roots may be kept where temporary files are. Then that is no place for them inside: the way to the root leads there.
        let own = own.filter(|path| !self.dir.is_within(path));
        own.chain([self.state.join("sessions"), self.state.join("calls")]).collect()
    }

    fn fill(
        &self,
        new: &AbsPath,
        wanted: &Wanted<'_>,
        collector: &collect::Collector,
        places: &BTreeSet<AbsPath>,
    ) -> Result<(Manifest, OwnedFd), RootError> {
        let failed = |source| RootError::File { path: new.clone(), source };
        let lock = lock(new, FlockOperation::NonBlockingLockShared).map_err(failed)?;
        let lock = lock.ok_or_else(|| RootError::InUse { name: wanted.name.to_owned() })?;
        let tree = new.join("tree");
        let directory = |path: &AbsPath, mode: u32| {
            fs::DirBuilder::new().create(os_path(path))?;
            fs::set_permissions(os_path(path), Permissions::from_mode(mode))
        };
        directory(&tree, 0o755).map_err(failed)?;
        let entries = make::make(&collector.items, &tree)?;
        for path in places {
            let place = within(&tree, path);
            let mode = match (wanted.owner, is_temporary(path)) {
                (Some(_), true) => 0o1777,
                _ if path.is_within(&self.state) => 0o711,
                _ => 0o755,
            };
            directory(&place, mode).map_err(failed)?;
            if let (Some((uid, gid)), false) = (wanted.owner, path.is_within(&self.state)) {
                std::os::unix::fs::chown(os_path(&place), Some(uid), Some(gid)).map_err(failed)?;
            }
        }
        let manifest = Manifest {
            schema: SCHEMA,
            name: wanted.name.to_owned(),
            with: wanted.with.iter().map(ToString::to_string).collect(),
            owner: wanted.owner,
            workspace: wanted.workspace.map(|path| Bytes::new(path.as_bytes())),
            places: places.iter().map(|path| Bytes::new(path.as_bytes())).collect(),
            entries,
            left_out: collector
                .left_out
                .iter()
                .map(|left| LeftOut { what: left.what.clone(), why: left.why.clone() })
                .collect(),
            variables: collector
                .variables
                .iter()
                .map(|(name, path)| ((*name).to_owned(), Bytes::new(path.as_bytes())))
                .collect(),
        };
        manifest.write(os_path(&new.join(MANIFEST))).map_err(failed)?;
        Ok((manifest, lock))
    }

    /// The root of this name. It is checked before it is used: see [`Root::check`].
    ///
    /// # Errors
    /// When there is none, or its manifest cannot be read.
    pub fn open(&self, name: &str) -> Result<Root, RootError> {
        let dir = self.dir.join(checked(name)?);
        let not_found = || RootError::NotFound { name: name.to_owned() };
        if !os_path(&dir).is_dir() {
            return Err(not_found());
        }
        let failed = |source| RootError::File { path: dir.clone(), source };
        let lock = lock(&dir, FlockOperation::NonBlockingLockShared).map_err(failed)?.ok_or_else(not_found)?;
        let manifest = Manifest::read(os_path(&dir.join(MANIFEST)));
        let manifest = manifest.map_err(|source| RootError::Manifest { name: name.to_owned(), source })?;
        Ok(Root { dir, manifest, lock })
    }

    /// The names of all roots, sorted.
    ///
    /// # Errors
    /// When they cannot be listed.
    pub fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(os_path(&self.dir))? {
            let name = entry?.file_name();
            names.extend(name.to_str().filter(|name| checked(name).is_ok()).map(str::to_owned));
        }
        names.sort();
        Ok(names)
    }

    /// Removes one, with what is in its places.
    ///
    /// # Errors
    /// When it is in use, holds work and `work` says that this stays, or something is mounted in it.
    pub fn remove(&self, name: &str, work: Work) -> Result<(), RootError> {
        let dir = self.dir.join(checked(name)?);
        if !os_path(&dir).is_dir() {
            return Err(RootError::NotFound { name: name.to_owned() });
        }
        let failed = |source| RootError::File { path: dir.clone(), source };
        let in_use = || RootError::InUse { name: name.to_owned() };
        let _lock = lock(&dir, FlockOperation::NonBlockingLockExclusive).map_err(failed)?.ok_or_else(in_use)?;
        let work_place = dir.join("tree").join(WORK);
        if work == Work::Kept && has_entries(&work_place) {
            return Err(RootError::Work { work: work_place });
        }
        if let Some(at) = mount_points().map_err(failed)?.into_iter().find(|at| at.is_within(&dir)) {
            return Err(RootError::Mounted { at });
        }
        // A root that is half gone is found by nobody.
        let going = self.dir.join(&format!("{UNFINISHED}{name}-{}", std::process::id()));
        fs::rename(os_path(&dir), os_path(&going)).map_err(failed)?;
        remove_tree(os_path(&going)).map_err(failed)
    }

    /// Removes what creations left that never ended, roots whose workspace is gone, and what dead sessions left in the others.
    /// A root in which there is work stays.
    pub fn gc(&self) -> CollectedRoots {
        let mut collected = CollectedRoots { removed: Vec::new(), left: Vec::new() };
        for entry in fs::read_dir(os_path(&self.dir)).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let dir = self.dir.child(name.as_bytes());
            let Ok(Some(_lock)) = lock(&dir, FlockOperation::NonBlockingLockExclusive) else { continue };
            let Some(name) = name.to_str() else { continue };
            if !name.starts_with(UNFINISHED) {
                clean(&dir.join("tree"));
                self.sweep(&dir.join("tree"));
                if !is_abandoned(&dir) {
                    continue;
                }
            }
            match remove_tree(os_path(&dir)) {
                Ok(()) => collected.removed.push(name.to_owned()),
                Err(_) => collected.left.push(dir),
            }
        }
        collected.removed.sort();
        collected
    }

    /// What sessions left in a root that are not there any more.
    fn sweep(&self, tree: &AbsPath) {
        for kind in ["sessions", "calls"] {
            let outside = self.state.join(kind);
            let inside = within(tree, &outside);
            for entry in fs::read_dir(os_path(&inside)).into_iter().flatten().flatten() {
                let name = entry.file_name();
                if !os_path(&outside.child(name.as_bytes())).exists() {
                    // What cannot be removed now is tried again.
                    let _ = remove_tree(os_path(&inside.child(name.as_bytes())));
                }
            }
        }
    }
}

/// The loader of a program and its libraries, for a root that does not have them. None for one that needs none.
///
/// # Errors
/// Where one is not there.
pub(crate) fn brought(program: &AbsPath) -> Result<Option<(AbsPath, Vec<AbsPath>)>, RootError> {
    let found = collect::Collector::new(b"").brought(program);
    found.map_err(|why| RootError::Carried { program: program.clone(), why })
}

/// What becomes of the work in a root that is removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// A root that holds some is not removed.
    Kept,
    /// It goes too.
    Removed,
}

const MANIFEST: &str = "manifest.json";
const STAMPS: &str = "stamps.json";

impl Root {
    /// What is in it.
    #[must_use]
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// What is `/` inside.
    #[must_use]
    pub fn tree(&self) -> AbsPath {
        self.dir.join("tree")
    }

    /// Where the work is, seen from outside.
    #[must_use]
    pub fn work(&self) -> AbsPath {
        self.tree().join(WORK)
    }

    /// Where caches are, seen from outside.
    #[must_use]
    pub fn cache(&self) -> AbsPath {
        self.tree().join(CACHE)
    }

    /// A place inside, seen from outside.
    #[must_use]
    pub fn within(&self, path: &AbsPath) -> AbsPath {
        within(&self.tree(), path)
    }

    /// Is it still what was made?
    ///
    /// # Errors
    /// [`RootError::Changed`] where it is not.
    pub fn check(&self, depth: Depth) -> Result<(), RootError> {
        const FEW: usize = 3;
        let failed = |source| RootError::File { path: self.dir.clone(), source };
        let stamps = self.dir.join(STAMPS);
        let mut what = check::check(&self.manifest, &self.tree(), os_path(&stamps), depth).map_err(failed)?;
        if what.is_empty() {
            return Ok(());
        }
        let more_of = what.len().saturating_sub(FEW);
        what.truncate(FEW);
        Err(RootError::Changed { name: self.manifest.name.clone(), what, more_of })
    }
}

impl Passing {
    /// The root itself.
    #[must_use]
    pub fn root(&self) -> &Root {
        &self.0
    }
}

impl Drop for Passing {
    fn drop(&mut self) {
        // What cannot be removed now is collected later.
        let _ = remove_tree(os_path(&self.0.dir));
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        // Whoever is the last leaves no temporary files. The lock is asked for once more by its own name: a copy of this one
        // may still be held by a process of the session.
        let alone = rustix::fs::flock(&self.lock, FlockOperation::NonBlockingLockExclusive).is_ok();
        if alone {
            clean(&self.tree());
        }
    }
}

/// Is this, seen from inside, a directory for temporary files?
pub(crate) fn is_temporary(path: &AbsPath) -> bool {
    TEMPORARY.iter().any(|name| *path == AbsPath::root().join(name))
}

/// Removes temporary files.
fn clean(tree: &AbsPath) {
    // Where roots are kept among temporary files, the way to this one leads through that directory.
    let is_place = |name: &&&str| !tree.is_within(&AbsPath::root().join(name));
    for place in TEMPORARY.iter().filter(is_place).map(|name| tree.join(name)) {
        for entry in fs::read_dir(os_path(&place)).into_iter().flatten().flatten() {
            let path = place.child(entry.file_name().as_bytes());
            // What cannot be removed is there for the next, who is the same tenant.
            let _ = match entry.file_type() {
                Ok(kind) if kind.is_dir() => remove_tree(os_path(&path)),
                _ => fs::remove_file(os_path(&path)),
            };
        }
    }
    make::empty_substitute(os_path(tree));
}

/// Was it made for a directory that is gone, and holds no work?
fn is_abandoned(dir: &AbsPath) -> bool {
    let Ok(manifest) = Manifest::read(os_path(&dir.join(MANIFEST))) else { return false };
    let Some(workspace) = manifest.workspace.and_then(|path| path.path()) else { return false };
    let is_gone = fs::symlink_metadata(os_path(&workspace)).is_err_and(|cause| cause.kind() == io::ErrorKind::NotFound);
    is_gone && !has_entries(&dir.join("tree").join(WORK))
}

/// When in doubt, yes.
fn has_entries(dir: &AbsPath) -> bool {
    fs::read_dir(os_path(dir)).map_or(true, |mut entries| entries.next().is_some())
}

fn checked(name: &str) -> Result<&str, RootError> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    let is_name = name.len() <= 64
        && name.bytes().all(is_plain)
        && name.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric());
    if is_name { Ok(name) } else { Err(RootError::Name { name: name.to_owned() }) }
}

/// A root's lock is its directory: shared by those who use it, and alone for whoever removes it.
fn lock(dir: &AbsPath, how: FlockOperation) -> io::Result<Option<OwnedFd>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let dir = rustix::fs::open(dir.as_bytes(), flags, Mode::empty())?;
    match rustix::fs::flock(&dir, how) {
        Ok(()) => Ok(Some(dir)),
        Err(Errno::WOULDBLOCK) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

#[cfg(test)]
mod tests;
