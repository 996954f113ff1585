//! Real work, inside and outside: what a person waits for once a session runs.
//!
//! The times are taken by a helper on the spot, so that starting the session, which is measured by itself, is not among them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use super::bars::{Bars, ms, table};
use super::clock::median;
use super::ground::{Ground, failed};
use super::{Effort, ground};
use crate::say;
use crate::steps::Failure;

/// Work inside, over the same work outside.
const WORK_BAR: f64 = 1.05;

/// The repository: this many directories of this many files.
const DIRECTORIES: usize = 200;
const FILES: usize = 100;

/// Sizes of files in bytes, each as frequent as the others: the middles of the ten tenths of the 18,000 files in the sources of
/// the crates that this program is built from.
pub(super) const SIZES: [usize; 10] = [94, 439, 1_048, 1_879, 3_068, 4_570, 7_070, 11_237, 21_206, 67_730];
/// One line or two in each file, so that opening it is all the work.
const TINY: [usize; 2] = [60, 120];

/// How work is done that is compared with the same outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Under {
    /// In the whole fence.
    Fence,
    /// With one rule of seccomp and one of Landlock that nothing meets: what the kernel takes for having both.
    BareWalls,
}

/// One piece of work.
pub(super) struct Job {
    pub(super) name: &'static str,
    /// What it is held to; nothing where it shows the worst that can happen.
    pub(super) bar: Option<f64>,
    /// What comes before it, each time, and is not timed.
    pub(super) before: &'static str,
    /// As the shell takes it.
    pub(super) line: &'static str,
    pub(super) dir: PathBuf,
    /// How often it is repeated in one turn.
    pub(super) runs: usize,
}

/// Measures, prints, and holds each to its bar.
pub(super) fn run(ground: &Ground, effort: Effort, bars: &mut Bars) -> Result<(), Failure> {
    let repository = repository(ground, "large", &SIZES)?;
    let tiny = self::repository(ground, "tiny", &TINY)?;
    let (rounds, runs) = if effort == Effort::Quick { (4, 3) } else { (20, 5) };
    let (grep, pipe) = ("grep -r 'no such line' . || true", "tar cf - . | wc -c");
    // The archive is in nobody's way: git would tell of it, and the others would read it.
    let before = "rm -f all.tar";
    let job = |name, line| Job { name, bar: Some(WORK_BAR), before, line, dir: repository.clone(), runs };
    let archive = || job("tar, 20,000 files", "tar cf all.tar part-*");
    let worst = |name, line| Job { bar: None, ..job(name, line) };
    let tiny = |name, line| Job { dir: tiny.clone(), ..worst(name, line) };
    let mut jobs = vec![
        job("git status, 20,000 files", "git status --porcelain"),
        job("grep -r, 20,000 files", grep),
        archive(),
        // To somebody who does nothing with it: all calls, and hardly any work.
        worst("tar through a pipe, 20,000 files", pipe),
        tiny("grep -r, 20,000 files of a line", grep),
        tiny("tar through a pipe, 20,000 files of a line", pipe),
    ];
    match crate_of_its_own(ground)? {
        Some(dir) if effort == Effort::Full => {
            let (before, line) = ("rm -rf target", "cargo build --offline --quiet");
            jobs.push(Job { name: "cargo build", bar: Some(WORK_BAR), before, line, dir, runs: 2 });
        }
        Some(_) => {}
        None if effort == Effort::Full => say::progress("no compiler here: `cargo build` is not measured"),
        None => {}
    }
    compare(ground, ("Real work", Under::Fence), &jobs, rounds, bars)?;
    let jobs = [
        worst("grep -r, 20,000 files", grep),
        Job { bar: None, ..archive() },
        worst("tar through a pipe, 20,000 files", pipe),
    ];
    let title = "The same with one rule of seccomp and one of Landlock, and no fence";
    compare(ground, (title, Under::BareWalls), &jobs, rounds, bars)?;
    walk(ground, &repository, effort)
}

