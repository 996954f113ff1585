//! What a session looked for, changed and reached, kept whole: from it is learned what its command needs.
//!
//! It comes from inside, so it is believed no further than that somebody asked for it. It is bounded, and what does not fit is
//! counted.

use std::collections::{BTreeMap, HashMap};

use ringfence_surface::Access;
use serde::{Deserialize, Serialize};

use crate::broker::wire::Report;
use crate::text::Bytes;
use crate::violations::{Deed, Violation};

/// More different things are counted only.
const MOST: usize = 20_000;
/// So many programs are named for each.
const MOST_PROGRAMS: usize = 8;

/// What was done, or was to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Act {
    /// Its content was to be read, or it was to be run or entered.
    Read,
    /// Only its name, or what it is, was asked for.
    Look,
    /// What is there was to be changed.
    Write,
    /// A name was to be made, moved or removed.
    Make,
    /// A socket was to be connected to.
    Connect,
    /// A host was to be found or connected to.
    Reach,
}

/// One thing that was asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    /// What was to be done.
    pub act: Act,
    /// With which file.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub path: Option<Bytes>,
    /// With which host: `host`, where no port is known, or `host:port`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub host: Option<String>,
    /// Whether it came to nothing.
    pub is_missed: bool,
    /// Why, where the rules of the way out are not the reason.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub why: Option<String>,
    /// The program that asked for it, and how often.
    pub programs: BTreeMap<String, u64>,
    /// How often it was asked for.
    pub times: u64,
}

/// Everything that was asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Learned {
    /// In the order in which each came first.
    pub seen: Vec<Seen>,
    /// How often something was asked for that is not among them.
    pub more: u64,
    #[serde(skip)]
    places: HashMap<Key, usize>,
}

type Key = (Act, Option<Bytes>, Option<String>, bool);

impl Learned {
    /// Nothing yet.
    #[must_use]
    pub fn nothing() -> Self {
        Self { seen: Vec::new(), more: 0, places: HashMap::new() }
    }

    /// What the broker tells: it was refused, or was not there, or is there only while it is learned.
    pub(crate) fn add_report(&mut self, report: &Report) {
        let act = match (report.access, report.call.as_str()) {
            (_, "connect") => Act::Connect,
            (Access::Write, "open" | "openat" | "openat2" | "creat") => Act::Write,
            (Access::Write, call) if call.contains("chmod") || call.contains("utime") || call == "truncate" => {
                Act::Write
            }
            (Access::Write, _) => Act::Make,
            (_, "open" | "openat" | "openat2" | "execve" | "execveat" | "chdir") => Act::Read,
            _ => Act::Look,
        };
        let path = Some(Bytes::new(report.path.as_bytes()));
        let program = String::from_utf8(report.program.clone()).unwrap_or_else(|_| Bytes::new(&report.program).shown());
        self.add((act, path, None, report.errno.is_some()), None, Some(program), 1);
    }

    /// What was stopped on the way out.
    pub(crate) fn add_refusal(&mut self, violation: &Violation, times: u64) {
        let act = match violation.access {
            Deed::Resolve | Deed::Connect => Act::Reach,
            _ => return,
        };
        let Some(host) = violation.host.clone() else { return };
        let why = violation.remedy.is_none().then(|| violation.why.clone());
        self.add((act, None, Some(host), true), why, None, times);
    }

    /// Who was reached.
    #[must_use]
    pub(crate) fn with_reached(mut self, reached: impl Iterator<Item = String>) -> Self {
        for who in reached {
            let (path, host) = match who.strip_prefix("socket ") {
                Some(path) => (Some(Bytes::new(path.as_bytes())), None),
                None => (None, Some(who)),
            };
            let act = if path.is_some() { Act::Connect } else { Act::Reach };
            self.add((act, path, host, false), None, None, 1);
        }
        self
    }

    fn add(&mut self, key: Key, why: Option<String>, program: Option<String>, times: u64) {
        let at = match self.places.get(&key) {
            Some(at) => *at,
            None if self.seen.len() >= MOST => {
                self.more += times;
                return;
            }
            None => {
                let (act, path, host, is_missed) = key.clone();
                self.seen.push(Seen { act, path, host, is_missed, why, programs: BTreeMap::new(), times: 0 });
                self.places.insert(key, self.seen.len() - 1);
                self.seen.len() - 1
            }
        };
        let seen = &mut self.seen[at];
        seen.times += times;
        if let Some(program) = program
            && (seen.programs.len() < MOST_PROGRAMS || seen.programs.contains_key(&program))
        {
            *seen.programs.entry(program).or_insert(0) += times;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringfence_surface::AbsPath;

    fn report(call: &str, path: &str, access: Access, errno: Option<u16>) -> Report {
        Report {
            pid: 7,
            started: 0,
            program: b"cat".to_vec(),
            command: Vec::new(),
            call: call.to_owned(),
            path: AbsPath::root().join(path),
            access,
            rule: String::new(),
            source: String::new(),
            remedy: String::new(),
            errno,
        }
    }

    #[test]
    fn each_once_and_counted() {
        let mut learned = Learned::nothing();
        for _ in 0..3 {
            learned.add_report(&report("openat", "opt/a", Access::Read, Some(2)));
        }
        learned.add_report(&report("stat", "opt/a", Access::Read, Some(2)));
        learned.add_report(&report("mkdir", "opt/a", Access::Write, Some(2)));
        learned.add_report(&report("openat", "opt/a", Access::Read, None));
        let acts: Vec<(Act, bool, u64)> = learned.seen.iter().map(|s| (s.act, s.is_missed, s.times)).collect();
        assert_eq!(acts, [(Act::Read, true, 3), (Act::Look, true, 1), (Act::Make, true, 1), (Act::Read, false, 1)]);
        assert_eq!(learned.seen[0].programs["cat"], 3);
        let text = serde_json::to_string(&learned).unwrap();
        assert_eq!(serde_json::from_str::<Learned>(&text).unwrap().seen, learned.seen);
    }

    #[test]
    fn it_has_an_end() {
        let mut learned = Learned::nothing();
        (0..MOST + 5).for_each(|n| learned.add_report(&report("openat", &format!("opt/{n}"), Access::Read, Some(2))));
        assert_eq!((learned.seen.len(), learned.more), (MOST, 5));
    }
}
