//! JSON as a client writes it, read strictly: what two parsers could read differently is refused.
//!
//! A name twice in one object is refused, since which of them counts differs from parser to parser. So are half of a surrogate
//! pair, what follows the value, and depth that no client has. Nothing is allocated but what the text holds.

use std::borrow::Cow;

/// A value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Value<'a> {
    Null,
    Bool(bool),
    Number(&'a str),
    Text(Cow<'a, str>),
    List(Vec<Value<'a>>),
    Map(Vec<(Cow<'a, str>, Value<'a>)>),
}

/// Why something is no JSON that we read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadJson {
    #[error("it is no text")]
    NotText,
    #[error("it is no JSON, or cut short")]
    Malformed,
    #[error("a name stands twice in one object")]
    Twice,
    #[error("it is nested too deep")]
    TooDeep,
}

/// No client nests half as deep.
const DEEPEST: u32 = 64;

impl<'a> Value<'a> {
    /// Reads all of `bytes`.
    pub(crate) fn parse(bytes: &'a [u8]) -> Result<Self, BadJson> {
        let text = std::str::from_utf8(bytes).map_err(|_| BadJson::NotText)?;
        let mut reader = Reader { text, at: 0 };
        let value = reader.value(0)?;
        reader.space();
        if reader.at == text.len() { Ok(value) } else { Err(BadJson::Malformed) }
    }

    /// What stands under a name.
    pub(crate) fn get(&self, name: &str) -> Option<&Self> {
        match self {
            Self::Map(fields) => fields.iter().find(|(field, _)| field == name).map(|(_, value)| value),
            _ => None,
        }
    }

    /// The text, if it is one.
    pub(crate) fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    fn byte(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn space(&mut self) {
        while matches!(self.byte(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn take(&mut self, byte: u8) -> Result<(), BadJson> {
        self.space();
        if self.byte() != Some(byte) {
            return Err(BadJson::Malformed);
        }
        self.at += 1;
        Ok(())
    }

    fn word(&mut self, word: &str, value: Value<'a>) -> Result<Value<'a>, BadJson> {
        if !self.text[self.at..].starts_with(word) {
            return Err(BadJson::Malformed);
        }
        self.at += word.len();
        Ok(value)
    }

    fn value(&mut self, depth: u32) -> Result<Value<'a>, BadJson> {
        if depth > DEEPEST {
            return Err(BadJson::TooDeep);
        }
        self.space();
        match self.byte().ok_or(BadJson::Malformed)? {
            b'{' => self.map(depth),
            b'[' => self.list(depth),
            b'"' => self.string().map(Value::Text),
            b't' => self.word("true", Value::Bool(true)),
            b'f' => self.word("false", Value::Bool(false)),
            b'n' => self.word("null", Value::Null),
            _ => self.number(),
        }
    }

    fn map(&mut self, depth: u32) -> Result<Value<'a>, BadJson> {
        self.take(b'{')?;
        let mut fields: Vec<(Cow<'a, str>, Value<'a>)> = Vec::new();
        self.space();
        if self.byte() == Some(b'}') {
            self.at += 1;
            return Ok(Value::Map(fields));
        }
        loop {
            self.space();
            let name = self.string()?;
            self.take(b':')?;
            let value = self.value(depth + 1)?;
            fields.push((name, value));
            self.space();
            match self.byte() {
                Some(b',') => self.at += 1,
                _ => break,
            }
        }
        self.take(b'}')?;
        // Sorted places rather than one comparison with each: somebody may send a million names.
        let mut names: Vec<&str> = fields.iter().map(|(name, _)| name.as_ref()).collect();
        names.sort_unstable();
        if names.windows(2).any(|pair| pair[0] == pair[1]) { Err(BadJson::Twice) } else { Ok(Value::Map(fields)) }
    }

    fn list(&mut self, depth: u32) -> Result<Value<'a>, BadJson> {
        self.take(b'[')?;
        let mut items = Vec::new();
        self.space();
        if self.byte() == Some(b']') {
            self.at += 1;
            return Ok(Value::List(items));
        }
        loop {
            items.push(self.value(depth + 1)?);
            self.space();
            match self.byte() {
                Some(b',') => self.at += 1,
                _ => break,
            }
        }
        self.take(b']')?;
        Ok(Value::List(items))
    }

    fn number(&mut self) -> Result<Value<'a>, BadJson> {
        let rest = &self.text[self.at..];
        let length = rest.bytes().take_while(|b| matches!(b, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E')).count();
        let number = &rest[..length];
        // Rust's own reading takes what JSON takes and a little more, none of which can begin here with another byte.
        let digits = number.strip_prefix('-').unwrap_or(number);
        if !digits.starts_with(|c: char| c.is_ascii_digit()) || number.parse::<f64>().is_err() {
            return Err(BadJson::Malformed);
        }
        self.at += length;
        Ok(Value::Number(number))
    }

    fn string(&mut self) -> Result<Cow<'a, str>, BadJson> {
        if self.byte() != Some(b'"') {
            return Err(BadJson::Malformed);
        }
        self.at += 1;
        let mut whole: Option<String> = None;
        loop {
            let rest = &self.text[self.at..];
            let plain = rest.bytes().position(|b| b == b'"' || b == b'\\' || b < 0x20).ok_or(BadJson::Malformed)?;
            let stretch = &rest[..plain];
            self.at += plain + 1;
            match rest.as_bytes()[plain] {
                b'"' => {
                    return Ok(match whole {
                        None => Cow::Borrowed(stretch),
                        Some(mut whole) => {
                            whole.push_str(stretch);
                            Cow::Owned(whole)
                        }
                    });
                }
                b'\\' => {
                    let whole = whole.get_or_insert_default();
                    whole.push_str(stretch);
                    whole.push(self.escape()?);
                }
                _ => return Err(BadJson::Malformed),
            }
        }
    }

    fn escape(&mut self) -> Result<char, BadJson> {
        let byte = self.byte().ok_or(BadJson::Malformed)?;
        self.at += 1;
        Ok(match byte {
            b'"' | b'\\' | b'/' => char::from(byte),
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => {
                let first = self.unit()?;
                let units = if (0xd800..0xdc00).contains(&first) {
                    if !self.text[self.at..].starts_with("\\u") {
                        return Err(BadJson::Malformed);
                    }
                    self.at += 2;
                    vec![first, self.unit()?]
                } else {
                    vec![first]
                };
                match char::decode_utf16(units).collect::<Vec<_>>().as_slice() {
                    [Ok(character)] => *character,
                    _ => return Err(BadJson::Malformed),
                }
            }
            _ => return Err(BadJson::Malformed),
        })
    }

    fn unit(&mut self) -> Result<u16, BadJson> {
        let digits = self.text.get(self.at..self.at + 4).ok_or(BadJson::Malformed)?;
        if !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(BadJson::Malformed);
        }
        self.at += 4;
        u16::from_str_radix(digits, 16).map_err(|_| BadJson::Malformed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Result<Value<'_>, BadJson>) {
        assert_eq!(Value::parse(text.as_bytes()), expected, "{text}");
    }

    #[test]
    fn values() {
        let text = |text: &'static str| Value::Text(text.into());
        check(" null ", Ok(Value::Null));
        check("-0.5e+3", Ok(Value::Number("-0.5e+3")));
        check(r#""a\u00e9\ud83d\ude00\/\n""#, Ok(text("a\u{e9}\u{1f600}/\n")));
        check("[]", Ok(Value::List(Vec::new())));
        check("[true,[1]]", Ok(Value::List(vec![Value::Bool(true), Value::List(vec![Value::Number("1")])])));
        check(r#"{"a":"b", "c":{}}"#, Ok(Value::Map(vec![("a".into(), text("b")), ("c".into(), Value::Map(vec![]))])));
    }

    #[test]
    fn what_parsers_disagree_about_is_refused() {
        check(r#"{"a":1,"a":2}"#, Err(BadJson::Twice));
        check(r#"{"a":1,"\u0061":2}"#, Err(BadJson::Twice));
        for text in [
            "",
            " ",
            "{",
            "{}x",
            "{} {}",
            "[1,]",
            "{,}",
            r#"{"a"}"#,
            r#"{"a":1,}"#,
            r#"{a:1}"#,
            "'a'",
            "+1",
            ".5",
            "NaN",
            "Infinity",
            "-",
            "nul",
            "truex",
            "\"a",
            "\"\u{1}\"",
            r#""\x""#,
            r#""\ud800""#,
            r#""\ud800\u0041""#,
            r#""\udc00""#,
            r#""\u12""#,
            r#""\u+123""#,
            "// c\n{}",
            "\u{feff}{}",
            "1e",
        ] {
            check(text, Err(BadJson::Malformed));
        }
        assert_eq!(Value::parse(b"\"\xff\""), Err(BadJson::NotText));
        let deep = "[".repeat(100_000);
        check(&deep, Err(BadJson::TooDeep));
    }
}
