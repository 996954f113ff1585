//! Files of git directories: who may write them, and with which content.
//!
//! Git executes, contacts and writes what the files of a repository say, and the user's own git reads them outside. So below every git
//! directory only what `ringfence_git::layout` lists is written, and what has a grammar is judged: settings, refs, the index, the
//! state of a rebase. A file is judged when it is moved into place, or, where a program writes it directly, when it is closed: until
//! then the program writes to a file of its own.

mod clones;
mod judged;
mod references;
mod roots;
mod versions;

use std::os::fd::AsFd as _;
use std::sync::Arc;

use ringfence_git::layout::{self, FileKind, ObjectFile, file_kind};
use ringfence_git::settings::Age;
use ringfence_surface::{AbsPath, Access, Because, Effect};
use rustix::fs::{AtFlags, FileType, OFlags, RenameFlags};
use rustix::io::Errno;

use super::Broker;
use super::caller::c_string;
use super::domain::{Domain, LandingRight, within};
use super::judge::Ruling;
use super::open::is_mounted_on;
use super::resolve::{Found, Place, Target, place_of};
use super::work::{Reply, Stop, Work};

pub(super) use self::judged::JudgedFiles;
pub(super) use self::versions::{FailedReplacements, INDEX_LOCK};
pub(super) use crate::git_files::{Content, GitPlace, Refusal, is_telling};
use crate::git_files::{
    Frozen, LONGEST, NotFrozen, Region, Writers, are_same, is_git_directory, is_own, is_there, read_all,
};
use crate::landing::{Landing, Outcome, SettingsFile};

/// The remedy for an operation of git that failed. It names no command that discards changes: the work tree may be a submodule's, and the
/// user's shell elsewhere.
const UNDO: &str = "`git status` in the work tree of this repository lists what was replaced; run the git command yourself, outside the fence";

/// What is about to be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Making<'m> {
    Directory,
    /// A symbolic link with this text.
    Link(&'m [u8]),
    /// A second name of something.
    Name(Source),
    /// A pipe, a socket, a device.
    Node,
}

/// What a second name is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    /// A file in no git directory.
    Ordinary,
    /// A file that git is about to move to where objects are found, or an object.
    Object,
    /// Another file of a git directory.
    Git,
}

/// What decides about a file besides the rules of the policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum JudgedBy {
    /// Nothing.
    Rules,
    /// Its place in a git directory, in the stead of the built-in rules about those.
    Place,
    /// Its content, in the stead of the built-in rule that protects it.
    Content,
}

/// Why content is not put in place.
#[derive(Debug)]
pub(super) enum NotPut {
    Refused(Refusal),
    Failed(Errno),
}

impl From<Refusal> for NotPut {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<Errno> for NotPut {
    fn from(errno: Errno) -> Self {
        Self::Failed(errno)
    }
}

impl From<NotFrozen> for NotPut {
    fn from(cause: NotFrozen) -> Self {
        match cause {
            NotFrozen::NotPlain => Self::Refused(Refusal::Link),
            NotFrozen::Long => Self::Refused(Refusal::Unreadable),
            NotFrozen::Failed(errno) => Self::Failed(errno),
        }
    }
}

impl Work<'_, '_> {
    fn region(&self, place: &Place) -> Result<Region, Stop> {
        Ok(self.regions().of(self.surface(), place.dir.as_fd(), &place.at)?)
    }

    /// Where an entry is, if it is in a git directory.
    pub(super) fn git_place(&self, place: &Place) -> Result<Option<GitPlace>, Stop> {
        Ok(match self.region(place)? {
            Region::Git(region) if place.is_entry() => {
                let age = self.regions().age(&region.root);
                Some(GitPlace { relative: region.entry(&place.name), root: region.root, age })
            }
            Region::Ordinary if place.is_entry() => self.git_place_by_name(place),
            _ => None,
        })
    }

