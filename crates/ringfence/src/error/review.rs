//! What can go wrong with changes that wait for a review.

use ringfence_session::review::ReviewError;

/// What can be done about something that is mounted below the project.
pub(super) const MOUNTED: &str = "unmount it, start without `--review`, or keep changes apart with `--worktree`";

/// Why changes are not held back, shown, applied or discarded.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReviewFailure {
    /// They cannot be looked at or used.
    #[error(transparent)]
    Itself(#[from] ReviewError),
    /// Another fence was asked for.
    #[error("not held: that nothing lands before it is reviewed (`--review`): only the native fence can hold that")]
    NotNative,
    /// There is no fence at all.
    #[error("not held: that nothing lands before it is reviewed (`--review`): this session governs itself")]
    Ungoverned,
}

impl ReviewFailure {
    /// What the user can do about it.
    pub(crate) fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Itself(ReviewError::NotFound { prefix })
                if prefix.contains(['/', '.']) || std::path::Path::new(prefix).exists() =>
            {
                "a path comes behind the session that it is of: `ringfence ps --all` says which wait".to_owned()
            }
            Self::Itself(ReviewError::Nothing | ReviewError::NotFound { .. }) => {
                "`ringfence run --review -- CMD` starts one; `ringfence ps --all` says which wait".to_owned()
            }
            Self::Itself(ReviewError::Several { .. }) => "name one of them".to_owned(),
            Self::Itself(ReviewError::Runs { id }) => format!("`ringfence stop {id}` ends it; `ringfence diff {id}` shows what it has changed so far"),
            Self::Itself(ReviewError::Busy { .. }) => "wait for it".to_owned(),
            Self::Itself(ReviewError::NoRoom { .. }) => {
                "nothing was applied; make room, or name some of the changes: `ringfence apply SESSION PATH`".to_owned()
            }
            Self::Itself(ReviewError::Record(_) | ReviewError::Layer { .. }) => return None,
            Self::NotNative => {
                "leave `--backend` out (`ringfence doctor` says what the native fence needs here), or keep changes apart with `--worktree`"
                    .to_owned()
            }
            Self::Ungoverned => "leave `--review` out, or let the fence hold: `self_governing` in [workspace] says that there is none".to_owned(),
        })
    }
}
