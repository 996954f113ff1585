//! A directory with a home and a project, and the real program started in it with nothing of the caller's environment.
//!
//! The world does not lie in the system's temporary directory: every session has one of its own, so `/tmp` is writable in
//! every Surface, and a test that asks what is denied would be answered by that.

use std::ffi::{OsStr, OsString};
use std::fs::{self, Permissions};
use std::io::{Read, Write as _};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use tempfile::TempDir;

/// How long one call may take. Nothing that is tested takes a second; a machine under load may.
const LIMIT: Duration = Duration::from_secs(60);

/// Directories of which every session has its own.
const PRIVATE: &[&str] = &["/dev/shm", "/tmp", "/var/tmp"];

/// The variables that point into the world, and where.
const DIRECTORIES: &[(&str, &str)] = &[
    ("HOME", "home"),
    ("XDG_CACHE_HOME", "home/.cache"),
    ("XDG_CONFIG_HOME", "home/.config"),
    ("XDG_DATA_HOME", "home/.local/share"),
    ("XDG_RUNTIME_DIR", "run"),
    ("XDG_STATE_HOME", "home/.local/state"),
];

/// A temporary directory with `home/` and `project/`. It goes away with the value.
#[derive(Debug)]
pub struct World {
    dir: TempDir,
    /// `dir` without links, as programs that resolve paths will name it.
    path: PathBuf,
    binary: PathBuf,
}

impl World {
    /// Makes a world for a program: `World::new(env!("CARGO_BIN_EXE_ringfence"))`.
    ///
    /// # Panics
    /// When the directory cannot be made.
    pub fn new(binary: impl Into<PathBuf>) -> Self {
        let binary = binary.into();
        let ground = ground(&binary);
        Self::on(&ground, binary)
    }

    /// A world that every user of the machine can enter, with a copy of the program: a checkout may lie where only its owner
    /// can go. Every session has a private directory of this name, so what is asked about paths here is asked about those.
    ///
    /// # Panics
    /// When the directory cannot be made.
    pub fn open_to_all(binary: impl AsRef<Path>) -> Self {
        Self::open_to_all_on(Path::new("/var/tmp"), binary)
    }

    /// The same, in a directory of the caller's choice: for what is asked about the host's own files.
    ///
    /// # Panics
    /// When the directory cannot be made.
    pub fn open_to_all_on(ground: &Path, binary: impl AsRef<Path>) -> Self {
        let mut world = Self::on(ground, PathBuf::new());
        fs::set_permissions(world.path(""), Permissions::from_mode(0o755)).expect("the directory is ours");
        world.binary = world.path("ringfence");
        // A process that another test forks while we hold the copy open for writing would keep it from being run; `cp` holds it.
        if fs::hard_link(&binary, &world.binary).is_err() {
            let copied = Command::new("cp").arg(binary.as_ref()).arg(&world.binary).status();
            assert!(copied.expect("there is a cp").success(), "the program can be copied");
        }
        world
    }

    fn on(ground: &Path, binary: PathBuf) -> Self {
        let dir =
            tempfile::Builder::new().prefix("ringfence-world-").tempdir_in(ground).expect("a world has a directory");
        let path = fs::canonicalize(dir.path()).expect("the directory was just made");
        let world = Self { dir, path, binary };
        for name in ["home", "project", "run"] {
            world.mkdir(name);
        }
        fs::set_permissions(world.path("run"), Permissions::from_mode(0o700)).expect("the directory is ours");
        world
    }

    /// The program.
    pub fn binary(&self) -> &Path {
        &self.binary
    }

    /// The variables that point into the world.
    pub fn variables(&self) -> Vec<(&'static str, PathBuf)> {
        DIRECTORIES.iter().map(|(name, place)| (*name, self.path(place))).collect()
    }

    /// A path inside the world.
    pub fn path(&self, relative: impl AsRef<Path>) -> PathBuf {
        self.path.join(relative)
    }

    /// Writes a file, with the directories above it.
    ///
    /// # Panics
    /// When that fails.
    pub fn write(&self, relative: impl AsRef<Path>, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(relative);
        if let Some(above) = path.parent() {
            fs::create_dir_all(above).expect("a directory for the file");
        }
        fs::write(&path, content).expect("the file can be written");
        path
    }

    /// Makes a directory, with those above it.
    ///
    /// # Panics
    /// When that fails.
    pub fn mkdir(&self, relative: impl AsRef<Path>) -> PathBuf {
        let path = self.path(relative);
        fs::create_dir_all(&path).expect("the directory can be made");
        path
    }

    /// Makes a symbolic link at `relative` that says `target`, word for word.
    ///
    /// # Panics
    /// When that fails.
    pub fn symlink(&self, target: impl AsRef<Path>, relative: impl AsRef<Path>) -> PathBuf {
        let path = self.path(relative);
        if let Some(above) = path.parent() {
            fs::create_dir_all(above).expect("a directory for the link");
        }
        symlink(target, &path).expect("the link can be made");
        path
    }

