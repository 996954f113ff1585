//! Who called: its memory, its directories, its mask for new files, its terminal.
//!
//! Everything is read once. Whoever uses it asks afterwards whether the caller still waits: then what was read was its own.

use std::ffi::{CStr, CString};
use std::fmt::Display;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::str::FromStr;

use ringfence_sys::notify;
use rustix::fs::{AtFlags, Dir, Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags};

use super::request::IdKind;

/// The kernel's PATH_MAX, with the NUL.
const PATH_MAX: usize = 4096;
/// Of the smallest machine.
const PAGE: u64 = 4096;
/// What stands for the working directory.
pub(super) const AT_FDCWD: i32 = -100;
/// The kernel restarts the call once the signal is handled, or answers EINTR, as the `sigaction` of the caller says.
const ERESTARTSYS: Errno = Errno::from_raw_os_error(512);
/// `PIDFD_THREAD`, since Linux 6.9.
const PIDFD_THREAD: PidfdFlags = PidfdFlags::from_bits_retain(0o200);

/// A thread that waits for its call.
#[derive(Debug, Clone, Copy)]
pub(super) struct Caller<'b> {
    pub(super) thread: Pid,
    /// `/proc`, as the view has it.
    pub(super) proc: BorrowedFd<'b>,
}

/// What was known of a caller.
#[derive(Debug, Clone)]
pub(super) struct CallerNames {
    pub(super) pid: u32,
    pub(super) program: Vec<u8>,
    pub(super) command: Vec<u8>,
}

