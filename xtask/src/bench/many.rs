//! Many rules, many sandboxes at once, and the memory of one that waits.

use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::Instant;

use super::Effort;
use super::bars::{Bars, ms, table};
use super::clock::{Runner, Turns, in_turns};
use super::ground::{Ground, failed};
use crate::steps::Failure;

/// How many rules a policy has.
const RULES: [(usize, &str); 4] = [(10, "10"), (100, "100"), (1_000, "1,000"), (5_000, "5,000")];

/// How much longer a start may take with 500 times the rules. Growth in proportion would be 500.
const GROWTH_BAR: f64 = 5.0;

/// How many sandboxes at once; a quick run leaves out the last.
const AT_ONCE: [usize; 2] = [100, 500];

/// How many sessions that have ended are listed, and how many milliseconds that may take.
const ENDED: usize = 3_000;
const LIST_BAR: f64 = 50.0;

/// The most that a waiting supervisor may hold, in MiB.
const MEMORY_BAR: f64 = 4.0;

/// Starts `true` under policies of many rules.
pub(super) fn rules(ground: &Ground, turns: Turns, bars: &mut Bars) -> Result<(), Failure> {
    let mut runners = vec![Runner { name: "true", command: ground.command("true") }];
    for (count, name) in RULES {
        let policy = ground.dir.join(format!("scratch/rules-{count}.toml"));
        fs::write(&policy, policy_of(count)).map_err(|cause| failed(&policy, &cause))?;
        let options = ["--policy".as_ref(), policy.as_os_str()];
        runners.push(Runner { name, command: ground.fenced(&options, &["true"]) });
    }
    let taken = in_turns(runners, turns)?;
    let [plain, few, .., most] = taken.as_slice() else { return Ok(()) };
    let added = |taken: &super::clock::Taken| taken.median - plain.median;
    let growth = added(most) / added(few);
    let verdict = bars.hold("start with 5,000 rules over start with 10", growth, GROWTH_BAR);
    let row = |taken: &super::clock::Taken| {
        vec![taken.name.to_owned(), ms(added(taken)), format!("{:.2}", added(taken) / added(few))]
    };
    let rows: Vec<Vec<String>> = taken[1..].iter().map(row).collect();
    let title = format!("Starting `true` under a policy of many rules ({growth:.2} from 10 to 5,000, {verdict})");
    table(&title, &["rules", "added", "over 10 rules"], &rows);
    Ok(())
}

/// Rules of the shapes that users write.
pub(super) fn policy_of(count: usize) -> String {
    let mut text = "version = 1\n[files]\ndeny = [\n".to_owned();
    for n in 0..count {
        let rule = match n % 8 {
            0 => format!("**/secret-{n}"),
            1 => format!("services/s{n}/private"),
            2 => format!("**/*.k{n}"),
            3 => format!("~/data/{n}/x"),
            4 => format!("services/*/conf-{n}*"),
            5 => format!("**/k?y-{n}.pem"),
            6 => format!("**/*token-{n}*"),
            _ => format!("**/gen/{n}/**/out"),
        };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  \"{rule}\",");
    }
    text + "]\n"
}

/// A sandbox that has started and waits for its standard input to end.
struct Waiting {
    child: Child,
    output: BufReader<std::process::ChildStdout>,
}

impl Waiting {
    fn start(ground: &Ground) -> Result<Self, Failure> {
        let mut command = ground.fenced(&[], &["sh", "-c", "echo ready; read line; exit 7"]);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|cause| Failure::Start { command: "ringfence run".to_owned(), cause })?;
        let output = child.stdout.take().ok_or_else(|| Failure::Found("no standard output".to_owned()))?;
        Ok(Self { child, output: BufReader::new(output) })
    }

    /// Waits until its command runs.
    fn is_ready(&mut self) -> bool {
        let mut line = String::new();
        self.output.read_line(&mut line).is_ok() && line == "ready\n"
    }

    /// Lets it end. Did its command's own exit code come through?
    fn ends_well(mut self) -> bool {
        drop(self.child.stdin.take());
        self.child.wait().is_ok_and(|status| status.code() == Some(7))
    }

    /// The supervisor, and the first process inside.
    fn processes(&self) -> Vec<u32> {
        let children = format!("/proc/{0}/task/{0}/children", self.child.id());
        let inside = fs::read_to_string(children).unwrap_or_default();
        std::iter::once(self.child.id()).chain(inside.split_whitespace().filter_map(|pid| pid.parse().ok())).collect()
    }
}

