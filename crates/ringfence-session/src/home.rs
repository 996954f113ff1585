//! What the private home starts with: the user's name for git, the keys of SSH servers that may be reached, and those settings
//! of tools that hold no secret.
//!
//! Git's configuration goes along into every session, since `git init` and a commit in a fresh directory are ordinary work.
//! The other settings belong to packs. Everything is written anew from a list of keys; no file of the user's is shown.

mod cargo;
mod git;
mod lines;
mod ssh;

use std::io;

use ringfence_surface::curated::packs::{Base, Format, Inside, Settings, pack};
use ringfence_surface::{AbsPath, Access, Because, Effect, HostFacts, Look, Role, Rule, Source, Surface, follow};

use crate::beneath::{Dir, Owner, read_real};
use crate::environment::Variables;

pub(crate) use git::Signing;

/// No file of settings that somebody wrote by hand is longer.
const MOST_BYTES: u64 = 1 << 20;

/// What is known where the home is made.
pub(crate) struct Ground<'a> {
    pub(crate) surface: &'a Surface,
    pub(crate) facts: &'a HostFacts,
    pub(crate) caller: &'a Variables,
    pub(crate) owner: Owner,
}

/// Fills the home of a session that has not begun. Says whether commits were to be signed.
///
/// # Errors
/// When a file cannot be written.
pub(crate) fn furnish(ground: &Ground<'_>, session: &AbsPath, look: &mut dyn Look) -> io::Result<Signing> {
    let home = Dir::open(&session.join("home"), ground.owner)?;
    let signing = git::furnish(ground, &home, look)?;
    ssh::furnish(ground, &home, look)?;
    for pack in ground.surface.packs().iter().filter_map(|name| pack(name)) {
        for settings in pack.settings {
            ground.settings(settings, &home, look)?;
        }
    }
    Ok(signing)
}

