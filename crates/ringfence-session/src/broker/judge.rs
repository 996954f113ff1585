//! Whether a call may be carried out, and what is told of those that may not.
//!
//! The Surface decides; what was given while the session runs comes beside it. What is refused is told to the supervisor, and
//! where somebody is there to be asked the call waits.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};
use std::time::{Duration, Instant};

use ringfence_surface::{
    AbsPath, Access, Because, Effect, FoldedSurface, Outcome as Decision, Role, Rule, Source, Surface, Verdict,
};
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};

use super::caller::{Caller, CallerNames};
use super::domain::LandingRight;
use super::wire::{Report, Said, Told};
use super::{Spelling, Telling};
use crate::git_files::HostView;
use crate::landing::{Landing, NotLanded, Outcome};
use crate::ways;
use rustix::fs::MemfdFlags;

/// What the supervisor says is a number or a path at most.
const LONGEST_TOLD: usize = 8 << 10;
/// So many different things that were looked for are told, and each so often.
const MOST_MISSED: usize = 50_000;
const OFTEN: u32 = 1_000;
/// The supervisor is not waited for longer.
const LONGEST_LANDING: Duration = Duration::from_secs(30);

/// Decides, and tells.
#[derive(Debug)]
pub(super) struct Judge<'s> {
    surface: &'s Surface,
    /// May a directory take different spellings for one name? See [`crate::folded`].
    folds: AtomicBool,
    /// The rules as they hold there.
    folded: OnceLock<Box<FoldedSurface<'s>>>,
    /// The supervisor, where there is one that listens.
    supervisor: Option<OwnedFd>,
    /// How many refusals could not be told.
    lost: AtomicU64,
    state: Mutex<State>,
    answered: Condvar,
    /// Held by whoever hears what the supervisor says.
    hearing: Mutex<()>,
    telling: Telling,
    /// How often something that was looked for was told.
    missed: Mutex<BTreeMap<AbsPath, u32>>,
    /// The rules by which something was written, by where they are.
    wrote: RwLock<BTreeSet<usize>>,
}

#[derive(Debug)]
struct State {
    /// What was given while the session runs, and what may be touched with it.
    given: Vec<(AbsPath, Surface)>,
    patience: Option<Duration>,
    next: u64,
    /// The questions that wait, with their answers.
    questions: BTreeMap<u64, Option<bool>>,
    /// Changes that the supervisor is asked to make, with what came of them.
    landings: BTreeMap<u64, Option<Landed>>,
}

/// What came of a change, and which file it is about where the request did not say.
type Landed = (Outcome, Option<AbsPath>);

/// Is it carried out?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ruling<'s> {
    Allowed,
    Refused(Verdict<'s>),
}

impl Ruling<'_> {
    pub(super) fn is_allowed(&self) -> bool {
        matches!(self, Self::Allowed)
    }
}

impl<'s> Judge<'s> {
    pub(super) fn new(surface: &'s Surface, supervisor: Option<OwnedFd>, telling: Telling, spelling: Spelling) -> Self {
        let state =
            State { given: Vec::new(), patience: None, next: 0, questions: BTreeMap::new(), landings: BTreeMap::new() };
        Self {
            surface,
            folds: AtomicBool::new(spelling == Spelling::Folded),
            folded: OnceLock::new(),
            supervisor,
            lost: AtomicU64::new(0),
            state: Mutex::new(state),
            answered: Condvar::new(),
            hearing: Mutex::new(()),
            telling,
            missed: Mutex::new(BTreeMap::new()),
            wrote: RwLock::new(BTreeSet::new()),
        }
    }

