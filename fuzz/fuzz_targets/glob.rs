//! Any bytes as a glob and a path below a directory.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ringfence_testkit::fuzz::glob(bytes));
