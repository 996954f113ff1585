//! `ringfence verify` on the real kernel.

#![expect(clippy::unwrap_used, reason = "a test that cannot set up has failed")]

use std::fs;
use std::os::unix::fs::lchown;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use ringfence_testkit::World;
use serde_json::Value;

const NOBODY: u32 = 65_534;

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn give_away(path: &Path) {
    lchown(path, Some(NOBODY), Some(NOBODY)).unwrap();
    if path.is_dir() && !path.is_symlink() {
        fs::read_dir(path).unwrap().for_each(|entry| give_away(&entry.unwrap().path()));
    }
}

const POLICY: &str = "version = 1\nextends = [\"rust\", \"node\"]\n[files]\nwrite = [\".\"]\nread = [\"../docs\"]\ndeny = [\"**/.env\", \"vault\"]\n\
                      protect = [\"infra\"]\n[network]\nallow = [\"github.com\"]\nhost_ports = [5432]\n";

fn ground() -> World {
    let world = World::open_to_all(env!("CARGO_BIN_EXE_ringfence"));
    world.write("project/ringfence.toml", POLICY);
    world.write("project/infra/main", "as it was\n");
    world.write("project/.env", "a secret\n");
    world.mkdir("docs");
    world.mkdir("home");
    if is_root() {
        ["project", "docs", "home"].iter().for_each(|dir| give_away(&world.path(dir)));
    }
    world
}

/// An ordinary user verifies: whoever runs the tests, unless that is root.
fn verify(world: &World, words: &[&str]) -> Output {
    let mut command = Command::new(world.binary());
    command.arg("verify").args(["--policy", "ringfence.toml"]).args(words);
    command.current_dir(world.path("project")).env_clear().env("PATH", "/usr/bin:/bin").env("HOME", world.path("home"));
    if is_root() {
        command.gid(NOBODY).uid(NOBODY);
    }
    command.stdin(Stdio::null()).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    bytes.escape_ascii().to_string().replace("\\n", "\n").replace("\\\"", "\"")
}

/// Everything below a directory, with its content.
fn snapshot(dir: &Path) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap().map(Result::unwrap) {
        let (path, name) = (entry.path(), entry.path().display().to_string());
        if entry.file_type().unwrap().is_dir() {
            found.push((name, Vec::new()));
            found.extend(snapshot(&path));
        } else {
            found.push((name, fs::read(&path).unwrap()));
        }
    }
    found.sort();
    found
}

/// The names of everything below a directory.
fn listing(dir: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap().map(Result::unwrap) {
        found.push(entry.path().display().to_string());
        if entry.file_type().unwrap().is_dir() {
            found.extend(listing(&entry.path()));
        }
    }
    found.sort();
    found
}

/// g2: each rule holds in each layer or is said not to be carried, nothing of the user's is touched, and nothing is left.
#[test]
fn g2_every_rule_is_tried() {
    let world = ground();
    let before = snapshot(&world.path("project"));
    let layers = ["native", "no-broker", "landlock", "hook"].map(|layer| ["--backend", layer]).concat();
    let output = verify(&world, &[&layers[..], &["--json"]].concat());
    let said = text(&output.stderr);
    let json: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{said}"));
    assert_eq!(output.status.code(), Some(0), "{}\n{said}", json["mismatches"]);
    assert_eq!((&json["ok"], json["mismatches"].as_array().unwrap().len()), (&Value::Bool(true), 0));
    assert!(json["schema"].as_u64().is_some());
    let layers = json["layers"].as_array().unwrap();
    assert_eq!(
        layers.iter().map(|layer| layer["name"].as_str().unwrap()).collect::<Vec<_>>(),
        ["native", "no-broker", "landlock", "hook"]
    );
    for layer in layers {
        assert!(layer["available"] == true && layer["tried"].as_u64().unwrap() > 1_000, "{layer}");
    }
    let result = |rule: &str, layer: &str| {
        let row = json["rules"].as_array().unwrap().iter().find(|row| row["rule"].as_str().unwrap().starts_with(rule));
        let cells = row.unwrap_or_else(|| panic!("{rule}"))["layers"].as_array().unwrap();
        cells.iter().find(|cell| cell["layer"] == layer).unwrap().clone()
    };
    for layer in ["native", "landlock", "hook"] {
        assert_eq!(result("deny \"**/.env\"", layer)["result"], "holds", "{layer}");
    }
    assert_eq!(result("protect \"infra\"", "native")["result"], "holds");
    // The broker guards names that do not exist yet, and where there is none that is said.
    for rule in ["deny \"**/.env\"", "protect \"infra\""] {
        assert_eq!(result(rule, "native")["not_carried"], serde_json::json!([]), "{rule}");
    }
    let walls = result("deny \"**/.env\"", "no-broker");
    assert_eq!(walls["result"], "holds");
    let said = walls["not_carried"][0].as_str().unwrap();
    assert!(said.contains("names that do not exist yet are not guarded: the broker is switched off"), "{said}");
    // Landlock takes nothing away below what it gave, and says so.
    let landlock = result("protect \"infra\"", "landlock");
    assert_eq!(landlock["result"], "not carried");
    assert!(
        landlock["not_carried"].as_array().unwrap().iter().any(|why| why.as_str().unwrap().contains("rights add up"))
    );
    for about in ["the network", "sockets of the host", "processes of the host"] {
        assert_eq!(result(about, "native")["result"], "holds", "{about}");
    }
    assert_eq!(snapshot(&world.path("project")), before);
    let left = fs::read_dir(world.path("home/.local/state/ringfence/calls")).unwrap().count();
    assert_eq!(left, 0);
}

