//! Heads of plain HTTP/1 requests: which host each one asks for, and where it ends.
//!
//! One spelling of everything is accepted. Whatever a server might read differently is refused: a request that this file takes
//! for one host's and the server for another's would be a way around the check.

mod answer;
mod body;
mod look;
mod reader;
mod rewrite;

pub(crate) use answer::AnswerReader;
pub use body::{Body, BodyScan};
pub use reader::HeadReader;
pub use rewrite::{is_header_value, rewrite};

use crate::spelling::{self, Authority};
use look::Look;

pub(crate) use look::FirstLine;

/// Bytes within which a head has to end.
pub const MAX_HEAD: usize = 64 * 1024;

/// The port of `http://` without one.
pub(crate) const HTTP_PORT: u16 = 80;

/// Longer than every registered method.
const MAX_METHOD: usize = 32;

/// What the start of some bytes is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HeadResult {
    /// A part of a head; more bytes will tell.
    NeedMore,
    /// Another protocol.
    NotHttp,
    /// A whole head.
    Head(Head),
    /// Nothing that a client in good faith sends, or nothing that can be checked.
    Malformed(&'static str),
}

/// The head of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// In capitals.
    pub method: String,
    /// As it was written.
    pub target: String,
    /// What kind of target it is.
    pub form: Form,
    /// The host that is asked for: the target's, with which the Host header agrees, or that of the header.
    pub host: Option<Authority>,
    /// The version is HTTP/1.1 rather than HTTP/1.0.
    pub is_1_1: bool,
    /// What the client offers to speak after the answer.
    pub upgrade: Upgrade,
    /// What follows the head.
    pub length: Body,
    /// How many bytes the head has, with its empty line.
    pub end: usize,
}

/// Another protocol that a client offers in a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Upgrade {
    /// None: what follows is HTTP/1.
    None,
    /// HTTP/2, in which further requests cannot be checked. Java's client offers it with every plain request; without the
    /// fields of [`HTTP2_OFFER`] the request is as good.
    Http2,
    /// WebSocket and nothing else. If the server agrees, the connection is no longer HTTP.
    WebSocket,
    /// Something else.
    Other,
}

/// The header fields that make up the offer to go on in HTTP/2.
pub const HTTP2_OFFER: &[&str] = &["Connection", "HTTP2-Settings", "Upgrade"];

/// How a target is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Form {
    /// `/path`: for a server.
    Origin,
    /// `http://host/path`: for a proxy, and servers take it too.
    Absolute(Authority),
    /// `host:port` of CONNECT.
    Tunnel(Authority),
    /// `*` of OPTIONS.
    Asterisk,
}

/// The head of the request that starts here. The bytes may go on after it. Whoever gets them bit by bit asks a [`HeadReader`].
#[must_use]
pub fn parse_head(bytes: &[u8]) -> HeadResult {
    match look::first_look(bytes) {
        Look::NeedMore if bytes.len() >= MAX_HEAD => HeadResult::Malformed(ENDLESS),
        Look::NeedMore => HeadResult::NeedMore,
        Look::Other => HeadResult::NotHttp,
        Look::Http => match read_head(bytes) {
            Ok(Some(head)) => HeadResult::Head(head),
            Ok(None) => HeadResult::NeedMore,
            Err(why) => HeadResult::Malformed(why),
        },
    }
}

/// Whether these bytes, as far as they go, are the first line of a request, and not perhaps of another protocol.
pub(crate) fn is_request(bytes: &[u8]) -> bool {
    look::first_look(bytes) == Look::Http
}

/// The header fields of a whole head that [`parse_head`] has accepted: names as they were written, values without the spaces
/// around them.
pub fn fields(head: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    let lines = head.split(|byte| *byte == b'\n').skip(1).map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    lines.take_while(|line| !line.is_empty()).filter_map(|line| split_field(line).ok())
}

const ENDLESS: &str = "a head that does not end";
const HTTP2: &str =
    "HTTP/2 without TLS, which names a host in each of many requests; use TLS, or list the host's address";

