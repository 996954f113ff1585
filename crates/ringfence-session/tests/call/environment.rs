//! What an orchestrator's tools can do.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use ringfence_fs::{Environment as _, Exec, ExecError, FileError, Outcome};
use ringfence_plan::Claim;
use ringfence_session::fenced::FencedEnvironment;
use ringfence_surface::SubPolicy;

use crate::world::world;

const LONG: Duration = Duration::from_secs(60);

fn sh(script: &str) -> Exec {
    Exec::shell(script, LONG)
}

/// M3, M5: files and commands of one environment, under one policy.
#[test]
fn m3_m5_files_and_commands_follow_one_policy() {
    let world = world("[files]\ndeny = [\"**/.env\"]\nprotect = [\"infra\"]\n");
    for (path, text) in [("src/a.rs", "a"), (".env", "SECRET"), ("src/.env", "SECRET"), ("infra/main", "m")] {
        fs::create_dir_all(world.project.join(path).parent().unwrap()).unwrap();
        fs::write(world.project.join(path), text).unwrap();
    }
    let tools = FencedEnvironment::new(world.within.clone(), world.tools()).unwrap();
    assert_eq!(tools.read(Path::new("src/a.rs"), 99).unwrap(), b"a");
    assert_eq!(tools.read(&world.project.join("src/../src/a.rs"), 99).unwrap(), b"a");
    tools.write(Path::new("src/deep/new"), b"new").unwrap();
    let refused = |path: &str| matches!(tools.read(Path::new(path), 99), Err(FileError::PathNotAllowed { .. }));
    assert!(refused(".env") && refused("src/.env") && refused("src/../.env") && refused("/etc/hostname"));
    for path in ["infra/main", ".git/hooks/pre-commit", "ringfence.toml", ".env", "a/b/.env"] {
        let written = tools.write(Path::new(path), b"EVIL");
        assert!(matches!(written, Err(FileError::PathNotAllowed { .. })), "{path}: {written:?}");
    }
    assert!(matches!(tools.remove(Path::new("infra/main")), Err(FileError::PathNotAllowed { .. })));
    // What was refused has left no directory behind.
    assert!(!world.project.join(".git").exists() && !world.project.join("a").exists());
    let found = tools.glob(Path::new("**/*"), 99).unwrap();
    let names: Vec<&str> = found.entries.iter().filter_map(|entry| entry.path.to_str()).collect();
    assert!(names.contains(&"src/a.rs") && !names.iter().any(|name| name.ends_with(".env")), "{names:?}");
    // The same for a command.
    let done = tools.exec(&sh("cat src/deep/new; cat .env; echo x > infra/new; echo x > out; exit 7")).unwrap();
    assert_eq!((done.outcome, done.stdout.tail.as_slice()), (Outcome::Exited(7), b"new".as_slice()));
    assert!(!world.project.join("infra/new").exists());
    assert_eq!(tools.read(Path::new("out"), 9).unwrap(), b"x\n");
    tools.remove(Path::new("out")).unwrap();
}

/// K8: a program with several threads, as this one, has no broker for its commands. Whoever embeds it is told.
#[test]
fn k8_what_does_not_hold_for_commands_of_a_program_with_threads_is_told() {
    let world = world("");
    let tools = FencedEnvironment::new(world.within.clone(), world.tools()).unwrap();
    let short = tools.not_held().unwrap();
    assert!(short.iter().any(|short| short.claim == Claim::ProtectedLater), "{short:?}");
    assert!(tools.exec(&sh("echo x > .envrc")).unwrap().outcome == Outcome::Exited(0), "it holds, and is said not to");
    assert!(tools.write(Path::new(".envrc"), b"x").is_err());
}

