//! The user's terminal: its modes, and whose it is just now. Dropping it gives back what was changed.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use ringfence_sys::pty::{Seat, Seats};
use rustix::fs::{Mode, OFlags};
use rustix::termios::{InputModes, LocalModes, OptionalActions, OutputModes, SpecialCodeIndex, Termios};
use rustix::termios::{tcgetattr, tcgetpgrp, tcsetattr};

/// Whether another process may be using the user's terminal along with the payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hold {
    /// stdin and stdout are terminals: the session is all that is there.
    Alone,
    /// One of them is not: there may be a pipeline.
    Shared,
}

/// Whether the user's terminal is raw.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Raw {
    Yes,
    No,
}

/// Whether the user's terminal is as we found it.
enum Grip {
    /// It is, or a shell has taken it back.
    None,
    /// We gave it these modes.
    Set(Termios),
}

/// The user's terminal.
pub(super) struct Outer {
    input: OwnedFd,
    output: OwnedFd,
    /// Its modes before we touched it.
    found: Termios,
    grip: Grip,
    hold: Hold,
}

impl Outer {
    /// Finds the terminal among the three, or nothing when none is one.
    pub(super) fn find(seats: Seats, [stdin, stdout, stderr]: [BorrowedFd<'_>; 3]) -> io::Result<Option<Self>> {
        let reads = [(seats.stdin, stdin), (seats.stdout, stdout), (seats.stderr, stderr)];
        let writes = [(seats.stdout, stdout), (seats.stderr, stderr), (seats.stdin, stdin)];
        let first = |of: [(Seat, BorrowedFd<'_>); 3], access: OFlags| {
            let found = of.into_iter().find(|(seat, _)| *seat == Seat::Terminal);
            found.map(|(_, fd)| open_again(fd, access)).transpose()
        };
        let (Some(input), Some(output)) = (first(reads, OFlags::RDONLY)?, first(writes, OFlags::WRONLY)?) else {
            return Ok(None);
        };
        let mut found = tcgetattr(&input)?;
        let alone = seats.stdin == Seat::Terminal && seats.stdout == Seat::Terminal;
        let is_ours = alone && in_foreground(&input);
        if !is_ours && !found.local_modes.contains(LocalModes::ICANON) {
            // `less` was faster than we, or the shell that started us in the background edits a line. These modes are its
            // own: they must not become the payload's, nor outlive it.
            cook(&mut found);
        }
        Ok(Some(Self { input, output, found, grip: Grip::None, hold: if alone { Hold::Alone } else { Hold::Shared } }))
    }

    pub(super) fn input(&self) -> &OwnedFd {
        &self.input
    }

    pub(super) fn output(&self) -> &OwnedFd {
        &self.output
    }

    pub(super) fn hold(&self) -> Hold {
        self.hold
    }

    /// The modes before we touched it.
    pub(super) fn found(&self) -> &Termios {
        &self.found
    }

    /// The modes in which we left it.
    pub(super) fn modes(&self) -> &Termios {
        match &self.grip {
            Grip::Set(modes) => modes,
            Grip::None => &self.found,
        }
    }

    pub(super) fn is_changed(&self) -> bool {
        matches!(self.grip, Grip::Set(_))
    }

    /// Whether what the user types is for us: a background job that reads is stopped, and in a pipeline another may read.
    pub(super) fn is_ours(&self) -> bool {
        let as_left = || tcgetattr(&self.input).is_ok_and(|now| now.local_modes == self.modes().local_modes);
        in_foreground(&self.input) && (self.hold == Hold::Alone || as_left())
    }

    /// Makes it raw, unless it is already, or is not ours to change.
    pub(super) fn make_raw(&mut self) -> Raw {
        if !self.is_changed() {
            self.set(self.raw());
        }
        if self.is_changed() { Raw::Yes } else { Raw::No }
    }

    /// Gives it the modes that the payload gave to its PTY.
    pub(super) fn follow(&mut self, inner: &Termios) {
        let wanted = if inner.local_modes.contains(LocalModes::EXTPROC) {
            let mut wanted = self.found.clone();
            wanted.input_modes = inner.input_modes;
            wanted.output_modes = inner.output_modes;
            wanted.local_modes = inner.local_modes - LocalModes::EXTPROC;
            wanted.special_codes = inner.special_codes.clone();
            one_byte_at_a_time(&mut wanted);
            wanted
        } else {
            // `stty sane` clears it. The PTY does its own echo and line editing from now on.
            self.raw()
        };
        if same(&wanted, &self.found) {
            self.give_back();
        } else if !same(&wanted, self.modes()) {
            self.set(wanted);
        }
    }

    pub(super) fn give_back(&mut self) {
        // In the background the terminal is somebody else's, with modes of their own.
        if self.is_changed() && in_foreground(&self.input) {
            // It fails only when the terminal is gone.
            let _ = tcsetattr(&self.input, OptionalActions::Now, &self.found);
        }
        self.grip = Grip::None;
    }

    /// Somebody else set the modes since we did.
    pub(super) fn let_go(&mut self) {
        self.grip = Grip::None;
    }

    fn set(&mut self, modes: Termios) {
        // Now, not after the output drained: a terminal that takes nothing would hold us for ever, and what was written has
        // its line ends already.
        if in_foreground(&self.input) && tcsetattr(&self.input, OptionalActions::Now, &modes).is_ok() {
            self.grip = Grip::Set(modes);
        }
    }

    fn raw(&self) -> Termios {
        let mut raw = self.found.clone();
        raw.make_raw();
        one_byte_at_a_time(&mut raw);
        raw
    }
}

impl Drop for Outer {
    fn drop(&mut self) {
        self.give_back();
    }
}

/// A description of our own of the same terminal, so that it can be non-blocking without the shell's becoming so.
fn open_again(fd: BorrowedFd<'_>, access: OFlags) -> io::Result<OwnedFd> {
    let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
    let flags = access | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(own) => Ok(own),
        // Another user's terminal (`su`), or no /proc. The descriptor itself does, but a terminal that takes no bytes then
        // holds us in `write`, where signals wait.
        Err(_) => Ok(rustix::io::fcntl_dupfd_cloexec(fd, 3)?),
    }
}

fn in_foreground(input: &OwnedFd) -> bool {
    // An error means that this is not the terminal of our session, so no shell's job control applies to us.
    tcgetpgrp(input).map_or(true, |job| job == rustix::process::getpgrp())
}

fn cook(modes: &mut Termios) {
    modes.input_modes |= InputModes::ICRNL;
    modes.output_modes |= OutputModes::OPOST | OutputModes::ONLCR;
    modes.local_modes |= LocalModes::ICANON | LocalModes::ISIG | LocalModes::IEXTEN;
    modes.local_modes |= LocalModes::ECHO | LocalModes::ECHOE | LocalModes::ECHOK;
}

fn one_byte_at_a_time(modes: &mut Termios) {
    modes.special_codes[SpecialCodeIndex::VMIN] = 1;
    modes.special_codes[SpecialCodeIndex::VTIME] = 0;
}

fn same(a: &Termios, b: &Termios) -> bool {
    use SpecialCodeIndex as Code;
    let codes = [
        Code::VINTR,
        Code::VQUIT,
        Code::VERASE,
        Code::VKILL,
        Code::VEOF,
        Code::VSTART,
        Code::VSTOP,
        Code::VSUSP,
        Code::VEOL,
        Code::VREPRINT,
        Code::VDISCARD,
        Code::VWERASE,
        Code::VLNEXT,
        Code::VEOL2,
    ];
    a.input_modes == b.input_modes
        && a.output_modes == b.output_modes
        && a.local_modes == b.local_modes
        && codes.into_iter().all(|code| a.special_codes[code] == b.special_codes[code])
}
