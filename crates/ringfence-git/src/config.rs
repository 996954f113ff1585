//! Git's configuration as text: entries in, entries out. Nothing here looks at a file.

/// One setting. Sections and names are in lower case; the part in quotes is as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// In lower case.
    pub section: Vec<u8>,
    /// The part in quotes, as it was written.
    pub subsection: Option<Vec<u8>>,
    /// In lower case.
    pub name: Vec<u8>,
    /// `name` alone, without `=`, has none and means true.
    pub value: Option<Vec<u8>>,
}

impl Entry {
    /// Is it `section.name`, whatever the part in quotes?
    pub fn is(&self, section: &str, name: &str) -> bool {
        self.section == section.as_bytes() && self.name == name.as_bytes()
    }

    /// Does it say yes?
    pub fn is_true(&self) -> bool {
        let words: [&[u8]; 4] = [b"true", b"yes", b"on", b"1"];
        self.value.as_ref().is_none_or(|value| words.contains(&value.to_ascii_lowercase().as_slice()))
    }

    /// Does `section.name` match one of these patterns? A pattern is a key in lower case, or the beginning of one and `*`.
    pub fn matches_any<'p>(&self, patterns: impl IntoIterator<Item = &'p str>) -> bool {
        let key = [self.section.as_slice(), b".", &self.name].concat();
        patterns.into_iter().any(|pattern| match pattern.strip_suffix('*') {
            Some(front) => key.starts_with(front.as_bytes()),
            None => key == pattern.as_bytes(),
        })
    }
}

/// Reads a file. What cannot be understood ends it, as it would for git: what stands before counts.
pub fn parse(text: &[u8]) -> Vec<Entry> {
    read(text).0
}

/// Reads a file that can be understood to its end.
pub fn parse_whole(text: &[u8]) -> Option<Vec<Entry>> {
    let (entries, rest) = read(text);
    rest.is_empty().then_some(entries)
}

/// The entries, and what was not understood.
fn read(text: &[u8]) -> (Vec<Entry>, &[u8]) {
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    let mut reader = Reader { rest: text };
    let mut entries = Vec::new();
    let mut section: Option<(Vec<u8>, Option<Vec<u8>>)> = None;
    loop {
        reader.skip_blanks_and_comments();
        let left = reader.rest;
        match (reader.rest.first(), &section) {
            (None, _) => return (entries, &[]),
            (Some(b'['), _) => match reader.section() {
                Some(found) => section = Some(found),
                None => return (entries, left),
            },
            (Some(_), Some((section, subsection))) => match reader.setting() {
                Some((name, value)) => {
                    entries.push(Entry { section: section.clone(), subsection: subsection.clone(), name, value })
                }
                None => return (entries, left),
            },
            (Some(_), None) => return (entries, left),
        }
    }
}

/// Is there nothing in a text that two readers of git's configuration could take differently: no control characters but tabs and line
/// ends, no line that goes on with a backslash, no byte order mark?
pub fn is_plain(text: &[u8]) -> bool {
    let is_control = |byte: &u8| byte.is_ascii_control() && !matches!(byte, b'\t' | b'\n');
    !text.iter().any(is_control) && !text.windows(2).any(|pair| pair == b"\\\n") && !text.starts_with(b"\xef\xbb\xbf")
}

/// Writes entries as git does: one heading for those that belong together, and quotes only where they are needed.
pub fn write_as_git(entries: &[Entry]) -> Vec<u8> {
    let mut out = Vec::new();
    for group in entries.chunk_by(|a, b| a.section == b.section && a.subsection == b.subsection) {
        let heading = group.iter().take(1).map(|first| Entry { name: Vec::new(), value: None, ..first.clone() });
        let mut head = write(&heading.collect::<Vec<_>>());
        head.truncate(head.len().saturating_sub(2));
        out.extend(head);
        for entry in group {
            out.extend([b"\t", entry.name.as_slice()].concat());
            if let Some(value) = &entry.value {
                let is_plain = |byte: &u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\' | b'#' | b';');
                let is_plain = !value.is_empty() && value.iter().all(is_plain);
                let value = if is_plain { value.clone() } else { [b"\"", escaped(value).as_slice(), b"\""].concat() };
                out.extend([b" = ", value.as_slice()].concat());
            }
            out.push(b'\n');
        }
    }
    out
}

