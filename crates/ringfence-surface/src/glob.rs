//! Wildcards within one path component: `*`, `?`, `[a-z]`, `[!a-z]`.
//!
//! Bytes that are not UTF-8 are ordinary: `*` crosses them, `?` takes one of them. Nothing here ever matches `/`, and a
//! leading dot is not special, since a deny that skips hidden files would be a hole.

use crate::path::Shown;
use crate::template::Unit;
use crate::text::Format;

/// A component with wildcards.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Glob {
    tokens: Vec<GlobToken>,
}

/// A part of such a component.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum GlobToken {
    /// These bytes.
    Literal(Vec<u8>),
    /// Any one character.
    One,
    /// Anything, also nothing.
    Run,
    /// One character in these ranges, or in none of them.
    Class {
        /// In none of them.
        negated: bool,
        /// From and to, both included.
        ranges: Vec<(char, char)>,
    },
}

/// What is wrong with a wildcard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum GlobError {
    /// `[` without `]`.
    #[error("`[` is never closed")]
    UnclosedClass,
    /// `[]`.
    #[error("a character class needs at least one character")]
    EmptyClass,
    /// `[z-a]`.
    #[error("a character range runs backwards")]
    BackwardRange,
    /// `{a,b}`.
    #[error("braces are not supported")]
    Braces,
    /// `a**`.
    #[error("`**` must be a whole path component")]
    GluedDoubleStar,
    /// A class in which text is not UTF-8 (it came from a variable).
    #[error("a character class must be text")]
    ClassNotText,
}

impl GlobError {
    /// What to write instead, in a file of this format.
    pub fn hint(self, format: Format) -> String {
        match self {
            Self::UnclosedClass => format!("close it with `]`; for the character itself {}", format.escape('[')),
            Self::EmptyClass => format!("name the characters; for the character itself {}", format.escape('[')),
            Self::BackwardRange => "write the smaller character first".into(),
            Self::Braces => {
                let (open, close) = (format.escape('{'), format.escaped('}'));
                format!("write one entry for each alternative; for the character itself {open} or {close}")
            }
            Self::GluedDoubleStar => "write `*` within a name, `**/` for any number of directories".into(),
            Self::ClassNotText => "write the characters out".into(),
        }
    }
}

impl Glob {
    /// Parses one component. `Ok(Err(bytes))` is a component without wildcards.
    pub(crate) fn parse(units: &[Unit]) -> Result<Result<Self, Vec<u8>>, GlobError> {
        let mut tokens: Vec<GlobToken> = Vec::new();
        let mut at = 0;
        while let Some(unit) = units.get(at) {
            at += 1;
            match unit {
                Unit::Meta(b'*') if matches!(tokens.last(), Some(GlobToken::Run)) => {
                    return Err(GlobError::GluedDoubleStar);
                }
                Unit::Meta(b'*') => tokens.push(GlobToken::Run),
                Unit::Meta(b'?') => tokens.push(GlobToken::One),
                Unit::Meta(b'{' | b'}') => return Err(GlobError::Braces),
                Unit::Meta(b'[') => {
                    let (class, used) = class(&units[at..])?;
                    at += used;
                    tokens.push(class);
                }
                Unit::Meta(_) | Unit::Literal(_) => {
                    let is_wild = |unit: &Unit| matches!(unit, Unit::Meta(b'*' | b'?' | b'[' | b'{' | b'}'));
                    let length = units[at..].iter().position(is_wild).unwrap_or(units.len() - at);
                    let bytes = units[at - 1..at + length].iter().map(|unit| unit.byte());
                    tokens.push(GlobToken::Literal(bytes.collect()));
                    at += length;
                }
            }
        }
        Ok(match tokens.as_mut_slice() {
            [] => Err(Vec::new()),
            [GlobToken::Literal(bytes)] => Err(std::mem::take(bytes)),
            _ => Ok(Self { tokens }),
        })
    }

