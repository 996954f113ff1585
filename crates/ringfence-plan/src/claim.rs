//! What was asked, and what falls short.

use std::fmt;

/// One thing the Surface asks of whoever enforces it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Claim {
    /// Nothing but the Surface can be read: no content and no list of names.
    NothingElseIsReadable,
    /// Nothing but the Surface can be seen: that a name exists, how large it is.
    NothingElseIsSeen,
    /// Who else runs cannot be seen, nor whether anybody does.
    NobodyElseIsSeen,
    /// Nothing but the Surface can be written: no content and no name.
    NothingElseIsWritable,
    /// Mode, owner, times and attributes of everything else stay as they are, and of what is denied or protected.
    MetadataStays,
    /// These paths can neither be read nor written.
    Denied {
        /// The rule's pattern.
        pattern: String,
    },
    /// What is in denied directories cannot be listed either.
    DeniedNames,
    /// These paths cannot be written, existing or not.
    Protected {
        /// The rule's pattern.
        pattern: String,
    },
    /// What is denied stays so for names that appear later.
    DeniedLater,
    /// What is protected stays so for names that appear later.
    ProtectedLater,
    /// A guard stays when somebody outside replaces the file.
    HeldWhenReplaced,
    /// Something guarded has no other name by which it could be reached, and is no link to something that is not guarded.
    OneName {
        /// Which.
        path: String,
    },
    /// Behind the first wall stands a second that holds if the first is wrong.
    SecondWall,
    /// Nothing inside changes the fence, or the kernel that holds it.
    FenceStays,
    /// No process outside is signalled, traced or shared memory with.
    OutsidersOutOfReach,
    /// No unix socket of the host that is there at the start is reached.
    NoHostSockets,
    /// No unix socket that the host makes later is reached.
    NoLaterSockets,
    /// No host can be reached but these.
    OnlyTheseHosts {
        /// In their own spelling.
        hosts: Vec<String>,
    },
    /// No variable reaches the agent but those that are named.
    CleanEnvironment,
    /// Every process ends with the session.
    TreeEndsWithSession,
    /// At most this many bytes of memory.
    Memory {
        /// How many.
        bytes: u64,
    },
    /// At most this many processes.
    Processes {
        /// How many.
        count: u32,
    },
    /// At most this many seconds.
    Time {
        /// How many.
        seconds: u64,
    },
}

/// What the claim about sockets is called where the whole host is shown.
pub const HOST_SOCKETS: &str = "sockets of the host";

impl fmt::Display for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NothingElseIsReadable => f.write_str("nothing else is readable"),
            Self::NothingElseIsSeen => f.write_str("nothing else can be seen"),
            Self::NobodyElseIsSeen => f.write_str("nobody else can be seen"),
            Self::NothingElseIsWritable => f.write_str("nothing else is writable"),
            Self::MetadataStays => f.write_str("no metadata elsewhere can be changed"),
            Self::Denied { pattern } => write!(f, "deny {pattern}"),
            Self::Protected { pattern } => write!(f, "protect {pattern}"),
            Self::DeniedNames => f.write_str("no list of what is in denied directories"),
            Self::DeniedLater => f.write_str("deny names that appear later"),
            Self::ProtectedLater => f.write_str("protect names that appear later"),
            Self::HeldWhenReplaced => f.write_str("guards stay when a file is replaced outside"),
            Self::OneName { path } => write!(f, "no other name of {path}"),
            Self::SecondWall => f.write_str("a second wall behind the first"),
            Self::FenceStays => f.write_str("the fence cannot be changed from inside"),
            Self::OutsidersOutOfReach => f.write_str("no process outside is reached"),
            Self::NoHostSockets => f.write_str("no unix socket of the host is reached"),
            Self::NoLaterSockets => f.write_str("no unix socket that the host makes later is reached"),
            Self::OnlyTheseHosts { hosts } if hosts.is_empty() => f.write_str("no network"),
            Self::OnlyTheseHosts { hosts } => write!(f, "no network but {}", hosts.join(", ")),
            Self::CleanEnvironment => f.write_str("only named variables"),
            Self::TreeEndsWithSession => f.write_str("every process ends with the session"),
            Self::Memory { bytes } => write!(f, "at most {} of memory", size(*bytes)),
            Self::Processes { count } => write!(f, "at most {count} processes"),
            Self::Time { seconds } => write!(f, "at most {seconds} s"),
        }
    }
}

impl Claim {
    /// Every [`Claim::key`].
    pub const KEYS: &[&str] = &[
        "readable",
        "seen",
        "others",
        "writable",
        "metadata",
        "denied-names",
        "denied-later",
        "protected-later",
        "replaced",
        "second-wall",
        "fence",
        "outsiders",
        "sockets",
        "sockets-later",
        "network",
        "environment",
        "tree",
        "memory",
        "pids",
        "wall",
        "deny",
        "protect",
        "one-name",
    ];

