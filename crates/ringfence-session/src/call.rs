//! One call within a session: a fence of its own, never wider than the session's.
//!
//! A call is laid out as a session is, from the session's Surface made tighter. It has namespaces, a home, temporary files, an
//! environment and a way out of its own; of the session's home, where an agent keeps what it runs and what it logs in with, it
//! sees nothing. Where no namespaces are to be had, as inside a fence, a further layer of Landlock and a further filter stand
//! in their place, and what those do not hold is said.
//!
//! Nothing that was found out for one call is kept for the next: the agent has changed the files meanwhile.

use std::ffi::OsString;
use std::io;

use ringfence_plan::{Claim, Fence, Lines, Plan, Rung, Shortfall, claims, compile, syscalls};
use ringfence_surface::policy::Mode;
use ringfence_surface::{AbsPath, ContainerChoice, HostFacts, Look, SubPolicy, Surface, Widens};

use crate::alive::{self, Found, NotWithin, Watched};
use crate::container::{EngineHere, InContainer};
use crate::given;
use crate::launch::{Ended, Running, StartError};
use crate::look::facts_of;
use crate::record::Record;
use crate::review;
use crate::start::{BrokerChoice, Changes, Occasion, Order, PrepareError, Ready, prepare};
use crate::store::Session;
use crate::walk::os_path;

/// Why a call was not made. Nothing was started.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The session has a root of its own, and a call from outside would see the host's programs.
    #[error("calls cannot be made within a session that has a root of its own")]
    InRoot,
    /// It asks for more than the session has.
    #[error("this call would be wider than its session")]
    Widens(#[from] Widens),
    /// Without namespaces of its own a call has the session's network or none.
    #[error("without namespaces a call has all of its session's network, or none of it")]
    PartOfTheNetwork,
    /// There is no place for what is the call's own.
    #[error("cannot make a directory in {state}")]
    Own {
        /// Where.
        state: AbsPath,
        /// Why.
        source: io::Error,
    },
    /// It could not be laid out.
    #[error("cannot prepare the fence")]
    Prepare(#[from] PrepareError),
    /// It could not be started.
    #[error("cannot start inside the fence")]
    Start(#[from] StartError),
}

/// Where calls are made from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// From the host.
    Outside,
    /// From inside the session's own fence, which goes on to hold.
    Inside,
}

/// What calls are made within.
#[derive(Debug, Clone)]
pub struct Within {
    /// What the session may touch.
    pub surface: Surface,
    /// Who calls, and on which host. What stands at paths is looked up for each call.
    pub facts: HostFacts,
    /// Below it each call has a directory of its own.
    pub state: AbsPath,
    /// Where calls are made from.
    pub side: Side,
    /// How a call's fence is built.
    pub rung: Rung,
    /// How the session's is.
    pub session_rung: Rung,
    /// Who works in it where root calls: user and group.
    pub user: Option<(u32, u32)>,
    /// The container engine, where calls run in containers.
    pub container: Option<WithinContainer>,
}

/// Containers for calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WithinContainer {
    /// The engine.
    pub here: EngineHere,
    /// The image and the operator's mounts; the host's own programs where nobody says.
    pub choice: Option<ContainerChoice>,
    /// ringfence itself, where the caller is another program.
    pub program: Option<AbsPath>,
}

/// A call that is ready to be made.
pub struct Laid {
    ready: Ready,
    /// Goes last: it is where everything lies.
    session: Session,
    /// What the call may touch.
    pub surface: Surface,
    /// What of it does not hold, beyond what the session has said of itself.
    pub short: Vec<Shortfall>,
}

