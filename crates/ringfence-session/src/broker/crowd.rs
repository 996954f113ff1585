//! Several callers at once.
//!
//! One caller and one thread that carries out its calls take turns, and are quickest on one processor: each wakes the other there.
//! Where several call at once that would keep all of them on one processor, behind one thread. So it is looked who calls: where
//! somebody calls again after others have, more threads wait for calls, and each is woken wherever there is room.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::{Builder, Scope};

use ringfence_sys::notify::{self, Wakes};
use rustix::process::Pid;

use super::turns::stand_in_line;
use super::{Broker, Hand, STACK};

/// More threads than these beside the first are not worth it: a call wakes all that wait.
const MOST_HANDS: usize = 3;
/// So many callers are told apart: more than work at once.
const RECENT: usize = 32;
/// What one call counts for, of [`WHOLE`]: what was longer ago than some dozens of calls counts for little.
const STEP: u32 = 32;
const WHOLE: u32 = 1024;
/// There is a crowd when every fourth call comes after somebody else's and from somebody known, and there is none any more when
/// hardly any does.
const CROWDED: u32 = WHOLE / 4;
const QUIET: u32 = WHOLE / 16;

/// Who called lately.
#[derive(Debug)]
pub(super) struct Crowd {
    seen: Mutex<Seen>,
    is_on: AtomicBool,
    hands: AtomicUsize,
    most: usize,
}

#[derive(Debug)]
struct Seen {
    /// The last one first.
    recent: [i32; RECENT],
    score: u32,
}

impl Seen {
    fn new() -> Self {
        Self { recent: [0; RECENT], score: 0 }
    }

    /// One more call. How much of a crowd is there?
    fn add(&mut self, caller: i32) -> u32 {
        self.score -= self.score / STEP;
        if self.recent[0] != caller {
            let known = self.recent.iter().position(|one| *one == caller);
            if known.is_some() {
                self.score += WHOLE / STEP;
            }
            self.recent[..=known.unwrap_or(RECENT - 1)].rotate_right(1);
            self.recent[0] = caller;
        }
        self.score
    }
}

impl Crowd {
    pub(super) fn new() -> Self {
        let processors = rustix::thread::sched_getaffinity(None).map_or(1, |set| set.count() as usize);
        Self {
            seen: Mutex::new(Seen::new()),
            is_on: AtomicBool::new(false),
            hands: AtomicUsize::new(0),
            most: MOST_HANDS.min(processors.saturating_sub(1)),
        }
    }
}

impl Broker<'_> {
    /// Somebody called: has that changed whether there is a crowd?
    pub(super) fn note_caller(&self, caller: Pid) {
        if self.crowd.most == 0 {
            return;
        }
        let caller = caller.as_raw_nonzero().get();
        let score = self.crowd.seen.lock().unwrap_or_else(PoisonError::into_inner).add(caller);
        let is_on = self.crowd.is_on.load(Ordering::Relaxed);
        if is_on && score < QUIET || !is_on && score > CROWDED {
            self.crowd.is_on.store(!is_on, Ordering::Relaxed);
            // Without it everything works, more slowly.
            let _ = notify::wake(self.listener(), if is_on { Wakes::Here } else { Wakes::Anywhere });
        }
    }

    /// Has others carry out calls too, where many wait.
    pub(super) fn find_hands<'scope>(&'scope self, scope: &'scope Scope<'scope, '_>) {
        let Crowd { is_on, hands, most, .. } = &self.crowd;
        if !is_on.load(Ordering::Relaxed) || hands.load(Ordering::Relaxed) >= *most {
            return;
        }
        hands.fetch_add(1, Ordering::Relaxed);
        if Builder::new().stack_size(STACK).spawn_scoped(scope, || self.lend_a_hand(scope)).is_err() {
            hands.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// One more thread, for as long as there is a crowd.
    fn lend_a_hand<'scope>(&'scope self, scope: &'scope Scope<'scope, '_>) {
        if stand_in_line().is_ok() {
            let mut hand = Hand::of(self);
            while self.crowd.is_on.load(Ordering::Relaxed) {
                let Some(call) = self.next() else { break };
                self.note_caller(call.thread);
                self.settle(scope, &call, &mut hand);
            }
        }
        self.crowd.hands.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How much of a crowd these are, one call after the other, for a while.
    fn score(callers: &mut dyn Iterator<Item = i32>) -> u32 {
        let mut seen = Seen::new();
        callers.take(400).fold(0, |_, caller| seen.add(caller))
    }

    #[test]
    fn who_takes_turns_is_a_crowd() {
        for callers in [&[1, 2, 1, 2][..], &[1, 2, 3, 4], &[1, 1, 2, 2], &(1..=16).collect::<Vec<_>>()] {
            assert!(score(&mut callers.iter().copied().cycle()) > CROWDED, "{callers:?}");
        }
    }

    #[test]
    fn one_after_the_other_is_none() {
        assert_eq!(score(&mut std::iter::repeat(7)), 0);
        // Short programs, each of which calls now and then and ends.
        assert_eq!(score(&mut (1..).flat_map(|caller| [caller; 3])), 0);
        // A crowd that has gone.
        let gone = [1, 2].into_iter().cycle().take(200).chain(std::iter::repeat(1));
        assert!(score(&mut { gone }) < QUIET);
    }
}
