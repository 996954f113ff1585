//! Writable patterns, such as `src/*.rs`: some names of a directory may be written, and others not.
//!
//! A mount is of a whole directory. So where calls are brokered the directory above all that a pattern names is mounted writable,
//! and the broker carries out what the pattern names and nothing else; Landlock admits no change there that is not
//! carried out by it. Without a broker nothing of it can be written, which is said.

use ringfence_plan::{Claim, LayerName, MountAccess, MountOp, Rung, Shortfall, Withheld};
use ringfence_surface::{AbsPath, Look, PathFact, Role, Rule, Sense, Surface};

use crate::visible::{Ground, Visible};

/// What becomes of the writable patterns of a Surface.
#[derive(Debug)]
pub(crate) struct Globs {
    /// The directories that become writable.
    places: Vec<AbsPath>,
    pub(crate) withheld: Vec<Withheld>,
}

impl Globs {
    /// Looks which of them can be had.
    pub(crate) fn find(
        surface: &Surface,
        rung: Rung,
        mounts: &[MountOp],
        listens: Result<(), &'static str>,
        look: &mut dyn Look,
    ) -> Self {
        let mut globs = Self { places: Vec::new(), withheld: Vec::new() };
        // There Landlock says so itself.
        if !rung.has_view() {
            return globs;
        }
        let visible = Visible::new(mounts);
        let is_pattern = |rule: &&Rule| rule.sense == Sense::Rule && rule.pattern.as_path().is_none();
        for rule in surface.allowed_writes().filter(is_pattern) {
            let place = match rule.pattern.base() {
                None => Err("a pattern without a directory that it lies in names no place"),
                Some(base) => match visible.ground(base) {
                    // Everything that it could name is writable.
                    Some(Ground::Own | Ground::Host { is_writable: true }) => continue,
                    Some(Ground::Host { is_writable: false }) if listens.is_err() => {
                        Err("only the broker writes what a pattern names, and there is none here")
                    }
                    Some(Ground::Host { is_writable: false }) => match look.path(base) {
                        PathFact::Directory => Ok(base.clone()),
                        _ => Err("the directory that it lies in does not exist"),
                    },
                    Some(Ground::Processes) | None => {
                        Err("the directory that it lies in is not shown: `read` shows it")
                    }
                },
            };
            match place {
                Ok(place) => globs.places.push(place),
                Err(reason) => {
                    let (pattern, source) = (rule.pattern.to_string(), rule.source.to_string());
                    globs.withheld.push(Withheld { pattern, source, reason });
                }
            }
        }
        globs.places.sort();
        globs.places.dedup();
        globs
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
        let reason = "beside what a writable pattern names, mode, owner and times can be changed by a descriptor";
        (!self.places.is_empty()).then(|| Shortfall {
            claim: Claim::MetadataStays,
            layer: LayerName::Broker,
            reason: reason.to_owned(),
        })
    }
}
