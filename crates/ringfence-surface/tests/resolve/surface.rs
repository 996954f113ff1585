//! What a Surface is made of, and where each part comes from.

use crate::host::{Host, abs};
use ringfence_surface::policy::{Tier, View};
use ringfence_surface::{Access, Effect, Governance, Role, Source, Surface};

/// G1: each of the six parts is there with its mode, and every entry remembers where it came from.
#[test]
fn g1_the_parts_of_a_surface() {
    let host = Host::new().dir("/home/u/api").dir("/home/u/meta").dir("/home/u/extra").project(
        r#"
        extends = ["rust"]
        [workspace]
        metadata = "../meta"
        [[workspace.repo]]
        name = "api"
        path = "../api"
        [files]
        write = [".", "../extra"]
        read = ["../docs"]
        "#,
    );
    let answers = host.resolve();
    answers.check(&[
        ("/home/u/proj/src/main.rs", "rw"),
        ("/home/u/extra/x", "rw"),
        ("/home/u/api/src", "r-"),
        ("/home/u/meta/state.json", "r-"),
        ("/home/u/docs/x", "r-"),
        ("/home/u/.rustup/toolchains", "r-"),
        ("/usr/bin/cc", "r-"),
        ("/home/u/other", "--"),
        ("/home/u", "--"),
        ("/", "--"),
    ]);
    let surface = &answers.0.surface;
    let role_of = |path: &str| {
        let rule = surface.rules().iter().rfind(|r| r.pattern.as_path() == Some(&abs(path))).unwrap();
        (rule.effect, rule.source.to_string())
    };
    assert_eq!(role_of("/home/u/extra"), (Effect::Write(Role::Write), "/home/u/proj/ringfence.toml:10:23".into()));
    assert_eq!(role_of("/home/u/api"), (Effect::Read(Role::Sibling), "/home/u/proj/ringfence.toml:8:16".into()));
    assert!(matches!(role_of("/home/u/meta").0, Effect::Read(Role::Metadata)));
    assert!(surface.rules().iter().any(|r| r.effect == Effect::Read(Role::Tooling)));
    assert!(surface.rules().iter().any(|r| matches!(r.source, Source::Pack { name: "rust", .. })));
}

/// G2: the flat accessors say what `decide` says.
#[test]
fn g2_accessors_agree_with_decide() {
    let host = Host::new().project("[files]\nwrite = [\".\"]\nread = [\"../docs\", \"/srv/data\"]\n");
    let answers = host.resolve();
    let surface = &answers.0.surface;
    assert!(surface.allowed_writes().count() > 1 && surface.allowed_reads().count() > surface.allowed_writes().count());
    for rule in surface.allowed_writes() {
        let path = rule.pattern.as_path().unwrap();
        assert!(surface.decide(path, Access::Write).is_allowed(), "{path}");
        assert!(surface.decide(path, Access::Read).is_allowed(), "{path}");
    }
    for rule in surface.allowed_reads() {
        let Some(path) = rule.pattern.as_path() else { continue };
        assert!(surface.decide(path, Access::Read).is_allowed(), "{path}");
    }
}

