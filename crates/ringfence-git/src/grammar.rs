//! The content of the small files below a git directory.
//!
//! Shell prompts expand them (`msgnum`), old versions of git source them (`author-script`), new ones execute what they name
//! (`strategy`, `exec` in a list of steps). Each grammar is the narrowest that what git itself writes fits into.

use std::collections::HashSet;

use crate::layout::Grammar;
use crate::ref_name::{is_inert, is_valid};

/// Git writes less; a file of packed refs may be large.
pub const LONGEST: usize = 64 << 20;

/// What a well-formed file refers to. The caller knows the file system and decides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reference {
    /// Nothing outside the file.
    None,
    /// The content of `commondir`.
    CommonDir(Vec<u8>),
    /// The `.git` file of a linked work tree.
    WorkTreeFile(Vec<u8>),
    /// Directories of objects.
    ObjectDirectories(Vec<Vec<u8>>),
}

/// Why content is not accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// It has a line that the grammar does not know.
    #[error("line {line} is not what git writes there")]
    Line {
        /// Counted from 1.
        line: usize,
    },
    /// A step of a rebase would run a command.
    #[error("line {line} runs a command")]
    Command {
        /// Counted from 1.
        line: usize,
    },
    /// A name has characters that a shell or a prompt expands.
    #[error("line {line} has a name that a shell could expand")]
    Name {
        /// Counted from 1.
        line: usize,
    },
    /// It is longer than anything that git writes there.
    #[error("it is longer than what git writes there")]
    Long,
}

/// Judges the new content of a file. `before` is what the file holds now: what the user has left there may stay.
///
/// # Errors
/// [`Fault`], with the first line that does not fit.
pub fn judge(grammar: Grammar, text: &[u8], before: &[u8]) -> Result<Reference, Fault> {
    if text.len() > longest(grammar) {
        return Err(Fault::Long);
    }
    if text == before && !text.is_empty() {
        return Ok(Reference::None);
    }
    match grammar {
        Grammar::Head | Grammar::LooseRef => exactly_one_line(text, is_ref_value),
        Grammar::PseudoRef => each_line(text, |line| is_ref_value(line) || is_sign_of_merge(line)),
        Grammar::PackedRefs => packed_refs(text, before),
        Grammar::ObjectIds => each_line(text, |line| line.split(|byte| *byte == b' ').all(is_object_id)),
        Grammar::Number => exactly_one_line(text, |line| line.len() < 10 && line.iter().all(u8::is_ascii_digit)),
        Grammar::HeadName => one_line(text, |line| line == b"detached HEAD" || is_object_id(line) || is_updated(line)),
        Grammar::Todo => todo(text, before),
        Grammar::AuthorScript => each_line(text, is_author_line),
        Grammar::Strategy => one_line(text, |line| STRATEGIES.contains(&line)),
        Grammar::StrategyOptions => options(text, is_strategy_option),
        Grammar::SigningOption => one_line(text, is_signing_option),
        Grammar::ApplyOptions => options(text, is_apply_option),
        Grammar::SequencerOptions => sequencer_options(text),
        Grammar::Flag => each_line(text, is_flag),
        Grammar::RefUpdates => each_line(text, |line| is_object_id(line) || is_updated(line) || line.is_empty()),
        Grammar::BisectTerms => each_line(text, |line| is_name(line) && !line.starts_with(b"-")),
        Grammar::QuotedWords => each_line(text, |line| {
            quoted_words(line)
                .is_some_and(|words| words.iter().all(|word| word.first() != Some(&b'-') || word == b"--"))
        }),
        Grammar::BisectLog => each_line(text, is_bisect_line),
        Grammar::CommonDir => one_path(text).map(Reference::CommonDir),
        Grammar::WorkTreeFile => one_path(text).map(Reference::WorkTreeFile),
        Grammar::Alternates => alternates(text),
    }
}

