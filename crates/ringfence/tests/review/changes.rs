//! What was written is what is shown, and what is shown is what lands.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::process::Command;

use ringfence_testkit::report_skip;

use crate::place::{Place, each, shown};

/// A tree with something of everything.
fn fill(place: &Place) {
    for (path, text) in [
        ("a.txt", "one\ntwo\n"),
        ("gone/x", "x"),
        ("gone/deep/y", "y"),
        ("dir/z", "z"),
        ("file", "f"),
        ("b", "b"),
        ("c", "c"),
    ] {
        place.world.write(format!("project/{path}"), text);
    }
    place.world.write("project/again/old", "old");
    symlink("a.txt", place.path("project/link")).unwrap();
    fs::hard_link(place.path("project/b"), place.path("project/b2")).unwrap();
    fs::set_permissions(place.path("project/c"), fs::Permissions::from_mode(0o644)).unwrap();
}

const EVERYTHING: &str = "echo three >> a.txt; rm -r gone; rm -r dir; echo now-a-file > dir; rm file; mkdir file; echo in > file/in; \
    ln -sfn b link; chmod 750 c; rm -r again; mkdir again; echo new > again/new; mkdir -p deep/er empty; echo e > deep/er/e; \
    ln a.txt hard; printf '\\000\\001' > binary; mv a.txt moved; echo q > 'q
uote'";

#[test]
fn nothing_lands_before_it_is_applied_and_then_exactly_what_was_written() {
    each(|place| {
        fill(&place);
        place.hand_over();
        let before = place.picture("project");
        let said = place
            .review(&format!("{EVERYTHING}; find . | LC_ALL=C sort; cat moved dir file/in again/new; readlink link"));
        let begins =
            format!("what is written in {} waits for `ringfence diff` and `ringfence apply`", place.at("project"));
        assert!(said.contains(&begins) && !said.contains("ringfence: writes"), "{said}");
        assert!(said.contains("wait for a review: `ringfence diff"), "{said}");
        assert_eq!(place.picture("project"), before, "as {:?}", place.who);

        let shown_first = place.changes();
        let deletions = shown_first.iter().take_while(|line| line.starts_with("deleted")).count();
        assert!(shown_first.iter().skip(deletions).all(|line| !line.starts_with("deleted")), "{shown_first:?}");
        for line in [
            "deleted a.txt",
            "deleted gone/deep/y",
            "deleted again/old",
            "deleted dir/z",
            "changed dir",
            "changed file",
            "changed link",
            "changed c",
            "added again/new",
            "added moved",
            "added hard",
            "added binary",
            "added empty",
        ] {
            assert!(shown_first.iter().any(|shown| shown == line), "{line}: {shown_first:?}");
        }
        // Neither names nor contents move a cursor, and a binary file is named only.
        let text = place.done(&["diff"]);
        assert!(text.contains("(binary)") && text.contains("-one") && text.contains("+now-a-file"), "{text}");
        assert!(text.contains("q\\nuote") || text.contains("q\\u{a}uote"), "{text}");

        // What lands is what the same commands make in place.
        place.done(&["apply"]);
        let applied = place.picture("project");
        fs::remove_dir_all(place.path("project")).unwrap();
        fs::create_dir(place.path("project")).unwrap();
        fill(&place);
        place.hand_over();
        let status = Command::new("sh").args(["-ec", EVERYTHING]).current_dir(place.path("project")).status().unwrap();
        assert!(status.success());
        assert_eq!(applied, place.picture("project"), "as {:?}", place.who);
        let over = place.ringfence(&["diff"]);
        assert!(shown(&over).contains("no session has changes to review"), "{}", shown(&over));
    });
}

#[test]
fn what_lands_belongs_to_the_owner_of_the_project() {
    each(|place| {
        place.world.write("project/a", "a");
        place.hand_over();
        let owner = fs::metadata(place.path("project")).unwrap().uid();
        place.review("echo b >> a; echo n > n; mkdir d; echo x > d/x; ln -s a l");
        place.done(&["apply"]);
        for name in ["a", "n", "d", "d/x", "l"] {
            let status = fs::symlink_metadata(place.path(&format!("project/{name}"))).unwrap();
            assert_eq!(status.uid(), owner, "{name} as {:?}", place.who);
        }
    });
}

