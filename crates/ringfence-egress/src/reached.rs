//! Who was really reached: which of the hosts, ports and sockets that a policy names somebody uses.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

/// More are not kept. Only what a policy names comes here, but a pattern may stand for any number of names.
const MOST: usize = 1_024;

/// Collects who was reached, as `host:port`, `localhost:port` or `socket PATH`. Clones share what they collect.
#[derive(Debug, Clone, Default)]
pub struct Reached(Arc<Mutex<Collected>>);

#[derive(Debug, Default)]
struct Collected {
    kept: BTreeSet<String>,
    is_cut: bool,
}

impl Reached {
    /// Notes one.
    pub(crate) fn note(&self, who: String) {
        let mut collected = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if collected.kept.len() < MOST || collected.kept.contains(&who) {
            collected.kept.insert(who);
        } else {
            collected.is_cut = true;
        }
    }

    /// Everybody, in order; and whether there were more than are kept.
    #[must_use]
    pub fn all(&self) -> (Vec<String>, bool) {
        let collected = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        (collected.kept.iter().cloned().collect(), collected.is_cut)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_once_and_bounded() {
        let reached = Reached::default();
        (0..3).for_each(|_| reached.clone().note("a.example:443".to_owned()));
        assert_eq!(reached.all(), (vec!["a.example:443".to_owned()], false));
        (0..2 * MOST).for_each(|number| reached.note(format!("{number}.example:443")));
        let (all, is_cut) = reached.all();
        assert_eq!((all.len(), is_cut), (MOST, true));
    }
}
