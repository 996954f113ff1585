//! What was asked, what falls short, what holds.

use std::fmt;

use ringfence_surface::policy::View;
use ringfence_surface::{Effect, Governance, Sense, Surface};

/// One thing the Surface asks of whoever enforces it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Claim {
    /// Nothing but the Surface can be read.
    NothingElseIsReadable,
    /// Nothing but the Surface can be written.
    NothingElseIsWritable,
    /// These paths can neither be read nor written.
    Denied {
        /// The rule's pattern.
        pattern: String,
    },
    /// These paths cannot be written, existing or not.
    Protected {
        /// The rule's pattern.
        pattern: String,
    },
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

impl fmt::Display for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NothingElseIsReadable => f.write_str("nothing else is readable"),
            Self::NothingElseIsWritable => f.write_str("nothing else is writable"),
            Self::Denied { pattern } => write!(f, "deny {pattern}"),
            Self::Protected { pattern } => write!(f, "protect {pattern}"),
            Self::OnlyTheseHosts { hosts } if hosts.is_empty() => f.write_str("no network"),
            Self::OnlyTheseHosts { hosts } => write!(f, "no network but {}", hosts.join(", ")),
            Self::CleanEnvironment => f.write_str("only named variables"),
            Self::TreeEndsWithSession => f.write_str("every process ends with the session"),
            Self::Memory { bytes } => write!(f, "at most {bytes} bytes of memory"),
            Self::Processes { count } => write!(f, "at most {count} processes"),
            Self::Time { seconds } => write!(f, "at most {seconds} s"),
        }
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
    /// The process namespace.
    Processes,
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

/// How a claim fared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kept {
    /// These layers hold it, each on its own.
    By(Vec<LayerName>),
    /// Nobody does, and the user accepted that.
    Not(Vec<Shortfall>),
}

/// One claim and how it fared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReceiptLine {
    /// What was asked.
    pub claim: Claim,
    /// How it fared.
    pub kept: Kept,
}

/// What holds in a session, claim by claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receipt {
    /// One line for each claim, in the order of the plan.
    pub lines: Vec<ReceiptLine>,
}

/// Everything a Surface asks, each to be carried by a layer or reported short. A self-governing session asks nothing of the
/// operating system. There are as many as rules: whoever starts a session and tells nobody has no use for them.
pub fn claims(surface: &Surface) -> Vec<Claim> {
    let mut claims = vec![Claim::CleanEnvironment];
    if matches!(surface.governance(), Governance::SelfGoverning(_)) {
        return claims;
    }
    if surface.view() == View::Surface {
        claims.push(Claim::NothingElseIsReadable);
    }
    claims.push(Claim::NothingElseIsWritable);
    for rule in surface.rules().iter().filter(|rule| rule.sense == Sense::Rule) {
        match rule.effect {
            Effect::Escape | Effect::Deny => claims.push(Claim::Denied { pattern: rule.pattern.to_string() }),
            Effect::Protect => claims.push(Claim::Protected { pattern: rule.pattern.to_string() }),
            Effect::Write(_) | Effect::Read(_) | Effect::Ask | Effect::ThirdParty | Effect::Withheld => {}
        }
    }
    let hosts = surface.reach().hosts.iter().map(|entry| entry.value.to_string()).collect();
    claims.push(Claim::OnlyTheseHosts { hosts });
    claims.push(Claim::TreeEndsWithSession);
    let caps = surface.caps();
    claims.extend(caps.memory.as_ref().map(|cap| Claim::Memory { bytes: cap.value }));
    claims.extend(caps.pids.as_ref().map(|cap| Claim::Processes { count: cap.value }));
    claims.extend(caps.wall.as_ref().map(|cap| Claim::Time { seconds: cap.value.as_secs() }));
    claims
}
