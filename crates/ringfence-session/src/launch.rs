//! The start: one process that watches, one that waits for the payload, and the payload.
//!
//! Everything is decided and laid out before the fork. Natively the new process is the first of its own process namespace: it
//! makes the view, gives up its rights, starts the payload and waits for it. When it ends, the kernel ends everything in
//! there; it ends with the supervisor. Without namespaces it is the one that orphans fall to, and ends them itself. Bubblewrap
//! has such a process of its own; ours then only passes signals on.

mod contained;
mod error;
mod screen;

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::time::Duration;

use ringfence_egress::pool::Addresses;
use ringfence_egress::{Egress, Inside, Listen, Refusal, Rules, System};
use ringfence_surface::{AbsPath, Surface};
use ringfence_sys::memory;
use ringfence_sys::process::{self, Child, Namespaces};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::process::{Signal, WaitOptions};

use crate::alive::Watched;
use crate::arguments::Arguments;
use crate::beside::Beside;
use crate::broker::{Spelling, Telling};
use crate::bwrap::Bubble;
use crate::cgroup::Group;
use crate::clones::Clones;
use crate::container::{Contained, finding};
use crate::desk::Desk;
use crate::first::{Ends, First, Seat};
use crate::git_files::References;
use crate::payload::Payload;
use crate::script::Base;
use crate::stand_ins;
use crate::steps::{ARRIVED, CHECK, CHROOT, EXEC, LANDLOCK, wait_for_report, words};
use crate::store::Grants;
pub use crate::streams::LostOutput;
use crate::streams::{RunningStreams, StandardStreams};
use crate::temporary::Journal;
use crate::terminal::{Aside, Clock, LastResort, Lifeline, Recipient, Signals, Struck, Why, wait_with_signals};
use crate::view::View;
use crate::ways::{self, Ways};
use contained::said;
pub use error::StartError;
use screen::Screen;

/// The user that the payload runs as.
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

/// How the fence is built.
pub(crate) enum Shape {
    /// By ringfence itself: namespaces and mounts (native).
    Native(View),
    /// By bubblewrap.
    Bwrap(Bubble),
    /// Landlock and seccomp in the payload, nothing else.
    Walls,
    /// A root directory (chroot), and Landlock and seccomp in the payload.
    Root(stand_ins::Places),
    /// By a container engine.
    Container(Box<Contained>),
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
    /// The session's lock.
    pub(crate) lock: OwnedFd,
    /// Whether calls that change files are brokered.
    pub(crate) brokered: Brokered,
    /// Its lock shared with the other sessions of the user, where calls are brokered.
    pub(crate) beside: Option<Beside>,
    /// What the broker knows of clones that are made inside.
    pub(crate) clones: Clones,
    /// Where the broker writes temporary names down.
    pub(crate) journal: Option<Journal>,
    /// Where files of git lead.
    pub(crate) references: References,
}

/// Whether calls that change files are carried out by the first process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Brokered {
    Yes(Telling, Spelling),
    No,
}

/// A network with listed hosts, ports or sockets.
pub(crate) struct Network {
    pub(crate) rules: Rules,
    /// Which addresses the supervisor's listeners have.
    pub(crate) addresses: Addresses,
    /// Unix sockets inside, and the host's sockets that they are relayed to.
    pub(crate) sockets: Vec<(UnixListener, AbsPath)>,
    /// The first process makes sockets at one end; they are used at the other.
    pub(crate) channel: (OwnedFd, OwnedFd),
}

/// How a session ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// The payload's own code, or 128 and its signal.
    pub code: u8,
    /// The signal, if it was one.
    pub signal: Option<u8>,
    /// Whether the time limit ended it.
    pub out_of_time: bool,
    /// Whether its end was requested from outside.
    pub stopped: bool,
    /// Whether the session that it belonged to ended first.
    pub session_over: bool,
    /// Refused connections, with counts; and how many more kinds there were.
    pub refusals: (Vec<(Refusal, u64)>, u64),
    /// Output that the caller's files did not take.
    pub lost: Vec<LostOutput>,
}

impl Prepared {
    /// Starts the payload on the caller's own streams and waits for its end. `surface` is what it was prepared from; `watched`
    /// ends it too, when that ends.
    ///
    /// # Errors
    /// [`StartError`] when nothing was started, or when waiting failed.
    pub fn run(self, surface: &Surface, watched: Option<Watched>) -> Result<Ended, StartError> {
        self.run_with(watched, (surface, |surface| surface), (|_| Ok(None), |_: &mut Desk| ()), &mut None)
    }

