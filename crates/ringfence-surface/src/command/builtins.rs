//! What a shell does itself: tests, `printf`, `read`, `set` and their kin.
//!
//! Several of these evaluate what they are given. bash runs `a[$(rm x)]` after `-v`, and zsh wherever a number is expected, so a
//! number must be seen to be one.

use super::arguments::{Argument, Count, Grammar, Stray, unknown};
use super::fault::{Fault, Span};
use super::programs::Special;
use super::syntax::Word;
use super::variables;

/// Builtins with rules of their own, sorted by name.
pub(super) const BUILTINS: &[(&str, Special)] = &[
    (":", anything),
    ("[", bracket),
    ("break", number),
    ("cd", anything),
    ("continue", number),
    ("dirs", anything),
    ("echo", anything),
    ("exit", number),
    ("export", export),
    ("false", anything),
    ("jobs", jobs),
    ("mapfile", lines),
    ("popd", anything),
    ("printf", printf),
    ("pushd", anything),
    ("pwd", anything),
    ("read", read),
    ("readarray", lines),
    ("return", number),
    ("set", set),
    ("shift", number),
    ("shopt", shopt),
    ("test", test),
    ("times", anything),
    ("true", anything),
    ("type", anything),
    ("unset", unset),
    ("wait", number),
];

/// Tests of one word. `-v` and `-R` evaluate theirs.
const UNARY: &[&[u8]] = &[
    b"-G", b"-L", b"-N", b"-O", b"-S", b"-b", b"-c", b"-d", b"-e", b"-f", b"-g", b"-h", b"-k", b"-n", b"-p", b"-r",
    b"-s", b"-t", b"-u", b"-w", b"-x", b"-z",
];

/// Comparisons of two words as they are.
const BINARY: &[&[u8]] = &[b"!=", b"-ef", b"-nt", b"-ot", b"<", b"=", b"==", b"=~"];

/// Comparisons of two numbers.
const NUMERIC: &[&[u8]] = &[b"-eq", b"-ge", b"-gt", b"-le", b"-lt", b"-ne"];

/// Options of `shopt` that change only which names a pattern stands for.
const PATTERN_OPTIONS: &[&[u8]] = &[b"dotglob", b"failglob", b"globstar", b"nocaseglob", b"nullglob"];

type Checked = Result<(), Fault>;

fn anything(_: &mut super::judge::Judge<'_>, _: &Argument, _: &[Argument]) -> Checked {
    Ok(())
}

/// `jobs -x` starts a command.
fn jobs(_: &mut super::judge::Judge<'_>, _: &Argument, words: &[Argument]) -> Checked {
    let is_known = |word: &&Argument| matches!(word.known(), Some(b"-l" | b"-p" | b"-r" | b"-s"));
    words.iter().find(|word| !is_known(word)).map_or(Ok(()), |word| Err(unknown("jobs", word)))
}

/// `exit`, `break`: a number, which zsh evaluates.
fn number(_: &mut super::judge::Judge<'_>, program: &Argument, words: &[Argument]) -> Checked {
    match words.iter().find(|word| !word.is_number) {
        Some(word) => Err(Fault::new(&word.span, format!("{} takes a number, not {}", program.shown(), word.shown()))),
        None => Ok(()),
    }
}

fn bracket(judge: &mut super::judge::Judge<'_>, program: &Argument, words: &[Argument]) -> Checked {
    match words.split_last() {
        Some((last, words)) if last.known() == Some(b"]") => test(judge, program, words),
        _ => Err(Fault::new(&program.span, "`[` has no `]`")),
    }
}

fn test(_: &mut super::judge::Judge<'_>, _: &Argument, words: &[Argument]) -> Checked {
    if let Some(word) = words.iter().find(|word| word.count != Count::One) {
        let fault =
            Fault::new(&word.span, format!("{} may become another test, and some tests run code", word.shown()));
        return Err(fault.with("put it in double quotes"));
    }
    let mut words = words;
    while let Some((first, rest)) = words.split_first().filter(|(first, _)| first.known() == Some(b"!")) {
        let _ = first;
        words = rest;
    }
    match words {
        [] | [_] => Ok(()),
        [operator, operand] => match operator.known() {
            Some(text) if UNARY.contains(&text) => descriptor(text, operand),
            _ => Err(not_a_test(operator)),
        },
        [left, operator, right] => compare(left, operator.known(), operator, right),
        words => {
            let is_plain = |word: &Argument| {
                word.known().is_some_and(|t| !matches!(t, b"-v" | b"-R" | b"-t" | b"=~") && !NUMERIC.contains(&t))
            };
            match words.iter().find(|word| !is_plain(word)) {
                Some(word) => Err(not_a_test(word).with("use one `[ ]` for each test, with `&&` between them")),
                None => Ok(()),
            }
        }
    }
}

