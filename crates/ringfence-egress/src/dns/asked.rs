//! What a program inside asks, and our answers.

use std::net::IpAddr;

use super::{
    CLASS_IN, FLAG_CHECKING_DISABLED, FLAG_RECURSION_AVAILABLE, FLAG_RECURSION_DESIRED, FLAG_RESPONSE, FLAG_TRUNCATED,
    HEADER, Header, Kind, MASK_OPCODE, MAX_WIRE_NAME, TYPE_OPT, TYPE_SOA,
};
use crate::cursor::Cursor;
use crate::spelling::is_name_byte;

/// Seconds for which a client may remember that there is nothing: a grant in a running session shall be seen at once.
const NEGATIVE_TTL: u32 = 1;

/// The largest answer that every client takes by UDP. All of ours fit into it.
const MAX_ANSWER: usize = 512;

/// What we say we can take ourselves: the usual value that is never fragmented.
const OUR_PAYLOAD: u16 = 1232;

/// Bit of the flags of an OPT record: the client would like signatures. It is said back and there are none.
const FLAG_DNSSEC_OK: u32 = 1 << 15;

const CODE_NO_ERROR: u16 = 0;
const CODE_FORMAT: u16 = 1;
const CODE_FAILED: u16 = 2;
const CODE_NO_SUCH_NAME: u16 = 3;
const CODE_NOT_IMPLEMENTED: u16 = 4;

/// The upper bits of BADVERS (16), which stand in the OPT record.
const UPPER_CODE_BAD_VERSION: u32 = 1;

/// The root: the name of an OPT record, and all the names of our SOA record.
const ROOT: u8 = 0;

/// A pointer to the name of the question.
const ASKED_NAME: u16 = 0xc000 | HEADER as u16;

/// One question that can be answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// What the client calls its question.
    pub id: u16,
    /// Lower case, without a trailing dot; empty for the root. It may be spelled like an address.
    pub name: String,
    /// What is asked for.
    pub kind: Kind,
    /// The client's flags that an answer says back.
    flags: u16,
    /// The question as it came. Clients mix upper and lower case at random and expect the same mix back.
    section: Vec<u8>,
    /// The client knows extensions, and whether it asked for signatures.
    extensions: Option<Extensions>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Extensions {
    dnssec_ok: bool,
}

/// A message that asks nothing we could answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadQuery {
    /// What to send back; `None` for what gets no answer, so that two servers cannot be made to talk to each other.
    pub reply: Option<Vec<u8>>,
    /// What is wrong, for the report.
    pub why: &'static str,
}

/// Reads a question: exactly one, class IN, nothing behind it but perhaps an OPT record.
///
/// # Errors
/// Whatever else was sent, with the reply to it.
pub fn parse_query(packet: &[u8]) -> Result<Question, BadQuery> {
    let silent = |why| BadQuery { reply: None, why };
    let (header, mut cursor) = Header::read(packet).ok_or_else(|| silent("a message shorter than its header"))?;
    if header.flags & FLAG_RESPONSE != 0 {
        return Err(silent("an answer where a question belongs"));
    }
    let refuse = |code, why| BadQuery { reply: Some(bare_reply(&header, code)), why };
    if header.flags & MASK_OPCODE != 0 {
        return Err(refuse(CODE_NOT_IMPLEMENTED, "an operation other than a query"));
    }
    let format = |why| refuse(CODE_FORMAT, why);
    if (header.questions, header.answers, header.authorities) != (1, 0, 0) {
        return Err(format("not exactly one question"));
    }
    let labels = read_labels(&mut cursor).ok_or_else(|| format("a name that cannot be read"))?;
    let (kind, class) = cursor.u16().zip(cursor.u16()).ok_or_else(|| format("a question that breaks off"))?;
    let read = packet.len() - cursor.left();
    let section = packet.get(HEADER..read).unwrap_or_default().to_vec();
    let version = match header.additional {
        0 => None,
        1 => Some(read_opt(&mut cursor).ok_or_else(|| format("a record that a question does not have"))?),
        _ => return Err(format("more than one additional record")),
    };
    if !cursor.is_empty() {
        return Err(format("bytes after the end"));
    }
    if class != CLASS_IN {
        return Err(refuse(CODE_NOT_IMPLEMENTED, "a class other than IN"));
    }
    let question = Question {
        id: header.id,
        name: spelled(&labels).unwrap_or_default(),
        kind: Kind::from_code(kind),
        flags: header.flags & (FLAG_RECURSION_DESIRED | FLAG_CHECKING_DISABLED),
        section,
        extensions: version.map(|(_, extensions)| extensions),
    };
    let answered = |reply, why| BadQuery { reply: Some(reply), why };
    if version.is_some_and(|(version, _)| version != 0) {
        return Err(answered(question.bad_version(), "an unknown version of EDNS"));
    }
    // Legal in DNS, and no host: printers are called such things. It does not exist, which ends the client's search.
    if spelled(&labels).is_none() {
        return Err(answered(question.no_such_name(), "a name with a character that no host name has"));
    }
    Ok(question)
}

