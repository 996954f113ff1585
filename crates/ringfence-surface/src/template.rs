//! `$NAME`, `${NAME}` and `~` in a path rule.
//!
//! The set of variables is closed: a rule cannot read an arbitrary variable, and a mistyped one is an error rather than an
//! empty string. An unset or empty variable drops the whole entry, so that `$GOPATH/pkg/mod` never becomes `/pkg/mod`.
//! What a variable holds is literal: a `*` in a home directory's name is not a wildcard.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::report::Dropped;
use crate::text::short;

/// One byte of an expanded rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    /// As typed: may be a wildcard.
    Meta(u8),
    /// Escaped, or from a variable: itself.
    Literal(u8),
}

impl Unit {
    pub(crate) fn byte(self) -> u8 {
        match self {
            Self::Meta(byte) | Self::Literal(byte) => byte,
        }
    }
}

/// The variables a path rule may name.
pub const PATH_VARIABLES: &[&str] = &[
    "CARGO_HOME",
    "GOPATH",
    "GOROOT",
    "HOME",
    "JAVA_HOME",
    "NVM_DIR",
    "PYENV_ROOT",
    "RUSTUP_HOME",
    "USER",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
];

/// What a socket rule may name besides: where agents and desktops put their sockets.
pub const SOCKET_VARIABLES: &[&str] = &["SSH_AUTH_SOCK", "XDG_RUNTIME_DIR"];

/// Which variables a rule may name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TemplateKind {
    /// A file or directory.
    Path,
    /// A unix socket.
    Socket,
}

impl TemplateKind {
    /// The names this kind of rule may use.
    pub fn variables(self) -> impl Iterator<Item = &'static str> {
        let sockets = if self == Self::Socket { SOCKET_VARIABLES } else { &[] };
        PATH_VARIABLES.iter().chain(sockets).copied()
    }
}

/// A mistake in how the template is written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// Not one of the closed set.
    #[error("`${}` is not a variable that a rule may use", short(.name))]
    UnknownVariable {
        /// As written.
        name: String,
        /// Which variables there are.
        kind: TemplateKind,
        /// Where in the text.
        at: Range<usize>,
    },
    /// `$` without a name, `${` without `}`.
    #[error("`$` needs a variable's name after it")]
    LoneDollar {
        /// Where in the text.
        at: Range<usize>,
    },
    /// `~user`.
    #[error("only `~` and `~/` are expanded")]
    TildeUser {
        /// Where in the text.
        at: Range<usize>,
    },
    /// `\` at the end.
    #[error("a backslash at the end escapes nothing")]
    LoneBackslash {
        /// Where in the text.
        at: Range<usize>,
    },
    /// A NUL byte.
    #[error("a path cannot hold a NUL byte")]
    Nul {
        /// Where in the text.
        at: Range<usize>,
    },
    /// Nothing written.
    #[error("a path is needed here, this is empty")]
    Empty,
}

impl TemplateError {
    /// Where in the text it is.
    pub fn at(&self) -> Range<usize> {
        match self {
            Self::UnknownVariable { at, .. }
            | Self::LoneDollar { at }
            | Self::TildeUser { at }
            | Self::LoneBackslash { at }
            | Self::Nul { at } => at.clone(),
            Self::Empty => 0..0,
        }
    }
}

/// What the variables hold on one host.
pub(crate) type Variables = BTreeMap<Vec<u8>, Vec<u8>>;

/// Expands a template against a host's variables.
pub(crate) fn expand(
    text: &str,
    kind: TemplateKind,
    vars: &Variables,
) -> Result<Result<Vec<Unit>, Dropped>, TemplateError> {
    let mut dropped = None;
    let units = walk(text, kind, &mut |name| {
        lookup(name, vars).map(<[u8]>::to_vec).unwrap_or_else(|why| {
            dropped.get_or_insert(why);
            b"/".to_vec()
        })
    })?;
    Ok(match dropped {
        Some(why) => Err(why),
        None => Ok(units),
    })
}

/// Checks how a template is written, without a host.
pub(crate) fn check(text: &str, kind: TemplateKind) -> Result<Vec<Unit>, TemplateError> {
    walk(text, kind, &mut |name| if name == "USER" { b"user".to_vec() } else { b"/x".to_vec() })
}

/// Why a template that begins with a variable has no meaning on this host, if it has none. Most variables are not set, and a
/// fifth of the built-in rows begin with one.
pub(crate) fn leading_variable(text: &str, kind: TemplateKind, vars: &Variables) -> Result<(), Dropped> {
    let name = text.starts_with('$').then(|| variable_name(text, 0).ok()).flatten().map(|(name, _)| name);
    match name.and_then(|name| kind.variables().find(|known| *known == name)) {
        Some(known) => lookup(known, vars).map(drop),
        None => Ok(()),
    }
}

fn lookup<'v>(variable: &'static str, vars: &'v Variables) -> Result<&'v [u8], Dropped> {
    let value = vars.get(variable.as_bytes()).filter(|v| !v.is_empty()).ok_or(Dropped::Unset { variable })?;
    if variable == "USER" {
        let plain = !value.contains(&b'/') && value != b"." && value != b"..";
        return if plain { Ok(value) } else { Err(Dropped::NotAName { variable, value: value.clone() }) };
    }
    if value.first() == Some(&b'/') { Ok(value) } else { Err(Dropped::NotAbsolute { variable, value: value.clone() }) }
}

