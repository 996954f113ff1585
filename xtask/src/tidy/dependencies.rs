//! Dependencies point one way, and the pure crates have few.

use toml::de::{DeTable, DeValue};

use super::Complaint;
use super::calls::PURE;
use super::tree::File;

/// The rooms of the workspace. A crate may depend on those before it.
const ORDER: &[&str] = &[
    "ringfence-git",
    "ringfence-surface",
    "ringfence-plan",
    "ringfence-sys",
    "ringfence-fs",
    "ringfence-egress",
    "ringfence-session",
    "ringfence",
];

/// Helps tests; nothing that is shipped may depend on it.
const TESTKIT: &str = "ringfence-testkit";

/// Is no part of the product in either direction.
const XTASK: &str = "xtask";

/// Names that say nothing about what is inside.
const EMPTY_NAMES: &[&str] = &["-common", "-core", "-helpers", "-shared", "-util", "-utils"];

/// All that the pure crates may depend on beside each other. Each of these computes and touches nothing.
const PURE_MAY_USE: &[&str] =
    &["icu_normalizer", "idna", "jsonc-parser", "miniz_oxide", "psl", "sha1-checked", "sha2", "thiserror", "toml"];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Normal,
    Dev,
    Build,
}

/// A dependency as a manifest has it.
#[derive(Debug, PartialEq, Eq)]
struct Dependency {
    /// The package's real name, also when the manifest gives it another.
    package: String,
    kind: Kind,
}

pub(super) fn check(files: &[File]) -> Vec<Complaint> {
    let renames = files
        .iter()
        .find(|file| file.path == "Cargo.toml")
        .map(|file| workspace_renames(&file.text))
        .unwrap_or_default();
    let mut complaints = Vec::new();
    for file in files.iter().filter(|file| is_member_manifest(&file.path)) {
        match DeTable::parse(&file.text) {
            Ok(manifest) => {
                let found = check_manifest(&file.path, manifest.get_ref(), &renames);
                complaints.extend(found.into_iter().map(|what| Complaint::new(&file.path, 0, what)));
            }
            Err(cause) => complaints.push(Complaint::new(&file.path, 0, cause.message())),
        }
    }
    complaints
}

fn is_member_manifest(path: &str) -> bool {
    path == "xtask/Cargo.toml" || (path.starts_with("crates/") && path.ends_with("/Cargo.toml"))
}

fn check_manifest(path: &str, manifest: &DeTable<'_>, renames: &[(String, String)]) -> Vec<String> {
    let mut found = Vec::new();
    let Some(name) = get(manifest, &["package", "name"]).and_then(DeValue::as_str) else {
        return vec!["no package.name".to_owned()];
    };
    if let Some(ending) = EMPTY_NAMES.iter().find(|ending| name.ends_with(**ending)) {
        found.push(format!("`{name}`: a name ending in `{ending}` does not say what is inside"));
    } else if !ORDER.contains(&name) && name != TESTKIT && name != XTASK {
        found.push(format!("`{name}` is not a room of this workspace: give it its place in the order of this rule"));
    }
    if get(manifest, &["lints", "workspace"]).and_then(DeValue::as_bool) != Some(true) {
        found.push("the lints of the workspace are not taken: add `[lints] workspace = true`".to_owned());
    }
    let pure = PURE.iter().any(|pure| path.starts_with(pure));
    for dependency in dependencies(manifest, renames) {
        found.extend(wrong_direction(name, &dependency));
        if pure {
            found.extend(not_pure(name, &dependency));
        }
    }
    found
}

/// Why this dependency between two crates of the workspace is not allowed.
fn wrong_direction(name: &str, dependency: &Dependency) -> Option<String> {
    let package = dependency.package.as_str();
    if package == TESTKIT {
        return (dependency.kind != Kind::Dev).then(|| format!("`{TESTKIT}` may be a dev-dependency only"));
    }
    if package == XTASK {
        return Some(format!("nothing may depend on `{XTASK}`"));
    }
    let place = |name: &str| ORDER.iter().position(|room| *room == name);
    let theirs = place(package)?;
    let allowed = match name {
        XTASK => false,
        // It may use what it helps to test, and never the whole product.
        TESTKIT => theirs + 1 < ORDER.len(),
        _ => place(name).is_some_and(|ours| theirs < ours),
    };
    (!allowed).then(|| format!("`{name}` may not depend on `{package}`: dependencies point the other way"))
}

fn not_pure(name: &str, dependency: &Dependency) -> Option<String> {
    let package = dependency.package.as_str();
    let known = PURE_MAY_USE.contains(&package) || ORDER.contains(&package);
    match dependency.kind {
        Kind::Dev => None,
        Kind::Build => {
            Some(format!("`{name}` is pure and may have no build script, so no build-dependency `{package}`"))
        }
        Kind::Normal => {
            (!known).then(|| format!("`{name}` is pure, and `{package}` is not on its list of dependencies"))
        }
    }
}

