//! Judges what a file of a git directory is about to hold, and what it leads to.
//!
//! The grammar is `ringfence_git`'s. What a file names (a git directory, a work tree, a directory of objects) is looked up here, without
//! following a link, and must lie where the session may write: then it is judged like everything else. What is accepted is remembered:
//! see [`super::references`].

use std::ffi::CString;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::Arc;

use ringfence_git::address::{self, Address};
use ringfence_git::config;
use ringfence_git::grammar::{self, Fault, Reference};
use ringfence_git::index::{self, CacheTreeFault, Index};
use ringfence_git::layout::{self, Grammar, ObjectFile};
use ringfence_git::object::{Object, ReadBudget, ReadFault};
use ringfence_git::object_id::{ObjectFormat, ObjectId};
use ringfence_git::pack::{PackReader, ReadAt};
use ringfence_git::settings::{self, Age, LocalPath, LocalUse};
use ringfence_surface::{AbsPath, Access, Because, Effect, HostTarget, Role, Shown, Surface};
use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use crate::place::open_by_names;

use super::frozen::{LeasedFile, read_all};
use super::local_address::leads_to_own;
use super::references::{
    GitReference, ReferenceKind, References, Remotes, git_directory, is_missing, is_without_links, remotes, tops,
    with_git,
};
use super::regions::{GitRegion, Region, Regions, is_there};
use super::{GitPlace, LONGEST, LONGEST_SETTINGS, is_own};
use crate::git_gains::Unknown;

/// How the content of a file is judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Content {
    Vetted(Grammar),
    Settings,
    Index,
    /// `.git` as a file: it names a git directory.
    GitFile,
    /// `.gitmodules`.
    Modules,
    /// A protected file of a work tree: the supervisor knows which versions its repository had.
    Version,
}

impl Content {
    /// Can it name another place?
    pub(crate) fn may_refer(self) -> bool {
        match self {
            Self::Vetted(grammar) => {
                matches!(grammar, Grammar::CommonDir | Grammar::WorkTreeFile | Grammar::Alternates)
            }
            Self::Settings | Self::GitFile | Self::Modules => true,
            Self::Index | Self::Version => false,
        }
    }
}

/// Why a call that is about a git directory is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("not a file that git writes in a git directory during ordinary work")]
    Closed,
    #[error("a link, a pipe or a second name in a git directory would lead git's own writes elsewhere")]
    Link,
    #[error("an object is written once")]
    Object,
    #[error("what a repository consists of is not removed from it")]
    Kept,
    #[error("an object that is not what its name says: {0}")]
    ObjectContent(ReadFault),
    #[error("another process still has the file open for writing")]
    Open,
    #[error("{0}")]
    Grammar(Fault),
    #[error("the setting {}: {}", Shown(&.0.key), .0.why)]
    Setting(settings::Refused),
    #[error("git could not read it, or it is too long")]
    Unreadable,
    #[error("{} is not in a directory that the session may write", Shown(.0))]
    Elsewhere(Vec<u8>),
    #[error("git reads the index otherwise than it says: {0}")]
    Index(index::Fault),
    #[error("git would commit another tree than the index shows: {0}")]
    CacheTree(CacheTreeFault),
    #[error("the part of the index that several share is not there, or does not suit it")]
    SharedIndex,
    #[error("{}", words_for_unknown(*.0))]
    Version(Unknown),
    #[error("its content is not in the repository, and would be lost")]
    Unsaved,
    #[error("a protected file did not get the version that git wanted, and this index says that it did")]
    Incomplete,
    #[error("git would put a symbolic link in the place of a protected file")]
    VersionIsLink,
    #[error("a link or a directory at this path would lead git elsewhere, by what {0} says")]
    Redirects(AbsPath),
    #[error("it would become a git directory with a file that git does not write during ordinary work: {0}")]
    Becomes(AbsPath),
    #[error("a git directory is not allowed at this place: {0}")]
    Misplaced(AbsPath),
    #[error(
        "RENAME_EXCHANGE is refused for parts of a git directory, `.git`, and directories that contain a repository: {0}"
    )]
    Exchange(AbsPath),
}

