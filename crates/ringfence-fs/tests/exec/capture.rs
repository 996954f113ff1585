//! T3: what a command prints, and how it ended.

use std::io;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::{fs, sync::Arc};

use ringfence_fs::{Environment, Exec, ExecError, FileError, LocalEnvironment, Outcome, Root, Writable};

use crate::{Ground, LONG, shell};

#[test]
fn t3_an_exit_code_is_a_result_and_a_signal_is_told_apart() {
    let ground = Ground::new();
    let done = ground.shell("echo out; echo err >&2; exit 3");
    assert_eq!(done.outcome, Outcome::Exited(3));
    assert_eq!((done.stdout.tail.as_slice(), done.stderr.tail.as_slice()), (&b"out\n"[..], &b"err\n"[..]));
    assert!(!done.outcome.is_success() && !done.left_running && done.survivors.is_empty());
    assert!(ground.shell("exit 0").outcome.is_success());
    assert_eq!(ground.shell("kill -9 $$").outcome, Outcome::Signaled(9));
    assert_eq!(ground.shell("kill -15 $$").outcome, Outcome::Signaled(15));
    // A code that only looks like a signal.
    assert_eq!(ground.shell("exit 137").outcome, Outcome::Exited(137));
    assert_eq!(ground.shell("exit 255").outcome, Outcome::Exited(255));
}

#[test]
fn t3_the_tail_of_each_stream_is_kept() {
    let ground = Ground::new();
    let line = "i=0; while [ $i -lt 5000 ]; do echo line $i; i=$((i+1)); done; echo the end; echo short >&2";
    let done = ground.environment.exec(&shell(line, LONG).keep(20)).unwrap();
    assert_eq!(done.stdout.tail, b"8\nline 4999\nthe end\n");
    assert_eq!(done.stdout.tail.len(), 20);
    let total = (0..5000).map(|number| format!("line {number}\n").len() as u64).sum::<u64>() + 8;
    assert_eq!((done.stdout.dropped, done.stdout.total()), (total - 20, total));
    assert!(done.stdout.is_truncated());
    assert_eq!((done.stderr.tail.as_slice(), done.stderr.dropped), (&b"short\n"[..], 0));
    assert!(!done.stderr.is_truncated());
    let nothing = ground.environment.exec(&shell("echo abc", LONG).keep(0)).unwrap();
    assert_eq!((nothing.stdout.tail.len(), nothing.stdout.dropped), (0, 4));
}

/// However much is printed, what is held stays at the limit.
#[test]
fn t3_memory_stays_at_the_limit() {
    let ground = Ground::new();
    let peak = || {
        let status = fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap()
    };
    ground.shell("true");
    let before = peak();
    let line = "head -c 300000000 /dev/zero; head -c 300000000 /dev/zero >&2; printf end";
    let done = ground.environment.exec(&shell(line, LONG).keep(1 << 20)).unwrap();
    assert_eq!((done.stdout.total(), done.stderr.total()), (300_000_003, 300_000_000));
    assert_eq!(done.stdout.tail.len(), 1 << 20);
    assert!(done.stdout.tail.ends_with(b"\0end"));
    let grown = peak() - before;
    // Other tests of the same process may hold something too.
    assert!(grown < 64 << 10, "{grown} KiB more");
}

#[test]
fn t3_what_is_to_be_read() {
    let ground = Ground::new();
    assert_eq!(ground.shell("cat").stdout.tail, b"", "nothing to read is an end, and no wait");
    let bytes: Vec<u8> = (0..3_000_000_u32).map(|number| number.to_le_bytes()[0]).collect();
    let done = ground.environment.exec(&Exec::new("/bin/cat", LONG).stdin(bytes.clone()).keep(4 << 20)).unwrap();
    assert!(done.outcome.is_success() && done.stdout.tail == bytes);
    // Who does not read it, or not all, is no failure and no hang.
    let ends = ground.environment.exec(&shell("exit 4", LONG).stdin(bytes.clone())).unwrap();
    assert_eq!(ends.outcome, Outcome::Exited(4));
    let some = ground.environment.exec(&shell("head -c 3 >/dev/null; echo ok", LONG).stdin(bytes.clone())).unwrap();
    assert_eq!(some.stdout.tail, b"ok\n");
    let closes = ground.environment.exec(&shell("exec <&-; echo ok", LONG).stdin(bytes)).unwrap();
    assert_eq!(closes.stdout.tail, b"ok\n");
}

