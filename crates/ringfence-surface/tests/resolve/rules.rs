//! Deny, protect, exceptions, links and git directories.

use crate::host::{Host, abs};
use ringfence_surface::{AbsPath, Access, Level};

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
    // A pattern is as lost as a path.
    let answers = Host::new().project("[files]\nwrite = [\"gen/*.js\"]\ndeny = [\"gen\"]\n").resolve();
    assert!(answers.said().contains("write \"gen/*.js\" has no effect"), "{}", answers.said());
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

/// A project may itself be called what a pattern says, or lie inside a directory that built-in patterns name.
#[test]
fn e2_the_projects_own_name_alone_is_exempt() {
    let policy = "[files]\nwrite = [\".claude/worktrees/build\"]\ndeny = [\"**/build\"]\n";
    let answers =
        Host::new().cwd("/home/u/.claude/worktrees/build").policy(Level::Explicit, "/home/u/p.toml", policy).resolve();
    answers.check(&[
        ("/home/u/.claude/worktrees/build/src", "rw"),
        ("/home/u/.claude/worktrees/build/build/x", "--"),
        ("/home/u/.claude/worktrees/build/.claude/settings.json", "r-"),
    ]);
    let said = answers.said();
    assert!(said.contains("deny \"**/build\" does not hold for the project's own directory"), "{said}");
}

/// What lies above the project counts as every other component does.
#[test]
fn e2_a_project_inside_a_denied_name_is_denied() {
    let policy = "[files]\nwrite = [\"build/x\"]\ndeny = [\"**/build\"]\n";
    let answers = Host::new().cwd("/home/u/build/x").policy(Level::Explicit, "/home/u/p.toml", policy).resolve();
    answers.check(&[("/home/u/build/x", "--"), ("/home/u/build/x/src", "--")]);
}

/// A deny beats any allow, however deep or exact the allow is.
#[test]
fn e2_a_grant_at_or_below_a_denied_name_does_not_open_it() {
    for list in ["write", "read"] {
        for entry in ["/home/u/o/vault", "/home/u/o/vault/sub", "/home/u/o/vault/*.txt", "/srv/vault/sub/deep"] {
            let policy = format!("[files]\n{list} = [\".\", \"{entry}\"]\ndeny = [\"**/vault\"]\n");
            let host = Host::new().dir("/home/u/o/vault/sub").dir("/srv/vault/sub/deep");
            let answers = host.user(&policy).reference(b"/home/u/o/vault/sub").resolve();
            answers.check(&[
                ("/home/u/o/vault", "--"),
                ("/home/u/o/vault/sub", "--"),
                ("/home/u/o/vault/a.txt", "--"),
                ("/srv/vault/sub/deep/x", "--"),
            ]);
        }
    }
}

/// The same for what may not be written, the built-in names included.
#[test]
fn e2_a_grant_at_or_below_a_protected_name_does_not_make_it_writable() {
    let answers = Host::new()
        .dir("/home/u/o/infra/sub")
        .dir("/home/u/o/.vscode")
        .user("[files]\nwrite = [\"/home/u/proj\", \"/home/u/o/infra/sub\", \"/home/u/o/.vscode\"]\nprotect = [\"**/infra\"]\n")
        .resolve();
    answers.check(&[("/home/u/o/infra/sub/x", "r-"), ("/home/u/o/.vscode/tasks.json", "r-")]);
}

/// An administrator's rule holds for the project's own name too.
#[test]
fn e2_a_managed_deny_holds_wherever_a_session_starts() {
    let managed = "[files]\ndeny = [\"**/vault\"]\n";
    let host = Host::new().dir("/home/u/o/vault").managed(managed).user("[files]\nwrite = [\"/home/u/o/vault\"]\n");
    host.resolve().check(&[("/home/u/o/vault/x", "--"), ("/home/u/proj/vault/x", "--")]);
    let answers = Host::new().cwd("/home/u/vault").managed(managed).resolve();
    answers.check(&[("/home/u/vault", "--"), ("/home/u/vault/x", "--")]);
}

