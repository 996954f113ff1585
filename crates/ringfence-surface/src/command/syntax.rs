//! What a line of shell means, as a tree. Nothing here judges.

use super::fault::Span;

/// Commands one after the other. What stands between them (`;`, `&`, `&&`, `||`) does not matter: any of them may run.
#[derive(Debug, Default)]
pub(super) struct Script {
    pub(super) commands: Vec<Command>,
}

#[derive(Debug)]
pub(super) struct Command {
    pub(super) kind: Kind,
    pub(super) redirects: Vec<Redirect>,
    /// It runs before whatever follows, in the same shell, and always: no pipe, no `&`, and not after `&&` or `||`.
    pub(super) certain: bool,
}

#[derive(Debug)]
pub(super) enum Kind {
    Simple(Simple),
    /// `( )`, and commands of a pipeline: what they assign does not last.
    Subshell(Script),
    /// `{ }`, `if`, `while`, `until`: scripts whose order and number do not matter.
    Scripts(Vec<Script>),
    /// `for` and `select`. Without words it goes over the arguments of the script.
    For {
        name: Word,
        words: Option<Vec<Word>>,
        body: Script,
    },
    Case {
        word: Word,
        patterns: Vec<Word>,
        arms: Vec<Script>,
    },
    /// `[[ ]]`.
    Test {
        span: Span,
        words: Vec<Word>,
    },
}

#[derive(Debug, Default)]
pub(super) struct Simple {
    pub(super) assignments: Vec<Assignment>,
    pub(super) words: Vec<Word>,
    pub(super) span: Span,
}

#[derive(Debug)]
pub(super) struct Assignment {
    pub(super) name: Vec<u8>,
    pub(super) span: Span,
    pub(super) value: Value,
}

#[derive(Debug)]
pub(super) enum Value {
    One(Word),
    /// `name+=value`.
    More(Word),
    Array(Vec<Word>),
}

#[derive(Debug)]
pub(super) struct Redirect {
    pub(super) span: Span,
    pub(super) kind: RedirectKind,
    /// The bodies of here-documents are kept apart, since they follow later.
    pub(super) target: Word,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RedirectKind {
    /// `<`.
    Read,
    /// `>`, `>>`, `>|`, `<>`.
    Write,
    /// `&>`, `&>>`: elsewhere the end of a command, and the redirect of another.
    WriteBoth,
    /// `<&` and `>&`.
    Duplicate,
    /// `<<<`.
    Text,
    /// `<<` and `<<-`; the target is the delimiter.
    Document,
}

/// A word: what stands between blanks.
#[derive(Debug, Clone, Default)]
pub(super) struct Word {
    pub(super) span: Span,
    /// As it was written.
    pub(super) written: Vec<u8>,
    pub(super) parts: Vec<Part>,
}

#[derive(Debug, Clone)]
pub(super) enum Part {
    /// Text as it stands, without quotes.
    Plain(Vec<u8>),
    /// Text in quotes.
    Quoted(Vec<u8>),
    /// `$'..'` and `$".."`: another text in another shell.
    Odd,
    /// `~` at the beginning.
    Tilde,
    /// `*`, `?` and `[`, which stand for names of files.
    Glob,
    /// What follows is part of a `{a,b}` or `{1..3}`, or comes after one.
    Brace,
    Parameter(Parameter),
    /// `$(..)` and backticks.
    Command {
        script: Box<Inner>,
        quoted: bool,
    },
    /// `<(..)` and `>(..)`.
    Process(Box<Inner>),
    /// `$((..))`.
    Arithmetic {
        span: Span,
        names: Vec<Word>,
        parts: Vec<Part>,
        quoted: bool,
    },
}

/// A script inside a word.
#[derive(Debug, Clone)]
pub(super) struct Inner(pub(super) std::rc::Rc<Script>);

/// `$name` or `${name...}`.
#[derive(Debug, Clone)]
pub(super) struct Parameter {
    pub(super) span: Span,
    pub(super) name: Vec<u8>,
    pub(super) quoted: bool,
    pub(super) kind: ParameterKind,
    /// The text after an operator, which may have substitutions of its own.
    pub(super) operand: Vec<Part>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ParameterKind {
    /// The value as it is.
    Whole,
    /// A number: `${#x}`, `$#`, `$?`.
    Number,
    /// The value, changed in some way.
    Changed,
    /// `${x:=y}` and `${x=y}`.
    Assigns,
    /// `$@`, `${a[@]}`: several words even in quotes.
    All,
}

impl Word {
    /// The text, if it is the same in every shell and whatever the variables and files are.
    pub(super) fn literal(&self) -> Option<Vec<u8>> {
        let mut text = Vec::new();
        for part in &self.parts {
            match part {
                Part::Plain(piece) | Part::Quoted(piece) => text.extend_from_slice(piece),
                _ => return None,
            }
        }
        Some(text)
    }

    /// The text of a word without any quotes.
    pub(super) fn bare(&self) -> Option<&[u8]> {
        match self.parts.as_slice() {
            [Part::Plain(text)] => Some(text),
            _ => None,
        }
    }
}
