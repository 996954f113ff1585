# A table of file calls, in the manner of pjdfstest: each case runs in a directory of its own and says what each call returned,
# and what is on the disk afterwards. The same is run with and without the broker; the two must say the same.
import ctypes, errno, fcntl, os, shutil, signal, socket, stat, struct, sys, threading, time

libc = ctypes.CDLL(None, use_errno=True)
CASES = []
AT_FDCWD, AT_EMPTY_PATH, AT_NOFOLLOW, AT_FOLLOW, AT_REMOVEDIR = -100, 0x1000, 0x100, 0x400, 0x200
X86 = os.uname().machine == "x86_64"
NR = dict(renameat2=316, openat2=437, fchmodat2=452, setxattrat=463, removexattrat=466, mknodat=259, linkat=265,
          utimensat=280, open=2, creat=85, rename=82, mkdir=83, rmdir=84, link=86, unlink=87, symlink=88, chmod=90, chown=92,
          lchown=94, utime=132, mknod=133, utimes=235, futimesat=261, truncate=76, openat=257, unlinkat=263, mkdirat=258,
          fchmodat=268, fchownat=260, symlinkat=266, renameat=264, setxattr=188, umask=95)
if not X86:
    NR.update(renameat2=276, mknodat=33, linkat=37, utimensat=88, truncate=45, openat=56, unlinkat=35, mkdirat=34,
              fchmodat=53, fchownat=54, symlinkat=36, renameat=38, setxattr=5)


def case(f):
    CASES.append(f)
    return f


def name_of(code):
    return errno.errorcode.get(code, str(code))


def sys_(name, *args):
    if name not in NR:
        return "absent"
    converted = []
    for a in args:
        if isinstance(a, str):
            a = a.encode()
        if isinstance(a, bytes):
            a = ctypes.c_char_p(a)
        elif isinstance(a, int):
            a = ctypes.c_long(a)
        converted.append(a)
    r = libc.syscall(ctypes.c_long(NR[name]), *converted)
    if r < 0:
        return name_of(ctypes.get_errno())
    return r


def t(f, *a, **k):
    try:
        r = f(*a, **k)
        return "ok" if r is None else r
    except OSError as e:
        return name_of(e.errno)


def op(path, flags, mode=0o666, **k):
    "Opens, says what came of it, and closes."
    try:
        fd = os.open(path, flags, mode, **k)
    except OSError as e:
        return name_of(e.errno)
    got = fcntl.fcntl(fd, fcntl.F_GETFL)
    cloexec = fcntl.fcntl(fd, fcntl.F_GETFD)
    os.close(fd)
    return "fd acc=%d append=%d nonblock=%d cloexec=%d" % (got & 3, bool(got & os.O_APPEND), bool(got & os.O_NONBLOCK), cloexec)


def put(path, text="x", mode=None):
    with open(path, "w") as f:
        f.write(text)
    if mode is not None:
        os.chmod(path, mode)


def get(path):
    with open(path) as f:
        return f.read()


def tree(top="."):
    out = []
    for d, ds, fs in os.walk(top):
        ds.sort()
        for n in sorted(ds + fs):
            p = os.path.join(d, n)
            s = os.lstat(p)
            line = "%s %o %d %d n%d" % (os.path.relpath(p, top), s.st_mode, s.st_uid, s.st_gid, s.st_nlink if not stat.S_ISDIR(s.st_mode) else 0)
            if stat.S_ISREG(s.st_mode):
                line += " %d" % s.st_size
                if s.st_mode & 0o400:
                    line += " %r" % get(p)[:40]
            if stat.S_ISLNK(s.st_mode):
                line += " -> " + os.readlink(p)
            if s.st_mtime < 1e9:
                line += " m%.6f" % (s.st_mtime_ns / 1e9)
            if s.st_atime < 1e9:
                line += " a%.6f" % (s.st_atime_ns / 1e9)
            try:
                for x in sorted(os.listxattr(p, follow_symlinks=False)):
                    if x.startswith("user."):
                        line += " %s=%r" % (x, os.getxattr(p, x, follow_symlinks=False))
            except OSError:
                pass
            out.append(line)
    return out


W, R, RW, C, X, T, A = os.O_WRONLY, os.O_RDONLY, os.O_RDWR, os.O_CREAT, os.O_EXCL, os.O_TRUNC, os.O_APPEND
D, NF, CL, NB, P = os.O_DIRECTORY, os.O_NOFOLLOW, os.O_CLOEXEC, os.O_NONBLOCK, os.O_PATH
TMP = os.O_TMPFILE
LONG = "n" * 300
DEEP = "/".join(["d" * 200] * 25)


def rows(name, setup, calls):
    "One case for each call, all beginning with the same tree."
    for i, c in enumerate(calls):
        def f(c=c):
            setup()
            yield c()
        f.__name__ = "%s_%d" % (name, i)
        CASES.append(f)


