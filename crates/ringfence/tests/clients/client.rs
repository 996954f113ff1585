//! The clients: where the set-up has put them, how each is started without anybody there, and what each calls its tools.

use std::path::{Path, PathBuf};

use ringfence_testkit::report_skip;
use serde_json::json;

use crate::ground::Ground;
use crate::model::{Call, Model};

/// A program that people use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Client {
    Claude,
    Codex,
    Gemini,
}

/// Who sits before a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Attended {
    ByNobody,
    ByAPerson,
}

/// What a model may ask for, before a client's own words are put to it.
#[derive(Debug, Clone)]
pub(crate) enum Act {
    Read(PathBuf),
    /// Makes a file, or writes it anew.
    Write(PathBuf, &'static str),
    /// Puts one text in the place of another.
    Edit(PathBuf, &'static str, &'static str),
    Shell(String),
}

impl Client {
    /// Runs a case when the client is installed. Where it is not, that is said; in CI it is a failure.
    pub(crate) fn when_installed(self, case: impl FnOnce()) {
        if self.program().exists() {
            return case();
        }
        assert!(std::env::var_os("CI").is_none_or(|value| value != "true"), "{self:?} is not installed");
        report_skip(&format!(
            "{self:?}: it is not installed; `cargo xtask test` does that where npm reaches its registry"
        ));
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Codex => "codex",
            Self::Gemini => "gemini",
        }
    }

    fn program(self) -> PathBuf {
        programs().join(self.name())
    }

    /// The variable in which the client looks for a key.
    pub(crate) fn key_variable(self) -> &'static str {
        match self {
            Self::Claude => "ANTHROPIC_API_KEY",
            Self::Codex => "OPENAI_API_KEY",
            Self::Gemini => "GEMINI_API_KEY",
        }
    }

    /// The variables that lead the client to a model, with a key that opens nothing.
    pub(crate) fn variables(self, model: &Model) -> Vec<(&'static str, String)> {
        let key = (self.key_variable(), KEY.to_owned());
        match self {
            Self::Claude => vec![
                key,
                ("ANTHROPIC_BASE_URL", model.url()),
                ("DISABLE_AUTOUPDATER", "1".to_owned()),
                ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1".to_owned()),
                // Without a fence the tests may be root, and this client then asks for a word that it is in a box.
                ("IS_SANDBOX", "1".to_owned()),
            ],
            Self::Codex => vec![key, ("OPENAI_BASE_URL", format!("{}/v1", model.url()))],
            Self::Gemini => vec![key, ("GOOGLE_GEMINI_BASE_URL", model.url())],
        }
    }

    /// The command line of somebody who leaves the settings to ringfence.
    pub(crate) fn as_agent(self, attended: Attended, ground: &Ground, more: &[&str]) -> Vec<String> {
        let (world, no_one) = (ground.path(""), attended == Attended::ByNobody);
        let words: &[&str] = match self {
            Self::Claude => &["claude"],
            Self::Codex if no_one => &["codex", "exec", "-m", "gpt-5.5-codex"],
            Self::Codex => &["codex", "-m", "gpt-5.5-codex"],
            // As below: what stops it must not be its own rule.
            Self::Gemini if no_one => &["gemini", "-m", "gemini-2.5-pro", "--include-directories", &world],
            Self::Gemini => &["gemini", "-m", "gemini-2.5-pro"],
        };
        let request: &[&str] = match self {
            Self::Claude | Self::Gemini if no_one => &["-p", PROMPT],
            Self::Claude | Self::Codex => &[PROMPT],
            Self::Gemini => &["-i", PROMPT],
        };
        [words, more, request].concat().into_iter().map(str::to_owned).collect()
    }

    /// The command line that does what the model says, without a question and without a rule of the client's own.
    pub(crate) fn command(self, attended: Attended, ground: &Ground, model: &Model) -> Vec<String> {
        let no_one = attended == Attended::ByNobody;
        let words: &[&str] = match self {
            Self::Claude if no_one => &["claude", "--dangerously-skip-permissions", "-p"],
            Self::Claude => &["claude", "--dangerously-skip-permissions"],
            Self::Codex if no_one => &["codex", "--dangerously-bypass-approvals-and-sandbox", "exec"],
            Self::Codex => &["codex", "--dangerously-bypass-approvals-and-sandbox"],
            Self::Gemini => &["gemini", "--yolo", "--skip-trust", "-m", "gemini-2.5-pro"],
        };
        let mut words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
        match self {
            Self::Claude => {}
            Self::Codex => words.extend(codex_settings(ground, model)),
            // Its own rule about directories is opened as wide as it goes, so that it is not what stops anything. It asks about
            // that when there is somebody.
            Self::Gemini if no_one => {
                words.extend(["--include-directories".to_owned(), ground.path(""), "-p".to_owned()]);
            }
            Self::Gemini => words.push("-i".to_owned()),
        }
        words.push(PROMPT.to_owned());
        words
    }

    /// The act in the client's own words.
    pub(crate) fn call(self, act: &Act) -> Call {
        match self {
            Self::Claude => claude(act),
            Self::Codex => codex(act),
            Self::Gemini => gemini(act),
        }
    }
}

