//! What this host can enforce, found out by doing it on nothing.
//!
//! A version number is no promise: a distribution may carry a feature earlier or switch it off, and some hosts permit the first
//! call and refuse a later one. So each probe makes the calls that a session would make, in a process of its own where they
//! leave something behind. When a probe has returned, everything is as before.
//!
//! The probes that fork need a process with one thread, as starting a session does.

mod attempt;
pub(crate) mod bwrap;
mod cause;
pub mod cgroup;
mod features;
mod native;
mod program;
mod signs;

pub use bwrap::{Bwrap, NoBwrap, bwrap, bwrap_in};
pub use cause::Cause;
pub use cgroup::Cgroup;
pub(crate) use features::is_no_answer;
pub use features::{
    Engine, Landlock, Seccomp, close_range, engines, gateway, idmap, landlock, openat2_beneath, overlay, pidfd, pty,
    seccomp,
};
pub use native::{Blocked, Step, native};
pub use program::{SYSTEM_DIRECTORIES, system_program};
pub(crate) use program::{is_trusted, run_command};
pub use signs::{Caller, Signs, Surroundings};
