//! Conversations with a supervisor, by the user's programs and by everybody else.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::FileTypeExt as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use ringfence_testkit::report_skip;
use serde_json::Value;

use super::live::{Shell, ringfence, sessions, until};
use super::{Fence, NOBODY, Who, each, is_root, text};

fn open_descriptors(pid: u32) -> usize {
    fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count()
}

/// Does it notice what becomes of files?
fn notices(pid: u32) -> bool {
    let open = fs::read_dir(format!("/proc/{pid}/fd")).unwrap().flatten();
    open.filter_map(|entry| fs::read_link(entry.path()).ok()).any(|kind| kind == Path::new("anon_inode:inotify"))
}

/// Without the pages of the program itself: those come and go.
fn memory_kib(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// What a supervisor asks of whoever talks to it.
fn token(dir: &Path) -> String {
    let kept: Value = serde_json::from_slice(&fs::read(dir.join("session.json")).unwrap()).unwrap();
    kept["token"].as_str().unwrap().to_owned()
}

/// A conversation with a supervisor, as any program of the user's could have one.
struct Wire(BufReader<UnixStream>, String);

impl Wire {
    fn open(dir: &Path) -> Self {
        let token = token(dir);
        Self(BufReader::new(UnixStream::connect(dir.join("control")).unwrap()), token)
    }

    fn ask(&mut self, verb: Value) -> Value {
        writeln!(self.0.get_mut(), "{}", serde_json::json!({ "v": 1, "token": self.1, "ask": verb })).unwrap();
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        serde_json::from_str::<Value>(&line).unwrap_or_else(|_| panic!("{line:?}"))["answer"].clone()
    }

    fn done(&mut self, verb: Value) {
        let answer = self.ask(verb);
        assert_eq!(answer["is"], "done", "{answer}");
    }
}

fn grant_of(path: &Path) -> Value {
    use std::os::unix::fs::MetadataExt as _;
    let status = fs::metadata(path).unwrap();
    let (device, inode) = (status.dev(), status.ino());
    serde_json::json!({ "verb": "grant", "path": path.to_str().unwrap(), "device": device, "inode": inode, "masked": [] })
}

/// A thousand grants and revocations leave nothing; half of them take the time that the bars allow.
#[test]
fn k13_a_thousand_grants_leave_nothing() {
    let fence = Fence::new(if is_root() { Who::Nobody } else { Who::Caller });
    fence.write(&[("other/a/file", "hello\n")]);
    let mut shell = Shell::start(&fence, &[]);
    let pid = shell.child.id();
    let mut wire = Wire::open(&shell.dir());
    let place = fence.path("other/a");
    let (grant, revoke) = (grant_of(&place), serde_json::json!({ "verb": "revoke", "path": place.to_str().unwrap() }));
    let mounts = |shell: &mut Shell<'_>| shell.does("wc -l < /proc/self/mountinfo; find / -xdev 2>/dev/null | wc -l");
    for _ in 0..50 {
        wire.done(grant.clone());
        wire.done(revoke.clone());
    }
    // Whoever looks after the guards starts a moment after the program, and keeps one open by which it notices things.
    until("somebody looks after the guards", || notices(pid));
    let before = (mounts(&mut shell), open_descriptors(pid));
    let memory = memory_kib(pid);
    let (mut given, mut taken) = (Vec::new(), Vec::new());
    for _ in 0..1_000 {
        let start = Instant::now();
        wire.done(grant.clone());
        given.push(start.elapsed());
        let start = Instant::now();
        wire.done(revoke.clone());
        taken.push(start.elapsed());
    }
    until("processes stay", || {
        fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap().split(' ').count() <= 2
    });
    assert_eq!(mounts(&mut shell), before.0);
    until("descriptors stay", || open_descriptors(pid) <= before.1);
    let grown = memory_kib(pid).saturating_sub(memory);
    assert!(grown < 1_024, "{grown} KiB more");
    given.sort();
    taken.sort();
    let (given, taken) = (given[500], taken[500]);
    // The bars are 1 ms and 10 ms; a machine under load takes longer, and cargo xtask bench is where they are held.
    assert!(given < Duration::from_millis(200) && taken < Duration::from_millis(200), "{given:?} and {taken:?}");
    shell.ends();
    assert!(ringfence(&fence, &["audit", "verify"]).status.success());
}

/// What a supervisor is told by nobody in particular.
#[test]
fn k11_a_supervisor_refuses_nonsense_and_goes_on() {
    each(|fence| {
        let mut shell = Shell::start(fence, &[]);
        for nonsense in [
            "",
            "{}",
            "[]",
            "null",
            "{\"v\":1}",
            "{\"v\":1,\"ask\":{\"verb\":\"unknown\"}}",
            "{\"v\":1,\"ask\":{\"verb\":\"status\"},\"more\":1}",
            "{\"v\":1,\"ask\":{\"verb\":\"status\",\"more\":1}}",
            "{\"v\":2,\"token\":\"\",\"ask\":{\"verb\":\"status\"}}",
            "{\"v\": 1,\"token\":\"\",\"ask\":{\"verb\":\"status\"}}",
            "{\"v\": 1,\"token\":\"00000000000000000000000000000000\",\"ask\":{\"verb\":\"stop\"}}",
            "{\"v\": 1,\"ask\":{\"verb\":\"stop\"}}",
            "{\"v\":1,\"ask\":{\"verb\":\"grant\",\"path\":\"relative\",\"device\":1,\"inode\":1,\"masked\":[]}}",
            "{\"v\":1,\"ask\":{\"verb\":\"grant\",\"path\":\"/\",\"device\":1,\"inode\":1,\"masked\":[]}}",
            "{\"v\":1,\"ask\":{\"verb\":\"grant\",\"path\":\"/a/../b\",\"device\":1,\"inode\":1,\"masked\":[]}}",
            "{\"v\":1,\"ask\":{\"verb\":\"grant\",\"path\":{\"hex\":\"zz\"},\"device\":1,\"inode\":1,\"masked\":[]}}",
            "{\"v\":1,\"ask\":{\"verb\":\"revoke\",\"path\":\"/tmp\"}}",
            "\u{0}\u{1}",
        ] {
            let mut wire = Wire::open(&shell.dir());
            let token = format!("\"v\":1,\"token\":\"{}\"", wire.1);
            writeln!(wire.0.get_mut(), "{}", nonsense.replace("\"v\":1", &token)).unwrap();
            let mut line = String::new();
            wire.0.read_line(&mut line).unwrap();
            assert!(line.contains("refused"), "{nonsense}: {line}");
            assert_eq!(wire.ask(serde_json::json!({ "verb": "status" }))["is"], "status", "{nonsense}");
        }
        // Masks that lie elsewhere.
        fence.write(&[("other/file", "hello\n")]);
        let mut grant = grant_of(&fence.path("other"));
        grant["masked"] = serde_json::json!([{ "path": "/etc/passwd", "directory": false }]);
        let mut wire = Wire::open(&shell.dir());
        assert_eq!(wire.ask(grant)["is"], "refused");
        // Another thing stands there than was seen.
        let mut grant = grant_of(&fence.path("other"));
        grant["inode"] = 1.into();
        let answer = wire.ask(grant);
        assert!(answer["why"].as_str().unwrap().contains("moved or replaced"), "{answer}");
        assert_eq!(shell.does("echo well"), "well");
    });
}

/// Clients that say nothing, say too much, never listen, or are many.
#[test]
fn k11_slow_and_greedy_clients_do_not_stall_a_session() {
    let fence = Fence::new(Who::Caller);
    let mut shell = Shell::start(&fence, &[]);
    let pid = shell.child.id();
    let memory = memory_kib(pid);
    let connect = || UnixStream::connect(shell.dir().join("control")).unwrap();
    let silent: Vec<UnixStream> = (0..40).map(|_| connect()).collect();
    // A line that never ends.
    let endless = connect();
    endless.set_write_timeout(Some(Duration::from_millis(500))).unwrap();
    let mut sent = 0;
    while sent < 8 << 20 {
        match (&endless).write(&[b'x'; 65_536]) {
            Ok(count) => sent += count,
            Err(_) => break,
        }
    }
    // One that asks and never listens.
    let deaf = connect();
    deaf.set_write_timeout(Some(Duration::from_millis(500))).unwrap();
    let token = token(&shell.dir());
    let question = format!("{{\"v\":1,\"token\":\"{token}\",\"ask\":{{\"verb\":\"status\"}}}}\n").repeat(1_000);
    for _ in 0..20 {
        if (&deaf).write_all(question.as_bytes()).is_err() {
            break;
        }
    }
    let start = Instant::now();
    assert_eq!(shell.does("echo well"), "well");
    let said = Wire::open(&shell.dir()).ask(serde_json::json!({ "verb": "status" }));
    assert_eq!(said["is"], "status");
    assert!(!said.to_string().contains(&token), "{said}");
    // Whoever waited for one of them would wait for ever.
    assert!(start.elapsed() < Duration::from_secs(30), "{:?}", start.elapsed());
    assert!(memory_kib(pid).saturating_sub(memory) < 16 << 10, "{} KiB", memory_kib(pid));
    assert!(open_descriptors(pid) < 64, "{}", open_descriptors(pid));
    drop((silent, endless, deaf));
    shell.ends();
}

/// Sends connections that are full and linger, and leaves them to whoever gets them. Who ends does not wait, and who is sent one
/// and closes it later does.
const LINGERS: &str = "
import array, os, socket, struct, time
listener = socket.create_server(('127.0.0.1', 0))
def send(name, kind):
    full = socket.create_connection(listener.getsockname())
    full.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 60))
    full.setblocking(False)
    try:
        while True:
            full.send(bytes(65536))
    except BlockingIOError:
        pass
    to = socket.socket(socket.AF_UNIX, kind)
    to.connect(os.path.dirname(os.environ['RINGFENCE_EXE']) + name)
    to.sendmsg([b'{}'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [full.fileno()]))])
