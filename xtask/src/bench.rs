//! `cargo xtask bench`: measures `decide` with criterion, files and commands of the library beside the bare calls, and the fence
//! beside bubblewrap and beside nothing, and holds all of them to their bars.

mod bars;
pub(crate) mod broker;
pub(crate) mod calls;
mod clock;
mod files;
mod git;
mod grants;
mod ground;
mod hook;
mod many;
pub(crate) mod net;
mod start;
mod streams;
mod verify;
mod within;
pub(crate) mod work;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde_json::Value;

use crate::say;
use crate::steps::{Failure, cargo, must_succeed};

/// How long to measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effort {
    /// Until the noise is small; a few seconds each.
    Quick,
    /// As long as criterion thinks right.
    Full,
}

/// Something that can be measured by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// `decide`, with criterion.
    Decide,
    /// Files and commands of the library.
    Files,
    /// Starting a command.
    Start,
    /// The way out.
    Net,
    /// Many rules, many sessions, and the memory of one.
    Many,
    /// Real work.
    Work,
    /// A hook call.
    Hook,
    /// Single calls.
    Calls,
    /// Calls within a session.
    Within,
    /// Calls that the broker carries out.
    Broker,
    /// What is given to a session that runs.
    Grants,
    /// Every rule tried in every layer.
    Verify,
    /// Bytes through the standard streams.
    Streams,
    /// Git's own writing.
    Git,
}

impl Part {
    /// The part with this name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        let all = [
            Self::Decide,
            Self::Files,
            Self::Start,
            Self::Net,
            Self::Many,
            Self::Work,
            Self::Hook,
            Self::Calls,
            Self::Within,
            Self::Broker,
            Self::Grants,
            Self::Verify,
            Self::Streams,
            Self::Git,
        ];
        all.into_iter().find(|part| part.name() == name)
    }

    fn name(self) -> &'static str {
        match self {
            Self::Decide => "decide",
            Self::Files => "files",
            Self::Start => "start",
            Self::Net => "net",
            Self::Many => "many",
            Self::Work => "work",
            Self::Hook => "hook",
            Self::Calls => "calls",
            Self::Within => "within",
            Self::Broker => "broker",
            Self::Grants => "grants",
            Self::Verify => "verify",
            Self::Streams => "streams",
            Self::Git => "git",
        }
    }
}

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Parts {
    /// Everything.
    All,
    /// One part.
    One(Part),
}

impl Parts {
    fn has(self, part: Part) -> bool {
        self == Self::All || self == Self::One(part)
    }
}

/// The group whose benchmarks have a budget, and the budget of each in nanoseconds.
const BUDGETED_GROUP: &str = "decide_5000";
const BUDGET_NS: f64 = 1_000.0;

/// One benchmark, as criterion wrote it down.
#[derive(Debug, PartialEq)]
struct Measurement {
    group: String,
    name: String,
    median_ns: f64,
}

impl Measurement {
    fn is_budgeted(&self) -> bool {
        self.group == BUDGETED_GROUP
    }

    fn is_over(&self) -> bool {
        self.is_budgeted() && self.median_ns > BUDGET_NS
    }
}

