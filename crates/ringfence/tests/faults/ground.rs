//! A project with things that no session may touch, and what may be left of a session.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt as _, lchown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use ringfence_testkit::World;

const NOBODY: u32 = 65534;
const POLICY: &str = "version = 1\n[files]\ndeny = [\"secret.txt\"]\nprotect = [\"kept.txt\"]\n";
/// How long the last processes of a session may take to end.
const PATIENCE: Duration = Duration::from_secs(20);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Who {
    Caller,
    Nobody,
}

pub(crate) struct Ground {
    world: World,
    pub(crate) who: Who,
    listener: TcpListener,
}

impl Ground {
    pub(crate) fn new(who: Who) -> Self {
        let binary = env!("CARGO_BIN_EXE_ringfence");
        let is_root = rustix::process::geteuid().is_root();
        let world = if is_root { World::open_to_all_on(Path::new("/srv"), binary) } else { World::new(binary) };
        fs::set_permissions(world.path("run"), Permissions::from_mode(0o755)).unwrap();
        for (path, text) in [
            ("project/secret.txt", "THE-SECRET\n"),
            ("project/kept.txt", "kept\n"),
            ("project/mine.txt", "old\n"),
            ("project/ringfence.toml", POLICY),
            ("other/outside.txt", "outside\n"),
        ] {
            world.write(path, text);
        }
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let ground = Self { world, who, listener };
        ground.own();
        ground
    }

    pub(crate) fn own(&self) {
        if self.who == Who::Nobody {
            ["home", "project", "run", "other"].iter().for_each(|name| give_away(&self.path(name)));
        }
    }

    pub(crate) fn path(&self, relative: impl AsRef<Path>) -> PathBuf {
        self.world.path(relative)
    }

    pub(crate) fn binary(&self) -> &Path {
        self.world.binary()
    }

