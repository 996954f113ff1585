//! From what a command asked for to the smallest change of a policy that lets it have that.
//!
//! What is denied by a rule, built in or written down, is never proposed: it is said that it was asked for and refused. Nor is
//! anything that would not take part, as beyond the administrator's ceiling. What is proposed is what was asked for and a little
//! around it, by rules that are all here: many files of one directory are that directory, a host of a known group is that group, a
//! toolchain's places are its pack.
//!
//! Nothing here knows whether what was asked for was needed: only that it was asked for and did not come about.

mod edit;
mod generalise;
mod risk;
mod unused;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::curated::groups::GROUPS;
use crate::curated::packs::{PACKS, Pack};
use crate::decide::{Access, Because, Verdict};
use crate::host::{HostPattern, HostTarget};
use crate::path::{AbsPath, Shown};
use crate::policy::Sense;
use crate::surface::{Effect, Role, Surface};

pub use edit::{NotEdited, add, remove};
pub use generalise::Ground;
pub use risk::Risk;
pub use unused::{Grant, Kept, Session, Unused, gained, unused};

/// What stands at a path on the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Thing {
    /// A file, or anything else that is no directory.
    File,
    /// A directory.
    Directory,
}

/// Something that a command asked for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Want {
    /// To read something that is there on the host, every link followed.
    Read {
        /// Where.
        path: AbsPath,
        /// What.
        thing: Thing,
    },
    /// To write.
    Write {
        /// Where.
        path: AbsPath,
        /// What could be named to allow it: itself, or the nearest directory that is there.
        place: AbsPath,
        /// What that is.
        thing: Thing,
    },
    /// To reach a host. Without a port only its address was asked for.
    Host {
        /// Its name, or its address.
        name: String,
        /// At which port.
        port: Option<u16>,
    },
    /// To connect to a socket of the host.
    Socket {
        /// Where.
        path: AbsPath,
    },
}

/// Something that a command asked for, by whom and how often.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// What.
    pub want: Want,
    /// The programs, as far as they are known, and how often each.
    pub programs: BTreeMap<String, u64>,
    /// How often in all.
    pub times: u64,
}

/// Where in a policy a line goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    /// `extends`.
    Extends,
    /// `[files] write`.
    Write,
    /// `[files] read`.
    Read,
    /// `[network] allow`.
    Allow,
    /// `[network] sockets`.
    Sockets,
    /// `[network] host_ports`.
    HostPorts,
}

impl Key {
    /// The table and the key in it.
    pub fn names(self) -> (Option<&'static str>, &'static str) {
        match self {
            Self::Extends => (None, "extends"),
            Self::Write => (Some("files"), "write"),
            Self::Read => (Some("files"), "read"),
            Self::Allow => (Some("network"), "allow"),
            Self::Sockets => (Some("network"), "sockets"),
            Self::HostPorts => (Some("network"), "host_ports"),
        }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.names() {
            (Some(table), key) => write!(f, "{table}.{key}"),
            (None, key) => f.write_str(key),
        }
    }
}

/// One line that is proposed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Addition {
    /// Where it goes.
    pub key: Key,
    /// What is written there.
    pub value: String,
    /// Who asked for it, and how often.
    pub reason: String,
    /// What it opens.
    pub risk: Risk,
    /// Why it is of that risk.
    pub because: &'static str,
    /// For what it was asked: places in the list that it was made from.
    pub covers: Vec<usize>,
}

/// Something that was asked for and is not proposed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// Its place in the list.
    pub asked: usize,
    /// Why.
    pub why: String,
}

/// What is proposed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proposal {
    /// The lines, in the order of their keys.
    pub additions: Vec<Addition>,
    /// What was asked for and stays closed.
    pub refused: Vec<Refused>,
}

/// More lines are not proposed. Whether each is needed is asked of a whole policy, and a command may ask for anything.
const MOST_LINES: usize = 200;

/// A Surface with some lines added to the policy; none where such a policy cannot be used.
pub type Try<'t> = &'t mut dyn FnMut(&[Addition]) -> Option<Surface>;

