//! A record becomes bytes.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use ringfence_plan::Rung;
use ringfence_surface::policy::{Mode, Tier, View};
use ringfence_surface::text::{Place, PolicyText};
use ringfence_surface::{
    Anchor, Effect, GlobToken, Governance, Parts, Pattern, Reach, Role, RootKind, Rule, Segment, Sense, Source,
    Sourced, Surface,
};

use super::{MAGIC, Record, SCHEMA};
use crate::bytes::Writer;

pub(super) fn encode(record: &Record<&Surface>) -> Vec<u8> {
    let parts = record.surface.parts();
    let mut body = Encoder { out: Writer::new(), texts: Texts::of(parts), words: Words::default() };
    body.string(&record.session);
    body.out.number(u64::from(record.agent.is_some()));
    body.string(record.agent.as_deref().unwrap_or_default());
    body.out.number(match record.mode {
        Mode::AcceptEdits => 0,
        Mode::Auto => 1,
    });
    body.out.number(match record.rung {
        Rung::Native => 0,
        Rung::Bwrap => 1,
        Rung::LandlockOnly => 2,
        Rung::Docker => 3,
        Rung::Podman => 4,
        Rung::Chroot => 5,
    });
    body.out.bytes(record.home.as_bytes());
    body.parts(parts);
    let mut head = Writer::after(MAGIC);
    head.number(SCHEMA);
    head.bytes(body.words.all.as_bytes());
    head.number(body.texts.list.len() as u64);
    for text in &body.texts.list {
        head.bytes(&text.name);
        head.bytes(text.kept.as_bytes());
    }
    head.bytes(&body.out.finish());
    head.finish()
}

/// Words that are part of the program: each once, one after the other. Whoever reads them keeps them for good.
#[derive(Default)]
struct Words {
    all: String,
    /// By where each begins and how long it is: comparing them is not worth it.
    at: HashMap<(usize, usize), u64>,
    /// The last two that were asked for. Rules of one table follow each other, and have its name and often its reason.
    last: [(usize, usize, u64); 2],
}

impl Words {
    /// Where a word is that others say too.
    fn shared(&mut self, word: &'static str) -> u64 {
        let (start, length) = (word.as_ptr().addr(), word.len());
        if let Some((.., at)) = self.last.iter().find(|last| (last.0, last.1) == (start, length)) {
            return *at;
        }
        let at = match self.at.get(&(start, length)) {
            Some(at) => *at,
            None => {
                let at = self.once(word);
                self.at.insert((start, length), at);
                at
            }
        };
        self.last = [self.last[1], (start, length, at)];
        at
    }

    /// Where a word is that nobody else says.
    fn once(&mut self, word: &'static str) -> u64 {
        let at = self.all.len() as u64;
        self.all.push_str(word);
        at
    }
}

/// The policy files that places are in, blanked.
struct Texts {
    list: Vec<Blanked>,
    at: HashMap<*const PolicyText, usize>,
}

/// A policy file of which only what is quoted is left. Lines and columns stay.
struct Blanked {
    name: Vec<u8>,
    kept: String,
    /// Where each edge of what is quoted went.
    moved: HashMap<usize, usize>,
}

impl Texts {
    fn of(parts: &Parts) -> Self {
        let mut texts = Self { list: Vec::new(), at: HashMap::new() };
        let mut spans: Vec<(Arc<PolicyText>, Vec<std::ops::Range<usize>>)> = Vec::new();
        for place in places(parts) {
            let at = *texts.at.entry(Arc::as_ptr(place.file())).or_insert_with(|| {
                spans.push((Arc::clone(place.file()), Vec::new()));
                spans.len() - 1
            });
            spans[at].1.extend(place.span().cloned());
        }
        texts.list = spans.iter().map(|(text, spans)| Blanked::new(text, spans)).collect();
        texts
    }
}

