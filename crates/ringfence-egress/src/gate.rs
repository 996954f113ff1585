//! What a program says first tells which host it means. It must be the one whose address it dialled.
//!
//! Without this an allowed host that serves many names (a content network) would be a door to all of them.

use crate::hello::{self, Hello};
use crate::http::{self, Request};

/// Looks at the first bytes of a connection.
#[derive(Debug)]
pub(crate) struct Gate {
    host: String,
    port: u16,
    held: Vec<u8>,
}

/// What became of the first bytes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Passage {
    /// More must be seen.
    Held,
    /// These go out; whatever follows is no longer looked at.
    Through(Vec<u8>),
    /// The connection ends.
    Refused(String),
}

impl Gate {
    pub(crate) fn new(host: &str, port: u16) -> Self {
        Self { host: host.to_owned(), port, held: Vec::new() }
    }

    /// Takes the next bytes.
    pub(crate) fn look(&mut self, bytes: &[u8]) -> Passage {
        self.held.extend_from_slice(bytes);
        match hello::client_hello(&self.held) {
            Hello::NeedMore => Passage::Held,
            Hello::Name(name) if name == self.host => self.through(),
            Hello::Name(name) => Passage::Refused(format!("TLS names {name}")),
            Hello::NoName => Passage::Refused("TLS names no host".to_owned()),
            Hello::Encrypted => Passage::Refused("TLS hides which host it means (ECH)".to_owned()),
            Hello::Malformed(why) => Passage::Refused(format!("TLS cannot be read: {why}")),
            Hello::NotTls => self.look_for_http(),
        }
    }

    /// A connection that ends before it could be read whole is no request of anybody.
    pub(crate) fn is_undecided(&self) -> bool {
        !self.held.is_empty()
    }

    fn look_for_http(&mut self) -> Passage {
        match http::request_host(&self.held) {
            Request::NeedMore => Passage::Held,
            Request::NotHttp => self.through(),
            Request::Host { name, port } if name == self.host && port.is_none_or(|port| port == self.port) => {
                self.one_request()
            }
            Request::Host { name, .. } => Passage::Refused(format!("HTTP names {name}")),
            Request::NoHost => Passage::Refused("HTTP names no host".to_owned()),
            Request::Malformed(why) => Passage::Refused(format!("HTTP cannot be read: {why}")),
        }
    }

    /// A second request on the same connection could name another host, so the server is asked to take one only.
    fn one_request(&mut self) -> Passage {
        match http::parse_head(&self.held) {
            http::HeadResult::Head(head) => {
                let remove = ["connection", "keep-alive", "proxy-connection", "upgrade", "http2-settings"];
                Passage::Through(http::rewrite(&self.held, &head, &[("Connection", b"close")], &remove))
            }
            http::HeadResult::NeedMore => Passage::Held,
            http::HeadResult::NotHttp => self.through(),
            http::HeadResult::Malformed(why) => Passage::Refused(format!("HTTP cannot be read: {why}")),
        }
    }

    fn through(&mut self) -> Passage {
        Passage::Through(std::mem::take(&mut self.held))
    }
}
