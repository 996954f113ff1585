"""The servers of a little internet, or of the host beside it. Everything that arrives is written down.

servers.py internet DIR: names (UDP 53), HTTP, TLS, bytes that come back, bytes that never end.
servers.py host DIR:     services of the host's own loopback.

They end when their standard input does.
"""

import asyncio
import os
import socket
import ssl
import struct
import sys
import urllib.parse

ROLE, DIR = sys.argv[1:]
SITE = "93.184.216.34"
SITE6 = "2606:2800:220:1::34"
NOBODY6 = "2606:2800:220:1::dead"
SEEN = open(os.path.join(DIR, "seen-" + ROLE), "a", buffering=1)

# Where names lead. Those that are not here have a number in their zone's place, or do not exist.
NAMES = {
    "inner.example.com": ["10.1.2.3"],
    "meta.example.com": ["169.254.169.254"],
    "loop.example.com": ["127.0.0.1"],
    # The machine itself: by an address of its interface, and by one that only a route makes its own.
    "self.example.com": ["93.184.216.1"],
    "routed.example.com": ["93.184.217.9"],
    # The same places by names that no policy has.
    "priv.example.com": ["10.1.2.3"],
    "cloud.example.com": ["169.254.169.254"],
    "mapped.example.com": ["::ffff:10.1.2.3"],
    "half.example.com": ["10.1.2.3", SITE],
    # A route that says that nothing is there; no route at all; nothing that answers.
    "gone.example.com": ["93.184.219.9"],
    "nowhere.example.com": ["8.8.8.8"],
    "silent.example.com": [NOBODY6],
    # Nobody answers at the first.
    "late.example.com": [NOBODY6, SITE],
}
ZONES = (".example.com", ".example.org", ".example.net", "github.com", "evil.com")
asked = {}


def note(*words):
    print(*words, file=SEEN)


def addresses(name):
    if name == "rebind.example.com":
        # The first time it is harmless.
        asked[name] = asked.get(name, 0) + 1
        return [SITE] if asked[name] <= 2 else ["127.0.0.1"]
    if name in NAMES:
        return NAMES[name]
    return [SITE, SITE6] if name.endswith(ZONES) else None


def answer(query, is_stream):
    labels, at = [], 12
    while query[at]:
        labels.append(query[at + 1 : at + 1 + query[at]].decode())
        at += 1 + query[at]
    name, (kind,) = ".".join(labels).lower(), struct.unpack_from("!H", query, at + 1)
    note("name", name)
    found = addresses(name)
    # One that does not fit into a datagram.
    is_long = name == "long.example.com" and not is_stream
    records = []
    for text in [] if is_long else found or []:
        family = socket.AF_INET6 if ":" in text else socket.AF_INET
        if kind == (28 if ":" in text else 1):
            data = socket.inet_pton(family, text)
            records.append(b"\xc0\x0c" + struct.pack("!HHIH", kind, 1, 0, len(data)) + data)
    flags = (0x8180 if found else 0x8183) | 0x200 * is_long
    head = query[:2] + struct.pack("!5H", flags, 1, len(records), 0, 0)
    return head + query[12 : at + 5] + b"".join(records)


class Names(asyncio.DatagramProtocol):
    def connection_made(self, transport):
        self.transport = transport

    def datagram_received(self, query, peer):
        self.transport.sendto(answer(query, False), peer)


async def names(reader, writer):
    (length,) = struct.unpack("!H", await reader.readexactly(2))
    reply = answer(await reader.readexactly(length), True)
    writer.write(struct.pack("!H", len(reply)) + reply)
    await writer.drain()
    writer.close()


class Datagrams(asyncio.DatagramProtocol):
    def connection_made(self, transport):
        self.transport = transport

    def datagram_received(self, data, peer):
        note("udp", data)
        self.transport.sendto(data, peer)


def body_of(host, path):
    if path == "/hello":
        return b"hello " + host.encode() + b"\n"
    if path.startswith("/bytes/"):
        return b"x" * int(path[7:])
    file = os.path.normpath(os.path.join(DIR, "www", path.split("?")[0].lstrip("/")))
    if os.path.isdir(file):
        file = os.path.join(file, "index.html")
    return open(file, "rb").read() if os.path.isfile(file) else None


