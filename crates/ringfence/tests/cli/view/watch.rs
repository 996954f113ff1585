//! The watchdog: what it does when too much is denied, and what those who are held can do about it.

use std::fs;
use std::process::Output;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::live::{Shell, json, ringfence, until};
use super::{Fence, Who, each, is_root, text};

fn watched(fence: &Fence, then: &str) {
    let reaches = "[network]\nallow = [\"api.example.com\"]\n";
    fence.policy(&format!("{reaches}[[watch]]\nwhen = {{ denied = \">3 in 1m\" }}\nthen = \"{then}\"\n"));
}

/// Each name is asked for twice, for an address of each family: more than three, and not twice as many and more.
const MANY: &str = "for i in 1 2 3; do getent hosts evil$i.example.net; done";

fn state(fence: &Fence, id: &str) -> String {
    json(fence, &["show", id, "--json"])["sessions"][0]["state"].as_str().unwrap().to_owned()
}

/// How much a file grows in a time in which a busy writer would have written thousands of lines.
fn grows(fence: &Fence, name: &str) -> u64 {
    let length = || fs::metadata(fence.path(name)).map_or(0, |metadata| metadata.len());
    let (before, end) = (length(), Instant::now() + Duration::from_millis(700));
    while Instant::now() < end {
        std::thread::park_timeout(Duration::from_millis(50));
    }
    length() - before
}

fn children(of: &str) -> Vec<String> {
    let listed = fs::read_to_string(format!("/proc/{of}/task/{of}/children")).unwrap();
    listed.split_whitespace().map(str::to_owned).collect()
}

/// Is a process in this state?
fn is(process: &str, state: char) -> bool {
    fs::read_to_string(format!("/proc/{process}/stat")).unwrap().contains(&format!(") {state} "))
}

fn said(output: &Output) -> String {
    text(&output.stderr)
}

/// K16: too much is denied, and everything in the session stands still until somebody outside lets it go on: also what forks all
/// the time, what leads sessions and groups of its own, and what loses its parents.
#[test]
fn k16_a_pause_holds_everything_until_it_is_resumed() {
    each(|fence| {
        watched(fence, "pause");
        fence.write(&[("project/tick", ""), ("project/own", ""), ("project/orphan", "")]);
        let mut shell = Shell::start(fence, &["--policy", "ringfence.toml"]);
        // A loop that forks for each line, one in a session of its own that hears no hang-up, and a stream of groups whose
        // parents end: the kernel continues such a group when it is stopped.
        shell.does("(while :; do /bin/echo x >> $W/project/tick; done) > /dev/null 2>&1 & echo");
        shell.does(
            "setsid sh -c 'trap \"\" HUP TERM; while :; do echo x >> $W/project/own; done' > /dev/null 2>&1 & echo",
        );
        shell.does(
            "(while :; do sh -mc 'trap \"\" HUP; (i=0; while [ $i -lt 300 ]; do i=$((i+1)); echo x >> $W/project/orphan; done) &'; \
             done) > /dev/null 2>&1 & echo",
        );
        until("they run", || ["tick", "own", "orphan"].iter().all(|name| grows(fence, &format!("project/{name}")) > 0));
        let id = shell.id.clone();
        // It does not come back before it goes on.
        let many = fence.script(MANY);
        std::io::Write::write_all(shell.stdin.as_mut().unwrap(), format!("{many}; echo after\n").as_bytes()).unwrap();
        until("it is paused", || state(fence, &id) == "paused");
        until("all of it stands still", || {
            ["tick", "own", "orphan"].iter().all(|name| grows(fence, &format!("project/{name}")) == 0)
        });
        for name in ["tick", "own", "orphan"] {
            assert_eq!(grows(fence, &format!("project/{name}")), 0, "as {:?}: {name} goes on", fence.who);
        }
        let shown = text(&ringfence(fence, &["show", &id]).stdout);
        assert!(shown.contains("watch     denied >3 in 1m then pause (") && shown.contains("paused    "), "{shown}");
        let listed = text(&ringfence(fence, &["ps"]).stdout);
        assert!(listed.lines().any(|line| line.starts_with(&id) && line.contains(" paused ")), "{listed}");
        // Nothing new starts in it.
        let call = ringfence(fence, &["exec", "--within", &id, "--", "true"]);
        assert!(!call.status.success() && said(&call).contains("paused"), "as {:?}: {}", fence.who, said(&call));
        let again = ringfence(fence, &["pause", &id]);
        assert!(!again.status.success() && said(&again).contains("paused already"), "{}", said(&again));
        assert!(ringfence(fence, &["resume", &id]).status.success());
        until("they go on", || grows(fence, "project/tick") > 0 && grows(fence, "project/own") > 0);
        let log = text(&ringfence(fence, &["logs", &id]).stdout);
        for part in ["watch denied >3 in 1m then pause", "paused: ", "resumed"] {
            assert!(log.contains(part), "as {:?}: {part}: {log}", fence.who);
        }
        assert!(!ringfence(fence, &["resume", &id]).status.success(), "it is not paused any more");
    });
}

