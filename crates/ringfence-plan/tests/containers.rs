//! What a container engine is told for policies of every kind, as text that is kept, and what must hold for any of them.
//! `RINGFENCE_BLESS=1` accepts a difference.

#![expect(clippy::disallowed_methods, reason = "the crate may not look at the disk, its test data lies there")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use proptest::prelude::*;
use ringfence_plan::{
    Bound, ContainerError, ContainerOrder, ContainerPlan, Engine, EngineFacts, EngineRights, Findings, First, Found,
    Labels, Limited, Limits, Material, MountAccess, MountOp, NewerAddresses, OperatorMount, Places, Programs,
    Recursive, Rung, WhyDropped, compile, compose, container, guarded,
};
use ringfence_surface::policy::{MountMode, PolicyFile, SurfaceMode};
use ringfence_surface::text::PolicyText;
use ringfence_surface::{
    AbsPath, Access, Because, HostFacts, Inputs, Layer, Level, MountFact, PathFact, Request, Resolved, Role, Trust,
    Via, resolve,
};

fn abs(text: &str) -> AbsPath {
    AbsPath::lexical(text.as_bytes()).expect("test data is right")
}

/// One policy on one host, for one engine.
#[derive(Clone, Copy)]
struct Case {
    name: &'static str,
    policy: &'static str,
    /// What stands in the project: a directory ends with a slash.
    holds: &'static [&'static [u8]],
    /// What is mounted on the host.
    mounted: &'static [&'static str],
    facts: EngineFacts,
    surface: Surface,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Surface {
    Given,
    Not,
}

const DOCKER: EngineFacts = EngineFacts {
    engine: Engine::Docker,
    recursive: Recursive::No,
    rights: EngineRights::Root,
    limits: Limits { memory: Limited::Can, pids: Limited::Can },
    labels: Labels::None,
    newer: NewerAddresses::Had,
};
const PODMAN: EngineFacts = EngineFacts { engine: Engine::Podman, rights: EngineRights::User, ..DOCKER };

const fn case(name: &'static str, policy: &'static str) -> Case {
    Case { name, policy, holds: &[], mounted: &[], facts: DOCKER, surface: Surface::Given }
}

impl Case {
    const fn holds(self, holds: &'static [&'static [u8]]) -> Self {
        Self { holds, ..self }
    }

    const fn mounted(self, mounted: &'static [&'static str]) -> Self {
        Self { mounted, ..self }
    }

    const fn by(self, facts: EngineFacts) -> Self {
        Self { facts, ..self }
    }

    const fn without_surface(self) -> Self {
        Self { surface: Surface::Not, ..self }
    }
}

const IMAGE: &str = "[agent.a.container]\nimage = \"localhost/a:1\"\n";
const OPERATOR: &str = "[agent.a.container]\nimage = \"localhost/a:1\"\nmounts = [{ src = \"/srv/models\", dst = \"/models\" }, \
                        { src = \"/srv/scratch\", dst = \"/scratch\", mode = \"rw\" }]\n";