#[test]
fn t3_the_environment_begins_empty() {
    let ground = Ground::new();
    let done =
        ground.environment.exec(&Exec::new("/usr/bin/env", LONG).env("A", "1").env("A", "2").env("B", "x=y")).unwrap();
    let text = String::from_utf8(done.stdout.tail).unwrap();
    let (marker, mut others): (Vec<&str>, Vec<&str>) =
        text.lines().partition(|line| line.starts_with("RINGFENCE_CALL="));
    others.sort_unstable();
    assert_eq!((others, marker.len()), (vec!["A=2", "B=x=y"], 1));
}

#[test]
fn t3_what_cannot_be_started() {
    let ground = Ground::new();
    fs::write(ground.temp.path().join("plain"), "").unwrap();
    for (program, kind) in [("/none", io::ErrorKind::NotFound), ("./plain", io::ErrorKind::PermissionDenied)] {
        let ExecError::Start { source, .. } = ground.environment.exec(&Exec::new(program, LONG)).unwrap_err() else {
            panic!("{program}")
        };
        assert_eq!(source.kind(), kind);
    }
    assert!(matches!(ground.environment.exec(&Exec::new("a\0b", LONG)), Err(ExecError::Start { .. })));
}

/// T1 K4: without a word from the caller nothing is run.
#[test]
fn t1_commands_are_refused_unless_the_caller_says_how() {
    let ground = Ground::new();
    let root = Root::open(ground.temp.path(), Writable::everything()).unwrap();
    let environment: Box<dyn Environment> = Box::new(LocalEnvironment::new(root));
    let said = environment.exec(&shell("touch made", LONG)).unwrap_err();
    assert!(matches!(said, ExecError::Refused { .. }), "{said}");
    assert!(!ground.temp.path().join("made").exists());
}

#[test]
fn t2_a_command_starts_in_the_directory_that_was_opened() {
    let ground = Ground::new();
    let dir = ground.temp.path().join("dir");
    fs::create_dir_all(dir.join("sub")).unwrap();
    fs::write(dir.join("here"), "").unwrap();
    fs::write(dir.join("sub/there"), "").unwrap();
    let environment = LocalEnvironment::with_unfenced_exec(Root::open(&dir, Writable::everything()).unwrap());
    // Something else takes its place.
    fs::rename(&dir, ground.temp.path().join("was")).unwrap();
    symlink("/etc", &dir).unwrap();
    let ls = Exec::new("/bin/ls", LONG);
    assert_eq!(environment.exec(&ls).unwrap().stdout.tail, b"here\nsub\n");
    assert_eq!(environment.exec(&ls.clone().dir("sub")).unwrap().stdout.tail, b"there\n");
    symlink("/etc", ground.temp.path().join("was/link")).unwrap();
    for outside in ["..", "link", "/etc", "sub/../.."] {
        let ExecError::Directory { source, .. } = environment.exec(&ls.clone().dir(outside)).unwrap_err() else {
            panic!("{outside}")
        };
        assert!(matches!(*source, FileError::PathEscape { .. }), "{outside}");
    }
}

#[test]
fn t9_a_wrapper_sees_the_whole_command_and_may_refuse_it() {
    let ground = Ground::new();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let note = Arc::clone(&seen);
    let root = Root::open(ground.temp.path(), Writable::everything()).unwrap();
    let environment = LocalEnvironment::with_wrapped_exec(root, move |command| {
        let words = std::iter::once(command.get_program()).chain(command.get_args());
        note.lock().unwrap().push(words.map(ToOwned::to_owned).collect::<Vec<_>>());
        if command.get_program() == Path::new("/bin/false") {
            return Err(io::Error::other("not this one"));
        }
        let mut wrapped = Command::new("/usr/bin/env");
        wrapped.env_clear().arg("WRAPPED=1").arg(command.get_program()).args(command.get_args());
        wrapped.current_dir(command.get_current_dir().unwrap());
        Ok(wrapped)
    });
    let done = environment.exec(&shell("echo $WRAPPED; pwd", LONG)).unwrap();
    let expected = format!("1\n{}\n", fs::canonicalize(ground.temp.path()).unwrap().display());
    assert_eq!(String::from_utf8(done.stdout.tail).unwrap(), expected);
    let refused = environment.exec(&Exec::new("/bin/false", LONG)).unwrap_err();
    assert!(matches!(refused, ExecError::Wrapper { .. }), "{refused}");
    assert_eq!(seen.lock().unwrap()[0], ["/bin/sh", "-c", "echo $WRAPPED; pwd"]);
}

#[test]
fn many_at_once() {
    let ground = Ground::new();
    std::thread::scope(|scope| {
        for number in 0..24 {
            let environment = &ground.environment;
            scope.spawn(move || {
                let done = environment.exec(&shell(&format!("head -c 200000 /dev/zero; echo {number}"), LONG)).unwrap();
                assert!(done.stdout.tail.ends_with(format!("\0{number}\n").as_bytes()));
            });
        }
    });
}
