//! K12: calls that the broker holds back while the user is asked: they wait, others go on, and what was judged is what is done.

use std::fs;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::live::{Shell, json, ringfence, until};
use super::{Fence, each, text};

fn waiting(fence: &Fence, id: &str) -> Vec<Value> {
    json(fence, &["approve", id, "--json"])["sessions"][0]["waiting"].as_array().unwrap().clone()
}

/// Starts a line in the background; its code goes to a file that is there once it has ended.
fn behind(name: &str, line: &str) -> String {
    format!("(sh -c '{line}' 2> {name}.err; echo $? > {name}.new; mv {name}.new {name}.code) > /dev/null 2>&1 & echo")
}

fn code(fence: &Fence, name: &str) -> String {
    let path = fence.path(format!("project/{name}.code"));
    until("the call has ended", || path.exists());
    let code = fs::read_to_string(&path).unwrap().trim().to_owned();
    fs::remove_file(path).unwrap();
    code
}

fn the_question(fence: &Fence, id: &str) -> Value {
    until("it waits", || waiting(fence, id).len() == 1);
    waiting(fence, id)[0].clone()
}

fn answers(fence: &Fence, arguments: &[&str]) {
    let output = ringfence(fence, arguments);
    assert!(output.status.success(), "as {:?}: {arguments:?}: {}", fence.who, text(&output.stderr));
}

fn there(fence: &Fence, name: &str) -> Option<String> {
    fs::read_to_string(fence.path(format!("project/{name}"))).ok()
}

/// K12: a call waits until the user has answered, and is then carried out or not. Two that ask the same are one question.
#[test]
fn k12_a_call_waits_for_the_user() {
    each(|fence| {
        fence.policy("");
        let mut shell = Shell::start(fence, &["--ask=50s"]);
        let id = shell.id.clone();
        shell.does(&behind("one", "echo 1 >> .envrc"));
        shell.does(&behind("two", "echo 1 >> .envrc"));
        until("both wait", || waiting(fence, &id).iter().any(|question| question["waiting"] == 2));
        let question = the_question(fence, &id);
        assert_eq!(
            (question["kind"].as_str(), question["access"].as_str()),
            (Some("path"), Some("write")),
            "{question}"
        );
        assert_eq!(question["path"].as_str(), fence.path("project/.envrc").to_str());
        // Others go on, also with files.
        assert_eq!(shell.does("echo x > plain && mv plain moved && mkdir -p d/e && cat moved"), "x");
        assert_eq!(there(fence, ".envrc"), None);
        answers(fence, &["approve", &id, &question["id"].to_string(), "--once"]);
        assert_eq!((code(fence, "one"), code(fence, "two")), ("0".to_owned(), "0".to_owned()), "as {:?}", fence.who);
        assert_eq!(there(fence, ".envrc").as_deref(), Some("1\n1\n"));
        // Once was once.
        shell.does(&behind("three", "echo 3 >> .envrc"));
        let number = the_question(fence, &id)["id"].to_string();
        answers(fence, &["deny", &id, &number]);
        assert_ne!(code(fence, "three"), "0");
        assert!(there(fence, "three.err").unwrap().contains("Permission denied"));
        // For the session, until it is taken back.
        shell.does(&behind("four", "echo 4 >> .envrc"));
        let number = the_question(fence, &id)["id"].to_string();
        answers(fence, &["approve", &id, &number, "--session"]);
        assert_eq!(code(fence, "four"), "0");
        assert_eq!(shell.does("echo 5 >> .envrc; echo $?"), "0");
        answers(fence, &["deny", &id, &number]);
        shell.does(&behind("five", "echo 6 >> .envrc"));
        let number = the_question(fence, &id)["id"].to_string();
        // For a time.
        answers(fence, &["approve", &id, &number, "--for", "1s"]);
        assert_eq!(code(fence, "five"), "0");
        until("its time is over", || {
            shell.does(&behind("six", "echo 7 >> .envrc"));
            until("it is asked about or done", || {
                fence.path("project/six.code").exists() || !waiting(fence, &id).is_empty()
            });
            let is_asked = !waiting(fence, &id).is_empty();
            if is_asked {
                answers(fence, &["deny", &id, &waiting(fence, &id)[0]["id"].to_string()]);
            }
            code(fence, "six");
            is_asked
        });
        // Another name, another question; whoever ends waits no longer.
        let caller = shell.does("mkdir .vscode > /dev/null 2>&1 & echo $!");
        the_question(fence, &id);
        shell.does(&format!("kill {caller}"));
        until("nobody waits", || waiting(fence, &id).is_empty());
        shell.ends();
        assert!(!fence.path("project/.vscode").exists());
    });
}

