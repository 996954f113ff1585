//! A hostile agent, in the call and in the session.

use std::fs;
use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::ground::{BOTH, From, each, text};

/// K10: what a call leaves in its home is nobody's: neither the session's nor the next call's.
#[test]
fn k10_a_home_cannot_be_planted() {
    each(|ground| {
        let session = ground.session();
        let plant =
            "for f in .bashrc .profile .gitconfig planted; do echo EVIL > \"$HOME/$f\"; done; ls -A \"$HOME\" | wc -l";
        assert!(session.call(&[], plant).status.success());
        let home = session.dir().join("home");
        assert_eq!(fs::read(home.join("planted")).unwrap(), b"planted\n", "as {:?}", ground.who);
        assert!(!home.join(".bashrc").exists(), "as {:?}", ground.who);
        let next = session.call(&[], "ls -A \"$HOME\"; cat \"$HOME/planted\"");
        assert!(
            !text(&next.stdout).contains("EVIL") && !text(&next.stdout).contains("planted"),
            "{}",
            text(&next.stdout)
        );
        // By the session's own path it is not there at all.
        for script in ["cat {}/planted", "ls {}", "echo x > {}/x"] {
            let output = session.call(&[], &script.replace("{}", home.to_str().unwrap()));
            assert!(!output.status.success(), "as {:?}: {script}", ground.who);
        }
    });
}

/// K10: inside, nothing of the session's processes is reached from a call: no memory, no environment, no signal.
#[test]
fn k10_the_sessions_processes_are_out_of_reach() {
    each(|ground| {
        let outer = "sleep 1000 & export HIDDEN=sesame-hidden; \"$RINGFENCE_EXE\" exec --within \"$RINGFENCE_SESSION\" \"$@\"; \
                     kill -0 $! && echo alive";
        let script = "me=$$; for p in /proc/[0-9]*; do p=${p#/proc/}; \
                      cat /proc/$p/environ 2>/dev/null | tr '\\0' '\\n' | grep sesame && echo LEAKED; \
                      head -c 1 /proc/$p/mem > /dev/null 2>&1 && echo MEMORY; \
                      ls /proc/$p/fd /proc/$p/cwd/ > /dev/null 2>&1 && test $p != $me && echo OPENED $p; \
                      test $p = $me || kill -9 $p 2>/dev/null; done; echo done";
        let output = ground.inside(outer, &[], script);
        let said = text(&output.stdout);
        assert!(
            said.contains("done\n") && said.ends_with("alive\n"),
            "as {:?}: {said}\n{}",
            ground.who,
            text(&output.stderr)
        );
        for bad in ["LEAKED", "MEMORY", "sesame"] {
            assert!(!said.contains(bad), "as {:?}: {said}", ground.who);
        }
    });
}

/// K10: what the caller has open stays with the caller.
#[test]
fn k10_no_descriptor_comes_along() {
    each(|ground| {
        let session = ground.session();
        // A shell that has files open becomes the call, as whoever works.
        let mut command = ground.by(std::process::Command::new("/bin/sh"));
        command.args(["-c", "exec 7< top 8< /etc 9>> src/a; exec \"$@\"", "sh"]).arg(ground.ringfence().get_program());
        command.args(["exec", "--within", &session.id, "--", "/bin/sh", "-c", "ls /proc/self/fd && ls /proc/1/fd"]);
        let output = command.output().unwrap();
        let said = text(&output.stdout);
        let is_open = |fd: &str| said.lines().any(|line| line == fd);
        assert!(is_open("0") && is_open("2"), "as {:?}: {said}{}", ground.who, text(&output.stderr));
        assert!(!is_open("7") && !is_open("8") && !is_open("9"), "as {:?}: {said}", ground.who);
    });
}