    /// A directory whose name ends in `.git` and that is no git directory yet: `git init --bare` writes the settings before it makes
    /// `objects`. What the built-in rules protect there is judged as in a git directory; all else is as free as anywhere.
    fn git_place_by_name(&self, place: &Place) -> Option<GitPlace> {
        let root = place.at.ancestors().find(|above| above.file_name().is_some_and(|name| name.ends_with(b".git")))?;
        let path = place.path();
        let Ruling::Refused(verdict) = self.judge(&path, Access::Write) else { return None };
        let is_by_name = matches!(verdict.because, Because::Rule(rule) if rule.is_of_git_directory());
        let relative = path.as_bytes()[root.as_bytes().len()..].strip_prefix(b"/")?.to_vec();
        // Once it is a git directory, everything in it is judged as in one that is made now.
        is_by_name.then_some(GitPlace { root, relative, age: Age::New })
    }

    /// How the content of a file is judged, where it is.
    pub(super) fn content_of(&self, place: &Place, git: Option<&GitPlace>) -> Option<Content> {
        let own = || is_own(self.surface(), &place.at);
        match (git.map(|git| file_kind(&git.relative)), place.name.as_slice()) {
            (Some(FileKind::Vetted(grammar)), _) => Some(Content::Vetted(grammar)),
            (Some(FileKind::Settings), _) => Some(Content::Settings),
            (Some(FileKind::Index | FileKind::SharedIndex), _) => Some(Content::Index),
            (Some(_), _) => None,
            (None, b".git") if !own() => Some(Content::GitFile),
            (None, b".gitmodules") if self.is_protected_modules(&place.path()) => Some(Content::Modules),
            // Git takes a file where it looks for a remote for one that names the repository.
            (None, _) if self.broker().references.is_remote(&place.path()) => Some(Content::GitFile),
            (None, _) => None,
        }
    }

    fn is_protected_modules(&self, path: &AbsPath) -> bool {
        let Ruling::Refused(verdict) = self.judge(path, Access::Write) else { return false };
        matches!(verdict.because, Because::Rule(rule) if rule.effect == Effect::Protect && !rule.source.is_written())
    }

    /// Do the rules of the policy let this be written, apart from those for which content is judged here?
    pub(super) fn is_permitted(&self, path: &AbsPath, judged: JudgedBy) -> bool {
        match self.judge(path, Access::Write) {
            Ruling::Allowed => true,
            Ruling::Refused(verdict) => match (verdict.because, judged) {
                (_, JudgedBy::Rules) | (Because::OnlyReadable(_) | Because::View(_), _) => false,
                (Because::Rule(rule), JudgedBy::Place) => rule.is_of_git_directory(),
                (Because::Rule(rule), JudgedBy::Content) => rule.effect == Effect::Protect && !rule.source.is_written(),
            },
        }
    }

    /// What decides about an entry besides the rules of the policy.
    pub(super) fn judged_by(&self, place: &Place) -> Result<JudgedBy, Stop> {
        let git = self.git_place(place)?;
        Ok(match (self.content_of(place, git.as_ref()), git) {
            (Some(Content::Modules), _) => JudgedBy::Content,
            (Some(_), _) | (None, Some(_)) => JudgedBy::Place,
            (None, None) => JudgedBy::Rules,
        })
    }

    /// Refuses a call about a git directory, unless the user is asked and allows it. It goes on where the mount refuses it anyway.
    pub(super) fn refuse_in_git(&mut self, place: &Place, refusal: &Refusal) -> Result<(), Stop> {
        let path = place.path();
        if self.is_answered(&path) {
            return Ok(());
        }
        let is_about_content = !matches!(
            refusal,
            Refusal::Closed
                | Refusal::Link
                | Refusal::Object
                | Refusal::Open
                | Refusal::Misplaced(_)
                | Refusal::Exchange(_)
        );
        let is_refused_by_rule = matches!(self.judge(&path, Access::Write), Ruling::Refused(_));
        if is_refused_by_rule && (self.asks() || !is_about_content) {
            return self.refuse_or_ask(place.dir.as_fd(), &path, Access::Write);
        }
        let remedy = "make this change yourself, outside the fence".to_owned();
        let (judge, call) = self.teller();
        judge.stopped(self.caller.known(), call, path, (format!("git: {refusal}"), remedy));
        Err(Errno::ACCESS.into())
    }

