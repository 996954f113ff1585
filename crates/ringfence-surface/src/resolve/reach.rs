//! Hosts, loopback ports and sockets.

use super::agent::Address;
use super::{Cx, Layer, Level, Reading, source_of};
use crate::agent::Client;
use crate::curated::groups::{Group, group};
use crate::curated::packs::Pack;
use crate::host::{HostPattern, HostTarget};
use crate::path::AbsPath;
use crate::policy::{EnvName, HostRule, Inject};
use crate::report::Dropped;
use crate::source::Source;
use crate::surface::{Injection, Reach, Sourced};
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
    inject: Vec<Entry<Injection>>,
}

impl<T> Entry<T> {
    pub(super) fn value(&self) -> &T {
        &self.value
    }
}

impl Asked {
    /// Is a variable's value added on the way out?
    pub(super) fn injects(&self, name: &EnvName) -> bool {
        self.inject.iter().any(|entry| entry.value.variable == *name)
    }

    /// Is this header added to the requests for a host?
    pub(super) fn adds_to(&self, host: &str, header: &str) -> bool {
        self.inject.iter().any(|entry| entry.value.host == host && entry.value.header == header)
    }

    pub(super) fn add_group(&mut self, name: &str, source: &Source) {
        self.hosts.extend(group_hosts(name, source));
    }

    /// Another address for a model: on the host's own loopback, or somewhere that may be private.
    pub(super) fn add_address(&mut self, address: &Address, source: &Source) {
        let (source, text) = (source.clone(), format!("{}:{}", address.host, address.port));
        if address.is_loopback() {
            self.host_ports.push(Entry { value: address.port, text, source });
        } else if let Ok(value) = HostPattern::parse(&text) {
            let entry = Entry { value, text, source };
            self.private.push(entry.clone());
            self.hosts.push(entry);
        }
    }

    pub(super) fn add_injection(&mut self, value: Injection, source: Source) {
        self.inject.push(Entry { text: format!("inject {value}"), value, source });
    }

    pub(super) fn finish(self) -> Reach {
        Reach {
            hosts: finish(self.hosts),
            private: finish(self.private),
            host_ports: finish(self.host_ports),
            sockets: finish(self.sockets),
            inject: last_of_each_host(self.inject),
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

impl Cx<'_> {
    pub(super) fn reach(&mut self, reading: Reading, packs: &[&'static Pack]) -> Result<Asked, Diagnostic> {
        let mut asked = Asked {
            hosts: Vec::new(),
            private: Vec::new(),
            host_ports: Vec::new(),
            sockets: Vec::new(),
            inject: Vec::new(),
        };
        let mut project_speaks = false;
        for layer in self.layers(reading) {
            let Some(network) = &layer.file.network else { continue };
            project_speaks |= network.allow.is_some() && layer.level != Level::User;
            asked.hosts.extend(network.allow.iter().flatten().flat_map(|rule| entries(rule, "")));
            asked.private.extend(network.private.iter().flatten().flat_map(|rule| entries(rule, "private ")));
            asked.inject.extend(network.inject.iter().flatten().filter_map(injection));
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
        self.reach_model(&mut asked, reading)?;
        Ok(asked)
    }

    /// An agent that ringfence does not know must be one that a file describes.
    pub(super) fn must_be_described(&self, name: &str) -> Result<(), Diagnostic> {
        let layers = self.layers(Reading::WithProject);
        let described =
            layers.iter().flat_map(|layer| layer.file.agent.iter().flat_map(|a| a.keys().map(String::as_str)));
        let known: Vec<&str> = described.chain(Client::ALL.map(Client::word)).collect();
        if known.contains(&name) { Ok(()) } else { Err(super::root::unknown_name("agent", name, known)) }
    }

    /// An untrusted project reaches only what is reached without it.
    pub(super) fn narrow_reach(&mut self, asked: &mut Asked, baseline: &Asked) {
        let untrusted = |_: &Source| Dropped::Untrusted;
        let limit: Vec<HostPattern> = baseline.hosts.iter().map(|e| e.value.clone()).collect();
        self.keep_hosts(&mut asked.hosts, &limit, untrusted);
        let private: Vec<HostPattern> = baseline.private.iter().map(|e| e.value.clone()).collect();
        self.keep_hosts(&mut asked.private, &private, untrusted);
        let inject: Vec<Injection> = baseline.inject.iter().map(|e| e.value.clone()).collect();
        self.keep(&mut asked.inject, &inject, untrusted);
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

    /// A host that is not reached leads nowhere, private or with a credential or not: most likely a slip. The user's own file
    /// speaks for every project, and few reach all that it names.
    pub(super) fn warn_of_unreached(&mut self, asked: &Asked) {
        let users: Vec<_> = self.inputs.layers.iter().filter(|l| l.level == Level::User).map(|l| &l.text).collect();
        let is_users = |source: &Source| source.place().is_some_and(|place| users.contains(&place.file()));
        for entry in asked.private.iter().filter(|entry| !is_users(&entry.source)) {
            let meets = |host: &Entry<HostPattern>| host.value.covers(&entry.value) || entry.value.covers(&host.value);
            if !asked.hosts.iter().any(meets) {
                let message = format!("{} has no effect: no entry of `allow` reaches such a host", entry.text);
                let help = format!("add \"{}\" to `allow` in [network]", entry.value);
                self.said.push(Diagnostic::warning(entry.source.place().cloned(), message).help(help));
            }
        }
        for entry in asked.inject.iter().filter(|entry| !is_users(&entry.source)) {
            let secure = HostTarget::new(&entry.value.host, 443).ok();
            let is_reached = |target: HostTarget| asked.hosts.iter().any(|host| host.value.matches(&target));
            if !secure.is_some_and(is_reached) {
                let message =
                    format!("{} has no effect: no entry of `allow` reaches port 443 of that host", entry.text);
                let help = format!("add \"{}:443\" to `allow` in [network]", entry.value.host);
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

impl HostRule {
    /// Is everything that a pattern admits admitted by one of these hosts?
    pub(crate) fn covers(&self, pattern: &HostPattern) -> bool {
        hosts_of(self).iter().any(|host| host.covers(pattern))
    }
}

fn hosts_of(rule: &HostRule) -> Vec<HostPattern> {
    match rule {
        HostRule::Host(pattern) => vec![pattern.clone()],
        HostRule::Group(group) => patterns(group),
    }
}

/// The name was checked when the file was read.
fn injection((host, inject): (&String, &Inject)) -> Option<Entry<Injection>> {
    let value = Injection {
        host: HostTarget::new(host, 443).ok()?.name().to_owned(),
        header: inject.header.value.as_str().to_owned(),
        variable: inject.from_env.value.clone(),
        prefix: inject.prefix.as_ref().map(|prefix| prefix.value.as_str().to_owned()).unwrap_or_default(),
    };
    Some(Entry { text: format!("inject {value}"), value, source: source_of(&inject.header) })
}

/// A later file speaks in the place of an earlier one.
fn last_of_each_host(entries: Vec<Entry<Injection>>) -> Vec<Sourced<Injection>> {
    let mut kept: Vec<Sourced<Injection>> = Vec::new();
    for Entry { value, source, .. } in entries {
        kept.retain(|other| other.value.host != value.host);
        kept.push(Sourced { value, source });
    }
    kept
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
