//! The questions that a tool's input asks.

use std::borrow::Cow;

use ringfence_surface::{Access, HostTarget};

use super::tools::{Kind, Tool};
use super::url::{self, Leads};
use super::value::Value;
use super::{Refusal, Refused, names, patch, shape};

/// One question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ask {
    /// May this path be read or written? Relative to `below`, and that to the current directory.
    Path { below: Option<String>, raw: String, access: Access },
    /// May this line of shell be run?
    Command(String),
    /// May one of these be reached?
    Hosts(Vec<HostTarget>),
    /// May this port of a loopback be reached?
    Loopback(u16),
}

impl Ask {
    pub(crate) fn path(raw: &str, access: Access) -> Result<Self, Refusal> {
        check_path(raw)?;
        Ok(Self::Path { below: None, raw: raw.to_owned(), access })
    }

    pub(crate) fn url(text: &str, access: Access) -> Result<Self, Refusal> {
        match url::leads(text) {
            Ok(Leads::To(targets)) => Ok(Self::Hosts(targets)),
            Ok(Leads::Loopback(port)) => Ok(Self::Loopback(port)),
            Ok(Leads::File(path)) => Self::path(&path, access),
            Err(why) => Err(Refusal::new(Refused::Host, format!("the address {text} is refused: {why}"), PLAIN_URL)),
        }
    }
}

const PLAIN_URL: &str = "write it plainly, as in https://example.com/page";

pub(crate) type Fields<'a> = [(Cow<'a, str>, Value<'a>)];

/// The questions of a tool whose fields are known. A field that is not known is judged by its form.
pub(crate) fn known(tool: &Tool, input: &Fields<'_>) -> Result<Vec<Ask>, Refusal> {
    let mut asks = Vec::new();
    let root = root_of(tool, input)?;
    for field in tool.fields {
        let value = input.iter().find(|(name, _)| name == field.name).map(|(_, value)| value);
        let value = value.filter(|value| **value != Value::Null);
        one(field.name, field.kind, value, root, &mut asks)?;
    }
    for (name, value) in input {
        if !tool.fields.iter().any(|field| field.name == name) {
            shape::value(name, value, Access::Write, 0, &mut asks)?;
        }
    }
    Ok(asks)
}

/// Where names are looked for. Two fields may say it, for clients of different age; they must not say two things.
fn root_of<'i>(tool: &Tool, input: &'i Fields<'_>) -> Result<Option<&'i str>, Refusal> {
    let mut root = None;
    for field in tool.fields.iter().filter(|field| field.kind == Kind::Root) {
        let Some((_, value)) = input.iter().find(|(name, _)| name == field.name) else { continue };
        match value {
            Value::Null => {}
            Value::Text(text) if root.is_none() || root == Some(text.as_ref()) => root = Some(text.as_ref()),
            Value::Text(_) => return Err(Refusal::input("two fields name two directories")),
            _ => return Err(no_text(field.name)),
        }
    }
    Ok(root.filter(|root| !root.is_empty()))
}

