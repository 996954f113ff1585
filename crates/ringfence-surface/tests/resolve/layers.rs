//! Whose file may do what: the ceiling, the user, the project with and without trust.

use crate::host::Host;
use ringfence_surface::policy::{EnvName, Tier, View};
use ringfence_surface::{Effect, HostTarget, Level, Outcome, Role};

#[test]
fn an_untrusted_project_only_narrows() {
    let answers = Host::new()
        .dir("/home/u/proj/src")
        .untrusted(
            r#"
            extends = ["node"]
            [workspace]
            self_governing = true
            [[workspace.repo]]
            name = "other"
            path = "../other"
            [files]
            view = "host"
            write = ["src", "../elsewhere"]
            read = ["~", "docs"]
            deny = ["private"]
            [network]
            allow = ["github", "evil.example.com"]
            host_ports = [5432]
            sockets = ["/run/thing.sock"]
            [env]
            pass = ["GITHUB_TOKEN"]
            "#,
        )
        .resolve();
    answers.check(&[
        ("/home/u/proj/src/x", "rw"),
        ("/home/u/proj/docs/x", "r-"),
        ("/home/u/proj/private/x", "--"),
        ("/home/u/elsewhere/x", "--"),
        ("/home/u/other/x", "--"),
        ("/home/u/x", "--"),
        ("/var/log/x", "--"),
    ]);
    assert!(!answers.reaches("evil.example.com:443") && !answers.reaches("github.com:443"));
    let surface = &answers.0.surface;
    assert_eq!(surface.view(), View::Surface);
    assert!(surface.decide_host_port(5432).is_none() && surface.reach().sockets.is_empty() && surface.env().is_empty());
    assert_eq!(surface.governance(), &ringfence_surface::Governance::Fenced);
    let omitted = answers.omitted();
    for entry in [
        "pack node",
        "../elsewhere",
        "~",
        "../other",
        "evil.example.com",
        "5432",
        "/run/thing.sock",
        "env GITHUB_TOKEN",
        "self_governing = true",
        "view = \"host\"",
    ] {
        assert!(omitted.iter().any(|o| o.starts_with(entry) && o.contains("not trusted")), "{entry}: {omitted:#?}");
    }
}

/// `/` asked for without trust comes down to what holds anyway: the current directory.
#[test]
fn an_untrusted_wish_for_everything_is_cut_down() {
    let answers = Host::new().untrusted("[files]\nwrite = [\"/\"]\n").resolve();
    answers.check(&[("/home/u/proj/x", "rw"), ("/home/u/x", "--"), ("/usr/x", "r-"), ("/etc/x", "r-")]);
    // The private `/tmp` must not turn into the host's.
    let surface = &answers.0.surface;
    let tmp: Vec<_> =
        surface.rules().iter().filter(|r| r.pattern.as_path() == Some(&crate::host::abs("/tmp"))).collect();
    assert!(tmp.iter().all(|rule| matches!(rule.effect, Effect::Write(Role::Private))), "{tmp:?}");
}

/// A file planted further up does not move the root up.
#[test]
fn an_untrusted_file_above_does_not_widen_the_root() {
    let answers = Host::new()
        .cwd("/home/u/proj/deep")
        .policy(Level::Project(ringfence_surface::Trust::Untrusted), "/home/u/ringfence.toml", "")
        .resolve();
    answers.check(&[("/home/u/proj/deep/x", "rw"), ("/home/u/proj/x", "--"), ("/home/u/x", "--")]);
    let answers = Host::new().untrusted("[workspace]\nroot = \"..\"\n").resolve();
    answers.check(&[("/home/u/proj/x", "rw"), ("/home/u/x", "--")]);
    assert!(answers.omitted()[0].contains("not trusted"));
}

