//! Settings that a client finds and cannot change.

use crate::desk::{Desk, text};

/// Tries to change a file by every way that a program has, and says which of them worked.
const ATTACK: &str = r#"
attack() {
    local file=$1 before after dir
    before=$(cat "$file") || { echo "UNREADABLE $file"; return; }
    dir=$(dirname "$file")
    echo evil > "$file"
    rm -f "$file"
    mv "$file" "$file.away"
    echo evil > "$dir/other" && mv "$dir/other" "$file"
    ln -f "$dir/other" "$file"
    ln -sf /etc/passwd "$file"
    mv "$dir" "$dir.away" && mkdir "$dir" && echo evil > "$file"
    rm -rf "$dir"
    chmod 777 "$file"
    truncate -s 0 "$file"
    after=$(cat "$file")
    [[ $before == "$after" ]] && echo "HELD $file" || echo "CHANGED $file"
}
"#;

#[track_caller]
fn holds(desk: &Desk, backend: &str, agent: &str, files: &[&str]) {
    let attacks: String = files.iter().map(|file| format!("attack {file} 2>/dev/null\n")).collect();
    let shown = desk.run(&["run", "--agent", agent, "--backend", backend], &format!("{ATTACK}{attacks}"));
    assert_eq!(shown.matches("HELD ").count(), files.len(), "{agent}, {backend}\n{shown}");
}

/// A1, A2, A3: no client changes its own settings, by any way, natively and by bubblewrap.
#[test]
fn a1_a2_a3_settings_stay_as_they_are() {
    for desk in Desk::all() {
        for backend in ["native", "bwrap"] {
            let claude = ["~/.claude/settings.json", "~/.claude/CLAUDE.md", "/etc/claude-code/managed-settings.json"];
            holds(&desk, backend, "claude", &claude);
            let codex = ["~/.codex/config.toml", "~/.codex/AGENTS.md", "/etc/codex/requirements.toml"];
            holds(&desk, backend, "codex", &codex);
            holds(&desk, backend, "gemini", &["~/.gemini/settings.json", "~/.gemini/GEMINI.md"]);
        }
    }
}

