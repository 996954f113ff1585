//! Text becomes a tree in which every key and value knows where it was written. TOML and JSON give the same tree, so one
//! reader serves policies and an orchestrator's work items.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use jsonc_parser::{CollectOptions, ParseOptions, ast, parse_to_ast};
use toml::de::{DeTable, DeValue};

use crate::text::{Diagnostic, Place, PolicyText, did_you_mean};

/// A value and where it stands.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) place: Place,
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
            Value::Table(_) => "a table",
            Value::Other(name) => name,
        }
    }
}

/// Parses TOML. Every syntax error is returned, not only the first.
pub(crate) fn from_toml(text: &Arc<PolicyText>) -> Result<Node, Vec<Diagnostic>> {
    let (table, errors) = DeTable::parse_recoverable(&text.text);
    if errors.is_empty() {
        let span = table.span();
        return Ok(table_node(table.get_ref(), text, span));
    }
    let said = errors.iter().map(|e| {
        Diagnostic::error(Place::new(text, e.span().unwrap_or(0..0)), format!("not TOML: {}", first_line(e.message())))
    });
    // The parser reports by stage; a person reads from the top.
    let mut said: Vec<Diagnostic> = said.collect();
    said.sort_by_key(|d| d.place.as_ref().map(Place::start));
    Err(first_few(said))
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

fn first_line(message: &str) -> &str {
    message.lines().next().unwrap_or(message)
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
    Node { place: Place::new(text, span), value: Value::Table(fields) }
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
    Node { place: Place::new(text, span), value }
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
    let parsed = parse_to_ast(&text.text, &CollectOptions::default(), &strict).map_err(|e| {
        let place = Place::new(text, e.range().start..e.range().end);
        vec![Diagnostic::error(place, format!("not JSON: {}", e.kind()))]
    })?;
    let Some(value) = parsed.value else {
        return Err(vec![Diagnostic::error(Place::new(text, 0..0), "not JSON: the file is empty")]);
    };
    let mut twice = Vec::new();
    let node = json_node(&value, text, &mut twice);
    if twice.is_empty() { Ok(node) } else { Err(first_few(twice)) }
}

fn json_node(value: &ast::Value<'_>, text: &Arc<PolicyText>, twice: &mut Vec<Diagnostic>) -> Node {
    let (range, value) = match value {
        ast::Value::StringLit(s) => (s.range, Value::String(s.value.to_string())),
        ast::Value::NumberLit(n) if n.value.contains(['.', 'e', 'E']) => (n.range, Value::Other("a fraction")),
        ast::Value::NumberLit(n) => (n.range, Value::Integer(n.value.parse().ok())),
        ast::Value::BooleanLit(b) => (b.range, Value::Boolean(b.value)),
        ast::Value::NullKeyword(n) => (n.range, Value::Other("null")),
        ast::Value::Array(a) => {
            (a.range, Value::Array(a.elements.iter().map(|item| json_node(item, text, twice)).collect()))
        }
        ast::Value::Object(o) => {
            let mut fields: Vec<(Key, Node)> = Vec::new();
            let mut seen = BTreeSet::new();
            for property in &o.properties {
                let (name, range) = match &property.name {
                    ast::ObjectPropName::String(s) => (s.value.to_string(), s.range),
                    ast::ObjectPropName::Word(w) => (w.value.to_owned(), w.range),
                };
                let key = Key { name, place: Place::new(text, range.start..range.end) };
                // Which of two equal keys counts differs from parser to parser; an orchestrator and we must not differ.
                if !seen.insert(key.name.clone()) {
                    twice
                        .push(Diagnostic::error(key.place.clone(), format!("the key `{}` is written twice", key.name)));
                }
                fields.push((key, json_node(&property.value, text, twice)));
            }
            (o.range, Value::Table(fields))
        }
    };
    Node { place: Place::new(text, range.start..range.end), value }
}

/// The error for a word that is none of the words it may be.
pub(crate) fn unknown_word(place: Place, what: &str, word: &str, known: &[&str]) -> Diagnostic {
    let help = match did_you_mean(word, known.iter().copied()) {
        Some(meant) => format!("did you mean `{meant}`?"),
        None => format!("known here: {}", known.join(", ")),
    };
    Diagnostic::error(place, format!("unknown {what} `{word}`")).help(help)
}