fn read_head(bytes: &[u8]) -> Result<Option<Head>, &'static str> {
    let mut lines = Lines { bytes: bytes.get(..MAX_HEAD).unwrap_or(bytes), at: 0 };
    let Some(line) = lines.next()? else { return Ok(None) };
    let (method, target, is_1_1) = request_line(line)?;
    let form = form_of(&method, &target)?;
    let mut fields = Fields { host: None, length: None, is_chunked: false, upgrade: Upgrade::None };
    loop {
        match lines.next()? {
            None => return Ok(None),
            Some([]) => break,
            Some(line) => fields.add(line)?,
        }
    }
    let length = fields.body(&form, is_1_1)?;
    let host = asked_host(&form, fields.host, is_1_1)?;
    let upgrade = fields.upgrade;
    Ok(Some(Head { method, target, form, host, is_1_1, upgrade, length, end: lines.at }))
}

/// The lines of a head, each without its end.
struct Lines<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Lines<'a> {
    /// The next line; `None` until it is whole.
    fn next(&mut self) -> Result<Option<&'a [u8]>, &'static str> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let feed = rest.iter().position(|byte| *byte == b'\n');
        let line = rest.get(..feed.unwrap_or(rest.len())).unwrap_or_default();
        let content = line.strip_suffix(b"\r");
        if content.unwrap_or(line).iter().any(|byte| byte.is_ascii_control() && *byte != b'\t') {
            return Err("a control character in the head");
        }
        match (feed, content) {
            (Some(feed), Some(content)) => {
                self.at += feed + 1;
                Ok(Some(content))
            }
            (Some(_), None) => Err("a line that ends without a carriage return"),
            (None, _) if self.bytes.len() >= MAX_HEAD => Err(ENDLESS),
            (None, _) => Ok(None),
        }
    }
}

/// The method, the target, and whether the version is HTTP/1.1.
fn request_line(line: &[u8]) -> Result<(String, String, bool), &'static str> {
    let line = std::str::from_utf8(line).map_err(|_| "a request line that is not text")?;
    let mut words = line.split(' ');
    let (Some(method), Some(target), Some(version), None) = (words.next(), words.next(), words.next(), words.next())
    else {
        return Err("a request line that is not three words");
    };
    // It starts a connection of many requests, each with its own host in a form that is not read here.
    if version == "HTTP/2.0" {
        return Err(HTTP2);
    }
    let is_1_1 = match version {
        "HTTP/1.0" => false,
        "HTTP/1.1" => true,
        _ => return Err("a version other than HTTP/1.0 and HTTP/1.1"),
    };
    let is_method = |byte: u8| byte.is_ascii_uppercase() || matches!(byte, b'-' | b'_');
    if method.is_empty() || method.len() > MAX_METHOD || !method.bytes().all(is_method) {
        return Err("a method that is not in capitals");
    }
    if target.chars().any(|c| c.is_control() || c.is_whitespace() || c == '#') {
        return Err("a character that no request target has");
    }
    Ok((method.to_owned(), target.to_owned(), is_1_1))
}

fn form_of(method: &str, target: &str) -> Result<Form, &'static str> {
    if method == "CONNECT" {
        let authority = spelling::authority(target.as_bytes())?;
        return if authority.port.is_some() { Ok(Form::Tunnel(authority)) } else { Err("a tunnel without a port") };
    }
    if target.starts_with('/') {
        return Ok(Form::Origin);
    }
    if target == "*" && method == "OPTIONS" {
        return Ok(Form::Asterisk);
    }
    let (authority, _) = split_absolute(target).ok_or("a target that is neither a path nor an http address")?;
    Ok(Form::Absolute(spelling::authority(authority.as_bytes())?))
}

/// The authority of `http://authority/path?query`, and the rest.
fn split_absolute(target: &str) -> Option<(&str, &str)> {
    const SCHEME: &str = "http://";
    let rest = target.get(..SCHEME.len()).filter(|scheme| scheme.eq_ignore_ascii_case(SCHEME));
    let rest = rest.and_then(|_| target.get(SCHEME.len()..))?;
    Some(rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len())))
}