impl Question {
    /// The addresses of the asked family, as many as fit; without one it is [`Question::empty`].
    #[must_use]
    pub fn answer(&self, addresses: &[IpAddr], ttl: u32) -> Vec<u8> {
        let of_family = addresses.iter().filter(|address| match self.kind {
            Kind::A => address.is_ipv4(),
            Kind::Aaaa => address.is_ipv6(),
            Kind::Https | Kind::Svcb | Kind::Other(_) => false,
        });
        let records: Vec<Vec<u8>> = of_family.map(|address| self.address_record(*address, ttl)).collect();
        let room = MAX_ANSWER.saturating_sub(HEADER + self.section.len() + OPT_LENGTH);
        let each = records.first().map_or(1, Vec::len);
        let fitting = records.get(..room / each).unwrap_or(&records);
        if fitting.is_empty() { self.empty() } else { self.reply(CODE_NO_ERROR, 0, fitting, false) }
    }

    /// The name exists and has nothing of this kind.
    #[must_use]
    pub fn empty(&self) -> Vec<u8> {
        self.reply(CODE_NO_ERROR, 0, &[], true)
    }

    /// There is no such name.
    #[must_use]
    pub fn no_such_name(&self) -> Vec<u8> {
        self.reply(CODE_NO_SUCH_NAME, 0, &[], true)
    }

    /// The question could not be answered this time.
    #[must_use]
    pub fn failed(&self) -> Vec<u8> {
        self.reply(CODE_FAILED, 0, &[], false)
    }

    /// The answer is to be fetched by TCP.
    #[must_use]
    pub fn truncated(&self) -> Vec<u8> {
        self.reply(CODE_NO_ERROR | FLAG_TRUNCATED, 0, &[], false)
    }

    fn bad_version(&self) -> Vec<u8> {
        self.reply(CODE_NO_ERROR, UPPER_CODE_BAD_VERSION, &[], false)
    }

    fn reply(&self, flags: u16, upper_code: u32, answers: &[Vec<u8>], has_authority: bool) -> Vec<u8> {
        let header = Header {
            id: self.id,
            flags: FLAG_RESPONSE | FLAG_RECURSION_AVAILABLE | self.flags | flags,
            questions: 1,
            answers: u16::try_from(answers.len()).unwrap_or(u16::MAX),
            authorities: u16::from(has_authority),
            additional: u16::from(self.extensions.is_some()),
        };
        let mut packet = Vec::with_capacity(MAX_ANSWER);
        header.write(&mut packet);
        packet.extend(&self.section);
        answers.iter().for_each(|answer| packet.extend(answer));
        if has_authority {
            write_soa(&mut packet);
        }
        if let Some(Extensions { dnssec_ok }) = self.extensions {
            let flags = if dnssec_ok { FLAG_DNSSEC_OK } else { 0 };
            packet.push(ROOT);
            packet.extend(TYPE_OPT.to_be_bytes());
            packet.extend(OUR_PAYLOAD.to_be_bytes());
            packet.extend((upper_code << 24 | flags).to_be_bytes());
            packet.extend(0u16.to_be_bytes());
        }
        packet
    }

