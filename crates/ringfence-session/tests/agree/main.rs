//! Every layer agrees with `decide`: cases by chance, every case that was ever wrong, and fences that are broken on purpose.
//!
//! `cargo xtask agree` tries more. What it finds is made small and saved; once it is put right it stays here, in `cases`.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test that cannot set up has failed")]

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

const NOBODY: u32 = 65534;
const HERE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/agree");

/// Somewhere for trees, and a copy of the program that everybody can start.
struct World {
    dir: tempfile::TempDir,
    who: Who,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Who {
    Caller,
    Nobody,
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Root, and an ordinary user; only the latter where the tests do not run as root.
fn everybody() -> &'static [Who] {
    if is_root() { &[Who::Caller, Who::Nobody] } else { &[Who::Caller] }
}

impl World {
    /// Not in a directory that every session has its own of: there nothing of the host's could be seen.
    fn new(who: Who) -> Self {
        let places = ["/srv", env!("CARGO_TARGET_TMPDIR"), "/var/tmp"];
        let mut made = places.iter().filter_map(|place| {
            let dir = tempfile::Builder::new().prefix("ringfence-agree-").tempdir_in(place).ok()?;
            fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).ok()?;
            let is_open = dir
                .path()
                .ancestors()
                .all(|dir| fs::metadata(dir).is_ok_and(|found| found.permissions().mode() & 0o001 != 0));
            (is_open || who == Who::Caller).then_some(dir)
        });
        let dir = made.next().unwrap();
        // By `cp`: a process that another test forks while we hold it open for writing would keep it from being run.
        assert!(Command::new("cp").arg(example()).arg(dir.path().join("agree")).status().unwrap().success());
        let world = Self { dir, who };
        fs::create_dir(world.work()).unwrap();
        if who == Who::Nobody {
            chown(world.work(), Some(NOBODY), Some(NOBODY)).unwrap();
        }
        world
    }

    fn work(&self) -> PathBuf {
        self.dir.path().join("work")
    }

    /// Runs the program; whether it succeeded, and what it said.
    fn agree(&self, words: &[&str]) -> (bool, String) {
        let mut command = Command::new(self.dir.path().join("agree"));
        command
            .arg(words[0])
            .arg(self.work())
            .args(&words[1..])
            .current_dir("/")
            .env_clear()
            .env("PATH", "/usr/bin:/bin");
        if self.who == Who::Nobody {
            command.gid(NOBODY).uid(NOBODY);
        }
        let output = command.output().unwrap();
        let said = [output.stdout, output.stderr].concat().escape_ascii().to_string().replace("\\n", "\n");
        (output.status.success(), said)
    }

    /// A copy of saved cases that everybody can read.
    fn cases(&self, of: &str) -> Vec<String> {
        let copy = self.dir.path().join(of);
        fs::create_dir(&copy).unwrap();
        let mut cases: Vec<PathBuf> =
            fs::read_dir(Path::new(HERE).join(of)).unwrap().map(|entry| entry.unwrap().path()).collect();
        cases.sort();
        let copied = cases.iter().map(|case| {
            let to = copy.join(case.file_name().unwrap());
            fs::write(&to, fs::read(case).unwrap()).unwrap();
            to.to_str().unwrap().to_owned()
        });
        copied.collect()
    }
}

fn example() -> PathBuf {
    let mut path = std::env::current_exe().unwrap();
    path.pop();
    path.pop();
    path.push("examples/agree");
    assert!(path.exists(), "{} is missing: cargo build --example agree", path.display());
    path
}

/// What is tried. Another root directory takes a right that root has.
fn layers(who: Who) -> &'static [&'static str] {
    let all: &[&str] = &["policy", "native", "no-broker", "bwrap", "landlock", "render-docker", "hook", "chroot"];
    if who == Who::Caller && is_root() { all } else { &all[..7] }
}

/// How many policies, and how many deeds for each, in every build. `cargo xtask agree` tries more.
const POLICIES: &str = "16";
const DEEDS: &str = "400";

