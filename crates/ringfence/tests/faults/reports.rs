//! What a session reports after a call failed is true.

use std::fs;
use std::io::Read as _;
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::ground::{Ground, Who};

const PATIENCE: Duration = Duration::from_secs(60);

/// The events of the audit.
fn events(ground: &Ground) -> Vec<String> {
    let log = fs::read_to_string(ground.path("home/.local/state/ringfence/audit/log.jsonl")).unwrap_or_default();
    let event = |line: &str| line.split_once("\"event\":\"")?.1.split_once('"').map(|(event, _)| event.to_owned());
    log.lines().filter_map(event).collect()
}

/// The first `fstatfs` of each process fails: that of each process that looks at the guards too.
fn a_failing_look(who: Who) {
    let ground = Ground::new(who);
    let mut command = ground.command("strace");
    command.args([
        "-f",
        "-qq",
        "-o",
        "/dev/null",
        "-e",
        "trace=fstatfs",
        "-e",
        "inject=fstatfs:error=EIO:when=1",
        "--",
    ]);
    command.arg(ground.binary()).args(["run", "--", "/bin/cat"]);
    let mut session = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let until = Instant::now() + PATIENCE;
    while !events(&ground).iter().any(|event| event == "unchecked" || event == "gap") && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(5));
    }
    drop(session.stdin.take());
    let mut errors = String::new();
    session.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
    assert!(session.wait().unwrap().success(), "{errors}");
    let events = events(&ground);
    assert!(events.iter().any(|event| event == "unchecked"), "as {who:?}: {events:?}\n{errors}");
    assert!(!events.iter().any(|event| event == "gap"), "as {who:?}: {events:?}\n{errors}");
    assert!(errors.contains("could not be checked") && !errors.contains("was replaced"), "as {who:?}: {errors}");
    assert_eq!(ground.left(), [""; 0]);
}

/// [H5] It was reported as a file that was replaced outside and has no guard.
#[test]
fn h5_a_guard_that_cannot_be_looked_at_was_not_replaced() {
    if rustix::process::geteuid().is_root() {
        a_failing_look(Who::Nobody);
    }
    a_failing_look(Who::Caller);
}
