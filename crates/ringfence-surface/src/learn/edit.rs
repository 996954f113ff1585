//! Lines that are put into a policy's text, or taken out of it; everything else stays as somebody wrote it.

use std::ops::Range;

use toml::de::{DeTable, DeValue};

use super::{Addition, Key, unused::Grant};
use crate::curated::packs::pack;

/// Why a text was not changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotEdited {
    /// It is not TOML.
    #[error("the policy's text cannot be read")]
    Unreadable,
    /// What should be a list or a table is something else.
    #[error("`{key}` is written in a way that lines cannot be added to")]
    Shape {
        /// Which.
        key: String,
    },
    /// What should be taken out is not there.
    #[error("`{value}` is not in `{key}`")]
    NotThere {
        /// Which list.
        key: String,
        /// What.
        value: String,
    },
}

/// The text with lines added; a new one where there is none yet. `packs` are those that take part without it: a list that is
/// made anew takes the place of what holds by default, so it begins with that.
///
/// # Errors
/// [`NotEdited`].
pub fn add(text: Option<&str>, additions: &[Addition], packs: &[&str]) -> Result<String, NotEdited> {
    let mut text = text.map_or_else(|| "version = 1\n".to_owned(), str::to_owned);
    let mut keys: Vec<Key> = additions.iter().map(|addition| addition.key).collect();
    keys.sort_unstable();
    keys.dedup();
    for key in keys {
        let lines: Vec<(String, String)> = additions
            .iter()
            .filter(|addition| addition.key == key)
            .map(|one| (quoted(one), format!("{}; {} risk: {}", one.reason, one.risk, one.because)))
            .collect();
        text = add_to(&text, key, &lines, packs)?;
    }
    Ok(text)
}

/// The text without an entry.
///
/// # Errors
/// [`NotEdited`].
pub fn remove(text: &str, grant: &Grant) -> Result<String, NotEdited> {
    let missing = || NotEdited::NotThere { key: grant.key.to_string(), value: grant.value.clone() };
    let (Found::List { items, .. }, _) = find(text, grant.key)? else { return Err(missing()) };
    let at = items.iter().position(|item| item.start == grant.span.start).ok_or_else(missing)?;
    let mut gone = items[at].clone();
    // The comma that follows it; after the last there may be none, and then the one before goes.
    match comma(&text[gone.end..]) {
        Some(comma) => gone.end += comma + 1,
        None if at > 0 && !text[items[at - 1].end..gone.start].contains('\n') => gone.start = items[at - 1].end,
        None => {}
    }
    let line_start = text[..gone.start].rfind('\n').map_or(0, |at| at + 1);
    let line_end = text[gone.end..].find('\n').map_or(text.len(), |at| gone.end + at + 1);
    let before = &text[line_start..gone.start];
    let after = text[gone.end..line_end].trim();
    if before.trim().is_empty() && (after.is_empty() || after.starts_with('#')) {
        // What is said of it at its line goes with it.
        gone = line_start..line_end;
    } else if before.trim_end().ends_with('[') || before.trim_end().ends_with(',') {
        gone.end += text[gone.end..line_end].len() - text[gone.end..line_end].trim_start_matches(' ').len();
    }
    Ok(format!("{}{}", &text[..gone.start], &text[gone.end..]))
}

/// Where the next comma is, if nothing but blanks and comments comes before it.
fn comma(text: &str) -> Option<usize> {
    let mut at = 0;
    loop {
        at += text[at..].find(|c: char| !c.is_whitespace())?;
        match text[at..].chars().next()? {
            ',' => return Some(at),
            '#' => at += text[at..].find('\n')?,
            _ => return None,
        }
    }
}

/// Where a key stands.
enum Found {
    /// A list: where it is, and where its items are.
    List {
        span: Range<usize>,
        items: Vec<Range<usize>>,
    },
    /// Its table is there and it is not: behind this a line goes, or, in a table that is one value, before the end of it.
    Table {
        after: usize,
    },
    Inline {
        end: usize,
        is_empty: bool,
    },
    /// The parts are spelled with dots where the table first appears.
    Dotted {
        before: usize,
    },
    Nothing,
}

