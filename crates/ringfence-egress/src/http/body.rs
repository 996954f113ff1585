//! Where the body of an HTTP message ends, so that the next head can be looked at too.
//!
//! Only bytes are counted. A body in chunks is read strictly: chunk extensions and trailers are refused, since servers differ
//! in how they read them, and a byte that one takes for a body another takes for the next request.

use super::look::is_token;

/// How the body that follows a head is delimited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// There is none.
    None,
    /// So many bytes.
    Length(u64),
    /// Chunks, each with its length before it.
    Chunked,
    /// All that follows on the connection.
    UntilClose,
}

/// Counts a body's bytes as they pass.
#[derive(Clone, Debug)]
pub struct BodyScan {
    at: At,
}

/// What is expected next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    /// So many bytes, then the end.
    Counted(u64),
    /// A digit of a chunk's length; how many there were, and their value.
    Size(u8, u64),
    /// The line feed after a chunk's length.
    SizeEnd(u64),
    /// So many bytes of a chunk.
    Chunk(u64),
    /// The end of the line after a chunk, or of the empty line after the last one.
    ChunkReturn(Then),
    ChunkFeed(Then),
    /// All that comes.
    Open,
    Done,
    Broken(&'static str),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    NextChunk,
    End,
}

/// Digits of a chunk's length: enough for any, and too few to overflow.
const MAX_DIGITS: u8 = 15;

const BROKEN: &str = "a chunk that is not plain";
const TRAILERS: &str = "fields after the last chunk (trailers), which servers read differently";

impl BodyScan {
    /// At the first byte after the head.
    #[must_use]
    pub fn new(body: Body) -> Self {
        let at = match body {
            Body::None | Body::Length(0) => At::Done,
            Body::Length(length) => At::Counted(length),
            Body::Chunked => At::Size(0, 0),
            Body::UntilClose => At::Open,
        };
        Self { at }
    }

    /// How many of the next bytes belong to the body. Fewer than all means that the body ends there.
    ///
    /// # Errors
    /// When a chunk is not plain. Nothing more can be told about the connection then.
    pub fn take(&mut self, bytes: &[u8]) -> Result<usize, &'static str> {
        let mut taken = 0;
        while let Some(rest) = bytes.get(taken..).filter(|rest| !rest.is_empty()) {
            match self.at {
                At::Done => break,
                At::Broken(why) => return Err(why),
                At::Open => taken = bytes.len(),
                At::Counted(left) => {
                    let (count, left) = count(rest, left);
                    taken += count;
                    self.at = if left == 0 { At::Done } else { At::Counted(left) };
                }
                At::Chunk(left) => {
                    let (count, left) = count(rest, left);
                    taken += count;
                    self.at = if left == 0 { At::ChunkReturn(Then::NextChunk) } else { At::Chunk(left) };
                }
                at => {
                    self.at = rest.first().map_or(at, |byte| step(at, *byte));
                    taken += 1;
                }
            }
        }
        if let At::Broken(why) = self.at { Err(why) } else { Ok(taken) }
    }

    /// Whether the body has ended. One that lasts until the connection is closed never does.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.at == At::Done
    }
}

/// How many of `left` bytes are here, and how many remain.
fn count(here: &[u8], left: u64) -> (usize, u64) {
    let count = usize::try_from(left).map_or(here.len(), |left| left.min(here.len()));
    (count, left - u64::try_from(count).unwrap_or(left))
}

