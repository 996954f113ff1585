//! A project, and other places beside it.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, lchown};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use ringfence_testkit::{World, report_skip};

const NOBODY: u32 = 65534;

/// Who works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Who {
    Caller,
    Ordinary,
}

pub(crate) struct Place {
    pub(crate) world: World,
    pub(crate) who: Who,
    /// Where programs are looked for besides, and variables.
    pub(crate) search: String,
    pub(crate) variables: Vec<(String, String)>,
}

/// Runs a case as the caller and, where that is root, as an ordinary user too.
pub(crate) fn each(case: impl Fn(Place)) {
    case(Place::new(Who::Caller));
    if rustix::process::geteuid().is_root() {
        case(Place::new(Who::Ordinary));
    } else {
        report_skip("as another user: the tests do not run as root");
    }
}

impl Place {
    pub(crate) fn new(who: Who) -> Self {
        let binary = env!("CARGO_BIN_EXE_ringfence");
        // Not in a directory of which every session has its own, nor in anybody's home.
        let world = if rustix::process::geteuid().is_root() {
            World::open_to_all_on(Path::new("/srv"), binary)
        } else {
            World::new(binary)
        };
        Self { world, who, search: String::new(), variables: Vec::new() }
    }

    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.world.path(path)
    }

    /// A path in the world, as text.
    pub(crate) fn at(&self, path: &str) -> String {
        self.path(path).to_str().unwrap().to_owned()
    }

    pub(crate) fn hand_over(&self) {
        if self.who == Who::Ordinary {
            ["home", "project", "run", "other"].iter().for_each(|dir| give_away(&self.path(dir)));
        }
    }

    /// The program, in the project.
    pub(crate) fn ringfence(&self, arguments: &[&str]) -> Output {
        self.command(arguments).stdin(Stdio::null()).output().unwrap()
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        self.hand_over();
        let mut command = Command::new("setpriv");
        match self.who {
            Who::Ordinary => command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"]),
            Who::Caller => command.arg("--"),
        };
        command.arg(self.world.binary()).args(arguments).current_dir(self.path("project")).env_clear();
        command.envs(self.world.variables()).env("PATH", format!("{}/usr/local/bin:/usr/bin:/bin", self.search));
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command
    }

    #[track_caller]
    pub(crate) fn done(&self, arguments: &[&str]) -> String {
        let output = self.ringfence(arguments);
        assert!(output.status.success(), "{arguments:?} as {:?}: {}", self.who, shown(&output));
        shown(&output)
    }

    /// Everything in a directory: names, kinds, rights, content.
    pub(crate) fn picture(&self, dir: &str) -> BTreeMap<PathBuf, (u32, Vec<u8>)> {
        let mut picture = BTreeMap::new();
        let mut left = vec![self.path(dir)];
        while let Some(dir) = left.pop() {
            for entry in fs::read_dir(&dir).unwrap() {
                let path = entry.unwrap().path();
                let metadata = fs::symlink_metadata(&path).unwrap();
                let content = if metadata.is_file() { fs::read(&path).unwrap() } else { Vec::new() };
                if metadata.is_dir() {
                    left.push(path.clone());
                }
                picture.insert(path, (metadata.mode(), content));
            }
        }
        picture
    }
}

pub(crate) fn shown(output: &Output) -> String {
    let text = |bytes: &[u8]| bytes.utf8_chunks().map(|chunk| chunk.valid().to_owned()).collect::<String>();
    format!("{:?}\n--- stdout\n{}\n--- stderr\n{}", output.status, text(&output.stdout), text(&output.stderr))
}

fn give_away(path: &Path) {
    let Ok(metadata) = fs::symlink_metadata(path) else { return };
    // Whose it is already is left alone: the kernel notes every change of an owner.
    if metadata.uid() != NOBODY {
        lchown(path, Some(NOBODY), Some(NOBODY)).unwrap();
    }
    if metadata.is_dir() {
        fs::read_dir(path).unwrap().for_each(|entry| give_away(&entry.unwrap().path()));
    }
}
