//! Policy text, places in it, and what is said about them.
//!
//! A diagnostic names file, line and column, underlines the words it means, and where it can says what was meant instead.
//! Text comes from repositories nobody has trusted yet, so whatever is quoted is made safe for a terminal first.

use std::borrow::Cow;
use std::fmt::{self, Write as _};
use std::ops::Range;
use std::sync::Arc;

use crate::path::Shown;

/// A policy file's name and text.
#[derive(Debug, PartialEq, Eq)]
pub struct PolicyText {
    /// How the file is named to the user: its path, as bytes.
    pub name: Vec<u8>,
    /// What it says.
    pub text: String,
}

/// How a policy or a work item is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// TOML.
    Toml,
    /// JSON.
    Json,
}

impl Format {
    /// What people call a table in this format.
    pub(crate) fn table(self) -> &'static str {
        match self {
            Self::Toml => "a table",
            Self::Json => "an object",
        }
    }

    /// How to write a character that patterns give a meaning, when the character itself is meant.
    pub(crate) fn escape(self, character: char) -> String {
        let escaped = self.escaped(character);
        match self {
            Self::Toml => format!("write it in single quotes with a backslash: {escaped}"),
            Self::Json => format!("write it with two backslashes: {escaped}"),
        }
    }

    /// The escaped character alone, in quotes.
    pub(crate) fn escaped(self, character: char) -> String {
        match self {
            Self::Toml => format!(r"'\{character}'"),
            Self::Json => format!(r#""\\{character}""#),
        }
    }
}

/// A stretch of a policy file, or the file as a whole.
#[derive(Clone, PartialEq, Eq)]
pub struct Place {
    text: Arc<PolicyText>,
    span: Option<Range<usize>>,
}

impl Place {
    /// A stretch of `text`; a span that reaches past the end or into a character is moved back to a boundary.
    pub fn new(text: &Arc<PolicyText>, span: Range<usize>) -> Self {
        let floor = |mut at: usize| {
            at = at.min(text.text.len());
            while !text.text.is_char_boundary(at) {
                at -= 1;
            }
            at
        };
        let start = floor(span.start);
        Self { text: Arc::clone(text), span: Some(start..floor(span.end).max(start)) }
    }

    /// The file, where no line can be named. It is shown without an excerpt.
    pub fn whole(text: &Arc<PolicyText>) -> Self {
        Self { text: Arc::clone(text), span: None }
    }

    /// The file this is in.
    pub fn file(&self) -> &Arc<PolicyText> {
        &self.text
    }

    /// Which bytes of the file, if not all of it.
    pub fn span(&self) -> Option<&Range<usize>> {
        self.span.as_ref()
    }

    /// The words themselves; none of a whole file.
    pub fn words(&self) -> &str {
        self.span.as_ref().map_or("", |span| &self.text.text[span.clone()])
    }

    /// Line and column, both from 1; columns count characters.
    pub fn line_column(&self) -> (usize, usize) {
        let before = &self.text.text[..self.start()];
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
    }

    /// Where it begins, in bytes: the order of places in one file.
    pub(crate) fn start(&self) -> usize {
        self.span.as_ref().map_or(0, |span| span.start)
    }

    /// A narrower place: `inner` counts bytes from this place's start.
    pub(crate) fn within(&self, inner: Range<usize>) -> Self {
        let Some(span) = &self.span else { return self.clone() };
        Self::new(&self.text, span.start + inner.start..(span.start + inner.end).min(span.end))
    }

    /// The line with the words underlined, ready to print; nothing for a whole file.
    fn excerpt(&self) -> String {
        let Some(span) = &self.span else { return String::new() };
        let text = &self.text.text;
        let line_start = text[..span.start].rfind('\n').map_or(0, |at| at + 1);
        let line_end = text[span.start..].find('\n').map_or(text.len(), |at| span.start + at);
        let end = span.end.min(line_end).max(span.start);
        // A minified megabyte on one line must not flood the terminal: a window around the words is shown.
        let before = last_chars(&safe(&text[line_start..span.start]), 80);
        let all_words = safe(&text[span.start..end]);
        let words: String = all_words.chars().take(80).collect();
        let after = if words.len() < all_words.len() {
            "...".to_owned()
        } else {
            first_chars(&safe(text[end..line_end].trim_end()), 40).into_owned()
        };
        let number = self.line_column().0.to_string();
        let pad = " ".repeat(number.len());
        let marks = "^".repeat(words.chars().count().max(1));
        let gap = " ".repeat(before.chars().count());
        format!("{pad} |\n{number} | {before}{words}{after}\n{pad} | {gap}{marks}\n")
    }
}

