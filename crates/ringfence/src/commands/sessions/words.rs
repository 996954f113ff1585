//! Events and moments in words.

use ringfence_session::audit::{Event, What};
use ringfence_session::text::Bytes;
pub(super) use ringfence_session::text::moment;
use ringfence_surface::Shown;

/// How long ago, in one word.
pub(super) fn age(ms: u64) -> String {
    match ms / 1_000 {
        s @ 0..=119 => format!("{s}s"),
        s @ 120..=7_199 => format!("{}m", s / 60),
        s @ 7_200..=172_799 => format!("{}h", s / 3_600),
        s => format!("{}d", s / 86_400),
    }
}

/// A command as it was typed, for a terminal.
pub(super) fn command(words: &[Bytes]) -> String {
    words.iter().map(Bytes::shown).collect::<Vec<_>>().join(" ")
}

/// How many different things something was done to.
pub(super) fn kinds(count: u64) -> String {
    match count {
        0 => "nothing".to_owned(),
        1 => "one kind of thing".to_owned(),
        more => format!("{more} kinds of things"),
    }
}

/// An event on one line.
pub(super) fn event(event: &Event) -> String {
    let session = event.session.as_deref().unwrap_or("-");
    format!("{} {} {}", moment(event.at_ms), Shown(session.as_bytes()), what(&event.what))
}

fn what(what: &What) -> String {
    let shown = |text: &str| Shown(text.as_bytes()).to_string();
    let until = |until: &Option<u64>| until.map(|ms| format!(" until {}", moment(ms))).unwrap_or_default();
    match what {
        What::Start { path, command: words, rung, pid } => {
            format!("start {} in {} ({}, supervisor {pid})", command(words), path.shown(), shown(rung))
        }
        What::Receipt { shortfalls, withheld, .. } => {
            format!("receipt: {} claims not held, {} entries withheld", shortfalls.len(), withheld.len())
        }
        What::Failed { why } => format!("failed: {}", shown(why)),
        What::End { code, stopped } => format!("end with code {code}, {} stopped", kinds(*stopped)),
        What::Git { gained } => format!("git: {}", shown(&gained.join("; "))),
        What::Used { reached, written, .. } => {
            let list = |all: &[String]| if all.is_empty() { "nothing".to_owned() } else { shown(&all.join(", ")) };
            let written = written.as_ref().map_or_else(|| "unknown".to_owned(), |written| list(written));
            format!("used: reached {}; written by {written}", list(reached))
        }
        What::Killed => "its supervisor was killed".to_owned(),
        What::Violation(counted) => format!("stopped {}", counted.violation.line_afterwards(counted.times)),
        What::Verdict { tool, allowed, why, path, .. } => {
            let path = path.as_ref().map(|path| format!(" {}", path.shown())).unwrap_or_default();
            format!("{} {}{path}: {}", if *allowed { "allowed" } else { "denied" }, shown(tool), shown(why))
        }
        What::Grant { path, access, until_ms } => {
            format!("grant {} {}{}", shown(access), path.shown(), until(until_ms))
        }
        What::GrantHost { host, until_ms } => format!("grant host {}{}", shown(host), until(until_ms)),
        What::Revoke { path, why } => format!("revoke {}: {}", path.shown(), shown(why)),
        What::RevokeHost { host, why } => format!("revoke host {}: {}", shown(host), shown(why)),
        What::Mode { mode } => format!("mode {}", shown(mode)),
        What::GrantRefused { asked, why } => format!("not granted {}: {}", shown(asked), shown(why)),
        What::Gap { path, guard, ms: Some(ms), .. } => {
            format!("{} was replaced outside and had no guard for {ms} ms ({})", path.shown(), shown(guard))
        }
        What::Gap { path, guard, ms: None, why } => {
            let why = why.as_deref().unwrap_or_default();
            format!("{} was replaced outside and HAS NO GUARD ({}): {}", path.shown(), shown(guard), shown(why))
        }
        What::Unchecked { path, more, why } => {
            let others = if *more == 0 { String::new() } else { format!(" and {more} more guarded places") };
            format!("{}{others} could not be checked: {}", path.shown(), shown(why))
        }
        What::Unwatched { path, count, why } => {
            format!("{count} directories below {} are not watched: {}", path.shown(), shown(why))
        }
        What::Watch { watch, source, count, done } => {
            format!("watch {} ({}): {count}; {}", shown(watch), shown(source), shown(done))
        }
        What::Asked(question) => format!("asks {}: {}", question.id, question.line()),
        What::Answered { id, asked, allowed, how } => {
            let answer = if *allowed { "approved" } else { "denied" };
            format!("{answer} {id}: {} ({})", shown(asked), shown(how))
        }
        What::Pause { why } => format!("paused: {}", shown(why)),
        What::Resume => "resumed".to_owned(),
        What::Torn { bytes, .. } => format!("half a line of {bytes} bytes was found at the end, and set right"),
        What::Broken { found } => format!("BROKEN: {}", shown(found)),
        What::Pruned { through, .. } => format!("the lines up to {through} were removed, since there is a limit"),
        What::Full { bytes } => {
            format!(
                "its part of the audit is full ({bytes} bytes): more of what the program causes is counted, and not written"
            )
        }
        What::Omitted { lines } => {
            format!("{lines} lines were counted and not written: its part of the audit was full")
        }
        What::Thinned { of, lines, bytes, from, through, .. } => format!(
            "{lines} lines ({bytes} bytes) of session {} between {from} and {through} were removed: the audit was larger than its limit",
            shown(of)
        ),
        What::Gone { through, .. } => format!("the lines from here to {through} were removed, since there is a limit"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments() {
        for (ms, expected) in [
            (0, "1970-01-01 00:00:00Z"),
            (951_782_400_000, "2000-02-29 00:00:00Z"),
            (1_735_689_599_999, "2024-12-31 23:59:59Z"),
            (1_794_758_531_000, "2026-11-15 16:02:11Z"),
        ] {
            assert_eq!(moment(ms), expected);
        }
        for (ms, expected) in [(0, "0s"), (119_000, "119s"), (120_000, "2m"), (7_200_000, "2h"), (172_800_000, "2d")] {
            assert_eq!(age(ms), expected);
        }
    }
}
