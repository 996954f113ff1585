//! What programs that insist on a proxy ask it: HTTP proxies here, SOCKS in the room below.
//!
//! The front is a courtesy. It reads whom a program wants to reach and no more; the answer comes from the same rules as for a
//! program that dials by itself.

mod socks;

pub use socks::{Greeting, SocksAsk, SocksDialect, SocksOutcome, socks_greeting, socks_request};

use crate::http::{self, Form, HTTP_PORT, Head, HeadResult};

/// Header fields that are for the proxy and are not passed on to a server.
pub const NOT_FORWARDED: &[&str] = &["Proxy-Authorization", "Proxy-Connection"];

/// The answer to a tunnel that stands.
pub const TUNNEL_STANDS: &[u8] = b"HTTP/1.1 200 Connection established\r\n\r\n";

/// What an HTTP proxy is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ask {
    /// A part of a head; more bytes will tell.
    NeedMore,
    /// A tunnel.
    Connect {
        /// Lower case, without a trailing dot or brackets.
        name: String,
        /// Never 0.
        port: u16,
        /// How many bytes the request took. What follows belongs into the tunnel.
        consumed: usize,
    },
    /// One plain HTTP request to pass on, by [`http::rewrite`] without [`NOT_FORWARDED`].
    Forward {
        /// Lower case, without a trailing dot or brackets.
        name: String,
        /// 80 where none was written.
        port: u16,
        /// The request.
        head: Head,
    },
    /// Nothing that a client in good faith asks a proxy.
    Malformed(&'static str),
}

/// Why an HTTP proxy does not do what it was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HttpRefusal {
    /// The request cannot be read.
    BadRequest,
    /// The host is not allowed.
    Forbidden,
    /// The host cannot be reached.
    BadGateway,
    /// The host did not answer in time.
    GatewayTimeout,
}

/// Reads what an HTTP proxy is asked for.
#[must_use]
pub fn http_proxy(bytes: &[u8]) -> Ask {
    let head = match http::parse_head(bytes) {
        HeadResult::NeedMore => return Ask::NeedMore,
        HeadResult::NotHttp => return Ask::Malformed("not an HTTP request"),
        HeadResult::Malformed(why) => return Ask::Malformed(why),
        HeadResult::Head(head) => head,
    };
    match &head.form {
        Form::Tunnel(target) => match target.port {
            Some(port) => Ask::Connect { name: target.name.clone(), port, consumed: head.end },
            None => Ask::Malformed("a tunnel without a port"),
        },
        Form::Absolute(target) => {
            Ask::Forward { name: target.name.clone(), port: target.port.unwrap_or(HTTP_PORT), head }
        }
        Form::Origin | Form::Asterisk => Ask::Malformed("a request for a server, not for a proxy"),
    }
}

