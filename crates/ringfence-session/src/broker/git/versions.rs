//! Protected files of a work tree while git replaces files: they get versions that the repository had when the session began.
//!
//! Git removes a file and makes it anew. What it writes goes to a file in memory; when it is closed, the supervisor compares its own copy
//! with the versions of the start, and puts the copy in place. This is offered to git while it holds the lock of an index. The agent can hold
//! that lock too: the condition keeps other programs from removing protected files by accident, and is no boundary. The boundary is the
//! content.
//!
//! Where a version is refused, git itself would go on, move `HEAD` and exit with 0, and the next commit would revert the file. So the new
//! index is refused as well when git moves it into place: git fails, and `HEAD` and the index stay as they were.

use std::collections::BTreeSet;
use std::os::fd::AsFd as _;
use std::sync::{Mutex, PoisonError};

use ringfence_git::replacement::of_command;
use ringfence_surface::{AbsPath, Access, Because};
use rustix::fs::OFlags;
use rustix::io::Errno;

use super::super::Broker;
use super::super::domain::LandingRight;
use super::super::judge::Ruling;
use super::super::open::Opening;
use super::super::resolve::Place;
use super::super::work::{Reply, Stop, Work};
use super::{Content, NotPut, Refusal};
use crate::git_files::{Region, is_own, read_all};
use crate::git_gains::Unknown;
use crate::landing::{EntryChange, Landing, NotLanded, Outcome, Repositories, is_open_but_for_protection};

/// The longest `.git` file.
const LONGEST_LINE: usize = 8192;
/// The remedy of each refusal.
pub(in super::super) const REMEDY: &str = "run this git command yourself, outside the fence";
/// The remedy for a clone at a path that was in use.
const OTHER_PATH: &str =
    "clone to a path that did not exist when the session started, or run this git command yourself, outside the fence";

/// What the user, or the agent, can do where a version is refused.
pub(in super::super) fn remedy_for(cause: Unknown) -> &'static str {
    match cause {
        Unknown::UsedPath => OTHER_PATH,
        Unknown::Repository | Unknown::Absent | Unknown::Budget | Unknown::Damaged | Unknown::NotStored => REMEDY,
    }
}

impl Work<'_, '_> {
    /// Is git replacing files in the work tree that a place is in, and is the place protected there only because of what it is?
    fn is_replaced_by_git(&self, place: &Place, path: &AbsPath) -> Result<bool, Stop> {
        let Ruling::Refused(verdict) = self.judge(path, Access::Write) else { return Ok(false) };
        if !matches!(verdict.because, Because::Rule(_)) || !place.is_entry() || !self.is_git() {
            return Ok(false);
        }
        // A caller that has restricted itself is carried out with its own rights only.
        if self.domain().is_some() || is_own(self.surface(), &place.at) || self.region(place)? != Region::Ordinary {
            return Ok(false);
        }
        let Some(replacement) = self.replacement_of(path) else { return Ok(false) };
        let is_open = is_open_but_for_protection(self.surface(), path, &replacement.tree);
        if is_open {
            self.note_clone(&replacement.tree);
        }
        Ok(is_open)
    }

    /// The work tree that a path is in, if the lock of its index is held.
    fn replacement_of(&self, path: &AbsPath) -> Option<Replacement> {
        let files = self.content_judge();
        path.ancestors().skip(1).find_map(|tree| {
            let dot_git = tree.child(b".git");
            let git_dir = match files.open_without_links(&dot_git, OFlags::PATH | OFlags::DIRECTORY) {
                Some(_) => dot_git,
                None => {
                    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
                    let file = files.open_without_links(&dot_git, flags)?;
                    files.git_directory_of(&tree, &read_all(file.as_fd(), LONGEST_LINE).ok()??)?
                }
            };
            // The innermost work tree decides.
            let lock = files.open_without_links(&git_dir.child(INDEX_LOCK), OFlags::PATH);
            Some(lock.map(|_| Replacement { tree, git_dir }))
        })?
    }

