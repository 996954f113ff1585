//! `ringfence doctor` on the real kernel, and on kernels that refuse: a filter or a limit around the program makes one.

#![expect(clippy::unwrap_used, reason = "a test that cannot set up has failed")]

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use ringfence_plan::{Errno, Fence, SyscallAction, SyscallRule};
use ringfence_sys::seccomp::{self, Flags};
use ringfence_testkit::World;
use serde_json::Value;

/// Somebody without a name or a right.
const SOMEBODY: u32 = 54_321;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Who {
    Caller,
    Somebody,
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn everybody() -> &'static [Who] {
    if is_root() { &[Who::Caller, Who::Somebody] } else { &[Who::Caller] }
}

/// An ordinary user: whoever runs the tests, unless that is root.
fn user() -> Who {
    if is_root() { Who::Somebody } else { Who::Caller }
}

fn open_world() -> World {
    World::open_to_all(env!("CARGO_BIN_EXE_ringfence"))
}

/// A program in the world's project, with nothing of the caller's environment and nothing to read.
fn command(world: &World, program: &Path, who: Who) -> Command {
    let mut command = Command::new(program);
    command.current_dir(world.path("project")).env_clear().stdin(Stdio::null());
    command.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").env("R", world.binary());
    match who {
        Who::Caller => command.uid(rustix::process::geteuid().as_raw()),
        Who::Somebody => command.gid(SOMEBODY).uid(SOMEBODY),
    };
    command
}

fn doctor(world: &World, who: Who, arguments: &[&str]) -> Command {
    let mut doctor = command(world, world.binary(), who);
    doctor.arg("doctor").args(arguments);
    doctor
}

fn sh(world: &World, who: Who, script: &str) -> Output {
    command(world, Path::new("/bin/sh"), who).args(["-ec", script]).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    bytes.escape_ascii().to_string().replace("\\n", "\n").replace("\\'", "'").replace("\\\"", "\"")
}

#[track_caller]
fn json(output: &Output, code: i32) -> Value {
    assert_eq!(output.status.code(), Some(code), "{}\n{}", text(&output.stdout), text(&output.stderr));
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(answer["schema"], 1);
    answer
}

/// The state of a feature of a rung.
#[track_caller]
fn state<'a>(answer: &'a Value, rung: &str, feature: &str) -> &'a str {
    let named = |list: &'a Value, name: &str| list.as_array().unwrap().iter().find(|one| one["name"] == name);
    let rung = named(&answer["rungs"], rung).unwrap();
    named(&rung["features"], feature).unwrap()["state"].as_str().unwrap()
}