async def http(reader, writer):
    try:
        while True:
            # As many servers do, it passes over empty lines before a request.
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lstrip("\r\n")
            line, *fields = head.split("\r\n")
            host = next((f[5:].strip() for f in fields if f.lower().startswith("host:")), "")
            path = urllib.parse.unquote(line.split()[1])
            note("http", host, path)
            if path.startswith("http://"):
                host, _, path = path[7:].partition("/")
                path = "/" + path
            if path.startswith("/to/"):
                status, extra, body = "302 Found", f"Location: {path[4:]}\r\n", b""
            else:
                body = body_of(host, path)
                kind = "text/html" if path.endswith("/") else "application/octet-stream"
                status, extra = ("404 Not Found", "") if body is None else ("200 OK", f"Content-Type: {kind}\r\n")
            body = body or b""
            writer.write(f"HTTP/1.1 {status}\r\n{extra}Content-Length: {len(body)}\r\n\r\n".encode() + body)
            await writer.drain()
    except (asyncio.IncompleteReadError, OSError):
        pass
    finally:
        writer.close()


async def echo(reader, writer):
    """Sends back what it reads. It goes on after the other side has nothing more to say."""
    try:
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()


async def endless(reader, writer):
    try:
        await reader.readexactly(1)
        while True:
            writer.write(bytes(1 << 16))
            await writer.drain()
    except (asyncio.IncompleteReadError, OSError):
        pass
    finally:
        writer.close()


def speaks_first(greeting, end):
    """A server that greets before anything is said to it, and answers whatever then ends like that."""

    async def serve(reader, writer):
        try:
            writer.write(greeting)
            said = await reader.readuntil(end)
            writer.write(b"heard " + said)
            await writer.drain()
        except (asyncio.IncompleteReadError, OSError):
            pass
        finally:
            writer.close()

    return serve


def sni(_socket, name, _context):
    note("tls", name)


async def starttls(reader, writer):
    """Mail that turns to TLS when it is asked to."""
    try:
        writer.write(b"220 site.example.com\r\n")
        while (line := await reader.readuntil(b"\r\n")) != b"STARTTLS\r\n":
            writer.write(b"500 " + line)
        writer.write(b"220 go\r\n")
        await writer.drain()
        await writer.start_tls(TLS)
        writer.write(b"hello\n")
        await writer.drain()
    except (asyncio.IncompleteReadError, OSError):
        pass
    finally:
        writer.close()


async def websocket(reader, writer):
    """Agrees to WebSocket at /ws and to nothing else; then sends back what it reads."""
    try:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            note("websocket", head)
            if head.startswith("GET /ws ") and "\r\nUpgrade: websocket\r\n" in head:
                writer.write(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n")
                await echo(reader, writer)
                return
            writer.write(b"HTTP/1.1 426 Upgrade Required\r\nContent-Length: 6\r\n\r\nhello ")
    except (asyncio.IncompleteReadError, OSError):
        pass
    finally:
        writer.close()


async def secret(reader, writer):
    note("tcp", writer.get_extra_info("sockname")[:2])
    writer.write(b"secret of the host\n")
    writer.close()


async def main():
    global TLS
    loop = asyncio.get_running_loop()
    if ROLE == "internet":
        TLS = tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(os.path.join(DIR, "server.pem"), os.path.join(DIR, "server.key"))
        tls.sni_callback = sni
        # Clients offer a key for another curve first: each handshake has a second hello.
        tls.set_ecdh_curve("secp384r1")
        for port, serve, context in [
            (80, http, None), (443, http, tls), (8080, http, None), (8443, http, tls), (9000, http, None),
            (7, echo, None), (19, endless, None), (53, names, None), (25, speaks_first(b"220 site.example.com\r\n", b"\r\n"), None),
            (2525, starttls, None), (8081, websocket, None),
            (3306, speaks_first(b"\x4a\0\0\0\x0a8.0.36\0", b"\xff"), None),
        ]:
            await asyncio.start_server(serve, None, port, ssl=context, backlog=1024)
        await loop.create_datagram_endpoint(Names, local_addr=("0.0.0.0", 53))
        for port in (123, 443):
            # One socket for both families.
            await loop.create_datagram_endpoint(Datagrams, local_addr=("::", port))
    else:
        for port in (5432, 6379):
            for own in ("127.0.0.1", "::1"):
                await asyncio.start_server(secret, own, port)
        await asyncio.start_server(http, "127.0.0.1", 80)
        # Whatever address of the machine is dialled.
        await asyncio.start_server(secret, None, 8082)
        await loop.create_datagram_endpoint(Datagrams, local_addr=("127.0.0.1", 5353))
        listener = socket.socket(socket.AF_UNIX)
        listener.bind("\0ringfence-test")
        await asyncio.start_unix_server(secret, sock=listener)
    print("ready", flush=True)
    await loop.run_in_executor(None, sys.stdin.buffer.read)
    os._exit(0)


asyncio.run(main())
