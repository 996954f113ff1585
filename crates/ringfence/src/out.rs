//! Where text goes: answers to stdout, everything about them to stderr. A reader that has gone away is no error.

use std::io::{self, Write};

use crate::error::Failure;

/// Prints an answer.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(cause) if cause.kind() != io::ErrorKind::BrokenPipe => Err(Failure::Output { source: cause }),
        _ => Ok(()),
    }
}

/// Says something about an answer.
pub(crate) fn say(text: &str) {
    // Nobody is left to tell when stderr is closed.
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// Prints a value as JSON.
pub(crate) fn print_json(value: &impl serde::Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value).map_err(|source| Failure::Json { source })?;
    print(&(text + "\n"))
}
