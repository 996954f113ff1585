//! `ringfence run`: resolves the policy, says what is fenced and what is not held, and runs the command inside.

use std::borrow::Cow;
use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use ringfence_plan::{Lines, Plan, Receipt, Rung, Shortfall, compile};
use ringfence_session::container::{EngineHere, InContainer, note_use};
use ringfence_session::desk::{CALLS_VARIABLE, Control, Desk, UNWRITTEN, Ways};
use ringfence_session::doctor;
use ringfence_session::git_gains::Gain;
use ringfence_session::given;
use ringfence_session::governed;
use ringfence_session::launch::{Ended, Identity, StartError};
use ringfence_session::learned::Learned;
use ringfence_session::review::Review;
use ringfence_session::roots::{Depth, Root};
use ringfence_session::start::{self, BrokerChoice, Changes, Commits, Occasion, Order, PrepareError, Ready, prepare};
use ringfence_session::store::{About, Grants, SCHEMA, Session};
use ringfence_session::text::{Bytes, new_token, now_ms};
use ringfence_session::violations::Summary;
use ringfence_session::{adopt_own_umask, restore_callers_umask};
use ringfence_surface::policy::{Mode, Tier};
use ringfence_surface::{AbsPath, Client, Governance, Resolved, Shown};
use rustix::process::{Signal, set_parent_process_death_signal};

mod agent;
mod opening;
mod packs;
mod report;
mod sign_in;
mod trial;
pub(crate) mod worktree;

use self::opening::{Opening, summary};
use self::trial::Trial;
use super::receipt;
use super::render::override_mode;
use crate::cli::{Backend, PolicyArgs, RunArgs, TryStartArgs};
use crate::error::{Failure, LearnFailure, ReviewFailure, RootFailure};
use crate::host::{Recorder, mounts, os_path, user};
use crate::load::{Here, Loader};
use crate::out::say;
use crate::tell::{self, Detail};

pub(crate) fn run(args: &RunArgs, managed: &Path) -> Result<ExitCode, Failure> {
    adopt_own_umask();
    let args = &with_agent(args);
    if args.command.is_empty() && args.policy.agent.is_none() {
        return Err(Failure::Prepare { source: PrepareError::NoCommand });
    }
    let root = match (args.backend, &args.root) {
        (Some(Backend::Chroot), Some(name)) => Some(enter_work(name)?),
        (Some(Backend::Chroot), None) | (_, Some(_)) => return Err(Failure::Root { source: RootFailure::Alone }),
        (_, None) => None,
    };
    if args.worktree.review && args.backend.is_some_and(|backend| backend != Backend::Native) {
        return Err(Failure::Review { source: ReviewFailure::NotNative });
    }
    let account = args.user.as_deref().map(user).transpose()?;
    let calls = args.calls.then(new_token).transpose().map_err(|source| Failure::Output { source })?;
    let variables = calls.iter().map(|token| (CALLS_VARIABLE.into(), token.into())).collect();
    let ladder = Ladder { args, managed, account, calls, variables, root, trial: None };
    ladder.climb().map(ExitCode::from)
}

pub(crate) use trial::{Outcome, trial};

/// A session on one backend in which nothing happens, for `doctor`. No policy of the administrator's takes part, since the question
/// is what the host can do.
pub(crate) fn try_start(args: &TryStartArgs) -> Result<ExitCode, Failure> {
    // If it hangs, it is killed together with the parent that waits for it.
    let ends = set_parent_process_death_signal(Some(Signal::KILL));
    ends.map_err(|errno| Failure::Output { source: errno.into() })?;
    let command = ["/bin/sh", "-c", ":"].map(OsString::from);
    let policy = PolicyArgs::only(Some(&args.policy));
    let args = RunArgs { policy, backend: Some(args.backend), ..RunArgs::plain(&command) };
    run(&args, Path::new("/nonexistent/managed.toml"))
}

