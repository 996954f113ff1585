//! The view as a container engine makes it, laid out: what the engine is told, and where the first process calls back.

use std::collections::BTreeMap;
use std::ffi::{CString, OsString};
use std::fs;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};

use ringfence_plan::{
    Bound, ContainerError, ContainerOrder, ContainerPlan, DroppedMount, First, LandlockRule, Material, MountAccess,
    MountOp, OperatorMount, PodError, PrivateKind, Programs, Rights, WhyDropped, compose, container, guarded_operator,
};
use ringfence_surface::policy::{MountMode, SurfaceMode};
use ringfence_surface::{AbsPath, Access, Because, ContainerChoice, HostFacts, Look, PathFact, Role, Surface};
use ringfence_sys::process::{self, Program, Words};
use ringfence_sys::pty;
use rustix::event::{PollFd, PollFlags};
use rustix::fs::{AtFlags, MemfdFlags, Mode, OFlags};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use rustix::process::Signal;

use super::arrive;
use super::check::{Check, Expected};
use super::engine::EngineHere;
use super::image::{HOST, host_image};
use super::loader;
use super::sweep::label;
use crate::beneath::Owner;
use crate::bwrap::masks;
use crate::given;
use crate::launch::Identity;
use crate::place::{Id, open_place, open_root, relative};
use crate::store::Session;
use crate::walk::{self, WalkError, Walked, os_path};

/// An engine, and what a policy says of containers.
#[derive(Debug, Clone, Copy)]
pub struct InContainer<'a> {
    /// The engine.
    pub here: &'a EngineHere,
    /// The image and the operator's mounts; the host's own programs and none where nobody says.
    pub choice: Option<&'a ContainerChoice>,
    /// ringfence itself, where the caller is another program.
    pub program: Option<&'a AbsPath>,
}

