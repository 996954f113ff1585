//! What is given to a running session and taken away again: places of the host, and ways out.
//!
//! One change is under way at a time. A short-lived process or the thread of the way out makes it, and says when it is in force;
//! only then whoever asked is told, and the session's record says so.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use ringfence_egress::Outcome;
use ringfence_plan::Found;
use ringfence_surface::policy::Counted;
use ringfence_surface::{AbsPath, Way};
use rustix::process::Signal;

use crate::audit::What;
use crate::broker::wire::Told;
use crate::give;
use crate::given::{self, Kept};
use crate::late;
use crate::live::{Change, LiveError, LiveView, Place, Right};
use crate::record::Record;
use crate::review;
use crate::store::Grants;
use crate::text::{Bytes, now_ms};

use super::clients::CHANGE;
use super::{AGAIN, Answer, Desk, Given, Gives, Masked, Verb};

/// A change that takes longer is given up.
const MOST_CHANGE: Duration = Duration::from_secs(5);
/// More at once is not given.
const MOST_GRANTS: usize = 1_000;

/// Why something is not done, and what helps.
pub(super) type Refused = (String, Option<String>);

/// Something that was given.
#[derive(Debug)]
pub(super) struct Grant {
    given: Given,
    what: Thing,
    pub(super) until: Option<Instant>,
}

/// What it is.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Thing {
    Place(AbsPath, Gives),
    Way(Way),
}

/// A change that is under way.
#[derive(Debug)]
pub(super) struct Work {
    maker: Maker,
    pub(super) until: Instant,
    /// Who waits for it.
    client: Option<u64>,
    doing: Doing,
}

/// Who makes a change.
#[derive(Debug)]
enum Maker {
    /// A process, in the view.
    Process(Change),
    /// The way out, which says here what became of it.
    Way(OwnedFd),
}

#[derive(Debug)]
enum Doing {
    Give(Grant),
    Take { what: Thing, why: &'static str },
}

impl Work {
    fn report(&self) -> BorrowedFd<'_> {
        match &self.maker {
            Maker::Process(change) => change.report.as_fd(),
            Maker::Way(report) => report.as_fd(),
        }
    }

    /// What became of it, with how many connections ended by it; `None` while it is under way.
    fn result(&self) -> Option<Result<u64, String>> {
        match &self.maker {
            Maker::Process(change) => change.result().map(|result| result.map(|()| 0).map_err(|error| told(&error))),
            Maker::Way(report) => match Outcome::read(report) {
                Ok(None) => None,
                Ok(Some(Outcome::Done(ended))) => Some(Ok(ended)),
                Ok(Some(Outcome::Taken)) => Some(Err("a program inside listens at that port already".to_owned())),
                Ok(Some(Outcome::Full)) => Some(Err("too many hosts have been asked for in this session".to_owned())),
                Err(cause) => Some(Err(format!("the way out has ended: {cause}"))),
            },
        }
    }

    /// Ends whoever makes it.
    pub(super) fn give_up(&self) {
        if let Maker::Process(change) = &self.maker {
            // It has ended, where this fails.
            let _ = rustix::process::pidfd_send_signal(&change.child.pidfd, Signal::KILL);
        }
    }
}

impl Desk {
    /// Begins to give or to take something.
    pub(super) fn change(&mut self, client: u64, verb: Verb) -> Result<(), Refused> {
        let asked = match &verb {
            Verb::Grant { path, .. } => Some(path.shown()),
            Verb::GrantHost { host, .. } => Some(host.clone()),
            _ => None,
        };
        let begun = match verb {
            Verb::Grant { path, access, device, inode, for_ms, masked } => path
                .path()
                .ok_or_else(|| plain("not a path"))
                .and_then(|path| self.grant_place(client, path, access, ((device, inode), &masked), for_ms)),
            Verb::GrantHost { host, for_ms } => self.grant_way(client, &host, for_ms),
            Verb::Revoke { path } => {
                let path = path.path().ok_or_else(|| plain("not a path"))?;
                let is_it = |what: &Thing| matches!(what, Thing::Place(place, _) if *place == path);
                self.revoke(Some(client), is_it, "asked for").map_err(|()| not_given(&path))
            }
            Verb::RevokeHost { host } => {
                let way = Way::parse(&host).map_err(|cause| (cause.to_string(), None))?;
                let is_it = |what: &Thing| matches!(what, Thing::Way(given) if *given == way);
                self.revoke(Some(client), is_it, "asked for").map_err(|()| not_given(&way))
            }
            _ => Err(plain("not a change")),
        };
        if let (Err((why, _)), Some(asked)) = (&begun, asked) {
            self.note(What::GrantRefused { asked, why: why.clone() });
        }
        begun
    }

