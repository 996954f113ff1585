//! Deny, protect, exceptions, links and git directories.

use crate::host::{Host, abs};
use ringfence_surface::{Access, Level};

#[test]
fn deny_beats_allow_at_any_depth() {
    let answers = Host::new()
        .project("[files]\nwrite = [\".\", \"secrets/mine\"]\nread = [\"secrets/mine/deeper\"]\ndeny = [\"secrets\"]\n")
        .resolve();
    answers.check(&[
        ("/home/u/proj/secrets", "--"),
        ("/home/u/proj/secrets/mine", "--"),
        ("/home/u/proj/secrets/mine/deeper/x", "--"),
        ("/home/u/proj/secretsx", "rw"),
    ]);
    assert_eq!(answers.said().matches("has no effect").count(), 2, "{}", answers.said());
}

/// One spelling or another, the rule is the same: each was a hole in some sandbox.
#[test]
fn spellings_of_a_deny() {
    for deny in [
        "secrets",
        "secrets/",
        "./secrets",
        "secrets/**",
        "secrets/**/**",
        "sub/../secrets",
        "/home/u/proj/secrets",
        "~/proj/secrets",
        "//home/u/./proj//secrets/",
    ] {
        let answers = Host::new().dir("/home/u/proj/sub").project(&format!("[files]\ndeny = [\"{deny}\"]\n")).resolve();
        answers.check(&[("/home/u/proj/secrets", "--"), ("/home/u/proj/secrets/a/b", "--"), ("/home/u/proj/x", "rw")]);
    }
}

#[test]
fn floating_rules_hold_below_every_root() {
    let answers = Host::new()
        .project("[files]\nread = [\"../docs\"]\ndeny = [\"**/.env\", \"!**/.env.example\", \"./**/local.toml\"]\nprotect = [\"infra/**\", \"**/*.sql\"]\n")
        .reference(b"/srv/one/.env")
        .resolve();
    answers.check(&[
        ("/home/u/proj/.env", "--"),
        ("/home/u/proj/a/b/.env", "--"),
        ("/home/u/proj/a/.env.example", "rw"),
        ("/home/u/docs/.env", "--"),
        ("/home/u/docs/x", "r-"),
        ("/srv/one/.env", "--"),
        ("/home/u/proj/a/local.toml", "--"),
        ("/home/u/docs/local.toml", "r-"),
        ("/home/u/proj/infra", "r-"),
        ("/home/u/proj/infra/main.tf", "r-"),
        ("/home/u/proj/a/b.sql", "r-"),
    ]);
}

/// A project may itself be called what a pattern says, or lie inside such a directory.
#[test]
fn a_roots_own_name_is_not_searched() {
    let answers = Host::new()
        .cwd("/home/u/build/.claude/worktrees/fix")
        .policy(
            Level::Explicit,
            "/home/u/p.toml",
            "[files]\nwrite = [\"build/.claude/worktrees/fix\"]\ndeny = [\"**/build\"]\n",
        )
        .resolve();
    answers.check(&[
        ("/home/u/build/.claude/worktrees/fix/src", "rw"),
        ("/home/u/build/.claude/worktrees/fix/build/x", "--"),
        ("/home/u/build/.claude/worktrees/fix/.claude/settings.json", "r-"),
    ]);
}

/// An exception counts only in the file that wrote the pattern, and the last match there decides.
#[test]
fn exceptions_stay_in_their_file() {
    let answers = Host::new()
        .user("[files]\ndeny = [\"**/*.key\"]\n")
        .project("[files]\ndeny = [\"a/**\", \"!a/b\", \"a/b/c\", \"!**/*.key\", \"!~/.ssh\", \"!/etc/shadow\"]\nprotect = [\"!.git/hooks\", \"!**/.claude\"]\n")
        .resolve();
    answers.check(&[
        ("/home/u/proj/x.key", "--"),
        ("/home/u/proj/a/x", "--"),
        ("/home/u/proj/a/b/x", "rw"),
        ("/home/u/proj/a/b/c/x", "--"),
        ("/home/u/.ssh/id", "--"),
        ("/etc/shadow", "--"),
        ("/home/u/proj/.git/hooks/x", "r-"),
        ("/home/u/proj/.claude/x", "r-"),
    ]);
}

/// Deny does not ask whether the path exists, and a link on the way closes both ends.
#[test]
fn a_deny_through_a_link_closes_both_ends() {
    let answers = Host::new()
        .link("/home/u/proj/private", "/srv/private")
        .dir("/srv/private")
        .project("[files]\nread = [\"/srv\"]\ndeny = [\"private/keys\", \"loop\"]\n")
        .link("/home/u/proj/loop", "loop")
        .resolve();
    answers.check(&[
        ("/srv/private/keys/x", "--"),
        ("/home/u/proj/private/keys/x", "--"),
        ("/srv/private/other", "r-"),
        ("/home/u/proj/loop/x", "--"),
    ]);
}

