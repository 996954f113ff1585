//! `ringfence grant` and `ringfence revoke`: what is given to a running session, and taken away again.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::process::ExitCode;

use ringfence_session::desk::Verb;
use ringfence_session::give;
use ringfence_session::given;
use ringfence_session::record::Record;
use ringfence_session::store::{Grants, Live};
use ringfence_session::text::Bytes;
use ringfence_surface::{AbsPath, Access};

use super::{ask, live};
use crate::cli::{GrantArgs, PolicyArgs, RevokeArgs};
use crate::error::Failure;
use crate::host::{Recorder, os_path};
use crate::load::Loader;
use crate::out::{print_json, say};
use crate::wire::SCHEMA;

pub(crate) fn grant(args: &GrantArgs, managed: &Path) -> Result<ExitCode, Failure> {
    let (_, live) = live(&args.session)?;
    let Some(wanted) = &args.what.read else {
        return Err(no_writes(&live));
    };
    let granted = give(&live, &Want { read: wanted.as_bytes(), for_ms: args.for_ms }, managed)?;
    granted.hidden.iter().for_each(|hidden| say(&format!("ringfence: hidden: {hidden}")));
    let Granted { path, masked, .. } = granted;
    if args.json {
        let path = Bytes::new(path.as_bytes());
        let answer = serde_json::json!({ "schema": SCHEMA, "id": live.id, "read": path, "denied_in_it": masked });
        print_json(&answer)?;
    } else {
        let masked = if masked == 0 { String::new() } else { format!("; {masked} things in it stay denied") };
        say(&format!("ringfence: session {} can read {path}{masked}", live.id));
    }
    Ok(ExitCode::SUCCESS)
}

/// What somebody wants a session to be given.
#[derive(Debug)]
pub(crate) struct Want<'w> {
    /// A place to read.
    pub(crate) read: &'w [u8],
    /// For how long.
    pub(crate) for_ms: Option<u64>,
}

/// What was given.
#[derive(Debug)]
pub(crate) struct Granted {
    /// With links followed.
    pub(crate) path: AbsPath,
    /// How many things in it stay denied.
    pub(crate) masked: usize,
    /// What is hidden although no rule denies it.
    pub(crate) hidden: Vec<String>,
}

/// Gives something to a running session, whoever asks.
pub(crate) fn give(live: &Live, want: &Want<'_>, managed: &Path) -> Result<Granted, Failure> {
    if live.about.as_ref().is_ok_and(|about| about.grants == Grants::None) {
        let why = "the view of this session cannot be changed".to_owned();
        let hint = "end it, and name the place in the policy or with `--ref`".to_owned();
        return Err(Failure::Refused { why, hint: Some(hint) });
    }
    let mut loader = Loader::new(managed)?;
    let path = loader.absolute(Path::new(OsStr::from_bytes(want.read)))?;
    let facts = loader.facts().clone();
    let record = Record::read(&given::dir(&live.dir).join(given::RECORD));
    let surface = record.map_err(|source| Failure::Record { source })?.surface;
    let is_given = given::grants(&given::dir(&live.dir)).is_ok_and(|paths| paths.contains(&path));
    let asked = if is_given {
        give::again(&path, want.for_ms)
    } else {
        give::reading(&surface, facts, &path, want.for_ms, &mut Recorder::new(Vec::new()))
            .map_err(|source| Failure::Give { source })?
    };
    within_ceiling(managed, surface.root(), &path)?;
    let hidden = asked.hidden.iter().map(|hidden| format!("{}: {}", hidden.path, hidden.why.words())).collect();
    let masked = asked.masked;
    ask(live, asked.verb)?;
    Ok(Granted { path, masked, hidden })
}

/// Landlock's rules cannot be added to, and they say where writes end.
fn no_writes(live: &Live) -> Failure {
    Failure::Refused {
        why: "no place can be made writable while a session runs: Landlock admits writes only where the start did"
            .into(),
        hint: Some(format!("end session {} and name the place in `[files] write`, or give it to read", live.id)),
    }
}

/// The administrator's file and the user's own, as they are now, must let it be named.
fn within_ceiling(managed: &Path, project: &AbsPath, path: &AbsPath) -> Result<(), Failure> {
    let mut asked = PolicyArgs::only(None);
    asked.references.push(os_path(path).into());
    let resolved = Loader::new(managed)?.standing_in(project.clone()).resolve_own(&asked)?;
    let verdict = resolved.surface.decide(path, Access::Read);
    if verdict.is_allowed() {
        return Ok(());
    }
    let omitted = resolved.omissions.iter().map(|one| one.why.to_string()).next();
    let why = omitted.unwrap_or_else(|| verdict.because.to_string());
    Err(Failure::Refused { why: format!("{path} is not given: {why}"), hint: None })
}

pub(crate) fn revoke(args: &RevokeArgs, managed: &Path) -> Result<ExitCode, Failure> {
    let (_, live) = live(&args.session)?;
    let path = Loader::new(managed)?.absolute(Path::new(&args.path))?;
    ask(&live, Verb::Revoke { path: Bytes::new(path.as_bytes()) })?;
    if args.json {
        let path = Bytes::new(path.as_bytes());
        print_json(&serde_json::json!({ "schema": SCHEMA, "id": live.id, "revoked": path }))?;
    } else {
        say(&format!("ringfence: session {} can open {path} no longer; what it has open stays open", live.id));
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// K13: no grant passes the administrator's file, as it is now.
    #[test]
    fn k13_a_grant_stays_below_the_ceiling() {
        let place = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let managed = place.path().join("managed.toml");
        let abs = |text: &str| AbsPath::lexical(text.as_bytes()).unwrap();
        let project = place.path().join("project");
        std::fs::create_dir(&project).unwrap();
        let project = project.to_str().unwrap();
        let given = |policy: &str, path: &str| {
            let policy = policy.replace("PROJECT", &format!("{project:?}"));
            std::fs::write(&managed, format!("version = 1\n{policy}")).unwrap();
            within_ceiling(&managed, &abs(project), &abs(path)).map_err(|failure| match failure {
                Failure::Refused { why, .. } => why,
                other => format!("{other:?}"),
            })
        };
        assert_eq!(given("", "/srv"), Ok(()));
        assert_eq!(given("[files]\nwrite = [PROJECT]\nread = [\"/srv\"]\n", "/srv"), Ok(()));
        let refused = given("[files]\nwrite = [PROJECT]\nread = [\"/usr\"]\n", "/srv").unwrap_err();
        assert!(refused.contains("managed policy"), "{refused}");
        let refused = given("[files]\ndeny = [\"/srv\"]\n", "/srv").unwrap_err();
        assert!(refused.contains("/srv is not given"), "{refused}");
        // One that cannot be read is no missing one.
        assert!(given("nonsense", "/srv").is_err());
    }
}
