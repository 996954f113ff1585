//! What must come of a deed: what `decide` answers for every path that it touches.
//!
//! A deed needs several rights at once. Renaming a directory changes the name of everything below it, so each of those must be
//! writable where it was and where it goes; a hard link makes a file writable under another name, so it must be writable under
//! its own. What the kernel refuses for reasons of its own, such as a rename from one mount to another, is left open.

use std::cell::RefCell;
use std::collections::HashMap;

use ringfence_surface::policy::View;
use ringfence_surface::{AbsPath, Access, Because, Effect, PathFact, Role, Rule, Sense, Surface, Verdict};

use super::shape::{Node, Shape};
use super::{Deed, One, Two};
use crate::claim::{Claim, HOST_SOCKETS};
use crate::landlock::UNIX_SOCKETS;

/// What must come of a deed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expected {
    /// It is done.
    Allowed {
        /// The patterns of the rules that allow it.
        by: Vec<String>,
        /// What it needs in those places, so that what is withheld there can be told.
        at: Vec<AbsPath>,
    },
    /// It is refused: whoever holds any of these claims must refuse it.
    Refused {
        /// Which.
        claims: Vec<Claim>,
        /// Unless one of these is not held: a file that has another name may be reached as that one is.
        unless: Vec<Claim>,
    },
    /// Nothing is said of it.
    Open,
}

/// A Surface and a tree, and what was found out about them: thousands of deeds touch the same directories.
#[derive(Debug)]
pub struct Oracle<'a> {
    surface: &'a Surface,
    shape: &'a Shape,
    /// What is given for reading and for writing, where it is one place.
    reads: Vec<&'a AbsPath>,
    writes: Vec<&'a AbsPath>,
    /// Whether something is given by a pattern.
    reads_by_pattern: bool,
    writes_by_pattern: bool,
    /// What is mounted by itself, and what of it is private.
    mounts: Vec<&'a AbsPath>,
    private: Vec<&'a AbsPath>,
    /// Files that have another name (a hard link), with all names of each.
    linked: HashMap<AbsPath, Vec<AbsPath>>,
    /// Exceptions that are patterns.
    exceptions: Vec<String>,
    known: RefCell<HashMap<(AbsPath, Access), Verdict<'a>>>,
}

impl<'a> Oracle<'a> {
    /// For deeds in a tree.
    pub fn new(surface: &'a Surface, shape: &'a Shape) -> Self {
        let is_exception = |rule: &&Rule| rule.sense == Sense::Exception && rule.source.is_written();
        let patterns = surface.rules().iter().filter(is_exception).filter(|rule| rule.pattern.as_path().is_none());
        let patterns = patterns.map(|rule| rule.pattern.to_string()).collect();
        let exceptions = surface.rules().iter().filter(is_exception).filter_map(|rule| rule.pattern.as_path());
        let reads: Vec<&AbsPath> = surface.allowed_reads().filter_map(|rule| rule.pattern.as_path()).collect();
        // A socket that is given stands by itself.
        let sockets = surface.reach().sockets.iter().map(|entry| &entry.value);
        let is_private =
            |rule: &&Rule| matches!(rule.effect, Effect::Write(Role::Private) | Effect::Read(Role::Private));
        let is_pattern = |rule: &Rule| rule.pattern.as_path().is_none();
        Self {
            surface,
            shape,
            writes: surface.allowed_writes().filter_map(|rule| rule.pattern.as_path()).collect(),
            private: surface.allowed_reads().filter(is_private).filter_map(|rule| rule.pattern.as_path()).collect(),
            reads_by_pattern: surface.allowed_reads().any(is_pattern),
            writes_by_pattern: surface.allowed_writes().any(is_pattern),
            mounts: reads.iter().copied().chain(exceptions).chain(sockets).collect(),
            reads,
            exceptions: patterns,
            linked: linked(shape),
            known: RefCell::new(HashMap::new()),
        }
    }

    fn decide(&self, path: &AbsPath, access: Access) -> Verdict<'a> {
        let key = (path.clone(), access);
        *self.known.borrow_mut().entry(key).or_insert_with(|| self.surface.decide(path, access))
    }

    /// What must come of a deed.
    pub fn expected(&self, deed: &Deed) -> Expected {
        expected(self, deed)
    }
}

