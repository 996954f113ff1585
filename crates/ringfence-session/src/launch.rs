//! The start: one process that watches, one that waits for the payload, and the payload.
//!
//! Everything is decided and laid out before the fork. Natively the new process is the first of its own process namespace: it
//! makes the view, gives up its rights, starts the payload and waits for it. When it ends, the kernel ends everything in
//! there; it ends with the supervisor. Without namespaces it is the one that orphans fall to, and ends them itself. Bubblewrap
//! has such a process of its own; ours then only passes signals on.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::time::Duration;

use ringfence_egress::{Egress, Inside, Refusal, Rules, System};
use ringfence_surface::AbsPath;
use ringfence_sys::process::{self, Child, Namespaces};
use ringfence_sys::{memory, ns, pty};
use rustix::event::{PollFd, PollFlags};
use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::process::{DumpableBehavior, Pid, Signal, WaitOptions};

use crate::arguments::Arguments;
use crate::bwrap::Bubble;
use crate::cgroup::Group;
use crate::descendants;
use crate::desk::Desk;
use crate::live::LiveView;
use crate::payload::{Payload, SeatAt, map_oneself, open_proc};
use crate::steps::{
    ARRIVED, CAPABILITIES, EXEC, FORK, IDENTITY, LOOPBACK, MAPS, TERMINAL, WAYS, failed, next_report, report, words,
};
use crate::terminal::{self, Aside, Clock, Recipient, Signals, Struck, Terminal, Wanted, Why, wait_with_signals};
use crate::view::{Failed, View};
use crate::ways::{self, Ways};

/// Who runs the payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Identity {
    /// The caller, in a user namespace of its own.
    Caller {
        /// User.
        uid: u32,
        /// Group.
        gid: u32,
    },
    /// Another, since the caller is root and no payload is.
    Other {
        /// User.
        uid: u32,
        /// Group.
        gid: u32,
    },
}

/// Why nothing was started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Namespaces are not to be had.
    #[error("clone3(CLONE_NEWNS|CLONE_NEWPID|CLONE_NEWNET|..)")]
    Clone {
        /// Why.
        source: io::Error,
    },
    /// A step of the new process failed.
    #[error("{step}")]
    Step {
        /// Which.
        step: String,
        /// Why.
        source: io::Error,
    },
    /// A file system that every session has of its own cannot be had.
    #[error("{step}")]
    FileSystem {
        /// Which kind.
        kind: &'static str,
        /// The whole call.
        step: String,
        /// Why.
        source: io::Error,
    },
    /// Somebody moves things about in what is being fenced.
    #[error("{step}: something else was put there while the session started")]
    Replaced {
        /// Where.
        step: String,
    },
    /// The program is not there.
    #[error("{program}: not found inside the fence")]
    NotFound {
        /// As asked.
        program: String,
    },
    /// The program cannot be executed.
    #[error("{program} cannot be executed")]
    NotExecutable {
        /// As asked.
        program: String,
        /// Why.
        source: io::Error,
    },
    /// Bubblewrap ended before it had started anything; what it said is on the error output.
    #[error("bubblewrap could not make the view")]
    Bubblewrap,
    /// Something before the fork failed.
    #[error("{what}")]
    Prepare {
        /// Which.
        what: &'static str,
        /// Why.
        source: io::Error,
    },
}

/// How the fence is built.
pub(crate) enum Shape {
    /// By us.
    Native(View),
    /// By bubblewrap.
    Bwrap(Bubble),
    /// Of nothing but the payload's own walls.
    Walls,
}

/// Everything the new process needs, laid out.
pub struct Prepared {
    pub(crate) shape: Shape,
    pub(crate) identity: Identity,
    pub(crate) payload: Payload,
    pub(crate) program_name: String,
    pub(crate) group: Option<Group>,
    pub(crate) wall_time: Option<Duration>,
    pub(crate) network: Option<Network>,
    /// Where the new process reports to, and the other end.
    pub(crate) reports: (OwnedFd, OwnedFd),
}

/// A network that leads somewhere.
pub(crate) struct Network {
    pub(crate) rules: Rules,
    /// Sockets with a path, and whom they stand for on the host.
    pub(crate) sockets: Vec<(UnixListener, AbsPath)>,
    /// The first process makes sockets at one end; they are used at the other.
    pub(crate) channel: (OwnedFd, OwnedFd),
}

