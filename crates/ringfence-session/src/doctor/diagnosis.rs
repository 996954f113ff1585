//! A host's verdict, and every feature with what it carries.

use std::fmt;

use ringfence_plan::Rung;
pub use ringfence_plan::features::Answer;
use ringfence_plan::features::{
    BESIDE, Feature, FeatureFindings, FeatureUse, Finding, Without, answer, doubt, obstacle,
};

use super::findings;
use super::host::{Host, Started};
use crate::probe;

/// What a feature's absence costs on its rung.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Costs {
    /// The rung.
    Rung,
    /// Part of what the rung would hold.
    Claim,
    /// Nothing that is built today.
    Nothing,
}

/// One feature of a backend, or of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Its name.
    pub name: &'static str,
    /// What it carries.
    pub carries: &'static str,
    /// How it fared.
    pub finding: Finding,
    /// What its absence costs.
    pub costs: Costs,
    /// What can be done, in a line.
    pub remedy: Option<String>,
}

/// A rung and its features.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// Which.
    pub rung: Rung,
    /// Can a session start on it?
    pub answer: Answer,
    /// In the order in which a start needs them.
    pub features: Vec<Row>,
}

/// What a session on this host would be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// The first rung that works; nothing when `run` refuses.
    pub rung: Option<Rung>,
    /// Why each rung above it does not.
    pub because: Vec<String>,
    /// Rungs of which it is not known whether they work.
    pub unknown: Vec<Rung>,
    /// What is not held on the rung that works, though the rung could.
    pub lost: Vec<&'static str>,
    /// Is it the native rung, with its second wall?
    pub is_full: bool,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let because = self.because.join("; ");
        match self.rung {
            Some(Rung::Native) if self.lost.is_empty() => f.write_str("native: everything holds here"),
            Some(Rung::Native) => write!(f, "native: the fence holds here, without {}", self.lost.join(", ")),
            Some(Rung::Bwrap) => write!(f, "bwrap: falls back to bubblewrap, because {because}"),
            Some(Rung::LandlockOnly) => {
                write!(f, "landlock: falls back to Landlock and seccomp alone, because {because}")
            }
            // These are no part of the fallback order.
            Some(rung @ (Rung::Chroot | Rung::Docker | Rung::Podman)) => write!(f, "{rung}: works"),
            None if self.unknown.is_empty() => write!(f, "none: `ringfence run` refuses here, because {because}"),
            None => write!(f, "unknown: no backend answered, because {because}"),
        }
    }
}

/// A host, judged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnosis {
    /// In a line.
    pub verdict: Verdict,
    /// Rung by rung.
    pub groups: Vec<Group>,
    /// What no rung needs, and some commands do.
    pub beside: Vec<Row>,
}

/// Judges a host.
pub fn diagnose(host: &Host) -> Diagnosis {
    let findings = findings::findings(host);
    let groups: Vec<Group> = Rung::LADDER.into_iter().map(|rung| group(rung, host, &findings)).collect();
    Diagnosis { verdict: verdict(host, &groups, &findings), groups, beside: beside(&findings) }
}

/// A backend works if the features that it needs work, and a session started.
fn group(rung: Rung, host: &Host, findings: &FeatureFindings) -> Group {
    let start = host.starts.of(rung).map_or(Finding::Untried, findings::start);
    let mut features: Vec<Row> = findings::asked_of(rung, findings).map(|using| row(using, findings)).collect();
    features.extend(host.starts.of(rung).map(whole_start));
    Group { rung, answer: answer(rung, findings, &start), features }
}

fn row(using: &FeatureUse, findings: &FeatureFindings) -> Row {
    let finding = findings.of(using.feature).clone();
    let costs = match using.without {
        Without::NoStart | Without::NoStartOf(_) => Costs::Rung,
        Without::Shortfalls(_) | Without::Lacks(_) => Costs::Claim,
        Without::Nothing => Costs::Nothing,
    };
    Row { name: using.name, carries: using.carries, remedy: findings::remedy(using, &finding), finding, costs }
}

/// A whole session, as `run` starts it. What its parts say is the reason; this is the proof.
fn whole_start(started: &Started) -> Row {
    let (finding, costs) = match started {
        Started::Untried(why) => (Finding::unknown(why), Costs::Nothing),
        started => (findings::start(started), Costs::Rung),
    };
    Row { name: "a whole start", carries: "a command runs in it and ends", finding, costs, remedy: None }
}

/// What commands use and no backend needs.
fn beside(findings: &FeatureFindings) -> Vec<Row> {
    let asked = BESIDE.iter().filter(|using| findings.is_noted(using.feature));
    asked.map(|using| Row { costs: Costs::Nothing, ..row(using, findings) }).collect()
}

fn verdict(host: &Host, groups: &[Group], findings: &FeatureFindings) -> Verdict {
    let first = groups.iter().position(|group| group.answer == Answer::Works);
    let above = &groups[..first.unwrap_or(groups.len())];
    let is_lost = |row: &&Row| row.costs == Costs::Claim && !row.finding.is_present();
    let first = first.map(|at| &groups[at]);
    let lost = first.map(|group| group.features.iter().filter(is_lost).map(|row| row.name).collect());
    Verdict {
        rung: first.map(|group| group.rung),
        because: above.iter().map(|group| because(host, group, findings)).collect(),
        unknown: above.iter().filter(|group| group.answer == Answer::Unknown).map(|group| group.rung).collect(),
        lost: lost.unwrap_or_default(),
        is_full: first.is_some_and(|group| group.rung == Rung::Native)
            && findings.of(Feature::LandlockFiles).is_present(),
    }
}

/// Why a backend does not work, in a sentence: the first feature that it lacks, otherwise the error of its start.
fn because(host: &Host, group: &Group, findings: &FeatureFindings) -> String {
    let (name, started) = (group.rung.word(), host.starts.of(group.rung));
    let found = match (obstacle(group.rung, findings), started) {
        (Some(reason), _) => reason.to_owned(),
        (None, Some(Started::Fails(why))) => format!("{name} does not start: {why}"),
        (None, Some(Started::Unknown(why) | Started::Untried(why))) => {
            doubt(group.rung, findings).unwrap_or(why).to_owned()
        }
        (None, Some(Started::Works) | None) => {
            doubt(group.rung, findings).map_or_else(|| format!("{name} works"), str::to_owned)
        }
    };
    if group.answer == Answer::Unknown { format!("it is unknown whether {name} works: {found}") } else { found }
}

/// Why this host carries no native session, if that is why one did not start: a feature that it lacks, otherwise the error of a
/// session in which nothing happens. What did not answer in time is no reason.
pub fn why_not_native(start: impl FnOnce() -> Started) -> Option<String> {
    let mut findings = FeatureFindings::untried();
    findings::note_native(&mut findings, &probe::native());
    if let Some(reason) = obstacle(Rung::Native, &findings) {
        return Some(reason.to_owned());
    }
    match start() {
        Started::Fails(why) => Some(why),
        Started::Works | Started::Unknown(_) | Started::Untried(_) => None,
    }
}
