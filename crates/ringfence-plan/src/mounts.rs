//! The view as mounts: what is writable is bound read-write, what is readable read-only, each at its own path.
//!
//! Only what names one place can be bound. A pattern with wildcards is left to a layer that can see names, and is reported
//! here.

use std::collections::BTreeMap;

use ringfence_surface::policy::View;
use ringfence_surface::{AbsPath, Access, Because, Effect, HostFacts, Look as _, PathFact, Role, Rule, Sense, Surface};

use crate::private::PrivatePlace;

/// What a mount permits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MountAccess {
    /// Reading, recursively.
    ReadOnly,
    /// Reading and writing.
    ReadWrite,
}

/// One mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MountOp {
    /// The host's files, at the same path.
    Bind {
        /// Where, on the host and inside.
        path: AbsPath,
        /// What it permits.
        access: MountAccess,
        /// What it is to the session.
        role: Role,
    },
    /// A symbolic link of the host that leads to something bound: `/bin` to `usr/bin`.
    Link {
        /// Where.
        path: AbsPath,
        /// What it says.
        target: Vec<u8>,
    },
    /// Made anew inside.
    Private {
        /// Which of the places that every session has its own of.
        place: PrivatePlace,
        /// What it permits.
        access: MountAccess,
    },
    /// A directory above something guarded, bound onto itself so that it cannot be renamed.
    Pin {
        /// Where.
        path: AbsPath,
    },
    /// A writable root once more, over its pins: renames and links between its directories stay within one mount.
    Cover {
        /// Where.
        path: AbsPath,
    },
    /// Something that may not be read: an unreadable, empty one in its place.
    Mask {
        /// Where.
        path: AbsPath,
        /// What stands there.
        kind: Found,
    },
    /// Something that may not be written: itself, read-only.
    Freeze {
        /// Where.
        path: AbsPath,
    },
    /// Something of the session's own, read-only, in the place of the host's.
    Own {
        /// Where.
        path: AbsPath,
        /// What it is called in the session's directory.
        name: String,
    },
    /// A directory of the host made anew, so that a name can be added to it: what the host has in it is mounted afterwards.
    Rebuilt {
        /// Where.
        path: AbsPath,
    },
    /// ringfence itself, read-only, in the session's directory: where it really is may not be shown, or may be written.
    Program {
        /// Where.
        path: AbsPath,
        /// Where it is on the host.
        source: AbsPath,
    },
    /// A directory that may not be read, made of nothing: in it exists only what is mounted there afterwards.
    Hollow {
        /// Where.
        path: AbsPath,
    },
}

/// What stands at a path that is guarded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Found {
    /// A directory.
    Directory,
    /// Anything else.
    File,
}

impl MountOp {
    /// Where it goes.
    pub fn destination(&self) -> &AbsPath {
        match self {
            Self::Bind { path, .. }
            | Self::Link { path, .. }
            | Self::Pin { path }
            | Self::Cover { path }
            | Self::Mask { path, .. }
            | Self::Freeze { path }
            | Self::Own { path, .. }
            | Self::Rebuilt { path }
            | Self::Program { path, .. }
            | Self::Hollow { path } => path,
            Self::Private { place, .. } => place.path(),
        }
    }
}

/// What the mounts leave out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skipped {
    /// The rule's pattern.
    pub pattern: String,
    /// Where the rule was written.
    pub source: String,
    /// Whether somebody wrote it, in a file or as a flag.
    pub is_written: bool,
    /// Why.
    pub why: Why,
}

/// Why something has no mount of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Why {
    /// Nothing is there to bind.
    Missing,
    /// A mount names one place, this is a pattern.
    Pattern,
    /// Another rule takes it away.
    Denied,
    /// It holds sockets, and what is only readable can still be connected to.
    Sockets,
    /// The session has its own in that place.
    Own,
}

