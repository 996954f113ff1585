//! What is given to a session while it runs: a place, or a way out.
//!
//! A place is to the session what a reference on its command line would have been: what is denied stays denied, by whatever rule,
//! and what floats is searched for in it too. One that is given to be written has in it what is protected anywhere. A way out is
//! what an entry of `[network]` would have been.

use std::fmt;

use crate::decide::{Access, Because};
use crate::host::{HostError, HostPattern};
use crate::path::AbsPath;
use crate::pattern::Pattern;
use crate::resolve::{Layer, Level};
use crate::source::Source;
use crate::surface::{Effect, Role, RootKind, Rule, Sense, Sourced, Surface};

/// Somewhere that can be reached.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Way {
    /// Hosts, as `[network] allow` names them.
    Host(HostPattern),
    /// A port of the host's own loopback, as `[network] host_ports` names it.
    HostPort(u16),
}

impl Way {
    /// Reads `host[:port]`, or `localhost:port`, which is the host's own.
    ///
    /// # Errors
    /// As [`HostPattern::parse`].
    pub fn parse(text: &str) -> Result<Self, HostError> {
        let own = ["localhost:", "127.0.0.1:", "[::1]:"].iter().find_map(|own| text.strip_prefix(own));
        let is_plain = |port: &&str| port.bytes().all(|byte| byte.is_ascii_digit()) && !port.starts_with('0');
        match own.filter(is_plain).and_then(|port| port.parse().ok()) {
            Some(port) => Ok(Self::HostPort(port)),
            None => HostPattern::parse(text).map(Self::Host),
        }
    }

    /// May it be given where this administrator's file holds?
    ///
    /// # Errors
    /// What it would pass.
    pub fn below_ceiling(&self, layers: &[Layer]) -> Result<(), NotGiven> {
        let Some(network) =
            layers.iter().find(|layer| layer.level == Level::Managed).and_then(|layer| layer.file.network.as_ref())
        else {
            return Ok(());
        };
        let beyond = |word: &str| NotGiven::BeyondCeiling { what: self.to_string(), limit: format!("network.{word}") };
        match self {
            Self::Host(pattern) => match &network.allow {
                Some(allow) if !allow.iter().any(|rule| rule.value.covers(pattern)) => Err(beyond("allow")),
                _ => Ok(()),
            },
            Self::HostPort(port) => match &network.host_ports {
                Some(ports) if !ports.iter().any(|own| own.value.0 == *port) => Err(beyond("host_ports")),
                _ => Ok(()),
            },
        }
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host(pattern) => write!(f, "{pattern}"),
            Self::HostPort(port) => write!(f, "localhost:{port}"),
        }
    }
}

/// Why a place is not given.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotGiven {
    /// A rule takes it away, which no grant undoes.
    #[error("{path} is denied: {rule}")]
    Denied {
        /// Which.
        path: AbsPath,
        /// By what.
        rule: String,
    },
    /// The session has its own files in that place.
    #[error("{path} lies in {place}, of which the session has its own")]
    Own {
        /// Which.
        path: AbsPath,
        /// What the session has.
        place: String,
    },
    /// It is there already.
    #[error("{path} can be {done} already: {rule}")]
    Already {
        /// Which.
        path: AbsPath,
        /// `read` or `written`.
        done: &'static str,
        /// By what.
        rule: String,
    },
    /// It is reached already.
    #[error("{what} can be reached already: {source_of_it}")]
    Reached {
        /// Which.
        what: String,
        /// By what.
        source_of_it: Source,
    },
    /// A network cannot be listened on as such while others listen at some of its addresses.
    #[error("{what} is a whole network, which is given at the start or not at all")]
    Network {
        /// Which.
        what: String,
    },
    /// The administrator's file has a limit.
    #[error("{what} is beyond the managed policy's `{limit}`")]
    BeyondCeiling {
        /// Which.
        what: String,
        /// Which list.
        limit: String,
    },
}

