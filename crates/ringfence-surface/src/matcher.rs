//! All patterns of a Surface in one tree, walked once per question.
//!
//! A path is read component by component; the tree keeps the set of places where some pattern may go on. Names are found by
//! hash, `*.ext` by its ending, other wildcards by three bytes they hold, so the cost follows the length of the path, not
//! the number of rules. Only patterns with fewer than three plain bytes in a row, such as `?[ab]*`, are tried one by one.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::num::NonZeroU32;

use crate::edges::Edges;
use crate::glob::Glob;
use crate::path::AbsPath;
use crate::pattern::{Anchor, Pattern, Segment};

/// What a directory is in which floating patterns hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RootKind {
    /// A grant. Every component of a path in it is tested, those above it included.
    Granted,
    /// The project. Built-in patterns do not test its own name and what lies above it: a project may be called `build` or lie in
    /// `.claude/worktrees`.
    Project,
}

/// A pattern that covers the path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Hit {
    /// The number the pattern was added under.
    pub(crate) id: u32,
    /// How many components of the path it took: deeper is more specific.
    pub(crate) depth: u32,
}

/// Everything the rules know of a path.
#[derive(Debug, Clone, Default)]
pub(crate) struct Covering {
    /// The patterns that cover it.
    pub(crate) hits: Vec<Hit>,
    /// How deep the project's root lies, if the path is in it.
    pub(crate) root: u32,
    /// How deep the outermost root lies that the path is in. Floating patterns hold in roots alone.
    pub(crate) searched: Option<u32>,
}

/// The nodes where some pattern may go on, each once.
#[derive(Debug, Clone, Default)]
pub(crate) struct Active {
    list: Vec<u32>,
    /// One bit for each node, made only when the list is long: a hostile policy can keep thousands of nodes active.
    seen: Vec<u64>,
}

impl Active {
    const SHORT: usize = 32;

    /// With room for what most paths need.
    fn with_room() -> Self {
        Self { list: Vec::with_capacity(ROOM), seen: Vec::new() }
    }