fn longest(grammar: Grammar) -> usize {
    match grammar {
        Grammar::PackedRefs => LONGEST,
        Grammar::Todo | Grammar::ObjectIds | Grammar::PseudoRef | Grammar::BisectLog | Grammar::RefUpdates => 16 << 20,
        _ => 64 << 10,
    }
}

/// The lines of a text; what follows the last line end is no line if it is empty.
fn lines(text: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let text = text.strip_suffix(b"\n").unwrap_or(text);
    let lines = text.split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    lines.enumerate().map(|(number, line)| (number + 1, line)).filter(move |_| !text.is_empty())
}

fn each_line(text: &[u8], fits: impl Fn(&[u8]) -> bool) -> Result<Reference, Fault> {
    match lines(text).find(|(_, line)| !fits(line)) {
        Some((line, _)) => Err(Fault::Line { line }),
        None => Ok(Reference::None),
    }
}

/// Exactly one line. Git takes a directory with an empty `HEAD` for none, and acts on the repository above it.
fn exactly_one_line(text: &[u8], fits: impl Fn(&[u8]) -> bool) -> Result<Reference, Fault> {
    match lines(text).next() {
        Some((_, line)) if !line.is_empty() => one_line(text, fits),
        _ => Err(Fault::Line { line: 1 }),
    }
}

/// One line, or none.
fn one_line(text: &[u8], fits: impl Fn(&[u8]) -> bool) -> Result<Reference, Fault> {
    if lines(text).nth(1).is_some() {
        return Err(Fault::Line { line: 2 });
    }
    each_line(text, fits)
}

fn one_path(text: &[u8]) -> Result<Vec<u8>, Fault> {
    let path = text.strip_suffix(b"\n").unwrap_or(text);
    let path = path.strip_suffix(b"\r").unwrap_or(path);
    if path.is_empty() || path.iter().any(|byte| *byte < b' ') {
        Err(Fault::Line { line: 1 })
    } else {
        Ok(path.to_vec())
    }
}

fn is_object_id(word: &[u8]) -> bool {
    matches!(word.len(), 40 | 64) && word.iter().all(u8::is_ascii_hexdigit)
}

/// A commit as people and git abbreviate it.
fn is_short_id(word: &[u8]) -> bool {
    (4..=64).contains(&word.len()) && word.iter().all(u8::is_ascii_hexdigit)
}

/// A ref, or the name of a label: nothing in it is expanded by a shell or taken for an option.
fn is_name(word: &[u8]) -> bool {
    !word.is_empty() && word.first() != Some(&b'-') && is_inert(word)
}

/// A ref that git may update by itself: no replacement of an object.
fn is_updated(word: &[u8]) -> bool {
    is_name(word) && !replaces_object(word)
}

/// Is this a replacement of an object? A file system may fold names.
fn replaces_object(name: &[u8]) -> bool {
    name.to_ascii_lowercase().starts_with(b"refs/replace")
}

fn is_ref_value(line: &[u8]) -> bool {
    let line = line.trim_ascii_end();
    match line.strip_prefix(b"ref:") {
        Some(target) => {
            // Git reads no more than the beginning of `HEAD` to find out whether a directory is a repository.
            let target = target.strip_prefix(b" ").unwrap_or(target);
            // A clone that is being made has no branch yet.
            target == b"refs/heads/.invalid"
                || target.starts_with(b"refs/") && is_valid(target) && is_inert(target) && !replaces_object(target)
        }
        None => is_object_id(line),
    }
}

/// `MERGE_HEAD` may say more behind an id, and `NOTES_MERGE_REF` is the name of a ref.
fn is_sign_of_merge(line: &[u8]) -> bool {
    let (id, rest) = line.split_at(line.iter().position(|byte| *byte == b'\t').unwrap_or(line.len()));
    is_object_id(id) && !rest.iter().any(|byte| *byte < b' ' && *byte != b'\t')
        || line.starts_with(b"refs/") && is_updated(line)
}