const KEY: &str = "a-key-that-opens-nothing";
const PROMPT: &str = "do what the script says";

/// Where `cargo xtask test` installs the clients: beside what is built.
pub(crate) fn installed() -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    target.join("clients")
}

/// The directory of the programs themselves.
pub(crate) fn programs() -> PathBuf {
    installed().join("node_modules/.bin")
}

/// Codex takes its provider from settings, which the command line can give, and asks whether a directory is trusted.
fn codex_settings(ground: &Ground, model: &Model) -> Vec<String> {
    let settings = [
        "model=\"gpt-5.5-codex\"".to_owned(),
        "model_provider=\"scripted\"".to_owned(),
        format!(
            "model_providers={{scripted={{name=\"scripted\",env_key=\"OPENAI_API_KEY\",wire_api=\"responses\",base_url=\"{}/v1\"}}}}",
            model.url()
        ),
        format!("projects={{{:?}={{trust_level=\"trusted\"}}}}", ground.path("project")),
    ];
    settings.into_iter().flat_map(|setting| ["-c".to_owned(), setting]).collect()
}

/// Settings without which a client asks a question first.
pub(crate) fn seed_settings(client: Client, ground: &Ground) -> Option<(&'static str, String)> {
    match client {
        Client::Claude => Some((
            ".claude.json",
            json!({"hasCompletedOnboarding": true, "theme": "dark", "bypassPermissionsModeAccepted": true,
                   "customApiKeyResponses": {"approved": [&KEY[KEY.len() - 20..]], "rejected": []},
                   "projects": {ground.path("project"): {"hasTrustDialogAccepted": true}}})
            .to_string(),
        )),
        Client::Codex => None,
        Client::Gemini => Some((
            ".gemini/settings.json",
            json!({"security": {"auth": {"selectedType": "gemini-api-key"}}, "privacy": {"usageStatisticsEnabled": false},
                   "general": {"enableAutoUpdate": false}})
            .to_string(),
        )),
    }
}

fn claude(act: &Act) -> Call {
    match act {
        Act::Read(path) => Call::new("Read", json!({"file_path": path})),
        Act::Write(path, text) => Call::new("Write", json!({"file_path": path, "content": text})),
        Act::Edit(path, old, new) => {
            Call::new("Edit", json!({"file_path": path, "old_string": old, "new_string": new}))
        }
        Act::Shell(command) => Call::new("Bash", json!({"command": command, "description": "as asked"})),
    }
}

fn gemini(act: &Act) -> Call {
    match act {
        Act::Read(path) => Call::new("read_file", json!({"file_path": path})),
        Act::Write(path, text) => Call::new("write_file", json!({"file_path": path, "content": text})),
        Act::Edit(path, old, new) => Call::new(
            "replace",
            json!({"file_path": path, "old_string": old, "new_string": new, "instruction": "as asked"}),
        ),
        Act::Shell(command) => Call::new("run_shell_command", json!({"command": command, "description": "as asked"})),
    }
}

/// Codex reads with the shell, and edits with patches.
fn codex(act: &Act) -> Call {
    let patch = |what: &str, path: &Path, lines: &str| {
        Call::new(
            "apply_patch",
            json!(format!("*** Begin Patch\n*** {what} File: {}\n{lines}*** End Patch", path.display())),
        )
    };
    match act {
        Act::Read(path) => codex(&Act::Shell(format!("cat {}", path.display()))),
        Act::Write(path, text) => patch("Add", path, &format!("+{text}\n")),
        Act::Edit(path, old, new) => patch("Update", path, &format!("@@\n-{old}\n+{new}\n")),
        Act::Shell(command) => Call::new("exec_command", json!({"cmd": command})),
    }
}