    fn grant_place(
        &mut self,
        client: u64,
        path: AbsPath,
        access: Gives,
        (id, masked): ((u64, u64), &[Masked]),
        for_ms: Option<u64>,
    ) -> Result<(), Refused> {
        let is_changeable = match access {
            Gives::Read => self.about.grants != Grants::None,
            // Landlock's rules cannot be added to. Writes elsewhere are those that the broker carries out.
            Gives::Write => self.about.grants != Grants::None && self.broker.is_some(),
        };
        if self.view.is_none() || !is_changeable {
            if access == Gives::Write && self.about.grants != Grants::None {
                let why = "no place can be made writable while this session runs: Landlock admits writes only where the start \
                           did, and no broker carries them out";
                let hint = "end it and name the place in `[files] write`, or give it to read";
                return Err((why.to_owned(), Some(hint.to_owned())));
            }
            let hint = "end the session, and name the place in the policy or with `--ref`".to_owned();
            let why = format!("the view of a session on the rung {} cannot be changed", self.about.rung);
            return Err((why, Some(hint)));
        }
        if access == Gives::Write && review::is_on(&self.dir) {
            let why = "what this session writes waits for a review; what it writes to a place that is given would land at once";
            let hint = "give it to read, or end the session and name the place in `[files] write`";
            return Err((why.to_owned(), Some(hint.to_owned())));
        }
        if path.is_root() {
            return Err(plain("the whole host is not given"));
        }
        if self.renewed(client, &Thing::Place(path.clone(), access), for_ms)? {
            return Ok(());
        }
        if id == give::AGAIN {
            return Err(plain("its time is over"));
        }
        let overlaps = |grant: &&Grant| {
            let Thing::Place(other, gives) = &grant.what else { return false };
            // What can be read can be made writable in the same place.
            let is_upgrade = *other == path && *gives == Gives::Read && access == Gives::Write;
            !is_upgrade && (other.is_within(&path) || path.is_within(other))
        };
        if let Some(grant) = self.grants.iter().find(overlaps) {
            let given = grant.given.path.shown();
            let why = format!("{given} was given, and one of the two lies in the other");
            return Err((why, Some(format!("`ringfence revoke {} {given}` first", self.about.id))));
        }
        let kind = |masked: &Masked| if masked.directory { Found::Directory } else { Found::File };
        let masked: Option<Vec<(AbsPath, Found)>> =
            masked.iter().map(|masked| Some((masked.path.path()?, kind(masked)))).collect();
        let masked = masked.ok_or_else(|| plain("not a path"))?;
        let right = match access {
            Gives::Read => Right::Read,
            Gives::Write => Right::Write,
        };
        let place = Place { path: path.clone(), id, masked, right };
        let change = self.view.as_ref().ok_or_else(gone).and_then(|view| view.attach(&place));
        let change = change.map_err(|cause| (cause.to_string(), None))?;
        let given = Bytes::new(path.as_bytes());
        let grant = self.numbered(given, access.word(), Thing::Place(path, access), for_ms);
        self.begin(Maker::Process(change), Some(client), Doing::Give(grant));
        Ok(())
    }

    fn grant_way(&mut self, client: u64, host: &str, for_ms: Option<u64>) -> Result<(), Refused> {
        let way = Way::parse(host).map_err(|cause| (cause.to_string(), None))?;
        if let Way::Host(pattern) = &way
            && pattern.is_network()
            && pattern.single_address().is_none()
        {
            return Err(plain("a whole network is given at the start or not at all: name one address"));
        }
        if self.renewed(client, &Thing::Way(way.clone()), for_ms)? {
            return Ok(());
        }
        self.open_way()?;
        let lever = self.lever.as_ref().ok_or_else(|| plain("there is no way out"))?;
        let report = lever.give(way.clone()).map_err(|cause| (cause.to_string(), None))?;
        let grant = self.numbered(Bytes::Text(way.to_string()), "reach", Thing::Way(way), for_ms);
        self.begin(Maker::Way(report), Some(client), Doing::Give(grant));
        Ok(())
    }

