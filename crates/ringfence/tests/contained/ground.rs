//! A world for each engine and whoever starts it.

use std::ffi::OsString;
use std::os::unix::fs::lchown;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use ringfence_testkit::{Starter, World, engines, report_skip};

const NOBODY: u32 = 65_534;

/// A project of an ordinary user's, and an engine.
pub(crate) struct Ground {
    world: World,
    engine: &'static str,
    starter: Starter,
    variables: Vec<(String, String)>,
}

/// Runs a case with Docker, with Podman of root's and with Podman of a user's.
pub(crate) fn each(case: impl Fn(Ground)) {
    for (engine, starter) in [("docker", Starter::Ordinary), ("podman", Starter::Root), ("podman", Starter::Ordinary)] {
        with(engine, starter, &case);
    }
}

/// Runs a case with one of them. Where there are no engines, or no root to start them, it is left out and said.
pub(crate) fn with(engine: &'static str, starter: Starter, case: impl Fn(Ground)) {
    if !rustix::process::geteuid().is_root() {
        return report_skip("containers: the tests do not run as root");
    }
    let Some(variables) = engines(starter) else {
        return report_skip("containers: no engines were started; `cargo xtask test` starts them");
    };
    let world = World::open_to_all(env!("CARGO_BIN_EXE_ringfence"));
    let ground = Ground { world, engine, starter, variables };
    ground.hand_over();
    case(ground);
}

impl Ground {
    pub(crate) fn engine(&self) -> &'static str {
        self.engine
    }

    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.world.path(path)
    }

    pub(crate) fn write(&self, path: &str, text: &str) {
        self.world.write(path, text);
        give_away(&self.world.path(Path::new(path).iter().next().unwrap()));
    }

    pub(crate) fn mkdir(&self, path: &str) -> PathBuf {
        let made = self.world.mkdir(path);
        give_away(&self.world.path(Path::new(path).iter().next().unwrap()));
        made
    }

    /// Everything belongs to the ordinary user.
    pub(crate) fn hand_over(&self) {
        ["home", "project"].iter().for_each(|dir| give_away(&self.world.path(dir)));
    }

    /// The variables by which the engine is found.
    pub(crate) fn found_by(&self) -> Vec<(OsString, OsString)> {
        self.variables.iter().map(|(name, value)| (name.into(), value.into())).collect()
    }

    pub(crate) fn binary(&self) -> &Path {
        self.world.binary()
    }

    /// A command of whoever starts, in the project.
    pub(crate) fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.world.path("project")).env_clear().stdin(Stdio::null());
        command.env("PATH", "/usr/local/bin:/usr/bin:/bin").env("HOME", self.world.path("home"));
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        if self.starter == Starter::Ordinary {
            command.gid(NOBODY).uid(NOBODY);
        }
        command
    }

    pub(crate) fn ringfence(&self, arguments: &[&str]) -> Output {
        self.command(self.world.binary()).args(arguments).output().unwrap()
    }

    /// `ringfence run` with the engine and these flags, still without its command.
    pub(crate) fn fence(&self, flags: &[&str]) -> Command {
        let mut command = self.command(self.world.binary());
        command.args(["run", "--backend", self.engine]).args(flags).arg("--");
        command
    }

    pub(crate) fn run(&self, flags: &[&str], words: &[&str]) -> Output {
        self.fence(flags).args(words).output().unwrap()
    }

    /// What the engine itself says.
    pub(crate) fn ask(&self, words: &[&str]) -> String {
        let output = self.command(format!("/usr/bin/{}", self.engine)).args(words).output().unwrap();
        text(&output.stdout)
    }
}

fn give_away(path: &Path) {
    lchown(path, Some(NOBODY), Some(NOBODY)).unwrap();
    if path.is_dir() && !path.is_symlink() {
        std::fs::read_dir(path).unwrap().for_each(|entry| give_away(&entry.unwrap().path()));
    }
}

pub(crate) fn text(bytes: &[u8]) -> String {
    let mut text = String::new();
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.push_str(&chunk.invalid().escape_ascii().to_string());
    }
    text
}