    /// A component in which every byte but `*` means itself; `None` where two of them meet.
    pub(crate) fn stars(name: &[u8]) -> Option<Self> {
        let mut tokens = Vec::with_capacity(3);
        for (number, bytes) in name.split(|byte| *byte == b'*').enumerate() {
            if number > 0 {
                if tokens.last() == Some(&GlobToken::Run) {
                    return None;
                }
                tokens.push(GlobToken::Run);
            }
            if !bytes.is_empty() {
                tokens.push(GlobToken::Literal(bytes.to_vec()));
            }
        }
        Some(Self { tokens })
    }

    /// `*`.
    pub(crate) fn any() -> Self {
        Self { tokens: vec![GlobToken::Run] }
    }

    /// Does every name match?
    pub(crate) fn is_any(&self) -> bool {
        self.tokens == [GlobToken::Run]
    }

    /// A component of these parts.
    pub fn from_tokens(tokens: Vec<GlobToken>) -> Self {
        Self { tokens }
    }

    /// Its parts.
    pub fn tokens(&self) -> &[GlobToken] {
        &self.tokens
    }

    /// Does the whole component match?
    pub fn matches(&self, name: &[u8]) -> bool {
        // Most names differ from the pattern at one of its ends already.
        let end = |token: Option<&GlobToken>, pick: fn(&[u8]) -> Option<&u8>| match token {
            Some(GlobToken::Literal(bytes)) => pick(bytes) == pick(name),
            _ => true,
        };
        if !end(self.tokens.first(), <[u8]>::first) || !end(self.tokens.last(), <[u8]>::last) {
            return false;
        }
        // The classic walk: on a mismatch go back to the last `*` and let it take one byte more. Each `*` makes the earlier
        // ones final, so the work is at most pattern × name, whatever the pattern.
        let (mut token, mut at) = (0, 0);
        let mut retry: Option<(usize, usize)> = None;
        loop {
            match self.tokens.get(token) {
                Some(GlobToken::Run) => {
                    retry = Some((token, at));
                    token += 1;
                    continue;
                }
                Some(one) => {
                    if let Some(used) = one.take(&name[at..]) {
                        token += 1;
                        at += used;
                        continue;
                    }
                }
                None if at == name.len() => return true,
                None => {}
            }
            match retry {
                Some((star, from)) if from < name.len() => {
                    // Straight to the next place where what follows the `*` can begin.
                    let next = match self.tokens.get(star + 1) {
                        Some(GlobToken::Literal(bytes)) => {
                            name[from + 1..].iter().position(|b| Some(b) == bytes.first()).map(|gap| from + 1 + gap)
                        }
                        _ => Some(from + 1),
                    };
                    let Some(next) = next else { return false };
                    retry = Some((star, next));
                    token = star + 1;
                    at = next;
                }
                _ => return false,
            }
        }
    }

    /// The stretches of plain bytes that every match holds.
    pub(crate) fn literals(&self) -> impl Iterator<Item = &[u8]> {
        self.tokens.iter().filter_map(|token| match token {
            GlobToken::Literal(bytes) => Some(bytes.as_slice()),
            _ => None,
        })
    }

    /// The bytes after a single leading `*`, for an index: `*.pem` is found by its ending.
    pub(crate) fn as_suffix(&self) -> Option<&[u8]> {
        match self.tokens.as_slice() {
            [GlobToken::Run, GlobToken::Literal(bytes)] => Some(bytes),
            _ => None,
        }
    }

    /// The bytes before a single trailing `*`.
    pub(crate) fn as_prefix(&self) -> Option<&[u8]> {
        match self.tokens.as_slice() {
            [GlobToken::Literal(bytes), GlobToken::Run] => Some(bytes),
            _ => None,
        }
    }
}

impl GlobToken {
    /// How many bytes of `rest` it takes, if it matches there.
    fn take(&self, rest: &[u8]) -> Option<usize> {
        match self {
            Self::Literal(bytes) => rest.starts_with(bytes).then_some(bytes.len()),
            Self::One => first_char(rest).map(|(_, length)| length),
            Self::Class { negated, ranges } => {
                let (c, length) = first_char(rest)?;
                let inside = c.is_some_and(|c| ranges.iter().any(|(from, to)| (*from..=*to).contains(&c)));
                (inside != *negated).then_some(length)
            }
            Self::Run => unreachable!("a run is handled by the walk"),
        }
    }
}