    /// May this be made, where it is in a git directory or called `.git`? What is there already is for the kernel to say.
    pub(super) fn may_make_in_git(&mut self, place: &Place, making: Making<'_>) -> Result<(), Stop> {
        if place.look().is_ok() {
            return Ok(());
        }
        if self.is_other_spelling(place) {
            return self.refuse_in_git(place, &Refusal::Closed);
        }
        let becomes = is_telling(&place.name) && self.may_become(place)?;
        let git = self.git_place(place)?;
        let is_known = match (&git, making) {
            (Some(git), Making::Directory) => {
                place.name != b".git"
                    && (layout::is_directory(&git.relative) || file_kind(&git.relative) == FileKind::Forming)
            }
            // `git init` finds out whether there are symbolic links.
            (Some(git), Making::Link(text)) => text == b"testing" && is_test_name(&git.relative),
            (Some(git), Making::Name(source)) => match (file_kind(&git.relative), source) {
                (FileKind::Object(_) | FileKind::Free, Source::Object) => true,
                // What is still being made is judged as a whole.
                (FileKind::Forming, Source::Object | Source::Ordinary) => true,
                _ => false,
            },
            (Some(_), Making::Node) => false,
            // A link would choose the git directory, and so would a file that is not judged.
            (None, Making::Link(_) | Making::Name(_) | Making::Node) if place.name == b".git" => {
                is_own(self.surface(), &place.at)
            }
            (None, Making::Name(Source::Git)) => false,
            // Git reads `.gitmodules` of a work tree through a link, and nothing judges what is there later.
            (None, _) => match self.content_of(place, None) {
                Some(Content::Modules) => false,
                Some(Content::GitFile) => making == Making::Directory,
                _ => true,
            },
        };
        if is_known {
            return Ok(());
        }
        if becomes {
            self.regions().removed(&place.at);
            self.regions().forget();
        }
        self.refuse_in_git(place, if making == Making::Directory { &Refusal::Closed } else { &Refusal::Link })
    }

    /// The names that regions depend on have changed.
    pub(super) fn region_changed(&self, place: &Place) {
        if !is_telling(&place.name) {
            return;
        }
        // What becomes a git directory by this name was entered before it was made; what is one already stays as old as it is.
        self.regions().forget();
        // What is none any more is looked at as a whole when it becomes one again: another session may have put a hook there.
        let is_one =
            place.at.file_name() == Some(b".git") || is_git_directory(|name| is_there(place.dir.as_fd(), name));
        if !is_one {
            self.regions().removed(&place.at);
        }
    }

    /// A directory was removed: what takes its place is not as old.
    pub(super) fn removed_directory(&self, place: &Place) {
        self.regions().removed(&place.path());
    }

    /// A directory called `.git` was made: what is in it is judged as in a repository that is not used outside yet.
    pub(super) fn made_directory(&self, place: &Place) {
        if place.name == b".git" && !is_own(self.surface(), &place.at) {
            self.regions().made(place.path());
        }
        self.region_changed(place);
    }

    /// A file that is moved to where its content is judged: judges and moves it.
    pub(super) fn move_judged(
        &mut self,
        content: Content,
        old: &Place,
        new: &Place,
        git: Option<&GitPlace>,
    ) -> Result<Option<Reply>, Stop> {
        let path = new.path();
        if content == Content::Index && self.has_failed(old) {
            let (judge, call) = self.teller();
            let why = format!("git: {}", Refusal::Incomplete);
            judge.stopped(self.caller.known(), call, path, (why, UNDO.to_owned()));
            return Err(Errno::ACCESS.into());
        }
        let frozen = self.frozen(old);
        let placing = content.may_refer().then(|| self.broker().references.place());
        let moved = frozen.and_then(|frozen| {
            let before = content_now(new, self.domain().as_ref()).unwrap_or_default();
            match self.content_judge().judge(content, (&new.at, git), &frozen.content, &before)? {
                Some(anew) => Ok(frozen.with(anew)),
                None => Ok(frozen),
            }
        });
        let moved = moved.and_then(|frozen| {
            if let Some(kind) = SettingsFile::of(content).filter(|_| is_mounted_on(new)) {
                return self.move_by_supervisor((kind, old, new), frozen);
            }
            Ok(self.move_frozen(frozen, old, new)?)
        });
        drop(placing);
        match moved {
            Ok(()) => Ok(Some(Reply::Done)),
            Err(NotPut::Refused(refusal)) => {
                self.refuse_in_git(new, &refusal)?;
                // The user allows it, or the mount is read-only.
                Ok(None)
            }
            Err(NotPut::Failed(errno)) => Err(self.told_if_held(&path, errno)),
        }
    }

