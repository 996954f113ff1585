//! What is to be given to a running session, looked at by whoever asks for it: what is denied in it is found before, so that the
//! supervisor only has to carry it out.

use std::io;

use ringfence_egress::guard::{AddressClass, never};
use ringfence_plan::{Found, MountAccess, MountOp};
use ringfence_surface::{AbsPath, HostFacts, Look, NotGiven, Role, Surface, Way};
use rustix::fs::FileType;

use crate::desk::{Gives, Masked, Verb};
use crate::look::facts_of;
use crate::place::{open_place, open_root, relative};
use crate::text::Bytes;
use crate::walk::{Hidden, WalkError, walk};

/// More denied things in one place are not masked one by one.
const MOST_MASKED: usize = 1_000;

/// Stands for the device and the number of a place that was given before, and was not looked at again. Nothing has it.
pub(crate) const AGAIN: (u64, u64) = (0, 0);

/// Why something cannot be given.
#[derive(Debug, thiserror::Error)]
pub enum GiveError {
    /// The session's own rules are against it.
    #[error("it is not given")]
    NotGiven(#[from] NotGiven),
    /// What is denied in it cannot be found.
    #[error("cannot find what is denied in it")]
    Walk(#[from] WalkError),
    /// More is denied in it than is masked.
    #[error("{count} things in {path} are denied")]
    TooMuch {
        /// Which place.
        path: AbsPath,
        /// How many.
        count: usize,
    },
    /// The guard of the way out lets nobody dial it.
    #[error("{what} is {class}, which no policy or grant can allow")]
    Never {
        /// Which host.
        what: String,
        /// What it is.
        class: AddressClass,
    },
    /// Neither a file nor a directory.
    #[error("{path} is neither a file nor a directory")]
    Kind {
        /// Which.
        path: AbsPath,
    },
    /// Nothing is there.
    #[error("there is no {path}")]
    Missing {
        /// Which.
        path: AbsPath,
    },
    /// It cannot be looked at.
    #[error("{path} cannot be looked at")]
    Look {
        /// Which.
        path: AbsPath,
        /// Why.
        source: io::Error,
    },
}

/// What is asked of the supervisor, and what of the place will not be seen.
#[derive(Debug)]
pub struct Asked {
    /// For the session's [desk](crate::desk).
    pub verb: Verb,
    /// What is hidden although no rule denies it.
    pub hidden: Vec<Hidden>,
    /// How many things are denied in it.
    pub masked: usize,
}

/// Something that was given already, for another time from now on.
#[must_use]
pub fn again(path: &AbsPath, access: Gives, for_ms: Option<u64>) -> Asked {
    let path = Bytes::new(path.as_bytes());
    let (device, inode) = AGAIN;
    let verb = Verb::Grant { path, access, device, inode, for_ms, masked: Vec::new() };
    Asked { verb, hidden: Vec::new(), masked: 0 }
}

/// A way out.
///
/// # Errors
/// [`GiveError`], where the session has it already or cannot be given it.
pub fn reaching(surface: &Surface, way: &Way, for_ms: Option<u64>) -> Result<Asked, GiveError> {
    let never = match way {
        Way::Host(pattern) => pattern.single_address().and_then(never),
        Way::HostPort(_) => None,
    };
    if let Some(class) = never {
        return Err(GiveError::Never { what: way.to_string(), class });
    }
    surface.with_way(way)?;
    let verb = Verb::GrantHost { host: way.to_string(), for_ms };
    Ok(Asked { verb, hidden: Vec::new(), masked: 0 })
}

/// A place. `path` must be real: links on the way already followed.
///
/// # Errors
/// [`GiveError`].
pub fn place(
    surface: &Surface,
    facts: HostFacts,
    (path, access): (&AbsPath, Gives),
    for_ms: Option<u64>,
    look: &mut dyn Look,
) -> Result<Asked, GiveError> {
    let (given, mount) = match access {
        Gives::Read => (surface.with_read(path)?, MountAccess::ReadOnly),
        Gives::Write => (surface.with_write(path)?, MountAccess::ReadWrite),
    };
    let failed = |errno: rustix::io::Errno| match errno {
        rustix::io::Errno::NOENT => GiveError::Missing { path: path.clone() },
        errno => GiveError::Look { path: path.clone(), source: errno.into() },
    };
    let status =
        open_root().and_then(|top| open_place(top, &relative(path))).and_then(rustix::fs::fstat).map_err(failed)?;
    if !matches!(FileType::from_raw_mode(status.st_mode), FileType::Directory | FileType::RegularFile) {
        return Err(GiveError::Kind { path: path.clone() });
    }
    let facts = facts_of(&given, facts, look);
    let shown = MountOp::Bind { path: path.clone(), access: mount, role: Role::Reference };
    let walked = walk(&given, &facts, &[shown], &[])?;
    let denied = walked.findings.denied.iter().filter(|(denied, _)| denied.is_within(path) && denied != path);
    let masked: Vec<Masked> = denied
        .map(|(path, kind)| Masked { path: Bytes::new(path.as_bytes()), directory: *kind == Found::Directory })
        .collect();
    if masked.len() > MOST_MASKED {
        return Err(GiveError::TooMuch { path: path.clone(), count: masked.len() });
    }
    let (count, hidden) = (masked.len(), walked.hidden);
    let path = Bytes::new(path.as_bytes());
    let verb = Verb::Grant { path, access, device: status.st_dev, inode: status.st_ino, for_ms, masked };
    Ok(Asked { verb, hidden, masked: count })
}
