//! What a profile of the host's own security module is made of: places in four grades, the same for each module.
//!
//! Such a profile stands on the host's own files, beside whatever else holds. It has no view, so what exists only in one is not
//! given; and it knows nothing of hosts.

use ringfence_surface::policy::View;
use ringfence_surface::{Effect, Pattern, Role, Rule, Sense, Surface};

use crate::claim::{Claim, LayerName, Shortfall};
use crate::landlock::Withheld;

/// A profile as text, and what it does not say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profile {
    /// For the module's own compiler.
    pub text: String,
    /// Claims that it does not hold.
    pub shortfalls: Vec<Shortfall>,
    /// What the Surface gives and it does not.
    pub withheld: Vec<Withheld>,
}

/// What may be done at a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Grade {
    /// Reading and executing.
    Read,
    /// Writing too.
    Write,
    /// Not even reading, whatever else says so.
    Denied,
    /// Nothing but reading and executing, whatever else says so.
    Protected,
}

/// Devices that hold nothing.
pub(crate) const DEVICES: &[&str] = &["/dev/full", "/dev/null", "/dev/random", "/dev/tty", "/dev/urandom", "/dev/zero"];

/// Places that a profile speaks of, and what it cannot say of them.
pub(crate) struct Places<'s> {
    pub(crate) rules: Vec<(Grade, &'s Rule)>,
    pub(crate) withheld: Vec<Withheld>,
    pub(crate) shortfalls: Vec<Shortfall>,
    layer: LayerName,
}

impl<'s> Places<'s> {
    /// What a Surface gives and takes, in its own order; of what it takes, only what could be reached otherwise.
    pub(crate) fn of(surface: &'s Surface, layer: LayerName) -> Self {
        let mut places = Self { rules: Vec::new(), withheld: Vec::new(), shortfalls: Vec::new(), layer };
        for rule in surface.allowed_reads() {
            match rule.effect {
                Effect::Write(Role::Private) | Effect::Read(Role::Private) => {
                    if !DEVICES.contains(&rule.pattern.to_string().as_str()) {
                        places.withhold(rule, "without a view this would be the host's own directory");
                    }
                }
                Effect::Write(_) => places.rules.push((Grade::Write, rule)),
                _ => places.rules.push((Grade::Read, rule)),
            }
        }
        let given: Vec<&Pattern> = places.rules.iter().map(|(_, rule)| &rule.pattern).collect();
        let writes = places.rules.iter().filter(|(grade, _)| *grade == Grade::Write);
        let writes: Vec<&Pattern> = writes.map(|(_, rule)| &rule.pattern).collect();
        let is_reached = |grade: Grade, pattern: &Pattern| match grade {
            // What nobody may write needs no protection.
            Grade::Protected => writes.iter().any(|given| touch(pattern, given)),
            _ => surface.view() == View::Host || given.iter().any(|given| touch(pattern, given)),
        };
        let mut taken = Vec::new();
        for rule in surface.rules() {
            let grade = match rule.effect {
                Effect::Escape | Effect::Deny => Grade::Denied,
                Effect::Protect => Grade::Protected,
                Effect::ThirdParty if rule.sense == Sense::Rule => {
                    let reason = "what is protected anywhere is protected in other people's code too";
                    places.withhold(rule, reason);
                    continue;
                }
                _ => continue,
            };
            match rule.sense {
                Sense::Exception if is_reached(grade, &rule.pattern) => {
                    places.withhold(rule, "a profile takes no exception from what it closes");
                }
                Sense::Rule if is_reached(grade, &rule.pattern) => taken.push((grade, rule)),
                _ => {}
            }
        }
        places.rules.extend(taken);
        places.whole(surface);
        places
    }

    /// A rule that cannot be said: what it gives is not given, what it takes is not held.
    pub(crate) fn unsaid(&mut self, grade: Grade, rule: &Rule, reason: &'static str) {
        let pattern = rule.pattern.to_string();
        match grade {
            Grade::Read | Grade::Write => self.withhold(rule, reason),
            Grade::Denied => self.short(Claim::Denied { pattern }, reason),
            Grade::Protected => self.short(Claim::Protected { pattern }, reason),
        }
    }

    pub(crate) fn short(&mut self, claim: Claim, reason: &str) {
        self.shortfalls.push(Shortfall { claim, layer: self.layer, reason: reason.to_owned() });
    }

    fn withhold(&mut self, rule: &Rule, reason: &'static str) {
        let (pattern, source) = (rule.pattern.to_string(), rule.source.to_string());
        self.withheld.push(Withheld { pattern, source, reason });
    }

    /// The claims that speak of everything, and that no such module holds.
    fn whole(&mut self, surface: &Surface) {
        if surface.view() == View::Surface {
            self.short(Claim::NothingElseIsSeen, "names and sizes of files can be seen everywhere");
        }
        self.short(Claim::NobodyElseIsSeen, "which processes there are can be found out");
        self.short(Claim::TreeEndsWithSession, "a profile ends no process");
        let hosts: Vec<String> = surface.reach().hosts.iter().map(|entry| entry.value.to_string()).collect();
        if !hosts.is_empty() {
            self.short(Claim::OnlyTheseHosts { hosts }, "it knows kinds of sockets and no hosts");
        }
        let caps = surface.caps();
        if let Some(cap) = &caps.memory {
            self.short(Claim::Memory { bytes: cap.value }, "a profile counts nothing");
        }
        if let Some(cap) = &caps.pids {
            self.short(Claim::Processes { count: cap.value }, "a profile counts nothing");
        }
        if let Some(cap) = &caps.wall {
            self.short(Claim::Time { seconds: cap.value.as_secs() }, "a profile counts nothing");
        }
    }
}

/// Can two patterns cover the same path? When in doubt, yes.
fn touch(one: &Pattern, other: &Pattern) -> bool {
    match (one.base(), other.base()) {
        (Some(one), Some(other)) => one.is_within(other) || other.is_within(one),
        _ => true,
    }
}