/// A persona or a task of an untrusted file gains nothing either.
#[test]
fn untrusted_personas_and_tasks_only_narrow() {
    let policy = "[persona.p]\nworkdir = \"src\"\nread = [\"~\"]\n[persona.q]\nwrite = [\"..\"]\n[task.t]\nwrite = [\"../x\"]\nread = [\"/srv\"]\n";
    let host = || Host::new().dir("/home/u/proj/src").dir("/home/u/x").untrusted(policy);
    host().persona("p").task("t").resolve().check(&[
        ("/home/u/proj/src/x", "rw"),
        ("/home/u/proj/x", "r-"),
        ("/home/u/x/y", "--"),
        ("/home/u/notes", "--"),
        ("/srv/x", "--"),
    ]);
    host().persona("q").resolve().check(&[("/home/u/proj/x", "rw"), ("/home/u/notes", "--")]);
}

/// Trusted, the same file may widen.
#[test]
fn a_trusted_project_may_widen() {
    let answers = Host::new().project("[files]\nwrite = [\".\", \"../elsewhere\"]\nread = [\"~/docs\"]\n[network]\nallow = [\"api.example.com:8443\"]\nhost_ports = [5432]\n").resolve();
    answers.check(&[("/home/u/elsewhere/x", "rw"), ("/home/u/docs/x", "r-")]);
    assert!(answers.reaches("api.example.com:8443") && !answers.reaches("api.example.com:443"));
    assert!(answers.0.surface.decide_host_port(5432).is_some());
}

/// Deny and protect add up from every file.
#[test]
fn deny_and_protect_accumulate() {
    let answers = Host::new()
        .managed("[files]\ndeny = [\"/home/*/proj/m\"]\nprotect = [\"**/pm\"]\n")
        .user("[files]\ndeny = [\"~/proj/u\", \"**/uu\"]\nprotect = [\"~/proj/pu\"]\n")
        .project("[files]\ndeny = [\"p\"]\nprotect = [\"pp\"]\n")
        .resolve();
    answers.check(&[
        ("/home/u/proj/m/x", "--"),
        ("/home/u/proj/u/x", "--"),
        ("/home/u/proj/a/uu/x", "--"),
        ("/home/u/proj/p/x", "--"),
        ("/home/u/proj/pm", "r-"),
        ("/home/u/proj/pu", "r-"),
        ("/home/u/proj/pp", "r-"),
        ("/home/u/proj/x", "rw"),
    ]);
}

/// Nothing passes the managed file: not a trusted project, not the user, not a flag.
#[test]
fn the_managed_file_is_a_ceiling() {
    let mut host = Host::new()
        .managed(
            r#"
            [workspace]
            tier = "production"
            self_governing = false
            [files]
            view = "surface"
            write = ["/home/*/proj"]
            read = ["/home/*/docs"]
            [network]
            allow = ["github.com:443", "api.example.com"]
            host_ports = [5432]
            sockets = []
            [env]
            pass = ["CI"]
            [limits]
            memory = "1GiB"
            "#,
        )
        .user("[files]\nread = [\"~/secret-plans\"]\n[network]\nallow = [\"github\"]\n")
        .project(
            r#"
            [workspace]
            tier = "development"
            self_governing = true
            [files]
            view = "host"
            write = [".", "~/elsewhere"]
            read = ["~/docs", "~"]
            [network]
            allow = ["api.example.com", "evil.example.com"]
            host_ports = [5432, 6379]
            sockets = ["/run/x.sock"]
            [env]
            pass = ["CI", "TOKEN"]
            [limits]
            memory = "8GiB"
            "#,
        )
        .reference(b"/srv/ref");
    host.request.env.push(EnvName::new("FROM_FLAG").unwrap());
    let answers = host.resolve();
    answers.check(&[
        ("/home/u/proj/x", "rw"),
        ("/home/u/docs/x", "r-"),
        ("/home/u/elsewhere/x", "--"),
        ("/home/u/secret-plans/x", "--"),
        ("/home/u/x", "--"),
        ("/srv/ref", "--"),
        ("/var/log/x", "--"),
        ("/usr/bin/cc", "r-"),
    ]);
    let surface = &answers.0.surface;
    assert_eq!((surface.view(), surface.tier()), (View::Surface, Tier::Production));
    assert_eq!(surface.governance(), &ringfence_surface::Governance::Fenced);
    assert!(answers.reaches("github.com:443") && answers.reaches("api.example.com:443"));
    assert!(!answers.reaches("evil.example.com:443") && !answers.reaches("github.com:22"));
    assert!(surface.decide_host_port(5432).is_some() && surface.decide_host_port(6379).is_none());
    assert!(surface.reach().sockets.is_empty());
    assert_eq!(surface.env().iter().map(|e| e.value.as_str()).collect::<Vec<_>>(), ["CI"]);
    assert_eq!(surface.caps().memory.as_ref().unwrap().value, 1 << 30);
    let omitted = answers.omitted();
    for entry in [
        "~/elsewhere",
        "~/secret-plans",
        "/srv/ref",
        "evil.example.com",
        "6379",
        "/run/x.sock",
        "env TOKEN",
        "env FROM_FLAG",
        "limits.memory",
        "tier",
        "self_governing",
        "view",
    ] {
        assert!(
            omitted.iter().any(|o| o.starts_with(entry) && o.contains("the managed policy's")),
            "{entry}: {omitted:#?}"
        );
    }
}