/// A1: what is shown in `/etc` is there inside only, beside everything that the host has there.
#[test]
fn a1_nothing_of_the_host_is_touched() {
    let names = || {
        let mut names: Vec<_> = std::fs::read_dir("/etc").unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    let before = names();
    for desk in Desk::all() {
        for backend in ["native", "bwrap"] {
            let script = "ls -A /etc > etc; cat /etc/hostname /etc/ssl/openssl.cnf > /dev/null; id -un; touch /etc/x; \
                          touch /etc/claude-code/x; head -c 1 /etc/shadow; echo done";
            let shown = desk.run(&["run", "--agent", "claude", "--backend", backend], script);
            assert!(shown.contains("done") && !shown.contains("openssl.cnf:"), "{shown}");
            let inside = std::fs::read_to_string(desk.world.path("project/etc")).unwrap();
            let mut expected: Vec<&str> = before.iter().map(|name| name.to_str().unwrap()).collect();
            expected.push("claude-code");
            expected.sort_unstable();
            expected.dedup();
            let mut found: Vec<&str> = inside.lines().collect();
            found.sort_unstable();
            assert_eq!(found, expected);
        }
    }
    assert_eq!(names(), before);
}

/// A1: in the broad view as well.
#[test]
fn a1_settings_stay_in_the_broad_view() {
    let desk = Desk::of_nobody();
    desk.write("policy.toml", "version = 1\n[files]\nview = \"host\"\n");
    let policy = desk.world.path("policy.toml");
    let attacks =
        "attack /etc/claude-code/managed-settings.json 2>/dev/null; attack ~/.claude/settings.json 2>/dev/null";
    let arguments = ["run", "--agent", "claude", "--policy", policy.to_str().unwrap()];
    let shown = desk.run(&arguments, &format!("{ATTACK}{attacks}; cat /etc/shadow; ls /etc/ssl"));
    assert_eq!(shown.matches("HELD ").count(), 2, "{shown}");
    assert!(shown.contains("certs") && !shown.contains("root:"), "{shown}");
}

/// K1, G4: the client is started with its mode, and the model is told.
#[test]
fn k1_g4_arguments_and_introduction() {
    let desk = Desk::of_nobody();
    desk.run(&["run", "--agent", "claude"], "");
    let expected = "--setting-sources user --strict-mcp-config --permission-mode acceptEdits ";
    assert_eq!(desk.arguments(), expected);
    desk.run(&["run", "--agent", "claude", "--mode", "auto", "--", "claude", "-p", "hi"], "");
    assert_eq!(desk.arguments(), expected.replace("acceptEdits", "bypassPermissions") + "-p hi ");
    desk.run(&["run", "--agent", "gemini", "--mode", "auto"], "");
    assert_eq!(desk.arguments(), "--skip-trust --approval-mode yolo ");
    desk.run(&["run", "--agent", "codex"], "");
    assert_eq!(desk.arguments(), "--dangerously-bypass-approvals-and-sandbox ");
    for (agent, file) in
        [("claude", ".claude/CLAUDE.md"), ("codex", ".codex/AGENTS.md"), ("gemini", ".gemini/GEMINI.md")]
    {
        let shown = desk.run(&["run", "--agent", agent], &format!("cat ~/{file}"));
        assert!(shown.contains("You work inside ringfence") && shown.contains("Mode accept-edits"), "{shown}");
    }
}

/// A program that is not the client finds the same files, and gets no arguments.
#[test]
fn another_program_finds_the_settings() {
    let desk = Desk::of_nobody();
    let shown = desk.shown(desk.ringfence(&[
        "run",
        "--agent",
        "claude",
        "--",
        "cat",
        "/etc/claude-code/managed-settings.json",
    ]));
    assert!(shown.contains("allowManagedHooksOnly") && shown.contains("/given/ringfence hook claude"), "{shown}");
}

/// A6: what would switch the hooks off is refused before anything starts.
#[test]
fn a6_hooks_are_not_switched_off_by_arguments() {
    let desk = Desk::of_nobody();
    for flag in ["--bare", "--safe-mode"] {
        let output = desk.ringfence(&["run", "--agent", "claude", "--", "claude", flag]).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{}", text(&output));
        assert!(text(&output).contains("switches off the hooks"), "{}", text(&output));
    }
    for name in ["CLAUDE_CODE_SIMPLE", "CLAUDE_CODE_MANAGED_SETTINGS_PATH", "GEMINI_CLI_TRUST_WORKSPACE"] {
        let mut command = desk.ringfence(&["run", "--agent", "claude", "--env", name]);
        let output = command.env(name, "1").output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{}", text(&output));
    }
    let mut command = desk.ringfence(&["run", "--agent", "claude"]);
    command.env("CLAUDE_CODE_SIMPLE", "1").env("GEMINI_CLI_TRUST_WORKSPACE", "true");
    desk.write("project/script", "env");
    let shown = desk.shown(command);
    assert!(!shown.contains("CLAUDE_CODE_SIMPLE") && !shown.contains("TRUST_WORKSPACE"), "{shown}");
}

/// G5, A6: the hook that the settings name is there, and answers by the session's own Surface and mode.
#[test]
fn g5_a6_the_hook_that_is_named_answers() {
    let asks = r#"
hook=$(grep -ho '/[^" ]*/given/ringfence hook [a-z]*' SETTINGS | head -1)
ask() { printf '{"session_id":"s","transcript_path":"/t","cwd":"%s","hook_event_name":"EVENT","tool_name":"%s","tool_input":%s}' \
    "$PWD" "$1" "$2" | $hook; echo "ANSWER $3 $?"; }
ask TOOL '{"command":"ls"}' reads
ask TOOL '{"command":"touch x"}' writes
ask NoSuchTool '{}' unknown
"#;
    for (agent, settings, event, tool) in [
        ("claude", "/etc/claude-code/managed-settings.json", "PreToolUse", "Bash"),
        ("codex", "/etc/codex/requirements.toml", "PreToolUse", "Bash"),
        ("gemini", "~/.gemini/settings.json", "BeforeTool", "run_shell_command"),
    ] {
        let script = asks.replace("SETTINGS", settings).replace("EVENT", event).replace("TOOL", tool);
        for desk in Desk::all() {
            let shown = desk.run(&["run", "--agent", agent], &script);
            for answer in ["ANSWER reads 0", "ANSWER writes 2", "ANSWER unknown 2"] {
                assert!(shown.contains(answer), "{agent}: {answer}\n{shown}");
            }
            let shown = desk.run(&["run", "--agent", agent, "--mode", "auto"], &script);
            for answer in ["ANSWER reads 0", "ANSWER writes 0", "ANSWER unknown 2"] {
                assert!(shown.contains(answer), "{agent}, auto: {answer}\n{shown}");
            }
        }
    }
}

/// A4, A14: what a client's environment holds.
#[test]
fn a4_the_clients_environment() {
    let desk = Desk::of_nobody();
    desk.write("project/script", "env");
    let mut command = desk.ringfence(&["run", "--agent", "claude"]);
    for (name, value) in [
        ("ANTHROPIC_API_KEY", "sk-ant-SECRET-0123456789"),
        ("AWS_SECRET_ACCESS_KEY", "SECRET"),
        ("SSH_AUTH_SOCK", "/tmp/agent"),
        ("LANG", "https://user:SECRET@host"),
        ("TZ", "sk-ant-SECRET-0123456789"),
        ("CLAUDE_CONFIG_DIR", "/elsewhere"),
    ] {
        command.env(name, value);
    }
    let shown = desk.shown(command);
    for line in ["DISABLE_AUTOUPDATER=1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "RINGFENCE=1"] {
        assert!(shown.contains(line), "{line}\n{shown}");
    }
    for never in ["SECRET", "SSH_AUTH_SOCK", "CLAUDE_CONFIG_DIR", "IS_SANDBOX"] {
        assert!(!shown.contains(never), "{never}\n{shown}");
    }
    assert!(shown.contains("nothing to sign in with inside"), "{shown}");
}

/// A client that is not installed is told apart from one that fails.
#[test]
fn a_client_that_is_not_there() {
    let desk = Desk::of_nobody();
    let mut command = desk.ringfence(&["run", "--agent", "claude"]);
    let output = command.env("PATH", "/usr/bin:/bin").output().unwrap();
    assert_eq!(output.status.code(), Some(127), "{}", text(&output));
    assert!(text(&output).contains("`claude` is not among the programs of your PATH"), "{}", text(&output));
}

/// One line for clients that show one, inside and outside.
#[test]
fn the_status_line() {
    let desk = Desk::of_nobody();
    let script = "$(dirname ~)/given/ringfence statusline; $(dirname ~)/given/ringfence statusline --json";
    let shown = desk.run(&["run", "--agent", "claude"], script);
    assert!(shown.contains("ringfence project | accept-edits | native | 3 hosts | "), "{shown}");
    assert!(shown.contains("\"backend\": \"native\""), "{shown}");
    let shown = desk.shown(desk.ringfence(&["statusline"]));
    assert_eq!(shown, "ringfence: no session here\n");
}
