//! Version control: everything a day needs works; what would run later stays as it is.

use crate::desk::{Desk, each, shown};
use crate::table::{BEGUN, DAY, DOTFILES, HOOKS, SETTINGS, WORK_TREE};

/// A repository with two commits, made by the user outside.
fn repository(desk: &Desk) {
    desk.prepare(
        "git init -q && echo one > file && echo '*.o' > .gitignore && git add -A && git commit -qm first
         echo two >> file && git commit -qam second && mkdir -p .git/info && echo '* text=auto' > .git/info/attributes",
    );
}

/// M1: in a root of its own too.
#[test]
fn a_day_with_git() {
    each(&DAY, a_day);
}

fn a_day(desk: Desk) {
    repository(&desk);
    desk.works(&[
        ("status is clean and needs no refresh of every file", "test -z \"$(git status --porcelain)\""),
        (
            "a commit carries the name and address of the user",
            "echo x > new && git add new && git commit -qm third && \
                 test \"$(git log -1 --format='%an %ae')\" = 'Ada Example ada@example.com'",
        ),
        (
            "a branch is made, switched to and deleted",
            "git branch side && git switch -q side && git switch -q main && git branch -d side",
        ),
        (
            "changes are stashed with new files, and come back",
            "echo y >> file && echo z > untracked && git stash -qu && test ! -e untracked && \
                 git stash pop -q && test -e untracked && git checkout -q file && rm untracked",
        ),
        (
            "a branch is rebased",
            "git switch -qc topic HEAD~1 && echo t > topic && git add topic && git commit -qm topic && \
                 git rebase -q main && git log --format=%s | head -2 | grep -q third",
        ),
        (
            "commits are squashed by an interactive rebase",
            "echo u > u && git add u && git commit -qm u && \
                 GIT_SEQUENCE_EDITOR=\"sed -i '2s/pick/fixup/'\" git rebase -qi main && \
                 test \"$(git rev-list --count main..)\" = 1",
        ),
        (
            "a branch is merged",
            "git switch -q main && git merge -q --no-ff -m merge topic && \
                 test \"$(git rev-list --merges --count HEAD)\" = 1",
        ),
        (
            "a conflict is shown and resolved",
            "git switch -qc left && echo left > file && git commit -qam left && git switch -q main && \
                 echo right > file && git commit -qam right && ! git merge -q left && grep -q '<<<<' file && \
                 echo both > file && git add file && git commit -qm both && git branch -D left",
        ),
        (
            "many files are checked out, by several workers where there are several processors",
            "if test $(nproc) = 1; then least=1; else least=4; fi && test \"$(git config checkout.workers)\" -ge $least && \
                 git switch -qc many && mkdir files && \
                 for n in $(seq 300); do echo $n > files/$n; done && git add files && git commit -qm many && \
                 rm -r files && git checkout -q . && test \"$(cat files/* | sort -n | tail -1)\" = 300 && \
                 test -z \"$(git status --porcelain)\" && git switch -q main && test ! -e files && git branch -qD many",
        ),
        ("a tag is made and described", "git tag -a v1 -m 'version one' && git describe | grep -q v1"),
        (
            "history is read",
            "git log --oneline --graph --all > /dev/null && git show HEAD > /dev/null && \
                 git blame file > /dev/null && git diff HEAD~1 | grep -q both && git grep -q both",
        ),
        (
            "a commit is taken over from another branch, and taken back",
            "git switch -qc pick && echo c > c && git add c && git commit -qm c && git switch -q main && \
                 git cherry-pick pick > /dev/null && test -e c && git revert --no-edit HEAD > /dev/null && \
                 test ! -e c",
        ),
        (
            "files are moved, and everything is put back",
            "git mv new moved && git rm -q topic && git reset -q --hard && test -e new && test -e topic",
        ),
        ("ignored and new files are cleaned away", "touch a.o b && git clean -qfdx && test ! -e a.o && test ! -e b"),
        (
            "a work tree is added, worked in and removed",
            "git worktree add -q tree -b tree && cd tree && echo w > w && git add w && git commit -qm w && \
                 cd .. && git worktree remove tree && test ! -e tree && git branch -D tree",
        ),
        (
            "a bad commit is found by bisecting",
            "for i in 1 2 3 4; do echo $i > n; git add n; git commit -qm n$i; done; \
                 git bisect start HEAD HEAD~4 > /dev/null && \
                 git bisect run sh -c 'test $(cat n 2>/dev/null || echo 0) -lt 3' | \
                 grep -q 'first bad commit' && git bisect reset > /dev/null 2>&1",
        ),
        ("the repository is packed and sound", "git gc -q && git fsck --no-progress"),
        (
            "it is packed again, with bitmaps and with objects that no ref leads to",
            "git gc -q && echo lost > lost && git hash-object -w lost && git repack -dq --cruft && \
                 git -c repack.writeBitmaps=true repack -adbq && git fsck --no-progress && rm lost",
        ),
        (
            "so many objects are fetched that they come as a pack",
            "git init -q many && cd many && for n in $(seq 120); do echo $n > f$n; done && git add -A && git commit -qm many && \
                 cd .. && git fetch -q ./many && git log -1 --format=%s FETCH_HEAD | grep -qx many && \
                 test -z \"$(find .git/objects/pack -name '*.keep')\" && rm -rf many",
        ),
        (
            "a bare repository is cloned, pushed to and fetched from",
            "git clone -q --bare . /tmp/up.git && git push -q /tmp/up.git HEAD:refs/heads/new && \
                 git fetch -q /tmp/up.git new && git clone -q /tmp/up.git /tmp/again && \
                 git -C /tmp/again log -1 > /dev/null",
        ),
        (
            "a patch is made and applied",
            "echo p >> file && git diff > /tmp/p.diff && git checkout -q file && git apply /tmp/p.diff && \
                 git format-patch -1 --stdout > /tmp/m && git checkout -q file && git reset -q --hard HEAD~1 && \
                 git am -q /tmp/m",
        ),
        (
            "a submodule is added from a local path",
            "git -c protocol.file.allow=always submodule add -q /tmp/up.git sub > /dev/null 2>&1; \
                 test -e sub/file && git commit -qm sub && git -C sub log -1 > /dev/null && \
                 git ls-files -s sub | grep -q ^160000",
        ),
        (
            "a message is written in an editor",
            "echo e >> file && GIT_EDITOR='sed -i 1s/^/edited/' git commit -qa && git log -1 --format=%s | \
                 grep -q edited",
        ),
    ]);
    desk.prepare("git fsck --no-progress && test -z \"$(git status --porcelain)\"");
}

