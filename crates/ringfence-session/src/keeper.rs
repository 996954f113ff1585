//! Keeps the guards of a running session where they belong.
//!
//! A guard is a mount, and a mount hangs on a directory entry. When somebody outside replaces a guarded file (every editor that
//! saves does), the kernel takes the mount away inside; and what appears later under a denied name has none. So a thread of the
//! supervisor waits for both: the kernel tells when a mount of the view goes (mountinfo), and when a name appears in a directory
//! that rules speak of (inotify). What stands bare is covered at once, by a short-lived process in the view.
//!
//! It is a repair and no wall: for some milliseconds the new file could be read. Each such gap is told, with its length, and
//! so is what cannot be watched. Nothing is asked for again and again; where nothing happens nothing runs.

mod tree;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, Sender, SyncSender};
use std::time::{Duration, Instant, SystemTime};

use ringfence_plan::{Findings, MountOp};
use ringfence_surface::{AbsPath, Access, Cursor, Effect, Sense, Standing, Surface};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawDir};
use rustix::io::Errno;
use rustix::process::Pid;

use crate::aliases::Aliases;
use crate::desk::Gives;
use crate::live::{Cover, LiveView, Mended};
use crate::place::{open_beneath, open_place, open_root, relative};
use crate::visible::{Ground, Visible};
use crate::walk::Starts;

use self::tree::{IsDirectory, Noticed, Tree, Unwatched, open_to_list};

/// After more happened than the kernel keeps, everything is looked at from the beginning, but not all the time.
const LOST: Duration = Duration::from_millis(100);
/// After a turn in which nothing was found, what else happens is gathered for this long.
const GATHER: Duration = Duration::from_millis(2);
/// A place whose guard is gone is looked at again after these times: what takes its place may be on its way.
const AGAIN: [Duration; 4] =
    [Duration::from_millis(1), Duration::from_millis(5), Duration::from_millis(25), Duration::from_millis(250)];
/// What is kept for a supervisor that does not listen. Room for all of it is made at once.
const MOST_UNHEARD: usize = 256;

/// What is guarded in a view, and what the view is made of.
#[derive(Debug)]
pub struct Guarded {
    pub(crate) mounts: Vec<MountOp>,
    pub(crate) guards: Findings,
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Found {
    /// Something stood there bare, for about so long, and is covered again.
    Gap { path: AbsPath, lasted: Duration, cover: Cover },
    /// Something stands there bare, and could not be covered.
    Bare { path: AbsPath, cover: Cover, why: String },
    /// Whether this and so many more places have their guards could not be determined.
    Unchecked { path: AbsPath, more: u64, why: String },
    /// So many directories are not watched.
    Unwatched { below: AbsPath, count: u64, why: String },
    /// So much more was found, and nobody listened.
    Unheard { count: u64 },
}

/// Where what is found goes, until the supervisor listens.
#[derive(Debug)]
struct Tell {
    found: SyncSender<Found>,
    unheard: Arc<AtomicU64>,
    bell: OwnedFd,
}

impl Tell {
    fn tell(&self, one: Found) {
        if self.found.try_send(one).is_err() {
            self.unheard.fetch_add(1, Ordering::Relaxed);
        }
        let _ = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
    }
}

/// What the supervisor says.
#[derive(Debug)]
enum Word {
    /// A place was given to the session.
    Given(AbsPath, Gives),
    /// It was taken away.
    Taken(AbsPath),
}

/// A thread that keeps guards. It ends with this.
#[derive(Debug)]
pub(crate) struct Keeper {
    words: Option<Sender<Word>>,
    /// Wakes it.
    wake: OwnedFd,
    heard: Heard,
}

const PANICKED: &str = "the thread that watches has panicked";

/// The other end of it.
#[derive(Debug)]
struct Heard {
    found: Receiver<Found>,
    unheard: Arc<AtomicU64>,
    bell: OwnedFd,
}

impl Heard {
    fn all(&self) -> Vec<Found> {
        let _ = rustix::io::read(&self.bell, &mut [0; 8]);
        let mut all: Vec<Found> = self.found.try_iter().collect();
        let count = self.unheard.swap(0, Ordering::Relaxed);
        all.extend((count > 0).then_some(Found::Unheard { count }));
        all
    }
}

/// What is kept for a supervisor that does not listen; more is counted.
fn channel(bell: OwnedFd) -> io::Result<(Tell, Heard)> {
    let (send, found) = mpsc::sync_channel(MOST_UNHEARD);
    let unheard = Arc::new(AtomicU64::new(0));
    let tell = Tell { found: send, unheard: Arc::clone(&unheard), bell: bell.try_clone()? };
    Ok((tell, Heard { found, unheard, bell }))
}

impl Keeper {
    /// Begins. `first` is the first process of the view.
    pub(crate) fn start(view: LiveView, first: Pid, surface: Arc<Surface>, guarded: Guarded) -> io::Result<Self> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let (wake, bell) = (rustix::event::eventfd(0, flags)?, rustix::event::eventfd(0, flags)?);
        let (words, heard) = mpsc::channel();
        let (tell, found) = channel(bell)?;
        let own_wake = wake.try_clone()?;
        // Opened here: the first process is there as long as nobody has waited for it.
        let table = format!("/proc/{}/mountinfo", first.as_raw_pid());
        let table = rustix::fs::open(table.as_str(), OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        let top = open_root()?;
        let run = move || {
            let tell = |one: Found| tell.tell(one);
            let watch = || Keeping::new(&surface, &guarded, (view, top), &tell).run(&heard, &own_wake, &table);
            // The session goes on without it, which is a loss to be reported.
            if std::panic::catch_unwind(std::panic::AssertUnwindSafe(watch)).is_err() {
                tell(Found::Unwatched { below: surface.root().clone(), count: 1, why: PANICKED.to_owned() });
            }
        };
        std::thread::Builder::new().name("keeper".to_owned()).stack_size(256 << 10).spawn(run)?;
        Ok(Self { words: Some(words), wake, heard: found })
    }