    /// Reads a file that the caller may read, before it is moved: what is put in place is a copy.
    fn frozen(&self, place: &Place) -> Result<Frozen, NotPut> {
        Ok(Frozen::of(self.perform(|| Frozen::open(place.dir.as_fd(), &place.name)), LONGEST)?)
    }

    /// Whether a process has a file open for writing that the caller may read.
    fn writers(&self, place: &Place) -> rustix::io::Result<Writers> {
        Ok(Frozen::writers(&self.perform(|| Frozen::open(place.dir.as_fd(), &place.name))?))
    }

    fn move_frozen(&self, frozen: Frozen, old: &Place, new: &Place) -> rustix::io::Result<()> {
        let (from, to) = ((old.dir.as_fd(), old.name.as_slice()), (new.dir.as_fd(), new.name.as_slice()));
        let journal = self.broker().journal;
        self.perform(|| frozen.rename(from, to, journal))
    }

    /// A file of settings that is mounted read-only: the supervisor puts the content in place, and the caller's file is removed.
    fn move_by_supervisor(
        &self,
        (kind, old, new): (SettingsFile, &Place, &Place),
        frozen: Frozen,
    ) -> Result<(), NotPut> {
        let text = frozen.content.clone();
        let domain = self.domain();
        let right = match LandingRight::unrestricted(domain.as_ref()) {
            Some(right) => right,
            None => match self.move_frozen(frozen, old, new) {
                // The mount has gone.
                Ok(()) => return Ok(()),
                Err(tried) => LandingRight::after(domain.as_ref(), tried).ok_or(tried)?,
            },
        };
        self.broker().land_settings((new.path(), kind), &text, right, &|| self.is_waiting())?;
        let name = c_string(&old.name)?;
        Ok(self.perform(|| rustix::fs::unlinkat(&old.dir, name.as_c_str(), AtFlags::empty()))?)
    }

    /// Moves something that comes from a git directory or goes to one, or decides whether one is there. Nothing where it is an ordinary
    /// move.
    pub(super) fn move_in_git(&mut self, old: &Place, new: &Place, flags: RenameFlags) -> Result<Option<Reply>, Stop> {
        if flags.contains(RenameFlags::EXCHANGE) {
            return self.may_exchange(old, new).map(|()| None);
        }
        let status = old.look()?;
        if self.is_other_spelling(new) {
            self.refuse_in_git(new, &Refusal::Closed)?;
        }
        let kind = FileType::from_raw_mode(status.st_mode);
        if kind == FileType::Directory || is_telling(&old.name) || is_telling(&new.name) {
            self.alone()?;
        }
        if kind != FileType::Directory && is_telling(&new.name) && new.look().is_err() {
            let _ = self.may_become(new)?;
        }
        let (from, to) = (self.git_place(old)?, self.git_place(new)?);
        let is_plain_move = (flags - RenameFlags::NOREPLACE).is_empty();
        if (from.is_some() || to.is_some()) && !is_plain_move {
            self.refuse_in_git(new, &Refusal::Link)?;
        }
        if kind == FileType::Directory {
            self.may_move_directory(old, new, (from.as_ref(), to.as_ref()))?;
            return Ok(None);
        }
        if let Some(content) = self.content_of(new, to.as_ref()) {
            if flags.contains(RenameFlags::NOREPLACE) && new.look().is_ok() {
                return Err(Errno::EXIST.into());
            }
            let reply = self.move_judged(content, old, new, to.as_ref())?;
            self.region_changed(new);
            return Ok(reply);
        }
        if from.as_ref().is_some_and(|git| git.age == Age::Existing && is_what_makes_it_one(git)) {
            self.refuse_in_git(old, &Refusal::Closed)?;
        }
        if let Some(git) = &from {
            let kind = file_kind(&git.relative);
            let stays = matches!(kind, FileKind::Closed | FileKind::Settings | FileKind::Index | FileKind::Object(_));
            let is_same = to.as_ref().is_some_and(|to| file_kind(&to.relative) == kind);
            if stays && git.age == Age::Existing && !is_same {
                self.refuse_in_git(old, &Refusal::Closed)?;
            }
        }
        if let Some(git) = &to {
            self.may_receive(git, old, new, &status)?;
            return self.move_object(git, old, new);
        }
        Ok(None)
    }

