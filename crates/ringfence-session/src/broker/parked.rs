//! Calls that wait for another process: a `connect` to a socket whose backlog is full, an open of a FIFO without its other end, an
//! open of a file that is under a lease.
//!
//! Such a wait may never end, and the agent decides how many of them there are. A thread of the broker that waited with the caller
//! would be lost to every other call of the session: an attacker needs only as many waits as there are threads. So a call that
//! would block is parked here with what it holds, the thread goes on to the next call, and one thread tries all parked calls
//! again. No attempt blocks.
//!
//! The filter is installed with WAIT_KILLABLE_RECV: only SIGKILL ends a call that was received. So each caller is looked at now and
//! then, and a call whose caller has a signal to handle is interrupted as the kernel would do it.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, Scope};
use std::time::{Duration, Instant};

use ringfence_sys::notify::{self, Notification};
use ringfence_sys::process::getrlimit;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd};
use rustix::io::Errno;
use rustix::process::{Pid, Resource, Rlimit, setrlimit};

use super::caller::Caller;
use super::domain::{Domain, within};
use super::work::Reply;
use super::{Broker, STACK, answer_surely};

/// More calls are never parked; the next one fails with EAGAIN.
const MOST: usize = 4096;
/// A parked call holds up to two descriptors, and the other calls need some as well.
const DESCRIPTORS: usize = 4;
/// As many descriptors are enough for [`MOST`].
const ENOUGH_DESCRIPTORS: u64 = 32 << 10;
/// The pause between two rounds of attempts: short after a change, and longer while nothing happens.
const SHORTEST_PAUSE: Duration = Duration::from_micros(200);
const LONGEST_PAUSE: Duration = Duration::from_millis(20);
/// In each round so many callers are asked whether they have a signal to handle.
const LOOKED_AT: usize = 64;

/// A parked call, which is attempted repeatedly.
pub(super) trait Waiter: Debug + Send {
    /// Tries once and does not block. `None` means that the call still waits.
    fn attempt(&mut self, rights: &Rights<'_, '_>) -> Option<rustix::io::Result<Reply>>;

    /// A descriptor whose readiness is worth an attempt at once. Without one the call is tried at intervals.
    fn readiness(&self) -> Option<(BorrowedFd<'_>, PollFlags)> {
        None
    }

    /// Calls with the same queue wait for the same peer. They are served in their order: while the first waits, the others do.
    fn queue(&self) -> Option<(u64, u64)> {
        None
    }
}

/// The rights by which one call is carried out: those of its caller, as long as the caller waits.
#[derive(Debug)]
pub(super) struct Rights<'w, 's> {
    pub(super) broker: &'w Broker<'s>,
    pub(super) caller: Caller<'w>,
    pub(super) id: u64,
    /// The call, by its name.
    pub(super) call: &'static str,
    pub(super) domain: Option<&'w Domain>,
}

impl Rights<'_, '_> {
    /// Does what was decided, with no more rights than the caller has. Only if the caller still waits: what was read of it was
    /// its own then.
    pub(super) fn perform<T: Send>(
        &self,
        action: impl FnOnce() -> rustix::io::Result<T> + Send,
    ) -> rustix::io::Result<T> {
        if !notify::is_valid(self.broker.listener(), self.id) {
            return Err(Errno::INTR);
        }
        within(self.domain, action)
    }
}

/// A call that is to be parked.
#[derive(Debug)]
pub(super) struct Parking {
    pub(super) waiter: Box<dyn Waiter>,
    pub(super) call: &'static str,
    pub(super) domain: Option<Domain>,
}

#[derive(Debug)]
struct ParkedCall {
    id: u64,
    thread: Pid,
    parking: Parking,
}

/// The calls that are parked.
#[derive(Debug)]
pub(super) struct ParkedCalls {
    state: Mutex<State>,
    /// Rings when a call arrives.
    bell: OwnedFd,
    most: usize,
}

#[derive(Debug)]
struct State {
    /// Those that the thread has not taken yet.
    arrived: Vec<ParkedCall>,
    /// How many the thread has.
    taken: usize,
    /// Is there a thread?
    is_served: bool,
}

