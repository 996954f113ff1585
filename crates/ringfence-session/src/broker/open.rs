//! Opening for more than reading.
//!
//! The broker opens the file relative to the dirfd that it has checked, with `O_NOFOLLOW` and `O_NONBLOCK`, and passes the
//! descriptor to the caller. What would block (a FIFO without a reader, a lease of another process) is parked, without a lock.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use ringfence_git::layout::{FileKind, Grammar, file_kind};
use ringfence_git::settings::Age;
use ringfence_surface::{AbsPath, Access};
use ringfence_sys::notify::OnExec;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;

use super::caller::c_string;
use super::git::{Content, INDEX_LOCK, JudgedBy, Refusal, is_telling};
use super::parked::{Rights, Waiter};
use super::request::Named;
use super::resolve::{From, Last, Place, Target, is_of_processes, mount_of};
use super::work::{Reply, Stop, Work};
use crate::repository::is_redirect_of_jj;

/// `struct open_how`, as far as it is known.
const OPEN_HOW: usize = 24;
/// The bits by which a program runs as its owner or its group, and those by which it runs at all.
const SET_IDS: u32 = 0o6000;
const SET_USER: u32 = 0o4000;
/// Without the group's right to run it, the bit is about locks.
const SET_GROUP: u32 = 0o2010;
const ANY_EXEC: u32 = 0o111;
/// What a process may write of itself in `/proc`: what its threads are called, what a core dump of it holds, and how soon it is ended
/// when memory is short.
const OWN_FILES: [&[u8]; 3] = [b"comm", b"coredump_filter", b"oom_score_adj"];
/// The device number of `/dev/tty`.
const DEV_TTY: u64 = 0x500;

/// What is to be opened, and how.
#[derive(Debug, Clone, Copy)]
pub(super) struct Opening {
    pub(super) flags: OFlags,
    pub(super) mode: Mode,
}

impl Opening {
    pub(super) fn has(&self, flags: OFlags) -> bool {
        self.flags.contains(flags)
    }

    pub(super) fn writes(&self) -> bool {
        self.flags.bits() & 3 != 0 || self.has(OFlags::TRUNC)
    }

    pub(super) fn on_exec(&self) -> OnExec {
        if self.has(OFlags::CLOEXEC) { OnExec::Close } else { OnExec::Keep }
    }
}

/// The bit that makes it a file without a name; the constant holds O_DIRECTORY as well.
fn is_unnamed(flags: OFlags) -> bool {
    flags.bits() & 0x40_0000 != 0
}

impl Work<'_, '_> {
    pub(super) fn open(&mut self, file: Named, flags: u32, mode: u32) -> Result<Reply, Stop> {
        let path = self.path(file)?;
        let opening = Opening { flags: OFlags::from_bits_retain(flags), mode: mode_of(mode) };
        if !is_unnamed(opening.flags)
            && let Some(place) = self.again.place(&self.caller, file, &path)
            && let Entry::Done(reply) = self.open_entry(&place, &opening)?
        {
            return Ok(reply);
        }
        let from = self.resolver.from(file.dir, &path)?;
        if path.is_empty() {
            return Err(Errno::NOENT.into());
        }
        let place = self.resolver.place(&from, &path)?;
        self.hold_on_to(file, &path, &place);
        self.open_at(&from, place, &opening)
    }

