//! Any text as a path rule, a host pattern and a host.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ringfence_testkit::fuzz::pattern(bytes));
