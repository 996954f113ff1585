//! Deduplicates concurrent look-ups: one query for all tasks that wait for the same answer.

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::OnceCell;

/// An answer that several tasks share.
type Answer = Result<Vec<IpAddr>, Arc<io::Error>>;

/// The look-ups that are under way, by name.
#[derive(Debug)]
pub(crate) struct JoinedLookups(Mutex<HashMap<String, Arc<OnceCell<Answer>>>>);

impl JoinedLookups {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(HashMap::new()))
    }

    /// Looks a name up, or waits for the task that does. If that task is dropped, another takes over. Nothing is cached: a look-up
    /// after the answer is a new query.
    ///
    /// # Errors
    /// As the look-up.
    pub(crate) async fn look_up(
        &self,
        name: &str,
        ask: impl Future<Output = io::Result<Vec<IpAddr>>>,
    ) -> io::Result<Vec<IpAddr>> {
        let cell = Arc::clone(self.under_way().entry(name.to_owned()).or_default());
        let answer = cell.get_or_init(|| async { ask.await.map_err(Arc::new) }).await.clone();
        let mut under_way = self.under_way();
        if under_way.get(name).is_some_and(|current| Arc::ptr_eq(current, &cell)) {
            under_way.remove(name);
        }
        answer.map_err(|cause| io::Error::new(cause.kind(), cause))
    }

    fn under_way(&self) -> std::sync::MutexGuard<'_, HashMap<String, Arc<OnceCell<Answer>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::time::Duration;

    use super::*;

    const ADDRESS: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));

    /// F8: a thousand connections to one name are one question.
    #[tokio::test(flavor = "current_thread")]
    async fn f8_concurrent_lookups_of_one_name_are_one_question() {
        let (joined, asked) = (JoinedLookups::new(), Cell::new(0));
        let ask = |answer: io::Result<Vec<IpAddr>>| async {
            asked.set(asked.get() + 1);
            tokio::task::yield_now().await;
            answer
        };
        let good = || ask(Ok(vec![ADDRESS]));
        let (first, second, other) =
            tokio::join!(joined.look_up("a", good()), joined.look_up("a", good()), joined.look_up("b", good()));
        assert_eq!((first.unwrap(), second.unwrap(), other.unwrap()), (vec![ADDRESS], vec![ADDRESS], vec![ADDRESS]));
        assert_eq!((asked.get(), joined.under_way().len()), (2, 0));
        // Later it is another query, which may fail for all that wait.
        let bad = || ask(Err(io::ErrorKind::NotFound.into()));
        let (first, second) = tokio::join!(joined.look_up("a", bad()), joined.look_up("a", bad()));
        assert_eq!([first, second].map(|answer| answer.unwrap_err().kind()), [io::ErrorKind::NotFound; 2]);
        assert_eq!((asked.get(), joined.under_way().len()), (3, 0));
    }

    /// F8: the task that asks may be dropped; then another one that waits takes over.
    #[tokio::test(flavor = "current_thread")]
    async fn f8_another_takes_over_from_who_gives_up() {
        let joined = JoinedLookups::new();
        let never = tokio::time::timeout(Duration::from_millis(1), joined.look_up("a", std::future::pending()));
        let (given_up, answer) = tokio::join!(never, joined.look_up("a", async { Ok(vec![ADDRESS]) }));
        assert!(given_up.is_err());
        assert_eq!(answer.unwrap(), vec![ADDRESS]);
    }
}
