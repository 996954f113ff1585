//! Files without races, and the environment that an agent's tools run in.
//!
//! An orchestrator carries out what an agent asks for: read this, write that, run this. The agent may have chosen the path, and
//! may be changing the tree at the same moment. [`Root`] holds files beneath a directory by the kernel's own resolution;
//! [`Environment`] is what the tools of an orchestrator are written against, and [`LocalEnvironment`] is this machine.
//!
//! ```
//! # #[cfg(target_os = "linux")]
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use std::path::Path;
//!
//! use ringfence_fs::{Environment as _, FileError, LocalEnvironment, Root, Writable};
//!
//! # let dir = tempfile::tempdir()?;
//! # let project = dir.path();
//! let root = Root::open(project, Writable::globs(["src/**"])?)?;
//! let files = LocalEnvironment::new(root);
//! files.write(Path::new("src/lib.rs"), b"")?;
//! let refused = files.write(Path::new("../other"), b"").unwrap_err();
//! assert!(matches!(refused, FileError::PathEscape { .. }));
//! # Ok(())
//! # }
//! # #[cfg(not(target_os = "linux"))]
//! # fn main() {}
//! ```
//!
//! Nothing here decides what a whole session may touch, and nothing here is a sandbox: a command that is not fenced can do what
//! its user can. Paths are checked beside a fence, not instead of one.
//!
//! On systems other than Linux everything builds, and [`Root::open`] refuses.

#![forbid(unsafe_code)]

mod environment;
mod error;
mod exec;
mod local;
#[cfg_attr(not(any(test, target_os = "linux")), expect(dead_code, reason = "there is no root to walk from"))]
mod path;
#[cfg_attr(not(target_os = "linux"), path = "elsewhere/process.rs")]
mod process;
#[cfg_attr(not(target_os = "linux"), path = "elsewhere/root.rs")]
mod root;
mod search;
mod tail;
mod temporary;
#[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "there is no root to rename in"))]
mod writable;

pub use environment::Environment;
pub use error::{Escape, ExecError, FileError, FileKind, Operation, RootError};
pub use exec::{Captured, Exec, Executed, Outcome, USUAL_KEEP};
pub use local::LocalEnvironment;
pub use ringfence_surface::{GlobFault, GlobListError};
pub use root::Root;
pub use search::{Entry, Found, Part};
pub use tail::Tail;
pub use temporary::RecordNames;
pub use writable::Writable;

/// What other systems get, built and tested on every one.
#[cfg(all(test, target_os = "linux"))]
#[expect(dead_code, unreachable_pub, reason = "here only its tests use it")]
mod elsewhere {
    mod process;
    mod root;
}
