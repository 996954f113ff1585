//! Tool calls as the real clients make them, each with its verdict.

use std::collections::BTreeMap;

use ringfence_surface::command::Git;
use ringfence_surface::policy::{Mode, PolicyFile};
use ringfence_surface::text::PolicyText;
use ringfence_surface::{
    GitFact, HostFacts, Inputs, Layer, Level, Look, PathFact, Request, Surface, Trust, Via, resolve,
};

use super::*;
use crate::rung::Rung;

fn abs(text: &str) -> AbsPath {
    AbsPath::lexical(text.as_bytes()).unwrap()
}

const POLICY: &str = r#"
    [files]
    write = [".", "/srv/out"]
    read = ["/srv/in"]
    deny = ["private"]
    protect = ["infra"]
    [network]
    allow = ["example.com", "api.example.net:8443"]
"#;

/// The Surface of a session in `/home/u/proj`.
fn surface() -> Surface {
    let path = "/home/u/proj/ringfence.toml";
    let text = PolicyText::new(path.as_bytes(), format!("version = 1\n{POLICY}").into_bytes()).unwrap();
    let file = PolicyFile::parse(&text).unwrap();
    let dirs = ["/home", "/home/u", "/home/u/proj", "/srv", "/srv/in", "/srv/out", "/usr", "/etc"];
    let paths: BTreeMap<AbsPath, PathFact> = dirs.iter().map(|dir| (abs(dir), PathFact::Directory)).collect();
    let facts = HostFacts {
        environment: [(b"HOME".to_vec(), b"/home/u".to_vec())].into(),
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
    let request = Request {
        persona: None,
        task: None,
        agent: None,
        references: Vec::new(),
        writes: Vec::new(),
        env: Vec::new(),
        worktree: None,
    };
    let inputs = Inputs { layers: vec![Layer { level, via: Via::Itself, file, text, path: abs(path) }], request };
    resolve(&inputs, &facts, &mut &facts).unwrap().surface
}

/// What stands on the host of these tests.
struct World;

impl Look for World {
    fn path(&mut self, path: &AbsPath) -> PathFact {
        let link = |to: &str| PathFact::Link(to.as_bytes().to_vec());
        match path.to_string().as_str() {
            "/home/u/proj/out" => link("/home/u/outside"),
            "/home/u/proj/loop" => link("loop"),
            "/home/u/proj/dangling" => link("/home/u/.ssh/id_new"),
            "/home/u/proj/inner" => link("src"),
            "/home/u/proj/deep" => link("src/a/b"),
            "/home/u/proj/up" => link("/home/u/proj"),
            "/home/u/proj/infra/alias" => link("../src/a.rs"),
            "/home/u/proj/me" => link("/proc/self/root"),
            "/home/u/lie" => link("/home/u/outside"),
            "/proc/self" => link("1"),
            "/proc/1/root" => link("/"),
            _ => PathFact::Directory,
        }
    }

    fn git(&mut self, _: &AbsPath) -> Option<GitFact> {
        None
    }

    fn git_runs(&mut self, _: &AbsPath, _: &AbsPath) -> Vec<ringfence_surface::GitRun> {
        Vec::new()
    }
}

fn judged(dialect: Dialect, payload: &[u8], mode: Mode) -> Result<(), Refusal> {
    let (surface, home) = (surface(), abs("/home/u/.local/state/ringfence/sessions/1/home"));
    let ground = Ground { surface: &surface, mode, rung: Rung::Native, home: &home, grants: &[], git: Git::Quiet };
    ToolCall::read(dialect, payload)?.judge(&ground, &mut World)
}

fn answer(dialect: Dialect, payload: &[u8], mode: Mode) -> String {
    judged(dialect, payload, mode).map_or_else(|refusal| refusal.kind.word().to_owned(), |()| "ok".to_owned())
}

/// A call with this tool and this input, from `/home/u/proj`.
fn call(dialect: Dialect, tool: &str, input: &str) -> String {
    let event = if dialect == Dialect::Gemini { "BeforeTool" } else { "PreToolUse" };
    format!(r#"{{"cwd":"/home/u/proj","hook_event_name":"{event}","tool_name":"{tool}","tool_input":{input}}}"#)
}

#[track_caller]
fn check(dialect: Dialect, tool: &str, input: &str, expected: &str) {
    let payload = call(dialect, tool, input);
    assert_eq!(answer(dialect, payload.as_bytes(), Mode::AcceptEdits), expected, "{payload}");
}

/// Each real payload with its verdict in accept-edits and in auto, in the order of the file.
#[track_caller]
fn check_payloads(dialect: Dialect, payloads: &str, expected: &[(&str, &str, &str)]) {
    let got: Vec<(String, String, String)> = payloads
        .lines()
        .map(|line| {
            let tool = ToolCall::read(dialect, line.as_bytes()).map_or_else(|e| e.why, |call| call.tool);
            let verdict = |mode| answer(dialect, line.as_bytes(), mode);
            (tool, verdict(Mode::AcceptEdits), verdict(Mode::Auto))
        })
        .collect();
    let got: Vec<(&str, &str, &str)> = got.iter().map(|(a, b, c)| (a.as_str(), b.as_str(), c.as_str())).collect();
    assert_eq!(got, expected, "{dialect:?}");
}

const READ: &str = "sandbox_read_blocked";
const WRITE: &str = "sandbox_write_blocked";
const RUN: &str = "sandbox_command_blocked";
const HOST: &str = "sandbox_host_blocked";
const TOOL: &str = "sandbox_tool_blocked";
const INPUT: &str = "sandbox_input_blocked";

#[test]
fn a6_claude_payloads() {
    check_payloads(
        Dialect::Claude,
        include_str!("payloads/claude.jsonl"),
        &[
            ("Read", "ok", "ok"),
            ("Read", "ok", "ok"),
            ("Write", "ok", "ok"),
            ("Edit", "ok", "ok"),
            ("Bash", "ok", "ok"),
            ("Bash", "ok", "ok"),
            ("Bash", "ok", "ok"),
            ("Bash", "ok", "ok"),
            ("Glob", "ok", "ok"),
            ("Glob", READ, READ),
            ("Grep", "ok", "ok"),
            ("Grep", READ, READ),
            ("NotebookEdit", "ok", "ok"),
            ("WebFetch", "ok", "ok"),
            ("WebSearch", "ok", "ok"),
            ("Monitor", "ok", "ok"),
            ("TaskCreate", "ok", "ok"),
            ("CronCreate", "ok", "ok"),
            ("mcp__stub__slurp", WRITE, WRITE),
            ("Agent", "ok", "ok"),
            ("EnterWorktree", WRITE, WRITE),
        ],
    );
}

#[test]
fn a6_gemini_payloads() {
    check_payloads(
        Dialect::Gemini,
        include_str!("payloads/gemini.jsonl"),
        &[
            ("read_file", "ok", "ok"),
            ("read_file", "ok", "ok"),
            ("write_file", "ok", "ok"),
            ("replace", "ok", "ok"),
            ("run_shell_command", "ok", "ok"),
            ("run_shell_command", "ok", "ok"),
            ("run_shell_command", "ok", "ok"),
            ("list_background_processes", "ok", "ok"),
            ("glob", "ok", "ok"),
            ("glob", "ok", "ok"),
            ("grep_search", "ok", "ok"),
            ("grep_search", "ok", "ok"),
            ("list_directory", "ok", "ok"),
            ("web_fetch", "ok", "ok"),
            ("google_web_search", "ok", "ok"),
            ("update_topic", "ok", "ok"),
            ("activate_skill", "ok", "ok"),
            ("mcp_stub_slurp", WRITE, WRITE),
            ("invoke_agent", "ok", "ok"),
            ("run_shell_command", "ok", "ok"),
        ],
    );
}

#[test]
fn a6_codex_payloads() {
    check_payloads(
        Dialect::Codex,
        include_str!("payloads/codex.jsonl"),
        &[
            ("Bash", "ok", "ok"),
            ("apply_patch", "ok", "ok"),
            ("view_image", "ok", "ok"),
            ("mcp__stub__slurp", WRITE, WRITE),
        ],
    );
}

#[test]
fn a6_qwen_payloads() {
    check_payloads(
        Dialect::Qwen,
        include_str!("payloads/qwen.jsonl"),
        &[
            ("read_file", "ok", "ok"),
            ("write_file", "ok", "ok"),
            ("edit", "ok", "ok"),
            ("run_shell_command", "ok", "ok"),
            ("run_shell_command", "ok", "ok"),
            ("glob", "ok", "ok"),
            ("glob", READ, READ),
            ("grep_search", "ok", "ok"),
            ("grep_search", READ, READ),
            ("notebook_edit", "ok", "ok"),
            ("tool_search", "ok", "ok"),
            ("web_fetch", "ok", "ok"),
            ("mcp__stub__slurp", WRITE, WRITE),
            ("agent", "ok", "ok"),
        ],
    );
}

/// G5: every path argument of every tool is asked for.
#[test]
fn g5_paths_of_tools() {
    use Dialect::{Claude, Codex, Gemini, Qwen};
    check(Claude, "Read", r#"{"file_path":"/home/u/.ssh/id"}"#, READ);
    check(Claude, "Read", r#"{"file_path":"private/x"}"#, READ);
    check(Claude, "Read", r#"{"file_path":"../outside"}"#, READ);
    check(Claude, "Read", r#"{"file_path":"/srv/in/x"}"#, "ok");
    check(Claude, "Write", r#"{"file_path":"/srv/in/x","content":""}"#, WRITE);
    check(Claude, "Write", r#"{"file_path":"infra/x","content":""}"#, WRITE);
    check(Claude, "Write", r#"{"file_path":".git/hooks/pre-commit","content":""}"#, WRITE);
    check(Claude, "Edit", r#"{"file_path":".claude/settings.json","old_string":"","new_string":""}"#, WRITE);
    check(Claude, "MultiEdit", r#"{"file_path":"infra/x","edits":[{"old_string":"/etc/x","new_string":""}]}"#, WRITE);
    check(Claude, "MultiEdit", r#"{"file_path":"x","edits":[{"old_string":"/etc/x","new_string":""}]}"#, "ok");
    check(Claude, "NotebookEdit", r#"{"notebook_path":"/etc/n.ipynb","new_source":""}"#, WRITE);
    check(Claude, "LS", r#"{"path":"/home/u"}"#, READ);
    check(Claude, "Glob", r#"{"pattern":"/home/u/.ssh/*"}"#, READ);
    check(Claude, "Glob", r#"{"pattern":"../*"}"#, READ);
    check(Claude, "Glob", r#"{"pattern":"../*","path":"src"}"#, "ok");
    check(Claude, "Glob", r#"{"pattern":"../../*","path":"src"}"#, READ);
    check(Claude, "Grep", r#"{"pattern":"/etc/.*","glob":"/home/u/*"}"#, READ);
    check(Claude, "Grep", r#"{"pattern":"/etc/.*"}"#, "ok");
    check(Claude, "ReadMcpResourceTool", r#"{"server":"s","uri":"file:///home/u/.ssh/id"}"#, READ);
    check(Claude, "ReadMcpResourceTool", r#"{"server":"s","uri":"notes://1"}"#, "ok");
    check(Gemini, "glob", r#"{"pattern":"/home/u/.ssh/*"}"#, READ);
    check(Gemini, "read_many_files", r#"{"include":["src/*","../../x/*"]}"#, READ);
    check(Gemini, "list_directory", r#"{"dir_path":"/home/u"}"#, READ);
    check(Gemini, "run_shell_command", r#"{"command":"ls","dir_path":"/home/u"}"#, READ);
    check(Qwen, "run_shell_command", r#"{"command":"ls","directory":"/home/u"}"#, READ);
    check(Codex, "view_image", r#"{"path":"/home/u/x.png"}"#, READ);
    let patch = |text: &str| format!(r#"{{"command":"*** Begin Patch\n{text}\n*** End Patch"}}"#);
    check(Codex, "apply_patch", &patch("*** Add File: /etc/x"), WRITE);
    check(Codex, "apply_patch", &patch("*** Update File: a\\n*** Move to: infra/b"), WRITE);
    check(Codex, "apply_patch", &patch("*** Delete File: .git/config"), WRITE);
    check(Codex, "apply_patch", &patch("*** Update File: a\\r"), "ok");
    check(Codex, "apply_patch", r#"{"command":["*** Begin Patch"]}"#, INPUT);
}

/// K2: in accept-edits a command runs if it is proved to change nothing. Lock files wait for somebody.
#[test]
fn k2_commands_and_lock_files() {
    use Dialect::{Claude, Codex, Gemini};
    check(Claude, "Bash", r#"{"command":"ls -la | wc -l"}"#, "ok");
    check(Claude, "Bash", r#"{"command":"rm x"}"#, RUN);
    check(Claude, "Bash", r#"{"command":"echo x > y"}"#, RUN);
    check(Claude, "Bash", r#"{"command":"cat private/x"}"#, READ);
    check(Claude, "Bash", r#"{"command":"ls && wc < /home/u/.ssh/id_ed25519"}"#, READ);
    check(Codex, "Bash", r#"{"command":"echo $(cat ./private/x)"}"#, READ);
    check(Claude, "Bash", r#"{"command":"sed -n '/private/p' a; grep /elsewhere/x b"}"#, "ok");
    check(Claude, "Monitor", r#"{"command":"touch x","description":"d"}"#, RUN);
    check(Codex, "Bash", r#"{"command":"touch x"}"#, RUN);
    check(Gemini, "run_shell_command", r#"{"command":"touch x"}"#, RUN);
    check(Claude, "mcp__sh__run", r#"{"command":"touch x"}"#, RUN);
    check(Claude, "Write", r#"{"file_path":"Cargo.lock","content":""}"#, WRITE);
    check(Claude, "Read", r#"{"file_path":"Cargo.lock"}"#, "ok");
    check(Claude, "Skill", r#"{"skill":"x"}"#, TOOL);
    let auto = |tool: &str, input: &str| answer(Claude, call(Claude, tool, input).as_bytes(), Mode::Auto);
    assert_eq!(auto("Bash", r#"{"command":"rm -rf x"}"#), "ok");
    assert_eq!(auto("Bash", r#"{"command":"cat private/x"}"#), "ok");
    assert_eq!(auto("Write", r#"{"file_path":"Cargo.lock","content":""}"#), "ok");
    assert_eq!(auto("Skill", r#"{"skill":"x"}"#), "ok");
    assert_eq!(auto("Write", r#"{"file_path":"/etc/x","content":""}"#), WRITE);
    assert_eq!(auto("Unknown", "{}"), TOOL);
}

/// What was given since the session began can be read, and no more than that.
#[test]
fn g5_what_was_given_can_be_read() {
    let (surface, home) = (surface(), abs("/home/u/h"));
    let grants = [abs("/opt/given"), abs("/home/u/.aws"), abs("/home/u")];
    let verdict = |grants: &[AbsPath], tool: &str, path: &str| {
        let ground =
            Ground { surface: &surface, mode: Mode::Auto, rung: Rung::Native, home: &home, grants, git: Git::AsItIs };
        let payload = call(Dialect::Claude, tool, &format!(r#"{{"file_path":"{path}","content":""}}"#));
        ToolCall::read(Dialect::Claude, payload.as_bytes()).unwrap().judge(&ground, &mut Nothing).is_ok()
    };
    assert!(verdict(&grants, "Read", "/opt/given/x") && !verdict(&[], "Read", "/opt/given/x"));
    assert!(!verdict(&grants, "Write", "/opt/given/x") && !verdict(&grants, "Read", "/opt/other"));
    assert!(verdict(&grants, "Read", "/home/u/.aws/config") && verdict(&grants, "Read", "/home/u/notes"));
    assert!(!verdict(&grants, "Read", "/home/u/.ssh/id"));
}

#[test]
fn g5_hosts_of_tools() {
    use Dialect::{Claude, Gemini};
    let fetch = |url: &str| format!(r#"{{"url":"{url}","prompt":"p"}}"#);
    check(Claude, "WebFetch", &fetch("https://example.com/x"), "ok");
    check(Claude, "WebFetch", &fetch("http://example.com/x"), "ok");
    check(Claude, "WebFetch", &fetch("https://api.example.net:8443/"), "ok");
    check(Claude, "WebFetch", &fetch("https://api.example.net/"), HOST);
    check(Claude, "WebFetch", &fetch("https://evil.example/"), HOST);
    check(Claude, "WebFetch", &fetch("https://example.com@evil.example/"), HOST);
    check(Claude, "WebFetch", &fetch("https://sub.example.com/"), HOST);
    check(Claude, "WebFetch", &fetch("file:///home/u/.ssh/id"), READ);
    check(Claude, "WebFetch", &fetch("http://169.254.169.254/latest"), HOST);
    check(Claude, "WebFetch", &fetch("http://[::ffff:169.254.169.254]/"), HOST);
    check(Claude, "WebFetch", &fetch("http://[::ffff:7f00:1]/"), HOST);
    check(Claude, "WebFetch", &fetch("http://0.0.0.0:22/"), HOST);
    check(Claude, "WebFetch", &fetch("http://localhost.:22/"), HOST);
    check(Claude, "WebFetch", &fetch("https://example.com."), "ok");
    check(Claude, "WebFetch", &fetch("data:text/html,x"), HOST);
    check(Gemini, "web_fetch", r#"{"prompt":"read https://example.com/a and https://evil.example"}"#, HOST);
    check(Gemini, "web_fetch", r#"{"prompt":"read (https://example.com/a)."}"#, "ok");
}

/// A6: links are followed, and loops, dangling ones and those of a process are no way around.
#[test]
fn a6_links_are_followed() {
    use Dialect::Claude;
    check(Claude, "Read", r#"{"file_path":"out/x"}"#, READ);
    check(Claude, "Read", r#"{"file_path":"inner/x"}"#, "ok");
    check(Claude, "Read", r#"{"file_path":"inner/../private/x"}"#, READ);
    // The kernel goes up from where a link leads, clients strike out the name: both count.
    check(Claude, "Read", r#"{"file_path":"deep/../../../x"}"#, READ);
    check(Claude, "Read", r#"{"file_path":"deep/../x"}"#, "ok");
    check(Claude, "Read", r#"{"file_path":"out/../x"}"#, READ);
    check(Claude, "Write", r#"{"file_path":"src/../up/../x","content":""}"#, WRITE);
    check(Claude, "Glob", r#"{"pattern":"../../../*","path":"deep"}"#, READ);
    check(Claude, "Read", r#"{"file_path":"loop/x"}"#, READ);
    check(Claude, "Write", r#"{"file_path":"dangling","content":""}"#, WRITE);
    check(Claude, "Write", r#"{"file_path":"out","content":""}"#, WRITE);
    check(Claude, "Write", r#"{"file_path":"infra/alias","content":""}"#, WRITE);
    check(Claude, "Read", r#"{"file_path":"me/etc/hostname"}"#, READ);
    check(Claude, "Read", r#"{"file_path":"/proc/self/environ"}"#, READ);
    check(Claude, "Read", r#"{"file_path":"/proc/1/environ"}"#, READ);
    check(Claude, "Read", r#"{"file_path":"/dev/fd/3"}"#, READ);
    check(Claude, "Read", r#"{"file_path":"/proc/cpuinfo"}"#, "ok");
    let lie =
        r#"{"cwd":"/home/u/lie","hook_event_name":"PreToolUse","tool_name":"Read","tool_input":{"file_path":"x"}}"#;
    assert_eq!(answer(Claude, lie.as_bytes(), Mode::Auto), READ);
}

/// Each of these was, or could be, another path for the client than for us.
#[test]
fn a6_input_in_disguise() {
    use Dialect::{Claude, Gemini};
    for (input, expected) in [
        (r#"{"File_Path":"x"}"#, INPUT),
        (r#"{"path":"x"}"#, INPUT),
        (r#"{"file_path":"x","path":"/home/u/.ssh/id"}"#, WRITE),
        (r#"{"file_path":"x","File_Path":"/home/u/.ssh/id"}"#, WRITE),
        (r#"{"file_path":"x","file_path":"/home/u/.ssh/id"}"#, INPUT),
        (r#"{"file_path":["x"]}"#, INPUT),
        (r#"{"file_path":{"a":"x"}}"#, INPUT),
        (r#"{"file_path":null}"#, INPUT),
        (r#"{"file_path":5}"#, INPUT),
        (r#"{"file_path":""}"#, INPUT),
        (r#"{"file_path":" /home/u/.ssh/id"}"#, INPUT),
        (r#"{"file_path":"/home/u/.ssh/id\n"}"#, INPUT),
        (r#"{"file_path":"\u00a0/home/u/.ssh/id"}"#, INPUT),
        (r#"{"file_path":"a\u0000b"}"#, INPUT),
        (r#"{"file_path":"file:///home/u/.ssh/id"}"#, INPUT),
        (r#"{"file_path":"~/x"}"#, "ok"),
        (r#"{"file_path":"~/../../../../../../.ssh/id"}"#, READ),
        (r#"{"file_path":"~root/x"}"#, INPUT),
        (r#"{"file_path":"$HOME/x"}"#, "ok"),
        (r#"{"file_path":"e\u0301"}"#, INPUT),
        (r#"{"file_path":"\u212b"}"#, INPUT),
        (r#"{"file_path":"\u00e9"}"#, "ok"),
        (r#"{"file_path":"./src//../x"}"#, "ok"),
        (r#"{"file_path":"src/../../x"}"#, READ),
        (r#"{"file_path":"x","__proto__":{"file_path":"/home/u/.ssh/id"}}"#, WRITE),
        (r#"{"file_path":"x","offset":"/home/u/.ssh/id"}"#, WRITE),
        (r#"{"file_path":"x","offset":1,"limit":null,"pages":"1-2"}"#, "ok"),
    ] {
        check(Claude, "Read", input, expected);
    }
    check(Claude, "read", r#"{"file_path":"x"}"#, TOOL);
    check(Claude, "Read ", r#"{"file_path":"x"}"#, TOOL);
    check(Claude, "", "{}", TOOL);
    check(Claude, "read_file", r#"{"file_path":"x"}"#, TOOL);
    check(Claude, "mcp_stub_slurp", r#"{"target":"x"}"#, TOOL);
    check(Claude, "EnterWorktree", r#"{"name":"../../../x"}"#, INPUT);
    check(Claude, "Bash", r#"{"cmd":"ls"}"#, INPUT);
    check(Claude, "Bash", r#"{"command":["ls"]}"#, INPUT);
    check(Claude, "Bash", r#"{"command":"ls\u0000"}"#, INPUT);
    check(Gemini, "glob", r#"{"pattern":"*","dir_path":"src","path":"/home/u"}"#, INPUT);
    check(Gemini, "glob", r#"{"pattern":"*","dir_path":"src","directory":"/home/u"}"#, WRITE);
}

#[test]
fn a6_envelopes() {
    let whole = call(Dialect::Claude, "Read", r#"{"file_path":"x"}"#);
    assert_eq!(answer(Dialect::Claude, whole.as_bytes(), Mode::AcceptEdits), "ok");
    for length in 0..whole.len() {
        assert_eq!(answer(Dialect::Claude, &whole.as_bytes()[..length], Mode::Auto), INPUT, "{length} bytes");
    }
    for (from, to) in [
        ("PreToolUse", "PostToolUse"),
        ("PreToolUse", "BeforeTool"),
        ("\"cwd\":\"/home/u/proj\",", ""),
        ("/home/u/proj", "proj"),
        ("/home/u/proj", "/home/u/proj/.."),
        ("\"tool_input\":{\"file_path\":\"x\"}", "\"tool_input\":[]"),
        ("\"tool_input\":{\"file_path\":\"x\"}", "\"tool_input\":\"x\""),
        ("\"tool_name\":\"Read\"", "\"tool_name\":7"),
        ("\"tool_name\":\"Read\"", "\"tool_name\":\"Bash\",\"tool_name\":\"Read\""),
    ] {
        let other = whole.replace(from, to);
        assert_ne!(other, whole);
        assert_eq!(answer(Dialect::Claude, other.as_bytes(), Mode::Auto), INPUT, "{other}");
    }
    let permission = whole.replace("PreToolUse", "PermissionRequest");
    assert_eq!(answer(Dialect::Claude, permission.as_bytes(), Mode::Auto), "ok");
    assert_eq!(answer(Dialect::Codex, permission.as_bytes(), Mode::Auto), INPUT);
}

/// A refusal is one line that begins with our name, whatever a tool is called.
#[test]
fn a6_a_refusal_is_one_line() {
    for tool in ["Unknown", "a\\nb", "\\u001b[31m", &"x".repeat(100_000)] {
        let payload = call(Dialect::Claude, tool, "{}");
        let refusal = judged(Dialect::Claude, payload.as_bytes(), Mode::Auto).unwrap_err();
        let line = refusal.line(Some(tool));
        assert!(line.starts_with("ringfence: ") && line.len() < 10_000, "{line}");
        assert!(!line.contains(char::is_control), "{line}");
    }
    let payload = call(Dialect::Claude, "Read", r#"{"file_path":"/home/u/.ssh/id"}"#);
    let refusal = judged(Dialect::Claude, payload.as_bytes(), Mode::Auto).unwrap_err();
    let line = refusal.line(Some("Read"));
    for part in ["ringfence: Read: ", "read of /home/u/.ssh/id", ".ssh", "--ref /home/u/.ssh/id"] {
        assert!(line.contains(part), "{line}");
    }
    assert_eq!(refusal.path, Some(abs("/home/u/.ssh/id")));
}

/// Nothing stands anywhere: no link is in the way.
struct Nothing;

impl Look for Nothing {
    fn path(&mut self, _: &AbsPath) -> PathFact {
        PathFact::Missing
    }

    fn git(&mut self, _: &AbsPath) -> Option<GitFact> {
        None
    }

    fn git_runs(&mut self, _: &AbsPath, _: &AbsPath) -> Vec<ringfence_surface::GitRun> {
        Vec::new()
    }
}

/// A path out of names that rules speak of; the same number gives the same one.
fn some_path(seed: &mut u64) -> String {
    const STARTS: [&str; 10] =
        ["/home/u/proj", "/home/u/proj", "/home/u", "/srv/in", "/srv/out", "/etc", "/tmp", "/usr/lib", "/dev", ""];
    const NAMES: [&str; 24] = [
        "a",
        "b.rs",
        ".env",
        ".ssh",
        "id_rsa",
        ".git",
        "hooks",
        "config",
        "infra",
        "private",
        "Cargo.lock",
        "node_modules",
        ".claude",
        "settings.json",
        ".vscode",
        "src",
        "x y",
        "$HOME",
        "ringfence.toml",
        ".bashrc",
        "shadow",
        "sda",
        "null",
        "key.pem",
    ];
    let mut next = |most: usize| {
        *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*seed >> 33) as usize % most
    };
    let mut path = STARTS[next(STARTS.len())].to_owned();
    for _ in 0..=next(4) {
        path.push('/');
        path.push_str(NAMES[next(NAMES.len())]);
    }
    path
}

/// G5: for ten thousand calls with a path, the verdict is that of `decide`.
#[test]
fn g5_ten_thousand_calls_agree_with_decide() {
    use ringfence_surface::Access;
    let (surface, home) = (surface(), abs("/home/u/h"));
    let ground =
        Ground { surface: &surface, mode: Mode::Auto, rung: Rung::Native, home: &home, grants: &[], git: Git::AsItIs };
    let tools = [
        (Dialect::Claude, "Read", "file_path", Access::Read),
        (Dialect::Claude, "Write", "file_path", Access::Write),
        (Dialect::Claude, "Edit", "file_path", Access::Write),
        (Dialect::Claude, "NotebookEdit", "notebook_path", Access::Write),
        (Dialect::Claude, "LS", "path", Access::Read),
        (Dialect::Claude, "mcp__fs__read", "target", Access::Read),
        (Dialect::Codex, "view_image", "path", Access::Read),
        (Dialect::Codex, "mcp__fs__put", "q", Access::Write),
        (Dialect::Gemini, "read_file", "file_path", Access::Read),
        (Dialect::Gemini, "replace", "file_path", Access::Write),
        (Dialect::Gemini, "list_directory", "dir_path", Access::Read),
        (Dialect::Qwen, "edit", "file_path", Access::Write),
    ];
    let (mut seed, mut allowed, mut refused) = (42, 0, 0);
    for number in 0..10_000 {
        let (dialect, tool, field, access) = tools[number % tools.len()];
        let path = some_path(&mut seed);
        if tool.starts_with("mcp_") && path.contains('$') {
            continue;
        }
        let payload = call(dialect, tool, &format!(r#"{{"{field}":"{path}"}}"#));
        let judged = ToolCall::read(dialect, payload.as_bytes()).and_then(|call| call.judge(&ground, &mut Nothing));
        let expected = surface.decide(&abs(&path), access).is_allowed();
        assert_eq!(judged.is_ok(), expected, "{payload}: {judged:?}");
        if expected { allowed += 1 } else { refused += 1 }
    }
    assert!(allowed > 1_000 && refused > 1_000, "{allowed} allowed, {refused} refused");
}

/// Every table is sorted, each tool is once in it, and the clients' own names for other programs' tools are not.
#[test]
fn tables_are_in_order() {
    for dialect in Dialect::ALL {
        for table in dialect.tables() {
            assert!(table.is_sorted_by(|a, b| a.name < b.name), "{dialect:?}");
            assert!(table.iter().all(|tool| !tool.name.starts_with("mcp_")), "{dialect:?}");
        }
    }
}