impl Surface {
    /// The Surface with one more place to read. `path` must be real: links on the way already followed.
    ///
    /// # Errors
    /// [`NotGiven`].
    pub fn with_read(&self, path: &AbsPath) -> Result<Self, NotGiven> {
        self.with_place(path, Access::Read)
    }

    /// The Surface with one more place to write. What is protected anywhere stays so in it, and the place itself is none that is
    /// protected.
    ///
    /// # Errors
    /// [`NotGiven`].
    pub fn with_write(&self, path: &AbsPath) -> Result<Self, NotGiven> {
        self.with_place(path, Access::Write)
    }

    fn with_place(&self, path: &AbsPath, access: Access) -> Result<Self, NotGiven> {
        let before = self.decide(path, access);
        let rule = before.because.to_string();
        let done = match access {
            Access::Read => "read",
            Access::Write => "written",
        };
        match before.because {
            Because::Rule(rule) if before.is_allowed() && is_own(rule) => {
                return Err(NotGiven::Own { path: path.clone(), place: rule.pattern.to_string() });
            }
            _ if before.is_allowed() => return Err(NotGiven::Already { path: path.clone(), done, rule }),
            Because::OnlyReadable(rule) if matches!(rule.effect, Effect::Read(Role::Private | Role::Scratch)) => {
                let rule = format!("{rule} exists only inside");
                return Err(NotGiven::Denied { path: path.clone(), rule });
            }
            Because::View(_) | Because::OnlyReadable(_) => {}
            Because::Rule(_) => return Err(NotGiven::Denied { path: path.clone(), rule }),
        }
        let mut parts = self.parts.clone();
        let list = parts.rules.iter().map(|rule| rule.list).max().unwrap_or(0).saturating_add(1);
        parts.rules.push(Rule {
            effect: match access {
                Access::Read => Effect::Read(Role::Reference),
                Access::Write => Effect::Write(Role::Write),
            },
            sense: Sense::Rule,
            pattern: Pattern::path(path.clone()),
            text: path.to_string().into(),
            source: SOURCE,
            list,
        });
        parts.roots.push((path.clone(), RootKind::Granted));
        parts.roots.sort_by(|one, other| one.0.cmp(&other.0));
        let given = Self::new(parts);
        // As a root it is searched by what floats, and may itself be what is looked for.
        let verdict = given.decide(path, access);
        if verdict.is_allowed() {
            return Ok(given);
        }
        Err(NotGiven::Denied { path: path.clone(), rule: verdict.because.to_string() })
    }

    /// The Surface with one more way out.
    ///
    /// # Errors
    /// [`NotGiven`].
    pub fn with_way(&self, way: &Way) -> Result<Self, NotGiven> {
        let what = way.to_string();
        let mut parts = self.parts.clone();
        let reach = &mut parts.reach;
        match way {
            Way::Host(pattern) if pattern.is_network() && pattern.single_address().is_none() => {
                return Err(NotGiven::Network { what });
            }
            Way::Host(pattern) => match reach.hosts.iter().find(|entry| entry.value.covers(pattern)) {
                Some(entry) => return Err(NotGiven::Reached { what, source_of_it: entry.source.clone() }),
                None => reach.hosts.push(Sourced { value: pattern.clone(), source: SOURCE }),
            },
            Way::HostPort(port) => match reach.host_ports.iter().find(|entry| entry.value == *port) {
                Some(entry) => return Err(NotGiven::Reached { what, source_of_it: entry.source.clone() }),
                None => reach.host_ports.push(Sourced { value: *port, source: SOURCE }),
            },
        }
        Ok(Self::new(parts))
    }
}

fn is_own(rule: &Rule) -> bool {
    matches!(rule.effect, Effect::Read(Role::Private | Role::Scratch) | Effect::Write(Role::Private | Role::Scratch))
}

/// Where it comes from.
const SOURCE: Source = Source::Flag { name: "ringfence grant" };
