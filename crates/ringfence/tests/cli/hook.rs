//! `ringfence hook`: the code and the line that clients honour, whatever arrives.

#![expect(clippy::unwrap_used, reason = "a test that cannot set up has failed")]

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use ringfence_testkit::{Run, World};
use serde_json::{Value, json};

use crate::world;

const POLICY: &str = r#"version = 1
[files]
write = ["."]
deny = ["private"]
protect = ["infra"]
[network]
allow = ["example.com"]
"#;

/// A world with the record of a session in it, as the session itself sees it.
struct Given {
    world: World,
}

impl Given {
    fn new() -> Self {
        let world = world();
        world.write("project/ringfence.toml", POLICY);
        world.ringfence(&["trust"]).expect_code(0);
        world.mkdir("given");
        // Bytes that are no text do not survive a capture, so it is written down in another alphabet.
        let script = "od -An -v -tx1 \"$(dirname \"$HOME\")/given/record\"";
        let run = world.ringfence(&["run", "--", "/bin/sh", "-c", script]).expect_code(0);
        let bytes: Vec<u8> = run.stdout.split_whitespace().map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect();
        fs::write(world.path("given/record"), bytes).unwrap();
        fs::set_permissions(world.path("given/record"), fs::Permissions::from_mode(0o644)).unwrap();
        Self { world }
    }

    fn hook(&self, client: &str, input: impl AsRef<[u8]>) -> Run {
        let given = self.world.path("given");
        self.world.in_dir("project").input(input).ringfence(&["hook", client, "--given", given.to_str().unwrap()])
    }

    fn call(&self, tool: &str, input: &Value) -> String {
        let cwd = self.world.path("project");
        json!({"cwd": cwd.to_str().unwrap(), "hook_event_name": "PreToolUse", "tool_name": tool, "tool_input": input})
            .to_string()
    }
}

/// Code 2, nothing on the output, one line of ours on the error output.
#[track_caller]
fn refused(run: Run, part: &str) {
    let run = run.expect_code(2);
    assert_eq!(run.stdout, "");
    assert!(run.stderr.starts_with("ringfence: ") && run.stderr.ends_with('\n'), "{}", run.stderr);
    assert_eq!(run.stderr.lines().count(), 1, "{}", run.stderr);
    assert!(run.stderr.contains(part), "{part}: {}", run.stderr);
}

#[track_caller]
fn passes(run: Run) {
    let run = run.expect_code(0);
    assert_eq!((run.stdout.as_str(), run.stderr.as_str()), ("", ""));
}

/// G5 A6 A14: the verdict of a session's own record, with its rule and its remedy.
#[test]
fn a6_calls_are_judged_by_the_sessions_record() {
    let given = Given::new();
    let world = &given.world;
    world.write("other/secret", "SECRET");
    world.symlink(world.path("other"), "project/out");
    let claude = |tool: &str, input: Value| given.hook("claude", given.call(tool, &input));
    passes(claude("Read", json!({"file_path": "src/a.rs"})));
    passes(claude("Write", json!({"file_path": world.path("project/new").to_str().unwrap(), "content": "x"})));
    passes(claude("Bash", json!({"command": "ls | wc -l"})));
    passes(claude("WebFetch", json!({"url": "https://example.com/", "prompt": "p"})));
    refused(claude("Read", json!({"file_path": "private/x"})), "deny \"private\"");
    refused(claude("Read", json!({"file_path": "private/x"})), "ringfence.toml:4:9");
    refused(claude("Edit", json!({"file_path": "infra/x", "old_string": "", "new_string": ""})), "protect \"infra\"");
    refused(claude("Read", json!({"file_path": "out/secret"})), "--ref ");
    refused(claude("Write", json!({"file_path": "out", "content": ""})), "write of ");
    refused(claude("Read", json!({"file_path": "~/../../../home/.ssh/id"})), "read of ");
    refused(claude("Bash", json!({"command": "rm -rf src"})), "accept-edits");
    refused(claude("WebFetch", json!({"url": "https://evil.example/", "prompt": "p"})), "[network]");
    refused(claude("Teleport", json!({})), "does not know the tool");
    refused(given.hook("codex", given.call("Bash", &json!({"command": "touch x"}))), "accept-edits");
    passes(given.hook("codex", given.call("Bash", &json!({"command": "cat src/a.rs"}))));
}

/// Claude Code asks once more where somebody would be asked: the same verdict, in words.
#[test]
fn a6_a_request_for_permission_is_answered() {
    let given = Given::new();
    let ask = |path: &str| {
        let call = given.call("Read", &json!({"file_path": path})).replace("PreToolUse", "PermissionRequest");
        given.hook("claude", call)
    };
    let run = ask("src/a.rs").expect_code(0);
    let answer: Value = serde_json::from_str(&run.stdout).unwrap();
    let expected = json!({"hookEventName": "PermissionRequest", "decision": {"behavior": "allow"}});
    assert_eq!(answer, json!({"hookSpecificOutput": expected}));
    refused(ask("private/x"), "deny \"private\"");
}