    fn clear(&mut self) {
        self.list.clear();
        self.seen.clear();
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Is every node of this also of the other?
    pub(crate) fn is_within(&self, other: &Self) -> bool {
        self.list.iter().all(|node| other.list.contains(node))
    }

    /// The nodes of this that are not of the other.
    pub(crate) fn without(&self, other: &Self) -> Vec<u32> {
        self.list.iter().filter(|node| !other.list.contains(node)).copied().collect()
    }

    /// Adds a node; `false` if it was there.
    fn insert(&mut self, node: u32) -> bool {
        if self.list.len() < Self::SHORT {
            if self.list.contains(&node) {
                return false;
            }
        } else {
            if self.seen.is_empty() {
                for node in std::mem::take(&mut self.list) {
                    self.mark(node);
                    self.list.push(node);
                }
            }
            if !self.mark(node) {
                return false;
            }
        }
        self.list.push(node);
        true
    }

    fn mark(&mut self, node: u32) -> bool {
        let (word, bit) = (node as usize / 64, 1_u64 << (node % 64));
        if self.seen.len() <= word {
            self.seen.resize(word + 1, 0);
        }
        let is_new = self.seen[word] & bit == 0;
        self.seen[word] |= bit;
        is_new
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Matcher {
    nodes: Vec<Node>,
    names: Edges,
    wilds: Vec<Wild>,
    /// The patterns that end at a node, each with the one before it that ends there.
    ends: Vec<(u32, Option<Place>)>,
    /// The directory of the last pattern, and its node: patterns come sorted.
    last: (AbsPath, u32),
}

/// So many places, or rules, most paths have at once.
const ROOM: usize = 16;

const TOP: u32 = 0;
/// Where floating patterns begin.
const FLOATING: u32 = 1;

/// There are thousands of nodes at every start, so they are small: what few of them have stands elsewhere.
#[derive(Debug, Clone, Default)]
struct Node {
    /// Where its wildcards are.
    wild: Option<Place>,
    /// Where `**` goes: a node that stays active.
    any: Option<Place>,
    /// The last pattern that ends here.
    end: Option<Place>,
    /// Stays active whatever the next component is.
    stays: bool,
    root: Option<RootKind>,
}

/// A place in a list, in four bytes also where there may be none.
#[derive(Debug, Clone, Copy)]
struct Place(NonZeroU32);

impl Place {
    /// The place where the next one of a list will be.
    fn after<T>(list: &[T]) -> Self {
        // A policy is of bounded size, and so is everything made of it.
        Self(NonZeroU32::new(list.len() as u32 + 1).unwrap_or(NonZeroU32::MAX))
    }

    fn get(self) -> usize {
        self.0.get() as usize - 1
    }
}

/// Children that are not found by their whole name.
#[derive(Debug, Clone, Default)]
struct Wild {
    endings: Affixes,
    beginnings: Affixes,
    /// The others, each under three bytes that a name must hold to match it.
    parts: HashMap<[u8; 3], Vec<(Glob, u32)>, BuildHasherDefault<NameHasher>>,
    /// Those without three such bytes: the only ones that are tried one after the other.
    loose: Vec<(Glob, u32)>,
}

impl Wild {
    /// Where a pattern is kept: under the three bytes that the fewest others share.
    fn bucket(&mut self, glob: &Glob) -> &mut Vec<(Glob, u32)> {
        let parts =
            glob.literals().flat_map(|bytes| bytes.windows(3)).filter_map(|part| <[u8; 3]>::try_from(part).ok());
        match parts.min_by_key(|part| self.parts.get(part).map_or(0, Vec::len)) {
            Some(part) => self.parts.entry(part).or_default(),
            None => &mut self.loose,
        }
    }
}

impl Wild {
    /// Where they lead.
    fn nodes(&self) -> impl Iterator<Item = u32> + '_ {
        let names = self.endings.names.values().chain(self.beginnings.names.values());
        let globs = self.parts.values().flatten().chain(&self.loose).map(|(_, node)| node);
        names.chain(globs).copied()
    }
}

type Names = HashMap<Box<[u8]>, u32, BuildHasherDefault<NameHasher>>;

/// Names found by a part of fixed length at one end.
#[derive(Debug, Clone, Default)]
struct Affixes {
    lengths: Vec<usize>,
    names: Names,
    /// The outermost bytes of the parts, one bit each: most names are turned away without a look-up.
    edges: [u64; 4],
}

impl Affixes {
    fn find<'a>(
        &'a self,
        edge: Option<&u8>,
        part: impl Fn(usize) -> Option<&'a [u8]> + 'a,
    ) -> impl Iterator<Item = u32> + 'a {
        let may_match = edge.is_some_and(|byte| self.edges[usize::from(byte >> 6)] & (1 << (byte & 63)) != 0);
        let lengths = if may_match { self.lengths.as_slice() } else { &[] };
        lengths.iter().filter_map(move |n| self.names.get(part(*n)?).copied())
    }

    fn add(&mut self, bytes: &[u8], edge: u8, make: impl FnOnce() -> u32) -> u32 {
        if !self.lengths.contains(&bytes.len()) {
            self.lengths.push(bytes.len());
        }
        self.edges[usize::from(edge >> 6)] |= 1 << (edge & 63);
        *self.names.entry(bytes.into()).or_insert_with(make)
    }
}

/// Names are a few bytes long and come from a policy of bounded size: a keyed hash would cost more than the whole walk.
#[derive(Default)]
struct NameHasher(u64);

impl Hasher for NameHasher {
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.0 = (self.0.rotate_left(5) ^ u64::from_le_bytes(word)).wrapping_mul(0x517c_c1b7_2722_0a95);
        }
    }

    fn finish(&self) -> u64 {
        // The map takes its buckets from the low bits, which a product mixes least.
        self.0 ^ (self.0 >> 32)
    }
}

impl Matcher {
    pub(crate) fn new() -> Self {
        Self::with_room(0)
    }

    /// With room for so many patterns.
    pub(crate) fn with_room(count: usize) -> Self {
        let mut nodes = Vec::with_capacity(count + count / 2 + 2);
        nodes.extend([Node::default(), Node { stays: true, ..Node::default() }]);
        Self {
            nodes,
            names: Edges::with_room(count + count / 2),
            wilds: Vec::new(),
            ends: Vec::with_capacity(count),
            last: (AbsPath::root(), TOP),
        }
    }

