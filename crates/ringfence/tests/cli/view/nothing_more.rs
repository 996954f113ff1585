//! The default view: the Surface and nothing more, found out by looking everywhere.

use std::fs;
use std::path::Path;

use super::{Fence, each, text};

/// Everything that a search inside prints, one path to a line.
fn found(fence: &Fence, search: &str) -> Vec<String> {
    let output = fence.sh(&format!("{search} 2>/dev/null; true"));
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout).lines().map(str::to_owned).collect()
}

/// K5: of everything that is there, only the project, what the session has of its own and the project's caches can be written.
#[test]
fn k5_nothing_else_can_be_written() {
    each(|fence| {
        fence.write(&[("project/src/lib.rs", "code\n"), ("other/notes", "notes\n"), ("home/notes", "notes\n")]);
        let world = fence.path("");
        let own =
            ["project", "home/.local/state/ringfence/sessions", "home/.cache/ringfence"].map(|dir| world.join(dir));
        // Of devices there are those that keep nothing; a search sees the files that they are mounted on.
        let devices = ["/dev/full", "/dev/null", "/dev/random", "/dev/tty", "/dev/urandom", "/dev/zero"];
        let private = ["/tmp", "/var/tmp", "/dev/shm"].into_iter().chain(devices).map(Path::new).collect::<Vec<_>>();
        // Where root starts it, its own state may be elsewhere.
        let state = Path::new("/var/lib/ringfence/sessions");
        let writable = found(fence, "find / -path /proc -prune -o \\( -type d -o -type f \\) -writable -print");
        let is_given = |path: &&String| {
            let path = Path::new(path);
            own.iter().any(|dir| path.starts_with(dir))
                || private.iter().chain([&state]).any(|dir| path.starts_with(dir))
        };
        let more: Vec<&String> = writable.iter().filter(|path| !is_given(path)).collect();
        assert!(more.is_empty(), "{more:?}");
        let inside = world.join("project/src/lib.rs").display().to_string();
        assert!(writable.contains(&inside), "a search that finds nothing shows nothing: {writable:?}");
    });
}

/// K6: nothing of the host is there but what the policy gives: canaries all around are not found, and one in the project is.
#[test]
fn k6_the_default_view_holds_the_surface_and_nothing_more() {
    each(|fence| {
        let name = format!("ringfence-canary-{}", std::process::id());
        let inside = [format!("project/{name}"), format!("docs/{name}")];
        let outside = [format!("other/{name}"), format!("other/deep/{name}"), format!("home/{name}"), name.clone()];
        for path in inside.iter().chain(&outside) {
            fence.write(&[(path.as_str(), "canary\n")]);
        }
        fence.policy("[files]\nread = [\"../docs\"]\n");
        let trusted = fence.ringfence().args(["trust", "--force"]).output().unwrap();
        assert!(trusted.status.success(), "{}", text(&trusted.stderr));
        let elsewhere = ["/var/tmp", "/dev/shm"].map(|dir| Path::new(dir).join(&name));
        for path in &elsewhere {
            // Another turn of this test made it.
            let _ = fs::write(path, "canary\n");
        }
        let mut seen = found(fence, &format!("find / -path /proc -prune -o -name {name} -print"));
        seen.sort();
        let mut expected = inside.map(|path| fence.path(path).display().to_string());
        expected.sort();
        for path in elsewhere {
            let _ = fs::remove_file(path);
        }
        assert_eq!(seen, expected);
        let top = found(fence, "ls -A /");
        // A checkout may lie in one of them.
        let is_above = |name: &str| fence.path("").starts_with(Path::new("/").join(name));
        for hidden in ["boot", "root", "mnt", "media", "sys"].into_iter().filter(|name| !is_above(name)) {
            assert!(!top.iter().any(|name| name == hidden), "{hidden}: {top:?}");
        }
    });
}

/// K7: what the user points at can be read because the user pointed at it, and neither written nor anything beside it read.
#[test]
fn k7_what_the_user_points_at_is_readable() {
    each(|fence| {
        fence.write(&[("other/plan.txt", "the plan\n"), ("other/secret.txt", "SECRET\n")]);
        let run = |script: &str| {
            let mut command = fence.ringfence();
            command.args(["run", "--ref"]).arg(fence.path("other/plan.txt"));
            command.args(["--", "/bin/sh", "-c", &fence.script(script)]).output().unwrap()
        };
        let output = run("cat $W/other/plan.txt");
        assert_eq!(text(&output.stdout), "the plan\n", "{}", text(&output.stderr));
        for script in ["echo x >> $W/other/plan.txt", "cat $W/other/secret.txt", "ls $W/other | grep secret"] {
            assert!(!run(script).status.success(), "{script}");
        }
        assert!(!fence.sh("cat $W/other/plan.txt").status.success(), "without it nothing is there");
        assert_eq!(fs::read_to_string(fence.path("other/plan.txt")).unwrap(), "the plan\n");
    });
}
