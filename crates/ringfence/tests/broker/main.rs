//! The broker: names that do not exist yet cannot be made inside, whatever is changed while a call is carried out, and
//! everything else is as it is without it.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test that cannot set up has failed")]

mod beside;
mod clones;
mod descriptors;
#[expect(dead_code, reason = "what the tables of ordinary work need besides")]
#[path = "../work/desk.rs"]
mod desk;
mod gains;
mod globs;
mod kept;
#[expect(dead_code, reason = "the same")]
#[path = "../work/lacks.rs"]
mod lacks;
mod names;
mod repositories;
mod same;
mod scheduling;
mod sent;
mod sockets;
mod switching;
mod traps;
mod waits;
mod without;
