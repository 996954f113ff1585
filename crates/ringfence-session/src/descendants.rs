//! Ends a tree of processes that has no namespace of its own. Whoever does it must be the reaper of orphans.

use std::io;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions};

/// Ends every process below this one, and returns when none is left. Allocates nothing.
///
/// The children are killed, theirs become ours, and so on. A process that forks faster than this loop turns does not outrun
/// it: its children arrive here as well.
pub(crate) fn end_all() -> io::Result<()> {
    loop {
        loop {
            match rustix::process::wait(WaitOptions::NOHANG) {
                Ok(Some(_)) | Err(Errno::INTR) => {}
                Ok(None) => break,
                Err(Errno::CHILD) => return Ok(()),
                Err(errno) => return Err(errno.into()),
            }
        }
        each_child(|child| {
            // One that has ended meanwhile waits to be reaped, so its number is nobody else's.
            let _ = rustix::process::kill_process(child, Signal::KILL);
        })?;
        let short = rustix::thread::Timespec { tv_sec: 0, tv_nsec: 500_000 };
        let _ = rustix::thread::nanosleep(&short);
    }
}

/// Reads the kernel's list of this process's children, a few at a time: the killed ones leave it.
fn each_child(mut visit: impl FnMut(Pid)) -> io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let file = rustix::fs::open(c"/proc/thread-self/children", flags, Mode::empty())?;
    let mut buffer = [0_u8; 4096];
    let mut number = 0_i32;
    loop {
        let got = match rustix::io::read(&file, &mut buffer) {
            Ok(0) => return Ok(()),
            Ok(got) => got,
            Err(Errno::INTR) => continue,
            Err(errno) => return Err(errno.into()),
        };
        for byte in &buffer[..got] {
            if byte.is_ascii_digit() {
                number = number.saturating_mul(10).saturating_add(i32::from(byte - b'0'));
            } else if let Some(child) = Pid::from_raw(std::mem::take(&mut number)) {
                visit(child);
            }
        }
    }
}
