//! What git runs or reads by itself: hooks, settings, attributes, and the files that say where those are.

use std::process::Command;

use super::ground::{Ground, as_owner};
use super::row::Thing::{Dir, File};
use super::row::{Line, PROTECTED_LATER, Row, Sign, Thing, python, shell};
use super::suite::{Topic, tests};

tests!(TOPIC);

const HOOKS: Line = Line::Words("protect **/*.git/hooks");
const CONFIG: Line = Line::Words("protect **/*.git/config");

/// In a fresh repository.
const fn repository(row: Row) -> Row {
    row.before(init)
}

const NESTED: &[Thing] = &[
    File("here/a/lib/.git/HEAD", "ref: refs/heads/main\n"),
    File("here/a/lib/.git/config", "[core]\n"),
    Dir("here/a/lib/.git/hooks"),
];

pub(super) static TOPIC: Topic = Topic {
    opened: None,
    rows: &[
        repository(shell(
            HOOKS,
            "no hook is planted",
            "echo evil > .git/hooks/post-checkout",
            Sign::Exists("here/.git/hooks/post-checkout"),
        )),
        repository(shell(
            HOOKS,
            "hooks are not swapped for a link",
            "mv .git/hooks .git/h && ln -s ../evil .git/hooks && echo evil > .git/hooks/post-checkout",
            Sign::Exists("here/.git/hooks/post-checkout"),
        ))
        .files(&[Dir("here/evil")]),
        repository(shell(
            CONFIG,
            "git's settings name no directory of hooks",
            "git config core.hooksPath evil",
            Sign::Changed("here/.git/config"),
        )),
        repository(shell(
            CONFIG,
            "git's settings name no program that watches files",
            "git config core.fsmonitor 'sh -c evil'",
            Sign::Changed("here/.git/config"),
        )),
        repository(shell(
            CONFIG,
            "git's settings are not replaced",
            "echo '[core]' > .git/x && mv -f .git/x .git/config",
            Sign::Changed("here/.git/config"),
        )),
        repository(shell(
            CONFIG,
            "a repository is not moved aside",
            "mv .git .gitx",
            Sign::Changed("here/.git/config"),
        )),
        repository(shell(
            CONFIG,
            "a repository is not made anew in the place of the old one",
            "mv .git .gitx; git init -q . && git config core.fsmonitor evil; grep evil .git/config",
            Sign::Says("evil"),
        )),
        repository(python(
            CONFIG,
            "a repository is not exchanged for another",
            "c('renameat2', -100, b'.git', -100, b'evil', 2)",
            Sign::Changed("here/.git/config"),
        ))
        .files(&[Dir("here/evil")]),
        repository(shell(
            Line::Words("protect **/*.git/info/attributes"),
            "git's attributes name no program",
            "echo '* filter=evil' > .git/info/attributes",
            Sign::Changed("here/.git/info/attributes"),
        ))
        .files(&[File("here/.git/info/attributes", "old\n")]),
        repository(shell(
            Line::Words("protect **/.gitmodules"),
            "the list of submodules stays",
            "git config -f .gitmodules submodule.x.update '!evil'",
            Sign::Changed("here/.gitmodules"),
        ))
        .files(&[File("here/.gitmodules", "[submodule \"x\"]\n")]),
        repository(shell(
            Line::Words("protect **/*.git/modules/**/config"),
            "a submodule's settings stay",
            "git config -f .git/modules/x/config core.fsmonitor evil",
            Sign::Changed("here/.git/modules/x/config"),
        ))
        .files(&[File("here/.git/modules/x/config", "[core]\n")]),
        repository(shell(
            Line::Words("protect **/*.git/modules/**/hooks"),
            "a submodule's hooks stay",
            "echo evil > .git/modules/x/hooks/pre-commit",
            Sign::Exists("here/.git/modules/x/hooks/pre-commit"),
        ))
        .files(&[Dir("here/.git/modules/x/hooks")]),
        repository(shell(
            Line::Words("protect **/*.git/objects/info/alternates"),
            "a repository takes no objects from elsewhere",
            "echo /elsewhere > .git/objects/info/alternates",
            Sign::Changed("here/.git/objects/info/alternates"),
        ))
        .files(&[File("here/.git/objects/info/alternates", "old\n")]),
        shell(
            CONFIG,
            "a file that names a repository names no other",
            "echo 'gitdir: /elsewhere' > sub/.git",
            Sign::Changed("here/sub/.git"),
        )
        .files(&[File("here/sub/.git", "gitdir: ../.git/modules/sub\n")]),
        shell(
            CONFIG,
            "a file that names a repository is not replaced by a directory",
            "rm sub/.git && mkdir sub/.git",
            Sign::Changed("here/sub/.git"),
        )
        .files(&[File("here/sub/.git", "gitdir: ../.git/modules/sub\n")]),
        shell(
            CONFIG,
            "a linked work tree is not tied to another repository",
            "echo /elsewhere > .git/worktrees/w/commondir",
            Sign::Changed("here/.git/worktrees/w/commondir"),
        )
        .files(&[File("here/.git/worktrees/w/commondir", "../..\n"), File("here/.git/HEAD", "ref: refs/heads/main\n")]),
        shell(
            CONFIG,
            "a repository without a work tree keeps its settings",
            "git config -f bare.git/config core.fsmonitor evil",
            Sign::Changed("here/bare.git/config"),
        )
        .files(&[File("here/bare.git/config", "[core]\n"), File("here/bare.git/HEAD", "ref: refs/heads/main\n")]),
        shell(
            HOOKS,
            "a repository in a repository keeps its hooks",
            "echo evil > a/lib/.git/hooks/pre-commit",
            Sign::Exists("here/a/lib/.git/hooks/pre-commit"),
        )
        .files(NESTED),
        shell(
            CONFIG,
            "a repository in a repository is not moved aside with what is above it",
            "mv a z",
            Sign::Changed("here/a/lib/.git/config"),
        )
        .files(NESTED),
        shell(
            PROTECTED_LATER,
            "no repository with hooks is planted",
            "mkdir -p new/.git/hooks && echo evil > new/.git/hooks/post-checkout",
            Sign::Exists("here/new/.git/hooks/post-checkout"),
        )
        .files(&[Dir("here/x")]),
        repository(shell(
            PROTECTED_LATER,
            "settings of a work tree that are not there yet are not planted",
            "printf '[core]\n\tfsmonitor = evil\n' > x && mv x .git/config.worktree",
            Sign::Exists("here/.git/config.worktree"),
        )),
    ],
};

/// A real repository, as git makes it.
fn init(ground: &Ground, number: usize) {
    let mut git = Command::new("git");
    git.args(["init", "-q", "-b", "main", "."]).current_dir(ground.place(number, "here")).env_clear();
    git.env("PATH", "/usr/local/bin:/usr/bin:/bin").env("HOME", ground.world.path("home"));
    assert!(as_owner(&mut git).status().unwrap().success());
}
