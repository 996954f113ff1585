//! Whether some bytes are the start of HTTP at all.
//!
//! The relay passes other protocols on unread, so this errs on one side: what any server might still take for HTTP is HTTP,
//! and then has to be perfect.

/// Methods after which a target alone makes a request, as in HTTP/0.9.
const METHODS: &[&[u8]] =
    &[b"CONNECT", b"DELETE", b"GET", b"HEAD", b"OPTIONS", b"PATCH", b"POST", b"PRI", b"PUT", b"TRACE"];

/// No other protocol starts with as much of nothing.
const MAX_BLANK: usize = 64;

/// What the start of a connection looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    NeedMore,
    Http,
    Other,
}

/// Looks at the first line only, as far as it is there.
pub(super) fn first_look(bytes: &[u8]) -> Look {
    // Servers pass over empty lines before a request. The strict reader does not.
    let start = bytes.iter().position(|byte| !is_blank(*byte)).unwrap_or(bytes.len());
    if start > MAX_BLANK {
        return Look::Http;
    }
    let line = bytes.get(start..).unwrap_or_default();
    let length = line.iter().position(|byte| !is_token(*byte));
    let (method, after) = line.split_at(length.unwrap_or(line.len()));
    match after.first() {
        None => return Look::NeedMore,
        Some(byte) if !is_blank(*byte) => return Look::Other,
        Some(_) => {}
    }
    if METHODS.contains(&method) {
        return after_method(method, after);
    }
    let end = line_end(line);
    let seen = line.get(..end.unwrap_or(line.len())).unwrap_or_default();
    if seen.windows(5).any(|word| word.eq_ignore_ascii_case(b"HTTP/")) {
        return Look::Http;
    }
    if end.is_some() { Look::Other } else { Look::NeedMore }
}

/// The rest of a line that begins with a method. Other protocols have the same words (NATS and STOMP CONNECT, RTSP OPTIONS), but no
/// server of HTTP takes a line without a target, and none finds a host in a line that has neither a version nor an address.
fn after_method(method: &[u8], after: &[u8]) -> Look {
    let end = after.iter().position(|byte| *byte == b'\n');
    let line = after.get(..end.unwrap_or(after.len())).unwrap_or_default();
    let target = line.iter().position(|byte| !is_blank(*byte)).and_then(|start| line.get(start..)).unwrap_or_default();
    // A line of NATS goes on with an object, in which anything may stand.
    if method == b"CONNECT" && target.starts_with(b"{") {
        return Look::Other;
    }
    let has = |what: &[u8]| line.windows(what.len()).any(|word| word.eq_ignore_ascii_case(what));
    let names_address = target.get(..4).is_some_and(|scheme| scheme.eq_ignore_ascii_case(b"http"));
    match end {
        _ if target.starts_with(b"/") || names_address || has(b"HTTP/") => Look::Http,
        Some(_) => Look::Other,
        None => Look::NeedMore,
    }
}

/// Where the line ends, or where a byte stands that no line of text has.
fn line_end(line: &[u8]) -> Option<usize> {
    line.iter().position(|byte| byte.is_ascii_control() && (*byte == b'\n' || !is_blank(*byte)))
}

/// The first line of a connection that was taken for another protocol. A server may take a control character in a line for a part of a
/// target, so the search for a version goes on to the end of the line, while its bytes pass: without it no request is whole.
#[derive(Debug)]
pub(crate) struct FirstLine {
    /// The last bytes, in which a version may have begun.
    tail: Vec<u8>,
    /// How much of the line has passed; nothing once it has ended.
    length: Option<usize>,
}

/// A longer line is no request line for any server.
const LONGEST_LINE: usize = 64 * 1024;

impl FirstLine {
    pub(crate) fn new() -> Self {
        Self { tail: Vec::new(), length: Some(0) }
    }

    /// Takes the next bytes. Does the line have a version of HTTP?
    pub(crate) fn has_version(&mut self, bytes: &[u8]) -> bool {
        let Some(length) = &mut self.length else { return false };
        let start =
            if self.tail.is_empty() && *length == 0 { bytes.iter().position(|byte| !is_blank(*byte)) } else { Some(0) };
        let text = start.and_then(|start| bytes.get(start..)).unwrap_or_default();
        let end = text.iter().position(|byte| *byte == b'\n');
        let line = text.get(..end.unwrap_or(text.len())).unwrap_or_default();
        *length += line.len();
        if end.is_some() || *length > LONGEST_LINE {
            self.length = None;
        }
        self.tail.extend_from_slice(line);
        // Names of Kerberos services begin like it, with a host after it.
        let is_version = |word: &[u8]| {
            word.get(..5).is_some_and(|name| name.eq_ignore_ascii_case(b"HTTP/"))
                && word.last().is_some_and(u8::is_ascii_digit)
        };
        let found = self.tail.windows(6).any(is_version);
        self.tail.drain(..self.tail.len().saturating_sub(5));
        found
    }
}

/// What some server takes for space before or within a request line. The last six are those of Python, which reads it as Latin-1.
fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n' | 0x0b | 0x0c | 0x1c..=0x1f | 0x85 | 0xa0)
}

