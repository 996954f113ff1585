//! What a spawned agent may touch: policy text, resolved once into a [`Surface`] that answers every question.
//!
//! Pure: nothing here opens a file, reads the environment or starts a process. A host is described by [`HostFacts`].
//!
//! ```text
//! text ─parse→ PolicyFile ─resolve(HostFacts)→ Surface ─decide→ Verdict
//!                                               └─tighten(SubPolicy)→ Surface
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
mod surface;
mod template;
pub mod text;
mod tighten;

pub use agent::{AgentChoice, Client, ContainerChoice, ContainerMountChoice, Provider};
pub use cursor::{Cursor, Standing};
pub use decide::{Access, Because, Outcome, Verdict};
pub use facts::{Followed, GitFact, HostFacts, Look, MountFact, OwnDirectories, PathFact, follow};
pub use given::{NotGiven, Way};
pub use glob::{Glob, GlobError, GlobToken};
pub use host::{HostError, HostPattern, HostShape, HostTarget};
pub use path::{AbsPath, PATH_MAX, PathError, Shown};
pub use pattern::{Anchor, PathRule, Pattern, RuleError, Segment};
pub use relative::{GlobFault, GlobListError, Literal, Progress, RelativeGlob, WritableGlobs};
pub use report::{Dropped, Omission};
pub use resolve::{Inputs, Layer, Level, Request, Resolved, TaskChoice, Trust, Via, Worktree, pool_of, resolve};
pub use source::Source;
pub use surface::{Caps, Effect, Governance, Injection, Parts, Reach, Role, RootName, Rule, Sense, Sourced, Surface};
pub use template::{PATH_VARIABLES, SOCKET_VARIABLES, TemplateError, TemplateKind};
pub use tighten::{SubPolicy, Widens};