#[test]
fn what_the_host_changed_meanwhile_is_left_alone_and_the_rest_lands() {
    each(|place| {
        for name in ["same", "edited", "removed", "kept/host"] {
            place.world.write(format!("project/{name}"), "old");
        }
        place.review("for f in same edited removed; do echo session > $f; done; echo session > both; rm -r kept");
        place.world.write("project/edited", "host");
        fs::remove_file(place.path("project/removed")).unwrap();
        place.world.write("project/both", "host");
        place.world.write("project/kept/new", "host");
        let output = place.ringfence(&["apply"]);
        let said = shown(&output);
        assert_eq!(output.status.code(), Some(1), "{said}");
        for name in ["edited", "removed", "both", "kept/new"] {
            assert!(
                said.contains(&format!("since the session began: {}", place.at(&format!("project/{name}")))),
                "{name}: {said}"
            );
        }
        assert!(said.contains("apply --force") && said.contains("discard"), "{said}");
        let read = |name: &str| fs::read_to_string(place.path(&format!("project/{name}"))).ok();
        assert_eq!(read("same").as_deref(), Some("session\n"));
        assert_eq!(
            (read("edited").as_deref(), read("removed"), read("both").as_deref()),
            (Some("host"), None, Some("host"))
        );
        assert_eq!((read("kept/new").as_deref(), read("kept/host")), (Some("host"), None));

        // Each of the two remedies, and then nothing is left.
        let session = answer(&place, &["diff", "--json"])["session"].as_str().unwrap().to_owned();
        place.done(&["discard", &session, "edited", "kept"]);
        place.done(&["apply", "--force", &session]);
        assert_eq!((read("edited").as_deref(), read("both").as_deref()), (Some("host"), Some("session\n")));
        assert_eq!((read("removed").as_deref(), read("kept/new").as_deref()), (Some("session\n"), Some("host")));
        assert_eq!(place.ringfence(&["diff"]).status.code(), Some(125));
    });
}

#[track_caller]
fn answer(place: &Place, arguments: &[&str]) -> serde_json::Value {
    let output = place.ringfence(arguments);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", shown(&output)))
}

#[test]
fn parts_are_applied_and_what_was_applied_is_no_change_any_more() {
    each(|place| {
        place.world.write("project/d/old", "old");
        place.review("rm -r d; mkdir -p d n/m; echo a > d/a; echo b > d/b; echo f > n/m/f");
        let session = answer(&place, &["diff", "--json"])["session"].as_str().unwrap().to_owned();
        place.done(&["apply", &session, "d/a", "n"]);
        assert!(place.path("project/n/m/f").exists() && place.path("project/d/old").exists());
        assert_eq!(place.changes(), ["deleted d/old", "added d/b"]);
        // Whoever works on with it is not told of it again, nor is it taken for something that the session deleted.
        place.world.write("project/d/a", "mine");
        assert_eq!(place.changes(), ["deleted d/old", "added d/b"]);
        place.done(&["apply", &session]);
        assert_eq!(fs::read_to_string(place.path("project/d/a")).unwrap(), "mine");
        assert!(!place.path("project/d/old").exists() && place.path("project/d/b").exists());
    });
}

#[test]
fn an_apply_that_was_killed_is_finished_by_the_next() {
    each(|place| {
        place.review("for n in $(seq 300); do echo $n > f$n; done; rm -f a; mkdir dir; echo x > dir/x");
        for wait in [5, 20, 60] {
            let mut child = place.start(&["apply"]);
            std::thread::sleep(std::time::Duration::from_millis(wait));
            let _ = child.kill();
            child.wait().unwrap();
        }
        // It may have been done before it was killed.
        let output = place.ringfence(&["apply"]);
        let said = shown(&output);
        assert!(output.status.success() || said.contains("no session has changes to review"), "{said}");
        for number in 1..=300 {
            let text = fs::read_to_string(place.path(&format!("project/f{number}"))).unwrap();
            assert_eq!(text, format!("{number}\n"));
        }
        assert_eq!(fs::read_to_string(place.path("project/dir/x")).unwrap(), "x\n");
    });
}

#[test]
fn no_link_on_the_way_is_followed() {
    each(|place| {
        place.world.write("project/d/f", "old");
        place.world.write("other/f", "theirs");
        place.review("echo session > d/f; echo session > d/new; rm d/f; echo again > d/f");
        fs::remove_dir_all(place.path("project/d")).unwrap();
        symlink(place.path("other"), place.path("project/d")).unwrap();
        let output = place.ringfence(&["apply"]);
        assert_eq!(output.status.code(), Some(1), "{}", shown(&output));
        assert!(place.path("project/d").is_symlink());
        // Whoever insists gets the directory in the place of the link, and not what is behind it.
        place.done(&["apply", "--force"]);
        assert!(!place.path("project/d").is_symlink() && place.path("project/d/new").exists());
        assert_eq!(fs::read_to_string(place.path("other/f")).unwrap(), "theirs");
        assert!(!place.path("other/new").exists());
    });
}

#[test]
fn what_the_rules_do_not_let_be_written_never_lands() {
    each(|place| {
        place.world.write(
            "project/ringfence.toml",
            "version = 1\n[files]\ndeny = [\"**/*.key\"]\nprotect = [\"locked\", \"later/**\"]\n",
        );
        place.world.write("project/locked", "as it was");
        place.world.write("project/a.key", "secret");
        place.done(&["trust"]);
        // Without a broker names that are not there yet can be made inside; they go no further.
        place.done(&[
            "run",
            "--review",
            "--no-broker",
            "--",
            "sh",
            "-c",
            "echo x > locked; echo x > a.key; mkdir later; echo x > later/on; echo x > new.key; echo fine > fine; true",
        ]);
        let output = place.ringfence(&["apply", "--force"]);
        let said = shown(&output);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("never applied:") && said.contains("new.key") && said.contains("later/on"), "{said}");
        assert_eq!(fs::read_to_string(place.path("project/locked")).unwrap(), "as it was");
        assert!(!place.path("project/new.key").exists() && !place.path("project/later/on").exists());
        assert!(place.path("project/fine").exists());
    });
}

