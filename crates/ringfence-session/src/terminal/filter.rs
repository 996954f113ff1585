//! What of the payload's output reaches the user's terminal: a closed list.
//!
//! A terminal is a program that takes orders from what is printed on it. Some of those orders answer with text that the agent
//! chose, as if the user had typed it (title reports, answerback); some read or write the clipboard, print, load keys, pass
//! bytes on to a multiplexer, or run a program. So each escape sequence is parsed, and passes only if it is on the list of what
//! programs need to draw, to take keys and mouse, and to learn what the terminal can do. Everything else is dropped, whole.
//!
//! The parser is a stream: a sequence that is cut by a read is held until it is whole, up to a limit ([`LONGEST_SEQUENCE`]), so
//! nothing half reaches the terminal. Only a sixel image is passed on as it comes. Text is UTF-8, and the C1 controls, which some
//! terminals obey as single bytes and others as two, are rewritten as their seven-bit forms before they are judged.
//!
//! It also remembers what was changed, for [`OutputFilter::undo`].

use std::collections::BTreeSet;

/// Longer sequences are dropped. A hyperlink has at most 2,083 bytes, a title less.
const LONGEST_SEQUENCE: usize = 4096;

/// Filters a payload's output.
#[derive(Debug)]
pub(super) struct OutputFilter {
    state: State,
    /// The sequence that is being read, without its introducer.
    held: Vec<u8>,
    /// Does it have too many bytes, or one that cannot be in it?
    is_spoilt: bool,
    utf8: Utf8,
    changed: Changed,
    /// How many questions to the terminal have passed.
    questions: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Text,
    /// Behind ESC. What follows are intermediates, then a final byte.
    Escape,
    /// Behind CSI.
    Control,
    /// Behind OSC.
    Command,
    /// Behind DCS: parameters, up to the byte that names its kind.
    Device,
    /// In a sixel image, which passes.
    Image,
    /// In a string of another kind, which does not.
    Dropped,
    /// Behind ESC in a string, which a backslash ends.
    StringEscape(StringKind),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StringKind {
    Command,
    Image,
    Dropped,
}

/// Where in a character of several bytes we are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Utf8 {
    Start,
    /// Behind C2, which is held: the next byte may make it a C1 control.
    AfterC2,
    /// So many bytes are missing, and the next is in this range: others would be another spelling of a shorter character.
    Missing(u8, u8, u8),
}

/// What is otherwise than a shell expects it.
#[derive(Debug, Default)]
struct Changed {
    /// DEC private modes that were set, or reset where they are usually set.
    modes: BTreeSet<u16>,
    insert: bool,
    newline: bool,
    application_keypad: bool,
    /// Titles that were pushed, ours first.
    titles: u16,
    /// Entries of the Kitty keyboard protocol: on the usual screen and on the other one.
    keyboard: [u16; 2],
    keyboard_flags: bool,
    modified_keys: bool,
    cursor_style: bool,
    protected: bool,
    colours: BTreeSet<u16>,
    link: bool,
    other_screen: bool,
}

const ESC: u8 = 0x1b;
const BEL: u8 = 0x07;

/// DEC private modes that programs set: keys, scrolling, mouse, focus, paste, the other screen, synchronized output, reports of
/// the size and the colour scheme. Not: 3 (columns), 18 and 19 (printer), 42 (national character sets), 45 and what else there is.
const PRIVATE_MODES: [u16; 36] = [
    1, 5, 6, 7, 8, 9, 12, 25, 47, 66, 69, 80, 1000, 1001, 1002, 1003, 1004, 1005, 1006, 1007, 1015, 1016, 1034, 1035,
    1036, 1039, 1045, 1047, 1048, 1049, 1070, 2004, 2026, 2027, 2031, 2048,
];

/// Those that are set by default.
const USUALLY_SET: [u16; 4] = [7, 8, 25, 1070];

/// Those whose state is nothing to undo: the cursor is saved, or the terminal's own setting is not known.
const LEFT_ALONE: [u16; 8] = [12, 80, 1007, 1034, 1035, 1036, 1039, 1048];

/// The other screen; [`super::screen::Follower`] leaves it.
const OTHER_SCREENS: [u16; 3] = [47, 1047, 1049];

impl OutputFilter {
    pub(super) fn new() -> Self {
        Self {
            state: State::Text,
            held: Vec::new(),
            is_spoilt: false,
            utf8: Utf8::Start,
            changed: Changed::default(),
            questions: 0,
        }
    }

