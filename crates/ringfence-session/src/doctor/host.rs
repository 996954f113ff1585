//! Everything that is known about a host, as plain data.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use ringfence_plan::Rung;
use ringfence_surface::AbsPath;
use rustix::io::Errno;

use super::remedy::AGENT_USER;
use super::system::System;
use crate::probe::{self, Blocked, Bwrap, Caller, Cgroup, Engine, Landlock, NoBwrap, Seccomp, Signs};

/// A host and what it can do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// The kernel's release.
    pub kernel: String,
    /// The system.
    pub system: System,
    /// What shows about who asks and what surrounds them.
    pub signs: Signs,
    /// A native start.
    pub native: Result<(), Blocked>,
    /// A whole session on each backend, as `run` starts it.
    pub starts: Starts,
    /// The gateway through which hosts are reached.
    pub gateway: Result<(), Errno>,
    /// bubblewrap.
    pub bwrap: Result<Bwrap, NoBwrap>,
    /// Landlock.
    pub landlock: Result<Landlock, Errno>,
    /// Filters.
    pub seccomp: Seccomp,
    /// The cgroup of the caller.
    pub cgroup: Cgroup,
    /// The controllers with which a session gets a cgroup of its own.
    pub limits: Vec<&'static str>,
    /// Layers of changes.
    pub overlay: Result<(), Errno>,
    /// Showing root's files as somebody else's; only root can ask.
    pub idmap: Option<Result<(), Errno>>,
    /// Paths that cannot leave their anchor.
    pub openat2: Result<(), Errno>,
    /// Handles on processes.
    pub pidfd: Result<(), Errno>,
    /// Keeping descriptors back.
    pub close_range: Result<(), Errno>,
    /// Terminals.
    pub pty: Result<(), Errno>,
    /// Container engines.
    pub engines: Vec<Engine>,
    /// The program that asks, to be named in a profile; nothing when it cannot be told.
    pub program: Option<PathBuf>,
    /// Can nobody but the administrator change that program?
    pub program_is_trusted: bool,
    /// The shell of somebody who does not log in.
    pub nologin: PathBuf,
    /// There is a user for agents that root starts.
    pub agent_user: bool,
    /// The security modules that run, as the kernel lists them.
    pub modules: Option<String>,
}

/// What came of a whole start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Started {
    /// A command ran in it and ended.
    Works,
    /// It was refused or failed: why.
    Fails(String),
    /// It did not end in time: why. That says nothing about the host.
    Unknown(String),
    /// It could not be tried, such as where no program can be started: why. Then its parts count.
    Untried(String),
}

/// What came of a whole start, for each backend on which one was tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Starts(BTreeMap<Rung, Started>);

impl Starts {
    /// Tries each backend of the fallback order.
    pub fn of_all(start: impl Fn(Rung) -> Started) -> Self {
        Self(Rung::LADDER.into_iter().map(|rung| (rung, start(rung))).collect())
    }

    /// Notes what came of one.
    pub fn note(&mut self, rung: Rung, started: Started) {
        self.0.insert(rung, started);
    }

    /// That of one backend, if one was tried.
    pub fn of(&self, rung: Rung) -> Option<&Started> {
        self.0.get(&rung)
    }
}

impl Host {
    /// Tries everything. `project` is a directory that root might work in; `start` starts a session on a backend.
    pub fn probe(project: &AbsPath, start: impl Fn(Rung) -> Started) -> Self {
        let signs = Signs::read();
        let program = std::env::current_exe().ok();
        Self {
            kernel: rustix::system::uname().release().to_str().unwrap_or_default().to_owned(),
            system: System::read(),
            native: probe::native(),
            starts: Starts::of_all(start),
            bwrap: probe::bwrap(),
            landlock: probe::landlock(),
            seccomp: probe::seccomp(),
            gateway: probe::gateway(),
            cgroup: probe::cgroup::look(),
            limits: probe::cgroup::limits(),
            overlay: probe::overlay(),
            idmap: (signs.caller == Caller::Root).then(|| probe::idmap(project)),
            openat2: probe::openat2_beneath(),
            pidfd: probe::pidfd(),
            close_range: probe::close_range(),
            pty: probe::pty(),
            engines: probe::engines(),
            program_is_trusted: program.as_deref().is_some_and(probe::is_trusted),
            program,
            nologin: nologin(),
            agent_user: has_user(AGENT_USER),
            modules: fs::read_to_string("/sys/kernel/security/lsm").ok().map(|list| list.trim().to_owned()),
            signs,
        }
    }
}

fn nologin() -> PathBuf {
    let known = ["/usr/sbin/nologin", "/sbin/nologin", "/usr/bin/nologin"];
    known.iter().map(Path::new).find(|path| path.is_file()).unwrap_or(Path::new("/bin/false")).into()
}

fn has_user(name: &str) -> bool {
    let table = fs::read("/etc/passwd").unwrap_or_default();
    table.split(|byte| *byte == b'\n').any(|line| line.split(|byte| *byte == b':').next() == Some(name.as_bytes()))
}