#[test]
fn only_the_native_fence_holds_changes_back() {
    let place = Place::new(crate::place::Who::Caller);
    place.world.mkdir("project");
    for backend in ["bwrap", "landlock", "docker"] {
        let output = place.ringfence(&["run", "--review", "--backend", backend, "--", "touch", "x"]);
        let said = shown(&output);
        assert_eq!(output.status.code(), Some(125), "{said}");
        assert!(
            said.contains("not held: that nothing lands before it is reviewed") && said.contains("hint:"),
            "{said}"
        );
        assert!(!place.path("project/x").exists());
    }
}

#[test]
fn changes_outlive_a_killed_supervisor_and_gc() {
    each(|place| {
        place.world.write("project/a", "a");
        let mut child = place.start(&["run", "--review", "--", "sh", "-c", "echo b > a; echo ready; exec sleep 100"]);
        wait_for_line(&mut child);
        // While it runs it can be looked at, and nothing else.
        assert_eq!(place.changes(), ["changed a"]);
        assert!(shown(&place.ringfence(&["apply"])).contains("still runs"));
        assert!(shown(&place.ringfence(&["discard"])).contains("still runs"));
        child.kill().unwrap();
        child.wait().unwrap();
        // Whoever was inside ends with it, which takes a moment.
        let ended = std::time::Instant::now() + std::time::Duration::from_secs(60);
        while !shown(&place.ringfence(&["gc"])).contains("collected") {
            assert!(std::time::Instant::now() < ended, "it was never collected");
        }
        assert_eq!(place.changes(), ["changed a"]);
        assert!(place.done(&["ps", "--all"]).contains("(changes to review)"));
        assert!(!place.done(&["gc"]).contains("discarded"));
        assert_eq!(place.changes(), ["changed a"]);
        assert!(place.done(&["gc", "--all"]).contains("discarded the changes of"));
        assert!(!place.done(&["ps", "--all"]).contains("(changes to review)"));
        assert_eq!(fs::read_to_string(place.path("project/a")).unwrap(), "a");
    });
}

pub(crate) fn wait_for_line(child: &mut std::process::Child) {
    use std::io::Read as _;
    let mut byte = [0];
    let stdout = child.stdout.as_mut().unwrap();
    while byte != *b"\n" {
        if stdout.read(&mut byte).unwrap() == 0 {
            let mut said = String::new();
            let _ = child.stderr.as_mut().unwrap().read_to_string(&mut said);
            panic!("it ended: {said}");
        }
    }
}

#[test]
fn nothing_goes_around_the_review() {
    each(|place| {
        place.world.write("other/f", "theirs");
        let mut child = place.start(&["run", "--review", "--", "sh", "-c", "echo ready; exec sleep 100"]);
        wait_for_line(&mut child);
        let ps = place.ringfence(&["ps", "--json"]);
        let ps: serde_json::Value = serde_json::from_slice(&ps.stdout).unwrap();
        let session = ps["sessions"][0]["id"].as_str().unwrap();
        let call = place.ringfence(&["exec", "--within", session, "--", "sh", "-c", "echo x > landed"]);
        assert!(shown(&call).contains("waits for a review"), "{}", shown(&call));
        assert!(!place.path("project/landed").exists());
        let grant = place.ringfence(&["grant", session, "--write", &place.at("other")]);
        assert!(!grant.status.success() && shown(&grant).contains("waits for a review"), "{}", shown(&grant));
        child.kill().unwrap();
        child.wait().unwrap();
    });
}

/// An overlay would hide what is mounted below the project.
#[test]
fn what_is_mounted_below_the_project_is_not_silently_left_out() {
    if !rustix::process::geteuid().is_root() {
        return report_skip("what is mounted below a project: only root can mount something for the host");
    }
    each(|place| {
        place.world.write("project/mnt/x", "x");
        place.hand_over();
        let user =
            if place.who == crate::place::Who::Ordinary { "--reuid=65534 --regid=65534 --clear-groups" } else { "" };
        let line = format!(
            "mount -t tmpfs none mnt && exec setpriv {user} -- {} run --review -- touch landed",
            place.world.binary().to_str().unwrap()
        );
        let mut command = Command::new("unshare");
        command.args(["-m", "sh", "-c", &line]).current_dir(place.path("project")).env_clear();
        let output = command.envs(place.world.variables()).env("PATH", "/usr/bin:/bin").output().unwrap();
        let said = shown(&output);
        assert!(
            output.status.code() == Some(125) && said.contains("mnt is mounted below") && said.contains("hint:"),
            "{said}"
        );
        assert!(!place.path("project/landed").exists());
    });
}
