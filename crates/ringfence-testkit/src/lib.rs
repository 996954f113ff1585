//! What tests need and no product does: a world of their own to run the real program in, and the bodies of the fuzz targets.
//!
//! Nothing that is shipped depends on this crate. A mistake here is a failed test, so it panics with a reason rather than
//! returning errors that every test would unwrap.

#![forbid(unsafe_code)]

mod engines;
pub mod fuzz;
mod skip;
mod world;

pub use engines::{Starter, VARIABLE as ENGINES, engines};
pub use skip::{VARIABLE as SKIPS, report_skip};
pub use world::{Call, Run, World};
