//! Files that a program writes directly and whose content is judged: until it closes them, it writes to a file in memory.
//!
//! The descriptor gets a number whose close the filter reports, so the content is in place before `close` returns. A descriptor that is
//! closed otherwise (by the end of a process, by dup2) is found by a thread that polls, by a lease, whether a writer is left.

use std::collections::BTreeMap;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, Scope};
use std::time::Duration;

use ringfence_plan::{FIRST_JUDGED_DESCRIPTOR, JUDGED_DESCRIPTORS};
use ringfence_surface::AbsPath;
use ringfence_sys::lease;
use ringfence_sys::notify::{self, OnExec};
use rustix::fs::{AtFlags, MemfdFlags, Mode, OFlags};
use rustix::io::Errno;

use super::super::caller::{Caller, CallerNames, c_string};
use super::super::domain::{Domain, LandingRight, within};
use super::super::open::Opening;
use super::super::resolve::{Place, directory_of};
use super::super::work::{Reply, Stop, Work};
use super::super::{Broker, STACK};
use super::versions::remedy_for;
use super::{Content, GitPlace, NotPut, Refusal};
use crate::git_files::{LONGEST, Region, put, read_all};
use crate::landing::{LONGEST_VERSION, Landing, SettingsFile};

/// More are not open at once.
const MOST: usize = 256;
/// How long the thread waits between two looks, at first and at most.
const PAUSE: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(250));

/// The files that are being written.
#[derive(Debug)]
pub(in super::super) struct JudgedFiles {
    open: Mutex<BTreeMap<(u64, u64), Arc<JudgedFile>>>,
    is_watched: AtomicBool,
}

/// What was judged, and what came of it.
type Judgement = (Vec<u8>, Result<(), Errno>);

/// One of them.
#[derive(Debug)]
struct JudgedFile {
    /// Open for reading.
    file: OwnedFd,
    dir: Arc<OwnedFd>,
    at: AbsPath,
    name: Vec<u8>,
    git: Option<GitPlace>,
    /// Its directory was in no git directory.
    was_ordinary: bool,
    content: Content,
    mode: Mode,
    /// There was no such file before.
    is_made: bool,
    caller: CallerNames,
    call: &'static str,
    domain: Option<Domain>,
    /// What was judged last, and what came of it.
    last: Mutex<Option<Judgement>>,
}

impl JudgedFile {
    /// Removes the empty file that was made for one whose content is refused.
    fn withdraw(&self) {
        let Ok(name) = c_string(&self.name) else { return };
        let status = rustix::fs::statat(self.dir.as_fd(), name.as_c_str(), AtFlags::SYMLINK_NOFOLLOW);
        if self.is_made && status.is_ok_and(|status| status.st_size == 0) {
            // Another process may have removed it.
            let unlink = || rustix::fs::unlinkat(self.dir.as_fd(), name.as_c_str(), AtFlags::empty());
            let _ = within(self.domain.as_ref(), unlink);
        }
    }
}

impl JudgedFiles {
    pub(in super::super) fn new() -> Self {
        Self { open: Mutex::new(BTreeMap::new()), is_watched: AtomicBool::new(false) }
    }

    fn open(&self) -> MutexGuard<'_, BTreeMap<(u64, u64), Arc<JudgedFile>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The file that a memfd of this device and inode replaces.
    fn find(&self, inode: (u64, u64)) -> Option<Arc<JudgedFile>> {
        self.open().get(&inode).cloned()
    }
}

