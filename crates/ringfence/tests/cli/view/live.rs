//! Sessions that run: listed, looked at, changed and ended from outside, and by nobody else.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Output, Stdio};
use std::time::{Duration, Instant};

use ringfence_session::desk::{Answer, Connection, Gives, Verb};
use ringfence_session::text::Bytes;
use ringfence_surface::AbsPath;
use serde_json::Value;

use super::{Fence, Who, each, is_root, text};

/// A session whose command is a shell that does what it is told.
pub(super) struct Shell<'f> {
    pub(super) fence: &'f Fence,
    pub(super) child: Child,
    pub(super) stdin: Option<ChildStdin>,
    pub(super) stdout: BufReader<ChildStdout>,
    pub(super) id: String,
}

impl<'f> Shell<'f> {
    pub(super) fn start(fence: &'f Fence, options: &[&str]) -> Self {
        let mut command = fence.ringfence();
        command.arg("run").args(options).args(["--", "/bin/sh"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (stdin, stdout) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        let mut shell = Self { fence, child, stdin, stdout, id: String::new() };
        shell.id = shell.does("echo $RINGFENCE_SESSION");
        assert!(!shell.id.is_empty(), "{}", shell.errors());
        shell
    }

    /// One line of answer to one line of script.
    pub(super) fn does(&mut self, script: &str) -> String {
        let script = self.fence.script(script);
        writeln!(self.stdin.as_mut().unwrap(), "{{ {script}; }} 2>&1 | tr '\\n' ' '; echo").unwrap();
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        line.trim().to_owned()
    }

    pub(super) fn errors(&mut self) -> String {
        let _ = self.child.kill();
        let mut said = String::new();
        let _ = self.child.stderr.take().unwrap().read_to_string(&mut said);
        said
    }

    pub(super) fn dir(&self) -> PathBuf {
        sessions(self.fence).join(&self.id)
    }

    /// Ends by itself.
    pub(super) fn ends(mut self) {
        drop(self.stdin.take());
        assert!(self.child.wait().unwrap().success());
    }

    pub(super) fn grant(&self, path: &str, more: &[&str]) -> Output {
        ringfence(self.fence, &[&["grant", &self.id, "--read", &self.fence.script(path)], more].concat())
    }

    pub(super) fn is_granted(&self, path: &str) {
        let output = self.grant(path, &[]);
        assert!(output.status.success(), "as {:?}: {}", self.fence.who, text(&output.stderr));
    }

    pub(super) fn is_refused(&self, path: &str, why: &str) {
        let output = self.grant(path, &[]);
        let said = text(&output.stderr);
        assert!(!output.status.success() && said.contains(why), "as {:?}: {path}: {said}", self.fence.who);
    }

    pub(super) fn revoke(&self, path: &str) -> Output {
        ringfence(self.fence, &["revoke", &self.id, &self.fence.script(path)])
    }
}

impl Drop for Shell<'_> {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(super) fn sessions(fence: &Fence) -> PathBuf {
    fence.path("home/.local/state/ringfence/sessions")
}

pub(super) fn ringfence(fence: &Fence, arguments: &[&str]) -> Output {
    fence.ringfence().args(arguments).output().unwrap()
}

pub(super) fn json(fence: &Fence, arguments: &[&str]) -> Value {
    let output = ringfence(fence, arguments);
    assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Longer than anything here takes on a busy machine; only a failure waits for it.
const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until something is so; nobody tells when it is.
pub(super) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < end, "{what}");
        std::thread::yield_now();
    }
}

