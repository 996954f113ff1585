//! A head that arrives bit by bit.

use super::{HeadResult, MAX_HEAD, parse_head};

/// Up to this many bytes a head is read again whenever more of it arrives, so that most are judged at the first chance.
const EAGER: usize = 4096;

/// Reads one head while it arrives. A client that sends a long one byte by byte does not make it be read as often.
#[derive(Clone, Debug)]
pub struct HeadReader {
    /// How many bytes have been looked at.
    seen: usize,
    /// Whether the first line has ended, which tells other protocols from HTTP.
    has_line: bool,
}

impl HeadReader {
    /// At the start of a head.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "it says nothing about where it starts")]
    pub fn new() -> Self {
        Self { seen: 0, has_line: false }
    }

    /// As [`parse_head`]; `bytes` are all that have arrived since the start of the head.
    pub fn read(&mut self, bytes: &[u8]) -> HeadResult {
        // The end of a head may have arrived in parts.
        let new = bytes.get(self.seen.saturating_sub(2)..).unwrap_or_default();
        let is_first_line = !self.has_line && new.contains(&b'\n');
        let is_end = new.windows(2).any(|end| end == b"\n\n") || new.windows(3).any(|end| end == b"\n\r\n");
        self.seen = bytes.len();
        self.has_line |= is_first_line;
        if is_first_line || is_end || bytes.len() <= EAGER || bytes.len() >= MAX_HEAD {
            parse_head(bytes)
        } else {
            HeadResult::NeedMore
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The first word on a head that arrives in pieces, and after how many bytes.
    fn in_pieces(bytes: &[u8], size: usize) -> (HeadResult, usize) {
        let mut reader = HeadReader::new();
        for end in (size..bytes.len()).step_by(size).chain([bytes.len()]) {
            let read = reader.read(&bytes[..end]);
            if read != HeadResult::NeedMore {
                return (read, end);
            }
        }
        (HeadResult::NeedMore, bytes.len())
    }

    #[test]
    fn a_long_head_that_trickles_is_read_at_its_end() {
        let long = format!("GET / HTTP/1.1\r\nHost: a.example\r\n{}\r\n", "X: y\r\n".repeat(5000));
        for size in [1, 2, 3, 1000] {
            let (read, end) = in_pieces(format!("{long}body").as_bytes(), size);
            assert!(matches!(read, HeadResult::Head(head) if head.end == long.len()));
            assert!(end < long.len() + size, "{end} of {}", long.len());
        }
    }

    #[test]
    fn what_does_not_end_is_refused_at_its_bound() {
        let endless = HeadResult::Malformed("a head that does not end");
        assert_eq!(in_pieces(&[b'A'; MAX_HEAD + 9], 1), (endless.clone(), MAX_HEAD));
        let fields = format!("GET / HTTP/1.1\r\n{}", "X: y\r\n".repeat(MAX_HEAD / 6));
        assert_eq!(in_pieces(fields.as_bytes(), 1), (endless, MAX_HEAD));
    }

    #[test]
    fn another_protocol_is_told_by_its_first_line() {
        let line = format!("SSH-2.0-{}\r\n", "x".repeat(2 * EAGER));
        assert_eq!(in_pieces(format!("{line}more").as_bytes(), 1), (HeadResult::NotHttp, line.len()));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

        /// In whatever pieces it arrives, a head is judged as it is in one.
        #[test]
        fn pieces_and_the_whole_are_judged_alike(
            padding in prop::sample::select(vec![0, EAGER - 40, EAGER, 2 * EAGER]), size in 1usize..600,
            text in "(GET / HTTP/1\\.1|X y)\r?\n((Host|A|Content-Length) ?:[ a1,]{0,4}\r?\n){0,5}\r?\n?[a-z]{0,9}",
        ) {
            let (first, rest) = text.split_at(text.find('\n').map_or(0, |at| at + 1));
            let padding = if padding == 0 { String::new() } else { format!("P: {}\r\n", "p".repeat(padding)) };
            let text = format!("{first}{padding}{rest}");
            let whole = parse_head(text.as_bytes());
            let (read, _) = in_pieces(text.as_bytes(), size);
            // Past the eager part a mistake is told when the head ends, or at the first line.
            let is_late = read == HeadResult::NeedMore && matches!(whole, HeadResult::Malformed(_)) && text.len() > EAGER;
            prop_assert!(read == whole || is_late, "{:?} {:?}", read, whole);
        }
    }
}