/// Every file with several names, by each of its names.
fn linked(shape: &Shape) -> HashMap<AbsPath, Vec<AbsPath>> {
    let mut groups: HashMap<&AbsPath, Vec<AbsPath>> = HashMap::new();
    for (path, node) in shape.nodes() {
        if let Node::Name(of) = node {
            groups.entry(of).or_insert_with(|| vec![of.clone()]).push(path.clone());
        }
    }
    groups.into_values().flat_map(|names| names.clone().into_iter().map(move |name| (name, names.clone()))).collect()
}

fn expected(oracle: &Oracle<'_>, deed: &Deed) -> Expected {
    let surface = oracle.surface;
    let mut asked = Asked {
        oracle,
        surface,
        shape: oracle.shape,
        by: Vec::new(),
        at: Vec::new(),
        claims: Vec::new(),
        unless: Vec::new(),
        is_open: false,
    };
    match deed {
        Deed::One(one, path) => asked.one(*one, path),
        Deed::Two(two, from, to) => asked.two(*two, from, to),
        Deed::Around { dir, to, file } => asked.around(dir, to, file),
        Deed::Resolve(name) => return resolve(surface, name),
        Deed::Dial(port) => match surface.decide_host_port(*port) {
            Some(_) => asked.by.push(format!("localhost:{port}")),
            None => asked.claims.push(network(surface)),
        },
        Deed::Abstract(_) => asked.claims.extend([Claim::NoHostSockets, Claim::OutsidersOutOfReach]),
        Deed::Signal(_) => asked.claims.push(Claim::OutsidersOutOfReach),
    }
    match asked {
        Asked { is_open: true, .. } => Expected::Open,
        Asked { claims, unless, .. } if !claims.is_empty() => Expected::Refused { claims, unless },
        Asked { by, at, .. } => Expected::Allowed { by, at },
    }
}

/// The claim about hosts.
pub(super) fn network(surface: &Surface) -> Claim {
    Claim::OnlyTheseHosts { hosts: surface.reach().hosts.iter().map(|entry| entry.value.to_string()).collect() }
}

fn resolve(surface: &Surface, name: &str) -> Expected {
    let is_listed = |entry: &&ringfence_surface::Sourced<ringfence_surface::HostPattern>| {
        let target = ringfence_surface::HostTarget::new(name, 443);
        target.is_ok_and(|target| entry.value.matches_host(&target))
    };
    match surface.reach().hosts.iter().find(is_listed) {
        Some(entry) => Expected::Allowed { by: vec![entry.value.to_string()], at: Vec::new() },
        None => Expected::Refused { claims: vec![network(surface)], unless: Vec::new() },
    }
}

/// What a deed asks for, as it is found out.
struct Asked<'o, 'a> {
    oracle: &'o Oracle<'a>,
    surface: &'a Surface,
    shape: &'a Shape,
    by: Vec<String>,
    at: Vec<AbsPath>,
    claims: Vec<Claim>,
    unless: Vec<Claim>,
    is_open: bool,
}

/// What is looked at or changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    /// The names in a directory.
    Names,
    /// Content, or a name.
    Content,
    /// Mode, owner, times.
    Metadata,
}

