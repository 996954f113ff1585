//! The words of a line that may name a file, for whoever wants to say early that one of them cannot be read.
//!
//! It is a courtesy: what a variable, a pattern or a program makes of a word is not known here. The fence decides.

use super::parse;
use super::syntax::{Command, Kind, Part, Script, Value, Word};

/// More words of a line are not looked at.
const MOST_WORDS: usize = 256;

/// The literal words of every command of the line, and what is read into them. Of `--name=value` it is the value; other options are
/// left out, and so is everything of a line that cannot be parsed.
pub fn named_files(line: &[u8]) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    if line.len() <= super::LONGEST_LINE
        && let Ok(whole) = parse::parse(line, None, 0)
    {
        script(&whole.script, &mut found);
    }
    found.truncate(MOST_WORDS);
    found
}

fn script(text: &Script, found: &mut Vec<Vec<u8>>) {
    text.commands.iter().for_each(|one| command(one, found));
}

fn command(one: &Command, found: &mut Vec<Vec<u8>>) {
    one.redirects.iter().for_each(|redirect| word(&redirect.target, found));
    match &one.kind {
        Kind::Simple(simple) => {
            for assignment in &simple.assignments {
                match &assignment.value {
                    Value::One(value) | Value::More(value) => inside(value, found),
                    Value::Array(values) => values.iter().for_each(|value| inside(value, found)),
                }
            }
            // The first word is the program.
            simple.words.iter().take(1).for_each(|program| inside(program, found));
            simple.words.iter().skip(1).for_each(|argument| word(argument, found));
        }
        Kind::Subshell(body) => script(body, found),
        Kind::Scripts(bodies) => bodies.iter().for_each(|body| script(body, found)),
        Kind::For { words, body, .. } => {
            words.iter().flatten().for_each(|value| word(value, found));
            script(body, found);
        }
        Kind::Case { word: value, arms, .. } => {
            inside(value, found);
            arms.iter().for_each(|arm| script(arm, found));
        }
        Kind::Test { words, .. } => words.iter().for_each(|value| word(value, found)),
    }
}

fn word(one: &Word, found: &mut Vec<Vec<u8>>) {
    inside(one, found);
    let Some(text) = one.literal() else { return };
    let text = match text.first() {
        Some(b'-') => text.iter().position(|byte| *byte == b'=').map(|at| text[at + 1..].to_vec()),
        _ => Some(text),
    };
    found.extend(text.filter(|text| !text.is_empty()));
}

/// The scripts that stand inside a word.
fn inside(one: &Word, found: &mut Vec<Vec<u8>>) {
    for part in &one.parts {
        match part {
            Part::Command { script: inner, .. } | Part::Process(inner) => script(&inner.0, found),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, expected: &[&str]) {
        let found = named_files(line.as_bytes());
        let found: Vec<&str> = found.iter().map(|word| std::str::from_utf8(word).unwrap()).collect();
        assert_eq!(found, expected, "{line}");
    }

    #[test]
    fn words_that_may_name_files() {
        check("cat a '/b c' | head -n 1 < d", &["a", "/b c", "d", "1"]);
        check("grep --file=e -r x . && (cd f; ls)", &["e", "x", ".", "f"]);
        check("echo $(cat /g) \"$(< h)\" <(tail i)", &["/g", "h", "i"]);
        check("x=$(cat j) for k in l; do wc m; done", &[]);
        check("for k in l; do wc m; done; [[ -f n ]]", &["l", "m", "n"]);
        check("cat $x *.y ~/z {a,b}", &[]);
        check("if cat", &[]);
    }

    #[test]
    fn many_words_are_cut_off() {
        assert_eq!(named_files("a ".repeat(1000).as_bytes()).len(), MOST_WORDS);
    }
}
