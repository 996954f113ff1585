//! Starts in odd surroundings: closed descriptors, tiny limits, blocked signals, a working directory or a `/proc` that is missing. The
//! session holds, or nothing runs, a message says why and nothing is left. [H1, H4, H5]

use std::process::{Output, Stdio};

use crate::ground::{Ground, Who};

/// What a shell does first. `$@` is the program with its arguments.
const SURROUNDINGS: [(&str, &str); 21] = [
    ("stdin closed", "exec \"$@\" <&-"),
    ("stdout closed", "exec \"$@\" >&-"),
    ("all three closed", "exec \"$@\" <&- >&- 2>&-"),
    ("stdout read-only", "exec \"$@\" 1</dev/null"),
    ("stdout full", "exec \"$@\" >/dev/full"),
    ("3 descriptors", "ulimit -n 3; exec \"$@\""),
    ("8 descriptors", "ulimit -n 8; exec \"$@\""),
    ("20 descriptors", "ulimit -n 20; exec \"$@\""),
    ("many descriptors", "for n in $(seq 10 200); do eval \"exec $n</dev/null\"; done; exec \"$@\""),
    ("little address space", "ulimit -v 160000; exec \"$@\""),
    ("a small stack", "ulimit -s 128; exec \"$@\""),
    ("a tiny stack", "ulimit -s 24; exec \"$@\""),
    ("an unlimited stack", "ulimit -s unlimited; exec \"$@\""),
    ("no files", "ulimit -f 0; exec \"$@\""),
    ("a second of processor time", "ulimit -t 1; exec \"$@\""),
    ("no locked memory", "ulimit -l 0; exec \"$@\""),
    ("all signals blocked", "exec env --block-signal \"$@\""),
    ("all signals ignored", "exec env --ignore-signal \"$@\""),
    ("umask 0777", "umask 0777; exec \"$@\""),
    ("a removed directory", "mkdir gone; cd gone; rmdir ../gone; exec \"$@\""),
    ("no environment", "exec env -i \"$@\""),
];

/// What needs a mount namespace of its own.
const MOUNTED: [(&str, &str); 4] = [
    ("no /proc", "mount -t tmpfs none /proc"),
    ("a read-only home", "mount --bind \"$HOME\" \"$HOME\"; mount -o remount,bind,ro \"$HOME\""),
    ("a full home", "mount -t tmpfs -o size=64k,mode=777 none \"$HOME\"; head -c 1m /dev/zero > \"$HOME/full\""),
    ("no /dev", "mount -t tmpfs none /dev"),
];

fn start(ground: &Ground, before: &str, mounts: Option<&str>) -> Output {
    let mut command = match mounts {
        // A killed tracer would leave nothing: `unshare` has no processes of its own here.
        Some(_) => ground.command("unshare"),
        None => ground.command("timeout"),
    };
    if let Some(mounts) = mounts {
        command.args(["-m", "--", "/bin/sh", "-c", &format!("{mounts} 2>/dev/null; exec \"$@\""), "sh", "timeout"]);
    }
    command.args(["--signal=KILL", "60", "/bin/bash", "-c", before, "bash"]).arg(ground.binary());
    command.args(["run", "--", "/bin/bash", "-c", &ground.probe()]).stdin(Stdio::null());
    command.output().unwrap()
}

fn judge(ground: &Ground, name: &str, output: &Output) -> Vec<String> {
    let errors = output.stderr.utf8_chunks().map(|chunk| chunk.valid()).collect::<String>();
    let has_run = ground.has_run();
    let mut wrong = ground.breaches(&errors);
    let is_silent = errors.trim().is_empty() && !name.contains("all three");
    match output.status.code() {
        None | Some(137) if !name.contains("processor time") => wrong.push(format!("ended by {:?}", output.status)),
        Some(0) if !has_run => wrong.push("nothing ran, and it looks like success".to_owned()),
        _ if !has_run && is_silent => wrong.push("nothing ran, and no message says why".to_owned()),
        _ => {}
    }
    if errors.contains("panicked at") || errors.contains("overflowed its stack") {
        wrong.push("it crashed".to_owned());
    }
    if !ground.sessions().is_empty() {
        let _ = ground.ringfence(&["gc"]).output().unwrap();
    }
    wrong.extend(ground.left());
    println!("as {:?}: {name}: {}, {:?}", ground.who, if has_run { "ran" } else { "refused" }, output.status.code());
    wrong.into_iter().map(|wrong| format!("{name}: {wrong}\n{errors}")).collect()
}

#[test]
fn odd_surroundings_refuse_the_start_or_the_session_holds() {
    let is_root = rustix::process::geteuid().is_root();
    let mut wrong = Vec::new();
    for who in if is_root { &[Who::Caller, Who::Nobody][..] } else { &[Who::Caller] } {
        let ground = Ground::new(*who);
        for (name, before) in SURROUNDINGS {
            wrong.extend(judge(&ground, name, &start(&ground, before, None)));
        }
        // Only root mounts.
        if is_root && *who == Who::Caller {
            for (name, mounts) in MOUNTED {
                wrong.extend(judge(&ground, name, &start(&ground, "exec \"$@\"", Some(mounts))));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Opens a terminal, starts a session with a work tree on it that ignores SIGHUP, and closes the terminal after so many bytes of output:
/// while it prepares, or while its command waits for input.
const CLOSES_ITS_TERMINAL: &str = "
import fcntl, os, signal, sys, termios
master, slave = os.openpty()
child = os.fork()
if child == 0:
    os.setsid()
    fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
    for number in (0, 1, 2):
        os.dup2(slave, number)
    os.closerange(3, 64)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.alarm(0)
    os.execv(sys.argv[2], sys.argv[2:])
os.close(slave)
text = b''
while sys.argv[1].encode() not in text:
    text += os.read(master, 1)
os.close(master)
signal.alarm(60)
_, status = os.waitpid(child, 0)
sys.exit(os.waitstatus_to_exitcode(status) & 127)
";

/// [H4] A session whose terminal is closed ends, and nothing is left of it, also where SIGHUP is ignored.
#[test]
fn h4_a_closed_terminal_ends_a_session_that_ignores_sighup() {
    let is_root = rustix::process::geteuid().is_root();
    for who in if is_root { &[Who::Caller, Who::Nobody][..] } else { &[Who::Caller] } {
        let ground = Ground::new(*who);
        let git = "git init -q . && git add mine.txt && git -c user.name=n -c user.email=e@x commit -qm one";
        assert!(ground.command("/bin/sh").args(["-c", git]).status().unwrap().success());
        // The first words of ringfence, and those of the command.
        for words in ["ringfence: ", "waits"] {
            let mut command = ground.command("python3");
            command.args(["-c", CLOSES_ITS_TERMINAL, words]).arg(ground.binary());
            command.args(["run", "--worktree", "--", "/bin/sh", "-c", "echo waits; read line; cat"]);
            let output = command.output().unwrap();
            let errors = output.stderr.utf8_chunks().map(|chunk| chunk.valid()).collect::<String>();
            assert!(output.status.code().is_some(), "as {who:?}, after {words:?}: it did not end: {errors}");
            assert_eq!(ground.left(), [""; 0], "as {who:?}, after {words:?}: {errors}");
        }
    }
}