/// Why a version of a protected file is refused.
fn words_for_unknown(cause: Unknown) -> &'static str {
    match cause {
        Unknown::Repository => "the file is protected, and in no repository that existed when the session began",
        Unknown::UsedPath => {
            "the file is protected, and its repository was made in this session at a path where tools may trust files: one \
             that existed when the session started, that a link leads to, or that rules speak of"
        }
        Unknown::NotStored => "the file is protected, and no object of its new repository has this content",
        Unknown::Absent => "the file is protected, and the repository did not have this version when the session began",
        Unknown::Budget => "the file is protected, and the history is too long to find out whether it has this version",
        Unknown::Damaged => {
            "the file is protected, and a part of the history is missing in which this version might be (a shallow clone?)"
        }
    }
}

impl From<Fault> for Refusal {
    fn from(fault: Fault) -> Self {
        Self::Grammar(fault)
    }
}

impl From<ReadFault> for Refusal {
    fn from(fault: ReadFault) -> Self {
        Self::ObjectContent(fault)
    }
}

impl From<index::Fault> for Refusal {
    fn from(fault: index::Fault) -> Self {
        Self::Index(fault)
    }
}

impl From<CacheTreeFault> for Refusal {
    fn from(fault: CacheTreeFault) -> Self {
        Self::CacheTree(fault)
    }
}

/// What is read of a pack before its index is put in place. Nothing else is carried out for the session meanwhile.
const MOST_OBJECTS: u64 = 1_000_000;
const MOST_OBJECT_BYTES: u64 = 1 << 30;

/// What the host has at paths at which a session has directories of its own.
pub(crate) trait HostView: std::fmt::Debug + Sync {
    /// Is there nothing at this path, at which the session has temporary files of its own?
    fn is_vacant(&self, path: &AbsPath) -> bool;
}

/// The host, seen from outside of the session.
#[derive(Debug)]
pub(crate) struct HostPaths<'h> {
    root: &'h OwnedFd,
    surface: &'h Surface,
}

impl<'h> HostPaths<'h> {
    pub(crate) fn new(root: &'h OwnedFd, surface: &'h Surface) -> Self {
        Self { root, surface }
    }
}

impl HostView for HostPaths<'_> {
    fn is_vacant(&self, path: &AbsPath) -> bool {
        // Where the user has something is nothing that the session may learn elsewhere.
        is_temporary(self.surface, path)
            && [path.clone(), with_git(path)].iter().all(|path| is_missing(self.root, path))
    }
}

/// Does the session have temporary files of its own at a path? Not its home: what the user has there is not asked for.
fn is_temporary(surface: &Surface, path: &AbsPath) -> bool {
    let is_below = ["tmp", "var/tmp"].iter().any(|top| path.is_within(&AbsPath::root().join(top)));
    is_below && is_own(surface, path)
}

/// Judges content.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ContentJudge<'b> {
    pub(crate) surface: &'b Surface,
    pub(crate) regions: &'b Regions,
    pub(crate) references: &'b References,
    pub(crate) host: &'b dyn HostView,
    /// `/`.
    pub(crate) root: &'b Arc<OwnedFd>,
}

