//! The supervisor's desk: who wants to know or to change something of a running session, and what happens in it.
//!
//! It is attended to between everything else that a supervisor does, a little at a time: nobody who talks to it is waited for,
//! and what may take long is done by another process.

mod clients;
mod events;
mod hold;
mod watchdog;
mod wire;

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt as _;
use std::time::{Duration, Instant};

use ringfence_egress::Refusals;
use ringfence_plan::Found;
use ringfence_surface::AbsPath;
use ringfence_surface::policy::Watch;
use rustix::event::EventfdFlags;
use rustix::process::{Signal, WaitOptions};

use crate::audit::{Audit, Event, Patience, What};
use crate::given;
use crate::live::{Change, LiveError, LiveView, Place};
use crate::store::{About, Grants, Past, Session};
use crate::terminal::{Aside, Asked, Lifeline, Screen};
use crate::text::{Bytes, is_same, new_token, now_ms};
use crate::verdicts::Verdicts;
use crate::violations::{Stream, Summary};
use crate::walk::os_path;

use self::clients::{BELL, CHANGE, Clients, Heard, VERDICTS};
use self::events::Notices;
use self::hold::Held;
use self::watchdog::Watchdog;

pub(crate) use self::hold::PAUSED;
pub use self::wire::{Answer, Connection, Given, Masked, Reply, Request, VERSION, Verb};
pub(crate) use self::wire::{SOCKET, TOKEN};

/// What happened is on the disk after this time.
const SYNC: Duration = Duration::from_secs(1);
/// When to try again to write down what happened.
const AGAIN: Duration = Duration::from_millis(250);
/// More is not kept for later.
const MOST_PENDING: usize = 10_000;
/// A change that takes longer is given up.
const MOST_CHANGE: Duration = Duration::from_secs(5);
/// More places at once are not given.
const MOST_GRANTS: usize = 1_000;
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
    lost: u64,
    again: Option<Instant>,
    sync: Option<Instant>,
    clients: Clients,
    token: String,
    bell: Option<OwnedFd>,
    refusals: Option<Refusals>,
    /// What was denied so far.
    stream: Stream,
    /// When the number of it is next written where a client may show it.
    count: Option<Instant>,
    view: Option<LiveView>,
    grants: Vec<Grant>,
    /// How many grants there were: each has a number of its own.
    numbered: u64,
    work: Option<Work>,
    /// Processes that are done and not collected yet.
    done: Vec<rustix::process::Pid>,
    asked: Asked,
    /// Why the session ends, where that was not asked for.
    ended_by: Option<String>,
    /// Where the hook of an agent's client says what it refused.
    verdicts: Option<Verdicts>,
    watchdog: Watchdog,
    /// By which the session can be held, where it can.
    lifeline: Option<Lifeline>,
    held: Option<Held>,
    /// Lines for the user.
    notices: Notices,
}

#[derive(Debug)]
struct Grant {
    given: Given,
    path: AbsPath,
    until: Option<Instant>,
}

/// A change that is under way.
#[derive(Debug)]
struct Work {
    change: Change,
    until: Instant,
    /// Who waits for it.
    client: Option<u64>,
    what: Doing,
}

#[derive(Debug)]
enum Doing {
    Attach(Grant),
    Detach { path: AbsPath, why: &'static str },
}

/// Is it attended to?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Control {
    /// Others can talk to it.
    Socket,
    /// Nobody would answer: it only writes down what happens.
    None,
}