/// K8: files of a tool make no directory a repository under a name that guards nothing, in whatever order they come.
#[test]
fn k8_files_of_tools_plant_no_repository() {
    let world = world("");
    let tools = FencedEnvironment::new(world.within.clone(), world.tools()).unwrap();
    let write = |path: &str| tools.write(Path::new(path), b"ref: refs/heads/main\n");
    let refused = |path: &str| matches!(write(path), Err(FileError::PathNotAllowed { .. }));
    [
        "a/objects/x",
        "a/refs/x",
        "b/HEAD",
        "b/config",
        "b/hooks/pre-commit",
        "b/refs/x",
        "c/config",
        "c/hooks/x",
        "d/HEAD",
    ]
    .iter()
    .for_each(|path| write(path).unwrap());
    for path in ["a/HEAD", "a/config", "a/hooks/post-checkout", "a/x/../HEAD", "b/objects/x", "d/commondir"] {
        assert!(refused(path), "{path}");
    }
    assert!(!world.project.join("a/hooks").exists() && !world.project.join("b/objects").exists());
    // What is there may be written again, and what makes no repository may be made.
    ["b/HEAD", "a/refs/y", "c/refs/x"].iter().for_each(|path| write(path).unwrap());
}

/// T1, M3: what a command is given, and what comes back.
#[test]
fn t1_m3_commands_are_fed_bounded_and_told_apart() {
    let world = world("[env]\npass = [\"PATH\"]\n");
    let tools = FencedEnvironment::new(world.within.clone(), world.tools()).unwrap();
    let done = tools.exec(&Exec::new("cat", LONG).stdin(vec![b'x'; 300_000]).keep(1000)).unwrap();
    assert_eq!((done.stdout.tail.len(), done.stdout.dropped), (1000, 299_000));
    let done = tools.exec(&sh("echo \"$GIVEN\"; pwd").env("GIVEN", "value").dir("sub"));
    assert!(matches!(done, Err(ExecError::Fence { .. } | ExecError::Directory { .. })), "{done:?}");
    fs::create_dir(world.project.join("sub")).unwrap();
    let done = tools.exec(&sh("echo \"$GIVEN\"; basename \"$PWD\"").env("GIVEN", "value").dir("sub")).unwrap();
    assert_eq!(done.stdout.tail, b"value\nsub\n");
    assert_eq!(tools.exec(&sh("kill -9 $$")).unwrap().outcome, Outcome::Signaled(9));
    assert_eq!(tools.exec(&sh("exit 137")).unwrap().outcome, Outcome::Exited(137));
    assert!(matches!(tools.exec(&Exec::new("no-such-program", LONG)), Err(ExecError::Start { .. })));
    let start = Instant::now();
    let long = Exec::shell("trap '' TERM; setsid sleep 1000 & sleep 1000", Duration::from_millis(300));
    assert_eq!(tools.exec(&long).unwrap().outcome, Outcome::TimedOut);
    assert!(start.elapsed() < Duration::from_secs(30));
}

/// T3: in a fence a process cannot hide from the end of its time, whatever it leaves behind: parents, session, environment.
#[test]
fn t3_nothing_of_a_fenced_command_outlives_its_time() {
    let world = world("[env]\npass = [\"PATH\"]\n");
    let tools = FencedEnvironment::new(world.within.clone(), world.tools()).unwrap();
    // Whoever holds the lock is alive.
    let hidden = "(setsid env -i /usr/bin/flock lock /usr/bin/sleep 1000 < /dev/null > /dev/null 2>&1 &); \
                  while flock -n lock true; do :; done; echo hidden; exec sleep 1000";
    let done = tools.exec(&Exec::shell(hidden, Duration::from_secs(10))).unwrap();
    assert_eq!((done.outcome, done.stdout.tail.as_slice()), (Outcome::TimedOut, &b"hidden\n"[..]), "{done:?}");
    let lock = fs::File::open(world.project.join("lock")).unwrap();
    assert!(lock.try_lock().is_ok(), "somebody still holds it");
}

/// K10: what an environment would gain is refused when it is made.
#[test]
fn k10_an_environment_is_never_wider() {
    let world = world("");
    let pattern = ringfence_surface::Pattern::parse("/etc").unwrap();
    let wide = SubPolicy { write: Some(vec![pattern]), ..world.tools() };
    let refused = FencedEnvironment::new(world.within.clone(), wide).unwrap_err();
    assert!(std::error::Error::source(&refused).is_some_and(|cause| cause.to_string() == "this would gain write /etc"));
}
