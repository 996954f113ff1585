//! `ringfence --version --verbose`: what the program was built from, and how.

use std::ffi::OsString;
use std::process::ExitCode;

use crate::error::Failure;
use crate::out;

/// Whether these words ask for it, in either order.
pub(crate) fn is_asked(words: &[OsString]) -> bool {
    let [_, first, second] = words else { return false };
    let is = |word: &OsString, names: [&str; 2]| names.iter().any(|name| word == name);
    let pair = |one, other| is(one, ["--version", "-V"]) && is(other, ["--verbose", "-v"]);
    pair(first, second) || pair(second, first)
}

pub(crate) fn run() -> Result<ExitCode, Failure> {
    out::print(&text())?;
    Ok(ExitCode::SUCCESS)
}

fn text() -> String {
    let rows = [
        ("commit", env!("RINGFENCE_BUILT_COMMIT")),
        ("profile", env!("RINGFENCE_BUILT_PROFILE")),
        ("target", env!("RINGFENCE_BUILT_TARGET")),
        ("linked", env!("RINGFENCE_BUILT_LINKED")),
        ("features", env!("RINGFENCE_BUILT_FEATURES")),
    ];
    let rows = rows.map(|(name, value)| format!("{:<9} {value}\n", format!("{name}:")));
    format!("ringfence {}\n{}", env!("CARGO_PKG_VERSION"), rows.concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_words_and_nothing_else() {
        let asked = |line: &str| is_asked(&line.split(' ').map(OsString::from).collect::<Vec<_>>());
        assert!(asked("ringfence --version --verbose") && asked("ringfence -v -V"));
        assert!(!asked("ringfence --version") && !asked("ringfence --version --version") && !asked("ringfence run -v"));
        assert!(!asked("ringfence --version --verbose now"));
    }
}
