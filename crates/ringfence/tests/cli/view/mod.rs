//! The mount view and the walk on the real kernel, as the caller and, where the caller is root, as an ordinary user too.

#![expect(clippy::unwrap_used, reason = "a test that cannot set up has failed")]

mod api;
mod api_fuzz;
mod approvals;
mod asked;
mod attacks;
mod doors;
mod earlier;
mod faults;
mod foreign;
mod given;
mod hook;
mod host;
mod inject;
mod killed;
mod live;
mod nested;
mod nothing_more;
mod opening;
mod private;
mod race;
mod rules;
mod session;
mod supervisor;
mod trouble;
mod violations;
mod walk;
mod watch;
mod worktree;

use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, lchown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use ringfence_testkit::{World, report_skip};

const NOBODY: u32 = 65534;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Who {
    /// Whoever runs the tests.
    Caller,
    /// An ordinary user.
    Nobody,
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Runs a test as everybody that the caller can be.
fn each(test: impl Fn(&Fence)) {
    test(&Fence::new(Who::Caller));
    if is_root() {
        test(&Fence::new(Who::Nobody));
    } else {
        report_skip("as another user: the tests do not run as root");
    }
}

/// A project and a home outside every private directory, owned by an ordinary user.
struct Fence {
    world: World,
    who: Who,
}

impl Fence {
    fn new(who: Who) -> Self {
        let binary = env!("CARGO_BIN_EXE_ringfence");
        let world = if is_root() { World::open_to_all_on(Path::new("/srv"), binary) } else { World::new(binary) };
        fs::set_permissions(world.path("run"), Permissions::from_mode(0o755)).unwrap();
        let fence = Self { world, who };
        fence.own();
        fence
    }

    fn path(&self, relative: impl AsRef<Path>) -> PathBuf {
        self.world.path(relative)
    }

    /// Writes files, and gives them to whoever works.
    fn write(&self, files: &[(&str, &str)]) -> &Self {
        for (path, text) in files {
            self.world.write(path, text);
        }
        self.own();
        self
    }

    /// Everything in the world belongs to the ordinary user.
    fn own(&self) {
        if is_root() {
            for name in ["home", "project", "run", "other"] {
                give_away(&self.path(name));
            }
        }
    }

    fn policy(&self, text: &str) -> &Self {
        self.write(&[("project/ringfence.toml", &format!("version = 1\n{text}"))])
    }

    /// The program in the project, as whoever works, with more arguments to come.
    fn ringfence(&self) -> Command {
        self.by(Command::new(self.world.binary()))
    }

    /// Any command, as whoever works.
    fn by(&self, mut command: Command) -> Command {
        command.current_dir(self.path("project")).env_clear().stdin(Stdio::null());
        command.env("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin").env("HOME", self.path("home"));
        if self.who == Who::Nobody {
            command.gid(NOBODY).uid(NOBODY);
        }
        command
    }

    /// `$W` in a script is the world.
    fn script(&self, script: &str) -> String {
        script.replace("$W", &self.path("").display().to_string().trim_end_matches('/').replace('\'', "'\\''"))
    }

    fn run(&self, command: &[impl AsRef<OsStr>]) -> Output {
        self.ringfence().args(["run", "--"]).args(command).output().unwrap()
    }

    fn sh(&self, script: &str) -> Output {
        self.run(&["/bin/sh", "-c", &self.script(script)])
    }

    /// Runs a script with the rights over its own mounts, then ringfence with `arguments` as whoever works, in that view.
    fn after_mounting(&self, script: &str, arguments: &[&str]) -> Output {
        self.after(if is_root() { &["-m", "--"] } else { &["-Urm", "--"] }, script, arguments)
    }

    /// The same with a network of its own. What the script starts ends with it.
    /// Runs a command in a network of its own, beside another that has `address`: an address of the machine itself is refused. The
    /// script starts what listens there by `there COMMAND`.
    fn beside_a_host(&self, address: &str, script: &str, arguments: &[&str]) -> Output {
        let hosts = format!(
            "ip link set lo up; unshare -n sleep infinity & host=$!; \
             until [ \"$(readlink /proc/$host/ns/net)\" != \"$(readlink /proc/self/ns/net)\" ]; do sleep 0.01; done; \
             there() {{ nsenter -t $host -n \"$@\"; }}; \
             ip link add v0 type veth peer name v1 netns $host; there ip link set lo up; \
             there ip addr add {address}/32 dev v1; there ip link set v1 up; \
             ip addr add 172.16.0.1/32 dev v0; ip link set v0 up; ip route add {address}/32 dev v0; \
             there ip route add 172.16.0.1/32 dev v1; {script}"
        );
        self.in_a_network(&hosts, arguments)
    }

    fn in_a_network(&self, script: &str, arguments: &[&str]) -> Output {
        let flags: &[&str] = if is_root() { &["-mn"] } else { &["-Urmn"] };
        let ends = ["-pf", "--kill-child", "--mount-proc", "--"];
        self.after(&[flags, &ends].concat(), script, arguments)
    }

    fn after(&self, namespaces: &[&str], script: &str, arguments: &[&str]) -> Output {
        let mut command = Command::new("unshare");
        command.args(namespaces);
        let script = self.script(&format!("set -e; {script}; exec \"$@\""));
        command.args(["/bin/sh", "-c", &script, "sh"]);
        if self.who == Who::Nobody {
            command.args(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]);
        }
        command.args(arguments);
        command.current_dir(self.path("project")).env_clear().stdin(Stdio::null());
        command.env("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin").env("HOME", self.path("home"));
        command.output().unwrap()
    }

    fn binary(&self) -> &str {
        self.world.binary().to_str().unwrap()
    }

    #[track_caller]
    fn works(&self, script: &str) -> String {
        let output = self.sh(script);
        assert!(output.status.success(), "as {:?}: {script}\n{}", self.who, text(&output.stderr));
        text(&output.stdout)
    }

    /// It fails, nothing secret shows, and it was the fence that refused and not the start.
    #[track_caller]
    fn fails(&self, script: &str) {
        let output = self.sh(script);
        let shown = text(&output.stdout) + &text(&output.stderr);
        assert!(!output.status.success(), "as {:?}: {script}: it worked\n{shown}", self.who);
        assert!(!shown.contains("SECRET"), "as {:?}: {script}\n{shown}", self.who);
        assert!(!shown.contains("error: cannot"), "as {:?}: {script}\n{shown}", self.who);
    }

    /// It fails, for whatever reason, and nothing secret shows.
    #[track_caller]
    fn fails_anyhow(&self, script: &str) {
        let output = self.sh(script);
        let shown = text(&output.stdout) + &text(&output.stderr);
        assert!(!output.status.success() && !shown.contains("SECRET"), "as {:?}: {script}\n{shown}", self.who);
    }

    /// ringfence refuses, and says why.
    #[track_caller]
    fn refused(&self, output: &Output, why: &str) {
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(125), "as {:?}: {stderr}", self.who);
        assert!(output.stdout.is_empty(), "as {:?}: {}", self.who, text(&output.stdout));
        assert!(stderr.contains(why), "as {:?}: {stderr}", self.who);
        self.left_nothing();
    }

    #[track_caller]
    fn left_nothing(&self) {
        let left = self.left();
        assert!(left.is_empty(), "as {:?}: {left:?}", self.who);
    }

    fn left(&self) -> Vec<PathBuf> {
        let sessions = self.path("home/.local/state/ringfence/sessions");
        fs::read_dir(sessions).into_iter().flatten().map(|entry| entry.unwrap().path()).collect()
    }

    /// What killed sessions left is gone after a start. That takes a quarter of a second for it and no more, and leaves the rest to
    /// another: a busy machine may need one.
    #[track_caller]
    fn is_collected(&self) {
        (0..20).take_while(|_| !self.left().is_empty()).for_each(|_| drop(self.works("true")));
        self.left_nothing();
    }
}

fn text(bytes: &[u8]) -> String {
    bytes.utf8_chunks().map(|chunk| format!("{}{}", chunk.valid(), chunk.invalid().escape_ascii())).collect()
}

/// What a session or a git that runs there has moved or removed meanwhile is nobody's any more.
fn give_away(path: &Path) {
    match try_give_away(path) {
        Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => {}
        done => done.unwrap(),
    }
}

fn try_give_away(path: &Path) -> std::io::Result<()> {
    lchown(path, Some(NOBODY), Some(NOBODY))?;
    if fs::symlink_metadata(path)?.is_dir() {
        fs::read_dir(path)?.for_each(|entry| give_away(&entry.unwrap().path()));
    }
    Ok(())
}