/// K1: a session that runs changes over to the other mode and back, and the hook follows with the next tool call.
#[test]
fn k1_a_running_session_changes_its_mode() {
    each(|fence| {
        let mut shell = Shell::start(fence, &["--agent", "claude"]);
        let call = serde_json::json!({"cwd": fence.path("project").to_str().unwrap(), "hook_event_name": "PreToolUse",
            "tool_name": "Bash", "tool_input": {"command": "touch x"}});
        let hook =
            format!("echo '{call}' | \"$(dirname \"$HOME\")/given/ringfence\" hook claude > /dev/null 2>&1; echo $?");
        assert_eq!(shell.does(&hook), "2", "as {:?}", fence.who);
        for (mode, code) in [("auto", "0"), ("accept-edits", "2"), ("auto", "0")] {
            let output = ringfence(fence, &["mode", &shell.id, mode]);
            assert!(output.status.success(), "as {:?}: {}", fence.who, text(&output.stderr));
            assert_eq!(shell.does(&hook), code, "as {:?}: {mode}", fence.who);
        }
        // Asked about the session, its mode decides; without one, or where nothing is held back, it is said so.
        for (mode, code) in [("accept-edits", 1), ("auto", 0)] {
            assert!(ringfence(fence, &["mode", &shell.id, mode]).status.success());
            let explained = ringfence(fence, &["explain", "--session", &shell.id, "--command", "touch x"]);
            let said = text(&explained.stdout);
            assert!(said.contains(&format!("mode:   {mode}")) && said.contains("mutating: touch x"), "{said}");
            assert_eq!(explained.status.code(), Some(code), "as {:?}: {said}", fence.who);
            let read_only = ringfence(fence, &["explain", "--session", &shell.id, "--command", "ls"]);
            assert_eq!(read_only.status.code(), Some(0), "as {:?}", fence.who);
        }
        // Whoever works inside cannot do so.
        let planted = shell.does("echo auto > \"$(dirname \"$HOME\")/given/mode\" && echo done");
        assert!(!planted.contains("done"), "{planted}");
        let audit = ringfence(fence, &["audit", "--json", "--session", &shell.id]);
        assert_eq!(text(&audit.stdout).matches("\"event\":\"mode\"").count(), 5, "{}", text(&audit.stdout));
        shell.ends();
        // Without a client there is nothing to hold back.
        let plain = Shell::start(fence, &[]);
        let explained = ringfence(fence, &["explain", "--session", &plain.id, "--command", "touch x"]);
        assert!(explained.status.success() && text(&explained.stdout).contains("mode:   none"));
        let output = ringfence(fence, &["mode", &plain.id, "auto"]);
        assert!(text(&output.stderr).contains("no tool call is held back"), "{}", text(&output.stderr));
        plain.ends();
    });
}

#[test]
fn a10_sessions_are_listed_shown_and_ended() {
    each(|fence| {
        let mut shell = Shell::start(fence, &[]);
        let listed = json(fence, &["ps", "--json"]);
        let one = &listed["sessions"][0];
        assert_eq!((&one["id"], &one["state"]), (&Value::from(shell.id.as_str()), &Value::from("running")));
        assert_eq!(one["session"]["project"], Value::from(fence.path("project").to_str().unwrap()));
        assert_eq!((&one["session"]["rung"], &one["session"]["command"][0]), (&"native".into(), &"/bin/sh".into()));
        assert!(text(&ringfence(fence, &["ps"]).stdout).contains(&shell.id));
        let shown = json(fence, &["show", &shell.id[..5], "--json"]);
        assert_eq!(shown["sessions"][0]["grants"], Value::Array(Vec::new()));
        assert!(!ringfence(fence, &["show", "nothing"]).status.success());
        let stopped = ringfence(fence, &["stop", &shell.id]);
        assert!(stopped.status.success(), "{}", text(&stopped.stderr));
        let code = shell.child.wait().unwrap().code();
        assert_eq!(code, Some(143), "{}", shell.errors());
        assert!(shell.errors().contains("ended by `ringfence stop`"));
        fence.left_nothing();
        assert_eq!(json(fence, &["ps", "--json"])["sessions"], Value::Array(Vec::new()));
        let past = json(fence, &["ps", "--all", "--json"]);
        assert_eq!((&past["sessions"][0]["state"], &past["sessions"][0]["code"]), (&"ended".into(), &143.into()));
        let said = text(&ringfence(fence, &["stop", &shell.id]).stderr);
        assert!(said.contains("has ended"), "{said}");
        let logs = text(&ringfence(fence, &["logs", &shell.id]).stdout);
        assert!(logs.contains("start /bin/sh in") && logs.contains("end with code 143"), "{logs}");
        assert!(ringfence(fence, &["audit", "verify"]).status.success());
    });
}

