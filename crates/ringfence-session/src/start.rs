//! From a Surface to a running payload: the walk, the view, the walls.

use std::ffi::{CString, OsString};
use std::fs;
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};

use ringfence_egress::Rules;
use ringfence_plan::{
    Claim, Entry, Files, LandlockPlan, LandlockRule, LayerName, Lines, MountOp, Plan, Receipt, Rights, Rung, SET_IDS,
    Shortfall, Standing, SyscallRule, Withheld, complement, guarded, receipt,
};
use ringfence_surface::policy::Mode;
use ringfence_surface::{AbsPath, Access, Effect, HostFacts, HostTarget, Look, PathFact, Role, Shown, Surface};
use ringfence_sys::process::{Program, Words};
use ringfence_sys::seccomp;
use rustix::fs::AtFlags;

use crate::account;
use crate::agent::{self, Furnished, Furnishing};
use crate::bwrap::{Bubble, NoBubble};
use crate::cgroup::{Group, Wanted};
use crate::doors::Doors;
use crate::environment::{self, Own};
use crate::given::{self, Reached};
use crate::home::{self, Ground, Signing};
use crate::identity::{identity, idmap_for, owner, unmapped};
use crate::launch::{self, Identity, Network, Prepared, Shape};
use crate::links;
use crate::payload::{Payload, Pids};
use crate::place::{open_place, open_root, relative};
use crate::record::{Record, RecordError};
use crate::script::{self, Base, ScriptError};
use crate::secrets::Secrets;
use crate::seed::seed;
use crate::standard::{Lent, Standards};
use crate::store::{Grants, Session};
use crate::view::View;
use crate::visible::{Worker, is_reachable, with_ways};
use crate::walk::{self, WalkError, Walked, os_path};
use crate::wall::Wall;
use crate::ways;

/// Why a session did not start.
#[derive(Debug, thiserror::Error)]
pub enum PrepareError {
    /// The walk failed.
    #[error("cannot find what must be guarded")]
    Walk(#[from] WalkError),
    /// A directory of the session could not be made.
    #[error("cannot make {path}")]
    Directory {
        /// Which.
        path: AbsPath,
        /// Why.
        source: io::Error,
    },
    /// No command was given.
    #[error("there is no command to run")]
    NoCommand,
    /// The command holds a NUL.
    #[error("the command holds a NUL byte")]
    Nul,
    /// There is nothing to start in.
    #[error("the working directory {path} is denied: {rule}")]
    Workdir {
        /// Which.
        path: AbsPath,
        /// By what.
        rule: String,
    },
    /// The view could not be laid out.
    #[error("cannot lay out the view")]
    Script(#[from] ScriptError),
    /// A standard descriptor that may not come along.
    #[error("a standard descriptor cannot come along")]
    Standard {
        /// Why.
        source: io::Error,
    },
    /// The session's home could not be filled.
    #[error("cannot write settings into the session's home")]
    Home {
        /// Why.
        source: io::Error,
    },
    /// What the session gives to the agent could not be written.
    #[error("cannot give the session what is its own")]
    Given {
        /// Why.
        source: io::Error,
    },
    /// The session's record could not be written.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// A socket in the place of one of the host's could not be made.
    #[error("cannot make a socket that leads out")]
    Socket {
        /// Why.
        source: io::Error,
    },
    /// The filter could not be made.
    #[error("cannot make the seccomp filter")]
    Filter {
        /// Why.
        source: io::Error,
    },
    /// Bubblewrap cannot be used.
    #[error("cannot use bubblewrap")]
    Bwrap(#[from] NoBubble),
    /// Without namespaces everything rests on Landlock.
    #[error("this kernel has no Landlock")]
    NoLandlock,
    /// A pipe could not be made.
    #[error("pipe2")]
    Pipe {
        /// Why.
        source: io::Error,
    },
}

impl PrepareError {
    /// May another way to build the fence succeed where this one failed?
    pub fn is_the_hosts(&self) -> bool {
        matches!(self, Self::Bwrap(_) | Self::NoLandlock)
    }
}

/// What is to be started, and how.
pub struct Order<'a> {
    /// What may be touched.
    pub surface: &'a Surface,
    /// On which host.
    pub facts: &'a HostFacts,
    /// Compiled for the rung.
    pub plan: &'a Plan,
    /// How the fence is built.
    pub rung: Rung,
    /// The session's own directory.
    pub session: &'a Session,
    /// The command and its arguments.
    pub command: &'a [OsString],
    /// Who runs it where root starts it: user and group.
    pub user: Option<(u32, u32)>,
    /// What the agent's client is started with, where the command is one.
    pub client: Option<&'a Furnishing>,
    /// Which client the command is, if it is one that ringfence knows.
    pub agent: Option<&'a str>,
    /// How much its tool calls are held back.
    pub mode: Mode,
    /// How much of a receipt is wanted.
    pub lines: Lines,
    /// What it is.
    pub occasion: Occasion,
    /// Variables that whoever starts it sets itself.
    pub variables: &'a [(OsString, OsString)],
}

/// What is started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Occasion {
    /// A session, on the streams of whoever starts it.
    Session,
    /// One call within a session, on the streams of whoever starts it.
    Call,
    /// One call within a session, on streams that are made for it.
    CapturedCall,
    /// The same, by a program that is not ringfence: nothing is given to it, neither a record nor ringfence itself.
    EmbeddedCall,
}

/// A session that is ready to start, and what it found on the way.
pub struct Ready {
    /// The payload, laid out.
    pub prepared: Prepared,
    /// What was found and guarded.
    pub walked: Walked,
    /// What holds.
    pub receipt: Receipt,
    /// Why root's own project cannot be written inside, if it cannot.
    pub unwritable: Option<io::Error>,
    /// What becomes of signatures.
    pub commits: Commits,
    /// How many packages were copied from the user's own caches, or why they could not be.
    pub copied: io::Result<usize>,
    /// What can be given to it while it runs.
    pub grants: Grants,
    /// Who runs the command.
    pub identity: Identity,
    /// Why the agent remembers nothing of earlier sessions, if it should.
    pub forgetful: Option<io::Error>,
}

/// What becomes of signatures under commits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Commits {
    /// Nothing is changed.
    AsAsked,
    /// The user's or the repository's settings ask for signatures; commits made inside have none.
    Unsigned,
}

