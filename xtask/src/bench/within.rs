//! What one call within a session costs an orchestrator that makes many, beside a whole start of `ringfence run`.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::time::Instant;

use super::bars::{Bars, ms, table};
use super::clock::{Turns, median};
use super::ground::{Ground, failed};
use crate::steps::Failure;

/// What a call takes, over what a start takes without reading its command line.
const BAR: f64 = 1.1;

/// Measures, prints, and holds the ratio to its bar.
pub(super) fn run(ground: &Ground, turns: Turns, bars: &mut Bars) -> Result<(), Failure> {
    let policy = ground.dir.join("scratch/closed.toml");
    fs::write(&policy, "version = 1\n[network]\nallow = []\n").map_err(|cause| failed(&policy, &cause))?;
    let mut session = ground.command(ground.plain());
    session.arg("run").arg("--policy").arg(&policy).args(["--", "sh", "-c", "echo $RINGFENCE_SESSION; exec cat"]);
    let start = |cause| Failure::Start { command: "ringfence run".to_owned(), cause };
    let mut session = session.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map_err(start)?;
    let mut name = String::new();
    if let Some(stdout) = session.stdout.take() {
        BufReader::new(stdout).read_line(&mut name).map_err(start)?;
    }
    let taken = measured(ground, &policy, name.trim(), turns);
    // It ends when there is nothing more to read.
    drop(session.stdin.take());
    session.wait().map_err(start)?;
    let [starts, versions, calls] = taken?;
    let without_parsing = median(&starts) - median(&versions);
    let ratio = median(&calls) / without_parsing;
    let verdict = bars.hold("a call over a start without its command line", ratio, BAR);
    let row = |what: &str, times: &[f64]| vec![what.to_owned(), ms(median(times)), ms(times[0])];
    let rows = [
        row("`ringfence run -- true`", &starts),
        row("`ringfence --version`", &versions),
        row("a call of `true` by the library", &calls),
        vec![format!("ratio ({verdict})"), format!("{ratio:.2}"), String::new()],
    ];
    table(&format!("One call within a session, {} each, in turns", calls.len()), &["what", "median", "least"], &rows);
    Ok(())
}

/// The times of each in seconds, sorted.
fn measured(ground: &Ground, policy: &std::path::Path, session: &str, turns: Turns) -> Result<[Vec<f64>; 3], Failure> {
    let mut run = ground.command(ground.plain());
    run.arg("run").arg("--policy").arg(policy).args(["--", "true"]);
    let mut version = ground.command(ground.plain());
    version.arg("--version");
    let mut calls = ground.command(ground.calls());
    calls.args([session, &(turns.runs + 1).to_string(), "true"]).stdout(Stdio::piped());
    let mut times = [Vec::new(), Vec::new(), Vec::new()];
    for _ in 0..turns.rounds {
        for _ in 0..turns.runs {
            times[0].push(timed(&mut run)?);
            times[1].push(timed(&mut version)?);
        }
        let output = calls.output().map_err(|cause| Failure::Start { command: "calls".to_owned(), cause })?;
        let lines = String::from_utf8(output.stdout).unwrap_or_default();
        // The first one only warms up.
        times[2].extend(lines.lines().skip(1).filter_map(|line| line.parse::<f64>().ok()).map(|micros| micros / 1e6));
        if !output.status.success() {
            return Err(Failure::Found(format!("`calls` ended with {}", output.status)));
        }
    }
    times.iter_mut().for_each(|times| times.sort_by(f64::total_cmp));
    Ok(times)
}

fn timed(command: &mut Command) -> Result<f64, Failure> {
    let start = Instant::now();
    let status = command.status().map_err(|cause| Failure::Start { command: "ringfence".to_owned(), cause })?;
    if status.success() {
        Ok(start.elapsed().as_secs_f64())
    } else {
        Err(Failure::Found(format!("`ringfence` ended with {status}")))
    }
}