/// The first character and its length; a byte that is not UTF-8 is one byte without a character.
fn first_char(bytes: &[u8]) -> Option<(Option<char>, usize)> {
    let chunk = bytes.get(..bytes.len().min(4))?.utf8_chunks().next()?;
    Some(chunk.valid().chars().next().map_or((None, 1), |c| (Some(c), c.len_utf8())))
}

/// Parses after `[`; returns the class and how many units it took, the `]` included.
fn class(units: &[Unit]) -> Result<(GlobToken, usize), GlobError> {
    let negated = matches!(units.first(), Some(Unit::Meta(b'!' | b'^')));
    let start = usize::from(negated);
    // `[]a]` holds a bracket, as in every shell.
    let first_may_close = start + 1;
    let end = (start..units.len()).find(|i| matches!(units[*i], Unit::Meta(b']')) && *i >= first_may_close).ok_or(
        if matches!(units.get(start), Some(Unit::Meta(b']'))) {
            GlobError::EmptyClass
        } else {
            GlobError::UnclosedClass
        },
    )?;
    Ok((GlobToken::Class { negated, ranges: ranges(&units[start..end])? }, end + 1))
}

/// The ranges between the brackets. Only a `-` as typed makes one: escaped, or from a variable, it is itself.
fn ranges(units: &[Unit]) -> Result<Vec<(char, char)>, GlobError> {
    let bytes: Vec<u8> = units.iter().map(|unit| unit.byte()).collect();
    let text = std::str::from_utf8(&bytes).map_err(|_| GlobError::ClassNotText)?;
    let chars: Vec<(usize, char)> = text.char_indices().collect();
    let mut ranges = Vec::new();
    let mut rest = chars.as_slice();
    loop {
        rest = match *rest {
            [] => return Ok(ranges),
            [(_, from), (dash, _), (_, to), ref after @ ..] if units[dash] == Unit::Meta(b'-') => {
                if from > to {
                    return Err(GlobError::BackwardRange);
                }
                ranges.push((from, to));
                after
            }
            [(_, one), ref after @ ..] => {
                ranges.push((one, one));
                after
            }
        };
    }
}

impl std::fmt::Display for Glob {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for token in &self.tokens {
            match token {
                GlobToken::Literal(bytes) => write!(f, "{}", Shown(bytes))?,
                GlobToken::One => f.write_str("?")?,
                GlobToken::Run => f.write_str("*")?,
                GlobToken::Class { negated, ranges } => {
                    f.write_str(if *negated { "[!" } else { "[" })?;
                    for (from, to) in ranges {
                        write_member(f, *from)?;
                        if from != to {
                            f.write_str("-")?;
                            write_member(f, *to)?;
                        }
                    }
                    f.write_str("]")?;
                }
            }
        }
        Ok(())
    }
}

