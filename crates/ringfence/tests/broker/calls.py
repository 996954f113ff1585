# What the kernel says, inside as outside, for calls that no rule of the policy decides: each line is a call and what came of it.
import ctypes, errno, fcntl, os, resource, signal, socket, struct, sys, threading, time

libc = ctypes.CDLL(None, use_errno=True)
print("as root" if os.getuid() == 0 else "as a user")


def says(what, call):
    try:
        got = call()
        print(what, "works" if got is None else got)
    except OSError as error:
        print(what, errno.errorcode.get(error.errno, error.errno))


def c(name, *args):
    ctypes.set_errno(0)
    got = getattr(libc, name)(*args)
    if got < 0:
        raise OSError(ctypes.get_errno(), name)
    return got


def closing(what, call):
    def attempt():
        os.close(call())
    says(what, attempt)


# Sockets of kinds that there are not.
INET, INET6, UNIX = int(socket.AF_INET), int(socket.AF_INET6), int(socket.AF_UNIX)
kinds = [(0, 1, 0), (INET, 75, 0), (UNIX, 11, 0), (INET, 0, 0), (INET, 4, 0), (INET, 5, 0), (INET, 1, 17), (INET, 2, 6),
         (INET, 1, 1), (INET6, 15, 0), (INET, 1 | 0x100, 0), (UNIX, 1, 1), (UNIX, 2, 17), (UNIX, 3, 0), (UNIX, 4, 0), (UNIX, 5, 9), (99, 1, 0), (-1, 1, 0)]
for kind in kinds:
    closing(f"socket {kind}", lambda: c("socket", *kind))
pair = (ctypes.c_int * 2)()


def socketpair(*kind):
    c("socketpair", *kind, pair)
    os.close(pair[0]), os.close(pair[1])


for kind in [(0, 1, 0), (INET, 75, 0), (INET, 2, 17), (INET, 2, 6), (INET, 1, 17), (INET, 1, 1), (INET, 1, 6), (INET6, 1, 0), (UNIX, 2, 0), (UNIX, 1, 7), (UNIX, 4, 0)]:
    says(f"socketpair {kind}", lambda: socketpair(*kind))
says("socketpair nowhere", lambda: c("socketpair", UNIX, 2, 0, None))


# Who is at the other end.
def peer():
    name = "peer.sock"
    server = socket.socket(UNIX)
    server.bind(name)
    server.listen(1)
    child = os.fork()
    if child == 0:
        client = socket.socket(UNIX)
        client.connect(name)
        client.recv(1)
        os._exit(0)
    conn, _ = server.accept()
    pid, uid, gid = struct.unpack("3i", conn.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    conn.send(b"x")
    os.waitpid(child, 0)
    os.unlink(name)
    return (pid == child, uid == os.getuid(), gid == os.getgid())


says("SO_PEERCRED of a client", peer)


def peer_of_server():
    name = "peer2.sock"
    ready, other = os.pipe()
    child = os.fork()
    if child == 0:
        server = socket.socket(UNIX)
        server.bind(name)
        server.listen(1)
        os.write(other, b"x")
        server.accept()[0].recv(1)
        os._exit(0)
    os.read(ready, 1)
    client = socket.socket(UNIX)
    client.connect(name)
    pid, uid, gid = struct.unpack("3i", client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    client.send(b"x")
    os.waitpid(child, 0)
    os.unlink(name)
    return (pid == child, uid == os.getuid())


says("SO_PEERCRED of a server", peer_of_server)

# Multicast without an interface for it, and options.
udp = socket.socket(INET, socket.SOCK_DGRAM)
says("SO_BROADCAST", lambda: udp.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1))
says("SO_MARK", lambda: udp.setsockopt(socket.SOL_SOCKET, 36, 1))
says("SO_PRIORITY 7", lambda: udp.setsockopt(socket.SOL_SOCKET, socket.SO_PRIORITY, 7))
says("SO_RCVBUFFORCE", lambda: udp.setsockopt(socket.SOL_SOCKET, 33, 4096))
says("TCP_NODELAY on UDP", lambda: udp.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1))
says("bind to a port below 1024 of another", lambda: socket.socket(INET).bind(("127.0.0.1", 1023)) if os.getuid() else None)

# Message queues.
rt = ctypes.CDLL("librt.so.1", use_errno=True)


class Attr(ctypes.Structure):
    _fields_ = [("flags", ctypes.c_long), ("maxmsg", ctypes.c_long), ("msgsize", ctypes.c_long), ("cur", ctypes.c_long), ("pad", ctypes.c_long * 4)]


