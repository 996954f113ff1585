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
        return after_method(after);
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
fn after_method(after: &[u8]) -> Look {
    let end = after.iter().position(|byte| *byte == b'\n');
    let line = after.get(..end.unwrap_or(after.len())).unwrap_or_default();
    let target = line.iter().position(|byte| !is_blank(*byte)).and_then(|start| line.get(start..)).unwrap_or_default();
    // A line of NATS goes on with an object, in which anything may stand.
    if target.starts_with(b"{") {
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

/// What some server takes for space before or within a request line.
fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n' | 0x0b | 0x0c)
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
            b"AMQP\0\0\x09\x01",
            b"get key\r\n",
            b"HTTP/1.1 200 OK\r\n",
            b"(x",
            b"\xff",
            b"CONNECT {\"verbose\":false}\r\n",
            b"CONNECT {",
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

    #[test]
    fn the_list_is_sorted() {
        assert!(METHODS.is_sorted());
    }
}
