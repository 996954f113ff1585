//! Each system call of a start fails once: its first, second and last occurrence in each process, with each plausible error.
//!
//! strace injects the errors (`inject=CALL:error=ERRNO:when=N` counts for each process), into everything that is ringfence: the
//! command itself may meet one too, which makes its own attempts fail.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::{Command, Output, Stdio};

use crate::chance::{Chance, number};
use crate::ground::{Ground, Who};

/// How many faults a build tries, for each user.
const SAMPLE: usize = 30;

/// What can fail at all, and is no part of the language's runtime, where every failure is an abort.
fn errors(call: &str) -> &'static [&'static str] {
    match call {
        "openat" | "open" | "openat2" => &["EACCES", "ENOENT", "EMFILE", "ENOMEM", "EIO"],
        "read" | "pread64" | "readv" | "recvmsg" | "recvfrom" | "readlink" | "readlinkat" | "getdents64" => {
            &["EIO", "ENOMEM"]
        }
        "write" | "pwrite64" | "writev" | "sendmsg" | "sendto" => &["EIO", "ENOSPC"],
        "mkdir" | "mkdirat" | "symlinkat" | "linkat" | "renameat" | "renameat2" | "rename" | "link" | "symlink" => {
            &["ENOSPC", "EACCES", "EIO"]
        }
        "unlink" | "unlinkat" | "rmdir" => &["EACCES", "EIO"],
        "clone" | "clone3" | "fork" | "vfork" => &["EAGAIN", "ENOMEM", "EPERM"],
        "mount" | "umount2" | "fsopen" | "fsconfig" | "fsmount" | "move_mount" | "open_tree" | "mount_setattr"
        | "pivot_root" => &["EPERM", "EINVAL", "ENOMEM", "ENOSYS"],
        "unshare" | "setns" => &["EPERM", "ENOSPC", "EINVAL"],
        "seccomp" | "landlock_create_ruleset" | "landlock_add_rule" | "landlock_restrict_self" => {
            &["EINVAL", "ENOSYS", "EPERM", "ENOMEM"]
        }
        "prctl" | "capset" | "capget" | "setgroups" | "setuid" | "setgid" | "setresuid" | "setresgid" | "setsid"
        | "setpgid" => &["EPERM", "EINVAL"],
        "socket" | "socketpair" | "pipe2" | "eventfd2" | "memfd_create" | "epoll_create1" | "signalfd4" | "dup"
        | "dup3" | "inotify_init1" | "pidfd_open" | "accept4" | "timerfd_create" => &["EMFILE", "ENOMEM", "EPERM"],
        "bind" | "connect" | "listen" | "setsockopt" | "getsockopt" => &["EACCES", "EADDRINUSE", "ENOMEM"],
        "fstat" | "newfstatat" | "statx" | "fstatfs" | "statfs" | "lseek" | "fsync" | "fdatasync" | "ftruncate"
        | "fallocate" | "fchmod" | "fchown" | "fchmodat" | "fchownat" | "flock" | "fsetxattr" | "fgetxattr"
        | "utimensat" | "chmod" | "chown" | "chdir" | "fchdir" | "access" | "faccessat" | "faccessat2" => {
            &["EIO", "EACCES", "ENOMEM"]
        }
        "ioctl" | "fcntl" => &["EINVAL", "EPERM", "EAGAIN"],
        "wait4" | "waitid" | "poll" | "ppoll" | "epoll_wait" | "epoll_pwait" | "pselect6" => &["EINTR", "ENOMEM"],
        "epoll_ctl" | "inotify_add_watch" => &["ENOMEM", "ENOSPC"],
        "kill" | "tgkill" | "pidfd_send_signal" | "process_vm_readv" | "pidfd_getfd" | "kcmp" => &["EPERM", "ESRCH"],
        "close_range" | "sched_setaffinity" | "sched_setscheduler" | "set_tid_address" | "rseq" | "membarrier" => {
            &["ENOSYS", "EINVAL"]
        }
        "close" => &["EIO"],
        // Also prlimit64 and getrandom, of which nothing is asked that can fail, and mmap, without which no thread begins.
        _ => &[],
    }
}

#[derive(Debug, Clone)]
struct Fault {
    call: String,
    error: &'static str,
    when: usize,
}