/// One byte of what stands between chunks.
fn step(at: At, byte: u8) -> At {
    match (at, byte) {
        (At::Size(digits, value), _) if byte.is_ascii_hexdigit() && digits < MAX_DIGITS => {
            let digit = char::from(byte).to_digit(16).unwrap_or(0);
            At::Size(digits + 1, value << 4 | u64::from(digit))
        }
        (At::Size(1.., value), b'\r') => At::SizeEnd(value),
        (At::SizeEnd(0), b'\n') => At::ChunkReturn(Then::End),
        (At::SizeEnd(value), b'\n') => At::Chunk(value),
        (At::ChunkReturn(then), b'\r') => At::ChunkFeed(then),
        (At::ChunkFeed(Then::NextChunk), b'\n') => At::Size(0, 0),
        (At::ChunkFeed(Then::End), b'\n') => At::Done,
        (At::ChunkReturn(Then::End), _) if is_token(byte) => At::Broken(TRAILERS),
        _ => At::Broken(BROKEN),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// How much of the bytes is body, and whether it ends there.
    #[track_caller]
    fn check(body: Body, bytes: &[u8], expected: Result<(usize, bool), &str>) {
        let mut scan = BodyScan::new(body);
        let taken = scan.take(bytes).map(|taken| (taken, scan.is_done()));
        assert_eq!(taken, expected, "{}", bytes.escape_ascii());
        // One byte at a time it is the same.
        let mut scan = BodyScan::new(body);
        let mut total = Ok(0);
        for byte in bytes {
            total = total.and_then(|total| scan.take(&[*byte]).map(|taken| total + taken));
        }
        assert_eq!(total.map(|total| (total, scan.is_done())), expected, "{} by bytes", bytes.escape_ascii());
    }

    #[test]
    fn bodies_of_a_known_length() {
        check(Body::None, b"GET", Ok((0, true)));
        check(Body::Length(0), b"GET", Ok((0, true)));
        check(Body::Length(3), b"ab", Ok((2, false)));
        check(Body::Length(3), b"abcGET", Ok((3, true)));
        check(Body::Length(u64::MAX), b"abc", Ok((3, false)));
        check(Body::UntilClose, b"abc", Ok((3, false)));
    }

    #[test]
    fn bodies_in_chunks() {
        check(Body::Chunked, b"", Ok((0, false)));
        check(Body::Chunked, b"0\r\n\r\nGET", Ok((5, true)));
        check(Body::Chunked, b"3\r\nabc\r\n0\r\n\r\nGET", Ok((13, true)));
        check(Body::Chunked, b"A\r\n0123456789\r\n00\r\n\r\n", Ok((21, true)));
        check(Body::Chunked, b"a\r\n0123456789\r\n1\r\n\n\r\n0\r\n\r\n", Ok((26, true)));
        check(Body::Chunked, b"5\r\nabc", Ok((6, false)));
        check(Body::Chunked, b"fffffffffffffff\r\nabc", Ok((20, false)));
        check(Body::Chunked, b"3\r\nabc\r\n0\r\n\r", Ok((12, false)));
    }

    #[test]
    fn chunks_that_servers_read_differently_are_refused() {
        for bytes in [
            &b"\r\n"[..],
            b"x\r\n",
            b"0x3\r\nabc",
            b"+3\r\nabc",
            b"-1\r\n",
            b" 3\r\nabc",
            b"3 \r\nabc",
            b"3;name=value\r\nabc",
            b"3;\nabc",
            b"3\nabc",
            b"3\r\rabc",
            b"3\r\nabcd\r\n",
            b"3\r\nabc\n",
            b"3\r\nabc\r\r",
            b"3\r\nabc0\r\n\r\n",
            b"0\r\n\n",
            b"0\n\r\n",
            b"0000000000000003\r\nabc",
            b"ffffffffffffffff\r\n",
            b"10000000000000003\r\n",
        ] {
            check(Body::Chunked, bytes, Err(BROKEN));
        }
        check(Body::Chunked, b"0\r\nTrailer: x\r\n\r\n", Err(TRAILERS));
        let mut scan = BodyScan::new(Body::Chunked);
        assert_eq!(scan.take(b"x"), Err(BROKEN));
        assert_eq!(scan.take(b"0\r\n\r\n"), Err(BROKEN), "it stays broken");
        assert!(!scan.is_done());
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(1000) })]

        #[test]
        fn any_bytes_in_any_pieces_are_read_alike(
            bytes in prop::collection::vec(prop::sample::select(b"0123afAF\r\n;x".to_vec()), 0..60), cut in 0usize..60,
        ) {
            let mut whole = BodyScan::new(Body::Chunked);
            let taken = whole.take(&bytes);
            let (first, second) = bytes.split_at(cut.min(bytes.len()));
            let mut pieces = BodyScan::new(Body::Chunked);
            let in_pieces = pieces.take(first).and_then(|taken| Ok(taken + pieces.take(second)?));
            prop_assert_eq!(taken, in_pieces);
            prop_assert_eq!(whole.is_done(), pieces.is_done());
        }

        #[test]
        fn the_end_of_chunks_is_found(
            chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..40), 0..6),
            after in prop::collection::vec(any::<u8>(), 0..20),
        ) {
            let mut bytes: Vec<u8> = Vec::new();
            for chunk in &chunks {
                bytes.extend(format!("{:x}\r\n", chunk.len()).bytes());
                bytes.extend(chunk);
                bytes.extend(b"\r\n");
            }
            bytes.extend(b"0\r\n\r\n");
            let length = bytes.len();
            bytes.extend(after);
            let mut scan = BodyScan::new(Body::Chunked);
            prop_assert_eq!(scan.take(&bytes), Ok(length));
            prop_assert!(scan.is_done());
        }
    }
}