    /// As [`Prepared::run`], for a session with a control desk: `meanwhile` opens it once the new process runs. If that fails the new
    /// process ends. `ground` is what the start needed, the Surface included; it is dropped then, where that delays nothing.
    /// `stands` is called once the sandbox has started and the payload has executed its program, before any output is
    /// relayed: a receipt describes that sandbox.
    ///
    /// # Errors
    /// Those of [`Prepared::run`]. The desk comes back, if there was one.
    pub fn run_attended<G>(
        self,
        ground: G,
        surface: impl FnOnce(&G) -> &Surface,
        meanwhile: impl FnOnce(G) -> io::Result<Desk>,
        stands: impl FnOnce(&mut Desk),
    ) -> (Result<Ended, StartError>, Option<Desk>) {
        let mut desk = None;
        let meanwhile = |ground| meanwhile(ground).map(Some);
        (self.run_with(None, (ground, surface), (meanwhile, stands), &mut desk), desk)
    }

    fn run_with<G>(
        self,
        watched: Option<Watched>,
        (ground, surface): (G, impl FnOnce(&G) -> &Surface),
        (meanwhile, stands): (impl FnOnce(G) -> io::Result<Option<Desk>>, impl FnOnce(&mut Desk)),
        desk: &mut Option<Desk>,
    ) -> Result<Ended, StartError> {
        let (stdin, stdout, stderr) = (io::stdin(), io::stdout(), io::stderr());
        let screen = Screen::find(&self.shape, self.identity, [stdin.as_fd(), stdout.as_fd(), stderr.as_fd()])
            .map_err(before("openpty"))?;
        let signals = Signals::block().map_err(before("signalfd"))?;
        let attended = Attended {
            screen,
            signals: &signals,
            watched,
            wall_time: self.wall_time,
            is_native: matches!(self.shape, Shape::Native(_)),
        };
        let is_container = matches!(self.shape, Shape::Container(_));
        let (streams, inside) = StandardStreams::make().map_err(before("making the standard streams"))?;
        let begun = self.begin(surface(&ground), attended.screen.seat(), attended.screen.outside(), inside)?;
        let (mut made, mut carried) = (Some(streams), None);
        let mut carry = || match made.take().map(StandardStreams::start).transpose() {
            Ok(started) => {
                carried = carried.take().or(started);
                Ok(())
            }
            Err(cause) => Err(before("starting a thread for the standard streams")(cause)),
        };
        if is_container {
            // An engine reports what it downloads, which may be more than a pipe holds.
            carry()?;
        }
        let ended = begun.attend(
            attended,
            || meanwhile(ground),
            |desk| {
                if let Some(desk) = desk {
                    stands(desk);
                }
                carry()
            },
            desk,
        );
        // Where nothing was started as well: bubblewrap may have written why.
        carry()?;
        let is_cut = ended.as_ref().is_ok_and(|ended| ended.out_of_time || ended.stopped || ended.session_over);
        let finish = |streams: RunningStreams| streams.finish(&signals, is_cut);
        let lost = carried.map(finish).transpose().map_err(before("waiting for the last output"))?.unwrap_or_default();
        Ok(Ended { lost, ..ended? })
    }

    /// Starts the payload on these streams: input, output, errors. The caller waits for its end, and keeps time.
    ///
    /// The thread that calls this must live as long as the payload: the kernel ends it with that thread.
    ///
    /// # Errors
    /// [`StartError`] when nothing was started.
    pub fn start(self, surface: &Surface, streams: [OwnedFd; 3]) -> Result<Running, StartError> {
        let begun = self.begin(surface, Seat::None, None, streams)?;
        begun.unreaped.lifeline.go();
        begun.take_ways().arrived()
    }

