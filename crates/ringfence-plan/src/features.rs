//! What ringfence asks of a kernel and of a host: one table.
//!
//! [`Feature`] lists every feature with its name, the first version of Linux that has it, and what is done where it is missing.
//! [`uses`] says for each backend which features it needs, and what is lost without each. Probes fill in a [`Finding`] for each
//! feature. Everything else is a function of these: the rows and the verdict of `doctor`, the fallback order of `run`, the shortfalls of
//! a receipt that come from a missing feature, and the table in docs/kernel-features.md.

use std::collections::BTreeMap;
use std::fmt;

use crate::claim::{Claim, LayerName, Shortfall};
use crate::rung::Rung;

/// Where a feature comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Since {
    /// The first version of Linux.
    Linux(&'static str),
    /// The ABI of Landlock, and the first version of Linux that has it.
    Landlock {
        /// The ABI.
        abi: u32,
        /// The version.
        linux: &'static str,
    },
    /// It is installed; Linux has nothing to do with it.
    Installed,
}

impl Since {
    /// The first version of Linux.
    pub const fn linux(self) -> Option<&'static str> {
        match self {
            Self::Linux(version) | Self::Landlock { linux: version, .. } => Some(version),
            Self::Installed => None,
        }
    }
}

impl fmt::Display for Since {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Linux(version) => f.write_str(version),
            Self::Landlock { abi, linux } => write!(f, "{linux} (ABI {abi})"),
            Self::Installed => f.write_str("any"),
        }
    }
}

/// A row of the table of features.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FeatureRow {
    /// The feature as the documentation of the kernel names it, in Markdown.
    pub interface: &'static str,
    /// Where it comes from. A distribution may carry it earlier, or switch it off, so that nothing is decided by it.
    pub since: Since,
    /// What is done where it is missing.
    pub fallback: &'static str,
    /// What helps where it is missing. Nothing where a newer kernel does.
    pub remedy: Option<&'static str>,
}

