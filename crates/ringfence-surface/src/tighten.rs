//! A Surface for one call, never wider than the session's.
//!
//! What the call names must lie inside what the session has; otherwise it is refused with the thing that would be gained.
//! Denials and protections only add up. Nothing here relaxes anything, so whatever a narrowed Surface allows, the Surface
//! it came from allows too.

use std::time::Duration;

use crate::curated;
use crate::decide::{Access, Outcome};
use crate::host::HostPattern;
use crate::path::AbsPath;
use crate::pattern::Pattern;
use crate::policy::{EnvName, Tier, View};
use crate::resolve::Limit;
use crate::source::Source;
use crate::surface::{Caps, Effect, Parts, Reach, Role, Rule, Sense, Sourced, Surface};

/// What one call asks for. `None` keeps what the session has; a list takes its place.
#[derive(Debug, Clone)]
pub struct SubPolicy {
    /// Where the call starts.
    pub workdir: Option<AbsPath>,
    /// What may be written. What the session could write stays readable.
    pub write: Option<Vec<Pattern>>,
    /// What may be read beside what programs need to run.
    pub read: Option<Vec<Pattern>>,
    /// Denied besides.
    pub deny: Vec<Pattern>,
    /// Protected besides.
    pub protect: Vec<Pattern>,
    /// Reachable hosts.
    pub hosts: Option<Vec<HostPattern>>,
    /// Reachable ports on the host's loopback.
    pub host_ports: Option<Vec<u16>>,
    /// Reachable sockets.
    pub sockets: Option<Vec<AbsPath>>,
    /// Variables passed beside the built-in table.
    pub env: Option<Vec<EnvName>>,
    /// What exists beside what is named.
    pub view: Option<View>,
    /// How much must hold.
    pub tier: Option<Tier>,
    /// Bytes of memory.
    pub memory: Option<u64>,
    /// Processes and threads.
    pub pids: Option<u32>,
    /// How long the call may last.
    pub wall: Option<Duration>,
    /// A directory made for this call alone: its `home` and `tmp` take the place of the session's. It lies among those of other
    /// calls, beside the sessions' own, or where the session may write.
    pub scratch: Option<AbsPath>,
}

impl SubPolicy {
    /// What a tool of the session's needs and no more: it writes where the session works, and nothing that was granted besides;
    /// no variable passes but those of the built-in table. Hosts, ports, sockets and limits stay.
    pub fn for_tools(session: &Surface) -> Self {
        Self { write: Some(session.workspace_writes()), env: Some(Vec::new()), ..Self::unchanged() }
    }

    /// The same, and nothing of the host's is written: neither files of the project nor its caches.
    pub fn for_looking(session: &Surface) -> Self {
        Self { write: Some(Vec::new()), protect: session.caches(), ..Self::for_tools(session) }
    }

    /// Reaches nothing: no host, no port, no socket.
    #[must_use]
    pub fn without_network(self) -> Self {
        Self { hosts: Some(Vec::new()), host_ports: Some(Vec::new()), sockets: Some(Vec::new()), ..self }
    }

    /// Asks for nothing less than the session has.
    pub fn unchanged() -> Self {
        Self {
            workdir: None,
            write: None,
            read: None,
            deny: Vec::new(),
            protect: Vec::new(),
            hosts: None,
            host_ports: None,
            sockets: None,
            env: None,
            view: None,
            tier: None,
            memory: None,
            pids: None,
            wall: None,
            scratch: None,
        }
    }
}

/// The call asks for something that the session does not have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("this would gain {what}")]
pub struct Widens {
    /// What would be gained.
    pub what: String,
}

fn widens(what: impl std::fmt::Display) -> Widens {
    Widens { what: what.to_string() }
}

