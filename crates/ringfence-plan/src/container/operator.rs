//! Mounts that the operator of an image lists, beside those of the Surface.

use std::fmt;

use ringfence_surface::AbsPath;
use ringfence_surface::policy::SurfaceMode;

use crate::mounts::{MountAccess, MountOp};

/// A mount of the operator's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperatorMount {
    /// On the host.
    pub source: AbsPath,
    /// In the container.
    pub destination: AbsPath,
    /// What it permits.
    pub access: MountAccess,
    /// Where it was written.
    pub written: String,
}

/// One that is left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DroppedMount {
    /// Which.
    pub mount: OperatorMount,
    /// Why.
    pub why: WhyDropped,
}

/// Why a mount of the operator's is left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WhyDropped {
    /// `surface_mode = "exclusive"`.
    Exclusive,
    /// The Surface has something there, above it or below it.
    Surface(AbsPath),
    /// Another of the operator's has.
    Another(AbsPath),
    /// The engine makes this itself.
    Engines,
    /// Nothing is there to mount.
    Missing,
    /// A rule takes its source away.
    Denied(String),
}

impl fmt::Display for WhyDropped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exclusive => f.write_str("surface_mode is \"exclusive\""),
            Self::Surface(path) => write!(f, "the surface has {path}, and wins"),
            Self::Another(path) => write!(f, "another mount of the operator's is at {path}"),
            Self::Engines => f.write_str("the engine makes this itself"),
            Self::Missing => f.write_str("nothing is there"),
            Self::Denied(rule) => write!(f, "its source is taken away: {rule}"),
        }
    }
}

/// Which of the operator's mounts go along with those of a Surface, and which do not. The Surface is never changed by them:
/// one that stands in the place of something of the Surface's, above it or below it is left out.
pub fn compose(
    surface: &[MountOp],
    operator: &[OperatorMount],
    mode: SurfaceMode,
) -> (Vec<OperatorMount>, Vec<DroppedMount>) {
    let (mut kept, mut dropped): (Vec<OperatorMount>, Vec<DroppedMount>) = (Vec::new(), Vec::new());
    let meet = |a: &AbsPath, b: &AbsPath| a.is_within(b) || b.is_within(a);
    for mount in operator {
        let at = &mount.destination;
        let of_the_surface = surface.iter().map(MountOp::destination).find(|path| meet(at, path));
        let of_another = kept.iter().map(|other| &other.destination).find(|path| meet(at, path));
        let is_engines = super::ENGINES_OWN.iter().any(|own| {
            let inside = at.as_bytes().strip_prefix(own.as_bytes());
            inside.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
        });
        let why = match (mode, of_the_surface, of_another) {
            (SurfaceMode::Exclusive, ..) => WhyDropped::Exclusive,
            (_, Some(path), _) => WhyDropped::Surface(path.clone()),
            (_, _, Some(path)) => WhyDropped::Another(path.clone()),
            _ if is_engines || at.is_root() => WhyDropped::Engines,
            _ => {
                kept.push(mount.clone());
                continue;
            }
        };
        dropped.push(DroppedMount { mount: mount.clone(), why });
    }
    (kept, dropped)
}
