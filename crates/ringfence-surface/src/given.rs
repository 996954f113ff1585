//! A place that is given to a session while it runs.
//!
//! It is to the session what a reference on its command line would have been: what is denied stays denied, by whatever rule, and
//! what floats is searched for in it too.

use crate::decide::{Access, Because};
use crate::path::AbsPath;
use crate::pattern::Pattern;
use crate::source::Source;
use crate::surface::{Effect, Role, RootName, Rule, Sense, Surface};

/// Why a place is not given.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotGiven {
    /// A rule takes it away, which no grant undoes.
    #[error("{path} is denied: {rule}")]
    Denied {
        /// Which.
        path: AbsPath,
        /// By what.
        rule: String,
    },
    /// It is there already.
    #[error("{path} can be read already: {rule}")]
    Already {
        /// Which.
        path: AbsPath,
        /// By what.
        rule: String,
    },
}

impl Surface {
    /// The Surface with one more place to read. `path` must be real: links on the way already followed.
    ///
    /// # Errors
    /// [`NotGiven`].
    pub fn with_read(&self, path: &AbsPath) -> Result<Self, NotGiven> {
        let before = self.decide(path, Access::Read);
        let rule = before.because.to_string();
        match before.because {
            _ if before.is_allowed() => return Err(NotGiven::Already { path: path.clone(), rule }),
            Because::View(_) => {}
            _ => return Err(NotGiven::Denied { path: path.clone(), rule }),
        }
        let mut parts = self.parts.clone();
        let list = parts.rules.iter().map(|rule| rule.list).max().unwrap_or(0).saturating_add(1);
        parts.rules.push(Rule {
            effect: Effect::Read(Role::Reference),
            sense: Sense::Rule,
            pattern: Pattern::path(path.clone()),
            text: path.to_string().into(),
            source: Source::Flag { name: "ringfence grant" },
            list,
        });
        parts.roots.push((path.clone(), RootName::Searched));
        parts.roots.sort_by(|one, other| one.0.cmp(&other.0));
        let given = Self::new(parts);
        // As a root it is searched by what floats, and may itself be what is looked for.
        let verdict = given.decide(path, Access::Read);
        if verdict.is_allowed() {
            return Ok(given);
        }
        Err(NotGiven::Denied { path: path.clone(), rule: verdict.because.to_string() })
    }
}
