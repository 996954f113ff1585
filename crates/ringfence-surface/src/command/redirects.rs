//! Reads redirects and here-documents.

use super::fault::Fault;
use super::parse::{Parsed, Parser, Pending};
use super::syntax::{Part, Redirect, RedirectKind, Word};

/// Every way to write one, longest first.
const OPERATORS: &[(&[u8], RedirectKind)] = &[
    (b"<<<", RedirectKind::Text),
    (b"<<-", RedirectKind::Document),
    (b"&>>", RedirectKind::WriteBoth),
    (b"<<", RedirectKind::Document),
    (b"<&", RedirectKind::Duplicate),
    (b"<>", RedirectKind::Write),
    (b">>", RedirectKind::Write),
    (b">&", RedirectKind::Duplicate),
    (b">|", RedirectKind::Write),
    (b"&>", RedirectKind::WriteBoth),
    (b"<", RedirectKind::Read),
    (b">", RedirectKind::Write),
];

impl Parser<'_> {
    /// A redirect, if one comes next.
    pub(super) fn redirect(&mut self) -> Parsed<Option<Redirect>> {
        let start = self.at;
        let rest = self.text.get(self.at..).unwrap_or_default();
        let digits = rest.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(rest.len());
        let after = rest.get(digits..).unwrap_or_default();
        if !matches!(after.first(), Some(b'<' | b'>')) && (digits > 0 || !rest.starts_with(b"&>")) {
            return Ok(None);
        }
        if digits == 0 && matches!(after, [b'<' | b'>', b'(', ..]) {
            return Ok(None);
        }
        if digits > 1 {
            return Err(self.here("shells disagree about a descriptor of more than one digit"));
        }
        self.at += digits;
        let Some((operator, kind)) = OPERATORS.iter().find(|(operator, _)| self.starts(operator)) else {
            return Err(self.here("this is not understood"));
        };
        self.at += operator.len();
        self.blanks()?;
        let target = self.word()?;
        let span = self.span(start);
        if *kind == RedirectKind::Document {
            self.announce(&target, *operator == b"<<-")?;
        }
        Ok(Some(Redirect { span, kind: *kind, target }))
    }

    /// Remembers a here-document. Only plain delimiters are taken: shells disagree about others.
    fn announce(&mut self, delimiter: &Word, strips_tabs: bool) -> Parsed<()> {
        let span = delimiter.span.clone();
        let is_plain = |text: &[u8]| !text.is_empty() && text.iter().all(|b| b.is_ascii_alphanumeric() || *b == b'_');
        let (text, is_quoted) = match delimiter.parts.as_slice() {
            [Part::Plain(text)] => (text.clone(), false),
            [Part::Quoted(text)] => (text.clone(), true),
            // `\EOF`.
            [Part::Quoted(first), Part::Plain(rest)] => ([first.as_slice(), rest].concat(), true),
            _ => return Err(Fault::new(&span, "the delimiter of the here-document is not understood")),
        };
        if !is_plain(&text) {
            let fault = Fault::new(&span, "the delimiter of the here-document is not understood");
            return Err(fault.with("use letters only, as EOF"));
        }
        self.pending.push(Pending { delimiter: text, is_quoted, strips_tabs, span });
        Ok(())
    }

    /// Reads the bodies that follow an end of line.
    pub(super) fn documents(&mut self) -> Parsed<()> {
        for pending in std::mem::take(&mut self.pending) {
            let start = self.at;
            loop {
                let rest = self.text.get(self.at..).unwrap_or_default();
                let end = rest.iter().position(|byte| *byte == b'\n');
                let line = rest.get(..end.unwrap_or(rest.len())).unwrap_or_default();
                let tabs = if pending.strips_tabs { line.iter().take_while(|b| **b == b'\t').count() } else { 0 };
                if line.get(tabs..) == Some(pending.delimiter.as_slice()) {
                    if !pending.is_quoted {
                        self.body_of(start)?;
                    }
                    self.at += line.len() + usize::from(end.is_some());
                    break;
                }
                if !pending.is_quoted && line.ends_with(b"\\") {
                    return Err(Fault::new(
                        &pending.span,
                        "shells disagree about a backslash at the end of a line here",
                    )
                    .with("put the delimiter in quotes"));
                }
                let Some(end) = end else {
                    return Err(Fault::new(&pending.span, "the here-document has no end"));
                };
                self.at += end + 1;
            }
        }
        Ok(())
    }

    /// What is substituted in a body that reaches up to here.
    fn body_of(&mut self, start: usize) -> Parsed<()> {
        let text = self.text.get(..self.at).unwrap_or_default();
        let mut inside = Parser::new(text, self.place.clone(), self.depth);
        inside.at = start;
        let mut parts = Vec::new();
        while let Some(byte) = inside.peek() {
            match byte {
                b'\\' => inside.at += 2,
                b'$' => inside.dollar(true, &mut parts)?,
                b'`' => {
                    let part = inside.backticks(true)?;
                    parts.push(part);
                }
                _ => inside.at += 1,
            }
        }
        let (bodies, assigned) = (inside.bodies, inside.assigned);
        self.bodies.extend(bodies);
        self.assigned.extend(assigned);
        let body = Word { span: self.span(start), written: Vec::new(), parts };
        self.bodies.push(body);
        Ok(())
    }
}