    /// Moves an object, or a part of a pack, to where git looks for it in a repository that the user has.
    fn move_object(&mut self, git: &GitPlace, old: &Place, new: &Place) -> Result<Option<Reply>, Stop> {
        let FileKind::Object(kind) = file_kind(&git.relative) else { return Ok(None) };
        if git.age == Age::New {
            return Ok(None);
        }
        let (from, to) = ((old.dir.as_fd(), old.name.as_slice()), (new.dir.as_fd(), new.name.as_slice()));
        let inode = |place: &Place| place.look().map(|status| (status.st_dev, status.st_ino));
        if new.look().is_ok() && inode(old)? == inode(new)? {
            // To itself, which changes nothing.
            return Ok(None);
        }
        if kind == ObjectFile::PackCache || new.look().is_ok() && self.perform(|| are_same(from, to)).unwrap_or(false) {
            // Git writes the same pack again, or what it can do without. It believes what a `.rev`, `.bitmap` or `.mtimes` says, and nothing
            // compares that with the pack; the rename has to succeed, or `git gc` fails.
            let name = c_string(&old.name)?;
            self.perform(|| rustix::fs::unlinkat(&old.dir, name.as_c_str(), AtFlags::empty()))?;
            return Ok(Some(Reply::Done));
        }
        if kind != ObjectFile::Loose {
            // No other call can exchange the pack, or open it for writing, while its index is verified.
            self.alone()?;
        }
        let judge = |content: &[u8]| self.content_judge().judge_object(kind, to, git, content);
        let journal = self.broker().journal;
        let moved = match kind {
            _ if new.look().is_ok() => Err(Refusal::Object.into()),
            // It is large, and verified when its index comes.
            ObjectFile::Pack => match (judge(&[]), self.writers(old)?) {
                (Ok(()), Writers::None) => return Ok(None),
                (Ok(()), Writers::Some) => Err(Refusal::Open.into()),
                (Ok(()), Writers::Unknown) => {
                    self.perform(|| Frozen::move_copy(from, to, journal)).map_err(NotPut::Failed)
                }
                (Err(refusal), _) => Err(refusal.into()),
            },
            _ => self.frozen(old).and_then(|frozen| {
                judge(&frozen.content)?;
                Ok(self.move_frozen(frozen, old, new)?)
            }),
        };
        match moved {
            Ok(()) => Ok(Some(Reply::Done)),
            Err(NotPut::Refused(refusal)) => self.refuse_in_git(new, &refusal).map(|()| None),
            Err(NotPut::Failed(errno)) => Err(self.told_if_held(&new.path(), errno)),
        }
    }

    /// May a file that is not judged by its content be moved into a git directory?
    fn may_receive(&mut self, git: &GitPlace, old: &Place, new: &Place, status: &rustix::fs::Stat) -> Result<(), Stop> {
        let is_plain = FileType::from_raw_mode(status.st_mode) == FileType::RegularFile && status.st_nlink <= 1;
        let refusal = match file_kind(&git.relative) {
            FileKind::Closed => Some(Refusal::Closed),
            _ if !is_plain => Some(Refusal::Link),
            FileKind::Object(_) => match self.writers(old)? {
                Writers::None | Writers::Unknown => None,
                Writers::Some => Some(Refusal::Open),
            },
            _ => None,
        };
        match refusal {
            Some(refusal) => self.refuse_in_git(new, &refusal),
            None => Ok(()),
        }
    }

