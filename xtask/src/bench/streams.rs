//! Bytes through the standard streams: what a pipeline with a fenced command in it takes, beside the same without a fence.

use std::process::{Command, Stdio};
use std::time::Instant;

use super::Effort;
use super::bars::{Bars, ms, table};
use super::clock::median;
use super::ground::Ground;
use crate::say;
use crate::steps::Failure;

/// A pipeline with a fence, over the same without: nine tenths of its throughput.
const BAR: f64 = 1.0 / 0.9;

/// So many MiB go through it, beside which a start does not count.
const MEBIBYTES: usize = 4096;

/// Which side of a pipeline is fenced.
#[derive(Debug, Clone, Copy)]
enum Fenced {
    Neither,
    Writer,
    Reader,
}

/// Measures, prints, and holds each to its bar.
pub(super) fn run(ground: &Ground, effort: Effort, bars: &mut Bars) -> Result<(), Failure> {
    let rounds = if effort == Effort::Quick { 5 } else { 15 };
    let (mut native, mut writer, mut reader) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rounds {
        native.push(pipeline(ground, Fenced::Neither)?);
        writer.push(pipeline(ground, Fenced::Writer)?);
        reader.push(pipeline(ground, Fenced::Reader)?);
    }
    let own = middle(&mut native);
    let mut rows = vec![vec!["no fence".to_owned(), ms(own), String::new()]];
    for (what, times) in [("the writer is fenced", &mut writer), ("the reader is fenced", &mut reader)] {
        let took = middle(times);
        let verdict = bars.hold(&format!("{MEBIBYTES} MiB through a pipe, {what}"), took / own, BAR);
        rows.push(vec![what.to_owned(), ms(took), format!("{:.3} ({verdict})", took / own)]);
    }
    table(&format!("`dd | cat`, {MEBIBYTES} MiB"), &["what", "median", "ratio"], &rows);
    say::progress(
        "xtask bench: streams: three processes share the processors; on fewer than four the fence has less than its share",
    );
    Ok(())
}

fn middle(times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    median(times)
}

/// Seconds from the start of both to the end of both.
fn pipeline(ground: &Ground, fenced: Fenced) -> Result<f64, Failure> {
    let count = format!("count={MEBIBYTES}");
    let write = ["dd", "if=/dev/zero", "bs=1M", "status=none", &count];
    let plain = |words: &[&str]| {
        let mut command = ground.command(words[0]);
        command.args(&words[1..]);
        command
    };
    let mut writer = if matches!(fenced, Fenced::Writer) { ground.fenced(&[], &write) } else { plain(&write) };
    let mut reader = if matches!(fenced, Fenced::Reader) { ground.fenced(&[], &["cat"]) } else { plain(&["cat"]) };
    let start = Instant::now();
    let mut writing = spawn(writer.stdin(Stdio::null()).stdout(Stdio::piped()), "dd")?;
    let pipe = writing.stdout.take().map_or_else(Stdio::null, Stdio::from);
    let mut reading = spawn(reader.stdin(pipe).stdout(Stdio::null()), "cat")?;
    // The other side's end of the pipe must not stay open here.
    drop(reader);
    for child in [&mut writing, &mut reading] {
        let status = child.wait().map_err(|cause| Failure::Start { command: "dd | cat".to_owned(), cause })?;
        if !status.success() {
            return Err(Failure::Found(format!("dd | cat: {status}")));
        }
    }
    Ok(start.elapsed().as_secs_f64())
}

fn spawn(command: &mut Command, name: &str) -> Result<std::process::Child, Failure> {
    command.stderr(Stdio::null()).spawn().map_err(|cause| Failure::Start { command: name.to_owned(), cause })
}
