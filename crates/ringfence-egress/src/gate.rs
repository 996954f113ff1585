//! What a program says tells which host it means. It must be the one whose address it dialled.
//!
//! Without this an allowed host that serves many names (a content network) would be a door to all of them. TLS names its host
//! once, HTTP in each request; what is neither names none, and passes.

use crate::hello::{Hello, HelloReader};
use crate::http::{self, BodyScan, Form, Head, HeadReader, HeadResult};

/// Looks at what goes out on a connection.
#[derive(Debug)]
pub(crate) struct Gate {
    host: String,
    port: u16,
    stage: Stage,
    held: Vec<u8>,
}

/// What is expected next.
#[derive(Debug)]
enum Stage {
    /// The first words, of whatever protocol.
    Greeting(HelloReader, HeadReader),
    /// The head of a further HTTP request.
    NextHead(HeadReader),
    /// The body of one.
    Body(BodyScan),
}

/// What became of some bytes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Passage {
    /// These go out (there may be none yet); the next ones are looked at as well.
    Looking(Vec<u8>),
    /// These go out, and whatever follows is not looked at.
    Free(Vec<u8>),
    /// The connection ends.
    Refused(String),
}

/// Fields that would make something else than HTTP of the connection, or keep it for a proxy.
const REMOVED: &[&str] = &["Upgrade", "HTTP2-Settings", "Proxy-Connection", "Proxy-Authorization"];

/// Ports at which everybody speaks one protocol, which names its host. What is something else there hides it, but for SSH, which
/// some hosts offer at the port of TLS and which has no names.
const TLS_PORT: u16 = 443;
const HTTP_PORT: u16 = 80;

impl Gate {
    pub(crate) fn new(host: &str, port: u16) -> Self {
        Self {
            host: host.to_owned(),
            port,
            stage: Stage::Greeting(HelloReader::new(), HeadReader::new()),
            held: Vec::new(),
        }
    }

    /// Takes the next bytes.
    pub(crate) fn look(&mut self, bytes: &[u8]) -> Passage {
        self.held.extend_from_slice(bytes);
        if let Stage::Greeting(reader, _) = &mut self.stage {
            match reader.read(&self.held) {
                Hello::NeedMore => return Passage::Looking(Vec::new()),
                Hello::Name(name) if name == self.host => return self.free(),
                Hello::Name(name) => return Passage::Refused(format!("TLS names {name}")),
                Hello::NoName => return Passage::Refused("TLS names no host".to_owned()),
                Hello::Encrypted => return Passage::Refused("TLS hides which host it means (ECH)".to_owned()),
                Hello::Malformed(why) => return Passage::Refused(format!("TLS cannot be read: {why}")),
                Hello::NotTls => {}
            }
        }
        self.look_at_http()
    }

    /// How much was begun and not ended: a part of a greeting or of a head.
    pub(crate) fn held(&self) -> usize {
        self.held.len()
    }

    fn look_at_http(&mut self) -> Passage {
        let mut out = Vec::new();
        loop {
            if let Stage::Body(scan) = &mut self.stage {
                let length = match scan.take(&self.held) {
                    Ok(length) => length,
                    Err(why) => return Passage::Refused(format!("HTTP cannot be read: {why}")),
                };
                out.extend(self.held.drain(..length));
                if !scan.is_done() {
                    return Passage::Looking(out);
                }
                self.stage = Stage::NextHead(HeadReader::new());
            }
            if self.held.is_empty() {
                return Passage::Looking(out);
            }
            let (read, is_first) = match &mut self.stage {
                Stage::Greeting(_, reader) => (reader.read(&self.held), true),
                Stage::NextHead(reader) => (reader.read(&self.held), false),
                Stage::Body(_) => return Passage::Looking(out),
            };
            let head = match read {
                HeadResult::NeedMore => return Passage::Looking(out),
                HeadResult::NotHttp if is_first => return self.neither(),
                HeadResult::NotHttp => return Passage::Refused("after HTTP came something else".to_owned()),
                HeadResult::Malformed(why) => return Passage::Refused(format!("HTTP cannot be read: {why}")),
                HeadResult::Head(head) => head,
            };
            if let Err(why) = self.check(&head) {
                return Passage::Refused(why);
            }
            let rest = self.held.split_off(head.end);
            out.extend(http::rewrite(&self.held, &head, &[], REMOVED));
            (self.held, self.stage) = (rest, Stage::Body(BodyScan::new(head.length)));
        }
    }

