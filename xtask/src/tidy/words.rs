//! Words that must not stand in the tree: paths of the machine that somebody worked on, addresses of package registries,
//! and documents that a reader does not have.
//!
//! The patterns are put together from pieces, so that this file does not break its own rule.

use super::Complaint;
use super::tree::File;

/// Directories at the root of a file system that belong to one machine only.
const MACHINE_ROOTS: &[&str] = &[concat!("/wo", "rk/"), concat!("/fa", "rm/")];

/// A host in an address with a scheme may not have one of these in its name: builds use what the user has configured.
const REGISTRIES: &[&str] = &["crates", "debian", "npm", "pypi", "rubygems"];

/// Pages that are not in this repository. What they say has to be said here.
const ABSENT_PAGES: &[&str] = &[
    concat!("AGEN", "TS.md section"),
    concat!("DESI", "GN section"),
    concat!("DESI", "GN.md"),
    concat!("KERN", "EL.md"),
    concat!("PEE", "RS.md"),
    concat!("REQUIRE", "MENTS.md"),
    concat!("STY", "LE.md"),
    concat!("../sha", "red/"),
];

pub(super) fn check(files: &[File]) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for file in files {
        for (index, line) in file.text.lines().enumerate() {
            complaints.extend(wrong_words(line).map(|what| Complaint::new(&file.path, index + 1, what)));
        }
    }
    complaints
}

fn wrong_words(line: &str) -> impl Iterator<Item = String> + '_ {
    let machine = MACHINE_ROOTS
        .iter()
        .filter(|root| is_absolute_in(line, root))
        .map(|root| format!("`{root}` is a path of one machine"));
    let registry = REGISTRIES
        .iter()
        .filter(|name| is_host_in(line, name))
        .map(|name| format!("the address of a package registry (`{name}`)"));
    let absent = ABSENT_PAGES
        .iter()
        .filter(|page| line.contains(**page))
        .map(|page| format!("`{page}` is not in this repository"));
    machine.chain(registry).chain(absent)
}

/// Whether the path starts here, rather than going on from a name, a variable or `~`.
fn is_absolute_in(line: &str, root: &str) -> bool {
    line.match_indices(root).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        !before.is_some_and(|before| before.is_alphanumeric() || matches!(before, '_' | '-' | '.' | '~' | '}' | '*'))
    })
}

/// Whether the line has an address with a scheme whose host contains `name`.
fn is_host_in(line: &str, name: &str) -> bool {
    line.match_indices("://").any(|(at, scheme_end)| {
        let rest = &line[at + scheme_end.len()..];
        let is_host = |character: char| character.is_ascii_alphanumeric() || matches!(character, '.' | '-');
        let host = &rest[..rest.find(|character| !is_host(character)).unwrap_or(rest.len())];
        let is_web = line[..at].ends_with("http") || line[..at].ends_with("https");
        is_web && host.contains(name)
    })
}

#[cfg(test)]
mod tests {
    use super::super::{expect, file};
    use super::*;

    #[track_caller]
    fn refused(line: &str) {
        expect(check, &[file("docs/a.md", &format!("first\n{line}\n"))], &["docs/a.md:2"]);
    }

    #[track_caller]
    fn accepted(line: &str) {
        expect(check, &[file("docs/a.md", line)], &[]);
    }

    #[test]
    fn paths_of_one_machine_are_refused() {
        for root in MACHINE_ROOTS {
            refused(&format!("see {root}main"));
            refused(&format!("{root}main"));
            refused(&format!("\"{root}\""));
            accepted(&format!("/home/u{root}main and ~{root}x and $HOME{root}x"));
        }
    }

    #[test]
    fn addresses_of_registries_are_refused() {
        for name in REGISTRIES {
            refused(&format!("get it from https{}static.{name}.example/x", "://"));
            refused(&format!("(http{}{name}.example)", "://"));
            accepted(&format!("the group `{name}` and registry+https://example.com/{name}-index"));
        }
        assert!(REGISTRIES.is_sorted());
    }

    #[test]
    fn pages_that_a_reader_does_not_have_are_refused() {
        for page in ABSENT_PAGES {
            refused(&format!("as {page} says"));
        }
    }
}
