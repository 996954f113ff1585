//! Walking a tree with the rules in hand: each name costs one step, not a whole path.
//!
//! A layer that masks what exists asks about every entry below the roots. [`Cursor`] keeps what the rules know of a
//! directory, so that an entry of it is answered from there.

use crate::decide::{Access, Because};
use crate::matcher::{Active, Covering, Hit};
use crate::path::AbsPath;
use crate::surface::{Rule, Surface};

/// A directory, and every rule that covers it or may cover something below it.
#[derive(Debug, Clone)]
pub struct Cursor<'s> {
    surface: &'s Surface,
    active: Active,
    /// What covers it, in the order of the rules.
    covering: Covering,
    depth: u32,
}

/// What the rules take away from an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing<'s> {
    /// Nothing that its directory does not lose already.
    Open,
    /// It may not be written.
    Protected(&'s Rule),
    /// It may not be read.
    Denied(&'s Rule),
}

impl Surface {
    /// Begins a walk at a directory.
    pub fn cursor(&self, at: &AbsPath) -> Cursor<'_> {
        let (active, covering) = self.matcher.start();
        let mut cursor = Cursor { surface: self, active, covering, depth: 0 };
        for name in at.components() {
            cursor = cursor.enter(name);
        }
        cursor
    }
}

impl<'s> Cursor<'s> {
    /// What the rules take away from the entry `name`.
    pub fn standing(&self, name: &[u8]) -> Standing<'s> {
        let (_, new) = self.step(name);
        let takes_away = |hit: &Hit| self.surface.parts.rules[hit.id as usize].effect.takes_away();
        // Where a root begins, floating rules begin to count that matched further up.
        let is_root = new.searched.is_some() && self.covering.searched.is_none();
        if !is_root && !new.hits.iter().any(takes_away) {
            return Standing::Open;
        }
        let covering = self.merged(new);
        let decided = |access| match self.surface.judge(&covering, access).because {
            Because::Rule(rule) if rule.effect.takes_away() => Some(rule),
            _ => None,
        };
        match (decided(Access::Read), decided(Access::Write)) {
            (Some(rule), _) => Standing::Denied(rule),
            (None, Some(rule)) => Standing::Protected(rule),
            (None, None) => Standing::Open,
        }
    }

    /// Goes into the directory `name`.
    #[must_use]
    pub fn enter(&self, name: &[u8]) -> Self {
        let (active, new) = self.step(name);
        Self { surface: self.surface, active, covering: self.merged(new), depth: self.depth + 1 }
    }

    /// One component further down: what is active there, and what covers it beside what covers this directory.
    fn step(&self, name: &[u8]) -> (Active, Covering) {
        let mut active = Active::default();
        let mut new = Covering { hits: Vec::new(), ..self.covering };
        self.surface.matcher.step_into(&self.active, name, self.depth + 1, &mut active, &mut new);
        (active, new)
    }

    fn merged(&self, new: Covering) -> Covering {
        let mut hits = [self.covering.hits.as_slice(), &new.hits].concat();
        hits.sort_unstable_by_key(|hit| hit.id);
        Covering { hits, ..new }
    }

    /// Is everything that rules can say of what is below this directory also said of what is below the other? Then what is moved
    /// from there to here is under no rule that it was not under before. "No" may also mean that it cannot be told.
    pub fn adds_nothing_to(&self, other: &Self) -> bool {
        let rules =
            |covering: &Covering| covering.hits.iter().map(|hit| hit.id).collect::<std::collections::BTreeSet<_>>();
        let (here, there) = (rules(&self.covering), rules(&other.covering));
        // Floating rules hold in roots alone.
        let is_searched = |covering: &Covering| covering.searched.is_some();
        here == there
            && is_searched(&self.covering) == is_searched(&other.covering)
            && self.active.is_within(&other.active)
    }

    /// The rule that takes something away below the entry `name`, and comes to that by this name: as `**/.cargo/config.toml` by
    /// `.cargo`, and as `**/.envrc` by none. If the entry is a link, what lies where it leads has another path, and so is under
    /// no such rule.
    pub fn begins(&self, name: &[u8]) -> Option<&'s Rule> {
        let there = self.enter(name);
        let begun = there.active.without(&self.active);
        if begun.is_empty() {
            return None;
        }
        let taken = |id: u32| {
            let new = Covering { hits: vec![Hit { id, depth: there.depth + 1 }], ..there.covering };
            match self.surface.judge(&there.merged(new), Access::Write).because {
                Because::Rule(rule) if rule.effect.takes_away() => Some(rule),
                _ => None,
            }
        };
        self.surface.matcher.ends_below(begun).into_iter().find_map(taken)
    }

    /// Can any rule speak of something below? If not, the walk can end here.
    pub fn is_exhausted(&self) -> bool {
        self.active.is_empty()
    }
}