    /// Makes the new process.
    fn begin(
        self,
        surface: &Surface,
        seat: Seat<'_>,
        outside: Option<i32>,
        streams: [OwnedFd; 3],
    ) -> Result<Begun<Control>, StartError> {
        let (alive, alive_write) = ways::channel().map_err(before("socketpair"))?;
        if let Shape::Container(_) = &self.shape {
            return self.begin_contained(seat, streams, (alive, alive_write));
        }
        let namespaces = match (&self.shape, self.identity) {
            (Shape::Native(_), Identity::Caller { .. }) => Namespaces::FENCE.with_user(),
            (Shape::Native(_), Identity::Other { .. }) => Namespaces::FENCE,
            (Shape::Bwrap(_) | Shape::Walls | Shape::Root(_) | Shape::Container(_), _) => Namespaces::NONE,
        };
        let (signal_read, signal) = pipe().map_err(before("pipe2"))?;
        // It is read once there is nobody left to write.
        rustix::io::ioctl_fionbio(&signal_read, true).map_err(|errno| before("ioctl(FIONBIO)")(errno.into()))?;
        let (errors_read, errors) = self.reports;
        let (outwards, control, ways_inside) = match self.network {
            Some(Network { rules, addresses, sockets, channel: (outside, inside) }) => {
                (Some((rules, addresses, sockets)), Some(outside), Some(inside))
            }
            None => (None, None, None),
        };
        let brokered = match self.brokered {
            Brokered::Yes(telling, spelling) => Some((surface, telling, spelling)),
            Brokered::No => None,
        };
        if brokered.is_some() && process::has_threads().map_err(before("stat(/proc/self/task)"))? {
            // What the new process would allocate may be locked for ever in it.
            let threads = io::Error::other("threads were started since the fence was laid out");
            return Err(before("copying this process")(threads));
        }
        let (said, saying) = match brokered.map(|_| ways::channel()).transpose().map_err(before("socketpair"))? {
            Some((outside, inside)) => (Some(outside), Some(inside)),
            None => (None, None),
        };
        let listeners = outwards.as_ref().map(|(rules, addresses, _)| rules.listeners(*addresses)).unwrap_or_default();
        let child = {
            // Above the three places that they go to.
            let above = |fd: OwnedFd| rustix::io::fcntl_dupfd_cloexec(&fd, 3);
            let [stdin, stdout, stderr] = streams.map(above);
            let streams = stdin.and_then(|stdin| Ok([stdin, stdout?, stderr?]));
            let first = First {
                shape: &self.shape,
                arguments: Arguments::find(),
                identity: self.identity,
                payload: &self.payload,
                listeners: &listeners,
                streams: streams.map_err(|errno| before("fcntl(F_DUPFD_CLOEXEC)")(errno.into()))?,
                lock: self.lock,
                brokered,
                beside: self.beside,
                clones: &self.clones,
                journal: self.journal.as_ref(),
                references: &self.references,
            };
            let ends = Ends { errors, alive, ways: ways_inside, signal, broker: saying };
            let raw = |end: &Option<OwnedFd>| end.as_ref().map(OwnedFd::as_raw_fd);
            let others = [Some(alive_write.as_raw_fd()), raw(&control), outside, raw(&said)];
            let group = self.group.as_ref().map(Group::as_fd);
            process::clone_into(namespaces, group, || first.run(ends, seat, others))
                .map_err(|source| StartError::Clone { source })?
        };
        let ways = control.map(|control| Control { control, listeners });
        let last_resort = self.shape.last_resort();
        let unreaped = Unreaped {
            child,
            lifeline: Lifeline::new(alive_write),
            last_resort,
            code: None,
            signal: signal_read,
            says_code: false,
        };
        let made = (self.shape, self.payload);
        let program = self.program_name;
        Ok(Begun {
            unreaped,
            errors: errors_read,
            made,
            program,
            group: self.group,
            ways,
            outwards,
            called: None,
            said,
            journal: self.journal,
        })
    }
}

/// An error before the new process exists.
fn before(what: &'static str) -> impl FnOnce(io::Error) -> StartError {
    move |source| StartError::Prepare { what, source }
}

/// A new process that has not reported yet whether its exec succeeded.
struct Begun<W> {
    unreaped: Unreaped,
    errors: OwnedFd,
    made: (Shape, Payload),
    program: String,
    group: Option<Group>,
    ways: Option<W>,
    outwards: Option<Outwards>,
    /// The first process of a container, where it is one.
    called: Option<OwnedFd>,
    /// What the broker says.
    said: Option<OwnedFd>,
    /// Removes what the broker leaves, after its end.
    journal: Option<Journal>,
}

