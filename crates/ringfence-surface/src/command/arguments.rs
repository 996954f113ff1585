//! What is known about the words of a command before it runs, and the grammar of options.
//!
//! A word may hold a substitution or a pattern. Then only its beginning is known, and perhaps not even how many words it
//! becomes: a file may be called `-o`, and a variable may hold `x -o y`.

use super::fault::{Fault, Span, shown};
use super::syntax::{ParameterKind, Part, Word};

/// How many words a word becomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Count {
    /// Exactly one.
    One,
    /// Several or none, each with the same beginning: patterns and braces.
    Several,
    /// Several or none, and only the first has the beginning: a value that is split.
    Split,
}

/// A word, as far as it is known.
#[derive(Debug, Clone)]
pub(super) struct Argument {
    pub(super) span: Span,
    /// The beginning, or all of it.
    pub(super) text: Vec<u8>,
    /// The text is all of it.
    is_whole: bool,
    pub(super) count: Count,
    /// A number, whatever it is.
    pub(super) is_number: bool,
    /// As it was written, for messages.
    written: Vec<u8>,
}

impl Argument {
    /// A word that is written out.
    pub(super) fn literal(text: &[u8], span: &Span) -> Self {
        let (written, is_number) = (text.to_vec(), is_number(text));
        Self { span: span.clone(), text: text.to_vec(), is_whole: true, count: Count::One, is_number, written }
    }

    /// Words of which nothing is known.
    pub(super) fn unknown(span: &Span, count: Count, written: &[u8]) -> Self {
        let written = written.to_vec();
        Self { span: span.clone(), text: Vec::new(), is_whole: false, count, is_number: false, written }
    }

    pub(super) fn new(word: &Word) -> Self {
        let mut argument = Self::literal(b"", &word.span);
        argument.written.clone_from(&word.written);
        for part in &word.parts {
            argument.add(part);
        }
        argument.is_number = match word.parts.as_slice() {
            [Part::Parameter(parameter)] => parameter.kind == ParameterKind::Number,
            [Part::Arithmetic { .. }] => true,
            _ => argument.known().is_some_and(is_number),
        };
        if argument.is_number {
            argument.count = Count::One;
        }
        argument
    }

    fn add(&mut self, part: &Part) {
        let count = match part {
            Part::Plain(text) | Part::Quoted(text) => {
                if self.is_whole {
                    self.text.extend_from_slice(text);
                }
                return;
            }
            // It becomes an absolute path, or stays as it is.
            Part::Tilde => {
                self.text.push(b'~');
                Count::One
            }
            Part::Odd | Part::Process(_) => Count::One,
            Part::Glob | Part::Brace => Count::Several,
            Part::Parameter(parameter) => match parameter.kind {
                ParameterKind::All => Count::Split,
                _ if parameter.quoted => Count::One,
                _ => Count::Split,
            },
            Part::Command { quoted, .. } | Part::Arithmetic { quoted, .. } => {
                if *quoted {
                    Count::One
                } else {
                    Count::Split
                }
            }
        };
        self.is_whole = false;
        self.count = match (self.count, count) {
            (Count::Split, _) | (_, Count::Split) => Count::Split,
            (Count::Several, _) | (_, Count::Several) => Count::Several,
            _ => Count::One,
        };
    }

    /// The text, if all of it is known.
    pub(super) fn known(&self) -> Option<&[u8]> {
        (self.is_whole && self.count == Count::One).then_some(self.text.as_slice())
    }

    /// Might it, or a word that it becomes, begin with a dash?
    pub(super) fn may_be_option(&self) -> bool {
        match self.known() {
            Some(text) => text.first() == Some(&b'-') && text.len() > 1,
            None => self.count == Count::Split && !self.is_number || matches!(self.text.first(), None | Some(b'-')),
        }
    }

    /// How a message shows it.
    pub(super) fn shown(&self) -> String {
        shown(if self.is_whole { &self.text } else { &self.written })
    }
}

/// Digits, perhaps with a sign.
pub(super) fn is_number(text: &[u8]) -> bool {
    let digits = text.strip_prefix(b"-").or(text.strip_prefix(b"+")).unwrap_or(text);
    !digits.is_empty() && digits.len() < 20 && digits.iter().all(u8::is_ascii_digit)
}

