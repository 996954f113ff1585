//! The record of a session: its Surface as another process reads it back.
//!
//! `ringfence run` writes it before anything starts. The hook inside the fence and a call from outside decide by it, so both
//! decide exactly as the session does. It is for ringfence alone: numbers and bytes, with a schema number in front, and only
//! the same schema is read. Of the policy files it holds the words that rules quote and where lines end, nothing else.

mod decode;
mod encode;

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;

use ringfence_plan::Rung;
use ringfence_surface::policy::Mode;
use ringfence_surface::{AbsPath, Surface};
use rustix::fs::{FileType, OFlags};

use crate::walk::os_path;

/// Changes whenever what is written changes.
pub const SCHEMA: u64 = 2;

/// What a record begins with.
const MAGIC: &[u8] = b"ringfence record\n";

/// The largest that is read: a policy of the largest size makes one of a quarter of this.
const MOST_BYTES: u64 = 64 << 20;

/// A session, as far as others need to know it.
#[derive(Debug, Clone)]
pub struct Record<S = Surface> {
    /// What the session is called.
    pub session: String,
    /// Which client works in it, if it is one that ringfence knows.
    pub agent: Option<String>,
    /// How much its tool calls are held back.
    pub mode: Mode,
    /// How the fence is built.
    pub rung: Rung,
    /// The home directory inside.
    pub home: AbsPath,
    /// What may be touched. The project is its root, and the first directory its working directory.
    pub surface: S,
}

/// Why a record is not used.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// It is not there, or cannot be read.
    #[error("cannot read {path}")]
    Read {
        /// Which.
        path: AbsPath,
        /// Why.
        source: io::Error,
    },
    /// It cannot be written.
    #[error("cannot write {path}")]
    Write {
        /// Which.
        path: AbsPath,
        /// Why.
        source: io::Error,
    },
    /// No regular file of a sensible size.
    #[error("{path} is no record of a session")]
    NoFile {
        /// Which.
        path: AbsPath,
    },
    /// Somebody else could have written it.
    #[error("{path} belongs to user {owner} with mode {mode:03o}; others could have written it")]
    Foreign {
        /// Which.
        path: AbsPath,
        /// Whose it is.
        owner: u32,
        /// Who may write it.
        mode: u32,
    },
    /// Another version of ringfence wrote it.
    #[error("{path} was written by another version of ringfence (schema {found}, not {SCHEMA})")]
    Schema {
        /// Which.
        path: AbsPath,
        /// What it says.
        found: u64,
    },
    /// It is cut short, or not what was written.
    #[error("{path} is damaged")]
    Damaged {
        /// Which.
        path: AbsPath,
    },
}

impl Record<&Surface> {
    /// The record as bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        encode::encode(self)
    }

    /// Writes it to a new file that nobody but its owner can change.
    ///
    /// # Errors
    /// [`RecordError::Write`].
    pub fn write(&self, path: &AbsPath) -> Result<(), RecordError> {
        let failed = |source| RecordError::Write { path: path.clone(), source };
        let mut options = fs::OpenOptions::new();
        options.write(true).create_new(true).mode(0o644).custom_flags(OFlags::NOFOLLOW.bits().cast_signed());
        let mut file = options.open(os_path(path)).map_err(failed)?;
        file.write_all(&self.to_bytes()).map_err(failed)
    }
}

impl Record {
    /// Reads one, if nobody else could have written it.
    ///
    /// # Errors
    /// [`RecordError`]; what is not exactly a record of this version is none.
    pub fn read(path: &AbsPath) -> Result<Self, RecordError> {
        let failed = |source| RecordError::Read { path: path.clone(), source };
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let mut options = fs::OpenOptions::new();
        let file = options.read(true).custom_flags(flags.bits().cast_signed()).open(os_path(path)).map_err(failed)?;
        let status = rustix::fs::fstat(&file).map_err(|errno| failed(errno.into()))?;
        let size = u64::try_from(status.st_size).unwrap_or(u64::MAX);
        if FileType::from_raw_mode(status.st_mode) != FileType::RegularFile || size > MOST_BYTES {
            return Err(RecordError::NoFile { path: path.clone() });
        }
        let (owner, mode) = (status.st_uid, status.st_mode & 0o777);
        if !is_trusted_owner(owner) || mode & 0o022 != 0 {
            return Err(RecordError::Foreign { path: path.clone(), owner, mode });
        }
        let mut bytes = Vec::with_capacity(size as usize + 1);
        file.take(MOST_BYTES).read_to_end(&mut bytes).map_err(failed)?;
        Self::from_bytes(&bytes, path)?.with_changes(path)
    }

    /// With what was given to the session since. Nobody inside can write there either.
    fn with_changes(mut self, path: &AbsPath) -> Result<Self, RecordError> {
        let given = path.parent().unwrap_or_else(AbsPath::root);
        let damaged = |name: &str| RecordError::Damaged { path: given.join(name) };
        if let Some(mode) = crate::given::mode(&given).map_err(|_| damaged(crate::given::MODE))? {
            self.mode = mode;
        }
        let surface = crate::given::with_grants(self.surface, &given);
        self.surface = surface.map_err(|_| damaged(crate::given::GRANTS))?;
        Ok(self)
    }

    /// The record that bytes say; `path` is for messages.
    ///
    /// # Errors
    /// As [`Record::read`].
    pub fn from_bytes(bytes: &[u8], path: &AbsPath) -> Result<Self, RecordError> {
        let damaged = || RecordError::Damaged { path: path.clone() };
        let rest = bytes.strip_prefix(MAGIC).ok_or_else(damaged)?;
        match decode::schema(rest) {
            Some(SCHEMA) => decode::decode(rest).ok_or_else(damaged),
            Some(found) => Err(RecordError::Schema { path: path.clone(), found }),
            None => Err(damaged()),
        }
    }
}

/// Whoever reads it, or root. In a user namespace root has no number of its own and shows as the one that stands for nobody.
fn is_trusted_owner(owner: u32) -> bool {
    const OVERFLOW: u32 = 65_534;
    let is_ours = owner == 0 || owner == rustix::process::geteuid().as_raw();
    is_ours || owner == OVERFLOW && !crate::identity::is_initial_user_namespace()
}

#[cfg(test)]
mod tests;