static CASES: &[Case] = &[
    case("nothing said", ""),
    case("nothing said, podman of a user", "").by(PODMAN),
    case("nothing said, podman of root", "").by(EngineFacts { rights: EngineRights::Root, ..PODMAN }),
    case("a user without further numbers", "").by(EngineFacts { rights: EngineRights::UserAlone, ..PODMAN }),
    case("an engine that limits nothing", "[limits]\nmemory = \"1GiB\"\npids = 64\n")
        .by(EngineFacts { limits: Limits { memory: Limited::Cannot, pids: Limited::Cannot }, ..PODMAN }),
    case("limits", "[limits]\nmemory = \"1GiB\"\npids = 64\n"),
    case("labels", "").by(EngineFacts { labels: Labels::Enforced, ..PODMAN }),
    case("reads and writes", "[files]\nwrite = [\".\", \"../shared\"]\nread = [\"../docs\"]\n"),
    case("nothing is written", "[files]\nprotect = [\".\"]\n"),
    case("a file is denied", "[files]\ndeny = [\"**/.env\"]\n").holds(&[b".env", b"a/", b"a/b/", b"a/b/.env"]),
    case("a directory is denied", "[files]\ndeny = [\"keys\"]\n").holds(&[b"keys/", b"keys/one"]),
    case("an exception in a denied directory", "[files]\ndeny = [\"keys\", \"!keys/open\"]\n")
        .holds(&[b"keys/", b"keys/open/"]),
    case("a directory is protected", "[files]\nprotect = [\"infra\"]\n").holds(&[b"infra/"]),
    case("git", "").holds(&[b".git/", b".git/hooks/", b".git/config"]),
    case("a comma", "[files]\ndeny = [\"**/.env\"]\n").holds(&[b"a,b/", b"a,b/.env"]),
    case("quotes", "[files]\ndeny = [\"**/.env\"]\n").holds(&[b"a\"b\"/", b"a\"b\"/.env", b"it's/", b"it's/.env"]),
    case("colons", "[files]\ndeny = [\"**/.env\"]\n").holds(&[b"a:ro/", b"a:ro/.env"]),
    case("a new line", "[files]\ndeny = [\"**/.env\"]\n").holds(&[b"a\nb/", b"a\nb/.env"]),
    case("blanks and backslashes", "[files]\ndeny = [\"**/.env\"]\n").holds(&[
        b" a /",
        b" a /.env",
        b"b\\c/",
        b"b\\c/.env",
    ]),
    case("signs of options", "[files]\ndeny = [\"**/.env\"]\n").holds(&[
        b"--mount=x/",
        b"--mount=x/.env",
        b"=/",
        b"=/.env",
    ]),
    case("a carriage return", "[files]\ndeny = [\"**/.env\"]\n").holds(&[b"a\rb/", b"a\rb/.env"]),
    case("a name that is no text", "[files]\ndeny = [\"**/.env\"]\n").holds(&[b"\xff/", b"\xff/.env"]),
    case("mounts below something read-only", "[files]\nread = [\"../docs\"]\n").mounted(&[
        "/",
        "/home/u/docs/big",
        "/home/u/docs/big/er",
        "/usr/local",
    ]),
    case("mounts below, where the engine takes care", "[files]\nread = [\"../docs\"]\n")
        .mounted(&["/", "/home/u/docs/big"])
        .by(EngineFacts { recursive: Recursive::Asked, ..DOCKER }),
    case("the whole host", "[files]\nview = \"host\"\n"),
    case("an image of its own", IMAGE),
    case("an operator's mounts", OPERATOR),
    case(
        "an operator's mounts, exclusive",
        "[agent.a.container]\nsurface_mode = \"exclusive\"\nmounts = [{ src = \"/srv/models\", dst = \"/models\" }]\n",
    ),
    case(
        "an operator's mounts that meet the surface",
        "[agent.a.container]\nmounts = [{ src = \"/srv/models\", dst = \"/home/u/proj\" }, { src = \"/srv/models\", dst = \
         \"/usr/local/x\" }, { src = \"/srv/models\", dst = \"/home\" }, { src = \"/srv/models\", dst = \"/proc/x\" }, { src = \
         \"/srv/models\", dst = \"/m\" }, { src = \"/srv/scratch\", dst = \"/m\" }]\n",
    ),
    case("an operator's mounts alone", OPERATOR).without_surface(),
    case("an operator's mounts alone, podman", OPERATOR).without_surface().by(PODMAN),
    case(
        "a pool of worktrees",
        "[[workspace.repo]]\nname = \"api\"\npath = \"../api\"\nworktrees_dir = \"../pool/api\"\n",
    ),
];