/// One that does not listen to being asked is told.
#[test]
fn a10_a_command_that_ignores_signals_is_ended() {
    each(|fence| {
        let mut shell = Shell::start(fence, &[]);
        shell.does("true");
        writeln!(shell.stdin.as_mut().unwrap(), "trap '' TERM INT HUP; setsid sleep 600 & echo ready; wait; wait")
            .unwrap();
        let mut line = String::new();
        shell.stdout.read_line(&mut line).unwrap();
        assert!(ringfence(fence, &["stop", &shell.id]).status.success());
        assert_eq!(shell.child.wait().unwrap().code(), Some(137));
        fence.left_nothing();
    });
}

/// A hundred sessions at once: each has a name and a fence of its own, all are listed, and none leaves anything.
#[test]
fn a10_a_hundred_sessions_at_once() {
    let fence = Fence::new(if is_root() { Who::Nobody } else { Who::Caller });
    let start = |_| {
        let mut command = fence.ringfence();
        command.args([
            "run",
            "--",
            "/bin/sh",
            "-c",
            "echo $RINGFENCE_SESSION; read line; echo $line > $HOME/x; cat $HOME/x; exit 7",
        ]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap()
    };
    let mut all: Vec<Child> = (0..100).map(start).collect();
    let mut outputs: Vec<_> = all.iter_mut().map(|child| BufReader::new(child.stdout.take().unwrap())).collect();
    let mut ids = std::collections::BTreeSet::new();
    for output in &mut outputs {
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        ids.insert(line.trim().to_owned());
    }
    assert_eq!(ids.len(), 100);
    let listed = json(&fence, &["ps", "--json"]);
    let listed = listed["sessions"].as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap().to_owned());
    assert_eq!(listed.collect::<std::collections::BTreeSet<_>>(), ids);
    for (number, child) in all.iter_mut().enumerate() {
        writeln!(child.stdin.take().unwrap(), "this is {number}").unwrap();
    }
    for (number, (child, output)) in all.iter_mut().zip(&mut outputs).enumerate() {
        let mut said = String::new();
        output.read_to_string(&mut said).unwrap();
        assert_eq!((said, child.wait().unwrap().code()), (format!("this is {number}\n"), Some(7)));
    }
    fence.left_nothing();
    assert_eq!(json(&fence, &["ps", "--all", "--json"])["sessions"].as_array().unwrap().len(), 100);
    assert!(ringfence(&fence, &["audit", "verify"]).status.success());
}