    /// Adds a pattern under a number.
    pub(crate) fn add(&mut self, pattern: &Pattern, id: u32) {
        let (mut at, mut rest) = match &pattern.anchor {
            Anchor::At(path) => (self.path_node(path), pattern.rest.as_slice()),
            Anchor::Floating => (FLOATING, pattern.rest.as_slice()),
        };
        // A floating pattern's leading `**` is the floating node itself.
        if at == FLOATING && rest.first() == Some(&Segment::Any) {
            rest = &rest[1..];
        }
        for segment in rest {
            at = self.step(at, segment);
        }
        let place = Place::after(&self.ends);
        let before = self.nodes[at as usize].end.replace(place);
        self.ends.push((id, before));
    }

    /// Makes floating patterns hold for `path` and everything below it.
    pub(crate) fn add_root(&mut self, path: &AbsPath, kind: RootKind) {
        let at = self.path_node(path);
        let root = &mut self.nodes[at as usize].root;
        if *root != Some(RootKind::Project) {
            *root = Some(kind);
        }
    }

    /// Every pattern that covers `path`.
    pub(crate) fn hits(&self, path: &AbsPath) -> Vec<Hit> {
        self.covering(path).hits
    }

    /// Everything the rules know of `path`.
    pub(crate) fn covering(&self, path: &AbsPath) -> Covering {
        let (mut active, mut covering) = self.start();
        let mut next = Active::with_room();
        for (depth, name) in (1..).zip(path.components()) {
            self.step_into(&active, name, depth, &mut next, &mut covering);
            if next.is_empty() {
                break;
            }
            std::mem::swap(&mut active, &mut next);
        }
        covering
    }

    /// What is active at `/`, and what covers it.
    pub(crate) fn start(&self) -> (Active, Covering) {
        let mut active = Active::with_room();
        let mut covering = Covering { hits: Vec::with_capacity(ROOM), root: 0, searched: None };
        self.enter(TOP, 0, &mut active, &mut covering);
        // Whether the path is in a root shows further down, so floating patterns are followed from the top.
        active.insert(FLOATING);
        (active, covering)
    }

    /// What is active one component further down; `next` is emptied first.
    pub(crate) fn step_into(&self, active: &Active, name: &[u8], depth: u32, next: &mut Active, to: &mut Covering) {
        next.clear();
        for at in &active.list {
            self.advance(*at, name, depth, next, to);
        }
    }

    /// The numbers of all patterns that end further down than these nodes.
    pub(crate) fn ends_below(&self, nodes: Vec<u32>) -> Vec<u32> {
        let mut ends = Vec::new();
        let (mut left, mut seen) = (nodes.clone(), nodes);
        while let Some(at) = left.pop() {
            let node = &self.nodes[at as usize];
            let wild = node.wild.iter().flat_map(|place| self.wilds[place.get()].nodes());
            let any = node.any.map(|place| place.get() as u32);
            let below: Vec<u32> = self.names.from(at).chain(wild).chain(any).filter(|to| !seen.contains(to)).collect();
            for to in below {
                let mut end = self.nodes[to as usize].end;
                while let Some(place) = end {
                    let (id, before) = self.ends[place.get()];
                    ends.push(id);
                    end = before;
                }
                seen.push(to);
                left.push(to);
            }
        }
        ends
    }

    fn advance(&self, at: u32, name: &[u8], depth: u32, next: &mut Active, to: &mut Covering) {
        let node = &self.nodes[at as usize];
        if node.stays {
            next.insert(at);
        }
        if let Some(child) = self.names.find(at, name) {
            self.enter(child, depth, next, to);
        }
        let Some(wild) = node.wild.map(|place| &self.wilds[place.get()]) else { return };
        for child in wild.endings.find(name.last(), |n| name.len().checked_sub(n).map(|from| &name[from..])) {
            self.enter(child, depth, next, to);
        }
        for child in wild.beginnings.find(name.first(), |n| name.get(..n)) {
            self.enter(child, depth, next, to);
        }
        // Without parts no window of the name is looked up.
        let windows = if wild.parts.is_empty() { &[] } else { name };
        let by_part = windows.windows(3).filter_map(|part| wild.parts.get(part)).flatten();
        for (glob, child) in by_part.chain(&wild.loose) {
            if glob.matches(name) {
                self.enter(*child, depth, next, to);
            }
        }
    }

