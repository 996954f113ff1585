"""Says things on a connection that no honest client says.

say.py http DIALLED PORT HOST..      requests on one connection, one for each host; all must be answered
say.py absolute DIALLED PORT HOST    a request whose target, not its Host, names a host
say.py tls DIALLED NAME HOST         TLS that names a host (or `-` for none), and a request in it
say.py pieces DIALLED NAME HOST      the same, its first words in many small records
say.py ask SERVER PROTOCOL NAME [KIND]
                                     asks a name server; prints the code, the address, and how many answers of another kind
say.py retry DIALLED PORT NAME [HEX] begins TLS with the dialled host's name, says these bytes, and begins again with this name, as
                                     a server asks for that wants another key
say.py late DIALLED NAME             asks for TLS in the middle of mail (STARTTLS), and names a host (or `-` for none)
say.py websocket DIALLED PATH HOST   offers WebSocket, and then sends a request for a host
say.py raw DIALLED PORT BYTES..      says these bytes, with escapes, and waits for an answer to each
say.py front BYTES                   says them to the proxy; prints the first line of its answer
"""

import socket
import ssl
import struct
import sys

how, dialled, *rest = sys.argv[1:]
# Longer than an answer takes on a busy machine, and than what counts as at once.
PATIENCE = 30


def request(host, target="/hello"):
    return f"GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()


def expect(read, host):
    answer = b""
    while b"hello " not in answer:
        data = read(9999)
        if not data:
            sys.exit(f"no answer for {host}: {answer}")
        answer += data


RETRY = bytes.fromhex("cf21ad74e59a6111be1d8c021e65b891c2a211167abb8c5e079e09e2c8a8339c")
# Some point of the curve, and where that is.
P384 = bytes.fromhex(
    "04aa87ca22be8b05378eb1c71ef320ad746e1d3b628ba79b9859f741e082542a385502f25dbf55296c3a545e3872760ab7"
    "3617de4a96262c6f5d9e98bf9292dc29f8f41dbd289a147ce9da3113b5f0b8c00a60b1ce1d7e819d7a431d7c90ea0e5f"
)


def hello(name, group, key):
    """A hello of TLS 1.3 with a key for one of two curves."""

    def counted(data):
        return struct.pack("!H", len(data)) + data

    entry = b"\0" + counted(name.encode())
    extensions = [
        (0, counted(entry)),
        (43, bytes([2, 3, 4])),
        (10, counted(struct.pack("!2H", 29, 24))),
        (13, counted(struct.pack("!2H", 0x0403, 0x0804))),
        (51, counted(struct.pack("!H", group) + counted(key))),
    ]
    extensions = b"".join(struct.pack("!H", kind) + counted(data) for kind, data in extensions)
    body = b"\3\3" + bytes(32) + b"\x20" + bytes(32) + counted(b"\x13\x01") + b"\1\0" + counted(extensions)
    return b"\x16\3\1" + counted(b"\1" + struct.pack("!L", len(body))[1:] + body)


class Pieces:
    """Sends one record of TLS as many."""

    def __init__(self, sock):
        self.sock, self.incoming, self.outgoing, self.first = sock, ssl.MemoryBIO(), ssl.MemoryBIO(), True

    def flush(self):
        data = self.outgoing.read()
        if self.first and data:
            self.first = False
            kind, body = data[:3], data[5:]
            for at in range(0, len(body), 7):
                part = body[at : at + 7]
                self.sock.sendall(kind + struct.pack("!H", len(part)) + part)
        else:
            self.sock.sendall(data)

    def do(self, action, *arguments):
        while True:
            try:
                result = action(*arguments)
                self.flush()
                return result
            except ssl.SSLWantReadError:
                self.flush()
                data = self.sock.recv(9999)
                if not data:
                    sys.exit("it ended")
                self.incoming.write(data)


if how in ("http", "absolute"):
    port, *hosts = rest
    s = socket.create_connection((dialled, int(port)), PATIENCE)
    for host in hosts:
        s.sendall(request(host) if how == "http" else request(dialled, f"http://{host}/hello"))
        expect(s.recv, host)
