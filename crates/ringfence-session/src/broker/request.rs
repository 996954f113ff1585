//! The calls that are brokered, each in the one form that says everything: `mkdir(path)` is `mkdirat(AT_FDCWD, path)`.

use ringfence_sys::notify::Notification;
use ringfence_sys::seccomp;

use super::caller::AT_FDCWD;

/// A path of the caller's: where it begins, and where its bytes are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Named {
    pub(super) dir: i32,
    pub(super) path: u64,
}

/// Where the times of a file are, and in which form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Times {
    /// Two of seconds and nanoseconds.
    Nanoseconds(u64),
    /// Two of seconds and microseconds.
    Microseconds(u64),
    /// Two of seconds.
    Seconds(u64),
}

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Request {
    Open {
        file: Named,
        flags: u32,
        mode: u32,
    },
    Open2 {
        file: Named,
        how: u64,
        size: u64,
    },
    Mkdir {
        file: Named,
        mode: u32,
    },
    Mknod {
        file: Named,
        mode: u32,
        device: u64,
    },
    Symlink {
        target: u64,
        file: Named,
    },
    Unlink {
        file: Named,
        flags: u32,
    },
    Rename {
        old: Named,
        new: Named,
        flags: u32,
    },
    Link {
        old: Named,
        new: Named,
        flags: u32,
    },
    Truncate {
        file: Named,
        length: i64,
    },
    Chmod {
        file: Named,
        mode: u32,
        flags: u32,
    },
    Chown {
        file: Named,
        uid: u32,
        gid: u32,
        flags: u32,
    },
    Touch {
        file: Named,
        times: Times,
        flags: u32,
    },
    SetXattr {
        file: Named,
        name: u64,
        value: u64,
        size: u64,
        flags: u32,
        at_flags: u32,
    },
    /// The same, its last four in memory.
    SetXattrAt {
        file: Named,
        at_flags: u32,
        name: u64,
        arguments: u64,
        size: u64,
    },
    RemoveXattr {
        file: Named,
        name: u64,
        at_flags: u32,
    },
    Connect {
        socket: i32,
        address: u64,
        length: u32,
    },
    Bind {
        socket: i32,
        address: u64,
        length: u32,
    },
    /// A descriptor that may stand for a file whose content is judged is closed.
    Close {
        number: i32,
    },
    /// Not about files: the mask for new ones changes.
    Umask,
    /// Becoming another user or group, by these numbers; `u32::MAX` stays as it is.
    SetIds {
        kind: IdKind,
        ids: [u32; 3],
    },
    /// Nor this: a right is added to a set that a caller may restrict itself to.
    AddRule {
        ruleset: i32,
        kind: u32,
        rule: u64,
        flags: u32,
    },
    /// Nor this: the caller gives up rights.
    Restrict {
        ruleset: i32,
        flags: u32,
    },
    /// Nor this: when processes run.
    Schedule {
        whose: Scheduled,
    },
    /// Something is read, run, entered or looked for.
    Look {
        file: Named,
        flags: u32,
    },
}

impl Request {
    /// What it is about, where it names files to be changed.
    pub(super) fn changed(&self) -> [Option<Named>; 2] {
        match *self {
            Self::Open { file, .. }
            | Self::Open2 { file, .. }
            | Self::Mkdir { file, .. }
            | Self::Mknod { file, .. }
            | Self::Symlink { file, .. } => [Some(file), None],
            Self::Rename { old, new, .. } => [Some(old), Some(new)],
            Self::Link { new, .. } => [Some(new), None],
            Self::Unlink { .. }
            | Self::Truncate { .. }
            | Self::Chmod { .. }
            | Self::Chown { .. }
            | Self::Touch { .. }
            | Self::SetXattr { .. }
            | Self::SetXattrAt { .. }
            | Self::RemoveXattr { .. }
            | Self::Close { .. }
            | Self::Umask
            | Self::SetIds { .. }
            | Self::AddRule { .. }
            | Self::Restrict { .. }
            | Self::Schedule { .. }
            | Self::Look { .. }
            | Self::Bind { .. }
            | Self::Connect { .. } => [None, None],
        }
    }
}

