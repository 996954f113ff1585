//! M4: ways to change the view or to leave it. The control has namespaces of its own, with every right over them.

use super::row::Thing::{Dir, File};
use super::row::{DENY_ENV, FENCE, Row, SECRET, Sign, python, shell};
use super::suite::{Topic, tests};

tests!(TOPIC);

const fn way(says: &'static str, attack: &'static str) -> Row {
    python(FENCE, says, attack, Sign::Works).in_namespaces().files(&[Dir("here/m"), Dir("here/n")])
}

pub(super) static TOPIC: Topic = Topic {
    opened: None,
    rows: &[
        way("no user namespace is made", "c('unshare', 0x10000000)"),
        way("no mount namespace is made", "c('unshare', 0x00020000)"),
        way("no network namespace is made", "c('unshare', 0x40000000)"),
        way("no process namespace is made", "c('unshare', 0x20000000)"),
        way("no namespace of time is made", "c('unshare', 0x00000080)"),
        way(
            "no process is started in a user namespace of its own",
            "
            if call('clone', 0x10000000 | 17, 0, 0, 0, 0) == 0:
                os._exit(0)
            os.wait()
            ",
        ),
        way(
            "no process is started in a user namespace of its own by the newer call",
            "
            if call('clone3', struct.pack('8Q', 0x10000000, 0, 0, 0, 17, 0, 0, 0), 64) == 0:
                os._exit(0)
            os.wait()
            ",
        ),
        way(
            "a bit that the kernel ignores does not hide a namespace from the filter",
            "
            if call('clone', (1 << 40) | 0x10000000 | 17, 0, 0, 0, 0) == 0:
                os._exit(0)
            os.wait()
            ",
        ),
        way("no namespace is entered", "c('setns', os.open('/proc/self/ns/mnt', os.O_RDONLY), 0)"),
        way("the namespace of the first process is not entered", "c('setns', os.open('/proc/1/ns/mnt', os.O_RDONLY), 0)"),
        way(
            "the namespaces of a process are not entered all at once",
            "c('setns', os.pidfd_open(os.getpid()), 0x00020000 | 0x40000000)",
        ),
        way("nothing is mounted", "c('mount', b'none', b'm', b'tmpfs', 0, None)"),
        way("nothing is bound elsewhere", "c('mount', b'/', b'm', None, 4096 | 16384, None)"),
        way("nothing is bound in the new way", "call('open_tree', -100, b'.', 0x1 | 0x80000)"),
        way(
            "a mount is not moved",
            "
            try:
                c('mount', b'none', b'm', b'tmpfs', 0, None)
            except OSError:
                pass
            first(
                lambda: call('move_mount', -100, b'm', -100, b'n', 0),
                lambda: call('move_mount', -100, b'/proc', -100, b'n', 0),
            )
            ",
        ),
        way("no file system is prepared", "call('fsopen', b'tmpfs', 0)"),
        way("no file system of another kind is mounted", "c('mount', b'proc', b'm', b'proc', 0, None)"),
        way(
            "no overlay shows what is below",
            "c('mount', b'overlay', b'm', b'overlay', 0, f'lowerdir={HERE}/n,upperdir={OUT}/u,workdir={OUT}/w'.encode())",
        )
        .files(&[Dir("here/m"), Dir("here/n"), Dir("out/u"), Dir("out/w")]),
        way(
            "nothing is unmounted",
            "
            try:
                c('mount', b'none', b'm', b'tmpfs', 0, None)
            except OSError:
                pass
            # What guards the row's own secret is a mount inside; in the control the one above is.
            first(lambda: c('umount2', b'.env', 2), lambda: c('umount2', b'm', 2))
            ",
        )
        .files(&[Dir("here/m"), File("here/.env", SECRET)]),
        way(
            "nothing read-only is made writable",
            "
            try:
                c('mount', b'none', b'm', b'tmpfs', 1, None)
            except OSError:
                pass
            attributes = struct.pack('4Q', 0, 1, 0, 0)
            first(
                lambda: call('mount_setattr', -100, b'infra', 0, attributes, 32),
                lambda: call('mount_setattr', -100, b'm', 0, attributes, 32),
            )
            ",
        )
        .files(&[Dir("here/m"), File("here/infra/main", "old\n")]),
        way(
            "nothing read-only is mounted again as writable",
            "
            try:
                c('mount', b'none', b'm', b'tmpfs', 1, None)
            except OSError:
                pass
            first(lambda: c('mount', None, b'infra', None, 32 | 4096, None), lambda: c('mount', None, b'm', None, 32, None))
            ",
        )
        .files(&[Dir("here/m"), File("here/infra/main", "old\n")]),
        way("the root is not changed", "os.chroot('m')"),
        way(
            "the root is not exchanged",
            "
            try:
                c('mount', b'none', b'm', b'tmpfs', 0, None)
                os.chdir('m')
            except OSError:
                pass
            call('pivot_root', b'.', b'.')
            ",
        ),
        way("the name of the machine is not set", "socket.sethostname('evil')").luck("the name is set in a namespace of its own"),
        shell(
            DENY_ENV,
            "a program with namespaces of its own does not take a mask off",
            "unshare --user --map-root-user --mount sh -c 'umount .env; cat .env'",
            Sign::Secret,
        )
        .in_namespaces()
        .files(&[File("here/.env", SECRET)]),
        shell(
            FENCE,
            "bubblewrap does not run inside",
            "bwrap --dev-bind / / --unshare-user true",
            Sign::Works,
        ),
    ],
};