impl Why {
    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Missing => "nothing is there",
            Self::Pattern => "a mount names one place, this is a pattern",
            Self::Denied => "another rule denies it",
            Self::Sockets => "hidden: it holds sockets of the host, and read-only files do not stop a connection",
            Self::Own => "the session has its own there",
        }
    }
}

/// What is never the host's, whatever is named: its processes are not there, and the devices are a few.
const OWN: &[&[u8]] = &[b"/dev", b"/proc"];

/// Where the host's services listen. Hidden in the broad view; what a policy names in there is shown.
const SOCKET_DIRECTORIES: &[&str] = &["/run", "/var/run"];

pub(crate) fn compile(surface: &Surface, facts: &HostFacts) -> (Vec<MountOp>, Vec<Skipped>) {
    // Sorted by destination, so that what contains is mounted before what is contained.
    let mut mounts: BTreeMap<AbsPath, MountOp> = BTreeMap::new();
    let mut skipped = Vec::new();
    if surface.view() == View::Host {
        whole_host(facts, &mut mounts, &mut skipped);
    }
    for rule in surface.allowed_reads() {
        let (access, role) = match rule.effect {
            Effect::Write(role) => (MountAccess::ReadWrite, role),
            Effect::Read(role) => (MountAccess::ReadOnly, role),
            _ => continue,
        };
        let Some(path) = rule.pattern.as_path() else {
            skipped.push(skip(rule, Why::Pattern));
            continue;
        };
        if !surface.decide(path, Access::Read).is_allowed() {
            skipped.push(skip(rule, Why::Denied));
            continue;
        }
        if role != Role::Private && OWN.contains(&path.as_bytes()) {
            skipped.push(skip(rule, Why::Own));
            continue;
        }
        // What is protected as a whole is bound read-only from the start.
        let access = if surface.decide(path, Access::Write).is_allowed() { access } else { MountAccess::ReadOnly };
        let op = match role {
            // A part of a private place is there with the whole. A mount for it could only show the host's file of that name.
            Role::Private => match PrivatePlace::at(path) {
                Some(place) => MountOp::Private { place, access },
                None => {
                    skipped.push(skip(rule, Why::Own));
                    continue;
                }
            },
            // These are made when the session starts.
            Role::Cache | Role::Scratch => MountOp::Bind { path: path.clone(), access, role },
            _ if (&mut &*facts).path(path) == PathFact::Missing => {
                skipped.push(skip(rule, Why::Missing));
                continue;
            }
            _ => MountOp::Bind { path: path.clone(), access, role },
        };
        add(&mut mounts, op);
        if let Some(link) = top_level_link(rule, facts).filter(|_| surface.view() == View::Surface) {
            mounts.entry(link.destination().clone()).or_insert(link);
        }
    }
    exceptions(surface, facts, &mut mounts, &mut skipped);
    let needed: Vec<MountOp> = mounts.values().filter(|op| !is_contained(op, &mounts, surface)).cloned().collect();
    (needed, skipped)
}

/// What an exception opens inside something denied or protected is bound by itself: what lies around it is closed as a whole.
fn exceptions(
    surface: &Surface,
    facts: &HostFacts,
    mounts: &mut BTreeMap<AbsPath, MountOp>,
    skipped: &mut Vec<Skipped>,
) {
    let is_exception = |rule: &&Rule| rule.sense == Sense::Exception && rule.source.is_written();
    for rule in surface.rules().iter().filter(is_exception) {
        let Some(base) = rule.pattern.base() else { continue };
        let Some(path) = rule.pattern.as_path() else {
            // Below something that is closed no name is looked at.
            let access = if rule.effect == Effect::Protect { Access::Write } else { Access::Read };
            if matches!(surface.decide(base, access).because, Because::Rule(_))
                && !surface.decide(base, access).is_allowed()
            {
                skipped.push(skip(rule, Why::Pattern));
            }
            continue;
        };
        let may = |access| surface.decide(path, access).is_allowed();
        if may(Access::Read) && (&mut &*facts).path(path) != PathFact::Missing {
            let access = if may(Access::Write) { MountAccess::ReadWrite } else { MountAccess::ReadOnly };
            add(mounts, MountOp::Bind { path: path.clone(), access, role: Role::Read });
        }
    }
}

