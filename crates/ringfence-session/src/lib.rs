//! A plan becomes a running agent.

#![forbid(unsafe_code)]
#![cfg(target_os = "linux")]

pub mod doctor;
mod environment;
mod idmap;
pub mod jail;
pub mod native;
pub mod probe;
pub mod shortfalls;
mod standard;
pub mod start;
pub mod terminal;
mod view;
pub mod walk;
