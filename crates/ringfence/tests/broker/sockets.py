"""Unix sockets by path, inside: what is made here works as without a broker, what is not cannot be reached."""
import asyncio, ctypes, errno, multiprocessing.connection, os, signal, socket, stat, sys, tempfile, threading, time

STREAM, DGRAM, SEQPACKET = socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_SEQPACKET


def fails(expected, call, *arguments):
    try:
        call(*arguments)
    except OSError as error:
        assert error.errno == expected, (errno.errorcode[error.errno], errno.errorcode[expected], arguments)
        return
    raise AssertionError(("succeeds", arguments))


def unix(kind=STREAM):
    return socket.socket(socket.AF_UNIX, kind)


def listening(path, kind=STREAM, backlog=100):
    server = unix(kind)
    server.bind(path)
    server.listen(backlog)
    return server


def connected(path, kind=STREAM):
    client = unix(kind)
    client.connect(path)
    return client


def streams(where):
    for kind in (STREAM, SEQPACKET):
        path = f"{where}/s{int(kind)}"
        server = listening(path, kind)
        assert server.getsockname() == path
        client = connected(path, kind)
        assert client.getpeername() == path
        peer, _ = server.accept()
        client.send(b"ping")
        assert peer.recv(4) == b"ping"
        credentials = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        assert int.from_bytes(credentials[4:8], sys.byteorder) == os.getuid()
        fails(errno.EADDRINUSE, unix(kind).bind, path)
        fails(errno.EINVAL, server.bind, path + "x")
        fails(errno.EISCONN, client.connect, path)
        server.close()
        fails(errno.ECONNREFUSED, connected, path, kind)
        os.unlink(path)
        fails(errno.ENOENT, connected, path, kind)


def spelled(where):
    os.makedirs("d/e", exist_ok=True)
    server = listening("d/e/rel")
    assert server.getsockname() == "d/e/rel"
    os.symlink("d/e/rel", "lead")
    os.symlink("d", "dl")
    handle = os.open("d", os.O_RDONLY)
    for path in ("d/e/rel", "lead", "dl/e/rel", os.path.abspath("d/../d/e/rel"), f"/proc/self/fd/{handle}/e/rel", "/proc/self/cwd/lead"):
        assert connected(path).getpeername() == "d/e/rel", path
    os.chdir("d")
    assert connected("e/rel").getpeername() == "d/e/rel"
    other = listening("here")
    os.chdir("..")
    connected("d/here")
    assert other.getsockname() == "here"
    # A name of its own is still what it is.
    os.rename("d/here", "moved")
    connected("moved")
    os.link("moved", "second")
    connected("second")
    fails(errno.ENOTDIR, connected, "d/e/rel/x")
    fails(errno.ENOENT, unix().bind, "no/such")
    open("plain", "w").close()
    fails(errno.ECONNREFUSED, connected, "plain")
    fails(errno.EADDRINUSE, unix().bind, "plain")
    fails(errno.EADDRINUSE, unix().bind, "lead")
    for name in ("lead", "dl", "moved", "second", "plain", "d/e/rel"):
        os.unlink(name)


def modes(where):
    for mask, expected in ((0o077, 0o700), (0o022, 0o755), (0, 0o777)):
        before = os.umask(mask)
        server = listening("mode")
        os.umask(before)
        assert stat.S_IMODE(os.stat("mode").st_mode) == expected, oct(mask)
        os.unlink("mode")


def datagrams(where):
    a, b = unix(DGRAM), unix(DGRAM)
    a.bind("da"), b.bind("db")
    b.connect("da")
    b.send(b"one")
    assert a.recvfrom(9) == (b"one", "db")
    a.sendto(b"two", "db")
    assert b.recv(9) == b"two"
    os.unlink("da"), os.unlink("db")
    libc = ctypes.CDLL(None, use_errno=True)
    # Whoever is connected no longer is.
    assert libc.connect(b.fileno(), b"\0\0" + bytes(14), 16) == 0


def waiting(where):
    server = listening("full", backlog=0)
    clients = []
    nonblocking = unix()
    nonblocking.setblocking(False)
    while True:
        one = unix()
        one.setblocking(False)
        try:
            one.connect("full")
        except BlockingIOError as error:
            assert error.errno == errno.EAGAIN
            break
        clients.append(one)
    # It waits, and others go on.
    done = []
    thread = threading.Thread(target=lambda: done.append(connected("full")))
    thread.start()
    open("others-go-on", "w").close()
    assert not done
    server.accept()
    thread.join(30)
    assert done
    # A signal ends the wait.
    class Rung(Exception):
        pass
    rung = []
    def ring(*_):
        if not rung:
            rung.append(1)
            raise Rung
    signal.signal(signal.SIGALRM, ring)
    try:
        # More than once: the first may come a moment before the call, which would then wait for ever.
        signal.setitimer(signal.ITIMER_REAL, 0.2, 0.2)
        connected("full")
        raise AssertionError("nobody accepts")
    except Rung:
        pass
    signal.setitimer(signal.ITIMER_REAL, 0)
    # And so does the time that was set.
    timed = unix()
    timed.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, (0).to_bytes(8, sys.byteorder) + (150_000).to_bytes(8, sys.byteorder))
    fails(errno.EAGAIN, timed.connect, "full")
    os.unlink("full"), os.unlink("others-go-on")


