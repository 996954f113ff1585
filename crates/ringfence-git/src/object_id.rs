//! Object ids, and the hash functions that they are made with.

use std::fmt;

use sha1_checked::Sha1;
use sha2::{Digest as _, Sha256};

/// The hash function of a repository: `extensions.objectFormat`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ObjectFormat {
    /// Where no setting says otherwise.
    Sha1,
    /// `objectFormat = sha256`.
    Sha256,
}

impl ObjectFormat {
    /// Bytes of an id.
    #[must_use]
    pub const fn id_len(self) -> usize {
        match self {
            Self::Sha1 => 20,
            Self::Sha256 => 32,
        }
    }
}

/// The id of an object, or the checksum of a file.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ObjectId {
    /// 20 bytes.
    Sha1([u8; 20]),
    /// 32 bytes.
    Sha256([u8; 32]),
}

/// Content made so that it has the SHA-1 of other content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the content is part of a SHA-1 collision attack")]
pub struct Sha1Collision;

impl ObjectId {
    /// Exactly as many bytes as an id of this format has.
    #[must_use]
    pub fn from_bytes(format: ObjectFormat, bytes: &[u8]) -> Option<Self> {
        match format {
            ObjectFormat::Sha1 => bytes.try_into().ok().map(Self::Sha1),
            ObjectFormat::Sha256 => bytes.try_into().ok().map(Self::Sha256),
        }
    }

    /// 40 or 64 hexadecimal digits.
    #[must_use]
    pub fn from_hex(text: &[u8]) -> Option<Self> {
        let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
        let byte = |pair: &[u8]| Some(digit(*pair.first()?)? << 4 | digit(*pair.get(1)?)?);
        let bytes: Vec<u8> = text.chunks(2).map(byte).collect::<Option<_>>()?;
        [ObjectFormat::Sha1, ObjectFormat::Sha256].into_iter().find_map(|format| Self::from_bytes(format, &bytes))
    }

    /// The null object id.
    #[must_use]
    pub const fn zero(format: ObjectFormat) -> Self {
        match format {
            ObjectFormat::Sha1 => Self::Sha1([0; 20]),
            ObjectFormat::Sha256 => Self::Sha256([0; 32]),
        }
    }

    /// The bytes of the id.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Sha1(bytes) => bytes,
            Self::Sha256(bytes) => bytes,
        }
    }

    /// The hash function it was made with.
    #[must_use]
    pub const fn format(&self) -> ObjectFormat {
        match self {
            Self::Sha1(_) => ObjectFormat::Sha1,
            Self::Sha256(_) => ObjectFormat::Sha256,
        }
    }

    /// Whether it is the null object id.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        self.as_bytes().iter().all(|byte| *byte == 0)
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_bytes().iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The hash of objects: the parts one after the other.
///
/// # Errors
/// [`Sha1Collision`]: two contents with one id would let an attacker show the user one and check out the other.
pub fn hash_checked(format: ObjectFormat, parts: &[&[u8]]) -> Result<ObjectId, Sha1Collision> {
    match format {
        ObjectFormat::Sha1 => {
            let mut hasher = Sha1::new();
            parts.iter().for_each(|part| sha1_checked::Digest::update(&mut hasher, part));
            let result = hasher.try_finalize();
            if result.has_collision() {
                return Err(Sha1Collision);
            }
            Ok(ObjectId::Sha1((*result.hash()).into()))
        }
        ObjectFormat::Sha256 => Ok(checksum(format, parts)),
    }
}

/// The checksum at the end of an index or a pack. It finds damage and no attack: an attacker writes the checksum too. So nothing looks
/// for collisions here, which would take several times as long.
#[must_use]
pub fn checksum(format: ObjectFormat, parts: &[&[u8]]) -> ObjectId {
    match format {
        ObjectFormat::Sha1 => {
            let mut hasher = Sha1::builder().detect_collision(false).build();
            parts.iter().for_each(|part| sha1_checked::Digest::update(&mut hasher, part));
            ObjectId::Sha1(sha1_checked::Digest::finalize(hasher).into())
        }
        ObjectFormat::Sha256 => {
            let mut hasher = Sha256::new();
            parts.iter().for_each(|part| hasher.update(part));
            ObjectId::Sha256(hasher.finalize().into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(format: ObjectFormat, content: &[u8], expected: &str) {
        let (front, back) = content.split_at(content.len() / 2);
        assert_eq!(hash_checked(format, &[front, back]).unwrap().to_string(), expected);
        assert_eq!(checksum(format, &[content]).to_string(), expected);
    }

    #[test]
    fn known_hashes() {
        check(ObjectFormat::Sha1, b"blob 0\0", "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391");
        check(ObjectFormat::Sha1, b"tree 0\0", "4b825dc642cb6eb9a060e54bf8d69288fbee4904");
        let sha256 = "473a0f4c3be8a93681a267e3b1e9a7dcda1185436fe141f7749120a303721813";
        check(ObjectFormat::Sha256, b"blob 0\0", sha256);
    }

    #[test]
    fn hexadecimal_digits() {
        for text in ["e69de29bb2d1d6434b8b29ae775ad8c2e48c5391", &"0a".repeat(32)] {
            assert_eq!(ObjectId::from_hex(text.as_bytes()).unwrap().to_string(), text);
        }
        for text in ["", "e6", "e69de29bb2d1d6434b8b29ae775ad8c2e48c539", "+69de29bb2d1d6434b8b29ae775ad8c2e48c5391"] {
            assert_eq!(ObjectId::from_hex(text.as_bytes()), None, "{text}");
        }
    }

    /// The first blocks of the two documents of shattered.io, whose SHA-1 is the same.
    #[test]
    fn a_collision_is_found() {
        let prefix = "255044462d312e330a25e2e3cfd30a0a0a312030206f626a0a3c3c2f57696474682032203020522f4865696768742033203020522f\
                      547970652034203020522f537562747970652035203020522f46696c7465722036203020522f436f6c6f7253706163652037203020\
                      522f4c656e6774682038203020522f42697473506572436f6d706f6e656e7420383e3e0a73747265616d0affd8fffe00245348412d\
                      3120697320646561642121212121852fec092339759c39b1a1c63c4c97e1fffe01";
        let first = "7f46dc93a6b67e013b029aaa1db2560b45ca67d688c7f84b8c4c791fe02b3df614f86db1690901c56b45c1530afedfb76038e972722f\
                     e7ad728f0e4904e046c230570fe9d41398abe12ef5bc942be33542a4802d98b5d70f2a332ec37fac3514e74ddc0f2cc1a874cd0c78\
                     305a21566461309789606bd0bf3f98cda8044629a1";
        let bytes = |text: &str| {
            let digits: Vec<u8> =
                text.bytes().map(|byte| u8::try_from(char::from(byte).to_digit(16).unwrap()).unwrap()).collect();
            digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect::<Vec<u8>>()
        };
        let (prefix, first) = (bytes(prefix), bytes(first));
        assert_eq!(prefix.len() % 64, 0);
        assert_eq!(first.len(), 128);
        assert_eq!(hash_checked(ObjectFormat::Sha1, &[&prefix, &first]), Err(Sha1Collision));
        assert!(hash_checked(ObjectFormat::Sha1, &[&prefix, &first[..100]]).is_ok());
    }
}
