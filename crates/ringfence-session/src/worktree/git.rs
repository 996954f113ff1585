//! git outside the fence, so that nothing of a repository runs by it: no hook, no filter, no monitor, nothing from a remote.
//!
//! What an agent could have written is the work tree and parts of its git directory. So both are named by path, whatever they
//! say themselves, and every setting that names a program is set to none on top of what the files say. Root has it done by whoever
//! owns the repository.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use ringfence_surface::{AbsPath, Shown};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::walk::os_path;

/// Why git did not do something.
#[derive(Debug, thiserror::Error)]
pub enum GitError {
    /// It cannot be started.
    #[error("git cannot be started")]
    Start {
        /// Why.
        source: io::Error,
    },
    /// It refused.
    #[error("git {what}: {said}")]
    Refused {
        /// What was asked of it.
        what: &'static str,
        /// What it said.
        said: String,
    },
    /// It did not end.
    #[error("git {what} has not ended after {} s", limit.as_secs())]
    Endless {
        /// What was asked of it.
        what: &'static str,
        /// How long it had.
        limit: Duration,
    },
}

/// A question takes a moment. A pipe that somebody inside has put in the place of one of its files would keep git waiting for ever.
const QUESTION: Duration = Duration::from_secs(30);
/// Looking at all of a large work tree on a slow disk takes longer.
const LOOK: Duration = Duration::from_secs(120);
/// Writing one takes longest.
const CHECKOUT: Duration = Duration::from_secs(1_800);

/// Settings that name no program: neither a file of the repository nor one of the user's runs anything.
const QUIET: &[(&str, &str)] = &[
    ("core.hooksPath", "/dev/null"),
    ("core.fsmonitor", "false"),
    ("core.sshCommand", "false"),
    ("core.askPass", "false"),
    ("core.alternateRefsCommand", "true"),
    ("credential.helper", ""),
    ("diff.autoRefreshIndex", "false"),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
    ("safe.bareRepository", "explicit"),
    ("status.submoduleSummary", "false"),
    ("submodule.recurse", "false"),
];

/// A repository, and how git is told of it.
#[derive(Debug, Clone)]
pub(crate) enum Place<'p> {
    /// Found from a directory where the user works.
    From(&'p AbsPath),
    /// A work tree whose contents somebody else wrote: nothing that it says of itself counts.
    Exactly { tree: &'p AbsPath, git_dir: &'p AbsPath, common_dir: &'p AbsPath },
}

/// git at a place.
#[derive(Debug)]
pub(crate) struct Git<'p> {
    place: Place<'p>,
    /// Filters and hooks that the settings name.
    named: Vec<Vec<u8>>,
    /// Who does it, where that is not the caller.
    user: Option<(u32, u32)>,
    /// What is locked as long as anything that was started here runs.
    lock: Option<File>,
    /// How long it may take, where that is less than usual.
    most: Duration,
}

/// Who owns a directory, where root asks and it is somebody else.
pub(crate) fn owner(dir: &AbsPath) -> Option<(u32, u32)> {
    let metadata = std::fs::metadata(os_path(dir)).ok().filter(|_| rustix::process::geteuid().is_root())?;
    (metadata.uid() != 0).then(|| (metadata.uid(), metadata.gid()))
}

impl<'p> Git<'p> {
    /// Looks for what the settings name, so that it can be set to none.
    pub(crate) fn at(place: Place<'p>) -> Result<Self, GitError> {
        let user = owner(match place {
            Place::From(dir) | Place::Exactly { common_dir: dir, .. } => dir,
        });
        let mut git = Self { place, named: Vec::new(), user, lock: None, most: Duration::MAX };
        let words = ["config", "--null", "--name-only", "--get-regexp", r"^(filter|hook)\..*\..*"];
        let listed = git.output("config", &words.map(OsStr::new))?;
        let names = listed.stdout.split(|byte| *byte == 0).filter(|name| !name.is_empty());
        git.named = names.map(<[u8]>::to_vec).collect();
        git.named.sort();
        git.named.dedup();
        Ok(git)
    }

    /// What is started from here on holds this lock too, also when nobody waits for it any more.
    pub(crate) fn holding(mut self, lock: &File) -> std::io::Result<Self> {
        self.lock = Some(lock.try_clone()?);
        Ok(self)
    }

    /// Is it done by somebody else than the caller?
    pub(crate) fn is_for_another(&self) -> bool {
        self.user.is_some()
    }

