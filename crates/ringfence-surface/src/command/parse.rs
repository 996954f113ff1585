//! Reads a line of shell: lists, pipelines and compound commands. Words are read in [`super::words`].
//!
//! Only what bash, POSIX shells and zsh read in the same way is accepted. What one of them would run and another would not is a
//! fault, as is everything that is not understood, however valid it may be.

use super::fault::{Fault, Span, shown};
use super::syntax::{Assignment, Command, Kind, Part, Redirect, RedirectKind, Script, Simple, Value, Word};

pub(super) type Parsed<T> = Result<T, Fault>;

/// How deeply commands, substitutions and quotes may stand in each other.
const DEEPEST: usize = 24;

/// Where a list ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Until {
    End,
    /// `)`.
    Paren,
    /// One of these words where a command could stand.
    Words(&'static [&'static str]),
    /// `;;` and its kin, or `esac`.
    Arm,
}

/// A here-document whose body follows the next end of line.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) delimiter: Vec<u8>,
    pub(super) is_quoted: bool,
    pub(super) strips_tabs: bool,
    pub(super) span: Span,
}

#[derive(Debug)]
pub(super) struct Parser<'t> {
    pub(super) text: &'t [u8],
    pub(super) at: usize,
    pub(super) depth: usize,
    pub(super) pending: Vec<Pending>,
    /// The bodies of here-documents, for their substitutions.
    pub(super) bodies: Vec<Word>,
    /// The names that are assigned anywhere, as often as they are.
    pub(super) assigned: Vec<Vec<u8>>,
    /// Text that stands elsewhere, as between backticks, has one place.
    pub(super) place: Option<Span>,
}

/// Words that mean something where a command could stand.
const RESERVED: &[&str] = &[
    "!", "[[", "case", "coproc", "do", "done", "elif", "else", "esac", "fi", "for", "function", "if", "in", "select",
    "then", "time", "until", "while", "{", "}",
];

/// Builtins whose arguments are names that they assign.
const ASSIGN: &[&[u8]] = &[b"declare", b"export", b"local", b"mapfile", b"read", b"readarray", b"readonly", b"unset"];

/// A whole text that was read.
#[derive(Debug)]
pub(super) struct Whole {
    pub(super) script: Script,
    pub(super) bodies: Vec<Word>,
    pub(super) assigned: Vec<Vec<u8>>,
}

/// Reads a whole text.
pub(super) fn parse(text: &[u8], place: Option<Span>, depth: usize) -> Parsed<Whole> {
    let mut parser = Parser::new(text, place, depth);
    let script = parser.script(Until::End)?;
    if let Some(pending) = parser.pending.first() {
        return Err(Fault::new(&pending.span, "the here-document has no end"));
    }
    Ok(Whole { script, bodies: parser.bodies, assigned: parser.assigned })
}

impl<'t> Parser<'t> {
    pub(super) fn new(text: &'t [u8], place: Option<Span>, depth: usize) -> Self {
        Self { text, at: 0, depth, pending: Vec::new(), bodies: Vec::new(), assigned: Vec::new(), place }
    }

    pub(super) fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    pub(super) fn ahead(&self, by: usize) -> Option<u8> {
        self.text.get(self.at + by).copied()
    }

    pub(super) fn starts(&self, with: &[u8]) -> bool {
        self.text.get(self.at..).is_some_and(|rest| rest.starts_with(with))
    }

    pub(super) fn span(&self, from: usize) -> Span {
        self.place.clone().unwrap_or(from..self.at)
    }

    /// A fault at what comes next.
    pub(super) fn here(&self, reason: impl Into<String>) -> Fault {
        let end = (self.at + 1).min(self.text.len());
        Fault::new(&self.place.clone().unwrap_or(self.at.min(end)..end), reason)
    }

    pub(super) fn deeper(&mut self) -> Parsed<()> {
        self.depth += 1;
        if self.depth > DEEPEST { Err(self.here("too many commands inside each other")) } else { Ok(()) }
    }

