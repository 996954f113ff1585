//! Grants of a policy that nothing made use of, as far as that is known.
//!
//! Who was reached is recorded in every session, and by which rule something was written where a broker saw it. What was read is
//! not: of such a grant it is said that nobody knows.

use std::ops::Range;

use super::Key;
use crate::decide::Access;
use crate::host::{HostPattern, HostTarget};
use crate::policy::{AllowRule, Extension, HostRule, PolicyFile};
use crate::source::Source;
use crate::surface::{Effect, Rule, Sense, Surface};
use crate::text::{Place, Spanned};

/// One entry of a policy file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// In which list.
    pub key: Key,
    /// As it was written.
    pub value: String,
    /// Where in the text.
    pub span: Range<usize>,
}

/// What one session recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    /// Who was reached: `host:port`, `localhost:port`, `socket PATH`.
    pub reached: Vec<String>,
    /// Whether more were reached than were kept.
    pub is_cut: bool,
    /// The rules by which something was written, by their patterns; none where nobody saw it.
    pub written: Option<Vec<String>>,
}

/// A grant that nothing made use of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unused {
    /// Which.
    pub grant: Grant,
    /// What is known.
    pub why: String,
    /// Where it goes instead: what was not written may still be read.
    pub instead: Option<Key>,
}

/// A grant that stays.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// Which.
    pub grant: Grant,
    /// How many of the sessions made use of it; none where that is not known.
    pub used: Option<usize>,
    /// What is known.
    pub why: String,
}

/// The grants of a file, by what these sessions made of them. `surface` is what the file, with the others, resolved to.
pub fn unused(file: &PolicyFile, surface: &Surface, sessions: &[Session]) -> (Vec<Unused>, Vec<Kept>) {
    let mut sorted = Sorted { sessions, unused: Vec::new(), kept: Vec::new() };
    for entry in file.extends.iter().flatten() {
        if matches!(entry.value, Extension::Pack(_)) {
            sorted.unknown(Key::Extends, &entry.place, "what of a toolchain was read is not recorded");
        }
    }
    for entry in file.files.iter().flat_map(|files| files.write.iter().flatten()) {
        sorted.write(entry, surface);
    }
    for entry in file.files.iter().flat_map(|files| files.read.iter().flatten()) {
        sorted.unknown(Key::Read, &entry.place, "what was read is not recorded");
    }
    let Some(network) = &file.network else { return (sorted.unused, sorted.kept) };
    for entry in network.allow.iter().flatten() {
        let patterns: Vec<HostPattern> = match &entry.value {
            HostRule::Host(pattern) => vec![pattern.clone()],
            HostRule::Group(group) => {
                group.hosts.iter().filter_map(|row| HostPattern::parse(row.pattern).ok()).collect()
            }
        };
        let is_it = |who: &str| {
            HostTarget::parse(who).is_ok_and(|target| patterns.iter().any(|pattern| pattern.matches(&target)))
        };
        sorted.reached(Key::Allow, &entry.place, &is_it);
    }
    for entry in network.host_ports.iter().flatten() {
        let port = format!("localhost:{}", entry.value.0);
        sorted.reached(Key::HostPorts, &entry.place, &|who| who == port);
    }
    for entry in network.sockets.iter().flatten() {
        let is_from = |source: &Source| source.place() == Some(&entry.place);
        let known = surface.reach().sockets.iter().find(|socket| is_from(&socket.source));
        match known.map(|socket| format!("socket {}", socket.value)) {
            Some(socket) => sorted.reached(Key::Sockets, &entry.place, &|who| who == socket),
            None => sorted.unknown(Key::Sockets, &entry.place, "it takes no part here"),
        }
    }
    (sorted.unused, sorted.kept)
}

