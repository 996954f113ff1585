//! `ringfence trust`: this project's policy, as it is now, may widen the fence.

use std::process::ExitCode;

use crate::cli::TrustArgs;
use crate::error::Failure;
use crate::host::{Recorder, facts};
use crate::load;
use crate::out::say;
use crate::trust::{self, Known};

pub(crate) fn run(args: &TrustArgs) -> Result<ExitCode, Failure> {
    let facts = facts()?;
    let mut look = Recorder::new();
    let named = match &args.file {
        Some(file) => load::absolute(file, &facts, &mut look)?,
        None => load::find_project_file(&facts.cwd, &mut look)
            .ok_or_else(|| Failure::NoProjectFile { dir: facts.cwd.clone() })?,
    };
    if args.revoke {
        let path = load::absolute(crate::host::os_path(&named), &facts, &mut look)?;
        let was = trust::forget(&facts, &path)?;
        say(&if was { format!("{path} is trusted no longer") } else { format!("{path} was not trusted") });
        return Ok(ExitCode::SUCCESS);
    }
    let (layers, known, hash) = load::project(&named, &facts, &mut look)?;
    // What a file extends comes before it.
    let path = layers.last().map_or(named, |layer| layer.path.clone());
    match known {
        Known::AsItIs => say(&format!("{path} is trusted already")),
        Known::Changed if !args.force => return Err(Failure::TrustedBefore { path }),
        Known::Never | Known::Changed => {
            trust::store(&facts, &path, &hash)?;
            say(&format!("{path} is trusted as it is now"));
            for base in layers.iter().rev().skip(1) {
                say(&format!("  with {}, which it extends", base.path));
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}
