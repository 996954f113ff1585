//! Why a line is not read-only: the first thing that could not be proved harmless, and where it stands.

use std::ops::Range;

use crate::path::Shown;

/// Where something stands in the line, in bytes.
pub(super) type Span = Range<usize>;

/// One thing that is not proved to be harmless.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) at: Span,
    pub(super) reason: String,
    pub(super) remedy: Option<String>,
}

impl Fault {
    pub(super) fn new(at: &Span, reason: impl Into<String>) -> Self {
        Self { at: at.clone(), reason: reason.into(), remedy: None }
    }

    pub(super) fn with(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }
}

/// Words in messages are cut to this, so that a message stays a sentence.
const LONGEST_WORD: usize = 60;

/// A word as a message shows it.
pub(super) fn shown(word: &[u8]) -> String {
    match word.get(..LONGEST_WORD) {
        Some(beginning) if word.len() > LONGEST_WORD => format!("`{}...`", Shown(beginning)),
        _ => format!("`{}`", Shown(word)),
    }
}
