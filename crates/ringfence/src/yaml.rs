//! JSON as YAML that people can read: blocks, keys in their order, and strings that mean the same to every reader.
//!
//! Readers differ in what a word without quotes is (`no`, `1e3`, `0o7`, `~`) and in which characters end a line. So only words
//! that no reader takes for anything else stand without quotes, and within quotes whatever is not plainly printable is escaped.

use std::fmt::Write as _;

use serde_json::Value;

/// One document for each value.
pub(crate) fn documents(values: &[Value]) -> String {
    let mut text = String::new();
    for value in values {
        text.push_str("---\n");
        block(value, 0, &mut text);
    }
    text
}

/// A value that begins on a line of its own.
fn block(value: &Value, depth: usize, text: &mut String) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            for (at, (key, value)) in map.iter().enumerate() {
                // The first key of an entry in a list stands behind its dash.
                let is_first_behind_a_dash = at == 0 && text.ends_with("- ");
                if !is_first_behind_a_dash {
                    indent(depth, text);
                }
                scalar(key, text);
                text.push(':');
                inner(value, depth, text);
            }
        }
        Value::Array(list) if !list.is_empty() => {
            for value in list {
                indent(depth, text);
                text.push_str("- ");
                match value {
                    Value::Object(map) if !map.is_empty() => block(value, depth + 1, text),
                    // A list in a list is said on its line.
                    other => line(other, text),
                }
            }
        }
        other => line(other, text),
    }
}

/// What stands behind a key.
fn inner(value: &Value, depth: usize, text: &mut String) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            text.push('\n');
            block(value, depth + 1, text);
        }
        Value::Array(list) if !list.is_empty() => {
            text.push('\n');
            block(value, depth, text);
        }
        other => {
            text.push(' ');
            line(other, text);
        }
    }
}

fn line(value: &Value, text: &mut String) {
    flow(value, text);
    text.push('\n');
}

fn flow(value: &Value, text: &mut String) {
    match value {
        Value::String(string) => scalar(string, text),
        Value::Array(list) => {
            text.push('[');
            for (at, value) in list.iter().enumerate() {
                text.push_str(if at == 0 { "" } else { ", " });
                flow(value, text);
            }
            text.push(']');
        }
        Value::Object(map) => {
            text.push('{');
            for (at, (key, value)) in map.iter().enumerate() {
                text.push_str(if at == 0 { "" } else { ", " });
                quoted(key, text);
                text.push_str(": ");
                flow(value, text);
            }
            text.push('}');
        }
        // Numbers, true, false and null are the same in both.
        other => text.push_str(&other.to_string()),
    }
}

fn indent(depth: usize, text: &mut String) {
    text.extend(std::iter::repeat_n("  ", depth));
}

fn scalar(string: &str, text: &mut String) {
    if is_plain(string) { text.push_str(string) } else { quoted(string, text) }
}

/// A word that no reader takes for anything but itself: it begins with a letter or a slash, holds nothing that means something,
/// and is none of the words for true, false and nothing.
fn is_plain(string: &str) -> bool {
    const WORDS: [&str; 10] = ["false", "n", "no", "null", "off", "on", "true", "y", "yes", "nan"];
    let begins = string.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/');
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
    begins && string.chars().all(plain) && !WORDS.contains(&string.to_ascii_lowercase().as_str())
}

fn quoted(string: &str, text: &mut String) {
    text.push('"');
    for c in string.chars() {
        match c {
            '"' | '\\' => text.extend(['\\', c]),
            ' '..='~' => text.push(c),
            c if c.is_alphanumeric() => text.push(c),
            c => {
                let code = u32::from(c);
                // Writing to a string does not fail.
                let _ = if code > 0xffff { write!(text, "\\U{code:08x}") } else { write!(text, "\\u{code:04x}") };
            }
        }
    }
    text.push('"');
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(value: Value, expected: &str) {
        assert_eq!(documents(std::slice::from_ref(&value)), format!("---\n{expected}"), "{value}");
    }

    #[test]
    fn blocks() {
        check(
            json!({"a": {"b": [1, "x", {"c": true, "d": {"e": null}}], "f": []}}),
            "a:\n  b:\n  - 1\n  - x\n  - c: true\n    d:\n      e: null\n  f: []\n",
        );
        check(json!({"a": [{"b": [{"c": 1}]}], "d": {}}), "a:\n- b:\n  - c: 1\nd: {}\n");
        check(json!([[1, [{"k": "v"}]]]), "- [1, [{\"k\": v}]]\n");
        check(json!([{}, ""]), "- {}\n- \"\"\n");
    }

    /// Each of these is something else to some reader.
    #[test]
    fn words_that_mean_something_are_quoted() {
        for word in [
            "no",
            "Yes",
            "ON",
            "null",
            "~",
            "1",
            "1e3",
            "0o7",
            "1_000",
            ".inf",
            "- a",
            "a: b",
            "a #b",
            "<<",
            "=",
            "",
            " a",
            "a ",
            "12:30:00",
            "2020-01-01",
            "*a",
            "&a",
            "!a",
            "%a",
            "@a",
            "`a",
            "nan",
            "y",
            "-",
            "--- a",
            "a:",
            "[a",
            "{a",
            "a,b",
            "\u{feff}a",
        ] {
            let mut text = String::new();
            scalar(word, &mut text);
            assert!(text.starts_with('"') && text.ends_with('"'), "{word}: {text}");
        }
        for word in ["a", "/usr/bin", "v1", "agent-1", "example.com"] {
            check(json!(word), &format!("{word}\n"));
        }
    }

    #[test]
    fn what_is_not_printable_is_escaped() {
        check(
            json!("a\nb\t\u{7f}\u{85}\u{2028}\u{feff}ü\u{1f600}\"\\"),
            "\"a\\u000ab\\u0009\\u007f\\u0085\\u2028\\ufeffü\\U0001f600\\\"\\\\\"\n",
        );
    }
}
