//! The broker: calls that change files are carried out for the agent, by name, at the moment they are made.
//!
//! Mounts guard what exists when a session starts. What appears later they cannot know; so the calls that make, move, open for
//! writing or mark a file wait here (seccomp_unotify). The path is read once, resolved to a directory that is held, judged by
//! the Surface as the path that it really is, and the call is then carried out here, relative to what is held: whatever the
//! caller changes meanwhile, in its memory or on the disk, what is done is what was judged. Reads do not come here.
//!
//! It is threads of the session's first process: inside the view, so that the mounts are a wall before it as before everybody
//! inside; the user that the agent is, with no capability; and nobody inside can trace or signal it. They are made when the
//! first call comes, and when this process ends, or one of them cannot go on, no call is carried out any more.

mod again;
mod caller;
mod crowd;
mod domain;
mod git;
mod judge;
mod look;
mod marks;
mod masks;
mod mounts;
mod names;
mod near;
mod open;
mod parked;
mod reads;
mod request;
mod resolve;
mod sockets;
mod turns;
pub mod wire;
mod work;

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};
use std::thread::{Builder, Scope};

use ringfence_plan::{BROKERED, BrokerUnavailable, LOOKED_AT, Rung, SyscallAction, SyscallRule, brokered_with_reads};
use ringfence_surface::Surface;
use ringfence_sys::notify::{self, Answer, Notification, Wakes};
use ringfence_sys::process::{self, Namespaces};
use ringfence_sys::seccomp;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{Pid, WaitOptions};

use crate::beside::{Beside, Within};
use crate::clones::Clones;
use crate::git_files::{ContentJudge, References, Regions};
use crate::launch::Brokered;
use crate::start::Order;
use crate::temporary::Journal;

use self::again::Again;
use self::caller::Caller;
use self::crowd::Crowd;
use self::domain::Domains;
use self::git::{FailedReplacements, JudgedFiles};
use self::judge::Judge;
use self::masks::Masks;
use self::mounts::Mounts;
use self::near::{Kept, Near};
use self::parked::ParkedCalls;
use self::request::Calls;
use self::sockets::Sockets;
use self::work::{Reply, Work};

const STACK: usize = 256 << 10;
/// After so many failures in a row the kernel is not asked any more.
const MOST_FAILURES: u32 = 64;

/// Are calls that change files carried out by name, at the moment they are made?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BrokerChoice {
    /// Where that can be had.
    On,
    /// The same, and opens that only read are looked at on their way: those that the fence stops are told.
    OnWithReads,
    /// Not here: the mounts guard what exists, and nothing guards names that appear later.
    Off,
    /// It must be had: it tells besides what was looked for and is not in the view. What is written to the project and to other
    /// writable places goes into layers that vanish with the session.
    Learn,
}

/// What a broker tells the supervisor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Telling {
    /// What was refused.
    Refusals,
    /// And what was looked for and is not there. Nothing of it gets lost.
    AlsoMissed,
}

/// May a directory that is shown take different spellings for one name?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Spelling {
    /// None of those that were there at the start.
    Exact,
    /// One may. Which do is looked at for each name that another spelling of a rule takes away.
    Folded,
}

/// What the filter of a fence gets besides, where calls are brokered in it.
pub(crate) fn rules(
    choice: BrokerChoice,
    listens: Result<(), BrokerUnavailable>,
    spelling: Spelling,
) -> (Brokered, Vec<SyscallRule>) {
    let told = |rules| (Brokered::Yes(Telling::Refusals, spelling), rules);
    match (listens, choice) {
        (Err(_), _) | (_, BrokerChoice::Off) => (Brokered::No, Vec::new()),
        (Ok(()), BrokerChoice::On) => told(BROKERED.to_vec()),
        (Ok(()), BrokerChoice::OnWithReads) => told(brokered_with_reads()),
        (Ok(()), BrokerChoice::Learn) => (Brokered::Yes(Telling::AlsoMissed, spelling), [LOOKED_AT, BROKERED].concat()),
    }
}

/// Can calls be brokered in what is about to be started? If not, why.
pub(crate) fn is_to_be_had(order: &Order<'_>) -> Result<(), BrokerUnavailable> {
    if order.rung != Rung::Native {
        return Err(BrokerUnavailable::Backend);
    }
    if order.broker == BrokerChoice::Off {
        return Err(BrokerUnavailable::SwitchedOff);
    }
    if !seccomp::can_listen() {
        return Err(BrokerUnavailable::NoListener);
    }
    if process::has_threads().unwrap_or(true) {
        return Err(BrokerUnavailable::Threads);
    }
    if seccomp::is_filtered() && !is_alone() {
        return Err(BrokerUnavailable::OtherListener);
    }
    Ok(())
}

