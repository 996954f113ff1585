//! Approvals: what somebody inside wants to do, that waits until the user has said yes or no.
//!
//! A question is typed: a path to write, a host to reach, a socket, a command of an agent's client. The same asked twice is one
//! question. There are few at once, each ends by itself, and its end is a no. What the user says is remembered for as long as
//! the user said, and nothing else is: a yes to one command is no yes to another.
//!
//! What a question says comes from whoever held the call back. The broker tells what the kernel told it. The hook of a client runs
//! inside, so its questions are marked as what was said: nothing but the client's own tool call depends on the answer, and
//! the fence stays as it is.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use ringfence_surface::Shown;
use rustix::net::{RecvFlags, SendFlags};
use serde::{Deserialize, Serialize};

use crate::text::{Bytes, now_ms};

/// Questions at once.
const MOST: usize = 32;
/// Those of them about commands, and those about names: whoever is inside can ask for as many as there are words.
const MOST_EASY: usize = 8;
/// As many wait for the same answer.
const MOST_ASKERS: usize = 64;
/// As many answers are remembered; the oldest is forgotten, and asked again.
const MOST_REMEMBERED: usize = 1_000;

/// What is asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Subject {
    /// To touch a path.
    Path {
        /// Which, every link followed.
        path: Bytes,
        /// `read` or `write`.
        access: String,
    },
    /// To reach a host.
    Host {
        /// Its name, with a port where one is known.
        host: String,
    },
    /// To reach a unix socket.
    Socket {
        /// Its path.
        path: Bytes,
    },
    /// To run a command in a client's shell.
    Command {
        /// The line.
        line: String,
    },
}

/// For how long a yes holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "lasts", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Scope {
    /// For the calls that wait now.
    Once {},
    /// For the same command: the process that asks, or the same line.
    Command {},
    /// Until the session ends.
    Session {},
    /// For a time.
    For {
        /// Milliseconds.
        ms: u64,
    },
}

impl Scope {
    /// The word for it in output.
    #[must_use]
    pub fn words(self) -> String {
        match self {
            Self::Once {} => "once".to_owned(),
            Self::Command {} => "for this command".to_owned(),
            Self::Session {} => "for this session".to_owned(),
            Self::For { ms } => format!("for {} s", ms / 1_000),
        }
    }
}

/// Something that waits for an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Question {
    /// Names it within its session.
    pub id: u64,
    /// What is asked for.
    #[serde(flatten)]
    pub subject: Subject,
    /// Why it was held back.
    pub why: String,
    /// The rule, and where it was written.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub rule: Option<String>,
    /// The process that asks.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub pid: Option<u32>,
    /// Its program.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub program: Option<Bytes>,
    /// Its command line.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub command: Option<Bytes>,
    /// Was it said by the hook, which runs inside, and not seen by the kernel?
    pub said: bool,
    /// Since when, in milliseconds since 1970.
    pub asked_ms: u64,
    /// It is a no from then on.
    pub until_ms: u64,
    /// How many wait for it.
    pub waiting: usize,
}

impl Subject {
    /// In words, with nothing that moves a cursor.
    #[must_use]
    pub fn words(&self) -> String {
        match self {
            Self::Path { path, access } => format!("{} {}", Shown(access.as_bytes()), path.shown()),
            Self::Host { host } => format!("reach {}", Shown(host.as_bytes())),
            Self::Socket { path } => format!("connect to {}", path.shown()),
            Self::Command { line } => format!("run {}", Shown(line.as_bytes())),
        }
    }
}

impl Question {
    /// One line for a terminal, with nothing that moves a cursor.
    #[must_use]
    pub fn line(&self) -> String {
        let by = match (&self.program, self.pid) {
            (Some(program), Some(pid)) => format!(" by {} ({pid})", program.shown()),
            (Some(program), None) => format!(" by {}", program.shown()),
            _ => String::new(),
        };
        let said = if self.said { " (as the agent's client says)" } else { "" };
        let rule = self.rule.as_ref().map(|rule| format!(" [{}]", Shown(rule.as_bytes()))).unwrap_or_default();
        format!("{}{by}{said}: {}{rule}", self.subject.words(), Shown(self.why.as_bytes()))
    }
}