impl Blanked {
    fn new(text: &PolicyText, spans: &[std::ops::Range<usize>]) -> Self {
        let mut edges: Vec<(usize, i32)> = spans.iter().flat_map(|span| [(span.start, 1), (span.end, -1)]).collect();
        edges.sort_unstable();
        let (mut kept, mut moved, mut depth) = (String::with_capacity(text.text.len()), HashMap::new(), 0);
        let mut edges = edges.into_iter().peekable();
        for (at, character) in text.text.char_indices().chain([(text.text.len(), '\n')]) {
            while let Some((edge, change)) = edges.next_if(|(edge, _)| *edge <= at) {
                moved.insert(edge, kept.len());
                depth += change;
            }
            kept.push(if depth > 0 || character == '\n' { character } else { ' ' });
        }
        // The last line end is not the file's.
        kept.pop();
        Self { name: text.name.clone(), kept, moved }
    }
}

/// Every place that something of a Surface was written at.
fn places(parts: &Parts) -> impl Iterator<Item = &Place> {
    fn of<T>(values: &[Sourced<T>]) -> impl Iterator<Item = &Source> {
        values.iter().map(|value| &value.source)
    }
    let Reach { hosts, private, host_ports, sockets, inject } = &parts.reach;
    let governed = match &parts.governance {
        Governance::Fenced => None,
        Governance::SelfGoverning(source) => Some(source),
    };
    let caps = [
        parts.caps.memory.as_ref().map(|cap| &cap.source),
        parts.caps.pids.as_ref().map(|cap| &cap.source),
        parts.caps.wall.as_ref().map(|cap| &cap.source),
    ];
    let sources = parts.rules.iter().map(|rule| &rule.source).chain(of(hosts)).chain(of(private)).chain(of(host_ports));
    let sources = sources.chain(of(sockets)).chain(of(inject)).chain(of(&parts.env)).chain(governed);
    sources.chain(caps.into_iter().flatten()).filter_map(Source::place)
}

struct Encoder {
    out: Writer,
    texts: Texts,
    words: Words,
}

impl Encoder {
    fn string(&mut self, text: &str) {
        self.out.bytes(text.as_bytes());
    }

    fn word(&mut self, word: &'static str) {
        let at = self.words.shared(word);
        self.out.number(at);
        self.out.number(word.len() as u64);
    }

    fn parts(&mut self, parts: &Parts) {
        self.out.bytes(parts.root.as_bytes());
        self.out.bytes(parts.workdir.as_bytes());
        self.out.number(match parts.view {
            View::Surface => 0,
            View::Host => 1,
        });
        self.out.number(match parts.tier {
            Tier::Development => 0,
            Tier::Production => 1,
        });
        match &parts.governance {
            Governance::Fenced => self.out.number(0),
            Governance::SelfGoverning(source) => {
                self.out.number(1);
                self.source(source);
            }
        }
        self.list(&parts.rules, Self::rule);
        self.list(&parts.roots, |this, (path, kind)| {
            this.out.bytes(path.as_bytes());
            this.out.number(match kind {
                RootKind::Granted => 0,
                RootKind::Project => 1,
            });
        });
        self.reach(&parts.reach);
        self.sourced(&parts.env, |this, name| this.string(name.as_str()));
        let caps = &parts.caps;
        self.sourced(caps.memory.as_slice(), |this, bytes| this.out.number(*bytes));
        self.sourced(caps.pids.as_slice(), |this, count| this.out.number(u64::from(*count)));
        self.sourced(caps.wall.as_slice(), |this, time| {
            this.out.number(time.as_secs());
            this.out.number(u64::from(time.subsec_nanos()));
        });
        self.list(&parts.packs, |this, pack| this.word(pack));
    }

    fn reach(&mut self, reach: &Reach) {
        self.sourced(&reach.hosts, |this, host| this.string(&host.to_string()));
        self.sourced(&reach.private, |this, host| this.string(&host.to_string()));
        self.sourced(&reach.host_ports, |this, port| this.out.number(u64::from(*port)));
        self.sourced(&reach.sockets, |this, path| this.out.bytes(path.as_bytes()));
        self.sourced(&reach.inject, |this, inject| {
            for text in [&inject.host, &inject.header, inject.variable.as_str(), &inject.prefix] {
                this.string(text);
            }
        });
    }

    fn list<T>(&mut self, list: &[T], one: impl Fn(&mut Self, &T)) {
        self.out.number(list.len() as u64);
        for item in list {
            one(self, item);
        }
    }

