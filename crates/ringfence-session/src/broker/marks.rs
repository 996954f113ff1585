//! What a file is, apart from its content and its name: mode, owner, times, attributes, length.

use std::os::fd::AsFd as _;

use ringfence_surface::{AbsPath, Access};
use ringfence_sys::notify;
use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, Timespec, Timestamps, Uid, XattrFlags};
use rustix::io::Errno;

use super::caller::c_string;
use super::git::JudgedBy;
use super::open::mode_of;
use super::parked::{Rights, Waiter};
use super::request::{AT_EMPTY_PATH, AT_SYMLINK_NOFOLLOW, Named, Times};
use super::resolve::{Last, Target};
use super::work::{Reply, Stop, Work};

/// The kernel's XATTR_NAME_MAX with the NUL, and XATTR_SIZE_MAX.
const LONGEST_NAME: usize = 256;
const LONGEST_VALUE: u64 = 65_536;
/// `struct xattr_args`.
const XATTR_ARGS: usize = 16;
const MILLION: i64 = 1_000_000;

impl Work<'_, '_> {
    /// What a call is about, if it may be changed.
    fn marked(&mut self, file: Named, flags: u32) -> Result<Target, Stop> {
        let target = self.found(file, flags)?;
        self.may_mark(&target)?;
        Ok(target)
    }

    /// What a call is about.
    fn found(&mut self, file: Named, flags: u32) -> Result<Target, Stop> {
        if flags & !(AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH) != 0 {
            return Err(Errno::INVAL.into());
        }
        // Some calls take a null pointer for an empty path.
        let path = if file.path == 0 && flags & AT_EMPTY_PATH != 0 { Vec::new() } else { self.path(file)? };
        Ok(if path.is_empty() {
            if flags & AT_EMPTY_PATH == 0 {
                return Err(Errno::NOENT.into());
            }
            self.resolver.held(file.dir)?
        } else {
            let from = self.resolver.from(file.dir, &path)?;
            let place = self.resolver.place(&from, &path)?;
            let last = if flags & AT_SYMLINK_NOFOLLOW != 0 { Last::Itself } else { Last::Followed };
            self.resolver.target(&from, place, last)?
        })
    }

    fn may_mark(&mut self, target: &Target) -> Result<(), Stop> {
        // What has no name, and what is no longer anywhere, is not what a rule speaks of.
        let named = target.path.clone().filter(|_| target.status.st_nlink > 0);
        match named {
            Some(path) if !self.judge(&path, Access::Write).is_allowed() => {
                self.refuse_or_ask(target.fd.as_fd(), &path, Access::Write)
            }
            _ => Ok(()),
        }
    }

    pub(super) fn chmod(&mut self, file: Named, mode: u32, flags: u32) -> Result<Reply, Stop> {
        let target = self.found(file, flags)?;
        // By this git finds out, in a repository that it has just made, whether modes are kept.
        if !target.path.as_ref().is_some_and(|path| self.is_permitted(path, JudgedBy::Place)) {
            self.may_mark(&target)?;
        }
        let (held, mode) = (target.by_descriptor(), mode_of(mode));
        self.perform(|| rustix::fs::chmod(held.as_c_str(), mode))?;
        Ok(Reply::Done)
    }

    pub(super) fn chown(&mut self, file: Named, uid: u32, gid: u32, flags: u32) -> Result<Reply, Stop> {
        let target = self.marked(file, flags)?;
        let held = target.by_descriptor();
        let (uid, gid) = (some(uid).map(Uid::from_raw), some(gid).map(Gid::from_raw));
        let done = self.perform(|| rustix::fs::chownat(rustix::fs::CWD, held.as_c_str(), uid, gid, AtFlags::empty()));
        // A user that is not in the session's user namespace: outside there is one of that number, and it may not be given to them.
        done.map_err(|errno| if matches!(errno, Errno::INVAL | Errno::OVERFLOW) { Errno::PERM } else { errno })?;
        Ok(Reply::Done)
    }

