//! `render kubernetes`: what is described holds where somebody makes it so, and what is asked wrongly is refused.

use std::fs;
use std::net::TcpListener;
use std::process::Output;

use ringfence_testkit::{Starter, World};

use crate::ground::{Ground, text, with};

/// A pod that is played, and taken down whatever happens.
struct Played<'g> {
    ground: &'g Ground,
    file: String,
}

impl<'g> Played<'g> {
    fn new(ground: &'g Ground, objects: &str) -> (Self, Output) {
        fs::write(ground.path("objects.yaml"), objects).unwrap();
        let played = Self { ground, file: ground.path("objects.yaml").to_str().unwrap().to_owned() };
        // Without a network, since no policy is enforced here.
        let output = podman(ground, &["kube", "play", "--network", "none", &played.file]);
        (played, output)
    }
}

impl Drop for Played<'_> {
    fn drop(&mut self) {
        podman(self.ground, &["kube", "down", &self.file]);
    }
}

fn podman(ground: &Ground, words: &[&str]) -> Output {
    ground.command("/usr/bin/timeout").args(["-k", "5", "120", "/usr/bin/podman"]).args(words).output().unwrap()
}

/// What is tried inside, a line of words before each result.
const DEEDS: &str = r#"
try() { printf '%s: ' "$1"; shift; "$@" > /tmp/said 2>&1 && printf 'done ' || printf 'failed '; head -n 1 /tmp/said | cut -c 1-200; echo; }
try write sh -c 'echo new > made'
try home sh -c 'echo x > "$HOME/x"'
try temporary sh -c 'echo x > /var/tmp/x'
try read-only sh -c 'echo x > ../docs/x'
try reads cat ../docs/text
try protected sh -c 'echo x > .git/config'
try hook sh -c 'echo x > .git/hooks/pre-commit'
try renamed mv .git moved
try removed rm -rf infra/main.tf
try denied grep SECRET .env
try odd grep -r SECRET odd
try directory ls keys/one
try overwritten sh -c 'echo x > odd/a,b/.env'
try system sh -c 'echo x > /usr/x'
try root sh -c 'echo x > /x'
try shadow grep root /etc/shadow
try network python3 -c 'import socket, sys; socket.create_connection(("127.0.0.1", int(sys.argv[1])), 5)' PORT
try outside python3 -c 'import socket; socket.create_connection(("192.0.2.1", 80), 5)'
try name python3 -c 'import socket; socket.getaddrinfo("example.com", 80)'
try token ls /var/run/secrets/kubernetes.io
try unmounted unshare -Urm umount "$PWD/.env"
try remounted unshare -Urm mount -o remount,bind,rw /usr
grep -E '^(CapBnd|CapEff|NoNewPrivs|Seccomp):' /proc/self/status | tr '\t' ' '
tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '
id -u; printf '%s\n' "$HOME" "$0"; ps -e | wc -l
"#;

