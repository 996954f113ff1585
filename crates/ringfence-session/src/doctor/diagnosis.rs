//! A host's verdict, and every feature with what it carries.

use std::fmt;
use std::path::Path;

use ringfence_surface::Shown;
use ringfence_sys::landlock::{AccessFs, Scope};
use rustix::io::Errno;

use super::host::{Host, Started};
use crate::probe::{Blocked, Caller, Landlock, NoBwrap, Step};

/// How far down a session starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rung {
    /// Namespaces and mounts of our own.
    Native,
    /// The same by bubblewrap.
    Bwrap,
    /// Landlock and a filter alone.
    Landlock,
}

impl Rung {
    /// Its name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Bwrap => "bwrap",
            Self::Landlock => "landlock",
        }
    }

    /// What it is.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Native => "the whole fence, by ringfence itself",
            Self::Bwrap => "the same view, by bubblewrap",
            Self::Landlock => "no view of its own, so names and sizes of other files show",
        }
    }
}

/// What a feature's absence costs on its rung.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Costs {
    /// The rung.
    Rung,
    /// Part of what the rung would hold.
    Claim,
    /// Nothing that is built today.
    Nothing,
}

/// How a feature fared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// It was tried and works.
    Works {
        /// A version or the like; may be empty.
        detail: String,
    },
    /// It was tried and does not.
    Missing {
        /// What was said.
        why: String,
    },
    /// It was tried, and there was no answer: that says nothing about the host.
    Unknown {
        /// What happened in the place of an answer.
        why: String,
    },
    /// Something before it failed.
    Untried,
}

impl State {
    /// Does it work?
    pub fn works(&self) -> bool {
        matches!(self, Self::Works { .. })
    }
}

/// One feature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Feature {
    /// Its name.
    pub name: &'static str,
    /// What it carries.
    pub carries: &'static str,
    /// How it fared.
    pub state: State,
    /// What its absence costs.
    pub costs: Costs,
    /// What can be done, in a line.
    pub remedy: Option<String>,
}

/// Can a session start?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// One did.
    Works,
    /// It is refused.
    Fails,
    /// There was no answer in time.
    Unknown,
}

/// A rung and its features.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// Which.
    pub rung: Rung,
    /// Can a session start on it?
    pub answer: Answer,
    /// In the order in which a start needs them.
    pub features: Vec<Feature>,
}

/// What a session on this host would be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// The first rung that works; nothing when `run` refuses.
    pub rung: Option<Rung>,
    /// Why each rung above it does not.
    pub because: Vec<String>,
    /// Rungs of which it is not known whether they work.
    pub unknown: Vec<Rung>,
    /// What is not held on the rung that works, though the rung could.
    pub lost: Vec<&'static str>,
    /// Is it the native rung, with its second wall?
    pub is_full: bool,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let because = self.because.join("; ");
        match self.rung {
            Some(Rung::Native) if self.lost.is_empty() => f.write_str("native: everything holds here"),
            Some(Rung::Native) => write!(f, "native: the fence holds here, without {}", self.lost.join(", ")),
            Some(Rung::Bwrap) => write!(f, "bwrap: falls back to bubblewrap, because {because}"),
            Some(Rung::Landlock) => write!(f, "landlock: falls back to Landlock and seccomp alone, because {because}"),
            None if self.unknown.is_empty() => write!(f, "none: `ringfence run` refuses here, because {because}"),
            None => write!(f, "unknown: no backend answered, because {because}"),
        }
    }
}

/// A host, judged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnosis {
    /// In a line.
    pub verdict: Verdict,
    /// Rung by rung.
    pub groups: Vec<Group>,
    /// What no rung needs, and some commands do.
    pub beside: Vec<Feature>,
}

/// Judges a host.
pub fn diagnose(host: &Host) -> Diagnosis {
    let groups =
        vec![group(Rung::Native, native(host)), group(Rung::Bwrap, bwrap(host)), group(Rung::Landlock, landlock(host))];
    Diagnosis { verdict: verdict(host, &groups), groups, beside: beside(host) }
}

/// A backend works if the features that it needs work.
fn group(rung: Rung, features: Vec<Feature>) -> Group {
    let mut needed = features.iter().filter(|feature| feature.costs == Costs::Rung).map(|feature| &feature.state);
    let answer = if needed.clone().any(|state| matches!(state, State::Missing { .. })) {
        Answer::Fails
    } else if needed.all(State::works) {
        Answer::Works
    } else {
        Answer::Unknown
    };
    Group { rung, answer, features }
}