impl Asked<'_, '_> {
    fn one(&mut self, one: One, path: &AbsPath) {
        let (found, is_there) = match one {
            One::Read | One::List | One::Write | One::Truncate | One::Mode | One::Connect => {
                (self.shape.follow(path), true)
            }
            One::See | One::Remove | One::RemoveDirectory => (self.shape.follow_above(path), true),
            One::Create | One::MakeDirectory | One::MakeLink | One::MakeSocket => {
                (self.shape.follow_above(path), false)
            }
        };
        let Some(found) = found.filter(|found| (found.fact != PathFact::Missing) == is_there) else {
            self.is_open = true;
            return;
        };
        let node = self.shape.get(&found.path);
        let fits = match one {
            One::List | One::RemoveDirectory => node == Some(&Node::Directory),
            One::Read | One::Write | One::Truncate => matches!(node, Some(Node::File | Node::Name(_))),
            One::Connect => node == Some(&Node::Socket),
            One::Remove => matches!(node, Some(Node::File | Node::Link(_))),
            _ => true,
        };
        // A socket of the host's is hidden or another stands in its place; either is no file that somebody asked for.
        let fits = fits && (one != One::Mode || node != Some(&Node::Socket));
        let is_empty = one != One::RemoveDirectory || self.shape.below(&found.path).next().is_none();
        if !fits || !is_empty || *self.shape.place() == found.path {
            self.is_open = true;
            return;
        }
        match one {
            One::Read => self.need(&found.path, Access::Read, What::Content),
            One::List => {
                self.need(&found.path, Access::Read, What::Names);
                // A directory above something given is there, and has only that in it.
                self.is_open |= !self.claims.is_empty() && self.is_mounted_within(&found.path);
            }
            One::See => self.see(&found.path),
            One::Mode => self.need(&found.path, Access::Write, What::Metadata),
            One::Connect => match self.surface.decide_socket(&found.path) {
                Some(_) => self.by.push(found.path.to_string()),
                None => {
                    self.claims.push(Claim::NoHostSockets);
                    // Where the whole host is shown, not every one is found, which is said.
                    let is_searched = self.surface.roots().any(|root| !root.is_root() && found.path.is_within(root));
                    if self.surface.view() == View::Host && !is_searched {
                        self.unless.push(Claim::Denied { pattern: HOST_SOCKETS.to_owned() });
                    }
                }
            },
            _ => self.need(&found.path, Access::Write, What::Content),
        }
        if !matches!(one, One::Read | One::List | One::See | One::Connect) {
            self.is_open |= self.is_git_pointer(&found.path) || self.is_of_later_module(&found.path);
        }
        // What is removed is made again.
        if one == One::MakeLink || one == One::Remove && matches!(node, Some(Node::Link(_))) {
            self.is_open |= self.begins(&found.path);
        }
        if one == One::MakeSocket {
            self.by.push(UNIX_SOCKETS.to_owned());
        }
        self.is_open |= matches!(one, One::Remove | One::RemoveDirectory) && self.is_mounted_within(&found.path);
        self.through(&found.links);
    }

    fn two(&mut self, two: Two, from: &AbsPath, to: &AbsPath) {
        let (Some(from), Some(to)) = (self.shape.follow_above(from), self.shape.follow_above(to)) else {
            self.is_open = true;
            return;
        };
        let is_to_there = two == Two::Exchange;
        let fits = from.fact != PathFact::Missing && (to.fact != PathFact::Missing) == is_to_there;
        let is_loop = from.path.is_within(&to.path) || to.path.is_within(&from.path);
        let is_file = matches!(self.shape.get(&from.path), Some(Node::File | Node::Name(_)));
        let is_socket = |path: &AbsPath| {
            let is_socket = |node: &Node| *node == Node::Socket;
            self.shape.get(path).is_some_and(is_socket) || self.shape.below(path).any(|(_, node)| is_socket(node))
        };
        let file = |path: &AbsPath| match self.shape.get(path) {
            Some(Node::Name(of)) => of.clone(),
            _ => path.clone(),
        };
        // Two names of one file: nothing is done, and nothing is refused.
        let is_one_file = is_to_there && file(&from.path) == file(&to.path);
        let touches_place = self.shape.place().is_within(&from.path) || self.shape.place().is_within(&to.path);
        if !fits
            || is_one_file
            || is_loop
            || touches_place
            || two == Two::Link && !is_file
            || is_socket(&from.path)
            || is_socket(&to.path)
        {
            self.is_open = true;
            return;
        }
        self.moved(&from.path, &to.path);
        if two == Two::Exchange {
            self.moved(&to.path, &from.path);
        }
        // Mounts of their own are left where they are, and nothing goes from one to another.
        self.is_open |= self.claims.is_empty()
            && (self.mount_of(&from.path) != self.mount_of(&to.path)
                || self.is_mounted_within(&from.path)
                || self.is_mounted_within(&to.path));
        self.through(&from.links);
        self.through(&to.links);
    }

    /// What a directory above something is renamed for: whoever holds that it keeps its name must refuse, and whoever holds
    /// that the file is not read must too, whatever the file is called by then.
    fn around(&mut self, dir: &AbsPath, to: &AbsPath, file: &[u8]) {
        let below = |base: &AbsPath| file.split(|byte| *byte == b'/').fold(base.clone(), |at, name| at.child(name));
        let is_file = matches!(self.shape.get(&below(dir)), Some(Node::File | Node::Name(_)));
        if !is_file || self.shape.get(dir) != Some(&Node::Directory) {
            self.is_open = true;
            return;
        }
        self.two(Two::Rename, dir, to);
        self.need(&below(dir), Access::Read, What::Content);
        self.need(&below(to), Access::Read, What::Content);
    }

