//! A head with other header fields: how a credential is added outside, where nobody inside can see it.

use super::{Form, Head, look, split_absolute, split_field};

/// The head again, without the fields named in `remove` and `set`, with those of `set` at its end, and with a path for its
/// target. What follows the head is not part of the result.
///
/// `bytes` are those that the head was read from. A field of `set` that could not stand in a head, such as a value with a line
/// feed, is left out, so that it cannot become a second field or request; [`is_header_value`] tells beforehand.
#[must_use]
pub fn rewrite(bytes: &[u8], head: &Head, set: &[(&str, &[u8])], remove: &[&str]) -> Vec<u8> {
    let text = bytes.get(..head.end).unwrap_or(bytes);
    let mut lines = text.split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    let version = if head.is_1_1 { "HTTP/1.1" } else { "HTTP/1.0" };
    let _request_line = lines.next();
    let mut out = format!("{} {} {version}\r\n", head.method, path_of(head)).into_bytes();
    let is_replaced = |name: &[u8]| {
        let names = remove.iter().copied().chain(set.iter().map(|(name, _)| *name));
        names.into_iter().any(|replaced| name.eq_ignore_ascii_case(replaced.as_bytes()))
    };
    let mut has_host = set.iter().any(|(name, _)| name.eq_ignore_ascii_case("host"));
    for line in lines.take_while(|line| !line.is_empty()) {
        let Ok((name, _)) = split_field(line) else { continue };
        has_host |= name.eq_ignore_ascii_case(b"host");
        if !is_replaced(name) {
            write_line(&mut out, line);
        }
    }
    // An old client's address said whom it meant; its path alone does not.
    if let (Form::Absolute(_), Some((authority, _)), false) = (&head.form, split_absolute(&head.target), has_host) {
        write_line(&mut out, format!("Host: {authority}").as_bytes());
    }
    for (name, value) in set.iter().filter(|(name, value)| is_header_name(name) && is_header_value(value)) {
        write_line(&mut out, &[name.as_bytes(), b": ", value].concat());
    }
    out.extend(b"\r\n");
    out
}

/// Whether a header field can have this value: no control characters but tabs, and no spaces around it.
#[must_use]
pub fn is_header_value(value: &[u8]) -> bool {
    value.trim_ascii() == value && !value.iter().any(|byte| byte.is_ascii_control() && *byte != b'\t')
}

fn is_header_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(look::is_token)
}

fn write_line(out: &mut Vec<u8>, line: &[u8]) {
    out.extend(line);
    out.extend(b"\r\n");
}

