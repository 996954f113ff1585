//! Changing an index, and writing it.

use super::parse::{ASSUME_VALID, EXTENDED, INTENT_TO_ADD, NAME_MASK, SKIP_WORKTREE};
use super::{Index, IndexEntry, MergeStage};
use crate::entry_mode::EntryMode;
use crate::object_id::checksum;

/// Why an index is not written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WriteFault {
    /// The entries of a split index are only a part: [`Index::merge`] comes first.
    #[error("the index is split")]
    Split,
}

impl Index {
    /// Leaves a file out of the work tree. Returns whether there is such an entry, without conflict.
    pub fn mark_skip_worktree(&mut self, path: &[u8]) -> bool {
        self.file_mut(path).map(|entry| entry.skip_worktree = true).is_some()
    }

    /// Takes a file into the work tree again. Returns whether there is such an entry, without conflict.
    pub fn clear_skip_worktree(&mut self, path: &[u8]) -> bool {
        self.file_mut(path).map(|entry| entry.skip_worktree = false).is_some()
    }

    fn file_mut(&mut self, path: &[u8]) -> Option<&mut IndexEntry> {
        let at = self.position(path, MergeStage::Merged)?;
        self.entries.get_mut(at).filter(|entry| entry.mode != EntryMode::Directory)
    }

    /// Makes git compare the content of every file that was written in the moment of the index or after it.
    ///
    /// Git does not believe the state of such a file, because the file could have changed unnoticed within that moment. An index that is
    /// written later has a later time, and git would believe it. So this belongs before [`Index::write`], with the time (seconds,
    /// nanoseconds) of the file that was parsed.
    pub fn distrust_files_since(&mut self, index_mtime: (u32, u32)) {
        for entry in self.entries.iter_mut().filter(|entry| entry.stat.mtime >= index_mtime) {
            entry.stat.size = 0;
        }
    }

    /// The file, as git would write it: version 4 stays 4; otherwise 3 if an entry needs it, and 2 if none does. Of the extensions only
    /// `sdir` is kept, without which directories may not be entries: the others cache what git can compute.
    ///
    /// # Errors
    /// [`WriteFault::Split`].
    pub fn write(&self) -> Result<Vec<u8>, WriteFault> {
        if self.base.is_some() {
            return Err(WriteFault::Split);
        }
        let version = match self.version {
            4 => 4,
            _ if self.entries.iter().any(IndexEntry::is_extended) => 3,
            _ => 2,
        };
        let count = u32::try_from(self.entries.len()).unwrap_or(u32::MAX);
        let mut file = b"DIRC".to_vec();
        file.extend(u32::to_be_bytes(version));
        file.extend(count.to_be_bytes());
        let mut before: &[u8] = &[];
        for entry in &self.entries {
            let start = file.len();
            write_fixed(entry, &mut file);
            if version == 4 {
                let common = before.iter().zip(&entry.path).take_while(|(a, b)| a == b).count();
                write_varint(before.len() - common, &mut file);
                file.extend(&entry.path[common..]);
                file.push(0);
                before = &entry.path;
            } else {
                file.extend(&entry.path);
                let padding = 8 - (file.len() - start) % 8;
                file.extend(std::iter::repeat_n(0, padding));
            }
        }
        if self.is_sparse {
            file.extend(b"sdir\0\0\0\0");
        }
        let end = checksum(self.format, &[&file]);
        file.extend(end.as_bytes());
        Ok(file)
    }
}

/// All of an entry but its path.
fn write_fixed(entry: &IndexEntry, file: &mut Vec<u8>) {
    let stat = &entry.stat;
    let numbers = [
        stat.ctime.0,
        stat.ctime.1,
        stat.mtime.0,
        stat.mtime.1,
        stat.dev,
        stat.ino,
        entry.mode.bits(),
        stat.uid,
        stat.gid,
        stat.size,
    ];
    file.extend(numbers.iter().flat_map(|number| number.to_be_bytes()));
    file.extend(entry.id.as_bytes());
    let length = u16::try_from(entry.path.len()).unwrap_or(NAME_MASK).min(NAME_MASK);
    let bit = |is_set: bool, bit: u16| if is_set { bit } else { 0 };
    let flags =
        length | stage_bits(entry.stage) | bit(entry.assume_valid, ASSUME_VALID) | bit(entry.is_extended(), EXTENDED);
    file.extend(flags.to_be_bytes());
    if entry.is_extended() {
        let more = bit(entry.skip_worktree, SKIP_WORKTREE) | bit(entry.intent_to_add, INTENT_TO_ADD);
        file.extend(more.to_be_bytes());
    }
}

const fn stage_bits(stage: MergeStage) -> u16 {
    match stage {
        MergeStage::Merged => 0,
        MergeStage::Ancestor => 1 << 12,
        MergeStage::Ours => 2 << 12,
        MergeStage::Theirs => 3 << 12,
    }
}

/// Git's variable-length number: see the reader.
fn write_varint(mut value: usize, file: &mut Vec<u8>) {
    let low = |value: usize| u8::try_from(value & 0x7f).unwrap_or(0);
    let mut bytes = vec![low(value)];
    while value >= 0x80 {
        value = (value >> 7) - 1;
        bytes.push(low(value) | 0x80);
    }
    bytes.reverse();
    file.extend(bytes);
}
