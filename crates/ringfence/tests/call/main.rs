//! Single calls within a session: tighter than the session, for real, from outside it and from inside.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test that cannot set up has failed")]

mod asked;
mod attacks;
mod ends;
mod ground;
mod network;
mod tighter;
mod tools;
