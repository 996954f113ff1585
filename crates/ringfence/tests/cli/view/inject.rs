//! Credentials that are added on the way out: the host gets them, and nothing inside ever holds them.

use std::fs;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

use super::{Fence, each, text};

/// In two halves: the program that looks for it inside must not hold it itself.
const SECRET: [&str; 2] = ["sk-real-", "SECRET-4711"];

const POLICY: &str = "[network]\nallow = [\"api.example.com:443\", \"other.example.com\"]\n\
     [env]\npass = [\"API_KEY\", \"COPY\"]\n\
     [network.inject.\"api.example.com\"]\nheader = \"x-api-key\"\nfrom_env = \"API_KEY\"\nprefix = \"Key \"\n";

/// Answers every request, and writes down the header that it came with. `/away` leads to another host.
const SERVER: &str = r#"
import http.server, socketserver, ssl, sys, threading
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        with open(sys.argv[1] + "/run/seen", "a") as seen:
            port = self.server.server_address[1]
            print(port, self.headers["Host"], self.path, self.headers.get_all("x-api-key"), file=seen)
        self.send_response(302 if self.path == "/away" else 200)
        self.send_header("Location", "http://other.example.com/stolen")
        self.send_header("Content-Length", "5")
        self.end_headers()
        self.wfile.write(b"hello")
    def log_message(self, *_): pass
class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
secure, plain = Server(("93.184.216.34", 443), Handler), Server(("93.184.216.34", 80), Handler)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(sys.argv[1] + "/run/leaf.pem", sys.argv[1] + "/run/key.pem")
secure.socket = context.wrap_socket(secure.socket, server_side=True)
threading.Thread(target=plain.serve_forever, daemon=True).start()
open(sys.argv[1] + "/run/ready", "w").close()
secure.serve_forever()
"#;

/// Makes a request, and looks for the secret: in its variables, its memory and all processes.
const LOOK: &str = r#"
import os, urllib.request as u
print(u.urlopen(u.Request('http://api.example.com/v1', headers={'X-Api-Key': os.environ['API_KEY']})).read())
print(os.environ['API_KEY'], os.environ.get('COPY'))
# What is searched for stands in memory itself, but with another byte behind it. All are listed before: to read makes more of them,
# which go again.
start = b'sk-real'
memory, regions = open('/proc/self/mem', 'rb', 0), 0
for line in list(open('/proc/self/maps')):
    low, high = (int(number, 16) for number in line.split()[0].split('-'))
    if 'r' not in line.split()[1] or '[v' in line: continue
    memory.seek(low)
    held, regions = memory.read(high - low), regions + 1
    at = held.find(start)
    while at >= 0:
        assert held[at + 7:at + 8] != b'-', line
        at = held.find(start, at + 1)
print('searched', regions > 10)
needle = b'-'.join([b'sk', b'real', b'SECRET', b'4711'])
for process in os.listdir('/proc'):
    for name in ('environ', 'cmdline'):
        try: held = open(f'/proc/{process}/{name}', 'rb').read()
        except OSError: continue
        assert needle not in held, (process, name)
"#;

/// A certificate for a host, and of who vouches for it.
fn certificates(fence: &Fence, name: &str) {
    let mut authority = CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority_key = KeyPair::generate().unwrap();
    let authority_text = authority.self_signed(&authority_key).unwrap().pem();
    let key = KeyPair::generate().unwrap();
    let issuer = Issuer::new(authority, authority_key);
    let leaf = CertificateParams::new(vec![name.to_owned()]).unwrap().signed_by(&key, &issuer).unwrap();
    fence.write(&[
        ("run/ca.pem", &authority_text),
        ("run/leaf.pem", &leaf.pem()),
        ("run/key.pem", &key.serialize_pem()),
        ("run/server.py", SERVER),
        ("run/hosts", "93.184.216.34 api.example.com other.example.com\n"),
    ]);
}

