//! Finds what exists below the roots and may not be read or written, in one walk.
//!
//! Every directory is opened below its root's own descriptor, without following a link: what links lead to is decided where
//! it stands. A directory costs an open, a stat and its listing; a name costs one step of the rules, and a stat only where a
//! guard belongs on it. What cannot be listed, or lies deeper than a path can say, is hidden as a whole and reported.
//!
//! A directory that is mounted in two places is walked in both: a guard holds at one place only.

use std::cell::OnceCell;
use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::ffi::{CStr, CString, OsStr};
use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use ringfence_plan::{Findings, Found, MountOp, Shortfall};
use ringfence_surface::{AbsPath, Access, Cursor, Effect, FoldedSurface, HostFacts, PATH_MAX, Standing, Surface};
use rustix::fs::{AtFlags, FileType, OFlags, RawDir, Stat};
use rustix::io::Errno;

use crate::aliases::Aliases;
use crate::folded;
use crate::hard_links::LinkedFiles;
use crate::links;
use crate::place::{Id, open_beneath, open_place, open_root, relative};
use crate::used_paths::{MetLinks, UsedPaths};
use crate::visible::{Ground, Visible};

/// How many names are looked at before the walk gives up: a tree this large is not a project.
pub const MOST_NAMES: usize = 2_000_000;

/// Why a walk did not find everything.
#[derive(Debug, thiserror::Error)]
pub enum WalkError {
    /// A directory could not be listed.
    #[error("getdents64({path})")]
    List {
        /// Which.
        path: AbsPath,
        /// Why.
        source: io::Error,
    },
    /// More names than anybody waits for.
    #[error("more than {MOST_NAMES} names below {root}")]
    TooMany {
        /// Where.
        root: AbsPath,
    },
    /// Without it nobody knows what must be closed in the session's own.
    #[error("/proc is not there")]
    NoProc,
    /// Somebody moves directories about while they are looked at.
    #[error("{path} is moved or replaced while it is looked at")]
    Changing {
        /// Which.
        path: AbsPath,
    },
}

/// What a walk found.
#[derive(Debug)]
pub struct Walked {
    /// What mounts guard.
    pub findings: Findings,
    /// Guarded files that have another name (a hard link) outside what was searched, by which they are not guarded.
    pub linked: Vec<AbsPath>,
    /// What is hidden although no rule denies it.
    pub hidden: Vec<Hidden>,
    /// What was not searched.
    pub shortfalls: Vec<Shortfall>,
    /// Directories that have a `.git`: the tops of work trees.
    pub work_trees: Vec<AbsPath>,
    /// How many names were looked at.
    pub names: usize,
    /// A directory that may take different spellings for one name, if there is one.
    pub(crate) folds: Option<AbsPath>,
    /// What stood at the places that matter.
    pub(crate) seen: HashMap<AbsPath, Id>,
    /// Sockets: they come and go with who listens, so they are closed under their names, if they are still there.
    pub(crate) sockets: HashSet<AbsPath>,
    /// Which paths led to a directory.
    pub(crate) used_paths: UsedPaths,
}

/// Something that is hidden although no rule denies it, since what is in it could not be guarded one by one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Hidden {
    /// Which.
    pub path: AbsPath,
    /// Why.
    pub why: WhyHidden,
}

/// Why something is hidden.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum WhyHidden {
    /// It cannot be listed.
    Unlisted,
    /// What is in it has a path longer than the kernel takes.
    TooLong,
    /// Too much is in it for a search.
    TooMany,
    /// Something in it has a name that a container engine cannot be told.
    Unsayable,
    /// Its file has another name, which is denied.
    OtherName,
}

impl WhyHidden {
    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Unlisted => "it cannot be listed, so nothing in it can be guarded by itself",
            Self::TooLong => "something in it has a path longer than the kernel takes, and could not be guarded",
            Self::Unsayable => "something denied or protected in it has a name that a container engine cannot be told",
            Self::OtherName => "it is another name (a hard link) of something denied",
            Self::TooMany => "it holds too many names to search for what is denied in it",
        }
    }
}

