//! Every process ends with the session, and no more run than a policy says.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, Signal};

use super::ground::{Ground, is_stopped};
use super::row::Row;
use super::suite::{Process, Receipt, every_fence, fence, fence_with, output, setpriv};

static NO_ROWS: &[Row] = &[];

/// Longer than an end takes on a busy machine, and shorter than a daemon lives by itself.
const PATIENCE: Duration = Duration::from_secs(40);

/// A process that leaves its parent, its group and its session, closes everything, hears no signal, and holds a lock for as long
/// as it lives. The one that started it then does what its argument says.
const DAEMON: &str = "
import fcntl, os, signal, sys, time
read, write = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        lock = os.open('lock', os.O_RDWR | os.O_CREAT, 0o666)
        fcntl.flock(lock, fcntl.LOCK_EX)
        os.write(lock, str(os.getpid()).encode())
        for number in range(1, 65):
            if number not in (signal.SIGKILL, signal.SIGSTOP, 32, 33):
                signal.signal(number, signal.SIG_IGN)
        os.write(write, b'x')
        os.dup2(os.open('/dev/null', os.O_RDWR), 0)
        for fd in (1, 2, read, write):
            os.close(fd)
        time.sleep(60)
    os._exit(0)
os.read(read, 1)
if sys.argv[1] == 'waits':
    print('up', flush=True)
    time.sleep(60)
";

fn daemon(then: &str) -> [&str; 5] {
    ["/usr/bin/python3", "-I", "-c", DAEMON, then]
}