/// Starts a command on a kernel that answers these calls so.
pub(crate) fn on_a_kernel_that_answers(calls: &[(&'static str, Errno)], command: Command) -> Output {
    let rule = |(name, errno): &(&'static str, Errno)| SyscallRule {
        name,
        when: &[],
        action: SyscallAction::Errno(*errno),
        reason: "another kernel",
    };
    under_a_filter(&calls.iter().map(rule).collect::<Vec<_>>(), command)
}

/// Filters bind the thread and what it starts.
fn under_a_filter(rules: &[SyscallRule], mut command: Command) -> Output {
    let program = seccomp::compile(rules).unwrap().program;
    let start = || {
        rustix::thread::set_no_new_privs(true).unwrap();
        seccomp::install(&program, Flags::NONE).unwrap();
        command.output().unwrap()
    };
    std::thread::scope(|scope| scope.spawn(start).join().unwrap())
}

/// A15 M4: on the machines that run the tests everything that a rung needs is there, for root and for an ordinary user.
#[test]
fn a15_a_host_that_can() {
    let world = open_world();
    for who in everybody() {
        let answer = json(&doctor(&world, *who, &["--json"]).output().unwrap(), 0);
        assert_eq!(answer["verdict"]["rung"], "native", "{who:?}");
        assert_eq!(answer["verdict"]["full"], true);
        assert_eq!(answer["host"]["root"], *who == Who::Caller && is_root());
        assert_eq!(answer["host"].get("blocked"), None);
        for feature in ["namespaces", "mounts", "/proc of its own", "seccomp filter", "a second wall", "a terminal"] {
            assert_eq!(state(&answer, "native", feature), "works", "{who:?}: {feature}");
        }
        assert_eq!(state(&answer, "landlock", "files"), "works");
        assert_eq!(state(&answer, "bwrap", "bubblewrap"), "works");
        assert!(answer["host"]["landlock"]["abi"].as_u64().unwrap() >= 3);
        let words = doctor(&world, *who, &[]).output().unwrap();
        let words = text(&words.stdout);
        assert!(words.starts_with("native: "), "{words}");
        let head: Vec<&str> = words.lines().take(4).collect();
        assert!(head[1].starts_with("full sandbox: works on this machine"), "{words}");
        assert!(head[2].starts_with("to fix it: ") && head[3].is_empty(), "{words}");
        assert!(words.contains("\n  works    a second wall "), "{words}");
        assert!(!words.contains('\u{1b}') && !words.contains("\\x1b"), "no colour for a pipe: {words}");
    }
}

/// A probe leaves nothing behind: no mount and no file.
#[test]
fn nothing_outlives_the_probes() {
    let world = open_world();
    // In a mount namespace of its own, so that what other tests do does not show.
    let inside = r#"
        mount -t tmpfs none /tmp; mkdir /tmp/state
        state() { cat /proc/self/mountinfo; ls -A /tmp . /etc; cat /proc/sys/user/*; }
        state >/tmp/state/before; "$R" doctor >/dev/null || test $? = 1; state >/tmp/state/after
        cd /tmp/state; cmp before after && echo same"#;
    for who in everybody() {
        let mut apart = command(&world, Path::new("/usr/bin/unshare"), *who);
        let own = if *who == Who::Caller && is_root() { "-m" } else { "-Urm" };
        let output = apart.args([own, "sh", "-ec", inside]).output().unwrap();
        assert_eq!(text(&output.stdout), "same\n", "as {who:?}: {}", text(&output.stderr));
    }
}

/// K4: user namespaces are switched off, as on hardened hosts. The limit is one of the caller's own user namespace.
#[test]
fn k4_no_user_namespaces() {
    let world = open_world();
    let blocked = |arguments: &str| {
        let script = format!(
            "exec unshare --map-current-user --keep-caps sh -ec 'echo 0 >/proc/sys/user/max_user_namespaces; \
             exec setpriv --inh-caps=-all --ambient-caps=-all \"$R\" doctor {arguments}'"
        );
        sh(&world, user(), &script)
    };
    let answer = json(&blocked("--json"), 1);
    assert_eq!(answer["verdict"]["rung"], "landlock");
    let words = answer["verdict"]["words"].as_str().unwrap();
    let expected = "landlock: falls back to Landlock and seccomp alone, because user.max_user_namespaces is 0 (clone3(";
    assert!(words.starts_with(expected), "{words}");
    assert_eq!(answer["host"]["blocked"]["errno"], 28);
    assert_eq!(state(&answer, "native", "namespaces"), "missing");
    assert_eq!(state(&answer, "native", "mounts"), "untried");
    let remedy = &answer["remedies"][0];
    assert_eq!((&remedy["name"], &remedy["needed"]), (&"sysctl".into(), &true.into()));
    assert_eq!(remedy["steps"][1]["command"][0], "sysctl");
    // Somebody who is not root is told, and nothing is done.
    for arguments in ["--fix", "--fix --yes", "--fix sysctl"] {
        let output = blocked(arguments);
        assert_eq!(output.status.code(), Some(1));
        let (script, said) = (text(&output.stdout), text(&output.stderr));
        let path = "/etc/sysctl.d/99-ringfence-user-max-user-namespaces.conf";
        let expected = format!(
            "sudo tee {path} >/dev/null <<'END'\n# Written by `ringfence doctor --fix`.\n\
             user.max_user_namespaces = 16384\nEND\nsudo sysctl -p {path}\n"
        );
        assert_eq!(script, expected);
        assert!(said.contains("does not call sudo by itself"), "{said}");
        assert!(!Path::new(path).exists());
    }
}

/// K4: a filter refuses, as that of a container engine does: at once, or only when something is mounted.
#[test]
fn k4_filters() {
    let world = open_world();
    for who in everybody() {
        let check = |output: &Output, step: &str, namespaces: &str| {
            let answer = json(output, 1);
            let words = answer["verdict"]["words"].as_str().unwrap();
            let expected = "because a seccomp filter around this process refuses it, as container engines do";
            assert!(words.contains(expected), "as {who:?}: {words}");
            assert_eq!(answer["host"]["blocked"]["step"], step, "as {who:?}");
            assert_eq!(state(&answer, "native", "namespaces"), namespaces);
            // What is refused there says nothing about the rung below.
            assert_eq!(answer["verdict"]["rung"], "landlock", "as {who:?}: {answer}");
            assert_eq!(state(&answer, "landlock", "files"), "works", "as {who:?}");
            assert!(answer["remedies"][0]["by_hand"].as_str().unwrap().contains("seccomp"), "{answer}");
        };
        // Our own filter is one: it hides clone3 and looks at the flags of clone.
        let engine = under_a_filter(&ringfence_plan::syscalls(Fence::Namespaces), doctor(&world, *who, &["--json"]));
        check(&engine, CLONE, "missing");
        let answers =
            |calls: &[(&'static str, Errno)]| on_a_kernel_that_answers(calls, doctor(&world, *who, &["--json"]));
        check(&answers(&[("clone3", Errno::EPERM), ("unshare", Errno::EPERM)]), CLONE, "missing");
        check(&answers(&[("mount", Errno::EPERM)]), "mount(/, MS_REC|MS_PRIVATE)", "works");
        // Where clone3 alone is hidden, clone does the same.
        let answer = json(&answers(&[("clone3", Errno::ENOSYS)]), 0);
        assert_eq!(answer["verdict"]["rung"], "native", "as {who:?}");
    }
}

const CLONE: &str = "clone3(CLONE_NEWNS|CLONE_NEWPID|CLONE_NEWNET|..)";

/// K4: old kernels have the process and not the mounts.
#[test]
fn k4_calls_that_an_old_kernel_does_not_have() {
    let world = open_world();
    for (call, feature) in
        [("open_tree", "detached mounts"), ("mount_setattr", "recursive read-only"), ("pivot_root", "pivot_root")]
    {
        let calls = [(call, Errno::ENOSYS)];
        let answer = json(&on_a_kernel_that_answers(&calls, doctor(&world, Who::Caller, &["--json"])), 1);
        assert_eq!(state(&answer, "native", "namespaces"), "works", "{call}");
        assert_eq!(state(&answer, "native", feature), "missing", "{call}");
        assert_eq!(state(&answer, "native", "giving up rights"), "untried", "{call}");
        // What a start tries later is tried by itself, too.
        assert_eq!(state(&answer, "native", "seccomp filter"), "works", "{call}");
    }
}

/// T6 K4: without Landlock the view stands alone, and without both nothing starts.
#[test]
fn k4_landlock_is_hidden() {
    let world = open_world();
    for who in everybody() {
        let hidden = [("landlock_create_ruleset", Errno::ENOSYS)];
        let answer = json(&on_a_kernel_that_answers(&hidden, doctor(&world, *who, &["--json"])), 1);
        assert_eq!((&answer["verdict"]["rung"], &answer["verdict"]["full"]), (&"native".into(), &false.into()));
        assert!(answer["verdict"]["lost"].as_array().unwrap().contains(&"a second wall".into()), "{answer}");
        assert_eq!(answer["remedies"][0]["name"], "landlock");
        let both = [hidden[0], ("mount", Errno::EPERM)];
        let answer = json(&on_a_kernel_that_answers(&both, doctor(&world, *who, &["--json"])), 1);
        assert_eq!(answer["verdict"]["rung"], Value::Null, "{answer}");
        let words = answer["verdict"]["words"].as_str().unwrap();
        assert!(words.starts_with("none: `ringfence run` refuses here, because "), "{words}");
        assert!(words.contains("; this kernel has no Landlock ("), "{words}");
    }
}

/// I1: a bubblewrap that others can change is none, for `doctor` and for `run`. In a mount namespace one is put over the system's own.
#[test]
fn i1_doctor_and_run_take_the_same_bubblewrap() {
    let world = open_world();
    world.write("none.toml", "version = 1\n");
    let script = r#"
        mount -t tmpfs -o mode=755 none /mnt; cp /usr/bin/bwrap /mnt/bwrap; chmod 777 /mnt/bwrap
        mount --bind /mnt/bwrap /usr/bin/bwrap
        "$R" doctor --json || test $? = 1
        mkdir /mnt/home; export HOME=/mnt/home
        "$R" run --backend bwrap --policy ../none.toml -- /bin/true"#;
    for who in everybody() {
        let mut apart = command(&world, Path::new("/usr/bin/unshare"), *who);
        let own = if *who == Who::Caller && is_root() { "-m" } else { "-Urm" };
        let output = apart.args([own, "sh", "-ec", script]).output().unwrap();
        let said = text(&output.stderr);
        let answer = json(&output, 125);
        assert_eq!(state(&answer, "bwrap", "bubblewrap"), "missing", "as {who:?}: {said}");
        let reason = "/usr/bin/bwrap can be changed by others than the administrator";
        assert!(said.contains(reason), "as {who:?}: {said}");
        assert!(text(&output.stdout).contains(reason), "as {who:?}");
    }
}

/// A15: `--fix --yes` puts a host right, in a throwaway one: namespaces of its own, in which the caller is root and a limit is 0.
#[test]
fn a15_a_host_is_put_right() {
    let world = open_world();
    let script = r#"exec unshare -Urm sh -ec '
        mount -t tmpfs none /etc/sysctl.d
        echo 0 >/proc/sys/user/max_net_namespaces
        "$R" doctor --fix </dev/null && exit 90; test $? = 125 || exit 91
        test "$(cat /proc/sys/user/max_net_namespaces)" = 0 && test -z "$(ls /etc/sysctl.d)" || exit 92
        "$R" doctor --fix --yes || test $? = 1
        cat /proc/sys/user/max_net_namespaces /etc/sysctl.d/*
        echo 0 >/proc/sys/user/max_net_namespaces
        "$R" doctor --fix --yes || test $? = 1
        echo "user.max_net_namespaces = 5" >/etc/sysctl.d/99-ringfence-user-max-net-namespaces.conf
        echo 0 >/proc/sys/user/max_net_namespaces
        "$R" doctor --fix --yes && exit 93; test $? = 125 || exit 94
    '"#;
    for who in everybody() {
        let output = sh(&world, *who, script);
        let (done, said) = (text(&output.stdout), text(&output.stderr));
        assert!(output.status.success(), "as {who:?}: {:?}\n{done}\n{said}", output.status);
        assert_eq!(done, "16384\n# Written by `ringfence doctor --fix`.\nuser.max_net_namespaces = 16384\n");
        let path = "/etc/sysctl.d/99-ringfence-user-max-net-namespaces.conf";
        for expected in [
            "there is no terminal to ask on",
            "hint: `--yes` does it without asking",
            &format!("wrote {path}\nran sysctl -p {path}\n"),
            &format!("{path} is so already\nran sysctl -p {path}\n"),
            &format!("{path} is there and was not written by ringfence"),
            // The limit is gone; this root is nobody outside, and cannot become somebody else.
            "because root cannot become anybody else here",
        ] {
            assert!(said.contains(expected), "as {who:?}: {expected}\n{said}");
        }
        assert!(!Path::new(path).exists(), "the host itself was changed");
    }
}

/// A15: the user for root's own sessions is made when it is asked for by name, on a copy of the account files.
#[test]
fn a15_the_agent_user() {
    let world = open_world();
    if !is_root() {
        // Somebody else is not offered one.
        let output = doctor(&world, Who::Caller, &["--fix", "agent-user", "--yes"]).output().unwrap();
        assert!(text(&output.stderr).contains("there is nothing to put right"), "{}", text(&output.stderr));
        return;
    }
    let before = fs::read("/etc/passwd").unwrap();
    let script = r#"exec unshare -m sh -ec '
        mount -t tmpfs none /tmp && cp -a /etc /tmp/etc && mount --bind /tmp/etc /etc && mount -t tmpfs none /var/log
        "$R" doctor --fix agent-user </dev/null && exit 90; test $? = 125
        grep -q ringfence-agent /etc/passwd && exit 91
        "$R" doctor --fix --yes </dev/null; grep -q ringfence-agent /etc/passwd && exit 92
        "$R" doctor --fix agent-user --yes; grep ringfence-agent /etc/passwd | cut -d: -f1,6,7
        "$R" doctor --fix agent-user --yes
    '"#;
    let output = sh(&world, Who::Caller, script);
    let (done, said) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{:?}\n{done}\n{said}", output.status);
    assert!(done.starts_with("ringfence-agent:/nonexistent:/"), "{done}");
    assert!(said.contains("ran useradd --system") && said.contains("there is nothing to put right"), "{said}");
    assert_eq!(fs::read("/etc/passwd").unwrap(), before, "the host itself was changed");
}

/// A15: on a terminal each remedy is asked for, and only a yes is one.
#[test]
fn a15_a_question_before_each_remedy() {
    let world = open_world();
    let python = r#"
import os, pty, sys
pid, fd = pty.fork()
if pid == 0:
    os.execv(os.environ["R"], [os.environ["R"], "doctor", "--fix"])
seen = b""
while True:
    try:
        more = os.read(fd, 4096)
    except OSError:
        break
    if not more:
        break
    if b"[y/N] " in (seen + more) and b"[y/N] " not in seen:
        os.write(fd, sys.argv[1].encode() + b"\n")
    seen += more
os.waitpid(pid, 0)
sys.stdout.write("asked " if b"do this? [y/N] " in seen else "not asked ")
sys.stdout.write(open("/proc/sys/user/max_net_namespaces").read())
"#;
    let script = world.write("ask.py", python);
    for (answer, value) in [("y", "16384"), ("n", "0"), ("", "0"), ("yes", "16384"), ("yellow", "0")] {
        let inside = format!(
            "mount -t tmpfs none /etc/sysctl.d; echo 0 >/proc/sys/user/max_net_namespaces; \
             exec /usr/bin/python3 {} '{answer}'",
            script.display()
        );
        let mut apart = command(&world, Path::new("/usr/bin/unshare"), user());
        let output = apart.args(["-Urm", "sh", "-ec", &inside]).output().unwrap();
        assert_eq!(text(&output.stdout), format!("asked {value}\n"), "{answer:?}: {}", text(&output.stderr));
    }
}

/// The command line says what it does not take.
#[test]
fn doctors_arguments() {
    let world = crate::world();
    world.ringfence(&["doctor", "--yes"]).expect_code(2);
    world.ringfence(&["doctor", "--fix", "--json"]).expect_code(2);
    let run = world.ringfence(&["doctor", "--fix", "nonsense"]).expect_code(2);
    assert!(run.stderr.contains("agent-user, apparmor, bubblewrap, sysctl"), "{}", run.stderr);
}