    /// How many questions to the terminal have passed. Their answers are typed.
    pub(super) fn questions(&self) -> u64 {
        self.questions
    }

    /// Takes what is printed next, and adds what may pass.
    pub(super) fn filter(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        let mut rest = bytes;
        while let [first, others @ ..] = rest {
            if (self.state, self.utf8) == (State::Text, Utf8::Start) {
                let length = rest.iter().take_while(|byte| matches!(byte, 0x20..=0x7e)).count();
                if length > 0 {
                    out.extend_from_slice(&rest[..length]);
                    rest = &rest[length..];
                    continue;
                }
            }
            self.one(*first, out);
            rest = others;
        }
    }

    fn one(&mut self, byte: u8, out: &mut Vec<u8>) {
        match self.utf8 {
            Utf8::AfterC2 => {
                self.utf8 = Utf8::Start;
                match byte {
                    0x80..=0x9f => return self.c1(byte, out),
                    0xa0..=0xbf => return [0xc2, byte].into_iter().for_each(|byte| self.text(byte, out)),
                    _ => self.stray(0xc2, out),
                }
            }
            Utf8::Missing(left, low, high) if (low..=high).contains(&byte) => {
                self.utf8 = if left > 1 { Utf8::Missing(left - 1, 0x80, 0xbf) } else { Utf8::Start };
                return self.text(byte, out);
            }
            Utf8::Missing(..) => {
                // What is there of it has passed. A terminal shows that something is missing.
                self.utf8 = Utf8::Start;
                self.is_spoilt = true;
            }
            Utf8::Start => {}
        }
        match byte {
            0x00..=0x1f => self.c0(byte, out),
            0x20..=0x7e => self.plain(byte, out),
            0x7f => {}
            0x80..=0x9f => self.c1(byte, out),
            0xc2 => self.utf8 = Utf8::AfterC2,
            0xc3..=0xdf => self.lead(byte, Utf8::Missing(1, 0x80, 0xbf), out),
            0xe0 => self.lead(byte, Utf8::Missing(2, 0xa0, 0xbf), out),
            0xed => self.lead(byte, Utf8::Missing(2, 0x80, 0x9f), out),
            0xe1..=0xef => self.lead(byte, Utf8::Missing(2, 0x80, 0xbf), out),
            0xf0 => self.lead(byte, Utf8::Missing(3, 0x90, 0xbf), out),
            0xf4 => self.lead(byte, Utf8::Missing(3, 0x80, 0x8f), out),
            0xf1..=0xf3 => self.lead(byte, Utf8::Missing(3, 0x80, 0xbf), out),
            0xa0..=0xc1 | 0xf5..=0xff => self.stray(byte, out),
        }
    }

    /// A byte that is no part of a character, and no control in any encoding.
    fn stray(&mut self, byte: u8, out: &mut Vec<u8>) {
        self.is_spoilt = true;
        if self.state == State::Text {
            out.push(byte);
        }
    }

    fn lead(&mut self, byte: u8, missing: Utf8, out: &mut Vec<u8>) {
        self.utf8 = missing;
        self.text(byte, out);
    }

    /// A byte of a character beyond ASCII.
    fn text(&mut self, byte: u8, out: &mut Vec<u8>) {
        match self.state {
            State::Text => out.push(byte),
            State::Command => self.hold(byte),
            State::Dropped => {}
            State::StringEscape(_) => {
                self.abort(out);
                out.push(byte);
            }
            // Nothing of these has one. What was read so far is no sequence.
            State::Escape | State::Control | State::Device | State::Image => self.is_spoilt = true,
        }
    }

    /// A C1 control, however it was written.
    fn c1(&mut self, byte: u8, out: &mut Vec<u8>) {
        match byte {
            0x84 | 0x85 | 0x88 | 0x8d | 0x8e | 0x8f | 0x90 | 0x98 | 0x9a..=0x9f => {
                self.c0(ESC, out);
                self.plain(byte - 0x40, out);
            }
            // The others do nothing, or what no program needs.
            _ => {}
        }
    }

