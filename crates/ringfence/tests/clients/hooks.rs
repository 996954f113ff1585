//! `ringfence run --agent`: the client is started with settings and a hook of ours, and the hook says why it refuses.

use crate::client::Client;
use crate::deeds::{attempt, refused_by_itself};
use crate::ground::{Ground, Who};

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

/// What is ordinary is done; what is forbidden is not, and the model reads whose word that is.
fn the_hook_holds(client: Client) {
    let nothing: &[&str] = &[];
    let attempt = attempt(client, Who::Caller, Ground::hooked);
    assert_eq!(attempt.ordinary_not_done, nothing, "{client:?}: {attempt:#?}");
    assert_eq!(attempt.forbidden_done, nothing, "{client:?}: {attempt:#?}");
    assert_eq!(attempt.without_our_word, refused_by_itself(client), "{client:?}: {attempt:#?}");
}
