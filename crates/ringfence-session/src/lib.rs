//! A plan becomes a running agent. What stands here so far: the jail of one command, by Landlock alone.

#![forbid(unsafe_code)]
#![cfg(target_os = "linux")]

pub mod jail;
pub mod walk;