/// `run -- claude` means what `run --agent claude -- claude` means: without its model, its settings and its hook the client would
/// be of no use inside. Whoever wants the bare program has `run -- env claude`.
fn with_agent(args: &RunArgs) -> Cow<'_, RunArgs> {
    let program = args.command.first().and_then(|word| Path::new(word).file_name()?.to_str());
    match program.and_then(Client::named) {
        Some(client) if args.policy.agent.is_none() => {
            let mut args = args.clone();
            args.policy.agent = Some(client.word().to_owned());
            Cow::Owned(args)
        }
        _ => Cow::Borrowed(args),
    }
}

/// The ways to build the fence, from the strongest down.
struct Ladder<'a> {
    args: &'a RunArgs,
    managed: &'a Path,
    account: Option<(u32, u32)>,
    /// What the fence is built of, where that is a root.
    root: Option<Root>,
    /// What the command knows by which it may ask for further ones, and the variable that says so.
    calls: Option<String>,
    variables: Vec<(OsString, OsString)>,
    /// What it is tried with, where it is learned what the command needs. Then the fence says nothing of itself.
    trial: Option<Trial>,
}

/// Opens a root, and goes to its work where the caller is elsewhere.
pub(super) fn enter_work(name: &str) -> Result<Root, Failure> {
    let root = super::root::here()?.open(name).map_err(|source| Failure::Root { source: source.into() })?;
    root.check(Depth::Changed).map_err(|source| Failure::Root { source: source.into() })?;
    let here = std::env::current_dir().ok();
    if !here.as_ref().is_some_and(|here| here.starts_with(os_path(&root.work()))) {
        let work = root.work();
        let is_project =
            |here: &std::path::PathBuf| [".git", "ringfence.toml"].iter().any(|name| here.join(name).exists());
        if let Some(project) = here.filter(is_project) {
            let project = Shown(project.as_os_str().as_encoded_bytes()).to_string();
            say(&format!("ringfence: {project} is not in the root: clone it into {work}, or let root bind it there"));
        }
        std::env::set_current_dir(os_path(&work))
            .map_err(|source| Failure::Read { path: os_path(&work).into(), source })?;
        say(&format!("ringfence: in {work}"));
    }
    Ok(root)
}

