//! T1: the library's environment in containers.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::time::Duration;

use ringfence_fs::{Environment, Exec, ExecError, FileError, Outcome};
use ringfence_plan::{Engine, Rung};
use ringfence_session::call::{Side, Within, WithinContainer};
use ringfence_session::container::{ContainerEnvironment, EngineHere};
use ringfence_session::look::{Live, facts_here};
use ringfence_session::store::Session;
use ringfence_surface::policy::PolicyFile;
use ringfence_surface::text::PolicyText;
use ringfence_surface::{AbsPath, Inputs, Layer, Level, Request, SubPolicy, Trust, Via, resolve};
use ringfence_testkit::Starter;

use crate::ground::{Ground, with};

fn abs(path: &Path) -> AbsPath {
    AbsPath::lexical(path.as_os_str().as_bytes()).unwrap()
}

/// What calls are made within, in a session that this process holds.
fn within(ground: &Ground) -> (Within, Session) {
    let state = abs(&ground.path("home/.local/state/ringfence"));
    let session = Session::create(&state).unwrap();
    let mut facts = facts_here(&ground.path("project")).unwrap();
    facts.environment = BTreeMap::from([(b"HOME".to_vec(), ground.path("home").as_os_str().as_bytes().to_vec())]);
    facts.session = Some(session.dir().clone());
    let path = facts.cwd.join("ringfence.toml");
    let policy = "version = 1\n[files]\ndeny = [\"**/.env\"]\nprotect = [\"infra\"]\n";
    let text = PolicyText::new(path.as_bytes(), policy.into()).unwrap();
    let file = PolicyFile::parse(&text).unwrap();
    let request = Request {
        persona: None,
        task: None,
        agent: None,
        references: Vec::new(),
        env: Vec::new(),
        writes: Vec::new(),
        worktree: None,
    };
    let level = Level::Project(Trust::Trusted);
    let inputs = Inputs { layers: vec![Layer { level, via: Via::Itself, file, text, path }], request };
    let surface = resolve(&inputs, &facts, &mut Live::new()).unwrap().surface;
    let (rung, session_rung) = (Rung::Native, Rung::Native);
    let within = Within { surface, facts, state, side: Side::Outside, rung, session_rung, user: None, container: None };
    (within, session)
}

fn files_and_commands(engine: Engine, ground: &Ground) {
    ground.write("project/src/a", "a\n");
    ground.write("project/.env", "SECRET\n");
    ground.write("project/infra/main", "old\n");
    ground.hand_over();
    let (within, _session) = within(ground);
    let here = EngineHere::find_with(engine, ground.found_by()).unwrap();
    let container = WithinContainer { here, choice: None, program: Some(abs(ground.binary())) };
    let policy = SubPolicy::for_tools(&within.surface);
    let tools = ContainerEnvironment::new(within, container, policy).unwrap();
    let tools: &dyn Environment = &tools;
    assert_eq!(tools.working_dir(), ground.path("project").canonicalize().unwrap());
    assert_eq!(tools.read(Path::new("src/a"), 99).unwrap(), b"a\n");
    assert!(matches!(tools.read(Path::new(".env"), 99), Err(FileError::PathNotAllowed { .. })));
    assert!(matches!(tools.write(Path::new("infra/main"), b"EVIL"), Err(FileError::PathNotAllowed { .. })));
    let long = Duration::from_secs(60);
    let script = "cat src/a; cat .env; echo x > infra/main; echo made > made; grep -c : /proc/net/dev; exit 7";
    let done = tools.exec(&Exec::shell(script, long)).unwrap();
    let said = done.stderr.tail.escape_ascii().to_string();
    assert_eq!((done.outcome, done.stdout.tail.as_slice()), (Outcome::Exited(7), b"a\n1\n".as_slice()), "{said}");
    assert_eq!(tools.read(Path::new("made"), 99).unwrap(), b"made\n");
    assert_eq!(std::fs::read(ground.path("project/infra/main")).unwrap(), b"old\n");
    let found = tools.glob(Path::new("**/*"), 99).unwrap();
    assert!(found.entries.iter().any(|entry| entry.path.ends_with("a")));
    tools.remove(Path::new("made")).unwrap();
    assert!(!ground.path("project/made").exists());
    let fed = tools.exec(&Exec::new("cat", long).stdin(b"fed".to_vec())).unwrap();
    assert_eq!(fed.stdout.tail, b"fed");
    let late = tools.exec(&Exec::shell("sleep 60", Duration::from_secs(1))).unwrap();
    assert_eq!(late.outcome, Outcome::TimedOut);
    assert!(matches!(tools.exec(&Exec::new("no-such-program", long)), Err(ExecError::Start { .. })));
}

/// T1: an environment of containers, made by Docker.
#[test]
fn t1_an_environment_of_dockers_containers() {
    with("docker", Starter::Root, |ground| files_and_commands(Engine::Docker, &ground));
}

/// T1: the same, made by Podman.
#[test]
fn t1_an_environment_of_podmans_containers() {
    with("podman", Starter::Root, |ground| files_and_commands(Engine::Podman, &ground));
}
