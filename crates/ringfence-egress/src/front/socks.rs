//! SOCKS 5 (RFC 1928) without a password, and SOCKS 4 with names (4a): the command CONNECT, and no other.

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::cursor::Cursor;
use crate::spelling;

const VERSION_4: u8 = 4;
const VERSION_5: u8 = 5;
const METHOD_NONE: u8 = 0;
const NO_METHOD: u8 = 0xff;
const COMMAND_CONNECT: u8 = 1;
const ADDRESS_V4: u8 = 1;
const ADDRESS_NAME: u8 = 3;
const ADDRESS_V6: u8 = 4;

/// The longest user name that SOCKS 4 is let send; it is not looked at.
const MAX_USER: usize = 255;

/// How a client introduces itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Greeting {
    /// More bytes will tell.
    NeedMore,
    /// SOCKS 5. The reply is sent, and the request follows.
    Five {
        /// Chooses to do without a password.
        reply: [u8; 2],
        /// How many bytes the greeting took.
        consumed: usize,
    },
    /// SOCKS 4 has no greeting: the request starts at the first byte.
    Four,
    /// A client that does not do without a password. The reply is sent, and the connection closed.
    Refused {
        /// Says so.
        reply: [u8; 2],
    },
    /// Another protocol.
    Malformed(&'static str),
}

/// What a client asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SocksAsk {
    /// More bytes will tell.
    NeedMore,
    /// A connection.
    Connect {
        /// Lower case, without a trailing dot; an address in its one spelling.
        name: String,
        /// Never 0.
        port: u16,
        /// How many bytes the request took. What follows belongs into the connection.
        consumed: usize,
    },
    /// What is not done. The outcome is sent, and the connection closed.
    Refused(SocksOutcome, &'static str),
    /// Another protocol.
    Malformed(&'static str),
}

/// Which of the two protocols is spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocksDialect {
    /// SOCKS 4 and 4a.
    Four,
    /// SOCKS 5.
    Five,
}

/// How a request ends, with the numbers of SOCKS 5.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocksOutcome {
    /// The connection stands.
    Succeeded = 0,
    /// Something on this side.
    Failed = 1,
    /// The host is not allowed.
    NotAllowed = 2,
    /// No way to its network.
    NetworkUnreachable = 3,
    /// No way to the host, or it has no address.
    HostUnreachable = 4,
    /// Nobody listens there.
    ConnectionRefused = 5,
    /// It took too long.
    TimedOut = 6,
    /// A command other than CONNECT.
    CommandNotSupported = 7,
    /// A kind of address that nobody knows.
    AddressNotSupported = 8,
}

impl SocksOutcome {
    /// The bytes to send. The address of the connection is not told: it is not one that can be reached from inside.
    #[must_use]
    pub fn reply(self, dialect: SocksDialect) -> Vec<u8> {
        match (dialect, self) {
            (SocksDialect::Five, outcome) => vec![VERSION_5, outcome as u8, 0, ADDRESS_V4, 0, 0, 0, 0, 0, 0],
            (SocksDialect::Four, Self::Succeeded) => vec![0, 90, 0, 0, 0, 0, 0, 0],
            (SocksDialect::Four, _) => vec![0, 91, 0, 0, 0, 0, 0, 0],
        }
    }
}

/// Reads the first bytes of a connection.
#[must_use]
pub fn socks_greeting(bytes: &[u8]) -> Greeting {
    let mut greeting = Cursor::new(bytes);
    match greeting.byte() {
        None => Greeting::NeedMore,
        Some(VERSION_4) => Greeting::Four,
        Some(VERSION_5) => match greeting.counted_by_byte() {
            None => Greeting::NeedMore,
            Some(methods) if methods.contains(&METHOD_NONE) => {
                Greeting::Five { reply: [VERSION_5, METHOD_NONE], consumed: bytes.len() - greeting.left() }
            }
            Some(_) => Greeting::Refused { reply: [VERSION_5, NO_METHOD] },
        },
        Some(_) => Greeting::Malformed("neither SOCKS 5 nor SOCKS 4"),
    }
}

