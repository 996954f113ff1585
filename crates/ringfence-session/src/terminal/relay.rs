//! The loop of the supervisor: bytes, sizes and signals between the user's terminal and the payload's.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use ringfence_sys::pty::{self, Seat};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::process::Signal;
use rustix::termios::{LocalModes, OutputModes, QueueSelector, SpecialCodeIndex, tcgetattr, tcgetpgrp, tcgetsid};

use super::Terminal;
use super::ask::{Asking, Key};
use super::filter::OutputFilter;
use super::flow::Flow;
use super::outer::{Hold, Raw};
use super::screen::Follower;
use super::signals::{Clock, Recipient, Screen, Signals, stop_here, stop_job, wait_for};

/// What is still read after the payload ended. The kernel holds less than 20 KiB between slave and master, so this is all
/// that the payload wrote; a process that outlived it and floods the terminal is cut off here.
const LAST_OUTPUT: usize = 256 * 1024;

/// How soon to look again whether the user's terminal is ours: no event says that a background job came to the foreground.
const LOOK_AGAIN: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };

/// How soon to look again whether the payload read the end of file that the user typed, and the lines before it.
const EOF_AGAIN: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// How long the terminal has for its last answer: over a slow line that takes as long as there and back. Only a terminal that
/// answers nothing makes a session wait for all of it.
const LAST_ANSWER: Duration = Duration::from_secs(1);

/// Silence after the last answer.
const QUIET: Duration = Duration::from_millis(20);

/// How soon to look again at a question that stands on the terminal.
const ASK_AGAIN: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// Carries bytes, sizes and signals between the user's terminal and the payload's. Gives the former back when dropped.
pub struct Relay<'s> {
    terminal: Terminal,
    signals: &'s Signals,
    to_payload: Flow,
    to_user: Flow,
    /// What the user types.
    input: Stream,
    /// What the user sees.
    output: Stream,
    /// The payload's terminal.
    inner: Stream,
    pause: Pause,
    /// What of its output passes.
    filter: OutputFilter,
    /// What the filter let pass, before it waits in `to_user`.
    passed: Vec<u8>,
    /// What the payload does with the screen.
    screen: Follower,
    /// A question that stands there.
    asking: Option<Asking>,
    /// What was typed while it does.
    typed: Vec<u8>,
}

impl<'s> Relay<'s> {
    pub(super) fn new(terminal: Terminal, signals: &'s Signals) -> Self {
        Self {
            terminal,
            signals,
            to_payload: Flow::new(),
            to_user: Flow::new(),
            input: Stream::Open,
            output: Stream::Open,
            inner: Stream::Open,
            pause: Pause::None,
            filter: OutputFilter::new(),
            passed: Vec::new(),
            screen: Follower::new(),
            asking: None,
            typed: Vec::new(),
        }
    }

    /// Runs until `done` is readable or closed, and until all that was written before is on the user's terminal.
    ///
    /// A pidfd of the payload is a good `done`. A user's terminal that takes no bytes holds the end back, as it would hold
    /// back the payload itself; TERM, INT, HUP or QUIT then give up what is left.
    ///
    /// # Errors
    ///
    /// When `poll`, the master or a forwarded signal fails. That the user's terminal is gone is no error: the payload gets
    /// HUP, and its own terminal is hung up as well.
    pub fn run(mut self, done: BorrowedFd<'_>, to: Recipient<'_>, clock: &mut Clock<'_>) -> io::Result<()> {
        loop {
            let ready = self.wait(done, clock)?;
            clock.heed(ready.aside);
            clock.strike(to)?;
            if !ready.signals.is_empty() {
                while let Some(signal) = self.signals.next()? {
                    self.answer(signal, to)?;
                }
            }
            if !ready.input.is_empty() {
                self.read_user(ready.input, to)?;
            }
            self.ask(clock);
            if !ready.inner.is_empty() {
                self.write_payload()?;
                if self.asking.is_none() {
                    self.read_payload()?;
                }
            }
            if !ready.output.is_empty() {
                self.write_user();
            }
            if !ready.stops.is_empty() {
                self.put_aside(clock)?;
            }
            self.tell(clock);
            if !ready.done.is_empty() {
                return self.finish();
            }
        }
    }

    /// Tells the user something, between two things that the payload shows.
    fn tell(&mut self, clock: &mut Clock<'_>) {
        if !clock.has_notice() || !self.to_user.is_empty() || self.output == Stream::Closed || self.asking.is_some() {
            return;
        }
        let screen = if self.is_calm() { Screen::Calm } else { Screen::Busy };
        if let Some(line) = clock.notice(screen) {
            let start = if screen == Screen::Calm { "" } else { "\r\n" };
            self.to_user.put_line(format!("{start}{line}\r\n").as_bytes());
            self.write_user();
        }
    }