fn verdict(host: &Host, groups: &[Group]) -> Verdict {
    let first = groups.iter().position(|group| group.answer == Answer::Works);
    let above = &groups[..first.unwrap_or(groups.len())];
    let is_lost = |feature: &&Feature| feature.costs == Costs::Claim && !feature.state.works();
    let first = first.map(|at| &groups[at]);
    let lost = first.map(|group| group.features.iter().filter(is_lost).map(|feature| feature.name).collect());
    Verdict {
        rung: first.map(|group| group.rung),
        because: above.iter().map(|group| because(host, group)).collect(),
        unknown: above.iter().filter(|group| group.answer == Answer::Unknown).map(|group| group.rung).collect(),
        lost: lost.unwrap_or_default(),
        is_full: first.is_some_and(|group| group.rung == Rung::Native)
            && host.landlock.is_ok_and(|landlock| landlock.is_sufficient()),
    }
}

/// Why a backend does not work, in a sentence: the result of its own probe, otherwise the error of its start.
fn because(host: &Host, group: &Group) -> String {
    let found = match group.rung {
        Rung::Native => host.native.as_ref().err().map(ToString::to_string),
        Rung::Bwrap => host.bwrap.as_ref().err().map(ToString::to_string),
        Rung::Landlock => match (&host.landlock, host.seccomp.filter) {
            (Err(errno), _) => Some(format!("no Landlock: {}", said(*errno))),
            (Ok(_), Err(errno)) => Some(format!("no seccomp filter: {}", said(errno))),
            (Ok(found), Ok(())) if !found.is_sufficient() => Some("this Landlock is too old".to_owned()),
            (Ok(_), Ok(())) => None,
        },
    };
    let (name, started) = (group.rung.name(), host.starts.of(group.rung));
    let found = found.unwrap_or_else(|| match started {
        Started::Works => format!("{name} works"),
        Started::Fails(why) => format!("{name} does not start: {why}"),
        Started::Unknown(why) | Started::Untried(why) => why.clone(),
    });
    if group.answer == Answer::Unknown { format!("it is unknown whether {name} works: {found}") } else { found }
}

/// An error in words.
fn said(errno: Errno) -> String {
    std::io::Error::from(errno).to_string()
}

fn shown(path: &Path) -> String {
    Shown(path.as_os_str().as_encoded_bytes()).to_string()
}

fn works(detail: impl Into<String>) -> State {
    State::Works { detail: detail.into() }
}

fn tried(result: Result<(), Errno>) -> State {
    match result {
        Ok(()) => works(""),
        Err(errno) => State::Missing { why: said(errno) },
    }
}

/// A whole session, as `run` starts it. What its parts say is the reason; this is the proof.
fn whole_start(host: &Host, rung: Rung) -> Feature {
    let state = match host.starts.of(rung) {
        Started::Works => works(""),
        Started::Fails(why) => State::Missing { why: why.clone() },
        Started::Unknown(why) | Started::Untried(why) => State::Unknown { why: why.clone() },
    };
    let costs = if matches!(host.starts.of(rung), Started::Untried(_)) { Costs::Nothing } else { Costs::Rung };
    Feature { name: "a whole start", carries: "a command runs in it and ends", state, costs, remedy: None }
}

/// The parts of a native start: their steps, and what they carry.
const PARTS: &[(&str, &[Step], &str)] = &[
    ("namespaces", &[Step::Clone, Step::Maps], "no process outlives its session; no root is needed"),
    ("network of its own", &[Step::Loopback], "no host is reached but those that are allowed"),
    (
        "mounts",
        &[Step::Propagation, Step::Tmpfs, Step::OpenTree, Step::Attributes, Step::MoveMount],
        "the view: nothing else exists, read-only holds below",
    ),
    ("/proc of its own", &[Step::Proc], "no process of the host is seen"),
    ("/dev/pts of its own", &[Step::Devpts], "no terminal of the host is reached"),
    ("pivot_root", &[Step::Pivot], "nothing leads back to the host's own root"),
    ("giving up rights", &[Step::Identity, Step::Capabilities], "an agent is never root, and has no capability"),
    ("seccomp filter", &[Step::Seccomp], "no new mounts or namespaces, no io_uring, no keyrings"),
];

