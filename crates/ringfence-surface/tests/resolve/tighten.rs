//! A call's own policy is never wider than the session's.

use std::time::Duration;

use proptest::prelude::*;
use ringfence_surface::policy::{EnvName, Tier, View};
use ringfence_surface::{AbsPath, Access, HostPattern, HostTarget, Outcome, Pattern, SubPolicy, Surface};

use crate::host::{Host, abs};

fn pattern(text: &str) -> Pattern {
    Pattern::parse(text).expect(text)
}

fn session() -> Surface {
    let policy = r#"
        [files]
        write = [".", "/srv/out"]
        read = ["/srv/in"]
        deny = ["**/.env", "!**/ok/.env", "private"]
        protect = ["infra"]
        [network]
        allow = ["api.example.com", "*.cdn.example.com:443"]
        host_ports = [5432]
        sockets = ["/run/db.sock"]
        [env]
        pass = ["TOKEN"]
        [limits]
        memory = "1GiB"
        pids = 100
        wall = "1h"
    "#;
    Host::new().project(policy).resolve().0.surface
}

#[track_caller]
fn gains(change: impl FnOnce(&mut SubPolicy), expected: &str) {
    let mut call = SubPolicy::unchanged();
    change(&mut call);
    let widens = session().tighten(&call).expect_err(expected);
    assert_eq!(widens.to_string(), format!("this would gain {expected}"));
}

/// K10: a widening is refused with the thing that would be gained.
#[test]
fn k10_what_widens_is_refused() {
    gains(|c| c.write = Some(vec![pattern("/home/u/proj/src"), pattern("/home/u/x")]), "write /home/u/x");
    gains(|c| c.write = Some(vec![pattern("/srv/in")]), "write /srv/in");
    gains(|c| c.write = Some(vec![pattern("/")]), "write /");
    gains(|c| c.write = Some(vec![pattern("/home/u/*/x")]), "write /home/u/*/x");
    gains(|c| c.write = Some(vec![pattern("/home/u/proj/infra/a")]), "write /home/u/proj/infra/a");
    gains(|c| c.write = Some(vec![pattern("/home/u/proj/.git/hooks")]), "write /home/u/proj/.git/hooks");
    gains(|c| c.write = Some(vec![pattern("**/x")]), "write **/x");
    gains(|c| c.read = Some(vec![pattern("/home/u/.ssh")]), "read /home/u/.ssh");
    gains(|c| c.read = Some(vec![pattern("/home/u/proj/private/x")]), "read /home/u/proj/private/x");
    gains(|c| c.workdir = Some(abs("/home/u")), "a working directory: /home/u");
    gains(|c| c.view = Some(View::Host), "the view of the host");
    let host = |text: &str| Some(vec![HostPattern::parse(text).expect(text)]);
    gains(|c| c.hosts = host("evil.example.com"), "host evil.example.com");
    gains(|c| c.hosts = host("api.example.com:8080"), "host api.example.com:8080");
    gains(|c| c.hosts = host("*.example.com:443"), "host *.example.com:443");
    gains(|c| c.host_ports = Some(vec![5432, 22]), "loopback port 22");
    gains(|c| c.sockets = Some(vec![abs("/run/docker.sock")]), "socket /run/docker.sock");
    gains(|c| c.env = EnvName::new("AWS_SECRET_ACCESS_KEY").map(|name| vec![name]), "variable AWS_SECRET_ACCESS_KEY");
    gains(|c| c.memory = Some(2 << 30), "more memory");
    gains(|c| c.pids = Some(101), "more processes");
    gains(|c| c.wall = Some(Duration::from_secs(3601)), "more time");
}

/// K10: a tier is never lowered.
#[test]
fn k10_the_tier_is_never_lowered() {
    let session = Host::new().project("[workspace]\ntier = \"production\"\n").resolve().0.surface;
    let call = SubPolicy { tier: Some(Tier::Development), ..SubPolicy::unchanged() };
    assert!(session.tighten(&call).is_err());
}