impl Ground<'_> {
    /// One file of settings.
    fn settings(&self, settings: &Settings, home: &Dir, look: &mut dyn Look) -> io::Result<()> {
        let Some(base) = self.base(settings.base) else { return Ok(()) };
        let mut found = settings.names.iter().filter_map(|name| self.read(&base.join(name), look));
        let text = match (found.next(), settings.format) {
            (Some((_, text)), _) => text,
            // Cargo is told something of ours too.
            (None, Format::Toml) => Vec::new(),
            (None, _) => return Ok(()),
        };
        drop(found);
        let look = std::cell::RefCell::new(look);
        let may_pass = |value: &[u8]| self.may_pass(value, &mut **look.borrow_mut());
        let cleaned = match settings.format {
            Format::Toml => {
                cargo::settings(std::str::from_utf8(&text).unwrap_or_default(), settings.keys, &may_pass).into_bytes()
            }
            format => lines::clean(&text, format, settings.keys, &may_pass),
        };
        match settings.inside {
            Inside::Home(path) => put(home, path.as_bytes(), &cleaned),
            Inside::Cache { dir, name } => match self.facts.project_cache(self.surface.root()) {
                Some(caches) => put(&Dir::open(&caches.join(dir), self.owner)?, name.as_bytes(), &cleaned),
                None => Ok(()),
            },
        }
    }

    fn base(&self, base: Base) -> Option<AbsPath> {
        let home = self.facts.all_homes().into_iter().next();
        match base {
            Base::Home => home,
            Base::Config => self.facts.directory_variable("XDG_CONFIG_HOME").or_else(|| Some(home?.join(".config"))),
            Base::Cargo => self.facts.directory_variable("CARGO_HOME").or_else(|| Some(home?.join(".cargo"))),
        }
    }

    /// A file of the user's and where it really is, unless a policy denies it.
    fn read(&self, path: &AbsPath, look: &mut dyn Look) -> Option<(AbsPath, Vec<u8>)> {
        let real = self.real(path, look)?;
        if self.denied(&real) == Denied::ByPolicy {
            return None;
        }
        let text = read_real(&real, MOST_BYTES).ok()?;
        Some((real, text))
    }

    /// Where something of the user's really is. A link that the agent may write leads nowhere: it would choose what is read.
    pub(crate) fn real(&self, path: &AbsPath, look: &mut dyn Look) -> Option<AbsPath> {
        let found = follow(&AbsPath::root(), path.as_bytes(), look).ok()?;
        (!found.links.iter().any(|link| self.is_writable(link))).then_some(found.path)
    }

    /// May the agent write this? A directory that is made anew inside, as `/tmp`, is not the one that is meant here. What is protected only
    /// because the user's git reads it may have been written by an earlier session, when it did not.
    pub(crate) fn is_writable(&self, path: &AbsPath) -> bool {
        let verdict = self.surface.decide(path, Access::Write);
        if let (Because::Rule(Rule { source: Source::Git { .. }, .. }), Some(parent)) = (verdict.because, path.parent())
        {
            return self.is_writable(&parent);
        }
        let is_private = |rule: &Rule| rule.effect == Effect::Write(Role::Private);
        verdict.is_allowed() && !matches!(verdict.because, Because::Rule(rule) if is_private(rule))
    }

    /// Does somebody forbid this place in a policy?
    pub(crate) fn is_denied_by_policy(&self, path: &AbsPath) -> bool {
        self.denied(path) == Denied::ByPolicy
    }

    fn denied(&self, path: &AbsPath) -> Denied {
        match self.surface.decide(path, Access::Read).because {
            Because::Rule(rule) if rule.source.is_written() && is_taken_away(rule.effect) => Denied::ByPolicy,
            Because::Rule(rule) if is_taken_away(rule.effect) => Denied::AsSensitive,
            _ => Denied::No,
        }
    }

    /// May this value be known inside? An address with a password in it may not; a path must lead somewhere there.
    fn may_pass(&self, value: &[u8], look: &mut dyn Look) -> bool {
        if has_password(value) || value.first() == Some(&b'~') {
            return false;
        }
        let is_readable = |path: AbsPath| self.surface.decide(&path, Access::Read).is_allowed();
        value.first() != Some(&b'/') || follow(&AbsPath::root(), value, look).is_ok_and(|found| is_readable(found.path))
    }
}

/// Whether and by whom something of the user's is denied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Denied {
    No,
    AsSensitive,
    ByPolicy,
}

fn is_taken_away(effect: Effect) -> bool {
    matches!(effect, Effect::Deny | Effect::Escape)
}

/// Writes a file below a directory; nothing is written for nothing.
fn put(dir: &Dir, path: &[u8], content: &[u8]) -> io::Result<()> {
    if content.is_empty() {
        return Ok(());
    }
    match path.iter().rposition(|byte| *byte == b'/') {
        Some(slash) => dir.below(&path[..slash])?.put(&path[slash + 1..], content),
        None => dir.put(path, content),
    }
}

/// `scheme://user:password@host`, anywhere in it.
pub(crate) fn has_password(value: &[u8]) -> bool {
    let mut rest = value;
    while let Some(at) = rest.windows(3).position(|window| window == b"://") {
        rest = &rest[at + 3..];
        let ends = |byte: &u8| matches!(byte, b'/' | b'?' | b'#' | b'"' | b'\'') || byte.is_ascii_whitespace();
        let end = rest.iter().position(ends).unwrap_or(rest.len());
        if rest[..end].contains(&b'@') {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_in_addresses() {
        for value in ["https://u:p@h/x", "a https://t@h", "git+ssh://git@h/x", "https://a/ https://u:p@b"] {
            assert!(has_password(value.as_bytes()), "{value}");
        }
        for value in ["https://h/x@y", "a@b", "https://h?u=a@b", "", "://", "git@h:x"] {
            assert!(!has_password(value.as_bytes()), "{value}");
        }
    }
}