/// How often a walk begins anew because directories were moved meanwhile.
const MOST_WALKS: u32 = 5;

/// How often one directory is listed again because something in it vanished: builds make and remove directories all the time.
const MOST_LISTINGS: u32 = 8;

/// Walks everything the session works on, and looks at each place that a rule names outright. `homes` are searched as well
/// where the whole host is shown; `facts` says which of the places that built-in rules name exist.
///
/// # Errors
/// [`WalkError`] when something could not be looked at; what cannot be looked at cannot be guarded.
pub fn walk(surface: &Surface, facts: &HostFacts, mounts: &[MountOp], homes: &[AbsPath]) -> Result<Walked, WalkError> {
    let mut walks = 0;
    loop {
        walks += 1;
        match walk_once(surface, facts, mounts, homes) {
            Err(WalkError::Changing { .. }) if walks < MOST_WALKS => {}
            other => return other,
        }
    }
}

fn walk_once(surface: &Surface, facts: &HostFacts, mounts: &[MountOp], homes: &[AbsPath]) -> Result<Walked, WalkError> {
    let failed = |errno: Errno| WalkError::List { path: AbsPath::root(), source: errno.into() };
    let visible = Visible::new(mounts);
    let starts = Starts::of(surface, &visible);
    let mut walk = Walk {
        surface,
        visible,
        top: open_root().map_err(failed)?,
        aliases: Aliases::of_host(),
        buffer: vec![MaybeUninit::uninit(); 1 << 16],
        directories: Vec::new(),
        entered: HashMap::new(),
        hasher: RandomState::new(),
        folded: OnceCell::new(),
        linked_files: LinkedFiles::default(),
        met_links: MetLinks::default(),
        purpose: Purpose::Rules,
        walked: Walked {
            findings: Findings { denied: Vec::new(), protected: Vec::new() },
            linked: Vec::new(),
            hidden: Vec::new(),
            shortfalls: Vec::new(),
            work_trees: Vec::new(),
            names: 0,
            folds: None,
            seen: HashMap::new(),
            sockets: HashSet::new(),
            used_paths: UsedPaths::unknown(),
        },
    };
    if open_place(&walk.top, c"proc/self").is_err() {
        return Err(WalkError::NoProc);
    }
    for root in starts.paths() {
        // Rules may take away the root itself: where the whole host is shown it is there although nothing gives it.
        walk.look_at(root);
        if walk.below(root, MOST_NAMES, Order::DeepestFirst)? == Reached::Cut {
            return Err(WalkError::TooMany { root: root.clone() });
        }
    }
    for inner in walk.inside_something_denied(mounts) {
        if walk.below(&inner, MOST_NAMES, Order::DeepestFirst)? == Reached::Cut {
            return Err(WalkError::TooMany { root: inner });
        }
    }
    walk.named(&starts, facts);
    walk.whole_host(&starts, homes)?;
    walk.note_used_paths(&starts);
    walk.other_names(&starts)?;
    Ok(walk.walked.in_order(mounts))
}

impl Walked {
    /// Everything once, sorted.
    fn in_order(mut self, mounts: &[MountOp]) -> Self {
        for paths in [&mut self.findings.protected, &mut self.linked, &mut self.work_trees] {
            paths.sort();
            paths.dedup();
        }
        self.findings.denied.sort();
        self.findings.denied.dedup();
        self.hidden.sort();
        self.hidden.dedup();
        without_inner(&mut self.findings, mounts);
        self
    }
}

/// What lies inside something denied needs no guard of its own, unless it is shown there.
fn without_inner(findings: &mut Findings, mounts: &[MountOp]) {
    let denied: HashSet<AbsPath> = findings.denied.iter().map(|(path, _)| path.clone()).collect();
    let mounted: HashSet<&AbsPath> = mounts.iter().map(MountOp::destination).collect();
    let is_inner = |path: &AbsPath| {
        for above in path.ancestors() {
            if above != *path && denied.contains(&above) {
                return true;
            }
            if mounted.contains(&above) {
                return false;
            }
        }
        false
    };
    findings.denied.retain(|(path, _)| !is_inner(path));
    findings.protected.retain(|path| !is_inner(path) && !denied.contains(path));
}

