//! `find`: an expression of tests and actions, some of which delete, write or start programs.

use super::super::arguments::{Argument, Count, unknown};
use super::super::fault::Fault;
use super::super::judge::Judge;
use super::starters::replaced;

/// Words that stand alone.
const ALONE: &[&str] = &[
    "!",
    "(",
    ")",
    ",",
    "-a",
    "-and",
    "-d",
    "-daystart",
    "-depth",
    "-empty",
    "-executable",
    "-false",
    "-follow",
    "-ignore_readdir_race",
    "-ls",
    "-mount",
    "-nogroup",
    "-noleaf",
    "-not",
    "-nouser",
    "-nowarn",
    "-o",
    "-or",
    "-print",
    "-print0",
    "-prune",
    "-quit",
    "-readable",
    "-true",
    "-warn",
    "-writable",
    "-xdev",
];

/// Words that one more follows.
const WITH_VALUE: &[&str] = &[
    "-amin",
    "-anewer",
    "-atime",
    "-cmin",
    "-cnewer",
    "-ctime",
    "-fstype",
    "-gid",
    "-group",
    "-ilname",
    "-iname",
    "-inum",
    "-ipath",
    "-iregex",
    "-iwholename",
    "-links",
    "-lname",
    "-maxdepth",
    "-mindepth",
    "-mmin",
    "-mtime",
    "-name",
    "-newer",
    "-newerXY",
    "-path",
    "-perm",
    "-printf",
    "-regex",
    "-regextype",
    "-samefile",
    "-size",
    "-type",
    "-uid",
    "-used",
    "-user",
    "-wholename",
    "-xtype",
];

pub(super) fn find(judge: &mut Judge<'_>, _: &Argument, words: &[Argument]) -> Result<(), Fault> {
    let mut rest = words;
    // `-H`, `-L` and `-P` stand before the places.
    while let Some((first, after)) = rest.split_first() {
        if !matches!(first.known(), Some(b"-H" | b"-L" | b"-P" | b"-E")) {
            break;
        }
        rest = after;
    }
    let is_place = |word: &&Argument| match word.known() {
        Some(text) => !text.starts_with(b"-") && !matches!(text, b"(" | b")" | b"!" | b","),
        None => !word.may_be_option(),
    };
    let places: Vec<&Argument> = rest.iter().take_while(is_place).collect();
    let start = places.first().map_or(b".".to_vec(), |place| place.text.iter().take(1).copied().collect());
    expression(judge, rest.get(places.len()..).unwrap_or_default(), &start)
}

fn expression(judge: &mut Judge<'_>, words: &[Argument], start: &[u8]) -> Result<(), Fault> {
    let mut rest = words;
    while let Some((word, after)) = rest.split_first() {
        let text = word.known().and_then(|text| std::str::from_utf8(text).ok()).unwrap_or_default();
        if ALONE.binary_search(&text).is_ok() {
            rest = after;
        } else if WITH_VALUE.binary_search(&text).is_ok() || text.starts_with("-newer") {
            let Some((value, after)) = after.split_first() else { return Err(unknown("find", word)) };
            if value.count != Count::One {
                let fault = Fault::new(&value.span, format!("{} may become other actions of `find`", value.shown()));
                return Err(fault.with("put it in quotes"));
            }
            rest = after;
        } else if matches!(text, "-exec" | "-execdir") {
            rest = started(judge, word, after, if text == "-exec" { start } else { b"" })?;
        } else {
            return Err(unknown("find", word));
        }
    }
    Ok(())
}

/// A command that is started for what is found, up to `;` or `+`. What is found begins as the place does where it was looked for.
fn started<'a>(
    judge: &mut Judge<'_>,
    action: &Argument,
    words: &'a [Argument],
    start: &[u8],
) -> Result<&'a [Argument], Fault> {
    let is_end = |word: &Argument| matches!(word.known(), Some(b";" | b"+"));
    let Some(end) = words.iter().position(is_end) else { return Err(unknown("find", action)) };
    let is_many = words.get(end).and_then(Argument::known) == Some(b"+");
    // After anything else a `+` is a word like another, and what follows belongs to the command.
    let is_after_found = end.checked_sub(1).and_then(|at| words.get(at)).and_then(Argument::known) == Some(b"{}");
    if is_many && !is_after_found {
        return Err(unknown("find", action));
    }
    let command: Vec<Argument> = words.iter().take(end).map(|word| found(word, start, is_many)).collect();
    if command.is_empty() {
        return Err(unknown("find", action));
    }
    judge.run(&command)?;
    Ok(words.get(end + 1..).unwrap_or_default())
}

fn found(word: &Argument, start: &[u8], is_many: bool) -> Argument {
    let mut word = replaced(word, b"{}");
    if word.known().is_none() && word.text.is_empty() {
        word.text = start.to_vec();
    }
    if word.known().is_none() && is_many && word.count == Count::One {
        word.count = Count::Several;
    }
    word
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_sorted() {
        assert!(ALONE.is_sorted() && WITH_VALUE.is_sorted());
    }
}