impl Within {
    /// A session of the caller's that runs, and what calls in it are made within.
    ///
    /// # Errors
    /// [`NotWithin`].
    pub fn session(name: &str, facts: HostFacts) -> Result<(Self, Found), NotWithin> {
        let own = facts.own_directories().state;
        // Without a view, those who work for root go through this one.
        let shared = rustix::process::geteuid().is_root().then(|| AbsPath::root().join("var/lib/ringfence"));
        let states: Vec<AbsPath> = own.into_iter().chain(shared).collect();
        let found = alive::within(&states, name)?;
        if review::is_on(found.dir()) {
            return Err(NotWithin::Review { name: found.name().to_owned() });
        }
        let Record { surface, rung: session_rung, .. } = Record::read(&given::dir(found.dir()).join(given::RECORD))?;
        let look = |source| NotWithin::Look { dir: found.dir().clone(), source };
        let user = worker(found.dir()).map_err(look)?;
        let state = found.dir().parent().and_then(|sessions| sessions.parent()).unwrap_or_else(AbsPath::root);
        let (side, rung) = (Side::Outside, Rung::Native);
        Ok((Self { surface, facts, state, side, rung, session_rung, user, container: None }, found))
    }

    /// Lays out one call. `occasion` says on which streams it will be.
    ///
    /// # Errors
    /// [`CallError`].
    pub fn lay_out(
        &self,
        policy: &SubPolicy,
        command: &[OsString],
        occasion: Occasion,
        look: &mut dyn Look,
    ) -> Result<Laid, CallError> {
        self.lay_out_with(policy, (command, &[]), occasion, look)
    }

    /// The same with variables that whoever calls sets itself. They are not the session's, and no policy is asked about them.
    ///
    /// # Errors
    /// [`CallError`].
    pub fn lay_out_with(
        &self,
        policy: &SubPolicy,
        (command, variables): (&[OsString], &[(OsString, OsString)]),
        occasion: Occasion,
        look: &mut dyn Look,
    ) -> Result<Laid, CallError> {
        if self.session_rung == Rung::Chroot {
            return Err(CallError::InRoot);
        }
        let made = Session::create_call(&self.state);
        let session = made.map_err(|source| CallError::Own { state: self.state.clone(), source })?;
        let closed = SubPolicy { scratch: Some(session.dir().clone()), ..self.closed(policy) };
        let surface = self.surface.tighten(&closed)?;
        let facts = facts_of(&surface, self.facts.clone(), look);
        let plan = self.plan(&surface, &facts, policy)?;
        let order = Order {
            surface: &surface,
            facts: &facts,
            plan: &plan,
            rung: self.rung,
            session: &session,
            command,
            user: self.user,
            client: None,
            agent: None,
            mode: Mode::AcceptEdits,
            lines: Lines::Short,
            occasion,
            variables,
            root: None,
            broker: BrokerChoice::On,
            changes: Changes::Land,
            container: self.container.as_ref().map(|container| InContainer {
                here: &container.here,
                choice: container.choice.as_ref(),
                program: container.program.as_ref(),
            }),
        };
        let ready = prepare(&order, look)?;
        let short = self.short(policy, &ready);
        Ok(Laid { ready, session, surface, short })
    }

    /// Beside what it asks for itself, no call reads what ringfence keeps for its user: the state is closed to everybody, and the
    /// configuration is readable where the whole host is.
    fn closed(&self, policy: &SubPolicy) -> SubPolicy {
        let mut policy = policy.clone();
        policy.deny.extend(self.surface.own_configuration().cloned());
        policy
    }

    fn plan(&self, surface: &Surface, facts: &HostFacts, policy: &SubPolicy) -> Result<Plan, CallError> {
        let mut plan = compile(surface, facts, self.rung);
        if self.side == Side::Inside && self.rung == Rung::LandlockOnly {
            let is_narrowed = policy.hosts.is_some() || policy.host_ports.is_some() || policy.sockets.is_some();
            plan.syscalls = match reached(surface) {
                // The namespaces that bound the session bound this too, so its sockets are no worse than the session's. What else is
                // shared in them (System V IPC, the scheduling of processes) is the session's and not the call's.
                wants if !is_narrowed || !wants.is_empty() && wants == reached(&self.surface) => {
                    syscalls(Fence::SessionNamespaces)
                }
                wants if wants.is_empty() => syscalls(Fence::LandlockOnly),
                _ => return Err(CallError::PartOfTheNetwork),
            };
        }
        Ok(plan)
    }