/// K10: a link is followed before it is asked whether the session has what it leads to.
#[test]
fn k10_links_do_not_widen() {
    each(|ground| {
        for (name, to) in [("out", "elsewhere"), ("keys", "home/.ssh"), ("up", "")] {
            symlink(ground.path(to), ground.path("project").join(name)).unwrap();
        }
        for from in BOTH {
            for args in [["--write", "out"], ["--write", "up"], ["--read", "keys"], ["--workdir", "out"]] {
                let output = ground.call(from, &args, "true");
                assert_eq!(output.status.code(), Some(125), "as {:?}: {args:?} {}", ground.who, text(&output.stderr));
                assert!(text(&output.stderr).contains("this would gain"), "{}", text(&output.stderr));
            }
        }
    });
}

/// K10: whoever swaps a directory for a link while calls start gets nothing written or read elsewhere.
#[test]
fn k10_a_directory_that_is_swapped_while_calls_start() {
    each(|ground| {
        let session = ground.session();
        let (dir, aside, link) =
            (ground.path("project/src"), ground.path("project/aside"), ground.path("project/lure"));
        symlink(ground.path("elsewhere"), &link).unwrap();
        let stop = AtomicBool::new(false);
        let (mut wrote, mut refused) = (0, 0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let _ = fs::rename(&dir, &aside);
                    let _ = fs::rename(&link, &dir);
                    let _ = fs::rename(&dir, &link);
                    let _ = fs::rename(&aside, &dir);
                }
            });
            for _ in 0..25 {
                let output = session.call(&["--write", "src"], "echo EVIL > src/pwned; cat src/kept; true");
                assert!(!text(&output.stdout).contains("kept"), "as {:?}: read through the link", ground.who);
                match output.status.code() {
                    Some(0) => wrote += 1,
                    _ => refused += 1,
                }
            }
            stop.store(true, Ordering::Relaxed);
        });
        assert_eq!((wrote + refused, ground.path("elsewhere/pwned").exists()), (25, false), "as {:?}", ground.who);
        assert_eq!(fs::read_dir(ground.path("elsewhere")).unwrap().count(), 1);
    });
}

/// K10: names of sessions that are none, or somebody else's.
#[test]
fn k10_sessions_that_are_not_the_callers() {
    each(|ground| {
        let session = ground.session();
        let ended = {
            let other = ground.session();
            let name = other.id.clone();
            other.end();
            name
        };
        let sideways = format!("../sessions/{}", session.id);
        for name in ["", "..", ".", "/", "nope", &sideways, &ended] {
            let mut command = ground.ringfence();
            let output = command.args(["exec", "--within", name, "--", "/bin/echo", "STARTED"]).output().unwrap();
            assert_eq!(output.status.code(), Some(125), "{name:?}: {}", text(&output.stderr));
            assert!(output.stdout.is_empty(), "{name:?}");
        }
        // Another user has another state directory; by naming this one nothing is gained.
        if rustix::process::geteuid().is_root() {
            use std::os::unix::process::CommandExt as _;
            let mut command = ground.ringfence();
            command.uid(12345).gid(12345).args(["exec", "--within", &session.id, "--", "/bin/echo", "STARTED"]);
            let output = command.output().unwrap();
            assert_eq!(output.status.code(), Some(125), "{}", text(&output.stderr));
        }
    });
}

/// K10: a record that somebody inside has made up gains nothing: the fence around goes on to hold.
#[test]
fn k10_a_forged_record_gains_nothing() {
    each(|ground| {
        // The record of a wider session, taken along into a narrower one.
        ground.policy("");
        let wide = ground.session();
        let record = fs::read(wide.dir().join("given/record")).unwrap();
        let name = wide.id.clone();
        drop(wide);
        ground.write(&[("project/ringfence.toml", "version = 1\n[files]\nwrite = [\".\"]\nread = [\"../other\"]\n")]);
        assert!(ground.ringfence().args(["trust", "--force"]).output().unwrap().status.success());
        fs::write(ground.path("project/forged-record"), record).unwrap();
        let outer = format!(
            "mkdir -p /tmp/given && cp forged-record /tmp/given/record && E=$RINGFENCE_EXE; export RINGFENCE_EXE=/tmp/given/ringfence \
             RINGFENCE_SESSION={name}; exec \"$E\" exec --within {name} \"$@\""
        );
        let output = ground.inside(&outer, &["--write", "$W/other"], "echo EVIL > $W/other/pwned");
        assert!(!output.status.success(), "as {:?}: {}", ground.who, text(&output.stderr));
        assert!(!ground.path("other/pwned").exists(), "as {:?}", ground.who);
    });
}

