//! Packs: finding an object by its id in the index of a pack, and rebuilding it from its deltas.
//!
//! A pack and its index are read as an attacker could have written them. Lengths are bounded by a [`ReadBudget`], deltas by a depth,
//! and whatever comes out has the hash that was asked for. For this reader a wrong index can only hide an object; git itself believes
//! the index, so one that an attacker could have written is verified as a whole first.

use std::collections::HashMap;
use std::sync::Arc;

use crate::inflate::inflate_exactly;
use crate::object::{Object, ObjectKind, ReadBudget, ReadFault};
use crate::object_id::{ObjectFormat, ObjectId};

/// The most that `git pack-objects --depth` accepts.
const MOST_DELTAS: usize = 4095;

/// What a pack keeps of the objects that others are deltas of.
const CACHE_BYTES: usize = 32 << 20;

/// A file that is read at offsets.
pub trait ReadAt {
    /// Its length.
    fn size(&self) -> u64;

    /// Reads from this offset into the buffer, and returns how many bytes: fewer only at the end of the file or after an error.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> usize;
}

impl ReadAt for [u8] {
    fn size(&self) -> u64 {
        self.len() as u64
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> usize {
        let rest = usize::try_from(offset).ok().and_then(|offset| self.get(offset..)).unwrap_or_default();
        let length = rest.len().min(buffer.len());
        buffer[..length].copy_from_slice(&rest[..length]);
        length
    }
}

impl<F: ReadAt + ?Sized> ReadAt for Box<F> {
    fn size(&self) -> u64 {
        (**self).size()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> usize {
        (**self).read_at(offset, buffer)
    }
}

impl ReadAt for Vec<u8> {
    fn size(&self) -> u64 {
        self.as_slice().size()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> usize {
        self.as_slice().read_at(offset, buffer)
    }
}

/// Reads exactly `N` bytes.
fn bytes_at<const N: usize>(file: &impl ReadAt, offset: u64) -> Result<[u8; N], ReadFault> {
    let mut bytes = [0; N];
    if file.read_at(offset, &mut bytes) == N { Ok(bytes) } else { Err(ReadFault::Pack) }
}

/// The index of a pack (`pack-*.idx`), version 2.
#[derive(Debug)]
pub struct PackIndex<F> {
    file: F,
    format: ObjectFormat,
    count: u64,
}

impl<F: ReadAt> PackIndex<F> {
    const FANOUT: u64 = 8;
    const IDS: u64 = Self::FANOUT + 256 * 4;

    /// Checks that a file is an index.
    ///
    /// # Errors
    /// [`ReadFault::Pack`].
    pub fn open(format: ObjectFormat, file: F) -> Result<Self, ReadFault> {
        if bytes_at(&file, 0)? != *b"\xfftOc\0\0\0\x02" {
            return Err(ReadFault::Pack);
        }
        let count = u64::from(u32::from_be_bytes(bytes_at(&file, Self::IDS - 4)?));
        let index = Self { file, format, count };
        // The table of 64-bit offsets has any number of entries up to one for each object.
        let fixed = index.offsets() + 4 * count + 2 * format.id_len() as u64;
        let large = index.file.size().checked_sub(fixed).ok_or(ReadFault::Pack)?;
        if large % 8 != 0 || large / 8 > count {
            return Err(ReadFault::Pack);
        }
        Ok(index)
    }

    /// Where the pack has the object.
    ///
    /// # Errors
    /// [`ReadFault::Pack`]: the index contradicts itself.
    pub fn find(&self, id: &ObjectId) -> Result<Option<u64>, ReadFault> {
        if id.format() != self.format {
            return Ok(None);
        }
        let first = u64::from(id.as_bytes().first().copied().unwrap_or(0));
        let mut low = if first == 0 { 0 } else { self.fanout(first - 1)? };
        let mut high = self.fanout(first)?;
        if low > high || high > self.count {
            return Err(ReadFault::Pack);
        }
        while low < high {
            let middle = low + (high - low) / 2;
            let found = self.id_at(middle)?;
            match id.cmp(&found) {
                std::cmp::Ordering::Less => high = middle,
                std::cmp::Ordering::Greater => low = middle + 1,
                std::cmp::Ordering::Equal => return self.offset_at(middle).map(Some),
            }
        }
        Ok(None)
    }

