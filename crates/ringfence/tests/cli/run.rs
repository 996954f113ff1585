//! `ringfence run` on the real kernel: what a hostile command inside cannot do, what an ordinary one can, and what is said of
//! both. Each claim is tried as the caller and, where the caller is root, as an ordinary user too.

#![expect(clippy::unwrap_used, reason = "a test that cannot set up has failed")]

mod held;
mod old_kernels;
mod work;

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use ringfence_testkit::{World, report_skip};

const NOBODY: u32 = 65534;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Who {
    Caller,
    Nobody,
}

/// A project with a repository, a secret and settings, owned by an ordinary user.
struct Fence {
    world: World,
    who: Who,
}

impl Fence {
    fn new(who: Who) -> Self {
        let world = World::open_to_all(env!("CARGO_BIN_EXE_ringfence"));
        for (path, text) in [
            (
                "project/ringfence.toml",
                "version = 1\n[files]\ndeny = [\"**/.env\", \"private\"]\nprotect = [\"infra\"]\n",
            ),
            ("project/.env", "SECRET\n"),
            ("project/deep/er/.env", "SECRET\n"),
            ("project/private/key", "SECRET\n"),
            ("project/infra/main.tf", "old\n"),
            ("project/.claude/settings.json", "{}\n"),
            ("project/.git/HEAD", "ref: refs/heads/main\n"),
            ("project/.git/config", "[core]\n"),
            ("project/.git/hooks/pre-commit.sample", "\n"),
            ("project/src/lib.rs", "code\n"),
            ("outside/file", "outside\n"),
            ("home/.ssh/id_ed25519", "SECRET\n"),
        ] {
            world.write(path, text);
        }
        world.mkdir("project/.git/objects");
        world.mkdir("project/.git/refs");
        if rustix::process::geteuid().is_root() {
            for dir in ["project", "outside", "home"] {
                give_away(&world.path(dir));
            }
        }
        fs::set_permissions(world.path("outside"), Permissions::from_mode(0o777)).unwrap();
        Self { world, who }
    }

    fn command(&self) -> Command {
        self.with(&[])
    }

    fn with(&self, flags: &[&str]) -> Command {
        let mut command = Command::new(self.world.binary());
        command.current_dir(self.world.path("project")).env_clear().stdin(Stdio::null());
        command.env("PATH", "/usr/local/bin:/usr/bin:/bin").env("HOME", self.world.path("home"));
        command.env("OUTSIDE", self.world.path("outside")).env("AWS_SECRET_ACCESS_KEY", "SECRET");
        self.dress(&mut command);
        command.arg("run").args(flags).arg("--");
        command
    }

    /// Starts it as whom the fence is for.
    fn dress(&self, command: &mut Command) {
        if self.who == Who::Nobody {
            command.gid(NOBODY).uid(NOBODY);
        }
    }

    fn sh(&self, script: &str) -> Output {
        self.run(&[], script)
    }

    /// With these flags.
    fn run(&self, flags: &[&str], script: &str) -> Output {
        let script = script.replace("$OUTSIDE", &self.world.path("outside").display().to_string());
        let script = script.replace("$HOSTHOME", &self.world.path("home").display().to_string());
        self.with(flags).args(["/bin/sh", "-c", &script]).output().unwrap()
    }

    #[track_caller]
    fn works(&self, script: &str) {
        let output = self.sh(script);
        assert!(output.status.success(), "as {:?}: {script}\n{}", self.who, text(&output.stderr));
    }

    /// It fails, and nothing secret shows.
    #[track_caller]
    fn fails(&self, script: &str) {
        let output = self.sh(script);
        assert!(!output.status.success(), "as {:?}: {script}: it worked\n{}", self.who, text(&output.stdout));
        let shown = text(&output.stdout) + &text(&output.stderr);
        assert!(!shown.contains("SECRET"), "as {:?}: {script}\n{shown}", self.who);
        assert!(!shown.contains("cannot start inside the fence"), "as {:?}: {script}\n{shown}", self.who);
    }
}

fn text(bytes: &[u8]) -> String {
    bytes.escape_ascii().to_string()
}

fn give_away(path: &Path) {
    chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
    if path.is_dir() {
        fs::read_dir(path).unwrap().for_each(|entry| give_away(&entry.unwrap().path()));
    }
}

fn each(test: impl Fn(&Fence)) {
    test(&Fence::new(Who::Caller));
    if rustix::process::geteuid().is_root() {
        test(&Fence::new(Who::Nobody));
    } else {
        report_skip("as another user: the tests do not run as root");
    }
}

