//! A file that has grown too long holds more than one thing.

use super::Complaint;
use super::rust_text::RustText;
use super::tree::File;

/// Lines that a file may have beside its tests.
const MOST_LINES: usize = 600;

pub(super) fn check(files: &[File]) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for file in files.iter().filter(|file| file.is_rust() && !file.is_test_only()) {
        let lines = RustText::new(&file.text).production_lines();
        if lines > MOST_LINES {
            let what = format!("{lines} lines beside its tests; {MOST_LINES} is the most: split it by what it does");
            complaints.push(Complaint::new(&file.path, 0, what));
        }
    }
    complaints
}

#[cfg(test)]
mod tests {
    use super::super::{expect, file};
    use super::*;

    #[test]
    fn a_long_file_is_refused_unless_its_length_is_tests() {
        let long = "x();\n".repeat(601);
        expect(check, &[file("crates/a/src/a.rs", &long)], &["crates/a/src/a.rs"]);
        expect(check, &[file("crates/a/src/a.rs", &"x();\n".repeat(600))], &[]);
        expect(check, &[file("crates/a/src/a.rs", &format!("#[cfg(test)]\nmod tests {{\n{long}}}\n"))], &[]);
        let comments = "// x\n\n".repeat(301);
        expect(check, &[file("crates/a/src/a.rs", &comments)], &["crates/a/src/a.rs"]);
        expect(check, &[file("crates/a/src/a.rs", &format!("#[cfg(test)]\nmod tests {{\n{comments}}}\n"))], &[]);
        expect(check, &[file("crates/a/tests/a.rs", &long)], &[]);
        expect(check, &[file("docs/a.md", &long)], &[]);
    }

    #[test]
    fn a_test_module_declared_first_does_not_hide_the_rest() {
        let text = format!("#[cfg(test)]\nmod tests;\n{}", "x();\n".repeat(601));
        expect(check, &[file("crates/a/src/a.rs", &text)], &["crates/a/src/a.rs"]);
    }
}