def mq(name, *args):
    ctypes.set_errno(0)
    got = getattr(rt, name)(*args)
    if got < 0:
        raise OSError(ctypes.get_errno(), name)
    return got


class Timespec(ctypes.Structure):
    _fields_ = [("s", ctypes.c_long), ("ns", ctypes.c_long)]


NAME = b"/ringfence-calls-%d" % os.getpid()
queue = [-1]


def opened():
    queue[0] = mq("mq_open", NAME, os.O_RDWR | os.O_CREAT, 0o600, ctypes.byref(Attr(0, 4, 64)))


says("mq_open", opened)
says("mq_open again", lambda: mq("mq_open", NAME, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600, None))
says("mq_open read only", lambda: os.close(mq("mq_open", NAME, os.O_RDONLY)))
says("mq_open of nothing", lambda: mq("mq_open", b"/missing-calls", os.O_RDWR))
says("mq_open of a large one", lambda: mq("mq_open", b"/large-calls", os.O_RDWR | os.O_CREAT, 0o600, ctypes.byref(Attr(0, 1 << 20, 1 << 20))))
buffer = ctypes.create_string_buffer(64)
past = Timespec(1, 0)
says("mq_timedreceive late", lambda: mq("mq_timedreceive", queue[0], buffer, 64, None, ctypes.byref(past)))
says("mq_timedreceive badly", lambda: mq("mq_timedreceive", queue[0], buffer, 64, None, ctypes.byref(Timespec(1, -1))))
says("mq_timedreceive small", lambda: mq("mq_timedreceive", queue[0], buffer, 6, None, ctypes.byref(past)))
for n in range(5):
    says(f"mq_timedsend {n}", lambda: mq("mq_timedsend", queue[0], b"hello", 5, n, ctypes.byref(past)))
says("mq_timedsend large", lambda: mq("mq_timedsend", queue[0], b"x" * 100, 100, 0, ctypes.byref(past)))
says("mq_timedreceive", lambda: mq("mq_timedreceive", queue[0], buffer, 64, None, ctypes.byref(past)))


class Sigevent(ctypes.Structure):
    _fields_ = [("value", ctypes.c_void_p), ("signo", ctypes.c_int), ("notify", ctypes.c_int), ("pad", ctypes.c_long * 6)]


says("mq_notify by signal", lambda: mq("mq_notify", queue[0], ctypes.byref(Sigevent(None, signal.SIGUSR1, 0))))
says("mq_notify again", lambda: mq("mq_notify", queue[0], ctypes.byref(Sigevent(None, signal.SIGUSR1, 0))))
says("mq_notify by nothing", lambda: mq("mq_notify", queue[0], None))
THREAD = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
told = threading.Event()
callback = THREAD(lambda _: told.set())


def by_thread():
    event = Sigevent(None, 0, 2)
    ctypes.memmove(ctypes.byref(event, 16), ctypes.byref(ctypes.c_void_p(ctypes.cast(callback, ctypes.c_void_p).value)), 8)
    for _ in range(4):
        try:
            mq("mq_timedreceive", queue[0], buffer, 64, None, ctypes.byref(past))
        except OSError:
            break
    mq("mq_notify", queue[0], ctypes.byref(event))
    mq("mq_timedsend", queue[0], b"hello", 5, 1, ctypes.byref(past))
    return told.wait(5)


says("mq_notify by thread", by_thread)
says("mq_unlink", lambda: mq("mq_unlink", NAME))
says("mq_unlink again", lambda: mq("mq_unlink", NAME))

# Leases.
open("lease", "w").close()


def lease(flags, kind):
    def attempt():
        fd = os.open("lease", flags)
        try:
            fcntl.fcntl(fd, fcntl.F_SETLEASE, kind)
            return fcntl.fcntl(fd, fcntl.F_GETLEASE)
        finally:
            os.close(fd)
    return attempt


for name, flags in (("read", os.O_RDONLY), ("write", os.O_WRONLY), ("both", os.O_RDWR)):
    for kind, value in (("F_RDLCK", fcntl.F_RDLCK), ("F_WRLCK", fcntl.F_WRLCK), ("F_UNLCK", fcntl.F_UNLCK)):
        says(f"lease {kind} on {name}", lease(flags, value))


