//! What proving a policy costs: every rule tried in every layer that the machine has.

use std::fs;
use std::process::Stdio;

use serde_json::Value;

use super::bars::{Bars, table};
use super::ground::{Ground, failed};
use crate::say;
use crate::steps::Failure;

/// The most that all layers together may take, in seconds.
const BAR: f64 = 30.0;

/// Fifty rules as a project of some size has them, beside those that every policy has.
const POLICY: &str = r#"version = 1
extends = ["rust", "node"]

[files]
write = [".", "../shared-types", "../api/src"]
read = ["../docs", "../api", "../datasets/small", "../contracts", "../design", "/opt/tools", "/srv/reference"]
deny = [
  "**/.env", "**/.env.*", "!**/.env.example", "secrets", "**/*.pem", "**/*.key", "**/*.p12", "**/id_rsa*",
  "**/credentials.json", "**/service-account*.json", "db/dumps/**", "**/*.sqlite3", "infra/prod",
  "**/terraform.tfstate", "**/terraform.tfvars", "../api/.secrets", "~/.config/company", "**/.vault-token",
  "customers/**/*.csv", "**/*.kdbx",
]
protect = [
  "infra/**", "db/migrations/**", "vendor/**", "**/CODEOWNERS", "**/Makefile", "**/Dockerfile*", "**/*.lock",
  "rust-toolchain.toml", "LICENSE", "**/generated/**", "docs/adr/**", "ci/**", "**/build.rs", "api/openapi.yaml",
]

[network]
allow = ["github", "crates", "npm", "api.example.com:443"]
host_ports = [5432, 6379]
"#;

/// Proves the policy once. What it says of itself must be that everything holds.
pub(super) fn run(ground: &Ground, bars: &mut Bars) -> Result<(), Failure> {
    for dir in ["shared-types", "api/src", "docs", "datasets/small", "project/secrets", "project/infra/prod"] {
        let dir = ground.home().join(dir);
        fs::create_dir_all(&dir).map_err(|cause| failed(&dir, &cause))?;
    }
    let policy = ground.scratch("verify")?.join("policy.toml");
    fs::write(&policy, POLICY).map_err(|cause| failed(&policy, &cause))?;
    leave_podman(ground);
    let mut command = ground.command(ground.ringfence());
    command.args(["verify", "--json", "--policy"]).arg(&policy).stdout(Stdio::piped());
    let output = command.output().map_err(|cause| Failure::Start { command: "ringfence verify".to_owned(), cause })?;
    leave_podman(ground);
    let unreadable = |_| Failure::Status { command: "ringfence verify".to_owned(), status: output.status };
    let said: Value = serde_json::from_slice(&output.stdout).map_err(unreadable)?;
    bars.must("every layer does what it claims", said["ok"] == true && output.status.success());
    let seconds = said["seconds"].as_f64().unwrap_or(f64::NAN);
    let verdict = bars.hold("fifty rules proved in every layer, in s", seconds, BAR);
    let (mut rows, mut absent) = (Vec::new(), Vec::new());
    for layer in said["layers"].as_array().into_iter().flatten() {
        let name = layer["name"].as_str().unwrap_or_default().to_owned();
        let took = layer["seconds"].as_f64().unwrap_or(f64::NAN);
        if layer["available"] == true {
            rows.push(vec![name, layer["tried"].to_string(), format!("{took:.1} s"), String::new()]);
        } else {
            absent.push(format!("{name}: {}", layer["reason"].as_str().unwrap_or("not there")));
        }
    }
    bars.must("there is a layer to prove it in", !rows.is_empty());
    rows.push(vec!["all of them".to_owned(), String::new(), format!("{seconds:.1} s"), verdict]);
    table("`ringfence verify`, fifty rules beside the built-in ones", &["layer", "trials", "time", "bar"], &rows);
    // A layer that is missing makes the whole faster.
    absent.iter().for_each(|line| say::progress(format!("not measured: {line}")));
    Ok(())
}

/// Ends the process by which podman remembers the mounts of whoever called it first. Those are this run's own, and gone with it: in
/// the next one podman would find nothing of what it is asked to show.
fn leave_podman(ground: &Ground) {
    // Where there is no podman there is none to leave.
    let _ = ground.command("podman").args(["system", "migrate"]).status();
}