/// The hosts that may be reached, the addresses of the listeners, and the unix sockets.
type Outwards = (Rules, Addresses, Vec<(UnixListener, AbsPath)>);

/// Where the sockets of the relay will come from.
struct Control {
    control: OwnedFd,
    listeners: Vec<SocketAddr>,
}

/// What a payload on the caller's own streams is attended with.
struct Attended<'s> {
    screen: Screen,
    signals: &'s Signals,
    watched: Option<Watched>,
    wall_time: Option<Duration>,
    is_native: bool,
}

impl Begun<Control> {
    /// Lets the new process go on, and waits for the payload's end.
    fn attend(
        mut self,
        attended: Attended<'_>,
        meanwhile: impl FnOnce() -> io::Result<Option<Desk>>,
        stands: impl FnOnce(Option<&mut Desk>) -> Result<(), StartError>,
        desk: &mut Option<Desk>,
    ) -> Result<Ended, StartError> {
        let Attended { screen, signals, watched, wall_time, is_native } = attended;
        // The new process ends where this fails, since the descriptor that keeps it alive is closed.
        *desk = meanwhile().map_err(before("writing down that the session begins"))?;
        // Told before anything can be asked.
        if let (Some(desk), Some(said)) = (desk.as_mut(), self.said.take()) {
            desk.take_broker(said).map_err(before("epoll_ctl"))?;
        }
        self.unreaped.lifeline.go();
        // The report of the new process is read first: without it there are no sockets either.
        let begun = self.take_ways();
        let terminal = screen.ready().map_err(before("setting up the terminal"))?;
        let running = begun.arrived()?;
        stands(desk.as_mut())?;
        if let Some(desk) = desk {
            let view = running.unreaped.lifeline.receive_view();
            // Only the first process of a namespace can stop everything in it.
            let lifeline = is_native.then(|| running.lifeline());
            desk.take(view, running.egress.as_ref(), lifeline).map_err(before("eventfd"))?;
            desk.keep_guards(running.unreaped.child.pid);
        } else {
            let _ = memory::let_go_of_program();
        }
        let watched = watched.map(|watched| watched.watch(running.lifeline()));
        let (done, to) = (running.pidfd(), Recipient::Process(running.signalled()));
        let aside = desk.as_mut().map(|desk| desk as &mut dyn Aside);
        let last_resort = running.unreaped.last_resort;
        let mut clock = Clock::new(wall_time, Some(running.lifeline()), last_resort).beside(aside);
        match terminal {
            Some(terminal) => terminal.into_relay(signals).run(done, to, &mut clock),
            None => wait_with_signals(signals, done, to, &mut clock),
        }
        .map_err(before("waiting"))?;
        let (struck, why) = (clock.struck(), clock.why());
        let mut ended = running.wait()?;
        if let Some(later) = desk.as_ref().and_then(Desk::refusals) {
            ended.refusals = later;
        }
        // One that was ended tells nothing of itself.
        let code = if struck == Struck::Told { KILLED } else { ended.code };
        let session_over = watched.is_some_and(|watch| watch.is_over());
        let is_cut = struck != Struck::Not;
        let (out_of_time, stopped) = (is_cut && why == Why::Time, is_cut && why == Why::Asked);
        Ok(Ended { code, out_of_time, stopped, session_over, ..ended })
    }

    fn take_ways(self) -> Begun<io::Result<Ways>> {
        let Self { unreaped, errors, made, program, group, ways, outwards, called, said, journal } = self;
        let ways = ways.map(|Control { control, listeners }| Ways::take(control, &listeners));
        Begun { unreaped, errors, made, program, group, ways, outwards, called, said, journal }
    }
}

impl Begun<io::Result<Ways>> {
    /// Waits until it is the payload, and opens its way out.
    fn arrived(self) -> Result<Running, StartError> {
        // What the broker says without anybody to hear it goes nowhere.
        let Self { unreaped, errors, made, program, group, ways, outwards, called, said: _, journal } = self;
        let is_full = |cause: &io::Error| Errno::from_io_error(cause) == Some(Errno::MFILE);
        let ways = match ways {
            // The new process then finds nobody to hand its sockets to, which says less.
            Some(Err(cause)) if is_full(&cause) => return Err(before("the way out")(cause)),
            ways => ways,
        };
        started((&errors, unreaped.child.pidfd.as_fd()), &made.0, program, called.as_ref())?;
        let first = called.as_ref().and_then(contained::caller);
        let egress = match (ways, outwards) {
            (Some(ways), Some((rules, addresses, sockets))) => {
                let opened = ways.and_then(|ways| first_way_out(ways, rules, addresses, sockets));
                Some(opened.map_err(before("the way out"))?)
            }
            _ => None,
        };
        // What it was made of goes here: nobody needs it any more, and a supervisor may wait for days.
        Ok(Running { unreaped, egress, first, _group: group, _journal: journal })
    }
}

