//! Descriptors that one session sends to another.

use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::fs::{MetadataExt as _, chown};
use std::process::{Command, Stdio};

use ringfence_testkit::report_skip;

use crate::desk::{Desk, each_user, is_root, open, shown};

const NOBODY: u32 = 65534;

/// Waits for somebody who sends one end of a pair, and sends a program and its directory back.
const SENDS: &str = "
import os, socket
with open('planted', 'w') as file:
    file.write('#!/bin/sh')
place = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
place.bind('place')
os.chmod('place', 0o777)
place.settimeout(60)
_, ends, _, _ = socket.recv_fds(place, 9, 1)
end = socket.socket(fileno=ends[0])
socket.send_fds(end, [b'x'], [os.open('planted', os.O_RDONLY), os.open('.', os.O_RDONLY)])
end.recv(9)
";

/// Has every call that could make a program run as its owner change what it is sent.
const MARKS: &str = "
import array, os, socket, stat, sys, time
end, other = socket.socketpair()
sender = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
print('here', flush=True)
for _ in range(600):
    try:
        sender.sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [other.fileno()]))], 0, sys.argv[1])
        break
    except OSError:
        time.sleep(0.1)
_, (program, place), _, _ = socket.recv_fds(end, 9, 2)
for way in (
    lambda: os.fchmod(program, 0o4755),
    lambda: os.fchmod(program, 0o2755),
    lambda: os.chmod(f'/proc/self/fd/{program}', 0o4755),
    lambda: os.chmod('planted', 0o4755, dir_fd=place),
    lambda: os.open('made', os.O_CREAT | os.O_WRONLY, 0o4755, dir_fd=place),
    lambda: os.mknod('node', 0o4755 | stat.S_IFREG, dir_fd=place),
):
    try:
        way()
        print('done', flush=True)
    except OSError as error:
        print(error, flush=True)
end.send(b'x')
";

/// How many programs run as root after the first session has sent what it made to whoever the second is, and what was said.
fn planted(desk: &Desk, mut second: Command) -> (usize, String) {
    let python = ["/usr/bin/python3", "-I", "-c"];
    let place = desk.project("place");
    second.args(python).args([MARKS, place.to_str().unwrap()]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut second = second.spawn().unwrap();
    let (mut lines, mut said) = (BufReader::new(second.stdout.take().unwrap()), String::new());
    // A socket that is there when it starts is not shown to it.
    lines.read_line(&mut said).unwrap();
    assert_eq!(said, "here\n", "{}", shown(&second.wait_with_output().unwrap()));
    let first = desk.bare(&[]).args(python).arg(SENDS).output().unwrap();
    lines.read_to_string(&mut said).unwrap();
    let said = format!("{said}{}{}", shown(&first), shown(&second.wait_with_output().unwrap()));
    assert!(first.status.success() && said.matches('\n').count() > 6, "{said}");
    let mut count = 0;
    for name in ["planted", "made", "node", "place"] {
        let path = desk.project(name);
        let Ok(found) = std::fs::symlink_metadata(&path) else { continue };
        count += usize::from(found.mode() & 0o6000 != 0 && found.uid() == 0);
        std::fs::remove_file(path).unwrap();
    }
    (count, said)
}

/// Root's own project is shown as its worker's. What the worker makes there does not run as root either when another session, in which
/// it belongs to nobody else, is sent a descriptor of it.
#[test]
fn no_program_of_roots_is_planted_by_two_sessions() {
    if !is_root() {
        return report_skip("a program of root's: the tests do not run as root");
    }
    each_user(|desk| {
        if std::fs::metadata(desk.project("")).unwrap().uid() != 0 {
            return;
        }
        let mut outside = desk.outside("/usr/bin/setpriv");
        outside.args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "--"]);
        let (count, said) = planted(&desk, outside);
        assert!(count > 0, "it is no danger: {said}");
        // In a project that is the worker's own, from where root's can be read.
        let (theirs, roots) = (desk.world.path("theirs"), desk.project(""));
        std::fs::create_dir(&theirs).unwrap();
        open(&theirs);
        chown(&theirs, Some(NOBODY), Some(NOBODY)).unwrap();
        let mut own = desk.bare(&["--ref", roots.to_str().unwrap()]);
        own.current_dir(theirs);
        let others = [desk.bare(&["--backend", "bwrap"]), desk.bare(&["--no-broker"]), own];
        for (number, second) in others.into_iter().enumerate() {
            let (count, said) = planted(&desk, second);
            assert_eq!(count, 0, "{number}: {said}");
        }
    });
}