/// Lays everything out.
///
/// # Errors
/// [`PrepareError`]; nothing was started.
pub fn prepare(order: &Order<'_>, look: &mut dyn Look) -> Result<Ready, PrepareError> {
    let Order { surface, facts, plan, rung, session, .. } = *order;
    if order.command.is_empty() {
        return Err(PrepareError::NoCommand);
    }
    let workdir = surface.decide(surface.workdir(), Access::Read);
    if !workdir.is_allowed() {
        let rule = workdir.because.to_string();
        return Err(PrepareError::Workdir { path: surface.workdir().clone(), rule });
    }
    let stdio = match order.occasion {
        Occasion::Session | Occasion::Call => Standards::find(surface),
        Occasion::CapturedCall | Occasion::EmbeddedCall => Ok(Standards::NONE()),
    };
    let Standards { reopened, lent } = stdio.map_err(|source| PrepareError::Standard { source })?;
    // Landlock sees what is opened by way of a descriptor; there are no guards that it could lead past.
    let stdio = if rung.has_view() { reopened } else { Vec::new() };
    let identity = order.user.map_or_else(|| identity(surface.root()), |(uid, gid)| Identity::Other { uid, gid });
    make_directories(surface, session, identity)?;
    let program = give(order)?;
    match order.occasion {
        // While the view is made there is time for it: see `record`.
        Occasion::Session | Occasion::EmbeddedCall => {}
        Occasion::Call | Occasion::CapturedCall => record(order)(surface)?,
    }
    let caller = std::env::vars_os().map(|(name, value)| (name.into_vec(), value.into_vec())).collect();
    let secrets = Secrets::read(surface, rung, &caller);
    let ground = Ground { surface, facts, caller: &caller, owner: owner(identity) };
    let signing = home::furnish(&ground, session.dir(), look).map_err(|source| PrepareError::Home { source })?;
    let client = order.client.map(|client| client.write(session.dir(), ground.owner)).transpose();
    let mut client = client.map_err(|source| PrepareError::Home { source })?;
    let copied = match order.occasion {
        Occasion::Session => seed(&ground, look).map(|seeded| seeded.copied),
        // The session had them copied, and one that only looks changes no cache.
        Occasion::Call | Occasion::CapturedCall | Occasion::EmbeddedCall => Ok(0),
    };
    let idmap =
        if rung == Rung::Native { idmap_for(surface.root(), identity) } else { unmapped(surface.root(), identity) };
    let doors = Doors::open(surface, rung, session.dir(), owner(identity), look)
        .map_err(|source| PrepareError::Socket { source })?;
    let (mut mounts, mut homes) = (plan.mounts.clone(), facts.all_homes());
    mounts.extend(doors.mounts());
    if let Identity::Other { uid, gid } = identity {
        let owner = fs::metadata(os_path(surface.root())).ok().map(|m| (m.uid(), m.gid()));
        let worker = Worker { uid, gid, owner: owner.filter(|_| matches!(idmap, Ok(Some(_)))) };
        mounts = with_ways(&mounts, worker);
        homes.retain(|home| is_reachable(home, worker));
    }
    let mut walked = walk::walk(surface, facts, &mounts, &homes)?;
    walked.linked.extend(links::second_names(&walked.findings));
    freeze(&mut walked, client.as_ref(), rung);
    let (mut guards, more) = match rung {
        Rung::Bwrap => links::without_links(surface, &walked.findings),
        Rung::Native | Rung::LandlockOnly => (walked.findings.clone(), Vec::new()),
    };
    walked.shortfalls.extend(more);
    // Our own socket stands in the place of the host's, and is what guards it.
    guards.denied.retain(|(path, _)| !doors.has(path));
    guards.protected.retain(|path| !doors.has(path));
    let (mut landlock, mut withheld) = match rung {
        Rung::Native | Rung::Bwrap => (plan.landlock.clone(), Vec::new()),
        Rung::LandlockOnly => without_denied(plan, &mut walked, session),
    };
    withheld.extend(doors.withheld.iter().chain(&secrets.withheld).cloned());
    if let Reached::Admitted(rule) = &program {
        landlock.rules.push(rule.clone());
    }
    if lent == Lent::Place && landlock.files == Files::Changes {
        landlock.files = Files::Restricted;
    }
    let wall = Wall::new(&landlock);
    if wall.is_none() && rung == Rung::LandlockOnly {
        return Err(PrepareError::NoLandlock);
    }
    let group = group(order);
    let pids = pids(order, identity, group.as_ref());
    // What is made here belongs to somebody else than whoever makes it.
    let more: &[SyscallRule] = if matches!(idmap, Ok(Some(_))) { SET_IDS } else { &[] };
    let syscalls = [plan.syscalls.as_slice(), more].concat();
    let filter = seccomp::compile(&syscalls).map_err(|e| PrepareError::Filter { source: io::Error::other(e) })?;
    let payload = Payload {
        workdir: c_string(surface.workdir().as_bytes())?,
        program: Program::new(words(order, &caller, identity, signing, (&doors, &secrets), look)?),
        stdio,
        landlock: wall,
        seccomp: filter.program,
        pids,
        becomes: match (rung, identity) {
            (Rung::Bwrap, Identity::Other { uid, gid }) => Some((uid, gid)),
            _ => None,
        },
    };
    let receipt = {
        let wall = payload.landlock.as_ref();
        let no_group = "no control group with that controller is delegated to you";
        let no_count = "without a user namespace the kernel counts every process of the user";
        let standing = Standing {
            rung,
            landlock: wall.is_some().then_some(&landlock),
            keeps_signals: wall.is_some_and(Wall::keeps_signals),
            guards: !walked.findings.denied.is_empty() || !walked.findings.protected.is_empty(),
            linked: &walked.linked,
            memory: if group.is_some() { Ok(LayerName::Cgroup) } else { Err(no_group) },
            pids: match (&group, pids) {
                (Some(_), _) => Ok(LayerName::Cgroup),
                (None, Some(_)) => Ok(LayerName::Processes),
                (None, None) => Err(no_count),
            },
            found: &walked.shortfalls,
            withheld: &withheld,
        };
        receipt(surface, &standing, order.lines)
    };
    note_shortfalls(order, &receipt).map_err(|source| PrepareError::Given { source })?;
    let reports = launch::pipe().map_err(|source| PrepareError::Pipe { source })?;
    let mut mounts = guarded(&mounts, &guards);
    if rung.has_view() {
        mounts.extend(own_files(order, identity, look).map_err(|source| PrepareError::Home { source })?);
    }
    if let Some(client) = client.as_ref().filter(|_| rung.has_view()) {
        mounts = agent::with_room(mounts, &client.shown, look);
        mounts.extend(client.shown.iter().map(|(path, name)| MountOp::Own { path: path.clone(), name: name.clone() }));
    }
    if let Reached::Mounted(op) = program {
        mounts.push(op);
    }
    let shape = match rung {
        Rung::Native => Shape::Native(View {
            script: script::script(&mounts, session.dir(), &walked, look, matches!(idmap, Ok(Some(_))))?,
            idmap: idmap.as_ref().ok().and_then(|map| map.as_ref()).and_then(|map| map.try_clone().ok()),
        }),
        Rung::Bwrap => Shape::Bwrap(Bubble::new(&mounts, session.dir(), &payload, reports.1.as_fd())?),
        Rung::LandlockOnly => Shape::Walls,
    };
    let grants = grants(&shape);
    let network = network(order, doors, secrets).map_err(|source| PrepareError::Pipe { source })?;
    let program_name = Shown(order.command[0].as_bytes()).to_string();
    let wall_time = surface.caps().wall.as_ref().map(|cap| cap.value);
    let lock = session.hold_lock().map_err(|source| PrepareError::Pipe { source })?;
    let prepared = Prepared { shape, identity, payload, program_name, group, wall_time, network, reports, lock };
    let commits = match signing {
        Signing::Unasked => Commits::AsAsked,
        Signing::AskedByUser => Commits::Unsigned,
        Signing::AskedByRepository if surface.reach().sockets.is_empty() => Commits::Unsigned,
        // Whoever holds the key may be behind one of the sockets.
        Signing::AskedByRepository => Commits::AsAsked,
    };
    let unwritable = idmap.err();
    let forgetful = client.as_mut().and_then(|client| client.forgetful.take());
    Ok(Ready { prepared, walked, receipt, unwritable, commits, copied, grants, identity, forgetful })
}