def ground():
    os.mkdir("dir")
    put("file", "content")
    os.symlink("file", "link")
    os.symlink("dir", "dlink")
    os.symlink("missing", "dangling")
    os.symlink("loop2", "loop1")
    os.symlink("loop1", "loop2")
    os.symlink("../" + os.path.basename(os.getcwd()) + "/file", "around")
    os.symlink(os.getcwd() + "/file", "absolute")
    put("dir/inner", "in")
    put("closed", "c", 0o000)
    os.mkdir("shut")
    put("shut/x")
    os.chmod("shut", 0o500)
    os.mkfifo("fifo")
    s = socket.socket(socket.AF_UNIX)
    s.bind("sock")
    s.close()
    put("exe", "#!/bin/true\n", 0o755)


def o(path, flags, mode=0o666):
    return lambda: op(path, flags, mode)


rows("open", ground, [
    o("file", W), o("file", RW), o("file", W | T), o("file", W | A | CL), o("file", R | T), o("file", W | C), o("file", W | C | X),
    o("file", R | C), o("file", R | C | X), o("file", 3), o("new", W), o("new", W | C), o("new", W | C | X, 0o600), o("new", R | C, 0o400),
    o("new", RW | C | T | CL, 0o777), o("new", W | C, 0o4755), o("new", W | C, 0o000), o("dir", W), o("dir", RW), o("dir", R | C),
    o("dir", W | C), o("dir", W | C | X), o("dir", W | D), o("dir", R | D | T), o("dir/", W | C), o("newdir/", W | C), o("file/", W),
    o("file/", W | C), o("file/x", W), o("file/x", W | C), o("missing/x", W | C), o("dir/.", W), o("dir/..", W | C), o(".", W), o("..", W | C),
    o("/", W), o("/", W | C), o("", W), o("", W | C), o("link", W | T), o("link", W | NF), o("link", W | C | NF), o("link", W | C | X),
    o("link/", W), o("dangling", W), o("dangling", W | C), o("dangling", W | C | X), o("dangling", W | C | NF), o("dangling/", W | C),
    o("loop1", W), o("loop1", W | C), o("loop1/x", W | C), o("dlink", W), o("dlink/new", W | C), o("dlink/inner", W | T), o("dlink", W | D),
    o("dlink", R | C | D), o("link", W | D), o("link", W | D | NF), o("around", W | A), o("absolute", RW), o(LONG, W | C), o(LONG, W),
    o("dir/" + LONG, W | C), o(DEEP, W | C), o("x" * 5000, W | C), o("closed", W), o("closed", W | C), o("closed", R | C), o("shut/x", W),
    o("shut/new", W | C), o("shut/x", W | C | X), o("file", W | D), o("file", W | C | D), o("fifo", RW), o("fifo", W | NB), o("fifo", R | NB | C),
    o("sock", W), o("sock", RW | C), o("exe", W), o("dir//inner", W), o(".//dir/./../file", W), o("dir/../new", W | C),
    o(".", TMP | RW), o(".", TMP | W, 0o600), o("dir", TMP | RW | X), o("file", TMP | RW), o("missing", TMP | RW), o(".", TMP | R),
    o("dlink", TMP | RW), o("shut", TMP | RW), o("file", W | NB), o("file", RW | os.O_SYNC), o("file", W | os.O_NOATIME), o("/dev/null", W), o("/dev/null", RW | C),
    o("/dev/full", W), o("/dev/zero", RW), o("/proc/self/comm", R), o("/proc/self/nothing", W | C), o("/dev/null", W | T | C, 0o666),
    o("/nonexistent/x", W | C), o("/usr/bin/env", W), o("/usr/ringfence-new", W | C), o("dir", P), o("file", P | W),
])


@case
def write_through_descriptors():
    put("f", "hello")
    fd = os.open("f", R)
    yield op("/proc/self/fd/%d" % fd, W | T)
    yield os.stat("f").st_size
    yield op("/dev/fd/%d" % fd, RW)
    yield op("/proc/thread-self/fd/%d" % fd, W)
    yield op("/proc/%d/fd/%d" % (os.getpid(), fd), W)
    yield op("/proc/self/fd/%d/x" % fd, W | C)
    yield op("/proc/self/fd/999", W)
    yield op("/proc/self/cwd/new", W | C)
    yield op("/proc/self/root/dev/null", W)
    d = os.open(".", R | D)
    yield op("/proc/self/fd/%d/via" % d, W | C)
    yield op("/proc/self/fd/%d" % d, W)
    r, w = os.pipe()
    yield op("/proc/self/fd/%d" % w, W)
    yield op("/proc/self/fd/%d" % r, W)
    os.unlink("f")
    yield op("/proc/self/fd/%d" % fd, RW)
    a, b = socket.socketpair()
    yield op("/proc/self/fd/%d" % a.fileno(), W)
    m = os.memfd_create("m")
    yield op("/proc/self/fd/%d" % m, RW | T)


