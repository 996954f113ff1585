//! `cargo xtask dist`: the program as it is handed out: one file that needs no library of the host.
//!
//! Without libraries to find and join it starts in half the time, and it runs on hosts with another C library.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use crate::say;
use crate::steps::{Failure, cargo, must_succeed};

/// Builds it, and says where it is.
pub(crate) fn run(root: &Path) -> ExitCode {
    match build(root) {
        Ok(program) => {
            say::result(program.display().to_string());
            ExitCode::SUCCESS
        }
        Err(failure) => {
            say::progress(format!("xtask dist: FAILED: {failure}"));
            ExitCode::FAILURE
        }
    }
}

/// No library of the host.
const STATIC: &str = "-C target-feature=+crt-static";

/// Addresses that depend on where the program is loaded, as a bitmap: the list of them would be a sixth of what a start reads.
const SHORT_RELOCATIONS: &str = "-C link-arg=-Wl,-z,pack-relative-relocs";

/// Builds it. Needs the static C library, which comes with the compiler's own headers on Debian and by itself elsewhere.
pub(crate) fn build(root: &Path) -> Result<PathBuf, Failure> {
    let triple = host()?;
    let flags = [std::env::var("RUSTFLAGS").unwrap_or_default().as_str(), STATIC, SHORT_RELOCATIONS].join(" ");
    // Where a target is named, the flags do not reach what runs while building, which must be able to load libraries.
    let arguments = ["build", "--release", "-p", "ringfence", "--target", &triple];
    must_succeed(cargo(root, &arguments).env("RUSTFLAGS", flags.trim()))?;
    Ok(target_directory(root).join(triple).join("release/ringfence"))
}

/// Where cargo builds.
pub(crate) fn target_directory(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from)
}

/// The machine that we are on, as the compiler names it.
fn host() -> Result<String, Failure> {
    let output = Command::new("rustc").arg("-vV").output();
    let output = output.map_err(|cause| Failure::Start { command: "rustc -vV".to_owned(), cause })?;
    let text = String::from_utf8(output.stdout).unwrap_or_default();
    host_in(&text).ok_or_else(|| Failure::Found("`rustc -vV` does not say which host this is".to_owned()))
}

fn host_in(text: &str) -> Option<String> {
    text.lines().find_map(|line| line.strip_prefix("host: ")).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_is_read() {
        let text = "rustc 1.95.0\nbinary: rustc\nhost: aarch64-unknown-linux-gnu\nrelease: 1.95.0\n";
        assert_eq!(host_in(text).as_deref(), Some("aarch64-unknown-linux-gnu"));
        assert_eq!(host_in("rustc 1.95.0\n"), None);
    }
}
