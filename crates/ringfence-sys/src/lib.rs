//! Where we ask the kernel: one file for each facility, under the kernel's own names.
//!
//! The only crate with `unsafe`. Nothing here decides anything; every function is one call or one short script of calls,
//! and returns what the kernel said.

#![cfg(target_os = "linux")]
#![expect(unsafe_code, reason = "the one crate that may: every block says why it is sound")]
#![deny(unsafe_op_in_unsafe_fn)]

pub mod bpf;
mod descriptors;
pub mod landlock;
pub mod lease;
pub mod memory;
pub mod mount;
pub mod net;
pub mod notify;
pub mod ns;
pub mod process;
pub mod pty;
pub mod seccomp;
pub mod shared;
