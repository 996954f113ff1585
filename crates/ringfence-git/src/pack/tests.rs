//! The fixtures are packs that git 2.47 wrote: one history with deltas by offset, with deltas by id, and with SHA-256.

use miniz_oxide::deflate::compress_to_vec_zlib;
use proptest::prelude::*;

use super::*;
use crate::object::id_of;
use crate::object_id::checksum;
use ObjectFormat::{Sha1, Sha256};

macro_rules! fixture {
    ($name:literal) => {
        (
            include_bytes!(concat!("fixtures/", $name, ".idx")).as_slice(),
            include_bytes!(concat!("fixtures/", $name, ".pack")).as_slice(),
        )
    };
}

type Files = (&'static [u8], &'static [u8]);

const FIXTURES: [(ObjectFormat, Files); 3] =
    [(Sha1, fixture!("ofs")), (Sha1, fixture!("ref")), (Sha256, fixture!("sha256"))];

fn budget() -> ReadBudget {
    ReadBudget { objects: 10_000, bytes: 10 << 20 }
}

fn open(format: ObjectFormat, (index, pack): (&[u8], &[u8])) -> Result<PackReader<Vec<u8>>, ReadFault> {
    PackReader::open(format, index.to_vec(), pack.to_vec())
}

/// Every id of an index.
fn ids<F: ReadAt>(pack: &PackReader<F>) -> Vec<ObjectId> {
    (0..pack.index.count).map(|number| pack.index.id_at(number).unwrap()).collect()
}

/// An entry of a pack that a test writes.
#[derive(Debug, Clone)]
enum TestEntry {
    Whole(ObjectKind, Vec<u8>),
    /// The number of an entry before it, and a delta of it.
    ByOffset(usize, Vec<u8>),
    ById(ObjectId, Vec<u8>),
}

fn head(kind: u8, length: usize) -> Vec<u8> {
    let mut bytes = vec![kind << 4 | (length & 15) as u8];
    let mut rest = length >> 4;
    while rest > 0 {
        *bytes.last_mut().unwrap() |= 0x80;
        bytes.push((rest & 0x7f) as u8);
        rest >>= 7;
    }
    bytes
}

