//! The way out: every program inside reaches the hosts that the policy names, and no others, without knowing of it.
//!
//! Inside, each allowed name has an address that exists nowhere else. A connection to it says which name was meant; the relay
//! outside dials the real host. Whatever else is dialled is refused by the kernel at once. [`Egress`] is a running way out, and
//! [`Rules`] are whom it reaches.
//!
//! Whoever answers for a name chooses its address, so each address is judged before it is dialled:
//!
//! ```
//! use ringfence_egress::guard::{OptIn, refusal};
//!
//! # fn main() -> Result<(), std::net::AddrParseError> {
//! assert_eq!(refusal("93.184.216.34".parse()?, &[]), None);
//! // A private address is reached where the policy says that a name may lead there.
//! assert!(refusal("10.1.2.3".parse()?, &[]).is_some_and(|class| class.is_opened_by(OptIn::PrivateName)));
//! // What hands out a cloud's credentials never is.
//! assert!(refusal("169.254.169.254".parse()?, &[]).is_some_and(|class| !class.is_opened_by(OptIn::PrivateName)));
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

mod asks;
mod buffers;
mod cursor;
mod dial;
pub mod dns;
pub mod front;
mod gate;
pub mod guard;
mod handshake;
pub mod hello;
mod hello_watch;
pub mod http;
mod inject;
mod joined;
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
mod segment;
mod service;
mod sockets;
pub mod spelling;

pub use asks::Asks;
pub use inject::Credential;
pub use lever::{Lever, Outcome};
pub use reached::Reached;
pub use refusals::{Attempt, Fresh, Refusal, Refusals, Transport, Why};
pub use resolver::{Addresses, Resolver, System};
pub use rules::Rules;
pub use service::{Egress, Inside, Listen};
