//! The watchdog: counts what happens in a session, and says when there was too much of something.
//!
//! It sees the stream of events and nothing else, and what it keeps is bounded by what the policy lets be counted.

use std::collections::VecDeque;
use std::time::Instant;

use ringfence_surface::policy::{Counted, Then, Watch};

/// The watches of a session, and what they have counted.
#[derive(Debug)]
pub(super) struct Watchdog(Vec<Counter>);

#[derive(Debug)]
struct Counter {
    watch: Watch,
    /// Where it was written.
    source: String,
    /// When how much happened, the newest last. There are never more than it takes to strike.
    seen: VecDeque<(Instant, u64)>,
    sum: u64,
}

/// There was too much of something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Alarm {
    /// What is to be done.
    pub(super) then: Then,
    /// The watch, in words.
    pub(super) watch: String,
    /// Where it was written.
    pub(super) source: String,
    /// How much it was.
    pub(super) count: u64,
}

impl Watchdog {
    pub(super) fn new(watches: Vec<(Watch, String)>) -> Self {
        let counter = |(watch, source)| Counter { watch, source, seen: VecDeque::new(), sum: 0 };
        Self(watches.into_iter().map(counter).collect())
    }

    /// Something happened so many times. Each watch that strikes begins to count anew.
    pub(super) fn count(&mut self, counted: Counted, times: u64, now: Instant) -> Vec<Alarm> {
        let concerned = self.0.iter_mut().filter(|counter| counter.watch.counted == counted && times > 0);
        concerned.filter_map(|counter| counter.add(times, now)).collect()
    }
}

impl Counter {
    fn add(&mut self, times: u64, now: Instant) -> Option<Alarm> {
        let threshold = self.watch.threshold;
        while let Some((then, count)) = self.seen.front()
            && now.duration_since(*then) >= threshold.within
        {
            self.sum -= count;
            self.seen.pop_front();
        }
        self.seen.push_back((now, times));
        self.sum = self.sum.saturating_add(times);
        if self.sum <= u64::from(threshold.more_than) {
            return None;
        }
        self.seen.clear();
        let count = std::mem::take(&mut self.sum);
        Some(Alarm { then: self.watch.then, watch: self.watch.to_string(), source: self.source.clone(), count })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ringfence_surface::policy::Threshold;

    use super::*;

    fn watchdog(threshold: &str, then: Then) -> Watchdog {
        let watch = Watch { counted: Counted::Denied, threshold: Threshold::parse(threshold).unwrap(), then };
        Watchdog::new(vec![(watch, "p.toml:3".into())])
    }

    /// K16: more than so many in the time strikes, so many do not, and what is older does not count.
    #[test]
    fn k16_a_watch_counts_within_its_time() {
        let (mut watchdog, start) = (watchdog(">3 in 10s", Then::Pause), Instant::now());
        let mut at =
            |seconds, times| watchdog.count(Counted::Denied, times, start + Duration::from_secs(seconds)).len();
        assert_eq!((at(0, 1), at(1, 2)), (0, 0));
        // The first is ten seconds old.
        assert_eq!(at(10, 1), 0);
        assert_eq!(at(10, 1), 1);
        // It begins anew.
        assert_eq!((at(10, 3), at(19, 1)), (0, 1));
    }

    /// K16: many at once strike once, and other things do not count.
    #[test]
    fn k16_many_at_once() {
        let (mut watchdog, now) = (watchdog(">3 in 10s", Then::Stop), Instant::now());
        assert!(watchdog.count(Counted::Asked, 100, now).is_empty());
        let alarms = watchdog.count(Counted::Denied, 100, now);
        assert_eq!(alarms.len(), 1);
        assert_eq!((alarms[0].count, alarms[0].watch.as_str()), (100, "denied >3 in 10s then stop"));
    }

    /// K16: a flood takes no more room than it takes to strike.
    #[test]
    fn k16_a_flood_takes_no_room() {
        let (mut watchdog, now) = (watchdog(">100 in 1h", Then::Notify), Instant::now());
        let alarms: usize = (0..100_000).map(|_| watchdog.count(Counted::Denied, 1, now).len()).sum();
        assert_eq!(alarms, 990);
        assert!(watchdog.0[0].seen.len() <= 101 && watchdog.0[0].seen.capacity() <= 256);
        assert!(watchdog.count(Counted::Denied, u64::MAX, now).len() == 1);
    }
}
