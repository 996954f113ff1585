//! The way out, with real programs that know nothing of it: hosts that the policy names are reached, and nobody else.
//!
//! The tests build a little internet of network namespaces; nothing leaves the machine. What must fail inside is first
//! tried on the host, where it must work: an attack that never works shows nothing.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test that cannot set up has failed")]

mod bypass;
mod clients;
mod closed;
mod containers;
mod dialled;
mod grants;
mod hostile;
mod internet;
mod learn;
mod own;
mod soak;
mod ssh;
