//! The masks for new files of those who called lately. Asking for one takes as long as half of a call.
//!
//! Who changes its mask is seen, a moment before it does: so what was read around that time is not remembered. A mask that was
//! kept for too long would give a file of the caller's another mode, and nobody any right.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::fs::Mode;

use super::caller::Caller;

/// Long enough for whoever was let go on to do so.
const AROUND: Duration = Duration::from_millis(100);
/// By then a thread's number may be another's.
const LONGEST: Duration = Duration::from_millis(500);
/// More are not remembered.
const MOST: usize = 1024;

#[derive(Debug)]
pub(super) struct Masks(Mutex<State>);

#[derive(Debug)]
struct State {
    /// When somebody changed one last.
    changed: Option<Instant>,
    known: BTreeMap<i32, (Mode, Instant)>,
}

impl Masks {
    pub(super) fn new() -> Self {
        Self(Mutex::new(State { changed: None, known: BTreeMap::new() }))
    }

    /// Somebody is about to change one.
    pub(super) fn change(&self) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.changed = Some(Instant::now());
        state.known.clear();
    }

    /// The mask of a caller.
    pub(super) fn of(&self, caller: &Caller<'_>) -> rustix::io::Result<Mode> {
        let (now, thread) = (Instant::now(), caller.number());
        {
            let state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some((mask, _)) = state.known.get(&thread).filter(|(_, read)| now - *read < LONGEST) {
                return Ok(*mask);
            }
        }
        let mask = caller.umask()?;
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if state.known.len() >= MOST {
            state.known.clear();
        }
        if state.changed.is_none_or(|changed| now.saturating_duration_since(changed) > AROUND) {
            state.known.insert(thread, (mask, now));
        }
        Ok(mask)
    }
}
