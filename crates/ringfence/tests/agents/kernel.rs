//! With no hook and no setting of ours, and with every question of the client's own switched off, the kernel holds.

use crate::client::Client;
use crate::deeds::{Deed, PLANTED, forbidden, ordinary, script};
use crate::ground::Ground;
use crate::model::Model;

#[test]
fn a14_claude_is_stopped_by_the_kernel_alone() {
    Client::Claude.when_installed(|| the_kernel_holds(Client::Claude));
}

#[test]
fn a14_codex_is_stopped_by_the_kernel_alone() {
    Client::Codex.when_installed(|| the_kernel_holds(Client::Codex));
}

#[test]
fn a14_gemini_is_stopped_by_the_kernel_alone() {
    Client::Gemini.when_installed(|| the_kernel_holds(Client::Gemini));
}

/// Without a fence everything is done, or the test would show nothing. Inside, what is ordinary is done and the rest is not.
fn the_kernel_holds(client: Client) {
    let without = attempt(client, Ground::unfenced);
    let by_itself: &[&str] = if client == Client::Gemini { &[PLANTED] } else { &[] };
    assert_eq!(without.not_done, by_itself, "{client:?} without a fence: {:#?}", without.results);
    let within = attempt(client, Ground::fenced);
    assert_eq!(within.ordinary_not_done, <[&str; 0]>::default(), "{client:?}: {:#?}", within.results);
    assert_eq!(within.forbidden_done, <[&str; 0]>::default(), "{client:?}: {:#?}", within.results);
}

struct Attempt {
    not_done: Vec<&'static str>,
    ordinary_not_done: Vec<&'static str>,
    forbidden_done: Vec<&'static str>,
    results: Vec<Option<String>>,
}

/// Ordinary work, then what is forbidden, in one session.
fn attempt(client: Client, run: impl FnOnce(&Ground, Client, &Model)) -> Attempt {
    let ground = Ground::new();
    let (ordinary, forbidden) = (ordinary(&ground), forbidden(&ground, client));
    let script = [script(client, &ordinary), script(client, &forbidden)].concat();
    let model = Model::with(script);
    run(&ground, client, &model);
    let done = |deed: &Deed, at: usize| deed.was_done(at, &model);
    let mut attempt =
        Attempt { not_done: vec![], ordinary_not_done: vec![], forbidden_done: vec![], results: model.results() };
    for (at, deed) in ordinary.iter().chain(&forbidden).enumerate() {
        let is_ordinary = at < ordinary.len();
        match done(deed, at) {
            true if !is_ordinary => attempt.forbidden_done.push(deed.sentence),
            true => {}
            false => {
                attempt.not_done.push(deed.sentence);
                if is_ordinary {
                    attempt.ordinary_not_done.push(deed.sentence);
                }
            }
        }
    }
    attempt
}