/// The end of a text; what is left out is marked.
fn last_chars(text: &str, most: usize) -> String {
    match text.char_indices().rev().nth(most - 1) {
        Some((at, _)) if at > 0 => format!("...{}", &text[at..]),
        _ => text.to_owned(),
    }
}

/// The beginning of a text; what is left out is marked.
fn first_chars(text: &str, most: usize) -> Cow<'_, str> {
    match text.char_indices().nth(most) {
        Some((at, _)) => Cow::Owned(format!("{}...", &text[..at])),
        None => Cow::Borrowed(text),
    }
}

/// A word as a message quotes it: whoever wrote a long one knows it by its beginning.
pub(crate) fn short(word: &str) -> Cow<'_, str> {
    first_chars(word, 60)
}

/// Tabs become one space, so that the underline stands where the words stand.
fn safe(text: &str) -> String {
    Shown(text.replace('\t', " ").as_bytes()).to_string()
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", Shown(&self.text.name))?;
        if self.span.is_none() {
            return Ok(());
        }
        let (line, column) = self.line_column();
        write!(f, ":{line}:{column}")
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// A value and where it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spanned<T> {
    /// What was written.
    pub value: T,
    /// Where.
    pub place: Place,
}

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Worth knowing, nothing lost.
    Note,
    /// Something that was asked for does not happen, or contradicts itself.
    Warning,
    /// The policy cannot be used.
    Error,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        })
    }
}

/// One thing said about a policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// How bad it is.
    pub severity: Severity,
    /// One sentence, lowercase, no full stop.
    pub message: String,
    /// Where it was written, if it was written anywhere.
    pub place: Option<Place>,
    /// Other places that belong to it, each with a few words.
    pub also: Vec<(Place, String)>,
    /// What to do about it.
    pub help: Option<String>,
}

impl Diagnostic {
    /// An error at a place.
    pub fn error(place: Place, message: impl Into<String>) -> Self {
        Self { severity: Severity::Error, message: message.into(), place: Some(place), also: Vec::new(), help: None }
    }

    /// An error that was not written anywhere: on the command line, or on this host.
    pub fn refusal(message: impl Into<String>) -> Self {
        Self { severity: Severity::Error, message: message.into(), place: None, also: Vec::new(), help: None }
    }

    /// A warning, perhaps at a place.
    pub fn warning(place: Option<Place>, message: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, message: message.into(), place, also: Vec::new(), help: None }
    }

    /// A note, perhaps at a place.
    pub fn note(place: Option<Place>, message: impl Into<String>) -> Self {
        Self { severity: Severity::Note, message: message.into(), place, also: Vec::new(), help: None }
    }

    /// Adds what to do about it.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// Adds another place.
    #[must_use]
    pub fn also(mut self, place: Place, words: impl Into<String>) -> Self {
        self.also.push((place, words.into()));
        self
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = format!("{}: {}\n", self.severity, safe(&self.message));
        if let Some(place) = &self.place {
            write!(out, "  --> {place}\n{}", place.excerpt())?;
        }
        for (place, words) in &self.also {
            write!(out, "  {}: {place}\n{}", safe(words), place.excerpt())?;
        }
        if let Some(help) = &self.help {
            writeln!(out, "help: {}", safe(help))?;
        }
        f.write_str(out.trim_end_matches('\n'))
    }
}

/// No key, word or name of ours is near this length, and what is longer is no slip.
const LONGEST_WORD: usize = 64;

/// The candidate a mistyped word was most likely meant to be: the nearest, or the only one that begins with it.
pub fn did_you_mean<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let length = word.chars().count();
    if length > LONGEST_WORD {
        return None;
    }
    // A word of n letters may be off by a third of them, at least one: `exlusive` is meant, `foo` is not.
    let allowed = (length / 3).max(1);
    let lower = word.to_lowercase();
    let candidates: Vec<&str> = candidates.into_iter().collect();
    let measured = candidates.iter().map(|candidate| (distance(&lower, &candidate.to_lowercase()), *candidate));
    let nearest = measured.filter(|(d, _)| *d <= allowed).min_by_key(|(d, _)| *d);
    nearest
        .map(|(_, candidate)| candidate)
        .or_else(|| if length < 3 { None } else { only_beginning(&lower, &candidates) })
}