macro_rules! features {
    ($($(#[$doc:meta])* $name:ident { $interface:literal, $since:expr, $fallback:literal, $remedy:expr })*) => {
        /// What a kernel or a host has or lacks.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Feature { $($(#[$doc])* $name,)* }

        impl Feature {
            /// All of them, in the order of the documentation.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// Its row of the table.
            pub const fn row(self) -> FeatureRow {
                match self {
                    $(Self::$name => FeatureRow {
                        interface: $interface,
                        since: $since,
                        fallback: $fallback,
                        remedy: $remedy,
                    },)*
                }
            }
        }
    };
}

const fn landlock(abi: u32, linux: &'static str) -> Since {
    Since::Landlock { abi, linux }
}

features! {
    /// The namespaces of a session, made in one call, and the mapping of the user.
    Namespaces {
        "user, mount, pid, network, IPC and UTS namespaces, without privilege (`clone3`, else `clone`)", Since::Linux("3.8"),
        "bubblewrap, where it alone may make them; then Landlock and seccomp, where names and metadata stay visible; else refuse",
        None
    }
    /// A network namespace whose loopback can be switched on.
    Loopback {
        "the loopback of a network namespace", Since::Linux("3.8"),
        "bubblewrap; then seccomp refuses every socket that leads out", None
    }
    /// Two network namespaces linked by a veth pair, with raw sockets, filters on sockets, and marks.
    Gateway {
        "a second network namespace in which all addresses are local, linked by a veth pair (`CONFIG_VETH`), with raw sockets, \
         `SO_ATTACH_FILTER` and `SO_MARK`",
        Since::Linux("3.8"),
        "bubblewrap, which reaches no host (withheld); with `allow = []` native. Containers have addresses of the loopback network \
         instead, accept first, and end what could not be dialled",
        Some("load the module veth, or use a kernel with CONFIG_VETH")
    }
    /// A mount namespace can be changed without the host seeing it.
    Mounts {
        "private propagation of mounts, and tmpfs in a user namespace", Since::Linux("3.9"),
        "bubblewrap; then Landlock", None
    }
    /// Detached copies of trees of mounts.
    DetachedMounts {
        "`open_tree`, `move_mount`", Since::Linux("5.2"),
        "bubblewrap; no live grants", None
    }
    /// Attributes of a whole tree of mounts.
    MountAttributes {
        "`mount_setattr` with `AT_RECURSIVE`", Since::Linux("5.12"),
        "bubblewrap", None
    }
    /// A proc of the pid namespace.
    Proc {
        "a fresh `/proc` in a pid namespace", Since::Linux("3.8"),
        "Landlock", None
    }
    /// A devpts of the session.
    Devpts {
        "a fresh `/dev/pts` in a user namespace (`newinstance`)", Since::Linux("3.9"),
        "Landlock", None
    }
    /// The root directory is replaced.
    PivotRoot {
        "`pivot_root`", Since::Linux("2.4.19"),
        "bubblewrap; then Landlock", None
    }
    /// Another user, no capabilities, `no_new_privs`.
    Credentials {
        "`setresuid`, `capset`, `PR_SET_NO_NEW_PRIVS`", Since::Linux("3.5"),
        "refuse", None
    }
    /// Filters on system calls.
    SeccompFilter {
        "seccomp filter, by `seccomp(2)`", Since::Linux("3.17"),
        "refuse", Some("use a kernel with CONFIG_SECCOMP_FILTER")
    }
    /// A supervisor that answers system calls, and is waited for whatever signals arrive.
    SeccompListener {
        "seccomp notification with `ADDFD` (5.9) and `WAIT_KILLABLE_RECV`", Since::Linux("5.19"),
        "mounts only: patterns that match at any depth, and names that do not exist yet, are not guarded; questions cannot wait",
        None
    }
    /// Every right on files, truncation among them.
    LandlockFiles {
        "Landlock: all rights on files, truncation among them", landlock(3, "6.2"),
        "the mounts alone. Before ABI 3 `truncate(2)` passes every domain, so none is built, and no claim counts one", None
    }
    /// `ioctl` on devices.
    LandlockDevices {
        "Landlock: device ioctls", landlock(5, "6.10"),
        "a private `/dev`", None
    }
    /// No signals to the outside.
    LandlockSignals {
        "Landlock: scope of signals", landlock(6, "6.12"),
        "a pid namespace", None
    }
    /// No abstract sockets of the outside.
    LandlockAbstractSockets {
        "Landlock: scope of abstract unix sockets", landlock(6, "6.12"),
        "a network namespace; without one seccomp refuses `connect` to unix sockets", None
    }
    /// The kernel's own log of denials.
    LandlockAudit {
        "Landlock: audit", landlock(7, "6.15"),
        "the reports of the other layers ([violations.md](violations.md))", None
    }
    /// Handles on processes.
    Pidfd {
        "`pidfd_open`", Since::Linux("5.3"),
        "`--worktree`, calls by `--calls` and sessions that govern themselves fail; elsewhere the handle that `clone` returns", None
    }
    /// Descriptors are kept from a program all at once.
    CloseRange {
        "`close_range` (5.9) with `CLOSE_RANGE_CLOEXEC`", Since::Linux("5.11"),
        "the descriptors in `/proc/self/fd`, one by one", None
    }
    /// Terminals.
    Terminal {
        "`/dev/ptmx` of the host", Since::Installed,
        "pipes", Some("mount devpts at /dev/pts")
    }
    /// Files of one user shown as those of another.
    IdmappedMounts {
        "id-mapped mounts", Since::Linux("5.12"),
        "files are owned by the agent's user", Some("let a user own the project")
    }
    /// A limit on memory.
    MemoryCgroup {
        "cgroup v2 with the memory controller, delegated", Since::Linux("4.5"),
        "none", Some("start it with `systemd-run --user --scope -p Delegate=yes ringfence run ..`")
    }
    /// A limit on processes.
    PidsCgroup {
        "cgroup v2 with the pids controller, delegated", Since::Linux("4.5"),
        "`RLIMIT_NPROC` in a user namespace", None
    }
    /// Layers of changes without privilege.
    Overlay {
        "overlayfs in a user namespace (`userxattr`)", Since::Linux("5.11"),
        "`--review` is refused", None
    }
    /// Paths that stay beneath a directory.
    Openat2 {
        "`openat2`", Since::Linux("5.6"),
        "file tools refuse; the broker and the start open each name by itself, without following links", None
    }
    /// Bubblewrap, of the system, and able to start something.
    Bubblewrap {
        "bubblewrap in a directory of the system that only the administrator can change", Since::Installed,
        "Landlock", Some("install the package bubblewrap")
    }
    /// A user for sessions that root starts.
    AgentUser {
        "the user `ringfence-agent`, for sessions of root's", Since::Installed,
        "the user behind `sudo`, or the owner of the project", Some("`ringfence doctor --fix agent-user` makes one")
    }
    /// Docker and its service.
    Docker {
        "Docker, and its service", Since::Installed,
        "no session in a container of it", Some("install it, and start its service")
    }
    /// Podman.
    Podman {
        "Podman", Since::Installed,
        "no session in a container of it", Some("install it")
    }
}

impl Feature {
    /// What helps, in a line.
    pub fn remedy(self) -> String {
        let row = self.row();
        match (row.remedy, row.since.linux()) {
            (Some(remedy), _) => remedy.to_owned(),
            (None, Some(version)) => format!("use Linux {version} or later"),
            (None, None) => "install it".to_owned(),
        }
    }
}

/// What becomes of a session where a feature is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Without {
    /// No session starts on the backend.
    NoStart,
    /// Sessions of this kind do not start. It is an ordinary kind, so that the backend counts as one that does not work.
    NoStartOf(&'static str),
    /// The session starts, and its receipt has these shortfalls.
    Shortfalls(&'static [Loss]),
    /// The session starts, and this does not work. No claim speaks of it.
    Lacks(&'static str),
    /// Something else does the same.
    Nothing,
}

/// A claim that a backend cannot keep without a feature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Loss {
    /// [`Claim::key`].
    pub claim: &'static str,
    /// The layer that would keep it.
    pub layer: LayerName,
    /// What is so without it. The reason why the feature is missing follows.
    pub consequence: &'static str,
}

impl Loss {
    /// The shortfall, where the feature is missing for this reason.
    pub(crate) fn shortfall(&self, claim: &Claim, reason: &str) -> Shortfall {
        Shortfall { claim: claim.clone(), layer: self.layer, reason: format!("{}: {reason}", self.consequence) }
    }
}

impl Without {
    /// Is the feature needed by ordinary sessions?
    const fn is_required(self) -> bool {
        matches!(self, Self::NoStart | Self::NoStartOf(_))
    }
}

/// What a feature is to a backend, or to a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FeatureUse {
    /// The feature.
    pub feature: Feature,
    /// What users call it.
    pub name: &'static str,
    /// What it carries.
    pub carries: &'static str,
    /// What becomes of a session where it is missing.
    pub without: Without,
}

const fn needs(feature: Feature, name: &'static str, carries: &'static str, without: Without) -> FeatureUse {
    FeatureUse { feature, name, carries, without }
}

const SECOND_WALL: &str = "a second wall";

/// The claim of Landlock behind another wall.
const fn second_wall(consequence: &'static [Loss]) -> FeatureUse {
    let carries = "Landlock holds what the view would let through";
    needs(Feature::LandlockFiles, SECOND_WALL, carries, Without::Shortfalls(consequence))
}

/// What the receipt says where the broker is missing, for whatever reason.
pub(crate) const NOT_GUARDED: &str = "names that do not exist yet are not guarded";

const MOUNTS_ALONE: &[Loss] =
    &[Loss { claim: "second-wall", layer: LayerName::Landlock, consequence: "the mounts stand alone" }];
const UNBROKERED: &[Loss] = &[Loss { claim: "protected-later", layer: LayerName::Broker, consequence: NOT_GUARDED }];
const UNLIMITED: &[Loss] =
    &[Loss { claim: "memory", layer: LayerName::Cgroup, consequence: "nothing limits the memory" }];
const UNCOUNTED: &[Loss] = &[Loss {
    claim: "pids",
    layer: LayerName::Cgroup,
    consequence: "without a user namespace the kernel counts every process of the user",
}];
const SIGNALS_PASS: &[Loss] = &[
    Loss { claim: "outsiders", layer: LayerName::Landlock, consequence: "processes outside can be signalled" },
    Loss { claim: "tree", layer: LayerName::Landlock, consequence: "the process that ends the others could be killed" },
];

const MEMORY: FeatureUse =
    needs(Feature::MemoryCgroup, "a memory limit", "`limits.memory` holds", Without::Shortfalls(UNLIMITED));
const COUNTED: FeatureUse = needs(
    Feature::PidsCgroup,
    "a process limit",
    "`limits.pids` by cgroup; without it the count is the user's",
    Without::Nothing,
);
const NOT_COUNTED: FeatureUse =
    needs(Feature::PidsCgroup, "a process limit", "`limits.pids` holds", Without::Shortfalls(UNCOUNTED));
const FILTER: FeatureUse = needs(
    Feature::SeccompFilter,
    "seccomp filter",
    "no new mounts or namespaces, no io_uring, no keyrings",
    Without::NoStart,
);
const CLOSE_RANGE: FeatureUse =
    needs(Feature::CloseRange, "close_range", "no descriptor is inherited (else: /proc/self/fd)", Without::Nothing);

/// In the order in which a start needs them, then what it can do without.
const NATIVE: &[FeatureUse] = &[
    needs(Feature::Namespaces, "namespaces", "no process outlives its session; no root is needed", Without::NoStart),
    needs(Feature::Loopback, "network of its own", "no host is reached but those that are allowed", Without::NoStart),
    needs(Feature::Mounts, "mounts", "the view: nothing else exists", Without::NoStart),
    needs(
        Feature::DetachedMounts,
        "detached mounts",
        "each place is mounted whole, also while a session runs",
        Without::NoStart,
    ),
    needs(
        Feature::MountAttributes,
        "recursive read-only",
        "read-only holds for what is mounted below, too",
        Without::NoStart,
    ),
    needs(Feature::Proc, "/proc of its own", "no process of the host is seen", Without::NoStart),
    needs(Feature::Devpts, "/dev/pts of its own", "no terminal of the host is reached", Without::NoStart),
    needs(Feature::PivotRoot, "pivot_root", "nothing leads back to the host's own root", Without::NoStart),
    needs(Feature::Credentials, "giving up rights", "an agent is never root, and has no capability", Without::NoStart),
    FILTER,
    needs(
        Feature::Gateway,
        "listed hosts",
        "listed hosts are reached, by name, without proxy settings",
        Without::NoStartOf("sessions that reach hosts or sockets, as those of the default policy do"),
    ),
    second_wall(MOUNTS_ALONE),
    needs(
        Feature::SeccompListener,
        "seccomp listener",
        "names that do not exist yet are guarded, and questions wait",
        Without::Shortfalls(UNBROKERED),
    ),
    needs(
        Feature::Pidfd,
        "pidfd",
        "signals reach only the intended process, even if its PID is reused",
        Without::Lacks("`--worktree` and calls by `--calls` fail"),
    ),
    CLOSE_RANGE,
    needs(
        Feature::Terminal,
        "a terminal",
        "interactive commands work as outside",
        Without::Lacks("interactive commands do not start"),
    ),
    needs(
        Feature::IdmappedMounts,
        "root's own projects",
        "files that root owns are worked on, and stay root's",
        Without::Lacks("a project of root's cannot be written"),
    ),
    MEMORY,
    COUNTED,
];

const BWRAP: &[FeatureUse] = &[
    needs(Feature::Bubblewrap, "bubblewrap", "a fence where only bubblewrap may make namespaces", Without::NoStart),
    FILTER,
    second_wall(MOUNTS_ALONE),
    CLOSE_RANGE,
    MEMORY,
    COUNTED,
];

const LANDLOCK: &[FeatureUse] = &[
    needs(Feature::LandlockFiles, "files", "reading, writing, cutting short, moving, executing", Without::NoStart),
    needs(Feature::SeccompFilter, "seccomp filter", "what Landlock does not see is refused", Without::NoStart),
    needs(
        Feature::LandlockDevices,
        "devices",
        "no control of devices that are not listed",
        Without::Lacks("devices that can be opened can be controlled"),
    ),
    needs(Feature::LandlockSignals, "signals", "no signal to processes outside", Without::Shortfalls(SIGNALS_PASS)),
    needs(
        Feature::LandlockAbstractSockets,
        "abstract sockets",
        "no abstract socket outside is reached (else: seccomp)",
        Without::Nothing,
    ),
    CLOSE_RANGE,
    MEMORY,
    NOT_COUNTED,
];

const DOCKER: &[FeatureUse] = &[
    needs(Feature::Docker, "docker", "for containers", Without::NoStart),
    FILTER,
    second_wall(MOUNTS_ALONE),
    MEMORY,
    NOT_COUNTED,
];

const PODMAN: &[FeatureUse] = &[
    needs(Feature::Podman, "podman", "for containers", Without::NoStart),
    FILTER,
    second_wall(MOUNTS_ALONE),
    MEMORY,
    NOT_COUNTED,
];

/// What no backend of the fallback order needs, and some commands do.
pub const BESIDE: &[FeatureUse] = &[
    needs(
        Feature::Openat2,
        "openat2",
        "file tools: no path leaves its anchor",
        Without::Lacks("file tools refuse to start"),
    ),
    needs(
        Feature::Overlay,
        "overlay",
        "for changes that are reviewed before they are applied",
        Without::Lacks("`--review` is refused"),
    ),
    needs(Feature::LandlockAudit, "Landlock audit", "denials in the kernel's log, for root only", Without::Nothing),
    needs(
        Feature::AgentUser,
        "agent user",
        "for root's sessions: a user that owns nothing else",
        Without::Lacks("they run as a user that owns other files, too"),
    ),
    needs(Feature::Docker, "docker", "for containers", Without::Lacks("no session in a container of Docker's")),
    needs(Feature::Podman, "podman", "for containers", Without::Lacks("no session in a container of Podman's")),
];

/// What a backend uses, in the order in which its start needs it.
pub const fn uses(rung: Rung) -> &'static [FeatureUse] {
    match rung {
        Rung::Native => NATIVE,
        Rung::Bwrap => BWRAP,
        // A root directory is built beforehand, and what is entered is held as files of the host are.
        Rung::LandlockOnly | Rung::Chroot => LANDLOCK,
        Rung::Docker => DOCKER,
        Rung::Podman => PODMAN,
    }
}

/// How a feature fared when it was tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finding {
    /// It works.
    Present {
        /// A version or the like; may be empty.
        detail: String,
    },
    /// It does not.
    Missing {
        /// Why.
        reason: String,
        /// What helps on this host, where more is known than [`Feature::remedy`].
        remedy: Option<String>,
    },
    /// There was no answer, in time or at all. That says nothing about the host.
    Unknown {
        /// What happened instead.
        reason: String,
        /// What helps to get an answer.
        remedy: Option<String>,
    },
    /// Nothing asked, or something before it failed.
    Untried,
}

