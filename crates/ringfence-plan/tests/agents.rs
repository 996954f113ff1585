//! What each client is started with, and what a model is told, as text that is kept. `RINGFENCE_BLESS=1` accepts a difference.

#![expect(clippy::disallowed_methods, reason = "the crate may not look at the disk, its test data lies there")]

use std::collections::BTreeMap;
use std::path::Path;

use ringfence_plan::{AgentGround, AgentPlan, ClientUser, Etc, FilePlace, agent, env, preamble};
use ringfence_surface::policy::{Mode, PolicyFile};
use ringfence_surface::text::PolicyText;
use ringfence_surface::{
    AbsPath, Client, HostFacts, Inputs, Layer, Level, PathFact, Request, Resolved, Trust, Via, resolve,
};

fn abs(text: &str) -> AbsPath {
    AbsPath::lexical(text.as_bytes()).expect("test data is right")
}

const POLICY: &str = r#"version = 1
[files]
write = [".", "../shared"]
read = ["../docs"]
deny = ["secret", "**/*.key"]
protect = ["infra"]
[network]
allow = ["api.example.com:443"]
host_ports = [5432]
"#;

fn resolved(client: Client, more: &str, environment: &[(&str, &str)]) -> Resolved {
    let path = "/home/u/proj/ringfence.toml";
    let text = PolicyText::new(path.as_bytes(), format!("{POLICY}{more}").into_bytes()).expect("test data is right");
    let file = PolicyFile::parse(&text).unwrap_or_else(|said| panic!("{said:?}"));
    let dirs = "/home /home/u /home/u/proj /home/u/docs /home/u/shared /home/u/npm/bin /usr /etc /opt";
    let mut paths: BTreeMap<AbsPath, PathFact> =
        dirs.split_whitespace().map(|dir| (abs(dir), PathFact::Directory)).collect();
    for dir in ["", "/bin", "/lib", "/lib/node_modules", "/lib/node_modules/c"] {
        paths.insert(abs(&format!("/home/u/npm{dir}")), PathFact::Directory);
    }
    let program = format!("/home/u/npm/bin/{}", client.word());
    paths.insert(abs(&program), PathFact::Link(b"../lib/node_modules/c/main.js".to_vec()));
    paths.insert(abs("/home/u/npm/lib/node_modules/c/main.js"), PathFact::File);
    paths.insert(abs(path), PathFact::File);
    let mut variables = BTreeMap::from([
        (b"HOME".to_vec(), b"/home/u".to_vec()),
        (b"PATH".to_vec(), b"/usr/bin:/home/u/npm/bin".to_vec()),
    ]);
    variables.extend(environment.iter().map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec())));
    let facts = HostFacts {
        environment: variables,
        cwd: abs("/home/u/proj"),
        homes: vec![abs("/home/u")],
        paths,
        git: BTreeMap::new(),
        git_runs: BTreeMap::new(),
        mounts: Vec::new(),
        kernel: "6.18".into(),
        session: Some(abs("/home/u/.local/state/ringfence/sessions/1")),
    };
    let level = Level::Project(Trust::Trusted);
    let agent = Some(client.word().to_owned());
    let request = Request {
        persona: None,
        task: None,
        agent,
        references: Vec::new(),
        writes: Vec::new(),
        env: Vec::new(),
        worktree: None,
    };
    let inputs = Inputs { layers: vec![Layer { level, via: Via::Itself, file, text, path: abs(path) }], request };
    resolve(&inputs, &facts, &mut &facts).unwrap_or_else(|said| panic!("{said:?}"))
}

fn planned(resolved: &Resolved, client: Client, etc: Etc, user: ClientUser) -> AgentPlan {
    planned_asking(resolved, client, (etc, user), None)
}

fn planned_asking(resolved: &Resolved, client: Client, (etc, user): (Etc, ClientUser), asks: Option<u64>) -> AgentPlan {
    let choice = resolved.agent.as_ref().expect("test data is right");
    let session = abs("/home/u/.local/state/ringfence/sessions/1");
    let (home, ringfence) = (session.join("home"), session.join("given/ringfence"));
    let history = abs("/home/u/.cache/ringfence/projects/p/agents/x");
    let ground = AgentGround {
        choice,
        home: &home,
        history: Some(&history),
        ringfence: &ringfence,
        hook_name: "rf-0123456789abcdef",
        etc,
        user,
        key_end: None,
        asks,
    };
    agent(&resolved.surface, client, &ground)
}