/// A yes that holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Approved {
    /// The question that it was an answer to.
    pub id: u64,
    /// What may be done.
    #[serde(flatten)]
    pub subject: Subject,
    /// For how long.
    pub scope: Scope,
}

/// Who waits for an answer.
#[derive(Debug)]
pub(crate) enum Asker {
    /// A hook, at the other end of this.
    Hook(OwnedFd),
    /// A call that the broker holds back, by its number.
    Broker(u64),
    /// Questions about a name, on the way out.
    Name(String),
}

/// What came of asking.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// The answer is known.
    Known(Asker, bool),
    /// It waits, with others that asked the same.
    Joined,
    /// It waits.
    New(u64),
}

/// A question before it has a number.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) subject: Subject,
    pub(crate) why: String,
    pub(crate) rule: Option<String>,
    pub(crate) pid: Option<u32>,
    /// When that process began.
    pub(crate) started: Option<u64>,
    pub(crate) program: Option<Bytes>,
    pub(crate) command: Option<Bytes>,
    pub(crate) asker: Asker,
}

/// What waits in a session, and what was said.
#[derive(Debug)]
pub(crate) struct Queue {
    /// How long somebody waits; nobody where it is none.
    wait: Option<Duration>,
    next: u64,
    waiting: Vec<Waiting>,
    remembered: Vec<Remembered>,
}

#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) question: Question,
    pub(crate) askers: Vec<Asker>,
    started: Option<u64>,
    until: Instant,
}

#[derive(Debug)]
struct Remembered {
    id: u64,
    scope: Scope,
    subject: Subject,
    /// The process, when it began, and its command line, where it is for them alone.
    by: Option<(Option<u32>, Option<u64>, Option<Bytes>)>,
    until: Option<Instant>,
}

impl Queue {
    pub(crate) fn new(wait: Option<Duration>) -> Self {
        Self { wait, next: 1, waiting: Vec::new(), remembered: Vec::new() }
    }

    /// How long somebody waits.
    pub(crate) fn wait(&self) -> Option<Duration> {
        self.wait
    }

