//! Reads words: quotes, patterns, braces. What stands behind a `$` is read in [`super::expansions`].

use super::fault::Fault;
use super::parse::{Parsed, Parser};
use super::syntax::{Part, Word};

/// A word while it is read.
#[derive(Debug, Default)]
struct Pieces {
    parts: Vec<Part>,
    /// Where the first `{` stands, as an index of parts, and how far a `{a,b}` has come.
    brace: Option<usize>,
    has_separator: bool,
    is_braced: bool,
    open: usize,
}

impl Pieces {
    fn plain(&mut self, byte: u8) {
        match byte {
            b'{' if self.brace.is_none() => {
                self.brace = Some(self.parts.len());
                self.parts.push(Part::Plain(vec![b'{']));
                return;
            }
            b',' if self.brace.is_some() => self.has_separator = true,
            b'.' if self.brace.is_some() && self.ends_with_dot() => self.has_separator = true,
            b'}' if self.has_separator => self.is_braced = true,
            _ => {}
        }
        match self.parts.last_mut() {
            Some(Part::Plain(text)) => text.push(byte),
            _ => self.parts.push(Part::Plain(vec![byte])),
        }
    }

    /// Counts braces; false for one that closes nothing in this word.
    fn balances(&mut self, byte: u8) -> bool {
        match byte {
            b'{' => self.open += 1,
            b'}' if self.open == 0 => return false,
            b'}' => self.open -= 1,
            _ => {}
        }
        true
    }

    fn ends_with_dot(&self) -> bool {
        matches!(self.parts.last(), Some(Part::Plain(text)) if text.last() == Some(&b'.'))
    }

    fn quoted(&mut self, bytes: &[u8]) {
        match self.parts.last_mut() {
            Some(Part::Quoted(text)) => text.extend_from_slice(bytes),
            _ => self.parts.push(Part::Quoted(bytes.to_vec())),
        }
    }

    fn finish(mut self) -> Vec<Part> {
        if let (true, Some(at)) = (self.is_braced, self.brace) {
            self.parts.insert(at, Part::Brace);
        }
        self.parts
    }
}

