//! What was learned, for people and for programs.

use ringfence_surface::Shown;
use ringfence_surface::learn::{Addition, OF_THE_MACHINE};
use serde::Serialize;

use super::{Ended, Lesson, want_words};
use crate::cli::LearnArgs;
use crate::diff;
use crate::error::Failure;
use crate::out::{print, print_json, say};
use crate::wire::{Bytes, SCHEMA};

/// More of a list is only counted.
const FEW: usize = 10;

#[derive(Debug, Serialize)]
struct Wire<'w> {
    schema: u32,
    policy: Bytes,
    runs: u32,
    code: u8,
    /// Whether the last run had exactly these lines and missed nothing that could be given.
    proven: bool,
    changes: Vec<WireChange<'w>>,
    refused: Vec<WireRefused>,
    /// How often something was asked for of which no more is known.
    more: u64,
    diff: String,
}

#[derive(Debug, Serialize)]
struct WireChange<'w> {
    key: String,
    value: &'w str,
    reason: &'w str,
    risk: &'static str,
    because: &'static str,
    tried: bool,
}

#[derive(Debug, Serialize)]
struct WireRefused {
    asked: String,
    why: String,
}

/// Prints the proposal: the change to standard output, what there is to say of it beside that.
pub(super) fn proposal(args: &LearnArgs, lesson: &Lesson<'_>, ended: &Ended) -> Result<(), Failure> {
    let additions = &lesson.proposal.additions;
    let before = lesson.policy.text.as_deref();
    let text = if additions.is_empty() { None } else { Some(lesson.text(additions)?) };
    let name = lesson.policy.path.to_string();
    let diff = text.as_deref().map(|text| diff::unified(before, Some(text), &name)).unwrap_or_default();
    let mut refused: Vec<WireRefused> = lesson
        .proposal
        .refused
        .iter()
        .map(|refused| WireRefused { asked: want_words(&lesson.asked[refused.asked].want), why: refused.why.clone() })
        .collect();
    refused.extend(lesson.stopped.iter().map(|(host, why)| WireRefused {
        asked: format!("reach {}", Shown(host.as_bytes())),
        why: Shown(why.as_bytes()).to_string(),
    }));
    if args.json {
        let changes = additions.iter().map(|addition| WireChange {
            key: addition.key.to_string(),
            value: &addition.value,
            reason: &addition.reason,
            risk: addition.risk.word(),
            because: addition.because,
            tried: !lesson.declined.contains(&(addition.key, addition.value.clone())),
        });
        return print_json(&Wire {
            schema: SCHEMA,
            policy: Bytes::new(lesson.policy.path.as_bytes()),
            runs: ended.runs,
            code: ended.code,
            proven: ended.is_proven,
            changes: changes.collect(),
            refused,
            more: ended.more,
            diff,
        });
    }
    // A command that did its work did without.
    refused.retain(|one| ended.code != 0 || one.why != OF_THE_MACHINE);
    for one in refused.iter().take(FEW) {
        say(&format!("ringfence: asked for and refused: {}: {}", one.asked, one.why));
    }
    if refused.len() > FEW {
        say(&format!("ringfence: asked for and refused: {} more; `--json` lists them", refused.len() - FEW));
    }
    if ended.more > 0 {
        say(&format!("ringfence: {} times something was asked for of which no more is known", ended.more));
    }
    verdict(lesson, ended).iter().for_each(|line| say(line));
    print(&diff)
}

fn verdict(lesson: &Lesson<'_>, ended: &Ended) -> Vec<String> {
    let runs = if ended.runs == 1 { "1 run".to_owned() } else { format!("{} runs", ended.runs) };
    let count = lesson.proposal.additions.len();
    let lines = if count == 1 { "1 line".to_owned() } else { format!("{count} lines") };
    let code = format!("the command ended with {}", ended.code);
    let mut said = Vec::new();
    match (count, ended.is_proven) {
        (0, true) => said.push(format!(
            "ringfence: nothing to propose: what is missing may not be given, or nothing is ({runs}, {code})"
        )),
        (0, false) => said.push(format!("ringfence: nothing to propose yet ({runs}, {code})")),
        (_, true) => said.push(format!(
            "ringfence: {lines}, tried: with them nothing that may be given is missing ({runs}, {code})"
        )),
        (_, false) => said.push(format!("ringfence: {lines} ({runs}, {code})")),
    }
    if ended.untried > 0 {
        let (which, after) = match (ended.untried, count) {
            (1, 1) => ("it was".to_owned(), "it"),
            (1, _) => ("1 of them was".to_owned(), "it"),
            (more, _) => (format!("{more} of them were"), "them"),
        };
        said.push(format!(
            "ringfence: {which} not tried, so what comes after {after} was not seen; `--yes` tries lines of any risk"
        ));
    } else if !ended.is_proven && (ended.code == 0 || lesson.looked.is_empty()) {
        said.push("ringfence: not proved to be enough: more runs may show more (`--runs`)".to_owned());
    }
    if ended.code != 0 && !lesson.looked.is_empty() {
        let dirs: Vec<String> = lesson.looked.iter().take(FEW).map(ToString::to_string).collect();
        said.push(format!(
            "ringfence: looked for, and not proposed since a line would open all of it: {}",
            dirs.join(", ")
        ));
    }
    said
}

/// One line that is proposed.
pub(super) fn line(addition: &Addition) -> String {
    let value = Shown(addition.value.as_bytes());
    let Addition { key, reason, risk, because, .. } = addition;
    format!("{key} \"{value}\": {reason}; {risk} risk: {because}")
}