/// What belongs to whoever works may be marked, by a descriptor as by a name.
#[test]
fn ones_own_programs_are_marked() {
    each_user(|desk| {
        if is_root() && std::fs::metadata(desk.project("")).unwrap().uid() == 0 {
            return;
        }
        let marks = "
import os
for name, mode in (('file', 0o4755), ('dir', 0o2755)):
    os.mkdir(name) if name == 'dir' else open(name, 'w').close()
    os.fchmod(os.open(name, os.O_RDONLY), mode)
    assert os.stat(name).st_mode & 0o7777 == mode, name
try:
    os.fchmod(-100, 0o2755)
except OSError as error:
    assert error.errno == 9
else:
    raise AssertionError
";
        let ended = desk.bare(&[]).args(["/usr/bin/python3", "-I", "-c", marks]).output().unwrap();
        assert!(ended.status.success(), "{}", shown(&ended));
    });
}

/// Programs with rights of their own: as the owner, as the group, and with a capability.
const ENDOWED: &str = "
import os
for name, mode in (('owner', 0o4755), ('group', 0o2755), ('capable', 0o755), ('plain', 0o755)):
    with open(name, 'w') as file:
        file.write('before')
    os.chmod(name, mode)
";

/// Only root gives a capability.
const CAPABLE: &str = "
import os, struct, sys
os.setxattr(sys.argv[1], 'security.capability', struct.pack('<IIIII', 0x02000001, 1 << 13, 0, 0, 0))
";

/// Writes to each by way of memory, by which the kernel leaves them their rights, and in the usual way, by which it does not.
const ALTERS: &str = "
import mmap, os
for name in ('owner', 'group', 'capable', 'plain'):
    for path in (name, f'{os.getcwd()}/{name}', '/proc/self/fd/%d' % os.open(name, os.O_RDONLY), '/proc/self/fd/%d' % os.open(name, os.O_WRONLY)):
        try:
            fd = os.open(path, os.O_RDWR)
        except PermissionError:
            continue
        mmap.mmap(fd, 0)[:] = b'memory'
with open('owner', 'wb') as file:
    file.write(b'written')
";

/// Nobody puts another content into a program that runs as somebody, and has it still run so.
#[test]
fn a_program_that_is_altered_has_no_rights_left() {
    each_user(|desk| {
        let made = desk.outside("/usr/bin/python3").args(["-c", ENDOWED]).output().unwrap();
        assert!(made.status.success(), "{}", shown(&made));
        if is_root() {
            let mut given = Command::new("/usr/bin/python3");
            let given = given.args(["-c", CAPABLE]).arg(desk.project("capable")).output().unwrap();
            assert!(given.status.success(), "{}", shown(&given));
        }
        let ended = desk.bare(&[]).args(["/usr/bin/python3", "-I", "-c", ALTERS]).output().unwrap();
        assert!(ended.status.success(), "{}", shown(&ended));
        let content = |name: &str| std::fs::read_to_string(desk.project(name)).unwrap();
        assert_eq!(content("plain"), "memory");
        // By way of memory too: the bits are taken away when the file is opened.
        assert_eq!((content("owner").as_str(), content("group").as_str()), ("written", "memory"));
        for name in ["owner", "group"] {
            assert_eq!(std::fs::metadata(desk.project(name)).unwrap().mode() & 0o7777, 0o755, "{name}");
        }
        assert_eq!(content("capable"), if is_root() { "before" } else { "memory" });
    });
}