    fn is_git(&self) -> bool {
        self.caller.names().0 == b"git"
    }

    /// Makes a protected directory for git.
    pub(in super::super) fn make_directory_for_git(&mut self, place: &Place) -> Result<Option<Reply>, Stop> {
        if self.judge(&place.path(), Access::Write).is_allowed() || !is_missing(place) {
            return Ok(None);
        }
        self.change_for_git(place, EntryChange::MakeDirectory)
    }

    /// Opens a protected file that git makes anew.
    pub(in super::super) fn open_version(
        &mut self,
        place: &Place,
        path: &AbsPath,
        opening: &Opening,
    ) -> Result<Option<Reply>, Stop> {
        let makes = opening.has(OFlags::CREATE) && opening.writes() && !opening.has(OFlags::DIRECTORY);
        if !makes || !is_missing(place) || !self.is_replaced_by_git(place, path)? {
            return Ok(None);
        }
        self.open_judged(place, opening, (Content::Version, None)).map(Some)
    }

    /// Makes or removes a protected entry for git. Nothing where that is not asked for by git.
    pub(in super::super) fn change_for_git(
        &mut self,
        place: &Place,
        change: EntryChange,
    ) -> Result<Option<Reply>, Stop> {
        let path = place.path();
        if !self.is_replaced_by_git(place, &path)? {
            return Ok(None);
        }
        let repositories = self.broker().repositories_of(&path);
        let landing = Landing::Entry { path: path.clone(), change, repositories };
        let right = LandingRight::unrestricted(self.domain().as_ref()).ok_or(Errno::ACCESS)?;
        match self.broker().land_version(&landing, right, &|| self.is_waiting()) {
            Ok(()) => {
                self.region_changed(place);
                Ok(Some(Reply::Done))
            }
            Err(NotPut::Failed(errno)) => Err(errno.into()),
            // No versions are put in place in this session: the rule is what refuses it.
            Err(NotPut::Refused(Refusal::Closed)) => {
                self.refuse_or_ask(place.dir.as_fd(), &path, Access::Write).map(|()| None)
            }
            Err(NotPut::Refused(refusal)) => {
                let remedy = if let Refusal::Version(cause) = &refusal { remedy_for(*cause) } else { REMEDY };
                let (judge, call) = self.teller();
                judge.stopped(self.caller.known(), call, path.clone(), (format!("git: {refusal}"), remedy.to_owned()));
                self.refuse_index_of(&path);
                Err(Errno::ACCESS.into())
            }
        }
    }

    /// Refuses something that git makes while it replaces files, and that is no file.
    pub(in super::super) fn refuse_link_of_git(&self, place: &Place) -> Result<(), Stop> {
        let path = place.path();
        if self.is_replaced_by_git(place, &path)? && is_missing(place) {
            let (judge, call) = self.teller();
            let why = format!("git: {}", Refusal::VersionIsLink);
            judge.stopped(self.caller.known(), call, path.clone(), (why, REMEDY.to_owned()));
            self.refuse_index_of(&path);
            return Err(Errno::ACCESS.into());
        }
        Ok(())
    }

    /// Git makes the directory of a new work tree (`git worktree add`): see [`Work::foresee`].
    pub(in super::super) fn foresee_work_tree(&self, place: &Place) -> Result<(), Stop> {
        match place.at.parent().filter(|_| place.at.file_name() == Some(b"worktrees")) {
            Some(git_dir) => self.foresee(place, &git_dir),
            None => Ok(()),
        }
    }

