//! `ringfence run` on the real kernel: what a hostile command inside cannot do, and what an ordinary one can. Each claim is
//! tried as the caller and, where the caller is root, as an ordinary user too.

#![expect(clippy::unwrap_used, reason = "a test that cannot set up has failed")]

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use ringfence_plan::Errno;
use ringfence_testkit::World;

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
        if self.who == Who::Nobody {
            command.gid(NOBODY).uid(NOBODY);
        }
        command.arg("run").args(flags).arg("--");
        command
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
    let everybody: &[Who] =
        if rustix::process::geteuid().is_root() { &[Who::Caller, Who::Nobody] } else { &[Who::Caller] };
    everybody.iter().for_each(|who| test(&Fence::new(*who)));
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
        let connect = |to: &str| format!("python3 -c 'import socket; socket.create_connection({to}, 3)'");
        fence.fails(&connect("(\"1.1.1.1\", 80)"));
        let host = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        fence.fails(&connect(&format!("(\"127.0.0.1\", {})", host.local_addr().unwrap().port())));
        fence.works(
            "python3 -c 'import socket; s = socket.create_server((\"127.0.0.1\", 0)); socket.create_connection(s.getsockname(), 3)'",
        );
        fence.fails("python3 -c 'import socket; socket.socket(socket.AF_PACKET, socket.SOCK_RAW)'");
    });
}

/// A4: what ordinary work needs, works; home and temporary files are the session's own, and markers are set.
#[test]
fn ordinary_work() {
    each(|fence| {
        for script in [
            "echo new > src/new.rs && mv src/new.rs top.rs && ln top.rs src/hard.rs && rm top.rs",
            "mkdir -p a/b && echo x > a/b/c && mv a z && rm -r z",
            "cat .claude/settings.json infra/main.tf .git/config > /dev/null",
            "echo x > .git/index && mkdir -p .git/refs/heads && echo x > .git/refs/heads/config",
            "echo x > /tmp/scratch && cat /tmp/scratch && echo x > \"$HOME/f\" && test \"$HOME\" != \"$HOSTHOME\"",
            "test \"$RINGFENCE\" = 1 && test -n \"$RINGFENCE_SESSION\"",
            "ps ax > /dev/null && test -w /dev/null && head -c 4 /dev/urandom > /dev/null",
            "sh -c 'sleep 0.05 & wait' && echo a | cat | grep -q a",
            "python3 -c 'import multiprocessing as m; m.Lock()'",
        ] {
            fence.works(script);
        }
    });
}

/// Exit codes, streams and arguments pass unchanged.
#[test]
fn what_passes_through() {
    each(|fence| {
        for (script, code) in [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", 137), ("kill -15 $$", 143)] {
            assert_eq!(fence.sh(script).status.code(), Some(code), "{script}");
        }
        for (program, code) in [("no-such-program", 127), ("/etc/passwd", 126), ("./src/lib.rs", 126)] {
            assert_eq!(fence.command().arg(program).output().unwrap().status.code(), Some(code), "{program}");
        }
        let output = fence.command().args(["printf", "%s|", "a b", "", "*", "-n"]).output().unwrap();
        assert_eq!(text(&output.stdout), "a b||*|-n|");
        let bytes: Vec<u8> = (0..=255).cycle().take(1 << 20).collect();
        let input = fence.world.path("project/src/bytes");
        fs::write(&input, &bytes).unwrap();
        let output = fence.command().arg("cat").stdin(fs::File::open(&input).unwrap()).output().unwrap();
        assert!(output.stdout == bytes, "{} bytes", output.stdout.len());
    });
}

/// A program that the fence does not show is said to be outside, with what shows it; that is enough.
#[test]
fn a_program_that_is_not_shown() {
    each(|fence| {
        let (tools, tool) = (fence.world.path("outside/tools"), fence.world.path("outside/tools/tool"));
        fence.world.write("outside/tools/tool", "#!/bin/sh\necho runs\n");
        fs::set_permissions(&tool, Permissions::from_mode(0o755)).unwrap();
        let path = format!("{}:/usr/bin:/bin", tools.display());
        let output = fence.command().arg("tool").env("PATH", &path).output().unwrap();
        let hint = format!("hint: outside it is {}: `--ref {}` shows it", tool.display(), tools.display());
        assert_eq!(output.status.code(), Some(127));
        assert!(text(&output.stderr).contains(&hint), "{}", text(&output.stderr));
        let shown = fence.with(&["--ref", tools.to_str().unwrap()]).arg("tool").env("PATH", &path).output().unwrap();
        assert_eq!(shown.stdout, b"runs\n", "{}", text(&shown.stderr));
        // Nowhere is it, and nothing is said before it is known what is to be run.
        let output = fence.command().arg("no-such-program").output().unwrap();
        assert!(!text(&output.stderr).contains("hint"), "{}", text(&output.stderr));
        let nothing = fence.command().output().unwrap();
        assert!(nothing.status.code() == Some(2) && text(&nothing.stderr).starts_with("error: "), "{nothing:?}");
    });
}