impl Ladder<'_> {
    /// Starts on the first rung that this host can carry. Only where the host itself is in the way the next one is tried.
    fn climb(&self) -> Result<u8, Failure> {
        let mut rung = self.args.backend.map_or(Rung::LADDER[0], rung_of);
        let mut tried = Vec::new();
        loop {
            let failure = match self.attempt(rung, &tried) {
                Err(failure) => failure,
                done => return done,
            };
            let next = rung.next().filter(|_| self.args.backend.is_none() && !self.args.worktree.review);
            if next.is_none() && tried.is_empty() {
                // One backend was asked for, so nothing depends on whose fault it is.
                return Err(failure);
            }
            let Some(why) = hosts_refusal(rung, &failure) else { return Err(failure) };
            let Some(next) = next else { return Err(Failure::NoRung { tried, last: Box::new(failure) }) };
            tried.push(format!("{rung}: {why}"));
            rung = next;
        }
    }

    /// One whole session. `tried` are the backends that did not start, each with the reason.
    fn attempt(&self, rung: Rung, tried: &[String]) -> Result<u8, Failure> {
        let is_asked = self.trial.is_none() && tried.is_empty();
        let asker = is_asked.then(packs::asker).flatten();
        let mut loader = Loader::new(self.managed)?.with_packs(&self.args.packs, asker);
        if let Some(Trial { at, text, .. }) = &self.trial {
            loader = loader.saying(at.clone(), text.clone());
        }
        let state = loader.facts().own_directories().state.ok_or(Failure::NoHome)?;
        if let Some(root) = &self.root {
            loader = loader.caching_in(&root.cache());
        }
        let state = if rung.has_view() || self.root.is_some() { state } else { reachable(state) };
        let made = Session::create(&state);
        let session = made.map_err(|source| Failure::Write { path: os_path(&state).into(), source })?;
        let Some(own) = worktree::make(self.args, &mut loader, &session)? else {
            return self.attempt_in(loader, &session, &state, rung, tried);
        };
        let loader = loader.in_worktree(worktree::known(&own));
        let done = self.attempt_in(loader, &session, &state, rung, tried);
        worktree::finish(own, self.args);
        done
    }

    fn attempt_in(
        &self,
        loader: Loader<'_>,
        session: &Session,
        state: &AbsPath,
        rung: Rung,
        tried: &[String],
    ) -> Result<u8, Failure> {
        let mut here = loader.in_session(session.dir()).resolve(&self.args.policy)?;
        override_mode(&mut here.resolved, self.args.mode);
        let caps = here.resolved.surface.caps();
        if caps.memory.is_some() || caps.pids.is_some() || rung.engine().is_some() {
            // Only who looks for a control group, or tells an engine, needs them, and the kernel takes its time.
            here.facts.mounts = mounts();
        }
        let surface = &here.resolved.surface;
        if let Some(root) = self.root.as_ref().filter(|root| !surface.root().is_within(&root.work())) {
            let (project, name) = (surface.root().clone(), root.manifest().name.clone());
            return Err(Failure::Root { source: RootFailure::Outside { project, name, work: root.work() } });
        }
        let mut opening = Opening::new();
        if self.trial.is_none() {
            if tried.is_empty() {
                // What the policy itself is worth does not depend on the backend.
                tell::resolved(&here.resolved, Detail::Short);
            }
            opening.add(opening::unset(&self.args.policy.env));
            let look = &mut Recorder::new(Vec::new());
            let fence = (*surface.governance() == Governance::Fenced).then_some(rung);
            opening.add(summary(surface, fence, self.changes(), look));
            let home = here.facts.all_homes().into_iter().next();
            opening.add(opening::repository_around(surface, home.as_ref(), look));
        }
        if matches!(surface.governance(), Governance::SelfGoverning(_)) {
            if self.trial.is_some() {
                return Err(Failure::Learn { source: LearnFailure::Ungoverned });
            }
            if self.args.worktree.review {
                return Err(Failure::Review { source: ReviewFailure::Ungoverned });
            }
            return self.start_unfenced(&here, session, state, opening);
        }
        let limit = surface.caps().wall.as_ref().map_or(0, |cap| cap.value.as_secs());
        let report = self.args.report.as_deref().map(report::Place::open).transpose()?;
        let began = now_ms();
        let (ended, denied, gained) = self.start(here, (session, state), rung, (opening, tried))?;
        if let Some(trial) = &self.trial {
            return trial.write(&ended, denied.learned);
        }
        if ended.out_of_time {
            say(&format!("ringfence: ended after {limit} s, the limit of this policy (`[limits] wall`)"));
        }
        denied.untold.iter().for_each(|line| say(line));
        match &denied.ended_by {
            Some(watch) => say(&format!("ringfence: ended by a watch: {}", Shown(watch.as_bytes()))),
            None if ended.stopped => say("ringfence: ended by `ringfence stop`"),
            None => {}
        }
        report::lines(&denied, session.name()).iter().for_each(|line| say(line));
        report::gains(&gained).iter().for_each(|line| say(line));
        if self.args.worktree.review {
            tell_changes(session);
        }
        if let Some(place) = report {
            restore_callers_umask();
            place.write(session.name(), began, &ended, &denied)?;
        }
        Ok(told_code(&ended))
    }

    fn start(
        &self,
        mut here: Here,
        (session, state): (&Session, &AbsPath),
        rung: Rung,
        (mut opening, tried): (Opening, &[String]),
    ) -> Result<(Ended, Summary, Vec<Gain>), Failure> {
        if self.args.calls && !rung.has_view() {
            let line = "ringfence: no call can be asked for inside (`--calls`): without namespaces no socket can be made there";
            opening.add([line.to_owned()]);
        }
        let surface = &here.resolved.surface;
        let plan = compile(surface, &here.facts, rung);
        let client = agent::client(self.args, &here, session, rung)?;
        opening.add(client.said.iter().cloned());
        let engine = rung.engine().map(EngineHere::find).transpose().map_err(|source| Failure::Engine { source })?;
        if let Some(here) = &engine {
            note_use(session.state(), here.facts.engine)
                .map_err(|source| Failure::Write { path: os_path(state).into(), source })?;
        }
        let choice = here.resolved.agent.as_ref().map(|choice| &choice.container);
        let container = engine.as_ref().map(|here| InContainer { here, choice, program: None });
        let order = Order { container, ..self.order(&here, session, &plan, &client, rung) };
        let look = &mut Recorder::new(here.facts.homes.clone());
        let ready = prepare(&order, look).map_err(|source| Failure::Prepare { source })?;
        let kept = self.accept(&ready.receipt, surface.tier(), session, &mut opening)?;
        // Before anything inside can make a file.
        packs::remember(&here, &self.args.packs)?;
        if self.trial.is_none() {
            opening.add(self.told(&ready));
        }
        opening.add(opening::fallback(rung, tried));
        let user = match ready.identity {
            Identity::Other { uid, .. } => Some(uid),
            Identity::Caller { .. } => None,
        };
        let about = About { user, grants: ready.grants, ..self.about(&here, session, &client, &ready.receipt) };
        let watches = here.resolved.watches.iter().map(|watch| (watch.value, watch.source.to_string())).collect();
        let ways = Ways { watches, ask: self.args.ask, learned: self.trial.as_ref().map(|_| Learned::nothing()) };
        if let Some(wait) = self.args.ask {
            let path = os_path(session.dir()).into();
            given::keep_ask(session.dir(), wait).map_err(|source| Failure::Write { path, source })?;
        }
        let receipt = receipt::event(&ready.receipt);
        let git = ready.git.filter(|_| self.trial.is_none()).map(Arc::new);
        // What waits for a review is not put in place on the host.
        let versions = git.clone().filter(|_| self.changes() == Changes::Land);
        let (prepared, found, guarded) = (ready.prepared, (ready.walked, ready.receipt), ready.guarded);
        let record = start::record(&order);
        if let Some(surface) = ready.surface {
            here.resolved.surface = surface;
        }
        let ground = (here, plan, found);
        let mut unkept = None;
        let (ended, mut desk) = prepared.run_attended(
            ground,
            |(here, ..)| &here.resolved.surface,
            |(here, plan, found)| {
                record(&here.resolved.surface).map_err(io::Error::other)?;
                let control = self.calls.clone().map_or(Control::Socket, Control::AlsoInside);
                let mut desk = Desk::open(session, about, control, ways)?;
                let Here { inputs, facts, resolved: Resolved { surface, omissions, .. } } = here;
                desk.guard(surface, guarded);
                if let Some(repositories) = versions {
                    desk.know_versions(repositories);
                }
                desk.let_go_later((inputs, facts, omissions, plan, found));
                Ok(desk)
            },
            |desk| {
                opening.print();
                desk.stands(receipt);
                let place = kept.map(|text| receipt::save(state, session.name(), &text)).transpose();
                match place {
                    Ok(None) => {}
                    Ok(Some(path)) => {
                        say(&format!("ringfence: receipt kept as {}", Shown(path.as_os_str().as_encoded_bytes())));
                    }
                    Err(failure) => unkept = Some(failure),
                }
            },
        );
        let mut ended = ended.map_err(|source| self.not_started(source));
        let surface = desk.as_ref().and_then(Desk::surface);
        let gained = git.zip(surface).map(|(git, surface)| git.gains(&surface)).unwrap_or_default();
        if let Some(desk) = &mut desk {
            desk.gained(&gained);
        }
        let denied = write_down(&mut ended, desk, session);
        let mut ended = ended?;
        if let Some(failure) = unkept {
            say(&format!("ringfence: the receipt that was asked for is lost: {}", failure.in_one_line()));
            ended.code = ended.code.max(UNWRITTEN);
        }
        Ok((ended, denied, gained))
    }

    /// What was found and done on the way to the start.
    fn told(&self, ready: &Ready) -> Vec<String> {
        let mut lines = opening::hidden(&ready.walked.hidden, self.args.receipt);
        if ready.commits == Commits::Unsigned {
            lines.push("ringfence: commits made inside are not signed: there is no key inside".to_owned());
        }
        match &ready.copied {
            Ok(0) => {}
            Ok(count) => lines.push(format!("ringfence: packages copied from your own caches: {count}")),
            Err(cause) => lines.push(format!("ringfence: packages could not be copied from your own caches: {cause}")),
        }
        if let Some(cause) = &ready.forgetful {
            lines.push(format!("ringfence: the agent remembers nothing of earlier sessions: {cause}"));
        }
        if let Some(cause) = &ready.unwritable {
            lines.push(format!("ringfence: the project belongs to another user and cannot be written inside: {cause}"));
        }
        lines
    }

    /// A root has few programs, and who misses one can make another root.
    fn not_started(&self, source: StartError) -> Failure {
        match (&self.root, source) {
            (Some(root), StartError::NotFound { program }) => {
                let (name, with) = (root.manifest().name.clone(), root.manifest().with.clone());
                Failure::Root { source: RootFailure::NoProgram { program, name, with } }
            }
            (_, source) => Failure::Start { source },
        }
    }

    /// What others may know of the session.
    fn about(&self, here: &Here, session: &Session, client: &agent::Start, receipt: &Receipt) -> About {
        let surface = &here.resolved.surface;
        let words: Vec<Vec<u8>> = client.command.iter().map(|word| word.as_bytes().to_vec()).collect();
        About {
            schema: SCHEMA,
            id: session.name().to_owned(),
            pid: std::process::id(),
            started_ms: now_ms(),
            project: Bytes::new(surface.root().as_bytes()),
            workdir: Bytes::new(surface.workdir().as_bytes()),
            command: About::shorten(&words),
            rung: receipt.rung.map_or("none", Rung::word).to_owned(),
            user: None,
            agent: self.args.policy.agent.clone(),
            shortfalls: receipt::grouped(receipt.shortfalls()),
            grants: Grants::None,
            watches: here.resolved.watches.iter().map(|watch| format!("{} ({})", watch.value, watch.source)).collect(),
        }
    }

    /// A session that governs itself: the environment and the client's own settings are all that is left.
    fn start_unfenced(
        &self,
        here: &Here,
        session: &Session,
        state: &AbsPath,
        mut opening: Opening,
    ) -> Result<u8, Failure> {
        if self.args.calls {
            opening.add(["ringfence: no call can be asked for (`--calls`): there is no fence here".to_owned()]);
        }
        let (surface, rung) = (&here.resolved.surface, Rung::LandlockOnly);
        let plan = compile(surface, &here.facts, rung);
        let client = agent::client(self.args, here, session, rung)?;
        opening.add(client.said.iter().cloned());
        let order = self.order(here, session, &plan, &client, rung);
        let look = &mut Recorder::new(Vec::new());
        let ready = governed::prepare(&order, look).map_err(|source| Failure::Prepare { source })?;
        let kept = self.accept(&ready.receipt, surface.tier(), session, &mut opening)?;
        opening.print();
        // Kept unasked, so that it can be found out later that there was no fence.
        let kept = kept.map_or_else(|| receipt::text(session.name(), &ready.receipt), Ok)?;
        let path = receipt::save(state, session.name(), &kept)?;
        if self.args.receipt {
            say(&format!("ringfence: receipt kept as {}", Shown(path.as_os_str().as_encoded_bytes())));
        }
        let about = self.about(here, session, &client, &ready.receipt);
        let ways = Ways { watches: Vec::new(), ask: None, learned: None };
        let desk = Desk::open(session, about, Control::None, ways);
        let mut desk = desk.map_err(|source| Failure::Write { path: os_path(state).into(), source })?;
        desk.stands(receipt::event(&ready.receipt));
        let mut ended = ready.run().map_err(|source| Failure::Start { source });
        write_down(&mut ended, Some(desk), session);
        ended.map(|ended| told_code(&ended))
    }

    fn order<'o>(
        &'o self,
        here: &'o Here,
        session: &'o Session,
        plan: &'o Plan,
        client: &'o agent::Start,
        rung: Rung,
    ) -> Order<'o> {
        let choice = here.resolved.agent.as_ref();
        Order {
            surface: &here.resolved.surface,
            facts: &here.facts,
            plan,
            rung,
            session,
            command: &client.command,
            user: self.account,
            client: client.furnishing.as_ref(),
            agent: self.args.policy.agent.as_deref(),
            mode: choice.map_or(Mode::AcceptEdits, |choice| choice.mode.value),
            lines: if self.args.receipt { Lines::All } else { Lines::Short },
            occasion: Occasion::Session,
            variables: &self.variables,
            root: self.root.as_ref(),
            container: None,
            changes: self.changes(),
            broker: match (&self.trial, self.args.no_broker, self.args.report_reads) {
                (Some(_), ..) => BrokerChoice::Learn,
                (None, true, _) => BrokerChoice::Off,
                (None, false, true) => BrokerChoice::OnWithReads,
                (None, false, false) => BrokerChoice::On,
            },
        }
    }

    /// When what is written lands.
    fn changes(&self) -> Changes {
        if self.args.worktree.review { Changes::Wait } else { Changes::Land }
    }

    /// Refuses where not every claim holds and has to. Otherwise adds what does not hold to the opening, and returns the receipt as
    /// it is to be kept, where it was asked for.
    fn accept(
        &self,
        receipt: &Receipt,
        tier: Tier,
        session: &Session,
        opening: &mut Opening,
    ) -> Result<Option<String>, Failure> {
        let is_accepted = |short: &&Shortfall| self.args.allow_shortfall.iter().any(|name| short.claim.is_called(name));
        let refused: Vec<&Shortfall> = receipt.shortfalls().filter(|short| !is_accepted(short)).collect();
        if tier == Tier::Production && !refused.is_empty() {
            return Err(Failure::Shortfalls { short: receipt::grouped(refused) });
        }
        if self.args.receipt {
            opening.add(receipt::words(receipt));
            return receipt::text(session.name(), receipt).map(Some);
        }
        if self.trial.is_none() {
            let held = receipt::at_a_start(receipt);
            opening.add(held.iter().map(|line| format!("ringfence: not held: {line}")));
            let withheld = receipt::few_withheld(receipt);
            opening.add(withheld.iter().map(|line| format!("ringfence: withheld: {line}")));
        }
        Ok(None)
    }
}