/// The new process's ends of what it shares with the supervisor.
struct Ends {
    /// Says which step failed; closed by success.
    errors: OwnedFd,
    /// Ends when the supervisor does.
    alive: OwnedFd,
    /// Hands sockets out.
    ways: Option<OwnedFd>,
}

/// How a session ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// The payload's own code, or 128 and its signal.
    pub code: u8,
    /// Whether it ended by itself.
    pub cut: Cut,
    /// What was stopped on the way out, and how often; and how many more kinds there were.
    pub refusals: (Vec<(Refusal, u64)>, u64),
}

/// Why a session was ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// It was not.
    Not,
    /// Its time was up.
    OutOfTime,
    /// Somebody asked for it.
    Stopped,
}

impl StartError {
    /// May another way to build the fence succeed where this one failed?
    pub fn is_the_hosts(&self) -> bool {
        let (Self::Clone { source } | Self::Step { source, .. } | Self::FileSystem { source, .. }) = self else {
            return matches!(self, Self::Bubblewrap);
        };
        // What the kernel says where namespaces or mounts are forbidden, used up, or not built in.
        let denied = [Errno::PERM, Errno::ACCESS, Errno::NOSPC, Errno::USERS, Errno::NOSYS, Errno::INVAL];
        denied.iter().any(|errno| source.raw_os_error() == Some(errno.raw_os_error()))
    }
}

impl Prepared {
    /// Starts the payload and waits for its end. `meanwhile` runs here once the new process does: whatever the start needed
    /// can be let go of then, and what else a session needs be made, which keeps nobody waiting. Where that fails the new
    /// process ends.
    ///
    /// # Errors
    /// [`StartError`] when nothing was started, or when waiting failed; and the desk, if there is one.
    pub fn run(
        self,
        meanwhile: impl FnOnce() -> io::Result<Option<Desk>>,
    ) -> (Result<Ended, StartError>, Option<Desk>) {
        let mut desk = None;
        (self.run_with(meanwhile, &mut desk), desk)
    }

    fn run_with(
        self,
        meanwhile: impl FnOnce() -> io::Result<Option<Desk>>,
        desk: &mut Option<Desk>,
    ) -> Result<Ended, StartError> {
        let prepare = |what: &'static str| move |source: io::Error| StartError::Prepare { what, source };
        let (stdin, stdout, stderr) = (io::stdin(), io::stdout(), io::stderr());
        let screen = Screen::find(&self.shape, self.identity, [stdin.as_fd(), stdout.as_fd(), stderr.as_fd()])
            .map_err(prepare("openpty"))?;
        let signals = Signals::block().map_err(prepare("signalfd"))?;
        let (alive, alive_write) = ways::channel().map_err(prepare("socketpair"))?;
        let namespaces = match (&self.shape, self.identity) {
            (Shape::Native(_), Identity::Caller { .. }) => Namespaces::FENCE.with_user(),
            (Shape::Native(_), Identity::Other { .. }) => Namespaces::FENCE,
            (Shape::Bwrap(_) | Shape::Walls, _) => Namespaces::NONE,
        };
        let (errors_read, errors) = self.reports;
        let (outwards, ways, ways_inside) = match self.network {
            Some(Network { rules, sockets, channel: (outside, inside) }) => {
                (Some((rules, sockets)), Some(outside), Some(inside))
            }
            None => (None, None, None),
        };
        let listeners = outwards.as_ref().map(|(rules, _)| rules.listeners()).unwrap_or_default();
        let child = {
            let first = First {
                shape: &self.shape,
                arguments: Arguments::find(),
                identity: self.identity,
                payload: &self.payload,
                listeners: &listeners,
            };
            let seat = screen.seat();
            let ends = Ends { errors, alive, ways: ways_inside };
            let others = [Some(alive_write.as_raw_fd()), ways.as_ref().map(OwnedFd::as_raw_fd), screen.outside()];
            let group = self.group.as_ref().map(Group::as_fd);
            process::clone_into(namespaces, group, || first.run(ends, seat, others))
                .map_err(|source| StartError::Clone { source })?
        };
        match meanwhile() {
            Ok(made) => *desk = made,
            Err(source) => {
                // Nobody waits for the new process any more; it notices, and ends.
                drop((alive_write, ways, screen));
                reap(&child)?;
                return Err(StartError::Prepare { what: "writing down that the session begins", source });
            }
        }
        // What the new process says about itself is told first: without it there are no sockets either.
        let ways = ways.map(|control| Ways::take(control, &listeners));
        let terminal = screen.ready().map_err(prepare("setting up the terminal"))?;
        started(&errors_read, &self.shape, self.program_name)?;
        let egress = match (ways, outwards) {
            (Some(ways), Some((rules, sockets))) => {
                Some(ways.and_then(|ways| way_out(ways, rules, sockets)).map_err(prepare("the way out"))?)
            }
            _ => None,
        };
        if let Some(desk) = desk {
            let view = LiveView::receive(&alive_write);
            desk.take(view, egress.as_ref().map(Egress::refusals)).map_err(prepare("eventfd"))?;
        }
        // Nobody needs these any more, and a supervisor may wait for days. What cannot be given back is kept.
        drop((self.shape, self.payload));
        let _ = memory::let_go_of_program();
        let to = Recipient::Process(child.pidfd.as_fd());
        let aside = desk.as_mut().map(|desk| desk as &mut dyn Aside);
        let mut clock = Clock::new(self.wall_time, Some(alive_write)).beside(aside);
        match terminal {
            Some(terminal) => terminal.into_relay(&signals).run(child.pidfd.as_fd(), to, &mut clock),
            None => wait_with_signals(&signals, child.pidfd.as_fd(), to, &mut clock),
        }
        .map_err(prepare("waiting"))?;
        let code = reap(&child)?;
        // One that was ended tells nothing of itself.
        let code = if clock.struck() == Struck::Told { KILLED } else { code };
        let refusals = egress.map(|egress| egress.refusals().all()).unwrap_or_default();
        let cut = match (clock.struck(), clock.why()) {
            (Struck::Not, _) => Cut::Not,
            (_, Why::Time) => Cut::OutOfTime,
            (_, Why::Asked) => Cut::Stopped,
        };
        Ok(Ended { code, cut, refusals })
    }
}