/// Which options a program may be given.
#[derive(Debug, Clone, Copy)]
pub(super) struct Grammar {
    /// As for getopt: a letter, `:` after it if it takes an argument, `::` if only what is attached. `#` stands for `-5`.
    pub(super) short: &'static str,
    /// Names between blanks, sorted; `=` at the end if it takes an argument, `=?` if only after `=`. No abbreviations are
    /// understood.
    pub(super) long: &'static str,
    /// What a word that is not known can do.
    pub(super) stray: Stray,
}

/// What a word that is not known could be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stray {
    /// No option of this program changes anything, in any implementation: whatever the word is, it does no harm.
    Harmless,
    /// It might be an option that does.
    Refused,
}

/// A command's words, taken apart.
#[derive(Debug, Default)]
pub(super) struct Taken<'a> {
    /// Options by their name, without dashes, with their arguments.
    pub(super) options: Vec<(String, Option<Argument>)>,
    pub(super) operands: Vec<&'a Argument>,
}

impl Taken<'_> {
    pub(super) fn has(&self, names: &[&str]) -> bool {
        self.options.iter().any(|(name, _)| names.contains(&name.as_str()))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Takes {
    Nothing,
    Argument,
    Attached,
}

impl Grammar {
    /// Takes a command's words apart, or says which is not known to be harmless.
    pub(super) fn take<'a>(&self, program: &str, words: &'a [Argument]) -> Result<Taken<'a>, Fault> {
        let mut taken = Taken::default();
        let mut rest = words.iter();
        while let Some(word) = rest.next() {
            match word.known() {
                Some(b"--") => {
                    taken.operands.extend(rest);
                    break;
                }
                // What git calls the end of its options.
                Some(b"--end-of-options") if self.find_long(b"end-of-options").is_some() => {
                    taken.operands.extend(rest);
                    break;
                }
                Some(text) if text.starts_with(b"--") => self.long(program, word, text, &mut rest, &mut taken)?,
                Some(text) if text.len() > 1 && text.starts_with(b"-") => {
                    self.cluster(program, word, text, &mut rest, &mut taken)?;
                }
                Some(_) => taken.operands.push(word),
                None => self.partly(program, word, &mut taken)?,
            }
        }
        Ok(taken)
    }

    /// Takes apart only what stands before the first operand: the rest belongs to another program.
    pub(super) fn lead<'a>(&self, program: &str, words: &'a [Argument]) -> Result<(Taken<'a>, &'a [Argument]), Fault> {
        let mut taken = Taken::default();
        let mut rest = words.iter();
        loop {
            let here = rest.as_slice();
            match rest.next().map(|word| (word, word.known())) {
                Some((_, Some(b"--"))) => return Ok((taken, rest.as_slice())),
                Some((word, Some(text))) if text.starts_with(b"--") => {
                    self.long(program, word, text, &mut rest, &mut taken)?;
                }
                Some((word, Some(text))) if text.len() > 1 && text.starts_with(b"-") => {
                    self.cluster(program, word, text, &mut rest, &mut taken)?;
                }
                Some((word, None)) if word.may_be_option() => self.partly(program, word, &mut taken)?,
                _ => return Ok((taken, here)),
            }
        }
    }

    /// A word of which only the beginning is known, as `-n"$x"` or `--include=$x`.
    fn partly<'a>(&self, program: &str, word: &'a Argument, taken: &mut Taken<'a>) -> Result<(), Fault> {
        if !word.may_be_option() || self.stray == Stray::Harmless {
            taken.operands.push(word);
            return Ok(());
        }
        let text = word.text.as_slice();
        let is_attached = word.count == Count::One
            && match text.strip_prefix(b"--") {
                Some(long) => long.split_last().is_some_and(|_| long.contains(&b'=') && self.find_long(long).is_some()),
                // Up to an option that takes the rest as its argument, every letter must be known.
                None => text.len() > 1 && self.is_open_cluster(text.get(1..).unwrap_or_default()),
            };
        if is_attached {
            let name = text.iter().map(|byte| char::from(*byte)).collect();
            taken.options.push((name, Some(word.clone())));
            return Ok(());
        }
        Err(stray(program, word))
    }

    fn is_open_cluster(&self, letters: &[u8]) -> bool {
        for letter in letters {
            match self.find_short(*letter) {
                Some(Takes::Nothing) => {}
                Some(Takes::Argument | Takes::Attached) => return true,
                None => return false,
            }
        }
        false
    }

    fn long<'a>(
        &self,
        program: &str,
        word: &'a Argument,
        text: &[u8],
        rest: &mut std::slice::Iter<'a, Argument>,
        taken: &mut Taken<'a>,
    ) -> Result<(), Fault> {
        let body = text.get(2..).unwrap_or_default();
        let Some((name, takes)) = self.find_long(body) else { return Err(unknown(program, word)) };
        let value = match (body.iter().position(|byte| *byte == b'='), takes) {
            (Some(_), Takes::Nothing) => return Err(unknown(program, word)),
            (Some(at), _) => Some(Argument::literal(body.get(at + 1..).unwrap_or_default(), &word.span)),
            (None, Takes::Argument) => Some(self.next(program, word, rest)?),
            (None, _) => None,
        };
        taken.options.push((name.to_owned(), value));
        Ok(())
    }

    fn cluster<'a>(
        &self,
        program: &str,
        word: &'a Argument,
        text: &[u8],
        rest: &mut std::slice::Iter<'a, Argument>,
        taken: &mut Taken<'a>,
    ) -> Result<(), Fault> {
        if self.short.contains('#') && text.iter().skip(1).all(u8::is_ascii_digit) {
            return Ok(());
        }
        for (at, letter) in text.iter().enumerate().skip(1) {
            let Some(takes) = self.find_short(*letter) else { return Err(unknown(program, word)) };
            let attached = text.get(at + 1..).unwrap_or_default();
            let value = match takes {
                Takes::Nothing => None,
                Takes::Attached if attached.is_empty() => None,
                _ if !attached.is_empty() => Some(Argument::literal(attached, &word.span)),
                _ => Some(self.next(program, word, rest)?),
            };
            taken.options.push((char::from(*letter).to_string(), value));
            if takes != Takes::Nothing {
                break;
            }
        }
        Ok(())
    }

    /// The argument of an option that is a word of its own. Implementations differ in which options take one, so it may not
    /// look like an option itself.
    fn next<'a>(
        &self,
        program: &str,
        word: &Argument,
        rest: &mut std::slice::Iter<'a, Argument>,
    ) -> Result<Argument, Fault> {
        let Some(value) = rest.next() else {
            return Err(Fault::new(&word.span, format!("{} of `{program}` has no argument", word.shown())));
        };
        if self.stray == Stray::Harmless || value.is_number {
            return Ok(value.clone());
        }
        let is_fine = match value.known() {
            Some(text) => text.first() != Some(&b'-') || text == b"-" || is_number(text),
            None => value.count == Count::One,
        };
        if is_fine { Ok(value.clone()) } else { Err(stray(program, value)) }
    }

    fn find_short(&self, letter: u8) -> Option<Takes> {
        if !letter.is_ascii_alphanumeric() {
            return None;
        }
        let at = self.short.bytes().position(|known| known == letter)?;
        let after = self.short.get(at + 1..).unwrap_or_default();
        Some(match (after.starts_with("::"), after.starts_with(':')) {
            (true, _) => Takes::Attached,
            (_, true) => Takes::Argument,
            _ => Takes::Nothing,
        })
    }

    fn find_long(&self, body: &[u8]) -> Option<(&'static str, Takes)> {
        let name = body.split(|byte| *byte == b'=').next().unwrap_or_default();
        self.long.split_ascii_whitespace().find_map(|known| {
            let (bare, takes) = match (known.strip_suffix("=?"), known.strip_suffix('=')) {
                (Some(bare), _) => (bare, Takes::Attached),
                (_, Some(bare)) => (bare, Takes::Argument),
                _ => (known, Takes::Nothing),
            };
            (bare.as_bytes() == name).then_some((bare, takes))
        })
    }
}

/// An option that the table does not have.
pub(super) fn unknown(program: &str, word: &Argument) -> Fault {
    Fault::new(&word.span, format!("{} of `{program}` is not known to be read-only", word.shown()))
}

/// A word that may turn out to be an option.
pub(super) fn stray(program: &str, word: &Argument) -> Fault {
    let reason = format!("{} may become an option of `{program}` that is not read-only", word.shown());
    Fault::new(&word.span, reason).with("put `--` before it, or `./` at its beginning")
}
