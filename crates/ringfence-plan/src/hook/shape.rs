//! The input of a tool that other programs bring along, judged by its form: what looks like a path, an address or a command is
//! one, by its value or by the name of its field.
//!
//! Such a program runs inside the fence. What it makes of text that looks like neither is its own affair, and the fence's.

use ringfence_surface::Access;

use super::ask::{Ask, Fields};
use super::value::Value;
use super::{Refusal, url};

/// Deeper input is not looked at, so it is refused.
const DEEPEST: u32 = 8;

/// Words in the name of a tool that only looks.
const LOOKS: [&str; 16] = [
    "browse", "describe", "fetch", "find", "get", "info", "list", "lookup", "query", "read", "search", "show", "stat",
    "status", "tree", "view",
];

/// Words in the name of a field that holds a path.
const PATHS: [&str; 17] = [
    "cwd",
    "dest",
    "destination",
    "dir",
    "directories",
    "directory",
    "dirs",
    "file",
    "filename",
    "filepath",
    "files",
    "folder",
    "folders",
    "path",
    "paths",
    "root",
    "workdir",
];

/// Words in the name of a field that holds an address.
const ADDRESSES: [&str; 6] = ["endpoint", "host", "hostname", "href", "uri", "url"];

/// Names of fields that hold a line of shell.
const COMMANDS: [&str; 6] = ["bash", "cmd", "command", "script", "shell", "shell_command"];

/// The questions of a tool that is not the client's own.
pub(crate) fn foreign(tool: &str, input: &Fields<'_>) -> Result<Vec<Ask>, Refusal> {
    let name = tool.rsplit("__").next().unwrap_or(tool);
    let looks = words(name).iter().any(|word| LOOKS.contains(&word.as_str()));
    let access = if looks { Access::Read } else { Access::Write };
    let mut asks = Vec::new();
    for (name, field) in input {
        value(name, field, access, 0, &mut asks)?;
    }
    Ok(asks)
}

/// The questions of one field.
pub(crate) fn value(
    name: &str,
    value: &Value<'_>,
    access: Access,
    depth: u32,
    asks: &mut Vec<Ask>,
) -> Result<(), Refusal> {
    if depth > DEEPEST {
        return Err(Refusal::input(format!("`{name}` is nested too deep")));
    }
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => Ok(()),
        Value::List(items) => items.iter().try_for_each(|item| self::value(name, item, access, depth + 1, asks)),
        Value::Map(fields) => fields.iter().try_for_each(|(inner, item)| {
            // A name may be a path as well: an object from paths to contents.
            if looks_like_path(inner) {
                asks.push(Ask::path(inner, access)?);
            }
            let name = if has_word(inner, &PATHS) || !has_word(name, &PATHS) { inner } else { name };
            self::value(name, item, access, depth + 1, asks)
        }),
        Value::Text(text) => self::text(name, text, access, asks),
    }
}

fn text(name: &str, text: &str, access: Access, asks: &mut Vec<Ask>) -> Result<(), Refusal> {
    if text.contains('\0') {
        return Err(Refusal::input(format!("`{name}` holds a NUL byte")));
    }
    if COMMANDS.contains(&name.to_ascii_lowercase().as_str()) {
        asks.push(Ask::Command(text.to_owned()));
        return Ok(());
    }
    if text.contains("://") {
        for address in url::urls_in(text) {
            asks.push(Ask::url(address, access)?);
        }
        return Ok(());
    }
    if has_word(name, &ADDRESSES) && !text.is_empty() && !looks_like_path(text) {
        asks.push(Ask::url(&format!("https://{text}"), access)?);
        return Ok(());
    }
    let is_path = has_word(name, &PATHS) || looks_like_path(text);
    if !is_path || text.is_empty() {
        return Ok(());
    }
    if text.contains('$') {
        return Err(Refusal::input(format!("the path {text} is refused: a variable in it may be expanded")));
    }
    asks.push(Ask::path(text, access)?);
    Ok(())
}

/// Text of several lines is no path, whatever it begins with.
fn looks_like_path(text: &str) -> bool {
    let is_line = !text.contains('\n');
    let climbs = text.split('/').any(|part| part == "..");
    is_line && (text.starts_with(['/', '~']) || climbs || text.contains('/') && !text.contains(char::is_whitespace))
}

