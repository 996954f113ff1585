//! What is printed and read as JSON. These types mirror the core's; the core itself knows nothing of JSON.

pub(crate) mod command;
#[cfg(target_os = "linux")]
pub(crate) mod doctor;
#[cfg(target_os = "linux")]
pub(crate) mod executed;
pub(crate) mod facts;
#[cfg(target_os = "linux")]
pub(crate) mod kubernetes;
pub(crate) mod plan;
#[cfg(target_os = "linux")]
pub(crate) mod receipt;
pub(crate) mod trusted;
pub(crate) mod verdict;

use ringfence_surface::text::{Diagnostic, Place};
use ringfence_surface::{Omission, Shown, Source};
use serde::{Deserialize, Serialize};

/// The version of every JSON answer; it changes when a field changes its meaning.
pub(crate) const SCHEMA: u32 = 1;

/// Bytes that are mostly text: a string where they are UTF-8, otherwise their hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum Bytes {
    Text(String),
    Hex { hex: String },
}

impl Bytes {
    pub(crate) fn new(bytes: &[u8]) -> Self {
        match std::str::from_utf8(bytes) {
            Ok(text) => Self::Text(text.to_owned()),
            Err(_) => Self::Hex { hex: bytes.iter().map(|byte| format!("{byte:02x}")).collect() },
        }
    }

    /// The bytes again; `None` when the digits are none.
    pub(crate) fn into_bytes(self) -> Option<Vec<u8>> {
        match self {
            Self::Text(text) => Some(text.into_bytes()),
            Self::Hex { hex } => {
                let digits: Option<Vec<u32>> = hex.chars().map(|c| c.to_digit(16)).collect();
                let digits = digits.filter(|digits| digits.len() % 2 == 0)?;
                Some(digits.chunks_exact(2).filter_map(|pair| u8::try_from(pair[0] * 16 + pair[1]).ok()).collect())
            }
        }
    }
}

/// Where something was written.
#[derive(Debug, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub(crate) enum WireSource {
    File { file: Bytes, line: usize, column: usize },
    Table { table: &'static str, reason: &'static str },
    Pack { pack: &'static str, reason: &'static str },
    Flag { flag: &'static str },
    Default { reason: &'static str },
    Host { reason: &'static str },
    Call,
    Git { setting: String },
}

impl WireSource {
    pub(crate) fn new(source: &Source) -> Self {
        match source {
            Source::File(place) => {
                let (line, column) = place.line_column();
                Self::File { file: Bytes::new(&place.file().name), line, column }
            }
            Source::Table { name, reason } => Self::Table { table: name, reason },
            Source::Pack { name, reason } => Self::Pack { pack: name, reason },
            Source::Flag { name } => Self::Flag { flag: name },
            Source::Default { reason } => Self::Default { reason },
            Source::Host { reason } => Self::Host { reason },
            Source::Call => Self::Call,
            Source::Git { setting } => Self::Git { setting: setting.clone() },
        }
    }
}

/// Something said about a policy.
#[derive(Debug, Serialize)]
pub(crate) struct WireDiagnostic {
    severity: String,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    place: Option<WirePlace>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    also: Vec<(WirePlace, String)>,
    #[serde(skip_serializing_if = "Option::is_none")]
    help: Option<String>,
}

#[derive(Debug, Serialize)]
pub(crate) struct WirePlace {
    file: Bytes,
    line: usize,
    column: usize,
    words: String,
}

impl WirePlace {
    fn new(place: &Place) -> Self {
        let (line, column) = place.line_column();
        let words = Shown(place.words().as_bytes()).to_string();
        Self { file: Bytes::new(&place.file().name), line, column, words: words.chars().take(200).collect() }
    }
}

impl WireDiagnostic {
    pub(crate) fn new(diagnostic: &Diagnostic) -> Self {
        Self {
            severity: diagnostic.severity.to_string(),
            message: diagnostic.message.clone(),
            place: diagnostic.place.as_ref().map(WirePlace::new),
            also: diagnostic.also.iter().map(|(place, words)| (WirePlace::new(place), words.clone())).collect(),
            help: diagnostic.help.clone(),
        }
    }
}

/// Something that was asked for and takes no part.
#[derive(Debug, Serialize)]
pub(crate) struct WireOmission {
    entry: String,
    source: WireSource,
    why: String,
}

impl WireOmission {
    pub(crate) fn new(omission: &Omission) -> Self {
        Self { entry: omission.entry.clone(), source: WireSource::new(&omission.source), why: omission.why.to_string() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_survive_json() {
        for bytes in [b"/a b".as_slice(), b"/caf\xe9\n", b"", b"\xff"] {
            let json = serde_json::to_string(&Bytes::new(bytes)).unwrap();
            let back: Bytes = serde_json::from_str(&json).unwrap();
            assert_eq!(back.into_bytes().unwrap(), bytes);
        }
        for bad in ["{\"hex\":\"f\"}", "{\"hex\":\"zz\"}"] {
            assert_eq!(serde_json::from_str::<Bytes>(bad).unwrap().into_bytes(), None, "{bad}");
        }
    }
}
