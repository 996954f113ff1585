//! What a program says tells which host it means. It must be the one whose address it dialled.
//!
//! Without this an allowed host that serves many names (a content network) would be a door to all of them. TLS names its host in
//! each hello, HTTP in each request; what is neither names none, and passes. A connection is never free of the check: TLS may begin
//! after other words, and name its host again ([`HelloWatch`]). Only at the port of HTTP are the bodies of requests not
//! looked through: what answers there speaks HTTP.

use crate::hello::{Hello, HelloReader, RECORD_HANDSHAKE};
use crate::hello_watch::{HelloWatch, NoName, Verdict, Watched, verdict};
use crate::http::{self, Body, BodyScan, FirstLine, Form, Head, HeadReader, HeadResult, Upgrade};

/// Looks at what goes out on a connection.
#[derive(Debug)]
pub(crate) struct Gate {
    host: String,
    port: u16,
    stage: Stage,
    held: Vec<u8>,
    /// How much of a greeting went out before it was whole: see [`Gate::release`].
    released: usize,
    /// Over everything that goes out, once it is known what the connection speaks.
    watch: Option<HelloWatch>,
    /// Over the first line of what seems to be another protocol.
    first_line: Option<FirstLine>,
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
    /// Nothing, until the server has said whether it goes on with WebSocket.
    Answer,
    /// TLS, or another protocol.
    Other,
}

/// What became of some bytes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Passage {
    /// They go out as they are.
    Same,
    /// These go out (there may be none yet).
    Pass(Vec<u8>),
    /// The connection ends.
    Refused(String),
}

/// What a gate waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pending {
    /// Whatever comes next.
    Nothing,
    /// The rest of a word that may be HTTP. It may go out if nothing more comes: see [`Gate::release`].
    Word,
    /// The rest of something that has begun to name a host, or to be a request.
    Begun,
    /// The server's answer to an offer of WebSocket: see [`Gate::answered`].
    Answer,
}

/// Fields that would make something else than HTTP of the connection, or keep it for a proxy.
const REMOVED: &[&str] = &["Upgrade", "HTTP2-Settings", "Proxy-Connection", "Proxy-Authorization"];
/// The same where the offer is of WebSocket, which belongs to the host of its request.
const REMOVED_BESIDE_WEBSOCKET: &[&str] = &["HTTP2-Settings", "Proxy-Connection", "Proxy-Authorization"];

const DISGUISED: &str = "HTTP cannot be read: the request line contains a byte that is not allowed there";

/// Methods whose requests have no body as a rule, so that some servers never look for one.
const WITHOUT_BODY: &[&str] = &["DELETE", "GET", "HEAD", "OPTIONS", "TRACE"];
const CLOSE: &[(&str, &[u8])] = &[("Connection", b"close")];