    pub(super) fn truncate(&mut self, file: Named, length: i64) -> Result<Reply, Stop> {
        if length < 0 {
            return Err(Errno::INVAL.into());
        }
        let target = {
            let path = self.path(file)?;
            if path.is_empty() {
                return Err(Errno::NOENT.into());
            }
            let from = self.resolver.from(file.dir, &path)?;
            let place = self.resolver.place(&from, &path)?;
            self.resolver.target(&from, place, Last::Followed)?
        };
        match target.kind() {
            FileType::Directory => return Err(Errno::ISDIR.into()),
            FileType::RegularFile => {}
            _ => return Err(Errno::INVAL.into()),
        }
        self.may_mark(&target)?;
        if let Some(path) = &target.path {
            self.may_change_in_git(path)?;
        }
        self.is_known_by_its_path(&target)?;
        match truncate_now(&self.rights(), &target, length, |effect| Some(effect())) {
            Some(done) => Ok(done?),
            // Another process that has a lease gets the time to release it, and no other call waits for that.
            None => {
                let answered = self.answer();
                self.wait(Truncation { target, length, answered })
            }
        }
    }

    pub(super) fn touch(&mut self, file: Named, times: Times, flags: u32) -> Result<Reply, Stop> {
        let times = self.times(times)?;
        let target = if file.path == 0 && flags & AT_EMPTY_PATH == 0 {
            // The times of a descriptor; without one there is nothing.
            if flags != 0 {
                return Err(Errno::INVAL.into());
            }
            if file.dir == super::caller::AT_FDCWD {
                return Err(Errno::FAULT.into());
            }
            let target = self.resolver.held(file.dir)?;
            self.may_mark(&target)?;
            target
        } else {
            self.marked(file, flags)?
        };
        let held = target.by_descriptor();
        self.perform(|| rustix::fs::utimensat(rustix::fs::CWD, held.as_c_str(), &times, AtFlags::empty()))?;
        Ok(Reply::Done)
    }

