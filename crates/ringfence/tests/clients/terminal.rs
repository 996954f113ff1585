//! A person at a keyboard: each client comes up on the session's own terminal, works, and leaves.

use crate::client::{Act, Attended, Client};
use crate::ground::{Ground, Manner, PLAIN};
use crate::model::{LAST_WORDS, Model};
use crate::screen::Screen;

#[test]
fn a16_claude_works_on_a_terminal() {
    Client::Claude.when_installed(|| on_a_terminal(Client::Claude));
}

#[test]
fn a16_codex_works_on_a_terminal() {
    Client::Codex.when_installed(|| on_a_terminal(Client::Codex));
}

#[test]
fn a16_gemini_works_on_a_terminal() {
    Client::Gemini.when_installed(|| on_a_terminal(Client::Gemini));
}

/// The client without a word of ours, and as an agent of ours, where it has nothing to ask.
fn on_a_terminal(client: Client) {
    let ground = Ground::new();
    let made = ground.project("made.txt");
    let script = || Model::with(vec![client.call(&Act::Write(made.clone(), "made"))]);

    let model = script();
    let mut command = ground.in_a_fence(client, &model);
    command.args(client.command(Attended::ByAPerson, &ground, &model));
    works_and_leaves(client, Screen::start(command));
    assert_eq!(std::fs::read_to_string(&made).unwrap().trim(), "made");
    std::fs::remove_file(&made).unwrap();

    let model = script();
    let command = ground.as_agent(client, &model, Manner { attended: Attended::ByAPerson, ..PLAIN });
    let mut screen = Screen::start(command);
    if client == Client::Codex {
        // This one asks whether it should open a folder whose settings it does not take. It drops what is typed too early, and
        // does not say when that is over.
        return screen.wait_for("Open restricted");
    }
    works_and_leaves(client, screen);
    assert_eq!(std::fs::read_to_string(&made).unwrap().trim(), "made");
}

/// Waits until the model has had its say, and leaves.
fn works_and_leaves(client: Client, mut screen: Screen) {
    match client {
        // Until it says so, the key ends the turn and not the program.
        Client::Codex => ["Codex", LAST_WORDS, "Worked for"].iter().for_each(|text| screen.wait_for(text)),
        // A line as wide as the terminal is drawn; and these want to be told twice to end.
        Client::Claude | Client::Gemini => {
            screen.wait_for(&"─".repeat(80));
            screen.wait_for(LAST_WORDS);
            screen.answers("\x03", "again");
        }
    }
    screen.types("\x03");
    assert_eq!(screen.end(), Some(0));
}
