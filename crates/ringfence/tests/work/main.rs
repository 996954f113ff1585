//! Ordinary work inside `ringfence run`: what a developer does all day must just work, as root and as an ordinary user.
//!
//! Every action is one sentence. Those of a list share one session, in the order in which they stand. All of it is done in the native
//! fence, in containers of Docker and of Podman (with root's rights and with a user's), and in a root: `table` says what a root lacks.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test that cannot set up has failed")]

mod desk;
mod editors;
mod git;
mod go;
mod lacks;
mod node;
mod processes;
mod python;
mod read_only;
mod rust;
mod screen;
mod served;
mod session;
mod shell;
mod table;