    /// openat2: everything is behind a pointer, so also what only reads is carried out here.
    pub(super) fn open2(&mut self, file: Named, how: u64, size: u64) -> Result<Reply, Stop> {
        let size = usize::try_from(size).map_err(|_| Errno::TOOBIG)?;
        if size < OPEN_HOW {
            return Err(Errno::INVAL.into());
        }
        if size > 4096 {
            return Err(Errno::TOOBIG.into());
        }
        let mut bytes = vec![0; size];
        self.caller.bytes(how, &mut bytes)?;
        if bytes[OPEN_HOW..].iter().any(|byte| *byte != 0) {
            return Err(Errno::TOOBIG.into());
        }
        let word = |at: usize| bytes[at..].first_chunk::<8>().map_or(0, |word| u64::from_ne_bytes(*word));
        let (flags, mode, resolve) = (word(0), word(8), word(16));
        let (Ok(flags), Ok(mode @ 0..=0o7777)) = (u32::try_from(flags), u32::try_from(mode)) else {
            return Err(Errno::INVAL.into());
        };
        let bounds = ResolveFlags::from_bits_retain(resolve);
        let opening = Opening { flags: OFlags::from_bits_retain(flags), mode: Mode::from_raw_mode(mode) };
        // The kernel looks at the flags before it looks at the path, and says whether it takes them.
        let asked = rustix::fs::openat2(self.resolver.root, c"", opening.flags, opening.mode, bounds);
        if let Err(errno) = asked.map(drop)
            && errno != Errno::NOENT
        {
            return Err(errno.into());
        }
        let path = self.path(file)?;
        if path.is_empty() {
            return Err(Errno::NOENT.into());
        }
        if resolve & 0x20 != 0 {
            // RESOLVE_CACHED: the caller tries again without it.
            return Err(Errno::AGAIN.into());
        }
        // The bounds (RESOLVE_BENEATH, RESOLVE_IN_ROOT) are relative to the dirfd, for an absolute path too.
        let from = match self.resolver.directory(file.dir) {
            Ok(dir) if !bounds.is_empty() => From { dir, bounds },
            _ => From { bounds, ..self.resolver.from(file.dir, &path)? },
        };
        if opening.has(OFlags::PATH) {
            // ADDFD cannot pass an O_PATH descriptor. Libraries fall back to openat, as on kernels without openat2.
            return Err(Errno::NOSYS.into());
        }
        if opening.flags.bits() & 3 == 0
            && !opening.flags.intersects(OFlags::CREATE | OFlags::TRUNC)
            && !is_unnamed(opening.flags)
        {
            return self.open_to_read(&from, &path, &opening);
        }
        self.open_from(&from, &path, &opening)
    }

    /// Reading, by openat2. What may not be read is not in the mount namespace, or masked.
    fn open_to_read(&mut self, from: &From, path: &[u8], opening: &Opening) -> Result<Reply, Stop> {
        let place = self.resolver.place(from, path)?;
        let last = if opening.has(OFlags::NOFOLLOW) { Last::Itself } else { Last::Followed };
        let is_in_proc = is_of_processes(place.at.as_bytes());
        let target = match self.resolver.target(from, place, last) {
            // A magic link to an object without a path, or of another process: libraries fall back to openat.
            Err(Errno::ACCESS) if is_in_proc => return Err(Errno::NOSYS.into()),
            other => other?,
        };
        if target.kind() == FileType::Symlink {
            return Err(Errno::LOOP.into());
        }
        if let Some(path) = &target.path
            && self.resolver.is_of_another(path)?
        {
            // Only the caller's own call has the right ptrace check: libraries fall back to openat.
            return Err(Errno::NOSYS.into());
        }
        let flags = opening.flags & !OFlags::NOFOLLOW;
        self.open_target(&target, &Opening { flags, mode: Mode::empty() })
    }

    fn open_from(&mut self, from: &From, path: &[u8], opening: &Opening) -> Result<Reply, Stop> {
        let place = self.resolver.place(from, path)?;
        self.open_at(from, place, opening)
    }

    fn open_at(&mut self, from: &From, mut place: Place, opening: &Opening) -> Result<Reply, Stop> {
        if is_unnamed(opening.flags) {
            return self.open_unnamed(from, place, opening);
        }
        loop {
            if place.name.is_empty() || !place.is_entry() || place.slash {
                return self.open_other(from, place, opening);
            }
            if from.bounds.contains(ResolveFlags::NO_XDEV) && is_mounted_on(&place) {
                return Err(Errno::XDEV.into());
            }
            match self.open_entry(&place, opening)? {
                Entry::Done(reply) => return Ok(reply),
                Entry::Link => place = self.resolver.follow(from, &place)?,
            }
        }
    }

