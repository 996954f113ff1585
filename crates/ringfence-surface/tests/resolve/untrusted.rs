//! Whatever a project's file says that nobody has trusted, nothing is gained by it.

use proptest::prelude::*;
use ringfence_surface::{Access, HostTarget, Level, Outcome, Surface, Trust};

use crate::host::{Host, abs};

/// Rules for the lists of a file.
const PATHS: &[&str] = &[
    ".",
    "..",
    "/",
    "~",
    "src",
    "src/**",
    "../other",
    "~/docs",
    "/srv",
    "/srv/in",
    "src/*",
    "**",
    "*",
    "../*",
    "~/.*",
    "/home/*/proj",
    "$CARGO_HOME",
    "link",
    "link/x",
    "src/out",
    "/tmp",
    "/etc",
    "../proj",
    "../proj/src",
    "./src/../..",
];
const DENIED: &[&str] = &[
    "**/x",
    "!**/x",
    "src",
    "!src",
    "!src/a",
    "!**",
    "!.",
    "!..",
    "!/",
    "/srv",
    "!/srv",
    "**/*",
    "!**/*",
    "*/a",
    "!link",
    "link",
    "!~/.ssh",
    "!**/.env",
    "!.git/hooks",
];
const HOSTS: &[&str] =
    &["github", "a.example.com", "a.example.com:8443", "*.example.com", "*.example.com:443", "10.0.0.0/8", "10.1.2.3"];
const PORTS: &[&str] = &["22", "5432"];
const SOCKETS: &[&str] = &["/run/docker.sock", "$SSH_AUTH_SOCK", "link/s"];
const VARIABLES: &[&str] = &["TOKEN", "LD_PRELOAD", "HOME"];
const PACKS: &[&str] = &["rust", "node", "git", "python"];

/// A list as a file has it: perhaps none at all.
fn list(key: &'static str, from: &'static [&'static str]) -> impl Strategy<Value = String> {
    let quoted = move |item: &&str| if from == PORTS { (*item).to_owned() } else { format!("'{item}'") };
    proptest::option::of(proptest::sample::subsequence(from, 0..4.min(from.len())).prop_shuffle()).prop_map(
        move |list| {
            list.map_or_else(String::new, |list| {
                format!("{key} = [{}]\n", list.iter().map(quoted).collect::<Vec<_>>().join(", "))
            })
        },
    )
}

/// One of these lines, or none.
fn line(lines: &'static [&'static str]) -> impl Strategy<Value = String> {
    proptest::option::of(proptest::sample::select(lines))
        .prop_map(|line| line.map_or_else(String::new, |line| format!("{line}\n")))
}

/// What the user's file and the project's may both say.
fn policy() -> impl Strategy<Value = String> {
    let files = (
        line(&["view = 'host'", "view = 'surface'"]),
        list("write", PATHS),
        list("read", PATHS),
        list("deny", DENIED),
        list("protect", DENIED),
    );
    let network = (list("allow", HOSTS), list("private", HOSTS), list("host_ports", PORTS), list("sockets", SOCKETS));
    let rest = (list("pass", VARIABLES), line(&["pids = 5", "pids = 500"]), line(&["wall = '1h'", "wall = '1m'"]));
    let persona =
        (line(&["workdir = '.'", "workdir = 'src'", "workdir = '..'"]), list("write", PATHS), list("read", PATHS));
    let task = (list("write", PATHS), list("read", PATHS));
    (list("extends", PACKS), files, network, rest, persona, task).prop_map(
        |(extends, (view, write, read, deny, protect), (allow, private, ports, sockets), (env, pids, wall), p, t)| {
            format!(
                "{extends}[files]\n{view}{write}{read}{deny}{protect}[network]\n{allow}{private}{ports}{sockets}\
                 [env]\n{env}[limits]\n{pids}{wall}[persona.p]\n{}{}{}[task.t]\n{}{}",
                p.0, p.1, p.2, t.0, t.1
            )
        },
    )
}

/// What only a project's file may say.
fn workspace() -> impl Strategy<Value = String> {
    (
        line(&["root = '.'", "root = 'src'", "root = '..'", "root = '/'"]),
        line(&["tier = 'production'", "tier = 'development'"]),
        line(&["self_governing = true"]),
        line(&["metadata = '../other'", "metadata = 'src'"]),
        line(&[
            "[[workspace.repo]]\nname = 'a'\npath = '../other'",
            "[[workspace.repo]]\nname = 'a'\npath = '.'\nworktrees_dir = '../other'",
            "[[workspace.repo]]\nname = 'a'\npath = '..'\nworktrees_dir = '/srv'",
        ]),
    )
        .prop_map(|(root, tier, own, metadata, repo)| format!("[workspace]\n{root}{tier}{own}{metadata}{repo}"))
}

