//! The Surface as Landlock says it: a second wall under the mounts, or, where nothing can be mounted, the only one.
//!
//! Landlock adds up rights along a path and takes none away: a file has what any directory above it was given. So it says
//! "writes end here" well, and "but not this file" not at all. It looks at opens, creations, renames and removals; a change of
//! mode, owner, times or attributes passes it by. What it cannot say is returned as [`Shortfall`]s.

use std::collections::{BTreeMap, BTreeSet};

use ringfence_surface::policy::View;
use ringfence_surface::{AbsPath, Access, Effect, Governance, Pattern, Role, Rule, Sense, Surface};

use crate::claim::{Claim, LayerName, Shortfall};
use crate::private::{PrivateKind, PrivatePlace};

/// What the wall stands on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Ground {
    /// A view of mounts that we make: only what the Surface names exists. Reading is left to it, and only changes are
    /// restricted: see [`Files::Changes`].
    View,
    /// The same made by bubblewrap, where what else comes in is not in our hands. Reads are admitted everywhere, so that a
    /// read-only mount is readable too; writes only in the writable roots.
    ForeignView,
    /// A view in which other sandboxes may be started. A domain that handles any right on files forbids every later mount,
    /// so this one handles none and holds the scopes only.
    NestedView,
    /// The host's own files.
    Host,
}

/// What a rule gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rights {
    /// Listing directories.
    List,
    /// Reading, listing, executing.
    Read,
    /// Reading, writing and control of a device.
    Device,
    /// Every right on files that the kernel knows.
    All,
}

/// Rights on a path and everything below it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LandlockRule {
    /// Where, in the view the wall stands in.
    pub path: AbsPath,
    /// What it gives.
    pub rights: Rights,
}

/// What a fenced process reaches only among its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// Signals.
    Signal,
    /// Unix sockets with abstract names.
    AbstractUnixSocket,
}

/// Whether a domain has a say in files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Files {
    /// Whatever no rule gives is refused.
    Restricted,
    /// Of what no rule gives, changes are refused: opening for writing, making, removing, renaming. Reading, executing and
    /// emptying a file by its path are left to the view. A domain that handles any of these three walks up to the root at each
    /// open, also for emptying alone, which every open asks about; that makes reading many files a tenth slower.
    Changes,
    /// Files are left to the other layers.
    Open,
}

/// Something the Surface gives and this layer does not: less than was asked, never more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Withheld {
    /// The rule's pattern.
    pub pattern: String,
    /// Where the rule was written.
    pub source: String,
    /// Why.
    pub reason: &'static str,
}

/// A Landlock domain as data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LandlockPlan {
    /// Whether files are restricted at all.
    pub files: Files,
    /// Who has what, sorted by path, each path once.
    pub rules: Vec<LandlockRule>,
    /// What is kept among the fenced processes.
    pub scopes: Vec<Scope>,
    /// What the domain does not give although the Surface does.
    pub withheld: Vec<Withheld>,
}

/// Which claims a domain carries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fares {
    /// The claims about paths that this domain holds by itself: their contents, and their names. That metadata is outside is
    /// said once, at the claim about it.
    pub carried: Vec<Claim>,
    /// The claims about files and the network that it does not hold. Claims of other kinds are not this layer's.
    pub shortfalls: Vec<Shortfall>,
}

/// Devices that a program may write without reaching anything. A rule on the node itself, since `/dev` is not writable.
const DEVICES: &[&[u8]] =
    &[b"/dev/full", b"/dev/null", b"/dev/ptmx", b"/dev/random", b"/dev/tty", b"/dev/urandom", b"/dev/zero"];

/// What is withheld where nothing but Landlock and a filter stands.
pub const UNIX_SOCKETS: &str = "unix sockets";

/// The domain for a Surface.
pub fn landlock(surface: &Surface, ground: Ground) -> LandlockPlan {
    let (rules, mut withheld) = match ground {
        Ground::NestedView => (Vec::new(), Vec::new()),
        Ground::View | Ground::ForeignView | Ground::Host => rules(surface, ground),
    };
    if ground == Ground::Host {
        let reason = "without namespaces none is told from a socket of the host's, so none can be made";
        withheld.push(Withheld { pattern: UNIX_SOCKETS.to_owned(), source: "seccomp".to_owned(), reason });
    }
    LandlockPlan {
        files: match ground {
            Ground::View => Files::Changes,
            Ground::NestedView => Files::Open,
            Ground::ForeignView | Ground::Host => Files::Restricted,
        },
        rules,
        scopes: vec![Scope::Signal, Scope::AbstractUnixSocket],
        withheld,
    }
}

