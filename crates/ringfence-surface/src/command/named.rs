//! The words of a line that may name a file, for whoever wants to say early that one of them cannot be read.
//!
//! It is a courtesy: what a variable, a pattern or a program makes of a word is not known here. The fence decides.

use super::parse;
use super::syntax::{Command, Kind, Part, Script, Value, Word};

/// More words of a line are not looked at.
const MOST_WORDS: usize = 256;

/// The literal words of every command of the line, and what is read into them. Of `--name=value` it is the value; other options are
/// left out, and so is everything of a line that cannot be parsed. After a `cd` to a place that is known, relative words begin there.
pub fn named_files(line: &[u8]) -> Vec<Vec<u8>> {
    let mut found = Found { words: Vec::new(), directory: Vec::new() };
    if line.len() <= super::LONGEST_LINE
        && let Ok(whole) = parse::parse(line, None, 0)
    {
        found.script(&whole.script);
    }
    found.words.truncate(MOST_WORDS);
    found.words
}

struct Found {
    words: Vec<Vec<u8>>,
    /// Where the line has gone so far; empty where it begins, and where nobody knows.
    directory: Vec<u8>,
}

impl Found {
    fn script(&mut self, text: &Script) {
        text.commands.iter().for_each(|one| self.command(one));
    }

    /// What it changes ends with it.
    fn apart(&mut self, text: &Script) {
        let directory = self.directory.clone();
        self.script(text);
        self.directory = directory;
    }

    fn command(&mut self, one: &Command) {
        one.redirects.iter().for_each(|redirect| self.word(&redirect.target));
        match &one.kind {
            Kind::Simple(simple) => {
                for assignment in &simple.assignments {
                    match &assignment.value {
                        Value::One(value) | Value::More(value) => self.inside(value),
                        Value::Array(values) => values.iter().for_each(|value| self.inside(value)),
                    }
                }
                // The first word is the program.
                simple.words.iter().take(1).for_each(|program| self.inside(program));
                simple.words.iter().skip(1).for_each(|argument| self.word(argument));
                self.go(&simple.words);
            }
            Kind::Subshell(body) => self.apart(body),
            Kind::Scripts(bodies) => bodies.iter().for_each(|body| self.script(body)),
            Kind::For { words, body, .. } => {
                words.iter().flatten().for_each(|value| self.word(value));
                self.script(body);
            }
            Kind::Case { word: value, arms, .. } => {
                self.inside(value);
                arms.iter().for_each(|arm| self.script(arm));
            }
            Kind::Test { words, .. } => words.iter().for_each(|value| self.word(value)),
        }
    }

    /// Follows a `cd`.
    fn go(&mut self, words: &[Word]) {
        let is_cd = words.first().and_then(Word::literal).is_some_and(|program| program == b"cd");
        if !is_cd {
            return;
        }
        self.directory = match words {
            [_, place] => match place.literal() {
                Some(place) if !place.starts_with(b"-") => self.seen_from_here(place),
                _ => Vec::new(),
            },
            _ => Vec::new(),
        };
    }

    fn seen_from_here(&self, path: Vec<u8>) -> Vec<u8> {
        if self.directory.is_empty() || path.starts_with(b"/") {
            path
        } else {
            [&self.directory, &b"/"[..], &path].concat()
        }
    }

    fn word(&mut self, one: &Word) {
        self.inside(one);
        let Some(text) = one.literal() else { return };
        let text = match text.first() {
            Some(b'-') => text.iter().position(|byte| *byte == b'=').map(|at| text[at + 1..].to_vec()),
            _ => Some(text),
        };
        if let Some(text) = text.filter(|text| !text.is_empty()) {
            self.words.push(self.seen_from_here(text));
        }
    }

    /// The scripts that stand inside a word.
    fn inside(&mut self, one: &Word) {
        for part in &one.parts {
            match part {
                Part::Command { script, .. } | Part::Process(script) => self.apart(&script.0),
                _ => {}
            }
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

    /// K2: where a line goes is followed.
    #[test]
    fn k2_a_change_of_directory_is_followed() {
        check("cd a && cat b /c; (cd d; cat e); cat f", &["a", "a/b", "/c", "a/d", "a/d/e", "a/f"]);
        check("cd a; cd ../b; cat c; cd /d; cat e", &["a", "a/../b", "a/../b/c", "/d", "/d/e"]);
        check("cd a; cd $x; cat b; cd c; cd; cat d; cd -; cat e", &["a", "b", "c", "d", "e"]);
        check("x=$(cd a; cat b); cat c", &["a", "a/b", "c"]);
    }

    #[test]
    fn many_words_are_cut_off() {
        assert_eq!(named_files("a ".repeat(1000).as_bytes()).len(), MOST_WORDS);
    }
}
