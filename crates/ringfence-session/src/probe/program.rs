//! Programs of the system, found where only its administrator writes and run with nothing of the caller's.
//!
//! A project can put a program of any name in front of PATH, so PATH is not asked.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, Signal, kill_process_group};

/// Where programs of the system are, in the order in which they are looked for.
pub const SYSTEM_DIRECTORIES: &[&str] = &[
    "/usr/bin",
    "/bin",
    "/usr/sbin",
    "/sbin",
    "/usr/local/bin",
    "/usr/local/sbin",
    // NixOS keeps nothing in the others.
    "/run/current-system/sw/bin",
];

/// Why there is no such program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum NoProgram {
    /// It is in none of the directories.
    Absent,
    /// It is there, and somebody beside the administrator can change it.
    Untrusted(PathBuf),
}

/// The first program of this name that only the administrator can change.
pub(super) fn find(name: &str, directories: &[&Path]) -> Result<PathBuf, NoProgram> {
    let mut untrusted = None;
    for directory in directories {
        // A link is followed to the file that would run.
        let Ok(path) = fs::canonicalize(directory.join(name)) else { continue };
        if !fs::metadata(&path).is_ok_and(|found| found.is_file() && found.mode() & 0o111 != 0) {
            continue;
        }
        if is_trusted(&path) {
            return Ok(path);
        }
        untrusted.get_or_insert(path);
    }
    Err(untrusted.map_or(NoProgram::Absent, NoProgram::Untrusted))
}

/// The system's own program of this name, without links; nothing where there is none that only the administrator can change.
pub fn system_program(name: &str) -> Option<PathBuf> {
    find(name, &SYSTEM_DIRECTORIES.iter().map(Path::new).collect::<Vec<_>>()).ok()
}

/// The administrator owns the file and its directory, and nobody else may write to them.
pub(crate) fn is_trusted(path: &Path) -> bool {
    let maps = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    let overflow = fs::read_to_string("/proc/sys/kernel/overflowuid").ok().and_then(|text| text.trim().parse().ok());
    let is_administrator = |uid| is_administrator(uid, &maps, overflow.unwrap_or(65_534));
    let holds =
        |path: &Path| fs::metadata(path).is_ok_and(|found| is_administrator(found.uid()) && found.mode() & 0o022 == 0);
    holds(path) && path.parent().is_some_and(holds)
}

/// Root, or in a user namespace somebody outside of it: what belongs to users who are not in the namespace shows as owned by the
/// overflow number. Where that number is somebody inside too, nobody can tell, and it is not trusted.
fn is_administrator(uid: u32, maps: &str, overflow: u32) -> bool {
    let numbers = |line: &str| line.split_whitespace().filter_map(|word| word.parse::<u64>().ok()).collect::<Vec<_>>();
    let is_inside = |uid: u32| {
        maps.lines().map(numbers).any(|line| match line[..] {
            [first, _, count] => (first..first.saturating_add(count)).contains(&u64::from(uid)),
            _ => false,
        })
    };
    uid == 0 || (uid == overflow && !maps.is_empty() && !is_inside(uid))
}

/// How a program ended.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) status: ExitStatus,
    /// Everything that it printed, to either stream.
    pub(crate) said: Vec<u8>,
}

/// Runs a program with an environment of its own and nothing to read, and ends it when it takes too long.
///
/// # Errors
/// When it cannot be started; `TimedOut` when it was ended.
pub(super) fn run(program: &Path, arguments: &[&OsStr], limit: Duration) -> io::Result<Ran> {
    run_with(program, arguments, limit, &[])
}

/// The same, with these variables of the caller's, where they are set.
///
/// # Errors
/// Those of [`run`].
pub(super) fn run_with(program: &Path, arguments: &[&OsStr], limit: Duration, passed: &[&str]) -> io::Result<Ran> {
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env_clear()
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .env("LC_ALL", "C")
        .envs(passed.iter().filter_map(|name| Some((name, std::env::var_os(name)?))))
        .current_dir("/");
    run_command(command, limit)
}

/// Runs a command with nothing to read, and ends it and what it started when it takes too long.
///
/// # Errors
/// Those of [`run`].
pub(crate) fn run_command(mut command: Command, limit: Duration) -> io::Result<Ran> {
    let deadline = Instant::now() + limit;
    let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
    command.stdin(Stdio::null()).stdout(write.try_clone()?).stderr(write).process_group(0);
    let mut child = command.spawn()?;
    // The command keeps our copies of the end that is written to.
    drop(command);
    let said = listen(&read, deadline);
    let status = said.is_some().then(|| wait(&mut child, deadline)).flatten();
    let (Some(said), Some(status)) = (said, status) else {
        // It leads a group of its own, so what it started ends with it.
        let _ = kill_process_group(Pid::from_child(&child), Signal::KILL);
        child.wait()?;
        return Err(io::ErrorKind::TimedOut.into());
    };
    Ok(Ran { status, said })
}

