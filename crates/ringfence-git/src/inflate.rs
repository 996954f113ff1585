//! Zlib streams of a known length.

use miniz_oxide::inflate::TINFLStatus;
use miniz_oxide::inflate::core::{DecompressorOxide, decompress, inflate_flags};

use crate::pack::ReadAt;

/// Deflate makes nothing shorter than by this factor. A stream that claims more lies, and no memory is reserved for it.
const MOST_EXPANSION: u64 = 1032;

/// Most objects are small; a large one is read in parts of this size.
const LARGEST_PART: usize = 64 << 10;

/// What a stream holds, and how long the stream is.
pub(crate) struct Inflated {
    pub(crate) content: Vec<u8>,
    pub(crate) consumed: u64,
}

/// Reads a stream that starts at `offset` and holds exactly `length` bytes.
pub(crate) fn inflate_exactly(file: &(impl ReadAt + ?Sized), offset: u64, length: usize) -> Option<Inflated> {
    let available = file.size().checked_sub(offset)?;
    if length as u64 > available.saturating_mul(MOST_EXPANSION) {
        return None;
    }
    let part = (length / 2 + 128).min(LARGEST_PART);
    inflate_in_parts(file, offset, length, part)
}

fn inflate_in_parts(file: &(impl ReadAt + ?Sized), offset: u64, length: usize, part: usize) -> Option<Inflated> {
    let mut stream = Stream { file, offset, output: vec![0; length], written: 0, state: Box::default() };
    stream.run(vec![0; part]).then_some(Inflated { consumed: stream.offset - offset, content: stream.output })
}

/// Reads the first bytes of a stream: `length` of them, or as many as it holds.
pub(crate) fn inflate_start(file: &[u8], length: usize) -> Option<Vec<u8>> {
    let mut output = vec![0; length];
    let flags = inflate_flags::TINFL_FLAG_PARSE_ZLIB_HEADER | inflate_flags::TINFL_FLAG_USING_NON_WRAPPING_OUTPUT_BUF;
    let (status, _, written) = decompress(&mut DecompressorOxide::new(), file, &mut output, 0, flags);
    output.truncate(written);
    matches!(status, TINFLStatus::Done | TINFLStatus::HasMoreOutput).then_some(output)
}

struct Stream<'f, F: ?Sized> {
    file: &'f F,
    offset: u64,
    output: Vec<u8>,
    written: usize,
    state: Box<DecompressorOxide>,
}

impl<F: ReadAt + ?Sized> Stream<'_, F> {
    /// Whether the stream ends where the output does.
    fn run(&mut self, mut part: Vec<u8>) -> bool {
        let flags = inflate_flags::TINFL_FLAG_PARSE_ZLIB_HEADER
            | inflate_flags::TINFL_FLAG_USING_NON_WRAPPING_OUTPUT_BUF
            | inflate_flags::TINFL_FLAG_HAS_MORE_INPUT;
        loop {
            let length = self.file.read_at(self.offset, &mut part);
            let Some(input) = part.get(..length).filter(|input| !input.is_empty()) else { return false };
            let (status, read, written) = decompress(&mut self.state, input, &mut self.output, self.written, flags);
            self.offset += read as u64;
            self.written += written;
            match status {
                TINFLStatus::Done => return self.written == self.output.len(),
                // It wants more output too where a part ends before the end of the stream is known. If there is more, the next part
                // is left where it is.
                TINFLStatus::NeedsMoreInput | TINFLStatus::HasMoreOutput if read > 0 && read == length => {}
                _ => return false,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use miniz_oxide::deflate::compress_to_vec_zlib;

    use super::*;

    #[test]
    fn streams_hold_exactly_what_they_say() {
        for length in [0usize, 1, 5, 1000, 300_000] {
            let content: Vec<u8> = (0..length).map(|at| (at * at / 7 % 251) as u8).collect();
            for level in [0, 1, 9] {
                let stream = compress_to_vec_zlib(&content, level);
                let file = [b"front".as_slice(), &stream, b"back"].concat();
                let inflated = inflate_exactly(file.as_slice(), 5, length).unwrap();
                assert_eq!((inflated.consumed, &inflated.content), (stream.len() as u64, &content));
                assert!(inflate_exactly(file.as_slice(), 5, length + 1).is_none(), "{length}");
                assert!(length == 0 || inflate_exactly(file.as_slice(), 5, length - 1).is_none(), "{length}");
                assert!(inflate_exactly(&stream[..stream.len() - 1], 0, length).is_none(), "{length}");
                let mut damaged = stream.clone();
                *damaged.last_mut().unwrap() ^= 1;
                assert!(inflate_exactly(damaged.as_slice(), 0, length).is_none(), "{length}");
                assert_eq!(inflate_start(&stream, 4).unwrap(), content[..length.min(4)]);
            }
        }
    }

    /// The end of a part falls on every place of a stream: within the last symbol, the checksum, a block that is stored.
    #[test]
    fn streams_are_read_in_parts() {
        let content: Vec<u8> = (0..200u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8 % 50).collect();
        for length in [0, 1, 2, 50, 199, 200] {
            let content = &content[..length];
            for level in [0, 1, 6, 10] {
                let stream = compress_to_vec_zlib(content, level);
                let file = [stream.as_slice(), b"the next entry"].concat();
                for part in 1..=file.len() {
                    let read = |length| inflate_in_parts(file.as_slice(), 0, length, part);
                    let inflated = read(length).map(|inflated| (inflated.consumed, inflated.content));
                    assert_eq!(inflated, Some((stream.len() as u64, content.to_vec())), "{length} {level} {part}");
                    assert!(read(length + 1).is_none(), "{length} {level} {part}");
                    assert!(length == 0 || read(length - 1).is_none(), "{length} {level} {part}");
                    let cut = inflate_in_parts(&stream[..stream.len() - 1], 0, length, part);
                    assert!(cut.is_none(), "{length} {level} {part}");
                }
            }
        }
    }

    #[test]
    fn a_length_that_no_stream_has_takes_no_memory() {
        let stream = compress_to_vec_zlib(b"x", 9);
        assert!(inflate_exactly(stream.as_slice(), 0, usize::MAX).is_none());
        assert!(inflate_exactly(stream.as_slice(), 1000, 1).is_none());
    }
}