fn shown(plan: &AgentPlan) -> String {
    let mut text = format!("arguments: {}\n", plan.arguments.join(" "));
    for (name, value) in &plan.variables {
        text += &format!("{name}={}\n", std::str::from_utf8(value).expect("test data is right"));
    }
    for (from, to) in &plan.remembered {
        text += &format!("remembered: ~/{from} as {to}\n");
    }
    for file in &plan.files {
        let place = match &file.place {
            FilePlace::Home(path) => format!("~/{path}"),
            FilePlace::Frozen(path) => format!("~/{path} (read-only)"),
            FilePlace::Shown(path) => format!("{path} (read-only)"),
            FilePlace::Given(name) => format!("given/{name} (read-only)"),
        };
        text += &format!("--- {place}\n{}", file.content);
    }
    text
}

#[track_caller]
fn golden(name: &str, found: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/goldens").join(name);
    if std::env::var_os("RINGFENCE_BLESS").is_some() {
        std::fs::write(&path, found).expect("test data is right");
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(found, kept, "{name} differs; RINGFENCE_BLESS=1 accepts it");
}

/// G4: the Surface is written out for the model.
#[test]
fn g4_the_model_is_told_what_it_may_touch() {
    let resolved = resolved(Client::Claude, "", &[]);
    golden("preamble.txt", &preamble(&resolved.surface, Mode::AcceptEdits));
    let auto = preamble(&resolved.surface, Mode::Auto);
    assert!(auto.contains("Mode auto"));
    assert!(auto.len() < 2500, "{} bytes are read with every request", auto.len());
}

/// A2, A5: settings with the keys that Claude Code honours; network programs are denied to its shell, as advice.
#[test]
fn a2_a5_claude_settings() {
    let resolved = resolved(Client::Claude, "", &[]);
    let plan = planned(&resolved, Client::Claude, Etc::Shown, ClientUser::Ordinary);
    golden("claude.txt", &shown(&plan));
    assert!(plan.files[0].content.contains("Bash(curl:*)"));
    for never in ["allowedDirectories", "blockedDirectories", "(/home"] {
        assert!(!plan.files[0].content.contains(never), "{never} means nothing to the client");
    }
}

/// A3, A5: the same for Gemini CLI.
#[test]
fn a3_a5_gemini_settings() {
    let resolved = resolved(Client::Gemini, "", &[]);
    golden("gemini.txt", &shown(&planned(&resolved, Client::Gemini, Etc::Shown, ClientUser::Ordinary)));
}

/// A3, A5: the same for Codex.
#[test]
fn a3_a5_codex_settings() {
    let resolved = resolved(Client::Codex, "", &[]);
    golden("codex.txt", &shown(&planned(&resolved, Client::Codex, Etc::Shown, ClientUser::Ordinary)));
}

/// Where `/etc` is the host's, no file can be shown there: the hooks are found by other ways.
#[test]
fn without_a_view_the_hooks_are_named_by_flags() {
    for client in Client::ALL {
        let plan = planned(&resolved(client, "", &[]), client, Etc::Host, ClientUser::Ordinary);
        assert!(!plan.files.iter().any(|file| matches!(file.place, FilePlace::Shown(_))), "{client:?}");
        let hook = format!("given/ringfence hook {}", client.word());
        assert!(plan.files.iter().any(|file| file.content.contains(&hook)), "{client:?}");
    }
    let claude = planned(&resolved(Client::Claude, "", &[]), Client::Claude, Etc::Host, ClientUser::Ordinary);
    assert!(claude.arguments.contains(&"--settings".to_owned()));
    let codex = planned(&resolved(Client::Codex, "", &[]), Client::Codex, Etc::Host, ClientUser::Ordinary);
    assert!(codex.arguments.contains(&"--dangerously-bypass-hook-trust".to_owned()));
    assert!(codex.arguments.contains(&"--dangerously-bypass-approvals-and-sandbox".to_owned()));
    let governed = "[workspace]\nself_governing = true\n";
    let codex = planned(&resolved(Client::Codex, governed, &[]), Client::Codex, Etc::Host, ClientUser::Ordinary);
    assert_eq!(codex.arguments, ["--dangerously-bypass-hook-trust"], "its own sandbox is the only one left");
}

/// K1: the mode reaches the client's own; accept-edits is what holds when nobody says otherwise.
#[test]
fn k1_modes_reach_the_client() {
    for (client, more, expected) in [
        (Client::Claude, "", "--permission-mode acceptEdits"),
        (Client::Claude, "[agent.claude]\nmode = \"auto\"\n", "--permission-mode bypassPermissions"),
        (Client::Gemini, "", "--approval-mode auto_edit"),
        (Client::Gemini, "[agent.gemini]\nmode = \"auto\"\n", "--approval-mode yolo"),
    ] {
        let plan = planned(&resolved(client, more, &[]), client, Etc::Shown, ClientUser::Root);
        assert!(plan.arguments.join(" ").ends_with(expected), "{:?}", plan.arguments);
        // As user 0, and in that mode only, Claude Code must be told that somebody else is the boundary.
        let is_told = plan.variables.iter().any(|(name, _)| *name == "IS_SANDBOX");
        assert_eq!(is_told, expected.ends_with("bypassPermissions"));
        assert!(!plan.variables.iter().any(|(name, _)| *name == "CLAUDE_CODE_SIMPLE"));
    }
}

/// A key that is added on the way out: plain HTTP is spoken to the way out, for the host of the model.
#[test]
fn injected_keys_change_the_address_of_the_model() {
    for (client, variable, expected) in [
        (Client::Claude, "ANTHROPIC_BASE_URL", "http://api.anthropic.com"),
        (Client::Gemini, "GOOGLE_GEMINI_BASE_URL", "http://generativelanguage.googleapis.com"),
    ] {
        let more = format!("[agent.{}]\ncredentials = \"inject\"\n", client.word());
        let found = resolved(client, &more, &[]);
        let plan = planned(&found, client, Etc::Shown, ClientUser::Ordinary);
        assert!(plan.variables.contains(&(variable, expected.as_bytes().to_vec())), "{:?}", plan.variables);
        assert_eq!(found.surface.reach().inject.len(), 1);
    }
    let found = resolved(Client::Codex, "[agent.codex]\ncredentials = \"inject\"\n", &[]);
    let plan = planned(&found, Client::Codex, Etc::Shown, ClientUser::Ordinary);
    assert!(plan.files.iter().any(|file| file.content.contains("base_url = \"http://api.openai.com/v1\"")));
}

/// A model elsewhere, by the caller's own variable: its host is reached, and the variable passes.
#[test]
fn another_address_of_the_model_is_honoured() {
    let hosts = |found: &Resolved| -> Vec<String> {
        found.surface.reach().hosts.iter().map(|entry| entry.value.to_string()).collect()
    };
    let found = resolved(Client::Claude, "", &[("ANTHROPIC_BASE_URL", "https://gw.example.org:8443/x")]);
    assert!(hosts(&found).contains(&"gw.example.org:8443".to_owned()), "{:?}", hosts(&found));
    let passes =
        |found: &Resolved| found.surface.env().iter().any(|entry| entry.value.as_str() == "ANTHROPIC_BASE_URL");
    assert!(passes(&found));
    let found = resolved(Client::Claude, "", &[("ANTHROPIC_BASE_URL", "http://127.0.0.1:4000")]);
    assert!(found.surface.reach().host_ports.iter().any(|entry| entry.value == 4000));
    let found = resolved(Client::Claude, "", &[("ANTHROPIC_BASE_URL", "https://u:p@gw.example.org")]);
    assert!(!passes(&found) && !hosts(&found).iter().any(|host| host.contains("gw.")));
}

/// A4: the environment as a table.
#[test]
fn a4_the_environment_is_a_table() {
    let found = resolved(Client::Claude, "", &[]);
    let plan = planned(&found, Client::Claude, Etc::Shown, ClientUser::Ordinary);
    let text = env(&found.surface, &plan.variables);
    for line in ["set    HOME", "set    DISABLE_AUTOUPDATER", "pass   TERM", "never  AWS_*", "never  SSH_*"] {
        assert!(text.contains(line), "{line}\n{text}");
    }
    assert!(!text.contains("pass   ANTHROPIC_API_KEY"));
    let copied = resolved(Client::Claude, "[agent.claude]\ncredentials = \"copy\"\n", &[]);
    assert!(env(&copied.surface, &[]).contains("pass   ANTHROPIC_API_KEY"));
}

/// The client's program lies in a home that is not there inside: what belongs to it is readable, and it is said.
#[test]
fn the_program_is_readable() {
    let found = resolved(Client::Codex, "", &[]);
    let choice = found.agent.unwrap();
    assert_eq!(choice.program, Some(abs("/home/u/npm/lib/node_modules/c/main.js")));
    assert_eq!(choice.reads, [abs("/home/u/npm/lib/node_modules")]);
}

/// K12: a client waits for longer than a question does, and the hook answers before its patience ends.
#[test]
fn k12_clients_wait_for_the_user() {
    for (client, timeout) in
        [(Client::Claude, "\"timeout\": 87"), (Client::Codex, "timeout = 87"), (Client::Gemini, "\"timeout\": 87000")]
    {
        let resolved = resolved(client, "", &[]);
        let text = shown(&planned_asking(&resolved, client, (Etc::Shown, ClientUser::Ordinary), Some(60)));
        let line = format!("hook {} --timeout 87", client.word());
        for part in [timeout, &line] {
            assert!(text.contains(part) || text.contains(&part.replace("\": ", "\":")), "{client:?}: {part}: {text}");
        }
        let plain = shown(&planned(&resolved, client, Etc::Shown, ClientUser::Ordinary));
        assert!(!plain.contains("--timeout") && !plain.contains("said yes or no"), "{plain}");
    }
}