    pub(super) fn surface(&self) -> &'s Surface {
        self.surface
    }

    pub(super) fn supervisor(&self) -> Option<BorrowedFd<'_>> {
        self.supervisor.as_ref().map(OwnedFd::as_fd)
    }

    /// May this be changed?
    pub(super) fn rule(&self, path: &AbsPath, access: Access) -> Ruling<'s> {
        let verdict = self.surface.decide(path, access);
        let is_allowed = verdict.is_allowed() || self.is_given(path, access, &verdict);
        let rules = is_allowed.then(|| self.folded()).flatten();
        if let Some(rule) = rules.and_then(|rules| crate::folded::taken_away(rules, path, access)) {
            return Ruling::Refused(Verdict { outcome: Decision::Deny, because: Because::Rule(rule), ask: None });
        }
        if is_allowed {
            if let (Because::Rule(rule), Access::Write) = (verdict.because, access) {
                self.wrote(rule);
            }
            Ruling::Allowed
        } else {
            Ruling::Refused(verdict)
        }
    }

    /// The rules for directories that fold names, where there may be one.
    pub(super) fn folded(&self) -> Option<&FoldedSurface<'s>> {
        let is_needed = self.folds.load(Ordering::Relaxed);
        is_needed.then(|| &**self.folded.get_or_init(|| Box::new(FoldedSurface::new(self.surface))))
    }

    /// Tells once that something is written by a rule that somebody may take back.
    fn wrote(&self, rule: &Rule) {
        let is_of_the_policy = matches!(rule.effect, Effect::Write(Role::WorkingDir | Role::Write | Role::Sibling));
        let number = std::ptr::from_ref(rule).addr();
        if !is_of_the_policy || self.wrote.read().unwrap_or_else(PoisonError::into_inner).contains(&number) {
            return;
        }
        if rule.pattern.to_string().len() < LONGEST_TOLD && self.say(&Said::Wrote { rule: rule.pattern.to_string() }) {
            self.wrote.write().unwrap_or_else(PoisonError::into_inner).insert(number);
        }
    }

    /// What nothing takes away may be given later. What floats below every root holds below what is given too.
    fn is_given(&self, path: &AbsPath, access: Access, verdict: &Verdict<'_>) -> bool {
        let is_hidden = |with: &Surface| {
            let folds = self.folds.load(Ordering::Relaxed);
            folds && crate::folded::taken_away(&FoldedSurface::new(with), path, access).is_some()
        };
        let is_allowed = |(given, with): &(AbsPath, Surface)| {
            path.is_within(given) && with.decide(path, access).is_allowed() && !is_hidden(with)
        };
        if !matches!(verdict.because, Because::OnlyReadable(_) | Because::View(_)) {
            return false;
        }
        // Whoever was told of a grant may use it at once, and what was taken away counts no longer.
        self.catch_up();
        self.state().given.iter().any(is_allowed)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells of a refusal. Nobody is waited for.
    pub(super) fn refused(
        &self,
        caller: &Caller<'_>,
        call: &str,
        path: &AbsPath,
        (access, verdict): (Access, &Verdict<'_>),
        errno: Errno,
    ) {
        if self.supervisor.is_none() {
            return;
        }
        let report = self.report(caller, call, path, (access, verdict), Some(errno));
        self.say(&Said::Refused(report));
    }

    /// Tells of something that was looked for: it is not there (`errno`), or is there only while it is learned. What comes again
    /// and again is told so often that it is known to.
    pub(super) fn looked(
        &self,
        caller: &Caller<'_>,
        call: &str,
        path: &AbsPath,
        (access, verdict): (Access, &Verdict<'_>),
        errno: Option<Errno>,
    ) {
        let mut missed = self.missed.lock().unwrap_or_else(PoisonError::into_inner);
        if missed.len() >= MOST_MISSED && !missed.contains_key(path) {
            self.lost.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let times = missed.entry(path.clone()).or_insert(0);
        *times += 1;
        let is_told = *times <= OFTEN;
        drop(missed);
        if is_told {
            self.say(&Said::Looked(self.report(caller, call, path, (access, verdict), errno)));
        }
    }

    /// Tells that a socket was not reached, since nobody inside made it.
    pub(super) fn unreached(&self, caller: &Caller<'_>, call: &str, path: Option<&AbsPath>) {
        let path = path.cloned().unwrap_or_else(AbsPath::root);
        let remedy = format!("name it in the policy: [network] sockets = [\"{path}\"]");
        self.stopped(caller.known(), call, path, ("a unix socket that was not made inside".to_owned(), remedy));
    }

    /// Tells of something that no rule forbids by itself: why it was not done, and what can be done instead.
    pub(super) fn stopped(&self, caller: CallerNames, call: &str, path: AbsPath, (rule, remedy): (String, String)) {
        if self.supervisor.is_none() {
            return;
        }
        let CallerNames { pid, program, command } = caller;
        self.say(&Said::Refused(Report {
            pid,
            started: 0,
            program,
            command,
            call: call.to_owned(),
            path,
            access: Access::Write,
            rule,
            source: String::new(),
            remedy,
            errno: u16::try_from(Errno::ACCESS.raw_os_error()).ok(),
        }));
    }

    /// Is there somebody to ask?
    pub(super) fn asks(&self) -> bool {
        // It was said before the first call could be made, and may not have been heard.
        self.catch_up();
        self.supervisor.is_some() && self.state().patience.is_some()
    }

    /// Asks, where there is somebody to ask, and waits for the answer. `is_waiting` says whether the caller still does.
    pub(super) fn ask(
        &self,
        caller: &Caller<'_>,
        call: &str,
        path: &AbsPath,
        (access, verdict): (Access, &Verdict<'_>),
        is_waiting: impl Fn() -> bool,
    ) -> bool {
        if !can_be_asked(verdict) {
            return false;
        }
        let mut state = self.state();
        let Some(patience) = state.patience.filter(|_| self.supervisor.is_some()) else { return false };
        let id = state.next;
        state.next += 1;
        state.questions.insert(id, None);
        drop(state);
        let mut report = self.report(caller, call, path, (access, verdict), None);
        // A yes may be for this process alone, and outlive it.
        report.started = caller.started().unwrap_or_default();
        if !self.say(&Said::Ask { id, report }) {
            self.state().questions.remove(&id);
            return false;
        }
        let until = Instant::now() + patience;
        let mut state = self.state();
        loop {
            if let Some(Some(allowed)) = state.questions.get(&id).copied() {
                state.questions.remove(&id);
                return allowed;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || !is_waiting() {
                state.questions.remove(&id);
                drop(state);
                self.say(&Said::Withdrawn { id });
                return false;
            }
            // Now and then it is looked whether the caller has ended.
            let (again, _) = self
                .answered
                .wait_timeout(state, left.min(Duration::from_millis(250)))
                .unwrap_or_else(PoisonError::into_inner);
            state = again;
        }
    }

    /// Has the supervisor make a change, and waits until it has. Nothing where there is none that does. The supervisor makes it with its
    /// own rights, so `right` shows that the caller has not given up its right to the change.
    pub(super) fn land(
        &self,
        landing: &Landing,
        right: LandingRight,
        is_waiting: &dyn Fn() -> bool,
    ) -> Option<Outcome> {
        self.land_about(landing, right, is_waiting).map(|(outcome, _)| outcome)
    }

    /// The same, with the file that it is about.
    pub(super) fn land_about(
        &self,
        landing: &Landing,
        LandingRight { .. }: LandingRight,
        is_waiting: &dyn Fn() -> bool,
    ) -> Option<Landed> {
        self.send_landing(landing, is_waiting)
    }

    /// Tells the supervisor that a clone was moved, which changes no file.
    pub(super) fn tell_moved(&self, from: &AbsPath, to: &AbsPath) {
        let landing = Landing::Moved { from: from.clone(), to: to.clone() };
        // It is for the report at the end of the session only.
        let _ = self.send_landing(&landing, &|| true);
    }

    /// Is there nothing on the host at a path at which the session has temporary files of its own?
    pub(super) fn is_vacant_outside(&self, path: &AbsPath) -> bool {
        let landing = Landing::Vacant { path: path.clone() };
        matches!(self.send_landing(&landing, &|| true), Some((Outcome::Done, _)))
    }

    fn send_landing(&self, landing: &Landing, is_waiting: &dyn Fn() -> bool) -> Option<Landed> {
        let supervisor = self.supervisor.as_ref()?;
        let request = in_memory(&landing.encode()).ok()?;
        let mut state = self.state();
        let id = state.next;
        state.next += 1;
        state.landings.insert(id, None);
        drop(state);
        let is_said = ways::send(supervisor, &Said::Land { id }.encode(), &[request.as_fd()]).is_ok();
        let until = Instant::now() + LONGEST_LANDING;
        let mut state = self.state();
        loop {
            let outcome = state.landings.get(&id).cloned().flatten();
            if outcome.is_some() || !is_said || Instant::now() >= until || !is_waiting() {
                state.landings.remove(&id);
                return outcome;
            }
            let (again, _) =
                self.answered.wait_timeout(state, Duration::from_millis(100)).unwrap_or_else(PoisonError::into_inner);
            state = again;
        }
    }

    fn report(
        &self,
        caller: &Caller<'_>,
        call: &str,
        path: &AbsPath,
        (access, verdict): (Access, &Verdict<'_>),
        errno: Option<Errno>,
    ) -> Report {
        let (program, command) = caller.names();
        let source = match verdict.because {
            Because::Rule(rule) | Because::OnlyReadable(rule) => rule.source.to_string(),
            Because::View(_) => String::new(),
        };
        Report {
            pid: caller.process().unwrap_or_default(),
            started: 0,
            program,
            command,
            call: call.to_owned(),
            path: path.clone(),
            access,
            rule: verdict.because.to_string(),
            source,
            remedy: self.surface.remedy(path, access, verdict).unwrap_or_default(),
            errno: errno.and_then(|errno| u16::try_from(errno.raw_os_error()).ok()),
        }
    }

    fn say(&self, said: &Said) -> bool {
        let Some(supervisor) = &self.supervisor else { return false };
        let mut flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        if self.telling == Telling::AlsoMissed {
            // The supervisor hears all of it, and what would be lost could not be learned.
            flags.remove(SendFlags::DONTWAIT);
        }
        let lost = self.lost.swap(0, Ordering::Relaxed);
        if lost > 0 && rustix::net::send(supervisor, &Said::Lost { count: lost }.encode(), flags).is_err() {
            self.lost.fetch_add(lost, Ordering::Relaxed);
        }
        let is_said = rustix::net::send(supervisor, &said.encode(), flags).is_ok();
        if !is_said && matches!(said, Said::Refused(_)) {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
        is_said
    }

    /// Hears what the supervisor says, until it has gone.
    pub(super) fn listen(&self) {
        let Some(supervisor) = &self.supervisor else { return };
        loop {
            let mut fds = [PollFd::new(supervisor, PollFlags::IN)];
            match rustix::event::poll(&mut fds, None) {
                Err(Errno::INTR) => {}
                Ok(_) if self.catch_up() => {}
                Ok(_) | Err(_) => return,
            }
        }
    }

    /// Hears what was said already. Is the supervisor still there? In turns: what is taken away after it was given is heard in
    /// that order.
    fn catch_up(&self) -> bool {
        let Some(supervisor) = &self.supervisor else { return false };
        let _turn = self.hearing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut packet = [0; LONGEST_TOLD];
        loop {
            match rustix::net::recv(supervisor, packet.as_mut_slice(), RecvFlags::DONTWAIT) {
                Ok((0, _)) => return false,
                Ok((length, _)) => {
                    if let Some(told) = Told::decode(&packet[..length]) {
                        self.hear(told);
                    }
                }
                Err(Errno::INTR) => {}
                Err(errno) => return errno == Errno::AGAIN,
            }
        }
    }

    fn hear(&self, told: Told) {
        let mut state = self.state();
        match told {
            Told::Patience { wait } => state.patience = wait.map(Duration::from_millis),
            Told::Answer { id, allowed } => {
                if let Some(answer) = state.questions.get_mut(&id) {
                    *answer = Some(allowed);
                }
                self.answered.notify_all();
            }
            Told::Landed { id, outcome, about } => {
                if let Some(landing) = state.landings.get_mut(&id) {
                    *landing = Some((Outcome::of_number(outcome).unwrap_or(Outcome::Not(NotLanded::Malformed)), about));
                }
                self.answered.notify_all();
            }
            Told::Grant { path } => {
                state.given.retain(|(given, _)| *given != path);
                // What the rules do not let be given stays as it was.
                if let Ok(with) = self.surface.with_write(&path) {
                    // It has not been checked.
                    self.folds.store(true, Ordering::Relaxed);
                    state.given.push((path, with));
                }
            }
            Told::Revoke { path } => state.given.retain(|(given, _)| *given != path),
        }
    }
}

impl HostView for Judge<'_> {
    fn is_vacant(&self, path: &AbsPath) -> bool {
        self.is_vacant_outside(path)
    }
}

/// Bytes in a file in memory.
fn in_memory(bytes: &[u8]) -> rustix::io::Result<OwnedFd> {
    let file = rustix::fs::memfd_create(c"landing", MemfdFlags::CLOEXEC)?;
    let mut left = bytes;
    while !left.is_empty() {
        let written = rustix::io::write(&file, left)?;
        left = left.get(written..).ok_or(Errno::IO)?;
    }
    Ok(file)
}

/// What somebody wrote down to be denied or protected, and the ways out of any fence, are not up for a question; what nobody
/// mentions is, and what a built-in table only protects.
fn can_be_asked(verdict: &Verdict<'_>) -> bool {
    match verdict.because {
        Because::View(_) | Because::OnlyReadable(_) => true,
        Because::Rule(rule) => {
            rule.effect == Effect::Protect && matches!(rule.source, Source::Table { .. } | Source::Git { .. })
        }
    }
}