impl ContentJudge<'_> {
    /// What may be put in place of a file, if its content is accepted.
    pub(crate) fn judge(
        &self,
        content: Content,
        (at, git): (&AbsPath, Option<&GitPlace>),
        text: &[u8],
        before: &[u8],
    ) -> Result<Option<Vec<u8>>, Refusal> {
        match content {
            Content::Vetted(grammar) => {
                let reference = grammar::judge(grammar, text, before)?;
                self.judge_reference(&reference, at, git)?;
                Ok(None)
            }
            Content::Settings => self.judge_settings(at, git, text, before),
            Content::Modules => self.judge_modules(at, text, before),
            Content::GitFile => {
                let named = grammar::git_file(text).ok_or(Refusal::Unreadable)?;
                if text == before && !text.is_empty() {
                    return Ok(None);
                }
                let is_known = |target: &AbsPath| self.is_git_directory_of_the_session(target);
                self.accept(ReferenceKind::GitFile, at, named, is_known).map(|()| None)
            }
            Content::Index => self.judge_index(at, git, text),
            // Only the supervisor decides about it.
            Content::Version => Err(Refusal::Closed),
        }
    }

    fn judge_settings(
        &self,
        at: &AbsPath,
        git: Option<&GitPlace>,
        text: &[u8],
        before: &[u8],
    ) -> Result<Option<Vec<u8>>, Refusal> {
        if text.len() > LONGEST_SETTINGS {
            return Err(Refusal::Unreadable);
        }
        let after = config::parse_whole(text).ok_or(Refusal::Unreadable)?;
        let judge = settings::Judge {
            before: &config::parse(before),
            age: git.map_or(Age::Existing, |git| git.age),
            may_contact: &|host, port| self.may_contact(host, port),
            may_use: &|path, usage| self.may_use((at, git), *path, usage),
            is_work_tree: &|path| {
                let is_it = |target: &AbsPath| self.is_work_tree_of(at, target);
                self.is_known(ReferenceKind::WorkTree, at, path)
                    || self.accept(ReferenceKind::WorkTree, at, path, is_it).is_ok()
            },
        };
        match judge.refused(&after).or_else(|| self.first_bent_by_remote((at, git), judge.before, &after)) {
            Some(refused) => Err(Refusal::Setting(refused)),
            // What git and we might read differently is written anew.
            None => Ok((!config::is_plain(text)).then(|| config::write_as_git(&after))),
        }
    }

    /// An index that git and everybody else read alike: every path is one that git checks out where it says, and `git commit` makes of it
    /// just the tree that `git status` shows.
    fn judge_index(&self, at: &AbsPath, git: Option<&GitPlace>, text: &[u8]) -> Result<Option<Vec<u8>>, Refusal> {
        let format = git.map_or(ObjectFormat::Sha1, |git| self.object_format(&git.root));
        let index = Index::parse(format, text)?;
        let is_split = index.base.is_some();
        let mut whole = match &index.base {
            None => index,
            Some(base) => {
                let shared = at.child(format!("sharedindex.{}", base.checksum).as_bytes());
                let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
                let file = self.open_without_links(&shared, flags).ok_or(Refusal::SharedIndex)?;
                let shared = read_all(file.as_fd(), LONGEST).ok().flatten().ok_or(Refusal::SharedIndex)?;
                index.merge(&Index::parse(format, &shared)?).map_err(|_| Refusal::SharedIndex)?
            }
        };
        match whole.verify_cache_tree() {
            Ok(()) => Ok(None),
            Err(fault) if is_split => Err(fault.into()),
            Err(_) => {
                // Old trees have modes that no index has. Without what it remembers of trees, git makes them of the entries; and without
                // what it remembers of files, it looks at them.
                whole.distrust_files_since((0, 0));
                whole.write().map(Some).map_err(|_| Refusal::SharedIndex)
            }
        }
    }

    /// Is an object, or an index of a pack, what its name says?
    ///
    /// Git does not hash what it reads from `objects`. Without this check an agent removes a file that the user committed from there, or
    /// has a pack say that it holds it, and the user's next checkout writes the agent's content: a hook of the project, say.
    pub(crate) fn judge_object(
        &self,
        kind: ObjectFile,
        (dir, name): (BorrowedFd<'_>, &[u8]),
        git: &GitPlace,
        content: &[u8],
    ) -> Result<(), Refusal> {
        if kind == ObjectFile::PackIndex {
            return self.judge_pack_index((dir, dir, name), git, content);
        }
        if kind != ObjectFile::Loose && is_in_multi_pack_index(dir, name) {
            return Err(Refusal::Object);
        }
        match kind {
            ObjectFile::Loose => {
                let mut names = git.relative.rsplit(|byte| *byte == b'/');
                let (rest, fan_out) = (names.next().unwrap_or_default(), names.next().unwrap_or_default());
                let id = ObjectId::from_hex(&[fan_out, rest].concat()).ok_or(Refusal::Closed)?;
                Object::from_loose(&id, content, &mut ReadBudget { objects: MOST_OBJECTS, bytes: MOST_OBJECT_BYTES })?;
            }
            ObjectFile::PackIndex => {}
            // Git finds a pack by its index, which comes last and is verified then.
            ObjectFile::Pack if is_there(dir, &beside(name, b"idx")) => return Err(Refusal::Object),
            ObjectFile::Pack => {}
            ObjectFile::PackCache => return Err(Refusal::Closed),
            ObjectFile::PackKeep | ObjectFile::PackPromisor if !self.may_mark_pack(kind, (dir, name), git) => {
                return Err(Refusal::Closed);
            }
            ObjectFile::PackKeep | ObjectFile::PackPromisor => {}
        }
        Ok(())
    }

    /// Does the index of a pack say what is in the pack? The pack is read where the index comes to, or where it comes from if the pack
    /// comes with it.
    pub(crate) fn judge_pack_index(
        &self,
        (dir, comes_from, name): (BorrowedFd<'_>, BorrowedFd<'_>, &[u8]),
        git: &GitPlace,
        content: &[u8],
    ) -> Result<(), Refusal> {
        // What is left of another pack of this name.
        let is_left = |ending: &&[u8]| is_there(dir, &beside(name, ending));
        if is_in_multi_pack_index(dir, name) || [b"rev".as_slice(), b"bitmap", b"mtimes"].iter().any(is_left) {
            return Err(Refusal::Object);
        }
        let pack = beside(name, b"pack");
        let pack = LeasedFile::open(if is_there(dir, &pack) { dir } else { comes_from }, &pack)?;
        let mut budget = ReadBudget { objects: MOST_OBJECTS, bytes: MOST_OBJECT_BYTES };
        let index: Box<dyn ReadAt> = Box::new(content.to_vec());
        Ok(PackReader::open(self.object_format(&git.root), index, Box::new(pack))?.verify(&mut budget)?)
    }

    /// May a pack be marked as one that stays, or as one whose objects a server completes? Only a pack that git does not use yet, and the
    /// second only in a repository that has such a server. What is marked already may be marked again.
    pub(crate) fn may_mark_pack(&self, kind: ObjectFile, (dir, name): (BorrowedFd<'_>, &[u8]), git: &GitPlace) -> bool {
        let is_unused = || !is_there(dir, &beside(name, b"idx"));
        match kind {
            ObjectFile::PackKeep => !is_there(dir, name) && is_unused(),
            ObjectFile::PackPromisor => self.has_promisor(&git.root) && (is_there(dir, name) || is_unused()),
            ObjectFile::Loose | ObjectFile::Pack | ObjectFile::PackIndex | ObjectFile::PackCache => false,
        }
    }

    /// Does a server complete the objects of a repository (a partial clone)?
    fn has_promisor(&self, root: &AbsPath) -> bool {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = self.open_without_links(&root.child(b"config"), flags);
        let text = file.and_then(|file| read_all(file.as_fd(), LONGEST_SETTINGS).ok()?).unwrap_or_default();
        let is_one = |entry: &config::Entry| entry.is("extensions", "partialclone") || entry.is("remote", "promisor");
        config::parse(&text).iter().any(is_one)
    }

    /// How objects of a repository are named.
    fn object_format(&self, root: &AbsPath) -> ObjectFormat {
        // A linked work tree's is that of the repository in whose `worktrees` its directory lies.
        let above = root.parent().filter(|above| above.file_name() == Some(b"worktrees"));
        let repository = above.and_then(|above| above.parent());
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
        let places = [Some(root), repository.as_ref()];
        let mut settings = places.into_iter().flatten().filter_map(|place| {
            let file = self.open_without_links(&place.child(b"config"), flags)?;
            read_all(file.as_fd(), LONGEST_SETTINGS).ok()?
        });
        let text = settings.next().unwrap_or_default();
        let is_sha256 =
            |entry: &config::Entry| entry.is("extensions", "objectformat") && entry.value.as_deref() == Some(b"sha256");
        if config::parse(&text).iter().any(is_sha256) { ObjectFormat::Sha256 } else { ObjectFormat::Sha1 }
    }

    fn judge_modules(&self, at: &AbsPath, text: &[u8], before: &[u8]) -> Result<Option<Vec<u8>>, Refusal> {
        if text.len() > LONGEST_SETTINGS {
            return Err(Refusal::Unreadable);
        }
        let after = config::parse_whole(text).ok_or(Refusal::Unreadable)?;
        let judge = settings::Judge {
            before: &config::parse(before),
            age: Age::Existing,
            may_contact: &|host, port| self.may_contact(host, port),
            may_use: &|path, usage| self.may_use((at, None), *path, usage),
            is_work_tree: &|_| false,
        };
        let foreign = after.iter().find(|entry| entry.section != b"submodule");
        let foreign =
            foreign.map(|entry| settings::Refused { key: settings::key_of(entry), why: settings::WhyRefused::Key });
        match foreign.or_else(|| judge.refused(&after)) {
            Some(refused) => Err(Refusal::Setting(refused)),
            None => Ok((!config::is_plain(text)).then(|| config::write_as_git(&after))),
        }
    }

    /// May the user's git contact a host? Those that the agent reaches itself learn nothing more by it.
    fn may_contact(&self, host: &str, port: u16) -> bool {
        [port, 443, 80, 22]
            .iter()
            .any(|port| HostTarget::new(host, *port).is_ok_and(|target| self.surface.decide_host(&target).is_some()))
    }

    /// Does what a file refers to lie where the session may write?
    fn judge_reference(&self, reference: &Reference, at: &AbsPath, git: Option<&GitPlace>) -> Result<(), Refusal> {
        match reference {
            Reference::None => Ok(()),
            Reference::CommonDir(path) => {
                self.accept(ReferenceKind::CommonDir, at, path, |target| self.is_repository_of(at, target))
            }
            Reference::WorkTreeFile(path) => {
                let fits = |target: &AbsPath| self.is_work_tree_file(target) && self.may_use_remotes_from(at, target);
                self.accept(ReferenceKind::WorkTreeFile, at, path, fits)
            }
            Reference::ObjectDirectories(all) => {
                let is_new = git.is_some_and(|git| git.age == Age::New);
                let accept = |path: &Vec<u8>| {
                    self.accept(ReferenceKind::ObjectDirectory, at, path, |target| is_new && self.is_readable(target))
                };
                all.iter().try_for_each(accept)
            }
        }
    }

    /// Accepts a path that a file in the directory `at` names, if it leads to something that fits, now and later.
    fn accept(
        &self,
        kind: ReferenceKind,
        at: &AbsPath,
        named: &[u8],
        fits: impl FnOnce(&AbsPath) -> bool,
    ) -> Result<(), Refusal> {
        let is_accepted = self.accepts(&reference(kind, at, named), fits);
        if is_accepted { Ok(()) } else { Err(Refusal::Elsewhere(named.to_vec())) }
    }

    fn accepts(&self, reference: &GitReference, fits: impl FnOnce(&AbsPath) -> bool) -> bool {
        let target = reference.target().filter(fits);
        target.is_some_and(|target| self.references.accept(self.root, reference, target))
    }

    /// May the user's git use this repository of the local file system, from every work tree? What the session may not read would come
    /// into the project by a fetch, and a push writes.
    fn may_use(&self, (at, git): (&AbsPath, Option<&GitPlace>), path: LocalPath<'_>, usage: LocalUse) -> bool {
        let (bases, text) = match path {
            LocalPath::OfRemote(text) => (tops(self.root, at), text),
            LocalPath::OfSuperproject(text) => {
                // The settings of the repository, or `.gitmodules` at the top of the work tree.
                let git_dir = git.map_or_else(|| git_directory(self.root, at), |_| Some(at.clone()));
                let git_dir = git_dir.unwrap_or_else(|| at.clone());
                let above = git_dir.parent().filter(|above| above.file_name() == Some(b"worktrees"));
                let common_dir = above.and_then(|above| above.parent()).unwrap_or_else(|| git_dir.clone());
                let tops = tops(self.root, &git_dir);
                let remotes = remotes(self.root, &common_dir);
                if remotes.has_host && address::leads_above_remote(text) {
                    return false;
                }
                match remotes {
                    Remotes { local, has_host: false, .. } if local.is_empty() => (tops, text),
                    Remotes { local, .. } => {
                        let seen_from =
                            |top: &AbsPath| local.iter().filter_map(|text| resolved(top, text)).collect::<Vec<_>>();
                        (tops.iter().flat_map(seen_from).collect(), text)
                    }
                }
            }
            LocalPath::BesideRemote(_) => return !leads_to_own(self.surface, path),
        };
        let is_new = git.is_some_and(|git| git.age == Age::New);
        let fits = |target: &AbsPath| match usage {
            // What is in the session's own `/tmp`: outside the path is another one.
            LocalUse::Fetch if is_temporary(self.surface, target) => self.host.is_vacant(target),
            LocalUse::Fetch => self.is_readable(target) && (is_new || self.is_writable(target)),
            LocalUse::Push | LocalUse::Name => self.is_writable(target) && !is_own(self.surface, target),
        };
        let accepts = |base: &AbsPath| self.accepts(&remote(at, base, text), fits);
        !leads_to_own(self.surface, path) && bases.iter().all(accepts)
    }

    /// A new remote on another host, where the address of a submodule leads above it: accepted while there were only local remotes, it would
    /// be the address of another host.
    fn first_bent_by_remote(
        &self,
        (at, git): (&AbsPath, Option<&GitPlace>),
        before: &[config::Entry],
        after: &[config::Entry],
    ) -> Option<settings::Refused> {
        let is_new = |entry: &&config::Entry| {
            let is_host =
                entry.value.as_deref().is_some_and(|value| matches!(address::parse(value), Address::Host { .. }));
            entry.is("remote", "url") && is_host && !before.contains(entry)
        };
        let remote = after.iter().find(is_new)?;
        let above = git.and_then(|_| at.parent()).filter(|above| above.file_name() == Some(b"worktrees"));
        let common_dir = above.and_then(|above| above.parent()).unwrap_or_else(|| at.clone());
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
        let files = tops(self.root, &common_dir).into_iter().map(|top| top.child(b".gitmodules"));
        let leads_above = |file: AbsPath| {
            let Some(file) = self.open_without_links(&file, flags) else { return false };
            // What is too long to be read is no reason to accept it.
            let Some(text) = read_all(file.as_fd(), LONGEST_SETTINGS).ok().flatten() else { return true };
            let addresses = config::parse(&text).into_iter().filter(|entry| entry.is("submodule", "url"));
            addresses.filter_map(|entry| entry.value).any(|value| address::leads_above_remote(&value))
        };
        let why = settings::WhyRefused::Value;
        files.into_iter().any(leads_above).then(|| settings::Refused { key: settings::key_of(remote), why })
    }

    /// The same for the relative addresses of a repository's remotes, from a new work tree.
    fn may_use_remotes_from(&self, at: &AbsPath, file: &AbsPath) -> bool {
        let common_dir = at.parent().and_then(|above| above.parent());
        let Some((common_dir, top)) = common_dir.zip(file.parent()) else { return false };
        let remotes = remotes(self.root, &common_dir);
        let relative = remotes.named.iter().filter(|text| text.first() != Some(&b'/'));
        relative
            .into_iter()
            .all(|text| self.accepts(&remote(&common_dir, &top, text), |target| self.is_writable(target)))
    }

    fn is_known(&self, kind: ReferenceKind, at: &AbsPath, named: &[u8]) -> bool {
        self.references.knows(self.root, &reference(kind, at, named))
    }

    /// May a reference lead to a path after a directory was moved? `now` is where that is before the move, if it is anywhere.
    ///
    /// What is not there yet is judged when it is made, in the places that the session may write: git takes no directory for a
    /// repository that is not judged as one.
    pub(crate) fn may_lead(&self, reference: &GitReference, target: &AbsPath, now: Option<&AbsPath>) -> bool {
        let may_write = || self.is_writable(target) && !is_own(self.surface, target);
        let fits = match reference.kind {
            ReferenceKind::CommonDir => now.is_some_and(|now| self.is_repository_of(&reference.dir, now)),
            ReferenceKind::ObjectDirectory => self.is_readable(target),
            ReferenceKind::WorkTreeFile => self.is_work_tree_file(target),
            ReferenceKind::GitFile | ReferenceKind::WorkTree | ReferenceKind::Remote => may_write(),
        };
        fits && now.is_none_or(|now| is_without_links(self.root, now))
    }

    fn is_writable(&self, dir: &AbsPath) -> bool {
        self.surface.decide(&dir.child(b"x"), Access::Write).is_allowed()
    }

    /// The directory of a linked work tree lies in `worktrees` of its repository.
    fn is_repository_of(&self, at: &AbsPath, target: &AbsPath) -> bool {
        let worktrees = at.parent().filter(|above| above.file_name() == Some(b"worktrees"));
        let is_it = worktrees.and_then(|above| above.parent()).as_ref() == Some(target);
        is_it && self.region_of(target).is_some_and(|region| region.below.is_empty())
    }

    /// What the session has of its own there (`/tmp`) is another directory than the one that the user's git would repair.
    fn is_work_tree_file(&self, target: &AbsPath) -> bool {
        let tree = target.parent().filter(|_| target.file_name() == Some(b".git"));
        tree.is_some_and(|tree| !is_own(self.surface, &tree) && self.is_writable(&tree))
    }

    fn is_readable(&self, dir: &AbsPath) -> bool {
        let shown = [Role::WorkingDir, Role::Write, Role::Sibling, Role::Read, Role::Reference, Role::GitDir];
        matches!(self.surface.decide(dir, Access::Read).because, Because::Rule(rule) | Because::OnlyReadable(rule)
            if shown.iter().any(|role| rule.effect == Effect::Write(*role) || rule.effect == Effect::Read(*role)))
    }

    /// The git directory that the `.git` file of a work tree names.
    pub(crate) fn git_directory_of(&self, tree: &AbsPath, text: &[u8]) -> Option<AbsPath> {
        reference(ReferenceKind::GitFile, tree, grammar::git_file(text)?).target()
    }

    /// The git directory that a directory is in, if it can be entered without following a link.
    pub(crate) fn region_of(&self, path: &AbsPath) -> Option<GitRegion> {
        match self.region_at(path)? {
            Region::Git(region) => Some(region),
            Region::Ordinary => None,
        }
    }

    /// Where a directory is that can be entered without following a link.
    fn region_at(&self, path: &AbsPath) -> Option<Region> {
        let dir = self.open_without_links(path, OFlags::PATH | OFlags::DIRECTORY)?;
        self.regions.of(self.surface, dir.as_fd(), path).ok()
    }

    pub(crate) fn open_without_links(&self, path: &AbsPath, flags: OFlags) -> Option<OwnedFd> {
        let below = path.as_bytes().strip_prefix(b"/").filter(|rest| !rest.is_empty()).unwrap_or(b".");
        let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS | ResolveFlags::BENEATH;
        for _ in 0..64 {
            match rustix::fs::openat2(self.root, below, flags | OFlags::CLOEXEC, Mode::empty(), resolve) {
                // Something was renamed meanwhile.
                Err(Errno::AGAIN) => {}
                // Without openat2 each name is opened by itself, and a link is refused as well.
                Err(Errno::NOSYS | Errno::PERM) => {
                    return open_by_names(self.root.as_fd(), &CString::new(below).ok()?, flags).ok();
                }
                other => return other.ok(),
            }
        }
        None
    }

    /// Is this a git directory that is judged like all others, and may be written? Git names it in a `.git` file before it makes it.
    fn is_git_directory_of_the_session(&self, dir: &AbsPath) -> bool {
        let existing = dir.ancestors().find_map(|above| Some((self.region_at(&above)?, above)));
        let Some((Region::Git(region), above)) = existing else { return false };
        let missing = dir.as_bytes()[above.as_bytes().len()..].strip_prefix(b"/").unwrap_or_default();
        let below = if missing.is_empty() { region.below.clone() } else { region.entry(missing) };
        let is_part =
            if below.is_empty() { self.is_placed(&region.root) } else { layout::is_place_of_git_directory(&below) };
        is_part && self.is_writable(dir)
    }

    /// Does a git directory lie in no other one, or where git keeps one in another?
    fn is_placed(&self, root: &AbsPath) -> bool {
        let Some((parent, name)) = root.parent().zip(root.file_name()) else { return false };
        match self.region_at(&parent) {
            Some(Region::Git(region)) => layout::is_place_of_git_directory(&region.entry(name)),
            Some(Region::Ordinary) => true,
            None => false,
        }
    }

    /// Does a work tree belong to the git directory of a submodule, which is in `at`: does its `.git` file name it? Another repository has
    /// its work tree around it, or names none.
    fn is_work_tree_of(&self, at: &AbsPath, tree: &AbsPath) -> bool {
        let is_whole = |dir: &AbsPath| self.region_of(dir).is_some_and(|region| region.below.is_empty());
        let is_submodule = at.file_name() != Some(b".git")
            && at.ancestors().skip(1).any(|above| {
                above.file_name() == Some(b"modules") && above.parent().is_some_and(|repository| is_whole(&repository))
            });
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
        let text =
            self.open_without_links(&tree.child(b".git"), flags).and_then(|file| read_all(file.as_fd(), 8192).ok()?);
        let back = text.and_then(|text| self.git_directory_of(tree, &text));
        is_submodule && back.as_ref() == Some(at) && !is_own(self.surface, tree) && self.is_writable(tree)
    }
}

/// The file of a pack with another ending.
fn beside(name: &[u8], ending: &[u8]) -> Vec<u8> {
    let stem = name.split(|byte| *byte == b'.').next().unwrap_or_default();
    [stem, b".", ending].concat()
}

/// Does an index of several packs list a pack of this name? It says where objects are in it, and git believes that of another pack that took
/// its place.
fn is_in_multi_pack_index(dir: BorrowedFd<'_>, name: &[u8]) -> bool {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let stem = name.split(|byte| *byte == b'.').next().unwrap_or_default();
    match rustix::fs::openat(dir, c"multi-pack-index", flags, Mode::empty()) {
        Err(Errno::NOENT) => is_there(dir, b"multi-pack-index.d"),
        Err(_) => true,
        Ok(file) => match read_all(file.as_fd(), LONGEST) {
            Ok(Some(text)) => text.windows(stem.len().max(1)).any(|part| part == stem),
            _ => true,
        },
    }
}

/// A remote that the settings in the directory `at` name.
fn remote(at: &AbsPath, base: &AbsPath, text: &[u8]) -> GitReference {
    GitReference { kind: ReferenceKind::Remote, dir: at.clone(), base: base.clone(), text: text.to_vec() }
}

/// Where a remote is, seen from the top of a work tree.
fn resolved(top: &AbsPath, text: &[u8]) -> Option<AbsPath> {
    remote(top, top, text).target()
}

/// What a file in the directory `at` names.
fn reference(kind: ReferenceKind, at: &AbsPath, named: &[u8]) -> GitReference {
    // Alternates are relative to the directory of objects, in whose `info` the file is.
    let above = at.parent().filter(|_| kind == ReferenceKind::ObjectDirectory);
    GitReference { kind, dir: at.clone(), base: above.unwrap_or_else(|| at.clone()), text: named.to_vec() }
}
