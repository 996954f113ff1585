//! Tries for real what a layer claims: starts the layer around one process of ours, has it do every deed in a tree of canaries,
//! and gives back what came of each.
//!
//! What is tried and what must come of it is data from `ringfence_plan::verify`. The tree lies in a directory of ringfence's own
//! state, as a call's does: it goes with the [`Session`], and what a killed one left is collected.

mod deeds;
mod outsiders;
mod rooted;
mod tree;
mod wire;

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::net::UnixListener;
use std::time::{Duration, Instant};

use ringfence_plan::verify::{Came, Deed, Said};
use ringfence_plan::{LandlockRule, Lines, Plan, Receipt, Rights, Rung, compile};
use ringfence_surface::policy::Mode;
use ringfence_surface::{AbsPath, Effect, HostFacts, Role, Surface};
use ringfence_sys::process;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::container::{InContainer, NoEngine};
use crate::given;
use crate::identity::identity;
use crate::launch::{self, Identity, StartError};
use crate::look::{Live, facts_of};
use crate::roots::RootError;
use crate::start::{BrokerChoice, Changes, Last, Occasion, Order, PrepareError, prepare_with};
use crate::store::Session;
use crate::walk::os_path;

pub use deeds::{COMMAND, run};
pub use outsiders::Outsiders;
pub use rooted::Rooted;
pub use tree::{Tree, differences};

/// What every canary holds.
const CANARY: &[u8] = b"ringfence canary\n";

/// What is in a file that is made: no grammar of git takes it, and it names nothing that may be read.
const HOSTILE: &[u8] = b"/proc/1/root/ringfence\n";

/// What somebody of the host's says to whoever connects.
const GREETING: &[u8; 9] = b"ringfence";

/// How long one deed may take.
const SILENCE: Duration = Duration::from_secs(20);

