//! K9: a program that means harm: to the check of names, and to whoever carries its connections.

use std::process::Stdio;

use crate::internet::{Internet, Who, each, ended, shown, with};

const SAY: &str = include_str!("say.py");

/// Ways to say one thing to the fence and another to the server. Each is answered on the host.
#[test]
fn k9_requests_that_could_be_read_two_ways_do_not_pass() {
    each(|internet| {
        internet.write("say.py", SAY);
        let head = |fields: &str| format!("GET /hello HTTP/1.1\\r\\n{fields}\\r\\n\\r\\n");
        let good = head("Host: site.example.com");
        let evil = head("Host: evil.com");
        let raw = |bytes: &[&str]| {
            let words: Vec<String> = bytes.iter().map(|word| format!("'{word}'")).collect();
            format!("timeout 40 python3 say.py raw site.example.com 80 {}", words.join(" "))
        };
        let attacks = [
            ("two hosts", raw(&[&head("Host: site.example.com\\r\\nHost: evil.com")])),
            ("two hosts, the other way round", raw(&[&head("Host: evil.com\\r\\nHost: site.example.com")])),
            ("a list of hosts", raw(&[&head("Host: site.example.com, evil.com")])),
            ("a host after a blank", raw(&[&head("Host: evil.com\\r\\nHost : site.example.com")])),
            ("a host in a folded line", raw(&[&head("Host: evil.com\\r\\nX: y\\r\\n Host: site.example.com")])),
            ("a user before the host", raw(&[&head("Host: site.example.com@evil.com")])),
            ("a NUL in the host", raw(&[&head("Host: site.example.com\\0.evil.com")])),
            ("a tunnel", raw(&["CONNECT /hello HTTP/1.1\\r\\nHost: evil.com\\r\\n\\r\\n"])),
            ("a tunnel to the host itself, and something else in it", {
                raw(&["CONNECT /hello HTTP/1.1\\r\\nHost: site.example.com\\r\\n\\r\\n", &evil])
            }),
            ("an older version without a host", raw(&["GET /hello HTTP/1.0\\r\\n\\r\\n"])),
            ("a method in small letters", raw(&["get /hello HTTP/1.1\\r\\nHost: evil.com\\r\\n\\r\\n"])),
            ("a version that nobody has", raw(&["GET /hello HTTP/1.2\\r\\nHost: evil.com\\r\\n\\r\\n"])),
            ("the next request at once", raw(&[&format!("{good}{evil}"), ""])),
            ("the next request in pieces", raw(&[&good, &evil])),
            ("a length and chunks", {
                let both = head("Host: site.example.com\\r\\nContent-Length: 9999\\r\\nTransfer-Encoding: chunked");
                raw(&[&format!("{both}{evil}")])
            }),
            ("two lengths", { raw(&[&head("Host: site.example.com\\r\\nContent-Length: 0\\r\\nContent-Length: 99")]) }),
            ("chunks by another name", { raw(&[&head("Host: site.example.com\\r\\nTransfer-Encoding: xchunked")]) }),
            ("an empty line first", raw(&[&format!("\\r\\n{evil}")])),
        ];
        let attacks: Vec<(&str, &str)> = attacks.iter().map(|(what, script)| (*what, script.as_str())).collect();
        let said = internet.fail_inside_only(&attacks);
        assert!(said.contains("HTTP names evil.com") && said.contains("HTTP cannot be read"), "{said}");
    });
}

/// What is said to the proxy is as strict.
#[test]
fn k9_a_proxy_is_not_talked_round() {
    with(Who::Ordinary, |internet| {
        internet.write("say.py", SAY);
        let before = internet.seen();
        let says = |bytes: &str, answer: &str| format!("python3 say.py front '{bytes}' | grep '{answer}'");
        let end = "\\r\\n\\r\\n";
        let absolute = format!("GET http://site.example.com/hello HTTP/1.1\\r\\nHost: site.example.com{end}");
        let tunnel = format!("CONNECT site.example.com:80 HTTP/1.1{end}");
        let evil = format!("GET http://evil.com/hello HTTP/1.1\\r\\nHost: evil.com{end}");
        let attempts = [
            (
                "a tunnel elsewhere",
                says(&format!("CONNECT evil.com:80 HTTP/1.1\\r\\nHost: site.example.com{end}"), "40[03]"),
            ),
            ("an address in disguise", says(&format!("CONNECT 1572395042:80 HTTP/1.1{end}"), "400")),
            ("a tunnel to the proxy itself", says(&format!("CONNECT 198.18.0.2:1080 HTTP/1.1{end}"), "403")),
            ("a tunnel to the host's own loopback", says(&format!("CONNECT localhost:5432 HTTP/1.1{end}"), "403")),
            (
                "another host than the target's",
                says(&absolute.replace("Host: site.example.com", "Host: evil.com"), "400"),
            ),
            ("another host in the next request", format!("! {}", says(&format!("{absolute}{evil}"), "evil"))),
            ("a tunnel, and another host in it", says(&format!("{tunnel}{evil}"), "200")),
            ("a request without end", {
                let long = "GET http://site.example.com/$(head -c 30000 /dev/zero | tr '\\0' a)";
                format!("! python3 say.py front \"{long}\" 2>&1 | grep 200")
            }),
        ];
        let attempts: Vec<(&str, &str)> = attempts.iter().map(|(what, script)| (*what, script.as_str())).collect();
        internet.works(&attempts);
        let arrived = internet.seen_since(&before);
        assert!(!arrived.contains("evil"), "something arrived: {arrived}");
    });
}

