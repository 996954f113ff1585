//! `ringfence explain`: verdict, rule, place, remedy, exit code.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;

use crate::world;

const POLICY: &str = r#"version = 1
[files]
write = ["."]
read = ["../docs"]
deny = ["**/.env", "!**/.env.example"]
protect = ["infra/**"]
[network]
allow = ["github", "api.example.com:8443"]
private = ["api.example.com:8443"]
[persona.reviewer]
write = []
[task.fix-42]
write = ["../shared-types"]
"#;

/// G1 G2 K8: the question, the answer, where it was written, and the exit code that says the same.
#[test]
fn g2_paths() {
    let world = world();
    world.write("project/ringfence.toml", POLICY);
    world.ringfence(&["trust"]).expect_code(0);
    for (args, code, expected) in [
        (
            vec!["--write", "src/new.rs"],
            0,
            "allowed: write <world>/project/src/new.rs\n  rule:   write \".\"\n  from:   <world>/project/ringfence.toml:3:10\n",
        ),
        (
            vec!["--read", "../docs/a"],
            0,
            "allowed: read <world>/docs/a\n  rule:   read \"../docs\"\n  from:   <world>/project/ringfence.toml:4:9\n",
        ),
        (
            vec!["--write", "../docs/a"],
            1,
            "denied: write <world>/docs/a\n  rule:   read \"../docs\", and no `write` covers it\n",
        ),
        (
            vec!["--read", "a/b/.env"],
            1,
            "denied: read <world>/project/a/b/.env\n  rule:   deny \"**/.env\"\n  from:   <world>/project/ringfence.toml:5:9\n",
        ),
        (vec!["--read", "a/b/.env.example"], 0, "allowed: read"),
        (
            vec!["--write", "infra/main.tf"],
            1,
            "rule:   protect \"infra/**\"\n  from:   <world>/project/ringfence.toml:6:12\n",
        ),
        (vec!["--read", "infra/main.tf"], 0, "allowed"),
        (vec!["--write", ".git/hooks/pre-commit"], 1, "from:   built-in protected set"),
        (
            vec!["--read", "../elsewhere"],
            1,
            "rule:   nothing in the surface covers it\n  remedy: add \"<world>/elsewhere\" to `read` in [files], or for one run: --ref <world>/elsewhere\n",
        ),
        (vec!["--read", "../home/.ssh/id_ed25519"], 1, "from:   built-in sensitive set"),
        (vec!["--read", "/usr/bin/env"], 0, "from:   built-in system set"),
        (vec!["--write", "x", "--persona", "reviewer"], 1, "denied"),
        (vec!["--write", "../shared-types/x", "--task", "fix-42"], 0, "allowed"),
        (vec!["--write", "../shared-types/x"], 1, "denied"),
        (vec!["--read", "../elsewhere", "--ref", "../elsewhere"], 0, "from:   flag --ref"),
        (vec!["--read", "."], 0, "allowed: read <world>/project\n"),
        (vec!["--read", "a/../../elsewhere"], 1, "denied: read <world>/elsewhere\n"),
    ] {
        let run = world.ringfence(&[vec!["explain"], args.clone()].concat()).expect_code(code);
        let stdout = world.hide(&run.stdout);
        assert!(stdout.contains(expected), "{args:?}\n{stdout}");
        assert!(run.stderr.is_empty(), "{args:?}: {}", run.stderr);
    }
}

#[test]
fn hosts() {
    let world = world();
    world.write("project/ringfence.toml", POLICY);
    world.ringfence(&["trust"]).expect_code(0);
    for (host, code) in [
        ("github.com", 0),
        ("GitHub.COM.", 0),
        ("github.com:443", 0),
        ("github.com:8080", 1),
        ("api.example.com:8443", 0),
        ("api.example.com", 1),
        ("evil-github.com", 1),
        ("github.com.evil.com", 1),
        ("169.254.169.254:80", 1),
        // Another spelling of 127.0.0.1.
        ("2130706433", 1),
        ("github.com@evil.com", 2),
        ("", 2),
    ] {
        world.ringfence(&["explain", "--host", host]).expect_code(code);
    }
}

/// The way out dials such an address for nobody, so it is not said to be reached because somebody named it.
#[test]
fn addresses_that_no_policy_opens() {
    let world = world();
    world
        .write("project/ringfence.toml", "version = 1\n[network]\nallow = [\"169.254.169.254:80\", \"10.1.2.3:80\"]\n");
    world.ringfence(&["trust"]).expect_code(0);
    world.ringfence(&["explain", "--host", "10.1.2.3:80"]).expect_code(0);
    let run = world.ringfence(&["explain", "--host", "169.254.169.254:80"]).expect_code(1);
    let expected = "  rule:   it is a cloud metadata address\n  remedy: none: this is opened by no policy\n";
    assert!(run.stdout.contains(expected), "{}", run.stdout);
}

/// Links on the way are followed as far as the path exists.
#[test]
fn links_are_followed() {
    let world = world();
    world.write("secret/key", "k");
    world.symlink("../secret", "project/link");
    world.symlink("link/key", "project/again");
    world.symlink("loop", "project/loop");
    for path in ["link/key", "link/new", "again", "link/../secret/key", "./link//key"] {
        let run = world.ringfence(&["explain", "--read", path]).expect_code(1);
        assert!(world.hide(&run.stdout).contains("denied: read <world>/secret/"), "{path}: {}", run.stdout);
    }
    world.ringfence(&["explain", "--read", "loop"]).expect_code(2);
}