impl Work<'_, '_> {
    /// Opens a file whose content is judged: the caller gets a copy of it in memory.
    pub(in super::super) fn open_judged(
        &mut self,
        place: &Place,
        opening: &Opening,
        (content, git): (Content, Option<GitPlace>),
    ) -> Result<Reply, Stop> {
        let before = match place.look() {
            Ok(_) if opening.has(OFlags::CREATE | OFlags::EXCL) => return Err(Errno::EXIST.into()),
            Ok(status) if opening.writes() || opening.has(OFlags::CREATE) => {
                let kind = rustix::fs::FileType::from_raw_mode(status.st_mode);
                if kind == rustix::fs::FileType::Directory {
                    return Err(Errno::ISDIR.into());
                }
                if kind != rustix::fs::FileType::RegularFile {
                    self.refuse_in_git(place, &Refusal::Link)?;
                    return Err(Errno::ACCESS.into());
                }
                Some(Mode::from_raw_mode(status.st_mode & 0o777))
            }
            Ok(_) => return Err(Errno::ACCESS.into()),
            Err(Errno::NOENT) if opening.has(OFlags::CREATE) => None,
            Err(errno) => return Err(errno.into()),
        };
        let mode = match before {
            Some(mode) => mode,
            None => opening.mode & !self.mask()?,
        };
        let is_made = before.is_none();
        if is_made && content != Content::Version {
            // Where the others see it, and where it decides whether this is a git directory.
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let name = c_string(&place.name)?;
            self.take_mask()?;
            self.perform(|| rustix::fs::openat(&place.dir, name.as_c_str(), flags, opening.mode))?;
            self.region_changed(place);
        }
        let memory = rustix::fs::memfd_create(c"git", MemfdFlags::CLOEXEC)?;
        if before.is_some() && !opening.has(OFlags::TRUNC) {
            // The caller can read the memory by way of `/proc/self/fd`, whatever it was opened for.
            let text = super::content_now(place, self.domain().as_ref())?;
            let mut left = text.as_slice();
            while !left.is_empty() {
                let written = rustix::io::write(&memory, left)?;
                left = left.get(written..).ok_or(Errno::IO)?;
            }
        }
        let reopened = |flags: OFlags| {
            let path = format!("/proc/self/fd/{}", memory.as_raw_fd());
            rustix::fs::open(path.as_str(), flags | OFlags::CLOEXEC, Mode::empty())
        };
        let kept = OFlags::APPEND | OFlags::NONBLOCK | OFlags::SYNC | OFlags::DSYNC;
        let theirs = reopened((opening.flags & OFlags::ACCMODE) | (opening.flags & kept))?;
        let status = rustix::fs::fstat(&memory)?;
        let was_ordinary = self.region(place)? == Region::Ordinary;
        let file = JudgedFile {
            was_ordinary,
            file: reopened(OFlags::RDONLY)?,
            dir: place.dir.clone(),
            at: place.at.clone(),
            name: place.name.clone(),
            git,
            content,
            mode,
            is_made: is_made && content != Content::Version,
            caller: self.caller.known(),
            call: self.call(),
            domain: self.domain(),
            last: Mutex::new(None),
        };
        drop(memory);
        let mut open = self.judged().open();
        if open.len() >= MOST {
            return Err(Errno::NFILE.into());
        }
        open.insert((status.st_dev, status.st_ino), Arc::new(file));
        drop(open);
        Ok(Reply::Judged(theirs, opening.on_exec()))
    }

    /// A descriptor with a number of ours is about to be closed.
    pub(in super::super) fn close(&mut self, number: i32) -> Result<Reply, Stop> {
        let Ok(held) = self.caller.descriptor(number) else { return Ok(Reply::Continue) };
        let status = rustix::fs::fstat(&held)?;
        drop(held);
        let inode = (status.st_dev, status.st_ino);
        let Some(file) = self.judged().find(inode) else { return Ok(Reply::Continue) };
        // A shell that redirects has another one, by which the file is still to be written.
        if self.caller.others_of(number, inode)? > 0 {
            return Ok(Reply::Continue);
        }
        self.broker().put_in_place(&file).inspect_err(|_| {
            if file.content == Content::Version {
                self.refuse_index_of(&file.at.child(&file.name));
            }
        })?;
        Ok(Reply::Continue)
    }
}

/// A number for a descriptor in a caller's table that nothing else has.
pub(in super::super) fn free_number(caller: &Caller<'_>) -> Option<u32> {
    let is_free = |number: &u64| {
        let path = format!("{}/fd/{number}", caller.number());
        matches!(rustix::fs::statat(caller.proc, path, AtFlags::SYMLINK_NOFOLLOW), Err(Errno::NOENT))
    };
    let numbers = FIRST_JUDGED_DESCRIPTOR..FIRST_JUDGED_DESCRIPTOR + JUDGED_DESCRIPTORS;
    numbers.into_iter().find(is_free).and_then(|number| u32::try_from(number).ok())
}