impl Finding {
    /// It works.
    pub fn present(detail: impl Into<String>) -> Self {
        Self::Present { detail: detail.into() }
    }

    /// It does not.
    pub fn missing(reason: impl Into<String>) -> Self {
        Self::Missing { reason: reason.into(), remedy: None }
    }

    /// There was no answer.
    pub fn unknown(reason: impl Into<String>) -> Self {
        Self::Unknown { reason: reason.into(), remedy: None }
    }

    /// The same with what helps.
    #[must_use]
    pub fn helped_by(mut self, by: impl Into<String>) -> Self {
        if let Self::Missing { remedy, .. } | Self::Unknown { remedy, .. } = &mut self {
            *remedy = Some(by.into());
        }
        self
    }

    /// Does it work?
    pub fn is_present(&self) -> bool {
        matches!(self, Self::Present { .. })
    }

    /// Why it is missing or unknown.
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Missing { reason, .. } | Self::Unknown { reason, .. } => Some(reason),
            Self::Present { .. } | Self::Untried => None,
        }
    }
}

/// What was found out about a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FeatureFindings(BTreeMap<Feature, Finding>);

impl FeatureFindings {
    /// Nothing was tried yet.
    pub const fn untried() -> Self {
        Self(BTreeMap::new())
    }

    /// Notes how a feature fared.
    pub fn note(&mut self, feature: Feature, finding: Finding) {
        self.0.insert(feature, finding);
    }

