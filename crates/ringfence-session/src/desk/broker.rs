//! The broker at the supervisor's desk: what it refused, and what it asks.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;

use ringfence_surface::policy::Counted;
use ringfence_surface::{Access, Shown};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags};

use crate::approvals::{Asked, Asker, Subject};
use crate::broker::wire::{LONGEST, Report, Said, Told};
use crate::landing::{Lander, NotLanded, Outcome};
use crate::temporary::Journal;
use crate::text::Bytes;
use crate::violations::{Deed, Layer, Violation};

use super::Desk;
use super::clients::BROKER;

/// So many packets in a turn: there are other things to look after.
const MOST_PACKETS: usize = 64;
/// More rules than anybody writes by in one session.
const MOST_RULES: usize = 1_024;

/// How much of it was heard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Heard {
    /// All that was said.
    All,
    /// There may be more.
    Some,
}

impl Desk {
    /// Listens to the broker, and tells it how long calls may wait for an answer.
    pub(crate) fn take_broker(&mut self, broker: OwnedFd) -> io::Result<()> {
        self.clients.watch(broker.as_fd(), BROKER)?;
        let wait = self.queue.wait().and_then(|wait| u64::try_from(wait.as_millis()).ok());
        (self.broker, self.is_brokered) = (Some(broker), true);
        self.tell_broker(&Told::Patience { wait });
        Ok(())
    }

    pub(super) fn tell_broker(&self, told: &Told) {
        if let Some(broker) = &self.broker {
            // One that does not hear it lets the call wait until its time is up, which is a no.
            let _ = rustix::net::send(broker, &told.encode(), SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
        }
    }

    /// What the broker has said since it was last asked. Is that all?
    pub(super) fn broker_said(&mut self) -> Heard {
        let mut packet = vec![0; LONGEST];
        for _ in 0..MOST_PACKETS {
            let Some(broker) = &self.broker else { return Heard::All };
            let (length, along) = match receive(broker, &mut packet) {
                Ok((0, _)) => {
                    self.clients.forget(broker.as_fd());
                    self.broker = None;
                    return Heard::All;
                }
                Ok(received) => received,
                // It ended before it had heard everything that it was told. The kernel says so once, before what it said itself.
                Err(rustix::io::Errno::CONNRESET | rustix::io::Errno::INTR) => continue,
                Err(_) => return Heard::All,
            };
            match Said::decode(&packet[..length]) {
                Some(Said::Refused(report)) => {
                    if let Some(learned) = &mut self.learned {
                        learned.add_report(&report);
                    }
                    if !is_nowhere(&report) {
                        self.denied(of_report(report), 1);
                    }
                }
                Some(Said::Looked(report)) => {
                    if let Some(learned) = &mut self.learned {
                        learned.add_report(&report);
                    }
                }
                Some(Said::Wrote { rule }) => self.wrote(rule),
                Some(Said::Land { id }) => self.land(id, along),
                Some(Said::Ask { id, report }) => self.broker_asks(id, report),
                Some(Said::Withdrawn { id }) => self.withdrawn(id),
                Some(Said::Lost { count }) => {
                    self.stream.note_unknown(count);
                    if let Some(learned) = &mut self.learned {
                        learned.more += count;
                    }
                    self.watch(Counted::Denied, count);
                }
                None => {}
            }
        }
        Heard::Some
    }

    /// The broker asks for a change that is made outside.
    fn land(&mut self, id: u64, request: Option<OwnedFd>) {
        let landed = match (request, &self.broker, &self.surface) {
            (Some(request), Some(broker), Some(surface)) => {
                let lander = match self.lander.take() {
                    Some(lander) => Ok(lander),
                    None => {
                        let (journal, versions) = (Journal::new(&self.state), self.repositories.clone());
                        let surface = Arc::clone(surface);
                        broker.try_clone().and_then(|broker| Lander::start((surface, versions), broker, journal))
                    }
                };
                lander.map(|lander| {
                    lander.ask(id, request);
                    self.lander = Some(lander);
                })
            }
            _ => Err(io::ErrorKind::NotFound.into()),
        };
        if landed.is_err() {
            let outcome = Outcome::Not(NotLanded::Malformed).to_number();
            self.tell_broker(&Told::Landed { id, outcome, about: None });
        }
    }

    /// Something was written by a rule. Where there are more than are kept, nothing is said of any.
    fn wrote(&mut self, rule: String) {
        self.written.insert(rule);
        self.is_brokered &= self.written.len() <= MOST_RULES;
        if !self.is_brokered {
            self.written.clear();
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
            started: Some(report.started),
            program: Some(Bytes::new(&report.program)),
            command: Some(spaced(&report.command)),
            asker: Asker::Broker(number),
        });
    }
}

/// The next packet, and a descriptor that comes along.
fn receive(broker: &OwnedFd, packet: &mut [u8]) -> rustix::io::Result<(usize, Option<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    let received = rustix::net::recvmsg(broker, &mut [io::IoSliceMut::new(packet)], &mut ancillary, flags)?;
    let along = ancillary.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
        _ => None,
    });
    Ok((received.bytes, along))
}

/// What is not there outside either is not missing because of the fence. Inside nobody can tell.
fn is_nowhere(report: &Report) -> bool {
    let is_missing = report.errno.map(i32::from) == Some(rustix::io::Errno::NOENT.raw_os_error());
    report.access == Access::Read && is_missing && rustix::fs::lstat(report.path.as_bytes()).is_err()
}

/// What the broker refused.
fn of_report(report: Report) -> Violation {
    let access = match report.call.as_str() {
        "connect" => Deed::Connect,
        _ if report.access == Access::Write => Deed::Write,
        _ => Deed::Read,
    };
    let text = |text: String| Some(text).filter(|text| !text.is_empty());
    Violation {
        tried: format!("{} {} ({})", access.word(), report.path, Shown(report.call.as_bytes())),
        why: "the rules of the session do not allow it".to_owned(),
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
        remedy_later: None,
        is_rest: false,
    }
}

/// A command line as it would be typed: its words end in NULs.
fn spaced(command: &[u8]) -> Bytes {
    let words = command.strip_suffix(b"\0").unwrap_or(command);
    Bytes::new(&words.iter().map(|byte| if *byte == 0 { b' ' } else { *byte }).collect::<Vec<u8>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// K14: what the broker reports is one of the violations, with everything that is known of it.
    #[test]
    fn k14_a_report_is_a_violation() {
        let report = Report {
            pid: 7,
            started: 0,
            program: b"sh\x1b[2J".to_vec(),
            command: b"sh\0-c\0echo > .envrc\0".to_vec(),
            call: "openat".to_owned(),
            path: ringfence_surface::AbsPath::root().join("p/.envrc"),
            access: Access::Write,
            rule: "protect \"**/.envrc\"".to_owned(),
            source: "built-in".to_owned(),
            remedy: "make this change yourself".to_owned(),
            errno: Some(13),
        };
        let violation = of_report(report);
        assert_eq!((violation.layer, violation.access), (Layer::Broker, Deed::Write));
        assert_eq!(violation.command, Some(Bytes::Text("sh -c echo > .envrc".into())));
        let line = violation.line(1);
        for part in
            ["write /p/.envrc (openat)", "by sh\\u{1b}[2J (7)", "[protect \"**/.envrc\", built-in]", "make this change"]
        {
            assert!(line.contains(part), "{part}: {line}");
        }
    }
}
