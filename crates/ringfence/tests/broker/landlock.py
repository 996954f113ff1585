# A domain of Landlock within the session's own: only `only` can be written in it.
import ctypes, os, struct, sys

libc = ctypes.CDLL(None, use_errno=True)
WRITES = (1 << 1) | (1 << 4) | (1 << 5) | (1 << 6) | (1 << 7) | (1 << 8) | (1 << 9) | (1 << 10) | (1 << 11) | (1 << 12)
os.mkdir("only")
os.mkdir("other")
open("other/there", "w").close()


def restrict():
    attr = struct.pack("QQQ", WRITES, 0, 0)
    ruleset = libc.syscall(444, attr, ctypes.c_size_t(8), 0)
    if ruleset < 0:
        print("no Landlock")
        sys.exit(0)
    fd = os.open("only", os.O_PATH)
    rule = struct.pack("=Qi", WRITES, fd)
    assert libc.syscall(445, ruleset, 1, rule, 0) == 0
    assert libc.prctl(38, 1, 0, 0, 0) == 0
    assert libc.syscall(446, ruleset, 0) == 0, os.strerror(ctypes.get_errno())
    # A15: the ruleset that was applied gets no further rule, under any number; another one does.
    fd = os.open(".", os.O_PATH)
    rule = struct.pack("=Qi", WRITES, fd)
    for number in (ruleset, os.dup(ruleset)):
        libc.syscall(445, number, 1, rule, 0)
    another = libc.syscall(444, attr, ctypes.c_size_t(8), 0)
    assert libc.syscall(445, another, 1, rule, 0) == 0, os.strerror(ctypes.get_errno())
    assert libc.syscall(445, another, 7, rule, 0) == -1 and ctypes.get_errno() == 22
    assert libc.syscall(445, another, 1, struct.pack("=Qi", WRITES, 999), 0) == -1 and ctypes.get_errno() == 9
    os.close(another)


def tries(what, expected):
    try:
        what()
        got = 0
    except OSError as e:
        got = e.errno
    if (got == 0) != expected:
        print("WRONG", what.__name__, got, expected, flush=True)
        os._exit(3)


def create_only():
    os.close(os.open("only/f%d" % os.getpid(), os.O_WRONLY | os.O_CREAT))
def make_only():
    os.mkdir("only/d%d" % os.getpid())
def create_other():
    os.close(os.open("other/f%d" % os.getpid(), os.O_WRONLY | os.O_CREAT))
def write_other():
    os.close(os.open("other/there", os.O_WRONLY))
def make_other():
    os.mkdir("other/d%d" % os.getpid())
def remove_other():
    os.unlink("other/there")
def move_out():
    os.rename("only/f%d" % os.getpid(), "other/moved")
def link_out():
    os.link("only/f%d" % os.getpid(), "other/linked")


def all_of_it():
    for f in [create_only, make_only]:
        tries(f, True)
    for f in [create_other, write_other, make_other, remove_other, move_out, link_out]:
        tries(f, False)


# Before, everything can be written.
tries(create_other, True)
tries(make_other, True)
pid = os.fork()
if pid == 0:
    restrict()
    all_of_it()
    # A child, one that nobody is the parent of any more, and another program.
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            all_of_it()
            os._exit(0)
        os._exit(os.waitstatus_to_exitcode(os.wait()[1]))
    if os.wait()[1] != 0:
        os._exit(4)
    if os.system("touch other/by-sh 2>/dev/null") == 0 or os.system("touch only/by-sh") != 0:
        os._exit(5)
    # A second layer takes more away.
    restrict()
    all_of_it.__call__
    tries(write_other, False)
    tries(create_only, True)
    # Nobody claims to be in another domain.
    import resource
    try:
        resource.setrlimit(10, (4711, 4711))
        os._exit(6)
    except (OSError, ValueError):
        pass
    tries(create_only, True)
    os._exit(0)
assert os.waitstatus_to_exitcode(os.wait()[1]) == 0
# Nobody else has lost anything.
os.rmdir("other/d%d" % os.getpid())
tries(make_other, True)
print("held")
