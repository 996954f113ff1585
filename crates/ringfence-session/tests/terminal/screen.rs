//! A terminal that a test plays: it starts a program on it, types, and waits for what appears.

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use ringfence_sys::pty::{Seat, Seats, block, seat_apart, seat_on};
use ringfence_testkit::report_skip;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::OpenptFlags;
use rustix::termios::{LocalModes, Termios, Winsize, tcgetattr, tcsetwinsize};

/// Longer than anything here takes on a busy machine; only a failure waits for it.
const PATIENCE: Duration = Duration::from_secs(60);

/// All three standard descriptors are the terminal.
pub(crate) const ALL: Seats = Seats { stdin: Seat::Terminal, stdout: Seat::Terminal, stderr: Seat::Terminal };

/// Who runs the supervisor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Who {
    /// Whoever runs the tests.
    Self_,
    /// An ordinary user, by root's leave.
    Nobody,
}

/// Runs a case for each user that there is.
pub(crate) fn each(case: impl Fn(Who)) {
    case(Who::Self_);
    if !rustix::process::geteuid().is_root() {
        report_skip("as another user: the tests do not run as root");
    } else if !Path::new("/usr/bin/setpriv").exists() {
        report_skip("as another user: there is no /usr/bin/setpriv (package util-linux)");
    } else {
        case(Who::Nobody);
    }
}

impl Who {
    /// `pty_run ARGV`, as this user.
    pub(crate) fn pty_run(self, argv: &[&str]) -> Command {
        let mut command = self.command(&[]);
        command.arg(pty_run_path()).args(argv);
        tidy_environment(&mut command);
        command
    }

    /// A shell of the user outside, in which `$PTY_RUN` is the supervisor.
    pub(crate) fn outer_shell(self) -> Command {
        let mut command = self.command(&["bash", "--norc", "--noprofile", "--noediting", "-i"]);
        tidy_environment(&mut command);
        command.env("PTY_RUN", pty_run_path());
        command
    }

    fn command(self, argv: &[&str]) -> Command {
        let drop_root = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];
        // `env` runs the rest as it is, so that both have a first word.
        let first: &[&str] = if self == Who::Nobody { &drop_root } else { &["env"] };
        let mut command = Command::new(first[0]);
        command.args(&first[1..]).args(argv);
        command
    }
}

fn tidy_environment(command: &mut Command) {
    command.env_clear().env("PATH", "/usr/bin:/bin").env("TERM", "xterm").env("HOME", "/nonexistent");
    command.env("PS1", "$ ").env("INPUTRC", "/dev/null").env("LC_ALL", "C").current_dir("/");
}

fn pty_run_path() -> PathBuf {
    let mut path = std::env::current_exe().expect("the path of the test program");
    path.pop();
    path.pop();
    path.push("examples/pty_run");
    assert!(path.exists(), "{} is missing: cargo build --example pty_run", path.display());
    path
}

/// How a program ended, and all that appeared.
#[derive(Debug)]
pub(crate) struct Ended {
    /// The exit code, or 1000 + the signal.
    pub(crate) code: i32,
    pub(crate) seen: Vec<u8>,
}

impl Ended {
    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.seen.clone()).expect("text")
    }
}

/// A program that does not outlive its test.
pub(crate) struct Kept(pub(crate) Child);

impl Drop for Kept {
    fn drop(&mut self) {
        // Both fail when it has ended, which is all that is wanted.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(crate) struct Screen {
    master: OwnedFd,
    // Held so that the modes can be read at any time.
    slave: OwnedFd,
    child: Kept,
    seen: Vec<u8>,
    /// Where to look for the next text.
    at: usize,
}

impl Screen {
    /// Starts the command as the leader of a session on a new terminal of 80 by 24.
    pub(crate) fn start(command: Command) -> Self {
        Self::start_with(command, ALL)
    }

    /// The same, with only some of its descriptors on the terminal.
    pub(crate) fn start_with(mut command: Command, seats: Seats) -> Self {
        let (master, slave) = open_pair();
        let mask = block(&[]).expect("the mask");
        seat_on(&mut command, rustix::io::fcntl_dupfd_cloexec(&slave, 3).expect("dup"), seats, mask);
        Self::watch(command, master, slave)
    }

    /// The same, but the terminal is that of no session: no job control, no signals from it.
    pub(crate) fn start_without_session(mut command: Command) -> Self {
        let (master, slave) = open_pair();
        let again = || rustix::io::fcntl_dupfd_cloexec(&slave, 3).expect("dup");
        command.stdin(again()).stdout(again()).stderr(again());
        seat_apart(&mut command, block(&[]).expect("the mask"));
        Self::watch(command, master, slave)
    }

    fn watch(mut command: Command, master: OwnedFd, slave: OwnedFd) -> Self {
        let child = Kept(command.spawn().expect("spawn"));
        Self { master, slave, child, seen: Vec::new(), at: 0 }
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.child.0)
    }

    pub(crate) fn stdin(&mut self) -> std::process::ChildStdin {
        self.child.0.stdin.take().expect("a piped stdin")
    }

    /// The device number of this terminal.
    pub(crate) fn device(&self) -> u64 {
        rustix::fs::fstat(&self.slave).expect("fstat").st_rdev
    }

    pub(crate) fn modes(&self) -> Termios {
        tcgetattr(&self.master).expect("tcgetattr")
    }

    pub(crate) fn is_raw(&self) -> bool {
        !self.modes().local_modes.intersects(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG)
    }

