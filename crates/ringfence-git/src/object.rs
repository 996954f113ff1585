//! Objects: reading a loose one, and what commits, trees and tags say.
//!
//! An attacker who can write below `objects/` can put any content under any id. Nothing is believed before its hash is that id.

use crate::entry_mode::EntryMode;
use crate::inflate::{inflate_exactly, inflate_start};
use crate::object_id::{ObjectFormat, ObjectId, Sha1Collision, hash_checked};

/// The longest head of a loose object: a kind, a length in decimal digits, and a byte 0.
const LONGEST_HEAD: usize = 32;

/// The four kinds of objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ObjectKind {
    /// A tree and its history.
    Commit,
    /// A directory.
    Tree,
    /// The content of a file, or the target of a symbolic link.
    Blob,
    /// An annotated tag.
    Tag,
}

impl ObjectKind {
    /// The word that is hashed with the content.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Commit => "commit",
            Self::Tree => "tree",
            Self::Blob => "blob",
            Self::Tag => "tag",
        }
    }

    /// The kind with this word.
    #[must_use]
    pub fn from_word(word: &[u8]) -> Option<Self> {
        [Self::Commit, Self::Tree, Self::Blob, Self::Tag].into_iter().find(|kind| kind.word().as_bytes() == word)
    }
}

/// An object whose content has the hash that was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object {
    /// What it is.
    pub kind: ObjectKind,
    /// Without the head.
    pub content: Vec<u8>,
}

/// How much may be read before the answer is that it is unknown. Every object that is inflated counts, those that others are deltas of
/// too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadBudget {
    /// Objects.
    pub objects: u64,
    /// Bytes of inflated content.
    pub bytes: u64,
}

impl ReadBudget {
    /// Takes one object of this length from the budget.
    pub(crate) fn charge(&mut self, length: usize) -> Result<(), ReadFault> {
        self.objects = self.objects.checked_sub(1).ok_or(ReadFault::Budget)?;
        self.bytes = self.bytes.checked_sub(length as u64).ok_or(ReadFault::Budget)?;
        Ok(())
    }
}

/// Why an object is not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ReadFault {
    /// The budget is used up.
    #[error("there is more to read than is allowed")]
    Budget,
    /// The compressed stream is damaged, or does not hold what the head says.
    #[error("byte {offset}: the compressed content is damaged")]
    Zlib {
        /// Of the stream in its file.
        offset: u64,
    },
    /// No kind, or no length.
    #[error("byte {offset}: the head of the object is malformed")]
    Head {
        /// Of the object in its file.
        offset: u64,
    },
    /// Not a pack, or not an index of version 2.
    #[error("it is no pack with an index of version 2")]
    Pack,
    /// A delta that its base does not fit, or whose base is missing.
    #[error("byte {offset}: the delta is malformed")]
    Delta {
        /// Of the object in its pack.
        offset: u64,
    },
    /// Deltas of deltas, more than git makes.
    #[error("byte {offset}: too many deltas, one on the other")]
    Depth {
        /// Of the object in its pack.
        offset: u64,
    },
    /// The content has another hash.
    #[error("the content is not what its id says")]
    Id,
    /// The content has the id of other content too.
    #[error(transparent)]
    Collision(#[from] Sha1Collision),
}

/// The content of an object does not have the form of its kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a malformed {}", kind.word())]
pub struct MalformedObject {
    /// The kind that it was read as.
    pub kind: ObjectKind,
}

/// The id of an object with this content.
///
/// # Errors
/// [`Sha1Collision`].
pub fn id_of(format: ObjectFormat, kind: ObjectKind, content: &[u8]) -> Result<ObjectId, Sha1Collision> {
    let head = format!("{} {}\0", kind.word(), content.len());
    hash_checked(format, &[head.as_bytes(), content])
}

impl Object {
    /// Checks content against an id.
    ///
    /// # Errors
    /// [`ReadFault::Id`] and [`ReadFault::Collision`].
    pub(crate) fn verified(id: &ObjectId, kind: ObjectKind, content: Vec<u8>) -> Result<Self, ReadFault> {
        if id_of(id.format(), kind, &content)? == *id { Ok(Self { kind, content }) } else { Err(ReadFault::Id) }
    }