impl ParkedCalls {
    /// The broker's process needs descriptors for them. The agent's own limit stays as it is: its processes exist already.
    pub(super) fn new() -> std::io::Result<Self> {
        let Rlimit { current, maximum } = getrlimit(Resource::Nofile)?;
        let wanted = ENOUGH_DESCRIPTORS.min(maximum.unwrap_or(ENOUGH_DESCRIPTORS));
        let now = current.unwrap_or(ENOUGH_DESCRIPTORS);
        let raised = Rlimit { current: Some(wanted), maximum };
        let now = if now < wanted && setrlimit(Resource::Nofile, raised).is_ok() { wanted } else { now };
        let most = MOST.min(usize::try_from(now).unwrap_or(MOST) / DESCRIPTORS);
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { state: Mutex::new(State { arrived: Vec::new(), taken: 0, is_served: false }), bell, most })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Broker<'_> {
    /// Parks a call. It is answered later, or now where there is no room for it.
    pub(super) fn park<'scope>(&'scope self, scope: &'scope Scope<'scope, '_>, call: &Notification, parking: Parking) {
        let parked = ParkedCall { id: call.id, thread: call.thread, parking };
        let mut state = self.parked.state();
        if state.taken + state.arrived.len() >= self.parked.most {
            drop(state);
            return self.answer_parked(&parked, Err(Errno::AGAIN));
        }
        state.arrived.push(parked);
        if state.is_served {
            drop(state);
            // The thread polls at intervals anyway.
            let _ = rustix::io::write(&self.parked.bell, &1_u64.to_ne_bytes());
            return;
        }
        state.is_served = Builder::new().stack_size(STACK).spawn_scoped(scope, || self.serve_parked()).is_ok();
        if !state.is_served {
            let arrived = std::mem::take(&mut state.arrived);
            drop(state);
            arrived.iter().for_each(|parked| self.answer_parked(parked, Err(Errno::AGAIN)));
        }
    }

    /// The thread that tries parked calls again, as long as there are any. No attempt creates a file or uses a working directory.
    fn serve_parked(&self) {
        let (mut parked, mut pause, mut looked_at) = (Vec::new(), SHORTEST_PAUSE, 0);
        loop {
            let mut state = self.parked.state();
            if !state.arrived.is_empty() {
                parked.append(&mut state.arrived);
                pause = SHORTEST_PAUSE;
            }
            state.taken = parked.len();
            state.is_served = !parked.is_empty();
            if !state.is_served {
                return;
            }
            drop(state);
            let before = parked.len();
            self.drop_interrupted(&mut parked, &mut looked_at);
            let mut queues = BTreeSet::new();
            parked.retain_mut(|call| !self.is_over(call, &mut queues));
            if parked.len() < before {
                pause = SHORTEST_PAUSE;
            } else {
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
            if !parked.is_empty() {
                self.await_readiness(&parked, pause);
            }
        }
    }

    /// Tries one call again. Is it answered?
    fn is_over(&self, call: &mut ParkedCall, queues: &mut BTreeSet<(u64, u64)>) -> bool {
        let queue = call.parking.waiter.queue();
        if queue.is_some_and(|queue| queues.contains(&queue)) {
            return false;
        }
        let ParkedCall { id, thread, parking } = call;
        let caller = self.caller(*thread);
        let domain = parking.domain.as_ref();
        let rights = Rights { broker: self, caller, id: *id, call: parking.call, domain };
        let Some(done) = parking.waiter.attempt(&rights) else {
            queues.extend(queue);
            return false;
        };
        self.answer_parked(call, done);
        true
    }

    /// Forgets the calls of callers that have ended, and interrupts those of callers with a signal to handle.
    fn drop_interrupted(&self, parked: &mut Vec<ParkedCall>, looked_at: &mut usize) {
        let from = if *looked_at < parked.len() { *looked_at } else { 0 };
        let to = from + LOOKED_AT;
        *looked_at = to;
        let mut number = 0;
        parked.retain(|call| {
            let is_looked_at = (from..to).contains(&number);
            number += 1;
            if !notify::is_valid(self.listener(), call.id) {
                return false;
            }
            let interruption = if is_looked_at { self.caller(call.thread).interruption() } else { None };
            interruption.inspect(|errno| self.answer_parked(call, Err(*errno))).is_none()
        });
    }

    /// Waits until one call may go on, another call arrives, or it is time to look again.
    fn await_readiness(&self, parked: &[ParkedCall], pause: Duration) {
        let mut fds = vec![PollFd::new(&self.parked.bell, PollFlags::IN)];
        let ready = parked.iter().filter_map(|call| call.parking.waiter.readiness());
        fds.extend(ready.map(|(fd, flags)| PollFd::from_borrowed_fd(fd, flags)));
        let limit = Timespec { tv_sec: 0, tv_nsec: i64::from(pause.subsec_nanos()) };
        let began = Instant::now();
        let ready = rustix::event::poll(&mut fds, Some(&limit));
        let is_rung = fds[0].revents().contains(PollFlags::IN);
        if is_rung {
            let mut count = [0; 8];
            let _ = rustix::io::read(&self.parked.bell, &mut count);
        } else if ready != Ok(0) && began.elapsed() < SHORTEST_PAUSE {
            // A descriptor that stays ready although its call waits must not keep this thread busy.
            std::thread::sleep(SHORTEST_PAUSE);
        }
    }

    fn answer_parked(&self, call: &ParkedCall, done: rustix::io::Result<Reply>) {
        let answer = self.answer((call.id, call.thread), done, |add| add());
        answer_surely(self.listener(), call.id, answer);
    }
}