    pub(crate) fn resize(&self, rows: u16, columns: u16) {
        resize(&self.master, rows, columns);
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).expect("kill");
    }

    pub(crate) fn types(&self, keys: &str) {
        let written = rustix::io::write(&self.master, keys.as_bytes()).expect("type");
        assert_eq!(written, keys.len());
    }

    /// Types more than the terminal takes at once, while reading what appears.
    pub(crate) fn types_all(&mut self, mut keys: &[u8]) {
        while !keys.is_empty() {
            match rustix::io::write(&self.master, keys) {
                Ok(written) => keys = &keys[written..],
                Err(Errno::AGAIN) => {
                    self.read_for(Duration::from_millis(10));
                }
                Err(errno) => panic!("type: {errno}"),
            }
        }
    }

    /// Waits until `text` appears after what was waited for before, and returns what appeared up to its end.
    #[track_caller]
    pub(crate) fn wait_for(&mut self, text: &str) -> String {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let new = &self.seen[self.at..];
            if let Some(found) = new.windows(text.len()).position(|window| window == text.as_bytes()) {
                let end = self.at + found + text.len();
                let before = self.seen[self.at..end].to_vec();
                self.at = end;
                return String::from_utf8(before).expect("text");
            }
            self.expect_more(deadline, text);
        }
    }

    /// Waits until a condition that nothing on the screen tells of holds.
    #[track_caller]
    pub(crate) fn wait_until(&mut self, what: &str, holds: impl Fn(&Self) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !holds(self) {
            assert!(Instant::now() < deadline, "{what} never held; {}", self.transcript());
            let more = self.read_for(Duration::from_millis(10));
            assert!(more || holds(self), "the program ended before {what} held; {}", self.transcript());
        }
    }

    /// Lets a span of time pass, while reading.
    pub(crate) fn idle(&mut self, span: Duration) {
        let end = Instant::now() + span;
        while let Some(left) = end.checked_duration_since(Instant::now()) {
            self.read_for(left);
        }
    }

    /// Reads all until the program ends.
    #[track_caller]
    pub(crate) fn end(mut self) -> Ended {
        let deadline = Instant::now() + PATIENCE;
        let status = loop {
            if let Some(status) = self.child.0.try_wait().expect("wait") {
                break status;
            }
            self.expect_more(deadline, "the end");
        };
        while self.read_once() {}
        let code = status.code().unwrap_or_else(|| 1000 + status.signal().unwrap_or(0));
        Ended { code, seen: std::mem::take(&mut self.seen) }
    }

    /// Closes the window: the terminal is gone, while the program may go on.
    pub(crate) fn close(self) -> Kept {
        self.child
    }

    #[track_caller]
    fn expect_more(&mut self, deadline: Instant, what: &str) {
        assert!(Instant::now() < deadline, "{what:?} did not come; {}", self.transcript());
        if !self.read_for(Duration::from_millis(20)) && what != "the end" {
            panic!("the program ended before {what:?}; {}", self.transcript());
        }
    }

    /// Reads what comes within a span; false when the program has ended and all is read.
    fn read_for(&mut self, span: Duration) -> bool {
        let ended = self.child.0.try_wait().expect("wait").is_some();
        let timeout = Timespec { tv_sec: 0, tv_nsec: span.as_nanos().min(500_000_000) as i64 };
        let mut fds = [PollFd::new(&self.master, PollFlags::IN)];
        poll(&mut fds, Some(&timeout)).expect("poll");
        self.read_once() || !ended
    }

    fn read_once(&mut self) -> bool {
        let mut bytes = [0; 65536];
        match rustix::io::read(&self.master, &mut bytes) {
            Ok(length) => {
                self.seen.extend_from_slice(&bytes[..length]);
                length > 0
            }
            Err(Errno::AGAIN | Errno::IO) => false,
            Err(errno) => panic!("read: {errno}"),
        }
    }

    fn transcript(&self) -> String {
        format!("on the screen: {:?}", self.seen.escape_ascii().to_string())
    }
}

/// What one that sleeps for half a second may use of it, in ticks: one that does not uses some fifty.
pub(crate) const IDLE: u64 = 5;
/// What its start takes on a slow machine, and more: one that does not sleep for the second after it uses some hundred.
pub(crate) const START: u64 = 30;

/// The processor time that a process has used, in clock ticks (of 10 ms).
pub(crate) fn ticks(pid: Pid) -> u64 {
    let path = format!("/proc/{}/stat", pid.as_raw_pid());
    let stat = std::fs::read_to_string(path).expect("stat");
    let fields: Vec<&str> = stat.rsplit(')').next().expect("fields").split_whitespace().collect();
    fields[11..13].iter().map(|field| field.parse::<u64>().expect("a number")).sum()
}

/// Starts a program whose standard descriptors are pipes.
pub(crate) fn piped(mut command: Command) -> Kept {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    Kept(command.spawn().expect("spawn"))
}

/// Bytes of every value, in an order that repeats late.
pub(crate) fn noise(length: usize) -> Vec<u8> {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    (0..length).map(|_| next()).collect()
}

/// A directory that every user may write to.
pub(crate) fn shared_directory() -> tempfile::TempDir {
    use std::os::unix::fs::PermissionsExt;
    let directory = tempfile::tempdir().expect("a directory");
    std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o777)).expect("chmod");
    directory
}

fn open_pair() -> (OwnedFd, OwnedFd) {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let master = rustix::pty::openpt(flags).expect("openpt");
    rustix::pty::unlockpt(&master).expect("unlockpt");
    let slave = rustix::pty::ioctl_tiocgptpeer(&master, flags).expect("TIOCGPTPEER");
    rustix::io::ioctl_fionbio(&master, true).expect("FIONBIO");
    resize(&master, 24, 80);
    (master, slave)
}

fn resize(master: impl AsFd, rows: u16, columns: u16) {
    let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(master, size).expect("TIOCSWINSZ");
}