/// Reads a request of either dialect: after the greeting, or for SOCKS 4 at the first byte.
#[must_use]
pub fn socks_request(bytes: &[u8]) -> SocksAsk {
    let mut request = Cursor::new(bytes);
    let read = match bytes.first() {
        None => None,
        Some(&VERSION_5) => request_5(&mut request),
        Some(&VERSION_4) => request_4(&mut request),
        Some(_) => Some(Err(SocksAsk::Malformed("neither SOCKS 5 nor SOCKS 4"))),
    };
    match read {
        None => SocksAsk::NeedMore,
        Some(Err(refused)) => refused,
        Some(Ok((_, 0))) => SocksAsk::Malformed("a port that is not a number from 1 to 65535"),
        Some(Ok((name, port))) => SocksAsk::Connect { name, port, consumed: bytes.len() - request.left() },
    }
}

/// A name and a port; the outer `None` when there are too few bytes.
type Read = Option<Result<(String, u16), SocksAsk>>;

const OTHER_COMMAND: SocksAsk = SocksAsk::Refused(SocksOutcome::CommandNotSupported, "a command other than CONNECT");

fn request_5(request: &mut Cursor<'_>) -> Read {
    let [_version, command, reserved] = request.array()?;
    if command != COMMAND_CONNECT {
        return Some(Err(OTHER_COMMAND));
    }
    if reserved != 0 {
        return Some(Err(SocksAsk::Malformed("a reserved byte that is not zero")));
    }
    let name = match request.byte()? {
        ADDRESS_V4 => Ok(Ipv4Addr::from(request.array::<4>()?).to_string()),
        ADDRESS_V6 => Ok(Ipv6Addr::from(request.array::<16>()?).to_string()),
        ADDRESS_NAME => spelling::host(request.counted_by_byte()?),
        _ => {
            let why = "an unknown kind of address";
            return Some(Err(SocksAsk::Refused(SocksOutcome::AddressNotSupported, why)));
        }
    };
    let port = request.u16()?;
    Some(name.map(|name| (name, port)).map_err(SocksAsk::Malformed))
}

fn request_4(request: &mut Cursor<'_>) -> Read {
    let [_version, command] = request.array()?;
    if command != COMMAND_CONNECT {
        return Some(Err(OTHER_COMMAND));
    }
    let port = request.u16()?;
    let address = request.array::<4>()?;
    if let Err(why) = text(request, MAX_USER)? {
        return Some(Err(SocksAsk::Malformed(why)));
    }
    let name = match address {
        // 0.0.0.x says that a name follows.
        [0, 0, 0, last] if last != 0 => match text(request, spelling::MAX_NAME + 1)? {
            Ok(name) => spelling::host(name),
            Err(why) => Err(why),
        },
        address => Ok(Ipv4Addr::from(address).to_string()),
    };
    Some(name.map(|name| (name, port)).map_err(SocksAsk::Malformed))
}