others = []
doors = [('/calls', socket.SOCK_STREAM), ('/asks', socket.SOCK_SEQPACKET), ('/verdicts', socket.SOCK_DGRAM)]
for door in doors * 20:
    child = os.fork()
    if child == 0:
        try:
            send(*door)
        finally:
            os._exit(0)
    others.append(listener.accept())
    os.waitpid(child, 0)
print('sent', flush=True)
time.sleep(40)
";

/// A descriptor that is sent to a supervisor from inside does not hold it up.
#[test]
fn k11_nobody_inside_makes_a_supervisor_wait() {
    each(|fence| {
        fence.write(&[("project/lingers.py", LINGERS)]);
        let mut shell = Shell::start(fence, &["--calls"]);
        let said = shell
            .does("python3 -I lingers.py > said 2>&1 < /dev/null & until test -s said; do sleep 0.1; done; cat said");
        assert_eq!(said, "sent", "as {:?}", fence.who);
        let start = Instant::now();
        let stopped = ringfence(fence, &["stop", &shell.id]);
        assert!(stopped.status.success(), "as {:?}: {}", fence.who, text(&stopped.stderr));
        assert!(start.elapsed() < Duration::from_secs(20), "as {:?}: {:?}", fence.who, start.elapsed());
    });
}

#[test]
fn k11_events_are_told_to_who_asks_for_them() {
    each(|fence| {
        fence.write(&[("other/file", "hello\n")]);
        let shell = Shell::start(fence, &[]);
        let mut wire = Wire::open(&shell.dir());
        wire.done(serde_json::json!({ "verb": "subscribe" }));
        shell.is_granted("$W/other");
        let mut line = String::new();
        wire.0.read_line(&mut line).unwrap();
        let event: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(event["answer"]["happened"]["event"], "grant", "{line}");
        shell.ends();
        let mut rest = String::new();
        wire.0.read_to_string(&mut rest).unwrap();
        assert!(rest.contains("\"end\""), "{rest}");
    });
}