/// K16: whoever is inside can neither let it go on, nor pause another.
#[test]
fn k16_nobody_inside_resumes() {
    each(|fence| {
        watched(fence, "pause");
        let mut shell = Shell::start(fence, &["--policy", "ringfence.toml"]);
        let own = "\"$(dirname \"$HOME\")/given/ringfence\"";
        for verb in ["pause", "resume", "stop", "approve", "deny"] {
            let did = shell.does(&format!("{own} {verb} $RINGFENCE_SESSION 1 > /dev/null 2>&1 && echo did"));
            assert!(!did.contains("did"), "as {:?}: {verb}", fence.who);
        }
        // Signals to the first process are not for those inside: it stays, and so does its hold.
        shell.does("kill -CONT 1; kill -STOP 1; kill -KILL 1; echo");
        assert_eq!(state(fence, &shell.id.clone()), "running");
        assert!(ringfence(fence, &["pause", &shell.id]).status.success());
        assert_eq!(state(fence, &shell.id.clone()), "paused");
        assert!(ringfence(fence, &["resume", &shell.id]).status.success());
        assert_eq!(shell.does("echo still here"), "still here");
        shell.ends();
    });
}

/// K16: a session that is paused can be stopped, and runs no more before its end.
#[test]
fn k16_a_paused_session_is_stopped_without_running_on() {
    let fence = Fence::new(if is_root() { Who::Nobody } else { Who::Caller });
    watched(&fence, "notify");
    fence.write(&[("project/tick", "")]);
    let mut shell = Shell::start(&fence, &["--policy", "ringfence.toml"]);
    shell.does("(trap '' TERM HUP; while :; do echo x >> $W/project/tick; done) > /dev/null 2>&1 & echo");
    until("it runs", || grows(&fence, "project/tick") > 0);
    assert!(ringfence(&fence, &["pause", &shell.id]).status.success());
    until("it stands still", || grows(&fence, "project/tick") == 0);
    let before = fs::metadata(fence.path("project/tick")).unwrap().len();
    assert!(ringfence(&fence, &["stop", &shell.id]).status.success());
    shell.child.wait().unwrap();
    assert_eq!(fs::metadata(fence.path("project/tick")).unwrap().len(), before);
    fence.left_nothing();
}

/// K16: a watch that stops ends the session, and says so; one that notifies does not. A project may add both without trust.
#[test]
fn k16_stop_and_notify() {
    each(|fence| {
        // Who is stopped sleeps on until then; who is not is told before the end.
        for (then, code, sleep, part) in
            [("stop", false, 60, "ended by a watch: "), ("notify", true, 3, "ringfence: watch: ")]
        {
            watched(fence, then);
            // The user's own file says what is reached, the project's is trusted by nobody.
            let own = "version = 1\n[network]\nallow = [\"api.example.com\"]\n";
            fence.write(&[("home/.config/ringfence/config.toml", own)]);
            let output = fence.sh(&format!("{MANY}; sleep {sleep} & wait; echo survived"));
            let (printed, said) = (text(&output.stdout), text(&output.stderr));
            assert_eq!(output.status.success(), code, "as {:?}: {then}: {said}", fence.who);
            assert_eq!(printed.contains("survived"), code, "as {:?}: {then}: {printed}", fence.who);
            assert!(said.contains(part) && said.contains("denied >3 in 1m"), "as {:?}: {then}: {said}", fence.who);
            fence.left_nothing();
        }
    });
}

