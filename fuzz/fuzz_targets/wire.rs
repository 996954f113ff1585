//! Any bytes as whatever arrives on the way out: DNS, TLS, HTTP, SOCKS, resolver files.

#![no_main]

#[path = "../../crates/ringfence-egress/tests/wire/mod.rs"]
mod wire;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| wire::any(bytes));