    /// May a mark of a pack be written where it is? Git does not read what is in it.
    pub(super) fn may_mark_pack(&self, place: &Place, git: &GitPlace) -> bool {
        let FileKind::Object(kind) = file_kind(&git.relative) else { return false };
        self.content_judge().may_mark_pack(kind, (place.dir.as_fd(), &place.name), git)
    }

    /// A directory was moved, or a name that regions depend on.
    pub(super) fn moved_in_git(&self, old: &Place, new: &Place) {
        let is_directory =
            new.look().is_ok_and(|status| FileType::from_raw_mode(status.st_mode) == FileType::Directory);
        if is_directory {
            self.regions().moved(&old.path(), &new.path());
        }
        self.region_changed(old);
        self.region_changed(new);
    }

    /// May an entry of a git directory be removed?
    pub(super) fn may_remove_in_git(&mut self, place: &Place) -> Result<(), Stop> {
        if is_telling(&place.name) {
            self.alone()?;
        }
        let Some(git) = self.git_place(place)? else { return Ok(()) };
        let stays = matches!(file_kind(&git.relative), FileKind::Settings | FileKind::Closed)
            && !layout::is_directory(&git.relative);
        // A link that lies there may always go.
        let is_file = place.look().is_ok_and(|status| FileType::from_raw_mode(status.st_mode) == FileType::RegularFile);
        if git.age == Age::Existing && (stays && is_file || is_what_makes_it_one(&git)) {
            return self.refuse_in_git(place, &Refusal::Closed);
        }
        Ok(())
    }

    /// What a second name would be made of.
    pub(super) fn source_of(&self, target: &Target) -> Result<Source, Stop> {
        let Some((parent, name)) = target.path.as_ref().and_then(|path| path.parent().zip(path.file_name())) else {
            return Ok(Source::Ordinary);
        };
        let Some(region) = self.content_judge().region_of(&parent) else {
            // A second name of a file that is judged by its content would be an ordinary file, by which that content could be changed.
            let is_judged = self.judged_name(target).is_some();
            return Ok(if is_judged { Source::Git } else { Source::Ordinary });
        };
        Ok(match file_kind(&region.entry(name)) {
            FileKind::Object(_) => Source::Object,
            FileKind::Free if region.below.starts_with(b"objects") => Source::Object,
            FileKind::Forming => Source::Ordinary,
            _ => Source::Git,
        })
    }

    /// May a file be written that a parked call was allowed to write before it waited? It is judged by the path that it has now.
    pub(super) fn may_still_write(&self, target: &Target) -> rustix::io::Result<()> {
        if rustix::fs::fstat(&target.fd)?.st_nlink == 0 {
            return Ok(());
        }
        let Some((path, place)) = self.named_place(target) else { return Err(Errno::ACCESS) };
        if self.is_answered(&path) || self.is_still_open(&path, &place).is_ok_and(|is_open| is_open) {
            return Ok(());
        }
        let why = "while this call waited for a lease, the file became one that is protected or judged by its content"
            .to_owned();
        let (judge, call) = self.teller();
        judge.stopped(self.caller.known(), call, path, (why, "open it again".to_owned()));
        Err(Errno::ACCESS)
    }

    fn is_still_open(&self, path: &AbsPath, place: &Place) -> Result<bool, Stop> {
        let git = self.git_place(place)?;
        let is_judged = self.content_of(place, git.as_ref()).is_some()
            || git.is_some_and(|git| !matches!(file_kind(&git.relative), FileKind::Free | FileKind::Forming));
        Ok(!is_judged && self.is_permitted(path, self.judged_by(place)?))
    }

