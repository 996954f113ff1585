//! Policy text, places in it, and what is said about them.
//!
//! A diagnostic names file, line and column, underlines the words it means, and where it can says what was meant instead.
//! Text comes from repositories nobody has trusted yet, so whatever is quoted is made safe for a terminal first.

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

/// A stretch of a policy file.
#[derive(Clone, PartialEq, Eq)]
pub struct Place {
    text: Arc<PolicyText>,
    span: Range<usize>,
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
        Self { text: Arc::clone(text), span: start..floor(span.end).max(start) }
    }

    /// The file this is in.
    pub fn file(&self) -> &PolicyText {
        &self.text
    }

    /// The words themselves.
    pub fn words(&self) -> &str {
        &self.text.text[self.span.clone()]
    }

    /// Line and column, both from 1; columns count characters.
    pub fn line_column(&self) -> (usize, usize) {
        let before = &self.text.text[..self.span.start];
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
    }

    /// Where it begins, in bytes: the order of places in one file.
    pub(crate) fn start(&self) -> usize {
        self.span.start
    }

    /// A narrower place: `inner` counts bytes from this place's start.
    pub(crate) fn within(&self, inner: Range<usize>) -> Self {
        Self::new(&self.text, self.span.start + inner.start..(self.span.start + inner.end).min(self.span.end))
    }

    /// The line with the words underlined, ready to print.
    fn excerpt(&self) -> String {
        let text = &self.text.text;
        let line_start = text[..self.span.start].rfind('\n').map_or(0, |at| at + 1);
        let line_end = text[self.span.start..].find('\n').map_or(text.len(), |at| self.span.start + at);
        let end = self.span.end.min(line_end).max(self.span.start);
        let before = safe(&text[line_start..self.span.start]);
        let words = safe(&text[self.span.start..end]);
        let after = safe(text[end..line_end].trim_end());
        // A minified megabyte on one line must not flood the terminal: a window around the words is shown.
        let before_cut: String = last_chars(&before, 80);
        let words_cut: String = words.chars().take(80).collect();
        let after_cut: String = after.chars().take(40).collect();
        let number = self.line_column().0.to_string();
        let pad = " ".repeat(number.len());
        let marks = "^".repeat(words_cut.chars().count().max(1));
        let gap = " ".repeat(before_cut.chars().count());
        format!("{pad} |\n{number} | {before_cut}{words_cut}{after_cut}\n{pad} | {gap}{marks}\n")
    }
}

fn last_chars(text: &str, count: usize) -> String {
    let skip = text.chars().count().saturating_sub(count);
    text.chars().skip(skip).collect()
}

/// Tabs become one space, so that the underline stands where the words stand.
fn safe(text: &str) -> String {
    Shown(text.replace('\t', " ").as_bytes()).to_string()
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (line, column) = self.line_column();
        write!(f, "{}:{line}:{column}", Shown(&self.text.name))
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

/// The candidate a mistyped word was most likely meant to be.
pub fn did_you_mean<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // A word of n letters may be off by a third of them, at least one: `exlusive` is meant, `foo` is not.
    let allowed = (word.chars().count() / 3).max(1);
    let lower = word.to_lowercase();
    candidates
        .into_iter()
        .map(|candidate| (distance(&lower, &candidate.to_lowercase()), candidate))
        .filter(|(d, _)| *d <= allowed)
        .min_by_key(|(d, _)| *d)
        .map(|(_, candidate)| candidate)
}

/// Edits between two words; swapping two neighbours is one edit. Words far longer than any key are not compared.
fn distance(a: &str, b: &str) -> usize {
    let a: Vec<char> = a.chars().take(64).collect();
    let b: Vec<char> = b.chars().take(64).collect();
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
        ] {
            assert_eq!(did_you_mean(word, keys), expected, "{word}");
        }
    }
}
