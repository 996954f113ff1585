//! A project, a home with clients in it, and ringfence started there.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use ringfence_testkit::World;

/// A user who is nobody.
const NOBODY: u32 = 65534;

/// A place to work, for the caller or, where that is root, for somebody else.
pub(crate) struct Desk {
    pub(crate) world: World,
    is_nobody: bool,
}

/// A client that does what the project's file `script` says.
const CLIENT: &str = "#!/bin/bash\nprintf '%s\\n' \"$@\" > \"$PWD/arguments\"\nsource \"$PWD/script\"\n";

impl Desk {
    /// For whoever runs the tests.
    pub(crate) fn new() -> Self {
        let world = World::open_to_all(env!("CARGO_BIN_EXE_ringfence"));
        for client in ["claude", "codex", "gemini"] {
            let path = world.write(format!("home/bin/{client}"), CLIENT);
            fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
        }
        world.write("project/CLAUDE.md", "instructions\n");
        let desk = Self { world, is_nobody: false };
        if rustix::process::geteuid().is_root() {
            desk.give_away(Path::new("project"));
            desk.give_away(Path::new("home"));
        }
        desk
    }

    /// For an ordinary user; the caller, where that is one.
    pub(crate) fn of_nobody() -> Self {
        Self { is_nobody: rustix::process::geteuid().is_root(), ..Self::new() }
    }

    /// Both.
    pub(crate) fn all() -> [Self; 2] {
        [Self::new(), Self::of_nobody()]
    }

    fn give_away(&self, path: &Path) {
        let path = self.world.path(path);
        chown(&path, Some(NOBODY), Some(NOBODY)).unwrap();
        if path.is_dir() && !path.is_symlink() {
            for entry in fs::read_dir(&path).unwrap() {
                self.give_away(&entry.unwrap().path());
            }
        }
    }

    /// Writes a file that belongs to whoever works.
    pub(crate) fn write(&self, path: &str, text: &str) -> PathBuf {
        let written = self.world.write(path, text);
        if rustix::process::geteuid().is_root() {
            let first = path.split('/').take(2).collect::<PathBuf>();
            self.give_away(&first);
        }
        written
    }

    /// ringfence with these arguments, in the project.
    pub(crate) fn ringfence(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(self.world.binary());
        command.current_dir(self.world.path("project")).env_clear().stdin(Stdio::null());
        let path = format!("{}:/usr/local/bin:/usr/bin:/bin", self.world.path("home/bin").display());
        command.env("PATH", path).env("HOME", self.world.path("home")).args(arguments);
        if self.is_nobody {
            command.gid(NOBODY).uid(NOBODY);
        }
        command
    }

    /// Starts a client that does what the script says, and shows what it and ringfence print.
    #[track_caller]
    pub(crate) fn run(&self, arguments: &[&str], script: &str) -> String {
        self.write("project/script", script);
        self.shown(self.ringfence(arguments))
    }

    /// What a command that succeeds prints.
    #[track_caller]
    pub(crate) fn shown(&self, mut command: Command) -> String {
        let output = command.output().unwrap();
        let text = text(&output);
        assert!(output.status.success(), "{:?}\n{text}", output.status);
        text
    }

    /// The arguments that the client got.
    pub(crate) fn arguments(&self) -> String {
        fs::read_to_string(self.world.path("project/arguments")).unwrap().replace('\n', " ")
    }

    /// The directories of sessions that are there.
    pub(crate) fn sessions(&self) -> Vec<PathBuf> {
        let dir = self.world.path("home/.local/state/ringfence/sessions");
        fs::read_dir(dir).map_or(Vec::new(), |entries| entries.map(|entry| entry.unwrap().path()).collect())
    }
}

/// Both streams of a command.
pub(crate) fn text(output: &Output) -> String {
    let shown = |bytes: &[u8]| std::str::from_utf8(bytes).unwrap().to_owned();
    shown(&output.stdout) + &shown(&output.stderr)
}
