//! A fence inside something else that is fenced: where namespaces are given it holds, elsewhere it is refused.

use super::{Fence, Who, each, is_root, text};

/// What stands around the fence.
const AROUND: &[&[&str]] = &[
    &["unshare", "-Ur"],
    &["unshare", "-Urm"],
    &["unshare", "-Urmpf", "--mount-proc"],
    &["unshare", "-Urmpfnui", "--mount-proc"],
];

fn project(fence: &Fence) {
    fence.write(&[("project/.env", "SECRET\n"), ("project/infra/x", "old\n"), ("other/file", "SECRET\n")]);
    fence.policy("[files]\ndeny = [\"**/.env\"]\nprotect = [\"infra\"]\n");
    if is_root() && fence.who == Who::Caller {
        // Root of a user namespace has root's files, and not those of others.
        for dir in ["project", "home"] {
            let status = std::process::Command::new("chown").args(["-R", "0:0"]).arg(fence.path(dir)).status().unwrap();
            assert!(status.success());
        }
    }
}

#[track_caller]
fn check(fence: &Fence, around: &[&str], script: &str, works: bool) {
    let mut command = std::process::Command::new(around[0]);
    command.args(&around[1..]).arg(fence.world.binary()).args(["run", "--", "/bin/sh", "-c", &fence.script(script)]);
    let output = fence.by(command).output().unwrap();
    let shown = text(&output.stdout) + &text(&output.stderr);
    assert_eq!(output.status.success(), works, "as {:?}, in {around:?}: {script}\n{shown}", fence.who);
    assert!(!shown.contains("SECRET"), "as {:?}, in {around:?}: {script}\n{shown}", fence.who);
    assert!(!shown.contains("error: cannot"), "as {:?}, in {around:?}: {script}\n{shown}", fence.who);
}

/// M4: inside a user namespace, with or without others, root there or not.
#[test]
fn m4_inside_a_user_namespace() {
    each(|fence| {
        project(fence);
        for around in AROUND {
            check(fence, around, "echo x > new && cat infra/x && echo x > \"$HOME/f\" && rm new", true);
            check(fence, around, "cat .env", false);
            check(fence, around, "echo x > infra/x", false);
            check(fence, around, "cat $W/other/file", false);
            check(fence, around, "mount -t tmpfs x /tmp", false);
        }
        fence.left_nothing();
    });
}

/// Inside bubblewrap, as it is started by an ordinary user.
#[test]
fn m4_inside_bubblewrap() {
    each(|fence| {
        if is_root() && fence.who == Who::Caller {
            // Started by root it masks /proc, and another cannot be mounted: `a_masked_proc` is about that.
            return;
        }
        project(fence);
        let around = ["bwrap", "--unshare-all", "--bind", "/", "/", "--proc", "/proc", "--dev", "/dev"];
        check(fence, &around, "echo x > new && cat infra/x && echo x > \"$HOME/f\"", true);
        check(fence, &around, "cat .env", false);
        check(fence, &around, "cat $W/other/file", false);
    });
}

/// Nobody is the host's root inside, also where only root is mapped: without capabilities it could still write what the kernel
/// runs.
#[test]
fn the_root_of_a_user_namespace_changes_nothing_of_the_host() {
    each(|fence| {
        project(fence);
        for script in [
            "echo x > /proc/sys/kernel/core_pattern",
            "echo 1 > /proc/sys/vm/drop_caches",
            "echo x > /proc/self/oom_score_adj",
            "cat /etc/shadow",
            "echo x >> /etc/passwd",
            "cat /proc/kcore",
            "cat /proc/kpagecount",
            "cat /proc/vmallocinfo",
        ] {
            check(fence, &["unshare", "-Ur"], script, false);
        }
    });
}

/// Where no further namespace is given, nothing starts that is not held; the inner one never shows more than the outer.
#[test]
fn inside_another_fence_nothing_more_is_shown() {
    each(|fence| {
        project(fence);
        let binary = fence.path("project/inner");
        std::fs::copy(fence.world.binary(), &binary).unwrap();
        for script in
            ["./inner run -- cat .env", "./inner run -- cat $W/other/file", "./inner run -- sh -c 'echo x > infra/x'"]
        {
            fence.fails_anyhow(script);
        }
        assert_eq!(std::fs::read(fence.path("project/infra/x")).unwrap(), b"old\n");
    });
}

/// `bwrap --disable-userns`, and a kernel setting, forbid further namespaces: a clear refusal.
#[test]
fn without_namespaces_it_says_so() {
    each(|fence| {
        if is_root() && fence.who == Who::Caller {
            return;
        }
        project(fence);
        let around = [
            "--unshare-all",
            "--unshare-user",
            "--disable-userns",
            "--bind",
            "/",
            "/",
            "--proc",
            "/proc",
            "--dev",
            "/dev",
        ];
        let mut command = std::process::Command::new("bwrap");
        command.args(around).arg(fence.world.binary()).args(["run", "--", "cat", ".env"]);
        let output = fence.by(command).output().unwrap();
        let shown = text(&output.stdout) + &text(&output.stderr);
        assert!(!output.status.success() && !shown.contains("SECRET"), "{shown}");
        fence.left_nothing();
    });
}
