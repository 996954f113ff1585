//! From a Surface to a prepared payload: the walk, the mounts, Landlock and seccomp.

mod denied;
mod error;
mod limits;
mod loose;
mod nested;
mod own;
mod refused;
mod shown;

use std::ffi::{CString, OsString};
use std::fs;
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::sync::Arc;

use ringfence_egress::Rules;
use ringfence_egress::pool::Addresses;
use ringfence_plan::features::{Feature, FeatureFindings, Finding};
use ringfence_plan::{
    BrokerUnavailable, Claim, LandlockPlan, LayerName, Lines, MountOp, Plan, Receipt, Rung, SET_IDS, Shortfall,
    Standing, SyscallRule, guarded_with_broker, receipt, unseen_exceptions,
};
use ringfence_surface::policy::Mode;
use ringfence_surface::{AbsPath, Effect, HostFacts, Look, Role, Rule, Shown, Source, Surface};
use ringfence_sys::process::{Program, Words};
use ringfence_sys::seccomp;
use rustix::fs::AtFlags;

use crate::agent::{Furnished, Furnishing};
use crate::beside::Beside;
use crate::broker;
pub use crate::broker::BrokerChoice;
use crate::broker::Spelling;
use crate::bwrap::Bubble;
use crate::clones::Clones;
use crate::container::{self, Contained, InContainer, NoContainer};
use crate::doors::Doors;
use crate::environment::{self, Own};
use crate::folded;
use crate::git_files::{References, standing};
use crate::git_gains::GitSnapshot;
use crate::given::{self, Reached};
use crate::home::{self, Ground, Signing};
use crate::identity::{identity, idmap_for, owner, unmapped};
use crate::keeper::Guarded;
use crate::launch::{self, Brokered, Identity, Network, Prepared, Shape};
use crate::layer::Landing;
use crate::payload::Payload;
use crate::place::{open_place, open_root, relative};
use crate::record::{Record, RecordError};
use crate::rooted::{self, MovedIn};
use crate::roots::Root;
use crate::script;
pub use crate::script::ScriptError;
use crate::secrets::Secrets;
use crate::seed::seed;
use crate::store::{Grants, Session};
use crate::streams;
use crate::sufficient::SufficientLandlock;
use crate::temporary::Journal;
use crate::used_paths::UsedPaths;
use crate::view::View;
use crate::walk::{self, Walked, os_path};
use crate::wall::Wall;
use crate::ways;
pub use error::PrepareError;

use limits::{group, pids};
use shown::Unguarded;

/// The parameters of a start.
pub struct Order<'a> {
    /// The files, hosts and variables that may be used.
    pub surface: &'a Surface,
    /// The host.
    pub facts: &'a HostFacts,
    /// Compiled for the backend.
    pub plan: &'a Plan,
    /// How the fence is built.
    pub rung: Rung,
    /// The session's own directory.
    pub session: &'a Session,
    /// The command and its arguments.
    pub command: &'a [OsString],
    /// Who runs it where root starts it: user and group.
    pub user: Option<(u32, u32)>,
    /// Settings and files for the agent's client, where the command is one.
    pub client: Option<&'a Furnishing>,
    /// Which client the command is, if it is one that ringfence knows.
    pub agent: Option<&'a str>,
    /// The approval mode of its tool calls.
    pub mode: Mode,
    /// How much of a receipt is wanted.
    pub lines: Lines,
    /// A session, or a call within one.
    pub occasion: Occasion,
    /// Variables that the caller sets.
    pub variables: &'a [(OsString, OsString)],
    /// The root that it runs in, where the fence is built of one.
    pub root: Option<&'a Root>,
    /// The container engine, where the fence is made by one.
    pub container: Option<InContainer<'a>>,
    /// Whether calls that change files are to be brokered, where that is available.
    pub broker: BrokerChoice,
    /// Whether changes reach the host at once.
    pub changes: Changes,
}

/// When a session's changes reach the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Changes {
    /// At once.
    Land,
    /// When the user applies them: see [`crate::review`].
    Wait,
}

