//! Which programs are read-only, and with which arguments. Tables as data; what a table cannot say is a function beside it.

mod awk;
mod find;
mod git;
mod others;
mod plain;
mod refused;
mod sed;
mod starters;

use super::arguments::{Argument, Count, Grammar};
use super::builtins::BUILTINS;
use super::fault::{Fault, shown};
use super::judge::Judge;

/// A rule of its own: the program as it was written, and its arguments.
pub(super) type Special = fn(&mut Judge<'_>, &Argument, &[Argument]) -> Result<(), Fault>;

/// How many operands are harmless.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operands {
    Any,
    None,
    /// A second one would be written, and some implementations take what follows the first for it.
    OneLast,
}

/// A program that its options and the number of its operands say all about.
#[derive(Debug, Clone, Copy)]
struct Row {
    name: &'static str,
    grammar: Grammar,
    operands: Operands,
}

/// Directories whose programs are those of the tables.
const SYSTEM: [&[u8]; 2] = [b"/bin/", b"/usr/bin/"];

/// Programs with rules of their own, sorted by name.
const SPECIAL: &[(&str, Special)] = &[
    ("awk", awk::awk),
    ("date", others::date),
    ("find", find::find),
    ("gawk", awk::awk),
    ("getent", others::getent),
    ("git", git::git),
    ("mawk", awk::awk),
    ("nawk", awk::awk),
    ("sed", sed::sed),
    ("tar", others::tar),
    ("tee", others::tee),
    ("tree", others::tree),
    ("unzip", others::unzip),
    ("xxd", others::xxd),
];

/// Is this program read-only with these arguments?
pub(super) fn check(judge: &mut Judge<'_>, name: &[u8], program: &Argument, words: &[Argument]) -> Result<(), Fault> {
    let bare = SYSTEM.iter().find_map(|system| name.strip_prefix(*system)).unwrap_or(name);
    let bare = std::str::from_utf8(bare).unwrap_or_default();
    for table in [BUILTINS, SPECIAL, starters::STARTERS] {
        if let Ok(at) = table.binary_search_by_key(&bare, |(name, _)| name) {
            return table.get(at).map_or(Ok(()), |(_, special)| special(judge, program, words));
        }
    }
    if let Ok(at) = plain::PLAIN.binary_search_by_key(&bare, |row| row.name) {
        return plain::PLAIN.get(at).map_or(Ok(()), |row| row.check(words));
    }
    if others::tells_version(bare, words) {
        return Ok(());
    }
    Err(match refused::why(bare) {
        Some((why, "")) => Fault::new(&program.span, format!("{} {why}", shown(name))),
        Some((why, remedy)) => Fault::new(&program.span, format!("{} {why}", shown(name))).with(remedy),
        None => Fault::new(&program.span, format!("{} is not known to be read-only", shown(name))),
    })
}

impl Row {
    fn check(&self, words: &[Argument]) -> Result<(), Fault> {
        let taken = self.grammar.take(self.name, words)?;
        let is_last = |word: &Argument| words.last().is_some_and(|last| std::ptr::eq(last, word));
        match (self.operands, taken.operands.as_slice()) {
            (Operands::Any, _) | (_, []) => Ok(()),
            (Operands::OneLast, [word]) if word.count == Count::One && is_last(word) => Ok(()),
            (_, [.., word]) => Err(self.too_many(word)),
        }
    }

    fn too_many(&self, word: &Argument) -> Fault {
        Fault::new(&word.span, format!("{} may be something that `{}` changes", word.shown(), self.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_sorted() {
        assert!(SPECIAL.is_sorted_by_key(|(name, _)| *name));
    }
}
