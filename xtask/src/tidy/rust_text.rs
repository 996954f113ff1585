//! Rust source taken apart just far enough for the rules: code without comments and strings, comments without code, and
//! which lines are there for tests only.
//!
//! This is no parser. It knows comments, strings, characters and brackets, and keeps every line where it was.

use std::ops::Range;

/// One source file, split.
pub(super) struct RustText {
    /// The code; comments and the insides of strings are blanks.
    pub(super) code: String,
    /// The comments with their slashes; all else is blanks.
    pub(super) comments: String,
}

impl RustText {
    pub(super) fn new(text: &str) -> Self {
        let mut split = Split { rest: text, code: String::new(), comments: String::new() };
        while split.step() {}
        Self { code: split.code, comments: split.comments }
    }

    /// The byte ranges of the items under `#[cfg(test)]`.
    fn test_items(&self) -> Vec<Range<usize>> {
        const MARK: &str = "#[cfg(test)]";
        let mut items = Vec::new();
        let mut from = 0;
        while let Some(found) = self.code[from..].find(MARK) {
            let start = from + found;
            let after_mark = start + MARK.len();
            from = after_mark + item_length(&self.code[after_mark..]);
            items.push(start..from);
        }
        items
    }

    /// The code with every item under `#[cfg(test)]` blanked out.
    pub(super) fn production(&self) -> String {
        let mut production = String::with_capacity(self.code.len());
        for item in self.test_items() {
            production.push_str(&self.code[production.len()..item.start]);
            push_blanks(&mut production, &self.code[item]);
        }
        production.push_str(&self.code[production.len()..]);
        production
    }
}

/// The byte length of the item (with its other attributes) that starts here: up to its `;` or the end of its braces.
fn item_length(code: &str) -> usize {
    let mut depth = 0_usize;
    for (at, character) in code.char_indices() {
        match character {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' => depth = depth.saturating_sub(1),
            '}' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return at + 1;
                }
            }
            ';' if depth == 0 => return at + 1,
            _ => {}
        }
    }
    code.len()
}

/// Appends as many blanks as `text` has bytes, and its line ends as they are.
fn push_blanks(to: &mut String, text: &str) {
    to.extend(text.bytes().map(|byte| if byte == b'\n' { '\n' } else { ' ' }));
}

/// Whether `character` may be part of a Rust name.
pub(super) fn is_name(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

/// The byte offsets at which `word` stands in `code` as a whole name.
pub(super) fn names<'a>(code: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    code.match_indices(word).map(|(at, _)| at).filter(move |at| {
        let before = code[..*at].chars().next_back();
        let after = code[at + word.len()..].chars().next();
        !before.is_some_and(is_name) && !after.is_some_and(is_name)
    })
}

/// The line, from 1, of a byte offset.
pub(super) fn line_at(text: &str, offset: usize) -> usize {
    1 + text[..offset].matches('\n').count()
}

/// The state of taking a file apart.
struct Split<'a> {
    rest: &'a str,
    code: String,
    comments: String,
}

impl Split<'_> {
    /// Takes the next piece; false at the end.
    fn step(&mut self) -> bool {
        let Some(first) = self.rest.chars().next() else { return false };
        if self.rest.starts_with("//") {
            let end = self.rest.find('\n').unwrap_or(self.rest.len());
            self.take_comment(end);
        } else if self.rest.starts_with("/*") {
            self.take_comment(block_comment_length(self.rest));
        } else if let Some((open, length)) = string_length(self.rest, self.code.chars().next_back()) {
            self.take_string(open, length);
        } else {
            self.take_code(first.len_utf8());
        }
        true
    }

    fn take_code(&mut self, length: usize) {
        let (piece, rest) = self.rest.split_at(length);
        self.code.push_str(piece);
        push_blanks(&mut self.comments, piece);
        self.rest = rest;
    }

    fn take_comment(&mut self, length: usize) {
        let (piece, rest) = self.rest.split_at(length);
        push_blanks(&mut self.code, piece);
        self.comments.push_str(piece);
        self.rest = rest;
    }

    /// Keeps what opens the string (its prefix and first quote) as code and blanks the remainder.
    fn take_string(&mut self, open: usize, length: usize) {
        self.take_code(open);
        let (piece, rest) = self.rest.split_at(length - open);
        push_blanks(&mut self.code, piece);
        push_blanks(&mut self.comments, piece);
        self.rest = rest;
    }
}

/// Block comments nest in Rust.
fn block_comment_length(text: &str) -> usize {
    let mut depth = 0_usize;
    let mut at = 0;
    while at < text.len() {
        let here = &text[at..];
        if here.starts_with("/*") {
            depth += 1;
            at += 2;
        } else if here.starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += here.chars().next().map_or(1, char::len_utf8);
        }
    }
    text.len()
}

