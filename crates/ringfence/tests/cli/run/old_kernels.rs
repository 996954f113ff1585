//! Kernels and filters that lack a call. What `doctor` says, the backend that `run` takes, its receipt, and what an attacker inside
//! achieves have to agree, for each missing feature and on each backend (I1).
//!
//! Production code never knows that it is under test: the kernel is made older by a seccomp filter around the program, which
//! answers `ENOSYS`, `EINVAL` or, as older container engines do, `EPERM`.

use std::fs;
use std::process::{Command, Output};

use ringfence_plan::{ArgTest, Errno, SyscallAction};
use ringfence_sys::bpf::{Arch, Rule, filter};
use ringfence_sys::seccomp::{self, Flags};
use serde_json::Value;

use super::{Fence, Who, text};

/// A call that is missing: its number, for which arguments, and what the kernel answers.
type Missing = (i64, &'static [ArgTest], Errno);

/// Some kernel or filter: what it lacks, and the backend that `run` takes there.
struct Old {
    name: &'static str,
    lacks: &'static [Missing],
    backend: Option<&'static str>,
}

const fn absent(call: i64) -> Missing {
    (call, &[], Errno::ENOSYS)
}

/// `CLOSE_RANGE_CLOEXEC` in the third argument.
const CLOEXEC: &[ArgTest] = &[ArgTest { arg: 2, mask: 4, value: 4 }];
/// `SECCOMP_SET_MODE_FILTER` with `SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV`.
const WAIT_KILLABLE: &[ArgTest] =
    &[ArgTest { arg: 0, mask: 0xffff_ffff, value: 1 }, ArgTest { arg: 1, mask: 32, value: 32 }];
/// The same with `SECCOMP_FILTER_FLAG_NEW_LISTENER`.
const LISTENER: &[ArgTest] = &[ArgTest { arg: 0, mask: 0xffff_ffff, value: 1 }, ArgTest { arg: 1, mask: 8, value: 8 }];

/// `AF_NETLINK`.
const NETLINK: &[ArgTest] = &[ArgTest { arg: 0, mask: 0xffff_ffff, value: 16 }];

/// `EOPNOTSUPP`, as for a pair of veth devices on a kernel without them.
const NO_NETLINK: Missing = (libc::SYS_socket, NETLINK, Errno(95));
const NO_CLOEXEC_RANGE: Missing = (libc::SYS_close_range, CLOEXEC, Errno(22));
const NO_WAIT_KILLABLE: Missing = (libc::SYS_seccomp, WAIT_KILLABLE, Errno(22));

/// What there is, feature by feature, and three whole kernels.
const KERNELS: &[Old] = &[
    Old {
        name: "close_range, unknown to the kernel",
        lacks: &[absent(libc::SYS_close_range)],
        backend: Some("native"),
    },
    Old {
        name: "close_range, refused by a container engine's filter",
        lacks: &[(libc::SYS_close_range, &[], Errno::EPERM)],
        backend: Some("native"),
    },
    Old { name: "CLOSE_RANGE_CLOEXEC (before 5.11)", lacks: &[NO_CLOEXEC_RANGE], backend: Some("native") },
    Old { name: "mount_setattr (before 5.12)", lacks: &[absent(libc::SYS_mount_setattr)], backend: Some("bwrap") },
    Old {
        name: "open_tree and move_mount (before 5.2)",
        lacks: &[absent(libc::SYS_open_tree), absent(libc::SYS_move_mount)],
        backend: Some("bwrap"),
    },
    Old { name: "clone3 (before 5.3)", lacks: &[absent(libc::SYS_clone3)], backend: Some("native") },
    Old { name: "pidfd_open (before 5.3)", lacks: &[absent(libc::SYS_pidfd_open)], backend: Some("native") },
    Old { name: "openat2 (before 5.6)", lacks: &[absent(libc::SYS_openat2)], backend: Some("native") },
    Old { name: "WAIT_KILLABLE_RECV (before 5.19)", lacks: &[NO_WAIT_KILLABLE], backend: Some("native") },
    Old {
        name: "seccomp listeners (before 5.0)",
        lacks: &[(libc::SYS_seccomp, LISTENER, Errno(22))],
        backend: Some("native"),
    },
    Old { name: "rtnetlink, and veth with it", lacks: &[NO_NETLINK], backend: Some("landlock") },
    Old {
        name: "Landlock (before 5.13)",
        lacks: &[absent(libc::SYS_landlock_create_ruleset)],
        backend: Some("native"),
    },
    Old {
        name: "mounts and Landlock",
        lacks: &[(libc::SYS_mount, &[], Errno::EPERM), absent(libc::SYS_landlock_create_ruleset)],
        backend: None,
    },
    Old {
        name: "namespaces, by a filter",
        lacks: &[(libc::SYS_mount, &[], Errno::EPERM), (libc::SYS_unshare, &[], Errno::EPERM)],
        backend: Some("landlock"),
    },
    Old {
        name: "everything since 5.10",
        lacks: &[
            NO_CLOEXEC_RANGE,
            NO_WAIT_KILLABLE,
            absent(libc::SYS_mount_setattr),
            absent(libc::SYS_landlock_create_ruleset),
        ],
        backend: Some("bwrap"),
    },
    Old {
        name: "everything since 4.19",
        lacks: &[
            absent(libc::SYS_close_range),
            absent(libc::SYS_clone3),
            absent(libc::SYS_faccessat2),
            absent(libc::SYS_landlock_create_ruleset),
            absent(libc::SYS_mount_setattr),
            absent(libc::SYS_move_mount),
            absent(libc::SYS_open_tree),
            absent(libc::SYS_openat2),
            absent(libc::SYS_pidfd_open),
            (libc::SYS_seccomp, LISTENER, Errno(22)),
        ],
        backend: Some("bwrap"),
    },
];

impl Old {
    /// Starts a command on it. A filter binds the thread that installs it and everything that thread starts.
    fn run(&self, mut command: Command) -> Output {
        let rule = |(call, when, errno): &Missing| Rule {
            number: u32::try_from(*call).unwrap(),
            when,
            action: SyscallAction::Errno(*errno),
        };
        let rules: Vec<Rule<'_>> = self.lacks.iter().map(rule).collect();
        let program = filter(&rules, seccomp::NEWEST, Arch::NATIVE.unwrap()).unwrap();
        let start = || {
            rustix::thread::set_no_new_privs(true).unwrap();
            seccomp::install(&program, Flags::NONE).unwrap();
            command.output().unwrap()
        };
        std::thread::scope(|scope| scope.spawn(start).join().unwrap())
    }
}

/// What an attacker does inside, one line for each: its name, and `done` or the error.
const ATTACKS: &str = r#"
import os, sys
def attempt(name, deed):
    try:
        found = deed()
        print(name, "done" if found is None else found)
    except OSError as error:
        print(name, error.strerror)
def write(path):
    with open(path, "a") as file:
        file.write("x")
def later(path):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    write(path)
outside = os.environ["OUTSIDE"]
attempt("read-denied", lambda: open(".env").read().strip())
attempt("read-secret", lambda: open(os.environ["SECRET_FILE"]).read().strip())
attempt("truncate-denied", lambda: os.truncate(".env", 0))
attempt("write-outside", lambda: write(outside + "/file"))
attempt("truncate-outside", lambda: os.truncate(outside + "/file", 0))
attempt("make-outside", lambda: write(outside + "/new"))
attempt("write-protected", lambda: write("infra/main.tf"))
attempt("truncate-protected", lambda: os.truncate("infra/main.tf", 0))
attempt("make-protected", lambda: later(".vscode/settings.json"))
attempt("make-denied", lambda: later("made/.env"))
attempt("descriptors", lambda: ",".join(fd for fd in sorted(os.listdir("/proc/self/fd"), key=int) if int(fd) > 3))
attempt("write-inside", lambda: write("src/lib.rs"))
"#;

/// The attack, and the kind of claim that a receipt must not make where it works.
const CLAIMS: &[(&str, &str)] = &[
    ("read-denied", "deny"),
    ("read-secret", "deny"),
    ("truncate-denied", "deny"),
    ("write-outside", "writable"),
    ("truncate-outside", "writable"),
    ("make-outside", "writable"),
    ("write-protected", "protect"),
    ("truncate-protected", "protect"),
    ("make-protected", "protected-later"),
    ("make-denied", "denied-later"),
];

/// The receipt that `--receipt` printed the place of.
fn receipt(said: &str) -> Option<Value> {
    let place = said.split("\\n").find_map(|line| line.strip_prefix("ringfence: receipt kept as "))?;
    Some(serde_json::from_slice(&fs::read(place).unwrap()).unwrap())
}

/// Does every claim of this kind hold, and is there one?
fn holds(receipt: &Value, kind: &str) -> bool {
    let claims = receipt["claims"].as_array().unwrap().iter().filter(|claim| claim["name"] == kind);
    let claims: Vec<bool> = claims.map(|claim| claim["holds"] == true).collect();
    !claims.is_empty() && claims.iter().all(|holds| *holds)
}

/// `ringfence run` with a descriptor that it must not pass on.
fn attack(fence: &Fence, old: &Old, flags: &[&str]) -> Output {
    let outside = fence.world.path("outside");
    let mut command = Command::new("/bin/sh");
    command.args(["-c", r#"exec 9<"$SECRET_FILE"; exec "$@""#, "sh"]);
    let run = fence.with(&[&["--receipt", "--env", "OUTSIDE", "--env", "SECRET_FILE"], flags].concat());
    command.arg(run.get_program()).args(run.get_args()).args(["/usr/bin/python3", "-c", ATTACKS]);
    command.current_dir(fence.world.path("project")).env_clear().stdin(std::process::Stdio::null());
    command.env("PATH", "/usr/local/bin:/usr/bin:/bin").env("HOME", fence.world.path("home"));
    command.env("OUTSIDE", outside).env("SECRET_FILE", fence.world.path("home/.ssh/id_ed25519"));
    fence.dress(&mut command);
    old.run(command)
}

fn doctor(fence: &Fence, old: &Old) -> Value {
    let mut command = Command::new(fence.world.binary());
    command.current_dir(fence.world.path("project")).env_clear().env("HOME", fence.world.path("home"));
    fence.dress(command.args(["doctor", "--json"]));
    let output = old.run(command);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}: {}", old.name, text(&output.stderr)))
}

/// What was achieved, compared with the receipt and with what stands outside afterwards.
#[track_caller]
fn agrees(fence: &Fence, old: &Old, output: &Output) {
    let (said, achieved) = (text(&output.stderr), text(&output.stdout));
    let what = format!("{} as {:?}:\n{achieved}\n{said}", old.name, fence.who);
    let receipt = receipt(&said).unwrap_or_else(|| panic!("{what}"));
    // I2: there is one receipt, of what runs, and none of what was tried before.
    assert_eq!(said.matches("ringfence: receipt (").count(), 1, "{what}");
    let state = fence.world.path("home/.local/state/ringfence");
    let kept: Vec<_> = ["receipts"].iter().flat_map(|dir| fs::read_dir(state.join(dir))).flatten().collect();
    assert!(kept.len() <= 1, "{kept:?}: {what}");
    let came = |attack: &str| {
        let line = achieved.split("\\n").find_map(|line| line.strip_prefix(attack)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("{attack}: {what}")).to_owned()
    };
    for (attack, claim) in CLAIMS {
        let achieved = matches!(came(attack).as_str(), "done" | "SECRET");
        assert!(!(achieved && holds(&receipt, claim)), "{attack} works and the receipt claims {claim}: {what}");
    }
    // I4: what a rule forbids is refused as such, whatever the broker itself lacks.
    assert!(!achieved.contains("not implemented"), "{what}");
    // I4: the reason names the agent where the agent itself makes the file.
    if came("make-denied") == "done" {
        let claims = receipt["claims"].as_array().unwrap();
        let later = claims.iter().find(|claim| claim["name"] == "denied-later").unwrap();
        assert!(later["reason"].as_str().unwrap().contains("the agent itself"), "{later}: {what}");
    }
    assert_eq!(came("descriptors"), "", "{what}");
    assert_eq!(came("write-inside"), "done", "{what}");
    // What must hold on every backend that starts.
    for (path, content) in
        [("project/.env", "SECRET\n"), ("outside/file", "outside\n"), ("project/infra/main.tf", "old\n")]
    {
        let is = fs::read_to_string(fence.world.path(path)).unwrap();
        assert!(
            is == content || path.ends_with("main.tf") && receipt["backend"] == "landlock",
            "{path}: {is:?}: {what}"
        );
    }
}

/// I1: for each feature that is missing, `doctor`, the backend taken, its receipt and the attacks agree, on every backend.
#[test]
fn i1_a_missing_feature_is_reported_and_held() {
    for old in KERNELS {
        // As an ordinary user each backend has the least rights.
        let whos = if rustix::process::geteuid().is_root() { &[Who::Caller, Who::Nobody][..] } else { &[Who::Caller] };
        for who in whos {
            let fence = Fence::new(*who);
            let found = doctor(&fence, old);
            let expected = old.backend.map_or(Value::Null, Value::from);
            assert_eq!(found["verdict"]["rung"], expected, "{}: {}", old.name, found["verdict"]["words"]);
            let output = attack(&fence, old, &[]);
            let said = text(&output.stderr);
            let Some(backend) = old.backend else {
                assert_eq!((output.status.code(), &output.stdout[..]), (Some(125), &b""[..]), "{}: {said}", old.name);
                continue;
            };
            assert!(output.status.success(), "{} as {who:?}: {said}", old.name);
            assert_eq!(receipt(&said).unwrap()["backend"], backend, "{} as {who:?}: {said}", old.name);
            agrees(&fence, old, &output);
            for rung in found["rungs"].as_array().unwrap() {
                let name = rung["name"].as_str().unwrap();
                if name == backend {
                    continue;
                }
                let fence = Fence::new(*who);
                let output = attack(&fence, old, &["--backend", name]);
                let what = format!("{} as {who:?}, {name}: {}", old.name, text(&output.stderr));
                assert_eq!(rung["works"] == true, output.status.success(), "{what}");
                if output.status.success() {
                    agrees(&fence, old, &output);
                }
            }
        }
    }
}

/// The feature of a backend, as `doctor` reports it.
fn feature<'f>(found: &'f Value, backend: &str, name: &str) -> &'f Value {
    let named = |list: &'f Value, name: &str| list.as_array().unwrap().iter().find(|one| one["name"] == name).unwrap();
    named(&named(&found["rungs"], backend)["features"], name)
}

