//! From a path of the caller's to a directory that is held and a name in it.
//!
//! The kernel walks to the directory, and what it arrived at is asked of it: a directory that is moved or replaced by a link
//! afterwards is still the one that is held. The last name is never followed by the kernel, only here, by hand.
//!
//! `/proc/self` and its like mean whoever asks, and that would be us. Where a path leads into `/proc`, each of its names is
//! walked here, and those mean the caller. The links in there that lead to what a process has open are followed for the
//! caller's own process only, and never for this one.

use std::ffi::CString;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::sync::Arc;

use ringfence_surface::{AbsPath, Access, Because, Effect, Role, Surface};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;

use super::caller::{Caller, c_string};
use super::mounts::Mounts;

/// The kernel's own bound.
const MOST_LINKS: u32 = 40;
/// Directories in directories, more than anybody makes.
const MOST_DEEP: u32 = 100_000;

const HOLD: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);

/// Where a path begins: a directory, and what bounds the way from it.
#[derive(Debug)]
pub(super) struct From {
    pub(super) dir: Arc<OwnedFd>,
    /// Of openat2 only.
    pub(super) bounds: ResolveFlags,
}

/// A directory that is held, and a name in it that nobody has looked at.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) dir: Arc<OwnedFd>,
    /// Where that directory is.
    pub(super) at: AbsPath,
    pub(super) name: Vec<u8>,
    /// Did slashes follow?
    pub(super) slash: bool,
    /// How many links were followed to get here.
    links: u32,
    /// The directory as it was spelled, for what is bounded.
    prefix: Vec<u8>,
}

/// Something that is there, held.
#[derive(Debug)]
pub(super) struct Target {
    pub(super) fd: OwnedFd,
    pub(super) status: Stat,
    /// Where it is; nothing for what has no name, such as a pipe.
    pub(super) path: Option<AbsPath>,
    pub(super) found: Found,
}

/// How something was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    /// By its name in a directory.
    ByName,
    /// By a descriptor of the caller's. The name by which that was opened may be gone.
    ByDescriptor,
}

impl Target {
    /// The same with a descriptor of its own.
    pub(super) fn try_clone(&self) -> rustix::io::Result<Self> {
        let fd = rustix::io::fcntl_dupfd_cloexec(&self.fd, 3)?;
        Ok(Self { fd, status: self.status, path: self.path.clone(), found: self.found })
    }
}

/// Are links at the end followed?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Last {
    Followed,
    Itself,
}

impl Place {
    /// An entry of a directory that is held and whose place is known.
    pub(super) fn entry(dir: Arc<OwnedFd>, at: AbsPath, name: &[u8], prefix: &[u8]) -> Self {
        Self { dir, at, name: name.to_vec(), slash: false, links: 0, prefix: prefix.to_vec() }
    }

    /// Does the name stand for an entry of its own, or for a directory on the way?
    pub(super) fn is_entry(&self) -> bool {
        !matches!(self.name.as_slice(), b"." | b"..")
    }

    /// Is it `/` itself? That is no entry of anything.
    pub(super) fn is_top(&self) -> bool {
        self.name == b"." && self.prefix.first() == Some(&b'/') && self.prefix.iter().all(|byte| *byte == b'/')
    }

    /// Where it is, if it is an entry.
    pub(super) fn path(&self) -> AbsPath {
        if self.is_entry() { self.at.child(&self.name) } else { self.at.clone() }
    }

    /// The name as the kernel takes it, with its slash.
    pub(super) fn spelled(&self) -> rustix::io::Result<CString> {
        let mut name = self.name.clone();
        if self.slash {
            name.push(b'/');
        }
        c_string(&name)
    }

    /// What stands there, without following a link.
    pub(super) fn look(&self) -> rustix::io::Result<Stat> {
        rustix::fs::statat(&self.dir, c_string(&self.name)?.as_c_str(), AtFlags::SYMLINK_NOFOLLOW)
    }
}

impl Target {
    pub(super) fn kind(&self) -> FileType {
        FileType::from_raw_mode(self.status.st_mode)
    }

    /// A path that leads to exactly this, for calls that take nothing else.
    pub(super) fn by_descriptor(&self) -> CString {
        CString::new(format!("/proc/self/fd/{}", self.fd.as_raw_fd())).unwrap_or_default()
    }
}

