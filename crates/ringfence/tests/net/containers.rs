//! K9 in containers: their own network is none, and the same hosts are reached through the supervisor as from our own fence.
//! Nothing in there has the right to make addresses local, so names lead to addresses of the loopback network.

use crate::internet::{Who, with};
use ringfence_testkit::{Starter, engines, report_skip};

const REACHED: &[(&str, &str)] = &[
    ("a host that is listed, by its name", "curl -sSf http://site.example.com/hello | grep -q hello"),
    (
        "the same by the way of a proxy",
        "curl -sSf -x socks5h://127.198.0.2:1080 http://site.example.com/hello | grep -q hello",
    ),
    (
        "a port of the host's that is listed",
        "python3 -c 'import socket; assert b\"secret\" in socket.create_connection((\"localhost\", 5432), 20).recv(99)'",
    ),
    (
        "a program inside listens at a port of its own",
        "python3 -c '
import socket
l = socket.create_server((\"127.0.0.1\", 6379)); c = socket.create_connection((\"localhost\", 6379)); l.accept()'",
    ),
];

const REFUSED: &[(&str, &str)] = &[
    ("another name", "curl -sSf http://evil.example.net/hello"),
    ("another name, by TLS", "curl -sSf https://evil.example.net/hello"),
    ("an address", "curl -sSf http://93.184.216.34/hello"),
    ("an address of the sixth version", "curl -sSf 'http://[2606:2800:220:1::34]/hello'"),
    ("another port of a host that is listed", "curl -sSf http://site.example.com:9000/hello"),
    (
        "a port of the host's that is not listed",
        "python3 -c 'import socket; assert b\"secret\" in socket.create_connection((\"127.0.0.1\", 6379), 20).recv(99)'",
    ),
    (
        "a datagram that is answered",
        "python3 -c '
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(20); s.connect((\"93.184.216.34\", 123))
s.send(b\"evil\"); s.send(b\"evil\"); s.recv(9); s.recv(9)'",
    ),
];

fn reaches_what_is_listed(engine: &'static str, who: Who) {
    let starter = if who == Who::Root { Starter::Root } else { Starter::Ordinary };
    let Some(variables) = engines(starter) else {
        return report_skip("containers: no engines were started; `cargo xtask test` starts them");
    };
    with(who, |internet| {
        let internet = internet.with_engine(engine, variables.clone());
        internet.works(REACHED);
        let said = internet.fail_inside_only(REFUSED);
        // Who has no right to look at packets is told of names only.
        assert!(said.contains("stopped: name evil.example.net"), "{said}");
    });
}

#[test]
fn k9_docker_reaches_what_is_listed() {
    reaches_what_is_listed("docker", Who::Ordinary);
}

#[test]
fn k9_podman_of_root_reaches_what_is_listed() {
    reaches_what_is_listed("podman", Who::Root);
}

#[test]
fn k9_podman_of_a_user_reaches_what_is_listed() {
    reaches_what_is_listed("podman", Who::Ordinary);
}