    /// Reads the file of a loose object.
    ///
    /// # Errors
    /// [`ReadFault`]: the file is damaged, is another object, or is too long for the budget.
    pub fn from_loose(id: &ObjectId, file: &[u8], budget: &mut ReadBudget) -> Result<Self, ReadFault> {
        let zlib = ReadFault::Zlib { offset: 0 };
        let start = inflate_start(file, LONGEST_HEAD).ok_or(zlib)?;
        let (kind, head, length) = parse_head(&start).ok_or(ReadFault::Head { offset: 0 })?;
        budget.charge(length)?;
        let total = head.checked_add(length).ok_or(ReadFault::Head { offset: 0 })?;
        let inflated = inflate_exactly(file, 0, total).ok_or(zlib)?;
        if inflated.consumed != file.len() as u64 {
            return Err(zlib);
        }
        let mut content = inflated.content;
        content.drain(..head);
        Self::verified(id, kind, content)
    }
}

/// The kind, the length of the head and the length of the content.
fn parse_head(start: &[u8]) -> Option<(ObjectKind, usize, usize)> {
    let end = start.iter().position(|byte| *byte == 0)?;
    let (word, digits) = start.get(..end)?.split_at_checked(start.iter().position(|byte| *byte == b' ')?)?;
    Some((ObjectKind::from_word(word)?, end + 1, parse_decimal(digits.get(1..)?)?))
}

/// A number without sign and without zeros before it.
fn parse_decimal(digits: &[u8]) -> Option<usize> {
    let has_one_spelling = digits == b"0" || digits.first().is_some_and(|first| *first != b'0');
    if !has_one_spelling || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// What a commit refers to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commit {
    /// Its files.
    pub tree: ObjectId,
    /// The commits that it follows, the one that was checked out first.
    pub parents: Vec<ObjectId>,
}

impl Commit {
    /// Reads the content of a commit.
    ///
    /// # Errors
    /// [`MalformedObject`].
    pub fn parse(format: ObjectFormat, content: &[u8]) -> Result<Self, MalformedObject> {
        let malformed = MalformedObject { kind: ObjectKind::Commit };
        let mut lines = content.split(|byte| *byte == b'\n');
        let tree = lines.next().and_then(|line| id_line(format, line, b"tree ")).ok_or(malformed)?;
        let mut parents = Vec::new();
        for line in lines {
            if !line.starts_with(b"parent ") {
                // The author comes next, without exception.
                return if line.starts_with(b"author ") { Ok(Self { tree, parents }) } else { Err(malformed) };
            }
            parents.push(id_line(format, line, b"parent ").ok_or(malformed)?);
        }
        Err(malformed)
    }
}

/// What an annotated tag refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tag {
    /// The object.
    pub target: ObjectId,
    /// Its kind, as the tag says.
    pub kind: ObjectKind,
}

impl Tag {
    /// Reads the content of a tag.
    ///
    /// # Errors
    /// [`MalformedObject`].
    pub fn parse(format: ObjectFormat, content: &[u8]) -> Result<Self, MalformedObject> {
        let malformed = MalformedObject { kind: ObjectKind::Tag };
        let mut lines = content.split(|byte| *byte == b'\n');
        let target = lines.next().and_then(|line| id_line(format, line, b"object ")).ok_or(malformed)?;
        let kind =
            lines.next().and_then(|line| ObjectKind::from_word(line.strip_prefix(b"type ")?)).ok_or(malformed)?;
        Ok(Self { target, kind })
    }
}

fn id_line(format: ObjectFormat, line: &[u8], front: &[u8]) -> Option<ObjectId> {
    ObjectId::from_hex(line.strip_prefix(front)?).filter(|id| id.format() == format)
}

/// An entry of a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TreeEntry<'t> {
    /// What it is.
    pub mode: EntryMode,
    /// One part of a path. No byte of it is 0 or a slash; whether git would check it out is for [`crate::entry_path`].
    pub name: &'t [u8],
    /// The blob, the tree or the commit.
    pub id: ObjectId,
}

/// The entries of a tree, in the order of the tree.
///
/// # Errors
/// [`MalformedObject`], also for a tree whose entries are out of order or have one name twice: git would find one or the other.
pub fn tree_entries(format: ObjectFormat, content: &[u8]) -> Result<Vec<TreeEntry<'_>>, MalformedObject> {
    let malformed = MalformedObject { kind: ObjectKind::Tree };
    let mut entries: Vec<TreeEntry<'_>> = Vec::new();
    let mut rest = content;
    while !rest.is_empty() {
        let (entry, after) = tree_entry(format, rest).ok_or(malformed)?;
        if entries.last().is_some_and(|before| !is_before(before, &entry)) {
            return Err(malformed);
        }
        entries.push(entry);
        rest = after;
    }
    let mut names: Vec<&[u8]> = entries.iter().map(|entry| entry.name).collect();
    names.sort_unstable();
    if names.windows(2).any(|pair| pair[0] == pair[1]) { Err(malformed) } else { Ok(entries) }
}

