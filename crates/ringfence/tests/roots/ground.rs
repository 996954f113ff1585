//! A world with a root in it, and whoever starts commands there.

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use ringfence_testkit::{World, report_skip};

/// The ordinary user, and another.
pub(crate) const NOBODY: u32 = 65534;

/// Who starts a command in a root.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Who {
    /// Root, for the owner of the work.
    Root,
    /// An ordinary user with CAP_SYS_CHROOT and nothing else, by an ambient capability.
    Ambient,
    /// The same, by a capability of the program's file.
    File,
    /// An ordinary user without any.
    Nothing,
}

pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

pub(crate) fn skips() -> bool {
    let skips = !is_root();
    if skips {
        report_skip(
            "roots: the tests do not run as root, and nobody else can hand on the right to another root directory",
        );
    }
    skips
}

pub(crate) struct Ground {
    pub(crate) world: World,
    who: Who,
}

impl Ground {
    pub(crate) fn new(who: Who) -> Self {
        let world = World::open_to_all(env!("CARGO_BIN_EXE_ringfence"));
        if who != Who::Root {
            std::os::unix::fs::chown(world.path("home"), Some(NOBODY), Some(NOBODY)).unwrap();
        }
        let ground = Self { world, who };
        if who == Who::File {
            // A link to what was built would carry the right too.
            fs::remove_file(ground.world.binary()).unwrap();
            // By `cp`: a process that another test forks while we hold it open for writing would keep it from being run.
            let copied = Command::new("cp").arg(env!("CARGO_BIN_EXE_ringfence")).arg(ground.world.binary()).status();
            assert!(copied.unwrap().success());
            let set = Command::new("/usr/sbin/setcap").arg("cap_sys_chroot+ep").arg(ground.world.binary()).status();
            assert!(set.unwrap().success());
        }
        ground
    }

    /// A command of ringfence, by whoever it is. Nothing of the caller's own rights goes along.
    pub(crate) fn ringfence(&self, words: &[&str]) -> Command {
        let mut command = Command::new("/usr/bin/setpriv");
        if self.who != Who::Root {
            let rights = if self.who == Who::Ambient { "-all,+sys_chroot" } else { "-all" };
            let bound = if self.who == Who::Nothing { "-all" } else { "-all,+sys_chroot" };
            command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "--bounding-set", bound]);
            command.args(["--inh-caps", rights]);
            if self.who == Who::Ambient {
                command.args(["--ambient-caps", rights]);
            }
        }
        command.arg("--").arg(self.world.binary()).args(words);
        command.current_dir(self.world.path("")).env_clear().env("HOME", self.world.path("home"));
        command.env("PATH", "/usr/bin:/bin").stdin(Stdio::null());
        command
    }

    pub(crate) fn create(&self, name: &str, with: &str) -> PathBuf {
        let made = self.ringfence(&["root", "create", name, "--with", with]).output().unwrap();
        assert!(made.status.success(), "{}", shown(&made));
        PathBuf::from(String::from_utf8(made.stdout).unwrap().trim_end())
    }

    /// Runs a command in a root.
    pub(crate) fn run(&self, root: &str, words: &[&str]) -> Output {
        self.started(root, words).output().unwrap()
    }

    pub(crate) fn started(&self, root: &str, words: &[&str]) -> Command {
        let run = ["run", "--backend", "chroot", "--root", root, "--"];
        self.ringfence(&[&run[..], words].concat())
    }

    /// Writes a file of the work, for whoever works there.
    pub(crate) fn write(&self, path: &Path, text: &str) {
        fs::write(path, text).unwrap();
        std::os::unix::fs::chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
    }
}

/// A command as the ordinary user, outside.
pub(crate) fn outside(command: &mut Command) -> &mut Command {
    command.uid(NOBODY).gid(NOBODY)
}

pub(crate) fn shown(output: &Output) -> String {
    let text = |bytes: &[u8]| bytes.escape_ascii().to_string().replace("\\n", "\n");
    format!("{}{}", text(&output.stdout), text(&output.stderr))
}