    fn address_record(&self, address: IpAddr, ttl: u32) -> Vec<u8> {
        let data = match address {
            IpAddr::V4(address) => address.octets().to_vec(),
            IpAddr::V6(address) => address.octets().to_vec(),
        };
        let mut record = Vec::with_capacity(28);
        record.extend(ASKED_NAME.to_be_bytes());
        record.extend(self.kind.code().to_be_bytes());
        record.extend(CLASS_IN.to_be_bytes());
        // The highest bit is not part of the number (RFC 2181).
        record.extend((ttl & u32::MAX >> 1).to_be_bytes());
        record.extend(u16::try_from(data.len()).unwrap_or(0).to_be_bytes());
        record.extend(data);
        record
    }
}

/// The length of an OPT record without options.
const OPT_LENGTH: usize = 11;

/// The header alone: what was asked could not be read, so it is not said back.
fn bare_reply(header: &Header, code: u16) -> Vec<u8> {
    let said_back = header.flags & (MASK_OPCODE | FLAG_RECURSION_DESIRED);
    let flags = FLAG_RESPONSE | FLAG_RECURSION_AVAILABLE | said_back | code;
    let mut packet = Vec::with_capacity(HEADER);
    Header { id: header.id, flags, questions: 0, answers: 0, authorities: 0, additional: 0 }.write(&mut packet);
    packet
}

/// Says for how long nothing may be remembered (RFC 2308). The root is the one zone that every name is in.
fn write_soa(packet: &mut Vec<u8>) {
    let [primary, mailbox, serial, refresh, retry, expire] = [ROOT, ROOT, 0, 0, 0, 0];
    packet.push(ROOT);
    packet.extend(TYPE_SOA.to_be_bytes());
    packet.extend(CLASS_IN.to_be_bytes());
    packet.extend(NEGATIVE_TTL.to_be_bytes());
    packet.extend(22u16.to_be_bytes());
    packet.extend([primary, mailbox]);
    for number in [serial, refresh, retry, expire] {
        packet.extend(u32::from(number).to_be_bytes());
    }
    packet.extend(NEGATIVE_TTL.to_be_bytes());
}

/// The labels of a name that has no pointers: there is nothing before a question that one could point to.
fn read_labels<'a>(cursor: &mut Cursor<'a>) -> Option<Vec<&'a [u8]>> {
    let mut labels = Vec::new();
    let mut length = 1;
    loop {
        match cursor.byte()? {
            0 => return Some(labels),
            count @ 1..=63 => {
                length += 1 + usize::from(count);
                if length > MAX_WIRE_NAME {
                    return None;
                }
                labels.push(cursor.take(count.into())?);
            }
            _ => return None,
        }
    }
}

/// The name as text, if each of its labels has only letters, digits, hyphens and underscores.
fn spelled(labels: &[&[u8]]) -> Option<String> {
    let is_plain = labels.iter().all(|label| label.iter().all(|byte| is_name_byte(*byte)));
    let bytes = labels.join(&b'.').to_ascii_lowercase();
    if is_plain { String::from_utf8(bytes).ok() } else { None }
}

