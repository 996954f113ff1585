//! The environment as a table: what is set, what passes, what never does.

use std::fmt::Write as _;

use ringfence_surface::Surface;
use ringfence_surface::curated::env::{NEVER, PASS};

/// What ringfence sets in every session, and why.
const SET: &[(&str, &str)] = &[
    ("HOME", "the session's own home"),
    ("PATH", "those directories of the caller's that can be read inside"),
    ("RINGFENCE", "1, so that programs can tell"),
    ("RINGFENCE_SESSION", "the session's name"),
    ("TMPDIR", "the session's own temporary files"),
];

/// What ringfence sets a variable to in every session, whoever passes it on.
#[must_use]
pub fn set_inside(name: &[u8]) -> Option<&'static str> {
    SET.iter().find(|(set, _)| set.as_bytes() == name).map(|(_, why)| *why)
}

/// The table as text: one variable or pattern to a line, with the reason.
pub fn env(surface: &Surface, set: &[(&'static str, Vec<u8>)]) -> String {
    let mut text = String::new();
    let mut line = |word: &str, name: &str, why: &str| {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{word:<6} {name:<42} {why}");
    };
    for (name, why) in SET {
        line("set", name, why);
    }
    for (name, value) in set {
        line("set", name, &ringfence_surface::Shown(value).to_string());
    }
    for entry in &surface.reach().inject {
        let why = format!("a placeholder; the value is added for {} on the way out", entry.value.host);
        line("set", entry.value.variable.as_str(), &why);
    }
    for entry in surface.env() {
        line("pass", entry.value.as_str(), &entry.source.to_string());
    }
    for row in PASS {
        line("pass", row.pattern, row.reason);
    }
    for row in NEVER {
        line("never", row.pattern, row.reason);
    }
    text.push_str("never  anything else, and of what passes by a table: a path that cannot be read inside, an address with a password, or what looks like a key\n");
    text
}
