//! What was stopped on the way out, each kind once and counted.
//!
//! Whoever is inside chooses what is tried, so it is kept by what kind of thing was tried, and each kind of thing has room of its
//! own: a flood of names cannot push out the one address that was dialled meanwhile.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};

/// How many different ones of each kind of thing are kept. The oldest makes room.
const MOST: usize = 250;

/// The first words of what is tried. What begins otherwise shares one place.
const THINGS: [&str; 7] = ["name", "tcp", "udp", "tls", "proxy", "socket", "port"];

/// Something that was stopped.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Refusal {
    /// What was tried: `tcp 1.1.1.1:8080`, `name example.com`.
    pub what: String,
    /// Why it was stopped.
    pub why: String,
}

/// Collects what was stopped. Clones share what they collect.
#[derive(Debug, Clone, Default)]
pub struct Refusals(Arc<Mutex<Collected>>);

#[derive(Debug, Default)]
struct Collected {
    kept: [VecDeque<Counted>; THINGS.len() + 1],
    /// How many kinds there were so far.
    kinds: u64,
    /// How often those that made room were tried and nobody was told.
    missed: u64,
    /// How often those that made room were tried at all.
    gone: u64,
    /// Rung when something was stopped.
    bell: Option<OwnedFd>,
    is_rung: bool,
}

#[derive(Debug)]
struct Counted {
    refusal: Refusal,
    /// Its place in the order in which each came first.
    number: u64,
    times: u64,
    /// Those of them that nobody was told of.
    fresh: u64,
}

/// What was stopped since it was last asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fresh {
    /// Each with how often it was tried since.
    pub refusals: Vec<(Refusal, u64)>,
    /// How often others were tried, of which no more is known.
    pub missed: u64,
}

impl Refusals {
    /// Notes one.
    pub fn note(&self, what: impl Into<String>, why: impl Into<String>) {
        let refusal = Refusal { what: what.into(), why: why.into() };
        let first = refusal.what.split(' ').next().unwrap_or_default();
        let thing = THINGS.iter().position(|known| *known == first).unwrap_or(THINGS.len());
        let mut guard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let collected = &mut *guard;
        let kept = &mut collected.kept[thing];
        // What is tried again was most likely tried a moment ago.
        if let Some(known) = kept.iter_mut().rev().find(|known| known.refusal == refusal) {
            known.times += 1;
            known.fresh += 1;
        } else {
            if kept.len() == MOST
                && let Some(oldest) = kept.pop_front()
            {
                collected.gone += oldest.times;
                collected.missed += oldest.fresh;
            }
            kept.push_back(Counted { refusal, number: collected.kinds, times: 1, fresh: 1 });
            collected.kinds += 1;
        }
        if let Some(bell) = collected.bell.as_ref().filter(|_| !collected.is_rung) {
            // Nobody listens any more, where this fails.
            let _ = rustix::io::write(bell, &1_u64.to_ne_bytes());
            collected.is_rung = true;
        }
    }

    /// Rings an eventfd, one that never blocks, when something was stopped; again after [`Refusals::take`].
    pub fn ring(&self, bell: OwnedFd) {
        let mut collected = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        (collected.bell, collected.is_rung) = (Some(bell), false);
    }

    /// What was stopped since this was last asked, in the order in which each came first.
    #[must_use]
    pub fn take(&self) -> Fresh {
        let mut collected = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        collected.is_rung = false;
        let mut fresh: Vec<(u64, Refusal, u64)> = Vec::new();
        for known in collected.kept.iter_mut().flatten().filter(|known| known.fresh > 0) {
            fresh.push((known.number, known.refusal.clone(), std::mem::take(&mut known.fresh)));
        }
        fresh.sort_by_key(|(number, ..)| *number);
        let refusals = fresh.into_iter().map(|(_, refusal, times)| (refusal, times)).collect();
        Fresh { refusals, missed: std::mem::take(&mut collected.missed) }
    }

    /// Everything that is kept, with how often, in the order in which each came first; and how often others were tried.
    #[must_use]
    pub fn all(&self) -> (Vec<(Refusal, u64)>, u64) {
        let collected = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all: Vec<&Counted> = collected.kept.iter().flatten().collect();
        all.sort_by_key(|known| known.number);
        (all.into_iter().map(|known| (known.refusal.clone(), known.times)).collect(), collected.gone)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(what: &str) -> Refusal {
        Refusal { what: what.into(), why: "not allowed".into() }
    }

    #[test]
    fn each_kind_once_and_bounded() {
        let refusals = Refusals::default();
        refusals.note("tcp 1.1.1.1:80", "not allowed");
        for number in 0..2_000 {
            refusals.note(format!("name {number}"), "not allowed");
            refusals.note("name a", "not allowed");
        }
        refusals.note("udp 1.1.1.1:80", "not allowed");
        let (all, gone) = refusals.all();
        let times: u64 = all.iter().map(|(_, times)| times).sum();
        assert_eq!((all.len(), times + gone), (MOST + 2, 4_002));
        // Neither what came before the flood nor what came after it is hidden by it.
        assert_eq!(all[0], (refusal("tcp 1.1.1.1:80"), 1));
        assert_eq!(all[MOST + 1], (refusal("udp 1.1.1.1:80"), 1));
    }

    #[test]
    fn nothing_is_told_twice_and_nothing_is_lost() {
        let refusals = Refusals::default();
        refusals.note("name a", "not allowed");
        refusals.note("name a", "not allowed");
        assert_eq!(refusals.take(), Fresh { refusals: vec![(refusal("name a"), 2)], missed: 0 });
        assert_eq!(refusals.take(), Fresh { refusals: vec![], missed: 0 });
        refusals.note("name a", "not allowed");
        for number in 0..MOST + 10 {
            refusals.note(format!("name {number}"), "not allowed");
        }
        let fresh = refusals.take();
        let times: u64 = fresh.refusals.iter().map(|(_, times)| times).sum();
        assert_eq!(times + fresh.missed, 1 + MOST as u64 + 10);
    }
}