def two(first, second, kind):
    def attempt():
        one, other = os.open("lease", first), os.open("lease", second)
        try:
            fcntl.fcntl(one, fcntl.F_SETLEASE, kind)
        finally:
            os.close(one), os.close(other)
    return attempt


for first in (os.O_RDONLY, os.O_WRONLY, os.O_RDWR):
    for second in (os.O_RDONLY, os.O_WRONLY, os.O_RDWR):
        for kind in (fcntl.F_RDLCK, fcntl.F_WRLCK):
            says(f"lease {kind} on {first} beside {second}", two(first, second, kind))

# Processes.
child = os.fork()
if child == 0:
    time.sleep(30)
    os._exit(0)
pidfd = [-1]


def pidfd_open():
    pidfd[0] = os.pidfd_open(child)


says("pidfd_open", pidfd_open)
info = (ctypes.c_uint64 * 16)()
info[0] = 0xf
for size in (64, 72, 16, 8):
    says(f"PIDFD_GET_INFO of {size}", lambda: c("ioctl", pidfd[0], (3 << 30) | (size << 16) | (0xff << 8) | 11, ctypes.byref(info)) and None)
says("PIDFD_GET_INFO nowhere", lambda: c("ioctl", pidfd[0], (3 << 30) | (64 << 16) | (0xff << 8) | 11, None))
for number, name in enumerate(("cgroup", "ipc", "mnt", "net", "pid"), 1):
    says(f"pidfd {name} namespace", lambda: os.close(c("ioctl", pidfd[0], (0xff << 8) | number, 0)))
says("pidfd_send_signal", lambda: signal.pidfd_send_signal(pidfd[0], signal.SIGKILL))
says("waitid by pidfd", lambda: os.waitid(os.P_PIDFD, pidfd[0], os.WEXITED).si_status)
says("PIDFD_GET_INFO later", lambda: c("ioctl", pidfd[0], (3 << 30) | (64 << 16) | (0xff << 8) | 11, ctypes.byref(info)) and None)


def dumped():
    child = os.fork()
    if child == 0:
        resource.setrlimit(resource.RLIMIT_CORE, (resource.getrlimit(resource.RLIMIT_CORE)[1],) * 2)
        os.abort()
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status), os.WTERMSIG(status)


says("abort", dumped)
prctls = [("PR_SET_NAME", 15, b"name", 0, 0, 0), ("PR_SET_PDEATHSIG bad", 1, 999, 0, 0, 0), ("PR_SET_DUMPABLE bad", 4, 2, 0, 0, 0), ("PR_SET_TIMING bad", 14, 1, 0, 0, 0),
          ("PR_SET_NO_NEW_PRIVS 0", 38, 0, 0, 0, 0), ("PR_GET_NO_NEW_PRIVS bad", 39, 1, 0, 0, 0), ("PR_SET_THP_DISABLE", 41, 0, 0, 0, 0), ("PR_GET_THP_DISABLE bad", 42, 1, 1, 0, 0),
          ("PR_CAP_AMBIENT bad", 47, 9, 0, 0, 0), ("PR_GET_SPECULATION_CTRL bad", 52, 0, 1, 0, 0), ("PR_SET_SECUREBITS", 28, 0, 0, 0, 0), ("PR_CAPBSET_DROP", 24, 1, 0, 0, 0),
          ("PR_CAPBSET_READ", 23, 0, 0, 0, 0), ("PR_SET_KEEPCAPS", 8, 1, 0, 0, 0), ("PR_MCE_KILL bad", 33, 9, 0, 0, 0), ("nothing", 9999, 0, 0, 0, 0), ("PR_SET_CHILD_SUBREAPER", 36, 0, 0, 0, 0),
          ("PR_SET_SECCOMP 2 nowhere", 22, 2, 1, 0, 0), ("PR_SET_SECCOMP bad", 22, 9, 0, 0, 0), ("PR_TASK_PERF", 31, 0, 0, 0, 0), ("PR_SET_TSC bad", 26, 9, 0, 0, 0), ("PR_SET_MM", 35, 1, 0, 0, 0)]
for name, *args in prctls:
    says("prctl " + name, lambda: c("prctl", *[ctypes.c_char_p(a) if isinstance(a, bytes) else ctypes.c_ulong(a) for a in args]))
MFD = [("", 0), ("cloexec", 1), ("sealing", 2), ("hugetlb", 4), ("huge 2M", 4 | (21 << 26)), ("huge 1G", 4 | (30 << 26)), ("huge 3", 4 | (3 << 26)), ("noexec", 8), ("exec", 16), ("both", 24), ("bad", 0x100)]
for name, flags in MFD:
    closing("memfd_create " + name, lambda: c("memfd_create", b"name", flags))

