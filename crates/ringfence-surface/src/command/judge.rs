//! Goes through a parsed line and looks at every command, word, redirect and assignment in it.

use std::collections::BTreeMap;

use super::Git;
use super::arguments::{Argument, Count};
use super::fault::{Fault, Span, shown};
use super::parse::{Whole, parse};
use super::syntax::{
    Assignment, Command, Kind, Parameter, ParameterKind, Part, Redirect, RedirectKind, Script, Simple, Value, Word,
};
use super::{builtins, programs, variables};

/// What is known about a variable.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Fact {
    /// It holds a number.
    Number,
    /// It begins with this.
    Begins(Vec<u8>),
}

/// What bash opens as a connection.
const SOCKETS: [&[u8]; 2] = [b"/dev/tcp", b"/dev/udp"];

/// Of more variables nothing is known: what is known is copied for every script inside another.
const MOST_FACTS: usize = 32;

/// How deeply programs may start programs: `env nice timeout 1 ls`.
const DEEPEST_START: usize = 8;

#[derive(Debug)]
pub(super) struct Judge<'a> {
    pub(super) git: Git,
    /// How often each name is assigned.
    assigned: BTreeMap<&'a [u8], usize>,
    facts: BTreeMap<Vec<u8>, Fact>,
    started: usize,
}

impl<'a> Judge<'a> {
    pub(super) fn new(git: Git, assigned: &'a [Vec<u8>]) -> Self {
        let mut times = BTreeMap::new();
        for name in assigned {
            *times.entry(name.as_slice()).or_insert(0) += 1;
        }
        Self { git, assigned: times, facts: BTreeMap::new(), started: 0 }
    }

    pub(super) fn whole(&mut self, whole: &Whole) -> Result<(), Fault> {
        self.script(&whole.script)?;
        // Bodies of here-documents are looked at without knowing any variable.
        self.facts.clear();
        whole.bodies.iter().try_for_each(|body| self.word(body))
    }

    fn script(&mut self, script: &Script) -> Result<(), Fault> {
        script.commands.iter().try_for_each(|command| self.command(command))
    }

    /// A script whose variables are forgotten at its end: it may run in another process, or not at all.
    fn apart(&mut self, script: &Script) -> Result<(), Fault> {
        let facts = self.facts.clone();
        self.script(script)?;
        self.facts = facts;
        Ok(())
    }

    fn command(&mut self, command: &Command) -> Result<(), Fault> {
        for redirect in &command.redirects {
            self.redirect(redirect)?;
        }
        match &command.kind {
            Kind::Simple(simple) => self.simple(simple, command),
            Kind::Subshell(script) => self.apart(script),
            Kind::Scripts(scripts) => scripts.iter().try_for_each(|script| self.apart(script)),
            Kind::For { name, words, body } => self.each(name, words.as_deref(), body),
            Kind::Case { word, patterns, arms } => {
                self.word(word)?;
                patterns.iter().try_for_each(|pattern| self.word(pattern))?;
                arms.iter().try_for_each(|arm| self.apart(arm))
            }
            Kind::Test { span, words } => {
                words.iter().try_for_each(|word| self.word(word))?;
                let arguments: Vec<Argument> = words.iter().map(|word| self.argument(word)).collect();
                builtins::double_bracket(span, words, &arguments)
            }
        }
    }

    fn each(&mut self, name: &Word, words: Option<&[Word]>, body: &Script) -> Result<(), Fault> {
        let Some(text) = name.bare() else { return Err(Fault::new(&name.span, "the name of the loop is not plain")) };
        variables::check_name(text, &name.span)?;
        let words = words.unwrap_or_default();
        words.iter().try_for_each(|word| self.word(word))?;
        let facts = self.facts.clone();
        let values: Vec<Argument> = words.iter().map(|word| self.argument(word)).collect();
        self.learn(text, &values);
        self.script(body)?;
        self.facts = facts;
        Ok(())
    }

