# Something is made in `x`, again and again, and then `x` is something else.
import os

PLAIN = os.O_WRONLY | os.O_CREAT


def make(path):
    os.close(os.open(path, PLAIN, 0o644))


def refused(path):
    try:
        make(path)
    except PermissionError:
        return True
    print("WRONG", path, flush=True)
    return False


def warm(*names):
    for name in names:
        make("x/" + name)


os.mkdir("x")
warm("a", "b", "c")
# It is there under another name, and a link has its own.
os.rename("x", ".cargo")
os.symlink(".cargo", "x")
held = refused("x/config.toml") and refused(".cargo/config.toml")
warm("d")
assert os.path.exists(".cargo/d")
# Another directory has its name.
os.unlink("x")
os.makedirs("y/.cargo")
os.rename("y", "x")
warm("e")
assert os.path.exists("x/e") and not os.path.exists(".cargo/e")
held = held and refused("x/.cargo/config.toml")
# The same words, from somewhere else.
os.makedirs("far/x")
os.chdir("far")
warm("f")
assert os.listdir("x") == ["f"]
os.chdir("..")
# It has gone while it was held.
for name in os.listdir("far/x"):
    os.unlink("far/x/" + name)
os.chdir("far")
os.rmdir("x")
try:
    warm("g")
    print("WRONG: what is gone was written to", flush=True)
    held = False
except FileNotFoundError:
    pass
os.chdir("..")
# The same words lead to the working directory itself, which is the caller's.
os.makedirs("m/l")
os.mkdir("n")
os.symlink("/proc/thread-self/cwd", "n/l")
os.chdir("m")
for name in "123":
    make("l/" + name)
os.chdir("../n")
make("l/4")
if sorted(os.listdir(".")) != ["4", "l"]:
    print("WRONG: it landed elsewhere", os.listdir("../m/l"), flush=True)
    held = False
if held:
    print("all is held")