/// The ceiling binds the default too: a directory it does not cover is no place to work.
#[test]
fn a_working_directory_beyond_the_ceiling() {
    let host = Host::new().managed("[files]\nwrite = [\"/srv\"]\nread = [\"/srv\"]\n");
    assert!(host.try_resolve().unwrap_err().contains("is beyond what the managed policy"));
    let readable = Host::new().managed("[files]\nwrite = [\"/srv\"]\n").resolve();
    readable.check(&[("/home/u/proj/x", "r-"), ("/srv/x", "--")]);
    let inside = Host::new().managed("[files]\nwrite = [\"/home/u/proj/src\"]\n").resolve();
    inside.check(&[("/home/u/proj/src/x", "rw"), ("/home/u/proj/x", "r-")]);
}

/// [E4] The administrator's limit does not follow a symbolic link that an agent can make, now or in an earlier session: with
/// `write = ["/srv"]` it would have come down to wherever the agent pointed the link.
#[test]
fn e4_a_ceiling_does_not_follow_a_link_of_the_agents() {
    let host =
        || Host::new().dir("/srv").link("/srv/data", "/vault").dir("/vault").user("[files]\nwrite = [\"/srv\"]\n");
    let ceiling = "[files]\nread = [\"/home/u/proj\", \"/srv/data\"]\n";
    let resolved = host().managed(ceiling).resolve();
    resolved.check(&[("/home/u/proj/x", "rw"), ("/vault/x", "--"), ("/srv/data", "--"), ("/srv/x", "--")]);
    let omitted = resolved.omitted();
    assert!(omitted.iter().any(|line| line.contains("/srv/data") && line.contains("/vault")), "{omitted:#?}");
    // A link that no agent can make leads where it did.
    let ours =
        Host::new().dir("/srv").link("/srv/data", "/vault").dir("/vault").user("[files]\nread = [\"/vault/a\"]\n");
    ours.dir("/vault/a").managed(ceiling).resolve().check(&[("/vault/a/x", "r-"), ("/vault/x", "--")]);
}

#[test]
fn keys_in_the_wrong_file_are_refused() {
    let said = Host::new().managed("extends = [\"rust\"]\n[persona.x]\n").try_resolve().unwrap_err();
    assert!(
        said.contains("`extends` has no meaning in this file") && said.contains("`persona` has no meaning"),
        "{said}"
    );
    let said =
        Host::new().managed("[files]\ndeny = [\"$GOPATH/x\", \"~/y\", \"$HOME/z\"]\n").try_resolve().unwrap_err();
    assert_eq!(said.matches("a variable of the caller cannot stand").count(), 1, "{said}");
    let said = Host::new().user("[workspace]\nroot = \"/\"\nself_governing = true\n").try_resolve().unwrap_err();
    assert_eq!(said.matches("has no meaning in this file").count(), 2, "{said}");
}

