//! Hosts on which something is missing or full: a clear refusal, and nothing is left.

use std::fs;
use std::process::Command;

use super::{Who, each, is_root, text};
use crate::screen::Screen;

/// In a container that masks parts of `/proc` an ordinary user cannot mount another; that is said, with the remedy.
#[test]
fn a_masked_proc() {
    each(|fence| {
        let output = fence.after_mounting(
            "mount --bind /dev/null /proc/meminfo",
            &[fence.binary(), "run", "--backend", "native", "--", "echo", "started"],
        );
        if is_root() && fence.who == Who::Caller {
            // Root's own mounts are not measured by what is masked.
            assert_eq!(text(&output.stdout), "started\n", "{}", text(&output.stderr));
            return;
        }
        fence.refused(&output, "mount(proc, /proc)");
        assert!(
            text(&output.stderr).contains("hint: a container that masks parts of /proc"),
            "{}",
            text(&output.stderr)
        );
    });
}

/// Without `/proc` there is no way to start anything.
#[test]
fn no_proc() {
    each(|fence| {
        let output = fence.after_mounting("mount -t tmpfs x /proc", &[fence.binary(), "run", "--", "echo", "started"]);
        fence.refused(&output, "/proc is not there");
    });
}

/// The disk that holds the sessions is full, at each point at which it can be.
#[test]
fn a_full_disk() {
    each(|fence| {
        fence.world.mkdir("home/state");
        fence.own();
        // The root of the file system is one, ringfence's directory and that of the sessions are two; then the session begins:
        // its directory, its three inner ones and its files.
        for inodes in 2..=9 {
            let mount = format!(
                "mount -t tmpfs -o size=1m,nr_inodes={inodes},mode=777 x $W/home/state; export XDG_STATE_HOME=$W/home/state"
            );
            let run = "\"$0\" run -- echo started; code=$?; find \"$XDG_STATE_HOME/ringfence/sessions\" -mindepth 1; exit $code";
            let output = fence.after_mounting(&mount, &["/bin/sh", "-c", run, fence.binary()]);
            fence.refused(&output, "No space left on device");
        }
        // With room it starts: it was the space.
        let mount =
            "mount -t tmpfs -o size=1m,nr_inodes=40,mode=777 x $W/home/state; export XDG_STATE_HOME=$W/home/state";
        let output = fence.after_mounting(mount, &[fence.binary(), "run", "--", "echo", "started"]);
        assert_eq!(text(&output.stdout), "started\n", "{}", text(&output.stderr));
    });
}

/// With too few descriptors the cause is named, at each point at which there can be too few, and what helps.
#[test]
fn few_descriptors() {
    each(|fence| {
        fence.policy("[network]\nallow = [\"api.example.com\"]\n");
        let run = |most: u32| {
            let mut limited = Command::new("/bin/sh");
            limited.args(["-c", &format!("ulimit -n {most}; exec \"$@\""), "sh"]).arg(fence.world.binary());
            fence.by(limited).args(["run", "--policy", "ringfence.toml", "--", "echo", "started"]).output().unwrap()
        };
        let is_started = |most: &u32| {
            let output = run(*most);
            let said = text(&output.stderr);
            if output.status.success() {
                assert_eq!(text(&output.stdout), "started\n", "as {:?}: {most}: {said}", fence.who);
                return true;
            }
            assert_eq!(output.status.code(), Some(125), "as {:?}: {most}: {said}", fence.who);
            for part in ["caused by: Too many open files", "hint: `ulimit -n "] {
                assert!(said.contains(part), "as {:?}: {most}: {said}", fence.who);
            }
            fence.left_nothing();
            false
        };
        let enough = (8..64).find(is_started);
        assert!(enough.is_some_and(|enough| enough > 16), "as {:?}: {enough:?}", fence.who);
    });
}

/// A disk that fills while the command runs is the command's trouble; the session goes away all the same.
#[test]
fn a_disk_that_fills_while_it_runs() {
    each(|fence| {
        fence.world.mkdir("home/state");
        fence.own();
        let mount = "mount -t tmpfs -o size=1m,mode=777 x $W/home/state; export XDG_STATE_HOME=$W/home/state";
        let run = "\"$0\" run -- sh -c 'head -c 2000000 /dev/zero > /tmp/x'; code=$?; find \"$XDG_STATE_HOME/ringfence/sessions\" -mindepth 1; exit $code";
        let output = fence.after_mounting(mount, &["/bin/sh", "-c", run, fence.binary()]);
        assert!(output.status.code() == Some(1) && output.stdout.is_empty(), "{}", text(&output.stderr));
        assert!(text(&output.stderr).contains("No space left on device"), "{}", text(&output.stderr));
    });
}