/// Times each piece of work outside and inside, in turns.
pub(super) fn compare(
    ground: &Ground,
    (title, under): (&str, Under),
    jobs: &[Job],
    rounds: usize,
    bars: &mut Bars,
) -> Result<(), Failure> {
    let mut rows = Vec::new();
    for job in jobs {
        let (mut outside, mut inside) = (Vec::new(), Vec::new());
        for round in 0..rounds {
            let mut both = [(&mut outside, times(ground, job, None)), (&mut inside, times(ground, job, Some(under)))];
            // Nobody always comes first.
            both.rotate_left(round % 2);
            for (times, command) in both {
                times.extend(read(command, job.name)?);
            }
        }
        outside.sort_by(f64::total_cmp);
        inside.sort_by(f64::total_cmp);
        let (out, inn) = (median(&outside), median(&inside));
        let least = |times: &[f64]| times.first().copied().unwrap_or(0.0);
        let verdict = job.bar.map_or_else(|| "no bar".to_owned(), |bar| bars.hold(job.name, inn / out, bar));
        let ratio = format!("{:.3} ({verdict})", inn / out);
        let of_least = format!("{:.3}", least(&inside) / least(&outside));
        rows.push(vec![job.name.to_owned(), ms(out), ms(inn), ratio, of_least]);
    }
    table(title, &["what", "outside", "inside", "ratio", "ratio of the least"], &rows);
    Ok(())
}

/// What the walk over a large project adds to the start.
fn walk(ground: &Ground, repository: &Path, effort: Effort) -> Result<(), Failure> {
    use super::clock::{Runner, Turns, in_turns};
    let mut large = ground.fenced(&[], &["true"]);
    large.current_dir(repository);
    let runners = vec![
        Runner { name: "a small project", command: ground.fenced(&[], &["true"]) },
        Runner { name: "20,000 files", command: large },
    ];
    let rounds = if effort == Effort::Quick { 5 } else { 20 };
    let taken = in_turns(runners, Turns { rounds, runs: 2 })?;
    let rows: Vec<Vec<String>> =
        taken.iter().map(|taken| vec![taken.name.to_owned(), ms(taken.median), ms(taken.least)]).collect();
    table("Starting `true` in a large project", &["project", "median", "least"], &rows);
    Ok(())
}

/// The helper that repeats a piece of work, outside or under something.
fn times(ground: &Ground, job: &Job, under: Option<Under>) -> Command {
    let bin = ground.dir.join("bin");
    let helper = bin.join("xtask");
    let runs = job.runs.to_string();
    let words = [helper.as_os_str(), "bench-times".as_ref(), runs.as_ref(), job.before.as_ref(), job.line.as_ref()];
    let mut command = match under {
        Some(Under::Fence) => {
            let mut options = vec!["--ref".as_ref(), bin.as_os_str()];
            let toolchain = ground.toolchain();
            if let Some(toolchain) = &toolchain {
                options.extend(["--ref".as_ref(), toolchain.as_os_str()]);
            }
            let mut command = ground.fenced(&options, &[]);
            command.args(words);
            command
        }
        Some(Under::BareWalls) => {
            let mut command = ground.command(ground.bare_walls());
            command.args(words);
            command
        }
        None => {
            let mut command = ground.command(&helper);
            command.args(&words[1..]);
            command
        }
    };
    if let Some(toolchain) = ground.toolchain() {
        let path = std::env::join_paths([toolchain.join("bin"), "/usr/bin".into(), "/bin".into()]).unwrap_or_default();
        command.env("PATH", path);
    }
    command.current_dir(&job.dir);
    command
}

/// What the helper says.
fn read(mut command: Command, name: &str) -> Result<Vec<f64>, Failure> {
    let output = command.stdout(Stdio::piped()).stderr(Stdio::piped()).output();
    let output = output.map_err(|cause| Failure::Start { command: name.to_owned(), cause })?;
    if !output.status.success() {
        let said = output.stderr.escape_ascii();
        return Err(Failure::Found(format!("{name}: {}: {said}", output.status)));
    }
    let text = String::from_utf8(output.stdout).unwrap_or_default();
    Ok(text.lines().filter_map(|line| line.parse().ok()).collect())
}

