//! Text becomes a tree in which every key and value knows where it was written. TOML and JSON give the same tree, so one
//! reader serves policies and an orchestrator's work items.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use jsonc_parser::errors::{ParseError, ParseErrorKind};
use jsonc_parser::{CollectOptions, ParseOptions, ParseStringErrorKind, ast, parse_to_ast};
use toml::de::{DeTable, DeValue};

use crate::text::{Diagnostic, Format, Place, PolicyText, did_you_mean, short};

/// A value and where it stands.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) place: Place,
    pub(crate) format: Format,
    pub(crate) value: Value,
}

/// The kinds of value that TOML and JSON share.
#[derive(Debug)]
pub(crate) enum Value {
    String(String),
    /// `None` when it does not fit.
    Integer(Option<i64>),
    Boolean(bool),
    Array(Vec<Node>),
    Table(Vec<(Key, Node)>),
    /// What no policy key takes: floats, dates, null. Only its name is kept, for the message.
    Other(&'static str),
}

#[derive(Debug, Clone)]
pub(crate) struct Key {
    pub(crate) name: String,
    pub(crate) place: Place,
}

impl Node {
    /// What kind of value this is, for a message.
    pub(crate) fn kind(&self) -> &'static str {
        match &self.value {
            Value::String(_) => "a string",
            Value::Integer(_) => "a number",
            Value::Boolean(_) => "true or false",
            Value::Array(_) => "a list",
            Value::Table(_) => self.format.table(),
            Value::Other(name) => name,
        }
    }
}

const NESTED_KEYS: &str = "keys are nested too deep";
const NESTED_VALUES: &str = "values are nested too deep";

/// Parses TOML. Every syntax error is returned, not only the first.
pub(crate) fn from_toml(text: &Arc<PolicyText>) -> Result<Node, Vec<Diagnostic>> {
    let (table, errors) = DeTable::parse_recoverable(&text.text);
    if errors.is_empty() {
        let span = table.span();
        return Ok(table_node(table.get_ref(), text, span));
    }
    // The parser reports by stage; a person reads from the top.
    let mut said: Vec<Diagnostic> = errors.iter().map(|error| toml_error(error, text)).collect();
    said.sort_by_key(|d| d.place.as_ref().map(Place::start));
    Err(first_few(said))
}