/// A grant is not led elsewhere by a link that an agent could have planted in an earlier session.
#[test]
fn planted_links_grant_nothing() {
    let host = Host::new()
        .link("/home/u/proj/docs", "/home/u")
        .link("/home/u/proj/inside", "src")
        .dir("/home/u/proj/src")
        .project("[files]\nwrite = [\".\", \"docs\"]\nread = [\"docs\", \"inside\", \"docs/*.md\"]\n");
    let answers = host.resolve();
    answers.check(&[("/home/u/anything", "--"), ("/home/u/x.md", "--"), ("/home/u/proj/src/x", "rw")]);
    assert_eq!(answers.omitted().len(), 3, "{:?}", answers.omitted());
    assert!(
        answers.omitted()[0]
            .contains("/home/u/proj/docs is a symbolic link inside a writable directory and leads to /home/u")
    );
}

#[test]
fn a_planted_link_does_not_move_the_root() {
    let host = Host::new().link("/home/u/proj/app", "/home/u").project("[workspace]\nroot = \"app\"\n");
    let said = host.try_resolve().unwrap_err();
    assert!(
        said.contains("a symbolic link that an agent could have planted")
            && said.contains("write the real path: /home/u"),
        "{said}"
    );
    let host = Host::new().link("/home/u/proj/app", "/home/u").project("[persona.p]\nworkdir = \"app\"\n").persona("p");
    assert!(host.try_resolve().is_err());
}

/// A link outside the project is the user's own and is followed.
#[test]
fn the_users_own_links_are_followed() {
    let answers = Host::new()
        .link("/home/u/data", "/mnt/big/data")
        .dir("/mnt/big/data")
        .project("[files]\nread = [\"~/data/../x\"]\nwrite = [\".\", \"~/data\"]\n")
        .resolve();
    answers.check(&[("/mnt/big/data/f", "rw"), ("/mnt/big/x", "r-"), ("/home/u/x", "--")]);
}

/// A linked work tree's git directory is writable but for what runs code, if it vouches for the work tree.
#[test]
fn a_linked_worktrees_git_directory() {
    let answers =
        Host::new().git("/home/u/proj/.git", "/home/u/main/.git/worktrees/proj", "/home/u/main/.git", true).resolve();
    answers.check(&[
        ("/home/u/main/.git/objects/aa", "rw"),
        ("/home/u/main/.git/worktrees/proj/index", "rw"),
        ("/home/u/main/.git/hooks/pre-commit", "r-"),
        ("/home/u/main/.git/config", "r-"),
        ("/home/u/main/.git/worktrees/proj/config.worktree", "r-"),
        ("/home/u/main/src/x", "--"),
        ("/home/u/proj/.git", "r-"),
    ]);
}

/// A `.git` file is a line of text: an agent that wrote one gains nothing by it.
#[test]
fn a_forged_dot_git_file_grants_nothing() {
    let answers = Host::new().git("/home/u/proj/.git", "/home/u/.ssh", "/home/u/.ssh", false).resolve();
    answers.check(&[("/home/u/.ssh/id", "--"), ("/home/u/proj/.git", "r-")]);
    assert!(answers.said().contains("does not name it back"));
    let answers = Host::new().git("/home/u/proj/.git", "/home/u/other", "/home/u/other", false).resolve();
    answers.check(&[("/home/u/other/x", "--")]);
}

#[test]
fn patterns_in_write_are_exact() {
    let answers = Host::new().project("[files]\nwrite = [\"src/*.rs\", \"docs/**/*.md\", \"**/gen\"]\n").resolve();
    answers.check(&[
        ("/home/u/proj/src/a.rs", "rw"),
        ("/home/u/proj/src/a.txt", "r-"),
        ("/home/u/proj/src/x/a.rs", "r-"),
        ("/home/u/proj/docs/a.md", "rw"),
        ("/home/u/proj/docs/x/y/a.md", "rw"),
        ("/home/u/proj/a/b/gen/x", "rw"),
        ("/home/u/gen", "--"),
    ]);
}

#[test]
fn odd_names() {
    let host = Host::new().project(
        "[files]\ndeny = ['-rf', 'a b', 'new\nline', \"tab\\there\", 'star\\*', 'd*']\n"
            .replace("new\nline", "x")
            .as_str(),
    );
    host.resolve().check(&[
        ("/home/u/proj/-rf/x", "--"),
        ("/home/u/proj/a b", "--"),
        ("/home/u/proj/tab\there", "--"),
        ("/home/u/proj/star*", "--"),
        ("/home/u/proj/starx", "rw"),
        ("/home/u/proj/data", "--"),
    ]);
    let host = Host::new().project("[files]\ndeny = [\"new\\nline\"]\n");
    host.resolve().check(&[("/home/u/proj/new\nline", "--")]);
}

/// Names that are not UTF-8 are matched by wildcards and by what is above them.
#[test]
fn names_that_are_not_text() {
    let answers = Host::new().project("[files]\ndeny = [\"*.key\", \"private\"]\n").resolve();
    for (path, allowed) in [
        (b"/home/u/proj/\xff\xfe.key".as_slice(), false),
        (b"/home/u/proj/private/\xff", false),
        (b"/home/u/proj/\xff", true),
    ] {
        let path = ringfence_surface::AbsPath::lexical(path).unwrap();
        assert_eq!(answers.0.surface.decide(&path, Access::Read).is_allowed(), allowed, "{path}");
    }
}

