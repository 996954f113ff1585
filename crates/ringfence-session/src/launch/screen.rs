//! What the payload will have for a terminal: none, one of the host's, or one that is made inside.

use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd};

use super::{Identity, Shape};
use crate::first::Seat;
use crate::terminal::{self, Terminal, Wanted};

/// What the payload will have for a terminal.
pub(super) enum Screen {
    /// None.
    None,
    /// One of the host's.
    Made(Terminal),
    /// One that is made inside, where it has a name.
    Inside { wanted: Wanted, ends: terminal::Ends },
}

impl Screen {
    pub(super) fn find(shape: &Shape, identity: Identity, standard: [BorrowedFd<'_>; 3]) -> io::Result<Self> {
        let [stdin, stdout, stderr] = standard;
        if matches!(shape, Shape::Native(_) | Shape::Container(_)) {
            let Some(wanted) = Wanted::find(stdin, stdout, stderr)? else { return Ok(Self::None) };
            return Ok(Self::Inside { wanted, ends: terminal::Ends::new()? });
        }
        let Some(terminal) = Terminal::open(stdin, stdout, stderr)? else { return Ok(Self::None) };
        if let Identity::Other { uid, .. } = identity {
            // One who does not own it could use the descriptors but not open `/dev/stdin` again.
            rustix::fs::fchown(terminal.slave(), Some(rustix::process::Uid::from_raw(uid)), None)?;
        }
        Ok(Self::Made(terminal))
    }

    pub(super) fn seat(&self) -> Seat<'_> {
        match self {
            Self::None => Seat::None,
            Self::Made(terminal) => Seat::Made(terminal.slave(), terminal.seats()),
            Self::Inside { wanted, ends } => Seat::ToBeMade(ends.inside.as_fd(), wanted.seats()),
        }
    }

    /// Our end, which the new process must not keep open.
    pub(super) fn outside(&self) -> Option<i32> {
        match self {
            Self::Inside { ends, .. } => Some(ends.outside.as_raw_fd()),
            Self::None | Self::Made(_) => None,
        }
    }

    /// Takes what the new process has made; nothing when it ended before.
    pub(super) fn ready(self) -> io::Result<Option<Terminal>> {
        let (wanted, outside) = match self {
            Self::None => return Ok(None),
            Self::Made(terminal) => return Ok(Some(terminal)),
            Self::Inside { wanted, ends: terminal::Ends { outside, inside } } => {
                drop(inside);
                (wanted, outside)
            }
        };
        let Some(master) = terminal::ask_for_master(&outside)? else { return Ok(None) };
        let terminal = wanted.on(master)?;
        rustix::io::write(&outside, b"g")?;
        Ok(Some(terminal.heeding(outside)))
    }
}
