//! `ringfence run --agent`: the client is started with settings and a hook of ours, and the hook says why it refuses.

use crate::client::Client;
use crate::deeds::{attempt, refused_by_itself};
use crate::ground::{Ground, Who};
use crate::model::Model;

#[test]
fn a6_claude_is_stopped_by_the_hook() {
    Client::Claude.when_installed(|| the_hook_holds(Client::Claude));
}

#[test]
fn a6_codex_is_stopped_by_the_hook() {
    Client::Codex.when_installed(|| the_hook_holds(Client::Codex));
}

#[test]
fn a6_gemini_is_stopped_by_the_hook() {
    Client::Gemini.when_installed(|| the_hook_holds(Client::Gemini));
}

/// What is ordinary is done; what is forbidden is not, the model reads whose word that is, and it is written down.
fn the_hook_holds(client: Client) {
    let nothing: &[&str] = &[];
    let mut log = String::new();
    let attempt = attempt(client, Who::Caller, |ground, client, model| {
        ground.hooked(client, model);
        let path = ground.world.path("home/.local/state/ringfence/audit/log.jsonl");
        log = std::fs::read_to_string(path).unwrap();
    });
    assert_eq!(attempt.ordinary_not_done, nothing, "{client:?}: {attempt:#?}");
    assert_eq!(attempt.forbidden_done, nothing, "{client:?}: {attempt:#?}");
    assert_eq!(attempt.without_our_word, refused_by_itself(client), "{client:?}: {attempt:#?}");
    for word in ["sandbox_read_blocked", "sandbox_write_blocked", "sandbox_command_blocked"] {
        assert!(log.contains(word), "{client:?}: {word} is not written down: {log}");
    }
}

/// G4: the introduction reaches the model, in the client's own way.
#[test]
fn g4_the_model_is_told_where_it_is() {
    for client in [Client::Claude, Client::Codex, Client::Gemini] {
        client.when_installed(|| {
            let ground = Ground::new();
            let model = Model::with(Vec::new());
            ground.hooked(client, &model);
            let asked: String = model.requests().iter().map(|request| request.body.to_string()).collect();
            assert!(asked.contains("You work inside ringfence"), "{client:?}: {asked}");
            assert!(asked.contains(&ground.path("project")), "{client:?}: {asked}");
        });
    }
}