#[track_caller]
fn by_chance(who: Who, seed: &str) {
    let (is_well, said) = World::new(who).agree(&[&["run", "-", seed, POLICIES, DEEDS], layers(who)].concat());
    assert!(is_well && said.contains("wrong: 0"), "{who:?}\n{said}");
    // One in which nothing is said of anything cannot fail.
    assert!(tried(&said, "native") > 3000, "{said}");
}

/// g2: what each layer does is what `decide` says, for everything that the layer claims.
#[test]
fn g2_every_layer_agrees_with_decide() {
    by_chance(if is_root() { Who::Nobody } else { Who::Caller }, "1");
}

/// [E1] [E3] Calls within a session that are narrower than it, and what others execute of what is rendered, agree with `decide`.
#[test]
fn e1_e3_calls_and_renderings_agree_with_decide() {
    let who = if is_root() { Who::Nobody } else { Who::Caller };
    let layers = ["call", "call-landlock", "render-docker", "render-podman", "render-kubernetes"];
    let (is_well, said) = World::new(who).agree(&[&["run", "-", "9000", "14", "250"][..], &layers].concat());
    assert!(is_well && said.contains("wrong: 0"), "{said}");
    for layer in layers {
        assert!(tried(&said, layer) > 500, "{layer}: {said}");
    }
}

/// [E1] [E2] [E3] [E4] What must hold of a policy by itself: `deny` and `protect` beat every grant from every file at every depth, a
/// ceiling is one, a link that an agent made widens nothing, a call has no more than its session, and no mount more than `decide`.
#[test]
fn e1_e2_e3_e4_policies_by_chance_keep_their_rules() {
    let who = if is_root() { Who::Nobody } else { Who::Caller };
    let (is_well, said) = World::new(who).agree(&["run", "-", "20000", "150", "1", "policy"]);
    assert!(is_well && said.contains("wrong: 0"), "{said}");
    assert!(tried(&said, "policy") > 20_000, "{said}");
}

/// In how many deeds a layer was tried.
fn tried(said: &str, layer: &str) -> u32 {
    let after = said.lines().last().unwrap().split_once(&format!("{layer} ")).unwrap().1;
    after.split([',', ';']).next().unwrap().parse().unwrap()
}

#[test]
fn g2_every_layer_agrees_with_decide_started_by_root() {
    if is_root() {
        by_chance(Who::Caller, "5000");
    }
}

/// Whatever was once wrong.
#[test]
fn g2_what_was_once_wrong_stays_right() {
    for who in everybody() {
        let world = World::new(*who);
        let cases = world.cases("cases");
        assert!(cases.len() >= 18);
        let mut words: Vec<&str> = [&["replay"], layers(*who), &["--"]].concat();
        words.extend(cases.iter().map(String::as_str));
        let (is_well, said) = world.agree(&words);
        assert!(is_well, "{who:?}\n{said}");
    }
}

/// A fence that is broken on purpose shows. The case is well without the bug.
#[track_caller]
fn shows(bug: &str) {
    shows_to(bug, everybody());
    let world = World::new(if is_root() { Who::Nobody } else { Who::Caller });
    let (shows, said) = world.agree(&["chance", bug, "1", "60", "150"]);
    assert!(shows, "{bug} does not show in cases by chance\n{said}");
}

#[track_caller]
fn shows_to(bug: &str, those: &[Who]) {
    for who in those {
        let world = World::new(*who);
        let cases = world.cases("bugs");
        let case = cases.iter().find(|case| case.ends_with(&format!("/{bug}.case"))).unwrap();
        let (shows, said) = world.agree(&["broken", bug, case]);
        assert!(shows, "{who:?}\n{said}");
    }
}

#[test]
fn g2_a_dropped_pin_shows() {
    shows("dropped-pin");
}

#[test]
fn g2_a_read_only_that_is_not_recursive_shows() {
    shows("shallow-read-only");
}

#[test]
fn g2_a_deny_that_landlock_misses_shows() {
    shows("missing-deny");
    if is_root() {
        shows_to("missing-deny-chroot", &[Who::Caller]);
    }
}

#[test]
fn g2_a_missing_mask_shows() {
    shows("missing-mask");
    shows("missing-mask-bwrap");
}
