//! One description of each table serves three ends: reading it, checking it, and printing its schema.
//!
//! A type that can stand in a policy implements `Shape`. The `table!` macro writes the type, its reader and its schema
//! from one list of fields, so that the three cannot drift apart. Reading never stops at the first mistake: each is
//! reported, the value is dropped, and the caller refuses the file if anything was reported.

use std::collections::BTreeMap;

use super::node::{Key, Node, Value, unknown_word};
use crate::text::{Diagnostic, Spanned, did_you_mean};

/// What a value looks like, for the JSON Schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Schema {
    /// Any string, and what it means.
    String {
        /// What the string says.
        about: &'static str,
    },
    /// One of a few words.
    Words {
        /// The words.
        words: Vec<&'static str>,
    },
    /// A whole number.
    Integer {
        /// The least it may be.
        least: i64,
        /// The most it may be.
        most: i64,
    },
    /// True or false.
    Boolean,
    /// A list.
    List {
        /// What is in it.
        of: Box<Schema>,
    },
    /// A table whose keys are names the user chooses.
    Named {
        /// What each holds.
        of: Box<Schema>,
    },
    /// A table with known keys.
    Table {
        /// What the table is for.
        about: &'static str,
        /// Its keys.
        keys: Vec<SchemaKey>,
    },
}

/// One key of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchemaKey {
    /// Its name.
    pub name: &'static str,
    /// What it is for.
    pub about: &'static str,
    /// Must it be there?
    pub required: bool,
    /// What it holds.
    pub schema: Schema,
}

/// How many entries a list may have: twice what any policy needs, and few enough that comparing each with each takes no time.
const MOST_ENTRIES: usize = 10_000;

/// How long a text may be: eight times the longest path of the kernel.
const LONGEST_TEXT: usize = 32 << 10;

/// A type that can stand in a policy.
pub(crate) trait Shape: Sized {
    /// Reads it; on a mistake reports and returns `None`.
    fn read(node: &Node, said: &mut Vec<Diagnostic>) -> Option<Self>;
    /// What it looks like.
    fn schema() -> Schema;
    /// The value of a key that is not there; `None` where the key must be.
    fn absent() -> Option<Self> {
        None
    }
    /// What to do about a key that must be there and is not.
    fn absent_help() -> Option<&'static str> {
        None
    }
}

/// The words of an enumeration, in one place for reader and schema.
pub(crate) trait Word: Copy + 'static {
    const WHAT: &'static str;
    const WORDS: &'static [(&'static str, Self)];
}

impl<W: Word> Shape for W {
    fn read(node: &Node, said: &mut Vec<Diagnostic>) -> Option<Self> {
        let text = String::read(node, said)?;
        let found = W::WORDS.iter().find(|(word, _)| *word == text).map(|(_, value)| *value);
        if found.is_none() {
            let words: Vec<&str> = W::WORDS.iter().map(|(word, _)| *word).collect();
            said.push(unknown_word(node.place.clone(), W::WHAT, &text, &words));
        }
        found
    }

    fn schema() -> Schema {
        Schema::Words { words: W::WORDS.iter().map(|(word, _)| *word).collect() }
    }
}

/// The error for a value of the wrong kind.
pub(crate) fn wrong_kind(node: &Node, wanted: &str) -> Diagnostic {
    Diagnostic::error(node.place.clone(), format!("{wanted} is needed here, this is {}", node.kind()))
}

/// The same where a string may be the right value in quotes.
pub(crate) fn wrong_kind_unquoted(node: &Node, wanted: &str, is_right: impl Fn(&str) -> bool) -> Diagnostic {
    let wrong = wrong_kind(node, wanted);
    match &node.value {
        Value::String(text) if is_right(text) => wrong.help("write it without quotes"),
        _ => wrong,
    }
}

impl Shape for String {
    fn read(node: &Node, said: &mut Vec<Diagnostic>) -> Option<Self> {
        match &node.value {
            Value::String(text) if text.len() <= LONGEST_TEXT => return Some(text.clone()),
            Value::String(text) => {
                let message = format!("this text has {} bytes; at most {LONGEST_TEXT} are read", text.len());
                said.push(Diagnostic::error(node.place.within(0..1), message));
            }
            _ => said.push(wrong_kind(node, "a string")),
        }
        None
    }