    fn c0(&mut self, byte: u8, out: &mut Vec<u8>) {
        match (self.state, byte) {
            // CAN and SUB end whatever there is.
            (_, 0x18 | 0x1a) => self.abort(out),
            (State::Command, ESC) => self.state = State::StringEscape(StringKind::Command),
            (State::Image, ESC) => self.state = State::StringEscape(StringKind::Image),
            (State::Dropped | State::Device, ESC) => self.state = State::StringEscape(StringKind::Dropped),
            (_, ESC) => {
                self.abort(out);
                self.begin(State::Escape);
            }
            (State::Command, BEL) => self.command(b"\x07", out),
            (State::Dropped | State::Device, BEL) => self.begin(State::Text),
            (State::Command | State::Device, _) => self.is_spoilt = true,
            (State::Image, b'\n' | b'\r') => out.push(byte),
            (State::Image | State::Dropped | State::StringEscape(_), _) => {}
            // In the middle of a sequence they act at once. Not ENQ: the terminal answers with what it was set to.
            (State::Text | State::Escape | State::Control, BEL..=0x0f) => out.push(byte),
            (State::Text | State::Escape | State::Control, _) => {}
        }
    }

    fn abort(&mut self, out: &mut Vec<u8>) {
        if matches!(self.state, State::Image | State::StringEscape(StringKind::Image)) {
            out.extend_from_slice(b"\x1b\\");
        }
        self.begin(State::Text);
    }

    fn begin(&mut self, state: State) {
        (self.state, self.is_spoilt) = (state, false);
        self.held.clear();
    }

    fn hold(&mut self, byte: u8) {
        if self.held.len() < LONGEST_SEQUENCE {
            self.held.push(byte);
        } else {
            self.is_spoilt = true;
        }
    }

    fn plain(&mut self, byte: u8, out: &mut Vec<u8>) {
        match self.state {
            State::Text => out.push(byte),
            State::Escape => match byte {
                0x20..=0x2f => self.hold(byte),
                b'[' if self.held.is_empty() => self.begin(State::Control),
                b']' if self.held.is_empty() => self.begin(State::Command),
                b'P' if self.held.is_empty() => self.begin(State::Device),
                // SOS, PM and APC, and the title of `screen`.
                b'X' | b'^' | b'_' | b'k' if self.held.is_empty() => self.begin(State::Dropped),
                _ => self.escape(byte, out),
            },
            State::Control if byte < 0x40 => self.hold(byte),
            State::Control => self.control(byte, out),
            State::Command => self.hold(byte),
            State::Device => match byte {
                b'0'..=b'9' | b';' => self.hold(byte),
                b'q' if !self.is_spoilt => {
                    out.extend_from_slice(b"\x1bP");
                    out.append(&mut self.held);
                    out.push(b'q');
                    self.begin(State::Image);
                }
                _ => self.begin(State::Dropped),
            },
            State::Image => out.push(byte),
            State::Dropped => {}
            State::StringEscape(kind) => {
                if byte == b'\\' {
                    match kind {
                        StringKind::Command => self.command(b"\x1b\\", out),
                        StringKind::Image => {
                            out.extend_from_slice(b"\x1b\\");
                            self.begin(State::Text);
                        }
                        StringKind::Dropped => self.begin(State::Text),
                    }
                    return;
                }
                // Another sequence, which ends the string.
                self.abort(out);
                self.begin(State::Escape);
                self.plain(byte, out);
            }
        }
    }

    /// `ESC`, intermediates, and a last byte.
    fn escape(&mut self, last: u8, out: &mut Vec<u8>) {
        let passes = !self.is_spoilt
            && match (self.held.as_slice(), last) {
                (b"", b'7' | b'8' | b'D' | b'E' | b'H' | b'M' | b'N' | b'O' | b'n' | b'o' | b'|' | b'}' | b'~') => true,
                (b"", b'=' | b'>') => {
                    self.changed.application_keypad = last == b'=';
                    true
                }
                // It answers what it is.
                (b"", b'Z') => self.asks(),
                (b"", b'c') => {
                    // Everything but the stacks and the colours is as it was.
                    let Changed { titles, colours, .. } = std::mem::take(&mut self.changed);
                    self.changed = Changed { titles, colours, ..Changed::default() };
                    true
                }
                // Character sets, lines of double size, and UTF-8. Not `% @`, which leaves it.
                ([b'(' | b')' | b'*' | b'+' | b'-' | b'.' | b'/'], 0x30..=0x7e) => true,
                (b"#", b'3'..=b'6' | b'8') | (b"%", b'G') => true,
                _ => false,
            };
        if passes {
            out.push(ESC);
            out.append(&mut self.held);
            out.push(last);
        }
        self.begin(State::Text);
    }

    fn asks(&mut self) -> bool {
        self.questions += 1;
        true
    }

    /// `CSI`, parameters, intermediates, and a last byte.
    fn control(&mut self, last: u8, out: &mut Vec<u8>) {
        let held = std::mem::take(&mut self.held);
        if let (Some(sequence), false) = (Sequence::parse(&held, last), self.is_spoilt) {
            self.sequence(&sequence, out);
        }
        self.begin(State::Text);
    }

