//! What the broker costs: calls that only read, calls that it carries out, and work that makes many files.

use std::fs::{self, OpenOptions};
use std::hint::black_box;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use super::Effort;
use super::bars::{Bars, table};
use super::ground::{Ground, failed};
use super::work::{self, Job, Under, compare};
use crate::say;
use crate::steps::Failure;

/// Reading, with the broker over without it.
const READ_BAR: f64 = 1.02;
/// Work that makes files, inside over outside.
const WORK_BAR: f64 = 1.10;
const NPM_BAR: f64 = 1.15;

/// How often each way is tried, in turns.
const ROUNDS: usize = 7;
const CALLS: u32 = 1_000;
const BATCHES: usize = 10;
const THREADS: usize = 64;
const CALLS_OF_A_THREAD: u32 = 100;

/// What the helper measures, in its order.
const WHAT: [&str; 4] =
    ["open to read, close", "open to write, close", "make a file, remove it", "the same by 64 threads"];

/// Measures, prints, and holds each to its bar.
pub(super) fn run(ground: &Ground, effort: Effort, bars: &mut Bars) -> Result<(), Failure> {
    single(ground, bars)?;
    let repository = work::repository(ground, "checkout", &work::SIZES)?;
    let (rounds, runs) = if effort == Effort::Quick { (2, 1) } else { (6, 1) };
    // Six of each are too few on a machine whose speed changes, and these do not take long.
    let often = if effort == Effort::Quick { 1 } else { 4 };
    let (before, line) = ("rm -rf part-*", "git checkout -q -f .");
    // Inside, git has two workers for each processor unless it is told otherwise, and one outside.
    let one = "git -c checkout.workers=1 checkout -q -f .";
    let by_one = Job { name: "the same by one worker", bar: None, before, line: one, dir: repository.clone(), runs };
    let whole = Job { name: "git checkout, 20,000 files", bar: Some(WORK_BAR), before, line, dir: repository, runs };
    let mut jobs = vec![whole, by_one];
    if let Some(dir) = work::crate_of_its_own(ground)? {
        let (before, line) = ("rm -rf target", "cargo build --offline --quiet");
        jobs.push(Job { name: "cargo build", bar: Some(WORK_BAR), before, line, dir, runs: often });
    }
    if let Some(dir) = packages(ground)? {
        let (before, line) = ("rm -rf node_modules", "npm install --offline --no-audit --no-fund --silent");
        jobs.push(Job { name: "npm install, 40 local packages", bar: Some(NPM_BAR), before, line, dir, runs: often });
    }
    compare(ground, ("Work that makes files", Under::Fence), &jobs, rounds, bars)
}

/// Single calls, with the broker and without it.
fn single(ground: &Ground, bars: &mut Bars) -> Result<(), Failure> {
    let mut best = [[f64::INFINITY; 4]; 3];
    for round in 0..ROUNDS {
        for turn in 0..best.len() {
            let way = (turn + round) % best.len();
            for (best, found) in best[way].iter_mut().zip(read(command(ground, way))?) {
                *best = best.min(found);
            }
        }
    }
    let [outside, without, with] = best;
    let mut rows = Vec::new();
    for (at, what) in WHAT.iter().enumerate() {
        let ratio = with[at] / without[at];
        let verdict = if at == 0 { bars.hold(what, ratio, READ_BAR) } else { "no bar".to_owned() };
        let us = |ns: f64| format!("{:.2} µs", ns / 1e3);
        let added = us(with[at] - without[at]);
        rows.push(vec![
            (*what).to_owned(),
            us(outside[at]),
            us(without[at]),
            us(with[at]),
            added,
            format!("{ratio:.2} ({verdict})"),
        ]);
    }
    let head = ["what, the least of many", "outside", "without the broker", "with it", "added", "ratio"];
    table("Single calls with the broker", &head, &rows);
    Ok(())
}

fn command(ground: &Ground, way: usize) -> Command {
    let (helper, dir) = (ground.helper(), ground.project());
    let mut command = match way {
        0 => {
            let mut command = ground.command(&helper);
            command.arg("bench-writes").arg(&dir);
            return command;
        }
        1 => ground.fenced(&["--no-broker".as_ref()], &[]),
        _ => ground.fenced(&[], &[]),
    };
    command.arg(helper).arg("bench-writes").arg(dir);
    command
}

fn read(mut command: Command) -> Result<[f64; 4], Failure> {
    let output = command.stdout(Stdio::piped()).stderr(Stdio::piped()).output();
    let output = output.map_err(|cause| Failure::Start { command: "bench-writes".to_owned(), cause })?;
    let text = String::from_utf8(output.stdout).unwrap_or_default();
    let figures: Vec<f64> = text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    match <[f64; 4]>::try_from(figures) {
        Ok(figures) if output.status.success() => Ok(figures),
        _ => Err(Failure::Found(format!("bench-writes: {}: {}", output.status, output.stderr.escape_ascii()))),
    }
}

/// The helper: what each of [`WHAT`] took at best, in nanoseconds.
pub(crate) fn helper(dir: &str) -> Result<(), Failure> {
    let file = Path::new(dir).join("README");
    let to_read = best(|| drop(black_box(fs::File::open(&file))));
    let to_write = best(|| drop(black_box(OpenOptions::new().write(true).open(&file))));
    let make = |number: usize| {
        let path = Path::new(dir).join(format!("made-{number}"));
        move || {
            drop(black_box(fs::File::create_new(&path)));
            drop(black_box(fs::remove_file(&path)));
        }
    };
    let made = best(make(0));
    let start = Instant::now();
    std::thread::scope(|scope| {
        for number in 0..THREADS {
            let make = make(number);
            scope.spawn(move || (0..CALLS_OF_A_THREAD).for_each(|_| make()));
        }
    });
    let by_threads = start.elapsed().as_nanos() as f64 / (THREADS as f64 * f64::from(CALLS_OF_A_THREAD));
    say::result(format!("{to_read} {to_write} {made} {by_threads}"));
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

/// A project with packages of its own, packed beside it, if npm is there.
fn packages(ground: &Ground) -> Result<Option<std::path::PathBuf>, Failure> {
    if !["/usr/bin/npm", "/usr/local/bin/npm"].iter().any(|npm| Path::new(npm).exists()) {
        say::progress("no npm here: `npm install` is not measured");
        return Ok(None);
    }
    let dir = ground.home().join("packages");
    fs::create_dir_all(&dir).map_err(|cause| failed(&dir, &cause))?;
    let line = "for n in $(seq 40); do mkdir -p p$n/lib; \
        printf '{\"name\":\"p%s\",\"version\":\"1.0.0\"}' $n > p$n/package.json; \
        for f in $(seq 60); do echo \"module.exports = $f\" > p$n/lib/f$f.js; done; \
        npm pack --silent ./p$n > /dev/null; done; \
        { printf '{\"name\":\"all\",\"version\":\"1.0.0\",\"dependencies\":{'; \
        for n in $(seq 39); do printf '\"p%s\":\"file:p%s-1.0.0.tgz\",' $n $n; done; \
        printf '\"p40\":\"file:p40-1.0.0.tgz\"}}'; } > package.json && rm -rf p1 p?/ p??/";
    work::shell(ground, &dir, line)?;
    Ok(Some(dir))
}
