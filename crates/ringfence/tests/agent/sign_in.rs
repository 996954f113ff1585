//! What a client signs in with: nothing, a copy, or a placeholder.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::desk::Desk;

const SIGN_IN: &str =
    r#"{"claudeAiOauth":{"accessToken":"ACCESS-TOKEN","refreshToken":"REFRESH-TOKEN","expiresAt":99999999999999}}"#;

fn with_choice(desk: &Desk, choice: &str) {
    let text = format!("version = 1\n[agent.claude]\ncredentials = \"{choice}\"\n");
    desk.write("home/.config/ringfence/config.toml", &text);
    desk.write("home/.claude/.credentials.json", SIGN_IN);
}

const LOOK: &str =
    "stat -c '%a %u' ~/.claude/.credentials.json; id -u; cat ~/.claude/.credentials.json; env | grep ANTHROPIC";

/// Unless somebody asks for it, nothing of the user's sign-in is inside.
#[test]
fn a1_no_sign_in_without_a_choice() {
    let desk = Desk::of_nobody();
    with_choice(&desk, "none");
    let shown = desk.run(&["run", "--agent", "claude"], &format!("{LOOK}; true"));
    assert!(!shown.contains("TOKEN"), "{shown}");
}

/// A1, A14: a copy is the session's alone, without what renews it, and goes away with the session. The user's own is as it was.
#[test]
fn a1_a_copied_sign_in_ends_with_the_session() {
    for desk in Desk::all() {
        with_choice(&desk, "copy");
        let shown =
            desk.run(&["run", "--agent", "claude"], &format!("{LOOK}; echo evil > ~/.claude/.credentials.json; true"));
        assert!(shown.contains("600 ") && shown.contains("ACCESS-TOKEN"), "{shown}");
        assert!(!shown.contains("REFRESH-TOKEN"), "{shown}");
        assert!(desk.sessions().is_empty(), "{:?}", desk.sessions());
        let kept = std::fs::read_to_string(desk.world.path("home/.claude/.credentials.json")).unwrap();
        assert_eq!(kept, SIGN_IN);
    }
}

/// A link that an agent of an earlier session planted would choose which of the user's files is copied.
#[test]
fn a1_a_planted_sign_in_is_not_copied() {
    let desk = Desk::of_nobody();
    with_choice(&desk, "copy");
    let secret = desk.write("home/.docker/config.json", r#"{"auths":"DOCKER-SECRET"}"#);
    desk.world.mkdir("project/conf");
    desk.world.symlink(&secret, "project/conf/.credentials.json");
    desk.write("project/script", LOOK);
    let mut command =
        desk.ringfence(&["run", "--agent", "claude", "--", "bash", "-c", "cat ~/.claude/.credentials.json; true"]);
    command.env("CLAUDE_CONFIG_DIR", desk.world.path("project/conf"));
    let shown = desk.shown(command);
    assert!(!shown.contains("DOCKER-SECRET"), "{shown}");
    assert!(shown.contains("is not copied: the agent can write there"), "{shown}");
}

/// A1: nobody cleans up after a supervisor that was killed but the next one.
#[test]
fn a1_a_sign_in_is_collected_after_a_crash() {
    let desk = Desk::of_nobody();
    with_choice(&desk, "copy");
    desk.write("project/script", "echo ready; sleep 1000");
    let mut command = desk.ringfence(&["run", "--agent", "claude"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    child.kill().unwrap();
    child.wait().unwrap();
    let left = desk.sessions();
    assert!(left.iter().any(|dir| dir.join("home/.claude/.credentials.json").exists()), "{left:?}");
    // What was inside may still be ending when the first one looks.
    let is_gone = || {
        desk.shown(desk.ringfence(&["run", "--", "true"]));
        left.iter().all(|dir| !dir.exists())
    };
    let end = Instant::now() + Duration::from_secs(60);
    while !is_gone() {
        assert!(Instant::now() < end, "{:?}", desk.sessions());
    }
}

/// A key that is added on the way out is a placeholder inside, and the client speaks plain HTTP to the way out.
#[test]
fn a4_an_injected_key_stays_outside() {
    let desk = Desk::of_nobody();
    with_choice(&desk, "inject");
    desk.write("project/script", LOOK);
    let mut command = desk.ringfence(&["run", "--agent", "claude"]);
    let shown = desk.shown({
        command.env("ANTHROPIC_API_KEY", "sk-ant-SECRET-0123456789");
        command
    });
    assert!(shown.contains("ANTHROPIC_API_KEY=ringfence-injected"), "{shown}");
    assert!(shown.contains("ANTHROPIC_BASE_URL=http://api.anthropic.com"), "{shown}");
    assert!(!shown.contains("SECRET") && !shown.contains("TOKEN"), "{shown}");
}
