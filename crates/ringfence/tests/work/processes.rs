//! Processes that speak with each other.

use crate::desk::each;
use crate::table::PROCESSES;

/// M1: in a root of its own too, as far as that goes without a network.
#[test]
fn processes_speak_with_each_other() {
    each(&PROCESSES, |desk| {
        desk.write("pool.py", POOL);
        desk.write("aio.py", AIO);
        desk.works(&[
            ("a server on loopback answers a client", SERVER),
            (
                "localhost is a name, by both kinds of address",
                "python3 -c 'import socket; s = socket.create_server((\"localhost\", 0)); \
                 socket.create_connection((\"localhost\", s.getsockname()[1]), 9)' && python3 -c 'import socket; \
                 s = socket.create_server((\"::1\", 0), family=socket.AF_INET6); \
                 socket.create_connection(s.getsockname()[:2], 9)'",
            ),
            (
                "every address can be listened on",
                "python3 -c 'import socket; s = socket.create_server((\"0.0.0.0\", 0)); \
                 socket.create_connection((\"127.0.0.1\", s.getsockname()[1]), 9)'",
            ),
            (
                "datagrams arrive",
                "python3 -c 'import socket as s; a = s.socket(s.AF_INET, s.SOCK_DGRAM); \
                 a.bind((\"127.0.0.1\", 0)); b = s.socket(s.AF_INET, s.SOCK_DGRAM); \
                 b.sendto(b\"x\", a.getsockname()); a.settimeout(9); assert a.recv(9) == b\"x\"'",
            ),
            ("a socket in the project and one in the home connect", SOCKETS),
            ("python's pools work, by fork and by spawn, with shared memory", "python3 pool.py"),
            ("asynchronous programs start others", "python3 -c \"$(sed '/start_server/,/x..$/d' aio.py)\""),
            ("asynchronous programs listen", "python3 aio.py"),
            (
                "a database in a file is written by two processes",
                "python3 -c 'import sqlite3; c = sqlite3.connect(\"x.db\"); \
                 c.execute(\"pragma journal_mode=wal\"); c.execute(\"create table t(a)\"); c.commit()' && \
                 for i in 1 2; do python3 -c 'import sqlite3; c = sqlite3.connect(\"x.db\", timeout=9); \
                 c.execute(\"insert into t values (1)\"); c.commit()' & done; wait && \
                 python3 -c 'import sqlite3; \
                 assert sqlite3.connect(\"x.db\").execute(\"select count(*) from t\").fetchone() == (2,)'",
            ),
            (
                "a file is watched",
                "python3 -c 'import ctypes, os; c = ctypes.CDLL(None); f = c.inotify_init(); \
                 assert f >= 0 and c.inotify_add_watch(f, b\".\", 0x100) >= 0; open(\"w\", \"w\").close(); \
                 assert os.read(f, 4096)'",
            ),
            ("a process is ended", "sleep 100 & kill $! && ! wait $!"),
            ("processes are listed", "sleep 100 & i=0; until ps -o comm= -p $! | grep -qx sleep || [ $i = 200 ]; do i=$((i + 1)); done; ps -o pid,comm | grep -q sleep && kill $!"),
            ("a debugger may look into its child", PTRACE),
            ("a thousand short processes start", "for i in $(seq 1000); do /bin/true; done"),
        ]);
    });
}

const SERVER: &str = r#"
echo body > page
: > log
python3 -u -m http.server --bind 127.0.0.1 0 > log 2>&1 &
trap "kill $!" EXIT
for i in $(seq 1200); do port=$(sed -n 's/.* port \([0-9]*\) .*/\1/p' log); test -n "$port" && break; sleep 0.05; done
python3 -c "import urllib.request as u; assert u.urlopen('http://127.0.0.1:$port/page').read() == b'body\n'""#;

const SOCKETS: &str = r#"
python3 - <<'X'
import os, socket
for place in ("s.sock", os.environ["HOME"] + "/s.sock", "/tmp/s.sock", "\0abstract"):
    server = socket.socket(socket.AF_UNIX)
    server.bind(place)
    server.listen()
    if os.fork() == 0:
        client = socket.socket(socket.AF_UNIX)
        client.connect(place)
        client.send(b"x")
        os._exit(0)
    assert server.accept()[0].recv(1) == b"x"
a, b = socket.socketpair()
a.send(b"x"), b.recv(1)
os.unlink("s.sock")
X"#;

const PTRACE: &str = r#"
python3 - <<'X'
import ctypes, os
c = ctypes.CDLL(None, use_errno=True)
pid = os.fork()
if pid == 0:
    c.ptrace(0, 0, 0, 0)
    os.execv("/bin/true", ["true"])
os.waitpid(pid, 0)
assert c.ptrace(7, pid, 0, 0) == 0
assert os.waitpid(pid, 0)[1] == 0
X"#;

const POOL: &str = r#"
import multiprocessing as m
from multiprocessing import shared_memory


def square(x):
    return x * x


if __name__ == "__main__":
    for kind in ("fork", "spawn"):
        with m.get_context(kind).Pool(2) as pool:
            assert pool.map(square, [1, 2, 3]) == [1, 4, 9]
    block = shared_memory.SharedMemory(create=True, size=100)
    block.buf[0] = 1
    block.close()
    block.unlink()
"#;

const AIO: &str = r#"
import asyncio


async def answer(reader, writer):
    writer.write(await reader.readline())
    writer.close()


async def main():
    child = await asyncio.create_subprocess_exec("echo", "hi", stdout=asyncio.subprocess.PIPE)
    assert (await child.communicate())[0] == b"hi\n"
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    writer.write(b"x\n")
    assert await reader.read() == b"x\n"


asyncio.run(main())
"#;
