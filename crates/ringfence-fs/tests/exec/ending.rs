//! T3: when the time is up, the whole tree ends; and nobody holds a call that is over.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use ringfence_fs::{Environment as _, Executed, Outcome};
use ringfence_plan::{Errno, SyscallAction};
use ringfence_sys::bpf::{Arch, Rule, filter};
use ringfence_sys::seccomp;

use crate::{Ground, LONG, shell};

/// Shorter than anything here sleeps, and long enough for all of it to have been started on a busy machine.
const SHORT: Duration = Duration::from_secs(5);

fn is_alive(pid: &str) -> bool {
    let stat = fs::read_to_string(Path::new("/proc").join(pid).join("stat"));
    stat.is_ok_and(|stat| !stat.rsplit(')').next().unwrap().trim_start().starts_with(['Z', 'X']))
}

/// Runs a line that writes the numbers of its processes into `pids`, and never ends. None of them may be left.
#[track_caller]
fn ends(line: &str, expected: usize) -> Executed {
    let ground = Ground::new();
    let start = Instant::now();
    let done = ground.environment.exec(&shell(line, SHORT)).unwrap();
    assert_eq!(done.outcome, Outcome::TimedOut);
    assert!(start.elapsed() >= SHORT && start.elapsed() < LONG / 2, "{:?}", start.elapsed());
    let pids = fs::read_to_string(ground.temp.path().join("pids")).unwrap_or_default();
    assert_eq!(pids.lines().count(), expected, "all of them were started: {pids:?}");
    // A process that was killed is gone as soon as it is scheduled: that takes no time, and is waited for here.
    while let Some(alive) = pids.lines().find(|pid| is_alive(pid)) {
        assert!(start.elapsed() < LONG, "{alive} is left of `{line}`");
        std::thread::yield_now();
    }
    done
}

#[test]
fn t3_the_time_is_up() {
    let done = ends("echo $$ >> pids; echo before; sleep 1000", 1);
    assert_eq!(done.stdout.tail, b"before\n", "what was printed by then is there");
    assert!(done.survivors.is_empty());
}

#[test]
fn t3_children_end_with_the_command() {
    ends("echo $$ >> pids; sleep 1000 & echo $! >> pids; (sleep 1000 & echo $! >> pids; wait) & wait", 3);
}

#[test]
fn t3_who_ignores_signals_ends_too() {
    ends("trap '' TERM INT HUP; echo $$ >> pids; while :; do sleep 1; done", 1);
}

#[test]
fn t3_a_session_of_its_own_is_no_way_out() {
    ends("setsid sh -c 'echo $$ >> pids; sleep 1000' & sleep 1000", 1);
}

/// A daemon: its parents are gone, and init has taken it over.
#[test]
fn t3_a_daemon_is_found_by_its_marker() {
    ends("(setsid sh -c 'echo $$ >> pids; sleep 1000' >/dev/null 2>&1 </dev/null &) ; sleep 1000", 1);
}

/// It has emptied its environment, but its session was made by one that has not.
#[test]
fn t3_an_empty_environment_alone_is_no_way_out() {
    ends("env -i setsid sh -c 'echo $$ >> pids; sleep 1000' & sleep 1000", 1);
    ends("env -i sh -c 'echo $$ >> pids; sleep 1000' & sleep 1000", 1);
}

/// Children that are made faster than anybody can look: each is stopped before the rest is looked for.
#[test]
fn t3_a_tree_that_grows_meanwhile() {
    let ground = Ground::new();
    let line = "g() { while :; do (sleep 0.02 &) ; sleep 0.01; done; }; g & g & g & g & wait";
    let done = ground.environment.exec(&shell(line, SHORT)).unwrap();
    assert_eq!(done.outcome, Outcome::TimedOut);
    let mark = ground.temp.path().as_os_str().to_owned();
    let start = Instant::now();
    let is_left = || {
        fs::read_dir("/proc").unwrap().flatten().any(|entry| {
            let here = fs::read_link(entry.path().join("cwd"));
            here.is_ok_and(|cwd| cwd.as_os_str() == mark) && is_alive(entry.file_name().to_str().unwrap())
        })
    };
    while is_left() {
        assert!(start.elapsed() < LONG, "something still works in the directory");
        std::thread::yield_now();
    }
}

/// What holds the streams after the command has ended does not hold the call, and that it is there is told.
#[test]
fn t3_a_grandchild_that_keeps_the_streams() {
    let ground = Ground::new();
    let start = Instant::now();
    let done = ground.shell("sleep 1000 & echo $! > pid; echo done");
    assert!(start.elapsed() < LONG / 2);
    assert_eq!(
        (done.outcome, done.stdout.tail.as_slice(), done.left_running),
        (Outcome::Exited(0), &b"done\n"[..], true)
    );
    let pid = fs::read_to_string(ground.temp.path().join("pid")).unwrap();
    assert!(is_alive(pid.trim()), "what runs on is the caller's choice");
    let pid = rustix::process::Pid::from_raw(pid.trim().parse().unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}

/// Also one that prints without end.
#[test]
fn t3_a_grandchild_that_never_stops_printing() {
    let ground = Ground::new();
    let start = Instant::now();
    let done = ground.environment.exec(&shell("yes & echo $! > pid; exit 5", LONG).keep(1000)).unwrap();
    assert!(start.elapsed() < LONG / 2);
    assert_eq!((done.outcome, done.left_running), (Outcome::Exited(5), true));
    // `yes` ends by itself: nobody reads what it prints.
}

/// Where the list of processes cannot be read, the command ends all the same, with what stayed in its group.
#[test]
fn t3_without_a_list_of_processes() {
    let ground = Ground::new();
    let action = SyscallAction::Errno(Errno::EPERM);
    let number = u32::try_from(libc::SYS_getdents64).unwrap();
    let program = filter(&[Rule { number, when: &[], action }], seccomp::NEWEST, Arch::NATIVE.unwrap()).unwrap();
    let done = std::thread::scope(|scope| {
        let blind = || {
            rustix::thread::set_no_new_privs(true).unwrap();
            seccomp::install(&program, seccomp::Flags::NONE).unwrap();
            ground.environment.exec(&shell("sleep 1000 & echo $! > child; sleep 1000", SHORT)).unwrap()
        };
        scope.spawn(blind).join().unwrap()
    });
    assert_eq!((done.outcome, done.survivors.len()), (Outcome::TimedOut, 0));
    let child = fs::read_to_string(ground.temp.path().join("child")).unwrap();
    let start = Instant::now();
    while is_alive(child.trim()) {
        assert!(start.elapsed() < LONG, "the child is left");
        std::thread::yield_now();
    }
}

#[test]
fn t3_no_time_at_all() {
    let ground = Ground::new();
    let done = ground.environment.exec(&shell("sleep 1000", Duration::ZERO)).unwrap();
    assert_eq!(done.outcome, Outcome::TimedOut);
    let done = ground.environment.exec(&shell("echo ok", Duration::MAX)).unwrap();
    assert_eq!((done.outcome, done.stdout.tail.as_slice()), (Outcome::Exited(0), &b"ok\n"[..]));
}
