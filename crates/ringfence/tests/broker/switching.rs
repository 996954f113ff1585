//! Git replaces protected files: it gives them versions that the repository had when the session began, or it fails (section B, J8).

use std::fs;

use crate::desk::{Desk, each_user, shown};

/// A repository whose branches differ in protected files. `same` differs from `main` in none, `merged` and `main` both changed `ci.yml`.
const REPOSITORY: &str = "export GIT_AUTHOR_DATE=@1700000000+0000 GIT_COMMITTER_DATE=@1700000000+0000
    git init -q; mkdir -p .github/workflows .vscode
    echo base > .github/workflows/ci.yml; echo other > .github/workflows/other.yml
    echo '{}' > .vscode/settings.json; echo 'export A=1' > .envrc; echo a > a; echo z > z; git add -A; git commit -qm first
    git switch -qc dev; echo dev > .github/workflows/ci.yml; echo new > .github/workflows/new.yml; git rm -q .envrc
    mkdir .husky; echo true > .husky/pre-push; chmod +x .husky/pre-push; git rm -rq .vscode; echo dev > a; echo dev > z
    git add -A; git commit -qm dev
    git switch -qc same main; echo same > same; git add -A; git commit -qm same
    git switch -q main; echo main > .github/workflows/ci.yml; git commit -qam second
    git tag before HEAD~1; git remote add origin .; git update-ref refs/remotes/origin/main dev
    git format-patch -q -1 dev --stdout > ../mail; git diff main dev > ../diff\n";

/// What is compared: the exit code is beside it.
const STATE: &str = "git symbolic-ref -q HEAD || true; git rev-parse HEAD; git ls-files -s; git status --porcelain; git diff-files
    git stash list; find . -name .git -prune -o -printf '%p %y %m\\n' | sort; find . -name .git -prune -o -type f -print | sort | xargs tail";

/// Operations that end as they do without a fence.
const OPERATIONS: &[(&str, &str)] = &[
    ("switch", "git switch dev"),
    ("there_and_back", "git switch dev && git switch main && git switch --detach before && git switch -"),
    ("checkout_b", "git checkout -b x origin/main"),
    ("checkout_big_b", "git checkout -B z dev"),
    ("checkout_path", "git checkout dev -- .github .husky"),
    ("restore", "git restore --source=before --staged --worktree .github/workflows/ci.yml"),
    ("reset", "git reset --hard dev"),
    ("reset_keep", "git reset --keep before"),
    ("stash", "echo x >> a; git stash; git switch dev; git switch main; git stash pop"),
    ("merge", "git switch before --detach; git merge dev"),
    ("merge_both", "git merge --no-edit same"),
    ("squash", "git switch -c q before; git merge --squash dev"),
    ("rebase", "git switch same && git rebase main && git rebase --onto dev main"),
    ("pull", "git switch -c p before; git branch -u origin/main; git pull . dev"),
    ("cherry_pick", "git switch -c c before; git cherry-pick dev"),
    ("am", "git switch -c m before; git am ../mail"),
    ("revert", "git revert --no-edit HEAD"),
    ("bisect", "git bisect start HEAD before; git bisect reset"),
    ("sparse", "git sparse-checkout set --no-cone /a; git sparse-checkout disable"),
    ("force", "git switch -f dev"),
    (
        "beside",
        "export GIT_INDEX_FILE=$PWD/../idx; git read-tree HEAD; blob=$(echo evil | git hash-object -w --stdin)
        git update-index --add --cacheinfo 100644,$blob,.envrc --cacheinfo 100644,$blob,a; c=$(git commit-tree -p HEAD -m x $(git write-tree))
        unset GIT_INDEX_FILE; git checkout $c -- a; git commit -qm a; git merge -s ours --no-edit $c; git checkout -b y HEAD~1",
    ),
    ("worktree", "git worktree add wt dev; cd wt; git switch --detach before; git switch --detach dev"),
];

fn environment(script: &str) -> String {
    format!("export GIT_AUTHOR_DATE=@1700000000+0000 GIT_COMMITTER_DATE=@1700000000+0000; {script}")
}

