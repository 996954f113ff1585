//! What a cluster is told for policies of every kind, as text that is kept, and read by a validator of the cluster's own schemas.
//! `RINGFENCE_BLESS=1` accepts a difference.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use ringfence_plan::{
    ClusterVersion, FilesFrom, Findings, Found, MountAccess, MountOp, NamedHosts, OperatorMount, PodError, PodOrder,
    PodPlan, Programs, Rung, compile, compose, guarded, pod,
};
use ringfence_surface::policy::{MountMode, PolicyFile};
use ringfence_surface::text::PolicyText;
use ringfence_surface::{
    AbsPath, Access, Because, HostFacts, Inputs, Layer, Level, MountFact, PathFact, Request, Resolved, Role, Trust,
    Via, resolve,
};
use ringfence_testkit::report_skip;

use super::{PodKind, objects};
use crate::yaml;

/// One policy on one host, for one cluster.
#[derive(Clone, Copy)]
struct Case {
    name: &'static str,
    policy: &'static str,
    /// What stands in the project: a directory ends with a slash.
    holds: &'static [&'static [u8]],
    files: FilesFrom<'static>,
    kind: PodKind,
    named: NamedHosts,
    cluster: u32,
    runtime_class: Option<&'static str>,
}

const fn case(name: &'static str, policy: &'static str) -> Case {
    Case {
        name,
        policy,
        holds: &[],
        files: FilesFrom::Node,
        kind: PodKind::Pod,
        named: NamedHosts::Withheld,
        cluster: 33,
        runtime_class: None,
    }
}

const IMAGE: &str = "[agent.a.container]\nimage = \"registry.example.com/a:1\"\n";
const GUARDS: &str = "[files]\ndeny = [\"**/.env\", \"keys\", \"!keys/open\"]\nprotect = [\"infra\"]\nread = [\"../docs\"]\n\
                      [agent.a.container]\nimage = \"registry.example.com/a:1\"\n";
const GUARDED: &[&[u8]] = &[
    b".env",
    b".git/",
    b".git/hooks/",
    b".git/config",
    b"a/",
    b"a/b/",
    b"a/b/.env",
    b"infra/",
    b"keys/",
    b"keys/open/",
];
const ODD: &str = "[files]\ndeny = [\"**/.env\"]\n[agent.a.container]\nimage = \"registry.example.com/a:1\"\n";
const HOSTS: &str = "[network]\nallow = [\"example.com\", \"*.github.com:22\", \"10.0.0.0/8:5432\", \"100.100.0.0/16:80\", \
                     \"[2001:db8::/32]\"]\n[agent.a.container]\nimage = \"registry.example.com/a:1\"\n";
const OPERATOR: &str = "[agent.a.container]\nimage = \"registry.example.com/a:1\"\nmounts = [{ src = \"/srv/models\", dst = \
                        \"/models\" }, { src = \"/srv/scratch\", dst = \"/scratch\", mode = \"rw\" }]\n";

static CASES: &[Case] = &[
    case("the node's own programs", ""),
    case("an image of its own", IMAGE),
    Case { holds: GUARDED, ..case("denied, protected and an exception, from the node", GUARDS) },
    Case { holds: GUARDED, files: FilesFrom::Claim("work"), ..case("the same from a claim", GUARDS) },
    Case { holds: GUARDED, cluster: 30, ..case("an older cluster, with mounts below", GUARDS) },
    Case {
        holds: &[
            b"a,b/",
            b"a,b/.env",
            b"a\"b'/",
            b"a\"b'/.env",
            b"a\nb/",
            b"a\nb/.env",
            b" a /",
            b" a /.env",
            b"b\\c/",
            b"b\\c/.env",
            b"#/",
            b"#/.env",
            b"- x/",
            b"- x/.env",
            b"$(HOME)/",
            b"$(HOME)/.env",
            "ü\u{2028}\u{feff}\u{85}/".as_bytes(),
            "ü\u{2028}\u{feff}\u{85}/.env".as_bytes(),
            b"{{x}}/",
            b"{{x}}/.env",
            b"no",
            b"..x/",
            b"..x/.env",
        ],
        ..case("odd names", ODD)
    },
    Case { holds: &[b"a:b/", b"a:b/.env"], ..case("a colon", ODD) },
    Case { holds: &[b"\xff/", b"\xff/.env"], ..case("a name that is no text", ODD) },
    case("hosts", HOSTS),
    Case { named: NamedHosts::Cilium, ..case("hosts, with Cilium", HOSTS) },
    Case { kind: PodKind::Sandbox, named: NamedHosts::Cilium, ..case("a sandbox with hosts", HOSTS) },
    Case {
        kind: PodKind::Sandbox,
        runtime_class: Some("gvisor"),
        ..case(
            "a sandbox with limits and a kernel of its own",
            "[limits]\nmemory = \"1GiB\"\npids = 64\nwall = \"10m\"\n",
        )
    },
    case("an operator's mounts", OPERATOR),
    Case { files: FilesFrom::Claim("work"), ..case("an operator's mounts from a claim", OPERATOR) },
    Case { files: FilesFrom::Claim("work"), ..case("the host's programs from a claim", "") },
    case("the whole host", "[files]\nview = \"host\"\n"),
];

