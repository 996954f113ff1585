//! Any bytes as a policy and as a work item.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ringfence_testkit::fuzz::policy(bytes));