    /// The path of a file and its place there. Nothing where no such path leads to it.
    fn named_place(&self, target: &Target) -> Option<(AbsPath, Place)> {
        let path = AbsPath::lexical(&place_of(target.fd.as_fd()).ok()?).ok()?;
        let (parent, name) = path.parent().zip(path.file_name())?;
        let dir = self.content_judge().open_without_links(&parent, OFlags::PATH | OFlags::DIRECTORY)?;
        let place = Place::entry(Arc::new(dir), parent.clone(), name, b"");
        let status = place.look().ok()?;
        let is_it = (status.st_dev, status.st_ino) == (target.status.st_dev, target.status.st_ino);
        is_it.then(|| (path.clone(), place))
    }

    /// Does the path by which a file is judged lead to it? The name by which a descriptor was opened may be gone while the file has
    /// another one (a hard link alias), possibly in a git directory, and the kernel shows the old one with ` (deleted)`.
    pub(super) fn is_known_by_its_path(&self, target: &Target) -> Result<(), Stop> {
        let has_name = target.kind() == FileType::RegularFile && target.path.is_some() && target.status.st_nlink > 0;
        let is_unknown = has_name && target.found == Found::ByDescriptor && self.named_place(target).is_none();
        if is_unknown { Err(Errno::ACCESS.into()) } else { Ok(()) }
    }

    /// How the content of a file that is in no git directory is judged by its name, where it is.
    fn judged_name(&self, target: &Target) -> Option<Content> {
        let (parent, name) = target.path.as_ref().and_then(|path| path.parent().zip(path.file_name()))?;
        let place = Place::entry(self.resolver.root.clone(), parent, name, b"");
        self.content_of(&place, None)
    }

    /// May what an existing file of a git directory says be changed in place: cut short, or written by a descriptor that is opened again
    /// through `/proc/self/fd`, past what judges content?
    pub(super) fn may_change_in_git(&self, path: &AbsPath) -> Result<(), Stop> {
        let Some((parent, name)) = path.parent().zip(path.file_name()) else { return Ok(()) };
        if name == b".git" && !is_own(self.surface(), &parent) {
            return Err(Errno::ACCESS.into());
        }
        let Some(region) = self.content_judge().region_of(&parent) else { return Ok(()) };
        match file_kind(&region.entry(name)) {
            FileKind::Free | FileKind::Forming => Ok(()),
            _ => Err(Errno::ACCESS.into()),
        }
    }
}

/// Would the directory be no git directory any more without this entry? What is in it would be judged as nothing then, and it could be
/// made one again with other content. Git removes such names only with the entry of a linked work tree.
fn is_what_makes_it_one(git: &GitPlace) -> bool {
    let is_of_work_tree = git.root.parent().is_some_and(|above| above.file_name() == Some(b"worktrees"));
    !is_of_work_tree && matches!(git.relative.as_slice(), b"HEAD" | b"objects" | b"refs")
}

/// What a file says now, as far as a caller in this domain may read it; nothing where there is none.
fn content_now(place: &Place, domain: Option<&Domain>) -> rustix::io::Result<Vec<u8>> {
    match within(domain, || Frozen::open(place.dir.as_fd(), &place.name)) {
        Err(Errno::NOENT) => Ok(Vec::new()),
        opened => read_all(opened?.as_fd(), LONGEST)?.ok_or(Errno::FBIG),
    }
}

/// `tXXXXXX`, as mkstemp(3) makes it, wherever it is below a git directory.
fn is_test_name(relative: &[u8]) -> bool {
    let name = relative.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    matches!(name, [b't', rest @ ..] if rest.len() == 6 && rest.iter().all(u8::is_ascii_alphanumeric))
}

impl Broker<'_> {
    /// Has the supervisor put a file of settings in place.
    fn land_settings(
        &self,
        (path, kind): (AbsPath, SettingsFile),
        text: &[u8],
        right: LandingRight,
        is_waiting: &dyn Fn() -> bool,
    ) -> Result<(), NotPut> {
        match self.judge.land(&Landing::Settings { path, kind, text: text.to_vec() }, right, is_waiting) {
            Some(Outcome::Done) => Ok(()),
            Some(Outcome::Failed(errno)) => Err(errno.into()),
            Some(Outcome::Not(_)) | None => Err(Refusal::Closed.into()),
        }
    }
}
