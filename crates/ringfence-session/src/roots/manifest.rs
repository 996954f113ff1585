//! What is in a root, by name and by hash: the same programs give the same manifest.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

use ringfence_surface::AbsPath;
use serde::{Deserialize, Serialize};

use crate::text::Bytes;

/// Of the manifest's own form.
pub const SCHEMA: u32 = 1;

/// What is in a root.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// [`SCHEMA`].
    pub schema: u32,
    /// What it is called.
    pub name: String,
    /// Which classes of tools it was made for, sorted.
    pub with: Vec<String>,
    /// Who works in it, where that is not whoever made it: user and group.
    pub owner: Option<(u32, u32)>,
    /// The directory outside that it was made for: where that is gone the root goes too.
    pub workspace: Option<Bytes>,
    /// Directories in it that change while it is used; what is in them is no part of this list.
    pub places: Vec<Bytes>,
    /// Everything else, sorted by path.
    pub entries: Vec<Entry>,
    /// What these classes have and the host has not.
    pub left_out: Vec<LeftOut>,
    /// Variables by which programs in it find their own parts, where the caller sets none of that name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub variables: BTreeMap<String, Bytes>,
}

/// One thing in a root.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Where, seen from inside.
    pub path: Bytes,
    /// What.
    #[serde(flatten)]
    pub kind: Kind,
}

/// What it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Kind {
    /// A directory.
    Directory,
    /// A file.
    File {
        /// Whether it can be executed. It can be read, and not written, by everybody.
        executable: bool,
        /// How many bytes.
        size: u64,
        /// Of its content, in hexadecimal digits.
        sha256: String,
    },
    /// A symbolic link.
    Link {
        /// What it says.
        target: Bytes,
    },
    /// A device.
    Device {
        /// Its kind.
        major: u32,
        /// Which of them.
        minor: u32,
    },
    /// An ordinary file in the place of a device that could not be made. What is written to it can be read again.
    Substitute,
    /// A pipe in the place of a device that could not be made. Whoever watches a session fills it with random bytes.
    Pipe,
}

/// Something that is not in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LeftOut {
    /// What.
    pub what: String,
    /// Why.
    pub why: String,
}

impl Entry {
    /// Where, as a path.
    #[must_use]
    pub fn path(&self) -> Option<AbsPath> {
        self.path.path()
    }
}

impl Manifest {
    /// How many files there are, and how many bytes are in them.
    #[must_use]
    pub fn size(&self) -> (usize, u64) {
        let sizes = self.entries.iter().filter_map(|entry| match &entry.kind {
            Kind::File { size, .. } => Some(*size),
            _ => None,
        });
        sizes.fold((0, 0), |(files, bytes), size| (files + 1, bytes + size))
    }

    /// The directories that change while it is used.
    pub fn places(&self) -> impl Iterator<Item = AbsPath> {
        self.places.iter().filter_map(Bytes::path)
    }

    /// What programs in it are told, by the names of variables.
    pub(crate) fn variables(&self) -> impl Iterator<Item = (Vec<u8>, AbsPath)> {
        self.variables.iter().filter_map(|(name, path)| Some((name.as_bytes().to_vec(), path.path()?)))
    }

    /// What stands in the place of devices that could not be made.
    pub fn substitutes(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter().filter(|entry| matches!(entry.kind, Kind::Substitute | Kind::Pipe))
    }

    pub(crate) fn read(path: &Path) -> io::Result<Self> {
        let text = fs::read(path)?;
        let found: serde_json::Value = serde_json::from_slice(&text)?;
        if found["schema"] != SCHEMA {
            return Err(io::Error::other(format!(
                "it has schema {}, and this version reads {SCHEMA}",
                found["schema"]
            )));
        }
        Ok(serde_json::from_value(found)?)
    }

    pub(crate) fn write(&self, path: &Path) -> io::Result<()> {
        let mut text = serde_json::to_vec_pretty(self)?;
        text.push(b'\n');
        fs::write(path, text)
    }
}
