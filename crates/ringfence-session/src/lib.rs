//! A plan becomes a running agent.

#![forbid(unsafe_code)]
#![cfg(target_os = "linux")]

mod aliases;
mod environment;
mod idmap;
pub mod jail;
mod named;
pub mod native;
mod place;
mod remove;
mod script;
pub mod shortfalls;
mod standard;
pub mod start;
pub mod terminal;
mod view;
mod visible;
pub mod walk;