/// K8: hooks, config and attributes cannot be changed, and git still works.
#[test]
fn k8_what_git_runs_stays_as_it_is() {
    each(&HOOKS, |desk| {
        repository(&desk);
        desk.prepare("cp -r .git/config .git/hooks .git/info/attributes ~/");
        desk.works(&[
            ("a hook cannot be planted", "! : >> .git/hooks/pre-commit"),
            ("hooks cannot be moved away", "! mv .git/hooks .git/h || { mv .git/h .git/hooks; false; }"),
            ("a setting cannot be made", "! git config core.hooksPath evil"),
            (
                "the file of settings cannot be replaced",
                "cp .git/config x && printf '[core]\\n\\tpager = evil\\n' >> x && ! mv x .git/config && rm -f x",
            ),
            ("attributes cannot be changed", "! echo '* filter=evil' >> .git/info/attributes"),
            ("the repository cannot be moved away", "! mv .git g || { mv g .git; false; }"),
            (
                "a remote that no rule lists cannot be added, and it is said",
                "git remote add x https://evil.example/y 2>&1 | grep -q 'could not'",
            ),
            ("git still works", "echo x > new && git add new && git commit -qm new && git branch b && git switch -q b"),
        ]);
        if desk.is_in_a_root() {
            return;
        }
        desk.prepare(
            "diff .git/config ~/config && diff -r .git/hooks ~/hooks && diff .git/info/attributes ~/attributes",
        );
    });
}

/// `.git` as a file: a linked work tree as the project.
#[test]
fn a_linked_work_tree_is_a_project_of_its_own() {
    each(&WORK_TREE, |desk| {
        let main = desk.beside("main");
        let main = main.to_str().unwrap();
        desk.prepare(&format!(
            "project=$(pwd -P) && git init -q {main} && cd {main} && echo one > file && git add file && \
             git commit -qm first && git worktree add -q \"$project\" -b side"
        ));
        desk.works(&[
            ("it is the work tree", "test -f .git && test \"$(git branch --show-current)\" = side"),
            ("a commit is made", "echo two >> file && git commit -qam second"),
            (
                "changes are stashed and come back",
                "echo x >> file && git stash -q && git stash pop -q && git checkout -q file",
            ),
            (
                "branches are made and switched",
                "git switch -qc other && git commit -q --allow-empty -m o && git switch -q side",
            ),
            ("the pointer cannot be changed", "! : >> .git"),
            (
                "the repository's settings cannot be changed",
                "! git config x.y z && ! echo evil > \"$(git rev-parse --git-common-dir)/hooks/post-commit\"",
            ),
            (
                "other files of the repository's work tree are not there",
                "test ! -e \"$(git rev-parse --git-common-dir)/../file\"",
            ),
        ]);
        desk.prepare(&format!("cd {main} && git log -1 --format=%s side | grep -q second && git fsck --no-progress"));
    });
}