/// Would this process be given a listener? Asked of a copy of it, since it could not be given back.
fn is_alone() -> bool {
    let rule = SyscallRule { name: "getppid", when: &[], action: SyscallAction::Notify, reason: "asks nobody" };
    let Ok(filter) = seccomp::compile(&[rule]) else { return false };
    let listens = || {
        let installed = rustix::thread::set_no_new_privs(true)
            .map_err(std::io::Error::from)
            .and_then(|()| seccomp::install_with_listener(&filter.program, seccomp::Flags::WAIT_KILLABLE_RECV));
        u8::from(installed.is_err())
    };
    let Ok(child) = process::clone_process(Namespaces::NONE, listens) else { return false };
    let ended = rustix::io::retry_on_intr(|| rustix::process::waitpid(Some(child.pid), WaitOptions::empty()));
    matches!(ended, Ok(Some((_, status))) if status.exit_status() == Some(0))
}

/// Carries out calls.
#[derive(Debug)]
pub(crate) struct Broker<'s> {
    listener: OwnedFd,
    judge: Judge<'s>,
    calls: Calls,
    domains: Domains,
    mounts: Mounts,
    masks: Masks,
    sockets: Sockets,
    /// Which directories are below a git directory.
    regions: Regions,
    /// Files of git directories that are being written.
    judged: JudgedFiles,
    /// Calls that wait for another process.
    parked: ParkedCalls,
    /// Where git must not finish what it does.
    failed: FailedReplacements,
    proc: OwnedFd,
    /// The same, writable, where there is such a mount.
    own_proc: Option<OwnedFd>,
    root: Arc<OwnedFd>,
    /// Shared by calls that are about a path, and held alone by what moves directories: a path that was judged stays one.
    moves: RwLock<()>,
    /// The same among sessions, where they could be told of each other.
    beside: Option<&'s Beside>,
    /// Clones that were made inside.
    clones: &'s Clones,
    /// Where temporary names are written down.
    journal: Option<&'s Journal>,
    /// Where files of git lead.
    references: &'s References,
    threads: AtomicUsize,
    crowd: Crowd,
    kept: Kept,
    telling: Telling,
}

/// Its place among those who work at the same time, what is known of clones, where temporary names are written down, and where files of git lead.
pub(crate) type Others<'s> = (Option<&'s Beside>, &'s Clones, Option<&'s Journal>, &'s References);

impl<'s> Broker<'s> {
    /// Runs in the first process, once the first call waits. Allocates, so that process must have been copied from one without
    /// further threads.
    pub(crate) fn new(
        listener: OwnedFd,
        (surface, telling, spelling): (&'s Surface, Telling, Spelling),
        (beside, clones, journal, references): Others<'s>,
        (supervisor, own_proc): (Option<OwnedFd>, Option<OwnedFd>),
    ) -> std::io::Result<Self> {
        let held = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        // Without it everything works, with more changes from one processor to another.
        let _ = notify::wake(listener.as_fd(), Wakes::Here);
        Ok(Self {
            listener,
            judge: Judge::new(surface, supervisor, telling, spelling),
            calls: Calls::new(),
            domains: Domains::new(),
            mounts: Mounts::new(),
            masks: Masks::new(),
            sockets: Sockets::new(),
            regions: Regions::new(),
            judged: JudgedFiles::new(),
            parked: ParkedCalls::new()?,
            failed: FailedReplacements::new(),
            proc: rustix::fs::open(c"/proc", held, Mode::empty())?,
            own_proc,
            root: Arc::new(rustix::fs::open(c"/", held, Mode::empty())?),
            moves: RwLock::new(()),
            beside,
            clones,
            journal,
            references,
            threads: AtomicUsize::new(0),
            crowd: Crowd::new(),
            kept: Kept::new(),
            telling,
        })
    }

    /// Begins. Where no thread can be started every caller would wait for ever: so all other processes of the session are killed then,
    /// since this is the first process of their namespace.
    pub(crate) fn start<'scope>(&'scope self, scope: &'scope Scope<'scope, '_>) {
        if self.judge.supervisor().is_some() && spawn_surely(scope, || self.judge.listen()).is_err() {
            return process::kill_all_others();
        }
        self.threads.fetch_add(1, Ordering::Relaxed);
        if spawn_surely(scope, || self.attend(scope)).is_err() {
            process::kill_all_others();
        }
    }

    /// The next call; nothing once nobody can call any more.
    fn next(&self) -> Option<Notification> {
        let mut failures = 0;
        while failures < MOST_FAILURES {
            match notify::receive(self.listener.as_fd()) {
                Ok(call) => return Some(call),
                // A caller that has ended, or all of them.
                Err(Errno::NOENT) if self.is_deserted() => return None,
                Err(Errno::NOENT | Errno::INTR) => {}
                // To give up for one failure would leave every caller waiting for ever.
                Err(_) => failures += 1,
            }
        }
        None
    }

