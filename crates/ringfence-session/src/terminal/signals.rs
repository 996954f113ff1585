//! The signals of a supervisor: blocked, read from a descriptor, and passed on to the payload.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use ringfence_sys::process::is_ignored;
use ringfence_sys::pty::{self, SignalMask};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Signal};

use crate::hold::{GO_ON, HOLD};
use crate::live::LiveView;

use super::ask::{Key, Prompt};

/// The signals that a supervisor answers itself while a payload runs.
const ANSWERED: [Signal; 9] = [
    Signal::TERM,
    Signal::INT,
    Signal::HUP,
    Signal::QUIT,
    Signal::USR1,
    Signal::USR2,
    Signal::WINCH,
    Signal::CONT,
    Signal::TSTP,
];

/// The signals of a supervisor, blocked and waiting to be answered. Made before the fork, so that none is lost.
///
/// A mask outlives fork and exec, so a child must restore [`Signals::mask_before`]; [`spawn_on`](super::spawn_on) lets it.
pub struct Signals {
    fd: OwnedFd,
    before: SignalMask,
}

impl Signals {
    /// Blocks TERM, INT, HUP, QUIT, USR1, USR2, WINCH, CONT and TSTP in the calling thread until this is dropped, but for those
    /// that the process ignores.
    ///
    /// # Errors
    ///
    /// When there is no descriptor left for the `signalfd`.
    pub fn block() -> io::Result<Self> {
        // A signal that this process ignores is not passed on either: its caller meant the payload (`nohup`). Blocked, it would
        // be queued for the signalfd although it is ignored.
        let answered: Vec<Signal> = ANSWERED.into_iter().filter(|signal| !is_ignored(*signal)).collect();
        let fd = pty::signalfd(&answered)?;
        Ok(Self { fd, before: pty::block(&answered)? })
    }

    /// The mask that the payload should have.
    #[must_use]
    pub fn mask_before(&self) -> SignalMask {
        self.before
    }

    /// Readable when one waits.
    #[must_use]
    pub fn fd(&self) -> &OwnedFd {
        &self.fd
    }

    /// The next one that waits.
    ///
    /// # Errors
    ///
    /// What the kernel says.
    pub fn next(&self) -> io::Result<Option<Signal>> {
        pty::next_signal(self.fd.as_fd())
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        // What came after the payload's end was meant for the payload: a second Ctrl-C must not kill the supervisor here.
        while let Ok(Some(_)) = self.next() {}
        // There is no error that could happen and nobody to tell.
        let _ = self.before.restore();
    }
}

/// Who gets the signals that are sent to the supervisor.
#[derive(Debug, Clone, Copy)]
pub enum Recipient<'fd> {
    /// The process of this pidfd, for one that passes them on itself.
    Process(BorrowedFd<'fd>),
    /// Every process of this group. The leader must be a child that is not waited for yet, or the number may be another's.
    Group(Pid),
}

impl Recipient<'_> {
    pub(super) fn send(self, signal: Signal) -> io::Result<()> {
        let sent = match self {
            Self::Process(pidfd) => rustix::process::pidfd_send_signal(pidfd, signal),
            Self::Group(leader) => rustix::process::kill_process_group(leader, signal),
        };
        match sent {
            // It has ended, which is what we are about to hear anyway.
            Err(Errno::SRCH) => Ok(()),
            other => Ok(other?),
        }
    }
}

/// How long a payload has after SIGTERM, and after that the process that kills it.
const GRACE: Duration = Duration::from_secs(2);

/// What is done where the process that is to end the payload does not: it may have been stopped (`SIGSTOP`) from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LastResort {
    /// It is killed, and the kernel ends everything in its process namespace or group with it.
    Kill,
    /// It gets SIGCONT repeatedly: killed, it would leave its descendants without a parent that reaps them.
    Continue,
}

/// Something else that a supervisor looks after while it waits. It waits for nobody itself.
pub trait Aside: std::fmt::Debug {
    /// Readable when there is something to do.
    fn fd(&self) -> BorrowedFd<'_>;

    /// When something is to be done anyway.
    fn next(&self) -> Option<Instant>;

    /// Does a little of it.
    fn attend(&mut self) -> Asked;

    /// Is there a line for the user?
    fn has_notice(&self) -> bool;

    /// A line for the user, where there is one that can be told now.
    fn notice(&mut self, screen: Screen) -> Option<String>;

    /// A question for the user, where one waits. It stays the same until it is answered or settled otherwise.
    fn question(&self) -> Option<Prompt>;

    /// What the user said to it.
    fn reply(&mut self, id: u64, reply: Key);

    /// Has somebody paused the payload?
    fn is_paused(&self) -> bool;
}

/// What came up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    /// Nothing that concerns the payload.
    Nothing,
    /// The payload is to end.
    End,
}

/// Whether a line on the user's terminal would spoil what a program shows there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Screen {
    /// It would not: the cursor is where a line begins, and no program draws.
    Calm,
    /// It would: only what cannot wait is told.
    Busy,
}

