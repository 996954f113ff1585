//! The hook inside the fence.

use std::io::Write as _;
use std::process::Stdio;

use serde_json::json;

use super::{each, text};

/// A6: the hook as a client starts it, by its path in the session, on every rung.
#[test]
fn a6_the_hook_works_inside() {
    each(|fence| {
        fence.policy("[files]\ndeny = [\"private\"]\n");
        let script = "G=$(dirname \"$HOME\")/given; \"$G/ringfence\" hook claude; echo \"code $?\"";
        for backend in ["native", "bwrap", "landlock"] {
            for (path, code) in [("src/a.rs", "code 0\n"), ("private/x", "code 2\n"), ("../home/.ssh/id", "code 2\n")] {
                let call = json!({
                    "cwd": fence.path("project").to_str().unwrap(),
                    "hook_event_name": "PreToolUse",
                    "tool_name": "Read",
                    "tool_input": {"file_path": path},
                });
                let mut command = fence.ringfence();
                command.args(["run", "--backend", backend, "--", "/bin/sh", "-c", script]);
                command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
                let mut child = command.spawn().unwrap();
                child.stdin.take().unwrap().write_all(call.to_string().as_bytes()).unwrap();
                let output = child.wait_with_output().unwrap();
                let (said, stderr) = (text(&output.stdout), text(&output.stderr));
                assert_eq!(said, code, "as {:?}, {backend}, {path}: {stderr}", fence.who);
                let refused = stderr.contains("ringfence: Read: read of ");
                assert_eq!(refused, code == "code 2\n", "as {:?}, {backend}, {path}: {stderr}", fence.who);
            }
        }
    });
}

/// A6 A11: what the hook of an agent's client refuses is written down outside.
#[test]
fn a6_verdicts_are_written_down() {
    each(|fence| {
        fence.policy("[files]\ndeny = [\"private\"]\n");
        let call = |path: &str| {
            let cwd = fence.path("project");
            json!({"cwd": cwd.to_str().unwrap(), "hook_event_name": "PreToolUse", "tool_name": "Read",
                "tool_input": {"file_path": path}})
        };
        let script = format!(
            "G=$(dirname \"$HOME\")/given; echo '{}' | \"$G/ringfence\" hook claude; echo '{}' | \"$G/ringfence\" hook claude",
            call("private/x"),
            call("src/a.rs")
        );
        let output =
            fence.ringfence().args(["run", "--agent", "claude", "--", "/bin/sh", "-c", &script]).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "as {:?}: {}", fence.who, text(&output.stderr));
        let log = std::fs::read_to_string(fence.path("home/.local/state/ringfence/audit/log.jsonl")).unwrap();
        let verdicts: Vec<&str> = log.lines().filter(|line| line.contains("\"verdict\"")).collect();
        assert_eq!(verdicts.len(), 2, "as {:?}: {log}", fence.who);
        for part in ["sandbox_read_blocked", "\"Read\"", "private/x", "\"allowed\":false"] {
            assert!(verdicts[0].contains(part), "as {:?}: {part}: {}", fence.who, verdicts[0]);
        }
        assert!(verdicts[1].contains("\"allowed\":true"), "as {:?}: {}", fence.who, verdicts[1]);
        fence.left_nothing();
    });
}