/// K7 K13: what the user points at while the command runs can be read, until it is taken away.
#[test]
fn k13_a_place_reaches_the_running_command_and_is_taken_away() {
    each(|fence| {
        fence.write(&[("other/data/file", "hello\n"), ("other/data/sub/.env", "SECRET\n"), ("other/one", "single\n")]);
        fence.policy("[files]\ndeny = [\"**/.env\", \"**/never\"]\n");
        fence.write(&[("other/data/never/x", "SECRET\n"), ("other/never/x", "SECRET\n")]);
        let mut shell = Shell::start(fence, &[]);
        assert!(shell.does("cat $W/other/data/file").contains("No such file"));
        shell.is_granted("$W/other/data");
        assert_eq!(shell.does("cat $W/other/data/file"), "hello");
        assert!(shell.does("cat $W/other/data/sub/.env").contains("Permission denied"));
        assert!(shell.does("ls $W/other/data/never; cat $W/other/data/never/x").contains("Permission denied"));
        // Nothing beside it.
        assert!(shell.does("cat $W/other/one").contains("No such file"));
        assert_eq!(shell.does("ls -A $W/other"), "data");
        for write in [
            "echo x > $W/other/data/new",
            "echo x >> $W/other/data/file",
            "rm $W/other/data/file",
            "mv $W/other/data $W/other/x",
            "mkdir $W/other/mine",
            "chmod 777 $W/other/data",
            "touch -d 2001-01-01 $W/other/data/file",
            "ln $W/other/data/file $W/project/file",
        ] {
            let said = shell.does(&format!("{write} && echo DONE"));
            assert!(!said.contains("DONE"), "as {:?}: {write}: {said}", fence.who);
        }
        assert_eq!(fs::read_to_string(fence.path("other/data/file")).unwrap(), "hello\n");
        // A file by itself.
        shell.is_granted("$W/other/one");
        assert_eq!(shell.does("cat $W/other/one; ls -A $W/other"), "single data one");
        let shown = json(fence, &["show", &shell.id, "--json"]);
        assert_eq!(shown["sessions"][0]["grants"].as_array().unwrap().len(), 2);
        // What is open stays open, and nothing else does.
        let said = shell.does("exec 7< $W/other/data/file; echo opened");
        assert_eq!(said, "opened");
        assert!(shell.revoke("$W/other/data").status.success());
        assert!(shell.does("cat $W/other/data/file").contains("No such file"));
        assert_eq!(shell.does("ls -A $W/other"), "one");
        assert!(shell.revoke("$W/other/one").status.success());
        assert!(shell.does("ls $W/other").contains("No such file"));
        let said = text(&shell.revoke("$W/other/one").stderr);
        assert!(said.contains("was not given"), "{said}");
        // Again, at the same place.
        shell.is_granted("$W/other/data");
        assert_eq!(shell.does("cat $W/other/data/file"), "hello");
        // Whoever asked is answered a moment before it is written down.
        until("each is written down once", || {
            let logs = text(&ringfence(fence, &["logs", &shell.id]).stdout);
            (logs.matches("grant read").count(), logs.matches("revoke ").count()) == (3, 2)
        });
        shell.ends();
        fence.left_nothing();
        assert!(ringfence(fence, &["audit", "verify"]).status.success());
    });
}

/// K13: a place that is given to be written is, by the broker; what is denied or protected in it stays so.
#[test]
fn k13_a_place_is_written_and_taken_away() {
    each(|fence| {
        fence.write(&[("other/data/file", "hello\n"), ("other/data/.env", "SECRET\n")]);
        fence.policy("[files]\ndeny = [\"**/.env\"]\n");
        let mut shell = Shell::start(fence, &[]);
        let grant = |shell: &Shell<'_>| {
            ringfence(shell.fence, &["grant", &shell.id, "--write", &shell.fence.script("$W/other/data")])
        };
        let output = grant(&shell);
        assert!(output.status.success(), "as {:?}: {}", fence.who, text(&output.stderr));
        let writes = "cd $W/other/data && echo new > new && mkdir d && mv new d/moved && cat d/moved && rm -r d && cd / && echo DONE";
        assert_eq!(shell.does(writes), "new DONE", "as {:?}", fence.who);
        for write in [
            "cat $W/other/data/.env",
            "echo x > $W/other/data/.env",
            "mkdir $W/other/data/sub && echo x > $W/other/data/sub/.env",
            "echo x > $W/other/data/.envrc",
            "echo x > $W/other/beside",
        ] {
            let said = shell.does(&format!("{write} && echo DONE"));
            assert!(!said.contains("DONE"), "as {:?}: {write}: {said}", fence.who);
        }
        assert!(shell.revoke("$W/other/data").status.success());
        assert!(shell.does("echo x > $W/other/data/again; ls $W/other/data").contains("No such file"));
        assert!(!fence.path("other/data/again").exists());
        // What was given twice, to be read and to be written, is taken away as a whole.
        let read = ["grant", &shell.id, "--read", &fence.script("$W/other/data")];
        assert!(ringfence(fence, &read).status.success());
        // Whoever was refused and tries again in the same words is not sent to what lies below.
        let tries = "(cd $W/other && echo z > data/again && rm data/again && echo DONE)";
        let said = shell.does(tries);
        assert!(!said.contains("DONE"), "as {:?}: {said}", fence.who);
        assert!(grant(&shell).status.success());
        assert_eq!(shell.does(tries), "DONE", "as {:?}", fence.who);
        assert_eq!(shell.does("cat $W/other/data/file; echo FRESH > $W/other/data/file && echo DONE"), "hello DONE");
        assert!(shell.revoke("$W/other/data").status.success());
        let said = shell.does("cat $W/other/data/file; echo z > $W/other/data/file && echo DONE");
        assert!(!said.contains("FRESH") && !said.contains("DONE"), "as {:?}: {said}", fence.who);
        assert!(!text(&ringfence(fence, &["show", &shell.id]).stdout).contains("granted"));
        shell.ends();
        fence.left_nothing();
    });
}

