//! What the repository has and does not have.

use super::Complaint;
use super::tree::File;

/// Files that must be there.
const REQUIRED: &[&str] = &[
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "LICENSE",
    "LICENSE-APACHE",
    "LICENSE-MIT",
    "README.md",
    "SECURITY.md",
];

/// The two commands that a newcomer needs, word for word.
const MAIN_COMMANDS: &[&str] = &["cargo run --release -- run -- bash", "cargo xtask test"];

pub(super) fn check(files: &[File]) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for required in REQUIRED {
        match files.iter().find(|file| file.path == *required) {
            Some(file) if !file.text.trim().is_empty() => {}
            _ => complaints.push(Complaint::new(required, 0, "missing or empty")),
        }
    }
    if let Some(readme) = files.iter().find(|file| file.path == "README.md") {
        for command in MAIN_COMMANDS.iter().filter(|command| !readme.text.contains(**command)) {
            complaints.push(Complaint::new("README.md", 0, format!("does not show `{command}`")));
        }
    }
    for file in files {
        let name = file.path.rsplit('/').next().unwrap_or(&file.path);
        if matches!(name, "rust-toolchain" | "rust-toolchain.toml") {
            let what = "pins a toolchain, which makes rustup download one: `rust-version` says what is needed";
            complaints.push(Complaint::new(&file.path, 0, what));
        }
    }
    complaints
}

#[cfg(test)]
mod tests {
    use super::super::{expect, file};
    use super::*;

    fn house() -> Vec<File> {
        let text = format!("```\n{}\n```\n", MAIN_COMMANDS.join("\n"));
        REQUIRED.iter().map(|path| file(path, &text)).collect()
    }

    #[test]
    fn every_required_file_is_there_and_says_something() {
        expect(check, &house(), &[]);
        for (at, path) in REQUIRED.iter().enumerate() {
            let mut files = house();
            files[at].text = "\n".to_owned();
            let places: Vec<&str> = std::iter::repeat_n(*path, if *path == "README.md" { 3 } else { 1 }).collect();
            expect(check, &files, &places);
            files.remove(at);
            expect(check, &files, &[path]);
        }
    }

    #[test]
    fn the_readme_shows_both_main_commands() {
        let mut files = house();
        for file in &mut files {
            file.text = file.text.replace("cargo xtask test", "cargo test");
        }
        expect(check, &files, &["README.md"]);
    }

    #[test]
    fn no_toolchain_is_pinned() {
        let mut files = house();
        files.push(file("crates/a/rust-toolchain.toml", ""));
        expect(check, &files, &["crates/a/rust-toolchain.toml"]);
    }
}
