//! Globs below a directory: what may be written there, and what is searched for.
//!
//! They stand in no policy file: an orchestrator gives them to the library, or to `jail-exec`. So they know no variables and no
//! escapes, and every shape that could be meant in two ways is refused with its own words.
//!
//! A glob without wildcards covers what it names and everything below it. With wildcards it is exact: `src/*` is what stands
//! in `src`, `src/**` is everything below it and not `src` itself.

use std::fmt;

use crate::glob::{Glob, GlobError};
use crate::path::Shown;
use crate::pattern::Segment;
use crate::template::Unit;

/// More components than anybody writes, and as many as a [`Progress`] can hold.
const MOST_SEGMENTS: usize = 60;

/// What is wrong with a glob.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum GlobFault {
    /// `/etc/*`.
    Absolute,
    /// `~/x`.
    Home,
    /// `C:\x`, `\\host\x`, `\x`.
    WindowsAbsolute,
    /// `../x`, `a/../b`.
    Parent,
    /// Nothing at all.
    Empty,
    /// `{a,b}`.
    Braces,
    /// `a/**/b/**`.
    TwoDoubleStars,
    /// `*/x/**`.
    WildcardBeforeDoubleStar,
    /// `a/**b`.
    GluedDoubleStar,
    /// `[a`.
    UnclosedClass,
    /// `[z-a]`.
    BackwardRange,
    /// A class whose members are not text.
    ClassNotText,
    /// `a\*`.
    Backslash,
    /// `!a`.
    Negation,
    /// A zero byte, which no path can hold.
    Nul,
    /// More components than are taken.
    TooDeep,
}

impl GlobFault {
    /// Every fault there is.
    pub const ALL: &[Self] = &[
        Self::Absolute,
        Self::Home,
        Self::WindowsAbsolute,
        Self::Parent,
        Self::Empty,
        Self::Braces,
        Self::TwoDoubleStars,
        Self::WildcardBeforeDoubleStar,
        Self::GluedDoubleStar,
        Self::UnclosedClass,
        Self::BackwardRange,
        Self::ClassNotText,
        Self::Backslash,
        Self::Negation,
        Self::Nul,
        Self::TooDeep,
    ];

    /// Does it point out of the anchor, rather than say nothing that can be understood?
    pub fn is_escape(self) -> bool {
        matches!(self, Self::Absolute | Self::Home | Self::WindowsAbsolute | Self::Parent)
    }
}

impl fmt::Display for GlobFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Absolute => "leads out of the anchor: it is absolute",
            Self::Home => "leads out of the anchor: it begins with `~`",
            Self::WindowsAbsolute => "leads out of the anchor: it is absolute on Windows",
            Self::Parent => "leads out of the anchor: it holds `..`",
            Self::Empty => "is empty",
            Self::Braces => "holds braces, which are not supported: write one glob for each alternative",
            Self::TwoDoubleStars => "holds `**` twice",
            Self::WildcardBeforeDoubleStar => "has a wildcard before `**`",
            Self::GluedDoubleStar => "has a `**` that is not a whole component",
            Self::UnclosedClass => "has a `[` that is never closed",
            Self::BackwardRange => "has a range of characters that runs backwards",
            Self::ClassNotText => "has a class of characters that is not text",
            Self::Backslash => "holds a backslash, which is not supported",
            Self::Negation => "begins with `!`: a glob only adds, and takes nothing back",
            Self::Nul => "holds a zero byte",
            Self::TooDeep => "has more than 60 components",
        })
    }
}

/// Why globs cannot be used: one of three classes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GlobListError {
    /// There is none, so nothing would be writable, which nobody means.
    #[error("no glob is named, so nothing would be writable")]
    EmptyList,
    /// One points out of the anchor.
    #[error("`{}` {fault}", Shown(glob))]
    Escape {
        /// As given.
        glob: Vec<u8>,
        /// In which way.
        fault: GlobFault,
    },
    /// One says nothing that can be understood.
    #[error("`{}` {fault}", Shown(glob))]
    Malformed {
        /// As given.
        glob: Vec<u8>,
        /// Why.
        fault: GlobFault,
    },
}