/// I1: what only sessions that reach hosts need is reported as such, and a session that lists none starts.
#[test]
fn i1_listed_hosts_are_a_feature_of_their_own() {
    let old = KERNELS.iter().find(|old| old.lacks == [NO_NETLINK]).unwrap();
    let fence = Fence::new(Who::Caller);
    let found = doctor(&fence, old);
    assert_eq!(feature(&found, "native", "listed hosts")["state"], "missing", "{found}");
    let words = found["verdict"]["words"].as_str().unwrap();
    assert!(words.contains("because no gateway to listed hosts can be made: Operation not supported"), "{words}");
    let policy = fence.world.write("none.toml", "version = 1\n[network]\nallow = []\n");
    let mut none = fence.with(&["--receipt", "--policy", policy.to_str().unwrap()]);
    none.arg("/bin/true");
    let output = old.run(none);
    let said = text(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert_eq!(receipt(&said).unwrap()["backend"], "native", "{said}");
}

/// I1: `doctor` finds a limit where a session gets one, and the reasons are the same.
#[test]
fn i1_doctor_and_the_receipt_agree_on_limits() {
    let none = Old { name: "nothing is missing", lacks: &[], backend: Some("native") };
    let whos = if rustix::process::geteuid().is_root() { &[Who::Caller, Who::Nobody][..] } else { &[Who::Caller] };
    for who in whos {
        let fence = Fence::new(*who);
        let found = doctor(&fence, &none);
        let policy = fence.world.write("limits.toml", "version = 1\n[limits]\nmemory = \"1GiB\"\npids = 64\n");
        for backend in ["native", "bwrap", "landlock"] {
            let mut limited = fence.with(&["--receipt", "--backend", backend, "--policy", policy.to_str().unwrap()]);
            limited.arg("/bin/true");
            let said = text(&limited.output().unwrap().stderr);
            let receipt = receipt(&said).unwrap_or_else(|| panic!("{said}"));
            for (kind, name) in [("memory", "a memory limit"), ("pids", "a process limit")] {
                let row = feature(&found, backend, name);
                let claim = receipt["claims"].as_array().unwrap().iter().find(|claim| claim["name"] == kind).unwrap();
                let is_counted = kind == "pids" && backend != "landlock";
                assert_eq!(claim["holds"] == true, row["state"] == "works" || is_counted, "{row}: {claim}");
                if claim["holds"] != true {
                    let (reason, why) = (claim["reason"].as_str().unwrap(), row["detail"].as_str().unwrap());
                    assert!(reason.ends_with(why), "{row}: {claim}");
                }
            }
        }
    }
}
