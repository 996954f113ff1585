//! `ringfence render kubernetes`: what a cluster would be told, without asking one.

use std::process::ExitCode;

use ringfence_plan::{ClusterVersion, FilesFrom, NamedHosts, PodPlan, Rung, compile};
use ringfence_session::container::{DescribedPod, render_pod, written};

use super::{dropped_line, say_once, skipped_line};
use crate::cli::{PodKindArg, RenderArgs};
use crate::error::{Failure, RenderFailure};
use crate::host::{Recorder, mounts};
use crate::load::Here;
use crate::out::{print, print_json, say};
use crate::wire::SCHEMA;
use crate::wire::kubernetes::{PodKind, objects};
use crate::yaml;

/// What everything is called where nobody says.
const NAME: &str = "ringfence-session";

/// What a cluster takes at once, with room for what it adds itself.
const MOST_BYTES: usize = 1 << 20;

/// The version of a cluster where nobody says: from it on, everything that is asked for is there.
const CLUSTER: ClusterVersion = ClusterVersion::USERS;

pub(super) fn run(args: &RenderArgs, mut here: Here) -> Result<ExitCode, Failure> {
    here.facts.mounts = mounts();
    let surface = &here.resolved.surface;
    // The same mounts as for an engine.
    let plan = compile(surface, &here.facts, Rung::Podman);
    let choice = here.resolved.agent.as_ref();
    let command: Vec<Vec<u8>> =
        choice.map(|choice| choice.command.iter().map(|word| word.clone().into_bytes()).collect()).unwrap_or_default();
    let asked = &args.kubernetes;
    let described = DescribedPod {
        name: asked.name.as_deref().unwrap_or(NAME),
        choice: choice.map(|choice| &choice.container),
        surface: (surface, &plan.mounts),
        facts: &here.facts,
        command: &command,
        files: asked.claim.as_deref().map_or(FilesFrom::Node, FilesFrom::Claim),
        named: if asked.cilium { NamedHosts::Cilium } else { NamedHosts::Withheld },
        cluster: asked.cluster.map_or(CLUSTER, ClusterVersion),
        runtime_class: asked.runtime_class.as_deref(),
    };
    let rendered =
        render_pod(&described, &mut Recorder::new(Vec::new())).map_err(|source| Failure::Container { source })?;
    let kind = match asked.kind {
        None | Some(PodKindArg::Pod) => PodKind::Pod,
        Some(PodKindArg::Sandbox) => PodKind::Sandbox,
    };
    let pod = rendered.plan;
    let objects = objects(&pod, kind).map_err(|source| Failure::Json { source })?;
    let dropped: Vec<String> = rendered.dropped.iter().map(dropped_line).collect();
    let hidden = rendered.hidden.iter().map(|hidden| format!("{}: {}", hidden.path, hidden.why.words()));
    let skipped: Vec<String> = written(&plan.skipped).map(skipped_line).chain(hidden).collect();
    let text = yaml::documents(&objects);
    if text.len() > MOST_BYTES {
        return Err(Failure::Render { source: RenderFailure::TooLarge { bytes: text.len(), most: MOST_BYTES } });
    }
    if args.json {
        let not_held: Vec<serde_json::Value> = pod
            .shortfalls
            .iter()
            .map(|short| serde_json::json!({ "claim": short.claim.to_string(), "reason": short.reason }))
            .collect();
        let withheld: Vec<serde_json::Value> = pod
            .withheld
            .iter()
            .map(|one| serde_json::json!({ "what": one.pattern, "source": one.source, "reason": one.reason }))
            .collect();
        print_json(&serde_json::json!({
            "schema": SCHEMA, "objects": objects, "not_held": not_held, "withheld": withheld, "dropped": dropped,
            "skipped": skipped,
        }))?;
        return Ok(ExitCode::SUCCESS);
    }
    tell(&pod, &dropped, &skipped);
    print(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn tell(pod: &PodPlan, dropped: &[String], skipped: &[String]) {
    let short = pod.shortfalls.iter().map(|short| (short.claim.to_string(), short.reason.as_str()));
    say_once("not held", short.collect());
    say_once("withheld", pod.withheld.iter().map(|one| (one.pattern.clone(), one.reason)).collect());
    dropped.iter().for_each(|line| say(&format!("ringfence: dropped: {line}")));
    skipped.iter().for_each(|line| say(&format!("ringfence: skipped: {line}")));
}