/// What a method and the name of a header field are made of (RFC 9110).
pub(super) fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(bytes: &[u8], expected: Look) {
        assert_eq!(first_look(bytes), expected, "{}", bytes.escape_ascii());
    }

    #[test]
    fn http_is_recognised_however_it_is_disguised() {
        for bytes in [
            &b"GET / HTTP/1.1\r\n"[..],
            b"GET /\n",
            b"GET\t/x\r\n",
            b"GET  /x \r\n",
            b"GET http",
            b"GET HTTPS://a.example/x RTSP/1.0",
            b"GET\r/",
            b"GET /\0 HTTP/1.1\r\n",
            b"CONNECT a.example:443 HTTP/1.1\r\n",
            b"PRI * HTTP/2.0",
            b"\r\n\r\nGET / HTTP/1.1\r\n",
            b"\n \t\x0bGET / HTTP/",
            b"get / http/1.1\r\n",
            b"PROPFIND / HTTP/1.1\r\n",
            b"X /\rHTTP/1.1\r\n",
            b"X / HTTP/",
            b"SSH-2.0-x HTTP/1.1\r\n",
            // Servers in Python split at these, and take the others into the target.
            b"GET\x1c/x\x1cHTTP/1.1\r\n",
            b"GET\x1f/x\x1fHTTP/1.1\r\n",
            b"GET\x85/x\x85HTTP/1.1\r\n",
            b"GET\xa0/x\xa0HTTP/1.1\r\n",
            b"\x1cGET / HTTP/1.1\r\n",
            b"GET {/x HTTP/1.1\r\n",
            &[b'\n'; MAX_BLANK + 1],
        ] {
            check(bytes, Look::Http);
        }
    }

    /// F6: words that HTTP shares with other protocols do not make HTTP of them.
    #[test]
    fn f6_other_protocols_are_told_by_their_first_line() {
        for bytes in [
            &b"SSH-2.0-OpenSSH_9.6\r\n"[..],
            b"SSH-2.0-OpenSSH_9.6p1 Ubuntu-3\r\n",
            b"\x16\x03\x01\x02",
            b"\0\0\0\x08\x04\xd2\x16\x2f",
            b"*1\r\n$4\r\nPING\r\n",
            b"PING\r\n",
            b"EHLO a.example\r\n",
            b"0033git-upload-pack /x.git\0host=a.example\0",
            b"0\x1d\x02\x01\x01w\x18",
            b"CONNECT {",
            b"AMQP\0\0\x09\x01",
            b"get key\r\n",
            b"HTTP/1.1 200 OK\r\n",
            b"(x",
            b"\xff",
            b"CONNECT {\"verbose\":false}\r\n",
            b"CONNECT\naccept-version:1.2\n",
            b"CONNECT\r\n",
            b"OPTIONS rtsp://a.example/x RTSP/1.0\r\n",
            b"OPTIONS * RTSP/1.0\r\n",
            b"OPTIONS sip:a@a.example SIP/2.0\r\n",
            b"PUT 7\r\n",
            b"GET key\r\n",
        ] {
            check(bytes, Look::Other);
        }
    }

    #[test]
    fn a_beginning_that_could_be_either_waits() {
        for bytes in [
            &b""[..],
            b"G",
            b"SSH-2.0",
            b"SSH-2.0-x y",
            b"\r\n",
            b"  ",
            b"EHLO a.example\r",
            b"X / HTTP",
            b"GET ",
            b"GET htt",
            b"CONNECT ",
            b"OPTIONS rtsp:",
        ] {
            check(bytes, Look::NeedMore);
        }
    }

    /// F1: what some server would still read as a request line is found, however it arrives.
    #[test]
    fn f1_a_version_is_found_to_the_end_of_the_first_line() {
        let found = |text: &[u8], size: usize| {
            let mut line = FirstLine::new();
            text.chunks(size).any(|bytes| line.has_version(bytes))
        };
        for size in [1, 2, 5, 6, 7, 100] {
            for text in [
                &b"PROPFIND / \x01 HTTP/1.1\r\n"[..],
                b"PROPFIND / \x7f HTTP/1.1\r\n",
                b"PROPFIND / \0 http/1.1\r\n",
                b"PROPFIND\x01/ HTTP/1.1\r\n",
                b"GET(x HTTP/1.1\r\n",
                b"CONNECT {/x HTTP/1.1\r\n",
                b"\r\n\r\nX / \x01 HTTP/1.0\r\n",
            ] {
                assert!(found(text, size), "{size} {}", text.escape_ascii());
            }
            for text in [&b"0\x1d\x02\x01\x01w\x18 HTTP/host.example"[..], b"SSH-2.0-x\r\nHTTP/1.1", b"\0\0", b""] {
                assert!(!found(text, size), "{size} {}", text.escape_ascii());
            }
        }
        assert!(!found(&[&[b'x'; LONGEST_LINE + 1][..], b"yy HTTP/1.1"].concat(), 1));
    }

    #[test]
    fn the_list_is_sorted() {
        assert!(METHODS.is_sorted());
    }
}