elif how in ("tls", "pieces"):
    name, host = rest
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    s = socket.create_connection((dialled, 443), PATIENCE)
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    name = None if name == "-" else name
    if how == "tls":
        t = context.wrap_socket(s, server_hostname=name)
        t.sendall(request(host))
        expect(t.recv, host)
    else:
        pieces = Pieces(s)
        t = context.wrap_bio(pieces.incoming, pieces.outgoing, server_hostname=name)
        pieces.do(t.do_handshake)
        pieces.do(t.write, request(host))
        expect(lambda most: pieces.do(t.read, most), host)
elif how == "retry":
    port, name, *between = rest
    s = socket.create_connection((dialled, int(port)), PATIENCE)
    s.sendall(hello(dialled, 29, bytes(range(1, 33))))
    answer = s.recv(9999)
    if answer[11:43] != RETRY:
        sys.exit(f"it does not want another key: {answer}")
    s.sendall(b"".join(map(bytes.fromhex, between)) + hello(name, 24, P384))
    answer = answer[5 + struct.unpack_from("!H", answer, 3)[0] :]
    while len(answer) < 60:
        data = s.recv(9999)
        if not data:
            sys.exit(f"it ended: {answer}")
        answer += data
    # It may say first that it changes its cipher.
    if answer[0] == 20:
        answer = answer[6:]
    if answer[0] != 22 or answer[5] != 2 or answer[11:43] == RETRY:
        sys.exit(f"no hello of the server: {answer}")
elif how == "late":
    (name,) = rest
    s = socket.create_connection((dialled, 2525), PATIENCE)
    for words, code in ((b"", b"220"), (b"EHLO x\r\n", b"500"), (b"STARTTLS\r\n", b"220")):
        s.sendall(words)
        if not s.recv(999).startswith(code):
            sys.exit("it does not turn to TLS")
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    t = context.wrap_socket(s, server_hostname=None if name == "-" else name)
    expect(lambda most: t.recv(most).replace(b"hello", b"hello "), name)
elif how == "websocket":
    path, host = rest
    s = socket.create_connection((dialled, 8081), PATIENCE)
    s.sendall(f"GET {path} HTTP/1.1\r\nHost: {dialled}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n".encode())
    answer = s.recv(9999)
    print(answer.split(b"\r\n")[0].decode())
    s.sendall(request(host))
    expect(s.recv, host) if path != "/ws" else print(s.recv(9999))
elif how == "raw":
    port, *parts = rest
    s = socket.create_connection((dialled, int(port)), PATIENCE)
    answers = b""
    for at, part in enumerate(parts):
        s.sendall(part.encode().decode("unicode_escape").encode("latin-1"))
        while answers.count(b"hello ") <= at:
            data = s.recv(9999)
            if not data:
                sys.exit(f"no answer for {part}: {answers}")
            answers += data
elif how == "front":
    s = socket.create_connection(("198.18.0.2", 1080), PATIENCE)
    s.sendall(dialled.encode().decode("unicode_escape").encode("latin-1"))
    print(s.recv(9999).split(b"\r\n")[0].decode("latin-1"))
else:
    protocol, name, *kind_of_answer = rest
    (kind_of_answer,) = kind_of_answer or [1]
    kind = socket.SOCK_STREAM if protocol == "tcp" else socket.SOCK_DGRAM
    s = socket.socket(socket.AF_INET6 if ":" in dialled else socket.AF_INET, kind)
    s.settimeout(PATIENCE)
    s.connect((dialled, 53))
    labels = b"".join(bytes([len(label)]) + label.encode() for label in name.split("."))
    query = struct.pack("!6H", 7, 0x100, 1, 0, 0, 0) + labels + b"\0" + struct.pack("!2H", int(kind_of_answer), 1)
    s.sendall(struct.pack("!H", len(query)) * (protocol == "tcp") + query)
    answer = s.recv(999)[2 * (protocol == "tcp") :]
    is_address = kind_of_answer == 1 and answer[7] > 0
    print(answer[3] & 15, *[socket.inet_ntoa(answer[-4:])] * is_address, *[answer[7]] * (kind_of_answer != 1))
