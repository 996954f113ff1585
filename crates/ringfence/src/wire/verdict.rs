//! Answers of `explain` as JSON.

use ringfence_surface::{Because, Effect, Rule, Sourced, Verdict};
use serde::Serialize;

use super::{Bytes, SCHEMA, WireSource};

#[derive(Debug, Serialize)]
pub(crate) struct Answer {
    schema: u32,
    /// `read`, `write` or `reach`.
    pub(crate) access: &'static str,
    /// What was asked about: a path with links followed, or a host with its port.
    pub(crate) target: Bytes,
    /// `allowed` or `denied`.
    pub(crate) verdict: &'static str,
    /// The rule, in words.
    pub(crate) rule: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) source: Option<WireSource>,
    /// In accept-edits the user is asked first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) asks: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) remedy: Option<String>,
    /// The layers that would hold it; none is built yet.
    pub(crate) layers: Vec<&'static str>,
}

impl Answer {
    pub(crate) fn new(access: &'static str, target: &[u8], verdict: &'static str, rule: String) -> Self {
        let target = Bytes::new(target);
        Self {
            schema: SCHEMA,
            access,
            target,
            verdict,
            rule,
            source: None,
            asks: None,
            remedy: None,
            layers: Vec::new(),
        }
    }
}

/// The word for a verdict.
pub(crate) fn word(allowed: bool) -> &'static str {
    if allowed { "allowed" } else { "denied" }
}

/// The rule behind a verdict, if one speaks of the path.
pub(crate) fn rule_of<'s>(verdict: &Verdict<'s>) -> Option<&'s Rule> {
    match verdict.because {
        Because::Rule(rule) | Because::OnlyReadable(rule) => Some(rule),
        Because::View(_) => None,
    }
}

/// Is it inside only, made for the session?
pub(crate) fn is_private(rule: &Rule) -> bool {
    matches!(
        rule.effect,
        Effect::Write(ringfence_surface::Role::Private) | Effect::Read(ringfence_surface::Role::Private)
    )
}

/// A source of a host entry.
pub(crate) fn source_of<T>(entry: &Sourced<T>) -> WireSource {
    WireSource::new(&entry.source)
}