/// K10: a session's record cannot be written from inside, and neither can ringfence itself.
#[test]
fn k10_what_is_given_cannot_be_changed() {
    each(|ground| {
        let given = "D=${RINGFENCE_EXE%/*}; ";
        for from in BOTH {
            ground.check(from, &[], &format!("{given} test -r \"$D/record\" && \"$RINGFENCE_EXE\" --version"), true);
            for script in [
                "echo x > $D/record",
                "rm $D/record",
                "mv $D/record $D/r",
                "echo x > $D/new",
                "chmod 777 $D",
                "rm -f $D/ringfence; ! test -e $D/ringfence",
            ] {
                // Of a call that is made inside, the directory lies where the session may write; the call itself may not.
                if from == From::Inside && script.starts_with("chmod") {
                    continue;
                }
                ground.check(from, &[], &format!("{given} {script}"), false);
            }
        }
    });
}

/// K10: a call within a call within a call, as deep as the kernel stacks them; then it is said.
#[test]
fn k10_layers_end_with_a_clear_word() {
    each(|ground| {
        let script = "echo \"level $1\" >&2; exec \"$RINGFENCE_EXE\" exec --within \"$RINGFENCE_SESSION\" -- \
                      /bin/sh \"$0\" $(($1 + 1))";
        ground.write(&[("project/deeper.sh", script)]);
        let mut command = ground.ringfence();
        let output = command.args(["run", "--", "/bin/sh", "deeper.sh", "1"]).output().unwrap();
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(125), "as {:?}: {said}", ground.who);
        assert!(said.contains("sixteen layers") && said.contains("hint: "), "as {:?}: {said}", ground.who);
        assert!(said.contains("level 16") && !said.contains("level 17"), "as {:?}: {said}", ground.who);
    });
}

/// K10: what a call may do is what its own record says, so a call within it is measured by that.
#[test]
fn k10_a_call_within_a_call_is_measured_by_the_call() {
    each(|ground| {
        let nested = |args: &str| {
            format!(
                "exec \"$RINGFENCE_EXE\" exec --within \"$RINGFENCE_SESSION\" {args} -- /bin/sh -c 'echo x > src/f'"
            )
        };
        for from in BOTH {
            let output = ground.call(from, &["--read-only"], &nested("--write src"));
            let said = text(&output.stderr);
            assert_eq!(output.status.code(), Some(125), "as {:?} from {from:?}: {said}", ground.who);
            assert!(said.contains("this would gain write"), "{said}");
            ground.check(from, &["--write", "src"], &nested("--write src"), true);
        }
    });
}

/// In the domain of a call that reads `docs` and writes nothing of the project: each way to a file of the git directory.
const GIT_FILES: &str = r#"
import os, sys
top = sys.argv[1] + "/"
for name in ("top", ".git/HEAD", ".git/packed-refs", ".git/index", ".git/config", ".git/logs/HEAD"):
    for flags in (os.O_RDONLY, os.O_RDWR, os.O_WRONLY, os.O_WRONLY | os.O_APPEND):
        try:
            fd = os.open(top + name, flags)
        except OSError as refused:
            continue
        # What a descriptor for writing stands for can be opened again for reading.
        again = os.open("/proc/self/fd/%d" % fd, os.O_RDONLY)
        print("OPENED", name, flags, os.read(again, 40))
own = os.environ["TMPDIR"] + "/config"
text = "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n\tlogallrefupdates = true\n[user]\n\tname = BY-THE-CALL\n"
for target in (".git/config", ".git/HEAD", ".git/packed-refs", ".git/index", "top"):
    open(own, "w").write("ref: refs/heads/by-the-call\n" if target == ".git/HEAD" else text)
    try:
        os.rename(own, top + target)
        print("RENAMED over", target)
    except OSError as refused:
        pass