    /// Blanks, comments and continued lines. A comment needs a blank or a separator before it.
    pub(super) fn blanks(&mut self) -> Parsed<()> {
        loop {
            match self.peek() {
                Some(b' ' | b'\t') => self.at += 1,
                Some(b'\\') if self.ahead(1) == Some(b'\n') => self.continuation()?,
                Some(b'#') => {
                    while self.peek().is_some_and(|byte| byte != b'\n') {
                        self.at += 1;
                    }
                }
                _ => return Ok(()),
            }
        }
    }

    /// A backslash at the end of a line joins two lines. Only beside a blank is it certain that no word and no operator is
    /// joined by it.
    fn continuation(&mut self) -> Parsed<()> {
        let before = self.at.checked_sub(1).and_then(|at| self.text.get(at));
        let is_apart = |byte: Option<&u8>| byte.is_none_or(|byte| matches!(byte, b' ' | b'\t' | b'\n'));
        if !is_apart(before) && !is_apart(self.text.get(self.at + 2)) {
            return Err(self.here("a backslash joins two lines in the middle of a word").with("put a blank before it"));
        }
        self.at += 2;
        Ok(())
    }

    /// Ends of lines, and the here-documents that follow them.
    pub(super) fn newlines(&mut self) -> Parsed<()> {
        loop {
            self.blanks()?;
            if self.peek() != Some(b'\n') {
                return Ok(());
            }
            self.at += 1;
            self.documents()?;
        }
    }

