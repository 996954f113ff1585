//! An environment for an orchestrator's tools in which every command has a container of its own.
//!
//! Files are reached by the orchestrator itself, as in a fence of our own, at the paths that they have in the container too.

use std::path::Path;

use ringfence_fs::{Environment, Exec, ExecError, Executed, FileError, Found};
use ringfence_plan::{Engine, Rung};
use ringfence_surface::{AbsPath, MountFact, SubPolicy, Surface};

use super::check::unescaped;
use crate::call::{Within, WithinContainer};
use crate::fenced::{FencedEnvironment, FencedError};

/// Files beneath a session's working directory, and commands in containers that are tighter than the session.
#[derive(Debug)]
pub struct ContainerEnvironment {
    fenced: FencedEnvironment,
}

impl ContainerEnvironment {
    /// In whatever calls are made within. The caller keeps the session. `policy` says what tools get, of what the session has.
    ///
    /// # Errors
    /// [`FencedError`].
    pub fn new(mut within: Within, container: WithinContainer, policy: SubPolicy) -> Result<Self, FencedError> {
        within.rung = match container.here.facts.engine {
            Engine::Docker => Rung::Docker,
            Engine::Podman => Rung::Podman,
        };
        within.facts.mounts = mounts().map_err(|source| FencedError::Facts { source })?;
        within.container = Some(container);
        Ok(Self { fenced: FencedEnvironment::new(within, policy)? })
    }

    /// What its tools may touch.
    pub fn surface(&self) -> &Surface {
        self.fenced.surface()
    }
}

/// What is mounted on this host: an engine must be told of each mount below something read-only.
fn mounts() -> std::io::Result<Vec<MountFact>> {
    let text = std::fs::read("/proc/self/mountinfo")?;
    let mount = |line: &[u8]| {
        let target = AbsPath::lexical(&unescaped(line.split(|byte| *byte == b' ').nth(4)?)).ok()?;
        Some(MountFact { target, kind: String::new() })
    };
    Ok(text.split(|byte| *byte == b'\n').filter_map(mount).collect())
}

impl Environment for ContainerEnvironment {
    fn working_dir(&self) -> &Path {
        self.fenced.working_dir()
    }

    fn read(&self, path: &Path, most: u64) -> Result<Vec<u8>, FileError> {
        self.fenced.read(path, most)
    }

    fn write(&self, path: &Path, content: &[u8]) -> Result<(), FileError> {
        self.fenced.write(path, content)
    }

    fn remove(&self, path: &Path) -> Result<(), FileError> {
        self.fenced.remove(path)
    }

    fn glob(&self, pattern: &Path, most: usize) -> Result<Found, FileError> {
        self.fenced.glob(pattern, most)
    }

    fn exec(&self, exec: &Exec) -> Result<Executed, ExecError> {
        self.fenced.exec(exec)
    }
}
