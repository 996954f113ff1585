//! What a hostile command tries from inside, one sentence for each claim, in every way to build the fence.
//!
//! A row names the line of the receipt that it belongs to. Where the receipt says that the line holds, the attack must fail; where
//! it says that it does not, the attack must succeed, so that a receipt is neither too bright nor too dark. Success is judged
//! outside. Every attack is also run without a fence and must succeed there: one that never works shows nothing.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test that cannot set up has failed")]

mod denied;
mod descriptors;
mod environment;
mod files;
mod git;
mod ground;
mod kernel;
mod namespaces;
mod network;
mod proc;
mod processes;
mod protected;
mod row;
mod sockets;
mod suite;
mod tree;
