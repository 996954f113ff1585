//! A16: nothing is typed into the terminal of whoever started the session.

use std::process::Command;

use super::ground::{Ground, is_root};
use super::row::Row;
use super::suite::{every_fence, fence, setpriv, starter};

static NO_ROWS: &[Row] = &[];

/// Plays a person at a terminal: runs a command on a new one and, when that has ended, says what is left to be read there, which
/// nobody has typed. A shell would run it.
const PERSON: &str = "
import os, pty, select, subprocess, sys, termios, time
AFTER = '''
import os, select, subprocess, sys
code = subprocess.call(sys.argv[1:])
left = b''
while select.select([0], [], [], 0.2)[0]:
    left += os.read(0, 100)
print('ended with', code, 'and left', left, flush=True)
'''
pid, screen = pty.fork()
if pid == 0:
    os.execv('/usr/bin/python3', ['python3', '-I', '-c', AFTER] + sys.argv[1:])
shown, until = b'', time.time() + 60
while time.time() < until and select.select([screen], [], [], 60)[0]:
    try:
        got = os.read(screen, 10000)
    except OSError:
        break
    shown += got
os.write(1, shown)
os.waitpid(pid, 0)
";

/// Claims, and ways to type, each as a function that types one byte.
pub(super) const WAYS: &[(&str, &str)] = &[
    ("the terminal does not take what is typed by a call", "lambda byte: fcntl.ioctl(0, termios.TIOCSTI, byte)"),
    (
        "the terminal does not take it by its own name",
        "lambda byte: fcntl.ioctl(os.open('/dev/tty', os.O_RDWR), termios.TIOCSTI, byte)",
    ),
    (
        "the terminal does not take it by the name of a descriptor",
        "lambda byte: fcntl.ioctl(os.open('/proc/self/fd/1', os.O_RDWR | os.O_NOCTTY), termios.TIOCSTI, byte)",
    ),
    (
        "the terminal does not take it with a bit that the kernel ignores",
        "lambda byte: libc.ioctl(0, ctypes.c_ulong((1 << 32) | termios.TIOCSTI), byte)",
    ),
];

/// Types a command with each of these ways.
fn typing(ways: &[(&str, &str)]) -> String {
    let ways: Vec<&str> = ways.iter().map(|(_, way)| *way).collect();
    format!(
        "
import ctypes, fcntl, os, termios
libc = ctypes.CDLL(None)
for way in [{}]:
    try:
        for byte in b'evil\\n':
            way(bytes([byte]))
    except OSError as refused:
        print('refused', refused)
print('tried', flush=True)
",
        ways.join(", ")
    )
}

fn play(ground: &Ground, before: &[String], command: &[String], script: &str) -> String {
    let mut person = Command::new(before.first().map_or("/usr/bin/python3", String::as_str));
    if !before.is_empty() {
        person.args(&before[1..]).arg("/usr/bin/python3");
    }
    person.args(["-I", "-c", PERSON]).args(command).args(["/usr/bin/python3", "-I", "-c", script]);
    person.current_dir(ground.world.path("project")).env_clear().envs(ground.variables()).env("TERM", "dumb");
    let output = person.output().unwrap();
    let shown = output.stdout.escape_ascii().to_string();
    assert!(shown.contains("tried") && shown.contains("and left"), "{shown}");
    shown
}

/// The control: without a fence, what was typed is left for whoever reads next. Kernels may keep it to root.
#[test]
fn without_a_fence_it_is_typed() {
    let ground = Ground::new(NO_ROWS);
    let who = if is_root() { Vec::new() } else { setpriv() };
    for way in WAYS {
        let shown = play(&ground, &who, &[], &typing(&[*way]));
        assert!(shown.contains("and left b\\'evil"), "{}: cannot fail: {shown}", way.0);
    }
}

/// A16: inside, nothing is left that nobody typed.
#[test]
fn a16_nothing_is_typed() {
    every_fence(|backend, who| {
        let ground = Ground::new(NO_ROWS);
        // The terminal belongs to whoever starts the session.
        let user = starter(backend, who);
        let command = fence(&ground, backend, who).split_off(user.len());
        let shown = play(&ground, &user, &command, &typing(WAYS));
        assert!(shown.contains("receipt kept as"), "{shown}");
        assert!(shown.contains("and left b\\'\\'"), "[{}, {who:?}] {shown}", backend.word());
    });
}