/// The tree ends with the session, also when the supervisor is killed; nothing is left in the work tree.
#[test]
fn the_tree_ends_with_the_session() {
    each(|fence| {
        let before = names(&fence.world.path("project"));
        let mut child = fence
            .command()
            .args(["/bin/sh", "-c", "(setsid sh -c 'trap \"\" TERM HUP; sleep 1000') & echo up; sleep 1000"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = [0; 3];
        std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut line).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        // The pipe ends when the last process that holds it does.
        let mut rest = Vec::new();
        std::io::Read::read_to_end(&mut child.stdout.take().unwrap(), &mut rest).unwrap();
        assert_eq!(names(&fence.world.path("project")), before);
        // A session that ends by itself leaves nothing of its own.
        fence.works("setsid sleep 1000 & echo x > \"$HOME/f\"");
        let sessions = fence.world.path("home/.local/state/ringfence/sessions");
        assert!(names(&sessions).is_empty(), "the killed one's directory is collected at the next start");
        assert_eq!(names(&fence.world.path("project")), before);
    });
}

fn names(dir: &Path) -> Vec<std::ffi::OsString> {
    let mut names: Vec<_> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    names
}

/// A13: what does not hold is said, and in production nothing starts.
#[test]
fn a13_what_does_not_hold() {
    each(|fence| {
        let later = "ringfence: not held: protect names that appear later";
        assert!(!text(&fence.sh("true").stderr).contains(later));
        assert!(text(&fence.run(&["--no-broker"], "true").stderr).contains(later));
        let policy = "version = 1\\n[workspace]\\ntier = \"production\"\\n".replace("\\n", "\n");
        fs::write(fence.world.path("project/ringfence.toml"), policy).unwrap();
        let output = fence.sh("echo started");
        assert_eq!(output.status.code(), Some(125));
        assert!(
            output.stdout.is_empty() && text(&output.stderr).contains("not every claim holds"),
            "{}",
            text(&output.stderr)
        );
        // Each is accepted by its name, and by no other.
        let accept = |names: &[&str]| {
            let flags = names.iter().flat_map(|name| ["--allow-shortfall", name]);
            fence.run(&flags.collect::<Vec<_>>(), "echo started")
        };
        let output = accept(&["denied-later", "sockets-later"]);
        assert_eq!(output.status.code(), Some(125));
        assert!(text(&output.stderr).contains("[replaced]") && !text(&output.stderr).contains("[denied-later]"));
        let output = accept(&["deny names that appear later", "replaced", "sockets-later"]);
        assert_eq!(output.stdout, b"started\n", "{}", text(&output.stderr));
    });
}

/// A session that is over its time is asked to end, and then ended; whatever it left behind goes with it.
#[test]
fn a_limit_on_time() {
    each(|fence| {
        let policy = "version = 1\n[limits]\nwall = \"1s\"\n";
        fs::write(fence.world.path("project/ringfence.toml"), policy).unwrap();
        for (backend, script, code) in [
            ("native", "sleep 60", 143),
            ("native", "trap '' TERM; sleep 60 & wait; sleep 60", 137),
            ("bwrap", "sleep 60", 143),
            ("landlock", "trap 'exit 9' TERM; sleep 60 & wait", 9),
            ("landlock", "trap '' TERM; setsid sleep 60 & wait; sleep 60", 137),
        ] {
            let begun = std::time::Instant::now();
            let output = fence.run(&["--backend", backend], script);
            assert_eq!(output.status.code(), Some(code), "{backend}, {script}: {}", text(&output.stderr));
            assert!(text(&output.stderr).contains("ended after 1 s, the limit of this policy"));
            assert!(begun.elapsed().as_secs() < 10);
        }
    });
}

/// No more processes than the policy says, counted in the session alone.
#[test]
fn a_limit_on_processes() {
    each(|fence| {
        let policy = "version = 1\n[limits]\npids = 8\n";
        fs::write(fence.world.path("project/ringfence.toml"), policy).unwrap();
        let script = "for i in 1 2 3 4 5 6 7 8 9 10 11 12; do sleep 5 & done; echo started; jobs | wc -l";
        for backend in ["native", "bwrap"] {
            let output = fence.run(&["--backend", backend], script);
            assert!(text(&output.stderr).contains("annot fork"), "{backend}: {}", text(&output.stderr));
            let output = fence.run(&["--backend", backend], "sleep 1 & sleep 1 & sleep 1 & wait; echo fine");
            assert_eq!(output.stdout, b"fine\n", "{backend}: {}", text(&output.stderr));
        }
        let output = fence.run(&["--backend", "landlock"], "true");
        assert!(text(&output.stderr).contains("not held: at most 8 processes [pids]"), "{}", text(&output.stderr));
    });
}

/// A limit on memory holds where a control group is ours, and is said where none is.
#[test]
fn a_limit_on_memory() {
    each(|fence| {
        let policy = "version = 1\n[limits]\nmemory = \"64MiB\"\n";
        fs::write(fence.world.path("project/ringfence.toml"), policy).unwrap();
        let output = fence.sh("head -c 200000000 /dev/zero | tail -c 199999999 | wc -c");
        let is_said = text(&output.stderr).contains("not held: at most 64MiB of memory [memory]");
        let holds = !text(&output.stdout).contains("199999999");
        assert!(is_said != holds, "{}{}", text(&output.stdout), text(&output.stderr));
    });
}

/// The receipt says the same on the screen and on disk, and stays in the state directory.
#[test]
fn a_receipt() {
    each(|fence| {
        for backend in ["native", "bwrap", "landlock"] {
            let output = fence.run(&["--backend", backend, "--receipt"], "true");
            let said = String::from_utf8(output.stderr).unwrap();
            assert!(said.contains(&format!("ringfence: receipt ({backend})")), "{said}");
            let path = said.lines().find_map(|line| line.strip_prefix("ringfence: receipt kept as ")).unwrap();
            let json: serde_json::Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
            assert_eq!(json["backend"], backend);
            let holds = |name: &str| {
                let mut lines = json["claims"].as_array().unwrap().iter().filter(|line| line["name"] == name);
                lines.all(|line| line["holds"] == true)
            };
            assert!(holds("environment") && holds("network") && holds("tree"));
            assert_eq!(holds("deny"), backend != "landlock");
            assert_eq!(holds("readable") && holds("protect") && holds("second-wall"), backend != "landlock");
            assert!(!holds("denied-later"));
        }
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

/// K4 A9 and the peers' eleventh: where namespaces are refused the next way is tried and its losses are said; where nothing can
/// hold, nothing starts; a fence that was asked for by name is not replaced by another; production takes no short rung.
#[test]
fn k4_the_ladder() {
    use crate::doctor::on_a_kernel_that_answers as on;
    let namespaces = [("unshare", Errno::EPERM), ("mount", Errno::EPERM)];
    let nothing = [&namespaces[..], &[("landlock_create_ruleset", Errno::ENOSYS)]].concat();
    each(|fence| {
        let cat = |flags: &[&str]| {
            let mut command = fence.with(flags);
            command.args(["/bin/sh", "-c", "cat .env; echo ran"]);
            command
        };
        let output = on(&namespaces, cat(&[]));
        let said = text(&output.stderr);
        assert_eq!(output.stdout, b"ran\n", "{said}");
        assert!(said.contains("native cannot be had on this host") && said.contains("trying bwrap"), "{said}");
        assert!(said.contains("trying landlock") && said.contains("[second-wall]"), "{said}");

        let output = on(&nothing, cat(&[]));
        let said = text(&output.stderr);
        assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(125), b"".as_slice()), "{said}");
        assert!(
            said.contains("this host can carry no fence") && said.contains("this kernel has no Landlock"),
            "{said}"
        );
        assert!(said.contains("ringfence doctor"), "{said}");

        let output = on(&namespaces, cat(&["--backend", "native"]));
        assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(125), b"".as_slice()));

        fs::write(fence.world.path("project/ringfence.toml"), "version = 1\n[workspace]\ntier = \"production\"\n")
            .unwrap();
        let accepted = ["denied-later", "protected-later", "replaced", "sockets-later"]
            .map(|name| ["--allow-shortfall", name])
            .concat();
        let output = on(&namespaces, cat(&accepted));
        let said = text(&output.stderr);
        assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(125), b"".as_slice()), "{said}");
        assert!(said.contains("not held: a second wall behind the first [second-wall]"), "{said}");
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
        command.current_dir(fence.world.path("project")).env("HOME", fence.world.path("home")).stdin(Stdio::null());
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
        assert!(!output.status.success() && output.stdout == b"old\n", "{}", text(&output.stderr));
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
        assert!(text(&output.stderr).contains("it has another name"), "{}", text(&output.stderr));
    });
}

