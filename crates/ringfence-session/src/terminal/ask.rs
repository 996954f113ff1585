//! A question on the user's terminal, in the middle of what a program shows there.
//!
//! While it stands there the program's output waits, and nothing that is typed reaches the program. What was typed before the
//! question is no answer to it: whatever waits is thrown away, and the question is only open once nothing was typed for a
//! moment. An answer is one letter and the key Enter, and nothing else on that line. Whatever else is typed is asked again.

use std::time::{Duration, Instant};

/// Nothing may be typed for this long before an answer counts.
const QUIET: Duration = Duration::from_millis(700);
/// Longer lines are no answer.
const LONGEST: usize = 8;

/// What the user said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    /// Yes, this time.
    Once,
    /// Yes, for this command.
    Command,
    /// Yes, for this session.
    Session,
    /// No.
    No,
}

/// A question for the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prompt {
    /// Names it.
    pub id: u64,
    /// What is asked, with nothing in it that moves a cursor.
    pub text: String,
}

/// A question that stands on the terminal.
#[derive(Debug)]
pub(super) struct Asking {
    pub(super) id: u64,
    stage: Stage,
    line: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Since then nothing was typed.
    Quiet(Instant),
    /// What is typed now is an answer.
    Open,
}

const CHOICES: &str = "ringfence: o = once, c = this command, s = this session, n = no; then Enter: ";

impl Asking {
    /// Begins, and returns what is to be shown: colours, character sets and scroll regions of the program do not change it.
    pub(super) fn begin(prompt: &Prompt, now: Instant) -> (Self, String) {
        let shown = format!("\x1b7\x1b[r\x1b8\x1b7\x1b[0m\x1b(B\x0f\r\n{}\r\n", prompt.text);
        (Self { id: prompt.id, stage: Stage::Quiet(now), line: Vec::new() }, shown)
    }

    /// What is to be shown once nothing was typed for a moment.
    pub(super) fn opens(&mut self, now: Instant) -> Option<&'static str> {
        match self.stage {
            Stage::Quiet(since) if now.duration_since(since) >= QUIET => {
                self.stage = Stage::Open;
                Some(CHOICES)
            }
            _ => None,
        }
    }

    /// Takes what was typed: the answer, if it is one, and what is to be shown.
    pub(super) fn typed(&mut self, bytes: &[u8], now: Instant) -> (Option<Key>, String) {
        let mut shown = String::new();
        for byte in bytes {
            if let Stage::Quiet(since) = &mut self.stage {
                *since = now;
                continue;
            }
            match byte {
                b'\r' | b'\n' => {
                    let reply = match self.line.as_slice() {
                        b"o" => Some(Key::Once),
                        b"c" => Some(Key::Command),
                        b"s" => Some(Key::Session),
                        b"n" => Some(Key::No),
                        _ => None,
                    };
                    self.line.clear();
                    if reply.is_some() {
                        return (reply, shown);
                    }
                    // Somebody types to the program: it begins anew.
                    self.stage = Stage::Quiet(now);
                    shown.push_str("\r\n");
                }
                // The key that ends what one does not want.
                0x03 => return (Some(Key::No), shown),
                0x7f | 0x08 if self.line.pop().is_some() => shown.push_str("\x08 \x08"),
                b' '..=b'~' if self.line.len() < LONGEST => {
                    self.line.push(*byte);
                    shown.push(char::from(*byte));
                }
                // What cannot be in an answer stays on the line, so that it is none.
                _ if self.line.len() < LONGEST => self.line.push(*byte),
                _ => {}
            }
        }
        (None, shown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asking(now: Instant) -> Asking {
        Asking::begin(&Prompt { id: 1, text: "may it?".into() }, now).0
    }

    /// K12: what is typed before the question is open is no answer, however long it goes on.
    #[test]
    fn k12_what_was_typed_ahead_is_no_answer() {
        let start = Instant::now();
        let (mut asking, mut at) = (asking(start), start);
        for _ in 0..20 {
            assert_eq!(asking.typed(b"o\r", at).0, None);
            at += QUIET / 2;
            assert_eq!(asking.opens(at), None);
        }
        at += QUIET;
        assert!(asking.opens(at).is_some());
        assert_eq!(asking.opens(at), None, "it opens once");
        assert_eq!(asking.typed(b"o\r", at).0, Some(Key::Once));
    }

    /// K12: one letter and Enter, and nothing else on the line.
    #[test]
    fn k12_an_answer_is_one_letter_and_enter() {
        for (typed, expected) in [
            (&b"o\r"[..], Some(Key::Once)),
            (b"c\n", Some(Key::Command)),
            (b"s\r", Some(Key::Session)),
            (b"n\r", Some(Key::No)),
            (b"\x03", Some(Key::No)),
            (b"x\x7fo\r", Some(Key::Once)),
            (b"o", None),
            (b"\r", None),
            (b"y\r", None),
            (b"yes\r", None),
            (b"oo\r", None),
            (b" o\r", None),
            (b"\x1b[Ao\r", None),
            (b"\x1b[200~o\r", None),
            (b"o\0\r", None),
            (b"ooooooooooooooooooooooo\r", None),
            // After a line that is none it must be quiet again.
            (b"hello\ro\r", None),
        ] {
            let start = Instant::now();
            let mut asking = asking(start);
            asking.opens(start + QUIET);
            assert_eq!(asking.typed(typed, start + QUIET).0, expected, "{typed:?}");
            let mut apart = super::tests::asking(start);
            apart.opens(start + QUIET);
            let replies = typed.iter().find_map(|byte| apart.typed(&[*byte], start + QUIET).0);
            assert_eq!(replies, expected, "{typed:?} byte by byte");
        }
    }

    /// K12: what is echoed moves no cursor but to take a letter back.
    #[test]
    fn k12_what_is_typed_is_echoed_plainly() {
        let start = Instant::now();
        let mut asking = asking(start);
        asking.opens(start + QUIET);
        assert_eq!(asking.typed(b"a\x1b]0;x\x07b", start + QUIET).1, "a]0;xb");
    }
}
