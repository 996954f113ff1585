//! Path rules: as written ([`PathRule`]) and as resolved on a host ([`Pattern`]).
//!
//! Every pattern covers what it matches **and everything below it**. So `secrets`, `secrets/` and `secrets/**` say the
//! same, and a deny cannot be walked around by going one level deeper.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use crate::glob::{Glob, GlobError};
use crate::path::{AbsPath, Shown};
use crate::report::Dropped;
use crate::template::{self, TemplateError, TemplateKind, Unit, Variables};
use crate::text::{Format, did_you_mean};

/// One component of a pattern.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Segment {
    /// Exactly this name.
    Name(Vec<u8>),
    /// A name with wildcards.
    Glob(Glob),
    /// `**`: any number of components, also none.
    Any,
}

/// A path rule as somebody wrote it, checked but not yet expanded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathRule {
    text: Cow<'static, str>,
    kind: TemplateKind,
}

/// What is wrong with a rule's text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    /// The template part.
    #[error(transparent)]
    Template(#[from] TemplateError),
    /// A wildcard.
    #[error(transparent)]
    Glob(#[from] GlobError),
    /// `a/*/../b`.
    #[error("`..` cannot follow a wildcard")]
    UpAfterWildcard,
    /// Relative, or with a variable, where neither has a meaning.
    #[error("an absolute path is needed here")]
    NotAbsolute,
    /// A wildcard in a socket's or a directory's path that must be one place.
    #[error("one path is needed here, without wildcards")]
    Wildcard,
}

impl RuleError {
    /// Where in the text, if it is known.
    pub fn at(&self) -> Option<Range<usize>> {
        match self {
            Self::Template(e) => Some(e.at()).filter(|at| !at.is_empty()),
            _ => None,
        }
    }

    /// What to write instead, in TOML.
    pub fn hint(&self) -> Option<String> {
        self.hint_in(Format::Toml)
    }

    /// What to write instead, in a file of this format.
    pub(crate) fn hint_in(&self, format: Format) -> Option<String> {
        match self {
            Self::Template(TemplateError::UnknownVariable { name, kind, .. }) => {
                let known: Vec<&str> = kind.variables().collect();
                Some(match did_you_mean(name, known.iter().copied()) {
                    Some(meant) => format!("did you mean `${meant}`?"),
                    None => format!("known variables: {}", known.join(", ")),
                })
            }
            Self::Template(TemplateError::LoneDollar { .. }) => {
                Some(format!("for the character itself {}", format.escape('$')))
            }
            Self::Template(TemplateError::TildeUser { .. }) => {
                Some("write the home directory out, as in `/home/name`".into())
            }
            Self::Glob(e) => Some(e.hint(format)),
            Self::UpAfterWildcard => Some("write the path without `..`".into()),
            _ => None,
        }
    }
}

/// A rule split into what names one place and what searches below it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Split<'t> {
    /// Starts at `/` (also through a variable or `~`).
    pub(crate) absolute: bool,
    /// The part before the first wildcard; may hold `.` and `..`, which are followed on the host.
    pub(crate) literal: Cow<'t, [u8]>,
    /// The rest.
    pub(crate) rest: Vec<Segment>,
}

impl PathRule {
    /// Checks the text.
    ///
    /// # Errors
    /// When the text is no template or no pattern.
    pub fn parse(text: &str, kind: TemplateKind) -> Result<Self, RuleError> {
        split(&template::check(text, kind)?)?;
        Ok(Self { text: text.to_owned().into(), kind })
    }

    /// A row of a built-in table. Tests hold every row to what [`PathRule::parse`] checks.
    pub(crate) fn built_in(text: Cow<'static, str>, kind: TemplateKind) -> Self {
        Self { text, kind }
    }

    /// Checks text that must name one place.
    ///
    /// # Errors
    /// As [`PathRule::parse`], and on any wildcard.
    pub fn parse_one_place(text: &str, kind: TemplateKind) -> Result<Self, RuleError> {
        if split(&template::check(text, kind)?)?.rest.is_empty() {
            Ok(Self { text: text.to_owned().into(), kind })
        } else {
            Err(RuleError::Wildcard)
        }
    }