/// Whoever opens `/dev/tty` gets the terminal of their own session, and not that of the broker, which opens for others.
#[test]
fn a16_the_users_terminal_is_opened_by_nobody_inside() {
    const LOOK: &str = "
import ctypes, os
os.symlink('/dev/tty', 'lead')
for path in '/dev/tty', '/dev/../dev/tty', 'lead', '/proc/self/root/dev/tty':
    for flags in os.O_RDONLY, os.O_RDWR, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, os.O_RDWR | os.O_NONBLOCK:
        fd = os.open(path, flags)
        # Only who has it as the terminal of the session is told whose it is.
        session = ctypes.CDLL(None).tcgetsid(fd)
        print('own' if session == os.getsid(0) else 'OTHER', path, flags)
print('all were', 'opened')
";
    each(|fence| {
        for options in [&[][..], &["--no-broker"], &["--report-reads"]] {
            let mut command = fence.ringfence();
            command.arg("run").args(options).args(["--", "python3", "-c", LOOK]);
            let (code, shown) = Screen::start(command).all();
            let shown = text(&shown);
            assert_eq!(code, Some(0), "as {:?}: {shown}", fence.who);
            assert_eq!((shown.matches("own /").count(), shown.matches("own lead").count()), (12, 4), "{shown}");
            assert!(shown.contains("all were opened") && !shown.contains("OTHER"), "as {:?}: {shown}", fence.who);
            fs::remove_file(fence.path("project/lead")).unwrap();
        }
        // Nor where the session has none although the user has.
        let line = "\"$0\" run -- sh -c 'echo typed by nobody > /dev/tty' < /dev/null 2>&1 | cat";
        let mut shell = Command::new("sh");
        shell.args(["-c", line, fence.binary()]);
        let shown = text(&Screen::start(fence.by(shell)).all().1);
        assert!(
            shown.contains("No such device") && !shown.contains("typed by nobody\r\n"),
            "as {:?}: {shown}",
            fence.who
        );
    });
}

/// The first process carries out calls of those inside. It has left the user's terminal for the session's own, and what it opens
/// does not become its own.
#[test]
fn a16_the_first_process_has_left_the_users_terminal() {
    const LOOK: &str = "
import os, sys, time
def terminal():
    of = lambda who: open('/proc/%s/stat' % who).read().rpartition(')')[2].split()[4]
    return 'none' if of(1) == '0' else 'own' if of(1) == of('self') else 'another'
print('at first', terminal())
# A terminal that is nobody's yet, opened by the broker.
own, other = os.openpty()
os.close(os.open(os.ttyname(other), os.O_RDWR))
print('later', terminal())
assert os.ttyname(other) != os.ttyname(0)
";
    each(|fence| {
        for rung in [&[][..], &["--no-broker"]] {
            let mut command = fence.ringfence();
            command.arg("run").args(rung).args(["--", "python3", "-c", LOOK]);
            let (code, shown) = Screen::start(command).all();
            let shown = text(&shown);
            assert_eq!(code, Some(0), "as {:?}: {shown}", fence.who);
            assert!(shown.contains("at first own\r\nlater own\r\n"), "as {:?}: {shown}", fence.who);
        }
        // And has none where the session has none although the user has.
        let line = format!("\"$0\" run -- python3 -c \"{}\" < /dev/null 2>&1 | cat", LOOK.replace("assert", "0 and"));
        let mut shell = Command::new("sh");
        shell.args(["-c", &line, fence.binary()]);
        let shown = text(&Screen::start(fence.by(shell)).all().1);
        assert!(shown.contains("at first none\r\nlater none\r\n"), "as {:?}: {shown}", fence.who);
    });
}

/// The terminal inside is made inside: the host needs no devpts for it, and it has a name there.
#[test]
fn a16_the_terminal_has_a_name_inside() {
    each(|fence| {
        let inner = "tty; test -c \"$(tty)\" && echo by name > \"$(tty)\" && \
                     python3 -c 'import os; print(os.ttyname(0), os.ttyname(2))' && echo tty > /dev/tty && ls -1 /dev/pts && \
                     stat -c %u \"$(tty)\" && id -u";
        fence.write(&[("project/inner.sh", inner)]);
        for before in ["true", "mount -t tmpfs x /dev/pts; mount --bind /dev/null /dev/ptmx"] {
            // The outer terminal is opened before the host's are hidden.
            let flags = if is_root() { "-m" } else { "-Urm" };
            let who = if fence.who == Who::Nobody { "setpriv --reuid=65534 --regid=65534 --clear-groups" } else { "" };
            fence.world.write("as-who.sh", format!("{before}; exec {who} {} run -- sh inner.sh", fence.binary()));
            let mut outer = Command::new("script");
            outer.args(["-qec", &fence.script(&format!("unshare {flags} -- sh $W/as-who.sh")), "/dev/null"]);
            outer.current_dir(fence.path("project")).env_clear().stdin(std::process::Stdio::null());
            outer.env("PATH", "/usr/bin:/bin:/usr/sbin:/sbin").env("HOME", fence.path("home")).env("TERM", "xterm");
            let output = outer.output().unwrap();
            let shown = text(&output.stdout).replace("\r\n", "\n").replace("^@", "");
            assert!(output.status.success(), "as {:?}: {shown}", fence.who);
            assert!(
                shown.contains("/dev/pts/0\nby name\n/dev/pts/0 /dev/pts/0\ntty\n0\nptmx\n"),
                "as {:?}: {shown}",
                fence.who
            );
            let mut last = shown.lines().rev();
            assert_eq!(last.next(), last.next(), "it belongs to whoever works: {shown}");
        }
    });
}
