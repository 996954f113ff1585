//! A home with a key, a project with secrets and settings, a neighbour, and a client that is set to work there.

use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use ringfence_testkit::World;

use crate::client::{Attended, Client, installed, programs, seed_settings};
use crate::model::{LAST_WORDS, Model};

/// Longer than any script takes on a busy machine; only a failure waits for it.
const PATIENCE: &str = "110";

/// What must not be told.
pub(crate) const KEY: &str = "the-users-private-key";
pub(crate) const TOKEN: &str = "the-projects-token";

/// Who works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Who {
    /// Whoever runs the tests: root in CI.
    Caller,
    /// An ordinary user, by root's leave.
    Ordinary,
}

const NOBODY: u32 = 65534;

pub(crate) struct Ground {
    who: Who,
    pub(crate) world: World,
    /// Something else that listens on the host's loopback. It knows no page.
    pub(crate) service: Model,
}

impl Ground {
    pub(crate) fn new() -> Self {
        Self::of(Who::Caller)
    }

    pub(crate) fn of(who: Who) -> Self {
        let binary = env!("CARGO_BIN_EXE_ringfence");
        let world = if who == Who::Caller { World::new(binary) } else { World::open_to_all(binary) };
        world.write("home/.ssh/id_ed25519", KEY);
        world.write("home/.gitconfig", "[user]\n\tname = Ada Example\n\temail = ada@example.com\n");
        world.write("neighbour/notes.txt", "notes\n");
        world.write("project/a.txt", "hello\n");
        world.write("project/deploy.token", TOKEN);
        world.symlink("../home/.ssh/id_ed25519", "project/link.txt");
        for settings in [".claude/settings.json", ".gemini/settings.json"] {
            world.write(format!("project/{settings}"), "{\"a\": 1}\n");
        }
        world.write("project/.codex/config.toml", "a = 1\n");
        // No pack, so that no host of the internet is listed for its sake.
        world.write("project/ringfence.toml", "version = 1\nextends = []\n");
        let ground = Self { who, world, service: Model::with(Vec::new()) };
        ground.hand_over();
        let git = ground.outside("/usr/bin/git").args(["init", "-q"]).status().unwrap();
        assert!(git.success());
        ground
    }

    /// A path in the world, as a word of a command line.
    pub(crate) fn path(&self, path: &str) -> String {
        self.world.path(path).to_str().unwrap().to_owned()
    }

    pub(crate) fn project(&self, path: &str) -> PathBuf {
        self.world.path("project").join(path)
    }

    /// The user's policy: the client's own files can be read, and its model reached.
    pub(crate) fn policy(&self, model: &Model) {
        let policy = format!(
            "version = 1\n[files]\nread = [{:?}]\ndeny = [\"**/*.token\"]\n[network]\nhost_ports = [{}]\n",
            installed(),
            model.port
        );
        self.world.write("home/.config/ringfence/config.toml", policy);
        self.hand_over();
    }

    /// Everything belongs to whoever works.
    fn hand_over(&self) {
        if self.who == Who::Ordinary {
            let all = ["home", "project", "neighbour", "run"].map(|dir| self.world.path(dir));
            let done = Command::new("chown").args(["-hR", &format!("{NOBODY}:{NOBODY}")]).args(all).status();
            assert!(done.unwrap().success());
        }
    }