@case
def relative_to_descriptors():
    os.mkdir("d")
    d = os.open("d", R | D)
    p = os.open("d", P)
    put("f")
    f = os.open("f", R)
    yield op("a", W | C, dir_fd=d), op("b", W | C, dir_fd=p), op("c", W | C, dir_fd=f), op("/dev/null", W, dir_fd=999), op("x", W | C, dir_fd=999)
    yield t(os.mkdir, "m", dir_fd=d), t(os.unlink, "a", dir_fd=p), t(os.rename, "b", "b2", src_dir_fd=d, dst_dir_fd=p)
    yield t(os.symlink, "t", "s", dir_fd=d), t(os.link, "b2", "l", src_dir_fd=d, dst_dir_fd=d), t(os.chmod, "b2", 0o640, dir_fd=d)
    yield t(os.mkfifo, "p", dir_fd=d), t(os.rmdir, "m", dir_fd=d)
    os.rename("d", "moved")
    yield op("after", W | C, dir_fd=d)
    os.mkdir("gone")
    g = os.open("gone", R | D)
    os.rmdir("gone")
    yield op("x", W | C, dir_fd=g), t(os.mkdir, "x", dir_fd=g)


def m(f, *a, **k):
    return lambda: t(f, *a, **k)


rows("mkdir", ground, [
    m(os.mkdir, "new"), m(os.mkdir, "new/"), m(os.mkdir, "dir"), m(os.mkdir, "dir/"), m(os.mkdir, "file"), m(os.mkdir, "file/"), m(os.mkdir, "file/x"),
    m(os.mkdir, "missing/x"), m(os.mkdir, "link"), m(os.mkdir, "dangling"), m(os.mkdir, "dangling/"), m(os.mkdir, "dir/."), m(os.mkdir, "dir/.."),
    m(os.mkdir, "."), m(os.mkdir, "/"), m(os.mkdir, ""), m(os.mkdir, LONG), m(os.mkdir, "shut/new"), m(os.mkdir, "new", 0o1777), m(os.mkdir, "new", 0o2755),
    m(os.mkdir, "dlink/new", 0o700), m(os.mkdir, "loop1/x"), m(os.mkdir, "new/."), m(os.mkdir, "/usr/ringfence-new"), m(os.mkdir, "dlink"),
])
rows("rmdir", ground, [
    m(os.rmdir, "dir"), m(os.rmdir, "file"), m(os.rmdir, "link"), m(os.rmdir, "dlink"), m(os.rmdir, "dlink/"), m(os.rmdir, "missing"), m(os.rmdir, "."),
    m(os.rmdir, "dir/."), m(os.rmdir, "dir/.."), m(os.rmdir, "/"), m(os.rmdir, "file/x"), m(os.rmdir, "shut/x"), m(os.rmdir, ""), m(os.rmdir, LONG), m(os.rmdir, "shut/"),
])
rows("unlink", ground, [
    m(os.unlink, "file"), m(os.unlink, "file/"), m(os.unlink, "dir"), m(os.unlink, "dir/"), m(os.unlink, "link"), m(os.unlink, "link/"), m(os.unlink, "dlink"),
    m(os.unlink, "dangling"), m(os.unlink, "missing"), m(os.unlink, "."), m(os.unlink, ".."), m(os.unlink, "/"), m(os.unlink, "shut/x"), m(os.unlink, "file/x"),
    m(os.unlink, "fifo"), m(os.unlink, "sock"), m(os.unlink, ""), m(os.unlink, "loop1"), m(os.unlink, "loop1/x"), m(os.unlink, "dlink/inner"), m(os.unlink, LONG),
    lambda: sys_("unlinkat", AT_FDCWD, "file", 0x77), lambda: sys_("unlinkat", AT_FDCWD, "dir", AT_REMOVEDIR), m(os.unlink, "/usr/bin/env"),
])
rows("symlink", ground, [
    m(os.symlink, "x", "new"), m(os.symlink, "x", "file"), m(os.symlink, "x", "dir/new"), m(os.symlink, "", "new"), m(os.symlink, "x", ""), m(os.symlink, "x", "new/"),
    m(os.symlink, "x", "dangling"), m(os.symlink, "x", "file/x"), m(os.symlink, "y" * 4095, "new"), m(os.symlink, "y" * 5000, "new"), m(os.symlink, "x", "shut/new"), m(os.symlink, "x", "."),
])
rows("link", ground, [
    m(os.link, "file", "new"), m(os.link, "file", "dir"), m(os.link, "file", "file"), m(os.link, "dir", "new"), m(os.link, "missing", "new"), m(os.link, "link", "new"),
    m(os.link, "link", "new", follow_symlinks=True), m(os.link, "link", "new", follow_symlinks=False), m(os.link, "dangling", "new"), m(os.link, "dangling", "new", follow_symlinks=True), m(os.link, "file", "file/x"),
    m(os.link, "file", "new/"), m(os.link, "file/", "new"), m(os.link, "fifo", "new"), m(os.link, "sock", "new"), m(os.link, "file", "shut/new"), m(os.link, "dir", "file"),
    m(os.link, "file", ""), m(os.link, "", "new"), m(os.link, "/usr/bin/env", "new"), lambda: sys_("linkat", AT_FDCWD, "file", AT_FDCWD, "new", 0x8000), m(os.link, "file", "."),
    m(os.link, "loop1", "new"), m(os.link, "loop1", "new", follow_symlinks=True), m(os.link, "file", LONG), m(os.link, "file", "dangling"),
])
rows("rename", ground, [
    m(os.rename, "file", "new"), m(os.rename, "file", "link"), m(os.rename, "file", "dir"), m(os.rename, "dir", "file"), m(os.rename, "dir", "new"), m(os.rename, "dir", "new/"),
    m(os.rename, "dir/", "new"), m(os.rename, "file", "new/"), m(os.rename, "file/", "new"), m(os.rename, "dir", "shut"), m(os.rename, "dir", "dir/sub"), m(os.rename, "dir", "."),
    m(os.rename, ".", "new"), m(os.rename, "dir/.", "new"), m(os.rename, "missing", "new"), m(os.rename, "missing", "shut/x"), m(os.rename, "link", "new"), m(os.rename, "dlink", "new"),
    m(os.rename, "dlink/", "new"), m(os.rename, "file", "file"), m(os.rename, "file", "shut/x"), m(os.rename, "shut/x", "new"), m(os.rename, "file", "missing/x"), m(os.rename, "file", LONG),
    m(os.rename, "", "x"), m(os.rename, "file", ""), m(os.rename, "file", "/usr/new"), m(os.rename, "/usr/bin/env", "new"), m(os.rename, "dir/inner", "file"), m(os.rename, "file", "dir/inner"),
    m(os.rename, "dangling", "new"), m(os.rename, "file", "dangling"), m(os.rename, "fifo", "new"), m(os.rename, "file", "loop1"), m(os.rename, "loop1/x", "new"), m(os.rename, "/", "new"),
    lambda: sys_("renameat2", AT_FDCWD, "file", AT_FDCWD, "new", 1), lambda: sys_("renameat2", AT_FDCWD, "file", AT_FDCWD, "dir", 1), lambda: sys_("renameat2", AT_FDCWD, "file", AT_FDCWD, "dir", 2),
    lambda: sys_("renameat2", AT_FDCWD, "file", AT_FDCWD, "exe", 2), lambda: sys_("renameat2", AT_FDCWD, "file", AT_FDCWD, "missing", 2), lambda: sys_("renameat2", AT_FDCWD, "file", AT_FDCWD, "new", 3),
    lambda: sys_("renameat2", AT_FDCWD, "file", AT_FDCWD, "new", 8), lambda: sys_("renameat2", AT_FDCWD, "missing", AT_FDCWD, "dir", 1), lambda: sys_("renameat2", AT_FDCWD, "dir", AT_FDCWD, "dir/sub", 2),
    lambda: sys_("renameat2", AT_FDCWD, "file", AT_FDCWD, "new", 6),
])
rows("mknod", ground, [
    m(os.mkfifo, "new"), m(os.mkfifo, "file"), m(os.mkfifo, "missing/x"), m(os.mkfifo, "new", 0o777), m(os.mknod, "new", stat.S_IFREG | 0o640), m(os.mknod, "new", 0o644), m(os.mknod, "new", stat.S_IFSOCK | 0o600),
    m(os.mknod, "new", stat.S_IFCHR | 0o600, os.makedev(1, 3)), m(os.mknod, "new", stat.S_IFBLK | 0o600, os.makedev(1, 3)), m(os.mknod, "new", stat.S_IFDIR | 0o700), m(os.mknod, "new/", stat.S_IFREG | 0o600),
    m(os.mknod, "new", 0o170000), m(os.mknod, "dangling", stat.S_IFREG | 0o600), m(os.mknod, "shut/new", stat.S_IFREG | 0o600), m(os.mknod, "new", stat.S_IFLNK | 0o600),
])
rows("chmod", ground, [
    m(os.chmod, "file", 0o600), m(os.chmod, "file", 0o4755), m(os.chmod, "file", 0o1777), m(os.chmod, "link", 0o600), m(os.chmod, "dangling", 0o600), m(os.chmod, "dir", 0o2775), m(os.chmod, "missing", 0o600),
    m(os.chmod, "file/", 0o600), m(os.chmod, "dir/", 0o700), m(os.chmod, "loop1", 0o600), m(os.chmod, "fifo", 0o666), m(os.chmod, "shut/x", 0o600), m(os.chmod, "", 0o600), m(os.chmod, "/usr/bin/env", 0o777),
    m(os.chmod, "dir/..", 0o755), m(os.chmod, ".", 0o755), lambda: sys_("fchmodat2", AT_FDCWD, "link", 0o600, AT_NOFOLLOW), lambda: sys_("fchmodat2", AT_FDCWD, "file", 0o600, AT_NOFOLLOW),
    lambda: sys_("fchmodat2", AT_FDCWD, "", 0o755, AT_EMPTY_PATH), lambda: sys_("fchmodat2", AT_FDCWD, "file", 0o600, 0x4), lambda: sys_("fchmodat2", os.open("file", R), "", 0o611, AT_EMPTY_PATH), lambda: sys_("chmod", "file", 0o177777),
])
me, grp = os.getuid(), os.getgid()
rows("chown", ground, [
    m(os.chown, "file", me, grp), m(os.chown, "file", -1, -1), m(os.chown, "file", me, -1), m(os.chown, "link", me, grp), m(os.lchown, "link", me, grp), m(os.lchown, "dangling", me, -1), m(os.chown, "dangling", me, grp),
    m(os.chown, "missing", me, grp), m(os.chown, "exe", -1, grp), m(os.chown, "file/", me, grp), lambda: sys_("fchownat", AT_FDCWD, "", me, grp, AT_EMPTY_PATH), lambda: sys_("fchownat", AT_FDCWD, "file", me, grp, 0x2), m(os.chown, "loop1", me, grp),
])
rows("truncate", ground, [
    m(os.truncate, "file", 2), m(os.truncate, "file", 100), m(os.truncate, "link", 1), m(os.truncate, "dir", 0), m(os.truncate, "missing", 0), m(os.truncate, "dangling", 0), m(os.truncate, "closed", 0), m(os.truncate, "file", -1),
    m(os.truncate, "fifo", 0), m(os.truncate, "file/", 0), m(os.truncate, "loop1", 0), m(os.truncate, "sock", 0), m(os.truncate, "", 0), m(os.truncate, "/usr/bin/env", 0), m(os.truncate, "/dev/null", 0), lambda: sys_("truncate", "file", 1 << 62),
])
then = (10**8 * 10**9 + 5, 2 * 10**8 * 10**9 + 123456789)
rows("utime", ground, [
    m(os.utime, "file", ns=then), m(os.utime, "link", ns=then), m(os.utime, "link", ns=then, follow_symlinks=False), m(os.utime, "dangling", ns=then), m(os.utime, "dangling", ns=then, follow_symlinks=False), m(os.utime, "dir", ns=then), m(os.utime, "missing"),
    m(os.utime, "file"), m(os.utime, "closed"), m(os.utime, "closed", ns=then), m(os.utime, "file/", ns=then), m(os.utime, "loop1"), m(os.utime, "/usr/bin/env"), m(os.utime, "shut/x", ns=then), m(os.utime, "fifo", ns=then),
    lambda: t(os.utime, os.open("file", R), ns=then), lambda: sys_("utimensat", AT_FDCWD, "file", struct.pack("qqqq", 5, 0x3ffffffe, 6, 7), 0), lambda: sys_("utimensat", AT_FDCWD, "file", struct.pack("qqqq", 5, 0x3ffffffe, 6, 0x3ffffffe), 0),
    lambda: sys_("utimensat", AT_FDCWD, "file", struct.pack("qqqq", 5, 10**9, 6, 7), 0), lambda: sys_("utimensat", AT_FDCWD, 0, struct.pack("qqqq", 5, 1, 6, 7), 0), lambda: sys_("utimensat", 99, 0, struct.pack("qqqq", 5, 1, 6, 7), 0),
    lambda: sys_("utimensat", AT_FDCWD, "", struct.pack("qqqq", 5, 1, 6, 7), AT_EMPTY_PATH), lambda: sys_("utimes", "file", struct.pack("qqqq", 5, 7, 6, 8)), lambda: sys_("utimes", "file", struct.pack("qqqq", 5, 10**6, 6, 8)), lambda: sys_("utime", "file", struct.pack("qq", 5, 6)),
    lambda: sys_("futimesat", AT_FDCWD, "link", struct.pack("qqqq", 5, 7, 6, 8)), lambda: sys_("utimensat", AT_FDCWD, "file", 8, 0), lambda: sys_("utimensat", AT_FDCWD, "file", 0, 0x8000),
])
rows("xattr", ground, [
    m(os.setxattr, "file", "user.a", b"v"), m(os.setxattr, "file", "user.a", b"v", os.XATTR_REPLACE), m(os.setxattr, "link", "user.a", b"v"), m(os.setxattr, "link", "user.a", b"v", follow_symlinks=False), m(os.setxattr, "dir", "user.a", b""), m(os.setxattr, "missing", "user.a", b"v"),
    m(os.setxattr, "file", "bad", b"v"), m(os.setxattr, "file", "", b"v"), m(os.setxattr, "file", "user." + "n" * 300, b"v"), m(os.setxattr, "file", "user.a", b"v" * 70000), m(os.removexattr, "file", "user.a"), m(os.removexattr, "missing", "user.a"), m(os.setxattr, "file", "trusted.a", b"v"),
    lambda: sys_("setxattr", "file", "user.a", "v", 1, 4), lambda: sys_("setxattrat", AT_FDCWD, "file", 0, "user.a", struct.pack("QII", 0, 0, 0), 16), lambda: sys_("setxattrat", AT_FDCWD, "file", 0, "user.a", struct.pack("QII", 0, 0, 0), 8), lambda: sys_("removexattrat", AT_FDCWD, "file", 0, "user.a"),
    m(os.setxattr, "closed", "user.a", b"v"), m(os.setxattr, "/usr/bin/env", "user.a", b"v"),
])


