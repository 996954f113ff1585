//! What `ringfence --version --verbose` prints: where the program comes from and how it was compiled.

#![forbid(unsafe_code)]

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Cargo calls the profile `dev` so, and the directory of what it builds.
const DEBUG: &str = "debug";

fn main() {
    let mut orders = vec!["rerun-if-changed=build.rs".to_owned(), format!("rerun-if-env-changed={COMMIT}")];
    let profile = profile();
    let commit = commit(&profile, &mut orders);
    let mut set = |name: &str, value: &str| orders.push(format!("rustc-env=RINGFENCE_BUILT_{name}={value}"));
    set("COMMIT", &commit);
    set("PROFILE", if profile == DEBUG { "dev" } else { &profile });
    set("TARGET", &variable("TARGET"));
    let is_static = variable("CARGO_CFG_TARGET_FEATURE").split(',').any(|feature| feature == "crt-static");
    set("LINKED", if is_static { "statically" } else { "dynamically" });
    set("FEATURES", &features());
    let mut stdout = std::io::stdout().lock();
    for order in orders {
        // Cargo reads this to its end; without it the program would not compile, which says enough.
        let _ = writeln!(stdout, "cargo:{order}");
    }
}

fn variable(name: &str) -> String {
    std::env::var_os(name).and_then(|value| value.into_string().ok()).unwrap_or_default()
}

/// The directory that cargo builds in is named after the profile: `PROFILE` itself knows `debug` and `release` only.
fn profile() -> String {
    let out = PathBuf::from(variable("OUT_DIR"));
    let name = out.ancestors().nth(3).and_then(Path::file_name).and_then(|name| name.to_str());
    name.map_or_else(|| variable("PROFILE"), str::to_owned)
}

/// The enabled features of this crate, as cargo spells them in variables.
fn features() -> String {
    let name = |key: std::ffi::OsString| Some(key.to_str()?.strip_prefix("CARGO_FEATURE_")?.to_lowercase());
    let mut names: Vec<String> = std::env::vars_os().filter_map(|(key, _)| name(key)).collect();
    names.sort();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

/// Names the commit where the source is no checkout.
const COMMIT: &str = "RINGFENCE_COMMIT";

/// The commit that this is built from. Debug builds do not ask for it: they would be made anew after each commit.
fn commit(profile: &str, orders: &mut Vec<String>) -> String {
    let named = variable(COMMIT);
    if !named.is_empty() && named.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return named;
    }
    if profile == DEBUG {
        return "not recorded in debug builds".to_owned();
    }
    packaged().or_else(|| checked_out(orders)).unwrap_or_else(|| "unknown".to_owned())
}

/// What `cargo package` writes beside the manifest.
fn packaged() -> Option<String> {
    let text = std::fs::read_to_string(".cargo_vcs_info.json").ok()?;
    let hash = text.split("\"sha1\": \"").nth(1)?.split('"').next()?;
    Some(hash.to_owned())
}

/// The checkout's commit, if this directory is where ringfence's own repository has it.
fn checked_out(orders: &mut Vec<String>) -> Option<String> {
    // A copy of the crate in another repository would name that one's commit.
    if git(&["rev-parse", "--show-prefix"])? != "crates/ringfence/" {
        return None;
    }
    let log = git(&["rev-parse", "--git-path", "logs/HEAD"])?;
    if Path::new(&log).exists() {
        orders.push(format!("rerun-if-changed={log}"));
    }
    git(&["rev-parse", "HEAD"])
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim_end().to_owned())
}