/// g2: the same in a root, which is made for it and goes afterwards; without the right to another root directory it cannot be
/// had, and that is said.
#[test]
fn g2_every_rule_is_tried_in_a_root() {
    let world = ground();
    let words = ["verify", "--policy", "ringfence.toml", "--backend", "chroot", "--json"];
    let mut command = Command::new(world.binary());
    command.args(words).current_dir(world.path("project")).env_clear();
    command.env("PATH", "/usr/bin:/bin").env("HOME", world.path("roots-home"));
    world.mkdir("roots-home");
    let output = command.stdin(Stdio::null()).output().unwrap();
    let said = text(&output.stderr);
    if !is_root() {
        assert_eq!(output.status.code(), Some(125), "{said}");
        assert!(said.contains("CAP_SYS_CHROOT"), "{said}");
        return;
    }
    let json: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{said}"));
    assert_eq!(output.status.code(), Some(0), "{}\n{said}", json["mismatches"]);
    assert!(json["layers"][0]["tried"].as_u64().unwrap() > 1_000, "{}", json["layers"]);
    let rules = json["rules"].as_array().unwrap();
    let row = rules.iter().find(|row| row["rule"].as_str().unwrap().starts_with("deny \"**/.env\"")).unwrap();
    assert_eq!(row["layers"][0]["result"], "holds", "{row}");
    let roots = fs::read_dir(world.path("roots-home/.local/share/ringfence/roots")).unwrap();
    assert_eq!(roots.count(), 0);
    // In a root of the user's, which has none of the libraries that ringfence needs: they come along, and go again.
    let said = |words: &[&str]| {
        let mut command = Command::new(world.binary());
        command.args(words).current_dir(world.path("project")).env_clear();
        command.env("PATH", "/usr/bin:/bin").env("HOME", world.path("roots-home"));
        command.stdin(Stdio::null()).output().unwrap()
    };
    let made = said(&["root", "create", "mine", "--with", "file"]);
    assert!(made.status.success(), "{}", text(&made.stderr));
    let own = world.path("roots-home/.local/share/ringfence/roots/mine/tree");
    let before = listing(&own);
    let in_mine = ["verify", "--policy", "ringfence.toml", "--backend", "chroot", "--root", "mine", "--json"];
    let output = said(&in_mine);
    let json: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", text(&output.stderr)));
    assert_eq!(output.status.code(), Some(0), "{}", json["mismatches"]);
    assert!(json["layers"][0]["tried"].as_u64().unwrap() > 1_000, "{}", json["layers"]);
    assert_eq!(listing(&own), before);
    // A root for a layer that has none, and a root that is not there.
    let output = said(&["verify", "--policy", "ringfence.toml", "--backend", "native", "--root", "mine"]);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
    let output = said(&["verify", "--policy", "ringfence.toml", "--root", "other"]);
    assert_eq!(output.status.code(), Some(125), "{}", text(&output.stderr));
    // Whoever has no such right is told.
    let output = verify(&world, &["--backend", "chroot"]);
    assert_eq!(output.status.code(), Some(125));
    assert!(text(&output.stderr).contains("CAP_SYS_CHROOT"), "{}", text(&output.stderr));
}

/// A table for people; without a terminal there is no bar.
#[test]
fn a_table_has_a_row_for_each_rule() {
    let world = ground();
    let output = verify(&world, &["--backend", "hook"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let shown = text(&output.stdout);
    for line in [
        "deny \"**/.env\" (",
        "protect \"infra\" (",
        "write \".\" (",
        "read \"../docs\" (",
        "protect: built-in protected set (",
    ] {
        assert!(shown.contains(line), "{line}\n{shown}");
    }
    let (said, took) = shown.trim_end().rsplit_once(", in ").unwrap();
    assert!(said.ends_with("came out as they must") && output.stderr.is_empty(), "{shown}");
    assert!(took.strip_suffix(" s").is_some_and(|took| took.parse::<f64>().is_ok()), "{took}");
}
