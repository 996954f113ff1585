//! What a session leaves in repositories is named at its end: protected paths in commits and indexes, submodules, unfinished operations.

use std::fs;
use std::process::Output;

use crate::desk::{Desk, each_user, shown};

/// A repository with two commits, and a second branch on which a protected file differs.
const REPOSITORY: &str = "git init -q && mkdir -p .github/workflows && echo one > file && echo ci > .github/workflows/ci.yml && \
    git add -A && git commit -qm first && echo two > file && git commit -qam second && \
    git switch -qc dev && echo dev > .github/workflows/ci.yml && echo dev > file && git commit -qam dev && git switch -q main";

/// Commits the index at /tmp/i to a branch.
const COMMIT: &str = "commit() { git update-ref \"$1\" \"$(git commit-tree -p HEAD -m words \"$(git write-tree)\")\"; }
    export GIT_INDEX_FILE=/tmp/i; git read-tree HEAD; add() { git update-index --add --cacheinfo \"$1\"; }
    blob() { git hash-object -w --stdin; }\n";

/// The lines of the report.
fn report(said: &Output) -> Vec<String> {
    let text = String::from_utf8_lossy(&said.stderr).into_owned();
    text.lines().filter_map(|line| line.strip_prefix("ringfence: git: ")).map(str::to_owned).collect()
}

#[track_caller]
fn gained(desk: &Desk, script: &str, expected: &[&str]) {
    let said = desk.inside(script);
    assert!(said.status.success(), "{script}: {}", shown(&said));
    let lines = report(&said);
    assert_eq!(lines.len(), expected.len(), "{script}: {lines:?}\n{}", shown(&said));
    for (line, expected) in lines.iter().zip(expected) {
        assert!(line.contains(expected), "{script}: {line}: {expected}");
    }
}

#[test]
fn a8_what_commits_and_the_index_gained_is_named() {
    each_user(|desk| {
        desk.prepare(REPOSITORY);
        desk.hand_over();
        let committed = |script: &str| format!("{COMMIT}{script}");
        gained(
            &desk,
            &committed("add 100644,$(echo evil | blob),.github/workflows/evil.yml; commit refs/heads/evil"),
            &["change what the rules protect: .github/workflows/evil.yml (refs/heads/evil);"],
        );
        // It is there now: the next session did not make it.
        gained(&desk, "git commit -q --allow-empty -m words", &[]);
        gained(
            &desk,
            &committed(
                "git rm -rq --cached .github; add 120000,$(printf elsewhere | blob),.github; commit refs/heads/link",
            ),
            &["change what the rules protect: .github/workflows/ci.yml (refs/heads/link)", "links in the place of"],
        );
        // Also below a ref that is no branch, and in a commit that is not the last one.
        gained(
            &desk,
            &committed(
                "add 100755,$(echo evil | blob),.husky/pre-commit; commit refs/notes/x
                git update-ref refs/notes/x \"$(git commit-tree -p refs/notes/x -m words HEAD^{tree})\"",
            ),
            &["change what the rules protect: .husky/pre-commit (refs/notes/x)"],
        );
        gained(
            &desk,
            "git update-index --add --cacheinfo 160000,$(git rev-parse HEAD),sub",
            &["have new submodules: sub (the index)"],
        );
        gained(
            &desk,
            "git update-index --add --cacheinfo 100644,$(echo evil | git hash-object -w --stdin),.envrc",
            &["change what the rules protect: .envrc (the index)"],
        );
        desk.prepare("git reset -q --hard");
        let logs = desk.run().args(["true"]).output().unwrap();
        assert!(report(&logs).is_empty(), "{}", shown(&logs));
    });
}

/// [A8]: git takes commits from reflogs too, also where no ref leads to them.
#[test]
fn a8_what_reflogs_gained_is_named() {
    each_user(|desk| {
        desk.prepare(&format!("{REPOSITORY}; echo stashed > file; git stash -q"));
        desk.hand_over();
        let forged = |tail: &str| {
            format!(
                "{COMMIT}h=$(git rev-parse HEAD); index=$(git commit-tree -p $h -m index HEAD^{{tree}})
                add 100644,$(echo evil | blob),.github/workflows/evil.yml; tree=$(git write-tree)
                evil=$(git commit-tree -p $h -p $index -m evil $tree); good=$(git commit-tree -p $h -p $index -m good HEAD^{{tree}})
                who='u <u> 1700000000 +0000'; zero=0000000000000000000000000000000000000000; {tail}"
            )
        };
        let named = |place: &str| format!("change what the rules protect: .github/workflows/evil.yml ({place});");
        // As a stash below another one: no ref leads to it.
        gained(
            &desk,
            &forged(
                "printf \"$zero $evil $who\\tevil\\n$evil $good $who\\tgood\\n\" > .git/logs/refs/stash; echo $good > .git/refs/stash",
            ),
            &[&named("stash@{1}")],
        );
        // It was there at the start of this session.
        gained(&desk, "git commit -q --allow-empty -m words", &[]);
        gained(
            &desk,
            &forged(
                "tree=$(git mktree < /dev/null); other=$(git commit-tree -p $evil -m other $(git rev-parse $evil^{tree}))
                printf \"$h $h $who\\tcheckout: moving from $other to main\\n\" >> .git/logs/HEAD",
            ),
            &[&named("`git checkout -` from HEAD@{0}")],
        );
        gained(
            &desk,
            &forged(
                "other=$(git commit-tree -m other $tree); mkdir -p .git/logs/refs/heads/x
                printf \"$other $h $who\\twords\\n\" > .git/logs/refs/heads/x/y",
            ),
            &[&named("x/y@{1}")],
        );
        // An object may come in a later session: its name alone is reported.
        gained(
            &desk,
            "printf '1234123412341234123412341234123412341234 1234123412341234123412341234123412341234 u <u> 1 +0000\twords\n' >> .git/logs/HEAD",
            &["HEAD@{1}, HEAD@{0} leads to the object 1234123412341234123412341234123412341234, which is missing"],
        );
        // What is fetched is taken line by line.
        gained(
            &desk,
            &forged(
                "other=$(git commit-tree -m another $tree)
                printf \"$h\\t\\tbranch 'a' of .\\n$other\\t\\tbranch 'b' of .\\n\" > .git/FETCH_HEAD",
            ),
            &[&named("FETCH_HEAD, line 2")],
        );
        // Ordinary work that leaves commits without a ref.
        gained(
            &desk,
            "echo 1 > file; git commit -qam one; git commit -q --amend -m two; git reset -q --hard HEAD~1; echo 2 > file; git stash -q; git stash drop -q
            git switch -q --detach HEAD~1; git switch -q -; git rebase -q HEAD~1",
            &[],
        );
    });
}

#[test]
fn j6_settings_that_only_a_commit_has_are_named() {
    each_user(|desk| {
        desk.prepare(REPOSITORY);
        desk.hand_over();
        let script =
            format!("{COMMIT}add 100644,$(printf '[lfs]\\n\\turl = https://evil\\n' | blob),.lfsconfig; commit HEAD");
        gained(&desk, &script, &["change what the rules protect: .lfsconfig (refs/heads/main)"]);
        let script = format!("{COMMIT}add 100644,$(echo '* filter=lfs' | blob),.gitattributes; commit HEAD");
        gained(&desk, &script, &["and the work tree has none: .gitattributes (refs/heads/main)"]);
    });
}

/// Ordinary work is not commented on, nor what was there before.
#[test]
fn a8_ordinary_work_is_quiet() {
    each_user(|desk| {
        desk.prepare(REPOSITORY);
        desk.hand_over();
        for script in [
            "true",
            "echo three > file; git commit -qam third; git tag -a -m words tag",
            "git branch old HEAD~1; git branch other dev; git tag t dev~1",
            "echo four > file; git stash -q; git stash pop -q; git commit -qam fourth",
            "git gc -q; git commit -q --allow-empty -m words",
            "git cherry-pick --no-commit HEAD~1; git reset -q --hard",
        ] {
            gained(&desk, script, &[]);
        }
    });
}

#[test]
fn j5_an_operation_that_the_user_did_not_begin_is_named() {
    for (script, expected) in [
        ("GIT_SEQUENCE_EDITOR='sed -i s/^pick/edit/' git rebase -q -i HEAD~1", "rebase --abort"),
        ("git bisect start", "bisect reset"),
        ("git merge -q --no-commit --no-ff side", "merge --abort"),
        ("git cherry-pick dev || true", "cherry-pick --abort"),
        ("git revert --no-commit HEAD; git rev-parse HEAD > .git/REVERT_HEAD", "revert --abort"),
    ] {
        each_user(|desk| {
            desk.prepare("git init -q; echo one > file; git add -A; git commit -qm first; git branch side; \
                git switch -qc dev; echo dev > file; git commit -qam dev; git switch -q main; echo two > file; git commit -qam second; \
                git switch -q side; echo x > other; git add other; git commit -qm side; git switch -q main");
            desk.hand_over();
            gained(&desk, script, &[expected]);
            // The user knows of it now.
            gained(&desk, "true", &[]);
            let abort = report(&desk.inside("true"));
            assert!(abort.is_empty(), "{abort:?}");
        });
    }
}

/// What is printed ends the operation when it is typed.
#[test]
fn j5_the_printed_command_ends_the_operation() {
    each_user(|desk| {
        desk.prepare(
            "git init -q; echo one > file; git add -A; git commit -qm first; echo two > file; git commit -qam second",
        );
        desk.hand_over();
        let said = desk.inside("GIT_SEQUENCE_EDITOR='sed -i s/^pick/edit/' git rebase -q -i HEAD~1");
        let lines = report(&said);
        let command = lines[0].split('`').nth(1).unwrap().to_owned();
        desk.prepare(&format!("{command} && test ! -e .git/rebase-merge"));
    });
}

#[test]
fn a8_what_a_work_tree_gained_is_named_before_the_merge_line() {
    each_user(|desk| {
        desk.prepare(REPOSITORY);
        desk.hand_over();
        let script = format!("{COMMIT}add 100644,$(echo evil | blob),.github/workflows/evil.yml; commit HEAD");
        let said = desk.bare(&["--worktree=evil"]).args(["sh", "-c", &script]).output().unwrap();
        let text = String::from_utf8_lossy(&said.stderr).into_owned();
        let named = text.find(".github/workflows/evil.yml (refs/heads/ringfence/evil)");
        let merge = text.find("merge   git");
        assert!(named.is_some() && merge.is_some() && named < merge, "{}", shown(&said));
    });
}

/// A denied file that git tracks is readable in its objects: that is reported, and the rest of the deny holds.
#[test]
fn a12_a_denied_file_that_git_tracks_is_a_shortfall() {
    each_user(|desk| {
        desk.prepare(
            "git init -q; echo secret > .env; echo x > file; git add -f -A; git commit -qm first; echo new > .env",
        );
        desk.hand_over();
        desk.write("ringfence.toml", "version = 1\n[files]\ndeny = [\".env\"]\n");
        desk.hand_over();
        let said = desk.inside("! cat .env 2>&1; git show HEAD:.env");
        let text = String::from_utf8_lossy(&said.stderr).into_owned();
        let env = desk.project(".env");
        let line = text.lines().find(|line| line.contains("not held") && line.contains("git tracks"));
        assert!(line.is_some_and(|line| line.contains(env.to_str().unwrap())), "{}", shown(&said));
        assert!(String::from_utf8_lossy(&said.stdout).ends_with("secret\n"), "{}", shown(&said));
        desk.prepare("git rm -q --cached .env; git commit -qm gone");
        let said = desk.inside("true");
        assert!(!String::from_utf8_lossy(&said.stderr).contains("git tracks"), "{}", shown(&said));
        fs::write(desk.project("file"), "y").unwrap();
        // Ringfence's own state directory is denied, and the tracked files of a work tree kept in it are no secrets.
        let said = desk.bare(&["--worktree=kept"]).args(["sh", "-c", "echo new > new"]).output().unwrap();
        assert!(String::from_utf8_lossy(&said.stderr).contains("the work tree is kept"), "{}", shown(&said));
        let said = desk.inside("true");
        assert!(!String::from_utf8_lossy(&said.stderr).contains("git tracks"), "{}", shown(&said));
    });
}

/// What the repository or the user had already is no gain: an old commit that is checked out, a note, the user's own edit in a stash.
#[test]
fn a8_what_was_there_before_is_not_named() {
    each_user(|desk| {
        desk.prepare(
            "git init -q; mkdir -p .github/workflows; \
             for n in 1 2 3; do echo $n > .github/workflows/ci.yml; echo $n > file; git add -A; git commit -qm c$n; done",
        );
        desk.hand_over();
        for script in
            ["git checkout -q HEAD~1", "git checkout -q -", "git notes add -m note", "git reset -q --hard HEAD~1"]
        {
            let said = desk.inside(script);
            assert!(report(&said).is_empty(), "{script}: {}", shown(&said));
        }
        fs::write(desk.project(".github/workflows/ci.yml"), "the user's\n").unwrap();
        let said = desk.inside("git stash -q");
        assert!(report(&said).is_empty(), "{}", shown(&said));
        // A revert that only the index has is not what HEAD says.
        let said = desk.inside("git update-index --cacheinfo 100644,$(git rev-parse HEAD~1:.github/workflows/ci.yml),.github/workflows/ci.yml");
        assert!(report(&said)[0].contains(".github/workflows/ci.yml (the index)"), "{}", shown(&said));
    });
}

/// Without a broker nothing keeps an agent from making a repository that runs commands outside. The end of the session names it.
#[test]
fn a1_a_repository_that_nothing_judged_is_named_at_the_end() {
    each_user(|desk| {
        desk.prepare(
            "git init -q mine; mkdir -p mine/.git/hooks; printf '#!/bin/sh\\n' > mine/.git/hooks/pre-commit
            git init -q --bare bare; mkdir -p bare/hooks; touch bare/hooks/x",
        );
        desk.hand_over();
        let evil = "printf '[core]\\n\\tfsmonitor = evil\\n' > X/config; echo ref: refs/heads/main > X/HEAD; mkdir -p X/objects X/refs";
        let script = format!(
            "mkdir -p X/hooks deep/sub; {evil}; touch X/hooks/pre-commit; ln -s /elsewhere X/COMMIT_EDITMSG; mv X deep/planted
            echo 'gitdir: /elsewhere' > deep/sub/.git; git init -q good; cd good; touch f; git add f; git commit -qm f"
        );
        let said = desk.run_with(&["--no-broker"]).args(["bash", "-euc", &script]).output().unwrap();
        let lines = report(&said);
        assert!(said.status.success() && lines.len() == 2, "{lines:?} {}", shown(&said));
        for expected in ["deep/planted has git files", " config (", " hooks/pre-commit (", " COMMIT_EDITMSG ("] {
            assert!(lines[0].contains(expected), "{expected}: {lines:?}");
        }
        assert!(lines[1].contains("deep/sub has git files") && lines[1].contains(" .git ("), "{lines:?}");
        // They are there now: the next session did not make them.
        let said = desk.run_with(&["--no-broker"]).args(["bash", "-euc", "touch x; mv deep deeper"]).output().unwrap();
        assert_eq!(report(&said), [""; 0], "{}", shown(&said));
    });
}
