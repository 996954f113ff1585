//! `awk`: a program is read word by word, and refused if it writes, starts something, or cannot be told apart for certain.

use super::super::arguments::{Argument, Grammar, Stray};
use super::super::fault::Fault;
use super::super::judge::Judge;

const AWK: Grammar = Grammar { short: "F:v:", long: "field-separator= assign=", stray: Stray::Refused };

pub(super) fn awk(_: &mut Judge<'_>, program: &Argument, words: &[Argument]) -> Result<(), Fault> {
    let (_, rest) = AWK.lead("awk", words)?;
    // What follows the program is files and assignments, never options.
    let Some(script) = rest.first() else { return Err(Fault::new(&program.span, "`awk` has no program")) };
    let Some(text) = script.known() else {
        let reason = format!("the program {} of `awk` is not known before it runs", script.shown());
        return Err(Fault::new(&script.span, reason).with("hand values over with `-v name=value`"));
    };
    read(text).map_err(|why| Fault::new(&script.span, format!("the program of `awk` {why}")))
}

type Why = &'static str;

/// What stood before, as far as the meaning of `/` and of an end of line depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Before {
    /// An operator, a separator, nothing: a `/` begins a pattern.
    Operator,
    /// A comma or `&&`: the statement goes on after the end of a line.
    Unfinished,
    /// A value: a `/` divides.
    Operand,
    /// `)`, `++`: it depends on more than we look at.
    Unsure,
}

struct Program<'p> {
    text: &'p [u8],
    at: usize,
    before: Before,
    /// Inside the words of a `print`, and how many parentheses are open.
    in_print: bool,
    open: usize,
}

fn read(text: &[u8]) -> Result<(), Why> {
    for word in ["system", "getline", "extension", "loadable"] {
        if text.windows(word.len()).any(|window| window == word.as_bytes()) {
            return Err("starts programs or reads from them");
        }
    }
    let mut program = Program { text, at: 0, before: Before::Operator, in_print: false, open: 0 };
    while let Some(byte) = program.peek(0) {
        program.token(byte)?;
    }
    Ok(())
}