/// The one record that a question may bring: the version and what the client knows.
fn read_opt(cursor: &mut Cursor<'_>) -> Option<(u8, Extensions)> {
    let (name, kind, _payload) = (cursor.byte()?, cursor.u16()?, cursor.u16()?);
    let [_upper_code, version, flags @ ..] = cursor.array::<4>()?;
    let _options = cursor.counted_by_u16()?;
    let dnssec_ok = u32::from(u16::from_be_bytes(flags)) & FLAG_DNSSEC_OK != 0;
    (name == ROOT && kind == TYPE_OPT).then_some((version, Extensions { dnssec_ok }))
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use proptest::prelude::*;

    use super::*;

    /// A query with this question section and additional records.
    fn packet(id: u16, flags: u16, section: &[u8], more: &[u8]) -> Vec<u8> {
        let header =
            Header { id, flags, questions: 1, answers: 0, authorities: 0, additional: u16::from(!more.is_empty()) };
        let mut packet = Vec::new();
        header.write(&mut packet);
        [&packet[..], section, more].concat()
    }

    fn section(name: &[u8], kind: u16, class: u16) -> Vec<u8> {
        let mut section = Vec::new();
        for label in name.split(|byte| *byte == b'.').filter(|label| !label.is_empty()) {
            section.push(u8::try_from(label.len()).unwrap());
            section.extend(label);
        }
        section.push(0);
        section.extend(kind.to_be_bytes());
        section.extend(class.to_be_bytes());
        section
    }

    /// An OPT record that asks for signatures, with a cookie.
    const OPT: &[u8] = &[0, 0, 41, 4, 208, 0, 0, 0x80, 0, 0, 12, 0, 10, 0, 8, 1, 2, 3, 4, 5, 6, 7, 8];

    fn asked(name: &[u8]) -> Question {
        parse_query(&packet(0x1234, 0x0100, &section(name, 1, 1), b"")).unwrap()
    }

    #[track_caller]
    fn refused(packet: &[u8], why: &str, code: Option<u16>) {
        let bad = parse_query(packet).unwrap_err();
        assert_eq!(bad.why, why);
        let said = bad.reply.map(|reply| {
            let (header, _) = Header::read(&reply).unwrap();
            assert_eq!(header.id.to_be_bytes(), packet[..2]);
            assert_ne!(header.flags & FLAG_RESPONSE, 0, "a reply that is a question goes round for ever");
            header.flags & 0xf
        });
        assert_eq!(said, code);
    }

    #[test]
    fn a_question_is_read() {
        let question = asked(b"GitHub.COM");
        assert_eq!((question.id, question.name.as_str(), question.kind), (0x1234, "github.com", Kind::A));
        for (code, kind) in [(28, Kind::Aaaa), (65, Kind::Https), (64, Kind::Svcb), (16, Kind::Other(16))] {
            let packet = packet(1, 0, &section(b"_dns.example", code, 1), b"");
            assert_eq!(parse_query(&packet).unwrap().kind, kind);
        }
        assert_eq!(asked(b"").name, "", "the root");
        assert_eq!(asked(&b"a.".repeat(127)).name.len(), 253);
    }

    #[test]
    fn flags_and_times_are_as_the_rules_have_them() {
        let question = parse_query(&packet(7, 0x0130, &section(b"a.example", 1, 1), b"")).unwrap();
        assert_eq!(question.failed()[2..4], [0x81, 0x92], "RD and CD come back, AD does not");
        let answer = question.answer(&[Ipv4Addr::LOCALHOST.into()], u32::MAX);
        assert!(answer.ends_with(&[0x7f, 0xff, 0xff, 0xff, 0, 4, 127, 0, 0, 1]));
    }

    #[test]
    fn the_mix_of_cases_comes_back_byte_for_byte() {
        let section = section(b"gItHuB.CoM", 1, 1);
        let question = parse_query(&packet(7, 0x0100, &section, b"")).unwrap();
        for reply in [
            question.answer(&[Ipv4Addr::new(198, 18, 1, 1).into()], 5),
            question.empty(),
            question.no_such_name(),
            question.failed(),
            question.truncated(),
        ] {
            assert_eq!(&reply[..2], &[0, 7]);
            assert_eq!(&reply[HEADER..HEADER + section.len()], &section[..]);
        }
    }

    #[test]
    fn an_answer_byte_for_byte() {
        let expected = [
            // id, QR RD RA, one question, one answer
            &[0x12, 0x34, 0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0][..],
            b"\x01a\x07example\0\0\x01\0\x01",
            // the asked name, A, IN, 60 seconds, 4 bytes
            &[0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 198, 18, 1, 1],
        ]
        .concat();
        let addresses = [Ipv6Addr::LOCALHOST.into(), Ipv4Addr::new(198, 18, 1, 1).into()];
        assert_eq!(asked(b"a.example").answer(&addresses, 60), expected);
    }

    #[test]
    fn nothing_is_remembered_for_a_second_only() {
        let soa = [&[0, 0, 6, 0, 1, 0, 0, 0, 1, 0, 22, 0, 0][..], &[0; 16], &[0, 0, 0, 1]].concat();
        for (reply, flags) in [
            (asked(b"a.example").no_such_name(), [0x81, 0x83]),
            (asked(b"a.example").empty(), [0x81, 0x80]),
            (asked(b"a.example").answer(&[Ipv6Addr::LOCALHOST.into()], 60), [0x81, 0x80]),
        ] {
            assert_eq!(reply[2..12], [flags[0], flags[1], 0, 1, 0, 0, 0, 1, 0, 0]);
            assert!(reply.ends_with(&soa));
        }
        assert_eq!(asked(b"a.example").failed()[2..12], [0x81, 0x82, 0, 1, 0, 0, 0, 0, 0, 0]);
        assert_eq!(asked(b"a.example").truncated()[2..12], [0x83, 0x80, 0, 1, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn extensions_are_answered_where_they_are_asked() {
        let question = parse_query(&packet(7, 0, &section(b"a.example", 1, 1), OPT)).unwrap();
        let ours = [0, 0, 41, 4, 208, 0, 0, 0x80, 0, 0, 0];
        assert_eq!(ours.len(), OPT_LENGTH);
        for reply in [question.empty(), question.failed(), question.answer(&[Ipv4Addr::LOCALHOST.into()], 1)] {
            assert!(reply.ends_with(&ours));
            assert_eq!(reply[10..12], [0, 1]);
        }
        assert_eq!(asked(b"a.example").failed()[10..12], [0, 0]);
    }

    #[test]
    fn every_answer_fits_into_the_smallest_message() {
        let many: Vec<IpAddr> = (0..200u8).map(|last| Ipv6Addr::new(1, 2, 3, 4, 5, 6, 7, last.into()).into()).collect();
        let longest = section(&b"a.".repeat(127), 28, 1);
        for (section, records) in [(longest, 8), (section(b"a.example", 28, 1), 16)] {
            let question = parse_query(&packet(7, 0, &section, OPT)).unwrap();
            let answer = question.answer(&many, 1);
            assert!(answer.len() <= MAX_ANSWER, "{}", answer.len());
            assert_eq!(answer[6..8], [0, records]);
            assert!(question.no_such_name().len() <= MAX_ANSWER);
        }
    }

    #[test]
    fn what_is_no_question_is_refused() {
        let good = packet(7, 0x0100, &section(b"a.example", 1, 1), b"");
        refused(b"", "a message shorter than its header", None);
        refused(&good[..11], "a message shorter than its header", None);
        let answer = asked(b"a.example").empty();
        refused(&answer, "an answer where a question belongs", None);
        let status = packet(7, 2 << 11, &section(b"a.example", 1, 1), b"");
        refused(&status, "an operation other than a query", Some(4));
        for (at, count) in [(5, 0), (5, 2), (4, 1), (7, 1), (9, 1)] {
            let mut packet = good.clone();
            packet[at] = count;
            refused(&packet, "not exactly one question", Some(1));
        }
        let chaos = packet(7, 0, &section(b"version.bind", 16, 3), b"");
        refused(&chaos, "a class other than IN", Some(4));
        let trailing = [&good[..], b"x"].concat();
        refused(&trailing, "bytes after the end", Some(1));
        let unicode = packet(7, 0, &section(b"My Printer._ipp.local", 33, 1), b"");
        refused(&unicode, "a name with a character that no host name has", Some(3));
        for name in [&b"a\0b.example"[..], b"a/b", b"*.example", b"a@b", b"\xff", b"a b", b"a\\.b", b"b:80"] {
            let packet = packet(7, 0, &section(name, 1, 1), b"");
            refused(&packet, "a name with a character that no host name has", Some(3));
        }
        // A dot inside a label is not a dot between labels.
        let dotted = packet(7, 0, b"\x0agithub.com\0\0\x01\0\x01", b"");
        refused(&dotted, "a name with a character that no host name has", Some(3));
    }

    #[test]
    fn names_that_cannot_be_read_are_refused() {
        let why = "a name that cannot be read";
        // A pointer to itself, one to the header, one forward, and the two lengths that are nothing.
        for name in [&b"\xc0\x0c"[..], b"\xc0\x00", b"\x01a\xc0\x20", b"\x40a\0", b"\x80a\0", b"\x01a", b"", b"\x05abc"]
        {
            refused(&packet(7, 0, name, b""), why, Some(1));
        }
        refused(&packet(7, 0, &section(&b"a.".repeat(128), 1, 1), b""), why, Some(1));
        let labels = |last| [&[b'a'; 63][..], &[b'b'; 63], &[b'c'; 63], &vec![b'd'; last]].join(&b'.');
        refused(&packet(7, 0, &section(&labels(62), 1, 1), b""), why, Some(1));
        assert_eq!(asked(&labels(61)).name.len(), 253);
        refused(&packet(7, 0, b"\x01a\0\0\x01\0", b""), "a question that breaks off", Some(1));
    }

    #[test]
    fn other_records_are_refused() {
        let section = section(b"a.example", 1, 1);
        let why = "a record that a question does not have";
        refused(&packet(7, 0, &section, &OPT[..OPT.len() - 1]), why, Some(1));
        refused(&packet(7, 0, &section, &[0, 0, 250, 0, 255, 0, 0, 0, 0, 0, 0]), why, Some(1));
        refused(&packet(7, 0, &section, &[0xc0, 0, 41, 4, 208, 0, 0, 0, 0, 0, 0]), why, Some(1));
        let mut two = packet(7, 0, &section, &[OPT, OPT].concat());
        refused(&two, "bytes after the end", Some(1));
        two[11] = 2;
        refused(&two, "more than one additional record", Some(1));
        let mut newer = OPT.to_vec();
        newer[6] = 1;
        let newer = packet(7, 0, &section, &newer);
        refused(&newer, "an unknown version of EDNS", Some(0));
        let reply = parse_query(&newer).unwrap_err().reply.unwrap();
        assert!(reply.ends_with(&[0, 0, 41, 4, 208, 1, 0, 0x80, 0, 0, 0]), "BADVERS has its upper bits here");
    }

    /// Small lengths and pointers among other bytes.
    fn often_small(byte: u8) -> u8 {
        match byte {
            0..=99 => byte % 5,
            100..=119 => 0xc0,
            _ => byte,
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(1000) })]

        #[test]
        fn any_bytes_are_answered(
            start in prop::sample::select(vec![
                Vec::new(),
                vec![0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0],
                vec![0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 1],
                vec![0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 1, 1, b'a', 0, 0, 1, 0, 1, 0, 0, 41],
            ]),
            bytes in prop::collection::vec(any::<u8>().prop_map(often_small), 0..300),
        ) {
            let packet = [start, bytes].concat();
            match parse_query(&packet) {
                Ok(question) => {
                    prop_assert!(question.name.len() <= 253);
                    prop_assert!(question.no_such_name().len() <= MAX_ANSWER);
                }
                Err(bad) => {
                    // What is answered is never a question, so an answer cannot be answered again.
                    let again = bad.reply.map(|reply| parse_query(&reply).unwrap_err().reply);
                    prop_assert_eq!(again.flatten(), None);
                }
            }
        }
    }
}