fn native(host: &Host) -> Vec<Feature> {
    let blocked = host.native.as_ref().err();
    let mut features: Vec<Feature> = PARTS.iter().map(|part| part_of(part, blocked)).collect();
    let wall = match host.landlock {
        Ok(landlock) if landlock.is_sufficient() => works(format!("ABI {}", landlock.supported.abi)),
        Ok(landlock) => State::Missing { why: format!("ABI {} is too little", landlock.supported.abi) },
        Err(errno) => State::Missing { why: said(errno) },
    };
    let mut add = |name, carries, state: State, costs, remedy: &str| {
        let remedy = (!state.works() && !remedy.is_empty()).then(|| remedy.to_owned());
        features.push(Feature { name, carries, state, costs, remedy });
    };
    let remedy = host.landlock.err().map_or_else(String::new, |errno| no_landlock(errno, host));
    add("a second wall", "Landlock holds what the view would let through", wall, Costs::Claim, &remedy);
    let newer = "use Linux 5.3 or later";
    add("pidfd", "no signal reaches a stranger", tried(host.pidfd), Costs::Claim, newer);
    add("close_range", "no descriptor is inherited (else: /proc/self/fd)", tried(host.close_range), Costs::Nothing, "");
    let devpts = "mount devpts at /dev/pts";
    add("a terminal", "interactive commands work as outside", tried(host.pty), Costs::Claim, devpts);
    if let Some(idmap) = host.idmap {
        let remedy = match idmap {
            Err(Errno::INVAL) => "put the project on ext4, xfs or btrfs, or let a user own it",
            _ => "let a user own the project",
        };
        let carries = "files that root owns are worked on, and stay root's";
        add("root's own projects", carries, tried(idmap), Costs::Claim, remedy);
    }
    add("a memory limit", "`limits.memory` holds", limit(host, "memory"), Costs::Claim, &delegation(host));
    // Without the controller the kernel's count of the user's processes takes its place.
    let carries = "`limits.pids` by cgroup; without it the count is the user's";
    add("a process limit", carries, limit(host, "pids"), Costs::Nothing, "");
    features.push(whole_start(host, Rung::Native));
    features
}

/// One part of the start: it works when the start came past it.
fn part_of(&(name, steps, carries): &(&'static str, &[Step], &'static str), blocked: Option<&Blocked>) -> Feature {
    let (state, remedy) = match blocked {
        None => (works(""), None),
        Some(blocked) if steps.contains(&blocked.step) && blocked.cause.is_no_answer() => {
            (State::Unknown { why: blocked.to_string() }, Some(blocked.cause.remedy()))
        }
        Some(blocked) if steps.contains(&blocked.step) => {
            (State::Missing { why: blocked.to_string() }, Some(blocked.cause.remedy()))
        }
        // Steps are made in order; one that comes before the failed one in some part was made.
        Some(blocked) if steps.iter().all(|step| *step < blocked.step) => (works(""), None),
        Some(_) => (State::Untried, None),
    };
    Feature { name, carries, state, costs: Costs::Rung, remedy }
}

fn limit(host: &Host, controller: &str) -> State {
    let cgroup = &host.cgroup;
    if cgroup.limits(controller) {
        return works("");
    }
    let why = match &cgroup.dir {
        None => "cgroup version 2 is not mounted".to_owned(),
        Some(_) if !cgroup.controllers.iter().any(|known| known == controller) => {
            format!("the {controller} controller is not given to this cgroup")
        }
        Some(_) => "this cgroup is not ours to divide".to_owned(),
    };
    State::Missing { why }
}

/// What makes a cgroup ours.
fn delegation(host: &Host) -> String {
    let cgroup = &host.cgroup;
    if cgroup.dir.is_none() {
        return "boot with systemd.unified_cgroup_hierarchy=1, or mount cgroup2".to_owned();
    }
    if !cgroup.controllers.iter().any(|known| known == "memory") {
        return "`systemctl edit user@.service`, with Delegate=memory pids; on cgroup version 1, boot with \
                systemd.unified_cgroup_hierarchy=1"
            .to_owned();
    }
    let user = if host.signs.caller == Caller::User { "--user " } else { "" };
    format!("start it with `systemd-run {user}--scope -p Delegate=yes ringfence run ..`")
}

pub(super) fn no_landlock(errno: Errno, host: &Host) -> String {
    match errno {
        Errno::OPNOTSUPP => {
            let now = host.modules.as_ref().map(|list| format!(" (now: {list})")).unwrap_or_default();
            format!("add landlock to the kernel's lsm= parameter{now}")
        }
        Errno::NOSYS if host.signs.filtered => "permit landlock_* in the seccomp profile of the container".to_owned(),
        Errno::NOSYS => "use Linux 6.2 or later with CONFIG_SECURITY_LANDLOCK".to_owned(),
        Errno::TOOBIG => "start it outside: sixteen Landlock domains are around it already".to_owned(),
        _ => "permit landlock_* where something around this process refuses it".to_owned(),
    }
}

