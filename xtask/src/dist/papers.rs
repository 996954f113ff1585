//! What a release says about itself: checksums, what it is made of (CycloneDX), and how it was made (in-toto, SLSA).

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::archive::{Entry, Time, sha256};
use super::{Made, REPOSITORY, Release, build, read, said};
use crate::steps::{Failure, cargo};

/// `SHA256SUMS`, as `sha256sum --check` reads it.
pub(super) fn checksums(made: &[Made]) -> Entry {
    let lines = entries(made).map(|entry| format!("{}  {}\n", sha256(&entry.bytes), entry.path));
    Entry::file("SHA256SUMS", lines.collect::<String>())
}

fn entries(made: &[Made]) -> impl Iterator<Item = &Entry> {
    made.iter().filter_map(|made| made.result.as_ref().ok())
}

/// Every crate that is compiled into the program, or runs while it is built, with its licence and checksum.
pub(super) fn sbom(release: &Release) -> Result<Entry, Failure> {
    let arguments = ["metadata", "--format-version", "1", "--locked", "--filter-platform", &release.triple];
    let metadata = said(&mut cargo(&release.root, &arguments))?;
    let metadata: Value =
        serde_json::from_str(&metadata).map_err(|cause| Failure::Found(format!("cargo metadata: {cause}")))?;
    let lock = String::from_utf8(read(&release.root.join("Cargo.lock"))?).unwrap_or_default();
    let sbom = bill(release, &metadata, &lock);
    Ok(Entry::file(format!("{}.cdx.json", release.name()), format!("{sbom:#}\n")))
}

fn bill(release: &Release, metadata: &Value, lock: &str) -> Value {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let packages: BTreeMap<String, Value> =
        list(&metadata["packages"]).into_iter().map(|package| (text(&package["id"]), package)).collect();
    let nodes: BTreeMap<String, Value> =
        list(&metadata["resolve"]["nodes"]).into_iter().map(|node| (text(&node["id"]), node)).collect();
    let needed = |node: &Value| {
        let is_built = |dep: &&Value| list(&dep["dep_kinds"]).iter().any(|kind| kind["kind"] != "dev");
        list(&node["deps"]).iter().filter(is_built).map(|dep| text(&dep["pkg"])).collect::<Vec<_>>()
    };
    let own = packages.iter().find(|(_, package)| package["name"] == "ringfence").map(|(id, _)| id.clone());
    let mut found = BTreeSet::new();
    let mut queue: Vec<String> = own.clone().into_iter().collect();
    while let Some(id) = queue.pop() {
        if found.insert(id.clone()) {
            queue.extend(nodes.get(&id).map(needed).unwrap_or_default());
        }
    }
    let url = |id: &str| {
        let package = &packages[id];
        format!("pkg:cargo/{}@{}", text(&package["name"]), text(&package["version"]))
    };
    let sums = sums(lock);
    let component = |id: &String| {
        let (package, url) = (&packages[id], url(id));
        let mut component = json!({
            "type": if Some(id) == own.as_ref() { "application" } else { "library" },
            "bom-ref": url,
            "name": package["name"],
            "version": package["version"],
            "purl": url,
            "licenses": [{ "expression": text(&package["license"]).replace('/', " OR ") }],
        });
        if let Some(sum) = sums.get(&(text(&package["name"]), text(&package["version"]))) {
            component["hashes"] = json!([{ "alg": "SHA-256", "content": sum }]);
        }
        component
    };
    let (main, others): (Vec<&String>, Vec<&String>) = found.iter().partition(|id| Some(*id) == own.as_ref());
    let mut components: Vec<Value> = others.into_iter().map(component).collect();
    components.sort_by_key(|component| component["purl"].to_string());
    let mut dependencies: Vec<Value> = found
        .iter()
        .map(|id| {
            let mut on: Vec<String> = nodes.get(id).map(needed).unwrap_or_default().iter().map(|id| url(id)).collect();
            on.sort();
            json!({ "ref": url(id), "dependsOn": on })
        })
        .collect();
    dependencies.sort_by_key(|dependency| dependency["ref"].to_string());
    json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "serialNumber": serial(&sha256(format!("{}{lock}{}", release.commit, release.triple).as_bytes())),
        "metadata": {
            "timestamp": date(release.time),
            "component": main.first().map(|id| component(id)),
        },
        "components": components,
        "dependencies": dependencies,
    })
}