    /// Asks what waits for an answer, and hears it.
    fn ask(&mut self, clock: &mut Clock<'_>) {
        let waits = clock.question();
        let Some(asking) = &mut self.asking else {
            let is_ours = self.terminal.outer.hold() == Hold::Alone && self.terminal.outer.is_ours();
            if let Some(prompt) = waits.filter(|_| is_ours && self.to_user.is_empty() && self.output == Stream::Open) {
                // What was typed before is no answer, and is not for the program either: it was typed to another screen.
                let _ = rustix::termios::tcflush(self.terminal.outer.input(), QueueSelector::IFlush);
                let (asking, shown) = Asking::begin(&prompt, Instant::now());
                self.asking = Some(asking);
                self.show(&shown);
            }
            return;
        };
        if waits.is_none_or(|prompt| prompt.id != asking.id) {
            return self.asked("ringfence: it was settled otherwise");
        }
        let typed = std::mem::take(&mut self.typed);
        let (id, now) = (asking.id, Instant::now());
        let (reply, mut shown) = asking.typed(&typed, now);
        shown.push_str(asking.opens(now).unwrap_or_default());
        self.show(&shown);
        if let Some(reply) = reply {
            clock.reply(id, reply);
            self.asked(if reply == Key::No { "ringfence: no" } else { "ringfence: yes" });
        }
    }

    /// The question goes, and the program draws again what stood there.
    fn asked(&mut self, said: &str) {
        let is_calm = self.is_calm();
        (self.asking, self.typed) = (None, Vec::new());
        let back = if is_calm { "" } else { "\x1b8" };
        self.show(&format!("\r\n{said}\r\n{back}"));
        if let Ok(size) = rustix::termios::tcgetwinsize(&self.terminal.master)
            && !is_calm
        {
            // A size that is another for a moment makes a program draw everything anew.
            let other = rustix::termios::Winsize { ws_row: size.ws_row.saturating_sub(1).max(1), ..size };
            let _ = rustix::termios::tcsetwinsize(&self.terminal.master, other);
            let _ = rustix::termios::tcsetwinsize(&self.terminal.master, size);
        }
    }

    /// Puts something of ours on the user's terminal. Nothing else waits to be put there.
    fn show(&mut self, text: &str) {
        if !text.is_empty() && self.output == Stream::Open {
            let mut rest = text.as_bytes();
            // A terminal that takes no more gets the rest with what comes next.
            while !rest.is_empty() && self.to_user.is_empty() {
                let (now, later) = rest.split_at(rest.len().min(self.to_user.room()));
                self.to_user.put_line(now);
                self.write_user();
                rest = later;
            }
        }
    }

    /// Would a line of ours spoil nothing? Programs that draw take the keys one by one.
    fn is_calm(&self) -> bool {
        let is_cooked = || {
            let wanted = LocalModes::ICANON | LocalModes::ECHO;
            tcgetattr(&self.terminal.slave).is_ok_and(|modes| modes.local_modes.contains(wanted))
        };
        self.terminal.outer.hold() == Hold::Alone && self.screen.is_calm() && is_cooked()
    }

    /// Sleeps until something can be done.
    fn wait(&mut self, done: BorrowedFd<'_>, clock: &Clock<'_>) -> io::Result<Ready> {
        // Without a pipeline to share it with, the user's terminal is raw whenever we are in the foreground.
        let alone = self.terminal.outer.hold() == Hold::Alone && self.input == Stream::Open;
        if alone && self.terminal.outer.make_raw() == Raw::No {
            self.pause = Pause::UntilOurs;
        }
        self.type_eof();
        let timeout = clock.timeout(match self.pause {
            Pause::None if self.asking.is_some() => Some(ASK_AGAIN),
            Pause::None => None,
            Pause::UntilOurs => Some(LOOK_AGAIN),
            Pause::BeforeEof | Pause::AfterEof => Some(EOF_AGAIN),
        });
        let reads = self.pause == Pause::None && self.to_payload.is_empty() && self.listens();
        let mut inner = PollFlags::empty();
        inner.set(PollFlags::IN, self.to_user.is_empty() && self.asking.is_none());
        inner.set(PollFlags::OUT, !self.to_payload.is_empty());
        let mut input = PollFlags::empty();
        input.set(PollFlags::IN, reads);
        let mut output = PollFlags::empty();
        output.set(PollFlags::OUT, !self.to_user.is_empty());

        let outer = &self.terminal.outer;
        let mut fds = [
            PollFd::from_borrowed_fd(done, PollFlags::IN),
            PollFd::new(self.signals.fd(), PollFlags::IN),
            self.slot(self.inner, &self.terminal.master, inner),
            self.slot(self.input, outer.input(), input),
            self.slot(self.output, outer.output(), output),
            clock.slot(self.signals.fd()),
            match &self.terminal.stops {
                Some(stops) => PollFd::new(stops, PollFlags::IN),
                None => PollFd::new(self.signals.fd(), PollFlags::empty()),
            },
        ];
        wait_for(&mut fds, timeout.as_ref())?;
        let [done, signals, inner, input, output, aside, stops] = fds.map(|fd| fd.revents());
        if self.pause == Pause::UntilOurs {
            self.pause = Pause::None;
        }
        Ok(Ready { done, signals, inner, input, output, aside, stops })
    }

