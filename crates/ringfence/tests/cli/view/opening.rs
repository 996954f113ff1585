//! What is said at a start: what may really be touched, and what to do where nothing starts.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;

use super::{Who, each, text};

/// What another rule takes away is not said to be written or read, nor is what lies in something that is named too.
#[test]
fn a_start_says_what_can_be_touched() {
    each(|fence| {
        let home = fence.path("home");
        let list =
            format!("write = [\".\", \"src\", \".git/hooks\"]\nread = [\"{0}/.ssh\", \"{0}/notes\"]\n", home.display());
        fence.write(&[("home/.ssh/id", "k"), ("home/notes/n", "n"), ("project/src/a", "")]);
        fence.policy(&format!("[files]\n{list}"));
        let output = fence.ringfence().args(["run", "--policy", "ringfence.toml", "--", "true"]).output().unwrap();
        let said = text(&output.stderr);
        let writes = format!("ringfence: writes {}\n", fence.path("project").display());
        let reads = format!("ringfence: reads {}/notes and the system", home.display());
        assert!(output.status.success() && said.contains(&writes) && said.contains(&reads), "{said}");
    });
}

/// What is not there is withheld, and not said to be read or written as well. What can be made is.
#[test]
fn a_start_says_one_thing_of_what_is_missing() {
    each(|fence| {
        fence.write(&[("project/src/a", ""), ("other/notes/n", "n")]);
        let (other, project) = (fence.path("other"), fence.path("project"));
        let write = format!("write = [\"src\", \"target\", \"a/b\", \"{}/w\"]\n", other.display());
        fence.policy(&format!("[files]\n{write}read = [\"{}/notes\"]\n", other.display()));
        let run = ["run", "--policy", "ringfence.toml", "--ref", "/nowhere/x", "--", "true"];
        let output = fence.ringfence().args(run).output().unwrap();
        let said = text(&output.stderr);
        let writes = format!("ringfence: writes {0}/src, {0}/target\n", project.display());
        let reads = format!("ringfence: reads {}/notes, {} and the system", other.display(), project.display());
        assert!(output.status.success(), "as {:?}: {said}", fence.who);
        assert!(said.contains(&writes) && said.contains(&reads), "as {:?}: {said}", fence.who);
        for missing in ["/nowhere/x".into(), other.join("w"), project.join("a/b")] {
            let missing = missing.display().to_string();
            assert!(said.contains(&format!("withheld: {missing}: nothing is there")), "as {:?}: {said}", fence.who);
            assert_eq!(said.matches(&missing).count(), 1, "as {:?}: {said}", fence.who);
        }
    });
}

/// The host's processes and devices are not had by name, and that is said; the session has its own.
#[test]
fn what_is_the_sessions_own_is_said() {
    each(|fence| {
        fence.policy("[files]\nread = [\"/proc\", \"/dev\"]\n");
        let options = ["run", "--policy", "ringfence.toml", "--", "test", "-d", "/proc/self", "-a", "-c", "/dev/null"];
        let output = fence.ringfence().args(options).output().unwrap();
        let said = text(&output.stderr);
        assert!(output.status.success(), "{said}");
        for place in ["/proc", "/dev"] {
            assert!(said.contains(&format!("withheld: {place}: the session has its own there")), "{said}");
        }
    });
}

/// Places that cannot be listed are hidden, and however many there are it is one line. What is named itself is refused, with what
/// helps.
#[test]
fn what_cannot_be_listed_is_said_shortly() {
    each(|fence| {
        if fence.who == Who::Caller && super::is_root() {
            return;
        }
        fence.policy(&format!("[files]\nread = [\"{}\"]\n", fence.path("other").display()));
        for name in 0..9 {
            fence.write(&[(&format!("other/closed{name}/x"), "")]);
        }
        for name in 0..9 {
            let path = fence.path(format!("other/closed{name}"));
            fs::set_permissions(path, Permissions::from_mode(0o000)).unwrap();
        }
        let run = ["run", "--policy", "ringfence.toml", "--", "true"];
        let said = text(&fence.ringfence().args(run).output().unwrap().stderr);
        let lines: Vec<&str> = said.lines().filter(|line| line.starts_with("ringfence: hidden:")).collect();
        assert!(lines.len() == 1 && lines[0].contains(" and 6 more: it cannot be listed"), "{said}");
        fence.policy(&format!("[files]\nread = [\"{}\"]\n", fence.path("other/closed1").display()));
        let said = text(&fence.ringfence().args(run).output().unwrap().stderr);
        assert!(said.contains("hint: what cannot be listed cannot be guarded"), "{said}");
    });
}
