//! Answers in the place of a hook that hangs: a path may be on a disk that does not answer, a client may never end its call.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::{BLOCKED, block};

/// Watches one call.
pub(super) struct Watchdog {
    /// Whoever sets it answers.
    answered: Arc<AtomicBool>,
}

impl Watchdog {
    /// Starts to watch, for most of what the client waits; `None` where no thread can be had.
    pub(super) fn start(patience: Duration) -> Option<Self> {
        let answered = Arc::new(AtomicBool::new(false));
        let theirs = Arc::clone(&answered);
        let watch = move || {
            std::thread::sleep(patience.mul_f64(0.8));
            if !theirs.swap(true, Ordering::SeqCst) {
                block("ringfence: no verdict was reached in time, so the tool is not run");
                bark();
            }
        };
        // Nothing is done in it that needs room.
        std::thread::Builder::new().stack_size(1 << 16).spawn(watch).ok()?;
        Some(Self { answered })
    }

    /// The answer is found. If the watchdog was faster, this never returns.
    pub(super) fn call_off(self) {
        if self.answered.swap(true, Ordering::SeqCst) {
            loop {
                std::thread::park();
            }
        }
    }
}

#[expect(clippy::exit, reason = "the other thread hangs, and the answer is a code")]
fn bark() {
    std::process::exit(i32::from(BLOCKED));
}