# What it may not read does not get a name where it may read.
for source in (".git/index", ".git/packed-refs", ".git/HEAD", "top"):
    try:
        os.rename(top + source, os.environ["TMPDIR"] + "/taken")
        print("TOOK", source)
    except OSError as refused:
        pass
print("tried")
"#;

/// [H2] The broker and the supervisor do for a call inside only what its own Landlock domain lets it do, also where files of a git
/// directory are judged. What the call may write it writes, settings included.
#[test]
fn h2_git_files_are_touched_with_the_rights_of_the_call() {
    each(|ground| {
        let git = |args: &[&str]| {
            let mut command = ground.by(std::process::Command::new("/usr/bin/git"));
            let trusted = ["-c", "safe.directory=*", "-c", "user.name=x", "-c", "user.email=x@example.com"];
            let output = command.args(trusted).args(args).output().unwrap();
            assert!(output.status.success(), "{args:?}: {}", text(&output.stderr));
        };
        for args in [&["init", "-q", "."][..], &["add", "top"], &["commit", "-q", "-m", "x"], &["pack-refs", "--all"]] {
            git(args);
        }
        ground.write(&[("project/docs/t.py", GIT_FILES)]);
        let of_git = || {
            ["HEAD", "packed-refs", "index", "config"]
                .map(|name| std::fs::read(ground.path("project/.git").join(name)).unwrap())
        };
        let before = of_git();
        let args = ["--read-only", "--no-network", "--read", "docs", "--workdir", "docs"];
        let said = ground.call(From::Inside, &args, "python3 -I t.py $W/project");
        let shown = format!("as {:?}: {}{}", ground.who, text(&said.stdout), text(&said.stderr));
        assert_eq!(text(&said.stdout), "tried\n", "{shown}");
        assert_eq!(of_git(), before, "{shown}");
        // A call that may write the project has its settings put in place by the supervisor.
        let script = "git -c safe.directory=* config user.name by-a-call && git -c safe.directory=* -c user.email=x@example.com commit -q --allow-empty -m y";
        ground.check(From::Inside, &[], script, true);
        assert!(text(&of_git()[3]).contains("by-a-call"), "{}", text(&of_git()[3]));
    });
}

/// System V shared memory, semaphores and queues, and the scheduling of the process that is given and of the broker.
const SHARED: &str = r#"
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
KEY, CREATE = 0x52464835, 0o1600
if len(sys.argv) < 2:
    assert libc.shmget(KEY, 4096, CREATE) >= 0 and libc.semget(KEY, 1, CREATE) >= 0 and libc.msgget(KEY, CREATE) >= 0
    sys.exit(0)
for name, args in (("shmget", (KEY, 0, 0)), ("semget", (KEY, 0, 0)), ("msgget", (KEY, 0))):
    if getattr(libc, name)(*args) >= 0:
        print("REACHED", name)
for pid in (int(sys.argv[1]), 1):
    for name, act in (
        ("sched_setscheduler", lambda: os.sched_setscheduler(pid, os.SCHED_IDLE, os.sched_param(0))),
        ("sched_setaffinity", lambda: os.sched_setaffinity(pid, [0])),
        ("setpriority", lambda: os.setpriority(os.PRIO_PROCESS, pid, 19)),
    ):
        try:
            act()
            print("CHANGED", name, pid)
        except PermissionError:
            pass
os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
os.nice(1)
print("tried")
"#;

/// [H5] A call inside whose network is the session's shares nothing else of it: no memory, no queues, no scheduling.
#[test]
fn h5_a_call_shares_no_memory_and_no_scheduling_with_its_session() {
    each(|ground| {
        ground.write(&[("project/shared.py", SHARED)]);
        let outer = "python3 -I shared.py && exec \"$RINGFENCE_EXE\" exec --within \"$RINGFENCE_SESSION\" -- python3 -I shared.py $$";
        let said = ground.inside(outer, &[], "true");
        assert_eq!(text(&said.stdout), "tried\n", "as {:?}: {}", ground.who, text(&said.stderr));
    });
}