impl Program<'_> {
    fn peek(&self, by: usize) -> Option<u8> {
        self.text.get(self.at + by).copied()
    }

    fn token(&mut self, byte: u8) -> Result<(), Why> {
        match byte {
            b' ' | b'\t' => self.at += 1,
            b'\\' if self.peek(1) == Some(b'\n') => self.at += 2,
            b'#' => {
                while self.peek(0).is_some_and(|byte| byte != b'\n') {
                    self.at += 1;
                }
            }
            b'\n' => {
                self.at += 1;
                // Some go on after `?` and `:` too.
                if !matches!(self.before, Before::Unfinished | Before::Operator) && self.open == 0 {
                    self.statement();
                }
            }
            // Between the parts of a `for`.
            b';' if self.open > 0 => self.operator(1),
            b'{' | b'}' if self.open > 0 => return Err("has a bracket that is not closed"),
            b';' | b'{' | b'}' => {
                self.at += 1;
                self.statement();
            }
            b'"' => self.string()?,
            b'/' if self.before == Before::Operand => self.operator(1),
            b'/' if self.before == Before::Unsure => return Err("has a `/` that is not understood"),
            b'/' => self.regex()?,
            b'0'..=b'9' | b'.' => self.number(),
            byte if byte == b'_' || byte.is_ascii_alphabetic() => self.word(),
            _ => self.sign(byte)?,
        }
        Ok(())
    }

    fn statement(&mut self) {
        self.before = Before::Operator;
        self.in_print = false;
    }

    fn operator(&mut self, length: usize) {
        self.at += length;
        self.before = Before::Operator;
    }

    fn sign(&mut self, byte: u8) -> Result<(), Why> {
        match (byte, self.peek(1)) {
            (b'|', Some(b'|')) | (b'&', Some(b'&')) => {
                self.at += 2;
                self.before = Before::Unfinished;
            }
            (b'|' | b'&', _) => return Err("has a pipe"),
            (b'@', _) => return Err("loads code or calls it by name"),
            (b'>', Some(b'=')) => self.operator(2),
            (b'>', _) if self.in_print && self.open == 0 => self.written()?,
            (b'>', Some(b'>')) => return Err("writes a file"),
            (b',', _) => {
                self.at += 1;
                self.before = Before::Unfinished;
            }
            (b'(' | b'[', _) => {
                self.open += 1;
                self.operator(1);
            }
            (b')' | b']', _) => {
                self.open = self.open.checked_sub(1).ok_or("has a bracket too many")?;
                self.at += 1;
                self.before = if byte == b']' { Before::Operand } else { Before::Unsure };
            }
            (b'+' | b'-', Some(next)) if next == byte => {
                self.at += 2;
                self.before = Before::Unsure;
            }
            (b'$' | b'+' | b'-' | b'*' | b'%' | b'^' | b'!' | b'<' | b'=' | b'~' | b'?' | b':' | b'>', _) => {
                self.operator(1);
            }
            _ => return Err("is not understood"),
        }
        Ok(())
    }

    /// `>` after `print`: only the standard streams and nothing.
    fn written(&mut self) -> Result<(), Why> {
        let rest = self.text.get(self.at + 1..).unwrap_or_default().trim_ascii_start();
        for stream in ["\"/dev/stderr\"", "\"/dev/stdout\"", "\"/dev/null\"", "\"/dev/fd/2\""] {
            if let Some(after) = rest.strip_prefix(stream.as_bytes()) {
                let next = after.iter().find(|byte| !matches!(byte, b' ' | b'\t'));
                if next.is_none_or(|byte| matches!(byte, b';' | b'}' | b'\n')) {
                    self.at = self.text.len() - after.len();
                    self.before = Before::Operand;
                    return Ok(());
                }
            }
        }
        Err("writes a file")
    }

    fn string(&mut self) -> Result<(), Why> {
        self.at += 1;
        loop {
            match self.peek(0) {
                Some(b'"') => break,
                Some(b'\\') => self.at += 2,
                None | Some(b'\n') => return Err("has a string that is not closed"),
                Some(_) => self.at += 1,
            }
        }
        self.at += 1;
        self.before = Before::Operand;
        Ok(())
    }

    /// A pattern. In brackets some take `/` for a character, and others for the end.
    fn regex(&mut self) -> Result<(), Why> {
        self.at += 1;
        let mut in_bracket = false;
        loop {
            match self.peek(0) {
                Some(b'/') if in_bracket => return Err("has a `/` in brackets"),
                Some(b'/') => break,
                Some(b'\\') => self.at += 1,
                Some(b'[') if in_bracket => self.class()?,
                Some(b'[') => in_bracket = true,
                // A `]` that comes first is a character; then the next one closes, and a `/` before it is refused.
                Some(b']') if !matches!(self.text.get(self.at - 1), Some(b'[' | b'^')) => in_bracket = false,
                None | Some(b'\n') => return Err("has a pattern that is not closed"),
                Some(_) => {}
            }
            self.at += 1;
        }
        self.at += 1;
        self.before = Before::Operand;
        Ok(())
    }

    /// `[:alpha:]` in brackets.
    fn class(&mut self) -> Result<(), Why> {
        let rest = self.text.get(self.at + 1..).unwrap_or_default();
        let end = rest.windows(2).take(20).position(|pair| pair == b":]").filter(|_| rest.first() == Some(&b':'));
        self.at += end.ok_or("has a `[` in brackets")? + 2;
        Ok(())
    }

    fn number(&mut self) {
        while self.peek(0).is_some_and(|byte| byte.is_ascii_alphanumeric() || byte == b'.') {
            self.at += 1;
        }
        self.before = Before::Operand;
    }

    fn word(&mut self) {
        let start = self.at;
        while self.peek(0).is_some_and(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
            self.at += 1;
        }
        self.before = match self.text.get(start..self.at).unwrap_or_default() {
            b"print" | b"printf" => {
                self.in_print = true;
                self.open = 0;
                Before::Operator
            }
            b"return" | b"in" | b"case" | b"else" | b"do" | b"exit" | b"delete" => Before::Operator,
            b"length" | b"BEGIN" | b"END" => Before::Unsure,
            _ => Before::Operand,
        };
    }
}
