//! One call, from what the caller asked for to what it is told.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::{PoisonError, RwLockReadGuard, RwLockWriteGuard};

use ringfence_surface::{AbsPath, Access, Surface, Verdict};
use ringfence_sys::notify::{self, OnExec};
use rustix::fs::{AtFlags, FileType, Mode, StatVfsMountFlags};
use rustix::io::Errno;

use super::again::Again;
use super::caller::Caller;
use super::domain::Domain;
use super::git::JudgedFiles;
use super::judge::Ruling;
use super::parked::{Parking, Rights, Waiter};
use super::reads::only_reads;
use super::request::{IdKind, Named, Request, Scheduled};
use super::resolve::{Place, Resolver, Target};
use super::sockets::Sockets;
use super::{Broker, Telling};
use crate::beside::{Alone, Within};
use crate::git_files::{ContentJudge, Regions};

/// How a call is answered.
#[derive(Debug)]
pub(super) enum Reply {
    /// With zero.
    Done,
    /// With a descriptor.
    Descriptor(OwnedFd, OnExec),
    /// With a descriptor of a file whose content is judged when it is closed.
    Judged(OwnedFd, OnExec),
    /// By the kernel: its arguments are numbers only.
    Continue,
    /// Later: it waits for another process.
    Parked(Parking),
}

/// Why a call goes no further.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    /// The caller is told this.
    Told(Errno),
    /// It begins again, while nothing else is carried out.
    Alone,
}

impl From<Errno> for Stop {
    fn from(errno: Errno) -> Self {
        Self::Told(errno)
    }
}

/// What keeps directories where they are while a call is about them: in other sessions first let go of, and then in this one.
#[derive(Debug)]
#[expect(dead_code, reason = "they are let go of when they go")]
enum Hold<'w> {
    /// Nobody moves a directory.
    Shared(Option<Within<'w>>, RwLockReadGuard<'w, ()>),
    /// Nobody does anything.
    Alone(Option<Alone<'w>>, RwLockWriteGuard<'w, ()>),
    None,
}

/// One call.
#[derive(Debug)]
pub(super) struct Work<'w, 's> {
    broker: &'w Broker<'s>,
    pub(super) caller: Caller<'w>,
    pub(super) resolver: Resolver<'w>,
    pub(super) again: &'w mut Again,
    id: u64,
    /// The call, by its name.
    call: &'static str,
    domain: Option<Domain>,
    hold: Hold<'w>,
    /// Whether it was already told that nothing may be done.
    answered: Option<AbsPath>,
}

impl<'w, 's> Work<'w, 's> {
    pub(super) fn new(
        broker: &'w Broker<'s>,
        (caller, again): (Caller<'w>, &'w mut Again),
        (id, call): (u64, &'static str),
        domain: Option<Domain>,
    ) -> Self {
        let (root, surface, mounts) = (broker.root(), broker.judge.surface(), &broker.mounts);
        let resolver = Resolver { caller, root, surface, mounts };
        Self { broker, caller, resolver, again, id, call, domain, hold: Hold::None, answered: None }
    }

    /// Carries it out.
    pub(super) fn carry_out(&mut self, request: Request) -> Result<Reply, Errno> {
        if self.broker.telling == Telling::AlsoMissed {
            match request {
                Request::Open { file, flags, .. } if only_reads(flags) => return Ok(self.look(file, 0)),
                Request::Connect { address, length, .. } => self.look_for_socket(address, length),
                _ => {}
            }
        }
        self.hold = self.shared()?;
        let done = match self.dispatch(request) {
            Err(Stop::Alone) => {
                self.hold = Hold::None;
                self.hold = self.exclusive()?;
                self.dispatch(request)
            }
            other => other,
        };
        self.hold = Hold::None;
        if let (Err(Stop::Told(Errno::NOENT | Errno::NOTDIR)), Telling::AlsoMissed) = (&done, self.broker.telling) {
            request.changed().into_iter().flatten().for_each(|file| self.missed_a_place(file));
        }
        done.map_err(|stop| match stop {
            Stop::Told(errno) => errno,
            Stop::Alone => Errno::ACCESS,
        })
    }

    pub(super) fn broker(&self) -> &'w Broker<'s> {
        self.broker
    }

    pub(super) fn regions(&self) -> &'w Regions {
        &self.broker.regions
    }

