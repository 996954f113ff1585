//! Unix sockets of the host that a policy names: reached at their own path, and no others.

use std::fs::Permissions;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Child, Stdio};
use std::{fs, thread};

use super::live::until;
use super::{Command, Fence, each, text};

/// A policy that widens needs trust.
fn trusted(fence: &Fence, policy: &str) {
    fence.policy(policy);
    let trusted = fence.ringfence().args(["trust", "--force"]).output().unwrap();
    assert!(trusted.status.success(), "{}", text(&trusted.stderr));
    fence.own();
}

/// A program outside, which ends with the value.
struct Outside(Child);

impl Drop for Outside {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Says what it was told, with `echo ` before it. The thread ends with the test.
fn echo(path: &Path) {
    let listener = UnixListener::bind(path).unwrap();
    fs::set_permissions(path, Permissions::from_mode(0o777)).unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut told = Vec::new();
            // A client that goes away in between is no matter of this server's.
            let _ = stream.read_to_end(&mut told).and_then(|_| stream.write_all(&[b"echo ", &told[..]].concat()));
        }
    });
}

/// Tells the socket at a path something, and prints what it says.
fn tell(path: &str, words: &str) -> String {
    let program = format!(
        "import socket; s = socket.socket(socket.AF_UNIX); s.connect(\"{path}\"); s.sendall(b\"{words}\"); \
         s.shutdown(socket.SHUT_WR); print(s.makefile().read())"
    );
    format!("/usr/bin/python3 -c '{program}'")
}

/// A socket that is named is reached where it is on the host: in the project, in a home that is not shown, in a private `/tmp`
/// and in a directory that is denied. The one beside it is not.
#[test]
fn k9_a_socket_that_a_policy_names_is_reached_at_its_own_path() {
    each(|fence| {
        let tmp = tempfile_in("/tmp");
        let tmp = tmp.path();
        fs::set_permissions(tmp, Permissions::from_mode(0o755)).unwrap();
        fence.world.mkdir("project/deep/er");
        fence.world.mkdir("project/private");
        fence.world.mkdir("home/.agent");
        let places = ["project/deep/er", "project/private", "home/.agent"].map(|place| fence.path(place));
        let places: Vec<&Path> = places.iter().map(AsRef::as_ref).chain([tmp]).collect();
        for place in &places {
            echo(&place.join("named"));
            echo(&place.join("other"));
        }
        let named: Vec<String> = places.iter().map(|place| format!("{:?}", place.join("named"))).collect();
        for view in ["surface", "host"] {
            let policy = format!(
                "[files]\nview = \"{view}\"\ndeny = [\"private\"]\n[network]\nallow = []\nsockets = [{}]\n",
                named.join(", ")
            );
            trusted(fence, &policy);
            for place in &places {
                let place = place.display();
                let said = fence.works(&tell(&format!("{place}/named"), "hello"));
                assert_eq!(said, "echo hello\n", "{place} in view {view}");
                fence.fails(&tell(&format!("{place}/other"), "hello"));
            }
        }
        fence.policy("[network]\nallow = []\n");
        for place in places {
            fence.fails(&tell(&format!("{}/named", place.display()), "hello"));
        }
        fence.left_nothing();
    });
}

/// Nobody else inside can be reached through a link that takes the place of a socket: the supervisor follows none.
#[test]
fn a_socket_whose_place_is_taken_by_a_link_leads_nowhere() {
    each(|fence| {
        fence.world.mkdir("project/run");
        echo(&fence.path("project/run/named"));
        echo(&fence.path("run/other"));
        trusted(fence, "[network]\nallow = []\nsockets = [\"run/named\"]\n");
        // Somebody outside, with the rights of the agent, is as good as an agent that found a way to rename the directory.
        let (run, away, other) = (fence.path("project/run"), fence.path("project/away"), fence.path("run"));
        let mut child = fence.ringfence();
        child.args(["run", "--", "/bin/sh", "-c"]);
        child.arg(format!("{} && echo ready && read line && {}", tell("run/named", "one"), tell("run/named", "two")));
        let child = child.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut child = Outside(child);
        wait_for(&mut child.0, "ready\n");
        fs::rename(&run, &away).unwrap();
        std::os::unix::fs::symlink(&other, &run).unwrap();
        fs::rename(fence.path("run/other"), fence.path("run/named")).unwrap();
        child.0.stdin.take().unwrap().write_all(b"go\n").unwrap();
        let mut said = String::new();
        child.0.stdout.take().unwrap().read_to_string(&mut said).unwrap();
        assert!(!said.contains("two"), "{said}");
    });
}

/// A service that is started anew makes its socket anew, and ours no longer stands in its place: nobody comes to it past the relay.
#[test]
fn k9_a_socket_that_is_made_anew_is_not_reached_directly() {
    each(|fence| {
        fence.world.mkdir("project/run");
        let named = fence.path("project/run/named");
        echo(&named);
        trusted(fence, "[network]\nallow = []\nsockets = [\"run/named\"]\n");
        let mut child = fence.ringfence();
        child.args(["run", "--", "/bin/sh", "-c"]);
        let (one, two) = (tell("run/named", "one"), tell("run/named", "two"));
        child.arg(format!("{one} && echo ready && read line; {two}; echo over"));
        let child = child.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut child = Outside(child);
        wait_for(&mut child.0, "ready\n");
        fs::remove_file(&named).unwrap();
        echo(&named);
        child.0.stdin.take().unwrap().write_all(b"go\n").unwrap();
        let mut said = String::new();
        child.0.stdout.take().unwrap().read_to_string(&mut said).unwrap();
        assert!(said.contains("over") && !said.contains("two"), "as {:?}: {said}", fence.who);
    });
}

