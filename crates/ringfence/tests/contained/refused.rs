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

/// G10: settings of the engine's that mount more than was asked for end the start.
#[test]
fn g10_a_container_with_more_than_was_asked_for_is_refused() {
    with("podman", Starter::Root, |ground| {
        ground.write("more/secret", "SECRET\n");
        let found = ground.found_by();
        let settings = found.iter().find(|(name, _)| name == "CONTAINERS_CONF").unwrap();
        let usual = std::fs::read_to_string(&settings.1).unwrap();
        let more = ground.path("more");
        let volumes = format!("[containers]\nvolumes = [\"{0}:/more\"]\n", more.to_str().unwrap());
        ground.write("more.conf", &usual.replace("[containers]\n", &volumes));
        let settings = ground.path("more.conf");
        let output = ground.fence(&[]).env("CONTAINERS_CONF", settings).args(["cat", "/more/secret"]).output().unwrap();
        let said = text(&output.stderr);
        assert!(said.contains("/more is mounted, which nobody asked for"), "{said}");
        assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(125), b"".as_slice()));
    });
}
