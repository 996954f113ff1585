//! Which project files the user has trusted, by content.
//!
//! One small file for each trusted project, named by the hash of its path, below ringfence's state directory. The agent can
//! neither read nor write there. Trust is in the content: the first change ends it.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use ringfence_surface::{AbsPath, HostFacts, Trust};
use sha2::{Digest as _, Sha256};

use crate::error::Failure;
use crate::host::{os_path, read_bounded};

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

fn record(facts: &HostFacts, policy: &AbsPath) -> Option<PathBuf> {
    let name = hex(&Sha256::digest(policy.as_bytes()));
    Some(os_path(&facts.own_directories()?.state).join("trust").join(name))
}

/// Looks a project file up.
pub(crate) fn known(facts: &HostFacts, policy: &AbsPath, hash: &ContentHash) -> Known {
    let Some(stored) = record(facts, policy).and_then(|path| read_bounded(&path, 256).ok()) else {
        return Known::Never;
    };
    if stored.trim_ascii_end() == hash.0.as_bytes() { Known::AsItIs } else { Known::Changed }
}

/// Trusts a project file as it is.
pub(crate) fn store(facts: &HostFacts, policy: &AbsPath, hash: &ContentHash) -> Result<(), Failure> {
    let path = record(facts, policy).ok_or(Failure::NoHome)?;
    let write = |source| Failure::Write { path: path.clone(), source };
    if let Some(dir) = path.parent() {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(write)?;
    }
    replace(&path, format!("{}\n", hash.0).as_bytes()).map_err(write)
}

/// Trusts a project file no longer. Was it trusted?
pub(crate) fn forget(facts: &HostFacts, policy: &AbsPath) -> Result<bool, Failure> {
    let path = record(facts, policy).ok_or(Failure::NoHome)?;
    match fs::remove_file(&path) {
        Ok(()) => Ok(true),
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(source) => Err(Failure::Write { path, source }),
    }
}

/// Writes a file whole or not at all, in the place of what is there.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let file = written(path, bytes)?;
    file.persist(path).map_err(|e| e.error)?;
    Ok(())
}

/// Writes a file whole or not at all, if nothing is there.
pub(crate) fn create(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let file = written(path, bytes)?;
    file.persist_noclobber(path).map_err(|e| e.error)?;
    Ok(())
}

fn written(path: &Path, bytes: &[u8]) -> io::Result<tempfile::NamedTempFile> {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let permissions = fs::Permissions::from_mode(0o644);
    let mut file = tempfile::Builder::new().prefix(".ringfence-").permissions(permissions).tempfile_in(dir)?;
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    Ok(file)
}
