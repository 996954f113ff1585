//! The Landlock that a fence may be built with.
//!
//! Before ABI 3 (Linux 6.2) `truncate(2)` passes every domain: a file that may not be written is emptied all the same. A receipt
//! that counts such a domain claims what does not hold. So every domain is built from a [`SufficientLandlock`], and on an older
//! kernel there is none.

use std::io;

use ringfence_plan::features::{Feature, Finding};
use ringfence_sys::landlock::{self, AccessFs, Scope, Supported};

/// Every right that a claim about files stands on: reading, executing, writing, making, removing, moving (ABI 2), and
/// truncating (ABI 3).
pub(crate) const REQUIRED_RIGHTS: AccessFs = AccessFs::ABI_3;
/// The first ABI that has all of [`REQUIRED_RIGHTS`].
const MINIMUM_ABI: u32 = 3;

/// Why no Landlock domain can be built here.
#[derive(Debug, thiserror::Error)]
pub enum LandlockUnavailable {
    /// The kernel has no Landlock, or it is switched off.
    #[error("landlock_create_ruleset(NULL, 0, LANDLOCK_CREATE_RULESET_VERSION)")]
    Missing {
        /// What the kernel said.
        source: io::Error,
    },
    /// Its ABI is too old.
    #[error(
        "this kernel has ABI {found} of Landlock, which lets truncate(2) pass; {MINIMUM_ABI} is needed (Linux {})",
        Feature::LandlockFiles.row().since.linux().unwrap_or_default()
    )]
    TooOld {
        /// The ABI that the kernel reports.
        found: u32,
    },
    /// The kernel reports a sufficient ABI and rejects some of its rights.
    #[error("this kernel reports ABI {found} of Landlock and does not take all of its rights")]
    Incomplete {
        /// The ABI that the kernel reports.
        found: u32,
    },
}

impl LandlockUnavailable {
    /// For a receipt, and for `doctor`.
    pub(crate) fn finding(&self) -> Finding {
        match self {
            Self::Missing { source } => Finding::missing(format!("this kernel has no Landlock ({source})")),
            Self::TooOld { .. } | Self::Incomplete { .. } => Finding::missing(self.to_string()),
        }
    }
}

/// A Landlock that handles every right our claims need.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SufficientLandlock(Supported);

impl SufficientLandlock {
    /// The Landlock of this kernel. Changes nothing.
    pub(crate) fn find() -> Result<Self, LandlockUnavailable> {
        Self::new(landlock::supported().map_err(|source| LandlockUnavailable::Missing { source })?)
    }

    pub(crate) fn new(found: Supported) -> Result<Self, LandlockUnavailable> {
        if found.abi < MINIMUM_ABI {
            return Err(LandlockUnavailable::TooOld { found: found.abi });
        }
        // Some vendors report a number and leave features out.
        if !found.fs.contains(REQUIRED_RIGHTS) {
            return Err(LandlockUnavailable::Incomplete { found: found.abi });
        }
        Ok(Self(found))
    }

    /// The ABI that the kernel reports.
    pub(crate) fn abi(&self) -> u32 {
        self.0.abi
    }

    /// The rights on files that it handles.
    pub(crate) fn file_rights(&self) -> AccessFs {
        self.0.fs
    }

    /// The scopes that it has.
    pub(crate) fn scopes(&self) -> Scope {
        self.0.scoped
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use ringfence_sys::landlock::AccessNet;

    use super::*;

    /// A kernel that reports this ABI and takes these rights.
    pub(crate) fn kernel(abi: u32, fs: AccessFs) -> Result<SufficientLandlock, LandlockUnavailable> {
        SufficientLandlock::new(Supported { abi, fs, net: AccessNet::of_abi(abi), scoped: Scope::of_abi(abi) })
    }

    /// The number alone is no promise: some kernels report one and take less.
    #[test]
    fn t6_i6_the_floor_is_abi_3() {
        let check = |abi, fs| kernel(abi, fs).map(|found| (found.abi(), found.file_rights()));
        assert!(matches!(check(0, AccessFs::NONE), Err(LandlockUnavailable::TooOld { found: 0 })));
        for abi in [1, 2] {
            let found = check(abi, AccessFs::of_abi(abi));
            assert!(matches!(found, Err(LandlockUnavailable::TooOld { found }) if found == abi), "{abi}");
        }
        assert_eq!(check(3, AccessFs::ABI_3).unwrap(), (3, AccessFs::ABI_3));
        assert_eq!(check(7, AccessFs::ABI_5).unwrap(), (7, AccessFs::ABI_5));
        assert_eq!(check(6, AccessFs::ABI_3).unwrap(), (6, AccessFs::ABI_3));
        assert!(matches!(check(6, AccessFs::ABI_2), Err(LandlockUnavailable::Incomplete { found: 6 })));
    }
}
