//! Bounds: how long a line may be, and how much of the audit a session may take.
//!
//! There is one chain for all sessions, and what is kept of it is limited. A program inside chooses how often something is denied
//! and how long the paths are that it tries, so without a bound for each session it could push the lines of every other session
//! out of what is kept, its own start included.

use serde_json::Value;

use super::{Event, What, hash};

/// A session's part of the audit, in bytes of lines: a thirty-second of what is kept.
const MOST: u64 = 4 << 20;
/// So much of it goes to what a program inside causes by itself. The rest stays free for what others do to the session.
const MOST_INSIDE: u64 = 3 << 20;

/// A longer text in a line is cut.
const MOST_TEXT: usize = 512;
/// A longer one in lines that a program inside does not cause.
const MOST_OWN_TEXT: usize = 4096;
/// A longer list is cut, in bytes of its texts.
const MOST_LIST: usize = 16 << 10;
/// Lines that are not longer than this are not looked at.
const SHORT: usize = 512;

/// Who causes a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The program inside, as often as it likes.
    Inside,
    /// The user, the supervisor, or another program outside.
    Outside,
    /// The session itself: its start, its end and what there is one of. Always written, and never removed.
    Session,
}

impl What {
    /// Who causes a line of this kind.
    pub(crate) fn origin(&self) -> Origin {
        match self {
            Self::Violation(_) | Self::Verdict { .. } | Self::Asked(_) => Origin::Inside,
            Self::Grant { .. }
            | Self::GrantHost { .. }
            | Self::Revoke { .. }
            | Self::RevokeHost { .. }
            | Self::Mode { .. }
            | Self::Watch { .. }
            | Self::Answered { .. }
            | Self::Pause { .. }
            | Self::Resume
            | Self::Gap { .. }
            | Self::Unchecked { .. }
            | Self::Unwatched { .. }
            | Self::GrantRefused { .. } => Origin::Outside,
            Self::Start { .. }
            | Self::Receipt { .. }
            | Self::Failed { .. }
            | Self::End { .. }
            | Self::Used { .. }
            | Self::Git { .. }
            | Self::Killed
            | Self::Full { .. }
            | Self::Omitted { .. }
            | Self::Torn { .. }
            | Self::Broken { .. }
            | Self::Pruned { .. }
            | Self::Thinned { .. }
            | Self::Gone { .. } => Origin::Session,
        }
    }
}

/// What a session has written of its part.
#[derive(Debug)]
pub(crate) struct Budget {
    used: u64,
    omitted: u64,
    is_full: bool,
}

/// What becomes of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Admission {
    /// It is written.
    Written,
    /// It is counted only.
    Counted,
    /// It is counted only, and the first of which that is so.
    FirstCounted,
}

impl Budget {
    pub(crate) fn new() -> Self {
        Self { used: 0, omitted: 0, is_full: false }
    }

    pub(crate) fn admit(&mut self, event: &Event) -> Admission {
        let most = match event.what.origin() {
            Origin::Inside => MOST_INSIDE,
            Origin::Outside => MOST,
            Origin::Session => return Admission::Written,
        };
        let size = event.size();
        if self.used + size <= most {
            self.used += size;
            return Admission::Written;
        }
        self.omitted += 1;
        if std::mem::replace(&mut self.is_full, true) { Admission::Counted } else { Admission::FirstCounted }
    }

    /// The event that reports the first lines left out.
    pub(crate) fn full() -> What {
        What::Full { bytes: MOST_INSIDE }
    }

    /// How many lines were counted only.
    pub(crate) fn omitted(&self) -> u64 {
        self.omitted
    }
}

impl Event {
    /// How long its line is, about.
    pub(crate) fn size(&self) -> u64 {
        const LINK: u64 = 100;
        serde_json::to_vec(&self.bounded()).map_or(0, |line| line.len() as u64 + LINK)
    }

    /// The same with every text and every list cut to its bound. What is cut says how long it was, and its hash.
    pub(super) fn bounded(&self) -> std::borrow::Cow<'_, Self> {
        let whole = std::borrow::Cow::Borrowed(self);
        if serde_json::to_vec(self).is_ok_and(|line| line.len() <= SHORT) {
            return whole;
        }
        let most = match self.what.origin() {
            Origin::Inside | Origin::Outside => MOST_TEXT,
            Origin::Session => MOST_OWN_TEXT,
        };
        let Ok(mut value) = serde_json::to_value(self) else { return whole };
        cut(&mut value, most);
        serde_json::from_value(value).map_or(whole, std::borrow::Cow::Owned)
    }
}

fn cut(value: &mut Value, most: usize) {
    match value {
        Value::String(text) => {
            if let Some(short) = shortened(text, most) {
                *text = short;
            }
        }
        Value::Array(list) => {
            list.iter_mut().for_each(|one| cut(one, most));
            let mut length = 0;
            let fits = |one: &&Value| {
                length += one.as_str().map_or(0, str::len);
                length <= MOST_LIST
            };
            let kept = list.iter().take_while(fits).count();
            if kept < list.len() {
                let more = list.len() - kept;
                list.truncate(kept);
                list.push(Value::String(format!("… and {more} more")));
            }
        }
        Value::Object(fields) => {
            // Digits of bytes that are no text: the beginning stays digits.
            if let Some(Value::String(digits)) = fields.get_mut("hex")
                && digits.len() > most
            {
                let (length, own) = (digits.len() / 2, hash(digits.as_bytes()));
                digits.truncate(most / 2 * 2);
                fields.insert("cut".to_owned(), Value::String(format!("{length} bytes, SHA-256 of the digits {own}")));
                return;
            }
            fields.values_mut().for_each(|one| cut(one, most));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// The beginning of a text that is too long, how long it was, and its hash.
fn shortened(text: &str, most: usize) -> Option<String> {
    const TAIL: usize = 112;
    if text.len() <= most {
        return None;
    }
    let end = (0..=most.saturating_sub(TAIL)).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    Some(format!("{}… [{} bytes, SHA-256 {}]", &text[..end], text.len(), hash(text.as_bytes())))
}
