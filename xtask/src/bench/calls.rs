//! What single calls cost behind each wall. Reported, with no bar: the kernel sets these prices.

use std::fs;
use std::hint::black_box;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use super::bars::table;
use super::ground::{Ground, failed};
use crate::say;
use crate::steps::Failure;

/// How often each way is tried, in turns.
const ROUNDS: usize = 7;
/// How many calls are timed together, and how often.
const CALLS: u32 = 2_000;
const BATCHES: usize = 10;

/// Times `open` and `stat` outside, behind Landlock alone, behind mounts alone, and behind everything.
pub(super) fn run(ground: &Ground) -> Result<(), Failure> {
    let ways = ["outside", "Landlock alone", "mounts alone", "ringfence"];
    let mut best = [[f64::INFINITY; 2]; 4];
    for round in 0..ROUNDS {
        for turn in 0..ways.len() {
            let way = (turn + round) % ways.len();
            let found = read(command(ground, ways[way]), ways[way])?;
            for (best, found) in best[way].iter_mut().zip(found) {
                *best = best.min(found);
            }
        }
    }
    let row = |(way, [open, stat]): (&&str, &[f64; 2])| {
        vec![(*way).to_owned(), format!("{open:.0} ns"), format!("{stat:.0} ns")]
    };
    let rows: Vec<Vec<String>> = ways.iter().zip(&best).map(row).collect();
    table("Single calls, the least of many", &["where", "open and close", "stat"], &rows);
    Ok(())
}

fn command(ground: &Ground, way: &str) -> Command {
    let (helper, project) = (ground.helper(), ground.project());
    let file = project.join("README");
    let mut command = match way {
        "ringfence" => ground.fenced(&[], &[]),
        "Landlock alone" => {
            let mut command = ground.command(ground.ringfence());
            command.args(["jail-exec", "--"]).arg(&project).args(["**", "--"]);
            command
        }
        "mounts alone" => {
            let mut command = ground.command("bwrap");
            command.args(["--unshare-all", "--die-with-parent", "--ro-bind", "/", "/", "--dev", "/dev", "--proc"]);
            command.arg("/proc").arg("--bind").arg(&project).arg(&project);
            command
        }
        _ => {
            let mut command = ground.command(&helper);
            command.arg("bench-calls").arg(&file);
            return command;
        }
    };
    command.arg(helper).arg("bench-calls").arg(file);
    command
}

fn read(mut command: Command, way: &str) -> Result<[f64; 2], Failure> {
    let output = command.stdout(Stdio::piped()).stderr(Stdio::piped()).output();
    let output = output.map_err(|cause| Failure::Start { command: way.to_owned(), cause })?;
    let text = String::from_utf8(output.stdout).unwrap_or_default();
    let figures: Vec<f64> = text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    match figures.as_slice() {
        [open, stat] if output.status.success() => Ok([*open, *stat]),
        _ => Err(Failure::Found(format!("{way}: {}: {}", output.status, output.stderr.escape_ascii()))),
    }
}

/// The helper: says what an `open` with its `close` and a `stat` of the file took at best, in nanoseconds.
pub(crate) fn helper(file: &str) -> Result<(), Failure> {
    let file = Path::new(file);
    fs::File::open(file).map_err(|cause| failed(file, &cause))?;
    let open = best(|| drop(black_box(fs::File::open(file))));
    let stat = best(|| drop(black_box(fs::metadata(file))));
    say::result(format!("{open} {stat}"));
    Ok(())
}

fn best(call: impl Fn()) -> f64 {
    let batch = || {
        let start = Instant::now();
        for _ in 0..CALLS {
            call();
        }
        start.elapsed().as_nanos() as f64 / f64::from(CALLS)
    };
    (0..BATCHES).map(|_| batch()).fold(f64::INFINITY, f64::min)
}
