//! `ringfence plan`: what would be enforced, here or on a host described by facts.

use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;

use ringfence_plan::{MountOp, Plan, compile};
use ringfence_surface::{Effect, Governance, HostFacts, Inputs, Resolved, resolve};

use crate::cli::PlanArgs;
use crate::error::Failure;
use crate::host::read_bounded;
use crate::load::{self, Here};
use crate::out;
use crate::wire::facts::{WireHost, plain_request};
use crate::wire::plan::{WirePlan, access_word, tier_word, view_word};

/// The largest description of a host that is read.
const MAX_FACTS: u64 = 64 << 20;

pub(crate) fn run(args: &PlanArgs) -> Result<ExitCode, Failure> {
    let here = match &args.host {
        None => load::here(&args.policy)?,
        Some(path) => elsewhere(path, args)?,
    };
    if args.facts {
        out::print_json(&WireHost::new(&here.facts, &here.inputs))?;
        return Ok(ExitCode::SUCCESS);
    }
    let plan = compile(&here.resolved.surface, &here.facts);
    if args.json {
        out::print_json(&WirePlan::new(&here.resolved, &plan))?;
    } else {
        load::tell(&here);
        out::print(&in_words(&here.resolved, &here.facts, &plan, args.all))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Resolves with recorded facts alone: nothing of this machine takes part.
fn elsewhere(path: &Path, args: &PlanArgs) -> Result<Here, Failure> {
    let bytes = read_bounded(path, MAX_FACTS).map_err(|source| Failure::Read { path: path.into(), source })?;
    let (facts, layers) = WireHost::read(&bytes).map_err(|error| error.into_failure(path))?;
    let task = args.policy.task.as_ref().map(|task| ringfence_surface::Shown(task.as_encoded_bytes()).to_string());
    let request = plain_request(args.policy.persona.clone(), task, args.policy.agent.clone());
    let inputs = Inputs { layers, request };
    let resolved = resolve(&inputs, &facts, &mut &facts).map_err(|said| Failure::Policy { said })?;
    Ok(Here { inputs, facts, resolved })
}

fn in_words(resolved: &Resolved, facts: &HostFacts, plan: &Plan, all: bool) -> String {
    let surface = &resolved.surface;
    let mut text = String::new();
    let mut line = |words: String| {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{words}");
    };
    line(format!("root      {}", surface.root()));
    line(format!("workdir   {}", surface.workdir()));
    line(format!("view      {}", view_word(surface)));
    line(format!("tier      {}", tier_word(surface)));
    if let Governance::SelfGoverning(source) = surface.governance() {
        line(format!("SELF-GOVERNING: no OS layer is applied ({source})"));
    }
    line(format!("packs     {}", if surface.packs().is_empty() { "none".into() } else { surface.packs().join(" ") }));
    line(format!("kernel    {}", facts.kernel));
    line("\nmounts".into());
    for op in &plan.mounts {
        line(match op {
            MountOp::Bind { path, access, role } => format!("  {} {path}  ({})", access_word(*access), role.word()),
            MountOp::Link { path, target } => format!("  -> {path} -> {}", ringfence_surface::Shown(target)),
            MountOp::Private { path, access } => format!("  {} {path}  (private)", access_word(*access)),
        });
    }
    let skipped: Vec<_> = plan.skipped.iter().collect();
    if !skipped.is_empty() {
        line(format!("\nskipped   {} entries", skipped.len()));
        for skip in skipped {
            line(format!("  {}: {} ({})", skip.pattern, skip.why.words(), skip.source));
        }
    }
    let taken: Vec<_> = surface
        .rules()
        .iter()
        .filter(|r| matches!(r.effect, Effect::Escape | Effect::Deny | Effect::Protect))
        .collect();
    let shown = taken.iter().filter(|rule| all || rule.source.is_written());
    line(format!(
        "\ndeny and protect   {} rules, {} of them built in",
        taken.len(),
        taken.iter().filter(|r| !r.source.is_written()).count()
    ));
    for rule in shown {
        line(format!("  {rule}  ({})", rule.source));
    }
    line("\nnetwork".into());
    for entry in &surface.reach().hosts {
        line(format!("  {}  ({})", entry.value, entry.source));
    }
    for entry in &surface.reach().host_ports {
        line(format!("  loopback port {}  ({})", entry.value, entry.source));
    }
    for entry in &surface.reach().sockets {
        line(format!("  socket {}  ({})", entry.value, entry.source));
    }
    let reach = surface.reach();
    if reach.hosts.is_empty() && reach.host_ports.is_empty() && reach.sockets.is_empty() {
        line("  nothing".into());
    }
    line(format!("\nclaims    {}; no layer is built yet to carry them", plan.claims.len()));
    text
}