/// zsh evaluates what `-t` is given.
fn descriptor(operator: &[u8], operand: &Argument) -> Checked {
    if operator != b"-t" || operand.is_number {
        return Ok(());
    }
    Err(Fault::new(&operand.span, format!("zsh runs commands that {} may hold", operand.shown())).with("use a number"))
}

fn compare(left: &Argument, text: Option<&[u8]>, operator: &Argument, right: &Argument) -> Checked {
    match text {
        Some(text) if BINARY.contains(&text) => Ok(()),
        Some(text) if NUMERIC.contains(&text) => match [left, right].into_iter().find(|side| !side.is_number) {
            Some(side) => Err(Fault::new(&side.span, format!("zsh runs commands that {} may hold", side.shown()))
                .with("compare as text, with `=`")),
            None => Ok(()),
        },
        _ => Err(not_a_test(operator)),
    }
}

fn not_a_test(word: &Argument) -> Fault {
    Fault::new(&word.span, format!("{} is not understood in a test", word.shown()))
}

/// `[[ ]]`. A shell without it runs a program of that name, which there is none of, and takes `&&` and `||` for its own: so
/// what follows them must be no program either.
pub(super) fn double_bracket(span: &Span, words: &[Word], arguments: &[Argument]) -> Checked {
    let operators: Vec<Option<&[u8]>> = words.iter().map(Word::bare).collect();
    let mut at = 0;
    let mut is_first = true;
    loop {
        if is_first {
            while operators.get(at) == Some(&Some(b"!")) {
                at += 1;
            }
        }
        let (Some(operator), Some(argument)) = (operators.get(at), arguments.get(at)) else {
            return Err(Fault::new(span, "a test is missing in `[[ ]]`"));
        };
        match (operator, operators.get(at + 1).copied().flatten(), arguments.get(at + 1)) {
            (Some(text), next, Some(operand)) if UNARY.contains(text) && !is_connective(next) => {
                if next.is_some_and(|next| BINARY.contains(&next) || NUMERIC.contains(&next)) {
                    return Err(not_a_test(operand));
                }
                descriptor(text, operand)?;
                at += 2;
            }
            _ if !is_first => {
                let fault = Fault::new(&argument.span, format!("another shell would run {}", argument.shown()));
                return Err(fault.with("use one `[[ ]]` for each test, with `&&` between them"));
            }
            (_, Some(binary), Some(operator)) if !is_connective(Some(binary)) => {
                let Some(right) = arguments.get(at + 2) else { return Err(not_a_test(operator)) };
                compare(argument, Some(binary), operator, right)?;
                at += 3;
            }
            _ if operators.get(at + 1).is_none_or(|next| is_connective(*next)) => at += 1,
            _ => return Err(not_a_test(argument)),
        }
        match operators.get(at) {
            None => return Ok(()),
            Some(connective) if is_connective(*connective) => at += 1,
            Some(_) => return Err(Fault::new(span, "this is not understood inside `[[ ]]`")),
        }
        is_first = false;
    }
}

fn is_connective(operator: Option<&[u8]>) -> bool {
    matches!(operator, Some(b"&&" | b"||"))
}

/// `printf FORMAT ...`. zsh evaluates what `%d` is given.
fn printf(_: &mut super::judge::Judge<'_>, program: &Argument, words: &[Argument]) -> Checked {
    let words = match words.split_first() {
        Some((first, rest)) if first.known() == Some(b"--") => rest,
        _ => words,
    };
    let Some((format, values)) = words.split_first() else { return Ok(()) };
    let Some(text) = format.known().filter(|text| text.first() != Some(&b'-')) else {
        let reason = format!("{} may be an option of {} that sets a variable", format.shown(), program.shown());
        return Err(Fault::new(&format.span, reason).with("use `printf '%s\\n' ...`"));
    };
    let Some(needs_numbers) = needs_numbers(text) else {
        return Err(Fault::new(&format.span, format!("the format {} is not understood", format.shown())));
    };
    match values.iter().find(|value| needs_numbers && !value.is_number) {
        Some(value) => {
            let reason = format!("zsh runs commands that {} may hold when it prints a number", value.shown());
            Err(Fault::new(&value.span, reason).with("use %s"))
        }
        None => Ok(()),
    }
}