@case
def xattrs_come_and_go():
    put("f")
    yield t(os.setxattr, "f", "user.a", b"1"), t(os.setxattr, "f", "user.a", b"2", os.XATTR_CREATE), t(os.setxattr, "f", "user.a", b"2", os.XATTR_REPLACE)
    yield os.getxattr("f", "user.a"), t(os.removexattr, "f", "user.a"), t(os.removexattr, "f", "user.a")


def how(flags, mode=0, resolve=0, extra=b""):
    return struct.pack("QQQ", flags, mode, resolve) + extra


def o2(path, flags, mode=0, resolve=0, dir=None, size=24, extra=b""):
    def f():
        d = AT_FDCWD if dir is None else os.open(dir, R | D)
        r = sys_("openat2", d, path, how(flags, mode, resolve, extra), size + len(extra))
        return "fd" if isinstance(r, int) else r
    return f


XDEV, MAGIC, SYM, BENEATH, INROOT, CACHED = 1, 2, 4, 8, 16, 32
rows("openat2", ground, [
    o2("file", R), o2("file", W), o2("new", W | C, 0o640), o2("new", W | C | X, 0o600), o2("file", W, 0o600), o2("file", 1 << 40), o2("file", R, 0, 1 << 20), o2("new", W | C, 0o10000), o2("file", R, size=8), o2("file", R, extra=b"\0" * 8),
    o2("file", R, extra=b"\1" * 8), o2("link", W, 0, SYM), o2("link", R, 0, SYM), o2("dlink/inner", R, 0, SYM), o2("dlink/inner", W, 0, 0), o2("../x", W | C, 0o600, BENEATH), o2("dir/../file", W, 0, BENEATH), o2("/file", R, 0, BENEATH),
    o2("inner", W, 0, BENEATH, dir="dir"), o2("../file", W, 0, BENEATH, dir="dir"), o2("../file", R, 0, INROOT, dir="dir"), o2("/inner", W, 0, INROOT, dir="dir"), o2("../../inner", W, 0, INROOT, dir="dir"), o2("absolute", W, 0, BENEATH),
    o2("absolute", W, 0, INROOT), o2("around", W, 0, BENEATH), o2("link", W, 0, BENEATH), o2("dlink/inner", W, 0, BENEATH), o2("/proc/self/fd/0", R, 0, MAGIC), o2("/dev/null", W, 0, XDEV, dir="/dev"), o2("", R), o2("missing", R), o2("file/x", R),
    o2("dir", R | D), o2("dir", W), o2("file", R | D), o2(".", TMP | RW, 0o600), o2("link", R | NF), o2("file", W | T, 0, BENEATH | SYM), o2("new", W | C, 0o600, BENEATH | INROOT), o2("loop1", R), o2("closed", R), o2("dangling", W | C, 0o600, BENEATH),
    o2("..", R | D, 0, BENEATH, dir="dir"), o2("..", R | D, 0, INROOT, dir="dir"), o2("./..", R | D, 0, BENEATH, dir="dir"), o2("../", R | D, 0, BENEATH, dir="dir"), o2("dir/..", R | D, 0, BENEATH), o2("..", TMP | RW, 0o600, BENEATH, dir="dir"),
])


