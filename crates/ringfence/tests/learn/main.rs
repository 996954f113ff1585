//! `ringfence learn` with real programs: what it proposes is enough, has no line too many, and nothing that it shows or writes on
//! the way is more than that.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test that cannot set up has failed")]

mod hostile;
mod lessons;
mod place;
mod proof;
mod shrink;
