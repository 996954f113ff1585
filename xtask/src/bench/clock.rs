//! Timing of commands: taken in turns, so that whatever else the machine does falls on all of them alike.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::steps::Failure;

/// One of the commands that are compared.
pub(super) struct Runner {
    pub(super) name: &'static str,
    pub(super) command: Command,
}

/// What one command took.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Taken {
    pub(super) name: &'static str,
    /// The middle one, in seconds.
    pub(super) median: f64,
    /// The shortest: what is left when nothing else runs.
    pub(super) least: f64,
    /// User and system time of one run and of all its children, in seconds.
    pub(super) cpu: f64,
}

/// How often.
#[derive(Debug, Clone, Copy)]
pub(super) struct Turns {
    /// How often each command has its turn.
    pub(super) rounds: usize,
    /// How often it runs in one turn: processor time is counted in hundredths of a second, so a turn of one short run would
    /// not show it.
    pub(super) runs: usize,
}

/// Runs the commands in turns. The first turn of each only warms up.
pub(super) fn in_turns(mut runners: Vec<Runner>, turns: Turns) -> Result<Vec<Taken>, Failure> {
    let mut times: Vec<Vec<f64>> = runners.iter().map(|_| Vec::new()).collect();
    let mut cpu = vec![0.0; runners.len()];
    for round in 0..=turns.rounds {
        for turn in 0..runners.len() {
            // Nobody always comes after the same other.
            let at = (turn + round) % runners.len();
            let before = children_cpu()?;
            for _ in 0..turns.runs {
                let time = once(&mut runners[at])?;
                if round > 0 {
                    times[at].push(time.as_secs_f64());
                }
            }
            if round > 0 {
                cpu[at] += children_cpu()? - before;
            }
        }
    }
    let runs = (turns.rounds * turns.runs) as f64;
    let taken = |(runner, (mut times, cpu)): (Runner, (Vec<f64>, f64))| {
        times.sort_by(f64::total_cmp);
        Taken {
            name: runner.name,
            median: median(&times),
            least: times.first().copied().unwrap_or(0.0),
            cpu: cpu / runs,
        }
    };
    Ok(runners.into_iter().zip(times.into_iter().zip(cpu)).map(taken).collect())
}

fn once(runner: &mut Runner) -> Result<Duration, Failure> {
    let start = Instant::now();
    let status = runner.command.status();
    let time = start.elapsed();
    match status {
        Ok(status) if status.success() => Ok(time),
        Ok(status) => Err(Failure::Status { command: runner.name.to_owned(), status }),
        Err(cause) => Err(Failure::Start { command: runner.name.to_owned(), cause }),
    }
}

/// The middle of sorted figures.
pub(super) fn median(sorted: &[f64]) -> f64 {
    match sorted.len() {
        0 => 0.0,
        n if n % 2 == 1 => sorted[n / 2],
        n => (sorted[n / 2 - 1] + sorted[n / 2]) / 2.0,
    }
}

/// The processor time of every child that has ended, in seconds. The standard library has no call for it.
fn children_cpu() -> Result<f64, Failure> {
    let text = fs::read_to_string("/proc/self/stat");
    let text = text.map_err(|cause| Failure::Found(format!("/proc/self/stat: {cause}")))?;
    cpu_in(&text).ok_or_else(|| Failure::Found("/proc/self/stat is not what proc(5) says".to_owned()))
}

fn cpu_in(stat: &str) -> Option<f64> {
    // The name of the program may hold blanks; what follows its bracket does not. The sixteenth and seventeenth of all
    // fields are the children's, in ticks of a hundredth of a second.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_ascii_whitespace().collect();
    let ticks = |at: usize| fields.get(at)?.parse::<f64>().ok();
    Some((ticks(13)? + ticks(14)?) / 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle() {
        assert_eq!(median(&[]), 0.0);
        assert_eq!(median(&[3.0]), 3.0);
        assert_eq!(median(&[1.0, 2.0, 9.0]), 2.0);
        assert_eq!(median(&[1.0, 2.0, 4.0, 9.0]), 3.0);
    }

    #[test]
    fn the_time_of_children_is_read() {
        let stat = "1 (a b) c) S 0 1 1 0 -1 4194560 1 2 3 4 10 20 300 450 20 0 1 0 5 6 7";
        assert_eq!(cpu_in(stat), Some(7.5));
        assert_eq!(cpu_in("1 (x) S"), None);
        assert_eq!(cpu_in(""), None);
    }

    #[test]
    fn each_command_has_its_turns() {
        let runner = |name| Runner { name, command: Command::new("true") };
        let taken = in_turns(vec![runner("a"), runner("b")], Turns { rounds: 2, runs: 2 }).expect("true succeeds");
        assert_eq!(taken.iter().map(|taken| taken.name).collect::<Vec<_>>(), ["a", "b"]);
        assert!(taken.iter().all(|taken| taken.least > 0.0 && taken.median >= taken.least), "{taken:?}");
        let failing = Runner { name: "no", command: Command::new("false") };
        assert!(in_turns(vec![failing], Turns { rounds: 1, runs: 1 }).is_err());
    }
}
