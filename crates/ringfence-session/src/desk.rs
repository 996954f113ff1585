//! The supervisor's desk: who wants to know or to change something of a running session, and what happens in it.
//!
//! It is attended to between everything else that a supervisor does, a little at a time: nobody who talks to it is waited for,
//! and what may take long is done by another process.

mod approvals;
mod broker;
mod calls;
mod clients;
mod events;
mod grants;
mod hold;
mod kept;
mod reserve;
mod spawn;
mod watchdog;
mod wire;

use std::any::Any;
use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ringfence_egress::{Asks, Egress, Lever, Reached, Refusal, Refusals};
use ringfence_surface::policy::Watch;
use ringfence_surface::{AbsPath, Surface};
use rustix::event::EventfdFlags;
use rustix::process::WaitOptions;

use crate::approvals::Queue;
use crate::audit::{Audit, Budget, Event, Origin, Patience, What};
use crate::git_gains::{Gain, GitSnapshot};
use crate::given;
use crate::keeper::{Guarded, Keeper};
use crate::landing::Lander;
use crate::learned::Learned;
use crate::live::LiveView;
use crate::remove::remove_tree;
use crate::store::{About, Past, Session};
use crate::terminal::{Aside, Asked, Key, Lifeline, Prompt, Screen};
use crate::text::{is_same, new_token, now_ms};
use crate::verdicts::Verdicts;
use crate::violations::{Stream, Summary};
use crate::walk::os_path;

use self::calls::Calls;
use self::clients::{BELL, BROKER, CALLS, Clients, Door, Heard, KEPT, VERDICTS};
use self::events::{AGAIN, Notices, SYNC};
use self::grants::{Grant, Work};
use self::hold::Held;
use self::reserve::Reserve;
use self::watchdog::Watchdog;

pub(crate) use self::calls::{PAUSE, RESUME};
pub(crate) use self::hold::PAUSED;
pub(crate) use self::reserve::RESERVE;
pub use self::spawn::{Asked as AskedCall, Spawned};
pub(crate) use self::wire::SOCKET;
pub use self::wire::{
    Answer, CALLS_VARIABLE, CallAnswer, CallOrder, CallReply, Connection, Given, Gives, Masked, Reply, Request,
    VERSION, Verb,
};

/// A question about a name waits no longer than this: programs do not wait for ever for an address.
const MOST_NAME: Duration = Duration::from_secs(30);
/// The code of a session that ended well and whose end could not be written down.
pub const UNWRITTEN: u8 = 125;
/// A session that lasted this long is on the disk before it ends.
const LONG: Duration = Duration::from_secs(10);

/// A supervisor's desk.
#[derive(Debug)]
pub struct Desk {
    about: About,
    dir: AbsPath,
    state: AbsPath,
    audit: Audit,
    began: Instant,
    pending: Vec<Event>,
    /// Why the audit could not be written when it was last tried.
    unwritten: Option<io::Error>,
    /// Room for the end.
    reserve: Reserve,
    /// What the session has written of its part of the audit.
    budget: Budget,
    lost: u64,
    again: Option<Instant>,
    sync: Option<Instant>,
    clients: Clients,
    token: String,
    bell: Option<OwnedFd>,
    refusals: Option<Refusals>,
    /// What a first list of hosts needs, for remedies.
    beside_allow: String,
    /// What was denied so far.
    stream: Stream,
    /// When the number of it is next written where a client may show it.
    count: Option<Instant>,
    /// The right to change the view and the network.
    view: Option<LiveView>,
    /// Changes the way out, where there is one.
    lever: Option<Lever>,
    /// A way out that was opened later.
    late: Option<Egress>,
    grants: Vec<Grant>,
    /// How many grants there were: each has a number of its own.
    numbered: u64,
    work: Option<Work>,
    /// Processes that are done and not collected yet.
    done: Vec<rustix::process::Pid>,
    asked: Asked,
    /// Commands that others have asked for.
    calls: Calls,
    /// What those inside who may ask for commands know.
    inside: Option<String>,
    /// Why the session ends, where that was not asked for.
    ended_by: Option<String>,
    /// Nothing runs any more: only what was said before is still heard.
    is_over: bool,
    /// Where the hook of an agent's client says what it refused.
    verdicts: Option<Verdicts>,
    watchdog: Watchdog,
    /// By which the session can be held, where it can.
    lifeline: Option<Lifeline>,
    held: Option<Held>,
    /// Lines for the user.
    notices: Notices,
    /// What waits for an answer.
    queue: Queue,
    /// Where the broker tells what it refused, and hears answers.
    broker: Option<OwnedFd>,
    /// Names that wait on the way out.
    names: Option<Asks>,
    /// Everything that was looked for, where that is to be learned.
    learned: Option<Learned>,
    /// Rules by which something was written, and who was reached.
    written: BTreeSet<String>,
    reached: Vec<Reached>,
    is_brokered: bool,
    is_learning: bool,
    /// What is to be kept as it is while the session runs, until somebody does.
    guarded: Option<Guarded>,
    /// What may be touched.
    surface: Option<Arc<Surface>>,
    /// The repositories as they were at the start, where versions of protected files that they had may be put in place.
    repositories: Option<Arc<GitSnapshot>>,
    /// Puts changes of settings in place, once there was one.
    lander: Option<Lander>,
    /// What only the start needed.
    needless: Option<Box<dyn Any>>,
    /// From when on somebody does, and the first process inside.
    keeps_from: Option<(Instant, rustix::process::Pid)>,
    /// Whoever keeps it.
    keeper: Option<Keeper>,
}