/// The user's own entries add to the project's; the project's `network.allow` takes the place of its packs' groups.
#[test]
fn user_and_project_add_up() {
    let answers = Host::new()
        .file("/home/u/proj/package.json")
        .user("[files]\nwrite = [\"~/scratch\"]\nread = [\"~/notes\"]\n[network]\nallow = [\"user.example.com\"]\n[env]\npass = [\"EDITOR_THEME\"]\n")
        .project("[network]\nallow = [\"project.example.com\"]\n")
        .resolve();
    answers.check(&[("/home/u/scratch/x", "rw"), ("/home/u/notes/x", "r-"), ("/home/u/proj/x", "rw")]);
    assert!(answers.reaches("user.example.com:443") && answers.reaches("project.example.com:80"));
    assert!(!answers.reaches("registry.npmjs.org:443"));
    assert_eq!(answers.0.surface.packs(), ["node"]);
}

/// `--policy FILE` stands in the project's place: relative to itself, the root is where the user is.
#[test]
fn an_explicit_policy() {
    let answers =
        Host::new().policy(Level::Explicit, "/etc/fences/strict.toml", "[files]\nread = [\"shared\"]\n").resolve();
    assert_eq!(answers.0.surface.root(), &crate::host::abs("/home/u/proj"));
    answers.check(&[("/home/u/proj/x", "rw"), ("/etc/fences/shared/x", "r-")]);
}

/// What runs code or carries secrets is passed when it is named, with a warning.
#[test]
fn dangerous_variables_are_named() {
    let answers = Host::new().project("[env]\npass = [\"AWS_SECRET_ACCESS_KEY\", \"MY_COLOR\"]\n").resolve();
    assert!(answers.said().contains("AWS_SECRET_ACCESS_KEY is passed to the agent"), "{}", answers.said());
    assert!(!answers.said().contains("MY_COLOR is passed"));
}

/// An untrusted persona cannot lead the agent out of the project to read elsewhere.
#[test]
fn an_untrusted_persona_reads_nothing_new() {
    let host = Host::new().dir("/home/u/other").untrusted("[persona.x]\nworkdir = \"~\"\nwrite = []\n").persona("x");
    let said = host.try_resolve().unwrap_err();
    assert!(said.contains("the working directory /home/u is beyond"), "{said}");
}

/// What is writable is readable: a managed limit on reading limits writing and the view.
#[test]
fn a_managed_limit_on_reading_cannot_be_walked_around() {
    let host = || Host::new().managed("[files]\nread = [\"/home/*/proj\"]\n");
    let answers = host().user("[files]\nview = \"host\"\nwrite = [\"/srv\"]\n").resolve();
    answers.check(&[("/srv/x", "--"), ("/var/log/x", "--"), ("/home/u/proj/x", "rw"), ("/usr/x", "r-")]);
    assert_eq!(answers.omitted().len(), 2, "{:?}", answers.omitted());
}

/// `--policy` does not make a system directory a project.
#[test]
fn an_explicit_policy_in_a_system_directory() {
    let mut host = Host::new().policy(Level::Explicit, "/home/u/p.toml", "");
    host.facts.cwd = crate::host::abs("/etc");
    assert!(host.try_resolve().unwrap_err().contains("belongs to the system"));
}

/// A group that is left out is named once, as it was written.
#[test]
fn a_group_is_left_out_by_its_name() {
    let answers = Host::new().untrusted("[network]\nallow = [\"github\"]\n").resolve();
    assert_eq!(answers.omitted(), ["github: the project's file is not trusted, so it can only narrow"]);
}

/// On a plain host nothing is reported that nobody asked for.
#[test]
fn built_in_rows_make_no_noise() {
    let answers = Host::new().resolve();
    assert_eq!(answers.0.omissions, []);
}