/// The memory of a supervisor that waits.
pub(super) fn memory(ground: &Ground, bars: &mut Bars) -> Result<(), Failure> {
    let mut waiting = Waiting::start(ground)?;
    bars.must("a sandbox that waits has started", waiting.is_ready());
    // It gives back what only the start needed once it has waited for a second.
    std::thread::sleep(std::time::Duration::from_millis(1_500));
    let held = waiting.processes().first().map(|pid| Held::of(*pid)).transpose()?.unwrap_or_default();
    bars.must("a sandbox that waited ends with its command's code", waiting.ends_well());
    let verdict = bars.hold("MiB that the waiting supervisor holds", held.resident / 1024.0, MEMORY_BAR);
    let mib = |kib: f64| format!("{:.2} MiB", kib / 1024.0);
    let row = vec![mib(held.resident), mib(held.proportional), mib(held.private)];
    table(&format!("Memory of a supervisor that waits ({verdict})"), &["resident", "its share", "private"], &[row]);
    Ok(())
}

/// Many sandboxes at once.
pub(super) fn at_once(ground: &Ground, effort: Effort, bars: &mut Bars) -> Result<(), Failure> {
    let counts = if effort == Effort::Quick { &AT_ONCE[..1] } else { &AT_ONCE };
    let rows = counts.iter().map(|count| so_many(ground, *count, bars)).collect::<Result<Vec<_>, _>>()?;
    let head = ["sandboxes", "succeeded", "all started after", "listed in", "all ended after", "share of memory, each"];
    table("Many at once", &head, &rows);
    let left = sessions_left(ground);
    bars.must(&format!("no session leaves a directory behind (there are {left})"), left == 0);
    Ok(())
}

fn so_many(ground: &Ground, count: usize, bars: &mut Bars) -> Result<Vec<String>, Failure> {
    let start = Instant::now();
    let mut all = (0..count).map(|_| Waiting::start(ground)).collect::<Result<Vec<_>, _>>()?;
    let ready = all.iter_mut().filter_map(|one| one.is_ready().then_some(())).count();
    let started = start.elapsed().as_secs_f64();
    bars.must("every one of many sandboxes at once has started", ready == count);
    let start = Instant::now();
    let listed = listed(ground, &["ps"])?;
    let listing = start.elapsed().as_secs_f64();
    bars.must("every one of many sandboxes at once is listed", listed == count + 1);
    let mut share = 0.0;
    for pid in all.iter().flat_map(Waiting::processes) {
        // The first process inside cannot be looked at by anybody: what it holds is its parent's, and shared with it.
        share += Held::of(pid).map_or(0.0, |held| held.proportional);
    }
    let start = Instant::now();
    let ended = all.into_iter().filter_map(|one| one.ends_well().then_some(())).count();
    bars.must("every one of many sandboxes at once ends with its command's code", ended == count);
    Ok(vec![
        count.to_string(),
        ended.to_string(),
        ms(started),
        ms(listing),
        ms(start.elapsed().as_secs_f64()),
        format!("{:.2} MiB", share / 1024.0 / count as f64),
    ])
}

/// How many lines a command about sessions prints.
fn listed(ground: &Ground, words: &[&str]) -> Result<usize, Failure> {
    let output = ground.command(ground.ringfence()).args(words).stdout(Stdio::piped()).output();
    let output = output.map_err(|cause| Failure::Start { command: "ringfence".to_owned(), cause })?;
    Ok(output.stdout.iter().filter(|byte| **byte == b'\n').count())
}

