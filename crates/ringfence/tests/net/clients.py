"""Many clients at once: clients.py KIND COUNT [KIND COUNT]..

at-once: so many connections stand at the same time, each of which is used
short:   so many connections, some at a time, one request each
resets:  so many connections that break off in the middle
slow:    so many connections that ask for a stream without end and do not read; they stay
stalled: so many connections that read as fast as they can and then no more; they stay
held:    so many connections are tried; each is refused or works, at once; they end afterwards
"""

import asyncio
import socket
import struct
import sys

HOST = "site.example.com"


async def echo(reader, writer, words=b"\0seven"):
    writer.write(words)
    assert await reader.readexactly(len(words)) == words


async def at_once(count):
    streams = await asyncio.gather(*[asyncio.open_connection(HOST, 7) for _ in range(count)])
    for _ in range(3):
        await asyncio.gather(*[echo(*stream) for stream in streams])
    for _, writer in streams:
        writer.close()


async def short(count):
    async def some():
        for _ in range(count // 20):
            reader, writer = await asyncio.open_connection(HOST, 7)
            await echo(reader, writer)
            writer.close()

    await asyncio.gather(*[some() for _ in range(20)])


async def resets(count):
    for at in range(count):
        reader, writer = await asyncio.open_connection(HOST, (7, 19)[at % 2])
        writer.write(bytes(100_000) if at % 2 == 0 else b"\0")
        if at % 4 > 1:
            await reader.read(1)
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()


kept = []


async def slow(count):
    for _ in range(count):
        s = socket.create_connection((HOST, 19))
        s.send(b"\0")
        kept.append(s)
    # Long enough to fill whatever holds something.
    await asyncio.sleep(2)


async def stalled(count):
    for _ in range(count):
        s = socket.create_connection((HOST, 19))
        s.send(b"\0")
        s.settimeout(30)
        left = 1_000_000
        while left > 0:
            left -= len(s.recv(1 << 20)) or sys.exit("it ended")
        kept.append(s)
    await asyncio.sleep(0.5)


async def held(count):
    async def one():
        try:
            reader, writer = await asyncio.open_connection(HOST, 7)
            await echo(reader, writer)
            return reader, writer
        except (OSError, asyncio.IncompleteReadError):
            return None

    tried = []
    for _ in range(count):
        tried.append(await asyncio.wait_for(one(), 30))
    refused = tried.count(None)
    print("refused", refused, "of", count, flush=True)
    assert 0 < refused < count
    for reader, writer in filter(None, tried):
        writer.write_eof()
        # The end comes back through whoever carries it, who has let go of both sides then.
        assert await reader.read() == b""
        writer.close()


async def main():
    words = sys.argv[1:]
    for kind, count in zip(words[::2], words[1::2]):
        await asyncio.wait_for(globals()[kind.replace("-", "_")](int(count)), 280)


asyncio.run(main())