    /// An entry of a directory, as most are.
    fn open_entry(&mut self, place: &Place, opening: &Opening) -> Result<Entry, Stop> {
        let path = place.path();
        if let Some(reply) = self.open_own_file(place, &path, opening)? {
            return Ok(Entry::Done(reply));
        }
        if let Some(reply) = self.open_in_git(place, &path, opening)? {
            return Ok(reply);
        }
        let ruling = self.judge(&path, Access::Write);
        if !ruling.is_allowed() {
            if let Some(reply) = self.open_version(place, &path, opening)? {
                return Ok(Entry::Done(reply));
            }
            return self.open_refused(place, &path, opening);
        }
        if opening.has(OFlags::CREATE) && is_redirect_of_jj(&place.at, &place.name) && place.look().is_err() {
            self.may_redirect_jj(&place.at, &place.name)?;
        }
        if opening.has(OFlags::DIRECTORY) {
            // With this flag a link is no directory, whatever it leads to, unless it is followed.
            return match place.look().map(|status| FileType::from_raw_mode(status.st_mode)) {
                Ok(FileType::Symlink) if opening.has(OFlags::NOFOLLOW) => Err(Errno::NOTDIR.into()),
                Ok(FileType::Symlink) => Ok(Entry::Link),
                _ => self.open_now(place, opening),
            };
        }
        self.open_now(place, opening)
    }

    /// A file of `/proc` that a process may write of itself, opened on a mount that is not reachable inside. Files of other processes
    /// are not opened: the kernel would check the rights of this process, an ancestor of all of them (confused deputy). The kernel looks
    /// at the caller again when it writes.
    fn open_own_file(&mut self, place: &Place, path: &AbsPath, opening: &Opening) -> Result<Option<Reply>, Stop> {
        if !opening.writes() || !OWN_FILES.contains(&place.name.as_slice()) {
            return Ok(None);
        }
        let number = path.components().nth(1).unwrap_or_default();
        let is_process = !number.is_empty() && number.iter().all(u8::is_ascii_digit);
        let relative = path.as_bytes().strip_prefix(b"/proc/").filter(|_| is_process);
        let (Some(proc), Some(relative)) = (&self.broker().own_proc, relative) else { return Ok(None) };
        let is_proc = rustix::fs::fstat(&place.dir)?.st_dev == rustix::fs::fstat(proc)?.st_dev;
        if !is_proc || self.resolver.is_of_another(path)? {
            return Ok(None);
        }
        if opening.has(OFlags::CREATE | OFlags::EXCL) {
            return Err(Errno::EXIST.into());
        }
        if opening.has(OFlags::DIRECTORY) {
            return Err(Errno::NOTDIR.into());
        }
        let flags = opening.flags & !(OFlags::CREATE | OFlags::TRUNC) | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let name = c_string(relative)?;
        let fd = self.perform(|| rustix::fs::openat(proc, name.as_c_str(), flags, Mode::empty()))?;
        Ok(Some(Reply::Descriptor(fd, opening.on_exec())))
    }