/// Whoever may not read such a link cannot tell where it leads, and the kernel goes there without a name.
#[test]
fn a18_magic_links_are_no_way_around_the_rules() {
    let surface = "[files]\nview = \"surface\"\n";
    for policy in [surface, "[files]\nview = \"host\"\n"] {
        let answers = Host::new().project(policy).resolve();
        for link in ["1/root", "1/cwd", "4321/fd/3", "1/task/1/root", "self/root", "1/map_files/00400000-00452000"] {
            for below in ["", "/etc/shadow", "/home/u/.ssh/id_rsa"] {
                answers.check(&[(&format!("/proc/{link}{below}"), "--")]);
            }
        }
        answers.check(&[("/proc/1/status", "r-"), ("/proc/cpuinfo", "r-")]);
    }
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
    let host = Host::new().project("[files]\ndeny = ['-rf', 'a b', \"tab\\there\", 'star\\*', 'd*']\n");
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
        // As a shell and a policy take it.
        ("/home/u/a b", Access::Read, "add \"/home/u/a b\" to `read` in [files], or for one run: --ref '/home/u/a b'"),
        ("/home/u/[a]", Access::Read, r"add '/home/u/\[a\]' to `read` in [files], or for one run: --ref '/home/u/[a]'"),
        ("/home/u/.ssh/my key", Access::Read, "--ref '/home/u/.ssh/my key'"),
        // A list that holds this alone would take the project's place.
        ("/home/u/docs/x", Access::Write, "to `write` in [files], in a new list with \".\""),
        ("/home/u/proj/secret", Access::Read, "add an exception"),
        ("/home/u/proj/infra/x", Access::Write, "change the rule at /home/u/proj/ringfence.toml:5:12"),
        ("/home/u/proj/.git/hooks/x", Access::Write, "outside the fence"),
        ("/home/u/.ssh/id", Access::Read, "--ref /home/u/.ssh/id"),
        ("/usr/bin/x", Access::Write, "outside the fence: of the system"),
        ("/proc/1/mem", Access::Write, "none: what the kernel shows of processes is never writable"),
        ("/proc/sys/kernel/hostname", Access::Write, "none: "),
    ] {
        let verdict = surface.decide(&abs(path), access);
        let remedy = surface.remedy(&abs(path), access, &verdict).unwrap();
        assert!(remedy.contains(expected), "{path} {access}: {remedy}");
    }
    let answers = Host::new().project("[files]\nwrite = [\".\"]\n").resolve();
    let surface = &answers.0.surface;
    let verdict = surface.decide(&abs("/home/u/x"), Access::Write);
    let remedy = surface.remedy(&abs("/home/u/x"), Access::Write, &verdict);
    assert_eq!(remedy.as_deref(), Some("add \"/home/u/x\" to `write` in [files]"));
}

/// What a remedy says is typed into a policy, and then the path can be read.
#[test]
fn e5_a_remedy_works_when_it_is_typed() {
    let surface = |policy: &str| Host::new().user(policy).resolve().0.surface;
    for name in [
        "x",
        "it's",
        "a\"b",
        "both'\"",
        "new\nline",
        "a\u{202e}b",
        "a\u{ad}b",
        "[x]*?",
        "$HOME",
        "back\\slash",
        "!x",
        "~",
    ] {
        let path = abs("/srv").child(name.as_bytes());
        let before = surface("");
        let remedy = before.remedy(&path, Access::Read, &before.decide(&path, Access::Read)).unwrap();
        let entry = remedy.strip_prefix("add ").and_then(|rest| rest.split_once(" to `read` in [files]")).unwrap().0;
        assert!(!entry.contains(['\n', '\u{202e}', '\u{ad}']), "{entry}");
        let after = surface(&format!("[files]\nread = [{entry}]\n"));
        assert!(after.decide(&path, Access::Read).is_allowed(), "{name:?}: {remedy}");
        // An exception too.
        let denied = |more: &str| surface(&format!("[files]\nread = [\"/srv\"]\ndeny = [\"/srv/*\"{more}]\n"));
        let before = denied("");
        let remedy = before.remedy(&path, Access::Read, &before.decide(&path, Access::Read)).unwrap();
        let entry = remedy.split_once("same list: ").unwrap().1;
        assert!(denied(&format!(", {entry}")).decide(&path, Access::Read).is_allowed(), "{name:?}: {remedy}");
    }
    let before = surface("[files]\ndeny = [\"**/vault\"]\n");
    let remedy = |surface: &ringfence_surface::Surface, path: &AbsPath| {
        surface.remedy(path, Access::Read, &surface.decide(path, Access::Read)).unwrap()
    };
    // Nothing is proposed that does not help.
    assert!(remedy(&before, &abs("/srv/vault/x")).starts_with("no grant helps: deny \"**/vault\""));
    assert!(remedy(&before, &AbsPath::lexical(b"/srv/\xff").unwrap()).starts_with("for one run: --ref "));
    assert!(before.to_reach("co.uk:443").starts_with("no entry of `allow` can name it"));
}

