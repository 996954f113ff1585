//! Which files hold, trust, `--policy`, `extends`, `check`, `init`.

use crate::world;

/// An untrusted file narrows; trusted it may widen; the first change ends trust.
#[test]
fn trust() {
    let world = world();
    world.write("project/ringfence.toml", "version = 1\n[files]\nread = [\"../docs\"]\ndeny = [\"private\"]\n");
    let explain = |code| world.ringfence(&["explain", "--read", "../docs/a"]).expect_code(code);
    let run = explain(1);
    assert!(
        run.stderr.contains("takes no part: the project's file is not trusted")
            && run.stderr.contains("ringfence trust"),
        "{}",
        run.stderr
    );
    world.ringfence(&["explain", "--read", "private/a"]).expect_code(1);
    world.ringfence(&["trust"]).expect_code(0);
    explain(0);
    assert!(world.ringfence(&["trust"]).expect_code(0).stderr.contains("trusted already"));
    world.write("project/ringfence.toml", "version = 1\n[files]\nread = [\"../docs\", \"/\"]\n");
    explain(1);
    let run = world.ringfence(&["trust"]).expect_code(125);
    assert!(
        run.stderr.contains("has changed since it was trusted") && run.stderr.contains("--force"),
        "{}",
        run.stderr
    );
    world.ringfence(&["trust", "--force"]).expect_code(0);
    explain(0);
    world.ringfence(&["trust", "--revoke"]).expect_code(0);
    explain(1);
}

/// Trust covers what a file extends: an agent that edits the base gains nothing.
#[test]
fn trust_covers_what_is_extended() {
    let world = world();
    world.write("project/ringfence.toml", "version = 1\nextends = [\"./base.toml\"]\n");
    world.write("project/base.toml", "version = 1\n[files]\nread = [\"../docs\"]\n");
    assert!(world.ringfence(&["trust"]).expect_code(0).stderr.contains("base.toml, which it extends"));
    world.ringfence(&["explain", "--read", "../docs/x"]).expect_code(0);
    world.ringfence(&["explain", "--write", "base.toml"]).expect_code(1);
    world.write("project/base.toml", "version = 1\n[files]\nread = [\"../docs\", \"../home\"]\n");
    world.ringfence(&["explain", "--read", "../docs/x"]).expect_code(1);
    world.ringfence(&["explain", "--read", "../home/x"]).expect_code(1);
}

/// What is extended is relative to its own file, and a circle is named.
#[test]
fn extends() {
    let world = world();
    world.write("common/base.toml", "version = 1\nextends = [\"more/deny.toml\"]\n[files]\nread = [\"docs\"]\n");
    world.write("common/more/deny.toml", "version = 1\n[files]\ndeny = [\"../secret\"]\n");
    let policy = world.write("project/p.toml", "version = 1\nextends = [\"../common/base.toml\", \"rust\"]\n");
    let explain = |path: &str, code| {
        let policy = policy.to_str().unwrap();
        world.ringfence(&["explain", "--policy", policy, "--read", path]).expect_code(code)
    };
    explain("../common/docs/a", 0);
    explain("../common/secret/a", 1);
    world.write("common/more/deny.toml", "version = 1\nextends = [\"../base.toml\"]\n");
    let run = explain("x", 125);
    assert!(world.hide(&run.stderr).contains("in a circle: <world>/project/p.toml → <world>/common/base.toml → <world>/common/more/deny.toml → <world>/common/base.toml"), "{}", run.stderr);
    world.write("common/base.toml", "version = 1\nextends = [\"gone.toml\"]\n");
    assert!(explain("x", 125).stderr.contains("there is no "));
}

/// The project's file is found upward; without trust only the current directory is writable.
#[test]
fn found_upward() {
    let world = world();
    world.write("project/ringfence.toml", "version = 1\n");
    world.mkdir("project/a/b");
    let explain =
        |path: &str, code| world.in_dir("project/a/b").ringfence(&["explain", "--write", path]).expect_code(code);
    explain("x", 0);
    explain("../../x", 1);
    world.in_dir("project/a/b").ringfence(&["trust"]).expect_code(0);
    explain("../../x", 0);
    explain("../../../x", 1);
}