/// Another user can neither read what is kept nor talk to a supervisor.
#[test]
fn k11_another_user_reads_nothing_and_is_not_answered() {
    if !is_root() {
        return report_skip("another user at the control socket: the tests do not run as root");
    }
    let fence = Fence::new(Who::Nobody);
    fence.write(&[("other/file", "x\n")]);
    let shell = Shell::start(&fence, &[]);
    shell.is_granted("$W/other");
    let state = fence.path("home/.local/state/ringfence");
    // Even where the home directory is open to all.
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    for dir in ["home", "home/.local", "home/.local/state", "home/.local/state/ringfence"] {
        fs::set_permissions(fence.path(dir), open_mode(&open)).unwrap();
    }
    let stranger = NOBODY - 7;
    let script = format!(
        "cd {}; cat sessions/*/session.json sessions/{}/session.json ended.jsonl audit/log.jsonl audit/head; ls sessions audit; \
         /usr/bin/python3 -c 'import socket; s = socket.socket(socket.AF_UNIX); s.connect(\"sessions/{}/control\"); print(\"CONNECTED\")'",
        state.display(),
        shell.id,
        shell.id
    );
    let mut command = std::process::Command::new("setpriv");
    command.args([&format!("--reuid={stranger}"), &format!("--regid={stranger}"), "--clear-groups"]);
    // The words of a refusal are looked for.
    let output = command.args(["/bin/sh", "-c", &script]).env("LC_ALL", "C").output().unwrap();
    let (said, errors) = (text(&output.stdout), text(&output.stderr));
    assert!(said.is_empty(), "{said}");
    assert!(errors.matches("Permission denied").count() >= 5, "{errors}");
    // One who gets as far as the socket is not answered.
    for dir in [sessions(&fence), shell.dir()] {
        fs::set_permissions(&dir, open_mode(&open)).unwrap();
    }
    let wide = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    fs::set_permissions(shell.dir().join("control"), open_mode(&wide)).unwrap();
    let script = format!(
        "import socket\ns = socket.socket(socket.AF_UNIX)\ns.connect('{}/control')\ns.settimeout(20)\n\
         try:\n  s.sendall(b'{{\"v\":1,\"ask\":{{\"verb\":\"status\"}}}}\\n')\n  print(s.recv(100))\nexcept OSError: print(b'')\n",
        shell.dir().display()
    );
    let mut command = std::process::Command::new("setpriv");
    command.args([&format!("--reuid={stranger}"), &format!("--regid={stranger}"), "--clear-groups"]);
    let output = command.args(["/usr/bin/python3", "-I", "-c", &script]).output().unwrap();
    assert_eq!(text(&output.stdout).trim(), "b''", "{}", text(&output.stderr));
    // The session's own user and root are.
    assert_eq!(Wire::open(&shell.dir()).ask(serde_json::json!({ "verb": "status" }))["is"], "status");
}