/// A4 A7: what is denied cannot be read, by any name or way, and no secret comes along in the environment.
#[test]
fn a7_what_is_denied_cannot_be_read() {
    each(|fence| {
        for script in [
            "cat .env",
            "cat deep/er/.env",
            "cat private/key",
            "ls private",
            "cat /proc/self/cwd/.env",
            "cat /proc/self/root$PWD/.env",
            "ln -s .env l && cat l",
            "ln .env hard && cat hard",
            "mv .env moved && cat moved",
            "mv deep other && cat other/er/.env",
            "cp -r . /tmp/copy; cat /tmp/copy/.env",
            "chmod 644 .env && cat .env",
            "rm -f .env",
            "cat $HOSTHOME/.ssh/id_ed25519",
            "cat /etc/shadow",
            "cat /proc/1/environ",
            "cat /proc/1/root/etc/hostname",
            "env | grep AWS",
        ] {
            fence.fails(script);
        }
    });
}

/// A7: nothing outside the surface is there, and what is there of the system cannot be changed.
#[test]
fn a7_nothing_else_exists() {
    each(|fence| {
        for script in [
            "cat $OUTSIDE/file",
            "ls $OUTSIDE",
            "echo x > $OUTSIDE/new",
            "ls /home/*",
            "ls /root",
            "ls /sys/kernel",
            "ls /run/systemd",
            "echo x > /usr/x",
            "echo x > /etc/x",
            "mkdir /new",
            "echo x > /proc/sys/kernel/core_pattern",
            "test -e /dev/sda || test -e /dev/vda || test -e /dev/mem || test -e /dev/kvm",
        ] {
            fence.fails(script);
        }
        assert_eq!(fs::read(fence.world.path("outside/file")).unwrap(), b"outside\n");
        assert_eq!(fs::read_dir(fence.world.path("outside")).unwrap().count(), 1);
    });
}

/// K8: what runs later cannot be changed where it exists, also by renaming a directory above it.
#[test]
fn k8_existing_names_stay_as_they_are() {
    each(|fence| {
        for script in [
            "echo x > .git/hooks/pre-commit",
            "echo x >> .git/config",
            "mv .git .gitx",
            "mv .git/hooks h",
            "rm -rf .claude; test ! -e .claude/settings.json",
            "mv .claude c",
            "echo x > infra/main.tf",
            "mv infra i",
            "chmod 777 infra/main.tf",
            "touch infra/main.tf",
            "ln infra/main.tf hard && echo x > hard",
            "echo x > ringfence.toml",
            "mv ringfence.toml r",
        ] {
            fence.fails(script);
        }
        assert_eq!(fs::read(fence.world.path("project/infra/main.tf")).unwrap(), b"old\n");
        assert_eq!(fs::read(fence.world.path("project/.git/config")).unwrap(), b"[core]\n");
    });
}

/// M4: the payload has no rights over its own fence.
#[test]
fn m4_the_fence_cannot_be_undone() {
    each(|fence| {
        for script in [
            "umount .env",
            "mount -t tmpfs x /tmp",
            "mount --bind / /tmp",
            "unshare -U true",
            "unshare -m true",
            "nsenter -t 1 -m true",
            "python3 -c 'import os; os.open(\"/proc/1/mem\", os.O_RDONLY)'",
            "chroot / true",
            "grep -q 'CapBnd:.*[1-9a-f]' /proc/self/status",
            "grep -q 'NoNewPrivs:.0' /proc/self/status",
            "grep -q 'Seccomp:.0' /proc/self/status",
        ] {
            fence.fails(script);
        }
        fence.works("kill -9 1; sleep 0.1; true");
    });
}

/// K9: nothing leaves without a way out; loopback inside works.
#[test]
fn the_network_is_closed() {
    each(|fence| {
        let connect = |to: &str| format!("python3 -c 'import socket; socket.create_connection({to}, 30)'");
        fence.fails(&connect("(\"1.1.1.1\", 80)"));
        let host = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        fence.fails(&connect(&format!("(\"127.0.0.1\", {})", host.local_addr().unwrap().port())));
        fence.works(
            "python3 -c 'import socket; s = socket.create_server((\"127.0.0.1\", 0)); socket.create_connection(s.getsockname(), 30)'",
        );
        fence.fails("python3 -c 'import socket; socket.socket(socket.AF_PACKET, socket.SOCK_RAW)'");
    });
}

/// What the first process inside was called with names paths of the host.
#[test]
fn the_first_process_tells_nothing() {
    each(|fence| {
        let output = fence.run(&["--env", "OUTSIDE"], "cat /proc/1/cmdline /proc/1/environ | tr '\\0' ' '");
        assert!(!text(&output.stdout).contains("run"), "{}", text(&output.stdout));
        assert!(text(&output.stderr).contains("/proc/1/environ: Permission denied"), "{}", text(&output.stderr));
    });
}

