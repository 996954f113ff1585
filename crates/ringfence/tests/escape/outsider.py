"""Somebody who has nothing to do with a session and runs beside it as the same user: with secrets in the environment, in
memory, in open files, in shared memory and in a keyring, and with services that whoever reaches them is told the secret by.

The first line of its input is what is wanted, its first line of output where it is found. Every further line is the path of
a socket to listen on from then on, and is answered. It ends with its input, or after a while.
"""

import array
import ctypes
import json
import os
import signal
import socket
import struct
import sys
import threading

signal.alarm(300)
libc = ctypes.CDLL(None, use_errno=True)
wanted = json.loads(sys.stdin.readline())
SECRET = wanted["secret"].encode()
heard = open(wanted["heard"], "ab", buffering=0)
# Where a kernel keeps tracing to parents and children, this one has nothing against it: what refuses must be the fence.
libc.prctl(0x59616D61, ctypes.c_ulong(-1), 0, 0, 0)

memory = ctypes.create_string_buffer(SECRET)
scratch = ctypes.create_string_buffer(b"scratch")
file = os.memfd_create("secret")
os.write(file, SECRET)
directory = os.open(wanted["directory"], os.O_RDONLY | os.O_DIRECTORY)


def serve(listener):
    """Tells everybody who connects, and hands over a directory where that is possible."""
    while True:
        peer, _ = listener.accept()
        heard.write(b"connected\n")
        rights = []
        if peer.family == socket.AF_UNIX:
            rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [directory]))]
        try:
            peer.sendmsg([SECRET], rights)
            peer.settimeout(5)
            heard.write(peer.recv(100) + b"\n")
        except OSError:
            pass
        peer.close()


def listen(family, address):
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.bind(address)
    listener.listen(64)
    threading.Thread(target=serve, args=[listener], daemon=True).start()
    return listener.getsockname()


def hear(family, address):
    """Datagrams: what arrives is written down and answered."""
    listener = socket.socket(family, socket.SOCK_DGRAM)
    listener.bind(address)

    def loop():
        while True:
            data, peer = listener.recvfrom(1000)
            heard.write(data + b"\n")
            try:
                listener.sendto(SECRET, peer)
            except (OSError, TypeError):
                pass

    threading.Thread(target=loop, daemon=True).start()
    return listener.getsockname()


def shared_memory():
    identity = libc.shmget(0, 4096, 0o1600)
    libc.shmat.restype = ctypes.c_void_p
    ctypes.memmove(libc.shmat(identity, None, 0), SECRET, len(SECRET))
    return identity


def messages():
    queue = libc.msgget(0, 0o1600)

    class Message(ctypes.Structure):
        _fields_ = [("kind", ctypes.c_long), ("text", ctypes.c_char * 100)]

    for _ in range(8):
        libc.msgsnd(queue, ctypes.byref(Message(1, SECRET)), 100, 0)
    return queue


def named_queue(name):
    sizes = struct.pack("8l", 0, 8, 256, 0, 0, 0, 0, 0)
    queue = libc.mq_open(name.encode(), os.O_CREAT | os.O_RDWR, 0o600, sizes)
    for _ in range(8):
        libc.mq_send(queue, SECRET, len(SECRET), 0)
    return name


def key(name):
    """In the keyring of the user, for a while."""
    number = libc.syscall(wanted["numbers"]["add_key"], b"user", name.encode(), SECRET, len(SECRET), -4)
    libc.syscall(wanted["numbers"]["keyctl"], 15, number, 300)
    return {"name": name, "number": number}


nonce = wanted["nonce"]


def abstract(kind, name):
    kind(socket.AF_UNIX, "\0" + name)
    return name


offers = {
    "pid": os.getpid,
    "address": lambda: ctypes.addressof(memory),
    "length": lambda: len(SECRET),
    "scratch": lambda: ctypes.addressof(scratch),
    "file": lambda: file,
    "tcp4": lambda: listen(socket.AF_INET, ("127.0.0.1", 0))[1],
    "tcp6": lambda: listen(socket.AF_INET6, ("::1", 0))[1],
    "udp4": lambda: hear(socket.AF_INET, ("127.0.0.1", 0))[1],
    "udp6": lambda: hear(socket.AF_INET6, ("::1", 0))[1],
    "abstract": lambda: abstract(listen, nonce),
    "abstract_datagrams": lambda: abstract(hear, "d" + nonce),
    "memory": shared_memory,
    "spare_memory": shared_memory,
    "messages": messages,
    "spare_messages": messages,
    "queue": lambda: named_queue("/" + nonce),
    "spare_queue": lambda: named_queue("/spare-" + nonce),
    "counter": lambda: libc.semget(0, 1, 0o1600),
    "key": lambda: key(nonce),
}
# What nobody asks for is not made: some of it is left behind if this is killed, and there is not much room for it.
found = {name: make() for name, make in offers.items() if name in wanted["offers"]}
for path in wanted["sockets"]:
    listen(socket.AF_UNIX, path)
for path in wanted["datagrams"]:
    hear(socket.AF_UNIX, path)
print(json.dumps(found), flush=True)
for path in sys.stdin:
    listen(socket.AF_UNIX, path.strip())
    print("listening", flush=True)
for name in {"memory", "spare_memory"} & found.keys():
    libc.shmctl(found[name], 0, None)
for name in {"messages", "spare_messages"} & found.keys():
    libc.msgctl(found[name], 0, None)
for name in {"queue", "spare_queue"} & found.keys():
    libc.mq_unlink(found[name].encode())
if "counter" in found:
    libc.semctl(found["counter"], 0, 0)
if "key" in found:
    libc.syscall(wanted["numbers"]["keyctl"], 21, found["key"]["number"])