    /// Neither TLS nor HTTP.
    fn neither(&mut self) -> Passage {
        match self.port {
            HTTP_PORT => Passage::Refused("it is not HTTP, at the port of HTTP".to_owned()),
            TLS_PORT if !self.held.starts_with(b"SSH-") => {
                Passage::Refused("it is not TLS, at the port of TLS".to_owned())
            }
            _ => self.free(),
        }
    }

    fn check(&self, head: &Head) -> Result<(), String> {
        // A host that carries whatever it is told, even to itself, could be told anything in there.
        if matches!(head.form, Form::Tunnel(_)) {
            return Err("HTTP asks for a tunnel".to_owned());
        }
        match &head.host {
            None => Err("HTTP names no host".to_owned()),
            Some(asked) if asked.name != self.host => Err(format!("HTTP names {}", asked.name)),
            Some(asked) if asked.port.is_some_and(|port| port != self.port) => {
                Err(format!("HTTP names another port than {}", self.port))
            }
            Some(_) => Ok(()),
        }
    }

    fn free(&mut self) -> Passage {
        Passage::Free(std::mem::take(&mut self.held))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gate() -> Gate {
        Gate::new("a.example", 80)
    }

    const GET: &str = "GET / HTTP/1.1\r\nHost: a.example\r\n\r\n";

    #[test]
    fn each_request_is_looked_at() {
        let mut open = gate();
        assert_eq!(open.look(GET.as_bytes()), Passage::Looking(GET.into()));
        assert_eq!(open.look(GET.as_bytes()), Passage::Looking(GET.into()));
        let other = GET.replace("a.example", "b.example");
        assert_eq!(open.look(other.as_bytes()), Passage::Refused("HTTP names b.example".into()));
        let mut at_once = gate();
        assert!(matches!(at_once.look((GET.to_owned() + &other).as_bytes()), Passage::Refused(_)));
        // A request hidden in a body is a body.
        let post = format!("POST / HTTP/1.1\r\nHost: a.example\r\nContent-Length: {}\r\n\r\n{other}", other.len());
        assert_eq!(gate().look(post.as_bytes()), Passage::Looking(post.clone().into()));
        assert!(matches!(gate().look((post + &other).as_bytes()), Passage::Refused(_)));
    }

    #[test]
    fn byte_by_byte_is_the_same() {
        let text = format!("{GET}POST /x HTTP/1.1\r\nHost: a.example:80\r\nContent-Length: 3\r\n\r\nabc{GET}");
        let (mut gate, mut out) = (gate(), Vec::new());
        for byte in text.as_bytes() {
            match gate.look(&[*byte]) {
                Passage::Looking(bytes) => out.extend(bytes),
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(out, text.as_bytes());
        assert_eq!(gate.held(), 0);
    }

    #[test]
    fn other_protocols_pass() {
        for (port, words, passes) in [
            (22, &b"SSH-2.0-x\r\n"[..], true),
            (443, b"SSH-2.0-x\r\n", true),
            (443, &[0, 1, 2], false),
            (443, b"PROXY TCP4 1.1.1.1 1.1.1.1 1 1\r\n", false),
            (80, b"SSH-2.0-x\r\n", false),
            (5432, &[0, 1, 2], true),
        ] {
            let free = Passage::Free(words.to_vec());
            assert_eq!(Gate::new("a.example", port).look(words) == free, passes, "{port} {words:?}");
        }
        // But not in the middle of HTTP.
        let mut later = gate();
        later.look(GET.as_bytes());
        assert!(matches!(later.look(&[0, 1, 2]), Passage::Refused(_)));
    }

    #[test]
    fn nothing_else_is_made_of_the_connection() {
        let tunnel = "CONNECT a.example:80 HTTP/1.1\r\nHost: a.example:80\r\n\r\n";
        assert_eq!(gate().look(tunnel.as_bytes()), Passage::Refused("HTTP asks for a tunnel".into()));
        let upgrade = "GET / HTTP/1.1\r\nHost: a.example\r\nUpgrade: h2c\r\n\r\n";
        assert_eq!(gate().look(upgrade.as_bytes()), Passage::Looking(GET.into()));
        let upgrade = upgrade.replace("h2c", "websocket");
        assert_eq!(gate().look(upgrade.as_bytes()), Passage::Looking(GET.into()));
    }
}
