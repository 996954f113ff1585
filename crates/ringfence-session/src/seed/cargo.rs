//! `Cargo.lock`: archives and the lines of the index that speak of them. Cargo unpacks the archives itself. Dependencies from git
//! repositories are not copied: they come as whole repositories.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use sha2::{Digest as _, Sha256};

use super::Job;
use super::text::{hex, is_plain};

/// A package of a registry, or of several with different checksums.
#[derive(Debug, PartialEq, Eq)]
struct Package {
    name: String,
    version: String,
    checksums: BTreeSet<String>,
}

/// Cargo writes one key to a line, in this order: name, version, source, checksum.
fn packages(lock: &str) -> Vec<Package> {
    let mut found: BTreeMap<_, BTreeSet<String>> = BTreeMap::new();
    let (mut name, mut version) = (None, None);
    for line in lock.lines() {
        let value = |key: &str| line.strip_prefix(key)?.strip_prefix(" = \"")?.strip_suffix('"').map(str::to_owned);
        if line == "[[package]]" {
            (name, version) = (None, None);
        } else if let Some(value) = value("name") {
            name = Some(value);
        } else if let Some(value) = value("version") {
            version = Some(value);
        } else if let Some(checksum) = value("checksum")
            && let (Some(name), Some(version)) = (name.take(), version.take())
            && is_plain(name.as_bytes())
            && is_plain(version.as_bytes())
        {
            found.entry((name, version)).or_default().insert(checksum);
        }
    }
    let package = |((name, version), checksums)| Package { name, version, checksums };
    found.into_iter().map(package).collect()
}

/// Where the index keeps a package's lines: `se/rd/serde`, `3/c/cfg`, `2/cc`, `1/a`.
fn index_path(name: &str) -> (String, String) {
    let name = name.to_lowercase();
    let dir = match name.len() {
        1 | 2 => name.len().to_string(),
        3 => format!("3/{}", &name[..1]),
        _ => format!("{}/{}", &name[..2], &name[2..4]),
    };
    (dir, name)
}

impl Job {
    pub(super) fn cargo(&mut self) -> io::Result<()> {
        let lock = String::from_utf8(std::mem::take(&mut self.lock)).unwrap_or_default();
        let registries: Vec<Vec<u8>> = self.from.names(b"cache").into_iter().filter(|name| is_plain(name)).collect();
        for package in packages(&lock) {
            let mut found = false;
            for registry in &registries {
                found |= self.crate_of(&package, registry)?;
            }
            self.seeded.missing += usize::from(!found);
        }
        Ok(())
    }

    /// Whether the project has the package from this registry now.
    fn crate_of(&mut self, package: &Package, registry: &[u8]) -> io::Result<bool> {
        let file = format!("{}-{}.crate", package.name, package.version).into_bytes();
        let archives = self.into.below(&[b"cache/", registry].concat())?;
        if archives.has(&file) {
            return Ok(true);
        }
        let path = [b"cache/".as_slice(), registry, b"/", &file].concat();
        let Some(mut archive) = self.open(&path) else { return Ok(false) };
        let mut hasher = Sha256::new();
        io::copy(&mut archive, &mut Hashing(&mut hasher))?;
        if !package.checksums.contains(&hex(&hasher.finalize())) {
            return Ok(false);
        }
        io::Seek::rewind(&mut archive)?;
        let (dir, name) = index_path(&package.name);
        let index = [b"index/", registry].concat();
        let into = self.into.below(&index)?;
        self.beside(&[index.as_slice(), b"/config.json"].concat(), &into, b"config.json")?;
        let lines = into.below(format!(".cache/{dir}").as_bytes())?;
        let path = [index.as_slice(), format!("/.cache/{dir}/{name}").as_bytes()].concat();
        self.beside(&path, &lines, name.as_bytes())?;
        // Last, since it is what tells that the package is there.
        archives.copy(&file, &archive)?;
        self.seeded.copied += 1;
        Ok(true)
    }
}

/// Takes what is written into a hash.
struct Hashing<'h>(&'h mut Sha256);

impl io::Write for Hashing<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_file_is_read() {
        let lock = "version = 4\n\n[[package]]\nname = \"own\"\nversion = \"0.1.0\"\n\n[[package]]\nname = \"cfg-if\"\n\
            version = \"1.0.0\"\nsource = \"registry+x\"\nchecksum = \"ab\"\ndependencies = [\n \"libc\",\n]\n\n\
            [[package]]\nname = \"../evil\"\nversion = \"1\"\nchecksum = \"cd\"\n";
        let package = |checksums: &[&str]| Package {
            name: "cfg-if".into(),
            version: "1.0.0".into(),
            checksums: checksums.iter().map(|text| (*text).to_owned()).collect(),
        };
        assert_eq!(packages(lock), [package(&["ab"])]);
        // However often a package is named, its archive is hashed once: it may be large, and the lock file is the project's.
        let again = "[[package]]\nname = \"cfg-if\"\nversion = \"1.0.0\"\nchecksum = \"ef\"\n";
        assert_eq!(packages(&format!("{lock}{again}{again}")), [package(&["ab", "ef"])]);
    }

    #[test]
    fn places_in_the_index() {
        for (name, dir) in [("a", "1"), ("cc", "2"), ("cfg", "3/c"), ("serde", "se/rd"), ("Inflector", "in/fl")] {
            assert_eq!(index_path(name), (dir.to_owned(), name.to_lowercase()));
        }
    }
}