/// The longest beginning that may go out before it is known what it is.
const LONGEST_WORD: usize = 4096;

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
            released: 0,
            watch: None,
            first_line: None,
        }
    }

    /// Takes the next bytes.
    pub(crate) fn look(&mut self, bytes: &[u8]) -> Passage {
        if self.begins_http(bytes) {
            return Passage::Refused(DISGUISED.to_owned());
        }
        if let (Stage::Other, Some(watch)) = (&self.stage, &mut self.watch) {
            return match watch.look(bytes) {
                Watched::Same => Passage::Same,
                Watched::Pass(bytes) => Passage::Pass(bytes),
                Watched::Refused(why) => Passage::Refused(why),
            };
        }
        self.held.extend_from_slice(bytes);
        if let Stage::Greeting(reader, _) = &mut self.stage {
            match reader.read(&self.held) {
                Hello::NeedMore => return self.more_of_a_word(),
                Hello::NotTls => {}
                hello => {
                    return match verdict(hello, &self.host, NoName::Refused) {
                        Verdict::Refused(why) => Passage::Refused(why),
                        Verdict::NeedMore | Verdict::Good => self.other(NoName::Refused),
                    };
                }
            }
        }
        self.look_at_http()
    }

    /// How much was begun and not ended: a part of a greeting, of a head or of a later hello.
    pub(crate) fn held(&self) -> usize {
        self.held.len() + self.watch.as_ref().map_or(0, HelloWatch::held)
    }

    /// What it waits for.
    pub(crate) fn pending(&self) -> Pending {
        match &self.stage {
            Stage::Answer => Pending::Answer,
            Stage::Greeting(..) if self.is_word() && self.held.len() == self.released => Pending::Nothing,
            Stage::Greeting(..) if self.is_word() => Pending::Word,
            _ if self.held() == 0 => Pending::Nothing,
            _ => Pending::Begun,
        }
    }

    /// Forwards a first word whose protocol is still unknown, because no more bytes arrive. It is still looked at together with what
    /// follows: no server acts on a part of a request line.
    pub(crate) fn release(&mut self) -> Vec<u8> {
        if !self.is_word() {
            return Vec::new();
        }
        let word = self.held.get(self.released..).unwrap_or_default().to_vec();
        self.released = self.held.len();
        word
    }

    /// Takes the server's answer to an offer of WebSocket.
    pub(crate) fn answered(&mut self, is_accepted: bool) -> Passage {
        if is_accepted {
            return self.other(NoName::Passes);
        }
        self.stage = Stage::NextHead(HeadReader::new());
        self.look_at_http()
    }

    /// Is what is held neither the beginning of a hello nor that of a request, as far as it goes?
    fn is_word(&self) -> bool {
        let names_its_host = matches!(self.port, HTTP_PORT | TLS_PORT);
        let may_be_short = !names_its_host && self.held.len() <= LONGEST_WORD;
        may_be_short && self.held.first() != Some(&RECORD_HANDSHAKE) && !http::is_request(&self.held)
    }

    /// One that was let out goes on as it comes.
    fn more_of_a_word(&mut self) -> Passage {
        Passage::Pass(if self.released > 0 { self.release() } else { Vec::new() })
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
                    return self.pass(out);
                }
                self.stage = Stage::NextHead(HeadReader::new());
            }
            if self.held.is_empty() {
                return self.pass(out);
            }
            let (read, is_first) = match &mut self.stage {
                Stage::Greeting(_, reader) => (reader.read(&self.held), true),
                Stage::NextHead(reader) => (reader.read(&self.held), false),
                Stage::Body(_) | Stage::Answer | Stage::Other => return self.pass(out),
            };
            let head = match read {
                HeadResult::NeedMore if is_first => return self.more_of_a_word(),
                HeadResult::NeedMore => return self.pass(out),
                HeadResult::NotHttp if is_first => return self.neither(),
                HeadResult::NotHttp => return Passage::Refused("after HTTP came something else".to_owned()),
                HeadResult::Malformed(why) => return Passage::Refused(format!("HTTP cannot be read: {why}")),
                HeadResult::Head(head) => head,
            };
            let is_websocket = match self.check(&head, is_first) {
                Ok(is_websocket) => is_websocket,
                Err(why) => return Passage::Refused(why),
            };
            let removed = if is_websocket { REMOVED_BESIDE_WEBSOCKET } else { REMOVED };
            // A server that does not read the body of such a request takes it for the next one, unless the connection ends first.
            let set: &[(&str, &[u8])] =
                if head.length != Body::None && WITHOUT_BODY.contains(&head.method.as_str()) { CLOSE } else { &[] };
            let rewritten = http::rewrite(&self.held, &head, set, removed);
            if !rewritten.starts_with(self.held.get(..self.released).unwrap_or_default()) {
                return Passage::Refused("HTTP came too slowly to be written anew".to_owned());
            }
            out.extend(rewritten);
            self.held.drain(..head.end);
            if self.port != HTTP_PORT && self.watch.is_none() {
                self.watch = Some(HelloWatch::new(&self.host, NoName::Passes));
            }
            if is_websocket {
                self.stage = Stage::Answer;
                return self.pass(out);
            }
            self.stage = Stage::Body(BodyScan::new(head.length));
        }
    }

    /// Neither TLS nor HTTP.
    fn neither(&mut self) -> Passage {
        match self.port {
            HTTP_PORT => Passage::Refused("it is not HTTP, at the port of HTTP".to_owned()),
            TLS_PORT if !self.held.starts_with(b"SSH-") => {
                Passage::Refused("it is not TLS, at the port of TLS".to_owned())
            }
            _ => {
                self.first_line = Some(FirstLine::new());
                let held = std::mem::take(&mut self.held);
                if self.begins_http(&held) {
                    return Passage::Refused(DISGUISED.to_owned());
                }
                self.held = held;
                self.other(NoName::Passes)
            }
        }
    }

    /// Does the first line of another protocol turn out to be that of a request?
    fn begins_http(&mut self, bytes: &[u8]) -> bool {
        self.first_line.as_mut().is_some_and(|line| line.has_version(bytes))
    }

    /// Checks whom a request is for. True where it offers to go on with WebSocket.
    fn check(&self, head: &Head, is_first: bool) -> Result<bool, String> {
        // A host that carries whatever it is told, even to itself, could be told anything in there.
        if matches!(head.form, Form::Tunnel(_)) {
            return Err("HTTP asks for a tunnel".to_owned());
        }
        match &head.host {
            None => return Err("HTTP names no host".to_owned()),
            Some(asked) if asked.name != self.host => return Err(format!("HTTP names {}", asked.name)),
            Some(asked) if asked.port.is_some_and(|port| port != self.port) => {
                return Err(format!("HTTP names another port than {}", self.port));
            }
            Some(_) => {}
        }
        match head.upgrade {
            Upgrade::None | Upgrade::Http2 => Ok(false),
            // The first answer on a connection is the answer to its first request.
            Upgrade::WebSocket if is_first && head.method == "GET" && head.is_1_1 && head.length == Body::None => {
                Ok(true)
            }
            Upgrade::WebSocket => {
                Err("HTTP offers WebSocket in a request that is not the first, or not a plain GET".to_owned())
            }
            Upgrade::Other => Err("HTTP offers to go on in a protocol other than WebSocket".to_owned()),
        }
    }

    /// From now on everything goes out, unless a hello begins in it that does not name the host.
    fn other(&mut self, no_name: NoName) -> Passage {
        self.stage = Stage::Other;
        if self.watch.is_none() {
            self.watch = Some(HelloWatch::new(&self.host, no_name));
        }
        let held = std::mem::take(&mut self.held);
        self.pass(held)
    }

    /// What goes out of these bytes, but for what has gone already.
    fn pass(&mut self, out: Vec<u8>) -> Passage {
        let mut out = match self.watch.as_mut().map(|watch| watch.look(&out)) {
            None | Some(Watched::Same) => out,
            Some(Watched::Pass(out)) => out,
            Some(Watched::Refused(why)) => return Passage::Refused(why),
        };
        let released = std::mem::take(&mut self.released);
        if out.len() < released {
            return Passage::Refused("TLS begins in the middle of a word".to_owned());
        }
        out.drain(..released);
        Passage::Pass(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hello::samples::{hello, message, records};

    fn gate() -> Gate {
        Gate::new("a.example", 80)
    }

    const GET: &str = "GET / HTTP/1.1\r\nHost: a.example\r\n\r\n";

    #[test]
    fn each_request_is_looked_at() {
        let mut open = gate();
        assert_eq!(open.look(GET.as_bytes()), Passage::Pass(GET.into()));
        assert_eq!(open.look(GET.as_bytes()), Passage::Pass(GET.into()));
        let other = GET.replace("a.example", "b.example");
        assert_eq!(open.look(other.as_bytes()), Passage::Refused("HTTP names b.example".into()));
        let mut at_once = gate();
        assert!(matches!(at_once.look((GET.to_owned() + &other).as_bytes()), Passage::Refused(_)));
        // A request hidden in a body is a body.
        let post = format!("POST / HTTP/1.1\r\nHost: a.example\r\nContent-Length: {}\r\n\r\n{other}", other.len());
        assert_eq!(gate().look(post.as_bytes()), Passage::Pass(post.clone().into()));
        assert!(matches!(gate().look((post + &other).as_bytes()), Passage::Refused(_)));
    }

    /// What is no HTTP at first sight is looked at to the end of its first line.
    #[test]
    fn f1_a_disguised_request_line_does_not_pass() {
        for text in ["PROPFIND / \u{1} HTTP/1.1\r\n", "CONNECT {/x HTTP/1.1\r\n", "GET(x HTTP/1.1\r\n"] {
            for size in [1, 3, 100] {
                let mut gate = Gate::new("a.example", 8080);
                let passages: Vec<_> = text.as_bytes().chunks(size).map(|bytes| gate.look(bytes)).collect();
                assert!(passages.iter().any(|one| matches!(one, Passage::Refused(_))), "{size} {text:?}: {passages:?}");
            }
        }
    }

    /// CL.0: a server that reads no body of a GET would take this one for a request to another host.
    #[test]
    fn f1_a_connection_ends_after_a_body_that_servers_pass_over() {
        let evil = GET.replace("a.example", "b.example");
        for method in WITHOUT_BODY {
            let head = format!(
                "{method} / HTTP/1.1\r\nHost: a.example\r\nConnection: keep-alive\r\nContent-Length: {}",
                evil.len()
            );
            let passed = gate().look(format!("{head}\r\n\r\n{evil}").as_bytes());
            let Passage::Pass(text) = passed else { panic!("{method}: {passed:?}") };
            let text = String::from_utf8(text).unwrap();
            assert!(text.contains("\r\nConnection: close\r\n") && !text.contains("keep-alive"), "{text}");
        }
        let post = format!("POST / HTTP/1.1\r\nHost: a.example\r\nContent-Length: {}\r\n\r\n{evil}", evil.len());
        assert_eq!(gate().look(post.as_bytes()), Passage::Pass(post.clone().into()));
    }

    #[test]
    fn byte_by_byte_is_the_same() {
        let text = format!("{GET}POST /x HTTP/1.1\r\nHost: a.example:80\r\nContent-Length: 3\r\n\r\nabc{GET}");
        let (mut gate, mut out) = (gate(), Vec::new());
        for byte in text.as_bytes() {
            match gate.look(&[*byte]) {
                Passage::Pass(bytes) => out.extend(bytes),
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
            let free = Passage::Pass(words.to_vec());
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
        assert_eq!(gate().look(upgrade.as_bytes()), Passage::Pass(GET.into()));
        for other in ["TLS/1.0", "websocket, x", "x"] {
            refused(&mut gate(), upgrade.replace("h2c", other).as_bytes(), "in a protocol other than WebSocket");
        }
    }

    #[track_caller]
    fn refused(gate: &mut Gate, bytes: &[u8], why: &str) {
        match gate.look(bytes) {
            Passage::Refused(said) => assert!(said.contains(why), "{said}"),
            other => panic!("{} is not refused: {other:?}", bytes.escape_ascii()),
        }
    }

    #[track_caller]
    fn passes(gate: &mut Gate, bytes: &[u8]) {
        match gate.look(bytes) {
            Passage::Same => {}
            other => assert_eq!(other, Passage::Pass(bytes.to_vec()), "{}", bytes.escape_ascii()),
        }
    }

    const OFFER: &[u8] = b"GET /x HTTP/1.1\r\nHost: a.example\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n";
    const EVIL: &[u8] = b"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n";

    /// F7: the request names the host, and what the server agrees to go on with is that host's.
    #[test]
    fn f7_websocket_passes_once_the_server_agrees() {
        let mut open = gate();
        passes(&mut open, OFFER);
        assert_eq!(open.pending(), Pending::Answer);
        assert_eq!(open.answered(true), Passage::Pass(Vec::new()));
        passes(&mut open, EVIL);
        passes(&mut open, b"\x81\x85abcd");
        refused(&mut open, &hello("evil.example"), "TLS names evil.example");
    }

    /// F7: a server that does not agree still speaks HTTP, also where the client went on without waiting.
    #[test]
    fn f7_after_a_refused_websocket_each_request_is_looked_at() {
        let mut open = gate();
        passes(&mut open, OFFER);
        assert_eq!(open.answered(false), Passage::Pass(Vec::new()));
        passes(&mut open, GET.as_bytes());
        refused(&mut open, EVIL, "HTTP names evil.example");
        let mut hasty = gate();
        assert_eq!(hasty.look(&[OFFER, EVIL].concat()), Passage::Pass(OFFER.to_vec()));
        assert!(matches!(hasty.answered(false), Passage::Refused(_)));
        // With pipelined requests the answer to a later one cannot be identified.
        let mut late = gate();
        passes(&mut late, GET.as_bytes());
        refused(&mut late, OFFER, "not the first");
        let post = "POST / HTTP/1.1\r\nHost: a.example\r\nUpgrade: websocket\r\nContent-Length: 1\r\n\r\n";
        refused(&mut gate(), post.as_bytes(), "not a plain GET");
        refused(
            &mut gate(),
            &OFFER
                .escape_ascii()
                .to_string()
                .replace("a.example", "evil.example")
                .replace("\\r\\n", "\r\n")
                .into_bytes(),
            "HTTP names evil.example",
        );
    }

    /// F7: what cannot be looked at is refused with what helps.
    #[test]
    fn f7_http_2_and_trailers_say_what_they_are() {
        refused(&mut gate(), b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "use TLS, or list the host's address");
        let chunked = "POST / HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: y\r\n\r\n";
        refused(&mut gate(), chunked.as_bytes(), "trailers");
    }

    /// F1: the answer to the first hello may be that another one is wanted, which a server then takes its host from.
    #[test]
    fn f1_every_hello_has_to_name_the_host() {
        let again = b"\x14\x03\x03\0\x01\x01";
        let early_data = b"\x17\x03\x03\0\x04\x99\x98\x97\x96";
        for between in [&b""[..], again, early_data, &[&again[..], early_data].concat()] {
            for port in [443, 8443] {
                let mut open = Gate::new("a.example", port);
                passes(&mut open, &hello("a.example"));
                passes(&mut open, between);
                passes(&mut open, &hello("a.example"));
                refused(&mut open, &hello("evil.example"), "TLS names evil.example");
                let mut at_once = Gate::new("a.example", port);
                let all = [&hello("a.example")[..], between, &hello("evil.example")].concat();
                refused(&mut at_once, &all, "TLS names evil.example");
                let mut none = Gate::new("a.example", port);
                passes(&mut none, &hello("a.example"));
                refused(&mut none, &records(&message(None, &[]), 9_999), "TLS names no host");
            }
        }
    }

    /// F2: a few bytes before it do not hide a hello, nor does any other protocol, nor a request of HTTP that the server takes for
    /// mistakes.
    #[test]
    fn f2_tls_after_other_words_has_to_name_the_host() {
        let post = "POST / HTTP/1.1\r\nHost: a.example\r\nContent-Length: 9999\r\n\r\n";
        for words in [
            &b"EHLO x\r\nSTARTTLS\r\n"[..],
            b"\0\0\0\x08\x04\xd2\x16\x2f",
            b"\x30\x1d\x02\x01",
            b"\x16\x01\0\0\x07\0",
            post.as_bytes(),
        ] {
            let gate = || Gate::new("a.example", 587);
            for size in [1, 5, 9_999] {
                let mut open = gate();
                passes(&mut open, words);
                passes(&mut open, &records(&message(Some("a.example"), &[]), size));
                passes(&mut open, b"and so on");
                let mut evil = gate();
                passes(&mut evil, words);
                refused(&mut evil, &records(&message(Some("evil.example"), &[]), size), "TLS names evil.example");
            }
            refused(&mut gate(), &[words, &hello("evil.example")].concat(), "TLS names evil.example");
            // Many clients of databases name none.
            passes(&mut gate(), &[words, &records(&message(None, &[]), 9_999)].concat());
        }
        refused(&mut Gate::new("a.example", 8443), b"\x15\x03\x01\0\x02\x01\x64", "TLS cannot be read");
        // At the port of HTTP a body is a body.
        passes(&mut gate(), &[post.as_bytes(), &hello("evil.example")].concat());
    }

    /// F6: a word that may become a request goes out when nothing follows, and is still looked at together with what does.
    #[test]
    fn f6_a_single_word_goes_out_and_is_still_looked_at() {
        let gate = || Gate::new("a.example", 4222);
        let mut word = gate();
        assert_eq!((word.look(b"PING"), word.pending()), (Passage::Pass(Vec::new()), Pending::Word));
        assert_eq!((word.release(), word.pending()), (b"PING".to_vec(), Pending::Nothing));
        assert_eq!(word.look(b"PONG"), Passage::Pass(b"PONG".to_vec()));
        assert_eq!(word.look(b"\0"), Passage::Pass(b"\0".to_vec()));
        let mut binary = gate();
        passes(&mut binary, b"PING\0\n");
        passes(&mut binary, EVIL);
        // In one line with what came before it could be a request.
        refused(&mut word, EVIL, DISGUISED);
        let mut request = gate();
        request.look(b"GET");
        request.release();
        assert_eq!(request.look(b" "), Passage::Pass(b" ".to_vec()));
        assert_eq!(request.look(b"/ HTTP/1.1\r\nHost:"), Passage::Pass(Vec::new()));
        assert_eq!(request.pending(), Pending::Begun);
        assert_eq!(
            request.look(b" a.example\r\n\r\n"),
            Passage::Pass(b"/ HTTP/1.1\r\nHost: a.example\r\n\r\n".to_vec())
        );
        refused(&mut request, EVIL, "HTTP names evil.example");
        let mut evil = gate();
        evil.look(b"GET");
        evil.release();
        refused(&mut evil, b" http://evil.example/x\r\n", "HTTP cannot be read");
        // What has begun to be TLS stays, and so does everything at the ports of one protocol.
        for (port, bytes) in [
            (4222, &[22][..]),
            (4222, &hello("a.example")[..50]),
            (80, b"GET"),
            (443, b"SSH"),
            (4222, b"GET / HTTP/1.1"),
        ] {
            let mut held = Gate::new("a.example", port);
            held.look(bytes);
            assert_eq!((held.pending(), held.release()), (Pending::Begun, Vec::new()), "{}", bytes.escape_ascii());
        }
        for words in [
            &b"CONNECT {\"verbose\":false}\r\n"[..],
            b"CONNECT\naccept-version:1.2\n\n\0",
            b"OPTIONS rtsp://a.example/ RTSP/1.0\r\n\r\n",
        ] {
            passes(&mut gate(), words);
        }
    }
}
