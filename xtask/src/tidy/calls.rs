//! Calls that do not belong where they stand: the pure crates cannot touch the world, and a few spellings are refused
//! everywhere.
//!
//! Clippy knows most of the pure crates' limits too (their `clippy.toml`). It knows methods one by one; this rule knows
//! whole modules, so that a new function of the standard library is refused without anybody naming it.

use super::Complaint;
use super::rust_text::{RustText, line_at, names};
use super::tree::File;

/// The crates that decide and do not look.
pub(super) const PURE: &[&str] = &["crates/ringfence-git/", "crates/ringfence-surface/", "crates/ringfence-plan/"];

/// Parts of the standard library that reach the world, by path; everything below a path is meant.
const WORLD: &[&str] = &[
    "std::env",
    "std::fs",
    "std::io::stderr",
    "std::io::stdin",
    "std::io::stdout",
    "std::net::TcpListener",
    "std::net::TcpStream",
    "std::net::ToSocketAddrs",
    "std::net::UdpSocket",
    "std::os::fd",
    "std::os::unix::fs",
    "std::os::unix::net",
    "std::os::unix::process",
    "std::process",
    "std::thread",
    "std::time::Instant",
    "std::time::SystemTime",
];

const PRINTING: &[&str] = &["dbg", "eprint", "eprintln", "print", "println"];

pub(super) fn check(files: &[File]) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for file in files.iter().filter(|file| file.is_rust()) {
        let text = RustText::new(&file.text);
        complaints.extend(refused_everywhere(&file.path, &text.code));
        let pure = PURE.iter().any(|pure| file.path.starts_with(pure));
        if pure && !file.is_test_only() {
            complaints.extend(refused_in_pure_crates(&file.path, &text.production()));
        }
    }
    complaints
}

fn refused_everywhere(path: &str, code: &str) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for (index, line) in code.lines().enumerate() {
        let mut refuse = |what: &str| complaints.push(Complaint::new(path, index + 1, what));
        let squeezed: String = line.split_whitespace().collect();
        let allows = squeezed.contains("#[allow(") || squeezed.contains("#![allow(");
        if allows || (squeezed.contains("cfg_attr(") && squeezed.contains(",allow(")) {
            refuse("`allow` outlives its reason: write `expect` with a reason");
        }
        if squeezed.contains("#[ignore") {
            refuse("an ignored test shows nothing: make it run, or remove it");
        }
        if path.starts_with("crates/") && names(line, "to_string_lossy").next().is_some() {
            refuse("`to_string_lossy` turns one path into another: paths are bytes; use `display` for messages");
        }
    }
    complaints
}

fn refused_in_pure_crates(path: &str, code: &str) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for (at, named) in std_paths(code) {
        let is_below =
            |banned: &&&str| named.strip_prefix(**banned).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"));
        if let Some(banned) = WORLD.iter().find(is_below) {
            let what = format!("`{banned}` in a pure crate: take what it would tell as plain data");
            complaints.push(Complaint::new(path, line_at(code, at), what));
        }
    }
    for name in PRINTING {
        for at in names(code, name).filter(|at| code[at + name.len()..].starts_with('!')) {
            complaints.push(Complaint::new(path, line_at(code, at), format!("`{name}!` in a library: return it")));
        }
    }
    complaints
}

/// Every path that starts with `std::`, where it stands, with the groups of `use std::{fs, io::Write}` written out.
fn std_paths(code: &str) -> Vec<(usize, String)> {
    let mut paths = Vec::new();
    for at in names(code, "std") {
        if let Some(rest) = after_colons(&code[at + 3..]) {
            expand("std", rest, &mut |path| paths.push((at, path)));
        }
    }
    paths
}

/// Reads one path, or a group of them, that continues `prefix`; returns what follows it.
fn expand<'a>(prefix: &str, code: &'a str, found: &mut impl FnMut(String)) -> &'a str {
    let code = code.trim_start();
    if let Some(mut rest) = code.strip_prefix('{') {
        loop {
            rest = expand(prefix, rest, found).trim_start();
            // Past an `as NAME`, to the next member or the end of the group.
            rest = rest.trim_start_matches(|character| !matches!(character, ',' | '}'));
            match rest.strip_prefix(',') {
                Some(next) => rest = next,
                None => return rest.strip_prefix('}').unwrap_or(rest),
            }
        }
    }
    let length = code.find(|character| !super::rust_text::is_name(character)).unwrap_or(code.len());
    let (name, rest) = code.split_at(length);
    let path = match name {
        "" | "self" => prefix.to_owned(),
        _ => format!("{prefix}::{name}"),
    };
    match after_colons(rest) {
        Some(rest) if length > 0 => expand(&path, rest, found),
        _ => {
            found(path);
            rest
        }
    }
}

fn after_colons(code: &str) -> Option<&str> {
    code.trim_start().strip_prefix("::")
}

#[cfg(test)]
mod tests {
    use super::super::{expect, file};
    use super::*;

    #[track_caller]
    fn pure(text: &str, places: &[&str]) {
        let places: Vec<String> =
            places.iter().map(|line| format!("crates/ringfence-surface/src/a.rs:{line}")).collect();
        let places: Vec<&str> = places.iter().map(String::as_str).collect();
        expect(check, &[file("crates/ringfence-surface/src/a.rs", text)], &places);
    }

    #[test]
    fn a_pure_crate_cannot_touch_the_world() {
        pure("use std::fs;\n", &["1"]);
        pure("fn f() {\n std::env::var_os(x);\n}\n", &["2"]);
        pure("use std::{collections::BTreeMap, process::{self, Command}};\n", &["1", "1"]);
        pure("use std::{\n    io::{Write as _, self},\n    fs as files,\n};\n", &["1"]);
        pure("let t = ::std::time::SystemTime::now();\n", &["1"]);
        pure("std::net::TcpStream::connect(a);\nstd :: thread :: spawn(b);\n", &["1", "2"]);
        pure("println!();\n", &["1"]);
    }

    #[test]
    fn what_only_looks_like_the_world_passes() {
        pure("use std::ffi::OsStr;\nuse std::os::unix::ffi::OsStrExt as _;\nuse std::net::IpAddr;\n", &[]);
        pure("// std::fs\nlet a = \"std::fs\";\nmystd::fs::x();\nstd::environment();\n", &[]);
        pure("#[cfg(test)]\nmod tests {\n    use std::fs;\n}\n", &[]);
        expect(check, &[file("crates/ringfence-surface/tests/a.rs", "use std::fs;\n")], &[]);
        expect(check, &[file("crates/ringfence/src/a.rs", "use std::fs;\n")], &[]);
    }

    #[test]
    fn a_few_spellings_are_refused_everywhere() {
        let refused = |text: &str| {
            expect(check, &[file("crates/ringfence/tests/a.rs", text)], &["crates/ringfence/tests/a.rs:1"])
        };
        refused("#[allow(dead_code)]\n");
        refused("#![ allow(dead_code)]\n");
        refused("#[cfg_attr(unix, allow(dead_code))]\n");
        refused("#[ignore = \"slow\"]\n");
        refused("path.to_string_lossy();\n");
        expect(
            check,
            &[file("crates/ringfence/src/a.rs", "#[expect(dead_code, reason = \"x\")]\nself.allow(x);\n")],
            &[],
        );
    }

    #[test]
    fn the_list_is_sorted() {
        assert!(WORLD.is_sorted());
        assert!(PRINTING.is_sorted());
    }
}