    /// A descriptor that nothing is wanted from is left out: poll reports a hang-up unasked, and would never sleep again.
    fn slot<'fd>(&'fd self, stream: Stream, fd: &'fd OwnedFd, events: PollFlags) -> PollFd<'fd> {
        match stream {
            Stream::Open if !events.is_empty() => PollFd::new(fd, events),
            // A signalfd neither hangs up nor fails, so asking it for nothing makes an empty slot.
            _ => PollFd::new(self.signals.fd(), PollFlags::empty()),
        }
    }

    fn answer(&mut self, signal: Signal, to: Recipient<'_>) -> io::Result<()> {
        match signal {
            Signal::WINCH => self.resize(),
            Signal::CONT => {
                // A shell that had stopped us has set its own modes since.
                self.terminal.outer.let_go();
                self.resize();
                self.mirror();
            }
            Signal::TSTP => self.stop()?,
            // Nobody is in the foreground before the child has made the PTY its terminal.
            Signal::INT | Signal::QUIT if tcgetpgrp(&self.terminal.master).is_ok() => {
                pty::tiocsig(self.terminal.master.as_fd(), signal)?;
            }
            _ => to.send(signal)?,
        }
        Ok(())
    }

    fn resize(&self) {
        // It fails only when the user's terminal is gone, which reading from it will tell.
        let _ = self.terminal.resize();
    }

    fn stop(&mut self) -> io::Result<()> {
        let master = &self.terminal.master;
        let inner_shell = matches!((tcgetpgrp(master), tcgetsid(master)), (Ok(job), Ok(leader)) if job != leader);
        if self.terminal.outer.hold() == Hold::Shared && inner_shell {
            // The key was pressed outside for a job of an inner shell, which will notice.
            return pty::tiocsig(master.as_fd(), Signal::TSTP);
        }
        self.terminal.outer.give_back();
        stop_here()
    }

    /// The payload has stopped, and nobody inside continues it: all of it is put aside with us, until the user's shell continues
    /// us. Where there is none we do not stop, and it goes on.
    fn put_aside(&mut self, clock: &Clock<'_>) -> io::Result<()> {
        let Some(stops) = &self.terminal.stops else { return Ok(()) };
        match rustix::io::read(stops, &mut [0; 1]) {
            Ok(1) => {}
            Err(Errno::AGAIN | Errno::INTR) => return Ok(()),
            // It has ended.
            _ => {
                self.terminal.stops = None;
                return Ok(());
            }
        }
        // What it showed last belongs before what the shell says.
        while self.asking.is_none() && self.output == Stream::Open {
            self.write_user();
            if !self.to_user.is_empty() || self.read_payload()? == 0 {
                break;
            }
        }
        self.terminal.outer.give_back();
        clock.put_aside(stop_job)?;
        self.terminal.outer.let_go();
        self.resize();
        self.mirror();
        Ok(())
    }

    /// In a pipeline, the user's terminal gets the modes that the payload gave to its own.
    fn mirror(&mut self) {
        if self.terminal.outer.hold() == Hold::Alone {
            return;
        }
        // It fails only when the payload's terminal is gone.
        let Ok(inner) = tcgetattr(&self.terminal.slave) else { return };
        self.terminal.outer.follow(&inner);
    }

    fn listens(&self) -> bool {
        let outer = &self.terminal.outer;
        outer.hold() == Hold::Alone || self.terminal.seats.stdin == Seat::Terminal || outer.is_changed()
    }