/// Runs every operation in a copy of the repository of its own, inside and outside.
fn compare(desk: &Desk, operations: &[(&str, &str)]) {
    let (project, twin) = (desk.project(""), desk.home("twin"));
    desk.prepare(&format!("mkdir {0}; mkdir tree; cd tree; {REPOSITORY}", twin.display()));
    let (mut prepared, mut script) = (String::new(), String::new());
    for (name, operation) in operations {
        let operation = environment(operation);
        // A copy has other inodes than the index says.
        prepared +=
            &format!("for dir in . $T; do cp -a tree $dir/{name}; git -C $dir/{name} status --porcelain; done\n");
        prepared += &format!(
            "(cd $T/{name}; set +e; git update-index -q --refresh; ({operation}) >/dev/null 2>&1; echo $? > ../{name}.code)\n"
        );
        script += &format!(
            "(cd {name}; git update-index -q --refresh; ({operation}) >/tmp/said 2>&1; echo $? > ../{name}.code; sed 's/^/{name}: /' /tmp/said)\n"
        );
    }
    desk.prepare(&format!("T={}; cp mail diff $T; {prepared}", twin.display()));
    let said = desk.run().args(["bash", "-c", &script]).output().unwrap();
    for (name, _) in operations {
        let state = |dir: &std::path::Path| {
            let mut command = desk.outside("/bin/bash");
            let output = command.current_dir(dir.join(name)).args(["-c", STATE]).output().unwrap();
            let code = fs::read_to_string(dir.join(format!("{name}.code"))).unwrap();
            format!("{code}{}", shown(&output))
        };
        let (inside, outside) = (state(&project), state(&twin));
        assert!(inside == outside, "{name}: inside\n{inside}\noutside\n{outside}\n{}", shown(&said));
    }
}

#[test]
fn b_operations_on_branches_that_differ_in_protected_files_end_as_outside() {
    each_user(|desk| compare(&desk, OPERATIONS));
}

/// `!` does not end a script.
const FAILS: &str = "fails() { if \"$@\"; then echo \"succeeds: $*\" >&2; exit 9; fi; };";

