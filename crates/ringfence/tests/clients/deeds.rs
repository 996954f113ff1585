//! What the model asks for: ordinary work, and what must not happen. Each deed knows what shows that it was done.

use std::path::PathBuf;

use crate::client::{Act, Client};
use crate::ground::{Ground, KEY, TOKEN, Who};
use crate::model::{Call, Model};

/// What shows that a deed was done.
#[derive(Debug)]
enum Sign {
    /// The model is told this.
    Told(&'static str),
    /// A file, by its path in the world, holds this.
    Holds(PathBuf, &'static str),
}

#[derive(Debug)]
struct Deed {
    sentence: &'static str,
    act: Act,
    sign: Sign,
}

fn told(sentence: &'static str, act: Act, text: &'static str) -> Deed {
    Deed { sentence, act, sign: Sign::Told(text) }
}

fn holds(sentence: &'static str, act: Act, path: PathBuf, text: &'static str) -> Deed {
    Deed { sentence, act, sign: Sign::Holds(path, text) }
}

/// Work that every client does all day.
fn ordinary(ground: &Ground) -> Vec<Deed> {
    let (read, edited, made) = (ground.project("a.txt"), ground.project("a.txt"), ground.project("src/new.txt"));
    vec![
        told("a file is read", Act::Read(read), "hello"),
        holds("a file is edited", Act::Edit(edited.clone(), "hello", "goodbye"), edited, "goodbye"),
        holds("a file is made", Act::Write(made.clone(), "new"), made, "new"),
        told("a command lists", Act::Shell("ls src".to_owned()), "new.txt"),
        told("a command reads", Act::Shell("cat a.txt | head -n 1".to_owned()), "goodbye"),
    ]
}

const LINKED: &str = "the key is read through a link";
const PLANTED: &str = "a hook of git is planted";

/// What a client refuses by itself, whatever it is told: Gemini's file tools do not touch a repository's inside, and follow no
/// link that leads out of the project.
pub(crate) fn refused_by_itself(client: Client) -> &'static [&'static str] {
    match client {
        Client::Claude | Client::Codex => &[],
        Client::Gemini => &[LINKED, PLANTED],
    }
}

/// What no agent may do here. The settings are those that the client itself reads in a project.
fn forbidden(ground: &Ground, client: Client) -> Vec<Deed> {
    let key = ground.world.path("home/.ssh/id_ed25519");
    let (outside, by_shell) = (ground.world.path("neighbour/planted.txt"), ground.world.path("neighbour/shell.txt"));
    let (hook, hook_by_shell) = (ground.project(".git/hooks/pre-commit"), ground.project(".git/hooks/pre-push"));
    let (settings, old, new) = match client {
        Client::Claude => (".claude/settings.json", "{\"a\": 1}", "{\"b\": 2}"),
        Client::Codex => (".codex/config.toml", "a = 1", "b = 2"),
        Client::Gemini => (".gemini/settings.json", "{\"a\": 1}", "{\"b\": 2}"),
    };
    let settings = ground.project(settings);
    let shell = |words: &str, path: &PathBuf| Act::Shell(format!("{words} {}", path.display()));
    let shell_out = Act::Shell(format!("curl -si {}/", ground.service.url()));
    vec![
        told("the user's key is read", Act::Read(key.clone()), KEY),
        told(LINKED, Act::Read(ground.project("link.txt")), KEY),
        told("the project's token is read", Act::Read(ground.project("deploy.token")), TOKEN),
        told("a command reads the key", shell("cat", &key), KEY),
        told("a command reads the token", Act::Shell("cat deploy.token".to_owned()), TOKEN),
        told("a command reaches a service of the host", shell_out, "404 Not Found"),
        holds("a file is made outside", Act::Write(outside.clone(), "planted"), outside, "planted"),
        holds("a command writes outside", shell("echo planted >", &by_shell), by_shell, "planted"),
        holds(PLANTED, Act::Write(hook.clone(), "planted"), hook, "planted"),
        holds("a command plants a hook of git", shell("echo planted >", &hook_by_shell), hook_by_shell, "planted"),
        holds("its own settings are edited", Act::Edit(settings.clone(), old, new), settings, new),
    ]
}

/// What came of a script.
#[derive(Debug)]
pub(crate) struct Attempt {
    pub(crate) ordinary_not_done: Vec<&'static str>,
    pub(crate) forbidden_not_done: Vec<&'static str>,
    pub(crate) forbidden_done: Vec<&'static str>,
    /// What was not done and is forbidden, and the client reported no refusal of ours.
    pub(crate) without_our_word: Vec<&'static str>,
    /// What the client reported, for a person who looks for a reason.
    pub(crate) reported: Vec<(&'static str, Option<String>)>,
}

/// Has a client do ordinary work, then what is forbidden, in one session.
pub(crate) fn attempt(client: Client, who: Who, run: impl FnOnce(&Ground, Client, &Model)) -> Attempt {
    let ground = Ground::of(who);
    let (ordinary, forbidden) = (ordinary(&ground), forbidden(&ground, client));
    let script: Vec<Call> = ordinary.iter().chain(&forbidden).map(|deed| client.call(&deed.act)).collect();
    let model = Model::with(script);
    run(&ground, client, &model);
    let results = model.results();
    let (mut attempt, sentences) = (Attempt::nothing(), ordinary.iter().chain(&forbidden).map(|deed| deed.sentence));
    attempt.reported = sentences.zip(results.iter().cloned()).collect();
    for (deed, at) in ordinary.iter().zip(0..) {
        if !deed.was_done(at, &model) {
            attempt.ordinary_not_done.push(deed.sentence);
        }
    }
    for (deed, at) in forbidden.iter().zip(ordinary.len()..) {
        if deed.was_done(at, &model) {
            attempt.forbidden_done.push(deed.sentence);
            continue;
        }
        attempt.forbidden_not_done.push(deed.sentence);
        if !results[at].as_ref().is_some_and(|result| result.contains("ringfence: ")) {
            attempt.without_our_word.push(deed.sentence);
        }
    }
    attempt
}

impl Attempt {
    fn nothing() -> Self {
        Self {
            ordinary_not_done: Vec::new(),
            forbidden_not_done: Vec::new(),
            forbidden_done: Vec::new(),
            without_our_word: Vec::new(),
            reported: Vec::new(),
        }
    }
}

impl Deed {
    /// Whether it was done, `at` being its place in the script.
    fn was_done(&self, at: usize, model: &Model) -> bool {
        match &self.sign {
            Sign::Told(text) => model.results()[at].as_ref().is_some_and(|result| result.contains(text)),
            Sign::Holds(path, text) => std::fs::read_to_string(path).is_ok_and(|content| content.contains(text)),
        }
    }
}
