//! F4: servers of the agent's own at every address of theirs, and hosts that the policy lists at the same port, do not meet.

use crate::internet::{Who, each, with};

/// Listens at every address, by both families, at the port of a host that is listed, and says what reaches it there.
const SERVER: &str = r#"
import socket, sys, threading, urllib.request
first, port = sys.argv[1], int(sys.argv[2])
url = f"http://site.example.com:{port}/hello"
def ask_site():
    assert urllib.request.urlopen(url, timeout=30).read().startswith(b"hello site.example.com")
def serve(family, address):
    listener = socket.socket(family)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if family == socket.AF_INET6:
        listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    listener.bind((address, port))
    listener.listen()
    def answer():
        while True:
            peer = listener.accept()[0]
            peer.sendall(b"own")
            peer.close()
    threading.Thread(target=answer, daemon=True).start()
def ask(address):
    return socket.create_connection((address, port), 30).recv(9)
if first == "site":
    ask_site()
serve(socket.AF_INET, "0.0.0.0")
serve(socket.AF_INET6, "::")
ask_site()
for own in ("127.0.0.1", "127.9.9.9", "::1", "localhost"):
    assert ask(own) == b"own", own
for family, other in ((2, "1.1.1.1"), (2, "10.1.2.3"), (2, "198.18.77.77"), (2, "169.254.169.254"), (10, "2606:2800:220:1::99"), (10, "fd52:4600::7777")):
    try:
        reached = socket.socket(family).connect((other, port))
    except OSError as error:
        assert error.errno in (111, 113), (other, error)
    else:
        sys.exit(f"{other} is reached")
ask_site()
print("both work")
"#;

#[test]
fn f4_own_servers_and_listed_hosts_share_a_port() {
    each(|internet| {
        internet.write("server.py", SERVER);
        internet.works(&[
            ("the host first", "python3 server.py site 8080"),
            ("the server first", "python3 server.py own 8080"),
            ("a low port", "python3 server.py own 80"),
        ]);
    });
}

/// What a program could do with the addresses that stand for hosts.
#[test]
fn f4_no_program_listens_in_the_place_of_a_host() {
    let bind = |family: &str, address: &str, option: &str| {
        format!(
            "python3 -c 'import socket, sys; s = socket.socket(socket.{family}); {option}; \
             socket.getaddrinfo(\"site.example.com\", 80); s.bind((\"{address}\", 8080)); s.listen(); s.settimeout(1); \
             import urllib.request as u; sys.exit(0 if b\"site\" in u.urlopen(\"http://site.example.com:8080/hello\").read() else 1)'"
        )
    };
    let free_v4 = "s.setsockopt(0, 15, 1)";
    let free_v6 = "s.setsockopt(41, 78, 1)";
    let transparent = "s.setsockopt(0, 19, 1)";
    with(Who::Ordinary, |internet| {
        internet.works(&[
            ("an address of a host is none of ours", &format!("! {}", bind("AF_INET", "198.18.1.1", "0"))),
            ("one that is taken without having it gets nothing", &bind("AF_INET", "198.18.1.1", free_v4)),
            ("the same of the newer kind", &bind("AF_INET6", "fd52:4600::101", free_v6)),
            ("the right to be anybody is not ours", &format!("! {}", bind("AF_INET", "198.18.1.1", transparent))),
        ]);
    });
}
