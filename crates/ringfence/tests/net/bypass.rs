//! K9: ways around a list of hosts that have worked elsewhere. Each is tried on the host first, where it must work.

use std::process::Stdio;

use crate::internet::{Internet, Who, each, ended, shown, with};

const SAY: &str = include_str!("say.py");

fn with_tools(internet: &Internet) {
    internet.write("say.py", SAY);
}

/// What was stopped is told, with how often between what and why.
fn is_told(said: &str, what: &str, why: &str) -> bool {
    let what = format!("ringfence: stopped: {what}");
    said.lines().any(|line| line.starts_with(&what) && line.contains(why))
}

#[test]
fn k9_names_and_addresses_in_disguise() {
    each(|internet| {
        let said = internet.fail_inside_only(&[
            ("a name that ends like one that is listed", "curl -sSf http://evil-github.com/hello"),
            ("a name that ends like one, without a seam", "curl -sSf http://evilgithub.com/hello"),
            ("a name that begins like one that is listed", "curl -sSf http://github.com.evil.com/hello"),
            ("a name before an at sign", "curl -sSf http://github.com@evil.com/hello"),
            ("a name below one that is listed", "curl -sSf http://evil.github.com/hello"),
            ("the name above a wildcard", "curl -sSf http://wild.example.org/hello"),
            ("a name that ends like a wildcard", "curl -sSf http://evilwild.example.org/hello"),
            ("a dot at the end", "curl -sSf http://evil.com./hello"),
            ("upper case", "curl -sSf http://EVIL.com/hello"),
            ("an address as one number", "curl -sSf http://1572395042/hello"),
            ("an address in base sixteen", "curl -sSf http://0x5db8d822/hello"),
            ("an address in base eight", "curl -sSf http://0135.0270.0330.042/hello"),
            ("a short address", "curl -sSf http://93.12113954/hello"),
            ("an older address in a newer one", "curl -sSf 'http://[::ffff:93.184.216.34]/hello'"),
            ("a port in a wildcard that is another's", "curl -sSf http://a.wild.example.org:8080/hello"),
        ]);
        assert!(said.contains("stopped: name evil-github.com"), "{said}");
    });
}

/// Names that the policy lists and whose owner makes them lead where the agent must not go.
#[test]
fn k9_listed_names_do_not_lead_inwards() {
    each(|internet| {
        let said = internet.fail_inside_only(&[
            ("a name that leads to a private address", "curl -sSf http://inner.example.com/hello"),
            ("a name that leads to the address of cloud metadata", "curl -sSf http://meta.example.com/hello"),
            ("a name that leads to the host itself", "curl -sSf http://loop.example.com/hello"),
            ("a name that leads to a private address in a newer one", "curl -sSf http://mapped.example.com/hello"),
            (
                "a redirect to the address of cloud metadata",
                "curl -sSfL http://site.example.com/to/http://169.254.169.254/hello",
            ),
            ("a redirect to a private address", "curl -sSfL http://site.example.com/to/http://10.1.2.3/hello"),
            ("a redirect to another name", "curl -sSfL http://site.example.com/to/http://wicked.example.net/hello"),
            ("a redirect to the host itself", "curl -sSfL http://site.example.com/to/http://127.0.0.1/hello"),
        ]);
        for (what, why) in [
            (
                "tcp inner.example.com:80",
                "its address 10.1.2.3 is a private address, and `private` does not name the host; if that is right, add \"inner.example.com:80\" to `private` in [network]",
            ),
            ("tcp meta.example.com:80", "its address 169.254.169.254 is"),
            ("tcp loop.example.com:80", "its address 127.0.0.1 is"),
        ] {
            assert!(is_told(&said, what, why), "it is not said: {what}: {why}\n{said}");
        }
        internet.works(&[("a name with a private and a public address", "curl -sSf http://half.example.com/hello")]);
    });
}