/// What is started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Occasion {
    /// A session, on the caller's streams.
    Session,
    /// One call within a session, on the caller's streams.
    Call,
    /// One call within a session, on streams that are made for it.
    CapturedCall,
    /// The same, by a program that is not ringfence: it gets no session record and no ringfence program.
    EmbeddedCall,
}

/// A session that is ready to start, and what it found on the way.
pub struct Ready {
    /// The payload, laid out.
    pub prepared: Prepared,
    /// The Surface in effect, where more is protected than in the order's: the session is to be decided by this one.
    pub surface: Option<Surface>,
    /// What was found and guarded.
    pub walked: Walked,
    /// Which claims hold.
    pub receipt: Receipt,
    /// Why root's own project cannot be written inside, if it cannot.
    pub unwritable: Option<io::Error>,
    /// What becomes of signatures.
    pub commits: Commits,
    /// How many packages were copied from the user's own caches, or why they could not be.
    pub copied: io::Result<usize>,
    /// What can be granted while it runs.
    pub grants: Grants,
    /// Who runs the command.
    pub identity: Identity,
    /// The repositories that a session may change, to be compared with at its end.
    pub git: Option<GitSnapshot>,
    /// Why the agent remembers nothing of earlier sessions, if it should.
    pub forgetful: Option<io::Error>,
    /// What is guarded, where that can be kept while the session runs.
    pub guarded: Option<Guarded>,
    /// What belongs to the session, in the root that it runs in. It goes with this.
    pub moved_in: Option<MovedIn>,
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
    prepare_with(order, look, &mut |_| ())
}

