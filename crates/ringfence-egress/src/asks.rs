//! Names that nobody has allowed, and that somebody may still allow: a question about one waits for a while.
//!
//! Nothing here allows anything. Whoever is asked changes what may be reached, or does not; then the question is answered by what
//! may be reached at that moment.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

/// So many names wait at once.
const MOST: usize = 32;
/// As many questions wait for the same name.
const MOST_WAITING: usize = 64;
/// A name that was settled is not asked about again for this long.
const REST: Duration = Duration::from_secs(300);
/// So many of those are known.
const MOST_RESTING: usize = 1_000;

/// Where names wait. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct Asks(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    /// For how long, and who is told that there is one.
    patience: Option<(Duration, OwnedFd)>,
    waiting: BTreeMap<String, Vec<oneshot::Sender<()>>>,
    fresh: Vec<String>,
    resting: BTreeMap<String, Instant>,
}

impl Asks {
    /// From now on names wait, for this long. `bell` is an eventfd that never blocks; it is rung for each new one.
    pub fn begin(&self, patience: Duration, bell: OwnedFd) {
        self.state().patience = Some((patience, bell));
    }

    /// The names that began to wait since this was last asked.
    #[must_use]
    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.state().fresh)
    }

    /// It is decided: questions about it are answered by what may be reached now.
    pub fn settle(&self, name: &str) {
        let mut state = self.state();
        // Whoever waited hears of it by the end of the channel.
        drop(state.waiting.remove(name));
        state.fresh.retain(|fresh| fresh != name);
        state.rest(name);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Is anybody asked?
    pub(crate) fn is_on(&self) -> bool {
        self.state().patience.is_some()
    }

    /// Waits until it is decided about a name, or the time is up. Returns at once where nobody is asked.
    pub(crate) async fn wait(&self, name: &str) {
        let Some((patience, settled)) = self.register(name) else { return };
        if tokio::time::timeout(patience, settled).await.is_err() {
            self.settle(name);
        }
    }

    fn register(&self, name: &str) -> Option<(Duration, oneshot::Receiver<()>)> {
        let mut guard = self.state();
        let state = &mut *guard;
        let (patience, bell) = state.patience.as_ref()?;
        let is_resting = state.resting.get(name).is_some_and(|since| since.elapsed() < REST);
        let is_new = !state.waiting.contains_key(name);
        if is_resting || is_new && state.waiting.len() >= MOST {
            return None;
        }
        let (tell, settled) = oneshot::channel();
        let waiting = state.waiting.entry(name.to_owned()).or_default();
        if waiting.len() >= MOST_WAITING {
            return None;
        }
        waiting.push(tell);
        if is_new {
            state.fresh.push(name.to_owned());
            // It is rung already, or nobody listens any more.
            let _ = rustix::io::write(bell, &1_u64.to_ne_bytes());
        }
        Some((*patience, settled))
    }
}

impl State {
    fn rest(&mut self, name: &str) {
        if self.resting.len() >= MOST_RESTING {
            self.resting.retain(|_, since| since.elapsed() < REST);
        }
        if self.resting.len() < MOST_RESTING {
            self.resting.insert(name.to_owned(), Instant::now());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bell() -> OwnedFd {
        use rustix::event::EventfdFlags;
        rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).unwrap()
    }

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap()
    }

    /// K12: where nobody is asked nothing waits.
    #[test]
    fn k12_without_asking_no_name_waits() {
        let asks = Asks::default();
        runtime().block_on(asks.wait("a.example"));
        assert!(asks.take().is_empty());
    }

    /// K12: the same name asked twice is one question; both go on when it is settled, and it is not asked about again at once.
    #[test]
    fn k12_a_name_waits_until_it_is_settled() {
        let asks = Asks::default();
        asks.begin(Duration::from_secs(60), bell());
        runtime().block_on(async {
            let settle = async {
                tokio::task::yield_now().await;
                assert_eq!(asks.take(), ["a.example"]);
                asks.settle("a.example");
            };
            tokio::join!(asks.wait("a.example"), asks.wait("a.example"), settle);
            asks.wait("a.example").await;
        });
        assert!(asks.take().is_empty());
    }

    /// K12: its time is up, and a flood of names fills nothing.
    #[test]
    fn k12_names_do_not_wait_for_ever() {
        let asks = Asks::default();
        asks.begin(Duration::from_millis(1), bell());
        runtime().block_on(asks.wait("a.example"));
        assert!(asks.state().waiting.is_empty());
        asks.begin(Duration::from_secs(60), bell());
        let waiting: Vec<_> = (0..1_000).filter_map(|number| asks.register(&format!("{number}.example"))).collect();
        assert_eq!((waiting.len(), asks.take().len()), (MOST, MOST));
        (0..10_000).for_each(|number| asks.settle(&format!("{number}.example")));
        assert!(asks.state().resting.len() <= MOST_RESTING && asks.state().waiting.is_empty());
    }
}