    /// What does not hold, beyond what the session has said of itself. Inside, the session's own fence goes on to hold what it has
    /// held so far.
    fn short(&self, policy: &SubPolicy, ready: &Ready) -> Vec<Shortfall> {
        let all = ready.receipt.shortfalls().cloned();
        if self.side == Side::Outside && self.rung != self.session_rung {
            return all.collect();
        }
        let said = claims(&self.surface);
        let hides = policy.read.is_some() || !policy.deny.is_empty();
        let counts = |short: &Shortfall| match &short.claim {
            // These speak of everything else, and there is more of that than for the session.
            Claim::MetadataStays => !self.rung.has_view() && (policy.write.is_some() || hides),
            Claim::NothingElseIsSeen => !self.rung.has_view() && hides,
            // What is left of the network is the session's, or nothing.
            Claim::OnlyTheseHosts { .. } if self.side == Side::Inside => false,
            // A session has a broker where a program with several threads has none for its calls.
            Claim::ProtectedLater => self.side == Side::Outside,
            // Nobody counts a call from outside together with its session: that the session's limit holds says nothing of it.
            Claim::Memory { .. } | Claim::Processes { .. } if self.side == Side::Outside => true,
            other => !said.contains(other),
        };
        all.filter(counts).collect()
    }
}

/// Everything that a Surface reaches, in words.
fn reached(surface: &Surface) -> Vec<String> {
    let reach = surface.reach();
    let hosts = reach.hosts.iter().map(|entry| entry.value.to_string());
    let ports = reach.host_ports.iter().map(|entry| entry.value.to_string());
    let sockets = reach.sockets.iter().map(|entry| entry.value.to_string());
    let mut all: Vec<String> = hosts.chain(ports).chain(sockets).collect();
    all.sort();
    all
}

impl Laid {
    /// What is hidden although no rule denies it, and what else was found on the way.
    pub fn ready(&self) -> &Ready {
        &self.ready
    }

    /// Makes the call on the caller's own streams, and waits for its end. It ends when `watched` does.
    ///
    /// # Errors
    /// [`StartError`] when nothing was started.
    pub fn run(self, watched: Option<Watched>) -> Result<Ended, StartError> {
        let Self { ready, session, surface, .. } = self;
        let ended = ready.prepared.run(&surface, watched);
        drop(session);
        ended
    }

    /// Makes the call on these streams.
    ///
    /// # Errors
    /// [`StartError`] when nothing was started.
    pub fn start(self, streams: [std::os::fd::OwnedFd; 3]) -> Result<Call, StartError> {
        let Self { ready, session, surface, .. } = self;
        Ok(Call { running: ready.prepared.start(&surface, streams)?, session })
    }
}

/// A call that is being made. When this is dropped before its end, it is ended.
pub struct Call {
    running: Running,
    session: Session,
}

impl Call {
    /// The process that waits for it.
    pub fn running(&self) -> &Running {
        &self.running
    }

    /// Waits for its end; then nothing of it is left.
    ///
    /// # Errors
    /// When somebody else has waited for it.
    pub fn wait(self) -> Result<Ended, StartError> {
        let Self { running, session } = self;
        let ended = running.wait();
        drop(session);
        ended
    }
}

/// Who works in a session that root has started: whoever its home was given to.
///
/// # Errors
/// When its home is not there.
pub fn worker(session: &AbsPath) -> io::Result<Option<(u32, u32)>> {
    use std::os::unix::fs::MetadataExt as _;
    if !rustix::process::geteuid().is_root() {
        return Ok(None);
    }
    let home = std::fs::symlink_metadata(os_path(&session.join("home")))?;
    Ok((home.uid() != 0).then(|| (home.uid(), home.gid())))
}
