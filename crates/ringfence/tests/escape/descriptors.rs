//! Descriptors that the caller has open, or that are open for another purpose.

use std::fs::{self, File as Opened};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use super::ground::{Ground, Who, as_owner};
use super::row::Thing::File;
use super::row::{NETWORK, READABLE, Row, SECRET, Sign, WRITABLE, python};
use super::suite::{Backend, Topic, fence, tests};

tests!(TOPIC);

/// What the caller has open, from 20 on four for each row: its directory outside, the same as a path, a file in it for reading
/// and writing, the same as a path. Two more are sockets.
const OPENED: &str = "
import fcntl, json, os, socket, sys
orders = json.loads(sys.argv[1])
def keep(fd, number):
    fd = fcntl.fcntl(fd, fcntl.F_DUPFD, 300)
    os.dup2(fd, number, inheritable=True)
    os.close(fd)
def keep_open(fd, number):
    keep(fd, number)
    os.close(fd)
for row in orders['rows']:
    first = 20 + 4 * row['number']
    keep_open(os.open(row['out'], os.O_RDONLY), first)
    keep_open(os.open(row['out'], os.O_PATH), first + 1)
    keep_open(os.open(row['out'] + '/file', os.O_RDWR), first + 2)
    keep_open(os.open(row['out'] + '/file', os.O_PATH), first + 3)
connection = socket.create_connection(('127.0.0.1', orders['outsider']['tcp4']))
keep(connection.fileno(), 18)
keep_open(os.open('/', os.O_RDONLY), 19)
";

const fn outside(says: &'static str, attack: &'static str) -> Row {
    python(READABLE, says, attack, Sign::Secret).files(&[File("out/file", SECRET)])
}

pub(super) static TOPIC: Topic = Topic {
    opened: Some(OPENED),
    rows: &[
        outside("a directory that the caller has open leads nowhere", "show('file', dir_fd=20 + 4 * ROW)"),
        outside("a directory that the caller has open as a path leads nowhere", "show('file', dir_fd=21 + 4 * ROW)"),
        outside("a file that the caller has open cannot be read", "os.write(1, os.pread(22 + 4 * ROW, 999, 0))"),
        outside("a file that the caller has open is not opened again", "show(f'/proc/self/fd/{22 + 4 * ROW}')"),
        outside(
            "a file that the caller has open as a path is not opened again",
            "show(f'/proc/self/fd/{23 + 4 * ROW}')",
        ),
        outside("the caller's root leads nowhere", "show(OUT[1:] + '/file', dir_fd=19)"),
        outside("a directory of the caller's cannot be entered", "os.fchdir(20 + 4 * ROW); show('file')"),
        outside(
            "a directory that the caller has open cannot be listed",
            "print('secret listed', os.listdir(20 + 4 * ROW)); show(f'/proc/self/fd/{20 + 4 * ROW}/file')",
        ),
        python(
            WRITABLE,
            "a file that the caller has open is not written",
            "os.pwrite(22 + 4 * ROW, b'EVIL', 0)",
            Sign::Changed("out/file"),
        )
        .files(&[File("out/file", "old\n")]),
        python(
            NETWORK,
            "a connection of the caller's does not come along",
            "print(socket.socket(fileno=18).recv(999))",
            Sign::Secret,
        )
        .files(&[File("out/file", "")]),
        python(
            READABLE,
            "no descriptor but the three comes along, neither the caller's nor the fence's own",
            "
            print(HANDED_IN, [os.readlink(f'/proc/self/fd/{fd}') for fd in HANDED_IN])
            if set(HANDED_IN) <= {0, 1, 2}:
                raise OSError(9, 'none')
            ",
            Sign::Works,
        )
        .files(&[File("out/file", "")]),
    ],
};

/// What whoever has a file to read and another to write may try beyond that, by way of their names in `/proc`.
const BEYOND: &[&str] = &[
    "os.write(2, os.read(os.open('/proc/self/fd/1', os.O_RDONLY | os.O_NONBLOCK), 999))",
    "os.write(os.open('/proc/self/fd/0', os.O_WRONLY), b'EVIL')",
    "os.open('/proc/self/fd/0', os.O_RDONLY | os.O_TRUNC)",
    "os.truncate('/proc/self/fd/0', 0)",
];

/// The three that come along lead to nothing but themselves: a file that is open for reading is neither written nor emptied
/// through them, and one that is open for writing is not read. That holds for files of directories that are private inside too.
#[test]
fn the_three_lead_nowhere() {
    static NO_ROWS: &[Row] = &[];
    let streams = |ground: &Ground, dir: &Path, command: &mut Command| {
        let (input, output) = (dir.join("in"), dir.join("out"));
        fs::write(&input, "old\n").unwrap();
        fs::write(&output, "first\nSECRET\n").unwrap();
        super::ground::open_to_owner(&input);
        super::ground::open_to_owner(&output);
        command.stdin(Opened::open(&input).unwrap());
        command.stdout(Opened::options().append(true).open(&output).unwrap()).stderr(Stdio::piped());
        let done = command.current_dir(ground.world.path("project")).env_clear().envs(ground.variables());
        let done = done.spawn().unwrap().wait_with_output().unwrap();
        let said = done.stderr.escape_ascii().to_string();
        (said.contains("SECRET") || fs::read_to_string(&input).unwrap() != "old\n", said)
    };
    let temporary = tempfile::tempdir_in("/tmp").unwrap();
    fs::set_permissions(temporary.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let grounds = || {
        let ground = Ground::new(NO_ROWS);
        let other = ground.world.path("other");
        (ground, [other, temporary.path().to_owned()])
    };
    for attack in BEYOND {
        let script = format!(
            "import os\ntry:\n    {attack}\nexcept OSError as refused:\n    os.write(2, repr(refused).encode())\n"
        );
        let python = ["/usr/bin/python3", "-I", "-c", &script];
        let (ground, dirs) = grounds();
        for dir in &dirs {
            let (through, said) = streams(&ground, dir, as_owner(Command::new(python[0]).args(&python[1..])));
            assert!(through, "without a fence the attack fails: {attack}: {said}");
        }
        for backend in Backend::ALL.into_iter().filter(|backend| backend.is_here()) {
            for who in Who::everybody() {
                let (ground, dirs) = grounds();
                for dir in &dirs {
                    let words = fence(&ground, backend, *who);
                    let mut command = Command::new(&words[0]);
                    let (through, said) = streams(&ground, dir, command.args(&words[1..]).args(python));
                    assert!(said.contains("ringfence: receipt kept as"), "{said}");
                    assert!(!through, "[{}, {who:?}] {attack} in {}: {said}", backend.word(), dir.display());
                }
            }
        }
    }
}