impl GlobListError {
    fn new(glob: &[u8], fault: GlobFault) -> Self {
        let glob = glob.to_vec();
        if fault.is_escape() { Self::Escape { glob, fault } } else { Self::Malformed { glob, fault } }
    }

    /// What is wrong with the glob, if it is one glob.
    pub fn fault(&self) -> Option<GlobFault> {
        match self {
            Self::EmptyList => None,
            Self::Escape { fault, .. } | Self::Malformed { fault, .. } => Some(*fault),
        }
    }
}

/// A glob below a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RelativeGlob {
    segments: Vec<Segment>,
    literal: Literal,
}

/// The part of a glob that names one place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Literal {
    /// Below the anchor; `.` for the anchor itself.
    pub path: Vec<u8>,
    /// The whole glob was literal: it may name a file.
    pub is_whole: bool,
}

/// How far into a glob the components of a path have led: every place at which it may go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress(u64);

impl RelativeGlob {
    /// A glob for what may be written. What stands before `**` must be literal and `**` may stand once, so that the glob has one
    /// directory under which everything it covers lies.
    ///
    /// # Errors
    /// The first thing that is wrong with it.
    pub fn writable(glob: &[u8]) -> Result<Self, GlobListError> {
        let read = check_shape(glob).and_then(|()| check_double_stars(glob)).and_then(|()| parse(glob));
        read.map_err(|fault| GlobListError::new(glob, fault))
    }

    /// A pattern to search for: `**` may stand anywhere, any number of times. Without wildcards it is one place, and not what
    /// is below it.
    ///
    /// # Errors
    /// The first thing that is wrong with it.
    pub fn search(pattern: &[u8]) -> Result<Self, GlobListError> {
        let read = check_shape(pattern).and_then(|()| parse(pattern));
        let mut glob = read.map_err(|fault| GlobListError::new(pattern, fault))?;
        if glob.literal.is_whole {
            glob.segments.pop();
        }
        Ok(glob)
    }

    /// The part before the first wildcard.
    pub fn literal(&self) -> &Literal {
        &self.literal
    }

    /// At the anchor itself.
    pub fn start(&self) -> Progress {
        self.reach(1)
    }

    /// One component further.
    pub fn step(&self, from: Progress, name: &[u8]) -> Progress {
        let mut to = 0;
        for (at, segment) in self.segments.iter().enumerate() {
            if from.0 & (1 << at) != 0 {
                to |= match segment {
                    Segment::Any => 1 << at,
                    Segment::Name(expected) if expected == name => 2 << at,
                    Segment::Glob(glob) if glob.matches(name) => 2 << at,
                    Segment::Name(_) | Segment::Glob(_) => 0,
                };
            }
        }
        self.reach(to)
    }

    /// Is what was reached covered?
    pub fn is_match(&self, at: Progress) -> bool {
        at.0 & (1 << self.segments.len()) != 0
    }

    /// Could anything below what was reached be covered?
    pub fn goes_on(&self, at: Progress) -> bool {
        at.0 & ((1 << self.segments.len()) - 1) != 0
    }

    /// Is everything below what was reached covered?
    pub fn covers_below(&self, at: Progress) -> bool {
        // A `**` that nothing follows but what every name matches: `**` alone, and how a trailing `**` is kept.
        let last = match self.segments.as_slice() {
            [.., Segment::Any] => self.segments.len() - 1,
            [.., Segment::Any, Segment::Glob(glob)] if glob.is_any() => self.segments.len() - 2,
            _ => return false,
        };
        at.0 & (1 << last) != 0
    }

    /// Where the components of a path lead.
    pub fn after(&self, path: &[u8]) -> Progress {
        let mut at = self.start();
        for name in path.split(|byte| *byte == b'/').filter(|name| !name.is_empty()) {
            if at.0 == 0 {
                break;
            }
            at = self.step(at, name);
        }
        at
    }

    /// `**` may stand for nothing: what follows it is reached with it.
    fn reach(&self, mut places: u64) -> Progress {
        for (at, segment) in self.segments.iter().enumerate() {
            if *segment == Segment::Any && places & (1 << at) != 0 {
                places |= 2 << at;
            }
        }
        Progress(places)
    }
}

/// Globs for what may be written below an anchor: at least one, and every one usable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WritableGlobs {
    globs: Vec<RelativeGlob>,
}