fn find(text: &str, key: Key) -> Result<(Found, usize), NotEdited> {
    let (table, errors) = DeTable::parse_recoverable(text);
    if !errors.is_empty() {
        return Err(NotEdited::Unreadable);
    }
    let shape = || NotEdited::Shape { key: key.to_string() };
    let top = table.get_ref();
    let version = top.iter().find(|(name, _)| name.get_ref() == "version").map_or(0, |(_, value)| value.span().end);
    let (outer, name) = key.names();
    let Some(outer) = outer else {
        return match top.iter().find(|(key, _)| key.get_ref() == name) {
            Some((_, value)) => Ok((list(value.get_ref(), value.span()).ok_or_else(shape)?, version)),
            None => Ok((Found::Nothing, version)),
        };
    };
    let Some((outer_key, outer_value)) = top.iter().find(|(key, _)| key.get_ref() == outer) else {
        return Ok((Found::Nothing, version));
    };
    let DeValue::Table(inner) = outer_value.get_ref() else { return Err(shape()) };
    if let Some((_, value)) = inner.iter().find(|(key, _)| key.get_ref() == name) {
        return Ok((list(value.get_ref(), value.span()).ok_or_else(shape)?, version));
    }
    let start = outer_key.span().start;
    let line_start = text[..start].rfind('\n').map_or(0, |at| at + 1);
    let line_end = text[start..].find('\n').map_or(text.len(), |at| start + at);
    let before = text[line_start..start].trim();
    if before == "[" {
        let rest = text[outer_key.span().end..line_end].trim_start();
        // `[files.x]` stands for a table in it; none of ours does, but what is unknown is not touched.
        return if rest.starts_with(']') { Ok((Found::Table { after: line_end }, version)) } else { Err(shape()) };
    }
    let value = outer_value.span();
    if text.get(value.clone()).is_some_and(|text| text.starts_with('{') && text.ends_with('}')) {
        return Ok((Found::Inline { end: value.end - 1, is_empty: inner.iter().next().is_none() }, version));
    }
    if before.is_empty() && text[outer_key.span().end..line_end].trim_start().starts_with('.') {
        return Ok((Found::Dotted { before: line_start }, version));
    }
    Err(shape())
}

fn list(value: &DeValue<'_>, span: Range<usize>) -> Option<Found> {
    match value {
        DeValue::Array(items) => Some(Found::List { span, items: items.iter().map(|item| item.span()).collect() }),
        _ => None,
    }
}

fn add_to(text: &str, key: Key, lines: &[(String, String)], packs: &[&str]) -> Result<String, NotEdited> {
    let (outer, name) = key.names();
    let (found, version) = find(text, key)?;
    let entry = |(value, comment): &(String, String)| format!("    {value}, # {comment}\n");
    let entries: String = lines.iter().map(entry).collect();
    let defaults: String = defaults(key, packs).iter().map(|value| format!("    \"{value}\",\n")).collect();
    let new_list = format!("{name} = [\n{defaults}{entries}]");
    let put = |at: usize, what: &str| format!("{}{what}{}", &text[..at], &text[at..]);
    Ok(match found {
        Found::List { span, items } if !text[span.clone()].contains('\n') => {
            let old: String = items.iter().map(|item| format!("    {},\n", &text[item.clone()])).collect();
            format!("{}[\n{old}{entries}]{}", &text[..span.start], &text[span.end..])
        }
        Found::List { span, items } => {
            let mut end = span.end - 1;
            let mut text = text.to_owned();
            if let Some(last) = items.last() {
                let rest: String =
                    text[last.end..end].lines().map(|line| line.split('#').next().unwrap_or_default()).collect();
                if !rest.contains(',') {
                    text.insert(last.end, ',');
                    end += 1;
                }
            }
            let line_start = text[..end].rfind('\n').map_or(0, |at| at + 1);
            // The bracket may stand on the line of the last entry.
            let (at, before) = if text[line_start..end].trim().is_empty() { (line_start, "") } else { (end, "\n") };
            format!("{}{before}{entries}{}", &text[..at], &text[at..])
        }
        Found::Table { after } => put(after, &format!("\n{new_list}")),
        Found::Inline { end, is_empty } => put(end, &format!("{}{new_list} ", if is_empty { " " } else { ", " })),
        Found::Dotted { before } => put(before, &format!("{}.{new_list}\n", outer.unwrap_or_default())),
        Found::Nothing => match outer {
            None => {
                let after = text[version..].find('\n').map_or(text.len(), |at| version + at);
                put(after, &format!("\n{new_list}"))
            }
            Some(outer) => {
                let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
                format!("{text}{end}\n[{outer}]\n{new_list}\n")
            }
        },
    })
}