/// Which claims the domain for a Surface carries by itself.
pub fn fares(surface: &Surface, ground: Ground, plan: &LandlockPlan) -> Fares {
    let mut fares = Fares { carried: Vec::new(), shortfalls: Vec::new() };
    // A self-governing session asks nothing of the operating system.
    if *surface.governance() == Governance::Fenced {
        whole_claims(surface, ground, plan, &mut fares);
        path_claims(surface, ground, plan, &mut fares);
    }
    fares
}

fn rules(surface: &Surface, ground: Ground) -> (Vec<LandlockRule>, Vec<Withheld>) {
    let mut rights: BTreeMap<AbsPath, Rights> = BTreeMap::new();
    let mut withheld = Vec::new();
    if ground != Ground::Host || surface.view() == View::Host {
        rights.insert(AbsPath::root(), Rights::Read);
    }
    for rule in surface.allowed_reads() {
        match one_rule(rule, ground) {
            // What one rule gives another may take away as a whole, and nothing below would look at it again.
            Ok((path, _)) if !surface.decide(path, Access::Read).is_allowed() => {
                let reason = "another rule denies it";
                withheld.push(Withheld { pattern: rule.pattern.to_string(), source: rule.source.to_string(), reason });
            }
            Ok((path, given)) => {
                let is_frozen = given == Rights::All && !surface.decide(path, Access::Write).is_allowed();
                let given = if is_frozen { Rights::Read } else { given };
                let held = rights.entry(path.clone()).or_insert(given);
                *held = (*held).max(given);
            }
            Err(reason) => {
                withheld.push(Withheld { pattern: rule.pattern.to_string(), source: rule.source.to_string(), reason })
            }
        }
    }
    // What an exception leaves inside something that is taken away as a whole is given by itself.
    let is_exception = |rule: &&Rule| rule.sense == Sense::Exception && rule.source.is_written();
    let mut left: BTreeSet<&AbsPath> = BTreeSet::new();
    for path in surface.rules().iter().filter(is_exception).filter_map(|rule| rule.pattern.as_path()) {
        let may = |access| surface.decide(path, access).is_allowed();
        let given = match (may(Access::Write), may(Access::Read)) {
            (true, _) => Rights::All,
            (false, true) => Rights::Read,
            (false, false) => continue,
        };
        let held = rights.entry(path.clone()).or_insert(given);
        *held = (*held).max(given);
        left.insert(path);
    }
    // What lies between an exception and what would imply it is left out later.
    let needed = rights.iter().filter(|(path, given)| left.contains(path) || !is_implied(path, **given, &rights));
    (needed.map(|(path, given)| LandlockRule { path: path.clone(), rights: *given }).collect(), withheld)
}

fn one_rule(rule: &Rule, ground: Ground) -> Result<(&AbsPath, Rights), &'static str> {
    let path = rule.pattern.as_path().ok_or("a rule of Landlock names one place, this is a pattern")?;
    let own = PrivatePlace::at(path).map(|place| place.kind());
    match rule.effect {
        Effect::Write(Role::Private) if DEVICES.contains(&path.as_bytes()) => Ok((path, Rights::Device)),
        Effect::Read(Role::Private) if own == Some(PrivateKind::Processes) => Ok((path, Rights::Read)),
        Effect::Write(Role::Private) | Effect::Read(Role::Private) if ground == Ground::Host => {
            Err("without a view this would be the host's own directory")
        }
        Effect::Write(_) => Ok((path, Rights::All)),
        _ => Ok((path, Rights::Read)),
    }
}

/// Rights add up from above, so a rule that gives no more than one above it says nothing.
fn is_implied(path: &AbsPath, given: Rights, rights: &BTreeMap<AbsPath, Rights>) -> bool {
    path.ancestors().skip(1).filter_map(|above| rights.get(&above)).any(|above| match given {
        Rights::List | Rights::Read => matches!(*above, Rights::Read | Rights::All),
        Rights::Device | Rights::All => *above == Rights::All,
    })
}