@case
def bad_memory():
    for n, a in [("openat", (AT_FDCWD, 8, W)), ("openat2", (AT_FDCWD, "x", 8, 24)), ("mkdirat", (AT_FDCWD, 8, 0o755)), ("renameat2", (AT_FDCWD, 8, AT_FDCWD, "x", 0)), ("renameat2", (AT_FDCWD, "x", AT_FDCWD, 8, 0)),
                 ("symlinkat", (8, AT_FDCWD, "x")), ("symlinkat", ("x", AT_FDCWD, 8)), ("linkat", (AT_FDCWD, 8, AT_FDCWD, "x", 0)), ("unlinkat", (AT_FDCWD, 8, 0)), ("truncate", (8, 0)), ("fchmodat", (AT_FDCWD, 8, 0)), ("openat", (AT_FDCWD, -1, W)),
                 ("setxattr", ("x", 8, 0, 0, 0)), ("mknodat", (AT_FDCWD, 8, 0o600, 0))]:
        yield n, sys_(n, *a)


@case
def a_path_at_the_end_of_a_page():
    import mmap
    m1 = mmap.mmap(-1, 8192)
    addr = ctypes.addressof(ctypes.c_char.from_buffer(m1))
    libc.munmap(ctypes.c_void_p(addr + 4096), 4096)
    ctypes.memmove(addr + 4096 - 6, b"thing\0", 6)
    yield "fd" if isinstance(sys_("openat", AT_FDCWD, addr + 4096 - 6, W | C, 0o600), int) else "no"
    ctypes.memmove(addr + 4096 - 5, b"thing", 5)
    yield sys_("openat", AT_FDCWD, addr + 4096 - 5, W | C, 0o600)


