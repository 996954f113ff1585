//! `ringfence check`: finds every mistake in policy files, before anything depends on them.

use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::process::ExitCode;

use ringfence_surface::Omission;
use ringfence_surface::text::{Diagnostic, Severity};
use serde::Serialize;

use crate::cli::{CheckArgs, PolicyArgs};
use crate::error::Failure;
use crate::load::{Here, Loader};
use crate::out::{self, say};
use crate::tell::{self, Detail};
use crate::wire::{Bytes, SCHEMA, WireDiagnostic, WireOmission};

/// What was found, in all files together.
struct Found {
    files: Vec<Vec<u8>>,
    diagnostics: Vec<Diagnostic>,
    omissions: Vec<Omission>,
}

#[derive(Serialize)]
struct Report {
    schema: u32,
    ok: bool,
    files: Vec<Bytes>,
    diagnostics: Vec<WireDiagnostic>,
    omissions: Vec<WireOmission>,
}

pub(crate) fn run(args: &CheckArgs, managed: &Path) -> Result<ExitCode, Failure> {
    let mut found = Found { files: Vec::new(), diagnostics: Vec::new(), omissions: Vec::new() };
    if args.files.is_empty() {
        found.check_here(managed)?;
    }
    for file in &args.files {
        found.check_file(file, managed)?;
    }
    if args.json {
        out::print_json(&found.report())?;
    } else {
        found.tell();
    }
    Ok(if found.is_ok() { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

impl Found {
    /// The files that hold here, resolved together: contradictions and what takes no part show only then.
    fn check_here(&mut self, managed: &Path) -> Result<(), Failure> {
        match Loader::new(managed)?.resolve(&PolicyArgs::only(None)) {
            Ok(here) => {
                self.files = here.inputs.layers.iter().map(|layer| layer.path.as_bytes().to_vec()).collect();
                self.note(here);
                Ok(())
            }
            Err(failure) => self.refuse(failure),
        }
    }

    /// One file, with what it extends, and then in the project's place as `--policy` puts it.
    fn check_file(&mut self, file: &Path, managed: &Path) -> Result<(), Failure> {
        let mut loader = Loader::new(managed)?;
        self.files.push(match loader.absolute(file) {
            Ok(path) => path.as_bytes().to_vec(),
            Err(_) => file.as_os_str().as_bytes().to_vec(),
        });
        if let Err(failure) = loader.explicit(file) {
            return self.refuse(failure);
        }
        match loader.resolve(&PolicyArgs::only(Some(file))) {
            Ok(here) => self.note(here),
            Err(Failure::Policy { said }) => self.add(said.into_iter().map(about_this_place)),
            Err(failure) => self.refuse(failure)?,
        }
        Ok(())
    }

    fn note(&mut self, here: Here) {
        self.add(here.resolved.diagnostics.into_iter());
        for omission in here.resolved.omissions.into_iter().filter(|omission| omission.source.is_written()) {
            if !self.omissions.contains(&omission) {
                self.omissions.push(omission);
            }
        }
    }

    /// A file that cannot be used is what is asked about; only what is no file's fault ends the command.
    fn refuse(&mut self, failure: Failure) -> Result<(), Failure> {
        self.add(failure.into_said()?.into_iter());
        Ok(())
    }

    /// The user's and the managed file hold for each file, and what is said about them is said once.
    fn add(&mut self, said: impl Iterator<Item = Diagnostic>) {
        for diagnostic in said {
            if !self.diagnostics.contains(&diagnostic) {
                self.diagnostics.push(diagnostic);
            }
        }
    }

    fn is_ok(&self) -> bool {
        self.diagnostics.iter().all(|diagnostic| diagnostic.severity != Severity::Error)
    }

    fn report(&self) -> Report {
        Report {
            schema: SCHEMA,
            ok: self.is_ok(),
            files: self.files.iter().map(|path| Bytes::new(path)).collect(),
            diagnostics: self.diagnostics.iter().map(WireDiagnostic::new).collect(),
            omissions: self.omissions.iter().map(WireOmission::new).collect(),
        }
    }

    fn tell(&self) {
        tell::diagnostics(&self.diagnostics);
        tell::omissions(&self.omissions, Detail::Whole);
        if self.is_ok() {
            say(&match self.files.len() {
                0 => "no policy file holds here; the defaults do".to_owned(),
                1 => "1 policy file can be used".to_owned(),
                count => format!("{count} policy files can be used"),
            });
        }
    }
}

/// What has no place in a file is about the directory one stands in; elsewhere the file may well be used.
fn about_this_place(mut said: Diagnostic) -> Diagnostic {
    if said.place.is_none() && said.severity == Severity::Error {
        said.severity = Severity::Warning;
    }
    said
}
