//! Hosts, loopback ports and sockets.

use super::{Cx, Layer, Level, Reading, source_of};
use crate::curated::groups::{Group, group};
use crate::curated::packs::Pack;
use crate::host::HostPattern;
use crate::path::AbsPath;
use crate::policy::HostRule;
use crate::report::Dropped;
use crate::source::Source;
use crate::surface::{Reach, Sourced};
use crate::text::{Diagnostic, Spanned};

/// An entry and whether an untrusted project asked for it.
#[derive(Debug, Clone)]
pub(super) struct Entry<T> {
    value: T,
    /// As it was written: a group's name for each of its hosts.
    text: String,
    source: Source,
}

/// What is asked for, before ceilings.
#[derive(Debug, Clone)]
pub(super) struct Asked {
    hosts: Vec<Entry<HostPattern>>,
    private: Vec<Entry<HostPattern>>,
    host_ports: Vec<Entry<u16>>,
    pub(super) sockets: Vec<Entry<AbsPath>>,
}

impl<T> Entry<T> {
    pub(super) fn value(&self) -> &T {
        &self.value
    }
}

impl Asked {
    pub(super) fn finish(self) -> Reach {
        Reach {
            hosts: finish(self.hosts),
            private: finish(self.private),
            host_ports: finish(self.host_ports),
            sockets: finish(self.sockets),
        }
    }
}

fn finish<T: PartialEq>(entries: Vec<Entry<T>>) -> Vec<Sourced<T>> {
    let mut kept: Vec<Sourced<T>> = Vec::new();
    for Entry { value, source, .. } in entries {
        if !kept.iter().any(|other| other.value == value) {
            kept.push(Sourced { value, source });
        }
    }
    kept
}

/// The agents that are known, and the group of hosts that each one's model answers from.
const AGENTS: &[(&str, &str)] = &[("claude", "anthropic"), ("codex", "openai"), ("gemini", "google-ai")];

fn provider(agent: &str) -> Option<&'static Group> {
    AGENTS.iter().find(|(name, _)| *name == agent).and_then(|(_, hosts)| group(hosts))
}