    /// What waits, the oldest first.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = &Question> {
        self.waiting.iter().map(|waiting| &waiting.question)
    }

    /// What was said yes to, the oldest first.
    pub(crate) fn approved(&self) -> impl Iterator<Item = Approved> {
        let is_held = |known: &&Remembered| known.until.is_none_or(|until| Instant::now() < until);
        let shown = |known: &Remembered| Approved { id: known.id, subject: known.subject.clone(), scope: known.scope };
        self.remembered.iter().filter(is_held).map(shown)
    }

    /// Takes back a yes.
    pub(crate) fn take_back(&mut self, id: u64) -> Option<Subject> {
        let at = self.remembered.iter().position(|known| known.id == id)?;
        Some(self.remembered.remove(at).subject)
    }

    /// When there is something to look at.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.waiting.iter().map(|waiting| waiting.until).min().map(|until| until.min(Instant::now() + LOOK))
    }

    /// Somebody asks.
    pub(crate) fn ask(&mut self, asked: Asked) -> Outcome {
        let said = matches!(asked.asker, Asker::Hook(_));
        let Some(wait) = self.wait else { return Outcome::Known(asked.asker, false) };
        let now = Instant::now();
        self.remembered.retain(|known| known.until.is_none_or(|until| now < until));
        let by = (asked.pid, asked.started, asked.command.clone());
        let is_allowed =
            |known: &Remembered| known.subject == asked.subject && known.by.as_ref().is_none_or(|known| *known == by);
        if self.remembered.iter().any(is_allowed) {
            return Outcome::Known(asked.asker, true);
        }
        let is_same = |one: &&mut Waiting| one.question.subject == asked.subject && one.question.said == said;
        if let Some(same) = self.waiting.iter_mut().find(is_same) {
            // Those who wait together are answered together, so they must be the same to whoever is asked.
            let is_alike = same.question.command == asked.command || said;
            if !is_alike || same.askers.len() >= MOST_ASKERS {
                return Outcome::Known(asked.asker, false);
            }
            same.askers.push(asked.asker);
            same.question.waiting = same.askers.len();
            return Outcome::Joined;
        }
        let is_easy = matches!(asked.asker, Asker::Hook(_) | Asker::Name(_));
        let is_alike =
            |one: &&Waiting| std::mem::discriminant(&one.question.subject) == std::mem::discriminant(&asked.subject);
        let alike = self.waiting.iter().filter(is_alike).count();
        if self.waiting.len() >= MOST || is_easy && alike >= MOST_EASY {
            return Outcome::Known(asked.asker, false);
        }
        let Asked { subject, why, rule, pid, started, program, command, asker } = asked;
        let (id, asked_ms) = (self.next, now_ms());
        let until_ms = asked_ms.saturating_add(u64::try_from(wait.as_millis()).unwrap_or(u64::MAX));
        self.next += 1;
        let question = Question { id, subject, why, rule, pid, program, command, said, asked_ms, until_ms, waiting: 1 };
        self.waiting.push(Waiting { question, askers: vec![asker], started, until: now + wait });
        Outcome::New(id)
    }

    /// The user says yes. Returns who waits.
    pub(crate) fn approve(&mut self, id: u64, scope: Scope) -> Option<Waiting> {
        let waiting = self.take(id)?;
        let until = match scope {
            Scope::For { ms } => Instant::now().checked_add(Duration::from_millis(ms)),
            Scope::Once {} | Scope::Command {} | Scope::Session {} => None,
        };
        let Question { subject, pid, command, .. } = &waiting.question;
        let is_line = matches!(subject, Subject::Command { .. });
        let by = (scope == Scope::Command {} && !is_line).then(|| (*pid, waiting.started, command.clone()));
        if scope != (Scope::Once {}) {
            if self.remembered.len() == MOST_REMEMBERED {
                self.remembered.remove(0);
            }
            self.remembered.push(Remembered { id, scope, subject: subject.clone(), by, until });
        }
        Some(waiting)
    }

    /// The user says no. Returns who waits.
    pub(crate) fn deny(&mut self, id: u64) -> Option<Waiting> {
        self.take(id)
    }

    fn take(&mut self, id: u64) -> Option<Waiting> {
        let at = self.waiting.iter().position(|waiting| waiting.question.id == id)?;
        Some(self.waiting.remove(at))
    }

    /// The broker has settled one otherwise. Returns the question that nobody waits for any more, and why.
    pub(crate) fn withdrawn(&mut self, number: u64) -> Option<(Question, &'static str)> {
        for waiting in &mut self.waiting {
            waiting.askers.retain(|asker| !matches!(asker, Asker::Broker(other) if *other == number));
        }
        let left = self.waiting.iter().find(|waiting| waiting.askers.is_empty());
        let left = left.map(|waiting| {
            // Its time began there a little earlier than here.
            let is_over = waiting.until <= Instant::now() + LOOK / 5;
            let why = if is_over { "nobody answered in time" } else { "whoever asked waits no longer" };
            (waiting.question.clone(), why)
        });
        self.forget_empty();
        left
    }

    /// Those whose time is up, which is a no. Whoever has gone meanwhile is forgotten.
    pub(crate) fn expired(&mut self) -> Vec<Waiting> {
        for waiting in &mut self.waiting {
            waiting.askers.retain(|asker| !matches!(asker, Asker::Hook(end) if is_gone(end)));
        }
        self.forget_empty();
        let now = Instant::now();
        let mut over = Vec::new();
        while let Some(at) = self.waiting.iter().position(|waiting| waiting.until <= now) {
            over.push(self.waiting.remove(at));
        }
        over
    }

    fn forget_empty(&mut self) {
        self.waiting.retain(|waiting| !waiting.askers.is_empty());
        for waiting in &mut self.waiting {
            waiting.question.waiting = waiting.askers.len();
        }
    }
}

/// How often it is looked at whether somebody has gone.
const LOOK: Duration = Duration::from_millis(500);

