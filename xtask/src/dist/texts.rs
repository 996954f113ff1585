//! Manual pages and completions, as the program itself prints them.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::archive::{Entry, gzip};
use super::{build, said, target_directory};
use crate::steps::{Failure, cargo, must_succeed};

/// Completions by the place in which their shell looks for them.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "share/bash-completion/completions/ringfence"),
    ("zsh", "share/zsh/site-functions/_ringfence"),
    ("fish", "share/fish/vendor_completions.d/ringfence.fish"),
];

/// All of them, below a prefix.
pub(super) fn of(root: &Path, program: &Path, triple: &str) -> Result<Vec<Entry>, Failure> {
    let program = runnable(root, program, triple)?;
    let mut entries = Vec::new();
    for (shell, path) in COMPLETIONS {
        entries.push(Entry::file(path, said(Command::new(&program).args(["completions", shell]))?));
    }
    // Each page names those of the commands below it.
    let mut pages = vec![Vec::<String>::new()];
    while let Some(words) = pages.pop() {
        let page = said(Command::new(&program).arg("man").args(&words))?;
        let name = std::iter::once("ringfence").chain(words.iter().map(String::as_str)).collect::<Vec<_>>().join("-");
        pages.extend(named(&page, &name).into_iter().map(|inner| [words.as_slice(), &[inner]].concat()));
        entries.push(Entry::file(format!("share/man/man1/{name}.1.gz"), gzip(page.as_bytes())));
    }
    if entries.len() < 13 {
        return Err(Failure::Found(format!("there are only {} manual pages", entries.len() - COMPLETIONS.len())));
    }
    entries.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(entries)
}

/// The program itself, or one for this machine that prints the same.
fn runnable(root: &Path, program: &Path, triple: &str) -> Result<PathBuf, Failure> {
    if triple.split('-').next() == build::host()?.split('-').next() {
        return Ok(program.to_owned());
    }
    must_succeed(&mut cargo(root, &["build", "--locked", "-p", "ringfence"]))?;
    Ok(target_directory(root).join("debug/ringfence"))
}

/// The commands below this one that have a page of their own, by what its page says of them.
fn named(page: &str, name: &str) -> Vec<String> {
    let plain = page.lines().map(|line| line.replace("\\-", "-"));
    plain.filter_map(|line| Some(line.strip_prefix(name)?.strip_prefix('-')?.strip_suffix("(1)")?.to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_read() {
        let text = ".TP\nringfence\\-run(1)\nRun\n.TP\nringfence\\-jail\\-exec(1)\n.TP\nfork(2)\n";
        assert_eq!(named(text, "ringfence"), ["run", "jail-exec"]);
    }
}