impl Surface {
    /// Narrows for one call.
    ///
    /// # Errors
    /// [`Widens`] when the call asks for a path, host, port, socket, variable, limit or view that the session lacks.
    pub fn tighten(&self, call: &SubPolicy) -> Result<Self, Widens> {
        self.check_paths(call)?;
        self.check_scratch(call)?;
        let view = call.view.unwrap_or(self.parts.view);
        if view > self.parts.view {
            return Err(widens("the view of the host"));
        }
        let tier = call.tier.unwrap_or(self.parts.tier);
        if tier < self.parts.tier {
            return Err(widens("a lower tier"));
        }
        Ok(Self::new(Parts {
            root: self.parts.root.clone(),
            workdir: call.workdir.clone().unwrap_or_else(|| self.parts.workdir.clone()),
            view,
            tier,
            governance: self.parts.governance.clone(),
            rules: self.narrowed_rules(call),
            // The same roots: with fewer of them a floating deny would miss something, with more of them a floating exception
            // would reach further.
            roots: self.parts.roots.clone(),
            reach: self.narrowed_reach(call)?,
            env: self.narrowed_env(call)?,
            caps: self.narrowed_caps(call)?,
            packs: self.parts.packs.clone(),
        }))
    }

    fn check_paths(&self, call: &SubPolicy) -> Result<(), Widens> {
        if let Some(dir) = &call.workdir
            && !self.decide(dir, Access::Read).is_allowed()
        {
            return Err(widens(format!("a working directory: {dir}")));
        }
        let writable = Limit::new(self.allowed_writes().map(|rule| rule.pattern.clone()));
        let readable = Limit::new(self.allowed_reads().map(|rule| rule.pattern.clone()));
        let asks = [(Access::Write, &call.write, &writable), (Access::Read, &call.read, &readable)];
        for (access, asked, granted) in asks {
            for pattern in asked.iter().flatten() {
                let by_view = access == Access::Read && pattern.base().is_some_and(|base| self.shows(base, call.view));
                let is_inside = by_view || granted.covers(pattern);
                // A plain path that the session denies would be granted in vain; saying so is kinder.
                let is_denied = pattern.as_path().is_some_and(|path| !self.decide(path, access).is_allowed());
                // What a pattern finds below a private directory may be private or the host's: it cannot be told here.
                let is_mixed = pattern.as_path().is_none()
                    && (self.role_at(pattern, access).is_some() || self.has_private_below(pattern));
                if !is_inside || is_denied || is_mixed {
                    return Err(widens(format!("{access} {pattern}")));
                }
            }
        }
        Ok(())
    }

    /// Does the view alone show this place, and what lies below it? Where the whole host is shown some directories are hidden, and a grant
    /// would show them to the call. A call with a narrower view of its own is not shown them by a directory above either.
    fn shows(&self, base: &AbsPath, view: Option<View>) -> bool {
        let is_narrower = view.is_some_and(|view| view < View::Host);
        let hides = |dir: &&str| {
            let dir = AbsPath::root().join(dir.trim_start_matches('/'));
            base.is_within(&dir) || is_narrower && dir.is_within(base)
        };
        self.parts.view == View::Host && !curated::system::HIDDEN_IN_HOST_VIEW.iter().any(hides)
    }

    /// In `calls` nothing stands but directories of calls, each made for one alone.
    fn check_scratch(&self, call: &SubPolicy) -> Result<(), Widens> {
        let Some(dir) = &call.scratch else { return Ok(()) };
        let own: Vec<AbsPath> = self.scratch().filter_map(|(_, path)| path.parent()).collect();
        let states = own.iter().filter_map(|own| own.parent()?.parent());
        let is_among_calls =
            dir.parent().is_some_and(|above| states.into_iter().any(|state| state.join("calls") == above));
        if is_among_calls && !own.contains(dir) || self.decide(dir, Access::Write).is_allowed() {
            Ok(())
        } else {
            Err(widens(format!("a directory of its own at {dir}")))
        }
    }

    /// The session's own home and temporary files, and what it is given.
    fn scratch(&self) -> impl Iterator<Item = (&Rule, &AbsPath)> {
        let is_scratch =
            |rule: &&Rule| matches!(rule.effect, Effect::Write(Role::Scratch) | Effect::Read(Role::Scratch));
        let rules = self.parts.rules.iter().filter(is_scratch);
        rules.filter_map(|rule| Some((rule, rule.pattern.as_path()?)))
    }