fn toml_error(error: &toml::de::Error, text: &Arc<PolicyText>) -> Diagnostic {
    let message = error.message().lines().next().unwrap_or_default();
    let Some(span) = error.span() else {
        // The parser knows no place for a key of too many parts, and any line we underlined would be another one.
        let message =
            if message == "recursion limit" { NESTED_KEYS.to_owned() } else { format!("not TOML: {message}") };
        return Diagnostic::error(Place::whole(text), message);
    };
    if message.starts_with("cannot recurse further") {
        return Diagnostic::error(Place::new(text, span), NESTED_VALUES);
    }
    if ["missing escaped value", "too few unicode value digits", "invalid value, expected unicode"]
        .iter()
        .any(|escape| message.starts_with(escape))
    {
        let backslash = text.text.get(..span.start).and_then(|before| before.rfind('\\')).unwrap_or(span.start);
        return Diagnostic::error(Place::new(text, backslash..span.end), "not TOML: this backslash starts no escape")
            .help(r#"in "..." a backslash starts an escape; use '...'"#);
    }
    Diagnostic::error(Place::new(text, span), format!("not TOML: {message}"))
}

/// Cuts a list of mistakes to what a person reads, and says how many are left.
pub(crate) fn first_few(mut said: Vec<Diagnostic>) -> Vec<Diagnostic> {
    let more = said.len().saturating_sub(super::MOST_DIAGNOSTICS);
    if more > 0 {
        said.truncate(super::MOST_DIAGNOSTICS);
        said.push(Diagnostic::note(None, format!("{more} more mistakes are not shown")));
    }
    said
}

fn table_node(table: &DeTable<'_>, text: &Arc<PolicyText>, span: Range<usize>) -> Node {
    let mut fields: Vec<(Key, Node)> = table
        .iter()
        .map(|(key, value)| {
            let name = Key { name: key.get_ref().to_string(), place: Place::new(text, key.span()) };
            (name, value_node(value.get_ref(), text, value.span()))
        })
        .collect();
    // The map is sorted by name; diagnostics follow the file.
    fields.sort_by_key(|(key, _)| key.place.start());
    Node { place: Place::new(text, span), format: Format::Toml, value: Value::Table(fields) }
}

fn value_node(value: &DeValue<'_>, text: &Arc<PolicyText>, span: Range<usize>) -> Node {
    let value = match value {
        DeValue::String(s) => Value::String(s.to_string()),
        DeValue::Integer(i) => Value::Integer(i64::from_str_radix(i.as_str(), i.radix()).ok()),
        DeValue::Boolean(b) => Value::Boolean(*b),
        DeValue::Array(items) => {
            Value::Array(items.iter().map(|item| value_node(item.get_ref(), text, item.span())).collect())
        }
        DeValue::Table(table) => return table_node(table, text, span),
        DeValue::Float(_) => Value::Other("a fraction"),
        DeValue::Datetime(_) => Value::Other("a date"),
    };
    Node { place: Place::new(text, span), format: Format::Toml, value }
}

/// Parses JSON: no comments, no trailing commas, no second value, no key twice.
pub(crate) fn from_json(text: &Arc<PolicyText>) -> Result<Node, Vec<Diagnostic>> {
    let strict = ParseOptions {
        allow_comments: false,
        allow_loose_object_property_names: false,
        allow_trailing_commas: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
    };
    if text.text.starts_with(BYTE_ORDER_MARK) {
        let place = Place::new(text, 0..BYTE_ORDER_MARK.len_utf8());
        let message = "not JSON: the file begins with a byte order mark";
        return Err(vec![Diagnostic::error(place, message).help("save it as UTF-8 without one")]);
    }
    let parsed = parse_to_ast(&text.text, &CollectOptions::default(), &strict);
    let Some(value) = parsed.map_err(|error| vec![json_error(&error, text)])?.value else {
        return Err(vec![Diagnostic::error(Place::new(text, 0..0), "not JSON: the file is empty")]);
    };
    let mut said = Vec::new();
    let node = json_node(&value, text, &mut said);
    if said.is_empty() { Ok(node) } else { Err(first_few(said)) }
}

/// Windows programs like to begin a text with it; JSON must not (RFC 8259, 8.1).
const BYTE_ORDER_MARK: char = '\u{feff}';

fn json_error(error: &ParseError, text: &Arc<PolicyText>) -> Diagnostic {
    let place = Place::new(text, error.range().start..error.range().end);
    match error.kind() {
        ParseErrorKind::NestingDepthExceeded => Diagnostic::error(place, NESTED_VALUES),
        ParseErrorKind::String(ParseStringErrorKind::InvalidEscape) => {
            Diagnostic::error(place, "not JSON: this backslash starts no escape")
                .help(r"a backslash that means itself is written twice: `\\`")
        }
        ParseErrorKind::String(ParseStringErrorKind::InvalidUnicodeEscapeSequence(_)) => {
            Diagnostic::error(place, "not JSON: this escape stands for no character")
        }
        kind => Diagnostic::error(place, format!("not JSON: {}", lower_first(&kind.to_string()))),
    }
}

fn lower_first(sentence: &str) -> String {
    let mut chars = sentence.chars();
    chars.next().map(|first| first.to_ascii_lowercase()).into_iter().chain(chars).collect()
}

fn json_node(value: &ast::Value<'_>, text: &Arc<PolicyText>, said: &mut Vec<Diagnostic>) -> Node {
    let (range, value) = match value {
        ast::Value::StringLit(s) => (s.range, Value::String(json_string(s, text, said))),
        ast::Value::NumberLit(n) if n.value.contains('.') && !n.value.contains(['e', 'E']) => {
            (n.range, Value::Other("a fraction"))
        }
        ast::Value::NumberLit(n) => (n.range, Value::Integer(n.value.parse().ok())),
        ast::Value::BooleanLit(b) => (b.range, Value::Boolean(b.value)),
        ast::Value::NullKeyword(n) => (n.range, Value::Other("null")),
        ast::Value::Array(a) => {
            (a.range, Value::Array(a.elements.iter().map(|item| json_node(item, text, said)).collect()))
        }
        ast::Value::Object(o) => (o.range, Value::Table(json_fields(o, text, said))),
    };
    Node { place: Place::new(text, range.start..range.end), format: Format::Json, value }
}

fn json_fields(object: &ast::Object<'_>, text: &Arc<PolicyText>, said: &mut Vec<Diagnostic>) -> Vec<(Key, Node)> {
    let mut fields: Vec<(Key, Node)> = Vec::new();
    let mut seen = BTreeSet::new();
    for property in &object.properties {
        let (name, range) = match &property.name {
            ast::ObjectPropName::String(s) => (json_string(s, text, said), s.range),
            ast::ObjectPropName::Word(w) => (w.value.to_owned(), w.range),
        };
        let key = Key { name, place: Place::new(text, range.start..range.end) };
        // Which of two equal keys counts differs from parser to parser; an orchestrator and we must not differ.
        if !seen.insert(key.name.clone()) {
            let message = format!("the key `{}` is written twice", short(&key.name));
            said.push(Diagnostic::error(key.place.clone(), message));
        }
        fields.push((key, json_node(&property.value, text, said)));
    }
    fields
}

/// A string's value. The parser lets control characters pass, which JSON forbids (RFC 8259, 7).
fn json_string(string: &ast::StringLit<'_>, text: &Arc<PolicyText>, said: &mut Vec<Diagnostic>) -> String {
    let place = Place::new(text, string.range.start..string.range.end);
    if let Some((at, control)) = place.words().bytes().enumerate().find(|(_, byte)| *byte < 0x20) {
        let escape = match control {
            b'\n' => r"\n".to_owned(),
            b'\r' => r"\r".to_owned(),
            b'\t' => r"\t".to_owned(),
            other => format!(r"\u{other:04x}"),
        };
        let message = "not JSON: a control character inside a string";
        said.push(Diagnostic::error(place.within(at..at + 1), message).help(format!("write it as `{escape}`")));
    }
    string.value.to_string()
}

/// The error for a word that is none of the words it may be.
pub(crate) fn unknown_word(place: Place, what: &str, word: &str, known: &[&str]) -> Diagnostic {
    let help = match did_you_mean(word, known.iter().copied()) {
        Some(meant) => format!("did you mean `{meant}`?"),
        None => format!("known here: {}", known.join(", ")),
    };
    Diagnostic::error(place, format!("unknown {what} `{}`", short(word))).help(help)
}