    /// Runs the program in `project/`.
    ///
    /// # Panics
    /// When it cannot be started or does not end.
    pub fn ringfence(&self, arguments: &[impl AsRef<OsStr>]) -> Run {
        self.in_dir("project").ringfence(arguments)
    }

    /// A call that starts in another directory of the world.
    pub fn in_dir(&self, relative: impl AsRef<Path>) -> Call<'_> {
        Call {
            world: self,
            dir: self.path(relative),
            variables: Vec::new(),
            unset: Vec::new(),
            input: Vec::new(),
            limit: LIMIT,
        }
    }

    /// A text in which the world's own path, different in each run, is written `<world>`.
    pub fn hide(&self, text: &str) -> String {
        match self.path.to_str() {
            Some(path) => text.replace(path, "<world>"),
            None => text.to_owned(),
        }
    }

    /// Keeps the directory after the test, to look at what went wrong.
    pub fn keep(self) -> PathBuf {
        self.dir.keep()
    }
}

/// Where a world may lie: beside the program that was built, or in the caller's home when that is a private directory.
fn ground(binary: &Path) -> PathBuf {
    let is_private = |path: &Path| PRIVATE.iter().any(|private| path.starts_with(private));
    let build = fs::canonicalize(binary).ok().and_then(|binary| Some(binary.parent()?.parent()?.join("tmp")));
    if let Some(build) = build.filter(|build| !is_private(build) && fs::create_dir_all(build).is_ok()) {
        return build;
    }
    let home = std::env::var_os("HOME").and_then(|home| fs::canonicalize(home).ok());
    home.filter(|home| !is_private(home)).expect("a place for the world: neither the build directory nor $HOME will do")
}

/// A call that is being put together.
#[derive(Debug)]
#[must_use]
pub struct Call<'w> {
    world: &'w World,
    dir: PathBuf,
    variables: Vec<(OsString, OsString)>,
    unset: Vec<OsString>,
    input: Vec<u8>,
    limit: Duration,
}

impl Call<'_> {
    /// Sets a variable, over those of the world.
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.variables.push((name.as_ref().to_owned(), value.as_ref().to_owned()));
        self
    }

    /// Takes a variable of the world away.
    pub fn without(mut self, name: impl AsRef<OsStr>) -> Self {
        self.unset.push(name.as_ref().to_owned());
        self
    }

    /// Gives it something to read; without this its standard input is empty.
    pub fn input(mut self, bytes: impl AsRef<[u8]>) -> Self {
        self.input = bytes.as_ref().to_vec();
        self
    }

    /// Sets how long it may take.
    pub fn within(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Runs the program and waits for its end.
    ///
    /// # Panics
    /// When it cannot be started, or when it or something that holds its output does not end in time.
    #[track_caller]
    pub fn ringfence(self, arguments: &[impl AsRef<OsStr>]) -> Run {
        let mut command = Command::new(&self.world.binary);
        command.args(arguments).current_dir(&self.dir).env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin");
        command.envs(self.world.variables());
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        for name in &self.unset {
            command.env_remove(name);
        }
        // A group of its own, so that whatever it leaves behind can be ended by number.
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().expect("the program can be started");
        finish(child, self.input, self.limit)
    }
}

/// How a call ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// The exit code; 128 and the signal's number when a signal ended it.
    pub code: i32,
    /// What it wrote; a byte that is not UTF-8 stands as `\xff`.
    pub stdout: String,
    /// What it wrote there.
    pub stderr: String,
}

impl Run {
    /// Asserts how it ended, and shows what it wrote if it ended otherwise.
    ///
    /// # Panics
    /// When the code is another.
    #[track_caller]
    pub fn expect_code(self, code: i32) -> Self {
        let Self { code: found, stdout, stderr } = &self;
        assert_eq!(*found, code, "exit code\n--- stdout\n{stdout}\n--- stderr\n{stderr}");
        self
    }
}

#[track_caller]
fn finish(mut child: Child, input: Vec<u8>, limit: Duration) -> Run {
    let deadline = Instant::now() + limit;
    let left = || deadline.saturating_duration_since(Instant::now());
    let pid = Pid::from_child(&child);
    let stdin = child.stdin.take();
    // A program that ends before it has read everything closes the pipe; what it did not want is no mistake.
    in_background(move || stdin.map(|mut pipe| pipe.write_all(&input)));
    let stdout = collect(child.stdout.take());
    let stderr = collect(child.stderr.take());
    // NOWAIT leaves the ended process in place, so its number cannot become another's before `child.wait` below.
    let ended = in_background(move || waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT).is_ok());
    let in_time = ended.recv_timeout(left()).is_ok();
    let streams = if in_time { stdout.recv_timeout(left()).ok().zip(stderr.recv_timeout(left()).ok()) } else { None };
    if streams.is_none() {
        // The group may be gone already; then there is nothing to end.
        let _ = kill_process_group(pid, Signal::KILL);
    }
    let status = child.wait().expect("the program was started here and not waited for");
    match streams {
        Some((stdout, stderr)) => Run { code: code(status), stdout: shown(&stdout), stderr: shown(&stderr) },
        None if in_time => panic!("the program ended, and something still held its output after {limit:?}"),
        None => panic!("the program did not end within {limit:?}"),
    }
}