    /// What holds for all of these values holds for the variable, if it is assigned nowhere else.
    fn learn(&mut self, name: &[u8], values: &[Argument]) {
        self.facts.remove(name);
        let is_once = self.assigned.get(name) == Some(&1);
        if !is_once || values.is_empty() || self.facts.len() >= MOST_FACTS {
            return;
        }
        if values.iter().all(|value| value.is_number) {
            self.facts.insert(name.to_vec(), Fact::Number);
            return;
        }
        let begins = |value: &Argument| (value.count != Count::Split).then(|| value.text.clone());
        let Some(texts) = values.iter().map(begins).collect::<Option<Vec<_>>>() else { return };
        let common = texts.iter().skip(1).fold(texts.first().cloned().unwrap_or_default(), |common, text| {
            common.iter().zip(text).take_while(|(a, b)| a == b).map(|(a, _)| *a).collect()
        });
        if !common.is_empty() {
            self.facts.insert(name.to_vec(), Fact::Begins(common));
        }
    }

    fn simple(&mut self, simple: &Simple, command: &Command) -> Result<(), Fault> {
        let words: Vec<Argument> = simple.words.iter().map(|word| self.argument(word)).collect();
        for assignment in &simple.assignments {
            self.assignment(assignment, words.first())?;
            if let (true, true, Value::One(word)) = (words.is_empty(), command.certain, &assignment.value) {
                let value = self.argument(word);
                self.learn(&assignment.name, &[value]);
            }
        }
        simple.words.iter().try_for_each(|word| self.word(word))?;
        if !words.is_empty() {
            return self.run(&words);
        }
        // `$(< file)` reads; in zsh a redirect alone starts a pager.
        match simple.assignments.is_empty() {
            true if command.certain && command.redirects.iter().all(|redirect| redirect.kind == RedirectKind::Read) => {
                Err(Fault::new(&simple.span, "a redirect without a command starts a pager in zsh").with("use `cat`"))
            }
            true => Err(Fault::new(&simple.span, "a redirect stands without a command")),
            false => Ok(()),
        }
    }

    fn assignment(&mut self, assignment: &Assignment, program: Option<&Argument>) -> Result<(), Fault> {
        let Assignment { name, span, value } = assignment;
        let words: &[Word] = match value {
            Value::One(word) | Value::More(word) => std::slice::from_ref(word),
            Value::Array(words) => words,
        };
        words.iter().try_for_each(|word| self.word(word))?;
        let one = match value {
            Value::One(word) => Some(self.argument(word)),
            _ => None,
        };
        match (program.map(Argument::known), one) {
            (None, one) => variables::check_alone(name, one.as_ref(), span),
            // It holds for the one line that is read.
            (Some(Some(b"read")), _) if name == b"IFS" => Ok(()),
            (Some(_), Some(one)) => variables::check_given(name, &one, span),
            (Some(_), None) => variables::check_given(name, &Argument::unknown(span, Count::Split, name), span),
        }
    }

    fn redirect(&mut self, redirect: &Redirect) -> Result<(), Fault> {
        self.word(&redirect.target)?;
        let target = self.argument(&redirect.target);
        match redirect.kind {
            RedirectKind::Document | RedirectKind::Text => Ok(()),
            RedirectKind::Write | RedirectKind::WriteBoth if target.known() == Some(b"/dev/null") => Ok(()),
            RedirectKind::Write | RedirectKind::WriteBoth => {
                let fault = Fault::new(&redirect.span, format!("the redirect writes {}", target.shown()));
                Err(match target.known() {
                    Some(b"/dev/stderr") => fault.with("write `>&2`"),
                    Some(b"/dev/stdout") => fault.with("leave it out"),
                    _ => fault.with("only `/dev/null` may be written"),
                })
            }
            RedirectKind::Duplicate => match target.known() {
                Some(b"-" | b"/dev/null" | [b'0'..=b'9']) => Ok(()),
                _ => Err(Fault::new(&redirect.span, format!("the redirect writes {}", target.shown()))
                    .with("only a descriptor may stand here, as in `2>&1`")),
            },
            RedirectKind::Read => {
                let path = target.text.as_slice();
                // bash opens `/dev/tcp/host/port` itself, also when a variable holds it.
                let is_socket = SOCKETS
                    .iter()
                    .any(|socket| path.starts_with(socket) || (target.known().is_none() && socket.starts_with(path)));
                if is_socket || target.count != Count::One {
                    let fault = Fault::new(&redirect.span, format!("{} may lead to the network", target.shown()));
                    return Err(fault.with("read it with `cat`, or put `./` before it"));
                }
                Ok(())
            }
        }
    }

