//! The marked block in a shell's start file, as text: putting it in and taking it out. Nothing is read or written here.

use crate::cli::Shell;

/// How the start file was before, which the block records: only so can it be restored byte for byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Before {
    /// It was empty, or its last line was complete.
    Complete,
    /// Its last line had no newline.
    NoNewline,
    /// There was no file.
    NoFile,
    /// There was no file, nor its directory.
    NoDirectory,
}

impl Before {
    const ALL: [Self; 4] = [Self::Complete, Self::NoNewline, Self::NoFile, Self::NoDirectory];

    fn line(self) -> &'static str {
        match self {
            Self::Complete => "# Before: the file ended here.",
            Self::NoNewline => "# Before: the file ended here, without a newline.",
            Self::NoFile => "# Before: there was no such file.",
            Self::NoDirectory => "# Before: there was no such file, nor its directory.",
        }
    }
}

const BEGIN: &str = "# >>> ringfence shell-install >>>";
const END: &str = "# <<< ringfence shell-install <<<";
const ABOUT: &str =
    "# `ringfence shell-uninstall` takes these lines out. `command NAME` starts a program without ringfence.";

/// Where the block is in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Found {
    start: usize,
    end: usize,
    pub(super) before: Before,
}

/// A block that we would not write so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Broken;

/// Looks for the block. One that was edited at its edges, or that is there twice, is left to the user.
pub(super) fn find(text: &[u8]) -> Result<Option<Found>, Broken> {
    let (mut begin, mut end, mut before) = (None, None, None);
    let mut at = 0;
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        let next = at + line.len();
        let is = |wanted: &str| line.strip_suffix(b"\n").unwrap_or(line) == wanted.as_bytes();
        if is(BEGIN) {
            if begin.replace(at).is_some() {
                return Err(Broken);
            }
        } else if is(END) {
            if begin.is_none() || end.replace(next).is_some() {
                return Err(Broken);
            }
        } else if begin.is_some() && end.is_none() {
            before = before.or_else(|| Before::ALL.into_iter().find(|before| is(before.line())));
        }
        at = next;
    }
    match (begin, end, before) {
        (None, None, _) => Ok(None),
        (Some(start), Some(end), Some(before)) => Ok(Some(Found { start, end, before })),
        _ => Err(Broken),
    }
}

/// The file with the block: in the place of an earlier one, otherwise at the end.
pub(super) fn install(text: &[u8], found: Option<Found>, before: Before, block: &str) -> Vec<u8> {
    match found {
        Some(Found { start, end, .. }) => [&text[..start], block.as_bytes(), &text[end..]].concat(),
        None if before == Before::NoNewline => [text, b"\n", block.as_bytes()].concat(),
        None => [text, block.as_bytes()].concat(),
    }
}

/// The file without it. What the user has written before or after the block stays.
pub(super) fn uninstall(text: &[u8], found: Found) -> Vec<u8> {
    let (mut head, tail) = (&text[..found.start], &text[found.end..]);
    if found.before == Before::NoNewline && tail.is_empty() {
        head = head.strip_suffix(b"\n").unwrap_or(head);
    }
    [head, tail].concat()
}

/// The block, with a function for each name. `program` is how the shell starts ringfence, quoted where it needs to be.
pub(super) fn block(shell: Shell, program: &str, names: &[String], before: Before) -> String {
    let functions = names.iter().map(|name| function(shell, program, name));
    let lines = [BEGIN.to_owned(), ABOUT.to_owned(), before.line().to_owned()].into_iter();
    lines.chain(functions).chain([END.to_owned()]).map(|line| line + "\n").collect()
}

/// The names in the block, in its order.
pub(super) fn names(text: &[u8], found: Found) -> Vec<String> {
    let lines = text[found.start..found.end].split(|byte| *byte == b'\n');
    let name = |line: &[u8]| {
        let rest = line.strip_prefix(b"function ")?;
        let name = rest.split(|byte| *byte == b' ').next()?;
        String::from_utf8(name.to_vec()).ok().filter(|name| is_usable(name))
    };
    lines.filter_map(name).collect()
}

fn function(shell: Shell, program: &str, name: &str) -> String {
    match shell {
        // An alias would be expanded before a function is looked for; `function NAME` keeps it from being expanded here.
        Shell::Bash | Shell::Zsh => {
            format!("unalias {name} 2>/dev/null || :\nfunction {name} {{ command {program} run -- {name} \"$@\"; }}")
        }
        Shell::Fish => format!("function {name}\n    command {program} run -- {name} $argv\nend"),
    }
}

