//! Compressed bitmaps (EWAH): runs of equal words, and words that are written out.

use super::parse::Reader;

/// A bitmap as the file has it; [`Bitmap::ones`] expands it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Bitmap {
    words: Vec<u64>,
}

impl Bitmap {
    pub(super) const fn empty() -> Self {
        Self { words: Vec::new() }
    }

    pub(super) fn read(reader: &mut Reader<'_>) -> Option<Self> {
        let _bits = reader.u32().ok()?;
        let count = reader.u32().ok()? as usize;
        if count > reader.rest().len() / 8 {
            return None;
        }
        let words = (0..count).map(|_| reader.u64()).collect::<Result<_, _>>().ok()?;
        let _last_marker = reader.u32().ok()?;
        Some(Self { words })
    }

    /// The numbers of the bits that are set, all of which must be below `limit`.
    pub(super) fn ones(&self, limit: usize) -> Option<Vec<usize>> {
        let mut ones = Vec::new();
        let mut at = 0usize;
        let mut words = self.words.iter();
        while let Some(marker) = words.next() {
            let run = usize::try_from(marker >> 1 & 0xffff_ffff).ok()?.checked_mul(64)?;
            let end = at.checked_add(run)?;
            if marker & 1 == 1 {
                if end > limit.checked_next_multiple_of(64)? {
                    return None;
                }
                ones.extend(at..end);
            }
            at = end;
            for _ in 0..marker >> 33 {
                let word = words.next()?;
                ones.extend((0..64).filter(|bit| word >> bit & 1 == 1).filter_map(|bit| at.checked_add(bit)));
                at = at.checked_add(64)?;
            }
        }
        ones.last().is_none_or(|last| *last < limit).then_some(ones)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(words: &[u64], limit: usize, expected: Option<&[usize]>) {
        let bitmap = Bitmap { words: words.to_vec() };
        assert_eq!(bitmap.ones(limit).as_deref(), expected);
    }

    #[test]
    fn bitmaps() {
        check(&[], 0, Some(&[]));
        check(&[1 << 33, 0b101], 3, Some(&[0, 2]));
        check(&[1 << 33, 0b101], 2, None);
        check(&[1 << 33 | 1 << 1, 1], 65, Some(&[64]));
        let all: Vec<usize> = (0..64).collect();
        check(&[0b11], 64, Some(&all));
        check(&[0b11], 63, None);
        check(&[2 << 33, 1], 64, None);
    }

    /// A few bytes that stand for a bitmap of many gigabytes.
    #[test]
    fn a_run_beyond_the_limit_takes_no_memory() {
        check(&[0x1_ffff_ffff], 1000, None);
        check(&[0x1_fffe_fffe, 0b11], 1000, None);
        check(&[u64::MAX], 1000, None);
    }
}
