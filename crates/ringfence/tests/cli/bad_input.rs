//! What cannot be used is refused with a clear word, and nothing is lost.

use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Output};

use ringfence_testkit::World;

use crate::world;

#[test]
fn unusable_policies() {
    let world = world();
    let huge = format!("version = 1\n# {}\n", "x".repeat(10 << 20));
    for (content, expected) in [
        (huge.as_bytes(), "a policy has at most"),
        (b"\x7fELF\x02\x01\x01\x00\xff\xfe".as_slice(), "not UTF-8"),
        (b"version = 2\n", "version 1"),
        (b"version = 1\n[network]\nallow = [\"*\"]\n", "ringfence.toml:3:10"),
        (b"version = 1\n[[workspace.repo]]\nname = \"a\"\npath = \".\"\n[[workspace.repo]]\nname = \"a\"\npath = \".\"\n", "two repositories"),
        (b"version = 1\n[files]\nwirte = []\n", "did you mean `write`?"),
    ] {
        world.write("project/ringfence.toml", content);
        for command in [vec!["check"], vec!["explain", "--read", "x"], vec!["plan"], vec!["run", "--", "true"], vec!["trust"]] {
            let run = world.ringfence(&command);
            assert_eq!(run.code, if command[0] == "check" { 1 } else { 125 }, "{command:?}: {}", run.stderr);
            assert!(run.stderr.contains(expected), "{command:?}: {}", run.stderr);
            assert!(run.stderr.len() < 20_000, "{command:?}: {} bytes", run.stderr.len());
        }
    }
}

/// A policy that is no file, or that cannot be read, stops everything: a fence that is silently skipped is none.
#[test]
fn unreadable_policies() {
    let world = world();
    world.mkdir("project/ringfence.toml");
    let run = world.ringfence(&["explain", "--read", "x"]).expect_code(125);
    assert!(run.stderr.contains("cannot read") && run.stderr.contains("not a regular file"), "{}", run.stderr);
    std::fs::remove_dir(world.path("project/ringfence.toml")).unwrap();
    world.symlink("/dev/zero", "project/ringfence.toml");
    world.ringfence(&["explain", "--read", "x"]).expect_code(125);
    std::fs::remove_file(world.path("project/ringfence.toml")).unwrap();
    world.symlink("nowhere", "project/ringfence.toml");
    world.ringfence(&["explain", "--read", "x"]).expect_code(125);
    let run = world.ringfence(&["check"]).expect_code(1);
    assert!(run.stderr.contains("is a symbolic link\nhelp: copy the file there"), "{}", run.stderr);
    let pipe = world.path("project/ringfence.toml");
    std::fs::remove_file(&pipe).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    world.ringfence(&["explain", "--read", "x"]).expect_code(125);
    world.ringfence(&["check"]).expect_code(1);
}

#[test]
fn usage_mistakes() {
    let world = world();
    for args in [
        vec!["explain"],
        vec!["explain", "--read", "a", "--write", "b"],
        vec!["nonsense"],
        vec!["plan", "--host", "a", "--facts"],
    ] {
        world.ringfence(&args).expect_code(2);
    }
    for (args, tip) in [
        (["run", "ls"], "tip: the command comes behind `--`: `ringfence run -- ls`"),
        (["learn", "make"], "`ringfence learn -- make`"),
        (["exec", "ls"], "`ringfence exec --within SESSION -- ls`"),
        (["explain", "x"], "`ringfence explain --read x`, or `--write x`"),
    ] {
        let run = world.ringfence(&args).expect_code(2);
        assert!(run.stderr.contains(tip), "{}", run.stderr);
    }
    // What is not JSON is not printed in its place.
    for layer in ["env", "preamble", "hook", "claude"] {
        let run = world.ringfence(&["render", layer, "--json"]).expect_code(2);
        assert!(run.stdout.is_empty() && run.stderr.contains("--json is for `docker`"), "{}", run.stderr);
    }
    world.ringfence(&["explain", "--read", ""]).expect_code(2);
    world.ringfence(&["explain", "--read", "x", "--env", "A*"]).expect_code(2);
    let long = "x/".repeat(3000);
    world.ringfence(&["explain", "--read", &long]).expect_code(2);
    for (flag, what) in [("--persona", "persona"), ("--task", "task"), ("--agent", "agent")] {
        let run = world.ringfence(&["explain", "--read", "x", flag, "nobody"]).expect_code(2);
        assert!(run.stderr.contains(&format!("error: there is no {what} called `nobody`")), "{}", run.stderr);
        assert!(!run.stderr.contains("the policy cannot be used"), "{}", run.stderr);
    }
    for agent in ["claude", "codex", "gemini"] {
        world.ringfence(&["explain", "--read", "x", "--agent", agent]).expect_code(0);
    }
    let run = world.ringfence(&["explain", "--policy", "gone.toml", "--read", "x"]).expect_code(125);
    assert!(run.stderr.contains("cannot read") && run.stderr.contains("No such file"), "{}", run.stderr);
}

