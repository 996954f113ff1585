//! Unix sockets of the host: those of daemons with authority, of agents of keys, of whoever else listens.

use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixStream};

use super::row::List::Read;
use super::row::Thing::{Dir, File};
use super::row::{NETWORK, Row, SECRET, SOCKETS, SOCKETS_LATER, Sign, WRITABLE, python};
use super::suite::{Topic, tests};

tests!(TOPIC);

const fn connect(says: &'static str, attack: &'static str) -> Row {
    python(SOCKETS, says, attack, Sign::Secret)
}

pub(super) static TOPIC: Topic = Topic {
    opened: None,
    rows: &[
        connect(
            "a socket in the project that somebody outside listens on is not reached",
            "s = socket.socket(socket.AF_UNIX); s.connect('host.sock'); print(s.recv(999))",
        )
        .sockets(&["here/host.sock"]),
        connect(
            "a socket in the project is not reached by a link",
            "os.symlink('deep/host.sock', 'l'); s = socket.socket(socket.AF_UNIX); s.connect('l'); print(s.recv(999))",
        )
        .files(&[Dir("here/deep")])
        .sockets(&["here/deep/host.sock"]),
        connect(
            "a socket in the project is not reached after its directory was moved",
            "os.rename('deep', 'moved'); s = socket.socket(socket.AF_UNIX); s.connect('moved/host.sock'); print(s.recv(999))",
        )
        .files(&[Dir("here/deep")])
        .sockets(&["here/deep/host.sock"]),
        connect(
            "a daemon's socket in a directory that may be read is not reached",
            "s = socket.socket(socket.AF_UNIX); s.connect(f'{OUT}/run/docker.sock'); print(s.recv(999))",
        )
        .files(&[Dir("out/run")])
        .policy(&[(Read, "$out/run")])
        .sockets(&["out/run/docker.sock"]),
        connect(
            "the user's bus is not reached",
            "s = socket.socket(socket.AF_UNIX); s.connect(f'{HOST_HOME}/bus'); print(s.recv(999))",
        )
        .sockets(&["home/bus"]),
        connect(
            "the user's agent of keys is not reached by its descriptor",
            "
            s = socket.socket(socket.AF_UNIX)
            fd = os.open(f'{HOST_HOME}/agent', os.O_PATH)
            s.connect(f'/proc/self/fd/{fd}')
            print(s.recv(999))
            ",
        )
        .sockets(&["home/agent"]),
        connect(
            "a socket of packets does not lead to one that somebody outside listens on",
            "s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK); s.connect('host.sock'); s.setblocking(True); print(s.recv(999))",
        )
        .sockets(&["here/host.sock"]),
        python(
            SOCKETS,
            "a datagram does not arrive at a socket in the project",
            "
            s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            s.sendto(f'heard-{ROW}-'.encode(), 'datagrams')
            until_heard(s, 'datagrams')
            ",
            Sign::Heard,
        )
        .datagrams(&["here/datagrams"]),
        python(
            SOCKETS,
            "one end of a pair sends no datagram to a socket in the project",
            "
            one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
            one.sendto(f'heard-{ROW}-'.encode(), 'datagrams')
            until_heard(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM), 'datagrams')
            ",
            Sign::Heard,
        )
        .datagrams(&["here/datagrams"]),
        python(
            SOCKETS_LATER,
            "a socket that somebody outside makes later is not reached",
            "outside(); s = socket.socket(socket.AF_UNIX); s.connect('late.sock'); print(s.recv(999))",
            Sign::Secret,
        )
        .luck("where calls are brokered nobody connects; what the receipt says of is a datagram")
        .meanwhile(|ground, number, _| {
            ground.listen(&ground.place(number, "here/late.sock"));
            String::new()
        }),
        // Whoever hands it over could as well say what is in it. Where such sockets are reached it is the same shortfall.
        python(
            SOCKETS_LATER,
            "a directory that somebody outside hands over by a socket leads nowhere",
            "
            outside()
            s = socket.socket(socket.AF_UNIX)
            s.connect('late.sock')
            _, rights, _, _ = socket.recv_fds(s, 999, 1)
            show(f'{os.path.basename(OUT)}/file', dir_fd=rights[0])
            ",
            Sign::Secret,
        )
        .files(&[File("out/file", SECRET)])
        .luck("behind bubblewrap Landlock looks at opens too, behind our own view at changes only")
        .meanwhile(|ground, number, _| {
            ground.listen(&ground.place(number, "here/late.sock"));
            String::new()
        }),
        python(
            WRITABLE,
            "nothing is written in a directory that somebody outside hands over by a socket",
            "
            outside()
            s = socket.socket(socket.AF_UNIX)
            s.connect('late.sock')
            _, rights, _, _ = socket.recv_fds(s, 999, 1)
            os.write(os.open(f'{os.path.basename(OUT)}/file', os.O_WRONLY, dir_fd=rights[0]), b'EVIL')
            ",
            Sign::Changed("out/file"),
        )
        .files(&[File("out/file", "old\n")])
        .meanwhile(|ground, number, _| {
            ground.listen(&ground.place(number, "here/late.sock"));
            String::new()
        }),
        python(
            NETWORK,
            "a socket with an abstract name is not reached",
            "s = socket.socket(socket.AF_UNIX); s.connect('\\0' + OUTSIDER['abstract']); print(s.recv(999))",
            Sign::Secret,
        ),
        python(
            NETWORK,
            "a datagram does not arrive at an abstract name",
            "
            s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            s.sendto(f'heard-{ROW}-'.encode(), '\\0' + OUTSIDER['abstract_datagrams'])
            until_heard(s, '\\0' + OUTSIDER['abstract_datagrams'])
            ",
            Sign::Heard,
        ),
        python(
            SOCKETS,
            "nobody outside reaches a name that was bound inside for them",
            "
            s = socket.socket(socket.AF_UNIX)
            s.bind('\\0trap' + OUTSIDER['abstract'])
            s.listen()
            print(outside())
            ",
            Sign::Says("trapped"),
        )
        .meanwhile(|ground, _, _| {
            let name = format!("trap{}", ground.found["abstract"].as_str().unwrap());
            let address = SocketAddr::from_abstract_name(name).unwrap();
            let reached = UnixStream::connect_addr(&address).is_ok();
            if reached { "trapped".to_owned() } else { "free".to_owned() }
        }),
    ],
};
