//! `cargo xtask agree`: more policies and deeds by chance than a build has time for, in every layer, compared with `decide`.
//!
//! What comes out otherwise than it must is made small and saved beside the cases that are tried in every build.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::dist::target_directory;
use crate::say;
use crate::steps::{Failure, cargo, must_succeed};

/// How many deeds for each policy.
const DEEDS: &str = "500";

/// The layers. Another root directory takes a right that only root has.
const LAYERS: [&str; 12] = [
    "policy",
    "native",
    "no-broker",
    "bwrap",
    "landlock",
    "call",
    "call-landlock",
    "render-docker",
    "render-podman",
    "render-kubernetes",
    "hook",
    "chroot",
];

/// Tries until so many pairs of a policy and a deed were judged in each fence, from a seed on; without one from a seed of this
/// moment, which is said.
pub(crate) fn run(root: &Path, pairs: u32, seed: Option<u64>) -> ExitCode {
    // Seeds stay far below where they would overflow.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs());
    let seed = seed.unwrap_or(now);
    say::progress(format!("xtask agree: {pairs} pairs of a policy and a deed from seed {seed}"));
    match attempt(root, pairs, seed) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            say::progress(format!("xtask agree: FAILED: {failure}"));
            ExitCode::FAILURE
        }
    }
}

fn attempt(root: &Path, pairs: u32, seed: u64) -> Result<(), Failure> {
    must_succeed(&mut cargo(root, &["build", "--example", "agree", "-p", "ringfence-session"]))?;
    let program = target_directory(root).join("debug/examples/agree");
    let place = place(root)?;
    let layers = if crate::packages::is_root() { &LAYERS[..] } else { &LAYERS[..LAYERS.len() - 1] };
    let mut command = Command::new(program);
    command.arg("run").arg(&place).arg(root.join("crates/ringfence-session/tests/agree/cases"));
    command.args([&seed.to_string(), &format!("{pairs}-pairs"), DEEDS]).args(layers);
    let ended = must_succeed(&mut command);
    // What is left there is of no use to anybody.
    let _ = std::fs::remove_dir_all(&place);
    ended.map(|_| ())
}

/// Not among temporary files: of those every session has its own, and nothing of the host's could be seen there.
fn place(root: &Path) -> Result<PathBuf, Failure> {
    let name = format!("ringfence-agree-{}", std::process::id());
    let places = [Path::new("/srv").join(&name), target_directory(root).join(&name)];
    let made = |place: &PathBuf| std::fs::create_dir(place).map(|()| place.clone());
    let failed = |cause| Failure::Start { command: format!("mkdir {}", places[1].display()), cause };
    made(&places[0]).or_else(|_| made(&places[1])).map_err(failed)
}