/// Memory that nobody needs any more.
pub struct Leftover {
    _guarded: (Option<Guarded>, Option<Arc<Surface>>),
    _needless: Option<Box<dyn Any>>,
}

/// What a supervisor does by itself.
#[derive(Debug, Clone)]
pub struct Ways {
    /// The watches of the policy, each with where it was written.
    pub watches: Vec<(Watch, String)>,
    /// How long something that is denied waits for the user's answer; nothing waits where it is none.
    pub ask: Option<Duration>,
    /// Where it is kept what was looked for, if it is to be learned.
    pub learned: Option<Learned>,
}

/// Is it attended to?
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Control {
    /// Others can talk to it.
    Socket,
    /// And those inside who know this can ask for calls.
    AlsoInside(String),
    /// Nobody would answer: it only writes down what happens.
    None,
}

impl Desk {
    /// Writes down that a session begins, and listens.
    ///
    /// # Errors
    /// When it cannot be written down: a session of which nothing is known does not run.
    pub fn open(session: &Session, about: About, control: Control, ways: Ways) -> io::Result<Self> {
        let audit = Audit::of(session.state());
        let reserve = Reserve::make(session.dir())?;
        let token = if control == Control::None { String::new() } else { new_token()? };
        about.write(session.dir(), Some(token.as_str()).filter(|token| !token.is_empty()))?;
        let (path, command) = (about.project.clone(), about.command.clone());
        let start = What::Start { path, command, rung: about.rung.clone(), pid: about.pid };
        audit.append(&[Event::now(&about.id, start)], Patience::Start)?;
        let mut clients = Clients::new()?;
        if control != Control::None {
            clients.listen(session.dir())?;
        }
        let inside = match control {
            Control::AlsoInside(token) => {
                clients.listen_inside(&given::dir(session.dir()), about.user)?;
                Some(token)
            }
            Control::Socket | Control::None => None,
        };
        let verdicts = about.agent.is_some().then(|| Verdicts::listen(session.dir(), about.user)).transpose()?;
        if let Some(verdicts) = &verdicts {
            clients.watch(verdicts.fd(), VERDICTS)?;
        }
        Ok(Self {
            about,
            dir: session.dir().clone(),
            state: session.state().clone(),
            audit,
            began: Instant::now(),
            pending: Vec::new(),
            unwritten: None,
            reserve,
            budget: Budget::new(),
            lost: 0,
            again: None,
            sync: Some(Instant::now() + SYNC),
            clients,
            token,
            bell: None,
            refusals: None,
            beside_allow: String::new(),
            stream: Stream::new(),
            count: None,
            view: None,
            lever: None,
            late: None,
            grants: Vec::new(),
            numbered: 0,
            work: None,
            done: Vec::new(),
            asked: Asked::Nothing,
            calls: Calls::none(),
            inside,
            ended_by: None,
            is_over: false,
            verdicts,
            watchdog: Watchdog::new(ways.watches),
            lifeline: None,
            held: None,
            notices: Notices::new(),
            queue: Queue::new(ways.ask),
            broker: None,
            names: None,
            is_learning: ways.learned.is_some(),
            learned: ways.learned,
            written: BTreeSet::new(),
            reached: Vec::new(),
            is_brokered: false,
            guarded: None,
            surface: None,
            repositories: None,
            lander: None,
            needless: None,
            keeps_from: None,
            keeper: None,
        })
    }