fn bwrap(host: &Host) -> Vec<Feature> {
    let state = match &host.bwrap {
        Ok(bwrap) => works(format!("{} at {}", bwrap.version, shown(&bwrap.path))),
        Err(missing @ NoBwrap::TimedOut { .. }) => State::Unknown { why: missing.to_string() },
        Err(missing) => State::Missing { why: missing.to_string() },
    };
    let remedy = (!state.works()).then(|| match (&host.native, &host.bwrap) {
        (Ok(()), _) => "not needed, since native works".to_owned(),
        (Err(_), Err(NoBwrap::Absent)) => "install the package bubblewrap".to_owned(),
        (Err(_), Err(NoBwrap::TimedOut { .. })) => "ask again when this host has less to do".to_owned(),
        (Err(blocked), _) => blocked.cause.remedy(),
    });
    let carries = "a fence where only bubblewrap may make namespaces";
    vec![Feature { name: "bubblewrap", carries, state, costs: Costs::Rung, remedy }, whole_start(host, Rung::Bwrap)]
}

fn landlock(host: &Host) -> Vec<Feature> {
    let landlock = host.landlock;
    let errata = |found: Landlock| found.errata.map_or_else(String::new, |bits| format!(", errata {bits:#x}"));
    let right = |has: &dyn Fn(Landlock) -> bool, since: &str| match landlock {
        Ok(found) if has(found) => works(""),
        // The number alone is no promise, and is said so that nobody takes it for one.
        Ok(found) => State::Missing { why: format!("ABI {} here does not take it ({since})", found.supported.abi) },
        Err(errno) => State::Missing { why: said(errno) },
    };
    let files = match landlock {
        Ok(found) if found.is_sufficient() => works(format!("ABI {}{}", found.supported.abi, errata(found))),
        _ => right(&|found| found.is_sufficient(), "Linux 6.2"),
    };
    let feature = |name, carries, state, costs| Feature { name, carries, state, costs, remedy: None };
    let mut features = vec![
        feature("files", "reading, writing, cutting short, moving, executing", files, Costs::Rung),
        feature("seccomp filter", "what Landlock does not see is refused", tried(host.seccomp.filter), Costs::Rung),
        feature(
            "devices",
            "no control of devices that are not listed",
            right(&|found| found.supported.fs.contains(AccessFs::IOCTL_DEV), "Linux 6.10"),
            Costs::Claim,
        ),
        feature(
            "signals",
            "no signal to processes outside",
            right(&|found| found.supported.scoped.contains(Scope::SIGNAL), "Linux 6.12"),
            Costs::Claim,
        ),
        feature(
            "abstract sockets",
            "no abstract socket outside is reached",
            right(&|found| found.supported.scoped.contains(Scope::ABSTRACT_UNIX_SOCKET), "Linux 6.12"),
            Costs::Claim,
        ),
        whole_start(host, Rung::Landlock),
    ];
    if let Err(errno) = landlock {
        features[0].remedy = Some(no_landlock(errno, host));
    }
    features
}

fn beside(host: &Host) -> Vec<Feature> {
    let feature = |name, carries, state| Feature { name, carries, state, costs: Costs::Nothing, remedy: None };
    let mut features = vec![
        feature("openat2", "file tools: no path leaves its anchor", tried(host.openat2)),
        feature(
            "seccomp listener",
            "for names that do not exist yet, and questions that wait",
            tried(host.seccomp.listener),
        ),
        feature("overlay", "for changes that are reviewed before they are applied", tried(host.overlay)),
    ];
    if host.signs.caller == Caller::Root {
        let state = if host.agent_user { works("") } else { State::Missing { why: "there is none".to_owned() } };
        let remedy = (!host.agent_user).then(|| "`ringfence doctor --fix agent-user` makes one".to_owned());
        let carries = "for root's sessions: a user that owns nothing else";
        features.push(Feature { remedy, ..feature("agent user", carries, state) });
    }
    for engine in &host.engines {
        let state = match &engine.version {
            Ok(version) => works(format!("{version} at {}", shown(&engine.path))),
            Err(why) => State::Missing { why: why.clone() },
        };
        features.push(feature(engine.name, "for containers", state));
    }
    features
}
