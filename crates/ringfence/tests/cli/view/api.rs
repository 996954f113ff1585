//! `ringfence serve`, asked by a real client: what it shows, what it changes, and whom it does not answer.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use ringfence_testkit::report_skip;
use serde_json::{Value, json};

use super::approvals::{code as hook_code, hook};
use super::live::{Shell, ringfence, until};
use super::{Fence, NOBODY, Who, each, is_root, text};

/// A server that runs.
pub(super) struct Server<'f> {
    fence: &'f Fence,
    pub(super) child: Child,
    pub(super) token: String,
    pub(super) port: u16,
}

impl<'f> Server<'f> {
    pub(super) fn start(fence: &'f Fence) -> Self {
        let mut command = fence.ringfence();
        let mut child = command.arg("serve").stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
        let (address, token) = line.trim().split_once("/#token=").unwrap_or_else(|| panic!("{line}"));
        let port = address.rsplit_once(':').unwrap().1.parse().unwrap();
        Self { fence, child, token: token.to_owned(), port }
    }

    fn dir(&self) -> std::path::PathBuf {
        self.fence.path("home/.local/state/ringfence/serve")
    }

    /// Asks with curl, as whoever works: the status and the body.
    fn curl(&self, arguments: &[&str], path: &str) -> (u16, String) {
        let mut command = self.fence.by(Command::new("curl"));
        command.args(["-sS", "-m", "30", "-w", "\n%{http_code}"]).args(arguments);
        let output = command.arg(format!("http://127.0.0.1:{}{path}", self.port)).output().unwrap();
        let said = text(&output.stdout);
        let (body, status) = said.rsplit_once('\n').unwrap_or(("", "0"));
        (status.parse().unwrap(), if body.is_empty() { text(&output.stderr) } else { body.to_owned() })
    }

    /// Asks with the token.
    #[track_caller]
    pub(super) fn ask(&self, method: &str, path: &str, body: Option<Value>, expected: u16) -> Value {
        let authorization = format!("Authorization: Bearer {}", self.token);
        let body = body.map(|body| body.to_string());
        let mut arguments = vec!["-X", method, "-H", &authorization];
        if let Some(body) = &body {
            arguments.extend(["-H", "Content-Type: application/json", "-d", body]);
        }
        let (status, said) = self.curl(&arguments, path);
        assert_eq!(status, expected, "as {:?}: {method} {path}: {said}", self.fence.who);
        serde_json::from_str(&said).unwrap_or_else(|_| panic!("{method} {path}: {said}"))
    }

