//! The deeds for each rule of a Surface, and the tree that they are tried in.
//!
//! What a rule takes away is made as a canary and tried at its edges; what a rule gives is made where the host has it. The
//! Surface is about a copy of the tree: see [`Moved`](super::Moved).

use std::collections::{BTreeMap, BTreeSet};

use ringfence_surface::{AbsPath, Access, Effect, PathFact, Role, Rule, Sense, Surface};

use super::examples::{another, examples};
use super::expect::{Expected, Oracle};
use super::shape::{Node, Shape};
use super::{Deed, Edge, One, Two};

/// Whether what rules take away is there when a layer starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// It is there.
    There,
    /// Nothing of it is.
    NotYet,
}

/// What deeds are about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// A rule, by its number in the Surface.
    Rule(usize),
    /// What no rule gives.
    Elsewhere,
    /// The way out.
    Network,
    /// Sockets of the host.
    Sockets,
    /// Processes of the host.
    Processes,
}

/// One deed and what must come of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trial {
    /// What it is about.
    pub subject: Subject,
    /// Where it lies, seen from there.
    pub edge: Edge,
    /// What is tried.
    pub deed: Deed,
    /// What must come of it.
    pub expected: Expected,
}

/// Everything that is tried in one start of a layer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trials {
    /// What is made before.
    pub shape: Shape,
    /// What is tried, in this order.
    pub trials: Vec<Trial>,
}

/// The trials for a Surface that is about a copy in `place`. `host` says what stands on the host at what is now a path of the
/// copy.
pub fn generate(
    surface: &Surface,
    place: &AbsPath,
    standing: Standing,
    host: &mut dyn FnMut(&AbsPath) -> PathFact,
) -> Trials {
    let mut making =
        Making { surface, shape: Shape::new(place.clone()), deeds: Vec::new(), links: 0, moved: BTreeSet::new() };
    making.given(host);
    making.taken(standing, host);
    making.elsewhere();
    let Making { shape, deeds, .. } = making;
    let oracle = Oracle::new(surface, &shape);
    let trials = deeds.into_iter().map(|(subject, edge, deed)| {
        let expected = oracle.expected(&deed);
        Trial { subject, edge, deed, expected }
    });
    let trials: Vec<Trial> = trials.filter(|trial| trial.expected != Expected::Open).collect();
    Trials { shape, trials }
}

/// How much is tried at one place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Effort {
    /// Everything, at every edge.
    Full,
    /// What the rule says, and no more: for the further places of the many rules that every policy has.
    Brief,
}

/// A tree and its deeds in the making.
struct Making<'a> {
    surface: &'a Surface,
    shape: Shape,
    deeds: Vec<(Subject, Edge, Deed)>,
    links: usize,
    /// Directories that were given another name already.
    moved: BTreeSet<AbsPath>,
}

/// Names of our own. None of them is in a rule.
const INSIDE: &[u8] = b"verify-inside";
const NEW: &[u8] = b"verify-new";
const LINKS: &[u8] = b"verify-links";
const ELSEWHERE: &[u8] = b"verify-elsewhere";

