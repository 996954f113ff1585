//! Bytes become a record again; whatever is not exactly what was written is `None`.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ringfence_plan::Rung;
use ringfence_surface::policy::{EnvName, Mode, Tier, View};
use ringfence_surface::text::{Place, PolicyText};
use ringfence_surface::{
    AbsPath, Anchor, Caps, Effect, Glob, GlobToken, Governance, HostPattern, Injection, Parts, Pattern, Reach, Role,
    RootKind, Rule, Segment, Sense, Source, Sourced, Surface,
};

use super::Record;
use crate::bytes::Reader;

/// Which schema follows.
pub(super) fn schema(bytes: &[u8]) -> Option<u64> {
    Reader::new(bytes).number()
}

pub(super) fn decode(bytes: &[u8]) -> Option<Record> {
    let mut head = Reader::new(bytes);
    head.number()?;
    let words = kept(std::str::from_utf8(head.bytes()?).ok()?);
    let text = |head: &mut Reader<'_>| {
        let (name, text) = (head.bytes()?.to_vec(), head.bytes()?);
        Some(Arc::new(PolicyText { name, text: std::str::from_utf8(text).ok()?.to_owned() }))
    };
    let texts = (0..head.count()?).map(|_| text(&mut head)).collect::<Option<Vec<_>>>()?;
    let mut body = Decoder { input: Reader::new(head.bytes()?), words, texts };
    let session = body.string()?;
    let has_agent = body.input.number()? == 1;
    let agent = Some(body.string()?).filter(|_| has_agent);
    let mode = match body.input.number()? {
        0 => Mode::AcceptEdits,
        1 => Mode::Auto,
        _ => return None,
    };
    let rung = match body.input.number()? {
        0 => Rung::Native,
        1 => Rung::Bwrap,
        2 => Rung::LandlockOnly,
        3 => Rung::Docker,
        4 => Rung::Podman,
        5 => Rung::Chroot,
        _ => return None,
    };
    let home = body.path()?;
    let parts = body.parts()?;
    (body.input.is_done() && head.is_done()).then(|| {
        let surface = Surface::from_parts(parts);
        Record { session, agent, mode, rung, home, surface }
    })
}

/// The words of a program live as long as it does. Those of records are few: each set of them is kept once.
fn kept(words: &str) -> &'static str {
    static SEEN: Mutex<Vec<&'static str>> = Mutex::new(Vec::new());
    let mut seen = SEEN.lock().unwrap_or_else(PoisonError::into_inner);
    match seen.iter().find(|known| **known == words) {
        Some(known) => known,
        None => {
            let new: &'static str = Box::leak(words.into());
            seen.push(new);
            new
        }
    }
}

struct Decoder<'a> {
    input: Reader<'a>,
    words: &'static str,
    texts: Vec<Arc<PolicyText>>,
}