/// Runs a script inside, where a host of that certificate is the only one in the world. Nothing leaves: the host is a network
/// namespace of the test's own. What was printed, and what the host saw.
fn run(fence: &Fence, name: &str, script: &str) -> (String, String) {
    certificates(fence, name);
    fence.policy(POLICY);
    let trusted = fence.ringfence().args(["trust", "--force"]).output().unwrap();
    assert!(trusted.status.success(), "{}", text(&trusted.stderr));
    for left in ["run/seen", "run/ready"] {
        // The first time there is none.
        let _ = fs::remove_file(fence.path(left));
    }
    let world = "mount --bind $W/run/hosts /etc/hosts; \
                 touch $W/run/seen; chmod 666 $W/run/seen; there python3 $W/run/server.py $W & \
                 for i in $(seq 1200); do test -e $W/run/ready && break; sleep 0.05; done; ";
    let exports = format!("export SSL_CERT_FILE=$W/run/ca.pem API_KEY={0}{1} COPY=x{0}{1}x", SECRET[0], SECRET[1]);
    let script = fence.script(script);
    // The server ends with the network namespace's first process.
    let command = ["run", "--", "/bin/sh", "-c", script.as_str()];
    let arguments: Vec<&str> = [fence.binary()].into_iter().chain(command).collect();
    let output = fence.beside_a_host("93.184.216.34", &format!("{world}{exports}"), &arguments);
    let said = text(&output.stdout) + &text(&output.stderr);
    (said, fs::read_to_string(fence.path("run/seen")).unwrap_or_default())
}

#[test]
fn the_host_gets_the_credential_and_nothing_inside_holds_it() {
    each(|fence| {
        fence.write(&[("project/look.py", LOOK)]);
        let script = "/usr/bin/python3 look.py; env; grep -rs sk-real-S / --include='*' -l --exclude-dir=proc --exclude-dir=sys --exclude-dir=usr";
        let (said, seen) = run(fence, "api.example.com", script);
        assert!(
            said.contains("b'hello'") && said.contains("ringfence-injected None") && said.contains("searched True"),
            "{said}"
        );
        assert!(!said.contains(&SECRET.concat()) && !said.contains("AssertionError"), "{said}");
        assert_eq!(seen, format!("443 api.example.com /v1 ['Key {}']\n", SECRET.concat()));
    });
}

#[test]
fn no_other_host_gets_the_credential() {
    each(|fence| {
        let fetch = |url: &str, host: &str| {
            format!(
                "/usr/bin/python3 -c 'import urllib.request as u; \
                 print(u.urlopen(u.Request(\"{url}\", headers={{\"Host\": \"{host}\"}})).read())' || echo failed; "
            )
        };
        let script = fetch("http://api.example.com/away", "api.example.com")
            + &fetch("http://api.example.com/front", "other.example.com")
            + &fetch("http://other.example.com/plain", "other.example.com");
        let (said, seen) = run(fence, "api.example.com", &script);
        let got: Vec<&str> = seen.lines().filter(|line| line.contains(&SECRET.concat())).collect();
        assert_eq!(got, [format!("443 api.example.com /away ['Key {}']", SECRET.concat())], "{seen}{said}");
        assert!(seen.contains("80 other.example.com /stolen") || said.contains("failed"), "{seen}{said}");
        assert!(!seen.contains("/front"), "{seen}");
        assert!(seen.contains("80 other.example.com /plain None"), "{seen}{said}");
        assert!(!said.contains(&SECRET.concat()), "{said}");
        // Somebody else at the host's address is not spoken to.
        let (said, seen) = run(fence, "evil.example.com", &fetch("http://api.example.com/v1", "api.example.com"));
        assert!(said.contains("failed") && seen.is_empty(), "{said}{seen}");
        assert!(!said.contains(&SECRET.concat()), "{said}");
    });
}

/// A tool that insists on a proxy gets the same.
#[test]
fn a_proxy_adds_the_credential_too() {
    each(|fence| {
        let script = "http_proxy=http://198.18.0.2:1080 /usr/bin/python3 -c '\
             import urllib.request as u; print(u.urlopen(\"http://api.example.com/proxied\").read())'";
        let (said, seen) = run(fence, "api.example.com", script);
        assert_eq!(seen, format!("443 api.example.com /proxied ['Key {}']\n", SECRET.concat()), "{said}");
        assert!(!said.contains(&SECRET.concat()) && !said.contains("ringfence: stopped"), "{said}");
    });
}
