//! A terminal that a test plays: it starts a program on it, types, and waits for what appears.

use std::os::fd::OwnedFd;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use ringfence_sys::pty::{Seat, Seats, block, seat_on};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::pty::OpenptFlags;
use rustix::termios::{Winsize, tcsetwinsize};

/// Longer than anything here takes on a busy machine; only a failure waits for it.
const PATIENCE: Duration = Duration::from_secs(90);

pub(crate) struct Screen {
    master: OwnedFd,
    child: Child,
    seen: Vec<u8>,
    /// Where to look for the next text.
    at: usize,
}

impl Drop for Screen {
    fn drop(&mut self) {
        // Both fail when it has ended, which is all that is wanted.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Screen {
    /// Starts the command as the leader of a session on a new terminal of 80 by 24.
    pub(crate) fn start(mut command: Command) -> Self {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let master = rustix::pty::openpt(flags).unwrap();
        rustix::pty::unlockpt(&master).unwrap();
        let slave = rustix::pty::ioctl_tiocgptpeer(&master, flags).unwrap();
        rustix::io::ioctl_fionbio(&master, true).unwrap();
        tcsetwinsize(&master, Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
        let all = Seats { stdin: Seat::Terminal, stdout: Seat::Terminal, stderr: Seat::Terminal };
        seat_on(&mut command, rustix::io::fcntl_dupfd_cloexec(&slave, 3).unwrap(), all, block(&[]).unwrap());
        Self { master, child: command.spawn().unwrap(), seen: Vec::new(), at: 0 }
    }

    pub(crate) fn types(&self, keys: &str) {
        assert_eq!(rustix::io::write(&self.master, keys.as_bytes()).unwrap(), keys.len());
    }

    /// Types, and waits until `text` appears after what was waited for before. Gives a moment at which it had not yet.
    #[track_caller]
    pub(crate) fn answers(&mut self, keys: &str, text: &str) -> Instant {
        let before = Instant::now();
        self.types(keys);
        self.appears(text, before)
    }

    #[track_caller]
    pub(crate) fn wait_for(&mut self, text: &str) {
        self.appears(text, Instant::now());
    }

    #[track_caller]
    fn appears(&mut self, text: &str, mut before: Instant) -> Instant {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let new = &self.seen[self.at..];
            if let Some(found) = new.windows(text.len()).position(|window| window == text.as_bytes()) {
                self.at += found + text.len();
                return before;
            }
            let ended = self.child.try_wait().unwrap().is_some();
            let now = Instant::now();
            let more = self.read();
            if !more {
                before = now;
            }
            assert!(more || !ended, "it ended before {text:?}; {}", self.transcript());
            assert!(Instant::now() < deadline, "{text:?} did not come; {}", self.transcript());
        }
    }

    /// Waits for the end, and gives the exit code.
    #[track_caller]
    pub(crate) fn end(self) -> Option<i32> {
        self.all().0
    }

    /// Waits for the end, and gives the exit code and everything that appeared.
    #[track_caller]
    pub(crate) fn all(mut self) -> (Option<i32>, Vec<u8>) {
        let deadline = Instant::now() + PATIENCE;
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            self.read();
            assert!(Instant::now() < deadline, "it did not end; {}", self.transcript());
        };
        while self.read() {}
        (status.code(), std::mem::take(&mut self.seen))
    }

    /// Whether anything came within a moment.
    fn read(&mut self) -> bool {
        let moment = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
        poll(&mut [PollFd::new(&self.master, PollFlags::IN)], Some(&moment)).unwrap();
        let mut bytes = [0; 65536];
        match rustix::io::read(&self.master, &mut bytes) {
            Ok(length) => {
                self.seen.extend_from_slice(&bytes[..length]);
                length > 0
            }
            Err(Errno::AGAIN | Errno::IO) => false,
            Err(errno) => panic!("read: {errno}"),
        }
    }

    fn transcript(&self) -> String {
        format!("on the screen: {}", self.seen.escape_ascii())
    }
}
