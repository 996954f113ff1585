//! Gemini CLI, started from its own settings.
//!
//! It drops every hook in a folder that is not trusted. Trusted by a variable, a project's settings could switch hooks off by
//! name; with the flag they are not read at all. The name of ours is random besides.

use ringfence_surface::policy::{Credentials, Mode};
use ringfence_surface::{Client, Surface};

use super::{AgentFile, AgentGround, AgentPlan, FilePlace, HOOK_SECONDS, NETWORK_PROGRAMS, Places};
use crate::json::Json;

fn settings(ground: &AgentGround<'_>, places: &Places) -> Json {
    let hook = Json::map([
        ("type", Json::text("command")),
        ("name", Json::text(ground.hook_name)),
        ("command", Json::text(ground.hook(Client::Gemini))),
        // In milliseconds.
        ("timeout", Json::Number(HOOK_SECONDS * 1000)),
    ]);
    let entry = Json::map([("matcher", Json::text("*")), ("hooks", Json::List(vec![hook]))]);
    let programs = NETWORK_PROGRAMS.iter().filter(|_| ground.mode() == Mode::AcceptEdits);
    let exclude = programs.map(|program| format!("run_shell_command({program})"));
    let mut fields = vec![
        ("hooksConfig".to_owned(), Json::map([("enabled", Json::Bool(true))])),
        ("hooks".to_owned(), Json::map([("BeforeTool", Json::List(vec![entry]))])),
        ("context".to_owned(), Json::map([("includeDirectories", Json::texts(&places.writes))])),
        ("tools".to_owned(), Json::map([("sandbox", Json::Bool(false)), ("exclude", Json::texts(exclude))])),
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

/// What Gemini CLI is started with.
pub fn gemini(surface: &Surface, ground: &AgentGround<'_>) -> AgentPlan {
    let mut places = Places::of(surface);
    // It looks through every directory that it is given, and goes on from what it finds: only the project's own are of use.
    let is_work = |path: &String| surface.roots().any(|root| root.to_string() == *path);
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
    AgentPlan {
        arguments: ["--skip-trust", "--approval-mode", mode].map(str::to_owned).into(),
        variables,
        files: vec![
            AgentFile { place: FilePlace::Frozen(".gemini/settings.json"), content },
            AgentFile { place: FilePlace::Frozen(".gemini/GEMINI.md"), content: ground.introduction(surface) },
        ],
        remembered: vec![(".gemini/tmp", "tmp"), (".gemini/history", "history")],
        unsaid: places.unsaid,
    }
}