impl WritableGlobs {
    /// Checks every glob.
    ///
    /// # Errors
    /// When there is none, or the first that cannot be used.
    pub fn new<G: AsRef<[u8]>>(globs: impl IntoIterator<Item = G>) -> Result<Self, GlobListError> {
        let globs: Vec<RelativeGlob> =
            globs.into_iter().map(|glob| RelativeGlob::writable(glob.as_ref())).collect::<Result<_, _>>()?;
        if globs.is_empty() { Err(GlobListError::EmptyList) } else { Ok(Self { globs }) }
    }

    /// Each of them.
    pub fn iter(&self) -> impl Iterator<Item = &RelativeGlob> {
        self.globs.iter()
    }

    /// May this be written? The path is below the anchor, without `.` and `..`.
    pub fn covers(&self, path: &[u8]) -> bool {
        self.globs.iter().any(|glob| glob.is_match(glob.after(path)))
    }

    /// May this be written with everything below it, whatever there is?
    pub fn covers_tree(&self, path: &[u8]) -> bool {
        self.covers(path) && self.globs.iter().any(|glob| glob.covers_below(glob.after(path)))
    }

    /// Is this a directory in which something may be written, so that it may be made?
    pub fn leads_through(&self, path: &[u8]) -> bool {
        self.globs.iter().any(|glob| glob.goes_on(glob.after(path)))
    }
}

fn components(glob: &[u8]) -> impl Iterator<Item = &[u8]> {
    glob.split(|byte| *byte == b'/').filter(|part| !part.is_empty() && *part != b".")
}

fn is_wild(component: &[u8]) -> bool {
    component.iter().any(|byte| b"*?[".contains(byte))
}

fn check_shape(glob: &[u8]) -> Result<(), GlobFault> {
    let is_drive = matches!(glob, [letter, b':', ..] if letter.is_ascii_alphabetic());
    let fault = match glob {
        [] => GlobFault::Empty,
        [b'/', ..] => GlobFault::Absolute,
        [b'~', ..] => GlobFault::Home,
        [b'\\', ..] => GlobFault::WindowsAbsolute,
        _ if is_drive && matches!(glob.get(2), None | Some(b'/' | b'\\')) => GlobFault::WindowsAbsolute,
        _ if glob.split(|byte| matches!(byte, b'/' | b'\\')).any(|part| part == b"..") => GlobFault::Parent,
        _ if glob.contains(&0) => GlobFault::Nul,
        _ if glob.contains(&b'\\') => GlobFault::Backslash,
        _ if glob.contains(&b'{') || glob.contains(&b'}') => GlobFault::Braces,
        [b'!', ..] => GlobFault::Negation,
        _ if components(glob).count() > MOST_SEGMENTS => GlobFault::TooDeep,
        _ => return Ok(()),
    };
    Err(fault)
}

fn check_double_stars(glob: &[u8]) -> Result<(), GlobFault> {
    let (mut wild, mut double) = (false, false);
    for component in components(glob) {
        if component != b"**" {
            wild |= is_wild(component);
            continue;
        }
        if double {
            return Err(GlobFault::TwoDoubleStars);
        }
        if wild {
            return Err(GlobFault::WildcardBeforeDoubleStar);
        }
        double = true;
    }
    Ok(())
}

fn parse(glob: &[u8]) -> Result<RelativeGlob, GlobFault> {
    let mut segments = Vec::new();
    for component in components(glob) {
        segments.push(match component {
            b"**" if segments.last() == Some(&Segment::Any) => continue,
            b"**" => Segment::Any,
            component => {
                let units: Vec<Unit> = component.iter().map(|byte| Unit::Meta(*byte)).collect();
                Glob::parse(&units).map_err(fault)?.map_or_else(Segment::Name, Segment::Glob)
            }
        });
    }
    let literal = components(glob).take_while(|component| !is_wild(component)).collect::<Vec<_>>();
    let is_whole = literal.len() == segments.len();
    match segments.last() {
        // `src/**` is what lies in it, and not the directory itself, which is an entry of another.
        Some(Segment::Any) => segments.push(Segment::Glob(Glob::any())),
        _ if is_whole => segments.push(Segment::Any),
        _ => {}
    }
    let path = if literal.is_empty() { b".".to_vec() } else { literal.join(&b'/') };
    Ok(RelativeGlob { segments, literal: Literal { path, is_whole } })
}