/// A first list of `allow` in the project's file takes the place of what packs bring: the remedy says what belongs in it, and whoever
/// follows it loses nothing.
#[test]
fn a_remedy_for_a_host_keeps_what_packs_bring() {
    let answers = Host::new().project("extends = [\"git\", \"rust\"]\n").resolve();
    let before = &answers.0.surface;
    let list = "\"crates\", \"github\"";
    assert_eq!(
        before.to_reach("example.com"),
        format!("add \"example.com\" to `allow` in [network], in a new list with {list} so that those stay reachable")
    );
    let allow = format!("[network]\nallow = [\"example.com\", {list}]\n");
    let answers = Host::new().project(&format!("extends = [\"git\", \"rust\"]\n{allow}")).resolve();
    let after = &answers.0.surface;
    for host in &before.reach().hosts {
        assert!(after.reach().hosts.iter().any(|kept| kept.value == host.value), "{}", host.value);
    }
    // With a list that is there it is only added.
    assert_eq!(after.to_reach("example.net"), "add \"example.net\" to `allow` in [network]");
    // The user's own list is no such list: what packs bring stays beside it, until the project has one.
    let answers = Host::new().user("[network]\nallow = [\"example.com\"]\n").project("extends = [\"git\"]\n").resolve();
    assert!(answers.0.surface.to_reach("example.net").contains("in a new list with \"github\" so"));
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

/// Names that rules begin with, and with which they have only begun.
#[test]
fn k8_rules_begin_with_a_name() {
    let answers = Host::new()
        .project("[files]\nwrite = [\".\", \"only/here\"]\ndeny = [\"a/*/k*\", \"!ex/a/b\"]\nprotect = [\"infra/prod\", \"infra/in/**/x\"]\n")
        .resolve();
    let surface = &answers.0.surface;
    for (dir, names, begins) in [
        ("", ".cargo .github .git x.git .hg tools .config infra a", true),
        ("deep/down", ".cargo .github .git x.git .hg tools .config", true),
        ("a", "any", true),
        ("infra", "in", true),
        ("", "src target vendor node_modules lib64 .envrc .vscode only ex", false),
        ("deep", "infra a", false),
        // What is below was begun with before.
        ("infra/in", "deeper", false),
        ("node_modules/p", ".cargo .github tools", false),
    ] {
        let cursor = surface.cursor(&abs("/home/u/proj").join(dir));
        for name in names.split(' ') {
            assert_eq!(cursor.begins(name.as_bytes()).is_some(), begins, "{dir}/{name}");
        }
    }
}

/// A walk with a cursor says what `decide` says of each path.
#[test]
fn a_cursor_agrees_with_decide() {
    use ringfence_surface::{AbsPath, Standing};
    let answers = Host::new()
        .project("[files]\nwrite = [\".\"]\ndeny = [\"**/.env\", \"!**/ok/.env\", \"a/*/k*\", \"private\"]\nprotect = [\"infra\", \"**/*.sql\"]\n")
        .resolve();
    let surface = &answers.0.surface;
    let names = [
        "a",
        "b",
        "ok",
        ".env",
        "kx",
        "private",
        "infra",
        "x.sql",
        ".git",
        "hooks",
        "config",
        "node_modules",
        ".vscode",
    ];
    let mut seen = [0; 3];
    let mut ahead: Vec<AbsPath> = vec![abs("/home/u/proj")];
    while let Some(dir) = ahead.pop() {
        let cursor = surface.cursor(&dir);
        for name in names {
            let path = dir.child(name.as_bytes());
            let read = surface.decide(&path, Access::Read).is_allowed();
            let write = surface.decide(&path, Access::Write).is_allowed();
            match cursor.standing(name.as_bytes()) {
                Standing::Denied(_) => assert!(!read, "{path}"),
                Standing::Protected(_) => assert!(read && !write, "{path}"),
                Standing::Open => {
                    // What the directory lost already is lost below it; nothing new is.
                    let above = (
                        surface.decide(&dir, Access::Read).is_allowed(),
                        surface.decide(&dir, Access::Write).is_allowed(),
                    );
                    assert!((read, write) == above || (read, write) == (true, true), "{path}");
                }
            }
            seen[usize::from(read) + usize::from(write)] += 1;
            if path.components().count() < 7 {
                ahead.push(path);
            }
        }
    }
    assert!(seen.iter().all(|count| *count > 100), "{seen:?}");
}

/// A git directory that vouches for itself is still no home, no disk, and not inside the tree it serves.
#[test]
fn a_git_directory_is_never_a_whole_home() {
    for common in ["/", "/home/u", "/home", "/home/u/proj/fake", "/home/u/proj"] {
        let answers = Host::new().git("/home/u/proj/.git", "/home/u/proj/fake", common, true).resolve();
        answers.check(&[("/opt/zz", "--"), ("/home/u/x", "--"), ("/home/u/proj/.git", "r-")]);
    }
}

/// A variable or a planted link does not make a whole disk a toolchain.
#[test]
fn toolchains_are_never_a_whole_home() {
    let jvm = |java: &str| Host::new().file("/home/u/proj/pom.xml").env("JAVA_HOME", java).resolve();
    for java in ["/", "/home", "/home/u", "/home/u/proj"] {
        jvm(java).check(&[("/home/u/finance/x", "--"), ("/srv/x", "--")]);
    }
    jvm("/opt/jdk").check(&[("/opt/jdk/bin/java", "r-")]);
    let rust = Host::new()
        .file("/home/u/proj/Cargo.toml")
        .link("/home/u/.rustup", "tools/r")
        .link("/home/u/tools/r", "/srv/all")
        .dir("/srv/all");
    rust.resolve().check(&[("/srv/all/secret", "--")]);
    let rust = Host::new().file("/home/u/proj/Cargo.toml").link("/home/u/.rustup", "tools/r").dir("/home/u/tools/r");
    rust.resolve().check(&[("/home/u/tools/r", "r-")]);
}

/// An exception is not moved by a link that an agent planted.
#[test]
fn exceptions_hold_only_as_written() {
    let policy = "[files]\ndeny = [\"**/*.key\", \"!keys/public\"]\nprotect = [\"infra\", \"!infra/dev\"]\n";
    let plain = Host::new().dir("/home/u/proj/keys/public").dir("/home/u/proj/infra/dev").project(policy).resolve();
    plain.check(&[("/home/u/proj/keys/public/a.key", "rw"), ("/home/u/proj/infra/dev/x", "rw")]);
    let planted = Host::new()
        .dir("/home/u/proj/prod")
        .link("/home/u/proj/keys/public", "../prod")
        .link("/home/u/proj/infra/dev", ".")
        .project(policy)
        .resolve();
    planted.check(&[("/home/u/proj/prod/a.key", "--"), ("/home/u/proj/infra/main.tf", "r-")]);
    assert_eq!(planted.omitted().len(), 2, "{:?}", planted.omitted());
}

/// A work item is out of the agent's reach while it serves.
#[test]
fn the_work_item_is_protected() {
    let answers = Host::new().task_file("/home/u/proj/tasks/42.json", "{\"write\": [\"../out\"]}").resolve();
    answers.check(&[("/home/u/proj/tasks/42.json", "r-"), ("/home/u/proj/tasks/43.json", "rw")]);
}

/// Naming a socket opens a socket, not a secret; and `--ref` does not open one through a link.
#[test]
fn secrets_stay_closed() {
    let answers = Host::new()
        .project("[files]\nview = \"host\"\n[network]\nsockets = [\"~/.ssh\", \"/run/docker.sock\"]\n")
        .resolve();
    answers.check(&[("/home/u/.ssh/id", "--"), ("/run/docker.sock", "r-")]);
    let answers =
        Host::new().link("/home/u/proj/docs", "/home/u/.ssh/id").file("/home/u/.ssh/id").reference(b"docs").resolve();
    answers.check(&[("/home/u/.ssh/id", "--")]);
}

/// ringfence's own directories are closed in every home, whatever the variables say, and its caches work behind a link.
#[test]
fn own_directories_are_closed_everywhere() {
    let host = Host::new().cwd("/home/u").env("XDG_STATE_HOME", "/srv/state").env("XDG_CACHE_HOME", "/srv/cache");
    host.resolve().check(&[
        ("/home/u/.local/state/ringfence/trust/x", "--"),
        ("/home/u/.cache/ringfence/x", "--"),
        ("/srv/state/ringfence/x", "--"),
    ]);
    let answers =
        Host::new().file("/home/u/proj/Cargo.toml").link("/home/u/.cache", "/data/cache").dir("/data/cache").resolve();
    let cache = answers
        .0
        .surface
        .rules()
        .iter()
        .find(|r| matches!(r.effect, ringfence_surface::Effect::Write(ringfence_surface::Role::Cache)));
    let path = cache.and_then(|r| r.pattern.as_path()).unwrap().clone();
    assert!(path.is_within(&abs("/data/cache/ringfence")), "{path}");
    assert!(answers.0.surface.decide(&path.join("x"), Access::Write).is_allowed());
}

/// A root above the project neither switches its protection off nor freezes it.
#[test]
fn what_lies_above_the_project_does_not_count() {
    let vendor = Host::new()
        .cwd("/home/u/vendor/app")
        .user("[files]\nview = \"host\"\nwrite = [\"/home/u/vendor\"]\n")
        .resolve();
    vendor.check(&[
        ("/home/u/vendor/app/.vscode/tasks.json", "r-"),
        ("/home/u/vendor/app/.envrc", "r-"),
        ("/home/u/vendor/app/x", "rw"),
    ]);
    let worktree = Host::new().cwd("/home/u/r/.claude/worktrees/w").user("[files]\nview = \"host\"\n").resolve();
    worktree.check(&[("/home/u/r/.claude/worktrees/w/src/x", "rw"), ("/home/u/r/.claude/worktrees/w/.claude/x", "r-")]);
    // A writable directory inside the project does not restart anything.
    let inner = Host::new().project("[files]\nwrite = [\".\", \".git/hooks\", \"a/.vscode\"]\n").resolve();
    inner.check(&[("/home/u/proj/.git/hooks/x", "r-"), ("/home/u/proj/a/.vscode/x", "r-")]);
}

/// Thousands of patterns that all stay possible take bounded time.
#[test]
fn a_hostile_policy_is_answered_in_time() {
    let rules: Vec<String> = (0..5000).map(|n| format!("\"**/[a{n}]*/**/z\"")).collect();
    let answers = Host::new().untrusted(&format!("[files]\ndeny = [{}]\n", rules.join(","))).resolve();
    let path = abs(&format!("/home/u/proj{}", "/a".repeat(400)));
    let start = std::time::Instant::now();
    assert!(answers.0.surface.decide(&path, Access::Read).is_allowed());
    assert!(start.elapsed() < std::time::Duration::from_secs(30), "{:?}", start.elapsed());
}

#[test]
fn a11_what_direnv_evaluates_is_protected_where_there_is_an_envrc() {
    let names = ["flake.nix", "flake.lock", "shell.nix", "default.nix"];
    for (host, expected) in [(Host::new(), "rw"), (Host::new().file("/home/u/proj/.envrc"), "r-")] {
        let answers = host.project("[files]\nwrite = [\".\"]\n").resolve();
        for name in names {
            answers.check(&[(&format!("/home/u/proj/{name}"), expected)]);
        }
    }
}

#[test]
fn c_a_denied_home_leaves_the_private_home_of_the_session() {
    let mut host = Host::new().user("[files]\ndeny = [\"~\"]\n");
    host.facts.session = Some(abs("/home/u/.local/state/ringfence/sessions/s1"));
    let answers = host.resolve();
    answers.check(&[
        ("/home/u/.local/state/ringfence/sessions/s1/home/.cargo", "rw"),
        ("/home/u/.local/state/ringfence/sessions/s1/given/x", "r-"),
        ("/home/u/.local/state/ringfence/sessions/s2/home/x", "--"),
        ("/home/u/.local/state", "--"),
        ("/home/u/.bashrc", "--"),
        ("/home/u/proj/x", "--"),
    ]);
}
