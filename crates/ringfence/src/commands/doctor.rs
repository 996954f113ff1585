//! `ringfence doctor`: what this host can enforce, what each feature carries, and what can be done about what is missing.

mod hands;
mod words;

use std::ffi::OsStr;
use std::io::IsTerminal as _;
use std::os::unix::ffi::OsStrExt as _;
use std::process::ExitCode;

use ringfence_session::doctor::{Change, Diagnosis, Host, Need, Remedy, Way, apply, diagnose, remedies, try_start};
use ringfence_session::probe::Caller;
use ringfence_surface::{AbsPath, Shown};

use crate::cli::DoctorArgs;
use crate::error::Failure;
use crate::out::{self, say};
use crate::wire::doctor::WireDoctor;
use hands::SystemHands;
use words::Colour;

pub(crate) fn run(args: &DoctorArgs) -> Result<ExitCode, Failure> {
    let host = look();
    let diagnosis = diagnose(&host);
    let remedies = remedies(&host);
    if args.json {
        out::print_json(&WireDoctor::new(&host, &diagnosis, &remedies))?;
        return Ok(code(&diagnosis));
    }
    let Some(named) = &args.fix else {
        out::print(&words::report(&host, &diagnosis, &remedies, Colour::of_stdout()))?;
        return Ok(code(&diagnosis));
    };
    let wanted: Vec<&Remedy> = remedies.iter().filter(|remedy| is_wanted(remedy, named)).collect();
    say(&diagnosis.verdict.to_string());
    if wanted.is_empty() {
        nothing_to_do(&diagnosis).iter().for_each(|line| say(line));
        return Ok(code(&diagnosis));
    }
    if host.signs.caller != Caller::Root {
        tell_how(&wanted)?;
        return Ok(code(&diagnosis));
    }
    let changed = put_right(&wanted, args)?;
    if !changed {
        say("nothing was changed");
        return Ok(code(&diagnosis));
    }
    let after = diagnose(&look());
    say(&format!("now {}", after.verdict));
    Ok(code(&after))
}

/// What is said where no remedy is for this command. What is missing may still be had, by hand.
fn nothing_to_do(diagnosis: &Diagnosis) -> Vec<String> {
    let features = diagnosis.groups.iter().flat_map(|group| &group.features).chain(&diagnosis.beside);
    let by_hand = features.filter_map(|feature| Some(format!("  {}: {}", feature.name, feature.remedy.as_ref()?)));
    let mut lines: Vec<String> = by_hand.collect();
    let first = if lines.is_empty() {
        "there is nothing to put right"
    } else {
        "there is nothing to put right from here; by hand:"
    };
    lines.insert(0, first.to_owned());
    lines
}

/// Tries everything, with the current directory as a project.
fn look() -> Host {
    let here = std::env::current_dir().ok().and_then(|dir| AbsPath::lexical(dir.as_os_str().as_bytes()).ok());
    Host::probe(&here.unwrap_or_else(AbsPath::root), |rung| try_start(&on(rung.word())))
}

/// The arguments that start a session on a backend, to see whether one starts. The name of a policy file follows.
pub(super) fn on(backend: &str) -> [&OsStr; 4] {
    ["try-start", "--backend", backend, "--policy"].map(OsStr::new)
}

fn code(diagnosis: &Diagnosis) -> ExitCode {
    if diagnosis.verdict.is_full { ExitCode::SUCCESS } else { ExitCode::from(1) }
}

/// Those that are needed, or those that are named.
fn is_wanted(remedy: &Remedy, named: &[String]) -> bool {
    if named.is_empty() { remedy.need == Need::Needed } else { named.iter().any(|name| name == remedy.name) }
}

/// Prints what root would do, as a script.
fn tell_how(wanted: &[&Remedy]) -> Result<(), Failure> {
    let mut has_steps = false;
    for remedy in wanted {
        words::remedy(remedy).iter().for_each(|line| say(line));
        has_steps |= matches!(remedy.way, Way::Steps(_));
    }
    if has_steps {
        say("\nthis needs root, and ringfence does not call sudo by itself; these commands do the same:\n");
        let scripts: Vec<String> = wanted.iter().filter_map(|remedy| words::script(remedy)).collect();
        out::print(&scripts.concat())?;
    }
    Ok(())
}

/// Asks and acts, one remedy after the other. Was anything done?
fn put_right(wanted: &[&Remedy], args: &DoctorArgs) -> Result<bool, Failure> {
    let can_ask = std::io::stdin().is_terminal();
    let mut changed = false;
    for remedy in wanted {
        words::remedy(remedy).iter().for_each(|line| say(line));
        if matches!(remedy.way, Way::ByHand(_)) {
            continue;
        }
        if !args.yes && !can_ask {
            return Err(Failure::NobodyToAsk);
        }
        if !args.yes && !out::ask("do this?") {
            say("left as it is");
            continue;
        }
        for change in apply(remedy, &mut SystemHands).map_err(|source| Failure::Fix { source })? {
            let path = |path: &std::path::Path| Shown(path.as_os_str().as_encoded_bytes()).to_string();
            say(&match &change {
                Change::Wrote(file) => format!("wrote {}", path(file)),
                Change::WasSo(file) => format!("{} is so already", path(file)),
                Change::Ran(command) => format!("ran {command}"),
            });
            changed |= !matches!(change, Change::WasSo(_));
        }
    }
    Ok(changed)
}

#[cfg(test)]
mod tests {
    use ringfence_plan::Rung;
    use ringfence_plan::features::Finding;
    use ringfence_session::doctor::{Answer, Costs, Group, Row, Verdict};

    use super::*;

    #[test]
    fn what_is_done_by_hand_is_not_called_nothing() {
        let feature = |remedy: Option<&str>| Row {
            name: "a memory limit",
            carries: "",
            finding: Finding::missing(""),
            costs: Costs::Nothing,
            remedy: remedy.map(str::to_owned),
        };
        let of = |features| Diagnosis {
            verdict: Verdict { rung: None, because: Vec::new(), unknown: Vec::new(), lost: Vec::new(), is_full: false },
            groups: vec![Group { rung: Rung::Native, answer: Answer::Works, features }],
            beside: Vec::new(),
        };
        assert_eq!(nothing_to_do(&of(vec![feature(None)])), ["there is nothing to put right"]);
        let lines = nothing_to_do(&of(vec![feature(Some("do it"))]));
        assert_eq!(lines, ["there is nothing to put right from here; by hand:", "  a memory limit: do it"]);
    }

    #[test]
    fn remedies_have_the_names_of_the_command_line() {
        assert_eq!(crate::cli::REMEDIES, ringfence_session::doctor::NAMES);
    }
}
