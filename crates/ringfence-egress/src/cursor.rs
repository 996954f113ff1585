//! Reading bytes that somebody else wrote: every step may come to the end, and none panics.

/// What is left to read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor<'a> {
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// How many bytes are left.
    pub(crate) fn left(&self) -> usize {
        self.rest.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(crate) fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(count)?;
        self.rest = rest;
        Some(taken)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    pub(crate) fn byte(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    /// A number of two bytes in network order.
    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    /// As many bytes as the one byte before them says.
    pub(crate) fn counted_by_byte(&mut self) -> Option<&'a [u8]> {
        let count = self.byte()?;
        self.take(count.into())
    }

    /// As many bytes as the two bytes before them say.
    pub(crate) fn counted_by_u16(&mut self) -> Option<&'a [u8]> {
        let count = self.u16()?;
        self.take(count.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_read_stops_at_the_end() {
        let mut cursor = Cursor::new(&[1, 2, 0, 3, 4, 5, 6]);
        assert_eq!(cursor.byte(), Some(1));
        assert_eq!(cursor.u16(), Some(0x0200));
        assert_eq!(cursor.counted_by_byte(), Some(&[4, 5, 6][..]));
        assert!(cursor.is_empty() && cursor.left() == 0);
        assert_eq!((cursor.byte(), cursor.u16(), cursor.array::<4>()), (None, None, None));
        let short = [0, 9, 1];
        assert_eq!(Cursor::new(&short).counted_by_u16(), None);
        assert_eq!(Cursor::new(&[9, 1]).counted_by_byte(), None);
        assert_eq!(Cursor::new(&[]).counted_by_byte(), None);
    }

    #[test]
    fn a_read_that_fails_takes_nothing() {
        let mut cursor = Cursor::new(&[7, 8]);
        assert_eq!(cursor.take(3), None);
        assert_eq!(cursor.take(2), Some(&[7, 8][..]));
    }
}
