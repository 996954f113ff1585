//! `cargo xtask picture`: takes the picture of a terminal in `README.md` anew, by the test that compares it.

use std::path::Path;
use std::process::ExitCode;

use crate::say;
use crate::steps::{cargo, must_succeed};

pub(crate) fn run(root: &Path) -> ExitCode {
    let mut test = cargo(root, &["test", "--package", "ringfence", "--test", "cli", "picture::the_picture_is_true"]);
    match must_succeed(test.env("RINGFENCE_BLESS", "1")) {
        Ok(_) => {
            say::progress("xtask picture: docs/picture.svg");
            ExitCode::SUCCESS
        }
        Err(failure) => {
            say::progress(format!("xtask picture: FAILED: {failure}"));
            ExitCode::FAILURE
        }
    }
}
