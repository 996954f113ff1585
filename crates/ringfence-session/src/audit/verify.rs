//! Checks the chain: every line follows from the one before, from the first to the one that the head names.

use std::collections::BTreeMap;
use std::io;

use ringfence_surface::AbsPath;
use sha2::{Digest as _, Sha256};

use super::log::{Head, StoredHead};
use super::read::{Part, open_all};
use super::{Event, Link, NOTHING, What, hash};
use crate::text::hex;

/// A line that somebody remembered elsewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    /// Its number.
    pub n: u64,
    /// Its hash.
    pub hash: String,
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// The number of the last line.
    pub n: u64,
    /// Its hash.
    pub hash: String,
    /// How many lines there are.
    pub lines: u64,
    /// How many were removed by right, since there is a limit to what is kept.
    pub removed: u64,
    /// What is wrong. Nothing, where the chain is whole.
    pub problems: Vec<String>,
    /// What is no fault, and worth knowing.
    pub remarks: Vec<String>,
}

/// More are not listed.
const MOST: usize = 20;

pub(super) fn verify(dir: &AbsPath, known: Option<&Known>) -> io::Result<Report> {
    let (parts, head) = open_all(dir)?;
    let has_log = !parts.is_empty();
    let mut chain = Chain {
        at: None,
        lines: 0,
        begins_after: None,
        pruned: Vec::new(),
        stand_ins: BTreeMap::new(),
        thinned: Vec::new(),
        removed: 0,
        known: known.cloned(),
        beyond: None,
        head: if let StoredHead::Whole(head) = &head { Some(head.clone()) } else { None },
        problems: Vec::new(),
        remarks: Vec::new(),
    };
    for part in parts {
        chain.part(part)?;
    }
    match &head {
        StoredHead::Damaged(cause) => chain.problem(format!("the head cannot be read: {cause}")),
        StoredHead::Missing if has_log => chain.problem("the head is gone".to_owned()),
        StoredHead::Missing | StoredHead::Whole(_) => {}
    }
    Ok(chain.finish())
}

struct Chain {
    /// The last line.
    at: Option<(u64, String)>,
    lines: u64,
    /// What stands before the first line, where that is not nothing.
    begins_after: Option<(u64, String)>,
    /// Parts that were removed by right: the last line of each, its hash, and when.
    pruned: Vec<(u64, String, u64)>,
    /// What stands in the place of lines that were removed, by part and session.
    stand_ins: BTreeMap<(String, String), StandIns>,
    /// What the chain says of such lines.
    thinned: Vec<Thinned>,
    /// How many lines were removed by right.
    removed: u64,
    known: Option<Known>,
    /// How many lines follow the one that the head names.
    beyond: Option<u64>,
    head: Option<Head>,
    problems: Vec<String>,
    remarks: Vec<String>,
}

/// All that stands in one part in the place of one session's lines.
struct StandIns {
    hash: Sha256,
    lines: u64,
    from: u64,
    through: u64,
}

/// That lines were removed, as it was written down.
struct Thinned {
    of: String,
    in_their_place: String,
    lines: u64,
    bytes: u64,
    at_ms: u64,
}

impl Chain {
    fn problem(&mut self, what: String) {
        if self.problems.len() < MOST {
            self.problems.push(what);
        } else if self.problems.len() == MOST {
            self.problems.push("and more".to_owned());
        }
    }

    fn part(&mut self, part: Part) -> io::Result<()> {
        let name = part.path.file_name().unwrap_or_default().escape_ascii().to_string();
        let mut number = 0_u64;
        part.each(|line| {
            number += 1;
            let place = format!("{name}:{number}");
            match line.strip_suffix(b"\n") {
                Some(line) => self.line(&name, &place, line),
                None => self.torn(&place),
            }
        })
    }

    fn torn(&mut self, place: &str) {
        // It is only where a writer was just stopped that the end may be half a line.
        if self.head.is_some() && self.beyond.is_some() {
            self.remarks
                .push(format!("{place}: half a line at the end, which the next writer will set right and note"));
        } else {
            self.problem(format!("{place}: half a line"));
        }
    }