/// A secret that does not pass is not said to pass.
#[test]
fn no_false_warning_about_secrets() {
    let answers = Host::new().untrusted("[env]\npass = [\"AWS_SECRET_ACCESS_KEY\"]\n").resolve();
    assert_eq!(answers.said(), "");
}

/// Packs that the user names everywhere come beside those of the project; a file that only extends a file names none.
#[test]
fn the_users_packs_add_to_what_is_found() {
    let host = || Host::new().file("/home/u/proj/Cargo.toml");
    assert_eq!(host().user("extends = [\"git\"]\n").resolve().0.surface.packs(), ["git", "rust"]);
    assert_eq!(host().project("extends = [\"./b.toml\"]\n").resolve().0.surface.packs(), ["rust"]);
    assert_eq!(host().project("extends = []\n").resolve().0.surface.packs(), Vec::<&str>::new());
}

/// An empty persona of an untrusted file does not undo the user's own of that name.
#[test]
fn an_untrusted_persona_does_not_replace_the_users() {
    for user in ["[persona.r]\nwrite = []\n", "[persona.r]\nworkdir = \"~/work\"\n"] {
        let host = || Host::new().dir("/home/u/work").user(user).persona("r");
        host().resolve().check(&[("/home/u/proj/x", "r-")]);
        host().untrusted("[persona.r]\n").resolve().check(&[("/home/u/proj/x", "r-")]);
    }
}

/// A root chosen by an untrusted file brings no git directory, cache or pack that does not hold without it.
#[test]
fn an_untrusted_root_brings_nothing_along() {
    let answers = Host::new()
        .dir("/home/u/proj/sub")
        .file("/home/u/proj/sub/Cargo.toml")
        .git("/home/u/proj/sub/.git", "/srv/r/.git/worktrees/sub", "/srv/r/.git", true)
        .untrusted("[workspace]\nroot = \"sub\"\n")
        .resolve();
    answers.check(&[("/home/u/proj/sub/x", "rw"), ("/srv/r/.git/objects/x", "--")]);
    assert!(!answers.reaches("crates.io:443"));
    let caches = answers.0.surface.rules().iter().filter(|r| matches!(r.effect, Effect::Write(Role::Cache)));
    assert_eq!(caches.count(), 0);
}

/// Narrowing the view or the reads of a session does not move where patterns are searched for.
#[test]
fn an_untrusted_file_does_not_move_the_roots_of_patterns() {
    let host = || Host::new().user("[files]\nview = \"host\"\ndeny = [\"**/.env\"]\n");
    host().resolve().check(&[("/etc/foo/.env", "--")]);
    host().untrusted("[files]\nview = \"surface\"\n").resolve().check(&[("/etc/foo/.env", "--"), ("/etc/foo/x", "r-")]);
    let host = || Host::new().user("[files]\ndeny = [\"/etc/corp\", \"!**/README\"]\n");
    host().untrusted("[files]\nread = [\"/etc\"]\n").resolve().check(&[("/etc/corp/README", "--")]);
}

/// The caller's `$HOME` moves nothing of the administrator's.
#[test]
fn a_managed_home_is_the_accounts() {
    let host = || Host::new().managed("[files]\ndeny = [\"~/finance\"]\nwrite = [\"~/proj\"]\n");
    let reads = |host: Host| host.project("[files]\nread = [\"/home/u\"]\nwrite = [\"/\"]\n").resolve();
    reads(host()).check(&[("/home/u/finance/x", "--"), ("/home/u/proj/x", "rw")]);
    let mut unset = host();
    unset.facts.environment.remove(b"HOME".as_slice());
    reads(unset).check(&[("/home/u/finance/x", "--"), ("/home/u/proj/x", "rw"), ("/srv/x", "--")]);
    let moved = host().dir("/srv/o/proj").env("HOME", "/srv/o");
    reads(moved).check(&[("/home/u/finance/x", "--"), ("/home/u/proj/x", "rw"), ("/srv/o/proj/x", "--")]);
}

