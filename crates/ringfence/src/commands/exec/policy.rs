//! What the command line asks of a call, as a policy that only narrows.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

use ringfence_session::call::Within;
use ringfence_surface::policy::{Bytes, EnvName, Wall};
use ringfence_surface::{AbsPath, Access, HostPattern, Look, Pattern, SubPolicy, follow};

use crate::cli::ExecArgs;
use crate::error::Failure;

pub(super) fn asked(args: &ExecArgs, within: &Within, look: &mut dyn Look) -> Result<SubPolicy, Failure> {
    let (session, here) = (&within.surface, &within.facts.cwd);
    let mut call = if args.read_only { SubPolicy::for_looking(session) } else { SubPolicy::for_tools(session) };
    if args.no_network {
        call = call.without_network();
    }
    if !args.write.is_empty() {
        call.write = Some(places(&args.write, here, look)?);
    }
    if !args.read.is_empty() {
        call.read = Some(places(&args.read, here, look)?);
    }
    for (texts, list) in [(&args.deny, &mut call.deny), (&args.protect, &mut call.protect)] {
        for text in texts {
            list.extend(patterns(text, here, look)?);
        }
    }
    network(args, here, look, &mut call)?;
    let variable = |name: &String| EnvName::new(name).ok_or_else(|| Failure::VariableName { name: name.clone() });
    if !args.env.is_empty() {
        call.env = Some(args.env.iter().map(variable).collect::<Result<_, _>>()?);
    }
    call.workdir = match &args.workdir {
        Some(dir) => Some(place(dir, here, look)?),
        None => Some(here.clone()).filter(|here| session.decide(here, Access::Read).is_allowed()),
    };
    let amount =
        |text: &String, source: &dyn std::fmt::Display| Failure::Amount { text: text.clone(), why: source.to_string() };
    if let Some(text) = &args.timeout {
        call.wall = Some(Wall::parse(text).map_err(|why| amount(text, &why))?.0);
    }
    if let Some(text) = &args.memory {
        call.memory = Some(Bytes::parse(text).map_err(|why| amount(text, &why))?.0);
    }
    call.pids = args.pids;
    Ok(call)
}

fn network(args: &ExecArgs, here: &AbsPath, look: &mut dyn Look, call: &mut SubPolicy) -> Result<(), Failure> {
    if args.host.is_empty() && args.host_port.is_empty() && args.socket.is_empty() {
        return Ok(());
    }
    // Whoever names one thing that may be reached means no other.
    let host = |text: &String| HostPattern::parse(text).map_err(|source| Failure::Host { source });
    call.hosts = Some(args.host.iter().map(host).collect::<Result<_, _>>()?);
    call.host_ports = Some(args.host_port.clone());
    call.sockets = Some(args.socket.iter().map(|path| place(path, here, look)).collect::<Result<_, _>>()?);
    Ok(())
}

/// Where a path from the command line leads, links followed: what is granted is a place, not a name.
fn place(path: &OsStr, here: &AbsPath, look: &mut dyn Look) -> Result<AbsPath, Failure> {
    let followed = follow(here, path.as_bytes(), look);
    followed.map(|found| found.path).map_err(|why| Failure::BadPath { reason: why.to_string() })
}

fn places(texts: &[String], here: &AbsPath, look: &mut dyn Look) -> Result<Vec<Pattern>, Failure> {
    texts.iter().map(|text| place(OsStr::new(text), here, look).map(Pattern::path)).collect()
}

/// What is taken away is taken away under its name, and where that leads.
fn patterns(text: &str, here: &AbsPath, look: &mut dyn Look) -> Result<Vec<Pattern>, Failure> {
    let bad = |why: &dyn std::fmt::Display| Failure::BadPath { reason: format!("{text}: {why}") };
    let named = Pattern::parse_from(here, text).map_err(|why| bad(&why))?;
    let Some(base) = named.base().cloned() else { return Ok(vec![named]) };
    let real = follow(&AbsPath::root(), base.as_bytes(), look).map_err(|why| bad(&why))?.path;
    let mut both = vec![named];
    if real != base {
        let rest = both[0].rest.clone();
        both.push(Pattern { rest, ..Pattern::path(real) });
    }
    Ok(both)
}
