//! The values that stand in a policy: rules, names, sizes, words. Each is checked when it is read, so that no later stage
//! meets a malformed one.

use super::node::{Node, Value, unknown_word};
use super::shape::{Schema, Shape, Word, integer, wrong_kind_unquoted};
use crate::curated::groups::{GROUPS, Group, group};
use crate::curated::packs::{PACKS, Pack, pack};
use crate::host::{HostError, HostPattern};
use crate::pattern::{PathRule, RuleError};
use crate::template::TemplateKind;
use crate::text::{Diagnostic, did_you_mean, short};

/// The version of the policy language.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// The only one.
    One,
}

impl Shape for Version {
    fn read(node: &Node, said: &mut Vec<Diagnostic>) -> Option<Self> {
        match &node.value {
            Value::Integer(Some(1)) => Some(Self::One),
            Value::Integer(_) => {
                let message = "this ringfence reads policies of version 1";
                said.push(
                    Diagnostic::error(node.place.clone(), message).help("write `version = 1`, or update ringfence"),
                );
                None
            }
            _ => {
                said.push(wrong_kind_unquoted(node, "the number 1", |text| text == "1"));
                None
            }
        }
    }

    fn schema() -> Schema {
        Schema::Integer { least: 1, most: 1 }
    }

    fn absent_help() -> Option<&'static str> {
        Some("write `version = 1` at the top")
    }
}

/// What exists for the agent beside what is named.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum View {
    /// Nothing.
    Surface,
    /// Everything readable on the host, but the sensitive set.
    Host,
}

impl Word for View {
    const WHAT: &'static str = "view";
    const WORDS: &'static [(&'static str, Self)] = &[("surface", Self::Surface), ("host", Self::Host)];
}

/// How much must hold before a session starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Tier {
    /// A missing kernel layer may be accepted, visibly.
    Development,
    /// Every claim that the OS can carry must hold.
    Production,
}

impl Word for Tier {
    const WHAT: &'static str = "tier";
    const WORDS: &'static [(&'static str, Self)] =
        &[("development", Self::Development), ("production", Self::Production)];
}

/// How much an agent's own tool calls are held back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Mode {
    /// Reads, edits and read-only commands pass.
    AcceptEdits,
    /// Everything passes; the fence is the guard.
    Auto,
}

impl Word for Mode {
    const WHAT: &'static str = "mode";
    const WORDS: &'static [(&'static str, Self)] = &[("accept-edits", Self::AcceptEdits), ("auto", Self::Auto)];
}

/// What an agent's client has to sign in with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Credentials {
    /// Nothing of the user's.
    None,
    /// A placeholder; the key is added on the way out.
    Inject,
    /// The user's own sign-in without what renews it, or the key in a variable.
    Copy,
}

impl Word for Credentials {
    const WHAT: &'static str = "credentials";
    const WORDS: &'static [(&'static str, Self)] =
        &[("none", Self::None), ("inject", Self::Inject), ("copy", Self::Copy)];
}

/// How an operator's mounts go together with the surface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SurfaceMode {
    /// Added; the surface wins a conflict.
    Additive,
    /// Dropped.
    Exclusive,
}

impl Word for SurfaceMode {
    const WHAT: &'static str = "surface_mode";
    const WORDS: &'static [(&'static str, Self)] = &[("additive", Self::Additive), ("exclusive", Self::Exclusive)];
}

/// What a mount permits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum MountMode {
    /// Reading.
    ReadOnly,
    /// Reading and writing.
    ReadWrite,
}

impl Word for MountMode {
    const WHAT: &'static str = "mount mode";
    const WORDS: &'static [(&'static str, Self)] = &[("ro", Self::ReadOnly), ("rw", Self::ReadWrite)];
}

/// Reports a rule that does not parse, underlining the part that is meant.
fn rule_error(node: &Node, skipped: usize, error: &RuleError, said: &mut Vec<Diagnostic>) {
    // The text of a string begins after its quote; a span inside is only right if nothing before it was escaped.
    let place = match error.at() {
        Some(at) if !node.place.words().contains('\\') => {
            let quote = node.place.words().find(|c| c != '"' && c != '\'').unwrap_or(0) + skipped;
            node.place.within(quote + at.start..quote + at.end)
        }
        _ => node.place.clone(),
    };
    let mut said_now = Diagnostic::error(place, error.to_string());
    said_now.help = error.hint_in(node.format);
    said.push(said_now);
}

/// A path or pattern that grants something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllowRule(pub PathRule);