    fn schema() -> Schema {
        Schema::String { about: "" }
    }
}

impl Shape for bool {
    fn read(node: &Node, said: &mut Vec<Diagnostic>) -> Option<Self> {
        if let Value::Boolean(value) = node.value {
            return Some(value);
        }
        said.push(wrong_kind_unquoted(node, "true or false", |text| matches!(text, "true" | "false")));
        None
    }

    fn schema() -> Schema {
        Schema::Boolean
    }
}

/// Reads a whole number between two bounds.
pub(crate) fn integer(node: &Node, least: i64, most: i64, said: &mut Vec<Diagnostic>) -> Option<i64> {
    match node.value {
        Value::Integer(Some(value)) if (least..=most).contains(&value) => Some(value),
        Value::Integer(_) => {
            let message = format!("a number from {least} to {most} is needed here");
            said.push(Diagnostic::error(node.place.clone(), message));
            None
        }
        _ => {
            let fits = |text: &str| text.parse().is_ok_and(|number: i64| (least..=most).contains(&number));
            said.push(wrong_kind_unquoted(node, "a number", fits));
            None
        }
    }
}

impl<T: Shape> Shape for Option<T> {
    fn read(node: &Node, said: &mut Vec<Diagnostic>) -> Option<Self> {
        T::read(node, said).map(Some)
    }

    fn schema() -> Schema {
        T::schema()
    }

    fn absent() -> Option<Self> {
        Some(None)
    }
}

impl<T: Shape> Shape for Spanned<T> {
    fn read(node: &Node, said: &mut Vec<Diagnostic>) -> Option<Self> {
        T::read(node, said).map(|value| Self { value, place: node.place.clone() })
    }

    fn schema() -> Schema {
        T::schema()
    }

    fn absent_help() -> Option<&'static str> {
        T::absent_help()
    }
}

impl<T: Shape> Shape for Vec<T> {
    fn read(node: &Node, said: &mut Vec<Diagnostic>) -> Option<Self> {
        let Value::Array(items) = &node.value else {
            said.push(wrong_kind(node, "a list").help("write it in brackets: [ ... ]"));
            return None;
        };
        if items.len() > MOST_ENTRIES {
            let message = format!("this list has {} entries; at most {MOST_ENTRIES} are read", items.len());
            said.push(Diagnostic::error(node.place.within(0..1), message));
            return None;
        }
        Some(items.iter().filter_map(|item| T::read(item, said)).collect())
    }

    fn schema() -> Schema {
        Schema::List { of: Box::new(T::schema()) }
    }
}

impl<T: Shape> Shape for BTreeMap<String, T> {
    fn read(node: &Node, said: &mut Vec<Diagnostic>) -> Option<Self> {
        let fields = fields(node, said)?;
        Some(fields.iter().filter_map(|(key, value)| Some((key.name.clone(), T::read(value, said)?))).collect())
    }

    fn schema() -> Schema {
        Schema::Named { of: Box::new(T::schema()) }
    }
}

/// The fields of a table, or a report that this is none.
pub(crate) fn fields<'n>(node: &'n Node, said: &mut Vec<Diagnostic>) -> Option<&'n [(Key, Node)]> {
    if let Value::Table(fields) = &node.value {
        if let Some((key, _)) = fields.iter().find(|(key, _)| key.name.len() > LONGEST_TEXT) {
            let message = format!("this key has {} bytes; at most {LONGEST_TEXT} are read", key.name.len());
            said.push(Diagnostic::error(key.place.within(0..1), message));
            return None;
        }
        if fields.len() <= MOST_ENTRIES {
            return Some(fields);
        }
        let message = format!("there are {} keys here; at most {MOST_ENTRIES} are read", fields.len());
        said.push(Diagnostic::error(node.place.within(0..1), message));
        return None;
    }
    said.push(wrong_kind(node, node.format.table()));
    None
}

