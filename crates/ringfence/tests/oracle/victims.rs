//! What users, prompts and editors run in a repository.

use crate::ground::Ground;
use crate::random::Random;

/// A step: its name, and a line of shell that is run in a directory.
pub(crate) type Step = (&'static str, &'static str);

pub(crate) const STEPS: &[Step] = &[
    ("status", "git status; git status -sb -uall --ignored; git st"),
    ("prompt", "PS1='$ '; prompts"),
    ("diff", "git diff; git diff --cached; git diff HEAD~1; git diff --stat --submodule=log HEAD"),
    ("log", "git log -p -3; git lg -20 --all; git shortlog -sn HEAD; git reflog -5"),
    ("show", "git show HEAD; git show --stat HEAD~1; git stash show -p; git cat-file -p HEAD:file"),
    ("blame", "git blame file; git log -L1,1:file; git grep -n o"),
    (
        "editor",
        "git rev-parse --show-toplevel; git config --list; git for-each-ref; git ls-files -s --others --exclude-standard; \
         git check-ignore -v src file; git ls-tree -r HEAD; git describe --always --dirty --tags; git status -z -uall; git branch -vv",
    ),
    ("add", "touch file; git add -A; git reset -q; git add -u"),
    ("add_p", "echo more >> file; printf 'q\\n' | git add -p"),
    ("checkout", "git checkout -- .; git checkout -f ."),
    ("restore", "rm -f z.bin file; git restore .; git checkout -- z.bin"),
    ("switch", "git switch -f topic; git switch -f side; git switch -f main; git checkout -"),
    ("branch", "git checkout -q -b new$RANDOM; git branch -vv; git tag -f -a -m x t1"),
    ("merge", "git merge --no-edit topic; git merge --no-edit side; git merge --abort"),
    ("mergetool", "git merge --no-edit side; git mergetool -y; git merge --abort; git difftool -y HEAD~1"),
    (
        "stash",
        "echo more >> file; git stash push -m x; git stash list -p; git stash pop; git stash apply; git reset -q --hard",
    ),
    ("stash_pop", "git reset -q --hard; git stash pop"),
    ("commit", "git commit -q --allow-empty -m words; echo more >> file; git commit -qam words"),
    ("commit_editor", "echo more >> file; git commit -a; git commit --amend; git commit --allow-empty"),
    ("rebase_i", "git rebase -i HEAD~1"),
    ("rebase_continue", "git add -A; git rebase --continue; git rebase --skip"),
    ("rebase_abort", "git rebase --abort; git rebase --quit"),
    ("am_continue", "git add -A; git am --continue; git am --skip"),
    ("am_abort", "git am --abort; git am --quit"),
    ("pick_continue", "git add -A; git cherry-pick --continue; git cherry-pick --skip; git revert --continue"),
    ("pick_abort", "git cherry-pick --abort; git revert --abort; git cherry-pick --quit; git revert --quit"),
    ("merge_abort", "git merge --continue; git merge --abort; git reset -q --hard"),
    ("bisect", "git bisect log; git bisect good; git bisect skip; git bisect reset"),
    ("notes", "git notes merge --abort; git notes list; git show --notes"),
    ("submodule_status", "git submodule status --recursive; git submodule summary; git submodule foreach 'git status'"),
    ("submodule_update", "git submodule sync; git submodule update --init --recursive; git submodule update --remote"),
    ("fetch", "git fetch; git fetch --all --prune; git remote -v; git ls-remote"),
    ("fetch_dot", "git fetch .; git fetch . main"),
    ("pull", "git pull --no-edit; git merge --abort"),
    ("push", "git push --dry-run; git push -f; git push -f --tags"),
    ("gc", "git gc -q; git prune; git repack -adq; git maintenance run; git fsck"),
    ("worktree_list", "git worktree list; git worktree prune -v"),
    ("worktree_repair", "git worktree repair"),
    (
        "worktree_new",
        "rm -rf $L/elsewhere/new; git worktree add -f $L/elsewhere/new topic; cd $L/elsewhere/new && git commit --allow-empty -m x",
    ),
    ("archive", "git archive HEAD | tar t; git archive --format=tgz HEAD > /dev/null; git format-patch -1 --stdout"),
    ("lfs", "git lfs status; git lfs ls-files; git lfs env"),
    ("lfs_fetch", "git lfs fetch; git lfs checkout; git lfs pull; git lfs locks"),
    ("tig", "test ! -x /usr/bin/tig || printf 'q' | TERM=xterm timeout 2 tig status"),
];

