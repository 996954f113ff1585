//! Links that are made and directories that are moved, where files of git lead: see [`crate::git_files::References`].

use ringfence_surface::{AbsPath, folded_name};
use rustix::fs::{FileType, RenameFlags};
use rustix::io::Errno;

use super::super::resolve::Place;
use super::super::work::{Stop, Work};
use super::Refusal;
use crate::folded::folds_at;
use crate::git_files::{DirectoryMove, GitReference, NoneAccepted, is_on_way, is_own, is_without_links};

impl<'w> Work<'w, '_> {
    /// Would git take this name for one of its own, in another spelling, because the directory folds names? What is known of git
    /// directories goes by its own spelling.
    pub(super) fn is_other_spelling(&self, place: &Place) -> bool {
        const NAMES: &[&[u8]] =
            &[b".git", b".gitmodules", b"HEAD", b"commondir", b"config", b"gitdir", b"objects", b"refs"];
        let folded = folded_name(&place.name);
        let is_one = NAMES.iter().any(|name| *name != place.name && folded_name(name) == folded);
        is_one && !is_own(self.surface(), &place.at) && folds_at(&place.at)
    }

    /// May a symbolic link be made here? As long as the answer is held, no reference is accepted that it would be on the way of.
    pub(in super::super) fn may_link_on_way(&mut self, place: &Place) -> Result<Option<NoneAccepted<'w>>, Stop> {
        let held = self.broker().references.hold();
        let Some(file) = held.led_elsewhere(self.broker().root(), &place.path()) else { return Ok(Some(held)) };
        drop(held);
        if place.look().is_ok() {
            return Err(Errno::EXIST.into());
        }
        self.refuse_in_git(place, &Refusal::Redirects(file)).map(|()| None)
    }

    /// May something be renamed, with regard to where files of git lead? The same holds as long as the answer is held.
    pub(in super::super) fn may_rename(
        &mut self,
        old: &Place,
        new: &Place,
        flags: RenameFlags,
    ) -> Result<Option<NoneAccepted<'w>>, Stop> {
        let (broker, (from, to)) = (self.broker(), (old.path(), new.path()));
        let is_exchange = flags.contains(RenameFlags::EXCHANGE);
        let moved = [Some((old, new, &to)), is_exchange.then_some((new, old, &from))];
        let held = broker.references.hold();
        let is_directory = |place: &Place| kind_of(place) == Some(FileType::Directory);
        let moves_directory = || moved.iter().flatten().any(|(place, ..)| is_directory(place));
        // A file that was looked at may be exchanged for a link or a directory, unless nothing else is carried out.
        if moves_directory() || moved.iter().flatten().any(|(_, _, path)| held.pass(path)) {
            self.alone()?;
        }
        let is_link = |place: &Place| kind_of(place) == Some(FileType::Symlink);
        let led = moved.iter().flatten().find_map(|(place, at, path)| {
            Some((*at, held.led_elsewhere(broker.root(), path).filter(|_| is_link(place))?))
        });
        let change = DirectoryMove { from: &from, to: &to, is_exchange };
        let by_move = || self.first_led_elsewhere(&held, change).map(|file| (new, file));
        let led = led.or_else(|| if moves_directory() { by_move() } else { None });
        let Some((at, file)) = led else { return Ok(Some(held)) };
        drop(held);
        self.refuse_in_git(at, &Refusal::Redirects(file)).map(|()| None)
    }

    /// The first file that a move of directories would lead to where it would not have been accepted.
    fn first_led_elsewhere(&self, held: &NoneAccepted<'_>, change: DirectoryMove<'_>) -> Option<AbsPath> {
        let (root, concerned) = (self.broker().root(), held.concerned(change));
        let is_led = |(reference, ways): &&(GitReference, Vec<AbsPath>)| {
            let brings_link = ways.iter().any(|way| {
                if way.is_within(change.to) || change.is_exchange && way.is_within(change.from) {
                    return change.before(way).is_some_and(|now| !is_without_links(root, &now));
                }
                // In another spelling, where a directory folds names.
                is_on_way(change.to, way)
            });
            (brings_link || self.would_lead_elsewhere(reference, change)) && reference.stands(root)
        };
        concerned.iter().find(is_led).map(|(reference, _)| reference.file())
    }

    fn would_lead_elsewhere(&self, reference: &GitReference, change: DirectoryMove<'_>) -> bool {
        let moved = reference.after(change);
        match (reference.target(), moved.target()) {
            // It stays with what it leads to.
            (Some(before), Some(after)) if *change.after(&before) == after => false,
            (Some(_), Some(after)) => {
                let now = change.before(&after);
                let is_bent = |corner: &AbsPath| {
                    change.before(corner).is_some_and(|now| !is_without_links(self.broker().root(), &now))
                };
                moved.corners().iter().any(is_bent) || !self.content_judge().may_lead(&moved, &after, now.as_deref())
            }
            // A path of the user's, by way of a link and back. It leads elsewhere if it begins elsewhere.
            _ => reference.text.first() != Some(&b'/') && moved.base != reference.base,
        }
    }

    /// Something was renamed.
    pub(in super::super) fn renamed(&self, old: &Place, new: &Place, flags: RenameFlags) {
        let (from, to) = (old.path(), new.path());
        let is_exchange = flags.contains(RenameFlags::EXCHANGE);
        if kind_of(new) == Some(FileType::Directory) || is_exchange && kind_of(old) == Some(FileType::Directory) {
            self.broker().references.moved(DirectoryMove { from: &from, to: &to, is_exchange });
        }
    }
}

fn kind_of(place: &Place) -> Option<FileType> {
    place.look().ok().map(|status| FileType::from_raw_mode(status.st_mode))
}
