//! What the relay asks the host's resolvers, and their answers.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::{
    CLASS_IN, FLAG_RECURSION_DESIRED, FLAG_RESPONSE, FLAG_TRUNCATED, HEADER, Header, Kind, MASK_CODE, MASK_OPCODE,
    MAX_WIRE_NAME, POINTER, TYPE_CNAME,
};
use crate::cursor::Cursor;
use crate::spelling;

/// Records of an answer that are looked at; the longest real ones have a few dozen.
const MAX_RECORDS: u16 = 256;

/// Names that an answer may lead through.
const MAX_ALIASES: usize = 16;

/// Pointers within one name. Each leads further back, so they end by themselves; this only keeps the work small.
const MAX_POINTERS: usize = 32;

/// The addresses that a resolver gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// Those of the asked family; none unless the code is [`Code::Ok`].
    pub addresses: Vec<IpAddr>,
    /// The shortest time to live on the way to them; 0 without addresses.
    pub ttl: u32,
    /// How the resolver answered.
    pub code: Code,
    /// The answer did not fit and has to be asked for by TCP.
    pub is_truncated: bool,
}

/// How a resolver answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// The name exists.
    Ok,
    /// There is no such name.
    NoSuchName,
    /// The resolver could not find out.
    Failed,
    /// The resolver does not want to.
    Refused,
    /// Anything else, by its number.
    Other(u8),
}

/// Why a message is not the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadReply {
    /// It belongs to no question of ours. Whoever waits for an answer goes on waiting: this may be a forgery.
    #[error("the message is not an answer to this question: {0}")]
    NotOurs(&'static str),
    /// It is our resolver's, and cannot be read.
    #[error("the resolver's answer cannot be read: {0}")]
    Malformed(&'static str),
}

/// A question for a resolver; `None` if the name is not a host name in its canonical spelling.
#[must_use]
pub fn query(id: u16, name: &str, kind: Kind) -> Option<Vec<u8>> {
    let name = wire_name(name)?;
    let mut packet = Vec::with_capacity(HEADER + name.len() + 4);
    let header = Header { id, flags: FLAG_RECURSION_DESIRED, questions: 1, answers: 0, authorities: 0, additional: 0 };
    header.write(&mut packet);
    packet.extend(name);
    packet.extend(kind.code().to_be_bytes());
    packet.extend(CLASS_IN.to_be_bytes());
    Some(packet)
}

/// Reads the answer to [`query`] with the same arguments. Aliases are followed within the answer, from the asked name only;
/// what else stands there is not believed.
///
/// # Errors
/// When it is not the answer, or cannot be read.
pub fn parse_reply(packet: &[u8], id: u16, name: &str, kind: Kind) -> Result<Reply, BadReply> {
    use BadReply::{Malformed, NotOurs};
    let asked = wire_name(name).ok_or(NotOurs("the name cannot be asked for"))?;
    let (header, _) = Header::read(packet).ok_or(NotOurs("it is shorter than its header"))?;
    if header.id != id {
        return Err(NotOurs("it has another number"));
    }
    if header.flags & FLAG_RESPONSE == 0 || header.flags & MASK_OPCODE != 0 {
        return Err(NotOurs("it is not an answer to a query"));
    }
    let mut reader = Reader { packet, at: HEADER };
    if header.questions != 1 || !reader.is_question(&asked, kind) {
        return Err(NotOurs("it says back another question"));
    }
    let code = Code::from_flags(header.flags);
    let is_truncated = header.flags & FLAG_TRUNCATED != 0;
    let nothing = Reply { addresses: Vec::new(), ttl: 0, code, is_truncated };
    // A truncated answer may break off anywhere, and would only be half of the addresses.
    if is_truncated || code != Code::Ok {
        return Ok(nothing);
    }
    if header.answers > MAX_RECORDS {
        return Err(Malformed("too many records"));
    }
    let mut records = Vec::new();
    for _ in 0..header.answers {
        records.extend(reader.record().map_err(Malformed)?);
    }
    let (addresses, ttl) = follow(&records, asked, kind).map_err(Malformed)?;
    Ok(Reply { addresses, ttl, ..nothing })
}

impl Code {
    fn from_flags(flags: u16) -> Self {
        match (flags & MASK_CODE).to_be_bytes()[1] {
            0 => Self::Ok,
            2 => Self::Failed,
            3 => Self::NoSuchName,
            5 => Self::Refused,
            other => Self::Other(other),
        }
    }
}

/// A name in lower case with the lengths of its labels before them: there is no text in which two names look alike.
type WireName = Vec<u8>;

fn wire_name(name: &str) -> Option<WireName> {
    let canonical = spelling::dns_name(name.as_bytes()).ok().filter(|canonical| canonical == name)?;
    let mut wire = Vec::with_capacity(canonical.len() + 2);
    for label in canonical.split('.') {
        wire.push(u8::try_from(label.len()).ok()?);
        wire.extend(label.bytes());
    }
    wire.push(0);
    Some(wire)
}

/// A record that matters.
struct Record {
    owner: WireName,
    ttl: u32,
    data: Data,
}

enum Data {
    Address(IpAddr),
    Alias(WireName),
}

/// The addresses at the end of the aliases that start at the asked name.
fn follow(records: &[Record], asked: WireName, kind: Kind) -> Result<(Vec<IpAddr>, u32), &'static str> {
    let mut name = asked;
    let mut ttl = u32::MAX;
    for _ in 0..=MAX_ALIASES {
        let mut addresses = Vec::new();
        let mut alias = None;
        for record in records.iter().filter(|record| record.owner == name) {
            match &record.data {
                Data::Address(address) if is_of_kind(*address, kind) => {
                    addresses.push(*address);
                    ttl = ttl.min(record.ttl);
                }
                Data::Address(_) => {}
                Data::Alias(target) => alias = Some((target, record.ttl)),
            }
        }
        if !addresses.is_empty() {
            return Ok((addresses, ttl));
        }
        let Some((target, its_ttl)) = alias else { return Ok((Vec::new(), 0)) };
        ttl = ttl.min(its_ttl);
        name = target.clone();
    }
    Err("a chain of aliases without an end")
}