    /// A file of a git directory, or one that names a git directory.
    fn open_in_git(&mut self, place: &Place, path: &AbsPath, opening: &Opening) -> Result<Option<Entry>, Stop> {
        if opening.has(OFlags::CREATE) && is_telling(&place.name) && place.look().is_err() {
            let _ = self.may_become(place)?;
        }
        if place.name == INDEX_LOCK && opening.has(OFlags::CREATE | OFlags::EXCL) {
            self.foresee(place, &place.at)?;
        }
        let judged = self.judged_by(place)?;
        if judged == JudgedBy::Rules || opening.has(OFlags::DIRECTORY) || !self.is_permitted(path, judged) {
            return Ok(None);
        }
        let git = self.git_place(place)?;
        let content = self.content_of(place, git.as_ref());
        // A file guarded by a mount is replaced, never written in place: a shell redirection ignores the error of `close`.
        if content.is_some() && opening.writes() && is_mounted_on(place) {
            return Ok(None);
        }
        // Git writes this file once, when it makes the work tree.
        if content == Some(Content::Vetted(Grammar::CommonDir)) && opening.writes() && place.look().is_ok() {
            self.refuse_in_git(place, &Refusal::Closed)?;
            return Err(Errno::ACCESS.into());
        }
        if let Some(content) = content {
            return self.open_judged(place, opening, (content, git)).map(|reply| Some(Entry::Done(reply)));
        }
        let kind = git.as_ref().map_or(FileKind::Free, |git| file_kind(&git.relative));
        let is_new = git.as_ref().is_some_and(|git| git.age == Age::New);
        let may_mark = git.is_some_and(|git| self.may_mark_pack(place, &git));
        let status = place.look();
        let changes = opening.writes() || opening.has(OFlags::CREATE);
        let refusal = match (&status, kind) {
            (Ok(status), _) if FileType::from_raw_mode(status.st_mode) == FileType::Directory => None,
            (Ok(_), _) if opening.has(OFlags::CREATE | OFlags::EXCL) => None,
            (_, FileKind::Closed) if changes => Some(Refusal::Closed),
            // Git would write through the link, or to the hard link alias.
            (Ok(status), _) if changes && !is_plain(status) => Some(Refusal::Link),
            // A clone copies the objects of another file system.
            (Err(Errno::NOENT), FileKind::Object(_)) if is_new => None,
            (Ok(_) | Err(Errno::NOENT), FileKind::Object(_)) if may_mark => None,
            (_, FileKind::Object(_)) if changes => Some(Refusal::Object),
            _ => None,
        };
        match refusal {
            Some(refusal) => {
                self.refuse_in_git(place, &refusal)?;
                // The user allows it, or the mount is read-only.
                Ok(if self.judge(path, Access::Write).is_allowed() {
                    None
                } else {
                    Some(self.open_now(place, opening)?)
                })
            }
            None => Ok(None),
        }
    }

    fn open_now(&mut self, place: &Place, opening: &Opening) -> Result<Entry, Stop> {
        let name = c_string(&place.name)?;
        let creates = opening.has(OFlags::CREATE);
        let is_new = creates && opening.has(OFlags::EXCL);
        let mut flags = opening.flags | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NOCTTY;
        let waits = !is_new && !opening.has(OFlags::NONBLOCK);
        if waits {
            flags |= OFlags::NONBLOCK;
        }
        if creates {
            self.take_mask()?;
        }
        let opened = self.perform(|| rustix::fs::openat(&place.dir, name.as_c_str(), flags, opening.mode));
        match opened {
            Ok(fd) => {
                if creates {
                    self.region_changed(place);
                }
                if !is_new {
                    let status = rustix::fs::fstat(&fd)?;
                    if is_dev_tty(&status) {
                        // What was opened just now is the terminal of this process, if it had one.
                        drop(fd);
                        return self.open_found(place, opening);
                    }
                    self.may_alter(&fd, (&status, Some(&place.path())), opening)?;
                }
                if waits {
                    settle(&fd, opening.flags)?;
                }
                Ok(Entry::Done(Reply::Descriptor(fd, opening.on_exec())))
            }
            Err(Errno::LOOP) if !opening.has(OFlags::NOFOLLOW) && is_link(place) => Ok(Entry::Link),
            // A FIFO without a reader; or this process has no terminal, as intended, and the caller may have one.
            Err(Errno::NXIO) => self.open_found(place, opening),
            Err(Errno::AGAIN) if waits => self.open_found(place, opening),
            Err(errno) => {
                self.report_other_name(place, errno);
                Err(errno.into())
            }
        }
    }

