//! Where text goes: answers to stdout, everything about them to stderr. A reader that has gone away is no error.

use std::io::{self, Write};
#[cfg(target_os = "linux")]
use std::io::{BufRead as _, Read as _};

use ringfence_surface::Shown;

use crate::error::Failure;

/// Prints an answer.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(cause) if cause.kind() != io::ErrorKind::BrokenPipe => Err(Failure::Output { source: cause }),
        _ => Ok(()),
    }
}

/// Prints what a command printed, as it is.
#[cfg(target_os = "linux")]
pub(crate) fn print_bytes(bytes: &[u8]) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
        Err(cause) if cause.kind() != io::ErrorKind::BrokenPipe => Err(Failure::Output { source: cause }),
        _ => Ok(()),
    }
}

/// The same for what it said beside that.
#[cfg(target_os = "linux")]
pub(crate) fn say_bytes(bytes: &[u8]) {
    // Nobody is left to tell when stderr is closed.
    let _ = io::stderr().lock().write_all(bytes);
}

/// Says something about an answer.
pub(crate) fn say(text: &str) {
    // Nobody is left to tell when stderr is closed.
    // In one write: what runs inside may print there at the same time.
    let _ = io::stderr().lock().write_all(format!("{text}\n").as_bytes());
}

/// Asks for a yes. No answer is a no, and neither is what was typed before it was asked: that was meant for something else.
#[cfg(target_os = "linux")]
pub(crate) fn ask(question: &str) -> bool {
    let mut stderr = io::stderr().lock();
    // What is no terminal has nothing that could be thrown away.
    let _ = rustix::termios::tcflush(io::stdin(), rustix::termios::QueueSelector::IFlush);
    let asked = write!(stderr, "{question} [y/N] ").and_then(|()| stderr.flush());
    let mut answer = String::new();
    asked.is_ok()
        && io::stdin().lock().take(ANSWER).read_line(&mut answer).is_ok()
        && matches!(answer.trim(), "y" | "Y" | "yes")
}

/// Longer than any answer.
#[cfg(target_os = "linux")]
const ANSWER: u64 = 100;

/// Prints a value as JSON.
pub(crate) fn print_json(value: &impl serde::Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value).map_err(|source| Failure::Json { source })?;
    print(&(safe_json(&text) + "\n"))
}

/// JSON is looked at in terminals too. Characters that move a cursor or reorder text stand only in strings, where an escape
/// means the same.
pub(crate) fn safe_json(text: &str) -> String {
    let is_unsafe = |c: char| c != '\n' && Shown(c.encode_utf8(&mut [0; 4]).as_bytes()).to_string().starts_with("\\u");
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_ascii_graphic() || c == ' ' || !is_unsafe(c) {
            safe.push(c);
            continue;
        }
        for unit in c.encode_utf16(&mut [0; 2]) {
            safe.push_str(&format!("\\u{unit:04x}"));
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_moves_no_cursor() {
        let value = serde_json::json!({ "a": "\u{9b}2J\u{202e}\u{e0041}é\u{1b}" });
        let text = safe_json(&value.to_string());
        assert_eq!(text, "{\"a\":\"\\u009b2J\\u202e\\udb40\\udc41é\\u001b\"}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), value);
    }
}