/// Sets what was written aside, and says what becomes of it. The command has ended with its own code, whatever comes of this.
fn tell_changes(session: &Session) {
    match Review::keep(session) {
        Ok(Some((review, changes))) => say(&super::review::ended(&review, &changes)),
        Ok(None) => say("ringfence: nothing was changed: there is nothing to review"),
        Err(source) => {
            let failure = Failure::Review { source: source.into() };
            let (id, why) = (session.name(), failure.in_one_line());
            say(&format!("ringfence: {failure}: {why}; what was written is kept as the changes of session {id}"));
        }
    }
}

/// Writes down how a session ended, and returns what was denied in it. A run of which no evidence is left is no success.
fn write_down(ended: &mut Result<Ended, Failure>, desk: Option<Desk>, session: &Session) -> Summary {
    match (ended, desk) {
        (Ok(ended), Some(desk)) => {
            let (denied, written, leftover) = desk.ended(ended.code);
            // This process ends.
            std::mem::forget(leftover);
            if let Err(cause) = written {
                say(&format!("ringfence: the end of the session could not be written down: {cause}"));
                session.leave_unended();
                if ended.code == 0 {
                    ended.code = UNWRITTEN;
                }
            }
            denied
        }
        (Err(failure), Some(desk)) => {
            desk.failed(&failure.in_one_line());
            Summary::nothing()
        }
        (_, None) => Summary::nothing(),
    }
}