/// A table while its keys are read.
pub(crate) struct Fields<'n> {
    table: &'n Node,
    found: &'n [(Key, Node)],
    /// Keys that somebody mistyped: already reported, so they are not missing as well.
    meant: Vec<&'static str>,
}

impl<'n> Fields<'n> {
    /// Reports keys that the table does not have.
    pub(crate) fn open(table: &'n Node, known: &[&'static str], said: &mut Vec<Diagnostic>) -> Option<Self> {
        let found = fields(table, said)?;
        let mut unknown = found.iter().map(|(key, _)| key).filter(|key| !known.contains(&key.name.as_str()));
        let mut meant = Vec::new();
        // What a key may have been meant to be takes time to find, and more than these are not shown.
        let shown = super::MOST_DIAGNOSTICS.saturating_sub(said.len());
        for key in unknown.by_ref().take(shown) {
            let similar = did_you_mean(&key.name, known.iter().copied());
            let mut unknown = unknown_word(key.place.clone(), "key", &key.name, known);
            if let (None, Some(section)) = (similar, section_of(&key.name)) {
                unknown = unknown.help(format!("it is a key of [{section}]; known here: {}", known.join(", ")));
            }
            said.push(unknown);
            meant.extend(similar);
        }
        if let Some(next) = unknown.next() {
            let message = format!("{} more unknown keys in this table", unknown.count() + 1);
            said.push(Diagnostic::error(next.place.clone(), message));
        }
        Some(Self { table, found, meant })
    }

    /// Reads one key.
    pub(crate) fn key<T: Shape>(&self, name: &str, said: &mut Vec<Diagnostic>) -> Option<T> {
        if let Some((_, node)) = self.found.iter().find(|(key, _)| key.name == name) {
            return T::read(node, said);
        }
        let absent = T::absent();
        if absent.is_none() && !self.meant.contains(&name) {
            let mut missing = Diagnostic::error(self.table.place.clone(), format!("the key `{name}` is missing"));
            missing.help = T::absent_help().map(str::to_owned);
            said.push(missing);
        }
        absent
    }
}

/// The section of a policy that has a key of this name, for those who wrote it elsewhere.
fn section_of(name: &str) -> Option<&'static str> {
    let Schema::Table { keys, .. } = super::PolicyFile::schema() else { return None };
    let has_it = |section: &SchemaKey| matches!(&section.schema, Schema::Table { keys, .. } if keys.iter().any(|key| key.name == name));
    keys.iter().find(|section| has_it(section)).map(|section| section.name)
}

/// Writes a table type, its reader and its schema. A field `r#type` or with another name in the file is not supported: the
/// field's name is the key.
macro_rules! table {
    ($(#[doc = $about:literal])+ pub struct $table:ident {
        $($(#[doc = $doc:literal])+ $field:ident: $type:ty,)+
    }) => {
        $(#[doc = $about])+
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct $table { $($(#[doc = $doc])+ pub $field: $type,)+ }

        impl $crate::policy::shape::Shape for $table {
            fn read(
                node: &$crate::policy::node::Node,
                said: &mut Vec<$crate::text::Diagnostic>,
            ) -> Option<Self> {
                let fields = $crate::policy::shape::Fields::open(node, &[$(stringify!($field)),+], said)?;
                // Each key is read before any `?`, so that one bad value does not hide the next.
                $(let $field = fields.key::<$type>(stringify!($field), said);)+
                Some(Self { $($field: $field?,)+ })
            }

            fn schema() -> $crate::policy::shape::Schema {
                use $crate::policy::shape::{Schema, SchemaKey};
                Schema::Table {
                    about: concat!($($about),+),
                    keys: vec![$(SchemaKey {
                        name: stringify!($field),
                        about: concat!($($doc),+),
                        required: <$type as $crate::policy::shape::Shape>::absent().is_none(),
                        schema: <$type as $crate::policy::shape::Shape>::schema(),
                    }),+],
                }
            }
        }
    };
}
pub(crate) use table;
