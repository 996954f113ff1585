//! A split index: a small file that names the entries of a large one (`sharedindex.CHECKSUM`) that it replaces or removes.

use super::ewah::Bitmap;
use super::parse::{EntryFault, check_directories, check_order};
use super::{Index, IndexEntry};
use crate::object_id::ObjectId;

/// The base of a split index, and what has become of its entries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BaseLink {
    /// The checksum at the end of the base, and the end of its name.
    pub checksum: ObjectId,
    pub(super) deleted: Bitmap,
    pub(super) replaced: Bitmap,
}

/// Why a split index and a base do not make an index.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MergeFault {
    /// Its checksum is not the one that is named, or it is split itself.
    #[error("the base is not the one that the index names")]
    Base,
    /// Entries that the base does not have, or that are replaced and removed, or too few or too many that replace others.
    #[error("the index does not fit its base")]
    Bitmap,
    /// Two entries for one path, or a path that is a file and a directory.
    #[error("the entries of the index and of its base do not go together")]
    Entries,
}

impl Index {
    /// The index that a split index and its base stand for. An index that is not split is its own.
    ///
    /// # Errors
    /// [`MergeFault`]: git would refuse the two as well, or would take them for something that it does not write.
    pub fn merge(&self, base: &Self) -> Result<Self, MergeFault> {
        let Some(link) = &self.base else { return Ok(self.clone()) };
        if base.checksum != link.checksum || base.base.is_some() {
            return Err(MergeFault::Base);
        }
        let count = base.entries.len();
        let replaced = link.replaced.ones(count).ok_or(MergeFault::Bitmap)?;
        let deleted = link.deleted.ones(count).ok_or(MergeFault::Bitmap)?;
        let unnamed = self.entries.iter().take_while(|entry| entry.path.is_empty()).count();
        let (replacing, added) = self.entries.split_at(unnamed);
        if replacing.len() != replaced.len() {
            return Err(MergeFault::Bitmap);
        }
        let mut slots: Vec<Option<IndexEntry>> = base.entries.iter().cloned().map(Some).collect();
        for (at, new) in replaced.iter().zip(replacing) {
            if let Some(Some(old)) = slots.get_mut(*at) {
                let path = std::mem::take(&mut old.path);
                *old = IndexEntry { path, ..new.clone() };
            }
        }
        for at in deleted {
            match slots.get_mut(at) {
                // The bits come in ascending order.
                Some(slot) if replaced.binary_search(&at).is_err() => *slot = None,
                _ => return Err(MergeFault::Bitmap),
            }
        }
        let mut entries: Vec<IndexEntry> = slots.into_iter().flatten().chain(added.iter().cloned()).collect();
        entries.sort_by(|a, b| a.key().cmp(&b.key()));
        verify_modes(&entries)?;
        let merged = |_: EntryFault| MergeFault::Entries;
        check_order(&entries, false).map_err(merged)?;
        check_directories(&entries, self.is_sparse).map_err(merged)?;
        Ok(Self { entries, base: None, extensions: Vec::new(), ..self.clone() })
    }
}

/// A replacement has no path of its own, and what a path may be depends on the mode.
fn verify_modes(entries: &[IndexEntry]) -> Result<(), MergeFault> {
    let fits = |entry: &IndexEntry| super::parse::verify(entry.mode, &entry.path).is_ok();
    if entries.iter().all(fits) { Ok(()) } else { Err(MergeFault::Entries) }
}
