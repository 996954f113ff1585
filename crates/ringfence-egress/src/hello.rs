//! The name in a TLS client's first message, which has to be the name that its connection stands for.
//!
//! Nothing is decrypted. The message is put together from however many records it was cut into, and read strictly: a message
//! that two servers could read differently is refused, because the one behind the relay would not be asked which it is.

use std::collections::BTreeSet;

use crate::cursor::Cursor;
use crate::spelling;

/// Bytes of records within which the message has to end. Real ones stay below 4 KiB.
pub const MAX_BYTES: usize = 64 * 1024;

/// The longest record without encryption.
const MAX_RECORD: usize = 1 << 14;

const RECORD_HANDSHAKE: u8 = 22;
const MESSAGE_CLIENT_HELLO: u8 = 1;
/// The kind of a handshake message and its length.
const MESSAGE_HEADER: usize = 4;
const EXTENSION_SERVER_NAME: u16 = 0;
const NAME_TYPE_HOST: u8 = 0;
const EXTENSION_ENCRYPTED_HELLO: u16 = 0xfe0d;
const ENCRYPTED_HELLO_OUTER: u8 = 0;
/// The draft before it hid the name only.
const EXTENSION_ENCRYPTED_NAME: u16 = 0xffce;

/// What the first bytes of a connection are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hello {
    /// A part of a message; more bytes will tell.
    NeedMore,
    /// Another protocol.
    NotTls,
    /// The client names this host, in lower case.
    Name(String),
    /// The client names no host.
    NoName,
    /// The real name is hidden; the one that can be seen says nothing.
    Encrypted,
    /// Nothing that a client in good faith sends.
    Malformed(&'static str),
}

/// Reads the start of what a client sends, which may be any number of bytes.
#[must_use]
pub fn client_hello(bytes: &[u8]) -> Hello {
    HelloReader::new().read(bytes)
}

/// Reads a hello while it arrives. A client that sends it byte by byte does not make it be read as often.
#[derive(Clone, Debug)]
pub struct HelloReader {
    /// Where the first record starts that is not yet whole.
    at: usize,
    /// The handshake so far, out of the records before it.
    message: Vec<u8>,
}

impl HelloReader {
    /// At the start of a connection.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "it says nothing about where it starts")]
    pub fn new() -> Self {
        Self { at: 0, message: Vec::new() }
    }

    /// As [`client_hello`]; `bytes` are all that have arrived on the connection.
    pub fn read(&mut self, bytes: &[u8]) -> Hello {
        match bytes {
            [] => Hello::NeedMore,
            [RECORD_HANDSHAKE, ..] => match self.assemble(bytes) {
                Ok(true) => {
                    read_hello(self.message.get(MESSAGE_HEADER..).unwrap_or_default()).unwrap_or_else(Hello::Malformed)
                }
                Ok(false) => Hello::NeedMore,
                Err(why) => Hello::Malformed(why),
            },
            // SSL 2: a length with its highest bit set, then the same message in another form. It can lead into TLS.
            [0x80..=0xff, _, MESSAGE_CLIENT_HELLO, 0 | 2 | 3, ..] => Hello::Malformed("an SSL 2 hello"),
            [0x80..=0xff] | [0x80..=0xff, _] | [0x80..=0xff, _, MESSAGE_CLIENT_HELLO] => Hello::NeedMore,
            _ => Hello::NotTls,
        }
    }

    /// Takes the whole records that have arrived; true when the message is whole.
    fn assemble(&mut self, bytes: &[u8]) -> Result<bool, &'static str> {
        let within = bytes.get(..MAX_BYTES).unwrap_or(bytes);
        let mut records = Cursor::new(within.get(self.at..).unwrap_or_default());
        while let Some(length) = record_length(&mut records)? {
            let fragment = records.take(length.min(records.left())).unwrap_or_default();
            if let Some(expected) = message_length(&self.message, fragment)? {
                // A client has nothing more to say before the server has answered.
                if self.message.len() + length > expected {
                    return Err("more than one message in the first record");
                }
            }
            if fragment.len() < length {
                break;
            }
            self.message.extend(fragment);
            self.at = within.len() - records.left();
            if message_length(&self.message, &[])? == Some(self.message.len()) {
                return Ok(true);
            }
        }
        if bytes.len() >= MAX_BYTES { Err("a hello that does not end") } else { Ok(false) }
    }
}

