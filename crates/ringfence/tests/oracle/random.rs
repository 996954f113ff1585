//! Chance: the same for the same seed on every machine.

/// A generator of its own.
#[derive(Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        // Seeds that differ by one must not begin alike.
        let mut random = Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x2545_f491_4f6c_dd1d | 1);
        for _ in 0..8 {
            random.next();
        }
        random
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// A number below `end`; 0 when there is none.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() >> 20).unwrap_or(0) % end.max(1)
    }

    pub(crate) fn one_in(&mut self, many: usize) -> bool {
        self.below(many) == 0
    }

    pub(crate) fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }

    pub(crate) fn shuffle<T>(&mut self, of: &mut [T]) {
        for at in (1..of.len()).rev() {
            of.swap(at, self.below(at + 1));
        }
    }
}
