//! The tour in `docs/tour.md`, typed as it is written there.

use std::fmt::Write as _;
use std::process::{Command, Stdio};

use ringfence_testkit::World;

const TOUR: &str = include_str!("../../../../docs/tour.md");

/// What the reader has. Who waits a second for a session to run looks whether it does, and goes on waiting: a busy machine takes longer.
const AT_HOME: &str = r#"
ringfence() { "$RINGFENCE_PROGRAM" "$@"; }
sleep() {
    for i in $(seq 600); do ringfence ps 2>/dev/null | grep -q . && break; command sleep 0.1; done
    command sleep "$@"
}
"#;

/// A line that is typed, and what comes back.
struct Step<'t> {
    typed: &'t str,
    answer: Vec<&'t str>,
}

fn steps() -> Vec<Step<'static>> {
    let mut steps: Vec<Step<'static>> = Vec::new();
    let mut inside = false;
    for line in TOUR.lines() {
        match line {
            "```console" => inside = true,
            "```" => inside = false,
            line if inside => match line.strip_prefix("$ ") {
                Some(typed) => steps.push(Step { typed, answer: Vec::new() }),
                None => steps.last_mut().expect("something is typed first").answer.push(line),
            },
            _ => {}
        }
    }
    steps
}

/// Does a line of the tour stand for this one?
fn is_like(line: &str, found: &str) -> bool {
    let mut parts = line.split('…');
    let Some(mut rest) = parts.next().and_then(|first| found.strip_prefix(first)) else { return false };
    let parts: Vec<&str> = parts.collect();
    let Some((last, middle)) = parts.split_last() else { return rest.is_empty() };
    for part in middle {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

/// Do the lines stand for these? `…` alone stands for any number of lines.
fn are_like(lines: &[&str], found: &[&str]) -> bool {
    match lines.split_first() {
        None => found.is_empty(),
        Some((&"…", rest)) => (0..=found.len()).any(|skipped| are_like(rest, &found[skipped..])),
        Some((line, rest)) => {
            found.split_first().is_some_and(|(one, found)| is_like(line, one) && are_like(rest, found))
        }
    }
}

pub(crate) fn hello() -> World {
    let world = crate::world();
    world.write("project/Cargo.toml", "[package]\nname = \"hello\"\nversion = \"0.1.0\"\nedition = \"2024\"\n");
    world.write("project/src/main.rs", "fn main() {\n    println!(\"hello\");\n}\n");
    world.write("home/.ssh/id_ed25519", "the key\n");
    world.write("home/notes/plan.txt", "the plan\n");
    let mut git = Command::new("git");
    // A caller that is itself started by git, as a hook is, has variables by which this would be another repository.
    git.env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin").envs(world.variables());
    let made = git.args(["init", "--quiet"]).current_dir(world.path("project")).status();
    assert!(made.expect("there is a git").success());
    world
}

/// What the tour shows is what happens.
#[test]
fn the_tour_is_true() {
    let world = hello();
    let mut wrong = String::new();
    let steps = steps();
    assert!(steps.len() > 8, "{} steps", steps.len());
    for step in steps {
        let mut shell = Command::new("bash");
        shell.args(["-c", &format!("{AT_HOME}\n{{ {}\n}} 2>&1", step.typed)]);
        shell.env_clear().env("PATH", "/usr/bin:/bin:/usr/sbin:/sbin").envs(world.variables());
        shell.env("RINGFENCE_PROGRAM", world.binary());
        let output = shell.current_dir(world.path("project")).stdin(Stdio::null()).output().expect("there is a bash");
        let text = String::from_utf8(output.stdout).expect("what is shown is text");
        let root = world.path("");
        let root = root.to_str().expect("a plain path").trim_end_matches('/');
        let text = text.replace(&format!("{root}/project"), "/home/you/hello");
        let text = text.replace(&format!("{root}/home"), "/home/you");
        let found: Vec<&str> = text.lines().collect();
        if !are_like(&step.answer, &found) {
            let _ = writeln!(wrong, "$ {}\n{text}", step.typed);
        }
    }
    assert!(wrong.is_empty(), "docs/tour.md says something else than:\n{wrong}");
}

#[test]
fn lines_are_compared() {
    for (line, found, like) in [
        ("a", "a", true),
        ("a", "ab", false),
        ("a…", "ab", true),
        ("a…c", "abc", true),
        ("a…c", "abd", false),
        ("a…c…e", "abcde", true),
        ("…", "", true),
    ] {
        assert_eq!(is_like(line, found), like, "{line} {found}");
    }
    assert!(are_like(&["…", "x"], &["a", "b", "x"]) && are_like(&["…", "x"], &["x"]));
    assert!(!are_like(&["x"], &["a", "x"]) && !are_like(&["x", "…"], &[]));
}
