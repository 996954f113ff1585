//! `ringfence run --worktree`: a work tree of git for the session, and what is said of it.

use std::time::Duration;

use ringfence_session::store::Session;
use ringfence_session::worktree::{self, Finished, Own, Repository, WorktreeError};
use ringfence_surface::{AbsPath, Word, Worktree};

use crate::cli::{RunArgs, WorktreeArgs};
use crate::error::Failure;
use crate::load::Loader;
use crate::out::say;

/// How long a start looks after what dead sessions left.
const COLLECTING: Duration = Duration::from_secs(1);

/// Makes one for the session, if it is wanted.
pub(super) fn make(args: &RunArgs, loader: &mut Loader<'_>, session: &Session) -> Result<Option<Own>, Failure> {
    let WorktreeArgs { worktree: Some(name), .. } = &args.worktree else { return Ok(None) };
    worktree::collect(session.state(), COLLECTING).iter().for_each(|left| say(&format!("ringfence: {}", words(left))));
    let failed = |source| Failure::Worktree { source };
    let repository = Repository::around(&loader.facts().cwd).map_err(failed)?;
    let pool = loader.pool(&args.policy, &repository.main)?;
    let own = repository.make(session, name.as_deref(), pool).map_err(failed)?;
    if let Some(cache) = loader.facts().project_cache(&own.tree) {
        own.with_cache(&cache).map_err(failed)?;
    }
    say(&format!("ringfence: works in {}, on branch {}", own.tree, own.branch));
    if !own.filters.is_empty() {
        let filters = own.filters.join(", ");
        say(&format!("ringfence: files are as they are stored: filters were not run ({filters})"));
    }
    Ok(Some(own))
}

/// What the policy is to know of it.
pub(super) fn known(own: &Own) -> Worktree {
    let (main, tree) = (own.main.clone(), own.tree.clone());
    Worktree { main, tree, git_dir: own.git_dir.clone(), common_dir: own.common_dir.clone() }
}

/// Removes it where nothing would be lost, and says what became of it.
pub(super) fn finish(own: Own, args: &RunArgs) {
    let (tree, branch, main) = (own.tree.clone(), own.branch.clone(), own.main.clone());
    if args.worktree.keep {
        own.keep();
        return say(&kept(&main, &tree, &branch, "as asked"));
    }
    match own.finish() {
        Ok(Finished::Removed) => say("ringfence: nothing was changed in the work tree; it is removed, with its branch"),
        Ok(Finished::Kept { why }) => say(&kept(&main, &tree, &branch, &why)),
        Err(error) => say(&kept(&main, &tree, &branch, &in_one_line(&error))),
    }
}

fn kept(main: &AbsPath, tree: &AbsPath, branch: &str, why: &str) -> String {
    let (main, tree) = (Word(main.as_bytes()), Word(tree.as_bytes()));
    format!(
        "ringfence: the work tree is kept ({why})\n  \
         show    git -C {tree} status; git -C {main} log -p HEAD..{branch}\n  \
         merge   git -C {main} merge {branch}\n  \
         remove  git -C {main} worktree remove --force {tree}; git -C {main} branch -D {branch}"
    )
}

fn in_one_line(error: &WorktreeError) -> String {
    let cause = std::error::Error::source(error).map(|cause| format!(": {cause}")).unwrap_or_default();
    format!("{error}{cause}")
}

/// What became of the work tree of a dead session.
pub(crate) fn words(left: &worktree::Left) -> String {
    match &left.finished {
        Finished::Removed => format!("collected the work tree {} of session {}", left.tree, left.session),
        Finished::Kept { why } => {
            format!(
                "the work tree {} of dead session {} is kept: {why}; branch {}",
                left.tree, left.session, left.branch
            )
        }
    }
}