    /// Something, with everything below it, gets another name.
    fn moved(&mut self, from: &AbsPath, to: &AbsPath) {
        let below: Vec<AbsPath> = self.shape.below(from).map(|(path, _)| path.clone()).collect();
        for path in std::iter::once(from.clone()).chain(below) {
            let names = path.components().skip(from.components().count());
            let there = names.fold(to.clone(), |at, name| at.child(name));
            self.need(&path, Access::Write, What::Content);
            self.need(&there, Access::Write, What::Content);
            self.is_open |= self.is_git_pointer(&path) || self.is_git_pointer(&there);
            self.is_open |= self.is_of_later_module(&there) || self.is_alternates(&there);
            // It is moved back, too.
            let begins = self.begins(&there) || self.begins(&path);
            self.is_open |= matches!(self.shape.get(&path), Some(Node::Link(_))) && begins;
        }
    }

    /// Do rules begin with this name? A link of such a name may be refused although nothing is said of the name itself.
    fn begins(&self, path: &AbsPath) -> bool {
        let (Some(dir), Some(name)) = (path.parent(), path.file_name()) else { return false };
        self.surface.cursor(&dir).begins(name).is_some()
    }

    /// One right.
    fn need(&mut self, path: &AbsPath, access: Access, what: What) {
        // What is private has the host's path and none of its files.
        self.is_open |= self.mount_of(path).is_some_and(|place| self.oracle.private.contains(&place));
        let verdict = self.oracle.decide(path, access);
        if verdict.is_allowed() {
            match verdict.because {
                Because::Rule(rule) | Because::OnlyReadable(rule) => self.by.push(rule.pattern.to_string()),
                Because::View(_) => self.by.push("/".to_owned()),
            }
            if path.ancestors().skip(1).any(|above| self.is_closed(&above, access)) {
                self.by.extend(self.oracle.exceptions.iter().cloned());
            }
            self.at.push(path.clone());
            // A guard of one name of a file is on its other names too.
            self.is_open |= self
                .oracle
                .linked
                .get(path)
                .is_some_and(|names| names.iter().any(|name| !self.oracle.decide(name, access).is_allowed()));
            return;
        }
        if self.oracle.linked.contains_key(path) {
            self.unless.push(Claim::OneName { path: path.to_string() });
        }
        let claims = match (what, verdict.because) {
            (What::Metadata, _) => vec![Claim::MetadataStays],
            (What::Names, Because::Rule(rule)) => {
                // Where the whole host is shown, not everything is searched for what a pattern means, which is said of it.
                self.unless.push(Claim::Denied { pattern: rule.pattern.to_string() });
                let elsewhere = (!self.is_given(path, access)).then(|| everything_else(access));
                [Claim::DeniedNames].into_iter().chain(elsewhere).collect()
            }
            (What::Content, Because::Rule(rule)) => self.taken_away(path, access, rule),
            (_, Because::OnlyReadable(_) | Because::View(_)) => vec![everything_else(access)],
        };
        // Whether a file is reached under a name that nothing gives depends on its other names.
        let is_elsewhere = |claim: &Claim| matches!(claim, Claim::NothingElseIsReadable | Claim::NothingElseIsWritable);
        self.is_open |= self.oracle.linked.contains_key(path) && claims.iter().any(is_elsewhere);
        self.claims.extend(claims.into_iter().filter(|claim| !self.claims.contains(claim)).collect::<Vec<_>>());
    }

    /// Does a rule take a path away?
    fn is_closed(&self, path: &AbsPath, access: Access) -> bool {
        let verdict = self.oracle.decide(path, access);
        !verdict.is_allowed() && matches!(verdict.because, Because::Rule(_))
    }

    /// Who must refuse what a rule takes away: the rule, if what it takes away exists, or whoever looks at names that do not; and
    /// where nothing gives the path, whoever holds that.
    fn taken_away(&self, path: &AbsPath, access: Access, rule: &Rule) -> Vec<Claim> {
        // An exception may lie in between: what counts is what is closed from here up.
        let closed = path.ancestors().map_while(|dir| match self.oracle.decide(&dir, access) {
            verdict if verdict.is_allowed() => None,
            verdict => match verdict.because {
                Because::Rule(rule) => Some((dir, rule)),
                Because::OnlyReadable(_) | Because::View(_) => None,
            },
        });
        let (first, rule) = closed.last().unwrap_or((path.clone(), rule));
        let pattern = rule.pattern.to_string();
        let is_there = self.shape.get(&first).is_some() || self.shape.place().is_within(&first);
        let mut claims = vec![match (rule.effect, is_there, access) {
            (Effect::Protect, true, _) => Claim::Protected { pattern },
            (_, true, _) => Claim::Denied { pattern },
            // Whoever guards names that do not exist has them not made, whether others could read them or not.
            (_, false, Access::Write) => Claim::ProtectedLater,
            (_, false, Access::Read) => Claim::DeniedLater,
        }];
        if !self.is_given(path, access) {
            claims.push(everything_else(access));
        }
        claims
    }