impl Caller<'_> {
    /// A string of the caller's, without its NUL.
    pub(super) fn string(&self, address: u64) -> rustix::io::Result<Vec<u8>> {
        self.string_up_to(address, PATH_MAX, Errno::NAMETOOLONG)
    }

    /// The same with another end. A page at a time: what follows the NUL may not be mapped.
    pub(super) fn string_up_to(&self, address: u64, most: usize, too_long: Errno) -> rustix::io::Result<Vec<u8>> {
        let mut bytes = Vec::with_capacity(256);
        let mut at = address;
        while bytes.len() < most {
            // Most strings are short, and few cross a page.
            let to_the_end = PAGE - at % PAGE;
            let wanted = to_the_end.min(if bytes.is_empty() { 256 } else { PAGE });
            let wanted = usize::try_from(wanted).map_err(|_| Errno::FAULT)?.min(most - bytes.len());
            let from = bytes.len();
            bytes.resize(from + wanted, 0);
            let read = notify::read_memory(self.thread, at, &mut bytes[from..])?;
            bytes.truncate(from + read);
            if let Some(end) = bytes[from..].iter().position(|byte| *byte == 0) {
                bytes.truncate(from + end);
                return Ok(bytes);
            }
            if read == 0 {
                return Err(Errno::FAULT);
            }
            at = at.checked_add(read as u64).ok_or(Errno::FAULT)?;
        }
        Err(too_long)
    }

    /// Bytes of the caller's, all of them.
    pub(super) fn bytes(&self, address: u64, into: &mut [u8]) -> rustix::io::Result<()> {
        let mut done = 0;
        while done < into.len() {
            let at = address.checked_add(done as u64).ok_or(Errno::FAULT)?;
            match notify::read_memory(self.thread, at, &mut into[done..])? {
                0 => return Err(Errno::FAULT),
                read => done += read,
            }
        }
        Ok(())
    }

    /// A directory that a path of the caller's begins at.
    pub(super) fn directory(&self, fd: i32) -> rustix::io::Result<OwnedFd> {
        if fd == AT_FDCWD { self.open(format!("{}/cwd", self.number())) } else { self.descriptor(fd) }
    }

    /// What a descriptor of the caller's stands for.
    pub(super) fn descriptor(&self, fd: i32) -> rustix::io::Result<OwnedFd> {
        if fd < 0 {
            return Err(Errno::BADF);
        }
        self.open(format!("{}/fd/{fd}", self.number())).map_err(|errno| match errno {
            Errno::NOENT => Errno::BADF,
            other => other,
        })
    }

    fn open(&self, path: String) -> rustix::io::Result<OwnedFd> {
        rustix::fs::openat(self.proc, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
    }

    /// The mask for new files.
    pub(super) fn umask(&self) -> rustix::io::Result<Mode> {
        let status = self.read("status", 256)?;
        let line = status.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(b"Umask:\t"));
        let digits = line.and_then(|digits| std::str::from_utf8(digits).ok());
        let mask = digits.and_then(|digits| u32::from_str_radix(digits, 8).ok());
        mask.map(Mode::from_raw_mode).ok_or(Errno::ACCESS)
    }

    /// Its real, effective and saved ids, and that for files.
    pub(super) fn ids(&self, kind: IdKind) -> rustix::io::Result<Vec<u32>> {
        let name = match kind {
            IdKind::User => b"Uid:\t",
            IdKind::Group => b"Gid:\t",
        };
        let status = self.read("status", 1024)?;
        let line = status.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(name));
        let ids = line.and_then(|ids| std::str::from_utf8(ids).ok()).unwrap_or_default();
        ids.split_ascii_whitespace().map(|id| id.parse().map_err(|_| Errno::ACCESS)).collect()
    }

    /// The process that the thread is of.
    pub(super) fn process(&self) -> rustix::io::Result<u32> {
        let status = self.read("status", 512)?;
        let line = status.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(b"Tgid:\t"));
        line.and_then(|digits| std::str::from_utf8(digits).ok()?.parse().ok()).ok_or(Errno::ACCESS)
    }

    /// A descriptor of it, by which its own descriptors are had. Before Linux 6.9 it is that of its process.
    pub(super) fn pidfd(&self) -> rustix::io::Result<OwnedFd> {
        match rustix::process::pidfd_open(self.thread, PIDFD_THREAD) {
            Err(Errno::INVAL) => {
                let process = i32::try_from(self.process()?).ok().and_then(Pid::from_raw).ok_or(Errno::SRCH)?;
                rustix::process::pidfd_open(process, PidfdFlags::empty())
            }
            other => other,
        }
    }

    /// The device number of its terminal; 0 where it has none.
    pub(super) fn terminal(&self) -> rustix::io::Result<u32> {
        self.field::<i32>(self.number(), 4).map(i32::cast_unsigned)
    }

    /// When its process began, in the kernel's own time.
    pub(super) fn started(&self) -> rustix::io::Result<u64> {
        self.field(self.process()?, 19)
    }

    /// What the kernel says of a process, by its place after the name.
    fn field<T: FromStr>(&self, number: impl Display, at: usize) -> rustix::io::Result<T> {
        let stat = self.read_of(number, "stat", 1024)?;
        // The program's name is in parentheses and may hold any others: what counts follows the last one.
        let after = stat.iter().rposition(|byte| *byte == b')').ok_or(Errno::ACCESS)?;
        let field = stat[after + 1..].split(|byte| *byte == b' ').filter(|field| !field.is_empty()).nth(at);
        field.and_then(|digits| std::str::from_utf8(digits).ok()?.parse().ok()).ok_or(Errno::ACCESS)
    }

    /// The error by which a call of it is interrupted, where it has a signal to handle.
    ///
    /// ERESTARTSYS must reach only a thread that handles a signal: the kernel replaces it on the way to the handler, and any other thread
    /// would see it. A signal of the whole process goes to its first thread unless that one blocks it, and then to some other: EINTR
    /// is right for each of them.
    pub(super) fn interruption(&self) -> Option<Errno> {
        let Ok(own) = self.signals_of(self.number()) else { return Some(Errno::INTR) };
        let handled = |pending: u64| pending & !own.blocked & !own.ignored;
        if handled(own.pending) != 0 || own.is_first && handled(own.shared) != 0 {
            return Some(ERESTARTSYS);
        }
        if handled(own.shared) == 0 {
            return None;
        }
        let left = match self.signals_of(own.process) {
            Ok(first) if !first.is_dead => handled(own.shared) & first.blocked,
            _ => handled(own.shared),
        };
        (left != 0).then_some(Errno::INTR)
    }

    fn signals_of(&self, thread: i32) -> rustix::io::Result<Signals> {
        let status = self.read_of(thread, "status", 4096)?;
        let field = |name: &[u8]| {
            let line = status.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(name));
            line.and_then(|value| std::str::from_utf8(value).ok()).ok_or(Errno::ACCESS)
        };
        let set = |name: &[u8]| u64::from_str_radix(field(name)?, 16).map_err(|_| Errno::ACCESS);
        let process = field(b"Tgid:\t")?.parse().map_err(|_| Errno::ACCESS)?;
        Ok(Signals {
            process,
            is_first: process == thread,
            is_dead: field(b"State:\t")?.starts_with(['Z', 'X']),
            pending: set(b"SigPnd:\t")?,
            shared: set(b"ShdPnd:\t")?,
            blocked: set(b"SigBlk:\t")?,
            ignored: set(b"SigIgn:\t")?,
        })
    }

    /// The name of the thread, and the command line of its process.
    pub(super) fn names(&self) -> (Vec<u8>, Vec<u8>) {
        let mut program = self.read("comm", 64).unwrap_or_default();
        if program.last() == Some(&b'\n') {
            program.pop();
        }
        (program, self.read("cmdline", 1024).unwrap_or_default())
    }

    /// Who it is, for a report that is made after it has ended.
    pub(super) fn known(&self) -> CallerNames {
        let (program, command) = self.names();
        CallerNames { pid: self.process().unwrap_or_default(), program, command }
    }

    /// How many other descriptors of its process are the same file.
    pub(super) fn others_of(&self, number: i32, inode: (u64, u64)) -> rustix::io::Result<usize> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = rustix::fs::openat(self.proc, format!("{}/fd", self.number()), flags, Mode::empty())?;
        let own = number.to_string();
        let is_same = |name: &CStr| {
            let status = rustix::fs::statat(&dir, name, AtFlags::empty());
            status.is_ok_and(|status| (status.st_dev, status.st_ino) == inode)
        };
        let entries = Dir::read_from(&dir)?.filter_map(Result::ok);
        let others = entries.filter(|entry| {
            let name = entry.file_name();
            name.to_bytes() != own.as_bytes() && !matches!(name.to_bytes(), b"." | b"..") && is_same(name)
        });
        Ok(others.count())
    }

    fn read(&self, name: &str, most: usize) -> rustix::io::Result<Vec<u8>> {
        self.read_of(self.number(), name, most)
    }

    fn read_of(&self, number: impl Display, name: &str, most: usize) -> rustix::io::Result<Vec<u8>> {
        let (path, flags) = (format!("{number}/{name}"), OFlags::RDONLY | OFlags::CLOEXEC);
        let file = rustix::fs::openat(self.proc, path, flags, Mode::empty())?;
        let mut bytes = vec![0; most];
        let read = rustix::io::read(&file, &mut bytes)?;
        bytes.truncate(read);
        Ok(bytes)
    }

    pub(super) fn number(&self) -> i32 {
        self.thread.as_raw_nonzero().get()
    }
}

/// The signals of a thread.
struct Signals {
    process: i32,
    /// Is it the first thread of its process?
    is_first: bool,
    /// Has it ended?
    is_dead: bool,
    /// Sent to it.
    pending: u64,
    /// Sent to its process.
    shared: u64,
    blocked: u64,
    ignored: u64,
}

/// A name as the kernel takes it.
pub(super) fn c_string(bytes: &[u8]) -> rustix::io::Result<CString> {
    CString::new(bytes).map_err(|_| Errno::INVAL)
}