    /// As written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Begins with `**/`: meant at any depth, wherever the agent may look.
    pub fn is_floating(&self) -> bool {
        template::check(&self.text, self.kind)
            .is_ok_and(|units| split(&units).is_ok_and(|s| self.is_floating_split(&s)))
    }

    /// The same, for a rule that is split already.
    pub(crate) fn is_floating_split(&self, split: &Split<'_>) -> bool {
        // `**/.` and `**/**` search for nothing: they are the directory itself, as `**` is.
        self.text.starts_with("**/") && !split.rest.is_empty()
    }

    /// The path a rule without wildcards names, seen from `dir`; links are not followed.
    ///
    /// # Errors
    /// When a variable in it is unset or unusable.
    pub fn raw_path(&self, dir: &AbsPath, facts: &crate::HostFacts) -> Result<Vec<u8>, Dropped> {
        let split = self.split(&facts.environment)?;
        Ok(if split.absolute { split.literal.into_owned() } else { [dir.as_bytes(), b"/", &split.literal].concat() })
    }

    /// Expands against a host's variables.
    pub(crate) fn split(&self, vars: &Variables) -> Result<Split<'_>, Dropped> {
        if let Some(split) = plain(&self.text) {
            return Ok(split);
        }
        template::leading_variable(&self.text, self.kind, vars)?;
        // The text was checked when the rule was made, but a variable inside `[..]` can still break it.
        let malformed = || Dropped::Malformed { rule: self.text.to_string() };
        let units = template::expand(&self.text, self.kind, vars).map_err(|_| malformed())??;
        split(&units).map_err(|_| malformed())
    }
}

/// The split of a rule in which every byte but `*` means itself. Nearly all rules are such, and the built-in ones are split at
/// every start. `None` where the text has to be read closely.
fn plain(text: &str) -> Option<Split<'_>> {
    let bytes = text.as_bytes();
    if matches!(bytes, [] | [b'~', ..] | [.., b'/']) {
        return None;
    }
    // Where the component begins that holds the first `*`.
    let (mut slash, mut cut) = (0, None);
    for (at, byte) in bytes.iter().enumerate() {
        match KINDS[*byte as usize] {
            Kind::Plain => {}
            Kind::Slash if at == slash && at > 0 => return None,
            Kind::Slash => slash = at + 1,
            Kind::Star => cut = cut.or(Some(slash)),
            Kind::Special => return None,
        }
    }
    // In the literal part `.` and `..` stay: they are followed on the host.
    let Some(cut) = cut else {
        return Some(Split { absolute: bytes[0] == b'/', literal: bytes.into(), rest: Vec::new() });
    };
    if cut == 1 {
        return None;
    }
    let mut rest = Vec::with_capacity(2);
    for name in bytes[cut..].split(|byte| *byte == b'/') {
        rest.push(match name {
            b"." | b".." => return None,
            b"**" if rest.last() == Some(&Segment::Any) => return None,
            b"**" => Segment::Any,
            name if name.contains(&b'*') => Segment::Glob(Glob::stars(name)?),
            name => Segment::Name(name.to_vec()),
        });
    }
    let is_whole = rest.last() != Some(&Segment::Any);
    let literal = &bytes[..cut.saturating_sub(1)];
    is_whole.then(|| Split { absolute: bytes[0] == b'/', literal: literal.into(), rest })
}

/// What a byte of a rule is.
#[derive(Clone, Copy)]
enum Kind {
    Plain,
    Slash,
    Star,
    Special,
}

const KINDS: [Kind; 256] = {
    let mut kinds = [Kind::Plain; 256];
    kinds[b'/' as usize] = Kind::Slash;
    kinds[b'*' as usize] = Kind::Star;
    let special = b"\0$?[]{}\\";
    let mut at = 0;
    while at < special.len() {
        kinds[special[at] as usize] = Kind::Special;
        at += 1;
    }
    kinds
};

