//! What was stopped on the way out, each kind once and counted.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};

/// How many different ones are kept. A program that tries every address tells nothing new with the thousandth.
const MOST: usize = 1_000;

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
pub struct Refusals(Arc<Mutex<Counted>>);

#[derive(Debug, Default)]
struct Counted {
    counts: HashMap<Refusal, u64>,
    order: Vec<Refusal>,
    /// Those that found no room.
    more: u64,
    /// Rung when a kind comes for the first time.
    bell: Option<OwnedFd>,
}

impl Refusals {
    /// Notes one.
    pub fn note(&self, what: impl Into<String>, why: impl Into<String>) {
        let refusal = Refusal { what: what.into(), why: why.into() };
        let mut counted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counted.counts.get_mut(&refusal) {
            *count += 1;
        } else if counted.order.len() < MOST {
            counted.counts.insert(refusal.clone(), 1);
            counted.order.push(refusal);
            if let Some(bell) = &counted.bell {
                // It is rung already, or nobody listens any more.
                let _ = rustix::io::write(bell, &1_u64.to_ne_bytes());
            }
        } else {
            counted.more += 1;
        }
    }

    /// Rings an eventfd, one that never blocks, whenever a kind comes for the first time.
    pub fn ring(&self, bell: OwnedFd) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).bell = Some(bell);
    }

    /// The kinds from the one of this number on.
    #[must_use]
    pub fn since(&self, number: usize) -> Vec<(Refusal, u64)> {
        let counted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let new = counted.order.iter().skip(number);
        new.map(|one| (one.clone(), counted.counts.get(one).copied().unwrap_or(0))).collect()
    }

    /// Everything that was stopped, with how often, in the order in which each came first; and how many more there were.
    #[must_use]
    pub fn all(&self) -> (Vec<(Refusal, u64)>, u64) {
        let counted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let all = counted.order.iter().map(|one| (one.clone(), counted.counts.get(one).copied().unwrap_or(0)));
        (all.collect(), counted.more)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_once_and_bounded() {
        let refusals = Refusals::default();
        for number in 0..2_000 {
            refusals.note("name a", "not allowed");
            refusals.note(format!("name {number}"), "not allowed");
        }
        let (all, more) = refusals.all();
        assert_eq!((all.len(), more), (MOST, 1_001));
        assert_eq!(all[0], (Refusal { what: "name a".into(), why: "not allowed".into() }, 2_000));
    }
}