/// The checksums of the lock file, by name and version.
fn sums(lock: &str) -> BTreeMap<(String, String), String> {
    let value = |block: &str, key: &str| {
        let line = block.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(" = \"")?.strip_suffix('"'));
        line.map(str::to_owned)
    };
    let blocks = lock.split("[[package]]").skip(1);
    blocks
        .filter_map(|block| Some(((value(block, "name")?, value(block, "version")?), value(block, "checksum")?)))
        .collect()
}

/// A UUID that depends on the content alone (RFC 9562, version 8).
fn serial(hash: &str) -> String {
    let parts =
        [&hash[..8], &hash[8..12], &format!("8{}", &hash[13..16]), &format!("8{}", &hash[17..20]), &hash[20..32]];
    format!("urn:uuid:{}", parts.join("-"))
}

/// How the release was made, as an in-toto statement with SLSA's predicate. It is not signed here: who publishes a release signs it.
pub(super) fn provenance(release: &Release, made: &[Made]) -> Result<Entry, Failure> {
    let subjects =
        entries(made).map(|entry| json!({ "name": entry.path, "digest": { "sha256": sha256(&entry.bytes) } }));
    let subjects: Vec<Value> = subjects.collect();
    let lock = read(&release.root.join("Cargo.lock"))?;
    let Time(time) = release.time;
    let statement = json!({
        "_type": "https://in-toto.io/Statement/v1",
        "subject": subjects,
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": format!("{REPOSITORY}/blob/main/xtask/src/dist.rs"),
                "externalParameters": {
                    "command": "cargo xtask dist",
                    "profile": release.profile,
                    "target": release.triple,
                },
                "internalParameters": {
                    "compiler": build::compiler()?.trim_end().lines().collect::<Vec<_>>(),
                    "SOURCE_DATE_EPOCH": time,
                },
                "resolvedDependencies": [
                    { "uri": format!("git+{REPOSITORY}@{}", release.commit), "digest": { "gitCommit": release.commit } },
                    { "name": "Cargo.lock", "digest": { "sha256": sha256(&lock) } },
                ],
            },
            "runDetails": { "builder": { "id": format!("{REPOSITORY}/blob/main/xtask") } },
        },
    });
    Ok(Entry::file(format!("{}.intoto.json", release.name()), format!("{statement:#}\n")))
}

/// In UTC, as ISO 8601 has it.
fn date(Time(time): Time) -> String {
    // The calendar's days from those since 1970, by years that begin in March.
    let (days, rest) = (time / 86_400 + 719_468, time % 86_400);
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year + era * 400 + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", rest / 3600, rest / 60 % 60, rest % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(date(Time(0)), "1970-01-01T00:00:00Z");
        assert_eq!(date(Time(951_827_696)), "2000-02-29T12:34:56Z");
        assert_eq!(date(Time(1_767_225_599)), "2025-12-31T23:59:59Z");
    }

    #[test]
    fn checksums_are_read_from_the_lock_file() {
        let lock = "[[package]]\nname = \"a\"\nversion = \"1.0.0\"\nchecksum = \"ff\"\n\n[[package]]\nname = \"b\"\nversion = \"2.0.0\"\n";
        let sums = sums(lock);
        assert_eq!(sums.get(&("a".to_owned(), "1.0.0".to_owned())).map(String::as_str), Some("ff"));
        assert_eq!(sums.len(), 1);
    }

    #[test]
    fn a_serial_number_has_the_form_of_one() {
        let serial = serial(&sha256(b""));
        assert_eq!(serial, "urn:uuid:e3b0c442-98fc-8c14-8afb-f4c8996fb924");
    }
}
