//! The first new process of a session: it makes the view, gives up its rights, starts the payload and waits for it.
//!
//! It is a copy of the supervisor, which may have other threads: nothing in here allocates or takes a lock. Where calls are
//! brokered the supervisor had none, and from the first call on this process has threads of its own.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::sync::OnceLock;
use std::thread::Scope;

use ringfence_surface::Surface;
use ringfence_sys::process;
use ringfence_sys::{ns, pty};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::net::SendFlags;
use rustix::process::{DumpableBehavior, Pid, Signal, WaitOptions};

use crate::arguments::Arguments;
use crate::beside::Beside;
use crate::broker::{Broker, Others, Spelling, Telling};
use crate::clones::Clones;
use crate::descendants;
use crate::git_files::References;
use crate::hold::{Hold, Word};
use crate::launch::{Identity, Shape};
use crate::live::LiveView;
use crate::payload::{Payload, Place, SeatAt, map_oneself, open_proc};
use crate::stand_ins::StandIns;
use crate::steps::{
    CAPABILITIES, DESCRIPTORS, FORK, IDENTITY, LOOPBACK, MAPS, SEAT, SIGNALS, STANDARD, TERMINAL, failed, report,
};
use crate::temporary::Journal;
use crate::terminal::{self, LastResort};
use crate::view::{Failed, View};
use crate::ways::{self, Rights};

/// The new process's ends of what it shares with the supervisor.
pub(crate) struct Ends {
    /// Says which step failed; closed by success.
    pub(crate) errors: OwnedFd,
    /// Ends when the supervisor does.
    pub(crate) alive: OwnedFd,
    /// Hands sockets out.
    pub(crate) ways: Option<OwnedFd>,
    /// Takes the number of the signal that ended the payload, which an exit code does not tell apart from itself.
    pub(crate) signal: OwnedFd,
    /// Where the broker says what it refused.
    pub(crate) broker: Option<OwnedFd>,
}