/// The user's own file speaks for every project.
#[test]
fn the_users_file() {
    let world = world();
    world.write(
        "home/.config/ringfence/config.toml",
        "version = 1\n[files]\nread = [\"~/notes\"]\ndeny = [\"**/*.pem\"]\n",
    );
    world.ringfence(&["explain", "--read", "../home/notes/a"]).expect_code(0);
    world.ringfence(&["explain", "--read", "a/b.pem"]).expect_code(1);
    world.ringfence(&["explain", "--write", "../home/.config/ringfence/config.toml"]).expect_code(1);
}

/// `init` fits the directory, never overwrites, and what it writes can be used.
#[test]
fn init() {
    let world = world();
    world.write("project/Cargo.toml", "");
    world.write("project/package.json", "{}");
    let run = world.ringfence(&["init"]).expect_code(0);
    assert!(run.stderr.contains("node, rust found") && run.stderr.contains("ringfence trust"), "{}", run.stderr);
    let text = std::fs::read_to_string(world.path("project/ringfence.toml")).unwrap();
    assert!(text.contains("extends = [\"node\", \"rust\"]") && text.contains("\"crates\""), "{text}");
    world.ringfence(&["check"]).expect_code(0);
    world.write("project/ringfence.toml", "version = 1\n# mine\n");
    let run = world.ringfence(&["init"]).expect_code(125);
    assert!(run.stderr.contains("exists already") && run.stderr.contains("--force"), "{}", run.stderr);
    assert!(std::fs::read_to_string(world.path("project/ringfence.toml")).unwrap().contains("# mine"));
    world.ringfence(&["init", "--force"]).expect_code(0);
    assert!(!std::fs::read_to_string(world.path("project/ringfence.toml")).unwrap().contains("# mine"));
    let left: Vec<_> = std::fs::read_dir(world.path("project")).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left.len(), 3, "nothing else is left: {left:?}");
}

/// A link in the place of the policy is not written through.
#[test]
fn init_does_not_follow_a_link() {
    let world = world();
    world.write("victim", "precious");
    world.symlink("../victim", "project/ringfence.toml");
    world.ringfence(&["init"]).expect_code(125);
    world.ringfence(&["init", "--force"]).expect_code(0);
    assert_eq!(std::fs::read_to_string(world.path("victim")).unwrap(), "precious");
}

/// G9: what is wrong is shown with file, line, column, the words underlined and what was meant.
#[test]
fn g9_check() {
    let world = world();
    world.write("project/ringfence.toml", "version = 1\n[agent.claude.container]\nsurface_mode = \"exlusive\"\n");
    let run = world.ringfence(&["check"]).expect_code(1);
    let stderr = world.hide(&run.stderr);
    for part in [
        "error: unknown surface_mode `exlusive`",
        "--> <world>/project/ringfence.toml:3:16",
        "^^^^^^^^^^",
        "did you mean `exclusive`?",
    ] {
        assert!(stderr.contains(part), "{part}\n{stderr}");
    }
    let run = world.ringfence(&["check", "--json"]).expect_code(1);
    let report: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(report["ok"], false);
    assert_eq!(report["diagnostics"][0]["place"]["line"], 3);
    assert_eq!(report["diagnostics"][0]["place"]["column"], 16);
    let other = world.write("other.toml", "version = 1\n");
    world.ringfence(&["check", other.to_str().unwrap()]).expect_code(0);
}

