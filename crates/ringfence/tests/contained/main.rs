//! Fences that a container engine makes: what is shown beside the attacks and the ordinary work, which run in them too.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test that cannot set up has failed")]

mod environment;
mod ground;
mod image;
mod kubernetes;
mod leftovers;
mod refused;

use std::process::Command;
use std::time::{Duration, Instant};

use ground::{Ground, each};

/// G10: a container has no network, a root that cannot be written and no rights, and gains none.
#[test]
fn g10_what_it_is_like_inside() {
    each(|ground| {
        let script = "grep -E '^(Cap|NoNewPrivs|Seccomp:)' /proc/self/status; cut -d: -f1 /proc/net/dev | tail -n +3; id -u; \
                      touch /x 2>&1; touch /usr/x 2>&1; cat /proc/1/environ 2>&1 | head -c 0; ls /sys/class 2>&1";
        let output = ground.run(&[], &["sh", "-c", script]);
        let said = ground::text(&output.stdout);
        for line in ["CapPrm:\t0000000000000000", "CapBnd:\t0000000000000000", "NoNewPrivs:\t1", "Seccomp:\t2", "65534"]
        {
            assert!(said.contains(line), "{line}: {said}");
        }
        let interfaces: Vec<&str> =
            said.lines().map(str::trim).filter(|line| *line == "lo" || line.starts_with("eth")).collect();
        assert_eq!(interfaces, ["lo"], "{said}");
        assert_eq!(said.matches("Read-only file system").count(), 2, "{said}");
        assert!(said.contains("/sys/class"), "{said}");
    });
}

/// Who is to end is told by us, and ends with a code of its own. An engine that does not listen, or ends well when it is
/// told to, as Podman of some users does, is not in the way.
#[test]
fn a_command_is_told_to_end() {
    each(|ground| {
        let script = "trap 'echo told > told; exit 7' TERM; echo begun > begun; while :; do sleep 0.1; done";
        let mut session = ground.fence(&[]).args(["sh", "-c", script]).spawn().unwrap();
        until("it runs", || ground.path("project/begun").exists());
        let signal = |name: &str, id: &str| Command::new("kill").args([name, id]).status().unwrap().success();
        let engines = std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", session.id())).unwrap();
        assert!(engines.split_whitespace().all(|id| signal("-STOP", id)) && !engines.is_empty(), "{engines}");
        assert!(signal("-TERM", &session.id().to_string()));
        until("it is told", || ground.path("project/told").exists());
        assert!(engines.split_whitespace().all(|id| signal("-CONT", id)));
        assert_eq!(session.wait().unwrap().code(), Some(7));
    });
}

#[track_caller]
fn until(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::park_timeout(Duration::from_millis(20));
    }
}

/// G8, G9: the operator's mounts go along; what meets the surface, what is denied and what is missing is left out, which is
/// printed and in the receipt and the audit.
#[test]
fn g8_g9_the_operators_mounts() {
    each(|ground| {
        ground.write("data/models/one", "model\n");
        ground.write("data/models/.env", "SECRET\n");
        ground.write("data/keys/.env", "SECRET\n");
        ground.mkdir("data/scratch");
        let data = ground.path("data");
        let data = data.to_str().unwrap();
        let policy = |mode: &str| {
            format!(
                "version = 1\n[files]\ndeny = [\"{data}/**/.env\"]\n[agent.a]\ncommand = [\"sh\"]\n[agent.a.container]\nsurface_mode = \
                 \"{mode}\"\nmounts = [{{ src = \"{data}/models\", dst = \"/models\" }}, {{ src = \"{data}/scratch\", dst = \
                 \"/scratch\", mode = \"rw\" }}, {{ src = \"{data}/models\", dst = \"/usr/local\" }}, {{ src = \
                 \"{data}/keys/.env\", dst = \"/key\" }}, {{ src = \"{data}/nothing\", dst = \"/nothing\" }}]\n"
            )
        };
        ground.write("policy.toml", &policy("additive"));
        let file = ground.path("policy.toml");
        let flags = ["--receipt", "--policy", file.to_str().unwrap(), "--agent", "a"];
        let script = "cat /models/one; cat /models/.env; touch /models/x; echo made > /scratch/made; ls /";
        let output = ground.run(&flags, &["sh", "-c", script]);
        let (out, said) = (ground::text(&output.stdout), ground::text(&output.stderr));
        assert!(out.contains("model\n") && !out.contains("SECRET") && !out.contains("\nkey\n"), "{out}{said}");
        assert_eq!(std::fs::read(ground.path("data/scratch/made")).unwrap(), b"made\n", "{said}");
        assert!(!ground.path("data/models/x").exists());
        let left_out = [
            "at /usr/local: the surface has something there",
            "at /key: a rule takes its source away",
            "at /nothing: nothing is there",
        ];
        for line in left_out {
            assert!(said.contains(line), "{line}\n{said}");
        }
        let receipt = said.lines().find_map(|line| line.strip_prefix("ringfence: receipt kept as ")).unwrap();
        let receipt = std::fs::read_to_string(receipt).unwrap();
        assert!(receipt.contains("at /usr/local") && receipt.contains("policy.toml:"), "{receipt}");
        let audit = ground.ringfence(&["audit", "--json"]);
        assert!(ground::text(&audit.stdout).contains("at /usr/local"), "{}", ground::text(&audit.stdout));

        ground.write("policy.toml", &policy("exclusive"));
        let output = ground.run(&flags, &["sh", "-c", "ls /"]);
        let (out, said) = (ground::text(&output.stdout), ground::text(&output.stderr));
        assert!(!out.contains("models") && !out.contains("scratch"), "{out}");
        assert_eq!(said.matches("surface_mode is \"exclusive\"").count(), 5, "{said}");
        ground.write("policy.toml", &policy("exlusive"));
        let output = ground.run(&flags, &["true"]);
        assert!(ground::text(&output.stderr).contains("did you mean `exclusive`?"), "{}", ground::text(&output.stderr));
    });
}

