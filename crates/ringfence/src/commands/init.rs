//! `ringfence init`: a starter policy, commented, fit for what the directory holds.

use std::io;
use std::path::Path;
use std::process::ExitCode;

use ringfence_surface::curated::packs::{PACKS, Pack};

use crate::cli::InitArgs;
use crate::error::Failure;
use crate::out::{self, say};
use crate::write;

pub(crate) fn run(args: &InitArgs) -> Result<ExitCode, Failure> {
    let holds = |pack: &&Pack| pack.markers.iter().any(|marker| Path::new(marker).symlink_metadata().is_ok());
    let packs: Vec<&Pack> = PACKS.iter().filter(holds).collect();
    let text = starter(&packs);
    if args.print {
        out::print(&text)?;
        return Ok(ExitCode::SUCCESS);
    }
    let path = Path::new("ringfence.toml");
    let written = if args.force { write::replace(path, text.as_bytes()) } else { write::create(path, text.as_bytes()) };
    written.map_err(|source| match source.kind() {
        io::ErrorKind::AlreadyExists => Failure::Exists { path: path.into() },
        _ => Failure::Write { path: path.into(), source },
    })?;
    let names: Vec<&str> = packs.iter().map(|pack| pack.name).collect();
    let found = if names.is_empty() { "no toolchain".to_owned() } else { names.join(", ") };
    say(&format!("wrote ringfence.toml ({found} found)"));
    say("next: read it, change it, then `ringfence trust`; until then it can only narrow the fence");
    Ok(ExitCode::SUCCESS)
}

/// The text of a starter policy. Where nothing was found the keys are left to the reader: an empty list would say "none, for
/// good", and end the search for what is added to the directory later.
fn starter(packs: &[&Pack]) -> String {
    let quoted = |names: Vec<&str>| names.iter().map(|name| format!("\"{name}\"")).collect::<Vec<_>>().join(", ");
    let mut groups: Vec<&str> = packs.iter().flat_map(|pack| pack.groups.iter().copied()).collect();
    groups.sort_unstable();
    groups.dedup();
    let (extends, allow) = if packs.is_empty() {
        ("# extends = [\"git\"]".to_owned(), "# allow = [\"github\"]".to_owned())
    } else {
        let names = packs.iter().map(|pack| pack.name).collect();
        (format!("extends = [{}]", quoted(names)), format!("allow = [{}]", quoted(groups)))
    };
    START.replace("{found}", &found(packs)).replace("{extends}", &extends).replace("{allow}", &allow)
}

/// What was found, a comment line for each.
fn found(packs: &[&Pack]) -> String {
    if packs.is_empty() {
        let known: Vec<&str> = PACKS.iter().map(|pack| pack.name).collect();
        return format!("#   none found; without this key they are looked for each time: {}\n", known.join(", "));
    }
    packs.iter().map(|pack| format!("#   {:<7} {}\n", pack.name, pack.reason)).collect()
}

const START: &str = r#"# What an agent may touch in this project. Everything else does not exist for it.
# `ringfence check` finds mistakes, `ringfence explain --read PATH` answers questions,
# `ringfence trust` lets this file widen the fence; until then it can only narrow it.
version = 1

# Toolchains whose files are readable and whose caches are kept private to this project:
{found}{extends}

[files]
# Readable and writable. Paths are relative to this file and cover everything below them.
write = ["."]
# Readable.
read = []
# Neither readable nor writable, wherever it is. `!` makes an exception to the lines above it.
deny = ["**/.env", "**/.env.*", "!**/.env.example", "!**/.env.sample"]
# Readable, never written. Git hooks, CI workflows, editor and agent settings are protected already.
protect = []

[network]
# Groups of hosts, hosts, or hosts with a port. Nothing else can be reached; without this key, what the toolchains need.
{allow}
# Services on this machine's loopback, by port.
# host_ports = [5432]

# [env]
# Variables that are passed on; by default only harmless ones are.
# pass = ["CARGO_TERM_COLOR"]

# [limits]
# memory = "4GiB"
# pids = 512
# wall = "2h"
"#;

#[cfg(test)]
mod tests {
    use super::*;
    use ringfence_surface::policy::PolicyFile;
    use ringfence_surface::text::PolicyText;

    /// Whatever is found, what is written can be used.
    #[test]
    fn every_starter_is_a_policy() {
        for count in 0..=PACKS.len() {
            let packs: Vec<&Pack> = PACKS.iter().take(count).collect();
            let text = PolicyText::new(b"ringfence.toml", starter(&packs).into_bytes()).unwrap();
            let file = PolicyFile::parse(&text).unwrap();
            assert_eq!(file.extends.map(|list| list.len()), (count > 0).then_some(count));
            assert_eq!(file.network.unwrap().allow.is_some(), count > 0);
        }
    }
}
