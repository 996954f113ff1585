//! Who waits for calls.
//!
//! A call wakes every thread that waits for one, so only one does, unless many call at once: it receives a call, carries it out, and waits for the next on
//! the processor where it is. Beside it another sleeps, and looks now and then whether the first is still at the same call: on a
//! slow disk, or at a question that somebody is asked. Then it takes its place, and the first ends when it is done.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{Builder, Scope, Thread};
use std::time::Duration;

use ringfence_sys::{notify, process};

use super::{Broker, Hand, STACK};

/// More calls than these are not carried out at once; the others wait.
const MOST_THREADS: usize = 128;
/// A call that takes longer than this is not waited for by the others.
const LONG: Duration = Duration::from_millis(1);
/// After so many looks at somebody who does nothing the second sleeps until there is a call again.
const QUIET_LOOKS: u32 = 20;

/// What whoever waits for calls shows whoever stands by.
#[derive(Debug)]
struct Turn {
    /// One more whenever a call begins and whenever it ends: odd while one is carried out.
    beat: AtomicU64,
    /// Somebody else has taken its place.
    is_taken: AtomicBool,
    /// It has ended.
    is_over: AtomicBool,
    /// Whoever stands by looks no more, and is to be woken.
    is_asleep: AtomicBool,
}

impl Turn {
    fn new() -> Self {
        let no = || AtomicBool::new(false);
        Self { beat: AtomicU64::new(0), is_taken: no(), is_over: no(), is_asleep: no() }
    }

    /// Stands by. Is its place to be taken? Otherwise it is over.
    fn watch(&self) -> bool {
        let (mut last, mut quiet) = (self.beat.load(Ordering::SeqCst), 0);
        loop {
            if quiet < QUIET_LOOKS {
                std::thread::park_timeout(LONG);
            } else {
                self.is_asleep.store(true, Ordering::SeqCst);
                // It begins a call either before this, and is seen, or after it, and sees that it has to wake us.
                while self.beat.load(Ordering::SeqCst) == last && !self.is_over.load(Ordering::SeqCst) {
                    std::thread::park();
                }
                self.is_asleep.store(false, Ordering::SeqCst);
            }
            let beat = self.beat.load(Ordering::SeqCst);
            if self.is_over.load(Ordering::SeqCst) {
                return false;
            }
            if beat == last && beat % 2 == 1 {
                self.is_taken.store(true, Ordering::SeqCst);
                return true;
            }
            quiet = if beat == last { quiet + 1 } else { 0 };
            last = beat;
        }
    }
}

impl Broker<'_> {
    /// One thread, for as long as it is the one that waits for calls. It is counted already.
    pub(super) fn attend<'scope>(&'scope self, scope: &'scope Scope<'scope, '_>) {
        if stand_in_line().is_ok() {
            let mut hand = Hand::of(self);
            let turn = Arc::new(Turn::new());
            let mut second = None;
            while !turn.is_taken.load(Ordering::SeqCst) {
                let Some(call) = self.next() else { break };
                turn.beat.fetch_add(1, Ordering::SeqCst);
                self.note_caller(call.thread);
                self.find_hands(scope);
                match &second {
                    // Without one, calls wait for this one.
                    None => second = self.stand_by(scope, &turn),
                    Some(second) => {
                        if turn.is_asleep.load(Ordering::SeqCst) {
                            second.unpark();
                        }
                    }
                }
                self.settle(scope, &call, &mut hand);
                self.watch_judged(scope);
                turn.beat.fetch_add(1, Ordering::SeqCst);
            }
            turn.is_over.store(true, Ordering::SeqCst);
            if let Some(second) = second {
                second.unpark();
            }
        } else {
            // Without a thread that carries out calls every caller would wait for ever.
            process::kill_all_others();
        }
        self.threads.fetch_sub(1, Ordering::Relaxed);
    }

    fn stand_by<'scope>(&'scope self, scope: &'scope Scope<'scope, '_>, turn: &Arc<Turn>) -> Option<Thread> {
        if self.threads.fetch_add(1, Ordering::Relaxed) < MOST_THREADS {
            let turn = Arc::clone(turn);
            let second = move || {
                if turn.watch() {
                    self.attend(scope);
                } else {
                    self.threads.fetch_sub(1, Ordering::Relaxed);
                }
            };
            if let Ok(made) = Builder::new().stack_size(STACK).spawn_scoped(scope, second) {
                return Some(made.thread().clone());
            }
        }
        self.threads.fetch_sub(1, Ordering::Relaxed);
        None
    }
}

/// Makes this thread one that carries out calls.
pub(super) fn stand_in_line() -> rustix::io::Result<()> {
    // Whoever wakes it is about to wait for it: to take the processor away from it a moment before is a change for nothing. Without this
    // everything works, more slowly.
    let _ = notify::interrupt_nobody();
    // The mask for new files is a caller's while something is done for it, and the working directory any.
    notify::unshare_fs()
}