/// K12: nobody answers, and it is a no. What somebody denied by hand is not asked about.
#[test]
fn k12_silence_about_a_call_is_a_no() {
    each(|fence| {
        fence.policy("[files]\nprotect = [\"kept\"]\n").write(&[("project/plain", "")]);
        let mut shell = Shell::start(fence, &["--policy", "ringfence.toml", "--ask=1s"]);
        let began = Instant::now();
        assert!(shell.does("echo x > .envrc").contains("Permission denied"), "as {:?}", fence.who);
        assert!(began.elapsed() >= Duration::from_millis(900), "as {:?}: nobody was asked", fence.who);
        assert!(shell.does("echo x > kept").contains("Permission denied"));
        let id = shell.id.clone();
        shell.ends();
        let log = text(&ringfence(fence, &["logs", &id]).stdout);
        assert!(log.contains("nobody answered in time"), "as {:?}: {log}", fence.who);
        let asked = |name: &str| log.lines().any(|line| line.contains(" asks ") && line.contains(name));
        assert!(asked("/.envrc") && !asked("/kept"), "as {:?}: {log}", fence.who);
        assert!(!fence.path("project/.envrc").exists() && !fence.path("project/kept").exists());
    });
}

/// The path is another, and the descriptor leads elsewhere, once the question was asked.
const SWAP: &str = r#"
import ctypes, os, sys, threading, time
libc = ctypes.CDLL(None, use_errno=True)
os.makedirs("a"), os.makedirs("b")
path = ctypes.create_string_buffer(b".envrc", 16)
handle = os.open("a", os.O_RDONLY)
made = []
call = threading.Thread(target=lambda: made.append(libc.mkdirat(handle, path, 0o700)))
call.start()
while not os.path.exists("asked"):
    pass
path.value = b".npmrc"
os.dup2(os.open("b", os.O_RDONLY), handle)
os.rename("a", "c")
open("swapped", "w").close()
call.join()
print(made)
"#;

/// K12: what is changed while a call waits changes nothing of what is done: what was asked about is, or nothing.
#[test]
fn k12_what_is_swapped_while_a_call_waits_lands_nowhere() {
    each(|fence| {
        fence.policy("").write(&[("project/swap.py", SWAP)]);
        let mut shell = Shell::start(fence, &["--ask=50s"]);
        let id = shell.id.clone();
        shell.does(&behind("swap", "python3 swap.py"));
        let question = the_question(fence, &id);
        assert_eq!(question["path"].as_str(), fence.path("project/a/.envrc").to_str());
        fs::write(fence.path("project/asked"), "").unwrap();
        until("everything is swapped", || fence.path("project/swapped").exists());
        answers(fence, &["approve", &id, &question["id"].to_string(), "--once"]);
        // It is begun again, and is another question now: nobody said yes to that.
        until("it is settled", || fence.path("project/swap.code").exists() || waiting(fence, &id).len() == 1);
        if let Some(again) = waiting(fence, &id).first() {
            assert_ne!(again["path"], question["path"]);
            answers(fence, &["deny", &id, &again["id"].to_string()]);
        }
        code(fence, "swap");
        for place in ["b/.npmrc", "a/.npmrc", "c/.npmrc", "b/.envrc", ".npmrc", ".envrc"] {
            assert!(!fence.path(format!("project/{place}")).exists(), "as {:?}: {place}", fence.who);
        }
        shell.ends();
    });
}