/// The one candidate that begins with `lower`: `mem` is `memory`, but `git` may be `github` or `gitlab`.
fn only_beginning<'a>(lower: &str, candidates: &[&'a str]) -> Option<&'a str> {
    let mut begin = candidates.iter().filter(|candidate| candidate.to_lowercase().starts_with(lower));
    match (begin.next(), begin.next()) {
        (Some(only), None) => Some(only),
        _ => None,
    }
}

/// Edits between two words; swapping two neighbours is one edit. Of a longer word only the beginning is compared.
fn distance(a: &str, b: &str) -> usize {
    let a: Vec<char> = a.chars().take(LONGEST_WORD).collect();
    let b: Vec<char> = b.chars().take(LONGEST_WORD).collect();
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let substitute = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut best = substitute.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(before[j - 2] + 1);
            }
            row.push(best);
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Arc<PolicyText> {
        Arc::new(PolicyText { name: b"p.toml".to_vec(), text: text.into() })
    }

    #[test]
    fn a_diagnostic_underlines_the_words() {
        let file = text("a = 1\n\tb\u{1b} = \"zwei\"\n");
        let at = file.text.find("\"zwei\"").unwrap();
        let shown = Diagnostic::error(Place::new(&file, at..at + 6), "no such thing").help("write `two`").to_string();
        assert_eq!(
            shown,
            "error: no such thing\n  --> p.toml:2:7\n  |\n2 |  b\\u{1b} = \"zwei\"\n  |            ^^^^^^\nhelp: write `two`"
        );
    }

    #[test]
    fn places_outside_the_text_do_not_panic() {
        let file = text("é");
        for (a, b) in [(0, 1), (1, 1), (1, 9), (5, 2), (0, 0)] {
            let _ = Diagnostic::error(Place::new(&file, a..b), "x").to_string();
        }
    }

    #[test]
    fn a_long_line_is_cut() {
        let file = text(&"x".repeat(1_000_000));
        let shown = Diagnostic::error(Place::new(&file, 500_000..900_000), "x").to_string();
        assert!(shown.len() < 1000, "{}", shown.len());
    }

    /// Each end that is cut says so, and the marks still stand below the words.
    #[test]
    fn cut_ends_are_marked() {
        for (before, words, after, ends) in [
            (80, 80, 40, (false, false)),
            (81, 1, 0, (true, false)),
            (0, 81, 0, (false, true)),
            (0, 1, 41, (false, true)),
            (500, 500, 500, (true, true)),
        ] {
            let file = text(&["b".repeat(before), "w".repeat(words), "a".repeat(after)].concat());
            let shown = Place::new(&file, before..before + words).excerpt();
            let lines: Vec<&str> = shown.lines().collect();
            let (line, marks) = (&lines[1]["1 | ".len()..], &lines[2]["  | ".len()..]);
            assert_eq!((line.starts_with("..."), line.ends_with("...")), ends, "{shown}");
            let marked: String =
                line.chars().zip(marks.chars()).filter(|(_, mark)| *mark == '^').map(|(c, _)| c).collect();
            assert_eq!(marked, "w".repeat(words.min(80)), "{shown}");
        }
    }

    #[test]
    fn a_whole_file_has_no_excerpt() {
        let shown = Diagnostic::error(Place::whole(&text("a = 1\n")), "too deep").to_string();
        assert_eq!(shown, "error: too deep\n  --> p.toml");
    }

    #[test]
    fn quoted_words_are_short() {
        assert_eq!(short(&"é".repeat(60)), "é".repeat(60));
        assert_eq!(short(&"é".repeat(61)), "é".repeat(60) + "...");
    }

    #[test]
    fn mistyped_words() {
        let keys = ["additive", "exclusive", "write", "read", "network"];
        for (word, expected) in [
            ("exlusive", Some("exclusive")),
            ("Exclusive", Some("exclusive")),
            ("wirte", Some("write")),
            ("raed", Some("read")),
            ("netwrok", Some("network")),
            ("banana", None),
            ("", None),
            ("net", Some("network")),
            ("EXC", Some("exclusive")),
            ("ne", None),
            (&"write".repeat(13), None),
        ] {
            assert_eq!(did_you_mean(word, keys), expected, "{word}");
        }
        assert_eq!(did_you_mean("git", ["github", "gitlab"]), None, "either may be meant");
        assert_eq!(did_you_mean(&"h".repeat(65), [&*"h".repeat(64)]), None, "longer than any word");
    }
}