/// A payload that runs. When this is dropped before its end, it is ended.
pub struct Running {
    unreaped: Unreaped,
    egress: Option<Egress>,
    /// The first process of a container.
    first: Option<OwnedFd>,
    /// Goes after everything in it has ended.
    _group: Option<Group>,
    _journal: Option<Journal>,
}

impl Running {
    /// Readable when it has ended.
    pub fn pidfd(&self) -> BorrowedFd<'_> {
        self.unreaped.child.pidfd.as_fd()
    }

    /// Who passes signals on to the payload. An engine would end itself by some of them.
    fn signalled(&self) -> BorrowedFd<'_> {
        self.first.as_ref().map_or_else(|| self.pidfd(), OwnedFd::as_fd)
    }

    /// What ends it before its time.
    pub fn lifeline(&self) -> Lifeline {
        self.unreaped.lifeline.clone()
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// When somebody else has waited for this process.
    pub fn wait(self) -> Result<Ended, StartError> {
        let Self { mut unreaped, egress, first: _, _group, _journal } = self;
        // Who has nothing to say and leaves no status was killed.
        let code = unreaped.reap()?.unwrap_or(KILLED);
        let mut said = [0; 2];
        let (signal, code) = match unreaped.hear(&mut said) {
            [number, own] => (Some(*number).filter(|number| *number != 0), *own),
            [number] => (Some(*number), code),
            // Who has nothing to say was killed, whatever its engine makes of that.
            _ if unreaped.says_code && code == 0 => (None, KILLED),
            _ => (None, code),
        };
        let refusals = egress.map(|egress| egress.refusals().all()).unwrap_or_default();
        Ok(Ended { code, signal, out_of_time: false, stopped: false, session_over: false, refusals, lost: Vec::new() })
    }
}

/// A process of ours. One that nobody has waited for yet is ended, and waited for, when this is dropped.
struct Unreaped {
    child: Child,
    lifeline: Lifeline,
    last_resort: LastResort,
    /// Whether it was waited for, and the code that it ended with, as far as the kernel told us.
    code: Option<Option<u8>>,
    /// Says which signal ended the payload, if one did, and with which code it ended.
    signal: OwnedFd,
    /// The child is an engine, whose own code is not the payload's; that comes from inside.
    says_code: bool,
}

impl Unreaped {
    /// Waits for its end, once: its number may be another's afterwards.
    fn reap(&mut self) -> Result<Option<u8>, StartError> {
        if let Some(code) = self.code {
            return Ok(code);
        }
        let code = reap(&self.child)?;
        self.code = Some(code);
        Ok(code)
    }
}

impl Unreaped {
    /// What the one who waited for the payload says of its end. An engine may end before what it made: that has a moment then.
    fn hear<'s>(&self, said: &'s mut [u8; 2]) -> &'s [u8] {
        const MOMENT: Timespec = Timespec { tv_sec: 5, tv_nsec: 0 };
        if self.says_code {
            self.lifeline.cut();
            let _ = rustix::event::poll(&mut [PollFd::new(&self.signal, PollFlags::IN)], Some(&MOMENT));
        }
        let length = rustix::io::read(&self.signal, &mut said[..]).unwrap_or(0);
        &said[..length]
    }
}

/// How long a new process has to end by itself once its start has failed.
const GRACE: Timespec = Timespec { tv_sec: 2, tv_nsec: 0 };

impl Unreaped {
    /// Waits for its end, and then has the kernel end it: it may have been stopped (`SIGSTOP`) from outside.
    fn end_within(&self, time: Timespec) {
        let pidfd = &self.child.pidfd;
        let has_ended = || {
            let polled = rustix::event::poll(&mut [PollFd::new(pidfd, PollFlags::IN)], Some(&time));
            !matches!(polled, Ok(0) | Err(Errno::INTR))
        };
        let signal = match self.last_resort {
            LastResort::Kill => Signal::KILL,
            LastResort::Continue => Signal::CONT,
        };
        while !has_ended() {
            if rustix::process::pidfd_send_signal(pidfd, signal).is_err() {
                return;
            }
        }
    }
}

