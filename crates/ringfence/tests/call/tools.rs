//! The tools of an agent, each through the wrapper.

use crate::ground::{BOTH, each};

/// M3: shell, file and git tools work through `ringfence exec`, one call after another.
#[test]
fn m3_shell_file_and_git_tools_start_through_the_wrapper() {
    each(|ground| {
        ground.write(&[("home/.gitconfig", "[user]\n\tname = A\n\temail = a@example.com\n")]);
        for from in BOTH {
            // What was made by the other side's calls.
            let _ = std::fs::remove_dir_all(ground.path("project/.git"));
            for script in [
                "git init -q . && git add -A && git commit -qm first",
                "git checkout -qb topic && echo more >> top && git commit -qam second && git checkout -q -",
                "git merge -q topic && git log --oneline | grep -q second && git status --short | wc -l",
                "git stash list && git diff HEAD~1 --stat && git worktree list",
                "sed -i s/top/TOP/ top && grep -q TOP top && find . -name '*.rs' && sort top > src/sorted",
                "tar cf \"$TMPDIR/t.tar\" src && tar tf \"$TMPDIR/t.tar\" && rm src/sorted && echo top > top",
                "printf 'a\\nb\\n' | (cat > src/new) && test \"$(wc -l < src/new)\" = 2 && rm src/new",
            ] {
                ground.check(from, &[], script, true);
            }
            ground.check(from, &["--read-only"], "git log --oneline && git status --short && git show", true);
            ground.check(from, &["--read-only"], "git commit -qam third", false);
            ground.check(from, &[], "echo x > .git/hooks/post-commit", false);
            ground.check(from, &[], "git config core.fsmonitor /bin/false", false);
        }
        ground.left_nothing();
    });
}
