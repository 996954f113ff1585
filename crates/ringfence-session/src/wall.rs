//! Landlock's rules with their paths as the kernel takes them.

use std::ffi::CString;
use std::io;
use std::os::fd::AsFd as _;

use ringfence_plan::{Files, LandlockPlan, LandlockRule, Rights, Scope as PlanScope};
use ringfence_sys::landlock::{AccessFs, AccessNet, RestrictFlags, Ruleset, Scope};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::sufficient::SufficientLandlock;

/// A domain that only has to be entered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Wall {
    pub(crate) handled: AccessFs,
    pub(crate) rules: Vec<(CString, AccessFs)>,
    pub(crate) scopes: Scope,
}

impl Wall {
    /// From the plan. What the receipt says of the plan holds in this domain: it handles every right that a claim needs.
    pub(crate) fn new(plan: &LandlockPlan, landlock: &SufficientLandlock) -> Self {
        let rights = |rights: Rights| match rights {
            Rights::List => AccessFs::READ_DIR,
            Rights::Read => AccessFs::READ,
            Rights::Device => AccessFs::DEVICE,
            Rights::All => landlock.file_rights(),
        };
        let rule = |rule: &LandlockRule| Some((CString::new(rule.path.as_bytes()).ok()?, rights(rule.rights)));
        let scope = |scope: &PlanScope| match scope {
            PlanScope::Signal => Scope::SIGNAL,
            PlanScope::AbstractUnixSocket => Scope::ABSTRACT_UNIX_SOCKET,
        };
        let scopes = plan.scopes.iter().map(scope).fold(Scope::NONE, Scope::union).intersection(landlock.scopes());
        let handled = match plan.files {
            Files::Restricted => landlock.file_rights(),
            Files::Changes => landlock.file_rights().intersection(AccessFs::CHANGES),
            Files::Open => AccessFs::NONE,
        };
        // A right that the domain does not handle is not restricted.
        let says_something = |(_, access): &(CString, AccessFs)| !access.intersection(handled).is_empty();
        let rules = plan.rules.iter().filter_map(rule).filter(says_something).collect();
        Self { rules, handled, scopes }
    }

    /// Whether signals stay among the fenced.
    pub(crate) fn keeps_signals(&self) -> bool {
        self.scopes.contains(Scope::SIGNAL)
    }

    /// Runs in the payload. Allocates nothing.
    pub(crate) fn enter(&self) -> io::Result<()> {
        if self.handled.is_empty() && self.scopes.is_empty() {
            return Ok(());
        }
        let ruleset = Ruleset::create(self.handled, AccessNet::NONE, self.scopes)?;
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        for (path, access) in &self.rules {
            match rustix::fs::open(path.as_c_str(), flags, Mode::empty()) {
                Ok(fd) => ruleset.add_path(fd.as_fd(), *access)?,
                // What whoever runs this cannot reach needs no right to it.
                Err(Errno::NOENT | Errno::ACCESS | Errno::NOTDIR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        ruleset.restrict_self(RestrictFlags::NONE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sufficient::tests::kernel;

    fn plan(files: Files) -> LandlockPlan {
        LandlockPlan { files, rules: Vec::new(), scopes: Vec::new(), withheld: Vec::new() }
    }

    /// T6, I6: on ABI 2 a domain that restricts files lets `truncate(2)` empty any of them, and claims that nothing else is writable.
    #[test]
    fn i6_every_domain_that_restricts_files_handles_truncate() {
        for abi in 1..=8 {
            let Ok(landlock) = kernel(abi, AccessFs::of_abi(abi)) else {
                assert!(abi < 3, "{abi}");
                continue;
            };
            let handled = Wall::new(&plan(Files::Restricted), &landlock).handled;
            assert!(handled.contains(AccessFs::ABI_3), "ABI {abi}: {handled:?}");
            // In a mount namespace of ours truncation is left to the mounts, and the receipt does not count it.
            let handled = Wall::new(&plan(Files::Changes), &landlock).handled;
            assert!(handled.contains(AccessFs::ABI_3.intersection(AccessFs::CHANGES)), "ABI {abi}: {handled:?}");
        }
    }
}