    /// Writes down what holds in the session. Only a sandbox that stands has a receipt.
    pub fn stands(&mut self, receipt: What) {
        self.note(receipt);
        self.flush(Patience::Start);
    }

    /// Takes over what can be changed of the running session.
    pub(crate) fn take(
        &mut self,
        view: Option<LiveView>,
        way: Option<&Egress>,
        lifeline: Option<Lifeline>,
    ) -> io::Result<()> {
        (self.view, self.lifeline) = (view, lifeline);
        way.map_or(Ok(()), |way| self.take_way(way))
    }

    fn take_way(&mut self, way: &Egress) -> io::Result<()> {
        let bell = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        self.clients.watch(bell.as_fd(), BELL)?;
        way.refusals().ring(rustix::io::fcntl_dupfd_cloexec(&bell, 3)?);
        (self.bell, self.refusals, self.lever) = (Some(bell), Some(way.refusals().clone()), Some(way.lever().clone()));
        self.reached.push(way.reached().clone());
        if let (Some(wait), Some(bell)) = (self.queue.wait(), &self.bell) {
            way.asks().begin(wait.min(MOST_NAME), rustix::io::fcntl_dupfd_cloexec(bell, 3)?);
            self.names = Some(way.asks().clone());
        }
        // What came before the bell was hung up.
        self.stopped();
        Ok(())
    }

    /// What was stopped on a way out that was opened later.
    pub(crate) fn refusals(&self) -> Option<(Vec<(Refusal, u64)>, u64)> {
        Some(self.late.as_ref()?.refusals().all())
    }

    /// Writes down that it did not start.
    pub fn failed(mut self, why: &str) {
        self.note(What::Failed { why: why.to_owned() });
        self.flush(Patience::Start);
    }

    /// Writes down how it ended, and returns what was denied in it; an error where it cannot be written.
    ///
    /// What is left over takes longer to give back piece by piece than the kernel takes for a whole process: one that ends now
    /// forgets it.
    pub fn ended(mut self, code: u8) -> (Summary, io::Result<()>, Leftover) {
        self.is_over = true;
        self.stopped();
        self.judged();
        // Nobody says anything any more.
        while self.broker_said() == broker::Heard::Some {}
        self.kept();
        self.passed_over();
        for untold in self.stream.untold() {
            self.note(What::Violation(untold));
        }
        let (ended_by, learned) = (self.ended_by.take(), self.learned.take());
        let learned = learned.map(|learned| learned.with_reached(self.reached.iter().flat_map(|way| way.all().0)));
        let summary = Summary { ended_by, untold: self.notices.urgent(), learned, ..self.stream.summary() };
        let written = self.write_end(code);
        (
            summary,
            written,
            Leftover { _guarded: (self.guarded.take(), self.surface.take()), _needless: self.needless.take() },
        )
    }

    /// What may be touched, as the session is decided by it.
    pub fn surface(&self) -> Option<Arc<Surface>> {
        self.surface.clone()
    }

    /// Writes down what repositories gained that the user's git would act on.
    pub fn gained(&mut self, gains: &[Gain]) {
        if !gains.is_empty() {
            self.note(What::Git { gained: gains.iter().map(Gain::to_string).collect() });
        }
    }