def others(where):
    # Outside these names are everybody's.
    name = "\0ringfence-" + os.urandom(8).hex()
    abstract = listening(name)
    connected(name)
    auto = unix()
    auto.bind("")
    assert auto.getsockname()[:1] == b"\0"
    for family, address in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
        try:
            server = socket.socket(family, STREAM)
            server.bind((address, 0))
        except OSError as error:
            # Not every host has this one, and whoever compares sees that it is said.
            if family != socket.AF_INET6 or error.errno not in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
                raise
            print("no ::1")
            continue
        server.listen()
        client = socket.create_connection((address, server.getsockname()[1]))
        client.sendall(b"x")
        peer, _ = server.accept()
        assert peer.recv(1) == b"x"
        server.close()
        fails(errno.ECONNREFUSED, socket.create_connection, (address, server_port(client)))
    datagram = socket.socket(socket.AF_INET, DGRAM)
    datagram.connect(("127.0.0.1", 9))
    assert datagram.getpeername() == ("127.0.0.1", 9)
    libc = ctypes.CDLL(None, use_errno=True)
    for call in (libc.connect, libc.bind):
        for fd, address, length, expected in (
            (999, b"\1\0x", 3, errno.EBADF), (0, b"\1\0x", 3, errno.ENOTSOCK), (unix().detach(), None, 10, errno.EFAULT),
            (unix().detach(), b"\1\0" + b"x" * 120, 122, errno.EINVAL), (unix().detach(), b"\1\0x", -1, errno.EINVAL),
            (unix().detach(), b"\1\0x", 200, errno.EINVAL), (unix().detach(), b"\2\0" + bytes(14), 16, errno.EINVAL),
        ):
            ctypes.set_errno(0)
            assert call(fd, address, length) == -1 and ctypes.get_errno() == expected, (call, fd, length, ctypes.get_errno())


def server_port(client):
    return client.getpeername()[1]


def libraries(where):
    with multiprocessing.connection.Listener(family="AF_UNIX") as listener:
        client = multiprocessing.connection.Client(listener.address)
        listener.accept().send("hello")
        assert client.recv() == "hello"

    async def serve():
        async def answer(reader, writer):
            writer.write(await reader.readline())
            await writer.drain()
            writer.close()
        server = await asyncio.start_unix_server(answer, f"{where}/asyncio")
        reader, writer = await asyncio.open_unix_connection(f"{where}/asyncio")
        writer.write(b"line\n")
        assert await reader.readline() == b"line\n"
        writer.close()
        server.close()
    asyncio.run(serve())
    assert socket.if_nameindex()


def works():
    for where in (tempfile.mkdtemp(), os.getcwd()):
        for case in (streams, spelled, modes, datagrams, waiting, others, libraries):
            try:
                case(where)
            except Exception as error:
                raise AssertionError((case.__name__, where)) from error
    print("works")


def refused():
    """What is not made here, by every name."""
    listening("ours")
    for path in ("host", os.path.abspath("host"), "in/../host", "/proc/self/cwd/host"):
        fails(errno.EACCES, connected, path)
        fails(errno.EACCES, connected, path, SEQPACKET)
        fails(errno.EACCES, connected, path, DGRAM)
    os.symlink("host", "to-host")
    fails(errno.EACCES, connected, "to-host")
    os.link("host", "also-host")
    fails(errno.EACCES, connected, "also-host")
    os.rename("also-host", "ours")
    fails(errno.EACCES, connected, "ours")
    handle = os.open("host", os.O_PATH)
    fails(errno.EACCES, connected, f"/proc/self/fd/{handle}")
    fails(errno.EACCES, unix().bind, ".envrc")
    fails(errno.EACCES, unix().bind, "sub/../.envrc")
    os.unlink("ours")
    print("refused")


def raced():
    """One thread connects, others change what it names and what it is called with."""
    listening_here = listening("own", backlog=100)
    os.makedirs("ra", exist_ok=True), os.makedirs("rb", exist_ok=True)
    os.symlink("../own", "ra/s"), os.symlink("../host", "rb/s")
    libc = ctypes.CDLL(None, use_errno=True)
    address = ctypes.create_string_buffer(b"\1\0own\0\0", 7)
    # So long, and until it was tried often enough: on a busy machine that takes longer.
    least, most, over = time.monotonic() + 4, time.monotonic() + 90, threading.Event()
    socket_pair = [unix(), unix()]
    number = os.dup(socket_pair[0].fileno())

    def rewrite():
        names = (b"\1\0own\0\0", b"\1\0host\0")
        while not over.is_set():
            for name in names:
                ctypes.memmove(address, name, 7)

    def swap_numbers():
        tcp = socket.socket()
        while not over.is_set():
            os.dup2(tcp.fileno(), number)
            fresh = unix()
            os.dup2(fresh.fileno(), number)
            fresh.close()

    def swap_links():
        while not over.is_set():
            os.rename("ra", "rc"), os.rename("rb", "ra"), os.rename("rc", "rb")

    def accept():
        listening_here.settimeout(0.2)
        while not over.is_set():
            try:
                listening_here.accept()[0].close()
            except TimeoutError:
                pass

    threads = [threading.Thread(target=one) for one in (rewrite, swap_numbers, swap_links, accept)]
    [thread.start() for thread in threads]
    attempts = 0
    while time.monotonic() < least or (attempts <= 100 and time.monotonic() < most):
        libc.connect(number, address, 7)
        one = unix()
        libc.connect(one.fileno(), address, 7)
        other = unix()
        try:
            other.connect("ra/s")
        except OSError:
            pass
        one.close(), other.close()
        attempts += 3
    over.set()
    [thread.join() for thread in threads]
    print("raced", attempts > 100)


{"works": works, "refused": refused, "raced": raced}[sys.argv[1]]()