/// The faults that a start can meet.
fn faults(ground: &Ground) -> Vec<Fault> {
    let trace = ground.path("run/trace");
    let output = traced(ground, &["-e", "signal=none", "-e", "trace=all"], trace.to_str().unwrap());
    assert!(output.status.success() && ground.has_run(), "{}", text(&output.stderr));
    assert_eq!(ground.breaches(""), [""; 0]);
    let mut counts: BTreeMap<(String, String), usize> = BTreeMap::new();
    let (mut started, mut first): (BTreeSet<String>, Option<String>) = (BTreeSet::new(), None);
    for line in fs::read_to_string(&trace).unwrap().lines() {
        let Some((pid, rest)) = line.split_once(' ') else { continue };
        let Some((call, _)) = rest.trim_start().split_once('(') else { continue };
        if !call.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') || started.contains(pid) {
            continue;
        }
        let is_first = first.get_or_insert_with(|| pid.to_owned()) == pid;
        if call == "execve" && !is_first {
            // From here on it is the command.
            started.insert(pid.to_owned());
        }
        *counts.entry((call.to_owned(), pid.to_owned())).or_default() += 1;
    }
    let mut wanted: BTreeSet<(String, usize)> = BTreeSet::new();
    for ((call, _), count) in counts {
        wanted.extend([1, 2, count].into_iter().filter(|when| *when <= count).map(|when| (call.clone(), when)));
    }
    let each = |(call, when): (String, usize)| {
        errors(&call).iter().map(move |error| Fault { call: call.clone(), error, when }).collect::<Vec<_>>()
    };
    wanted.into_iter().flat_map(each).collect()
}

fn traced(ground: &Ground, options: &[&str], trace: &str) -> Output {
    let mut command: Command = ground.command("timeout");
    command.args(["--signal=KILL", "60", "strace", "-f", "-qq", "-o", trace]).args(options);
    command.arg("--").arg(ground.binary()).args(["run", "--", "/bin/bash", "-c", &ground.probe()]);
    command.stdin(Stdio::null()).output().unwrap()
}

/// One fault. What is wrong with its outcome?
fn attempt(ground: &Ground, fault: &Fault) -> Result<bool, String> {
    let inject = format!("inject={}:error={}:when={}", fault.call, fault.error, fault.when);
    let trace = format!("trace={}", fault.call);
    let output = traced(ground, &["-e", &trace, "-e", &inject], "/dev/null");
    let errors = text(&output.stderr);
    let has_run = ground.has_run();
    let mut wrong = ground.breaches(&errors);
    match output.status.code() {
        // `timeout` ends itself by the signal too; 137 as a code is a session that was ended, since its broker could not begin.
        None => wrong.push(format!("it did not end: {:?}", output.status)),
        // The loader or the runtime could not begin.
        Some(127 | 134) if !has_run && !errors.trim().is_empty() => {}
        Some(0) if !has_run => wrong.push("nothing ran, and it looks like success".to_owned()),
        // Any other code is the command's own, which could not leave its sign.
        Some(125) if !errors.contains("error") && !errors.contains("cannot") => {
            wrong.push("nothing ran, and no message says why".to_owned());
        }
        Some(_) => {}
    }
    if errors.contains("panicked at") {
        wrong.push("it panicked".to_owned());
    }
    let mut is_collected = true;
    if !ground.sessions().is_empty() {
        // A failure to remove something leaves it for gc.
        is_collected = false;
        let _ = ground.ringfence(&["gc"]).output().unwrap();
    }
    wrong.extend(ground.left());
    // What hangs must not count for the next one.
    for process in ground.processes().into_iter().filter_map(rustix::process::Pid::from_raw) {
        let _ = rustix::process::kill_process(process, rustix::process::Signal::KILL);
    }
    if wrong.is_empty() { Ok(is_collected) } else { Err(format!("{fault:?}: {}\n{errors}", wrong.join("; "))) }
}

fn try_faults(who: Who, chance: &mut Chance) {
    let ground = Ground::new(who);
    let all = faults(&ground);
    let most = if number("RINGFENCE_FAULTS_ALL").is_some() { usize::MAX } else { SAMPLE };
    let chosen = chance.sample(all.clone(), most);
    println!("as {who:?}: {} of {} faults", chosen.len(), all.len());
    let mut failures = Vec::new();
    let mut collected = 0;
    for (number, fault) in chosen.iter().enumerate() {
        match attempt(&ground, fault) {
            Ok(is_collected) => collected += usize::from(!is_collected),
            Err(wrong) => {
                println!("{wrong}");
                failures.push(wrong);
            }
        }
        if number % 100 == 99 {
            println!("as {who:?}: {} tried, {} wrong", number + 1, failures.len());
        }
    }
    println!("as {who:?}: {} tried, {collected} left something for gc, {} wrong", chosen.len(), failures.len());
    assert!(failures.is_empty(), "as {who:?}: {}", failures.join("\n"));
}

#[test]
fn a_failing_call_refuses_the_start_or_the_session_holds() {
    let mut chance = Chance::new("faults");
    if rustix::process::geteuid().is_root() {
        try_faults(Who::Nobody, &mut chance);
    }
    try_faults(Who::Caller, &mut chance);
}

fn text(bytes: &[u8]) -> String {
    bytes.utf8_chunks().map(|chunk| format!("{}{}", chunk.valid(), chunk.invalid().escape_ascii())).collect()
}