    fn sequence(&mut self, sequence: &Sequence<'_>, out: &mut Vec<u8>) {
        let first = sequence.first();
        let passes = match (sequence.prefix, sequence.intermediates, sequence.last) {
            (b"", b"", b'@' | b'A'..=b'M' | b'P' | b'S' | b'X' | b'Z' | b'`' | b'a' | b'b' | b'd'..=b'g' | b'r') => {
                true
            }
            (b"", b"", b'm' | b's' | b'u') => true,
            // With five parameters it waits for the mouse.
            (b"", b"", b'T') => sequence.numbers().count() <= 1,
            (b"", b"", b'h' | b'l') => return self.ansi_modes(sequence, out),
            (b"?", b"", b'h' | b'l') => return self.private_modes(sequence, out),
            (b"", b"", b'n') => matches!(first, 5 | 6) && self.asks(),
            (b"", b"", b'c') | (b">" | b"=", b"", b'c') | (b">", b"", b'q') => self.asks(),
            (b"?", b"", b'n') => matches!(first, 6 | 996) && self.asks(),
            (b"?", b"", b'u' | b'm') | (b"" | b"?", b"$", b'p') => self.asks(),
            // How many colours and pixels an image may have; 1 reads.
            (b"?", b"", b'S') => sequence.numbers().nth(1) == Some(1) && self.asks(),
            (b"", b"", b't') => match first {
                // The size in pixels, of a cell, and in characters. Not 20 and 21, which type the title.
                14 | 16 | 18 => self.asks(),
                22 => {
                    self.changed.titles = self.changed.titles.saturating_add(1);
                    true
                }
                // Not more than were pushed inside, and not the one that was there before.
                23 if self.changed.titles > 1 => {
                    self.changed.titles -= 1;
                    true
                }
                _ => false,
            },
            (b"?", b"", b'J' | b'K' | b'c') => true,
            (b">", b"", b'm' | b'n') => {
                self.changed.modified_keys = true;
                true
            }
            (b">" | b"<" | b"=", b"", b'u') => return self.keyboard(sequence, out),
            (b"", b" ", b'q') => {
                self.changed.cursor_style = true;
                true
            }
            (b"", b"\"", b'q') => {
                self.changed.protected = true;
                true
            }
            (b"", b"!", b'p') | (b"", b" ", b'@' | b'A') | (b"", b"'", b'}' | b'~') | (b"", b"*", b'x') => true,
            (b"", b"$", b'r' | b't' | b'v' | b'x' | b'z' | b'{') | (b"", b"#", b'{' | b'}' | b'p' | b'q') => true,
            _ => false,
        };
        if passes {
            sequence.write(sequence.parameters, out);
        }
    }

    fn ansi_modes(&mut self, sequence: &Sequence<'_>, out: &mut Vec<u8>) {
        let is_set = sequence.last == b'h';
        for mode in sequence.numbers() {
            match mode {
                4 => self.changed.insert = is_set,
                20 => self.changed.newline = is_set,
                _ => continue,
            }
            sequence.write(mode.to_string().as_bytes(), out);
        }
    }

    fn private_modes(&mut self, sequence: &Sequence<'_>, out: &mut Vec<u8>) {
        let is_set = sequence.last == b'h';
        for mode in sequence.numbers().filter(|mode| PRIVATE_MODES.contains(mode)) {
            if OTHER_SCREENS.contains(&mode) {
                self.changed.other_screen = is_set;
            } else if is_set == USUALLY_SET.contains(&mode) {
                self.changed.modes.remove(&mode);
            } else if !LEFT_ALONE.contains(&mode) {
                self.changed.modes.insert(mode);
            }
            sequence.write(mode.to_string().as_bytes(), out);
        }
    }

    /// The Kitty keyboard protocol. No entry is taken away that was not made inside.
    fn keyboard(&mut self, sequence: &Sequence<'_>, out: &mut Vec<u8>) {
        let depth = &mut self.changed.keyboard[usize::from(self.changed.other_screen)];
        match sequence.prefix {
            b">" => {
                *depth = depth.saturating_add(1);
                sequence.write(sequence.parameters, out);
            }
            b"<" => {
                let count = sequence.first().max(1).min(*depth);
                *depth -= count;
                if count > 0 {
                    sequence.write(count.to_string().as_bytes(), out);
                }
            }
            _ => {
                self.changed.keyboard_flags = true;
                sequence.write(sequence.parameters, out);
            }
        }
    }

