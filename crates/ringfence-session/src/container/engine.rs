//! Which container engine is here: where its program is, what it can do, and whether it is on this machine.
//!
//! An engine on another machine would mount that machine's files, so it is refused by what it says of itself. One that hides it
//! is found out in the container, where nothing is what it should be.

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

use ringfence_plan::{Engine, EngineFacts, EngineRights, Labels, Limited, Limits, NewerAddresses, Recursive};
use ringfence_surface::Shown;
use serde_json::Value;

/// Where engines are looked for: never where the project says.
const PLACES: [&str; 3] = ["/usr/bin", "/usr/local/bin", "/bin"];

/// From this version of its API on, Docker makes read-only mounts read-only with all that is below.
const RECURSIVE_API: (u32, u32) = (1, 44);

/// An engine that can be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngineHere {
    /// Its program.
    pub program: String,
    /// Its version, as it says.
    pub version: String,
    /// What it can do.
    pub facts: EngineFacts,
    /// Variables by which it is found, beside the caller's own.
    pub variables: Vec<(OsString, OsString)>,
}

/// Why an engine cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum NoEngine {
    /// It is not there.
    #[error("{engine} is not installed")]
    Missing {
        /// Which.
        engine: &'static str,
    },
    /// Its program cannot be started.
    #[error("{engine} cannot be started")]
    Start {
        /// Which.
        engine: &'static str,
        /// Why.
        source: io::Error,
    },
    /// It does not answer.
    #[error("{engine} does not answer: {said}")]
    Silent {
        /// Which.
        engine: &'static str,
        /// What it said.
        said: String,
    },
    /// It is elsewhere.
    #[error("{engine} is on another machine ({at}), and would mount that machine's files")]
    Remote {
        /// Which.
        engine: &'static str,
        /// Where.
        at: String,
    },
}

impl EngineHere {
    /// Asks an engine about itself.
    ///
    /// # Errors
    /// [`NoEngine`].
    pub fn find(engine: Engine) -> Result<Self, NoEngine> {
        Self::find_with(engine, Vec::new())
    }

    /// The same, by these variables: `DOCKER_HOST`, `CONTAINERS_CONF` and their like.
    ///
    /// # Errors
    /// [`NoEngine`].
    pub fn find_with(engine: Engine, variables: Vec<(OsString, OsString)>) -> Result<Self, NoEngine> {
        let programs = PLACES.iter().map(|dir| format!("{dir}/{}", engine.word()));
        let program = programs.into_iter().find(|path| Path::new(path).is_file());
        let program = program.ok_or(NoEngine::Missing { engine: engine.word() })?;
        let asker = Asker { engine, program: &program, variables: &variables };
        let (version, facts) = match engine {
            Engine::Docker => asker.docker()?,
            Engine::Podman => asker.podman()?,
        };
        Ok(Self { program, version, facts, variables })
    }

    /// What it says to a question; nothing where it fails.
    pub(crate) fn ask(&self, words: &[&str]) -> Option<String> {
        let Self { program, variables, .. } = self;
        Asker { engine: self.facts.engine, program, variables }.ask(words).ok()
    }
}

struct Asker<'a> {
    engine: Engine,
    program: &'a str,
    variables: &'a [(OsString, OsString)],
}

