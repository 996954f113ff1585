//! Looks for a TLS hello anywhere in what a program sends, for as long as the connection lasts.
//!
//! A host can be named later than in the first bytes of a connection:
//!
//! - A server answers the first hello with a HelloRetryRequest (TLS 1.3), and takes the host from the second one.
//! - The client may send early data and changes of cipher between the two, which the server drops.
//! - Other protocols switch to TLS after some messages (STARTTLS, the SSLRequest of PostgreSQL, the handshake of MySQL, LDAP). Where they
//!   do, only the server knows, so an attacker chooses the bytes before the hello.
//! - A hello that names the right host, or a request of HTTP, may be sent to a server that understands neither: it answers
//!   with an error and goes on parsing in the middle of the message.
//!
//! So nothing is skipped: at each byte a hello may begin, also inside another one, and whatever begins one has to be well-formed and name
//! the host. Nothing depends on how the bytes are cut into segments or on what the server says between them. What is encrypted
//! cannot be told from random bytes, among which a hello is seen once in 2^42; renegotiation in TLS 1.2 is encrypted and invisible,
//! like everything inside TLS.
//!
//! A hello that another protocol carries in packets of its own (EAP, TDS with a hello in parts) is not recognised.

use crate::hello::{Beginning, Hello, HelloReader, MAX_MAJOR, RECORD_HANDSHAKE, beginning, lenient_hello};

/// How many places at which a hello may have begun are known at once. Among random bytes there is rarely one.
const MOST_OPEN: usize = 64;

/// Watches one direction of a connection.
#[derive(Debug)]
pub(crate) struct HelloWatch {
    host: String,
    no_name: NoName,
    /// What came since the earliest place at which a hello may have begun.
    recent: Vec<u8>,
    /// How much of that has gone out.
    passed: usize,
    open: Vec<Open>,
}

/// What a hello means that names no host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoName {
    /// It is refused: every client of this protocol names its host.
    Refused,
    /// It passes: database clients name none, and a server does not choose another host without a name.
    Passes,
}

/// A place at which a hello may have begun.
#[derive(Debug)]
struct Open {
    at: usize,
    state: State,
}

#[derive(Debug)]
enum State {
    /// Undecided. The bytes are forwarded, since a server may wait for them.
    Undecided,
    /// A hello has begun. It is held until it is whole and good: what reads names early must not see a part of it.
    Begun(HelloReader),
    /// It begins inside a good hello, which may have been cut into records so that some of its bytes look like another beginning. It
    /// counts only if it is a whole hello.
    Inner,
}

/// What became of some bytes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Watched {
    /// They pass as they are.
    Same,
    /// These pass: some that were held, or not yet all of them.
    Pass(Vec<u8>),
    /// A hello is malformed, or names another host.
    Refused(String),
}

impl HelloWatch {
    pub(crate) fn new(host: &str, no_name: NoName) -> Self {
        Self { host: host.to_owned(), no_name, recent: Vec::new(), passed: 0, open: Vec::new() }
    }

    /// How much is held because a hello has begun and is not whole.
    pub(crate) fn held(&self) -> usize {
        self.recent.len() - self.passed
    }

    /// Takes the next bytes.
    pub(crate) fn look(&mut self, bytes: &[u8]) -> Watched {
        let mut out = Vec::new();
        let mut from = self.recent.len();
        if self.open.is_empty() {
            let Some(first) = next_candidate(bytes, 0) else { return Watched::Same };
            // Only the rest is kept, until it is known what it is.
            let (before, rest) = bytes.split_at(first);
            out.extend_from_slice(before);
            self.recent.extend_from_slice(rest);
            from = 0;
        } else {
            self.recent.extend_from_slice(bytes);
        }
        while let Some(at) = next_candidate(&self.recent, from) {
            if self.open.len() == MOST_OPEN {
                return Watched::Refused("TLS seems to begin in too many places at once".to_owned());
            }
            self.open.push(Open { at, state: State::Undecided });
            from = at + 1;
        }
        if let Err(why) = self.judge() {
            return Watched::Refused(why);
        }
        let held_from = self.open.iter().find(|open| matches!(open.state, State::Begun(_))).map(|open| open.at);
        let end = held_from.unwrap_or(self.recent.len()).max(self.passed);
        out.extend_from_slice(self.recent.get(self.passed..end).unwrap_or_default());
        self.passed = end;
        self.forget();
        Watched::Pass(out)
    }

