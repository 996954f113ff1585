//! The terminal of a session: the payload gets a PTY of its own, and the supervisor carries bytes, sizes and signals between
//! it and the terminal of the user (claim A16).
//!
//! The payload never holds a descriptor of the user's terminal, and that terminal is not the one of its session: it cannot
//! type into it (`TIOCSTI`), and nothing of it is left when the session ends. What it prints passes a closed list ([`filter`]);
//! what it changed on the terminal is put back at the end. A standard stream that is no terminal is a pipe ([`crate::streams`]).
//!
//! | stdin, stdout | the payload | the user's terminal |
//! | --- | --- | --- |
//! | both terminals | a PTY with its own line discipline | raw while the relay runs, as `ssh` and `script` do |
//! | one of them, or only stderr | the PTY in place of what is a terminal | shared with the rest of the pipeline, see below |
//! | and stderr: none | no terminal, a session of its own | not touched; signals are forwarded |
//!
//! **In a pipeline** (`ringfence run -- cmd | less`, `> log`, `x=$(ringfence run -- fzf)`) raw mode would take the terminal away
//! from `less`. So the user's terminal keeps doing the line editing, echo and signal keys, and the PTY is set to `EXTPROC`
//! ("somebody else does that"). When the payload changes the modes of its PTY (a password prompt, a pager) the same change is
//! made outside, which is what it would have done there itself; so it can take the keys from `less`, as it could without us.
//! A payload that clears `EXTPROC` (`stty sane`) does its own echo, and then the terminal outside is raw. Typed lines go to the
//! payload only while the modes outside are as we left them: whoever changed them is reading. When stdin is not a terminal
//! (`cat | ringfence run -- cmd`) they go to the payload only after it changed its modes: a bare `read < /dev/tty` waits in
//! vain there.
//!
//! **Signals.** TERM and HUP to the supervisor go to the payload; INT and QUIT go to the foreground job of the PTY, which
//! is whom the key would reach. The relay goes on until the payload ends, and only then gives the terminal back; SIGKILL is
//! the one that leaves it raw. (A process that watched for that would race with the shell, which restores its own modes when a
//! job is killed by a signal.) TSTP to the supervisor stops the supervisor, not the payload.
//!
//! **Ctrl-Z** in an inner shell is that shell's. A payload that stops without one, by the key or by itself, puts the session aside:
//! everything in it is held, the terminal is given back, and the supervisor stops too, until the user's shell continues it.
//! Where no shell is there to do so it goes on at once. Only the native fence has a first process that sees it; elsewhere the
//! payload leads its session, and the kernel lets such a one not be stopped by a key.
//!
//! As with every terminal in a terminal, what the user typed ahead and the payload did not read is gone when it ends.

mod ask;
mod filter;
mod flow;
mod inside;
mod outer;
mod relay;
mod screen;
mod signals;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::{Child, Command};

use ringfence_sys::pty::{self, Seat, Seats};
use rustix::pty::OpenptFlags;
use rustix::termios::{LocalModes, OptionalActions, isatty, tcgetwinsize, tcsetattr, tcsetwinsize};

pub use self::ask::{Key, Prompt};
pub use self::inside::{Ends, ask_for_master, make_inside};
pub use self::relay::Relay;
pub use self::signals::{
    Aside, Asked, Clock, LastResort, Lifeline, Recipient, Screen, Signals, Struck, Why, wait_with_signals,
};

use self::outer::{Hold, Outer};

/// A PTY for a payload, and the terminal of the user that it stands in for.
pub struct Terminal {
    master: OwnedFd,
    // Held until the end. With it a payload may close its last descriptor and open `/dev/tty` again later; without it the
    // master would report a hang-up in between, for good and on every poll.
    slave: OwnedFd,
    seats: Seats,
    outer: Outer,
    /// Says when the payload has stopped.
    stops: Option<OwnedFd>,
}

