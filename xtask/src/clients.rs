//! The agents' real clients, as one table, and how they are installed: by npm, beside what is built, once.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::say;
use crate::steps::{Failure, Outcome, must_succeed};

/// A client by its name in the registry. The version is fixed: what a client honours changes from one release to the next, and
/// the tests say which one they hold for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Client {
    package: &'static str,
    version: &'static str,
    program: &'static str,
}

const CLIENTS: &[Client] = &[
    Client { package: "@anthropic-ai/claude-code", version: "2.1.325", program: "claude" },
    Client { package: "@google/gemini-cli", version: "0.61.0", program: "gemini" },
    Client { package: "@openai/codex", version: "0.166.0", program: "codex" },
];

/// Installs what is missing. Without a way to the registry the tests with real clients are not run, which is said; CI must run
/// them.
pub(crate) fn install_missing(root: &Path) -> Result<Outcome, Failure> {
    let place = place(root);
    let missing: Vec<Client> = CLIENTS.iter().copied().filter(|client| !is_there(&place, client)).collect();
    if missing.is_empty() {
        say::progress("nothing is missing");
        return Ok(Outcome::Passed);
    }
    std::fs::create_dir_all(&place).map_err(|cause| Failure::Found(format!("{}: {cause}", place.display())))?;
    let failure = match must_succeed(&mut npm(&place)) {
        Ok(_) => match CLIENTS.iter().find(|client| !runs(&place, client)) {
            None => return Ok(Outcome::Passed),
            Some(client) => Failure::Found(format!("{} {} does not start", client.package, client.version)),
        },
        Err(failure) => failure,
    };
    if std::env::var_os("CI").is_some_and(|value| value == "true") {
        return Err(failure);
    }
    say::progress(failure.to_string());
    Ok(Outcome::NotRun("the agents' real clients (npm cannot install them)".to_owned()))
}

/// Where the tests look for them: beside what is built, so that it goes when the build goes.
fn place(root: &Path) -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    root.join(target).join("clients")
}

/// All of them in one call: npm takes away what it is not told of.
fn npm(place: &Path) -> Command {
    let mut command = Command::new("npm");
    command.args(["install", "--no-audit", "--no-fund", "--loglevel=error", "--prefix"]).arg(place);
    command.args(CLIENTS.iter().map(|client| format!("{}@{}", client.package, client.version)));
    command.stdin(Stdio::null());
    command
}

fn is_there(place: &Path, client: &Client) -> bool {
    let modules = place.join("node_modules");
    let about = std::fs::read_to_string(modules.join(client.package).join("package.json")).unwrap_or_default();
    about.contains(&format!("\"version\": \"{}\"", client.version))
        && modules.join(".bin").join(client.program).exists()
}

/// A package may lack its program for this machine, and npm is content with that.
fn runs(place: &Path, client: &Client) -> bool {
    let mut command = Command::new(place.join("node_modules/.bin").join(client.program));
    command.arg("--version").stdin(Stdio::null());
    let says = |bytes: Vec<u8>| bytes.windows(client.version.len()).any(|part| part == client.version.as_bytes());
    command.output().is_ok_and(|output| says(output.stdout))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_of_another_version_is_not_there() {
        let place = tempfile::tempdir().expect("a directory");
        let client = CLIENTS[0];
        assert!(!is_there(place.path(), &client));
        let modules = place.path().join("node_modules");
        for dir in [modules.join(client.package), modules.join(".bin")] {
            std::fs::create_dir_all(dir).expect("a directory");
        }
        let says = |version: &str| {
            let about = modules.join(client.package).join("package.json");
            std::fs::write(about, format!("{{\n  \"version\": \"{version}\"\n}}")).expect("a file");
        };
        says(client.version);
        assert!(!is_there(place.path(), &client), "its program is missing");
        std::fs::write(modules.join(".bin").join(client.program), "").expect("a file");
        assert!(is_there(place.path(), &client));
        says("0.0.1");
        assert!(!is_there(place.path(), &client));
    }
}