    /// A command in the project, as the user who works.
    pub(crate) fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.path("project")).env_clear().stdin(Stdio::null());
        command.env("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin").env("HOME", self.path("home"));
        if self.who == Who::Nobody {
            command.gid(NOBODY).uid(NOBODY);
        }
        command
    }

    pub(crate) fn ringfence(&self, arguments: &[&str]) -> Command {
        let mut command = self.command(self.binary());
        command.args(arguments);
        command
    }

    /// Tries everything that is forbidden, from inside, and then leaves a sign that it ran.
    pub(crate) fn probe(&self) -> String {
        let port = self.listener.local_addr().unwrap().port();
        format!(
            "exec 2>/dev/null; cat secret.txt > seen; echo x > ../other/planted; echo x >> ../other/outside.txt; \
             echo x > .envrc; echo x >> kept.txt; mv kept.txt moved; ln secret.txt alias; \
             (exec 3<>/dev/tcp/127.0.0.1/{port}); echo ran > ran"
        )
    }

    /// Did the probe run to its end?
    pub(crate) fn has_run(&self) -> bool {
        self.path("project/ran").exists()
    }

    /// What of the forbidden was done, and not reported as a loss. Then the project is as before.
    pub(crate) fn breaches(&self, reported: &str) -> Vec<String> {
        // The weaker backends say so: each of these lines is about the session that ran.
        let has_lost = |claim: &str| {
            reported.lines().any(|line| line.starts_with("ringfence: not held: protect") && line.contains(claim))
        };
        let mut breaches = Vec::new();
        let read = |path: &str| fs::read_to_string(self.path(path)).unwrap_or_default();
        let mut check = |is_so: bool, what: &str| breaches.extend((!is_so).then(|| what.to_owned()));
        check(!read("project/seen").contains("SECRET"), "the secret was read");
        check(!read("project/alias").contains("SECRET"), "the secret got another name");
        check(!self.path("other/planted").exists(), "a file was made outside");
        check(read("other/outside.txt") == "outside\n", "a file outside was changed");
        check(!self.path("project/.envrc").exists() || has_lost("[protected-later]"), "a protected name was made");
        check(read("project/kept.txt") == "kept\n" || has_lost("[protect]"), "a protected file was changed");
        check(self.listener.accept().is_err(), "a connection was made");
        for name in fs::read_dir(self.path("project")).unwrap().map(|entry| entry.unwrap().file_name()) {
            check(!name.to_str().unwrap().starts_with(".ringfence-"), "a temporary name is in the work tree");
        }
        for name in ["seen", "ran", "alias", ".envrc", "moved"] {
            let _ = fs::remove_file(self.path("project").join(name));
        }
        fs::write(self.path("project/kept.txt"), "kept\n").unwrap();
        let _ = fs::remove_file(self.path("other/planted"));
        fs::write(self.path("other/outside.txt"), "outside\n").unwrap();
        self.own();
        breaches
    }

    /// The processes of the program, wherever they are.
    pub(crate) fn processes(&self) -> Vec<i32> {
        let world = self.path("");
        let is_ours = |pid: &i32| {
            fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe.starts_with(&world))
                || fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|cwd| cwd.starts_with(&world))
        };
        let numbers =
            fs::read_dir("/proc").unwrap().filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok());
        numbers.filter(is_ours).collect()
    }

    /// What is left after a session: processes, mounts, control groups and session directories. The kernel may take a moment to end
    /// processes.
    pub(crate) fn left(&self) -> Vec<String> {
        let until = Instant::now() + PATIENCE;
        loop {
            let left = self.left_now();
            if left.is_empty() || Instant::now() >= until {
                return left;
            }
            std::thread::yield_now();
        }
    }

    fn left_now(&self) -> Vec<String> {
        let mut left: Vec<String> =
            self.processes().iter().map(|pid| format!("process {pid}: {}", about(*pid))).collect();
        let world = self.path("").display().to_string();
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        left.extend(mounts.lines().filter(|line| line.contains(&world)).map(|line| format!("mount {line}")));
        left.extend(self.sessions().into_iter().map(|path| format!("session {}", path.display())));
        left.extend(self.groups());
        left
    }

    pub(crate) fn sessions(&self) -> Vec<PathBuf> {
        let state = self.path("home/.local/state/ringfence");
        let in_it = |name: &str| fs::read_dir(state.join(name)).into_iter().flatten();
        in_it("sessions").chain(in_it("calls")).flatten().map(|entry| entry.path()).collect()
    }

    /// Control groups by the names of this world's sessions.
    fn groups(&self) -> Vec<String> {
        let audit = fs::read_dir(self.path("home/.local/state/ringfence/past")).into_iter().flatten();
        let ids: BTreeSet<String> = audit.filter_map(|entry| entry.unwrap().file_name().into_string().ok()).collect();
        let mut found = Vec::new();
        let mut dirs = vec![PathBuf::from("/sys/fs/cgroup")];
        while let Some(dir) = dirs.pop() {
            for entry in fs::read_dir(&dir).into_iter().flatten().flatten() {
                if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    continue;
                }
                let name = entry.file_name().into_string().unwrap_or_default();
                if ids.iter().any(|id| name.contains(id.as_str())) {
                    found.push(format!("control group {}", entry.path().display()));
                }
                dirs.push(entry.path());
            }
        }
        found
    }
}

fn about(pid: i32) -> String {
    let read = |name: &str| fs::read(format!("/proc/{pid}/{name}")).unwrap_or_default();
    let text =
        |bytes: &[u8]| bytes.iter().map(|byte| if *byte < 32 { ' ' } else { char::from(*byte) }).collect::<String>();
    format!("{} | {}", text(&read("cmdline")), text(&read("stat")))
}

fn give_away(path: &Path) {
    let Ok(status) = fs::symlink_metadata(path) else { return };
    lchown(path, Some(NOBODY), Some(NOBODY)).unwrap();
    if status.is_dir() {
        fs::read_dir(path).unwrap().for_each(|entry| give_away(&entry.unwrap().path()));
    }
}