impl Parser<'_> {
    /// A word, which may not be empty.
    pub(super) fn word(&mut self) -> Parsed<Word> {
        let start = self.at;
        let mut pieces = Pieces::default();
        while let Some(byte) = self.peek() {
            match byte {
                b' ' | b'\t' | b'\n' | b';' | b'&' | b'|' | b')' => break,
                b'<' | b'>' if self.ahead(1) == Some(b'(') => pieces.parts.push(self.process()?),
                b'<' | b'>' => break,
                b'(' if self.ahead(1) == Some(b')') => {
                    return Err(self.here("a function could take the place of a program"));
                }
                b'(' => {
                    let fault = self.here("`(` in a word is a pattern in some shells, and in zsh it can run commands");
                    return Err(fault.with("put it in quotes"));
                }
                _ => self.piece(byte, start, &mut pieces)?,
            }
        }
        if self.at == start {
            return Err(self.here("a word is missing"));
        }
        Ok(self.written(start, pieces.finish()))
    }

    /// What was written since, as a word.
    pub(super) fn written(&self, start: usize, parts: Vec<Part>) -> Word {
        Word { span: self.span(start), written: self.text.get(start..self.at).unwrap_or_default().to_vec(), parts }
    }

    /// The pattern after `=~`. Its `|` must stand in parentheses: another shell takes it for a pipe.
    pub(super) fn regex(&mut self) -> Parsed<Word> {
        let start = self.at;
        let (mut pieces, mut open) = (Pieces::default(), 0_usize);
        while let Some(byte) = self.peek() {
            match byte {
                b'(' => open += 1,
                b')' if open > 0 => open -= 1,
                b'|' if open > 0 => {}
                b' ' | b'\t' if open == 0 => break,
                b' ' | b'\t' | b'\n' | b';' | b'&' | b'|' | b')' | b'<' | b'>' => {
                    return Err(self.here("this is not understood in a pattern").with("put the pattern in a variable"));
                }
                _ => {
                    self.piece(byte, start, &mut pieces)?;
                    continue;
                }
            }
            self.at += 1;
            pieces.plain(byte);
        }
        if self.at == start || open > 0 {
            return Err(self.here("a pattern is missing"));
        }
        Ok(self.written(start, pieces.finish()))
    }

    /// One piece of a word that is not in quotes.
    fn piece(&mut self, byte: u8, start: usize, pieces: &mut Pieces) -> Parsed<()> {
        let is_first = self.at == start;
        match byte {
            b'\\' => {
                let Some(next) = self.ahead(1) else { return Err(self.here("nothing follows the backslash")) };
                if next == b'\n' {
                    return self.joined();
                }
                self.at += 2;
                pieces.quoted(&[next]);
            }
            b'\'' => {
                let text = self.single()?;
                pieces.quoted(&text);
            }
            b'"' => {
                self.at += 1;
                self.double(&mut pieces.parts)?;
            }
            b'$' => self.dollar(false, &mut pieces.parts)?,
            b'`' => {
                let part = self.backticks(false)?;
                pieces.parts.push(part);
            }
            b'*' | b'?' => self.glob(pieces),
            b'[' if !is_first || !self.is_alone(1) => {
                // `[[` where no command stands is a word like another.
                if is_first && self.ahead(1) == Some(b'[') && self.is_alone(2) {
                    self.at += 2;
                    pieces.quoted(b"[[");
                } else {
                    self.glob(pieces);
                }
            }
            b'~' if is_first => {
                if self.ahead(1) == Some(b'[') {
                    return Err(self.here("`~[` runs a function in zsh").with("put it in quotes"));
                }
                self.at += 1;
                pieces.parts.push(Part::Tilde);
            }
            // `=`, `==` and `=~` alone compare.
            b'=' if is_first
                && !self.is_alone(1)
                && !(matches!(self.ahead(1), Some(b'=' | b'~')) && self.is_alone(2)) =>
            {
                return Err(self.here("zsh replaces `=` and a name by the path of a program").with("put it in quotes"));
            }
            _ => {
                self.check_bare(byte)?;
                if !pieces.balances(byte) {
                    return Err(self.here("zsh ends a group at this `}`").with("put it in quotes"));
                }
                self.at += 1;
                pieces.plain(byte);
            }
        }
        Ok(())
    }

    fn glob(&mut self, pieces: &mut Pieces) {
        self.at += 1;
        pieces.parts.push(Part::Glob);
    }

    /// Does a word end this many bytes on?
    fn is_alone(&self, by: usize) -> bool {
        let is_end = |byte: u8| matches!(byte, b' ' | b'\t' | b'\n' | b';' | b'&' | b'|' | b')');
        self.ahead(by).is_none_or(is_end)
    }

    /// A line that is continued in the middle of a word. Before a blank the word simply ends.
    fn joined(&mut self) -> Parsed<()> {
        if self.ahead(2).is_none_or(|next| matches!(next, b' ' | b'\t' | b'\n')) {
            self.at += 2;
            return Ok(());
        }
        Err(self.here("a backslash joins two lines in the middle of a word").with("put a blank before it"))
    }

    /// Bytes that some shell in some locale takes for a blank.
    fn check_bare(&self, byte: u8) -> Parsed<()> {
        if byte < b' ' || matches!(byte, 0x7f | 0x85 | 0xa0) {
            let fault = self.here("a character here is a blank in some languages and not in others");
            return Err(fault.with("put the word in quotes"));
        }
        Ok(())
    }

    fn single(&mut self) -> Parsed<Vec<u8>> {
        let rest = self.text.get(self.at + 1..).unwrap_or_default();
        let Some(end) = rest.iter().position(|byte| *byte == b'\'') else {
            return Err(self.here("the quote is not closed"));
        };
        let text = rest.get(..end).unwrap_or_default().to_vec();
        self.at += end + 2;
        Ok(text)
    }

    /// `"..."`, after the first quote.
    pub(super) fn double(&mut self, parts: &mut Vec<Part>) -> Parsed<()> {
        let open = self.at.saturating_sub(1);
        // Also an empty pair of quotes is text.
        let mut text = Vec::new();
        let mut is_used = false;
        loop {
            let Some(byte) = self.peek() else {
                return Err(Fault::new(&self.place.clone().unwrap_or(open..open + 1), "the quote is not closed"));
            };
            match byte {
                b'"' => {
                    self.at += 1;
                    if !text.is_empty() || !is_used {
                        parts.push(Part::Quoted(text));
                    }
                    return Ok(());
                }
                b'\\' => self.escaped(&mut text)?,
                b'$' | b'`' => {
                    if !text.is_empty() {
                        parts.push(Part::Quoted(std::mem::take(&mut text)));
                    }
                    is_used = true;
                    if byte == b'$' {
                        self.dollar(true, parts)?;
                    } else {
                        let part = self.backticks(true)?;
                        parts.push(part);
                    }
                }
                _ => {
                    self.at += 1;
                    text.push(byte);
                }
            }
        }
    }

    /// A backslash in double quotes.
    fn escaped(&mut self, text: &mut Vec<u8>) -> Parsed<()> {
        match self.ahead(1) {
            Some(b'\n') => {
                // What stands on both sides comes together, also a `$` and its name.
                if self.at.checked_sub(1).and_then(|at| self.text.get(at)).is_some_and(|before| is_joined(*before)) {
                    return Err(self.here("a backslash joins two lines in the middle of a substitution"));
                }
            }
            Some(next @ (b'$' | b'`' | b'"' | b'\\')) => text.push(next),
            Some(next) => text.extend_from_slice(&[b'\\', next]),
            None => return Err(self.here("nothing follows the backslash")),
        }
        self.at += 2;
        Ok(())
    }
}

/// May this be part of a name, or begin a substitution?
fn is_joined(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | b'@' | b'#' | b'*' | b'?' | b'!' | b'-')
}
