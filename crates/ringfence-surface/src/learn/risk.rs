//! How much a line opens.

use std::fmt;
use std::net::IpAddr;

use super::Thing;
use super::generalise::Ground;
use crate::decide::Access;
use crate::host::HostTarget;
use crate::path::AbsPath;

/// How much a line opens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Risk {
    /// Little that is anybody's own.
    Low,
    /// Something to look at first.
    Medium,
    /// A lot, or something that acts outside the fence.
    High,
}

impl Risk {
    /// In a word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }
}

impl fmt::Display for Risk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// Where a machine keeps what it knows of its users and itself.
const OF_THE_MACHINE: &[&[u8]] = &[b"dev", b"proc", b"run", b"sys", b"var"];
/// Where other disks are: some hold the homes of another system, or what somebody carries around.
const OF_OTHER_DISKS: &[&[u8]] = &[b"media", b"mnt"];
/// Where programs are looked for, or are started by themselves.
const RUNS: &[&[u8]] = &[b".config", b".local", b"autostart", b"bin", b"cron.d", b"init.d", b"sbin", b"systemd"];

impl Ground<'_> {
    pub(super) fn risk_of(&self, path: &AbsPath, thing: Thing, access: Access) -> (Risk, &'static str) {
        let home = self.homes.iter().find(|home| path.is_within(home));
        let below_home = home.map(|home| path.components().count() - home.components().count());
        let has = |names: &[&[u8]]| path.components().any(|name| names.contains(&name));
        let is_below = |names: &[&[u8]]| names.contains(&path.components().next().unwrap_or_default());
        match (access, below_home) {
            (Access::Write, _) if has(RUNS) => (Risk::High, "programs and settings that run later may be there"),
            (Access::Write, Some(1)) => (Risk::High, "it stands directly in a home directory and stays changed"),
            (Access::Write, _) => (Risk::Medium, "what is written there outlives the session"),
            (Access::Read, Some(1)) if thing == Thing::Directory => (Risk::High, "a whole directory of a home"),
            (Access::Read, Some(_)) => (Risk::Medium, "in a home directory, read-only"),
            (Access::Read, None) if is_below(OF_THE_MACHINE) => {
                (Risk::Medium, "what the machine keeps of its own, read-only")
            }
            (Access::Read, None) if is_below(OF_OTHER_DISKS) => {
                (Risk::Medium, "on another disk, which may hold somebody's home, read-only")
            }
            (Access::Read, None) if (self.is_private)(path) => {
                (Risk::Medium, "read-only, and not everybody on this machine may read it")
            }
            (Access::Read, None) => (Risk::Low, "outside every home directory, read-only"),
        }
    }
}

pub(super) fn of_host(target: &HostTarget) -> (Risk, &'static str) {
    match target.address() {
        Some(IpAddr::V4(_) | IpAddr::V6(_)) => (Risk::High, "an address says nothing about who is there"),
        None if matches!(target.port(), 80 | 443) => (Risk::Medium, "what the command can read can be sent there"),
        None => (Risk::High, "what the command can read can be sent there, by a protocol that is not looked at"),
    }
}
