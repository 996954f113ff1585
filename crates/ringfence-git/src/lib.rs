//! A model of git: what the files of a repository mean to the git that the user runs later, outside the sandbox.
//!
//! An agent that can write below a git directory can make that git execute a program (`core.fsmonitor`, a hook, an `exec` line of a
//! rebase), contact a host (a promisor remote), or write somewhere else (a symbolic link, `core.worktree`). This crate says for each
//! file of a git directory what it may hold, and judges content. It reads no file: the caller passes bytes in, so the broker, the
//! review and the report at the end of a session decide alike.

#![forbid(unsafe_code)]

pub mod address;
pub mod command_line;
pub mod config;
pub mod entry_mode;
pub mod entry_path;
pub mod grammar;
pub mod history;
pub mod index;
mod inflate;
pub mod layout;
pub mod mentions;
pub mod object;
pub mod object_id;
pub mod pack;
pub mod ref_name;
pub mod replacement;
pub mod settings;
