//! What an entry of an index or a tree is.

/// The mode of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EntryMode {
    /// `040000`: a tree; in an index, a directory that a sparse checkout leaves out as a whole.
    Directory,
    /// `100644`.
    Regular,
    /// `100755`.
    Executable,
    /// `120000`.
    SymbolicLink,
    /// `160000`: a commit of another repository.
    Gitlink,
}

impl EntryMode {
    /// The number that git writes.
    #[must_use]
    pub const fn bits(self) -> u32 {
        match self {
            Self::Directory => 0o040_000,
            Self::Regular => 0o100_644,
            Self::Executable => 0o100_755,
            Self::SymbolicLink => 0o120_000,
            Self::Gitlink => 0o160_000,
        }
    }

    /// Only what git writes today.
    #[must_use]
    pub const fn from_bits(bits: u32) -> Option<Self> {
        match bits {
            0o040_000 => Some(Self::Directory),
            0o100_644 => Some(Self::Regular),
            0o100_755 => Some(Self::Executable),
            0o120_000 => Some(Self::SymbolicLink),
            0o160_000 => Some(Self::Gitlink),
            _ => None,
        }
    }

    /// As git reads a mode in a tree: old trees have other permissions, of which the owner's right to execute counts.
    #[must_use]
    pub const fn from_tree_bits(bits: u32) -> Option<Self> {
        match bits & 0o170_000 {
            0o040_000 => Some(Self::Directory),
            0o100_000 if bits & 0o100 == 0 => Some(Self::Regular),
            0o100_000 => Some(Self::Executable),
            0o120_000 => Some(Self::SymbolicLink),
            0o160_000 => Some(Self::Gitlink),
            // Git would take every other type for a gitlink; no version of it has written one.
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_are_their_numbers() {
        for bits in 0..=0o177_777 {
            match EntryMode::from_bits(bits) {
                Some(mode) => {
                    assert_eq!(mode.bits(), bits);
                    assert_eq!(EntryMode::from_tree_bits(bits), Some(mode));
                }
                None => assert!(EntryMode::from_tree_bits(bits).is_none_or(|mode| mode.bits() != bits)),
            }
        }
        assert_eq!(EntryMode::from_tree_bits(0o100_664), Some(EntryMode::Regular));
        assert_eq!(EntryMode::from_tree_bits(0o100_775), Some(EntryMode::Executable));
        assert_eq!(EntryMode::from_tree_bits(0o010_644), None);
    }
}