    /// `OSC`, a number, its text, and its end.
    fn command(&mut self, end: &[u8], out: &mut Vec<u8>) {
        let held = std::mem::take(&mut self.held);
        let number = held.split(|byte| *byte == b';').next().unwrap_or_default();
        let text = held.get(number.len() + 1..).unwrap_or_default();
        let number = std::str::from_utf8(number).ok().and_then(|number| number.parse::<u16>().ok());
        if !self.is_spoilt && number.is_some_and(|number| self.command_passes(number, text, out)) {
            out.extend_from_slice(b"\x1b]");
            out.extend_from_slice(&held);
            out.extend_from_slice(end);
        }
        self.begin(State::Text);
    }

    fn command_passes(&mut self, number: u16, text: &[u8], out: &mut Vec<u8>) -> bool {
        match number {
            // Titles. The one that was there before comes back at the end.
            0..=2 => {
                if self.changed.titles == 0 {
                    out.extend_from_slice(b"\x1b[22;0t");
                    self.changed.titles = 1;
                }
                true
            }
            // Colours, set or asked for; the answer is a number.
            4 | 10..=12 | 17 | 19 => {
                if text.contains(&b'?') {
                    self.questions += 1
                } else {
                    _ = self.changed.colours.insert(number + 100)
                }
                true
            }
            104 | 110..=112 | 117 | 119 => true,
            // Links: of other schemes a click might start a program.
            8 => {
                let address = text.split(|byte| *byte == b';').nth(1).unwrap_or_default();
                self.changed.link = !address.is_empty();
                address.is_empty() || address.starts_with(b"https://") || address.starts_with(b"http://")
            }
            // Progress. The other numbers of `9` show messages, or run programs.
            9 => text.starts_with(b"4;"),
            _ => false,
        }
    }

    /// What puts the terminal back as a shell expects it: keys, mouse, modes, colours and title. `plain` is what does so with
    /// the screen and the looks of text ([`super::screen::Follower::to_plain`]).
    pub(super) fn undo(&mut self, plain: &str) -> Vec<u8> {
        let mut out = Vec::new();
        self.abort(&mut out);
        let changed = std::mem::take(&mut self.changed);
        let [usual, other] = changed.keyboard.map(|count| format!("\x1b[<{count}u"));
        let when = |is: bool, text: &str| if is { text.to_owned() } else { String::new() };
        let modes = changed.modes.iter().map(|mode| {
            let end = if USUALLY_SET.contains(mode) { 'h' } else { 'l' };
            format!("\x1b[?{mode}{end}")
        });
        let parts = [
            // Each screen has a stack of its own, and this one is left next.
            when(changed.keyboard[1] > 0 && changed.other_screen, &other),
            plain.to_owned(),
            when(changed.keyboard[0] > 0, &usual),
            when(changed.keyboard_flags, "\x1b[=0u"),
            when(changed.modified_keys, "\x1b[>4m"),
            when(changed.application_keypad, "\x1b>"),
            when(changed.newline, "\x1b[20l"),
            when(changed.insert, "\x1b[4l"),
            when(changed.cursor_style, "\x1b[0 q"),
            when(changed.protected, "\x1b[0\"q"),
            when(changed.link, "\x1b]8;;\x1b\\"),
            "\x1b[23;0t".repeat(usize::from(changed.titles.min(MOST_TITLES))),
        ];
        let colours = changed.colours.iter().map(|colour| format!("\x1b]{colour}\x1b\\"));
        parts.into_iter().chain(modes).chain(colours).for_each(|part| out.extend_from_slice(part.as_bytes()));
        out
    }
}

/// Terminals keep ten.
const MOST_TITLES: u16 = 10;

/// A control sequence, taken apart.
struct Sequence<'a> {
    /// `<`, `=`, `>` or `?`, or nothing.
    prefix: &'a [u8],
    parameters: &'a [u8],
    intermediates: &'a [u8],
    last: u8,
}

impl<'a> Sequence<'a> {
    fn parse(held: &'a [u8], last: u8) -> Option<Self> {
        let is_prefix = |byte: &u8| (b'<'..=b'?').contains(byte);
        let (prefix, rest) = held.split_at(usize::from(held.first().is_some_and(is_prefix)));
        let length = rest.iter().take_while(|byte| matches!(byte, b'0'..=b';')).count();
        let (parameters, intermediates) = rest.split_at(length);
        let is_whole = intermediates.iter().all(|byte| (0x20..=0x2f).contains(byte));
        is_whole.then_some(Self { prefix, parameters, intermediates, last })
    }