/// A path as one word. Each of the three shells reads `'` so; fish also reads `\` within quotes.
pub(super) fn quoted(shell: Shell, path: &str) -> String {
    match shell {
        Shell::Bash | Shell::Zsh => format!("'{}'", path.replace('\'', "'\\''")),
        Shell::Fish => format!("'{}'", path.replace('\\', "\\\\").replace('\'', "\\'")),
    }
}

/// Whether a function may have this name: it is one plain word in all three shells, and nothing that the shell or the block itself
/// needs.
pub(super) fn is_usable(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    name.bytes().all(is_plain) && name.starts_with(|c: char| c.is_ascii_alphabetic()) && !TAKEN.contains(&name)
}

/// Words of the shells, and what they find programs with. Sorted.
const TAKEN: &[&str] = &[
    "alias",
    "and",
    "autoload",
    "begin",
    "bind",
    "break",
    "builtin",
    "case",
    "cd",
    "command",
    "complete",
    "continue",
    "coproc",
    "declare",
    "do",
    "done",
    "echo",
    "elif",
    "else",
    "emulate",
    "end",
    "esac",
    "eval",
    "exec",
    "exit",
    "export",
    "fg",
    "fi",
    "for",
    "foreach",
    "function",
    "functions",
    "hash",
    "if",
    "in",
    "jobs",
    "kill",
    "let",
    "local",
    "nocorrect",
    "noglob",
    "not",
    "or",
    "printf",
    "read",
    "readonly",
    "repeat",
    "return",
    "ringfence",
    "select",
    "set",
    "shift",
    "source",
    "status",
    "string",
    "switch",
    "test",
    "then",
    "time",
    "trap",
    "true",
    "type",
    "typeset",
    "ulimit",
    "umask",
    "unalias",
    "unset",
    "until",
    "wait",
    "while",
];

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: [&str; 2] = ["claude", "codex"];

    fn names() -> Vec<String> {
        NAMES.map(str::to_owned).to_vec()
    }

    #[track_caller]
    fn check(text: &[u8], before: Before) {
        let block = block(Shell::Bash, "ringfence", &names(), before);
        let once = install(text, None, before, &block);
        let found = find(&once).unwrap().unwrap();
        assert_eq!(found.before, before);
        assert_eq!(super::names(&once, found), names());
        assert_eq!(uninstall(&once, found), text);
        assert_eq!(install(&once, Some(found), found.before, &block), once, "twice is once");
        let with_more = [once.as_slice(), b"export A=1\n"].concat();
        let rest = uninstall(&with_more, find(&with_more).unwrap().unwrap());
        assert!(rest.starts_with(text) && rest.ends_with(b"\nexport A=1\n") || text.is_empty(), "{rest:?}");
    }

    #[test]
    fn what_was_there_is_restored() {
        check(b"", Before::Complete);
        check(b"", Before::NoFile);
        check(b"alias a=b\n", Before::Complete);
        check(b"alias a=b", Before::NoNewline);
        check(b"\n\n", Before::Complete);
        check(b"a\r\nb\r\n\xff\xfe", Before::NoNewline);
    }

    #[test]
    fn the_names_in_a_block_are_those_it_was_made_of() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let text = block(shell, "ringfence", &names(), Before::Complete).into_bytes();
            assert_eq!(super::names(&text, find(&text).unwrap().unwrap()), NAMES);
        }
    }

    #[test]
    fn a_block_that_was_edited_at_its_edges_is_left_alone() {
        let block = block(Shell::Zsh, "ringfence", &names(), Before::Complete);
        for broken in [
            block.replace(END, ""),
            block.replace(BEGIN, ""),
            block.replace(Before::Complete.line(), ""),
            format!("{block}{block}"),
            format!("{END}\n{BEGIN}\n"),
        ] {
            assert_eq!(find(broken.as_bytes()), Err(Broken), "{broken}");
        }
    }

    #[test]
    fn names_are_plain_words() {
        for name in ["claude", "codex", "gemini", "qwen-code", "gpt4.1", "my_agent"] {
            assert!(is_usable(name), "{name}");
        }
        for name in
            ["", "-a", "a b", "a;b", "$(a)", "a'", "a\nb", "if", "command", "ringfence", "1a", "é", "../a", "a/b"]
        {
            assert!(!is_usable(name), "{name}");
        }
        assert!(TAKEN.is_sorted());
    }

    #[test]
    fn paths_are_one_word() {
        assert_eq!(quoted(Shell::Bash, "/a b/it's"), r"'/a b/it'\''s'");
        assert_eq!(quoted(Shell::Fish, r"/a\b/it's"), r"'/a\\b/it\'s'");
    }
}
