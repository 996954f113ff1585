//! Numbers and bytes one after the other, for what one ringfence says to another: orders, and the record of a session.
//!
//! What is read may be cut short or longer than it should be, never wrong in a way that panics or allocates more than was given.

/// Writes.
pub(crate) struct Writer(Vec<u8>);

impl Writer {
    pub(crate) fn new() -> Self {
        Self(Vec::with_capacity(1 << 16))
    }

    /// After these bytes.
    pub(crate) fn after(first: &[u8]) -> Self {
        let mut all = Vec::with_capacity(1 << 17);
        all.extend_from_slice(first);
        Self(all)
    }

    /// Seven bits to a byte, the low ones first: most numbers are small.
    pub(crate) fn number(&mut self, number: u64) {
        let mut rest = number;
        self.0.reserve(10);
        while rest >= 0x80 {
            self.0.push(rest as u8 | 0x80);
            rest >>= 7;
        }
        self.0.push(rest as u8);
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    pub(crate) fn finish(self) -> Vec<u8> {
        self.0
    }
}

/// Reads what was written; `None` where it is not that.
pub(crate) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(crate) fn number(&mut self) -> Option<u64> {
        let mut number = 0_u64;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = self.0.split_first()?;
            self.0 = rest;
            let bits = u64::from(byte & 0x7f);
            if bits << shift >> shift != bits {
                return None;
            }
            number |= bits << shift;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    pub(crate) fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.number()?).ok()?;
        let (bytes, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(bytes)
    }

    /// How many follow. There is at least a byte for each, so that a false number makes nobody allocate.
    pub(crate) fn count(&mut self) -> Option<usize> {
        usize::try_from(self.number()?).ok().filter(|count| *count <= self.0.len())
    }

    pub(crate) fn is_done(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_arrive() {
        for number in [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX - 1, u64::MAX] {
            let mut out = Writer::new();
            out.number(number);
            out.bytes(b"ab");
            let bytes = out.finish();
            let mut input = Reader::new(&bytes);
            assert_eq!((input.number(), input.bytes(), input.is_done()), (Some(number), Some(b"ab".as_slice()), true));
        }
    }

    #[test]
    fn what_is_no_number_is_refused() {
        assert_eq!(Reader::new(&[0x80]).number(), None);
        assert_eq!(Reader::new(&[0xff; 9]).number(), None);
        assert_eq!(Reader::new(&[0xff; 11]).number(), None);
        assert_eq!(Reader::new(&[5, 1, 2]).bytes(), None);
        assert_eq!(Reader::new(&[5, 1, 2]).count(), None);
    }
}