/// K10: what the session could write stays readable; what the call denies is denied; scratch stays.
#[test]
fn k10_a_narrower_call() {
    let call = SubPolicy {
        write: Some(vec![pattern("/home/u/proj/src")]),
        deny: vec![pattern("/home/u/proj/keys"), pattern("**/*.pem")],
        protect: vec![pattern("/home/u/proj/src/gen")],
        hosts: Some(Vec::new()),
        sockets: Some(vec![abs("/run/db.sock")]),
        env: Some(Vec::new()),
        memory: Some(1 << 20),
        ..SubPolicy::unchanged()
    };
    let narrow = session().tighten(&call).expect("narrower");
    let check = |path: &str, read: bool, write: bool| {
        assert_eq!(narrow.decide(&abs(path), Access::Read).is_allowed(), read, "read {path}");
        assert_eq!(narrow.decide(&abs(path), Access::Write).is_allowed(), write, "write {path}");
    };
    check("/home/u/proj/src/x.rs", true, true);
    check("/home/u/proj/src/gen/x.rs", true, false);
    check("/home/u/proj/Cargo.toml", true, false);
    check("/srv/out/x", true, false);
    check("/srv/in/x", true, false);
    check("/home/u/proj/keys/x", false, false);
    check("/home/u/proj/a/b.pem", false, false);
    check("/home/u/proj/.env", false, false);
    check("/tmp/x", true, true);
    check("/usr/bin/cc", true, false);
    assert!(narrow.decide_host(&HostTarget::parse("api.example.com").expect("host")).is_none());
    assert!(narrow.decide_host_port(5432).is_some());
    assert_eq!(narrow.decide_variable(b"TOKEN"), Outcome::Deny);
    // Narrower still, and never back.
    assert!(narrow.tighten(&SubPolicy { write: Some(vec![pattern("/srv/out")]), ..SubPolicy::unchanged() }).is_err());
}

/// K10: reading can be narrowed to a list; programs still run.
#[test]
fn k10_reading_only_what_is_listed() {
    let call =
        SubPolicy { write: Some(Vec::new()), read: Some(vec![pattern("/home/u/proj/docs")]), ..SubPolicy::unchanged() };
    let narrow = session().tighten(&call).expect("narrower");
    for (path, expected) in
        [("/home/u/proj/docs/x", true), ("/home/u/proj/src", false), ("/srv/in/x", false), ("/usr/bin/cc", true)]
    {
        assert_eq!(narrow.decide(&abs(path), Access::Read).is_allowed(), expected, "{path}");
    }
    assert!(!narrow.decide(&abs("/home/u/proj/docs/x"), Access::Write).is_allowed());
}

/// The session's private `/tmp` does not become the host's when a call names a part of it.
#[test]
fn k10_a_private_directory_stays_private() {
    use ringfence_surface::{Because, Effect, Role};
    let call = SubPolicy { write: Some(vec![pattern("/tmp/part")]), ..SubPolicy::unchanged() };
    let narrow = session().tighten(&call).expect("narrower");
    let verdict = narrow.decide(&abs("/tmp/part/x"), Access::Write);
    assert!(
        matches!(verdict.because, Because::Rule(rule) if rule.effect == Effect::Write(Role::Private)),
        "{verdict:?}"
    );
}

fn in_session(policy: &str) -> Surface {
    let mut host = Host::new().project(policy);
    host.facts.session = Some(abs(SESSION));
    host.resolve().0.surface
}

const SESSION: &str = "/home/u/.local/state/ringfence/sessions/s";

#[track_caller]
fn check(surface: &Surface, path: &str, read: bool, write: bool) {
    assert_eq!(surface.decide(&abs(path), Access::Read).is_allowed(), read, "read {path}");
    assert_eq!(surface.decide(&abs(path), Access::Write).is_allowed(), write, "write {path}");
}

/// K10: a tool writes where the session works; what was granted besides is readable only, and no named variable passes.
#[test]
fn k10_what_a_tool_gets() {
    let session = in_session(
        "[files]\nwrite = [\".\", \"/srv/out\"]\n[network]\nallow = [\"api.example.com\"]\n[env]\npass = [\"TOKEN\"]\n",
    );
    let tool = session.tighten(&SubPolicy::for_tools(&session)).expect("narrower");
    check(&tool, "/home/u/proj/src", true, true);
    check(&tool, "/srv/out/x", true, false);
    check(&tool, "/tmp/x", true, true);
    assert_eq!(session.decide_variable(b"TOKEN"), Outcome::Allow);
    assert_eq!(tool.decide_variable(b"TOKEN"), Outcome::Deny);
    assert_eq!(tool.decide_variable(b"TERM"), Outcome::Allow);
    let api = HostTarget::parse("api.example.com").expect("host");
    assert!(tool.decide_host(&api).is_some());
    let closed = session.tighten(&SubPolicy::for_tools(&session).without_network()).expect("narrower");
    assert!(closed.decide_host(&api).is_none());
}