const LEFT_TO_THE_VIEW: &str = "files are left to the view, since other sandboxes may be started inside";
const EMPTIED: &str = "emptying a file by its path is left to the view, since asking about it makes every open slower";

/// The claims that speak of everything.
fn whole_claims(surface: &Surface, ground: Ground, plan: &LandlockPlan, fares: &mut Fares) {
    let mut judge = |claim, short: Option<&str>| match short {
        Some(reason) => fares.shortfalls.push(shortfall(claim, reason)),
        None => fares.carried.push(claim),
    };
    if surface.view() == View::Surface {
        let in_the_view = "reads are admitted everywhere in the view: the view says what there is";
        let (read, seen) = match ground {
            Ground::View | Ground::ForeignView => (Some(in_the_view), in_the_view),
            Ground::NestedView => (Some(LEFT_TO_THE_VIEW), LEFT_TO_THE_VIEW),
            Ground::Host => (None, "names, sizes and links can be seen everywhere"),
        };
        judge(Claim::NothingElseIsReadable, read);
        judge(Claim::NothingElseIsSeen, Some(seen));
    }
    let anywhere = "mode, owner, times and attributes can be changed anywhere";
    let (written, metadata) = match plan.files {
        Files::Open => (Some(LEFT_TO_THE_VIEW), LEFT_TO_THE_VIEW),
        Files::Changes => (Some(EMPTIED), anywhere),
        Files::Restricted => (None, anywhere),
    };
    judge(Claim::NothingElseIsWritable, written);
    judge(Claim::MetadataStays, Some(metadata));
    let hosts = surface.reach().hosts.iter().map(|entry| entry.value.to_string()).collect();
    let network = "it knows ports, not hosts; UDP, multipath TCP and unix sockets by path are outside of it";
    judge(Claim::OnlyTheseHosts { hosts }, Some(network));
}

/// The claims that speak of single paths.
fn path_claims(surface: &Surface, ground: Ground, plan: &LandlockPlan, fares: &mut Fares) {
    for rule in surface.rules().iter().filter(|rule| rule.sense == Sense::Rule) {
        let pattern = rule.pattern.to_string();
        let (claim, touched) = match rule.effect {
            // Whoever builds this domain leaves out what exists: see `complement`.
            Effect::Escape | Effect::Deny if ground == Ground::Host => (Claim::Denied { pattern }, false),
            Effect::Escape | Effect::Deny => {
                (Claim::Denied { pattern }, touches(&rule.pattern, &plan.rules, Rights::Read))
            }
            Effect::Protect => (Claim::Protected { pattern }, touches(&rule.pattern, &plan.rules, Rights::All)),
            _ => continue,
        };
        match (plan.files, touched) {
            (Files::Open, _) => fares.shortfalls.push(shortfall(claim, LEFT_TO_THE_VIEW)),
            (Files::Restricted | Files::Changes, true) => {
                let reason = "rights add up from the directories above and cannot be taken away below";
                fares.shortfalls.push(shortfall(claim, reason));
            }
            (Files::Changes, false) => fares.shortfalls.push(shortfall(claim, EMPTIED)),
            (Files::Restricted, false) => fares.carried.push(claim),
        }
    }
}

/// Can a rule that gives at least this much give it to something the pattern covers? When in doubt, yes.
fn touches(pattern: &Pattern, rules: &[LandlockRule], least: Rights) -> bool {
    rules.iter().filter(|rule| rule.rights >= least).any(|rule| match pattern.base() {
        // What floats is searched for below every root.
        None => true,
        Some(base) => base.is_within(&rule.path) || rule.path.is_within(base),
    })
}

fn shortfall(claim: Claim, reason: &str) -> Shortfall {
    Shortfall { claim, layer: LayerName::Landlock, reason: reason.to_owned() }
}

#[cfg(test)]
mod tests {
    use ringfence_surface::policy::PolicyFile;
    use ringfence_surface::text::PolicyText;
    use ringfence_surface::{HostFacts, Inputs, Layer, Level, PathFact, Request, Trust, Via, resolve};

    use super::*;

    fn abs(text: &str) -> AbsPath {
        AbsPath::lexical(text.as_bytes()).unwrap()
    }