    /// The parameters; one that is left out is 0, and one that is too large is a number without meaning.
    fn numbers(&self) -> impl Iterator<Item = u16> {
        self.parameters.split(|byte| *byte == b';').map(|number| match number {
            b"" => 0,
            number => std::str::from_utf8(number).ok().and_then(|number| number.parse().ok()).unwrap_or(u16::MAX),
        })
    }

    fn first(&self) -> u16 {
        self.numbers().next().unwrap_or(0)
    }

    fn write(&self, parameters: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(b"\x1b[");
        for part in [self.prefix, parameters, self.intermediates, &[self.last]] {
            out.extend_from_slice(part);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As a whole, and byte by byte.
    #[track_caller]
    fn check(printed: &[u8], expected: &[u8]) {
        for size in [printed.len().max(1), 1, 2, 3] {
            let (mut filter, mut out) = (OutputFilter::new(), Vec::new());
            printed.chunks(size).for_each(|chunk| filter.filter(chunk, &mut out));
            let (out, expected) = (out.escape_ascii().to_string(), expected.escape_ascii().to_string());
            assert_eq!(out, expected, "{} in pieces of {size}", printed.escape_ascii());
        }
    }

    #[track_caller]
    fn passes(printed: &str) {
        check(printed.as_bytes(), printed.as_bytes());
    }

    /// Dropped whole: what is around it stays, and nothing of it is shown.
    #[track_caller]
    fn dropped(printed: &str) {
        let around = [b"a", printed.as_bytes(), b"b"].concat();
        check(&around, b"ab");
    }

    #[test]
    fn a14_what_programs_need_passes() {
        passes("one\ttwo\r\n50%\rbell\x07 back\x08 \x0e\x0f");
        passes("\u{e9} \u{db} \u{2713} \u{1f980} \u{a0} \u{ff} \u{7ff} \u{800} \u{fffd} \u{10ffff}");
        passes("\x1b[1;31mred\x1b[0m \x1b[38:2::1:2:3mrgb\x1b[m \x1b[4:3mcurl");
        passes("\x1b[2J\x1b[H\x1b[3;4H\x1b[K\x1b[1;24r\x1b[5A\x1b[2@\x1b[3P\x1b[10b");
        passes("\x1b7\x1b8\x1b(B\x1b)0\x1b=\x1b>\x1bM\x1bc\x1b#8\x1b%G");
        passes("\x1b[?1049h\x1b[?25l\x1b[?1006h\x1b[?2004h\x1b[?2026h\x1b[?2026l\x1b[4h");
        passes("\x1b[c\x1b[>c\x1b[6n\x1b[?6n\x1b[>q\x1b[?2026$p\x1b[14t\x1b[18t\x1b[?u\x1b[?2;1S");
        passes("\x1b[>1u\x1b[<1u\x1b[=5;1u\x1b[>4;2m\x1b[5 q\x1b[!p");
        passes("\x1b]10;?\x07\x1b]11;#000000\x1b\\\x1b]4;1;?\x07\x1b]104\x07");
        passes("\x1b]8;;https://example.com/\x1b\\link\x1b]8;;\x1b\\\x1b]8;id=1;http://x\x07y\x1b]8;;\x07");
        passes("\x1b]9;4;1;50\x07");
        passes("\x1bP0;1q\"1;1;2;2#0;2;0;0;0#0~~-\n~~\x1b\\after");
        // A tab stop or a line end in the middle of a sequence acts at once, as in every terminal.
        check(b"\x1b[3\n1m", b"\n\x1b[31m");
    }

    #[test]
    fn a14_titles_pass_and_the_old_one_is_kept() {
        check("\x1b]0;caf\u{e9} \u{2713}\x07".as_bytes(), "\x1b[22;0t\x1b]0;caf\u{e9} \u{2713}\x07".as_bytes());
        check(b"\x1b]2;a\x1b\\\x1b]2;b\x07", b"\x1b[22;0t\x1b]2;a\x1b\\\x1b]2;b\x07");
        check(b"\x1b[23;0t", b"");
        check(b"\x1b]0;x\x07\x1b[23t\x1b[22t\x1b[23t\x1b[23t", b"\x1b[22;0t\x1b]0;x\x07\x1b[22t\x1b[23t");
    }

    #[test]
    fn a14_what_answers_with_text_is_dropped() {
        dropped("\x1b[21t");
        dropped("\x1b[20t");
        dropped("\x05");
        dropped("\x1bP$qm\x1b\\");
        dropped("\x1bP+q544e\x1b\\");
        dropped("\x1b[1$w");
        dropped("\x1b[1;1;1;1;1;1*y");
        dropped("\x1b[1;1#|");
        dropped("\x1b[?26n");
        dropped("\x1b[?63;1n");
    }

    #[test]
    fn a14_what_gives_orders_to_the_terminal_is_dropped() {
        // The clipboard, in every form.
        dropped("\x1b]52;c;ZXZpbA==\x07");
        dropped("\x1b]52;c;?\x1b\\");
        dropped("\x1b]5522;type=read;Lg==\x1b\\");
        dropped("\x1b]1337;CopyToClipboard=\x07");
        // Files, programs, windows, shell integrations, a multiplexer.
        dropped("\x1b]1337;File=inline=1:AAAA\x07");
        dropped("\x1b]9;7;calc\x07");
        dropped("\x1b]9;hello\x07");
        dropped("\x1b]777;notify;a;b\x07");
        dropped("\x1b]50;?\x07");
        dropped("\x1b]51;Efind-file x\x07");
        dropped("\x1b]633;E;rm\x07");
        dropped("\x1b]7;file://h/p\x07");
        dropped("\x1b]8;;file:///etc/passwd\x07");
        dropped("\x1bPtmux;\x1b\x1b]52;c;eA==\x07\x1b\\");
        dropped("\x1bP1;1|17/6c730d\x1b\\");
        dropped("\x1b_Gt=f;L2V0Yy9wYXNzd2Q=\x1b\\");
        dropped("\x1b^private\x1b\\");
        dropped("\x1bXstring\x1b\\");
        dropped("\x1bktitle\x1b\\");
        // Printers, size, macros, other encodings.
        dropped("\x1b[5i");
        dropped("\x1b[?5i");
        dropped("\x1b[8;1;1t");
        dropped("\x1b[2t");
        dropped("\x1b[1*z");
        dropped("\x1b[1;2;3;4;5T");
        dropped("\x1b%@");
        dropped("\x1b G");
        dropped("\x1b[62\"p");
        dropped("\x1b[?3h");
        dropped("\x1b[?9001h");
        dropped("\x1b[?1r");
    }

    /// Whatever a terminal takes for the beginning of a sequence is one here.
    #[test]
    fn a14_no_spelling_gets_around_the_filter() {
        // C1 controls as a byte, as two, and in too many.
        check(b"a\x9b21tb", b"ab");
        check(b"a\xc2\x9b21tb", b"ab");
        check(b"a\xc2\x9d52;c;x\xc2\x9cb", b"ab");
        check(b"a\x9d52;c;x\x9cb", b"ab");
        check(b"a\x90$qm\x9cb", b"ab");
        check(b"\x9b1m\xc2\x9b2m", b"\x1b[1m\x1b[2m");
        check(b"a\xe0\x82\x9b21tb", b"a\xe0b");
        check(b"a\xf0\x80\x82\x9b21tb", b"a\xf0b");
        // The bytes of a character are no controls: U+2713 has a 9c, U+00DB a 9b.
        check("\u{db}21t".as_bytes(), "\u{db}21t".as_bytes());
        dropped("\x1b]52;\u{2713};x\x07");
        // A character that is cut by a control.
        check(b"\xc3\x1b[21tx", b"\xc3x");
        // Numbers with zeros before, more parameters, controls in the middle, and an escape that begins anew.
        dropped("\x1b[021t");
        dropped("\x1b[21;1t");
        dropped("\x1b[;t");
        dropped("\x1b]052;c;x\x07");
        check(b"\x1b[2\x001t", b"");
        check(b"\x1b[2\x1b[21tx", b"x");
        check(b"\x1b\x1b[21tx", b"x");
        check(b"\x1b]52;c;\x1b[21tx", b"x");
        check(b"\x1b]0;a\x1b[21tb\x07", b"b\x07");
        check(b"\x1b[3\x181m", b"1m");
        // Not the mode that is on the list, and the one beside it that is not.
        check(b"\x1b[?3;25;9001h", b"\x1b[?25h");
        check(b"\x1b[?25 h", b"");
        check(b"\x1b[?2?5h", b"");
        // What was a title carries no control.
        check(b"\x1b]0;a\nb\x07c", b"c");
        check(b"\x1b]0;a\xffb\x07c", b"c");
        // An image that is not ended by its program is ended.
        check(b"\x1bPq~~\x1b[21tx", b"\x1bPq~~\x1b\\x");
        check(b"\x1bPq~~\x18x", b"\x1bPq~~\x1b\\x");
    }

    #[test]
    fn a14_what_has_no_end_takes_no_memory() {
        let (mut filter, mut out) = (OutputFilter::new(), Vec::new());
        for start in [&b"\x1b]0;"[..], b"\x1b[", b"\x1bP", b"\x1b_"] {
            filter.filter(start, &mut out);
            (0..100).for_each(|_| filter.filter(&[b'0'; 1000], &mut out));
            assert!(filter.held.capacity() <= 2 * LONGEST_SEQUENCE, "{}", filter.held.capacity());
            filter.filter(b"\x18", &mut out);
        }
        assert!(out.is_empty(), "{} bytes", out.len());
    }

    #[track_caller]
    fn check_undo(printed: &str, expected: &str) {
        let (mut filter, mut out) = (OutputFilter::new(), Vec::new());
        filter.filter(printed.as_bytes(), &mut out);
        assert_eq!(
            filter.undo("|").escape_ascii().to_string(),
            expected.as_bytes().escape_ascii().to_string(),
            "{printed:?}"
        );
        assert_eq!(filter.undo(""), b"", "once");
    }

    #[test]
    fn a14_what_was_changed_is_undone() {
        check_undo("text", "|");
        check_undo("\x1b[?1000;1006h\x1b[?1004h\x1b[?2004h", "|\x1b[?1000l\x1b[?1004l\x1b[?1006l\x1b[?2004l");
        check_undo("\x1b[?1000h\x1b[?1000l", "|");
        check_undo("\x1b[?25l\x1b[?7l", "|\x1b[?7h\x1b[?25h");
        check_undo("\x1b[?25l\x1b[?25h", "|");
        check_undo("\x1b[>1u\x1b[>3u\x1b[<u", "|\x1b[<1u");
        check_undo("\x1b[?1049h\x1b[>1u", "\x1b[<1u|");
        check_undo("\x1b[<9u\x1b[=1u", "|\x1b[=0u");
        check_undo("\x1b[>4;1m\x1b=\x1b[4h\x1b[3 q", "|\x1b[>4m\x1b>\x1b[4l\x1b[0 q");
        check_undo("\x1b]0;t\x07", "|\x1b[23;0t");
        check_undo("\x1b]11;red\x07\x1b]4;1;red\x07\x1b]10;?\x07", "|\x1b]104\x1b\\\x1b]111\x1b\\");
        check_undo("\x1b]8;;http://x\x07", "|\x1b]8;;\x1b\\");
        check_undo("\x1b]8;;http://x\x07a\x1b]8;;\x07", "|");
        check_undo("\x1bPq~~", "\x1b\\|");
        check_undo("\x1b[?1h\x1bc", "|");
    }

    #[test]
    fn a14_questions_are_counted() {
        for (printed, questions) in
            [("a", 0), ("\x1b[c\x1b[6n", 2), ("\x1b[21t", 0), ("\x1b]11;?\x07", 1), ("\x1b[6", 0)]
        {
            let mut filter = OutputFilter::new();
            filter.filter(printed.as_bytes(), &mut Vec::new());
            assert_eq!(filter.questions(), questions, "{printed:?}");
        }
    }

    /// What passes once passes again unchanged: a session in a session shows the same.
    #[test]
    fn a14_by_chance() {
        let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
        let alphabet: &[u8] = b"\x1b\x1b[]P_?>;:0123589mhltnqcu$ \"\\\x07\x18\x9b\x9c\xc2\xe2\xff\nax";
        for _ in 0..20_000 {
            let printed: Vec<u8> = (0..40)
                .map(|_| {
                    seed ^= seed << 13;
                    seed ^= seed >> 7;
                    seed ^= seed << 17;
                    alphabet[usize::try_from(seed % alphabet.len() as u64).unwrap()]
                })
                .collect();
            // What is cut by the end of the output is not of interest.
            let printed = [&printed[..], b"\x18x"].concat();
            let (mut once, mut twice) = (Vec::new(), Vec::new());
            OutputFilter::new().filter(&printed, &mut once);
            let mut second = OutputFilter::new();
            second.changed.titles = 1;
            second.filter(&once, &mut twice);
            assert!(!once.windows(2).any(|pair| pair[0] == 0xc2 && (0x80..=0x9f).contains(&pair[1])));
            let is_title = once.windows(7).any(|part| part == b"\x1b[22;0t");
            assert!(
                is_title || once == twice,
                "{} {} {}",
                printed.escape_ascii(),
                once.escape_ascii(),
                twice.escape_ascii()
            );
        }
    }
}