/// Bytes up to a zero, which is taken too; `None` until it is there.
fn text<'a>(request: &mut Cursor<'a>, longest: usize) -> Option<Result<&'a [u8], &'static str>> {
    let mut ahead = *request;
    let mut length = 0;
    while length <= longest {
        if ahead.byte()? == 0 {
            let text = request.take(length)?;
            let _zero = request.byte()?;
            return Some(Ok(text));
        }
        length += 1;
    }
    Some(Err("a text that does not end"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn connect(bytes: &[u8], name: &str, port: u16) {
        let more = [bytes, b"more"].concat();
        let expected = SocksAsk::Connect { name: name.to_owned(), port, consumed: bytes.len() };
        assert_eq!(socks_request(&more), expected, "{}", bytes.escape_ascii());
        for length in 0..bytes.len() {
            assert_eq!(socks_request(&bytes[..length]), SocksAsk::NeedMore, "{length} of {}", bytes.escape_ascii());
        }
    }

    #[track_caller]
    fn malformed(bytes: &[u8], why: &'static str) {
        assert_eq!(socks_request(bytes), SocksAsk::Malformed(why), "{}", bytes.escape_ascii());
    }

    #[test]
    fn greetings() {
        assert_eq!(socks_greeting(b""), Greeting::NeedMore);
        assert_eq!(socks_greeting(b"\x05"), Greeting::NeedMore);
        assert_eq!(socks_greeting(b"\x05\x02\x02"), Greeting::NeedMore);
        assert_eq!(socks_greeting(b"\x05\x01\0"), Greeting::Five { reply: [5, 0], consumed: 3 });
        assert_eq!(socks_greeting(b"\x05\x02\x02\0\x05\x01"), Greeting::Five { reply: [5, 0], consumed: 4 });
        assert_eq!(socks_greeting(b"\x05\x01\x02"), Greeting::Refused { reply: [5, 0xff] });
        assert_eq!(socks_greeting(b"\x05\0"), Greeting::Refused { reply: [5, 0xff] });
        assert_eq!(socks_greeting(b"\x04"), Greeting::Four);
        assert_eq!(socks_greeting(b"GET"), Greeting::Malformed("neither SOCKS 5 nor SOCKS 4"));
    }

    #[test]
    fn requests_of_socks_5() {
        connect(b"\x05\x01\0\x03\x0agithub.com\x01\xbb", "github.com", 443);
        connect(b"\x05\x01\0\x03\x0bGitHub.com.\0\x16", "github.com", 22);
        connect(b"\x05\x01\0\x03\x09192.0.2.7\0\x50", "192.0.2.7", 80);
        connect(b"\x05\x01\0\x01\xc0\0\x02\x07\0\x50", "192.0.2.7", 80);
        let v6 = [&b"\x05\x01\0\x04\x20\x01\x0d\xb8"[..], &[0; 11], &[1, 0, 80]].concat();
        connect(&v6, "2001:db8::1", 80);
    }

    #[test]
    fn requests_of_socks_4() {
        connect(b"\x04\x01\0\x50\xc0\0\x02\x07\0", "192.0.2.7", 80);
        connect(b"\x04\x01\0\x50\xc0\0\x02\x07user\0", "192.0.2.7", 80);
        connect(b"\x04\x01\x01\xbb\0\0\0\x01\0GitHub.com\0", "github.com", 443);
        connect(b"\x04\x01\x01\xbb\0\0\0\x07me\0a.example.\0", "a.example", 443);
        // All zeros is the unspecified address, not the sign of a name; the guard refuses it.
        connect(b"\x04\x01\0\x50\0\0\0\0\0", "0.0.0.0", 80);
    }

    #[test]
    fn what_is_not_done() {
        let command = SocksAsk::Refused(SocksOutcome::CommandNotSupported, "a command other than CONNECT");
        assert_eq!(socks_request(b"\x05\x02\0"), command, "BIND");
        assert_eq!(socks_request(b"\x05\x03\0"), command, "UDP");
        assert_eq!(socks_request(b"\x04\x02"), command);
        let kind = SocksAsk::Refused(SocksOutcome::AddressNotSupported, "an unknown kind of address");
        assert_eq!(socks_request(b"\x05\x01\0\x02"), kind);
        malformed(b"\x06\x01", "neither SOCKS 5 nor SOCKS 4");
        malformed(b"\x05\x01\x01", "a reserved byte that is not zero");
    }

    #[test]
    fn names_that_could_be_read_two_ways_are_refused() {
        let five = |name: &[u8], why| {
            let length = u8::try_from(name.len()).unwrap();
            malformed(&[&[5, 1, 0, 3, length][..], name, &[1, 187]].concat(), why);
        };
        five(b"", "an empty host");
        five(b"a.example..", "a host name with an empty label");
        for name in [&b"a\0b"[..], b"a b", b"u@a.example", b"a.example:80", b"::1", b"[::1]", b"\xff", b"a/b", b"a%2eb"]
        {
            five(name, "a character that no host name has");
        }
        for name in [&b"2130706433"[..], b"0x7f.1", b"0177.0.0.1", b"127.1", b"127.0.0.1."] {
            five(name, "an address in an odd spelling");
        }
        five(&b"a.".repeat(127)[1..], "a host name with an empty label");
        malformed(b"\x05\x01\0\x03\x01a\0\0", "a port that is not a number from 1 to 65535");
        malformed(b"\x04\x01\0\0\xc0\0\x02\x07\0", "a port that is not a number from 1 to 65535");
        malformed(b"\x04\x01\0\x50\0\0\0\x01\x00127.1\0", "an address in an odd spelling");
        malformed(b"\x04\x01\0\x50\0\0\0\x01\0\0", "an empty host");
        let long = [&b"\x04\x01\0\x50\xc0\0\x02\x07"[..], &[b'u'; 256]].concat();
        malformed(&long, "a text that does not end");
        assert_eq!(socks_request(&long[..long.len() - 1]), SocksAsk::NeedMore);
        let long = [&b"\x04\x01\0\x50\0\0\0\x01\0"[..], &[b'a'; 300]].concat();
        malformed(&long, "a text that does not end");
    }

    #[test]
    fn replies_byte_for_byte() {
        use SocksDialect::{Five, Four};
        assert_eq!(SocksOutcome::Succeeded.reply(Five), [5, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
        assert_eq!(SocksOutcome::Succeeded.reply(Four), [0, 90, 0, 0, 0, 0, 0, 0]);
        for (outcome, number) in [
            (SocksOutcome::Failed, 1),
            (SocksOutcome::NotAllowed, 2),
            (SocksOutcome::NetworkUnreachable, 3),
            (SocksOutcome::HostUnreachable, 4),
            (SocksOutcome::ConnectionRefused, 5),
            (SocksOutcome::TimedOut, 6),
            (SocksOutcome::CommandNotSupported, 7),
            (SocksOutcome::AddressNotSupported, 8),
        ] {
            assert_eq!(outcome.reply(Five), [5, number, 0, 1, 0, 0, 0, 0, 0, 0]);
            assert_eq!(outcome.reply(Four), [0, 91, 0, 0, 0, 0, 0, 0]);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2000) })]

        #[test]
        fn any_bytes_are_answered(
            start in prop::sample::select(vec![&b""[..], b"\x05", b"\x05\x01\0", b"\x05\x01\0\x03", b"\x04\x01", b"\x04\x01\0\x50\0\0\0\x01\0"]),
            bytes in prop::collection::vec(any::<u8>(), 0..300),
        ) {
            let bytes = [start, &bytes].concat();
            if let Greeting::Five { consumed, .. } = socks_greeting(&bytes) {
                prop_assert!(consumed <= bytes.len());
            }
            if let SocksAsk::Connect { name, port, consumed } = socks_request(&bytes) {
                prop_assert!(port != 0 && consumed <= bytes.len() && !name.is_empty());
                let again = SocksAsk::Connect { name, port, consumed };
                prop_assert_eq!(socks_request(&bytes[..consumed]), again);
                prop_assert_eq!(socks_request(&bytes[..consumed - 1]), SocksAsk::NeedMore);
            }
        }

        #[test]
        fn names_read_back(name in "([a-z0-9_-]{1,9}\\.){0,3}[a-z]{2,3}", port in 1u16..) {
            let length = u8::try_from(name.len()).unwrap();
            let five = [&[5, 1, 0, 3, length][..], name.as_bytes(), &port.to_be_bytes()].concat();
            let four = [&[4, 1][..], &port.to_be_bytes(), &[0, 0, 0, 9, 0], name.to_uppercase().as_bytes(), &[0]].concat();
            for bytes in [five, four] {
                let consumed = bytes.len();
                prop_assert_eq!(socks_request(&bytes), SocksAsk::Connect { name: name.clone(), port, consumed });
            }
        }
    }
}