/// The broad view: everything the host has, read-only, but its devices and where its services listen.
fn whole_host(facts: &HostFacts, mounts: &mut BTreeMap<AbsPath, MountOp>, skipped: &mut Vec<Skipped>) {
    let path = AbsPath::root();
    add(mounts, MountOp::Bind { path, access: MountAccess::ReadOnly, role: Role::System });
    add(mounts, MountOp::Private { place: PrivatePlace::devices(), access: MountAccess::ReadOnly });
    for text in SOCKET_DIRECTORIES {
        let path = AbsPath::root().join(text);
        if (&mut &*facts).path(&path) == PathFact::Directory {
            let (pattern, source) = (path.to_string(), "view = \"host\"".to_owned());
            skipped.push(Skipped { pattern, source, is_written: false, why: Why::Sockets });
            mounts.insert(path.clone(), MountOp::Hollow { path });
        }
    }
}

/// A directory that is bound shows everything below it: `/usr/bin` needs no mount of its own below `/usr`, unless something
/// in between is closed.
fn is_contained(op: &MountOp, mounts: &BTreeMap<AbsPath, MountOp>, surface: &Surface) -> bool {
    let MountOp::Bind { path, access, role } = op else { return false };
    let Some(outer) = path.ancestors().skip(1).find_map(|dir| mounts.get(&dir)) else { return false };
    // Where the whole host is shown, somebody who works in root's place may find no way to a toolchain in root's home; a mount
    // of its own can be given one.
    if outer.destination().is_root() && *role != Role::System {
        return false;
    }
    let asked = if *access == MountAccess::ReadWrite { Access::Write } else { Access::Read };
    let mut between = path.ancestors().skip(1).take_while(|dir| dir != outer.destination());
    // A read-only part of something writable is writable: that is what the Surface says.
    matches!(outer, MountOp::Bind { access: outer, .. } if outer >= access)
        && between.all(|dir| surface.decide(&dir, asked).is_allowed())
}

/// Two rules for one place: the one that permits more wins, since the Surface allows both.
fn add(mounts: &mut BTreeMap<AbsPath, MountOp>, op: MountOp) {
    let access_of = |op: &MountOp| match op {
        MountOp::Bind { access, .. } | MountOp::Private { access, .. } => Some(*access),
        _ => None,
    };
    let destination = op.destination().clone();
    match mounts.get(&destination) {
        Some(old) if access_of(old) >= access_of(&op) => {}
        _ => {
            mounts.insert(destination, op);
        }
    }
}

/// `/bin` and its like are links on most hosts, and programs name them.
fn top_level_link(rule: &Rule, facts: &HostFacts) -> Option<MountOp> {
    let written = AbsPath::lexical(rule.text.as_bytes()).ok()?;
    match (&mut &*facts).path(&written) {
        PathFact::Link(target) if rule.effect == Effect::Read(Role::System) => {
            Some(MountOp::Link { path: written, target })
        }
        _ => None,
    }
}

fn skip(rule: &Rule, why: Why) -> Skipped {
    let is_written = rule.source.is_written();
    Skipped { pattern: rule.pattern.to_string(), source: rule.source.to_string(), is_written, why }
}

#[cfg(test)]
pub(crate) mod tests {
    use ringfence_surface::policy::PolicyFile;
    use ringfence_surface::text::PolicyText;
    use ringfence_surface::{Inputs, Layer, Level, Request, Trust, Via, resolve};

    use super::*;

    fn abs(text: &str) -> AbsPath {
        AbsPath::lexical(text.as_bytes()).unwrap()
    }

    /// What a policy says in `/home/u/proj`.
    pub(crate) fn surface(policy: &str) -> Surface {
        resolved(policy).0
    }