    /// Makes a node active, notes what ends there, and follows what needs no further component.
    fn enter(&self, at: u32, depth: u32, next: &mut Active, to: &mut Covering) {
        if !next.insert(at) {
            return;
        }
        let node = &self.nodes[at as usize];
        let mut end = node.end;
        while let Some(place) = end {
            let (id, before) = self.ends[place.get()];
            to.hits.push(Hit { id, depth });
            end = before;
        }
        if let Some(any) = node.any {
            self.enter(any.get() as u32, depth, next, to);
        }
        if node.root == Some(RootKind::Project) {
            to.root = depth;
        }
        if node.root.is_some() {
            to.searched.get_or_insert(depth);
        }
    }

    fn path_node(&mut self, path: &AbsPath) -> u32 {
        let (dir, Some(name)) = path.split_last() else { return TOP };
        if self.last.0 == *path {
            return self.last.1;
        }
        if self.last.0.as_bytes() != dir {
            let mut at = TOP;
            for name in dir.split(|b| *b == b'/').filter(|part| !part.is_empty()) {
                at = self.name(at, name);
            }
            self.last = (path.parent().unwrap_or_else(AbsPath::root), at);
        }
        self.name(self.last.1, name)
    }

    fn step(&mut self, at: u32, segment: &Segment) -> u32 {
        match segment {
            Segment::Name(name) => self.name(at, name),
            Segment::Any => {
                let fresh = Place::after(&self.nodes);
                let any = *self.nodes[at as usize].any.get_or_insert(fresh);
                if any.get() == self.nodes.len() {
                    self.nodes.push(Node { stays: true, ..Node::default() });
                }
                any.get() as u32
            }
            Segment::Glob(glob) => self.glob(at, glob),
        }
    }

    fn name(&mut self, at: u32, name: &[u8]) -> u32 {
        let fresh = self.nodes.len() as u32;
        let child = self.names.find_or_add(at, name, fresh);
        if child == fresh {
            self.nodes.push(Node::default());
        }
        child
    }

