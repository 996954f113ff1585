//! A session that is held: everything in its process namespace is stopped, and stays so until somebody outside lets it go on.
//!
//! The first process does it, since its namespace is all that it can signal and nobody in there can stop it in turn. The kernel
//! signals all of them in one step, which no fork slips through: a copy that is being made is made before, and then it is
//! stopped too, or after it goes on. What can still wake a stopped process is the end of another: the kernel continues a group
//! that loses its last parent. One that was ending already may do that. So they are stopped again, soon at first and for as
//! long as it lasts. Nothing in there can send the signal that continues, since all who could are stopped.

use std::os::fd::OwnedFd;

use rustix::event::Timespec;
use rustix::io::Errno;
use rustix::net::RecvFlags;
use rustix::process::{Pid, Signal, getpid, kill_process_group};

/// What the supervisor says over the channel that keeps the first process alive.
pub(crate) const HOLD: u8 = b'h';
pub(crate) const GO_ON: u8 = b'c';

/// The longest time between two rounds, in milliseconds.
const MOST_MS: i64 = 200;

/// Whether the session is held. Lives in the first process and allocates nothing.
pub(crate) struct Hold {
    /// How long until the next round, in milliseconds; 0 where it is not held.
    pause: i64,
}

/// What the supervisor said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Word {
    /// It is gone, or wants the session to end.
    End,
    /// Something else, which was done.
    Done,
}

impl Hold {
    pub(crate) const fn new() -> Self {
        Self { pause: 0 }
    }

    pub(crate) fn is_held(&self) -> bool {
        self.pause > 0
    }

    /// Hears what the supervisor says.
    pub(crate) fn hear(&mut self, alive: &OwnedFd) -> Word {
        let mut word = [0];
        match rustix::net::recv(alive, &mut word, RecvFlags::DONTWAIT) {
            Ok((1, _)) if word == [HOLD] => self.pause = 1,
            Ok((1, _)) if word == [GO_ON] => {
                self.pause = 0;
                signal_all(Signal::CONT);
            }
            Err(Errno::AGAIN | Errno::INTR) => {}
            _ => return Word::End,
        }
        Word::Done
    }

    /// Stops everything once more, while it is held.
    pub(crate) fn again(&mut self) {
        if self.is_held() {
            signal_all(Signal::STOP);
        }
    }

    /// How long to wait for the next round.
    pub(crate) fn wait(&mut self) -> Option<Timespec> {
        let wait = Timespec { tv_sec: 0, tv_nsec: self.pause * 1_000_000 };
        self.pause = (self.pause * 2).min(MOST_MS);
        self.is_held().then_some(wait)
    }
}

/// Everything in the namespace but the first process, which this must be: anywhere else it would be everything of the user.
fn signal_all(signal: Signal) {
    if getpid() == Pid::INIT {
        // There may be nobody left.
        let _ = kill_process_group(Pid::INIT, signal);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// K16: the rounds come soon at first, and go on for as long as it is held.
    #[test]
    fn k16_rounds_go_on() {
        let mut hold = Hold::new();
        assert_eq!(hold.wait(), None);
        hold.pause = 1;
        let rounds: Vec<i64> = (0..10).filter_map(|_| hold.wait()).map(|wait| wait.tv_nsec / 1_000_000).collect();
        assert_eq!(rounds, [1, 2, 4, 8, 16, 32, 64, 128, 200, 200]);
    }

    /// K16: whoever is not the first process of a namespace stops nobody. This test would not survive it.
    #[test]
    fn k16_only_the_first_process_signals() {
        let (ours, theirs) = crate::ways::channel().unwrap();
        rustix::io::write(&theirs, &[HOLD]).unwrap();
        let mut hold = Hold::new();
        assert_eq!(hold.hear(&ours), Word::Done);
        hold.again();
        assert!(hold.is_held());
        rustix::io::write(&theirs, &[GO_ON]).unwrap();
        assert_eq!((hold.hear(&ours), hold.is_held()), (Word::Done, false));
        assert_eq!(hold.hear(&ours), Word::Done);
        rustix::io::write(&theirs, b"?").unwrap();
        assert_eq!(hold.hear(&ours), Word::End);
        drop(theirs);
        assert_eq!(hold.hear(&ours), Word::End);
    }
}