/// K16: what strikes a watch just before the session ends is told too. What nobody could stop any more is not said to be stopped.
#[test]
fn k16_a_watch_that_strikes_at_the_end_is_told() {
    each(|fence| {
        fence.write(&[("project/.git/HEAD", "")]);
        for then in ["notify", "pause", "stop"] {
            fence.policy(&format!("[[watch]]\nwhen = {{ denied = \">2 in 1m\" }}\nthen = \"{then}\"\n"));
            let mut shell = Shell::start(fence, &["--policy", "ringfence.toml"]);
            // The supervisor carries the standard streams, so the last line is read before it stands still.
            let last = b"while test ! -e go; do :; done; exec mkdir .git/hooks .git/hooks .git/hooks 2> /dev/null\n";
            std::io::Write::write_all(shell.stdin.as_mut().unwrap(), b"touch read; ").unwrap();
            std::io::Write::write_all(shell.stdin.as_mut().unwrap(), last).unwrap();
            until("it was read", || fence.path("project/read").exists());
            // The supervisor stands still, where it waits for what happens, until all is over.
            let (supervisor, number) = (Pid::from_child(&shell.child), shell.child.id().to_string());
            until("it waits", || is(&number, 'S'));
            kill_process(supervisor, Signal::STOP).unwrap();
            until("it stands still", || is(&number, 'T'));
            fence.write(&[("project/go", "")]);
            let inside = children(&number);
            assert_eq!(inside.len(), 1, "{inside:?}");
            // With all its threads, of which some are the broker's.
            let threads = || fs::read_dir(format!("/proc/{}/task", inside[0])).unwrap().count();
            until("it ends", || is(&inside[0], 'Z') && threads() == 1);
            kill_process(supervisor, Signal::CONT).unwrap();
            assert_eq!(shell.child.wait().unwrap().code(), Some(1), "as {:?}: {then}", fence.who);
            let (id, said) = (shell.id.clone(), shell.errors());
            assert!(said.contains("ringfence: watch: 3 denied"), "as {:?}: {then}: {said}", fence.who);
            assert!(!said.contains("ended by a watch"), "as {:?}: {then}: {said}", fence.who);
            let log = text(&ringfence(fence, &["logs", &id]).stdout);
            let done = if then == "notify" { "told" } else { "told, it had ended" };
            assert!(log.contains(done), "as {:?}: {then}: {log}", fence.who);
            for name in ["read", "go"] {
                fs::remove_file(fence.path("project").join(name)).unwrap();
            }
        }
    });
}

/// K16: where a session cannot be paused it ends, and is not left to go on.
#[test]
fn k16_where_nothing_can_be_paused_it_ends() {
    let fence = Fence::new(Who::Caller);
    watched(&fence, "pause");
    let mut command = fence.ringfence();
    command.args(["run", "--policy", "ringfence.toml", "--agent", "claude", "--backend", "bwrap", "--", "/bin/sh"]);
    let call = serde_json::json!({"cwd": fence.path("project").to_str().unwrap(), "hook_event_name": "PreToolUse",
        "tool_name": "Bash", "tool_input": {"command": "touch x"}});
    let hook = format!("echo '{call}' | \"$(dirname \"$HOME\")/given/ringfence\" hook claude");
    let script = format!("for i in 1 2 3 4 5 6; do {hook}; done; sleep 60 & wait; echo survived");
    let output = command.args(["-c", &script]).output().unwrap();
    let (printed, said) = (text(&output.stdout), text(&output.stderr));
    assert!(!printed.contains("survived") && said.contains("ended by a watch: "), "{said}");
}
