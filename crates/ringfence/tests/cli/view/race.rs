//! Somebody else works in the same project while a session starts: it holds, or it does not start.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::fs::{CWD, RenameFlags, renameat_with};

use super::{Fence, each, text};

fn guarded(fence: &Fence) {
    fence.write(&[
        ("project/a/.env", "SECRET\n"),
        ("project/a/deep/.env", "SECRET\n"),
        ("project/b/.env", "decoy\n"),
        ("project/b/deep/.env", "decoy\n"),
        ("project/infra/main.tf", "old\n"),
        ("project/other-infra/main.tf", "other\n"),
        ("other/.env", "SECRET\n"),
        ("other/file", "SECRET\n"),
    ]);
    fence.policy("[files]\ndeny = [\"**/.env\"]\nprotect = [\"infra\"]\n");
}

/// How long the first call of a mount is delayed, in microseconds.
const DELAY: &str = "1500000";

/// Starts a session and delays it between the look and the mounts: strace holds its first open_tree(2). Then something is changed, and it
/// goes on.
fn changed_meanwhile(fence: &Fence, change: impl FnOnce(), script: &str) -> Output {
    fence.own();
    let mut command = fence.by(Command::new("strace"));
    command.args(["-f", "-qq", "-o", "/dev/null", "-e", "trace=open_tree"]);
    command.args(["-e", &format!("inject=open_tree:delay_enter={DELAY}:when=1")]).arg(fence.binary());
    command.args(["run", "--receipt", "--", "/bin/sh", "-c", &fence.script(script)]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let until = Instant::now() + Duration::from_secs(60);
    while !is_held(child.id()) {
        assert!(Instant::now() < until, "it never came to that point");
        assert!(child.try_wait().unwrap().is_none(), "it ended before");
        std::thread::sleep(Duration::from_millis(1));
    }
    change();
    child.wait_with_output().unwrap()
}

/// Is a process below this one in its first open_tree(2)?
fn is_held(parent: u32) -> bool {
    let call = format!("{} ", OPEN_TREE);
    let children = fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).unwrap_or_default();
    children.split_whitespace().filter_map(|child| child.parse().ok()).any(|child: u32| {
        let now = fs::read_to_string(format!("/proc/{child}/syscall")).unwrap_or_default();
        now.starts_with(&call) || is_held(child)
    })
}

/// The number of open_tree(2), which all architectures share.
const OPEN_TREE: u32 = 428;

/// What was seen and what is mounted over are the same, or nothing starts.
#[test]
fn what_is_swapped_while_a_session_starts_is_noticed() {
    each(|fence| {
        let project = |name: &str| fence.path("project").join(name);
        let exchange =
            |a: &str, b: &str| renameat_with(CWD, project(a), CWD, project(b), RenameFlags::EXCHANGE).unwrap();
        let moved_away = |name: &str| fs::rename(project(name), project("away")).unwrap();
        let changes: &[(&str, &dyn Fn())] = &[
            ("a directory for another", &|| exchange("a", "b")),
            ("a protected directory for another", &|| exchange("infra", "other-infra")),
            ("a file for another", &|| {
                fs::write(project("new"), "SECRET\n").unwrap();
                fs::rename(project("new"), project("a/.env")).unwrap();
            }),
            ("a directory for a link", &|| {
                moved_away("a");
                symlink("../other", project("a")).unwrap();
            }),
            ("a directory for a link out of the project", &|| {
                moved_away("a");
                symlink("/etc", project("a")).unwrap();
            }),
            ("a directory above for a link", &|| {
                fs::rename(project("a/deep"), project("a/moved")).unwrap();
                symlink("../b/deep", project("a/deep")).unwrap();
            }),
            ("a directory for nothing", &|| moved_away("a")),
            ("the project for another", &|| {
                fs::rename(fence.path("project"), fence.path("moved")).unwrap();
                fs::rename(fence.path("other"), fence.path("project")).unwrap();
            }),
            ("the project for a link", &|| {
                fs::rename(fence.path("project"), fence.path("moved")).unwrap();
                symlink("other", fence.path("project")).unwrap();
            }),
        ];
        for (what, change) in changes {
            for dir in ["project", "moved", "other"] {
                let _ = fs::remove_file(fence.path(dir));
                let _ = fs::remove_dir_all(fence.path(dir));
            }
            fence.world.mkdir("project");
            guarded(fence);
            let output = changed_meanwhile(fence, change, "echo started; cat a/.env away/.env .env file");
            let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
            assert_eq!(output.status.code(), Some(125), "as {:?}: {what}\n{stderr}", fence.who);
            assert!(stdout.is_empty() && !stderr.contains("SECRET"), "as {:?}: {what}\n{stdout}", fence.who);
            assert!(stderr.contains("something else was put there"), "as {:?}: {what}\n{stderr}", fence.who);
            fence.left_nothing();
        }
        // Without a change it starts: the changes are what was noticed.
        let _ = fs::remove_file(fence.path("project"));
        fence.world.mkdir("project");
        guarded(fence);
        let output = changed_meanwhile(fence, || {}, "echo started; cat a/.env");
        assert_eq!(text(&output.stdout), "started\n", "{}", text(&output.stderr));
    });
}

