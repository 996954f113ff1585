//! A call ends with its session, with its caller, and when its time is up; with everything it has started.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::fd::OwnedFd;
use std::process::{Child, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};

use crate::ground::{Ground, Session, each, text};

/// A call that starts what does not want to end.
struct Long {
    child: Child,
    /// Every process of it.
    tree: Vec<OwnedFd>,
}

impl Long {
    fn start(ground: &Ground, session: &Session<'_>, name: &str, args: &[&str]) -> Self {
        // Odd enough to be found by, and nobody else's.
        let mark = format!("86{}.{name}", std::process::id());
        let script = format!("trap '' TERM HUP INT; sleep {mark} & setsid sleep {mark} & echo up; sleep {mark}; wait");
        let mut command = session.exec(args);
        command.args(["--", "/bin/bash", "-c", &ground.text(&script)]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "up\n", "as {:?}", ground.who);
        let tree = marked(&mark);
        assert!(!tree.is_empty(), "as {:?}: nothing runs", ground.who);
        Self { child, tree }
    }

    /// All of it has ended, or does so soon.
    #[track_caller]
    fn is_gone(&self) {
        for process in &self.tree {
            let mut fds = [PollFd::new(process, PollFlags::IN)];
            let limit = Timespec::try_from(Duration::from_secs(60)).unwrap();
            assert_eq!(rustix::event::poll(&mut fds, Some(&limit)).unwrap(), 1, "a process goes on");
        }
    }

    fn said(mut self) -> String {
        let mut said = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        self.child.wait().unwrap();
        said
    }
}

/// The processes whose command line holds this.
fn marked(mark: &str) -> Vec<OwnedFd> {
    let pids = fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let holds = |pid: &i32| fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| text(&line).contains(mark));
    let ours = pids.filter(holds).filter(|pid| u32::try_from(*pid) != Ok(std::process::id()));
    ours.filter_map(|pid| pidfd_open(Pid::from_raw(pid)?, PidfdFlags::empty()).ok()).collect()
}

/// K10: the end of the session is the end of the call.
#[test]
fn k10_a_call_ends_with_its_session() {
    each(|ground| {
        let session = ground.session();
        let (plain, json) = (Long::start(ground, &session, "1", &[]), Long::start(ground, &session, "2", &[]));
        session.end();
        for long in [plain, json] {
            long.is_gone();
            let said = long.said();
            assert!(said.contains("because its session did"), "as {:?}: {said}", ground.who);
        }
        ground.left_nothing();
    });
}

/// K10: also when the session's supervisor is killed.
#[test]
fn k10_a_call_ends_when_the_session_is_killed() {
    each(|ground| {
        let mut session = ground.session();
        let long = Long::start(ground, &session, "3", &[]);
        session.child.kill().unwrap();
        session.child.wait().unwrap();
        long.is_gone();
        assert!(long.said().contains("because its session did"), "as {:?}", ground.who);
        ground.is_collected();
    });
}

/// K10: the end of the caller is the end of the call, and the session goes on.
#[test]
fn k10_a_killed_caller_leaves_nothing_running() {
    each(|ground| {
        let session = ground.session();
        let long = Long::start(ground, &session, "4", &[]);
        kill_process(Pid::from_child(&long.child), Signal::KILL).unwrap();
        long.is_gone();
        drop(long.said());
        assert!(session.call(&[], "true").status.success(), "as {:?}", ground.who);
        drop(session);
        ground.is_collected();
    });
}

/// K10: time is bounded, whatever signals are ignored.
#[test]
fn k10_a_call_ends_in_time() {
    each(|ground| {
        let session = ground.session();
        let long = Long::start(ground, &session, "5", &["--timeout", "5s"]);
        long.is_gone();
        let said = long.said();
        assert!(said.contains("ended after 5 s"), "as {:?}: {said}", ground.who);
    });
}

/// K10: inside, too: what a call has started ends with it, and the session goes on.
#[test]
fn k10_inside_a_call_ends_with_what_it_started() {
    each(|ground| {
        let mark = format!("87{}.6", std::process::id());
        let outer = "\"$RINGFENCE_EXE\" exec --within \"$RINGFENCE_SESSION\" \"$@\"; ls /proc | grep -c '^[0-9]'; \
                     cat /proc/[0-9]*/cmdline | tr '\\0' ' '; echo after";
        let script = format!("setsid sleep {mark} & (sleep {mark} &) ; true");
        let output = ground.inside(outer, &[], &script);
        let said = text(&output.stdout);
        assert!(said.ends_with("after\n") && !said.contains(&format!("sleep {mark}  ")), "{said}");
        assert!(!said.contains(&format!("setsid sleep {mark} setsid")), "{said}");
        assert!(marked(&mark).is_empty());
    });
}
