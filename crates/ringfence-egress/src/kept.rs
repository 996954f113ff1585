//! What is kept in memory for connections, all together: what a slow reader has not taken yet, and what was begun and does not
//! say yet which host it means.
//!
//! The memory is the supervisor's, which no limit of the session counts. So a program that opens as many connections as it can,
//! and leaves each in the worst state, must not be able to fill it.

use std::cell::Cell;

/// Beyond this, connections keep no more than they must.
const MOST: usize = 16 << 20;

/// What a program in good faith begins in one piece is hardly longer.
const A_WORD: usize = 4 * 1024;

thread_local! {
    static ALL: Cell<usize> = const { Cell::new(0) };
}

/// Something that is kept. It counts for as long as it lives.
#[derive(Debug)]
pub(crate) struct Kept(usize);

impl Kept {
    /// So many bytes.
    pub(crate) fn bytes(count: usize) -> Self {
        ALL.set(ALL.get().saturating_add(count));
        Self(count)
    }

    /// Now so many.
    pub(crate) fn becomes(&mut self, count: usize) {
        *self = Self::bytes(count);
    }

    /// So much was begun and is not ended.
    ///
    /// # Errors
    /// In words, where there is no room for it.
    pub(crate) fn begun(&mut self, count: usize) -> Result<(), &'static str> {
        self.becomes(count);
        if count > A_WORD && is_too_much() { Err("too much was begun at once and not ended") } else { Ok(()) }
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        ALL.set(ALL.get().saturating_sub(self.0));
    }
}

/// Is it too much already?
pub(crate) fn is_too_much() -> bool {
    ALL.get() > MOST
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ends_counts_no_more() {
        assert!(!is_too_much());
        let mut one = Kept::bytes(MOST);
        assert!(!is_too_much());
        let other = Kept::bytes(1);
        assert!(is_too_much());
        one.becomes(MOST - 1);
        assert!(!is_too_much());
        one.becomes(MOST + 1);
        drop(other);
        assert!(is_too_much());
        drop(one);
        assert_eq!(ALL.get(), 0);
    }
}