/// Runs in a thread of its own; what it returns arrives here.
fn in_background<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Receiver<T> {
    let (sender, receiver) = channel();
    // Nobody may be left to hear of it when the call has timed out.
    std::thread::spawn(move || sender.send(work()).is_ok());
    receiver
}

fn collect(stream: Option<impl Read + Send + 'static>) -> Receiver<Vec<u8>> {
    in_background(move || {
        let mut bytes = Vec::new();
        if let Some(mut stream) = stream {
            stream.read_to_end(&mut bytes).expect("a pipe can be read");
        }
        bytes
    })
}

fn code(status: ExitStatus) -> i32 {
    status.code().or_else(|| Some(128 + status.signal()?)).expect("a process that ended has a code or a signal")
}

fn shown(bytes: &[u8]) -> String {
    let mut text = String::new();
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|byte| format!("\\x{byte:02x}")));
    }
    text
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt as _;

    use super::*;

    fn world() -> World {
        World::new("/bin/sh")
    }

    fn sh(script: &str) -> Run {
        world().ringfence(&["-c", script])
    }

    #[test]
    fn a_call_has_code_and_output() {
        let run = sh("echo out; echo err >&2; exit 7");
        assert_eq!(run, Run { code: 7, stdout: "out\n".to_owned(), stderr: "err\n".to_owned() });
        assert_eq!(sh("kill -9 $$").code, 137);
        assert_eq!(sh(r"printf 'a\377'").stdout, "a\\xff");
    }

    #[test]
    fn the_environment_is_the_worlds() {
        let world = world();
        let run = world.ringfence(&["-c", "/usr/bin/env | /usr/bin/sort; pwd"]).expect_code(0);
        let shown = world.hide(&run.stdout);
        // The shell itself sets the last two or three.
        let names: Vec<&str> = shown.lines().filter_map(|line| Some(line.split_once('=')?.0)).collect();
        let set: Vec<&str> = names.into_iter().filter(|name| !["PWD", "OLDPWD", "SHLVL", "_"].contains(name)).collect();
        let mut expected: Vec<&str> = DIRECTORIES.iter().map(|(name, _)| *name).chain(["PATH"]).collect();
        expected.sort_unstable();
        assert_eq!(set, expected);
        assert!(shown.contains("HOME=<world>/home\n"), "{shown}");
        assert!(shown.ends_with("<world>/project\n"), "{shown}");
    }

    #[test]
    fn directory_variables_and_input_can_be_set() {
        let world = world();
        let call = world.in_dir("home").env("HOME", "/elsewhere").env("X", OsStr::from_bytes(b"\xff")).input("in");
        let run = call.ringfence(&["-c", "pwd; echo $HOME $X; cat"]).expect_code(0);
        assert_eq!(world.hide(&run.stdout), "<world>/home\n/elsewhere \\xff\nin");
        let run = world.in_dir("home").without("HOME").ringfence(&["-c", "echo ${HOME-unset}"]).expect_code(0);
        assert_eq!(run.stdout, "unset\n");
    }

    #[test]
    fn arguments_are_bytes() {
        let run = world().ringfence(&[OsStr::new("-c"), OsStr::new("printf %s $0"), OsStr::from_bytes(b"\xfe")]);
        assert_eq!(run.stdout, "\\xfe");
    }

    #[test]
    fn files_directories_and_links_are_made() {
        let world = world();
        world.write("project/a/b.txt", "text");
        world.symlink("a/b.txt", "project/link");
        world.symlink("nowhere", "deep/dangling");
        assert_eq!(world.ringfence(&["-c", "cat link"]).stdout, "text");
        assert_eq!(fs::read_link(world.path("deep/dangling")).unwrap(), Path::new("nowhere"));
        let path = world.path("");
        drop(world);
        assert!(!path.exists(), "the world outlived its test");
    }

    #[test]
    fn the_world_is_no_private_directory() {
        let path = world().path("");
        assert!(PRIVATE.iter().all(|private| !path.starts_with(private)), "{}", path.display());
    }

    #[test]
    #[should_panic(expected = "did not end within 200ms")]
    fn a_call_that_does_not_end_is_ended() {
        world().in_dir("project").within(Duration::from_millis(200)).ringfence(&["-c", "sleep 1000"]);
    }

    #[test]
    #[should_panic(expected = "something still held its output")]
    fn what_a_call_leaves_behind_is_ended() {
        // Long enough for the shell itself to end on a busy machine.
        world().in_dir("project").within(Duration::from_secs(5)).ringfence(&["-c", "sleep 1000 & exit 0"]);
    }

    #[test]
    fn a_call_that_reads_nothing_is_no_mistake() {
        let run = world().in_dir("project").input(vec![b'x'; 1 << 20]).ringfence(&["-c", "exit 3"]);
        assert_eq!(run.code, 3);
    }
}
