//! A12: sessions of a project that governs itself.

use crate::desk::{Desk, text};

const POLICY: &str = "version = 1\n[workspace]\nself_governing = true\n";

fn desk() -> Desk {
    let desk = Desk::of_nobody();
    desk.write("project/ringfence.toml", POLICY);
    desk.shown(desk.ringfence(&["trust"]));
    desk
}

/// A12, A14: no layer of the operating system; the environment is clean, the home is the session's, the hooks are on, and all of it is said.
#[test]
fn a12_a_session_that_governs_itself() {
    let desk = desk();
    desk.write("home/notes", "outside\n");
    let notes = desk.world.path("home/notes");
    let script = format!(
        "cat {}; env; echo written > governed; cat $(dirname ~)/given/claude-settings.json; \
         $(dirname ~)/given/ringfence statusline",
        notes.display()
    );
    desk.write("project/script", &script);
    let mut command = desk.ringfence(&["run", "--agent", "claude"]);
    command.env("AWS_SECRET_ACCESS_KEY", "SECRET").env("SSH_AUTH_SOCK", "/tmp/agent");
    let shown = desk.shown(command);
    assert!(shown.contains("SELF-GOVERNING: no OS layer is applied"), "{shown}");
    assert!(shown.contains("outside\n"), "nothing is fenced: {shown}");
    assert!(!shown.contains("SECRET") && !shown.contains("SSH_AUTH_SOCK"), "{shown}");
    assert!(shown.contains("RINGFENCE=1") && shown.contains("/sessions/"), "{shown}");
    assert!(shown.contains("given/ringfence hook claude") && shown.contains("NOT FENCED"), "{shown}");
    assert!(shown.contains("not held: nothing else is writable [writable]: the session governs itself"), "{shown}");
    let arguments = desk.arguments();
    assert!(arguments.contains("--setting-sources user") && arguments.contains("--settings "), "{arguments}");
    assert!(desk.world.path("project/governed").exists() && desk.sessions().is_empty());
    let receipts = std::fs::read_dir(desk.world.path("home/.local/state/ringfence/receipts")).unwrap();
    let receipts: Vec<String> = receipts.map(|entry| std::fs::read_to_string(entry.unwrap().path()).unwrap()).collect();
    assert!(receipts.iter().any(|text| text.contains("\"backend\": \"none\"")), "{receipts:?}");
}

/// A12: its exit code is the command's, a command that is not there is said, and production refuses.
#[test]
fn a12_codes_and_tiers() {
    let desk = desk();
    let code = |arguments: &[&str]| desk.ringfence(arguments).output().unwrap().status.code();
    assert_eq!(code(&["run", "--", "bash", "-c", "exit 7"]), Some(7));
    assert_eq!(code(&["run", "--", "bash", "-c", "kill -TERM $$"]), Some(143));
    assert_eq!(code(&["run", "--", "no-such-program"]), Some(127));
    desk.write("project/ringfence.toml", &format!("{POLICY}tier = \"production\"\n"));
    desk.shown(desk.ringfence(&["trust", "--force"]));
    let output = desk.ringfence(&["run", "--", "touch", "started"]).output().unwrap();
    assert_eq!(output.status.code(), Some(125), "{}", text(&output));
    assert!(!desk.world.path("project/started").exists());
}

/// A12: a limit on time holds also against a command that does not want to end.
#[test]
fn a12_a_limit_on_time() {
    let desk = Desk::of_nobody();
    desk.write("project/ringfence.toml", &format!("{POLICY}[limits]\nwall = \"3s\"\n"));
    desk.shown(desk.ringfence(&["trust"]));
    let output =
        desk.ringfence(&["run", "--", "bash", "-c", "trap '' TERM; while :; do sleep 1; done"]).output().unwrap();
    assert_eq!(output.status.code(), Some(137), "{}", text(&output));
}

/// K10: where namespaces can be had inside a session, a call there has a view of its own.
#[test]
fn k10_a_call_inside_has_a_view_of_its_own_where_it_can() {
    let desk = desk();
    desk.write("home/notes", "outside\n");
    let inner = format!(
        "readlink /proc/self/ns/mnt; cat {}; touch made; touch {}",
        desk.world.path("home/notes").display(),
        desk.world.path("home/no").display()
    );
    desk.write("project/inner", &inner);
    let outer =
        "readlink /proc/self/ns/mnt; \"$RINGFENCE_EXE\" exec --within \"$RINGFENCE_SESSION\" --write . -- sh inner";
    let output = desk.ringfence(&["run", "--", "bash", "-c", outer]).output().unwrap();
    let stdout = String::from_utf8(output.stdout.clone()).unwrap();
    let views: Vec<&str> = stdout.lines().filter(|line| line.starts_with("mnt:")).collect();
    assert!(views.len() == 2 && views[0] != views[1], "{stdout}\n{}", text(&output));
    assert!(!stdout.contains("outside"), "{stdout}");
    assert!(desk.world.path("project/made").exists() && !desk.world.path("home/no").exists(), "{}", text(&output));
}