/// When a string or character literal starts here: the length of what opens it, and its whole length.
fn string_length(text: &str, before: Option<char>) -> Option<(usize, usize)> {
    // The `r` in `for"` is the end of a name and opens nothing; Rust refuses that spelling, so the quote opens a string.
    let prefix = if before.is_some_and(is_name) { 0 } else { prefix_length(text) };
    let (letters, quoted) = text.split_at(prefix);
    if letters.ends_with('r') {
        let hashes = quoted.bytes().take_while(|byte| *byte == b'#').count();
        let open = prefix + hashes + 1;
        let close = format!("\"{}", "#".repeat(hashes));
        let inside = text.get(open..).filter(|_| quoted[hashes..].starts_with('"'))?;
        let end = inside.find(&close).map_or(text.len(), |at| open + at + close.len());
        return Some((open, end));
    }
    let quote = quoted.chars().next().filter(|quote| matches!(quote, '"' | '\''))?;
    let inside = &quoted[1..];
    if quote == '\'' && is_lifetime(inside) {
        return None;
    }
    let mut escaped = false;
    for (at, character) in inside.char_indices() {
        match character {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if character == quote => return Some((prefix + 1, prefix + 1 + at + 1)),
            _ => {}
        }
    }
    Some((prefix + 1, text.len()))
}

/// The length of the letters before a quote that say what kind of string it is: `b`, `c`, `r`, `br`, `cr`.
fn prefix_length(text: &str) -> usize {
    let letters = text.bytes().take_while(|byte| matches!(byte, b'b' | b'c' | b'r')).count();
    let known = matches!(&text[..letters], "b" | "c" | "r" | "br" | "cr");
    let quoted = text[letters..].trim_start_matches('#').starts_with(['"', '\'']);
    // `r#name` is a name, not a string; and only raw strings have hashes.
    if known && quoted && (text[..letters].ends_with('r') || !text[letters..].starts_with('#')) { letters } else { 0 }
}

/// Whether what follows a single quote is a lifetime or a label: one character of a name, and no quote after it.
fn is_lifetime(inside: &str) -> bool {
    let mut characters = inside.chars();
    characters.next().is_some_and(is_name) && characters.next() != Some('\'')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn code(text: &str, expected: &str) {
        let split = RustText::new(text);
        assert_eq!(split.code, expected);
        assert_eq!(split.code.len(), split.comments.len(), "both views keep every place");
    }

    #[test]
    fn comments_and_strings_are_not_code() {
        code("a // b\nc", "a     \nc");
        code("a /* b /* c */ d */ e", "a                   e");
        code(r#"f("x // y", z)"#, r#"f("       , z)"#);
        code(r#"f("a\"b", c)"#, r#"f("     , c)"#);
        code(r##"f(r#"a"b"#, c)"##, r##"f(r#"     , c)"##);
        code("f(br\"\\\", c)", "f(br\"  , c)");
        code("f(b\"x\", c)", "f(b\"  , c)");
        code("\"never closed", "\"            ");
        code("/* never closed", "               ");
    }

    #[test]
    fn quotes_of_characters_and_lifetimes_are_told_apart() {
        code("f('\"', x)", "f('  , x)");
        code("f('\\'', x)", "f('   , x)");
        code("f(b'\"', x)", "f(b'  , x)");
        code("fn f<'a>(x: &'a str, y: &'static str)", "fn f<'a>(x: &'a str, y: &'static str)");
        code("'outer: loop {}", "'outer: loop {}");
        code("let r#type = 1; // no", "let r#type = 1;      ");
        code("f('é', \"é\")", "f('   , \"   )");
    }

    #[test]
    fn comments_are_kept_where_they_were() {
        let split = RustText::new("x(\"// no\"); // yes\n");
        assert_eq!(split.comments, "            // yes\n".replacen("            ", &" ".repeat(12), 1));
    }

    #[track_caller]
    fn production(text: &str, expected: &str) {
        let production = RustText::new(text).production();
        let lines: Vec<&str> = production.lines().filter(|line| !line.trim().is_empty()).collect();
        assert_eq!(lines.join("\n"), expected);
        assert_eq!(production.len(), text.len());
    }

    #[test]
    fn items_under_cfg_test_are_not_production() {
        production("a();\n#[cfg(test)]\nmod tests {\n  fn f() { g(); }\n}\n", "a();");
        // A test module in a file of its own must not hide what follows it.
        production("#[cfg(test)]\nmod tests;\nb();\n", "b();");
        production("#[cfg(test)]\n#[track_caller]\nfn f(x: [u8; 2]) { \"}\" }\nc();\n", "c();");
        production("// #[cfg(test)]\nd();\n", "d();");
    }

    #[test]
    fn names_are_whole() {
        let found: Vec<usize> = names("unsafe_code; unsafe {}; not_unsafe; unsafe", "unsafe").collect();
        assert_eq!(found, [13, 36]);
        assert_eq!(line_at("a\nb\nc", 4), 3);
    }
}
