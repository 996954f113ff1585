//! What holds and what does not is said: receipts, tiers, the ladder of backends, limits.

use std::fs;

use ringfence_plan::Errno;

use super::{each, text};

/// A13: what does not hold is said, and in production nothing starts.
#[test]
fn a13_what_does_not_hold() {
    each(|fence| {
        let later = "ringfence: not held: protect names that appear later";
        assert!(!text(&fence.sh("true").stderr).contains(later));
        assert!(text(&fence.run(&["--no-broker"], "true").stderr).contains(later));
        let policy = "version = 1\\n[workspace]\\ntier = \"production\"\\n".replace("\\n", "\n");
        fs::write(fence.world.path("project/ringfence.toml"), policy).unwrap();
        let output = fence.sh("echo started");
        assert_eq!(output.status.code(), Some(125));
        assert!(
            output.stdout.is_empty() && text(&output.stderr).contains("not every claim holds"),
            "{}",
            text(&output.stderr)
        );
        // Each is accepted by its name, and by no other.
        let accept = |names: &[&str]| {
            let flags = names.iter().flat_map(|name| ["--allow-shortfall", name]);
            fence.run(&flags.collect::<Vec<_>>(), "echo started")
        };
        let output = accept(&["denied-later", "sockets-later"]);
        assert_eq!(output.status.code(), Some(125));
        assert!(text(&output.stderr).contains("[replaced]") && !text(&output.stderr).contains("[denied-later]"));
        let output = accept(&["deny names that appear later", "replaced", "sockets-later"]);
        assert_eq!(output.stdout, b"started\n", "{}", text(&output.stderr));
    });
}

/// The receipt says the same on the screen and on disk, and stays in the state directory.
#[test]
fn a_receipt() {
    each(|fence| {
        for backend in ["native", "bwrap", "landlock"] {
            let output = fence.run(&["--backend", backend, "--receipt"], "true");
            let said = String::from_utf8(output.stderr).unwrap();
            assert!(said.contains(&format!("ringfence: receipt ({backend})")), "{said}");
            let path = said.lines().find_map(|line| line.strip_prefix("ringfence: receipt kept as ")).unwrap();
            let json: serde_json::Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
            assert_eq!(json["backend"], backend);
            let holds = |name: &str| {
                let lines = json["claims"].as_array().unwrap().iter().filter(|line| line["name"] == name);
                let lines: Vec<bool> = lines.map(|line| line["holds"] == true).collect();
                assert!(!lines.is_empty(), "{name}: {json:#}");
                lines.iter().all(|holds| *holds)
            };
            assert!(holds("environment") && holds("network") && holds("tree"));
            assert_eq!(holds("deny"), backend != "landlock");
            assert_eq!(holds("readable") && holds("protect") && holds("second-wall"), backend != "landlock");
            assert!(!holds("denied-later"));
        }
    });
}

/// K4 A9 and the peers' eleventh: where namespaces are refused the next way is tried and its losses are said; where nothing can
/// hold, nothing starts; a fence that was asked for by name is not replaced by another; production takes no short rung.
#[test]
fn k4_the_ladder() {
    use crate::doctor::on_a_kernel_that_answers as on;
    let namespaces = [("unshare", Errno::EPERM), ("mount", Errno::EPERM)];
    let nothing = [&namespaces[..], &[("landlock_create_ruleset", Errno::ENOSYS)]].concat();
    each(|fence| {
        let cat = |flags: &[&str]| {
            let mut command = fence.with(flags);
            command.args(["/bin/sh", "-c", "cat .env; echo ran"]);
            command
        };
        let output = on(&namespaces, cat(&[]));
        let said = text(&output.stderr);
        assert_eq!(output.stdout, b"ran\n", "{said}");
        // I3: each failed attempt is one line, and the rest is reported once, for the backend that runs.
        let lines = |start: &str| said.split("\\n").filter(|line| line.starts_with(start)).count();
        assert_eq!(lines("ringfence: not started: native: "), 1, "{said}");
        assert_eq!(lines("ringfence: not started: bwrap: "), 1, "{said}");
        assert_eq!(lines("ringfence: the backend is landlock"), 1, "{said}");
        assert_eq!(lines("ringfence: not held: a second wall behind the first [second-wall]"), 1, "{said}");
        assert_eq!((lines("ringfence: writes "), lines("ringfence: reaches ")), (1, 1), "{said}");
        assert!(said.contains("ringfence: reaches none: the landlock backend has no network"), "{said}");

        let output = on(&nothing, cat(&[]));
        let said = text(&output.stderr);
        assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(125), b"".as_slice()), "{said}");
        assert!(
            said.contains("this host can carry no fence") && said.contains("this kernel has no Landlock"),
            "{said}"
        );
        assert!(said.contains("ringfence doctor"), "{said}");

        let output = on(&namespaces, cat(&["--backend", "native"]));
        assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(125), b"".as_slice()));

        fs::write(fence.world.path("project/ringfence.toml"), "version = 1\n[workspace]\ntier = \"production\"\n")
            .unwrap();
        let accepted = ["denied-later", "protected-later", "replaced", "sockets-later"]
            .map(|name| ["--allow-shortfall", name])
            .concat();
        let output = on(&namespaces, cat(&accepted));
        let said = text(&output.stderr);
        assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(125), b"".as_slice()), "{said}");
        assert!(said.contains("not held: a second wall behind the first [second-wall]"), "{said}");
    });
}

