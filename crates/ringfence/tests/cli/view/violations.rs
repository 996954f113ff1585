//! What is denied in a session, as the user sees it: while it runs, when it has ended, in a file, and on a terminal.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use serde_json::Value;

use super::live::{Shell, json, ringfence, until};
use super::{Fence, Who, each, is_root, text};
use crate::screen::Screen;

/// With a way out there is somebody who answers about names.
const REACHES: &str = "[network]\nallow = [\"api.example.com\"]\n";

fn lines(fence: &Fence, arguments: &[&str]) -> Vec<Value> {
    let output = ringfence(fence, arguments);
    assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
    text(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn tried(rows: &[Value]) -> Vec<&str> {
    rows.iter().map(|row| row["tried"].as_str().unwrap()).collect()
}

/// K14: where packs bring hosts, the remedy says what a first list of hosts needs.
#[test]
fn k14_a_remedy_keeps_what_packs_bring() {
    let fence = Fence::new(Who::Caller);
    fence.write(&[("project/.git/HEAD", "ref: refs/heads/main\n")]);
    let said = text(&fence.sh("getent hosts evil.example.net").stderr);
    let remedy = "add \"evil.example.net\" to `allow` in [network], in a new list with \"github\" so that";
    assert!(said.contains(remedy), "{said}");
}

/// K14: what a session tried and was not let do is told while it runs and afterwards, with what allows it.
#[test]
fn k14_violations_are_told_while_it_runs_and_afterwards() {
    each(|fence| {
        fence.policy(REACHES);
        let mut shell = Shell::start(fence, &["--policy", "ringfence.toml"]);
        let mut follow = fence.ringfence();
        follow.args(["violations", &shell.id, "--follow", "--json"]).stdout(Stdio::piped());
        let mut follow = follow.spawn().unwrap();
        let mut told = BufReader::new(follow.stdout.take().unwrap());
        shell.does("getent hosts evil.example.net; getent hosts evil.example.net");
        let mut line = String::new();
        told.read_line(&mut line).unwrap();
        let row: Value = serde_json::from_str(&line).unwrap();
        assert_eq!((row["tried"].as_str(), row["layer"].as_str()), (Some("name evil.example.net"), Some("egress")));
        let remedy = row["remedy"].as_str().unwrap();
        let expected = format!("ringfence grant {} --host evil.example.net", shell.id);
        assert!(remedy.starts_with(&expected), "as {:?}: {remedy}", fence.who);
        until("both are counted", || {
            json(fence, &["show", &shell.id, "--json"])["sessions"][0]["denied"].as_u64() >= Some(2)
        });
        let id = shell.id.clone();
        shell.ends();
        assert!(follow.wait().unwrap().success(), "it ends with the session");
        let rows = lines(fence, &["violations", &id, "--json"]);
        assert_eq!(tried(&rows), ["name evil.example.net"], "each kind once");
        assert!(rows[0]["times"].as_u64() >= Some(2), "as {:?}: {rows:?}", fence.who);
        let shown = text(&ringfence(fence, &["violations"]).stdout);
        assert!(shown.contains(&format!("{id} egress name evil.example.net (")), "as {:?}: {shown}", fence.who);
        assert!(ringfence(fence, &["violations", "nosuch"]).status.code() == Some(125));
    });
}

/// K14: settings of git that are refused are listed one by one: each has its own name and remedy.
#[test]
fn k14_refused_settings_are_listed_one_by_one() {
    let fence = Fence::new(Who::Caller);
    fence.policy("[files]\nwrite = [\".\"]\n");
    fence.sh("git init -q; for key in core.hooksPath core.pager alias.x; do git config $key v; done");
    let shown = text(&ringfence(&fence, &["violations"]).stdout);
    for key in ["core.hookspath", "core.pager", "alias.x"] {
        assert_eq!(shown.matches(key).count(), 1, "{key}: {shown}");
    }
}

/// K14: a flood hides nothing else that is denied, is counted, and leaves room in the audit.
#[test]
fn k14_a_flood_hides_nothing() {
    let fence = Fence::new(if is_root() { Who::Nobody } else { Who::Caller });
    fence.policy(REACHES);
    let mut shell = Shell::start(&fence, &["--policy", "ringfence.toml"]);
    shell.does("i=0; while [ $i -lt 400 ]; do getent hosts n$i.example.net; i=$((i+1)); done");
    shell.does("bash -c ': > /dev/tcp/10.9.8.7/99' 2> /dev/null");
    let id = shell.id.clone();
    until("the connection is told", || {
        let rows = lines(&fence, &["violations", &id, "--json"]);
        tried(&rows).contains(&"tcp 10.9.8.7:99")
    });
    shell.ends();
    let rows = lines(&fence, &["violations", &id, "--json"]);
    // Fifty at once, one for each second, and the others as one line.
    assert!(rows.len() < 200, "{}", rows.len());
    let sum: u64 = rows.iter().map(|row| row["times"].as_u64().unwrap()).sum();
    assert!(sum >= 400, "{sum}: what is not told is counted");
    assert!(ringfence(&fence, &["audit", "verify"]).status.success());
}

/// K14: with `--report-reads` files are told of that the fence keeps from being read, and none that are nowhere.
#[test]
fn k14_reads_are_told_where_they_are_asked_for() {
    each(|fence| {
        fence.write(&[("other/secret", "SECRET\n"), ("project/.env", "SECRET\n"), ("project/plain", "plain\n")]);
        fence.policy("[files]\ndeny = [\"**/.env\"]\n");
        let attack =
            "cat $W/other/secret; cat ./.env; ln -s .env l; cat l; cat $W/other/nowhere; cat nothing; cat plain";
        let tried_with = |options: &[&str]| {
            let mut shell = Shell::start(fence, &[&["--policy", "ringfence.toml"], options].concat());
            let said = shell.does(attack);
            assert!(said.contains("plain") && !said.contains("SECRET"), "as {:?}: {said}", fence.who);
            shell.does("rm l");
            let id = shell.id.clone();
            shell.ends();
            lines(fence, &["violations", &id, "--json"])
        };
        let rows = tried_with(&["--report-reads"]);
        let mut paths: Vec<&str> = rows.iter().map(|row| row["path"].as_str().unwrap()).collect();
        paths.sort_unstable();
        let mut expected =
            [fence.path("other/secret"), fence.path("project/.env")].map(|path| path.display().to_string());
        expected.sort();
        assert_eq!(paths, expected, "as {:?}: {rows:?}", fence.who);
        let secret = rows.iter().find(|row| row["path"].as_str().unwrap().ends_with("secret")).unwrap();
        assert_eq!((secret["access"].as_str(), secret["program"].as_str()), (Some("read"), Some("cat")));
        assert!(secret["remedy"].as_str().unwrap().contains("--ref"), "{secret}");
        assert_eq!(tried_with(&[]), [Value::Null; 0], "nothing is looked at where nobody asked");
    });
}

/// K14: the report is written at the end, whole, where it was asked for and nowhere else.
#[test]
fn k14_a_report_where_it_was_asked_for() {
    each(|fence| {
        fence.policy(REACHES).write(&[("other/x", "")]);
        let report = fence.path("other/report.json");
        let script =
            "getent hosts evil.example.net; mv $W/project/out $W/project/was; ln -s $W/home $W/project/out; exit 3";
        let run = |report: &str| {
            let mut command = fence.ringfence();
            command.args(["run", "--policy", "ringfence.toml", "--report", report, "--", "/bin/sh", "-c"]);
            command.arg(fence.script(script)).output().unwrap()
        };
        let output = run(report.to_str().unwrap());
        assert_eq!(output.status.code(), Some(3), "as {:?}: {}", fence.who, text(&output.stderr));
        let said = text(&output.stderr);
        assert!(said.contains("ringfence: stopped: name evil.example.net"), "as {:?}: {said}", fence.who);
        let value: Value = serde_json::from_slice(&fs::read(&report).unwrap()).unwrap();
        assert_eq!((value["code"].as_u64(), value["schema"].as_u64()), (Some(3), Some(1)));
        assert_eq!(value["violations"][0]["host"], "evil.example.net");
        assert!(value["denied"].as_u64() >= Some(1));
        assert_eq!(fs::read_dir(fence.path("other")).unwrap().count(), 2, "nothing else is left there");
        // A directory that is put in the place of another is not written to.
        let _ = fs::remove_file(fence.path("project/out"));
        fence.write(&[("project/out/x", "")]);
        let output = run("out/report.json");
        assert_eq!(output.status.code(), Some(3), "as {:?}: {}", fence.who, text(&output.stderr));
        assert!(fence.path("project/was/report.json").exists() && !fence.path("home/report.json").exists());
        // What cannot be written is said before anything starts.
        fence.refused(&run("/nowhere/report.json"), "/nowhere/report.json");
    });
}

/// K14: the hook's refusals are violations too, and the client can show how many there were.
#[test]
fn k14_what_the_hook_refuses_is_counted() {
    each(|fence| {
        fence.policy("[files]\ndeny = [\"private\"]\n");
        let mut shell = Shell::start(fence, &["--agent", "claude"]);
        let call = serde_json::json!({"cwd": fence.path("project").to_str().unwrap(), "hook_event_name": "PreToolUse",
            "tool_name": "Read", "tool_input": {"file_path": "private/x"}});
        let hook =
            format!("echo '{call}' | \"$(dirname \"$HOME\")/given/ringfence\" hook claude > /dev/null 2>&1; echo $?");
        assert_eq!(shell.does(&hook), "2");
        assert_eq!(shell.does(&hook.replace("private/x", "private/\\u001b[2Jx")), "2");
        until("the client's line says so", || {
            shell.does("\"$(dirname \"$HOME\")/given/ringfence\" statusline").contains("| 2 denied")
        });
        let output = ringfence(fence, &["violations", &shell.id]);
        let said = text(&output.stdout);
        assert!(said.contains("hook tool Read"), "as {:?}: {said}", fence.who);
        assert!(said.chars().all(|c| c == '\n' || !c.is_control()), "as {:?}: {said:?}", fence.who);
    });
}

/// K14: on a terminal a line appears where it spoils nothing, and a full-screen program is left alone until its end. It appears once.
#[test]
fn k14_a_line_on_the_terminal_waits_for_a_calm_moment() {
    let fence = Fence::new(Who::Caller);
    fence.policy(REACHES);
    let start = |script: &str| {
        let mut command = fence.ringfence();
        command.args(["run", "--policy", "ringfence.toml", "--", "/bin/sh", "-c", script]);
        Screen::start(command)
    };
    let mut plain = start("echo begins; getent hosts one.example.net; read line; echo goes on");
    plain.wait_for("begins\r\n");
    plain.wait_for("ringfence: stopped: name one.example.net");
    plain.answers("x\r", "goes on");
    let told = |screen: Screen, name: &str| {
        let (code, shown) = screen.all();
        assert_eq!(code, Some(0), "{}", text(&shown));
        text(&shown).matches(&format!("ringfence: stopped: name {name}.example.net")).count()
    };
    assert_eq!(told(plain, "one"), 1);
    let mut full =
        start("printf '\\033[?1049h'; getent hosts two.example.net; read line; printf 'drawn\\033[?1049l\\n'");
    full.answers("x\r", "drawn");
    full.wait_for("ringfence: stopped: name two.example.net");
    assert_eq!(told(full, "two"), 1);
}