fn host() -> Host {
    Host::new()
        .env("CARGO_HOME", "/home/u/.cargo")
        .env("SSH_AUTH_SOCK", "/run/agent.sock")
        .dir("/home/u/proj/src/a")
        .dir("/home/u/other")
        .dir("/home/u/docs")
        .dir("/srv/in")
        .dir("/run")
        .link("/home/u/proj/link", "/srv/in")
        .link("/home/u/proj/src/out", "../../other")
        .file("/home/u/proj/Cargo.toml")
}

const ASKED: &[&str] = &[
    "/",
    "/etc/x",
    "/home/u",
    "/home/u/.bashrc",
    "/home/u/.cargo/registry/x",
    "/home/u/.ssh/id",
    "/home/u/docs/x",
    "/home/u/other",
    "/home/u/other/.git/hooks/x",
    "/home/u/other/x",
    "/home/u/proj",
    "/home/u/proj/.env",
    "/home/u/proj/.git/config",
    "/home/u/proj/.git/hooks/x",
    "/home/u/proj/Cargo.toml",
    "/home/u/proj/link",
    "/home/u/proj/ringfence.toml",
    "/home/u/proj/src",
    "/home/u/proj/src/a",
    "/home/u/proj/src/a/x",
    "/home/u/proj/src/x",
    "/home/u/proj/x",
    "/home/u/proj/x/a",
    "/home/u/x",
    "/root/x",
    "/run/agent.sock",
    "/run/docker.sock",
    "/srv",
    "/srv/in/s",
    "/srv/in/x",
    "/srv/x",
    "/tmp/x",
    "/usr/bin/x",
    "/var/x",
];

/// What one Surface gives and the other does not.
fn gained(with: &Surface, without: &Surface) -> Option<String> {
    for path in ASKED.iter().map(|text| abs(text)) {
        for access in [Access::Read, Access::Write] {
            if with.decide(&path, access).is_allowed() && !without.decide(&path, access).is_allowed() {
                return Some(format!("{access} {path}: {}", with.decide(&path, access).because));
            }
        }
        if with.decide_socket(&path).is_some() && without.decide_socket(&path).is_none() {
            return Some(format!("socket {path}"));
        }
    }
    for host in ["github.com:443", "a.example.com:443", "a.example.com:8443", "b.example.com:80", "10.1.2.3:443"] {
        let target = HostTarget::parse(host).ok()?;
        if with.decide_host(&target).is_some() && without.decide_host(&target).is_none() {
            return Some(host.to_owned());
        }
    }
    let port = [22, 5432]
        .into_iter()
        .find(|port| with.decide_host_port(*port).is_some() && without.decide_host_port(*port).is_none());
    let is_passed = |surface: &Surface, name: &str| surface.decide_variable(name.as_bytes()) != Outcome::Deny;
    let variable = VARIABLES.iter().find(|name| is_passed(with, name) && !is_passed(without, name));
    let most = |surface: &Surface| surface.caps().pids.as_ref().map_or(u64::MAX, |most| most.value.into());
    let looser = with.view() > without.view() || with.tier() < without.tier() || most(with) > most(without);
    let looser = looser.then(|| "a setting".to_owned());
    port.map(|port| port.to_string()).or_else(|| variable.map(|name| (*name).to_owned())).or(looser)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(150) })]

    #[test]
    fn an_untrusted_file_gains_nothing(
        user in policy(),
        (own, workspace, file) in (policy(), workspace(), proptest::sample::select(&["/home/u/proj/ringfence.toml", "/home/u/ringfence.toml", "/ringfence.toml"][..])),
        (persona, task, cwd) in (any::<bool>(), any::<bool>(), proptest::sample::select(&["/home/u/proj", "/home/u/proj/src"][..])),
    ) {
        let common = || {
            let host = host().cwd(cwd).user(&user);
            let host = if persona { host.persona("p") } else { host };
            if task { host.task("t") } else { host }
        };
        let with = common().policy(Level::Project(Trust::Untrusted), file, &format!("{own}{workspace}"));
        // What cannot be used starts nothing.
        if let (Ok(with), Ok(without)) = (with.try_resolve(), common().try_resolve()) {
            let gained = gained(&with.surface, &without.surface);
            prop_assert!(gained.is_none(), "gains {gained:?}\n{user}\n--- {file}\n{own}{workspace}");
        }
    }
}
