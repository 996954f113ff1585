//! From the bytes of a file to entries.

use super::extensions::Extensions;
use super::{Fault, Index, IndexEntry, MergeStage, StatData};
use crate::entry_mode::EntryMode;
use crate::entry_path;
use crate::object_id::{ObjectFormat, ObjectId, checksum};

/// The nine numbers of `stat` and the mode.
const FIXED: usize = 40;

pub(super) const ASSUME_VALID: u16 = 0x8000;
pub(super) const EXTENDED: u16 = 0x4000;
pub(super) const NAME_MASK: u16 = 0x0fff;
pub(super) const SKIP_WORKTREE: u16 = 0x4000;
pub(super) const INTENT_TO_ADD: u16 = 0x2000;

/// The paths of a version 4 index share what they have in common. They may not take more than this many times the file: an attacker
/// could otherwise fill the memory with a small file.
pub(super) const MOST_EXPANSION: usize = 4;

impl Index {
    /// Reads a file.
    ///
    /// # Errors
    /// [`Fault`]: what git would not have written.
    pub fn parse(format: ObjectFormat, file: &[u8]) -> Result<Self, Fault> {
        let (content, checksum) = split_checksum(format, file)?;
        let mut reader = Reader { content, at: 0 };
        if reader.take(4)? != b"DIRC" {
            return Err(Fault::Signature);
        }
        let version = reader.u32()?;
        if !(2..=4).contains(&version) {
            return Err(Fault::Version { version });
        }
        let count = reader.u32()? as usize;
        let mut records = Records { format, version, count, total: 0, entries: Vec::new(), starts: Vec::new() };
        records.read(&mut reader)?;
        let extensions = Extensions::read(format, &mut reader)?;
        extensions.check_offsets(format, content, &records.starts, version)?;
        let Records { entries, starts, .. } = records;
        check_order(&entries, extensions.base.is_some()).map_err(|fault| fault.at(&starts))?;
        check_directories(&entries, extensions.is_sparse).map_err(|fault| fault.at(&starts))?;
        let Extensions { list, base, cache_tree, is_sparse, .. } = extensions;
        Ok(Self { version, format, entries, extensions: list, base, cache_tree, is_sparse, checksum })
    }
}

/// The file without its checksum, and the checksum, which is right or zero.
fn split_checksum(format: ObjectFormat, file: &[u8]) -> Result<(&[u8], ObjectId), Fault> {
    let truncated = Fault::Truncated { offset: file.len() };
    let Some(length) = file.len().checked_sub(format.id_len()) else { return Err(truncated) };
    let (content, end) = file.split_at(length);
    let Some(written) = ObjectId::from_bytes(format, end) else { return Err(truncated) };
    if !written.is_zero() && written != checksum(format, &[content]) {
        return Err(Fault::Checksum);
    }
    Ok((content, written))
}

/// Bytes of a file, read from the front.
pub(super) struct Reader<'f> {
    pub(super) content: &'f [u8],
    pub(super) at: usize,
}

impl<'f> Reader<'f> {
    pub(super) fn rest(&self) -> &'f [u8] {
        self.content.get(self.at..).unwrap_or_default()
    }

    pub(super) fn take(&mut self, length: usize) -> Result<&'f [u8], Fault> {
        let (front, _) = self.rest().split_at_checked(length).ok_or(Fault::Truncated { offset: self.at })?;
        self.at += length;
        Ok(front)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Fault> {
        let offset = self.at;
        self.take(N)?.try_into().map_err(|_| Fault::Truncated { offset })
    }

    pub(super) fn u8(&mut self) -> Result<u8, Fault> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub(super) fn u16(&mut self) -> Result<u16, Fault> {
        self.array().map(u16::from_be_bytes)
    }

    pub(super) fn u32(&mut self) -> Result<u32, Fault> {
        self.array().map(u32::from_be_bytes)
    }

    pub(super) fn u64(&mut self) -> Result<u64, Fault> {
        self.array().map(u64::from_be_bytes)
    }

    pub(super) fn id(&mut self, format: ObjectFormat) -> Result<ObjectId, Fault> {
        let offset = self.at;
        ObjectId::from_bytes(format, self.take(format.id_len())?).ok_or(Fault::Truncated { offset })
    }

    /// Git's variable-length number, in which each number has one spelling.
    fn varint(&mut self) -> Result<usize, Fault> {
        let offset = self.at;
        let mut byte = self.u8()?;
        let mut value = usize::from(byte & 0x7f);
        while byte & 0x80 != 0 {
            byte = self.u8()?;
            value = value
                .checked_add(1)
                .and_then(|value| value.checked_mul(128))
                .and_then(|value| value.checked_add(usize::from(byte & 0x7f)))
                .ok_or(Fault::Name { offset })?;
        }
        Ok(value)
    }
}

