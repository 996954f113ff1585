//! Making, moving and removing names.
//!
//! A directory that is moved takes everything in it along. So where rules speak of what is below its new name and did not
//! below its old one, all of it is looked at, and nothing else is carried out meanwhile: what was looked at is what is moved.

use std::ffi::CString;
use std::os::fd::{AsFd as _, OwnedFd};

use ringfence_surface::{AbsPath, Access, Because, Outcome, Rule, Standing, Verdict, folded_name};
use ringfence_sys::notify;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

use super::git::{JudgedBy, Making, Source};
use super::judge::Ruling;
use super::open::{is_link, is_mounted_on, mode_of};
use super::request::{AT_EMPTY_PATH, AT_REMOVEDIR, AT_SYMLINK_FOLLOW, Named};
use super::resolve::{Last, Place, mount_of};
use super::work::{Reply, Stop, Work};
use crate::folded::folds_at;
use crate::git_files;
use crate::landing::EntryChange;
use crate::repository::{is_own, is_redirect_of_jj};

/// More names than these are not looked at: such a directory is not moved there.
const MOST_NAMES: usize = 50_000;

impl Work<'_, '_> {
    /// Where a new name would be.
    fn new_place(&mut self, file: Named) -> Result<Place, Stop> {
        let path = self.path(file)?;
        if path.is_empty() {
            return Err(Errno::NOENT.into());
        }
        if let Some(place) = self.again.place(&self.caller, file, &path) {
            return Ok(place);
        }
        let from = self.resolver.from(file.dir, &path)?;
        let place = self.resolver.place(&from, &path)?;
        self.hold_on_to(file, &path, &place);
        Ok(place)
    }

    /// May this name be made? What is there already is said first.
    pub(super) fn may_make(&mut self, place: &Place, making: Making<'_>) -> Result<(), Stop> {
        let path = place.path();
        if !place.is_entry() {
            return Ok(());
        }
        if self.is_permitted(&path, self.judged_by(place)?) {
            if making != Making::Directory {
                self.may_redirect_jj(&place.at, &place.name)?;
            }
            return self.may_make_in_git(place, making);
        }
        match place.look() {
            Ok(_) => Err(Errno::EXIST.into()),
            Err(Errno::NOENT) => self.refuse_or_ask(place.dir.as_fd(), &path, Access::Write),
            Err(errno) => Err(errno.into()),
        }
    }

    pub(super) fn mkdir(&mut self, file: Named, mode: u32) -> Result<Reply, Stop> {
        let place = self.new_place(file)?;
        if let Some(reply) = self.make_directory_for_git(&place)? {
            return Ok(reply);
        }
        self.foresee_work_tree(&place)?;
        self.may_make(&place, Making::Directory)?;
        self.take_mask()?;
        let (name, mode) = (place.spelled()?, mode_of(mode));
        self.perform(|| rustix::fs::mkdirat(&place.dir, name.as_c_str(), mode))?;
        self.made_directory(&place);
        Ok(Reply::Done)
    }

    pub(super) fn mknod(&mut self, file: Named, mode: u32, device: u64) -> Result<Reply, Stop> {
        let place = self.new_place(file)?;
        self.may_make(&place, Making::Node)?;
        self.take_mask()?;
        let name = place.spelled()?;
        // The kernel takes a mode as 16 bits.
        self.perform(|| notify::mknodat(place.dir.as_fd(), &name, mode & 0xffff, device))?;
        Ok(Reply::Done)
    }

    pub(super) fn symlink(&mut self, target: u64, file: Named) -> Result<Reply, Stop> {
        let text = self.caller.string(target)?;
        if text.is_empty() {
            return Err(Errno::NOENT.into());
        }
        let place = self.new_place(file)?;
        self.refuse_link_of_git(&place)?;
        self.may_make(&place, Making::Link(&text))?;
        self.may_lead(&place.at, &place.name)?;
        if place.look().is_err() {
            self.may_link_to(&place, &text)?;
        }
        let _held = self.may_link_on_way(&place)?;
        let (name, text) = (place.spelled()?, super::caller::c_string(&text)?);
        self.perform(|| rustix::fs::symlinkat(text.as_c_str(), &place.dir, name.as_c_str()))?;
        self.region_changed(&place);
        Ok(Reply::Done)
    }

