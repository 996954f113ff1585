//! Containers that a killed engine left: they are found by their label, and removed unless their session lives.

use std::fs;
use std::io;

use ringfence_plan::{Engine, LABEL};
use ringfence_surface::AbsPath;
use sha2::{Digest as _, Sha256};

use super::engine::EngineHere;
use crate::walk::os_path;

/// Where it is noted that an engine was used: nobody else is asked.
const USED: &str = "engines";

/// What was swept up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Swept {
    /// The sessions whose containers were removed, by name.
    pub removed: Vec<String>,
    /// Engines that did not answer.
    pub silent: Vec<&'static str>,
}

/// Notes that an engine is used, so that somebody looks after what it leaves.
///
/// # Errors
/// When the state directory cannot be written.
pub fn note_use(state: &AbsPath, engine: Engine) -> io::Result<()> {
    let dir = state.join(USED);
    fs::create_dir_all(os_path(&dir))?;
    fs::write(os_path(&dir.join(engine.word())), "")
}

/// Removes the containers of sessions that are no longer alive, of those engines that were used from here.
pub fn sweep(state: &AbsPath, is_alive: impl Fn(&str) -> bool) -> Swept {
    let mut swept = Swept { removed: Vec::new(), silent: Vec::new() };
    for engine in [Engine::Docker, Engine::Podman] {
        if !os_path(&state.join(USED).join(engine.word())).exists() {
            continue;
        }
        let Ok(here) = EngineHere::find(engine) else {
            swept.silent.push(engine.word());
            continue;
        };
        let wanted = format!("label={LABEL}");
        let Some(list) =
            here.ask(&["ps", "--all", "--filter", &wanted, "--no-trunc", "--format", "{{.ID}} {{.Labels}}"])
        else {
            swept.silent.push(engine.word());
            continue;
        };
        for line in list.lines() {
            let Some((id, labelled)) = line.split_once(' ').and_then(|(id, rest)| Some((id, value(rest)?))) else {
                continue;
            };
            let Some((session, _)) = labelled.split_once('@') else { continue };
            // Another user's session, or one with another place for its state, is not ours to judge.
            if labelled == label(state, session) && !is_alive(session) && here.ask(&["rm", "--force", id]).is_some() {
                swept.removed.push(session.to_owned());
            }
        }
    }
    swept
}

/// The label's value, among all labels as engines list them: `name=value,..` or `map[name:value ..]`.
fn value(labels: &str) -> Option<&str> {
    let (_, after) = labels.split_once(LABEL)?;
    let after = after.strip_prefix(['=', ':'])?;
    let end = after.find(|sign: char| !sign.is_ascii_alphanumeric() && sign != '@').unwrap_or(after.len());
    Some(&after[..end])
}

/// What a session's container is found by: its name, and whose it is.
pub(crate) fn label(state: &AbsPath, session: &str) -> String {
    let digest = Sha256::digest(state.as_bytes());
    let whose: String = digest.iter().take(6).map(|byte| format!("{byte:02x}")).collect();
    format!("{session}@{whose}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_as_engines_list_them() {
        for list in [
            "ringfence.session=abcd2345@0a1b",
            "a=b,ringfence.session=abcd2345@0a1b,c=d",
            "map[a:b ringfence.session:abcd2345@0a1b]",
        ] {
            assert_eq!(value(list), Some("abcd2345@0a1b"), "{list}");
        }
        assert_eq!(value("a=b"), None);
    }
}