/// Where a search begins for what floating rules take away: every place that shows files of the host in which they hold.
///
/// A list of the session's roots is not enough. A nested call can leave out a root and name a directory below it: that
/// directory is shown by a mount of its own, and an attacker would read in it what the session itself is denied. The host's own
/// root is not walked, its secrets are named outright.
#[derive(Debug)]
pub(crate) struct Starts {
    /// None of them lies in another.
    outermost: BTreeSet<AbsPath>,
}

impl Starts {
    pub(crate) fn of(surface: &Surface, visible: &Visible<'_>) -> Self {
        // A call that narrows the `host` view keeps the session's roots, and floating rules hold in all that is left of it.
        let is_whole = matches!(visible.ground(&AbsPath::root()), Some(Ground::Host { .. }));
        let is_searched = |root: &&AbsPath| !root.is_root() || !is_whole;
        let roots: HashSet<&AbsPath> = surface.roots().filter(is_searched).collect();
        let is_in_a_root = |path: &AbsPath| path.ancestors().any(|above| roots.contains(&above));
        let is_shown = |root: &&&AbsPath| matches!(visible.ground(root), Some(Ground::Host { .. }));
        let mut all: BTreeSet<AbsPath> = visible.of_host().filter(is_in_a_root).collect();
        all.extend(roots.iter().filter(|root| !root.is_root()).filter(is_shown).map(|root| (*root).clone()));
        let is_outermost = |path: &&AbsPath| !path.ancestors().skip(1).any(|above| all.contains(&above));
        Self { outermost: all.iter().filter(is_outermost).cloned().collect() }
    }

    pub(crate) fn paths(&self) -> impl Iterator<Item = &AbsPath> {
        self.outermost.iter()
    }

    /// Does a path lie in one of them?
    pub(crate) fn hold(&self, path: &AbsPath) -> bool {
        path.ancestors().any(|above| self.outermost.contains(&above))
    }
}

/// A walk in progress.
pub(crate) struct Walk<'s> {
    pub(crate) surface: &'s Surface,
    pub(crate) visible: Visible<'s>,
    /// The host's root.
    pub(crate) top: OwnedFd,
    pub(crate) aliases: Aliases,
    buffer: Vec<MaybeUninit<u8>>,
    /// Every directory that was entered, and the one above it: those above something guarded are remembered.
    directories: Vec<Entered>,
    /// The mount and identity of each of them, with what its path hashes to: no directory is met under two names of one
    /// mount, unless somebody moved it on the way.
    entered: HashMap<(u64, Id), u64>,
    hasher: RandomState,
    /// The rules as they hold where names are folded, made where the first such directory is met.
    folded: OnceCell<FoldedSurface<'s>>,
    linked_files: LinkedFiles,
    met_links: MetLinks,
    purpose: Purpose,
    pub(crate) walked: Walked,
}

/// What is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    /// What rules take away.
    Rules,
    /// Further names of guarded files: every file is looked at.
    HardLinks,
}

#[derive(Debug, Clone, Copy)]
struct Entered {
    above: Option<usize>,
    id: Id,
    is_noted: bool,
}

/// What a walk enters first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// What is nearest on the disk: for a walk that goes everywhere.
    DeepestFirst,
    /// What is nearest to the root: for one that may be cut.
    ShallowestFirst,
}

/// Did a walk reach everything?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reached {
    All,
    Cut,
}

/// A directory that is still to be entered.
struct Ahead<'s> {
    path: AbsPath,
    cursor: Cursor<'s>,
    above: Option<usize>,
    /// How often it was listed before.
    listed: u32,
}

/// What became of a directory that was to be entered.
enum Opened {
    /// It is open, and was not entered before.
    Dir(OwnedFd, Id),
    /// It was walked already, or cannot be listed and is hidden.
    Done,
    /// It is not there any more.
    Vanished,
}