/// The length of the next record; `None` until its header is whole.
fn record_length(records: &mut Cursor<'_>) -> Result<Option<usize>, &'static str> {
    let mut header = *records;
    let kind = header.byte();
    if kind.is_some_and(|kind| kind != RECORD_HANDSHAKE) {
        return Err("another record inside the hello");
    }
    let major = header.byte();
    let minor = header.byte();
    if major.is_some_and(|major| major != 3) || minor.is_some_and(|minor| minor > 4) {
        return Err("a record of an unknown version");
    }
    let Some(length) = header.u16().map(usize::from) else { return Ok(None) };
    if length == 0 || length > MAX_RECORD {
        return Err("a record of an impossible length");
    }
    *records = header;
    Ok(Some(length))
}

/// The length of a handshake message with its header, once that is there; the message may go on in `more`.
fn message_length(message: &[u8], more: &[u8]) -> Result<Option<usize>, &'static str> {
    let mut start = message.iter().chain(more).copied();
    if start.clone().next().is_some_and(|kind| kind != MESSAGE_CLIENT_HELLO) {
        return Err("a handshake that does not start with a hello");
    }
    let (Some(_), Some(high), Some(middle), Some(low)) = (start.next(), start.next(), start.next(), start.next())
    else {
        return Ok(None);
    };
    let length = usize::try_from(u32::from_be_bytes([0, high, middle, low])).unwrap_or(usize::MAX);
    if length > MAX_BYTES { Err("a hello that does not end") } else { Ok(Some(length + MESSAGE_HEADER)) }
}

/// The message after its header.
fn read_hello(message: &[u8]) -> Result<Hello, &'static str> {
    const SHORT: &str = "a hello that breaks off";
    let mut hello = Cursor::new(message);
    let [major, _minor] = hello.array().ok_or(SHORT)?;
    let _random = hello.array::<32>().ok_or(SHORT)?;
    let session = hello.counted_by_byte().ok_or(SHORT)?;
    let ciphers = hello.counted_by_u16().ok_or(SHORT)?;
    let compressions = hello.counted_by_byte().ok_or(SHORT)?;
    if major != 3 {
        return Err("a hello of an unknown version");
    }
    if session.len() > 32 || ciphers.is_empty() || ciphers.len() % 2 != 0 || compressions.is_empty() {
        return Err("a hello with a field of an impossible length");
    }
    if hello.is_empty() {
        return Ok(Hello::NoName);
    }
    let mut extensions = Cursor::new(hello.counted_by_u16().ok_or(SHORT)?);
    if !hello.is_empty() {
        return Err("bytes after the hello");
    }
    let (mut seen, mut name, mut is_encrypted) = (BTreeSet::new(), None, false);
    while !extensions.is_empty() {
        let (kind, data) = extensions.u16().zip(extensions.counted_by_u16()).ok_or(SHORT)?;
        if !seen.insert(kind) {
            return Err("an extension that comes twice");
        }
        match kind {
            EXTENSION_SERVER_NAME => name = Some(server_name(data)?),
            EXTENSION_ENCRYPTED_HELLO if data.first() != Some(&ENCRYPTED_HELLO_OUTER) => {
                return Err("an encrypted hello that is not the outer one");
            }
            EXTENSION_ENCRYPTED_HELLO | EXTENSION_ENCRYPTED_NAME => is_encrypted = true,
            _ => {}
        }
    }
    Ok(if is_encrypted { Hello::Encrypted } else { name.map_or(Hello::NoName, Hello::Name) })
}

