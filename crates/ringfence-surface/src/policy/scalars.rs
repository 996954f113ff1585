//! The values that stand in a policy: rules, names, sizes, words. Each is checked when it is read, so that no later stage
//! meets a malformed one.

use std::time::Duration;

use super::node::{Node, unknown_word};
use super::shape::{Schema, Shape, Word, integer, wrong_kind};
use crate::curated::groups::{GROUPS, Group, group};
use crate::curated::packs::{PACKS, Pack, pack};
use crate::host::HostPattern;
use crate::pattern::{PathRule, RuleError};
use crate::template::TemplateKind;
use crate::text::Diagnostic;

/// The version of the policy language.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// The only one.
    One,
}

impl Shape for Version {
    fn read(node: &Node, said: &mut Vec<Diagnostic>) -> Option<Self> {
        match node.value {
            super::node::Value::Integer(Some(1)) => Some(Self::One),
            super::node::Value::Integer(_) => {
                let message = "this ringfence reads policies of version 1";
                said.push(
                    Diagnostic::error(node.place.clone(), message).help("write `version = 1`, or update ringfence"),
                );
                None
            }
            _ => {
                wrong_kind(node, "the number 1", said);
                None
            }
        }
    }

    fn schema() -> Schema {
        Schema::Integer { least: 1, most: 1 }
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
    said_now.help = error.hint();
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
            said.push(
                Diagnostic::error(node.place.clone(), message)
                    .help(r"to take something out, name it in `deny`; a name that begins with `!` is written `\\!`"),
            );
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
                let names: Vec<&str> = GROUPS.iter().map(|g| g.name).collect();
                let mut unknown = unknown_word(node.place.clone(), "network group", &text, &names);
                let remedy = format!("; a host of your own network is written with its port, `{text}:443`");
                unknown.help = unknown.help.map(|help| help + &remedy);
                said.push(unknown);
            }
            return found.map(Self::Group);
        }
        match HostPattern::parse(&text) {
            Ok(pattern) => Some(Self::Host(pattern)),
            Err(error) => {
                let mut bad = Diagnostic::error(node.place.clone(), error.to_string());
                bad.help = error.hint();
                said.push(bad);
                None
            }
        }
    }

    fn schema() -> Schema {
        Schema::String { about: "A group, `host`, `host:port` or `*.host`." }
    }
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
}

impl Shape for EnvName {
    fn read(node: &Node, said: &mut Vec<Diagnostic>) -> Option<Self> {
        let text = String::read(node, said)?;
        let name = Self::new(&text);
        if name.is_none() {
            let message = "the name of one variable is needed here: letters, digits and `_`";
            said.push(
                Diagnostic::error(node.place.clone(), message)
                    .help("name each variable; wildcards would pass secrets along"),
            );
        }
        name
    }

    fn schema() -> Schema {
        Schema::String { about: "The name of one variable." }
    }
}

/// A number of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes(pub u64);

impl Bytes {
    /// Reads `512MiB`, `4GiB`, `2GB`.
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let number: u64 = text[..digits].parse().ok()?;
        let unit: u64 = match text[digits..].trim_start() {
            "B" => 1,
            "KB" => 1_000,
            "KiB" => 1 << 10,
            "MB" => 1_000_000,
            "MiB" => 1 << 20,
            "GB" => 1_000_000_000,
            "GiB" => 1 << 30,
            "TB" => 1_000_000_000_000,
            "TiB" => 1 << 40,
            _ => return None,
        };
        number.checked_mul(unit).filter(|n| *n > 0).map(Self)
    }
}

impl Shape for Bytes {
    fn read(node: &Node, said: &mut Vec<Diagnostic>) -> Option<Self> {
        let text = String::read(node, said)?;
        let size = Self::parse(&text);
        if size.is_none() {
            said.push(
                Diagnostic::error(node.place.clone(), "a size is needed here")
                    .help("write a number and a unit: `512MiB`, `4GiB`"),
            );
        }
        size
    }

    fn schema() -> Schema {
        Schema::String { about: "A number and a unit: `512MiB`, `4GiB`." }
    }
}

/// How long a session may last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Wall(pub Duration);

impl Wall {
    /// Reads `30s`, `90m`, `2h`, `1h30m`.
    pub fn parse(text: &str) -> Option<Self> {
        let mut total: u64 = 0;
        let mut smallest = u64::MAX;
        let mut rest = text;
        while !rest.is_empty() {
            let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
            let number: u64 = rest[..digits].parse().ok()?;
            let unit = match rest[digits..].chars().next()? {
                'd' => 86_400,
                'h' => 3_600,
                'm' => 60,
                's' => 1,
                _ => return None,
            };
            // Units run from large to small, each once: `1m1h` is more likely a slip than meant.
            if unit >= smallest {
                return None;
            }
            smallest = unit;
            total = total.checked_add(number.checked_mul(unit)?)?;
            rest = &rest[digits + 1..];
        }
        (total > 0).then(|| Self(Duration::from_secs(total)))
    }
}

impl Shape for Wall {
    fn read(node: &Node, said: &mut Vec<Diagnostic>) -> Option<Self> {
        let text = String::read(node, said)?;
        let wall = Self::parse(&text);
        if wall.is_none() {
            said.push(
                Diagnostic::error(node.place.clone(), "a length of time is needed here")
                    .help("write it as `30s`, `90m`, `2h` or `1h30m`"),
            );
        }
        wall
    }

    fn schema() -> Schema {
        Schema::String { about: "A length of time: `30s`, `90m`, `2h`, `1h30m`." }
    }
}

/// A number of processes and threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pids(pub u32);

impl Shape for Pids {
    fn read(node: &Node, said: &mut Vec<Diagnostic>) -> Option<Self> {
        integer(node, 1, 4_194_304, said).and_then(|n| u32::try_from(n).ok()).map(Self)
    }

    fn schema() -> Schema {
        Schema::Integer { least: 1, most: 4_194_304 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        for (text, expected) in [
            ("4GiB", Some(4 << 30)),
            ("512 MiB", Some(512 << 20)),
            ("2GB", Some(2_000_000_000)),
            ("1B", Some(1)),
            ("0GiB", None),
            ("4", None),
            ("4G", None),
            ("GiB", None),
            ("-1GiB", None),
            ("99999999999TiB", None),
            ("4gib", None),
            ("", None),
        ] {
            assert_eq!(Bytes::parse(text).map(|b| b.0), expected, "{text}");
        }
    }

    #[test]
    fn times() {
        for (text, expected) in [
            ("2h", Some(7200)),
            ("1h30m", Some(5400)),
            ("90s", Some(90)),
            ("1d", Some(86_400)),
            ("0s", None),
            ("", None),
            ("2", None),
            ("1m1h", None),
            ("1h1h", None),
            ("2x", None),
            ("h", None),
            ("99999999999999999999h", None),
            ("9999999999999999h", None),
            ("2é", None),
        ] {
            assert_eq!(Wall::parse(text).map(|w| w.0.as_secs()), expected, "{text}");
        }
    }

    #[test]
    fn variable_names() {
        for (text, expected) in
            [("PATH", true), ("_x1", true), ("1A", false), ("A*", false), ("A=B", false), ("", false), ("Ä", false)]
        {
            assert_eq!(EnvName::new(text).is_some(), expected, "{text}");
        }
    }
}