    /// Readable when something was found.
    pub(crate) fn bell(&self) -> BorrowedFd<'_> {
        self.heard.bell.as_fd()
    }

    /// What was found since it was last asked.
    pub(crate) fn found(&self) -> Vec<Found> {
        self.heard.all()
    }

    /// A place was given to the session.
    pub(crate) fn given(&self, path: AbsPath, gives: Gives) {
        self.say(Word::Given(path, gives));
    }

    /// A place was taken away.
    pub(crate) fn taken(&self, path: AbsPath) {
        self.say(Word::Taken(path));
    }

    fn say(&self, word: Word) {
        if self.words.as_ref().is_some_and(|words| words.send(word).is_ok()) {
            let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
        }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        // It hears that nobody will say anything more.
        self.words = None;
        let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
    }
}

struct Keeping<'k, T: Fn(Found)> {
    surface: &'k Surface,
    visible: Visible<'k>,
    aliases: Aliases,
    view: LiveView,
    /// The host's root.
    top: OwnedFd,
    /// Everything that is to be covered where it exists.
    guards: BTreeMap<AbsPath, Cover>,
    /// What was given while the session runs, with the rules that hold there.
    given: Vec<(AbsPath, Box<Surface>)>,
    tree: Option<Tree>,
    tell: &'k T,
    /// When everything is looked at, from the beginning.
    settle: Option<Instant>,
    /// When all guards are looked at again, and how often they were.
    again: Option<(Instant, usize)>,
    /// What could not be covered, and how often it was tried.
    bare: BTreeMap<AbsPath, usize>,
}

impl<'k, T: Fn(Found)> Keeping<'k, T> {
    fn new(surface: &'k Surface, guarded: &'k Guarded, (view, top): (LiveView, OwnedFd), tell: &'k T) -> Self {
        let masked = guarded.guards.denied.iter().map(|(path, _)| (path.clone(), Cover::Mask));
        let frozen = guarded.guards.protected.iter().map(|path| (path.clone(), Cover::Freeze));
        let visible = Visible::new(&guarded.mounts);
        // The session's own `/proc` is no place that anybody outside could replace something in.
        let is_host = |path: &AbsPath| matches!(visible.ground(path), Some(Ground::Host { .. }));
        let guards = frozen.chain(masked).filter(|(path, _)| is_host(path)).collect();
        Self {
            surface,
            visible,
            aliases: Aliases::of_host(),
            view,
            top,
            guards,
            given: Vec::new(),
            tree: None,
            tell,
            settle: None,
            again: None,
            bare: BTreeMap::new(),
        }
    }

