//! Answers of `explain` as JSON.

use serde::Serialize;

use super::{Bytes, SCHEMA, WireSource};
use crate::commands::explain::{Answer, asks_first, outcome_word};

#[derive(Debug, Serialize)]
pub(crate) struct WireAnswer {
    schema: u32,
    /// `read`, `write`, `reach`, `connect` or `pass`.
    access: &'static str,
    /// What was asked about: a path with links followed, a host with its port, or a variable.
    target: Bytes,
    /// `allowed` or `denied`.
    verdict: &'static str,
    /// The rule, in words.
    rule: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<WireSource>,
    /// In accept-edits the user is asked first.
    #[serde(skip_serializing_if = "Option::is_none")]
    asks: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    remedy: Option<String>,
    /// Who holds it in `ringfence run`, and how far.
    layers: &'static str,
}

impl WireAnswer {
    pub(crate) fn new(answer: &Answer) -> Self {
        Self {
            schema: SCHEMA,
            access: answer.asked.word(),
            target: Bytes::new(&answer.target),
            verdict: outcome_word(answer.outcome),
            rule: answer.rule.clone(),
            source: answer.source.as_ref().map(WireSource::new),
            asks: answer.asks.as_ref().map(asks_first),
            remedy: answer.remedy.clone(),
            layers: crate::commands::explain::layers(answer.asked),
        }
    }
}