#[test]
fn a_repository_is_begun() {
    each(&BEGUN, |desk| {
        desk.works(&[
            (
                "the first branch has the name that the user chose",
                "git init -q && test \"$(git symbolic-ref --short HEAD)\" = main",
            ),
            (
                "the first commit is made with the user's name",
                "echo x > f && git add f && git commit -qm first && git log --format=%an | grep -q 'Ada Example'",
            ),
            ("settings of the session itself can be made", "git config --global alias.st status && git st > /dev/null"),
        ]);
        assert!(!std::fs::read_to_string(desk.home(".gitconfig")).unwrap().contains("alias"));
    });
}

/// Dotfiles are projects too: what an agent wrote into them, before the user's git read it, does not choose what is read for the next session.
#[test]
fn settings_that_the_agent_may_write_lead_nowhere() {
    each(&DOTFILES, |desk| {
        let (home, project) = (desk.home("private"), desk.project(""));
        let (private, project) = (home.to_str().unwrap(), project.to_str().unwrap());
        desk.write_home("private", "[user]\n\temail = private@example.com\n");
        desk.write_home(
            ".gitconfig",
            &format!("[include]\n\tpath = {project}more\n[include]\n\tpath = {project}link\n"),
        );
        desk.write(
            "more",
            &format!(
                "[user]\n\tname = Dot Ada\n[include]\n\tpath = {private}\n[core]\n\texcludesFile = {private}\n\
                 [core]\n\tattributesFile = {project}link\n"
            ),
        );
        desk.prepare("ln -s ~/private link");
        desk.works(&[
            ("what they say counts", "git config user.name | grep -qx 'Dot Ada'"),
            ("where they lead does not", "! git config user.email && ! grep -r private@ \"$HOME\""),
        ]);
        desk.prepare(
            "mv more ~/dots && ln -s ~/dots more && mv ~/.gitconfig more2 && ln -s \"$(pwd -P)/more2\" ~/.gitconfig",
        );
        desk.works(&[
            ("what the user's settings are a link to cannot be written", "! echo >> more2"),
            ("a link that the agent may write does not count", "! git config user.name"),
        ]);
    });
}

/// The user's own settings count, by way of includes and conditions; what is secret in them is not there.
#[test]
fn settings_go_along_and_secrets_stay() {
    each(&SETTINGS, |desk| {
        repository(&desk);
        let root = desk.project("").to_str().unwrap().to_owned();
        desk.write_home(
            ".gitconfig",
            &format!(
                "[user]\n\tname = Private Ada\n[include]\n\tpath = more\n\
                 [includeIf \"gitdir:{root}\"]\n\tpath = ~/work\n\
                 [core]\n\texcludesFile = ~/ignored\n\tpager = no-such-pager\n\tsshCommand = ssh -i SECRET\n\
                 [url \"https://ada:SECRET@example.com/\"]\n\tinsteadOf = https://example.com/\n\
                 [http]\n\textraHeader = Authorization: SECRET\n\
                 [commit]\n\tgpgSign = true\n[gpg]\n\tprogram = no-such-program\n"
            ),
        );
        desk.write_home("more", "[alias]\n\thi = log -1\n\tbad = !echo SECRET\n");
        desk.write_home("work", "[user]\n\tname = Working Ada\n\temail = work@example.com\n");
        desk.write_home("ignored", "*.mine\n");
        desk.works(&[
            (
                "the address for this directory is used",
                "git commit -q --allow-empty -m x && git log -1 --format='%an %ae' | \
                 grep -q 'Working Ada work@example.com'",
            ),
            ("an alias works", "git hi > /dev/null"),
            ("the user's own list of ignored files counts", "touch a.mine && test -z \"$(git status --porcelain)\""),
            (
                "no secret is there",
                "! grep -r SECRET \"$HOME\" && ! env | grep SECRET && ! git config --list | grep SECRET",
            ),
            ("the user's own file is not there", &format!("test ! -e {}", desk.home(".gitconfig").to_str().unwrap())),
        ]);
        assert!(shown(&desk.inside("true")).contains("commits made inside are not signed"));
        // The repository's own configuration is read inside, and may ask for a signature too.
        desk.prepare("git config commit.gpgSign true");
        desk.works(&[("a commit is made without a key", "git commit -q --allow-empty -m y && git tag -a v2 -m v2")]);
    });
}