/// Where an administrator has spoken, a session without OS layers needs leave.
#[test]
fn self_governing_needs_the_administrators_leave() {
    let governs = |managed: &str| {
        let host =
            Host::new().managed(managed).project("[workspace]\nself_governing = true\n[files]\nwrite = [\"src\"]\n");
        let answers = host.resolve();
        assert_eq!(
            answers.writes("/home/u/proj/x"),
            *answers.0.surface.governance() != ringfence_surface::Governance::Fenced
        );
        answers.writes("/home/u/proj/x")
    };
    assert!(!governs("[workspace]\ntier = \"production\"\n"));
    assert!(!governs(""));
    assert!(governs("[workspace]\nself_governing = true\n"));
}

/// A list that is longer than anybody writes is refused rather than compared for minutes.
#[test]
fn endless_lists_are_refused() {
    use ringfence_surface::policy::PolicyFile;
    use ringfence_surface::text::PolicyText;
    let ports = "80,".repeat(20_000);
    let text = PolicyText::new(b"p", format!("version = 1\n[network]\nhost_ports = [{ports}]\n").into_bytes()).unwrap();
    let said = PolicyFile::parse(&text).unwrap_err();
    assert!(said[0].message.contains("this list has 20000 entries"), "{}", said[0]);
}

/// What an untrusted file wrote is shown without its control characters.
#[test]
fn omissions_are_safe_to_show() {
    let answers =
        Host::new().untrusted("[files]\nread = [\"/nope\\u001b]0;x\\u0007\\u202e\\nringfence: ok\"]\n").resolve();
    let shown = answers.omitted().join("");
    assert!(!shown.contains(['\u{1b}', '\u{7}', '\n', '\u{202e}']) && shown.contains("\\u{1b}"), "{shown}");
}

/// Names that may lead to private addresses: a trusted file says so, an untrusted one cannot, and nobody goes past the ceiling.
#[test]
fn hosts_that_may_be_private() {
    let network =
        "[network]\nallow = [\"*.corp.example.com\", \"api.example.com\"]\nprivate = [\"*.corp.example.com\"]\n";
    let private = |host: Host, name: &str| {
        let target = HostTarget::parse(name).unwrap();
        let answers = host.resolve();
        (answers.0.surface.decide_private(&target).is_some(), answers)
    };
    assert!(private(Host::new().project(network), "git.corp.example.com").0);
    assert!(private(Host::new().user(network), "git.corp.example.com").0);
    assert!(!private(Host::new().project(network), "api.example.com").0);
    // As in `allow`, no port means 80 and 443.
    assert!(!private(Host::new().project(network), "git.corp.example.com:22").0);
    let (is_private, answers) = private(
        Host::new().user("[network]\nallow = [\"*.corp.example.com\"]\n").untrusted(network),
        "git.corp.example.com",
    );
    assert!(!is_private && answers.reaches("git.corp.example.com"));
    assert!(
        answers.omitted().iter().any(|o| o.contains("private *.corp.example.com") && o.contains("not trusted")),
        "{:?}",
        answers.omitted()
    );
    let ceiling = Host::new().managed("[network]\nprivate = [\"git.corp.example.com:443\"]\n").project(network);
    let (is_private, answers) = private(ceiling, "git.corp.example.com");
    assert!(is_private);
    let other = HostTarget::parse("wiki.corp.example.com").unwrap();
    assert!(answers.0.surface.decide_private(&other).is_none() && answers.reaches("wiki.corp.example.com"));
    assert!(answers.omitted().iter().any(|o| o.contains("network.private")), "{:?}", answers.omitted());
}