fn tree_entry(format: ObjectFormat, rest: &[u8]) -> Option<(TreeEntry<'_>, &[u8])> {
    let blank = rest.iter().take(7).position(|byte| *byte == b' ')?;
    let digits = rest.get(..blank)?;
    if digits.is_empty() || !digits.iter().all(|digit| matches!(digit, b'0'..=b'7')) {
        return None;
    }
    let bits = digits.iter().fold(0, |bits, digit| bits << 3 | u32::from(digit - b'0'));
    let rest = rest.get(blank + 1..)?;
    let end = rest.iter().position(|byte| *byte == 0)?;
    let (name, rest) = rest.split_at_checked(end)?;
    if name.is_empty() || name.contains(&b'/') {
        return None;
    }
    let (id, rest) = rest.get(1..)?.split_at_checked(format.id_len())?;
    let mode = EntryMode::from_tree_bits(bits)?;
    Some((TreeEntry { mode, name, id: ObjectId::from_bytes(format, id)? }, rest))
}

/// Git orders a directory as if its name ended with a slash.
fn is_before(first: &TreeEntry<'_>, second: &TreeEntry<'_>) -> bool {
    fn key<'t>(entry: &TreeEntry<'t>) -> impl Iterator<Item = &'t u8> {
        let end: &[u8] = if entry.mode == EntryMode::Directory { b"/" } else { b"" };
        entry.name.iter().chain(end)
    }
    key(first).lt(key(second))
}

#[cfg(test)]
mod tests {
    use miniz_oxide::deflate::compress_to_vec_zlib;

    use super::*;
    use ObjectFormat::{Sha1, Sha256};

    fn budget() -> ReadBudget {
        ReadBudget { objects: 10, bytes: 1 << 20 }
    }

    fn id(hex: &str) -> ObjectId {
        ObjectId::from_hex(hex.as_bytes()).unwrap()
    }

    /// `hello` and a line end, as git 2.47 wrote it.
    const HELLO: &str = "ce013625030ba8dba906f756967f9e9ca394464a";
    const HELLO_FILE: &[u8] = &[
        0x78, 0x01, 0x4b, 0xca, 0xc9, 0x4f, 0x52, 0x30, 0x63, 0xc8, 0x48, 0xcd, 0xc9, 0xc9, 0xe7, 0x02, 0x00, 0x1d,
        0xc5, 0x04, 0x14,
    ];

    #[test]
    fn a_loose_object_that_git_wrote() {
        let object = Object::from_loose(&id(HELLO), HELLO_FILE, &mut budget()).unwrap();
        assert_eq!(object, Object { kind: ObjectKind::Blob, content: b"hello\n".to_vec() });
        assert_eq!(id_of(Sha1, ObjectKind::Blob, b"hello\n").unwrap(), id(HELLO));
    }

    #[track_caller]
    fn loose(head_and_content: &[u8], expected: Result<(), ReadFault>) {
        let hash = hash_checked(Sha1, &[head_and_content]).unwrap();
        let file = compress_to_vec_zlib(head_and_content, 6);
        assert_eq!(Object::from_loose(&hash, &file, &mut budget()).map(drop), expected);
    }

    #[test]
    fn heads_of_loose_objects() {
        let (head, zlib) = (Err(ReadFault::Head { offset: 0 }), Err(ReadFault::Zlib { offset: 0 }));
        loose(b"blob 0\0", Ok(()));
        loose(b"tag 1\0x", Ok(()));
        for text in
            ["", "blob", "blob \0", "blob 01\0x", "blob +1\0x", "blub 1\0x", "blob 1x\0x", " 1\0x", "blob -1\0x"]
        {
            loose(text.as_bytes(), head);
        }
        loose(b"blob 1\0xy", zlib);
        loose(b"blob 2\0x", zlib);
        loose(b"blob 18446744073709551615\0x", Err(ReadFault::Budget));
        loose(b"blob 99999999999999999999999\0x", head);
        loose(&[b"blob ", [b'1'; 40].as_slice(), b"\0"].concat(), head);
    }