/// What the payload will have for a terminal.
enum Screen {
    /// None.
    None,
    /// One of the host's.
    Made(Terminal),
    /// One that is made inside, where it has a name.
    Inside { wanted: Wanted, ends: terminal::Ends },
}

/// A terminal for the first process to pass on.
#[derive(Clone, Copy)]
enum Seat<'s> {
    None,
    Made(BorrowedFd<'s>, pty::Seats),
    /// To be made, and handed out by this.
    ToBeMade(BorrowedFd<'s>, pty::Seats),
}

impl Screen {
    fn find(shape: &Shape, identity: Identity, standard: [BorrowedFd<'_>; 3]) -> io::Result<Self> {
        let [stdin, stdout, stderr] = standard;
        if matches!(shape, Shape::Native(_)) {
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

    fn seat(&self) -> Seat<'_> {
        match self {
            Self::None => Seat::None,
            Self::Made(terminal) => Seat::Made(terminal.slave(), terminal.seats()),
            Self::Inside { wanted, ends } => Seat::ToBeMade(ends.inside.as_fd(), wanted.seats()),
        }
    }

    /// Our end, which the new process must not keep open.
    fn outside(&self) -> Option<i32> {
        match self {
            Self::Inside { ends, .. } => Some(ends.outside.as_raw_fd()),
            Self::None | Self::Made(_) => None,
        }
    }

    /// Takes what the new process has made; nothing when it ended before.
    fn ready(self) -> io::Result<Option<Terminal>> {
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
        Ok(Some(terminal))
    }
}

/// Starts to carry what goes out.
fn way_out(ways: Ways, rules: Rules, sockets: Vec<(UnixListener, AbsPath)>) -> io::Result<Egress> {
    let control = ways.control;
    let listen = move |address| {
        rustix::net::send(&control, &ways::request(address), rustix::net::SendFlags::NOSIGNAL)?;
        ways::receive_listener(control.as_fd())
    };
    let inside = Inside {
        dns: ways.dns.into_iter().map(|dns| (dns.datagrams, dns.listener)).collect(),
        arrivals: ways.arrivals,
        first: ways.first.into_iter().collect(),
        listen: Box::new(listen),
        sockets,
    };
    Egress::start(inside, rules, Arc::new(System::new()))
}

/// 128 and SIGKILL.
const KILLED: u8 = 137;

/// Both ends of a pipe that no program inherits.
pub(crate) fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?)
}

/// Reads the reports of the new process: silence is success, but bubblewrap must have got as far as us.
fn started(errors: &OwnedFd, shape: &Shape, program: String) -> Result<(), StartError> {
    let mut arrived = !matches!(shape, Shape::Bwrap(_));
    let read = || next_report(errors).map_err(|source| StartError::Prepare { what: "reading the report", source });
    while let Some((step, source)) = read()? {
        let view = if let Shape::Native(view) = shape { Some(view) } else { None };
        match (step, source.kind()) {
            (ARRIVED, _) => arrived = true,
            (EXEC, io::ErrorKind::NotFound) => return Err(StartError::NotFound { program }),
            (EXEC, _) => return Err(StartError::NotExecutable { program, source }),
            (step, _) if view.is_some_and(|view| view.is_replaced(step, &source)) => {
                return Err(StartError::Replaced { step: words(step, view) });
            }
            (step, _) => {
                let (kind, step) = (view.and_then(|view| view.file_system(step)), words(step, view));
                return Err(match kind {
                    Some(kind) => StartError::FileSystem { kind, step, source },
                    None => StartError::Step { step, source },
                });
            }
        }
    }
    if arrived { Ok(()) } else { Err(StartError::Bubblewrap) }
}

/// The first new process.
struct First<'p> {
    shape: &'p Shape,
    /// Where the kernel reads this program's own arguments, which would show inside.
    arguments: Option<Arguments>,
    identity: Identity,
    payload: &'p Payload,
    /// Where it listens from the start, for the supervisor.
    listeners: &'p [SocketAddr],
}

