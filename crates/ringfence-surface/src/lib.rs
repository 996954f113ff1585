//! What a spawned agent may touch: policy text, resolved once into a [`Surface`] that answers every question.
//!
//! Pure: nothing here opens a file, reads the environment or starts a process. A host is described by [`HostFacts`].
//!
//! ```text
//! text ─parse→ PolicyFile ─resolve(HostFacts)→ Surface ─decide→ Verdict
//!                                               └─tighten(SubPolicy)→ Surface
//! ```
//!
//! ```
//! use std::collections::BTreeMap;
//!
//! use ringfence_surface::policy::PolicyFile;
//! use ringfence_surface::text::PolicyText;
//! use ringfence_surface::{
//!     AbsPath, Access, HostFacts, HostTarget, Inputs, Layer, Level, PathFact, Request, Trust, Via, resolve,
//! };
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let at = |path: &str| AbsPath::lexical(path.as_bytes());
//! let policy = "version = 1\n[files]\ndeny = [\"**/.env\"]\n[network]\nallow = [\"example.com\"]\n";
//!
//! // What was typed, and a host with one project on it.
//! let text = PolicyText::new(b"ringfence.toml", policy.into()).expect("it is UTF-8");
//! let file = PolicyFile::parse(&text).expect("nothing in it is wrong");
//! let facts = HostFacts {
//!     environment: [(b"HOME".to_vec(), b"/home/u".to_vec())].into(),
//!     cwd: at("/home/u/proj")?,
//!     homes: vec![at("/home/u")?],
//!     paths: [(at("/home/u")?, PathFact::Directory), (at("/home/u/proj")?, PathFact::Directory)].into(),
//!     git: BTreeMap::new(),
//!     git_runs: BTreeMap::new(),
//!     mounts: Vec::new(),
//!     kernel: "6.18".into(),
//!     session: None,
//! };
//! let project = Level::Project(Trust::Trusted);
//! let path = at("/home/u/proj/ringfence.toml")?;
//! let inputs = Inputs {
//!     layers: vec![Layer { level: project, via: Via::Itself, file, text, path }],
//!     request: Request {
//!         persona: None,
//!         task: None,
//!         agent: None,
//!         references: Vec::new(),
//!         writes: Vec::new(),
//!         env: Vec::new(),
//!         worktree: None,
//!     },
//! };
//! let surface = resolve(&inputs, &facts, &mut &facts).expect("the policy can be used here").surface;
//!
//! // Every question has an answer and a reason.
//! assert!(surface.decide(&at("/home/u/proj/src/main.rs")?, Access::Write).is_allowed());
//! let verdict = surface.decide(&at("/home/u/proj/.env")?, Access::Read);
//! assert!(!verdict.is_allowed());
//! assert_eq!(verdict.because.to_string(), "deny \"**/.env\"");
//! assert!(!surface.decide(&at("/home/u/.ssh/id_ed25519")?, Access::Read).is_allowed());
//! assert!(surface.decide_host(&HostTarget::new("example.com", 443)?).is_some());
//! assert!(surface.decide_host(&HostTarget::new("example.net", 443)?).is_none());
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

mod agent;
pub mod command;
pub mod curated;
mod cursor;
mod decide;
mod edges;
mod facts;
mod given;
mod glob;
mod host;
pub mod learn;
mod matcher;
mod path;
mod pattern;
pub mod policy;
mod relative;
mod report;
mod resolve;
mod source;
mod spelling;
mod surface;
mod template;
pub mod text;
mod tighten;

pub use agent::{AgentChoice, Client, ContainerChoice, ContainerMountChoice, Provider};
pub use cursor::{Cursor, Standing};
pub use decide::{Access, Because, Outcome, Verdict};
pub use facts::{Followed, GitFact, GitNamed, GitRun, HostFacts, Look, MountFact, OwnDirectories, PathFact, follow};
pub use given::{NotGiven, Way};
pub use glob::{Glob, GlobError, GlobToken};
pub use host::{HostError, HostPattern, HostShape, HostTarget};
pub use path::{AbsPath, PATH_MAX, PathError, Shown, Word};
pub use pattern::{Anchor, PathRule, Pattern, RuleError, Segment};
pub use relative::{GlobFault, GlobListError, Literal, Progress, RelativeGlob, WritableGlobs};
pub use report::{Dropped, Omission};
pub use resolve::{Inputs, Layer, Level, Request, Resolved, TaskChoice, Trust, Via, Worktree, pool_of, resolve};
pub use source::Source;
pub use spelling::{FoldedSurface, folded_name};
pub use surface::{Caps, Effect, Governance, Injection, Parts, Reach, Role, RootKind, Rule, Sense, Sourced, Surface};
pub use template::{PATH_VARIABLES, SOCKET_VARIABLES, TemplateError, TemplateKind};
pub use tighten::{SubPolicy, Widens};
