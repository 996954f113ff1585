//! A line that says how far a verification has come, on a terminal only.

use std::cell::Cell;
use std::io::{self, Write as _};

use rustix::fd::AsFd as _;

/// How far one layer has come.
pub(super) struct Progress {
    name: &'static str,
    is_shown: bool,
    /// What was drawn last: each look changes the line by a step.
    step: Cell<usize>,
}

const WIDTH: usize = 30;

impl Progress {
    pub(super) fn new(name: &'static str) -> Self {
        let is_shown = rustix::termios::isatty(io::stderr().as_fd());
        let progress = Self { name, is_shown, step: Cell::new(usize::MAX) };
        progress.show(0, 1);
        progress
    }

    pub(super) fn show(&self, done: usize, of: usize) {
        let step = WIDTH * done / of.max(1);
        if self.is_shown && self.step.replace(step) != step {
            let (full, rest) = ("#".repeat(step), " ".repeat(WIDTH.saturating_sub(step)));
            self.draw(&format!("\r{:<9} [{full}{rest}] {done}/{of}\x1b[K", self.name));
        }
    }

    /// Nothing of it stays.
    pub(super) fn clear(&self) {
        if self.is_shown {
            self.draw("\r\x1b[K");
        }
    }

    fn draw(&self, text: &str) {
        // Nobody is left to tell when it is closed.
        let mut stderr = io::stderr().lock();
        let _ = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
    }
}
