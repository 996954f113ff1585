//! What is not started: engines elsewhere, and containers that are not what was asked for.

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