/// Where an entry begins, and whether a thread of git could begin there: it shares nothing with the path before.
#[derive(Debug, Clone, Copy)]
pub(super) struct Start {
    pub(super) offset: usize,
    pub(super) shares: usize,
}

struct Records {
    format: ObjectFormat,
    version: u32,
    count: usize,
    /// The bytes of all paths.
    total: usize,
    entries: Vec<IndexEntry>,
    starts: Vec<Start>,
}

impl Records {
    fn read(&mut self, reader: &mut Reader<'_>) -> Result<(), Fault> {
        // The count is the attacker's: allocate no more than the file could hold.
        let possible = self.count.min(reader.content.len() / (FIXED + self.format.id_len() + 2));
        self.entries.reserve_exact(possible);
        self.starts.reserve_exact(possible);
        for _ in 0..self.count {
            self.read_entry(reader)?;
        }
        Ok(())
    }

    fn read_entry(&mut self, reader: &mut Reader<'_>) -> Result<(), Fault> {
        let offset = reader.at;
        let mut numbers = [0; FIXED / 4];
        for number in &mut numbers {
            *number = reader.u32()?;
        }
        let [ctime, ctime_ns, mtime, mtime_ns, dev, ino, bits, uid, gid, size] = numbers;
        let id = reader.id(self.format)?;
        let mode = EntryMode::from_bits(bits).ok_or(Fault::Mode { offset, bits })?;
        let flags = reader.u16()?;
        let more = match (flags & EXTENDED != 0, self.version) {
            (false, _) => 0,
            (true, 2) => return Err(Fault::Flags { offset }),
            (true, _) => reader.u16()?,
        };
        if more & !(SKIP_WORKTREE | INTENT_TO_ADD) != 0 {
            return Err(Fault::Flags { offset });
        }
        let stage = match flags >> 12 & 3 {
            0 => MergeStage::Merged,
            1 => MergeStage::Ancestor,
            2 => MergeStage::Ours,
            _ => MergeStage::Theirs,
        };
        let (path, shares) =
            if self.version == 4 { self.shared_path(reader, offset)? } else { padded_path(reader, offset)? };
        if path.len().min(usize::from(NAME_MASK)) != usize::from(flags & NAME_MASK) {
            return Err(Fault::Flags { offset });
        }
        self.total += path.len();
        if self.total > reader.content.len().saturating_mul(MOST_EXPANSION) {
            return Err(Fault::Long { offset });
        }
        verify(mode, &path).map_err(|cause| Fault::Path { offset, path: path.clone(), cause })?;
        self.starts.push(Start { offset, shares });
        self.entries.push(IndexEntry {
            path,
            mode,
            id,
            stage,
            assume_valid: flags & ASSUME_VALID != 0,
            skip_worktree: more & SKIP_WORKTREE != 0,
            intent_to_add: more & INTENT_TO_ADD != 0,
            stat: StatData { ctime: (ctime, ctime_ns), mtime: (mtime, mtime_ns), dev, ino, uid, gid, size },
        });
        Ok(())
    }

    /// A path of version 4: how many bytes of the path before it do not belong to it, and what follows them.
    fn shared_path(&self, reader: &mut Reader<'_>, offset: usize) -> Result<(Vec<u8>, usize), Fault> {
        let before = self.entries.last().map_or(&[][..], |entry| &entry.path);
        let dropped = reader.varint()?;
        let shares = before.len().checked_sub(dropped).ok_or(Fault::Name { offset })?;
        let end = path_end(reader, offset)?;
        let path = [&before[..shares], reader.take(end)?].concat();
        reader.take(1)?;
        Ok((path, shares))
    }
}

/// A path of version 2 or 3: bytes of 0 after it make the entry's length a multiple of 8, one at least.
fn padded_path(reader: &mut Reader<'_>, offset: usize) -> Result<(Vec<u8>, usize), Fault> {
    let path = reader.take(path_end(reader, offset)?)?.to_vec();
    let padding = 8 - (reader.at - offset) % 8;
    if reader.take(padding)?.iter().any(|byte| *byte != 0) {
        return Err(Fault::Name { offset });
    }
    Ok((path, 0))
}

