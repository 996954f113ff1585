//! `package-lock.json`: npm keeps each package under its hash, and looks there first.

use std::io;

use super::Job;
use super::text::{from_base64, hex};

/// Every hash in the file: `"integrity": "sha512-..."`.
fn hashes(lock: &str) -> Vec<String> {
    let mut found = Vec::new();
    for rest in lock.split("\"integrity\"").skip(1) {
        let value =
            rest.trim_start_matches([' ', ':', '\t', '\n']).strip_prefix('"').and_then(|rest| rest.split('"').next());
        for word in value.unwrap_or_default().split(' ') {
            let digest = word.strip_prefix("sha512-").and_then(|text| from_base64(text.as_bytes()));
            found.extend(digest.filter(|digest| digest.len() == 64).map(|digest| hex(&digest)));
        }
    }
    found.sort_unstable();
    found.dedup();
    found
}

impl Job {
    pub(super) fn npm(&mut self) -> io::Result<()> {
        let lock = String::from_utf8(std::mem::take(&mut self.lock)).unwrap_or_default();
        for hash in hashes(&lock) {
            let dir = format!("content-v2/sha512/{}/{}", &hash[..2], &hash[2..4]);
            let name = &hash[4..];
            let Some(file) = self.open(format!("{dir}/{name}").as_bytes()) else {
                self.seeded.missing += 1;
                continue;
            };
            let into = self.into.below(dir.as_bytes())?;
            if !into.has(name.as_bytes()) {
                into.copy(name.as_bytes(), &file)?;
                self.seeded.copied += 1;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_found() {
        let (one, two) = ([7; 64], [9; 64]);
        let text = super::super::text::base64;
        let lock = format!(
            "{{\"a\": {{\"integrity\": \"sha512-{}\"}}, \"b\": {{\"integrity\":\"sha1-xx sha512-{}\"}}, \"c\": {{\"integrity\": \"sha512-../..\"}}, \"integrity\": 3}}",
            text(&one),
            text(&two)
        );
        assert_eq!(hashes(&lock), [hex(&one), hex(&two)]);
        assert!(hashes("\"integrity\"").is_empty());
    }
}
