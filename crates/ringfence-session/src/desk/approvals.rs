//! Questions at the supervisor's desk: who asks, and what comes of an answer.

use std::os::fd::OwnedFd;

use ringfence_egress::Asks;
use ringfence_surface::policy::Counted;

use crate::approvals::{self, Asked, Asker, Outcome, Question, Scope, Subject, Waiting};
use crate::audit::{Patience, What};
use crate::broker::wire::Told;
use crate::terminal::{Key, Prompt};

use super::events::Notice;
use super::{Answer, Desk, Verb};

impl Desk {
    /// A hook waits for an answer about a line of shell.
    pub(super) fn hook_asks(&mut self, line: String, why: String, end: OwnedFd) {
        let subject = Subject::Command { line };
        let (rule, pid, started, program, command) = (None, None, None, None, None);
        self.asks(Asked { subject, why, rule, pid, started, program, command, asker: Asker::Hook(end) });
    }

    /// Names that wait since it was last asked.
    pub(super) fn names_ask(&mut self) {
        for name in self.names.as_ref().map(Asks::take).unwrap_or_default() {
            let subject = Subject::Host { host: name.clone() };
            let (why, rule, pid, started) = ("the policy does not name it".to_owned(), None, None, None);
            let (program, command, asker) = (None, None, Asker::Name(name));
            self.asks(Asked { subject, why, rule, pid, started, program, command, asker });
        }
    }

    pub(super) fn asks(&mut self, asked: Asked) {
        match self.queue.ask(asked) {
            Outcome::Known(asker, allowed) => self.tell_asker(&asker, allowed),
            Outcome::Joined => {}
            Outcome::New(id) => {
                let question = self.queue.waiting().find(|question| question.id == id).cloned();
                let Some(question) = question else { return };
                let session = &self.about.id;
                let line = format!("ringfence: asks: {}; `ringfence approve {session} {id}`", question.line());
                self.notices.add(Notice::Line(line));
                self.note(What::Asked(question));
                self.watch(Counted::Asked, 1);
            }
        }
    }

    fn tell_asker(&self, asker: &Asker, allowed: bool) {
        match asker {
            Asker::Hook(end) => approvals::tell(end, allowed),
            Asker::Broker(id) => self.tell_broker(&Told::Answer { id: *id, allowed }),
            // Whoever says yes has changed what may be reached before.
            Asker::Name(name) => self.names.iter().for_each(|names| names.settle(name)),
        }
    }

    fn settle(&mut self, waiting: &Waiting, allowed: bool, how: String) {
        for asker in &waiting.askers {
            self.tell_asker(asker, allowed);
        }
        let (id, asked) = (waiting.question.id, waiting.question.subject.words());
        self.note(What::Answered { id, asked, allowed, how });
    }

    /// Answers what only the user asks.
    pub(super) fn answer_user(&mut self, verb: &Verb) -> Answer {
        let done = match verb {
            Verb::Approvals {} => return self.approvals(),
            Verb::Pause {} => self.pause("asked for"),
            Verb::Resume {} => self.resume(),
            Verb::Approve { id, scope } => self.approve(*id, *scope),
            Verb::Deny { id } => self.deny(*id),
            _ => Err("this is answered elsewhere".to_owned()),
        };
        done.map_or_else(|why| Answer::Refused { why, hint: None }, |()| Answer::Done)
    }

    fn approvals(&self) -> Answer {
        Answer::Approvals {
            asks: self.queue.wait().is_some(),
            waiting: self.queue.waiting().cloned().collect(),
            approved: self.queue.approved().collect(),
        }
    }

    fn approve(&mut self, id: u64, scope: Scope) -> Result<(), String> {
        let waiting = self.queue.approve(id, scope).ok_or_else(|| no_question(id))?;
        self.settle(&waiting, true, scope.words());
        self.watch(Counted::Granted, 1);
        Ok(())
    }

    fn deny(&mut self, id: u64) -> Result<(), String> {
        if let Some(waiting) = self.queue.deny(id) {
            self.settle(&waiting, false, "the user said no".to_owned());
            return Ok(());
        }
        let subject = self.queue.take_back(id).ok_or_else(|| no_question(id))?;
        let how = "it was allowed, and is not any more".to_owned();
        self.note(What::Answered { id, asked: subject.words(), allowed: false, how });
        Ok(())
    }

    /// What the user is asked next.
    pub(super) fn prompt(&self) -> Option<Prompt> {
        // A host is given by a command, which looks at what the administrator allows.
        let is_here = |question: &&Question| !matches!(question.subject, Subject::Host { .. });
        let question = self.queue.waiting().find(is_here)?;
        Some(Prompt { id: question.id, text: format!("ringfence: may it {}", question.line()) })
    }

    /// What the user said to it, at the terminal. It may have been settled meanwhile.
    pub(super) fn replied(&mut self, id: u64, reply: Key) {
        let _ = match reply {
            Key::Once => self.approve(id, Scope::Once {}),
            Key::Command => self.approve(id, Scope::Command {}),
            Key::Session => self.approve(id, Scope::Session {}),
            Key::No => self.deny(id),
        };
        self.flush(Patience::Running);
    }

    /// Whoever asked by the broker waits no longer.
    pub(super) fn withdrawn(&mut self, number: u64) {
        if let Some((question, how)) = self.queue.withdrawn(number) {
            let (id, asked, how) = (question.id, question.subject.words(), how.to_owned());
            self.note(What::Answered { id, asked, allowed: false, how });
        }
    }

    pub(super) fn expire_questions(&mut self) {
        for waiting in self.queue.expired() {
            self.settle(&waiting, false, "nobody answered in time".to_owned());
        }
    }
}

fn no_question(id: u64) -> String {
    format!("no question has the number {id}, or it was settled already")
}