/// A terminal for the first process to pass on.
#[derive(Clone, Copy)]
pub(crate) enum Seat<'s> {
    None,
    Made(BorrowedFd<'s>, pty::Seats),
    /// To be made, and handed out by this.
    ToBeMade(BorrowedFd<'s>, pty::Seats),
}

impl Shape {
    /// Is the first process the first of a process namespace, so that the kernel ends everything with it? Bubblewrap makes its
    /// namespace below the first process, and where bubblewrap itself is ended early its own child waits for it for ever.
    fn has_processes(&self) -> bool {
        !matches!(self, Self::Walls | Self::Root(_) | Self::Bwrap(_))
    }

    /// What ends everything where the first process does not.
    pub(crate) fn last_resort(&self) -> LastResort {
        if self.has_processes() { LastResort::Kill } else { LastResort::Continue }
    }
}

/// The first new process.
pub(crate) struct First<'p> {
    pub(crate) shape: &'p Shape,
    /// Where the kernel reads this program's own arguments, which would show inside.
    pub(crate) arguments: Option<Arguments>,
    pub(crate) identity: Identity,
    pub(crate) payload: &'p Payload,
    /// Where it listens from the start, for the supervisor.
    pub(crate) listeners: &'p [SocketAddr],
    /// The standard streams, in the place of the caller's.
    pub(crate) streams: [OwnedFd; 3],
    /// The session's lock: it is held as long as anything of the session runs.
    pub(crate) lock: OwnedFd,
    /// By what calls are judged, where they are brokered. Then this process was copied from one without further threads.
    pub(crate) brokered: Option<(&'p Surface, Telling, Spelling)>,
    /// Its place among those who work at the same time.
    pub(crate) beside: Option<Beside>,
    /// What is known of clones that are made inside.
    pub(crate) clones: &'p Clones,
    /// Where the broker writes temporary names down.
    pub(crate) journal: Option<&'p Journal>,
    /// Where files of git lead.
    pub(crate) references: &'p References,
}

impl First<'_> {
    /// Allocates nothing.
    pub(crate) fn run(&self, ends: Ends, seat: Seat<'_>, others: [Option<i32>; 4]) -> u8 {
        let Ends { errors, alive, ways, signal, broker: broker_end } = ends;
        // Ours would keep the supervisor's ends open.
        others.into_iter().flatten().for_each(process::close);
        if let Err(failed) = leave_terminal().and_then(|()| self.take_streams()).and_then(|()| {
            self.let_go([&errors, &alive, &signal], [ways.as_ref(), broker_end.as_ref(), None, None], seat)
        }) {
            return report(&errors, failed);
        }
        if let (Shape::Native(_), Some(place)) = (self.shape, self.arguments) {
            place.wipe();
        }
        // The view's own cannot be written.
        let needs_proc = self.payload.pids.is_some_and(|pids| pids.needs_namespace.is_some());
        let proc = if needs_proc { open_proc().ok() } else { None };
        // Making the view leaves descriptors open.
        let entered = self.enter(&alive, ways.as_ref()).and_then(|own_proc| {
            let own_proc = own_proc.filter(|_| self.brokered.is_some());
            let more = [ways.as_ref(), broker_end.as_ref(), proc.as_ref(), own_proc.as_ref()];
            self.let_go([&errors, &alive, &signal], more, seat).map(|()| own_proc)
        });
        let own_proc = match entered {
            Ok(own_proc) => own_proc,
            Err(failed) => return report(&errors, failed),
        };
        let made;
        let (seat, stops): (SeatAt<'_>, _) = match seat {
            Seat::None => (None, None),
            Seat::Made(slave, seats) => (Some((slave, seats, Place::Leader)), None),
            Seat::ToBeMade(inside, seats) => {
                match terminal::make_inside(inside).and_then(|slave| pty::lead_on(slave.as_fd()).map(|()| slave)) {
                    Ok(slave) => {
                        made = slave;
                        (Some((made.as_fd(), seats, Place::Job)), Some(inside))
                    }
                    Err(errno) => return report(&errors, Failed { step: TERMINAL, errno }),
                }
            }
        };
        // A library's caller may ignore it, and then the kernel would tell us of no child's end.
        process::default_signal(Signal::CHILD);
        let signals = match pty::block(&FORWARDED).and_then(|_| pty::signalfd(&FORWARDED)) {
            Ok(signals) => signals,
            Err(error) => return report(&errors, failed(SIGNALS, &error)),
        };
        let stand_ins = match self.shape {
            Shape::Root(places) => StandIns::open(places),
            Shape::Native(_) | Shape::Bwrap(_) | Shape::Walls | Shape::Container(_) => StandIns::NONE,
        };
        // Nothing of the payload runs before the supervisor has written down that it does.
        if !matches!(rustix::io::retry_on_intr(|| rustix::io::read(&alive, &mut [0])), Ok(1)) {
            return 125;
        }
        let handover = match self.brokered.map(|_| ways::channel()).transpose() {
            Ok(handover) => handover,
            Err(error) => return report(&errors, failed(FORK, &error)),
        };
        let program = || match self.shape {
            Shape::Bwrap(bubble) => bubble.become_program(seat, errors.as_fd()),
            // The first process of a container is another.
            Shape::Native(_) | Shape::Walls | Shape::Root(_) | Shape::Container(_) => {
                if matches!(self.shape, Shape::Walls) {
                    // The broker of the fence that this one may be in looks at what its rights are to be.
                    let _ = rustix::process::set_dumpable_behavior(DumpableBehavior::Dumpable);
                }
                let handover = handover.as_ref().map(|(_, inside)| inside);
                self.payload.become_program(seat, proc.as_ref().map(OwnedFd::as_fd), handover)
            }
        };
        let main = || report(&errors, program());
        // In our own memory where that is possible: copying it takes longer than all that is left to do.
        // Whoever is told what is run cannot wait until it runs.
        let is_told = matches!(self.brokered, Some((_, Telling::AlsoMissed, _)));
        let is_shared = matches!(self.shape, Shape::Native(_)) && !needs_proc && !is_told;
        let payload = if is_shared { process::spawn_in_copy(main) } else { process::fork_in_copy(main) };
        let payload = match payload {
            Ok(pid) => pid,
            Err(error) => return report(&errors, failed(FORK, &error)),
        };
        // Now only the payload holds it, until it becomes its program.
        drop(errors);
        if matches!(self.shape, Shape::Root(_)) && self.give_up_rights().is_err() {
            // Nobody watches with rights over what is watched. It fails where everything else would, too.
            let _ = descendants::end_all();
            return 125;
        }
        let (ways, stand_ins) = (ways.as_ref(), &stand_ins);
        let watch = Watch { payload, signals: &signals, alive: &alive, ways, stand_ins, stops };
        if let (Some(judged), Some((handover, inside))) = (self.brokered, handover) {
            drop(inside);
            // A thread that panics leaves its caller waiting, and this one would wait for the threads.
            end_at_a_panic();
            // Its threads do not end by themselves, so neither does what is in here.
            let broker = OnceLock::new();
            std::thread::scope(|scope| {
                let stage = Stage::Handover(handover);
                let others = (self.beside.as_ref(), self.clones, self.journal, self.references);
                let desk =
                    Brokerage { stage, broker: &broker, scope, judged, others, supervisor: broker_end, own_proc };
                let (code, number) = watch.wait(Some(desk));
                process::end_copy(self.ended(code, number, &signal))
            });
        }
        let (code, number) = watch.wait(None);
        self.ended(code, number, &signal)
    }

    /// Passes on how the payload ended.
    fn ended(&self, code: u8, number: u8, signal: &OwnedFd) -> u8 {
        // A supervisor that has closed its end does not need the report. Our own code is lost where the supervisor ignores SIGCHLD.
        let _ = rustix::io::write(signal, &[number, code]);
        if !self.shape.has_processes() && descendants::end_all().is_err() {
            return 125;
        }
        code
    }

    fn take_streams(&self) -> Result<(), Failed> {
        for (number, stream) in (0..).zip(&self.streams) {
            process::put_at(stream.as_fd(), number).map_err(|e| failed(STANDARD, &e))?;
        }
        Ok(())
    }

    /// Closes every other descriptor. The supervisor's ends of the standard streams are among them, and ends of other sessions'
    /// pipes where it starts several at once: this copy would keep those pipes from ever being closed.
    fn let_go(&self, ends: [&OwnedFd; 3], more: [Option<&OwnedFd>; 4], seat: Seat<'_>) -> Result<(), Failed> {
        let made_for = match self.shape {
            Shape::Bwrap(bubble) => bubble.descriptors().map(Some),
            Shape::Native(view) => [view.idmap.as_ref().map(OwnedFd::as_raw_fd), None, None],
            Shape::Walls | Shape::Root(_) | Shape::Container(_) => [None; 3],
        };
        let seat = match seat {
            Seat::None => None,
            Seat::Made(fd, _) | Seat::ToBeMade(fd, _) => Some(fd.as_raw_fd()),
        };
        let lock = self.lock.as_raw_fd();
        let beside = self.beside.as_ref().map(Beside::descriptor);
        let one = |fd: Option<i32>| fd.unwrap_or(lock);
        let [ways, broker, proc, own_proc] = more.map(|fd| one(fd.map(OwnedFd::as_raw_fd)));
        let [errors, alive, signal] = ends.map(OwnedFd::as_raw_fd);
        let [first, second, third] = made_for.map(one);
        let (beside, seat, journal) = (one(beside), one(seat), one(self.journal.and_then(Journal::descriptor)));
        let mut keep =
            [errors, alive, signal, lock, beside, journal, seat, ways, broker, proc, own_proc, first, second, third];
        process::close_all_but(&mut keep).map_err(|e| failed(DESCRIPTORS, &e))
    }

    /// Makes the view, and gives up the rights over it. Returns what [`View::enter`] does.
    fn enter(&self, alive: &OwnedFd, ways: Option<&OwnedFd>) -> Result<Option<OwnedFd>, Failed> {
        let identity = |e: &io::Error| failed(IDENTITY, e);
        self.bind_to_parent().map_err(|e| identity(&e))?;
        // The parent may have died before it was asked for; then nobody holds the other end any more.
        if is_closed(alive) {
            return Err(Failed { step: IDENTITY, errno: Errno::PIPE });
        }
        let own_proc = match self.shape {
            Shape::Native(view) => {
                let own_proc = self.enter_view(view, ways)?;
                // Without it nothing can be given later, which whoever asks is told.
                let _ = LiveView::hand_out(alive, self.identity, ways.is_none());
                own_proc
            }
            Shape::Walls | Shape::Root(_) | Shape::Bwrap(_) => {
                rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
                    .map_err(|errno| Failed { step: IDENTITY, errno })?;
                None
            }
            Shape::Container(_) => None,
        };
        rustix::process::set_dumpable_behavior(QUIET).map_err(|errno| Failed { step: IDENTITY, errno })?;
        rustix::thread::set_no_new_privs(true).map_err(|errno| Failed { step: CAPABILITIES, errno })?;
        if matches!(self.shape, Shape::Bwrap(_) | Shape::Root(_)) {
            // Bubblewrap mounts, or the payload changes its root, with the rights of whoever started us, and gives them up.
            return Ok(own_proc);
        }
        self.give_up_rights().map(|()| own_proc)
    }

    /// Without a namespace nobody ends the others if this one is killed: it must outlive the supervisor to do so.
    fn bind_to_parent(&self) -> io::Result<()> {
        if self.shape.has_processes() { process::die_with_parent() } else { Ok(()) }
    }

    fn give_up_rights(&self) -> Result<(), Failed> {
        let identity = |e: &io::Error| failed(IDENTITY, e);
        // An ordinary user without a namespace has no right to this, and nothing to give up.
        let has_rights = matches!((self.shape, self.identity), (Shape::Native(_), _) | (_, Identity::Other { .. }));
        if has_rights {
            process::drop_bounding_set().map_err(|e| failed(CAPABILITIES, &e))?;
        }
        if let Identity::Other { uid, gid } = self.identity {
            process::become_user(uid, gid).map_err(|e| identity(&e))?;
            // Changing who we are undid both.
            self.bind_to_parent().map_err(|e| identity(&e))?;
            rustix::process::set_dumpable_behavior(QUIET).map_err(|errno| Failed { step: IDENTITY, errno })?;
        }
        process::drop_capabilities().map_err(|e| failed(CAPABILITIES, &e))
    }

    fn enter_view(&self, view: &View, ways: Option<&OwnedFd>) -> Result<Option<OwnedFd>, Failed> {
        if let Identity::Caller { uid, gid } = self.identity {
            map_oneself(uid, gid).map_err(|e| failed(MAPS, &e))?;
        }
        ns::loopback_up().map_err(|e| failed(LOOPBACK, &e))?;
        if let Some(ways) = ways {
            let rights = match self.identity {
                Identity::Caller { .. } => Rights::Own,
                Identity::Other { .. } => Rights::Roots,
            };
            ways::open(ways, self.listeners, rights)?;
        }
        // The directories of the view are for whoever works in it, whatever mask the caller has for new files.
        let mask = rustix::process::umask(Mode::from_raw_mode(0o022));
        let own_proc = view.enter()?;
        rustix::process::umask(mask);
        Ok(own_proc)
    }
}

