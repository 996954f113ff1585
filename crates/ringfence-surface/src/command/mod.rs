//! Is a line of shell proved to be read-only?
//!
//! The line is parsed in full. Every command of it (in lists, pipelines, substitutions, here-documents) must be a known program
//! with arguments that are known to change nothing; a program, option or construct that is not known makes the line
//! *mutating*, as does everything that is not understood. Whoever runs it may be bash, another POSIX shell or zsh, so the
//! line must be read-only in each.
//!
//! This is a convenience inside the fence, never the boundary: what a line really does is decided by the kernel. It assumes
//! that programs are found where the system keeps them, that the environment is the fence's own, and that no alias or function
//! takes the place of a program.

mod arguments;
mod builtins;
mod expansions;
mod fault;
mod judge;
mod named;
mod parse;
mod programs;
mod redirects;
mod syntax;
mod variables;
mod words;

use std::fmt;
use std::ops::Range;

use fault::Fault;
use judge::Judge;
pub use named::named_files;
use syntax::{Command, Kind, Word};

/// Longer lines are not looked at.
pub const LONGEST_LINE: usize = 64 * 1024;

/// What a line of shell does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Class {
    /// It changes no file and no state outside its own processes.
    ReadOnly,
    /// It may.
    Mutating(Mutation),
}

/// Why a line is not proved to be read-only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mutation {
    /// One sentence, without a full stop, that names the word at fault.
    pub reason: String,
    /// How to write it so that it is proved, where there is a way.
    pub remedy: Option<String>,
    /// The word at fault, in bytes of the line.
    pub at: Range<usize>,
}

impl fmt::Display for Mutation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)?;
        self.remedy.as_ref().map_or(Ok(()), |remedy| write!(f, "; {remedy}"))
    }
}

/// Whether git is kept from running what a repository's configuration names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Git {
    /// The environment has [`GIT_QUIET`]; git is read-only as far as its arguments are.
    Quiet,
    /// Nothing is known. Each git command must carry the same settings itself.
    AsItIs,
}

/// Settings under which git runs no program that somebody could have planted in the work tree, and writes nothing by the way:
/// a directory that looks like a bare repository is none, no file system monitor is started, the index is not refreshed.
/// What the repository's own configuration names (filters, drivers for diffs) still runs; the fence keeps that from being written.
pub const GIT_QUIET: &[(&str, &str)] =
    &[("core.fsmonitor", "false"), ("diff.autoRefreshIndex", "false"), ("safe.bareRepository", "explicit")];

/// The variable beside [`GIT_QUIET`]: with `0` git takes no locks that it can do without, and so writes no index when it looks.
pub const GIT_NO_LOCKS: (&str, &str) = ("GIT_OPTIONAL_LOCKS", "0");

/// Classifies a line as a client would hand it to a shell.
pub fn classify(line: &[u8], git: Git) -> Class {
    match prove(line, git) {
        Ok(()) => Class::ReadOnly,
        Err(fault) => {
            let end = fault.at.end.min(line.len());
            Class::Mutating(Mutation { reason: fault.reason, remedy: fault.remedy, at: fault.at.start.min(end)..end })
        }
    }
}

/// The words of a line that is one simple command, if they are known before it runs: no substitution, no pattern, nothing else.
pub fn literal_words(line: &[u8]) -> Option<Vec<Vec<u8>>> {
    let whole = readable(line).and_then(|()| parse::parse(line, None, 0)).ok()?;
    match whole.script.commands.as_slice() {
        [Command { kind: Kind::Simple(simple), redirects, .. }]
            if redirects.is_empty() && simple.assignments.is_empty() =>
        {
            simple.words.iter().map(Word::literal).collect()
        }
        _ => None,
    }
}

fn prove(line: &[u8], git: Git) -> Result<(), Fault> {
    readable(line)?;
    let whole = parse::parse(line, None, 0)?;
    Judge::new(git, &whole.assigned).whole(&whole)
}

/// Is it a text of a length and of characters that every shell reads alike?
fn readable(line: &[u8]) -> Result<(), Fault> {
    if line.len() > LONGEST_LINE {
        let reason = format!("the line is longer than {} KiB", LONGEST_LINE / 1024);
        return Err(Fault::new(&(0..1), reason).with("split it"));
    }
    if let Err(error) = std::str::from_utf8(line) {
        let at = error.valid_up_to();
        return Err(Fault::new(&(at..at + 1), "the line is not text"));
    }
    if let Some(at) = line.iter().position(|byte| matches!(byte, 0 | b'\r')) {
        return Err(Fault::new(&(at..at + 1), "shells disagree about this control character"));
    }
    Ok(())
}
