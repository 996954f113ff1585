//! `sed`: its scripts can write files and start programs, so they are parsed.
//!
//! Implementations differ in details. Where one would end a command and another would not, the script is refused.

use super::super::arguments::{Argument, Grammar, Stray};
use super::super::fault::Fault;
use super::super::judge::Judge;

const SED: Grammar = Grammar {
    short: "nErsuze:",
    long: "debug expression= help null-data posix quiet regexp-extended sandbox separate silent unbuffered version",
    stray: Stray::Refused,
};

pub(super) fn sed(_: &mut Judge<'_>, program: &Argument, words: &[Argument]) -> Result<(), Fault> {
    let taken = SED.take("sed", words).map_err(|fault| hinted(fault, words))?;
    if taken.has(&["help", "version"]) {
        return Ok(());
    }
    let given = taken.options.iter().filter(|(name, _)| name == "e" || name == "expression" || name.starts_with('-'));
    let mut scripts: Vec<&Argument> = given.filter_map(|(_, value)| value.as_ref()).collect();
    if scripts.is_empty() {
        scripts.extend(taken.operands.first());
    }
    // With this GNU sed refuses to write and to start anything, and others refuse the option.
    if taken.has(&["sandbox"]) {
        return Ok(());
    }
    let Some(last) = scripts.last() else { return Err(Fault::new(&program.span, "`sed` has no script")) };
    // What follows would be its text for one and a command for another.
    if let Some(script) = scripts.iter().find(|script| scripts.len() > 1 && script.text.ends_with(b"\\")) {
        return Err(Fault::new(&script.span, "the script of `sed` is not understood"));
    }
    let mut whole = Vec::new();
    for script in &scripts {
        let Some(text) = script.known() else {
            let fault =
                Fault::new(&script.span, format!("the script {} of `sed` is not known before it runs", script.shown()));
            return Err(fault.with("add `--sandbox`, and give the script with `-e`"));
        };
        whole.extend_from_slice(text);
        whole.push(b'\n');
    }
    let done = Script { text: &whole, at: 0 }.commands();
    done.map_err(|why| Fault::new(&last.span, format!("the script of `sed` {why}")))
}

fn hinted(fault: Fault, words: &[Argument]) -> Fault {
    let is_in_place = |word: &Argument| word.text.starts_with(b"-i") || word.text.starts_with(b"--in-place");
    let at = words.iter().find(|word| word.span == fault.at);
    if at.is_some_and(is_in_place) { fault.with("use the edit tool") } else { fault }
}

struct Script<'s> {
    text: &'s [u8],
    at: usize,
}

type Why = &'static str;