/// A write inside a deny is shown with both places.
#[test]
fn g9_contradictions() {
    let world = world();
    world.write("project/ringfence.toml", "version = 1\n[files]\nwrite = [\".\", \"gen/out\"]\ndeny = [\"gen\"]\n");
    world.ringfence(&["trust"]).expect_code(0);
    let run = world.ringfence(&["check"]).expect_code(0);
    let stderr = world.hide(&run.stderr);
    assert!(
        stderr.contains("warning: write \"gen/out\" has no effect")
            && stderr.contains("ringfence.toml:3:15")
            && stderr.contains("the rule that wins: <world>/project/ringfence.toml:4:9"),
        "{stderr}"
    );
}

/// G3: an orchestrator's work item, as TOML or JSON.
#[test]
fn g3_task_files() {
    let world = world();
    world.write("items/1.json", "{\"write\": [\"../out\"]}");
    world.write("items/1.toml", "write = [\"../out\"]\n");
    world.write("items/bad.json", "{\"wirte\": []}");
    for item in ["../items/1.json", "../items/1.toml"] {
        world.ringfence(&["explain", "--task", item, "--write", "../out/x"]).expect_code(0);
    }
    let run = world.ringfence(&["explain", "--task", "../items/bad.json", "--write", "x"]).expect_code(125);
    assert!(run.stderr.contains("did you mean `write`?"), "{}", run.stderr);
}