/// The bytes before the next 0.
fn path_end(reader: &Reader<'_>, offset: usize) -> Result<usize, Fault> {
    let rest = reader.rest();
    // Longer paths are refused anyway; without a bound each entry could look through the whole file.
    let within = &rest[..rest.len().min(entry_path::LONGEST + 2)];
    match within.iter().position(|byte| *byte == 0) {
        Some(end) => Ok(end),
        None if within.len() < rest.len() => Err(Fault::Name { offset }),
        None => Err(Fault::Truncated { offset }),
    }
}

pub(super) fn verify(mode: EntryMode, path: &[u8]) -> Result<(), entry_path::Fault> {
    match mode {
        // An entry of a split index that replaces one of the base. The check of the order lets no other pass.
        _ if path.is_empty() => Ok(()),
        EntryMode::Directory => entry_path::verify(path.strip_suffix(b"/").ok_or(entry_path::Fault::EmptyPart)?),
        EntryMode::SymbolicLink => entry_path::verify_link(path),
        EntryMode::Regular | EntryMode::Executable | EntryMode::Gitlink => entry_path::verify(path),
    }
}

/// A fault of an entry that is known by its number.
pub(super) enum EntryFault {
    Order { entry: usize },
    Directory { entry: usize },
    FileAndDirectory { entry: usize, path: Vec<u8> },
}

impl EntryFault {
    fn at(self, starts: &[Start]) -> Fault {
        let offset = |entry: usize| starts.get(entry).map_or(0, |start| start.offset);
        match self {
            Self::Order { entry } => Fault::Order { offset: offset(entry) },
            Self::Directory { entry } => Fault::Directory { offset: offset(entry) },
            Self::FileAndDirectory { entry, path } => Fault::FileAndDirectory { offset: offset(entry), path },
        }
    }
}

/// Every entry comes after the one before it, and a path without conflict has no stages.
pub(super) fn check_order(entries: &[IndexEntry], is_split: bool) -> Result<(), EntryFault> {
    let unnamed = if is_split { entries.iter().take_while(|entry| entry.path.is_empty()).count() } else { 0 };
    let named = &entries[unnamed..];
    if named.first().is_some_and(|entry| entry.path.is_empty()) {
        return Err(EntryFault::Order { entry: unnamed });
    }
    let is_after = |pair: &[IndexEntry]| match pair {
        [first, second] if first.path == second.path => first.stage != MergeStage::Merged && first.stage < second.stage,
        [first, second] => first.path < second.path,
        _ => true,
    };
    match named.windows(2).position(|pair| !is_after(pair)) {
        Some(at) => Err(EntryFault::Order { entry: unnamed + at + 1 }),
        None => Ok(()),
    }
}

/// Directories are entries only where the index is sparse, and no path without conflict is a file and a directory: git would follow a
/// symbolic link `a` when it writes `a/b`.
pub(super) fn check_directories(entries: &[IndexEntry], is_sparse: bool) -> Result<(), EntryFault> {
    let mut before: &[u8] = &[];
    for (number, entry) in entries.iter().enumerate() {
        if entry.mode == EntryMode::Directory
            && !(is_sparse && entry.skip_worktree && entry.stage == MergeStage::Merged)
        {
            return Err(EntryFault::Directory { entry: number });
        }
        if entry.stage != MergeStage::Merged {
            continue;
        }
        let path = entry.path.as_slice();
        let common = before.iter().zip(path).take_while(|(a, b)| a == b).count();
        // Whatever is below a directory that is an entry comes directly after it.
        if before.ends_with(b"/") && path.starts_with(before) {
            return Err(EntryFault::FileAndDirectory { entry: number, path: before.to_vec() });
        }
        // The directories that the path before was not in have not been looked for yet.
        let new = path.iter().enumerate().skip(common).filter(|(_, byte)| **byte == b'/');
        for (slash, _) in new {
            let file = (&path[..slash], MergeStage::Merged);
            if entries[..number].binary_search_by(|other| other.key().cmp(&file)).is_ok() {
                return Err(EntryFault::FileAndDirectory { entry: number, path: file.0.to_vec() });
            }
        }
        before = path;
    }
    Ok(())
}
