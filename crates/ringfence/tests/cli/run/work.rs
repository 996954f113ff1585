//! What an ordinary command can do inside, and what passes through unchanged.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::Path;
use std::process::Stdio;

use ringfence_testkit::World;

use super::{NOBODY, Who, each, text};

/// A4: what ordinary work needs, works; home and temporary files are the session's own, and markers are set.
#[test]
fn ordinary_work() {
    each(|fence| {
        for script in [
            "echo new > src/new.rs && mv src/new.rs top.rs && ln top.rs src/hard.rs && rm top.rs",
            "mkdir -p a/b && echo x > a/b/c && mv a z && rm -r z",
            "cat .claude/settings.json infra/main.tf .git/config > /dev/null",
            "echo x > .git/index && mkdir -p .git/refs/heads && echo x > .git/refs/heads/config",
            "echo x > /tmp/scratch && cat /tmp/scratch && echo x > \"$HOME/f\" && test \"$HOME\" != \"$HOSTHOME\"",
            "test \"$RINGFENCE\" = 1 && test -n \"$RINGFENCE_SESSION\"",
            "ps ax > /dev/null && test -w /dev/null && head -c 4 /dev/urandom > /dev/null",
            "sh -c 'sleep 0.05 & wait' && echo a | cat | grep -q a",
            "python3 -c 'import multiprocessing as m; m.Lock()'",
        ] {
            fence.works(script);
        }
    });
}

/// Exit codes, streams and arguments pass unchanged.
#[test]
fn what_passes_through() {
    each(|fence| {
        for (script, code) in [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", 137), ("kill -15 $$", 143)] {
            assert_eq!(fence.sh(script).status.code(), Some(code), "{script}");
        }
        for (program, code) in [("no-such-program", 127), ("/etc/passwd", 126), ("./src/lib.rs", 126)] {
            assert_eq!(fence.command().arg(program).output().unwrap().status.code(), Some(code), "{program}");
        }
        let output = fence.command().args(["printf", "%s|", "a b", "", "*", "-n"]).output().unwrap();
        assert_eq!(text(&output.stdout), "a b||*|-n|");
        let bytes: Vec<u8> = (0..=255).cycle().take(1 << 20).collect();
        let input = fence.world.path("project/src/bytes");
        fs::write(&input, &bytes).unwrap();
        let output = fence.command().arg("cat").stdin(fs::File::open(&input).unwrap()).output().unwrap();
        assert!(output.stdout == bytes, "{} bytes", output.stdout.len());
    });
}

/// A program that the fence does not show is said to be outside, with what shows it; that is enough.
#[test]
fn a_program_that_is_not_shown() {
    each(|fence| {
        let (tools, tool) = (fence.world.path("outside/tools"), fence.world.path("outside/tools/tool"));
        fence.world.write("outside/tools/tool", "#!/bin/sh\necho runs\n");
        fs::set_permissions(&tool, Permissions::from_mode(0o755)).unwrap();
        let path = format!("{}:/usr/bin:/bin", tools.display());
        let output = fence.command().arg("tool").env("PATH", &path).output().unwrap();
        let hint = format!("hint: outside it is {}: `--ref {}` shows it", tool.display(), tools.display());
        assert_eq!(output.status.code(), Some(127));
        assert!(text(&output.stderr).contains(&hint), "{}", text(&output.stderr));
        let shown = fence.with(&["--ref", tools.to_str().unwrap()]).arg("tool").env("PATH", &path).output().unwrap();
        assert_eq!(shown.stdout, b"runs\n", "{}", text(&shown.stderr));
        // Of a toolchain its programs alone would be of no use.
        fence.world.write("home/.cargo/bin/cargo-own", "#!/bin/sh\n");
        let bin = fence.world.path("home/.cargo/bin");
        let output = fence.command().arg("cargo-own").env("PATH", format!("{}:/usr/bin", bin.display())).output();
        let said = text(&output.unwrap().stderr);
        assert!(said.contains(", of pack rust: add ") && !said.contains("--ref"), "{said}");
        // Nowhere is it, and nothing is said before it is known what is to be run.
        let output = fence.command().arg("no-such-program").output().unwrap();
        assert!(!text(&output.stderr).contains("hint"), "{}", text(&output.stderr));
        let nothing = fence.command().output().unwrap();
        assert!(nothing.status.code() == Some(2) && text(&nothing.stderr).starts_with("error: "), "{nothing:?}");
    });
}