/// Root never lends its group.
#[test]
fn root_lends_no_group() {
    each(|fence| {
        if fence.who == Who::Caller && rustix::process::geteuid().is_root() {
            chown(fence.world.path("project"), Some(NOBODY), Some(0)).unwrap();
        }
        fence.works("test \"$(id -u)\" != 0 && test \"$(id -g)\" != 0 && test \"$(id -G)\" != 0");
    });
}

/// Whoever starts it, the caller's own project can be worked on, by somebody who is not root, and stays the caller's.
#[test]
fn the_callers_own_project_stays_the_callers() {
    let world = World::open_to_all(env!("CARGO_BIN_EXE_ringfence"));
    world.write("project/src/lib.rs", "code\n");
    fs::set_permissions(world.path("project/src/lib.rs"), Permissions::from_mode(0o600)).unwrap();
    let script = "test $(id -u) != 0 && cat src/lib.rs && echo new > src/new && echo more >> src/lib.rs";
    let run = world.ringfence(&["run", "--", "/bin/sh", "-c", script]).expect_code(0);
    assert!(run.stdout.contains("code"), "{}", run.stdout);
    let owner = std::os::unix::fs::MetadataExt::uid(&fs::metadata(world.path("project/src/new")).unwrap());
    assert_eq!(owner, rustix::process::geteuid().as_raw());
}