/// F3: services that listen at every address of the machine are its own, by whatever address they are dialled: `host_ports` opens them.
#[test]
fn f3_listed_names_and_networks_do_not_lead_to_the_machine_itself() {
    let ask = |address: &str| {
        format!(
            "python3 -c 'import socket; assert b\"secret\" in socket.create_connection((\"{address}\", 8082), 20).recv(99)'"
        )
    };
    each(|internet| {
        let said = internet.fail_inside_only(&[
            ("a name that is marked as private", &ask("self.example.com")),
            ("a name whose address only a route makes the machine's own", &ask("routed.example.com")),
        ]);
        let why = "is an address of this machine; list the port in `host_ports` and connect to localhost";
        for (name, address) in [("self", "93.184.216.1"), ("routed", "93.184.217.9")] {
            let what = format!("tcp {name}.example.com:8082");
            assert!(is_told(&said, &what, &format!("its address {address} {why}")), "{said}");
        }
        let policy = "version = 1\n[network]\nallow = [\"93.184.0.0/16:8082\"]\n";
        internet.write("networks.toml", policy);
        let both = ["93.184.216.1", "93.184.217.9"].map(ask);
        let outside = internet.outside("bash").args(["-euc", &both.join(" && ")]).output().unwrap();
        assert!(outside.status.success(), "{}", shown(&outside));
        let script = both.map(|ask| format!("! {ask}")).join(" && ");
        let mut inside = internet.fence(&["run", "--policy", "networks.toml", "--", "bash", "-euc", &script]);
        let inside = ended(inside.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
        assert!(
            inside.status.success() && is_told(&shown(&inside), "tcp 93.184.216.1:8082", why),
            "{}",
            shown(&inside)
        );
    });
}

#[test]
fn k9_a_name_is_resolved_anew_and_guarded_each_time() {
    with(Who::Ordinary, |internet| {
        let said = internet.works(&[
            ("a name leads to a public address", "curl -sSf http://rebind.example.com/hello"),
            ("the same name leads to the host itself later", "! curl -sSf http://rebind.example.com/hello"),
        ]);
        assert!(is_told(&said, "tcp rebind.example.com:80", "its address 127.0.0.1 is"), "{said}");
    });
}

/// Many hosts of one content network share their addresses: what is said on a connection counts, not only who was dialled.
#[test]
fn k9_what_is_said_names_the_host_that_was_dialled() {
    each(|internet| {
        with_tools(&internet);
        internet.works(&[
            ("several requests", "python3 say.py http site.example.com 80 site.example.com SITE.example.com:80"),
            ("TLS", "python3 say.py tls site.example.com site.example.com site.example.com"),
            ("TLS that begins in pieces", "python3 say.py pieces site.example.com site.example.com site.example.com"),
        ]);
        let said = internet.fail_inside_only(&[
            ("a request for another host", "python3 say.py http site.example.com 80 evil.com"),
            ("a second request for another host", "python3 say.py http site.example.com 80 site.example.com evil.com"),
            ("a target that is another host", "python3 say.py absolute site.example.com 80 evil.com"),
            ("a request for another host that is listed", "python3 say.py http site.example.com 80 github.com"),
            ("a request for no host", "python3 say.py http site.example.com 80 ''"),
            ("at a port of its own as well", "python3 say.py http site.example.com 8080 evil.com"),
            ("TLS for another host", "python3 say.py tls site.example.com evil.com evil.com"),
            ("TLS for no host", "python3 say.py tls site.example.com - evil.com"),
            ("TLS for another host, in pieces", "python3 say.py pieces site.example.com evil.com evil.com"),
        ]);
        for told in ["HTTP names evil.com", "HTTP names github.com", "TLS names evil.com", "TLS names no host"] {
            assert!(said.contains(told), "it is not said: {told}\n{said}");
        }
    });
}

/// Proxies and name servers are the fence's own, whatever address they have. Nothing about other names goes out.
#[test]
fn k9_proxies_and_name_servers_follow_the_policy() {
    each(|internet| {
        with_tools(&internet);
        let proxied = |url: &str| format!("curl -sS -o /dev/null -w '%{{http_code}}' -x http://198.18.0.2:1080 {url}");
        let before = internet.seen();
        let said = internet.works(&[
            ("a proxy forwards", &format!("test $({}) = 200", proxied("http://site.example.com/hello"))),
            ("a proxy does not forward elsewhere", &format!("test $({}) = 403", proxied("http://evil.com/hello"))),
            ("nor to an address", &format!("test $({}) = 403", proxied("http://93.184.216.34/hello"))),
            ("nor to the host itself", &format!("test $({}) = 403", proxied("http://127.0.0.1:6379/"))),
            ("nor to metadata", &format!("test $({}) = 403", proxied("http://169.254.169.254/evil"))),
            ("no tunnel elsewhere", &format!("{} 2>&1 | grep 403", proxied("https://evil.com/hello"))),
            ("no tunnel to another port", &format!("{} -p 2>&1 | grep 403", proxied("http://site.example.com:9000/"))),
            (
                "no older tunnel elsewhere",
                "curl -sS -x socks5h://198.18.0.2:1080 http://evil.com/hello 2>&1 | grep 'SOCKS5.*(2)'",
            ),
            (
                "no older tunnel to an address",
                "curl -sS -x socks5://198.18.0.2:1080 http://93.184.216.34/hello 2>&1 | grep 'SOCKS5.*(2)'",
            ),
            (
                "a tunnel to a name whose address was asked for before",
                "curl -sSf -x socks5://198.18.0.2:1080 http://site.example.com/hello",
            ),
            ("a name server answers", "python3 say.py ask 127.0.0.53 udp site.example.com | grep '^0 198.18.'"),
            ("any other does as well", "python3 say.py ask 8.8.8.8 udp site.example.com | grep '^0 198.18.'"),
            ("by TCP too", "python3 say.py ask 1.1.1.1 tcp site.example.com | grep '^0 198.18.'"),
            ("by IPv6 too", "python3 say.py ask 2001:4860:4860::8888 udp site.example.com | grep '^0 198.18.'"),
            ("other kinds of answers are empty", "python3 say.py ask 8.8.8.8 udp site.example.com 65 | grep -x '0 0'"),
            ("of any kind", "python3 say.py ask 8.8.8.8 tcp site.example.com 64 | grep -x '0 0'"),
            ("and there is none for another name", "python3 say.py ask 8.8.8.8 udp evil.com 65 | grep -x '3 0'"),
            ("no other name exists", "python3 say.py ask 8.8.8.8 udp evil.com | grep -x 3"),
            ("by TCP neither", "python3 say.py ask 8.8.8.8 tcp evil.com | grep -x 3"),
            ("a real name server is not asked", "python3 say.py ask 93.184.216.34 udp evil.com | grep -x 3"),
            (
                "names below one that is listed do not exist",
                "python3 say.py ask 8.8.8.8 udp evil.site.example.com | grep -x 3",
            ),
        ]);
        assert!(said.contains("stopped: proxy evil.com:80"), "{said}");
        let arrived = internet.seen_since(&before);
        assert!(!arrived.contains("evil"), "something arrived: {arrived}");
    });
}

/// F1, F2: a server may ask for a second hello, and takes the host from that one; or TLS begins after other words.
#[test]
fn f1_f2_every_hello_on_a_connection_names_the_host_that_was_dialled() {
    each(|internet| {
        with_tools(&internet);
        internet.works(&[
            ("a second hello", "python3 say.py retry site.example.com 443 site.example.com"),
            ("a second hello at another port", "python3 say.py retry site.example.com 8443 site.example.com"),
            ("TLS in the middle of mail", "python3 say.py late site.example.com site.example.com"),
            ("TLS in the middle of mail, without a name", "python3 say.py late site.example.com -"),
        ]);
        let said = internet.fail_inside_only(&[
            ("a second hello for another host", "python3 say.py retry site.example.com 443 evil.com"),
            ("the same at another port", "python3 say.py retry site.example.com 8443 evil.com"),
            ("after a change of cipher", "python3 say.py retry site.example.com 443 evil.com 140303000101"),
            ("TLS for another host in the middle of mail", "python3 say.py late site.example.com evil.com"),
        ]);
        assert!(is_told(&said, "tcp site.example.com:443", "TLS names evil.com"), "{said}");
        assert!(is_told(&said, "tcp site.example.com:2525", "TLS names evil.com"), "{said}");
    });
}

/// F6: programs that say a word and wait, and protocols that share words with HTTP, are served at once.
#[test]
fn f6_words_that_http_has_too_are_carried() {
    with(Who::Ordinary, |internet| {
        with_tools(&internet);
        let echoed = |words: &str| {
            format!(
                "timeout 20 python3 -c '
import socket
s = socket.create_connection((\"site.example.com\", 7))
s.sendall({words})
assert s.recv(99) == {words}'"
            )
        };
        internet.works(&[
            ("a word without an end", &echoed("b\"PING\"")),
            ("a queue of messages", &echoed("b\"CONNECT {}\\r\\n\"")),
            ("another one", &echoed("b\"CONNECT\\naccept-version:1.2\\n\\n\"")),
            ("a stream of pictures", &echoed("b\"OPTIONS rtsp://site.example.com/x RTSP/1.0\\r\\n\\r\\n\"")),
        ]);
    });
}

/// F7: a request that names the host may go on with WebSocket, if the server agrees.
#[test]
fn f7_websocket_passes_for_the_host_that_was_dialled() {
    with(Who::Ordinary, |internet| {
        with_tools(&internet);
        let said = internet.works(&[
            ("WebSocket", "python3 say.py websocket site.example.com /ws site.example.com | grep 101"),
            ("a server that declines", "python3 say.py websocket site.example.com /no site.example.com | grep 426"),
            ("another host after that", "! python3 say.py websocket site.example.com /no evil.com"),
        ]);
        assert!(is_told(&said, "tcp site.example.com:8081", "HTTP names evil.com"), "{said}");
        assert!(!internet.seen().concat().contains("Host: evil"), "{said}");
    });
}