    /// How a feature fared.
    pub fn of(&self, feature: Feature) -> &Finding {
        self.0.get(&feature).unwrap_or(&Finding::Untried)
    }

    /// Did anything ask for it?
    pub fn is_noted(&self, feature: Feature) -> bool {
        self.0.contains_key(&feature)
    }

    /// Is it known to be missing?
    pub fn lacks(&self, feature: Feature) -> bool {
        matches!(self.of(feature), Finding::Missing { .. })
    }

    /// The shortfall of a claim that a backend cannot keep, because a feature is missing.
    pub fn shortfall(&self, rung: Rung, claim: &Claim) -> Option<Shortfall> {
        uses(rung).iter().find_map(|using| {
            let Without::Shortfalls(losses) = using.without else { return None };
            let loss = losses.iter().find(|loss| loss.claim == claim.key())?;
            match self.of(using.feature) {
                Finding::Missing { reason, .. } => Some(loss.shortfall(claim, reason)),
                Finding::Present { .. } | Finding::Unknown { .. } | Finding::Untried => None,
            }
        })
    }
}

/// Can a session start on a backend?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// Yes.
    Works,
    /// No.
    Fails,
    /// There was no answer in time.
    Unknown,
}

/// Judges a backend by its features and by a whole start, where one was tried: that counts more than all of its parts.
pub fn answer(rung: Rung, findings: &FeatureFindings, start: &Finding) -> Answer {
    let required = uses(rung).iter().filter(|using| using.without.is_required());
    let found = required.map(|using| findings.of(using.feature));
    let mut all = found.chain((*start != Finding::Untried).then_some(start));
    if all.clone().any(|finding| matches!(finding, Finding::Missing { .. })) {
        return Answer::Fails;
    }
    if all.all(Finding::is_present) { Answer::Works } else { Answer::Unknown }
}

