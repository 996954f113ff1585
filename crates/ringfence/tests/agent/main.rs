//! `ringfence run --agent` with programs that stand in for the clients: what each of them finds, what it cannot change, and what
//! is left when it has ended.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test that cannot set up has failed")]

mod desk;
mod governed;
mod history;
mod settings;
mod sign_in;