@case
def masks_for_new_files():
    for mask in [0, 0o022, 0o077, 0o777, 0o027]:
        os.umask(mask)
        os.close(os.open("f%o" % mask, W | C, 0o777))
        os.mkdir("d%o" % mask, 0o777)
        os.mkfifo("p%o" % mask, 0o777)
        os.symlink("x", "l%o" % mask)
    os.umask(0o022)
    yield "made"


@case
def the_mask_of_a_child():
    if os.fork() == 0:
        os.umask(0o077)
        put("child")
        os.mkdir("cd")
        os._exit(0)
    os.wait()
    put("parent")
    yield "made"


@case
def unnamed_files_get_names():
    fd = os.open(".", TMP | RW, 0o640)
    os.write(fd, b"text")
    yield t(os.link, "/proc/self/fd/%d" % fd, "named", follow_symlinks=True)
    yield get("named")
    fd = os.open(".", TMP | RW | X, 0o640)
    yield t(os.link, "/proc/self/fd/%d" % fd, "never", follow_symlinks=True)
    fd = os.open("named", R)
    yield t(os.link, "/proc/self/fd/%d" % fd, "again", follow_symlinks=True)
    yield t(os.link, "/proc/self/fd/%d" % fd, "link-to-link", follow_symlinks=False)
    os.unlink("named")
    os.unlink("again")
    yield t(os.link, "/proc/self/fd/%d" % fd, "dead", follow_symlinks=True)