fn facts(case: &Case) -> HostFacts {
    let dirs = "/home /home/u /home/u/proj /home/u/docs /home/u/shared /home/u/api /home/u/pool /home/u/pool/api /usr /etc \
                /srv /srv/models /srv/scratch";
    let mut paths: BTreeMap<AbsPath, PathFact> =
        dirs.split_whitespace().map(|dir| (abs(dir), PathFact::Directory)).collect();
    paths.insert(abs("/bin"), PathFact::Link(b"usr/bin".to_vec()));
    paths.insert(abs("/home/u/proj/ringfence.toml"), PathFact::File);
    for held in case.holds {
        let kind = if held.ends_with(b"/") { PathFact::Directory } else { PathFact::File };
        let path = AbsPath::lexical(&[b"/home/u/proj/", *held].concat()).expect("test data is right");
        paths.insert(path, kind);
    }
    HostFacts {
        environment: [(b"HOME".to_vec(), b"/home/u".to_vec())].into(),
        cwd: abs("/home/u/proj"),
        homes: vec![abs("/home/u")],
        paths,
        git: BTreeMap::new(),
        git_runs: BTreeMap::new(),
        mounts: case.mounted.iter().map(|at| MountFact { target: abs(at), kind: "ext4".into() }).collect(),
        kernel: "6.18".into(),
        session: Some(abs("/s/1")),
    }
}

fn resolved(case: &Case, facts: &HostFacts) -> Resolved {
    let path = "/home/u/proj/ringfence.toml";
    let policy = format!("version = 1\n{}[agent.a]\ncommand = [\"work\"]\n", case.policy);
    let text = PolicyText::new(path.as_bytes(), policy.into_bytes()).expect("test data is right");
    let file = PolicyFile::parse(&text).unwrap_or_else(|said| panic!("{}: {said:?}", case.name));
    let level = Level::Project(Trust::Trusted);
    let request = Request {
        persona: None,
        task: None,
        agent: Some("a".into()),
        references: Vec::new(),
        env: Vec::new(),
        writes: Vec::new(),
        worktree: None,
    };
    let layers = vec![Layer { level, via: Via::Itself, file, text, path: abs(path) }];
    let inputs = Inputs { layers, request };
    resolve(&inputs, facts, &mut &*facts).unwrap_or_else(|said| panic!("{}: {said:?}", case.name))
}

/// What a walk of the project would find.
fn findings(resolved: &Resolved, facts: &HostFacts) -> Findings {
    let (mut denied, mut protected): (Vec<(AbsPath, Found)>, Vec<AbsPath>) = (Vec::new(), Vec::new());
    for (path, fact) in facts.paths.range(abs("/home/u/proj/")..) {
        let inner = path.is_within(&abs("/home/u/proj")) && *path != abs("/home/u/proj");
        if !inner || denied.iter().any(|(above, _)| path.is_within(above)) {
            continue;
        }
        let takes = |access| {
            let verdict = resolved.surface.decide(path, access);
            !verdict.is_allowed() && matches!(verdict.because, Because::Rule(_))
        };
        let kind = if *fact == PathFact::Directory { Found::Directory } else { Found::File };
        match (takes(Access::Read), takes(Access::Write)) {
            (true, _) => denied.push((path.clone(), kind)),
            (_, true) => protected.push(path.clone()),
            _ => {}
        }
    }
    Findings { denied, protected }
}

fn places() -> Places {
    Places { session: abs("/s/1"), tmp: abs("/s/1/tmp"), mask_file: abs("/s/1/file"), mask_directory: abs("/s/1/dir") }
}

