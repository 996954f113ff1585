//! `go.sum`: modules as they were downloaded. Go unpacks them itself and compares them with `go.sum` again.

use std::io;

use sha2::{Digest as _, Sha256};

use super::Job;
use super::text::{base64, hex, is_plain};

/// No `go.mod` is longer.
const MOST_MOD_BYTES: u64 = 16 << 20;

/// A line of `go.sum`: a module, or only its `go.mod`.
#[derive(Debug, PartialEq, Eq)]
struct Line<'l> {
    /// As the cache writes it: `!x` for `X`.
    escaped: String,
    version: &'l str,
    part: Part,
    hash: &'l str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Module,
    Mod,
}

fn lines(sum: &str) -> Vec<Line<'_>> {
    sum.lines().filter_map(parse).collect()
}

fn parse(line: &str) -> Option<Line<'_>> {
    let mut words = line.split(' ');
    let (module, version, hash) = (words.next()?, words.next()?, words.next()?);
    let (version, part) =
        version.strip_suffix("/go.mod").map_or((version, Part::Module), |version| (version, Part::Mod));
    let escaped = escape(module);
    let is_sound = is_plain(version.as_bytes()) && escaped.split('/').all(|part| is_plain(part.as_bytes()));
    (is_sound && hash.starts_with("h1:") && words.next().is_none()).then_some(Line { escaped, version, part, hash })
}

fn escape(module: &str) -> String {
    module
        .chars()
        .flat_map(|c| c.is_ascii_uppercase().then_some('!').into_iter().chain([c.to_ascii_lowercase()]))
        .collect()
}

/// The hash of a `go.mod` as `go.sum` has it: that of a list of files with their hashes.
fn mod_hash(content: &[u8]) -> String {
    let list = format!("{}  go.mod\n", hex(&Sha256::digest(content)));
    format!("h1:{}", base64(&Sha256::digest(list)))
}

impl Job {
    pub(super) fn go(&mut self) -> io::Result<()> {
        let sum = String::from_utf8(std::mem::take(&mut self.lock)).unwrap_or_default();
        for line in lines(&sum) {
            let dir = format!("{}/@v", line.escaped);
            if !self.is_what_the_sum_says(&line, &dir) {
                self.seeded.missing += 1;
                continue;
            }
            let into = self.into.below(dir.as_bytes())?;
            let endings: &[&str] = match line.part {
                Part::Mod => &["info", "mod"],
                Part::Module => &["info", "mod", "zip", "ziphash"],
            };
            let last = format!("{}.{}", line.version, endings.last().copied().unwrap_or_default());
            self.seeded.copied += usize::from(line.part == Part::Module && !into.has(last.as_bytes()));
            for ending in endings {
                let name = format!("{}.{ending}", line.version);
                self.beside(format!("{dir}/{name}").as_bytes(), &into, name.as_bytes())?;
            }
        }
        Ok(())
    }

    fn is_what_the_sum_says(&self, line: &Line<'_>, dir: &str) -> bool {
        let read =
            |ending: &str| self.from.read(format!("{dir}/{}.{ending}", line.version).as_bytes(), MOST_MOD_BYTES).ok();
        match line.part {
            Part::Module => read("ziphash").is_some_and(|hash| hash.trim_ascii() == line.hash.as_bytes()),
            Part::Mod => read("mod").is_some_and(|content| mod_hash(&content) == line.hash),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read() {
        let sum = "github.com/BurntSushi/toml v1.0.0 h1:ab=\ngithub.com/x/y v1.0.0/go.mod h1:cd=\n\
            ../evil v1 h1:x\na/../b v1 h1:x\na v1/../x h1:x\na v1 md5:x\na v1 h1:x y\n\n";
        let line = |escaped: &str, part, hash| Line { escaped: escaped.into(), version: "v1.0.0", part, hash };
        let expected =
            [line("github.com/!burnt!sushi/toml", Part::Module, "h1:ab="), line("github.com/x/y", Part::Mod, "h1:cd=")];
        assert_eq!(lines(sum), expected);
    }

    /// From a module that go downloaded.
    #[test]
    fn the_hash_of_a_mod_file() {
        let content = b"module example.com/lib\n\ngo 1.19\n";
        assert_eq!(mod_hash(content), "h1:HwqbfeMRqJtcNhqUwzjhPwsEB0Cr5U3U5sCLg7xgNyo=");
    }
}
