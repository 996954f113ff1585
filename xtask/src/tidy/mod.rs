//! `cargo xtask tidy`: the rules of this repository that no compiler knows.
//!
//! Every rule is a pure function from the files of the tree to complaints, so that each is tested with an example that
//! breaks it. Only [`tree`] reads from the disk.

mod calls;
mod dependencies;
mod grants;
mod house;
mod requirements;
mod rust_text;
mod tree;
mod unsafety;
mod words;

use std::fmt;
use std::path::Path;
use std::process::ExitCode;

use crate::say;
use tree::File;

/// A place that breaks a rule.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Complaint {
    path: String,
    /// From 1; 0 is the file as a whole.
    line: usize,
    what: String,
}

impl Complaint {
    fn new(path: &str, line: usize, what: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, what: what.into() }
    }
}

impl fmt::Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.path, self.what),
            line => write!(f, "{}:{line}: {}", self.path, self.what),
        }
    }
}

/// A rule: every place of the tree that breaks it.
type Rule = fn(&[File]) -> Vec<Complaint>;

const RULES: &[Rule] = &[
    calls::check,
    dependencies::check,
    grants::check,
    house::check,
    requirements::check,
    unsafety::check,
    words::check,
];

/// Runs every rule as a command of its own.
pub(crate) fn run(root: &Path) -> ExitCode {
    match check(root) {
        Ok(()) => {
            say::progress("tidy: every rule holds");
            ExitCode::SUCCESS
        }
        Err(complaints) => {
            say::progress(format!("tidy: {complaints}"));
            ExitCode::FAILURE
        }
    }
}

/// Runs every rule over the real tree; the error is a text for people, one line for each place.
pub(crate) fn check(root: &Path) -> Result<(), String> {
    let files = tree::read(root).map_err(|cause| format!("cannot read the tree: {cause}"))?;
    let mut complaints: Vec<Complaint> = RULES.iter().flat_map(|rule| rule(&files)).collect();
    complaints.sort();
    if complaints.is_empty() {
        return Ok(());
    }
    let lines: Vec<String> = complaints.iter().map(|complaint| format!("  {complaint}")).collect();
    Err(format!("{} places break a rule\n{}", complaints.len(), lines.join("\n")))
}

/// A file as the tests of the rules write it.
#[cfg(test)]
fn file(path: &str, text: &str) -> File {
    File { path: path.to_owned(), text: text.to_owned() }
}

/// Asserts that a rule complains about exactly these places, given as `path:line` (or `path` for a whole file).
#[cfg(test)]
#[track_caller]
fn expect(rule: Rule, files: &[File], places: &[&str]) {
    let mut complaints = rule(files);
    complaints.sort();
    let found: Vec<String> = complaints
        .iter()
        .map(|complaint| match complaint.line {
            0 => complaint.path.clone(),
            line => format!("{}:{line}", complaint.path),
        })
        .collect();
    assert_eq!(found, places, "{complaints:#?}");
}