    /// Sends bytes, and reads whatever is answered until the end.
    pub(super) fn send(&self, bytes: &[u8]) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        // It may have been answered before all was said.
        let _ = stream.write_all(bytes);
        let _ = stream.shutdown(Shutdown::Write);
        let mut said = Vec::new();
        stream.read_to_end(&mut said).unwrap();
        text(&said)
    }

    pub(super) fn ends(mut self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Server<'_> {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A10: the API lists sessions with the state of their fence, shows one, and gives, takes away and ends.
#[test]
fn a10_the_api_shows_and_changes_sessions() {
    each(|fence| {
        fence.write(&[("other/file", "hello\n"), ("other/.env", "SECRET\n"), ("home/.ssh/id", "SECRET\n")]);
        let policy = "version = 1\n[files]\ndeny = [\"**/.env\"]\n[network]\nallow = [\"a.example.com\"]\n";
        fence.write(&[("project/net.toml", policy)]);
        let server = Server::start(fence);
        assert_eq!(server.ask("GET", "/api/sessions", None, 200)["sessions"], json!([]));
        let mut shell = Shell::start(fence, &["--policy", "net.toml"]);
        let one = format!("/api/sessions/{}", shell.id);
        let listed = server.ask("GET", "/api/sessions", None, 200);
        let row = &listed["sessions"][0];
        assert_eq!((&row["id"], &row["state"]), (&json!(shell.id), &json!("running")));
        assert_eq!(row["sandbox"]["backend"], "native");
        assert!(["whole", "short"].contains(&row["sandbox"]["status"].as_str().unwrap()), "{row}");
        let given = server.ask("POST", &format!("{one}/grants"), Some(json!({ "read": fence.path("other") })), 201);
        assert_eq!((&given["n"], &given["denied_in_it"]), (&json!(1), &json!(1)), "{given}");
        assert_eq!(shell.does("cat $W/other/file"), "hello");
        assert!(shell.does("cat $W/other/.env").contains("Permission denied"));
        // What the command line would refuse is refused, and written down.
        let secret = json!({ "read": fence.path("home/.ssh") });
        let refused = server.ask("POST", &format!("{one}/grants"), Some(secret), 409);
        assert!(refused["detail"].as_str().unwrap().contains("is denied"), "{refused}");
        shell.does("getent hosts evil.example.net");
        until("nothing is seen of it", || {
            let shown = server.ask("GET", &one, None, 200);
            shown["violations"].to_string().contains("evil.example.net")
        });
        let shown = server.ask("GET", &one, None, 200);
        assert_eq!(shown["grants"][0]["path"], json!(fence.path("other")));
        let rules = shown["surface"]["rules"].to_string();
        assert!(rules.contains(fence.path("other").to_str().unwrap()), "the surface has what was given: {rules}");
        assert!(shown["receipt"]["shortfalls"].is_array() && shown["claims"].is_array(), "{shown}");
        server.ask("DELETE", &format!("{one}/grants/1"), None, 200);
        server.ask("DELETE", &format!("{one}/grants/1"), None, 404);
        assert!(shell.does("cat $W/other/file").contains("No such file"));
        // Its number is never another's.
        let again = server.ask("POST", &format!("{one}/grants"), Some(json!({ "read": fence.path("other") })), 201);
        assert_eq!(again["n"], 2);
        server.ask("POST", &format!("{one}/mode"), Some(json!({ "mode": "auto" })), 409);
        assert_eq!(server.ask("POST", &format!("{one}/pause"), None, 200)["paused"], true);
        assert_eq!(server.ask("POST", &format!("{one}/resume"), None, 200)["paused"], false);
        assert_eq!(shell.does("echo well"), "well");
        // A host, and a place to write, where the session can be given that.
        let host = server.ask("POST", &format!("{one}/grants"), Some(json!({ "host": "given.example.com" })), 201);
        let listed = server.ask("GET", &format!("{one}/grants"), None, 200)["grants"].clone();
        assert_eq!((listed.as_array().unwrap().len(), &listed[1]["access"]), (2, &json!("reach")), "{listed}");
        server.ask("DELETE", &format!("{one}/grants/{}", host["n"]), None, 200);
        let (status, said) = server.curl(
            &[
                "-H",
                &format!("Authorization: Bearer {}", server.token),
                "-H",
                "Content-Type: application/json",
                "-d",
                &json!({ "write": fence.path("home/.ssh") }).to_string(),
            ],
            &format!("{one}/grants"),
        );
        assert!(status == 409 && said.contains("detail"), "{status}: {said}");
        for wrong in [json!({}), json!({ "read": "/a", "write": "/a" }), json!({ "write": "relative" })] {
            server.ask("POST", &format!("{one}/grants"), Some(wrong), 400);
        }
        // The beginning of a name is no name here.
        server.ask("GET", &format!("/api/sessions/{}", &shell.id[..5]), None, 404);
        assert_eq!(server.ask("POST", &format!("{one}/stop"), None, 202)["asked"], true);
        assert_eq!(shell.child.wait().unwrap().code(), Some(143));
        until("it does not end", || server.ask("GET", &one, None, 200)["state"] == "ended");
        let ended = server.ask("GET", &one, None, 200);
        assert_eq!((&ended["code"], &ended["surface"]), (&json!(143), &Value::Null));
        server.ask("POST", &format!("{one}/stop"), None, 409);
        assert_eq!(server.ask("GET", "/api/sessions", None, 200)["sessions"], json!([]));
        assert_eq!(server.ask("GET", "/api/sessions?all=true", None, 200)["sessions"][0]["id"], json!(shell.id));
        // A session does not notice that nobody serves any more.
        let mut other = Shell::start(fence, &[]);
        let place = server.dir();
        server.ends();
        assert_eq!(fs::read_dir(place).unwrap().count(), 0, "what the server left");
        assert_eq!(other.does("echo well"), "well");
        other.ends();
    });
}

/// K12: what waits for an answer is shown and answered over HTTP too.
#[test]
fn k12_questions_are_answered_over_http() {
    each(|fence| {
        let server = Server::start(fence);
        let mut shell = Shell::start(fence, &["--agent", "claude", "--ask=50s"]);
        let path = format!("/api/sessions/{}/approvals", shell.id);
        assert_eq!(server.ask("GET", &path, None, 200)["asks"], true);
        let waiting = || server.ask("GET", &path, None, 200)["waiting"].as_array().unwrap().clone();
        for (line, answer, code) in [
            ("touch x", json!({ "answer": "approve", "scope": { "lasts": "session" } }), "0"),
            ("touch y", json!({ "answer": "deny" }), "2"),
        ] {
            shell.does(&format!("{} & echo", hook(fence, line, "one")));
            until("nothing waits", || waiting().len() == 1);
            let question = waiting()[0].clone();
            assert_eq!((question["kind"].as_str(), question["line"].as_str()), (Some("command"), Some(line)));
            let mut body = answer;
            body["question"] = question["id"].clone();
            server.ask("POST", &path, Some(body.clone()), 200);
            assert_eq!(hook_code(fence, "one"), code, "as {:?}: {line}", fence.who);
            fs::remove_file(fence.path("project/one.code")).unwrap();
            assert!(waiting().is_empty());
        }
        let approved = server.ask("GET", &path, None, 200)["approved"].clone();
        assert_eq!(approved[0]["line"], "touch x", "{approved}");
        server.ask("POST", &path, Some(json!({ "answer": "approve", "question": 999 })), 409);
        server.ask("POST", &path, Some(json!({ "answer": "perhaps", "question": 1 })), 400);
        let taken_back = json!({ "answer": "deny", "question": approved[0]["id"] });
        server.ask("POST", &path, Some(taken_back), 200);
        assert_eq!(server.ask("GET", &path, None, 200)["approved"], json!([]));
        shell.ends();
    });
}

/// A10: what happens is told as it does, and somebody who was away goes on where it stopped.
#[test]
fn a10_events_are_streamed_and_taken_up_again() {
    each(|fence| {
        fence.write(&[("other/file", "hello\n")]);
        let server = Server::start(fence);
        let shell = Shell::start(fence, &[]);
        let listen = |path: &str, more: &str| {
            let mut stream = TcpStream::connect(("127.0.0.1", server.port)).unwrap();
            stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
            let head = format!(
                "GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nAuthorization: Bearer {}\r\n{more}\r\n",
                server.port, server.token
            );
            stream.write_all(head.as_bytes()).unwrap();
            let mut reader = BufReader::new(stream);
            let mut line = String::new();
            while line.trim() != ": listening" {
                line.clear();
                assert!(reader.read_line(&mut line).unwrap() > 0);
            }
            reader
        };
        let next = |reader: &mut BufReader<TcpStream>| {
            let (mut id, mut line) = (String::new(), String::new());
            loop {
                line.clear();
                assert!(reader.read_line(&mut line).unwrap() > 0, "the stream has ended");
                if let Some(said) = line.strip_prefix("id: ") {
                    id = said.trim().to_owned();
                }
                if let Some(data) = line.strip_prefix("data: ") {
                    return (id, serde_json::from_str::<Value>(data).unwrap());
                }
            }
        };
        let own = format!("/api/sessions/{}/events", shell.id);
        let (mut all, mut one) = (listen("/api/events", ""), listen(&own, ""));
        assert_eq!(next(&mut one).1["event"], "start");
        assert_eq!(next(&mut one).1["event"], "receipt");
        shell.is_granted("$W/other");
        let (id, event) = next(&mut one);
        assert_eq!((&event["event"], &event["session"]), (&json!("grant"), &json!(shell.id)));
        assert_eq!(next(&mut all).1, event, "nothing that was before is told to somebody new");
        assert!(shell.revoke("$W/other").status.success());
        let mut later = listen(&own, &format!("Last-Event-ID: {id}\r\n"));
        assert_eq!(next(&mut later).1["event"], "revoke");
        let other = Shell::start(fence, &[]);
        shell.ends();
        // That of a session ends with it; that of all sessions goes on.
        let mut rest = String::new();
        one.read_to_string(&mut rest).unwrap();
        assert!(rest.contains("event: end") && !rest.contains(&other.id), "{rest}");
        let events: Vec<Value> = (0..5).map(|_| next(&mut all).1["event"].clone()).collect();
        assert_eq!(events, ["revoke", "start", "receipt", "used", "end"]);
        other.ends();
        assert_eq!([next(&mut all).1["event"].clone(), next(&mut all).1["event"].clone()], ["used", "end"]);
    });
}

/// Nobody is answered who asks under another name, from another page, or without the token.
#[test]
fn a10_the_api_answers_nobody_else() {
    each(|fence| {
        let server = Server::start(fence);
        let shell = Shell::start(fence, &[]);
        let port = server.port;
        let token = format!("Authorization: Bearer {}", server.token);
        // A name that has come to mean this machine.
        for host in [
            "evil.example",
            &format!("evil.example:{port}"),
            "127.0.0.1",
            "127.0.0.1:1",
            &format!("127.0.0.1.evil.example:{port}"),
            &format!("192.168.0.1:{port}"),
            &format!("localhost.evil:{port}"),
            &format!("0.0.0.0:{port}"),
        ] {
            for path in ["/", "/api/sessions"] {
                let (status, said) = server.curl(&["-H", &token, "-H", &format!("Host: {host}")], path);
                assert!(status == 403 && !said.contains(&shell.id), "{host}{path}: {status} {said}");
            }
        }
        for host in [
            format!("127.0.0.1:{port}"),
            format!("localhost:{port}"),
            format!("LocalHost:{port}"),
            format!("[::1]:{port}"),
        ] {
            assert_eq!(server.curl(&["-H", &token, "-H", &format!("Host: {host}")], "/api/sessions").0, 200, "{host}");
        }
        let own = format!("Origin: http://127.0.0.1:{port}");
        for (field, expected) in [
            (own.as_str(), 200),
            ("Origin: null", 403),
            ("Origin: https://evil.example", 403),
            ("Origin: http://127.0.0.1", 403),
            ("Origin: http://127.0.0.1:1", 403),
            (&format!("Origin: https://127.0.0.1:{port}"), 403),
            (&format!("Origin: http://127.0.0.1:{port}.evil.example"), 403),
            ("Sec-Fetch-Site: cross-site", 403),
            ("Sec-Fetch-Site: same-site", 403),
            ("Sec-Fetch-Site: same-origin", 200),
            ("Sec-Fetch-Site: none", 200),
        ] {
            let (status, said) = server.curl(&["-H", &token, "-H", field], "/api/sessions");
            assert_eq!(status, expected, "{field}: {said}");
        }
        for authorization in [
            "",
            "Bearer",
            "Bearer ",
            "Bearer 0",
            &format!("Bearer {}0", server.token),
            &format!("Basic {}", server.token),
            &server.token,
        ] {
            for path in ["/api/sessions", "/api/nothing", "/api/openapi.json", &format!("/api/sessions/{}", shell.id)] {
                let (status, said) = server.curl(&["-H", &format!("Authorization: {authorization}")], path);
                assert!(status == 401 && !said.contains(&shell.id), "{authorization:?} {path}: {status} {said}");
            }
        }
        // Never in the address, where it would be written down.
        assert_eq!(server.curl(&[], &format!("/api/sessions?token={}", server.token)).0, 401);
        // No other page is ever told that it may read this.
        let (_, head) = server.curl(
            &["-i", "-X", "OPTIONS", "-H", &own, "-H", "Access-Control-Request-Method: POST", "-H", &token],
            "/api/sessions",
        );
        assert!(head.contains("405") && !head.to_lowercase().contains("access-control"), "{head}");
        let (status, page) = server.curl(&["-i"], "/");
        assert!(status == 200 && page.contains("default-src 'none'") && !page.contains(&server.token), "{page}");
        // A form that some page sends on is not taken.
        let stop = format!("/api/sessions/{}/grants", shell.id);
        for kind in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"] {
            let kind = format!("Content-Type: {kind}");
            assert_eq!(server.curl(&["-H", &token, "-H", &kind, "-d", "{\"read\":\"/srv\"}"], &stop).0, 415, "{kind}");
        }
        // By the socket: the same.
        let socket = server.dir().join("socket");
        let socket = ["--unix-socket", socket.to_str().unwrap(), "-H", "Host: localhost"];
        assert_eq!(server.curl(&[&socket[..], &["-H", &token]].concat(), "/api/sessions").0, 200);
        assert_eq!(server.curl(&socket, "/api/sessions").0, 401);
        assert_eq!(server.curl(&[&socket[..2], &["-H", &token, "-H", "Host: evil"]].concat(), "/api/sessions").0, 403);
        // Only one serves.
        let second = ringfence(fence, &["serve"]);
        assert!(
            !second.status.success() && text(&second.stderr).contains("served already"),
            "{}",
            text(&second.stderr)
        );
        // A server that was killed is replaced, with another token.
        let old = server.token.clone();
        drop(server);
        let server = Server::start(fence);
        assert_ne!(server.token, old);
        server.ask("GET", "/api/sessions", None, 200);
        assert_eq!(server.curl(&["-H", &format!("Authorization: Bearer {old}")], "/api/sessions").0, 401);
        shell.ends();
    });
}