impl Asker<'_> {
    fn ask(&self, words: &[&str]) -> Result<String, NoEngine> {
        let engine = self.engine.word();
        let mut command = Command::new(self.program);
        command.args(words).envs(self.variables.iter().cloned()).stdin(Stdio::null());
        let output = command.output().map_err(|source| NoEngine::Start { engine, source })?;
        if output.status.success()
            && let Ok(text) = String::from_utf8(output.stdout)
        {
            return Ok(text.trim().to_owned());
        }
        Err(self.silent(&output.stderr))
    }

    fn silent(&self, said: &[u8]) -> NoEngine {
        const MOST: usize = 400;
        let said = said.trim_ascii();
        NoEngine::Silent {
            engine: self.engine.word(),
            said: Shown(&said[said.len().saturating_sub(MOST)..]).to_string(),
        }
    }

    fn json(&self, words: &[&str]) -> Result<Value, NoEngine> {
        serde_json::from_str(&self.ask(words)?).map_err(|_| self.silent(b"its answer is no JSON"))
    }

    fn docker(&self) -> Result<(String, EngineFacts), NoEngine> {
        // The context in force, which `DOCKER_HOST` and `DOCKER_CONTEXT` choose.
        let at = self.ask(&["context", "inspect", "--format", "{{.Endpoints.docker.Host}}"])?;
        if !at.starts_with("unix://") {
            let at = Shown(at.as_bytes()).to_string();
            return Err(NoEngine::Remote { engine: self.engine.word(), at });
        }
        // What both sides speak.
        let api = self.ask(&["version", "--format", "{{.Client.APIVersion}}"])?;
        let about = self.json(&["info", "--format", "{{json .}}"])?;
        let security: Vec<&str> =
            about["SecurityOptions"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let has =
            |name: &str| security.iter().any(|option| option.split(',').any(|part| part == format!("name={name}")));
        let can = |key: &str| if about[key].as_bool() == Some(true) { Limited::Can } else { Limited::Cannot };
        let facts = EngineFacts {
            engine: Engine::Docker,
            recursive: if number(&api) >= Some(RECURSIVE_API) { Recursive::Asked } else { Recursive::No },
            rights: if has("rootless") { EngineRights::UserAlone } else { EngineRights::Root },
            limits: Limits { memory: can("MemoryLimit"), pids: can("PidsLimit") },
            labels: if has("selinux") { Labels::Enforced } else { Labels::None },
            newer: newer(),
        };
        Ok((about["ServerVersion"].as_str().unwrap_or("unknown").to_owned(), facts))
    }

    fn podman(&self) -> Result<(String, EngineFacts), NoEngine> {
        let about = self.json(&["info", "--format", "json"])?;
        let host = &about["host"];
        if host["serviceIsRemote"].as_bool() != Some(false) {
            let at = host["remoteSocket"]["path"].as_str().unwrap_or("a service");
            return Err(NoEngine::Remote { engine: self.engine.word(), at: Shown(at.as_bytes()).to_string() });
        }
        let is_rootless = host["security"]["rootless"].as_bool() != Some(false);
        let has_more = host["idMappings"]["uidmap"].as_array().is_some_and(|map| map.len() > 1);
        let controllers: Vec<&str> =
            host["cgroupControllers"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let can = |name: &str| {
            let is_delegated = host["cgroupVersion"] == "v2" && controllers.contains(&name);
            if is_delegated || !is_rootless { Limited::Can } else { Limited::Cannot }
        };
        let facts = EngineFacts {
            engine: Engine::Podman,
            recursive: Recursive::No,
            rights: match (is_rootless, has_more) {
                (false, _) => EngineRights::Root,
                (true, true) => EngineRights::User,
                (true, false) => EngineRights::UserAlone,
            },
            limits: Limits { memory: can("memory"), pids: can("pids") },
            labels: if host["security"]["selinuxEnabled"] == true { Labels::Enforced } else { Labels::None },
            newer: newer(),
        };
        Ok((about["version"]["Version"].as_str().unwrap_or("unknown").to_owned(), facts))
    }
}

fn newer() -> NewerAddresses {
    let is_there = Path::new("/proc/sys/net/ipv6/conf/lo/disable_ipv6").exists();
    if is_there { NewerAddresses::Had } else { NewerAddresses::None }
}

/// `1.44` as two numbers.
fn number(text: &str) -> Option<(u32, u32)> {
    let (major, minor) = text.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_numbers() {
        assert!(number("1.44") >= Some(RECURSIVE_API) && number("1.50") >= Some(RECURSIVE_API));
        assert!(number("1.9") < Some(RECURSIVE_API) && number("") < Some(RECURSIVE_API));
    }
}
