//! `ringfence run --review`, `diff`, `apply` and `discard`: nothing lands before somebody says so, and then exactly what was written.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test that cannot set up has failed")]

mod changes;
mod faults;
mod guards;
#[path = "../learn/place.rs"]
mod place;
mod waiting;
mod work;