fn split(units: &[Unit]) -> Result<Split<'static>, RuleError> {
    let absolute = units.first().is_some_and(|u| u.byte() == b'/');
    let mut literal = Vec::new();
    let mut rest: Vec<Segment> = Vec::new();
    for part in units.split(|u| u.byte() == b'/').filter(|part| !part.is_empty()) {
        let segment = if part == [Unit::Meta(b'*'), Unit::Meta(b'*')] {
            Segment::Any
        } else {
            Glob::parse(part)?.map_or_else(Segment::Name, Segment::Glob)
        };
        match segment {
            Segment::Name(name) if rest.is_empty() => {
                literal.push(b'/');
                literal.extend_from_slice(&name);
            }
            Segment::Name(name) if name == b"." => {}
            Segment::Name(name) if name == b".." => return Err(RuleError::UpAfterWildcard),
            Segment::Any if rest.last() == Some(&Segment::Any) => {}
            segment => rest.push(segment),
        }
    }
    // `x/**` is `x` and all below it, which is what `x` says already.
    while rest.last() == Some(&Segment::Any) {
        rest.pop();
    }
    if !absolute && !literal.is_empty() {
        literal.remove(0);
    }
    if absolute && literal.is_empty() {
        literal.push(b'/');
    }
    Ok(Split { absolute, literal: literal.into(), rest })
}

/// Where a resolved pattern begins.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Anchor {
    /// At one place.
    At(AbsPath),
    /// Below every root of the Surface, at any depth.
    Floating,
}

/// A rule as resolved on a host. It covers everything below what it matches.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Pattern {
    /// Where it begins.
    pub anchor: Anchor,
    /// The components after that; empty for a plain path.
    pub rest: Vec<Segment>,
}

impl Pattern {
    /// An absolute pattern, or one that floats (`**/x`), as a program writes it: no variables, links not followed.
    ///
    /// # Errors
    /// When the text is no pattern, or relative to nothing.
    pub fn parse(text: &str) -> Result<Self, RuleError> {
        let rule = PathRule::parse(text, TemplateKind::Path)?;
        let no_variables = Variables::new();
        let split = rule.split(&no_variables).map_err(|_| RuleError::NotAbsolute)?;
        if rule.is_floating() {
            return Ok(Self { anchor: Anchor::Floating, rest: split.rest });
        }
        let base = AbsPath::lexical(&split.literal).map_err(|_| RuleError::NotAbsolute)?;
        if split.absolute { Ok(Self { rest: split.rest, ..Self::path(base) }) } else { Err(RuleError::NotAbsolute) }
    }

    /// The same, and what is relative is seen from `dir`.
    ///
    /// # Errors
    /// When the text is no pattern.
    pub fn parse_from(dir: &AbsPath, text: &str) -> Result<Self, RuleError> {
        let rule = PathRule::parse(text, TemplateKind::Path)?;
        let split = rule.split(&Variables::new()).map_err(|_| RuleError::NotAbsolute)?;
        if split.absolute || rule.is_floating() {
            return Self::parse(text);
        }
        let place = [dir.as_bytes(), b"/", &split.literal].concat();
        let base = AbsPath::lexical(&place).map_err(|_| RuleError::NotAbsolute)?;
        Ok(Self { rest: split.rest, ..Self::path(base) })
    }

    /// A path and everything below it.
    pub fn path(path: AbsPath) -> Self {
        Self { anchor: Anchor::At(path), rest: Vec::new() }
    }

    /// The path, if the pattern is nothing else.
    pub fn as_path(&self) -> Option<&AbsPath> {
        match &self.anchor {
            Anchor::At(path) if self.rest.is_empty() => Some(path),
            _ => None,
        }
    }

