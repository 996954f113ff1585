//! What must hold of every pod that is described, whatever is in the view, and what cannot be said.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use ringfence_plan::{
    ClusterVersion, FilesFrom, Findings, Found, MountAccess, MountOp, NamedHosts, OperatorMount, PodError, PodOrder,
    PodPlan, PodVolumeKind, Programs, guarded_operator, pod,
};
use ringfence_surface::policy::PolicyFile;
use ringfence_surface::text::PolicyText;
use ringfence_surface::{
    AbsPath, HostFacts, Inputs, Layer, Level, PathFact, Request, Role, Surface, Trust, Via, resolve,
};

fn abs(text: &str) -> AbsPath {
    AbsPath::lexical(text.as_bytes()).expect("test data is right")
}

fn facts(paths: BTreeMap<AbsPath, PathFact>) -> HostFacts {
    HostFacts {
        environment: [(b"HOME".to_vec(), b"/home/u".to_vec())].into(),
        cwd: abs("/home/u/proj"),
        homes: vec![abs("/home/u")],
        paths,
        git: BTreeMap::new(),
        git_runs: BTreeMap::new(),
        mounts: Vec::new(),
        kernel: "6.18".into(),
        session: None,
    }
}

fn surface(policy: &str) -> Surface {
    let path = "/home/u/proj/ringfence.toml";
    let text =
        PolicyText::new(path.as_bytes(), format!("version = 1\n{policy}").into_bytes()).expect("test data is right");
    let file = PolicyFile::parse(&text).unwrap_or_else(|said| panic!("{said:?}"));
    let dirs = ["/home", "/home/u", "/home/u/proj"];
    let facts = facts(dirs.map(|dir| (abs(dir), PathFact::Directory)).into());
    let request = Request {
        persona: None,
        task: None,
        agent: None,
        references: Vec::new(),
        env: Vec::new(),
        writes: Vec::new(),
        worktree: None,
    };
    let level = Level::Project(Trust::Trusted);
    let inputs = Inputs { layers: vec![Layer { level, via: Via::Itself, file, text, path: abs(path) }], request };
    resolve(&inputs, &facts, &mut &facts).unwrap_or_else(|said| panic!("{said:?}")).surface
}

fn order<'a>(
    surface: &'a Surface,
    mounts: &'a [MountOp],
    operator: &'a [(OperatorMount, Vec<MountOp>)],
) -> PodOrder<'a> {
    PodOrder {
        name: "a",
        image: "localhost/a:1",
        programs: Programs::Image,
        files: FilesFrom::Node,
        surface,
        mounts,
        operator,
        submounts: &[],
        linked: &[],
        named: NamedHosts::Withheld,
        cluster: ClusterVersion(33),
        runtime_class: None,
        user: (1000, 1000),
        command: &[],
    }
}

/// Everything exists, as a directory where something is said to be in it.
fn described(order: &PodOrder<'_>) -> Result<PodPlan, PodError> {
    let all = order.mounts.iter().map(|op| op.destination().clone());
    let all = all.chain(order.operator.iter().map(|(mount, _)| mount.source.clone()));
    let facts = facts(all.map(|path| (path, PathFact::Directory)).collect());
    pod(order, &mut &facts)
}

