//! The commands about changes that wait for a review, and how a session's changes are kept apart.

use std::ffi::OsString;

use clap::{Args, ValueHint};

/// Where the changes of a session go.
#[derive(Debug, Clone, Args)]
pub(crate) struct WorktreeArgs {
    /// Work in a new work tree of this git repository, on the branch ringfence/NAME; it is removed at the end if nothing was changed
    #[arg(long, value_name = "NAME", num_args = 0..=1)]
    pub(crate) worktree: Option<Option<String>>,
    /// Keep the work tree in any case
    #[arg(long, requires = "worktree")]
    pub(crate) keep: bool,
    /// Let nothing that is written land before it is reviewed: `ringfence diff`, `apply` and `discard`
    #[arg(long, conflicts_with = "worktree")]
    pub(crate) review: bool,
}

impl WorktreeArgs {
    /// They land where they are made.
    pub(crate) const IN_PLACE: Self = Self { worktree: None, keep: false, review: false };
}

/// Show what a session under review would change
///
/// Deletions first, then what is changed or added, as a unified diff. Also while the session runs.
#[derive(Debug, Args)]
pub(crate) struct DiffArgs {
    /// The session, or the beginning of its name; without it, the only one with changes to review, here if there are several
    #[arg(value_name = "SESSION")]
    pub(crate) session: Option<String>,
    /// Only what changes at these paths and below them
    #[arg(value_name = "PATH", value_hint = ValueHint::AnyPath)]
    pub(crate) paths: Vec<OsString>,
    /// Name what changes, and not how
    #[arg(long)]
    pub(crate) stat: bool,
    /// Print as JSON, without the differences
    #[arg(long, conflicts_with = "stat")]
    pub(crate) json: bool,
}

/// Put changes of a session under review into the work tree
///
/// What somebody else changed since the session began is left alone, and named. What the session's rules do not let it write is
/// never applied. Exits with 1 when something was not applied. Doing it again finishes what was cut short.
#[derive(Debug, Args)]
pub(crate) struct ApplyArgs {
    /// The session, or the beginning of its name; without it, the only one with changes to review, here if there are several
    #[arg(value_name = "SESSION")]
    pub(crate) session: Option<String>,
    /// Only what changes at these paths and below them
    #[arg(value_name = "PATH", value_hint = ValueHint::AnyPath)]
    pub(crate) paths: Vec<OsString>,
    /// Also write over what somebody else changed since the session began
    #[arg(long)]
    pub(crate) force: bool,
    /// Print as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Drop changes of a session under review
#[derive(Debug, Args)]
pub(crate) struct DiscardArgs {
    /// The session, or the beginning of its name; without it, the only one with changes to review, here if there are several
    #[arg(value_name = "SESSION")]
    pub(crate) session: Option<String>,
    /// Only what changes at these paths and below them
    #[arg(value_name = "PATH", value_hint = ValueHint::AnyPath)]
    pub(crate) paths: Vec<OsString>,
    /// Print as JSON
    #[arg(long)]
    pub(crate) json: bool,
}