    pub(super) fn judged(&self) -> &'w JudgedFiles {
        &self.broker.judged
    }

    pub(super) fn content_judge(&self) -> ContentJudge<'w> {
        self.broker.content_judge()
    }

    pub(super) fn call(&self) -> &'static str {
        self.call
    }

    pub(super) fn domain(&self) -> Option<Domain> {
        self.domain.clone()
    }

    /// The caller's mask for new files.
    pub(super) fn mask(&self) -> Result<Mode, Stop> {
        Ok(self.broker.masks.of(&self.caller)?)
    }

    fn shared(&self) -> Result<Hold<'w>, Errno> {
        let here = self.broker.moves.read().unwrap_or_else(PoisonError::into_inner);
        let elsewhere = self.broker.beside.map(|beside| beside.within(|| self.is_waiting())).transpose()?;
        self.broker.keep_up();
        Ok(Hold::Shared(elsewhere, here))
    }

    fn exclusive(&self) -> Result<Hold<'w>, Errno> {
        let here = self.broker.moves.write().unwrap_or_else(PoisonError::into_inner);
        let elsewhere = self.broker.beside.map(|beside| beside.alone(|| self.is_waiting())).transpose()?;
        self.broker.keep_up();
        Ok(Hold::Alone(elsewhere, here))
    }

    fn dispatch(&mut self, request: Request) -> Result<Reply, Stop> {
        match request {
            Request::Open { file, flags, .. } if only_reads(flags) => Ok(self.observe(file)),
            Request::Open { file, flags, mode } => self.open(file, flags, mode),
            Request::Open2 { file, how, size } => self.open2(file, how, size),
            Request::Mkdir { file, mode } => self.mkdir(file, mode),
            Request::Mknod { file, mode, device } => self.mknod(file, mode, device),
            Request::Symlink { target, file } => self.symlink(target, file),
            Request::Unlink { file, flags } => self.unlink(file, flags),
            Request::Rename { old, new, flags } => self.rename(old, new, flags),
            Request::Link { old, new, flags } => self.link(old, new, flags),
            Request::Truncate { file, length } => self.truncate(file, length),
            Request::Chmod { file, mode, flags } => self.chmod(file, mode, flags),
            Request::Chown { file, uid, gid, flags } => self.chown(file, uid, gid, flags),
            Request::Touch { file, times, flags } => self.touch(file, times, flags),
            Request::SetXattr { file, name, value, size, flags, at_flags } => {
                self.set_xattr(file, name, (value, size), flags, at_flags)
            }
            Request::SetXattrAt { file, at_flags, name, arguments, size } => {
                self.set_xattr_at(file, at_flags, name, (arguments, size))
            }
            Request::RemoveXattr { file, name, at_flags } => self.remove_xattr(file, name, at_flags),
            Request::Look { file, flags } => Ok(self.look(file, flags)),
            Request::Connect { socket, address, length } => self.connect(socket, address, length),
            Request::Bind { socket, address, length } => self.bind(socket, address, length),
            Request::Close { number } => self.close(number),
            Request::Umask => {
                self.broker.masks.change();
                Ok(Reply::Continue)
            }
            Request::SetIds { kind, ids } => self.set_ids(kind, ids),
            Request::Schedule { whose } => self.schedule(whose),
            Request::AddRule { ruleset, kind, rule, flags } => {
                self.broker.domains.add_rule(&self.caller, ruleset, (kind, rule), flags)?;
                Ok(Reply::Done)
            }
            Request::Restrict { ruleset, flags } => {
                // It may take long, and is about no file.
                self.hold = Hold::None;
                self.broker.domains.restrict(&self.caller, self.domain.as_ref(), ruleset, flags)?;
                Ok(Reply::Continue)
            }
        }
    }

    pub(super) fn teller(&self) -> (&'w super::judge::Judge<'s>, &'static str) {
        (&self.broker.judge, self.call)
    }

    pub(super) fn surface(&self) -> &'s Surface {
        self.broker.judge.surface()
    }

    pub(super) fn broker_sockets(&self) -> &'w Sockets {
        &self.broker.sockets
    }

    /// Tells that a socket is not reached.
    pub(super) fn refuse_socket(&self, path: Option<&AbsPath>) {
        self.broker.judge.unreached(&self.caller, self.call, path);
    }

    /// Tells of a call that was not carried out, or will not be.
    pub(super) fn tell_refused(&self, path: &AbsPath, because: (Access, &Verdict<'_>), errno: Errno) {
        self.broker.judge.refused(&self.caller, self.call, path, because, errno);
    }

    /// A path of the caller's.
    pub(super) fn path(&self, file: Named) -> Result<Vec<u8>, Stop> {
        Ok(self.caller.string(file.path)?)
    }

    /// May this be done?
    pub(super) fn judge(&self, path: &AbsPath, access: Access) -> Ruling<'s> {
        if self.answered.as_ref() == Some(path) {
            return Ruling::Allowed;
        }
        self.broker.judge.rule(path, access)
    }

    /// What the user was asked about this call and allowed, for a call that is parked.
    pub(super) fn answer(&self) -> Option<AbsPath> {
        self.answered.clone()
    }

    /// Has the user allowed this already?
    pub(super) fn is_answered(&self, path: &AbsPath) -> bool {
        self.answered.as_ref() == Some(path)
    }

    /// Is there a user to be asked?
    pub(super) fn asks(&self) -> bool {
        self.broker.judge.asks()
    }

    /// Nothing else is carried out from here on: the call begins again for it.
    pub(super) fn alone(&self) -> Result<(), Stop> {
        if matches!(self.hold, Hold::Alone(..)) { Ok(()) } else { Err(Stop::Alone) }
    }

    /// Holds the directory of a place for the next call, where the session's own rules let it be written. What somebody may still give is
    /// mounted over what is there, which has the same path and is read-only.
    pub(super) fn hold_on_to(&mut self, file: Named, path: &[u8], place: &Place) {
        if self.surface().decide(&place.path(), Access::Write).is_allowed() {
            self.again.hold(file, path, place);
        }
    }

    /// From here on the call waits for others, and is about what it holds.
    pub(super) fn release(&mut self) {
        self.hold = Hold::None;
        // Many may wait at once.
        self.again.forget();
    }

    pub(super) fn is_waiting(&self) -> bool {
        notify::is_valid(self.broker.listener(), self.id)
    }

    /// New files get the caller's mask.
    pub(super) fn take_mask(&self) -> Result<(), Stop> {
        rustix::process::umask(self.broker.masks.of(&self.caller)?);
        Ok(())
    }

    /// Refuses, unless somebody who is asked allows it. Whoever was asked may have waited for long: the call begins again. It
    /// goes on where the mount refuses it anyway.
    pub(super) fn refuse_or_ask(&mut self, dir: BorrowedFd<'_>, path: &AbsPath, access: Access) -> Result<(), Stop> {
        let verdict = match self.judge(path, access) {
            Ruling::Refused(verdict) => verdict,
            // Somebody has given it meanwhile.
            Ruling::Allowed => return Err(Errno::ACCESS.into()),
        };
        if is_sealed(dir) {
            // The mount is read-only: nothing can come of it, and the kernel knows best what to say.
            self.broker.judge.refused(&self.caller, self.call, path, (access, &verdict), Errno::ROFS);
            self.refuse_index_of(path);
            return Ok(());
        }
        if self.broker.judge.asks() {
            self.release();
            let is_waiting = || self.is_waiting();
            if self.broker.judge.ask(&self.caller, self.call, path, (access, &verdict), is_waiting) {
                self.answered = Some(path.clone());
                return Err(Stop::Alone);
            }
        }
        self.broker.judge.refused(&self.caller, self.call, path, (access, &verdict), Errno::ACCESS);
        self.refuse_index_of(path);
        Err(Errno::ACCESS.into())
    }

    /// Becoming another user or group. An id that is not mapped in the user namespace is invalid there (EINVAL), where outside it is
    /// one more that is not the caller's own (EPERM). The ids are in registers, so the kernel may go on with them.
    fn set_ids(&self, kind: IdKind, ids: [u32; 3]) -> Result<Reply, Stop> {
        let own = self.caller.ids(kind)?;
        let is_own = |id: &u32| *id == u32::MAX || own.contains(id);
        if ids.iter().all(is_own) { Ok(Reply::Continue) } else { Err(Errno::PERM.into()) }
    }

    /// When processes run: the kernel carries it out, unless the broker itself is among them. An attacker who gives the broker's threads
    /// SCHED_IDLE, or all of them one busy processor, stalls every call of the session. What decides is a number in a register.
    fn schedule(&self, whose: Scheduled) -> Result<Reply, Stop> {
        let (own, group) = (rustix::process::getpid(), rustix::process::getpgrp());
        let has_thread = |number: i32| {
            let path = format!("{}/task/{number}", own.as_raw_nonzero());
            rustix::fs::statat(self.caller.proc, path, AtFlags::empty()).is_ok()
        };
        let is_ours = match whose {
            Scheduled::Thread(0) | Scheduled::Unknown => false,
            Scheduled::Thread(number) => has_thread(number),
            Scheduled::Group(0) => rustix::process::getpgid(Some(self.caller.thread))? == group,
            Scheduled::Group(number) => number == group.as_raw_nonzero().get(),
            Scheduled::User(0) => true,
            Scheduled::User(number) => number == rustix::process::getuid().as_raw(),
        };
        if is_ours { Err(Errno::PERM.into()) } else { Ok(Reply::Continue) }
    }

    /// Does what was decided, with no more rights than the caller has. Only if the caller still waits: what was read of it was
    /// its own then.
    pub(super) fn perform<T: Send>(
        &self,
        action: impl FnOnce() -> rustix::io::Result<T> + Send,
    ) -> rustix::io::Result<T> {
        self.rights().perform(action)
    }

    pub(super) fn rights(&self) -> Rights<'_, 's> {
        let Self { broker, caller, id, call, ref domain, .. } = *self;
        Rights { broker, caller, id, call, domain: domain.as_ref() }
    }

    /// Tries what may have to wait for another process. If it has to, the call is parked, and holds nothing but what `waiter` has.
    pub(super) fn wait(&mut self, mut waiter: impl Waiter + 'static) -> Result<Reply, Stop> {
        self.release();
        match waiter.attempt(&self.rights()) {
            Some(done) => Ok(done?),
            None => {
                Ok(Reply::Parked(Parking { waiter: Box::new(waiter), call: self.call, domain: self.domain.clone() }))
            }
        }
    }
}

