//! The two walls of a fence, one at a time: with the mounts of the view left out Landlock still holds what it claims, and with
//! Landlock left out the view does. That a wall is really gone shows in what is then let through.

#![expect(clippy::unwrap_used, reason = "a test that cannot set up has failed")]

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, lchown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

const NOBODY: u32 = 65534;

/// What is tried inside, by name. Each prints whether it got through.
const ATTACKS: &str = r#"
import os, socket, sys, time
OUT = sys.argv[1]

def attempt(name, attack):
    try:
        attack()
        print(name, "through", flush=True)
    except OSError as refused:
        print(name, "refused", refused.errno, flush=True)

def write(path, flags=os.O_WRONLY, **where):
    os.write(os.open(path, flags, 0o644, **where), b"EVIL")

def read(path, **where):
    os.read(os.open(path, os.O_RDONLY, **where), 99)

handed = []

def take():
    # Somebody outside listens as soon as this is there, and hands over a directory to whoever connects.
    open("ready", "w").close()
    until = time.time() + 60
    while not os.path.exists("late.sock") and time.time() < until:
        time.sleep(0.005)
    s = socket.socket(socket.AF_UNIX)
    while True:
        try:
            s.connect("late.sock")
            break
        except ConnectionRefusedError:
            time.sleep(0.005)
    handed.extend(socket.recv_fds(s, 99, 1)[1])

attempt("read-outside", lambda: read(OUT + "/file"))
attempt("write-outside", lambda: write(OUT + "/file"))
attempt("create-outside", lambda: write(OUT + "/new", os.O_WRONLY | os.O_CREAT))
attempt("remove-outside", lambda: os.unlink(OUT + "/file"))
attempt("mode-outside", lambda: os.chmod(OUT + "/file", 0o600))
attempt("see-outside", lambda: os.stat(OUT + "/file"))
attempt("read-denied", lambda: read(".env"))
attempt("write-protected", lambda: write("infra/main"))
attempt("empty-outside", lambda: os.truncate(OUT + "/file", 0))
attempt("empty-by-opening", lambda: os.open(OUT + "/file", os.O_RDONLY | os.O_TRUNC))
take()
attempt("read-handed-over", lambda: read("file", dir_fd=handed[0]))
attempt("write-handed-over", lambda: write("file", dir_fd=handed[0]))
attempt("create-handed-over", lambda: write("new", os.O_WRONLY | os.O_CREAT, dir_fd=handed[0]))
attempt("remove-handed-over", lambda: os.unlink("file", dir_fd=handed[0]))
attempt("signal-the-first", lambda: os.kill(1, 0))
attempt("write-inside", lambda: write("mine"))
"#;

/// Hands the directory over once the attack asks for it.
const OUTSIDER: &str = r#"
import os, signal, socket, sys, time
signal.alarm(120)
project, directory = sys.argv[1:]
while not os.path.exists(project + "/ready"):
    time.sleep(0.005)
listener = socket.socket(socket.AF_UNIX)
listener.bind(project + "/late.sock")
listener.listen()
peer, _ = listener.accept()
socket.send_fds(peer, [b"x"], [os.open(directory, os.O_RDONLY)])
peer.recv(1)
"#;

/// What each fence lets through, by attack: with both walls, with Landlock alone, with the view alone.
const EXPECTED: &[(&str, [bool; 3])] = &[
    // Writes outside: either wall holds them.
    ("write-outside", [false, false, false]),
    ("create-outside", [false, false, false]),
    ("remove-outside", [false, false, false]),
    // What only the view holds, and Landlock does not claim: these show that the view is gone.
    ("read-outside", [false, true, false]),
    ("see-outside", [false, true, false]),
    ("mode-outside", [false, true, false]),
    ("read-denied", [false, true, false]),
    ("write-protected", [false, true, false]),
    ("empty-outside", [false, true, false]),
    ("empty-by-opening", [false, true, false]),
    // What only Landlock holds: these show that Landlock is gone.
    ("write-handed-over", [false, false, true]),
    ("create-handed-over", [false, false, true]),
    ("remove-handed-over", [false, false, true]),
    ("signal-the-first", [false, false, true]),
    // What neither holds: whoever hands a directory over by a socket that was made later could as well say what is in it. That such
    // sockets are reached is a shortfall.
    ("read-handed-over", [true, true, true]),
    // What is allowed.
    ("write-inside", [true, true, true]),
];