    fn resolved(policy: &str) -> (Surface, HostFacts) {
        let dirs = "/home /home/u /home/u/proj /home/u/proj/private /home/u/proj/private/open /home/u/proj/infra \
                    /home/u/proj/infra/state /home/u/.local/state /home/u/docs /run /usr /etc";
        let path = "/home/u/proj/ringfence.toml";
        let text = PolicyText::new(path.as_bytes(), format!("version = 1\n{policy}").into_bytes()).unwrap();
        let file = PolicyFile::parse(&text).unwrap();
        let mut paths: BTreeMap<AbsPath, PathFact> =
            dirs.split_whitespace().map(|dir| (abs(dir), PathFact::Directory)).collect();
        paths.insert(abs(path), PathFact::File);
        paths.insert(abs("/var"), PathFact::Directory);
        paths.insert(abs("/var/run"), PathFact::Link(b"/run".to_vec()));
        let facts = HostFacts {
            environment: [(b"HOME".to_vec(), b"/home/u".to_vec())].into(),
            cwd: abs("/home/u/proj"),
            homes: vec![abs("/home/u")],
            paths,
            git: BTreeMap::new(),
            git_runs: BTreeMap::new(),
            mounts: Vec::new(),
            kernel: "6.18".into(),
            session: Some(abs("/home/u/.local/state/ringfence/sessions/1")),
        };
        let level = Level::Project(Trust::Trusted);
        let request = Request {
            persona: None,
            task: None,
            agent: None,
            references: Vec::new(),
            writes: Vec::new(),
            env: Vec::new(),
            worktree: None,
        };
        let inputs = Inputs { layers: vec![Layer { level, via: Via::Itself, file, text, path: abs(path) }], request };
        (resolve(&inputs, &facts, &mut &facts).unwrap().surface, facts)
    }

    /// The mounts of a session in `/home/u/proj` with this policy, one line each, but for what every session has.
    #[track_caller]
    fn check(policy: &str, expected: &[&str]) {
        let (surface, facts) = resolved(policy);
        let (mounts, skipped) = compile(&surface, &facts);
        let is_ours = |path: &AbsPath| {
            path.as_bytes().starts_with(b"/dev/") || ["/tmp", "/var/tmp", "/proc"].contains(&path.to_string().as_str())
        };
        let shown = mounts.iter().filter(|op| !is_ours(op.destination())).map(|op| match op {
            MountOp::Bind { path, access: MountAccess::ReadOnly, .. } => format!("ro {path}"),
            MountOp::Bind { path, access: MountAccess::ReadWrite, .. } => format!("rw {path}"),
            other => format!(
                "{} {}",
                if matches!(other, MountOp::Hollow { .. }) { "hollow" } else { "private" },
                other.destination()
            ),
        });
        let left_out = skipped.iter().filter(|skipped| skipped.why != Why::Missing);
        let shown: Vec<String> =
            shown.chain(left_out.map(|skipped| format!("not {}: {}", skipped.pattern, skipped.why.words()))).collect();
        assert_eq!(shown, expected, "{policy}");
    }

    const SESSION: [&str; 3] = [
        "ro /home/u/.local/state/ringfence/sessions/1/given",
        "rw /home/u/.local/state/ringfence/sessions/1/home",
        "rw /home/u/.local/state/ringfence/sessions/1/tmp",
    ];

    #[test]
    fn the_surface_alone() {
        check(
            "[files]\nread = [\"../docs\"]\n",
            &["ro /etc", SESSION[0], SESSION[1], SESSION[2], "ro /home/u/docs", "rw /home/u/proj", "ro /usr"],
        );
    }