    /// The first two ids that begin with these hexadecimal digits.
    ///
    /// # Errors
    /// [`ReadFault::Pack`]: the file is too short.
    pub fn find_prefix(&self, digits: &[u8]) -> Result<Vec<ObjectId>, ReadFault> {
        let mut padded = digits.to_vec();
        padded.resize(2 * self.format.id_len(), b'0');
        let Some(lowest) = ObjectId::from_hex(&padded) else { return Ok(Vec::new()) };
        let (mut low, mut high) = (0, self.count);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.id_at(middle)? < lowest { low = middle + 1 } else { high = middle }
        }
        let mut found = Vec::new();
        for number in (low..self.count).take(2) {
            found.extend(Some(self.id_at(number)?).filter(|id| id.to_string().as_bytes().starts_with(digits)));
        }
        Ok(found)
    }

    fn fanout(&self, first: u64) -> Result<u64, ReadFault> {
        Ok(u64::from(u32::from_be_bytes(bytes_at(&self.file, Self::FANOUT + 4 * first)?)))
    }

    fn id_at(&self, number: u64) -> Result<ObjectId, ReadFault> {
        let offset = Self::IDS + number * self.format.id_len() as u64;
        match self.format {
            ObjectFormat::Sha1 => bytes_at(&self.file, offset).map(ObjectId::Sha1),
            ObjectFormat::Sha256 => bytes_at(&self.file, offset).map(ObjectId::Sha256),
        }
    }

    /// Where the table of 32-bit offsets begins: after the ids and their CRCs.
    const fn offsets(&self) -> u64 {
        Self::IDS + self.count * (self.format.id_len() as u64 + 4)
    }

    fn offset_at(&self, number: u64) -> Result<u64, ReadFault> {
        let offset = u32::from_be_bytes(bytes_at(&self.file, self.offsets() + 4 * number)?);
        if offset & 0x8000_0000 == 0 {
            return Ok(u64::from(offset));
        }
        // A number in the table of 64-bit offsets.
        let large = u64::from(offset & 0x7fff_ffff);
        let at = self.offsets() + 4 * self.count + 8 * large;
        if at + 8 > self.file.size().saturating_sub(2 * self.format.id_len() as u64) {
            return Err(ReadFault::Pack);
        }
        bytes_at(&self.file, at).map(u64::from_be_bytes)
    }
}

/// A pack and its index.
#[derive(Debug)]
pub struct PackReader<F> {
    index: PackIndex<F>,
    file: F,
    /// By offset: objects that others are deltas of.
    cache: HashMap<u64, Base>,
    cached: usize,
}

#[derive(Debug, Clone)]
struct Base {
    kind: ObjectKind,
    content: Arc<Vec<u8>>,
}

/// The head of an entry, and where its compressed content begins.
struct EntryHead {
    kind: EntryKind,
    length: usize,
    content: u64,
}

enum EntryKind {
    Whole(ObjectKind),
    /// A delta of the entry at this offset.
    Delta(u64),
}

impl<F: ReadAt> PackReader<F> {
    /// Checks that two files are an index and a pack.
    ///
    /// # Errors
    /// [`ReadFault::Pack`].
    pub fn open(format: ObjectFormat, index: F, pack: F) -> Result<Self, ReadFault> {
        let index = PackIndex::open(format, index)?;
        let [signature @ .., v0, v1, v2, v3] = bytes_at::<8>(&pack, 0)?;
        if signature != *b"PACK" || !matches!(u32::from_be_bytes([v0, v1, v2, v3]), 2 | 3) {
            return Err(ReadFault::Pack);
        }
        Ok(Self { index, file: pack, cache: HashMap::new(), cached: 0 })
    }

    /// The object with this id, if the pack has it.
    ///
    /// # Errors
    /// [`ReadFault`]: it is damaged, is another object, or is too long for the budget.
    pub fn read(&mut self, id: &ObjectId, budget: &mut ReadBudget) -> Result<Option<Object>, ReadFault> {
        let Some(offset) = self.index.find(id)? else { return Ok(None) };
        let Base { kind, content } = self.entry(offset, budget)?;
        Object::verified(id, kind, Arc::unwrap_or_clone(content)).map(Some)
    }