/// K10: parts of the project that are granted one by one stay; one that is protected as a whole needs no grant.
#[test]
fn k10_a_tool_writes_what_the_session_does_of_the_project() {
    let session = in_session("[files]\nwrite = [\"src\", \"infra\", \"/srv/out\"]\nprotect = [\"infra\"]\n");
    let tool = session.tighten(&SubPolicy::for_tools(&session)).expect("narrower");
    check(&tool, "/home/u/proj/src/x", true, true);
    check(&tool, "/home/u/proj/infra/x", true, false);
    check(&tool, "/home/u/proj/x", true, false);
    check(&tool, "/srv/out/x", true, false);
}

/// K10: who only looks leaves nothing behind, not even in the caches.
#[test]
fn k10_looking_writes_nothing() {
    let session = in_session("extends = [\"rust\"]\n");
    let caches: Vec<AbsPath> = session
        .allowed_writes()
        .filter(|rule| rule.effect == ringfence_surface::Effect::Write(ringfence_surface::Role::Cache))
        .filter_map(|rule| rule.pattern.as_path().cloned())
        .collect();
    assert!(!caches.is_empty());
    let looks = session.tighten(&SubPolicy::for_looking(&session)).expect("narrower");
    check(&looks, "/home/u/proj/x", true, false);
    check(&looks, "/tmp/x", true, true);
    for cache in caches {
        check(&session, &cache.to_string(), true, true);
        check(&looks, &cache.to_string(), true, false);
    }
}

/// K10: a call has a home of its own; the session's, where its agent keeps what it runs and what it logs in with, is gone.
#[test]
fn k10_a_call_has_a_home_of_its_own() {
    let session = in_session("");
    let beside = "/home/u/.local/state/ringfence/calls/c";
    let call = SubPolicy { scratch: Some(abs(beside)), ..SubPolicy::for_tools(&session) };
    let tool = session.tighten(&call).expect("narrower");
    check(&session, &format!("{SESSION}/home/x"), true, true);
    check(&tool, &format!("{SESSION}/home/x"), false, false);
    check(&tool, &format!("{SESSION}/tmp/x"), false, false);
    check(&tool, &format!("{beside}/home/x"), true, true);
    check(&tool, &format!("{beside}/tmp/x"), true, true);
    check(&tool, &format!("{beside}/given/record"), true, false);
    check(&tool, &format!("{SESSION}/given/record"), false, false);
    check(&tool, "/home/u/.local/state/ringfence/trust", false, false);
    // Once more, from there, and by way of the session's own temporary files.
    let inner = SubPolicy { scratch: Some(abs(&format!("{beside}/tmp/calls/sessions/d"))), ..SubPolicy::unchanged() };
    let inner = tool.tighten(&inner).expect("narrower");
    check(&inner, &format!("{beside}/home/x"), false, false);
    check(&inner, &format!("{beside}/tmp/x"), false, false);
    check(&inner, &format!("{beside}/tmp/calls/sessions/d/home/x"), true, true);
    for gained in
        ["/home/u/.ssh", SESSION, "/home/u/.local/state/ringfence", "/srv", "/home/u/.local/state/ringfence/x"]
    {
        let call = SubPolicy { scratch: Some(abs(gained)), ..SubPolicy::unchanged() };
        assert!(session.tighten(&call).is_err(), "{gained}");
    }
}

const NAMES: [&str; 7] = ["a", "b", "c", "ab", ".env", ".git", "hooks"];

fn path_text() -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(NAMES.to_vec()), 0..5).prop_map(|names| {
        let below: String = names.iter().map(|name| format!("/{name}")).collect();
        format!("/home/u/proj{below}")
    })
}