impl Drop for Unreaped {
    fn drop(&mut self) {
        self.lifeline.cut();
        if self.code.is_none() {
            self.end_within(GRACE);
        }
        // There is nobody to tell.
        let _ = self.reap();
    }
}

/// What can be given later: a mount in a view of ours that is made of nothing. Where the whole host is the view, everything
/// that may be read is there. Landlock admits reads everywhere in the view, and writes only where the start did.
pub(crate) fn grants(shape: &Shape) -> Grants {
    match shape {
        Shape::Native(view) if view.script.base == Base::Nothing => Grants::Reads,
        Shape::Native(_) | Shape::Bwrap(_) | Shape::Walls | Shape::Root(_) | Shape::Container(_) => Grants::None,
    }
}

/// Starts to carry what goes out. The first process makes further listeners.
fn first_way_out(
    mut ways: Ways,
    rules: Rules,
    addresses: Addresses,
    sockets: Vec<(UnixListener, AbsPath)>,
) -> io::Result<Egress> {
    let control = ways.control.take().ok_or(io::ErrorKind::NotConnected)?;
    let listen = move |address| {
        rustix::net::send(&control, &ways::request(address), rustix::net::SendFlags::NOSIGNAL)?;
        ways::receive_listener(control.as_fd())
    };
    let listen = ways.listen(listen);
    way_out(ways, listen, rules, (addresses, sockets))
}

/// Starts to carry what goes out.
pub(crate) fn way_out(
    ways: Ways,
    listen: Listen,
    rules: Rules,
    (addresses, sockets): (Addresses, Vec<(UnixListener, AbsPath)>),
) -> io::Result<Egress> {
    let inside = Inside {
        addresses,
        dns: ways.dns.into_iter().map(|dns| (dns.datagrams, dns.listener)).collect(),
        arrivals: ways.arrivals,
        injectors: ways.injectors,
        first: ways.first.into_iter().collect(),
        listen,
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
fn started(
    (errors, child): (&OwnedFd, BorrowedFd<'_>),
    shape: &Shape,
    program: String,
    called: Option<&OwnedFd>,
) -> Result<(), StartError> {
    let mut arrived = !matches!(shape, Shape::Bwrap(_) | Shape::Container(_));
    let read =
        || wait_for_report(errors, child).map_err(|source| StartError::Prepare { what: "reading the report", source });
    while let Some((step, source)) = read()? {
        let view = if let Shape::Native(view) = shape { Some(view) } else { None };
        match (step, source.kind()) {
            (ARRIVED, _) => arrived = true,
            (CHECK, _) => {
                let what = called.map(finding).unwrap_or_default();
                return Err(StartError::NotAsAsked { what: if what.is_empty() { source.to_string() } else { what } });
            }
            (LANDLOCK, _) if source.raw_os_error() == Some(Errno::TOOBIG.raw_os_error()) => {
                return Err(StartError::TooManyLayers);
            }
            (CHROOT, io::ErrorKind::PermissionDenied) => return Err(StartError::NoRight),
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
    match shape {
        _ if arrived => Ok(()),
        Shape::Container(contained) => Err(StartError::Engine { engine: contained.engine, said: said(contained) }),
        _ => Err(StartError::Bubblewrap),
    }
}

/// The end of the first process, and its code. There is none where this process ignores `SIGCHLD`: then the kernel collects its
/// children by itself, and says `ECHILD` once they have ended.
fn reap(child: &Child) -> Result<Option<u8>, StartError> {
    loop {
        match rustix::process::waitpid(Some(child.pid), WaitOptions::empty()) {
            Ok(Some((_, status))) => {
                let code = status.exit_status().or_else(|| status.terminating_signal().map(|s| 128 + s));
                return Ok(Some(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(125)));
            }
            Ok(None) | Err(Errno::INTR) => {}
            Err(Errno::CHILD) => return Ok(None),
            Err(errno) => return Err(StartError::Prepare { what: "waitpid", source: errno.into() }),
        }
    }
}