/// What would be gained by one Surface beside another, if anything would: a shrunk policy gives no path, host, port or socket that the
/// old one does not, however it was written.
pub fn gained(before: &Surface, after: &Surface) -> Option<String> {
    let has = |surface: &Surface, wanted: &dyn Fn(&Rule) -> bool| surface.rules().iter().any(wanted);
    let is_write = |rule: &Rule| matches!(rule.effect, Effect::Write(_));
    let is_grant = |rule: &Rule| is_write(rule) || matches!(rule.effect, Effect::Read(_));
    // What an exception opens is granted too.
    for rule in after.rules().iter().filter(|rule| is_grant(rule) || rule.sense == Sense::Exception) {
        let is_covered = |other: &Rule| {
            let is_as_wide = if is_grant(rule) {
                is_write(other) || is_grant(other) && !is_write(rule)
            } else {
                other.effect == rule.effect
            };
            is_as_wide && other.sense == rule.sense && other.pattern == rule.pattern
        };
        if !has(before, &is_covered) {
            return Some(rule.pattern.to_string());
        }
    }
    for rule in before.rules().iter().filter(|rule| rule.effect.takes_away() && rule.sense == Sense::Rule) {
        let is_it =
            |other: &Rule| (other.effect, other.sense, &other.pattern) == (rule.effect, rule.sense, &rule.pattern);
        if !has(after, &is_it) {
            return Some(rule.pattern.to_string());
        }
    }
    let (old, new) = (before.reach(), after.reach());
    let hosts = new.hosts.iter().find(|host| !old.hosts.iter().any(|other| other.value == host.value));
    let private = new.private.iter().find(|host| !old.private.iter().any(|other| other.value == host.value));
    let ports = new.host_ports.iter().find(|port| !old.host_ports.iter().any(|other| other.value == port.value));
    let sockets = new.sockets.iter().find(|socket| !old.sockets.iter().any(|other| other.value == socket.value));
    (hosts.or(private).map(|host| host.value.to_string()))
        .or_else(|| ports.map(|port| format!("localhost:{}", port.value)))
        .or_else(|| sockets.map(|socket| socket.value.to_string()))
        .or_else(|| (before.view() != after.view()).then(|| "the view".to_owned()))
}

struct Sorted<'s> {
    sessions: &'s [Session],
    unused: Vec<Unused>,
    kept: Vec<Kept>,
}

impl Sorted<'_> {
    fn write(&mut self, entry: &Spanned<AllowRule>, surface: &Surface) {
        let Some(grant) = grant(Key::Write, &entry.place) else { return };
        // It may be written anew elsewhere: what it says counts then, not how it was quoted.
        let grant = Grant { value: entry.value.0.text().to_owned(), ..grant };
        let rules: Vec<_> = surface.rules().iter().filter(|rule| rule.source.place() == Some(&entry.place)).collect();
        if rules.is_empty() {
            return self.unknown(Key::Write, &entry.place, "it takes no part here");
        }
        let is_project = rules.iter().any(|rule| rule.pattern.as_path() == Some(surface.root()));
        if is_project {
            return self.unknown(Key::Write, &entry.place, "it is the project itself");
        }
        if rules.iter().any(|rule| !matches!(rule.effect, Effect::Write(_))) || self.sessions.is_empty() {
            return self.unknown(Key::Write, &entry.place, "nothing is recorded of it");
        }
        let patterns: Vec<String> = rules.iter().map(|rule| rule.pattern.to_string()).collect();
        let mut used = 0;
        for session in self.sessions {
            match &session.written {
                None => {
                    return self.unknown(
                        Key::Write,
                        &entry.place,
                        "some sessions had no broker to see what is written",
                    );
                }
                Some(written) => used += usize::from(written.iter().any(|rule| patterns.contains(rule))),
            }
        }
        let place = rules.iter().find_map(|rule| rule.pattern.as_path());
        let is_read_anyway = place.is_some_and(|path| {
            // By another rule than this one.
            surface.allowed_reads().any(|rule| {
                rule.source.place() != Some(&entry.place)
                    && rule.pattern.as_path().is_some_and(|other| path.is_within(other))
            }) && surface.decide(path, Access::Read).is_allowed()
        });
        self.settle(grant, used, "written to", (!is_read_anyway).then_some(Key::Read));
    }

    fn reached(&mut self, key: Key, place: &Place, is_it: &dyn Fn(&str) -> bool) {
        let Some(grant) = grant(key, place) else { return };
        if self.sessions.is_empty() {
            return self.unknown(key, place, "nothing is recorded of it");
        }
        let used = self.sessions.iter().filter(|session| session.reached.iter().any(|who| is_it(who))).count();
        if used == 0 && self.sessions.iter().any(|session| session.is_cut) {
            return self.unknown(key, place, "a session reached more hosts than are recorded");
        }
        self.settle(grant, used, "reached", None);
    }

    fn settle(&mut self, grant: Grant, used: usize, what: &str, instead: Option<Key>) {
        let all = self.sessions.len();
        let sessions = if all == 1 { "the one session that is known".to_owned() } else { format!("{all} sessions") };
        if used > 0 {
            let why =
                if all == 1 { format!("{what} in {sessions}") } else { format!("{what} in {used} of {sessions}") };
            self.kept.push(Kept { grant, used: Some(used), why });
        } else {
            self.unused.push(Unused { grant, why: format!("never {what} in {sessions}"), instead });
        }
    }

    fn unknown(&mut self, key: Key, place: &Place, why: &str) {
        if let Some(grant) = grant(key, place) {
            self.kept.push(Kept { grant, used: None, why: why.to_owned() });
        }
    }
}

fn grant(key: Key, place: &Place) -> Option<Grant> {
    let span = place.span()?.clone();
    let value = place.words().trim_matches(['"', '\'']).to_owned();
    Some(Grant { key, value, span })
}
