//! Repositories that are cloned or made inside may have protected files, as long as no tool outside can trust their path (section B, J8).

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use crate::desk::{Desk, each_user, shown};

/// A repository with protected files, and one with a submodule that has some.
const ORIGIN: &str = "export GIT_AUTHOR_DATE=@1700000000+0000 GIT_COMMITTER_DATE=@1700000000+0000
    git init -q origin; cd origin; mkdir -p .github/workflows .vscode pkg/.vscode .husky
    echo ci > .github/workflows/ci.yml; echo '{}' > .vscode/settings.json; echo '{}' > pkg/.vscode/tasks.json; echo a > pkg/a
    printf '#!/bin/sh\\n' > .husky/pre-commit; chmod +x .husky/pre-commit; echo 'export A=1' > .envrc; echo a > a; git add -A; git commit -qm first
    git switch -qc dev; echo dev > .github/workflows/ci.yml; git rm -q .envrc; echo dev > a; git commit -qam dev; git switch -q main
    git clone -q --bare . ../bare.git; git init -q ../super; cd ../super; git -c protocol.file.allow=always submodule --quiet add ../origin sub; git commit -qm sub; cd ..\n";

/// Each ends as it does without a fence, and leaves the same tree.
const OPERATIONS: &[(&str, &str)] = &[
    ("plain", "git clone ../origin c"),
    ("depth", "git clone --depth 1 file://$PWD/../origin c"),
    ("shared", "git clone --shared -b dev ../origin c"),
    ("recursive", "git clone --recurse-submodules ../super c"),
    ("bare", "git clone --bare ../origin c.git; git clone c.git c"),
    ("empty", "mkdir c; git clone ../origin c"),
    (
        "work",
        "git clone ../origin c; cd c; git switch dev; git switch -; git reset --hard origin/dev; echo x > a; git stash; git stash pop",
    ),
    ("fetch", "git init c; cd c; git remote add o ../../origin; git fetch o; git switch -c x o/main; git merge o/dev"),
    ("moved", "git clone ../origin c; mv c d; mkdir e; mv d e/f; cd e/f; git switch dev; git mv a b"),
    ("removed", "git clone ../origin c; rm -rf c; git clone ../origin c; git -C c rm -rq .github; rm -r c/.vscode"),
    (
        "worktree",
        "git clone ../origin c; cd c; git worktree add ../wt dev; cd ../wt; git switch --detach HEAD~1; cd ../c; git worktree remove ../wt",
    ),
    (
        "submodule",
        "git init c; cd c; git submodule add ../../origin sub; git commit -qm sub; git submodule update --init",
    ),
];

/// The same commits each time, and submodules from a path.
const ENVIRONMENT: &str = "export GIT_AUTHOR_DATE=@1700000000+0000 GIT_COMMITTER_DATE=@1700000000+0000 GIT_CONFIG_COUNT=1 \
    GIT_CONFIG_KEY_0=protocol.file.allow GIT_CONFIG_VALUE_0=always";

const STATE: &str = "find . -name '.git*' -prune -o -name '*.git' -prune -o -printf '%p %y %m\\n' | sort
    find . -name .git -prune -o -name '*.git' -prune -o -type f -print | sort | xargs tail
    for dir in c e/f; do if test -e $dir; then git -C $dir status --porcelain --branch; git -C $dir ls-files -s; git -C $dir rev-parse HEAD; fi; done";

#[test]
fn b_a_clone_inside_is_as_outside() {
    each_user(|desk| {
        let (project, twin) = (desk.project(""), desk.home("twin"));
        desk.prepare(&format!("mkdir {0}; {ORIGIN} cp -a origin super bare.git {0}", twin.display()));
        let (mut outside, mut inside) = (format!("cd {}\n", twin.display()), String::new());
        for (name, operation) in OPERATIONS {
            let run = |out: &str| {
                format!(
                    "(mkdir -p {name}; cd {name}; set -e; {ENVIRONMENT}; {operation}) > {out} 2>&1; echo $? > {name}.code\n"
                )
            };
            outside += &run("/dev/null");
            inside += &format!("{} sed 's/^/{name}: /' /tmp/said\n", run("/tmp/said"));
        }
        let said = desk.outside("/bin/bash").args(["-c", &outside]).output().unwrap();
        assert!(said.status.success(), "{}", shown(&said));
        let said = desk.run().args(["bash", "-c", &inside]).output().unwrap();
        for (name, _) in OPERATIONS {
            let state = |dir: &std::path::Path| {
                let mut command = desk.outside("/bin/bash");
                let output = command.current_dir(dir.join(name)).args(["-c", STATE]).output().unwrap();
                format!("{}{}", std::fs::read_to_string(dir.join(format!("{name}.code"))).unwrap(), shown(&output))
            };
            let (inside, outside) = (state(&project), state(&twin));
            assert!(outside.starts_with("0\n"), "{name} fails outside: {outside}");
            assert!(inside == outside, "{name}: inside\n{inside}\noutside\n{outside}\n{}", shown(&said));
        }
        let text = shown(&said);
        let named = "plain/c was cloned or made in this session, and has files that the rules protect: .envrc, .github/workflows/ci.yml";
        assert!(text.contains(named) && text.contains("moved/e/f was cloned"), "{text}");
        assert!(
            !text.contains(
                "removed/c was cloned or made in this session, and has files that the rules protect: .github"
            ),
            "{text}"
        );
    });
}

