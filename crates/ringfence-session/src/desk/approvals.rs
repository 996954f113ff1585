//! Questions at the supervisor's desk: who asks, and what comes of an answer.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};

use ringfence_surface::policy::Counted;
use ringfence_surface::{Access, Shown};
use rustix::net::{RecvFlags, SendFlags};

use crate::approvals::{self, Asked, Asker, Outcome, Scope, Subject, Waiting};
use crate::audit::{Patience, What};
use crate::broker::wire::{LONGEST, Report, Said, Told};
use crate::terminal::{Key, Prompt};
use crate::text::Bytes;
use crate::violations::Violation;

use super::clients::BROKER;
use super::{Answer, Desk, Verb};

/// So many packets of the broker in a turn: there are other things to look after.
const TURN: usize = 256;

impl Desk {
    /// Listens to the broker, and tells it how long calls may wait for an answer.
    #[expect(dead_code, reason = "the broker that connects here is built in another part")]
    pub(crate) fn take_broker(&mut self, broker: OwnedFd) -> io::Result<()> {
        self.clients.watch(broker.as_fd(), BROKER)?;
        let wait = self.queue.wait().and_then(|wait| u64::try_from(wait.as_millis()).ok());
        self.broker = Some(broker);
        self.tell_broker(&Told::Patience { wait });
        Ok(())
    }

    fn tell_broker(&self, told: &Told) {
        if let Some(broker) = &self.broker {
            // One that does not hear it lets the call wait until its time is up, which is a no.
            let _ = rustix::net::send(broker, &told.encode(), SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
        }
    }

    /// What the broker has said since it was last asked.
    pub(super) fn broker_said(&mut self) {
        let mut packet = [0; LONGEST];
        for _ in 0..TURN {
            let Some(broker) = &self.broker else { return };
            let length = match rustix::net::recv(broker, &mut packet, RecvFlags::DONTWAIT) {
                Ok((0, _)) | Err(rustix::io::Errno::CONNRESET) => {
                    self.clients.forget(broker.as_fd());
                    self.broker = None;
                    return;
                }
                Ok((length, _)) => length,
                Err(_) => return,
            };
            match Said::decode(&packet[..length]) {
                Some(Said::Refused(report)) => self.denied(of_report(report), 1),
                Some(Said::Ask { id, report }) => self.broker_asks(id, report),
                Some(Said::Withdrawn { id }) => self.queue.withdrawn(id),
                Some(Said::Lost { count }) => {
                    self.stream.note_unknown(count);
                    self.watch(Counted::Denied, count);
                }
                None => {}
            }
        }
    }

    fn broker_asks(&mut self, number: u64, report: Report) {
        let path = Bytes::new(report.path.as_bytes());
        let access = if report.access == Access::Write { "write" } else { "read" };
        let subject = match report.call.as_str() {
            "connect" => Subject::Socket { path },
            _ => Subject::Path { path, access: access.to_owned() },
        };
        self.asks(Asked {
            subject,
            why: report.rule,
            rule: Some(report.source).filter(|source| !source.is_empty()),
            pid: Some(report.pid),
            program: Some(Bytes::new(&report.program)),
            command: Some(spaced(&report.command)),
            asker: Asker::Broker(number),
        });
    }

    /// A hook waits for an answer about a line of shell.
    pub(super) fn hook_asks(&mut self, line: String, why: String, end: OwnedFd) {
        let subject = Subject::Command { line };
        let (rule, pid, program, command) = (None, None, None, None);
        self.asks(Asked { subject, why, rule, pid, program, command, asker: Asker::Hook(end) });
    }

    fn asks(&mut self, asked: Asked) {
        match self.queue.ask(asked) {
            Outcome::Known(asker, allowed) => self.tell_asker(&asker, allowed),
            Outcome::Joined => {}
            Outcome::New(id) => {
                let question = self.queue.waiting().find(|question| question.id == id).cloned();
                let Some(question) = question else { return };
                let session = &self.about.id;
                let line = format!("ringfence: asks: {}; `ringfence approve {session} {id}`", question.line());
                self.notices.add(line);
                self.note(What::Asked(question));
                self.watch(Counted::Asked, 1);
            }
        }
    }

    fn tell_asker(&self, asker: &Asker, allowed: bool) {
        match asker {
            Asker::Hook(end) => approvals::tell(end, allowed),
            Asker::Broker(id) => self.tell_broker(&Told::Answer { id: *id, allowed }),
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
        let question = self.queue.waiting().next()?;
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

    pub(super) fn expire_questions(&mut self) {
        for waiting in self.queue.expired() {
            self.settle(&waiting, false, "nobody answered in time".to_owned());
        }
    }
}

fn no_question(id: u64) -> String {
    format!("no question has the number {id}, or it was settled already")
}

/// What the broker refused.
fn of_report(report: Report) -> Violation {
    use crate::violations::{Deed, Layer};
    let access = if report.access == Access::Write { Deed::Write } else { Deed::Read };
    let text = |text: String| Some(text).filter(|text| !text.is_empty());
    Violation {
        tried: format!("{} {} ({})", access.word(), report.path, Shown(report.call.as_bytes())),
        why: "a rule of the session denies it".to_owned(),
        layer: Layer::Broker,
        access,
        path: Some(Bytes::new(report.path.as_bytes())),
        host: None,
        rule: text(report.rule),
        source: text(report.source),
        pid: Some(report.pid),
        program: Some(Bytes::new(&report.program)),
        command: Some(spaced(&report.command)),
        remedy: text(report.remedy),
    }
}

/// A command line as it would be typed: its words end in NULs.
fn spaced(command: &[u8]) -> Bytes {
    let words = command.strip_suffix(b"\0").unwrap_or(command);
    Bytes::new(&words.iter().map(|byte| if *byte == 0 { b' ' } else { *byte }).collect::<Vec<u8>>())
}
