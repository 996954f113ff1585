//! A project, a session that this process holds, and what calls in it are made within.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;

use ringfence_plan::Rung;
use ringfence_session::call::{Side, Within};
use ringfence_session::launch::Ended;
use ringfence_session::look::{Live, facts_here};
use ringfence_session::start::Occasion;
use ringfence_session::store::Session;
use ringfence_surface::policy::PolicyFile;
use ringfence_surface::text::PolicyText;
use ringfence_surface::{AbsPath, HostFacts, Inputs, Layer, Level, Request, SubPolicy, Surface, Trust, Via, resolve};

pub(crate) struct World {
    pub(crate) within: Within,
    pub(crate) project: std::path::PathBuf,
    _session: Session,
    _place: tempfile::TempDir,
}

pub(crate) fn world(policy: &str) -> World {
    // Neither a temporary directory, of which a call has its own, nor one that only root can enter.
    let ground = if rustix::process::geteuid().is_root() { "/srv" } else { env!("CARGO_TARGET_TMPDIR") };
    let place = tempfile::Builder::new().prefix("ringfence-call-").tempdir_in(ground).unwrap();
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let project = place.path().join("project");
    fs::create_dir(&project).unwrap();
    let state = AbsPath::lexical(place.path().join("state/ringfence").as_os_str().as_bytes()).unwrap();
    let session = Session::create(&state).unwrap();
    let mut facts = facts_here(&project).unwrap();
    facts.environment = BTreeMap::from([(b"HOME".to_vec(), place.path().join("home").as_os_str().as_bytes().to_vec())]);
    facts.session = Some(session.dir().clone());
    let surface = surface(policy, &facts);
    let (rung, session_rung) = (Rung::Native, Rung::Native);
    let within = Within { surface, facts, state, side: Side::Outside, rung, session_rung, user: None, container: None };
    World { within, project, _session: session, _place: place }
}

fn surface(policy: &str, facts: &HostFacts) -> Surface {
    let path = facts.cwd.join("ringfence.toml");
    let text = PolicyText::new(path.as_bytes(), format!("version = 1\n{policy}").into_bytes()).unwrap();
    let file = PolicyFile::parse(&text).unwrap();
    let level = Level::Project(Trust::Trusted);
    let request = Request {
        persona: None,
        task: None,
        agent: None,
        references: Vec::new(),
        writes: Vec::new(),
        env: Vec::new(),
        worktree: None,
    };
    let inputs = Inputs { layers: vec![Layer { level, via: Via::Itself, file, text, path }], request };
    resolve(&inputs, facts, &mut Live::new()).unwrap().surface
}

impl World {
    pub(crate) fn call(&self, policy: &SubPolicy, script: &str) -> (Ended, String) {
        let command: Vec<OsString> = ["/bin/sh", "-c", script].map(OsString::from).to_vec();
        let laid = self.within.lay_out(policy, &command, Occasion::EmbeddedCall, &mut Live::new()).unwrap();
        let (read, write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).unwrap();
        let input = OwnedFd::from(File::open("/dev/null").unwrap());
        let call = laid.start([input, write.try_clone().unwrap(), write]).unwrap();
        let mut said = Vec::new();
        File::from(read).read_to_end(&mut said).unwrap();
        (call.wait().unwrap(), String::from_utf8(said).unwrap())
    }

    pub(crate) fn tools(&self) -> SubPolicy {
        SubPolicy::for_tools(&self.within.surface)
    }
}