/// G3: the working directory comes from the persona, further writes from the task, sibling reads from the registry, further
/// reads from both.
#[test]
fn g3_personas_tasks_and_repositories() {
    let policy = r#"
        [[workspace.repo]]
        name = "self"
        path = "."
        [[workspace.repo]]
        name = "api"
        path = "../api"
        [persona.backend]
        workdir = "server"
        read = ["../contracts"]
        [persona.reviewer]
        write = []
        [task.fix-42]
        write = ["../shared-types"]
        read = ["~/datasets/small"]
    "#;
    let host = || Host::new().dir("/home/u/proj/server").dir("/home/u/api").project(policy);
    let answers = host().persona("backend").task("fix-42").resolve();
    assert_eq!(answers.0.surface.workdir(), &abs("/home/u/proj/server"));
    answers.check(&[
        ("/home/u/proj/server/x", "rw"),
        ("/home/u/proj/client/x", "r-"),
        ("/home/u/shared-types/x", "rw"),
        ("/home/u/datasets/small/x", "r-"),
        ("/home/u/contracts/x", "r-"),
        ("/home/u/api/x", "r-"),
    ]);
    let answers = host().persona("reviewer").resolve();
    answers.check(&[("/home/u/proj/x", "r-"), ("/home/u/shared-types/x", "--"), ("/tmp/scratch", "rw")]);
    let answers = host().resolve();
    answers.check(&[("/home/u/proj/x", "rw"), ("/home/u/contracts", "--")]);
    assert!(host().persona("revewer").try_resolve().unwrap_err().contains("did you mean `reviewer`?"));
    assert!(host().task("fix-4").try_resolve().unwrap_err().contains("did you mean `fix-42`?"));
}