fn wait_for(child: &mut Child, word: &str) {
    let stdout = child.stdout.as_mut().unwrap();
    let mut seen = Vec::new();
    let mut byte = [0];
    while !seen.ends_with(word.as_bytes()) {
        assert_ne!(stdout.read(&mut byte).unwrap(), 0, "it ended early: {}", text(&seen));
        seen.push(byte[0]);
    }
}

/// Only bytes pass. A descriptor that the host's service sends stays outside.
#[test]
fn a_descriptor_does_not_come_in_by_a_socket() {
    each(|fence| {
        fence.write(&[("home/secret", "SECRET\n")]);
        trusted(fence, "[network]\nallow = []\nsockets = [\"../run/giver\"]\n");
        let giver = "import socket, os, sys; l = socket.socket(socket.AF_UNIX); l.bind(sys.argv[1]); os.chmod(sys.argv[1], 0o777)\n\
                     l.listen(); print('ready', flush=True); c, _ = l.accept()\n\
                     socket.send_fds(c, [b'take it'], [os.open(sys.argv[2], os.O_RDONLY)])";
        let mut command = Command::new("/usr/bin/python3");
        command.args(["-c", giver]).arg(fence.path("run/giver")).arg(fence.path("home/secret"));
        let mut outside = Outside(fence.by(command).stdout(Stdio::piped()).spawn().unwrap());
        wait_for(&mut outside.0, "ready\n");
        let take = "import socket; s = socket.socket(socket.AF_UNIX); s.connect(\"$W/run/giver\"); print(socket.recv_fds(s, 99, 1)[:2])";
        let said = fence.works(&format!("/usr/bin/python3 -c '{take}'"));
        assert_eq!(said, "(b'take it', [])\n");
    });
}

/// `ssh-add` inside finds the user's agent by its variable, where the policy names it; and nothing of it where not.
#[test]
fn a4_an_agent_of_keys_works_where_it_is_named() {
    each(|fence| {
        let socket = fence.path("run/agent");
        let mut agent = Command::new("/usr/bin/ssh-agent");
        agent.args(["-D", "-a"]).arg(&socket);
        let _agent = Outside(fence.by(agent).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
        let run = |script: &str| {
            let mut command = fence.ringfence();
            command.env("SSH_AUTH_SOCK", &socket).args(["run", "--", "/bin/sh", "-c", script]).output().unwrap()
        };
        until("the agent listens", || socket.exists());
        trusted(fence, "[network]\nallow = []\nsockets = [\"$SSH_AUTH_SOCK\"]\n");
        let output = run("ssh-add -l; echo $?");
        let said = text(&output.stdout);
        assert!(said.contains("The agent has no identities."), "{said}{}", text(&output.stderr));
        let mut explain = fence.ringfence();
        let answer =
            explain.env("SSH_AUTH_SOCK", &socket).args(["explain", "--variable", "SSH_AUTH_SOCK"]).output().unwrap();
        assert!(answer.status.success(), "{}", text(&answer.stdout));
        fence.policy("[network]\nallow = []\n");
        let output = run("test -z \"$SSH_AUTH_SOCK\" && ! ssh-add -l");
        assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    });
}

/// What is named and cannot be given is said: nothing listens there, or the fence has no namespaces of its own.
#[test]
fn what_cannot_be_given_is_in_the_receipt() {
    each(|fence| {
        echo(&fence.path("run/named"));
        fence.write(&[("run/file", "")]);
        trusted(
            fence,
            "[network]\nallow = [\"example.com\"]\nhost_ports = [5432]\n\
             sockets = [\"../run/named\", \"../run/missing\", \"../run/file\"]\n",
        );
        let withheld = |backend: &str| {
            let mut command = fence.ringfence();
            let output = command.args(["run", "--receipt", "--backend", backend, "--", "true"]).output().unwrap();
            assert!(output.status.success(), "{}", text(&output.stderr));
            let lines = text(&output.stderr);
            lines.lines().filter(|line| line.contains("withheld")).collect::<Vec<_>>().join("\n")
        };
        let native = withheld("native");
        assert!(native.contains("run/missing: no socket is there"), "{native}");
        assert!(native.contains("run/file: what is there is no socket"), "{native}");
        assert!(!native.contains("named") && !native.contains("example.com"), "{native}");
        for backend in ["bwrap", "landlock"] {
            let all = withheld(backend);
            for what in ["example.com", "localhost:5432", "run/named", "run/missing", "run/file"] {
                let line = format!("{what}: cannot be reached without namespaces of our own");
                assert!(all.contains(&line), "{backend}: {line}\n{all}");
            }
        }
    });
}

fn tempfile_in(dir: &str) -> tempfile::TempDir {
    tempfile::TempDir::new_in(dir).unwrap()
}
