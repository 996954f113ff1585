//! A buffer between two descriptors.

use std::os::fd::OwnedFd;

/// How much is read at once.
const READ_BYTES: usize = 8 * 1024;

/// Bytes on their way in one direction. They are all written before more are read, so a slow side slows the other.
pub(super) struct Flow {
    /// At least [`READ_BYTES`].
    bytes: Vec<u8>,
    start: usize,
    end: usize,
}

impl Flow {
    pub(super) fn new() -> Self {
        Self { bytes: vec![0; READ_BYTES], start: 0, end: 0 }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.start == self.end
    }

    pub(super) fn clear(&mut self) {
        (self.start, self.end) = (0, 0);
    }

    pub(super) fn put(&mut self, byte: u8) {
        self.bytes[0] = byte;
        (self.start, self.end) = (0, 1);
    }

    /// A line of our own, as far as there is room; nothing else may wait here.
    pub(super) fn put_line(&mut self, line: &[u8]) {
        let length = line.len().min(self.bytes.len());
        self.bytes[..length].copy_from_slice(&line[..length]);
        (self.start, self.end) = (0, length);
    }

    /// As much fits.
    pub(super) fn room(&self) -> usize {
        self.bytes.len()
    }

    /// What waits here.
    pub(super) fn held(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    pub(super) fn take(&mut self) -> Option<u8> {
        let first = self.bytes[self.start..self.end].first().copied();
        self.start += usize::from(first.is_some());
        first
    }

    pub(super) fn fill(&mut self, from: &OwnedFd) -> rustix::io::Result<usize> {
        self.clear();
        self.end = rustix::io::read(from, &mut self.bytes[..READ_BYTES])?;
        Ok(self.end)
    }

    /// Puts this in the place of what waits here.
    pub(super) fn replace(&mut self, bytes: &[u8]) {
        if bytes.len() > self.bytes.len() {
            self.bytes.resize(bytes.len(), 0);
        }
        self.bytes[..bytes.len()].copy_from_slice(bytes);
        (self.start, self.end) = (0, bytes.len());
    }

    pub(super) fn pour(&mut self, into: &OwnedFd) -> rustix::io::Result<()> {
        if !self.is_empty() {
            self.start += rustix::io::write(into, &self.bytes[self.start..self.end])?;
        }
        Ok(())
    }

    /// Makes `\n` of each `\r\n`. One that is cut by the end stays: a return too many moves no cursor.
    pub(super) fn drop_carriage_returns(&mut self) {
        let mut kept = self.start;
        for at in self.start..self.end {
            let ends_line = self.bytes[at] == b'\r' && self.bytes[at + 1..self.end].first() == Some(&b'\n');
            if !ends_line {
                self.bytes[kept] = self.bytes[at];
                kept += 1;
            }
        }
        self.end = kept;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(written: &[u8], expected: &[u8]) {
        let mut flow = Flow::new();
        flow.bytes[..written.len()].copy_from_slice(written);
        flow.end = written.len();
        flow.drop_carriage_returns();
        assert_eq!(&flow.bytes[flow.start..flow.end], expected);
    }

    #[test]
    fn only_the_return_of_a_line_end_is_dropped() {
        check(b"", b"");
        check(b"a\r\nb\r\n", b"a\nb\n");
        check(b"50%\r100%\n", b"50%\r100%\n");
        check(b"\r\r\n", b"\r\n");
        check(b"cut\r", b"cut\r");
    }
}
