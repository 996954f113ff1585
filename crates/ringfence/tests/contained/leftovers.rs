//! What is left when somebody is killed: nothing.

use std::io::Read as _;
use std::process::Stdio;
use std::time::{Duration, Instant};

use sha2::{Digest as _, Sha256};

use crate::ground::{Ground, each, text};

fn containers(ground: &Ground) -> String {
    let place = ground.path("home/.local/state/ringfence");
    let digest = Sha256::digest(place.as_os_str().as_encoded_bytes());
    let whose: String = digest.iter().take(6).map(|byte| format!("{byte:02x}")).collect();
    let list = ground.ask(&["ps", "--all", "--filter", "label=ringfence.session", "--format", "{{.Labels}}"]);
    list.lines().filter(|line| line.contains(&whose)).collect::<Vec<_>>().join("\n")
}

/// The container of a session ends, and is removed, when its supervisor is killed.
#[test]
fn a_killed_supervisor_leaves_no_container() {
    each(|ground| {
        let mut child = ground
            .fence(&[])
            .args(["sh", "-c", "echo up; sleep 1000"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut up = [0; 3];
        child.stdout.take().unwrap().read_exact(&mut up).unwrap();
        assert!(!containers(&ground).is_empty(), "the container is not found by its label");
        child.kill().unwrap();
        child.wait().unwrap();
        let begun = Instant::now();
        while !containers(&ground).is_empty() {
            assert!(begun.elapsed() < Duration::from_secs(60), "{}", containers(&ground));
            std::thread::sleep(Duration::from_millis(50));
        }
    });
}

/// M6: a container that an engine left is removed by `ringfence gc`, and one of somebody else's is not.
#[test]
fn m6_gc_removes_the_containers_of_dead_sessions() {
    each(|ground| {
        assert!(ground.run(&[], &["true"]).status.success());
        let images = ground.ask(&["images", "--format", "{{.Repository}}:{{.Tag}}"]);
        let image = images.lines().find(|line| line.contains("ringfence-host")).unwrap().to_owned();
        let place = ground.path("home/.local/state/ringfence");
        let digest = Sha256::digest(place.as_os_str().as_encoded_bytes());
        let whose: String = digest.iter().take(6).map(|byte| format!("{byte:02x}")).collect();
        let make = |label: &str| {
            let label = format!("ringfence.session={label}");
            ground
                .ask(&["create", "--pull", "never", "--network", "none", "--label", &label, &image, "/bin/true"])
                .trim()
                .to_owned()
        };
        let (dead, others) = (make(&format!("deadbeef@{whose}")), make("deadbeef@0123456789ab"));
        let output = ground.ringfence(&["gc"]);
        assert!(text(&output.stdout).contains("removed the container of deadbeef"), "{}", text(&output.stderr));
        let left = ground.ask(&["ps", "--all", "--no-trunc", "--format", "{{.ID}}"]);
        ground.ask(&["rm", "--force", &others]);
        assert!(!left.contains(&dead) && left.contains(&others), "{left}");
    });
}
