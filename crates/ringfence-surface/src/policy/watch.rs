//! Watches: what the supervisor does by itself when too much of something happens in a session.
//!
//! A watch gives nothing to anybody, so every file may add some, and none can take one away.

use std::fmt;
use std::time::Duration;

use super::PolicyFile;
use super::amounts::{TimeError, Wall};
use super::node::{Node, Value};
use super::shape::{Schema, Shape, Word, table, wrong_kind};
use crate::source::Source;
use crate::surface::Sourced;
use crate::text::{Diagnostic, Spanned, short};

table! {
    /// What is done when too much of something happens.
    pub struct WatchRule {
        /// How much of what.
        when: Spanned<When>,
        /// `pause` (everything in the session stops until `ringfence resume`), `stop` (the session ends) or `notify` (it is told and written down).
        then: Spanned<Then>,
    }
}

table! {
    /// How much of what: one of these.
    pub struct When {
        /// Something was denied, as in `>20 in 1m`.
        denied: Option<Spanned<Threshold>>,
        /// Somebody was asked for an approval.
        asked: Option<Spanned<Threshold>>,
        /// Something was given to the session while it ran.
        granted: Option<Spanned<Threshold>>,
    }
}

/// What is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Counted {
    /// What was denied.
    Denied,
    /// What somebody was asked for.
    Asked,
    /// What was given.
    Granted,
}

impl Counted {
    /// As it is written.
    pub fn word(self) -> &'static str {
        match self {
            Self::Denied => "denied",
            Self::Asked => "asked",
            Self::Granted => "granted",
        }
    }
}

/// What is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Then {
    /// It is told.
    Notify,
    /// Everything in the session stops until somebody lets it go on.
    Pause,
    /// The session ends.
    Stop,
}

impl Word for Then {
    const WHAT: &'static str = "action";
    const WORDS: &'static [(&'static str, Self)] =
        &[("notify", Self::Notify), ("pause", Self::Pause), ("stop", Self::Stop)];
}

impl Then {
    /// As it is written.
    pub fn word(self) -> &'static str {
        match self {
            Self::Notify => "notify",
            Self::Pause => "pause",
            Self::Stop => "stop",
        }
    }
}

/// More than a number, in a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Threshold {
    /// It takes one more than this.
    pub more_than: u32,
    /// Within this time.
    pub within: Duration,
}

/// A watch that takes part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Watch {
    /// What is counted.
    pub counted: Counted,
    /// How much of it is too much.
    pub threshold: Threshold,
    /// What is done then.
    pub then: Then,
}

impl fmt::Display for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} then {}", self.counted.word(), self.threshold, self.then.word())
    }
}

impl fmt::Display for Threshold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.within.as_secs();
        let (number, unit) = [(86_400, 'd'), (3_600, 'h'), (60, 'm'), (1, 's')]
            .into_iter()
            .find(|(unit, _)| seconds.is_multiple_of(*unit))
            .map_or((seconds, 's'), |(unit, name)| (seconds / unit, name));
        write!(f, ">{} in {number}{unit}", self.more_than)
    }
}

/// Why a text is no threshold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ThresholdError {
    /// No `>`, no number, no `in`, or something else besides.
    #[error("a number and a time are needed here")]
    NotAThreshold,
    /// The time is none.
    #[error(transparent)]
    Time(#[from] TimeError),
    /// What happened is kept for as long as it counts.
    #[error("this is more than can be counted: at most {MOST} in at most a day")]
    TooLarge,
}

/// As many moments are kept for each watch.
const MOST: u32 = 10_000;
const LONGEST: Duration = Duration::from_secs(86_400);
/// So many watches in one file.
const MOST_WATCHES: usize = 32;
const HELP: &str = r#"write it as ">20 in 1m""#;

impl Threshold {
    /// Reads `>20 in 1m`.
    ///
    /// # Errors
    /// When it is something else, or too large.
    pub fn parse(text: &str) -> Result<Self, ThresholdError> {
        let words: Vec<&str> = text.split_ascii_whitespace().collect();
        let (number, time) = match words.as_slice() {
            [number, "in", time] => (number.strip_prefix('>'), time),
            [">", number, "in", time] => (Some(*number), time),
            _ => return Err(ThresholdError::NotAThreshold),
        };
        let is_number = |text: &&str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let number = number.filter(is_number).ok_or(ThresholdError::NotAThreshold)?;
        let Wall(within) = Wall::parse(time)?;
        // Digits fail to parse only where there are too many of them.
        let more_than = number.parse().map_err(|_| ThresholdError::TooLarge)?;
        if more_than > MOST || within > LONGEST {
            return Err(ThresholdError::TooLarge);
        }
        Ok(Self { more_than, within })
    }

