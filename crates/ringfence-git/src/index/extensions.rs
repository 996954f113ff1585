//! The extensions after the entries.

use super::cache_tree::CacheTree;
use super::ewah::Bitmap;
use super::parse::{Reader, Start};
use super::split::BaseLink;
use super::{Fault, IndexExtension};
use crate::object_id::{ObjectFormat, checksum};

/// What the extensions of an index say.
pub(super) struct Extensions {
    pub(super) list: Vec<IndexExtension>,
    pub(super) base: Option<BaseLink>,
    pub(super) cache_tree: Option<CacheTree>,
    pub(super) is_sparse: bool,
    /// Where the first begins: the end of the entries.
    start: usize,
}

impl Extensions {
    /// Reads them to the end of the file.
    pub(super) fn read(format: ObjectFormat, reader: &mut Reader<'_>) -> Result<Self, Fault> {
        let mut found = Self { list: Vec::new(), base: None, cache_tree: None, is_sparse: false, start: reader.at };
        while !reader.rest().is_empty() {
            let offset = reader.at;
            let mut signature = [0; 4];
            signature.copy_from_slice(reader.take(4)?);
            let size = reader.u32()? as usize;
            let content = reader.at..reader.at.saturating_add(size);
            let bytes = reader.take(size)?;
            if found.list.iter().any(|other| other.signature == signature) {
                return Err(Fault::Extension { offset });
            }
            match &signature {
                b"link" => found.base = read_link(format, bytes).ok_or(Fault::Extension { offset })?,
                b"TREE" => {
                    let tree = CacheTree::read(format, bytes, reader.content.len());
                    found.cache_tree = Some(tree.ok_or(Fault::Extension { offset })?);
                }
                b"sdir" if bytes.is_empty() => found.is_sparse = true,
                [b'A'..=b'Z', ..] => {}
                // Git would refuse the file.
                _ => return Err(Fault::Extension { offset }),
            }
            found.list.push(IndexExtension { signature, content });
        }
        Ok(found)
    }

    /// `EOIE` and `IEOT` tell the threads of git where to start. They must say what a single thread finds.
    pub(super) fn check_offsets(
        &self,
        format: ObjectFormat,
        content: &[u8],
        starts: &[Start],
        version: u32,
    ) -> Result<(), Fault> {
        let end = self.start;
        for (number, extension) in self.list.iter().enumerate() {
            let offset = extension.content.start.saturating_sub(8);
            let bytes = content.get(extension.content.clone()).unwrap_or_default();
            let is_right = match &extension.signature {
                b"EOIE" => {
                    let before = self.list.get(..number).unwrap_or_default();
                    let headers: Vec<&[u8]> = before
                        .iter()
                        .filter_map(|other| content.get(other.content.start.checked_sub(8)?..other.content.start))
                        .collect();
                    let hash = checksum(format, &headers);
                    let end = u32::try_from(end).unwrap_or(u32::MAX).to_be_bytes();
                    number + 1 == self.list.len() && bytes == [&end, hash.as_bytes()].concat()
                }
                b"IEOT" => offset_table_fits(bytes, starts, version).unwrap_or(false),
                _ => true,
            };
            if !is_right {
                return Err(Fault::Offsets { offset });
            }
        }
        Ok(())
    }
}

/// Whether the blocks of a table of offsets are the entries, one block after the other.
fn offset_table_fits(table: &[u8], starts: &[Start], version: u32) -> Option<bool> {
    let mut reader = Reader { content: table, at: 0 };
    if reader.u32().ok()? != 1 || reader.rest().is_empty() {
        return Some(false);
    }
    let mut first = 0usize;
    while !reader.rest().is_empty() {
        let offset = reader.u32().ok()? as usize;
        let count = reader.u32().ok()? as usize;
        let start = starts.get(first)?;
        if start.offset != offset || (version == 4 && start.shares != 0) {
            return Some(false);
        }
        first = first.checked_add(count)?;
    }
    Some(first == starts.len())
}

/// The content of `link`. One without base is what git leaves behind when an index is not split any more.
fn read_link(format: ObjectFormat, bytes: &[u8]) -> Option<Option<BaseLink>> {
    let mut reader = Reader { content: bytes, at: 0 };
    let checksum = reader.id(format).ok()?;
    let (deleted, replaced) = if reader.rest().is_empty() {
        (Bitmap::empty(), Bitmap::empty())
    } else {
        (Bitmap::read(&mut reader)?, Bitmap::read(&mut reader)?)
    };
    if !reader.rest().is_empty() {
        return None;
    }
    Some((!checksum.is_zero()).then_some(BaseLink { checksum, deleted, replaced }))
}