/// Why this host cannot carry a rung, if that is why the start failed. A start that failed where the same steps succeed on
/// nothing has a fault of its own, and a weaker fence would only hide it.
fn hosts_refusal(rung: Rung, failure: &Failure) -> Option<String> {
    if !failure.is_the_hosts() {
        return None;
    }
    match rung {
        // The same start on nothing, by the same code.
        Rung::Native => doctor::why_not_native(|| doctor::try_start(&super::doctor::on(rung.word()))),
        Rung::Bwrap | Rung::LandlockOnly | Rung::Chroot | Rung::Docker | Rung::Podman => Some(failure.in_one_line()),
    }
}

fn rung_of(backend: Backend) -> Rung {
    match backend {
        Backend::Native => Rung::Native,
        Backend::Bwrap => Rung::Bwrap,
        Backend::Landlock => Rung::LandlockOnly,
        Backend::Chroot => Rung::Chroot,
        Backend::Docker => Rung::Docker,
        Backend::Podman => Rung::Podman,
    }
}

/// Without a view of its own, a command that root starts for somebody else must be able to go to the session's directory.
pub(super) fn reachable(state: AbsPath) -> AbsPath {
    let is_open = |dir: AbsPath| {
        let mode = std::fs::metadata(os_path(&dir)).map(|metadata| metadata.permissions().mode());
        mode.is_ok_and(|mode| mode & 0o001 != 0)
    };
    let is_root = rustix::process::geteuid().is_root();
    let ours = AbsPath::root().join("var/lib/ringfence");
    // What does not exist yet is made for its owner alone.
    if is_root && !state.join("sessions").ancestors().all(is_open) { ours } else { state }
}