/// Leaves the user's terminal for a session of its own, without one: nobody inside is told which it is, nothing that is opened
/// for somebody can be it, and its keys are for the supervisor, which passes them on once. From here on every terminal is opened
/// so that it does not become this process's; the one that is made for the payload does, so that it can be stopped by a key.
/// Allocates nothing.
fn leave_terminal() -> Result<(), Failed> {
    pty::become_session_leader().map_err(|errno| Failed { step: SEAT, errno })
}

/// From here on a panic ends this process, and the kernel everything in its process namespace, after the usual message. For a copy of a
/// process without threads, since it allocates.
fn end_at_a_panic() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        usual(info);
        process::end_copy(125);
    }));
}

/// Has the other end been closed? That is told without being asked for; a message that waits is not meant. Allocates nothing.
fn is_closed(end: &OwnedFd) -> bool {
    let mut fds = [PollFd::new(end, PollFlags::empty())];
    rustix::event::poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|n| n > 0)
}

/// Nobody else looks into it.
const QUIET: DumpableBehavior = DumpableBehavior::NotDumpable;

pub(crate) const FORWARDED: [Signal; 7] =
    [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT, Signal::USR1, Signal::USR2, Signal::CHILD];

/// After how many failures of wait4(2) in a row the payload counts as ended, and how long to wait before the next attempt.
const MOST_FAILURES: u32 = 100;
const SOON: Timespec = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };

/// Waits for the payload as the first process of a fence does in which nothing is brokered. Allocates nothing.
pub(crate) fn wait_for(payload: Pid, signals: &OwnedFd, alive: &OwnedFd, ways: Option<&OwnedFd>) -> (u8, u8) {
    Watch { payload, signals, alive, ways, stand_ins: &StandIns::NONE, stops: None }.wait(None)
}

/// What the first process does when all is made.
struct Watch<'w> {
    payload: Pid,
    signals: &'w OwnedFd,
    alive: &'w OwnedFd,
    ways: Option<&'w OwnedFd>,
    stand_ins: &'w StandIns,
    /// Where it is said that the payload has stopped, which nobody inside continues.
    stops: Option<BorrowedFd<'w>>,
}

impl Watch<'_> {
    /// Waits for the payload, collects what others leave behind, and passes signals on, until the payload or the supervisor
    /// ends. Returns its code, and the signal that ended it or 0. Allocates nothing, unless calls are brokered.
    fn wait(&self, mut brokerage: Option<Brokerage<'_, '_, '_>>) -> (u8, u8) {
        let Self { payload, signals, alive, ways, stand_ins, stops } = *self;
        // Asking for nothing makes an empty slot.
        let (ways, wanted) = ways.map_or((signals, PollFlags::empty()), |ways| (ways, PollFlags::IN));
        let [one, two, three] = stand_ins.wanted(signals);
        let mut hold = Hold::new();
        let options = if stops.is_some() { WaitOptions::UNTRACED } else { WaitOptions::empty() };
        let mut failures = 0;
        loop {
            loop {
                let waited = rustix::process::wait(WaitOptions::NOHANG | options);
                failures = if waited.is_ok() { 0 } else { failures + 1 };
                match waited {
                    Ok(Some((pid, status))) if status.stopped() => {
                        // In a session that is held it is we who stopped it.
                        if let Some(stops) = stops.filter(|_| pid == payload && !hold.is_held()) {
                            let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
                            let _ = rustix::net::send(stops, b"s", flags);
                        }
                    }
                    Ok(Some((pid, status))) if pid == payload => {
                        let small = |number: i32| u8::try_from(number).ok();
                        let signal = status.terminating_signal().and_then(small).unwrap_or(0);
                        let code = status.exit_status().and_then(small).or(Some(128 + (signal & 127)));
                        return (code.unwrap_or(125), signal);
                    }
                    Ok(Some(_)) | Err(Errno::INTR) => {}
                    // The payload is a child of ours until it is waited for: it has gone without a word.
                    Err(Errno::CHILD) => return (125, 0),
                    // The kernel answers nothing else here, but a seccomp filter around this process may. If that does not pass,
                    // the end of the payload would never be noticed.
                    Err(_) if failures >= MOST_FAILURES => return (125, 0),
                    Ok(None) | Err(_) => break,
                }
            }
            let calls = brokerage.as_ref().and_then(|brokerage| brokerage.stage.fd());
            let (calls, waiting) = calls.map_or((signals, PollFlags::empty()), |calls| (calls, PollFlags::IN));
            let mut fds = [
                PollFd::new(signals, PollFlags::IN),
                PollFd::new(alive, PollFlags::IN),
                PollFd::new(ways, wanted),
                PollFd::new(calls, waiting),
                PollFd::new(one.0, one.1),
                PollFd::new(two.0, two.1),
                PollFd::new(three.0, three.1),
            ];
            // The signal that announced an end may have been taken before wait4(2) failed.
            let timeout = if failures > 0 { Some(SOON) } else { hold.wait() };
            let _ = rustix::event::poll(&mut fds, timeout.as_ref());
            let [_, over, asked, called, first, second, third] = fds.each_ref().map(PollFd::revents);
            if !over.is_empty() && hold.hear(alive) == Word::End {
                return (125, 0);
            }
            hold.again();
            if asked.contains(PollFlags::IN) {
                // It fails when the supervisor has gone, which the other pipe tells.
                let _ = ways::answer(ways);
            }
            if let Some(brokerage) = brokerage.as_mut().filter(|_| !called.is_empty() && !waiting.is_empty()) {
                brokerage.go_on(called);
            }
            stand_ins.serve([first, second, third]);
            while let Ok(Some(signal)) = pty::next_signal(signals.as_fd()) {
                if signal != Signal::CHILD {
                    // The payload leads a group of its own; what has ended needs no signal.
                    let _ = rustix::process::kill_process_group(payload, signal);
                    // One that is stopped would not hear of it. In a session that is held it hears of it later, or never.
                    if !hold.is_held() {
                        let _ = rustix::process::kill_process_group(payload, Signal::CONT);
                    }
                }
            }
        }
    }
}

