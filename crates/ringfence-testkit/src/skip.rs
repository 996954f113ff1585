//! What a test does not try on this machine: it is said, and `cargo xtask test` sums it up.

use std::fs::OpenOptions;
use std::io::Write as _;

/// Names the file that collects what was skipped. The tests' runner shows nothing of a test that passes, so that what is only
/// printed is read by nobody.
pub const VARIABLE: &str = "RINGFENCE_TEST_SKIPS";

/// Says that a test, or a part of one, is not run here, and why.
///
/// # Panics
/// When the file that collects these cannot be written.
#[expect(clippy::print_stderr, reason = "a skip must be seen")]
pub fn report_skip(what: &str) {
    eprintln!("skipped: {what}");
    if let Some(path) = std::env::var_os(VARIABLE) {
        let mut file =
            OpenOptions::new().append(true).create(true).open(&path).expect("the list of skips can be opened");
        // One call: other tests append at the same time.
        file.write_all(format!("{what}\n").as_bytes()).expect("the list of skips can be written");
    }
}
