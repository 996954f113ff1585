# Threads that change what a call is about while it is carried out: the bytes of the path, links, directories. Whatever comes of
# it, nothing may land on a protected name. Arguments: how many attempts, and for how many seconds at most.
import ctypes, os, sys, threading, time, random

attempts, limit = int(sys.argv[1]), float(sys.argv[2])
libc = ctypes.CDLL(None, use_errno=True)
libc.open.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_int]
libc.mkdir.argtypes = [ctypes.c_void_p, ctypes.c_int]
libc.rename.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
libc.link.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
libc.symlink.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
over = threading.Event()
started = time.monotonic()
done = [0]
FORBIDDEN = [".envrc", ".vscode", "a.git/hooks", "a.git/config", ".env", "deep/.envrc", "b.git/hooks", "b.git/config"]


def quiet(f, *a):
    try:
        return f(*a)
    except OSError:
        return None


# Settings that name no program may be written.
def is_harmless(name):
    fd = quiet(os.open, name, os.O_RDONLY)
    if fd is None:
        return True
    text = os.read(fd, 100)
    os.close(fd)
    return b"pager" not in text


def write_settings(path):
    fd = quiet(os.open, path, os.O_WRONLY | os.O_CREAT, 0o600)
    if fd is not None:
        os.write(fd, b"[core]\n\tpager = x\n")
        quiet(os.close, fd)


def check():
    for name in FORBIDDEN:
        if os.path.lexists(name) and not (name.endswith("config") and is_harmless(name)):
            print("LANDED", name, flush=True)
            os._exit(3)


def flips(good, bad):
    "A path whose bytes change while it is used."
    assert len(good) == len(bad)
    buffer = ctypes.create_string_buffer(good, 64)
    address = ctypes.addressof(buffer)
    def flip():
        while not over.is_set():
            ctypes.memmove(address, bad, len(bad))
            ctypes.memmove(address, good, len(good))
    threading.Thread(target=flip, daemon=True).start()
    return ctypes.c_void_p(address), buffer


def counted(body):
    def run():
        while not over.is_set():
            body()
            done[0] += 1
            if done[0] >= attempts or time.monotonic() - started > limit:
                over.set()
    return threading.Thread(target=run, daemon=True)


os.mkdir("deep")
os.mkdir("plain")
os.mkdir("a.git")
workers = []
p1, k1 = flips(b"xenvrc", b".envrc")
p2, k2 = flips(b"xvscode", b".vscode")
p3, k3 = flips(b"a.git/xooks", b"a.git/hooks")
source = ctypes.create_string_buffer(b"source")
open("source", "w").close()
ps = ctypes.c_void_p(ctypes.addressof(source))


def by_memory():
    fd = libc.open(p1, os.O_WRONLY | os.O_CREAT, 0o600)
    if fd >= 0:
        os.close(fd)
    quiet(os.unlink, "xenvrc")
    libc.mkdir(p2, 0o700)
    quiet(os.rmdir, "xvscode")
    libc.mkdir(p3, 0o700)
    quiet(os.rmdir, "a.git/xooks")
    libc.link(ps, p1)
    quiet(os.unlink, "xenvrc")
    libc.symlink(ps, p1)
    quiet(os.unlink, "xenvrc")


def by_rename_of_memory():
    fd = quiet(os.open, "r%d" % threading.get_ident(), os.O_WRONLY | os.O_CREAT, 0o600)
    if fd is not None:
        os.close(fd)
    name = ctypes.create_string_buffer(b"r%d" % threading.get_ident())
    libc.rename(ctypes.c_void_p(ctypes.addressof(name)), p1)
    quiet(os.unlink, "xenvrc")


# A directory of a changing name: what is made in it may be made while it is `b.git`.
def by_moved_directory():
    quiet(os.mkdir, "c")
    write_settings("c/config")
    quiet(os.mkdir, "c/hooks")
    write_settings("b.git/config")
    quiet(os.unlink, "c/config")
    quiet(os.rmdir, "c/hooks")


def moving():
    while not over.is_set():
        quiet(os.rename, "c", "b.git")
        quiet(os.rename, "b.git", "c")
        check()


# A link that leads here and there.
def by_link():
    quiet(os.close, quiet(os.open, "via/.envrc", os.O_WRONLY | os.O_CREAT, 0o600) or -1)
    quiet(os.unlink, "../outside/.envrc")
    quiet(os.close, quiet(os.open, "final", os.O_WRONLY | os.O_CREAT, 0o600) or -1)


def linking():
    n = 0
    while not over.is_set():
        n += 1
        quiet(os.symlink, "deep" if n % 2 else "node_modules", "via.new")
        quiet(os.rename, "via.new", "via")
        quiet(os.symlink, ".envrc" if n % 2 else "plain/ok", "final.new")
        quiet(os.rename, "final.new", "final")
        check()


# A directory that is swapped with a link.
def by_swap():
    quiet(os.close, quiet(os.open, "swap/.envrc", os.O_WRONLY | os.O_CREAT, 0o600) or -1)
    quiet(os.mkdir, "swap/hooks")
    quiet(os.rmdir, "swap/hooks")


def swapping():
    while not over.is_set():
        quiet(os.mkdir, "swap")
        quiet(os.rmdir, "swap")
        quiet(os.symlink, "a.git", "swap")
        check()
        quiet(os.unlink, "swap")


os.mkdir("node_modules")
for body in [by_memory, by_memory, by_rename_of_memory, by_moved_directory, by_moved_directory, by_link, by_swap]:
    workers.append(counted(body))
for body in [moving, linking, swapping]:
    workers.append(threading.Thread(target=body, daemon=True))
[w.start() for w in workers]
[w.join(limit + 30) for w in workers]
check()
print("attempts", done[0], "seconds %.1f" % (time.monotonic() - started), flush=True)