/// A linked work tree: its git directory works, hooks and config stay; a forged `.git` file gains nothing.
#[test]
fn git_worktrees() {
    let world = world();
    let git = |dir: &str, args: &[&str]| {
        let status = std::process::Command::new("git")
            .current_dir(world.path(dir))
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("HOME", world.path("home"))
            .args(args)
            .output()
            .unwrap();
        assert!(status.status.success(), "{args:?}: {status:?}");
    };
    world.mkdir("main");
    git("main", &["init", "-q", "."]);
    git("main", &["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "x"]);
    git("main", &["worktree", "add", "-q", "../tree"]);
    let explain = |path: &str, code| world.in_dir("tree").ringfence(&["explain", "--write", path]).expect_code(code);
    explain("../main/.git/objects/aa/bb", 0);
    explain("../main/.git/refs/heads/x", 0);
    explain("../main/.git/hooks/pre-commit", 1);
    explain("../main/.git/config", 1);
    explain("../main/README", 1);
    explain(".git", 1);
    world.write("forged/.git", format!("gitdir: {}\n", world.path("home").display()));
    let run = world.in_dir("forged").ringfence(&["explain", "--write", "../home/x"]).expect_code(1);
    assert!(run.stderr.contains("does not name it back"), "{}", run.stderr);
}

/// A link in the place of the project's file does not borrow another project's trust.
#[test]
fn a_linked_project_file_borrows_no_trust() {
    let world = world();
    world.write("other/ringfence.toml", "version = 1\n[workspace]\nself_governing = true\n");
    world.in_dir("other").ringfence(&["trust"]).expect_code(0);
    world.symlink("../other/ringfence.toml", "project/ringfence.toml");
    for command in [vec!["plan"], vec!["explain", "--write", "../other/x"], vec!["trust"]] {
        let run = world.ringfence(&command).expect_code(125);
        assert!(run.stderr.contains("is a symbolic link"), "{}", run.stderr);
    }
}

/// What an untrusted project extends elsewhere is not quoted, whatever is wrong with it.
#[test]
fn extends_shows_no_secrets() {
    let world = world();
    world.write("home/.netrc", "machine example.com login me password s3cr3t\n");
    world.write("project/ringfence.toml", "version = 1\nextends = [\"~/.netrc\", \"./x.toml\"]\n");
    for command in [vec!["check"], vec!["plan"], vec!["trust"]] {
        let run = world.ringfence(&command);
        assert!(
            run.code != 0 && !run.stderr.contains("s3cr3t") && run.stderr.contains("is not a policy"),
            "{}",
            run.stderr
        );
        assert!(!run.stdout.contains("s3cr3t"));
    }
    let run = world.ringfence(&["check", "--json"]);
    assert!(!run.stdout.contains("s3cr3t"), "{}", run.stdout);
}

/// A planted `.git` that vouches for itself hands out nothing.
#[test]
fn a_planted_git_directory_hands_out_nothing() {
    let world = world();
    world.write("project/.git", "gitdir: fake/worktrees/x\n");
    let dot_git = world.path("project/.git");
    for common in ["/".to_owned(), world.path("home").display().to_string(), "../..".to_owned()] {
        world.write("project/fake/worktrees/x/gitdir", format!("{}\n", dot_git.display()));
        world.write("project/fake/worktrees/x/commondir", format!("{common}\n"));
        world.write("project/fake/HEAD", "ref: refs/heads/main\n");
        world.mkdir("project/fake/objects");
        world.mkdir("project/fake/refs");
        world.ringfence(&["explain", "--write", "../elsewhere"]).expect_code(1);
        world.ringfence(&["explain", "--write", "../home/x"]).expect_code(1);
        let run = world.ringfence(&["plan"]).expect_code(0);
        assert!(!run.stdout.contains("git-dir"), "{}", run.stdout);
    }
}

/// Hooks that are links, `core.hooksPath` and included files lie in the work tree: to write them is to write a hook.
#[test]
fn k8_what_git_runs_is_protected() {
    let world = world();
    world.write("project/.git/HEAD", "ref: refs/heads/main\n");
    world.write("project/.git/config", "[core]\n\thooksPath = tools/hooks\n[include]\n\tpath = ../gitconfig.shared\n[filter \"x\"]\n\tclean = ./scripts/clean --all\n");
    world.mkdir("project/.git/hooks");
    world.write("project/scripts/pre-commit", "");
    world.symlink("../../scripts/pre-commit", "project/.git/hooks/pre-commit");
    for path in
        ["tools/hooks/pre-push", "gitconfig.shared", "scripts/pre-commit", ".git/hooks/pre-commit", "scripts/clean"]
    {
        world.ringfence(&["explain", "--write", path]).expect_code(1);
    }
    world.ringfence(&["explain", "--write", "scripts/other"]).expect_code(0);
}

/// Every file of settings and every spelling that git accepts: what they name is protected, and `explain` says by which setting.
#[test]
fn a4_what_settings_of_git_name_is_protected_in_every_form() {
    const HOOKS: &str = "tools/hooks/pre-commit";
    for (file, text, path) in [
        ("project/.git/config", "[core]\n\thooksPath = my hooks # comment\n", "my hooks/pre-commit"),
        ("project/.git/config", "[core]\n\thooksPath = \"tools/hooks\"\n", HOOKS),
        ("project/.git/config", "[core] hooksPath = tools/\\\nhooks\n", HOOKS),
        ("project/.git/config", "[core]\n\thooksPath = ~/../project/tools/hooks\n", HOOKS),
        ("project/.git/config.worktree", "[core]\n\thooksPath = tools/hooks\n", HOOKS),
        ("project/.git/worktrees/x/config.worktree", "[core]\n\thooksPath = tools/hooks\n", HOOKS),
        ("home/.gitconfig", "[core]\n\thooksPath = tools/hooks\n", HOOKS),
        ("home/.gitconfig", "[core]\n\thooksPath = .githooks\n", "deep/er/.githooks/pre-commit"),
        ("home/.gitconfig", "[core]\n\thooksPath = hooks\n", "hooks/pre-commit"),
        ("home/.config/git/config", "[core]\n\thooksPath = tools/hooks\n", HOOKS),
        ("home/.gitconfig", "[includeIf \"onbranch:x\"]\n\tpath = ../project/shared\n", "shared"),
        ("home/.gitconfig", "[core]\n\tattributesFile = ~/../project/attributes\n", "attributes"),
        ("project/.git/config", "[filter \"x\"]\n\tclean = sh tools/x.sh\n", "tools/x.sh"),
        ("project/.git/config", "[filter \"x\"]\n\tprocess = \"bash -c 'cd tools && exec ./x.sh'\"\n", "tools/x.sh"),
        ("project/.git/config", "[diff \"x\"]\n\ttextconv = python3 exif.py\n", "exif.py"),
        ("project/.git/config", "[merge \"x\"]\n\tdriver = tools/x.sh %O %A %B\n", "tools/x.sh"),
        ("project/.git/config", "[core]\n\tfsmonitor = sh ./tools/x.sh\n", "tools/x.sh"),
        ("project/.git/config", "[alias]\n\tx = !sh tools/x.sh\n", "tools/x.sh"),
        ("project/.git/config", "[trailer \"x\"]\n\tcmd = tools/x.sh\n", "tools/x.sh"),
        (
            "project/.git/config",
            "[a-key \"of\"]\n\tlater = $(git rev-parse --show-toplevel)/tools/x.sh\n",
            "tools/x.sh",
        ),
    ] {
        let world = world();
        world.write("project/.git/HEAD", "ref: refs/heads/main\n");
        world.write("project/exif.py", "");
        world.mkdir("project/deep");
        world.write(file, text);
        let said = world.ringfence(&["explain", "--write", path]);
        assert!(said.stdout.contains("run by git"), "{file}: {text}: {}{}", said.stdout, said.stderr);
        said.expect_code(1);
        // A session that starts below the top of the work tree has the same repository.
        let top = world.path("project").join(path);
        if let Some(below) = path.strip_prefix("tools/") {
            world.mkdir("project/tools");
            let said = world.in_dir("project/tools").ringfence(&["explain", "--write", below]);
            assert!(said.stdout.contains("run by git"), "{}: {file}: {text}: {}", top.display(), said.stdout);
        }
        world.ringfence(&["explain", "--write", "tools/other"]).expect_code(0);
    }
}

/// Settings that a file includes count as if they were in it.
#[test]
fn a4_included_settings_are_read() {
    let world = world();
    world.write("project/.git/HEAD", "ref: refs/heads/main\n");
    world.write("home/.gitconfig", "[include]\n\tpath = more/one\n");
    world.write("home/more/one", "[includeIf \"gitdir:~/nowhere/\"]\n\tpath = two\n");
    world.write("home/more/two", "[core]\n\thooksPath = tools/hooks\n");
    let said = world.ringfence(&["explain", "--write", "tools/hooks/pre-commit"]).expect_code(1);
    assert!(said.stdout.contains("core.hookspath in"), "{}", said.stdout);
}

/// A link that a rule closes by its own name is closed, wherever it leads.
#[test]
fn a_denied_name_that_is_a_link() {
    let world = world();
    world.write("project/ringfence.toml", "version = 1\n[files]\ndeny = [\"**/.env\"]\n");
    world.write("project/config/prod.txt", "");
    world.symlink("config/prod.txt", "project/.env");
    world.ringfence(&["explain", "--read", ".env"]).expect_code(1);
    world.ringfence(&["explain", "--read", "config/prod.txt"]).expect_code(0);
}

/// Where the home directory is the project, what a repository ships is not the user's own.
#[test]
fn a_home_that_is_the_project_ships_no_trust() {
    let world = world();
    let call = || {
        let project = world.path("project");
        let state = project.join(".local/state");
        world
            .in_dir("project")
            .env("HOME", &project)
            .env("XDG_CONFIG_HOME", project.join(".config"))
            .env("XDG_STATE_HOME", state)
    };
    world.write(
        "project/.config/ringfence/config.toml",
        "version = 1\n[files]\nwrite = [\"/\"]\ndeny = [\"~/private\"]\n",
    );
    call().ringfence(&["explain", "--write", "../elsewhere"]).expect_code(1);
    call().ringfence(&["explain", "--read", "private/x"]).expect_code(1);
    world.write("project/ringfence.toml", "version = 1\n[files]\nread = [\"../docs\"]\n");
    let run = call().ringfence(&["trust"]).expect_code(125);
    assert!(run.stderr.contains("no place outside the project"), "{}", run.stderr);
}
