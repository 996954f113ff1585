//! Claude Code, started from its own settings.
//!
//! Settings that an administrator would write are read from `/etc/claude-code`, whoever owns them, and nothing switches them
//! off; so that is where ours are. Where no view can show them there they are named by a flag, and the sources that a
//! repository or the agent could write are left out.

use ringfence_surface::policy::Mode;
use ringfence_surface::{Client, Surface};

use super::{AgentFile, AgentGround, AgentPlan, ClientUser, Etc, FilePlace, NETWORK_PROGRAMS, Places};
use crate::json::Json;

/// What a client of the user's would ask at its first start, answered.
fn state(ground: &AgentGround<'_>, root: &str) -> Json {
    let project = Json::map([
        ("hasTrustDialogAccepted", Json::Bool(true)),
        ("hasCompletedProjectOnboarding", Json::Bool(true)),
        ("hasClaudeMdExternalIncludesApproved", Json::Bool(false)),
        ("hasClaudeMdExternalIncludesWarningShown", Json::Bool(true)),
    ]);
    let mut fields = vec![
        ("hasCompletedOnboarding".to_owned(), Json::Bool(true)),
        ("bypassPermissionsModeAccepted".to_owned(), Json::Bool(true)),
        ("autoUpdates".to_owned(), Json::Bool(false)),
        ("projects".to_owned(), Json::Map(vec![(root.to_owned(), project)])),
    ];
    if let Some(end) = ground.key_end {
        let approved = Json::map([("approved", Json::texts([end])), ("rejected", Json::List(Vec::new()))]);
        fields.push(("customApiKeyResponses".to_owned(), approved));
    }
    Json::Map(fields)
}

/// The settings of a session.
fn settings(ground: &AgentGround<'_>, places: &Places) -> Json {
    // A path is absolute behind two slashes; behind one it matches nothing. `Write(..)` and `Glob(..)` never match.
    let below = |tool: &str, path: &String| [format!("{tool}(/{path})"), format!("{tool}(/{path}/**)")];
    let reads = places.denied.iter().flat_map(|path| [below("Read", path), below("Edit", path)].concat());
    let edits = places.protected.iter().flat_map(|path| below("Edit", path));
    let programs = NETWORK_PROGRAMS.iter().filter(|_| ground.mode() == Mode::AcceptEdits);
    let deny: Vec<String> = reads.chain(edits).chain(programs.map(|program| format!("Bash({program}:*)"))).collect();
    let command = |line: String| {
        Json::map([
            ("type", Json::text("command")),
            ("command", Json::text(line)),
            ("timeout", Json::Number(ground.hook_seconds())),
            ("onFailure", Json::text("block")),
        ])
    };
    let all_tools = || {
        let hooks = Json::List(vec![command(ground.hook(Client::Claude))]);
        Json::List(vec![Json::map([("matcher", Json::text("*")), ("hooks", hooks)])])
    };
    let status = format!("{} statusline", super::shell_word(ground.ringfence));
    Json::map([
        (
            "permissions",
            Json::map([
                ("blockReadsOutsideWorkingDirectories", Json::Bool(true)),
                ("blockWritesOutsideWorkingDirectories", Json::Bool(true)),
                ("additionalDirectories", Json::texts(&places.writes)),
                ("blockReadsExemptPaths", Json::texts(&places.reads)),
                ("deny", Json::texts(deny)),
            ]),
        ),
        ("hooks", Json::map([("PreToolUse", all_tools()), ("PermissionRequest", all_tools())])),
        ("disableAllHooks", Json::Bool(false)),
        ("allowManagedHooksOnly", Json::Bool(true)),
        ("enableAllProjectMcpServers", Json::Bool(false)),
        ("sandbox", Json::map([("enabled", Json::Bool(false))])),
        ("statusLine", Json::map([("type", Json::text("command")), ("command", Json::text(status))])),
    ])
}

/// What Claude Code is started with.
pub fn claude(surface: &Surface, ground: &AgentGround<'_>) -> AgentPlan {
    let places = Places::of(surface);
    let settings = settings(ground, &places).to_string() + "\n";
    // The repository's own settings may run programs, switch hooks off and send prompts elsewhere: they are no source.
    let mut arguments = vec!["--setting-sources".to_owned(), "user".to_owned(), "--strict-mcp-config".to_owned()];
    let place = match ground.etc {
        Etc::Shown => FilePlace::Shown("/etc/claude-code/managed-settings.json"),
        Etc::Host => {
            let file = ground.home.parent().unwrap_or_else(|| ground.home.clone()).join("given/claude-settings.json");
            arguments.extend(["--settings".to_owned(), file.to_string()]);
            FilePlace::Given("claude-settings.json")
        }
    };
    let mode = match ground.mode() {
        Mode::AcceptEdits => "acceptEdits",
        Mode::Auto => "bypassPermissions",
    };
    arguments.extend(["--permission-mode".to_owned(), mode.to_owned()]);
    let root = surface.root().to_string();
    // What the repository says to its agents is read from here, since its settings are not.
    let memory = format!("{}\n@{}/CLAUDE.md\n", ground.introduction(surface), root.replace(' ', "\\ "));
    let files = vec![
        AgentFile { place, content: settings },
        AgentFile { place: FilePlace::Frozen(".claude/CLAUDE.md"), content: memory },
        AgentFile { place: FilePlace::Frozen(".claude/settings.json"), content: "{}\n".to_owned() },
        AgentFile { place: FilePlace::Home(".claude.json"), content: state(ground, &root).to_string() + "\n" },
    ];
    let mut variables =
        vec![("DISABLE_AUTOUPDATER", b"1".to_vec()), ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", b"1".to_vec())];
    if ground.mode() == Mode::Auto && ground.user == ClientUser::Root {
        // Without it the client refuses this mode to user 0, also to that of a namespace.
        variables.push(("IS_SANDBOX", b"1".to_vec()));
    }
    if let Some(url) = &ground.choice.base_url {
        variables.push(("ANTHROPIC_BASE_URL", url.clone().into_bytes()));
    }
    AgentPlan { arguments, variables, files, remembered: vec![(".claude/projects", "projects")], unsaid: places.unsaid }
}