fn rule_text() -> impl Strategy<Value = String> {
    let segment = prop::sample::select(vec!["a", "b", "c", "*", "**", "a*", "*b", ".env", ".git", "hooks", "?"]);
    let start = prop::sample::select(vec!["/home/u/proj", "/home/u/proj", "/home/u", "/tmp", "**", ""]);
    (start, prop::collection::vec(segment, 0..4)).prop_map(|(start, segments)| {
        let text: String = segments.iter().map(|s| format!("/{s}")).collect();
        let text = format!("{start}{text}");
        // Two `**` in a row say the same as one, and nothing at all is the root.
        if text.is_empty() { "/".into() } else { text }
    })
}

fn list(rules: &[String]) -> String {
    let quoted: Vec<String> = rules.iter().map(|rule| format!("\"{rule}\"")).collect();
    format!("[{}]", quoted.join(", "))
}

fn patterns(rules: Option<Vec<String>>) -> Option<Vec<Pattern>> {
    rules.map(|rules| rules.iter().filter_map(|rule| Pattern::parse(rule).ok()).collect())
}

fn rules(most: usize) -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec(rule_text(), 0..most)
}

const HOSTS: [&str; 6] =
    ["a.example.com", "b.example.com", "*.example.com", "a.example.com:443", "x.a.example.com", "*.a.example.com:8080"];

fn hosts() -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec(prop::sample::select(HOSTS.map(str::to_owned).to_vec()), 0..4)
}

fn is_private(verdict: &ringfence_surface::Verdict<'_>) -> bool {
    use ringfence_surface::{Because, Effect, Role};
    matches!(verdict.because, Because::Rule(rule) if matches!(rule.effect, Effect::Write(Role::Private) | Effect::Read(Role::Private)))
}

const VARIABLES: [&str; 4] = ["TERM", "TOKEN", "AWS_REGION", "X"];

fn names() -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec(prop::sample::select(VARIABLES.map(str::to_owned).to_vec()), 0..3)
}