    /// The place above everything it matches; `None` if it floats.
    pub fn base(&self) -> Option<&AbsPath> {
        match &self.anchor {
            Anchor::At(path) => Some(path),
            Anchor::Floating => None,
        }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.anchor {
            Anchor::At(path) if path.is_root() && !self.rest.is_empty() => {}
            Anchor::At(path) => write!(f, "{path}")?,
            Anchor::Floating => f.write_str("**")?,
        }
        let floats = self.anchor == Anchor::Floating && self.rest.first() == Some(&Segment::Any);
        for segment in self.rest.iter().skip(usize::from(floats)) {
            match segment {
                Segment::Name(name) => write!(f, "/{}", Shown(name))?,
                Segment::Glob(glob) => write!(f, "/{glob}")?,
                Segment::Any => f.write_str("/**")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let rule = PathRule::parse(text, TemplateKind::Path);
        let got = match rule.as_ref().map(|rule| rule.split(&Variables::new())) {
            Err(e) => format!("error: {e}"),
            Ok(Err(why)) => format!("dropped: {why}"),
            Ok(Ok(s)) => {
                let root = AbsPath::lexical(b"/x").unwrap();
                let rest = Pattern { rest: s.rest, ..Pattern::path(root) }.to_string();
                format!("{}{} {}", if s.absolute { "abs " } else { "" }, Shown(&s.literal), &rest[2..])
            }
        };
        assert_eq!(got, expected, "{text}");
    }

    #[test]
    fn rules_split_at_the_first_wildcard() {
        check("src", "src ");
        check("src/", "src ");
        check("src/**", "src ");
        check("src/**/**", "src ");
        check("/", "abs / ");
        check("/**", "abs / ");
        check("**", " ");
        check(".", ". ");
        check("../docs/./x", "../docs/./x ");
        check("src/*.rs", "src /*.rs");
        check("a/**/b", "a /**/b");
        check("a/**/**/b/", "a /**/b");
        check("**/.env", " /**/.env");
        check("/etc/*/x", "abs /etc /*/x");
        check("a/*/../b", "error: `..` cannot follow a wildcard");
        check("a/**x", "error: `**` must be a whole path component");
        check("a/{b,c}", "error: braces are not supported");
        check("$HOME/x", "dropped: $HOME is not set");
        check(r"a/\*", "a/* ");
        check("-rf", "-rf ");
        check("a\nb", "a\\nb ");
        check("//a//b", "abs /a/b ");
    }

    /// What is split at a glance is split as if it were read closely.
    #[track_caller]
    fn check_plain(text: &str) -> bool {
        let close = || split(&template::check(text, TemplateKind::Socket)?);
        let split = plain(text);
        assert!(split.is_none() || split == close().ok(), "{text}: {split:?}");
        split.is_some()
    }

    #[test]
    fn plain_rules_are_split_alike() {
        use crate::curated::TableKind::{Paths, Relative};
        let tables = crate::curated::tables();
        let rows = tables.iter().filter(|table| matches!(table.kind, Paths | Relative)).flat_map(|table| table.rows);
        let seen = rows.filter(|row| check_plain(row.pattern.trim_start_matches("~/"))).count();
        assert!(seen > 1_000, "only {seen} are plain");
        for text in ["a", "a/./b", "..", "/a", "**/a/b", "*", "**/*", "a/*.x", "./*/b", "/a/x*y*z/**/b", "*/a"] {
            assert!(check_plain(text), "{text}");
        }
        for text in ["", "/", "/*", "a/", "//a", "/a//b", "**", "**/a/", "**/./a", "a/**", "a**", "~/a", "$HOME", "a?"]
        {
            assert!(!check_plain(text), "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_plain_rule_is_split_alike(text in "[ab./*]{0,10}|[a./*?~$\\[\\]{}\\\\\0]{0,8}") {
            check_plain(&text);
        }
    }

    #[test]
    fn floating_rules() {
        for (text, expected) in [
            ("**/.env", true),
            ("**/a/b", true),
            ("**", false),
            ("**/", false),
            ("./**/.env", false),
            ("/**/x", false),
            ("**/*", true),
            ("**/.", false),
            (r"**/\.", false),
            ("**/**", false),
        ] {
            assert_eq!(PathRule::parse(text, TemplateKind::Path).unwrap().is_floating(), expected, "{text}");
        }
    }

    #[test]
    fn one_place_takes_no_wildcards() {
        assert!(PathRule::parse_one_place("a/b", TemplateKind::Path).is_ok());
        assert_eq!(PathRule::parse_one_place("a/*", TemplateKind::Path), Err(RuleError::Wildcard));
    }
}