/// G6, G10: in a pod that Podman makes of what is rendered, what may be written can be, what is read-only, protected or
/// denied stays as it is under whatever name, and there is no network and no right.
#[test]
fn g6_g10_the_rules_hold_in_a_pod() {
    with("podman", Starter::Root, |ground| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port().to_string();
        let odd = ["a,b", "c \"d'", "e\nf", "$g", "# h", "ü", "- i", "{{j}}"];
        for name in odd {
            ground.write(&format!("project/odd/{name}/.env"), "SECRET\n");
        }
        for (path, content) in [
            ("project/.env", "SECRET\n"),
            ("project/.git/config", "[core]\n"),
            ("project/.git/hooks/README", "x\n"),
            ("project/infra/main.tf", "kept\n"),
            ("project/keys/one", "SECRET\n"),
            ("docs/text", "text\n"),
        ] {
            ground.write(path, content);
        }
        let deeds = DEEDS.replace("PORT", &port);
        let policy = format!(
            "version = 1\n[files]\nwrite = [\".\"]\nread = [\"../docs\"]\ndeny = [\"**/.env\", \"keys\"]\nprotect = \
             [\"infra/**\"]\n[limits]\nmemory = \"512MiB\"\nwall = \"100s\"\n[agent.a]\ncommand = [\"sh\", \"-c\", '''{deeds}''', \
             \"$$HOME $x\"]\n"
        );
        ground.write("project/ringfence.toml", &policy);
        let name = format!("rf-{}", std::process::id());
        // The image of the host's own programs, which a first container makes.
        let first = ground.run(&["--policy", "ringfence.toml"], &["true"]);
        assert!(first.status.success(), "{}", text(&first.stderr));
        // To Podman users of a pod's own are further numbers, which nobody has here: an older cluster knows none.
        let render = ["render", "kubernetes", "--policy", "ringfence.toml", "--agent", "a", "--cluster", "1.32"];
        let rendered = ground.ringfence(&[&render[..], &["--name", &name]].concat());
        assert!(rendered.status.success(), "{}", text(&rendered.stderr));
        let objects = text(&rendered.stdout);
        let again = ground.ringfence(&[&render[..], &["--name", &name]].concat());
        assert_eq!(objects, text(&again.stdout), "the same, twice");
        let (played, output) = Played::new(&ground, &objects);
        assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
        let agent = format!("{name}-agent");
        podman(&ground, &["wait", &agent]);
        let said = text(&podman(&ground, &["logs", &agent]).stdout);
        drop(played);
        for deed in ["write", "home", "temporary", "reads"] {
            assert!(said.contains(&format!("{deed}: done")), "{deed}: {said}");
        }
        for deed in [
            "read-only",
            "protected",
            "hook",
            "renamed",
            "removed",
            "denied",
            "odd",
            "directory",
            "system",
            "root",
            "shadow",
            "network",
            "outside",
            "name",
            "token",
            "unmounted",
            "remounted",
        ] {
            assert!(said.contains(&format!("{deed}: failed")), "{deed}: {said}");
        }
        for line in
            ["CapBnd: 0000000000000000", "CapEff: 0000000000000000", "NoNewPrivs: 1", "Seccomp: 2", "/ringfence/home"]
        {
            assert!(said.lines().any(|one| one == line), "{line}: {said}");
        }
        let interfaces: Vec<&str> = said.lines().filter(|line| ["lo", "eth0", "tap0"].contains(line)).collect();
        assert_eq!(interfaces, ["lo"], "{said}");
        assert!(!said.contains("SECRET"), "{said}");
        // On the host nothing else has changed.
        let is =
            |path: &str, content: &str| assert_eq!(fs::read_to_string(ground.path(path)).unwrap(), content, "{path}");
        is("project/made", "new\n");
        is("project/.git/config", "[core]\n");
        is("project/infra/main.tf", "kept\n");
        is("project/.env", "SECRET\n");
        odd.iter().for_each(|name| is(&format!("project/odd/{name}/.env"), "SECRET\n"));
        assert!(!ground.path("docs/x").exists() && !ground.path("project/.git/hooks/pre-commit").exists());
        assert!(listener.set_nonblocking(true).is_ok() && listener.accept().is_err(), "nobody called");
    });
}

fn world(policy: &str) -> World {
    let world = World::new(env!("CARGO_BIN_EXE_ringfence"));
    world.write("project/ringfence.toml", format!("version = 1\n{policy}"));
    world
}

fn render(world: &World, more: &[&str], code: i32) -> (String, String) {
    let words = [&["render", "kubernetes", "--policy", "ringfence.toml"], more].concat();
    let answer = world.ringfence(&words).expect_code(code);
    (answer.stdout.clone(), answer.stderr.clone())
}

