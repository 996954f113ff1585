//! What a host looks like, as plain data.
//!
//! `resolve` and `compile` never look at the machine: they are given these facts. So their answers can be repeated, tested
//! and explained for another machine. Which paths matter depends on the policy, so `resolve` asks through [`Look`]; on a
//! live host whoever answers records each answer, and the record is a [`HostFacts`] that answers the same again.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use crate::path::{AbsPath, check_bytes, check_length};
use crate::report::Dropped;

/// What stands at a path; a link is not followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PathFact {
    /// Nothing, or nothing that may be looked at.
    Missing,
    /// A directory.
    Directory,
    /// A regular file.
    File,
    /// A symbolic link and what it says.
    Link(Vec<u8>),
    /// A socket, a pipe or a device.
    Special,
}

/// Where the `.git` of a work tree leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GitFact {
    /// The git directory it names.
    pub git_dir: AbsPath,
    /// The directory shared by all work trees; the same as `git_dir` outside a linked work tree.
    pub common_dir: AbsPath,
    /// Does the git directory name this work tree in turn? A `.git` file is a line of text that an agent may have written;
    /// only the directory it points to can vouch for it.
    pub vouched: bool,
}

/// Something that the user's git executes, or reads settings from, because of a setting.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct GitRun {
    /// What the setting names.
    pub named: GitNamed,
    /// The setting and where it is: `core.hooksPath in /home/u/.gitconfig`.
    pub setting: String,
}

/// What a setting of git names.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum GitNamed {
    /// This path.
    At(AbsPath),
    /// A path below the top of every work tree, also of one that is made later: the setting is the user's own.
    InEachWorkTree(Vec<u8>),
    /// It is unknown what it names, for this reason.
    Unknown(String),
}

/// One mount of the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountFact {
    /// Where.
    pub target: AbsPath,
    /// Which kind of file system.
    pub kind: String,
}

/// A host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostFacts {
    /// The caller's environment.
    pub environment: BTreeMap<Vec<u8>, Vec<u8>>,
    /// The caller's directory, links resolved.
    pub cwd: AbsPath,
    /// Home directories besides `$HOME`: the account's own, and that of the user behind `sudo`. Secrets there are secrets,
    /// whatever `$HOME` says.
    pub homes: Vec<AbsPath>,
    /// What stands at the paths that matter.
    pub paths: BTreeMap<AbsPath, PathFact>,
    /// Where each `.git` that matters leads.
    pub git: BTreeMap<AbsPath, GitFact>,
    /// What git executes or reads because of settings, outside each git directory that matters.
    pub git_runs: BTreeMap<AbsPath, Vec<GitRun>>,
    /// The mounts.
    pub mounts: Vec<MountFact>,
    /// The kernel's release, as `uname -r` says it.
    pub kernel: String,
    /// The directory of this session, when there is one: its `home` and `tmp` are writable.
    pub session: Option<AbsPath>,
}

/// Where a path really leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Followed {
    /// The path without links.
    pub path: AbsPath,
    /// The links on the way, each where it really stands.
    pub links: Vec<AbsPath>,
    /// What stands there.
    pub fact: PathFact,
}

/// The kernel's own limit on links in one path.
const MAX_LINKS: usize = 40;

/// Answers what stands on the host.
pub trait Look {
    /// What stands at a path; a link is not followed.
    fn path(&mut self, path: &AbsPath) -> PathFact;
    /// Where the `.git` at a path leads, if it is a file or link that leads somewhere.
    fn git(&mut self, dot_git: &AbsPath) -> Option<GitFact>;
    /// What git executes or reads in a work tree because of settings, outside its git directory.
    fn git_runs(&mut self, git_dir: &AbsPath, tree: &AbsPath) -> Vec<GitRun>;
    /// The packs that the user agreed to for a project in which a session ran before; `None` where none did. A record of facts
    /// does not hold it.
    fn agreed_packs(&mut self, _root: &AbsPath) -> Option<BTreeSet<String>> {
        None
    }
    /// Could a session write here that has ended since? A record of facts does not hold it.
    fn was_writable(&mut self, _path: &AbsPath) -> bool {
        false
    }
}

/// Recorded answers; what was not recorded counts as missing.
impl Look for &HostFacts {
    fn path(&mut self, path: &AbsPath) -> PathFact {
        if path.is_root() {
            return PathFact::Directory;
        }
        self.paths.get(path).cloned().unwrap_or(PathFact::Missing)
    }

    fn git(&mut self, dot_git: &AbsPath) -> Option<GitFact> {
        self.git.get(dot_git).cloned()
    }

    fn git_runs(&mut self, git_dir: &AbsPath, _: &AbsPath) -> Vec<GitRun> {
        self.git_runs.get(git_dir).cloned().unwrap_or_default()
    }
}