impl HttpRefusal {
    /// The whole answer, after which the connection is closed. `why` is one line of text for a person or a model to read.
    #[must_use]
    pub fn reply(self, why: &str) -> Vec<u8> {
        let status = match self {
            Self::BadRequest => "400 Bad Request",
            Self::Forbidden => "403 Forbidden",
            Self::BadGateway => "502 Bad Gateway",
            Self::GatewayTimeout => "504 Gateway Timeout",
        };
        let length = why.len() + 1;
        let fields = "Content-Type: text/plain; charset=utf-8\r\nConnection: close\r\n";
        format!("HTTP/1.1 {status}\r\n{fields}Content-Length: {length}\r\n\r\n{why}\n").into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn tunnel(text: &str, name: &str, port: u16) {
        let more = format!("{text}\x16\x03\x01");
        let expected = Ask::Connect { name: name.to_owned(), port, consumed: text.len() };
        assert_eq!(http_proxy(more.as_bytes()), expected, "{text:?}");
    }

    #[track_caller]
    fn malformed(text: &str, why: &'static str) {
        assert_eq!(http_proxy(text.as_bytes()), Ask::Malformed(why), "{text:?}");
    }

    #[test]
    fn tunnels() {
        tunnel("CONNECT github.com:443 HTTP/1.1\r\nHost: github.com:443\r\n\r\n", "github.com", 443);
        tunnel("CONNECT GitHub.com.:22 HTTP/1.0\r\n\r\n", "github.com", 22);
        tunnel("CONNECT [2001:db8::1]:443 HTTP/1.1\r\nProxy-Connection: x\r\n\r\n", "2001:db8::1", 443);
        tunnel("CONNECT 192.0.2.7:443 HTTP/1.1\r\n\r\n", "192.0.2.7", 443);
    }

    #[test]
    fn requests_to_pass_on() {
        let text =
            b"GET http://a.example:8080/x HTTP/1.1\r\nHost: a.example:8080\r\nproxy-connection: keep-alive\r\n\r\n";
        let Ask::Forward { name, port, head } = http_proxy(text) else { panic!() };
        assert_eq!((name.as_str(), port), ("a.example", 8080));
        assert_eq!(http::rewrite(text, &head, &[], NOT_FORWARDED), b"GET /x HTTP/1.1\r\nHost: a.example:8080\r\n\r\n");
        let Ask::Forward { port, .. } = http_proxy(b"GET http://a.example HTTP/1.0\r\n\r\n") else { panic!() };
        assert_eq!(port, 80);
    }

    #[test]
    fn what_a_proxy_is_not_asked() {
        malformed("GET / HTTP/1.1\r\nHost: a.example\r\n\r\n", "a request for a server, not for a proxy");
        malformed("OPTIONS * HTTP/1.1\r\nHost: a.example\r\n\r\n", "a request for a server, not for a proxy");
        malformed(
            "GET https://a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n",
            "a target that is neither a path nor an http address",
        );
        malformed("CONNECT a.example HTTP/1.1\r\n\r\n", "a tunnel without a port");
        malformed("CONNECT a.example:0 HTTP/1.1\r\n\r\n", "a port that is not a number from 1 to 65535");
        malformed("CONNECT 0x7f.1:443 HTTP/1.1\r\n\r\n", "an address in an odd spelling");
        malformed("CONNECT u@a.example:443 HTTP/1.1\r\n\r\n", "a character that no host name has");
        malformed(
            "CONNECT a.example:443@b.example:443 HTTP/1.1\r\n\r\n",
            "a port that is not a number from 1 to 65535",
        );
        malformed("CONNECT a.example\0.b.example:443 HTTP/1.1\r\n\r\n", "a control character in the head");
        malformed(
            "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            "HTTP/2 without TLS, which names a host in each of many requests; use TLS, or list the host's address",
        );
        malformed("SSH-2.0-x\r\n", "not an HTTP request");
        assert_eq!(http_proxy(b"CONNECT a.example:443 HTTP/1.1\r\n"), Ask::NeedMore);
        assert_eq!(http_proxy(b""), Ask::NeedMore);
    }

    #[test]
    fn refusals_are_whole_answers() {
        let reply = String::from_utf8(HttpRefusal::Forbidden.reply("b.example is not listed")).unwrap();
        assert_eq!(
            reply,
            "HTTP/1.1 403 Forbidden\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\
             Content-Length: 24\r\n\r\nb.example is not listed\n"
        );
        for (refusal, status) in [
            (HttpRefusal::BadRequest, "HTTP/1.1 400 "),
            (HttpRefusal::BadGateway, "HTTP/1.1 502 "),
            (HttpRefusal::GatewayTimeout, "HTTP/1.1 504 "),
        ] {
            assert!(refusal.reply("").starts_with(status.as_bytes()));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(1000) })]

        #[test]
        fn any_bytes_are_answered(target in "[ -~]{0,30}", rest in prop::collection::vec(any::<u8>(), 0..40)) {
            for text in [format!("CONNECT {target} HTTP/1.1\r\n\r\n"), format!("GET {target} HTTP/1.0\r\n\r\n")] {
                let bytes = [text.as_bytes(), &rest].concat();
                match http_proxy(&bytes) {
                    Ask::Connect { port, consumed, .. } => prop_assert!(port != 0 && consumed <= bytes.len()),
                    Ask::Forward { port, head, .. } => prop_assert!(port != 0 && head.end <= bytes.len()),
                    Ask::NeedMore | Ask::Malformed(_) => {}
                }
            }
            let _ = http_proxy(&rest);
        }
    }
}