/// What holds as long as a list is not written.
fn defaults(key: Key, packs: &[&str]) -> Vec<String> {
    match key {
        Key::Extends => packs.iter().map(|pack| (*pack).to_owned()).collect(),
        Key::Write => vec![".".to_owned()],
        Key::Allow => {
            let mut groups: Vec<String> = packs
                .iter()
                .filter_map(|name| pack(name))
                .flat_map(|pack| pack.groups)
                .map(|g| (*g).to_owned())
                .collect();
            groups.sort();
            groups.dedup();
            groups
        }
        Key::Read | Key::Sockets | Key::HostPorts => Vec::new(),
    }
}

/// A value as TOML has it. Those with a backslash are easier to read where it stands for itself.
fn quoted(addition: &Addition) -> String {
    let text = &addition.value;
    if addition.key == Key::HostPorts {
        return text.clone();
    }
    if text.contains('\\') && !text.contains('\'') {
        return format!("'{text}'");
    }
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => {
                quoted.push('\\');
                quoted.push(c);
            }
            c if c.is_control() => quoted.push_str(&format!("\\u{:04X}", u32::from(c))),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::learn::Risk;
    use crate::policy::PolicyFile;
    use crate::text::PolicyText;

    fn line(key: Key, value: &str) -> Addition {
        Addition {
            key,
            value: value.to_owned(),
            reason: "read by cat".to_owned(),
            risk: Risk::Low,
            because: "why",
            covers: Vec::new(),
        }
    }

    #[track_caller]
    fn check(text: &str, additions: &[Addition], expected: &str) {
        let added = add(Some(text), additions, &["git"]).unwrap();
        assert_eq!(added, expected);
        PolicyFile::parse(&PolicyText::new(b"p", added.into_bytes()).unwrap()).unwrap();
    }

    const SAID: &str = "# read by cat; low risk: why";

    #[test]
    fn every_shape_of_a_list() {
        let read = [line(Key::Read, "/opt/a")];
        check("version = 1\n", &read, &format!("version = 1\n\n[files]\nread = [\n    \"/opt/a\", {SAID}\n]\n"));
        check("version = 1", &read, &format!("version = 1\n\n[files]\nread = [\n    \"/opt/a\", {SAID}\n]\n"));
        check(
            "version = 1\n[files] # mine\nwrite = [\".\"]\n",
            &read,
            &format!("version = 1\n[files] # mine\nread = [\n    \"/opt/a\", {SAID}\n]\nwrite = [\".\"]\n"),
        );
        check(
            "version = 1\n[files]\nread = [\"x\", 'y']\n",
            &read,
            &format!("version = 1\n[files]\nread = [\n    \"x\",\n    'y',\n    \"/opt/a\", {SAID}\n]\n"),
        );
        check(
            "version = 1\n[files]\nread = [\n  \"x\" # a, b\n]\n",
            &read,
            &format!("version = 1\n[files]\nread = [\n  \"x\", # a, b\n    \"/opt/a\", {SAID}\n]\n"),
        );
        check(
            "version = 1\n[files]\nread = [\n  \"x\",\n  \"y\"]\n",
            &read,
            &format!("version = 1\n[files]\nread = [\n  \"x\",\n  \"y\",\n    \"/opt/a\", {SAID}\n]\n"),
        );
        check(
            "version = 1\nfiles = { write = [] }\n",
            &read,
            &format!("version = 1\nfiles = {{ write = [] , read = [\n    \"/opt/a\", {SAID}\n] }}\n"),
        );
        check(
            "version = 1\nfiles.write = []\n",
            &read,
            &format!("version = 1\nfiles.read = [\n    \"/opt/a\", {SAID}\n]\nfiles.write = []\n"),
        );
    }

    #[test]
    fn what_holds_by_default_goes_along() {
        check(
            "version = 1\n",
            &[line(Key::Write, "../out"), line(Key::Extends, "rust"), line(Key::Allow, "a.example")],
            &format!(
                "version = 1\nextends = [\n    \"git\",\n    \"rust\", {SAID}\n]\n\n[files]\nwrite = [\n    \".\",\n    \
                 \"../out\", {SAID}\n]\n\n[network]\nallow = [\n    \"github\",\n    \"a.example\", {SAID}\n]\n"
            ),
        );
    }

    #[test]
    fn odd_names() {
        for value in [r"./a\*b", "./it's", r"./it's\$", "./say \"x\""] {
            let added = add(None, &[line(Key::Read, value)], &[]).unwrap();
            let file = PolicyFile::parse(&PolicyText::new(b"p", added.into_bytes()).unwrap()).unwrap();
            let read = file.files.unwrap().read.unwrap();
            assert_eq!(read[0].value.0.text(), value);
        }
    }

    #[test]
    fn entries_are_taken_out() {
        let check = |text: &str, nth: usize, expected: &str| {
            let (Found::List { items, .. }, _) = find(text, Key::Read).unwrap() else { panic!("no list") };
            let span = items[nth].clone();
            let grant = Grant { key: Key::Read, value: text[span.clone()].to_owned(), span };
            assert_eq!(remove(text, &grant).unwrap(), expected, "{text}");
        };
        check("version = 1\n[files]\nread = [\"a\", \"b\"]\n", 0, "version = 1\n[files]\nread = [\"b\"]\n");
        check("version = 1\n[files]\nread = [\"a\", \"b\"]\n", 1, "version = 1\n[files]\nread = [\"a\"]\n");
        check("version = 1\n[files]\nread = [\"a\"]\n", 0, "version = 1\n[files]\nread = []\n");
        check(
            "version = 1\n[files]\nread = [\n  \"a\", # one\n  \"b\", # two\n]\n",
            1,
            "version = 1\n[files]\nread = [\n  \"a\", # one\n]\n",
        );
        check(
            "version = 1\n[files]\nread = [\n  \"a\", # one\n  \"b\"\n]\n",
            0,
            "version = 1\n[files]\nread = [\n  \"b\"\n]\n",
        );
    }

    /// However a list is written, it says the same without the entry.
    #[test]
    fn an_entry_is_taken_out_of_a_list_that_is_written_oddly() {
        const BETWEEN: [&str; 8] = ["", " ", "\n", " # a, \"x\"\n", "\n  ", "\r\n", "# ]\n\t", "\n#,\n"];
        const ITEMS: [&str; 5] = ["\"a\"", "'b'", "\"c,d\"", "\"e # f\"", "\"\"\"g\"\"\""];
        let mut state = 7_u64;
        let mut next = |most: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % most
        };
        let read = |text: &str| -> Vec<String> {
            let file = PolicyFile::parse(&PolicyText::new(b"p", text.as_bytes().to_vec()).unwrap()).unwrap();
            let read = file.files.unwrap().read.unwrap();
            read.iter().map(|entry| entry.value.0.text().to_owned()).collect()
        };
        for _ in 0..5_000 {
            let count = 1 + next(4);
            let mut text = "version = 1\n[files]\nread = [".to_owned();
            for item in 0..count {
                text += &[BETWEEN[next(8)], ITEMS[next(5)], BETWEEN[next(8)]].concat();
                if item + 1 < count || next(2) == 0 {
                    text.push(',');
                }
            }
            text += &format!("{}]\nwrite = [\".\"]\n", BETWEEN[next(8)]);
            let (Found::List { items, .. }, _) = find(&text, Key::Read).unwrap() else { panic!("no list") };
            let nth = next(count);
            let grant = Grant { key: Key::Read, value: String::new(), span: items[nth].clone() };
            let mut expected = read(&text);
            expected.remove(nth);
            let after = remove(&text, &grant).unwrap();
            assert_eq!(read(&after), expected, "{text}\n--- without {nth}\n{after}");
        }
    }
}
