//! What `--agent` brings along, and what a file may say about an agent.

use crate::host::{Answers, Host};
use ringfence_surface::policy::{Credentials, Mode};

fn with_agent(mut host: Host, name: &str) -> Answers {
    host.request.agent = Some(name.to_owned());
    host.resolve()
}

/// K1: accept-edits is what holds when nobody says otherwise; a file that is trusted may choose the other.
#[test]
fn k1_two_modes() {
    let mode = |host: Host| with_agent(host, "claude").0.agent.unwrap().mode.value;
    assert_eq!(mode(Host::new()), Mode::AcceptEdits);
    let auto = "[agent.claude]\nmode = \"auto\"\n";
    assert_eq!(mode(Host::new().project(auto)), Mode::Auto);
    assert_eq!(mode(Host::new().untrusted(auto)), Mode::AcceptEdits);
    let careful = "[agent.claude]\nmode = \"accept-edits\"\n";
    assert_eq!(mode(Host::new().user(auto).untrusted(careful)), Mode::AcceptEdits);
}

/// An untrusted project chooses neither the command nor what is signed in with, and that is said.
#[test]
fn an_untrusted_project_says_little_about_an_agent() {
    let wants = "[agent.claude]\ncommand = [\"./evil\"]\nmode = \"auto\"\ncredentials = \"inject\"\n";
    let found = with_agent(Host::new().untrusted(wants), "claude").0;
    let choice = found.agent.as_ref().unwrap();
    assert_eq!(choice.command, ["claude"]);
    assert_eq!(choice.credentials.value, Credentials::None);
    assert!(found.surface.reach().inject.is_empty());
    for entry in ["agent.claude command", "agent.claude mode = \"auto\"", "agent.claude credentials"] {
        assert!(found.omissions.iter().any(|omission| omission.entry == entry), "{entry}: {:?}", found.omissions);
    }
    let found = with_agent(Host::new().project(wants), "claude").0;
    assert_eq!(found.agent.unwrap().command, ["./evil"]);
    assert_eq!(found.surface.reach().inject.len(), 1);
}

/// A program in a home is readable with what belongs to it, and nothing else of that home.
#[test]
fn the_program_and_node_are_readable() {
    let host = || {
        Host::new()
            .file("/home/u/.nvm/versions/node/v22/lib/node_modules/@openai/codex/bin/codex.js")
            .file("/home/u/.nvm/versions/node/v22/bin/node")
            .link("/home/u/.nvm/versions/node/v22/bin/codex", "../lib/node_modules/@openai/codex/bin/codex.js")
            .file("/home/u/.local/share/claude/versions/2.1.325")
            .link("/home/u/.local/bin/claude", "/home/u/.local/share/claude/versions/2.1.325")
            .env("PATH", "/home/u/.nvm/versions/node/v22/bin:/home/u/.local/bin")
    };
    with_agent(host(), "codex").check(&[
        ("/home/u/.nvm/versions/node/v22/bin/node", "r-"),
        ("/home/u/.nvm/versions/node/v22/lib/node_modules/@openai/codex/x", "r-"),
        ("/home/u/.nvm/alias/default", "--"),
    ]);
    with_agent(host(), "claude").check(&[
        ("/home/u/.local/share/claude/versions/2.1.325", "r-"),
        ("/home/u/.local/share/claude/other", "--"),
        ("/home/u/.local/bin/other", "--"),
    ]);
}

/// A script beside what npm installed, as Claude Code's own installer once left it.
#[test]
fn a_script_beside_its_packages() {
    let host = Host::new()
        .file("/home/u/.claude/local/claude")
        .dir("/home/u/.claude/local/node_modules")
        .env("PATH", "/home/u/.claude/local");
    with_agent(host, "claude").check(&[
        ("/home/u/.claude/local/claude", "r-"),
        ("/home/u/.claude/local/node_modules/x", "r-"),
        ("/home/u/.claude/.credentials.json", "--"),
        ("/home/u/.claude/projects/x", "--"),
    ]);
}

/// A program that lies in the home itself does not make the home readable.
#[test]
fn a_program_never_opens_a_home() {
    let host = Host::new()
        .file("/home/u/node_modules/.bin/gemini.js")
        .file("/home/u/bin/node")
        .link("/home/u/bin/gemini", "../node_modules/.bin/gemini.js")
        .env("PATH", "/home/u/bin");
    with_agent(host, "gemini").check(&[
        ("/home/u/node_modules/x", "r-"),
        ("/home/u/bin/node", "r-"),
        ("/home/u/notes", "--"),
        ("/home/u", "--"),
    ]);
}
