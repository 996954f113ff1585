//! What git executes or reads because of settings of repositories inside the project: nested ones, submodules, linked work trees.
//!
//! They are found on the walk. The project's own repository, and the settings of the system and the user, were asked for when the policy
//! was resolved.

use std::collections::{BTreeMap, BTreeSet};

use ringfence_plan::{Claim, LayerName, Shortfall};
use ringfence_surface::{AbsPath, Access, GitNamed, GitRun, Look, Surface};

use crate::git_gains::TrackedSecret;
use crate::walk::Walked;

/// What the settings of nested repositories name in places that the session may write.
pub(super) fn git_runs(walked: &Walked, surface: &Surface, look: &mut dyn Look) -> Vec<GitRun> {
    let roots: BTreeSet<&AbsPath> = surface.roots().collect();
    let mut found = BTreeSet::new();
    for tree in walked.work_trees.iter().filter(|tree| !roots.contains(tree)) {
        let dot_git = tree.child(b".git");
        let git_dir = look.git(&dot_git).map_or(dot_git, |git| git.common_dir);
        found.extend(look.git_runs(&git_dir, tree));
    }
    let is_open = |run: &GitRun| match &run.named {
        GitNamed::At(path) => surface.decide(path, Access::Write).is_allowed(),
        // Those of the user were asked for before.
        GitNamed::InEachWorkTree(_) => false,
        GitNamed::Unknown(_) => true,
    };
    found.into_iter().filter(is_open).collect()
}

/// Is there a place to protect?
pub(super) fn needs_rule(run: &GitRun) -> bool {
    matches!(run.named, GitNamed::At(_) | GitNamed::InEachWorkTree(_))
}

/// Denied files that git tracks: their committed content is in the objects of the repository, which git must be able to read.
pub(super) fn tracked_secrets(secrets: Vec<TrackedSecret>) -> impl Iterator<Item = Shortfall> {
    const FEW: usize = 5;
    let mut by_rule: BTreeMap<String, BTreeSet<AbsPath>> = BTreeMap::new();
    for TrackedSecret { pattern, path } in secrets {
        by_rule.entry(pattern).or_default().insert(path);
    }
    by_rule.into_iter().map(|(pattern, paths)| {
        let named: Vec<String> = paths.iter().take(FEW).map(AbsPath::to_string).collect();
        let more = paths.len().checked_sub(FEW).filter(|more| *more > 0);
        let more = more.map(|more| format!(" and {more} more")).unwrap_or_default();
        let reason = format!(
            "git tracks {}{more}: the committed content can be read from the repository (`git show HEAD:PATH`)",
            named.join(", ")
        );
        Shortfall { claim: Claim::Denied { pattern }, layer: LayerName::Mounts, reason }
    })
}

/// Settings of which it is unknown what git executes because of them.
pub(super) fn shortfalls<'r>(runs: impl Iterator<Item = &'r GitRun>) -> Vec<Shortfall> {
    let unknown = runs.filter_map(|run| match &run.named {
        GitNamed::Unknown(why) => Some((&run.setting, why)),
        GitNamed::At(_) | GitNamed::InEachWorkTree(_) => None,
    });
    let unknown: BTreeSet<_> = unknown.collect();
    let shortfall = |(setting, why): (&String, &String)| Shortfall {
        claim: Claim::Protected { pattern: format!("what git runs by {setting}") },
        layer: LayerName::Mounts,
        reason: why.clone(),
    };
    unknown.into_iter().map(shortfall).collect()
}
