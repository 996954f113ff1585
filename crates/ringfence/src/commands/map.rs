//! `ringfence` alone: where to begin. All of it is in `ringfence help`.

use std::process::ExitCode;

use crate::error::Failure;
use crate::out;

/// The commands that most people need, in the order in which they need them.
const MAP: &str = "\
ringfence decides which files and hosts a coding agent may touch.

Begin
  ringfence run -- claude              Claude Code in this directory, fenced; also codex, gemini
  ringfence run -- bash                any command, to look around from inside
  ringfence doctor                     what this machine can enforce

While it runs, in another terminal
  ringfence ps                         which sessions run
  ringfence grant ID --read PATH       let one read something, at once; revoke takes it back
  ringfence stop ID                    end one

Say what it may touch
  ringfence init                       write a ringfence.toml for this directory
  ringfence explain --write PATH       may it? by which rule, written where?
  ringfence check                      find mistakes in the policy
  ringfence learn -- make              what does this command need? proposed as lines for it

Afterwards
  ringfence audit                      what was done and what was stopped

`ringfence help` lists every command, `ringfence help run` explains one.
";

pub(crate) fn run() -> Result<ExitCode, Failure> {
    out::print(MAP)?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::cli::Cli;

    /// Each line that names a command is one that can be typed.
    #[test]
    fn every_command_on_the_map_exists() {
        let lines = MAP.lines().filter(|line| line.starts_with("  ringfence "));
        let typed: Vec<&str> = lines.filter_map(|line| line.trim_start().split("  ").next()).collect();
        assert!(typed.len() > 8, "{typed:?}");
        for line in typed {
            let read = Cli::try_parse_from(line.split(' '));
            assert!(read.is_ok(), "{line}: {:?}", read.err());
        }
    }
}