/// A name that was there may have characters that a new one may not: it is the user's.
fn packed_refs(text: &[u8], before: &[u8]) -> Result<Reference, Fault> {
    let mut old: Option<HashSet<&[u8]>> = None;
    for (number, line) in lines(text) {
        let fault = Fault::Line { line: number };
        match line {
            [b'#', rest @ ..] if rest.iter().all(|byte| (b' '..0x7f).contains(byte)) => {}
            [b'^', id @ ..] if is_object_id(id) => {}
            _ => {
                let space = line.iter().position(|byte| *byte == b' ').ok_or(fault.clone())?;
                let (id, name) = (&line[..space], &line[space + 1..]);
                if !is_object_id(id) || !is_valid(name) {
                    return Err(fault);
                }
                // One object in the place of another: only those that the user has.
                if name.starts_with(b"refs/replace/") && !lines(before).any(|(_, old)| old == line) {
                    return Err(Fault::Name { line: number });
                }
                let is_old = |name: &[u8]| old.get_or_insert_with(|| packed_names(before)).contains(name);
                if !is_inert(name) && !{ is_old }(name) {
                    return Err(Fault::Name { line: number });
                }
            }
        }
    }
    Ok(Reference::None)
}

fn packed_names(text: &[u8]) -> HashSet<&[u8]> {
    let name = |(_, line): (usize, &'_ [u8])| line.iter().position(|byte| *byte == b' ').map(|space| space + 1);
    lines(text).filter_map(|(number, line)| Some(&line[name((number, line))?..])).collect()
}

/// Steps of an interactive rebase, of a cherry-pick or a revert.
fn todo(text: &[u8], before: &[u8]) -> Result<Reference, Fault> {
    for (number, line) in lines(text) {
        let line = line.trim_ascii();
        let mut words = line.split(|byte| byte.is_ascii_whitespace()).filter(|word| !word.is_empty());
        let Some(command) = words.next() else { continue };
        // The user's own command of a rebase that the user began.
        let is_left = || lines(before).any(|(_, old)| old.trim_ascii() == line);
        let mut words = words.peekable();
        let option: &[&[u8]] = match command {
            b"fixup" | b"f" | b"merge" | b"m" => &[b"-C", b"-c"],
            _ => &[],
        };
        while words.next_if(|word| option.contains(word)).is_some() {}
        let first = words.next();
        let is_commit = |word: Option<&[u8]>| word.is_some_and(|word| is_short_id(word) || is_name(word));
        let fits = match command {
            [b'#' | b';', ..] => true,
            b"exec" | b"x" => {
                if is_left() {
                    continue;
                }
                return Err(Fault::Command { line: number });
            }
            b"noop" | b"break" | b"b" => first.is_none_or(|word| word.starts_with(b"#")),
            b"pick" | b"p" | b"revert" | b"edit" | b"e" | b"reword" | b"r" | b"fixup" | b"f" | b"squash" | b"s"
            | b"drop" | b"d" => is_commit(first),
            b"update-ref" | b"u" => first.is_some_and(is_updated),
            b"label" | b"l" | b"reset" | b"t" => {
                first == Some(b"[new") && words.next().is_some_and(|word| word == b"root]") || is_commit(first)
            }
            b"merge" | b"m" => is_commit(first),
            _ => false,
        };
        if !fits {
            return Err(Fault::Line { line: number });
        }
    }
    Ok(Reference::None)
}

fn is_author_line(line: &[u8]) -> bool {
    const NAMES: &[&[u8]] = &[b"GIT_AUTHOR_NAME=", b"GIT_AUTHOR_EMAIL=", b"GIT_AUTHOR_DATE="];
    let value = NAMES.iter().find_map(|name| line.strip_prefix(*name));
    value.is_some_and(|value| quoted_words(value).is_some_and(|words| words.len() == 1))
}

/// Words as git quotes them for a shell: `'it'\''s' 'more'`. Nothing outside the quotes but blanks, `\'` and `\!`.
fn quoted_words(line: &[u8]) -> Option<Vec<Vec<u8>>> {
    let (mut words, mut rest) = (Vec::new(), line.trim_ascii());
    while !rest.is_empty() {
        let mut word = Vec::new();
        loop {
            rest = match rest {
                [b'\'', after @ ..] => {
                    let end = after.iter().position(|byte| *byte == b'\'')?;
                    word.extend(&after[..end]);
                    &after[end + 1..]
                }
                [b'\\', quoted @ (b'\'' | b'!'), after @ ..] => {
                    word.push(*quoted);
                    after
                }
                [] | [b' ' | b'\t', ..] => break,
                _ => return None,
            };
        }
        words.push(word);
        rest = rest.trim_ascii_start();
    }
    Some(words)
}

/// `git merge-NAME` is executed for any other.
const STRATEGIES: &[&[u8]] = &[b"octopus", b"ort", b"ours", b"recursive", b"resolve", b"subtree"];

/// Options in quotes, or one a line.
fn options(text: &[u8], fits: impl Fn(&[u8]) -> bool) -> Result<Reference, Fault> {
    each_line(text, |line| {
        let plain =
            || line.split(|byte| byte.is_ascii_whitespace()).filter(|word| !word.is_empty()).map(<[u8]>::to_vec);
        let words = quoted_words(line).unwrap_or_else(|| plain().collect());
        words.iter().all(|word| fits(word))
    })
}

fn is_strategy_option(word: &[u8]) -> bool {
    let word = word.strip_prefix(b"--").unwrap_or(word);
    let (name, value) = split_value(word);
    match name {
        b"ours"
        | b"theirs"
        | b"patience"
        | b"histogram"
        | b"renormalize"
        | b"no-renormalize"
        | b"no-renames"
        | b"ignore-space-change"
        | b"ignore-all-space"
        | b"ignore-space-at-eol"
        | b"ignore-cr-at-eol" => value.is_none(),
        b"find-renames" | b"rename-threshold" => {
            value.is_none_or(|value| value.iter().all(|b| b.is_ascii_digit() || *b == b'%'))
        }
        b"diff-algorithm" => value.is_some_and(|value| value.iter().all(u8::is_ascii_lowercase)),
        b"subtree" => value.is_none_or(is_name),
        _ => false,
    }
}

fn is_apply_option(word: &[u8]) -> bool {
    let (name, value) = split_value(word);
    let is_number = |digits: &[u8]| digits.len() < 10 && digits.iter().all(u8::is_ascii_digit);
    match name {
        b"--reject" | b"--ignore-space-change" | b"--ignore-whitespace" => value.is_none(),
        b"--whitespace" => value.is_some_and(|value| value.iter().all(|b| b.is_ascii_lowercase() || *b == b'-')),
        b"--directory" | b"--exclude" | b"--include" => {
            value.is_some_and(|value| is_name(value) && !value.split(|b| *b == b'/').any(|name| name == b".."))
        }
        [b'-', b'C' | b'p', digits @ ..] => value.is_none() && is_number(digits),
        _ => false,
    }
}

fn split_value(word: &[u8]) -> (&[u8], Option<&[u8]>) {
    match word.iter().position(|byte| *byte == b'=') {
        Some(at) => (&word[..at], Some(&word[at + 1..])),
        None => (word, None),
    }
}

/// The key is an argument of the user's own signing program.
fn is_signing_option(line: &[u8]) -> bool {
    let Some(key) = line.strip_prefix(b"-S") else { return line.is_empty() || line == b"--no-gpg-sign" };
    key.first() != Some(&b'-') && key.iter().all(|byte| byte.is_ascii_alphanumeric() || b"@._-+".contains(byte))
}

fn is_flag(line: &[u8]) -> bool {
    line.len() < 200 && line.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_=. ".contains(byte))
}

fn is_bisect_line(line: &[u8]) -> bool {
    if line.is_empty() || line.first() == Some(&b'#') {
        return !line.iter().any(|byte| *byte < b' ' && *byte != b'\t');
    }
    let Some(rest) = line.strip_prefix(b"git bisect ") else { return false };
    let end = rest.iter().position(|byte| *byte == b' ').unwrap_or(rest.len());
    let words = &rest[end..];
    let is_word = |word: &[u8]| is_name(word) || is_object_id(word);
    is_name(&rest[..end])
        && (quoted_words(words).is_some()
            || words.split(|byte| *byte == b' ').filter(|word| !word.is_empty()).all(is_word))
}

/// `sequencer/opts`: git reads it as a configuration file.
fn sequencer_options(text: &[u8]) -> Result<Reference, Fault> {
    let entries = crate::config::parse_whole(text).ok_or(Fault::Line { line: 1 })?;
    let fits = |entry: &crate::config::Entry| {
        let value = entry.value.as_deref().unwrap_or(b"true");
        entry.section == b"options"
            && entry.subsection.is_none()
            && match entry.name.as_slice() {
                b"no-commit"
                | b"edit"
                | b"allow-empty"
                | b"allow-empty-message"
                | b"keep-redundant-commits"
                | b"drop-redundant-commits"
                | b"signoff"
                | b"record-origin"
                | b"allow-ff"
                | b"allow-rerere-auto" => {
                    matches!(value, b"true" | b"false")
                }
                b"mainline" => !value.is_empty() && value.len() < 6 && value.iter().all(u8::is_ascii_digit),
                b"strategy" => STRATEGIES.contains(&value),
                b"strategy-option" => is_strategy_option(value),
                b"gpg-sign" => is_signing_option(&[b"-S", value].concat()),
                b"default-msg-cleanup" => value.iter().all(u8::is_ascii_lowercase),
                _ => false,
            }
    };
    match entries.iter().position(|entry| !fits(entry)) {
        Some(at) => Err(Fault::Line { line: at + 2 }),
        None => Ok(Reference::None),
    }
}

fn alternates(text: &[u8]) -> Result<Reference, Fault> {
    let mut directories = Vec::new();
    for (number, line) in lines(text) {
        match line {
            [] | [b'#', ..] => {}
            // A quoted path: git understands escapes in it.
            [b'"', ..] => return Err(Fault::Line { line: number }),
            _ if line.iter().any(|byte| *byte < b' ') => return Err(Fault::Line { line: number }),
            _ => directories.push(line.to_vec()),
        }
    }
    Ok(Reference::ObjectDirectories(directories))
}

/// The git directory that a `.git` file names.
pub fn git_file(text: &[u8]) -> Option<&[u8]> {
    let path = text.strip_prefix(b"gitdir:")?;
    // Git skips one blank, and takes all the rest but line ends.
    let path = path.strip_prefix(b" ")?;
    let end = path.iter().rposition(|byte| !matches!(byte, b'\n' | b'\r')).map_or(0, |last| last + 1);
    let path = &path[..end];
    (!path.is_empty() && !path.iter().any(|byte| *byte < b' ')).then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_must_not_be_empty_has_exactly_one_line() {
        for grammar in [Grammar::Head, Grammar::LooseRef, Grammar::Number] {
            for text in [b"".as_slice(), b"\n", b"\n\n", b"\r\n"] {
                assert!(judge(grammar, text, b"1\n").is_err(), "{grammar:?} {text:?}");
            }
        }
        assert_eq!(judge(Grammar::Head, b"ref:refs/heads/main\n", b""), Ok(Reference::None));
        // Git reads 255 bytes to find out whether the directory is a repository.
        let long = [b"ref:".as_slice(), &[b' '; 300], b"refs/heads/main\n"].concat();
        assert!(judge(Grammar::Head, &long, b"").is_err());
    }

    #[test]
    fn a8_no_state_of_git_names_a_replacement_of_an_object() {
        let id = "0123456789012345678901234567890123456789";
        for name in [format!("refs/replace/{id}"), format!("refs/Replace/{id}")] {
            assert!(judge(Grammar::Head, format!("ref: {name}\n").as_bytes(), b"").is_err());
            assert!(judge(Grammar::LooseRef, format!("ref: {name}\n").as_bytes(), b"").is_err());
            assert!(judge(Grammar::HeadName, format!("{name}\n").as_bytes(), b"").is_err());
            assert!(judge(Grammar::RefUpdates, format!("{name}\n{id}\n{id}\n").as_bytes(), b"").is_err());
            assert!(judge(Grammar::Todo, format!("update-ref {name}\n").as_bytes(), b"").is_err());
            assert!(judge(Grammar::PseudoRef, format!("{name}\n").as_bytes(), b"").is_err());
        }
        assert!(judge(Grammar::RefUpdates, format!("refs/heads/x\n{id}\n{id}\n").as_bytes(), b"").is_ok());
        assert!(judge(Grammar::Todo, b"update-ref refs/heads/x\n", b"").is_ok());
        assert!(judge(Grammar::HeadName, b"refs/heads/x\n", b"").is_ok());
    }

    const ID: &str = "0123456789abcdef0123456789abcdef01234567";

    #[track_caller]
    fn check(grammar: Grammar, text: &str, expected: bool) {
        let text = text.replace("ID", ID);
        assert_eq!(judge(grammar, text.as_bytes(), b"").is_ok(), expected, "{grammar:?}: {text:?}");
    }

    #[test]
    fn what_git_writes_fits() {
        check(Grammar::Head, "ref: refs/heads/main\n", true);
        check(Grammar::Head, "ID\n", true);
        check(Grammar::Head, "ref: refs/heads/.invalid\n", true);
        check(Grammar::LooseRef, "ID\n", true);
        check(Grammar::LooseRef, "ref: refs/remotes/origin/main\n", true);
        check(Grammar::PseudoRef, "ID\nID\n", true);
        check(Grammar::PackedRefs, "# pack-refs with: peeled fully-peeled sorted \nID refs/heads/main\n^ID\n", true);
        check(Grammar::ObjectIds, "ID\n", true);
        check(Grammar::ObjectIds, "ID ID\nID ID\n", true);
        check(Grammar::Number, "12\n", true);
        check(Grammar::Number, "12", true);
        check(Grammar::HeadName, "refs/heads/topic/a-b_c.d\n", true);
        check(Grammar::HeadName, "detached HEAD\n", true);
        let steps = "pick ID # one; $(two)\nr 0123abc three\nfixup -C 0123abc x\nlabel onto\nreset onto\nreset [new root]\nmerge -C 0123abc topic # Merge\nupdate-ref refs/heads/x\nbreak\nnoop\n\n# Rebase\n";
        check(Grammar::Todo, steps, true);
        check(
            Grammar::AuthorScript,
            "GIT_AUTHOR_NAME='O'\\''Neill $(x)'\nGIT_AUTHOR_EMAIL='a@b'\nGIT_AUTHOR_DATE='@1 +0000'\n",
            true,
        );
        check(Grammar::Strategy, "ort\n", true);
        check(Grammar::StrategyOptions, " '--ours' '--find-renames=50%'\n", true);
        check(Grammar::StrategyOptions, "--theirs\n", true);
        check(Grammar::SigningOption, "-S\n", true);
        check(Grammar::ApplyOptions, " '--whitespace=fix' '-C3' '-p1' '--directory=sub/dir'\n", true);
        check(
            Grammar::SequencerOptions,
            "[options]\n\tmainline = 1\n\tstrategy = ort\n\tstrategy-option = theirs\n",
            true,
        );
        check(Grammar::Flag, "t\n", true);
        check(Grammar::Flag, "", true);
        check(Grammar::RefUpdates, "refs/heads/x\nID\nID\n", true);
        check(Grammar::BisectTerms, "bad\ngood\n", true);
        check(Grammar::QuotedWords, " 'src/a b' 'c'\n", true);
        check(
            Grammar::BisectLog,
            "git bisect start\n# status: waiting\ngit bisect bad ID\ngit bisect start 'HEAD' 'v1'\n",
            true,
        );
    }

    #[test]
    fn what_would_run_or_expand_does_not() {
        check(Grammar::Head, "ref: ../../evil\n", false);
        check(Grammar::Head, "ref: refs/../config\n", false);
        check(Grammar::Head, "ref: refs/heads/$(touch${IFS}x)\n", false);
        check(Grammar::Head, "ref: HEAD\n", false);
        check(Grammar::Head, "[core]\nfsmonitor = x\n", false);
        check(Grammar::LooseRef, "$(x)\n", false);
        check(Grammar::PackedRefs, "ID refs/heads/`x`\n", false);
        check(Grammar::PackedRefs, "ID ../config\n", false);
        check(Grammar::PackedRefs, "ID refs/replace/ID\n", false);
        check(Grammar::PackedRefs, "#\u{1b}]0;x\n", false);
        check(Grammar::ObjectIds, "ID;x\n", false);
        check(Grammar::Number, "$(x)\n", false);
        check(Grammar::Number, "1\n$(x)\n", false);
        check(Grammar::Number, "\n1\n", false);
        check(Grammar::HeadName, "$(x)\n", false);
        check(Grammar::Todo, "exec x\n", false);
        check(Grammar::Todo, "pick ID\n\t x touch y\n", false);
        check(Grammar::Todo, "pick $(x)\n", false);
        check(Grammar::Todo, "evil ID\n", false);
        check(Grammar::AuthorScript, "GIT_AUTHOR_NAME=$(x)\n", false);
        check(Grammar::AuthorScript, "GIT_AUTHOR_NAME='a';x\n", false);
        check(Grammar::AuthorScript, "PATH='a'\n", false);
        check(Grammar::AuthorScript, "GIT_AUTHOR_NAME='a\n", false);
        check(Grammar::Strategy, "x/../e.sh\n", false);
        check(Grammar::StrategyOptions, "--exec=x\n", false);
        check(Grammar::SigningOption, "-S--batch\n", false);
        check(Grammar::SigningOption, "-Sa;b\n", false);
        check(Grammar::ApplyOptions, " '--unsafe-paths'\n", false);
        check(Grammar::ApplyOptions, " '--directory=../x'\n", false);
        check(Grammar::SequencerOptions, "[options]\n\tstrategy = x\n", false);
        check(Grammar::SequencerOptions, "[core]\n\tfsmonitor = x\n", false);
        check(Grammar::Flag, "$(x)\n", false);
        check(Grammar::RefUpdates, "$(x)\n", false);
        check(Grammar::BisectTerms, "--x\n", false);
        check(Grammar::QuotedWords, " '--output=x'\n", false);
        check(Grammar::QuotedWords, " $(x)\n", false);
        check(Grammar::BisectLog, "touch x\n", false);
        check(Grammar::BisectLog, "git bisect start; x\n", false);
        check(Grammar::CommonDir, "a\nb\n", false);
        check(Grammar::CommonDir, "", false);
    }

    /// A rebase with `exec` that the user began can be continued inside, step by step.
    #[test]
    fn what_the_user_left_stays() {
        let before = b"pick 0123abc\nexec make check\npick 0123abd\nexec make check\n";
        assert!(judge(Grammar::Todo, b"exec make check\npick 0123abd\nexec make check\n", before).is_ok());
        assert!(judge(Grammar::Todo, b"exec make install\n", before).is_err());
        let before = format!("{ID} refs/heads/a$b\n");
        assert!(
            judge(Grammar::PackedRefs, format!("{before}{ID} refs/heads/c\n").as_bytes(), before.as_bytes()).is_ok()
        );
        assert!(
            judge(Grammar::PackedRefs, format!("{before}{ID} refs/heads/c$\n").as_bytes(), before.as_bytes()).is_err()
        );
    }

    #[test]
    fn the_git_directory_that_a_file_names() {
        assert_eq!(git_file(b"gitdir: ../.git/worktrees/x\n"), Some(b"../.git/worktrees/x".as_slice()));
        assert_eq!(git_file(b"gitdir: /a b\n\n"), Some(b"/a b".as_slice()));
        for text in ["gitdir:", "gitdir: \n", "x", "gitdir: a\nb", ""] {
            assert_eq!(git_file(text.as_bytes()), None, "{text}");
        }
    }
}