/// Another user of the machine can read neither the token nor the state, and is not answered.
#[test]
fn k11_another_user_reaches_no_server() {
    if !is_root() {
        return report_skip("another user at the server: the tests do not run as root");
    }
    for who in [Who::Nobody, Who::Caller] {
        let fence = Fence::new(who);
        let server = Server::start(&fence);
        for dir in ["home", "home/.local", "home/.local/state", "home/.local/state/ringfence"] {
            fs::set_permissions(fence.path(dir), fs::Permissions::from_mode(0o755)).unwrap();
        }
        let stranger = NOBODY - 7;
        let by_stranger = |script: &str| {
            let mut command = Command::new("setpriv");
            command.env_clear().env("PATH", "/usr/bin:/bin:/usr/sbin:/sbin");
            command.args([&format!("--reuid={stranger}"), &format!("--regid={stranger}"), "--clear-groups"]);
            let output = command.args(["/bin/sh", "-c", script]).output().unwrap();
            (text(&output.stdout), text(&output.stderr))
        };
        let dir = server.dir();
        let (said, errors) = by_stranger(&format!(
            "cd {0}/..; cat serve/token serve/address; ls serve; curl -sS --unix-socket serve/socket http://localhost/",
            dir.display()
        ));
        assert!(said.is_empty() && errors.matches("ermission denied").count() >= 3, "{said}{errors}");
        let (said, _) = by_stranger(&format!("curl -sS http://127.0.0.1:{}/api/sessions", server.port));
        assert!(said.contains("the token is missing"), "{said}");
        // One who gets as far as the socket is not listened to, also with the token.
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o755)).unwrap();
        fs::set_permissions(dir.join("socket"), fs::Permissions::from_mode(0o777)).unwrap();
        let (said, errors) = by_stranger(&format!(
            "curl -sS -m 10 --unix-socket {}/socket -H 'Authorization: Bearer {}' http://localhost/api/sessions",
            dir.display(),
            server.token
        ));
        assert!(said.is_empty() && !errors.is_empty(), "{said}{errors}");
        assert_eq!(fs::metadata(dir.join("token")).unwrap().permissions().mode() & 0o777, 0o600);
    }
}