/// As long as somebody holds it a payload may go on. Whoever waits for it ends it when this is cut.
#[derive(Debug, Clone)]
pub struct Lifeline(Arc<Mutex<Option<OwnedFd>>>);

impl Lifeline {
    /// By an end of a pipe or a channel, of which there is no other copy.
    #[must_use]
    pub fn new(end: OwnedFd) -> Self {
        Self(Arc::new(Mutex::new(Some(end))))
    }

    /// The right to change the view, which the first process hands out over it.
    pub(crate) fn receive_view(&self) -> Option<LiveView> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).as_ref().and_then(LiveView::receive)
    }

    /// Lets the first process start the payload. One that has ended already says why by itself.
    pub(crate) fn go(&self) {
        let mut end = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let send = |end: &OwnedFd| rustix::net::send(end, b"g", rustix::net::SendFlags::NOSIGNAL).is_ok();
        if let Some(lifeline) = end.as_ref()
            && !(0..64).any(|_| send(lifeline))
        {
            // It would wait for this word for ever, and so would we for its end: without the lifeline it ends now.
            *end = None;
        }
    }

    /// Has the first process stop everything, or let it go on. One that has ended already has done more than that.
    pub(crate) fn say(&self, word: u8) -> bool {
        let end = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let flags = rustix::net::SendFlags::NOSIGNAL | rustix::net::SendFlags::DONTWAIT;
        end.as_ref().is_some_and(|end| rustix::net::send(end, &[word], flags).is_ok())
    }

    /// Ends the payload with everything it has started. Once is enough.
    pub fn cut(&self) {
        // Whoever panicked while holding the lock has left nothing half done: there is one step.
        drop(self.0.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}

/// Ends a payload whose time is up or that somebody else wants to end: first it is asked, then it is told.
#[derive(Debug)]
pub struct Clock<'a> {
    next: Option<Instant>,
    struck: Struck,
    why: Why,
    /// Whoever waits for the payload ends it when this is closed.
    alive: Option<Lifeline>,
    last_resort: LastResort,
    aside: Option<&'a mut dyn Aside>,
    is_called: bool,
}

/// Why a clock strikes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// The time is up.
    Time,
    /// Somebody asked for it.
    Asked,
}

/// How far a clock has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Struck {
    /// There was time left.
    Not,
    /// The payload was asked to end.
    Asked,
    /// It did not, and was ended.
    Told,
}

impl<'a> Clock<'a> {
    /// Begins now; without a limit it never strikes.
    #[must_use]
    pub fn new(limit: Option<Duration>, alive: Option<Lifeline>, last_resort: LastResort) -> Self {
        let next = limit.and_then(|limit| Instant::now().checked_add(limit));
        Self { next, struck: Struck::Not, why: Why::Time, alive, last_resort, aside: None, is_called: false }
    }

    /// With something else to look after.
    #[must_use]
    pub fn beside(self, aside: Option<&'a mut dyn Aside>) -> Self {
        Self { aside, ..self }
    }

    /// Why it strikes, if it does.
    #[must_use]
    pub fn why(&self) -> Why {
        self.why
    }

    /// What to poll for the other thing; `unused` makes an empty slot.
    pub(super) fn slot<'fd>(&'fd self, unused: &'fd OwnedFd) -> PollFd<'fd> {
        match &self.aside {
            Some(aside) => PollFd::from_borrowed_fd(aside.fd(), PollFlags::IN),
            None => PollFd::new(unused, PollFlags::empty()),
        }
    }

    /// Takes note of what poll said of it.
    pub(super) fn heed(&mut self, events: PollFlags) {
        self.is_called |= !events.is_empty();
    }

    fn attend(&mut self) {
        let Some(aside) = &mut self.aside else { return };
        let is_due = aside.next().is_some_and(|next| next <= Instant::now());
        if (self.is_called || is_due) && aside.attend() == Asked::End && self.struck == Struck::Not {
            (self.next, self.why) = (Some(Instant::now()), Why::Asked);
        }
        self.is_called = false;
    }

    /// Is there a line for the user?
    pub(super) fn has_notice(&self) -> bool {
        self.aside.as_ref().is_some_and(|aside| aside.has_notice())
    }

    /// A line for the user, where there is one that can be told now.
    pub(super) fn notice(&mut self, screen: Screen) -> Option<String> {
        self.aside.as_mut().and_then(|aside| aside.notice(screen))
    }

    /// A question for the user, where one waits.
    pub(super) fn question(&self) -> Option<Prompt> {
        self.aside.as_ref().and_then(|aside| aside.question())
    }

    /// What the user said to it.
    pub(super) fn reply(&mut self, id: u64, reply: Key) {
        if let Some(aside) = &mut self.aside {
            aside.reply(id, reply);
        }
    }