fn planned(case: &Case) -> (Result<ContainerPlan, ContainerError>, Vec<String>) {
    let facts = facts(case);
    let resolved = resolved(case, &facts);
    let choice = &resolved.agent.as_ref().expect("an agent was named").container;
    let mounts = match case.surface {
        Surface::Given => {
            let plan = compile(&resolved.surface, &facts, Rung::Docker);
            guarded(&resolved.surface, &plan.mounts, &findings(&resolved, &facts))
        }
        Surface::Not => Vec::new(),
    };
    let access = |mode| if mode == MountMode::ReadWrite { MountAccess::ReadWrite } else { MountAccess::ReadOnly };
    let listed: Vec<OperatorMount> = choice
        .mounts
        .iter()
        .map(|mount| OperatorMount {
            source: mount.source.clone(),
            destination: mount.destination.clone(),
            access: access(mount.mode),
            written: mount.written.to_string(),
        })
        .collect();
    let (kept, dropped) = compose(&mounts, &listed, choice.surface_mode.value);
    let kept: Vec<(OperatorMount, Vec<MountOp>)> = kept.into_iter().map(|mount| (mount, Vec::new())).collect();
    let image = choice.image.as_ref().map_or("localhost/ringfence-host:0", |image| image.value.as_str());
    let submounts: Vec<AbsPath> = facts.mounts.iter().map(|mount| mount.target.clone()).collect();
    let caps = resolved.surface.caps();
    let plan = container(&ContainerOrder {
        facts: case.facts,
        image,
        programs: if choice.image.is_some() { Programs::Image } else { Programs::Host },
        mounts: &mounts,
        operator: &kept,
        submounts: &submounts,
        places: &places(),
        user: (1000, 1000),
        label: None,
        hostname: None,
        workdir: (case.surface == Surface::Given).then_some(resolved.surface.workdir()),
        memory: caps.memory.as_ref().map(|cap| cap.value),
        pids: caps.pids.as_ref().map(|cap| cap.value),
        first: First::Engines(&[b"work".to_vec()]),
    });
    let dropped =
        dropped.iter().map(|one| format!("dropped: {} at {}: {}", one.mount.source, one.mount.destination, one.why));
    (plan, dropped.collect())
}