/// Which processes a call about scheduling is about. 0 stands for the caller and what is the caller's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scheduled {
    Thread(i32),
    Group(i32),
    User(u32),
    /// The kernel has no such kind.
    Unknown,
}

impl Scheduled {
    /// `kinds` are the numbers for a process, a group and a user.
    fn of(kinds: [u32; 3], kind: u64, number: u64) -> Self {
        match kinds.iter().position(|known| *known == low(kind)) {
            Some(0) => Self::Thread(fd(number)),
            Some(1) => Self::Group(fd(number)),
            Some(_) => Self::User(low(number)),
            None => Self::Unknown,
        }
    }
}

/// Whose numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IdKind {
    User,
    Group,
}

/// The value that means "unchanged".
const NO_ID: u32 = u32::MAX;

pub(super) const AT_SYMLINK_NOFOLLOW: u32 = 0x100;
pub(super) const AT_REMOVEDIR: u32 = 0x200;
pub(super) const AT_SYMLINK_FOLLOW: u32 = 0x400;
pub(super) const AT_EMPTY_PATH: u32 = 0x1000;
pub(super) const O_CREAT: u32 = 0o100;
pub(super) const O_TRUNC: u32 = 0o1000;

/// How a call becomes a request.
type Reading = fn(&[u64; 6]) -> Request;

