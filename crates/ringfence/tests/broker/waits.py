"""Calls that wait for another process: while hundreds of them do, other calls go on; and each ends as it would outside."""
import errno, fcntl, os, signal, socket, struct, sys, threading, time

MANY = 200
# A call that is not answered is a failure and no endless wait.
signal.alarm(100)


def at_once():
    """Writes, each of which needs the broker, while the others wait."""
    for n in range(20):
        with open(f"written{n}", "w") as file:
            file.write("x")
        os.unlink(f"written{n}")


def waiting(call):
    """So many threads in this call, with writes between; returns them and what they got."""
    results, threads = [], []

    def once():
        try:
            results.append(call())
        except OSError as error:
            results.append(error.errno)

    for n in range(MANY):
        thread = threading.Thread(target=once)
        thread.start()
        threads.append(thread)
        if n % 10 == 0:
            at_once()
    at_once()
    assert not results, results
    return threads, results


def ended(threads):
    for thread in threads:
        thread.join()


def connects(where):
    path = f"{where}/full"
    server = socket.socket(socket.AF_UNIX)
    server.bind(path)
    server.listen(0)
    first = socket.socket(socket.AF_UNIX)
    first.connect(path)

    def call():
        client = socket.socket(socket.AF_UNIX)
        client.connect(path)
        client.close()
        return "connected"

    threads, results = waiting(call)
    for _ in range(MANY + 1):
        server.accept()[0].close()
    ended(threads)
    assert results == ["connected"] * MANY, results
    # The caller's own time-out, and its signals.
    first.close()
    first = socket.socket(socket.AF_UNIX)
    first.connect(path)
    late = socket.socket(socket.AF_UNIX)
    late.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", 0, 200_000))
    began = time.monotonic()
    try:
        late.connect(path)
        raise AssertionError("connected")
    except OSError as error:
        assert error.errno == errno.EAGAIN, error
    assert 0.19 < time.monotonic() - began < 20, began
    assert not fcntl.fcntl(late, fcntl.F_GETFL) & os.O_NONBLOCK
    server.close()
    os.unlink(path)


def fifos(where):
    path = f"{where}/fifo"
    os.mkfifo(path)

    def call():
        end = os.open(path, os.O_WRONLY)
        assert not fcntl.fcntl(end, fcntl.F_GETFL) & os.O_NONBLOCK
        os.close(end)
        return "opened"

    threads, results = waiting(call)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    ended(threads)
    os.close(reader)
    os.unlink(path)
    assert results == ["opened"] * MANY, results


def leases(where):
    for call in (lambda path: os.close(os.open(path, os.O_WRONLY)) or "done", lambda path: os.truncate(path, 1) or "done"):
        path = f"{where}/leased"
        with open(path, "w") as file:
            file.write("xx")
        holder = os.open(path, os.O_RDONLY)
        signal.signal(signal.SIGIO, lambda *_: None)
        # A notification that the broker has not received yet is interrupted by a handler without SA_RESTART (docs/kernel-features.md).
        signal.siginterrupt(signal.SIGIO, False)
        try:
            fcntl.fcntl(holder, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        except OSError as error:
            print("no leases:", errno.errorcode[error.errno])
            return
        threads, results = waiting(lambda: call(path))
        fcntl.fcntl(holder, fcntl.F_SETLEASE, fcntl.F_UNLCK)
        ended(threads)
        os.close(holder)
        assert results == ["done"] * MANY, results


def killed(where):
    """Callers that are killed while they wait leave nothing behind."""
    path = f"{where}/full"
    server = socket.socket(socket.AF_UNIX)
    server.bind(path)
    server.listen(0)
    socket.socket(socket.AF_UNIX).connect(path)
    children = []
    for _ in range(MANY // 4):
        ready, tell = os.pipe()
        child = os.fork()
        if child == 0:
            os.write(tell, b"x")
            socket.socket(socket.AF_UNIX).connect(path)
            os._exit(1)
        os.close(tell)
        os.read(ready, 1)
        os.close(ready)
        children.append(child)
    at_once()
    for child in children:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    at_once()


os.mkdir("waits")
for part in (connects, fifos, leases, killed):
    part("waits")
print("each waited alone")
