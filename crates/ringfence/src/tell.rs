//! How much is said about a policy beside the answer: enough to act on, never a flood. `--json` has it all.

use ringfence_surface::policy::MOST_DIAGNOSTICS;
use ringfence_surface::text::Diagnostic;
use ringfence_surface::{Dropped, Omission, Resolved};

use crate::out::say;

/// How much is said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Detail {
    /// The policy is what was asked about.
    Whole,
    /// Something else was asked: what all have in common is said once.
    Short,
}

/// More entries than this that wait for trust become one line.
const MOST_UNTRUSTED: usize = 5;

/// Tells the user what was left out and what looks wrong.
pub(crate) fn resolved(resolved: &Resolved, detail: Detail) {
    diagnostics(&resolved.diagnostics);
    omissions(&resolved.omissions, detail);
}

/// Says each diagnostic, up to a number.
pub(crate) fn diagnostics(said: &[Diagnostic]) {
    // The reader of one file cuts its own list and adds a line about it, which stays.
    let shown = if said.len() > MOST_DIAGNOSTICS + 1 { MOST_DIAGNOSTICS } else { said.len() };
    for diagnostic in &said[..shown] {
        say(&format!("{diagnostic}\n"));
    }
    if shown < said.len() {
        say(&format!("{} more are not shown\n", said.len() - shown));
    }
}

/// Says what a person wrote that takes no part.
pub(crate) fn omissions(omissions: &[Omission], detail: Detail) {
    for line in omission_lines(omissions, detail) {
        say(&line);
    }
}

fn omission_lines(omissions: &[Omission], detail: Detail) -> Vec<String> {
    let is_told =
        |omission: &&Omission| omission.source.is_written() || matches!(omission.why, Dropped::NewPack { .. });
    let written = omissions.iter().filter(is_told);
    let (untrusted, others): (Vec<_>, Vec<_>) = written.partition(|omission| omission.why == Dropped::Untrusted);
    let mut lines = first_few(&others);
    if detail == Detail::Short && untrusted.len() > MOST_UNTRUSTED {
        lines.push(format!(
            "warning: {} entries of the project's file take no part: it is not trusted, so it can only narrow; \
             `ringfence check` lists them",
            untrusted.len()
        ));
    } else {
        lines.extend(first_few(&untrusted));
    }
    if !untrusted.is_empty() {
        lines.push("hint: read the project's file, then run `ringfence trust`".to_owned());
    }
    lines
}

fn first_few(omissions: &[&Omission]) -> Vec<String> {
    let line = |Omission { entry, source, why }: &Omission| {
        format!("warning: {} ({source}) takes no part: {why}", ringfence_surface::Shown(entry.as_bytes()))
    };
    let mut lines: Vec<String> = omissions.iter().take(MOST_DIAGNOSTICS).map(|omission| line(omission)).collect();
    if omissions.len() > lines.len() {
        lines.push(format!("warning: {} more entries take no part", omissions.len() - lines.len()));
    }
    lines
}

#[cfg(test)]
mod tests {
    use ringfence_surface::Source;

    use super::*;

    fn omitted(count: usize, why: &Dropped) -> Vec<Omission> {
        let source = Source::Flag { name: "--ref" };
        (0..count).map(|n| Omission { entry: format!("e{n}"), source: source.clone(), why: why.clone() }).collect()
    }

    #[track_caller]
    fn check(count: usize, why: &Dropped, detail: Detail, lines: usize, last: &str) {
        let found = omission_lines(&omitted(count, why), detail);
        assert_eq!(found.len(), lines, "{found:#?}");
        assert!(found.last().is_none_or(|line| line.contains(last)), "{found:#?}");
    }

    #[test]
    fn what_waits_for_trust_is_counted() {
        check(0, &Dropped::Untrusted, Detail::Short, 0, "");
        check(5, &Dropped::Untrusted, Detail::Short, 6, "ringfence trust");
        check(6, &Dropped::Untrusted, Detail::Short, 2, "ringfence trust");
        check(6, &Dropped::Untrusted, Detail::Whole, 7, "ringfence trust");
        check(5_000, &Dropped::Untrusted, Detail::Short, 2, "ringfence trust");
        check(5_000, &Dropped::Untrusted, Detail::Whole, 52, "ringfence trust");
    }

    #[test]
    fn a_long_list_is_cut() {
        let unset = Dropped::Unset { variable: "GOPATH" };
        check(50, &unset, Detail::Short, 50, "e49");
        check(53, &unset, Detail::Short, 51, "3 more entries");
        let built_in = Omission {
            entry: "x".to_owned(),
            source: Source::Table { name: "system", reason: "" },
            why: Dropped::Untrusted,
        };
        assert_eq!(omission_lines(&[built_in], Detail::Whole), Vec::<String>::new());
    }
}