/// What can be given later: a mount in a view of ours that is made of nothing. Where the whole host is the view, everything
/// that may be read is there. Landlock admits reads everywhere in the view, and writes only where the start did.
fn grants(shape: &Shape) -> Grants {
    match shape {
        Shape::Native(view) if view.script.base == Base::Nothing => Grants::Reads,
        Shape::Native(_) | Shape::Bwrap(_) | Shape::Walls => Grants::None,
    }
}

/// Files of the client's that stay as they are. Nothing runs yet that could put something else in their place.
fn freeze(walked: &mut Walked, client: Option<&Furnished>, rung: Rung) {
    let frozen = client.map(|client| client.frozen.as_slice()).unwrap_or_default();
    if rung.has_view() {
        walked.findings.protected.extend(frozen.iter().cloned());
        return;
    }
    let reason = "Landlock takes nothing away below a directory that can be written";
    walked.shortfalls.extend(frozen.iter().map(|path| Shortfall {
        claim: Claim::Protected { pattern: path.to_string() },
        layer: LayerName::Landlock,
        reason: reason.to_owned(),
    }));
}

/// How many claims fall short, for whoever shows it inside. What every session lacks and nobody can change is among them.
pub(crate) fn note_shortfalls(order: &Order<'_>, receipt: &Receipt) -> io::Result<()> {
    if order.client.is_none() {
        return Ok(());
    }
    let count = receipt.shortfalls().count();
    fs::write(os_path(&given::dir(order.session.dir()).join(given::SHORTFALLS)), count.to_string())
}

