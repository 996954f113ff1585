//! Files beneath a root and captured commands, beside the bare calls. The measuring is done by a benchmark of `ringfence-fs`,
//! which nothing here may depend on.

use std::collections::BTreeMap;
use std::path::Path;

use super::Effort;
use super::bars::{Bars, table};
use crate::steps::{Failure, cargo};

/// Measures, and holds to the bars: an open at most 1.5 times a bare one, `true` at most 1.2 times the standard library's, and
/// under 16 MiB while a child prints a gigabyte of which a mebibyte is kept.
pub(super) fn run(root: &Path, effort: Effort) -> Result<String, Failure> {
    let mut command = cargo(root, &["bench", "-p", "ringfence-fs", "--bench", "files", "--"]);
    command.args((effort == Effort::Quick).then_some("--quick"));
    let output = command.stderr(std::process::Stdio::inherit()).output();
    let output = output.map_err(|cause| Failure::Start { command: "cargo bench".to_owned(), cause })?;
    if !output.status.success() {
        return Err(Failure::Status { command: "cargo bench".to_owned(), status: output.status });
    }
    let figures = read(&String::from_utf8(output.stdout).unwrap_or_default());
    let mut bars = Bars::new(effort);
    let mut rows = Vec::new();
    for (name, what, beside) in [
        ("open-0", "`open_for_write`, an empty file", "`openat`"),
        ("open-100", "`open_for_write`, 100 bytes to drop", "`openat` with `O_TRUNC`"),
    ] {
        rows.push(ratio(&figures, name, [what, beside], 1.5, &mut bars));
    }
    rows.push(ratio(&figures, "exec", ["`exec` of `true`, unfenced", "`Command::output`"], 1.2, &mut bars));
    table(
        "Files and commands of the library (opens: the least of many; commands: the median)",
        &["what", "here", "beside", "takes", "ratio", "bar"],
        &rows,
    );
    let [peak, seconds] = figure(&figures, "memory");
    let held = bars.hold("memory for a gigabyte", peak, 16.0);
    let row = vec!["1 GB printed, 1 MiB kept".to_owned(), format!("{peak:.1} MiB"), format!("{seconds:.2} s"), held];
    table("Memory of a capture", &["what", "peak", "in", "bar"], &[row]);
    bars.judge()
}

/// Lines of the form `figure NAME NUMBER NUMBER`; cargo prints others between them.
fn read(text: &str) -> BTreeMap<String, [f64; 2]> {
    let line = |line: &str| match line.split_whitespace().collect::<Vec<_>>().as_slice() {
        ["figure", name, one, other] => Some(((*name).to_owned(), [one.parse().ok()?, other.parse().ok()?])),
        _ => None,
    };
    text.lines().filter_map(line).collect()
}

/// A figure that is not there is no number, and no number is within no bar.
fn figure(figures: &BTreeMap<String, [f64; 2]>, name: &str) -> [f64; 2] {
    figures.get(name).copied().unwrap_or([f64::NAN; 2])
}

fn ratio(
    figures: &BTreeMap<String, [f64; 2]>,
    name: &str,
    [what, beside]: [&str; 2],
    bar: f64,
    bars: &mut Bars,
) -> Vec<String> {
    let [ours, theirs] = figure(figures, name);
    let micros = |nanos: f64| format!("{:.2} µs", nanos / 1e3);
    let held = bars.hold(what, ours / theirs, bar);
    vec![what.to_owned(), micros(ours), beside.to_owned(), micros(theirs), format!("{:.2}", ours / theirs), held]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read_between_other_lines() {
        let figures = read("   Running x\nfigure exec 700 650.5\nfigure\nfigure memory x 1\n");
        assert_eq!(figure(&figures, "exec"), [700.0, 650.5]);
        let mut bars = Bars::new(Effort::Full);
        ratio(&figures, "memory", ["a", "b"], 1.0, &mut bars);
        assert!(bars.judge().is_err(), "what was not measured is not within its bar");
    }
}
