//! What the kernel shows and takes as files.

use super::row::Thing::File;
use super::row::{FENCE, Line, OUTSIDERS, READABLE, Row, SECRET, SEEN, Sign, python};
use super::suite::{Topic, tests};

tests!(TOPIC);

const fn file(says: &'static str, attack: &'static str) -> Row {
    python(READABLE, says, attack, Sign::Secret).files(&[File("out/file", SECRET)])
}

/// Opens something for writing, and writes nothing: in the control it is the host's own.
const fn control(says: &'static str, attack: &'static str) -> Row {
    python(FENCE, says, attack, Sign::Works).as_root()
}

pub(super) static TOPIC: Topic = Topic {
    opened: None,
    rows: &[
        file("/proc/self/root leads to no other project", "show(f'/proc/self/root{OUT}/file')"),
        file("/proc/thread-self/root leads to no other project", "show(f'/proc/thread-self/root{OUT}/file')"),
        file("/proc/self/cwd leads to no other project", "show('/proc/self/cwd/../../other/' + OUT[-3:] + '/file')"),
        file("the root of the first process leads to no other project", "show(f'/proc/1/root{OUT}/file')")
            .in_namespaces(),
        file(
            "the root of no process that can be seen leads to another project",
            "
            for name in filter(str.isdigit, os.listdir('/proc')):
                for way in (f'/proc/{name}/root{OUT}/file', f'/proc/{name}/cwd{OUT}/file'):
                    try:
                        show(way)
                    except OSError:
                        pass
            ",
        ),
        file("the root of a process outside leads nowhere", "show(f\"/proc/{OUTSIDER['pid']}/root{OUT}/file\")"),
        python(
            READABLE,
            "an open file of a process outside cannot be read",
            "show(f\"/proc/{OUTSIDER['pid']}/fd/{OUTSIDER['file']}\")",
            Sign::Secret,
        ),
        python(
            READABLE,
            "the environment of a process outside cannot be read",
            "show(f\"/proc/{OUTSIDER['pid']}/environ\")",
            Sign::Says("secret-of-the-outsider"),
        ),
        python(
            READABLE,
            "the memory of a process outside cannot be read",
            "print(os.pread(os.open(f\"/proc/{OUTSIDER['pid']}/mem\", os.O_RDONLY), OUTSIDER['length'], OUTSIDER['address']))",
            Sign::Secret,
        ),
        python(
            OUTSIDERS,
            "the memory of a process outside is not opened for writing",
            "os.open(f\"/proc/{OUTSIDER['pid']}/mem\", os.O_RDWR)",
            Sign::Works,
        ),
        python(
            OUTSIDERS,
            "what the kernel kills first is not set for a process outside",
            "write(f\"/proc/{OUTSIDER['pid']}/oom_score_adj\", text=b'500')",
            Sign::Works,
        ),
        python(Line::Words("deny /proc/keys"), "keys of the user cannot be listed", "show('/proc/keys')", Sign::Works),
        python(
            Line::Words("deny /proc/kallsyms"),
            "addresses of the kernel cannot be read",
            "show('/proc/kallsyms')",
            Sign::Works,
        ),
        python(
            Line::Words("deny /proc/sys/kernel/core_pattern"),
            "which program the kernel runs for a crash cannot be read",
            "show('/proc/sys/kernel/core_pattern')",
            Sign::Works,
        ),
        python(
            SEEN,
            "the arguments of a process outside cannot be seen",
            "show(f\"/proc/{OUTSIDER['pid']}/cmdline\")",
            Sign::Says("Somebody who has nothing to do with a session"),
        ),
        python(
            SEEN,
            "connections of the host cannot be seen",
            "print('seen', f\":{OUTSIDER['tcp4']:04X} \" in open('/proc/net/tcp').read())",
            Sign::Says("seen True"),
        ),
        python(
            SEEN,
            "mounts of the host cannot be seen",
            "
            # Those of our own are few, and each is there for what is in the view.
            text = open('/proc/self/mountinfo').read()
            print('seen', ' - sysfs ' in text or ' - cgroup' in text)
            ",
            Sign::Says("seen True"),
        ),
        python(
            READABLE,
            "the memory and the environment of the first process cannot be read",
            "first(lambda: show('/proc/1/environ'), lambda: os.open('/proc/1/mem', os.O_RDONLY))",
            Sign::Works,
        )
        .in_namespaces(),
        python(
            READABLE,
            "open files of the first process lead nowhere",
            "first(*[lambda fd=fd: os.readlink(f'/proc/1/fd/{fd}') for fd in os.listdir('/proc/1/fd')])",
            Sign::Works,
        )
        .in_namespaces(),
        python(
            READABLE,
            "no descriptor is taken out of the first process",
            "first(*[lambda fd=fd: call(438, os.pidfd_open(1), fd, 0) for fd in range(64)])",
            Sign::Works,
        )
        .in_namespaces(),
        control(
            "the program that the kernel runs for a crash is not set",
            "os.open('/proc/sys/kernel/core_pattern', os.O_WRONLY)",
        ),
        control(
            "no other setting of the kernel is set",
            "
            paths = ['/proc/sysrq-trigger', '/proc/sys/vm/drop_caches', '/proc/sys/kernel/modprobe', '/proc/sys/kernel/printk', '/proc/sys/net/ipv4/ip_forward']
            first(*[lambda path=path: os.open(path, os.O_WRONLY) for path in paths])
            ",
        ),
        control(
            "no device is set up",
            "
            def found():
                for above, _, names in os.walk('/sys'):
                    for name in names:
                        try:
                            return os.open(f'{above}/{name}', os.O_WRONLY)
                        except OSError:
                            pass
                raise OSError(2, 'none')
            found()
            ",
        ),
        control(
            "nobody is moved between control groups, and none runs a program when it is empty",
            "
            def found():
                for above, _, names in os.walk('/sys/fs/cgroup'):
                    for name in {'cgroup.procs', 'release_agent', 'tasks'} & set(names):
                        return os.open(f'{above}/{name}', os.O_WRONLY)
                raise OSError(2, 'none')
            found()
            ",
        ),
        control("the kernel's log is not read", "os.open('/dev/kmsg', os.O_RDONLY)"),
        control(
            "no disk is opened",
            "
            def disks():
                for name in os.listdir('/dev'):
                    if stat.S_ISBLK(os.stat(f'/dev/{name}').st_mode):
                        yield lambda: os.open(f'/dev/{name}', os.O_RDONLY)
                yield lambda: os.open('/dev/no-such-disk', os.O_RDONLY)
            first(*disks())
            ",
        ),
        control(
            "no device with authority is opened",
            "
            names = ['mem', 'kvm', 'fuse', 'loop-control', 'net/tun', 'vsock', 'userfaultfd', 'tty0', 'console', 'uinput']
            first(*[lambda name=name: os.open(f'/dev/{name}', os.O_RDWR | os.O_NOCTTY) for name in names])
            ",
        ),
        python(
            FENCE,
            "no device is made",
            "os.mknod('disk', 0o666 | stat.S_IFBLK, os.makedev(7, 0))",
            Sign::Exists("here/disk"),
        )
        .as_root(),
    ],
};