/// Follows `raw` from `start` as the kernel would, asking `look` what stands at each step. `..` goes to the real parent, also
/// behind a link. Where nothing exists any more the rest is taken as written.
///
/// # Errors
/// When the path is too long, holds a NUL, or leads through too many links.
pub fn follow(start: &AbsPath, raw: &[u8], look: &mut dyn Look) -> Result<Followed, Dropped> {
    check_bytes(raw)?;
    let from = if raw.first() == Some(&b'/') { &AbsPath::root() } else { start };
    let mut at = from.with_room(raw.len() + 1);
    let mut fact = PathFact::Directory;
    let mut links = Vec::new();
    // What is still to be walked; a link puts what it says in front of the rest.
    let mut ahead = Cow::Borrowed(raw);
    let mut next = 0;
    while next < ahead.len() {
        let end = ahead[next..].iter().position(|b| *b == b'/').map_or(ahead.len(), |length| next + length);
        let name = &ahead[next..end];
        next = end + 1;
        match name {
            b"" | b"." => continue,
            b".." => {
                at.pop();
                fact = PathFact::Directory;
                continue;
            }
            _ => at.push(name),
        }
        // Below nothing there is nothing: most of what the built-in tables name does not exist, and each look costs a call.
        if fact == PathFact::Missing {
            continue;
        }
        check_length(at.as_bytes())?;
        fact = look.path(&at);
        if let PathFact::Link(target) = &fact {
            check_bytes(target)?;
            links.push(at.clone());
            if links.len() > MAX_LINKS {
                return Err(Dropped::LinkLoop { path: crate::path::Shown(raw).to_string() });
            }
            if target.first() == Some(&b'/') {
                at = AbsPath::root()
            } else {
                at.pop()
            }
            ahead = Cow::Owned([target, b"/".as_slice(), ahead.get(next..).unwrap_or_default()].concat());
            next = 0;
            fact = PathFact::Directory;
        }
    }
    check_length(at.as_bytes())?;
    Ok(Followed { path: at, links, fact })
}

/// The steps of the path that was followed last. Rules come sorted, hundreds of them in one directory: only what differs is
/// looked at again.
#[derive(Debug, Default)]
pub(crate) struct Trail {
    start: Option<AbsPath>,
    raw: Vec<u8>,
    /// Where the last link on the way led, and how much of the raw path that is.
    turn: Option<(usize, Followed)>,
    /// Where in the raw path each name after that ends, and what stands there.
    steps: Vec<(usize, PathFact)>,
}

impl Trail {
    /// As [`follow`], for one path after the other.
    pub(crate) fn follow(&mut self, start: &AbsPath, raw: &[u8], look: &mut dyn Look) -> Result<Followed, Dropped> {
        check_bytes(raw)?;
        self.back_to(start, raw);
        let room = raw.len() + 1;
        let (turned, mut at, mut fact) = match &self.turn {
            Some((end, found)) => (*end, found.path.with_room(room), found.fact.clone()),
            None if raw.first() == Some(&b'/') => (0, AbsPath::root().with_room(room), PathFact::Directory),
            None => (0, start.with_room(room), PathFact::Directory),
        };
        let mut next = turned;
        if let Some((end, known)) = self.steps.last() {
            (next, fact) = (*end, known.clone());
            at.append(&raw[turned..next]);
        }
        while next < raw.len() {
            if raw[next] == b'/' {
                next += 1;
            }
            let end = raw[next..].iter().position(|b| *b == b'/').map_or(raw.len(), |length| next + length);
            let name = &raw[next..end];
            if matches!(name, b"" | b"." | b"..") {
                return follow(start, raw, look);
            }
            at.push(name);
            check_length(at.as_bytes())?;
            if fact != PathFact::Missing {
                fact = look.path(&at);
            }
            if let PathFact::Link(_) = fact {
                // A link that leads nowhere is answered for the path as a whole.
                let Ok(found) = follow(start, &raw[..end], look) else { return follow(start, raw, look) };
                (at, fact) = (found.path.clone(), found.fact.clone());
                self.steps.clear();
                self.turn = Some((end, found));
            } else {
                self.steps.push((end, fact.clone()));
            }
            self.raw.extend_from_slice(&raw[self.raw.len()..end]);
            next = end;
        }
        let links = self.turn.as_ref().map_or(Vec::new(), |(_, found)| found.links.clone());
        Ok(Followed { path: at, links, fact })
    }

    /// Goes back to where this path left the last one.
    fn back_to(&mut self, start: &AbsPath, raw: &[u8]) {
        if self.start.as_ref() != Some(start) {
            *self = Self { start: Some(start.clone()), ..Self::default() };
        }
        let common = self.raw.iter().zip(raw).take_while(|(before, now)| before == now).count();
        let is_on = |end: usize| end <= common && matches!(raw.get(end), None | Some(b'/'));
        while self.steps.last().is_some_and(|(end, _)| !is_on(*end)) {
            self.steps.pop();
        }
        if self.turn.as_ref().is_some_and(|(end, _)| !is_on(*end)) {
            self.turn = None;
            self.steps.clear();
        }
        let turned = self.turn.as_ref().map_or(0, |(end, _)| *end);
        self.raw.truncate(self.steps.last().map_or(turned, |(end, _)| *end));
    }
}