/// G6: names of every kind are guarded, and nothing is made in the user's files.
#[test]
fn g6_odd_names() {
    each(|ground| {
        let names = ["a,b", "a\"b\"", "it's", "a:ro", "a\nb", " a ", "a\\b", "--mount=x", "=", "ü"];
        for name in names {
            ground.write(&format!("project/{name}/.env"), "SECRET\n");
            ground.write(&format!("project/{name}/open"), "open\n");
        }
        ground.write("project/ringfence.toml", "version = 1\n[files]\ndeny = [\"**/.env\"]\n");
        ground.hand_over();
        let output = ground
            .run(&[], &["sh", "-c", "cat ./*/.env; cat ./*/open; for dir in ./*/; do echo new > \"$dir/new\"; done"]);
        let (out, said) = (ground::text(&output.stdout), ground::text(&output.stderr));
        assert_eq!((out.matches("open\n").count(), out.contains("SECRET")), (names.len(), false), "{out}{said}");
        for name in names {
            assert_eq!(std::fs::read(ground.path(&format!("project/{name}/new"))).unwrap(), b"new\n", "{name}");
        }
    });
}

/// G6: what is mounted below something that may only be read is as little written as the rest.
#[test]
fn g6_a_mount_below_something_read_only() {
    each(|ground| {
        let below = ground.mkdir("docs/disk");
        let mount = |words: &[&str]| std::process::Command::new("mount").args(words).arg(&below).status().unwrap();
        assert!(mount(&["-t", "tmpfs", "-o", "mode=0777", "tmpfs"]).success());
        std::fs::write(below.join("page"), "page\n").unwrap();
        ground.write("project/ringfence.toml", "version = 1\n[files]\nread = [\"../docs\"]\n");
        ground.hand_over();
        let file = ground.path("project/ringfence.toml");
        let script = "cat ../docs/disk/page; echo EVIL > ../docs/disk/new";
        let output = ground.run(&["--policy", file.to_str().unwrap()], &["sh", "-c", script]);
        let written = below.join("new").exists();
        assert!(std::process::Command::new("umount").arg(&below).status().unwrap().success());
        let said = ground::text(&output.stderr);
        // An engine of a user's has mounts of its own, in which later ones of the host's may be missing: that is found out.
        let is_refused = said.contains("the container is not what was asked for");
        assert!(!written && (output.stdout == b"page\n" || is_refused), "{said}");
    });
}

/// G12: a container is described from the operator's mounts alone.
#[test]
fn g12_described_without_a_surface() {
    each(|ground: Ground| {
        let data = ground.mkdir("data");
        let data = data.to_str().unwrap();
        let policy = format!(
            "version = 1\n[agent.a]\ncommand = [\"work\"]\n[agent.a.container]\nimage = \"localhost/a:1\"\nmounts = [{{ src = \"{data}\", dst = \"/data\" }}]\n"
        );
        ground.write("policy.toml", &policy);
        let file = ground.path("policy.toml");
        let flags = ["render", ground.engine(), "--policy", file.to_str().unwrap(), "--agent", "a", "--no-surface"];
        let output = ground.ringfence(&flags);
        let lines = ground::text(&output.stdout);
        let mounts: Vec<&str> = lines.lines().filter(|line| line.starts_with("type=")).collect();
        assert_eq!(mounts, [format!("type=bind,src={data},dst=/data,readonly")], "{}", ground::text(&output.stderr));
        assert!(lines.ends_with("localhost/a:1\nwork\n"), "{lines}");
    });
}