/// Of these, what is run in other directories than the top.
const QUICK: &[&str] =
    &["prompt", "status", "diff", "log", "checkout", "branch", "commit", "fetch", "submodule_status"];

fn step(name: &str) -> Step {
    *STEPS.iter().find(|(known, _)| *known == name).unwrap_or_else(|| panic!("no step is called {name}"))
}

/// The user's shell: each step is run in a shell of its own, so that it holds nothing up.
fn prelude(ground: &Ground) -> String {
    PRELUDE.replace("@LIVE@", ground.live().to_str().unwrap()).replace("@QUICK@", &quick())
}

/// The steps of a control: those by which a plant fires.
pub(crate) fn script_of(ground: &Ground, steps: &[(&str, &str)]) -> String {
    let mut script = prelude(ground);
    for (dir, name) in steps {
        script += &format!("step {dir} '{}' {}\n", name, quoted(step(name).1));
    }
    script
}

/// Everything, in an order of its own for each sequence: what one step ends (`--abort`) another would have continued.
pub(crate) fn script(ground: &Ground, random: &mut Random) -> String {
    let mut script = prelude(ground);
    let mut steps: Vec<Step> = STEPS.to_vec();
    random.shuffle(&mut steps);
    // An editor looks at everything at once, as a prompt does.
    script += "step . prompt 'prompts'\nstep . status 'git status'\n";
    let visits = random.below(steps.len());
    for (number, (name, line)) in steps.iter().enumerate() {
        if number == visits {
            script += "everywhere\n";
        }
        script += &format!("step . {name} {}\n", quoted(line));
    }
    script + "everywhere again\nstep . status 'git status'\nstep . commit 'git commit -q --allow-empty -m words'\n"
}

fn quoted(line: &str) -> String {
    format!("'{}'", line.replace('\'', "'\\''"))
}

fn quick() -> String {
    QUICK.iter().map(|name| format!("    step \"$1\" {name} {}\n", quoted(step(name).1))).collect()
}

const PRELUDE: &str = r#"
export L=@LIVE@
cd $L/project || exit 1
# What the shell's own prompt does where it sets PS1, and what it shows of it.
prompts() {
    GIT_PS1_SHOWDIRTYSTATE=1 GIT_PS1_SHOWSTASHSTATE=1 GIT_PS1_SHOWUNTRACKEDFILES=1 GIT_PS1_SHOWUPSTREAM=auto GIT_PS1_SHOWCOLORHINTS=1
    GIT_PS1_SHOWCONFLICTSTATE=yes GIT_PS1_DESCRIBE_STYLE=branch
    for file in /usr/lib/git-core/git-sh-prompt /usr/share/git-core/contrib/completion/git-prompt.sh /etc/bash_completion.d/git-prompt; do
        test ! -e $file || { . $file; break; }
    done
    __git_ps1 '' '\$ '; echo "${PS1@P}"
    __git_ps1 '(%s)'
}
step() {
    (cd "$1" && echo "--- $1: $2" && eval "$3") < /dev/null 2>&1
}
visit() {
    test "$2" != again || { step "$1" status 'git status; git log -1'; return; }
@QUICK@
}
# Every directory that is a work tree or a repository, as an editor finds them, and directories within.
everywhere() {
    find . -maxdepth 5 \( -name .git -o -name HEAD \) -not -path '*.git/*' -printf '%h\n' 2>/dev/null | sort -u | head -14 | while read -r dir; do
        test "$dir" = . || visit "$dir" "$1"
    done
    find . -maxdepth 6 -name HEAD -path '*.git/*' -not -path './.git/*' -not -path './nested/.git/*' -printf '%h\n' 2>/dev/null | sort -u | head -5 |
        while read -r dir; do step "$dir" status 'git status; git log -1'; done
    step src status 'git status; git diff; git log -1'
    git worktree list --porcelain 2> /dev/null | sed -n 's/^worktree //p' | while read -r dir; do
        test ! -d "$dir" || step "$dir" status 'prompts; git status; git submodule status; git diff; git commit -q --allow-empty -m x'
    done
}
"#;