    /// What the session may write of what it works on.
    fn workspace_writes(&self) -> Vec<Pattern> {
        let is_inside = |pattern: &Pattern| {
            let base = pattern.base();
            base.is_some_and(|base| base.is_within(&self.parts.root) || base.is_within(&self.parts.workdir))
        };
        let is_workspace = |rule: &&Rule| match rule.effect {
            Effect::Write(Role::WorkingDir | Role::GitDir) => true,
            Effect::Write(role) => !role.is_ground() && is_inside(&rule.pattern),
            _ => false,
        };
        let patterns = self.parts.rules.iter().filter(is_workspace).map(|rule| &rule.pattern);
        // What is taken away again by another rule needs no grant.
        let is_held = |pattern: &&Pattern| {
            let call = SubPolicy { write: Some(vec![(*pattern).clone()]), ..SubPolicy::unchanged() };
            self.check_paths(&call).is_ok()
        };
        patterns.filter(is_held).cloned().collect()
    }

    /// The project's private caches.
    fn caches(&self) -> Vec<Pattern> {
        let rules = self.parts.rules.iter().filter(|rule| rule.effect == Effect::Write(Role::Cache));
        rules.map(|rule| rule.pattern.clone()).collect()
    }

    fn narrowed_rules(&self, call: &SubPolicy) -> Vec<Rule> {
        let mut rules = Vec::with_capacity(self.parts.rules.len());
        let left: Vec<&Pattern> = match &call.scratch {
            Some(_) => self.scratch().map(|(rule, _)| &rule.pattern).collect(),
            None => Vec::new(),
        };
        for rule in &self.parts.rules {
            let is_left = left.contains(&&rule.pattern);
            match rule.effect {
                Effect::Write(Role::Scratch) | Effect::Read(Role::Scratch) if is_left => {
                    rules.push(Rule { effect: Effect::Withheld, ..rule.clone() });
                }
                // What lies around it is closed to everybody; without the exception so is it.
                Effect::Escape if is_left && rule.sense == Sense::Exception => {}
                Effect::Write(role) if call.write.is_some() && !role.is_ground() => {
                    let effect = if call.read.is_none() { Effect::Read(role) } else { Effect::Withheld };
                    rules.push(Rule { effect, ..rule.clone() });
                }
                Effect::Read(role) if call.read.is_some() && !role.is_ground() => {
                    rules.push(Rule { effect: Effect::Withheld, ..rule.clone() });
                }
                _ => rules.push(rule.clone()),
            }
        }
        let next_list = self.parts.rules.iter().map(|rule| rule.list).max().unwrap_or(0) + 1;
        let mut add = |effect: Effect, pattern: &Pattern| {
            let text = pattern.to_string().into();
            let source = Source::Call;
            rules.push(Rule { effect, sense: Sense::Rule, pattern: pattern.clone(), text, source, list: next_list });
        };
        call.deny.iter().for_each(|pattern| add(Effect::Deny, pattern));
        call.protect.iter().for_each(|pattern| add(Effect::Protect, pattern));
        // A call has private places of its own, whole. What it names in the session's own `/tmp` needs no rule: one could only mean
        // the host's file of that name.
        for pattern in call.write.iter().flatten() {
            match self.role_at(pattern, Access::Write).or_else(|| self.written_role(pattern)) {
                Some(Role::Private) => {}
                role => add(Effect::Write(role.unwrap_or(Role::Write)), pattern),
            }
        }
        for pattern in call.read.iter().flatten() {
            match self.role_at(pattern, Access::Read) {
                Some(Role::Private) => {}
                role => add(Effect::Read(role.unwrap_or(Role::Read)), pattern),
            }
        }
        rules.extend(call.scratch.iter().flat_map(|dir| self.own_scratch(dir)));
        rules
    }

    /// The call's own directories in the place of the session's.
    fn own_scratch(&self, dir: &AbsPath) -> Vec<Rule> {
        let mut rules = Vec::new();
        for (rule, path) in self.scratch() {
            let Some(name) = path.split_last().1 else { continue };
            let pattern = Pattern::path(dir.child(name));
            let text: std::borrow::Cow<'static, str> = pattern.to_string().into();
            let own = Rule { pattern: pattern.clone(), text: text.clone(), source: Source::Call, ..rule.clone() };
            rules.push(own);
            // Only where an exception opened the session's, one opens these: in the same list, since it reaches no other.
            let opened = |other: &&Rule| {
                other.effect == Effect::Escape && other.sense == Sense::Exception && other.pattern == rule.pattern
            };
            let exceptions = self.parts.rules.iter().filter(opened);
            rules.extend(exceptions.map(|other| Rule {
                pattern: pattern.clone(),
                text: text.clone(),
                source: Source::Call,
                ..other.clone()
            }));
        }
        rules
    }

