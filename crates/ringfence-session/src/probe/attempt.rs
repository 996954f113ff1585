//! A script of calls, tried in a process of its own.

use std::io;
use std::os::fd::OwnedFd;

use ringfence_sys::process::{self, Namespaces};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};

/// No script takes a hundredth of this. A mount that hangs must not hang whoever asks.
const LIMIT: Timespec = Timespec { tv_sec: 5, tv_nsec: 0 };

/// How a script did not come to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    /// A call failed.
    Errno(Errno),
    /// The process has several threads, and cannot be copied.
    Threads,
    /// Something ended the new process: a filter that kills.
    Killed,
    /// It did not end in time.
    TimedOut,
}

/// A script's own record of how far it has come.
pub(super) struct Progress {
    pipe: OwnedFd,
}

impl Progress {
    /// Notes the step and makes it. Allocates nothing.
    pub(super) fn step<T>(&self, number: u8, call: impl FnOnce() -> rustix::io::Result<T>) -> Result<T, Errno> {
        // A pipe takes far more than a script has steps.
        let _ = rustix::io::write(&self.pipe, &[number]);
        call()
    }
}

const DONE: u8 = 0xff;
const FAILED: u8 = 0xfe;

/// Runs a script in a process of its own, in new namespaces, and says at which step it stopped; `0` is the making of the
/// process itself. The script must not allocate.
pub(super) fn attempt(
    namespaces: Namespaces,
    script: impl FnOnce(&Progress) -> Result<(), Errno>,
) -> Result<(), (u8, Stop)> {
    let before = |errno: Errno| (0, Stop::Errno(errno));
    let (read, write) = pipe_with(PipeFlags::CLOEXEC).map_err(before)?;
    let progress = Progress { pipe: write };
    let child = process::clone_process(namespaces, || {
        let _ = process::die_with_parent();
        let mut report = [DONE, 0, 0, 0, 0];
        if let Err(errno) = script(&progress) {
            report[0] = FAILED;
            report[1..].copy_from_slice(&errno.raw_os_error().to_le_bytes());
        }
        u8::from(rustix::io::write(&progress.pipe, &report).is_err())
    });
    // Now only the child holds the end that is written to.
    drop(progress);
    // Without a number it is the refusal to copy a process with several threads.
    let child = child.map_err(|e| (0, Errno::from_io_error(&e).map_or(Stop::Threads, Stop::Errno)))?;
    let mut told = [0; 64];
    let length = listen(&read, &mut told);
    let in_time = length.is_ok();
    // It has told everything; what it still does is ended.
    child.end();
    judge(&told[..length.unwrap_or_else(|length| length)], in_time)
}

/// Everything that the script tells until it ends; what was told so far when it takes too long.
fn listen(pipe: &OwnedFd, told: &mut [u8]) -> Result<usize, usize> {
    let mut length = 0;
    while length < told.len() {
        match poll(&mut [PollFd::new(pipe, PollFlags::IN)], Some(&LIMIT)) {
            Ok(0) => return Err(length),
            Ok(_) => {}
            Err(Errno::INTR) => continue,
            Err(_) => break,
        }
        match rustix::io::read(pipe, &mut told[length..]) {
            Ok(0) => break,
            Ok(more) => length += more,
            Err(Errno::INTR) => {}
            Err(_) => break,
        }
    }
    Ok(length)
}

fn judge(told: &[u8], in_time: bool) -> Result<(), (u8, Stop)> {
    let (steps, report) = told.split_at(told.iter().position(|byte| *byte >= FAILED).unwrap_or(told.len()));
    let step = steps.last().copied().unwrap_or(0);
    match report {
        [DONE, ..] => Ok(()),
        [FAILED, a, b, c, d] => {
            Err((step, Stop::Errno(Errno::from_raw_os_error(i32::from_le_bytes([*a, *b, *c, *d])))))
        }
        _ if in_time => Err((step, Stop::Killed)),
        _ => Err((step, Stop::TimedOut)),
    }
}

/// The number of an error that came through the standard library.
pub(super) fn errno(error: &io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_script_told() {
        assert_eq!(judge(&[1, 2, DONE, 0, 0, 0, 0], true), Ok(()));
        assert_eq!(judge(&[DONE, 0, 0, 0, 0], true), Ok(()));
        assert_eq!(judge(&[1, 2, FAILED, 1, 0, 0, 0], true), Err((2, Stop::Errno(Errno::PERM))));
        assert_eq!(judge(&[FAILED, 28, 0, 0, 0], true), Err((0, Stop::Errno(Errno::NOSPC))));
        assert_eq!(judge(&[1, 2, 3], true), Err((3, Stop::Killed)));
        assert_eq!(judge(&[], true), Err((0, Stop::Killed)));
        assert_eq!(judge(&[1, 2, 3], false), Err((3, Stop::TimedOut)));
    }

    /// The runner of the tests has threads.
    #[test]
    fn a_process_with_threads_is_not_copied() {
        let stopped = std::thread::scope(|scope| {
            scope.spawn(|| attempt(Namespaces::NONE, |_| Ok(()))).join().expect("it does not panic")
        });
        assert_eq!(stopped, Err((0, Stop::Threads)));
    }
}
