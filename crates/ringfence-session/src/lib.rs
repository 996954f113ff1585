//! A plan becomes a running agent.
//!
//! [`start::prepare`] lays everything out: what is shown, what in it is guarded, the walls behind it, and a receipt of what holds.
//! [`launch::Prepared::run`] starts the command and waits for its end. Meanwhile the [`desk`] answers whoever wants to know or to
//! change something of the session, the [`broker`] carries out what its command writes, and the [`audit`] keeps what happened.
//! [`probe`] and [`doctor`] find out what a host can enforce.
//!
//! For a program that runs an agent's tools itself, [`fenced::FencedEnvironment`] is the way in: each command gets a fence of its
//! own, never wider than that of its session.
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use ringfence_fs::{Environment as _, Exec};
//! use ringfence_session::fenced::FencedEnvironment;
//! use ringfence_surface::SubPolicy;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // A session that `ringfence run` has started, by its name or how that begins.
//! let tools = FencedEnvironment::in_session("k7m2", |session| SubPolicy::for_tools(session).without_network())?;
//! let tests = tools.exec(&Exec::new("cargo", Duration::from_secs(300)).arg("test").keep(64 << 10))?;
//! assert!(tests.outcome.is_success());
//! # Ok(())
//! # }
//! ```
//!
//! On systems other than Linux the crate is empty.

#![forbid(unsafe_code)]
#![cfg(target_os = "linux")]

mod account;
pub mod agent;
mod aliases;
pub mod alive;
pub mod approvals;
mod arguments;
pub mod audit;
mod beneath;
mod beside;
pub mod broker;
mod bwrap;
mod bytes;
pub mod call;
pub mod called;
pub mod capture;
mod cgroup;
mod clones;
pub mod container;
mod descendants;
pub mod desk;
pub mod doctor;
mod doors;
mod environment;
pub mod fenced;
mod first;
mod folded;
mod git_files;
pub mod git_gains;
pub mod give;
pub mod given;
mod globs;
pub mod governed;
mod hard_links;
mod hold;
mod home;
mod identity;
mod idmap;
pub mod inside;
pub mod jail;
mod keeper;
mod landing;
mod late;
pub mod launch;
mod layer;
pub mod learned;
mod links;
mod live;
pub mod look;
mod named;
mod payload;
mod place;
pub mod probe;
pub mod record;
mod remove;
mod repository;
pub mod review;
pub mod rooted;
pub mod roots;
mod script;
mod secrets;
mod seed;
mod sparse;
mod stand_ins;
pub mod start;
mod steps;
pub mod store;
mod streams;
mod sufficient;
pub mod temporary;
pub mod terminal;
pub mod text;
mod used_paths;
pub mod verdicts;
pub mod verify;
mod view;
pub mod violations;
mod visible;
pub mod walk;
mod wall;
pub mod ways;
pub mod worktree;

pub use environment::names_socket;
pub use ringfence_sys::memory::keep_heap;
pub use ringfence_sys::process::{adopt_own_signals, adopt_own_umask, getrlimit, restore_callers_umask};
