//! The standard streams of a payload. Inside they are objects of ringfence's own, on every backend; none of the caller's file
//! descriptions is handed in.
//!
//! A file description of the caller's would be a capability that no mount, rule or namespace takes away again. A pipe can be
//! re-opened for writing through `/proc/self/fd/0`, so an agent could append to the script that `curl | bash` is reading. A
//! memfd that is open for reading can be re-opened for writing. A file shares its offset and its flags: `lseek` would steer
//! what `bash < script` reads next, `F_SETFL` would make the caller's output non-blocking, `F_SETOWN` would have it signalled.
//! A socket belongs to the host's network namespace: `connect(AF_UNSPEC)`, then connect anywhere.
//!
//! | the caller has | the payload gets |
//! | --- | --- |
//! | a terminal | a PTY (see [`crate::terminal`]) |
//! | `/dev/null`, `zero`, `full`, `random`, `urandom` | the same device, opened anew in the same mode |
//! | nothing (a closed descriptor) | `/dev/null` |
//! | anything else | a fresh pipe, and a thread of the supervisor that carries the bytes ([`input`], [`output`]) |
//!
//! Where standard output and standard error are one file they are one pipe inside, so that what is written keeps its order.
//!
//! The price: inside, a file is a pipe. It cannot be mapped or sought in, and a socket is no socket.

mod input;
mod output;

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ringfence_surface::{AbsPath, Access, Because, Surface, Word};
use ringfence_sys::{process, pty};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd};
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;
use rustix::process::Signal;

use crate::launch::pipe;
use crate::terminal::Signals;

use self::input::InputRelay;
use self::output::OutputRelay;

/// How much is moved in one call, and how large a pipe becomes once it is used for much. `/proc/sys/fs/pipe-max-size` allows
/// every user this much.
const BULK_BYTES: usize = 1 << 20;

/// How long output may take to arrive once a session was ended before its time.
const LAST_MOMENT: Duration = Duration::from_secs(2);

/// Refuses what may not be a standard stream at all: a directory, an `O_PATH` descriptor, and a file that a rule denies or
/// protects. Other files of the host's are the caller's to redirect.
///
/// # Errors
/// Why one of the three is refused.
pub(crate) fn check_caller_streams(surface: &Surface) -> io::Result<()> {
    for number in 0..3 {
        let fd = process::standard(number);
        // A closed one is none.
        let Ok(status) = rustix::fs::fstat(fd) else { continue };
        let flags = rustix::fs::fcntl_getfl(fd)?;
        match FileType::from_raw_mode(status.st_mode) {
            FileType::Directory => {
                return Err(io::Error::new(io::ErrorKind::IsADirectory, "a directory is no stream"));
            }
            _ if flags.contains(OFlags::PATH) => return Err(io::ErrorKind::InvalidInput.into()),
            FileType::RegularFile => check_file(number, flags, surface)?,
            _ => {}
        }
    }
    Ok(())
}

fn check_file(number: i32, flags: OFlags, surface: &Surface) -> io::Result<()> {
    let path = rustix::fs::readlink(format!("/proc/self/fd/{number}"), Vec::new())?;
    let Ok(path) = AbsPath::lexical(path.as_bytes()) else { return Ok(()) };
    let access = if flags & OFlags::ACCMODE == OFlags::RDONLY { Access::Read } else { Access::Write };
    let verdict = surface.decide(&path, access);
    match verdict.because {
        Because::Rule(rule) if !verdict.is_allowed() => Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            format!("{path} is taken away: {rule} (for one run, name it yourself: --ref {})", Word(path.as_bytes())),
        )),
        _ => Ok(()),
    }
}

/// What a standard stream of the payload is. Decided before the new process is made.
enum StreamPlan {
    /// Nothing of it is seen: a PTY takes its place.
    Terminal,
    /// A device whose every opening is alike, opened anew.
    Device(OwnedFd),
    /// Nothing: `/dev/null`.
    Nothing,
    /// A pipe, and a thread that carries the bytes.
    Relayed,
    /// The same pipe as standard output.
    AsOutput,
}