/// A6: whatever is not a call is refused, in the one form that every client takes for a no.
#[test]
fn a6_bad_input_is_refused() {
    let given = Given::new();
    let whole = given.call("Read", &json!({"file_path": "src/a.rs"}));
    let deep = format!("{}{}", r#"{"a":"#.repeat(100_000), "}".repeat(100_000));
    let with = |from: &str, to: &str| whole.replace(from, to).into_bytes();
    let mut broken = with("src/a.rs", "src/X.rs");
    let at = broken.iter().position(|byte| *byte == b'X').unwrap();
    broken[at] = 0xff;
    let cases: Vec<(&str, Vec<u8>)> = vec![
        ("nothing", Vec::new()),
        ("truncated", whole.as_bytes()[..whole.len() / 2].to_vec()),
        ("two", [whole.as_bytes(), whole.as_bytes()].concat()),
        ("NUL", with("src/a.rs", "src\\u0000")),
        ("a raw NUL", with("src/a.rs", "src\0")),
        ("no UTF-8", broken),
        ("deep", deep.into_bytes()),
        ("twice", with("\"tool_name\":", "\"tool_name\":\"Bash\",\"tool_name\":")),
        ("another event", with("PreToolUse", "PostToolUse")),
        ("a list", b"[]".to_vec()),
        ("no input", with("\"tool_input\"", "\"other\"")),
    ];
    for (what, payload) in cases {
        let run = given.hook("claude", &payload);
        assert_eq!(run.code, 2, "{what}: {}", run.stderr);
        refused(run, "");
    }
}

/// A6: a call of 50 MB is refused, and no more of it is held than the limit.
#[test]
fn a6_a_huge_call_is_refused() {
    let given = Given::new();
    let huge = given.call("Write", &json!({"file_path": "x", "content": "y".repeat(50 << 20)}));
    refused(given.hook("claude", huge), "larger than 16 MiB");
    let large = given.call("Write", &json!({"file_path": "x", "content": "y".repeat(2 << 20)}));
    passes(given.hook("claude", large));
}

/// A6: without a record that can be believed there is no yes.
#[test]
fn a6_without_a_record_nothing_passes() {
    let given = Given::new();
    let call = given.call("Read", &json!({"file_path": "src/a.rs"}));
    let record = given.world.path("given/record");
    let whole = fs::read(&record).unwrap();
    let set_mode = |mode| fs::set_permissions(&record, fs::Permissions::from_mode(mode)).unwrap();
    set_mode(0o666);
    refused(given.hook("claude", &call), "no session");
    set_mode(0o644);
    passes(given.hook("claude", &call));
    for bytes in [&whole[..whole.len() - 1], b"".as_slice(), b"ringfence record\n\x7f"] {
        fs::write(&record, bytes).unwrap();
        refused(given.hook("claude", &call), "no session");
    }
    fs::remove_file(&record).unwrap();
    refused(given.hook("claude", &call), "no session");
    let world = &given.world;
    refused(world.in_dir("project").input(&call).ringfence(&["hook", "claude", "--given", "x"]), "--given");
    refused(world.in_dir("project").input(&call).ringfence(&["hook", "opencode"]), "client");
    refused(world.in_dir("project").input(&call).ringfence(&["hook"]), "client");
}

/// A6: a client that never ends its call gets its answer before its patience ends.
#[test]
fn a6_what_hangs_is_refused_in_time() {
    let given = Given::new();
    let begun = Instant::now();
    let mut child = Command::new(given.world.binary())
        .args(["hook", "claude", "--timeout", "10", "--given", given.world.path("given").to_str().unwrap()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(given.call("Read", &json!({"file_path": "src/a.rs"})).as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    drop(stdin);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(output.stderr, b"ringfence: no verdict was reached in time, so the tool is not run\n");
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
}

/// A6: a signal is no yes.
#[test]
fn a6_a_signal_is_no_answer() {
    let given = Given::new();
    let mut child = Command::new(given.world.binary())
        .args(["hook", "claude", "--timeout", "60", "--given", given.world.path("given").to_str().unwrap()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    // More than a pipe holds: when it is written, the hook reads, and its signals are blocked.
    stdin.write_all(&vec![b' '; 1 << 20]).unwrap();
    let pid = rustix::process::Pid::from_child(&child);
    for signal in [rustix::process::Signal::TERM, rustix::process::Signal::INT, rustix::process::Signal::HUP] {
        rustix::process::kill_process(pid, signal).unwrap();
    }
    stdin.write_all(given.call("Read", &json!({"file_path": "private/x"})).as_bytes()).unwrap();
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(output.stderr.starts_with(b"ringfence: Read: "), "{output:?}");
}