    fn is_deserted(&self) -> bool {
        let mut fds = [PollFd::new(&self.listener, PollFlags::IN)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let polled = rustix::event::poll(&mut fds, Some(&now));
        polled.is_err() || fds[0].revents().contains(PollFlags::HUP)
    }

    /// Carries out one call, and answers it whatever happens. A call that has to wait for another process is parked instead.
    fn settle<'scope>(&'scope self, scope: &'scope Scope<'scope, '_>, call: &Notification, hand: &mut Hand<'_>) {
        let mut pending =
            Pending { listener: self.listener.as_fd(), id: call.id, answer: Some(Answer::Error(Errno::IO)) };
        match self.carry_out(call, &mut hand.again) {
            Ok(Reply::Parked(parking)) => {
                pending.answer = None;
                self.park(scope, call, parking);
            }
            done => {
                let answer = self.answer((call.id, call.thread), done, |add| hand.near.with(call.thread, add));
                pending.answer = Some(answer);
            }
        }
    }

    /// The answer to a call. `together` runs what puts a descriptor into the caller's table.
    fn answer(
        &self,
        (id, thread): (u64, Pid),
        done: rustix::io::Result<Reply>,
        together: impl FnOnce(&dyn Fn() -> rustix::io::Result<i32>) -> rustix::io::Result<i32>,
    ) -> Answer {
        match done {
            Ok(Reply::Done) => Answer::Value(0),
            Ok(Reply::Continue) => Answer::Continue,
            Err(errno) => Answer::Error(errno),
            // A call is parked once.
            Ok(Reply::Parked(_)) => Answer::Error(Errno::AGAIN),
            Ok(Reply::Judged(fd, on_exec)) => {
                let added = self.add_judged((id, &self.caller(thread)), &fd, on_exec);
                drop(fd);
                added.map_or_else(Answer::Error, |number| Answer::Value(i64::from(number)))
            }
            Ok(Reply::Descriptor(fd, on_exec)) => {
                let added = together(&|| notify::add_descriptor(self.listener.as_fd(), id, fd.as_fd(), on_exec));
                // Ours is closed before the caller goes on.
                drop(fd);
                added.map_or_else(Answer::Error, |number| Answer::Value(i64::from(number)))
            }
        }
    }

    fn caller(&self, thread: Pid) -> Caller<'_> {
        Caller { thread, proc: self.proc.as_fd() }
    }

    fn carry_out(&self, call: &Notification, again: &mut Again) -> rustix::io::Result<Reply> {
        let (name, request) = self.calls.read(call).ok_or(Errno::NOSYS)?;
        let caller = self.caller(call.thread);
        let domain = self.domains.of(&caller)?;
        Work::new(self, (caller, again), (call.id, name), domain).carry_out(request)
    }

    fn listener(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }

    fn root(&self) -> &Arc<OwnedFd> {
        &self.root
    }

    fn content_judge(&self) -> ContentJudge<'_> {
        let (surface, regions) = (self.judge.surface(), &self.regions);
        ContentJudge { surface, regions, references: self.references, host: &self.judge, root: &self.root }
    }

    /// What other sessions have done to directories counts from here on.
    fn keep_up(&self) {
        if let Some(beside) = self.beside {
            self.regions.keep_up(beside.generation());
        }
    }

    /// While these exist no session renames a directory.
    fn hold_shared(&self) -> (RwLockReadGuard<'_, ()>, Option<Within<'_>>) {
        let here = self.moves.read().unwrap_or_else(PoisonError::into_inner);
        let elsewhere = self.beside.and_then(|beside| beside.within(|| true).ok());
        self.keep_up();
        (here, elsewhere)
    }
}

/// What a thread that carries out calls has for itself.
#[derive(Debug)]
struct Hand<'b> {
    near: Near<'b>,
    again: Again,
}

impl<'b> Hand<'b> {
    fn of(broker: &'b Broker<'_>) -> Self {
        Self { near: Near::new(&broker.kept), again: Again::new() }
    }
}

/// A call that waits for its answer: it gets one also where something here went wrong. One that was parked gets it later.
struct Pending<'b> {
    listener: BorrowedFd<'b>,
    id: u64,
    answer: Option<Answer>,
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        if let Some(answer) = self.answer {
            answer_surely(self.listener, self.id, answer);
        }
    }
}

/// Starts a thread, at the latest when others have ended.
fn spawn_surely<'scope>(
    scope: &'scope Scope<'scope, '_>,
    run: impl Fn() + Copy + Send + 'scope,
) -> std::io::Result<()> {
    let spawn = || Builder::new().stack_size(STACK).spawn_scoped(scope, run).map(drop);
    let mut spawned = spawn();
    for _ in 1..MOST_FAILURES {
        if spawned.is_ok() {
            break;
        }
        std::thread::yield_now();
        spawned = spawn();
    }
    spawned
}

/// Answers a call. A caller that has ended needs no answer (ENOENT); after any other failure it would wait for ever without one.
fn answer_surely(listener: BorrowedFd<'_>, id: u64, answer: Answer) {
    let is_answered = || !matches!(notify::answer(listener, id, answer), Err(errno) if errno != Errno::NOENT);
    let _ = (0..MOST_FAILURES).any(|_| is_answered());
}