/// A whole project below a directory whose name is not text.
#[test]
fn a_project_whose_path_is_not_text() {
    let mut host = Host::new();
    host.facts.cwd = ringfence_surface::AbsPath::lexical(b"/home/u/\xe9t\xe9").unwrap();
    host.facts.paths.insert(host.facts.cwd.clone(), ringfence_surface::PathFact::Directory);
    let answers = host.resolve();
    let surface = &answers.0.surface;
    assert!(surface.decide(&host.facts.cwd.join("x"), Access::Write).is_allowed());
    assert!(!surface.decide(&host.facts.cwd.join(".git/hooks/x"), Access::Write).is_allowed());
}

#[test]
fn every_refusal_has_a_remedy() {
    let answers =
        Host::new().project("[files]\nread = [\"../docs\"]\ndeny = [\"secret\"]\nprotect = [\"infra\"]\n").resolve();
    let surface = &answers.0.surface;
    for (path, access, expected) in [
        ("/home/u/x", Access::Read, "--ref /home/u/x"),
        ("/home/u/x", Access::Write, "to `write` in [files]"),
        ("/home/u/docs/x", Access::Write, "to `write` in [files]"),
        ("/home/u/proj/secret", Access::Read, "add an exception"),
        ("/home/u/proj/infra/x", Access::Write, "change the rule at /home/u/proj/ringfence.toml:5:12"),
        ("/home/u/proj/.git/hooks/x", Access::Write, "outside the fence"),
        ("/home/u/.ssh/id", Access::Read, "--ref /home/u/.ssh/id"),
        ("/usr/bin/x", Access::Write, "never writable"),
    ] {
        let verdict = surface.decide(&abs(path), access);
        let remedy = surface.remedy(&abs(path), access, &verdict).unwrap();
        assert!(remedy.contains(expected), "{path} {access}: {remedy}");
    }
}

/// `/tmp` inside is not the host's: what is bound below it keeps its own rights, and the built-in names do not count there.
#[test]
fn private_directories_end_where_the_hosts_begin() {
    let host = || Host::new().cwd("/tmp/work/proj");
    let reviewer = host().policy(Level::Explicit, "/home/u/p.toml", "[persona.r]\nwrite = []\n").persona("r").resolve();
    reviewer.check(&[
        ("/tmp/work/proj/x", "r-"),
        ("/tmp/scratch", "rw"),
        ("/tmp/x/.git/config", "rw"),
        ("/tmp/tmux-1000/default", "rw"),
    ]);
    let writer = host().resolve();
    writer.check(&[
        ("/tmp/work/proj/x", "rw"),
        ("/tmp/work/proj/.git/hooks/x", "r-"),
        ("/tmp/work/proj/.claude/x", "r-"),
    ]);
    let denied = host().policy(Level::Explicit, "/home/u/p.toml", "[files]\ndeny = [\"/tmp/mine\"]\n").resolve();
    denied.check(&[("/tmp/mine/x", "--")]);
}

/// Packages ship editor settings and workflows; git directories are protected even there.
#[test]
fn third_party_directories() {
    Host::new().resolve().check(&[
        ("/home/u/proj/node_modules/x/.vscode/settings.json", "rw"),
        ("/home/u/proj/node_modules/x/.github/workflows/ci.yml", "rw"),
        ("/home/u/proj/node_modules/x/.git/hooks/pre-commit", "r-"),
        ("/home/u/proj/.vscode/settings.json", "r-"),
        // A third party inside a protected directory opens nothing.
        ("/home/u/proj/.claude/commands/vendor/x.md", "r-"),
        ("/home/u/proj/.github/workflows/vendor/x.yml", "r-"),
        ("/home/u/proj/.vscode/node_modules/x", "r-"),
        ("/home/u/proj/.claude/vendor/.claude/x", "r-"),
    ]);
    // What somebody wrote holds there too.
    let answers = Host::new().project("[files]\nprotect = [\"**/.vscode\"]\ndeny = [\"**/.env\"]\n").resolve();
    answers.check(&[("/home/u/proj/vendor/x/.vscode/y", "r-"), ("/home/u/proj/vendor/.env", "--")]);
}

/// A variable inside a character class can make the pattern meaningless on one host: it grants nothing then.
#[test]
fn a_pattern_that_a_variable_breaks_grants_nothing() {
    for (rule, user) in [("/srv/[$USER]", "\u{ff}"), ("/srv/[a-$USER]", "A")] {
        let mut host = Host::new().project(&format!("[files]\nwrite = ['{rule}']\n"));
        let value = if user == "A" { b"A".to_vec() } else { b"\xff".to_vec() };
        host.facts.environment.insert(b"USER".to_vec(), value);
        let answers = host.resolve();
        answers.check(&[("/home/u/proj/x", "r-"), ("/srv/x", "--")]);
    }
}
