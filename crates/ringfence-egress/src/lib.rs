//! The way out: every program inside reaches the hosts that the policy names, and no others, without knowing of it.
//!
//! Inside, each allowed name has an address that exists nowhere else. A connection to it says which name was meant; the relay
//! outside dials the real host. Whatever else is dialled is refused by the kernel at once.

#![forbid(unsafe_code)]

mod cursor;
pub mod dns;
pub mod front;
pub mod guard;
pub mod hello;
pub mod http;
pub mod pool;
pub mod resolv;
pub mod spelling;