    #[test]
    fn other_content_under_an_id_is_refused() {
        let other = id("0000000000000000000000000000000000000001");
        assert_eq!(Object::from_loose(&other, HELLO_FILE, &mut budget()), Err(ReadFault::Id));
        assert!(Object::from_loose(&id(HELLO), &[HELLO_FILE, b"x"].concat(), &mut budget()).is_err());
        for at in 0..HELLO_FILE.len() {
            for bit in 0..8 {
                let mut file = HELLO_FILE.to_vec();
                file[at] ^= 1 << bit;
                let read = Object::from_loose(&id(HELLO), &file, &mut budget());
                assert!(read.as_ref().map_or(true, |object| object.content == b"hello\n"), "{at} {bit}");
            }
            assert!(Object::from_loose(&id(HELLO), &HELLO_FILE[..at], &mut budget()).is_err());
        }
    }

    #[test]
    fn the_budget_is_kept() {
        let read = |objects, bytes| {
            let mut budget = ReadBudget { objects, bytes };
            Object::from_loose(&id(HELLO), HELLO_FILE, &mut budget).map(|_| budget)
        };
        assert_eq!(read(1, 6), Ok(ReadBudget { objects: 0, bytes: 0 }));
        assert_eq!(read(0, 6), Err(ReadFault::Budget));
        assert_eq!(read(1, 5), Err(ReadFault::Budget));
    }

    #[test]
    fn commits_and_tags() {
        let parse = |text: &str| Commit::parse(Sha1, text.as_bytes()).ok();
        let tree = format!("tree {HELLO}\n");
        let parent = format!("parent {HELLO}\n");
        let commit = |count| Some(Commit { tree: id(HELLO), parents: vec![id(HELLO); count] });
        assert_eq!(parse(&format!("{tree}author a <b> 1 +0000\n\nx")), commit(0));
        assert_eq!(parse(&format!("{tree}{parent}{parent}author a <b> 1 +0000\n\nparent x")), commit(2));
        assert_eq!(Commit::parse(Sha256, format!("{tree}author x").as_bytes()).ok(), None);
        for text in
            ["", &tree, &format!("{tree}\n"), &format!("{parent}{tree}author x"), &format!("{tree}parent x\nauthor x")]
        {
            assert_eq!(parse(text), None, "{text}");
        }
        let tag = |text: &str| Tag::parse(Sha1, text.as_bytes()).ok();
        assert_eq!(
            tag(&format!("object {HELLO}\ntype commit\ntag x\n")),
            Some(Tag { target: id(HELLO), kind: ObjectKind::Commit })
        );
        assert_eq!(tag(&format!("object {HELLO}\ntype x\n")), None);
        assert_eq!(tag("object x\ntype commit\n"), None);
    }

    fn tree(entries: &[(&str, &str)]) -> Vec<u8> {
        entries
            .iter()
            .flat_map(|(mode, name)| [mode.as_bytes(), b" ", name.as_bytes(), b"\0", &[9; 20]].concat())
            .collect()
    }

    #[test]
    fn trees() {
        let names = |entries: &[(&str, &str)]| {
            let content = tree(entries);
            let entries = tree_entries(Sha1, &content).ok()?;
            Some(
                entries
                    .iter()
                    .map(|e| (e.mode.bits(), String::from_utf8(e.name.to_vec()).unwrap()))
                    .collect::<Vec<_>>(),
            )
        };
        assert_eq!(names(&[]), Some(vec![]));
        let listed =
            [("100644", "a"), ("100644", "a-b"), ("40000", "a.d"), ("120000", "a0"), ("160000", "b"), ("100664", "c")];
        let numbers = [0o100_644, 0o100_644, 0o040_000, 0o120_000, 0o160_000, 0o100_644];
        let expected = numbers.into_iter().zip(listed.map(|(_, name)| name.to_owned())).collect();
        assert_eq!(names(&listed), Some(expected));
        assert!(names(&[("100644", "a-b"), ("40000", "a")]).is_some());
        assert!(names(&[("100644", "a.b"), ("40000", "a"), ("100644", "a0")]).is_some());
        for wrong in [
            &[("100644", "b"), ("100644", "a")][..],
            &[("100644", "a"), ("100644", "a")],
            &[("100644", "a"), ("100644", "a-b"), ("40000", "a")],
            &[("40000", "a"), ("100644", "a-b")],
            &[("100644", "")],
            &[("100644", "a/b")],
            &[("", "a")],
            &[("100648", "a")],
            &[("0000100644", "a")],
        ] {
            assert_eq!(names(wrong), None, "{wrong:?}");
        }
        let content = tree(&listed);
        for cut in 1..content.len() {
            let is_whole = (1..listed.len()).any(|count| tree(&listed[..count]).len() == cut);
            assert_eq!(tree_entries(Sha1, &content[..cut]).is_ok(), is_whole, "{cut}");
        }
    }
}