#[test]
fn k13_what_is_denied_or_somebody_elses_is_not_given() {
    each(|fence| {
        fence.write(&[("home/.ssh/id", "SECRET\n"), ("other/keys/k", "SECRET\n"), ("other/ok/f", "x\n")]);
        fence.policy("[files]\ndeny = [\"../other/keys\"]\n");
        let link = fence.path("other/link");
        std::os::unix::fs::symlink(fence.path("other/keys"), &link).unwrap();
        let shell = Shell::start(fence, &[]);
        shell.is_refused("$W/home/.ssh", "is denied");
        shell.is_refused("$W/home/.ssh/id", "is denied");
        shell.is_refused("$W/other/keys", "is denied");
        // Links are followed before anything is asked.
        shell.is_refused("$W/other/link", "is denied");
        shell.is_refused("$W/other/link/k", "is denied");
        shell.is_refused("$W/home/.local/state/ringfence", "is denied");
        shell.is_refused("$W/project", "can be read already");
        shell.is_refused("/tmp", "of which the session has its own");
        shell.is_refused("/", "the whole host");
        shell.is_refused("$W", "would be covered");
        shell.is_refused("$W/other/none", "there is no ");
        shell.is_granted("$W/other/ok");
        shell.is_refused("$W/other", "lies in the other");
        let all = "not granted";
        assert!(text(&ringfence(fence, &["logs", &shell.id]).stdout).contains(all));
    });
}

#[test]
fn k13_a_grant_ends_when_its_time_is_over() {
    each(|fence| {
        fence.write(&[("other/file", "hello\n")]);
        let mut shell = Shell::start(fence, &[]);
        // Long enough to be seen on a busy machine.
        assert!(shell.grant("$W/other", &["--for", "5s"]).status.success());
        assert_eq!(shell.does("cat $W/other/file"), "hello");
        until("the grant stays", || shell.does("cat $W/other/file").contains("No such file"));
        // It is written down a moment later.
        until("nothing is said of it", || {
            text(&ringfence(fence, &["logs", &shell.id]).stdout).contains("its time is over")
        });
        // One that is renewed in time stays.
        assert!(shell.grant("$W/other", &["--for", "5s"]).status.success());
        shell.is_granted("$W/other");
        let end = Instant::now() + Duration::from_millis(5_500);
        until("the time goes by", || Instant::now() > end);
        assert_eq!(shell.does("cat $W/other/file"), "hello");
    });
}