    fn sourced<T>(&mut self, list: &[Sourced<T>], one: impl Fn(&mut Self, &T)) {
        self.list(list, |this, item| {
            one(this, &item.value);
            this.source(&item.source);
        });
    }

    fn rule(&mut self, rule: &Rule) {
        let (effect, role) = match rule.effect {
            Effect::Escape => (0, None),
            Effect::Deny => (1, None),
            Effect::Protect => (2, None),
            Effect::Write(role) => (3, Some(role)),
            Effect::Read(role) => (4, Some(role)),
            Effect::Ask => (5, None),
            Effect::ThirdParty => (6, None),
            Effect::Withheld => (7, None),
        };
        self.out.number(effect);
        if let Some(role) = role {
            self.out.number(role_number(role));
        }
        self.out.number(match rule.sense {
            Sense::Rule => 0,
            Sense::Exception => 1,
        });
        self.pattern(&rule.pattern);
        match &rule.text {
            Cow::Borrowed(word) => {
                self.out.number(0);
                let at = self.words.once(word);
                self.out.number(at);
                self.out.number(word.len() as u64);
            }
            Cow::Owned(text) => {
                self.out.number(1);
                self.string(text);
            }
        }
        self.source(&rule.source);
        self.out.number(u64::from(rule.list));
    }

    fn pattern(&mut self, pattern: &Pattern) {
        match &pattern.anchor {
            Anchor::Floating => self.out.number(0),
            Anchor::At(path) => {
                self.out.number(1);
                self.out.bytes(path.as_bytes());
            }
        }
        self.list(&pattern.rest, |this, segment| match segment {
            Segment::Any => this.out.number(0),
            Segment::Name(name) => {
                this.out.number(1);
                this.out.bytes(name);
            }
            Segment::Glob(glob) => {
                this.out.number(2);
                this.list(glob.tokens(), Self::token);
            }
        });
    }

    fn token(&mut self, token: &GlobToken) {
        match token {
            GlobToken::One => self.out.number(0),
            GlobToken::Run => self.out.number(1),
            GlobToken::Literal(bytes) => {
                self.out.number(2);
                self.out.bytes(bytes);
            }
            GlobToken::Class { negated, ranges } => {
                self.out.number(if *negated { 4 } else { 3 });
                self.list(ranges, |this, (from, to)| {
                    this.out.number(u64::from(*from));
                    this.out.number(u64::from(*to));
                });
            }
        }
    }

    fn source(&mut self, source: &Source) {
        match source {
            Source::Call => self.out.number(0),
            Source::Git { setting } => {
                self.out.number(7);
                self.out.bytes(setting.as_bytes());
            }
            Source::Table { name, reason } => {
                self.out.number(1);
                self.word(name);
                self.word(reason);
            }
            Source::Pack { name, reason } => {
                self.out.number(2);
                self.word(name);
                self.word(reason);
            }
            Source::Flag { name } => {
                self.out.number(3);
                self.word(name);
            }
            Source::Default { reason } => {
                self.out.number(4);
                self.word(reason);
            }
            Source::Host { reason } => {
                self.out.number(5);
                self.word(reason);
            }
            Source::File(place) => {
                let at = self.texts.at.get(&Arc::as_ptr(place.file())).copied().unwrap_or_default();
                self.out.number(6);
                self.out.number(at as u64);
                self.out.number(u64::from(place.span().is_some()));
                if let Some(span) = place.span() {
                    let moved = |edge| self.texts.list[at].moved.get(edge).copied().unwrap_or_default() as u64;
                    let (start, end) = (moved(&span.start), moved(&span.end));
                    self.out.number(start);
                    self.out.number(end);
                }
            }
        }
    }
}

/// Whoever adds a role gives it a number here and in [`super::decode`], and changes the schema.
fn role_number(role: Role) -> u64 {
    match role {
        Role::WorkingDir => 0,
        Role::Write => 1,
        Role::Sibling => 2,
        Role::Metadata => 3,
        Role::Tooling => 4,
        Role::System => 5,
        Role::Read => 6,
        Role::Reference => 7,
        Role::Cache => 8,
        Role::GitDir => 9,
        Role::Scratch => 10,
        Role::Private => 11,
    }
}