    /// No rule speaks of this name, and the kernel says that it is read-only: where it is a hard link, the guard of another of its
    /// names is on it.
    fn report_other_name(&self, place: &Place, errno: Errno) {
        let is_linked = || {
            place.look().is_ok_and(|status| {
                FileType::from_raw_mode(status.st_mode) == FileType::RegularFile && status.st_nlink > 1
            })
        };
        if errno == Errno::ROFS && is_linked() && is_mounted_on(place) {
            let why = "it is another name (a hard link) of a file that is guarded".to_owned();
            let remedy = "outside the fence, put a copy in its place: cp FILE NEW && mv NEW FILE".to_owned();
            let (judge, call) = self.teller();
            judge.stopped(self.caller.known(), call, place.path(), (why, remedy));
        }
    }

    /// What stands at a place that could not simply be opened.
    fn open_found(&mut self, place: &Place, opening: &Opening) -> Result<Entry, Stop> {
        let from = From { dir: place.dir.clone(), bounds: ResolveFlags::empty() };
        let again = self.resolver.place(&from, &place.name)?;
        let target = self.resolver.target(&from, again, Last::Itself)?;
        if target.kind() == FileType::Symlink {
            return Err(Errno::LOOP.into());
        }
        self.open_target(&target, opening).map(Entry::Done)
    }

    /// What no rule allows: the kernel's own errors come first.
    fn open_refused(&mut self, place: &Place, path: &AbsPath, opening: &Opening) -> Result<Entry, Stop> {
        let (creates, is_exclusive) = (opening.has(OFlags::CREATE), opening.has(OFlags::EXCL));
        let status = match place.look() {
            Ok(status) => status,
            Err(Errno::NOENT) if creates => {
                let allowed = self.refuse_or_ask(place.dir.as_fd(), path, Access::Write);
                return allowed.and_then(|()| self.open_now(place, opening));
            }
            Err(errno) => return Err(errno.into()),
        };
        match FileType::from_raw_mode(status.st_mode) {
            _ if creates && is_exclusive => Err(Errno::EXIST.into()),
            FileType::Symlink if opening.has(OFlags::NOFOLLOW | OFlags::DIRECTORY) => Err(Errno::NOTDIR.into()),
            FileType::Symlink if opening.has(OFlags::NOFOLLOW) => Err(Errno::LOOP.into()),
            FileType::Symlink => Ok(Entry::Link),
            FileType::Directory if creates || opening.writes() => Err(Errno::ISDIR.into()),
            FileType::Directory => Err(Errno::ISDIR.into()),
            _ if opening.has(OFlags::DIRECTORY) => Err(Errno::NOTDIR.into()),
            _ => {
                let from = From { dir: place.dir.clone(), bounds: ResolveFlags::empty() };
                let again = self.resolver.place(&from, &place.name)?;
                let target = self.resolver.target(&from, again, Last::Itself)?;
                self.open_held(&target, opening).map(Entry::Done)
            }
        }
    }

    /// A directory on the way, a name with a slash, or what a descriptor leads to.
    fn open_other(&mut self, from: &From, place: Place, opening: &Opening) -> Result<Reply, Stop> {
        if opening.has(OFlags::CREATE) && !place.name.is_empty() {
            return Err(Errno::ISDIR.into());
        }
        let last = if opening.has(OFlags::NOFOLLOW) { Last::Itself } else { Last::Followed };
        let target = self.resolver.target(from, place, last)?;
        self.open_held(&target, opening)
    }