/// A host that is not reached is not private either, and somebody should know.
#[test]
fn private_hosts_that_are_not_allowed_are_warned_of() {
    let warns = |policy: &str| {
        let said = Host::new().project(policy).resolve().0.diagnostics;
        said.iter().any(|d| d.message.contains("private db.example.com has no effect"))
    };
    assert!(warns("[network]\nallow = [\"api.example.com\"]\nprivate = [\"db.example.com\"]\n"));
    assert!(warns("[network]\nallow = [\"db.example.com:5432\"]\nprivate = [\"db.example.com\"]\n"));
    assert!(!warns("[network]\nallow = [\"*.example.com\"]\nprivate = [\"db.example.com\"]\n"));
    assert!(!warns("[network]\nallow = [\"db.example.com:443\"]\nprivate = [\"db.example.com\"]\n"));
    // The user's own file speaks for every project, whatever this one reaches.
    let user = Host::new().user("[network]\nprivate = [\"db.example.com\"]\n").resolve().0.diagnostics;
    assert!(!user.iter().any(|d| d.message.contains("has no effect")), "{user:?}");
}

/// A credential is named by a file that is trusted, and its variable does not pass, whoever names it.
#[test]
fn credentials_stay_outside() {
    let inject = |header: &str| {
        format!(
            "[network]\nallow = [\"api.example.com\"]\n[env]\npass = [\"API_KEY\"]\n\
             [network.inject.\"API.example.com.\"]\nheader = \"{header}\"\nfrom_env = \"API_KEY\"\n"
        )
    };
    let answers = Host::new().project(&inject("X-Api-Key")).resolve();
    let injected = answers.0.surface.decide_injected(b"API_KEY").unwrap();
    assert_eq!(injected.value.to_string(), "x-api-key for api.example.com from API_KEY");
    assert_eq!(answers.0.surface.decide_variable(b"API_KEY"), Outcome::Deny);
    let said = &answers.0.diagnostics;
    assert!(said.iter().any(|d| d.message.contains("API_KEY is not passed")), "{said:?}");
    // A project's own word comes after the user's.
    let both = Host::new().user(&inject("user")).project(&inject("project")).resolve();
    let headers: Vec<&str> = both.0.surface.reach().inject.iter().map(|entry| entry.value.header.as_str()).collect();
    assert_eq!(headers, ["project"]);
    let both = Host::new().user(&inject("user")).untrusted(&inject("project")).resolve();
    let headers: Vec<&str> = both.0.surface.reach().inject.iter().map(|entry| entry.value.header.as_str()).collect();
    assert_eq!(headers, ["user"]);
    assert!(both.omitted().iter().any(|o| o.contains("inject project for") && o.contains("not trusted")));
    let untrusted = Host::new().untrusted(&inject("x-api-key")).resolve();
    assert!(untrusted.0.surface.reach().inject.is_empty());
    let unreached = "[network]\nallow = [\"api.example.com:80\"]\n[network.inject.\"api.example.com\"]\nheader = \"x\"\nfrom_env = \"K\"\n";
    let said = Host::new().project(unreached).resolve().0.diagnostics;
    assert!(said.iter().any(|d| d.message.contains("reaches port 443")), "{said:?}");
}

/// K16: every file adds watches, also one that nobody has trusted, and none takes one away.
#[test]
fn k16_watches_add_up() {
    let watch =
        |count: u32, then: &str| format!("[[watch]]\nwhen = {{ denied = \">{count} in 1m\" }}\nthen = \"{then}\"\n");
    let answers = Host::new()
        .managed(&watch(50, "stop"))
        .user(&watch(20, "pause"))
        .untrusted(&(watch(1_000, "notify") + &watch(5, "notify")))
        .resolve();
    let found: Vec<String> = answers.0.watches.iter().map(|watch| watch.value.to_string()).collect();
    let expected = ["denied >50 in 1m then stop", "denied >20 in 1m then pause"];
    assert_eq!(found[..2], expected.map(str::to_owned));
    assert_eq!(found[2..], ["denied >1000 in 1m then notify", "denied >5 in 1m then notify"].map(str::to_owned));
    assert!(answers.omitted().is_empty() && answers.0.watches[3].source.to_string().contains("ringfence.toml"));
}