    fn glob(&mut self, at: u32, glob: &Glob) -> u32 {
        let fresh = self.nodes.len() as u32;
        let place = *self.nodes[at as usize].wild.get_or_insert(Place::after(&self.wilds));
        if place.get() == self.wilds.len() {
            self.wilds.push(Wild::default());
        }
        let wild = &mut self.wilds[place.get()];
        let child = match (glob.as_suffix(), glob.as_prefix()) {
            (Some(ending @ [.., edge]), _) => wild.endings.add(ending, *edge, || fresh),
            (_, Some(beginning @ [edge, ..])) => wild.beginnings.add(beginning, *edge, || fresh),
            _ => {
                let bucket = wild.bucket(glob);
                match bucket.iter().find(|(other, _)| other == glob) {
                    Some((_, child)) => *child,
                    None => {
                        bucket.push((glob.clone(), fresh));
                        fresh
                    }
                }
            }
        };
        if child == fresh {
            self.nodes.push(Node::default());
        }
        child
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pattern::PathRule;
    use crate::template::{TemplateKind, Variables};

    fn pattern(text: &str) -> Pattern {
        let rule = PathRule::parse(text, TemplateKind::Path).unwrap();
        let split = rule.split(&Variables::new()).unwrap();
        if rule.is_floating() {
            return Pattern { anchor: Anchor::Floating, rest: split.rest };
        }
        Pattern { anchor: Anchor::At(AbsPath::lexical(&split.literal).unwrap()), rest: split.rest }
    }

    fn abs(text: &str) -> AbsPath {
        AbsPath::lexical(text.as_bytes()).unwrap()
    }

    #[track_caller]
    fn check(text: &str, path: &str, expected: bool) {
        let mut matcher = Matcher::new();
        matcher.add(&pattern(text), 7);
        matcher.add_root(&abs("/w"), RootKind::Project);
        matcher.add_root(&abs("/ref/.env"), RootKind::Granted);
        let covering = matcher.covering(&abs(path));
        let floats = pattern(text).anchor == Anchor::Floating;
        let counts = !covering.hits.is_empty() && (!floats || covering.searched.is_some());
        assert_eq!(counts, expected, "{text} on {path}");
    }

    #[test]
    fn patterns_cover_what_is_below() {
        check("/a/b", "/a/b", true);
        check("/a/b", "/a/b/c/d", true);
        check("/a/b", "/a", false);
        check("/a/b", "/a/bc", false);
        check("/", "/anything", true);
        check("/a/*.rs", "/a/x.rs", true);
        check("/a/*.rs", "/a/x.rs/below", true);
        check("/a/*.rs", "/a/b/x.rs", false);
        check("/a/**/*.rs", "/a/x.rs", true);
        check("/a/**/*.rs", "/a/b/c/x.rs", true);
        check("/a/**/b/**/c", "/a/x/b/c", true);
        check("/a/**/b/**/c", "/a/b/y/z/c/k", true);
        check("/a/**/b/**/c", "/a/c", false);
        check("/a/tmp*", "/a/tmp", true);
        check("/a/tmp*", "/a/tmpx/y", true);
        check("/a/tmp*", "/a/tm", false);
        check("/a/x?z", "/a/xyz", true);
    }

    #[test]
    fn floating_patterns_test_every_component_of_a_path_in_a_root() {
        check("**/.env", "/w/.env", true);
        check("**/.env", "/w/a/b/.env/c", true);
        check("**/.env", "/elsewhere/.env", false);
        check("**/.env", "/.env", false);
        check("**/w", "/w/x", true);
        check("**/a/b", "/w/a/b", true);
        check("**/a/b", "/w/x/a/y/b", false);
        check("**/a/b", "/w/a/a/b", true);
        check("**/.git/hooks", "/w/sub/.git/hooks/pre-commit", true);
        check("**/.env", "/ref/.env", true);
        check("**/ref", "/ref/.env", true);
        check("**/ref", "/ref/other", false);
        check("**/ref/.env/x", "/ref/.env/x", true);
    }

    #[test]
    fn deeper_is_more_specific() {
        let mut matcher = Matcher::new();
        matcher.add(&pattern("/a"), 1);
        matcher.add(&pattern("/a/b"), 2);
        let mut hits = matcher.hits(&abs("/a/b/c"));
        hits.sort_by_key(|h| h.depth);
        assert_eq!(hits, [Hit { id: 1, depth: 1 }, Hit { id: 2, depth: 2 }]);
    }

    mod against_a_naive_reading {
        use super::*;
        use proptest::prelude::*;

        /// The meaning of a pattern, written down as plainly as possible.
        fn covers(rest: &[Segment], names: &[&[u8]]) -> bool {
            match rest.split_first() {
                None => true,
                Some((Segment::Any, rest)) => (0..=names.len()).any(|skip| covers(rest, &names[skip..])),
                Some((segment, rest)) => names.split_first().is_some_and(|(name, names)| {
                    let one = match segment {
                        Segment::Name(n) => n == name,
                        Segment::Glob(g) => g.matches(name),
                        Segment::Any => true,
                    };
                    one && covers(rest, names)
                }),
            }
        }

        proptest! {
            #[test]
            fn the_tree_agrees_with_a_naive_reading(
                rules in prop::collection::vec("/(a|b|c|\\*|\\*\\*|a\\*|\\*b|a\\?)(/(a|b|c|\\*|\\*\\*|\\*b)){0,4}", 1..8),
                path in "/(a|b|ab|c)(/(a|b|ab|c|cb)){0,5}",
            ) {
                let mut matcher = Matcher::new();
                let patterns: Vec<Pattern> = rules.iter().map(|r| pattern(r)).collect();
                for (id, p) in (0..).zip(&patterns) {
                    matcher.add(p, id);
                }
                let path = abs(&path);
                let names: Vec<&[u8]> = path.components().collect();
                let hits = matcher.hits(&path);
                for (id, p) in (0..).zip(&patterns) {
                    let base: Vec<Segment> = p.base().unwrap().components().map(|c| Segment::Name(c.to_vec())).collect();
                    let expected = covers(&[base, p.rest.clone()].concat(), &names);
                    prop_assert_eq!(hits.iter().any(|h| h.id == id), expected, "{} on {}", p, path);
                }
            }
        }
    }
}