    /// The threshold that `20 in 1m`, `>20/1m` or `>20 per 1m` was meant to be.
    fn meant(text: &str) -> Option<String> {
        let text = text.trim_start_matches('>').replace('/', " in ").replace("per", "in").replace("within", "in");
        let words: Vec<&str> = text.split_ascii_whitespace().collect();
        let [number, "in", time] = words.as_slice() else { return None };
        let meant = format!(">{number} in {time}");
        Self::parse(&meant).is_ok().then_some(meant)
    }
}

impl Shape for Threshold {
    fn read(node: &Node, said: &mut Vec<Diagnostic>) -> Option<Self> {
        let Value::String(text) = &node.value else {
            said.push(wrong_kind(node, "a number and a time").help(HELP));
            return None;
        };
        let report = |error: ThresholdError| {
            let meant = Self::meant(text).filter(|_| error == ThresholdError::NotAThreshold);
            let help = meant.map_or_else(|| HELP.to_owned(), |meant| format!("did you mean `{}`?", short(&meant)));
            said.push(Diagnostic::error(node.place.clone(), error.to_string()).help(help));
        };
        Self::parse(text).map_err(report).ok()
    }

    fn schema() -> Schema {
        Schema::String { about: "More than a number in a time: `>20 in 1m`." }
    }
}

impl When {
    fn asked_for(&self) -> impl Iterator<Item = (Counted, &Spanned<Threshold>)> {
        let all = [(Counted::Denied, &self.denied), (Counted::Asked, &self.asked), (Counted::Granted, &self.granted)];
        all.into_iter().filter_map(|(counted, threshold)| Some((counted, threshold.as_ref()?)))
    }
}

impl PolicyFile {
    /// Each watch counts one thing.
    pub(super) fn check_watches(&self, said: &mut Vec<Diagnostic>) {
        let watches = self.watch.as_deref().unwrap_or_default();
        for watch in watches {
            let message = match watch.when.value.asked_for().count() {
                1 => continue,
                0 => "nothing is counted here",
                _ => "a watch counts one thing",
            };
            let help = "write one of `denied`, `asked` and `granted`; another watch is another `[[watch]]`";
            said.push(Diagnostic::error(watch.when.place.clone(), message).help(help));
        }
        if let Some(first) = watches.get(MOST_WATCHES) {
            let message = format!("there are {} watches; at most {MOST_WATCHES} are read", watches.len());
            said.push(Diagnostic::error(first.when.place.clone(), message));
        }
    }

    /// The watches that it adds.
    pub(crate) fn watches(&self) -> impl Iterator<Item = Sourced<Watch>> {
        let one = |rule: &WatchRule| {
            let (counted, threshold) = rule.when.value.asked_for().next()?;
            let value = Watch { counted, threshold: threshold.value, then: rule.then.value };
            Some(Sourced { value, source: Source::File(threshold.place.clone()) })
        };
        self.watch.iter().flatten().filter_map(one)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thresholds() {
        for (text, expected) in [
            (">20 in 1m", Ok((20, 60))),
            ("> 20 in 1h30m", Ok((20, 5_400))),
            (">0 in 1s", Ok((0, 1))),
            (">10000 in 1d", Ok((10_000, 86_400))),
            ("", Err(ThresholdError::NotAThreshold)),
            ("20 in 1m", Err(ThresholdError::NotAThreshold)),
            (">20", Err(ThresholdError::NotAThreshold)),
            (">20 in", Err(ThresholdError::NotAThreshold)),
            (">20 in 1m then", Err(ThresholdError::NotAThreshold)),
            (">-1 in 1m", Err(ThresholdError::NotAThreshold)),
            (">=20 in 1m", Err(ThresholdError::NotAThreshold)),
            (">é in 1m", Err(ThresholdError::NotAThreshold)),
            (">20 in 1x", Err(ThresholdError::Time(TimeError::NotATime))),
            (">20 in 0s", Err(ThresholdError::Time(TimeError::Zero))),
            (">10001 in 1m", Err(ThresholdError::TooLarge)),
            (">99999999999999999999 in 1m", Err(ThresholdError::TooLarge)),
            (">1 in 2d", Err(ThresholdError::TooLarge)),
        ] {
            let found = Threshold::parse(text).map(|found| (found.more_than, found.within.as_secs()));
            assert_eq!(found, expected, "{text}");
        }
    }

    #[test]
    fn thresholds_that_were_meant() {
        for (text, expected) in [
            ("20 in 1m", Some(">20 in 1m")),
            (">20/1m", Some(">20 in 1m")),
            (">20 per 1m", Some(">20 in 1m")),
            (">>20 within 90s", Some(">20 in 90s")),
            ("many", None),
            ("20 in x", None),
        ] {
            assert_eq!(Threshold::meant(text).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn a_watch_in_words() {
        for (text, expected) in [(">20 in 60s", ">20 in 1m"), (">1 in 90s", ">1 in 90s"), (">0 in 24h", ">0 in 1d")] {
            assert_eq!(Threshold::parse(text).unwrap().to_string(), expected);
        }
    }
}
