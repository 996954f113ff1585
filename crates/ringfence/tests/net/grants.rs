//! K13: hosts are given to a session that runs, and taken away again with every connection to them.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::time::{Duration, Instant};

use crate::internet::{Internet, Who, each, shown, with};

/// Longer than anything here takes on a busy machine; only a failure waits for it.
const PATIENCE: Duration = Duration::from_secs(60);

/// A session whose command is a shell that does what it is told.
struct Shell<'i> {
    internet: &'i Internet,
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    id: String,
}

impl<'i> Shell<'i> {
    fn start(internet: &'i Internet, options: &[&str]) -> Self {
        let mut command = internet.fence(&["run"]);
        command.args(options).args(["--", "bash"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (stdin, stdout) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        let mut shell = Self { internet, child, stdin, stdout, id: String::new() };
        shell.id = shell.does("echo $RINGFENCE_SESSION");
        assert!(!shell.id.is_empty(), "{}", shell.ends());
        shell
    }

    /// One line of answer to one line of script.
    fn does(&mut self, script: &str) -> String {
        writeln!(self.stdin, "{{ {script}\n}} 2>&1 | tr '\\n' ' '; echo").unwrap();
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        line.trim().to_owned()
    }

    #[track_caller]
    fn reaches(&mut self, url: &str) {
        let said = self.does(&format!("curl -sS -m 20 {url}"));
        assert!(said.starts_with("hello ") || said.starts_with("secret "), "{url}: {said}");
    }

    /// At once, and not by waiting.
    #[track_caller]
    fn does_not_reach(&mut self, url: &str) {
        let begun = Instant::now();
        let said = self.does(&format!("curl -sSf -m 20 {url} || echo FAILED"));
        assert!(said.ends_with("FAILED") && begun.elapsed() < Duration::from_secs(10), "{url}: {said}");
    }

    #[track_caller]
    fn asks(&self, arguments: &[&str]) -> String {
        let output = self.internet.fence(&[]).args(arguments).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", shown(&output));
        shown(&output)
    }

    #[track_caller]
    fn is_granted(&self, host: &str) {
        self.asks(&["grant", &self.id, "--host", host]);
    }

    #[track_caller]
    fn is_refused(&self, host: &str, why: &str) {
        let output = self.internet.fence(&["grant", &self.id, "--host", host]).output().unwrap();
        assert!(!output.status.success() && shown(&output).contains(why), "{host}: {}", shown(&output));
    }

    #[track_caller]
    fn revokes(&self, host: &str) -> String {
        self.asks(&["revoke", &self.id, "--host", host])
    }

    /// Starts a program that connects, says how it went, waits for the end and says that too.
    fn connects(&mut self, how: &str) {
        let script = format!(
            "python3 -c '
import socket, sys
{how}
s.sendall(b\"\\0\"); s.recv(1); print(\"open\", flush=True)
try:
    print(\"ended\" if s.recv(1) == b\"\" else \"more\", flush=True)
except OSError as e:
    print(\"cut\", flush=True)
' > \"$HOME/said\" 2>&1 &"
        );
        self.does("rm -f \"$HOME/said\"");
        writeln!(self.stdin, "{script}").unwrap();
        self.until("open");
    }

    /// Waits until the program has said a word.
    #[track_caller]
    fn until(&mut self, word: &str) {
        let end = Instant::now() + PATIENCE;
        loop {
            let said = self.does("cat \"$HOME/said\"");
            if said.contains(word) {
                return;
            }
            assert!(Instant::now() < end && !said.contains("Error"), "not {word}: {said}");
            std::thread::yield_now();
        }
    }

    fn ends(mut self) -> String {
        drop(self.stdin);
        let mut said = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        self.child.wait().unwrap();
        said
    }
}

const TO_ECHO: &str = "s = socket.create_connection((\"evil.example.net\", 7))";
const BY_TUNNEL: &str = "s = socket.create_connection((\"198.18.0.2\", 1080))
s.sendall(b\"CONNECT evil.example.net:7 HTTP/1.1\\r\\n\\r\\n\")
assert b\" 200 \" in s.recv(999)";
const BY_SOCKS: &str = "s = socket.create_connection((\"198.18.0.2\", 1080))
s.sendall(b\"\\5\\1\\0\"); s.recv(2); s.sendall(b\"\\5\\1\\0\\3\\x10evil.example.net\\0\\7\")
assert s.recv(99)[1] == 0";

#[test]
fn k13_a_host_reaches_the_running_command_and_is_taken_away() {
    each(|internet| {
        let mut shell = Shell::start(&internet, &[]);
        shell.does_not_reach("http://evil.example.net/hello");
        shell.is_granted("evil.example.net");
        shell.reaches("http://evil.example.net/hello");
        shell.reaches("--cacert ca.pem https://evil.example.net/hello");
        // Nothing beside it.
        shell.does_not_reach("http://evil.example.net:9000/hello");
        shell.does_not_reach("http://other.example.net/hello");
        // A further port of a host that has an address already.
        shell.is_granted("evil.example.net:9000");
        shell.reaches("http://evil.example.net:9000/hello");
        // Names below one, and an address.
        shell.is_granted("*.deep.example.net:80");
        shell.reaches("http://a.deep.example.net/hello");
        shell.does_not_reach("http://deep.example.net/hello");
        shell.does_not_reach("http://93.184.216.34/hello");
        shell.is_granted("93.184.216.34:80");
        shell.reaches("http://93.184.216.34/hello");
        shell.revokes("93.184.216.34:80");
        shell.does_not_reach("http://93.184.216.34/hello");
        // The address that it got for the name leads nowhere now, nor does the name.
        let kept = "-s --resolve evil.example.net:80:$(cat \"$HOME/kept\") http://evil.example.net/hello";
        shell.does("python3 -c 'import socket; print(socket.gethostbyname(\"evil.example.net\"))' > \"$HOME/kept\"");
        shell.reaches(kept);
        shell.revokes("evil.example.net");
        shell.does_not_reach("http://evil.example.net/hello");
        shell.does_not_reach(kept);
        shell.reaches("http://evil.example.net:9000/hello");
        shell.revokes("evil.example.net:9000");
        shell.does_not_reach("http://evil.example.net:9000/hello");
        assert!(shell.does("getent hosts evil.example.net; echo $?").ends_with('2'), "it has no address any more");
        // Again, and a program that kept the address goes on without asking for the name.
        shell.is_granted("evil.example.net");
        shell.reaches(kept);
        // What the policy has is not touched by any of this.
        shell.reaches("http://site.example.com/hello");
        let shown = shell.asks(&["show", &shell.id, "--json"]);
        assert!(shown.contains("\"access\": \"reach\"") || shown.contains("\"access\":\"reach\""), "{shown}");
        let logs = shell.asks(&["logs", &shell.id]);
        assert_eq!((logs.matches("grant host").count(), logs.matches("revoke host").count()), (5, 3), "{logs}");
        assert!(shell.asks(&["audit", "verify"]).contains("whole"));
        shell.ends();
    });
}

/// Both directions of what is open end at once, whichever way it was opened.
#[test]
fn k13_the_end_of_a_grant_closes_connections() {
    each(|internet| {
        let mut shell = Shell::start(&internet, &[]);
        for how in [TO_ECHO, BY_TUNNEL, BY_SOCKS] {
            shell.is_granted("evil.example.net:7");
            shell.connects(how);
            let said = shell.revokes("evil.example.net:7");
            assert!(said.contains("connections closed: 1"), "{how}: {said}");
            shell.until("cut");
        }
        // What something else admits goes on: one of two grants, or the policy.
        shell.is_granted("evil.example.net:7");
        shell.is_granted("*.example.net:7");
        shell.connects(TO_ECHO);
        assert!(shell.revokes("evil.example.net:7").contains("connections closed: 0"));
        assert_eq!(shell.does("cat \"$HOME/said\""), "open");
        assert!(shell.revokes("*.example.net:7").contains("connections closed: 1"));
        shell.until("cut");
        // A service of the host's own.
        shell.does_not_reach("telnet://localhost:6379");
        shell.is_granted("localhost:6379");
        shell.reaches("telnet://localhost:6379 < /dev/null");
        shell.revokes("localhost:6379");
        shell.does_not_reach("telnet://localhost:6379");
        shell.ends();
    });
}

#[test]
fn k13_a_host_grant_ends_when_its_time_is_over() {
    with(Who::Ordinary, |internet| {
        let mut shell = Shell::start(&internet, &[]);
        // Long enough to connect on a machine that does other things too.
        shell.asks(&["grant", &shell.id, "--host", "evil.example.net:7", "--for", "10s"]);
        shell.connects(TO_ECHO);
        shell.until("cut");
        let end = Instant::now() + PATIENCE;
        while !shell.asks(&["logs", &shell.id]).contains("its time is over") {
            assert!(Instant::now() < end);
        }
        shell.does_not_reach("telnet://evil.example.net:7");
        shell.ends();
    });
}

/// What leads to private places stays guarded, and what is too much is refused.
#[test]
fn k13_no_grant_of_a_host_passes_the_guard_or_the_rules() {
    each(|internet| {
        let mut shell = Shell::start(&internet, &[]);
        for (host, why) in [
            ("*", "every host"),
            ("*.com", "*.com"),
            ("*.co.uk", "co.uk"),
            ("com", "com"),
            ("0.0.0.0/0", "0.0.0.0/0"),
            ("10.0.0.0/8", "whole network"),
            ("127.0.0.2:80", "loopback"),
            ("169.254.169.254:80", "a cloud metadata address"),
            ("http://evil.example.net", "hint"),
            ("evil.example.net:0", "0"),
            ("evil.example.net:99999", "99999"),
            ("", ""),
            ("localhost", "loopback"),
            ("localhost:070", "070"),
            ("site.example.com", "already"),
            ("localhost:5432", "already"),
        ] {
            shell.is_refused(host, why);
        }
        // The names lead to private and metadata addresses; that they were named does not open those.
        for name in ["priv.example.com", "cloud.example.com"] {
            shell.is_granted(name);
            shell.does_not_reach(&format!("http://{name}/hello"));
        }
        let said = shell.ends();
        assert!(said.contains("a private address") && said.contains("metadata"), "{said}");
    });
}

/// A session that began without any network has a namespace with nothing in it, and is given a way out when one is needed.
#[test]
fn k13_a_session_without_a_network_is_given_one() {
    each(|internet| {
        internet.write("none.toml", "version = 1\n[network]\nallow = []\n");
        let mut shell = Shell::start(&internet, &["--policy", "none.toml"]);
        shell.does_not_reach("http://evil.example.net/hello");
        shell.is_granted("evil.example.net");
        shell.reaches("http://evil.example.net/hello");
        shell.reaches("--cacert ca.pem https://evil.example.net/hello");
        shell.reaches("-x http://198.18.0.2:1080 http://evil.example.net/hello");
        shell.does_not_reach("http://site.example.com/hello");
        shell.does_not_reach("http://93.184.216.34/hello");
        shell.is_granted("localhost:6379");
        shell.reaches("telnet://localhost:6379 < /dev/null");
        shell.is_granted("evil.example.net:7");
        shell.connects(TO_ECHO);
        assert!(shell.revokes("evil.example.net:7").contains("connections closed: 1"));
        shell.until("cut");
        shell.revokes("evil.example.net");
        shell.does_not_reach("http://evil.example.net/hello");
        let said = shell.ends();
        assert!(said.contains("stopped: name site.example.com"), "{said}");
        // One that was never given any has none, and a fence without namespaces says why it cannot.
        let shell = Shell::start(&internet, &["--backend", "landlock", "--policy", "none.toml"]);
        shell.is_refused("evil.example.net", "cannot be changed");
        shell.ends();
    });
}

/// A thousand of them leave no descriptor, no process and no memory behind.
#[test]
fn k13_a_thousand_host_grants_leave_nothing() {
    with(Who::Ordinary, |internet| {
        for options in [&[][..], &["--policy", "none.toml"]] {
            internet.write("none.toml", "version = 1\n[network]\nallow = []\n");
            let mut shell = Shell::start(&internet, options);
            let descriptors =
                |shell: &Shell<'_>| std::fs::read_dir(format!("/proc/{}/fd", shell.child.id())).unwrap().count();
            shell.is_granted("h0.example.net:80");
            shell.reaches("http://h0.example.net/hello");
            shell.revokes("h0.example.net:80");
            let before = descriptors(&shell);
            let mut talk = Talk::open(&internet, &shell.id);
            for number in 0..1_000 {
                let host = format!("h{}.example.net:80", number % 50);
                talk.ask(&format!(r#"{{"verb":"grant-host","host":"{host}"}}"#), "done");
                if number % 25 == 0 {
                    shell.reaches(&format!("http://h{}.example.net/hello", number % 50));
                }
                talk.ask(&format!(r#"{{"verb":"revoke-host","host":"{host}"}}"#), "closed");
            }
            drop(talk);
            shell.does_not_reach("http://h1.example.net/hello");
            let end = Instant::now() + PATIENCE;
            while descriptors(&shell) > before {
                assert!(Instant::now() < end, "{} descriptors, before {before}", descriptors(&shell));
                std::thread::yield_now();
            }
            shell.ends();
        }
    });
}

/// A conversation with a supervisor, as any program could have it.
struct Talk {
    stream: BufReader<std::os::unix::net::UnixStream>,
    token: String,
}

impl Talk {
    fn open(internet: &Internet, id: &str) -> Self {
        let dir = internet.path("home/.local/state/ringfence/sessions").join(id);
        let stream = std::os::unix::net::UnixStream::connect(dir.join("control")).unwrap();
        let about: serde_json::Value =
            serde_json::from_slice(&std::fs::read(dir.join("session.json")).unwrap()).unwrap();
        Self { stream: BufReader::new(stream), token: about["token"].as_str().unwrap().to_owned() }
    }

    #[track_caller]
    fn ask(&mut self, verb: &str, expected: &str) {
        writeln!(self.stream.get_mut(), r#"{{"v":1,"token":"{}","ask":{verb}}}"#, self.token).unwrap();
        let mut line = String::new();
        self.stream.read_line(&mut line).unwrap();
        assert!(line.contains(&format!("\"is\":\"{expected}\"")), "{verb}: {line}");
    }
}