/// The smallest change by which everything that was asked for and may be given is allowed. `base` is what holds without it.
pub fn propose(base: &Surface, asked: &[Asked], ground: &Ground<'_>, with: Try<'_>) -> Proposal {
    let mut open: BTreeSet<usize> = BTreeSet::new();
    let mut refused = Vec::new();
    for (at, one) in asked.iter().enumerate() {
        match standing(base, &one.want) {
            Standing::Allowed => {}
            Standing::Open => {
                open.insert(at);
            }
            Standing::Closed(why) => refused.push(Refused { asked: at, why }),
        }
    }
    let mut wanted = open.clone();
    let mut additions = packs(base, asked, &mut open, with);
    let (places, too_much) = paths(base, asked, &open, &refused, ground);
    additions.extend(places);
    refused.extend(too_much);
    additions.extend(hosts(asked, &open));
    additions.sort_by(|one, other| (one.key, &one.value).cmp(&(other.key, &other.value)));
    additions.dedup_by(|one, other| (one.key, &one.value) == (other.key, &other.value));
    for at in additions.split_off(additions.len().min(MOST_LINES)).into_iter().flat_map(|addition| addition.covers) {
        wanted.remove(&at);
        let why =
            format!("it is beyond the first {MOST_LINES} lines, and nobody reads so many; name what is needed of it");
        refused.push(Refused { asked: at, why });
    }
    settle(asked, &wanted, additions, refused, with)
}

/// Drops what does not help, and says of what stays closed that it does.
fn settle(
    asked: &[Asked],
    wanted: &BTreeSet<usize>,
    mut additions: Vec<Addition>,
    mut refused: Vec<Refused>,
    with: Try<'_>,
) -> Proposal {
    // A line that makes the whole policy unusable is none.
    let mut usable = Vec::new();
    for addition in additions.drain(..) {
        usable.push(addition);
        if with(&usable).is_none() {
            usable.pop();
        }
    }
    let opened = |surface: Option<Surface>| -> BTreeSet<usize> {
        let is_allowed = |at: &&usize| {
            surface.as_ref().is_some_and(|surface| standing(surface, &asked[**at].want) == Standing::Allowed)
        };
        wanted.iter().filter(is_allowed).copied().collect()
    };
    let all = opened(with(&usable));
    let mut at = 0;
    while at < usable.len() {
        let without: Vec<Addition> =
            usable.iter().enumerate().filter(|(n, _)| *n != at).map(|(_, a)| a.clone()).collect();
        if opened(with(&without)) == all {
            usable = without;
        } else {
            at += 1;
        }
    }
    for addition in &mut usable {
        addition.covers.retain(|at| all.contains(at));
    }
    let told: BTreeSet<usize> = refused.iter().map(|refused| refused.asked).collect();
    refused.extend(wanted.iter().filter(|at| !all.contains(at) && !told.contains(at)).map(|at| {
        let why = match &asked[*at].want {
            Want::Host { .. } => "the administrator's policy does not let it be named, or it cannot be named",
            _ => {
                "too much would be opened with it, it cannot be named, or the administrator's policy does not let it be"
            }
        };
        Refused { asked: *at, why: why.to_owned() }
    }));
    refused.sort_by_key(|refused| refused.asked);
    Proposal { additions: usable, refused }
}

/// How something that was asked for stands.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Standing {
    Allowed,
    /// Nobody mentions it.
    Open,
    /// A rule says no.
    Closed(String),
}

/// Why what the kernel says of the machine is not proposed.
pub const OF_THE_MACHINE: &str = "what the kernel says of the machine: as a rule programs do without it";

/// Files that are none. Many programs look at some of them and go on where they are not there.
const OF_THE_KERNEL: &[&[u8]] = &[b"dev", b"proc", b"sys"];

fn is_of_the_kernel(path: &AbsPath) -> bool {
    OF_THE_KERNEL.contains(&path.components().next().unwrap_or_default())
}

fn standing(surface: &Surface, want: &Want) -> Standing {
    let of = |allowed: bool| if allowed { Standing::Allowed } else { Standing::Open };
    match want {
        Want::Read { path, .. } => of_file(path, of_verdict(&surface.decide(path, Access::Read))),
        Want::Write { path, .. } => of_file(path, of_verdict(&surface.decide(path, Access::Write))),
        Want::Socket { path } => match surface.decide_socket(path) {
            Some(_) => Standing::Allowed,
            // What carries authority is denied by name; what somebody may name is merely not there.
            None => match of_verdict(&surface.decide(path, Access::Read)) {
                Standing::Closed(why) => Standing::Closed(why),
                Standing::Allowed | Standing::Open => Standing::Open,
            },
        },
        Want::Host { name, port } => match HostTarget::new(name, port.unwrap_or(443)) {
            Ok(target) if port.is_none() => {
                of(surface.reach().hosts.iter().any(|entry| entry.value.matches_host(&target)))
            }
            Ok(target) => of(surface.decide_host(&target).is_some()),
            Err(why) => Standing::Closed(why.to_string()),
        },
    }
}