    /// A short name for the command line: that of every claim of its kind.
    pub fn key(&self) -> &'static str {
        match self {
            Self::NothingElseIsReadable => "readable",
            Self::NothingElseIsSeen => "seen",
            Self::NobodyElseIsSeen => "others",
            Self::NothingElseIsWritable => "writable",
            Self::MetadataStays => "metadata",
            Self::DeniedNames => "denied-names",
            Self::DeniedLater => "denied-later",
            Self::ProtectedLater => "protected-later",
            Self::HeldWhenReplaced => "replaced",
            Self::SecondWall => "second-wall",
            Self::FenceStays => "fence",
            Self::OutsidersOutOfReach => "outsiders",
            Self::NoHostSockets => "sockets",
            Self::NoLaterSockets => "sockets-later",
            Self::OnlyTheseHosts { .. } => "network",
            Self::CleanEnvironment => "environment",
            Self::TreeEndsWithSession => "tree",
            Self::Memory { .. } => "memory",
            Self::Processes { .. } => "pids",
            Self::Time { .. } => "wall",
            Self::Denied { .. } => "deny",
            Self::Protected { .. } => "protect",
            Self::OneName { .. } => "one-name",
        }
    }

    /// Is this what somebody calls it: by its short name or its text?
    pub fn is_called(&self, name: &str) -> bool {
        self.key() == name || self.to_string() == name
    }
}

/// Who can carry a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LayerName {
    /// The sanitised environment.
    Environment,
    /// Mount namespaces.
    Mounts,
    /// Landlock.
    Landlock,
    /// A seccomp filter.
    Seccomp,
    /// The network namespace and its relay.
    Egress,
    /// The process namespace, and the first process in it, which is ours.
    Processes,
    /// A control group.
    Cgroup,
    /// A root directory that holds nothing else.
    Root,
    /// A profile of AppArmor's.
    AppArmor,
    /// A module of SELinux.
    SeLinux,
    /// What a cluster of Kubernetes makes of a pod's description.
    Kubernetes,
    /// The broker, which carries out calls that change files.
    Broker,
}

impl LayerName {
    /// In a word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Environment => "environment",
            Self::Mounts => "mounts",
            Self::Landlock => "landlock",
            Self::Seccomp => "seccomp",
            Self::Egress => "network",
            Self::Processes => "processes",
            Self::Cgroup => "cgroup",
            Self::Root => "root",
            Self::AppArmor => "apparmor",
            Self::SeLinux => "selinux",
            Self::Kubernetes => "kubernetes",
            Self::Broker => "broker",
        }
    }
}

/// A claim that a layer cannot carry here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shortfall {
    /// What was asked.
    pub claim: Claim,
    /// Who cannot.
    pub layer: LayerName,
    /// Why not.
    pub reason: String,
}

/// As a policy writes it: a whole number of the largest unit that fits.
fn size(bytes: u64) -> String {
    const UNITS: &[(&str, u64)] = &[("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    let whole = UNITS.iter().find(|(_, unit)| bytes >= *unit && bytes.is_multiple_of(*unit));
    whole.map_or_else(|| format!("{bytes}B"), |(name, unit)| format!("{}{name}", bytes / unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every kind of claim can be named.
    #[test]
    fn keys_are_known() {
        let (pattern, path) = ("**/x".to_owned(), "/x".to_owned());
        let all = [
            Claim::NothingElseIsReadable,
            Claim::NothingElseIsSeen,
            Claim::NobodyElseIsSeen,
            Claim::NothingElseIsWritable,
            Claim::MetadataStays,
            Claim::DeniedNames,
            Claim::DeniedLater,
            Claim::ProtectedLater,
            Claim::HeldWhenReplaced,
            Claim::SecondWall,
            Claim::FenceStays,
            Claim::OutsidersOutOfReach,
            Claim::NoHostSockets,
            Claim::NoLaterSockets,
            Claim::OnlyTheseHosts { hosts: Vec::new() },
            Claim::CleanEnvironment,
            Claim::TreeEndsWithSession,
            Claim::Memory { bytes: 1 },
            Claim::Processes { count: 1 },
            Claim::Time { seconds: 1 },
            Claim::Denied { pattern: pattern.clone() },
            Claim::Protected { pattern },
            Claim::OneName { path },
        ];
        assert_eq!(all.map(|claim| claim.key()).as_slice(), Claim::KEYS);
    }

    #[test]
    fn sizes_as_a_policy_writes_them() {
        for (bytes, shown) in [(1 << 30, "1GiB"), (3 << 20, "3MiB"), (1500, "1500B"), (0, "0B")] {
            assert_eq!(size(bytes), shown);
        }
    }
}