    fn line(&mut self, part: &str, place: &str, line: &[u8]) {
        self.lines += 1;
        let own = hash(line);
        let Ok(link) = serde_json::from_slice::<Link>(line) else {
            self.problem(format!("{place}: not a line of the audit"));
            let n = self.at.as_ref().map_or(1, |(n, _)| n + 1);
            self.at = Some((n, own));
            return;
        };
        match &self.at {
            None if link.n == 1 && link.prev == NOTHING => {}
            None => self.begins_after = Some((link.n.wrapping_sub(1), link.prev.clone())),
            Some((n, _)) if link.n != n + 1 => {
                self.problem(format!(
                    "{place}: line {} where line {} should be: lines are missing or out of order",
                    link.n,
                    n + 1
                ));
            }
            Some((_, hash)) if *hash != link.prev => {
                self.problem(format!(
                    "{place}: line {} is not the one that line {} was written after",
                    link.n - 1,
                    link.n
                ));
            }
            Some(_) => {}
        }
        let (last, own) = self.says(part, place, (link.n, own), line);
        if let Some(known) = &self.known
            && (link.n..last).contains(&known.n)
        {
            self.remarks.push(format!("line {}, which was known, was removed since: see below", known.n));
            self.known = None;
        }
        if let Some(known) = &self.known
            && known.n == last
        {
            if known.hash != own {
                self.problem(format!("{place}: line {last} is not the one that was known"));
            }
            self.known = None;
        }
        if let Some(head) = &self.head
            && head.n == last
        {
            if head.hash == own {
                self.beyond = Some(0);
            } else {
                self.problem(format!("{place}: line {last} is not the one that the head names"));
            }
        } else if let Some(beyond) = &mut self.beyond {
            *beyond += 1;
        }
        self.at = Some((last, own));
    }

    /// What a line says about the chain itself. Returns the number and the hash by which the next line follows it.
    fn says(&mut self, part: &str, place: &str, (n, own): (u64, String), line: &[u8]) -> (u64, String) {
        let Ok(Event { session, at_ms, what }) = serde_json::from_slice::<Event>(line) else { return (n, own) };
        match what {
            What::Broken { found } => self.problem(format!("{place}: noted when it was found: {found}")),
            What::Torn { bytes, .. } => {
                self.remarks.push(format!("{place}: half a line of {bytes} bytes was set right"));
            }
            What::Pruned { through, hash } => self.pruned.push((through, hash, at_ms)),
            What::Thinned { of, lines, bytes, in_their_place, .. } => {
                self.thinned.push(Thinned { of, in_their_place, lines, bytes, at_ms });
            }
            What::Gone { through, hash } if through >= n => {
                let group = (part.to_owned(), session.unwrap_or_default());
                let found = StandIns { hash: Sha256::new(), lines: 0, from: n, through };
                let stand_ins = self.stand_ins.entry(group).or_insert(found);
                stand_ins.hash.update(line);
                stand_ins.hash.update(b"\n");
                (stand_ins.lines, stand_ins.through) = (stand_ins.lines + (through - n + 1), through);
                return (through, hash);
            }
            _ => {}
        }
        (n, own)
    }

    /// Compares what stands in the place of lines with what was written down when they were removed.
    fn removed(&mut self) {
        // By session, and by the day on which it was: how many lines, and how long they were.
        let mut by_right: BTreeMap<(String, String), (u64, u64)> = BTreeMap::new();
        for ((part, session), StandIns { hash, lines, from, through }) in std::mem::take(&mut self.stand_ins) {
            let hash = hex(&hash.finalize());
            let said = self
                .thinned
                .iter()
                .find(|said| said.of == session && said.in_their_place == hash && said.lines == lines);
            let Some(said) = said else {
                self.problem(format!(
                    "{part}: {lines} lines of session {session} between {from} and {through} are missing, and nothing says that they \
                     were removed by right"
                ));
                continue;
            };
            self.removed += lines;
            let sum = by_right.entry((session, crate::text::moment(said.at_ms))).or_default();
            *sum = (sum.0 + lines, sum.1 + said.bytes);
        }
        for ((session, when), (lines, bytes)) in by_right {
            self.remarks.push(format!(
                "{lines} lines ({bytes} bytes) of session {session} were removed at {when}: the audit was larger than its limit, and \
                 this session took the most of it"
            ));
        }
    }

    fn finish(mut self) -> Report {
        self.removed();
        if let Some((through, hash)) = self.begins_after.take() {
            match self.pruned.iter().find(|pruned| (pruned.0, &pruned.1) == (through, &hash)) {
                Some((_, _, at_ms)) => {
                    let when = crate::text::moment(*at_ms);
                    self.removed += through;
                    self.remarks.push(format!(
                        "the lines up to {through} were removed, the last of them at {when}: the audit was larger than its limit"
                    ));
                }
                None => self.problem(format!(
                    "the lines up to {through} are missing, and nothing says that they were removed by right"
                )),
            }
        }
        let (n, hash) = self.at.clone().unwrap_or((0, NOTHING.to_owned()));
        if let Some(head) = self.head.clone() {
            match self.beyond {
                _ if head.n > n => {
                    self.problem(format!("the lines from {} to {} are missing at the end", n + 1, head.n));
                }
                Some(0) => {}
                Some(more) => {
                    self.remarks.push(format!("{more} lines follow the one that the head names: a writer was stopped"))
                }
                None if head.n == 0 && n == 0 => {}
                None if head.n == 0 => self.remarks.push("the head names no line yet: a writer was stopped".to_owned()),
                None => self.problem(format!("line {}, which the head names, is not there", head.n)),
            }
        }
        if let Some(known) = self.known.take() {
            self.problem(format!("line {}, which was known, is not there", known.n));
        }
        Report { n, hash, lines: self.lines, removed: self.removed, problems: self.problems, remarks: self.remarks }
    }
}