/// Why no container can be laid out.
#[derive(Debug, thiserror::Error)]
pub enum NoContainer {
    /// Nobody said which engine makes it.
    #[error("no container engine was named")]
    NoEngine,
    /// It cannot be described.
    #[error(transparent)]
    Described(#[from] ContainerError),
    /// The image of the host's programs cannot be made.
    #[error("the image of the host's own programs cannot be made: {said}")]
    Image {
        /// What the engine said.
        said: String,
    },
    /// What must be mounted is not there, or somebody moves it about.
    #[error("{path} cannot be mounted")]
    Source {
        /// Which.
        path: AbsPath,
        /// Why.
        source: io::Error,
    },
    /// A pod cannot be described.
    #[error(transparent)]
    Pod(#[from] PodError),
    /// A file of the session's could not be made.
    #[error("cannot make what the container starts with")]
    Own(#[from] io::Error),
    /// What the operator adds could not be searched.
    #[error("cannot find what must be guarded in a mount of the operator's")]
    Walk(#[from] WalkError),
    /// A client asks ringfence before each tool, and an image without the host's libraries cannot run this one.
    #[error("a client's hooks need a ringfence that is one file, and this one needs the host's libraries")]
    NeedsLibraries,
    /// Without a Surface the host's own programs are not shown.
    #[error("without a surface an image must be named: `[agent.NAME.container] image`")]
    NoImage,
}

impl InContainer<'_> {
    pub(super) fn image(&self) -> &str {
        image_of(self.choice)
    }

    /// Where the programs come from.
    pub(crate) fn programs(&self) -> Programs {
        programs_of(self.choice)
    }
}

/// Which image a policy names.
pub(super) fn image_of(choice: Option<&ContainerChoice>) -> &str {
    choice.and_then(|choice| choice.image.as_ref()).map_or(HOST, |image| image.value.as_str())
}

/// Where the programs come from then.
pub(super) fn programs_of(choice: Option<&ContainerChoice>) -> Programs {
    if image_of(choice) == HOST { Programs::Host } else { Programs::Image }
}

/// Everything that a container is laid out from.
pub(crate) struct Wanted<'a> {
    pub(crate) container: InContainer<'a>,
    pub(crate) surface: &'a Surface,
    pub(crate) facts: &'a HostFacts,
    /// The view, guarded.
    pub(crate) mounts: &'a [MountOp],
    pub(crate) operator: &'a Operator,
    pub(crate) walked: &'a Walked,
    pub(crate) session: &'a Session,
    pub(crate) identity: Identity,
    pub(crate) owner: Owner,
}

/// The operator's mounts that go along, each with its guards, and those that do not.
pub(crate) struct Operator {
    pub(crate) kept: Vec<(OperatorMount, Vec<MountOp>)>,
    pub(crate) dropped: Vec<DroppedMount>,
    pub(crate) linked: Vec<AbsPath>,
}

impl Operator {
    /// Composes them with a view. What is denied stays so wherever it is mounted: each is searched as the view is.
    pub(crate) fn compose(
        choice: Option<&ContainerChoice>,
        surface: &Surface,
        facts: &HostFacts,
        mounts: &[MountOp],
        look: &mut dyn Look,
    ) -> Result<Self, NoContainer> {
        let listed = operator_mounts(choice);
        let mode = choice.map_or(SurfaceMode::Additive, |choice| choice.surface_mode.value);
        let shown: Vec<MountOp> = match programs_of(choice) {
            Programs::Host => mounts.to_vec(),
            // What is the system's is the image's there.
            Programs::Image => {
                let is_system =
                    |op: &&MountOp| matches!(op, MountOp::Bind { role: Role::System, .. } | MountOp::Link { .. });
                mounts.iter().filter(|op| !is_system(op)).cloned().collect()
            }
        };
        let (going, mut dropped) = compose(&shown, &listed, mode);
        let (mut kept, mut linked) = (Vec::new(), Vec::new());
        for mount in going {
            let verdict = surface.decide(&mount.source, Access::Read);
            let why = match (look.path(&mount.source), &verdict.because) {
                (PathFact::Missing, _) => WhyDropped::Missing,
                (_, Because::Rule(rule)) if !verdict.is_allowed() => WhyDropped::Denied(rule.to_string()),
                _ => {
                    let bind = MountOp::Bind { path: mount.source.clone(), access: mount.access, role: Role::Read };
                    let walked = walk::walk(surface, facts, std::slice::from_ref(&bind), &[])?;
                    let within = |path: &AbsPath| path.is_within(&mount.source);
                    let mut findings = walked.findings;
                    findings.denied.retain(|(path, _)| within(path));
                    findings.protected.retain(|path| within(path));
                    linked.extend(walked.linked.into_iter().filter(|path| within(path)));
                    let guards = guarded_operator(&[bind], &findings);
                    kept.push((mount, guards));
                    continue;
                }
            };
            dropped.push(DroppedMount { mount, why });
        }
        Ok(Self { kept, dropped, linked })
    }
}

impl Operator {
    /// What Landlock must let be written for them.
    pub(crate) fn rules(&self) -> impl Iterator<Item = LandlockRule> {
        let writable = self.kept.iter().filter(|(mount, _)| mount.access == MountAccess::ReadWrite);
        writable.map(|(mount, _)| LandlockRule { path: mount.destination.clone(), rights: Rights::All })
    }
}

/// The operator's mounts, as the plan takes them.
pub(crate) fn operator_mounts(choice: Option<&ContainerChoice>) -> Vec<OperatorMount> {
    let listed = choice.map(|choice| choice.mounts.as_slice()).unwrap_or_default();
    let one = |mount: &ringfence_surface::ContainerMountChoice| OperatorMount {
        source: mount.source.clone(),
        destination: mount.destination.clone(),
        access: match mount.mode {
            MountMode::ReadOnly => MountAccess::ReadOnly,
            MountMode::ReadWrite => MountAccess::ReadWrite,
        },
        written: mount.written.to_string(),
    };
    listed.iter().map(one).collect()
}

/// The whole host, one directory after the other: a container has a root of its own.
pub(crate) fn without_root(mounts: Vec<MountOp>) -> io::Result<Vec<MountOp>> {
    let is_whole = |op: &MountOp| matches!(op, MountOp::Bind { path, .. } if path.is_root());
    if !mounts.iter().any(is_whole) {
        return Ok(mounts);
    }
    let mut parts = Vec::new();
    for entry in fs::read_dir("/")? {
        let entry = entry?;
        let path = AbsPath::root().child(entry.file_name().as_bytes());
        let is_engines = ringfence_plan::ENGINES_OWN.iter().any(|own| path.as_bytes() == own.as_bytes());
        if is_engines || mounts.iter().any(|op| *op.destination() == path) {
            continue;
        }
        parts.push(if entry.file_type()?.is_symlink() {
            MountOp::Link { target: fs::read_link(entry.path())?.into_os_string().into_vec(), path }
        } else {
            MountOp::Bind { path, access: MountAccess::ReadOnly, role: Role::System }
        });
    }
    parts.extend(mounts.into_iter().filter(|op| !is_whole(op)));
    parts.retain(|op| !matches!(op, MountOp::Private { place, .. } if place.kind() == PrivateKind::Devices));
    parts.sort_by(|a, b| a.destination().cmp(b.destination()));
    Ok(parts)
}

/// A container that only has to be started.
pub(crate) struct Contained {
    program: Program,
    /// Where the first process calls back, once.
    listener: OwnedFd,
    socket: AbsPath,
    /// What the engine says.
    said: OwnedFd,
    pub(crate) checks: Vec<Check>,
    pub(crate) programs: Programs,
    /// Who works inside, by the numbers there.
    pub(crate) user: u32,
    /// Which engine.
    pub(crate) engine: &'static str,
}

impl Contained {
    pub(crate) fn new(wanted: &Wanted<'_>) -> Result<Self, NoContainer> {
        let Wanted { container: InContainer { here, program, .. }, surface, session, .. } = *wanted;
        let programs = wanted.container.programs();
        let (socket, listener) = listen(session.dir(), wanted.owner)?;
        let places = masks(session.dir())?;
        let own = program.cloned().map_or_else(own_program, Ok)?;
        let path = given::dir(session.dir()).join(given::PROGRAM);
        let mut mounts = wanted.mounts.to_vec();
        mounts.retain(|op| *op.destination() != path);
        put_mountpoint(&path)?;
        mounts.push(MountOp::Program { path: path.clone(), source: own });
        let mut first = Vec::new();
        if programs == Programs::Image {
            let brought = loader::bring(session.dir())?;
            mounts.extend(brought.mounts);
            first = brought.before;
        }
        first.extend([path.as_bytes().to_vec(), arrive::COMMAND.into(), socket.as_bytes().to_vec()]);
        let image = match programs {
            Programs::Host => host_image(here, &mounts)?,
            Programs::Image => wanted.container.image().to_owned(),
        };
        let (Identity::Caller { uid, gid } | Identity::Other { uid, gid }) = wanted.identity;
        let submounts: Vec<AbsPath> = wanted.facts.mounts.iter().map(|mount| mount.target.clone()).collect();
        let system = rustix::system::uname();
        let hostname = system.nodename().to_str().ok().filter(|name| is_plain(name));
        let caps = surface.caps();
        let plan = container(&ContainerOrder {
            facts: here.facts,
            image: &image,
            programs,
            mounts: &mounts,
            operator: &wanted.operator.kept,
            submounts: &submounts,
            places: &places,
            user: (uid, gid),
            label: Some(&label(session.state(), session.name())),
            hostname,
            // The first process goes to it, once it has looked around.
            workdir: None,
            memory: caps.memory.as_ref().map(|cap| cap.value),
            // The first process is one of them.
            pids: caps.pids.as_ref().map(|cap| cap.value.saturating_add(1)),
            first: First::Ourselves(&first),
        })?;
        make_mountpoints(&plan, wanted)?;
        let checks = checks(&plan, wanted)?;
        let said = rustix::fs::memfd_create("ringfence-engine", MemfdFlags::CLOEXEC).map_err(io::Error::from)?;
        let program = Program::new(words(here, &plan)?);
        let user = if here.facts.rights == ringfence_plan::EngineRights::UserAlone { 0 } else { uid };
        let engine = here.facts.engine.word();
        Ok(Self { program, listener, socket, said, checks, programs, user, engine })
    }

    /// Starts the engine's program.
    pub(crate) fn start(&self) -> io::Result<process::Child> {
        let null = rustix::fs::open(c"/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
        process::clone_into(process::Namespaces::NONE, None, || {
            let streams = [null.as_fd(), null.as_fd(), self.said.as_fd()];
            for (number, stream) in (0..).zip(streams) {
                if process::put_at(stream, number).is_err() {
                    return 125;
                }
            }
            // What the terminal sends to whoever sits there goes to the supervisor, which passes it on.
            if pty::become_session_leader().is_err() || process::close_on_exec_from(3).is_err() {
                return 125;
            }
            process::reset_signals();
            let _ = self.program.exec();
            125
        })
    }

    /// Waits until the first process calls; nothing when the engine ended before, or somebody wants to stop.
    pub(crate) fn called(&self, engine: &process::Child) -> io::Result<Option<OwnedFd>> {
        const STOPS: [Signal; 3] = [Signal::INT, Signal::TERM, Signal::HUP];
        let stops = pty::signalfd(&STOPS)?;
        loop {
            let mut fds = [
                PollFd::new(&self.listener, PollFlags::IN),
                PollFd::new(&engine.pidfd, PollFlags::IN),
                PollFd::new(&stops, PollFlags::IN),
            ];
            match rustix::event::poll(&mut fds, None) {
                Err(rustix::io::Errno::INTR) => continue,
                other => other?,
            };
            if !fds[0].revents().is_empty() {
                let called = rustix::net::accept_with(&self.listener, SocketFlags::CLOEXEC)?;
                // Nobody else calls: what works inside finds no one here.
                let _ = rustix::fs::unlink(self.socket.as_bytes());
                return Ok(Some(called));
            }
            if !fds[1].revents().is_empty() || !fds[2].revents().is_empty() {
                return Ok(None);
            }
        }
    }

    /// What the engine said so far.
    pub(crate) fn said(&self) -> Vec<u8> {
        let mut said = vec![0; 4096];
        let length = rustix::io::pread(&self.said, &mut said[..], 0).unwrap_or(0);
        said.truncate(length);
        said
    }
}

fn is_plain(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'.';
    (1..=63).contains(&name.len()) && name.bytes().all(plain) && !name.starts_with(['-', '.'])
}

fn own_program() -> io::Result<AbsPath> {
    let path = fs::read_link("/proc/self/exe")?;
    AbsPath::lexical(path.as_os_str().as_bytes()).map_err(io::Error::other)
}

/// A file to mount over, unless there is one.
fn put_mountpoint(path: &AbsPath) -> io::Result<()> {
    // A link would be followed.
    match rustix::fs::unlink(path.as_bytes()) {
        Ok(()) | Err(rustix::io::Errno::NOENT) => {}
        Err(errno) => return Err(errno.into()),
    }
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
    rustix::fs::open(path.as_bytes(), flags, Mode::from_raw_mode(0o444))?;
    Ok(())
}

/// A socket among what is given to the session, for whoever works inside.
fn listen(session: &AbsPath, owner: Owner) -> io::Result<(AbsPath, OwnedFd)> {
    let given = given::dir(session);
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let dir = rustix::fs::open(given.as_bytes(), flags, Mode::empty())?;
    let listener = rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    // The path of a socket has 107 bytes at most; a session's directory may be longer.
    let address = SocketAddrUnix::new(format!("/proc/self/fd/{}/start", dir.as_raw_fd()))?;
    rustix::net::bind(&listener, &address)?;
    rustix::net::listen(&listener, 1)?;
    let (uid, gid) = owner.unzip();
    rustix::fs::chownat(&dir, c"start", uid, gid, AtFlags::SYMLINK_NOFOLLOW)?;
    rustix::fs::chmodat(&dir, c"start", Mode::RUSR | Mode::WUSR, AtFlags::empty())?;
    Ok((given.join("start"), listener))
}

fn words(here: &EngineHere, plan: &ContainerPlan) -> io::Result<Words> {
    let program = here.program.as_str();
    let c_string = |bytes: &[u8]| CString::new(bytes).map_err(io::Error::other);
    let all = [program.as_bytes()].into_iter().chain(plan.words.iter().map(Vec::as_slice));
    let mut variables: BTreeMap<OsString, OsString> = std::env::vars_os().collect();
    variables.extend(here.variables.iter().cloned());
    let environment =
        variables.iter().map(|(name, value)| c_string(&[name.as_bytes(), b"=", value.as_bytes()].concat()));
    Ok(Words {
        candidates: vec![c_string(program.as_bytes())?],
        arguments: all.map(c_string).collect::<io::Result<_>>()?,
        // It says where the engine is, and the engine passes nothing of it on.
        environment: environment.collect::<io::Result<_>>()?,
    })
}

/// An engine makes what it mounts on where it is missing, as root: in the session's own files it is made here, by whom it
/// belongs to, and in the user's own files never.
fn make_mountpoints(plan: &ContainerPlan, wanted: &Wanted<'_>) -> Result<(), NoContainer> {
    let sources: BTreeMap<&AbsPath, &Material> =
        plan.bound.iter().map(|bound| (&bound.destination, &bound.material)).collect();
    for bound in &plan.bound {
        let above = bound.destination.ancestors().skip(1).find_map(|dir| Some((dir.clone(), *sources.get(&dir)?)));
        let Some((around, Material::Host { source, .. })) = above else { continue };
        let below = &bound.destination.as_bytes()[around.as_bytes().len()..];
        let path = AbsPath::lexical(&[source.as_bytes(), below].concat()).map_err(io::Error::other)?;
        let failed = |source| NoContainer::Source { path: path.clone(), source };
        if fs::symlink_metadata(os_path(&path)).is_ok() {
            continue;
        }
        if !path.is_within(wanted.session.dir()) {
            return Err(failed(io::Error::new(
                io::ErrorKind::NotFound,
                "it would have to be made in files of the host",
            )));
        }
        let is_file = match &bound.material {
            Material::Memory { .. } => false,
            Material::Host { source, .. } => fs::symlink_metadata(os_path(source)).is_ok_and(|status| !status.is_dir()),
        };
        let mut missing: Vec<AbsPath> =
            path.ancestors().take_while(|dir| fs::symlink_metadata(os_path(dir)).is_err()).collect();
        while let Some(dir) = missing.pop() {
            if missing.is_empty() && is_file {
                fs::File::create_new(os_path(&dir)).map_err(failed)?;
            } else {
                fs::create_dir(os_path(&dir)).map_err(failed)?;
            }
            let (uid, gid) = wanted.owner.unzip();
            let given = rustix::fs::chownat(rustix::fs::CWD, dir.as_bytes(), uid, gid, AtFlags::SYMLINK_NOFOLLOW);
            given.map_err(|errno| failed(errno.into()))?;
        }
    }
    Ok(())
}

/// What must stand at each destination. What was looked at during the walk must still be that.
fn checks(plan: &ContainerPlan, wanted: &Wanted<'_>) -> Result<Vec<Check>, NoContainer> {
    let top = open_root().map_err(io::Error::from)?;
    let check = |bound: &Bound| {
        let expected = match &bound.material {
            Material::Memory { .. } => Expected::Memory,
            Material::Host { source, access } => {
                let failed =
                    |errno: rustix::io::Errno| NoContainer::Source { path: source.clone(), source: errno.into() };
                let place = open_place(&top, &relative(source)).map_err(failed)?;
                let id = Id::of(&rustix::fs::fstat(&place).map_err(failed)?);
                let was = wanted.walked.seen.get(source).copied().unwrap_or(id);
                if was != id {
                    return Err(failed(rustix::io::Errno::STALE));
                }
                Expected::Host { id, access: *access }
            }
        };
        Ok(Check { path: bound.destination.clone(), expected })
    };
    plan.bound.iter().map(check).collect()
}