fn has_word(name: &str, known: &[&str]) -> bool {
    words(name).iter().any(|word| known.contains(&word.as_str()))
}

/// The words of a name: `filePath`, `file_path` and `file-path` have two.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut was_small = false;
    for c in name.chars() {
        if !c.is_alphanumeric() || was_small && c.is_uppercase() {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut().filter(|_| c.is_alphanumeric()) {
            word.extend(c.to_lowercase());
        }
        was_small = c.is_lowercase();
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(tool: &str, input: &str, expected: &str) {
        let Ok(Value::Map(fields)) = Value::parse(input.as_bytes()) else { panic!("{input}") };
        let shown = |ask: &Ask| match ask {
            Ask::Path { raw, access, .. } => format!("{access} {raw}"),
            Ask::Command(line) => format!("run {line}"),
            Ask::Hosts(hosts) => format!("reach {}", hosts[0]),
            Ask::Loopback(port) => format!("loopback {port}"),
        };
        let got = foreign(tool, &fields)
            .map_or("refused".to_owned(), |asks| asks.iter().map(shown).collect::<Vec<_>>().join(" | "));
        assert_eq!(got, expected, "{tool} {input}");
    }

    #[test]
    fn g5_what_looks_like_a_path_is_one() {
        check("mcp__stub__slurp", r#"{"target":"/etc/shadow"}"#, "write /etc/shadow");
        check("mcp__fs__read_file", r#"{"target":"/etc/shadow"}"#, "read /etc/shadow");
        check("mcp__fs__readFile", r#"{"x":"../secret"}"#, "read ../secret");
        check("mcp__fs__get", r#"{"filePath":"secret.txt"}"#, "read secret.txt");
        check("mcp__fs__get", r#"{"paths":["a","b c"]}"#, "read a | read b c");
        check("mcp__fs__get", r#"{"paths":[{"name":"a"}]}"#, "read a");
        check("mcp__fs__put", r#"{"files":{"/etc/x":"content"}}"#, "write /etc/x | write content");
        check("mcp__fs__put", r#"{"deep":{"er":{"q":"~/.ssh/id"}}}"#, "write ~/.ssh/id");
        check("mcp__fs__put", r#"{"path":"$HOME/.ssh"}"#, "refused");
        check("mcp__fs__put", r#"{"path":" /etc/x"}"#, "refused");
        check("mcp__fs__put", r#"{"path":"a\u0000b"}"#, "refused");
        check("mcp__fs__put", r#"{"q":"a\u0000b"}"#, "refused");
    }

    #[test]
    fn g5_addresses_and_commands() {
        check("mcp__web__get", r#"{"url":"https://example.com/x"}"#, "reach example.com:443");
        check("mcp__web__get", r#"{"url":"example.com"}"#, "reach example.com:443");
        check(
            "mcp__web__get",
            r#"{"q":"see https://a.example and http://localhost:80"}"#,
            "reach a.example:443 | loopback 80",
        );
        check("mcp__web__get", r#"{"uri":"file:///etc/passwd"}"#, "read /etc/passwd");
        check("mcp__web__get", r#"{"url":"https://a.example@b.example"}"#, "refused");
        check("mcp__sh__run", r#"{"command":"rm -rf x"}"#, "run rm -rf x");
        check("mcp__sh__run", r#"{"cmd":["rm","-rf"]}"#, "run rm | run -rf");
    }

    #[test]
    fn g5_text_is_text() {
        check("mcp__db__query", r#"{"sql":"select 1 from a","limit":5,"x":null,"y":[true]}"#, "");
        check("mcp__db__put", r#"{"body":"a\n/etc/x\n"}"#, "");
        check("mcp__db__put", r#"{"profile":"me"}"#, "");
        check("mcp__gh__get", r#"{"repo":"owner/name"}"#, "read owner/name");
        let deep = format!("{}1{}", r#"{"a":"#.repeat(12), "}".repeat(12));
        check("mcp__db__put", &deep, "refused");
    }
}