/// A character between brackets, escaped where it would mean something there.
fn write_member(f: &mut std::fmt::Formatter<'_>, c: char) -> std::fmt::Result {
    if matches!(c, '-' | ']' | '!' | '^' | '\\') {
        f.write_str("\\")?;
    }
    write!(f, "{}", Shown(c.encode_utf8(&mut [0; 4]).as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As a rule's text gives them: a backslash makes the next byte literal.
    fn units(text: &str) -> Vec<Unit> {
        let mut bytes = text.bytes();
        std::iter::from_fn(|| match bytes.next()? {
            b'\\' => bytes.next().map(Unit::Literal),
            byte => Some(Unit::Meta(byte)),
        })
        .collect()
    }

    #[track_caller]
    fn check(pattern: &str, name: &[u8], expected: bool) {
        let glob = Glob::parse(&units(pattern)).unwrap();
        let got = match glob {
            Ok(glob) => glob.matches(name),
            Err(literal) => literal == name,
        };
        assert_eq!(got, expected, "{pattern} on {name:?}");
    }

    #[test]
    fn components() {
        check("a", b"a", true);
        check("a", b"A", false);
        check("*", b"anything", true);
        check("*", b".hidden", true);
        check("*.pem", b".pem", true);
        check("*.pem", b"a.pem", true);
        check("*.pem", b"a.pem.txt", false);
        check(".env*", b".env", true);
        check(".env*", b".env.local", true);
        check("a*b*c", b"a-b-b-c", true);
        check("a*b*c", b"a-c-b", false);
        check("?", b"a", true);
        check("?", "é".as_bytes(), true);
        check("?", b"\xff", true);
        check("?", b"ab", false);
        check("?", b"", false);
        check("[ab]", b"b", true);
        check("[!ab]", b"b", false);
        check("[^ab]", b"c", true);
        check("[!ab]", b"\xff", true);
        check("[a-z]x", b"mx", true);
        check("[]a]", b"]", true);
        check("[а-я]", "ж".as_bytes(), true);
        check("*\u{e9}", b"caf\xc3\xa9", true);
        check("a*", b"a\nb", true);
        check("*x", b"\xff\xfex", true);
    }

    /// An escape within brackets takes the meaning away, as everywhere else.
    #[test]
    fn classes_with_escapes() {
        check(r"[a\-z]", b"m", false);
        check(r"[a\-z]", b"-", true);
        check(r"[a\-z]", b"z", true);
        check(r"[a-\z]", b"m", true);
        check(r"[\a-z]", b"m", true);
        check(r"[+--]", b",", true);
        check(r"[\!a]", b"!", true);
        check(r"[\!a]", b"b", false);
        check(r"[!\!a]", b"!", false);
        check(r"[\^a]", b"^", true);
        check(r"[a\]b]", b"]", true);
        check(r"[a\]b]", b"b", true);
        check(r"[\]]", b"]", true);
        check(r"[!\]]", b"]", false);
        check(r"[A-\]]", b"Z", true);
        check(r"[\\]", b"\\", true);
        check(r"[-a]", b"-", true);
        check(r"[a-]", b"-", true);
        check(r"[é\-ü]", "é".as_bytes(), true);
        check(r"[é\-ü]", "ñ".as_bytes(), false);
        check(r"[é-ü]", "ñ".as_bytes(), true);
    }

    /// A user called `!a-z]` is these five characters.
    #[test]
    fn what_a_variable_holds_is_literal_within_brackets() {
        let value = b"!a-z]".map(Unit::Literal);
        let glob = Glob::parse(&[units("[").as_slice(), &value, &units("]")].concat()).unwrap().unwrap();
        for (name, expected) in [("!", true), ("a", true), ("-", true), ("z", true), ("]", true), ("m", false)] {
            assert_eq!(glob.matches(name.as_bytes()), expected, "{name}");
        }
    }

    #[test]
    fn classes_are_shown_as_they_would_be_written() {
        for (text, expected) in [
            (r"[a-z_]", r"[a-z_]"),
            (r"[a\-z]", r"[a\-z]"),
            (r"[]a]", r"[\]a]"),
            (r"[^!]x", r"[!\!]x"),
            ("[\u{1b}]*", r"[\u{1b}]*"),
        ] {
            assert_eq!(Glob::parse(&units(text)).unwrap().unwrap().to_string(), expected, "{text}");
        }
    }

    #[test]
    fn malformed() {
        for (pattern, expected) in [
            ("[a", GlobError::UnclosedClass),
            ("[]", GlobError::EmptyClass),
            ("[z-a]", GlobError::BackwardRange),
            (r"[z-\a]", GlobError::BackwardRange),
            (r"[a\]", GlobError::UnclosedClass),
            ("{a,b}", GlobError::Braces),
            ("a**", GlobError::GluedDoubleStar),
            ("**a", GlobError::GluedDoubleStar),
        ] {
            assert_eq!(Glob::parse(&units(pattern)).unwrap_err(), expected, "{pattern}");
        }
    }

    #[test]
    fn a_hostile_pattern_takes_bounded_time() {
        let pattern = "*a".repeat(60) + "b";
        let glob = Glob::parse(&units(&pattern)).unwrap().unwrap();
        assert!(!glob.matches(&[b'a'; 255]));
    }
}