/// G3: an orchestrator's work item in a file of its own, TOML or JSON, relative to that file.
#[test]
fn g3_a_task_from_a_file() {
    for (path, text) in [
        ("/home/u/items/1.json", r#"{"write": ["../out"], "read": ["/srv/in"]}"#),
        ("/home/u/items/1.toml", "write = [\"../out\"]\nread = [\"/srv/in\"]\n"),
    ] {
        let answers = Host::new().task_file(path, text).resolve();
        answers.check(&[("/home/u/out/x", "rw"), ("/srv/in/x", "r-"), ("/home/u/proj/x", "rw")]);
    }
}

/// G11: a repository's pool of work trees stands in the repository's place, among siblings and in writes.
#[test]
fn g11_a_worktree_pool_takes_the_repositorys_place() {
    let policy = r#"
        [[workspace.repo]]
        name = "api"
        path = "../api"
        worktrees_dir = "../.worktrees/api"
    "#;
    let host = || Host::new().dir("/home/u/api").dir("/home/u/.worktrees/api");
    let sibling = host().project(policy).resolve();
    sibling.check(&[("/home/u/.worktrees/api/fix", "r-"), ("/home/u/api/src", "--")]);
    let written = host().project(&format!("{policy}\n[files]\nwrite = [\"../api\"]\n")).resolve();
    written.check(&[("/home/u/.worktrees/api/fix", "rw"), ("/home/u/api/src", "--")]);
    let persona = host().project(&format!("{policy}\n[persona.api]\nworkdir = \"../api\"\n")).persona("api").resolve();
    assert_eq!(persona.0.surface.workdir(), &abs("/home/u/.worktrees/api"));
}

/// K5: what is writable is the opened workspace and scratch, nothing else.
#[test]
fn k5_writable_roots() {
    let mut host = Host::new();
    host.facts.session = Some(abs("/home/u/.local/state/ringfence/sessions/7"));
    let answers = host.resolve();
    answers.check(&[
        ("/home/u/proj/new/file", "rw"),
        ("/tmp/x", "rw"),
        ("/home/u/.local/state/ringfence/sessions/7/home/.cache", "rw"),
        ("/home/u/.local/state/ringfence/sessions/7/tmp/x", "rw"),
        ("/home/u/.local/state/ringfence/sessions/7/session.json", "--"),
        ("/home/u/.local/state/ringfence/sessions/8/home/x", "--"),
        ("/home/u/.local/state/ringfence/trust", "--"),
        ("/home/u/file", "--"),
        ("/etc/hosts", "r-"),
        ("/usr/local/x", "r-"),
        ("/var/log/x", "--"),
    ]);
    for rule in answers.0.surface.allowed_writes() {
        let Effect::Write(role) = rule.effect else { unreachable!() };
        assert!(matches!(role, Role::WorkingDir | Role::Scratch | Role::Private | Role::Cache), "{rule}");
    }
}

/// K6: the host view is broad, minus secrets and escape vectors; the surface view is the default.
#[test]
fn k6_the_host_view() {
    let answers = Host::new().project("[files]\nview = \"host\"\n").resolve();
    assert_eq!(answers.0.surface.view(), View::Host);
    answers.check(&[
        ("/var/log/syslog", "r-"),
        ("/home/u/other/code.rs", "r-"),
        ("/home/u/.ssh/id_ed25519", "--"),
        ("/home/u/.aws/credentials", "--"),
        ("/home/u/.bashrc", "--"),
        ("/home/u/.mozilla/firefox/x/logins.json", "--"),
        ("/etc/shadow", "--"),
        ("/proc/kcore", "--"),
        ("/var/run/docker.sock", "--"),
        ("/run/docker.sock", "--"),
        ("/home/u/.local/state/ringfence/sessions/1/audit.jsonl", "--"),
        ("/home/u/proj/x", "rw"),
    ]);
    let default = Host::new().resolve();
    assert_eq!(default.0.surface.view(), View::Surface);
    default.check(&[("/var/log/syslog", "--"), ("/home/u/other/code.rs", "--")]);
}

/// K6: secrets of the account are secrets whatever `$HOME` says, and in every home that is known.
#[test]
fn k6_a_false_home_opens_no_secrets() {
    let mut host = Host::new().env("HOME", "/srv/fake").project("[files]\nview = \"host\"\n");
    host.facts.homes = vec![abs("/home/u"), abs("/root")];
    host.resolve().check(&[("/home/u/.ssh/id", "--"), ("/root/.ssh/id", "--"), ("/srv/fake/.ssh/id", "--")]);
}

/// K7: what the user names is readable by construction, also a secret; naming a directory above one does not open it.
#[test]
fn k7_references() {
    let answers = Host::new().reference(b"../notes.txt").reference(b"/home/u/.ssh/known_hosts").resolve();
    answers.check(&[
        ("/home/u/notes.txt", "r-"),
        ("/home/u/.ssh/known_hosts", "r-"),
        ("/home/u/.ssh/id_ed25519", "--"),
        ("/home/u/.ssh", "--"),
    ]);
    let above = Host::new().reference(b"/home/u").resolve();
    above.check(&[("/home/u/x", "r-"), ("/home/u/.ssh/id_ed25519", "--")]);
    let odd = Host::new().reference(b"/srv/caf\xe9\nx").resolve();
    let path = ringfence_surface::AbsPath::lexical(b"/srv/caf\xe9\nx").unwrap();
    assert!(odd.0.surface.decide(&path, Access::Read).is_allowed());
}

/// K7: a reference does not beat a deny that somebody wrote.
#[test]
fn k7_a_written_deny_beats_a_reference() {
    let answers = Host::new().reference(b".env").project("[files]\ndeny = [\"**/.env\"]\n").resolve();
    answers.check(&[("/home/u/proj/.env", "--")]);
    assert!(answers.said().contains("has no effect"), "{}", answers.said());
}

/// K8: names that make code run later are never writable, at any depth, existing or not, also where `write` names them.
#[test]
fn k8_protected_names() {
    let answers = Host::new().project("[files]\nwrite = [\".\", \".git/hooks\", \".claude\"]\n").resolve();
    answers.check(&[
        ("/home/u/proj/.git/hooks/pre-commit", "r-"),
        ("/home/u/proj/.git/config", "r-"),
        ("/home/u/proj/.git/config.worktree", "r-"),
        ("/home/u/proj/.git/info/attributes", "r-"),
        ("/home/u/proj/vendor/lib/.git/hooks/post-checkout", "r-"),
        ("/home/u/proj/bare.git/hooks/post-receive", "r-"),
        ("/home/u/proj/.gitmodules", "r-"),
        ("/home/u/proj/.claude/settings.local.json", "r-"),
        ("/home/u/proj/sub/.vscode/tasks.json", "r-"),
        ("/home/u/proj/.envrc", "r-"),
        ("/home/u/proj/.husky/pre-commit", "r-"),
        ("/home/u/proj/.github/workflows/ci.yml", "r-"),
        ("/home/u/proj/.npmrc", "r-"),
        ("/home/u/proj/.cargo/config.toml", "r-"),
        ("/home/u/proj/ringfence.toml", "r-"),
        ("/home/u/proj/sub/ringfence.toml", "r-"),
        ("/home/u/proj/.mcp.json", "r-"),
        // git itself works.
        ("/home/u/proj/.git/objects/ab/cd", "rw"),
        ("/home/u/proj/.git/refs/heads/main", "rw"),
        ("/home/u/proj/.git/refs/heads/config", "rw"),
        ("/home/u/proj/.git/refs/heads/hooks", "rw"),
        ("/home/u/proj/.git/index", "rw"),
        ("/home/u/proj/.git/logs/HEAD", "rw"),
        ("/home/u/proj/.gitignore", "rw"),
        ("/home/u/proj/src/hooks/useState.ts", "rw"),
        ("/home/u/proj/config", "rw"),
    ]);
    let said = answers.said();
    assert!(said.contains("write \".git/hooks\" has no effect"), "{said}");
}

/// K8: a lockfile is writable, since package managers write it, and worth a question in accept-edits.
#[test]
fn k8_lockfiles_ask() {
    let answers = Host::new().resolve();
    let verdict = answers.0.surface.decide(&abs("/home/u/proj/Cargo.lock"), Access::Write);
    assert!(verdict.is_allowed() && verdict.ask.is_some());
    let verdict = answers.0.surface.decide(&abs("/home/u/proj/Cargo.lock"), Access::Read);
    assert!(verdict.is_allowed() && verdict.ask.is_none());
    let verdict = answers.0.surface.decide(&abs("/home/u/proj/Cargo.toml"), Access::Write);
    assert!(verdict.is_allowed() && verdict.ask.is_none());
}

/// K8: the policy itself is out of the agent's reach, wherever it lies and whatever it is called.
#[test]
fn k8_the_policy_files_are_protected() {
    use ringfence_surface::Level;
    let host = Host::new().policy(Level::Explicit, "/home/u/proj/policies/strict.toml", "[files]\nwrite = [\"..\"]\n");
    host.resolve().check(&[("/home/u/proj/policies/strict.toml", "r-"), ("/home/u/proj/policies/other.toml", "rw")]);
}

/// K17: the same policy and the same facts give the same Surface; nothing else is asked.
#[test]
fn k17_resolve_is_a_function_of_its_inputs() {
    let host = Host::new().project("[files]\nread = [\"$GOPATH/pkg\", \"../docs\"]\ndeny = [\"**/.env\"]\n");
    let print = |answers: &crate::host::Answers| {
        answers
            .0
            .surface
            .rules()
            .iter()
            .map(|r| format!("{:?} {} {}", r.effect, r.pattern, r.source))
            .collect::<Vec<_>>()
    };
    let first = host.resolve();
    assert_eq!(print(&first), print(&host.resolve()));
    let other = host.env("GOPATH", "/elsewhere/go").resolve();
    assert_ne!(print(&first), print(&other));
    other.check(&[("/elsewhere/go/pkg/mod", "r-")]);
}

/// G7: an unset variable drops the entry, and the operator is told which and why.
#[test]
fn g7_dropped_entries_are_reported() {
    let answers = Host::new().project("[files]\nread = [\"$GOPATH/pkg/mod\", \"${NVM_DIR}\", \"~/x\"]\n").resolve();
    assert_eq!(answers.omitted(), ["$GOPATH/pkg/mod: $GOPATH is not set", "${NVM_DIR}: $NVM_DIR is not set"]);
    answers.check(&[("/pkg/mod", "--"), ("/home/u/x", "r-")]);
}

/// A12: a self-governing session has its own root, no OS layer, and says so; secrets and protections stay.
#[test]
fn a12_self_governance() {
    let answers = Host::new().project("[workspace]\nself_governing = true\n[files]\nwrite = [\"src\"]\n").resolve();
    let Governance::SelfGoverning(source) = answers.0.surface.governance() else { panic!("not self-governing") };
    assert_eq!(source.to_string(), "/home/u/proj/ringfence.toml:3:18");
    answers.check(&[("/home/u/proj/x", "rw"), ("/home/u/proj/.git/hooks/x", "r-"), ("/home/u/.ssh/id", "--")]);
    assert_eq!(Host::new().resolve().0.surface.governance(), &Governance::Fenced);
}

/// A13: two tiers; development unless somebody asks for more.
#[test]
fn a13_tiers() {
    assert_eq!(Host::new().resolve().0.surface.tier(), Tier::Development);
    let production = Host::new().project("[workspace]\ntier = \"production\"\n").resolve();
    assert_eq!(production.0.surface.tier(), Tier::Production);
}

/// Without any policy: the current directory is writable, the system readable, home is not there, packs by what is there.
#[test]
fn no_policy_at_all() {
    let answers = Host::new().file("/home/u/proj/Cargo.toml").dir("/home/u/proj/.git").resolve();
    assert_eq!(answers.0.surface.packs(), ["git", "rust"]);
    answers.check(&[
        ("/home/u/proj/src/lib.rs", "rw"),
        ("/usr/lib/libc.so", "r-"),
        ("/home/u/.cargo/bin/cargo", "r-"),
        ("/home/u/.cargo/credentials.toml", "--"),
        ("/home/u/Documents/x", "--"),
        ("/etc/passwd", "r-"),
        ("/etc/shadow", "--"),
    ]);
    assert!(answers.reaches("index.crates.io:443") && answers.reaches("crates.io:443"));
    assert!(!answers.reaches("registry.npmjs.org:443"));
    assert!(!answers.reaches("example.com:443"));
}

/// With `--agent` its model can be reached, and no other.
#[test]
fn an_agents_provider_is_reachable() {
    let mut host = Host::new();
    host.request.agent = Some("claude".into());
    let answers = host.resolve();
    assert!(answers.reaches("api.anthropic.com:443") && !answers.reaches("api.openai.com:443"));
    host.request.agent = Some("clade".into());
    assert!(host.try_resolve().unwrap_err().contains("did you mean `claude`?"));
    let mut described = Host::new().project("[agent.mine]\ncommand = [\"mine\"]\n");
    described.request.agent = Some("mine".into());
    described.resolve();
}

/// A pack's variables pass, and an administrator's list of names does not take them away.
#[test]
fn pack_variables_pass() {
    let passes = |host: &Host, name: &str| {
        host.resolve().0.surface.decide_variable(name.as_bytes()) == ringfence_surface::Outcome::Allow
    };
    let rust = Host::new().file("/home/u/proj/Cargo.toml");
    assert!(passes(&rust, "CARGO_TERM_COLOR") && passes(&rust.managed("[env]\npass = []\n"), "CARGO_TERM_COLOR"));
    assert!(!passes(&Host::new(), "CARGO_TERM_COLOR"));
}

/// [C] What chooses a toolchain in the user's shell passes with its pack, and with no other.
#[test]
fn c_the_choice_of_a_toolchain_passes_with_its_pack() {
    let passes = |host: &Host, name: &str| {
        host.resolve().0.surface.decide_variable(name.as_bytes()) == ringfence_surface::Outcome::Allow
    };
    let packs: [(&str, &[&str]); 5] = [
        ("Cargo.toml", &["RUSTUP_TOOLCHAIN", "RUSTFLAGS", "RUSTDOCFLAGS", "CARGO_PROFILE_RELEASE_LTO"]),
        ("package.json", &["NODENV_VERSION", "ASDF_NODEJS_VERSION", "MISE_NODE_VERSION", "COREPACK_ENABLE_STRICT"]),
        ("pyproject.toml", &["PYENV_VERSION", "UV_PYTHON", "UV_PYTHON_PREFERENCE", "ASDF_PYTHON_VERSION"]),
        ("go.mod", &["GOTOOLCHAIN", "GOENV_VERSION", "ASDF_GOLANG_VERSION"]),
        ("pom.xml", &["JAVA_HOME", "JENV_VERSION", "ASDF_JAVA_VERSION"]),
    ];
    for (marker, names) in packs {
        let host = Host::new().file(&format!("/home/u/proj/{marker}"));
        for name in names {
            assert!(passes(&host, name), "{name} with {marker}");
            assert!(!passes(&Host::new(), name), "{name} without {marker}");
        }
        for name in ["RUSTC_WRAPPER", "NODE_OPTIONS", "PYTHONPATH", "GOENV", "JAVA_TOOL_OPTIONS", "CARGO_TARGET_DIR"] {
            assert!(!passes(&host, name), "{name} with {marker}");
        }
    }
}

/// The system's directories are no project, and a home directory is worth a word.
#[test]
fn odd_places_to_start() {
    for dir in ["/", "/usr", "/etc/nginx", "/bin", "/var", "/home", "/mnt"] {
        let mut host = Host::new();
        host.facts.cwd = abs(dir);
        assert!(host.try_resolve().unwrap_err().contains("belongs to the system"), "{dir}");
    }
    let answers = Host::new().cwd("/home/u").resolve();
    assert!(answers.said().contains("all of /home/u"), "{}", answers.said());
    answers.check(&[
        ("/home/u/x", "rw"),
        ("/home/u/.ssh/id", "--"),
        ("/home/u/.bashrc", "--"),
        ("/home/u/.config/ringfence/x", "r-"),
    ]);
}

/// G11: a session with a work tree of its own writes that and what git needs of the repository, and nothing of the others'.
#[test]
fn g11_a_worktree_of_the_sessions_own() {
    let tree = "/home/u/.local/state/ringfence/worktrees/proj/own";
    let host = |policy: &str| Host::new().project(policy).worktree("/home/u/proj", tree);
    let own = |below: &str| format!("{tree}/{below}");
    let checked = |host: Host, more: &[(&str, &str)]| {
        let here = host.resolve();
        here.check(more);
        here.check(&[
            (&own("src/x"), "rw"),
            (&own(".env"), "--"),
            (&own("infra/x"), "r-"),
            (&own(".git"), "r-"),
            (&own(".claude/settings.json"), "r-"),
            ("/home/u/.local/state/ringfence/worktrees/proj/other/src/x", "--"),
            ("/home/u/.local/state/ringfence/audit/log.jsonl", "--"),
            ("/home/u/proj/.git/objects/ab/cd", "rw"),
            ("/home/u/proj/.git/refs/heads/ringfence/own", "rw"),
            ("/home/u/proj/.git/logs/refs/heads/x", "rw"),
            ("/home/u/proj/.git/packed-refs.lock", "rw"),
            ("/home/u/proj/.git/worktrees/own/index", "rw"),
            ("/home/u/proj/.git/worktrees/own/HEAD", "rw"),
            ("/home/u/proj/.git/worktrees/own/commondir", "r-"),
            ("/home/u/proj/.git/worktrees/own/config.worktree", "r-"),
            ("/home/u/proj/.git/worktrees/other/index", "r-"),
            ("/home/u/proj/.git/worktrees/other/HEAD", "r-"),
            ("/home/u/proj/.git/worktrees/other", "r-"),
            ("/home/u/proj/.git/HEAD", "r-"),
            ("/home/u/proj/.git/index", "r-"),
            ("/home/u/proj/.git/index.lock", "r-"),
            ("/home/u/proj/.git/MERGE_HEAD", "r-"),
            ("/home/u/proj/.git/rebase-merge/git-rebase-todo", "r-"),
            ("/home/u/proj/.git/logs/HEAD", "r-"),
            ("/home/u/proj/.git/config", "r-"),
            ("/home/u/proj/.git/hooks/pre-commit", "r-"),
            ("/home/u/proj/.git/objects/info/alternates", "r-"),
        ]);
        here
    };
    let policy =
        "[files]\nwrite = [\".\"]\nread = [\"../docs\"]\ndeny = [\"**/.env\", \"keys\"]\nprotect = [\"infra\"]\n";
    let here = checked(
        host(policy).dir("/home/u/docs"),
        &[
            ("/home/u/proj/src/x", "--"),
            ("/home/u/proj", "--"),
            (&own("keys/k"), "--"),
            ("/home/u/docs/x", "r-"),
            ("/home/u/proj/keys/k", "--"),
        ],
    );
    assert_eq!((here.0.surface.root(), here.0.surface.workdir()), (&abs(tree), &abs(tree)));
    // The user's own work tree is read by whoever names it, without what is denied in it.
    checked(host(policy).reference(b"/home/u/proj"), &[("/home/u/proj/src/x", "r-"), ("/home/u/proj/keys/k", "--")]);
    // A file above the repository speaks for more than the session works on.
    let above = "[files]\nwrite = [\"..\"]\ndeny = [\"**/.env\"]\nprotect = [\"infra\"]\n";
    checked(host(above), &[("/home/u/proj/src/x", "--"), ("/home/u/other/x", "--")]);
    // An administrator's limit for the project holds for its work trees.
    let managed = "[files]\nwrite = [\"/home/u/proj\"]\n";
    checked(host(policy).managed(managed), &[("/home/u/proj/src/x", "--")]);
    // One in the pool of the repository.
    let pool = "[files]\ndeny = [\"**/.env\"]\n[[workspace.repo]]\nname = \"p\"\npath = \".\"\nworktrees_dir = \"../.trees\"\n";
    let pooled = Host::new().dir("/home/u/.trees").project(pool).worktree("/home/u/proj", "/home/u/.trees/own");
    pooled.resolve().check(&[
        ("/home/u/.trees/own/src/x", "rw"),
        ("/home/u/.trees/other/src/x", "--"),
        ("/home/u/proj/src/x", "--"),
    ]);
}

/// K13: a place that is given later is readable, with what is denied in it, and nothing else changes.
#[test]
fn k13_a_place_that_is_given_later() {
    use ringfence_surface::NotGiven;
    let policy = "[files]\nread = [\"/srv/in\"]\ndeny = [\"**/.env\", \"/srv/other/keys\"]\n";
    let surface = Host::new().project(policy).resolve().0.surface;
    let given = surface.with_read(&abs("/srv/other")).expect("nothing denies it");
    let can = |surface: &Surface, path: &str, access| surface.decide(&abs(path), access).is_allowed();
    for (path, before, after) in [
        ("/srv/other", false, true),
        ("/srv/other/a", false, true),
        ("/srv/other/a/.env", false, false),
        ("/srv/other/keys/k", false, false),
        ("/srv/another", false, false),
        ("/srv/in/x", true, true),
        ("/home/u/proj/x", true, true),
        ("/home/u/.ssh/id", false, false),
    ] {
        assert_eq!((can(&surface, path, Access::Read), can(&given, path, Access::Read)), (before, after), "{path}");
        let writes = (can(&surface, path, Access::Write), can(&given, path, Access::Write));
        assert_eq!(writes.0, writes.1, "{path} is written");
    }
    let is_grant = |rule: &&ringfence_surface::Rule| rule.source == Source::Flag { name: "ringfence grant" };
    assert_eq!(given.rules().iter().filter(is_grant).count(), 1);
    for (path, is_there) in [
        ("/srv/other/keys", false),
        ("/srv/other/keys/x", false),
        ("/srv/other/.env", false),
        ("/home/u/.ssh", false),
        ("/home/u/.ssh/id_ed25519", false),
        ("/home/u/.local/state/ringfence", false),
        ("/run/docker.sock", false),
        ("/srv/in/x", true),
        ("/home/u/proj/src", true),
    ] {
        match surface.with_read(&abs(path)) {
            Err(NotGiven::Already { .. }) if is_there => {}
            Err(NotGiven::Denied { .. }) if !is_there => {}
            other => panic!("{path}: {other:?}"),
        }
    }
    // The host's is another than the one that can be read inside.
    let own = surface.with_read(&abs("/tmp/x")).expect_err("it is the session's own");
    assert_eq!(own.to_string(), "/tmp/x lies in /tmp, of which the session has its own");
}

/// K13: a place that is given to be written has in it what is denied and protected anywhere.
#[test]
fn k13_a_place_that_is_given_to_be_written() {
    use ringfence_surface::NotGiven;
    let policy = "[files]\nread = [\"/srv/in\"]\ndeny = [\"**/.env\"]\nprotect = [\"/srv/other/infra\"]\n";
    let surface = Host::new().project(policy).resolve().0.surface;
    let given = surface.with_write(&abs("/srv/other")).expect("nothing denies it");
    let upgraded = surface.with_write(&abs("/srv/in")).expect("what can be read can be given to be written");
    let can = |surface: &Surface, path: &str, access| surface.decide(&abs(path), access).is_allowed();
    for (path, read, write) in [
        ("/srv/other/a", true, true),
        ("/srv/other/infra/x", true, false),
        ("/srv/other/.git/hooks/pre-commit", true, false),
        ("/srv/other/a/.env", false, false),
        ("/srv/in/x", true, false),
        ("/srv/another", false, false),
        ("/home/u/.ssh/id", false, false),
    ] {
        assert_eq!((can(&given, path, Access::Read), can(&given, path, Access::Write)), (read, write), "{path}");
    }
    assert!(can(&upgraded, "/srv/in/x", Access::Write) && !can(&upgraded, "/srv/in/.git/config", Access::Write));
    for path in ["/srv/other/infra", "/srv/other/.env", "/home/u/.ssh", "/home/u/.local/state/ringfence", "/proc/sys"] {
        assert!(matches!(surface.with_write(&abs(path)), Err(NotGiven::Denied { .. })), "{path}");
    }
    assert!(matches!(surface.with_write(&abs("/home/u/proj/src")), Err(NotGiven::Already { .. })));
}

/// K13: a way out that is given later, below the administrator's ceiling.
#[test]
fn k13_a_way_out_that_is_given_later() {
    use ringfence_surface::{NotGiven, Way};
    let policy = "[network]\nallow = [\"*.example.com\", \"one.example.org:22\"]\nhost_ports = [5432]\n";
    let resolved = Host::new().project(policy).resolve().0;
    let way = |text: &str| Way::parse(text).unwrap_or_else(|why| panic!("{text}: {why}"));
    for text in
        ["one.example.org", "one.example.org:23", "example.com", "192.0.2.7:80", "localhost:80", "[2001:db8::1]:1"]
    {
        let given = resolved.surface.with_way(&way(text)).expect("it is not reached yet");
        let reach = (given.reach().hosts.len(), given.reach().host_ports.len());
        let before = (resolved.surface.reach().hosts.len(), resolved.surface.reach().host_ports.len());
        assert_eq!(reach.0 + reach.1, before.0 + before.1 + 1, "{text}");
        assert!(matches!(given.with_way(&way(text)), Err(NotGiven::Reached { .. })), "{text}");
        assert_eq!(Way::parse(&way(text).to_string()), Ok(way(text)));
    }
    for text in ["a.example.com", "*.b.example.com:443", "one.example.org:22", "localhost:5432", "[::1]:5432"] {
        assert!(matches!(resolved.surface.with_way(&way(text)), Err(NotGiven::Reached { .. })), "{text}");
    }
    assert!(matches!(resolved.surface.with_way(&way("10.0.0.0/8:80")), Err(NotGiven::Network { .. })));
    for text in ["*", "*.com", "com", "localhost", "127.0.0.1", "127.0.0.2:1", "localhost:0", "localhost:08", "", "a b"]
    {
        assert!(Way::parse(text).is_err(), "{text}");
    }
}