fn walk(
    text: &str,
    kind: TemplateKind,
    value: &mut dyn FnMut(&'static str) -> Vec<u8>,
) -> Result<Vec<Unit>, TemplateError> {
    let bytes = text.as_bytes();
    let mut units = Vec::with_capacity(bytes.len());
    let mut at = 0;
    if text.is_empty() {
        return Err(TemplateError::Empty);
    }
    if bytes[0] == b'~' {
        if !matches!(bytes.get(1), None | Some(b'/')) {
            return Err(TemplateError::TildeUser { at: 0..text.find('/').unwrap_or(text.len()) });
        }
        units.extend(value("HOME").into_iter().map(Unit::Literal));
        at = 1;
    }
    while at < bytes.len() {
        match bytes[at] {
            0 => return Err(TemplateError::Nul { at: at..at + 1 }),
            b'\\' => {
                let escaped = *bytes.get(at + 1).ok_or(TemplateError::LoneBackslash { at: at..at + 1 })?;
                if escaped == 0 {
                    return Err(TemplateError::Nul { at: at..at + 2 });
                }
                units.push(Unit::Literal(escaped));
                at += 2;
            }
            b'$' => {
                let (name, end) = variable_name(text, at)?;
                let known = kind.variables().find(|known| *known == name);
                let known =
                    known.ok_or_else(|| TemplateError::UnknownVariable { name: name.to_owned(), kind, at: at..end })?;
                units.extend(value(known).into_iter().map(Unit::Literal));
                at = end;
            }
            byte => {
                units.push(Unit::Meta(byte));
                at += 1;
            }
        }
    }
    Ok(units)
}

/// The name after a `$` at `at`, and where it ends.
fn variable_name(text: &str, at: usize) -> Result<(&str, usize), TemplateError> {
    let rest = &text[at + 1..];
    let lone = TemplateError::LoneDollar { at: at..at + 1 };
    if let Some(braced) = rest.strip_prefix('{') {
        let close = braced.find('}').ok_or_else(|| lone.clone())?;
        return if close == 0 { Err(lone) } else { Ok((&braced[..close], at + 3 + close)) };
    }
    let length = rest.bytes().take_while(|b| b.is_ascii_alphanumeric() || *b == b'_').count();
    if length == 0 { Err(lone) } else { Ok((&rest[..length], at + 1 + length)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vars() -> Variables {
        [("HOME", "/home/u"), ("USER", "u"), ("GOPATH", ""), ("CARGO_HOME", "rel"), ("GOROOT", "/a*b")]
            .into_iter()
            .map(|(k, v)| (k.as_bytes().to_vec(), v.as_bytes().to_vec()))
            .collect()
    }

    #[track_caller]
    fn check_expand(text: &str, expected: &str) {
        let got = match expand(text, TemplateKind::Path, &vars()) {
            Err(e) => format!("error: {e}"),
            Ok(Err(why)) => format!("dropped: {why}"),
            Ok(Ok(units)) => String::from_utf8(units.iter().map(|u| u.byte()).collect()).unwrap(),
        };
        assert_eq!(got, expected, "{text}");
    }

    /// G7: a closed set of variables; an unset or empty one drops the entry and never leaves `/pkg/mod`.
    #[test]
    fn g7_templates() {
        check_expand("$HOME/.gitconfig", "/home/u/.gitconfig");
        check_expand("${HOME}/x", "/home/u/x");
        check_expand("${HOME}x", "/home/ux");
        check_expand("~", "/home/u");
        check_expand("~/x", "/home/u/x");
        check_expand("a~", "a~");
        check_expand("x/~/y", "x/~/y");
        check_expand("/home/$USER/x", "/home/u/x");
        check_expand("$GOPATH/pkg/mod", "dropped: $GOPATH is not set");
        check_expand("${GOPATH}/pkg/mod", "dropped: $GOPATH is not set");
        check_expand("$NVM_DIR", "dropped: $NVM_DIR is not set");
        check_expand("$CARGO_HOME/bin", "dropped: $CARGO_HOME is rel, not an absolute path");
        check_expand(r"\$HOME", "$HOME");
        check_expand("$HOMEX/a", "error: `$HOMEX` is not a variable that a rule may use");
        check_expand("$PATH", "error: `$PATH` is not a variable that a rule may use");
        check_expand("$SSH_AUTH_SOCK", "error: `$SSH_AUTH_SOCK` is not a variable that a rule may use");
        check_expand("a/$", "error: `$` needs a variable's name after it");
        check_expand("${HOME", "error: `$` needs a variable's name after it");
        check_expand("${}", "error: `$` needs a variable's name after it");
        check_expand("~root/x", "error: only `~` and `~/` are expanded");
        check_expand("", "error: a path is needed here, this is empty");
        check_expand("a\\", "error: a backslash at the end escapes nothing");
        check_expand("a\0b", "error: a path cannot hold a NUL byte");
    }

    /// A user name is one component; otherwise `/home/$USER` would lead anywhere.
    #[test]
    fn a_hostile_user_name_drops_the_entry() {
        for name in ["../root", "..", ".", "a/b"] {
            let mut vars = vars();
            vars.insert(b"USER".to_vec(), name.as_bytes().to_vec());
            let got = expand("/home/$USER", TemplateKind::Path, &vars).unwrap();
            assert!(matches!(got, Err(Dropped::NotAName { .. })), "{name}");
        }
    }

    #[test]
    fn what_a_variable_holds_is_literal() {
        let units = expand("$GOROOT/*", TemplateKind::Path, &vars()).unwrap().unwrap();
        assert_eq!(units[2], Unit::Literal(b'*'));
        assert_eq!(units[5], Unit::Meta(b'*'));
    }

    #[test]
    fn sockets_may_name_two_more() {
        assert!(check("$SSH_AUTH_SOCK", TemplateKind::Socket).is_ok());
        assert!(check("$SSH_AUTH_SOCK", TemplateKind::Path).is_err());
    }

    #[test]
    fn the_variables_are_sorted() {
        assert!(PATH_VARIABLES.is_sorted() && SOCKET_VARIABLES.is_sorted());
    }
}
