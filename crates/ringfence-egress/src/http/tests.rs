//! Requests that are read, and the tricks that are refused.

use proptest::prelude::*;

use super::*;

/// Whom a request is for, in short.
#[derive(Debug, PartialEq, Eq)]
enum Request {
    NeedMore,
    NotHttp,
    Host { name: String, port: Option<u16> },
    NoHost,
    Malformed(&'static str),
}

/// An offer to go on in HTTP/2 counts as malformed; it is taken out on the way.
fn request_host(bytes: &[u8]) -> Request {
    match parse_head(bytes) {
        HeadResult::NeedMore => Request::NeedMore,
        HeadResult::NotHttp => Request::NotHttp,
        HeadResult::Malformed(why) => Request::Malformed(why),
        HeadResult::Head(head) if head.upgrade == Upgrade::Http2 => Request::Malformed(HTTP2),
        HeadResult::Head(head) => match head.host {
            Some(Authority { name, port }) => Request::Host { name, port },
            None => Request::NoHost,
        },
    }
}

fn host(name: &str, port: Option<u16>) -> Request {
    Request::Host { name: name.to_owned(), port }
}

#[track_caller]
fn check(text: &str, expected: Request) {
    assert_eq!(request_host(text.as_bytes()), expected, "{text:?}");
}

#[track_caller]
fn malformed(bytes: impl AsRef<[u8]>, why: &'static str) {
    let bytes = bytes.as_ref();
    assert_eq!(request_host(bytes), Request::Malformed(why), "{}", bytes.escape_ascii());
}

/// Header fields of a request that is otherwise good.
#[track_caller]
fn fields(fields: &str, why: &'static str) {
    malformed(format!("POST / HTTP/1.1\r\nHost: a.example\r\n{fields}\r\n"), why);
}

#[track_caller]
fn body(fields: &str, expected: Body) {
    let text = format!("POST / HTTP/1.1\r\nHost: a.example\r\n{fields}\r\nmore");
    match parse_head(text.as_bytes()) {
        HeadResult::Head(head) => assert_eq!((head.length, head.end), (expected, text.len() - 4), "{text:?}"),
        other => panic!("{text:?}: {other:?}"),
    }
}

#[test]
fn the_host_is_read() {
    check("GET / HTTP/1.1\r\nHost: github.com\r\n\r\n", host("github.com", None));
    check("GET / HTTP/1.1\r\nhOsT:GitHub.COM.:8080\t \r\n\r\nbody", host("github.com", Some(8080)));
    check("GET /\u{fc} HTTP/1.1\r\nA: b\r\nHost: [2001:db8::1]:80\r\nC:\r\n\r\n", host("2001:db8::1", Some(80)));
    check("HEAD /a?b=@c HTTP/1.0\r\nHost: 192.0.2.7\r\n\r\n", host("192.0.2.7", None));
    check("OPTIONS * HTTP/1.1\r\nHost: a.example\r\n\r\n", host("a.example", None));
    check("VERSION-CONTROL /x HTTP/1.1\r\nHost: a.example\r\n\r\n", host("a.example", None));
    check("GET / HTTP/1.1\r\nHost: a.example\r\nX: \u{fc}\t\"\r\n\r\n", host("a.example", None));
}

#[test]
fn a_request_may_name_nobody() {
    check("GET / HTTP/1.0\r\n\r\n", Request::NoHost);
    check("GET / HTTP/1.1\r\nX-Forwarded-Host: a.example\r\n\r\n", Request::NoHost);
}

#[test]
fn a_target_with_a_host_agrees_with_the_header() {
    let differ = "a target and a Host header that differ";
    check("GET http://a.example/x HTTP/1.1\r\nHost: a.example\r\n\r\n", host("a.example", None));
    check("GET HTTP://A.example:80?x HTTP/1.1\r\nHost: a.example.\r\n\r\n", host("a.example", Some(80)));
    check("GET http://a.example HTTP/1.0\r\n\r\n", host("a.example", None));
    malformed("GET http://a.example/ HTTP/1.1\r\nHost: b.example\r\n\r\n", differ);
    malformed("GET http://a.example:81/ HTTP/1.1\r\nHost: a.example\r\n\r\n", differ);
    malformed("GET http://a.example/ HTTP/1.1\r\nHost: a.example:443\r\n\r\n", differ);
    malformed("GET http://a.example/ HTTP/1.1\r\n\r\n", "no Host header");
    check("CONNECT a.example:443 HTTP/1.1\r\nHost: a.example:443\r\n\r\n", host("a.example", Some(443)));
    check("CONNECT a.example:443 HTTP/1.1\r\nHost: a.example\r\n\r\n", host("a.example", Some(443)));
    check("CONNECT a.example:443 HTTP/1.0\r\n\r\n", host("a.example", Some(443)));
    malformed("CONNECT a.example:443 HTTP/1.1\r\nHost: b.example:443\r\n\r\n", differ);
    malformed("CONNECT a.example:443 HTTP/1.1\r\nHost: a.example:80\r\n\r\n", differ);
}

#[test]
fn targets_have_one_of_four_forms() {
    let target = |method: &str, target: &str, why| {
        malformed(format!("{method} {target} HTTP/1.1\r\nHost: a.example\r\n\r\n"), why);
    };
    let neither = "a target that is neither a path nor an http address";
    target("GET", "https://a.example/", neither);
    target("GET", "ftp://a.example/", neither);
    target("GET", "http:/a.example/", neither);
    target("GET", "http:a.example", neither);
    target("GET", "a.example", neither);
    target("GET", "a.example:80", neither);
    target("GET", "*", neither);
    target("GET", "?x", neither);
    target("GET", "\u{e9}\u{e9}\u{e9}\u{e9}", neither);
    target("GET", "http://", "an empty host");
    target("GET", "http:///x", "an empty host");
    let character = "a character that no host name has";
    target("GET", "http://a.example@b.example/", character);
    target("GET", "http://a.example\\@b.example/", character);
    target("GET", "http://a.example%2f/", character);
    target("GET", "http://127.1/", "an address in an odd spelling");
    let odd = "a character that no request target has";
    target("GET", "http://a.example#@b.example/", odd);
    target("GET", "/x#y", odd);
    target("GET", "/x\u{a0}y", odd);
    target("GET", "/x\u{85}y", odd);
    target("CONNECT", "a.example", "a tunnel without a port");
    target("CONNECT", "/", character);
    target("CONNECT", "http://a.example:80/", "a port that is not a number from 1 to 65535");
}

#[test]
fn odd_hosts_are_refused() {
    let host = |host: &str, why| malformed(format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"), why);
    let character = "a character that no host name has";
    for odd in
        ["u@a.example", "a.example/x", "a.example#x", "a.example?x", "a.example\\x", "a.example b", "a,b", "a%00"]
    {
        host(odd, character);
    }
    host("u:p@a.example", "a port that is not a number from 1 to 65535");
    host("http://a.example", "a port that is not a number from 1 to 65535");
    host("a.example:", "a port that is not a number from 1 to 65535");
    host("", "an empty host");
    for odd in ["2130706433", "0x7f000001", "0177.0.0.1", "127.1"] {
        host(odd, "an address in an odd spelling");
    }
    malformed(b"GET / HTTP/1.1\r\nHost: a.example\0\r\n\r\n", "a control character in the head");
    malformed(b"GET / HTTP/1.1\r\nHost: \xff\r\n\r\n", character);
}

#[test]
fn there_is_one_host_header() {
    let two = "two Host headers";
    fields("Host: b.example\r\n", two);
    fields("HOST: a.example\r\n", two);
    fields("host :b.example\r\n", "a header with an odd name");
    fields("Host\t: b.example\r\n", "a header with an odd name");
    fields(" Host: b.example\r\n", "a header that continues the line before");
    fields("\tHost: b.example\r\n", "a header that continues the line before");
    fields("X: y\r\n Host: b.example\r\n", "a header that continues the line before");
    fields("X: y\nHost: b.example\r\n", "a line that ends without a carriage return");
    fields("X: y\rHost: b.example\r\n", "a control character in the head");
    fields("X: y\0\r\n", "a control character in the head");
    fields("X: y\u{7f}\r\n", "a control character in the head");
    fields(": y\r\n", "a header with an odd name");
    fields("X Y: z\r\n", "a header with an odd name");
    fields("X\u{e9}: z\r\n", "a header with an odd name");
    fields("Host\r\n", "a header without a colon");
    malformed("GET / HTTP/1.1\r\n Host: a.example\r\n\r\n", "a header that continues the line before");
    malformed("GET / HTTP/1.1\r\nHost: a.example\r\n\n", "a line that ends without a carriage return");
    malformed("GET / HTTP/1.1\nHost: a.example\n\n", "a line that ends without a carriage return");
}

#[test]
fn request_lines_have_one_spelling() {
    let line = |line: &str, why| malformed(format!("{line}\r\nHost: a.example\r\n\r\n"), why);
    let words = "a request line that is not three words";
    line("GET /", words);
    line("GET  / HTTP/1.1", words);
    line("GET / HTTP/1.1 ", words);
    line("GET / x HTTP/1.1", words);
    line("GET\t/ HTTP/1.1", words);
    line("GET\x0b/ HTTP/1.1", "a control character in the head");
    let version = "a version other than HTTP/1.0 and HTTP/1.1";
    line("GET / HTTP/0.9", version);
    line("GET / HTTP/1.2", version);
    line("GET / HTTP/01.1", version);
    line("GET / http/1.1", version);
    line("GET / HTTP/3.0", version);
    line("GET / x", version);
    line("get / HTTP/1.1", "a method that is not in capitals");
    line("Get / HTTP/1.1", "a method that is not in capitals");
    line(&format!("{} / HTTP/1.1", "A".repeat(33)), "a method that is not in capitals");
    malformed("\r\nGET / HTTP/1.1\r\nHost: a.example\r\n\r\n", words);
    malformed(" GET / HTTP/1.1\r\nHost: a.example\r\n\r\n", words);
    malformed(b"GET /\xff HTTP/1.1\r\nHost: a.example\r\n\r\n", "a request line that is not text");
}

#[test]
fn http_2_without_tls_is_refused() {
    let why = HTTP2;
    malformed("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", why);
    malformed("PRI * HTTP/2.0\r\n", why);
    check("PRI * HTTP/2.0", Request::NeedMore);
    fields("Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n", why);
    fields("Upgrade: websocket, H2C\r\n", why);
}

#[test]
fn an_offer_to_leave_http_is_told() {
    let upgrade =
        |fields: &str| match parse_head(format!("GET / HTTP/1.1\r\nHost: a.example\r\n{fields}\r\n").as_bytes()) {
            HeadResult::Head(head) => head.upgrade,
            other => panic!("{other:?}"),
        };
    assert_eq!(upgrade(""), Upgrade::None);
    assert_eq!(upgrade("Upgrade: WebSocket\r\n"), Upgrade::WebSocket);
    assert_eq!(upgrade("Upgrade: websocket\r\nUpgrade: websocket\r\n"), Upgrade::Other);
    assert_eq!(upgrade("Upgrade: websocket, x\r\n"), Upgrade::Other);
    assert_eq!(upgrade("Connection: Upgrade\r\nupgrade:\tH2C\r\n"), Upgrade::Http2);
    assert_eq!(upgrade("Upgrade: h2c\r\nUpgrade: websocket\r\n"), Upgrade::Http2);
    assert_eq!(upgrade("Upgrade: websocket\r\nUpgrade: x , h2c\r\n"), Upgrade::Http2);
}

#[test]
fn an_offer_of_http_2_can_be_taken_out() {
    let offer = b"GET / HTTP/1.1\r\nConnection: Upgrade, HTTP2-Settings\r\nHost: a.example\r\nHTTP2-Settings: AA\r\n\
                  Upgrade: h2c\r\n\r\n";
    let HeadResult::Head(head) = parse_head(offer) else { panic!() };
    assert_eq!(head.upgrade, Upgrade::Http2);
    let plain = rewrite(offer, &head, &[], HTTP2_OFFER);
    assert_eq!(plain, b"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n");
    assert_eq!(request_host(&plain), host("a.example", None));
}

#[test]
fn the_version_is_told() {
    let is_1_1 = |text: &str| match parse_head(text.as_bytes()) {
        HeadResult::Head(head) => head.is_1_1,
        other => panic!("{other:?}"),
    };
    assert!(is_1_1("GET / HTTP/1.1\r\n\r\n") && !is_1_1("GET / HTTP/1.0\r\n\r\n"));
}

#[test]
fn where_a_body_ends() {
    body("", Body::None);
    body("Content-Length: 0\r\n", Body::Length(0));
    body("CONTENT-length:\t42 \r\n", Body::Length(42));
    body("Content-Length: 18446744073709551615\r\n", Body::Length(u64::MAX));
    body("Transfer-Encoding: chunked\r\n", Body::Chunked);
    body("transfer-encoding:Chunked\r\n", Body::Chunked);
    let HeadResult::Head(tunnel) = parse_head(b"CONNECT a.example:1 HTTP/1.1\r\n\r\n\x16\x03") else { panic!() };
    assert_eq!((tunnel.length, tunnel.end), (Body::UntilClose, 32));
}

#[test]
fn bodies_that_servers_end_differently_are_refused() {
    let both = "both Content-Length and Transfer-Encoding";
    fields("Content-Length: 4\r\nTransfer-Encoding: chunked\r\n", both);
    fields("Transfer-Encoding: chunked\r\nContent-Length: 4\r\n", both);
    let two = "two Content-Length headers";
    fields("Content-Length: 4\r\nContent-Length: 5\r\n", two);
    fields("Content-Length: 4\r\ncontent-length: 4\r\n", two);
    for length in ["", "+4", "-4", "04", "4, 4", "4 4", "0x4", "4;", "18446744073709551616", "\u{664}"] {
        fields(&format!("Content-Length: {length}\r\n"), "a length that is not a plain number");
    }
    let encoding = "a transfer encoding other than chunked";
    for value in
        ["", "identity", "gzip, chunked", "chunked, chunked", "xchunked", "chunked;q=1", "\"chunked\"", "chunked,"]
    {
        fields(&format!("Transfer-Encoding: {value}\r\n"), encoding);
    }
    fields("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", encoding);
    fields("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n", encoding);
    malformed("POST / HTTP/1.0\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\n\r\n", "chunks in HTTP/1.0");
    malformed("CONNECT a.example:1 HTTP/1.1\r\nContent-Length: 4\r\n\r\n", "a tunnel with a body");
    malformed("CONNECT a.example:1 HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", "a tunnel with a body");
}

#[test]
fn other_protocols_are_passed_on() {
    check("SSH-2.0-OpenSSH_9.6p1 Ubuntu-3\r\n", Request::NotHttp);
    check("", Request::NeedMore);
    assert_eq!(request_host(b"\x16\x03\x01"), Request::NotHttp);
}

#[test]
fn every_beginning_asks_for_more() {
    let text = "POST http://a.example/ HTTP/1.1\r\nHost: a.example\r\nContent-Length: 4\r\n\r\n";
    for length in 0..text.len() {
        check(&text[..length], Request::NeedMore);
    }
}

#[test]
fn a_head_ends_within_its_bound() {
    let start = "GET / HTTP/1.1\r\nHost: a.example\r\n";
    let long = format!("{start}X: {}", "y".repeat(MAX_HEAD));
    check(&long[..MAX_HEAD - 1], Request::NeedMore);
    malformed(&long[..MAX_HEAD], "a head that does not end");
    malformed(&long, "a head that does not end");
    malformed(format!("{start}{}\r\n", "X: y\r\n".repeat(MAX_HEAD / 6)), "a head that does not end");
    malformed("\r\n".repeat(MAX_HEAD), "a request line that is not three words");
    malformed(" ".repeat(MAX_HEAD), "a head that does not end");
    malformed("A".repeat(MAX_HEAD), "a head that does not end");
    let fits = format!("{start}X: {}\r\n\r\n", "y".repeat(MAX_HEAD - start.len() - 7));
    assert_eq!(fits.len(), MAX_HEAD);
    check(&fits, host("a.example", None));
    check(&format!("{fits}body"), host("a.example", None));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(500) })]

    #[test]
    fn any_bytes_are_read(
        bytes in prop_oneof![
            prop::collection::vec(any::<u8>(), 0..200),
            "((GET|POST|CONNECT|HTTP/1\\.1|http://|Host|Content-Length|Transfer-Encoding|chunked|a\\.example|[ \r\n\t:/@0-9]))\
             {0,40}".prop_map(String::into_bytes),
        ],
        changed in any::<u8>(), at in 0usize..70,
    ) {
        let mut good = b"GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\nContent-Length: 4\r\n\r\n".to_vec();
        let place = at.min(good.len() - 1);
        good[place] = changed;
        for bytes in [&bytes, &good, &[&good[..], &bytes].concat()] {
            match parse_head(bytes) {
                HeadResult::Head(head) => {
                    prop_assert!(head.end <= bytes.len() && bytes[..head.end].ends_with(b"\r\n\r\n"));
                    // The head alone reads the same, and no shorter part of it is a head.
                    prop_assert_eq!(parse_head(&bytes[..head.end]), HeadResult::Head(head.clone()));
                    prop_assert_eq!(parse_head(&bytes[..head.end - 1]), HeadResult::NeedMore);
                }
                HeadResult::NeedMore | HeadResult::NotHttp | HeadResult::Malformed(_) => {}
            }
        }
    }

    /// Once the first bytes are refused, more bytes do not make them good.
    #[test]
    fn a_refusal_stands(
        bytes in "(GET|POST|X) (/|http://a) HTTP/1\\.[01]\r?\n((Host|A|Content-Length|Transfer-Encoding) ?:[ a1,]{0,4}\r?\n){0,5}",
        more in "[ -~\r\n]{0,30}",
    ) {
        let whole = [bytes.as_bytes(), more.as_bytes()].concat();
        if let Request::Malformed(why) = request_host(bytes.as_bytes()) {
            prop_assert_eq!(request_host(&whole), Request::Malformed(why));
        }
    }

    #[test]
    fn hosts_read_back(
        name in "([a-z0-9_-]{1,9}\\.){0,3}[a-z]{2,3}", port in prop::option::of(1u16..), path in "(/[a-z0-9._~%-]{0,9}){1,3}",
        before in "(X-[A-Za-z]{1,9}: [ -~]{0,20}\r\n){0,3}",
    ) {
        let authority = port.map_or(name.clone(), |port| format!("{name}:{port}"));
        for target in [path.clone(), format!("http://{authority}{path}")] {
            let text = format!("GET {target} HTTP/1.1\r\n{before}Host: {authority}\r\n\r\n");
            prop_assert_eq!(request_host(text.as_bytes()), Request::Host { name: name.clone(), port });
        }
    }
}

#[test]
fn fields_are_those_of_the_head() {
    let bytes = b"GET / HTTP/1.1\r\nHost: a.example\r\nX-One:  1 \r\nEmpty:\r\n\r\nNot: this\r\n";
    let HeadResult::Head(head) = parse_head(bytes) else { panic!("it is a head") };
    let found: Vec<_> = super::fields(&bytes[..head.end]).collect();
    assert_eq!(found, [(&b"Host"[..], &b"a.example"[..]), (b"X-One", b"1"), (b"Empty", b"")]);
}
