//! Checks the chain: every line follows from the one before, from the first to the one that the head names.

use std::io;

use ringfence_surface::AbsPath;

use super::log::Head;
use super::read::{Part, open_all};
use super::{Link, NOTHING, What, hash};

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
        known: known.cloned(),
        beyond: None,
        head: head.as_ref().ok().and_then(Clone::clone),
        problems: Vec::new(),
        remarks: Vec::new(),
    };
    for part in parts {
        chain.part(part)?;
    }
    match &head {
        Err(cause) => chain.problem(format!("the head cannot be read: {cause}")),
        Ok(None) if has_log => chain.problem("the head is gone".to_owned()),
        Ok(_) => {}
    }
    Ok(chain.finish())
}

struct Chain {
    /// The last line.
    at: Option<(u64, String)>,
    lines: u64,
    /// What stands before the first line, where that is not nothing.
    begins_after: Option<(u64, String)>,
    /// What was removed by right.
    pruned: Vec<(u64, String)>,
    known: Option<Known>,
    /// How many lines follow the one that the head names.
    beyond: Option<u64>,
    head: Option<Head>,
    problems: Vec<String>,
    remarks: Vec<String>,
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
                Some(line) => self.line(&place, line),
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

    fn line(&mut self, place: &str, line: &[u8]) {
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
        self.says(place, line);
        if let Some(known) = &self.known
            && known.n == link.n
        {
            if known.hash != own {
                self.problem(format!("{place}: line {} is not the one that was known", link.n));
            }
            self.known = None;
        }
        if let Some(head) = &self.head
            && head.n == link.n
        {
            if head.hash == own {
                self.beyond = Some(0);
            } else {
                self.problem(format!("{place}: line {} is not the one that the head names", link.n));
            }
        } else if let Some(beyond) = &mut self.beyond {
            *beyond += 1;
        }
        self.at = Some((link.n, own));
    }

    /// What a line says about the chain itself.
    fn says(&mut self, place: &str, line: &[u8]) {
        match serde_json::from_slice::<What>(line) {
            Ok(What::Broken { found }) => self.problem(format!("{place}: noted when it was found: {found}")),
            Ok(What::Torn { bytes, .. }) => {
                self.remarks.push(format!("{place}: half a line of {bytes} bytes was set right"))
            }
            Ok(What::Pruned { through, hash }) => self.pruned.push((through, hash)),
            _ => {}
        }
    }

    fn finish(mut self) -> Report {
        if let Some(before) = self.begins_after.take()
            && !self.pruned.contains(&before)
        {
            self.problem(format!(
                "the lines up to {} are missing, and nothing says that they were removed by right",
                before.0
            ));
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
        Report { n, hash, lines: self.lines, problems: self.problems, remarks: self.remarks }
    }
}