impl HostFacts {
    /// A variable that holds an absolute path.
    pub fn directory_variable(&self, name: &str) -> Option<AbsPath> {
        AbsPath::lexical(self.environment.get(name.as_bytes())?).ok()
    }

    /// What a rule of the administrator may use: the account's own home and name, whatever the caller's environment says.
    pub(crate) fn account_variables(&self) -> BTreeMap<Vec<u8>, Vec<u8>> {
        let home = self.homes.first().cloned().or_else(|| self.directory_variable("HOME"));
        home.iter().map(|home| (b"HOME".to_vec(), home.as_bytes().to_vec())).collect()
    }

    /// `$HOME` first, then the other homes.
    pub fn all_homes(&self) -> Vec<AbsPath> {
        let mut homes: Vec<AbsPath> = self.directory_variable("HOME").into_iter().collect();
        for home in &self.homes {
            if !homes.contains(home) {
                homes.push(home.clone());
            }
        }
        homes
    }

    /// ringfence's own directories: configuration, state, cache. Each follows its own variable, or else the home directory;
    /// without either there is none.
    pub fn own_directories(&self) -> OwnDirectories {
        let home = self.all_homes().into_iter().next();
        let place = |variable: &str, below: &str| {
            let named = self.directory_variable(variable).or_else(|| Some(home.as_ref()?.join(below)));
            Some(named?.child(b"ringfence"))
        };
        OwnDirectories {
            config: place("XDG_CONFIG_HOME", ".config"),
            state: place("XDG_STATE_HOME", ".local/state"),
            cache: place("XDG_CACHE_HOME", ".cache"),
            data: place("XDG_DATA_HOME", ".local/share"),
        }
    }
}

/// Where ringfence keeps its own things.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnDirectories {
    /// The user's policy.
    pub config: Option<AbsPath>,
    /// Trust, sessions, audit.
    pub state: Option<AbsPath>,
    /// Private caches of each project.
    pub cache: Option<AbsPath>,
    /// Roots to run commands in.
    pub data: Option<AbsPath>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn abs(text: &str) -> AbsPath {
        AbsPath::lexical(text.as_bytes()).unwrap()
    }

    struct World;

    impl Look for World {
        fn path(&mut self, path: &AbsPath) -> PathFact {
            world(path)
        }

        fn git(&mut self, _: &AbsPath) -> Option<GitFact> {
            None
        }

        fn git_runs(&mut self, _: &AbsPath, _: &AbsPath) -> Vec<GitRun> {
            Vec::new()
        }
    }

    fn world(path: &AbsPath) -> PathFact {
        let link = |to: &str| PathFact::Link(to.as_bytes().to_vec());
        match path.to_string().as_str() {
            "/w" | "/data" | "/data/in" | "/etc" => PathFact::Directory,
            "/w/link" => link("/data/in"),
            "/w/rel" => link("../data"),
            "/w/loop" => link("loop"),
            "/w/chain" => link("rel/in"),
            "/w/dangling" => link("nowhere/x"),
            "/data/in/f" => PathFact::File,
            _ => PathFact::Missing,
        }
    }

    #[track_caller]
    fn check(raw: &str, expected: &str, links: usize) {
        let got = follow(&abs("/w"), raw.as_bytes(), &mut World);
        // On a trail the answer is the same, whatever was followed before.
        for before in ["x/y", "link/x", raw, "/data/in/x", "loop/x", "link", "chain/g", "rel/in/x", "link/.."] {
            let mut trail = Trail::default();
            let _ = trail.follow(&abs("/w"), before.as_bytes(), &mut World);
            assert_eq!(trail.follow(&abs("/w"), raw.as_bytes(), &mut World), got, "{raw} after {before}");
            assert_eq!(trail.follow(&abs("/w"), raw.as_bytes(), &mut World), got, "{raw} twice");
        }
        match got {
            Ok(f) => assert_eq!((f.path.to_string(), f.links.len()), (expected.to_owned(), links), "{raw}"),
            Err(e) => assert_eq!(e.to_string(), expected, "{raw}"),
        }
    }

    #[test]
    fn links_are_followed_as_the_kernel_does() {
        check("link/f", "/data/in/f", 1);
        check("link/../x", "/data/x", 1);
        check("rel/in/f", "/data/in/f", 1);
        check("chain/f", "/data/in/f", 2);
        check("./a//b/", "/w/a/b", 0);
        check("../etc", "/etc", 0);
        check("../../..", "/", 0);
        check("dangling", "/w/nowhere/x", 1);
        check("missing/../x", "/w/x", 0);
        check("/data", "/data", 0);
        check("loop", "loop goes through too many symbolic links", 0);
        check("loop/x", "loop/x goes through too many symbolic links", 0);
        check("link/f/", "/data/in/f", 1);
        check("link//f", "/data/in/f", 1);
        check("link/in/../f", "/data/in/f", 1);
        check("/x", "/x", 0);
        check("//x", "/x", 0);
        check("/", "/", 0);
        check(".", "/w", 0);
        check("", "/w", 0);
    }
}