/// G6, G10, G12: what an engine is told, and what it cannot be told.
#[test]
fn g6_what_an_engine_is_told() {
    assert!(CASES.len() >= 30);
    let mut text = String::new();
    for case in CASES {
        text += &format!("# {}\n", case.name);
        let (plan, dropped) = planned(case);
        match plan {
            Ok(plan) => {
                for word in plan.words {
                    text += &format!("{}\n", String::from_utf8(word).expect("an engine is told text").escape_debug());
                }
            }
            Err(cause) => text += &format!("refused: {cause}\n"),
        }
        dropped.iter().for_each(|line| text += &format!("{line}\n"));
        text += "\n";
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/goldens/containers.txt");
    if std::env::var_os("RINGFENCE_BLESS").is_some() {
        std::fs::write(&path, &text).expect("the golden can be written");
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(text, kept, "containers.txt differs; RINGFENCE_BLESS=1 accepts it");
}

/// G10: whatever the policy says, a container has no network, a root that cannot be written, no capability, and gains none.
#[test]
fn g10_every_container_is_hardened() {
    for case in CASES {
        let Ok(plan) = planned(case).0 else { continue };
        let words: Vec<&str> = plan.words.iter().map(|word| std::str::from_utf8(word).expect("text")).collect();
        let has = |pair: [&str; 2]| words.windows(2).any(|two| two == pair);
        assert!(has(["--network", "none"]) && words.contains(&"--read-only"), "{}", case.name);
        assert!(has(["--cap-drop", "ALL"]) && has(["--security-opt", "no-new-privileges"]), "{}", case.name);
        assert!(has(["--pull", "never"]) && words.contains(&"--user"), "{}", case.name);
        assert!(!words.iter().any(|word| word.contains("privileged=") || *word == "--privileged" || *word == "-v"));
        // Sorted by destination, and each of them once.
        let destinations: Vec<&AbsPath> = plan.bound.iter().map(|bound| &bound.destination).collect();
        assert!(destinations.is_sorted() && destinations.iter().collect::<BTreeSet<_>>().len() == destinations.len());
    }
}

/// G11: the pool is mounted, and the repository is not.
#[test]
fn g11_a_pool_is_mounted_in_the_repositorys_place() {
    let case = CASES.iter().find(|case| case.name == "a pool of worktrees").expect("it is there");
    let bound = planned(case).0.expect("it can be said").bound;
    let is_mounted = |path: &str| bound.iter().any(|one| one.destination == abs(path));
    assert!(is_mounted("/home/u/pool/api") && !is_mounted("/home/u/api"), "{bound:?}");
}

fn path() -> impl Strategy<Value = AbsPath> {
    proptest::collection::vec(prop_oneof!["a", "b", "c,d", "e\"f", "proc", "dev"], 1..4)
        .prop_map(|parts| abs(&format!("/{}", parts.join("/"))))
}

fn mount() -> impl Strategy<Value = OperatorMount> {
    (path(), path(), any::<bool>()).prop_map(|(source, destination, writable)| OperatorMount {
        source,
        destination,
        access: if writable { MountAccess::ReadWrite } else { MountAccess::ReadOnly },
        written: "a test".to_owned(),
    })
}

fn view() -> impl Strategy<Value = Vec<MountOp>> {
    let one = (path(), any::<bool>()).prop_map(|(path, writable)| MountOp::Bind {
        path,
        access: if writable { MountAccess::ReadWrite } else { MountAccess::ReadOnly },
        role: Role::Read,
    });
    proptest::collection::vec(one, 0..6)
}

fn bound_of(mounts: &[MountOp], kept: &[OperatorMount]) -> Vec<Bound> {
    let operator: Vec<(OperatorMount, Vec<MountOp>)> = kept.iter().map(|mount| (mount.clone(), Vec::new())).collect();
    let plan = container(&ContainerOrder {
        facts: DOCKER,
        image: "localhost/a:1",
        programs: Programs::Host,
        mounts,
        operator: &operator,
        submounts: &[],
        places: &places(),
        user: (1000, 1000),
        label: None,
        hostname: None,
        workdir: None,
        memory: None,
        pids: None,
        first: First::Engines(&[]),
    });
    plan.map_or(Vec::new(), |plan| plan.bound)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2000) })]

    /// G8: each mount of the operator's goes along or is returned; whatever is listed, the Surface's own are as without.
    #[test]
    fn g8_the_surface_is_never_changed(
        surface in view(),
        operator in proptest::collection::vec(mount(), 0..6),
        exclusive in any::<bool>(),
    ) {
        let mode = if exclusive { SurfaceMode::Exclusive } else { SurfaceMode::Additive };
        let (kept, dropped) = compose(&surface, &operator, mode);
        prop_assert_eq!(kept.len() + dropped.len(), operator.len());
        if exclusive {
            prop_assert!(kept.is_empty() && dropped.iter().all(|one| one.why == WhyDropped::Exclusive));
        }
        for one in &kept {
            prop_assert!(operator.contains(one));
            for op in &surface {
                let (a, b) = (&one.destination, op.destination());
                prop_assert!(!a.is_within(b) && !b.is_within(a), "{a} meets {b}");
            }
        }
        let (without, with) = (bound_of(&surface, &[]), bound_of(&surface, &kept));
        for bound in &without {
            prop_assert!(with.contains(bound), "{bound:?} was changed");
        }
        let more = with.iter().filter(|bound| !without.contains(bound)).count();
        prop_assert!(with.is_empty() || more == kept.len());
        for bound in with.iter().filter(|bound| !without.contains(bound)) {
            let of = |one: &&OperatorMount| one.destination == bound.destination
                && bound.material == Material::Host { source: one.source.clone(), access: one.access };
            prop_assert!(kept.iter().any(|one| of(&one)));
        }
    }

    /// G12: without a Surface there are the operator's mounts, and nothing else.
    #[test]
    fn g12_the_operators_mounts_alone(operator in proptest::collection::vec(mount(), 0..6)) {
        let (kept, _) = compose(&[], &operator, SurfaceMode::Additive);
        prop_assert_eq!(bound_of(&[], &kept).len(), kept.len());
    }
}