    fn write_end(&mut self, code: u8) -> io::Result<()> {
        let stopped = self.stream.kinds();
        if let Some(work) = self.work.take() {
            work.give_up();
        }
        // What somebody tries to learn from is no use of the policy.
        if !self.is_learning {
            self.note(self.used());
        }
        if self.budget.omitted() > 0 {
            self.note(What::Omitted { lines: self.budget.omitted() });
        }
        self.note(What::End { code, stopped });
        self.flush(Patience::Start);
        if !self.pending.is_empty() {
            self.make_room();
            self.flush(Patience::Start);
        }
        // One of which the end is not in the audit is no success here either.
        let code = if self.pending.is_empty() || code != 0 { code } else { UNWRITTEN };
        let past = Past { about: self.about.clone(), ended_ms: now_ms(), code: Some(code), stopped };
        if past.keep(&self.state).is_err() {
            self.make_room();
            past.keep(&self.state)?;
        }
        self.reserve.release();
        if self.began.elapsed() > LONG {
            self.audit.sync()?;
        }
        match self.unwritten.take() {
            Some(cause) if !self.pending.is_empty() => Err(cause),
            _ => Ok(()),
        }
    }

    /// The disk may be full, and it may be the program inside that has filled it. Nothing of it runs any more: what the session
    /// keeps for itself goes, and of what waits to be written as much stays as fits into the room that was reserved.
    fn make_room(&mut self) {
        for own in ["tmp", "home"] {
            // What cannot be removed now is collected later.
            let _ = remove_tree(os_path(&self.dir.join(own)));
        }
        self.reserve.release();
        let mut room = Reserve::FOR_LINES;
        let before = self.pending.len();
        self.pending.retain(|event| match room.checked_sub(event.size()) {
            Some(left) => {
                room = left;
                true
            }
            None => event.what.origin() == Origin::Session,
        });
        let lost = before.saturating_sub(self.pending.len());
        if lost > 0 {
            let lines = u64::try_from(lost).unwrap_or(u64::MAX);
            let end = self.pending.len().saturating_sub(1);
            self.pending.insert(end, Event::now(&self.about.id, What::Omitted { lines }));
        }
    }

    /// What of the policy was made use of.
    fn used(&self) -> What {
        let ways = self.reached.iter().map(Reached::all).collect::<Vec<_>>();
        let is_cut = ways.iter().any(|(_, is_cut)| *is_cut);
        let reached: BTreeSet<String> = ways.into_iter().flat_map(|(all, _)| all).collect();
        // Writes are seen where a broker carries them out.
        let written = self.is_brokered.then(|| self.written.iter().cloned().collect());
        What::Used { reached: reached.into_iter().collect(), written, is_cut }
    }

    fn answer(&mut self, client: u64, line: &[u8]) {
        let refused =
            |why: &str, hint: Option<&str>| Answer::Refused { why: why.to_owned(), hint: hint.map(str::to_owned) };
        let door = self.clients.door(client);
        let token = match door {
            Door::Control => self.token.as_str(),
            Door::Inside => self.inside.as_deref().unwrap_or_default(),
        };
        let request = match serde_json::from_slice::<Request>(line) {
            Ok(request) if request.v == VERSION && !token.is_empty() && is_same(&request.token, token) => request,
            Ok(request) if request.v == VERSION => {
                return self.clients.say(client, refused("the token is another one", None));
            }
            Ok(request) => {
                let why = format!("version {} is not spoken here, {VERSION} is", request.v);
                return self.clients.say(client, refused(&why, None));
            }
            Err(cause) => return self.clients.say(client, refused(&format!("not a request: {cause}"), None)),
        };
        if door == Door::Inside && !matches!(request.ask, Verb::Exec { .. }) {
            return self.clients.say(client, refused("inside, only calls can be asked for", None));
        }
        let answer = match request.ask {
            Verb::Exec { .. } if self.held.is_some() => {
                refused("the session is paused", Some("`ringfence resume` lets it go on"))
            }
            Verb::Exec { order } => match self.calls.begin(&self.clients, &self.about.id, &order, door) {
                Ok(ends) => {
                    let ends = ends.each_ref().map(|end| end.as_fd());
                    return self.clients.say_with(client, Answer::Spawned, &ends);
                }
                Err(why) => refused(&why, None),
            },
            Verb::Status {} => self.status(),
            Verb::Stop {} => {
                self.asked = Asked::End;
                Answer::Done
            }
            verb @ (Verb::Pause {}
            | Verb::Resume {}
            | Verb::Approvals {}
            | Verb::Approve { .. }
            | Verb::Deny { .. }) => self.answer_user(&verb),
            Verb::Subscribe {} => {
                // Whoever reads the audit from here on and hears what follows misses nothing.
                self.flush(Patience::Start);
                self.clients.subscribe(client);
                Answer::Done
            }
            Verb::Grant { .. } | Verb::GrantHost { .. } | Verb::Revoke { .. } | Verb::RevokeHost { .. } => {
                match self.change(client, request.ask) {
                    Ok(()) => return,
                    Err((why, hint)) => Answer::Refused { why, hint },
                }
            }
            Verb::Mode { mode } => match self.change_mode(mode) {
                Ok(()) => Answer::Done,
                Err(why) => refused(&why, None),
            },
        };
        self.clients.say(client, answer);
    }