/// Does somebody hold the lock? What has ended lets go a moment later.
fn is_held(lock: &Path, patience: Duration) -> bool {
    let begun = Instant::now();
    let file = fs::File::open(lock).expect("the lock was made");
    while flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
        if begun.elapsed() > patience {
            return true;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    false
}

fn world() -> (Ground, std::path::PathBuf) {
    let ground = Ground::new(NO_ROWS);
    let lock = ground.world.path("project/lock");
    (ground, lock)
}

/// Without a fence it lives on: the control of the tests below.
#[test]
fn without_a_fence_a_daemon_lives_on() {
    let (ground, lock) = world();
    let command: Vec<String> = setpriv().into_iter().chain(daemon("ends").map(str::to_owned)).collect();
    assert!(output(&ground, &command, &[]).status.success());
    assert!(is_held(&lock, Duration::from_millis(100)));
    let pid = fs::read_to_string(&lock).unwrap().parse().unwrap();
    rustix::process::kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
    assert!(!is_held(&lock, PATIENCE));
}

/// A daemon does not outlive the command that started it.
#[test]
fn a_daemon_ends_with_its_session() {
    every_fence(|backend, who| {
        let (ground, lock) = world();
        let output = output(&ground, &fence(&ground, backend, who), &daemon("ends"));
        let said = output.stderr.escape_ascii().to_string().replace("\\n", "\n");
        assert!(output.status.success(), "{said}");
        assert!(Receipt::from(&said).holds_kind("tree"));
        assert!(!is_held(&lock, PATIENCE), "[{}, {who:?}] a daemon lives on", backend.word());
    });
}

/// A daemon does not outlive the supervisor, however that ends.
#[test]
fn a_daemon_ends_with_a_supervisor_that_is_killed() {
    every_fence(|backend, who| {
        let (ground, lock) = world();
        let command: Vec<String> =
            fence(&ground, backend, who).into_iter().chain(daemon("waits").map(str::to_owned)).collect();
        let mut process = Process::start(&ground, &command);
        assert_eq!(process.line().as_deref(), Some("up\n"));
        // Whoever started becomes the supervisor: there is one process, by one number.
        process.kill();
        assert!(!is_held(&lock, PATIENCE), "[{}, {who:?}] a daemon lives on", backend.word());
        process.finish();
    });
}

/// Whoever watches is neither killed nor stopped from inside, and goes on watching.
#[test]
fn whoever_watches_is_out_of_reach() {
    let attack = "
import os, signal, sys
above = [int(sys.stdin.readline()), 1]
# Its own forebears as far as they can be seen, and nobody else's.
pid = os.getpid()
while pid > 1:
    try:
        pid = int(open(f'/proc/{pid}/stat').read().rsplit(')', 1)[1].split()[1])
    except OSError:
        break
    above.append(pid)
    if pid == above[0]:
        break
for pid in filter(None, above):
    for number in (signal.SIGSTOP, signal.SIGKILL, signal.SIGTERM):
        try:
            os.kill(pid, number)
        except OSError:
            pass
print('done', flush=True)
sys.stdin.readline()
print('still here', flush=True)
sys.exit(7)
";
    every_fence(|backend, who| {
        let (ground, _) = world();
        let words = ["/usr/bin/python3", "-I", "-c", attack].map(str::to_owned);
        let command: Vec<String> = fence(&ground, backend, who).into_iter().chain(words).collect();
        let mut process = Process::start(&ground, &command);
        let id = process.id();
        writeln!(process.input(), "{id}").unwrap();
        let place = format!("[{}, {who:?}]", backend.word());
        assert_eq!(process.line().as_deref(), Some("done\n"), "{place}");
        assert!(!is_stopped(id), "{place} the supervisor was stopped");
        writeln!(process.input(), "go on").unwrap();
        assert_eq!(process.line().as_deref(), Some("still here\n"), "{place}");
        let (status, said) = process.finish();
        assert_eq!(status.code(), Some(7), "{place} {said}");
    });
}

/// Starts processes until it may not any more, or until there are more than the limit would ever let through.
const BOMB: &str = "
import os, time
children = []
try:
    while len(children) < 120:
        pid = os.fork()
        if pid == 0:
            time.sleep(30)
            os._exit(0)
        children.append(pid)
except OSError:
    pass
print('started', len(children), flush=True)
for pid in children:
    os.kill(pid, 9)
";

/// No more processes run than the policy says, where the receipt says so; otherwise they do.
#[test]
fn a_bomb_of_processes_is_bounded() {
    every_fence(|backend, who| {
        let (ground, _) = world();
        ground.world.write("project/limits.toml", "version = 1\n[limits]\npids = 24\n");
        let fence = fence_with(&ground, backend, who, &["--policy", "limits.toml"]);
        let output = output(&ground, &fence, &["/usr/bin/python3", "-I", "-c", BOMB]);
        let said = output.stderr.escape_ascii().to_string().replace("\\n", "\n");
        let started = String::from_utf8(output.stdout).unwrap();
        let started: u32 = started.trim().strip_prefix("started ").unwrap_or("0").parse().unwrap();
        let place = format!("[{}, {who:?}] {started} processes", backend.word());
        // The program itself is one of them.
        match Receipt::from(&said).holds_kind("pids") {
            true => assert_eq!(started + 1, 24, "{place}"),
            false => assert_eq!(started, 120, "{place}"),
        }
    });
}

/// No more memory is used than the policy says, where the receipt says so; otherwise it is.
#[test]
fn memory_is_bounded() {
    every_fence(|backend, who| {
        let (ground, _) = world();
        ground.world.write("project/limits.toml", "version = 1\n[limits]\nmemory = \"64MiB\"\n");
        let fence = fence_with(&ground, backend, who, &["--policy", "limits.toml"]);
        let script = "print(len(bytearray(200 << 20)))";
        let output = output(&ground, &fence, &["/usr/bin/python3", "-I", "-c", script]);
        let said = output.stderr.escape_ascii().to_string().replace("\\n", "\n");
        let holds = Receipt::from(&said).holds_kind("memory");
        assert_eq!(output.status.success(), !holds, "[{}, {who:?}] {said}", backend.word());
    });
}

/// A command that hears no signal ends when its time is over, and so does its daemon.
#[test]
fn time_is_bounded() {
    every_fence(|backend, who| {
        let (ground, lock) = world();
        ground.world.write("project/limits.toml", "version = 1\n");
        let fence = fence_with(&ground, backend, who, &["--policy", "limits.toml"]);
        // A second is enough for a daemon to begin, but for a machine that does other things too.
        for seconds in [1, 10] {
            let limits = format!("version = 1\n[limits]\nwall = \"{seconds}s\"\n");
            fs::write(ground.project().join("limits.toml"), limits).unwrap();
            let begun = Instant::now();
            let output = output(&ground, &fence, &daemon("waits"));
            let said = output.stderr.escape_ascii().to_string().replace("\\n", "\n");
            assert!(Receipt::from(&said).holds_kind("wall"));
            assert!(begun.elapsed() < PATIENCE && !output.status.success(), "{said}");
            if lock.exists() {
                break;
            }
        }
        assert!(!is_held(&lock, PATIENCE), "[{}, {who:?}] a daemon lives on", backend.word());
    });
}
