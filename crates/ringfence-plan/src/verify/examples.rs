//! Paths that a pattern means.

use ringfence_surface::{AbsPath, Anchor, Glob, GlobToken, Pattern, Segment};

/// What stands for `**` where it is more than nothing.
const DEEP: &[u8] = b"verify-deep";

/// A path that a pattern means: the nearest one, and one further down where it has `**`. What floats is seen from `root`.
pub(super) fn examples(pattern: &Pattern, root: &AbsPath) -> Vec<AbsPath> {
    let base = match &pattern.anchor {
        Anchor::At(path) => path,
        Anchor::Floating => root,
    };
    let is_deep = pattern.anchor == Anchor::Floating || pattern.rest.contains(&Segment::Any);
    let depths: &[&[u8]] = if is_deep { &[b"", DEEP] } else { &[b""] };
    depths.iter().filter_map(|deep| example(base, &pattern.rest, pattern, deep)).collect()
}

/// A path that a pattern means and that nobody has made: only patterns with something open in them have one.
pub(super) fn another(pattern: &Pattern, root: &AbsPath) -> Option<AbsPath> {
    let base = match &pattern.anchor {
        Anchor::At(path) if pattern.rest.contains(&Segment::Any) => path,
        Anchor::At(_) => return None,
        Anchor::Floating => root,
    };
    example(base, &pattern.rest, pattern, b"verify-later")
}

fn example(base: &AbsPath, rest: &[Segment], pattern: &Pattern, deep: &[u8]) -> Option<AbsPath> {
    let mut path = base.clone();
    let floats = pattern.anchor == Anchor::Floating && rest.first() != Some(&Segment::Any);
    if floats && !deep.is_empty() {
        path = path.child(deep);
    }
    for segment in rest {
        path = match segment {
            Segment::Name(name) => path.child(name),
            Segment::Glob(glob) => path.child(&matching(glob)?),
            Segment::Any if deep.is_empty() => path,
            Segment::Any => path.child(deep),
        };
    }
    (path != *base || rest.is_empty()).then_some(path)
}

/// A name that a glob matches.
fn matching(glob: &Glob) -> Option<Vec<u8>> {
    ["any", "", "0"].iter().find_map(|run| {
        let mut name = Vec::new();
        for token in glob.tokens() {
            match token {
                GlobToken::Literal(bytes) => name.extend_from_slice(bytes),
                GlobToken::One => name.push(b'x'),
                GlobToken::Run => name.extend_from_slice(run.as_bytes()),
                GlobToken::Class { negated, ranges } => {
                    let is_in = |c: char| ranges.iter().any(|(from, to)| (*from..=*to).contains(&c));
                    let first = ranges.first().map(|(from, _)| *from);
                    let mut candidates = first.into_iter().chain(['x', '0', '_', 'A', '-', 'é']);
                    let c = candidates.find(|c| is_in(*c) != *negated && *c != '/')?;
                    name.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
                }
            }
        }
        let is_name = !name.is_empty() && name != b"." && name != b".." && !name.contains(&b'/');
        (is_name && glob.matches(&name)).then_some(name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &[&str]) {
        let root = AbsPath::lexical(b"/p").unwrap();
        let found = examples(&Pattern::parse(text).unwrap(), &root);
        let found: Vec<String> = found.iter().map(ToString::to_string).collect();
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn patterns_have_examples() {
        check("/a/b", &["/a/b"]);
        check("/a/*.rs", &["/a/any.rs"]);
        check("/a/**/x", &["/a/x", "/a/verify-deep/x"]);
        check("**/.env", &["/p/.env", "/p/verify-deep/.env"]);
        check("**/.git/hooks", &["/p/.git/hooks", "/p/verify-deep/.git/hooks"]);
        check("/a/[!a-z]?", &["/a/0x"]);
    }
}
