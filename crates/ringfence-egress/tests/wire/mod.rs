//! Everything that reads what others wrote, over any bytes: the body of the fuzz target, and of a short run in every build.

use ringfence_egress::dns::{self, BadReply, Kind};
use ringfence_egress::front::{self, Ask, Greeting, SocksAsk};
use ringfence_egress::hello::{self, Hello, HelloReader};
use ringfence_egress::http::{self, Body, BodyScan, HeadReader, HeadResult};
use ringfence_egress::{guard, pool::Pool, resolv};

/// Reads bytes in every way that they could arrive.
///
/// # Panics
/// When a reader is wrong.
pub(crate) fn any(bytes: &[u8]) {
    questions(bytes);
    replies(bytes);
    hellos(bytes);
    heads(bytes);
    bodies(bytes);
    proxies(bytes);
    files(bytes);
}

fn questions(bytes: &[u8]) {
    match dns::parse_query(bytes) {
        Ok(question) => {
            assert!(question.name.is_empty() || is_host(&question.name), "{:?}", question.name);
            let answers = [
                question
                    .answer(&["198.18.1.1".parse().expect("an address"), "fd52:4600::101".parse().expect("one")], 5),
                question.empty(),
                question.no_such_name(),
                question.failed(),
                question.truncated(),
            ];
            for answer in answers {
                assert!(answer.len() <= 512, "{} bytes", answer.len());
                let read = dns::parse_reply(&answer, question.id, &question.name, question.kind);
                // A name that looks like an address can be asked for, and is never asked for by us.
                let is_asked = dns::query(question.id, &question.name, question.kind).is_some();
                assert_eq!(read.is_ok(), is_asked, "{read:?}");
            }
            let _ = Pool::new().address_of(&question.name);
        }
        Err(bad) => {
            let again = bad.reply.map(|reply| dns::parse_query(&reply).expect_err("a reply is no question").reply);
            assert_eq!(again.flatten(), None, "an answer is answered");
        }
    }
}

fn replies(bytes: &[u8]) {
    let id = bytes.first_chunk().map_or(0, |id| u16::from_be_bytes(*id));
    for kind in [Kind::A, Kind::Aaaa, Kind::Https] {
        match dns::parse_reply(bytes, id, "www.example", kind) {
            Ok(reply) => {
                for address in reply.addresses {
                    assert_eq!(address.is_ipv4(), kind == Kind::A, "{address} for {kind:?}");
                    let _ = guard::refusal(address, &[]);
                }
            }
            Err(BadReply::NotOurs(_) | BadReply::Malformed(_)) => {}
        }
    }
}

fn hellos(bytes: &[u8]) {
    let whole = hello::client_hello(bytes);
    if let Hello::Name(name) = &whole {
        assert!(is_host(name), "{name:?}");
    }
    // A beginning either asks for more or says already what the whole says.
    let half = hello::client_hello(bytes.get(..bytes.len() / 2).unwrap_or_default());
    assert!(half == Hello::NeedMore || half == whole, "{half:?} became {whole:?}");
    let mut reader = HelloReader::new();
    let pieces = (0..=bytes.len()).step_by(7).chain([bytes.len()]);
    let mut said = pieces.map(|end| reader.read(&bytes[..end])).skip_while(|said| *said == Hello::NeedMore);
    assert_eq!(said.next().unwrap_or(Hello::NeedMore), whole, "in pieces it is another");
}

fn heads(bytes: &[u8]) {
    let whole = http::parse_head(bytes);
    let half = http::parse_head(bytes.get(..bytes.len() / 2).unwrap_or_default());
    assert!(half == HeadResult::NeedMore || half == whole, "{half:?} became {whole:?}");
    let mut reader = HeadReader::new();
    let pieces = (0..=bytes.len()).step_by(7).chain([bytes.len()]);
    let mut said = pieces.map(|end| reader.read(&bytes[..end])).skip_while(|said| *said == HeadResult::NeedMore);
    assert_eq!(said.next().unwrap_or(HeadResult::NeedMore), whole, "in pieces it is another");
    let HeadResult::Head(head) = whole else { return };
    assert!(head.end <= bytes.len());
    if let Some(host) = &head.host {
        let is_address = host.name.parse::<std::net::IpAddr>().is_ok();
        assert!(is_host(&host.name) || is_address, "{:?}", host.name);
    }
    let rewritten = http::rewrite(bytes, &head, &[("x-key", b"real")], &["x-key-2"]);
    match http::parse_head(&rewritten) {
        HeadResult::Head(after) => {
            assert_eq!((after.end, after.length), (rewritten.len(), head.length));
            let name = |host: Option<ringfence_egress::spelling::Authority>| host.map(|host| host.name);
            assert_eq!(name(after.host), name(head.host));
        }
        other => panic!("a rewritten head is {other:?}"),
    }
}

fn bodies(bytes: &[u8]) {
    let mut whole = BodyScan::new(Body::Chunked);
    let taken = whole.take(bytes);
    let mut pieces = BodyScan::new(Body::Chunked);
    let in_pieces = bytes.chunks(3).try_fold(0, |total, piece| pieces.take(piece).map(|taken| total + taken));
    assert_eq!(taken, in_pieces);
    assert!(taken.is_err() || whole.is_done() == pieces.is_done());
}

fn proxies(bytes: &[u8]) {
    match front::http_proxy(bytes) {
        Ask::Connect { port, consumed, .. } => assert!(port != 0 && consumed <= bytes.len()),
        Ask::Forward { port, head, .. } => assert!(port != 0 && head.end <= bytes.len()),
        Ask::NeedMore | Ask::Malformed(_) => {}
    }
    if let Greeting::Five { consumed, .. } = front::socks_greeting(bytes) {
        assert!(consumed <= bytes.len());
    }
    if let SocksAsk::Connect { name, port, consumed } = front::socks_request(bytes) {
        assert!(port != 0 && consumed <= bytes.len());
        assert!(is_host(&name) || name.parse::<std::net::IpAddr>().is_ok(), "{name:?}");
    }
}

fn files(bytes: &[u8]) {
    let conf = resolv::parse_resolv_conf(bytes);
    assert!(!conf.servers.is_empty() && conf.attempts > 0 && !conf.timeout.is_zero());
    let _ = resolv::parse_hosts(bytes).lookup("localhost");
}

/// A name in the one spelling that readers give out.
fn is_host(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'_');
    let is_label = |label: &str| (1..=63).contains(&label.len()) && label.bytes().all(is_plain);
    name.len() <= 253 && name.split('.').all(is_label)
}