    pub(super) fn unlink(&mut self, file: Named, flags: u32) -> Result<Reply, Stop> {
        if flags & !AT_REMOVEDIR != 0 {
            return Err(Errno::INVAL.into());
        }
        let is_rmdir = flags == AT_REMOVEDIR;
        let place = self.new_place(file)?;
        if place.is_top() {
            return Err(if is_rmdir { Errno::BUSY } else { Errno::ISDIR }.into());
        }
        let path = place.path();
        let removal = if is_rmdir { EntryChange::RemoveDirectory } else { EntryChange::RemoveFile };
        // A repository that was made inside may be removed; what was there at the start is held by its mount.
        let is_refused = !self.is_permitted(&path, self.judged_by(&place)?) && !self.is_of_clone(&path);
        if place.is_entry() && !is_refused {
            self.may_remove_in_git(&place)?;
        }
        if place.is_entry() && is_refused {
            let is_directory = FileType::from_raw_mode(place.look()?.st_mode) == FileType::Directory;
            match (is_rmdir, is_directory) {
                (true, false) => return Err(Errno::NOTDIR.into()),
                (false, true) => return Err(Errno::ISDIR.into()),
                _ if place.slash && !is_directory => return Err(Errno::NOTDIR.into()),
                _ => match self.change_for_git(&place, removal)? {
                    Some(reply) => return Ok(reply),
                    None => self.refuse_or_ask(place.dir.as_fd(), &path, Access::Write)?,
                },
            }
        }
        let name = place.spelled()?;
        let flags = if is_rmdir { AtFlags::REMOVEDIR } else { AtFlags::empty() };
        let removed = self.perform(|| rustix::fs::unlinkat(&place.dir, name.as_c_str(), flags));
        // A file that is judged by its content has a mount over it too.
        if !is_rmdir
            && matches!(removed, Err(Errno::BUSY | Errno::ROFS))
            && let Some(reply) = self.change_for_git(&place, removal)?
        {
            return Ok(reply);
        }
        removed.map_err(|errno| {
            // What has something in it would stay outside the fence too: git tries that of its own directory all day.
            let would_stay = is_rmdir && errno == Errno::BUSY && is_filled(&place);
            if would_stay { Errno::NOTEMPTY.into() } else { self.told_if_held(&path, errno) }
        })?;
        if is_rmdir {
            self.removed_directory(&place);
            self.broker().clones.removed(&path);
        }
        self.region_changed(&place);
        self.forget_failed(&place);
        Ok(Reply::Done)
    }

    pub(super) fn link(&mut self, old: Named, new: Named, flags: u32) -> Result<Reply, Stop> {
        if flags & !(AT_SYMLINK_FOLLOW | AT_EMPTY_PATH) != 0 {
            return Err(Errno::INVAL.into());
        }
        let old_path = self.path(old)?;
        let source = if old_path.is_empty() {
            if flags & AT_EMPTY_PATH == 0 {
                return Err(Errno::NOENT.into());
            }
            self.resolver.held(old.dir)?
        } else {
            let from = self.resolver.from(old.dir, &old_path)?;
            let last = if flags & AT_SYMLINK_FOLLOW != 0 { Last::Followed } else { Last::Itself };
            let place = self.resolver.place(&from, &old_path)?;
            self.resolver.target(&from, place, last)?
        };
        let place = self.new_place(new)?;
        if source.kind() == FileType::Directory {
            return Err(if place.look().is_ok() { Errno::EXIST } else { Errno::PERM }.into());
        }
        // A second name of something is a second way to write it.
        let named = source.path.as_ref().filter(|_| source.status.st_nlink > 0);
        if let Some(path) = named.filter(|path| !self.judge(path, Access::Write).is_allowed()) {
            if place.look().is_ok() {
                return Err(Errno::EXIST.into());
            }
            if mount_of(source.fd.as_fd())? != mount_of(place.dir.as_fd())? {
                return Err(Errno::XDEV.into());
            }
            let path = path.clone();
            self.refuse_or_ask(source.fd.as_fd(), &path, Access::Write)?;
        }
        self.is_known_by_its_path(&source)?;
        let made_of = self.source_of(&source)?;
        // An object could be written by its second name (a hard link alias), also after its content was verified, and in a later session. Git
        // moves what it made to its place where it cannot link it, and a clone copies.
        if made_of == Source::Object {
            return Err(if place.look().is_ok() { Errno::EXIST } else { Errno::XDEV }.into());
        }
        let is_other = || Ok::<bool, Stop>(mount_of(source.fd.as_fd())? != mount_of(place.dir.as_fd())?);
        if self.git_place(&place)?.is_some() && place.look().is_err() && is_other()? {
            return Err(Errno::XDEV.into());
        }
        self.may_make(&place, Making::Name(made_of))?;
        if source.kind() == FileType::Symlink {
            self.may_lead(&place.at, &place.name)?;
            self.may_link_like((source.fd.as_fd(), b""), &place)?;
        }
        let _held = if source.kind() == FileType::Symlink { self.may_link_on_way(&place)? } else { None };
        let (name, held) = (place.spelled()?, source.by_descriptor());
        let flags = AtFlags::SYMLINK_FOLLOW;
        self.perform(|| rustix::fs::linkat(rustix::fs::CWD, held.as_c_str(), &place.dir, name.as_c_str(), flags))?;
        self.region_changed(&place);
        Ok(Reply::Done)
    }

