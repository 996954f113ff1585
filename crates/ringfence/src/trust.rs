//! Which project files the user has trusted, by content.
//!
//! Two small files for each trusted project, named by the hash of its path, below ringfence's state directory: the hash of
//! what was trusted, which decides, and the texts, which only serve to show what has changed since. The agent can neither read
//! nor write there. Trust is in the content: the first change ends it.

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::PathBuf;

use ringfence_surface::{AbsPath, HostFacts, Layer, Trust};
use sha2::{Digest as _, Sha256};

use crate::error::Failure;
use crate::host::{os_path, read_bounded};
use crate::wire::trusted::WireTrusted;
use crate::write::replace;

/// The most that is read of texts that were trusted.
const MAX_TEXTS: u64 = 64 << 20;

/// The hash of a policy and of everything it extends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ContentHash(String);

impl ContentHash {
    /// Each path and each text goes in with its length, so that no two sets of files look alike.
    pub(crate) fn of<'a>(files: impl Iterator<Item = (&'a AbsPath, &'a str)>) -> Self {
        let mut hash = Sha256::new();
        for (path, text) in files {
            for part in [path.as_bytes(), text.as_bytes()] {
                hash.update((part.len() as u64).to_le_bytes());
                hash.update(part);
            }
        }
        Self(hex(&hash.finalize()))
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What is known about a project file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Known {
    /// Never trusted.
    Never,
    /// Trusted, and changed since.
    Changed,
    /// Trusted as it is.
    AsItIs,
}

impl Known {
    pub(crate) fn trust(self) -> Trust {
        if self == Self::AsItIs { Trust::Trusted } else { Trust::Untrusted }
    }
}

/// Where the record of one project is.
struct Record {
    hash: PathBuf,
    texts: PathBuf,
}

fn record(facts: &HostFacts, policy: &AbsPath) -> Option<Record> {
    let name = hex(&Sha256::digest(policy.as_bytes()));
    // Where the home directory is the project, a record that lies there may have come with the project.
    let state =
        facts.own_directories().state.filter(|dir| !policy.parent().is_some_and(|project| dir.is_within(&project)))?;
    let dir = os_path(&state).join("trust");
    Some(Record { texts: dir.join(format!("{name}.texts")), hash: dir.join(name) })
}

fn stored_hash(record: &Record) -> Option<ContentHash> {
    let stored = read_bounded(&record.hash, 256).ok()?;
    Some(ContentHash(String::from_utf8(stored.trim_ascii_end().to_vec()).ok()?))
}

/// Looks a project file up.
pub(crate) fn known(facts: &HostFacts, policy: &AbsPath, hash: &ContentHash) -> Known {
    match record(facts, policy).and_then(|record| stored_hash(&record)) {
        None => Known::Never,
        Some(stored) if stored == *hash => Known::AsItIs,
        Some(_) => Known::Changed,
    }
}

/// What a project file and its bases said when they were trusted; nothing when that is not known for sure.
pub(crate) fn trusted_texts(facts: &HostFacts, policy: &AbsPath) -> Option<Vec<(AbsPath, String)>> {
    let record = record(facts, policy)?;
    let texts = WireTrusted::read(&read_bounded(&record.texts, MAX_TEXTS).ok()?)?;
    let hash = ContentHash::of(texts.iter().map(|(path, text)| (path, text.as_str())));
    (stored_hash(&record)? == hash).then_some(texts)
}

/// Trusts a project file and its bases as they are. The file itself is the last.
pub(crate) fn store(facts: &HostFacts, layers: &[Layer], hash: &ContentHash) -> Result<(), Failure> {
    let main = layers.last().map(|layer| &layer.path);
    let Record { hash: path, texts } = main.and_then(|main| record(facts, main)).ok_or(Failure::NoHome)?;
    let unwritten = |path: &PathBuf| {
        let path = path.clone();
        move |source| Failure::Write { path, source }
    };
    if let Some(dir) = path.parent() {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(unwritten(&path))?;
    }
    let written = WireTrusted::new(layers).to_bytes().map_err(|source| Failure::Json { source })?;
    // The texts first: a hash without them would be trust that cannot show its changes.
    replace(&texts, &written).map_err(unwritten(&texts))?;
    replace(&path, format!("{}\n", hash.0).as_bytes()).map_err(unwritten(&path))
}

/// Trusts a project file no longer. Was it trusted?
pub(crate) fn forget(facts: &HostFacts, policy: &AbsPath) -> Result<bool, Failure> {
    let Record { hash, texts } = record(facts, policy).ok_or(Failure::NoHome)?;
    let was = remove(hash)?;
    remove(texts)?;
    Ok(was)
}

fn remove(path: PathBuf) -> Result<bool, Failure> {
    match fs::remove_file(&path) {
        Ok(()) => Ok(true),
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(source) => Err(Failure::Write { path, source }),
    }
}