impl Cx<'_> {
    pub(super) fn reach(&mut self, reading: Reading, packs: &[&'static Pack]) -> Result<Asked, Diagnostic> {
        let mut asked = Asked { hosts: Vec::new(), private: Vec::new(), host_ports: Vec::new(), sockets: Vec::new() };
        let mut project_speaks = false;
        for layer in self.layers(reading) {
            let Some(network) = &layer.file.network else { continue };
            project_speaks |= network.allow.is_some() && layer.level != Level::User;
            asked.hosts.extend(network.allow.iter().flatten().flat_map(|rule| entries(rule, "")));
            asked.private.extend(network.private.iter().flatten().flat_map(|rule| entries(rule, "private ")));
            for port in network.host_ports.iter().flatten() {
                let (value, text) = (port.value.0, port.value.0.to_string());
                asked.host_ports.push(Entry { value, text, source: source_of(port) });
            }
            for socket in network.sockets.iter().flatten() {
                let dir = layer.path.parent().unwrap_or_else(AbsPath::root);
                match self.place(&socket.value.0, &dir) {
                    Ok(found) => {
                        let (value, text) = (found.path, socket.value.0.text().to_owned());
                        asked.sockets.push(Entry { value, text, source: source_of(socket) });
                    }
                    Err(why) => self.omit(socket.value.0.text(), source_of(socket), why),
                }
            }
        }
        if !project_speaks {
            for pack in packs {
                for name in pack.groups {
                    let source = Source::Pack { name: pack.name, reason: "the hosts its builds need" };
                    asked.hosts.extend(group_hosts(name, &source));
                }
            }
        }
        if let Some(name) = &self.inputs.request.agent {
            match provider(name) {
                Some(found) => asked.hosts.extend(group_hosts(found.name, &Source::Flag { name: "--agent" })),
                None => self.must_be_described(name)?,
            }
        }
        Ok(asked)
    }

    /// An agent that ringfence does not know must be one that a file describes.
    fn must_be_described(&self, name: &str) -> Result<(), Diagnostic> {
        let layers = self.layers(Reading::WithProject);
        let described =
            layers.iter().flat_map(|layer| layer.file.agent.iter().flat_map(|a| a.keys().map(String::as_str)));
        let known: Vec<&str> = described.chain(AGENTS.iter().map(|(agent, _)| *agent)).collect();
        if known.contains(&name) { Ok(()) } else { Err(super::root::unknown_name("agent", name, known)) }
    }

    /// An untrusted project reaches only what is reached without it.
    pub(super) fn narrow_reach(&mut self, asked: &mut Asked, baseline: &Asked) {
        let untrusted = |_: &Source| Dropped::Untrusted;
        let limit: Vec<HostPattern> = baseline.hosts.iter().map(|e| e.value.clone()).collect();
        self.keep_hosts(&mut asked.hosts, &limit, untrusted);
        let private: Vec<HostPattern> = baseline.private.iter().map(|e| e.value.clone()).collect();
        self.keep_hosts(&mut asked.private, &private, untrusted);
        let ports: Vec<u16> = baseline.host_ports.iter().map(|e| e.value).collect();
        self.keep(&mut asked.host_ports, &ports, untrusted);
        let sockets: Vec<AbsPath> = baseline.sockets.iter().map(|e| e.value.clone()).collect();
        self.keep(&mut asked.sockets, &sockets, untrusted);
    }

    /// Nothing is reached beyond the managed file, where it speaks.
    pub(super) fn cap_reach(&mut self, asked: &mut Asked, managed: &Layer) {
        let Some(network) = &managed.file.network else { return };
        let beyond =
            |word: &'static str| move |_: &Source| super::grants::beyond(format!("the managed policy's `{word}`"));
        if let Some(allow) = &network.allow {
            let limit: Vec<HostPattern> = allow.iter().flat_map(|rule| hosts_of(&rule.value)).collect();
            self.keep_hosts(&mut asked.hosts, &limit, beyond("network.allow"));
        }
        if let Some(private) = &network.private {
            let limit: Vec<HostPattern> = private.iter().flat_map(|rule| hosts_of(&rule.value)).collect();
            self.keep_hosts(&mut asked.private, &limit, beyond("network.private"));
        }
        if let Some(ports) = &network.host_ports {
            let limit: Vec<u16> = ports.iter().map(|p| p.value.0).collect();
            self.keep(&mut asked.host_ports, &limit, beyond("network.host_ports"));
        }
        if let Some(sockets) = &network.sockets {
            let dir = managed.path.parent().unwrap_or_else(AbsPath::root);
            let limit: Vec<AbsPath> =
                sockets.iter().filter_map(|s| Some(self.place(&s.value.0, &dir).ok()?.path)).collect();
            self.keep(&mut asked.sockets, &limit, beyond("network.sockets"));
        }
    }

    /// A host that is not reached leads nowhere, private or not: most likely a slip.
    pub(super) fn warn_of_private(&mut self, asked: &Asked) {
        for entry in &asked.private {
            let meets = |host: &Entry<HostPattern>| host.value.covers(&entry.value) || entry.value.covers(&host.value);
            if !asked.hosts.iter().any(meets) {
                let message = format!("{} has no effect: no entry of `allow` reaches such a host", entry.text);
                let help = format!("add \"{}\" to `allow` in [network]", entry.value);
                self.said.push(Diagnostic::warning(entry.source.place().cloned(), message).help(help));
            }
        }
    }

    fn keep_hosts(
        &mut self,
        entries: &mut Vec<Entry<HostPattern>>,
        limit: &[HostPattern],
        why: impl Fn(&Source) -> Dropped,
    ) {
        let mut kept = Vec::new();
        for entry in std::mem::take(entries) {
            if limit.iter().any(|l| l.covers(&entry.value)) {
                kept.push(entry);
                continue;
            }
            // A broad wish under a narrow ceiling comes down to the ceiling.
            for narrower in limit.iter().filter(|l| entry.value.covers(l)) {
                kept.push(Entry { value: narrower.clone(), ..entry.clone() });
            }
            self.omit(entry.text, entry.source.clone(), why(&entry.source));
        }
        *entries = kept;
    }

    fn keep<T: PartialEq>(&mut self, entries: &mut Vec<Entry<T>>, limit: &[T], why: impl Fn(&Source) -> Dropped) {
        let mut kept = Vec::new();
        for entry in std::mem::take(entries) {
            if limit.contains(&entry.value) {
                kept.push(entry);
            } else {
                self.omit(entry.text, entry.source.clone(), why(&entry.source));
            }
        }
        *entries = kept;
    }
}

fn hosts_of(rule: &HostRule) -> Vec<HostPattern> {
    match rule {
        HostRule::Host(pattern) => vec![pattern.clone()],
        HostRule::Group(group) => patterns(group),
    }
}

/// The hosts of a rule. `word` tells the lists apart when an entry takes no part.
fn entries(rule: &Spanned<HostRule>, word: &str) -> Vec<Entry<HostPattern>> {
    let text = match &rule.value {
        HostRule::Group(group) => group.name.to_owned(),
        HostRule::Host(pattern) => pattern.to_string(),
    };
    let entry = |value| Entry { value, text: format!("{word}{text}"), source: source_of(rule) };
    hosts_of(&rule.value).into_iter().map(entry).collect()
}

/// Rows are tested to parse.
fn patterns(group: &Group) -> Vec<HostPattern> {
    group.hosts.iter().filter_map(|row| HostPattern::parse(row.pattern).ok()).collect()
}

fn group_hosts(name: &str, source: &Source) -> Vec<Entry<HostPattern>> {
    let hosts = group(name).map(patterns).unwrap_or_default();
    let entry = |value| Entry { value, text: name.to_owned(), source: source.clone() };
    hosts.into_iter().map(entry).collect()
}