/// Puts ringfence itself among what the agent is given.
pub(crate) fn give(order: &Order<'_>) -> Result<Reached, PrepareError> {
    let Order { surface, rung, session, .. } = *order;
    if order.occasion == Occasion::EmbeddedCall {
        return Ok(Reached::Not);
    }
    given::program(surface, rung, session.dir()).map_err(|source| PrepareError::Given { source })
}

/// Writes the record of a session, by which others decide as it does. Whoever starts a session does this while the new process
/// makes the view: the command waits for it.
pub fn record(order: &Order<'_>) -> impl FnOnce(&Surface) -> Result<(), RecordError> + use<> {
    let (session, rung, mode) = (order.session.name().to_owned(), order.rung, order.mode);
    let (agent, home) = (order.agent.map(str::to_owned), order.session.dir().join("home"));
    let path = given::dir(order.session.dir()).join(given::RECORD);
    move |surface| Record { session, agent, mode, rung, home, surface }.write(&path)
}

fn c_string(bytes: &[u8]) -> Result<CString, PrepareError> {
    CString::new(bytes).map_err(|_| PrepareError::Nul)
}

/// The program, its arguments and its environment.
fn words(
    order: &Order<'_>,
    caller: &environment::Variables,
    identity: Identity,
    signing: Signing,
    (doors, secrets): (&Doors, &Secrets),
    look: &mut dyn Look,
) -> Result<Words, PrepareError> {
    let Order { surface, session, rung, .. } = *order;
    let tmp = if rung.has_view() { AbsPath::root().join("tmp") } else { session.dir().join("tmp") };
    let user = if let Identity::Other { uid, .. } = identity { Some(uid) } else { None };
    let given = (order.occasion != Occasion::EmbeddedCall).then(|| given::dir(session.dir()));
    let client = order.client.map(|client| client.plan.variables.as_slice()).unwrap_or_default();
    let own =
        Own { session: session.dir(), given, name: session.name(), tmp: &tmp, user, signing, doors, secrets, client };
    let mut variables = environment::build(caller, surface, order.facts, look, &own);
    let set = order.variables.iter().map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec()));
    variables.extend(set);
    Ok(Words {
        candidates: environment::candidates(order.command[0].as_bytes(), surface.workdir(), &variables),
        arguments: order.command.iter().map(|word| c_string(word.as_bytes())).collect::<Result<_, _>>()?,
        environment: environment::lines(&variables),
    })
}

