//! `ringfence plan`: what would be enforced, here or on a host described by facts.

mod words;

use std::path::Path;
use std::process::ExitCode;

use ringfence_plan::{Rung, compile};
use ringfence_surface::policy::Watch;
use ringfence_surface::{Inputs, Sourced};

use crate::cli::PlanArgs;
use crate::error::Failure;
use crate::host::{mounts, read_bounded};
use crate::load::{self, Here, Loader};
use crate::out;
use crate::tell::{self, Detail};
use crate::wire::facts::WireHost;
use crate::wire::plan::WirePlan;
use words::{Rows, Words};

/// The largest description of a host that is read.
const MAX_FACTS: u64 = 64 << 20;

pub(crate) fn run(args: &PlanArgs, managed: &Path) -> Result<ExitCode, Failure> {
    let mut here = match &args.host {
        None => Loader::new(managed)?.resolve(&args.policy)?,
        Some(path) => elsewhere(path, args, managed)?,
    };
    if args.facts {
        here.facts.mounts = mounts();
        out::print_json(&WireHost::new(&here.facts, &here.inputs))?;
        return Ok(ExitCode::SUCCESS);
    }
    let plan = compile(&here.resolved.surface, &here.facts, Rung::Native);
    if args.json {
        out::print_json(&WirePlan::new(&here.resolved, &plan))?;
    } else {
        tell::resolved(&here.resolved, Detail::Short);
        let rows = if args.all { Rows::All } else { Rows::Written };
        let words = Words { surface: &here.resolved.surface, facts: &here.facts, plan: &plan, rows };
        out::print(&words.to_text())?;
        let line = |watch: &Sourced<Watch>| format!("watch     {}  ({})\n", watch.value, watch.source);
        out::print(&here.resolved.watches.iter().map(line).collect::<String>())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Resolves with recorded facts. Of this machine nothing takes part but what the command line names: a task's file is read
/// here, and counts as if it lay at the same path there.
fn elsewhere(path: &Path, args: &PlanArgs, managed: &Path) -> Result<Here, Failure> {
    let bytes = read_bounded(path, MAX_FACTS).map_err(|source| Failure::Read { path: path.into(), source })?;
    let (facts, layers) = WireHost::read(&bytes).map_err(|error| error.into_failure(path))?;
    let request = Loader::new(managed)?.request(&args.policy)?;
    let inputs = Inputs { layers, request };
    let resolved = load::resolved(&inputs, &facts, &mut &facts)?;
    Ok(Here { inputs, facts, resolved })
}