fn abs(text: &str) -> AbsPath {
    AbsPath::lexical(text.as_bytes()).unwrap()
}

fn facts(case: &Case) -> HostFacts {
    let dirs = "/home /home/u /home/u/proj /home/u/docs /home/u/docs/big /usr /etc /srv /srv/models /srv/scratch";
    let mut paths: BTreeMap<AbsPath, PathFact> =
        dirs.split_whitespace().map(|dir| (abs(dir), PathFact::Directory)).collect();
    paths.insert(abs("/bin"), PathFact::Link(b"usr/bin".to_vec()));
    paths.insert(abs("/home/u/proj/ringfence.toml"), PathFact::File);
    for held in case.holds {
        let kind = if held.ends_with(b"/") { PathFact::Directory } else { PathFact::File };
        paths.insert(AbsPath::lexical(&[b"/home/u/proj/", *held].concat()).unwrap(), kind);
    }
    HostFacts {
        environment: [(b"HOME".to_vec(), b"/home/u".to_vec())].into(),
        cwd: abs("/home/u/proj"),
        homes: vec![abs("/home/u")],
        paths,
        git: BTreeMap::new(),
        git_runs: BTreeMap::new(),
        mounts: vec![MountFact { target: abs("/home/u/docs/big"), kind: "ext4".into() }],
        kernel: "6.18".into(),
        session: None,
    }
}

fn resolved(case: &Case, facts: &HostFacts) -> Resolved {
    let path = "/home/u/proj/ringfence.toml";
    let policy = format!("version = 1\n{}[agent.a]\ncommand = [\"work\", \"$HOME $(HOME)\", \"\"]\n", case.policy);
    let text = PolicyText::new(path.as_bytes(), policy.into_bytes()).unwrap();
    let file = PolicyFile::parse(&text).unwrap_or_else(|said| panic!("{}: {said:?}", case.name));
    let request = Request {
        persona: None,
        task: None,
        agent: Some("a".into()),
        references: Vec::new(),
        env: Vec::new(),
        writes: Vec::new(),
        worktree: None,
    };
    let level = Level::Project(Trust::Trusted);
    let inputs = Inputs { layers: vec![Layer { level, via: Via::Itself, file, text, path: abs(path) }], request };
    resolve(&inputs, facts, &mut &*facts).unwrap_or_else(|said| panic!("{}: {said:?}", case.name))
}

