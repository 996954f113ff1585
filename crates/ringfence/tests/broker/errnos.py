# What the kernel says, inside as outside: each line is a call and what came of it.
import errno, os, stat

print("as root" if os.getuid() == 0 else "as a user")


def says(what, call):
    try:
        got = call()
        print(what, "works" if got is None or isinstance(got, int) else got)
    except OSError as error:
        print(what, errno.errorcode.get(error.errno, error.errno))


def rename(old, new, dir_fd=None):
    return lambda: os.rename(old, new, src_dir_fd=dir_fd, dst_dir_fd=dir_fd)


# The way to find out whether something is mounted on a directory (rustix-linux-procfs, and all of cap-std with it).
for place in ("/proc", "/proc/self", "/proc/self/fd", "/usr/bin"):
    fd = os.open(place, os.O_PATH | os.O_DIRECTORY)
    says("is mounted on " + place, rename("../.", ".", fd))
    says("the other way " + place, rename(".", "../.", fd))
says("rename of .", rename(".", "x"))
says("rename of ..", rename("..", "x"))
os.mkdir("dir")
says("rename to .", rename("dir", "."))
says("rename to ..", rename("dir", ".."))

open("file", "w").close()
for user, group in ((12345, -1), (-1, 12345), (0, 0) if os.getuid() else (12345, 12345)):
    says(f"chown {user} {group}", lambda: os.chown("file", user, group))
    says(f"lchown {user} {group}", lambda: os.lchown("file", user, group))
    with open("file") as file:
        says(f"fchown {user} {group}", lambda: os.fchown(file.fileno(), user, group))
says("chown of nothing", lambda: os.chown("missing", 12345, -1))
says("fchown to oneself", lambda: os.fchown(os.open("file", os.O_RDONLY), os.getuid(), os.getgid()))
says("fchown of a closed descriptor", lambda: os.fchown(777, os.getuid(), -1))
says("fchown of a pipe", lambda: os.fchown(os.pipe()[0], os.getuid(), -1))

for mode in (0o6755, 0o4755, 0o2755, 0o2745, 0o4644):
    with open("bits", "w") as file:
        file.write("0123456789")
    try:
        os.chmod("bits", mode)
        fd = os.open("bits", os.O_RDWR)
        os.write(fd, b"x")
        print("%o becomes %o" % (mode, stat.S_IMODE(os.stat("bits").st_mode)))
        os.close(fd)
    except OSError as error:
        print("%o" % mode, errno.errorcode[error.errno])
