//! A plan becomes a running agent.

#![forbid(unsafe_code)]
#![cfg(target_os = "linux")]

mod beneath;
mod environment;
mod home;
mod idmap;
pub mod jail;
pub mod native;
mod seed;
pub mod shortfalls;
mod standard;
pub mod start;
pub mod terminal;
mod view;
pub mod walk;
