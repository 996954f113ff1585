//! Runs a command in a native fence of which one wall may be missing, for the tests that show what each wall holds by itself.
//!
//! `one_wall both|landlock|view PROJECT STATE CMD ARG...`: the walls that stand, the project, and where sessions are kept.

use std::collections::BTreeMap;
use std::env;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::process::ExitCode;

use ringfence_plan::{Files, LandlockRule, Lines, MountAccess, MountOp, Plan, Rights, Rung, compile};
use ringfence_session::start::{BrokerChoice, Changes, Last, Occasion, Order, prepare_with};
use ringfence_session::store::Session;
use ringfence_session::walk::os_path;
use ringfence_surface::policy::PolicyFile;
use ringfence_surface::text::PolicyText;
use ringfence_surface::{
    AbsPath, GitFact, HostFacts, Inputs, Layer, Level, Look, PathFact, Request, Role, Surface, Trust, Via, resolve,
};

/// Which walls stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Walls {
    Both,
    Landlock,
    View,
}

fn main() -> ExitCode {
    match run() {
        Ok(code) => ExitCode::from(code),
        Err(error) => say(&error),
    }
}

#[expect(clippy::print_stderr, reason = "a test reads why nothing was started")]
fn say(error: &io::Error) -> ExitCode {
    eprintln!("one_wall: {error:?}");
    ExitCode::from(125)
}

fn run() -> io::Result<u8> {
    let words: Vec<OsString> = env::args_os().skip(1).collect();
    let [walls, project, state, command @ ..] = words.as_slice() else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let walls = match walls.as_bytes() {
        b"both" => Walls::Both,
        b"landlock" => Walls::Landlock,
        b"view" => Walls::View,
        _ => return Err(io::ErrorKind::InvalidInput.into()),
    };
    let (project, state) = (absolute(project)?, absolute(state)?);
    let session = Session::create(&state)?;
    let mut seen = Seen(BTreeMap::new());
    let mut facts = facts(&project, session.dir());
    let surface = surface(&project, &facts, &mut seen)?;
    facts.paths = seen.0;
    let mut plan = compile(&surface, &facts, Rung::Native);
    match walls {
        Walls::Both => {}
        Walls::Landlock => without_view(&mut plan, &project)?,
        Walls::View => without_landlock(&mut plan),
    }
    let order = Order {
        client: None,
        agent: None,
        mode: ringfence_surface::policy::Mode::AcceptEdits,
        surface: &surface,
        facts: &facts,
        plan: &plan,
        rung: Rung::Native,
        root: None,
        session: &session,
        command,
        user: None,
        lines: Lines::Short,
        occasion: Occasion::Session,
        container: None,
        variables: &[],
        // What it would refuse by name is not what these walls are about.
        broker: BrokerChoice::Off,
        changes: Changes::Land,
    };
    // Guards made what the Surface does not give read-only again.
    let mut without_guards = |last: Last<'_>| {
        if let (Walls::Landlock, Last::Mounts(mounts)) = (walls, last) {
            mounts.iter_mut().for_each(writable_again);
        }
    };
    let ready = prepare_with(&order, &mut Seen(BTreeMap::new()), &mut without_guards).map_err(io::Error::other)?;
    Ok(ready.prepared.run(&surface, None).map_err(io::Error::other)?.code)
}

fn writable_again(op: &mut MountOp) {
    if let MountOp::Bind { access, role: Role::Scratch, .. } = op {
        *access = MountAccess::ReadWrite;
    }
}

/// Everything of the host, writable, but for devices and processes, which are the session's own. What is called scratch is not
/// looked at for what to guard.
fn without_view(plan: &mut Plan, project: &AbsPath) -> io::Result<()> {
    let is_own = |path: &AbsPath| path.components().next().is_some_and(|top| matches!(top, b"dev" | b"proc"));
    plan.mounts.retain(|op| matches!(op, MountOp::Private { place, .. } if is_own(place.path())));
    for entry in fs::read_dir("/")? {
        let entry = entry?;
        let path = AbsPath::root().child(entry.file_name().as_bytes());
        let kind = entry.file_type()?;
        if is_own(&path) {
            continue;
        }
        if kind.is_symlink() {
            let target = fs::read_link(entry.path())?.into_os_string().into_vec();
            plan.mounts.push(MountOp::Link { path, target });
        } else if kind.is_dir() {
            plan.mounts.push(MountOp::Bind { path, access: MountAccess::ReadWrite, role: Role::Scratch });
        }
    }
    // The session's own temporary directories are not made, and those of that name are the host's.
    // A project in one of them has lost its own rule to theirs.
    plan.landlock.rules.retain(|rule| !matches!(rule.path.as_bytes(), b"/tmp" | b"/var/tmp"));
    plan.landlock.rules.push(LandlockRule { path: project.clone(), rights: Rights::All });
    plan.mounts.sort_by(|one, other| one.destination().cmp(other.destination()));
    Ok(())
}

fn without_landlock(plan: &mut Plan) {
    plan.landlock.files = Files::Open;
    plan.landlock.rules.clear();
    plan.landlock.scopes.clear();
}

fn absolute(path: &OsString) -> io::Result<AbsPath> {
    AbsPath::lexical(path.as_bytes()).map_err(|_| io::ErrorKind::InvalidInput.into())
}

fn facts(project: &AbsPath, session: &AbsPath) -> HostFacts {
    HostFacts {
        environment: env::vars_os().map(|(name, value)| (name.into_vec(), value.into_vec())).collect(),
        cwd: project.clone(),
        homes: Vec::new(),
        paths: BTreeMap::new(),
        git: BTreeMap::new(),
        git_runs: BTreeMap::new(),
        mounts: Vec::new(),
        kernel: "unknown".into(),
        session: Some(session.clone()),
    }
}

/// What the project's own policy says, trusted.
fn surface(project: &AbsPath, facts: &HostFacts, look: &mut dyn Look) -> io::Result<Surface> {
    let path = project.join("ringfence.toml");
    let text =
        PolicyText::new(path.as_bytes(), fs::read(os_path(&path))?).map_err(|e| io::Error::other(format!("{e:?}")))?;
    let file = PolicyFile::parse(&text).map_err(|e| io::Error::other(format!("{e:?}")))?;
    let request = Request {
        persona: None,
        task: None,
        agent: None,
        references: Vec::new(),
        writes: Vec::new(),
        env: Vec::new(),
        worktree: None,
    };
    let layer = Layer { level: Level::Project(Trust::Trusted), via: Via::Itself, file, text, path };
    let resolved = resolve(&Inputs { layers: vec![layer], request }, facts, look);
    Ok(resolved.map_err(|e| io::Error::other(format!("{e:?}")))?.surface)
}

/// What stands on this host, and what was asked for.
struct Seen(BTreeMap<AbsPath, PathFact>);

impl Look for Seen {
    fn path(&mut self, path: &AbsPath) -> PathFact {
        let fact = match fs::symlink_metadata(os_path(path)) {
            Ok(found) if found.is_dir() => PathFact::Directory,
            Ok(found) if found.is_symlink() => fs::read_link(os_path(path))
                .map_or(PathFact::Missing, |target| PathFact::Link(target.into_os_string().into_vec())),
            Ok(_) => PathFact::File,
            Err(_) => PathFact::Missing,
        };
        self.0.insert(path.clone(), fact.clone());
        fact
    }

    fn git(&mut self, _: &AbsPath) -> Option<GitFact> {
        None
    }

    fn git_runs(&mut self, _: &AbsPath, _: &AbsPath) -> Vec<ringfence_surface::GitRun> {
        Vec::new()
    }
}