/// `!` does not end a script.
const FAILS: &str = "fails() { if \"$@\"; then echo \"succeeds: $*\" >&2; exit 9; fi; };";

/// What the user has besides.
const OF_THE_USER: &str =
    "mkdir -p app/inner releases/1; echo user > app/file; ln -s releases/1 current; mkdir .cargo plain";

/// In each of them no protected file comes to a path that existed when the session started, or that rules speak of.
const ATTACKS: &[(&str, &str)] = &[
    ("a vacated path", "mv app old; fails git clone ../../origin app"),
    ("a vacated path, emptied", "rm -r app; mkdir app; fails git clone ../../origin app"),
    ("an empty directory of the user", "fails git clone ../../origin plain"),
    ("the top itself", "git init -q; git fetch -q ../../origin main; fails git reset --hard FETCH_HEAD"),
    (
        "a directory of the user",
        "cd app; git init -q; git fetch -q ../../../origin main; fails git reset --hard FETCH_HEAD",
    ),
    (
        "a clone is moved to a vacated path",
        "git clone -q ../../origin c; mv app old; fails mv c app; rm -r old/inner; fails mv c old/../app",
    ),
    ("a clone is moved over an empty directory", "git clone -q ../../origin c; fails mv -T c plain"),
    (
        "a clone is exchanged",
        "git clone -q ../../origin c; fails python3 -c 'import ctypes, os
r = ctypes.CDLL(None).renameat2(-100, b\"c\", -100, b\"app\", 2); os._exit(0 if r == 0 else 1)'",
    ),
    ("a directory with a clone is moved", "mkdir up; git clone -q ../../origin up/inner; mv app old; fails mv up app"),
    (
        "a part of a clone is moved",
        "git clone -q ../../origin c; fails mv c/.github .; fails mv c/.vscode app; fails mv c/.envrc .; fails mv c/pkg pkg; mv app old; fails mv c/pkg app",
    ),
    (
        "a part of a clone gets a second name",
        "git clone -q ../../origin c; fails ln c/.envrc .envrc; fails ln c/.envrc x; fails ln -s c/.github .github",
    ),
    (
        "a name that rules begin with",
        "git -C ../../origin branch -f x; git clone -q ../../origin c; fails mv -T c .config; git clone -q ../../cargo .ok; fails git clone ../../cargo new/.cargo",
    ),
    (
        "a link leads to a clone",
        "git clone -q ../../origin c; rm current; fails ln -s c current; rm -r app; fails ln -s c app; ln -s c l; fails mv -T l app; fails ln -P l app",
    ),
    (
        "a clone in the place of a link",
        "rm current; fails git clone ../../origin current; mkdir -p current; fails git clone ../../origin current/web",
    ),
    (
        "another work tree",
        "git init -q new; git -C new fetch -q ../../../origin main; export GIT_DIR=$PWD/new/.git GIT_WORK_TREE=$PWD; fails git reset --hard FETCH_HEAD",
    ),
    (
        "another work tree in the settings",
        "git init -q new; git -C new fetch -q ../../../origin main; git -C new config core.worktree ../../app || true; fails git --git-dir=new/.git --work-tree=app reset --hard FETCH_HEAD",
    ),
    ("a separate git directory", "fails git clone --separate-git-dir=c.git ../../origin app/../plain"),
    (
        "by another program",
        "git clone -q ../../origin c; : > c/.git/index.lock; fails sh -c 'echo evil > c/.github/workflows/evil.yml'; fails cp c/.envrc c/pkg/.envrc",
    ),
    (
        "content that is no object",
        "git init -q none; cd none; : > .git/index.lock; cp $(readlink -f $(command -v bash)) /tmp/git; /tmp/git -c 'echo evil > .envrc' || true",
    ),
    (
        "in a git directory",
        "fails git clone ../../origin ../../repo/.git/x; fails git clone ../../origin ../../repo/.git/modules/x",
    ),
    (
        "a name of the rules",
        "cd ../../repo; fails git clone ../actions .github; fails git clone ../origin .github; fails git submodule add ../origin .vscode",
    ),
];

/// The same, and from then on no protected file of a clone is placed in the session.
const LINKS_BEFORE: &[(&str, &str)] = &[
    ("a link that leads to a clone later", "rm current; ln -s c current; fails git clone ../../origin c"),
    ("a link that leads to a clone later, moved", "rm -r app; ln -s c l; mv l app; fails git clone ../../origin c"),
    ("a link in a directory", "mkdir d; ln -s ../c d/inner; rm -r app; mv d app; fails git clone ../../origin c"),
];

#[test]
fn b_protected_files_of_a_clone_come_to_no_path_that_tools_trust() {
    each_user(|desk| {
        desk.prepare(&format!(
            "{ORIGIN} git init -q cargo; echo x > cargo/config.toml; git -C cargo add -A; git -C cargo commit -qm x
            git init -q actions; mkdir actions/workflows; echo x > actions/workflows/x.yml; git -C actions add -A; git -C actions commit -qm x
            git init -q repo; git -C repo commit -q --allow-empty -m x"
        ));
        attack(&desk, ATTACKS);
        LINKS_BEFORE.iter().for_each(|one| attack(&desk, std::slice::from_ref(one)));
    });
}

/// Runs attacks in one session, each in a directory of its own.
fn attack(desk: &Desk, attacks: &[(&str, &str)]) {
    let (mut prepared, mut scripts) = ("rm -rf ground; mkdir ground; cd ground\n".to_owned(), format!("{FAILS}\n"));
    for (number, (attack, script)) in attacks.iter().enumerate() {
        prepared += &format!("(mkdir {number}; cd {number}; {OF_THE_USER})\n");
        scripts += &format!("echo '{attack}' > /tmp/attack; (cd ground/{number}; {script})\n");
    }
    desk.prepare(&prepared);
    let said = desk.inside(&format!("trap 'cat /tmp/attack >&2' EXIT; {scripts}"));
    assert!(said.status.success(), "{}", shown(&said));
    // Nothing protected is where the user had something, or where rules speak of it because of what is above.
    desk.prepare(
        "for ground in ground/*; do cd $ground; for path in . app app/inner plain current releases releases/1 .cargo new/.cargo pkg current/web none; do
         for name in .github/workflows .vscode/settings.json .envrc tasks.json config.toml; do
         if test -e $path/$name; then echo $ground: $path/$name; exit 1; fi; done; done; cd ../..; done; cd repo; test ! -e .github/workflows",
    );
}

/// A nested call has a broker of its own, and knows of the clones of its session; so has another session.
#[test]
fn b_what_runs_beside_a_session_moves_no_clone_of_it() {
    each_user(|desk| {
        desk.prepare(ORIGIN);
        for nested in [true, false] {
            desk.prepare("rm -rf c e app old; mkdir app; echo user > app/file");
            let script = format!(
                "echo $RINGFENCE_SESSION; git clone -q origin c; echo ready; read -r line || true
                 {FAILS} fails mv c app; mv c e; rm -rf e/.github; test -e e/.vscode"
            );
            let mut command = desk.bare(&[]);
            command.args(["bash", "-euc", &script]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
            let mut session = command.spawn().unwrap();
            let (mut lines, mut name) = (BufReader::new(session.stdout.take().unwrap()), String::new());
            lines.read_line(&mut name).unwrap();
            lines.read_line(&mut String::new()).unwrap();
            let mut command = match nested {
                true => desk.outside(desk.world.binary().to_str().unwrap()),
                false => desk.bare(&[]),
            };
            if nested {
                command.args(["exec", "--within", name.trim(), "--"]);
            }
            let attack = format!(
                "{FAILS} mv app old; fails mv c app; fails mv c/.github .; fails mv c new; mkdir up; fails mv c up/c; fails ln c/.envrc x
                 fails ln -s c app; rmdir up"
            );
            let said = command.args(["bash", "-euc", &attack]).output().unwrap();
            drop(session.stdin.take());
            let ended = session.wait_with_output().unwrap();
            assert!(said.status.success(), "{nested}: {}{}", shown(&said), shown(&ended));
            assert!(ended.status.success(), "{nested}: {}", shown(&ended));
            desk.prepare("test ! -e app; test ! -e .github; test -e e/.vscode");
        }
    });
}

/// The user sees why.
#[test]
fn b_a_refused_clone_names_the_rule() {
    each_user(|desk| {
        desk.prepare(&format!("{ORIGIN} mkdir plain"));
        let said = desk.inside("if git clone -q origin plain; then exit 9; fi");
        let text = shown(&said);
        assert!(said.status.success() && text.contains("at a path where tools may trust files"), "{text}");
        // What the message says works.
        assert!(text.contains("clone to a path that did not exist when the session started"), "{text}");
        let said = desk.inside("git clone -q origin other; test -e other/.github/workflows/ci.yml");
        assert!(said.status.success(), "{}", shown(&said));
    });
}