    fn run(&mut self, heard: &Receiver<Word>, wake: &OwnedFd, table: &OwnedFd) {
        self.settle = Some(Instant::now());
        let mut rest: Option<Instant> = None;
        loop {
            let next = [self.settle, rest, self.again.map(|(again, _)| again)].into_iter().flatten().min();
            let (is_woken, is_changed, has_names) = self.wait(wake, table, rest.is_none(), next);
            let now = Instant::now();
            if is_woken && !self.hear(heard, wake) {
                return;
            }
            if self.settle.is_some_and(|settle| settle <= now) {
                self.settle = None;
                self.look_around();
            }
            if rest.is_some_and(|rest| rest <= now) {
                rest = None;
            }
            if has_names {
                // Most of what appears is nobody's business: it is not worth a turn each.
                rest = (!self.names()).then(|| now + GATHER);
            }
            if is_changed {
                self.again = Some((now, 0));
            }
            if let Some((again, tries)) = self.again.filter(|(again, _)| *again <= Instant::now()) {
                self.again = AGAIN.get(tries).map(|wait| (again + *wait, tries + 1));
                self.check_all();
            }
        }
    }

    /// Waits for whatever comes first: a word, a mount that goes, a name.
    fn wait(&self, wake: &OwnedFd, table: &OwnedFd, listens: bool, until: Option<Instant>) -> (bool, bool, bool) {
        let mut fds = vec![PollFd::new(wake, PollFlags::IN), PollFd::new(table, PollFlags::PRI)];
        if let Some(tree) = self.tree.as_ref().filter(|_| listens) {
            fds.push(PollFd::from_borrowed_fd(tree.fd(), PollFlags::IN));
        }
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        let left = left.and_then(|left| Timespec::try_from(left).ok());
        if rustix::event::poll(&mut fds, left.as_ref()).is_err() {
            return (false, false, false);
        }
        let has = |at: usize| fds.get(at).is_some_and(|fd| !fd.revents().is_empty());
        (has(0), has(1), has(2))
    }

    /// Does somebody still want to know?
    fn hear(&mut self, heard: &Receiver<Word>, wake: &OwnedFd) -> bool {
        let _ = rustix::io::read(wake, &mut [0; 8]);
        loop {
            match heard.try_recv() {
                Ok(Word::Given(path, gives)) => {
                    let with = match gives {
                        Gives::Read => self.surface.with_read(&path),
                        Gives::Write => self.surface.with_write(&path),
                    };
                    // What the rules do not let be given was not.
                    let Ok(with) = with else { continue };
                    self.given.push((path.clone(), Box::new(with)));
                    self.enter(&path);
                    self.check_all();
                }
                Ok(Word::Taken(path)) => {
                    self.given.retain(|(given, _)| *given != path);
                    self.guards.retain(|guard, _| !guard.is_within(&path));
                    if let Some(tree) = &mut self.tree {
                        tree.forget(&path);
                    }
                }
                Err(mpsc::TryRecvError::Empty) => return true,
                Err(mpsc::TryRecvError::Disconnected) => return false,
            }
        }
    }

    /// Begins to watch, and looks for what came since the view was made.
    fn look_around(&mut self) {
        match Tree::new() {
            Ok(tree) => self.tree = Some(tree),
            Err(errno) => self.unwatched(&AbsPath::root(), 1, Unwatched::Refused(errno)),
        }
        let is_host = |path: &AbsPath| matches!(self.ground(path), Some(Ground::Host { .. }));
        let named: Vec<AbsPath> = self.named().filter(is_host).collect();
        named.iter().for_each(|path| self.guard(path));
        // Guards first: wherever they are, they are watched.
        let parents: BTreeSet<AbsPath> = self.guards.keys().filter_map(AbsPath::parent).collect();
        for parent in &parents {
            self.watch_near(parent);
        }
        for start in Starts::of(self.surface, &self.visible).paths() {
            self.enter(start);
        }
        self.check_all();
    }