impl StreamPlan {
    fn of(number: i32) -> Self {
        let fd = process::standard(number);
        let Ok(status) = rustix::fs::fstat(fd) else { return Self::Nothing };
        if FileType::from_raw_mode(status.st_mode) == FileType::CharacterDevice {
            if rustix::termios::isatty(fd) {
                return Self::Terminal;
            }
            if let Some(device) = open_anew(number, status.st_rdev) {
                return Self::Device(device);
            }
        }
        if number == 2 && is_output_too(fd) { Self::AsOutput } else { Self::Relayed }
    }
}

/// Opens one of the devices that hold no state, in the caller's mode.
fn open_anew(number: i32, device: u64) -> Option<OwnedFd> {
    /// `MEM_MAJOR`, and of its devices null, zero, full, random and urandom. Not `mem`, `port` or `kmsg`.
    const STATELESS: (u32, [u32; 5]) = (1, [3, 5, 7, 8, 9]);
    let is_stateless =
        (rustix::fs::major(device), STATELESS.1.contains(&rustix::fs::minor(device))) == (STATELESS.0, true);
    let mode = rustix::fs::fcntl_getfl(process::standard(number)).ok()? & OFlags::ACCMODE;
    let open = || rustix::fs::open(format!("/proc/self/fd/{number}"), mode | OFlags::CLOEXEC, Mode::empty()).ok();
    let opened = is_stateless.then(open)??;
    (rustix::fs::fstat(&opened).ok()?.st_rdev == device).then_some(opened)
}

/// Is standard error the file that standard output is, open in the same way and at the same position (`2>&1`)?
fn is_output_too(stderr: BorrowedFd<'_>) -> bool {
    let identity = |fd: BorrowedFd<'_>| {
        let status = rustix::fs::fstat(fd).ok()?;
        let flags = rustix::fs::fcntl_getfl(fd).ok()?;
        Some((status.st_dev, status.st_ino, status.st_rdev, flags, rustix::fs::tell(fd).ok()))
    };
    identity(stderr).is_some_and(|stderr| identity(process::standard(1)) == Some(stderr))
}

/// The standard streams of a payload, made, and what is still to be started for them.
pub(crate) struct StandardStreams {
    input: Option<InputRelay>,
    outputs: Vec<OutputRelay>,
}

impl StandardStreams {
    /// Makes the payload's three, which are returned, and what connects them with the caller's. Nothing of the caller's is read,
    /// written or changed before [`StandardStreams::start`].
    ///
    /// # Errors
    /// What the kernel says.
    pub(crate) fn make() -> io::Result<(Self, [OwnedFd; 3])> {
        let mut made = Self { input: None, outputs: Vec::new() };
        let stdin = match StreamPlan::of(0) {
            StreamPlan::Terminal | StreamPlan::Nothing => open_null()?,
            StreamPlan::Device(device) => device,
            StreamPlan::Relayed | StreamPlan::AsOutput => {
                let (reader, writer) = inner_pipe()?;
                made.input = Some(InputRelay::new(writer, reader.try_clone()?));
                reader
            }
        };
        let stdout = made.output(1, None)?;
        let stderr = made.output(2, Some(&stdout))?;
        Ok((made, [stdin, stdout, stderr]))
    }

    fn output(&mut self, number: i32, stdout: Option<&OwnedFd>) -> io::Result<OwnedFd> {
        match (StreamPlan::of(number), stdout) {
            (StreamPlan::Terminal | StreamPlan::Nothing, _) => open_null(),
            (StreamPlan::Device(device), _) => Ok(device),
            (StreamPlan::AsOutput, Some(stdout)) => stdout.try_clone(),
            (StreamPlan::Relayed | StreamPlan::AsOutput, _) => {
                let (reader, writer) = inner_pipe()?;
                self.outputs.push(OutputRelay::new(reader, number));
                Ok(writer)
            }
        }
    }

    /// Begins to carry bytes. After the fork: a copy of a process with threads could allocate nothing.
    ///
    /// # Errors
    /// What the kernel says.
    pub(crate) fn start(self) -> io::Result<RunningStreams> {
        let event = || eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map(Arc::new);
        let mut running = RunningStreams { ending: event()?, finished: event()?, threads: Vec::new() };
        if let Some(input) = self.input {
            running.spawn("stdin", move |ending| {
                input.run(ending);
                Ok(())
            })?;
        }
        for output in self.outputs {
            let name = output.name();
            running.spawn(name, move |ending| output.run(ending))?;
        }
        Ok(running)
    }
}