    /// The host's processes and devices are not shown by name either: a walk of them never ends the same way twice.
    #[test]
    fn what_is_the_sessions_own_is_not_bound() {
        check(
            "[files]\nread = [\"/proc\"]\nwrite = [\".\", \"/dev\"]\n",
            &[
                "ro /etc",
                SESSION[0],
                SESSION[1],
                SESSION[2],
                "rw /home/u/proj",
                "ro /usr",
                "not /dev: the session has its own there",
                "not /proc: the session has its own there",
            ],
        );
    }

    #[test]
    fn the_whole_host() {
        let sockets = "not /run: hidden: it holds sockets of the host, and read-only files do not stop a connection";
        check(
            "[files]\nview = \"host\"\n",
            &["ro /", "private /dev", SESSION[0], SESSION[1], SESSION[2], "rw /home/u/proj", "hollow /run", sockets],
        );
    }

    #[test]
    fn what_a_rule_takes_away_is_not_bound() {
        check(
            "[files]\ndeny = [\"../docs\"]\nread = [\"../docs\"]\nprotect = [\".\"]\n",
            &[
                "ro /etc",
                SESSION[0],
                SESSION[1],
                SESSION[2],
                "ro /home/u/proj",
                "ro /usr",
                "not /home/u/docs: another rule denies it",
            ],
        );
    }

    /// [E1, H1] A call that names something in a private place of its session is shown nothing of the host's there, by mounts or by
    /// Landlock: the host's file of that name is another.
    #[test]
    fn h1_a_call_is_shown_nothing_of_the_host_in_private_places() {
        use crate::landlock::{Ground, landlock};
        use ringfence_surface::{Pattern, SubPolicy};
        let (session, facts) = resolved("");
        let (own, _) = compile(&session, &facts);
        let without_view = landlock(&session, Ground::Host);
        let private = |op: &&MountOp| matches!(op, MountOp::Private { .. });
        let places: Vec<AbsPath> = own.iter().filter(private).map(|op| op.destination().clone()).collect();
        assert_eq!(places.len(), 12, "{places:?}");
        let below = places
            .iter()
            .flat_map(|place| ["", "/F", "/d/F", "/.ringfence", "/1"].map(|rest| abs(&format!("{place}{rest}"))));
        for named in below {
            let list = || Some(vec![Pattern::path(named.clone())]);
            for call in [
                SubPolicy { read: list(), ..SubPolicy::unchanged() },
                SubPolicy { write: list(), ..SubPolicy::unchanged() },
                SubPolicy { read: list(), write: list(), ..SubPolicy::for_tools(&session) },
                SubPolicy { read: list(), ..SubPolicy::for_looking(&session) },
            ] {
                // `/proc` is not written, by whatever name.
                let Ok(narrow) = session.tighten(&call) else {
                    assert!(call.write.is_some() && named.is_within(&abs("/proc")), "{named}");
                    continue;
                };
                let (mounts, _) = compile(&narrow, &facts);
                let in_private = |op: &&MountOp| places.iter().any(|place| op.destination().is_within(place));
                let shown: Vec<&AbsPath> = mounts.iter().filter(in_private).map(MountOp::destination).collect();
                assert_eq!(shown, places.iter().collect::<Vec<_>>(), "{named}");
                let given = landlock(&narrow, Ground::Host).rules;
                let is_new = |rule: &&crate::landlock::LandlockRule| {
                    rule.path.is_within(&named) && !without_view.rules.contains(rule)
                };
                assert_eq!(given.iter().find(is_new), None, "{named}");
            }
        }
    }

    #[test]
    fn what_an_exception_opens_is_bound_by_itself() {
        check(
            "[files]\ndeny = [\"private\", \"!private/open\", \"!private/*.md\"]\nprotect = [\"infra\", \"!infra/state\"]\n",
            &[
                "ro /etc",
                SESSION[0],
                SESSION[1],
                SESSION[2],
                "rw /home/u/proj",
                "rw /home/u/proj/infra/state",
                "rw /home/u/proj/private/open",
                "ro /usr",
                "not /home/u/proj/private/*.md: a mount names one place, this is a pattern",
            ],
        );
    }
}
