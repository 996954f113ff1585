//! M7: the profiles for the host's own security modules, as text that is kept. `RINGFENCE_BLESS=1` accepts a difference.

#![expect(clippy::disallowed_methods, reason = "the crate may not look at the disk, its test data lies there")]

use std::collections::BTreeMap;
use std::path::Path;

use ringfence_plan::{Profile, apparmor, chroot, namespaces_profile, selinux};
use ringfence_surface::policy::PolicyFile;
use ringfence_surface::text::PolicyText;
use ringfence_surface::{AbsPath, HostFacts, Inputs, Layer, Level, PathFact, Request, Surface, Trust, Via, resolve};

fn abs(text: &str) -> AbsPath {
    AbsPath::lexical(text.as_bytes()).expect("test data is right")
}

fn surface(policy: &str) -> Surface {
    let path = "/home/u/proj/ringfence.toml";
    let text = PolicyText::new(path.as_bytes(), policy.as_bytes().to_vec()).expect("test data is right");
    let file = PolicyFile::parse(&text).unwrap_or_else(|said| panic!("{said:?}"));
    let dirs = "/home /home/u /home/u/proj /home/u/docs /usr /etc";
    let mut paths: BTreeMap<AbsPath, PathFact> =
        dirs.split_whitespace().map(|dir| (abs(dir), PathFact::Directory)).collect();
    paths.insert(abs(path), PathFact::File);
    let facts = HostFacts {
        environment: BTreeMap::from([(b"HOME".to_vec(), b"/home/u".to_vec())]),
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
    resolve(&inputs, &facts, &mut &facts).unwrap_or_else(|said| panic!("{said:?}")).surface
}

const POLICY: &str = "version = 1\n[files]\nwrite = [\".\"]\nread = [\"../docs\"]\n\
    deny = [\"secret\", \"a b/*.k[e-y]\", '\"q\",\\{x\\}', 'ü', \"new\\nline\", \"keys/**\", \"!keys/**/open\"]\n\
    protect = [\"infra/**\"]\n[network]\nallow = [\"api.example.com:443\"]\n[limits]\npids = 64\n";

/// A profile without what is said of built-in names: those are tables of their own.
fn shown(profile: &Profile) -> String {
    let is_own = |line: &&str| {
        let is_rule = line.contains("deny ") || line.contains("(filecon ");
        !is_rule || line.contains("/home/u/proj/") && !line.contains("(/.*)?/")
    };
    let mut text: String = profile.text.lines().filter(is_own).map(|line| format!("{line}\n")).collect();
    let is_built_in = |claim: &str| claim.contains(" **/") || claim.contains(" /etc");
    for short in profile.shortfalls.iter().filter(|short| !is_built_in(&short.claim.to_string())) {
        text += &format!("not held: {}: {}\n", short.claim, short.reason);
    }
    for withheld in profile.withheld.iter().filter(|withheld| withheld.pattern.starts_with("/home")) {
        text += &format!("withheld: {}: {}\n", withheld.pattern, withheld.reason);
    }
    text
}

#[track_caller]
fn golden(name: &str, found: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/goldens").join(name);
    if std::env::var_os("RINGFENCE_BLESS").is_some() {
        std::fs::write(&path, found).expect("test data is right");
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(found, kept, "{name} differs; RINGFENCE_BLESS=1 accepts it");
}

#[test]
fn m7_apparmor_profiles() {
    golden("apparmor.txt", &shown(&apparmor(&surface(POLICY), "ringfence-session")));
}

#[test]
fn m7_selinux_modules() {
    golden("selinux.txt", &shown(&selinux(&surface(POLICY), "ringfence_session")));
}

/// What is meant anywhere stands in one rule of AppArmor's, and is said of each root to SELinux.
#[test]
fn m7_names_that_are_meant_anywhere() {
    let surface = surface("version = 1\n[files]\nwrite = [\".\"]\ndeny = [\"**/.env\"]\n");
    let aa = apparmor(&surface, "p").text;
    assert!(aa.contains("deny \"/{,**/}.env{,/,/**}\" mrwklx,\n"), "{aa}");
    let se = selinux(&surface, "p").text;
    assert!(se.contains("(filecon \"/home/u/proj(/.*)?/\\.env(/.*)?\" any (system_u object_r denied "), "{se}");
}

#[test]
fn m1_the_steps_to_a_root() {
    golden("chroot.txt", &chroot(&surface(POLICY), &abs("/home/u/proj")));
}

/// A path that would mean more than itself has no profile.
#[test]
fn m7_a_profile_for_ringfence_itself() {
    assert!(namespaces_profile("/usr/local/bin/ringfence").is_some_and(|text| text.contains("userns,")));
    for path in ["ringfence", "/opt/a b/ringfence", "/opt/*/ringfence", "/opt/{a,b}"] {
        assert_eq!(namespaces_profile(path), None, "{path}");
    }
}
