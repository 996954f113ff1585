//! `git`: which of its commands only look, and what must be switched off so that they do.
//!
//! A repository's configuration can name programs for nearly everything: a file system monitor, filters, drivers for diffs, hooks,
//! pagers. The fence keeps the configuration of the repositories in the project from being written. What is left is a directory
//! that somebody wrote to look like a bare repository, with a configuration of its own, and the index, which git refreshes by
//! the way: so git counts as read-only only with the settings of [`GIT_QUIET`] and without optional locks.

mod asks;

use super::super::arguments::{Argument, Count, Grammar, Stray, Taken, unknown};
use super::super::fault::Fault;
use super::super::judge::Judge;
use super::super::{GIT_QUIET, Git};

use asks::ASKS;

const BEFORE: Grammar = Grammar {
    short: "C:c:P",
    long: "glob-pathspecs icase-pathspecs literal-pathspecs no-optional-locks no-pager no-replace-objects version",
    stray: Stray::Refused,
};

/// Settings that may be given with `-c`, with any value.
const SETTINGS: &[&str] = &["color.diff", "color.ui", "core.quotePath", "core.quotepath", "diff.noprefix"];

/// Words with which `git branch` and `git tag` only list.
const LISTS: &[&str] = &["contains", "list", "merged", "no-contains", "no-merged", "points-at"];

pub(super) fn git(judge: &mut Judge<'_>, program: &Argument, words: &[Argument]) -> Result<(), Fault> {
    let (before, rest) = BEFORE.lead("git", words)?;
    if before.has(&["version"]) {
        return Ok(());
    }
    settings(&before)?;
    let Some((name, words)) = rest.split_first() else {
        return Err(Fault::new(&program.span, "`git` alone does nothing"));
    };
    let text = name.known().and_then(|text| std::str::from_utf8(text).ok()).unwrap_or_default();
    let Ok(at) = ASKS.binary_search_by_key(&text, |(name, _)| name) else {
        return Err(Fault::new(&name.span, format!("{} of `git` is not known to be read-only", name.shown())));
    };
    if judge.git == Git::AsItIs {
        quiet(&before, program)?;
    }
    let Some((_, grammar)) = ASKS.get(at) else { return Err(unknown("git", name)) };
    let taken = grammar.take(&format!("git {text}"), words).map_err(ended)?;
    formats(&taken)?;
    // With an option before it, what looks like a command of `git stash` may be a path.
    if matches!(text, "stash" | "worktree") && words.first().is_none_or(Argument::may_be_option) {
        return Err(Fault::new(&name.span, format!("`git {text}` may change the repository")));
    }
    operands(text, name, &taken)
}

/// Options are ended by a word of git's own where `--` comes before paths.
fn ended(fault: Fault) -> Fault {
    if fault.remedy.is_some() {
        fault.with("put `--end-of-options` before a revision, or `--` before a path")
    } else {
        fault
    }
}

/// What `-c` sets.
fn settings(before: &Taken<'_>) -> Result<(), Fault> {
    for (_, value) in before.options.iter().filter(|(name, _)| name == "c") {
        let Some(value) = value else { continue };
        let text = value.known().unwrap_or_default();
        let at = text.iter().position(|byte| *byte == b'=').unwrap_or(text.len());
        let (name, set) = (text.get(..at).unwrap_or_default(), text.get(at + 1..).unwrap_or_default());
        let is_quiet = GIT_QUIET.iter().any(|(known, only)| known.as_bytes() == name && only.as_bytes() == set);
        let is_known = SETTINGS.iter().any(|known| known.as_bytes() == name);
        if !is_quiet && !is_known && text != b"core.pager=cat" {
            return Err(Fault::new(&value.span, format!("the setting {} may make git run something", value.shown())));
        }
    }
    Ok(())
}

/// Does the command itself carry what the environment does not?
fn quiet(before: &Taken<'_>, program: &Argument) -> Result<(), Fault> {
    let has = |setting: &(&str, &str)| {
        let text = format!("{}={}", setting.0, setting.1);
        let is_set = |(name, value): &(String, Option<Argument>)| {
            name == "c" && value.as_ref().and_then(Argument::known) == Some(text.as_bytes())
        };
        before.options.iter().any(is_set)
    };
    if GIT_QUIET.iter().all(has) && before.has(&["no-optional-locks"]) {
        return Ok(());
    }
    let settings: Vec<String> = GIT_QUIET.iter().map(|(name, value)| format!("-c {name}={value}")).collect();
    let fault =
        Fault::new(&program.span, "`git` may run what a repository's configuration names, and refresh the index");
    Err(fault.with(format!("use `git --no-optional-locks {} ...`", settings.join(" "))))
}

/// Some placeholders of a format ask gpg.
fn formats(taken: &Taken<'_>) -> Result<(), Fault> {
    // Sorting may ask it too.
    let is_format = |name: &str| ["format", "pretty", "batch", "sort"].iter().any(|part| name.contains(part));
    for (_, value) in taken.options.iter().filter(|(name, _)| is_format(name)) {
        let Some(value) = value else { continue };
        let is_plain = value.known().is_some_and(|text| {
            !text.windows(2).any(|pair| pair == b"%G") && !text.windows(9).any(|window| window == b"signature")
        });
        if !is_plain {
            return Err(Fault::new(&value.span, format!("the format {} may ask gpg", value.shown())));
        }
    }
    // A merge that is made again to be compared is written.
    let merges =
        taken.options.iter().filter(|(name, _)| name.contains("diff-merges")).filter_map(|(_, value)| value.as_ref());
    let is_remade = |value: &&Argument| value.known().is_none_or(|text| text.starts_with(b"r"));
    merges.into_iter().find(is_remade).map_or(Ok(()), |value| Err(unknown("git", value)))
}

/// Words that turn a question into a change.
fn operands(name: &str, at: &Argument, taken: &Taken<'_>) -> Result<(), Fault> {
    let operands = taken.operands.as_slice();
    let first = operands.first().and_then(|word| word.known());
    let is_one_each = operands.iter().all(|word| word.count == Count::One);
    let is_fine = match name {
        "branch" => operands.is_empty() || taken.has(LISTS),
        "tag" => operands.is_empty() || taken.has(LISTS) || taken.has(&["l"]),
        "remote" => operands.is_empty() || (first == Some(b"get-url") && operands.len() == 2 && is_one_each),
        "reflog" => match first {
            None => operands.is_empty(),
            Some(text) => text == b"show" || text == b"list" || text.starts_with(b"HEAD"),
        },
        "stash" => matches!(first, Some(b"list" | b"show")),
        "worktree" => first == Some(b"list"),
        "symbolic-ref" => operands.len() == 1 && is_one_each,
        "config" if taken.has(&["get", "get-all", "get-regexp", "get-urlmatch", "list", "l"]) => true,
        "config" => {
            let is_key = first.is_some_and(|text| text.contains(&b'.') || text == b"list");
            operands.len() == 1 && is_one_each && is_key || first == Some(b"get") && operands.len() == 2 && is_one_each
        }
        _ => true,
    };
    if is_fine {
        return Ok(());
    }
    let at = operands.first().copied().unwrap_or(at);
    let fault = Fault::new(&at.span, format!("`git {name}` with {} may change the repository", at.shown()));
    Err(if matches!(name, "branch" | "tag") { fault.with("use `--list` to look") } else { fault })
}
