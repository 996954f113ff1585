//! Any bytes as changes beneath a root that is full of links to the outside.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ringfence_testkit::fuzz::files(bytes));