#[track_caller]
fn refused(change: impl Fn(&mut PodOrder<'_>), expected: &str) {
    let surface = surface("");
    let mut order = order(&surface, &[], &[]);
    change(&mut order);
    let said = described(&order).map_or_else(|refused| refused.to_string(), |plan| format!("{} is made", plan.name));
    assert_eq!(said, expected);
}

/// G10: what cannot be said, or should not be, is refused.
#[test]
fn g10_what_no_pod_is_described_of() {
    let name = |name: &str| {
        format!("{name:?} cannot be the name of an object: lower-case letters, digits and `-`, at most 50 of them")
    };
    refused(|order| order.name = "A b", &name("A b"));
    refused(|order| order.name = "", &name(""));
    refused(|order| order.files = FilesFrom::Claim("../x"), &name("../x"));
    refused(|order| order.runtime_class = Some("a\nb"), &name("a\nb"));
    refused(|order| order.image = "", "\"\" is not the name of an image");
    refused(|order| order.image = "a b", "\"a b\" is not the name of an image");
    refused(|order| order.user = (0, 5), "whoever works in a pod may not be root, nor of root's group");
    refused(|order| order.user = (5, 0), "whoever works in a pod may not be root, nor of root's group");
    refused(|order| order.cluster = ClusterVersion(24), "Kubernetes 1.24 is older than 1.25");
    let claim = "with files from a claim an image must be named: `[agent.NAME.container] image`";
    refused(|order| (order.files, order.programs) = (FilesFrom::Claim("c"), Programs::Host), claim);
    let surface = surface("");
    let bind = |path: &[u8]| {
        let path = AbsPath::lexical(path).expect("test data is right");
        [MountOp::Bind { path, access: MountAccess::ReadWrite, role: Role::Write }]
    };
    for (path, said) in [
        (&b"/w/a:b"[..], "/w/a:b holds a colon, which Kubernetes takes in no place where something is mounted"),
        (b"/w/\xff", "/w/\\xff is not UTF-8, and Kubernetes cannot be told of it"),
        (b"/", "a container has a root of its own, and cannot show the host's whole"),
        (b"/proc", "/proc is the engine's own"),
    ] {
        assert_eq!(described(&order(&surface, &bind(path), &[])).unwrap_err().to_string(), said);
    }
    // A link would be followed on the node, and what is missing made there.
    let mounts = bind(b"/w");
    for fact in [PathFact::Link(b"/etc".to_vec()), PathFact::Missing, PathFact::Special] {
        let facts = facts([(abs("/w"), fact)].into());
        let said = pod(&order(&surface, &mounts, &[]), &mut &facts).unwrap_err().to_string();
        assert_eq!(said, "/w is a link, or nothing that can be mounted");
    }
    let words = [b"\xff".to_vec()];
    let with_words = PodOrder { command: &words, ..order(&surface, &[], &[]) };
    assert_eq!(described(&with_words), Err(PodError::Command));
}

/// K9: addresses are rules of a network policy, names only with Cilium, and what hands out credentials is never among them.
#[test]
fn k9_hosts_of_a_pod() {
    let allow = "[network]\nallow = [\"example.com\", \"*.github.com:22\", \"10.0.0.0/8:5432\", \"[2001:db8::/32]\", \"100.100.0.0/16:80\"]\n\
                 host_ports = [8080]\n";
    let surface = surface(allow);
    let with = |named| {
        let plan = described(&PodOrder { named, ..order(&surface, &[], &[]) }).expect("it can be said");
        let withheld: Vec<String> = plan.withheld.iter().map(|one| one.pattern.clone()).collect();
        (plan.network, withheld)
    };
    let (rules, withheld) = with(NamedHosts::Withheld);
    let mut addresses: Vec<(&str, usize, &[u16])> =
        rules.addresses.iter().map(|rule| (rule.network.as_str(), rule.except.len(), rule.ports.as_slice())).collect();
    addresses.sort();
    let expected: [(&str, usize, &[u16]); 3] =
        [("10.0.0.0/8", 0, &[5432]), ("100.100.0.0/16", 1, &[80]), ("2001:db8::/32", 0, &[80, 443])];
    assert_eq!(addresses, expected);
    assert!(rules.names.is_empty());
    for pattern in ["example.com", "*.github.com:22", "port 8080 of the host"] {
        assert!(withheld.iter().any(|one| one == pattern), "{pattern}: {withheld:?}");
    }
    let (rules, withheld) = with(NamedHosts::Cilium);
    let mut names: Vec<(&str, &[u16])> =
        rules.names.iter().map(|(name, ports)| (name.as_str(), ports.as_slice())).collect();
    names.sort();
    let expected: [(&str, &[u16]); 2] = [("*.github.com", &[22]), ("example.com", &[80, 443])];
    assert_eq!(names, expected);
    assert!(!withheld.iter().any(|one| one == "example.com"), "{withheld:?}");
}

fn path() -> impl Strategy<Value = AbsPath> {
    proptest::collection::vec(proptest::sample::select(vec!["a", "b", "c,d", "e\"f", "\n", "$(A)", "..x"]), 1..5)
        .prop_map(|parts| abs(&format!("/{}", parts.join("/"))))
}

fn access() -> impl Strategy<Value = MountAccess> {
    prop_oneof![Just(MountAccess::ReadOnly), Just(MountAccess::ReadWrite)]
}

fn view() -> impl Strategy<Value = Vec<MountOp>> {
    let one = (path(), access(), prop_oneof![Just(Role::Write), Just(Role::System)])
        .prop_map(|(path, access, role)| MountOp::Bind { path, access, role });
    proptest::collection::vec(one, 0..5).prop_map(|ops| {
        let by_path: BTreeMap<AbsPath, MountOp> = ops.into_iter().map(|op| (op.destination().clone(), op)).collect();
        by_path.into_values().collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(1500) })]

    /// G6, G10: whatever is shown, denied and protected: nothing of the node's is mounted but what is shown; what is denied is
    /// made of nothing and read-only, what is protected read-only; each place once, in order; each volume has a plain name of its
    /// own and is used.
    #[test]
    fn g10_nothing_of_the_node_but_what_is_shown(
        ops in view(),
        denied in proptest::collection::btree_set(path(), 0..4),
        protected in proptest::collection::btree_set(path(), 0..4),
        (host, claimed, minor) in (any::<bool>(), any::<bool>(), 25_u32..40),
    ) {
        static SURFACE: std::sync::LazyLock<Surface> = std::sync::LazyLock::new(|| surface(""));
        let shown = |path: &AbsPath| ops.iter().any(|op| path.is_within(op.destination()) && path != op.destination());
        let denied: Vec<(AbsPath, Found)> = denied.into_iter().filter(|path| shown(path)).map(|path| (path, Found::File)).collect();
        let protected: Vec<AbsPath> =
            protected.into_iter().filter(|path| shown(path) && !denied.iter().any(|(above, _)| path.is_within(above))).collect();
        let findings = Findings { denied: denied.clone(), protected: protected.clone() };
        let mounts = guarded_operator(&ops, &findings);
        let files = if claimed { FilesFrom::Claim("c") } else { FilesFrom::Node };
        let programs = if host && !claimed { Programs::Host } else { Programs::Image };
        let plan = described(&PodOrder { files, programs, cluster: ClusterVersion(minor), ..order(&SURFACE, &mounts, &[]) });
        let plan = plan.expect("everything here can be said");
        let paths: Vec<&str> = plan.mounts.iter().map(|mount| mount.path.as_str()).collect();
        prop_assert!(paths.is_sorted() && paths.iter().collect::<BTreeSet<_>>().len() == paths.len(), "{paths:?}");
        let names: BTreeSet<&str> = plan.volumes.iter().map(|volume| volume.name.as_str()).collect();
        prop_assert_eq!(names.len(), plan.volumes.len());
        prop_assert!(names.iter().all(|name| name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')));
        prop_assert!(names.iter().all(|name| plan.mounts.iter().any(|mount| mount.volume == *name)));
        let kind = |volume: &str| plan.volumes.iter().find(|one| one.name == volume).map(|one| &one.kind);
        for mount in &plan.mounts {
            let place = abs(&mount.path);
            let from_host = match kind(&mount.volume) {
                Some(PodVolumeKind::Node { path, .. }) if path == "/dev/null" => None,
                Some(PodVolumeKind::Node { path, .. }) => Some(abs(path)),
                Some(PodVolumeKind::Claim(_)) => mount.part.as_ref().map(|part| abs(&format!("/{part}"))),
                Some(_) => None,
                None => panic!("{} is no volume", mount.volume),
            };
            prop_assert_eq!(mount.part.is_some(), claimed && (from_host.is_some() || mount.volume == "denied-file"));
            let Some(source) = from_host else { continue };
            prop_assert_eq!(&source, &place);
            let around = ops.iter().filter(|op| place.is_within(op.destination())).max_by_key(|op| op.destination().as_bytes().len());
            let Some(MountOp::Bind { access, .. }) = around else { panic!("{place} is not shown") };
            prop_assert!(*access >= mount.access, "{place} is writable and was not");
            prop_assert!(!denied.iter().any(|(path, _)| *path == place) || ops.iter().any(|op| *op.destination() == place));
            let is_protected = protected.contains(&place) && !ops.iter().any(|op| *op.destination() == place);
            prop_assert!(!is_protected || mount.access == MountAccess::ReadOnly, "{place} is protected");
        }
        // With the host's programs everything is shown, so everything guarded is guarded.
        if programs == Programs::Host {
            for (path, _) in &denied {
                let is_hollow = ops.iter().any(|op| op.destination().is_within(path));
                let mount = plan.mounts.iter().find(|mount| abs(&mount.path) == *path).expect("it is guarded");
                prop_assert!(is_hollow || (mount.access == MountAccess::ReadOnly && mount.volume.starts_with("denied")));
            }
        }
    }
}
