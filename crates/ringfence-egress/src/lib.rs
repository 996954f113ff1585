//! The way out: every program inside reaches the hosts that the policy names, and no others, without knowing of it.
//!
//! Inside, each allowed name has an address that exists nowhere else. A connection to it says which name was meant; the relay
//! outside dials the real host. Whatever else is dialled is refused by the kernel at once.

#![forbid(unsafe_code)]

mod asks;
mod cursor;
mod dial;
pub mod dns;
pub mod front;
mod gate;
pub mod guard;
pub mod hello;
pub mod http;
mod inject;
mod kept;
pub mod known_hosts;
mod lever;
mod names;
mod open;
mod packets;
pub mod pool;
mod proxy;
mod reached;
mod refusals;
mod relay;
pub mod resolv;
mod resolver;
mod room;
mod rules;
mod service;
mod sockets;
pub mod spelling;

pub use asks::Asks;
pub use dial::UNLISTED;
pub use inject::Credential;
pub use lever::{Lever, Outcome};
pub use reached::Reached;
pub use refusals::{Fresh, Refusal, Refusals};
pub use resolver::{Addresses, Resolver, System};
pub use rules::Rules;
pub use service::{Egress, Inside, Listen};