/// How far the broker is.
enum Stage {
    /// The listener is to come from here.
    Handover(OwnedFd),
    /// Nobody has called yet.
    Listener(OwnedFd),
    /// It works, or nobody will call.
    Done,
}

impl Stage {
    fn fd(&self) -> Option<&OwnedFd> {
        match self {
            Self::Handover(fd) | Self::Listener(fd) => Some(fd),
            Self::Done => None,
        }
    }
}

/// What a broker is made of, once somebody calls.
struct Brokerage<'scope, 'env, 's> {
    stage: Stage,
    broker: &'scope OnceLock<Broker<'s>>,
    scope: &'scope Scope<'scope, 'env>,
    /// By what, and what of it is told.
    judged: (&'s Surface, Telling, Spelling),
    others: Others<'s>,
    supervisor: Option<OwnedFd>,
    own_proc: Option<OwnedFd>,
}

impl Brokerage<'_, '_, '_> {
    /// Something is ready. What fails here leaves nobody who listens, and then every call that would wait fails.
    fn go_on(&mut self, ready: PollFlags) {
        self.stage = match std::mem::replace(&mut self.stage, Stage::Done) {
            Stage::Handover(handover) => {
                let listener = ways::receive(&handover, &mut [0]).ok().and_then(|mut fds| fds.pop());
                listener.map_or(Stage::Done, Stage::Listener)
            }
            // Everybody who could have called has ended: that is told too.
            Stage::Listener(_) if !ready.contains(PollFlags::IN) => Stage::Done,
            Stage::Listener(listener) => {
                let ends = (self.supervisor.take(), self.own_proc.take());
                if let Ok(broker) = Broker::new(listener, self.judged, self.others, ends) {
                    self.broker.get_or_init(|| broker).start(self.scope);
                }
                Stage::Done
            }
            Stage::Done => Stage::Done,
        };
    }
}