/// Why a layer could not be tried.
#[derive(Debug, thiserror::Error)]
pub enum NotTried {
    /// The tree could not be made.
    #[error("cannot make canaries in {place}")]
    Tree {
        /// Where.
        place: AbsPath,
        /// Why.
        source: io::Error,
    },
    /// No root could be made for it, or the one that was named cannot be used.
    #[error("there is no root to try it in")]
    Root(#[from] RootError),
    /// The container engine is not there.
    #[error("the container engine cannot be used")]
    Engine(#[from] NoEngine),
    /// It could not be laid out.
    #[error("cannot prepare the fence")]
    Prepare(#[from] PrepareError),
    /// It could not be started.
    #[error("cannot start inside the fence")]
    Start(#[from] StartError),
    /// Whoever is inside could not be talked to.
    #[error("cannot talk to whoever is inside")]
    Talk {
        /// Why.
        source: io::Error,
    },
    /// Whoever is inside got no further.
    #[error("whoever tries it got no further than {done} of {of}: {next}")]
    Stopped {
        /// How many were answered.
        done: usize,
        /// How many there are.
        of: usize,
        /// The first that was not.
        next: Deed,
    },
}

impl NotTried {
    /// Is it the host that does not carry this layer?
    pub fn is_the_hosts(&self) -> bool {
        match self {
            Self::Prepare(cause) => cause.is_the_hosts(),
            Self::Start(StartError::NoRight) => true,
            Self::Start(cause) => cause.is_the_hosts(),
            Self::Engine(_) => true,
            Self::Tree { .. } | Self::Talk { .. } | Self::Stopped { .. } | Self::Root(_) => false,
        }
    }
}

/// One layer, and everything that is tried in it.
pub struct Trying<'a> {
    /// What may be touched; about the tree.
    pub surface: &'a Surface,
    /// On which host.
    pub facts: &'a HostFacts,
    /// How the fence is built.
    pub rung: Rung,
    /// Where everything else of it lies.
    pub session: &'a Session,
    /// The tree. Deeds are undone at once, so that it can be used again: see [`Tree::set_right`].
    pub tree: &'a Tree,
    /// What is tried.
    pub deeds: &'a [&'a Deed],
    /// Whoever stands outside, if anybody is to be reached for.
    pub outsiders: Option<&'a Outsiders>,
    /// The container engine, where the fence is made by one.
    pub container: Option<InContainer<'a>>,
    /// The root that it is tried in, where the fence is built of one; the tree is in its work.
    pub rooted: Option<&'a Rooted>,
    /// Whether calls that change files are brokered, where that can be had. Without it the walls are tried by themselves: a
    /// broker before them would hide whether they stand.
    pub broker: BrokerChoice,
    /// Who runs it where root starts it.
    pub user: Option<(u32, u32)>,
}

/// What came of it.
#[derive(Debug, Clone)]
pub struct Tried {
    /// What the layer said of itself.
    pub receipt: Receipt,
    /// The same, and what else it said.
    pub said: Said,
    /// What came of each deed.
    pub came: Vec<Came>,
}

impl Tried {
    /// What came of each, where something came of all of them: of one that was not tried nothing is shown.
    ///
    /// # Errors
    /// [`NotTried::Stopped`].
    pub fn whole(self, deeds: &[&Deed]) -> Result<Self, NotTried> {
        match self.came.iter().position(|came| *came == Came::NotTried) {
            Some(done) => Err(NotTried::Stopped { done, of: deeds.len(), next: deeds[done].clone() }),
            None => Ok(self),
        }
    }
}

impl Trying<'_> {
    /// Starts the layer and does every deed in it. `progress` is told how many are done.
    ///
    /// # Errors
    /// [`NotTried`]. Nothing is left but what the session's directory holds.
    pub fn run(&self, progress: &mut dyn FnMut(usize)) -> Result<Tried, NotTried> {
        self.run_with(&mut |_| (), progress)
    }

    /// The same with a fence that is changed at the last moment: for tests that break it on purpose.
    ///
    /// # Errors
    /// As [`Trying::run`].
    pub fn run_with(
        &self,
        change: &mut dyn FnMut(Last<'_>),
        progress: &mut dyn FnMut(usize),
    ) -> Result<Tried, NotTried> {
        let facts = facts_of(self.surface, self.facts.clone(), &mut Live::new());
        let plan = compile(self.surface, &facts, self.rung);
        let mut command = match self.rooted {
            Some(rooted) => rooted.words(),
            None => {
                let program = given::dir(self.session.dir()).join(given::PROGRAM);
                vec![OsString::from_vec(program.as_bytes().to_vec())]
            }
        };
        command.push(COMMAND.into());
        self.lend_caches()?;
        let order = Order {
            surface: self.surface,
            facts: &facts,
            plan: &plan,
            rung: self.rung,
            session: self.session,
            command: &command,
            user: self.user,
            client: None,
            agent: None,
            mode: Mode::Auto,
            lines: Lines::All,
            occasion: Occasion::CapturedCall,
            variables: &[],
            container: self.container,
            root: self.rooted.map(Rooted::root),
            broker: self.broker,
            changes: Changes::Land,
        };
        settle();
        let ready = prepare_with(&order, &mut Live::new(), &mut |mut last| {
            if let (Last::Landlock(landlock), Some(rooted)) = (&mut last, self.rooted) {
                landlock.rules.push(LandlockRule { path: rooted.programs.clone(), rights: Rights::Read });
            }
            change(last);
        })?;
        let said = said(&ready, &plan);
        let receipt = ready.receipt.clone();
        let talk = |source: io::Error| NotTried::Talk { source };
        let input = self.orders().map_err(talk)?;
        let (answers, output) = launch::pipe().map_err(talk)?;
        let errors = File::options().write(true).open("/dev/null").map_err(talk)?;
        let running = ready.prepared.start(self.surface, [input.into(), output, errors.into()])?;
        let lifeline = running.lifeline();
        let numbers =
            Conversation { listeners: self.tree.listeners(), outsiders: self.outsiders, answers: File::from(answers) }
                .hear(self.deeds.len(), progress)
                .map_err(talk);
        lifeline.cut();
        running.wait()?;
        let numbers = numbers?;
        let mut came: Vec<Came> = numbers.chunks_exact(4).map(from_bytes).collect();
        came.resize(self.deeds.len(), Came::NotTried);
        Ok(Tried { receipt, said, came })
    }

    /// What lies in the project's caches was made by whoever works.
    fn lend_caches(&self) -> Result<(), NotTried> {
        let worker = match (self.user, identity(self.surface.root())) {
            (Some(user), _) => user,
            (None, Identity::Other { uid, gid }) => (uid, gid),
            (None, Identity::Caller { .. }) => return Ok(()),
        };
        let caches = self.surface.rules().iter().filter(|rule| rule.effect == Effect::Write(Role::Cache));
        let caches: Vec<&AbsPath> = caches.filter_map(|rule| rule.pattern.as_path()).collect();
        self.tree.lend(worker, |path| caches.iter().any(|cache| path.is_within(cache)))
    }

    /// The orders, in a file that nobody else can open.
    fn orders(&self) -> io::Result<File> {
        let path = self.session.dir().join("orders");
        let mut file = File::options().read(true).write(true).create_new(true).open(os_path(&path))?;
        fs::remove_file(os_path(&path))?;
        file.write_all(&wire::orders(self.deeds))?;
        file.rewind()?;
        Ok(file)
    }
}

/// A way out that has ended leaves its thread to the kernel for a moment, and a process with threads has no broker.
fn settle() {
    let until = Instant::now() + Duration::from_secs(1);
    while process::has_threads().unwrap_or(false) && Instant::now() < until {
        std::thread::sleep(Duration::from_micros(200));
    }
}

fn from_bytes(bytes: &[u8]) -> Came {
    <[u8; 4]>::try_from(bytes).map_or(Came::NotTried, |bytes| Came::from_number(i32::from_le_bytes(bytes)))
}

/// What a layer says of itself before anything is tried.
fn said(ready: &crate::start::Ready, plan: &Plan) -> Said {
    let mut said = Said::of(&ready.receipt);
    said.less.extend(plan.skipped.iter().map(|one| (one.pattern.clone(), one.why.words().to_owned())));
    said.hidden = ready.walked.hidden.iter().map(|one| (one.path.clone(), one.why.words().to_owned())).collect();
    said.unwritable = ready.unwritable.as_ref().map(|cause| format!("the project cannot be written inside: {cause}"));
    said
}

/// Whoever is inside answers, and others outside are reached for meanwhile. All in one thread: a process with several is not
/// copied with ease.
struct Conversation<'a> {
    listeners: &'a [UnixListener],
    outsiders: Option<&'a Outsiders>,
    answers: File,
}

impl Conversation<'_> {
    /// Reads until everything was answered, or nobody answers any more.
    fn hear(mut self, count: usize, progress: &mut dyn FnMut(usize)) -> io::Result<Vec<u8>> {
        let mut heard = Vec::with_capacity(count * 4);
        let most = Timespec::try_from(SILENCE).unwrap_or_default();
        let mut bytes = [0; 4096];
        while heard.len() < count * 4 {
            let others = self.listeners.iter().map(|one| one.as_fd());
            let others: Vec<BorrowedFd<'_>> =
                others.chain(self.outsiders.into_iter().flat_map(Outsiders::listeners)).collect();
            let fds = std::iter::once(self.answers.as_fd()).chain(others.iter().copied());
            let mut fds: Vec<PollFd<'_>> = fds.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
            match poll(&mut fds, Some(&most)) {
                Ok(0) => break,
                Ok(_) => {}
                Err(rustix::io::Errno::INTR) => continue,
                Err(errno) => return Err(errno.into()),
            }
            let is_ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
            drop(fds);
            others
                .iter()
                .zip(&is_ready[1..])
                .filter(|(_, is_ready)| **is_ready)
                .for_each(|(fd, _)| outsiders::greet(*fd));
            if is_ready[0] {
                match self.answers.read(&mut bytes)? {
                    0 => break,
                    got => heard.extend_from_slice(&bytes[..got]),
                }
                progress(heard.len() / 4);
            }
        }
        Ok(heard)
    }
}
