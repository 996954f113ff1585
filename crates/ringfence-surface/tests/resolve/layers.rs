//! Whose file may do what: the ceiling, the user, the project with and without trust.

use crate::host::Host;
use ringfence_surface::policy::{EnvName, Tier, View};
use ringfence_surface::{Effect, Level, Role};

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

#[test]
fn keys_in_the_wrong_file_are_refused() {
    let said = Host::new().managed("extends = [\"rust\"]\n[persona.x]\n").try_resolve().unwrap_err();
    assert!(
        said.contains("`extends` has no meaning in this file") && said.contains("`persona` has no meaning"),
        "{said}"
    );
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