/// Makes commits of content that the user never had, by plumbing.
const EVIL: &str = "evil() { rm -f /tmp/i; export GIT_INDEX_FILE=/tmp/i; git read-tree HEAD
        blob=$(echo evil | git hash-object -w --stdin); git update-index --add --cacheinfo 100644,$blob,.github/workflows/ci.yml
        commit=$(git commit-tree -p HEAD -m x $(git write-tree)); unset GIT_INDEX_FILE; }
    is_as_before() { test \"$(git symbolic-ref HEAD)\" = refs/heads/main; test \"$(cat .github/workflows/ci.yml)\" = main
        git diff --cached --quiet; test ! -e .git/index.lock; git reset -q --hard; test -z \"$(git status --porcelain -uno)\"; }\n";

#[test]
fn b_a_version_that_the_repository_did_not_have_is_refused() {
    each_user(|desk| {
        desk.prepare(&format!("mkdir clean; cd clean; {REPOSITORY} git status"));
        for (attack, script) in [
            ("a branch", "git branch evil $commit; fails git switch evil"),
            ("a reset", "fails git reset --hard $commit"),
            ("a merge", "fails git merge $commit"),
            ("a path", "fails git checkout $commit -- .github"),
            (
                "a ref that existed",
                "git update-ref refs/remotes/origin/main $commit; fails git switch --detach origin/main",
            ),
            (
                "a replaced blob",
                "fails git replace $(git rev-parse dev:.github/workflows/ci.yml) $blob",
            ),
            ("a replaced commit", "fails git replace -f dev $commit"),
            (
                "a graft",
                "mkdir -p .git/info; { echo $(git rev-parse HEAD) $commit > .git/info/grafts; } || true; git branch graft $commit; fails git switch graft",
            ),
            (
                "an end of the history",
                "{ git rev-parse HEAD > .git/shallow; } || true; git branch shallow $commit; fails git switch shallow; rm -f .git/shallow",
            ),
            (
                "another repository's objects",
                "git init -q /tmp/o; cp -r .git/objects /tmp/o/.git; { echo /tmp/o/.git/objects > .git/objects/info/alternates; } || true; fails git switch --detach $commit",
            ),
            (
                "an executable",
                "export GIT_INDEX_FILE=/tmp/i; git read-tree HEAD; git update-index --chmod=+x .envrc
                c=$(git commit-tree -p HEAD -m x $(git write-tree)); unset GIT_INDEX_FILE; fails git switch --detach $c",
            ),
            (
                "a link",
                "rm -f /tmp/i; GIT_INDEX_FILE=/tmp/i; export GIT_INDEX_FILE; git read-tree HEAD; git update-index --add --cacheinfo 120000,$blob,.envrc; c=$(git commit-tree -p HEAD -m x $(git write-tree)); unset GIT_INDEX_FILE; fails git switch --detach $c",
            ),
        ] {
            // What an earlier session left would be known.
            desk.prepare("rm -rf tree; cp -a clean tree");
            let said = desk.inside(&format!("{FAILS} cd tree; {EVIL} evil; {script}; git status --short; is_as_before"));
            assert!(said.status.success(), "{attack}: {}", shown(&said));
            let text = String::from_utf8_lossy(&said.stderr).into_owned();
            let is_named = text.lines().any(|line| line.contains("stopped: write") && line.contains("fence"));
            assert!(is_named, "{attack}: {}", shown(&said));
        }
    });
}

/// What each command would change, beside a protected file, comes before it in the index: it would be replaced first.
const EARLY: &[(&str, &str)] = &[
    ("switch", "git switch evil"),
    ("switch, short", "git switch --detach $(git rev-parse --short evil)"),
    ("switch, a remote branch", "git switch far"),
    ("checkout", "git checkout evil"),
    ("checkout -B", "git checkout -B other evil"),
    ("checkout, paths", "git checkout evil -- '!first' .github"),
    ("checkout, the one before", "git update-ref refs/heads/side evil; git checkout -"),
    ("restore", "git restore -s evil --staged --worktree '!first' .github/workflows/ci.yml"),
    ("reset", "git reset --hard evil"),
    ("reset, an ancestor", "git reset --hard evil2~1"),
    ("merge", "git merge --no-edit evil"),
    ("merge, three-way", "git commit -q --allow-empty -m x; git merge --no-edit evil"),
    ("pull", "git pull . evil"),
    ("cherry-pick", "git commit -q --allow-empty -m x; git cherry-pick evil"),
    ("rebase", "git rebase evil; test ! -e .git/rebase-merge"),
    ("worktree", "git worktree add wt evil; test ! -e wt -a ! -e .git/worktrees/wt"),
    ("stash", "git update-ref --create-reflog -m x refs/stash $stash; git stash pop"),
];

/// A version that is refused is refused before git has changed anything, where the command line says what git will do.
#[test]
fn b_a_refused_version_is_refused_before_anything_changed() {
    each_user(|desk| {
        desk.prepare(&format!("mkdir clean; cd clean; {REPOSITORY} echo 1 > '!first'; git add -A; git commit -qm last
            git remote remove origin; git remote add other .; git branch side; git switch -q side; git switch -q main; git status"));
        let evil = "rm -f /tmp/i; export GIT_INDEX_FILE=/tmp/i; git read-tree HEAD; blob=$(echo evil | git hash-object -w --stdin)
            add() { git update-index --add --cacheinfo \"100644,$blob,$1\"; }; add .github/workflows/ci.yml; add '!first'; tree=$(git write-tree)
            commit=$(git commit-tree -p HEAD -m x $tree); git update-ref refs/heads/evil $commit; git update-ref refs/remotes/other/far $commit
            git update-ref refs/heads/evil2 $(git commit-tree -p $commit -m y $tree)
            stash=$(git commit-tree -p HEAD -p $(git commit-tree -p HEAD -m i HEAD^{tree}) -m s $tree); unset GIT_INDEX_FILE";
        let (mut prepared, mut scripts) = (String::new(), FAILS.to_owned());
        for (number, (name, command)) in EARLY.iter().enumerate() {
            prepared += &format!("cp -a clean {number}; git -C {number} status --porcelain\n");
            let (before, last) =
                command.rsplit_once("; git ").map_or(("true", *command), |(before, last)| (before, last));
            let (last, after) =
                last.split_once("; test").map_or((last.to_owned(), "true".to_owned()), |(last, after)| {
                    (last.to_owned(), format!("test{after}"))
                });
            let last = if last.starts_with("git ") { last } else { format!("git {last}") };
            scripts += &format!(
                "\necho '{name}' >&2; cd {number}; git update-index -q --refresh; {evil}; {before}; head=$(git rev-parse HEAD)
                 fails {last}; {after}; test \"$(git symbolic-ref HEAD)\" = refs/heads/main; test \"$(git rev-parse HEAD)\" = $head
                 test \"$(cat '!first')\" = 1; test ! -e .git/index.lock; test -z \"$(git status --porcelain)\"; cd .."
            );
        }
        desk.prepare(&prepared);
        let said = desk.inside(&scripts);
        assert!(said.status.success(), "{}", shown(&said));
        let text = shown(&said);
        let early = text.matches("nothing was changed]; run this git command yourself, outside the fence").count();
        assert!(early > 5 && !text.contains("an index says that it did"), "{text}");
    });
}

/// An old version of the policy could allow more. What the user's own policy protects stays as it is too.
#[test]
fn b_a_policy_gets_no_old_version() {
    each_user(|desk| {
        desk.prepare(
            "git init -q; echo 'version = 1' > ringfence.toml; echo 1 > kept; git add -A; git commit -qm old
            printf 'version = 1\\n[files]\\nprotect = [\"kept\"]\\n' > ringfence.toml; git commit -qam one; echo 2 > kept; git commit -qam two",
        );
        for script in
            ["git checkout HEAD~2 -- ringfence.toml", "git checkout HEAD~1 -- kept", "git reset --hard HEAD~1"]
        {
            let said =
                desk.inside(&format!("{FAILS} fails {script}; test ! -e .git/index.lock; git status --porcelain"));
            assert!(said.status.success() && said.stdout.is_empty(), "{script}: {}", shown(&said));
        }
    });
}

/// An uncommitted change of the user's is not lost, and only git removes a protected file.
#[test]
fn b_what_is_not_in_the_repository_is_not_removed() {
    each_user(|desk| {
        desk.prepare(&format!("mkdir tree; cd tree; {REPOSITORY} echo 'of the user' > .envrc"));
        let said = desk.inside(&format!(
            "{FAILS} cd tree; fails git reset --hard; test \"$(cat .envrc)\" = 'of the user'; test ! -e .git/index.lock; \
             fails rm -f .github/workflows/ci.yml; : > .git/index.lock; fails rm -f .github/workflows/ci.yml; rm .git/index.lock
             test \"$(cat .github/workflows/ci.yml)\" = main",
        ));
        assert!(said.status.success(), "{}", shown(&said));
        // What git saves itself it may put back.
        let said = desk.inside(
            "cd tree; git stash; test \"$(cat .envrc)\" = 'export A=1'; git stash pop; test \"$(cat .envrc)\" = 'of the user'",
        );
        assert!(said.status.success(), "{}", shown(&said));
    });
}

/// What is put in place is the content that was judged, whatever the caller does with its descriptors and with names.
#[test]
fn b_content_is_not_changed_after_it_was_judged() {
    each_user(|desk| {
        desk.prepare(&format!("mkdir tree; cd tree; {REPOSITORY} git status"));
        desk.write("swap.py", include_str!("swap.py"));
        // The program is called like git.
        let said = desk.inside("cd tree; ln -s $(readlink -f $(command -v python3)) /tmp/git; /tmp/git ../swap.py");
        assert!(said.status.success(), "{}", shown(&said));
        assert!(shown(&said).contains("rounds done"), "{}", shown(&said));
    });
}

/// What waits for a review changes nothing on the host, the settings of a repository included.
#[test]
fn b_a_session_with_a_review_changes_no_file_that_is_put_in_place_outside() {
    each_user(|desk| {
        desk.prepare(&format!("mkdir tree; cd tree; {REPOSITORY} git config user.email ada@example.com; git status"));
        let script = "cd tree; git config user.email agent@example.com || true; if git switch dev; then exit 9; fi";
        let said = desk.bare(&["--review"]).args(["bash", "-euc", script]).output().unwrap();
        assert!(said.status.success(), "{}", shown(&said));
        desk.prepare(
            "cd tree; test \"$(git config user.email)\" = ada@example.com; test -z \"$(git status --porcelain)\"",
        );
    });
}