/// Directories and links change places all the time; each start holds or is refused.
#[test]
fn a_start_in_a_project_that_does_not_rest_holds_or_is_refused() {
    each(|fence| {
        guarded(fence);
        fence.write(&[("project/c/.env", "SECRET\n")]);
        symlink("../other", fence.path("project/l")).unwrap();
        let is_done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let swap = |pause: Duration, a: &'static str, b: &'static str| {
                let is_done = &is_done;
                scope.spawn(move || {
                    while !is_done.load(Ordering::Relaxed) {
                        let (a, b) = (fence.path(a), fence.path(b));
                        renameat_with(CWD, a, CWD, b, RenameFlags::EXCHANGE).unwrap();
                        std::thread::sleep(pause);
                    }
                });
            };
            swap(Duration::from_micros(300), "project/a", "project/b");
            swap(Duration::from_millis(7), "project/c", "project/l");
            for round in 0..40 {
                let output = fence.sh("echo started; for i in 1 2 3; do cat a/.env b/.env c/.env l/.env a/deep/.env b/deep/.env c/file l/file; done 2>&1");
                let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
                assert!(!stdout.contains("SECRET"), "as {:?}, round {round}:\n{stdout}\n{stderr}", fence.who);
                match output.status.code() {
                    Some(125) => {
                        let is_clear = stderr.contains("something else was put there")
                            || stderr.contains("is moved or replaced while it is looked at");
                        assert!(is_clear, "as {:?}: {stderr}", fence.who);
                    }
                    _ => assert!(stdout.starts_with("started"), "as {:?}: {stdout}\n{stderr}", fence.who),
                }
            }
            is_done.store(true, Ordering::Relaxed);
        });
        fence.left_nothing();
    });
}

/// Two sessions on one project at once: both hold, both end, nothing is left.
#[test]
fn two_sessions_on_one_project() {
    each(|fence| {
        guarded(fence);
        let start = || -> std::process::Child {
            let mut command = fence.ringfence();
            command.args([
                "run",
                "--",
                "/bin/sh",
                "-c",
                "cat a/.env; mv a x; mv infra i; echo done > done-$$; echo still here",
            ]);
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        };
        let sessions: Vec<_> = (0..8).map(|_| start()).collect();
        for session in sessions {
            let output = session.wait_with_output().unwrap();
            let shown = text(&output.stdout) + &text(&output.stderr);
            assert!(shown.contains("still here") && !shown.contains("SECRET"), "as {:?}: {shown}", fence.who);
        }
        assert!(fence.path("project/a/.env").exists() && fence.path("project/infra/main.tf").exists());
        fence.left_nothing();
    });
}
