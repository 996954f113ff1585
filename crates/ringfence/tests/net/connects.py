"""Connects in every way that programs have, and says how each ended.

connects.py HOST:PORT..   prints for each host what it came to; the ways and the addresses of a host must agree
connects.py wait HOST:PORT FILE
                          as many blocking calls as fit wait for a silent host, and a file is written meanwhile
"""

import asyncio
import errno
import select
import socket
import sys
import threading

# For a host that does not answer: shorter than any patience of ours.
SOON = 1


def word(number):
    return errno.errorcode.get(number, number) if number else "connected"


def blocking(family, address):
    s = socket.socket(family)
    # The kernel's own limit: the call itself still blocks.
    s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, SOON.to_bytes(8, sys.byteorder) + bytes(8))
    try:
        s.connect(address)
    except OSError as error:
        return "waits" if error.errno in (errno.EINPROGRESS, errno.EAGAIN) else word(error.errno)
    return word(0)


def later(family, address):
    s = socket.socket(family)
    s.setblocking(False)
    code = s.connect_ex(address)
    if code != errno.EINPROGRESS:
        return word(code)
    poll = select.poll()
    poll.register(s, select.POLLOUT)
    events = poll.poll(SOON * 1000)
    if not events:
        return "waits"
    return word(s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR))


def events(family, address):
    async def connect():
        s = socket.socket(family)
        s.setblocking(False)
        await asyncio.wait_for(asyncio.get_running_loop().sock_connect(s, address), SOON)

    try:
        asyncio.run(connect())
    except (asyncio.TimeoutError, TimeoutError) as error:
        return word(error.errno) if getattr(error, "errno", None) else "waits"
    except OSError as error:
        return word(error.errno)
    return word(0)


def fast_open(family, address):
    """The call that connects is one that sends."""
    s = socket.socket(family)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, SOON.to_bytes(8, sys.byteorder) + bytes(8))
    try:
        s.sendto(b"x", socket.MSG_FASTOPEN, address)
    except OSError as error:
        return "waits" if error.errno in (errno.EINPROGRESS, errno.EAGAIN) else word(error.errno)
    return word(0)


def each(where):
    host, port = where.rsplit(":", 1)
    found = socket.getaddrinfo(host, int(port), type=socket.SOCK_STREAM)
    ended = {way(family, address) for family, _, _, _, address in found for way in (blocking, later, events, fast_open)}
    print("connects:", where, *sorted(ended), flush=True)


def wait(where, file):
    host, port = where.rsplit(":", 1)
    family, _, _, _, address = socket.getaddrinfo(host, int(port), type=socket.SOCK_STREAM)[0]
    kept = [socket.socket(family) for _ in range(200)]
    for s in kept:
        threading.Thread(target=s.connect, args=(address,), daemon=True).start()
    for number in range(50):
        with open(file, "w") as out:
            out.write(str(number))
    print("written", flush=True)


if sys.argv[1] == "wait":
    wait(*sys.argv[2:])
else:
    for where in sys.argv[1:]:
        each(where)