impl Broker<'_> {
    /// Puts a descriptor whose close is to be seen into the caller's table. One that does not fit there gets another number.
    pub(in super::super) fn add_judged(
        &self,
        (id, caller): (u64, &Caller<'_>),
        fd: &OwnedFd,
        on_exec: OnExec,
    ) -> rustix::io::Result<i32> {
        if let Some(number) = free_number(caller) {
            match notify::add_descriptor_at(self.listener(), id, fd.as_fd(), number, on_exec) {
                Err(Errno::BADF | Errno::MFILE) => {}
                other => return other,
            }
        }
        notify::add_descriptor(self.listener(), id, fd.as_fd(), on_exec)
    }

    /// Judges what was written, and puts it in place.
    fn put_in_place(&self, file: &JudgedFile) -> Result<(), Errno> {
        let mut last = file.last.lock().unwrap_or_else(PoisonError::into_inner);
        let longest = if file.content == Content::Version { LONGEST_VERSION } else { LONGEST };
        let text = read_all(file.file.as_fd(), longest)?.ok_or(Errno::FBIG)?;
        if let Some((_, done)) = last.as_ref().filter(|(judged, _)| *judged == text) {
            return *done;
        }
        let path = file.at.child(&file.name);
        let done = self.put_text(file, &text).map_err(|cause| match cause {
            NotPut::Refused(refusal) => {
                file.withdraw();
                let remedy = match refusal {
                    Refusal::Version(cause) => remedy_for(cause),
                    _ => "make this change yourself, outside the fence",
                };
                let remedy = remedy.to_owned();
                self.judge.stopped(file.caller.clone(), file.call, path, (format!("git: {refusal}"), remedy));
                Errno::ACCESS
            }
            NotPut::Failed(errno) => errno,
        });
        *last = Some((text, done));
        done
    }

    fn put_text(&self, file: &JudgedFile, text: &[u8]) -> Result<(), NotPut> {
        // The directory was moved: what was decided when the file was opened counts no longer.
        if directory_of(file.dir.as_fd())? != file.at.as_bytes() {
            return Err(Errno::STALE.into());
        }
        if file.content == Content::Version {
            let path = file.at.child(&file.name);
            let repositories = self.repositories_of(&path);
            let landing = Landing::Version { path, mode: file.mode, text: text.to_vec(), repositories };
            let right = LandingRight::unrestricted(file.domain.as_ref()).ok_or(Errno::ACCESS)?;
            return self.land_version(&landing, right, &|| true);
        }
        // The directory may be part of another git directory now, or of none: an attacker removes `HEAD` while it is open, writes hooks and
        // settings to what is an ordinary directory meanwhile, and closes it. That would make it a repository which nothing has judged.
        let is_as_before = match self.regions.of(self.judge.surface(), file.dir.as_fd(), &file.at)? {
            Region::Ordinary => file.was_ordinary,
            Region::Git(region) => {
                let is_same = |git: &GitPlace| git.root == region.root && git.relative == region.entry(&file.name);
                file.git.as_ref().is_some_and(is_same)
            }
        };
        if !is_as_before {
            return Err(Errno::STALE.into());
        }
        let place = Place::entry(file.dir.clone(), file.at.clone(), &file.name, b"");
        let _placing = file.content.may_refer().then(|| self.references.place());
        let before = super::content_now(&place, file.domain.as_ref()).unwrap_or_default();
        let anew = self.content_judge().judge(file.content, (&file.at, file.git.as_ref()), text, &before)?;
        let text = anew.as_deref().unwrap_or(text);
        let put = || put(file.dir.as_fd(), &file.name, text, (file.mode, None), self.journal);
        match (within(file.domain.as_ref(), put), SettingsFile::of(file.content)) {
            // It is mounted read-only.
            (Err(tried @ (Errno::BUSY | Errno::ROFS)), Some(kind)) => {
                let right = LandingRight::after(file.domain.as_ref(), tried).ok_or(tried)?;
                self.land_settings((file.at.child(&file.name), kind), text, right, &|| true)
            }
            (done, _) => Ok(done?),
        }
    }

    /// Watches files that are being written, as long as there are any.
    pub(in super::super) fn watch_judged<'scope>(&'scope self, scope: &'scope Scope<'scope, '_>) {
        if self.judged.open().is_empty() || self.judged.is_watched.swap(true, Ordering::SeqCst) {
            return;
        }
        let watch = || {
            // The directory of a file is found by way of this thread's own working directory.
            if notify::unshare_fs().is_ok() {
                self.put_when_closed();
            }
            self.judged.is_watched.store(false, Ordering::SeqCst);
        };
        if Builder::new().stack_size(STACK).spawn_scoped(scope, watch).is_err() {
            self.judged.is_watched.store(false, Ordering::SeqCst);
        }
    }

    fn put_when_closed(&self) {
        let mut pause = PAUSE.0;
        loop {
            std::thread::sleep(pause);
            pause = (pause * 2).min(PAUSE.1);
            let open: Vec<_> = self.judged.open().iter().map(|(inode, file)| (*inode, Arc::clone(file))).collect();
            for (inode, file) in open {
                if lease::take_read_lease(file.file.as_fd()).is_err() {
                    continue;
                }
                // No process has it open for writing, and none can open it once it is forgotten.
                let (_here, _elsewhere) = self.hold_shared();
                // What is refused was reported.
                let _ = self.put_in_place(&file);
                self.judged.open().remove(&inode);
                pause = PAUSE.0;
            }
            if self.judged.open().is_empty() {
                return;
            }
        }
    }
}
