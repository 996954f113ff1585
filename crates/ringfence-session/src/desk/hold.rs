//! A session that is paused, and what the watchdog does.

use std::fs;
use std::time::Instant;

use ringfence_surface::Shown;
use ringfence_surface::policy::{Counted, Then};

use crate::audit::What;
use crate::hold::{GO_ON, HOLD};
use crate::terminal::Asked;
use crate::walk::os_path;

use super::Desk;
use super::calls::{PAUSE, RESUME};
use super::watchdog::Alarm;

/// A file in a session's directory while it is paused: nothing new is started in it.
pub(crate) const PAUSED: &str = "paused";

/// A session that is paused.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) why: String,
}

impl Desk {
    /// Stops everything in the session until somebody lets it go on.
    pub(super) fn pause(&mut self, why: &str) -> Result<(), String> {
        if self.held.is_some() {
            return Err("it is paused already".to_owned());
        }
        let Some(lifeline) = &self.lifeline else {
            return Err(format!("a session on the rung {} cannot be paused; it can be stopped", self.about.rung));
        };
        if !lifeline.say(HOLD) {
            return Err("it is ending".to_owned());
        }
        // Single calls look for it.
        let _ = fs::write(os_path(&self.dir.join(PAUSED)), why);
        self.calls.tell(PAUSE);
        self.held = Some(Held { why: why.to_owned() });
        self.note(What::Pause { why: why.to_owned() });
        let id = &self.about.id;
        let line = format!("ringfence: paused: {}; `ringfence resume {id}` lets it go on", Shown(why.as_bytes()));
        self.notices.add_urgent(line);
        Ok(())
    }

    /// Lets it go on.
    pub(super) fn resume(&mut self) -> Result<(), String> {
        if self.held.is_none() {
            return Err("it is not paused".to_owned());
        }
        if !self.lifeline.as_ref().is_some_and(|lifeline| lifeline.say(GO_ON)) {
            return Err("it is ending".to_owned());
        }
        self.calls.tell(RESUME);
        self.held = None;
        let _ = fs::remove_file(os_path(&self.dir.join(PAUSED)));
        self.note(What::Resume);
        self.notices.add_urgent("ringfence: it goes on".to_owned());
        Ok(())
    }

    /// Something happened that a watch may count.
    pub(super) fn watch(&mut self, counted: Counted, times: u64) {
        for alarm in self.watchdog.count(counted, times, Instant::now()) {
            self.alarm(alarm);
        }
    }

    fn alarm(&mut self, alarm: Alarm) {
        let Alarm { then, watch, source, count } = alarm;
        let why = format!("{count} {} ({watch}, {source})", counted_word(&watch));
        let done = match then {
            // What was heard too late to stop anything is told all the same.
            Then::Pause | Then::Stop if self.is_over => {
                self.told(&why);
                "told, it had ended"
            }
            Then::Notify => {
                self.told(&why);
                "told"
            }
            Then::Pause if self.held.is_some() => "paused already",
            // Where it cannot be paused it must not go on either.
            Then::Pause if self.lifeline.is_none() => self.end(&why),
            Then::Pause => match self.pause(&why) {
                Ok(()) => "paused",
                Err(_) => self.end(&why),
            },
            Then::Stop => self.end(&why),
        };
        self.note(What::Watch { watch, source, count, done: done.to_owned() });
    }

    fn told(&mut self, why: &str) {
        self.notices.add_urgent(format!("ringfence: watch: {}", Shown(why.as_bytes())));
    }

    fn end(&mut self, why: &str) -> &'static str {
        self.asked = Asked::End;
        self.ended_by = self.ended_by.take().or_else(|| Some(why.to_owned()));
        "stopped"
    }
}

/// The first word of a watch says what it counts.
fn counted_word(watch: &str) -> &str {
    watch.split(' ').next().unwrap_or_default()
}