fn one(
    name: &str,
    kind: Kind,
    value: Option<&Value<'_>>,
    root: Option<&str>,
    asks: &mut Vec<Ask>,
) -> Result<(), Refusal> {
    let text = || match value {
        None => Ok(None),
        Some(value) => value.as_text().map(Some).ok_or_else(|| no_text(name)),
    };
    let needed = || text()?.ok_or_else(|| Refusal::input(format!("`{name}` is missing")));
    match kind {
        Kind::Plain => {}
        Kind::Path(access) => asks.push(Ask::path(needed()?, access)?),
        Kind::Root => {
            text()?;
            let ask = Ask::path(root.unwrap_or("."), Access::Read)?;
            if !asks.contains(&ask) {
                asks.push(ask);
            }
        }
        Kind::Names => asks.extend(text()?.map(|names| names_below(root, names)).transpose()?.flatten()),
        Kind::NameList => {
            let Some(value) = value else { return Ok(()) };
            let Value::List(list) = value else { return Err(no_text(name)) };
            for item in list {
                asks.extend(names_below(root, item.as_text().ok_or_else(|| no_text(name))?)?);
            }
        }
        Kind::Command => asks.push(Ask::Command(needed()?.to_owned())),
        Kind::Patch => {
            let bad = |why| Refusal::new(Refused::Write, format!("the patch is refused: {why}"), "");
            for path in patch::paths(needed()?).map_err(bad)? {
                asks.push(Ask::path(path, Access::Write)?);
            }
        }
        Kind::Url => asks.push(Ask::url(needed()?, Access::Read)?),
        Kind::Prose => {
            for address in url::urls_in(needed()?) {
                asks.push(Ask::url(address, Access::Read)?);
            }
        }
        Kind::Uri => {
            let uri = needed()?;
            // Any scheme may be another program's own; those that lead to hosts and files are checked.
            let is_ours = ["http:", "https:", "file:", "ws:", "wss:"].iter().any(|scheme| starts_with(uri, scheme));
            if is_ours || !uri.contains("://") {
                shape::value("uri", &Value::Text(uri.into()), Access::Read, 0, asks)?;
            }
        }
        Kind::Worktree => {
            let tree = text()?.unwrap_or("worktree");
            if tree.split('/').any(|part| matches!(part, "" | "." | "..")) {
                return Err(Refusal::input(format!("`{name}` is no name of a work tree")));
            }
            asks.push(Ask::path(&format!(".claude/worktrees/{tree}"), Access::Write)?);
        }
    }
    Ok(())
}

fn starts_with(text: &str, start: &str) -> bool {
    text.get(..start.len()).is_some_and(|found| found.eq_ignore_ascii_case(start))
}

fn names_below(root: Option<&str>, names: &str) -> Result<Option<Ask>, Refusal> {
    let base = names::base(names)
        .map_err(|why| Refusal::new(Refused::Read, format!("the pattern {names} is refused: {why}"), PLAIN_NAMES))?;
    let Some(raw) = base else { return Ok(None) };
    check_path(&raw)?;
    Ok(Some(Ask::Path { below: root.map(str::to_owned), raw, access: Access::Read }))
}

const PLAIN_NAMES: &str = "name the directory to look in, and a pattern without `..` in it";

fn no_text(name: &str) -> Refusal {
    Refusal::input(format!("`{name}` is no text"))
}

/// Refuses what a client may read as another path than we do.
pub(crate) fn check_path(raw: &str) -> Result<(), Refusal> {
    let doubt = if raw.is_empty() {
        "it is empty"
    } else if raw.trim() != raw {
        // Claude Code takes blanks off both ends.
        "it begins or ends with a blank"
    } else if raw.chars().any(char::is_control) {
        "it holds a control character"
    } else if raw.contains("://") {
        "it is an address"
    } else if raw.chars().any(may_be_composed) {
        // Claude Code composes characters before it opens a file.
        "it holds a character that can be written in two ways"
    } else if raw.starts_with('~') && raw != "~" && !raw.starts_with("~/") {
        "it names the home of another user"
    } else {
        return Ok(());
    };
    Err(Refusal::input(format!("the path {raw} is refused: {doubt}")))
}

/// Characters that a normal form writes differently: combining marks, parts of Hangul, and those with a twin.
fn may_be_composed(c: char) -> bool {
    matches!(c,
        '\u{300}'..='\u{36f}' | '\u{374}' | '\u{37e}' | '\u{387}' | '\u{1100}'..='\u{11ff}' | '\u{1dc0}'..='\u{1dff}'
        | '\u{1f71}'..='\u{1f7d}' | '\u{1fbe}'..='\u{1fef}' | '\u{1ffd}' | '\u{2000}' | '\u{2001}' | '\u{2126}'
        | '\u{212a}' | '\u{212b}' | '\u{2329}' | '\u{232a}' | '\u{3099}' | '\u{309a}' | '\u{f900}'..='\u{faff}'
        | '\u{fb1d}'..='\u{fb4e}' | '\u{2f800}'..='\u{2fa1f}')
}