fn little(mut value: usize) -> Vec<u8> {
    let mut bytes = vec![];
    while value >= 0x80 {
        bytes.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

fn distance(mut value: u64) -> Vec<u8> {
    let mut bytes = vec![(value & 0x7f) as u8];
    while value >= 0x80 {
        value = (value >> 7) - 1;
        bytes.push((value & 0x7f) as u8 | 0x80);
    }
    bytes.reverse();
    bytes
}

/// A pack, and its index with these ids; `large` puts every offset into the table of 64-bit offsets.
fn build(entries: &[(ObjectId, TestEntry)], large: bool) -> (Vec<u8>, Vec<u8>) {
    let mut pack = [b"PACK\0\0\0\x02".as_slice(), &(entries.len() as u32).to_be_bytes()].concat();
    let mut offsets = vec![];
    for (_, entry) in entries {
        let at = pack.len() as u64;
        let content = match entry {
            TestEntry::Whole(kind, content) => {
                pack.extend(head(*kind as u8 + 1, content.len()));
                content
            }
            TestEntry::ByOffset(base, delta) => {
                pack.extend(head(6, delta.len()));
                pack.extend(distance(at.wrapping_sub(offsets.get(*base).copied().unwrap_or(at))));
                delta
            }
            TestEntry::ById(base, delta) => {
                pack.extend(head(7, delta.len()));
                pack.extend(base.as_bytes());
                delta
            }
        };
        pack.extend(compress_to_vec_zlib(content, 6));
        offsets.push(at);
    }
    let end = checksum(Sha1, &[&pack]);
    pack.extend(end.as_bytes());
    let mut sorted: Vec<(ObjectId, u64)> = entries.iter().map(|(id, _)| *id).zip(offsets).collect();
    sorted.sort();
    let mut index = b"\xfftOc\0\0\0\x02".to_vec();
    for first in 0..=255 {
        let count = sorted.iter().filter(|(id, _)| id.as_bytes()[0] <= first).count();
        index.extend((count as u32).to_be_bytes());
    }
    index.extend(sorted.iter().flat_map(|(id, _)| id.as_bytes().to_vec()));
    index.extend(sorted.iter().flat_map(|_| [0; 4]));
    for (number, (_, offset)) in sorted.iter().enumerate() {
        let short = if large { 0x8000_0000 | number as u32 } else { *offset as u32 };
        index.extend(short.to_be_bytes());
    }
    if large {
        index.extend(sorted.iter().flat_map(|(_, offset)| offset.to_be_bytes()));
    }
    index.extend(end.as_bytes());
    let end = checksum(Sha1, &[&index]);
    index.extend(end.as_bytes());
    (index, pack)
}

fn blob(content: &[u8]) -> (ObjectId, TestEntry) {
    (id_of(Sha1, ObjectKind::Blob, content).unwrap(), TestEntry::Whole(ObjectKind::Blob, content.to_vec()))
}

fn blob_id(content: &[u8]) -> ObjectId {
    blob(content).0
}

/// A delta that copies `length` bytes from `from`, and then has new bytes.
fn delta(base: usize, from: usize, length: usize, new: &[u8]) -> Vec<u8> {
    let mut bytes = [little(base), little(length + new.len())].concat();
    bytes.push(0x80 | 0x7f);
    bytes.extend(&(from as u32).to_le_bytes());
    bytes.extend(&(length as u32).to_le_bytes()[..3]);
    for part in new.chunks(127) {
        bytes.push(part.len() as u8);
        bytes.extend(part);
    }
    bytes
}

#[test]
fn packs_that_git_wrote() {
    for (format, files) in FIXTURES {
        let mut pack = open(format, files).unwrap();
        let ids = ids(&pack);
        assert_eq!(ids.len(), 39);
        let kinds: Vec<ObjectKind> = ids.iter().map(|id| pack.read(id, &mut budget()).unwrap().unwrap().kind).collect();
        let count = |kind| kinds.iter().filter(|other| **other == kind).count();
        use ObjectKind::{Blob, Commit, Tag, Tree};
        assert_eq!([Commit, Tree, Blob, Tag].map(count), [9, 21, 8, 1]);
        assert_eq!(pack.read(&ObjectId::zero(format), &mut budget()), Ok(None));
        let other = if format == Sha1 { Sha256 } else { Sha1 };
        assert_eq!(pack.read(&ObjectId::zero(other), &mut budget()), Ok(None));
        assert_eq!(open(other, files).err(), Some(ReadFault::Pack));
    }
}

#[test]
fn a_delta_is_rebuilt() {
    let oldest = ObjectId::from_hex(b"26e04c7192afec03c83183fa8ae605496f15d88d").unwrap();
    let expected: String = (100..=140).map(|number| format!("{number}\n")).collect();
    for files in [fixture!("ofs"), fixture!("ref")] {
        let mut pack = open(Sha1, files).unwrap();
        for _ in 0..2 {
            let object = pack.read(&oldest, &mut budget()).unwrap().unwrap();
            assert_eq!(object.content, expected.as_bytes());
        }
        assert_eq!(pack.cache.len(), 1, "the base is remembered");
    }
}

/// Whatever is changed in a pack or its index: each object is the right one, or there is none.
#[test]
fn a_changed_pack_never_yields_other_content() {
    for (format, (index, pack)) in FIXTURES {
        let mut whole = open(format, (index, pack)).unwrap();
        let objects: Vec<_> = ids(&whole).into_iter().map(|id| (id, whole.read(&id, &mut budget()).unwrap())).collect();
        let check = |index: Vec<u8>, pack: Vec<u8>| {
            let Ok(mut changed) = PackReader::open(format, index, pack) else { return };
            for (id, object) in &objects {
                if let Ok(Some(read)) = changed.read(id, &mut budget()) {
                    assert_eq!(Some(&read), object.as_ref());
                }
            }
        };
        let mut seed = 1u64;
        for _ in 0..300 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let (at, byte) = ((seed >> 33) as usize, (seed >> 20) as u8);
            let (mut index, mut pack) = (index.to_vec(), pack.to_vec());
            if byte & 1 == 0 {
                let length = index.len();
                index[at % length] ^= byte | 1;
            } else {
                let length = pack.len();
                pack[at % length] ^= byte;
            }
            check(index, pack);
        }
        for cut in (0..pack.len()).step_by(97) {
            check(index.to_vec(), pack[..cut].to_vec());
            check(index[..cut.min(index.len())].to_vec(), pack.to_vec());
        }
    }
}

#[test]
fn an_index_that_names_another_object_is_caught() {
    let (_, entry) = blob(b"evil");
    let good = blob_id(b"good");
    let (index, pack) = build(&[(good, entry)], false);
    assert_eq!(open(Sha1, (&index, &pack)).unwrap().read(&good, &mut budget()), Err(ReadFault::Id));
    assert_eq!(open(Sha1, (&index, &pack)).unwrap().verify(&mut budget()), Err(ReadFault::Id));
}

#[test]
fn an_index_is_verified_as_a_whole() {
    let entries: Vec<_> = [b"a".as_slice(), b"bb", b"ccc"].map(blob).to_vec();
    let (index, pack) = build(&entries, false);
    assert_eq!(open(Sha1, (&index, &pack)).unwrap().verify(&mut budget()), Ok(()));
    let mut two = ReadBudget { objects: 2, bytes: 100 };
    assert_eq!(open(Sha1, (&index, &pack)).unwrap().verify(&mut two), Err(ReadFault::Budget));
    let (_, evil) = blob(b"evil");
    let wrong = [entries[0].clone(), (entries[1].0, evil), entries[2].clone()];
    let (index, pack) = build(&wrong, false);
    assert_eq!(open(Sha1, (&index, &pack)).unwrap().verify(&mut budget()), Err(ReadFault::Id));
}

#[test]
fn offsets_of_64_bits() {
    let entries: Vec<_> = [b"a".as_slice(), b"bb", b"ccc"].map(blob).to_vec();
    let (index, pack) = build(&entries, true);
    let mut opened = open(Sha1, (&index, &pack)).unwrap();
    for content in [b"a".as_slice(), b"bb", b"ccc"] {
        assert_eq!(opened.read(&blob_id(content), &mut budget()).unwrap().unwrap().content, content);
    }
    // Without the table, the number of an entry in it leads nowhere.
    let short = [&index[..index.len() - 40 - 24], &index[index.len() - 40..]].concat();
    let mut opened = open(Sha1, (&short, &pack)).unwrap();
    assert_eq!(opened.read(&blob_id(b"a"), &mut budget()), Err(ReadFault::Pack));
}

#[test]
fn deltas_end() {
    let base = blob(b"base");
    // Two deltas by id, each of the other.
    let (one, two) = (blob_id(b"one"), blob_id(b"two"));
    let copy = delta(4, 0, 4, b"");
    let (index, pack) =
        build(&[(one, TestEntry::ById(two, copy.clone())), (two, TestEntry::ById(one, copy.clone()))], false);
    assert!(matches!(open(Sha1, (&index, &pack)).unwrap().read(&one, &mut budget()), Err(ReadFault::Depth { .. })));
    // A delta of itself, and of a missing object.
    let (index, pack) = build(&[base.clone(), (one, TestEntry::ByOffset(1, copy.clone()))], false);
    assert!(matches!(open(Sha1, (&index, &pack)).unwrap().read(&one, &mut budget()), Err(ReadFault::Head { .. })));
    let (index, pack) = build(&[(one, TestEntry::ById(two, copy.clone()))], false);
    assert!(matches!(open(Sha1, (&index, &pack)).unwrap().read(&one, &mut budget()), Err(ReadFault::Delta { .. })));
    // Far too many.
    let mut entries = vec![base];
    entries.extend((0..MOST_DELTAS + 1).map(|at| {
        let mut id = [1; 20];
        id[..8].copy_from_slice(&(at as u64).to_be_bytes());
        (ObjectId::Sha1(id), TestEntry::ByOffset(at, copy.clone()))
    }));
    let last = entries.len() - 1;
    let allowed = blob_id(b"base");
    entries[0].0 = ObjectId::zero(Sha1);
    let mut shorter = entries.clone();
    shorter[last - 1].0 = allowed;
    let (index, pack) = build(&shorter, false);
    assert_eq!(open(Sha1, (&index, &pack)).unwrap().read(&allowed, &mut budget()).unwrap().unwrap().content, b"base");
    entries[last].0 = allowed;
    let (index, pack) = build(&entries, false);
    assert!(matches!(open(Sha1, (&index, &pack)).unwrap().read(&allowed, &mut budget()), Err(ReadFault::Depth { .. })));
}

/// A delta of a few bytes that expands to gigabytes.
#[test]
fn the_budget_bounds_what_deltas_make() {
    let base = blob(&[0; 0x10000]);
    let length = 0x10000 * 1000;
    let mut bomb = [little(0x10000), little(length)].concat();
    bomb.extend([0x80; 1000]);
    let id = blob_id(b"x");
    let (index, pack) = build(&[base, (id, TestEntry::ByOffset(0, bomb))], false);
    assert_eq!(open(Sha1, (&index, &pack)).unwrap().read(&id, &mut budget()), Err(ReadFault::Budget));
    let mut enough = ReadBudget { objects: 3, bytes: 1 << 27 };
    assert_eq!(open(Sha1, (&index, &pack)).unwrap().read(&id, &mut enough), Err(ReadFault::Id));
    assert_eq!(enough.objects, 0);
}

#[track_caller]
fn applied(base: &[u8], delta: &[u8], expected: Option<&[u8]>) {
    let result = delta_head(delta).and_then(
        |(from, length, rest)| {
            if from == base.len() { apply_delta(base, length, rest) } else { None }
        },
    );
    assert_eq!(result.as_deref(), expected);
}

#[test]
fn deltas() {
    applied(b"abcdef", b"\x06\x03\x91\x02\x03", Some(b"cde"));
    applied(b"abcdef", b"\x06\x05\x90\x03\x02xy", Some(b"abcxy"));
    applied(b"", b"\0\0", Some(b""));
    applied(b"abcdef", b"\x06\x03\x91\x04\x03", None);
    applied(b"abcdef", b"\x06\x04\x91\x02\x03", None);
    applied(b"abcdef", b"\x06\x02\x91\x02\x03", None);
    applied(b"abcdef", b"\x05\x03\x91\x02\x03", None);
    applied(b"abcdef", b"\x06\x03\x91\x02", None);
    applied(b"abcdef", b"\x06\x03\x03xy", None);
    applied(b"abcdef", b"\x06\x00\x00", None);
    applied(b"abcdef", b"\x06\x03\xff\xff\xff\xff\xff\xff\xff\xff", None);
    applied(b"abcdef", &[0xff; 20], None);
    applied(b"abcdef", b"", None);
    let long = vec![7; 0x10000];
    applied(&long, &[little(0x10000), little(0x10000), vec![0x80]].concat(), Some(&long));
}

proptest! {
    /// A chain of deltas yields what each step says, whether bases are named by offset or by id.
    #[test]
    fn chains_of_deltas(
        first in prop::collection::vec(any::<u8>(), 0..300),
        steps in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), prop::collection::vec(any::<u8>(), 0..200), any::<bool>()), 0..8),
        large in any::<bool>(),
    ) {
        let mut contents = vec![first.clone()];
        let mut entries = vec![blob(&first)];
        for (from, length, new, by_id) in steps {
            let base = contents.last().unwrap().clone();
            let from = from.index(base.len() + 1);
            let length = length.index(base.len() - from + 1);
            // A length of 0 means 65536.
            let (copied, bytes) = match length {
                0 => (&base[..0], [little(base.len()), little(new.len()), new.chunks(127).flat_map(|part| [&[part.len() as u8], part].concat()).collect()].concat()),
                _ => (&base[from..from + length], delta(base.len(), from, length, &new)),
            };
            let content = [copied, &new].concat();
            let id = blob_id(&content);
            if entries.iter().any(|(other, _)| *other == id) {
                continue;
            }
            let entry = if by_id { TestEntry::ById(blob_id(&base), bytes) } else { TestEntry::ByOffset(entries.len() - 1, bytes) };
            entries.push((id, entry));
            contents.push(content);
        }
        let (index, pack) = build(&entries, large);
        let mut opened = open(Sha1, (&index, &pack)).unwrap();
        for content in contents.iter().rev().chain(&contents) {
            let object = opened.read(&blob_id(content), &mut budget()).unwrap().unwrap();
            prop_assert_eq!(&object.content, content);
        }
    }

    #[test]
    fn no_delta_makes_it_panic(base in prop::collection::vec(any::<u8>(), 0..50), delta in prop::collection::vec(any::<u8>(), 0..50)) {
        if let Some((_, length, rest)) = delta_head(&delta) {
            let result = apply_delta(&base, length, rest);
            prop_assert!(result.is_none_or(|result| result.len() == length));
        }
    }
}
