//! K9, A8: whatever the policy does not name is not reached, by any protocol, and fails at once.

use std::process::Stdio;

use crate::internet::{Who, each, ended, shown, with};

/// K9; A14: nothing of another project's on this machine is reached either.
#[test]
fn k9_what_is_not_listed_is_not_reached() {
    each(|internet| {
        let said = internet.fail_inside_only(&[
            ("another name", "curl -sSf http://evil.example.net/hello"),
            ("another name, by TLS", "curl -sSf https://evil.example.net/hello"),
            ("an address", "curl -sSf http://93.184.216.34/hello"),
            ("an address of the sixth version", "curl -sSf 'http://[2606:2800:220:1::34]/hello'"),
            ("an address, by TLS", "curl -sSf https://93.184.216.34/hello"),
            ("another port of a host that is listed", "curl -sSf http://site.example.com:9000/hello"),
            (
                "a datagram that is answered",
                "python3 -c '
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(20); s.connect((\"93.184.216.34\", 123))
s.send(b\"evil\"); s.send(b\"evil\"); s.recv(9); s.recv(9)'",
            ),
            (
                "a datagram of the sixth version",
                "python3 -c '
import socket
s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM); s.settimeout(20); s.connect((\"2606:2800:220:1::34\", 123))
s.send(b\"evil\"); s.send(b\"evil\"); s.recv(9); s.recv(9)'",
            ),
            (
                "a datagram to the port of TLS of a host that is listed",
                "python3 -c '
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(20); s.connect((\"site.example.com\", 443))
s.send(b\"evil\"); s.send(b\"evil\"); s.recv(9); s.recv(9)'",
            ),
            (
                "whether somebody is there",
                "python3 -c '
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP); s.settimeout(20)
s.sendto(b\"\\x08\\0\\0\\0\\0\\1\\0\\1evil\", (\"93.184.216.34\", 0)); s.recv(99)'",
            ),
        ]);
        for told in [
            "stopped: name evil.example.net",
            "stopped: tcp 93.184.216.34:80",
            "stopped: tcp [2606:2800:220:1::34]:80",
            "stopped: udp 93.184.216.34:123",
        ] {
            assert!(said.contains(told), "it is not said: {told}\n{said}");
        }
    });
}

/// A8: other projects' services on the same machine are out of reach, but for those that are listed.
#[test]
fn a8_only_listed_ports_of_the_host_are_reached() {
    each(|internet| {
        let ask = "import socket, sys; a, p = sys.argv[1:]; s = socket.create_connection((a, int(p)), 20); assert b\"secret\" in s.recv(99)";
        let reach = |address: &str, port: u16| format!("python3 -c '{ask}' {address} {port}");
        internet.works(&[
            ("a port that is listed", &reach("127.0.0.1", 5432)),
            ("by its name", &reach("localhost", 5432)),
            ("by IPv6", &reach("::1", 5432)),
            (
                "a program inside listens at a port of its own",
                "python3 -c '
import socket
l = socket.create_server((\"127.0.0.1\", 6379)); c = socket.create_connection((\"localhost\", 6379)); l.accept()'",
            ),
        ]);
        internet.fail_inside_only(&[
            ("a port that is not listed", &reach("127.0.0.1", 6379)),
            ("by its name", &reach("localhost", 6379)),
            ("by IPv6", &reach("::1", 6379)),
            ("by an older address in a newer one", &reach("::ffff:127.0.0.1", 6379)),
            ("by the address of nobody", &reach("0.0.0.0", 6379)),
            (
                "by another address of the loopback is nobody, so none of the host's own",
                "python3 -c '
import socket
s = socket.create_connection((\"127.0.0.1\", 6379), 20); assert s.recv(99)'",
            ),
            (
                "a datagram",
                "python3 -c '
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(20); s.connect((\"127.0.0.1\", 5353))
s.send(b\"evil\"); s.send(b\"evil\"); s.recv(9); s.recv(9)'",
            ),
            (
                "a socket with an abstract name",
                "python3 -c '
import socket
s = socket.socket(socket.AF_UNIX); s.connect(\"\\0ringfence-test\"); assert s.recv(99)'",
            ),
        ]);
    });
}

/// The very first thing that a program does may be to connect: whoever is listed is there by then.
#[test]
fn a8_listed_ports_are_there_from_the_first_moment() {
    with(Who::Ordinary, |internet| {
        for _ in 0..5 {
            let script = "exec 3<>/dev/tcp/127.0.0.1/5432 && read -r line <&3 && test \"$line\" = 'secret of the host'";
            let mut command = internet.fence(&["run", "--", "bash", "-c", script]);
            let output = ended(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
            assert!(output.status.success(), "{}", shown(&output));
        }
    });
}

/// A network in the policy takes its port for every address, and names are still told apart from it.
#[test]
fn k9_networks_and_names_share_a_port() {
    with(Who::Ordinary, |internet| {
        let policy = "version = 1\n[network]\nallow = [\"93.184.0.0/16:80\", \"site.example.com\"]\n";
        internet.write("networks.toml", policy);
        let script = "curl -sSf http://93.184.216.34/hello && curl -sSf http://site.example.com/hello && \
                      ! curl -sSf http://10.1.2.3/hello && ! curl -sSf 'http://[2606:2800:220:1::34]/hello'";
        let mut command = internet.fence(&["run", "--policy", "networks.toml", "--", "bash", "-euc", script]);
        let output = ended(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
        let said = shown(&output);
        assert!(output.status.success(), "{said}");
        assert!(said.contains("stopped: tcp 10.1.2.3:80") && !said.contains("listens there already"), "{said}");
    });
}