    /// What a path was to the session that a call names as it is.
    fn written_role(&self, pattern: &Pattern) -> Option<Role> {
        self.parts.rules.iter().find_map(|rule| match rule.effect {
            Effect::Write(role) if rule.pattern == *pattern => Some(role),
            _ => None,
        })
    }

    fn has_private_below(&self, pattern: &Pattern) -> bool {
        let is_private =
            |rule: &&Rule| matches!(rule.effect, Effect::Write(Role::Private) | Effect::Read(Role::Private));
        let places = self.parts.rules.iter().filter(is_private).filter_map(|rule| rule.pattern.as_path());
        pattern.base().is_some_and(|base| places.into_iter().any(|place| place.is_within(base)))
    }

    /// What a place is to every session, where that is more than a grant of the policy.
    fn role_at(&self, pattern: &Pattern, access: Access) -> Option<Role> {
        match self.grant(pattern.base()?, access)?.effect {
            Effect::Write(role) | Effect::Read(role) if role.is_ground() => Some(role),
            _ => None,
        }
    }

    fn narrowed_reach(&self, call: &SubPolicy) -> Result<Reach, Widens> {
        let reach = &self.parts.reach;
        let hosts = match &call.hosts {
            None => reach.hosts.clone(),
            Some(asked) => subset(asked, |host| reach.hosts.iter().any(|entry| entry.value.covers(host)), "host")?,
        };
        let host_ports = match &call.host_ports {
            None => reach.host_ports.clone(),
            Some(asked) => subset(asked, |port| self.decide_host_port(*port).is_some(), "loopback port")?,
        };
        let sockets = match &call.sockets {
            None => reach.sockets.clone(),
            Some(asked) => subset(asked, |path| self.decide_socket(path).is_some(), "socket")?,
        };
        // These say something of those hosts only that are left.
        let private = reach.private.clone();
        let inject = reach.inject.clone();
        Ok(Reach { hosts, private, host_ports, sockets, inject })
    }

    fn narrowed_env(&self, call: &SubPolicy) -> Result<Vec<Sourced<EnvName>>, Widens> {
        let Some(asked) = &call.env else { return Ok(self.parts.env.clone()) };
        for name in asked {
            if self.decide_variable(name.as_str().as_bytes()) == Outcome::Deny {
                return Err(widens(format!("variable {}", name.as_str())));
            }
        }
        Ok(asked.iter().map(|name| Sourced { value: name.clone(), source: Source::Call }).collect())
    }

    fn narrowed_caps(&self, call: &SubPolicy) -> Result<Caps, Widens> {
        Ok(Caps {
            memory: lower(&self.parts.caps.memory, call.memory, "memory")?,
            pids: lower(&self.parts.caps.pids, call.pids, "processes")?,
            wall: lower(&self.parts.caps.wall, call.wall, "time")?,
        })
    }
}

fn subset<T: Clone + std::fmt::Display>(
    asked: &[T],
    is_granted: impl Fn(&T) -> bool,
    what: &str,
) -> Result<Vec<Sourced<T>>, Widens> {
    match asked.iter().find(|value| !is_granted(value)) {
        Some(gained) => Err(widens(format!("{what} {gained}"))),
        None => Ok(asked.iter().map(|value| Sourced { value: value.clone(), source: Source::Call }).collect()),
    }
}

fn lower<T: PartialOrd + Copy>(
    has: &Option<Sourced<T>>,
    asked: Option<T>,
    what: &str,
) -> Result<Option<Sourced<T>>, Widens> {
    match (has, asked) {
        (Some(has), Some(asked)) if asked > has.value => Err(widens(format!("more {what}"))),
        (_, Some(value)) => Ok(Some(Sourced { value, source: Source::Call })),
        (has, None) => Ok(has.clone()),
    }
}
