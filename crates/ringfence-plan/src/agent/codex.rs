//! Codex, started from its own settings.
//!
//! Hooks in a user's file are skipped until they are trusted, without a word. What an administrator requires in `/etc/codex` is
//! not, and nothing below can take it back.

use std::fmt::Write as _;

use ringfence_surface::policy::Mode;
use ringfence_surface::{Client, Governance, Surface};

use super::{AgentFile, AgentGround, AgentPlan, Etc, FilePlace, NETWORK_PROGRAMS, Places, is_made};
use crate::json::quoted;

/// The hook, as both files say it.
fn hook(ground: &AgentGround<'_>) -> String {
    let command = quoted(&ground.hook(Client::Codex));
    format!(
        "[features]\nhooks = true\n\n[[hooks.PreToolUse]]\nmatcher = \"*\"\n\n[[hooks.PreToolUse.hooks]]\ntype = \
         \"command\"\ncommand = {command}\ntimeout = {}\n",
        ground.hook_seconds()
    )
}

/// What nobody below can change.
fn requirements(ground: &AgentGround<'_>) -> String {
    let mut text = String::from("allow_managed_hooks_only = true\n\n");
    text.push_str(&hook(ground));
    if ground.mode() == Mode::AcceptEdits {
        text.push_str("\n[rules]\nprefix_rules = [\n");
        for program in NETWORK_PROGRAMS {
            let why = "ringfence: only listed hosts are reached";
            let token = quoted(program);
            // Writing to a string does not fail.
            let _ = writeln!(
                text,
                "  {{ pattern = [{{ token = {token} }}], decision = \"forbidden\", justification = {} }},",
                quoted(why)
            );
        }
        text.push_str("]\n");
    }
    text
}

fn config(surface: &Surface, ground: &AgentGround<'_>, places: &Places) -> String {
    let root = quoted(&surface.root().to_string());
    let mut text = String::from("check_for_update_on_startup = false\ndefault_permissions = \"rf\"\n");
    if ground.choice.base_url.is_some() {
        text.push_str("model_provider = \"ringfence\"\n");
    }
    text.push_str("\n[analytics]\nenabled = false\n\n[permissions.rf.filesystem]\n\":minimal\" = \"read\"\n");
    let home = ground.home.to_string();
    for path in places.reads.iter().filter(|path| !is_made(path)) {
        let _ = writeln!(text, "{} = \"read\"", quoted(path));
    }
    for path in places.writes.iter().filter(|path| **path != home) {
        let _ = writeln!(text, "{} = \"write\"", quoted(path));
    }
    let _ = writeln!(text, "{} = \"read\"", quoted(&format!("{home}/.codex/tmp")));
    text.push_str("\n[permissions.rf.filesystem.\":workspace_roots\"]\n\".\" = \"write\"\n");
    text.push_str("\n[permissions.rf.network]\nenabled = false\n");
    // Otherwise the key of the model is in the environment of every command.
    text.push_str("\n[shell_environment_policy]\ninherit = \"core\"\n");
    // A project that is trusted brings settings of its own: servers that start, and hooks.
    let mut places = vec![root];
    places.extend((surface.workdir() != surface.root()).then(|| quoted(&surface.workdir().to_string())));
    for place in places {
        let _ = writeln!(text, "\n[projects.{place}]\ntrust_level = \"untrusted\"");
    }
    if let Some(url) = &ground.choice.base_url {
        let _ = writeln!(
            text,
            "\n[model_providers.ringfence]\nname = \"OpenAI\"\nbase_url = {}\nenv_key = \"OPENAI_API_KEY\"\nwire_api = \
             \"responses\"",
            quoted(url)
        );
    }
    text
}

/// What Codex is started with.
pub fn codex(surface: &Surface, ground: &AgentGround<'_>) -> AgentPlan {
    let places = Places::of(surface);
    let root = surface.root();
    let memory = format!(
        "{}\nThis project's own instructions, if it has any, are in {root}/AGENTS.md. Read that file before you begin.\n",
        ground.introduction(surface)
    );
    let mut config = config(surface, ground, &places);
    let mut files = vec![AgentFile { place: FilePlace::Frozen(".codex/AGENTS.md"), content: memory }];
    let arguments: &[&str] = match ground.etc {
        Etc::Shown => {
            let (place, content) = (FilePlace::Shown("/etc/codex/requirements.toml"), requirements(ground));
            files.push(AgentFile { place, content });
            // Ours is the boundary: a sandbox of its own needs namespaces, which are closed inside.
            &["--dangerously-bypass-approvals-and-sandbox"]
        }
        Etc::Host => {
            config = format!("{config}\n{}", hook(ground));
            match surface.governance() {
                Governance::Fenced => {
                    &["--dangerously-bypass-hook-trust", "--dangerously-bypass-approvals-and-sandbox"]
                }
                // There is no other sandbox then but its own.
                Governance::SelfGoverning(_) => &["--dangerously-bypass-hook-trust"],
            }
        }
    };
    files.push(AgentFile { place: FilePlace::Frozen(".codex/config.toml"), content: config });
    AgentPlan {
        arguments: arguments.iter().map(|word| (*word).to_owned()).collect(),
        variables: vec![("CODEX_HOME", ground.home.join(".codex").as_bytes().to_vec())],
        files,
        remembered: vec![(".codex/sessions", "sessions")],
        unsaid: places.unsaid,
    }
}