impl<'s> Walk<'s> {
    fn note_used_paths(&mut self, starts: &Starts) {
        let (links, searched) = (std::mem::take(&mut self.met_links), starts.paths().cloned());
        self.walked.used_paths = UsedPaths::new(self.hasher.clone(), self.entered.values().copied(), links, searched);
    }

    /// Guards every other name of what is guarded. Most trees have no such file, and then nothing is walked twice.
    fn other_names(&mut self, starts: &Starts) -> Result<(), WalkError> {
        links::second_names(&self.walked.findings, &mut self.linked_files);
        if !self.linked_files.is_empty() {
            let names = self.walked.names;
            self.entered.clear();
            self.purpose = Purpose::HardLinks;
            for root in starts.paths() {
                if self.below(root, MOST_NAMES, Order::DeepestFirst)? == Reached::Cut {
                    return Err(WalkError::TooMany { root: root.clone() });
                }
            }
            self.walked.names = names;
        }
        self.walked.linked.extend(std::mem::take(&mut self.linked_files).with_names_elsewhere(&self.top));
        Ok(())
    }

    /// What is shown inside something denied: the walk did not go in there.
    fn inside_something_denied(&self, mounts: &[MountOp]) -> Vec<AbsPath> {
        let denied: HashSet<&AbsPath> = self.walked.findings.denied.iter().map(|(path, _)| path).collect();
        let is_inside = |path: &&AbsPath| path.ancestors().skip(1).any(|above| denied.contains(&above));
        let is_host = |path: &&AbsPath| matches!(self.visible.ground(path), Some(Ground::Host { .. }));
        mounts.iter().map(MountOp::destination).filter(is_inside).filter(is_host).cloned().collect()
    }

