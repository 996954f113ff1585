//! A request: its head is read whole before anything is believed, its body only after the token was seen.

use std::time::{Duration, Instant};

use ringfence_egress::http::{Body, Form, Head, HeadReader, HeadResult, fields};
use ringfence_egress::spelling::Authority;
use serde::de::DeserializeOwned;

use super::answer::Answer;
use super::line::Line;

/// A head arrives within this time.
const HEAD_TIME: Duration = Duration::from_secs(5);
/// A body within this.
const BODY_TIME: Duration = Duration::from_secs(10);
/// A longer head is nothing of ours.
const MOST_HEAD: usize = 16 << 10;
/// Neither is a longer body.
const MOST_BODY: u64 = 64 << 10;

/// A request whose body has not been read.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) method: String,
    pub(super) path: String,
    pub(super) query: Option<String>,
    pub(super) host: Authority,
    length: Body,
    /// Names in lower case.
    fields: Vec<(String, String)>,
    /// What came behind the head.
    ahead: Vec<u8>,
}

impl Request {
    /// Reads one. Nothing is answered to somebody who says nothing.
    pub(super) fn read(line: &Line) -> Result<Self, Option<Answer>> {
        let until = Instant::now() + HEAD_TIME;
        let (mut bytes, mut reader) = (Vec::new(), HeadReader::new());
        loop {
            match line.read(&mut bytes, MOST_HEAD, until) {
                Ok(true) => {}
                Ok(false) => return Err(None),
                Err(cause) if cause.kind() == std::io::ErrorKind::TimedOut && !bytes.is_empty() => {
                    return Err(Some(Answer::problem(408, "the request did not end in time", None)));
                }
                Err(_) => return Err(None),
            }
            let wrong = |why: &str| Err(Some(Answer::problem(400, why, None)));
            match reader.read(&bytes) {
                HeadResult::NeedMore if bytes.len() >= MOST_HEAD => {
                    return Err(Some(Answer::problem(431, "the head of the request is too long", None)));
                }
                HeadResult::NeedMore => {}
                HeadResult::NotHttp => return wrong("not a request of HTTP/1"),
                HeadResult::Malformed(why) => return wrong(why),
                HeadResult::Head(head) => return Self::new(head, bytes).map_err(Some),
            }
        }
    }

    fn new(head: Head, mut bytes: Vec<u8>) -> Result<Self, Answer> {
        let wrong = |why: &str| Answer::problem(400, why, None);
        if head.form != Form::Origin {
            return Err(wrong("the target is not a path"));
        }
        let ahead = bytes.split_off(head.end.min(bytes.len()));
        let mut known: Vec<(String, String)> = Vec::new();
        for (name, value) in fields(&bytes) {
            let name = String::from_utf8(name.to_ascii_lowercase()).map_err(|_| wrong("a header with an odd name"))?;
            // A value that is no text is nobody's token, origin or type.
            let value = std::str::from_utf8(value).map_err(|_| wrong("a header that is not text"))?.to_owned();
            known.push((name, value));
        }
        let host = head.host.ok_or_else(|| wrong("no Host header"))?;
        let (path, query) = match head.target.split_once('?') {
            Some((path, query)) => (path.to_owned(), Some(query.to_owned())),
            None => (head.target, None),
        };
        Ok(Self { method: head.method, path, query, host, length: head.length, fields: known, ahead })
    }

    /// The value of a header field, which must not stand there twice.
    pub(super) fn field(&self, name: &str) -> Result<Option<&str>, Answer> {
        let mut found = self.fields.iter().filter(|(known, _)| known == name).map(|(_, value)| value.as_str());
        let value = found.next();
        match found.next() {
            Some(_) => Err(Answer::problem(400, &format!("two {name} headers"), None)),
            None => Ok(value),
        }
    }

    /// Reads the body, whose length was said before.
    pub(super) fn body(&mut self, line: &Line) -> Result<Vec<u8>, Answer> {
        let length = match self.length {
            Body::None => 0,
            Body::Length(length) if length <= MOST_BODY => usize::try_from(length).unwrap_or(usize::MAX),
            Body::Length(_) => return Err(Answer::problem(413, "the body is longer than 64 KiB", None)),
            Body::Chunked | Body::UntilClose => {
                return Err(Answer::problem(411, "the length of the body is not said", Some("send Content-Length")));
            }
        };
        let until = Instant::now() + BODY_TIME;
        let mut body = std::mem::take(&mut self.ahead);
        while body.len() < length {
            match line.read(&mut body, length, until) {
                Ok(true) => {}
                Ok(false) => return Err(Answer::problem(400, "the body is shorter than was said", None)),
                Err(_) => return Err(Answer::problem(408, "the body did not arrive in time", None)),
            }
        }
        body.truncate(length);
        Ok(body)
    }

    /// Reads the body as JSON of one shape. Only JSON: what a form on some page could send is not taken.
    pub(super) fn json<T: DeserializeOwned>(&mut self, line: &Line) -> Result<T, Answer> {
        let kind = self.field("content-type")?.unwrap_or_default();
        let kind = kind.split(';').next().unwrap_or_default().trim();
        if !kind.eq_ignore_ascii_case("application/json") {
            let hint = Some("send Content-Type: application/json");
            return Err(Answer::problem(415, "the body is not said to be JSON", hint));
        }
        let body = self.body(line)?;
        serde_json::from_slice(&body).map_err(|cause| Answer::problem(400, &format!("the body: {cause}"), None))
    }

    /// A request that has no body, or an empty one.
    pub(super) fn no_body(&mut self, line: &Line) -> Result<(), Answer> {
        let body = self.body(line)?;
        if body.trim_ascii().is_empty() || body.trim_ascii() == b"{}" {
            return Ok(());
        }
        Err(Answer::problem(400, "nothing is to be said in the body", None))
    }

    /// The parameters of the query, of which only these exist.
    pub(super) fn parameters(&self, known: &[&str]) -> Result<Vec<(&str, &str)>, Answer> {
        let mut all: Vec<(&str, &str)> = Vec::new();
        for part in self.query.as_deref().unwrap_or_default().split('&').filter(|part| !part.is_empty()) {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            if !known.contains(&name) || all.iter().any(|(before, _)| *before == name) {
                let why = "a parameter of the query is unknown, or stands there twice";
                return Err(Answer::problem(400, why, None));
            }
            all.push((name, value));
        }
        Ok(all)
    }
}