    fn times(&self, times: Times) -> Result<Timestamps, Stop> {
        let now = Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_NOW };
        let (address, size) = match times {
            Times::Nanoseconds(0) | Times::Microseconds(0) | Times::Seconds(0) => {
                return Ok(Timestamps { last_access: now, last_modification: now });
            }
            Times::Nanoseconds(at) | Times::Microseconds(at) => (at, 32),
            Times::Seconds(at) => (at, 16),
        };
        let mut bytes = [0; 32];
        self.caller.bytes(address, &mut bytes[..size])?;
        let word = |at: usize| bytes[at * 8..].first_chunk::<8>().map_or(0, |word| i64::from_ne_bytes(*word));
        let moment = |tv_sec: i64, tv_nsec: i64| Timespec { tv_sec, tv_nsec };
        let (last_access, last_modification) = match times {
            Times::Seconds(_) => (moment(word(0), 0), moment(word(1), 0)),
            Times::Nanoseconds(_) => (moment(word(0), word(1)), moment(word(2), word(3))),
            Times::Microseconds(_) => {
                if ![word(1), word(3)].iter().all(|micros| (0..MILLION).contains(micros)) {
                    return Err(Errno::INVAL.into());
                }
                (moment(word(0), word(1) * 1000), moment(word(2), word(3) * 1000))
            }
        };
        Ok(Timestamps { last_access, last_modification })
    }

    fn xattr_name(&self, address: u64) -> Result<std::ffi::CString, Stop> {
        let name = self.caller.string_up_to(address, LONGEST_NAME, Errno::RANGE)?;
        if name.is_empty() { Err(Errno::RANGE.into()) } else { Ok(c_string(&name)?) }
    }

    pub(super) fn set_xattr(
        &mut self,
        file: Named,
        name: u64,
        (value, size): (u64, u64),
        flags: u32,
        at_flags: u32,
    ) -> Result<Reply, Stop> {
        let flags = XattrFlags::from_bits_retain(flags);
        if !(XattrFlags::CREATE | XattrFlags::REPLACE).contains(flags) {
            return Err(Errno::INVAL.into());
        }
        let name = self.xattr_name(name)?;
        if size > LONGEST_VALUE {
            return Err(Errno::TOOBIG.into());
        }
        let mut content = vec![0; size as usize];
        self.caller.bytes(value, &mut content)?;
        let target = self.marked(file, at_flags)?;
        let held = target.by_descriptor();
        self.perform(|| rustix::fs::setxattr(held.as_c_str(), name.as_c_str(), &content, flags))?;
        Ok(Reply::Done)
    }

    pub(super) fn set_xattr_at(
        &mut self,
        file: Named,
        at_flags: u32,
        name: u64,
        (arguments, size): (u64, u64),
    ) -> Result<Reply, Stop> {
        let size = usize::try_from(size).map_err(|_| Errno::TOOBIG)?;
        if size < XATTR_ARGS {
            return Err(Errno::INVAL.into());
        }
        if size > 4096 {
            return Err(Errno::TOOBIG.into());
        }
        let mut bytes = vec![0; size];
        self.caller.bytes(arguments, &mut bytes)?;
        if bytes[XATTR_ARGS..].iter().any(|byte| *byte != 0) {
            return Err(Errno::TOOBIG.into());
        }
        let value = bytes.first_chunk::<8>().map_or(0, |word| u64::from_ne_bytes(*word));
        let half = |at: usize| bytes[at..].first_chunk::<4>().map_or(0, |word| u32::from_ne_bytes(*word));
        self.set_xattr(file, name, (value, u64::from(half(8))), half(12), at_flags)
    }

    pub(super) fn remove_xattr(&mut self, file: Named, name: u64, at_flags: u32) -> Result<Reply, Stop> {
        let name = self.xattr_name(name)?;
        let target = self.marked(file, at_flags)?;
        let held = target.by_descriptor();
        self.perform(|| rustix::fs::removexattr(held.as_c_str(), name.as_c_str()))?;
        Ok(Reply::Done)
    }
}

/// -1 is nobody.
fn some(id: u32) -> Option<u32> {
    (id != u32::MAX).then_some(id)
}

/// A `truncate`, which blocks while another process has a lease.
#[derive(Debug)]
struct Truncation {
    target: Target,
    length: i64,
    /// What the user allowed when asked about this call.
    answered: Option<AbsPath>,
}

impl Waiter for Truncation {
    fn attempt(&mut self, rights: &Rights<'_, '_>) -> Option<rustix::io::Result<Reply>> {
        let judged = |effect: &mut dyn FnMut() -> rustix::io::Result<Reply>| {
            rights.judge_again(&self.target, self.answered.as_ref(), effect)
        };
        truncate_now(rights, &self.target, self.length, judged)
    }
}

/// Cuts a file short without blocking. `None` means that another process has a lease, or that `carry_out` has to wait.
fn truncate_now(
    rights: &Rights<'_, '_>,
    target: &Target,
    length: i64,
    carry_out: impl FnOnce(&mut dyn FnMut() -> rustix::io::Result<Reply>) -> Option<rustix::io::Result<Reply>>,
) -> Option<rustix::io::Result<Reply>> {
    let held = target.by_descriptor();
    // truncate(2) has no flag not to block, an open has. While the file is open for writing no new lease is granted. This is not the
    // caller's open: its Landlock domain may let it truncate and not write.
    let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let _opened = match rustix::fs::open(held.as_c_str(), flags, Mode::empty()) {
        Err(Errno::AGAIN) => return None,
        Err(errno) => return Some(Err(errno)),
        Ok(opened) => opened,
    };
    carry_out(&mut || rights.perform(|| notify::truncate(&held, length)).map(|()| Reply::Done))
}
