//! `ringfence render`: prints what one layer is made of, without a session.

#[cfg(target_os = "linux")]
mod container;
#[cfg(target_os = "linux")]
mod kubernetes;

use std::path::Path;
use std::process::ExitCode;

use ringfence_plan::{
    AgentGround, AgentPlan, ClientUser, Engine, Etc, FilePlace, HOOK_SECONDS, Profile, agent, apparmor, chroot, env,
    preamble, selinux,
};
use ringfence_surface::policy::Mode;
use ringfence_surface::{AbsPath, Client, Resolved, Shown, Source, Sourced};

#[cfg(not(target_os = "linux"))]
use super::elsewhere::{container, kubernetes};
use crate::cli::{ModeArg, RenderArgs, RenderLayer};
use crate::error::{Failure, RenderFailure, RootFailure};
use crate::load::Loader;
use crate::out::{self, say};
use crate::tell::{self, Detail};

/// Stands for a session that there is not.
const SESSION: &str = "sessions/SESSION";

pub(crate) fn run(args: &RenderArgs, managed: &Path) -> Result<ExitCode, Failure> {
    let mut policy = args.policy.clone();
    let named = client_of(args.layer);
    if let Some(client) = named {
        policy.agent = Some(client.word().to_owned());
    }
    let tree = match (args.layer, &args.root) {
        (RenderLayer::Chroot, Some(name)) => Some(tree(name)?),
        (RenderLayer::Chroot, None) | (_, Some(_)) => return Err(Failure::Root { source: RootFailure::Alone }),
        (_, None) => None,
    };
    let is_pod = args.layer == RenderLayer::Kubernetes;
    if let Some(option) = args.kubernetes.first().filter(|_| !is_pod) {
        return Err(Failure::Render { source: RenderFailure::OnlyWith { option, layer: "kubernetes" } });
    }
    if is_pod && args.no_surface {
        let (option, layer) = ("--no-surface", "docker` and `podman");
        return Err(Failure::Render { source: RenderFailure::OnlyWith { option, layer } });
    }
    if args.json && !is_pod && engine_of(args.layer).is_none() {
        let (option, layer) = ("--json", "docker`, `podman` and `kubernetes");
        return Err(Failure::Render { source: RenderFailure::OnlyWith { option, layer } });
    }
    let loader = Loader::new(managed)?;
    let state = loader.facts().own_directories().state.ok_or(Failure::NoHome)?;
    let is_contained = engine_of(args.layer).is_some();
    // A session's own places are part of a container.
    let loader = if is_contained { loader.in_session(&state.join(SESSION)) } else { loader };
    let mut here = loader.resolve(&policy)?;
    tell::resolved(&here.resolved, Detail::Short);
    override_mode(&mut here.resolved, args.mode);
    if let Some(engine) = engine_of(args.layer) {
        return container::run(args, here, engine, &state.join(SESSION));
    }
    if is_pod {
        return kubernetes::run(args, here);
    }
    let text = match (args.layer, named) {
        (_, Some(client)) => words(&planned(&here.resolved, client, &state)),
        (RenderLayer::Hook, _) => Client::ALL.map(|client| hook_line(client, &state)).concat(),
        (RenderLayer::Apparmor, _) => profile(apparmor(&here.resolved.surface, PROFILE)),
        (RenderLayer::Selinux, _) => profile(selinux(&here.resolved.surface, MODULE)),
        (RenderLayer::Chroot, _) => chroot(&here.resolved.surface, &tree.unwrap_or_else(AbsPath::root)),
        (RenderLayer::Env, _) => {
            let client = here.resolved.agent.as_ref().and_then(|choice| choice.client);
            let set = client.map_or(Vec::new(), |client| planned(&here.resolved, client, &state).variables);
            env(&here.resolved.surface, &set)
        }
        (..) => {
            let mode = here.resolved.agent.as_ref().map_or(Mode::AcceptEdits, |choice| choice.mode.value);
            preamble(&here.resolved.surface, args.mode.map_or(mode, mode_of))
        }
    };
    out::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// What the profile is called on the host, and the module.
const PROFILE: &str = "ringfence-session";
const MODULE: &str = "ringfence_session";

/// A profile's text; what it does not hold is said beside it.
fn profile(profile: Profile) -> String {
    let short = profile.shortfalls.iter().map(|short| (short.claim.to_string(), short.reason.as_str()));
    say_once("not held", short.collect());
    let withheld = profile.withheld.iter().map(|withheld| (withheld.pattern.clone(), withheld.reason));
    say_once("withheld", withheld.collect());
    profile.text
}

/// A mount of the operator's that was left out.
#[cfg(target_os = "linux")]
fn dropped_line(one: &ringfence_plan::DroppedMount) -> String {
    format!("mount {} at {} ({}): {}", one.mount.source, one.mount.destination, one.mount.written, one.why)
}

/// What a policy names and the mounts leave out.
#[cfg(target_os = "linux")]
fn skipped_line(one: &ringfence_plan::Skipped) -> String {
    format!("{} ({}): {}", one.pattern, one.source, one.why.words())
}

/// Says each reason once, with the first that it is given for: some are those of hundreds of built-in rules.
fn say_once(title: &str, lines: Vec<(String, &str)>) {
    let mut said = Vec::new();
    for (what, reason) in &lines {
        if !said.contains(reason) {
            let alike = lines.iter().filter(|(_, other)| other == reason).count() - 1;
            let more = if alike == 0 { String::new() } else { format!(" and {alike} more") };
            say(&format!("ringfence: {title}: {what}{more}: {reason}"));
            said.push(reason);
        }
    }
}

/// Where a root is, and its work is where the caller is from now on.
#[cfg(target_os = "linux")]
fn tree(name: &str) -> Result<AbsPath, Failure> {
    super::run::enter_work(name).map(|root| root.tree())
}

#[cfg(not(target_os = "linux"))]
fn tree(_name: &str) -> Result<AbsPath, Failure> {
    Err(Failure::NotLinux)
}

/// The mode that the command line asks for stands in the place of any file's.
pub(crate) fn override_mode(resolved: &mut Resolved, asked: Option<ModeArg>) {
    if let (Some(choice), Some(asked)) = (&mut resolved.agent, asked) {
        choice.mode = Sourced { value: mode_of(asked), source: Source::Flag { name: "--mode" } };
    }
}

fn mode_of(asked: ModeArg) -> Mode {
    match asked {
        ModeArg::AcceptEdits => Mode::AcceptEdits,
        ModeArg::Auto => Mode::Auto,
    }
}

fn engine_of(layer: RenderLayer) -> Option<Engine> {
    match layer {
        RenderLayer::Docker => Some(Engine::Docker),
        RenderLayer::Podman => Some(Engine::Podman),
        _ => None,
    }
}

fn client_of(layer: RenderLayer) -> Option<Client> {
    match layer {
        RenderLayer::Claude => Some(Client::Claude),
        RenderLayer::Gemini => Some(Client::Gemini),
        RenderLayer::Codex => Some(Client::Codex),
        RenderLayer::Preamble
        | RenderLayer::Hook
        | RenderLayer::Env
        | RenderLayer::Apparmor
        | RenderLayer::Selinux
        | RenderLayer::Chroot
        | RenderLayer::Docker
        | RenderLayer::Podman
        | RenderLayer::Kubernetes => None,
    }
}

/// Where a session would find our own program.
fn program(state: &AbsPath) -> AbsPath {
    state.join(SESSION).join("given/ringfence")
}

fn planned(resolved: &Resolved, client: Client, state: &AbsPath) -> AgentPlan {
    let (home, ringfence) = (state.join(SESSION).join("home"), program(state));
    // `--agent` was given, so there is a choice.
    let Some(choice) = &resolved.agent else {
        return AgentPlan {
            arguments: Vec::new(),
            variables: Vec::new(),
            files: Vec::new(),
            remembered: Vec::new(),
            unsaid: Vec::new(),
        };
    };
    let ground = AgentGround {
        choice,
        home: &home,
        history: None,
        ringfence: &ringfence,
        hook_name: "rf-RANDOM",
        etc: Etc::Shown,
        user: ClientUser::Ordinary,
        key_end: None,
        asks: None,
    };
    agent(&resolved.surface, client, &ground)
}

fn hook_line(client: Client, state: &AbsPath) -> String {
    let event = match client {
        Client::Claude => "PreToolUse, PermissionRequest",
        Client::Codex => "PreToolUse",
        Client::Gemini => "BeforeTool",
    };
    let program = program(state);
    format!("{}: {event} of every tool, within {HOOK_SECONDS} s: {program} hook {}\n", client.word(), client.word())
}

fn words(plan: &AgentPlan) -> String {
    let mut text = format!("# arguments\n{}\n", plan.arguments.join(" "));
    text.push_str("\n# variables\n");
    for (name, value) in &plan.variables {
        text.push_str(&format!("{name}={}\n", Shown(value)));
    }
    for file in &plan.files {
        let place = match &file.place {
            FilePlace::Home(path) => format!("~/{path}, which the client may change"),
            FilePlace::Frozen(path) => format!("~/{path}, read-only"),
            FilePlace::Shown(path) => format!("{path}, read-only"),
            FilePlace::Given(name) => format!("given/{name}, read-only"),
        };
        text.push_str(&format!("\n# {place}\n{}", file.content));
    }
    text
}
