//! Whether a server agrees to go on in another protocol: the status of its first answer on a connection.

use super::MAX_HEAD;

/// Reads the server's side of a connection until the first final status. Answers on the way (100 Continue) are passed over.
#[derive(Clone, Debug)]
pub(crate) struct AnswerReader {
    head: Vec<u8>,
    /// How much of it was looked through for its end.
    seen: usize,
    said: Option<bool>,
}

const VERSION: &[u8] = b"HTTP/1.";
/// `HTTP/1.1 101`, and what follows it.
const STATUS_END: usize = 12;

impl AnswerReader {
    /// At the start of a connection.
    pub(crate) fn new() -> Self {
        Self { head: Vec::new(), seen: 0, said: None }
    }

    /// True once the server has agreed, and false once it has not.
    pub(crate) fn said(&self) -> Option<bool> {
        self.said
    }

    /// Takes the next bytes.
    pub(crate) fn read(&mut self, bytes: &[u8]) {
        if self.said.is_some() {
            return;
        }
        self.head.extend(bytes.iter().take(MAX_HEAD));
        self.said = self.status();
        if self.said.is_some() {
            self.head = Vec::new();
        }
    }

    fn status(&mut self) -> Option<bool> {
        loop {
            let version = self.head.get(..VERSION.len().min(self.head.len())).unwrap_or_default();
            if !VERSION.starts_with(version) {
                return Some(false);
            }
            let after = *self.head.get(STATUS_END)?;
            let status = self.head.get(VERSION.len() + 1..STATUS_END).unwrap_or_default();
            if status == b" 101" {
                return Some(matches!(after, b' ' | b'\r'));
            }
            if !status.starts_with(b" 1") {
                return Some(false);
            }
            let from = self.seen.saturating_sub(3);
            let end = self.head.get(from..).unwrap_or_default().windows(4).position(|end| end == b"\r\n\r\n");
            self.seen = self.head.len();
            match end {
                Some(end) => {
                    self.head.drain(..from + end + 4);
                    self.seen = 0;
                }
                None if self.head.len() >= MAX_HEAD => return Some(false),
                None => return None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(bytes: &[u8], expected: Option<bool>) {
        let mut whole = AnswerReader::new();
        whole.read(bytes);
        assert_eq!(whole.said(), expected, "{}", bytes.escape_ascii());
        let mut pieces = AnswerReader::new();
        bytes.iter().for_each(|byte| pieces.read(&[*byte]));
        assert_eq!(pieces.said(), expected, "{} by bytes", bytes.escape_ascii());
    }

    #[test]
    fn f7_the_status_of_the_first_answer_is_read() {
        check(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n\x81\x00", Some(true));
        check(b"HTTP/1.1 101\r\n", Some(true));
        check(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 101 Switching Protocols\r\n", Some(true));
        check(b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 426 Upgrade Required\r\n", Some(false));
        check(b"HTTP/1.1 1010 x", Some(false));
        check(b"HTTP/1.1 200 OK\r\n", Some(false));
        check(b"HTTP/2 101 x\r\n", Some(false));
        check(b"220 mail", Some(false));
        check(b"", None);
        check(b"HTTP/1.1 10", None);
        check(b"HTTP/1.1 100 Continue\r\nX: y\r\n", None);
        check(&[&b"HTTP/1.1 100 x\r\n"[..], &[b'a'; MAX_HEAD]].concat(), Some(false));
    }
}
