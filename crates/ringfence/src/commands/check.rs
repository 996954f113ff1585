//! `ringfence check`: finds every mistake in policy files, before anything depends on them.

use std::path::Path;
use std::process::ExitCode;

use ringfence_surface::policy::PolicyFile;
use ringfence_surface::text::{Diagnostic, Severity};
use serde::Serialize;

use crate::cli::{CheckArgs, PolicyArgs};
use crate::error::Failure;
use crate::host::{Recorder, facts};
use crate::load;
use crate::out::{self, say};
use crate::wire::{Bytes, SCHEMA, WireDiagnostic, WireOmission};

#[derive(Serialize)]
struct Report {
    schema: u32,
    ok: bool,
    files: Vec<Bytes>,
    diagnostics: Vec<WireDiagnostic>,
    omissions: Vec<WireOmission>,
}

pub(crate) fn run(args: &CheckArgs) -> Result<ExitCode, Failure> {
    let mut report =
        Report { schema: SCHEMA, ok: true, files: Vec::new(), diagnostics: Vec::new(), omissions: Vec::new() };
    if args.files.is_empty() {
        check_here(args, &mut report)?;
    }
    for file in &args.files {
        check_file(args, file, &mut report)?;
    }
    if args.json {
        out::print_json(&report)?;
    } else if report.ok {
        say(&match report.files.len() {
            0 => "no policy file holds here; the defaults do".to_owned(),
            1 => "1 policy file can be used".to_owned(),
            count => format!("{count} policy files can be used"),
        });
    }
    Ok(if report.ok { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// The files that hold here, resolved together: contradictions and what takes no part show only then.
fn check_here(args: &CheckArgs, report: &mut Report) -> Result<(), Failure> {
    let plain =
        PolicyArgs { policy: None, persona: None, task: None, references: Vec::new(), env: Vec::new(), agent: None };
    match load::here(&plain) {
        Ok(here) => {
            report.files = here.inputs.layers.iter().map(|layer| Bytes::new(layer.path.as_bytes())).collect();
            report.omissions =
                here.resolved.omissions.iter().filter(|o| o.source.is_written()).map(WireOmission::new).collect();
            note(args, report, &here.resolved.diagnostics);
            if !args.json {
                for omission in here.resolved.omissions.iter().filter(|o| o.source.is_written()) {
                    say(&format!("warning: {} ({}) takes no part: {}", omission.entry, omission.source, omission.why));
                }
            }
            Ok(())
        }
        Err(Failure::Policy { said }) => {
            note(args, report, &said);
            Ok(())
        }
        Err(other) => Err(other),
    }
}

fn check_file(args: &CheckArgs, file: &Path, report: &mut Report) -> Result<(), Failure> {
    let facts = facts()?;
    let path = load::absolute(file, &facts, &mut Recorder::new())?;
    report.files.push(Bytes::new(path.as_bytes()));
    match load::read_text(&path) {
        Ok(text) => {
            if let Err(said) = PolicyFile::parse(&text) {
                note(args, report, &said);
                return Ok(());
            }
        }
        Err(Failure::Policy { said }) => {
            note(args, report, &said);
            return Ok(());
        }
        Err(other) => return Err(other),
    }
    // The file by itself is well written; now with what it extends, as a project would use it.
    match load::project(&path, &facts, &mut Recorder::new()) {
        Err(Failure::Policy { said }) => note(args, report, &said),
        Err(other) => return Err(other),
        Ok(_) => {}
    }
    Ok(())
}

fn note(args: &CheckArgs, report: &mut Report, said: &[Diagnostic]) {
    report.ok &= said.iter().all(|diagnostic| diagnostic.severity != Severity::Error);
    for diagnostic in said {
        if !args.json {
            say(&format!("{diagnostic}\n"));
        }
        report.diagnostics.push(WireDiagnostic::new(diagnostic));
    }
}