    /// Has the first process hold everything for as long as `stop` takes, unless it does so anyway.
    pub(super) fn put_aside(&self, stop: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        let is_paused = self.aside.as_ref().is_some_and(|aside| aside.is_paused());
        let say = |word| self.alive.as_ref().filter(|_| !is_paused).is_some_and(|alive| alive.say(word));
        say(HOLD);
        let stopped = stop();
        say(GO_ON);
        stopped
    }

    /// Whether the time was up.
    #[must_use]
    pub fn struck(&self) -> Struck {
        self.struck
    }

    /// How long until it strikes, if that is sooner than `other`.
    pub(super) fn timeout(&self, other: Option<Timespec>) -> Option<Timespec> {
        let aside = self.aside.as_ref().and_then(|aside| aside.next());
        let next = self.next.into_iter().chain(aside).min();
        let left = next.map(|next| next.saturating_duration_since(Instant::now()));
        // A limit of years is longer than the type can say, and nobody waits that long between looks.
        let left = left.map(|left| Timespec::try_from(left.min(Duration::from_secs(86_400))).unwrap_or_default());
        match (left, other) {
            (Some(left), Some(other)) => Some(if is_shorter(left, other) { left } else { other }),
            (left, other) => left.or(other),
        }
    }

    /// Does what is due: SIGTERM first, after the grace period the end, and after another one the last resort.
    pub(super) fn strike(&mut self, to: Recipient<'_>) -> io::Result<()> {
        self.attend();
        if self.next.is_none_or(|next| Instant::now() < next) {
            return Ok(());
        }
        if self.struck == Struck::Asked {
            (self.next, self.struck) = (Some(Instant::now() + GRACE), Struck::Told);
            if let Some(alive) = self.alive.take() {
                alive.cut();
            }
            return Ok(());
        }
        if self.struck == Struck::Told {
            // One that is not ours to signal, in a container, has its engine.
            let _ = match self.last_resort {
                LastResort::Kill => to.send(Signal::KILL),
                LastResort::Continue => to.send(Signal::CONT),
            };
            // A process in an uninterruptible wait dies later.
            self.next = Some(Instant::now() + GRACE);
            return Ok(());
        }
        (self.next, self.struck) = (Some(Instant::now() + GRACE), Struck::Asked);
        to.send(Signal::TERM)
    }
}

fn is_shorter(one: Timespec, other: Timespec) -> bool {
    (one.tv_sec, one.tv_nsec) < (other.tv_sec, other.tv_nsec)
}

/// Waits until `done` is readable or closed, and forwards TERM, INT, HUP, QUIT, USR1 and USR2: for a payload without
/// a terminal.
///
/// # Errors
///
/// When `poll` fails, or when a signal cannot be forwarded for another reason than that nobody is there.
pub fn wait_with_signals(
    signals: &Signals,
    done: BorrowedFd<'_>,
    to: Recipient<'_>,
    clock: &mut Clock<'_>,
) -> io::Result<()> {
    loop {
        let mut fds = [
            PollFd::from_borrowed_fd(done, PollFlags::IN),
            PollFd::new(&signals.fd, PollFlags::IN),
            clock.slot(&signals.fd),
        ];
        wait_for(&mut fds, clock.timeout(None).as_ref())?;
        let [ended, _, aside] = fds.map(|fd| fd.revents());
        if !ended.is_empty() {
            return Ok(());
        }
        clock.heed(aside);
        clock.strike(to)?;
        while let Some(line) = clock.notice(Screen::Busy) {
            tell(&line);
        }
        while let Some(signal) = signals.next()? {
            match signal {
                Signal::TSTP => stop_here()?,
                Signal::WINCH | Signal::CONT => {}
                _ => to.send(signal)?,
            }
        }
    }
}

/// Says a line on the error output, unless nobody takes it: the session is not held up for it.
fn tell(line: &str) {
    let stderr = io::stderr();
    let mut fds = [PollFd::new(&stderr, PollFlags::OUT)];
    let takes = poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }));
    if takes.is_ok() && fds[0].revents().contains(PollFlags::OUT) {
        let _ = rustix::io::write(&stderr, format!("{line}\n").as_bytes());
    }
}

/// Stops this process as TSTP does when nobody answers it: not at all when no shell is there to continue it.
pub(super) fn stop_here() -> io::Result<()> {
    // Before it is let through, so that it acts inside `unblock`.
    rustix::process::kill_process(rustix::process::getpid(), Signal::TSTP)?;
    let_through()
}

/// The same with everybody of the job that we belong to, as the key does: a script that waits for us would wait in the
/// foreground.
pub(super) fn stop_job() -> io::Result<()> {
    rustix::process::kill_current_process_group(Signal::TSTP)?;
    let_through()
}

fn let_through() -> io::Result<()> {
    let mask = pty::unblock(&[Signal::TSTP])?;
    mask.restore()
}

pub(super) fn wait_for(fds: &mut [PollFd<'_>], timeout: Option<&Timespec>) -> io::Result<()> {
    match poll(fds, timeout) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}
