//! Ends a command that nothing confines, with everything that it started, as far as that can be found.
//!
//! A process belongs to the command if its parent does, if its group or its session was made by one that does, or if it has the
//! marker of the call in its environment, which it keeps when its parent ends and init takes it over. Each is stopped first, so
//! that it makes no more while the others are looked for, and ended when nothing new is found.
//!
//! What has left its parents *and* emptied its environment is not found: only a fence has a wall around its processes. What is
//! found and cannot be ended, such as a program that runs as another user, is returned.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Read as _;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal};

use super::MARKER;

/// How often the list of processes is read: somebody who starts new ones faster than that is not caught up with.
const ROUNDS: usize = 200;

/// How much of a process's environment is looked at.
const MOST_ENVIRONMENT: u64 = 1 << 20;

/// What the kernel says of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Process {
    parent: i32,
    group: i32,
    session: i32,
    /// In ticks since the machine started.
    born: u64,
    is_dead: bool,
}

/// Ends the tree below and with `leader`, who has not been waited for yet. Returns what could not be ended.
pub(super) fn end(leader: u32, marker: &str) -> Vec<i32> {
    let leader = leader.cast_signed();
    let mut marker = [MARKER.as_bytes(), b"=", marker.as_bytes()].concat();
    marker.push(0);
    let mut held: BTreeMap<(i32, u64), OwnedFd> = BTreeMap::new();
    for _ in 0..ROUNDS {
        let mut is_new = false;
        for member in members(leader, &marker) {
            if held.contains_key(&member) {
                continue;
            }
            let Some(fd) = open(member) else { continue };
            let _ = rustix::process::pidfd_send_signal(&fd, Signal::STOP);
            held.insert(member, fd);
            is_new = true;
        }
        if !is_new {
            break;
        }
    }
    // Where no processes can be listed, the command itself and what stayed in its group can be ended still.
    if let Some(group) = Pid::from_raw(leader) {
        let _ = rustix::process::kill_process_group(group, Signal::KILL);
    }
    let is_refused = |fd: &OwnedFd| rustix::process::pidfd_send_signal(fd, Signal::KILL) == Err(Errno::PERM);
    held.iter().filter(|(_, fd)| is_refused(fd)).map(|((pid, _), _)| *pid).collect()
}

/// A handle of a process, which is the one that was found: until it was opened, its number could have become another's.
fn open((pid, born): (i32, u64)) -> Option<OwnedFd> {
    let fd = rustix::process::pidfd_open(Pid::from_raw(pid)?, PidfdFlags::empty()).ok()?;
    (look(pid)?.born == born).then_some(fd)
}

/// What belongs to the command and lives: its number and when it began.
fn members(leader: i32, marker: &[u8]) -> Vec<(i32, u64)> {
    let all = processes();
    let born = all.get(&leader).map_or(0, |process| process.born);
    // Nothing of the command is older than it is.
    let younger = || all.iter().filter(|(_, process)| process.born >= born);
    let mut members: BTreeSet<i32> = younger().map(|(pid, _)| *pid).filter(|pid| has_marker(*pid, marker)).collect();
    members.insert(leader);
    loop {
        let belongs =
            |process: &Process| [process.parent, process.group, process.session].iter().any(|id| members.contains(id));
        let more: Vec<i32> = younger()
            .filter(|(pid, process)| !members.contains(pid) && belongs(process))
            .map(|(pid, _)| *pid)
            .collect();
        if more.is_empty() {
            break;
        }
        members.extend(more);
    }
    let living = |pid: i32| all.get(&pid).filter(|process| !process.is_dead).map(|process| (pid, process.born));
    members.into_iter().filter_map(living).collect()
}

fn processes() -> BTreeMap<i32, Process> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    numbers.filter_map(|pid| Some((pid, look(pid)?))).collect()
}

fn look(pid: i32) -> Option<Process> {
    parse(&fs::read(format!("/proc/{pid}/stat")).ok()?)
}

/// Reads `pid (name) state parent group session ..`; the name may hold brackets and blanks itself.
fn parse(stat: &[u8]) -> Option<Process> {
    let after = stat.iter().rposition(|byte| *byte == b')')? + 1;
    let text = std::str::from_utf8(&stat[after..]).ok()?;
    let fields: Vec<&str> = text.split_ascii_whitespace().collect();
    let number = |at: usize| fields.get(at)?.parse::<i32>().ok();
    Some(Process {
        parent: number(1)?,
        group: number(2)?,
        session: number(3)?,
        born: fields.get(19)?.parse().ok()?,
        is_dead: matches!(*fields.first()?, "Z" | "X"),
    })
}

/// Does a process have the marker? One of another user does not say, and is not ours.
fn has_marker(pid: i32, marker: &[u8]) -> bool {
    let mut environment = Vec::new();
    let Ok(file) = fs::File::open(format!("/proc/{pid}/environ")) else { return false };
    let read = file.take(MOST_ENVIRONMENT).read_to_end(&mut environment);
    read.is_ok() && environment.windows(marker.len()).any(|window| window == marker)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_says_of_a_process() {
        let stat = b"42 (a) b) (c)) S 7 42 6 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 12345 0 0\n";
        let expected = Process { parent: 7, group: 42, session: 6, born: 12345, is_dead: false };
        assert_eq!(parse(stat), Some(expected));
        assert_eq!(parse(b"42 (a) Z 7 42"), None);
        assert_eq!(parse(b""), None);
        let own = processes();
        assert!(own.contains_key(&std::process::id().cast_signed()));
    }
}