    /// A session that reaches nothing has no way out until one is needed.
    fn open_way(&mut self) -> Result<(), Refused> {
        if self.lever.is_some() {
            return Ok(());
        }
        let network = self.view.as_ref().and_then(LiveView::network);
        let Some(network) = network else {
            let why = format!("the network of a session on the rung {} cannot be changed", self.about.rung);
            let hint = "end the session, and name the host in `[network] allow`".to_owned();
            return Err((why, Some(hint)));
        };
        // The hosts whose names may lead to private addresses are those of the start.
        let record = Record::read(&given::dir(&self.dir).join(given::RECORD));
        let private =
            record.map(|record| record.surface.reach().private.iter().map(|host| host.value.clone()).collect());
        let opened = network.and_then(|network| late::open(network, private.map_err(io::Error::other)?));
        let way = opened.map_err(|cause| (format!("a way out cannot be made: {cause}"), None))?;
        self.take_way(&way).map_err(|cause| (cause.to_string(), None))?;
        self.late = Some(way);
        Ok(())
    }

    /// Was this given already? Then only its time changes. An error where there is no room for more.
    fn renewed(&mut self, client: u64, what: &Thing, for_ms: Option<u64>) -> Result<bool, Refused> {
        let Some(grant) = self.grants.iter_mut().find(|grant| grant.what == *what) else {
            let has_room = self.grants.len() < MOST_GRANTS;
            return if has_room { Ok(false) } else { Err(plain("too much was given already")) };
        };
        (grant.until, grant.given.until_ms) = end_of(for_ms);
        let what = grant.event();
        self.note(what);
        self.clients.say(client, Answer::Done);
        Ok(true)
    }

    /// Begins to take something away, what was given last first. An error where it was not given.
    fn revoke(&mut self, client: Option<u64>, is_it: impl Fn(&Thing) -> bool, why: &'static str) -> Result<(), ()> {
        let what = self.grants.iter().rev().map(|grant| &grant.what).find(|what| is_it(what)).cloned().ok_or(())?;
        let maker = match &what {
            Thing::Place(path, gives) => {
                if *gives == Gives::Write {
                    // Before it is gone nothing more is written; what is open stays open.
                    self.tell_broker(&Told::Revoke { path: path.clone() });
                }
                self.view.as_ref().ok_or_else(gone).and_then(|view| view.detach(path)).map(Maker::Process)
            }
            Thing::Way(way) => {
                self.lever.as_ref().ok_or_else(gone).and_then(|lever| lever.take(way.clone())).map(Maker::Way)
            }
        };
        match (maker, client) {
            (Ok(maker), client) => self.begin(maker, client, Doing::Take { what, why }),
            (Err(cause), Some(client)) => {
                self.clients.say(client, Answer::Refused { why: cause.to_string(), hint: None });
            }
            // It is tried again.
            (Err(_), None) => {}
        }
        Ok(())
    }

    fn begin(&mut self, maker: Maker, client: Option<u64>, doing: Doing) {
        let work = Work { maker, until: Instant::now() + MOST_CHANGE, client, doing };
        // Where it cannot be watched it is looked at when its time is up.
        let _ = self.clients.watch(work.report(), CHANGE);
        self.work = Some(work);
    }