/// What a hook hears.
pub(crate) const YES: u8 = b'y';

/// Tells a hook. One that has gone does not hear it.
pub(crate) fn tell(hook: &OwnedFd, allowed: bool) {
    if allowed {
        let _ = rustix::net::send(hook, &[YES], SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
    }
}

/// It is one end of a pair; whoever is inside may have sent anything, and then it is gone.
fn is_gone(end: &OwnedFd) -> bool {
    let peeked = rustix::net::recv(end, &mut [0; 1], RecvFlags::PEEK | RecvFlags::DONTWAIT);
    !matches!(peeked, Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(line: &str) -> (Asked, OwnedFd) {
        let (ours, theirs) = crate::ways::channel().unwrap();
        let asked = Asked {
            subject: Subject::Command { line: line.into() },
            why: "it changes something".into(),
            rule: None,
            pid: None,
            started: None,
            program: None,
            command: None,
            asker: Asker::Hook(ours),
        };
        (asked, theirs)
    }

    fn write(path: &str, pid: u32, number: u64) -> Asked {
        Asked {
            subject: Subject::Path { path: Bytes::Text(path.into()), access: "write".into() },
            why: "no rule allows it".into(),
            rule: None,
            pid: Some(pid),
            started: Some(5),
            program: Some(Bytes::Text("sh".into())),
            command: Some(Bytes::Text("sh -c x".into())),
            asker: Asker::Broker(number),
        }
    }

    fn queue() -> Queue {
        Queue::new(Some(Duration::from_secs(60)))
    }

    fn is_known(outcome: &Outcome, allowed: bool) -> bool {
        matches!(outcome, Outcome::Known(_, known) if *known == allowed)
    }

    /// K12: where nobody is asked, the answer is no.
    #[test]
    fn k12_without_asking_it_is_a_no() {
        assert!(is_known(&Queue::new(None).ask(write("/x", 1, 1)), false));
    }

    /// K12: the same asked twice is one question, and both hear its answer.
    #[test]
    fn k12_the_same_is_asked_once() {
        let mut queue = queue();
        let Outcome::New(id) = queue.ask(write("/x", 1, 1)) else { panic!("not asked") };
        assert!(matches!(queue.ask(write("/x", 2, 2)), Outcome::Joined));
        assert!(matches!(queue.ask(write("/y", 1, 3)), Outcome::New(_)));
        assert_eq!(queue.waiting().map(|question| question.waiting).collect::<Vec<_>>(), [2, 1]);
        let answered = queue.approve(id, Scope::Once {}).unwrap();
        assert_eq!(answered.askers.len(), 2);
        assert!(queue.approve(id, Scope::Once {}).is_none(), "it is answered once");
        // It was for the calls that waited.
        assert!(matches!(queue.ask(write("/x", 1, 4)), Outcome::New(_)));
    }

    /// K12: a yes holds as far as it was said, and for nothing else.
    #[test]
    fn k12_a_yes_is_remembered_as_said() {
        let mut queue = queue();
        let mut approve = |asked: Asked, scope| {
            let Outcome::New(id) = queue.ask(asked) else { panic!("not asked") };
            queue.approve(id, scope).unwrap();
        };
        approve(write("/session", 1, 1), Scope::Session {});
        approve(write("/command", 1, 2), Scope::Command {});
        approve(write("/time", 1, 3), Scope::For { ms: 0 });
        assert!(is_known(&queue.ask(write("/session", 2, 4)), true));
        assert!(!is_known(&queue.ask(write("/session/below", 2, 5)), true));
        assert!(is_known(&queue.ask(write("/command", 1, 6)), true));
        assert!(!is_known(&queue.ask(write("/command", 2, 7)), true), "another process");
        let later = Asked { started: Some(6), ..write("/command", 1, 7) };
        assert!(!is_known(&queue.ask(later), true), "another process with the same number");
        let ids: Vec<u64> = queue.approved().map(|approved| approved.id).collect();
        assert_eq!((ids, queue.take_back(9)), (vec![1, 2], None));
        assert!(queue.take_back(1).is_some());
        assert!(!is_known(&queue.ask(write("/session", 2, 10)), true), "it was taken back");
        assert!(!is_known(&queue.ask(write("/time", 1, 8)), true), "its time is over");
        let read = Subject::Path { path: Bytes::Text("/session".into()), access: "read".into() };
        assert!(!is_known(&queue.ask(Asked { subject: read, ..write("/session", 1, 9) }), true));
        // A line that was allowed is that line.
        let (asked, _end) = command("make");
        let Outcome::New(id) = queue.ask(asked) else { panic!("not asked") };
        queue.approve(id, Scope::Command {}).unwrap();
        assert!(is_known(&queue.ask(command("make").0), true));
        assert!(!is_known(&queue.ask(command("make install").0), true));
    }

    /// K12: somebody with another command line does not slip under a question that was asked by another.
    #[test]
    fn k12_nobody_joins_another_commands_question() {
        let mut queue = queue();
        assert!(matches!(queue.ask(write("/x", 1, 1)), Outcome::New(_)));
        let other = Asked { command: Some(Bytes::Text("rm".into())), ..write("/x", 2, 2) };
        assert!(is_known(&queue.ask(other), false));
    }

    /// K12: time is up: a no. Whoever has gone is not waited for.
    #[test]
    fn k12_a_timeout_denies() {
        let mut queue = Queue::new(Some(Duration::ZERO));
        let (asked, end) = command("make");
        assert!(matches!(queue.ask(asked), Outcome::New(_)));
        let over = queue.expired();
        assert_eq!((over.len(), queue.waiting().count()), (1, 0));
        drop(over);
        // Nothing was said, and the end is a no.
        assert_eq!(rustix::net::recv(&end, &mut [0; 1], RecvFlags::empty()).map(|(got, _)| got), Ok(0));
        let mut queue = Queue::new(Some(Duration::from_secs(60)));
        let (asked, end) = command("make");
        assert!(matches!(queue.ask(asked), Outcome::New(_)));
        assert!(queue.expired().is_empty() && queue.waiting().count() == 1);
        drop(end);
        assert!(queue.expired().is_empty() && queue.waiting().count() == 0);
        assert!(matches!(queue.ask(write("/x", 1, 7)), Outcome::New(_)));
        queue.withdrawn(7);
        assert_eq!(queue.waiting().count(), 0);
    }

    /// K12: whoever is inside can neither fill the queue nor keep the kernel's own questions out of it.
    #[test]
    fn k12_a_flood_of_questions() {
        let mut queue = queue();
        let mut ends = Vec::new();
        for number in 0..1_000 {
            let (asked, end) = command(&format!("make {number}"));
            queue.ask(asked);
            ends.push(end);
        }
        assert_eq!(queue.waiting().count(), MOST_EASY);
        for number in 0..1_000 {
            let name = format!("n{number}.example.net");
            let subject = Subject::Host { host: name.clone() };
            queue.ask(Asked { subject, asker: Asker::Name(name), ..write("/x", 1, 0) });
        }
        assert_eq!(queue.waiting().count(), 2 * MOST_EASY);
        assert!(matches!(queue.ask(write("/x", 1, 1)), Outcome::New(_)));
        for number in 0..1_000 {
            queue.ask(write(&format!("/{number}"), 1, number));
            queue.ask(write("/x", 1, number));
        }
        assert_eq!(queue.waiting().count(), MOST);
        assert!(queue.waiting().all(|question| question.waiting <= MOST_ASKERS));
    }

    /// K12: nothing in a question moves a cursor, and what the hook says is marked.
    #[test]
    fn k12_a_question_is_plain_text() {
        let mut queue = queue();
        let (asked, _end) = command("ls\u{1b}[2J\r\n\u{202e}");
        queue.ask(Asked { why: "\u{9b}x".into(), program: Some(Bytes::new(b"\x1b]0;x\x07")), ..asked });
        let line = queue.waiting().next().unwrap().line();
        assert!(line.chars().all(|c| !c.is_control() && c != '\u{202e}'), "{line:?}");
        assert!(line.contains("as the agent's client says"), "{line}");
    }
}
