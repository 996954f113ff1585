//! Root with the state of another user, as `sudo` leaves it that keeps `HOME`: what the other has put there is not acted on.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, lchown, symlink};
use std::process::Output;

use ringfence_testkit::report_skip;

use super::{Fence, NOBODY, Who, is_root, text};

/// Everything that root could be led to: only root may enter it.
fn victim(fence: &Fence) {
    fence.world.write("victim/one/two/file", "kept");
    fence.world.write("victim/log", "kept");
    fs::set_permissions(fence.path("victim"), Permissions::from_mode(0o700)).unwrap();
}

#[track_caller]
fn is_whole(fence: &Fence, what: &str, output: &Output) {
    let said = text(&output.stdout) + &text(&output.stderr);
    let mut names: Vec<_> =
        fs::read_dir(fence.path("victim")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["log", "one"], "{what}: {said}");
    for file in ["victim/one/two/file", "victim/log"] {
        assert_eq!(fs::read_to_string(fence.path(file)).ok().as_deref(), Some("kept"), "{what}: {file}: {said}");
    }
}

/// By a link of another user's, root would have removed, made and moved what the other may not.
#[test]
fn root_follows_no_link_of_another_user_in_its_state() {
    if !is_root() {
        return report_skip("the state of another user: the tests do not run as root");
    }
    let fence = Fence::new(Who::Caller);
    victim(&fence);
    let state = fence.path("home/.local/state/ringfence");
    fence.world.mkdir("home/.local/state/ringfence");
    fence.own();
    for (name, to) in [
        ("sessions", "victim"),
        ("calls", "victim"),
        ("reviews", "victim"),
        ("audit", "victim"),
        ("worktrees", "victim"),
        ("ended.jsonl", "victim/log"),
    ] {
        symlink(fence.path(to), state.join(name)).unwrap();
        lchown(state.join(name), Some(NOBODY), Some(NOBODY)).unwrap();
        let output = fence.ringfence().args(["gc"]).output().unwrap();
        is_whole(&fence, &format!("gc by {name}"), &output);
        let output = fence.run(&["true"]);
        is_whole(&fence, &format!("run by {name}"), &output);
        assert_eq!(output.status.code(), Some(125), "{name}: {}", text(&output.stderr));
        assert!(text(&output.stderr).contains("a link of user 65534 leads on from"), "{}", text(&output.stderr));
        fs::remove_file(state.join(name)).unwrap();
    }
    // The whole of it, and with a link of root's own, which leads where root wants it.
    fs::remove_dir_all(&state).unwrap();
    symlink(fence.path("victim"), &state).unwrap();
    lchown(&state, Some(NOBODY), Some(NOBODY)).unwrap();
    let output = fence.run(&["true"]);
    is_whole(&fence, "run by all of it", &output);
    assert_eq!(output.status.code(), Some(125), "{}", text(&output.stderr));
    fs::remove_file(&state).unwrap();
    fence.world.mkdir("elsewhere");
    fs::set_permissions(fence.path("elsewhere"), Permissions::from_mode(0o755)).unwrap();
    symlink(fence.path("elsewhere"), &state).unwrap();
    let output = fence.run(&["true"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(fence.path("elsewhere/sessions").is_dir());
}

/// Nor does root act on what another user says of a session or a work tree.
#[test]
fn root_collects_nothing_that_another_user_has_made() {
    if !is_root() {
        return report_skip("the state of another user: the tests do not run as root");
    }
    let fence = Fence::new(Who::Caller);
    victim(&fence);
    let path = |path: &str| fence.path(path).to_str().unwrap().to_owned();
    let (tree, common) = (path("victim/one"), path("home/common"));
    let record = format!(
        "{{\"schema\":1,\"session\":\"abcd\",\"main\":\"{common}\",\"common_dir\":\"{common}\",\"tree\":\"{tree}\",\"branch\":\"x\",\"base\":\"0\"}}"
    );
    fence.write(&[
        ("home/.local/state/ringfence/sessions/theirs/home/x", "x"),
        ("home/.local/state/ringfence/sessions/theirs/worktree", &record),
        ("home/.local/state/ringfence/worktrees/left/abcd", &record),
        ("home/common/HEAD", "ref: refs/heads/main\n"),
        ("home/common/objects/x", ""),
        ("home/common/refs/x", ""),
    ]);
    let output = fence.ringfence().args(["gc"]).output().unwrap();
    is_whole(&fence, "gc", &output);
    let there = fence.path("home/.local/state/ringfence/sessions/theirs/home/x");
    assert!(there.exists() && fence.path("home/.local/state/ringfence/worktrees/left/abcd").exists());
    // The other collects what is theirs.
    let mine = Fence { who: Who::Nobody, ..fence };
    let output = mine.ringfence().args(["gc"]).output().unwrap();
    assert!(!there.exists(), "{}", text(&output.stderr));
    is_whole(&mine, "gc of the other", &output);
}

/// Nor does root give a directory away to which a link among the caches leads.
#[test]
fn root_gives_nothing_away_by_a_link_of_another_user() {
    if !is_root() {
        return report_skip("the state of another user: the tests do not run as root");
    }
    let fence = Fence::new(Who::Caller);
    victim(&fence);
    fence.write(&[
        ("project/Cargo.toml", "[package]\nname = \"x\"\nversion = \"0.1.0\"\n"),
        ("project/src/main.rs", ""),
    ]);
    let output = fence.run(&["true"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let caches = fence.path("home/.cache/ringfence/projects");
    let own = fs::read_dir(&caches).unwrap().next().unwrap().unwrap().path();
    let inner = fs::read_dir(&own).unwrap().next().unwrap().unwrap().file_name();
    fs::remove_dir_all(&own).unwrap();
    fs::create_dir(fence.path("other")).unwrap();
    fs::create_dir(fence.path("other").join(&inner)).unwrap();
    fence.world.write("other/kept", "");
    lchown(fence.path("other").join(&inner), Some(0), Some(0)).unwrap();
    symlink(fence.path("other"), &own).unwrap();
    lchown(&own, Some(NOBODY), Some(NOBODY)).unwrap();
    let output = fence.run(&["true"]);
    let said = text(&output.stderr);
    assert_eq!(fs::metadata(fence.path("other").join(&inner)).unwrap().uid(), 0, "{said}");
    assert!(output.status.code() == Some(125) && said.contains("a link of user 65534 leads on from"), "{said}");
}