    /// An existing object.
    fn open_held(&mut self, target: &Target, opening: &Opening) -> Result<Reply, Stop> {
        match target.kind() {
            _ if opening.has(OFlags::CREATE | OFlags::EXCL) => return Err(Errno::EXIST.into()),
            FileType::Symlink => return Err(Errno::LOOP.into()),
            FileType::Directory if opening.writes() || opening.has(OFlags::CREATE) => return Err(Errno::ISDIR.into()),
            FileType::Directory => {}
            _ if opening.has(OFlags::DIRECTORY) => return Err(Errno::NOTDIR.into()),
            _ => {}
        }
        // What has no name, and what is no longer anywhere, is not what a rule speaks of.
        if let Some(path) = target.path.as_ref().filter(|_| target.status.st_nlink > 0) {
            // To open what is there and not change it is to read it.
            let access = if opening.writes() { Access::Write } else { Access::Read };
            if !self.judge(path, access).is_allowed() {
                self.refuse_or_ask(target.fd.as_fd(), path, access)?;
            }
            if opening.writes() {
                self.is_known_by_its_path(target)?;
                self.may_change_in_git(path)?;
            }
        }
        let flags = opening.flags & !(OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW);
        self.open_target(target, &Opening { flags, mode: opening.mode })
    }

    /// Opens exactly the object of the `O_PATH` descriptor, and waits where the caller would.
    fn open_target(&mut self, target: &Target, opening: &Opening) -> Result<Reply, Stop> {
        if is_dev_tty(&target.status) {
            let terminal = self.terminal()?;
            return self.open_again(&terminal, opening);
        }
        if target.kind() == FileType::Fifo && !opening.has(OFlags::NONBLOCK) {
            return self.open_pipe(target, opening);
        }
        self.open_again(target, opening)
    }

    fn open_again(&mut self, target: &Target, opening: &Opening) -> Result<Reply, Stop> {
        // What the kernel shows of a process depends on who opens it, and to this one it shows all of it.
        if let Some(path) = &target.path
            && (self.resolver.is_ours(path) || self.resolver.is_of_another(path)?)
        {
            return Err(Errno::ACCESS.into());
        }
        let flags =
            (opening.flags & !(OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW)) | OFlags::CLOEXEC | OFlags::NOCTTY;
        let flags = if opening.has(OFlags::NONBLOCK) { flags } else { flags | OFlags::NONBLOCK };
        let path = target.by_descriptor();
        match self.perform(|| rustix::fs::open(path.as_c_str(), flags, Mode::empty())) {
            Err(Errno::AGAIN) if !opening.has(OFlags::NONBLOCK) => {
                // Another process has a lease, and gets the time to release it.
                let (target, answered) = (target.try_clone()?, self.answer());
                self.wait(UnderLease { target, flags, opening: *opening, answered })
            }
            opened => Ok(opened_again(&self.rights(), opened?, target, opening)?),
        }
    }

    fn may_alter(&self, fd: &OwnedFd, about: (&Stat, Option<&AbsPath>), opening: &Opening) -> Result<(), Stop> {
        Ok(may_alter(&self.rights(), fd, about, opening)?)
    }

    /// A FIFO: opening one end waits for the other.
    fn open_pipe(&mut self, target: &Target, opening: &Opening) -> Result<Reply, Stop> {
        let target = target.try_clone()?;
        self.wait(PipeEnd { target, opening: *opening, reader: None })
    }

    /// A file without a name. Where it may get one is asked when it does.
    fn open_unnamed(&mut self, from: &From, place: Place, opening: &Opening) -> Result<Reply, Stop> {
        let last = if opening.has(OFlags::NOFOLLOW) { Last::Itself } else { Last::Followed };
        let target = self.resolver.target(from, place, last)?;
        if target.kind() != FileType::Directory {
            return Err(if target.kind() == FileType::Symlink { Errno::LOOP } else { Errno::NOTDIR }.into());
        }
        let flags = (opening.flags & !OFlags::NOFOLLOW) | OFlags::CLOEXEC;
        self.take_mask()?;
        let fd = self.perform(|| rustix::fs::openat(&target.fd, c".", flags, opening.mode))?;
        Ok(Reply::Descriptor(fd, opening.on_exec()))
    }