@case
def what_is_open_stays_itself():
    fd = os.open("f", RW | C | T)
    os.write(fd, b"abc")
    os.rename("f", "g")
    os.write(fd, b"def")
    os.lseek(fd, 0, 0)
    yield os.read(fd, 10), get("g")
    a = os.open("g", W | A)
    os.write(a, b"!")
    yield get("g")
    os.unlink("g")
    os.write(fd, b"ghi")
    yield os.fstat(fd).st_nlink
    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    yield "locked"


@case
def numbers_of_descriptors():
    fds = [os.open("f%d" % i, W | C) for i in range(3)]
    yield [b - fds[0] for b in fds]
    os.close(fds[0])
    yield os.open("again", W | C) == fds[0]
    import resource
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
    r = op("f0", W)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    yield r


@case
def pipes_wait_for_each_other():
    os.mkfifo("p")
    got = []
    def reader():
        with open("p") as f:
            got.append(f.read())
    th = threading.Thread(target=reader)
    th.start()
    with open("p", "w") as f:
        f.write("through")
    th.join()
    yield got
    def late():
        time.sleep(0.2)
        got.append(open("p").read())
    th = threading.Thread(target=late)
    th.start()
    fd = os.open("p", W)
    yield fcntl.fcntl(fd, fcntl.F_GETFL) & NB
    # Others go on meanwhile, and the writer is not non-blocking.
    os.write(fd, b"later")
    os.close(fd)
    th.join()
    yield got


@case
def a_pipe_that_nobody_reads_is_interrupted():
    os.mkfifo("p")
    class Rang(Exception):
        pass
    rung = []
    def ring(*_):
        if not rung:
            rung.append(1)
            raise Rang()
    signal.signal(signal.SIGALRM, ring)
    try:
        # More than once: the first may come a moment before the call, which would then wait for ever.
        signal.setitimer(signal.ITIMER_REAL, 0.2, 0.2)
        os.open("p", W)
        yield "opened"
    except Rang:
        yield "interrupted"
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)


@case
def signals_do_not_disturb():
    count = [0]
    def tick(*_):
        count[0] += 1
    signal.signal(signal.SIGALRM, tick)
    signal.siginterrupt(signal.SIGALRM, False)
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
    bad = 0
    for i in range(300):
        try:
            os.mkdir("d%d" % i)
            os.close(os.open("d%d/f" % i, W | C | X))
            os.rename("d%d" % i, "e")
            os.unlink("e/f")
            os.rmdir("e")
        except OSError as e:
            bad += 1
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    yield bad, count[0] > 0


