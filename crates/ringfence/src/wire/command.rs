//! The class of a line of shell as JSON.

use ringfence_surface::command::Class;
use serde::Serialize;

use super::{Bytes, SCHEMA};

#[derive(Debug, Serialize)]
pub(crate) struct WireClass {
    schema: u32,
    command: Bytes,
    /// `read-only` or `mutating`.
    class: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    remedy: Option<String>,
    /// How much the session that was asked about holds back: `accept-edits`, `auto` or `none`.
    #[serde(skip_serializing_if = "Option::is_none")]
    mode: Option<&'static str>,
    /// The first byte of the word at fault, and the first after it.
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<[usize; 2]>,
}

impl WireClass {
    pub(crate) fn new(line: &[u8], class: &Class, mode: Option<&'static str>) -> Self {
        let mutation = match class {
            Class::ReadOnly => None,
            Class::Mutating(mutation) => Some(mutation),
        };
        Self {
            schema: SCHEMA,
            command: Bytes::new(line),
            class: if mutation.is_none() { "read-only" } else { "mutating" },
            reason: mutation.map(|mutation| mutation.reason.clone()),
            remedy: mutation.and_then(|mutation| mutation.remedy.clone()),
            mode,
            at: mutation.map(|mutation| [mutation.at.start, mutation.at.end]),
        }
    }
}