fn fault(error: GlobError) -> GlobFault {
    match error {
        GlobError::UnclosedClass | GlobError::EmptyClass => GlobFault::UnclosedClass,
        GlobError::BackwardRange => GlobFault::BackwardRange,
        GlobError::Braces => GlobFault::Braces,
        GlobError::GluedDoubleStar => GlobFault::GluedDoubleStar,
        GlobError::ClassNotText => GlobFault::ClassNotText,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn literal(glob: &str, path: &str, is_whole: bool) {
        let expected = Literal { path: path.into(), is_whole };
        assert_eq!(*RelativeGlob::writable(glob.as_bytes()).unwrap().literal(), expected, "{glob}");
    }

    #[test]
    fn t7_the_literal_part_of_a_glob() {
        literal("src/*.rs", "src", false);
        literal("src/**", "src", false);
        literal("src/**/*.rs", "src", false);
        literal("a/b/c/*", "a/b/c", false);
        literal("a/b*/c", "a", false);
        literal("a/?", "a", false);
        literal("a/[bc]/d", "a", false);
        literal("*", ".", false);
        literal("**", ".", false);
        literal("*.md", ".", false);
        literal("a", "a", true);
        literal("a/b.txt", "a/b.txt", true);
        literal("./a//b/", "a/b", true);
        literal(".", ".", true);
        literal("-rf/*", "-rf", false);
        literal("a\nb/*", "a\nb", false);
        literal("...", "...", true);
        literal("[]x]/a", ".", false);
        literal("x]", "x]", true);
    }

    #[track_caller]
    fn refused(glob: &[u8], fault: GlobFault) {
        let error = RelativeGlob::writable(glob).unwrap_err();
        assert_eq!(error.fault(), Some(fault), "{}", Shown(glob));
        assert_eq!(matches!(error, GlobListError::Escape { .. }), fault.is_escape(), "{error}");
        assert!(WritableGlobs::new([b"a".as_slice(), glob]).is_err());
    }

    #[test]
    fn t4_globs_that_lead_out() {
        for (glob, fault) in [
            ("/etc", GlobFault::Absolute),
            ("/", GlobFault::Absolute),
            ("//x", GlobFault::Absolute),
            ("~", GlobFault::Home),
            ("~/x", GlobFault::Home),
            ("~root/x", GlobFault::Home),
            ("..", GlobFault::Parent),
            ("../x", GlobFault::Parent),
            ("a/../b", GlobFault::Parent),
            ("a/..", GlobFault::Parent),
            ("a/*/../b", GlobFault::Parent),
            (r"a\..\b", GlobFault::Parent),
            (r"C:\x", GlobFault::WindowsAbsolute),
            ("c:/x", GlobFault::WindowsAbsolute),
            ("C:", GlobFault::WindowsAbsolute),
            (r"\\host\x", GlobFault::WindowsAbsolute),
            (r"\x", GlobFault::WindowsAbsolute),
        ] {
            refused(glob.as_bytes(), fault);
            assert!(fault.is_escape(), "{glob}");
        }
    }

    #[test]
    fn t4_globs_that_say_nothing() {
        let deep = "a/".repeat(61);
        for (glob, fault) in [
            ("", GlobFault::Empty),
            ("a/{b,c}", GlobFault::Braces),
            ("a}", GlobFault::Braces),
            ("**/a/**", GlobFault::TwoDoubleStars),
            ("**/**", GlobFault::TwoDoubleStars),
            ("*/a/**", GlobFault::WildcardBeforeDoubleStar),
            ("a?/**", GlobFault::WildcardBeforeDoubleStar),
            ("a/**b", GlobFault::GluedDoubleStar),
            ("a/b**", GlobFault::GluedDoubleStar),
            ("a/***", GlobFault::GluedDoubleStar),
            ("a/[b", GlobFault::UnclosedClass),
            ("a/[]", GlobFault::UnclosedClass),
            ("a/[!]", GlobFault::UnclosedClass),
            ("a/[b/c]", GlobFault::UnclosedClass),
            ("[z-a]", GlobFault::BackwardRange),
            (r"a\*", GlobFault::Backslash),
            (r"a\", GlobFault::Backslash),
            ("!a", GlobFault::Negation),
            ("a\0b", GlobFault::Nul),
            (deep.as_str(), GlobFault::TooDeep),
        ] {
            refused(glob.as_bytes(), fault);
            assert!(!fault.is_escape(), "{glob}");
        }
        refused(b"[\xff]", GlobFault::ClassNotText);
    }

    #[test]
    fn t4_an_empty_list_is_its_own_error() {
        assert_eq!(WritableGlobs::new::<&[u8]>([]), Err(GlobListError::EmptyList));
        assert_eq!(GlobListError::EmptyList.fault(), None);
    }

    #[test]
    fn t4_each_shape_has_its_own_words() {
        let words: std::collections::BTreeSet<String> = GlobFault::ALL.iter().map(ToString::to_string).collect();
        assert_eq!(words.len(), GlobFault::ALL.len());
    }

    #[track_caller]
    fn check(glob: &str, path: &[u8], expected: [bool; 3]) {
        let globs = WritableGlobs::new([glob]).unwrap();
        let got = [globs.covers(path), globs.covers_tree(path), globs.leads_through(path)];
        assert_eq!(got, expected, "{glob} on {}: covers, covers the tree, leads through", Shown(path));
    }

    #[test]
    fn what_a_glob_covers() {
        let (no, yes) = (false, true);
        check("src/**", b"src", [no, no, yes]);
        check("src/**", b"src/a", [yes, yes, yes]);
        check("src/**", b"src/a/b/c", [yes, yes, yes]);
        check("src/**", b"srcs/a", [no, no, no]);
        check("src/**", b"", [no, no, yes]);
        check("src/*", b"src/a", [yes, no, no]);
        check("src/*", b"src/a/b", [no, no, no]);
        check("src/**/*.rs", b"src/x.rs", [yes, no, yes]);
        check("src/**/*.rs", b"src/a/b/x.rs", [yes, no, yes]);
        check("src/**/*.rs", b"src/a/b/x.c", [no, no, yes]);
        check("src/**/a/b", b"src/a/a/b", [yes, no, yes]);
        check("a", b"a", [yes, yes, yes]);
        check("a", b"a/b/c", [yes, yes, yes]);
        check("a", b"ab", [no, no, no]);
        check(".", b"anything/at/all", [yes, yes, yes]);
        check("**", b"anything/at/all", [yes, yes, yes]);
        check("**", b"", [no, no, yes]);
        check("*", b".hidden", [yes, no, no]);
        check("a/b/*.txt", b"a", [no, no, yes]);
        check("a/b/*.txt", b"a/b", [no, no, yes]);
        check("a/b/*.txt", b"a/c", [no, no, no]);
        check("*.txt", b"\xff\n.txt", [yes, no, no]);
    }

    #[test]
    fn a_search_takes_more_shapes_and_means_one_place() {
        let matches = |pattern: &str, path: &[u8]| {
            let glob = RelativeGlob::search(pattern.as_bytes()).unwrap();
            glob.is_match(glob.after(path))
        };
        assert!(matches("*/src/**/x/**/*.rs", b"a/src/x/y/z.rs"));
        assert!(matches("**/**/a", b"a") && matches("**/**/a", b"x/y/a"));
        assert!(matches("a/b", b"a/b") && !matches("a/b", b"a/b/c"));
        assert!(RelativeGlob::search(b"../x").is_err() && RelativeGlob::search(b"**x").is_err());
    }

    /// Sixty components, each of them a choice: the work grows with the pattern and the path, and not with their choices.
    #[test]
    fn a_hostile_glob_takes_bounded_time() {
        let glob = RelativeGlob::search("**/*/".repeat(30).as_bytes()).unwrap();
        let path = "a/".repeat(2000);
        assert!(glob.is_match(glob.after(path.as_bytes())));
        let glob = RelativeGlob::search(("**/*/".repeat(29) + "b").as_bytes()).unwrap();
        assert!(!glob.is_match(glob.after(path.as_bytes())));
    }
}
