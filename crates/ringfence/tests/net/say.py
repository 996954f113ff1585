"""Says things on a connection that no honest client says.

say.py http DIALLED PORT HOST..      requests on one connection, one for each host; all must be answered
say.py absolute DIALLED PORT HOST    a request whose target, not its Host, names a host
say.py tls DIALLED NAME HOST         TLS that names a host (or `-` for none), and a request in it
say.py pieces DIALLED NAME HOST      the same, its first words in many small records
say.py ask SERVER PROTOCOL NAME [KIND]
                                     asks a name server; prints the code, the address, and how many answers of another kind
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
