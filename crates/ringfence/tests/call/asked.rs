//! Commands that others ask a session's supervisor for: from outside, and from inside where the session was started so.

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use ringfence_session::desk::{AskedCall, CallAnswer, CallOrder, Connection, Spawned};
use ringfence_surface::AbsPath;
use ringfence_testkit::report_skip;

use crate::ground::{Ground, Session, each, text};

/// Asks for a call as any program does that speaks the protocol: `ask.py SOCKET TOKEN ORDER [INPUT]`. Prints what the call printed,
/// and ends as it did.
const ASK: &str = r#"
import array, json, os, socket, sys
path, token, order = sys.argv[1:4]
s = socket.socket(socket.AF_UNIX)
s.settimeout(60)
s.connect(path)
verb = json.loads(order)
if "verb" not in verb:
    verb = {"verb": "exec", "order": verb}
s.sendall(json.dumps({"v": 1, "token": token, "ask": verb}).encode() + b"\n")
line, ancillary, _, _ = s.recvmsg(65536, socket.CMSG_SPACE(4 * 4))
answer = json.loads(line)["answer"] if line else {"is": "gone"}
if answer["is"] != "spawned":
    print(json.dumps(answer))
    sys.exit(99)
fds = array.array("i")
for _, _, data in ancillary:
    fds.frombytes(data[:16])
stdin, stdout, stderr, channel = fds
if len(sys.argv) > 4:
    os.write(stdin, sys.argv[4].encode())
os.close(stdin)
said = [b"", b""]
for number, fd in enumerate([stdout, stderr]):
    while True:
        part = os.read(fd, 65536)
        if not part:
            break
        said[number] += part
sys.stdout.buffer.write(said[0])
sys.stderr.buffer.write(said[1])
lines = b""
while lines.count(b"\n") < 2:
    part = os.read(channel, 65536)
    if not part:
        break
    lines += part
last = json.loads(lines.splitlines()[-1])["answer"]
sys.stderr.write("\nCHANNEL " + json.dumps(last) + "\n")
sys.exit(last.get("code", 98))
"#;

/// Where somebody asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum From {
    Outside,
    Inside,
}

/// Asks in a session that runs, from outside, or in one of its own, from inside.
fn ask(ground: &Ground, from: From, order: &str, input: &str) -> Output {
    ground.write(&[("project/ask.py", ASK)]);
    let order = ground.text(order);
    match from {
        From::Outside => {
            let session = ground.session();
            let token = secret_of(&session.dir());
            let mut command = ground.by(Command::new("/usr/bin/python3"));
            command.args(["-I", "ask.py"]).arg(session.dir().join("control")).args([&token, &order, input]);
            command.output().unwrap()
        }
        From::Inside => inside(ground, &[], &order, input),
    }
}

/// In a session with these options.
fn inside(ground: &Ground, options: &[&str], order: &str, input: &str) -> Output {
    ground.write(&[("project/ask.py", ASK)]);
    let script = "exec python3 -I ask.py \"$(dirname \"$RINGFENCE_EXE\")/calls\" \"$RINGFENCE_CALLS\" \"$@\"";
    let mut command = ground.ringfence();
    command.args(["run", "--calls"]).args(options).args(["--", "/bin/sh", "-c", script, "sh", order, input]);
    command.output().unwrap()
}

/// What a supervisor asks of whoever talks to it.
fn secret_of(dir: &std::path::Path) -> String {
    let kept: serde_json::Value = serde_json::from_slice(&fs::read(dir.join("session.json")).unwrap()).unwrap();
    kept["token"].as_str().unwrap().to_owned()
}

fn open(session: &Session<'_>) -> Connection {
    Connection::open(&AbsPath::lexical(session.dir().as_os_str().as_bytes()).unwrap()).unwrap()
}

fn order(script: &str) -> CallOrder {
    CallOrder::plain(&[b"/bin/sh", b"-c", script.as_bytes()])
}

