//! `ringfence init` where something is missing.

use std::os::unix::process::CommandExt as _;
use std::process::Command;

use crate::world;

/// An empty directory gets a policy that goes on looking for toolchains.
#[test]
fn nothing_found_switches_nothing_off() {
    let world = world();
    let run = world.ringfence(&["init"]).expect_code(0);
    assert!(run.stderr.contains("no toolchain found"), "{}", run.stderr);
    let text = std::fs::read_to_string(world.path("project/ringfence.toml")).unwrap();
    assert!(text.contains("\n# extends = ") && text.contains("\n# allow = "), "{text}");
    world.ringfence(&["trust"]).expect_code(0);
    world.ringfence(&["explain", "--host", "crates.io"]).expect_code(1);
    world.write("project/Cargo.toml", "");
    world.ringfence(&["explain", "--host", "crates.io"]).expect_code(0);
}

/// The error names the file that was asked for, not the one that was there for a moment.
#[test]
fn where_nothing_can_be_written() {
    let run = world().in_dir("/proc").ringfence(&["init"]).expect_code(125);
    assert!(run.stderr.starts_with("error: cannot write ringfence.toml\ncaused by: "), "{}", run.stderr);
    assert!(!run.stderr.contains(".ringfence-"), "{}", run.stderr);
}

/// A write that fails half-way leaves the old file whole and nothing beside it.
#[test]
fn a_failed_write_leaves_the_old_file() {
    let world = world();
    world.write("project/ringfence.toml", "version = 1\n# mine\n");
    // No file may grow past nothing, and the signal that would say so is ignored: the write itself fails.
    let script = "trap '' XFSZ; ulimit -f 0; exec \"$0\" init --force";
    let mut command = Command::new("sh");
    command.args(["-c", script, env!("CARGO_BIN_EXE_ringfence")]).current_dir(world.path("project"));
    command.env_clear().env("PATH", "/usr/bin:/bin").envs(world.variables());
    let output = command.process_group(0).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(125), "{stderr}");
    assert!(stderr.contains("caused by: File too large"), "{stderr}");
    assert_eq!(std::fs::read_to_string(world.path("project/ringfence.toml")).unwrap(), "version = 1\n# mine\n");
    assert_eq!(std::fs::read_dir(world.path("project")).unwrap().count(), 1);
}