    /// The filters that are not run, by name.
    pub(crate) fn filters(&self) -> Vec<String> {
        let name = |key: &Vec<u8>| {
            let name = key.strip_prefix(b"filter.")?;
            Some(Shown(&name[..name.iter().rposition(|byte| *byte == b'.')?]).to_string())
        };
        let mut names: Vec<String> = self.named.iter().filter_map(name).collect();
        names.dedup();
        names
    }

    /// What git says, without the end of the line.
    pub(crate) fn ask(&self, what: &'static str, words: &[&OsStr]) -> Result<Vec<u8>, GitError> {
        let output = self.output(what, words)?;
        if !output.status.success() {
            return Err(GitError::Refused { what, said: said(&output) });
        }
        let mut text = output.stdout;
        if text.last() == Some(&b'\n') {
            text.pop();
        }
        Ok(text)
    }

    /// Whether git says yes.
    pub(crate) fn holds(&self, what: &'static str, words: &[&OsStr]) -> Result<bool, GitError> {
        Ok(self.output(what, words)?.status.success())
    }

    /// A script of the shell, by whoever owns the repository: root goes where others put links by no path of its own.
    pub(crate) fn shell(&self, what: &'static str, script: &str, arguments: &[&OsStr]) -> Result<(), GitError> {
        let mut words = ["-euc", script, "sh"].map(OsStr::new).to_vec();
        words.extend(arguments);
        let output = self.run("/bin/sh", what, &words)?;
        if output.status.success() { Ok(()) } else { Err(GitError::Refused { what, said: said(&output) }) }
    }

    fn output(&self, what: &'static str, words: &[&OsStr]) -> Result<Output, GitError> {
        self.run("git", what, words)
    }

    fn run(&self, program: &str, what: &'static str, words: &[&OsStr]) -> Result<Output, GitError> {
        let mut command = Command::new(program);
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.as_bytes().starts_with(b"GIT_")) {
            command.env_remove(name);
        }
        match self.place {
            Place::From(dir) => {
                command.current_dir(os_path(dir));
            }
            Place::Exactly { tree, git_dir, common_dir } => {
                command.current_dir("/").env("GIT_DIR", os_path(git_dir)).env("GIT_WORK_TREE", os_path(tree));
                command.env("GIT_COMMON_DIR", os_path(common_dir));
            }
        }
        for (name, value) in [
            ("GIT_OPTIONAL_LOCKS", "0"),
            ("GIT_TERMINAL_PROMPT", "0"),
            ("GIT_NO_LAZY_FETCH", "1"),
            // Of what is missing in a partial clone nothing is fetched.
            ("GIT_ALLOW_PROTOCOL", ""),
            ("GIT_PAGER", "cat"),
            ("LC_ALL", "C"),
        ] {
            command.env(name, value);
        }
        if let Some((uid, gid)) = self.user {
            // The caller's own settings are not that user's to read.
            command.uid(uid).gid(gid).env("GIT_CONFIG_GLOBAL", "/dev/null").env("HOME", "/");
        }
        let own = self.named.iter().map(|key| (OsString::from_vec(key.clone()), none_of(key)));
        let settings = QUIET.iter().map(|(key, value)| (OsString::from(key), *value)).chain(own);
        let mut count = 0;
        for (key, value) in settings {
            command.env(format!("GIT_CONFIG_KEY_{count}"), key).env(format!("GIT_CONFIG_VALUE_{count}"), value);
            count += 1;
        }
        command.env("GIT_CONFIG_COUNT", count.to_string());
        // A lock is held by whoever has the file open, and nothing here reads what it is given.
        let lock = self.lock.as_ref().map(File::try_clone).transpose().map_err(|source| GitError::Start { source })?;
        command.args(words).stdin(lock.map_or_else(Stdio::null, Stdio::from));
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        ringfence_sys::process::with_callers_umask(&mut command);
        let usual = match what {
            "reset" | "mv" | "rm" => CHECKOUT,
            "status" => LOOK,
            _ => QUESTION,
        };
        let limit = usual.min(self.most);
        let output = output_within(&mut command, limit).map_err(|source| GitError::Start { source })?;
        let Some(output) = output else { return Err(GitError::Endless { what, limit }) };
        match output.status.code() {
            Some(_) => Ok(output),
            None => Err(GitError::Refused { what, said: "it was ended by a signal".to_owned() }),
        }
    }
}

/// What a program prints until it ends; nothing where it was ended since it took too long. No thread is started for it: whoever has
/// some cannot start a session any more.
fn output_within(command: &mut Command, limit: Duration) -> io::Result<Option<Output>> {
    let end = Instant::now() + limit;
    let mut child = command.spawn()?;
    let printed = listen(&mut child, end);
    if !matches!(printed, Ok(Some(_))) {
        // It has ended, where this fails.
        let _ = child.kill();
    }
    let status = child.wait()?;
    Ok(printed?.map(|[stdout, stderr]| Output { status, stdout, stderr }))
}