impl Shape for AllowRule {
    fn read(node: &Node, said: &mut Vec<Diagnostic>) -> Option<Self> {
        let text = String::read(node, said)?;
        if text.starts_with('!') {
            let message = "an exception can only be made to `deny` or `protect`";
            let escape = node.format.escape('!');
            let help = format!("to take something out, name it in `deny`; for a name that begins with `!` {escape}");
            said.push(Diagnostic::error(node.place.clone(), message).help(help));
            return None;
        }
        PathRule::parse(&text, TemplateKind::Path).map_err(|e| rule_error(node, 0, &e, said)).ok().map(Self)
    }

    fn schema() -> Schema {
        Schema::String {
            about: "A path or pattern: `src`, `../docs`, `~/data`, `$GOPATH/pkg/mod`, `src/*.rs`, `docs/**/*.md`.",
        }
    }
}

/// A path or pattern that takes something away, or an exception to one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DenyRule {
    /// The pattern.
    pub rule: PathRule,
    /// Does it take something away, or is it an exception?
    pub sense: Sense,
}

/// What a rule of `deny` or `protect` does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Sense {
    /// It takes away.
    Rule,
    /// Written with `!`: what it matches is not taken away by the patterns above it in the same list.
    Exception,
}

impl Shape for DenyRule {
    fn read(node: &Node, said: &mut Vec<Diagnostic>) -> Option<Self> {
        let text = String::read(node, said)?;
        let (pattern, sense) =
            text.strip_prefix('!').map_or((text.as_str(), Sense::Rule), |rest| (rest, Sense::Exception));
        let rule = PathRule::parse(pattern, TemplateKind::Path);
        let skipped = text.len() - pattern.len();
        rule.map_err(|e| rule_error(node, skipped, &e, said)).ok().map(|rule| Self { rule, sense })
    }

    fn schema() -> Schema {
        Schema::String {
            about: "A path or pattern; `**/name` is meant at any depth below every root; a leading `!` makes an exception.",
        }
    }
}

/// A path that is one place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlaceRule(pub PathRule);

impl Shape for PlaceRule {
    fn read(node: &Node, said: &mut Vec<Diagnostic>) -> Option<Self> {
        let text = String::read(node, said)?;
        PathRule::parse_one_place(&text, TemplateKind::Path).map_err(|e| rule_error(node, 0, &e, said)).ok().map(Self)
    }

    fn schema() -> Schema {
        Schema::String { about: "A path, without wildcards." }
    }
}

/// A unix socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SocketRule(pub PathRule);

impl Shape for SocketRule {
    fn read(node: &Node, said: &mut Vec<Diagnostic>) -> Option<Self> {
        let text = String::read(node, said)?;
        PathRule::parse_one_place(&text, TemplateKind::Socket).map_err(|e| rule_error(node, 0, &e, said)).ok().map(Self)
    }

    fn schema() -> Schema {
        Schema::String { about: "The path of a unix socket; `$SSH_AUTH_SOCK` and `$XDG_RUNTIME_DIR` may be used." }
    }
}

/// What a policy builds on.
#[derive(Debug, Clone)]
pub enum Extension {
    /// A built-in pack.
    Pack(&'static Pack),
    /// Another policy file.
    File(PathRule),
}

impl PartialEq for Extension {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Pack(a), Self::Pack(b)) => a.name == b.name,
            (Self::File(a), Self::File(b)) => a == b,
            _ => false,
        }
    }
}

impl Eq for Extension {}

impl Shape for Extension {
    fn read(node: &Node, said: &mut Vec<Diagnostic>) -> Option<Self> {
        let text = String::read(node, said)?;
        if text.contains('/') || text.ends_with(".toml") {
            let rule = PathRule::parse_one_place(&text, TemplateKind::Path);
            return rule.map_err(|e| rule_error(node, 0, &e, said)).ok().map(Self::File);
        }
        let found = pack(&text);
        if found.is_none() {
            let names: Vec<&str> = PACKS.iter().map(|p| p.name).collect();
            said.push(unknown_word(node.place.clone(), "pack", &text, &names));
        }
        found.map(Self::Pack)
    }

    fn schema() -> Schema {
        Schema::String {
            about: "A pack (`git`, `go`, `jvm`, `node`, `python`, `rust`) or the path of another policy file.",
        }
    }
}