fn is_of_kind(address: IpAddr, kind: Kind) -> bool {
    match kind {
        Kind::A => address.is_ipv4(),
        Kind::Aaaa => address.is_ipv6(),
        Kind::Https | Kind::Svcb | Kind::Other(_) => false,
    }
}

/// Reads a message from front to back; pointers need the whole of it.
struct Reader<'a> {
    packet: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn is_question(&mut self, asked: &[u8], kind: Kind) -> bool {
        let is_name = self.name().is_ok_and(|name| name == asked);
        let kind_and_class = self.u16().zip(self.u16());
        is_name && kind_and_class == Some((kind.code(), CLASS_IN))
    }

    /// The next record; `None` if it is of no interest.
    fn record(&mut self) -> Result<Option<Record>, &'static str> {
        const SHORT: &str = "a record breaks off";
        let owner = self.name()?;
        let (kind, class) = self.u16().zip(self.u16()).ok_or(SHORT)?;
        let ttl = self.array().map(u32::from_be_bytes).ok_or(SHORT)?;
        // A number with the highest bit set counts as zero (RFC 2181).
        let ttl = if ttl > u32::MAX >> 1 { 0 } else { ttl };
        let length = usize::from(self.u16().ok_or(SHORT)?);
        let end = self.at.checked_add(length).filter(|end| *end <= self.packet.len()).ok_or(SHORT)?;
        const LENGTH: &str = "an address of the wrong length";
        let address = |from: Option<IpAddr>| from.map(Data::Address).ok_or(LENGTH);
        let data = match (class, kind, length) {
            (CLASS_IN, 1, 4) => Some(address(self.array::<4>().map(|bytes| Ipv4Addr::from(bytes).into()))?),
            (CLASS_IN, 28, 16) => Some(address(self.array::<16>().map(|bytes| Ipv6Addr::from(bytes).into()))?),
            (CLASS_IN, 1 | 28, _) => return Err(LENGTH),
            (CLASS_IN, TYPE_CNAME, _) => {
                let target = self.name()?;
                if self.at != end {
                    return Err("an alias of the wrong length");
                }
                Some(Data::Alias(target))
            }
            _ => None,
        };
        self.at = end;
        Ok(data.map(|data| Record { owner, ttl, data }))
    }

    /// A name, whose last labels may stand earlier in the message. Every pointer leads further back than all before it.
    fn name(&mut self) -> Result<WireName, &'static str> {
        const SHORT: &str = "a name breaks off";
        let mut name = Vec::new();
        let mut earliest = self.at;
        let mut resume = None;
        let mut pointers = 0;
        loop {
            let count = self.array::<1>().map(|[count]| count).ok_or(SHORT)?;
            match count {
                0 => {
                    name.push(0);
                    self.at = resume.unwrap_or(self.at);
                    return Ok(name);
                }
                1..=63 => {
                    let label = self.take(count.into()).ok_or(SHORT)?;
                    if name.len() + 1 + label.len() + 1 > MAX_WIRE_NAME {
                        return Err("a name that is too long");
                    }
                    name.push(count);
                    name.extend(label.iter().map(u8::to_ascii_lowercase));
                }
                POINTER.. => {
                    let [low] = self.array::<1>().ok_or(SHORT)?;
                    let target = usize::from(u16::from_be_bytes([count & !POINTER, low]));
                    pointers += 1;
                    if !(HEADER..earliest).contains(&target) || pointers > MAX_POINTERS {
                        return Err("a pointer that does not lead back");
                    }
                    resume.get_or_insert(self.at);
                    (earliest, self.at) = (target, target);
                }
                _ => return Err("a label of an unknown kind"),
            }
        }
    }

    fn take(&mut self, count: usize) -> Option<&[u8]> {
        let mut cursor = Cursor::new(self.packet.get(self.at..)?);
        let taken = cursor.take(count)?;
        self.at += count;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ID: u16 = 0x1234;

    /// An answer to the question for `www.example` of kind A, with these records.
    fn answer(flags: u16, records: &[Vec<u8>]) -> Vec<u8> {
        let mut packet = query(ID, "www.example", Kind::A).unwrap();
        packet[2..4].copy_from_slice(&(FLAG_RESPONSE | flags).to_be_bytes());
        packet[6..8].copy_from_slice(&u16::try_from(records.len()).unwrap().to_be_bytes());
        [packet, records.concat()].concat()
    }

    /// The first byte after header and question, where the first record stands.
    const FIRST: usize = HEADER + 13 + 4;

    fn record(owner: &[u8], kind: u16, ttl: u32, data: &[u8]) -> Vec<u8> {
        let length = u16::try_from(data.len()).unwrap();
        [owner, &kind.to_be_bytes(), &[0, 1], &ttl.to_be_bytes(), &length.to_be_bytes(), data].concat()
    }

    fn wire(name: &str) -> Vec<u8> {
        wire_name(name).unwrap()
    }

    const ASKED: &[u8] = &[0xc0, 12];

    fn read(packet: &[u8]) -> Result<Reply, BadReply> {
        parse_reply(packet, ID, "www.example", Kind::A)
    }

    #[track_caller]
    fn gives(records: &[Vec<u8>], addresses: &[[u8; 4]], ttl: u32) {
        let addresses = addresses.iter().map(|bytes| IpAddr::from(*bytes)).collect();
        let expected = Reply { addresses, ttl, code: Code::Ok, is_truncated: false };
        assert_eq!(read(&answer(0, records)), Ok(expected));
    }

    #[track_caller]
    fn malformed(records: &[Vec<u8>], why: &'static str) {
        assert_eq!(read(&answer(0, records)), Err(BadReply::Malformed(why)));
    }

    #[test]
    fn a_question_byte_for_byte() {
        let expected = [&[0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0][..], b"\x03www\x07example\0\0\x1c\0\x01"].concat();
        assert_eq!(query(ID, "www.example", Kind::Aaaa), Some(expected));
        for name in ["", ".", "www.example.", "WWW.example", "192.0.2.7", "a..b", "a b", "::1", &"a.".repeat(128)] {
            assert_eq!(query(ID, name, Kind::A), None, "{name:?}");
            assert!(parse_reply(&answer(0, &[]), ID, name, Kind::A).is_err(), "{name:?}");
        }
    }

    #[test]
    fn addresses_of_the_asked_name_and_family() {
        gives(&[record(ASKED, 1, 60, &[192, 0, 2, 1])], &[[192, 0, 2, 1]], 60);
        gives(
            &[
                record(ASKED, 1, 60, &[192, 0, 2, 1]),
                record(&wire("www.example"), 1, 30, &[192, 0, 2, 2]),
                record(b"\x03WWW\x07eXaMpLe\0", 1, 90, &[192, 0, 2, 3]),
                record(ASKED, 28, 1, &[0; 16]),
                record(ASKED, 46, 1, b"signature"),
            ],
            &[[192, 0, 2, 1], [192, 0, 2, 2], [192, 0, 2, 3]],
            30,
        );
        gives(&[], &[], 0);
        gives(&[record(ASKED, 28, 1, &[0; 16])], &[], 0);
        gives(&[record(ASKED, 1, u32::MAX, &[192, 0, 2, 1])], &[[192, 0, 2, 1]], 0);
    }

    #[test]
    fn another_names_addresses_are_not_believed() {
        gives(&[record(&wire("evil.example"), 1, 60, &[192, 0, 2, 1])], &[], 0);
        gives(
            &[
                record(&wire("evil.example"), 5, 60, &wire("www.example")),
                record(&wire("evil.example"), 1, 60, &[1; 4]),
            ],
            &[],
            0,
        );
        let mut chaos = record(ASKED, 1, 60, &[1; 4]);
        chaos[5] = 3;
        gives(&[chaos], &[], 0);
    }

    #[test]
    fn aliases_are_followed_from_the_asked_name() {
        let chain = [
            record(&wire("b.example"), 1, 300, &[192, 0, 2, 9]),
            record(ASKED, 5, 20, &wire("a.example")),
            record(&wire("a.example"), 5, 40, b"\x01b\xc0\x10"),
        ];
        gives(&chain, &[[192, 0, 2, 9]], 20);
        gives(&chain[1..], &[], 0);
        let mut long: Vec<Vec<u8>> = vec![record(ASKED, 5, 9, &wire("n0.example"))];
        for number in 0..15 {
            long.push(record(&wire(&format!("n{number}.example")), 5, 9, &wire(&format!("n{}.example", number + 1))));
        }
        long.push(record(&wire("n15.example"), 1, 9, &[192, 0, 2, 9]));
        gives(&long, &[[192, 0, 2, 9]], 9);
        long.insert(16, record(&wire("n15.example"), 5, 9, &wire("n16.example")));
        long[17] = record(&wire("n16.example"), 1, 9, &[192, 0, 2, 9]);
        malformed(&long, "a chain of aliases without an end");
    }

    #[test]
    fn aliases_in_a_circle_end() {
        malformed(&[record(ASKED, 5, 9, ASKED)], "a chain of aliases without an end");
        let circle = [record(ASKED, 5, 9, &wire("a.example")), record(&wire("a.example"), 5, 9, ASKED)];
        malformed(&circle, "a chain of aliases without an end");
    }

    #[test]
    fn pointers_lead_back_only() {
        let why = "a pointer that does not lead back";
        let first = u8::try_from(FIRST).unwrap();
        malformed(&[record(&[0xc0, first], 1, 9, &[1; 4])], why);
        malformed(&[record(&[0xc0, first + 2], 1, 9, &[1; 4])], why);
        malformed(&[record(&[0xff, 0xff], 1, 9, &[1; 4])], why);
        malformed(&[record(&[0xc0, 0], 1, 9, &[1; 4])], why);
        malformed(&[record(&[0xc0, 11], 1, 9, &[1; 4])], why);
        // A label before the pointer does not make a circle legal.
        malformed(&[record(&[1, b'a', 0xc0, first], 1, 9, &[1; 4])], why);
        malformed(&[record(b"\x40abc", 1, 9, &[1; 4])], "a label of an unknown kind");
        malformed(&[record(b"\x80abc", 1, 9, &[1; 4])], "a label of an unknown kind");
        malformed(&[b"\x3fabc".to_vec()], "a name breaks off");
        malformed(&[b"\xc0".to_vec()], "a name breaks off");
        // It leads back from where it stands, and not from where its name began.
        let nested = record(ASKED, 16, 9, &[3, 1, b'a', 0, 0xc0, first + 13]);
        malformed(&[nested, record(&[0xc0, first + 12], 1, 9, &[1; 4])], why);
    }

    #[test]
    fn names_have_255_bytes_at_most() {
        let name = |last: u8| {
            let label = |length: u8| [vec![length], vec![b'a'; length.into()]].concat();
            [label(63), label(63), label(63), label(last), vec![0]].concat()
        };
        gives(&[record(&name(61), 1, 9, &[1; 4])], &[], 0);
        malformed(&[record(&name(62), 1, 9, &[1; 4])], "a name that is too long");
    }

    #[test]
    fn a_staircase_of_pointers_is_cut() {
        // The data of a record that does not matter is a row of pointers, each to the one before.
        let mut steps = vec![0];
        let data = FIRST + 2 + 10;
        let mut last = data;
        for _ in 0..40 {
            let at = data + steps.len();
            steps.extend((0xc000 | u16::try_from(last).unwrap()).to_be_bytes());
            last = at;
        }
        let owner = (0xc000 | u16::try_from(last).unwrap()).to_be_bytes();
        let records = [record(ASKED, 16, 9, &steps), record(&owner, 1, 9, &[1; 4])];
        malformed(&records, "a pointer that does not lead back");
        let owner = (0xc000 | u16::try_from(data + 1 + 2 * 10).unwrap()).to_be_bytes();
        gives(&[record(ASKED, 16, 9, &steps), record(&owner, 1, 9, &[1; 4])], &[], 0);
    }

    #[test]
    fn records_of_the_wrong_length_are_refused() {
        malformed(&[record(ASKED, 1, 9, &[1; 3])], "an address of the wrong length");
        malformed(&[record(ASKED, 1, 9, &[1; 16])], "an address of the wrong length");
        malformed(&[record(ASKED, 28, 9, &[1; 4])], "an address of the wrong length");
        malformed(&[record(ASKED, 5, 9, &[wire("a.example"), vec![0]].concat())], "an alias of the wrong length");
        malformed(&[record(ASKED, 5, 9, &[])], "a name breaks off");
        let whole = record(ASKED, 1, 9, &[1; 4]);
        for length in 2..whole.len() {
            malformed(&[whole[..length].to_vec()], "a record breaks off");
        }
        let mut many = answer(0, &[]);
        many[6..8].copy_from_slice(&257u16.to_be_bytes());
        assert_eq!(read(&many), Err(BadReply::Malformed("too many records")));
    }

    #[test]
    fn a_forgery_is_told_from_an_answer() {
        let good = answer(0, &[record(ASKED, 1, 60, &[192, 0, 2, 1])]);
        let not_ours = |packet: &[u8], why| assert_eq!(read(packet), Err(BadReply::NotOurs(why)));
        assert!(read(&good).is_ok());
        not_ours(&good[..11], "it is shorter than its header");
        let changed = |at: usize, to: u8| {
            let mut packet = good.clone();
            packet[at] = to;
            packet
        };
        not_ours(&changed(0, 0), "it has another number");
        not_ours(&changed(2, 1), "it is not an answer to a query");
        not_ours(&changed(2, 0x90), "it is not an answer to a query");
        let other = "it says back another question";
        not_ours(&changed(5, 0), other);
        not_ours(&changed(5, 2), other);
        not_ours(&changed(13, b'x'), other);
        not_ours(&changed(26, 28), other);
        not_ours(&changed(28, 3), other);
        not_ours(&good[..HEADER], other);
        assert!(read(&changed(13, b'W')).is_ok(), "case does not matter");
        assert_eq!(
            parse_reply(&good, ID, "www.example", Kind::Aaaa),
            Err(BadReply::NotOurs(other)),
            "the answer to another kind"
        );
    }

    #[test]
    fn every_code_is_told() {
        let records = [record(ASKED, 1, 60, &[192, 0, 2, 1])];
        for (flags, code) in [
            (1, Code::Other(1)),
            (2, Code::Failed),
            (3, Code::NoSuchName),
            (4, Code::Other(4)),
            (5, Code::Refused),
            (15, Code::Other(15)),
        ] {
            let expected = Reply { addresses: Vec::new(), ttl: 0, code, is_truncated: false };
            assert_eq!(read(&answer(flags, &records)), Ok(expected), "an answer with an error has no addresses");
        }
        let cut = answer(FLAG_TRUNCATED, &records);
        let expected = Reply { addresses: Vec::new(), ttl: 0, code: Code::Ok, is_truncated: true };
        assert_eq!(read(&cut[..cut.len() - 9]), Ok(expected), "half of an answer is none");
    }

    /// Small lengths, pointers and places to point to among other bytes.
    fn often_small(byte: u8) -> u8 {
        match byte {
            0..=99 => byte % 6,
            100..=119 => 0xc0,
            120..=159 => byte - 110,
            _ => byte,
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(1000) })]

        #[test]
        fn any_bytes_are_read(
            count in 0u16..300,
            bytes in prop::collection::vec(any::<u8>().prop_map(often_small), 0..300),
        ) {
            let _ = read(&bytes);
            let mut packet = answer(0, &[]);
            packet[6..8].copy_from_slice(&count.to_be_bytes());
            packet.extend(bytes);
            if let Ok(reply) = read(&packet) {
                prop_assert!(reply.addresses.iter().all(IpAddr::is_ipv4));
            }
        }

        #[test]
        fn addresses_read_back(
            addresses in prop::collection::vec(any::<Ipv4Addr>(), 1..20), ttl in 0u32..1 << 31,
            aliases in 0usize..10,
        ) {
            let names: Vec<String> = (0..aliases).map(|number| format!("a{number}.example")).collect();
            let mut owner = wire("www.example");
            let mut records = Vec::new();
            for name in &names {
                records.push(record(&owner, 5, ttl, &wire(name)));
                owner = wire(name);
            }
            records.extend(addresses.iter().map(|address| record(&owner, 1, ttl, &address.octets())));
            let expected: Vec<IpAddr> = addresses.into_iter().map(IpAddr::V4).collect();
            let code = Code::Ok;
            prop_assert_eq!(read(&answer(0, &records)), Ok(Reply { addresses: expected, ttl, code, is_truncated: false }));
        }
    }
}