/// Why no session starts on a backend: the first feature that it needs and this host lacks.
pub fn obstacle(rung: Rung, findings: &FeatureFindings) -> Option<&str> {
    let mut required = uses(rung).iter().filter(|using| using.without.is_required());
    required.find_map(|using| findings.of(using.feature).reason().filter(|_| findings.lacks(using.feature)))
}

/// Why it is unknown whether sessions start on a backend: the first feature that it needs and that did not answer.
pub fn doubt(rung: Rung, findings: &FeatureFindings) -> Option<&str> {
    let mut required = uses(rung).iter().filter(|using| using.without.is_required());
    required.find_map(|using| findings.of(using.feature).reason().filter(|_| !findings.lacks(using.feature)))
}

/// The table of docs/kernel-features.md.
pub fn table() -> String {
    let head =
        "| feature | Linux | what it carries | needed by | where it is missing |\n| --- | --- | --- | --- | --- |\n";
    let rows = Feature::ALL.iter().map(|feature| {
        let FeatureRow { interface, since, fallback, .. } = feature.row();
        format!("| {interface} | {since} | {} | {} | {fallback} |\n", carries(*feature), needed_by(*feature))
    });
    rows.fold(head.to_owned(), |table, row| table + &row)
}

fn all_uses(feature: Feature) -> impl Iterator<Item = (Option<Rung>, &'static FeatureUse)> {
    let backends = Rung::ALL.iter().flat_map(|rung| uses(*rung).iter().map(|using| (Some(*rung), using)));
    backends.chain(BESIDE.iter().map(|using| (None, using))).filter(move |(_, using)| using.feature == feature)
}

