//! What may be written and is no place to mount: patterns, such as `src/*.rs`, and what does not exist yet. Some names of a
//! directory may be written, and others not.
//!
//! A mount is of a whole directory. So where calls are brokered the directory above all that a rule names is mounted writable,
//! and the broker carries out what the rule names and nothing else; Landlock admits no change there that is not
//! carried out by it. Without a broker nothing of it can be written, which is said, as it is of what may be read and is not there.

use ringfence_plan::{
    BrokerUnavailable, Claim, LayerName, MountAccess, MountOp, Rung, Shortfall, Skipped, Why, Withheld,
};
use ringfence_surface::{AbsPath, Access, Because, Effect, Look, PathFact, Role, Rule, Sense, Surface};

use crate::visible::{Ground, Visible};

/// What becomes of the writable patterns of a Surface, and of what it names and the host does not have.
#[derive(Debug)]
pub(crate) struct Globs {
    /// The directories that become writable.
    pub(crate) places: Vec<AbsPath>,
    pub(crate) withheld: Vec<Withheld>,
}

impl Globs {
    /// Looks which of them can be had.
    pub(crate) fn find(
        surface: &Surface,
        rung: Rung,
        (mounts, skipped): (&[MountOp], &[Skipped]),
        listens: Result<(), BrokerUnavailable>,
        look: &mut dyn Look,
    ) -> Self {
        let mut globs = Self { places: Vec::new(), withheld: Vec::new() };
        // Of patterns Landlock says so itself.
        if !rung.has_view() {
            let is_said = |rule: &&Rule| matches!(rule.effect, Effect::Write(_) | Effect::Read(_));
            for rule in surface.allowed_reads().filter(is_said) {
                if let Some(path) = rule.pattern.as_path().filter(|_| rung == Rung::LandlockOnly)
                    && is_missing(rule, path, surface, Access::Read, look)
                {
                    globs.withhold(rule, MISSING.not_shown);
                }
            }
            return globs;
        }
        let own = skipped.iter().filter(|skipped| skipped.is_written && skipped.why == Why::Own);
        globs.withheld.extend(own.map(|own| Withheld {
            pattern: own.pattern.clone(),
            source: own.source.clone(),
            reason: own.why.words(),
        }));
        let visible = Visible::new(mounts);
        for rule in surface.allowed_writes().filter(|rule| rule.sense == Sense::Rule) {
            let (place, why) = match rule.pattern.as_path() {
                None => (rule.pattern.base().cloned(), PATTERN),
                Some(path) if is_missing(rule, path, surface, Access::Write, look) => (path.parent(), MISSING),
                Some(_) => continue,
            };
            let place = match place {
                None => Err("a pattern without a directory that it lies in names no place"),
                // What a rule denies stays hidden, whatever a pattern could name below it.
                Some(place) if is_denied(surface, &place) => Err("the directory that it lies in is denied"),
                Some(place) => match visible.ground(&place) {
                    // Everything that it could name is writable.
                    Some(Ground::Host { is_writable: true }) => continue,
                    // What is made there is not made on the host.
                    Some(Ground::Own) => Err(why.own),
                    // To make the whole home writable for what may once be in it would be a surprise.
                    Some(Ground::Host { is_writable: false })
                        if why.stays_in_project && !place.is_within(surface.root()) =>
                    {
                        Err(why.not_shown)
                    }
                    Some(Ground::Host { is_writable: false }) if listens.is_err() => Err(why.no_broker),
                    Some(Ground::Host { is_writable: false }) => match look.path(&place) {
                        PathFact::Directory => Ok(place),
                        _ => Err(why.no_directory),
                    },
                    Some(Ground::Processes) | None => Err(why.not_shown),
                },
            };
            match place {
                Ok(place) => globs.places.push(place),
                Err(reason) => globs.withhold(rule, reason),
            }
        }
        for rule in surface.allowed_reads().filter(|rule| matches!(rule.effect, Effect::Read(_))) {
            if let Some(path) = rule.pattern.as_path()
                && visible.ground(path).is_none()
                && is_missing(rule, path, surface, Access::Read, look)
            {
                globs.withhold(rule, "nothing is there");
            }
        }
        globs.places.sort();
        globs.places.dedup();
        globs
    }

    fn withhold(&mut self, rule: &Rule, reason: &'static str) {
        let (pattern, source) = (rule.pattern.to_string(), rule.source.to_string());
        self.withheld.push(Withheld { pattern, source, reason });
    }

    /// Mounts them.
    pub(crate) fn mount(&self, mounts: &mut Vec<MountOp>) {
        for place in &self.places {
            let same = mounts.iter_mut().find_map(|op| match op {
                MountOp::Bind { path, access, .. } if path == place => Some(access),
                _ => None,
            });
            match same {
                Some(access) => *access = MountAccess::ReadWrite,
                None => mounts.push(MountOp::Bind {
                    path: place.clone(),
                    access: MountAccess::ReadWrite,
                    role: Role::Write,
                }),
            }
        }
    }

    /// What is not held because of them.
    pub(crate) fn shortfall(&self) -> Option<Shortfall> {
        let reason = "beside what a pattern or a missing name lets be written, mode, owner and times can be changed by a \
                      descriptor";
        (!self.places.is_empty()).then(|| Shortfall {
            claim: Claim::MetadataStays,
            layer: LayerName::Broker,
            reason: reason.to_owned(),
        })
    }
}

/// Why nothing can be written by a rule, in words.
struct Reasons {
    /// Is nothing outside the project made writable for it?
    stays_in_project: bool,
    no_broker: &'static str,
    no_directory: &'static str,
    not_shown: &'static str,
    /// The session has its own files in that directory.
    own: &'static str,
}

const PATTERN: Reasons = Reasons {
    stays_in_project: false,
    no_broker: "only the broker writes what a pattern names, and there is none here",
    no_directory: "the directory that it lies in does not exist",
    not_shown: "the directory that it lies in is not shown: `read` shows it",
    own: "the session has its own there",
};

const MISSING: Reasons = Reasons {
    stays_in_project: true,
    no_broker: "nothing is there, and only a broker could make it: make it before the start",
    no_directory: "nothing is there, nor is the directory that it lies in: make it before the start",
    not_shown: "nothing is there: make it before the start",
    own: "nothing is there, and what is made inside is the session's own: make it before the start",
};

fn is_denied(surface: &Surface, place: &AbsPath) -> bool {
    let because = surface.decide(place, Access::Read).because;
    matches!(because, Because::Rule(rule) if matches!(rule.effect, Effect::Deny | Effect::Escape))
}

/// Did somebody name a place that the host does not have? What the tables name is not on every host, and nobody asked for it.
fn is_missing(rule: &Rule, path: &AbsPath, surface: &Surface, access: Access, look: &mut dyn Look) -> bool {
    rule.source.is_written() && surface.decide(path, access).is_allowed() && look.path(path) == PathFact::Missing
}
