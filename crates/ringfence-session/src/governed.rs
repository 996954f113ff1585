//! A session of a project that governs itself: no layer of the operating system, by the user's own choice.
//!
//! The agents of such a project are part of what governs the others, and a fence would keep them from it. What stays is what
//! needs no fence: the environment is built from nothing, home and temporary files are the session's own, and the client's
//! settings and hooks are those that every session has. Everything else is not held, and the receipt says so.

use std::ffi::OsStr;
use std::io::{self, stderr, stdin, stdout};
use std::os::fd::AsFd as _;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::Command;
use std::time::Duration;

use ringfence_plan::{Receipt, without_fence};
use ringfence_surface::{AbsPath, Look};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

use crate::doors::Doors;
use crate::environment::{self, Own, Variables};
use crate::home::{self, Ground};
use crate::launch::{Ended, Identity, StartError, pipe};
use crate::secrets::Secrets;
use crate::start::{Order, PrepareError, give, make_directories, note_shortfalls, record};
use crate::terminal::{Clock, LastResort, Lifeline, Recipient, Signals, Struck, Terminal, spawn_on, wait_with_signals};
use crate::walk::os_path;

/// A command that is ready to start, without a fence.
#[derive(Debug)]
pub struct Governed {
    /// What holds, and what does not.
    pub receipt: Receipt,
    /// Why the agent remembers nothing of earlier sessions, if it should.
    pub forgetful: Option<io::Error>,
    command: Vec<std::ffi::OsString>,
    variables: Variables,
    workdir: AbsPath,
    limit: Option<Duration>,
}

/// Lays everything out. The order's rung must be one without a view.
///
/// # Errors
/// [`PrepareError`]; nothing was started.
pub fn prepare(order: &Order<'_>, look: &mut dyn Look) -> Result<Governed, PrepareError> {
    let Order { surface, facts, rung, session, .. } = *order;
    if order.command.is_empty() {
        return Err(PrepareError::NoCommand);
    }
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    make_directories(surface, session, Identity::Caller { uid, gid })?;
    give(order)?;
    record(order)(order.surface)?;
    let caller: Variables = std::env::vars_os().map(|(name, value)| (name.into_vec(), value.into_vec())).collect();
    let secrets = Secrets::read(surface, rung, &caller);
    let ground = Ground { surface, facts, caller: &caller, owner: None };
    let home = |source| PrepareError::Home { source };
    let signing = home::furnish(&ground, session.dir(), look).map_err(home)?;
    let written = order.client.map(|client| client.write(session.dir(), None)).transpose().map_err(home)?;
    let doors = Doors::open(surface, rung, session.dir(), None, look);
    let doors = doors.map_err(|source| PrepareError::Socket { source })?;
    let client = order.client.map(|client| client.plan.variables.as_slice()).unwrap_or_default();
    let tmp = session.dir().join("tmp");
    let own = Own {
        given: Some(crate::given::dir(session.dir())),
        session: session.dir(),
        name: session.name(),
        tmp: &tmp,
        user: None,
        signing,
        doors: &doors,
        secrets: &secrets,
        client,
    };
    let variables = environment::build(&caller, surface, facts, look, &own);
    let mut receipt = without_fence(surface);
    receipt.withheld.extend(secrets.withheld.iter().cloned());
    note_shortfalls(order, &receipt).map_err(|source| PrepareError::Given { source })?;
    Ok(Governed {
        receipt,
        forgetful: written.and_then(|written| written.forgetful),
        command: order.command.to_vec(),
        variables,
        workdir: surface.workdir().clone(),
        limit: surface.caps().wall.as_ref().map(|cap| cap.value),
    })
}

impl Governed {
    /// Starts it and waits for its end. What it started and left running is ended with it as far as it stayed in its group.
    ///
    /// # Errors
    /// When it could not be started.
    pub fn run(self) -> Result<Ended, StartError> {
        let failed = |what: &'static str| move |source| StartError::Prepare { what, source };
        let program = self.program().ok_or_else(|| StartError::NotFound { program: self.name() })?;
        let mut command = Command::new(OsStr::from_bytes(&program));
        command.arg0(&self.command[0]).args(&self.command[1..]).current_dir(os_path(&self.workdir)).env_clear();
        command.envs(self.variables.iter().map(|(name, value)| (OsStr::from_bytes(name), OsStr::from_bytes(value))));
        let terminal = Terminal::open(stdin().as_fd(), stdout().as_fd(), stderr().as_fd());
        let terminal = terminal.map_err(failed("setting up the terminal"))?;
        let signals = Signals::block().map_err(failed("signals"))?;
        let mut child = spawn_on(terminal.as_ref(), &signals, command).map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => StartError::NotFound { program: self.name() },
            _ => StartError::NotExecutable { program: self.name(), source },
        })?;
        let leader = Pid::from_child(&child);
        let done = pidfd_open(leader, PidfdFlags::empty()).map_err(|errno| failed("waiting")(errno.into()))?;
        // When the clock lets go of its end, whoever waits at the other ends the group.
        let (watched, alive) = pipe().map_err(failed("pipe2"))?;
        let watcher = std::thread::spawn(move || {
            let _ = rustix::io::read(&watched, &mut [0; 1]);
            let _ = kill_process_group(leader, Signal::KILL);
        });
        let mut clock = Clock::new(self.limit, Some(Lifeline::new(alive)), LastResort::Kill);
        let to = Recipient::Group(leader);
        match terminal {
            Some(terminal) => terminal.into_relay(&signals).run(done.as_fd(), to, &mut clock),
            None => wait_with_signals(&signals, done.as_fd(), to, &mut clock),
        }
        .map_err(failed("waiting"))?;
        let out_of_time = clock.struck() != Struck::Not;
        // Its number is its group's, and nobody else can have it while it is not waited for.
        drop(clock);
        let _ = watcher.join();
        let status = child.wait().map_err(failed("waiting"))?;
        let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(125);
        Ok(Ended {
            code: u8::try_from(code).unwrap_or(125),
            signal: status.signal().and_then(|signal| u8::try_from(signal).ok()),
            out_of_time,
            stopped: false,
            session_over: false,
            refusals: Default::default(),
            lost: Vec::new(),
        })
    }

    fn name(&self) -> String {
        ringfence_surface::Shown(self.command[0].as_bytes()).to_string()
    }

    /// The first file of that name in the session's own PATH.
    fn program(&self) -> Option<Vec<u8>> {
        let found = environment::candidates(self.command[0].as_bytes(), &self.workdir, &self.variables);
        let is_there =
            |path: &std::ffi::CString| rustix::fs::access(path.as_c_str(), rustix::fs::Access::EXEC_OK).is_ok();
        found.into_iter().find(is_there).map(std::ffi::CString::into_bytes)
    }
}
