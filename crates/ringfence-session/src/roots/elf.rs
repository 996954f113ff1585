//! What a program's ELF header asks for: its interpreter, its libraries, and where it says that they are.
//!
//! A reader of our own, since four tables are all that is wanted. Files may be hostile: every offset is one that somebody else
//! wrote, so nothing is indexed, nothing is added without a check, and every list has an end.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::File;
use std::os::unix::fs::FileExt as _;

/// Bytes at an offset.
pub(crate) trait Source {
    /// Fills the buffer; `None` where there is less.
    fn fill(&self, offset: u64, into: &mut [u8]) -> Option<()>;
}

/// A file, some pages of which were read. Names are taken byte by byte: a system call for each would be most of the work.
struct Pages<'f> {
    file: &'f File,
    held: RefCell<BTreeMap<u64, Vec<u8>>>,
}

const PAGE: u64 = 4096;

impl Pages<'_> {
    fn byte(&self, offset: u64) -> Option<u8> {
        let mut held = self.held.borrow_mut();
        let page = match held.entry(offset / PAGE) {
            Entry::Occupied(page) => page.into_mut(),
            Entry::Vacant(place) => place.insert(self.page(offset - offset % PAGE)?),
        };
        page.get(usize::try_from(offset % PAGE).ok()?).copied()
    }

    /// What the file has of a page; it ends in its last.
    fn page(&self, start: u64) -> Option<Vec<u8>> {
        let (mut page, mut length) = (vec![0; usize::try_from(PAGE).ok()?], 0);
        while let Some(rest) = page.get_mut(length..).filter(|rest| !rest.is_empty()) {
            match self.file.read_at(rest, start.checked_add(u64::try_from(length).ok()?)?).ok()? {
                0 => break,
                more => length += more,
            }
        }
        page.truncate(length);
        Some(page)
    }
}

impl Source for Pages<'_> {
    fn fill(&self, offset: u64, into: &mut [u8]) -> Option<()> {
        into.iter_mut().zip(0..).try_for_each(|(byte, past)| {
            *byte = self.byte(offset.checked_add(past)?)?;
            Some(())
        })
    }
}

impl Source for [u8] {
    fn fill(&self, offset: u64, into: &mut [u8]) -> Option<()> {
        let start = usize::try_from(offset).ok()?;
        into.copy_from_slice(self.get(start..start.checked_add(into.len())?)?);
        Some(())
    }
}

/// Which loader can load it: word size and machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Kind {
    /// 64 bits, or 32.
    pub(crate) is_64: bool,
    pub(crate) machine: u16,
}

/// What it asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Needs {
    pub(crate) kind: Kind,
    pub(crate) interpreter: Option<Vec<u8>>,
    pub(crate) libraries: Vec<Vec<u8>>,
    /// Searched before everything, also for what its libraries need; not where there is a `runpath`.
    pub(crate) rpath: Option<Vec<u8>>,
    /// Searched for its own libraries.
    pub(crate) runpath: Option<Vec<u8>>,
}

/// More than any program has.
const MOST_HEADERS: u16 = 512;
const MOST_ENTRIES: u64 = 8192;
const MOST_LIBRARIES: usize = 1024;
const LONGEST: usize = 4096;

const LOAD: u64 = 1;
const DYNAMIC: u64 = 2;
const INTERPRETER: u64 = 3;

const TAG_NEEDED: u64 = 1;
const TAG_STRINGS: u64 = 5;
const TAG_RPATH: u64 = 15;
const TAG_RUNPATH: u64 = 29;

/// Reads a file; `None` where it is no ELF file, or none that can be followed.
pub(crate) fn needs_of(file: &File) -> Option<Needs> {
    needs(&Pages { file, held: RefCell::default() })
}

/// The same for anything that has bytes.
pub(crate) fn needs(file: &(impl Source + ?Sized)) -> Option<Needs> {
    let mut ident = [0; 20];
    file.fill(0, &mut ident)?;
    // Little-endian, as every machine that ringfence runs on.
    if &ident[..4] != b"\x7fELF" || ident[5] != 1 || !matches!(ident[4], 1 | 2) {
        return None;
    }
    let kind = Kind { is_64: ident[4] == 2, machine: u16::from_le_bytes([ident[18], ident[19]]) };
    let reader = Reader { file, is_64: kind.is_64 };
    let headers = reader.headers()?;
    let mut needs = Needs { kind, interpreter: None, libraries: Vec::new(), rpath: None, runpath: None };
    for header in &headers {
        if header.kind == INTERPRETER {
            needs.interpreter = Some(reader.text(header.offset)?);
        }
    }
    if let Some(dynamic) = headers.iter().find(|header| header.kind == DYNAMIC) {
        reader.dynamic(dynamic, &headers, &mut needs)?;
    }
    Some(needs)
}

/// A program header, as far as it matters.
struct Header {
    kind: u64,
    offset: u64,
    address: u64,
    size: u64,
}

struct Reader<'f, S: ?Sized> {
    file: &'f S,
    is_64: bool,
}

