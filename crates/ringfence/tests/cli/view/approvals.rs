//! Questions that wait for the user: asked by the hook, answered by a command or on the terminal.

use std::fs;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::live::{Shell, json, ringfence, until};
use super::{Fence, Who, each, is_root, text};
use crate::screen::Screen;

/// Has the hook judge a line; its code and what it says go to files of the project.
pub(super) fn hook(fence: &Fence, line: &str, name: &str) -> String {
    let project = fence.path("project");
    let project = project.to_str().unwrap();
    let call = serde_json::json!({"cwd": project, "hook_event_name": "PreToolUse", "tool_name": "Bash",
        "tool_input": {"command": line}});
    format!(
        "(echo '{call}' | \"$(dirname \"$HOME\")/given/ringfence\" hook claude --timeout 60 > {project}/{name}.out \
         2> {project}/{name}.err; echo $? > {project}/{name}.new; mv {project}/{name}.new {project}/{name}.code) > /dev/null 2>&1"
    )
}

fn waiting(fence: &Fence, id: &str) -> Vec<Value> {
    json(fence, &["approve", id, "--json"])["sessions"][0]["waiting"].as_array().unwrap().clone()
}

pub(super) fn code(fence: &Fence, name: &str) -> String {
    let path = fence.path(format!("project/{name}.code"));
    until("the hook has answered", || path.exists());
    fs::read_to_string(path).unwrap().trim().to_owned()
}

/// K12: a command that the mode holds back waits, is listed, and runs or not as the user says; the same line asked twice is one
/// question, and what was allowed for the session is not asked again until it is taken back.
#[test]
fn k12_a_command_waits_for_the_user() {
    each(|fence| {
        let mut shell = Shell::start(fence, &["--agent", "claude", "--ask=50s"]);
        let id = shell.id.clone();
        shell.does(&format!("{} & {} & echo", hook(fence, "touch x", "one"), hook(fence, "touch x", "two")));
        until("both wait", || waiting(fence, &id).iter().any(|question| question["waiting"] == 2));
        let question = &waiting(fence, &id)[0];
        assert_eq!((question["kind"].as_str(), question["line"].as_str()), (Some("command"), Some("touch x")));
        assert_eq!(question["said"], true, "it was said by somebody inside");
        // Others go on meanwhile.
        assert_eq!(shell.does("echo goes on"), "goes on");
        let number = question["id"].to_string();
        let listed = text(&ringfence(fence, &["approve"]).stdout);
        assert!(listed.contains(&format!("{id} {number} waits")) && listed.contains("run touch x"), "{listed}");
        let output = ringfence(fence, &["approve", &id, &number, "--once"]);
        assert!(output.status.success(), "as {:?}: {}", fence.who, text(&output.stderr));
        assert_eq!((code(fence, "one"), code(fence, "two")), ("0".to_owned(), "0".to_owned()), "as {:?}", fence.who);
        let answer = fs::read_to_string(fence.path("project/one.out")).unwrap();
        assert!(answer.contains("\"permissionDecision\":\"allow\""), "{answer}");
        assert!(!ringfence(fence, &["approve", &id, &number]).status.success(), "it is settled");
        // A no.
        shell.does(&format!("{} & echo", hook(fence, "touch y", "three")));
        until("it waits", || waiting(fence, &id).len() == 1);
        let number = waiting(fence, &id)[0]["id"].to_string();
        assert!(ringfence(fence, &["deny", &number]).status.success(), "as {:?}", fence.who);
        assert_eq!(code(fence, "three"), "2");
        // For the session: not asked again, until it is taken back.
        shell.does(&format!("{} & echo", hook(fence, "make", "four")));
        until("it waits", || waiting(fence, &id).len() == 1);
        let number = waiting(fence, &id)[0]["id"].to_string();
        assert!(ringfence(fence, &["approve", &id, &number, "--session"]).status.success());
        assert_eq!(code(fence, "four"), "0");
        shell.does(&hook(fence, "make", "five"));
        assert_eq!(code(fence, "five"), "0");
        assert!(ringfence(fence, &["deny", &id, &number]).status.success());
        shell.does(&format!("{} & echo", hook(fence, "make", "six")));
        until("it is asked again", || waiting(fence, &id).len() == 1);
        let log = text(&ringfence(fence, &["logs", &id]).stdout);
        for part in ["asks 1: run touch x", "approved 1: run touch x (once)", "denied 2: run touch y"] {
            assert!(log.contains(part), "as {:?}: {part}: {log}", fence.who);
        }
    });
}

