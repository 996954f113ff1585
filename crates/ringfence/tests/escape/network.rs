//! K9: the host's network, by every protocol that leads there.

use std::net::TcpStream;

use super::row::{NETWORK, Row, Sign, python};
use super::suite::{Topic, tests};

tests!(TOPIC);

const fn told(says: &'static str, attack: &'static str) -> Row {
    python(NETWORK, says, attack, Sign::Secret)
}

const fn heard(says: &'static str, attack: &'static str) -> Row {
    python(NETWORK, says, attack, Sign::Heard)
}

const fn opens(says: &'static str, attack: &'static str) -> Row {
    python(NETWORK, says, attack, Sign::Works)
}

pub(super) static TOPIC: Topic = Topic {
    opened: None,
    rows: &[
        told(
            "a service of the host's is not reached",
            "print(socket.create_connection(('127.0.0.1', OUTSIDER['tcp4']), PATIENCE).recv(999))",
        ),
        told(
            "a service of the host's is not reached by the newer address",
            "print(socket.create_connection(('::1', OUTSIDER['tcp6']), PATIENCE).recv(999))",
        ),
        told(
            "a service of the host's is not reached by an older address in a newer one",
            "print(socket.create_connection(('::ffff:127.0.0.1', OUTSIDER['tcp4']), PATIENCE).recv(999))",
        ),
        told(
            "a service of the host's is not reached by the address of nobody",
            "print(socket.create_connection(('0.0.0.0', OUTSIDER['tcp4']), PATIENCE).recv(999))",
        ),
        heard(
            "no data leaves with the first packet of a connection",
            "
            s = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            s.sendto(f'heard-{ROW}-'.encode(), socket.MSG_FASTOPEN, ('127.0.0.1', OUTSIDER['tcp4']))
            # Whoever hears it closes the connection afterwards.
            s.shutdown(socket.SHUT_WR)
            s.settimeout(PATIENCE)
            while s.recv(999):
                pass
            ",
        ),
        told(
            "a connection of several paths is not made",
            "s = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262); s.connect(('127.0.0.1', OUTSIDER['tcp4'])); print(s.recv(999))",
        ),
        heard(
            "a datagram does not leave",
            "
            s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            s.sendto(f'heard-{ROW}-'.encode(), ('127.0.0.1', OUTSIDER['udp4']))
            until_heard(s, ('127.0.0.1', OUTSIDER['udp4']))
            ",
        ),
        heard(
            "a datagram does not leave by the newer address",
            "
            s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
            s.sendto(f'heard-{ROW}-'.encode(), ('::1', OUTSIDER['udp6']))
            until_heard(s, ('::1', OUTSIDER['udp6']))
            ",
        ),
        told(
            "a question for a name is not answered by the host",
            "
            s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            s.settimeout(PATIENCE)
            s.connect(('127.0.0.1', OUTSIDER['udp4']))
            s.send(struct.pack('!6H', 1, 0x100, 1, 0, 0, 0) + b'\\x07example\\x03com\\0' + struct.pack('!2H', 1, 1))
            print(s.recv(999))
            ",
        ),
        opens("no packet is made by hand", "socket.socket(socket.AF_INET, socket.SOCK_RAW, 6)").in_namespaces(),
        opens("no packet is made by hand for the newer address", "socket.socket(socket.AF_INET6, socket.SOCK_RAW, 58)")
            .in_namespaces(),
        opens("no packet is read from the wire", "socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0x300)")
            .in_namespaces(),
        opens("no packet is read from the wire in the older way", "socket.socket(socket.AF_INET, 10, 0x300)")
            .in_namespaces(),
        opens(
            "no socket is of a family that no build needs, the channel to whoever runs this machine among them",
            "
            families = (40, 44, 38, 15, 21, 29, 30, 31, 39, 41, 42)
            first(*[lambda of=of, kind=kind: socket.socket(of, kind) for of in families for kind in (1, 2, 3, 5)])
            ",
        ),
        opens("the kernel's record of events is not opened", "socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 9)"),
        opens("the kernel's filter of packets is not opened", "socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 12)"),
        opens("devices that come and go are not heard of", "socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, 15)"),
        opens(
            "no address is added to a device",
            "
            # One more address for the loopback device.
            address = socket.inet_aton('10.9.9.9')
            body = struct.pack('BBBBI', 2, 32, 0, 254, 1)
            body += struct.pack('HH', 8, 2) + address + struct.pack('HH', 8, 1) + address
            s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
            s.sendto(struct.pack('IHHII', 16 + len(body), 20, 0x605, 1, 0) + body, (0, 0))
            answer = struct.unpack_from('i', s.recv(999), 16)[0]
            if answer:
                raise OSError(-answer, 'refused')
            ",
        )
        .in_namespaces(),
        python(
            NETWORK,
            "what listens inside is not reached from outside",
            "s = socket.create_server(('127.0.0.1', 0)); print(outside(s.getsockname()[1]))",
            Sign::Says("reached"),
        )
        .meanwhile(|_, _, port| {
            let reached = TcpStream::connect(("127.0.0.1", port.parse().unwrap())).is_ok();
            if reached { "reached".to_owned() } else { "closed".to_owned() }
        }),
    ],
};