/// What a walk of the project would find.
fn findings(resolved: &Resolved, facts: &HostFacts) -> Findings {
    let (mut denied, mut protected): (Vec<(AbsPath, Found)>, Vec<AbsPath>) = (Vec::new(), Vec::new());
    let project = abs("/home/u/proj");
    for (path, fact) in facts.paths.iter().filter(|(path, _)| path.is_within(&project) && **path != project) {
        if denied.iter().any(|(above, _)| path.is_within(above)) {
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

fn planned(case: &Case) -> Result<PodPlan, PodError> {
    let facts = facts(case);
    let resolved = resolved(case, &facts);
    let choice = resolved.agent.as_ref().unwrap();
    let own = |op: &MountOp| matches!(op, MountOp::Bind { role: Role::Cache | Role::Scratch, .. });
    let mounts: Vec<MountOp> =
        compile(&resolved.surface, &facts, Rung::Podman).mounts.into_iter().filter(|op| !own(op)).collect();
    let mounts = guarded(&resolved.surface, &mounts, &findings(&resolved, &facts));
    let access = |mode| if mode == MountMode::ReadWrite { MountAccess::ReadWrite } else { MountAccess::ReadOnly };
    let listed: Vec<OperatorMount> = choice
        .container
        .mounts
        .iter()
        .map(|mount| OperatorMount {
            source: mount.source.clone(),
            destination: mount.destination.clone(),
            access: access(mount.mode),
            written: mount.written.to_string(),
        })
        .collect();
    let (kept, _) = compose(&mounts, &listed, choice.container.surface_mode.value);
    let kept: Vec<(OperatorMount, Vec<MountOp>)> = kept.into_iter().map(|mount| (mount, Vec::new())).collect();
    let image = choice.container.image.as_ref();
    let command: Vec<Vec<u8>> = choice.command.iter().map(|word| word.clone().into_bytes()).collect();
    let submounts: Vec<AbsPath> = facts.mounts.iter().map(|mount| mount.target.clone()).collect();
    let order = PodOrder {
        name: "agent-1",
        image: image.map_or("localhost/ringfence-host:0", |image| image.value.as_str()),
        programs: if image.is_some() { Programs::Image } else { Programs::Host },
        files: case.files,
        surface: &resolved.surface,
        mounts: &mounts,
        operator: &kept,
        submounts: &submounts,
        linked: &[],
        named: case.named,
        cluster: ClusterVersion(case.cluster),
        runtime_class: case.runtime_class,
        user: (1000, 1000),
        command: &command,
    };
    pod(&order, &mut &facts)
}

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/goldens/kubernetes.yaml")
}

/// G6, G10, K9: what a cluster is told, what does not hold, and what it cannot be told.
#[test]
fn g6_what_a_cluster_is_told() {
    let mut text = "# Kept by a test: RINGFENCE_BLESS=1 accepts a difference.\n".to_owned();
    for case in CASES {
        text += &format!("# {}\n", case.name);
        match planned(case) {
            Ok(plan) => {
                for short in &plan.shortfalls {
                    text += &format!("# not held: {}: {}\n", short.claim, short.reason);
                }
                for one in &plan.withheld {
                    text += &format!("# withheld: {}: {}\n", one.pattern, one.reason);
                }
                text += &yaml::documents(&objects(&plan, case.kind).unwrap());
            }
            Err(cause) => text += &format!("# refused: {cause}\n"),
        }
        text += "\n";
    }
    if std::env::var_os("RINGFENCE_BLESS").is_some() {
        std::fs::write(golden(), &text).unwrap();
    }
    let kept = std::fs::read_to_string(golden()).unwrap_or_default();
    assert_eq!(text, kept, "kubernetes.yaml differs; RINGFENCE_BLESS=1 accepts it");
}

/// G10: whatever the policy says, a pod has no rights and gains none, no token, no root, and no way that is not listed.
#[test]
fn g10_every_pod_is_hardened() {
    for case in CASES {
        let Ok(plan) = planned(case) else { continue };
        let objects = objects(&plan, case.kind).unwrap();
        let policy = &objects[0];
        assert_eq!(policy["spec"]["policyTypes"], serde_json::json!(["Ingress", "Egress"]), "{}", case.name);
        assert_eq!(policy["spec"]["ingress"], serde_json::json!([]), "{}", case.name);
        let last = objects.last().unwrap();
        let (labels, spec) = match case.kind {
            PodKind::Pod => (&last["metadata"]["labels"], &last["spec"]),
            PodKind::Sandbox => {
                let template = &last["spec"]["podTemplate"];
                (&template["metadata"]["labels"], &template["spec"])
            }
        };
        assert_eq!(&policy["spec"]["podSelector"]["matchLabels"], labels, "{}", case.name);
        for (key, value) in [
            ("automountServiceAccountToken", false),
            ("enableServiceLinks", false),
            ("hostIPC", false),
            ("hostNetwork", false),
            ("hostPID", false),
            ("shareProcessNamespace", false),
        ] {
            assert_eq!(spec[key], value, "{}: {key}", case.name);
        }
        assert_eq!(spec["securityContext"]["runAsNonRoot"], true, "{}", case.name);
        assert_eq!(spec["securityContext"]["seccompProfile"]["type"], "RuntimeDefault", "{}", case.name);
        assert!(spec.get("initContainers").is_none() && spec["containers"].as_array().unwrap().len() == 1);
        let context = &spec["containers"][0]["securityContext"];
        assert_eq!(context["allowPrivilegeEscalation"], false, "{}", case.name);
        assert_eq!(context["privileged"], false, "{}", case.name);
        assert_eq!(context["readOnlyRootFilesystem"], true, "{}", case.name);
        assert_eq!(context["capabilities"], serde_json::json!({ "drop": ["ALL"] }), "{}", case.name);
        for mount in spec["containers"][0]["volumeMounts"].as_array().unwrap() {
            let expected = (mount["readOnly"] == true && case.cluster >= 31).then_some("Enabled");
            assert_eq!(mount["recursiveReadOnly"].as_str(), expected, "{}: {mount}", case.name);
            assert!(mount.get("mountPropagation").is_none() && mount.get("subPathExpr").is_none());
        }
    }
}

/// G6: every object is one that its version of Kubernetes knows, field by field, and each pod that a Sandbox holds is one too;
/// what is read as YAML is what was meant. `cargo xtask test` installs the validator.
#[test]
fn g6_a_cluster_takes_what_is_rendered() {
    let target = std::env::current_exe().unwrap();
    let bin = target.ancestors().nth(3).unwrap().join("kubernetes-validate/bin");
    if !bin.join("kubernetes-validate").is_file() {
        let why = "kubernetes-validate is not installed: `cargo xtask test` does it";
        assert_ne!(std::env::var_os("CI"), Some("true".into()), "{why}");
        return report_skip(why);
    }
    let dir = tempfile::tempdir().unwrap();
    let mut meant = Vec::new();
    for case in CASES {
        let Ok(plan) = planned(case) else { continue };
        meant.extend(objects(&plan, case.kind).unwrap());
        if case.kind == PodKind::Sandbox {
            meant.extend(objects(&plan, PodKind::Pod).unwrap());
        }
    }
    let (as_yaml, as_json) = (dir.path().join("objects.yaml"), dir.path().join("objects.json"));
    std::fs::write(&as_yaml, yaml::documents(&meant)).unwrap();
    std::fs::write(&as_json, serde_json::to_vec(&meant).unwrap()).unwrap();
    let mut validator = Command::new(bin.join("kubernetes-validate"));
    let output = validator.args(["--strict", "--kubernetes-version", "1.33"]).arg(&as_yaml).output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8(said).unwrap();
    assert!(output.status.success(), "{said}");
    let own =
        meant.iter().filter(|one| ["Sandbox", "CiliumNetworkPolicy"].iter().any(|kind| one["kind"] == *kind)).count();
    assert_eq!(said.matches(" passed for resource ").count() + own, meant.len(), "{said}");
    let same = "import json, sys, yaml\n\
                read = list(yaml.safe_load_all(open(sys.argv[1], encoding='utf-8')))\n\
                assert read == json.load(open(sys.argv[2], encoding='utf-8'))\n";
    let output = Command::new(bin.join("python3")).args(["-c", same]).args([&as_yaml, &as_json]).output().unwrap();
    assert!(output.status.success(), "{}", output.stderr.escape_ascii());
}

/// K9: what a pod never reaches is what nothing here ever dials, also where a policy names it.
#[test]
fn k9_what_is_never_dialled_is_never_reached() {
    use ringfence_egress::guard::{OptIn, refusal};
    for (address, _) in ringfence_plan::NEVER_DIALLED {
        let refused = refusal(*address, &[]);
        assert!(refused.is_some_and(|class| !class.is_opened_by(OptIn::Literal)), "{address}: {refused:?}");
    }
    for address in ["169.254.169.254", "169.254.170.2", "100.100.100.200", "168.63.129.16", "fd00:ec2::254", "fe80::1"]
    {
        let address: std::net::IpAddr = address.parse().unwrap();
        let one =
            |(network, prefix): &(std::net::IpAddr, u8)| ringfence_plan::is_in_network(address, *network, *prefix);
        assert!(ringfence_plan::NEVER_DIALLED.iter().any(one), "{address}");
    }
}
