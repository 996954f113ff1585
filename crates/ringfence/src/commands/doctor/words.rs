//! A diagnosis and its remedies in words.

use std::io::IsTerminal as _;

use ringfence_plan::Rung;
use ringfence_plan::features::Finding;
use ringfence_session::doctor::{Action, Answer, Diagnosis, Group, Host, Need, Remedy, Row, Way};
use ringfence_session::probe::{Caller, Surroundings};
use ringfence_surface::Shown;

/// Whether words are coloured. They say the same without.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Colour {
    On,
    Off,
}

impl Colour {
    /// On a terminal, unless the user wants none.
    pub(super) fn of_stdout() -> Self {
        let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let is_dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
        if std::io::stdout().is_terminal() && !is_set("NO_COLOR") && !is_dumb { Self::On } else { Self::Off }
    }

    /// A word of eight columns.
    fn word(self, finding: &Finding) -> String {
        let (word, colour) = match finding {
            Finding::Present { .. } => ("works", 32),
            Finding::Missing { .. } => ("missing", 31),
            Finding::Unknown { .. } => ("unknown", 33),
            Finding::Untried => ("untried", 33),
        };
        match self {
            Self::Off => format!("{word:<8}"),
            Self::On => format!("\x1b[{colour}m{word:<8}\x1b[0m"),
        }
    }
}

/// What the user who has just installed ringfence needs to know, in three lines: the verdict, whether this is the full sandbox, and the
/// one command that makes it so.
pub(super) fn head(host: &Host, diagnosis: &Diagnosis, remedies: &[Remedy]) -> [String; 3] {
    let missing: Vec<&str> = diagnosis
        .groups
        .iter()
        .filter(|group| group.rung == Rung::Native)
        .flat_map(|group| &group.features)
        .filter(|row| !row.finding.is_present())
        .map(|feature| feature.name)
        .collect();
    let full = match (diagnosis.verdict.is_full, missing.as_slice()) {
        (true, []) => "full sandbox: works on this machine".to_owned(),
        (true, missing) => format!("full sandbox: works on this machine, without {}", missing.join(", ")),
        (false, []) => "full sandbox: does not work on this machine".to_owned(),
        (false, missing) => format!("full sandbox: does not work on this machine; missing: {}", missing.join(", ")),
    };
    [diagnosis.verdict.to_string(), full, format!("to fix it: {}", fix(host, diagnosis, remedies))]
}

/// One command where steps are known, otherwise the advice for what is needed first.
fn fix(host: &Host, diagnosis: &Diagnosis, remedies: &[Remedy]) -> String {
    let mut needed = remedies.iter().filter(|remedy| remedy.need == Need::Needed);
    if needed.clone().any(|remedy| matches!(remedy.way, Way::Steps(_))) {
        let sudo = if host.signs.caller == Caller::Root { "" } else { "sudo " };
        return format!("{sudo}ringfence doctor --fix");
    }
    match needed.find_map(|remedy| if let Way::ByHand(advice) = &remedy.way { Some(advice) } else { None }) {
        Some(advice) => advice.clone(),
        None if diagnosis.verdict.is_full => "nothing to do".to_owned(),
        None => "no command on this machine does; the reasons are below".to_owned(),
    }
}

/// The whole report; the verdict is its first line.
pub(super) fn report(host: &Host, diagnosis: &Diagnosis, remedies: &[Remedy], colour: Colour) -> String {
    let mut lines = head(host, diagnosis, remedies).to_vec();
    lines.extend([String::new(), on(host)]);
    for Group { rung, answer, features } in &diagnosis.groups {
        let state = match answer {
            Answer::Works => "works",
            Answer::Fails => "does not work here",
            Answer::Unknown => "unknown: there was no answer in time",
        };
        lines.extend([String::new(), format!("{}: {state}; {}", rung.word(), rung.summary())]);
        lines.extend(features.iter().flat_map(|feature| row(feature, colour)));
    }
    lines.extend([String::new(), "beside the fence".to_owned()]);
    lines.extend(diagnosis.beside.iter().flat_map(|feature| row(feature, colour)));
    lines.extend(offers(remedies));
    lines.join("\n") + "\n"
}

fn on(host: &Host) -> String {
    let caller = if host.signs.caller == Caller::Root { "as root" } else { "as an ordinary user" };
    let around = match host.signs.surroundings {
        Surroundings::Host => "",
        Surroundings::Container => ", in a container",
        Surroundings::Ringfence => ", inside a session of ringfence",
    };
    let shown = |text: &str| Shown(text.as_bytes()).to_string();
    format!("Linux {}, {}, {caller}{around}", shown(&host.kernel), shown(&host.system.name))
}

fn row(row: &Row, colour: Colour) -> Vec<String> {
    let Row { name, carries, finding, remedy, .. } = row;
    let detail = match finding {
        Finding::Present { detail } if !detail.is_empty() => format!(" ({detail})"),
        _ => String::new(),
    };
    let mut lines = vec![format!("  {} {name:<26} {carries}{detail}", colour.word(finding))];
    lines.extend(finding.reason().map(|why| format!("           why:    {why}")));
    lines.extend(remedy.as_ref().map(|remedy| format!("           remedy: {remedy}")));
    lines
}

/// What `--fix` can do, and for what it has to be asked by name.
fn offers(remedies: &[Remedy]) -> Vec<String> {
    let steps = |remedy: &&Remedy| matches!(remedy.way, Way::Steps(_));
    let lines: Vec<String> = remedies
        .iter()
        .filter(steps)
        .map(|remedy| match remedy.need {
            Need::Needed => format!("  {:<11} {}", remedy.name, remedy.title),
            Need::Optional => format!("  {:<11} {} (optional: `--fix {}`)", remedy.name, remedy.title, remedy.name),
        })
        .collect();
    if lines.is_empty() {
        lines
    } else {
        [vec![String::new(), "`ringfence doctor --fix` can".to_owned()], lines].concat()
    }
}

/// A remedy with its exact steps.
pub(super) fn remedy(remedy: &Remedy) -> Vec<String> {
    let mut lines = vec![String::new(), format!("{}: {}", remedy.name, remedy.title)];
    match &remedy.way {
        Way::ByHand(advice) => lines.push(format!("  by hand: {advice}")),
        Way::Steps(steps) => lines.extend(steps.iter().flat_map(step)),
    }
    lines.extend(remedy.caution.as_ref().map(|caution| format!("  caution: {caution}")));
    lines
}

fn step(action: &Action) -> Vec<String> {
    match action {
        Action::Write { path, text } => {
            let heading = format!("  write {}", Shown(path.as_os_str().as_encoded_bytes()));
            [heading].into_iter().chain(text.lines().map(|line| format!("    | {line}"))).collect()
        }
        Action::Run { .. } => vec![format!("  run   {}", action.command_line().unwrap_or_default())],
    }
}

/// The same for a shell; nothing for what is done by hand.
pub(super) fn script(remedy: &Remedy) -> Option<String> {
    let Way::Steps(steps) = &remedy.way else { return None };
    let lines = steps.iter().map(|action| match action {
        Action::Write { path, text } => {
            let path = Shown(path.as_os_str().as_encoded_bytes());
            format!("sudo tee {path} >/dev/null <<'END'\n{text}END\n")
        }
        Action::Run { .. } => format!("sudo {}\n", action.command_line().unwrap_or_default()),
    });
    Some(lines.collect())
}