#[test]
fn json() {
    let world = world();
    let run = world.ringfence(&["explain", "--json", "--write", ".git/config"]).expect_code(1);
    let answer: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(answer["schema"], 1);
    assert_eq!(answer["verdict"], "denied");
    assert_eq!(answer["access"], "write");
    assert_eq!(answer["source"]["kind"], "table");
    assert!(answer["remedy"].is_string());
}

/// A name that is not text is answered as it is.
#[test]
fn names_that_are_not_text() {
    let world = world();
    let name = OsString::from_vec(b"caf\xe9\n\x1b[2J".to_vec());
    let run = world.ringfence(&[OsString::from("explain"), "--write".into(), name.clone()]).expect_code(0);
    assert!(run.stdout.contains("caf\\xe9\\n\\u{1b}[2J"), "{}", run.stdout);
    let run = world.ringfence(&[OsString::from("explain"), "--json".into(), "--write".into(), name]).expect_code(0);
    let answer: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
    assert!(answer["target"]["hex"].as_str().unwrap().ends_with("636166e90a1b5b324a"));
}

/// The host's `/tmp` is not the one inside.
#[test]
fn the_hosts_tmp_is_not_there() {
    let world = world();
    let file = tempfile::Builder::new().prefix("ringfence-test-").tempfile_in("/tmp").unwrap();
    let run = world.ringfence(&["explain".as_ref(), "--read".as_ref(), file.path().as_os_str()]).expect_code(1);
    assert!(run.stdout.contains("is private inside the fence"), "{}", run.stdout);
    world.ringfence(&["explain", "--write", "/tmp/ringfence-nothing-of-this-name"]).expect_code(0);
    world.ringfence(&["explain", "--write", "/dev/null"]).expect_code(0);
}

/// Ports of the host's loopback, sockets and variables are asked about like paths and hosts, and answered in both forms.
#[test]
fn ports_sockets_and_variables() {
    let world = world();
    let policy = "version = 1\n[network]\nhost_ports = [5432]\nsockets = [\"db.sock\"]\n[env]\npass = [\"STAGE\"]\n";
    world.write("project/ringfence.toml", policy);
    world.symlink("db.sock", "project/link.sock");
    world.ringfence(&["trust"]).expect_code(0);
    for (question, about, code, access, expected) in [
        (
            "--host",
            "localhost:5432",
            0,
            "reach",
            "allowed: reach localhost:5432\n  rule:   host_ports 5432\n  from:   <world>/project/ringfence.toml:3:15\n",
        ),
        ("--host", "127.0.0.1:5432", 0, "reach", "allowed: reach localhost:5432\n"),
        ("--host", "[::1]:5432", 0, "reach", "allowed: reach localhost:5432\n"),
        ("--host", "localhost:5433", 1, "reach", "  remedy: add 5433 to `host_ports` in [network]\n"),
        ("--host", "localhost", 1, "reach", "denied: reach localhost:443\n"),
        ("--socket", "db.sock", 0, "connect", "allowed: connect <world>/project/db.sock\n"),
        ("--socket", "link.sock", 0, "connect", "from:   <world>/project/ringfence.toml:4:12\n"),
        (
            "--socket",
            "other.sock",
            1,
            "connect",
            "remedy: add \"<world>/project/other.sock\" to `sockets` in [network]\n",
        ),
        ("--variable", "STAGE", 0, "pass", "rule:   pass \"STAGE\"\n  from:   <world>/project/ringfence.toml:6:9\n"),
        ("--variable", "LC_ALL", 0, "pass", "rule:   pass \"LC_*\"\n  from:   built-in environment set"),
        ("--variable", "OTHER", 1, "pass", "remedy: add \"OTHER\" to `pass` in [env], or for one run: --env OTHER\n"),
        ("--variable", "HOME", 1, "pass", "rule:   ringfence sets it inside: the session's own home\n  remedy: none: "),
        ("--variable", "AWS_SECRET_ACCESS_KEY", 1, "pass", "no entry of `pass` in [env] names it: "),
    ] {
        let run = world.ringfence(&["explain", question, about]).expect_code(code);
        assert!(world.hide(&run.stdout).contains(expected), "{about}\n{}", run.stdout);
        let run = world.ringfence(&["explain", "--json", question, about]).expect_code(code);
        let answer: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
        assert_eq!(answer["verdict"], if code == 0 { "allowed" } else { "denied" }, "{about}");
        assert_eq!(answer["access"], access, "{about}");
    }
    world.ringfence(&["explain", "--variable", "OTHER", "--env", "OTHER"]).expect_code(0);
    for (question, about) in [("--variable", "A*"), ("--variable", ""), ("--socket", ""), ("--host", "localhost:0")] {
        world.ringfence(&["explain", question, about]).expect_code(2);
    }
}

/// K2: a line of shell is asked about like a path; a caret stands under the word at fault.
#[test]
fn k2_commands() {
    let world = world();
    for (line, code, expected) in [
        ("ls | wc -l", 0, "read-only: ls | wc -l\n"),
        ("git status", 0, "read-only: git status\n"),
        ("ls; rm x", 1, "mutating: ls; rm x\n              ^^\n  reason: `rm` changes files\n"),
        ("sort *", 1, "  remedy: put `--` before it, or `./` at its beginning\n"),
        ("", 0, "read-only: \n"),
    ] {
        let run = world.ringfence(&["explain", "--command", line]).expect_code(code);
        assert!(run.stdout.contains(expected), "{line}\n{}", run.stdout);
        let run = world.ringfence(&["explain", "--json", "--command", line]).expect_code(code);
        let answer: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
        assert_eq!(answer["class"], if code == 0 { "read-only" } else { "mutating" }, "{line}");
        assert_eq!(answer["reason"].is_string(), code == 1, "{line}");
        assert_eq!(answer["at"].is_array(), code == 1, "{line}");
    }
}
