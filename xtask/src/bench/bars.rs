//! Bars that a figure has to stay under, and tables.

use super::Effort;
use crate::say;
use crate::steps::Failure;

/// What a quick run forgives: it takes few samples, often on a machine that does other things.
const QUICK_SLACK: f64 = 1.3;

/// Figures held to their bars.
pub(super) struct Bars {
    effort: Effort,
    missed: Vec<String>,
    held: usize,
}

impl Bars {
    pub(super) fn new(effort: Effort) -> Self {
        Self { effort, missed: Vec::new(), held: 0 }
    }

    /// Holds a figure to its bar, and gives the words for it.
    pub(super) fn hold(&mut self, what: &str, figure: f64, bar: f64) -> String {
        self.held += 1;
        let slack = if self.effort == Effort::Quick { QUICK_SLACK } else { 1.0 };
        // A figure that is no number is no success.
        let is_missed = figure.is_nan() || figure > bar * slack;
        if is_missed {
            self.missed.push(format!("{what}: {figure:.2}, the bar is {bar:.2}"));
        }
        match (figure <= bar, is_missed) {
            (true, _) => format!("within {bar:.2}"),
            (false, false) => format!("over {bar:.2}, forgiven in a quick run"),
            (false, true) => format!("OVER {bar:.2}"),
        }
    }

    /// Something that must be so.
    pub(super) fn must(&mut self, what: &str, is_so: bool) {
        self.held += 1;
        if !is_so {
            self.missed.push(what.to_owned());
        }
    }

    /// All of them together.
    pub(super) fn judge(self) -> Result<String, Failure> {
        if self.missed.is_empty() {
            Ok(format!("{} bars, none missed", self.held))
        } else {
            Err(Failure::Found(format!("missed: {}", self.missed.join("; "))))
        }
    }
}

/// Prints a table as it stands in docs/benchmarks.md.
pub(super) fn table(title: &str, head: &[&str], rows: &[Vec<String>]) {
    say::result(format!("\n{title}\n"));
    say::result(line(head.iter().copied()));
    say::result(line(head.iter().map(|_| "---")));
    for row in rows {
        say::result(line(row.iter().map(String::as_str)));
    }
}

fn line<'a>(cells: impl Iterator<Item = &'a str>) -> String {
    format!("| {} |", cells.collect::<Vec<_>>().join(" | "))
}

/// Seconds as milliseconds.
pub(super) fn ms(seconds: f64) -> String {
    format!("{:.2} ms", seconds * 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missed_bar_fails_and_a_quick_run_forgives_a_little() {
        let judge = |effort, figure| {
            let mut bars = Bars::new(effort);
            bars.hold("start", figure, 0.8);
            bars.judge()
        };
        assert!(judge(Effort::Full, 0.8).is_ok());
        assert!(judge(Effort::Full, 0.81).is_err());
        assert!(judge(Effort::Quick, 0.9).is_ok());
        let failure = judge(Effort::Quick, 1.2).expect_err("it is far over");
        assert!(failure.to_string().contains("start: 1.20, the bar is 0.80"), "{failure}");
        assert!(judge(Effort::Quick, f64::NAN).is_err());
    }

    #[test]
    fn what_must_be_so_must_be_so() {
        let mut bars = Bars::new(Effort::Quick);
        bars.must("all 100 succeed", false);
        assert!(bars.judge().is_err());
    }
}
