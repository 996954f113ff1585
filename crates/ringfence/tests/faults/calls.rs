//! Each system call of a start fails once: its first, second and last occurrence in each process, with each plausible error.
//!
//! strace injects the errors (`inject=CALL:error=ERRNO:when=N` counts for each process), into everything that is ringfence: the
//! command itself may meet one too, which makes its own attempts fail.
//!
//! `RINGFENCE_FAULTS_ONLY=close:EIO:2,mmap` tries only the faults that begin so, and `RINGFENCE_FAULTS_WHO=nobody` or `caller` only
//! as that user.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::chance::{Chance, number};
use crate::ground::{Ground, Who};

const SIGABRT: i32 = 6;
/// How many faults a build tries, for each user, and those that it always tries: what they met is fixed.
const SAMPLE: usize = 30;
const ALWAYS: [&str; 4] = ["capset:EPERM:1", "capset:EINVAL:1", "prlimit64:EPERM", "getrandom:ENOSYS"];

/// A start that takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// The plausible errors of each call: those that the kernel can return for it, or a seccomp filter around everything (EPERM and
/// ENOSYS, where a container engine knows the call not or refuses it).
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
        | "dup2" | "dup3" | "inotify_init1" | "pidfd_open" | "accept4" | "timerfd_create" => {
            &["EMFILE", "ENOMEM", "EPERM"]
        }
        "bind" | "connect" | "listen" | "setsockopt" | "getsockopt" => &["EACCES", "EADDRINUSE", "ENOMEM"],
        "fstat" | "newfstatat" | "statx" | "fstatfs" | "statfs" | "lseek" | "fsync" | "fdatasync" | "ftruncate"
        | "fallocate" | "fchmod" | "fchown" | "fchmodat" | "fchownat" | "flock" | "fsetxattr" | "fgetxattr"
        | "utimensat" | "chmod" | "chown" | "chdir" | "fchdir" | "access" | "faccessat" | "faccessat2" => {
            &["EIO", "EACCES", "ENOMEM"]
        }
        "ioctl" | "fcntl" => &["EINVAL", "EPERM", "EAGAIN"],
        // wait4 takes no memory, and ECHILD is true only where the caller ignores SIGCHLD, which is among the odd surroundings.
        "wait4" | "waitid" => &["EINTR", "EPERM"],
        "poll" | "ppoll" | "epoll_wait" | "epoll_pwait" | "pselect6" => &["EINTR", "ENOMEM"],
        // RLIMIT_AS, RLIMIT_MEMLOCK with `mlockall`, and no memory.
        "mmap" => &["ENOMEM", "EAGAIN"],
        "mprotect" | "munmap" | "mremap" | "madvise" => &["ENOMEM"],
        "getcwd" => &["ENOENT", "ENOMEM"],
        "sched_getaffinity" => &["EPERM"],
        // A kernel or a filter that does not know it, a kernel that does not know GRND_INSECURE (before Linux 5.6), and a signal. EAGAIN
        // is for others: with that flag the open does not wait.
        "getrandom" => &["ENOSYS", "EINVAL", "EINTR"],
        "prlimit64" => &["EPERM", "EINVAL"],
        "epoll_ctl" | "inotify_add_watch" => &["ENOMEM", "ENOSPC"],
        "kill" | "tgkill" | "pidfd_send_signal" | "process_vm_readv" | "pidfd_getfd" | "kcmp" => &["EPERM", "ESRCH"],
        "close_range" | "sched_setaffinity" | "sched_setscheduler" | "set_tid_address" | "rseq" | "membarrier" => {
            &["ENOSYS", "EINVAL"]
        }
        // A file of a network file system whose writes failed.
        "close" => &["EIO"],
        // Also brk: the kernel returns the old break where it fails, and no error.
        _ => &[],
    }
}

#[derive(Debug, Clone)]
struct Fault {
    call: String,
    error: &'static str,
    when: usize,
}

impl Fault {
    /// As `RINGFENCE_FAULTS_ONLY` takes it.
    fn text(&self) -> String {
        format!("{}:{}:{}", self.call, self.error, self.when)
    }

    fn is_one_of<'a>(&self, beginnings: impl IntoIterator<Item = &'a str>) -> bool {
        beginnings.into_iter().any(|beginning| self.text().starts_with(beginning))
    }
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
    let patience = PATIENCE.as_secs().to_string();
    command.args(["--signal=KILL", &patience, "strace", "-f", "-qq", "-o", trace]).args(options);
    command.arg("--").arg(ground.binary()).args(["run", "--", "/bin/bash", "-c", &ground.probe()]);
    command.stdin(Stdio::null()).output().unwrap()
}

