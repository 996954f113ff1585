//! The agent's client of a session: its command line, and what it is started with.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::Path;

use ringfence_plan::{AgentFile, AgentGround, ClientUser, Etc, FilePlace, Rung, agent};
use ringfence_session::agent::Furnishing;
use ringfence_session::store::Session;
use ringfence_surface::policy::{Credentials, EnvName, Mode};
use ringfence_surface::{AbsPath, AgentChoice, Client, Effect, Outcome, Role, Rule, Shown, Source, Surface};

use super::sign_in;
use crate::cli::RunArgs;
use crate::error::Failure;
use crate::load::Here;

/// What is to be started.
pub(super) struct Start {
    /// The command line.
    pub(super) command: Vec<OsString>,
    /// What its client finds, where it is one that is known.
    pub(super) furnishing: Option<Furnishing>,
    /// What the user should know.
    pub(super) said: Vec<String>,
}

/// How Codex is told that others hold it.
const BYPASS: &str = "--dangerously-bypass-approvals-and-sandbox";

/// Arguments of Claude Code after which no hook runs.
const WITHOUT_HOOKS: [&str; 2] = ["--bare", "--safe-mode"];

/// Variables that switch a client's hooks off, or lead it to other settings. None passes by itself; nobody may name one.
const SWITCHES: [&str; 8] = [
    "CLAUDE_CODE_MANAGED_SETTINGS_PATH",
    "CLAUDE_CODE_SAFE_MODE",
    "CLAUDE_CODE_SIMPLE",
    "CLAUDE_CONFIG_DIR",
    "GEMINI_CLI_SYSTEM_SETTINGS_PATH",
    "GEMINI_CLI_TRUSTED_FOLDERS_PATH",
    "GEMINI_CLI_TRUST_WORKSPACE",
    "GEMINI_CLI_USER_SETTINGS",
];

pub(super) fn client(args: &RunArgs, here: &Here, session: &Session, rung: Rung) -> Result<Start, Failure> {
    let command = args.command.clone();
    let Some(choice) = &here.resolved.agent else { return Ok(Start { command, furnishing: None, said: Vec::new() }) };
    let asked = if command.is_empty() { choice.command.iter().map(OsString::from).collect() } else { command };
    let Some(client) = choice.client else { return Ok(Start { command: asked, furnishing: None, said: Vec::new() }) };
    if let Some(name) =
        SWITCHES.iter().find(|name| here.resolved.surface.decide_variable(name.as_bytes()) != Outcome::Deny)
    {
        return Err(Failure::WithoutHooks { flag: format!("--env {name}") });
    }
    let (sign_in, mut said) = sign_in::copy(client, choice, &here.resolved.surface);
    let key_end = key_end(client, here);
    said.extend(nothing_to_sign_in_with(client, choice, key_end.is_some()));
    let (home, ringfence) = (session.dir().join("home"), session.dir().join("given/ringfence"));
    let history = history(&here.resolved.surface);
    let hook_name = format!("rf-{}", random()?);
    let ground = AgentGround {
        choice,
        home: &home,
        history: history.as_ref(),
        ringfence: &ringfence,
        hook_name: &hook_name,
        etc: if rung.has_view() { Etc::Shown } else { Etc::Host },
        user: if works_as_root(args) { ClientUser::Root } else { ClientUser::Ordinary },
        key_end: key_end.as_deref(),
        asks: args.ask.map(|wait| wait.as_secs()),
    };
    let plan = agent(&here.resolved.surface, client, &ground);
    said.push(in_words(choice));
    said.extend(plan.files.iter().filter_map(hidden_file));
    if !plan.unsaid.is_empty() {
        said.push(format!(
            "ringfence: {} paths are no text, and the client's settings leave them out",
            plan.unsaid.len()
        ));
    }
    let command = with_arguments(asked, choice, client, &plan.arguments)?;
    Ok(Start { command, furnishing: Some(Furnishing { plan, history, sign_in }), said })
}

/// The command with the client's own arguments, where it is the client. Any other program finds the same files and variables.
fn with_arguments(
    mut command: Vec<OsString>,
    choice: &AgentChoice,
    client: Client,
    arguments: &[String],
) -> Result<Vec<OsString>, Failure> {
    let word = command.first().cloned().unwrap_or_default();
    let is_chosen = choice.command.first().is_some_and(|chosen| word == chosen.as_str());
    let is_client = is_chosen || Path::new(&word).file_name() == Some(OsStr::new(client.word()));
    if !is_client {
        return Ok(command);
    }
    if let Some(flag) =
        command.iter().find(|word| client == Client::Claude && WITHOUT_HOOKS.iter().any(|no| word == no))
    {
        return Err(Failure::WithoutHooks { flag: Shown(flag.as_bytes()).to_string() });
    }
    match &choice.program {
        Some(program) if is_chosen => command[0] = OsString::from_vec(program.as_bytes().to_vec()),
        None if is_chosen => {
            let program = Shown(word.as_bytes()).to_string();
            return Err(Failure::NoAgent { program, agent: client.word() });
        }
        _ => {}
    }
    // A client may refuse to be told twice; only switches without a value stand alone.
    let is_new = |argument: &&String| *argument != BYPASS || !command.iter().any(|word| word == BYPASS);
    let new: Vec<OsString> = arguments.iter().filter(is_new).map(OsString::from).collect();
    command.splice(1..1, new);
    Ok(command)
}

