//! What the broker and the supervisor say to each other: one message to a packet, on a socket that only they have.
//!
//! The broker lives beside the agent, in its view. So the supervisor believes of it no more than that a call was refused: what
//! is in a [`Report`] is bounded, and is shown with its control characters escaped like everything that comes from inside.

use ringfence_surface::{AbsPath, Access};

use crate::bytes::{Reader, Writer};

/// The longest packet. What does not fit is cut before it is sent.
pub const LONGEST: usize = 16 << 10;
/// Of a command line, and of a program's name, no more is kept.
const LONGEST_COMMAND: usize = 1 << 10;

/// One call that was refused, or that waits for an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// Who called, as numbered inside.
    pub pid: u32,
    /// When it began, as the kernel counts: another process may get its number. 0 where that was not asked.
    pub started: u64,
    /// The name of its thread, as the kernel knows it.
    pub program: Vec<u8>,
    /// Its command line, each word ended by a NUL; cut where it is long.
    pub command: Vec<u8>,
    /// The call, by the kernel's name.
    pub call: String,
    /// What it was about, every link followed.
    pub path: AbsPath,
    /// What was to be done with it.
    pub access: Access,
    /// The rule that says no, as it was written.
    pub rule: String,
    /// Where that rule was written.
    pub source: String,
    /// What the user can do about it.
    pub remedy: String,
    /// What the caller was told: an error number. None where it waits.
    pub errno: Option<u16>,
}

/// Said by the broker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Said {
    /// A call was refused.
    Refused(Report),
    /// Something was looked for. It is not there, where it has an error number.
    Looked(Report),
    /// For the first time something was written by this rule.
    Wrote {
        /// Which: its pattern.
        rule: String,
    },
    /// A call waits until somebody answers, or until its time is up.
    Ask {
        /// Names the question; no other has this number.
        id: u64,
        /// What is asked.
        report: Report,
    },
    /// The question has been settled otherwise: its time was up, or who asked has ended.
    Withdrawn {
        /// Which.
        id: u64,
    },
    /// A change that only the supervisor can make, in a file in memory that comes along: see [`crate::landing`].
    Land {
        /// Names the request.
        id: u64,
    },
    /// So many more were refused and could not be told.
    Lost {
        /// How many.
        count: u64,
    },
}

/// Said by the supervisor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Told {
    /// Whether calls that no rule allows wait for an answer, and how long: without a time nothing is asked.
    Patience {
        /// Milliseconds.
        wait: Option<u64>,
    },
    /// The answer to a question.
    Answer {
        /// Which.
        id: u64,
        /// Is this one call carried out?
        allowed: bool,
    },
    /// This path, and what is below it, may be written from now on, unless it is denied or protected.
    Grant {
        /// Which.
        path: AbsPath,
    },
    /// What came of a change that the broker asked for.
    Landed {
        /// Which.
        id: u64,
        /// See [`crate::landing`].
        outcome: u64,
        /// The file that it is about, where the request did not say.
        about: Option<AbsPath>,
    },
    /// Undoes [`Told::Grant`]. What is open stays open.
    Revoke {
        /// Which.
        path: AbsPath,
    },
}

const REFUSED: u64 = 1;
const ASK: u64 = 2;
const WITHDRAWN: u64 = 3;
const LOST: u64 = 4;
const PATIENCE: u64 = 5;
const ANSWER: u64 = 6;
const GRANT: u64 = 7;
const REVOKE: u64 = 8;
const LOOKED: u64 = 9;
const WROTE: u64 = 10;
const LAND: u64 = 11;
const LANDED: u64 = 12;

impl Said {
    /// As a packet.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Writer::new();
        match self {
            Self::Refused(report) => {
                out.number(REFUSED);
                put_report(&mut out, report);
            }
            Self::Looked(report) => {
                out.number(LOOKED);
                put_report(&mut out, report);
            }
            Self::Wrote { rule } => {
                out.number(WROTE);
                out.bytes(rule.as_bytes());
            }
            Self::Ask { id, report } => {
                out.number(ASK);
                out.number(*id);
                put_report(&mut out, report);
            }
            Self::Withdrawn { id } => {
                out.number(WITHDRAWN);
                out.number(*id);
            }
            Self::Land { id } => {
                out.number(LAND);
                out.number(*id);
            }
            Self::Lost { count } => {
                out.number(LOST);
                out.number(*count);
            }
        }
        out.finish()
    }

    /// From a packet; `None` where it is none.
    #[must_use]
    pub fn decode(packet: &[u8]) -> Option<Self> {
        let mut input = Reader::new(packet);
        let said = match input.number()? {
            REFUSED => Self::Refused(take_report(&mut input)?),
            LOOKED => Self::Looked(take_report(&mut input)?),
            WROTE => Self::Wrote { rule: take_text(&mut input)? },
            ASK => Self::Ask { id: input.number()?, report: take_report(&mut input)? },
            WITHDRAWN => Self::Withdrawn { id: input.number()? },
            LAND => Self::Land { id: input.number()? },
            LOST => Self::Lost { count: input.number()? },
            _ => return None,
        };
        input.is_done().then_some(said)
    }
}