    /// Judges each hello that is whole, in the order in which they begin. Behind one that is not, everything is held anyway.
    fn judge(&mut self) -> Result<(), String> {
        let (mut kept, mut inner_until) = (Vec::new(), 0);
        let mut open = std::mem::take(&mut self.open).into_iter();
        while let Some(mut next) = open.next() {
            let bytes = self.recent.get(next.at..).unwrap_or_default();
            if next.at < inner_until && matches!(next.state, State::Undecided) {
                next.state = State::Inner;
            }
            let begun = match &next.state {
                State::Undecided => beginning(bytes),
                State::Inner => lenient_hello(bytes),
                State::Begun(_) => Beginning::Certain,
            };
            match begun {
                Beginning::No => continue,
                Beginning::Undecided => {
                    kept.push(next);
                    continue;
                }
                Beginning::Certain => {}
            }
            let mut reader = match next.state {
                State::Begun(reader) => reader,
                State::Undecided | State::Inner => HelloReader::new(),
            };
            match verdict(reader.read(bytes), &self.host, self.no_name) {
                Verdict::Good => inner_until = inner_until.max(next.at + reader.end()),
                Verdict::Refused(why) => return Err(why),
                Verdict::NeedMore => {
                    kept.push(Open { at: next.at, state: State::Begun(reader) });
                    let may_begin = |open: &Open| {
                        let bytes = self.recent.get(open.at..).unwrap_or_default();
                        beginning(bytes) != Beginning::No
                    };
                    kept.extend(open.filter(may_begin));
                    break;
                }
            }
        }
        self.open = kept;
        Ok(())
    }

    /// Keeps what is still needed.
    fn forget(&mut self) {
        let Some(first) = self.open.first().map(|open| open.at) else {
            (self.recent, self.passed) = (Vec::new(), 0);
            return;
        };
        // What is held lies behind it.
        self.recent.drain(..first);
        self.passed = self.passed.saturating_sub(first);
        self.open.iter_mut().for_each(|open| open.at -= first);
    }
}

/// What a hello is to a connection.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// It is not whole.
    NeedMore,
    /// It names the host.
    Good,
    /// It does not, and this is why.
    Refused(String),
}

/// Judges a hello. Of the first words, which may be no TLS, that is known before.
pub(crate) fn verdict(hello: Hello, host: &str, no_name: NoName) -> Verdict {
    match hello {
        Hello::NeedMore => Verdict::NeedMore,
        Hello::Name(name) if name == host => Verdict::Good,
        Hello::Name(name) => Verdict::Refused(format!("TLS names {name}")),
        Hello::NoName if no_name == NoName::Passes => Verdict::Good,
        Hello::NoName => Verdict::Refused("TLS names no host".to_owned()),
        Hello::Encrypted => Verdict::Refused("TLS hides which host it means (ECH)".to_owned()),
        Hello::Malformed(why) => Verdict::Refused(format!("TLS cannot be read: {why}")),
        // A record of a version that only some servers take.
        Hello::NotTls => Verdict::Refused("TLS cannot be read: a record of an unknown version".to_owned()),
    }
}

/// How many bytes are looked at together.
const STRIDE: usize = 64;

