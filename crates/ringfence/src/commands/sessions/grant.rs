//! `ringfence grant` and `ringfence revoke`: what is given to a running session, and taken away again.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::process::ExitCode;

use ringfence_session::desk::{Answer, Gives, Verb};
use ringfence_session::give::{self, GiveError};
use ringfence_session::given::{self, Kept};
use ringfence_session::record::Record;
use ringfence_session::store::{Grants, Live};
use ringfence_session::text::Bytes;
use ringfence_surface::policy::Mode;
use ringfence_surface::{AbsPath, Access, Followed, Surface, Way, Word};

use super::{ask, live};
use crate::cli::{GrantArgs, PolicyArgs, RevokeArgs, Wanted};
use crate::error::Failure;
use crate::host::{Recorder, os_path};
use crate::load::Loader;
use crate::out::{print_json, say};
use crate::remembered::Remembered;
use crate::wire::SCHEMA;

pub(crate) fn grant(args: &GrantArgs, managed: &Path) -> Result<ExitCode, Failure> {
    let (_, live) = live(&args.session)?;
    let Wanted { read, write, host } = &args.what;
    let what = match (read, write, host) {
        (Some(path), ..) => What::Place(path.as_bytes(), Gives::Read),
        (_, Some(path), _) => What::Place(path.as_bytes(), Gives::Write),
        (_, _, Some(host)) => What::Host(host),
        // The command line makes sure that something is asked for.
        (None, None, None) => return Ok(ExitCode::from(2)),
    };
    let granted = give(&live, &Want { what, for_ms: args.for_ms }, managed)?;
    granted.hidden.iter().for_each(|hidden| say(&format!("ringfence: hidden: {hidden}")));
    let Granted { what: given, masked, .. } = granted;
    let word = match what {
        What::Place(_, access) => access.word(),
        What::Host(_) => "host",
    };
    if args.json {
        let answer = serde_json::json!({ "schema": SCHEMA, "id": live.id, word: given, "denied_in_it": masked });
        print_json(&answer)?;
    } else {
        let masked = if masked == 0 { String::new() } else { format!("; {masked} things in it stay denied") };
        let word = if word == "host" { "reach" } else { word };
        say(&format!("ringfence: session {} can {word} {}{masked}", live.id, given.shown()));
    }
    Ok(ExitCode::SUCCESS)
}

/// What somebody wants a session to be given.
#[derive(Debug)]
pub(crate) struct Want<'w> {
    /// What.
    pub(crate) what: What<'w>,
    /// For how long.
    pub(crate) for_ms: Option<u64>,
}