fn of_file(path: &AbsPath, standing: Standing) -> Standing {
    match standing {
        Standing::Open if is_of_the_kernel(path) => Standing::Closed(OF_THE_MACHINE.to_owned()),
        other => other,
    }
}

fn of_verdict(verdict: &Verdict<'_>) -> Standing {
    if verdict.is_allowed() {
        return Standing::Allowed;
    }
    match verdict.because {
        Because::Rule(rule) => {
            let what = match rule.effect {
                Effect::Escape => "a way out of any fence",
                Effect::Protect => "protected",
                _ if rule.sense == Sense::Rule && !rule.source.is_written() => "a secret, or as good as one",
                _ => "denied",
            };
            Standing::Closed(format!("{what}: {}", rule.source))
        }
        Because::OnlyReadable(rule) if matches!(rule.effect, Effect::Read(Role::System | Role::Tooling)) => {
            Standing::Closed("to write system files and toolchains is never proposed".to_owned())
        }
        Because::OnlyReadable(_) | Because::View(_) => Standing::Open,
    }
}

/// Toolchains whose own places were asked for, or two and more of what they bring.
fn packs(base: &Surface, asked: &[Asked], open: &mut BTreeSet<usize>, with: Try<'_>) -> Vec<Addition> {
    let mut chosen: Vec<Addition> = Vec::new();
    loop {
        // A toolchain brings places to read and hosts.
        if !open.iter().any(|at| matches!(asked[*at].want, Want::Read { .. } | Want::Host { .. })) {
            return chosen;
        }
        let mut best: Option<(usize, &Pack, Vec<usize>, Surface)> = None;
        for pack in PACKS {
            let is_known = base.packs().contains(&pack.name) || chosen.iter().any(|one| one.value == pack.name);
            if is_known {
                continue;
            }
            let addition = of_pack(pack, Vec::new(), asked);
            let Some(surface) = with(&[chosen.clone(), vec![addition]].concat()) else { continue };
            let helped: Vec<usize> =
                open.iter().filter(|at| standing(&surface, &asked[**at].want) == Standing::Allowed).copied().collect();
            let has_place = helped.iter().any(|at| matches!(asked[*at].want, Want::Read { .. }));
            // Of two that bring the same the one that brings less besides: it comes first where they are equal.
            if (has_place || helped.len() >= 2) && best.as_ref().is_none_or(|(most, ..)| helped.len() > *most) {
                best = Some((helped.len(), pack, helped, surface));
            }
        }
        let Some((_, pack, helped, _)) = best else { return chosen };
        helped.iter().for_each(|at| {
            open.remove(at);
        });
        chosen.push(of_pack(pack, helped, asked));
    }
}

fn of_pack(pack: &Pack, covers: Vec<usize>, asked: &[Asked]) -> Addition {
    let reason = format!("{}; {}", pack.reason, reason(asked, &covers));
    let (risk, because) = if pack.groups.is_empty() {
        (Risk::Low, "what this toolchain needs, read-only")
    } else {
        (Risk::Medium, "what this toolchain needs, read-only, and the hosts of its registry")
    };
    Addition { key: Key::Extends, value: pack.name.to_owned(), reason, risk, because, covers }
}

fn paths(
    base: &Surface,
    asked: &[Asked],
    open: &BTreeSet<usize>,
    refused: &[Refused],
    ground: &Ground<'_>,
) -> (Vec<Addition>, Vec<Refused>) {
    let closed: Vec<&AbsPath> = refused
        .iter()
        .filter_map(|refused| match &asked[refused.asked].want {
            Want::Read { path, .. } | Want::Write { path, .. } | Want::Socket { path } => Some(path),
            Want::Host { .. } => None,
        })
        .collect();
    let (mut additions, mut too_much) = (Vec::new(), Vec::new());
    for (key, access) in [(Key::Write, Access::Write), (Key::Read, Access::Read)] {
        let named = open.iter().filter_map(|at| match &asked[*at].want {
            Want::Read { path, thing } if access == Access::Read => Some((path, *thing, *at)),
            Want::Write { place, thing, .. } if access == Access::Write => Some((place, *thing, *at)),
            _ => None,
        });
        let (places, more) = ground.places(base, named, &closed);
        too_much.extend(more.into_iter().map(|(asked, dir)| {
            let why = format!("a line for {dir} would open too much; name what is needed in it, or make it first");
            Refused { asked, why }
        }));
        for (path, thing, covers) in places {
            let Some(value) = ground.spell(&path) else { continue };
            let (risk, because) = ground.risk_of(&path, thing, access);
            let reason = reason(asked, &covers);
            additions.push(Addition { key, value, reason, risk, because, covers });
        }
    }
    let sockets = open.iter().filter_map(|at| match &asked[*at].want {
        Want::Socket { path } => Some((path, *at)),
        _ => None,
    });
    for (path, at) in sockets {
        let Some(value) = ground.spell(path) else { continue };
        let (reason, because) =
            (reason(asked, &[at]), "whoever listens there acts for whoever connects, outside the fence");
        additions.push(Addition { key: Key::Sockets, value, reason, risk: Risk::High, because, covers: vec![at] });
    }
    (additions, too_much)
}

