//! JSON and TOML text, written and never read.

use std::fmt;

/// A value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Json {
    /// `true` or `false`.
    Bool(bool),
    /// A whole number.
    Number(u64),
    /// Text.
    Text(String),
    /// A list.
    List(Vec<Json>),
    /// Names and values, in this order.
    Map(Vec<(String, Json)>),
}

impl Json {
    pub(crate) fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    pub(crate) fn texts<T: Into<String>>(texts: impl IntoIterator<Item = T>) -> Self {
        Self::List(texts.into_iter().map(Self::text).collect())
    }

    pub(crate) fn map<const N: usize>(fields: [(&str, Self); N]) -> Self {
        Self::Map(fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
    }

    fn write(&self, f: &mut fmt::Formatter<'_>, depth: usize) -> fmt::Result {
        let line = |f: &mut fmt::Formatter<'_>, depth: usize| write!(f, "\n{:1$}", "", depth * 2);
        match self {
            Self::Bool(value) => write!(f, "{value}"),
            Self::Number(value) => write!(f, "{value}"),
            Self::Text(text) => f.write_str(&quoted(text)),
            Self::List(items) if items.is_empty() => f.write_str("[]"),
            Self::Map(fields) if fields.is_empty() => f.write_str("{}"),
            Self::List(items) => {
                f.write_str("[")?;
                for (number, item) in items.iter().enumerate() {
                    f.write_str(if number == 0 { "" } else { "," })?;
                    line(f, depth + 1)?;
                    item.write(f, depth + 1)?;
                }
                line(f, depth)?;
                f.write_str("]")
            }
            Self::Map(fields) => {
                f.write_str("{")?;
                for (number, (name, value)) in fields.iter().enumerate() {
                    f.write_str(if number == 0 { "" } else { "," })?;
                    line(f, depth + 1)?;
                    write!(f, "{}: ", quoted(name))?;
                    value.write(f, depth + 1)?;
                }
                line(f, depth)?;
                f.write_str("}")
            }
        }
    }
}

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, 0)
    }
}

/// A string as JSON and TOML both take it: what is no plain character is written as `\uXXXX`.
pub(crate) fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            // Control characters, and what ends a line in JavaScript.
            c if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}') => {
                quoted.push_str(&format!("\\u{:04x}", u32::from(c)));
            }
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_quoted() {
        for (text, expected) in [
            ("a", r#""a""#),
            ("a\"b\\c", r#""a\"b\\c""#),
            ("\n\t\u{1}\u{7f}", r#""\n\t\u0001\u007f""#),
            ("ü🦀", "\"ü🦀\""),
            ("\u{2028}", r#""\u2028""#),
        ] {
            assert_eq!(quoted(text), expected);
        }
    }

    #[test]
    fn values_are_indented() {
        let value = Json::map([
            ("a", Json::texts(["x", "y"])),
            ("b", Json::map([("c", Json::Bool(true)), ("d", Json::List(Vec::new()))])),
            ("e", Json::Number(3)),
            ("f", Json::Map(Vec::new())),
        ]);
        let expected = "{\n  \"a\": [\n    \"x\",\n    \"y\"\n  ],\n  \"b\": {\n    \"c\": true,\n    \"d\": []\n  },\n  \
                        \"e\": 3,\n  \"f\": {}\n}";
        assert_eq!(value.to_string(), expected);
    }
}