/// Lists thousands of sessions that have ended: those of this ground, over and over under other names.
pub(super) fn ended(ground: &Ground, turns: Turns, bars: &mut Bars) -> Result<(), Failure> {
    let path = ground.home().join(".local/state/ringfence/ended.jsonl");
    let text = fs::read_to_string(&path).map_err(|cause| failed(&path, &cause))?;
    let line = text.lines().last().unwrap_or_default();
    let id = line.split_once("\"id\":\"").and_then(|(_, rest)| rest.split_once('"')).map(|(id, _)| id);
    let id = id.ok_or_else(|| Failure::Found("no session has ended here".to_owned()))?;
    let many: String = (0..ENDED).map(|n| line.replace(id, &format!("ended{n:03}")) + "\n").collect();
    fs::write(&path, many).map_err(|cause| failed(&path, &cause))?;
    bars.must("every session that has ended is listed", listed(ground, &["ps", "--all"])? == ENDED + 1);
    let list = |words: &[&str]| {
        let mut command = ground.command(ground.ringfence());
        command.args(words).stdout(Stdio::null());
        command
    };
    let runners = vec![
        Runner { name: "ps", command: list(&["ps"]) },
        Runner { name: "ps --all", command: list(&["ps", "--all"]) },
        Runner { name: "ps --all --json", command: list(&["ps", "--all", "--json"]) },
    ];
    let taken = in_turns(runners, turns)?;
    // What a person waits for; JSON is twice as long.
    let list_ms = taken.iter().find(|one| one.name == "ps --all").map_or(f64::NAN, |one| one.median * 1e3);
    let verdict = bars.hold("ms to list 3,000 sessions that have ended", list_ms, LIST_BAR);
    let rows: Vec<Vec<String>> = taken.iter().map(|taken| vec![taken.name.to_owned(), ms(taken.median)]).collect();
    table(&format!("Listing 3,000 sessions that have ended ({verdict})"), &["command", "whole"], &rows);
    Ok(())
}

fn sessions_left(ground: &Ground) -> usize {
    let sessions: PathBuf = ground.home().join(".local/state/ringfence/sessions");
    fs::read_dir(sessions).map_or(0, |entries| entries.flatten().filter(|e| e.path().is_dir()).count())
}

/// What a process holds, in KiB.
#[derive(Debug, Default, PartialEq)]
struct Held {
    resident: f64,
    proportional: f64,
    private: f64,
}

impl Held {
    fn of(pid: u32) -> Result<Self, Failure> {
        let path = PathBuf::from(format!("/proc/{pid}/smaps_rollup"));
        fs::read_to_string(&path).map(|text| Self::read(&text)).map_err(|cause| failed(&path, &cause))
    }

    fn read(rollup: &str) -> Self {
        let sum = |names: &[&str]| {
            let fields = rollup.lines().filter_map(|line| line.split_once(':'));
            let amounts = fields.filter(|(name, _)| names.contains(name));
            amounts.filter_map(|(_, amount)| amount.split_whitespace().next()?.parse::<f64>().ok()).sum()
        };
        Self { resident: sum(&["Rss"]), proportional: sum(&["Pss"]), private: sum(&["Private_Clean", "Private_Dirty"]) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read() {
        let rollup = "5581-7ffd ---p 00000000 00:00 0 [rollup]\nRss:    1648 kB\nPss:     154 kB\nPss_Dirty: 9 kB\n\
                      Private_Clean:    8 kB\nPrivate_Dirty:   92 kB\n";
        assert_eq!(Held::read(rollup), Held { resident: 1648.0, proportional: 154.0, private: 100.0 });
        assert_eq!(Held::read(""), Held::default());
    }

    #[test]
    fn a_policy_has_as_many_rules_as_asked() {
        assert_eq!(policy_of(100).lines().filter(|line| line.starts_with("  \"")).count(), 100);
    }
}