fn carries(feature: Feature) -> String {
    let mut said: Vec<&str> = Vec::new();
    for (_, using) in all_uses(feature) {
        if !said.contains(&using.carries) {
            said.push(using.carries);
        }
    }
    said.join("; ")
}

/// The backends, those with the same loss together.
fn needed_by(feature: Feature) -> String {
    let mut groups: Vec<(String, Vec<&str>)> = Vec::new();
    for (rung, using) in all_uses(feature) {
        let loss = match using.without {
            Without::NoStart => "required".to_owned(),
            Without::NoStartOf(which) => format!("required by {which}"),
            Without::Shortfalls(losses) => {
                let keys: Vec<String> = losses.iter().map(|loss| format!("`{}`", loss.claim)).collect();
                format!("not held: {}", keys.join(", "))
            }
            Without::Lacks(what) => what.to_owned(),
            Without::Nothing => "nothing is lost".to_owned(),
        };
        let Some(rung) = rung else {
            // A backend that is asked for by its name says it already.
            if groups.is_empty() {
                groups.push((loss, Vec::new()));
            }
            continue;
        };
        match groups.iter_mut().find(|(said, _)| *said == loss) {
            Some((_, rungs)) => rungs.push(rung.word()),
            None => groups.push((loss, vec![rung.word()])),
        }
    }
    let said = groups.into_iter().map(|(loss, rungs)| match rungs.is_empty() {
        true => loss,
        false => format!("{}: {loss}", rungs.join(", ")),
    });
    said.collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The documentation is made from the table. Where this fails, what it prints belongs between the two marks.
    #[test]
    fn i1_the_documentation_is_the_table() {
        let page = include_str!("../../../docs/kernel-features.md");
        let (_, rest) = page.split_once("<!-- begin: table of features -->\n").unwrap();
        let (stands, _) = rest.split_once("<!-- end: table of features -->").unwrap();
        assert!(stands == table(), "docs/kernel-features.md: the table is\n{}", table());
    }

    /// Every feature is used by something, names are unique in a backend, and claims have names that exist.
    #[test]
    fn i1_the_table_is_whole() {
        for feature in Feature::ALL {
            assert!(all_uses(*feature).next().is_some(), "{feature:?} is used by nothing");
            assert!(!feature.row().interface.contains('|') && !feature.row().fallback.contains('|'));
        }
        for rung in Rung::ALL {
            let names: Vec<&str> = uses(*rung).iter().map(|using| using.name).collect();
            let mut unique = names.clone();
            unique.sort_unstable();
            unique.dedup();
            assert_eq!(unique.len(), names.len(), "{rung}");
            for using in uses(*rung) {
                if let Without::Shortfalls(losses) = using.without {
                    assert!(!losses.is_empty() && losses.iter().all(|loss| Claim::KEYS.contains(&loss.claim)));
                }
            }
        }
    }

    fn whole(rung: Rung) -> FeatureFindings {
        let mut findings = FeatureFindings::untried();
        uses(rung).iter().for_each(|using| findings.note(using.feature, Finding::present("")));
        findings
    }

    /// I1, K4: on every backend each missing feature costs what the table says, and an answer that did not come costs nothing.
    #[test]
    fn i1_i9_a_backend_is_as_good_as_the_features_that_it_needs() {
        let started = Finding::present("");
        for rung in Rung::ALL {
            assert_eq!(answer(*rung, &whole(*rung), &started), Answer::Works);
            assert_eq!(answer(*rung, &whole(*rung), &Finding::Untried), Answer::Works);
            assert_eq!(answer(*rung, &whole(*rung), &Finding::missing("x")), Answer::Fails);
            assert_eq!(answer(*rung, &whole(*rung), &Finding::unknown("x")), Answer::Unknown);
            for using in uses(*rung) {
                let mut findings = whole(*rung);
                findings.note(using.feature, Finding::missing("gone"));
                let is_required = using.without.is_required();
                let (is, obstacle_is) = if is_required { (Answer::Fails, Some("gone")) } else { (Answer::Works, None) };
                assert_eq!(answer(*rung, &findings, &started), is, "{rung}: {using:?}");
                assert_eq!(obstacle(*rung, &findings), obstacle_is, "{rung}: {using:?}");
                findings.note(using.feature, Finding::unknown("late"));
                assert_eq!(obstacle(*rung, &findings), None, "{rung}: {using:?}");
                let is = if is_required { Answer::Unknown } else { Answer::Works };
                assert_eq!(answer(*rung, &findings, &started), is, "{rung}: {using:?}");
            }
        }
    }

    /// What is known to fail is named before what is unknown.
    #[test]
    fn i9_a_refusal_is_named_before_a_timeout() {
        let mut findings = whole(Rung::Native);
        findings.note(Feature::Namespaces, Finding::unknown("late"));
        assert_eq!((obstacle(Rung::Native, &findings), doubt(Rung::Native, &findings)), (None, Some("late")));
        findings.note(Feature::Mounts, Finding::missing("refused"));
        assert_eq!(obstacle(Rung::Native, &findings), Some("refused"));
        assert_eq!(answer(Rung::Native, &findings, &Finding::present("")), Answer::Fails);
    }
}