/// The header fields that say whom a request is for and where it ends.
struct Fields {
    host: Option<Authority>,
    length: Option<u64>,
    is_chunked: bool,
    upgrade: Upgrade,
}

impl Fields {
    fn add(&mut self, line: &[u8]) -> Result<(), &'static str> {
        let (name, value) = split_field(line)?;
        if name.eq_ignore_ascii_case(b"host") {
            let host = spelling::authority(value)?;
            if self.host.replace(host).is_some() {
                return Err("two Host headers");
            }
        } else if name.eq_ignore_ascii_case(b"content-length") {
            let length = spelling::plain_number(value).ok_or("a length that is not a plain number")?;
            if self.length.replace(length).is_some() {
                return Err("two Content-Length headers");
            }
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            if self.is_chunked || !value.eq_ignore_ascii_case(b"chunked") {
                return Err("a transfer encoding other than chunked");
            }
            self.is_chunked = true;
        } else if name.eq_ignore_ascii_case(b"upgrade") {
            let mut protocols = value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
            let is_http2 = protocols.any(|protocol| protocol.eq_ignore_ascii_case(b"h2c"));
            self.upgrade = match self.upgrade {
                _ if is_http2 => Upgrade::Http2,
                Upgrade::Http2 => Upgrade::Http2,
                Upgrade::None if value.eq_ignore_ascii_case(b"websocket") => Upgrade::WebSocket,
                _ => Upgrade::Other,
            };
        }
        Ok(())
    }

    fn body(&self, form: &Form, is_1_1: bool) -> Result<Body, &'static str> {
        match (self.length, self.is_chunked) {
            (Some(_), true) => Err("both Content-Length and Transfer-Encoding"),
            (_, true) if !is_1_1 => Err("chunks in HTTP/1.0"),
            (Some(_), _) | (_, true) if matches!(form, Form::Tunnel(_)) => Err("a tunnel with a body"),
            (None, false) if matches!(form, Form::Tunnel(_)) => Ok(Body::UntilClose),
            (None, true) => Ok(Body::Chunked),
            (Some(length), false) => Ok(Body::Length(length)),
            (None, false) => Ok(Body::None),
        }
    }
}

/// The name of a header field and its value without the spaces around it.
fn split_field(line: &[u8]) -> Result<(&[u8], &[u8]), &'static str> {
    if line.starts_with(b" ") || line.starts_with(b"\t") {
        return Err("a header that continues the line before");
    }
    let colon = line.iter().position(|byte| *byte == b':').ok_or("a header without a colon")?;
    let (name, value) = line.split_at(colon);
    if name.is_empty() || !name.iter().all(|byte| look::is_token(*byte)) {
        return Err("a header with an odd name");
    }
    Ok((name, value.get(1..).unwrap_or_default().trim_ascii()))
}

/// The one host of a request. Where it is written twice, both have to say the same.
fn asked_host(form: &Form, header: Option<Authority>, is_1_1: bool) -> Result<Option<Authority>, &'static str> {
    let target = match form {
        Form::Origin | Form::Asterisk => return Ok(header),
        Form::Absolute(_) if header.is_none() && is_1_1 => return Err("no Host header"),
        Form::Absolute(target) | Form::Tunnel(target) => target,
    };
    let agrees = |header: &Authority| {
        let same_port = match form {
            // Clients leave the port out of this header, or the header itself.
            Form::Tunnel(_) => header.port.is_none() || header.port == target.port,
            _ => header.port.unwrap_or(HTTP_PORT) == target.port.unwrap_or(HTTP_PORT),
        };
        same_port && header.name == target.name
    };
    match header {
        Some(header) if !agrees(&header) => Err("a target and a Host header that differ"),
        _ => Ok(Some(target.clone())),
    }
}

#[cfg(test)]
mod tests;