/// The code to end with. Where output was lost that is reported, and is no success.
pub(super) fn told_code(ended: &Ended) -> u8 {
    for lost in &ended.lost {
        say(&format!("ringfence: not all of {} could be written: {}", lost.stream, io::Error::from(lost.errno)));
    }
    if ended.lost.is_empty() { ended.code } else { ended.code.max(1) }
}

/// What was stopped on the way out, with what allows it.
pub(super) fn stopped(ended: &Ended) -> Vec<String> {
    const FEW: usize = 10;
    let (kinds, more) = &ended.refusals;
    let line = |(refusal, count): &(ringfence_egress::Refusal, u64)| {
        let times = if *count == 1 { String::new() } else { format!(" ({count} times)") };
        let (what, why) = (refusal.attempt.to_string(), refusal.why.to_string());
        format!("ringfence: stopped: {}{times}: {}", Shown(what.as_bytes()), Shown(why.as_bytes()))
    };
    let mut lines: Vec<String> = kinds.iter().take(FEW).map(line).collect();
    let more = kinds.len().saturating_sub(FEW) as u64 + more;
    if more > 0 {
        lines.push(format!("ringfence: stopped: and {more} more"));
    }
    if !lines.is_empty() {
        lines.push("ringfence: `[network] allow = [\"HOST:PORT\"]` lets a host be reached".to_owned());
    }
    lines
}