    /// Walks everything below a root, at most `most` names.
    pub(crate) fn below(&mut self, root: &AbsPath, most: usize, order: Order) -> Result<Reached, WalkError> {
        let cursor = self.surface.cursor(root);
        let Some(base) = self.root(root)? else { return Ok(Reached::All) };
        let most = self.walked.names.saturating_add(most);
        let mut ahead = VecDeque::from([Ahead { path: root.clone(), cursor, above: None, listed: 0 }]);
        // Directories to be listed again, since something vanished from them.
        let mut again: HashMap<AbsPath, u32> = HashMap::new();
        let next_of = |ahead: &mut VecDeque<Ahead<'s>>| match order {
            Order::DeepestFirst => ahead.pop_back(),
            Order::ShallowestFirst => ahead.pop_front(),
        };
        while let Some(next) = next_of(&mut ahead) {
            match self.open(&base, root, &next)? {
                Opened::Dir(dir, id) => self.list(dir, id, next, &mut ahead)?,
                Opened::Done => {}
                Opened::Vanished => {
                    let parent = next.path.parent().filter(|parent| parent.is_within(root));
                    let Some(parent) = parent else { return Err(WalkError::Changing { path: next.path }) };
                    let listed = again.entry(parent.clone()).or_insert(0);
                    *listed += 1;
                    if *listed > MOST_LISTINGS {
                        return Err(WalkError::Changing { path: parent });
                    }
                    let (cursor, listed) = (self.surface.cursor(&parent), *listed);
                    let above = next.above.and_then(|number| self.directories.get(number)?.above);
                    ahead.push_back(Ahead { path: parent, cursor, above, listed });
                }
            }
            if self.walked.names > most {
                return Ok(Reached::Cut);
            }
        }
        Ok(Reached::All)
    }

    /// Opens a root. One that is no directory has nothing below it; a socket is closed itself.
    fn root(&mut self, root: &AbsPath) -> Result<Option<OwnedFd>, WalkError> {
        let failed = |errno: Errno| WalkError::List { path: root.clone(), source: errno.into() };
        let place = match open_place(&self.top, &relative(root)) {
            // Where the whole host is shown, so is the place of something that a policy names and the host does not have.
            Err(Errno::NOENT | Errno::NOTDIR) => return Ok(None),
            place => place.map_err(failed)?,
        };
        let status = rustix::fs::fstat(&place).map_err(failed)?;
        self.walked.seen.insert(root.clone(), Id::of(&status));
        match FileType::from_raw_mode(status.st_mode) {
            FileType::Directory => return Ok(Some(place)),
            FileType::Socket => self.walked.findings.denied.push((root.clone(), Found::File)),
            _ => {}
        }
        Ok(None)
    }

    /// Opens a directory to list it, below the root's own descriptor: whoever renames a directory above changes nothing here.
    fn open(&mut self, base: &OwnedFd, root: &AbsPath, next: &Ahead<'s>) -> Result<Opened, WalkError> {
        let path = &next.path;
        let failed = |errno: Errno| WalkError::List { path: path.clone(), source: errno.into() };
        let below = path.as_bytes()[root.as_bytes().len()..].strip_prefix(b"/").unwrap_or(b".");
        let below = CString::new(below).unwrap_or_default();
        let dir = match open_beneath(base, &below, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW) {
            Ok(dir) => dir,
            Err(Errno::NOENT) => return Ok(Opened::Vanished),
            // Something else stands there, or on the way there, than was listed.
            Err(Errno::NOTDIR | Errno::LOOP) => return Err(WalkError::Changing { path: path.clone() }),
            Err(errno) => {
                self.unlistable(path, errno)?;
                let status = open_place(base, &below).and_then(rustix::fs::fstat);
                self.walked.seen.insert(path.clone(), Id::of(&status.map_err(failed)?));
                if let (Some(parent), Some(above)) = (path.parent(), next.above) {
                    self.remember(&parent, above);
                }
                return Ok(Opened::Done);
            }
        };
        let (mount, id) = Id::with_mount(&dir).map_err(failed)?;
        let hash = self.hasher.hash_one(path.as_bytes());
        match self.entered.insert((mount, id), hash) {
            Some(before) if before != hash => Err(WalkError::Changing { path: path.clone() }),
            Some(_) if next.listed == 0 => Ok(Opened::Done),
            _ => Ok(Opened::Dir(dir, id)),
        }
    }

    fn list(
        &mut self,
        dir: OwnedFd,
        id: Id,
        next: Ahead<'s>,
        ahead: &mut VecDeque<Ahead<'s>>,
    ) -> Result<(), WalkError> {
        let Ahead { path, cursor, above, .. } = next;
        self.directories.push(Entered { above, id, is_noted: false });
        let folds = folded::folds(&dir);
        if folds && self.walked.folds.is_none() {
            self.walked.folds = Some(path.clone());
        }
        let here = Here { path: &path, cursor: &cursor, number: self.directories.len() - 1, dir: &dir, folds };
        let waiting = ahead.len();
        let mut buffer = std::mem::take(&mut self.buffer);
        let mut listing = RawDir::new(&dir, &mut buffer);
        let mut is_hidden = false;
        while let Some(entry) = listing.next() {
            let entry = match entry {
                Ok(entry) => entry,
                Err(errno) => {
                    self.unlistable(&path, errno)?;
                    is_hidden = true;
                    break;
                }
            };
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            self.walked.names += 1;
            if !self.name(&here, name, entry.file_type(), ahead) {
                self.hide(&path, WhyHidden::TooLong);
                is_hidden = true;
                break;
            }
        }
        if is_hidden {
            ahead.truncate(waiting);
            self.remember(&path, here.number);
        }
        self.buffer = buffer;
        Ok(())
    }

    /// A directory that cannot be listed is hidden: a name in it can be opened by whoever knows it, and its owner can change
    /// who may list it.
    fn unlistable(&mut self, path: &AbsPath, errno: Errno) -> Result<(), WalkError> {
        match errno {
            // These say nothing about the directory.
            Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::INTR => {
                Err(WalkError::List { path: path.clone(), source: errno.into() })
            }
            _ => {
                self.hide(path, WhyHidden::Unlisted);
                Ok(())
            }
        }
    }

    /// Hides a directory that no rule denies.
    pub(crate) fn hide(&mut self, path: &AbsPath, why: WhyHidden) {
        self.walked.findings.denied.push((path.clone(), Found::Directory));
        self.walked.hidden.push(Hidden { path: path.clone(), why });
    }

    /// One name of a directory. `false` where it needs a guard, or must be entered, and its path is too long for either.
    fn name(&mut self, here: &Here<'_, 's>, name: &CStr, kind: FileType, ahead: &mut VecDeque<Ahead<'s>>) -> bool {
        let bytes = name.to_bytes();
        let kind = match kind {
            FileType::Unknown => match rustix::fs::statat(here.dir, name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(status) => FileType::from_raw_mode(status.st_mode),
                Err(_) => return true,
            },
            kind => kind,
        };
        let by_rules = match here.cursor.standing(bytes) {
            // A socket carries the authority of whoever listens: those that a policy names are relayed, and ours
            // stands in their place.
            _ if kind == FileType::Socket => Guard::Deny,
            // A pipe can be written, and robbed of what another writes, on a read-only mount too.
            _ if kind == FileType::Fifo && !self.is_writable(here.path) => Guard::Deny,
            Standing::Denied(_) => Guard::Deny,
            Standing::Protected(_) => Guard::Protect,
            Standing::Open if is_git_pointer(here.path, bytes, kind) => Guard::Protect,
            Standing::Open if here.folds => self.guard_of_other_spellings(here, bytes),
            Standing::Open => Guard::None,
        };
        let is_first_look = self.purpose == Purpose::Rules;
        let standing = if is_first_look || kind != FileType::RegularFile {
            by_rules
        } else {
            by_rules.max(self.guard_of_other_names(here, name))
        };
        if bytes == b".git" && standing != Guard::Deny {
            self.walked.work_trees.push(here.path.clone());
        }
        if kind == FileType::Symlink && is_first_look {
            if let Ok(text) = rustix::fs::readlinkat(here.dir, name, Vec::new()) {
                self.met_links.add(&self.hasher, &here.path.child(bytes), text.as_bytes());
            }
            let past = links::leads_past(self.surface, &self.visible, here.cursor, here.path, bytes);
            self.walked.shortfalls.extend(past);
        }
        let is_entered = kind == FileType::Directory && standing != Guard::Deny;
        if standing == Guard::None && !is_entered {
            return true;
        }
        if here.path.as_bytes().len() + 1 + bytes.len() >= PATH_MAX {
            return false;
        }
        let path = here.path.child(bytes);
        if standing != Guard::None {
            self.found(here, name, &path, standing);
        }
        if standing == Guard::Deny && by_rules != Guard::Deny && self.visible.ground(&path) != Some(Ground::Own) {
            self.walked.hidden.push(Hidden { path: path.clone(), why: WhyHidden::OtherName });
        }
        if is_entered {
            let inner = here.cursor.enter(bytes);
            if !inner.is_exhausted() || !is_first_look {
                ahead.push_back(Ahead { path, cursor: inner, above: Some(here.number), listed: 0 });
            }
        }
        true
    }

    /// The guard that a name needs because of its other spellings.
    fn guard_of_other_spellings(&self, here: &Here<'_, 's>, name: &[u8]) -> Guard {
        let rules = self.folded.get_or_init(|| FoldedSurface::new(self.surface));
        let path = here.path.child(name);
        let taken_away = [Access::Read, Access::Write].into_iter().find_map(|access| rules.taken_away(&path, access));
        match taken_away.map(|rule| rule.effect) {
            None => Guard::None,
            Some(Effect::Protect) => Guard::Protect,
            Some(_) => Guard::Deny,
        }
    }

    /// The guard that a file needs because of its other names.
    fn guard_of_other_names(&mut self, here: &Here<'_, 's>, name: &CStr) -> Guard {
        match rustix::fs::statat(here.dir, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(status) if status.st_nlink > 1 => {
                self.linked_files.guard_of(|| here.path.child(name.to_bytes()), &status)
            }
            _ => Guard::None,
        }
    }

    fn is_writable(&self, path: &AbsPath) -> bool {
        self.visible.ground(path) == Some(Ground::Host { is_writable: true })
    }

    fn found(&mut self, here: &Here<'_, 's>, name: &CStr, path: &AbsPath, guard: Guard) {
        // What vanished meanwhile needs no guard.
        let Ok(status) = rustix::fs::statat(here.dir, name, AtFlags::SYMLINK_NOFOLLOW) else { return };
        if self.guard(path, &status, guard) == Noted::Yes
            && let Some(above) = path.parent()
        {
            self.remember(&above, here.number);
        }
    }

    /// Notes what must be guarded, here and where else it is mounted.
    pub(crate) fn guard(&mut self, path: &AbsPath, status: &Stat, guard: Guard) -> Noted {
        for alias in self.aliases.of(path) {
            if let Ok(status) = open_place(&self.top, &relative(&alias)).and_then(rustix::fs::fstat) {
                self.guard_here(&alias, &status, guard);
            }
        }
        self.guard_here(path, status, guard)
    }

    /// A link is guarded by its own name: a mount lands on it and not where it leads.
    fn guard_here(&mut self, path: &AbsPath, status: &Stat, guard: Guard) -> Noted {
        let kind = FileType::from_raw_mode(status.st_mode);
        let found = if kind == FileType::Directory { Found::Directory } else { Found::File };
        let ground = self.visible.ground(path);
        match (guard, ground) {
            (Guard::None, _) | (_, None | Some(Ground::Own)) => return Noted::No,
            (Guard::Protect, Some(Ground::Host { is_writable: false } | Ground::Processes)) => return Noted::No,
            (Guard::Deny, _) => self.walked.findings.denied.push((path.clone(), found)),
            (Guard::Protect, _) => self.walked.findings.protected.push(path.clone()),
        }
        if kind == FileType::Socket {
            self.walked.sockets.insert(path.clone());
        } else if ground != Some(Ground::Processes) {
            // The session's processes are not the host's: what stands there inside is not what stands there now.
            self.walked.seen.insert(path.clone(), Id::of(status));
        }
        self.linked_files.note(path, status, guard);
        Noted::Yes
    }

    /// Remembers a directory above something guarded, and those above it: they are pinned.
    fn remember(&mut self, path: &AbsPath, number: usize) {
        let mut next = Some(number);
        for above in path.ancestors() {
            let Some(entered) = next.and_then(|number| self.directories.get_mut(number)) else { return };
            if entered.is_noted {
                return;
            }
            entered.is_noted = true;
            self.walked.seen.insert(above, entered.id);
            next = entered.above;
        }
    }
}

/// The directory whose names are looked at.
struct Here<'h, 's> {
    path: &'h AbsPath,
    cursor: &'h Cursor<'s>,
    number: usize,
    dir: &'h OwnedFd,
    /// Does it take different spellings for one name?
    folds: bool,
}

/// What a place needs, the weakest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Guard {
    None,
    Protect,
    Deny,
}

/// Was something noted?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Noted {
    Yes,
    No,
}

/// Files that choose where git takes its settings from: `.git` as a file, and what ties a linked work tree to its repository.
/// Where they exist they stay; new ones are made by `git worktree add`.
fn is_git_pointer(dir: &AbsPath, name: &[u8], kind: FileType) -> bool {
    let is_tie = matches!(name, b"commondir" | b"gitdir" | b"config.worktree");
    let in_worktrees = || dir.parent().is_some_and(|above| above.file_name() == Some(b"worktrees"));
    kind == FileType::RegularFile && (name == b".git" || is_tie && in_worktrees())
}

/// A path of ours as the system takes it.
pub fn os_path(path: &AbsPath) -> &Path {
    Path::new(OsStr::from_bytes(path.as_bytes()))
}