    fn status(&self) -> Answer {
        Answer::Status {
            session: Box::new(self.about.clone()),
            grants: self.given(),
            stopped: usize::try_from(self.stream.kinds()).unwrap_or(usize::MAX),
            denied: self.stream.denied(),
            paused: self.held.as_ref().map(|held| held.why.clone()),
        }
    }

    /// From the next tool call on the hook holds back more, or less. The fence stays as it is.
    fn change_mode(&mut self, mode: String) -> Result<(), String> {
        if self.about.agent.is_none() {
            return Err("no agent's client was started here (`run --agent`), so no tool call is held back".to_owned());
        }
        given::mode_of(mode.as_bytes()).ok_or("the modes are accept-edits and auto")?;
        given::keep_mode(&self.dir, &mode).map_err(|cause| format!("it cannot be written down: {cause}"))?;
        self.note(What::Mode { mode });
        Ok(())
    }

    fn collect(&mut self) {
        let is_there = |pid: &rustix::process::Pid| {
            matches!(rustix::process::waitpid(Some(*pid), WaitOptions::NOHANG), Ok(None) | Err(rustix::io::Errno::INTR))
        };
        self.done.retain(is_there);
    }
}

impl Aside for Desk {
    fn is_paused(&self) -> bool {
        self.held.is_some()
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.clients.fd()
    }

    fn next(&self) -> Option<Instant> {
        let now = Instant::now();
        let waits = (self.work.is_none() && self.clients.has_line()).then_some(now);
        let expires = self.grants.iter().filter(|_| self.work.is_none()).filter_map(|grant| grant.until).min();
        let work = self.work.as_ref().map(|work| work.until);
        let done = (!self.done.is_empty()).then_some(now + Duration::from_millis(20));
        let keeps = self.keeps_from.map(|(from, _)| from);
        [waits, expires, work, done, keeps, self.again, self.sync, self.count, self.queue.next()]
            .into_iter()
            .flatten()
            .min()
    }

    fn attend(&mut self) -> Asked {
        for heard in self.clients.turn() {
            match heard {
                Heard::Own(BELL) => {
                    self.stopped();
                    self.names_ask();
                }
                Heard::Own(VERDICTS) => self.judged(),
                Heard::Own(BROKER) => {
                    self.broker_said();
                }
                Heard::Own(KEPT) => self.kept(),
                Heard::Own(CALLS) => self.calls.collect(&self.clients),
                Heard::Own(_) | Heard::Client => {}
            }
        }
        self.look();
        self.collect();
        if self.keeps_from.is_some_and(|(from, _)| from <= Instant::now()) {
            self.begin_to_keep();
        }
        self.expire_questions();
        if self.work.is_none() {
            self.expire();
        }
        // One at a time: there are other things to look after, and what changes the view takes its turn.
        if self.work.is_none()
            && let Some((client, line)) = self.clients.next_line()
        {
            self.answer(client, &line);
        }
        if self.again.is_none_or(|again| again <= Instant::now()) {
            self.flush(Patience::Running);
        }
        self.sync();
        self.count();
        self.asked
    }

    fn has_notice(&self) -> bool {
        self.notices.is_there()
    }

    fn notice(&mut self, screen: Screen) -> Option<String> {
        self.next_notice(screen)
    }

    fn question(&self) -> Option<Prompt> {
        self.prompt()
    }

    fn reply(&mut self, id: u64, key: Key) {
        self.replied(id, key);
    }
}
