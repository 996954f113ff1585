//! Types that grant have no default, and the types of the heart have no wire form.
//!
//! A `Default` that nobody wrote out is how a fence comes to stand open. A serde derive would make the inside of a type a
//! promise to other programs; wire types mirror the inside instead.

use super::Complaint;
use super::calls::PURE;
use super::rust_text::{RustText, is_name, line_at, names};
use super::tree::File;

/// A type whose name starts or ends so grants something: `PolicyFile`, `SubPolicy`, `PathRule`, `HostPattern`.
const GRANTING: &[&str] = &["Grant", "Grants", "Network", "Pattern", "Plan", "Policy", "Rule", "Rules"];

/// And so do these, by their whole name.
const GRANTING_WHOLE: &[&str] = &["Caps", "Inputs", "Reach", "Request", "Surface"];

pub(super) fn check(files: &[File]) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for file in files.iter().filter(|file| file.is_rust() && file.path.starts_with("crates/") && !file.is_test_only()) {
        let production = RustText::new(&file.text).production();
        complaints.extend(defaults(&file.path, &production));
        if PURE.iter().any(|pure| file.path.starts_with(pure)) {
            complaints.extend(wire_forms(&file.path, &production));
        }
    }
    complaints
}

fn defaults(path: &str, code: &str) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for at in names(code, "Default") {
        let derived = is_derived(code, at).then(|| derived_type(&code[at..])).flatten();
        let implemented = code[at + "Default".len()..].trim_start().strip_prefix("for ").map(first_name);
        if let Some(name) = derived.or(implemented).filter(|name| is_granting(name)) {
            let what =
                format!("`Default` on `{name}`, which grants: name what is granted at every place that makes one");
            complaints.push(Complaint::new(path, line_at(code, at), what));
        }
    }
    complaints
}

fn wire_forms(path: &str, code: &str) -> Vec<Complaint> {
    let places = ["Serialize", "Deserialize"].into_iter().flat_map(|name| names(code, name));
    let what = "serde in a pure crate: the command line's wire types mirror these types";
    places.map(|at| Complaint::new(path, line_at(code, at), what)).collect()
}

/// Whether the name at this place stands in the list of a `derive`.
fn is_derived(code: &str, at: usize) -> bool {
    code[..at].rfind("derive(").is_some_and(|open| !code[open..at].contains(')'))
}

/// The name of the first struct or enum after a derive.
fn derived_type(code: &str) -> Option<&str> {
    let keywords = ["struct", "enum"].into_iter();
    let at = keywords.filter_map(|keyword| names(code, keyword).next().map(|at| at + keyword.len())).min()?;
    Some(first_name(&code[at..]))
}

fn first_name(code: &str) -> &str {
    let code = code.trim_start();
    &code[..code.find(|character| !is_name(character)).unwrap_or(code.len())]
}

fn is_granting(name: &str) -> bool {
    GRANTING_WHOLE.contains(&name) || GRANTING.iter().any(|word| name.starts_with(word) || name.ends_with(word))
}

#[cfg(test)]
mod tests {
    use super::super::{expect, file};
    use super::*;

    const PATH: &str = "crates/ringfence-plan/src/a.rs";
    const FIRST_LINE: &str = "crates/ringfence-plan/src/a.rs:1";

    #[test]
    fn what_grants_has_no_default() {
        expect(check, &[file(PATH, "#[derive(Debug, Default)]\npub struct PolicyFile {}\n")], &[FIRST_LINE]);
        expect(check, &[file(PATH, "impl Default for Surface {\n")], &[FIRST_LINE]);
        expect(
            check,
            &[file(PATH, "#[derive(Default)]\n#[non_exhaustive]\npub(crate) enum NetworkRule<T> {\n")],
            &[FIRST_LINE],
        );
        expect(check, &[file(PATH, "#[derive(Default)]\nstruct Counter;\nstruct Plan;\n")], &[]);
        expect(check, &[file(PATH, "impl Default for SurfaceText {}\nlet a: Surface = Default::default();\n")], &[]);
        expect(check, &[file("crates/ringfence-plan/tests/a.rs", "impl Default for Surface {\n")], &[]);
    }

    #[test]
    fn every_type_that_grants_is_known() {
        for name in [
            "Caps",
            "Grant",
            "HostPattern",
            "HostRule",
            "Inputs",
            "NetworkRules",
            "PathRule",
            "PlaceRule",
            "Plan",
            "PolicyFile",
            "Reach",
            "Request",
            "Rule",
            "SubPolicy",
            "Surface",
        ] {
            assert!(is_granting(name), "{name}");
        }
        for name in ["Counter", "RequestId", "SurfaceText", "Verdict"] {
            assert!(!is_granting(name), "{name}");
        }
    }

    #[test]
    fn the_heart_has_no_wire_form() {
        let text = "#[derive(Debug, serde::Serialize)]\nstruct A;\nimpl<'de> Deserialize<'de> for A {}\n";
        expect(check, &[file(PATH, text)], &[FIRST_LINE, "crates/ringfence-plan/src/a.rs:3"]);
        expect(check, &[file("crates/ringfence/src/wire.rs", text)], &[]);
    }
}