/// What a fence is about to be made of.
pub enum Last<'a> {
    /// Its mounts, with every guard.
    Mounts(&'a mut Vec<MountOp>),
    /// Its domain, without what is denied.
    Landlock(&'a mut LandlockPlan),
}

/// The same with a last change to what the fence is made of: for tests that break it on purpose.
///
/// # Errors
/// As [`prepare`].
pub fn prepare_with(
    order: &Order<'_>,
    look: &mut dyn Look,
    change: &mut dyn FnMut(Last<'_>),
) -> Result<Ready, PrepareError> {
    let Order { surface, facts, plan, rung, session, .. } = *order;
    let root = refused::root(order)?;

    // The identity, the inherited descriptors, the private directories.
    match order.occasion {
        Occasion::Session | Occasion::Call => {
            streams::check_caller_streams(surface).map_err(|source| PrepareError::Standard { source })?;
        }
        // Their streams are pipes that were made for them.
        Occasion::CapturedCall | Occasion::EmbeddedCall => {}
    }
    let identity = order.user.map_or_else(|| identity(surface.root()), |(uid, gid)| Identity::Other { uid, gid });
    own::caches(order, identity)?;
    make_directories(surface, session, identity)?;
    if let Some(root) = root {
        rooted::open_caches(root, identity).map_err(|source| PrepareError::MoveIn { source })?;
    }
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

    // What is shown, and what in it must be guarded.
    let landing = refused::landing(order, identity)?;
    let idmap =
        if rung == Rung::Native { idmap_for(surface.root(), identity) } else { unmapped(surface.root(), identity) };
    let (idmap, unwritable) = idmap.map_or_else(|cause| (None, Some(cause)), |map| (map, None));
    let doors = Doors::open(surface, rung, session.dir(), owner(identity), look)
        .map_err(|source| PrepareError::Socket { source })?;
    let listens = broker::is_to_be_had(order);
    let worker = shown::worker(surface, identity, idmap.as_ref());
    let Unguarded { mounts, homes, globs } = Unguarded::find(order, root, worker, &doors, listens, look)?;
    let mut walked = walk::walk(surface, facts, &mounts, &homes)?;
    let runs = nested::git_runs(&walked, surface, look);
    let extended = runs.iter().any(nested::needs_rule).then(|| surface.with_git_runs(&runs));
    let surface = extended.as_ref().unwrap_or(surface);
    let order = &Order { surface, ..*order };
    if extended.is_some() {
        // Rare, and the guards of what was found need their ancestors.
        walked = walk::walk(surface, facts, &mounts, &homes)?;
    }
    walked.shortfalls.extend(nested::shortfalls(facts.git_runs.values().flatten().chain(&runs)));
    let used_paths = std::mem::replace(&mut walked.used_paths, UsedPaths::unknown());
    let (git, used_paths) = match order.occasion {
        Occasion::Session => {
            let taken = GitSnapshot::take(surface, &walked.work_trees);
            let (snapshot, secrets) = taken.map_err(|errno| PrepareError::Git { source: errno.into() })?;
            walked.shortfalls.extend(nested::tracked_secrets(secrets));
            let used_paths = Arc::new(used_paths);
            (Some(snapshot.with_used_paths(Arc::clone(&used_paths))), Some(used_paths))
        }
        // The session may have moved directories since it started.
        Occasion::Call | Occasion::CapturedCall | Occasion::EmbeddedCall => (None, None),
    };
    let references = open_root().map(|root| References::of_start(&root, standing(&root, &walked.work_trees)));
    let references = references.map_err(|errno| PrepareError::Git { source: errno.into() })?;
    freeze(&mut walked, client.as_ref(), rung);
    if let Some(root) = root {
        let more = rooted::shortfalls(surface, root, &walked.findings, identity);
        walked.shortfalls.extend(more);
    }
    let guards = shown::guards(order, &mut walked, &mounts, &doors);

    // The walls behind it.
    let (mut landlock, mut withheld) = shown::domain(order, root, &mut walked);
    withheld.extend(doors.withheld.iter().chain(&secrets.withheld).cloned());
    withheld.extend(unseen_exceptions(surface, &walked.findings));
    withheld.extend(globs.withheld.iter().cloned());
    walked.shortfalls.extend(globs.shortfall());
    walked.shortfalls.extend(loose::in_layers(surface, &walked.findings, &mounts, landing));
    walked.shortfalls.extend(walked.folds.as_ref().filter(|_| listens.is_ok()).map(folded::shortfall));
    let journal = listens.is_ok().then(|| Journal::begin(session.state())).transpose();
    let journal = journal.map_err(|source| PrepareError::Pipe { source })?;
    let beside = listens.is_ok().then(|| Beside::join(session.state())).transpose().unwrap_or_else(|cause| {
        walked.shortfalls.push(unshared(&cause));
        None
    });
    if let Reached::Admitted(rule) = &program {
        landlock.rules.push(rule.clone());
    }
    let operator = container::operator(order, &mounts, look)?;
    withheld.extend(container::withheld(order, operator.as_ref()));
    walked.linked.extend(operator.iter().flat_map(|operator| operator.linked.iter().cloned()));
    landlock.rules.extend(operator.iter().flat_map(container::Operator::rules));
    change(Last::Landlock(&mut landlock));
    let mut features = FeatureFindings::untried();
    let wall = match SufficientLandlock::find() {
        Ok(found) => Some(Wall::new(&landlock, &found)),
        Err(source) if rung.has_view() => {
            features.note(Feature::LandlockFiles, source.finding());
            None
        }
        Err(source) => return Err(PrepareError::NoLandlock { source }),
    };
    let group = group(order);
    let pids = pids(order, identity, group.as_ref());
    if let (Err(why), BrokerChoice::Learn) = (listens, order.broker) {
        return Err(PrepareError::NothingLearned { why });
    }
    let spelling = if walked.folds.is_some() { Spelling::Folded } else { Spelling::Exact };
    let (brokered, notified) = broker::rules(order.broker, listens, spelling);
    let refused: &[SyscallRule] = match (&idmap, identity, &brokered) {
        // Files made here get another owner than their creator (id-mapped mounts).
        (Some(_), ..) => SET_IDS,
        // Such a session of root's may pass a descriptor to this one (fd passing), where no broker checks what it refers to.
        (_, Identity::Other { .. }, Brokered::No) if rung.has_view() => SET_IDS,
        _ => &[],
    };
    let syscalls = [plan.syscalls.as_slice(), refused, notified.as_slice()].concat();
    let filter = seccomp::compile(&syscalls).map_err(|e| PrepareError::Filter { source: io::Error::other(e) })?;

    let payload = Payload {
        workdir: c_string(surface.workdir().as_bytes())?,
        program: Program::new(words(order, &caller, identity, signing, (&doors, &secrets), look)?),
        landlock: wall,
        seccomp: filter.program,
        refused,
        pids,
        becomes: match (rung, identity) {
            (Rung::Bwrap | Rung::Chroot, Identity::Other { uid, gid }) => Some((uid, gid)),
            _ => None,
        },
        root: root.map(|root| c_string(root.tree().as_bytes())).transpose()?,
    };

    // What of it holds.
    let wall = payload.landlock.as_ref();
    limits::note_missing(order, group.as_ref(), pids, &mut features);
    if !wall.is_some_and(Wall::keeps_signals) {
        features.note(Feature::LandlockSignals, Finding::missing("this kernel's Landlock keeps no signals inside"));
    }
    if let Err(why @ (BrokerUnavailable::NoListener | BrokerUnavailable::OtherListener)) = listens {
        features.note(Feature::SeccompListener, Finding::missing(why.to_string()));
    }
    let standing = Standing {
        rung,
        landlock: wall.map(|_| &landlock),
        features: &features,
        guards: loose::has_guards(&walked.findings, &mounts, landing),
        watched: rung == Rung::Native && order.occasion == Occasion::Session,
        linked: &walked.linked,
        pids: limits::counts_processes(order, group.as_ref()),
        found: &walked.shortfalls,
        withheld: &withheld,
        broker: listens,
    };
    let receipt = receipt(surface, &standing, order.lines);
    note_shortfalls(order, &receipt).map_err(|source| PrepareError::Given { source })?;

    // How the fence is built.
    let reports = launch::pipe().map_err(|source| PrepareError::Pipe { source })?;
    let unguarded = mounts;
    let mut mounts = guarded_with_broker(surface, &unguarded, &guards, &globs.places);
    change(Last::Mounts(&mut mounts));
    let (mounts, texts) = shown::with_own(order, mounts, identity, client.as_ref(), program, look)?;
    let shape = match rung {
        Rung::Native => Shape::Native(View {
            script: script::script(&mounts, texts, session.dir(), &walked, look, (idmap.is_some(), landing))?,
            idmap,
        }),
        Rung::Bwrap => Shape::Bwrap(Bubble::new(&mounts, session.dir(), &payload, reports.1.as_fd())?),
        Rung::LandlockOnly => Shape::Walls,
        Rung::Chroot => Shape::Root(rooted::stand_ins(root.ok_or(PrepareError::NoRoot)?)),
        Rung::Docker | Rung::Podman => {
            let operator = operator.as_ref().ok_or(NoContainer::NoEngine)?;
            let container = order.container.ok_or(NoContainer::NoEngine)?;
            let owner = owner(identity);
            let wanted = container::Wanted {
                container,
                surface,
                facts,
                mounts: &mounts,
                operator,
                walked: &walked,
                session,
                identity,
                owner,
            };
            Shape::Container(Box::new(Contained::new(&wanted)?))
        }
    };
    let grants = launch::grants(&shape);
    // What is written while it is learned lands nowhere, and a run is short.
    let is_kept = rung == Rung::Native && !matches!(landing, Landing::Nowhere(_));
    let guarded = is_kept.then_some(Guarded { mounts: unguarded, guards });
    let moved_in = root.map(|root| MovedIn::new(root, session.dir())).transpose();
    let moved_in = moved_in.map_err(|source| PrepareError::MoveIn { source })?;
    let network = network(order, doors, secrets).map_err(|source| PrepareError::Pipe { source })?;
    let program_name = Shown(order.command[0].as_bytes()).to_string();
    let wall_time = surface.caps().wall.as_ref().map(|cap| cap.value);
    let lock = session.hold_lock().map_err(|source| PrepareError::Pipe { source })?;
    let clones = Clones::new(used_paths);
    let prepared = Prepared {
        shape,
        identity,
        payload,
        program_name,
        group,
        wall_time,
        network,
        reports,
        lock,
        brokered,
        beside,
        clones,
        journal,
        references,
    };
    let commits = commits(surface, signing);
    let forgetful = client.as_mut().and_then(|client| client.forgetful.take());
    Ok(Ready {
        prepared,
        surface: extended,
        git,
        walked,
        receipt,
        unwritable,
        commits,
        copied,
        grants,
        identity,
        forgetful,
        guarded,
        moved_in,
    })
}

fn commits(surface: &Surface, signing: Signing) -> Commits {
    match signing {
        Signing::Unasked => Commits::AsAsked,
        Signing::AskedByUser => Commits::Unsigned,
        Signing::AskedByRepository if surface.reach().sockets.is_empty() => Commits::Unsigned,
        // The signing agent may be behind one of the sockets.
        Signing::AskedByRepository => Commits::AsAsked,
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

/// What does not hold where sessions cannot be told of each other.
fn unshared(cause: &io::Error) -> Shortfall {
    let reason = "another session or call may move a directory while this one makes a name in it";
    Shortfall {
        claim: Claim::ProtectedLater,
        layer: LayerName::Broker,
        reason: format!("{reason}: they cannot be told of each other ({cause})"),
    }
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
    if order.occasion == Occasion::EmbeddedCall || rung == Rung::Chroot {
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
    if let Some(root) = order.root.filter(|_| rung == Rung::Chroot) {
        for (name, path) in root.manifest().variables() {
            variables.entry(name).or_insert_with(|| path.as_bytes().to_vec());
        }
    }
    let set = order.variables.iter().map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec()));
    variables.extend(set);
    Ok(Words {
        candidates: environment::candidates(order.command[0].as_bytes(), surface.workdir(), &variables),
        arguments: order.command.iter().map(|word| c_string(word.as_bytes())).collect::<Result<_, _>>()?,
        environment: environment::lines(&variables),
    })
}

/// Whether anything is reached, and by which rules.
fn network(order: &Order<'_>, doors: Doors, secrets: Secrets) -> io::Result<Option<Network>> {
    let reach = order.surface.reach();
    let is_empty = reach.hosts.is_empty() && reach.host_ports.is_empty() && doors.listeners.is_empty();
    // Whoever is to learn which hosts are asked for must be asked.
    let is_needed = !is_empty || order.broker == BrokerChoice::Learn;
    if !order.rung.has_way_out() || !is_needed {
        return Ok(None);
    }
    let rules = Rules {
        hosts: reach.hosts.iter().map(|entry| entry.value.clone()).collect(),
        private: reach.private.iter().map(|entry| entry.value.clone()).collect(),
        host_ports: reach.host_ports.iter().map(|entry| entry.value).collect(),
        credentials: secrets.credentials,
    };
    let addresses = if order.rung == Rung::Native { Addresses::Everywhere } else { Addresses::Loopback };
    Ok(Some(Network { rules, addresses, sockets: doors.listeners, channel: ways::channel()? }))
}

/// The session's own directories and the caches, owned by whoever will write them.
pub(crate) fn make_directories(surface: &Surface, session: &Session, identity: Identity) -> Result<(), PrepareError> {
    let is_ours = |effect| matches!(effect, Effect::Write(Role::Cache | Role::Scratch));
    // What a call names in a cache or in the session's own home exists already. The agent writes there: made by us, with every right of
    // ours, a new directory could be behind a link that was planted after the order was read.
    let is_named_by_call = |rule: &Rule, path: &AbsPath| rule.source == Source::Call && !path.is_within(session.dir());
    let rules = surface.rules().iter().filter(|rule| is_ours(rule.effect));
    let paths = rules.filter_map(|rule| Some((rule, rule.pattern.as_path()?)));
    let paths = paths.filter(|(rule, path)| !is_named_by_call(rule, path)).map(|(_, path)| path.clone());
    let paths = paths.chain([session.dir().join("tmp")]);
    let made = ["home", "tmp"].map(|name| session.dir().join(name));
    for path in paths {
        if made.contains(&path) && matches!(identity, Identity::Caller { .. }) {
            continue;
        }
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
