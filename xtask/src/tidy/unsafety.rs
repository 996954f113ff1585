//! `unsafe` has one home, and every use of it says why it is sound.

use super::Complaint;
use super::rust_text::{RustText, line_at, names};
use super::tree::File;

/// The only crate that may ask the kernel by hand.
const HOME: &str = "crates/ringfence-sys/";

const FORBID: &str = "#![forbid(unsafe_code)]";

/// Phrases that say nothing. A reason that has fewer than [`LEAST_REASON`] characters without them is no reason.
const EMPTY_PHRASES: &[&str] = &[
    "we pass valid parameters",
    "we pass valid arguments",
    "the parameters are valid",
    "the arguments are valid",
    "trivially safe",
    "obviously safe",
    "this is safe",
    "it is safe",
    "always safe",
    "safe to call",
    "see above",
];

const LEAST_REASON: usize = 20;

pub(super) fn check(files: &[File]) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for file in files.iter().filter(|file| file.is_rust()) {
        let text = RustText::new(&file.text);
        if !file.path.starts_with(HOME) {
            for at in names(&text.code, "unsafe") {
                let what = format!("`unsafe` outside {HOME}: put the call there and give it a safe face");
                complaints.push(Complaint::new(&file.path, line_at(&text.code, at), what));
            }
            if is_crate_root(&file.path) && !text.code.contains(FORBID) {
                complaints.push(Complaint::new(&file.path, 0, format!("the root of a crate without `{FORBID}`")));
            }
        }
        complaints.extend(empty_reasons(&file.path, &text.comments));
    }
    complaints
}

fn is_crate_root(path: &str) -> bool {
    path.ends_with("/src/lib.rs") || path.ends_with("/src/main.rs") || path.contains("/src/bin/")
}

fn empty_reasons(path: &str, comments: &str) -> Vec<Complaint> {
    let lines: Vec<&str> = comments.lines().collect();
    let mut complaints = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        let Some((_, first)) = line.split_once("SAFETY:") else { continue };
        // The reason goes on while comment lines follow.
        let more = lines[index + 1..]
            .iter()
            .map(|line| line.trim())
            .take_while(|line| line.starts_with("//") && !line.contains("SAFETY:"));
        let reason = more.fold(first.to_owned(), |reason, line| reason + " " + line.trim_start_matches('/'));
        if is_empty_reason(&reason) {
            let what = "this SAFETY comment gives no reason: name the precondition and why it holds";
            complaints.push(Complaint::new(path, index + 1, what));
        }
    }
    complaints
}

fn is_empty_reason(reason: &str) -> bool {
    let reason = reason.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase();
    let left = EMPTY_PHRASES.iter().fold(reason, |reason, phrase| reason.replace(phrase, ""));
    left.chars().filter(|character| !character.is_ascii_punctuation()).collect::<String>().trim().len() < LEAST_REASON
}

#[cfg(test)]
mod tests {
    use super::super::{expect, file};
    use super::*;

    #[test]
    fn unsafe_stands_in_one_crate_only() {
        let text = "fn f() {\n    unsafe { g() }\n}\n";
        expect(check, &[file("crates/ringfence-fs/src/open.rs", text)], &["crates/ringfence-fs/src/open.rs:2"]);
        expect(check, &[file("crates/ringfence-sys/src/open.rs", text)], &[]);
        let said = "// unsafe\nlet a = \"unsafe\";\n#![deny(unsafe_code)]\n";
        expect(check, &[file("crates/ringfence-fs/src/open.rs", said)], &[]);
        // Attributes that are unsafe count too.
        expect(check, &[file("xtask/src/a.rs", "#[unsafe(no_mangle)]\n")], &["xtask/src/a.rs:1"]);
    }

    #[test]
    fn every_other_crate_forbids_it_at_its_root() {
        expect(
            check,
            &[file("crates/ringfence-plan/src/lib.rs", "//! Plan.\n")],
            &["crates/ringfence-plan/src/lib.rs"],
        );
        let commented = "// #![forbid(unsafe_code)]\n";
        expect(check, &[file("crates/ringfence/src/main.rs", commented)], &["crates/ringfence/src/main.rs"]);
        expect(check, &[file("crates/ringfence-plan/src/lib.rs", "//! Plan.\n\n#![forbid(unsafe_code)]\n")], &[]);
        expect(check, &[file("crates/ringfence-sys/src/lib.rs", "//! Sys.\n")], &[]);
    }

    #[test]
    fn a_safety_comment_has_a_reason() {
        let path = "crates/ringfence-sys/src/a.rs";
        for empty in ["safe", "we pass valid parameters.", "trivially safe", "This is safe, see above!", ""] {
            expect(check, &[file(path, &format!("f();\n// SAFETY: {empty}\n"))], &["crates/ringfence-sys/src/a.rs:2"]);
        }
        let good = "// SAFETY: `fd` is open, since\n// the caller holds an OwnedFd.\nf();\n";
        expect(check, &[file(path, good)], &[]);
        expect(check, &[file(path, "let a = \"SAFETY: safe\";\n")], &[]);
    }
}