/// Asks for as many names as it can think of.
const NAMES: &str = r#"
import socket, sys
first = socket.getaddrinfo("first.wild.example.org", 80, socket.AF_INET)
given = refused = 0
for number in range(1500):
    try:
        socket.getaddrinfo(f"n{number}.wild.example.org", 80, socket.AF_INET)
        given += 1
    except OSError:
        refused += 1
print(given, "given", refused, "refused", flush=True)
assert given > 500 and refused > 0
assert socket.getaddrinfo("first.wild.example.org", 80, socket.AF_INET) == first
socket.create_connection(first[0][4], 30).close()
"#;

#[test]
fn k9_names_without_end_are_refused_and_told() {
    with(Who::Ordinary, |internet| {
        internet.write("names.py", NAMES);
        let said = run(&internet, &["run", "--", "/usr/bin/python3", "names.py"]);
        assert!(said.contains("too many names were asked for"), "{said}");
    });
}

/// Begins as much as it can on as many connections as it can, and ends nothing of it. Says how many of them are left.
const BEGUN: &str = r#"
import socket, struct, time
def is_there(s):
    s.setblocking(False)
    try:
        return s.recv(1) != b""
    except BlockingIOError:
        return True
    except OSError:
        return False
def left(address, begun, count, most):
    kept = []
    for _ in range(count):
        try:
            s = socket.create_connection(address, 30)
            s.sendall(begun)
            kept.append(s)
        except OSError:
            pass
    # Others are served meanwhile, and whoever cuts these off is not waited for by anybody.
    socket.create_connection(address, 30).close()
    for _ in range(600):
        left = sum(map(is_there, kept))
        if left <= most:
            break
        time.sleep(0.1)
    print(left, "are left of", len(kept), "at", address, flush=True)
    return left
"#;

/// At a host that is listed.
const HEADS: &str = r#"
head = b"GET /hello HTTP/1.1\r\nHost: site.example.com\r\nX: " + bytes([97]) * 60000
assert 0 < left(("site.example.com", 80), head, 600, 399) < 400
"#;

#[test]
fn k9_what_is_begun_and_not_ended_is_bounded() {
    begins(HEADS);
}

/// Where names are asked for, and at the proxy.
const OTHERS: &str = r#"
question = bytes([0, 9, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0]) + b"\4site\7example\3com\0" + bytes([0, 1, 0, 1])
s = socket.create_connection(("198.18.0.1", 53), 30)
s.sendall(struct.pack(">H", len(question)) + question)
assert len(s.recv(512)) > len(question)
assert left(("198.18.0.1", 53), b"\xff\xff" + bytes(60000), 500, 0) == 0
begun = b"GET http://site.example.com/ HTTP/1.1\r\nX: " + bytes([97]) * 15000
assert 0 < left(("198.18.0.2", 1080), begun, 2500, 1999) < 2000
"#;

#[test]
fn k9_questions_and_requests_to_the_proxy_are_bounded_too() {
    begins(OTHERS);
}

#[track_caller]
fn begins(script: &str) {
    with(Who::Ordinary, |internet| {
        internet.write("begins.py", &[BEGUN, script].concat());
        let said = run(&internet, &["run", "--", "/usr/bin/python3", "begins.py"]);
        assert!(said.contains("too much was begun at once and not ended"), "{said}");
    });
}

#[track_caller]
fn run(internet: &Internet, arguments: &[&str]) -> String {
    // The sockets of the program inside are counted too.
    let mut command = internet.outside("prlimit");
    command.arg("--nofile=16384:16384").arg(internet.path("ringfence")).args(arguments);
    let output = ended(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
    let said = shown(&output);
    assert!(output.status.success(), "{said}");
    said
}