fn open_mode(mode: &fs::Permissions) -> fs::Permissions {
    mode.clone()
}

/// Inside, no supervisor can be talked to: neither the session's own nor another's. With Landlock alone sockets can be connected
/// to, and the token that is asked for cannot be read.
#[test]
fn k11_the_command_reaches_no_supervisor() {
    each(|fence| {
        let other = Shell::start(fence, &[]);
        assert!(fs::metadata(other.dir().join("control")).unwrap().file_type().is_socket());
        fence.write(&[("project/ask.py", ASK)]);
        for options in [&[][..], &["--backend", "bwrap"], &["--backend", "landlock"]] {
            let mut shell = Shell::start(fence, options);
            let state = fence.path("home/.local/state/ringfence").display().to_string();
            let said =
                shell.does(&format!("python3 -I ask.py {state}/sessions/{} {state}/sessions/{}", shell.id, other.id));
            assert!(said == "DONE", "as {:?}, {options:?}: {said}", fence.who);
            assert!(shell.child.try_wait().unwrap().is_none());
        }
        let mut other = other;
        assert_eq!(other.does("echo well"), "well");
    });
}

const ASK: &str = r#"
import json, os, socket, sys
for dir in sys.argv[1:]:
    for name in ["session.json", "../../audit/log.jsonl", "../../audit/head", "../../ended.jsonl"]:
        try:
            print("READ", name, open(dir + "/" + name).read()[:20])
        except OSError:
            pass
        try:
            open(dir + "/" + name, "a")
            print("OPENED", name)
        except OSError:
            pass
    for token in ["", "0" * 32]:
        try:
            s = socket.socket(socket.AF_UNIX)
            s.settimeout(20)
            s.connect(dir + "/control")
            s.sendall(json.dumps({"v": 1, "token": token, "ask": {"verb": "stop"}}).encode() + b"\n")
            said = s.recv(1000)
            if b"refused" not in said and said:
                print("ANSWERED", said)
        except OSError:
            pass
print("DONE")
"#;

/// What is stopped on the way out is in the audit while the session runs, and told to who listens.
#[test]
fn a11_what_is_stopped_is_written_down_at_once() {
    each(|fence| {
        let policy = "version = 1\n[network]\nallow = [\"a.example.com\"]\n";
        fence.write(&[("project/net.toml", policy), ("other/file", "hello\n")]);
        let mut shell = Shell::start(fence, &["--policy", "net.toml"]);
        let mut wire = Wire::open(&shell.dir());
        wire.done(serde_json::json!({ "verb": "subscribe" }));
        shell.does("getent hosts evil.example.net");
        let mut line = String::new();
        wire.0.read_line(&mut line).unwrap();
        assert!(line.contains("violation") && line.contains("name evil.example.net"), "{line}");
        until("it is not written down", || {
            text(&ringfence(fence, &["logs", &shell.id]).stdout).contains("stopped name evil.example.net")
        });
        // With other threads in the supervisor a place can be given as well.
        shell.is_granted("$W/other");
        assert_eq!(shell.does("cat $W/other/file"), "hello");
        shell.ends();
    });
}
