//! Faults: system calls of a start that fail, and processes of a session that are killed. The outcome is a refusal with a message, or a
//! session that holds; and nothing is left.
//!
//! A sample is tried in every build, another one each day: `RINGFENCE_FAULTS_SEED` chooses it. `cargo xtask faults` tries all of them, and as many
//! kills as it is asked for.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test that cannot set up has failed")]
#![expect(clippy::print_stdout, reason = "the seed, and how far a long run is")]

mod calls;
mod chance;
mod ground;
mod kills;
mod reports;
mod surroundings;