/// K13: what is asked for again just as its time is over is given, whichever of the two comes first.
#[test]
fn k13_a_grant_is_renewed_as_it_ends() {
    let fence = &Fence::new(Who::Caller);
    fence.write(&[("other/file", "hello\n")]);
    let shell = Shell::start(fence, &[]);
    let path = fence.path("other");
    let status = fs::metadata(&path).unwrap();
    let dir = AbsPath::lexical(shell.dir().as_os_str().as_bytes()).unwrap();
    // Its end moves over all that the command does, which looks at what is given and then asks.
    let began = Instant::now();
    shell.is_granted("$W/other");
    let takes = u64::try_from(began.elapsed().as_millis()).unwrap();
    for round in 0..60 {
        let verb = Verb::Grant {
            path: Bytes::new(path.as_os_str().as_bytes()),
            access: Gives::Read,
            device: status.dev(),
            inode: status.ino(),
            for_ms: Some(1 + takes * round / 60),
            masked: Vec::new(),
        };
        assert_eq!(Connection::open(&dir).unwrap().ask(verb).unwrap(), Answer::Done);
        shell.is_granted("$W/other");
        assert!(text(&ringfence(fence, &["show", &shell.id]).stdout).contains("granted"), "{round}");
    }
}

/// The record that the hook and calls decide by.
#[test]
fn k13_decisions_see_a_grant_at_once() {
    each(|fence| {
        fence.write(&[("other/file", "hello\n")]);
        let shell = Shell::start(fence, &[]);
        let grants = || fs::read_to_string(shell.dir().join("given/grants")).unwrap_or_default();
        let explains = |question: [&str; 2]| {
            let question = question.map(|word| fence.script(word));
            let output = ringfence(fence, &["explain", "--session", &shell.id, &question[0], &question[1]]);
            output.status.code().unwrap()
        };
        assert_eq!((explains(["--read", "$W/other/file"]), explains(["--host", "given.example.com"])), (1, 1));
        shell.is_granted("$W/other");
        assert!(grants().contains(fence.path("other").to_str().unwrap()), "{}", grants());
        let given = ringfence(fence, &["grant", &shell.id, "--host", "given.example.com"]);
        assert!(given.status.success(), "{}", text(&given.stderr));
        assert_eq!((explains(["--read", "$W/other/file"]), explains(["--host", "given.example.com"])), (0, 0));
        assert_eq!((explains(["--write", "$W/other/file"]), explains(["--host", "given.example.com:22"])), (1, 1));
        assert!(shell.revoke("$W/other").status.success());
        assert!(ringfence(fence, &["revoke", &shell.id, "--host", "given.example.com"]).status.success());
        assert_eq!((explains(["--read", "$W/other/file"]), explains(["--host", "given.example.com"])), (1, 1));
        assert!(grants().trim_end().ends_with(" []"), "{}", grants());
    });
}

/// Fences whose view is not ours to change say so.
#[test]
fn k13_other_fences_refuse_with_a_remedy() {
    each(|fence| {
        fence.write(&[("other/file", "hello\n")]);
        for options in [&["--backend", "bwrap"][..], &["--backend", "landlock"]] {
            let shell = Shell::start(fence, options);
            let output = shell.grant("$W/other", &[]);
            let said = text(&output.stderr);
            assert!(!output.status.success() && said.contains("cannot be changed") && said.contains("--ref"), "{said}");
            let stopped = ringfence(fence, &["stop", &shell.id]);
            assert!(stopped.status.success(), "{options:?}: {}", text(&stopped.stderr));
            let mut shell = shell;
            assert!(!shell.child.wait().unwrap().success());
        }
        fence.write(&[("project/host.toml", "version = 1\n[files]\nview = \"host\"\n")]);
        let shell = Shell::start(fence, &["--policy", "host.toml"]);
        let said = text(&shell.grant("$W/other", &[]).stderr);
        assert!(said.contains("cannot be changed") || said.contains("can be read already"), "{said}");
    });
}
