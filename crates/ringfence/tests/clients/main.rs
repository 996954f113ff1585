//! The real clients, as people install them, and a model that asks for what it must not have.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test that cannot set up has failed")]

mod around;
mod client;
mod deeds;
mod dialect;
mod ground;
mod hooks;
mod kernel;
mod model;
#[path = "../work/screen.rs"]
mod screen;
mod terminal;
