//! Calls from a process that holds one session and makes many, from several threads.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test that cannot set up has failed")]

mod environment;
mod many;
mod world;
