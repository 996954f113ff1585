//! What happens in a session beside what is asked at its desk: something was stopped on the way out, or a tool call was judged.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use ringfence_surface::policy::Counted;

use crate::audit::{Admission, Budget, Event, Patience, What};
use crate::given;
use crate::terminal::Screen;
use crate::verdicts::Verdicts;
use crate::violations::{self, Violation};

use super::{Answer, Desk};

/// What happened is on the disk after this time.
pub(super) const SYNC: Duration = Duration::from_secs(1);
/// When to try again to write down what happened.
pub(super) const AGAIN: Duration = Duration::from_millis(250);
/// More is not kept for later.
const MOST_PENDING: usize = 10_000;

/// How often the number of what was denied is written for a client to show.
const COUNT: Duration = Duration::from_secs(1);

impl Desk {
    /// Something happened: it is told at once, and written down with what else happens in this turn.
    pub(super) fn note(&mut self, what: What) {
        let event = Event::now(&self.about.id, what);
        self.clients.tell(&Answer::Event { happened: Box::new(event.clone()) });
        match self.budget.admit(&event) {
            Admission::Written => {}
            Admission::FirstCounted => return self.note(Budget::full()),
            Admission::Counted => return,
        }
        if self.pending.len() < MOST_PENDING {
            self.pending.push(event);
        } else {
            self.lost += 1;
        }
    }

    pub(super) fn flush(&mut self, patience: Patience) {
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
            Err(cause) => {
                self.again = Some(Instant::now() + AGAIN);
                self.unwritten = Some(cause);
            }
        }
    }

    /// Has what was written reach the disk, without waiting for it.
    pub(super) fn sync(&mut self) {
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

    /// What was stopped on the way out since it was last asked.
    pub(super) fn stopped(&mut self) {
        if let Some(bell) = &self.bell {
            // Nothing is in it where nobody rang.
            let _ = rustix::io::read(bell, &mut [0; 8]);
        }
        let Some(refusals) = &self.refusals else { return };
        let fresh = refusals.take();
        for (refusal, times) in fresh.refusals {
            let violation = Violation::of_refusal(refusal, &self.about.id, &self.beside_allow);
            if let Some(learned) = &mut self.learned {
                learned.add_refusal(&violation, times);
            }
            self.denied(violation, times);
        }
        if let Some(learned) = &mut self.learned {
            learned.more += fresh.missed;
        }
        self.stream.note_unknown(fresh.missed);
        self.watch(Counted::Denied, fresh.missed);
    }

    /// What the hook has said since it was last asked, as it said it.
    pub(super) fn judged(&mut self) {
        while let Some((said, end)) = self.verdicts.as_mut().and_then(Verdicts::next) {
            self.passed_over();
            if let Some(line) = &said.ask {
                // Without an end nobody hears the answer.
                if let Some(end) = end {
                    self.hook_asks(line.clone(), said.why.clone(), end);
                }
                continue;
            }
            if let Some(violation) = Violation::of_verdict(&said) {
                // The verdict itself is what is written down.
                let told = self.stream.note(violation, 1);
                self.tell(&told);
                self.is_counted();
                self.watch(Counted::Denied, 1);
            }
            let why = if said.why.is_empty() { said.kind } else { format!("{}: {}", said.kind, said.why) };
            let (tool, allowed, path, remedy) = (said.tool, said.allowed, said.path, said.remedy);
            self.note(What::Verdict { tool, allowed, why, path, remedy });
        }
    }

    /// What the hook said faster than it is written down. It is said once it can be heard again, and at the end.
    pub(super) fn passed_over(&mut self) {
        let dropped = self.verdicts.as_mut().map_or(0, Verdicts::dropped);
        if dropped > 0 {
            let why = format!("{dropped} more came faster than they are written down, or could not be read");
            self.note(What::Verdict { tool: String::new(), allowed: false, why, path: None, remedy: None });
        }
    }

    /// Something was denied.
    pub(super) fn denied(&mut self, violation: Violation, times: u64) {
        let told = self.stream.note(violation, times);
        self.tell(&told);
        for one in told {
            self.note(What::Violation(one));
        }
        self.is_counted();
        self.watch(Counted::Denied, times);
    }

    fn tell(&mut self, told: &[violations::Counted]) {
        for one in told {
            self.notices.add(Notice::Stopped(Box::new(one.clone())));
        }
    }

    /// The next line for the user's terminal, where this is the moment for it.
    pub(super) fn next_notice(&mut self, screen: Screen) -> Option<String> {
        Some(match self.notices.next(screen)? {
            Notice::Line(line) => line,
            Notice::Stopped(one) => {
                self.stream.is_shown(&one.violation);
                let line = one.violation.short_line(one.violation.line(one.times), one.times, &self.about.id);
                format!("ringfence: stopped: {line}")
            }
        })
    }

    fn is_counted(&mut self) {
        if self.about.agent.is_some() {
            self.count = self.count.or(Some(Instant::now() + COUNT));
        }
    }

    /// Writes how often something was denied where a client may show it.
    pub(super) fn count(&mut self) {
        if self.count.is_some_and(|count| count <= Instant::now()) {
            self.count = None;
            // Without it a client shows an older number.
            let _ = given::keep_denied(&self.dir, self.stream.denied());
        }
    }
}

/// Something for the user's terminal.
#[derive(Debug)]
pub(super) enum Notice {
    /// A line.
    Line(String),
    /// Something that was stopped. What is told now is not told again at the end.
    Stopped(Box<violations::Counted>),
}

/// Lines for the user's terminal.
#[derive(Debug)]
pub(super) struct Notices {
    /// Those that are told whatever is on the screen.
    urgent: VecDeque<String>,
    /// Those that wait for a calm moment. What does not come to be told is told at the end.
    others: VecDeque<Notice>,
}

/// More do not wait.
const MOST_NOTICES: usize = 20;

impl Notices {
    pub(super) fn new() -> Self {
        Self { urgent: VecDeque::new(), others: VecDeque::new() }
    }

    pub(super) fn is_there(&self) -> bool {
        !self.urgent.is_empty() || !self.others.is_empty()
    }

    pub(super) fn add(&mut self, notice: Notice) {
        if self.others.len() < MOST_NOTICES {
            self.others.push_back(notice);
        }
    }

    pub(super) fn add_urgent(&mut self, line: String) {
        if self.urgent.len() < MOST_NOTICES {
            self.urgent.push_back(line);
        }
    }

    /// All that is told whatever else happens.
    pub(super) fn urgent(&mut self) -> Vec<String> {
        self.urgent.drain(..).collect()
    }

    pub(super) fn next(&mut self, screen: Screen) -> Option<Notice> {
        let other = |others: &mut VecDeque<Notice>| if screen == Screen::Calm { others.pop_front() } else { None };
        self.urgent.pop_front().map(Notice::Line).or_else(|| other(&mut self.others))
    }
}