/// What may be reached.
#[derive(Debug, Clone)]
pub enum HostRule {
    /// A built-in group of hosts.
    Group(&'static Group),
    /// One host, or the names below one.
    Host(HostPattern),
}

impl PartialEq for HostRule {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Group(a), Self::Group(b)) => a.name == b.name,
            (Self::Host(a), Self::Host(b)) => a == b,
            _ => false,
        }
    }
}

impl Eq for HostRule {}

impl Shape for HostRule {
    fn read(node: &Node, said: &mut Vec<Diagnostic>) -> Option<Self> {
        let text = String::read(node, said)?;
        // A bare word is a group, so that a mistyped group is never taken for a host of the local network.
        if !text.is_empty()
            && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
            && !text.bytes().all(|b| b.is_ascii_digit())
        {
            let found = group(&text);
            if found.is_none() {
                said.push(unknown_group(node, &text));
            }
            return found.map(Self::Group);
        }
        HostPattern::parse(&text).map_err(|error| said.push(host_error(node, &error))).ok().map(Self::Host)
    }

    fn schema() -> Schema {
        Schema::String { about: "A group, `host`, `host:port` or `*.host`." }
    }
}

fn host_error(node: &Node, error: &HostError) -> Diagnostic {
    let mut bad = Diagnostic::error(node.place.clone(), error.to_string());
    bad.help = error.hint();
    bad
}

/// The error for a bare word that is no group. It may still be a host: of the local network, or the loopback.
fn unknown_group(node: &Node, text: &str) -> Diagnostic {
    if let Err(error @ (HostError::Loopback(_) | HostError::OddAddress(_))) = HostPattern::parse(text) {
        return host_error(node, &error);
    }
    let names: Vec<&str> = GROUPS.iter().map(|g| g.name).collect();
    let unknown = unknown_word(node.place.clone(), "network group", text, &names);
    let with_port = format!("{text}:443");
    if did_you_mean(text, names.iter().copied()).is_some() || HostPattern::parse(&with_port).is_err() {
        return unknown;
    }
    let known = names.join(", ");
    unknown.help(format!("known here: {known}; a host of your own network is written with its port, `{with_port}`"))
}

/// A TCP port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Port(pub u16);

impl Shape for Port {
    fn read(node: &Node, said: &mut Vec<Diagnostic>) -> Option<Self> {
        integer(node, 1, 65_535, said).and_then(|n| u16::try_from(n).ok()).map(Self)
    }

    fn schema() -> Schema {
        Schema::Integer { least: 1, most: 65_535 }
    }
}

/// The name of an environment variable.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EnvName(String);

impl EnvName {
    /// Checks a name.
    pub fn new(text: &str) -> Option<Self> {
        let mut bytes = text.bytes();
        let first = bytes.next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_');
        (first && bytes.all(|b| b.is_ascii_alphanumeric() || b == b'_')).then(|| Self(text.to_owned()))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// A row of a built-in table, which may end in `*`.
    pub fn built_in(text: &str) -> Self {
        Self(text.to_owned())
    }

    /// Does it mean this variable? A wildcard never reaches one that is known to carry secrets or to run code.
    pub fn means(&self, name: &[u8]) -> bool {
        match self.0.strip_suffix('*') {
            None => self.0.as_bytes() == name,
            Some(start) => name.starts_with(start.as_bytes()) && crate::curated::env::dangerous(name).is_none(),
        }
    }

    /// What to write in place of a text that is no name.
    fn hint(text: &str) -> Option<String> {
        if text.contains('*') {
            return Some("name each variable; wildcards would pass secrets along".to_owned());
        }
        let bare = text.strip_prefix('$').or_else(|| text.split_once('=').map(|(name, _)| name))?;
        Self::new(bare).map(|name| format!("write `{}`", short(name.as_str())))
    }
}

impl Shape for EnvName {
    fn read(node: &Node, said: &mut Vec<Diagnostic>) -> Option<Self> {
        let text = String::read(node, said)?;
        let name = Self::new(&text);
        if name.is_none() {
            let message = "the name of one variable is needed here: letters, digits and `_`";
            let mut bad = Diagnostic::error(node.place.clone(), message);
            bad.help = Self::hint(&text);
            said.push(bad);
        }
        name
    }

    fn schema() -> Schema {
        Schema::String { about: "The name of one variable." }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variable_names() {
        for (text, expected) in
            [("PATH", true), ("_x1", true), ("1A", false), ("A*", false), ("A=B", false), ("", false), ("Ä", false)]
        {
            assert_eq!(EnvName::new(text).is_some(), expected, "{text}");
        }
    }
}