impl Told {
    /// As a packet.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Writer::new();
        match self {
            Self::Patience { wait } => {
                out.number(PATIENCE);
                out.number(u64::from(wait.is_some()));
                out.number(wait.unwrap_or(0));
            }
            Self::Answer { id, allowed } => {
                out.number(ANSWER);
                out.number(*id);
                out.number(u64::from(*allowed));
            }
            Self::Grant { path } => {
                out.number(GRANT);
                out.bytes(path.as_bytes());
            }
            Self::Landed { id, outcome, about } => {
                out.number(LANDED);
                out.number(*id);
                out.number(*outcome);
                out.bytes(about.as_ref().map_or(b"", AbsPath::as_bytes));
            }
            Self::Revoke { path } => {
                out.number(REVOKE);
                out.bytes(path.as_bytes());
            }
        }
        out.finish()
    }

    /// From a packet; `None` where it is none.
    #[must_use]
    pub fn decode(packet: &[u8]) -> Option<Self> {
        let mut input = Reader::new(packet);
        let told = match input.number()? {
            PATIENCE => {
                let (is_some, wait) = (take_flag(&mut input)?, input.number()?);
                Self::Patience { wait: is_some.then_some(wait) }
            }
            ANSWER => Self::Answer { id: input.number()?, allowed: take_flag(&mut input)? },
            GRANT => Self::Grant { path: take_path(&mut input)? },
            LANDED => {
                let (id, outcome) = (input.number()?, input.number()?);
                let about = Some(input.bytes()?).filter(|path| !path.is_empty());
                Self::Landed { id, outcome, about: about.map(AbsPath::lexical).transpose().ok()? }
            }
            REVOKE => Self::Revoke { path: take_path(&mut input)? },
            _ => return None,
        };
        input.is_done().then_some(told)
    }
}

fn put_report(out: &mut Writer, report: &Report) {
    let cut = |bytes: &[u8]| bytes[..bytes.len().min(LONGEST_COMMAND)].to_vec();
    out.number(u64::from(report.pid));
    out.number(report.started);
    out.bytes(&cut(&report.program));
    out.bytes(&cut(&report.command));
    out.bytes(report.call.as_bytes());
    out.bytes(report.path.as_bytes());
    out.number(u64::from(report.access == Access::Write));
    for text in [&report.rule, &report.source, &report.remedy] {
        out.bytes(&cut(text.as_bytes()));
    }
    out.number(report.errno.map_or(0, u64::from));
}

fn take_report(input: &mut Reader<'_>) -> Option<Report> {
    let (pid, started) = (u32::try_from(input.number()?).ok()?, input.number()?);
    let (program, command) = (input.bytes()?.to_vec(), input.bytes()?.to_vec());
    let call = take_text(input)?;
    let path = take_path(input)?;
    let access = if take_flag(input)? { Access::Write } else { Access::Read };
    let (rule, source, remedy) = (take_text(input)?, take_text(input)?, take_text(input)?);
    let errno = u16::try_from(input.number()?).ok().filter(|errno| *errno != 0);
    Some(Report { pid, started, program, command, call, path, access, rule, source, remedy, errno })
}

fn take_flag(input: &mut Reader<'_>) -> Option<bool> {
    match input.number()? {
        0 => Some(false),
        1 => Some(true),
        _ => None,
    }
}

fn take_path(input: &mut Reader<'_>) -> Option<AbsPath> {
    AbsPath::lexical(input.bytes()?).ok()
}

/// Text that was cut may end within a character.
fn take_text(input: &mut Reader<'_>) -> Option<String> {
    let bytes = input.bytes()?;
    match std::str::from_utf8(bytes) {
        Ok(text) => Some(text.to_owned()),
        Err(cause) => std::str::from_utf8(&bytes[..cause.valid_up_to()]).ok().map(str::to_owned),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        Report {
            pid: 7,
            started: 9,
            program: b"sh".to_vec(),
            command: b"sh\0-c\0echo \xff > .envrc\0".to_vec(),
            call: "openat".to_owned(),
            path: AbsPath::root().join("w").child(b"\xff.envrc"),
            access: Access::Write,
            rule: "protect \"**/.envrc\"".to_owned(),
            source: "built-in".to_owned(),
            remedy: "make this change yourself".to_owned(),
            errno: Some(13),
        }
    }

    #[test]
    fn what_is_said_arrives() {
        let waiting = Report { errno: None, ..report() };
        for said in [
            Said::Refused(report()),
            Said::Looked(report()),
            Said::Wrote { rule: "/w/**".to_owned() },
            Said::Ask { id: u64::MAX, report: waiting },
            Said::Withdrawn { id: 0 },
            Said::Land { id: 5 },
            Said::Lost { count: 9 },
        ] {
            let packet = said.encode();
            assert!(packet.len() < LONGEST);
            assert_eq!(Said::decode(&packet), Some(said));
            (0..packet.len()).for_each(|length| assert_eq!(Said::decode(&packet[..length]), None));
        }
        let path = AbsPath::root().join("w");
        for told in [
            Told::Patience { wait: None },
            Told::Patience { wait: Some(60_000) },
            Told::Answer { id: 3, allowed: true },
            Told::Landed { id: 3, outcome: 7, about: None },
            Told::Landed { id: 3, outcome: 5, about: Some(path.clone()) },
            Told::Grant { path: path.clone() },
            Told::Revoke { path },
        ] {
            assert_eq!(Told::decode(&told.encode()), Some(told));
        }
        assert_eq!((Said::decode(b"\x63"), Told::decode(&[6, 1, 2])), (None, None));
    }

    #[test]
    fn what_is_long_is_cut() {
        let long = Report { command: vec![b'x'; 100_000], rule: "\u{e9}".repeat(5_000), ..report() };
        let packet = Said::Refused(long).encode();
        assert!(packet.len() < LONGEST, "{}", packet.len());
        let Some(Said::Refused(cut)) = Said::decode(&packet) else { panic!("no report") };
        assert_eq!((cut.command.len(), cut.rule.len()), (LONGEST_COMMAND, LONGEST_COMMAND));
    }
}