/// A file of the administrator's for this client, which ours stands in front of.
fn hidden_file(file: &AgentFile) -> Option<String> {
    let FilePlace::Shown(path) = file.place else { return None };
    let is_there = std::fs::symlink_metadata(path).is_ok();
    is_there.then(|| format!("ringfence: {path} of this host is not seen by the client: ringfence's own stands there"))
}

/// What the user should know of the choice.
fn in_words(choice: &AgentChoice) -> String {
    let mode = match choice.mode.value {
        Mode::AcceptEdits => "accept-edits",
        Mode::Auto => "auto",
    };
    let credentials = match choice.credentials.value {
        Credentials::None => "none",
        Credentials::Inject => "inject",
        Credentials::Copy => "copy",
    };
    let reads: Vec<String> = choice.reads.iter().map(ToString::to_string).collect();
    let reads = if reads.is_empty() { String::new() } else { format!("; readable for it: {}", reads.join(", ")) };
    format!("ringfence: agent {}, mode {mode}, credentials {credentials}{reads}", choice.name)
}

/// A client without a key or a sign-in stops at its first request, and does not say where the choice is.
fn nothing_to_sign_in_with(client: Client, choice: &AgentChoice, has_key: bool) -> Option<String> {
    let provider = client.provider();
    let has_own = choice.base_url.is_some() || choice.credentials.value != Credentials::None;
    (!has_key && !has_own).then(|| {
        format!(
            "ringfence: {} has nothing to sign in with inside: set `[agent.{}] credentials = \"copy\"` or \"inject\", or pass \
             a key with `--env {}`",
            client.word(),
            client.word(),
            provider.keys[0],
        )
    })
}

/// The end of the key that the client will find, by which it recognises one that was approved.
fn key_end(client: Client, here: &Here) -> Option<String> {
    const END: usize = 20;
    let name = client.provider().keys[0];
    let surface = &here.resolved.surface;
    if surface.reach().inject.iter().any(|entry| Some(&entry.value.variable) == EnvName::new(name).as_ref()) {
        return Some("ringfence-injected".to_owned());
    }
    if surface.decide_variable(name.as_bytes()) == Outcome::Deny {
        return None;
    }
    let value = std::env::var(name).ok().filter(|value| !value.is_empty())?;
    let start = value.char_indices().rev().nth(END - 1).map_or(0, |(at, _)| at);
    Some(value[start..].to_owned())
}

/// Where what the agent remembers is kept.
fn history(surface: &Surface) -> Option<AbsPath> {
    let is_ours =
        |rule: &&Rule| rule.effect == Effect::Write(Role::Cache) && rule.source == Source::Flag { name: "--agent" };
    surface.allowed_writes().find(is_ours)?.pattern.as_path().cloned()
}

/// Is whoever works inside user 0? Root hands its work to somebody else, unless it is that of a namespace.
fn works_as_root(args: &RunArgs) -> bool {
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    let is_real = map.split_whitespace().eq(["0", "0", "4294967295"]);
    rustix::process::geteuid().is_root() && !is_real && args.user.is_none()
}

/// A name that nobody can guess.
fn random() -> Result<String, Failure> {
    use std::io::Read as _;
    let path = Path::new("/dev/urandom");
    let mut bytes = [0; 8];
    let read = std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut bytes));
    read.map_err(|source| Failure::Read { path: path.into(), source })?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use ringfence_surface::policy::{Credentials, SurfaceMode};
    use ringfence_surface::{ContainerChoice, Sourced};

    use super::*;

    fn choice() -> AgentChoice {
        let source = Source::Call;
        AgentChoice {
            name: "claude".into(),
            client: Some(Client::Claude),
            command: vec!["claude".into()],
            mode: Sourced { value: Mode::AcceptEdits, source: source.clone() },
            credentials: Sourced { value: Credentials::None, source: source.clone() },
            program: AbsPath::lexical(b"/opt/c/claude").ok(),
            reads: Vec::new(),
            base_url: None,
            container: ContainerChoice {
                image: None,
                mounts: Vec::new(),
                surface_mode: Sourced { value: SurfaceMode::Additive, source },
            },
        }
    }

    fn words(line: &str) -> Vec<OsString> {
        line.split(' ').map(OsString::from).collect()
    }

    #[test]
    fn arguments_go_before_the_users_own() {
        for (line, expected) in [
            ("claude -p hi", "/opt/c/claude --x -p hi"),
            ("/usr/bin/claude -p hi", "/usr/bin/claude --x -p hi"),
            ("bash -c claude", "bash -c claude"),
        ] {
            let found = with_arguments(words(line), &choice(), Client::Claude, &["--x".to_owned()]);
            assert_eq!(found.ok(), Some(words(expected)), "{line}");
        }
    }

    #[test]
    fn what_switches_hooks_off_is_refused() {
        for line in ["claude --bare", "claude -p hi --safe-mode"] {
            let found = with_arguments(words(line), &choice(), Client::Claude, &[]);
            assert!(matches!(found, Err(Failure::WithoutHooks { .. })), "{line}");
        }
        let missing = AgentChoice { program: None, ..choice() };
        let found = with_arguments(words("claude"), &missing, Client::Claude, &[]);
        assert!(matches!(found, Err(Failure::NoAgent { .. })));
    }
}