/// G10: what a pod does not hold or give is said beside it, as text and as JSON, which says the same objects.
#[test]
fn g10_what_a_pod_does_not_hold_is_said() {
    let world = world("[network]\nallow = [\"example.com\"]\n[limits]\npids = 99\n[env]\npass = [\"DATABASE_URL\"]\n");
    let (objects, said) = render(&world, &[], 0);
    for line in [
        "not held: a second wall behind the first: nothing of ringfence's runs in a pod",
        "not held: no network but example.com: only where the cluster's network plugin enforces policies",
        "not held: at most 99 processes: a pod cannot limit processes",
        "not held: deny names that appear later",
        "withheld: example.com: a network policy knows addresses",
        "a value of the caller's is not written into an object that others read",
        "withheld: `grant`, `revoke`",
    ] {
        assert!(said.contains(line), "{line}: {said}");
    }
    assert!(!objects.contains("DATABASE_URL") && !objects.contains("example.com"), "{objects}");
    let (json, quiet) = render(&world, &["--json"], 0);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert!(!quiet.contains("not held"), "{quiet}");
    let kinds: Vec<&str> = json["objects"].as_array().unwrap().iter().filter_map(|one| one["kind"].as_str()).collect();
    assert_eq!(kinds, ["NetworkPolicy", "Pod"]);
    assert!(json["not_held"].as_array().unwrap().iter().any(|one| one["claim"] == "at most 99 processes"), "{json}");
    let withheld = json["withheld"].as_array().unwrap();
    assert!(withheld.iter().any(|one| one["what"] == "example.com"), "{json}");
    let (cilium, _) = render(&world, &["--cilium", "--kind", "sandbox", "--json"], 0);
    let cilium: serde_json::Value = serde_json::from_str(&cilium).unwrap();
    let kinds: Vec<&str> =
        cilium["objects"].as_array().unwrap().iter().filter_map(|one| one["kind"].as_str()).collect();
    assert_eq!(kinds, ["NetworkPolicy", "CiliumNetworkPolicy", "Sandbox"]);
    let (older, said) = render(&world, &["--cluster", "1.29"], 0);
    assert!(!older.contains("recursiveReadOnly") && said.contains("not held: nothing else is writable"), "{said}");
}

/// G10: options of one layer are refused with another, and names that no cluster takes at once.
#[test]
fn g10_what_is_asked_wrongly_is_refused() {
    let world = world("");
    let says = |words: &[&str], code: i32, expected: &str| {
        let answer = world.ringfence(words).expect_code(code);
        assert!(answer.stderr.contains(expected), "{words:?}: {}", answer.stderr);
        assert_eq!(answer.stdout, "", "{words:?}");
    };
    says(&["render", "docker", "--cilium"], 2, "--cilium is for `kubernetes`");
    says(&["render", "preamble", "--claim", "x"], 2, "--claim is for `kubernetes`");
    says(&["render", "kubernetes", "--no-surface"], 2, "--no-surface is for `docker` and `podman`");
    says(&["render", "kubernetes", "--cluster", "two"], 2, "a version is written 1.33");
    says(&["render", "kubernetes", "--cluster", "1.20"], 125, "Kubernetes 1.20 is older than 1.25");
    says(&["render", "kubernetes", "--name", "A_b"], 125, "cannot be the name of an object");
    says(&["render", "kubernetes", "--claim", "work"], 125, "an image must be named");
}

/// G6: in a directory whose name holds a colon no pod is described; below it what is guarded is hidden with what is around it.
#[test]
fn g6_a_colon_is_refused_or_hidden() {
    let world = world("[files]\ndeny = [\"**/.env\"]\n");
    world.write("project/sub/a:b/.env", "SECRET\n");
    let (objects, said) = render(&world, &[], 0);
    assert!(said.contains("project/sub: something denied or protected in it has a name"), "{said}");
    assert!(objects.contains("project/sub\n") && !objects.contains("a:b"), "{objects}");
    world.write("project/c:d/.env", "SECRET\n");
    let (_, said) = render(&world, &[], 125);
    assert!(said.contains("holds a colon"), "{said}");
}