    /// Git locks the index. If the command will need a version of a protected file that is refused, it is refused here, before it has changed
    /// anything. Its command line is a hint: an agent that changes it is refused later.
    pub(in super::super) fn foresee(&self, place: &Place, git_dir: &AbsPath) -> Result<(), Stop> {
        let (program, command) = self.caller.names();
        let is_whole = command.last() == Some(&0);
        let words = || command.strip_suffix(b"\0").unwrap_or_default().split(|byte| *byte == 0);
        let Some(right) = LandingRight::unrestricted(self.domain().as_ref()) else { return Ok(()) };
        if program != b"git" || !is_whole || of_command(words()).is_none() {
            return Ok(());
        }
        if !matches!(self.region(place)?, Region::Git(_)) || !is_missing(place) {
            return Ok(());
        }
        let landing = Landing::Foresee { git_dir: git_dir.clone(), command };
        let landed = self.broker().judge.land_about(&landing, right, &|| self.is_waiting());
        if let Some((Outcome::Not(NotLanded::Version(cause)), Some(path))) = landed {
            let (judge, call) = self.teller();
            let why = format!("git: {}; nothing was changed", Refusal::Version(cause));
            judge.stopped(self.caller.known(), call, path, (why, REMEDY.to_owned()));
            return Err(Errno::ACCESS.into());
        }
        Ok(())
    }

    /// A protected file does not get the version that git wants: the index that git makes is not put in place either.
    pub(in super::super) fn refuse_index_of(&self, path: &AbsPath) {
        if self.is_git()
            && let Some(replacement) = self.replacement_of(path)
        {
            self.broker().failed.add(replacement.git_dir);
        }
    }

    /// The lock of an index is gone, and with it what failed under it.
    pub(in super::super) fn forget_failed(&self, place: &Place) {
        if place.name == INDEX_LOCK {
            self.broker().failed.remove(&place.at);
        }
    }

    /// Was a protected file refused while git made this index?
    pub(in super::super) fn has_failed(&self, old: &Place) -> bool {
        old.name == INDEX_LOCK && self.broker().failed.has(&old.at)
    }
}

/// The index that git is making.
pub(in super::super) const INDEX_LOCK: &[u8] = b"index.lock";
/// More git directories are not remembered.
const MOST_FAILED: usize = 1024;

/// Git directories in which a protected file was refused while the lock of the index was held.
#[derive(Debug)]
pub(in super::super) struct FailedReplacements(Mutex<BTreeSet<AbsPath>>);

impl FailedReplacements {
    pub(in super::super) fn new() -> Self {
        Self(Mutex::new(BTreeSet::new()))
    }

    fn add(&self, git_dir: AbsPath) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() < MOST_FAILED {
            all.insert(git_dir);
        }
    }

    fn remove(&self, git_dir: &AbsPath) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(git_dir);
    }

    fn has(&self, git_dir: &AbsPath) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(git_dir)
    }
}

/// A work tree in which git is replacing files.
struct Replacement {
    tree: AbsPath,
    git_dir: AbsPath,
}

fn is_missing(place: &Place) -> bool {
    matches!(place.look(), Err(Errno::NOENT))
}

impl Broker<'_> {
    /// Of which repositories may versions of a file be?
    pub(in super::super) fn repositories_of(&self, path: &AbsPath) -> Repositories {
        let is_new = || self.clones.around(path).is_some_and(|top| self.clones.is_free(self.judge.surface(), &top));
        match self.beside {
            Some(beside) if !beside.has_redirects() && is_new() => Repositories::AlsoNew,
            _ => Repositories::OfTheStart,
        }
    }

    /// Has the supervisor put a version in place, or change an entry.
    pub(in super::super) fn land_version(
        &self,
        landing: &Landing,
        right: LandingRight,
        is_waiting: &dyn Fn() -> bool,
    ) -> Result<(), NotPut> {
        match self.judge.land(landing, right, is_waiting) {
            Some(Outcome::Done) => Ok(()),
            Some(Outcome::Failed(errno)) => Err(errno.into()),
            Some(Outcome::Not(NotLanded::Version(cause))) => Err(Refusal::Version(cause).into()),
            Some(Outcome::Not(NotLanded::Unsaved)) => Err(Refusal::Unsaved.into()),
            Some(Outcome::Not(NotLanded::Late)) => Err(Errno::TIMEDOUT.into()),
            Some(Outcome::Not(NotLanded::Content | NotLanded::Path | NotLanded::Malformed)) | None => {
                Err(Refusal::Closed.into())
            }
        }
    }
}
