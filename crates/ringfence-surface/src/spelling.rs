//! Rules for directories in which one file has many spellings.
//!
//! An ext4 directory with casefold, FAT and most network shares open `.VSCODE` where `.vscode` is asked for, and more: U+017F is
//! an `s` there, U+200C is nothing, and FAT drops dots at the end. So there a rule means every name that folds as its own name
//! does. The folding here is wider than that of any one file system: what it joins too much is refused, and only where a
//! directory folds.

use icu_normalizer::DecomposingNormalizerBorrowed;

use crate::cursor::Cursor;
use crate::decide::{Access, Because};
use crate::glob::{Glob, GlobToken};
use crate::path::AbsPath;
use crate::pattern::{Anchor, Pattern, Segment};
use crate::surface::{Rule, Surface};

/// Code points that some file systems do not look at (Unicode's `Default_Ignorable_Code_Point`).
const IGNORED: &[(char, char)] = &[
    ('\u{ad}', '\u{ad}'),
    ('\u{34f}', '\u{34f}'),
    ('\u{61c}', '\u{61c}'),
    ('\u{115f}', '\u{1160}'),
    ('\u{17b4}', '\u{17b5}'),
    ('\u{180b}', '\u{180f}'),
    ('\u{200b}', '\u{200f}'),
    ('\u{202a}', '\u{202e}'),
    ('\u{2060}', '\u{206f}'),
    ('\u{3164}', '\u{3164}'),
    ('\u{fe00}', '\u{fe0f}'),
    ('\u{feff}', '\u{feff}'),
    ('\u{ffa0}', '\u{ffa0}'),
    ('\u{fff0}', '\u{fff8}'),
    ('\u{1bca0}', '\u{1bca3}'),
    ('\u{1d173}', '\u{1d17a}'),
    ('\u{e0000}', '\u{e0fff}'),
];

/// Is it a code point that nothing shows?
pub(crate) fn is_ignored(c: char) -> bool {
    IGNORED.iter().any(|(from, to)| (*from..=*to).contains(&c))
}

/// The spelling that all spellings of a name have in common.
pub fn folded_name(name: &[u8]) -> Vec<u8> {
    let mut folded = folded_text(name);
    let end = folded.iter().rposition(|byte| !matches!(byte, b'.' | b' ')).map_or(folded.len(), |last| last + 1);
    folded.truncate(end);
    folded
}

/// A part of a name.
fn folded_text(bytes: &[u8]) -> Vec<u8> {
    let Ok(text) = std::str::from_utf8(bytes) else { return bytes.to_ascii_lowercase() };
    if text.is_ascii() {
        return bytes.to_ascii_lowercase();
    }
    let decompose = DecomposingNormalizerBorrowed::new_nfkd();
    // By way of upper case: the long s and the dotless i are letters of their own in lower case.
    let case = |c: char| c.to_uppercase().flat_map(char::to_lowercase);
    let text: String = decompose.normalize(text).chars().filter(|c| !is_ignored(*c)).flat_map(case).collect();
    decompose.normalize(&text).chars().filter(|c| !is_ignored(*c)).collect::<String>().into_bytes()
}

fn folded_path(path: &AbsPath) -> AbsPath {
    path.components().fold(AbsPath::root(), |at, name| at.child(&folded_name(name)))
}

fn folded_pattern(pattern: &Pattern) -> Pattern {
    let anchor = match &pattern.anchor {
        Anchor::At(path) => Anchor::At(folded_path(path)),
        Anchor::Floating => Anchor::Floating,
    };
    let segment = |segment: &Segment| match segment {
        Segment::Name(name) => Segment::Name(folded_name(name)),
        Segment::Glob(glob) => Segment::Glob(folded_glob(glob)),
        Segment::Any => Segment::Any,
    };
    Pattern { anchor, rest: pattern.rest.iter().map(segment).collect() }
}

fn folded_glob(glob: &Glob) -> Glob {
    let token = |token: &GlobToken| match token {
        GlobToken::Literal(bytes) => GlobToken::Literal(folded_text(bytes)),
        // In another spelling it may be any character.
        GlobToken::Class { .. } | GlobToken::One => GlobToken::One,
        GlobToken::Run => GlobToken::Run,
    };
    Glob::from_tokens(glob.tokens().iter().map(token).collect())
}

/// The rules of a Surface as they hold where names are folded.
#[derive(Debug)]
pub struct FoldedSurface<'s> {
    original: &'s Surface,
    folded: Surface,
}

impl<'s> FoldedSurface<'s> {
    /// The same rules.
    pub fn new(original: &'s Surface) -> Self {
        let mut parts = original.parts().clone();
        for rule in &mut parts.rules {
            rule.pattern = folded_pattern(&rule.pattern);
        }
        for (path, _) in &mut parts.roots {
            *path = folded_path(path);
        }
        // The order of the rules stays, so each has its number.
        Self { original, folded: Surface::from_parts(parts) }
    }

    /// The rule that takes a path away, under this or another spelling. What no rule gives is not its business.
    pub fn taken_away(&self, path: &AbsPath, access: Access) -> Option<&'s Rule> {
        let verdict = self.folded.decide(&folded_path(path), access);
        match verdict.because {
            Because::Rule(rule) if !verdict.is_allowed() => {
                let number = self.folded.rules().iter().position(|other| std::ptr::eq(other, rule))?;
                self.original.rules().get(number)
            }
            _ => None,
        }
    }

    /// Walks down from a path. The names of each step are to be [folded](folded_name).
    pub fn cursor(&self, path: &AbsPath) -> Cursor<'_> {
        self.folded.cursor(&folded_path(path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(name: &str, folded: &str) {
        assert_eq!(String::from_utf8(folded_name(name.as_bytes())).unwrap(), folded, "{name:?}");
    }

    #[test]
    fn i5_names_fold_as_the_widest_file_system_folds_them() {
        check("readme.md", "readme.md");
        check(".VSCODE", ".vscode");
        check(".v\u{17f}code", ".vscode");
        check(".vsc\u{200c}ode", ".vscode");
        check("\u{feff}.envrc", ".envrc");
        check(".envrc.", ".envrc");
        check(".git . ", ".git");
        check(".G\u{131}T", ".git");
        check("\u{212a}eys", "keys");
        // Full width, a ligature, bold capitals.
        check("\u{ff0e}env", ".env");
        check("pro\u{fb01}le", "profile");
        check("\u{1d404}\u{1d40d}\u{1d415}", "env");
        // One letter and a mark, or both in one.
        assert_eq!(folded_name("ge\u{fc}bt".as_bytes()), folded_name("GEU\u{308}BT".as_bytes()));
        assert_eq!(folded_name(b"A\xff"), b"a\xff");
    }
}