    /// Looks whether the change that is under way is done.
    pub(super) fn look(&mut self) {
        let Some(work) = self.work.take() else { return };
        let result = match work.result() {
            Some(result) => result,
            None if Instant::now() < work.until => {
                self.work = Some(work);
                return;
            }
            None => {
                work.give_up();
                Err("it took too long".to_owned())
            }
        };
        self.clients.forget(work.report());
        if let Maker::Process(change) = &work.maker {
            self.done.push(change.child.pid);
        }
        let answer = match (result, work.doing) {
            (Ok(_), Doing::Give(grant)) => {
                if let Thing::Place(path, Gives::Write) = &grant.what {
                    self.tell_broker(&Told::Grant { path: path.clone() });
                }
                if let Thing::Place(path, gives) = &grant.what {
                    self.keep_given(path, *gives);
                }
                self.note(grant.event());
                self.watch(Counted::Granted, 1);
                self.grants.push(grant);
                self.say_grants(Answer::Done)
            }
            (Ok(connections), Doing::Take { what, why }) => {
                if let Some(at) = self.grants.iter().rposition(|grant| grant.what == what) {
                    self.grants.remove(at);
                }
                match what {
                    Thing::Place(path, _) => {
                        self.keep_taken(&path);
                        self.note(What::Revoke { path: Bytes::new(path.as_bytes()), why: why.to_owned() });
                        let answer = self.say_grants(Answer::Done);
                        let is_it = |other: &Thing| matches!(other, Thing::Place(other, _) if *other == path);
                        // Whoever takes a place away means all that was given of it: to be read, and to be written.
                        if work.client.is_some()
                            && answer == Answer::Done
                            && self.revoke(work.client, is_it, why).is_ok()
                        {
                            return;
                        }
                        answer
                    }
                    Thing::Way(way) => {
                        self.note(What::RevokeHost { host: way.to_string(), why: why.to_owned() });
                        self.say_grants(Answer::Closed { connections })
                    }
                }
            }
            (Err(why), Doing::Give(grant)) => {
                self.note(What::GrantRefused { asked: grant.given.path.shown(), why: why.clone() });
                Answer::Refused { why, hint: None }
            }
            (Err(why), Doing::Take { what, .. }) => {
                // It is tried again: what was given for a time does not stay for ever.
                let again = |grant: &&mut Grant| grant.what == what && grant.until.is_some();
                if let Some(grant) = self.grants.iter_mut().find(again) {
                    grant.until = Some(Instant::now() + AGAIN);
                }
                Answer::Refused { why, hint: None }
            }
        };
        if let Some(client) = work.client {
            self.clients.say(client, answer);
        }
    }

    /// Whoever decides by the session's record sees it from now on.
    fn say_grants(&self, answer: Answer) -> Answer {
        let kept: Vec<Kept> = self.grants.iter().map(Grant::kept).collect();
        match given::keep_grants(&self.dir, &kept) {
            Ok(()) => answer,
            Err(cause) => {
                let why = format!("it is done, and could not be written into the session's record: {cause}");
                Answer::Refused { why, hint: None }
            }
        }
    }

    /// A grant with a number that no other has or will have.
    fn numbered(&mut self, path: Bytes, access: &str, what: Thing, for_ms: Option<u64>) -> Grant {
        self.numbered += 1;
        let (until, until_ms) = end_of(for_ms);
        let given = Given { n: self.numbered, path, access: access.to_owned(), since_ms: now_ms(), until_ms };
        Grant { given, what, until }
    }

    pub(super) fn given(&self) -> Vec<Given> {
        self.grants.iter().map(|grant| grant.given.clone()).collect()
    }

    /// Takes away what was given for a time that is over.
    pub(super) fn expire(&mut self) {
        let now = Instant::now();
        let over = self.grants.iter_mut().rev().find(|grant| grant.until.is_some_and(|until| until <= now));
        let Some(grant) = over else { return };
        let what = grant.what.clone();
        // Looked at again soon, whatever comes of it.
        grant.until = Some(now + AGAIN);
        if let Thing::Place(path, Gives::Read) = &what
            && self.grants.iter().any(|grant| grant.what == Thing::Place(path.clone(), Gives::Write))
        {
            // What was given to be written lies over it, and goes first.
            return;
        }
        let _ = self.revoke(None, |other| *other == what, "its time is over");
    }
}

impl Grant {
    fn event(&self) -> What {
        let (given, until_ms) = (&self.given, self.given.until_ms);
        match &self.what {
            Thing::Place(..) => What::Grant { path: given.path.clone(), access: given.access.clone(), until_ms },
            Thing::Way(way) => What::GrantHost { host: way.to_string(), until_ms },
        }
    }

    fn kept(&self) -> Kept {
        match &self.what {
            Thing::Place(path, Gives::Read) => Kept::Read(Bytes::new(path.as_bytes())),
            Thing::Place(path, Gives::Write) => Kept::Write(Bytes::new(path.as_bytes())),
            Thing::Way(way) => Kept::Reach(way.to_string()),
        }
    }
}

fn plain(why: &str) -> Refused {
    (why.to_owned(), None)
}

fn not_given(what: &dyn std::fmt::Display) -> Refused {
    (format!("{what} was not given to this session while it ran"), None)
}

fn gone() -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, "what it was given by is gone")
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