    /// The caller's terminal, by its own name: `/dev/tty` would be ours.
    fn terminal(&self) -> Result<Target, Stop> {
        let number = u64::from(self.caller.terminal()?);
        if number == 0 {
            return Err(Errno::NXIO.into());
        }
        // From the kernel's short form.
        let (major, minor) = ((number >> 8) & 0xfff, (number & 0xff) | ((number >> 12) & 0xfff00));
        let line = (136..144).contains(&major).then(|| (major - 136) * 256 + minor).ok_or(Errno::NXIO)?;
        let from = From { dir: self.resolver.root.clone(), bounds: ResolveFlags::empty() };
        let place = self.resolver.place(&from, format!("/dev/pts/{line}").as_bytes())?;
        let target = self.resolver.target(&from, place, Last::Itself)?;
        let is_it = target.status.st_rdev == rustix::fs::makedev(major as u32, minor as u32);
        if is_it { Ok(target) } else { Err(Errno::NXIO.into()) }
    }
}

/// An open of a FIFO that blocks until its other end is open.
#[derive(Debug)]
struct PipeEnd {
    target: Target,
    opening: Opening,
    /// The end for reading, which is open already and waits for a writer.
    reader: Option<OwnedFd>,
}

impl Waiter for PipeEnd {
    fn attempt(&mut self, rights: &Rights<'_, '_>) -> Option<rustix::io::Result<Reply>> {
        let opening = &self.opening;
        let flags =
            (opening.flags & !(OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW)) | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let end = match self.reader.take() {
            Some(end) => end,
            None => {
                let path = self.target.by_descriptor();
                match rights.perform(|| rustix::fs::open(path.as_c_str(), flags, Mode::empty())) {
                    Ok(end) => end,
                    Err(Errno::NXIO) => return None,
                    Err(errno) => return Some(Err(errno)),
                }
            }
        };
        if opening.flags.bits() & 3 == 0 && !has_writer(&end) {
            self.reader = Some(end);
            return None;
        }
        let settled = rustix::fs::fcntl_setfl(&end, opening.flags & !OFlags::NONBLOCK);
        Some(settled.map(|()| Reply::Descriptor(end, opening.on_exec())))
    }

    fn readiness(&self) -> Option<(BorrowedFd<'_>, PollFlags)> {
        self.reader.as_ref().map(|reader| (reader.as_fd(), PollFlags::IN))
    }
}

/// Has anything been written to a pipe since this end was opened?
fn has_writer(end: &OwnedFd) -> bool {
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    rustix::event::poll(&mut [PollFd::new(end, PollFlags::IN)], Some(&now)) != Ok(0)
}

/// An open that blocks until another process has released its lease.
#[derive(Debug)]
struct UnderLease {
    target: Target,
    flags: OFlags,
    opening: Opening,
    /// What the user allowed when asked about this call.
    answered: Option<AbsPath>,
}

impl Waiter for UnderLease {
    fn attempt(&mut self, rights: &Rights<'_, '_>) -> Option<rustix::io::Result<Reply>> {
        let path = self.target.by_descriptor();
        let open = |flags| rights.perform(|| rustix::fs::open(path.as_c_str(), flags, Mode::empty()));
        // Not cut short (O_TRUNC) before it was judged again.
        let fd = match open(self.flags & !OFlags::TRUNC) {
            // The kernel breaks the lease after its time (`lease-break-time`).
            Err(Errno::AGAIN) => return None,
            Err(errno) => return Some(Err(errno)),
            Ok(fd) => fd,
        };
        if !self.opening.writes() {
            return Some(opened_again(rights, fd, &self.target, &self.opening));
        }
        let done = rights.judge_again(&self.target, self.answered.as_ref(), || {
            let fd = if self.flags.contains(OFlags::TRUNC) { open(self.flags)? } else { fd };
            opened_again(rights, fd, &self.target, &self.opening)
        });
        // A new lease, where the descriptor above is for reading.
        done.filter(|done| done.as_ref().err() != Some(&Errno::AGAIN))
    }
}

