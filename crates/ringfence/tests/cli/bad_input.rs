//! What cannot be used is refused with a clear word, and nothing is lost.

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
    let pipe = world.path("project/ringfence.toml");
    std::fs::remove_file(&pipe).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    world.ringfence(&["check"]).expect_code(125);
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
    world.ringfence(&["explain", "--read", ""]).expect_code(2);
    world.ringfence(&["explain", "--read", "x", "--env", "A*"]).expect_code(2);
    let long = "x/".repeat(3000);
    world.ringfence(&["explain", "--read", &long]).expect_code(2);
    let run = world.ringfence(&["explain", "--read", "x", "--persona", "nobody"]).expect_code(125);
    assert!(run.stderr.contains("there is no persona called `nobody`"), "{}", run.stderr);
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

/// Without a home there is still an answer, and trust says what it lacks.
#[test]
fn no_home() {
    let world = world();
    world.write("project/ringfence.toml", "version = 1\n");
    world.in_dir("project").env("HOME", "").ringfence(&["explain", "--write", "x"]).expect_code(0);
    world.in_dir("project").env("HOME", "relative").ringfence(&["explain", "--write", "x"]).expect_code(0);
}