    pub(super) fn rename(&mut self, old: Named, new: Named, flags: u32) -> Result<Reply, Stop> {
        let flags = RenameFlags::from_bits_retain(flags);
        let known = RenameFlags::NOREPLACE | RenameFlags::EXCHANGE | RenameFlags::WHITEOUT;
        let swaps = flags.contains(RenameFlags::EXCHANGE);
        if !known.contains(flags) || swaps && flags.intersects(RenameFlags::NOREPLACE | RenameFlags::WHITEOUT) {
            return Err(Errno::INVAL.into());
        }
        let (old, new) = (self.new_place(old)?, self.new_place(new)?);
        let (old_path, new_path) = (old.path(), new.path());
        if old.is_entry() && new.is_entry() {
            self.may_move(&old, &old_path, &new, &new_path, flags)?;
            if let Some(reply) = self.move_in_git(&old, &new, flags)? {
                return Ok(reply);
            }
        }
        let is_move = old.is_entry() && new.is_entry();
        let held = if is_move { self.may_rename(&old, &new, flags)? } else { None };
        let (old_name, new_name) = (old.spelled()?, new.spelled()?);
        self.perform(|| rustix::fs::renameat_with(&old.dir, old_name.as_c_str(), &new.dir, new_name.as_c_str(), flags))
            .map_err(|errno| {
                // `.` and `..` are busy whatever rules say: by that programs find out where a mount begins.
                if old.is_entry() && new.is_entry() { self.told_if_held(&old_path, errno) } else { errno.into() }
            })?;
        self.moved_in_git(&old, &new);
        self.moved_clones(&old_path, &new_path);
        drop(held);
        if is_move {
            self.renamed(&old, &new, flags);
        }
        Ok(Reply::Done)
    }

    /// What was there at the start is held by a mount, on it or on the way to it, and of that the kernel says only that something
    /// is busy. Nobody would know why.
    pub(super) fn told_if_held(&self, path: &AbsPath, errno: Errno) -> Stop {
        if errno != Errno::BUSY {
            return errno.into();
        }
        if let Ruling::Refused(verdict) = self.judge(path, Access::Write) {
            self.tell_refused(path, (Access::Write, &verdict), Errno::ACCESS);
            return Errno::ACCESS.into();
        }
        let why = "it has something in it that is guarded since the start, and stays where it is".to_owned();
        let remedy = "make this change yourself, outside the fence".to_owned();
        let (judge, call) = self.teller();
        judge.stopped(self.caller.known(), call, path.clone(), (why, remedy));
        errno.into()
    }