/// The target as a server is asked for it.
fn path_of(head: &Head) -> String {
    match (&head.form, split_absolute(&head.target)) {
        (Form::Absolute(_), Some((_, ""))) if head.method == "OPTIONS" => "*".to_owned(),
        (Form::Absolute(_), Some((_, rest))) if rest.starts_with('/') => rest.to_owned(),
        (Form::Absolute(_), Some((_, rest))) => format!("/{rest}"),
        _ => head.target.clone(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::{HeadResult, parse_head};
    use super::*;

    fn head(bytes: &[u8]) -> Head {
        match parse_head(bytes) {
            HeadResult::Head(head) => head,
            other => panic!("{other:?}"),
        }
    }

    #[track_caller]
    fn check(text: &str, set: &[(&str, &[u8])], remove: &[&str], expected: &str) {
        let rewritten = rewrite(text.as_bytes(), &head(text.as_bytes()), set, remove);
        assert_eq!(String::from_utf8(rewritten).unwrap(), expected);
    }

    const POST: &str = "POST /v1/messages HTTP/1.1\r\nHost: api.example\r\nX-API-Key: placeholder\r\n\
                        x-api-key: again\r\nContent-Length: 4\r\n\r\nbody";

    #[test]
    fn a_credential_takes_the_place_of_every_placeholder() {
        check(
            POST,
            &[("x-api-key", b"real")],
            &[],
            "POST /v1/messages HTTP/1.1\r\nHost: api.example\r\nContent-Length: 4\r\nx-api-key: real\r\n\r\n",
        );
        check(
            POST,
            &[("Host", b"other.example"), ("Connection", b"close")],
            &["X-Api-Key"],
            "POST /v1/messages HTTP/1.1\r\nContent-Length: 4\r\nHost: other.example\r\nConnection: close\r\n\r\n",
        );
        check(POST, &[], &["content-length", "host", "x-api-key"], "POST /v1/messages HTTP/1.1\r\n\r\n");
    }

    #[test]
    fn only_the_exact_name_is_replaced() {
        let text = "GET / HTTP/1.1\r\nHost: a.example\r\nx-api-key-2: kept\r\nx-api: kept\r\nx_api_key: kept\r\n\r\n";
        check(text, &[], &["x-api-key"], text);
    }

    #[test]
    fn a_value_cannot_become_a_second_field() {
        for value in [&b"a\r\nEvil: x"[..], b"a\nb", b"a\rb", b"a\0b", b" a", b"a ", b"\x7f"] {
            assert!(!is_header_value(value), "{}", value.escape_ascii());
            let text = "GET / HTTP/1.1\r\nHost: a.example\r\nKey: placeholder\r\n\r\n";
            check(text, &[("key", value)], &[], "GET / HTTP/1.1\r\nHost: a.example\r\n\r\n");
        }
        check(
            "GET / HTTP/1.1\r\nHost: a.example\r\n\r\n",
            &[("", b"x"), ("a b", b"x"), ("a:", b"x"), ("a\r\nb", b"x")],
            &[],
            "GET / HTTP/1.1\r\nHost: a.example\r\n\r\n",
        );
        assert!(is_header_value(b"Bearer sk-ant-x y\tz") && is_header_value(b"") && is_header_value(b"caf\xc3\xa9"));
    }

    #[test]
    fn a_server_is_asked_for_a_path() {
        let absolute = |target: &str, expected: &str| {
            check(
                &format!("GET {target} HTTP/1.1\r\nHost: a.example\r\n\r\n"),
                &[],
                &[],
                &format!("GET {expected} HTTP/1.1\r\nHost: a.example\r\n\r\n"),
            );
        };
        absolute("http://a.example/x?y=http://b/", "/x?y=http://b/");
        absolute("HTTP://A.example:80?y", "/?y");
        absolute("http://a.example", "/");
        absolute("/x//y", "/x//y");
        absolute("//b.example/x", "//b.example/x");
        check(
            "OPTIONS http://a.example HTTP/1.1\r\nHost: a.example\r\n\r\n",
            &[],
            &[],
            "OPTIONS * HTTP/1.1\r\nHost: a.example\r\n\r\n",
        );
        check(
            "GET http://a.example:8080/x HTTP/1.0\r\nA: b\r\n\r\n",
            &[],
            &[],
            "GET /x HTTP/1.0\r\nA: b\r\nHost: a.example:8080\r\n\r\n",
        );
    }

    #[test]
    fn bytes_of_another_head_do_no_harm() {
        let long = head(POST.as_bytes());
        assert_eq!(rewrite(b"", &long, &[], &[]), b"POST /v1/messages HTTP/1.1\r\n\r\n");
        assert_eq!(rewrite(b"\xff\n:\nx", &long, &[], &[]), b"POST /v1/messages HTTP/1.1\r\n\r\n");
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(1000) })]

        /// A rewritten head is a good head for the same host, and setting a field twice changes nothing more.
        #[test]
        fn rewritten_heads_read_back(
            fields in prop::collection::vec(("[a-z]{1,3}(-key)?", "[ -~]{0,12}"), 0..6), value in "[!-~]{1,20}",
        ) {
            let fields: String = fields.iter().map(|(name, value)| format!("X{name}:{value}\r\n")).collect();
            let text = format!("GET http://a.example/p HTTP/1.1\r\n{fields}Host: a.example\r\nXa-key: old\r\n\r\n");
            let before = head(text.as_bytes());
            let set: &[(&str, &[u8])] = &[("xa-key", value.as_bytes())];
            let rewritten = rewrite(text.as_bytes(), &before, set, &["xb"]);
            let after = head(&rewritten);
            prop_assert_eq!(after.end, rewritten.len());
            prop_assert_eq!((&after.host, &after.length), (&before.host, &before.length));
            prop_assert_eq!(rewrite(&rewritten, &after, set, &["xb"]), rewritten.clone());
            let text = String::from_utf8(rewritten).unwrap().to_ascii_lowercase();
            prop_assert_eq!(text.matches("\r\nxa-key:").count(), 1);
            prop_assert_eq!(text.matches("\r\nxb:").count(), 0);
        }
    }
}