impl Making<'_> {
    /// What rules give, where the host has it.
    fn given(&mut self, host: &mut dyn FnMut(&AbsPath) -> PathFact) {
        for dir in [self.surface.root().clone(), self.surface.workdir().clone()] {
            self.shape.add(&dir, Node::Directory);
        }
        let surface = self.surface;
        for (number, rule) in surface.rules().iter().enumerate() {
            let (Effect::Write(role) | Effect::Read(role)) = rule.effect else { continue };
            for path in examples(&rule.pattern, surface.workdir()) {
                if !path.is_within(self.shape.place()) {
                    continue;
                }
                let fact = match (role, rule.pattern.as_path()) {
                    // These are made at the start.
                    (Role::Cache | Role::Scratch, _) => PathFact::Directory,
                    (_, Some(path)) if path == surface.root() || path == surface.workdir() => PathFact::Directory,
                    (_, Some(path)) => host(path),
                    (_, None) => PathFact::File,
                };
                self.given_place(Subject::Rule(number), &path, &fact);
            }
        }
    }

    fn given_place(&mut self, subject: Subject, path: &AbsPath, fact: &PathFact) {
        match fact {
            PathFact::Directory => {
                self.shape.add(path, Node::Directory);
                let inside = path.child(INSIDE);
                self.shape.add(&inside, Node::File);
                self.push(subject, Edge::Itself, Deed::One(One::List, path.clone()));
                self.at_a_file(subject, Edge::Inside, &inside);
                let new = path.child(NEW);
                for one in [One::Create, One::MakeDirectory, One::MakeLink, One::MakeSocket] {
                    self.push(subject, Edge::NotYet, Deed::One(one, new.clone()));
                }
                self.push(subject, Edge::Inside, Deed::Two(Two::Rename, inside.clone(), new.clone()));
                self.push(subject, Edge::Inside, Deed::Two(Two::Link, inside, new));
            }
            PathFact::File => {
                self.shape.add(path, Node::File);
                self.at_a_file(subject, Edge::Itself, path);
            }
            PathFact::Missing | PathFact::Link(_) | PathFact::Special => return,
        }
        self.beside(subject, path);
    }

    /// What rules take away, and what exceptions leave.
    fn taken(&mut self, standing: Standing, host: &mut dyn FnMut(&AbsPath) -> PathFact) {
        let surface = self.surface;
        let takes = |rule: &Rule| matches!(rule.effect, Effect::Escape | Effect::Deny | Effect::Protect);
        let rules = surface.rules().iter().enumerate().filter(|(_, rule)| takes(rule));
        let mut places: BTreeMap<usize, Vec<AbsPath>> = BTreeMap::new();
        for (number, rule) in rules {
            let mut found = examples(&rule.pattern, surface.workdir());
            if rule.source.is_written() && rule.pattern.base().is_none() {
                let roots: BTreeSet<&AbsPath> = surface.roots().collect();
                found.extend(roots.into_iter().flat_map(|root| examples(&rule.pattern, root)));
                found.sort();
                found.dedup();
            }
            found.retain(|path| path.is_within(self.shape.place()) && path != self.shape.place());
            places.insert(number, found);
        }
        let all: BTreeSet<AbsPath> = places.values().flatten().cloned().collect();
        let contains = |path: &AbsPath| {
            let prefix = [path.as_bytes(), b"/"].concat();
            let mut after =
                all.range::<[u8], _>((std::ops::Bound::Excluded(path.as_bytes()), std::ops::Bound::Unbounded));
            after.any(|other| other.as_bytes().starts_with(&prefix))
        };
        for (number, found) in &places {
            let rule = &surface.rules()[*number];
            for (at, path) in found.iter().enumerate() {
                let is_directory = match host(path) {
                    PathFact::Directory => true,
                    PathFact::File => false,
                    _ => at % 2 == 1,
                };
                let node = if is_directory || contains(path) { Node::Directory } else { Node::File };
                let effort = if at == 0 || rule.source.is_written() { Effort::Full } else { Effort::Brief };
                match (standing, effort) {
                    (Standing::There, Effort::Full) => self.canary(Subject::Rule(*number), path, node),
                    (Standing::There, Effort::Brief) => self.briefly(Subject::Rule(*number), path, node),
                    (Standing::NotYet, _) => self.absent(Subject::Rule(*number), path, effort),
                }
            }
            if rule.sense == Sense::Rule
                && let Some(later) = another(&rule.pattern, surface.workdir())
            {
                let effort = if rule.source.is_written() { Effort::Full } else { Effort::Brief };
                self.absent(Subject::Rule(*number), &later, effort);
            }
        }
    }

    /// Something that a rule takes away, and its edges.
    fn canary(&mut self, subject: Subject, path: &AbsPath, node: Node) {
        let is_directory = node == Node::Directory;
        if !self.shape.add(path, node) {
            return;
        }
        if is_directory {
            let inside = path.child(INSIDE);
            self.shape.add(&inside, Node::File);
            self.push(subject, Edge::Itself, Deed::One(One::List, path.clone()));
            self.push(subject, Edge::Itself, Deed::One(One::Mode, path.clone()));
            self.at_a_file(subject, Edge::Inside, &inside);
            self.push(subject, Edge::Inside, Deed::One(One::Create, path.child(NEW)));
        } else {
            self.at_a_file(subject, Edge::Itself, path);
        }
        if let Some(beside) = self.beside(subject, path) {
            self.push(subject, Edge::Itself, Deed::Two(Two::Exchange, path.clone(), beside));
        }
        let gone = with_suffix(path, b".verify-gone");
        self.push(subject, Edge::Itself, Deed::Two(Two::Rename, path.clone(), gone.clone()));
        if !is_directory {
            self.push(subject, Edge::Itself, Deed::Two(Two::Link, path.clone(), gone));
        }
        self.through_a_link(subject, path, is_directory);
        self.above(subject, path, is_directory);
    }

    /// The same, with what the rule itself says alone.
    fn briefly(&mut self, subject: Subject, path: &AbsPath, node: Node) {
        let is_directory = node == Node::Directory;
        if !self.shape.add(path, node) {
            return;
        }
        let file = if is_directory { path.child(INSIDE) } else { path.clone() };
        self.shape.add(&file, Node::File);
        let edge = if is_directory { Edge::Inside } else { Edge::Itself };
        for one in [One::Read, One::Write] {
            self.push(subject, edge, Deed::One(one, file.clone()));
        }
        let gone = with_suffix(path, b".verify-gone");
        self.push(subject, Edge::Itself, Deed::Two(Two::Rename, path.clone(), gone));
    }

    /// A name that a rule takes away and that does not exist.
    fn absent(&mut self, subject: Subject, path: &AbsPath, effort: Effort) {
        let Some(parent) = path.parent().filter(|parent| parent.is_within(self.shape.place())) else { return };
        if !self.shape.add(&parent, Node::Directory) {
            return;
        }
        let ways: &[One] = match effort {
            Effort::Full => &[One::Create, One::MakeDirectory, One::MakeLink],
            Effort::Brief => &[One::Create],
        };
        for one in ways {
            self.push(subject, Edge::NotYet, Deed::One(*one, path.clone()));
        }
        if effort == Effort::Brief {
            return;
        }
        let beside = with_suffix(path, b".verify-beside");
        if self.shape.add(&beside, Node::File) {
            self.push(subject, Edge::NotYet, Deed::Two(Two::Rename, beside.clone(), path.clone()));
            self.push(subject, Edge::NotYet, Deed::Two(Two::Link, beside, path.clone()));
        }
    }

    fn at_a_file(&mut self, subject: Subject, edge: Edge, path: &AbsPath) {
        for one in [One::Read, One::Write, One::Truncate, One::Mode, One::Remove] {
            self.push(subject, edge, Deed::One(one, path.clone()));
        }
    }

    /// The name beside: where a rule ends is as much a part of it as where it begins.
    fn beside(&mut self, subject: Subject, path: &AbsPath) -> Option<AbsPath> {
        let beside = with_suffix(path, b".verify-beside");
        if !self.shape.add(&beside, Node::File) {
            return None;
        }
        for one in [One::Read, One::Write, One::See] {
            self.push(subject, Edge::Outside, Deed::One(one, beside.clone()));
        }
        Some(beside)
    }

    /// A link in the project that leads there.
    fn through_a_link(&mut self, subject: Subject, path: &AbsPath, is_directory: bool) {
        let dir = self.surface.workdir().child(LINKS);
        if !self.surface.decide(&dir, Access::Read).is_allowed() {
            return;
        }
        self.links += 1;
        let link = dir.child(self.links.to_string().as_bytes());
        if !self.shape.add(&link, Node::Link(path.as_bytes().to_vec())) {
            return;
        }
        let tried: &[One] = if is_directory { &[One::List] } else { &[One::Read, One::Write] };
        for one in tried {
            self.push(subject, Edge::ThroughLink, Deed::One(*one, link.clone()));
        }
    }

    /// The directory above gets another name, and so does everything in it; and what the rule takes away is read under that.
    fn above(&mut self, subject: Subject, path: &AbsPath, is_directory: bool) {
        let (Some(dir), Some(name)) = (path.parent(), path.file_name()) else { return };
        let is_given = |rule: &Rule| rule.pattern.as_path() == Some(&dir);
        if dir != *self.shape.place()
            && dir.is_within(self.shape.place())
            && !self.surface.allowed_reads().any(is_given)
            && self.moved.insert(dir.clone())
        {
            let (gone, to) = (with_suffix(&dir, b".verify-gone"), with_suffix(&dir, b".verify-around"));
            let file = if is_directory { [name, b"/", INSIDE].concat() } else { name.to_vec() };
            self.push(subject, Edge::Above, Deed::Two(Two::Rename, dir.clone(), gone));
            self.push(subject, Edge::Above, Deed::Around { dir, to, file });
        }
    }

    /// What no rule speaks of.
    fn elsewhere(&mut self) {
        let dir = self.shape.place().child(ELSEWHERE);
        let (file, new) = (dir.child(INSIDE), dir.child(NEW));
        self.shape.add(&file, Node::File);
        self.push(Subject::Elsewhere, Edge::Itself, Deed::One(One::List, dir));
        self.push(Subject::Elsewhere, Edge::Itself, Deed::One(One::See, file.clone()));
        self.at_a_file(Subject::Elsewhere, Edge::Itself, &file);
        for one in [One::Create, One::MakeDirectory, One::MakeLink, One::MakeSocket] {
            self.push(Subject::Elsewhere, Edge::NotYet, Deed::One(one, new.clone()));
        }
        let socket = self.surface.workdir().child(b"verify-socket");
        if self.shape.add(&socket, Node::Socket) {
            self.push(Subject::Sockets, Edge::Itself, Deed::One(One::Connect, socket));
        }
        for entry in &self.surface.reach().sockets {
            if self.shape.add(&entry.value, Node::Socket) {
                self.push(Subject::Sockets, Edge::Itself, Deed::One(One::Connect, entry.value.clone()));
            }
        }
    }

    fn push(&mut self, subject: Subject, edge: Edge, deed: Deed) {
        self.deeds.push((subject, edge, deed));
    }
}

/// The same path with more at the end of its name.
fn with_suffix(path: &AbsPath, suffix: &[u8]) -> AbsPath {
    match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) => parent.child(&[name, suffix].concat()),
        _ => path.clone(),
    }
}