impl<S: Source + ?Sized> Reader<'_, S> {
    fn number(&self, offset: u64, bytes: usize) -> Option<u64> {
        let mut buffer = [0; 8];
        self.file.fill(offset, buffer.get_mut(..bytes)?)?;
        Some(u64::from_le_bytes(buffer))
    }

    /// A number as wide as the file's addresses.
    fn word(&self, offset: u64) -> Option<u64> {
        self.number(offset, if self.is_64 { 8 } else { 4 })
    }

    fn headers(&self) -> Option<Vec<Header>> {
        let (table, size_at, count_at) = if self.is_64 { (0x20, 0x36, 0x38) } else { (0x1c, 0x2a, 0x2c) };
        let (table, size) = (self.word(table)?, self.number(size_at, 2)?);
        let count = u16::try_from(self.number(count_at, 2)?).ok()?.min(MOST_HEADERS);
        let (offset_at, address_at, size_field) = if self.is_64 { (8, 16, 32) } else { (4, 8, 16) };
        (0..u64::from(count))
            .map(|at| {
                let base = table.checked_add(at.checked_mul(size)?)?;
                Some(Header {
                    kind: self.number(base, 4)?,
                    offset: self.word(base.checked_add(offset_at)?)?,
                    address: self.word(base.checked_add(address_at)?)?,
                    size: self.word(base.checked_add(size_field)?)?,
                })
            })
            .collect()
    }

    fn dynamic(&self, table: &Header, headers: &[Header], needs: &mut Needs) -> Option<()> {
        let width: u64 = if self.is_64 { 8 } else { 4 };
        let mut found: Vec<(u64, u64)> = Vec::new();
        for at in 0..(table.size / (2 * width)).min(MOST_ENTRIES) {
            let entry = table.offset.checked_add(at * 2 * width)?;
            let (tag, value) = (self.word(entry)?, self.word(entry.checked_add(width)?)?);
            match tag {
                0 => break,
                TAG_NEEDED | TAG_STRINGS | TAG_RPATH | TAG_RUNPATH => found.push((tag, value)),
                _ => {}
            }
        }
        let Some((_, strings)) = found.iter().find(|(tag, _)| *tag == TAG_STRINGS) else { return Some(()) };
        // The table of names is told by its address in memory; the segments say where that is in the file.
        let holds = |header: &&Header| {
            header.kind == LOAD && strings.checked_sub(header.address).is_some_and(|past| past < header.size)
        };
        let segment = headers.iter().find(holds)?;
        let strings = segment.offset.checked_add(strings.checked_sub(segment.address)?)?;
        for (tag, value) in found {
            let text = || self.text(strings.checked_add(value)?);
            match tag {
                TAG_NEEDED if needs.libraries.len() < MOST_LIBRARIES => needs.libraries.push(text()?),
                TAG_RPATH => needs.rpath = Some(text()?),
                TAG_RUNPATH => needs.runpath = Some(text()?),
                _ => {}
            }
        }
        Some(())
    }

    /// The bytes up to a NUL. Those that have none soon enough are no name.
    fn text(&self, offset: u64) -> Option<Vec<u8>> {
        let mut text = Vec::new();
        let mut at = offset;
        loop {
            let mut byte = [0];
            self.file.fill(at, &mut byte)?;
            match byte {
                [0] => return Some(text),
                _ if text.len() >= LONGEST => return None,
                [byte] => text.push(byte),
            }
            at = at.checked_add(1)?;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn own() -> Vec<u8> {
        std::fs::read("/proc/self/exe").unwrap()
    }

    static START: std::sync::OnceLock<Vec<u8>> = std::sync::OnceLock::new();

    #[test]
    fn a_program_is_read() {
        let needs = needs(own().as_slice()).unwrap();
        assert_eq!(needs_of(&File::open("/proc/self/exe").unwrap()).as_ref(), Some(&needs));
        assert!(needs.libraries.iter().any(|name| name.starts_with(b"libc.so")), "{needs:?}");
        assert!(needs.interpreter.is_some_and(|path| path.starts_with(b"/")));
    }

    #[test]
    fn what_is_no_program() {
        for bytes in [&b""[..], b"#!/bin/sh\n", b"\x7fELF", &[0; 4096]] {
            assert_eq!(needs(bytes), None);
        }
    }

    proptest! {
        /// Hostile headers: nothing is promised but an answer.
        #[test]
        fn no_file_is_too_strange(changes in prop::collection::vec((0..0x1000_usize, any::<u8>()), 1..40), cut in 0..0x1_0000_usize) {
            let mut bytes = START.get_or_init(|| own()[..0x1_0000].to_vec()).clone();
            for (at, byte) in changes {
                bytes[at] = byte;
            }
            bytes.truncate(cut.max(0x40));
            let _ = needs(bytes.as_slice());
        }

        #[test]
        fn no_bytes_are_too_strange(bytes in prop::collection::vec(any::<u8>(), 0..512)) {
            let mut whole = b"\x7fELF\x02\x01\x01\x00".to_vec();
            whole.extend(bytes);
            let _ = needs(whole.as_slice());
        }
    }
}