fn sockets(names: &[String]) -> Vec<String> {
    names.iter().map(|name| format!("/run/{name}")).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// K10: whatever the two policies are, no path, host, port, socket or variable is gained.
    #[test]
    fn k10_tighten_never_widens(
        (write, read, deny, except, protect) in (rules(4), rules(4), rules(4), rules(3), rules(3)),
        (call_write, call_read) in (prop::option::of(rules(3)), prop::option::of(rules(3))),
        (call_deny, call_protect) in (rules(3), rules(3)),
        (outer_hosts, outer_private, call_hosts) in (hosts(), hosts(), prop::option::of(hosts())),
        (outer_ports, call_ports) in (prop::collection::vec(1u16..5, 0..3), prop::option::of(prop::collection::vec(1u16..5, 0..3))),
        (outer_sockets, call_sockets) in (names(), prop::option::of(names())),
        (outer_env, call_env) in (names(), prop::option::of(names())),
        is_host_view in any::<bool>(),
        paths in prop::collection::vec(path_text(), 1..40),
    ) {
        let exceptions: Vec<String> = except.iter().map(|rule| format!("!{rule}")).collect();
        let view = if is_host_view { "host" } else { "surface" };
        let text = format!(
            "[files]\nview = \"{view}\"\nwrite = {}\nread = {}\ndeny = {}\nprotect = {}\n[network]\nallow = {}\nprivate = {}\nhost_ports = {:?}\nsockets = {}\n[env]\npass = {}\n",
            list(&write), list(&read), list(&[deny, exceptions.clone()].concat()), list(&[protect, exceptions].concat()),
            list(&outer_hosts), list(&outer_private), outer_ports, list(&sockets(&outer_sockets)), list(&outer_env),
        );
        let outer = Host::new().project(&text).resolve().0.surface;
        let call = SubPolicy {
            write: patterns(call_write),
            read: patterns(call_read),
            deny: patterns(Some(call_deny)).unwrap_or_default(),
            protect: patterns(Some(call_protect)).unwrap_or_default(),
            hosts: call_hosts.map(|h| h.iter().filter_map(|h| HostPattern::parse(h).ok()).collect()),
            host_ports: call_ports,
            sockets: call_sockets.map(|s| sockets(&s).iter().map(|path| abs(path)).collect()),
            env: call_env.map(|e| e.iter().filter_map(|name| EnvName::new(name)).collect()),
            ..SubPolicy::unchanged()
        };
        // What the session does not have is refused as a whole; the rest of this test is about what is accepted, so what
        // would be refused is taken out of the call first.
        let accepts = |change: &dyn Fn(&mut SubPolicy)| {
            let mut one = SubPolicy::unchanged();
            change(&mut one);
            outer.tighten(&one).is_ok()
        };
        let mut call = call;
        if let Some(write) = &mut call.write {
            write.retain(|p| accepts(&|c| c.write = Some(vec![p.clone()])));
        }
        if let Some(read) = &mut call.read {
            read.retain(|p| accepts(&|c| c.read = Some(vec![p.clone()])));
        }
        if let Some(hosts) = &mut call.hosts {
            hosts.retain(|h| accepts(&|c| c.hosts = Some(vec![h.clone()])));
        }
        if let Some(ports) = &mut call.host_ports {
            ports.retain(|p| accepts(&|c| c.host_ports = Some(vec![*p])));
        }
        if let Some(sockets) = &mut call.sockets {
            sockets.retain(|s| accepts(&|c| c.sockets = Some(vec![s.clone()])));
        }
        if let Some(env) = &mut call.env {
            env.retain(|e| accepts(&|c| c.env = Some(vec![e.clone()])));
        }
        let inner = outer.tighten(&call).expect("what is left is inside");
        let outside = ["/home/u/a", "/tmp/a/b/c", "/tmp/b/a", "/tmp/a/hooks/.env", "/tmp/a", "/tmp/a/.env", "/etc/passwd", "/srv", "/", "/home/u"].map(str::to_owned);
        for path in paths.iter().chain(&outside) {
            let path: AbsPath = abs(path);
            for access in [Access::Read, Access::Write] {
                let (wide, narrow) = (outer.decide(&path, access), inner.decide(&path, access));
                prop_assert!(wide.is_allowed() || !narrow.is_allowed(), "{access} {path}: {} but {}", wide.because, narrow.because);
                // The same file, too: the session's own `/tmp` does not become the host's.
                if narrow.is_allowed() {
                    prop_assert_eq!(is_private(&wide), is_private(&narrow), "{} {}", access, path);
                }
            }
        }
        for name in ["a.example.com", "b.example.com", "x.a.example.com", "y.x.a.example.com", "example.com"] {
            for port in [80, 443, 8080] {
                let target = HostTarget::new(name, port).expect("a host");
                prop_assert!(outer.decide_host(&target).is_some() || inner.decide_host(&target).is_none(), "{target}");
                let may_be_private = |surface: &Surface| surface.decide_private(&target).is_some();
                prop_assert!(may_be_private(&outer) || !may_be_private(&inner), "{target}");
                prop_assert!(inner.decide_host(&target).is_some() || !may_be_private(&inner), "{target}");
            }
        }
        for name in VARIABLES {
            prop_assert!(outer.decide_variable(name.as_bytes()) == Outcome::Allow || inner.decide_variable(name.as_bytes()) == Outcome::Deny);
            let socket = abs(&format!("/run/{name}"));
            prop_assert!(outer.decide_socket(&socket).is_some() || inner.decide_socket(&socket).is_none());
        }
        for port in 0..6 {
            prop_assert!(outer.decide_host_port(port).is_some() || inner.decide_host_port(port).is_none());
        }
    }
}

/// [E1] Where the whole host is shown, a call is not shown what the view hides: devices, and where services listen.
#[test]
fn e1_a_call_is_not_shown_what_the_host_view_hides() {
    let policy = "[files]\nview = \"host\"\nread = [\"/run/granted\"]\n";
    let session = Host::new().project(policy).resolve().0.surface;
    let asks = |path: &str, view: Option<View>| {
        let call = SubPolicy { read: Some(vec![pattern(path)]), view, ..SubPolicy::unchanged() };
        session.tighten(&call).is_ok()
    };
    for path in ["/run", "/run/user/1000/bus", "/var/run/x", "/dev", "/dev/sda", "/run/*"] {
        assert!(!asks(path, None) && !asks(path, Some(View::Surface)), "{path}");
    }
    for path in ["/run/granted", "/run/granted/x", "/srv", "/dev/null", "/runx"] {
        assert!(asks(path, None) && asks(path, Some(View::Surface)), "{path}");
    }
    assert!(asks("/", None) && !asks("/", Some(View::Surface)) && !asks("/var", Some(View::Surface)));
}
