# The broker is a process of the same user. Nobody inside sets its limits, takes another's mark, or sees others by its eyes.
import ctypes, os, resource, struct, subprocess, sys

libc = ctypes.CDLL(None, use_errno=True)
WRITES = (1 << 1) | (1 << 4) | (1 << 5) | (1 << 6) | (1 << 7) | (1 << 8) | (1 << 9) | (1 << 10) | (1 << 11) | (1 << 12)
LOCKS = 10
os.mkdir("only")
os.mkdir("other")


def fails(what):
    try:
        what()
    except (OSError, ValueError):
        return
    print("WRONG", what.__name__, flush=True)
    os._exit(3)


def call(*arguments):
    result = libc.syscall(*arguments)
    return result if result >= 0 else -ctypes.get_errno()


# Whoever carries out calls has a number, and so has each of its threads.
def starve():
    for number in range(1, os.getpid() + 64):
        try:
            status = open("/proc/%d/status" % number).read()
        except OSError:
            continue
        if status.split("Tgid:")[1].split()[0] == "1":
            try:
                resource.prlimit(number, resource.RLIMIT_NOFILE, (0, 0))
            except (OSError, ValueError):
                continue
            return
    raise OSError
def mark():
    resource.prlimit(0, LOCKS, (1, 1))


open("other/before", "w").close()
for what in [starve, mark]:
    fails(what)
if os.uname().machine == "x86_64" and call(160, LOCKS, struct.pack("QQ", 1, 1)) >= 0:
    print("WRONG the old call", flush=True)
    sys.exit(3)
# One's own can be set, and everybody's can be asked for.
most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (64, most))
assert resource.prlimit(1, resource.RLIMIT_NOFILE)[1] > 0
open("other/after", "w").close()

# Memory of another process is opened by the kernel for whoever asks, not by the broker for anybody.
sleeper = subprocess.Popen(["sleep", "1000"])
for path in ["/proc/%d/mem" % sleeper.pid, "/proc/%d/environ" % sleeper.pid]:
    by_openat2 = call(437, -100, path.encode(), struct.pack("QQQ", os.O_RDONLY, 0, 0), ctypes.c_size_t(24))
    if by_openat2 != -38:
        print("WRONG openat2", path, by_openat2, flush=True)
        sys.exit(3)
    fails(lambda: os.open(path, os.O_RDONLY | os.O_CREAT))
    os.close(os.open(path, os.O_RDONLY))
sleeper.kill()
# Where root's files are written there is no such call at all.
own, plain = (
    call(437, -100, path, struct.pack("QQQ", os.O_RDONLY, 0, 0), ctypes.c_size_t(24))
    for path in [b"/proc/self/status", b"other/before"]
)
if own < 0 and plain != -38:
    print("WRONG openat2 of one's own", own, flush=True)
    sys.exit(3)


def restrict(*places):
    ruleset = libc.syscall(444, struct.pack("QQQ", WRITES, 0, 0), ctypes.c_size_t(8), 0)
    assert ruleset >= 0
    for place in places:
        fd = os.open(place, os.O_PATH)
        assert libc.syscall(445, ruleset, 1, struct.pack("=Qi", WRITES, fd), 0) == 0
    assert libc.prctl(38, 1, 0, 0, 0) == 0
    assert libc.syscall(446, ruleset, 0) == 0


# Asked before there are children: one that ended early would leave us waiting for its word.
if libc.syscall(444, None, ctypes.c_size_t(0), 1) < 0:
    print("all is held")
    sys.exit(0)
# Of two who have given up rights the one with fewer does not take the other's mark.
(go, going), (stay, staying), (said, saying) = os.pipe(), os.pipe(), os.pipe()
pid = os.fork()
if pid == 0:
    restrict("only")
    os.write(saying, b".")
    other = int(os.read(go, 20))
    fails(lambda: open("other/x", "w"))
    def take():
        resource.prlimit(0, LOCKS, resource.prlimit(other, LOCKS))
    try:
        take()
    except (OSError, ValueError):
        pass
    fails(lambda: open("other/x", "w"))
    open("only/x", "w").close()
    os._exit(0)
os.read(said, 1)
wider = os.fork()
if wider == 0:
    restrict("only", "other")
    open("other/y", "w").close()
    os.write(saying, b".")
    os.read(stay, 1)
    os._exit(0)
os.read(said, 1)
os.write(going, b"%d" % wider)
ended = os.waitpid(pid, 0)[1]
os.write(staying, b".")
if ended != 0:
    print("WRONG in a domain", ended, flush=True)
    sys.exit(3)
print("all is held")
