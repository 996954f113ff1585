//! A person at a keyboard: each client comes up on the session's own terminal, works, and leaves.

use crate::client::{Act, Attended, Client};
use crate::ground::Ground;
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

/// Waits until the model has had its say, and leaves.
fn on_a_terminal(client: Client) {
    let ground = Ground::new();
    let made = ground.project("made.txt");
    let model = Model::with(vec![client.call(&Act::Write(made.clone(), "made"))]);
    let mut command = ground.in_a_fence(client, &model);
    command.args(client.command(Attended::ByAPerson, &ground, &model));
    let mut screen = Screen::start(command);
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
    assert_eq!(std::fs::read_to_string(&made).unwrap().trim(), "made");
}