/// A session that is over its time is asked to end, and then ended; whatever it left behind goes with it.
#[test]
fn a_limit_on_time() {
    each(|fence| {
        // Who sets a trap has time to do so on a busy machine.
        for (backend, script, seconds, code) in [
            ("native", "sleep 60", 1, 143),
            ("native", "trap '' TERM; sleep 60 & wait; sleep 60", 3, 137),
            ("bwrap", "sleep 60", 1, 143),
            ("landlock", "trap 'exit 9' TERM; sleep 60 & wait", 3, 9),
            ("landlock", "trap '' TERM; setsid sleep 60 & wait; sleep 60", 3, 137),
        ] {
            let policy = format!("version = 1\n[limits]\nwall = \"{seconds}s\"\n");
            fs::write(fence.world.path("project/ringfence.toml"), policy).unwrap();
            let begun = std::time::Instant::now();
            let output = fence.run(&["--backend", backend], script);
            assert_eq!(output.status.code(), Some(code), "{backend}, {script}: {}", text(&output.stderr));
            let limit = format!("ended after {seconds} s, the limit of this policy");
            assert!(text(&output.stderr).contains(&limit), "{}", text(&output.stderr));
            assert!(begun.elapsed().as_secs() < 40);
        }
    });
}

/// No more processes than the policy says, counted in the session alone.
#[test]
fn a_limit_on_processes() {
    each(|fence| {
        let policy = "version = 1\n[limits]\npids = 8\n";
        fs::write(fence.world.path("project/ringfence.toml"), policy).unwrap();
        let script = "for i in 1 2 3 4 5 6 7 8 9 10 11 12; do sleep 5 & done; echo started; jobs | wc -l";
        for backend in ["native", "bwrap"] {
            let output = fence.run(&["--backend", backend], script);
            assert!(text(&output.stderr).contains("annot fork"), "{backend}: {}", text(&output.stderr));
            let output = fence.run(&["--backend", backend], "sleep 1 & sleep 1 & sleep 1 & wait; echo fine");
            assert_eq!(output.stdout, b"fine\n", "{backend}: {}", text(&output.stderr));
        }
        let output = fence.run(&["--backend", "landlock"], "true");
        assert!(text(&output.stderr).contains("not held: at most 8 processes [pids]"), "{}", text(&output.stderr));
    });
}

/// A limit on memory holds where a control group is ours, and is said where none is.
#[test]
fn a_limit_on_memory() {
    each(|fence| {
        let policy = "version = 1\n[limits]\nmemory = \"64MiB\"\n";
        fs::write(fence.world.path("project/ringfence.toml"), policy).unwrap();
        let output = fence.sh("head -c 200000000 /dev/zero | tail -c 199999999 | wc -c");
        let is_said = text(&output.stderr).contains("not held: at most 64MiB of memory [memory]");
        let holds = !text(&output.stdout).contains("199999999");
        assert!(is_said != holds, "{}{}", text(&output.stdout), text(&output.stderr));
    });
}