impl First<'_> {
    /// Allocates nothing.
    fn run(&self, ends: Ends, seat: Seat<'_>, others: [Option<i32>; 3]) -> u8 {
        let Ends { errors, alive, ways } = ends;
        // Ours would keep the supervisor's ends open.
        others.into_iter().flatten().for_each(process::close);
        if let (Shape::Native(_), Some(place)) = (self.shape, self.arguments) {
            place.wipe();
        }
        // The view's own cannot be written.
        let needs_proc = self.payload.pids.is_some_and(|pids| pids.needs_namespace.is_some());
        let proc = if needs_proc { open_proc().ok() } else { None };
        if let Err(failed) = self.enter(&alive, ways.as_ref()) {
            return report(&errors, failed);
        }
        let made;
        let seat: SeatAt<'_> = match seat {
            Seat::None => None,
            Seat::Made(slave, seats) => Some((slave, seats)),
            Seat::ToBeMade(inside, seats) => match terminal::make_inside(inside) {
                Ok(slave) => {
                    made = slave;
                    Some((made.as_fd(), seats))
                }
                Err(errno) => return report(&errors, Failed { step: TERMINAL, errno }),
            },
        };
        let Ok(signals) = pty::signalfd(&FORWARDED) else { return 125 };
        if pty::block(&FORWARDED).is_err() {
            return 125;
        }
        let program = || match self.shape {
            Shape::Bwrap(bubble) => bubble.become_program(seat, errors.as_fd()),
            Shape::Native(_) | Shape::Walls => self.payload.become_program(seat, proc.as_ref().map(OwnedFd::as_fd)),
        };
        let payload = match process::fork_in_copy(|| report(&errors, program())) {
            Ok(pid) => pid,
            Err(error) => return report(&errors, failed(FORK, &error)),
        };
        // Now only the payload holds it, until it becomes its program.
        drop(errors);
        let code = wait_for(payload, &signals, &alive, ways.as_ref());
        if matches!(self.shape, Shape::Walls) && descendants::end_all().is_err() {
            return 125;
        }
        code
    }

    /// Makes the view, and gives up the rights over it.
    fn enter(&self, alive: &OwnedFd, ways: Option<&OwnedFd>) -> Result<(), Failed> {
        let identity = |e: &io::Error| failed(IDENTITY, e);
        // Without a namespace nobody ends the others if this one is killed: it must outlive the supervisor to do so.
        let dies_at_once = !matches!(self.shape, Shape::Walls);
        let bind_to_parent = || if dies_at_once { process::die_with_parent() } else { Ok(()) };
        bind_to_parent().map_err(|e| identity(&e))?;
        // The parent may have died before it was asked for; then nobody holds the other end any more.
        if is_closed(alive) {
            return Err(Failed { step: IDENTITY, errno: Errno::PIPE });
        }
        match self.shape {
            Shape::Native(view) => {
                self.enter_view(view, ways)?;
                // Without it nothing can be given later, which whoever asks is told.
                let _ = LiveView::hand_out(alive, self.identity);
            }
            Shape::Walls => {
                rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
                    .map_err(|errno| Failed { step: IDENTITY, errno })?;
            }
            Shape::Bwrap(_) => {}
        }
        let quiet = DumpableBehavior::NotDumpable;
        rustix::process::set_dumpable_behavior(quiet).map_err(|errno| Failed { step: IDENTITY, errno })?;
        rustix::thread::set_no_new_privs(true).map_err(|errno| Failed { step: CAPABILITIES, errno })?;
        if matches!(self.shape, Shape::Bwrap(_)) {
            // It mounts with the rights of whoever started us; the payload gives them up.
            return Ok(());
        }
        // An ordinary user without a namespace has no right to this, and nothing to give up.
        let has_rights = matches!((self.shape, self.identity), (Shape::Native(_), _) | (_, Identity::Other { .. }));
        if has_rights {
            process::drop_bounding_set().map_err(|e| failed(CAPABILITIES, &e))?;
        }
        if let Identity::Other { uid, gid } = self.identity {
            process::become_user(uid, gid).map_err(|e| identity(&e))?;
            // Changing who we are undid both.
            bind_to_parent().map_err(|e| identity(&e))?;
            rustix::process::set_dumpable_behavior(quiet).map_err(|errno| Failed { step: IDENTITY, errno })?;
        }
        process::drop_capabilities().map_err(|e| failed(CAPABILITIES, &e))
    }

    fn enter_view(&self, view: &View, ways: Option<&OwnedFd>) -> Result<(), Failed> {
        if let Identity::Caller { uid, gid } = self.identity {
            map_oneself(uid, gid).map_err(|e| failed(MAPS, &e))?;
        }
        ns::loopback_up().map_err(|e| failed(LOOPBACK, &e))?;
        if let Some(ways) = ways {
            ways::open(ways, self.listeners).map_err(|e| failed(WAYS, &e))?;
        }
        // The directories of the view are for whoever works in it, whatever mask the caller has for new files.
        let mask = rustix::process::umask(Mode::from_raw_mode(0o022));
        view.enter()?;
        rustix::process::umask(mask);
        Ok(())
    }
}