impl Script<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn skip(&mut self, which: impl Fn(u8) -> bool) {
        while self.peek().is_some_and(&which) {
            self.at += 1;
        }
    }

    fn commands(&mut self) -> Result<(), Why> {
        let mut open = 0_usize;
        loop {
            self.skip(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b';'));
            if self.peek().is_none() {
                return if open == 0 { Ok(()) } else { Err("has a `{` that is not closed") };
            }
            self.addresses()?;
            let Some(command) = self.peek() else { return Err("ends after an address") };
            self.at += 1;
            match command {
                b'{' => open += 1,
                b'}' => {
                    open = open.checked_sub(1).ok_or("has a `}` too many")?;
                    self.end()?;
                }
                b'#' => self.skip(|byte| byte != b'\n'),
                b'=' | b'd' | b'D' | b'g' | b'G' | b'h' | b'H' | b'n' | b'N' | b'p' | b'P' | b'x' | b'z' | b'F' => {
                    self.end()?;
                }
                b'l' | b'q' | b'Q' => {
                    self.skip(|byte| matches!(byte, b' ' | b'0'..=b'9'));
                    self.end()?;
                }
                b':' | b'b' | b't' | b'T' => {
                    self.skip(|byte| byte == b' ');
                    self.skip(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
                    self.end()?;
                }
                b'r' | b'R' => self.skip(|byte| byte != b'\n'),
                b'a' | b'i' | b'c' => self.added()?,
                b's' => self.substitution()?,
                b'y' => {
                    self.halves()?;
                    self.end()?;
                }
                b'w' | b'W' => return Err("writes a file with `w`"),
                b'e' => return Err("runs a command with `e`"),
                _ => return Err("is not understood"),
            }
        }
    }

    /// `1`, `$`, `/re/I`, `1,5`, `1~2`, `/a/,+3`, and `!`.
    fn addresses(&mut self) -> Result<(), Why> {
        self.address()?;
        self.skip(|byte| byte == b' ');
        if self.peek() == Some(b',') {
            self.at += 1;
            self.skip(|byte| byte == b' ');
            if matches!(self.peek(), Some(b'+' | b'~')) {
                self.at += 1;
            }
            self.address()?;
        }
        self.skip(|byte| matches!(byte, b' ' | b'!'));
        Ok(())
    }

    fn address(&mut self) -> Result<(), Why> {
        match self.peek() {
            Some(b'0'..=b'9') => self.skip(|byte| byte.is_ascii_digit() || byte == b'~'),
            Some(b'$') => self.at += 1,
            Some(b'/') => {
                self.at += 1;
                self.regex(b'/')?;
                self.skip(|byte| matches!(byte, b'I' | b'M'));
            }
            Some(b'\\') => {
                let delimiter = self.text.get(self.at + 1).copied().filter(u8::is_ascii_punctuation);
                let delimiter = delimiter.filter(|byte| *byte != b'\\').ok_or("is not understood")?;
                self.at += 2;
                self.regex(delimiter)?;
                self.skip(|byte| matches!(byte, b'I' | b'M'));
            }
            _ => {}
        }
        Ok(())
    }

    /// What may follow a command.
    fn end(&mut self) -> Result<(), Why> {
        self.skip(|byte| byte == b' ');
        match self.peek() {
            None | Some(b';' | b'\n' | b'}' | b'#') => Ok(()),
            Some(_) => Err("is not understood"),
        }
    }

    /// Text after `a`, `i` and `c`, to the end of the line.
    fn added(&mut self) -> Result<(), Why> {
        self.skip(|byte| byte == b' ');
        if self.peek() == Some(b'\\') {
            self.at += 1;
            self.skip(|byte| byte == b' ');
            if self.peek() == Some(b'\n') {
                self.at += 1;
            }
        }
        let start = self.at;
        self.skip(|byte| byte != b'\n');
        let has_backslash = self.text.get(start..self.at).is_some_and(|text| text.contains(&b'\\'));
        if has_backslash { Err("has a backslash in a text that is added") } else { Ok(()) }
    }

    fn substitution(&mut self) -> Result<(), Why> {
        self.halves()?;
        loop {
            match self.peek() {
                Some(b'g' | b'p' | b'i' | b'I' | b'm' | b'M' | b'0'..=b'9') => self.at += 1,
                Some(b'e') => return Err("runs commands with `s///e`"),
                Some(b'w') => return Err("writes a file with `s///w`"),
                _ => return self.end(),
            }
        }
    }

    /// `/one/two/`, with any sign in the place of `/`.
    fn halves(&mut self) -> Result<(), Why> {
        let delimiter =
            self.peek().filter(|byte| byte.is_ascii_punctuation() && *byte != b'\\').ok_or("is not understood")?;
        self.at += 1;
        self.regex(delimiter)?;
        while let Some(byte) = self.peek() {
            self.at += 1;
            match byte {
                b'\\' => self.at += 1,
                b'\n' => return Err("has an end of line in a replacement"),
                byte if byte == delimiter => return Ok(()),
                _ => {}
            }
        }
        Err("is not complete")
    }

    /// A pattern up to its delimiter. In brackets some take the delimiter for a character, and others for the end.
    fn regex(&mut self, delimiter: u8) -> Result<(), Why> {
        let mut bracket: Option<usize> = None;
        while let Some(byte) = self.peek() {
            match (byte, bracket) {
                (b'\n', _) => return Err("has an end of line in a pattern"),
                (_, Some(_)) if byte == delimiter => return Err("has its delimiter in brackets"),
                (_, None) if byte == delimiter => {
                    self.at += 1;
                    return Ok(());
                }
                (b'\\', None) => self.at += 1,
                (b'\\', Some(_)) => return Err("has a backslash in brackets"),
                (b'[', None) => {
                    bracket = Some(self.at);
                    if self.text.get(self.at + 1) == Some(&b'^') {
                        self.at += 1;
                    }
                    // A `]` that comes first is a character.
                    if self.text.get(self.at + 1) == Some(&b']') {
                        self.at += 1;
                    }
                }
                (b'[', Some(_)) => self.class(delimiter)?,
                (b']', Some(_)) => bracket = None,
                _ => {}
            }
            self.at += 1;
        }
        Err("is not complete")
    }

    /// `[:alpha:]` in brackets.
    fn class(&mut self, delimiter: u8) -> Result<(), Why> {
        let Some(kind @ (b':' | b'.' | b'=')) = self.text.get(self.at + 1).copied() else { return Ok(()) };
        let rest = self.text.get(self.at + 2..).unwrap_or_default();
        if let Some(end) = rest.windows(2).take(20).position(|pair| pair == [kind, b']']) {
            if rest.iter().take(end).any(|byte| matches!(byte, b'\n' | b'\\') || *byte == delimiter) {
                return Err("has its delimiter or an end of line in brackets");
            }
            self.at += end + 3;
        }
        Ok(())
    }
}