/// A pipe with its ends for the reader and the writer. Its inode is ours: whoever the payload runs as may open `/dev/stdout`
/// again, as on a pipe that it made itself. Only those who may look into a process that has it find it.
fn inner_pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let (reader, writer) = pipe()?;
    rustix::fs::fchmod(&reader, Mode::from_raw_mode(0o666))?;
    Ok((reader, writer))
}

fn open_null() -> io::Result<OwnedFd> {
    Ok(rustix::fs::open(c"/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?)
}

/// Output that the payload wrote and the caller's file did not take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LostOutput {
    /// `stdout` or `stderr`.
    pub stream: &'static str,
    /// The error of the write.
    pub errno: Errno,
}

/// Streams that are being carried.
pub(crate) struct RunningStreams {
    /// Readable once the payload has ended.
    ending: Arc<OwnedFd>,
    /// Counts the threads that are through.
    finished: Arc<OwnedFd>,
    threads: Vec<JoinHandle<Result<(), LostOutput>>>,
}

impl RunningStreams {
    fn spawn(
        &mut self,
        name: &'static str,
        carry: impl FnOnce(&OwnedFd) -> Result<(), LostOutput> + Send + 'static,
    ) -> io::Result<()> {
        let (ending, finished) = (Arc::clone(&self.ending), Arc::clone(&self.finished));
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || {
            // A file beyond RLIMIT_FSIZE, or a socket without a reader: an error of the write, and no end of the supervisor.
            let _ = pty::block(&[Signal::XFSZ, Signal::PIPE]);
            let carried = carry(&ending);
            add_one(&finished);
            carried
        })?;
        self.threads.push(thread);
        Ok(())
    }

    /// The payload has ended: carries what it had written until then, and settles what it has read. What a survivor writes
    /// later is not waited for. A reader outside that takes nothing holds this back, as it would hold back the payload; TERM,
    /// INT, HUP or QUIT give up what is left, and so does a short time where `is_cut` says that the session was ended.
    ///
    /// # Errors
    /// What `poll` says.
    pub(crate) fn finish(self, signals: &Signals, is_cut: bool) -> io::Result<Vec<LostOutput>> {
        add_one(&self.ending);
        let deadline = is_cut.then(|| Instant::now() + LAST_MOMENT);
        let mut left = self.threads.len() as u64;
        while left > 0 {
            let most = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            let most = most.map(|most| Timespec::try_from(most).unwrap_or_default());
            let mut fds = [PollFd::new(&*self.finished, PollFlags::IN), PollFd::new(signals.fd(), PollFlags::IN)];
            match rustix::event::poll(&mut fds, most.as_ref()) {
                Ok(0) => return Ok(Vec::new()),
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
            let mut count = [0; 8];
            if rustix::io::read(&*self.finished, &mut count).is_ok() {
                left = left.saturating_sub(u64::from_ne_bytes(count));
            }
            while let Some(signal) = signals.next()? {
                if matches!(signal, Signal::TERM | Signal::INT | Signal::HUP | Signal::QUIT) {
                    return Ok(Vec::new());
                }
            }
        }
        // One that panicked has nothing to say.
        let ends = self.threads.into_iter().map(|thread| thread.join().unwrap_or(Ok(())));
        Ok(ends.filter_map(Result::err).collect())
    }
}

fn add_one(event: &OwnedFd) {
    // The counter would have to reach 2^64. Another thread waits for this without a limit: one failure is not the last word.
    let _ = (0..64).any(|_| rustix::io::write(event, &1_u64.to_ne_bytes()).is_ok());
}

/// Waits until one of two is ready, without a limit. Errors and hang-ups are reported unasked.
fn wait_for_either(one: (BorrowedFd<'_>, PollFlags), other: (BorrowedFd<'_>, PollFlags)) -> (PollFlags, PollFlags) {
    let mut fds = [PollFd::from_borrowed_fd(one.0, one.1), PollFd::from_borrowed_fd(other.0, other.1)];
    // Without a limit it fails only by a signal, and those that are answered are blocked here.
    let _ = rustix::event::poll(&mut fds, None);
    (fds[0].revents(), fds[1].revents())
}

/// How many bytes wait in a pipe or a socket.
fn waiting(fd: BorrowedFd<'_>) -> rustix::io::Result<usize> {
    // Counted by the kernel in an `int`.
    rustix::io::ioctl_fionread(fd).map(|count| usize::try_from(count).unwrap_or(usize::MAX))
}