/// The helper: runs a line of shell some times, and says what each run but the first took, in seconds.
pub(crate) fn helper(runs: &str, before: &str, line: &str) -> Result<(), Failure> {
    let runs: usize = runs.parse().map_err(|_| Failure::Found(format!("`{runs}` is no number")))?;
    for run in 0..=runs {
        quietly(before)?;
        let start = Instant::now();
        quietly(line)?;
        if run > 0 {
            say::result(start.elapsed().as_secs_f64().to_string());
        }
    }
    Ok(())
}

fn quietly(line: &str) -> Result<(), Failure> {
    match Command::new("sh").args(["-c", line]).stdin(Stdio::null()).stdout(Stdio::null()).status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(Failure::Status { command: line.to_owned(), status }),
        Err(cause) => Err(Failure::Start { command: line.to_owned(), cause }),
    }
}

/// A repository of 20,000 committed files of these sizes.
pub(super) fn repository(ground: &Ground, name: &str, sizes: &[usize]) -> Result<PathBuf, Failure> {
    let dir = ground.home().join(name);
    let text = fs::read(ground.text()).map_err(|cause| failed(&ground.text(), &cause))?;
    let (mut at, mut turns) = (0, 0);
    for n in 0..DIRECTORIES {
        let below = dir.join(format!("part-{}/module-{n}/src", n % 10));
        fs::create_dir_all(&below).map_err(|cause| failed(&below, &cause))?;
        for file in 0..FILES {
            let path = below.join(format!("file_{file}.rs"));
            let size = sizes[(n + file) % sizes.len()];
            if at + size > text.len() {
                // Not from the same place again: no two files are alike.
                turns += 1;
                at = turns;
            }
            fs::write(&path, &text[at..at + size]).map_err(|cause| failed(&path, &cause))?;
            at += size;
        }
    }
    // Packed at once: git would do it by itself meanwhile, and that would be measured too. The newest files of a repository are kept
    // whole, and so are these.
    let commit = "git init -q . && git config gc.auto 0 && git config maintenance.auto false && git add -A \
                  && git -c user.name=bench -c user.email=bench@localhost commit -qm all \
                  && git -c pack.window=0 gc -q";
    shell(ground, &dir, commit)?;
    Ok(dir)
}

/// A crate without dependencies, if there is a compiler.
pub(super) fn crate_of_its_own(ground: &Ground) -> Result<Option<PathBuf>, Failure> {
    if ground.toolchain().is_none() {
        return Ok(None);
    }
    let dir = ground.home().join("crate");
    let source = dir.join("src");
    fs::create_dir_all(&source).map_err(|cause| failed(&source, &cause))?;
    let manifest = "[package]\nname = \"small\"\nversion = \"0.1.0\"\nedition = \"2024\"\n";
    let functions: String = (0..400)
        .map(|n| {
            format!("pub fn f{n}(v: &[u32]) -> String {{ format!(\"{{:?}}\", v.iter().map(|x| x + {n}).max()) }}\n")
        })
        .collect();
    let main = "fn main() {\n    println!(\"{}\", small::f7(&[1, 2, 3]));\n}\n";
    let files = [(dir.join("Cargo.toml"), manifest.to_owned()), (source.join("lib.rs"), functions)];
    for (path, text) in files.into_iter().chain([(source.join("main.rs"), main.to_owned())]) {
        fs::write(&path, text).map_err(|cause| failed(&path, &cause))?;
    }
    Ok(Some(dir))
}

pub(super) fn shell(ground: &ground::Ground, dir: &Path, line: &str) -> Result<(), Failure> {
    let status = ground.command("sh").args(["-c", line]).current_dir(dir).status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(Failure::Status { command: line.to_owned(), status }),
        Err(cause) => Err(Failure::Start { command: line.to_owned(), cause }),
    }
}