/// A known group for a host that is of one, otherwise the host, with its port where that is known.
fn hosts(asked: &[Asked], open: &BTreeSet<usize>) -> Vec<Addition> {
    let mut lines: BTreeMap<String, (Risk, &'static str, Vec<usize>)> = BTreeMap::new();
    let hosts = open.iter().filter_map(|at| match &asked[*at].want {
        Want::Host { name, port } => Some((*at, name, *port)),
        _ => None,
    });
    let mut without_port = Vec::new();
    for (at, name, port) in hosts {
        let Ok(target) = HostTarget::new(name, port.unwrap_or(443)) else { continue };
        let covers = |text: &str| {
            HostPattern::parse(text).is_ok_and(|pattern| match port {
                Some(_) => pattern.matches(&target),
                None => pattern.matches_host(&target),
            })
        };
        let groups = GROUPS.iter().filter(|group| group.hosts.iter().any(|row| covers(row.pattern)));
        if let Some(group) = groups.min_by_key(|group| (group.hosts.len(), group.name)) {
            let because = "a known service; what the command can read can be sent to anybody's account there";
            lines.entry(group.name.to_owned()).or_insert((Risk::Medium, because, Vec::new())).2.push(at);
        } else if let Some(port) = port {
            let (risk, because) = risk::of_host(&target);
            let name =
                if target.name().contains(':') { format!("[{}]", target.name()) } else { target.name().to_owned() };
            lines.entry(format!("{name}:{port}")).or_insert((risk, because, Vec::new())).2.push(at);
        } else {
            without_port.push((at, target));
        }
    }
    for (at, target) in without_port {
        // Where a port of it is named anyway, its address is known.
        let with_port = lines
            .iter_mut()
            .find(|(text, _)| HostPattern::parse(text).is_ok_and(|pattern| pattern.matches_host(&target)));
        match with_port {
            Some((_, (.., covers))) => covers.push(at),
            None => {
                let (risk, because) = risk::of_host(&target);
                lines.entry(target.name().to_owned()).or_insert((risk, because, Vec::new())).2.push(at);
            }
        }
    }
    let line = |(value, (risk, because, covers)): (String, (Risk, &'static str, Vec<usize>))| {
        let reason = reason(asked, &covers);
        Addition { key: Key::Allow, value, reason, risk, because, covers }
    };
    lines.into_iter().map(line).collect()
}

/// Who asked for these, and how often, in words that fit into a comment.
fn reason(asked: &[Asked], covers: &[usize]) -> String {
    const FEW: usize = 3;
    let mut programs: BTreeMap<&str, u64> = BTreeMap::new();
    let (mut times, mut verbs) = (0, BTreeSet::new());
    for at in covers {
        let one = &asked[*at];
        times += one.times;
        verbs.insert(match one.want {
            Want::Read { .. } => "read",
            Want::Write { .. } => "written",
            Want::Host { .. } => "asked for",
            Want::Socket { .. } => "connected to",
        });
        for (program, times) in &one.programs {
            *programs.entry(program).or_insert(0) += times;
        }
    }
    let mut by: Vec<(&str, u64)> = programs.into_iter().collect();
    by.sort_by_key(|(name, times)| (std::cmp::Reverse(*times), *name));
    let named: Vec<String> = by.iter().take(FEW).map(|(name, _)| Shown(name.as_bytes()).to_string()).collect();
    let more = if by.len() > FEW { " and others" } else { "" };
    let by = if named.is_empty() { String::new() } else { format!(" by {}{more}", named.join(", ")) };
    let things = if covers.len() > 1 { format!("{} things ", covers.len()) } else { String::new() };
    let often = if times == 1 { String::new() } else { format!(", {times} times") };
    let verbs: Vec<&str> = verbs.into_iter().collect();
    format!("{things}{}{by}{often}", verbs.join(", "))
}
