//! Carrying a remedy out.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use ringfence_surface::Shown;

use super::remedy::{Action, MARK, Remedy, Way};

/// What touches the host when a remedy is carried out. Tests bring their own.
pub trait Hands {
    /// Reads a file; nothing when there is none.
    ///
    /// # Errors
    /// When it is there and cannot be read.
    fn read(&mut self, path: &Path) -> io::Result<Option<Vec<u8>>>;

    /// Writes a file, whole.
    ///
    /// # Errors
    /// When it cannot be written.
    fn write(&mut self, path: &Path, text: &str) -> io::Result<()>;

    /// Runs a program of the system and waits for its end.
    ///
    /// # Errors
    /// When it cannot be started.
    fn run(&mut self, program: &str, arguments: &[String]) -> io::Result<ExitStatus>;
}

/// What was changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// A file was written.
    Wrote(PathBuf),
    /// A file said so already.
    WasSo(PathBuf),
    /// A command was run.
    Ran(String),
}

/// Why a remedy was not carried out to its end.
#[derive(Debug, thiserror::Error)]
pub enum FixError {
    /// It is for somebody to do by hand.
    #[error("this has to be done by hand: {advice}")]
    ByHand {
        /// What.
        advice: String,
    },
    /// A file of somebody else stands there.
    #[error("{} is there and was not written by ringfence", Shown(path.as_os_str().as_encoded_bytes()))]
    NotOurs {
        /// Which.
        path: PathBuf,
    },
    /// A file could not be read.
    #[error("cannot read {}", Shown(path.as_os_str().as_encoded_bytes()))]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file could not be written.
    #[error("cannot write {}", Shown(path.as_os_str().as_encoded_bytes()))]
    Write {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A program could not be started.
    #[error("cannot start {program}")]
    Start {
        /// Which.
        program: &'static str,
        /// Why.
        source: io::Error,
    },
    /// A program ran and was not content.
    #[error("`{command}` ended with {status}")]
    Failed {
        /// As typed.
        command: String,
        /// How.
        status: ExitStatus,
    },
}

/// Carries a remedy out, and says what was changed. Stops at the first step that fails.
///
/// # Errors
/// [`FixError`]; the steps before it stay done, and doing them again changes nothing.
pub fn apply(remedy: &Remedy, hands: &mut dyn Hands) -> Result<Vec<Change>, FixError> {
    match &remedy.way {
        Way::ByHand(advice) => Err(FixError::ByHand { advice: advice.clone() }),
        Way::Steps(steps) => steps.iter().map(|step| act(step, hands)).collect(),
    }
}

fn act(action: &Action, hands: &mut dyn Hands) -> Result<Change, FixError> {
    match action {
        Action::Write { path, text } => {
            let there = hands.read(path).map_err(|source| FixError::Read { path: path.clone(), source })?;
            match there {
                Some(there) if there == text.as_bytes() => return Ok(Change::WasSo(path.clone())),
                Some(there) if !there.starts_with(MARK.as_bytes()) => {
                    return Err(FixError::NotOurs { path: path.clone() });
                }
                _ => {}
            }
            hands.write(path, text).map_err(|source| FixError::Write { path: path.clone(), source })?;
            Ok(Change::Wrote(path.clone()))
        }
        Action::Run { program, arguments } => {
            let command = action.command_line().unwrap_or_default();
            let status = hands.run(program, arguments).map_err(|source| FixError::Start { program, source })?;
            if status.success() { Ok(Change::Ran(command)) } else { Err(FixError::Failed { command, status }) }
        }
    }
}

impl Action {
    /// A command as it would be typed; nothing for a file.
    pub fn command_line(&self) -> Option<String> {
        let Self::Run { program, arguments } = self else { return None };
        let words = std::iter::once((*program).to_owned()).chain(arguments.iter().map(|word| quoted(word)));
        Some(words.collect::<Vec<_>>().join(" "))
    }
}

/// A word as a shell takes it.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./=+:,@%".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}