/// More than any of these programs prints; the rest is not kept.
const MOST: usize = 16 << 10;

fn listen(pipe: &OwnedFd, deadline: Instant) -> Option<Vec<u8>> {
    let (mut said, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        let left = deadline.checked_duration_since(Instant::now())?;
        let left = Timespec { tv_sec: left.as_secs().try_into().ok()?, tv_nsec: left.subsec_nanos().into() };
        match poll(&mut [PollFd::new(pipe, PollFlags::IN)], Some(&left)) {
            Ok(0) => return None,
            Ok(_) => {}
            Err(Errno::INTR) => continue,
            Err(_) => return None,
        }
        match rustix::io::read(pipe, &mut buffer) {
            Ok(0) => return Some(said),
            Ok(length) => {
                let room = MOST.saturating_sub(said.len());
                said.extend_from_slice(&buffer[..length.min(room)]);
            }
            Err(Errno::INTR) => {}
            Err(_) => return None,
        }
    }
}

/// It has closed its output, so this is a matter of moments.
fn wait(child: &mut Child, deadline: Instant) -> Option<ExitStatus> {
    loop {
        if let Some(status) = child.try_wait().ok()? {
            return Some(status);
        }
        if Instant::now() >= deadline {
            return None;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    fn sh(script: &str, limit: Duration) -> io::Result<Ran> {
        run(Path::new("/bin/sh"), &[OsStr::new("-c"), OsStr::new(script)], limit)
    }

    #[test]
    fn a_program_has_nothing_of_ours() {
        let ran = sh("env | cut -d= -f1 | sort | tr '\\n' ' '; pwd; cat; exit 3", Duration::from_secs(20)).unwrap();
        let said = String::from_utf8(ran.said).unwrap();
        // A shell sets some of its own.
        let ours = said.replace("OLDPWD ", "").replace("PWD ", "").replace("SHLVL ", "").replace("_ ", "");
        assert_eq!((ours.as_str(), ran.status.code()), ("LC_ALL PATH /\n", Some(3)));
    }

    #[test]
    fn a_program_that_does_not_end_is_ended() {
        let limit = Duration::from_millis(100);
        for script in ["sleep 1000", "exec >/dev/null 2>&1; sleep 1000", "sleep 1000 & exit 0", "yes"] {
            let start = Instant::now();
            assert_eq!(sh(script, limit).unwrap_err().kind(), io::ErrorKind::TimedOut, "{script}");
            assert!(start.elapsed() < Duration::from_secs(20), "{script}");
        }
    }

    #[test]
    fn whose_files_are_the_administrators() {
        let (whole, own, root_only) = ("0 0 4294967295\n", "1000 1000 1\n", "         0       1000          1\n");
        let check = |uid, maps| is_administrator(uid, maps, 65_534);
        assert!(check(0, whole) && check(0, own) && check(0, ""));
        assert!(!check(1000, whole) && !check(1000, own) && !check(65_534, whole) && !check(65_534, ""));
        assert!(check(65_534, own) && check(65_534, root_only));
        assert!(!check(65_534, "65534 65534 1\n"));
    }

    /// A program is taken only from where nobody but the administrator can have put it.
    #[test]
    fn programs_that_others_can_change_are_not_found() {
        let dir = tempfile::tempdir().unwrap();
        let path = fs::canonicalize(dir.path()).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(find("sh", &[&path]), Err(NoProgram::Absent));
        // A name that leads to the system's own program is as good as that.
        symlink("/bin/sh", path.join("sh")).unwrap();
        assert_eq!(find("sh", &[&path]), Ok(fs::canonicalize("/bin/sh").unwrap()));
        let own = path.join("own");
        fs::write(&own, "#!/bin/sh\n").unwrap();
        assert_eq!(find("own", &[&path]), Err(NoProgram::Absent), "it cannot be executed");
        fs::set_permissions(&own, fs::Permissions::from_mode(0o755)).unwrap();
        let found = find("own", &[&path]);
        if rustix::process::geteuid().is_root() {
            assert_eq!(found, Ok(own.clone()));
            fs::set_permissions(&own, fs::Permissions::from_mode(0o775)).unwrap();
        }
        assert_eq!(find("own", &[&path]), Err(NoProgram::Untrusted(own)));
    }
}
