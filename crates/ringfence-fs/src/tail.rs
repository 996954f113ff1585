//! The end of a stream, in bounded memory.

use std::collections::VecDeque;

use crate::exec::Captured;

/// Keeps the last bytes of what is pushed, and counts the others. It never holds more than it keeps.
///
/// ```
/// use ringfence_fs::{Captured, Tail};
///
/// let mut tail = Tail::new(4);
/// tail.push(b"abc");
/// tail.push(b"def");
/// assert_eq!(Captured::from(tail), Captured { tail: b"cdef".to_vec(), dropped: 2 });
/// ```
#[derive(Debug)]
pub struct Tail {
    kept: VecDeque<u8>,
    keep: usize,
    dropped: u64,
}

impl Tail {
    /// Keeps this many bytes.
    pub fn new(keep: usize) -> Self {
        Self { kept: VecDeque::new(), keep, dropped: 0 }
    }

    /// The next bytes of the stream.
    pub fn push(&mut self, bytes: &[u8]) {
        let bytes = match bytes.len().checked_sub(self.keep) {
            Some(over) => {
                self.drop_first(self.kept.len());
                self.dropped += over as u64;
                &bytes[over..]
            }
            None => {
                self.drop_first((self.kept.len() + bytes.len()).saturating_sub(self.keep));
                bytes
            }
        };
        self.make_room(bytes.len());
        self.kept.extend(bytes);
    }

    fn drop_first(&mut self, count: usize) {
        self.kept.drain(..count);
        self.dropped += count as u64;
    }

    /// Doubles, and never goes beyond what is kept: by itself the buffer would double once more.
    fn make_room(&mut self, more: usize) {
        let needed = self.kept.len() + more;
        if needed > self.kept.capacity() {
            let goal = needed.saturating_mul(2).min(self.keep);
            self.kept.reserve_exact(goal - self.kept.len());
        }
    }
}

impl From<Tail> for Captured {
    fn from(tail: Tail) -> Self {
        Self { tail: tail.kept.into(), dropped: tail.dropped }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Beside what a plain copy of everything says.
    #[test]
    fn t3_the_tail_is_kept_and_the_rest_is_counted() {
        for keep in [0, 1, 2, 7, 64, 1000] {
            for step in [1, 2, 3, 7, 64, 65, 300] {
                let all: Vec<u8> = (0..1500_u32).map(|n| n.to_le_bytes()[0]).collect();
                let mut tail = Tail::new(keep);
                for (number, bytes) in all.chunks(step).enumerate() {
                    tail.push(bytes);
                    let so_far = &all[..(number * step + bytes.len())];
                    let start = so_far.len().saturating_sub(keep);
                    assert_eq!(tail.kept.iter().copied().collect::<Vec<_>>(), &so_far[start..], "{keep} {step}");
                    assert_eq!(tail.dropped, start as u64);
                    assert!(tail.kept.capacity() <= keep);
                }
                let captured = Captured::from(tail);
                assert_eq!((captured.total(), captured.is_truncated()), (1500, true));
            }
        }
    }
}