impl Terminal {
    /// Makes a PTY with the modes and the size of the user's terminal, when one of the three is a terminal.
    ///
    /// # Errors
    ///
    /// What the kernel says; `ENOENT` and `ENOSPC` mean that there is no devpts, or no PTY left.
    pub fn open(stdin: BorrowedFd<'_>, stdout: BorrowedFd<'_>, stderr: BorrowedFd<'_>) -> io::Result<Option<Self>> {
        let Some(wanted) = Wanted::find(stdin, stdout, stderr)? else { return Ok(None) };
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let master = rustix::pty::openpt(flags)?;
        rustix::pty::unlockpt(&master)?;
        wanted.on(master).map(Some)
    }

    /// The payload's end, for `ringfence_sys::pty::become_session_leader_on` in the child.
    #[must_use]
    pub fn slave(&self) -> BorrowedFd<'_> {
        self.slave.as_fd()
    }

    /// Which of the child's standard descriptors the slave replaces.
    #[must_use]
    pub fn seats(&self) -> Seats {
        self.seats
    }

    /// With somebody who says when the payload has stopped.
    #[must_use]
    pub(crate) fn heeding(self, stops: OwnedFd) -> Self {
        Self { stops: Some(stops), ..self }
    }

    /// Gets ready to carry bytes. Nothing changes outside before [`Relay::run`].
    #[must_use]
    pub fn into_relay(self, signals: &Signals) -> Relay<'_> {
        Relay::new(self, signals)
    }

    fn resize(&self) -> io::Result<()> {
        let size = tcgetwinsize(self.outer.output())?;
        Ok(tcsetwinsize(&self.master, size)?)
    }
}

/// The user's terminal, for which there is no PTY yet: it may be made elsewhere, where it has a name.
pub struct Wanted {
    seats: Seats,
    outer: Outer,
}

impl Wanted {
    /// Finds the user's terminal, when one of the three is one.
    ///
    /// # Errors
    ///
    /// What the kernel says.
    pub fn find(stdin: BorrowedFd<'_>, stdout: BorrowedFd<'_>, stderr: BorrowedFd<'_>) -> io::Result<Option<Self>> {
        let seats = Seats { stdin: seat_of(stdin), stdout: seat_of(stdout), stderr: seat_of(stderr) };
        Ok(Outer::find(seats, [stdin, stdout, stderr])?.map(|outer| Self { seats, outer }))
    }

    /// Which of the child's standard descriptors the slave replaces.
    #[must_use]
    pub fn seats(&self) -> Seats {
        self.seats
    }

    /// Takes a PTY by its master, unlocked, and gives it the modes and the size of the user's terminal.
    ///
    /// # Errors
    ///
    /// What the kernel says.
    pub fn on(self, master: OwnedFd) -> io::Result<Terminal> {
        let Self { seats, outer } = self;
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        // By the master and not by a name, which could be another's in another mount of devpts.
        let slave = rustix::pty::ioctl_tiocgptpeer(&master, flags)?;
        rustix::io::ioctl_fionbio(&master, true)?;
        // Above the three that a child will replace with it.
        let slave = rustix::io::fcntl_dupfd_cloexec(&slave, 3)?;
        let mut modes = outer.found().clone();
        if outer.hold() == Hold::Shared {
            modes.local_modes |= LocalModes::EXTPROC;
        }
        tcsetattr(&slave, OptionalActions::Now, &modes)?;
        if outer.hold() == Hold::Shared {
            pty::tiocpkt(master.as_fd())?;
        }
        let terminal = Terminal { master, slave, seats, outer, stops: None };
        terminal.resize()?;
        Ok(terminal)
    }
}

/// Starts `command` on the PTY, or without one in a session of its own, with no descriptor but the three and with the signals
/// that the supervisor had before it blocked some.
///
/// # Errors
///
/// What [`Command::spawn`] says.
pub fn spawn_on(terminal: Option<&Terminal>, signals: &Signals, mut command: Command) -> io::Result<Child> {
    match terminal {
        Some(terminal) => {
            let slave = rustix::io::fcntl_dupfd_cloexec(&terminal.slave, 3)?;
            pty::seat_on(&mut command, slave, terminal.seats, signals.mask_before());
        }
        None => pty::seat_apart(&mut command, signals.mask_before()),
    }
    command.spawn()
}

fn seat_of(fd: BorrowedFd<'_>) -> Seat {
    if isatty(fd) { Seat::Terminal } else { Seat::Kept }
}