    /// A Surface for `/home/u/proj` with this policy.
    fn surface(policy: &str) -> Surface {
        let dirs = ["/home", "/home/u", "/home/u/proj", "/home/u/docs", "/usr", "/etc"];
        let path = "/home/u/proj/ringfence.toml";
        let text = PolicyText::new(path.as_bytes(), format!("version = 1\n{policy}").into_bytes()).unwrap();
        let file = PolicyFile::parse(&text).unwrap();
        let mut paths: BTreeMap<AbsPath, PathFact> = dirs.map(|dir| (abs(dir), PathFact::Directory)).into();
        paths.insert(abs(path), PathFact::File);
        let facts = HostFacts {
            environment: [(b"HOME".to_vec(), b"/home/u".to_vec())].into(),
            cwd: abs("/home/u/proj"),
            homes: vec![abs("/home/u")],
            paths,
            git: BTreeMap::new(),
            git_runs: BTreeMap::new(),
            mounts: Vec::new(),
            kernel: "6.18".into(),
            session: None,
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
        resolve(&inputs, &facts, &mut &facts).unwrap().surface
    }

    const POLICY: &str = "[files]\nwrite = [\".\"]\nread = [\"../docs\"]\ndeny = [\"secret\", \"/srv/keys\"]\nprotect = [\"infra\", \"/srv/www\"]\n";

    fn rights(plan: &LandlockPlan, path: &str) -> Option<Rights> {
        plan.rules.iter().find(|rule| rule.path == abs(path)).map(|rule| rule.rights)
    }

    fn judged(policy: &str, ground: Ground) -> Fares {
        let surface = surface(policy);
        fares(&surface, ground, &landlock(&surface, ground))
    }

    fn short(plan: &Fares, claim: &str) -> Option<String> {
        plan.shortfalls.iter().find(|short| short.claim.to_string() == claim).map(|short| short.reason.clone())
    }

    fn carries(plan: &Fares, claim: &str) -> bool {
        plan.carried.iter().any(|carried| carried.to_string() == claim)
    }

    /// Everything in the view is readable, so that what is mounted later is too; writes have their places.
    #[test]
    fn under_a_view() {
        let plan = landlock(&surface(POLICY), Ground::View);
        assert_eq!(plan.files, Files::Changes);
        let foreign = landlock(&surface(POLICY), Ground::ForeignView);
        assert_eq!((foreign.files, &foreign.rules), (Files::Restricted, &plan.rules));
        assert_eq!(plan.scopes, [Scope::Signal, Scope::AbstractUnixSocket]);
        assert_eq!(plan.rules.first().map(|rule| (rule.path.clone(), rule.rights)), Some((abs("/"), Rights::Read)));
        assert!(plan.rules.iter().skip(1).all(|rule| rule.rights != Rights::Read), "{:?}", plan.rules);
        for (path, expected) in [
            ("/home/u/proj", Some(Rights::All)),
            ("/tmp", Some(Rights::All)),
            ("/dev/shm", Some(Rights::All)),
            ("/dev/null", Some(Rights::Device)),
            ("/dev/tty", Some(Rights::Device)),
            ("/dev", None),
            ("/home/u/docs", None),
            ("/usr", None),
            ("/proc", None),
        ] {
            assert_eq!(rights(&plan, path), expected, "{path}");
        }
        assert!(plan.rules.is_sorted());
    }

    #[test]
    fn without_a_view_each_place_is_named() {
        let plan = landlock(&surface(POLICY), Ground::Host);
        for (path, expected) in [
            ("/", None),
            ("/home/u/proj", Some(Rights::All)),
            ("/home/u/docs", Some(Rights::Read)),
            ("/usr", Some(Rights::Read)),
            ("/proc", Some(Rights::Read)),
            ("/dev/null", Some(Rights::Device)),
            // The host's own, which the Surface does not give.
            ("/tmp", None),
            ("/dev/pts", None),
        ] {
            assert_eq!(rights(&plan, path), expected, "{path}");
        }
        let withheld: Vec<&str> = plan.withheld.iter().map(|one| one.pattern.as_str()).collect();
        assert_eq!(withheld, ["/dev/pts", "/dev/shm", "/tmp", "/var/tmp", UNIX_SOCKETS]);
        let host = landlock(&surface("[files]\nview = \"host\"\n"), Ground::Host);
        assert_eq!(rights(&host, "/"), Some(Rights::Read));
    }

    #[test]
    fn a_pattern_is_withheld() {
        let plan = landlock(&surface("[files]\nwrite = [\"src/*.rs\"]\n"), Ground::View);
        let withheld: Vec<(&str, &str)> =
            plan.withheld.iter().map(|one| (one.pattern.as_str(), one.source.as_str())).collect();
        assert_eq!(withheld, [("/home/u/proj/src/*.rs", "/home/u/proj/ringfence.toml:3:10")]);
        assert_eq!(rights(&plan, "/home/u/proj/src"), None);
    }

    /// A deny beats a grant of the same place, and so does a protect.
    #[test]
    fn what_is_given_and_taken_away_is_not_given() {
        let policy = "[files]\nwrite = [\".\", \"/srv/a\", \"/srv/b/c\", \"/srv/d\"]\nread = [\"/srv/e\"]\n\
                      deny = [\"/srv/a\", \"/srv/b\", \"/srv/e\"]\nprotect = [\"/srv/d\"]\n";
        for ground in [Ground::View, Ground::Host] {
            let plan = landlock(&surface(policy), ground);
            assert_eq!(rights(&plan, "/srv/a"), None);
            assert_eq!(rights(&plan, "/srv/b/c"), None);
            assert_eq!(rights(&plan, "/srv/e"), None);
            assert_ne!(rights(&plan, "/srv/d"), Some(Rights::All));
            let plan = landlock(&surface("[files]\nwrite = [\".\"]\nprotect = [\".\", \"!notes\"]\n"), ground);
            assert_ne!(rights(&plan, "/home/u/proj"), Some(Rights::All));
            assert_eq!(rights(&plan, "/home/u/proj/notes"), Some(Rights::All));
        }
    }

    /// A domain with rights on files forbids every later mount.
    #[test]
    fn a_nested_view_has_scopes_only() {
        let plan = landlock(&surface(POLICY), Ground::NestedView);
        assert_eq!((plan.files, plan.rules.len()), (Files::Open, 0));
        assert_eq!(plan.scopes.len(), 2);
        let fares = judged(POLICY, Ground::NestedView);
        assert!(fares.carried.is_empty());
        assert!(short(&fares, "nothing else is writable").is_some_and(|why| why.contains("view")));
    }

    #[test]
    fn what_it_cannot_say_is_said() {
        let view = judged(POLICY, Ground::View);
        assert!(short(&view, "nothing else is readable").is_some());
        assert!(short(&view, "nothing else is writable").is_some_and(|why| why.contains("emptying")));
        assert!(short(&view, "no metadata elsewhere can be changed").is_some_and(|why| why.contains("mode, owner")));
        assert!(short(&view, "no network").is_some_and(|why| why.contains("unix sockets by path")));
        assert!(short(&view, "deny /srv/keys").is_some());
        assert!(short(&view, "protect /home/u/proj/infra").is_some());
        assert!(short(&view, "protect **/.envrc").is_some());
        assert!(short(&view, "protect /srv/www").is_some_and(|why| why.contains("emptying")));
        let foreign = judged(POLICY, Ground::ForeignView);
        assert!(carries(&foreign, "nothing else is writable") && carries(&foreign, "protect /srv/www"));
        assert!(short(&foreign, "nothing else is readable").is_some());
        let host = judged(POLICY, Ground::Host);
        assert!(carries(&host, "nothing else is readable") && carries(&host, "nothing else is writable"));
        assert!(short(&host, "nothing else can be seen").is_some_and(|why| why.contains("names, sizes")));
        assert!(carries(&host, "deny /home/u/proj/secret"));
        assert!(short(&host, "protect /home/u/proj/infra").is_some());
        assert!(carries(&host, "deny /srv/keys"));
        assert!(carries(&host, "protect /srv/www"));
        assert!(short(&host, "only named variables").is_none() && !carries(&host, "only named variables"));
        for plan in [view, host] {
            assert!(plan.shortfalls.iter().all(|short| short.layer == LayerName::Landlock));
        }
    }

    #[test]
    fn a_self_governing_session_asks_nothing() {
        let plan = judged("[workspace]\nself_governing = true\n", Ground::View);
        assert_eq!((plan.carried.len(), plan.shortfalls.len()), (0, 0));
    }
}