/// K12: nobody answers: it is a no. Without `--ask` nobody is asked, and it is a no at once.
#[test]
fn k12_silence_is_a_no() {
    let fence = Fence::new(if is_root() { Who::Nobody } else { Who::Caller });
    for (options, least) in [(&["--agent", "claude", "--ask=1s"][..], 900), (&["--agent", "claude"], 0)] {
        let _ = fs::remove_file(fence.path("project/one.code"));
        let mut shell = Shell::start(&fence, options);
        let began = Instant::now();
        shell.does(&hook(&fence, "touch x", "one"));
        assert_eq!(code(&fence, "one"), "2");
        assert!(began.elapsed() >= Duration::from_millis(least));
        let said = fs::read_to_string(fence.path("project/one.err")).unwrap();
        assert!(said.starts_with("ringfence: Bash: "), "{said}");
        let id = shell.id.clone();
        shell.ends();
        let log = text(&ringfence(&fence, &["logs", &id]).stdout);
        assert_eq!(log.contains("nobody answered in time"), least > 0, "{log}");
    }
}

/// K12: what the policy denies is not asked about, and a yes to a line gives nothing else.
#[test]
fn k12_what_is_denied_is_not_asked_about() {
    let fence = Fence::new(if is_root() { Who::Nobody } else { Who::Caller });
    fence.policy("[files]\ndeny = [\"private\"]\n").write(&[("project/private/key", "SECRET")]);
    let mut shell = Shell::start(&fence, &["--agent", "claude", "--ask=50s"]);
    shell.does(&hook(&fence, "cat private/key", "one"));
    assert_eq!(code(&fence, "one"), "2");
    assert!(waiting(&fence, &shell.id).is_empty());
    assert!(!shell.does("cat private/key").contains("SECRET"));
}

/// Somebody types on who has not seen the question yet. It opens when nothing was typed for 700 ms: where this process was held up for
/// nearly as long, nothing is shown by what comes, and it is done again.
fn typed_on(command: impl Fn() -> std::process::Command) -> Screen {
    for _ in 0..50 {
        let mut screen = Screen::start(command());
        screen.wait_for("ready");
        let asked = "ringfence: may it run touch x\\u{1b}[2J (as the agent's client says)";
        let before = screen.answers("go\r", asked);
        screen.types("o\r");
        if before.elapsed() < Duration::from_millis(500) {
            return screen;
        }
    }
    panic!("this machine is too busy to type in time");
}

/// K12: the question stands on the terminal. What is typed before it is open is no answer; a letter and Enter is one.
#[test]
fn k12_the_terminal_asks() {
    let fence = Fence::new(Who::Caller);
    for (typed, expected, answer) in [("o\r", "0", "ringfence: yes"), ("n\r", "2", "ringfence: no")] {
        let _ = fs::remove_file(fence.path("project/one.code"));
        let script = format!("echo ready; read line; {}; cat {}", hook(&fence, "touch x\u{1b}[2J", "one"), "one.code");
        let command = || {
            let mut command = fence.ringfence();
            command.args(["run", "--agent", "claude", "--ask=50s", "--", "/bin/sh", "-c", &script]);
            command
        };
        let mut screen = typed_on(command);
        screen.wait_for("then Enter: ");
        // Not an answer.
        screen.answers("yes please\r", "then Enter: ");
        screen.answers(typed, answer);
        screen.wait_for(expected);
        assert_eq!(screen.end(), Some(0));
        assert_eq!(code(&fence, "one"), expected);
    }
}

/// K12: a name that the policy does not have waits for the user; a yes is a grant like any other, a no is no such name.
#[test]
fn k12_a_name_waits_for_the_user() {
    each(|fence| {
        fence.policy("[network]\nallow = [\"api.example.com\"]\n");
        let mut shell = Shell::start(fence, &["--policy", "ringfence.toml", "--ask=20s"]);
        let id = shell.id.clone();
        for (name, verb, found) in [("wanted.example.net", "approve", true), ("evil.example.net", "deny", false)] {
            let project = fence.path("project");
            let project = project.to_str().unwrap();
            shell.does(&format!(
                "(getent hosts {name} > {project}/{verb}.out; echo $? > {project}/{verb}.new; mv {project}/{verb}.new \
                 {project}/{verb}.code) > /dev/null 2>&1 & echo"
            ));
            until("it waits", || waiting(fence, &id).iter().any(|question| question["host"] == name));
            // Others are answered meanwhile.
            assert!(shell.does("getent hosts api.example.com").contains("api.example.com"), "as {:?}", fence.who);
            let number = waiting(fence, &id)[0]["id"].to_string();
            let output = ringfence(fence, &[verb, &id, &number]);
            assert!(output.status.success(), "as {:?}: {}", fence.who, text(&output.stderr));
            assert_eq!(code(fence, verb) == "0", found, "as {:?}: {name}", fence.who);
            let given = json(fence, &["show", &id, "--json"])["sessions"][0]["grants"].to_string();
            assert!(given.contains("wanted.example.net"), "as {:?}: {given}", fence.who);
        }
        // It is settled: the next question is not held up.
        let began = Instant::now();
        shell.does("getent hosts evil.example.net");
        // Whoever is not answered asks again, and gives up after ten seconds for each family.
        assert!(began.elapsed() < Duration::from_secs(9) && waiting(fence, &id).is_empty());
    });
}