    /// A command of the user, outside, in the project.
    pub(crate) fn outside(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.world.path("project")).env_clear().stdin(Stdio::null());
        command.env("PATH", format!("{}:/usr/local/bin:/usr/bin:/bin", programs().to_str().unwrap()));
        command.env("HOME", self.world.path("home")).env("LANG", "C.UTF-8").env("SHELL", "/bin/bash");
        command.env("TERM", "xterm-256color");
        if self.who == Who::Ordinary {
            command.gid(NOBODY).uid(NOBODY);
        }
        command
    }

    /// The client, without a fence: what it is asked is possible.
    pub(crate) fn unfenced(&self, client: Client, model: &Model) {
        went_through(&self.unfenced_command(client, model).output().unwrap(), model);
    }

    pub(crate) fn unfenced_command(&self, client: Client, model: &Model) -> Command {
        if let Some((file, text)) = seed_settings(client, self) {
            self.world.write(format!("home/{file}"), text);
            self.hand_over();
        }
        let mut command = self.outside("/usr/bin/timeout");
        command.args(["--kill-after=5", PATIENCE]).envs(client.variables(model));
        command.args(client.command(Attended::ByNobody, self, model));
        command
    }

    /// The client in a fence, and nothing of ours in its settings.
    pub(crate) fn fenced(&self, client: Client, model: &Model) {
        let mut command = self.in_a_fence(client, model);
        command.args(client.command(Attended::ByNobody, self, model));
        went_through(&command.output().unwrap(), model);
    }

    /// A fence in which the client finds its first settings, still without its command line.
    pub(crate) fn in_a_fence(&self, client: Client, model: &Model) -> Command {
        self.policy(model);
        let mut command = self.outside("/usr/bin/timeout");
        command.args(["--foreground", "--kill-after=5", PATIENCE]).arg(self.world.binary()).arg("run");
        for (name, value) in client.variables(model) {
            command.args(["--env", name]).env(name, value);
        }
        // By its own name it would be taken for an agent, with our settings.
        command.args(["--", "/usr/bin/env"]);
        if let Some((file, text)) = seed_settings(client, self) {
            let script = "mkdir -p \"$(dirname ~/\"$0\")\" && printf %s \"$1\" > ~/\"$0\" && shift && exec \"$@\"";
            command.args(["bash", "-c", script, file, &text]);
        }
        command
    }
}

/// How a session of an agent is started.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Manner {
    pub(crate) attended: Attended,
    pub(crate) mode: &'static str,
    /// Further words for the client, before its request.
    pub(crate) words: &'static [&'static str],
    /// Variables of the user's.
    pub(crate) variables: &'static [(&'static str, &'static str)],
}

/// As most people start it.
pub(crate) const PLAIN: Manner =
    Manner { attended: Attended::ByNobody, mode: "accept-edits", words: &[], variables: &[] };

impl Ground {
    /// `ringfence run --agent CLIENT`, with a key that the user passes on.
    pub(crate) fn as_agent(&self, client: Client, model: &Model, manner: Manner) -> Command {
        self.policy(model);
        let mut command = self.outside("/usr/bin/timeout");
        command.args(["--foreground", "--kill-after=5", PATIENCE]).arg(self.world.binary());
        command.args(["run", "--agent", client.name(), "--mode", manner.mode, "--env", client.key_variable(), "--"]);
        command.args(client.as_agent(manner.attended, self, manner.words)).envs(client.variables(model));
        command.envs(manner.variables.iter().copied());
        command
    }

    /// The same, to the end of the script.
    pub(crate) fn hooked(&self, client: Client, model: &Model) {
        went_through(&self.as_agent(client, model, PLAIN).output().unwrap(), model);
    }
}

/// The client has ended by itself, after the last words of the model.
#[track_caller]
pub(crate) fn went_through(output: &Output, model: &Model) {
    let said = shown(output);
    let lines: Vec<String> = model.requests().into_iter().map(|request| request.line).collect();
    assert!(output.status.success(), "{}; results {:#?}; requests {lines:#?}; {said}", output.status, model.results());
    assert!(said.contains(LAST_WORDS), "it ended before the script did: {said}");
}

pub(crate) fn shown(output: &Output) -> String {
    let mut text = String::new();
    for chunk in output.stdout.utf8_chunks().chain(output.stderr.utf8_chunks()) {
        text.push_str(chunk.valid());
        text.push_str(&chunk.invalid().escape_ascii().to_string());
    }
    text
}