/// A project, another one beside it, and a copy of the program that everybody can start.
struct World {
    dir: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        let dir = tempfile::Builder::new().prefix("ringfence-walls-").tempdir_in("/var/tmp").unwrap();
        let world = Self { dir };
        fs::set_permissions(world.path(""), Permissions::from_mode(0o755)).unwrap();
        for (path, text) in [
            ("project/ringfence.toml", "version = 1\n[files]\ndeny = [\"**/.env\"]\nprotect = [\"infra\"]\n"),
            ("project/.env", "secret\n"),
            ("project/infra/main", "old\n"),
            ("project/mine", "mine\n"),
            ("outside/file", "outside\n"),
            ("state/keep", ""),
        ] {
            fs::create_dir_all(world.path(path).parent().unwrap()).unwrap();
            fs::write(world.path(path), text).unwrap();
        }
        if is_root() {
            ["project", "outside", "state"].iter().for_each(|dir| give_away(&world.path(dir)));
        }
        // By `cp`: a process that another test forks while we hold it open for writing would keep it from being run.
        assert!(Command::new("cp").arg(example()).arg(world.path("one_wall")).status().unwrap().success());
        world
    }

    fn path(&self, relative: &str) -> PathBuf {
        self.dir.path().join(relative)
    }

    /// What gets through, by attack.
    fn attack(&self, walls: &str, who: Who) -> BTreeMap<String, bool> {
        let mut outsider = self.outsider();
        let mut command = Command::new(self.path("one_wall"));
        command.arg(walls).arg(self.path("project")).arg(self.path("state"));
        command.args(["/usr/bin/python3", "-I", "-c", ATTACKS]).arg(self.path("outside"));
        command
            .current_dir(self.path("project"))
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("HOME", self.path("state"));
        if who == Who::Nobody {
            command.gid(NOBODY).uid(NOBODY);
        }
        let output = command.stdin(Stdio::null()).output().unwrap();
        // It is our own, and nobody waits for it any more.
        let _ = outsider.kill();
        outsider.wait().unwrap();
        let said = output.stderr.escape_ascii().to_string();
        assert!(output.status.success(), "{walls}, {who:?}: {said}");
        let shown = String::from_utf8(output.stdout).unwrap();
        shown
            .lines()
            .filter_map(|line| line.split_once(' '))
            .map(|(name, end)| (name.to_owned(), end == "through"))
            .collect()
    }

    fn outsider(&self) -> Child {
        let mut command = Command::new("/usr/bin/python3");
        command.args(["-I", "-c", OUTSIDER]).arg(self.path("project")).arg(self.path("outside"));
        if is_root() {
            command.gid(NOBODY).uid(NOBODY);
        }
        command.spawn().unwrap()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Who {
    Caller,
    Nobody,
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn give_away(path: &Path) {
    lchown(path, Some(NOBODY), Some(NOBODY)).unwrap();
    if path.is_dir() {
        fs::read_dir(path).unwrap().for_each(|entry| give_away(&entry.unwrap().path()));
    }
}

fn example() -> PathBuf {
    let mut path = std::env::current_exe().unwrap();
    path.pop();
    path.pop();
    path.push("examples/one_wall");
    assert!(path.exists(), "{} is missing: cargo build --example one_wall", path.display());
    path
}

fn check(walls: &str, at: usize) {
    let everybody: &[Who] = if is_root() { &[Who::Caller, Who::Nobody] } else { &[Who::Caller] };
    for who in everybody {
        let through = World::new().attack(walls, *who);
        for (name, expected) in EXPECTED {
            assert_eq!(through.get(*name), Some(&expected[at]), "{name} with {walls}, {who:?}: {through:?}");
        }
        assert_eq!(through.len(), EXPECTED.len(), "{through:?}");
    }
}

/// Neither wall is enough; together they hold everything but what somebody outside gives away.
#[test]
fn both_walls_together() {
    check("both", 0);
}

#[test]
fn landlock_alone_holds_what_it_claims() {
    check("landlock", 1);
}

#[test]
fn the_view_alone_holds_what_it_claims() {
    check("view", 2);
}