impl Desk {
    /// Writes down that a session begins, and listens.
    ///
    /// # Errors
    /// When it cannot be written down: a session of which nothing is known does not run.
    pub fn open(
        session: &Session,
        about: About,
        receipt: What,
        control: Control,
        watches: Vec<(Watch, String)>,
    ) -> io::Result<Self> {
        let audit = Audit::of(session.state());
        about.write(session.dir())?;
        let (path, command) = (about.project.clone(), about.command.clone());
        let start = What::Start { path, command, rung: about.rung.clone(), pid: about.pid };
        let events = [Event::now(&about.id, start), Event::now(&about.id, receipt)];
        audit.append(&events, Patience::Start)?;
        let mut clients = Clients::new()?;
        let mut token = String::new();
        if control == Control::Socket {
            token = new_token()?;
            keep_token(session.dir(), &token)?;
            clients.listen(session.dir())?;
        }
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
            lost: 0,
            again: None,
            sync: Some(Instant::now() + SYNC),
            clients,
            token,
            bell: None,
            refusals: None,
            stream: Stream::new(),
            count: None,
            view: None,
            grants: Vec::new(),
            numbered: 0,
            work: None,
            done: Vec::new(),
            asked: Asked::Nothing,
            ended_by: None,
            verdicts,
            watchdog: Watchdog::new(watches),
            lifeline: None,
            held: None,
            notices: Notices::new(),
        })
    }

    /// Takes over what can be changed of the running session.
    pub(crate) fn take(
        &mut self,
        view: Option<LiveView>,
        refusals: Option<&Refusals>,
        lifeline: Option<Lifeline>,
    ) -> io::Result<()> {
        self.lifeline = lifeline;
        self.view = view.filter(|_| self.about.grants != Grants::None);
        if let Some(refusals) = refusals {
            let bell = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
            self.clients.watch(bell.as_fd(), BELL)?;
            refusals.ring(rustix::io::fcntl_dupfd_cloexec(&bell, 3)?);
            (self.bell, self.refusals) = (Some(bell), Some(refusals.clone()));
            // What came before the bell was hung up.
            self.stopped();
        }
        Ok(())
    }

    /// Writes down that it did not start.
    pub fn failed(mut self, why: &str) {
        self.note(What::Failed { why: why.to_owned() });
        self.flush(Patience::Start);
    }

    /// Writes down how it ended, and returns what was denied in it; an error where it cannot be written.
    pub fn ended(mut self, code: u8) -> (Summary, io::Result<()>) {
        self.stopped();
        self.judged();
        self.passed_over();
        for untold in self.stream.untold() {
            self.note(What::Violation(untold));
        }
        let summary = Summary { ended_by: self.ended_by.take(), ..self.stream.summary() };
        (summary, self.write_end(code))
    }

    fn write_end(&mut self, code: u8) -> io::Result<()> {
        let stopped = self.stream.kinds();
        if let Some(work) = self.work.take() {
            self.give_up(&work);
        }
        self.note(What::End { code, stopped });
        self.flush(Patience::Start);
        let past = Past { about: self.about.clone(), ended_ms: now_ms(), code: Some(code), stopped };
        past.keep(&self.state)?;
        if self.began.elapsed() > LONG {
            self.audit.sync()?;
        }
        if self.pending.is_empty() { Ok(()) } else { Err(io::Error::other("the audit could not be written")) }
    }

    /// Something happened: it is told at once, and written down with what else happens in this turn.
    fn note(&mut self, what: What) {
        let event = Event::now(&self.about.id, what);
        self.clients.tell(&Answer::Event { happened: event.clone() });
        if self.pending.len() < MOST_PENDING {
            self.pending.push(event);
        } else {
            self.lost += 1;
        }
    }

    fn flush(&mut self, patience: Patience) {
        if self.pending.is_empty() {
            return;
        }
        if self.lost > 0 && self.pending.len() >= MOST_PENDING {
            let why = format!("{} more events could not be written", self.lost);
            self.pending.push(Event::now(&self.about.id, What::Failed { why }));
        }
        match self.audit.append(&self.pending, patience) {
            Ok(()) => {
                self.pending.clear();
                (self.again, self.lost) = (None, 0);
                self.sync = self.sync.or(Some(Instant::now() + SYNC));
            }
            Err(_) => self.again = Some(Instant::now() + AGAIN),
        }
    }

    fn answer(&mut self, client: u64, line: &[u8]) {
        let refused =
            |why: &str, hint: Option<&str>| Answer::Refused { why: why.to_owned(), hint: hint.map(str::to_owned) };
        let request = match serde_json::from_slice::<Request>(line) {
            Ok(request) if request.v == VERSION && is_same(&request.token, &self.token) => request,
            Ok(request) if request.v == VERSION => {
                return self.clients.say(client, refused("the token is another one", None));
            }
            Ok(request) => {
                let why = format!("version {} is not spoken here, {VERSION} is", request.v);
                return self.clients.say(client, refused(&why, None));
            }
            Err(cause) => return self.clients.say(client, refused(&format!("not a request: {cause}"), None)),
        };
        let answer = match request.ask {
            Verb::Status {} => self.status(),
            Verb::Stop {} => {
                self.asked = Asked::End;
                Answer::Done
            }
            Verb::Pause {} => self.pause("asked for").map_or_else(|why| refused(&why, None), |()| Answer::Done),
            Verb::Resume {} => self.resume().map_or_else(|why| refused(&why, None), |()| Answer::Done),
            Verb::Subscribe {} => {
                self.clients.subscribe(client);
                Answer::Done
            }
            Verb::Grant { path, device, inode, for_ms, masked } => {
                let asked = path.shown();
                match self.grant(client, &path, (device, inode), for_ms, &masked) {
                    Ok(()) => return,
                    Err((why, hint)) => {
                        self.note(What::GrantRefused { asked, why: why.clone() });
                        Answer::Refused { why, hint }
                    }
                }
            }
            Verb::Mode { mode } => match self.change_mode(mode) {
                Ok(()) => Answer::Done,
                Err(why) => refused(&why, None),
            },
            Verb::Revoke { path } => match self.revoke(Some(client), &path, "asked for") {
                Ok(()) => return,
                Err(why) => refused(&why, None),
            },
        };
        self.clients.say(client, answer);
    }

    fn status(&self) -> Answer {
        Answer::Status {
            session: Box::new(self.about.clone()),
            grants: self.grants.iter().map(|grant| grant.given.clone()).collect(),
            stopped: usize::try_from(self.stream.kinds()).unwrap_or(usize::MAX),
            denied: self.stream.denied(),
            paused: self.held.as_ref().map(|held| held.why.clone()),
        }
    }

    /// Begins to give a place.
    fn grant(
        &mut self,
        client: u64,
        path: &Bytes,
        id: (u64, u64),
        for_ms: Option<u64>,
        masked: &[Masked],
    ) -> Result<(), (String, Option<String>)> {
        let plain = |why: &str| (why.to_owned(), None);
        let Some(view) = &self.view else {
            let hint = "end the session, and name the place in the policy or with `--ref`";
            return Err((
                format!("the view of a session on the rung {} cannot be changed", self.about.rung),
                Some(hint.into()),
            ));
        };
        let path = path.path().ok_or_else(|| plain("not a path"))?;
        if path.is_root() {
            return Err(plain("the whole host is not given"));
        }
        if self.grants.len() >= MOST_GRANTS {
            return Err(plain("too many places were given already"));
        }
        if let Some(grant) = self.grants.iter_mut().find(|grant| grant.path == path) {
            // The same place again: only its time changes.
            (grant.until, grant.given.until_ms) = end_of(for_ms);
            let what = grant_event(&grant.given);
            self.note(what);
            self.clients.say(client, Answer::Done);
            return Ok(());
        }
        let overlaps = |grant: &&Grant| grant.path.is_within(&path) || path.is_within(&grant.path);
        if let Some(grant) = self.grants.iter().find(overlaps) {
            let why = format!("{} was given, and one of the two lies in the other", grant.path);
            return Err((why, Some(format!("`ringfence revoke {} {}` first", self.about.id, grant.path))));
        }
        let kind = |masked: &Masked| if masked.directory { Found::Directory } else { Found::File };
        let masked: Option<Vec<(AbsPath, Found)>> =
            masked.iter().map(|masked| Some((masked.path.path()?, kind(masked)))).collect();
        let place = Place { path: path.clone(), id, masked: masked.ok_or_else(|| plain("not a path"))? };
        let change = view.attach(&place).map_err(|cause| (cause.to_string(), None))?;
        let (until, until_ms) = end_of(for_ms);
        self.numbered += 1;
        let (n, since_ms) = (self.numbered, now_ms());
        let given = Given { n, path: Bytes::new(path.as_bytes()), access: "read".into(), since_ms, until_ms };
        self.begin(change, Some(client), Doing::Attach(Grant { given, path, until }));
        Ok(())
    }

    /// Begins to take a place away.
    fn revoke(&mut self, client: Option<u64>, path: &Bytes, why: &'static str) -> Result<(), String> {
        let path = path.path().ok_or("not a path")?;
        if !self.grants.iter().any(|grant| grant.path == path) {
            return Err(format!("{path} was not given to this session while it ran"));
        }
        let view = self.view.as_ref().ok_or("the view cannot be changed")?;
        let change = view.detach(&path).map_err(|cause| cause.to_string())?;
        self.begin(change, client, Doing::Detach { path, why });
        Ok(())
    }

    fn begin(&mut self, change: Change, client: Option<u64>, what: Doing) {
        // Where it cannot be watched it is looked at when its time is up.
        let _ = self.clients.watch(change.report.as_fd(), CHANGE);
        self.work = Some(Work { change, until: Instant::now() + MOST_CHANGE, client, what });
    }

    /// Looks whether the change that is under way is done.
    fn look(&mut self) {
        let Some(work) = self.work.take() else { return };
        let result = match work.change.result() {
            Some(result) => result.map_err(|error| told(&error)),
            None if Instant::now() < work.until => {
                self.work = Some(work);
                return;
            }
            None => {
                self.give_up(&work);
                Err("it took too long".to_owned())
            }
        };
        self.clients.forget(work.change.report.as_fd());
        self.done.push(work.change.child.pid);
        let answer = match (result, work.what) {
            (Ok(()), Doing::Attach(grant)) => {
                self.note(grant_event(&grant.given));
                self.grants.push(grant);
                self.say_grants()
            }
            (Ok(()), Doing::Detach { path, why }) => {
                self.grants.retain(|grant| grant.path != path);
                self.note(What::Revoke { path: Bytes::new(path.as_bytes()), why: why.to_owned() });
                self.say_grants()
            }
            (Err(why), Doing::Attach(grant)) => {
                self.note(What::GrantRefused { asked: grant.path.to_string(), why: why.clone() });
                Answer::Refused { why, hint: None }
            }
            (Err(why), Doing::Detach { path, .. }) => {
                // It is tried again: what was given for a time does not stay for ever.
                if let Some(grant) = self.grants.iter_mut().find(|grant| grant.path == path && grant.until.is_some()) {
                    grant.until = Some(Instant::now() + AGAIN);
                }
                Answer::Refused { why, hint: None }
            }
        };
        if let Some(client) = work.client {
            self.clients.say(client, answer);
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

    /// Whoever decides by the session's record sees it from now on.
    fn say_grants(&self) -> Answer {
        let paths: Vec<Bytes> = self.grants.iter().map(|grant| grant.given.path.clone()).collect();
        match given::keep_grants(&self.dir, &paths) {
            Ok(()) => Answer::Done,
            Err(cause) => {
                let why = format!("it is done, and could not be written into the session's record: {cause}");
                Answer::Refused { why, hint: None }
            }
        }
    }

    fn give_up(&self, work: &Work) {
        // It has ended, where this fails.
        let _ = rustix::process::pidfd_send_signal(&work.change.child.pidfd, Signal::KILL);
    }

    /// Takes away what was given for a time that is over.
    fn expire(&mut self) {
        let now = Instant::now();
        let over = self.grants.iter_mut().find(|grant| grant.until.is_some_and(|until| until <= now));
        let Some(grant) = over else { return };
        let path = grant.given.path.clone();
        // Looked at again soon, whatever comes of it.
        grant.until = Some(now + AGAIN);
        let _ = self.revoke(None, &path, "its time is over");
    }

    fn collect(&mut self) {
        let is_there = |pid: &rustix::process::Pid| {
            matches!(rustix::process::waitpid(Some(*pid), WaitOptions::NOHANG), Ok(None) | Err(rustix::io::Errno::INTR))
        };
        self.done.retain(is_there);
    }

    /// Has what was written reach the disk, without waiting for it.
    fn sync(&mut self) {
        if self.sync.is_none_or(|sync| Instant::now() < sync) {
            return;
        }
        self.sync = None;
        let audit = self.audit.clone();
        // A disk that cannot be synced cannot be helped from here.
        let _ = std::thread::Builder::new().stack_size(64 * 1024).spawn(move || audit.sync());
        // What was needed to come as far as this is not needed while nothing happens.
        let _ = ringfence_sys::memory::let_go_of_program();
    }
}

impl Aside for Desk {
    fn fd(&self) -> BorrowedFd<'_> {
        self.clients.fd()
    }

    fn next(&self) -> Option<Instant> {
        let now = Instant::now();
        let waits = (self.work.is_none() && self.clients.has_line()).then_some(now);
        let expires = self.grants.iter().filter(|_| self.work.is_none()).filter_map(|grant| grant.until).min();
        let work = self.work.as_ref().map(|work| work.until);
        let done = (!self.done.is_empty()).then_some(now + Duration::from_millis(20));
        [waits, expires, work, done, self.again, self.sync, self.count].into_iter().flatten().min()
    }

    fn attend(&mut self) -> Asked {
        for heard in self.clients.turn() {
            match heard {
                Heard::Own(BELL) => self.stopped(),
                Heard::Own(VERDICTS) => self.judged(),
                Heard::Own(_) | Heard::Client => {}
            }
        }
        self.look();
        self.collect();
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

    fn notice(&mut self, screen: Screen) -> Option<String> {
        self.notices.next(screen)
    }
}

/// Something that only those know who can read what ringfence keeps.
fn keep_token(dir: &AbsPath, token: &str) -> io::Result<()> {
    let mut options = std::fs::OpenOptions::new();
    let mut file = options.write(true).create_new(true).mode(0o600).open(os_path(&dir.join(TOKEN)))?;
    io::Write::write_all(&mut file, token.as_bytes())
}

fn grant_event(given: &Given) -> What {
    What::Grant { path: given.path.clone(), access: given.access.clone(), until_ms: given.until_ms }
}

fn end_of(for_ms: Option<u64>) -> (Option<Instant>, Option<u64>) {
    let Some(for_ms) = for_ms else { return (None, None) };
    (Instant::now().checked_add(Duration::from_millis(for_ms)), Some(now_ms().saturating_add(for_ms)))
}

/// An error with its cause in one line.
fn told(error: &LiveError) -> String {
    match std::error::Error::source(error) {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}
