//! What git's own writing costs inside, where the broker judges, verifies and copies what goes below `.git`.

use super::Effort;
use super::bars::Bars;
use super::ground::Ground;
use super::work::{self, Job, Under, compare};
use crate::steps::Failure;

/// Measures, prints, and holds each to its bar.
pub(super) fn run(ground: &Ground, effort: Effort, bars: &mut Bars) -> Result<(), Failure> {
    let dir = work::repository(ground, "git", &work::SIZES)?;
    // The second branch is packed like the first: a switch reads from packs.
    let branches = "git config user.name bench && git config user.email bench@localhost && git branch -M main \
                    && git switch -qc other && git ls-files | head -n 1000 | xargs sed -i '1s/^/changed /' \
                    && git commit -qam other && git switch -q main && git -c pack.window=0 gc -q";
    work::shell(ground, &dir, branches)?;
    let job = |name, before, line| Job { name, bar: None, before, line, dir: dir.clone(), runs: 2 };
    let change_one = "date +%s%N >> \"$(git ls-files | head -n 1)\"";
    let change_many = "n=$(date +%s%N) && git ls-files | head -n 1000 | xargs sed -i \"1s/^/$n /\"";
    let jobs = [
        job("git switch, 1,000 files differ", "git switch -q main", "git switch -q other"),
        job("git commit of one file", change_one, "git commit -qam one"),
        job("git commit of 1,000 files", change_many, "git commit -qam many"),
        // What an earlier session cloned cannot be removed whole inside. The turn outside does it.
        job(
            "git clone, 20,000 files",
            "rm -rf copy.* 2>/dev/null || :",
            "git clone -q --no-local . $(mktemp -d copy.XXXX)",
        ),
    ];
    let rounds = if effort == Effort::Quick { 2 } else { 8 };
    compare(ground, ("Git that writes", Under::Fence), &jobs, rounds, bars)
}