#[track_caller]
fn spawn(session: &Session<'_>, order: CallOrder) -> Spawned {
    match open(session).exec(order).unwrap() {
        AskedCall::Spawned(spawned) => *spawned,
        AskedCall::Refused { why, .. } => panic!("{why}"),
    }
}

/// All that a call prints, and how it ended.
fn finish(mut spawned: Spawned) -> (String, String, CallAnswer) {
    drop(spawned.stdin.take());
    let mut said = [String::new(), String::new()];
    let files = [&spawned.stdout, &spawned.stderr].map(|fd| fs::File::from(fd.try_clone().unwrap()));
    for (mut file, said) in files.into_iter().zip(&mut said) {
        file.read_to_string(said).unwrap();
    }
    let [stdout, stderr] = said;
    loop {
        match spawned.hear().unwrap() {
            Some(CallAnswer::Started { .. }) => {}
            Some(answer) => return (stdout, stderr, answer),
            None => panic!("nothing was said of its end: {stdout} {stderr}"),
        }
    }
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < end, "{what}");
        std::thread::yield_now();
    }
}

/// K11: the supervisor starts what it is asked for, in a fence that is tighter, and hands out its streams.
#[test]
fn k11_a_supervisor_starts_what_it_is_asked_for() {
    each(|ground| {
        for from in [From::Outside, From::Inside] {
            let said = ask(ground, from, r#"{"command":["/bin/sh","-c","cat; echo err >&2; exit 7"]}"#, "hello");
            let what = format!("as {:?} from {from:?}: {}{}", ground.who, text(&said.stdout), text(&said.stderr));
            assert!(said.status.code() == Some(7) && said.stdout == b"hello", "{what}");
            assert!(text(&said.stderr).contains("err\n"), "{what}");
            // It has what the session has, and of that what every call has.
            let script = r#"{"command":["/bin/sh","-c","cat top; echo new > src/made; ls -A $HOME; cat a.pem private/key; cat /proc/1/comm; echo x > $W/elsewhere/x; test -z \"$RINGFENCE_CALLS\" && echo none"]}"#;
            let said = ask(ground, from, script, "");
            let shown = text(&said.stdout);
            assert!(shown.starts_with("top\n") && shown.ends_with("none\n"), "{shown}{}", text(&said.stderr));
            assert!(!shown.contains("planted"), "{shown}");
            assert!(ground.path("project/src/made").exists() && !ground.path("elsewhere/x").exists());
            fs::remove_file(ground.path("project/src/made")).unwrap();
            // Tighter still.
            for (order, is_done) in [
                (r#"{"command":["/bin/sh","-c","echo x > made"],"read_only":true}"#, false),
                (r#"{"command":["/bin/sh","-c","echo x > made"],"write":["$W/project/src"]}"#, false),
                (r#"{"command":["/bin/sh","-c","echo x > src/made"],"write":["$W/project/src"]}"#, true),
                (r#"{"command":["/bin/sh","-c","cat docs/x"],"deny":["$W/project/docs"]}"#, false),
                (r#"{"command":["/bin/sh","-c","pwd | grep src"],"workdir":"$W/project/src"}"#, true),
                (r#"{"command":["/bin/sh","-c","test \"$TOKEN\" = sesame-open"],"env":["TOKEN"]}"#, true),
                (r#"{"command":["/bin/sh","-c","test -n \"$TOKEN\""]}"#, false),
            ] {
                let said = ask(ground, from, order, "");
                let what = format!("as {:?} from {from:?}: {order}: {}", ground.who, text(&said.stderr));
                assert_eq!(said.status.success(), is_done, "{what}");
                assert!(text(&said.stderr).contains("\"ended\""), "{what}");
            }
            // Never wider.
            for order in [
                r#"{"command":["true"],"write":["$W/elsewhere"]}"#,
                r#"{"command":["true"],"write":["/"]}"#,
                r#"{"command":["true"],"read":["$W/home/.ssh"]}"#,
                r#"{"command":["true"],"hosts":["evil.example.net"]}"#,
                r#"{"command":["true"],"sockets":["/run/docker.sock"]}"#,
                r#"{"command":["true"],"env":["HOME_OF_SECRETS"]}"#,
                r#"{"command":["true"],"workdir":"$W/home/.ssh"}"#,
                r#"{"command":[]}"#,
                r#"{"command":["true"],"read_only":true,"write":["."]}"#,
                r#"{"command":["true"],"timeout_ms":0}"#,
            ] {
                let said = ask(ground, from, order, "");
                let what = format!("as {:?} from {from:?}: {order}: {}", ground.who, text(&said.stderr));
                assert!(text(&said.stderr).contains("CHANNEL {\"is\": \"refused\""), "{what}");
            }
            let said = ask(ground, from, r#"{"command":["no-such-program"]}"#, "");
            assert_eq!(said.status.code(), Some(127), "{}", text(&said.stderr));
        }
        ground.left_nothing();
    });
}

/// E1: an order that names a part of what the session has is denied what the session is denied, whoever orders it.
#[test]
fn e1_a_floating_deny_holds_in_an_order_that_names_a_part() {
    each(|ground| {
        ground.write(&[("project/docs/.env", "SECRET\n"), ("project/docs/deep/.env", "SECRET\n")]);
        ground.policy("[files]\ndeny = [\"**/.env\"]\n");
        let order = r#"{"command":["/bin/sh","-c","cat x && ! cat .env && ! cat deep/.env"],"read_only":true,"read":["$W/project/docs"],"workdir":"$W/project/docs"}"#;
        for from in [From::Outside, From::Inside] {
            let said = ask(ground, from, order, "");
            let shown = format!("as {:?} from {from:?}: {}{}", ground.who, text(&said.stdout), text(&said.stderr));
            assert!(said.status.success() && text(&said.stdout) == "docs\n", "{shown}");
        }
    });
}

/// Files of the host in places that every session has its own of, readable and writable by all. Removed at the end.
struct HostFiles(Vec<tempfile::NamedTempFile>);

impl HostFiles {
    fn new() -> Self {
        let made = ["/tmp", "/var/tmp", "/dev/shm"].map(|dir| {
            let mut file = tempfile::Builder::new().prefix("ringfence-h1-").tempfile_in(dir).unwrap();
            file.write_all(b"HOST-SECRET\n").unwrap();
            fs::set_permissions(file.path(), fs::Permissions::from_mode(0o666)).unwrap();
            file
        });
        Self(made.into())
    }

    fn paths(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|file| file.path().to_str().unwrap())
    }
}

/// [E1, H1] What an order names in a private place is the call's own, never the host's file of that name; nor is a socket.
#[test]
fn e1_h1_an_order_reaches_no_host_file_in_a_private_place() {
    each(|ground| {
        let files = HostFiles::new();
        let dir = tempfile::tempdir_in("/tmp").unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o777)).unwrap();
        let path = dir.path().join("socket");
        let socket = std::os::unix::net::UnixDatagram::bind(&path).unwrap();
        socket.set_nonblocking(true).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).unwrap();
        let script = "import socket,sys
socket_path, *files = sys.argv[1:]
for path in files:
    for mode in ('r', 'r+'):
        try:
            file = open(path, mode)
            print(file.read())
            file.write('CHANGED')
        except FileNotFoundError:
            print('absent')
try:
    socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b'x', socket_path)
except FileNotFoundError:
    print('absent')";
        let named: Vec<&str> = files.paths().chain(path.to_str()).collect();
        for from in [From::Outside, From::Inside] {
            for how in ["read", "write"] {
                let command: Vec<&str> = ["python3", "-c", script, named[3]].into_iter().chain(files.paths()).collect();
                let order = serde_json::json!({how: named, "command": command});
                let said = ask(ground, from, &order.to_string(), "");
                let (out, err) = (text(&said.stdout), text(&said.stderr));
                let what = format!("as {:?} from {from:?}: {how}: {out}{err}", ground.who);
                assert_eq!(out, "absent\n".repeat(7), "{what}");
                assert!(files.paths().all(|file| fs::read(file).unwrap() == b"HOST-SECRET\n"), "{what}");
                assert!(socket.recv(&mut [0]).is_err(), "{what}");
            }
        }
    });
}

/// K11: a command that was asked for has its three streams and no other descriptor.
#[test]
fn k11_a_call_has_three_descriptors() {
    each(|ground| {
        for from in [From::Outside, From::Inside] {
            let said = ask(ground, from, r#"{"command":["/bin/ls","-l","/proc/self/fd"]}"#, "");
            let shown = text(&said.stdout);
            // The last is the directory that is listed.
            let fds: Vec<&str> = shown.lines().filter_map(|line| line.split_once(" -> ")).map(|(_, to)| to).collect();
            assert_eq!(fds.len(), 4, "as {:?} from {from:?}: {shown}", ground.who);
            assert!(fds[..3].iter().all(|to| to.starts_with("pipe:")), "as {:?} from {from:?}: {shown}", ground.who);
        }
    });
}

/// K11: a call ends with whoever asked, with the session, and with its time; nothing of it is left.
#[test]
fn k11_a_call_ends_with_whoever_asked() {
    each(|ground| {
        let session = ground.session();
        let supervisor = session.child.id();
        let descriptors = || fs::read_dir(format!("/proc/{supervisor}/fd")).unwrap().count();
        let children = || fs::read_to_string(format!("/proc/{supervisor}/task/{supervisor}/children")).unwrap();
        // The first process inside is the only other one, once the session stands and a call has been made.
        let alone = 1;
        finish(spawn(&session, order("true")));
        until("the first goes on", || children().split_whitespace().count() == alone);
        // The first may still be closing what it had, so there can be fewer later.
        let before = descriptors();
        // Whoever asked lets go.
        let mut spawned = spawn(&session, order("trap '' TERM HUP PIPE; echo ready; sleep 1000"));
        let mut line = [0; 6];
        fs::File::from(spawned.stdout.try_clone().unwrap()).read_exact(&mut line).unwrap();
        assert!(matches!(spawned.hear().unwrap(), Some(CallAnswer::Started { .. })));
        drop(spawned);
        until("it goes on", || children().split_whitespace().count() == alone && descriptors() <= before);
        let calls = ground.path("home/.local/state/ringfence/calls");
        until("what it had is left", || fs::read_dir(&calls).unwrap().count() == 0);
        // Before it has started.
        for _ in 0..20 {
            drop(spawn(&session, order("sleep 1000")));
        }
        until("some go on", || children().split_whitespace().count() == alone && descriptors() <= before);
        until("what they had is left", || fs::read_dir(&calls).unwrap().count() == 0);
        // One that asks and goes without listening.
        for _ in 0..5 {
            let dir = session.dir();
            let token = secret_of(&dir);
            let mut stream = std::os::unix::net::UnixStream::connect(dir.join("control")).unwrap();
            writeln!(stream, "{{\"v\":1,\"token\":\"{token}\",\"ask\":{{\"verb\":\"exec\",\"order\":{{\"command\":[\"sleep\",\"1000\"]}}}}}}").unwrap();
        }
        until("some go on unheard", || children().split_whitespace().count() == alone && descriptors() <= before);
        // Its time.
        let (_, _, answer) = finish(spawn(&session, CallOrder { timeout_ms: Some(300), ..order("sleep 1000") }));
        assert!(matches!(answer, CallAnswer::Ended { out_of_time: true, .. }), "{answer:?}");
        // So many and no more. Those from before may not have been over when they were looked for, but not begun.
        until("those from before go on", || children().split_whitespace().count() == alone);
        let many: Vec<_> = (0..32).map(|_| spawn(&session, order("sleep 1000"))).collect();
        assert!(
            matches!(open(&session).exec(order("true")).unwrap(), AskedCall::Refused { why, .. } if why.contains("too many"))
        );
        drop(many);
        until("the many go on", || children().split_whitespace().count() == alone);
        // The session's end.
        let mut spawned = spawn(&session, order("sleep 1000"));
        assert!(matches!(spawned.hear().unwrap(), Some(CallAnswer::Started { .. })));
        session.end();
        let answer = spawned.hear().unwrap();
        assert!(matches!(answer, Some(CallAnswer::Ended { session_over: true, .. })), "{answer:?}");
        drop(spawned);
        until("the call's directory is left", || fs::read_dir(&calls).unwrap().count() == 0);
        ground.left_nothing();
    });
}

/// K11: what was asked for stops with its session, and nothing more is started in one that is paused.
#[test]
fn k11_a_paused_session_pauses_its_calls() {
    each(|ground| {
        let session = ground.session();
        let ringfence = |words: &[&str]| assert!(ground.ringfence().args(words).output().unwrap().status.success());
        let mut spawned = spawn(&session, order("while read line; do echo $line; done"));
        assert!(matches!(spawned.hear().unwrap(), Some(CallAnswer::Started { .. })));
        let (mut input, mut output) =
            (fs::File::from(spawned.stdin.take().unwrap()), fs::File::from(spawned.stdout.try_clone().unwrap()));
        let mut said = [0; 2];
        input.write_all(b"a\n").unwrap();
        output.read_exact(&mut said).unwrap();
        ringfence(&["pause", &session.id]);
        let refused = open(&session).exec(order("true")).unwrap();
        assert!(matches!(refused, AskedCall::Refused { why, .. } if why.contains("paused")), "as {:?}", ground.who);
        // It is told, and stops, a moment after the session is paused: so it is asked until nobody answers.
        let wait = rustix::event::Timespec { tv_sec: 1, tv_nsec: 0 };
        let is_answered = |input: &mut fs::File, output: &mut fs::File| {
            input.write_all(b"b\n").unwrap();
            let mut fds = [rustix::event::PollFd::new(output, rustix::event::PollFlags::IN)];
            rustix::event::poll(&mut fds, Some(&wait)).unwrap() > 0 && output.read_exact(&mut [0; 2]).is_ok()
        };
        until("it goes on", || !is_answered(&mut input, &mut output));
        ringfence(&["resume", &session.id]);
        output.read_exact(&mut said).unwrap();
        assert_eq!(&said, b"b\n");
        drop(input);
        let answer = spawned.hear().unwrap();
        assert!(matches!(answer, Some(CallAnswer::Ended { code: 0, .. })), "{answer:?}");
    });
}

/// K11: a supervisor that is killed takes its calls with it.
#[test]
fn k11_a_killed_supervisor_takes_its_calls_along() {
    each(|ground| {
        let mut session = ground.session();
        let mut spawned = spawn(&session, order("echo $$; sleep 1000"));
        assert!(matches!(spawned.hear().unwrap(), Some(CallAnswer::Started { .. })));
        session.child.kill().unwrap();
        let answer = spawned.hear().unwrap();
        assert!(matches!(answer, Some(CallAnswer::Ended { session_over: true, .. }) | None), "{answer:?}");
        drop(spawned);
        let calls = ground.path("home/.local/state/ringfence/calls");
        until("the call's directory is left", || fs::read_dir(&calls).unwrap().count() == 0);
    });
}

/// K11: inside, only what was started so can ask, only for calls, and only with what the session's own processes know.
#[test]
fn k11_inside_only_calls_can_be_asked_for() {
    each(|ground| {
        for verb in ["status", "stop", "subscribe", "pause", "resume", "approvals"] {
            let said = inside(ground, &[], &format!("{{\"verb\":\"{verb}\"}}"), "");
            let shown = text(&said.stdout);
            assert!(
                said.status.code() == Some(99) && shown.contains("only calls"),
                "{verb}: {shown}{}",
                text(&said.stderr)
            );
        }
        // Without being started so there is no such socket, and no token.
        let script = "ls \"$(dirname \"$RINGFENCE_EXE\")\"; echo \"[$RINGFENCE_CALLS]\"";
        let plain = ground.ringfence().args(["run", "--", "/bin/sh", "-c", script]).output().unwrap();
        let shown = text(&plain.stdout);
        assert!(!shown.contains("calls\n") && shown.ends_with("[]\n"), "{shown}");
        // A limit that every call would have anew.
        ground.policy("[limits]\npids = 100\n");
        let said = inside(ground, &[], r#"{"command":["true"]}"#, "");
        let shown = text(&said.stderr);
        // Where no control group is to be had the session says so, and its limit is asked for all the same.
        assert!(shown.contains("would not share"), "as {:?}: {shown}", ground.who);
        ground.policy("");
        // On the other fence with a view as well.
        let said = inside(ground, &["--backend", "bwrap"], r#"{"command":["/bin/sh","-c","cat top"]}"#, "");
        assert_eq!(text(&said.stdout), "top\n", "as {:?}: {}", ground.who, text(&said.stderr));
        // With Landlock alone no socket can be made, which is said.
        let said = inside(ground, &["--backend", "landlock"], r#"{"command":["true"]}"#, "");
        assert!(text(&said.stderr).contains("no call can be asked for"), "as {:?}: {}", ground.who, text(&said.stderr));
    });
}

/// K16: a call that was asked for inside does not go on where its session is paused, and none begins.
#[test]
fn k16_a_call_from_inside_does_not_outlive_a_pause() {
    each(|ground| {
        ground.write(&[("project/ask.py", ASK), ("project/tick", "")]);
        let script = "exec python3 -I ask.py \"$(dirname \"$RINGFENCE_EXE\")/calls\" \"$RINGFENCE_CALLS\" \"$@\"";
        let order = r#"{"command":["/bin/sh","-c","while :; do echo x >> tick; done"]}"#;
        let mut command = ground.ringfence();
        command.args(["run", "--calls", "--", "/bin/sh", "-c", script, "sh", order]);
        let mut child = command.stdin(std::process::Stdio::piped()).spawn().unwrap();
        let ticks = || fs::metadata(ground.path("project/tick")).map_or(0, |tick| tick.len());
        until("the call runs", || ticks() > 0);
        let told = |arguments: &[&str]| ground.ringfence().args(arguments).output().unwrap();
        let listed: serde_json::Value = serde_json::from_slice(&told(&["ps", "--json"]).stdout).unwrap();
        let id = listed["sessions"][0]["id"].as_str().unwrap().to_owned();
        assert!(told(&["pause", &id]).status.success());
        let stands_still = || {
            let before = ticks();
            std::thread::park_timeout(Duration::from_millis(500));
            ticks() == before
        };
        until("it stands still", stands_still);
        assert!(stands_still(), "as {:?}", ground.who);
        let said = told(&["exec", "--within", &id, "--", "true"]);
        assert!(!said.status.success() && text(&said.stderr).contains("is paused"), "{}", text(&said.stderr));
        assert!(told(&["stop", &id]).status.success());
        child.wait().unwrap();
    });
}

/// K11: from a call, which is tighter, there is no way back to the session: neither the token nor the socket helps.
#[test]
fn k11_a_call_cannot_ask_for_what_its_session_has() {
    each(|ground| {
        ground.write(&[("project/ask.py", ASK)]);
        // A call inside, on a further layer of Landlock: it sees the session's files and must not be let out of its own fence.
        let hunt = "given=$(dirname \"$EXE\"); for f in /proc/[0-9]*/environ; do tr '\\0' '\\n' < $f 2>/dev/null | grep ^RINGFENCE_CALLS=; done; \
                    grep -r RINGFENCE_CALLS \"$given\" 2>/dev/null; \
                    for t in \"\" \"$RINGFENCE_CALLS\" 00000000000000000000000000000000; do \
                    python3 -I ask.py \"$given/calls\" \"$t\" '{\"command\":[\"/bin/sh\",\"-c\",\"echo x > escaped\"]}'; done; echo hunted";
        let outer = format!(
            "export EXE=\"$RINGFENCE_EXE\"; \"$RINGFENCE_EXE\" exec --within \"$RINGFENCE_SESSION\" --read-only -- /bin/sh -c 'EXE='\"$EXE\"'; {}'",
            hunt.replace('\'', "'\\''")
        );
        let mut command = ground.ringfence();
        let output = command.args(["run", "--calls", "--", "/bin/sh", "-c", &outer]).output().unwrap();
        let shown = text(&output.stdout);
        assert!(shown.contains("hunted"), "as {:?}: {shown}{}", ground.who, text(&output.stderr));
        assert!(!ground.path("project/escaped").exists(), "as {:?}: {shown}", ground.who);
        assert!(!shown.contains("RINGFENCE_CALLS="), "as {:?}: {shown}", ground.who);
        // A call that the supervisor made does not see the socket at all.
        let said = inside(ground, &[], r#"{"command":["/bin/sh","-c","ls $W/home/.local/state/ringfence/sessions/*/given; find / -name calls -type s 2>/dev/null; echo looked"]}"#.replace("$W", ground.path("").to_str().unwrap().trim_end_matches('/')).as_str(), "");
        assert_eq!(text(&said.stdout), "looked\n", "as {:?}: {}", ground.who, text(&said.stderr));
    });
}

/// K11: another user is refused, at both doors.
#[test]
fn k11_a_strangers_call_is_refused() {
    if !rustix::process::geteuid().is_root() {
        return report_skip("calls of another user: the tests do not run as root");
    }
    each(|ground| {
        ground.write(&[("project/ask.py", ASK)]);
        let mut command = ground.ringfence();
        command.args(["run", "--calls", "--", "/bin/sh", "-c", "echo $RINGFENCE_SESSION $RINGFENCE_CALLS; exec cat"]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(child.stdout.take().unwrap()), &mut line).unwrap();
        let (id, calls) = line.trim().split_once(' ').unwrap();
        let state = ground.path("home/.local/state/ringfence");
        let dir = state.join("sessions").join(id);
        let token = secret_of(&dir);
        // Even where everything is open to all, and the tokens are known.
        let open = |path: &std::path::Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        for path in ["home", "home/.local", "home/.local/state", "project"] {
            open(&ground.path(path), 0o755);
        }
        for path in [state.clone(), state.join("sessions"), dir.clone(), dir.join("given")] {
            open(&path, 0o755);
        }
        for (socket, token) in [(dir.join("control"), token.as_str()), (dir.join("given/calls"), calls)] {
            open(&socket, 0o777);
            let mut command = Command::new("setpriv");
            command.args(["--reuid=65000", "--regid=65000", "--clear-groups", "/usr/bin/python3", "-I"]);
            command
                .arg(ground.path("project/ask.py"))
                .arg(&socket)
                .args([token, r#"{"command":["/bin/sh","-c","echo DONE"]}"#]);
            let output = command.output().unwrap();
            let shown = text(&output.stdout) + &text(&output.stderr);
            assert!(
                !output.status.success() && !shown.contains("DONE") && !shown.contains("spawned"),
                "{socket:?}: {shown}"
            );
        }
        drop(child.stdin.take());
        assert!(child.wait().unwrap().success());
    });
}

/// [H9] An order from inside learns nothing of the host by its refusal: it follows only links that the session can see.
#[test]
fn h9_an_order_tells_no_link_target_of_the_host() {
    each(|ground| {
        ground.write(&[("elsewhere/f", "x\n"), ("project/docs/deep", "deep\n")]);
        let elsewhere = ground.path("elsewhere");
        let _ = std::os::unix::fs::symlink("/TARGET-OF-A-LINK", elsewhere.join("lnk"));
        let _ = std::os::unix::fs::symlink(ground.path("project/docs"), elsewhere.join("in"));
        let _ = std::os::unix::fs::symlink("docs", ground.path("project/seen"));
        let names = ["nope", "lnk", "lnk/x", "in", "in/x", "f", "f/x", "../elsewhere/nope"];
        let lists = ["read", "write", "sockets", "deny", "protect"];
        let order = |list: &str, name: &str| {
            serde_json::json!({list: [ground.text(&format!("$W/elsewhere/{name}"))], "command": ["true"]}).to_string()
        };
        let orders: Vec<String> = lists.iter().flat_map(|list| names.map(|name| order(list, name))).collect();
        ground.write(&[("project/ask.py", ASK), ("project/orders", &(orders.join("\n") + "\n"))]);
        let script = "while read -r order; do python3 -I ask.py \"$(dirname \"$RINGFENCE_EXE\")/calls\" \"$RINGFENCE_CALLS\" \"$order\"; done < orders";
        let said = ground.ringfence().args(["run", "--calls", "--", "/bin/sh", "-c", script]).output().unwrap();
        let said = text(&said.stdout) + &text(&said.stderr);
        assert!(!said.contains("TARGET-OF"), "as {:?}: {said}", ground.who);
        let answers: Vec<&str> = said.lines().filter(|line| line.starts_with("CHANNEL")).collect();
        assert_eq!(answers.len(), orders.len(), "as {:?}: {said}", ground.who);
        for (list, answers) in lists.iter().zip(answers.chunks(names.len())) {
            let same = |(answer, name): (&&str, &&str)| {
                let path = ground.text(&format!("$W/elsewhere/{}", name.trim_start_matches("../elsewhere/")));
                answer.replace(&path, "PATH")
            };
            let answers: Vec<String> = answers.iter().zip(&names).map(same).collect();
            assert!(answers.iter().all(|answer| *answer == answers[0]), "as {:?}: {list}: {answers:#?}", ground.who);
        }
        let order = ground.text(r#"{"workdir":"$W/elsewhere/lnk","command":["true"]}"#);
        let said = inside(ground, &[], &order, "");
        assert!(!text(&said.stderr).contains("TARGET-OF") && text(&said.stderr).contains("elsewhere/lnk"));
        // What the session sees is followed as before.
        let order = r#"{"command":["/bin/sh","-c","cat deep && ! cat ../top"],"read_only":true,"read":["$W/project/seen"],"workdir":"$W/project/seen"}"#;
        let said = inside(ground, &[], &ground.text(order), "");
        assert_eq!(text(&said.stdout), "deep\n", "as {:?}: {}", ground.who, text(&said.stderr));
    });
}

/// [H1] What an order names in its session's own directories is not made on the host: the agent could have put a link on the way there.
#[test]
fn h1_nothing_is_made_where_the_agent_writes() {
    each(|ground| {
        let session = ground.session();
        let token = secret_of(&session.dir());
        ground.write(&[("project/ask.py", ASK)]);
        for own in ["tmp", "home"] {
            let path = session.dir().join(own).join("made/deep");
            let order = serde_json::json!({"write": [&path], "command": ["true"]}).to_string();
            let mut command = ground.by(Command::new("/usr/bin/python3"));
            let said =
                command.args(["-I", "ask.py"]).arg(session.dir().join("control")).args([&token, &order]).output();
            let said = said.unwrap();
            let shown = format!("as {:?}: {own}: {}{}", ground.who, text(&said.stdout), text(&said.stderr));
            assert!(shown.contains("CHANNEL"), "{shown}");
            assert!(!session.dir().join(own).join("made").exists(), "{shown}");
        }
    });
}

/// [E1] Where the session is shown the whole host, an order names nothing of what is hidden from it there.
#[test]
fn e1_an_order_is_not_shown_what_the_host_view_hides() {
    each(|ground| {
        ground.policy("[files]\nview = \"host\"\n");
        for path in ["/run", "/dev"] {
            let order = serde_json::json!({"read": [path], "command": ["ls", path]}).to_string();
            for from in [From::Outside, From::Inside] {
                let said = ask(ground, from, &order, "");
                let shown = format!("as {:?} from {from:?}: {order}: {}", ground.who, text(&said.stderr));
                assert!(shown.contains("this would gain read") && said.stdout.is_empty(), "{shown}");
            }
        }
    });
}