/// 5,000 rules are read and answered at once.
#[test]
fn many_rules() {
    let world = world();
    let rules: String = (0..5000).map(|n| format!("  \"**/secret-{n}\",\n")).collect();
    world.write("project/ringfence.toml", format!("version = 1\n[files]\ndeny = [\n{rules}]\n"));
    world.ringfence(&["explain", "--read", "a/secret-4999/b"]).expect_code(1);
    world.ringfence(&["explain", "--read", "a/secret-5000/b"]).expect_code(0);
}

/// A directory of the system is no project; that is nobody's mistake in a file.
#[test]
fn a_refusal_without_a_place_blames_no_policy() {
    let run = world().in_dir("/usr/bin").ringfence(&["explain", "--read", "x"]).expect_code(125);
    assert!(run.stderr.contains("it cannot be a project"), "{}", run.stderr);
    assert!(!run.stderr.contains("the policy cannot be used"), "{}", run.stderr);
}

/// However much is wrong, the terminal is not flooded.
#[test]
fn what_is_said_has_an_end() {
    let world = world();
    let list = |mark: &str| (0..300).map(|n| format!("\"{mark}{n}\",\n")).collect::<String>();
    let policy = |write: &str| format!("version = 1\n[files]\nwrite = [\n{write}]\ndeny = [\"out\"]\n");
    world.write("project/ringfence.toml", policy(&list("../else/")));
    let run = world.ringfence(&["explain", "--read", "x"]).expect_code(0);
    assert!(run.stderr.contains("300 entries of the project's file take no part"), "{}", run.stderr);
    assert!(run.stderr.lines().count() < 10, "{}", run.stderr);
    let run = world.ringfence(&["check"]).expect_code(0);
    assert!(run.stderr.contains("250 more entries take no part"), "{}", run.stderr);
    assert!(run.stderr.contains("hint: read the project's file, then run `ringfence trust`"), "{}", run.stderr);
    world.write("project/ringfence.toml", policy(&list("out/")));
    world.ringfence(&["trust"]).expect_code(0);
    for command in [vec!["check"], vec!["explain", "--read", "x"]] {
        let run = world.ringfence(&command);
        assert_eq!(run.stderr.matches("has no effect").count(), 50, "{}", run.stderr);
        assert!(run.stderr.contains("250 more are not shown"), "{}", run.stderr);
    }
}

/// Without a home there is still an answer, and trust goes where XDG_STATE_HOME says.
#[test]
fn no_home() {
    let world = world();
    world.write("project/ringfence.toml", "version = 1\n");
    world.in_dir("project").env("HOME", "").ringfence(&["explain", "--write", "x"]).expect_code(0);
    world.in_dir("project").env("HOME", "relative").ringfence(&["explain", "--write", "x"]).expect_code(0);
    let homeless = || world.in_dir("project").without("HOME").env("XDG_STATE_HOME", world.path("state"));
    homeless().ringfence(&["explain", "--write", "x"]).expect_code(0);
    homeless().ringfence(&["trust"]).expect_code(0);
    assert!(world.path("state/ringfence/trust").is_dir());
    assert!(homeless().ringfence(&["trust"]).expect_code(0).stderr.contains("is trusted already"));
}

/// Runs a script in `project/`, as a user whom permissions bind; `$0` is ringfence.
fn as_nobody(world: &World, script: &str) -> Output {
    const NOBODY: u32 = 65534;
    let mut command = Command::new("sh");
    command.args(["-c", script]).arg(world.binary()).env_clear().process_group(0);
    command.env("PATH", "/usr/bin:/bin").env("HOME", world.path("home"));
    if rustix::process::geteuid().is_root() {
        chown(world.path("project"), Some(NOBODY), Some(NOBODY)).expect("root gives away what it likes");
        command.gid(NOBODY).uid(NOBODY);
    }
    command.current_dir(world.path("project")).output().expect("sh can be started")
}

/// Where nothing can be looked at, nothing found is no answer.
#[test]
fn places_that_may_not_be_looked_at() {
    let world = World::open_to_all(env!("CARGO_BIN_EXE_ringfence"));
    for (script, expected) in [
        (
            "mkdir -p a/b; cd a/b; chmod 0 ..; \"$0\" explain --read x; code=$?; chmod 700 ..; exit $code",
            "error: cannot look at the current directory, <world>/project/a/b\ncaused by: Permission denied",
        ),
        (
            "mkdir -p c; cd c; chmod 0 .; \"$0\" explain --read x; code=$?; chmod 700 ../c; exit $code",
            "error: cannot read <world>/project/c/ringfence.toml\ncaused by: Permission denied",
        ),
    ] {
        let output = as_nobody(&world, script);
        let stderr = world.hide(&String::from_utf8(output.stderr).unwrap());
        assert!(stderr.contains(expected), "{script}\n{stderr}");
        assert_eq!(output.status.code(), Some(125), "{script}\n{stderr}");
    }
}