/// The list of names, which has to be one host name (RFC 6066).
fn server_name(data: &[u8]) -> Result<String, &'static str> {
    const LIST: &str = "a list that is not one server name";
    let mut extension = Cursor::new(data);
    let mut list = Cursor::new(extension.counted_by_u16().ok_or(LIST)?);
    let (kind, name) = list.byte().zip(list.counted_by_u16()).ok_or(LIST)?;
    if !extension.is_empty() || !list.is_empty() || kind != NAME_TYPE_HOST {
        return Err(LIST);
    }
    spelling::dns_name(name)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn counted16(bytes: &[u8]) -> Vec<u8> {
        [&u16::try_from(bytes.len()).unwrap().to_be_bytes(), bytes].concat()
    }

    fn extension(kind: u16, data: &[u8]) -> Vec<u8> {
        [&kind.to_be_bytes()[..], &counted16(data)].concat()
    }

    fn sni(name: &[u8]) -> Vec<u8> {
        extension(0, &counted16(&[&[0][..], &counted16(name)].concat()))
    }

    fn handshake(kind: u8, body: &[u8]) -> Vec<u8> {
        let length = u32::try_from(body.len()).unwrap().to_be_bytes();
        [&[kind], &length[1..], body].concat()
    }

    /// A hello with these extensions, as a handshake message.
    fn message(extensions: &[Vec<u8>]) -> Vec<u8> {
        handshake(1, &[body_start(), counted16(&extensions.concat())].concat())
    }

    fn body_start() -> Vec<u8> {
        [&[3, 3][..], &[7; 32], &[0], &[0, 2, 0x13, 0x01], &[1, 0]].concat()
    }

    fn record(fragment: &[u8]) -> Vec<u8> {
        [&[22, 3, 1][..], &counted16(fragment)].concat()
    }

    fn records(message: &[u8], size: usize) -> Vec<u8> {
        message.chunks(size).flat_map(record).collect()
    }

    /// Other extensions of a real client: groups, versions, one that stands for the unknown, padding.
    fn usual() -> Vec<Vec<u8>> {
        vec![
            extension(0x1a1a, b""),
            extension(10, &[0, 4, 0, 29, 0, 23]),
            extension(43, &[2, 3, 4]),
            extension(21, &[0; 40]),
        ]
    }

    #[track_caller]
    fn check(extensions: &[Vec<u8>], expected: Hello) {
        assert_eq!(client_hello(&record(&message(extensions))), expected);
    }

    #[track_caller]
    fn malformed(bytes: &[u8], why: &'static str) {
        assert_eq!(client_hello(bytes), Hello::Malformed(why), "{}", bytes.escape_ascii());
    }

    fn name(text: &str) -> Hello {
        Hello::Name(text.to_owned())
    }

    #[test]
    fn the_name_is_read() {
        check(&[sni(b"github.com")], name("github.com"));
        check(&[sni(b"GitHub.COM")], name("github.com"));
        check(&[usual(), vec![sni(b"xn--bcher-kva.example")]].concat(), name("xn--bcher-kva.example"));
        check(&[vec![sni(b"a_b.example")], usual()].concat(), name("a_b.example"));
    }

    #[test]
    fn a_client_may_name_nobody() {
        check(&[], Hello::NoName);
        check(&usual(), Hello::NoName);
        let without_extensions = handshake(1, &body_start());
        assert_eq!(client_hello(&record(&without_extensions)), Hello::NoName);
    }

    #[test]
    fn a_hidden_name_is_told() {
        let outer = extension(0xfe0d, &[0, 0, 1, 0, 1, 7, 0, 0, 0, 0]);
        check(&[sni(b"github.com"), outer.clone()], Hello::Encrypted);
        check(&[outer], Hello::Encrypted);
        check(&[sni(b"github.com"), extension(0xffce, b"x")], Hello::Encrypted);
        malformed(&record(&message(&[extension(0xfe0d, &[1])])), "an encrypted hello that is not the outer one");
        malformed(&record(&message(&[extension(0xfe0d, &[])])), "an encrypted hello that is not the outer one");
    }

    #[test]
    fn names_that_could_be_read_two_ways_are_refused() {
        let dot = "a host name with an empty label";
        malformed(&record(&message(&[sni(b"github.com.")])), dot);
        malformed(&record(&message(&[sni(b"")])), "an empty host");
        let address = "an address where a host name belongs";
        for text in [&b"192.0.2.7"[..], b"127.1", b"2130706433", b"0x7f.1", b"0177.0.0.1"] {
            malformed(&record(&message(&[sni(text)])), address);
        }
        let character = "a character that no host name has";
        for text in [&b"::1"[..], b"[::1]", b"github.com:443", b"a b", b"github.com\0.evil.example", b"*.github.com"] {
            malformed(&record(&message(&[sni(text)])), character);
        }
        malformed(&record(&message(&[sni("b\u{fc}cher.example".as_bytes())])), character);
        malformed(&record(&message(&[sni(&b"a.".repeat(200))])), "a host name that is too long");
    }

    #[test]
    fn there_is_exactly_one_name() {
        let twice = "an extension that comes twice";
        malformed(&record(&message(&[sni(b"github.com"), sni(b"evil.example")])), twice);
        malformed(&record(&message(&[sni(b"github.com"), sni(b"github.com")])), twice);
        malformed(&record(&message(&[extension(10, b""), extension(10, b"")])), twice);
        let list = "a list that is not one server name";
        let entry = |kind: u8, name: &[u8]| [&[kind][..], &counted16(name)].concat();
        for data in [
            Vec::new(),
            counted16(&[]),
            counted16(&[entry(0, b"github.com"), entry(0, b"evil.example")].concat()),
            counted16(&[entry(0, b"github.com"), entry(1, b"x")].concat()),
            counted16(&entry(1, b"github.com")),
            [counted16(&entry(0, b"github.com")), vec![0]].concat(),
            counted16(&[entry(0, b"github.com"), vec![0]].concat()),
            vec![0, 9, 0, 0, 1, b'a'],
            vec![0, 4, 0, 0, 9, b'a'],
        ] {
            malformed(&record(&message(&[extension(0, &data)])), list);
        }
    }

    #[test]
    fn any_cut_into_records_gives_the_same_name() {
        let message = message(&[usual(), vec![sni(b"github.com")]].concat());
        for size in 1..=message.len() {
            assert_eq!(client_hello(&records(&message, size)), name("github.com"), "{size} bytes per record");
        }
        // What follows in further records is not looked at.
        let early_data = [record(&message), vec![20, 3, 3, 0, 1, 1], vec![23, 3, 3, 0, 9]].concat();
        assert_eq!(client_hello(&early_data), name("github.com"));
    }

    #[test]
    fn every_beginning_asks_for_more() {
        let message = message(&[usual(), vec![sni(b"github.com")]].concat());
        for size in [1, 3, 50, message.len()] {
            let whole = records(&message, size);
            for length in 0..whole.len() {
                assert_eq!(client_hello(&whole[..length]), Hello::NeedMore, "{length} of {}", whole.len());
            }
        }
    }

    #[test]
    fn other_protocols_are_told_at_once() {
        for bytes in [
            &b"GET / HTTP/1.1\r\n"[..],
            b"SSH-2.0-OpenSSH_9.6\r\n",
            b"\0",
            b"\x15\x03\x01\0\x02",
            b"\x17\x03\x03",
            b"PRI * HTTP/2.0\r\n",
            b"\x80\x01\x05",
            b"\xff\xfe\xfd",
            b"\x80\x2e\x01\x05",
        ] {
            assert_eq!(client_hello(bytes), Hello::NotTls, "{}", bytes.escape_ascii());
        }
    }

    #[test]
    fn an_ssl_2_hello_is_refused() {
        malformed(b"\x80\x2e\x01\x03\x01\0\x15\0\0\0\x10", "an SSL 2 hello");
        malformed(b"\x80\x2e\x01\0\x02", "an SSL 2 hello");
        malformed(b"\xff\xff\x01\x03", "an SSL 2 hello");
        for length in 0..4 {
            assert_eq!(client_hello(&b"\x80\x2e\x01\x03"[..length]), Hello::NeedMore);
        }
    }

    #[test]
    fn broken_records_are_refused() {
        malformed(&[22, 2], "a record of an unknown version");
        malformed(&[22, 3, 9], "a record of an unknown version");
        malformed(&[22, 3, 1, 0, 0], "a record of an impossible length");
        malformed(&[22, 3, 1, 0x40, 1], "a record of an impossible length");
        let message = message(&[sni(b"github.com")]);
        let cut = |between: &[u8]| [&record(&message[..9])[..], between, &record(&message[9..])].concat();
        malformed(&cut(&[21, 3, 1, 0, 2, 1, 0]), "another record inside the hello");
        malformed(&cut(&[20]), "another record inside the hello");
        malformed(&cut(&[22, 3, 1, 0, 0]), "a record of an impossible length");
        malformed(&record(&handshake(2, &[])), "a handshake that does not start with a hello");
        malformed(&[22, 3, 1, 0, 9, 0], "a handshake that does not start with a hello");
        let two = "more than one message in the first record";
        malformed(&record(&[&message[..], &message].concat()), two);
        malformed(&record(&[&message[..], &[0]].concat()), two);
        malformed(&record(&[&message[..], &[0]].concat())[..20], two);
    }

    #[test]
    fn broken_hellos_are_refused() {
        let hello = |body: &[u8]| record(&handshake(1, body));
        let whole = [body_start(), counted16(&sni(b"github.com"))].concat();
        for length in (0..whole.len()).filter(|length| *length != body_start().len()) {
            malformed(&hello(&whole[..length]), "a hello that breaks off");
        }
        malformed(&hello(&[&whole[..], &[0]].concat()), "bytes after the hello");
        malformed(&hello(&[&body_start()[..], &[0, 3, 0, 0, 0]].concat()), "a hello that breaks off");
        let field = "a hello with a field of an impossible length";
        let start = |session: usize, ciphers: usize, compressions: u8| {
            let session = [&[u8::try_from(session).unwrap()][..], &vec![0; session]].concat();
            let compressions = [vec![compressions], vec![0; compressions.into()]].concat();
            [vec![3, 3], vec![7; 32], session, counted16(&vec![0; ciphers]), compressions].concat()
        };
        malformed(&hello(&start(33, 2, 1)), field);
        malformed(&hello(&start(32, 0, 1)), field);
        malformed(&hello(&start(32, 3, 1)), field);
        malformed(&hello(&start(32, 2, 0)), field);
        assert_eq!(client_hello(&hello(&start(32, 2, 1))), Hello::NoName);
        let mut newer = whole;
        newer[0] = 4;
        malformed(&hello(&newer), "a hello of an unknown version");
    }

    #[test]
    fn a_hello_ends_within_its_bound() {
        let endless = "a hello that does not end";
        malformed(&[22, 3, 1, 0x40, 0, 1, 1, 0, 1], endless);
        malformed(&[22, 3, 1, 0x40, 0, 1, 0xff, 0xff, 0xff], endless);
        // In records of one byte each, a short message is a long way.
        let long = records(&message(&[extension(21, &[0; 20_000]), sni(b"github.com")]), 1);
        assert!(long.len() > MAX_BYTES);
        malformed(&long, endless);
        malformed(&long[..MAX_BYTES], endless);
        assert_eq!(client_hello(&long[..MAX_BYTES - 1]), Hello::NeedMore);
        let large = records(&message(&[extension(21, &[0; 60_000]), sni(b"github.com")]), MAX_RECORD);
        assert_eq!(client_hello(&large), name("github.com"));
    }

    /// Small lengths and starts of records among other bytes.
    fn often_small(byte: u8) -> u8 {
        match byte {
            0..=99 => byte % 4,
            100..=119 => 22,
            _ => byte,
        }
    }

    #[test]
    fn a_hello_that_trickles_is_read_once() {
        for size in [1, 2, 7, 100] {
            let whole = records(&message(&[usual(), vec![sni(b"github.com")]].concat()), size);
            let mut reader = HelloReader::new();
            for length in 0..whole.len() {
                assert_eq!(reader.read(&whole[..length]), Hello::NeedMore);
            }
            assert_eq!(reader.read(&whole), name("github.com"));
        }
        let endless = records(&message(&[extension(21, &[0; 20_000])]), 1);
        let mut reader = HelloReader::new();
        let said =
            (1..).map(|length| (length, reader.read(&endless[..length]))).find(|(_, said)| *said != Hello::NeedMore);
        assert_eq!(said, Some((MAX_BYTES, Hello::Malformed("a hello that does not end"))));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(1000) })]

        #[test]
        fn any_bytes_are_read(
            bytes in prop::collection::vec(any::<u8>().prop_map(often_small), 0..200), at in 0usize..300,
        ) {
            let _ = client_hello(&bytes);
            let _ = client_hello(&[&[22, 3, 1][..], &bytes].concat());
            let _ = client_hello(&record(&[&[1][..], &bytes].concat()));
            let _ = client_hello(&record(&handshake(1, &[body_start(), counted16(&bytes)].concat())));
            // A good hello with a few bytes changed.
            let mut changed = record(&message(&[usual(), vec![sni(b"github.com")]].concat()));
            for (place, byte) in changed.iter_mut().skip(at).zip(&bytes).take(3) {
                *place = *byte;
            }
            let _ = client_hello(&changed);
        }

        /// However the hello is cut, each beginning asks for more or says at once what the whole says.
        #[test]
        fn names_read_back(
            host in "([a-z0-9_-]{1,9}\\.){0,3}[a-z]{2,3}", cuts in prop::collection::vec(1usize..90, 1..9),
            before in 0usize..5, seen in 0usize..2000,
        ) {
            let mut extensions = usual();
            extensions.insert(before.min(extensions.len()), sni(host.to_uppercase().as_bytes()));
            let message = message(&extensions);
            let (mut rest, mut whole) = (&message[..], Vec::new());
            for cut in cuts.iter().cycle() {
                let (fragment, after) = rest.split_at((*cut).min(rest.len()));
                whole.extend(record(fragment));
                rest = after;
                if rest.is_empty() {
                    break;
                }
            }
            prop_assert_eq!(client_hello(&whole), Hello::Name(host.clone()));
            let beginning = &whole[..seen.min(whole.len() - 1)];
            prop_assert_eq!(client_hello(beginning), Hello::NeedMore);
            let mut reader = HelloReader::new();
            prop_assert_eq!(reader.read(beginning), Hello::NeedMore);
            prop_assert_eq!(reader.read(&whole), Hello::Name(host));
        }
    }
}