    /// The first two ids that begin with these hexadecimal digits.
    ///
    /// # Errors
    /// [`ReadFault::Pack`]: the index is too short.
    pub fn find_prefix(&self, digits: &[u8]) -> Result<Vec<ObjectId>, ReadFault> {
        self.index.find_prefix(digits)
    }

    /// Checks that every object that the index lists is where it says, and has the id that it says.
    ///
    /// Git looks an object up in the index and does not hash what it finds there: an attacker who writes an index gives content of his own
    /// the id of a file that the user committed.
    ///
    /// # Errors
    /// [`ReadFault`]: one is damaged, is another object, or there is more than the budget allows.
    pub fn verify(&mut self, budget: &mut ReadBudget) -> Result<(), ReadFault> {
        let mut listed = Vec::new();
        for number in 0..self.index.count {
            listed.push((self.index.offset_at(number)?, self.index.id_at(number)?));
        }
        // Bases come before their deltas.
        listed.sort_unstable();
        for (offset, id) in listed {
            let Base { kind, content } = self.entry(offset, budget)?;
            Object::verified(&id, kind, Arc::unwrap_or_clone(content))?;
        }
        Ok(())
    }

    /// Rebuilds the entry at an offset.
    fn entry(&mut self, offset: u64, budget: &mut ReadBudget) -> Result<Base, ReadFault> {
        let mut deltas: Vec<(u64, Vec<u8>)> = Vec::new();
        let mut at = offset;
        let mut base = loop {
            if let Some(base) = self.cache.get(&at) {
                // It takes time all the same: the result is copied and hashed.
                budget.charge(base.content.len())?;
                break base.clone();
            }
            let head = self.entry_head(at)?;
            budget.charge(head.length)?;
            let inflated = inflate_exactly(&self.file, head.content, head.length);
            let content = inflated.ok_or(ReadFault::Zlib { offset: head.content })?.content;
            match head.kind {
                EntryKind::Whole(kind) => break Base { kind, content: Arc::new(content) },
                EntryKind::Delta(_) if deltas.len() == MOST_DELTAS => return Err(ReadFault::Depth { offset }),
                EntryKind::Delta(base) => {
                    deltas.push((at, content));
                    at = base;
                }
            }
        };
        for (delta_at, delta) in deltas.into_iter().rev() {
            self.remember(at, &base);
            let malformed = ReadFault::Delta { offset: delta_at };
            let (base_length, length, operations) = delta_head(&delta).ok_or(malformed)?;
            if base_length != base.content.len() {
                return Err(malformed);
            }
            budget.charge(length)?;
            let content = apply_delta(&base.content, length, operations).ok_or(malformed)?;
            base = Base { kind: base.kind, content: Arc::new(content) };
            at = delta_at;
        }
        Ok(base)
    }

    fn remember(&mut self, at: u64, base: &Base) {
        let length = base.content.len();
        if length > CACHE_BYTES / 4 || self.cache.contains_key(&at) {
            return;
        }
        if self.cached + length > CACHE_BYTES {
            self.cache.clear();
            self.cached = 0;
        }
        self.cached += length;
        self.cache.insert(at, base.clone());
    }

    fn entry_head(&self, offset: u64) -> Result<EntryHead, ReadFault> {
        let malformed = ReadFault::Head { offset };
        let mut bytes = HeadBytes::read(&self.file, offset);
        let first = bytes.next().ok_or(malformed)?;
        let length = bytes.length(first).ok_or(malformed)?;
        let kind = match first >> 4 & 7 {
            1 => EntryKind::Whole(ObjectKind::Commit),
            2 => EntryKind::Whole(ObjectKind::Tree),
            3 => EntryKind::Whole(ObjectKind::Blob),
            4 => EntryKind::Whole(ObjectKind::Tag),
            6 => {
                // The base comes before its delta, so that such chains end.
                let back = bytes.distance().filter(|back| *back > 0).ok_or(malformed)?;
                EntryKind::Delta(offset.checked_sub(back).ok_or(malformed)?)
            }
            7 => {
                let id = bytes.id(self.index.format).ok_or(malformed)?;
                EntryKind::Delta(self.index.find(&id)?.ok_or(ReadFault::Delta { offset })?)
            }
            _ => return Err(malformed),
        };
        Ok(EntryHead { kind, length, content: offset + bytes.at as u64 })
    }
}

/// The first bytes of an entry: more than the longest head.
struct HeadBytes {
    bytes: [u8; 64],
    length: usize,
    at: usize,
}

impl HeadBytes {
    fn read(file: &impl ReadAt, offset: u64) -> Self {
        let mut bytes = [0; 64];
        let length = file.read_at(offset, &mut bytes);
        Self { bytes, length, at: 0 }
    }