impl Rights<'_, '_> {
    /// Judges the file of a parked call by the name that it has now, and then carries the call out. `None` means that the call still waits.
    ///
    /// The call was judged before it waited, and holds no lock while it waits. Meanwhile the file may have been moved, or its directory may
    /// have become a git directory: a descriptor for writing would then change what was accepted as it was (TOCTOU). From the check to
    /// the end of the effect nothing else is carried out, so no other call can verify the file in between and move it. After that the
    /// file is open for writing, which a later check sees by its lease.
    pub(super) fn judge_again<T>(
        &self,
        target: &Target,
        answered: Option<&AbsPath>,
        effect: impl FnOnce() -> rustix::io::Result<T>,
    ) -> Option<rustix::io::Result<T>> {
        let Self { broker, caller, id, call, domain } = *self;
        let mut again = Again::new();
        let mut work = Work::new(broker, (caller, &mut again), (id, call), domain.cloned());
        work.answered = answered.cloned();
        work.hold = match work.exclusive() {
            Ok(hold) => hold,
            // Another session is busy for long.
            Err(Errno::BUSY) => return None,
            Err(errno) => return Some(Err(errno)),
        };
        Some(work.may_still_write(target).and_then(|()| effect()))
    }
}

/// Is this on a mount that nobody can write to, and of a kind that this holds for? Pipes, sockets and devices are not files.
fn is_sealed(held: BorrowedFd<'_>) -> bool {
    let is_file = |status: rustix::fs::Stat| {
        matches!(
            FileType::from_raw_mode(status.st_mode),
            FileType::RegularFile | FileType::Directory | FileType::Symlink
        )
    };
    rustix::fs::fstat(held).is_ok_and(is_file)
        && rustix::fs::fstatvfs(held).is_ok_and(|vfs| vfs.f_flag.contains(StatVfsMountFlags::RDONLY))
}