/// Writes entries as git reads them.
pub fn write(entries: &[Entry]) -> Vec<u8> {
    let mut out = Vec::new();
    for entry in entries {
        out.extend([b"[", entry.section.as_slice()].concat());
        if let Some(subsection) = &entry.subsection {
            out.extend([b" \"".as_slice(), &escaped(subsection), b"\""].concat());
        }
        out.extend([b"]\n\t".as_slice(), &entry.name].concat());
        if let Some(value) = &entry.value {
            out.extend([b" = \"".as_slice(), &escaped(value), b"\""].concat());
        }
        out.push(b'\n');
    }
    out
}

fn escaped(value: &[u8]) -> Vec<u8> {
    value.iter().fold(Vec::new(), |mut out, byte| {
        match byte {
            b'"' | b'\\' => out.extend([b'\\', *byte]),
            b'\n' => out.extend(b"\\n"),
            b'\t' => out.extend(b"\\t"),
            _ => out.push(*byte),
        }
        out
    })
}

struct Reader<'t> {
    rest: &'t [u8],
}

/// A name, and its value where there is one.
type Setting = (Vec<u8>, Option<Vec<u8>>);

impl Reader<'_> {
    fn next(&mut self) -> Option<u8> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*first)
    }

    fn skip_line(&mut self) {
        while self.next().is_some_and(|byte| byte != b'\n') {}
    }

    fn skip_blanks_and_comments(&mut self) {
        while let Some(first) = self.rest.first() {
            match first {
                b'#' | b';' => self.skip_line(),
                byte if byte.is_ascii_whitespace() => drop(self.next()),
                _ => return,
            }
        }
    }

    /// `[section]`, `[section "part"]`, or the old `[section.part]`.
    fn section(&mut self) -> Option<(Vec<u8>, Option<Vec<u8>>)> {
        self.next();
        let mut name = Vec::new();
        loop {
            match self.next()? {
                b']' => break,
                b' ' | b'\t' => return Some((name, Some(self.subsection()?))),
                byte if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.') => {
                    name.push(byte.to_ascii_lowercase());
                }
                _ => return None,
            }
        }
        match name.iter().position(|byte| *byte == b'.') {
            Some(dot) => Some((name[..dot].to_vec(), Some(name[dot + 1..].to_vec()))),
            None => Some((name, None)),
        }
    }

    fn subsection(&mut self) -> Option<Vec<u8>> {
        while self.rest.first().is_some_and(|byte| matches!(byte, b' ' | b'\t')) {
            self.next();
        }
        if self.next()? != b'"' {
            return None;
        }
        let mut part = Vec::new();
        loop {
            match self.next()? {
                b'"' => break,
                b'\n' => return None,
                b'\\' => part.push(self.next()?),
                byte => part.push(byte),
            }
        }
        (self.next()? == b']').then_some(part)
    }

    fn setting(&mut self) -> Option<Setting> {
        let mut name = Vec::new();
        while let Some(byte) = self.rest.first().filter(|byte| byte.is_ascii_alphanumeric() || **byte == b'-') {
            name.push(byte.to_ascii_lowercase());
            self.next();
        }
        if !name.first()?.is_ascii_alphabetic() {
            return None;
        }
        while self.rest.first().is_some_and(|byte| matches!(byte, b' ' | b'\t' | b'\r')) {
            self.next();
        }
        match self.rest.first() {
            Some(b'=') => {
                self.next();
                Some((name, Some(self.value()?)))
            }
            None | Some(b'\n' | b'#' | b';') => Some((name, None)),
            Some(_) => None,
        }
    }

    /// Up to the end of the line: blanks around it do not count, quotes keep them, a backslash goes on.
    fn value(&mut self) -> Option<Vec<u8>> {
        let (mut value, mut kept, mut is_quoted) = (Vec::new(), 0, false);
        loop {
            match self.next() {
                None | Some(b'\n') if is_quoted => return None,
                None | Some(b'\n') => break,
                Some(b'#' | b';') if !is_quoted => {
                    self.skip_line();
                    break;
                }
                Some(b'"') => {
                    is_quoted = !is_quoted;
                    kept = value.len();
                }
                Some(b'\\') => {
                    match self.next()? {
                        b'\n' => continue,
                        b'\r' if self.rest.first() == Some(&b'\n') => {
                            self.next();
                            continue;
                        }
                        b'n' => value.push(b'\n'),
                        b't' => value.push(b'\t'),
                        b'b' => value.push(8),
                        byte @ (b'"' | b'\\') => value.push(byte),
                        _ => return None,
                    }
                    kept = value.len();
                }
                Some(byte) if byte.is_ascii_whitespace() && !is_quoted => {
                    if !value.is_empty() {
                        value.push(byte);
                    }
                }
                Some(byte) => {
                    value.push(byte);
                    kept = value.len();
                }
            }
        }
        value.truncate(kept);
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `section.part.name=value` for each entry.
    fn shown(text: &str) -> Vec<String> {
        let text_of = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let show = |entry: Entry| {
            let part = entry.subsection.map(|part| format!(".{}", text_of(&part))).unwrap_or_default();
            let value = entry.value.map(|value| format!("={}", text_of(&value))).unwrap_or_default();
            format!("{}{part}.{}{value}", text_of(&entry.section), text_of(&entry.name))
        };
        parse(text.as_bytes()).into_iter().map(show).collect()
    }

    #[track_caller]
    fn check(text: &str, expected: &[&str]) {
        assert_eq!(shown(text), expected, "{text}");
    }

    #[test]
    fn entries() {
        check("[user]\n\tname = A B\n\temail = a@b\n", &["user.name=A B", "user.email=a@b"]);
        check("\u{feff}[User] Name=x\r\n", &["user.name=x"]);
        check("[core]\n  autocrlf\n  eol = lf # why\n  ; no\n", &["core.autocrlf", "core.eol=lf"]);
        check("[url \"a \\\"b\\\\\"]\ninsteadOf = c", &["url.a \"b\\.insteadof=c"]);
        check("[Branch.Main]\nremote = origin", &["branch.main.remote=origin"]);
        check("[a]\nx = \" y # z \" w ; c\n", &["a.x= y # z  w"]);
        check("[a]\nx = one \\\n  two\\n\\t\\\"\\\\\n", &["a.x=one   two\n\t\"\\"]);
        check("[a]\nx =\n[b] y = 1", &["a.x=", "b.y=1"]);
    }

    /// What git would refuse ends the file.
    #[test]
    fn what_is_broken_ends_it() {
        check("x = 1\n", &[]);
        check("[a]\nx = 1\n[b\ny = 2\n", &["a.x=1"]);
        check("[a]\nx = \"open\ny = 2\n", &[]);
        check("[a]\nx = \\q\ny = 2\n", &[]);
        check("[a \"b]\nx = 1\n", &[]);
        check("[a]\n1x = 1\n", &[]);
        check("[a]\nx y\n", &[]);
        check("", &[]);
    }

    #[test]
    fn what_is_written_reads_the_same() {
        for text in ["[a]\nx = \" y\\n\\t\\\"\\\\ # \"\nz\n", "[url \"a \\\"b\\\\\"]\nx = \n", "[a \"\"]\nx = \\b\n"] {
            let entries = parse(text.as_bytes());
            assert!(!entries.is_empty());
            assert_eq!(parse(&write(&entries)), entries, "{text}");
        }
    }

    #[test]
    fn yes_and_no() {
        for (text, expected) in [("x", true), ("x = true", true), ("x = On", true), ("x = 1", true), ("x = no", false)]
        {
            assert_eq!(parse(format!("[a]\n{text}\n").as_bytes())[0].is_true(), expected, "{text}");
        }
    }
}