    fn may_move(
        &mut self,
        old: &Place,
        old_path: &AbsPath,
        new: &Place,
        new_path: &AbsPath,
        flags: RenameFlags,
    ) -> Result<(), Stop> {
        for (path, place) in [(old_path, old), (new_path, new)] {
            if self.is_permitted(path, self.judged_by(place)?) {
                continue;
            }
            let dir = &place.dir;
            old.look()?;
            if mount_of(old.dir.as_fd())? != mount_of(new.dir.as_fd())? {
                return Err(Errno::XDEV.into());
            }
            match (flags.contains(RenameFlags::NOREPLACE), flags.contains(RenameFlags::EXCHANGE), new.look()) {
                (true, _, Ok(_)) => return Err(Errno::EXIST.into()),
                (_, true, Err(errno)) => return Err(errno.into()),
                _ => {}
            }
            // What no rule speaks of is where something is mounted: that is what the kernel says of it.
            let is_by_rule = |ruling| matches!(ruling, Ruling::Refused(Verdict { because: Because::Rule(_), .. }));
            if !is_by_rule(self.judge(path, Access::Write)) && is_mounted_on(place) {
                return Err(Errno::BUSY.into());
            }
            self.refuse_or_ask(dir.as_fd(), path, Access::Write)?;
        }
        // Directories bring along what is in them.
        self.may_bring(old, old_path, new_path)?;
        self.may_lead_if_link(old, new)?;
        if flags.contains(RenameFlags::EXCHANGE) {
            self.may_bring(new, new_path, old_path)?;
            self.may_lead_if_link(new, old)?;
            self.may_exchange_clones(old_path, new_path)?;
            self.may_move_clones(new, old)?;
        }
        self.may_move_clones(old, new)
    }

    /// May a link be called this? What it leads to would be below a name that rules begin with, and they know it by another.
    fn may_lead(&self, dir: &AbsPath, name: &[u8]) -> Result<(), Stop> {
        match self.rule_that_begins(dir, name) {
            Some(rule) => self.refuse_link(&dir.child(name), &rule),
            None => Ok(()),
        }
    }

    /// A rule that begins with a name, or with another spelling of it where the directory folds names.
    fn rule_that_begins(&self, dir: &AbsPath, name: &[u8]) -> Option<Rule> {
        let exact = self.surface().cursor(dir).begins(name).cloned();
        exact.or_else(|| {
            let rules = self.teller().0.folded()?;
            let rule = rules.cursor(dir).begins(&folded_name(name))?;
            folds_at(dir).then(|| rule.clone())
        })
    }

    /// The same, for what is moved there.
    fn may_lead_if_link(&self, from: &Place, to: &Place) -> Result<(), Stop> {
        let Some(rule) = self.rule_that_begins(&to.at, &to.name) else { return Ok(()) };
        // Nobody puts a link in its place after it was looked at.
        self.alone()?;
        if is_link(from) { self.refuse_link(&to.path(), &rule) } else { Ok(()) }
    }

    /// May a file, a link or a node be made here? `.jj/repo` as a file names the repository whose settings jj takes, and the commands in
    /// them. What is there already is for the kernel to answer.
    pub(super) fn may_redirect_jj(&self, parent: &AbsPath, name: &[u8]) -> Result<(), Stop> {
        if !is_redirect_of_jj(parent, name) || is_own(self.surface(), parent) {
            return Ok(());
        }
        let why = "as a file it sends jj to another repository, whose settings name programs".to_owned();
        let remedy = "make this change yourself, outside the fence".to_owned();
        let (judge, call) = self.teller();
        judge.stopped(self.caller.known(), call, parent.child(name), (why, remedy));
        Err(Errno::ACCESS.into())
    }

    fn refuse_link(&self, path: &AbsPath, rule: &Rule) -> Result<(), Stop> {
        let verdict = Verdict { outcome: Outcome::Deny, because: Because::Rule(rule), ask: None };
        self.tell_refused(path, (Access::Write, &verdict), Errno::ACCESS);
        Err(Errno::ACCESS.into())
    }

