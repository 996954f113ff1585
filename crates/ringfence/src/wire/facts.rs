//! A host and its policies as JSON, so that a plan can be made on another machine.

use std::collections::BTreeMap;
use std::path::Path;

use ringfence_surface::policy::PolicyFile;
use ringfence_surface::text::PolicyText;
use ringfence_surface::{
    AbsPath, GitFact, GitNamed, GitRun, HostFacts, Inputs, Layer, Level, MountFact, PathFact, Trust, Via,
};
use serde::de::Error as _;
use serde::{Deserialize, Serialize};

use super::{Bytes, SCHEMA};
use crate::error::Failure;

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct WireHost {
    schema: u32,
    environment: Vec<(Bytes, Bytes)>,
    cwd: Bytes,
    homes: Vec<Bytes>,
    paths: Vec<(Bytes, WirePath)>,
    git: Vec<(Bytes, WireGit)>,
    git_runs: Vec<(Bytes, Vec<WireRun>)>,
    mounts: Vec<(Bytes, String)>,
    kernel: String,
    policies: Vec<WirePolicy>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum WirePath {
    Missing,
    Directory,
    File,
    Link(Bytes),
    Special,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WireGit {
    git_dir: Bytes,
    common_dir: Bytes,
    vouched: bool,
}

/// What git executes or reads because of a setting.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WireRun {
    setting: String,
    named: WireNamed,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum WireNamed {
    At(Bytes),
    InEachWorkTree(Bytes),
    Unknown(String),
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WirePolicy {
    level: WireLevel,
    extended: bool,
    path: Bytes,
    text: String,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum WireLevel {
    Managed,
    User,
    Project,
    UntrustedProject,
    Explicit,
}

impl WireHost {
    pub(crate) fn new(facts: &HostFacts, inputs: &Inputs) -> Self {
        let path = |path: &AbsPath| Bytes::new(path.as_bytes());
        Self {
            schema: SCHEMA,
            environment: facts.environment.iter().map(|(k, v)| (Bytes::new(k), Bytes::new(v))).collect(),
            cwd: path(&facts.cwd),
            homes: facts.homes.iter().map(path).collect(),
            paths: facts.paths.iter().map(|(p, fact)| (path(p), wire_path(fact))).collect(),
            git: facts
                .git
                .iter()
                .map(|(p, g)| {
                    (
                        path(p),
                        WireGit { git_dir: path(&g.git_dir), common_dir: path(&g.common_dir), vouched: g.vouched },
                    )
                })
                .collect(),
            git_runs: facts
                .git_runs
                .iter()
                .map(|(dir, runs)| (path(dir), runs.iter().map(wire_run).collect()))
                .collect(),
            mounts: facts.mounts.iter().map(|m| (path(&m.target), m.kind.clone())).collect(),
            kernel: facts.kernel.clone(),
            policies: inputs.layers.iter().map(wire_policy).collect(),
        }
    }

    /// Reads a host from JSON text.
    pub(crate) fn read(bytes: &[u8]) -> Result<(HostFacts, Vec<Layer>), ReadError> {
        let wire: Self = serde_json::from_slice(bytes)?;
        if wire.schema != SCHEMA {
            let message = format!("schema {} is not {SCHEMA}", wire.schema);
            return Err(serde_json::Error::custom(message).into());
        }
        let mut layers = Vec::new();
        for policy in wire.policies {
            layers.push(policy.into_layer()?);
        }
        let facts = HostFacts {
            environment: pairs(wire.environment, |key, value| Ok((bytes_of(key)?, bytes_of(value)?)))?,
            cwd: path_of(wire.cwd)?,
            homes: wire.homes.into_iter().map(path_of).collect::<Result<_, _>>()?,
            paths: pairs(wire.paths, |path, fact| Ok((path_of(path)?, path_fact(fact)?)))?,
            git: pairs(wire.git, |path, git| {
                let (git_dir, common_dir) = (path_of(git.git_dir)?, path_of(git.common_dir)?);
                Ok((path_of(path)?, GitFact { git_dir, common_dir, vouched: git.vouched }))
            })?,
            git_runs: pairs(wire.git_runs, |dir, runs| {
                Ok((path_of(dir)?, runs.into_iter().map(git_run).collect::<Result<_, _>>()?))
            })?,
            mounts: wire
                .mounts
                .into_iter()
                .map(|(target, kind)| Ok(MountFact { target: path_of(target)?, kind }))
                .collect::<Result<_, serde_json::Error>>()?,
            kernel: wire.kernel,
            session: None,
        };
        Ok((facts, layers))
    }
}

/// Why a file does not describe a host.
pub(crate) enum ReadError {
    Json(serde_json::Error),
    Policy(Failure),
}

impl From<serde_json::Error> for ReadError {
    fn from(error: serde_json::Error) -> Self {
        Self::Json(error)
    }
}

impl ReadError {
    pub(crate) fn into_failure(self, path: &Path) -> Failure {
        match self {
            Self::Json(source) => Failure::Facts { path: path.into(), source },
            Self::Policy(failure) => failure,
        }
    }
}

fn pairs<A, B, K: Ord, V>(
    pairs: Vec<(A, B)>,
    read: impl Fn(A, B) -> Result<(K, V), serde_json::Error>,
) -> Result<BTreeMap<K, V>, serde_json::Error> {
    pairs.into_iter().map(|(a, b)| read(a, b)).collect()
}

fn bytes_of(bytes: Bytes) -> Result<Vec<u8>, serde_json::Error> {
    bytes.into_bytes().ok_or_else(|| serde_json::Error::custom("not hexadecimal digits"))
}

fn path_of(bytes: Bytes) -> Result<AbsPath, serde_json::Error> {
    AbsPath::lexical(&bytes_of(bytes)?).map_err(serde_json::Error::custom)
}

fn wire_run(run: &GitRun) -> WireRun {
    let named = match &run.named {
        GitNamed::At(path) => WireNamed::At(Bytes::new(path.as_bytes())),
        GitNamed::InEachWorkTree(path) => WireNamed::InEachWorkTree(Bytes::new(path)),
        GitNamed::Unknown(why) => WireNamed::Unknown(why.clone()),
    };
    WireRun { setting: run.setting.clone(), named }
}

fn git_run(wire: WireRun) -> Result<GitRun, serde_json::Error> {
    let named = match wire.named {
        WireNamed::At(path) => GitNamed::At(path_of(path)?),
        WireNamed::InEachWorkTree(path) => GitNamed::InEachWorkTree(bytes_of(path)?),
        WireNamed::Unknown(why) => GitNamed::Unknown(why),
    };
    Ok(GitRun { named, setting: wire.setting })
}

fn wire_path(fact: &PathFact) -> WirePath {
    match fact {
        PathFact::Missing => WirePath::Missing,
        PathFact::Directory => WirePath::Directory,
        PathFact::File => WirePath::File,
        PathFact::Link(target) => WirePath::Link(Bytes::new(target)),
        PathFact::Special => WirePath::Special,
    }
}

fn path_fact(wire: WirePath) -> Result<PathFact, serde_json::Error> {
    Ok(match wire {
        WirePath::Missing => PathFact::Missing,
        WirePath::Directory => PathFact::Directory,
        WirePath::File => PathFact::File,
        WirePath::Link(target) => PathFact::Link(bytes_of(target)?),
        WirePath::Special => PathFact::Special,
    })
}

fn wire_policy(layer: &Layer) -> WirePolicy {
    WirePolicy {
        level: match layer.level {
            Level::Managed => WireLevel::Managed,
            Level::User => WireLevel::User,
            Level::Project(Trust::Trusted) => WireLevel::Project,
            Level::Project(Trust::Untrusted) => WireLevel::UntrustedProject,
            Level::Explicit => WireLevel::Explicit,
        },
        extended: layer.via == Via::Extends,
        path: Bytes::new(layer.path.as_bytes()),
        text: layer.text.text.clone(),
    }
}

impl WirePolicy {
    fn into_layer(self) -> Result<Layer, ReadError> {
        let path = path_of(self.path)?;
        let policy = |said| ReadError::Policy(Failure::Policy { said });
        let text = PolicyText::new(path.as_bytes(), self.text.into_bytes()).map_err(|said| policy(vec![said]))?;
        let file = PolicyFile::parse(&text).map_err(policy)?;
        let level = match self.level {
            WireLevel::Managed => Level::Managed,
            WireLevel::User => Level::User,
            WireLevel::Project => Level::Project(Trust::Trusted),
            WireLevel::UntrustedProject => Level::Project(Trust::Untrusted),
            WireLevel::Explicit => Level::Explicit,
        };
        let via = if self.extended { Via::Extends } else { Via::Itself };
        Ok(Layer { level, via, file, text, path })
    }
}
