//! Any bytes as a line of shell.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ringfence_testkit::fuzz::command(bytes));