# Numbers of users and groups that are not one's own.
uid, gid = os.getuid(), os.getgid()
for other in (0, 1, 12345):
    if os.getuid():
        says(f"setuid {other}", lambda: os.setuid(other))
        says(f"setgid {other}", lambda: os.setgid(other))
        says(f"setreuid {other}", lambda: os.setreuid(other, other))
        says(f"setregid {other}", lambda: os.setregid(other, other))
        says(f"setresuid {other}", lambda: os.setresuid(other, other, other))
        says(f"setresgid -1 {other}", lambda: os.setresgid(-1, other, -1))
        says(f"setgroups {other}", lambda: os.setgroups([other]))
        says(f"setfsuid {other}", lambda: c("setfsuid", other) == uid)
says("setuid self", lambda: os.setuid(uid))
says("setreuid self", lambda: os.setreuid(uid, uid))
says("setresgid self", lambda: os.setresgid(gid, gid, gid))
says("nice -1", lambda: None if os.getuid() == 0 else os.nice(-1))
says("getgroups", lambda: sorted(os.getgroups()) == sorted(set(os.getgroups())))
says("sched_setscheduler fifo", lambda: None if os.getuid() == 0 else os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1)))
says("mlock", lambda: c("mlock", buffer, 64))
says("sethostname", lambda: None if os.getuid() == 0 else socket.sethostname("x"))
says("mknod of a device", lambda: None if os.getuid() == 0 else os.mknod("device", 0o20600, os.makedev(1, 3)))
says("kill of one outside", lambda: os.kill(4194303, 0))

# Files of one's own threads.
go, done, tid = threading.Event(), threading.Event(), [0]


def thread():
    tid[0] = threading.get_native_id()
    go.set()
    done.wait()


t = threading.Thread(target=thread)
t.start()
go.wait()
for path in (f"/proc/self/task/{tid[0]}/comm", "/proc/self/comm", "/proc/thread-self/comm", f"/proc/{os.getpid()}/comm"):
    def write():
        with open(path, "r+b", buffering=0) as file:
            file.write(b"a name")
        return open(path).read().strip()
    says(path.replace(str(tid[0]), "TID").replace(str(os.getpid()), "PID"), write)
libc.pthread_setname_np.argtypes = [ctypes.c_ulong, ctypes.c_char_p]
says("pthread_setname_np of another thread", lambda: libc.pthread_setname_np(t.ident, b"other"))
done.set()
for name, text in (("oom_score_adj", "500"), ("coredump_filter", "0x33")):
    def write():
        with open("/proc/self/" + name, "w") as file:
            file.write(text)
        return open("/proc/self/" + name).read().strip()
    says(name, write)

# openat2, and links of /proc.
def how(flags, resolve):
    return struct.pack("QQQ", flags, 0, resolve)


def openat2(dirfd, path, flags, resolve):
    ctypes.set_errno(0)
    got = libc.syscall(437, dirfd, path, how(flags, resolve), 24)
    if got < 0:
        raise OSError(ctypes.get_errno(), "openat2")
    os.close(got)


if not os.path.lexists("loop"):
    os.symlink("loop", "loop")
    os.symlink("lease", "link")
    os.mkdir("dir")
here = os.open(".", os.O_RDONLY | os.O_DIRECTORY)
proc = os.open("/proc", os.O_RDONLY | os.O_DIRECTORY)
for resolve, name in ((0, "plain"), (1, "NO_XDEV"), (2, "NO_MAGICLINKS"), (4, "NO_SYMLINKS"), (8, "BENEATH"), (16, "IN_ROOT")):
    for path in (b"lease", b"link", b"loop", b"missing", b"dir", b"../x", b"/etc/passwd", b"lease/x"):
        says(f"openat2 {name} {path.decode()}", lambda: openat2(here, path, os.O_RDONLY, resolve))
    for path in (b"self", b"self/status", b"self/exe", b"self/cwd", b"thread-self/comm", b"self/fd/0", b"mounts", b"self/ns/mnt", b"missing", b"self/root/etc/passwd"):
        says(f"openat2 {name} /proc {path.decode()}", lambda: openat2(proc, path, os.O_RDONLY, resolve))
os.close(proc)
for name in ("link", "loop"):
    os.unlink(name)
os.rmdir("dir")
os.unlink("lease")
