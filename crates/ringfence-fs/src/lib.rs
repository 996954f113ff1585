//! Files without races, and the environment that an agent's tools run in.
//!
//! An orchestrator carries out what an agent asks for: read this, write that, run this. The agent may have chosen the path, and
//! may be changing the tree at the same moment. [`Environment`] is what the tools of an orchestrator are written against.
//!
//! Nothing here decides what a whole session may touch, and nothing here is a sandbox: a command that is not fenced can do what
//! its user can.

#![forbid(unsafe_code)]

mod environment;
mod error;
mod exec;
mod search;

pub use environment::Environment;
pub use error::{Escape, ExecError, FileError, FileKind, Operation};
pub use exec::{Captured, Exec, Executed, Outcome, USUAL_KEEP};
pub use search::{Entry, Found};