/// Every dependency of a manifest, those for one platform only included.
fn dependencies(manifest: &DeTable<'_>, renames: &[(String, String)]) -> Vec<Dependency> {
    let mut found = Vec::new();
    let mut tables = vec![manifest];
    if let Some(targets) = get(manifest, &["target"]).and_then(DeValue::as_table) {
        tables.extend(targets.values().filter_map(|target| target.get_ref().as_table()));
    }
    let kinds = [("dependencies", Kind::Normal), ("dev-dependencies", Kind::Dev), ("build-dependencies", Kind::Build)];
    for table in tables {
        for (key, kind) in kinds {
            let entries = get(table, &[key]).and_then(DeValue::as_table).into_iter().flat_map(|entries| entries.iter());
            for (alias, value) in entries {
                let alias: &str = alias.get_ref();
                let renamed = real_name(value.get_ref());
                let inherited = renames.iter().find(|(name, _)| name == alias).map(|(_, package)| package.as_str());
                found.push(Dependency { package: renamed.or(inherited).unwrap_or(alias).to_owned(), kind });
            }
        }
    }
    found
}

/// The entries of `[workspace.dependencies]` that are known here by another name than their own: (here, own).
fn workspace_renames(manifest: &str) -> Vec<(String, String)> {
    let Ok(manifest) = DeTable::parse(manifest) else { return Vec::new() };
    let entries = get(manifest.get_ref(), &["workspace", "dependencies"]).and_then(DeValue::as_table);
    let entries = entries.into_iter().flat_map(|entries| entries.iter());
    entries
        .filter_map(|(alias, value)| Some((alias.get_ref().to_string(), real_name(value.get_ref())?.to_owned())))
        .collect()
}

fn real_name<'a>(dependency: &'a DeValue<'_>) -> Option<&'a str> {
    get(dependency.as_table()?, &["package"]).and_then(DeValue::as_str)
}

fn get<'a, 'i>(table: &'a DeTable<'i>, keys: &[&str]) -> Option<&'a DeValue<'i>> {
    let (first, rest) = keys.split_first()?;
    let value = table.get(*first)?.get_ref();
    if rest.is_empty() { Some(value) } else { get(value.as_table()?, rest) }
}

#[cfg(test)]
mod tests {
    use super::super::{expect, file};
    use super::*;

    /// A crate with its name, its manifest beyond what every crate has, and whether the rule complains once.
    #[track_caller]
    fn manifest(name: &str, more: &str, complaints: usize) {
        let path = if name == XTASK { "xtask/Cargo.toml".to_owned() } else { format!("crates/{name}/Cargo.toml") };
        let root = file("Cargo.toml", "[workspace.dependencies]\nquick = { package = \"tokio\", version = \"1\" }\n");
        let text = format!("[package]\nname = \"{name}\"\n[lints]\nworkspace = true\n{more}");
        expect(check, &[root, file(&path, &text)], &vec![path.as_str(); complaints]);
    }

    #[test]
    fn dependencies_point_one_way() {
        manifest("ringfence-plan", "[dependencies]\nringfence-surface.workspace = true\n", 0);
        manifest("ringfence-surface", "[dependencies]\nringfence-plan.workspace = true\n", 1);
        manifest("ringfence-surface", "[dev-dependencies]\nringfence-plan.workspace = true\n", 1);
        manifest("ringfence-fs", "[target.'cfg(unix)'.dependencies]\nringfence-egress.workspace = true\n", 1);
        manifest("ringfence-fs", "[dependencies.sneaky]\npackage = \"ringfence-session\"\n", 1);
        manifest("ringfence", "[dependencies]\nxtask = { path = \"../../xtask\" }\n", 1);
        manifest("xtask", "[dependencies]\nringfence-surface.workspace = true\n", 1);
    }

    #[test]
    fn the_testkit_is_for_tests() {
        manifest("ringfence", "[dev-dependencies]\nringfence-testkit.workspace = true\n", 0);
        manifest("ringfence", "[dependencies]\nringfence-testkit.workspace = true\n", 1);
        manifest("ringfence-testkit", "[dependencies]\nringfence-sys.workspace = true\n", 0);
        manifest("ringfence-testkit", "[dependencies]\nringfence.workspace = true\n", 1);
    }

    #[test]
    fn pure_crates_use_what_is_listed() {
        manifest(
            "ringfence-surface",
            "[dependencies]\ntoml.workspace = true\n[dev-dependencies]\nproptest = \"1\"\n",
            0,
        );
        manifest("ringfence-surface", "[dependencies]\ntokio = \"1\"\n", 1);
        manifest("ringfence-surface", "[dependencies]\nquick.workspace = true\n", 1);
        manifest("ringfence-plan", "[dependencies]\ntoml = { package = \"libc\", version = \"0.2\" }\n", 1);
        manifest("ringfence-plan", "[build-dependencies]\ntoml = \"1\"\n", 1);
        manifest("ringfence-fs", "[dependencies]\nrustix = \"1\"\n", 0);
    }

    #[test]
    fn a_crate_has_a_place_and_a_name_that_says_something() {
        manifest("ringfence-core", "", 1);
        manifest("ringfence-utils", "", 1);
        manifest("ringfence-extras", "", 1);
        expect(check, &[file("crates/a/Cargo.toml", "[package]\n")], &["crates/a/Cargo.toml"]);
        expect(check, &[file("crates/a/Cargo.toml", "not toml")], &["crates/a/Cargo.toml"]);
    }

    #[test]
    fn the_lints_of_the_workspace_hold_everywhere() {
        let text = "[package]\nname = \"ringfence-fs\"\n";
        expect(check, &[file("crates/ringfence-fs/Cargo.toml", text)], &["crates/ringfence-fs/Cargo.toml"]);
    }

    #[test]
    fn lists_are_sorted() {
        assert!(EMPTY_NAMES.is_sorted());
        assert!(PURE_MAY_USE.is_sorted());
    }
}
