//! `docs/tools.md` lists what tools read in a project: each name is protected, refused or judged as the table says.

use std::fs;
use std::path::Path;

use ringfence_git::config;
use ringfence_git::layout::{FileKind, file_kind};
use ringfence_git::settings::is_harmless;

use crate::world;

/// The cells of the table, row by row.
fn rows() -> Vec<Vec<String>> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/tools.md");
    let text = fs::read_to_string(page).expect("docs/tools.md can be read");
    let lines = text.lines().filter(|line| line.starts_with('|')).skip(2);
    let rows: Vec<Vec<String>> =
        lines.map(|line| line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect()).collect();
    assert!(rows.len() > 20 && rows.iter().all(|row| row.len() == 6), "{rows:?}");
    rows
}

/// What stands between backticks in a column.
fn names(column: usize) -> Vec<String> {
    let cells = rows().into_iter().map(|row| row[column].clone());
    let mut names: Vec<String> =
        cells.flat_map(|cell| cell.split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>()).collect();
    names.sort();
    names.dedup();
    assert!(names.len() > 8, "{names:?}");
    names
}

/// A11, J3: at the root and below it.
#[test]
fn a11_names_that_tools_read_are_protected() {
    let world = world();
    for (number, name) in names(2).iter().enumerate() {
        let path = if number % 2 == 0 { name.clone() } else { format!("a/b/{name}") };
        let said = world.ringfence(&["explain", "--write", &path]).expect_code(1);
        assert!(said.stdout.contains("built-in protected set"), "{path}: {}", said.stdout);
    }
}

/// A11: what a tool reads in a git directory and git does not write.
#[test]
fn a11_names_that_tools_read_in_a_git_directory_are_refused() {
    for name in names(3) {
        assert_eq!(file_kind(name.as_bytes()), FileKind::Closed, "{name}");
    }
}

/// J3: what git writes and a tool expands or follows.
#[test]
fn j3_what_tools_read_of_git_is_judged() {
    for name in names(4) {
        let kind = file_kind(name.as_bytes());
        assert!(matches!(kind, FileKind::Vetted(_) | FileKind::Settings | FileKind::Index), "{name}: {kind:?}");
    }
}

/// A5, A11: settings that tools read.
#[test]
fn a11_settings_that_tools_read_are_refused() {
    for name in names(5) {
        let (section, key) = name.split_once('.').expect("a section and a name");
        let text = match key.rsplit_once('.') {
            Some((part, key)) => format!("[{section} \"{part}\"]\n\t{key} = x\n"),
            None => format!("[{section}]\n\t{key} = x\n"),
        };
        let entries = config::parse(text.as_bytes());
        assert!(!entries.is_empty() && !entries.iter().any(is_harmless), "{name}");
    }
}