/// The way of a caller through directories.
#[derive(Debug, Clone, Copy)]
pub(super) struct Resolver<'b> {
    pub(super) caller: Caller<'b>,
    /// `/`.
    pub(super) root: &'b Arc<OwnedFd>,
    pub(super) surface: &'b Surface,
    pub(super) mounts: &'b Mounts,
}

impl Resolver<'_> {
    /// Where a path of the caller's begins.
    pub(super) fn from(&self, fd: i32, path: &[u8]) -> rustix::io::Result<From> {
        let dir = if path.first() == Some(&b'/') { self.root.clone() } else { self.directory(fd)? };
        Ok(From { dir, bounds: ResolveFlags::empty() })
    }

    /// A directory of the caller's that is in the view.
    pub(super) fn directory(&self, fd: i32) -> rustix::io::Result<Arc<OwnedFd>> {
        let dir = self.caller.directory(fd)?;
        // What is no directory is found to be none on the way.
        if self.mounts.hold(dir.as_fd())? { Ok(Arc::new(dir)) } else { Err(Errno::ACCESS) }
    }

    /// The directory that a path names something in, and that name.
    pub(super) fn place(&self, from: &From, path: &[u8]) -> rustix::io::Result<Place> {
        self.place_after(from, path, 0)
    }

    fn place_after(&self, from: &From, path: &[u8], links: u32) -> rustix::io::Result<Place> {
        if links > MOST_LINKS {
            return Err(Errno::LOOP);
        }
        let end = path.iter().rposition(|byte| *byte != b'/').map_or(0, |last| last + 1);
        let slash = end < path.len();
        let start = path[..end].iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
        let (prefix, name) = (&path[..start], &path[start..end]);
        let (name, slash) = if name.is_empty() { (b".".as_slice(), false) } else { (name, slash) };
        let prefix = if end == 0 { path } else { prefix };
        // The way up is bounded too, and the kernel is who knows where it ends.
        let is_up = name == b".." && from.bounds.intersects(ResolveFlags::BENEATH | ResolveFlags::IN_ROOT);
        let (prefix, name) = if is_up { (&path[..end], b".".as_slice()) } else { (prefix, name) };
        let dir = match self.open_prefix(from, prefix) {
            // The way leads through `/proc`, where what is the caller's is looked for among what is ours; or it leads nowhere. Without
            // openat2 (a container engine's filter answers ENOSYS or EPERM) every way is walked so.
            Err(Errno::LOOP | Errno::NOENT | Errno::ACCESS | Errno::NOTDIR | Errno::NOSYS | Errno::PERM)
                if from.bounds.is_empty() =>
            {
                self.walk(from, prefix)?
            }
            other => other?,
        };
        let mut place = Place { at: AbsPath::root(), dir, name: name.to_vec(), slash, links, prefix: prefix.to_vec() };
        let mut at = match directory_of(place.dir.as_fd()) {
            Err(Errno::NAMETOOLONG) => self.far_above(place.dir.as_fd())?,
            other => other?,
        };
        if is_of_processes(&at) {
            place.dir = self.walk(from, prefix)?;
            at = place_of(place.dir.as_fd())?;
        }
        // What is reached from nowhere has no name that a rule could speak of.
        place.at = AbsPath::lexical(&at).map_err(|_| Errno::ACCESS)?;
        Ok(place)
    }

    /// Of a directory whose path is longer than any path can be: one above it that has a path. Rules about what is between the
    /// two cannot be asked, so it must be the session's own, where there are none.
    fn far_above(&self, dir: BorrowedFd<'_>) -> rustix::io::Result<Vec<u8>> {
        let mut above = rustix::fs::openat(dir, c"..", HOLD | OFlags::DIRECTORY, Mode::empty())?;
        for _ in 0..MOST_DEEP {
            match place_of(above.as_fd()) {
                Err(Errno::NAMETOOLONG) => {}
                Ok(path) => {
                    let is_own = |path| {
                        let because = self.surface.decide(path, Access::Write).because;
                        let own = [Role::Scratch, Role::Private, Role::Cache].map(Effect::Write);
                        matches!(because, Because::Rule(rule) if own.contains(&rule.effect))
                    };
                    return if AbsPath::lexical(&path).as_ref().is_ok_and(is_own) {
                        Ok(path)
                    } else {
                        Err(Errno::NAMETOOLONG)
                    };
                }
                Err(errno) => return Err(errno),
            }
            above = rustix::fs::openat(&above, c"..", HOLD | OFlags::DIRECTORY, Mode::empty())?;
        }
        Err(Errno::NAMETOOLONG)
    }

    fn open_prefix(&self, from: &From, prefix: &[u8]) -> rustix::io::Result<Arc<OwnedFd>> {
        if prefix.is_empty() {
            return Ok(from.dir.clone());
        }
        let bounds = from.bounds | ResolveFlags::NO_MAGICLINKS;
        // Bounded walks begin again when something was renamed meanwhile.
        for _ in 0..64 {
            match rustix::fs::openat2(&from.dir, prefix, HOLD | OFlags::DIRECTORY, Mode::empty(), bounds) {
                Err(Errno::AGAIN) => {}
                Err(Errno::LOOP) => return Err(self.bounded_error(from, prefix)),
                other => return other.map(Arc::new),
            }
        }
        Err(Errno::AGAIN)
    }

    /// What the kernel says of a bounded path that leads through a magic link of `/proc`. The link would be this process's and not the
    /// caller's, so nothing is taken from it but the error.
    fn bounded_error(&self, from: &From, prefix: &[u8]) -> Errno {
        let scopes = ResolveFlags::BENEATH | ResolveFlags::IN_ROOT | ResolveFlags::NO_XDEV;
        if !from.bounds.intersects(scopes) {
            return Errno::LOOP;
        }
        match rustix::fs::openat2(&from.dir, prefix, HOLD | OFlags::DIRECTORY, Mode::empty(), from.bounds) {
            Err(Errno::XDEV) => Errno::XDEV,
            _ => Errno::LOOP,
        }
    }

    /// Follows the link that stands at a place.
    pub(super) fn follow(&self, from: &From, place: &Place) -> rustix::io::Result<Place> {
        let name = c_string(&place.name)?;
        if is_of_processes(place.at.as_bytes()) {
            return self.follow_of_process(from, place, &name);
        }
        let mut text = rustix::fs::readlinkat(&place.dir, name.as_c_str(), Vec::new())?.into_bytes();
        if text.is_empty() {
            return Err(Errno::NOENT);
        }
        if place.slash {
            text.push(b'/');
        }
        let links = place.links + 1;
        if from.bounds.contains(ResolveFlags::NO_SYMLINKS) {
            return Err(Errno::LOOP);
        }
        let is_absolute = text.first() == Some(&b'/');
        if !(from.bounds & (ResolveFlags::BENEATH | ResolveFlags::IN_ROOT)).is_empty() {
            if is_absolute && from.bounds.contains(ResolveFlags::BENEATH) {
                return Err(Errno::XDEV);
            }
            let whole = if is_absolute { text } else { [place.prefix.as_slice(), &text].concat() };
            return self.place_after(from, &whole, links);
        }
        let dir = if is_absolute { self.root.clone() } else { place.dir.clone() };
        self.place_after(&From { dir, bounds: from.bounds }, &text, links)
    }

    /// A link in `/proc`, at the end of a path. Those that are text mean the caller.
    fn follow_of_process(&self, bound: &From, place: &Place, name: &CString) -> rustix::io::Result<Place> {
        // The kernel refuses any link first, then those that are magic, then those that leave the mount or the scope.
        if bound.bounds.contains(ResolveFlags::NO_SYMLINKS) {
            return Err(Errno::LOOP);
        }
        let from = From { dir: place.dir.clone(), bounds: ResolveFlags::empty() };
        if let Some(text) = self.own_name(&place.at, name.as_bytes())? {
            return self.place_after(&from, &text, place.links + 1);
        }
        if is_text(&place.at, name.as_bytes()) {
            let text = rustix::fs::readlinkat(&place.dir, name.as_c_str(), Vec::new())?.into_bytes();
            return self.place_after(&from, &text, place.links + 1);
        }
        if bound.bounds.contains(ResolveFlags::NO_MAGICLINKS) {
            return Err(Errno::LOOP);
        }
        if bound.bounds.intersects(ResolveFlags::BENEATH | ResolveFlags::IN_ROOT) {
            return Err(Errno::XDEV);
        }
        // One that leads to what is open: the place is what it leads to, and has no further name.
        let held = self.open_of_process(&place.dir, &place.at, name)?;
        if bound.bounds.contains(ResolveFlags::NO_XDEV) && mount_of(held.as_fd())? != mount_of(place.dir.as_fd())? {
            return Err(Errno::XDEV);
        }
        let at = AbsPath::lexical(&place_of(held.as_fd())?).unwrap_or_else(|_| AbsPath::root());
        Ok(Place {
            dir: Arc::new(held),
            at,
            name: Vec::new(),
            slash: place.slash,
            links: place.links + 1,
            prefix: Vec::new(),
        })
    }

    /// What stands at a place, held.
    pub(super) fn target(&self, from: &From, place: Place, last: Last) -> rustix::io::Result<Target> {
        let mut place = place;
        loop {
            if place.name.is_empty() {
                // What a descriptor leads to.
                return self.opened(rustix::io::fcntl_dupfd_cloexec(&place.dir, 3)?);
            }
            let name = c_string(&place.name)?;
            let fd = rustix::fs::openat(&place.dir, name.as_c_str(), HOLD | OFlags::NOFOLLOW, Mode::empty())?;
            let status = rustix::fs::fstat(&fd)?;
            let kind = FileType::from_raw_mode(status.st_mode);
            if kind == FileType::Symlink && (last == Last::Followed || place.slash) {
                place = self.follow(from, &place)?;
                continue;
            }
            if place.slash && kind != FileType::Directory {
                return Err(Errno::NOTDIR);
            }
            if from.bounds.contains(ResolveFlags::NO_XDEV) && mount_of(fd.as_fd())? != mount_of(place.dir.as_fd())? {
                return Err(Errno::XDEV);
            }
            let path =
                if place.name == b".." { AbsPath::lexical(&place_of(fd.as_fd())?).ok() } else { Some(place.path()) };
            return Ok(Target { fd, status, path, found: Found::ByName });
        }
    }

    /// What a descriptor of the caller's stands for.
    pub(super) fn held(&self, fd: i32) -> rustix::io::Result<Target> {
        self.opened(self.caller.directory(fd)?)
    }

    /// What a descriptor leads to. What is a file must be in the view, so that its path is what rules speak of.
    fn opened(&self, fd: OwnedFd) -> rustix::io::Result<Target> {
        let (status, path) = (rustix::fs::fstat(&fd)?, AbsPath::lexical(&place_of(fd.as_fd())?).ok());
        let is_anonymous = matches!(FileType::from_raw_mode(status.st_mode), FileType::Fifo | FileType::Socket);
        if path.is_none() && is_anonymous || self.mounts.is_memory(status.st_dev) {
            return Ok(Target { fd, status, path: None, found: Found::ByDescriptor });
        }
        if path.is_none() || !self.mounts.hold(fd.as_fd())? {
            Err(Errno::ACCESS)
        } else {
            Ok(Target { fd, status, path, found: Found::ByDescriptor })
        }
    }

    /// Walks to a directory by hand, for paths that lead through `/proc`.
    fn walk(&self, from: &From, path: &[u8]) -> rustix::io::Result<Arc<OwnedFd>> {
        let mut here = from.dir.clone();
        if path.first() == Some(&b'/') {
            here = self.root.clone();
        }
        let mut left: Vec<Vec<u8>> = names(path);
        let mut links = 0;
        while let Some(name) = left.pop() {
            let c_name = c_string(&name)?;
            let next = rustix::fs::openat(&here, c_name.as_c_str(), HOLD | OFlags::NOFOLLOW, Mode::empty())?;
            match FileType::from_raw_mode(rustix::fs::fstat(&next)?.st_mode) {
                FileType::Directory => here = Arc::new(next),
                FileType::Symlink => {
                    links += 1;
                    if links > MOST_LINKS {
                        return Err(Errno::LOOP);
                    }
                    let at = AbsPath::lexical(&place_of(here.as_fd())?).map_err(|_| Errno::ACCESS)?;
                    let is_of_processes = is_of_processes(at.as_bytes());
                    let text = match self.own_name(&at, &name)? {
                        Some(text) if is_of_processes => text,
                        _ if is_of_processes && !is_text(&at, &name) => {
                            here = Arc::new(self.open_of_process(&here, &at, &c_name)?);
                            continue;
                        }
                        _ => rustix::fs::readlinkat(&here, c_name.as_c_str(), Vec::new())?.into_bytes(),
                    };
                    if text.first() == Some(&b'/') {
                        here = self.root.clone();
                    }
                    left.extend(names(&text));
                }
                _ => return Err(Errno::NOTDIR),
            }
        }
        if FileType::from_raw_mode(rustix::fs::fstat(&here)?.st_mode) != FileType::Directory {
            return Err(Errno::NOTDIR);
        }
        Ok(here)
    }

    /// What `/proc/self` and `/proc/thread-self` are to the caller.
    fn own_name(&self, at: &AbsPath, name: &[u8]) -> rustix::io::Result<Option<Vec<u8>>> {
        if at.as_bytes() != b"/proc" || !matches!(name, b"self" | b"thread-self") {
            return Ok(None);
        }
        let (process, thread) = (self.caller.process()?, self.caller.number());
        Ok(Some(if name == b"self" { process.to_string() } else { format!("{process}/task/{thread}") }.into_bytes()))
    }

    /// Is this something of `/proc` that is about this process, by the number of any of its threads?
    pub(super) fn is_ours(&self, path: &AbsPath) -> bool {
        let number = path.components().nth(1).filter(|_| is_of_processes(path.as_bytes())).unwrap_or_default();
        let is_number = !number.is_empty() && number.iter().all(u8::is_ascii_digit);
        let thread = [b"self/task/".as_slice(), number].concat();
        is_number && rustix::fs::statat(self.caller.proc, thread, AtFlags::empty()).is_ok()
    }

    /// Is this something of `/proc` that is about another process than the caller's, by whichever number? What the kernel shows of it
    /// depends on who asks, and this process is an ancestor of all of them.
    pub(super) fn is_of_another(&self, path: &AbsPath) -> rustix::io::Result<bool> {
        let number = path.components().nth(1).filter(|_| is_of_processes(path.as_bytes())).unwrap_or_default();
        if number.is_empty() || !number.iter().all(u8::is_ascii_digit) {
            return Ok(false);
        }
        let thread = [self.caller.process()?.to_string().as_bytes(), b"/task/", number].concat();
        Ok(rustix::fs::statat(self.caller.proc, thread, AtFlags::empty()).is_err())
    }

    /// Follows a link that leads to what a process has open: the caller's own only. Of ours it would be what we hold, of others
    /// what the caller may have no right to.
    fn open_of_process(&self, dir: &OwnedFd, at: &AbsPath, name: &CString) -> rustix::io::Result<OwnedFd> {
        let process = self.caller.process()?;
        let is_own = at.components().nth(1) == Some(process.to_string().as_bytes());
        if !is_own || process == 1 {
            return Err(Errno::ACCESS);
        }
        let held = rustix::fs::openat(dir, name.as_c_str(), HOLD, Mode::empty())?;
        let is_directory = FileType::from_raw_mode(rustix::fs::fstat(&held)?.st_mode) == FileType::Directory;
        if is_directory && !self.mounts.hold(held.as_fd())? { Err(Errno::ACCESS) } else { Ok(held) }
    }
}