/// What can be given.
#[derive(Debug, Clone, Copy)]
pub(crate) enum What<'w> {
    /// A place.
    Place(&'w [u8], Gives),
    /// A host, as a policy spells it, or a port of the host's own.
    Host(&'w str),
}

/// What was given.
#[derive(Debug)]
pub(crate) struct Granted {
    /// The place with links followed, or the host in its one spelling.
    pub(crate) what: Bytes,
    /// How many things in it stay denied.
    pub(crate) masked: usize,
    /// What is hidden although no rule denies it.
    pub(crate) hidden: Vec<String>,
}

/// Gives something to a running session, whoever asks.
pub(crate) fn give(live: &Live, want: &Want<'_>, managed: &Path) -> Result<Granted, Failure> {
    match want.what {
        What::Place(path, access) => give_place(live, path, access, want.for_ms, managed),
        What::Host(host) => give_host(live, host, want.for_ms, managed),
    }
}

fn give_place(
    live: &Live,
    wanted: &[u8],
    access: Gives,
    for_ms: Option<u64>,
    managed: &Path,
) -> Result<Granted, Failure> {
    if live.about.as_ref().is_ok_and(|about| about.grants == Grants::None) {
        let why = "the view of this session cannot be changed".to_owned();
        let hint = "end it, and name the place in the policy or with `--ref`".to_owned();
        return Err(Failure::Refused { why, hint: Some(hint) });
    }
    let mut loader = Loader::new(managed)?;
    let Followed { path, links, .. } = loader.followed(Path::new(OsStr::from_bytes(wanted)))?;
    // The session can make such a link, or let it lead elsewhere between the look and the grant. What is given is what the user
    // read, so the user names it.
    let current = surface(live)?;
    if let Some(link) = links.iter().find(|link| current.decide(link, Access::Write).is_allowed()) {
        let why = format!("{link} is a symbolic link that the session can make and change; it leads to {path}");
        let hint = format!("if that is what you mean: `--{} {}`", access.word(), Word(path.as_bytes()));
        return Err(Failure::Refused { why, hint: Some(hint) });
    }
    let given = |masked, hidden| Granted { what: Bytes::new(path.as_bytes()), masked, hidden };
    if is_kept(live, &path, access) {
        within_ceiling(managed, surface(live)?.root(), &path, access)?;
        match ask(live, give::again(&path, access, for_ms).verb) {
            // Its time was over before this was heard: it is given anew.
            Err(Failure::Refused { .. }) if !is_kept(live, &path, access) => {}
            answer => return answer.map(|_| given(0, Vec::new())),
        }
    }
    // Read after the list, and so without what has ended since: that would seem to be there already.
    let surface = surface(live)?;
    let facts = loader.facts().clone();
    let asked = give::place(&surface, facts, (&path, access), for_ms, &mut Recorder::new(Vec::new()))
        .map_err(|source| Failure::Give { source })?;
    within_ceiling(managed, surface.root(), &path, access)?;
    let hidden = asked.hidden.iter().map(|hidden| format!("{}: {}", hidden.path, hidden.why.words())).collect();
    let masked = asked.masked;
    if access == Gives::Write
        && let Some(state) = loader.facts().own_directories().state
    {
        // What the session makes there may be a link that a later policy would follow.
        Remembered::in_state(&state)
            .note_written([&path])
            .map_err(|source| Failure::Write { path: os_path(&state).into(), source })?;
    }
    ask(live, asked.verb)?;
    Ok(given(masked, hidden))
}

/// Does the session say that this was given?
fn is_kept(live: &Live, path: &AbsPath, access: Gives) -> bool {
    kept(live).iter().any(|kept| match (kept, access) {
        (Kept::Read(given), Gives::Read) | (Kept::Write(given), Gives::Write) => given.path().as_ref() == Some(path),
        _ => false,
    })
}

fn give_host(live: &Live, host: &str, for_ms: Option<u64>, managed: &Path) -> Result<Granted, Failure> {
    let way = way(host)?;
    let is_given = kept(live).contains(&Kept::Reach(way.to_string()));
    way.below_ceiling(&Loader::new(managed)?.own()?)
        .map_err(|source| Failure::Give { source: GiveError::NotGiven(source) })?;
    let verb = if is_given {
        Verb::GrantHost { host: way.to_string(), for_ms }
    } else {
        give::reaching(&surface(live)?, &way, for_ms).map_err(|source| Failure::Give { source })?.verb
    };
    ask(live, verb)?;
    Ok(Granted { what: Bytes::Text(way.to_string()), masked: 0, hidden: Vec::new() })
}

fn way(host: &str) -> Result<Way, Failure> {
    let hint = || Some("HOST:PORT, *.HOST:PORT, an address, or localhost:PORT".to_owned());
    Way::parse(host).map_err(|cause| Failure::Refused { why: cause.to_string(), hint: hint() })
}

/// What a session may touch, with what was given to it since.
pub(crate) fn surface_of(session: &str) -> Result<Surface, Failure> {
    surface(&live(session)?.1)
}

/// How much a session's tool calls are held back now; nothing where no agent's client was started in it.
pub(crate) fn mode_of(session: &str) -> Result<Option<Mode>, Failure> {
    let record = record(&live(session)?.1)?;
    Ok(record.agent.map(|_| record.mode))
}

fn surface(live: &Live) -> Result<Surface, Failure> {
    Ok(record(live)?.surface)
}

fn record(live: &Live) -> Result<Record, Failure> {
    Record::read(&given::dir(&live.dir).join(given::RECORD)).map_err(|source| Failure::Record { source })
}

fn kept(live: &Live) -> Vec<Kept> {
    given::grants(&given::dir(&live.dir)).unwrap_or_default()
}

/// The administrator's file and the user's own, as they are now, must let it be named.
fn within_ceiling(managed: &Path, project: &AbsPath, path: &AbsPath, access: Gives) -> Result<(), Failure> {
    let mut asked = PolicyArgs::only(None);
    let list = match access {
        Gives::Read => &mut asked.references,
        Gives::Write => &mut asked.writes,
    };
    list.push(os_path(path).into());
    let resolved = Loader::new(managed)?.standing_in(project.clone()).resolve_own(&asked)?;
    let access = match access {
        Gives::Read => Access::Read,
        Gives::Write => Access::Write,
    };
    let verdict = resolved.surface.decide(path, access);
    if verdict.is_allowed() {
        return Ok(());
    }
    let omitted = resolved.omissions.iter().map(|one| one.why.to_string()).next();
    let why = omitted.unwrap_or_else(|| verdict.because.to_string());
    Err(Failure::Refused { why: format!("{path} is not given: {why}"), hint: None })
}

pub(crate) fn revoke(args: &RevokeArgs, managed: &Path) -> Result<ExitCode, Failure> {
    let (_, live) = live(&args.session)?;
    let (verb, what) = match (&args.host, &args.path) {
        (Some(host), _) => {
            let host = way(host)?.to_string();
            (Verb::RevokeHost { host: host.clone() }, Bytes::Text(host))
        }
        (None, path) => {
            let path = Loader::new(managed)?.absolute(Path::new(path.as_deref().unwrap_or_default()))?;
            let path = Bytes::new(path.as_bytes());
            (Verb::Revoke { path: path.clone() }, path)
        }
    };
    let answer = ask(&live, verb)?;
    let closed = if let Answer::Closed { connections } = answer { Some(connections) } else { None };
    if args.json {
        let mut answer = serde_json::json!({ "schema": SCHEMA, "id": live.id, "revoked": what });
        if let Some(closed) = closed {
            answer["closed"] = closed.into();
        }
        print_json(&answer)?;
        return Ok(ExitCode::SUCCESS);
    }
    let (id, what) = (&live.id, what.shown());
    say(&match closed {
        Some(closed) => format!("ringfence: session {id} can reach {what} no longer; connections closed: {closed}"),
        None => format!("ringfence: session {id} can open {what} no longer; what it has open stays open"),
    });
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Beside what is built: neither in a directory of which every session has its own, nor in the tree, which others look at.
    fn place() -> tempfile::TempDir {
        let test = std::env::current_exe().unwrap();
        tempfile::tempdir_in(test.parent().unwrap()).unwrap()
    }

    /// K13: no grant passes the administrator's file, as it is now.
    #[test]
    fn k13_a_grant_stays_below_the_ceiling() {
        let place = place();
        let managed = place.path().join("managed.toml");
        let abs = |text: &str| AbsPath::lexical(text.as_bytes()).unwrap();
        let project = place.path().join("project");
        std::fs::create_dir(&project).unwrap();
        let project = project.to_str().unwrap();
        let given = |policy: &str, path: &str| {
            let policy = policy.replace("PROJECT", &format!("{project:?}"));
            std::fs::write(&managed, format!("version = 1\n{policy}")).unwrap();
            within_ceiling(&managed, &abs(project), &abs(path), Gives::Read).map_err(|failure| match failure {
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

    #[test]
    fn k13_a_host_grant_stays_below_the_ceiling() {
        let place = place();
        let managed = place.path().join("managed.toml");
        let given = |policy: &str, host: &str| {
            std::fs::write(&managed, format!("version = 1\n[network]\n{policy}")).unwrap();
            let layers = Loader::new(&managed).unwrap().own().unwrap();
            Way::parse(host).unwrap().below_ceiling(&layers).map_err(|why| why.to_string())
        };
        let allow = "allow = [\"*.example.com\", \"github\"]\nhost_ports = [1]\n";
        for (policy, host, is_given) in [
            ("", "evil.example.net", true),
            (allow, "a.example.com:443", true),
            (allow, "*.b.example.com", true),
            (allow, "github.com:443", true),
            (allow, "evil.example.net", false),
            (allow, "a.example.com:22", false),
            (allow, "example.com", false),
            (allow, "localhost:1", true),
            (allow, "localhost:2", false),
            ("allow = []\n", "a.example.com", false),
            ("allow = []\n", "localhost:2", true),
        ] {
            let got = given(policy, host);
            assert_eq!(got.is_ok(), is_given, "{policy} {host}: {got:?}");
            assert!(got.is_ok() || got.unwrap_err().contains("managed policy"));
        }
    }
}