/// Inside a fence no server is reached, and its token cannot be read: with Landlock alone the socket could be connected to.
#[test]
fn k11_the_command_reaches_no_server() {
    each(|fence| {
        let server = Server::start(fence);
        let dir = server.dir().display().to_string();
        for options in [&[][..], &["--backend", "bwrap"], &["--backend", "landlock"]] {
            let mut shell = Shell::start(fence, options);
            let said = shell.does(&format!("cat {dir}/token {dir}/address; ls {dir}; echo $?"));
            assert!(!said.contains(&server.token) && !said.contains("socket "), "{options:?}: {said}");
            let said = shell.does(&format!(
                "curl -s -m 5 http://127.0.0.1:{}/api/sessions; curl -s -m 5 --unix-socket {dir}/socket http://localhost/api/sessions; echo done",
                server.port
            ));
            assert!(said.ends_with("done") && !said.contains("\"sessions\""), "{options:?}: {said}");
        }
    });
}

/// Those who say nothing, say it slowly, say too much, or are a thousand.
#[test]
fn a10_slow_and_greedy_clients_do_not_stall_the_api() {
    let fence = Fence::new(Who::Caller);
    let server = Server::start(&fence);
    let pid = server.child.id();
    let connect = || TcpStream::connect(("127.0.0.1", server.port)).unwrap();
    // This end holds more than a process usually may.
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let raised = rustix::process::Rlimit { current: limit.maximum, ..limit };
    rustix::process::setrlimit(rustix::process::Resource::Nofile, raised).unwrap();
    // A thousand who say nothing, and a thousand who begin.
    let mut idle: Vec<TcpStream> = (0..1_000).map(|_| connect()).collect();
    idle.extend((0..1_000).map(|_| {
        let mut stream = connect();
        // One that has made room already hears of it here.
        let _ = stream.write_all(b"GET / HTTP/1.1\r\nHost:");
        stream
    }));
    let start = Instant::now();
    server.ask("GET", "/api/sessions", None, 200);
    assert!(start.elapsed() < Duration::from_secs(30), "{:?}", start.elapsed());
    let threads = fs::read_dir(format!("/proc/{pid}/task")).unwrap().count();
    let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count();
    assert!(threads < 200 && descriptors < 300, "{threads} threads, {descriptors} descriptors");
    drop(idle);
    // A head that never ends.
    let said = server.send(&[b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: ".as_slice(), &vec![b'a'; 1 << 20]].concat());
    assert!(said.starts_with("HTTP/1.1 431"), "{said}");
    let said = server.send(&[b"GET / HTTP/1.1\r\n".as_slice(), &b"A: b\r\n".repeat(100_000)].concat());
    assert!(said.starts_with("HTTP/1.1 431"), "{said}");
    let host = format!("Host: 127.0.0.1:{}\r\nAuthorization: Bearer {}\r\n", server.port, server.token);
    let post = format!("POST /api/sessions/aaaaaaaa/grants HTTP/1.1\r\n{host}Content-Type: application/json\r\n");
    // A body that is too long is not read, one without a length neither.
    let said = server.send(format!("{post}Content-Length: 99999999999\r\n\r\n{{").as_bytes());
    assert!(said.starts_with("HTTP/1.1 413"), "{said}");
    let said = server.send(format!("{post}Transfer-Encoding: chunked\r\n\r\n5\r\n{{}}   \r\n0\r\n\r\n").as_bytes());
    assert!(said.starts_with("HTTP/1.1 411"), "{said}");
    let said = server.send(format!("{post}Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n").as_bytes());
    assert!(said.starts_with("HTTP/1.1 400"), "{said}");
    let said = server.send(format!("{post}Content-Length: 50\r\n\r\n{{").as_bytes());
    assert!(said.starts_with("HTTP/1.1 400"), "{said}");
    // One request to a connection: what follows is not taken for another.
    let get = format!("GET /api/sessions HTTP/1.1\r\n{host}\r\n");
    let said = server.send(get.repeat(50).as_bytes());
    assert_eq!((said.matches("HTTP/1.1 200").count(), said.matches("HTTP/1.1 ").count()), (1, 1), "{said}");
    // Byte by byte, and never to the end.
    let mut slow = connect();
    slow.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(6) && slow.write_all(b"G").is_ok() {
        std::thread::yield_now();
        std::thread::park_timeout(Duration::from_millis(50));
    }
    let mut said = Vec::new();
    // Whether the answer arrives before the connection is reset is the kernel's to say; that it is over is ours.
    let _ = slow.read_to_end(&mut said);
    assert!(start.elapsed() < Duration::from_secs(30), "{:?}", start.elapsed());
    // Many who listen: so many and no more, and the others are answered.
    let listening: Vec<(TcpStream, String)> = (0..40)
        .map(|_| {
            let mut stream = connect();
            stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
            stream.write_all(format!("GET /api/events HTTP/1.1\r\n{host}\r\n").as_bytes()).unwrap();
            let mut line = String::new();
            BufReader::new(stream.try_clone().unwrap()).read_line(&mut line).unwrap();
            (stream, line)
        })
        .collect();
    assert_eq!(listening.iter().filter(|(_, line)| line.contains("429")).count(), 8);
    server.ask("GET", "/api/sessions", None, 200);
    drop(listening);
    let count = |what: &str| fs::read_dir(format!("/proc/{pid}/{what}")).unwrap().count();
    until("threads or descriptors stay", || count("task") <= 2 && count("fd") < 16);
    server.ends();
}
