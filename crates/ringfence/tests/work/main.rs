//! Ordinary work inside `ringfence run`: what a developer does all day must just work, as root and as an ordinary user.
//!
//! Every action is one sentence. Those of a table share one session, in the order in which they stand.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test that cannot set up has failed")]

mod desk;
mod editors;
mod git;
mod go;
mod node;
mod processes;
mod python;
mod read_only;
mod rust;
mod screen;
mod served;
mod session;
mod shell;