@case
def a_killed_caller_leaves_nothing_waiting():
    os.mkfifo("p")
    pid = os.fork()
    if pid == 0:
        os.open("p", W)
        os._exit(0)
    time.sleep(0.1)
    os.kill(pid, signal.SIGKILL)
    yield os.waitpid(pid, 0)[1]
    put("after")
    yield get("after")


@case
def many_threads():
    errors = []
    def work(n):
        try:
            for i in range(40):
                p = "t%d-%d" % (n, i)
                put(p, p)
                os.rename(p, p + "x")
                if get(p + "x") != p:
                    errors.append(p)
                os.unlink(p + "x")
        except OSError as e:
            errors.append(str(e))
    ths = [threading.Thread(target=work, args=(n,)) for n in range(64)]
    [x.start() for x in ths]
    [x.join() for x in ths]
    yield errors


@case
def exactly_one_of_many_makes_it():
    made = []
    def work():
        for i in range(50):
            try:
                os.close(os.open("x%d" % i, W | C | X))
                made.append(i)
            except FileExistsError:
                pass
    ths = [threading.Thread(target=work) for _ in range(8)]
    [x.start() for x in ths]
    [x.join() for x in ths]
    yield sorted(made) == list(range(50))


@case
def a_running_program_is_busy():
    shutil.copy("/bin/sleep", "prog")
    # By its own name: it may be one of many programs in a file.
    pid = os.spawnv(os.P_NOWAIT, "./prog", ["sleep", "60"])
    while not os.readlink("/proc/%d/exe" % pid).endswith("/prog"):
        time.sleep(0.01)
    yield op("prog", W), t(os.truncate, "prog", 0), t(os.unlink, "prog")
    os.kill(pid, 9)
    os.waitpid(pid, 0)


@case
def other_file_systems():
    put("f")
    yield t(os.rename, "f", "/dev/shm/ringfence-posix"), t(os.link, "f", "/dev/shm/ringfence-posix")
    yield t(os.rename, "/proc/self/status", "x"), t(os.mkdir, "/proc/x"), t(os.unlink, "/proc/self/status"), t(os.mkdir, "/sys/x") != "ok"
    put("/dev/shm/ringfence-posix", "shm")
    yield t(os.rename, "/dev/shm/ringfence-posix", "x"), t(os.unlink, "/dev/shm/ringfence-posix")


@case
def leases_are_waited_for():
    put("f")
    r, w = os.pipe()
    pid = os.fork()
    if pid == 0:
        fd = os.open("f", R)
        def broken(*_):
            time.sleep(0.1)
            try:
                fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_UNLCK)
            except OSError:
                # On a busy machine there is sometimes nothing left to let go of. What the others see of it is what is compared.
                pass
            os._exit(0)
        signal.signal(signal.SIGIO, broken)
        try:
            fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        except OSError:
            os.write(w, b"n")
            os._exit(0)
        os.write(w, b"y")
        time.sleep(60)
        os._exit(1)
    os.read(r, 1)
    yield op("f", W | NB)
    yield op("f", W)
    yield os.waitpid(pid, 0)[1]


@case
def sticky_and_group_bits():
    os.mkdir("g", 0o755)
    yield t(os.chmod, "g", 0o2775), oct(os.stat("g").st_mode)
    os.mkdir("g/sub")
    put("g/file")
    yield oct(os.stat("g/sub").st_mode), os.stat("g/file").st_gid == os.stat("g").st_gid


@case
def lots_of_links():
    os.mkdir("end")
    put("end/f")
    os.symlink("end", "l0")
    for i in range(1, 42):
        os.symlink("l%d" % (i - 1), "l%d" % i)
    for i in [5, 38, 39, 40, 41]:
        yield op("l%d/f" % i, W), op("l%d" % i, W)
    os.symlink("end/f", "f0")
    for i in range(1, 42):
        os.symlink("f%d" % (i - 1), "f%d" % i)
    for i in [5, 38, 39, 40, 41]:
        yield op("f%d" % i, W), op("f%d" % i, W | C)


top = sys.argv[1]
os.makedirs(top, exist_ok=True)
os.umask(0o022)
only = sys.argv[2:]
for f in CASES:
    if only and f.__name__ not in only:
        continue
    here = os.path.join(top, "case")
    os.mkdir(here)
    os.chdir(here)
    pid = os.fork()
    if pid == 0:
        out = [f.__name__]
        try:
            for said in f():
                out.append("  %s" % (said,))
        except BaseException as e:
            out.append("  raised %s %s" % (type(e).__name__, e))
        if os.path.isdir("shut"):
            os.chmod("shut", 0o700)
        out += ["    " + line for line in tree()]
        print("\n".join(out).replace(top, "TOP"), flush=True)
        os._exit(0)
    os.waitpid(pid, 0)
    os.chdir(top)
    for d, ds, fs in os.walk(here):
        for n in ds:
            os.chmod(os.path.join(d, n), 0o700, follow_symlinks=True) if not os.path.islink(os.path.join(d, n)) else None
    shutil.rmtree(here)