    /// May everything in a directory be where it would be afterwards?
    fn may_bring(&mut self, place: &Place, from: &AbsPath, to: &AbsPath) -> Result<(), Stop> {
        if is_redirect_of_jj(&to.parent().unwrap_or_else(AbsPath::root), to.file_name().unwrap_or_default()) {
            self.alone()?;
            if place.look().is_ok_and(|status| FileType::from_raw_mode(status.st_mode) != FileType::Directory) {
                self.may_redirect_jj(&to.parent().unwrap_or_else(AbsPath::root), b"repo")?;
            }
        }
        let moves_directory =
            || place.look().is_ok_and(|status| FileType::from_raw_mode(status.st_mode) == FileType::Directory);
        self.may_bring_folded(place, from, to)?;
        let surface = self.surface();
        let there = surface.cursor(to);
        let here = surface.cursor(from);
        if there.adds_nothing_to(&here) {
            if !moves_directory() {
                return Ok(());
            }
            // Nobody else makes names in there meanwhile.
            self.alone()?;
            return if here.adds_nothing_to(&there) { Ok(()) } else { self.may_take(place, from, to) };
        }
        // Nor does anybody put a directory in the place of what was looked at.
        self.alone()?;
        if !moves_directory() {
            return Ok(());
        }
        if !here.adds_nothing_to(&there) {
            self.may_take(place, from, to)?;
        }
        let dir = listed(place)?;
        let judged = if is_git_directory(&dir, to) { JudgedBy::Place } else { JudgedBy::Rules };
        let mut left: Vec<(OwnedFd, AbsPath, ringfence_surface::Cursor<'_>, JudgedBy)> =
            vec![(dir, to.clone(), there, judged)];
        let mut seen = 0;
        while let Some((dir, path, cursor, judged)) = left.pop() {
            if cursor.is_exhausted() {
                continue;
            }
            for Inner { name, kind, is_directory } in self.names_in(&dir, &mut seen, to)? {
                let c_name = name.as_c_str();
                let name = c_name.to_bytes();
                let below = path.child(name);
                let is_open = cursor.standing(name) == Standing::Open || self.is_permitted(&below, judged);
                if !is_open {
                    self.refuse_or_ask(place.dir.as_fd(), &below, Access::Write)?;
                }
                if !is_directory {
                    self.may_redirect_jj(&path, name)?;
                }
                if let (FileType::Symlink | FileType::Unknown, false, Some(rule)) =
                    (kind, is_directory, cursor.begins(name))
                {
                    self.refuse_link(&below, rule)?;
                }
                if is_directory {
                    let inner = rustix::fs::openat(&dir, c_name, LISTED, Mode::empty())?;
                    let judged = if is_git_directory(&inner, &below) { JudgedBy::Place } else { judged };
                    left.push((inner, below, cursor.enter(name), judged));
                }
            }
        }
        Ok(())
    }

    /// The same, where a directory that the new name is in may fold names: `x/settings.json` is moved to `.VSCODE`.
    fn may_bring_folded(&mut self, place: &Place, from: &AbsPath, to: &AbsPath) -> Result<(), Stop> {
        let Some(rules) = self.teller().0.folded() else { return Ok(()) };
        let there = rules.cursor(to);
        if there.adds_nothing_to(&rules.cursor(from)) || !to.ancestors().skip(1).any(|dir| folds_at(&dir)) {
            return Ok(());
        }
        // Nothing is put in there after it was looked at.
        self.alone()?;
        if !place.look().is_ok_and(|status| FileType::from_raw_mode(status.st_mode) == FileType::Directory) {
            return Ok(());
        }
        let (mut left, mut seen) = (vec![(listed(place)?, to.clone(), there)], 0);
        while let Some((dir, path, cursor)) = left.pop() {
            for Inner { name, kind, is_directory } in self.names_in(&dir, &mut seen, to)? {
                let c_name = name.as_c_str();
                let (below, folded) = (path.child(c_name.to_bytes()), folded_name(c_name.to_bytes()));
                if !self.is_permitted(&below, JudgedBy::Rules) {
                    self.refuse_or_ask(place.dir.as_fd(), &below, Access::Write)?;
                }
                if let (FileType::Symlink | FileType::Unknown, false, Some(rule)) =
                    (kind, is_directory, cursor.begins(&folded))
                {
                    self.refuse_link(&below, rule)?;
                }
                if is_directory {
                    left.push((rustix::fs::openat(&dir, c_name, LISTED, Mode::empty())?, below, cursor.enter(&folded)));
                }
            }
        }
        Ok(())
    }

    /// May everything in a directory leave the names by which rules know it? What was there at the start is held by mounts on the
    /// way to it. What somebody outside has made since is not, and under another name the next session would not know it.
    fn may_take(&mut self, place: &Place, from: &AbsPath, to: &AbsPath) -> Result<(), Stop> {
        let (surface, mut seen) = (self.surface(), 0);
        let dir = listed(place)?;
        let judged = if is_git_directory(&dir, from) { JudgedBy::Place } else { JudgedBy::Rules };
        let mut left = vec![(dir, from.clone(), to.clone(), surface.cursor(from), judged)];
        while let Some((dir, old, new, cursor, judged)) = left.pop() {
            if cursor.is_exhausted() {
                continue;
            }
            for Inner { name, is_directory, .. } in self.names_in(&dir, &mut seen, to)? {
                let c_name = name.as_c_str();
                let name = c_name.to_bytes();
                let (old, new) = (old.child(name), new.child(name));
                // The settings of a repository are judged wherever it goes.
                if cursor.standing(name) != Standing::Open
                    && !self.is_permitted(&old, judged)
                    && self.is_freed(&old, &new)
                {
                    self.refuse_or_ask(place.dir.as_fd(), &old, Access::Write)?;
                }
                if is_directory {
                    let inner = rustix::fs::openat(&dir, c_name, LISTED, Mode::empty())?;
                    let judged = if is_git_directory(&inner, &old) { JudgedBy::Place } else { judged };
                    left.push((inner, old, new, cursor.enter(name), judged));
                }
            }
        }
        Ok(())
    }

    /// May something be read or written under its new name that may not under its old one?
    fn is_freed(&self, old: &AbsPath, new: &AbsPath) -> bool {
        let is_open = |path, access| self.surface().decide(path, access).is_allowed();
        [Access::Read, Access::Write].into_iter().any(|access| !is_open(old, access) && is_open(new, access))
    }
}

const LISTED: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// A directory, to look at what is in it.
pub(super) fn listed(place: &Place) -> rustix::io::Result<OwnedFd> {
    let name = super::caller::c_string(&place.name)?;
    rustix::fs::openat(&place.dir, name.as_c_str(), LISTED, Mode::empty())
}

/// Is a directory, which is to be at this path, a git directory? What is in it is judged by its place wherever that is.
fn is_git_directory(dir: &OwnedFd, at: &AbsPath) -> bool {
    at.file_name() == Some(b".git") || git_files::is_git_directory(|name| git_files::is_there(dir.as_fd(), name))
}

/// Has a directory something in it?
fn is_filled(place: &Place) -> bool {
    let Ok(names) = listed(place).and_then(|dir| Dir::read_from(&dir)) else { return false };
    names.flatten().any(|entry| !matches!(entry.file_name().to_bytes(), b"." | b".."))
}

/// A name in a directory that is looked through.
pub(super) struct Inner {
    pub(super) name: CString,
    /// As the directory says, which may not know.
    pub(super) kind: FileType,
    pub(super) is_directory: bool,
}

impl Work<'_, '_> {
    /// The names in a directory. Of too many nobody knows what else is there, so what they are in goes nowhere.
    pub(super) fn names_in(&self, dir: &OwnedFd, seen: &mut usize, to: &AbsPath) -> Result<Vec<Inner>, Stop> {
        let mut names = Vec::new();
        for entry in Dir::read_from(dir)? {
            let entry = entry?;
            let (name, kind) = (entry.file_name(), entry.file_type());
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            *seen += 1;
            if *seen > MOST_NAMES {
                let why =
                    format!("rules speak of what is below it, and it has more than {MOST_NAMES} names to look at");
                let remedy = "move it in parts, or yourself, outside the fence".to_owned();
                let (judge, call) = self.teller();
                judge.stopped(self.caller.known(), call, to.clone(), (why, remedy));
                return Err(Errno::ACCESS.into());
            }
            let is_directory = is_directory(dir, name, kind);
            names.push(Inner { name: name.to_owned(), kind, is_directory });
        }
        Ok(names)
    }
}

/// Is this a directory? Some file systems do not say so in a listing.
pub(super) fn is_directory(dir: &OwnedFd, name: &std::ffi::CStr, listed: FileType) -> bool {
    let is_it = |status: rustix::fs::Stat| FileType::from_raw_mode(status.st_mode) == FileType::Directory;
    match listed {
        FileType::Unknown => rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW).is_ok_and(is_it),
        kind => kind == FileType::Directory,
    }
}
