//! What is not started: engines elsewhere, and containers that are not what was asked for.

use std::fs;
use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ringfence_testkit::Starter;

use crate::ground::{text, with};

/// An engine on another machine would mount that machine's files.
#[test]
fn g10_an_engine_elsewhere_is_refused() {
    with("docker", Starter::Ordinary, |ground| {
        for host in ["tcp://127.0.0.1:1", "ssh://nobody@127.0.0.1:1"] {
            let output = ground.fence(&[]).env("DOCKER_HOST", host).arg("true").output().unwrap();
            let said = text(&output.stderr);
            assert_eq!(output.status.code(), Some(125), "{said}");
            assert!(said.contains("is on another machine") && said.contains(host), "{said}");
            assert!(said.contains("unset DOCKER_HOST"), "{said}");
        }
    });
    with("podman", Starter::Root, |ground| {
        let output = ground.fence(&[]).env("CONTAINER_HOST", "tcp://127.0.0.1:1").arg("true").output().unwrap();
        assert_eq!(output.status.code(), Some(125), "{}", text(&output.stderr));
    });
}

/// G10: settings of the engine's that mount more than was asked for, wherever, add a device or share processes end the start.
#[test]
fn g10_a_container_with_more_than_was_asked_for_is_refused() {
    with("podman", Starter::Root, |ground| {
        ground.write("more/secret", "SECRET\n");
        let found = ground.found_by();
        let settings = found.iter().find(|(name, _)| name == "CONTAINERS_CONF").unwrap();
        let usual = std::fs::read_to_string(&settings.1).unwrap();
        let more = ground.path("more");
        let more = more.to_str().unwrap();
        let refused = |setting: String, expected: &str| {
            ground.write("more.conf", &usual.replace("[containers]\n", &format!("[containers]\n{setting}\n")));
            let mut command = ground.fence(&[]);
            command.env("CONTAINERS_CONF", ground.path("more.conf"));
            let output = command.args(["sh", "-c", "cat /more/secret /dev/more/secret; ps -e"]).output().unwrap();
            let said = text(&output.stderr);
            assert!(said.contains(expected), "{setting}: {said}");
            assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(125), b"".as_slice()), "{setting}");
        };
        refused(format!("volumes = [\"{more}:/more\"]"), "/more is mounted, which nobody asked for");
        refused(format!("volumes = [\"{more}:/dev/more\"]"), "/dev/more is mounted, which nobody asked for");
        refused("pidns = \"host\"".to_owned(), "the container's processes are not its own");
        refused("devices = [\"/dev/zero:/dev/another\"]".to_owned(), "there is a device, another");
        // A first process of the engine's own is not put before ours.
        ground.write("more.conf", &usual.replace("[containers]\n", "[containers]\ninit = true\n"));
        let mut command = ground.fence(&[]);
        let output = command.env("CONTAINERS_CONF", ground.path("more.conf")).args(["cat", "/proc/1/comm"]).output();
        assert_eq!(text(&output.unwrap().stdout), "ringfence\n");
    });
}

/// G10: whoever works on the same tree outside puts a link in the place of a guarded directory while the engine mounts, and takes it
/// away again. Such a start is refused, or what the link leads to is not there.
#[test]
fn g10_a_directory_that_is_swapped_while_the_engine_mounts() {
    with("docker", Starter::Ordinary, |ground| {
        ground.write("elsewhere/secret", "SECRET\n");
        ground.write("project/sub/.env", "SECRET\n");
        ground.write("project/ringfence.toml", "version = 1\n[files]\ndeny = [\"**/.env\"]\n");
        let (sub, away, elsewhere) =
            (ground.path("project/sub"), ground.path("project/away"), ground.path("elsewhere"));
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let pause = |ms| std::thread::sleep(Duration::from_millis(ms));
                while !is_over.load(Ordering::Relaxed) {
                    fs::rename(&sub, &away).unwrap();
                    symlink(&elsewhere, &sub).unwrap();
                    pause(4);
                    fs::remove_file(&sub).unwrap();
                    fs::rename(&away, &sub).unwrap();
                    pause(12);
                }
            });
            let script = "for i in 1 2 3 4 5 6; do cat sub/secret; sleep 0.01; done";
            let all: Vec<String> = (0..12).map(|_| text(&ground.run(&[], &["sh", "-c", script]).stdout)).collect();
            is_over.store(true, Ordering::Relaxed);
            assert!(all.iter().all(|said| !said.contains("SECRET")), "{all:?}");
        });
        // Without anybody who swaps, it starts.
        let output = ground.run(&[], &["sh", "-c", "cat sub/.env; echo started"]);
        assert_eq!(text(&output.stdout), "started\n", "{}", text(&output.stderr));
    });
}