    fn read_user(&mut self, events: PollFlags, to: Recipient<'_>) -> io::Result<()> {
        let gone = events.intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL);
        if !gone && !self.terminal.outer.is_ours() {
            if self.terminal.outer.hold() == Hold::Alone {
                self.terminal.outer.let_go();
            }
            self.pause = Pause::UntilOurs;
            return Ok(());
        }
        let filled = self.to_payload.fill(self.terminal.outer.input());
        if self.asking.is_some() && filled.is_ok_and(|length| length > 0) {
            // It is for us, whatever it is.
            self.typed.extend_from_slice(self.to_payload.held());
            self.to_payload.clear();
            return Ok(());
        }
        match filled {
            Ok(0) if gone => self.hang_up(to)?,
            // Ctrl-D on an empty line of a terminal that does the line editing.
            Ok(0) if self.terminal.outer.modes().local_modes.contains(LocalModes::ICANON) => {
                self.pause = Pause::BeforeEof
            }
            Ok(_) | Err(Errno::AGAIN | Errno::INTR) => {}
            Err(Errno::IO) => self.hang_up(to)?,
            // A terminal that was opened for writing only, and that we may not open again.
            Err(_) => self.input = Stream::Closed,
        }
        Ok(())
    }

    fn hang_up(&mut self, to: Recipient<'_>) -> io::Result<()> {
        self.input = Stream::Closed;
        to.send(Signal::HUP)?;
        // A payload that ignores SIGHUP (nohup) would wait for input for ever. When the last descriptor of the master is closed, the
        // kernel hangs up the payload's terminal, as it did with the user's: reads find the end, and writes fail with EIO.
        self.terminal.master = rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
        self.inner = Stream::Closed;
        Ok(())
    }

    /// Under EXTPROC the reader sees an end of file when this character is all that waits: lines that were typed before must
    /// be read first, and lines that were typed after must wait.
    fn type_eof(&mut self) {
        let typed = matches!(self.pause, Pause::BeforeEof | Pause::AfterEof);
        if !typed || !self.to_payload.is_empty() {
            return;
        }
        // Not FIONREAD: what was just written may still be on its way from master to slave, and only poll waits for that.
        let mut slave = [PollFd::new(&self.terminal.slave, PollFlags::IN)];
        let all_read = wait_for(&mut slave, Some(&Timespec::default())).is_ok() && slave[0].revents().is_empty();
        if all_read && self.pause == Pause::BeforeEof {
            self.to_payload.put(self.terminal.outer.modes().special_codes[SpecialCodeIndex::VEOF]);
            self.pause = Pause::AfterEof;
        } else if all_read {
            self.pause = Pause::None;
        }
    }

    fn write_payload(&mut self) -> io::Result<()> {
        match self.to_payload.pour(&self.terminal.master) {
            Ok(()) | Err(Errno::AGAIN | Errno::INTR) => Ok(()),
            Err(Errno::IO) => {
                self.inner = Stream::Closed;
                Ok(())
            }
            Err(errno) => Err(errno.into()),
        }
    }

    /// Returns how many bytes were read.
    fn read_payload(&mut self) -> io::Result<usize> {
        if !self.to_user.is_empty() {
            return Ok(0);
        }
        let length = match self.to_user.fill(&self.terminal.master) {
            Ok(length) => length,
            Err(Errno::AGAIN | Errno::INTR) => return Ok(0),
            // We hold a slave, so this is not the payload closing its last one; the whole devpts is gone.
            Err(Errno::IO) => 0,
            Err(errno) => return Err(errno.into()),
        };
        if length == 0 {
            self.inner = Stream::Closed;
        }
        if self.terminal.outer.hold() == Hold::Shared {
            self.unpack();
        }
        self.passed.clear();
        self.filter.filter(self.to_user.held(), &mut self.passed);
        self.to_user.replace(&self.passed);
        self.screen.follow(&self.passed);
        if self.output == Stream::Closed {
            self.to_user.clear();
        }
        Ok(length)
    }

    /// In a pipeline, what the master gives is a packet, and its line ends were made for a raw terminal.
    fn unpack(&mut self) {
        match self.to_user.take() {
            Some(pty::TIOCPKT_DATA) => {
                let makes_line_ends = OutputModes::OPOST | OutputModes::ONLCR;
                if self.terminal.outer.modes().output_modes.contains(makes_line_ends) {
                    self.to_user.drop_carriage_returns();
                }
            }
            Some(events) => {
                self.to_user.clear();
                if events & pty::TIOCPKT_IOCTL != 0 {
                    self.mirror();
                }
            }
            None => {}
        }
    }

    fn write_user(&mut self) {
        match self.to_user.pour(self.terminal.outer.output()) {
            Ok(()) | Err(Errno::AGAIN | Errno::INTR) => {}
            // The user's terminal is gone. The payload must not be held up by that.
            Err(_) => {
                self.output = Stream::Closed;
                self.to_user.clear();
            }
        }
    }

    /// The payload ended: what it wrote is in the kernel's buffers, and a read of the master sees it (a read that finds
    /// nothing first waits for the work that moves bytes from slave to master, since Linux 4.7).
    fn finish(mut self) -> io::Result<()> {
        let ended = self.pour_rest();
        if self.to_user.is_empty() {
            let undone = self.filter.undo(self.screen.to_plain());
            self.show(&String::from_utf8_lossy(&undone));
            self.drop_answers();
        }
        ended
    }

    /// Reads what the terminal still answers to the payload's questions: after the end it would be typed to the user's shell. A
    /// question of our own comes last, and so does its answer. Nothing that the payload chose is in these answers, but they
    /// begin with ESC, which shells take for a key.
    fn drop_answers(&mut self) {
        let outer = &self.terminal.outer;
        let can_ask =
            self.filter.questions() > 0 && outer.hold() == Hold::Alone && outer.is_changed() && outer.is_ours();
        if !can_ask || self.input == Stream::Closed || self.output == Stream::Closed {
            return;
        }
        self.show("\x1b[c");
        let (deadline, mut answers) = (Instant::now() + LAST_ANSWER, Vec::new());
        loop {
            // Behind the answer there may be one more, where the payload has asked the same.
            let most = if is_answered(&answers) { QUIET } else { deadline.saturating_duration_since(Instant::now()) };
            let mut fds = [PollFd::new(self.terminal.outer.input(), PollFlags::IN)];
            let waited = wait_for(&mut fds, Some(&Timespec::try_from(most).unwrap_or_default()));
            if waited.is_err() || fds[0].revents() != PollFlags::IN || Instant::now() >= deadline {
                break;
            }
            self.to_payload.clear();
            match self.to_payload.fill(self.terminal.outer.input()) {
                Ok(1..) => answers.extend_from_slice(self.to_payload.held()),
                _ => break,
            }
        }
        let _ = rustix::termios::tcflush(self.terminal.outer.input(), QueueSelector::IFlush);
    }

    fn pour_rest(&mut self) -> io::Result<()> {
        let mut budget = LAST_OUTPUT;
        loop {
            while !self.to_user.is_empty() {
                let mut fds = [
                    PollFd::new(self.terminal.outer.output(), PollFlags::OUT),
                    PollFd::new(self.signals.fd(), PollFlags::IN),
                ];
                wait_for(&mut fds, None)?;
                let [output, signals] = fds.map(|fd| fd.revents());
                if !output.is_empty() {
                    self.write_user();
                } else if !signals.is_empty() && self.is_told_to_end()? {
                    return Ok(());
                }
            }
            let length = self.read_payload()?;
            budget = budget.saturating_sub(length);
            if length == 0 || budget == 0 || self.output == Stream::Closed {
                return Ok(());
            }
        }
    }

    fn is_told_to_end(&self) -> io::Result<bool> {
        while let Some(signal) = self.signals.next()? {
            if matches!(signal, Signal::TERM | Signal::INT | Signal::HUP | Signal::QUIT) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Is there an answer to `CSI c`: `CSI ? NUMBERS c`?
fn is_answered(typed: &[u8]) -> bool {
    typed.windows(3).enumerate().filter(|(_, start)| *start == b"\x1b[?").any(|(at, _)| {
        let rest = &typed[at + 3..];
        let length = rest.iter().take_while(|byte| matches!(byte, b'0'..=b'9' | b';')).count();
        rest.get(length) == Some(&b'c')
    })
}

/// What poll said of each descriptor.
struct Ready {
    done: PollFlags,
    signals: PollFlags,
    inner: PollFlags,
    input: PollFlags,
    output: PollFlags,
    aside: PollFlags,
    stops: PollFlags,
}

/// Whether a side still answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stream {
    Open,
    Closed,
}

/// Why what the user types is not read just now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pause {
    /// It is read.
    None,
    /// The terminal is another's: we are in the background, or another process of the pipeline changed its modes.
    UntilOurs,
    /// The user typed an end of file, and the payload has not read the lines before it.
    BeforeEof,
    /// The payload has not read the end of file.
    AfterEof,
}
