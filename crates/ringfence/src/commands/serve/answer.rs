//! What is answered: JSON, or the page. Whatever is wrong is a problem in JSON (RFC 9457), with what helps.

use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::{Value, json};

use super::line::Line;
use crate::error::Failure;
use crate::out::safe_json;

/// How long somebody may take to listen.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// An answer that is whole.
#[derive(Debug)]
pub(super) struct Answer {
    status: u16,
    kind: &'static str,
    /// Header fields beside those that every answer has, each with its end.
    more: String,
    body: Vec<u8>,
}

/// What no page may do with an answer but ours.
const FIELDS: &str = "Connection: close\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n\
    Referrer-Policy: no-referrer\r\nCross-Origin-Resource-Policy: same-origin\r\nX-Frame-Options: DENY\r\n";

/// For everything but the page.
const NOTHING: &str = "Content-Security-Policy: default-src 'none'; frame-ancestors 'none'\r\n";

impl Answer {
    /// A value.
    pub(super) fn json(status: u16, value: &impl Serialize) -> Self {
        match serde_json::to_string(value) {
            Ok(text) => {
                let body = safe_json(&text).into_bytes();
                Self { status, kind: "application/json", more: NOTHING.to_owned(), body }
            }
            Err(cause) => Self::problem(500, &cause.to_string(), None),
        }
    }

    /// JSON that is text already.
    pub(super) fn raw_json(text: &str) -> Self {
        let body = text.as_bytes().to_vec();
        Self { status: 200, kind: "application/json", more: NOTHING.to_owned(), body }
    }

    /// Something is wrong.
    pub(super) fn problem(status: u16, detail: &str, hint: Option<&str>) -> Self {
        let mut body = json!({ "type": "about:blank", "title": title(status), "status": status, "detail": detail });
        if let Some(hint) = hint {
            body["hint"] = Value::from(hint);
        }
        let kind = "application/problem+json";
        Self { status, kind, more: NOTHING.to_owned(), body: safe_json(&body.to_string()).into_bytes() }
    }

    /// The page, with what it may do.
    pub(super) fn page(html: &str, policy: &str) -> Self {
        let more = format!("Content-Security-Policy: {policy}\r\n");
        Self { status: 200, kind: "text/html; charset=utf-8", more, body: html.as_bytes().to_vec() }
    }

    /// With one more header field.
    pub(super) fn with(mut self, name: &str, value: &str) -> Self {
        self.more.push_str(&format!("{name}: {value}\r\n"));
        self
    }

    pub(super) fn send(&self, line: &Line) -> std::io::Result<()> {
        let Self { status, kind, more, body } = self;
        let title = title(*status);
        let mut bytes = format!(
            "HTTP/1.1 {status} {title}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n{FIELDS}{more}\r\n",
            body.len()
        )
        .into_bytes();
        bytes.extend_from_slice(body);
        line.write(&bytes, Instant::now() + PATIENCE)
    }
}

/// The head of a stream of events.
pub(super) fn stream_head() -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n{FIELDS}{NOTHING}\r\n")
}

/// What went wrong, as an answer.
impl From<Failure> for Answer {
    fn from(failure: Failure) -> Self {
        use ringfence_session::store::FindError;
        let status = match &failure {
            Failure::Find { source: FindError::NotFound { .. } } => 404,
            Failure::Path { .. } | Failure::BadPath { .. } | Failure::Host { .. } => 400,
            Failure::Control { .. } => 503,
            Failure::Read { .. } | Failure::Write { .. } | Failure::Json { .. } => 500,
            // It cannot be done with the session, or by the policy, as they are.
            _ => 409,
        };
        Self::problem(status, &failure.whole(), failure.hint().as_deref())
    }
}

fn title(status: u16) -> &'static str {
    match status {
        200 => "OK",
        201 => "Created",
        202 => "Accepted",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        409 => "Conflict",
        411 => "Length Required",
        413 => "Content Too Large",
        415 => "Unsupported Media Type",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        503 => "Service Unavailable",
        _ => "Internal Server Error",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A16: a client often prints the answers to a terminal.
    #[test]
    fn a16_an_answer_holds_no_raw_control_or_override() {
        let value = json!({ "line": "rm \u{202e}x\u{ad}\u{1b}" });
        let body = Answer::json(200, &value).body;
        assert!(body.is_ascii(), "{body:?}");
        assert_eq!(serde_json::from_slice::<Value>(&body).expect("JSON"), value);
        assert!(Answer::problem(400, "\u{202e}", Some("\u{2066}")).body.is_ascii());
    }
}