/// The calls by their numbers on this machine.
#[derive(Debug)]
pub(super) struct Calls(Vec<(u32, &'static str, Reading)>);

impl Calls {
    pub(super) fn new() -> Self {
        let known = |(name, reading): &(&'static str, Reading)| Some((seccomp::number(name)?, *name, *reading));
        let mut calls: Vec<_> = READINGS.iter().filter_map(known).collect();
        calls.sort_unstable_by_key(|(number, ..)| *number);
        Self(calls)
    }

    /// The name of a call and what it asks for; nothing for one that is not brokered.
    pub(super) fn read(&self, call: &Notification) -> Option<(&'static str, Request)> {
        let at = self.0.binary_search_by_key(&call.number, |(number, ..)| *number).ok()?;
        let (_, name, reading) = self.0[at];
        Some((name, reading(&call.arguments)))
    }
}

/// The kernel takes these as 32 bits.
fn low(argument: u64) -> u32 {
    argument as u32
}

fn fd(argument: u64) -> i32 {
    low(argument).cast_signed()
}

fn here(path: u64) -> Named {
    Named { dir: AT_FDCWD, path }
}

fn at(dir: u64, path: u64) -> Named {
    Named { dir: fd(dir), path }
}

/// When one thread runs.
fn schedule(thread: u64) -> Request {
    Request::Schedule { whose: Scheduled::Thread(fd(thread)) }
}

/// What a descriptor stands for. No number stands for the working directory here.
fn itself(number: u64) -> Named {
    Named { dir: fd(number).max(-1), path: 0 }
}

fn look(file: Named) -> Request {
    Request::Look { file, flags: 0 }
}

static READINGS: &[(&str, Reading)] = &[
    ("access", |a| look(here(a[0]))),
    ("bind", |a| Request::Bind { socket: fd(a[0]), address: a[1], length: low(a[2]) }),
    ("chdir", |a| look(here(a[0]))),
    ("chmod", |a| Request::Chmod { file: here(a[0]), mode: low(a[1]), flags: 0 }),
    ("chown", |a| Request::Chown { file: here(a[0]), uid: low(a[1]), gid: low(a[2]), flags: 0 }),
    ("close", |a| Request::Close { number: fd(a[0]) }),
    ("connect", |a| Request::Connect { socket: fd(a[0]), address: a[1], length: low(a[2]) }),
    ("creat", |a| Request::Open { file: here(a[0]), flags: O_CREAT | O_TRUNC | 1, mode: low(a[1]) }),
    ("execve", |a| look(here(a[0]))),
    ("execveat", |a| look(at(a[0], a[1]))),
    ("faccessat", |a| look(at(a[0], a[1]))),
    ("faccessat2", |a| look(at(a[0], a[1]))),
    ("fchmod", |a| Request::Chmod { file: itself(a[0]), mode: low(a[1]), flags: AT_EMPTY_PATH }),
    ("fchmodat", |a| Request::Chmod { file: at(a[0], a[1]), mode: low(a[2]), flags: 0 }),
    ("fchmodat2", |a| Request::Chmod { file: at(a[0], a[1]), mode: low(a[2]), flags: low(a[3]) }),
    ("fchown", |a| Request::Chown { file: itself(a[0]), uid: low(a[1]), gid: low(a[2]), flags: AT_EMPTY_PATH }),
    ("fchownat", |a| Request::Chown { file: at(a[0], a[1]), uid: low(a[2]), gid: low(a[3]), flags: low(a[4]) }),
    ("futimesat", |a| Request::Touch { file: at(a[0], a[1]), times: Times::Microseconds(a[2]), flags: 0 }),
    // IOPRIO_WHO_PROCESS and its like.
    ("ioprio_set", |a| Request::Schedule { whose: Scheduled::of([1, 2, 3], a[0], a[1]) }),
    ("landlock_add_rule", |a| Request::AddRule { ruleset: fd(a[0]), kind: low(a[1]), rule: a[2], flags: low(a[3]) }),
    ("landlock_restrict_self", |a| Request::Restrict { ruleset: fd(a[0]), flags: low(a[1]) }),
    ("lchown", |a| Request::Chown { file: here(a[0]), uid: low(a[1]), gid: low(a[2]), flags: AT_SYMLINK_NOFOLLOW }),
    ("link", |a| Request::Link { old: here(a[0]), new: here(a[1]), flags: 0 }),
    ("linkat", |a| Request::Link { old: at(a[0], a[1]), new: at(a[2], a[3]), flags: low(a[4]) }),
    ("lremovexattr", |a| Request::RemoveXattr { file: here(a[0]), name: a[1], at_flags: AT_SYMLINK_NOFOLLOW }),
    ("lsetxattr", |a| Request::SetXattr {
        file: here(a[0]),
        name: a[1],
        value: a[2],
        size: a[3],
        flags: low(a[4]),
        at_flags: AT_SYMLINK_NOFOLLOW,
    }),
    ("lstat", |a| Request::Look { file: here(a[0]), flags: AT_SYMLINK_NOFOLLOW }),
    ("mkdir", |a| Request::Mkdir { file: here(a[0]), mode: low(a[1]) }),
    ("mkdirat", |a| Request::Mkdir { file: at(a[0], a[1]), mode: low(a[2]) }),
    ("mknod", |a| Request::Mknod { file: here(a[0]), mode: low(a[1]), device: a[2] }),
    ("mknodat", |a| Request::Mknod { file: at(a[0], a[1]), mode: low(a[2]), device: a[3] }),
    ("newfstatat", |a| Request::Look { file: at(a[0], a[1]), flags: low(a[3]) }),
    ("open", |a| Request::Open { file: here(a[0]), flags: low(a[1]), mode: low(a[2]) }),
    ("openat", |a| Request::Open { file: at(a[0], a[1]), flags: low(a[2]), mode: low(a[3]) }),
    ("openat2", |a| Request::Open2 { file: at(a[0], a[1]), how: a[2], size: a[3] }),
    ("readlink", |a| Request::Look { file: here(a[0]), flags: AT_SYMLINK_NOFOLLOW }),
    ("readlinkat", |a| Request::Look { file: at(a[0], a[1]), flags: AT_SYMLINK_NOFOLLOW }),
    ("removexattr", |a| Request::RemoveXattr { file: here(a[0]), name: a[1], at_flags: 0 }),
    ("removexattrat", |a| Request::RemoveXattr { file: at(a[0], a[1]), name: a[3], at_flags: low(a[2]) }),
    ("rename", |a| Request::Rename { old: here(a[0]), new: here(a[1]), flags: 0 }),
    ("renameat", |a| Request::Rename { old: at(a[0], a[1]), new: at(a[2], a[3]), flags: 0 }),
    ("renameat2", |a| Request::Rename { old: at(a[0], a[1]), new: at(a[2], a[3]), flags: low(a[4]) }),
    ("rmdir", |a| Request::Unlink { file: here(a[0]), flags: AT_REMOVEDIR }),
    ("sched_setaffinity", |a| schedule(a[0])),
    ("sched_setattr", |a| schedule(a[0])),
    ("sched_setparam", |a| schedule(a[0])),
    ("sched_setscheduler", |a| schedule(a[0])),
    ("setgid", |a| Request::SetIds { kind: IdKind::Group, ids: [low(a[0]), NO_ID, NO_ID] }),
    // PRIO_PROCESS and its like.
    ("setpriority", |a| Request::Schedule { whose: Scheduled::of([0, 1, 2], a[0], a[1]) }),
    ("setregid", |a| Request::SetIds { kind: IdKind::Group, ids: [low(a[0]), low(a[1]), NO_ID] }),
    ("setresgid", |a| Request::SetIds { kind: IdKind::Group, ids: [low(a[0]), low(a[1]), low(a[2])] }),
    ("setresuid", |a| Request::SetIds { kind: IdKind::User, ids: [low(a[0]), low(a[1]), low(a[2])] }),
    ("setreuid", |a| Request::SetIds { kind: IdKind::User, ids: [low(a[0]), low(a[1]), NO_ID] }),
    ("setuid", |a| Request::SetIds { kind: IdKind::User, ids: [low(a[0]), NO_ID, NO_ID] }),
    ("setxattr", |a| Request::SetXattr {
        file: here(a[0]),
        name: a[1],
        value: a[2],
        size: a[3],
        flags: low(a[4]),
        at_flags: 0,
    }),
    ("setxattrat", |a| Request::SetXattrAt {
        file: at(a[0], a[1]),
        at_flags: low(a[2]),
        name: a[3],
        arguments: a[4],
        size: a[5],
    }),
    ("stat", |a| look(here(a[0]))),
    ("statx", |a| Request::Look { file: at(a[0], a[1]), flags: low(a[2]) }),
    ("symlink", |a| Request::Symlink { target: a[0], file: here(a[1]) }),
    ("symlinkat", |a| Request::Symlink { target: a[0], file: at(a[1], a[2]) }),
    ("truncate", |a| Request::Truncate { file: here(a[0]), length: a[1].cast_signed() }),
    ("umask", |_| Request::Umask),
    ("unlink", |a| Request::Unlink { file: here(a[0]), flags: 0 }),
    ("unlinkat", |a| Request::Unlink { file: at(a[0], a[1]), flags: low(a[2]) }),
    ("utime", |a| Request::Touch { file: here(a[0]), times: Times::Seconds(a[1]), flags: 0 }),
    ("utimensat", |a| Request::Touch { file: at(a[0], a[1]), times: Times::Nanoseconds(a[2]), flags: low(a[3]) }),
    ("utimes", |a| Request::Touch { file: here(a[0]), times: Times::Microseconds(a[1]), flags: 0 }),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use ringfence_plan::{BROKERED, LOOKED_AT, SyscallAction};

    use super::*;

    /// A call that waits for nobody who knows it would be refused whatever it is about.
    #[test]
    fn every_call_that_is_brokered_is_read() {
        let brokered =
            BROKERED.iter().chain(LOOKED_AT).filter(|rule| rule.action == SyscallAction::Notify).map(|rule| rule.name);
        let read = READINGS.iter().map(|(name, _)| *name);
        assert_eq!(brokered.collect::<BTreeSet<_>>(), read.collect::<BTreeSet<_>>());
        assert!(READINGS.is_sorted_by_key(|(name, _)| *name));
        // One without a number waits for nobody: the kernel would carry it out.
        #[cfg(target_arch = "x86_64")]
        for (name, _) in READINGS {
            assert!(seccomp::number(name).is_some(), "{name}");
        }
    }
}