/// A descriptor of what was held, as the caller gets it.
fn opened_again(rights: &Rights<'_, '_>, fd: OwnedFd, target: &Target, opening: &Opening) -> rustix::io::Result<Reply> {
    if !opening.has(OFlags::NONBLOCK) {
        rustix::fs::fcntl_setfl(&fd, opening.flags & !OFlags::NONBLOCK)?;
    }
    // As it is now: the call may have waited.
    let status = rustix::fs::fstat(&fd)?;
    may_alter(rights, &fd, (&status, target.path.as_ref()), opening)?;
    Ok(Reply::Descriptor(fd, opening.on_exec()))
}

/// A write to a program with set-id bits or capabilities clears them: the kernel does so, but not where it is
/// written by way of memory. That takes a descriptor for both reading and writing.
fn may_alter(
    rights: &Rights<'_, '_>,
    fd: &OwnedFd,
    (status, path): (&Stat, Option<&AbsPath>),
    opening: &Opening,
) -> rustix::io::Result<()> {
    let is_file = FileType::from_raw_mode(status.st_mode) == FileType::RegularFile;
    let is_for_both = opening.flags.bits() & 3 == 2 && !opening.has(OFlags::TRUNC);
    // Of one that counts in another user namespace the kernel says only that it cannot be shown.
    let is_capable = || {
        let size = rustix::fs::fgetxattr(fd, c"security.capability", [0_u8; 0].as_mut_slice());
        matches!(size, Ok(_) | Err(Errno::OVERFLOW))
    };
    if !is_file || !is_for_both {
        return Ok(());
    }
    // The kernel takes these bits away at the first write; here that is done before the first one by way of memory.
    let runs_as_another = status.st_mode & SET_USER != 0 || status.st_mode & SET_GROUP == SET_GROUP;
    let plain = Mode::from_raw_mode(status.st_mode & 0o7777 & !SET_IDS);
    let is_plain = !runs_as_another || rights.perform(|| rustix::fs::fchmod(fd, plain)).is_ok();
    if is_plain && !(status.st_mode & ANY_EXEC != 0 && is_capable()) {
        return Ok(());
    }
    if let Some(path) = path {
        let why = "it is a program that runs with rights of its own, and would keep them".to_owned();
        let remedy = "make it anew under its name, or take its rights away outside the fence".to_owned();
        rights.broker.judge.stopped(rights.caller.known(), rights.call, path.clone(), (why, remedy));
    }
    Err(Errno::ACCESS)
}

/// How an entry of a directory was opened.
enum Entry {
    Done(Reply),
    /// It is a link.
    Link,
}

/// Is it a file with no other name?
fn is_plain(status: &Stat) -> bool {
    FileType::from_raw_mode(status.st_mode) == FileType::RegularFile && status.st_nlink <= 1
}

pub(super) fn is_link(place: &Place) -> bool {
    place.look().is_ok_and(|status| FileType::from_raw_mode(status.st_mode) == FileType::Symlink)
}

/// Is what stands there another mount than the directory it is in?
pub(super) fn is_mounted_on(place: &Place) -> bool {
    let hold = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened =
        c_string(&place.name).and_then(|name| rustix::fs::openat(&place.dir, name.as_c_str(), hold, Mode::empty()));
    opened.is_ok_and(|fd| mount_of(fd.as_fd()) != mount_of(place.dir.as_fd()))
}

/// Is it the name by which everybody opens a terminal of their own? Whose it is depends on who opens it.
fn is_dev_tty(status: &Stat) -> bool {
    FileType::from_raw_mode(status.st_mode) == FileType::CharacterDevice && status.st_rdev == DEV_TTY
}

/// It was opened without waiting; from now on it waits.
fn settle(fd: &OwnedFd, flags: OFlags) -> Result<(), Stop> {
    Ok(rustix::fs::fcntl_setfl(fd, flags & !OFlags::NONBLOCK)?)
}

/// open(2) ignores the other bits.
pub(super) fn mode_of(mode: u32) -> Mode {
    Mode::from_raw_mode(mode & 0o7777)
}
