//! The name in a TLS client's first message, which has to be the name that its connection stands for.
//!
//! Nothing is decrypted. The message is put together from however many records it was cut into, and read strictly: a message
//! that two servers could read differently is refused, because the one behind the relay would not be asked which it is.
//!
//! What any server may take for the beginning of TLS counts as TLS here, and then has to be perfect. A server of Go drops a
//! warning alert before the hello, and takes every record version below 16.0; OpenSSL takes an SSL 2 hello. So a record of
//! another type, or of another version, is malformed and not another protocol. `hello_watch` looks for hellos that come later.

use std::collections::BTreeSet;

use crate::cursor::Cursor;
use crate::spelling;

/// Bytes of records within which the message has to end. Real ones stay below 4 KiB.
pub const MAX_BYTES: usize = 64 * 1024;

/// The longest record without encryption.
const MAX_RECORD: usize = 1 << 14;

pub(crate) const RECORD_HANDSHAKE: u8 = 22;
const RECORD_CHANGE_CIPHER_SPEC: u8 = 20;
const RECORD_ALERT: u8 = 21;
/// All types of records: change of cipher, alert, handshake, application data, heartbeat.
const RECORD_TYPES: std::ops::RangeInclusive<u8> = 20..=24;
/// The highest first byte of a record's version that some server takes (Go refuses a first record from 16.0 on).
pub(crate) const MAX_MAJOR: u8 = 15;
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

    /// Where the records end that were read, from the start of the hello.
    pub(crate) fn end(&self) -> usize {
        self.at
    }

    /// As [`client_hello`]; `bytes` are all that have arrived on the connection.
    pub fn read(&mut self, bytes: &[u8]) -> Hello {
        match first_record(bytes) {
            FirstRecord::NeedMore => Hello::NeedMore,
            FirstRecord::Hello => match self.assemble(bytes) {
                Ok(true) => {
                    read_hello(self.message.get(MESSAGE_HEADER..).unwrap_or_default()).unwrap_or_else(Hello::Malformed)
                }
                Ok(false) => Hello::NeedMore,
                Err(why) => Hello::Malformed(why),
            },
            FirstRecord::Malformed(why) => Hello::Malformed(why),
            FirstRecord::Other => Hello::NotTls,
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

/// What the first bytes of a connection begin.
enum FirstRecord {
    NeedMore,
    /// A record of the handshake.
    Hello,
    /// Something else that a server may drop or take for TLS.
    Malformed(&'static str),
    /// Nothing that any server takes for TLS.
    Other,
}

/// Another protocol may begin with the same byte (a length in binary), so a version that only lenient servers take is TLS only with
/// what would have to follow: the length of the record and the first byte in it.
fn first_record(bytes: &[u8]) -> FirstRecord {
    const VERSION: FirstRecord = FirstRecord::Malformed("a record of an unknown version");
    match bytes {
        [RECORD_HANDSHAKE, 3, ..] => FirstRecord::Hello,
        [kind, 3, ..] if RECORD_TYPES.contains(kind) => FirstRecord::Malformed("a record before the hello"),
        [RECORD_HANDSHAKE, 0..=MAX_MAJOR, _, _, _, MESSAGE_CLIENT_HELLO, ..]
        | [RECORD_ALERT, 0..=MAX_MAJOR, _, 0, 2, 1 | 2, ..]
        | [RECORD_CHANGE_CIPHER_SPEC, 0..=MAX_MAJOR, _, 0, 1, 1, ..] => VERSION,
        // SSL 2: a length with its highest bit set, then the same message in another form. It can lead into TLS.
        [0x80..=0xff, _, MESSAGE_CLIENT_HELLO, 0..=MAX_MAJOR, ..] => FirstRecord::Malformed("an SSL 2 hello"),
        [] | [0x80..=0xff] | [0x80..=0xff, _] | [0x80..=0xff, _, MESSAGE_CLIENT_HELLO] => FirstRecord::NeedMore,
        [kind] if RECORD_TYPES.contains(kind) => FirstRecord::NeedMore,
        [RECORD_HANDSHAKE | RECORD_ALERT | RECORD_CHANGE_CIPHER_SPEC, 0..=MAX_MAJOR, rest @ ..] if rest.len() < 4 => {
            FirstRecord::NeedMore
        }
        _ => FirstRecord::Other,
    }
}

/// Whether a hello begins somewhere in a stream of any bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Beginning {
    /// No server takes it for one.
    No,
    /// More bytes will tell.
    Undecided,
    /// It does. Among random bytes this is returned once in 2^42 places, and for the versions that every client writes once in 2^46.
    Certain,
}

/// Looks at the bytes of a stream from some place on. More lenient than every server: versions may be any that one of them takes,
/// and the message may go on in further records, before which others come. Only what cannot be a hello at all is none.
pub(crate) fn beginning(bytes: &[u8]) -> Beginning {
    let mut cursor = Cursor::new(bytes);
    begins(&mut cursor).unwrap_or(Beginning::Undecided)
}

/// The longest hello that a server takes (OpenSSL: 131,396 bytes), rounded up to what the first byte of its length says.
const MAX_LENGTH_HIGH: u8 = 3;

/// `None` where the bytes end too early to tell.
fn begins(record: &mut Cursor<'_>) -> Option<Beginning> {
    if record.byte()? != RECORD_HANDSHAKE || record.byte()? > MAX_MAJOR {
        return Some(Beginning::No);
    }
    let _minor = record.byte()?;
    let length = usize::from(record.u16()?);
    if length == 0 || length > MAX_RECORD || record.byte()? != MESSAGE_CLIENT_HELLO {
        return Some(Beginning::No);
    }
    if length < MESSAGE_HEADER + 2 {
        record.take(length - 1)?;
        return next_record(record);
    }
    let [high, middle, low] = record.array()?;
    if high > MAX_LENGTH_HIGH {
        return Some(Beginning::No);
    }
    let version = record.array()?;
    if matches!(version, [3, 0..=4]) {
        return Some(Beginning::Certain);
    }
    // Servers that look at the list of versions in the hello take any other one here. Then the lengths in the hello must fit.
    let message = usize::try_from(u32::from_be_bytes([0, high, middle, low])).unwrap_or(usize::MAX);
    if length < MESSAGE_HEADER + message {
        record.take(length - MESSAGE_HEADER - 2)?;
        return next_record(record);
    }
    let Some(after_version) = message.checked_sub(2) else { return Some(Beginning::No) };
    let fits = has_shape(record.take(after_version)?).is_some();
    Some(if fits { Beginning::Certain } else { Beginning::No })
}

/// A hello that is not whole goes on in another record, or after one that some server drops.
fn next_record(record: &mut Cursor<'_>) -> Option<Beginning> {
    let is_record = RECORD_TYPES.contains(&record.byte()?) && record.byte()? <= MAX_MAJOR;
    Some(if is_record { Beginning::Certain } else { Beginning::No })
}

/// Whether a whole hello stands here as any server could read it: out of records of any version, with others between them, and with
/// lengths that add up. Certain once it is whole.
pub(crate) fn lenient_hello(bytes: &[u8]) -> Beginning {
    read_leniently(bytes).unwrap_or(Beginning::Undecided)
}

fn read_leniently(bytes: &[u8]) -> Option<Beginning> {
    let (mut records, mut message) = (Cursor::new(bytes), Vec::new());
    while message.len() < MAX_BYTES {
        let kind = records.byte()?;
        let is_record = RECORD_TYPES.contains(&kind) && records.byte()? <= MAX_MAJOR;
        let _minor = records.byte()?;
        let fragment = records.counted_by_u16()?;
        if !is_record {
            return Some(Beginning::No);
        }
        if kind == RECORD_HANDSHAKE {
            message.extend(fragment);
        }
        let Some([MESSAGE_CLIENT_HELLO, high, middle, low]) = message.first_chunk::<MESSAGE_HEADER>() else {
            if message.len() < MESSAGE_HEADER {
                continue;
            }
            return Some(Beginning::No);
        };
        let length = usize::try_from(u32::from_be_bytes([0, *high, *middle, *low])).unwrap_or(usize::MAX);
        if let Some(hello) = message.get(MESSAGE_HEADER..MESSAGE_HEADER + length) {
            let fits = hello.get(2..).and_then(has_shape).is_some();
            return Some(if fits { Beginning::Certain } else { Beginning::No });
        }
    }
    // Longer than what is read here, and perhaps not longer than what a server reads.
    Some(Beginning::Certain)
}

/// Whether the lengths in a hello, which starts after its version here, add up to its own.
fn has_shape(message: &[u8]) -> Option<()> {
    let mut hello = Cursor::new(message);
    hello.take(32)?;
    hello.counted_by_byte()?;
    hello.counted_by_u16()?;
    hello.counted_by_byte()?;
    if !hello.is_empty() {
        hello.counted_by_u16()?;
    }
    hello.is_empty().then_some(())
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

/// Hellos to try things with.
#[cfg(test)]
pub(crate) mod samples {
    fn counted(bytes: &[u8]) -> Vec<u8> {
        [&u16::try_from(bytes.len()).unwrap().to_be_bytes(), bytes].concat()
    }

    /// A hello that names this host, or none, as a message of the handshake. `more` are extensions.
    pub(crate) fn message(host: Option<&str>, more: &[u8]) -> Vec<u8> {
        let name = host.map(|host| counted(&[&[0][..], &counted(host.as_bytes())].concat()));
        let name = name.map(|list| [&[0, 0][..], &counted(&list)].concat()).unwrap_or_default();
        let start = [&[3, 3][..], &[7; 32], &[0], &[0, 2, 0x13, 0x01], &[1, 0]].concat();
        let body = [start, counted(&[&name, more].concat())].concat();
        [&[1, 0][..], &counted(&body)].concat()
    }

    /// In records of this size.
    pub(crate) fn records(message: &[u8], size: usize) -> Vec<u8> {
        message.chunks(size).flat_map(|part| [&[22, 3, 1][..], &counted(part)].concat()).collect()
    }

    /// In one record.
    pub(crate) fn hello(host: &str) -> Vec<u8> {
        records(&message(Some(host), &[]), 9_999)
    }
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
            b"\x13\x03\x01",
            b"\x19\x03\x03",
            b"\x16\x10",
            b"\x17\x04\x03",
            // The first message to a database, in binary: its length and a number come first.
            b"\x16\x01\0\0\x07\0",
            b"\x15\x01\0\0\x02\0",
            b"\x14\x01\0\0\x01\0",
            b"PRI * HTTP/2.0\r\n",
            b"\x80\x01\x05",
            b"\xff\xfe\xfd",
            b"\x80\x2e\x01\x10",
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
        malformed(&[22, 2, 0, 0, 9, 1], "a record of an unknown version");
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

    /// F2: seven bytes that a server drops, and versions that a server takes, do not make another protocol of TLS.
    #[test]
    fn f2_what_a_server_may_take_for_tls_is_tls() {
        let hello = record(&message(&[sni(b"evil.example")]));
        let before = "a record before the hello";
        for record in [&b"\x15\x03\x01\0\x02\x01\x64"[..], b"\x14\x03\x03\0\x01\x01", b"\x17\x03\x03\0\0", b"\x18\x03"]
        {
            malformed(&[record, &hello].concat(), before);
            malformed(record, before);
            assert_eq!(client_hello(&record[..1]), Hello::NeedMore);
        }
        let version = "a record of an unknown version";
        for major in (0..=MAX_MAJOR).filter(|major| *major != 3) {
            let mut lenient = hello.clone();
            lenient[1] = major;
            malformed(&lenient, version);
            malformed(&[&[21, major, 0, 0, 2, 1, 100][..], &hello].concat(), version);
            malformed(&[&[20, major, 0, 0, 1, 1][..], &hello].concat(), version);
            for length in 0..6 {
                assert_eq!(client_hello(&lenient[..length]), Hello::NeedMore);
            }
        }
    }

    #[test]
    fn f2_a_hello_is_recognised_amid_other_bytes() {
        let message = message(&[usual(), vec![sni(b"github.com")]].concat());
        for size in 1..=message.len() {
            let whole = records(&message, size);
            let said: Vec<Beginning> = (0..=whole.len()).map(|length| beginning(&whole[..length])).collect();
            let first = said.iter().position(|said| *said == Beginning::Certain).expect("it is recognised");
            assert!(said[..first].iter().all(|said| *said == Beginning::Undecided), "{size}");
            assert!(said[first..].iter().all(|said| *said == Beginning::Certain), "{size}");
            // As soon as the version is there, or the next record.
            assert!(first <= 13, "{first} bytes of records of {size}");
        }
        let mut odd = record(&message);
        odd[1] = 15;
        assert_eq!(beginning(&odd), Beginning::Certain);
        // The version in the hello counts for nothing where it has a list of them; then the lengths have to fit.
        odd[9] = 0xff;
        assert_eq!(beginning(&odd), Beginning::Certain);
        assert_eq!(beginning(&odd[..odd.len() - 1]), Beginning::Undecided);
        odd[44] += 1;
        assert_eq!(beginning(&odd), Beginning::No);
        for (other, why) in [
            (&[22, 16][..], "no server takes this version"),
            (&[22, 3, 1, 0, 0], "an empty record"),
            (&[22, 3, 1, 0x40, 1], "a record that is too long"),
            (&[22, 3, 1, 0, 9, 2], "another message"),
            (&[22, 3, 1, 0, 9, 1, 4, 0, 0], "a message that is too long"),
            (&[22, 3, 1, 0, 1, 1, 7], "a record that goes on in nothing"),
            (&[22, 3, 1, 0, 1, 1, 21, 16], "a record that goes on in nothing"),
        ] {
            assert_eq!(beginning(other), Beginning::No, "{why}");
            assert_eq!(beginning(&other[..other.len() - 1]), Beginning::Undecided, "{why}");
        }
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
