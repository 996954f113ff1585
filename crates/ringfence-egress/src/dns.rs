//! As much of DNS as the way out needs: questions from inside with our answers, and questions to the host's resolvers with theirs.
//!
//! One question per message, class IN, addresses only. Messages are read from front to back, names without recursion, and
//! whatever is odd is refused; there is no cache and no state.

mod asked;
mod reply;

pub use asked::{BadQuery, Question, parse_query};
pub use reply::{BadReply, Code, Reply, parse_reply, query};

/// What a question asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// IPv4 addresses.
    A,
    /// IPv6 addresses.
    Aaaa,
    /// How to reach a web server (RFC 9460). An answer could name other hosts and keys for hidden names.
    Https,
    /// The same for any service.
    Svcb,
    /// Any other type, by its number.
    Other(u16),
}

impl Kind {
    /// The number on the wire.
    #[must_use]
    pub fn code(self) -> u16 {
        match self {
            Self::A => 1,
            Self::Aaaa => 28,
            Self::Svcb => 64,
            Self::Https => 65,
            Self::Other(code) => code,
        }
    }

    /// The type with this number.
    #[must_use]
    pub fn from_code(code: u16) -> Self {
        match code {
            1 => Self::A,
            28 => Self::Aaaa,
            64 => Self::Svcb,
            65 => Self::Https,
            code => Self::Other(code),
        }
    }
}

/// A message as it is sent on a stream (RFC 1035, 4.2.2); `None` if it is longer than a stream can say.
#[must_use]
pub fn frame(message: &[u8]) -> Option<Vec<u8>> {
    let length = u16::try_from(message.len()).ok()?;
    Some([&length.to_be_bytes(), message].concat())
}

/// Every message starts with this many bytes.
const HEADER: usize = 12;

const CLASS_IN: u16 = 1;
const TYPE_CNAME: u16 = 5;
const TYPE_SOA: u16 = 6;
const TYPE_OPT: u16 = 41;

/// The bits of the header's flags.
const FLAG_RESPONSE: u16 = 1 << 15;
const FLAG_TRUNCATED: u16 = 1 << 9;
const FLAG_RECURSION_DESIRED: u16 = 1 << 8;
const FLAG_RECURSION_AVAILABLE: u16 = 1 << 7;
const FLAG_CHECKING_DISABLED: u16 = 1 << 4;
const MASK_OPCODE: u16 = 0xf << 11;
const MASK_CODE: u16 = 0xf;

/// A label's length has its two highest bits clear; both set make a pointer, and the rest is nothing (RFC 6891).
const POINTER: u8 = 0xc0;

/// The longest name on the wire: its labels with their lengths and the root's zero.
const MAX_WIRE_NAME: usize = 255;

/// Twelve bytes in front of everything.
#[derive(Clone, Copy, Debug)]
struct Header {
    id: u16,
    flags: u16,
    questions: u16,
    answers: u16,
    authorities: u16,
    additional: u16,
}

impl Header {
    /// The header of a message and what follows it; `None` when it is too short.
    fn read(packet: &[u8]) -> Option<(Self, crate::cursor::Cursor<'_>)> {
        let mut cursor = crate::cursor::Cursor::new(packet);
        let header = Self {
            id: cursor.u16()?,
            flags: cursor.u16()?,
            questions: cursor.u16()?,
            answers: cursor.u16()?,
            authorities: cursor.u16()?,
            additional: cursor.u16()?,
        };
        Some((header, cursor))
    }

    fn write(self, to: &mut Vec<u8>) {
        for field in [self.id, self.flags, self.questions, self.answers, self.authorities, self.additional] {
            to.extend(field.to_be_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_message_on_a_stream_has_its_length_before_it() {
        assert_eq!(frame(&[0; 65_536]), None);
        assert_eq!(frame(&[7, 8]), Some(vec![0, 2, 7, 8]));
    }

    proptest! {
        #[test]
        fn every_kind_has_one_number(code in any::<u16>()) {
            prop_assert_eq!(Kind::from_code(code).code(), code);
        }

        /// The answers to a question are read back as what was said, by the reader that reads the host's resolvers.
        #[test]
        fn our_answers_are_good_answers(
            id in any::<u16>(), name in "([a-z0-9_-]{1,9}\\.){0,3}[a-z]{2,3}", ttl in 0u32..86_400,
            v4 in any::<std::net::Ipv4Addr>(), v6 in any::<std::net::Ipv6Addr>(),
        ) {
            for (kind, address) in [(Kind::A, std::net::IpAddr::V4(v4)), (Kind::Aaaa, std::net::IpAddr::V6(v6))] {
                let asked = parse_query(&query(id, &name, kind).unwrap()).unwrap();
                prop_assert_eq!((asked.id, asked.name.as_str(), asked.kind), (id, name.as_str(), kind));
                let read = |packet: &[u8]| parse_reply(packet, id, &name, kind).unwrap();
                let good = read(&asked.answer(&[v4.into(), v6.into()], ttl));
                prop_assert_eq!(good, Reply { addresses: vec![address], ttl, code: Code::Ok, is_truncated: false });
                for (packet, code) in [
                    (asked.answer(&[], ttl), Code::Ok),
                    (asked.empty(), Code::Ok),
                    (asked.no_such_name(), Code::NoSuchName),
                    (asked.failed(), Code::Failed),
                ] {
                    prop_assert_eq!(read(&packet), Reply { addresses: vec![], ttl: 0, code, is_truncated: false });
                }
                prop_assert!(read(&asked.truncated()).is_truncated);
            }
        }
    }
}
