"""Acts as git that replaces a protected file, and tries to change what was judged before it is in place."""

import mmap
import os
import threading
import time

PATH = ".github/workflows/ci.yml"
KNOWN = [b"main\n", b"dev\n"]
os.close(os.open(".git/index.lock", os.O_CREAT | os.O_EXCL | os.O_WRONLY))
seen, stop = set(), threading.Event()


def watch():
    while not stop.is_set():
        try:
            with open(PATH, "rb") as file:
                seen.add(file.read())
        except FileNotFoundError:
            pass
        time.sleep(0.0005)


def make():
    while True:
        # What lost a race is refused, and the version before comes back once nothing writes any more.
        try:
            os.unlink(PATH)
        except FileNotFoundError:
            pass
        try:
            return os.open(PATH, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o666)
        except FileExistsError:
            pass


def another_descriptor(fd):
    other = os.open(f"/proc/self/fd/{fd}", os.O_RDWR)
    close(fd)
    os.pwrite(other, b"evil\n", 0)
    os.close(other)


def a_copy_in_a_child(fd):
    ready, go = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(go)
        os.read(ready, 1)
        os.pwrite(fd, b"evil\n", 0)
        os._exit(0)
    close(fd)
    os.close(ready)
    os.close(go)
    os.waitpid(child, 0)


def a_mapping(fd):
    shared = mmap.mmap(fd, 4)
    close(fd)
    shared[0:4] = b"EVIL"


def a_thread(fd):
    def write():
        for _ in range(200):
            os.pwrite(other, b"evi\n", 0)
            os.pwrite(other, b"dev\n", 0)

    other = os.open(f"/proc/self/fd/{fd}", os.O_RDWR)
    thread = threading.Thread(target=write)
    thread.start()
    close(fd)
    thread.join()
    os.close(other)


def a_second_name(fd):
    for name in ["alias", ".vscode/tasks.json"]:
        try:
            os.link(f"/proc/self/fd/{fd}", name, follow_symlinks=True)
            raise SystemExit(f"{name} is a second name")
        except OSError:
            pass
    close(fd)


def a_move(fd):
    for old, new in [(".github", "moved"), (".github/workflows", "moved"), (PATH, "moved")]:
        try:
            os.rename(old, new)
            raise SystemExit(f"{old} was moved")
        except OSError:
            pass
    close(fd)


def close(fd):
    try:
        os.close(fd)
    except OSError:
        pass


def main():
    watcher = threading.Thread(target=watch)
    watcher.start()
    for attack in [another_descriptor, a_copy_in_a_child, a_mapping, a_thread, a_second_name, a_move]:
        for _ in range(3):
            fd = make()
            os.write(fd, b"dev\n")
            attack(fd)
    stop.set()
    watcher.join()
    evil = [text for text in seen if text not in KNOWN]
    assert not evil, evil
    with open(PATH, "rb") as file:
        text = file.read()
    assert text in KNOWN, text
    assert os.stat(PATH).st_nlink == 1
    os.unlink(".git/index.lock")
    print("rounds done")


main()
