//! What a program does with the screen, as far as its output tells: does it draw on a screen of its own, and does a line begin
//! where the cursor is? It is a guess from outside, only used to find a moment in which a line of ours spoils nothing.

/// Follows the output of a payload.
#[derive(Debug)]
pub(super) struct Follower {
    state: State,
    /// The number that is being read.
    number: u32,
    /// Does this sequence name the other screen?
    names_other: bool,
    is_other: bool,
    begins_line: bool,
    /// Was anything written that a terminal does not just show?
    commands: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Text,
    /// Behind an escape.
    Escape,
    /// Behind `ESC [`.
    Control,
    /// Behind `ESC [ ?`.
    Private,
    /// In a title or the like, up to its end.
    Words,
    /// Behind an escape in there, which may be the end.
    WordsEscape,
}

/// Numbers of the screen that full-screen programs draw on.
const OTHER_SCREENS: [u32; 3] = [47, 1047, 1049];

/// A program's sequence that has no end is ended; the cursor stays where it is; then the whole screen scrolls, with the usual
/// colours and characters, lines that are too long go on in the next, and nothing is pushed aside.
const PLAIN: &str = "\x18\x1b7\x1b[r\x1b8\x1b[0m\x1b(B\x0f\x1b[?7h\x1b[4l";
/// The same, on the screen that shells use.
const PLAIN_FROM_OTHER: &str = "\x18\x1b[?1049l\x1b7\x1b[r\x1b8\x1b[0m\x1b(B\x0f\x1b[?7h\x1b[4l";

impl Follower {
    pub(super) fn new() -> Self {
        Self { state: State::Text, number: 0, names_other: false, is_other: false, begins_line: true, commands: false }
    }

    /// Is the cursor where a line begins, on the screen that shells use?
    pub(super) fn is_calm(&self) -> bool {
        self.state == State::Text && self.begins_line && !self.is_other
    }

    /// What makes a terminal show lines of ours as they are, after a program that may have left it in any state: a scroll region
    /// of one line would show only the last of many, and concealed text none.
    pub(super) fn to_plain(&self) -> &'static str {
        match (self.commands, self.is_other) {
            (false, _) => "",
            (true, false) => PLAIN,
            (true, true) => PLAIN_FROM_OTHER,
        }
    }

    /// Takes what is written next.
    pub(super) fn follow(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.one(*byte);
        }
    }

    fn one(&mut self, byte: u8) {
        self.commands |= matches!(byte, 0x0e | 0x1b | 0x9b);
        self.state = match (self.state, byte) {
            (State::Words, 0x07) | (State::WordsEscape, b'\\') => State::Text,
            (State::Words, 0x1b) => State::WordsEscape,
            (State::Words | State::WordsEscape, _) => State::Words,
            (_, 0x1b) => State::Escape,
            (State::Text, b'\n') => {
                self.begins_line = true;
                State::Text
            }
            // A return may be in the middle of a line that is drawn again.
            (State::Text, b'\r') => State::Text,
            (State::Text, _) => {
                self.begins_line = false;
                State::Text
            }
            (State::Escape, b'[') => State::Control,
            (State::Escape, b']' | b'P' | b'_' | b'^' | b'X') => State::Words,
            (State::Escape, b'c') => {
                (self.is_other, self.begins_line) = (false, true);
                State::Text
            }
            (State::Escape, _) => self.moved(),
            (State::Control, b'?') => {
                (self.number, self.names_other) = (0, false);
                State::Private
            }
            (State::Control, b'@'..=b'~') => self.moved(),
            (State::Control, _) => State::Control,
            (State::Private, b'0'..=b'9') => {
                self.number = self.number.saturating_mul(10).saturating_add(u32::from(byte - b'0'));
                State::Private
            }
            (State::Private, b';') => {
                self.number_ends();
                State::Private
            }
            (State::Private, b'h' | b'l') => {
                self.number_ends();
                if self.names_other {
                    (self.is_other, self.begins_line) = (byte == b'h', false);
                }
                State::Text
            }
            (State::Private, b'@'..=b'~') => State::Text,
            (State::Private, _) => State::Private,
        };
    }

    /// The cursor may be anywhere.
    fn moved(&mut self) -> State {
        self.begins_line = false;
        State::Text
    }

    fn number_ends(&mut self) {
        self.names_other |= OTHER_SCREENS.contains(&self.number);
        self.number = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(written: &str, is_calm: bool) {
        let mut follower = Follower::new();
        follower.follow(written.as_bytes());
        assert_eq!(follower.is_calm(), is_calm, "{written:?}");
        let mut apart = Follower::new();
        written.as_bytes().chunks(1).for_each(|byte| apart.follow(byte));
        assert_eq!(apart.is_calm(), is_calm, "{written:?} byte by byte");
    }

    #[test]
    fn what_a_program_leaves_is_undone() {
        for (written, plain) in [
            ("one\r\ntwo \u{e9}", ""),
            ("\u{1b}[24;24r", PLAIN),
            ("\u{1b}[8m", PLAIN),
            ("\u{e}", PLAIN),
            ("\u{9b}8m", PLAIN),
            ("\u{1b}[?1049h", PLAIN_FROM_OTHER),
            ("\u{1b}[?1049h\u{1b}[?1049l", PLAIN),
        ] {
            let mut follower = Follower::new();
            follower.follow(written.as_bytes());
            assert_eq!(follower.to_plain(), plain, "{written:?}");
        }
    }

    #[test]
    fn calm_moments() {
        check("", true);
        check("one\r\n", true);
        check("half", false);
        check("one\r\nhalf", false);
        check("50%\r", false);
        // A full-screen program, and its end.
        check("\u{1b}[?1049h\u{1b}[2J\r\n", false);
        check("\u{1b}[?1049h x \u{1b}[?1049l", false);
        check("\u{1b}[?1049h x \u{1b}[?1049l\r\n", true);
        check("\u{1b}[?25;1049h\r\n", false);
        check("\u{1b}[?47h\r\n", false);
        check("\u{1b}[?1049h\u{1b}c\r\n", true);
        // The cursor is shown again, and a title is set: nothing moved.
        check("one\r\n\u{1b}[?25h", true);
        check("one\r\n\u{1b}]0;title\n\u{7}", true);
        check("one\r\n\u{1b}]0;title\u{1b}\\", true);
        check("one\r\n\u{1b}]0;tit", false);
        // What draws a line again goes up first.
        check("one\r\n\u{1b}[1A", false);
        check("one\r\n\u{1b}[", false);
    }
}