/// Runs the benchmarks, prints tables, and fails when a figure is over its bar or when none has one.
pub(crate) fn run(root: &Path, effort: Effort, parts: Parts) -> ExitCode {
    let decide = !parts.has(Part::Decide) || tell("decide", measure(root, effort).and_then(judge));
    let files = !parts.has(Part::Files) || tell("files", files::run(root, effort));
    let is_fenced = ![Parts::One(Part::Decide), Parts::One(Part::Files)].contains(&parts);
    let measure = || ground::measure(root, effort, parts).map(|_| "measured".to_owned());
    let fence = !is_fenced || tell("fence", measure());
    if decide && files && fence { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Measures the fence alone, where [`ground`] has laid everything out.
pub(crate) fn fence(dir: &Path, effort: Effort, parts: Parts) -> ExitCode {
    let ground = ground::Ground::at(dir);
    if tell("fence", in_order(&ground, effort, parts)) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn in_order(ground: &ground::Ground, effort: Effort, parts: Parts) -> Result<String, Failure> {
    let (start, rules) = match effort {
        Effort::Quick => (clock::Turns { rounds: 24, runs: 5 }, clock::Turns { rounds: 8, runs: 2 }),
        Effort::Full => (clock::Turns { rounds: 100, runs: 10 }, clock::Turns { rounds: 40, runs: 5 }),
    };
    let mut bars = bars::Bars::new(effort);
    if parts.has(Part::Start) {
        start::run(ground, effort, start, &mut bars)?;
    }
    if parts.has(Part::Net) {
        net::run(ground, effort, start, &mut bars)?;
    }
    if parts.has(Part::Many) {
        many::rules(ground, rules, &mut bars)?;
        many::memory(ground, &mut bars)?;
        many::at_once(ground, effort, &mut bars)?;
        many::ended(ground, rules, &mut bars)?;
    }
    if parts.has(Part::Work) {
        work::run(ground, effort, &mut bars)?;
    }
    if parts.has(Part::Hook) {
        hook::run(ground, effort, &mut bars)?;
    }
    if parts.has(Part::Calls) {
        calls::run(ground)?;
    }
    if parts.has(Part::Within) {
        within::run(ground, rules, &mut bars)?;
    }
    if parts.has(Part::Broker) {
        broker::run(ground, effort, &mut bars)?;
    }
    if parts.has(Part::Grants) {
        grants::run(ground, effort, &mut bars)?;
    }
    if parts.has(Part::Verify) {
        verify::run(ground, &mut bars)?;
    }
    if parts.has(Part::Streams) {
        streams::run(ground, effort, &mut bars)?;
    }
    if parts.has(Part::Git) {
        git::run(ground, effort, &mut bars)?;
    }
    bars.judge()
}

/// Says how a part went. Did it go well?
fn tell(part: &str, result: Result<String, Failure>) -> bool {
    match result {
        Ok(line) => {
            say::progress(format!("xtask bench: {part}: {line}"));
            true
        }
        Err(failure) => {
            say::progress(format!("xtask bench: {part}: FAILED: {failure}"));
            false
        }
    }
}

/// Ends a helper of a benchmark.
pub(crate) fn helped(result: Result<(), Failure>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            say::progress(failure.to_string());
            ExitCode::FAILURE
        }
    }
}

fn measure(root: &Path, effort: Effort) -> Result<Vec<Measurement>, Failure> {
    // A directory of our own, emptied first: figures of an earlier run, or of a benchmark since renamed, must not count.
    let home = root.join("target").join("xtask-bench");
    match fs::remove_dir_all(&home) {
        Err(cause) if cause.kind() != io::ErrorKind::NotFound => return Err(unreadable(&home, &cause)),
        _ => {}
    }
    let mut arguments = vec!["bench", "-p", "ringfence-surface", "--bench", "decide", "--", "--noplot"];
    if effort == Effort::Quick {
        arguments.push("--quick");
    }
    must_succeed(cargo(root, &arguments).env("CRITERION_HOME", &home))?;

    let mut directories = Vec::new();
    find_results(&home, &mut directories).map_err(|cause| unreadable(&home, &cause))?;
    let mut measurements = directories.iter().map(|directory| read_result(directory)).collect::<Result<Vec<_>, _>>()?;
    measurements.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(measurements)
}

fn judge(measurements: Vec<Measurement>) -> Result<String, Failure> {
    for measurement in &measurements {
        say::result(table_row(measurement));
    }
    let budgeted = measurements.iter().filter(|measurement| measurement.is_budgeted()).count();
    if budgeted == 0 {
        return Err(Failure::Found(format!(
            "no benchmark is in the group `{BUDGETED_GROUP}`, so nothing was held to its budget"
        )));
    }
    let over: Vec<&str> = measurements.iter().filter(|m| m.is_over()).map(|m| m.name.as_str()).collect();
    if over.is_empty() {
        Ok(format!("{budgeted} of {} have a budget, and all of these are within it", measurements.len()))
    } else {
        Err(Failure::Found(format!("over the budget of {BUDGET_NS} ns: {}", over.join(", "))))
    }
}

fn table_row(measurement: &Measurement) -> String {
    let verdict = match (measurement.is_budgeted(), measurement.is_over()) {
        (false, _) => String::new(),
        (true, false) => format!("within {BUDGET_NS} ns"),
        (true, true) => format!("OVER {BUDGET_NS} ns"),
    };
    format!("{:<48} {:>14.1} ns  {verdict}", measurement.name, measurement.median_ns).trim_end().to_owned()
}

/// Collects every directory named `new` that holds a result; criterion nests them by group, function and parameter.
fn find_results(directory: &Path, found: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if !path.is_dir() {
            continue;
        }
        if path.ends_with("new") && path.join("estimates.json").is_file() {
            found.push(path);
        } else {
            find_results(&path, found)?;
        }
    }
    Ok(())
}

fn read_result(directory: &Path) -> Result<Measurement, Failure> {
    let read = |name: &str| {
        let file = directory.join(name);
        fs::read_to_string(&file).map_err(|cause| unreadable(&file, &cause))
    };
    measurement(&read("benchmark.json")?, &read("estimates.json")?)
        .ok_or_else(|| Failure::Found(format!("{} is not what criterion 0.8 writes", directory.display())))
}

fn measurement(benchmark: &str, estimates: &str) -> Option<Measurement> {
    let benchmark: Value = serde_json::from_str(benchmark).ok()?;
    let estimates: Value = serde_json::from_str(estimates).ok()?;
    Some(Measurement {
        group: benchmark["group_id"].as_str()?.to_owned(),
        name: benchmark["full_id"].as_str()?.to_owned(),
        median_ns: estimates["median"]["point_estimate"].as_f64()?,
    })
}

fn unreadable(path: &Path, cause: &io::Error) -> Failure {
    Failure::Found(format!("{}: {cause}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(group: &str, median_ns: f64) -> Measurement {
        Measurement { group: group.to_owned(), name: format!("{group}/case"), median_ns }
    }

    #[test]
    fn reads_what_criterion_writes() {
        let benchmark =
            r#"{"group_id":"decide_5000","function_id":"deny","value_str":null,"full_id":"decide_5000/deny"}"#;
        let estimates = r#"{"mean":{"point_estimate":9.0},"median":{"confidence_interval":{},"point_estimate":412.5}}"#;
        let expected =
            Measurement { group: "decide_5000".to_owned(), name: "decide_5000/deny".to_owned(), median_ns: 412.5 };
        assert_eq!(measurement(benchmark, estimates), Some(expected));
        assert_eq!(measurement(benchmark, "{}"), None);
        assert_eq!(measurement("not json", estimates), None);
    }

    #[test]
    fn a_budgeted_benchmark_may_take_a_microsecond_and_no_more() {
        assert!(judge(vec![of("decide_5000", 1_000.0), of("resolve", 5e6)]).is_ok());
        let failure = judge(vec![of("decide_5000", 1_000.1)]).expect_err("it is over");
        assert!(failure.to_string().contains("decide_5000/case"), "{failure}");
    }

    #[test]
    fn no_budgeted_benchmark_at_all_is_a_failure() {
        assert!(judge(vec![of("resolve", 1.0)]).is_err());
        assert!(judge(Vec::new()).is_err());
    }
}
