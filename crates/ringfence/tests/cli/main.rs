//! The real binary in a hermetic world: what a user types, what comes back, with which exit code.

mod bad_input;
mod check;
#[cfg(target_os = "linux")]
mod doctor;
mod explain;
#[cfg(target_os = "linux")]
mod hook;
mod init;
#[cfg(target_os = "linux")]
mod jail_exec;
#[cfg(target_os = "linux")]
mod library;
#[cfg(target_os = "linux")]
mod picture;
mod plan;
mod policy_files;
mod run;
#[cfg(target_os = "linux")]
#[path = "../work/screen.rs"]
#[expect(clippy::unwrap_used, reason = "a test that cannot set up has failed")]
mod screen;
mod shell;
mod small;
mod tools;
#[cfg(target_os = "linux")]
mod tour;
mod trust;
#[cfg(target_os = "linux")]
mod verify;
#[cfg(target_os = "linux")]
mod view;

use ringfence_testkit::World;

fn world() -> World {
    World::new(env!("CARGO_BIN_EXE_ringfence"))
}