/// Has the other end of a pipe been closed? Allocates nothing.
fn is_closed(pipe: &OwnedFd) -> bool {
    let mut fds = [PollFd::new(pipe, PollFlags::IN)];
    rustix::event::poll(&mut fds, Some(&rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|n| n > 0)
}

const FORWARDED: [Signal; 7] =
    [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT, Signal::USR1, Signal::USR2, Signal::CHILD];

/// Waits for the payload, collects what others leave behind, and passes signals on, until the payload or the supervisor ends.
/// Allocates nothing.
fn wait_for(payload: Pid, signals: &OwnedFd, alive: &OwnedFd, ways: Option<&OwnedFd>) -> u8 {
    // Asking for nothing makes an empty slot.
    let (ways, wanted) = ways.map_or((signals, PollFlags::empty()), |ways| (ways, PollFlags::IN));
    loop {
        loop {
            match rustix::process::wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) if pid == payload => {
                    let code = status.exit_status().or_else(|| status.terminating_signal().map(|s| 128 + s));
                    return code.and_then(|code| u8::try_from(code).ok()).unwrap_or(125);
                }
                Ok(Some(_)) | Err(Errno::INTR) => {}
                Ok(None) | Err(_) => break,
            }
        }
        let mut fds =
            [PollFd::new(signals, PollFlags::IN), PollFd::new(alive, PollFlags::IN), PollFd::new(ways, wanted)];
        let _ = rustix::event::poll(&mut fds, None);
        if !fds[1].revents().is_empty() {
            return 125;
        }
        if fds[2].revents().contains(PollFlags::IN) {
            // It fails when the supervisor has gone, which the other pipe tells.
            let _ = ways::answer(ways);
        }
        while let Ok(Some(signal)) = pty::next_signal(signals.as_fd()) {
            if signal != Signal::CHILD {
                // The payload leads a group of its own; what has ended needs no signal.
                let _ = rustix::process::kill_process_group(payload, signal);
                // One that is stopped would not hear of it.
                let _ = rustix::process::kill_process_group(payload, Signal::CONT);
            }
        }
    }
}

/// The end of the first process.
fn reap(child: &Child) -> Result<u8, StartError> {
    loop {
        match rustix::process::waitpid(Some(child.pid), WaitOptions::empty()) {
            Ok(Some((_, status))) => {
                let code = status.exit_status().or_else(|| status.terminating_signal().map(|s| 128 + s));
                return Ok(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(125));
            }
            Ok(None) | Err(Errno::INTR) => {}
            Err(errno) => return Err(StartError::Prepare { what: "waitpid", source: errno.into() }),
        }
    }
}