/// Is this a path below `/proc`?
pub(super) fn is_of_processes(path: &[u8]) -> bool {
    path.strip_prefix(b"/proc").is_some_and(|rest| rest.is_empty() || rest.first() == Some(&b'/'))
}

/// Links of `/proc` itself are text (`mounts`, `net`); those of a process lead to what it has open.
fn is_text(at: &AbsPath, _name: &[u8]) -> bool {
    at.as_bytes() == b"/proc"
}

/// The names of a path, the last first.
fn names(path: &[u8]) -> Vec<Vec<u8>> {
    path.split(|byte| *byte == b'/').filter(|name| !name.is_empty()).rev().map(<[u8]>::to_vec).collect()
}

/// Where something that is held is.
pub(super) fn place_of(fd: BorrowedFd<'_>) -> rustix::io::Result<Vec<u8>> {
    Ok(rustix::fs::readlink(format!("/proc/self/fd/{}", fd.as_raw_fd()), Vec::new())?.into_bytes())
}

/// Where a directory that is held is. This thread's working directory is nobody else's, and asking for it takes a fifth of the
/// time that a look into `/proc` takes.
pub(super) fn directory_of(dir: BorrowedFd<'_>) -> rustix::io::Result<Vec<u8>> {
    match rustix::process::fchdir(dir).and_then(|()| rustix::process::getcwd(Vec::with_capacity(256))) {
        Ok(path) => Ok(path.into_bytes()),
        Err(Errno::NAMETOOLONG) => Err(Errno::NAMETOOLONG),
        // It may not be entered, or is no longer anywhere.
        Err(_) => place_of(dir),
    }
}

/// The mount that something is reached by.
pub(super) fn mount_of(fd: BorrowedFd<'_>) -> rustix::io::Result<u64> {
    Ok(rustix::fs::statx(fd, c"", AtFlags::EMPTY_PATH, rustix::fs::StatxFlags::MNT_ID)?.stx_mnt_id)
}