    /// What is known about a word, with what is known about the variables in it.
    pub(super) fn argument(&self, word: &Word) -> Argument {
        let mut argument = Argument::new(word);
        if let [Part::Parameter(parameter), ..] = word.parts.as_slice() {
            match self.fact(parameter) {
                Some(Fact::Number) if word.parts.len() == 1 => {
                    argument.is_number = true;
                    argument.count = Count::One;
                }
                Some(Fact::Begins(text)) if parameter.quoted => argument.text.clone_from(text),
                _ => {}
            }
        }
        argument
    }

    fn fact(&self, parameter: &Parameter) -> Option<&Fact> {
        if parameter.kind == ParameterKind::Whole { self.facts.get(&parameter.name) } else { None }
    }

    /// Everything inside a word that runs by itself.
    fn word(&mut self, word: &Word) -> Result<(), Fault> {
        word.parts.iter().try_for_each(|part| self.part(part))
    }

    fn part(&mut self, part: &Part) -> Result<(), Fault> {
        match part {
            Part::Plain(_) | Part::Quoted(_) | Part::Odd | Part::Tilde | Part::Glob | Part::Brace => Ok(()),
            Part::Parameter(parameter) => {
                if parameter.kind == ParameterKind::Assigns {
                    variables::check_name(&parameter.name, &parameter.span)?;
                }
                parameter.operand.iter().try_for_each(|part| self.part(part))
            }
            Part::Command { script, .. } => match script.0.commands.as_slice() {
                [only] if is_file_read(only) => self.redirect_only(only),
                _ => self.apart(&script.0),
            },
            Part::Process(script) => self.apart(&script.0),
            Part::Arithmetic { span, names, parts, .. } => self.arithmetic(span, names, parts),
        }
    }

    fn redirect_only(&mut self, command: &Command) -> Result<(), Fault> {
        command.redirects.iter().try_for_each(|redirect| self.redirect(redirect))
    }

    /// A name in arithmetic stands for its value, which is evaluated in turn: `a[$(rm x)]` runs `rm`.
    fn arithmetic(&mut self, span: &Span, names: &[Word], parts: &[Part]) -> Result<(), Fault> {
        for name in names {
            let text = name.bare().unwrap_or_default();
            if self.facts.get(text) != Some(&Fact::Number) {
                let reason = format!("arithmetic runs commands that {} may hold", shown(text));
                return Err(Fault::new(&name.span, reason).with("set it to a number on the same line, once"));
            }
        }
        for part in parts {
            self.part(part)?;
            let is_number = match part {
                Part::Parameter(parameter) => {
                    parameter.kind == ParameterKind::Number || self.fact(parameter) == Some(&Fact::Number)
                }
                Part::Arithmetic { .. } => true,
                _ => false,
            };
            if !is_number {
                let at = if let Part::Parameter(parameter) = part { &parameter.span } else { span };
                let fault = Fault::new(at, "arithmetic runs commands that a value may hold");
                return Err(fault.with("set a variable to a number on the same line"));
            }
        }
        Ok(())
    }

    /// A program with its arguments.
    pub(super) fn run(&mut self, words: &[Argument]) -> Result<(), Fault> {
        let Some((program, arguments)) = words.split_first() else { return Ok(()) };
        let Some(name) = program.known() else {
            let fault =
                Fault::new(&program.span, format!("{} decides only when it runs what is started", program.shown()));
            return Err(fault.with("write the program's name out"));
        };
        self.started += 1;
        if self.started > DEEPEST_START {
            return Err(Fault::new(&program.span, "too many programs start each other"));
        }
        let done = programs::check(self, name, program, arguments);
        self.started -= 1;
        done
    }

    /// A script that a shell is given as an argument.
    pub(super) fn nested(&mut self, text: &[u8], place: &Argument) -> Result<(), Fault> {
        let moved = |mut fault: Fault| {
            fault.at = place.span.clone();
            fault
        };
        let whole = parse(text, Some(place.span.clone()), 2 * self.started).map_err(moved)?;
        let mut judge = Judge::new(self.git, &whole.assigned);
        judge.started = self.started;
        judge.whole(&whole)
    }
}

/// `< file` alone, which in `$( )` stands for the file's text.
fn is_file_read(command: &Command) -> bool {
    let is_read = |redirect: &Redirect| redirect.kind == RedirectKind::Read;
    match &command.kind {
        Kind::Simple(simple) => {
            simple.words.is_empty()
                && simple.assignments.is_empty()
                && command.redirects.len() == 1
                && command.redirects.iter().all(is_read)
        }
        _ => false,
    }
}
