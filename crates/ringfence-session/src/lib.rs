//! A plan becomes a running agent.

#![forbid(unsafe_code)]
#![cfg(target_os = "linux")]

mod account;
pub mod agent;
mod aliases;
pub mod alive;
mod arguments;
pub mod audit;
mod beneath;
pub mod broker;
mod bwrap;
mod bytes;
pub mod call;
pub mod capture;
mod cgroup;
mod descendants;
pub mod desk;
pub mod doctor;
mod doors;
mod environment;
pub mod fenced;
mod first;
pub mod give;
pub mod given;
pub mod governed;
mod hold;
mod home;
mod identity;
mod idmap;
pub mod inside;
pub mod jail;
pub mod launch;
mod links;
mod live;
pub mod look;
mod named;
mod payload;
mod place;
pub mod probe;
pub mod record;
mod remove;
mod script;
mod secrets;
mod seed;
mod standard;
pub mod start;
mod steps;
pub mod store;
pub mod terminal;
pub mod text;
pub mod verdicts;
mod view;
pub mod violations;
mod visible;
pub mod walk;
mod wall;
pub mod ways;

pub use environment::names_socket;
