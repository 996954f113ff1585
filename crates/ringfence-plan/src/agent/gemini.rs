//! Gemini CLI, started from its own settings.
//!
//! It drops every hook in a folder that is not trusted. Trusted by a variable, a project's settings could switch hooks off by
//! name; with the flag they are not read at all. The name of ours is random besides.

use ringfence_surface::policy::{Credentials, Mode};
use ringfence_surface::{AbsPath, Client, Surface};

use super::{AgentFile, AgentGround, AgentPlan, FilePlace, NETWORK_PROGRAMS, Places};
use crate::json::{Json, quoted};

fn settings(ground: &AgentGround<'_>, places: &Places) -> Json {
    let hook = Json::map([
        ("type", Json::text("command")),
        ("name", Json::text(ground.hook_name)),
        ("command", Json::text(ground.hook(Client::Gemini))),
        // In milliseconds.
        ("timeout", Json::Number(ground.hook_seconds() * 1000)),
    ]);
    let entry = Json::map([("matcher", Json::text("*")), ("hooks", Json::List(vec![hook]))]);
    let mut fields = vec![
        ("hooksConfig".to_owned(), Json::map([("enabled", Json::Bool(true))])),
        ("hooks".to_owned(), Json::map([("BeforeTool", Json::List(vec![entry]))])),
        ("context".to_owned(), Json::map([("includeDirectories", Json::texts(&places.writes))])),
        ("tools".to_owned(), Json::map([("sandbox", Json::Bool(false))])),
        ("privacy".to_owned(), Json::map([("usageStatisticsEnabled", Json::Bool(false))])),
        ("telemetry".to_owned(), Json::map([("enabled", Json::Bool(false))])),
        ("general".to_owned(), Json::map([("enableAutoUpdate", Json::Bool(false))])),
    ];
    let auth = match (ground.key_end.is_some(), ground.choice.credentials.value) {
        (true, _) | (_, Credentials::Inject) => Some("gemini-api-key"),
        (_, Credentials::Copy) => Some("oauth-personal"),
        (_, Credentials::None) => None,
    };
    if let Some(kind) = auth {
        let selected = Json::map([("selectedType", Json::text(kind))]);
        fields.push(("security".to_owned(), Json::map([("auth", selected)])));
    }
    Json::Map(fields)
}

/// Rules for its own policy engine. Where edits are accepted and nobody is there to be asked, the client takes the shell away
/// altogether; ours is the hook that decides about each command, so the shell stays. To name programs in its settings
/// (`tools.exclude`) has no effect any more.
fn rules() -> String {
    let programs = NETWORK_PROGRAMS.map(quoted).join(", ");
    format!(
        "[[rule]]\ntoolName = \"run_shell_command\"\ncommandPrefix = [{programs}]\ndecision = \"deny\"\npriority = \
         900\ndenyMessage = \"ringfence: only listed hosts are reached\"\n\n[[rule]]\ntoolName = \
         \"run_shell_command\"\ndecision = \"allow\"\npriority = 100\n"
    )
}

/// What Gemini CLI is started with.
pub fn gemini(surface: &Surface, ground: &AgentGround<'_>) -> AgentPlan {
    let mut places = Places::of(surface);
    // It looks through every directory that it is given, and goes on from what it finds: only the project's own are of use.
    let is_work = |path: &String| {
        let is = |place: &AbsPath| place.to_string() == *path;
        // Where it starts it is already; named once more, it asks whether that is to be trusted.
        surface.roots().any(is) && !is(surface.root()) && !is(surface.workdir())
    };
    places.writes.retain(is_work);
    let mode = match ground.mode() {
        Mode::AcceptEdits => "auto_edit",
        Mode::Auto => "yolo",
    };
    let mut variables = vec![("GEMINI_CLI_HOME", ground.home.as_bytes().to_vec())];
    if let Some(url) = &ground.choice.base_url {
        variables.push(("GOOGLE_GEMINI_BASE_URL", url.clone().into_bytes()));
    }
    let content = settings(ground, &places).to_string() + "\n";
    let mut files = vec![
        AgentFile { place: FilePlace::Frozen(".gemini/settings.json"), content },
        AgentFile { place: FilePlace::Frozen(".gemini/GEMINI.md"), content: ground.introduction(surface) },
    ];
    // Never what it starts in or something above: a trusted project brings settings of its own.
    let workdir = surface.workdir().to_string();
    let beside = |path: &&String| !workdir.starts_with(&format!("{}/", path.trim_end_matches('/')));
    let trusted: Vec<_> =
        places.writes.iter().filter(beside).map(|path| (path.clone(), Json::text("TRUST_FOLDER"))).collect();
    if !trusted.is_empty() {
        let content = Json::Map(trusted).to_string() + "\n";
        files.push(AgentFile { place: FilePlace::Frozen(".gemini/trustedFolders.json"), content });
    }
    if ground.mode() == Mode::AcceptEdits {
        files.push(AgentFile { place: FilePlace::Frozen(".gemini/policies/ringfence.toml"), content: rules() });
    }
    AgentPlan {
        arguments: ["--skip-trust", "--approval-mode", mode].map(str::to_owned).into(),
        variables,
        files,
        remembered: vec![(".gemini/tmp", "tmp"), (".gemini/history", "history")],
        unsaid: places.unsaid,
    }
}
