//! The only two places where xtask writes to its streams.

use std::io::Write as _;

/// Writes a line about what is going on. It goes to stderr, where cargo's own lines go, so that the order stays right.
pub(crate) fn progress(line: impl AsRef<str>) {
    // A closed stream (`cargo xtask test 2>&1 | head`) is no reason to fail a check.
    let _ = writeln!(std::io::stderr().lock(), "{}", line.as_ref());
}

/// Writes a line that is the answer of the command, to stdout.
pub(crate) fn result(line: impl AsRef<str>) {
    let _ = writeln!(std::io::stdout().lock(), "{}", line.as_ref());
}