    /// Would it be given if nothing took it away?
    fn is_given(&self, path: &AbsPath, access: Access) -> bool {
        let oracle = self.oracle;
        let covers = |base: &&AbsPath| path.is_within(base);
        match access {
            Access::Read => {
                self.surface.view() == View::Host || oracle.reads_by_pattern || oracle.reads.iter().any(covers)
            }
            Access::Write => oracle.writes_by_pattern || oracle.writes.iter().any(covers),
        }
    }

    /// Only what nothing gives at all must not be seen: of what is denied the name stays.
    fn see(&mut self, path: &AbsPath) {
        let verdict = self.oracle.decide(path, Access::Read);
        match verdict.because {
            Because::View(View::Surface) if !self.is_above(path) && !self.is_given(path, Access::Read) => {
                self.claims.push(Claim::NothingElseIsSeen);
            }
            _ => self.is_open = true,
        }
    }

    /// Is something given below a path that is not given itself?
    fn is_above(&self, path: &AbsPath) -> bool {
        let is_shown = self.surface.view() == View::Host || self.oracle.reads.iter().any(|base| path.is_within(base));
        !is_shown && self.oracle.mounts.iter().any(|given| given.is_within(path))
    }

    /// A link that a rule means may be closed under its own name, and may lead where it is allowed.
    fn through(&mut self, links: &[AbsPath]) {
        let is_closed = |link: &AbsPath| !self.oracle.decide(link, Access::Read).is_allowed();
        self.is_open |= self.claims.is_empty() && links.iter().any(is_closed);
        let by = links.iter().filter_map(|link| match self.oracle.decide(link, Access::Read).because {
            Because::Rule(rule) | Because::OnlyReadable(rule) => Some(rule.pattern.to_string()),
            Because::View(_) => None,
        });
        self.by.extend(by.collect::<Vec<_>>());
    }

    /// The innermost place that is given by itself.
    fn mount_of(&self, path: &AbsPath) -> Option<&AbsPath> {
        let places = self.oracle.mounts.iter().filter(|place| path.is_within(place));
        places.max_by_key(|place| place.as_bytes().len()).copied()
    }

    /// Is something mounted at a path or below it?
    fn is_mounted_within(&self, path: &AbsPath) -> bool {
        self.oracle.mounts.iter().any(|place| place.is_within(path))
    }

    /// Is this below `modules` of a git directory, in something that is no git directory yet? The broker judges that as a whole when it
    /// becomes one: a submodule may be called `config` or `hooks`.
    fn is_of_later_module(&self, path: &AbsPath) -> bool {
        let Because::Rule(rule) = self.oracle.decide(path, Access::Write).because else { return false };
        let is_module = path.components().any(|name| name == b"modules");
        let is_git_directory = |dir: &AbsPath| self.shape.get(&dir.child(b"HEAD")).is_some();
        let above = path.ancestors().skip(1).take_while(|dir| dir.file_name() != Some(b"modules"));
        rule.is_of_git_directory() && is_module && !above.into_iter().any(|dir| is_git_directory(&dir))
    }

    /// What lists further directories of objects may name what can be read, as a canary does.
    fn is_alternates(&self, path: &AbsPath) -> bool {
        let Because::Rule(rule) = self.oracle.decide(path, Access::Write).because else { return false };
        rule.is_of_git_directory() && path.file_name() == Some(b"alternates")
    }

    /// What ties a work tree to its repository is guarded where it exists, whatever rules say.
    fn is_git_pointer(&self, path: &AbsPath) -> bool {
        let is_file = self.shape.get(path).is_some_and(|node| *node != Node::Directory);
        let is_name = matches!(path.file_name(), Some(b".git" | b"commondir" | b"gitdir" | b"config.worktree"));
        is_file && is_name
    }
}

fn everything_else(access: Access) -> Claim {
    match access {
        Access::Read => Claim::NothingElseIsReadable,
        Access::Write => Claim::NothingElseIsWritable,
    }
}