/// Whether a format has conversions of numbers; nothing if it has one that is not known.
fn needs_numbers(format: &[u8]) -> Option<bool> {
    let (mut bytes, mut numbers) = (format.iter(), false);
    while let Some(byte) = bytes.next() {
        if *byte != b'%' {
            continue;
        }
        let conversion = bytes.find(|byte| !matches!(byte, b'0'..=b'9' | b'-' | b'+' | b' ' | b'#' | b'.' | b'\''))?;
        match conversion {
            b's' | b'b' | b'c' | b'q' | b'%' => {}
            b'd' | b'i' | b'o' | b'u' | b'x' | b'X' | b'e' | b'E' | b'f' | b'F' | b'g' | b'G' => numbers = true,
            _ => return None,
        }
    }
    Some(numbers)
}

const READ: Grammar = Grammar { short: "rsn:N:d:t:u:p:a:", long: "", stray: Stray::Refused };

fn read(_: &mut super::judge::Judge<'_>, _: &Argument, words: &[Argument]) -> Checked {
    // A name that is not a word of its own is not counted among those that are assigned.
    let hides_name = |word: &&Argument| {
        let at = word.text.iter().position(|byte| *byte == b'a');
        word.text.first() == Some(&b'-') && at.is_some_and(|at| at + 1 < word.text.len())
    };
    if let Some(word) = words.iter().find(hides_name) {
        return Err(unknown("read", word));
    }
    let taken = READ.take("read", words)?;
    for (name, value) in &taken.options {
        match (name.as_str(), value) {
            ("a", Some(value)) => variables::check_name(value.known().unwrap_or_default(), &value.span)?,
            ("p" | "d", _) | (_, None) => {}
            (_, Some(value)) if value.is_number || value.known().is_some_and(is_decimal) => {}
            (_, Some(value)) => return Err(unknown("read", value)),
        }
    }
    names(&taken.operands)
}

fn is_decimal(text: &[u8]) -> bool {
    !text.is_empty() && text.iter().all(|byte| byte.is_ascii_digit() || *byte == b'.')
}

const LINES: Grammar = Grammar { short: "td:", long: "", stray: Stray::Refused };

fn lines(_: &mut super::judge::Judge<'_>, _: &Argument, words: &[Argument]) -> Checked {
    let taken = LINES.take("mapfile", words)?;
    // Without a name it sets MAPFILE.
    names(&taken.operands)
}

fn unset(_: &mut super::judge::Judge<'_>, _: &Argument, words: &[Argument]) -> Checked {
    names(&words.iter().collect::<Vec<_>>())
}

fn names(words: &[&Argument]) -> Checked {
    words.iter().try_for_each(|word| variables::check_name(word.known().unwrap_or_default(), &word.span))
}

fn export(_: &mut super::judge::Judge<'_>, _: &Argument, words: &[Argument]) -> Checked {
    words.iter().try_for_each(|word| {
        let text = word.known().unwrap_or_default();
        let at = text.iter().position(|byte| *byte == b'=').unwrap_or(text.len());
        let value = Argument::literal(text.get(at + 1..).unwrap_or(b"?"), &word.span);
        variables::check_given(text.get(..at).unwrap_or_default(), &value, &word.span)
    })
}

/// Only what ends a script early. `-x` prints through `PS4`, which may run commands, and `-a` hands variables on.
fn set(_: &mut super::judge::Judge<'_>, _: &Argument, words: &[Argument]) -> Checked {
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let text = word.known().unwrap_or_default();
        let (Some(b'-' | b'+'), Some(letters)) = (text.first(), text.get(1..)) else {
            return Err(unknown("set", word));
        };
        let has_name = letters.last() == Some(&b'o');
        let letters = letters.strip_suffix(b"o").unwrap_or(letters);
        if !letters.iter().all(|letter| matches!(letter, b'e' | b'u' | b'f')) || text.len() < 2 {
            return Err(unknown("set", word));
        }
        if has_name {
            match words.next().map(|name| (name, name.known())) {
                Some((_, Some(b"pipefail" | b"errexit" | b"nounset" | b"noglob"))) => {}
                Some((name, _)) => return Err(unknown("set", name)),
                None => return Err(unknown("set", word)),
            }
        }
    }
    Ok(())
}

fn shopt(_: &mut super::judge::Judge<'_>, _: &Argument, words: &[Argument]) -> Checked {
    let is_known = |word: &&Argument| {
        word.known().is_some_and(|text| matches!(text, b"-s" | b"-u" | b"-q") || PATTERN_OPTIONS.contains(&text))
    };
    words.iter().find(|word| !is_known(word)).map_or(Ok(()), |word| Err(unknown("shopt", word)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_sorted() {
        assert!(BUILTINS.is_sorted_by_key(|(name, _)| *name));
        assert!(UNARY.is_sorted() && BINARY.is_sorted() && NUMERIC.is_sorted() && PATTERN_OPTIONS.is_sorted());
    }
}