/// Did the fault come before the program's own first call, in the loader or in the runtime of the language? No message can be
/// promised there. The program begins with `rt_sigprocmask`, and neither of them uses that call.
fn is_before_main(ground: &Ground, trace: &str) -> bool {
    let own = format!("execve(\"{}\"", ground.binary().display());
    let mut is_starting: BTreeSet<&str> = BTreeSet::new();
    for line in trace.lines() {
        let Some((pid, rest)) = line.split_once(' ') else { continue };
        let rest = rest.trim_start();
        if rest.contains("(INJECTED)") && is_starting.contains(pid) {
            return true;
        }
        if rest.starts_with(&own) || rest.starts_with("execve(\"/proc/self/fd/") {
            is_starting.insert(pid);
        } else if rest.starts_with("execve(") || rest.starts_with("rt_sigprocmask(") {
            is_starting.remove(pid);
        }
    }
    false
}

/// How the runtime of the language ends a program without memory: in an allocation, and in the start of a thread before its first
/// own call.
const NO_MEMORY: [&str; 2] = ["memory allocation of ", "failed to allocate an alternative stack"];
/// What closing a file returns is what the file system's `flush` returns, and no file system of the kernel has one for directories:
/// there the standard library takes an error for a defect of the program.
const NO_FLUSH: &str = "unexpected error during closedir";

/// Did it panic elsewhere than in the runtime for want of memory? The message is in the line after the place.
fn panics(errors: &str) -> bool {
    let is_excused = |message: &str| message.contains(NO_FLUSH) || NO_MEMORY.iter().any(|one| message.contains(one));
    errors
        .lines()
        .zip(errors.lines().skip(1).chain([""]))
        .any(|(line, message)| line.contains("panicked at") && !is_excused(message))
}

/// One fault. What is wrong with its outcome?
fn attempt(ground: &Ground, fault: &Fault) -> Result<bool, String> {
    // What a kernel or a filter does not know at one time it does not know later.
    let later = if fault.error == "ENOSYS" { "+" } else { "" };
    let inject = format!("inject={}:error={}:when={}{later}", fault.call, fault.error, fault.when);
    let calls = format!("trace=execve,rt_sigprocmask,{}", fault.call);
    let (trace, begun) = (ground.path("run/trace"), Instant::now());
    let output = traced(ground, &["-e", "signal=none", "-e", &calls, "-e", &inject], trace.to_str().unwrap());
    let is_hanging = begun.elapsed() >= PATIENCE;
    let is_before_main = is_before_main(ground, &text(&fs::read(&trace).unwrap_or_default()));
    let errors = text(&output.stderr);
    let has_run = ground.has_run();
    let mut wrong = ground.breaches(&errors);
    match (output.status.code(), output.status.signal()) {
        _ if is_hanging => wrong.push("it did not end".to_owned()),
        (Some(0), _) if !has_run => wrong.push("nothing ran, and it looks like success".to_owned()),
        _ if is_before_main => {}
        // The runtime of the language ends a program without memory, and says so.
        (Some(134), _) | (_, Some(SIGABRT)) if NO_MEMORY.iter().any(|message| errors.contains(message)) => {}
        (None, signal) => wrong.push(format!("it was ended by signal {signal:?}")),
        // Any other code is the command's own, which could not leave its sign; 137 is a session that was ended, since its broker
        // could not begin.
        (Some(125), _) if !has_run && !errors.contains("error") && !errors.contains("cannot") => {
            wrong.push("nothing ran, and no message says why".to_owned());
        }
        (Some(_), _) => {}
    }
    if panics(&errors) {
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
    let text = fault.text();
    if wrong.is_empty() {
        Ok(is_collected)
    } else {
        Err(format!("{text}: {} [{}]\nagain: RINGFENCE_FAULTS_ONLY={text}\n{errors}", wrong.join("; "), output.status))
    }
}

fn try_faults(who: Who, chance: &mut Chance) {
    let ground = Ground::new(who);
    let all = faults(&ground);
    let most = if number("RINGFENCE_FAULTS_ALL").is_some() { usize::MAX } else { SAMPLE };
    let chosen: Vec<Fault> = match std::env::var("RINGFENCE_FAULTS_ONLY") {
        Ok(only) => all.iter().filter(|fault| fault.is_one_of(only.split(','))).cloned().collect(),
        Err(_) => {
            let (mut chosen, others): (Vec<_>, Vec<_>) = all.iter().cloned().partition(|one| one.is_one_of(ALWAYS));
            chosen.extend(chance.sample(others, most));
            chosen
        }
    };
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
    let who = std::env::var("RINGFENCE_FAULTS_WHO").ok();
    let is_wanted = |name: &str| who.as_deref().is_none_or(|who| who == name);
    if rustix::process::geteuid().is_root() && is_wanted("nobody") {
        try_faults(Who::Nobody, &mut chance);
    }
    if is_wanted("caller") {
        try_faults(Who::Caller, &mut chance);
    }
}

fn text(bytes: &[u8]) -> String {
    bytes.utf8_chunks().map(|chunk| format!("{}{}", chunk.valid(), chunk.invalid().escape_ascii())).collect()
}