/// The next place, from some place on, at which a hello may begin.
fn next_candidate(bytes: &[u8], mut from: usize) -> Option<usize> {
    // The last byte has no next one: then it may begin one.
    let may_begin = |at: usize| {
        bytes.get(at) == Some(&RECORD_HANDSHAKE) && bytes.get(at + 1).is_none_or(|major| *major <= MAX_MAJOR)
    };
    loop {
        // Nearly everything that is carried is none, and this the compiler turns into a few instructions for each stride.
        if let Some((stride, next)) = bytes.get(from..from + STRIDE).zip(bytes.get(from + 1..=from + STRIDE)) {
            let pairs = stride.iter().zip(next);
            let is_none =
                pairs.fold(true, |none, (kind, major)| none & ((*kind != RECORD_HANDSHAKE) | (*major > MAX_MAJOR)));
            if is_none {
                from += STRIDE;
                continue;
            }
        }
        let end = bytes.len().min(from + STRIDE);
        let found =
            (from..end).find(|at| may_begin(*at) && beginning(bytes.get(*at..).unwrap_or_default()) != Beginning::No);
        if found.is_some() || end == bytes.len() {
            return found;
        }
        from = end;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::hello::samples::{hello, message, records};

    fn watch() -> HelloWatch {
        HelloWatch::new("a.example", NoName::Passes)
    }

    /// What passes of these pieces, or why it ended.
    fn in_pieces<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> Result<Vec<u8>, String> {
        let (mut watch, mut out) = (watch(), Vec::new());
        for piece in pieces {
            match watch.look(piece) {
                Watched::Same => out.extend_from_slice(piece),
                Watched::Pass(bytes) => out.extend(bytes),
                Watched::Refused(why) => return Err(why),
            }
        }
        Ok(out)
    }

    #[track_caller]
    fn check(bytes: &[u8], expected: Result<(), &str>) {
        for size in [1, 2, 3, 7, 63, 64, 65, 100, bytes.len().max(1)] {
            let said = in_pieces(bytes.chunks(size));
            match expected {
                Ok(()) => assert_eq!(said.as_deref(), Ok(bytes), "in pieces of {size}"),
                Err(why) => assert_eq!(said.as_ref().err().map(String::as_str), Some(why), "in pieces of {size}"),
            }
        }
    }

    const EVIL: Result<(), &str> = Err("TLS names evil.example");

    #[test]
    fn f1_a_hello_is_found_wherever_it_begins() {
        for before in [0, 1, 60, 63, 64, 65, 200, 300_000] {
            let words = vec![b'x'; before];
            check(&[&words[..], &hello("a.example"), b"more"].concat(), Ok(()));
            check(&[&words[..], &hello("evil.example")].concat(), EVIL);
        }
        for size in 1..99 {
            check(&[b"x", &records(&message(Some("evil.example"), &[]), size)[..]].concat(), EVIL);
        }
    }

    #[test]
    fn f1_a_hello_inside_another_one_is_found() {
        let inner = hello("evil.example");
        let extension = [&[0, 21][..], &u16::try_from(inner.len()).unwrap().to_be_bytes(), &inner].concat();
        check(&records(&message(Some("a.example"), &extension), 9_999), EVIL);
        // What seems to begin before it is none.
        check(&[b"\x16\x03\x01\x02\x00", &inner[..]].concat(), EVIL);
        check(&[b"\x16\x03\x01\x00\x09\x01\x00", &inner[..]].concat(), EVIL);
        check(&[b"\x16\x03\x01\x00\x00", &inner[..]].concat(), EVIL);
    }

    #[test]
    fn f1_what_only_some_servers_take_is_refused() {
        let broken = |why| Err::<(), &str>(why);
        let evil = message(Some("evil.example"), &[]);
        let (first, rest) = evil.split_at(1);
        for between in [&b"\x15\x03\x01\0\x02\x01\x64"[..], b"\x14\x03\x03\0\x01\x01", b"\x17\x03\x03\0\x01\x01"] {
            let cut = [b"EHLO", &records(first, 9)[..], between, &records(rest, 9_999)].concat();
            check(&cut, broken("TLS cannot be read: another record inside the hello"));
        }
        let empty = [b"EHLO", &records(first, 9)[..], b"\x16\x03\x03\0\0", &records(rest, 9_999)].concat();
        check(&empty, broken("TLS cannot be read: a record of an impossible length"));
        let mut lenient = hello("evil.example");
        lenient[1] = 9;
        check(&[b"x", &lenient[..]].concat(), broken("TLS cannot be read: a record of an unknown version"));
        // One with its version in a list.
        let mut odd = hello("evil.example");
        odd[9] = 9;
        check(&[b"x", &odd[..]].concat(), broken("TLS cannot be read: a hello of an unknown version"));
        let two = [&message(Some("a.example"), &[])[..], &evil].concat();
        check(
            &[b"x", &records(&two, 9_999)[..]].concat(),
            broken("TLS cannot be read: more than one message in the first record"),
        );
        let endless = [b"x\x16\x03\x03\x40\0\x01\x01\0\x01\x03\x03", &[7; 9][..]].concat();
        check(&endless, broken("TLS cannot be read: a hello that does not end"));
    }

    #[test]
    fn a_hello_is_held_until_it_is_whole_and_nothing_else_is() {
        let mut watch = watch();
        let (hello, mut out) = (hello("a.example"), 0);
        for (at, byte) in hello.iter().enumerate() {
            match watch.look(&[*byte]) {
                Watched::Same => out += 1,
                Watched::Pass(bytes) => out += bytes.len(),
                Watched::Refused(why) => panic!("{why}"),
            }
            // The name lies behind what is known of it by then.
            assert!(out <= 11 || at == hello.len() - 1, "{out} of {at}");
        }
        assert_eq!((out, watch.held(), watch.recent.len()), (hello.len(), 0, 0));
        for begun in [&b"\x16"[..], b"\x16\x03\x01", b"\x16\x03\x01\x02\0\x01\0"] {
            assert_eq!(in_pieces([begun].into_iter()).as_deref(), Ok(begun), "a server may wait for it");
        }
    }

    #[test]
    fn many_places_at_once_are_refused_and_take_no_memory() {
        // Each begins a hello of an odd version, which can only be told from nothing when it is whole.
        let begun = b"\x16\x03\x01\x3f\xff\x01\x00\xff\xf0\x09\x09";
        let mut watch = watch();
        let said: Vec<Watched> = (0..99).map(|_| watch.look(begun)).collect();
        assert!(said.iter().any(|said| matches!(said, Watched::Refused(why) if why.contains("too many places"))));
        assert!(watch.open.len() <= MOST_OPEN);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(500) })]

        /// However it is cut and whatever stands around it, what passes is what came, or a hello is refused.
        #[test]
        fn what_passes_is_what_came(
            before in prop::collection::vec(prop::sample::select(vec![22, 3, 1, 0, 20, 21, 9, 7]), 0..90),
            after in prop::collection::vec(any::<u8>(), 0..90), size in 1usize..200, is_evil in any::<bool>(),
        ) {
            let name = if is_evil { "evil.example" } else { "a.example" };
            let all = [&before[..], &hello(name), &after].concat();
            let whole = in_pieces([&all[..]].into_iter());
            let pieces = in_pieces(all.chunks(size));
            prop_assert_eq!(whole.is_ok(), pieces.is_ok());
            prop_assert!(!is_evil || whole.is_err());
            if let Ok(passed) = pieces {
                // The end may have begun another.
                prop_assert!(all.starts_with(&passed));
            }
        }
    }
}
