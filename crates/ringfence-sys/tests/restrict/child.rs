//! A child process for everything that cannot be undone.

use std::io::{Read as _, Write as _};

/// Who the child is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Who {
    /// Whoever runs the tests.
    Caller,
    /// A user without rights.
    Nobody,
}

/// Everybody the tests can be: an ordinary user cannot become another.
pub(crate) fn everybody() -> Vec<Who> {
    if rustix::process::geteuid().is_root() { vec![Who::Caller, Who::Nobody] } else { vec![Who::Caller] }
}

/// Runs `work` in a forked child and returns the complaints it made. A child that a signal ends is a complaint too.
pub(crate) fn in_child(who: Who, work: impl FnOnce() -> Vec<String>) -> Vec<String> {
    let (reader, writer) = rustix::pipe::pipe().expect("a pipe");
    // SAFETY: the child runs `work` and ends by `_exit`. It is forked from a process with threads, so locks that another thread
    // held stay locked in it; glibc's own (malloc, stdio) are made fit for use, and no test prints or panics in `work`.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        drop(reader);
        if who == Who::Nobody {
            become_nobody();
        }
        let complaints = work().join("\n");
        let written = std::fs::File::from(writer).write_all(complaints.as_bytes());
        // SAFETY: ends this process at once; nothing of the parent's that was copied is dropped or flushed.
        unsafe { libc::_exit(i32::from(written.is_err())) }
    }
    assert!(pid > 0, "fork");
    drop(writer);
    let mut text = String::new();
    std::fs::File::from(reader).read_to_string(&mut text).expect("a pipe can be read");
    let mut status = 0;
    // SAFETY: `status` is a live integer that the kernel writes to, and `pid` is a child that nobody else waits for.
    let waited = unsafe { libc::waitpid(pid, &raw mut status, 0) };
    assert_eq!(waited, pid);
    let mut complaints: Vec<String> = text.lines().map(str::to_owned).collect();
    if libc::WIFSIGNALED(status) {
        complaints.push(format!("killed by signal {}", libc::WTERMSIG(status)));
    } else if libc::WEXITSTATUS(status) != 0 {
        complaints.push(format!("ended with {}", libc::WEXITSTATUS(status)));
    }
    complaints
}

fn become_nobody() {
    const NOBODY: libc::uid_t = 65534;
    // SAFETY: takes an empty list, of which the kernel reads nothing.
    let groups = unsafe { libc::setgroups(0, std::ptr::null()) };
    // SAFETY: takes numbers only, and this child has one thread.
    let gid = unsafe { libc::setresgid(NOBODY, NOBODY, NOBODY) };
    // SAFETY: takes numbers only, and this child has one thread.
    let uid = unsafe { libc::setresuid(NOBODY, NOBODY, NOBODY) };
    if (groups, gid, uid) != (0, 0, 0) {
        // SAFETY: ends this process at once: a test that was to run as somebody else must not run as root.
        unsafe { libc::_exit(99) }
    }
}

/// Asserts that nobody complained.
#[track_caller]
pub(crate) fn expect_silence(who: Who, complaints: &[String]) {
    assert!(complaints.is_empty(), "as {who:?}:\n{}", complaints.join("\n"));
}