/// Landlock on the host's own files: what exists and is denied is left out, and temporary files are the session's.
fn without_denied(plan: &Plan, walked: &mut Walked, session: &Session) -> (LandlockPlan, Vec<Withheld>) {
    let processes = AbsPath::root().join("proc");
    let denied = walked.findings.denied.iter().map(|(path, _)| path.clone());
    let (kept, denied): (Vec<AbsPath>, Vec<AbsPath>) = denied.partition(|path| path.is_within(&processes));
    let reason = "without all of /proc, processes that start later would not see themselves";
    walked.shortfalls.extend(kept.iter().map(|path| Shortfall {
        claim: Claim::Denied { pattern: path.to_string() },
        layer: LayerName::Landlock,
        reason: reason.to_owned(),
    }));
    let list = |dir: &AbsPath| {
        let entries = fs::read_dir(os_path(dir)).into_iter().flatten().flatten();
        let is_link = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_symlink());
        entries.map(|entry| Entry { is_link: is_link(&entry), name: entry.file_name().into_vec() }).collect()
    };
    let (mut rules, withheld) = complement(&plan.landlock.rules, &denied, list);
    rules.push(LandlockRule { path: session.dir().join("tmp"), rights: Rights::All });
    let withheld = [plan.landlock.withheld.clone(), withheld].concat();
    (LandlockPlan { rules, ..plan.landlock.clone() }, withheld)
}

/// Names that the host's own file has would be dialled by their real address, which leads nowhere inside. All names are asked
/// for, and the host's file is read outside.
const HOSTS: &str = "127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n";

/// The machine's own name, which many programs look up without meaning to reach anybody. A host that the policy names is asked
/// for like any other.
fn own_name(surface: &Surface) -> String {
    let system = rustix::system::uname();
    let Some(target) = system.nodename().to_str().ok().and_then(|name| HostTarget::new(name, 1).ok()) else {
        return String::new();
    };
    let is_listed = surface.reach().hosts.iter().any(|entry| entry.value.matches_host(&target));
    match (target.name(), target.name().split_once('.')) {
        _ if is_listed || target.address().is_some() => String::new(),
        (name, Some((short, _))) => format!("127.0.1.1 {name} {short}\n"),
        (name, None) => format!("127.0.1.1 {name}\n"),
    }
}