/// Whoever starts in a part of a repository is told why git finds none.
#[test]
fn a_repository_around_is_named() {
    each(|fence| {
        fence.world.write("outside/repo/.git/HEAD", "ref: refs/heads/main\n");
        fence.world.mkdir("outside/repo/part");
        let (repo, said) = (fence.world.path("outside/repo"), "around this directory: start there for git");
        let starts = |dir: &str| {
            let output = fence.command().arg("true").current_dir(fence.world.path(dir)).output().unwrap();
            text(&output.stderr)
        };
        let line = format!("ringfence: hidden: the repository {} {said}", repo.display());
        assert!(starts("outside/repo/part").contains(&line), "{}", starts("outside/repo/part"));
        for dir in ["outside/repo", "outside"] {
            assert!(!starts(dir).contains(said), "{dir}: {}", starts(dir));
        }
    });
}

/// The tree ends with the session, also when the supervisor is killed; nothing is left in the work tree.
#[test]
fn the_tree_ends_with_the_session() {
    each(|fence| {
        let before = names(&fence.world.path("project"));
        let mut child = fence
            .command()
            .args(["/bin/sh", "-c", "(setsid sh -c 'trap \"\" TERM HUP; sleep 1000') & echo up; sleep 1000"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = [0; 3];
        std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut line).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        // The pipe ends when the last process that holds it does.
        let mut rest = Vec::new();
        std::io::Read::read_to_end(&mut child.stdout.take().unwrap(), &mut rest).unwrap();
        assert_eq!(names(&fence.world.path("project")), before);
        // A session that ends by itself leaves nothing of its own.
        fence.works("setsid sleep 1000 & echo x > \"$HOME/f\"");
        let sessions = fence.world.path("home/.local/state/ringfence/sessions");
        // A start takes a quarter of a second for what others left and no more; a busy machine may need another.
        (0..20).take_while(|_| !names(&sessions).is_empty()).for_each(|_| fence.works("true"));
        assert!(names(&sessions).is_empty(), "the killed one's directory is collected at the next start");
        assert_eq!(names(&fence.world.path("project")), before);
    });
}

/// Root never lends its group.
#[test]
fn root_lends_no_group() {
    each(|fence| {
        if fence.who == Who::Caller && rustix::process::geteuid().is_root() {
            chown(fence.world.path("project"), Some(NOBODY), Some(0)).unwrap();
        }
        fence.works("test \"$(id -u)\" != 0 && test \"$(id -g)\" != 0 && test \"$(id -G)\" != 0");
    });
}

/// Whoever starts it, the caller's own project can be worked on, by somebody who is not root, and stays the caller's.
#[test]
fn the_callers_own_project_stays_the_callers() {
    let world = World::open_to_all(env!("CARGO_BIN_EXE_ringfence"));
    world.write("project/src/lib.rs", "code\n");
    fs::set_permissions(world.path("project/src/lib.rs"), Permissions::from_mode(0o600)).unwrap();
    let script = "test $(id -u) != 0 && cat src/lib.rs && echo new > src/new && echo more >> src/lib.rs";
    let run = world.ringfence(&["run", "--", "/bin/sh", "-c", script]).expect_code(0);
    assert!(run.stdout.contains("code"), "{}", run.stdout);
    let owner = std::os::unix::fs::MetadataExt::uid(&fs::metadata(world.path("project/src/new")).unwrap());
    assert_eq!(owner, rustix::process::geteuid().as_raw());
}

fn names(dir: &Path) -> Vec<std::ffi::OsString> {
    let mut names: Vec<_> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    names
}
