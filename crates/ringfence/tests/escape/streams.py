# What an agent may try with the standard streams that its caller handed to ringfence, each judged from outside.
# Arguments: the name of an attack, a directory to work in, the words of the fence as JSON (none: without a fence).
import fcntl, json, os, socket, subprocess, sys

NAME, DIR, FENCE = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
F_SETSIG, F_GETSIG, F_SETLEASE, F_GETLEASE = 10, 11, 1024, 1025
HEAD = "import ctypes, fcntl, os, socket, sys\n"


def inside(code, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL):
    command = FENCE + ["/usr/bin/python3", "-I", "-c", HEAD + code]
    done = subprocess.run(command, stdin=stdin, stdout=stdout, stderr=subprocess.PIPE, timeout=120)
    sys.stderr.buffer.write(done.stderr)
    # Without this a fence that never started would look as if it held.
    assert not FENCE or b"receipt kept as" in done.stderr, done.stderr


def file(content, flags=os.O_RDONLY):
    path = os.path.join(DIR, NAME)
    with open(path, "wb") as made:
        made.write(content)
    os.chmod(path, 0o666)
    return os.open(path, flags)


def shell(script, stdin):
    words = " ".join("'" + word.replace("'", "'\\''") + "'" for word in FENCE)
    script = script.replace("FENCE", words)
    if stdin == "pipe":
        done = subprocess.run(["bash"], input=script.encode(), capture_output=True, timeout=120)
    else:
        done = subprocess.run(["bash"], stdin=file(script.encode()), capture_output=True, timeout=120)
    sys.stderr.buffer.write(done.stderr)
    assert not FENCE or b"receipt kept as" in done.stderr, done.stderr
    return b"EVIL" in done.stdout


def a_pipe_is_written():
    code = "import os; os.write(os.open(\"/proc/self/fd/0\", os.O_WRONLY), b\"\\necho EVIL\\n\")"
    return shell("FENCE /usr/bin/python3 -I -c '" + code + "'\n", "pipe")


def an_offset_is_moved():
    code = "import os; os.lseek(0, -10, 2)"
    return shell("FENCE /usr/bin/python3 -I -c '" + code + "'\nexit 0\necho EVIL\n", "file")


def a_memfd_is_written():
    made = os.memfd_create("lent")
    os.write(made, b"old\n")
    lent = os.open(f"/proc/self/fd/{made}", os.O_RDONLY)
    inside("os.write(os.open('/proc/self/fd/0', os.O_RDWR), b'EVIL')", stdin=lent)
    return os.pread(made, 99, 0) != b"old\n"


def a_socket_leads_out():
    def server():
        made = socket.socket()
        made.bind(("127.0.0.1", 0))
        made.listen()
        return made

    caller, other = server(), server()
    mine = socket.create_connection(caller.getsockname())
    lent, _ = caller.accept()
    port = other.getsockname()[1]
    inside(
        f"""
ctypes.CDLL(None).connect(0, b'\\0' * 16, 16)
socket.socket(fileno=os.dup(0)).connect(('127.0.0.1', {port}))
""",
        stdin=lent,
    )
    other.settimeout(0.2)
    try:
        other.accept()
        return True
    except socket.timeout:
        return False
    finally:
        mine.close()


def a_pipe_becomes_non_blocking():
    reader, writer = os.pipe()
    inside("fcntl.fcntl(1, fcntl.F_SETFL, os.O_NONBLOCK)", stdout=writer)
    return not os.get_blocking(writer)


def a_socket_becomes_non_blocking():
    mine, lent = socket.socketpair()
    inside("fcntl.ioctl(0, 0x5421, (1).to_bytes(4, 'little'))", stdin=lent)
    return not os.get_blocking(lent.fileno())


def a_pipe_is_resized():
    reader, writer = os.pipe()
    before = fcntl.fcntl(writer, fcntl.F_GETPIPE_SZ)
    inside("fcntl.fcntl(1, fcntl.F_SETPIPE_SZ, 4096)", stdout=writer)
    return fcntl.fcntl(writer, fcntl.F_GETPIPE_SZ) != before


def the_caller_is_signalled():
    reader, writer = os.pipe()
    inside("fcntl.fcntl(0, 10, 10); fcntl.fcntl(0, fcntl.F_SETOWN, os.getppid())", stdin=reader)
    return (fcntl.fcntl(reader, F_GETSIG), fcntl.fcntl(reader, fcntl.F_GETOWN)) != (0, 0)


def a_lease_is_left():
    lent = file(b"x")
    inside("fcntl.fcntl(0, 1024, fcntl.F_RDLCK)", stdin=lent)
    return fcntl.fcntl(lent, F_GETLEASE) != fcntl.F_UNLCK


def a_lock_is_left():
    lent, own = file(b"x"), os.open(os.path.join(DIR, NAME), os.O_RDONLY)
    inside("fcntl.flock(0, fcntl.LOCK_EX | fcntl.LOCK_NB)", stdin=lent)
    try:
        fcntl.flock(own, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return False
    except BlockingIOError:
        return True


def a_file_is_emptied():
    lent = file(b"old\n", os.O_WRONLY | os.O_APPEND)
    inside("os.ftruncate(1, 0)", stdout=lent)
    return os.fstat(lent).st_size == 0


print("through" if globals()[NAME]() else "held")