/// Files of the system that the session has its own of.
fn own_files(order: &Order<'_>, identity: Identity, look: &mut dyn Look) -> io::Result<Vec<MountOp>> {
    let (Identity::Caller { uid, gid } | Identity::Other { uid, gid }) = identity;
    let session = order.session.dir();
    let mut mounts = Vec::new();
    let mut put = |path: AbsPath, name: &str, content: &[u8]| {
        let file = session.join(name);
        fs::write(os_path(&file), content)?;
        fs::set_permissions(os_path(&file), fs::Permissions::from_mode(0o644))?;
        mounts.push(MountOp::Own { path, name: name.to_owned() });
        Ok::<(), io::Error>(())
    };
    let hosts = AbsPath::root().join("etc/hosts");
    if look.path(&hosts) == PathFact::File {
        put(hosts, "hosts", &[HOSTS.as_bytes(), own_name(order.surface).as_bytes()].concat())?;
    }
    let accounts = account::list();
    let is_shown = order.surface.decide(&accounts, Access::Read).is_allowed();
    if is_shown && look.path(&accounts) == PathFact::File {
        let home = environment::home(session, look);
        if let Some(list) = account::own_list(&fs::read(os_path(&accounts))?, (uid, gid), &home) {
            put(accounts, "passwd", &list)?;
        }
    }
    Ok(mounts)
}

/// Whether anything is reached, and by which rules.
fn network(order: &Order<'_>, doors: Doors, secrets: Secrets) -> io::Result<Option<Network>> {
    let reach = order.surface.reach();
    if order.rung != Rung::Native || reach.hosts.is_empty() && reach.host_ports.is_empty() && doors.listeners.is_empty()
    {
        return Ok(None);
    }
    let rules = Rules {
        hosts: reach.hosts.iter().map(|entry| entry.value.clone()).collect(),
        private: reach.private.iter().map(|entry| entry.value.clone()).collect(),
        host_ports: reach.host_ports.iter().map(|entry| entry.value).collect(),
        credentials: secrets.credentials,
    };
    Ok(Some(Network { rules, sockets: doors.listeners, channel: ways::channel()? }))
}

/// A control group, where limits are wanted and one is ours to make.
fn group(order: &Order<'_>) -> Option<Group> {
    let wanted = Wanted::of(order.surface.caps());
    let is_wanted = wanted.memory.is_some() || wanted.pids.is_some();
    is_wanted.then(|| Group::create(wanted, order.session.name())).flatten()
}

/// A limit on processes by the user's own count, where no control group has one.
fn pids(order: &Order<'_>, identity: Identity, group: Option<&Group>) -> Option<Pids> {
    let most = order.surface.caps().pids.as_ref().filter(|_| group.is_none())?.value;
    let most = u64::from(most);
    // One of ours is counted, which waits for the rest: the first process, or bubblewrap's. In a namespace that the payload
    // makes for itself there is nobody else.
    match (order.rung, identity) {
        (Rung::LandlockOnly, _) => None,
        (Rung::Native | Rung::Bwrap, Identity::Other { uid, gid }) => {
            Some(Pids { most, needs_namespace: Some((uid, gid)) })
        }
        (Rung::Native | Rung::Bwrap, Identity::Caller { .. }) => Some(Pids { most: most + 1, needs_namespace: None }),
    }
}

/// The session's own directories and the caches, owned by whoever will write them.
pub(crate) fn make_directories(surface: &Surface, session: &Session, identity: Identity) -> Result<(), PrepareError> {
    let is_ours = |effect| matches!(effect, Effect::Write(Role::Cache | Role::Scratch));
    let rules = surface.rules().iter().filter(|rule| is_ours(rule.effect));
    let paths = rules.filter_map(|rule| rule.pattern.as_path().cloned()).chain([session.dir().join("tmp")]);
    for path in paths {
        let failed = |source| PrepareError::Directory { path: path.clone(), source };
        fs::DirBuilder::new().recursive(true).mode(0o700).create(os_path(&path)).map_err(failed)?;
        if let Identity::Other { uid, gid } = identity {
            // What root gives away is what stands there itself: a link that somebody planted is not followed.
            let place = open_root().and_then(|top| open_place(&top, &relative(&path)));
            let (uid, gid) = (rustix::fs::Uid::from_raw(uid), rustix::fs::Gid::from_raw(gid));
            let give = |place| rustix::fs::chownat(place, c"", Some(uid), Some(gid), AtFlags::EMPTY_PATH);
            place.and_then(give).map_err(|errno| failed(errno.into()))?;
        }
    }
    Ok(())
}