    fn next(&mut self) -> Option<u8> {
        let byte = *self.bytes.get(..self.length)?.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    /// The length that the first byte begins: 4 bits of it, and 7 of each further byte.
    fn length(&mut self, first: u8) -> Option<usize> {
        let mut byte = first;
        let mut length = usize::from(first & 15);
        let mut shift = 4;
        while byte & 0x80 != 0 {
            byte = self.next()?;
            length |= shifted(byte & 0x7f, shift)?;
            shift += 7;
        }
        Some(length)
    }

    fn distance(&mut self) -> Option<u64> {
        let mut byte = self.next()?;
        let mut distance = u64::from(byte & 0x7f);
        while byte & 0x80 != 0 {
            byte = self.next()?;
            distance = distance.checked_add(1)?.checked_mul(128)?.checked_add(u64::from(byte & 0x7f))?;
        }
        Some(distance)
    }

    fn id(&mut self, format: ObjectFormat) -> Option<ObjectId> {
        let end = self.at + format.id_len();
        let id = ObjectId::from_bytes(format, self.bytes.get(..self.length)?.get(self.at..end)?)?;
        self.at = end;
        Some(id)
    }
}

/// Bits at their place in a number; nothing if they do not fit.
fn shifted(bits: u8, shift: u32) -> Option<usize> {
    let bits = usize::from(bits);
    let placed = bits.checked_shl(shift)?;
    (placed >> shift == bits).then_some(placed)
}

/// The length of the base, the length of the result, and the operations.
fn delta_head(delta: &[u8]) -> Option<(usize, usize, &[u8])> {
    let (base, rest) = delta_length(delta)?;
    let (result, rest) = delta_length(rest)?;
    Some((base, result, rest))
}

fn delta_length(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let mut length = 0;
    for (at, byte) in bytes.iter().enumerate() {
        length |= shifted(byte & 0x7f, u32::try_from(at).ok()? * 7)?;
        if byte & 0x80 == 0 {
            return Some((length, bytes.get(at + 1..)?));
        }
    }
    None
}

/// Copies parts of the base and new bytes, exactly `length` of them together.
fn apply_delta(base: &[u8], length: usize, operations: &[u8]) -> Option<Vec<u8>> {
    // The length is the attacker's; a little is reserved, and the rest as it comes.
    let mut result = Vec::with_capacity(length.min(1 << 20));
    let mut rest = operations;
    while let Some((operation, after)) = rest.split_first() {
        rest = after;
        match operation {
            0 => return None,
            1..=0x7f => {
                let (new, after) = rest.split_at_checked(usize::from(*operation))?;
                result.extend(new);
                rest = after;
            }
            _ => {
                let from = delta_number(&mut rest, operation & 15)?;
                let count = match delta_number(&mut rest, operation >> 4 & 7)? {
                    0 => 0x10000,
                    count => count,
                };
                result.extend(base.get(from..from.checked_add(count)?)?);
            }
        }
        if result.len() > length {
            return None;
        }
    }
    (result.len() == length).then_some(result)
}

/// A number of which only the bytes are written that have a bit in `present`.
fn delta_number(rest: &mut &[u8], present: u8) -> Option<usize> {
    let mut number = 0;
    for at in (0..4).filter(|at| present >> at & 1 == 1) {
        let (byte, after) = rest.split_first()?;
        number |= usize::from(*byte) << (8 * at);
        *rest = after;
    }
    Some(number)
}

#[cfg(test)]
mod tests;
