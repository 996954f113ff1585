//! What happens, told as it does (server-sent events). It is read from the audit, so nobody who listens is in a supervisor's way,
//! and somebody who was away goes on where it stopped: the id of an event is where it stands in the audit.

use std::io;
use std::time::{Duration, Instant};

use ringfence_session::audit::{Audit, Follow, From, Stored, What};
use ringfence_session::store::Found;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::answer::{Answer, PATIENCE, stream_head};
use super::line::Line;
use super::request::Request;
use super::sessions;
use crate::commands::sessions::states;
use crate::error::Failure;
use crate::host::os_path;
use crate::out::safe_json;

/// So often something is said, so that whoever has gone is noticed.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// So often one looks where nobody rings.
const LOOK: Duration = Duration::from_millis(500);

/// Events of one session or of all.
pub(super) struct Events {
    /// One for each place where sessions keep their state.
    follows: Vec<Follow>,
    /// Only of this session, and only until it ends.
    session: Option<String>,
    is_over: bool,
}

impl Events {
    pub(super) fn all(request: &Request) -> Result<Self, Answer> {
        let states = states()?;
        let after = after(request, states.len())?;
        let mut follows = Vec::new();
        for (number, state) in states.iter().enumerate() {
            let read = |source| Failure::Read { path: os_path(&state.join("audit")).into(), source };
            follows.push(
                Audit::of(state)
                    .follow(after.as_ref().map_or(From::Now, |after| From::After(after[number])))
                    .map_err(read)?,
            );
        }
        Ok(Self { follows, session: None, is_over: false })
    }

    /// Of one session: from its beginning, or from where somebody stopped.
    pub(super) fn of(id: &str, request: &Request) -> Result<Self, Answer> {
        let (state, found) = sessions::any(id)?;
        let after = after(request, 1)?.map(|after| after[0]);
        let read = |source| Failure::Read { path: os_path(&state.join("audit")).into(), source };
        // Of one that has ended there is nothing to wait for: what was written is told.
        let is_over = matches!(found, Found::Past(_));
        let began = match &found {
            Found::Live(live) => live.about.as_ref().map_or(0, |about| about.started_ms),
            Found::Past(past) => past.about.started_ms,
        };
        let follow = Audit::of(&state).follow(after.map_or(From::Moment(began), From::After)).map_err(read)?;
        Ok(Self { follows: vec![follow], session: Some(id.to_owned()), is_over })
    }

    /// Tells until the session ends, or nobody listens any more.
    pub(super) fn tell(mut self, line: &Line) {
        if self.go_on(line).is_ok() {
            line.finish();
        }
    }

    fn go_on(&mut self, line: &Line) -> io::Result<()> {
        line.write(stream_head().as_bytes(), Instant::now() + PATIENCE)?;
        line.write(b": listening\n\n", Instant::now() + PATIENCE)?;
        let mut beat = Instant::now() + HEARTBEAT;
        loop {
            let mut is_quiet = true;
            for number in 0..self.follows.len() {
                let found = self.follows[number].more()?;
                is_quiet &= found.is_empty();
                for stored in found {
                    self.say(number, &stored, line)?;
                }
            }
            if is_quiet && self.is_over {
                return Ok(());
            }
            if Instant::now() >= beat {
                line.write(b": alive\n\n", Instant::now() + PATIENCE)?;
                beat = Instant::now() + HEARTBEAT;
            }
            if is_quiet {
                self.wait(line, beat)?;
            }
        }
    }

    fn say(&mut self, number: usize, stored: &Stored, line: &Line) -> io::Result<()> {
        if self.session.is_some() && stored.event.session != self.session {
            return Ok(());
        }
        if self.session.is_some() && matches!(stored.event.what, What::End { .. } | What::Killed | What::Failed { .. })
        {
            self.is_over = true;
        }
        let value = serde_json::to_value(&stored.event)?;
        let name = value["event"].as_str().unwrap_or("event");
        // Where each audit was when this line of one of them was read: with one, the number of the line.
        let told = self.follows.iter().enumerate().map(
            |(other, follow)| {
                if other == number { stored.n } else { follow.told() }
            },
        );
        let id = told.map(|told| told.to_string()).collect::<Vec<_>>().join("-");
        let text = format!("id: {id}\nevent: {name}\ndata: {}\n\n", safe_json(&value.to_string()));
        line.write(text.as_bytes(), Instant::now() + PATIENCE)
    }

    /// Waits for more, or for the end of whoever listens.
    fn wait(&self, line: &Line, beat: Instant) -> io::Result<()> {
        let bells: Vec<_> = self.follows.iter().filter_map(Follow::fd).collect();
        let look = if bells.len() < self.follows.len() { LOOK } else { HEARTBEAT };
        let most = beat.saturating_duration_since(Instant::now()).min(look);
        let most = Timespec::try_from(most).unwrap_or_default();
        // Nothing more is listened to: only that it has gone counts.
        let mut fds = vec![PollFd::from_borrowed_fd(line.fd(), PollFlags::RDHUP)];
        fds.extend(bells.into_iter().map(|bell| PollFd::from_borrowed_fd(bell, PollFlags::IN)));
        match poll(&mut fds, Some(&most)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        let gone = PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR;
        if fds[0].revents().intersects(gone) { Err(io::ErrorKind::BrokenPipe.into()) } else { Ok(()) }
    }
}

/// Where somebody stopped, by the id of the last event.
fn after(request: &Request, count: usize) -> Result<Option<Vec<u64>>, Answer> {
    let Some(said) = request.field("last-event-id")? else { return Ok(None) };
    let numbers: Option<Vec<u64>> = said.split('-').map(|part| part.parse().ok()).collect();
    match numbers {
        Some(numbers) if numbers.len() == count => Ok(Some(numbers)),
        // From the beginning, wherever there are audits.
        Some(numbers) if numbers == [0] => Ok(Some(vec![0; count])),
        _ => Err(Answer::problem(400, "Last-Event-ID is no id of an event", None)),
    }
}