/// All that it prints, once it has ended.
fn listen(child: &mut Child, end: Instant) -> io::Result<Option<[Vec<u8>; 2]>> {
    let ended = pidfd_open(Pid::from_child(child), PidfdFlags::empty())?;
    let mut pipes = [child.stdout.take().map(OwnedFd::from), child.stderr.take().map(OwnedFd::from)];
    let (mut printed, mut buffer) = ([Vec::new(), Vec::new()], [0; 8192]);
    loop {
        // Its end is waited for once it prints no more.
        let mut fds: Vec<PollFd<'_>> = pipes.iter().flatten().map(|pipe| PollFd::new(pipe, PollFlags::IN)).collect();
        let is_last = fds.is_empty();
        if is_last {
            fds.push(PollFd::new(&ended, PollFlags::IN));
        }
        let Some(left) = end.checked_duration_since(Instant::now()) else { return Ok(None) };
        match poll(&mut fds, Some(&Timespec::try_from(left).map_err(io::Error::other)?)) {
            Ok(0) => return Ok(None),
            Ok(_) if is_last => return Ok(Some(printed)),
            Ok(_) => {}
            Err(Errno::INTR) => continue,
            Err(errno) => return Err(errno.into()),
        }
        let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        let open = pipes.iter_mut().zip(&mut printed).filter(|(pipe, _)| pipe.is_some());
        for ((pipe, text), _) in open.zip(ready).filter(|(_, is_ready)| *is_ready) {
            let Some(open) = pipe else { continue };
            let length = rustix::io::read(open, &mut buffer)?;
            text.extend_from_slice(&buffer[..length]);
            if length == 0 {
                *pipe = None;
            }
        }
    }
}

/// The value under which a key of a filter or a hook starts nothing.
fn none_of(key: &[u8]) -> &'static str {
    let last = key.rsplit(|byte| *byte == b'.').next().unwrap_or_default();
    match (key.starts_with(b"hook."), last) {
        (_, b"required" | b"enabled") => "false",
        (true, b"command") => "true",
        _ => "",
    }
}

/// What git complained of, on one line.
fn said(output: &Output) -> String {
    let text = output.stderr.trim_ascii();
    let lines = text.split(|byte| *byte == b'\n').map(|line| Shown(line.trim_ascii()).to_string());
    let said: Vec<String> = lines.filter(|line| !line.is_empty()).collect();
    if said.is_empty() { "it refused without a word".to_owned() } else { said.join("; ") }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;

    fn git(dir: &AbsPath, most: Duration) -> Git<'_> {
        Git { place: Place::From(dir), named: Vec::new(), user: None, lock: None, most }
    }

    /// G11: what an agent has put in the place of git's own files keeps nobody waiting for ever.
    #[test]
    fn g11_a_pipe_in_a_repository_is_not_waited_for() {
        let place = tempfile::tempdir().unwrap();
        let dir = AbsPath::lexical(place.path().as_os_str().as_bytes()).unwrap();
        let made = Command::new("git").args(["init", "-q"]).current_dir(place.path()).status().unwrap();
        assert!(made.success());
        let words = ["show-ref", "--verify", "--quiet", "refs/heads/none"].map(OsStr::new);
        assert!(!git(&dir, QUESTION).holds("show-ref", &words).unwrap());
        mknodat(CWD, place.path().join(".git/packed-refs"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let most = Duration::from_millis(200);
        let waited = git(&dir, most).holds("show-ref", &words).unwrap_err();
        assert!(matches!(waited, GitError::Endless { what: "show-ref", limit } if limit == most), "{waited:?}");
    }

    /// Whatever is printed is heard, however much it is, and to the end.
    #[test]
    fn all_that_is_printed_is_heard() {
        let mut command = Command::new("/bin/sh");
        let script = "head -c 300000 /dev/zero; head -c 300000 /dev/zero >&2; echo end; exec >&- 2>&-; exit 3";
        command.args(["-c", script]).stdout(Stdio::piped()).stderr(Stdio::piped());
        let output = output_within(&mut command, QUESTION).unwrap().unwrap();
        assert_eq!((output.stdout.len(), output.stderr.len(), output.status.code()), (300_004, 300_000, Some(3)));
        assert!(output.stdout.ends_with(b"end\n"));
    }
}
