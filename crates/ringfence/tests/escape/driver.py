"""Runs attacks, one after the other, and says of each how it ended. It runs where the attacks run: inside a fence or, as a
control, outside of every fence. Whether an attack succeeded is judged outside, from what it left behind.

An attack that the system refuses ends with an OSError. One that ends with any other mistake is broken, and says so: a broken
attack must not be taken for a fence that holds.
"""

# What was handed in, before anything is opened here. One of them is the list itself.
import os



def is_open(fd):
    try:
        os.fstat(fd)
        return True
    except OSError:
        return False


# Not every fence has a `/proc`.
HANDED_IN = [fd for fd in range(1024) if is_open(fd)]

import ctypes
import errno
import fcntl
import json
import mmap
import re
import signal
import socket
import stat
import struct
import sys
import textwrap
import time
import traceback

REFUSED, BROKEN = 10, 99
# How long somebody outside may take to answer, on a machine that does other things too.
PATIENCE = 20

libc = ctypes.CDLL(None, use_errno=True)
# Out of the way of descriptors that attacks look at.
REPLIES = fcntl.fcntl(0, fcntl.F_DUPFD, 200)
REPORTS = fcntl.fcntl(1, fcntl.F_DUPFD, 200)


def line():
    text = b""
    while not text.endswith(b"\n"):
        byte = os.read(REPLIES, 1)
        if not byte:
            break
        text += byte
    return text


def say(**what):
    os.write(REPORTS, json.dumps(what).encode() + b"\n")


def checked(result, what):
    if result == -1:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), what)
    return result


def argument(value):
    return ctypes.c_long(value) if isinstance(value, int) else value


def call(name, *arguments):
    """A system call, by its name where it has a different number on each machine."""
    number = NUMBERS[name] if isinstance(name, str) else name
    libc.syscall.restype = ctypes.c_long
    return checked(libc.syscall(ctypes.c_long(number), *map(argument, arguments)), str(name))


def c(name, *arguments):
    """A function of the C library that returns a number."""
    return checked(getattr(libc, name)(*map(argument, arguments)), name)


def show(path, flags=os.O_RDONLY, **where):
    """Prints what is there."""
    fd = os.open(path, flags, **where)
    os.write(1, os.read(fd, 1 << 16))
    os.close(fd)


def write(path, flags=os.O_WRONLY, text=b"EVIL\n", **where):
    fd = os.open(path, flags, 0o644, **where)
    os.write(fd, text)
    os.close(fd)


def outside(text=""):
    """Has somebody outside act, and returns what they answer."""
    say(ask=ROW, text=str(text))
    return line().decode().strip()


def until_heard(s, address):
    """Waits until somebody outside who hears datagrams has written down what was sent before: they are answered one by one."""
    if s.family == socket.AF_UNIX:
        s.bind(f"\0{os.getpid()}-{ROW}")
    s.connect(address)
    s.settimeout(PATIENCE)
    s.send(b"?")
    s.recv(999)


def first(*ways):
    """Several ways to one end: it is enough that one works."""
    refused = None
    for way in ways:
        try:
            return way()
        except OSError as error:
            refused = error
    raise refused


NUMBERS, OUTSIDER, ROW, SLEEPER = {}, {}, 0, 0
HERE = OUT = HOST_HOME = PROJECT = TMP = SHM = ""


def attack(row):
    os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
    if orders["isolate"]:
        # What one attack mounts is not there for the next.
        c("unshare", 0x20000)
    os.chdir(HERE)
    signal.alarm(60)
    if row["kind"] == "sh":
        names = {"HERE": HERE, "OUT": OUT, "HOST_HOME": HOST_HOME, "PROJECT": PROJECT}
        os.execve("/bin/sh", ["sh", "-c", row["text"]], {**os.environ, **names})
    try:
        exec(compile(textwrap.dedent(row["text"]), "attack", "exec"), globals())
        sys.stdout.flush()
        return 0
    except OSError as error:
        print("refused:", errno.errorcode.get(error.errno, error), error.filename, flush=True)
        return REFUSED
    except SystemExit as end:
        return end.code or 0
    except BaseException:
        traceback.print_exc(file=sys.stdout)
        sys.stdout.flush()
        return BROKEN


orders = json.loads(line())
NUMBERS, OUTSIDER = orders["numbers"], orders["outsider"]
# Without these nothing below would say anything.
assert call(NUMBERS["getppid"]) == os.getppid()
for row in orders["rows"]:
    ROW, HERE, OUT, HOST_HOME = row["number"], row["here"], row["out"], row["home"]
    PROJECT, SLEEPER, TMP, SHM = orders["project"], row["sleeper"], row["tmp"], row["shm"]
    output = os.memfd_create("output")
    pid = os.fork()
    if pid == 0:
        code = BROKEN
        try:
            os.dup2(output, 1)
            os.dup2(output, 2)
            code = attack(row)
        finally:
            os._exit(code)
    _, status = os.waitpid(pid, 0)
    code = os.waitstatus_to_exitcode(status)
    shown = os.pread(output, 1 << 20, 0).decode("latin-1")
    os.close(output)
    broken = code == BROKEN or code == -signal.SIGALRM or (row["kind"] == "sh" and code in (126, 127))
    say(row=ROW, code=code, broken=broken, output=shown)
say(done=True)