    /// What rules deny by its path, where the host's files are shown.
    fn named(&self) -> impl Iterator<Item = AbsPath> + use<'k, T> {
        let surface = self.surface;
        let denies = |effect| matches!(effect, Effect::Deny | Effect::Escape);
        let rules = surface.rules().iter().filter(move |rule| denies(rule.effect) && rule.sense == Sense::Rule);
        rules.filter_map(|rule| rule.pattern.as_path().cloned())
    }

    /// Watches a directory, or the nearest above it that is there.
    fn watch_near(&mut self, dir: &AbsPath) {
        for near in dir.ancestors() {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW;
            match open_beneath(&self.top, &relative(&near), flags) {
                Ok(open) => return self.watch(&open, &near).unwrap_or_else(|why| self.unwatched(&near, 1, why)),
                Err(Errno::NOENT) => {}
                // Whoever may not list it learns of nothing in it.
                Err(errno) => return self.unwatched(&near, 1, Unwatched::Refused(errno)),
            }
        }
    }

    fn watch(&mut self, dir: &OwnedFd, path: &AbsPath) -> Result<(), Unwatched> {
        self.tree.as_mut().map_or(Ok(()), |tree| tree.watch(dir, path))
    }

    fn unwatched(&self, below: &AbsPath, count: u64, why: Unwatched) {
        let why = match why {
            Unwatched::TooMany => "there are too many directories to watch".to_owned(),
            Unwatched::Refused(errno) => io::Error::from(errno).to_string(),
        };
        (self.tell)(Found::Unwatched { below: below.clone(), count, why });
    }

    /// The rules that hold at a place.
    fn rules_at(&self, path: &AbsPath) -> &Surface {
        self.given.iter().find(|(given, _)| path.is_within(given)).map_or(self.surface, |(_, with)| with)
    }

    fn ground(&self, path: &AbsPath) -> Option<Ground> {
        match self.given.iter().find(|(given, _)| path.is_within(given)) {
            Some(_) => Some(Ground::Host { is_writable: false }),
            None => self.visible.ground(path),
        }
    }

    /// Watches a directory and everything below it that rules speak of, the nearest first, and notes what is to be covered.
    fn enter(&mut self, root: &AbsPath) {
        let (mut left_out, mut why) = (0, None);
        let mut buffer = vec![MaybeUninit::uninit(); 32 << 10];
        let mut ahead = VecDeque::from([root.clone()]);
        while let Some(path) = ahead.pop_front() {
            // What has gone, or cannot be listed, was hidden when the view was made.
            let Ok(dir) = open_to_list(&self.top, &path) else { continue };
            if let Err(cause) = self.watch(&dir, &path) {
                (left_out, why) = (left_out + 1, Some(cause));
                if left_out > MOST_LISTED {
                    break;
                }
            }
            let mut found = Vec::new();
            {
                let cursor = self.rules_at(&path).cursor(&path);
                let mut listing = RawDir::new(&dir, &mut buffer);
                while let Some(Ok(entry)) = listing.next() {
                    let name = entry.file_name().to_bytes();
                    if matches!(name, b"." | b"..") {
                        continue;
                    }
                    let kind = match entry.file_type() {
                        FileType::Unknown => rustix::fs::statat(&dir, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW)
                            .map_or(FileType::Unknown, |status| FileType::from_raw_mode(status.st_mode)),
                        kind => kind,
                    };
                    match self.judge(&path, &cursor, name, kind) {
                        Verdict::Cover => found.push(path.child(name)),
                        Verdict::Enter => ahead.push_back(path.child(name)),
                        Verdict::Leave => {}
                    }
                }
            }
            found.iter().for_each(|path| self.guard(path));
        }
        if let Some(why) = why {
            self.unwatched(root, left_out, why);
        }
    }

    fn judge(&self, dir: &AbsPath, cursor: &Cursor<'_>, name: &[u8], kind: FileType) -> Verdict {
        let is_writable = || self.ground(dir) == Some(Ground::Host { is_writable: true });
        match cursor.standing(name) {
            Standing::Denied(_) => Verdict::Cover,
            _ if kind == FileType::Fifo && !is_writable() => Verdict::Cover,
            _ if kind == FileType::Directory && !cursor.enter(name).is_exhausted() => Verdict::Enter,
            // What is protected is written by nobody whom the broker does not let; it is covered where it was at the start.
            Standing::Protected(_) | Standing::Open => Verdict::Leave,
        }
    }

    /// Notes that a place is to be covered, and wherever else the host mounts it.
    fn guard(&mut self, path: &AbsPath) {
        let places = [path.clone()].into_iter().chain(self.aliases.of(path));
        let is_host = |place: &AbsPath| matches!(self.ground(place), Some(Ground::Host { .. }));
        let places: Vec<AbsPath> = places.filter(is_host).collect();
        if self.guards.len() >= MOST_GUARDS {
            // Without a broker those inside could make such names without end.
            let top = &self.top;
            self.guards.retain(|path, _| open_place(top, &relative(path)).is_ok());
        }
        self.guards.extend(places.into_iter().map(|place| (place, Cover::Mask)));
    }

    /// What happened in the directories that are watched. Was any of it about a guard?
    fn names(&mut self) -> bool {
        let noticed = self.tree.as_mut().map(Tree::noticed).unwrap_or_default();
        let mut bare: BTreeSet<AbsPath> = BTreeSet::new();
        for one in noticed {
            match one {
                Noticed::Lost => {
                    // Whoever makes names faster than they are read would have nothing else done.
                    self.settle = Some(Instant::now() + LOST);
                    return false;
                }
                Noticed::Name(path, is_dir) => bare.extend(self.name_appeared(&path, is_dir)),
            }
        }
        let bare: Vec<(AbsPath, Cover)> =
            bare.into_iter().filter_map(|path| self.guards.get(&path).map(|cover| (path.clone(), *cover))).collect();
        !bare.is_empty() && self.mend(&bare)
    }

    /// A name appeared: what is to be looked at because of it.
    fn name_appeared(&mut self, path: &AbsPath, is_dir: IsDirectory) -> Vec<AbsPath> {
        let Some(Ground::Host { is_writable }) = self.ground(path) else { return Vec::new() };
        let (Some(dir), Some(name)) = (path.parent(), path.file_name()) else { return Vec::new() };
        // Most names are of files that nothing speaks of, made inside: they are not worth a look.
        let is_plain = is_writable && is_dir == IsDirectory::No && !self.guards.contains_key(path);
        if is_plain && self.rules_at(path).decide(path, Access::Read).is_allowed() {
            return Vec::new();
        }
        let status = open_place(&self.top, &relative(path)).and_then(rustix::fs::fstat);
        let kind = status.map_or(FileType::Unknown, |status| FileType::from_raw_mode(status.st_mode));
        let verdict = self.judge(&dir, &self.rules_at(path).cursor(&dir), name, kind);
        match verdict {
            Verdict::Cover => self.guard(path),
            Verdict::Enter => self.enter(path),
            Verdict::Leave => {}
        }
        if kind == FileType::Directory {
            // Guards that were in what stood there before.
            let below: Vec<AbsPath> = self.guards_below(path);
            below
                .iter()
                .filter_map(AbsPath::parent)
                .collect::<BTreeSet<_>>()
                .iter()
                .for_each(|dir| self.watch_near(dir));
            return below;
        }
        if self.guards.contains_key(path) { self.guards_below(path) } else { Vec::new() }
    }

    /// The guard at a place and those below it, and what the host shows of them elsewhere.
    fn guards_below(&self, path: &AbsPath) -> Vec<AbsPath> {
        let elsewhere = self.aliases.of(path);
        let places = [path.clone()].into_iter().chain(elsewhere);
        let below = |place: AbsPath| {
            let from = self.guards.range(place.clone()..).map(|(guard, _)| guard);
            from.take_while(move |guard| guard.as_bytes().starts_with(place.as_bytes())).cloned()
        };
        places.flat_map(below).collect()
    }

    fn check_all(&mut self) {
        let all: Vec<(AbsPath, Cover)> = self.guards.iter().map(|(path, cover)| (path.clone(), *cover)).collect();
        if !all.is_empty() {
            self.mend(&all);
        }
    }

    /// Covers what is bare of these. Was any?
    fn mend(&mut self, guards: &[(AbsPath, Cover)]) -> bool {
        let mended = match self.view.mend(guards) {
            Ok(mended) => mended,
            // The view has gone, or there is no process to be had: it is tried again.
            Err(error) => {
                if let Some(((path, _), more)) = guards.split_first() {
                    let (path, more, why) = (path.clone(), more.len() as u64, error.to_string());
                    self.retry(Found::Unchecked { path: path.clone(), more, why }, &path);
                }
                return false;
            }
        };
        let was_bare = !mended.is_empty();
        let still = |path: &AbsPath| {
            let is_it = |one: &Mended| match one {
                Mended::Bare(number, _) | Mended::Unknown(number, _) => {
                    guards.get(*number).is_some_and(|(one, _)| one == path)
                }
                Mended::Covered(_) => false,
            };
            mended.iter().any(is_it)
        };
        let is_among = |path: &AbsPath| guards.iter().any(|(guard, _)| guard == path);
        self.bare.retain(|path, _| still(path) || !is_among(path));
        for one in mended {
            match one {
                Mended::Covered(number) => {
                    let Some((path, cover)) = guards.get(number) else { continue };
                    let lasted = self.age(path);
                    (self.tell)(Found::Gap { path: path.clone(), lasted, cover: *cover });
                }
                Mended::Bare(number, error) => {
                    let Some((path, cover)) = guards.get(number) else { continue };
                    self.retry(Found::Bare { path: path.clone(), cover: *cover, why: error.to_string() }, path);
                }
                Mended::Unknown(number, error) => {
                    let Some((path, _)) = guards.get(number) else { continue };
                    self.retry(Found::Unchecked { path: path.clone(), more: 0, why: error.to_string() }, path);
                }
            }
        }
        was_bare
    }

    /// Something could not be covered, since it was replaced once more, or for good, or could not be looked at. It is tried again, and
    /// reported if that does not help.
    fn retry(&mut self, found: Found, path: &AbsPath) {
        let tries = self.bare.entry(path.clone()).or_insert(0);
        *tries += 1;
        let tries = *tries;
        match AGAIN.get(tries - 1) {
            Some(wait) => {
                let soon = Instant::now() + *wait;
                if self.again.is_none_or(|(again, _)| soon < again) {
                    self.again = Some((soon, tries));
                }
            }
            None if tries == AGAIN.len() + 1 => (self.tell)(found),
            None => {}
        }
    }

    /// How long something has stood under its name: that is what its inode was last changed by.
    fn age(&self, path: &AbsPath) -> Duration {
        let status = open_place(&self.top, &relative(path)).and_then(rustix::fs::fstat);
        let changed = status.ok().and_then(|status| {
            let (seconds, nanoseconds) =
                (u64::try_from(status.st_ctime).ok()?, u32::try_from(status.st_ctime_nsec).ok()?);
            SystemTime::UNIX_EPOCH.checked_add(Duration::new(seconds, nanoseconds))
        });
        changed.and_then(|changed| SystemTime::now().duration_since(changed).ok()).unwrap_or_default()
    }
}

/// When there are more, those of what has gone are forgotten.
const MOST_GUARDS: usize = 50_000;

/// Directories that are not watched are still looked through when they appear, up to so many.
const MOST_LISTED: u64 = 50_000;

/// What a name needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Cover,
    Enter,
    Leave,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_hears_is_counted() {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let (tell, heard) = channel(rustix::event::eventfd(0, flags).unwrap()).unwrap();
        let gap = || Found::Gap { path: AbsPath::root(), lasted: Duration::ZERO, cover: Cover::Mask };
        (0..MOST_UNHEARD + 3).for_each(|_| tell.tell(gap()));
        let all = heard.all();
        assert_eq!((all.len(), all.last()), (MOST_UNHEARD + 1, Some(&Found::Unheard { count: 3 })));
        tell.tell(gap());
        assert_eq!(heard.all(), [gap()]);
    }
}