impl Decoder<'_> {
    fn string(&mut self) -> Option<String> {
        Some(std::str::from_utf8(self.input.bytes()?).ok()?.to_owned())
    }

    fn word(&mut self) -> Option<&'static str> {
        let from = usize::try_from(self.input.number()?).ok()?;
        let length = usize::try_from(self.input.number()?).ok()?;
        self.words.get(from..from.checked_add(length)?)
    }

    fn path(&mut self) -> Option<AbsPath> {
        let bytes = self.input.bytes()?;
        AbsPath::lexical(bytes).ok().filter(|path| path.as_bytes() == bytes)
    }

    fn list<T>(&mut self, one: impl Fn(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let count = self.input.count()?;
        let mut list = Vec::with_capacity(count.min(1 << 16));
        for _ in 0..count {
            list.push(one(self)?);
        }
        Some(list)
    }

    fn sourced<T>(&mut self, one: impl Fn(&mut Self) -> Option<T>) -> Option<Vec<Sourced<T>>> {
        self.list(|this| Some(Sourced { value: one(this)?, source: this.source()? }))
    }

    /// One, or none.
    fn cap<T>(&mut self, one: impl Fn(&mut Self) -> Option<T>) -> Option<Option<Sourced<T>>> {
        let mut list = self.sourced(one)?;
        let cap = list.pop();
        list.is_empty().then_some(cap)
    }

    fn parts(&mut self) -> Option<Parts> {
        let (root, workdir) = (self.path()?, self.path()?);
        let view = match self.input.number()? {
            0 => View::Surface,
            1 => View::Host,
            _ => return None,
        };
        let tier = match self.input.number()? {
            0 => Tier::Development,
            1 => Tier::Production,
            _ => return None,
        };
        let governance = match self.input.number()? {
            0 => Governance::Fenced,
            1 => Governance::SelfGoverning(self.source()?),
            _ => return None,
        };
        let rules = self.list(Self::rule)?;
        let roots = self.list(|this| Some((this.path()?, this.root_kind()?)))?;
        let reach = self.reach()?;
        let env = self.sourced(|this| this.string().map(|name| EnvName::built_in(&name)))?;
        let caps = Caps {
            memory: self.cap(|this| this.input.number())?,
            pids: self.cap(|this| u32::try_from(this.input.number()?).ok())?,
            wall: self.cap(|this| {
                let (seconds, nanos) = (this.input.number()?, u32::try_from(this.input.number()?).ok()?);
                (nanos < 1_000_000_000).then(|| Duration::new(seconds, nanos))
            })?,
        };
        let packs = self.list(Self::word)?;
        Some(Parts { root, workdir, view, tier, governance, rules, roots, reach, env, caps, packs })
    }

    fn root_kind(&mut self) -> Option<RootKind> {
        Some(match self.input.number()? {
            0 => RootKind::Granted,
            1 => RootKind::Project,
            _ => return None,
        })
    }

    fn reach(&mut self) -> Option<Reach> {
        let host = |this: &mut Self| HostPattern::parse(std::str::from_utf8(this.input.bytes()?).ok()?).ok();
        Some(Reach {
            hosts: self.sourced(host)?,
            private: self.sourced(host)?,
            host_ports: self.sourced(|this| u16::try_from(this.input.number()?).ok())?,
            sockets: self.sourced(Self::path)?,
            inject: self.sourced(|this| {
                Some(Injection {
                    host: this.string()?,
                    header: this.string()?,
                    variable: EnvName::built_in(&this.string()?),
                    prefix: this.string()?,
                })
            })?,
        })
    }

    fn rule(&mut self) -> Option<Rule> {
        let effect = match self.input.number()? {
            0 => Effect::Escape,
            1 => Effect::Deny,
            2 => Effect::Protect,
            3 => Effect::Write(self.role()?),
            4 => Effect::Read(self.role()?),
            5 => Effect::Ask,
            6 => Effect::ThirdParty,
            7 => Effect::Withheld,
            _ => return None,
        };
        let sense = match self.input.number()? {
            0 => Sense::Rule,
            1 => Sense::Exception,
            _ => return None,
        };
        let pattern = self.pattern()?;
        let text = match self.input.number()? {
            0 => self.word()?.into(),
            1 => self.string()?.into(),
            _ => return None,
        };
        let source = self.source()?;
        Some(Rule { effect, sense, pattern, text, source, list: u32::try_from(self.input.number()?).ok()? })
    }

    fn role(&mut self) -> Option<Role> {
        Some(match self.input.number()? {
            0 => Role::WorkingDir,
            1 => Role::Write,
            2 => Role::Sibling,
            3 => Role::Metadata,
            4 => Role::Tooling,
            5 => Role::System,
            6 => Role::Read,
            7 => Role::Reference,
            8 => Role::Cache,
            9 => Role::GitDir,
            10 => Role::Scratch,
            11 => Role::Private,
            _ => return None,
        })
    }

    fn pattern(&mut self) -> Option<Pattern> {
        let anchor = match self.input.number()? {
            0 => Anchor::Floating,
            1 => Anchor::At(self.path()?),
            _ => return None,
        };
        let rest = self.list(|this| {
            Some(match this.input.number()? {
                0 => Segment::Any,
                1 => Segment::Name(this.input.bytes()?.to_vec()),
                2 => Segment::Glob(Glob::from_tokens(this.list(Self::token)?)),
                _ => return None,
            })
        })?;
        Some(Pattern { anchor, rest })
    }

    fn token(&mut self) -> Option<GlobToken> {
        let kind = self.input.number()?;
        Some(match kind {
            0 => GlobToken::One,
            1 => GlobToken::Run,
            2 => GlobToken::Literal(self.input.bytes()?.to_vec()),
            3 | 4 => {
                let character = |this: &mut Self| char::from_u32(u32::try_from(this.input.number()?).ok()?);
                GlobToken::Class {
                    negated: kind == 4,
                    ranges: self.list(|this| Some((character(this)?, character(this)?)))?,
                }
            }
            _ => return None,
        })
    }

    fn source(&mut self) -> Option<Source> {
        Some(match self.input.number()? {
            0 => Source::Call,
            1 => Source::Table { name: self.word()?, reason: self.word()? },
            2 => Source::Pack { name: self.word()?, reason: self.word()? },
            3 => Source::Flag { name: self.word()? },
            4 => Source::Default { reason: self.word()? },
            5 => Source::Host { reason: self.word()? },
            6 => Source::File(self.place()?),
            7 => Source::Git { setting: String::from_utf8(self.input.bytes()?.to_vec()).ok()? },
            _ => return None,
        })
    }

    fn place(&mut self) -> Option<Place> {
        let text = Arc::clone(self.texts.get(usize::try_from(self.input.number()?).ok()?)?);
        if self.input.number()? == 0 {
            return Some(Place::whole(&text));
        }
        let (start, end) = (usize::try_from(self.input.number()?).ok()?, usize::try_from(self.input.number()?).ok()?);
        text.text.get(start..end)?;
        Some(Place::new(&text, start..end))
    }
}