/// Descriptors of the caller do not come along.
#[test]
fn descriptors_stay_outside() {
    each(|fence| {
        let script = format!("exec 9< {}; exec \"$@\"", fence.world.path("outside").display());
        let mut command = Command::new("/bin/sh");
        command.args(["-c", &script, "sh"]).arg(fence.world.binary());
        command.args(["run", "--", "/bin/sh", "-c", "ls /proc/self/fd/9/"]);
        command.current_dir(fence.world.path("project")).env_clear().stdin(Stdio::null());
        command.env("PATH", "/usr/local/bin:/usr/bin:/bin").env("HOME", fence.world.path("home"));
        if fence.who == Who::Nobody {
            command.gid(NOBODY).uid(NOBODY);
        }
        let output = command.output().unwrap();
        assert!(!output.status.success() && !text(&output.stdout).contains("file"), "{}", text(&output.stdout));
    });
}

/// A standard descriptor on the project leads past no guard, and a directory does not come along.
#[test]
fn standard_descriptors_lead_past_no_guard() {
    each(|fence| {
        let with_stdin = |path: &str, script: &str| {
            let file = fs::File::open(fence.world.path(path)).unwrap();
            fence.command().args(["/bin/sh", "-c", script]).stdin(file).output().unwrap()
        };
        let output = with_stdin("project/infra/main.tf", "cat; echo EVIL > /proc/self/fd/0");
        assert_eq!(output.stdout, b"old\n", "{}", text(&output.stderr));
        assert_eq!(fs::read(fence.world.path("project/infra/main.tf")).unwrap(), b"old\n");
        let output = with_stdin("project/src/lib.rs", "cat");
        assert_eq!(output.stdout, b"code\n");
        let output = with_stdin("project", "cat /proc/self/fd/0/.env");
        assert!(output.status.code() == Some(125) && !text(&output.stdout).contains("SECRET"));
    });
}

/// What the walk cannot list, what is a link, and what listens: guarded too.
#[test]
fn odd_kinds_are_guarded() {
    each(|fence| {
        let project = |path: &str| fence.world.path("project").join(path);
        for (dir, mode) in [("searchable", 0o311), ("closed", 0o000)] {
            fs::create_dir(project(dir)).unwrap();
            fs::write(project(dir).join(".env"), "SECRET\n").unwrap();
            fs::write(project("real"), "SECRET\n").unwrap();
            fs::set_permissions(project(dir), Permissions::from_mode(mode)).unwrap();
        }
        fs::create_dir(project("links")).unwrap();
        std::os::unix::fs::symlink("../real", project("links/.env")).unwrap();
        std::os::unix::fs::symlink("../src", project(".vscode")).unwrap();
        let _listener = std::os::unix::net::UnixListener::bind(project("host.sock")).unwrap();
        fs::write(project("sub.git"), "").unwrap();
        fs::create_dir(project("sub")).unwrap();
        fs::write(project("sub/.git"), "gitdir: ../elsewhere\n").unwrap();
        if rustix::process::geteuid().is_root() {
            for name in ["searchable", "closed", "links", "real", "host.sock", "sub"] {
                chown(project(name), Some(NOBODY), Some(NOBODY)).unwrap();
            }
            for name in ["searchable/.env", "closed/.env", "sub/.git"] {
                chown(project(name), Some(NOBODY), Some(NOBODY)).unwrap();
            }
        }
        for script in [
            "cat searchable/.env",
            "chmod 700 closed; cat closed/.env",
            "cat links/.env",
            "rm .vscode",
            "mv .vscode v",
            "ln -sfn /tmp .vscode",
            "python3 -c 'import socket; socket.socket(socket.AF_UNIX).connect(\"host.sock\")'",
            "echo 'gitdir: /tmp/evil' > sub/.git",
            "rm -f sub/.git",
        ] {
            fence.fails(script);
        }
        fence.works("bash -c 'cat <(echo x)'");
        for dir in ["searchable", "closed"] {
            fs::set_permissions(project(dir), Permissions::from_mode(0o700)).unwrap();
        }
    });
}

/// A hard link made before is another name of a secret: that is said.
#[test]
fn hard_links_are_reported() {
    each(|fence| {
        fs::hard_link(fence.world.path("project/.env"), fence.world.path("project/copy")).unwrap();
        let output = fence.sh("true");
        assert!(
            text(&output.stderr).contains("it is another name (a hard link) of something denied"),
            "{}",
            text(&output.stderr)
        );
        fence.fails("cat copy");
    });
}
