//! Reads what stands behind a `$` or a backtick: parameters, arithmetic, commands inside words.
//!
//! Much of it is refused here, since it runs code by itself: `${!x}`, `${x@P}`, subscripts. See the reasons.

use std::rc::Rc;

use super::fault::Fault;
use super::parse::{Parsed, Parser, Until, name_at, parse};
use super::syntax::{Inner, Parameter, ParameterKind, Part};

impl Parser<'_> {
    /// `$` and what follows it.
    pub(super) fn dollar(&mut self, quoted: bool, parts: &mut Vec<Part>) -> Parsed<()> {
        let start = self.at;
        match self.ahead(1) {
            Some(b'(') if self.ahead(2) == Some(b'(') => {
                let part = self.arithmetic(quoted)?;
                parts.push(part);
            }
            Some(b'(') => {
                self.at += 2;
                let script = self.inner()?;
                parts.push(Part::Command { script, quoted });
            }
            Some(b'{') => {
                let parameter = self.braced(quoted)?;
                parts.push(Part::Parameter(parameter));
            }
            Some(b'\'') if !quoted => {
                self.at += 2;
                self.ansi(start)?;
                parts.push(Part::Odd);
            }
            Some(b'"') if !quoted => {
                self.at += 2;
                // The text may be replaced by a translation; what is substituted in it runs all the same.
                self.double(parts)?;
                parts.push(Part::Odd);
            }
            Some(b'[' | b'=' | b'~' | b'^' | b'+' | b'\\') => {
                return Err(self.here("`$` before this sign means something else in other shells").with("use '...'"));
            }
            Some(byte) if byte == b'_' || byte.is_ascii_alphanumeric() || is_special(byte) => {
                let parameter = self.named(quoted)?;
                parts.push(Part::Parameter(parameter));
            }
            _ => {
                self.at += 1;
                parts.push(if quoted { Part::Quoted(vec![b'$']) } else { Part::Plain(vec![b'$']) });
            }
        }
        Ok(())
    }

    /// The script of `$(` or `<(`, after the parenthesis.
    fn inner(&mut self) -> Parsed<Box<Inner>> {
        self.deeper()?;
        let waiting = self.pending.len();
        let script = self.script(Until::Paren)?;
        if self.pending.len() > waiting {
            return Err(self.here("a here-document goes on after the command that reads it"));
        }
        self.at += 1;
        self.depth -= 1;
        Ok(Box::new(Inner(Rc::new(script))))
    }

    /// `<(..)` and `>(..)`.
    pub(super) fn process(&mut self) -> Parsed<Part> {
        self.at += 2;
        Ok(Part::Process(self.inner()?))
    }

    /// `$'..'` after its first quote. Where `\'` stands in it, other shells end it elsewhere.
    fn ansi(&mut self, start: usize) -> Parsed<()> {
        loop {
            match self.peek() {
                None => return Err(Fault::new(&self.span(start), "the quote is not closed")),
                Some(b'\'') => {
                    self.at += 1;
                    return Ok(());
                }
                Some(b'\\') if self.ahead(1) == Some(b'\'') => {
                    return Err(self.here("`\\'` inside `$'..'` ends the quote in another shell").with("use \"...\""));
                }
                Some(b'\\') => self.at += 2,
                Some(_) => self.at += 1,
            }
        }
    }

    /// `$name`, `$1`, `$?`.
    fn named(&mut self, quoted: bool) -> Parsed<Parameter> {
        let start = self.at;
        self.at += 1;
        let name = match name_at(self.text.get(self.at..).unwrap_or_default()) {
            [] => self.text.get(self.at..self.at + 1).unwrap_or_default().to_vec(),
            name => name.to_vec(),
        };
        self.at += name.len();
        if self.peek() == Some(b'[') {
            return Err(self.here("zsh evaluates what stands in `[` after a name").with("write `${name}`"));
        }
        let kind = match name.as_slice() {
            b"@" | b"*" => ParameterKind::All,
            b"#" | b"?" | b"$" | b"!" => ParameterKind::Number,
            _ => ParameterKind::Whole,
        };
        Ok(Parameter { span: self.span(start), name, quoted, kind, operand: Vec::new() })
    }

    /// `${...}`.
    fn braced(&mut self, quoted: bool) -> Parsed<Parameter> {
        self.deeper()?;
        let start = self.at;
        self.at += 2;
        let is_length = self.peek() == Some(b'#') && self.ahead(1) != Some(b'}');
        if is_length {
            self.at += 1;
        }
        let rest = self.text.get(self.at..).unwrap_or_default();
        let name = match (name_at(rest), rest.first()) {
            ([], Some(digit)) if digit.is_ascii_digit() => {
                let end = rest.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(rest.len());
                rest.get(..end).unwrap_or_default().to_vec()
            }
            ([], Some(b'!')) => {
                let fault = self.here("`${!` follows a name that a variable holds, which may run commands");
                return Err(fault.with("name the variable itself"));
            }
            ([], Some(byte)) if is_special(*byte) => vec![*byte],
            ([], _) => return Err(self.here("this is not understood inside `${}`")),
            (name, _) => name.to_vec(),
        };
        self.at += name.len();
        let is_all = self.subscript()? || matches!(name.as_slice(), b"@" | b"*");
        let mut operand = Vec::new();
        let mut kind = self.operator_of_parameter(quoted, &mut operand)?;
        if is_length {
            if kind != ParameterKind::Whole {
                return Err(self.here("this is not understood inside `${}`"));
            }
            kind = ParameterKind::Number;
        } else if is_all {
            kind = ParameterKind::All;
        } else if kind == ParameterKind::Whole && matches!(name.as_slice(), b"#" | b"?" | b"$" | b"!") {
            kind = ParameterKind::Number;
        }
        if kind == ParameterKind::Assigns {
            self.assigned.push(name.clone());
        }
        self.depth -= 1;
        Ok(Parameter { span: self.span(start), name, quoted, kind, operand })
    }

    /// `[@]`, `[*]` or `[0]`; true for the first two. Anything else is evaluated, and may run commands.
    fn subscript(&mut self) -> Parsed<bool> {
        if self.peek() != Some(b'[') {
            return Ok(false);
        }
        if self.starts(b"[@]") || self.starts(b"[*]") {
            self.at += 3;
            return Ok(true);
        }
        self.at += 1;
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        if self.peek() != Some(b']') || self.text.get(self.at - 1) == Some(&b'[') {
            return Err(self.here("a subscript is evaluated, and may run commands").with("use a number"));
        }
        self.at += 1;
        Ok(false)
    }

    /// What follows the name, up to and with `}`.
    fn operator_of_parameter(&mut self, quoted: bool, operand: &mut Vec<Part>) -> Parsed<ParameterKind> {
        let mut kind = ParameterKind::Changed;
        match (self.peek(), self.ahead(1)) {
            (Some(b'}'), _) => {
                self.at += 1;
                return Ok(ParameterKind::Whole);
            }
            (Some(b':'), Some(b'=')) => {
                kind = ParameterKind::Assigns;
                self.at += 2;
            }
            (Some(b'='), _) => {
                kind = ParameterKind::Assigns;
                self.at += 1;
            }
            (Some(b':'), Some(b'-' | b'+' | b'?')) => self.at += 2,
            (Some(b':'), _) => {
                self.range()?;
                return Ok(kind);
            }
            (Some(b'@'), _) => return Err(self.here("`@` inside `${}` may run what the variable holds")),
            (Some(b'-' | b'+' | b'?' | b'#' | b'%' | b'/' | b'^' | b','), _) => self.at += 1,
            _ => return Err(self.here("this is not understood inside `${}`")),
        }
        self.operand(quoted, operand)?;
        Ok(kind)
    }

    /// `:1`, `:1:2`, `: -1`: numbers only, since the rest is arithmetic.
    fn range(&mut self) -> Parsed<()> {
        while let Some(byte) = self.peek() {
            self.at += 1;
            match byte {
                b'}' => return Ok(()),
                b':' | b' ' | b'-' | b'0'..=b'9' => {}
                _ => {
                    self.at -= 1;
                    return Err(self.here("arithmetic may run what a variable holds").with("use numbers"));
                }
            }
        }
        Err(self.here("`}` is missing"))
    }

    /// Text up to `}`. Shells disagree about quotes in here, so little is accepted.
    fn operand(&mut self, quoted: bool, parts: &mut Vec<Part>) -> Parsed<()> {
        loop {
            let Some(byte) = self.peek() else { return Err(self.here("`}` is missing")) };
            match byte {
                b'}' => {
                    self.at += 1;
                    return Ok(());
                }
                b'$' => self.dollar(quoted, parts)?,
                b'\'' | b'"' if !quoted => {
                    let start = self.at;
                    let word = self.quote_in_operand(byte)?;
                    if self.text.get(start..self.at).is_some_and(|text| text.contains(&b'}') && !text.contains(&b'$')) {
                        return Err(self.here("shells disagree about a `}` in quotes inside `${}`"));
                    }
                    parts.extend(word);
                }
                b'`' | b'\\' | b'\'' | b'"' | b'(' | b')' | b'<' | b'>' | b';' | b'&' | b'|' | b'\n' | b'{' => {
                    return Err(self
                        .here("shells disagree about this sign inside `${}`")
                        .with("use a variable for it"));
                }
                _ => {
                    self.at += 1;
                    parts.push(Part::Plain(vec![byte]));
                }
            }
        }
    }

    fn quote_in_operand(&mut self, quote: u8) -> Parsed<Vec<Part>> {
        let mut parts = Vec::new();
        self.at += 1;
        if quote == b'"' {
            self.double(&mut parts)?;
            return Ok(parts);
        }
        while let Some(byte) = self.peek() {
            self.at += 1;
            if byte == b'\'' {
                return Ok(parts);
            }
        }
        Err(self.here("the quote is not closed"))
    }

    /// `$((...))`. Names are kept for later: what they hold is evaluated in turn.
    fn arithmetic(&mut self, quoted: bool) -> Parsed<Part> {
        self.deeper()?;
        let start = self.at;
        self.at += 3;
        let (mut names, mut parts, mut open) = (Vec::new(), Vec::new(), 0_usize);
        loop {
            let Some(byte) = self.peek() else { return Err(self.here("`))` is missing")) };
            match byte {
                b')' if open == 0 => break,
                b')' => open -= 1,
                b'(' => open += 1,
                b'$' => {
                    self.dollar(true, &mut parts)?;
                    continue;
                }
                b'0'..=b'9' => {
                    self.digits();
                    continue;
                }
                byte if byte == b'_' || byte.is_ascii_alphabetic() => {
                    let from = self.at;
                    let name = name_at(self.text.get(from..).unwrap_or_default()).to_vec();
                    self.at += name.len();
                    names.push(self.written(from, vec![Part::Plain(name)]));
                    continue;
                }
                b' ' | b'\t' | b'+' | b'-' | b'*' | b'/' | b'%' | b'<' | b'>' | b'=' | b'!' | b'&' | b'|' | b'^'
                | b'~' | b'?' | b':' | b',' => {}
                _ => return Err(self.here("this is not understood in arithmetic")),
            }
            self.at += 1;
        }
        if self.ahead(1) != Some(b')') {
            return Err(self.here("`))` is missing"));
        }
        self.at += 2;
        self.depth -= 1;
        Ok(Part::Arithmetic { span: self.span(start), names, parts, quoted })
    }

    /// A number, also `0x1f` and `16#ff`.
    fn digits(&mut self) {
        while self.peek().is_some_and(|byte| byte.is_ascii_alphanumeric() || byte == b'#') {
            self.at += 1;
        }
    }

    /// `` `...` ``: one backslash is taken away before `$`, a backtick and a backslash, and the rest is a script.
    pub(super) fn backticks(&mut self, quoted: bool) -> Parsed<Part> {
        self.deeper()?;
        let start = self.at;
        let mut text = Vec::new();
        self.at += 1;
        loop {
            match (self.peek(), self.ahead(1)) {
                (None, _) => return Err(Fault::new(&self.span(start), "the backtick is not closed")),
                (Some(b'`'), _) => break,
                (Some(b'\\'), Some(next @ (b'$' | b'`' | b'\\'))) => {
                    text.push(next);
                    self.at += 1;
                }
                (Some(b'\\' | b'"'), _) if quoted => {
                    return Err(self.here("shells disagree about this sign between backticks").with("use `$(...)`"));
                }
                (Some(byte), _) => text.push(byte),
            }
            self.at += 1;
        }
        self.at += 1;
        let whole = parse(&text, Some(self.span(start)), self.depth)?;
        self.bodies.extend(whole.bodies);
        self.assigned.extend(whole.assigned);
        self.depth -= 1;
        Ok(Part::Command { script: Box::new(Inner(Rc::new(whole.script))), quoted })
    }
}

/// Parameters that are no names.
fn is_special(byte: u8) -> bool {
    matches!(byte, b'@' | b'*' | b'#' | b'?' | b'-' | b'$' | b'!')
}
