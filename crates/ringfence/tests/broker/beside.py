# Two sessions in one project: one moves a directory with many names to a name that rules begin with, while the other makes in it what
# they protect there; one makes part of a repository while the other makes the rest. Arguments: the part that is played, and for how
# many seconds.
import os, sys, time

part, seconds = sys.argv[1], float(sys.argv[2])


def landed(what):
    make("done")
    print("LANDED", what, flush=True)
    sys.exit(3)


def moves():
    quiet(os.mkdir, "x")
    for number in range(2000):
        make("x/%d" % number)
    turns = 0
    while time.monotonic() < end:
        turns += 1
        quiet(os.rename, "x", ".cargo")
        if os.path.lexists(".cargo/config.toml"):
            landed(".cargo/config.toml")
        quiet(os.rename, ".cargo", "x")
    return turns


def makes():
    turns = 0
    while time.monotonic() < end and not os.path.exists("done"):
        turns += 1
        make("x/config.toml")
        quiet(os.unlink, "x/config.toml")
    return turns


def plants(own, others):
    turns = 0
    while time.monotonic() < end and not os.path.exists("done"):
        turns += 1
        quiet(os.mkdir, "repository")
        for name in own:
            put("repository/" + name)
        # What is one's own stays as long as it is looked at.
        if others and all(os.path.lexists("repository/" + name) for name in own + others):
            landed("repository")
        for name in own:
            quiet(os.unlink if name == "HEAD" else os.rmdir, "repository/" + name)
        quiet(os.rmdir, "repository")
    return turns


def put(path):
    if not path.endswith("HEAD"):
        quiet(os.mkdir, path)
        return
    fd = quiet(os.open, path, os.O_CREAT | os.O_WRONLY, 0o600)
    if fd is not None:
        os.write(fd, b"ref: refs/heads/main\n")
        quiet(os.close, fd)


# A session does not start where everything moves about: the first waits for the second.
if part in ("moves", "plants"):
    print(os.environ["RINGFENCE_SESSION"], flush=True)
    patience = time.monotonic() + 60
    while not os.path.exists("go") and time.monotonic() < patience:
        time.sleep(0.01)
else:
    make("go")
end = time.monotonic() + seconds
turns = {
    "moves": moves,
    "makes": makes,
    "plants": lambda: plants(["objects", "refs", "HEAD"], ["hooks"]),
    "hooks": lambda: plants(["hooks"], []),
}[part]()
print("over after", turns, flush=True)
# A call ends with its session: whoever plays both parts says when this may be.
sys.stdin.read()
