//! A plan becomes a running agent.

#![forbid(unsafe_code)]
#![cfg(target_os = "linux")]

mod environment;
mod idmap;
pub mod jail;
pub mod native;
pub mod shortfalls;
mod standard;
pub mod start;
pub mod store;
pub mod terminal;
mod view;
pub mod walk;
