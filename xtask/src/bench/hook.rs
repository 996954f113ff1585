//! What a hook call costs: a client waits for one before each of its tools.

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::Instant;

use serde_json::{Value, json};

use super::Effort;
use super::bars::{Bars, ms, table};
use super::clock::median;
use super::ground::{Ground, failed};
use super::many::policy_of;
use crate::steps::Failure;

/// How many rules the session's policy has, beside the built-in ones.
const RULES: usize = 1_000;

/// The most that a call may take, in milliseconds: the middle one, and ninety-nine of a hundred.
const MEDIAN_BAR: f64 = 3.0;
const MOST_BAR: f64 = 10.0;

/// Calls the hook as a client does, a process for each call, with the record of a session of many rules.
pub(super) fn run(ground: &Ground, effort: Effort, bars: &mut Bars) -> Result<(), Failure> {
    let given = ground.scratch("given")?;
    keep_record(ground, &given)?;
    let times = if effort == Effort::Quick { 200 } else { 1_000 };
    let mut rows = Vec::new();
    for (what, tool, input, code) in [
        ("a read that may be", "Read", json!({"file_path": "README"}), 0),
        ("a read that may not be", "Read", json!({"file_path": "../.ssh/id_rsa"}), 2),
        ("a command that changes nothing", "Bash", json!({"command": "ls -la src | head -n 5"}), 0),
    ] {
        let call = given.join("call");
        fs::write(&call, payload(ground, tool, &input)).map_err(|cause| failed(&call, &cause))?;
        let mut taken = (0..times).map(|_| once(ground, &given, code)).collect::<Result<Vec<f64>, _>>()?;
        taken.sort_by(f64::total_cmp);
        let (middle, most) = (median(&taken), taken[taken.len() * 99 / 100]);
        let middle_verdict = bars.hold(&format!("a hook call, {what}, in ms"), middle * 1e3, MEDIAN_BAR);
        let most_verdict = bars.hold(&format!("a hook call, {what}, 99 of 100, in ms"), most * 1e3, MOST_BAR);
        let cell = |time: f64, verdict: &str| format!("{} ({verdict})", ms(time));
        rows.push(vec![what.to_owned(), cell(middle, &middle_verdict), cell(most, &most_verdict)]);
    }
    let plain = (0..times).map(|_| start_only(ground)).collect::<Result<Vec<f64>, _>>()?;
    let plain = {
        let mut plain = plain;
        plain.sort_by(f64::total_cmp);
        vec!["`true`, for comparison".to_owned(), ms(median(&plain)), ms(plain[plain.len() * 99 / 100])]
    };
    rows.push(plain);
    table("A hook call, with 1,000 rules beside the built-in ones", &["call", "median", "99 of 100"], &rows);
    Ok(())
}

fn payload(ground: &Ground, tool: &str, input: &Value) -> String {
    let cwd = ground.project();
    json!({"cwd": cwd.to_str(), "hook_event_name": "PreToolUse", "tool_name": tool, "tool_input": input}).to_string()
}

/// Starts a session and keeps its record.
fn keep_record(ground: &Ground, given: &Path) -> Result<(), Failure> {
    let policy = ground.dir.join("scratch/hook.toml");
    fs::write(&policy, policy_of(RULES)).map_err(|cause| failed(&policy, &cause))?;
    let options = ["--policy".as_ref(), policy.as_os_str()];
    let words = ["sh", "-c", "cat \"$(dirname \"$HOME\")/given/record\""];
    let output = ground.fenced(&options, &words).stdout(Stdio::piped()).output();
    let output = output.map_err(|cause| Failure::Start { command: "ringfence run".to_owned(), cause })?;
    let record = given.join("record");
    fs::write(&record, output.stdout).map_err(|cause| failed(&record, &cause))
}

fn once(ground: &Ground, given: &Path, code: i32) -> Result<f64, Failure> {
    let call = given.join("call");
    let input = fs::File::open(&call).map_err(|cause| failed(&call, &cause))?;
    let mut command = ground.command(ground.ringfence());
    command.args(["hook", "claude", "--given"]).arg(given).stdin(input);
    let begun = Instant::now();
    let status = command.status();
    let taken = begun.elapsed().as_secs_f64();
    match status {
        Ok(status) if status.code() == Some(code) => Ok(taken),
        Ok(status) => Err(Failure::Status { command: "ringfence hook".to_owned(), status }),
        Err(cause) => Err(Failure::Start { command: "ringfence hook".to_owned(), cause }),
    }
}

fn start_only(ground: &Ground) -> Result<f64, Failure> {
    let begun = Instant::now();
    let status = ground.command("true").status();
    status.map_err(|cause| Failure::Start { command: "true".to_owned(), cause })?;
    Ok(begun.elapsed().as_secs_f64())
}