    /// The reserved word that comes next, if one does.
    pub(super) fn reserved(&self) -> Option<&'static str> {
        let rest = self.text.get(self.at..)?;
        let is_end = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\n' | b';' | b'&' | b'|' | b'(' | b')' | b'<' | b'>');
        let word = rest.get(..rest.iter().take(10).position(is_end).unwrap_or(rest.len().min(10)))?;
        RESERVED.iter().copied().find(|reserved| reserved.as_bytes() == word)
    }

    fn expect(&mut self, word: &'static str) -> Parsed<()> {
        self.newlines()?;
        if self.reserved() != Some(word) {
            return Err(self.here(format!("`{word}` is missing")));
        }
        self.at += word.len();
        Ok(())
    }

    fn ends(&self, until: Until) -> bool {
        match until {
            Until::End => self.peek().is_none(),
            Until::Paren => self.peek() == Some(b')'),
            Until::Words(words) => self.reserved().is_some_and(|word| words.contains(&word)),
            Until::Arm => self.starts(b";;") || self.starts(b";&") || self.reserved() == Some("esac"),
        }
    }

    pub(super) fn script(&mut self, until: Until) -> Parsed<Script> {
        let mut script = Script::default();
        loop {
            self.newlines()?;
            if self.ends(until) {
                return Ok(script);
            }
            if self.peek().is_none() {
                return Err(self.here("the line ends too early"));
            }
            let from = script.commands.len();
            self.list(&mut script)?;
            self.blanks()?;
            let is_separated = match self.peek() {
                None | Some(b'\n') => true,
                Some(b';') if !matches!(self.ahead(1), Some(b';' | b'&')) => {
                    self.at += 1;
                    true
                }
                Some(b'&') => {
                    self.at += 1;
                    script.commands.iter_mut().skip(from).for_each(|command| command.certain = false);
                    true
                }
                _ => false,
            };
            // After `)`, `}` or `fi` the list may end, but no command may follow.
            if !is_separated && !self.ends(until) {
                return Err(self.here("a separator is missing"));
            }
        }
    }

    /// A script that may not be empty.
    pub(super) fn body(&mut self, until: Until) -> Parsed<Script> {
        let script = self.script(until)?;
        if script.commands.is_empty() { Err(self.here("a command is missing")) } else { Ok(script) }
    }

    fn list(&mut self, script: &mut Script) -> Parsed<()> {
        let mut certain = true;
        loop {
            let from = script.commands.len();
            self.pipeline(script)?;
            let is_alone = script.commands.len() == from + 1;
            script.commands.iter_mut().skip(from).for_each(|command| command.certain &= certain && is_alone);
            self.blanks()?;
            if !self.starts(b"&&") && !self.starts(b"||") {
                return Ok(());
            }
            self.at += 2;
            certain = false;
            self.newlines()?;
        }
    }

    fn pipeline(&mut self, script: &mut Script) -> Parsed<()> {
        while let Some(word @ ("!" | "time")) = self.reserved() {
            self.at += word.len();
            if self.peek() == Some(b'(') {
                return Err(self.here("a blank is missing"));
            }
            self.blanks()?;
            if word == "time" && self.starts(b"-p ") {
                self.at += 2;
                self.blanks()?;
            }
        }
        loop {
            let command = self.command()?;
            script.commands.push(command);
            self.blanks()?;
            if self.peek() != Some(b'|') || self.ahead(1) == Some(b'|') {
                return Ok(());
            }
            self.at += if self.ahead(1) == Some(b'&') { 2 } else { 1 };
            self.newlines()?;
        }
    }

    fn command(&mut self) -> Parsed<Command> {
        self.deeper()?;
        let kind = match (self.peek(), self.reserved()) {
            (Some(b'('), _) => self.subshell()?,
            (_, Some(word)) => self.compound(word)?,
            _ => {
                let command = self.simple()?;
                self.depth -= 1;
                return Ok(command);
            }
        };
        let mut redirects = Vec::new();
        loop {
            self.blanks()?;
            match self.redirect()? {
                Some(redirect) => redirects.push(redirect),
                None => break,
            }
        }
        self.depth -= 1;
        Ok(Command { kind, redirects, certain: true })
    }

    fn subshell(&mut self) -> Parsed<Kind> {
        if self.ahead(1) == Some(b'(') {
            let fault = self.here("`((` is arithmetic in one shell and a command in another");
            return Err(fault.with("compare with `[ a -lt b ]`"));
        }
        self.at += 1;
        let script = self.body(Until::Paren)?;
        self.at += 1;
        Ok(Kind::Subshell(script))
    }

    fn compound(&mut self, word: &'static str) -> Parsed<Kind> {
        let start = self.at;
        self.at += word.len();
        match word {
            "{" => {
                let script = self.body(Until::Words(&["}"]))?;
                self.at += 1;
                Ok(Kind::Scripts(vec![script]))
            }
            "if" => self.branches(),
            "while" | "until" => {
                let condition = self.body(Until::Words(&["do"]))?;
                let body = self.loop_body()?;
                Ok(Kind::Scripts(vec![condition, body]))
            }
            "for" | "select" => self.each(),
            "case" => self.case(),
            "[[" => self.test(start),
            "function" => Err(Fault::new(&self.span(start), "a function could take the place of a program")),
            _ => Err(Fault::new(&self.span(start), format!("`{word}` stands where a command should"))),
        }
    }

    fn branches(&mut self) -> Parsed<Kind> {
        let mut scripts = vec![self.body(Until::Words(&["then"]))?];
        self.expect("then")?;
        loop {
            scripts.push(self.body(Until::Words(&["elif", "else", "fi"]))?);
            match self.reserved() {
                Some("elif") => {
                    self.at += 4;
                    scripts.push(self.body(Until::Words(&["then"]))?);
                    self.expect("then")?;
                }
                Some("else") => {
                    self.at += 4;
                    scripts.push(self.body(Until::Words(&["fi"]))?);
                    self.expect("fi")?;
                    return Ok(Kind::Scripts(scripts));
                }
                _ => {
                    self.expect("fi")?;
                    return Ok(Kind::Scripts(scripts));
                }
            }
        }
    }

    fn loop_body(&mut self) -> Parsed<Script> {
        self.expect("do")?;
        let body = self.body(Until::Words(&["done"]))?;
        self.expect("done")?;
        Ok(body)
    }

    fn each(&mut self) -> Parsed<Kind> {
        self.blanks()?;
        if self.peek() == Some(b'(') {
            let fault = self.here("arithmetic can run commands: a name in it may hold one");
            return Err(fault.with("use `for i in $(seq 1 10)`"));
        }
        let name = self.word()?;
        self.assigned.extend(name.literal());
        self.blanks()?;
        let is_split = self.peek() == Some(b';');
        if is_split {
            self.at += 1;
        }
        self.newlines()?;
        let words = if !is_split && self.reserved() == Some("in") {
            self.at += 2;
            Some(self.words_of_line()?)
        } else {
            None
        };
        Ok(Kind::For { name, words, body: self.loop_body()? })
    }

    /// Words up to `;` or the end of the line.
    fn words_of_line(&mut self) -> Parsed<Vec<Word>> {
        let mut words = Vec::new();
        loop {
            self.blanks()?;
            match self.peek() {
                Some(b';') => {
                    self.at += 1;
                    return Ok(words);
                }
                Some(b'\n') => return Ok(words),
                _ => words.push(self.word()?),
            }
        }
    }

    fn case(&mut self) -> Parsed<Kind> {
        self.blanks()?;
        let word = self.word()?;
        self.expect("in")?;
        let (mut patterns, mut arms) = (Vec::new(), Vec::new());
        loop {
            self.newlines()?;
            if self.reserved() == Some("esac") {
                self.at += 4;
                return Ok(Kind::Case { word, patterns, arms });
            }
            if self.peek() == Some(b'(') {
                self.at += 1;
            }
            loop {
                self.blanks()?;
                patterns.push(self.word()?);
                self.blanks()?;
                match self.peek() {
                    Some(b'|') => self.at += 1,
                    Some(b')') => break,
                    _ => return Err(self.here("`)` is missing after a pattern")),
                }
            }
            self.at += 1;
            arms.push(self.script(Until::Arm)?);
            if self.starts(b";;&") {
                self.at += 3;
            } else if self.peek() == Some(b';') {
                self.at += 2;
            }
        }
    }

    fn simple(&mut self) -> Parsed<Command> {
        let start = self.at;
        let (mut simple, mut redirects) = (Simple::default(), Vec::new());
        loop {
            self.blanks()?;
            if let Some(redirect) = self.redirect()? {
                redirects.push(redirect);
                continue;
            }
            match self.peek() {
                None | Some(b'\n' | b';' | b'&' | b'|' | b')') => break,
                Some(b'(') if simple.words.len() == 1 && simple.assignments.is_empty() => {
                    return Err(self.here("a function could take the place of a program"));
                }
                Some(b'(') => return Err(self.here("`(` stands where a word should").with("put it in quotes")),
                _ if simple.words.is_empty() => match self.assignment()? {
                    Some(assignment) => simple.assignments.push(assignment),
                    None => simple.words.push(self.word()?),
                },
                _ if redirects.iter().any(|redirect: &Redirect| redirect.kind == RedirectKind::WriteBoth) => {
                    let fault = self.here("another shell ends the command at `&>` and runs this");
                    return Err(fault.with("put the redirect last"));
                }
                _ => simple.words.push(self.argument()?),
            }
        }
        simple.span = self.span(start);
        let words: Vec<Vec<u8>> = simple.words.iter().filter_map(Word::literal).collect();
        // Not only the first: `command read x`.
        if words.iter().any(|word| ASSIGN.contains(&word.as_slice())) {
            self.assigned.extend(words.iter().map(|word| name_at(word).to_vec()));
        }
        if simple.words.is_empty() && simple.assignments.is_empty() && redirects.is_empty() {
            return Err(self.here("a command is missing"));
        }
        Ok(Command { kind: Kind::Simple(simple), redirects, certain: true })
    }

    /// An argument. zsh ends a group at any `}` that stands alone.
    fn argument(&mut self) -> Parsed<Word> {
        let word = self.word()?;
        match word.bare() {
            Some(text @ (b"{" | b"}")) => {
                let reason = format!("{} alone is an argument in one shell and ends a group in another", shown(text));
                Err(Fault::new(&word.span, reason).with("put it in quotes"))
            }
            _ => Ok(word),
        }
    }

    fn assignment(&mut self) -> Parsed<Option<Assignment>> {
        let rest = self.text.get(self.at..).unwrap_or_default();
        let name = name_at(rest);
        let after = rest.get(name.len()..).unwrap_or_default();
        if name.is_empty() {
            return Ok(None);
        }
        let (start, name) = (self.at, name.to_vec());
        let adds = after.starts_with(b"+=");
        if after.starts_with(b"[") {
            self.at += name.len();
            return Err(self.here("what stands in `[` and `]` after a name is evaluated, and may run commands"));
        }
        if !adds && !after.starts_with(b"=") {
            return Ok(None);
        }
        self.at += name.len() + if adds { 2 } else { 1 };
        let span = self.span(start);
        self.assigned.push(name.clone());
        let value = if self.peek() == Some(b'(') {
            Value::Array(self.array()?)
        } else if adds {
            Value::More(self.value()?)
        } else {
            Value::One(self.value()?)
        };
        Ok(Some(Assignment { name, span, value }))
    }

    /// The word after `=`; there may be none.
    fn value(&mut self) -> Parsed<Word> {
        let is_end = |byte: u8| matches!(byte, b' ' | b'\t' | b'\n' | b';' | b'&' | b'|' | b')');
        if self.peek().is_none_or(is_end) {
            return Ok(self.written(self.at, Vec::new()));
        }
        self.word()
    }

    fn array(&mut self) -> Parsed<Vec<Word>> {
        self.at += 1;
        let mut words = Vec::new();
        loop {
            self.newlines()?;
            match self.peek() {
                Some(b')') => {
                    self.at += 1;
                    return Ok(words);
                }
                // `[index]=value` is evaluated.
                Some(b'[') => return Err(self.here("what stands in `[` and `]` is evaluated, and may run commands")),
                _ => words.push(self.word()?),
            }
        }
    }

    /// `[[ ... ]]`: the words are judged later; here only where they end matters.
    fn test(&mut self, start: usize) -> Parsed<Kind> {
        let mut words: Vec<Word> = Vec::new();
        loop {
            let before = self.at;
            self.blanks()?;
            if self.at == before {
                return Err(self.here("a blank is missing inside `[[ ]]`"));
            }
            let is_pattern = words.last().is_some_and(|word| word.bare() == Some(b"=~"));
            let word = match self.peek() {
                Some(b'&' | b'|') if self.starts(b"&&") || self.starts(b"||") => self.operator(2),
                Some(b'<') if self.ahead(1) == Some(b' ') => self.operator(1),
                Some(b'>') => {
                    let fault = self.here("`>` compares in bash and writes a file in another shell");
                    return Err(fault.with("turn the comparison around with `<`"));
                }
                Some(b'\n' | b';' | b'(' | b')' | b'&' | b'|' | b'<') | None if !is_pattern => {
                    return Err(self
                        .here("this is not understood inside `[[ ]]`")
                        .with("use one `[[ ]]` for each test"));
                }
                _ if is_pattern => self.regex()?,
                _ => self.word()?,
            };
            if word.bare() == Some(b"]]") {
                return Ok(Kind::Test { span: self.span(start), words });
            }
            words.push(word);
        }
    }

    fn operator(&mut self, length: usize) -> Word {
        let start = self.at;
        self.at += length;
        let text = self.text.get(start..self.at).unwrap_or_default().to_vec();
        self.written(start, vec![Part::Plain(text)])
    }
}

/// The name of a variable at the beginning of a text.
pub(super) fn name_at(text: &[u8]) -> &[u8] {
    let is_first = |byte: &u8| byte.is_ascii_alphabetic() || *byte == b'_';
    if !text.first().is_some_and(is_first) {
        return &[];
    }
    let end = text.iter().position(|byte| !byte.is_ascii_alphanumeric() && *byte != b'_').unwrap_or(text.len());
    text.get(..end).unwrap_or_default()
}
