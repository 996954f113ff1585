//! The system calls that a fenced process is refused, as data.
//!
//! A filter sees a call's number and its arguments as numbers; it cannot follow a pointer, so nothing here speaks of paths.
//! It closes what the other layers do not see: ways to change the view, ways into the kernel that no build needs, and ways
//! around the other filters. A refused call is an errno, as if the kernel had been built without it, never a signal: programs
//! then take the road they take on such kernels.
//!
//! Which number a name has is known in `ringfence-sys`.

/// How much of the kernel the fenced process has to itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fence {
    /// It lives in namespaces of its own and makes no others.
    Namespaces,
    /// It lives in namespaces of its own and may make others, with mounts in them: a sandbox within the sandbox.
    NestedNamespaces,
    /// It shares every namespace with the host; only Landlock and this filter stand between.
    LandlockOnly,
    /// It shares the namespaces of the session that it is a call in: it has the session's network and nothing else of the session's.
    SessionNamespaces,
}

/// An error number. Those named here are the same on every architecture that ringfence builds for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Errno(pub u16);

impl Errno {
    /// Operation not permitted.
    pub const EPERM: Self = Self(1);
    /// Function not implemented: libraries fall back to what was there before it.
    pub const ENOSYS: Self = Self(38);
    /// Socket type not supported: the kernel's own answer for a type that a family does not have.
    pub const ESOCKTNOSUPPORT: Self = Self(94);
    /// Protocol not supported: the kernel's own answer for a protocol that it was built without.
    pub const EPROTONOSUPPORT: Self = Self(93);
    /// Operation not supported: the kernel's own answer for what is switched off.
    pub const EOPNOTSUPP: Self = Self(95);
    /// Address family not supported: the kernel's own answer for a family that it was built without.
    pub const EAFNOSUPPORT: Self = Self(97);
}

/// What becomes of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SyscallAction {
    /// The kernel carries it out.
    Allow,
    /// It fails with this error.
    Errno(Errno),
    /// It waits until the broker has carried it out, or refused it.
    Notify,
}

/// A test of one argument: `argument & mask == value`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ArgTest {
    /// Which argument, from 0 to 5.
    pub arg: u8,
    /// The bits that count.
    pub mask: u64,
    /// What they must be.
    pub value: u64,
}

/// The kernel takes most numbers as 32 bits and ignores the upper half of the register: a test that looked at it would be
/// passed by setting a bit up there.
const LOW: u64 = 0xffff_ffff;

impl ArgTest {
    /// The argument, taken as 32 bits, is this number.
    const fn is(arg: u8, value: u64) -> Self {
        Self { arg, mask: LOW, value }
    }

    /// Of these bits none is set.
    const fn has_none_of(arg: u8, bits: u64) -> Self {
        Self { arg, mask: bits, value: 0 }
    }

    /// A command of an ioctl is of this family, whatever its number and the size of what it takes.
    const fn ioctl_family(family: u64) -> Self {
        Self { arg: 1, mask: 0xff00, value: family << 8 }
    }

    /// A socket's type is this one; the flags above the low four bits do not matter.
    const fn socket_type(value: u64) -> Self {
        Self { arg: 1, mask: 0xf, value }
    }
}

/// What becomes of a call under a condition. Of the rules for one name the first that matches counts; a call that none
/// matches is allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SyscallRule {
    /// The call, by the kernel's name.
    pub name: &'static str,
    /// All of these hold; without any the rule always matches.
    pub when: &'static [ArgTest],
    /// What becomes of it.
    pub action: SyscallAction,
    /// Why.
    pub reason: &'static str,
}

const fn refuse(name: &'static str, errno: Errno, reason: &'static str) -> SyscallRule {
    SyscallRule { name, when: &[], action: SyscallAction::Errno(errno), reason }
}

const fn deny(name: &'static str, reason: &'static str) -> SyscallRule {
    refuse(name, Errno::EPERM, reason)
}

const fn absent(name: &'static str, reason: &'static str) -> SyscallRule {
    refuse(name, Errno::ENOSYS, reason)
}

const fn refuse_if(name: &'static str, when: &'static [ArgTest], errno: Errno, reason: &'static str) -> SyscallRule {
    SyscallRule { name, when, action: SyscallAction::Errno(errno), reason }
}

const fn allow_if(name: &'static str, when: &'static [ArgTest], reason: &'static str) -> SyscallRule {
    SyscallRule { name, when, action: SyscallAction::Allow, reason }
}

const fn notify(name: &'static str, reason: &'static str) -> SyscallRule {
    SyscallRule { name, when: &[], action: SyscallAction::Notify, reason }
}

const fn notify_if(name: &'static str, when: &'static [ArgTest], reason: &'static str) -> SyscallRule {
    SyscallRule { name, when, action: SyscallAction::Notify, reason }
}

/// The flags of `clone` and `unshare` that make a namespace: mount, cgroup, uts, ipc, user, pid, net.
const NEW_NAMESPACES: u64 = 0x2_0000 | 0x200_0000 | 0x400_0000 | 0x800_0000 | 0x1000_0000 | 0x2000_0000 | 0x4000_0000;
/// Of `unshare` alone: in `clone` the same bit belongs to the signal's number.
const NEW_TIME_NAMESPACE: u64 = 0x80;

const AF_UNIX: u64 = 1;
const AF_INET: u64 = 2;
const AF_INET6: u64 = 10;
const AF_NETLINK: u64 = 16;
const SOCK_STREAM: u64 = 1;
const SOCK_DGRAM: u64 = 2;
const SOCK_RAW: u64 = 3;
const SOCK_SEQPACKET: u64 = 5;
const SOCK_PACKET: u64 = 10;
const IPPROTO_TCP: u64 = 6;
const IPPROTO_UDP: u64 = 17;
const NETLINK_ROUTE: u64 = 0;

/// What changes a view or leaves it. A sandbox within the sandbox needs these.
static NAMESPACES: &[SyscallRule] = &[
    deny("chroot", "changes what `/` is"),
    allow_if("clone", &[ArgTest::has_none_of(0, NEW_NAMESPACES)], "a process or a thread"),
    deny("clone", "in a new user namespace a process has every capability"),
    absent("clone3", "its flags are behind a pointer; libraries fall back to clone, whose flags can be seen"),
    deny("fsconfig", "prepares a mount"),
    deny("fsmount", "prepares a mount"),
    deny("fsopen", "prepares a mount"),
    deny("fspick", "prepares a change of a mount"),
    deny("mount", "changes the view"),
    deny("mount_setattr", "makes a read-only mount writable"),
    deny("move_mount", "changes the view"),
    deny("open_tree", "copies a part of the view without what is mounted over it"),
    deny("open_tree_attr", "copies a part of the view with other rights"),
    deny("pivot_root", "changes what `/` is"),
    deny("setns", "enters another namespace"),
    deny("umount2", "shows what a mount hides"),
    allow_if("unshare", &[ArgTest::has_none_of(0, NEW_NAMESPACES | NEW_TIME_NAMESPACE)], "a private table of files"),
    deny("unshare", "in a new user namespace a process has every capability"),
];

/// A snapshot of a directory of one's own under any name, with all that is in it, takes an open directory and no other right.
/// Neither Landlock nor the broker sees it.
const NAMES_BY_IOCTL: &str = "btrfs, bcachefs and ocfs2 make and remove names by it, which no other layer sees";

/// What no fenced process is given.
static ALWAYS: &[SyscallRule] = &[
    deny("acct", "writes a log of every process"),
    deny("add_key", "keyrings belong to the user, not to the session"),
    deny("bpf", "loads programs into the kernel"),
    deny("clock_settime", "sets the host's clock"),
    deny("delete_module", "unloads kernel code"),
    deny("finit_module", "loads kernel code"),
    deny("init_module", "loads kernel code"),
    absent("io_uring_enter", "rings carry out calls that no filter sees"),
    absent("io_uring_register", "rings carry out calls that no filter sees"),
    absent("io_uring_setup", "rings carry out calls that no filter sees"),
    refuse_if("ioctl", &[ArgTest::is(1, 0x5412)], Errno::EPERM, "TIOCSTI types into the terminal as if the user did"),
    refuse_if("ioctl", &[ArgTest::is(1, 0x541c)], Errno::EPERM, "TIOCLINUX pastes into a console as if the user did"),
    allow_if("ioctl", &[ArgTest::is(1, 0x4004_9409)], "FICLONE: `cp --reflink`"),
    allow_if("ioctl", &[ArgTest::is(1, 0x4020_940d)], "FICLONERANGE: the same for a part"),
    allow_if("ioctl", &[ArgTest::is(1, 0xc018_9436)], "FIDEDUPERANGE: keeps once what is there twice"),
    refuse_if("ioctl", &[ArgTest::ioctl_family(0x94)], Errno::EPERM, NAMES_BY_IOCTL),
    refuse_if("ioctl", &[ArgTest::ioctl_family(0xbc)], Errno::EPERM, NAMES_BY_IOCTL),
    refuse_if("ioctl", &[ArgTest::is(1, 0x4018_6f04)], Errno::EPERM, NAMES_BY_IOCTL),
    deny("ioperm", "reaches hardware"),
    deny("iopl", "reaches hardware"),
    deny("kexec_file_load", "replaces the kernel"),
    deny("kexec_load", "replaces the kernel"),
    deny("keyctl", "keyrings belong to the user, not to the session"),
    deny("lookup_dcookie", "tells paths outside the view"),
    deny("open_by_handle_at", "opens files by number, outside the view"),
    deny("perf_event_open", "watches the kernel and other processes"),
    allow_if("personality", &[ArgTest::is(0, 0)], "the ordinary one"),
    allow_if("personality", &[ArgTest::is(0, LOW)], "only asks"),
    allow_if("personality", &[ArgTest::is(0, 0x8)], "`linux32`: uname says another machine"),
    allow_if("personality", &[ArgTest::is(0, 0x2_0000)], "`uname26`: uname says another version"),
    allow_if("personality", &[ArgTest::is(0, 0x2_0008)], "both of these"),
    allow_if("personality", &[ArgTest::is(0, 0x4_0000)], "debuggers want the same addresses in each run"),
    deny("personality", "others make memory executable or map page zero"),
    deny("quotactl", "sets what users may store"),
    deny("quotactl_fd", "sets what users may store"),
    deny("reboot", "ends everything"),
    deny("request_key", "keyrings belong to the user, not to the session"),
    deny("settimeofday", "sets the host's clock"),
    deny("swapoff", "changes the host's memory"),
    deny("swapon", "changes the host's memory"),
    deny("syslog", "reads the kernel's log"),
    deny("uselib", "loads code by an interface that nothing uses"),
    deny("userfaultfd", "holds the kernel inside a call for as long as a process likes"),
];

/// From 11 on: types beyond the kernel's table. It refuses them (EINVAL) before it makes anything, whatever the family.
static IMPOSSIBLE_TYPES: &[SyscallRule] = &[
    allow_if("socket", &[ArgTest::socket_type(11)], NO_SUCH_TYPE),
    allow_if("socket", &[ArgTest { arg: 1, mask: 0xc, value: 0xc }], NO_SUCH_TYPE),
    allow_if("socketpair", &[ArgTest::socket_type(11)], NO_SUCH_TYPE),
    allow_if("socketpair", &[ArgTest { arg: 1, mask: 0xc, value: 0xc }], NO_SUCH_TYPE),
];
const NO_SUCH_TYPE: &str = "the kernel refuses such a type itself, with its own error";

/// Sockets that stay within what the other layers see. Whatever is not named here is refused by the rules after it.
static SOCKETS: &[SyscallRule] = &[
    allow_if("socket", &[ArgTest::is(0, AF_UNIX)], "between processes"),
    allow_if(
        "socket",
        &[ArgTest::is(0, AF_NETLINK), ArgTest::is(2, NETLINK_ROUTE)],
        "name look-ups ask which addresses there are",
    ),
    refuse_if("socket", &[ArgTest::socket_type(SOCK_RAW)], Errno::EPERM, "packets made by hand"),
    refuse_if("socket", &[ArgTest::socket_type(SOCK_PACKET)], Errno::EPERM, "packets made by hand"),
    allow_if("socket", &[ArgTest::is(0, AF_INET), ArgTest::socket_type(SOCK_STREAM), ArgTest::is(2, 0)], "TCP"),
    allow_if(
        "socket",
        &[ArgTest::is(0, AF_INET), ArgTest::socket_type(SOCK_STREAM), ArgTest::is(2, IPPROTO_TCP)],
        "TCP",
    ),
    allow_if("socket", &[ArgTest::is(0, AF_INET6), ArgTest::socket_type(SOCK_STREAM), ArgTest::is(2, 0)], "TCP"),
    allow_if(
        "socket",
        &[ArgTest::is(0, AF_INET6), ArgTest::socket_type(SOCK_STREAM), ArgTest::is(2, IPPROTO_TCP)],
        "TCP",
    ),
];

/// Without a network namespace every socket that leads anywhere is the host's: the network is closed, and so are sockets with a
/// path, since neither Landlock nor a filter sees which.
static NO_SOCKETS: &[SyscallRule] = &[
    allow_if(
        "socket",
        &[ArgTest::is(0, AF_NETLINK), ArgTest::is(2, NETLINK_ROUTE)],
        "name look-ups ask which addresses there are",
    ),
    refuse_if("socket", &[ArgTest::is(0, AF_UNIX)], Errno::EPERM, "a socket's path is behind a pointer"),
    refuse_if("socket", &[ArgTest::socket_type(SOCK_RAW)], Errno::EPERM, "packets made by hand"),
    refuse_if("socket", &[ArgTest::socket_type(SOCK_PACKET)], Errno::EPERM, "packets made by hand"),
    refuse("socket", Errno::EAFNOSUPPORT, "without a namespace this is the host's network"),
    allow_if("socketpair", &[ArgTest::is(0, AF_UNIX), ArgTest::socket_type(SOCK_STREAM)], "between processes"),
    allow_if("socketpair", &[ArgTest::is(0, AF_UNIX), ArgTest::socket_type(SOCK_SEQPACKET)], "between processes"),
    refuse_if("socketpair", &[ArgTest::is(0, AF_UNIX)], Errno::EPROTONOSUPPORT, "a datagram can be sent to any path"),
    refuse("socketpair", Errno::EAFNOSUPPORT, OTHER_FAMILY),
];

/// UDP, where a network namespace bounds it.
static DATAGRAMS: &[SyscallRule] = &[
    allow_if("socket", &[ArgTest::is(0, AF_INET), ArgTest::socket_type(SOCK_DGRAM), ArgTest::is(2, 0)], "UDP"),
    allow_if(
        "socket",
        &[ArgTest::is(0, AF_INET), ArgTest::socket_type(SOCK_DGRAM), ArgTest::is(2, IPPROTO_UDP)],
        "UDP",
    ),
    allow_if("socket", &[ArgTest::is(0, AF_INET6), ArgTest::socket_type(SOCK_DGRAM), ArgTest::is(2, 0)], "UDP"),
    allow_if(
        "socket",
        &[ArgTest::is(0, AF_INET6), ArgTest::socket_type(SOCK_DGRAM), ArgTest::is(2, IPPROTO_UDP)],
        "UDP",
    ),
];

/// What IPv4 and IPv6 have no type for, with the kernel's own answer, and pairs of them: the kernel makes none (EOPNOTSUPP), and says
/// so after it has looked at the type and the protocol.
static TYPES_OF_INTERNET: &[SyscallRule] = &[
    refuse_if("socket", &[ArgTest::is(0, AF_INET), NO_TYPE_OR_RDM], Errno::ESOCKTNOSUPPORT, NO_TYPE),
    refuse_if(
        "socket",
        &[ArgTest::is(0, AF_INET), ArgTest::socket_type(SOCK_SEQPACKET), ArgTest::is(2, 0)],
        Errno::ESOCKTNOSUPPORT,
        NO_TYPE,
    ),
    refuse_if("socket", &[ArgTest::is(0, AF_INET6), NO_TYPE_OR_RDM], Errno::ESOCKTNOSUPPORT, NO_TYPE),
    refuse_if(
        "socket",
        &[ArgTest::is(0, AF_INET6), ArgTest::socket_type(SOCK_SEQPACKET), ArgTest::is(2, 0)],
        Errno::ESOCKTNOSUPPORT,
        NO_TYPE,
    ),
    refuse_if(
        "socketpair",
        &[ArgTest::is(0, AF_INET), ArgTest::socket_type(SOCK_STREAM), ArgTest::is(2, 0)],
        Errno::EOPNOTSUPP,
        NO_PAIR,
    ),
    refuse_if(
        "socketpair",
        &[ArgTest::is(0, AF_INET), ArgTest::socket_type(SOCK_STREAM), ArgTest::is(2, IPPROTO_TCP)],
        Errno::EOPNOTSUPP,
        NO_PAIR,
    ),
    refuse_if(
        "socketpair",
        &[ArgTest::is(0, AF_INET), ArgTest::socket_type(SOCK_DGRAM), ArgTest::is(2, 0)],
        Errno::EOPNOTSUPP,
        NO_PAIR,
    ),
    refuse_if(
        "socketpair",
        &[ArgTest::is(0, AF_INET), ArgTest::socket_type(SOCK_DGRAM), ArgTest::is(2, IPPROTO_UDP)],
        Errno::EOPNOTSUPP,
        NO_PAIR,
    ),
    refuse_if(
        "socketpair",
        &[ArgTest::is(0, AF_INET6), ArgTest::socket_type(SOCK_STREAM), ArgTest::is(2, 0)],
        Errno::EOPNOTSUPP,
        NO_PAIR,
    ),
    refuse_if(
        "socketpair",
        &[ArgTest::is(0, AF_INET6), ArgTest::socket_type(SOCK_DGRAM), ArgTest::is(2, 0)],
        Errno::EOPNOTSUPP,
        NO_PAIR,
    ),
    refuse_if("socketpair", &[ArgTest::is(0, AF_INET)], Errno::EPROTONOSUPPORT, NO_PAIR),
    refuse_if("socketpair", &[ArgTest::is(0, AF_INET6)], Errno::EPROTONOSUPPORT, NO_PAIR),
];
/// `SOCK_RDM`, or no type at all.
const NO_TYPE_OR_RDM: ArgTest = ArgTest { arg: 1, mask: 0xb, value: 0 };
const NO_TYPE: &str = "IPv4 and IPv6 have no such type; the kernel says the same";
const NO_PAIR: &str = "only unix sockets come in pairs; the kernel says the same";

const OTHER_PROTOCOL: &str = "a protocol of its own: multipath TCP, SCTP and their like are seen by no other layer";
const OTHER_FAMILY: &str = "another family: no namespace bounds vsock, and most are kernel code that no build needs";

/// The end of the list for `socket` and `socketpair`.
static OTHER_SOCKETS: &[SyscallRule] = &[
    refuse_if("socket", &[ArgTest::is(0, AF_INET)], Errno::EPROTONOSUPPORT, OTHER_PROTOCOL),
    refuse_if("socket", &[ArgTest::is(0, AF_INET6)], Errno::EPROTONOSUPPORT, OTHER_PROTOCOL),
    refuse("socket", Errno::EAFNOSUPPORT, OTHER_FAMILY),
    allow_if("socketpair", &[ArgTest::is(0, AF_UNIX)], "between processes"),
    refuse("socketpair", Errno::EAFNOSUPPORT, OTHER_FAMILY),
];

const SHARED_PROCESSES: &str =
    "without a namespace of its own this reaches other processes of the user, and Landlock does not see it";
const SHARED_IPC: &str = "without a namespace of its own these are shared with other processes of the user";

/// What a namespace would bound, where there is none, or only that of the session.
static SHARED_WITH_THE_HOST: &[SyscallRule] = &[
    allow_if("ioprio_set", &[ArgTest::is(0, 1), ArgTest::is(1, 0)], "one's own"),
    deny("ioprio_set", SHARED_PROCESSES),
    allow_if("migrate_pages", &[ArgTest::is(0, 0)], "one's own"),
    deny("migrate_pages", SHARED_PROCESSES),
    allow_if("move_pages", &[ArgTest::is(0, 0)], "one's own"),
    deny("move_pages", SHARED_PROCESSES),
    absent("mq_open", SHARED_IPC),
    absent("mq_unlink", SHARED_IPC),
    absent("msgctl", SHARED_IPC),
    absent("msgget", SHARED_IPC),
    absent("msgrcv", SHARED_IPC),
    absent("msgsnd", SHARED_IPC),
    allow_if("prlimit64", &[ArgTest::is(0, 0)], "one's own"),
    deny("prlimit64", SHARED_PROCESSES),
    allow_if("sched_setaffinity", &[ArgTest::is(0, 0)], "one's own"),
    deny("sched_setaffinity", SHARED_PROCESSES),
    allow_if("sched_setattr", &[ArgTest::is(0, 0)], "one's own"),
    deny("sched_setattr", SHARED_PROCESSES),
    allow_if("sched_setparam", &[ArgTest::is(0, 0)], "one's own"),
    deny("sched_setparam", SHARED_PROCESSES),
    allow_if("sched_setscheduler", &[ArgTest::is(0, 0)], "one's own"),
    deny("sched_setscheduler", SHARED_PROCESSES),
    absent("semctl", SHARED_IPC),
    absent("semget", SHARED_IPC),
    absent("semop", SHARED_IPC),
    absent("semtimedop", SHARED_IPC),
    allow_if("setpriority", &[ArgTest::is(0, 0), ArgTest::is(1, 0)], "one's own"),
    deny("setpriority", SHARED_PROCESSES),
    absent("shmat", SHARED_IPC),
    absent("shmctl", SHARED_IPC),
    absent("shmget", SHARED_IPC),
];

const RUNS_AS_ROOT: &str = "whoever started such a program outside would run it as its owner";

/// A mode with this bit, in this argument.
const fn has_bit(arg: u8, bit: u64) -> ArgTest {
    ArgTest { arg, mask: bit, value: bit }
}

const SET_USER: u64 = 0o4000;
const SET_GROUP: u64 = 0o2000;
const O_CREAT: u64 = 0x40;
const O_TMPFILE: u64 = 0x40_0000;

/// What makes a program that runs as its owner or its group. Where files that a session makes belong to somebody else than
/// whoever works in it, these are refused too: a session in root's own project would leave programs that run as root.
pub static SET_IDS: &[SyscallRule] = &[
    refuse_if("chmod", &[has_bit(1, SET_USER)], Errno::EPERM, RUNS_AS_ROOT),
    refuse_if("chmod", &[has_bit(1, SET_GROUP)], Errno::EPERM, RUNS_AS_ROOT),
    refuse_if("creat", &[has_bit(1, SET_USER)], Errno::EPERM, RUNS_AS_ROOT),
    refuse_if("creat", &[has_bit(1, SET_GROUP)], Errno::EPERM, RUNS_AS_ROOT),
    refuse_if("fchmod", &[has_bit(1, SET_USER)], Errno::EPERM, RUNS_AS_ROOT),
    refuse_if("fchmod", &[has_bit(1, SET_GROUP)], Errno::EPERM, RUNS_AS_ROOT),
    refuse_if("fchmodat", &[has_bit(2, SET_USER)], Errno::EPERM, RUNS_AS_ROOT),
    refuse_if("fchmodat", &[has_bit(2, SET_GROUP)], Errno::EPERM, RUNS_AS_ROOT),
    refuse_if("fchmodat2", &[has_bit(2, SET_USER)], Errno::EPERM, RUNS_AS_ROOT),
    refuse_if("fchmodat2", &[has_bit(2, SET_GROUP)], Errno::EPERM, RUNS_AS_ROOT),
    refuse_if("mknod", &[has_bit(1, SET_USER)], Errno::EPERM, RUNS_AS_ROOT),
    refuse_if("mknod", &[has_bit(1, SET_GROUP)], Errno::EPERM, RUNS_AS_ROOT),
    refuse_if("mknodat", &[has_bit(2, SET_USER)], Errno::EPERM, RUNS_AS_ROOT),
    refuse_if("mknodat", &[has_bit(2, SET_GROUP)], Errno::EPERM, RUNS_AS_ROOT),
    // Without one of these flags the mode is whatever stood in the register.
    refuse_if("open", &[has_bit(1, O_CREAT), has_bit(2, SET_USER)], Errno::EPERM, RUNS_AS_ROOT),
    refuse_if("open", &[has_bit(1, O_CREAT), has_bit(2, SET_GROUP)], Errno::EPERM, RUNS_AS_ROOT),
    refuse_if("open", &[has_bit(1, O_TMPFILE), has_bit(2, SET_USER)], Errno::EPERM, RUNS_AS_ROOT),
    refuse_if("open", &[has_bit(1, O_TMPFILE), has_bit(2, SET_GROUP)], Errno::EPERM, RUNS_AS_ROOT),
    refuse_if("openat", &[has_bit(2, O_CREAT), has_bit(3, SET_USER)], Errno::EPERM, RUNS_AS_ROOT),
    refuse_if("openat", &[has_bit(2, O_CREAT), has_bit(3, SET_GROUP)], Errno::EPERM, RUNS_AS_ROOT),
    refuse_if("openat", &[has_bit(2, O_TMPFILE), has_bit(3, SET_USER)], Errno::EPERM, RUNS_AS_ROOT),
    refuse_if("openat", &[has_bit(2, O_TMPFILE), has_bit(3, SET_GROUP)], Errno::EPERM, RUNS_AS_ROOT),
    absent("openat2", "its mode is behind a pointer; libraries fall back to openat, whose mode can be seen"),
];

/// Opening for no more than reading: none of these is set. `O_TMPFILE` counts by its own bit; the other one in it is
/// `O_DIRECTORY`, with which directories are read.
const O_ANY_CHANGE: u64 = 0x1 | 0x2 | O_CREAT | 0x200 | O_TMPFILE;
const O_PATH: u64 = 0x20_0000;

const ONLY_READS: &str = "reads run at the kernel's own speed";
const ONLY_A_NAME: &str = "a descriptor of a name reads and writes nothing";
const NAMES: &str = "makes, moves or removes a name";
const JUDGED: &str = "what was written to a file of a git directory is judged when it is closed";
const MARKS: &str = "changes what a file is, by its name";
const SOCKETS_BY_NAME: &str = "a socket may be named by a path, which is behind a pointer";
const IDS: &str = "an id that the user namespace does not know is refused as any other that is not one's own";
const POINTER: &str = "its flags are behind a pointer";
const OWN: &str = "one's own";
const SCHEDULES: &str = "the broker is a process of the same user, and without a processor it would stall every call";
/// A limit that the kernel no longer looks at.
const RLIMIT_LOCKS: u64 = 10;
const MARK: &str = "by this number the broker knows who has given up rights; whoever took another's would have theirs";

/// A descriptor of a file whose content the broker judges has one of the numbers from here on. A filter sees the number that is
/// closed and not the file that it refers to; few programs have so many open, and for those that do, closing takes longer.
pub const FIRST_JUDGED_DESCRIPTOR: u64 = 992;
/// So many numbers, a power of two that divides the first.
pub const JUDGED_DESCRIPTORS: u64 = 32;

/// What the broker carries out: every call that changes files by a name. Calls by a descriptor are not among them, since the
/// descriptor was opened under these rules (but for what makes a program run as its owner: it may have been sent by a session
/// with other owners), and neither is any call that only reads. They come after all other rules: what is
/// refused is not asked about.
pub static BROKERED: &[SyscallRule] = &[
    notify("bind", SOCKETS_BY_NAME),
    notify("chmod", MARKS),
    notify("chown", MARKS),
    notify_if(
        "close",
        &[ArgTest { arg: 0, mask: LOW & !(JUDGED_DESCRIPTORS - 1), value: FIRST_JUDGED_DESCRIPTOR }],
        JUDGED,
    ),
    notify("connect", SOCKETS_BY_NAME),
    notify("creat", NAMES),
    notify_if("fchmod", &[has_bit(1, SET_USER)], RUNS_AS_ROOT),
    notify_if("fchmod", &[has_bit(1, SET_GROUP)], RUNS_AS_ROOT),
    notify("fchmodat", MARKS),
    notify("fchmodat2", MARKS),
    notify("fchown", MARKS),
    notify("fchownat", MARKS),
    absent("file_setattr", "the older way to do the same is by a descriptor"),
    notify("futimesat", MARKS),
    refuse_if(
        "ioctl",
        &[ArgTest::is(1, 0x4008_6602)],
        Errno::EOPNOTSUPP,
        "FS_IOC_SETFLAGS makes a directory take `.ENVRC` for `.envrc`, and rules compare bytes",
    ),
    allow_if("ioprio_set", &[ArgTest::is(0, 1), ArgTest::is(1, 0)], OWN),
    notify("ioprio_set", SCHEDULES),
    notify("landlock_add_rule", "a ruleset that was applied stays as it was applied"),
    notify("landlock_restrict_self", "whoever gives up rights does not get them back by way of the broker"),
    notify("lchown", MARKS),
    notify("link", NAMES),
    notify("linkat", NAMES),
    notify("lremovexattr", MARKS),
    notify("lsetxattr", MARKS),
    notify("mkdir", NAMES),
    notify("mkdirat", NAMES),
    notify("mknod", NAMES),
    notify("mknodat", NAMES),
    allow_if("open", &[ArgTest::has_none_of(1, O_ANY_CHANGE)], ONLY_READS),
    allow_if("open", &[has_bit(1, O_PATH)], ONLY_A_NAME),
    notify("open", NAMES),
    allow_if("openat", &[ArgTest::has_none_of(2, O_ANY_CHANGE)], ONLY_READS),
    allow_if("openat", &[has_bit(2, O_PATH)], ONLY_A_NAME),
    notify("openat", NAMES),
    notify("openat2", POINTER),
    allow_if("prlimit64", &[ArgTest { arg: 2, mask: u64::MAX, value: 0 }], "only asks"),
    refuse_if("prlimit64", &[ArgTest::is(1, RLIMIT_LOCKS)], Errno::EPERM, MARK),
    allow_if("prlimit64", &[ArgTest::is(0, 0)], "one's own"),
    refuse(
        "prlimit64",
        Errno::EPERM,
        "the broker is a process of the same user, and would be left without descriptors",
    ),
    notify("removexattr", MARKS),
    notify("removexattrat", MARKS),
    notify("rename", NAMES),
    notify("renameat", NAMES),
    notify("renameat2", NAMES),
    notify("rmdir", NAMES),
    allow_if("sched_setaffinity", &[ArgTest::is(0, 0)], OWN),
    notify("sched_setaffinity", SCHEDULES),
    allow_if("sched_setattr", &[ArgTest::is(0, 0)], OWN),
    notify("sched_setattr", SCHEDULES),
    allow_if("sched_setparam", &[ArgTest::is(0, 0)], OWN),
    notify("sched_setparam", SCHEDULES),
    allow_if("sched_setscheduler", &[ArgTest::is(0, 0)], OWN),
    notify("sched_setscheduler", SCHEDULES),
    notify("setgid", IDS),
    allow_if("setpriority", &[ArgTest::is(0, 0), ArgTest::is(1, 0)], OWN),
    notify("setpriority", SCHEDULES),
    notify("setregid", IDS),
    notify("setresgid", IDS),
    notify("setresuid", IDS),
    notify("setreuid", IDS),
    refuse_if("setrlimit", &[ArgTest::is(0, RLIMIT_LOCKS)], Errno::EPERM, MARK),
    notify("setuid", IDS),
    notify("setxattr", MARKS),
    notify("setxattrat", MARKS),
    notify("symlink", NAMES),
    notify("symlinkat", NAMES),
    notify("truncate", MARKS),
    notify("umask", "new files get the caller's mask, which is remembered"),
    notify("unlink", NAMES),
    notify("unlinkat", NAMES),
    notify("utime", MARKS),
    notify("utimensat", MARKS),
    notify("utimes", MARKS),
];

const LOOKS: &str = "what is looked for and is not there is learned";

/// What the broker is told of besides while it is learned what a command needs: every call that reads, runs, enters or looks for
/// something by its name. They come before those that it carries out. The kernel goes on with each of them: what may be read
/// the view decides, and not the broker.
pub static LOOKED_AT: &[SyscallRule] = &[
    notify("access", LOOKS),
    notify("chdir", LOOKS),
    notify("execve", LOOKS),
    notify("execveat", LOOKS),
    notify("faccessat", LOOKS),
    notify("faccessat2", LOOKS),
    notify("lstat", LOOKS),
    notify("newfstatat", LOOKS),
    notify_if("open", &[ArgTest::has_none_of(1, O_ANY_CHANGE | O_PATH)], LOOKS),
    notify_if("openat", &[ArgTest::has_none_of(2, O_ANY_CHANGE | O_PATH)], LOOKS),
    notify("readlink", LOOKS),
    notify("readlinkat", LOOKS),
    notify("stat", LOOKS),
    notify("statx", LOOKS),
];

/// What the broker carries out, and opens that only read wait as well: for whoever wants to know which of them fail.
pub fn brokered_with_reads() -> Vec<SyscallRule> {
    let lets_reads_pass = |rule: &&SyscallRule| {
        let is_read = |test: &ArgTest| test.mask == O_ANY_CHANGE && test.value == 0;
        rule.action == SyscallAction::Allow && rule.when.iter().any(is_read)
    };
    BROKERED.iter().filter(|rule| !lets_reads_pass(rule)).copied().collect()
}

/// The rules for a fence. What they do not name is allowed, up to the newest call that `ringfence-sys` knows; calls that are
/// newer than that do not exist inside, since nobody has looked at what they do.
pub fn syscalls(fence: Fence) -> Vec<SyscallRule> {
    let parts: &[&[SyscallRule]] = match fence {
        Fence::Namespaces => {
            &[NAMESPACES, ALWAYS, IMPOSSIBLE_TYPES, SOCKETS, DATAGRAMS, TYPES_OF_INTERNET, OTHER_SOCKETS]
        }
        Fence::NestedNamespaces => &[ALWAYS, IMPOSSIBLE_TYPES, SOCKETS, DATAGRAMS, TYPES_OF_INTERNET, OTHER_SOCKETS],
        Fence::LandlockOnly => &[NAMESPACES, ALWAYS, NO_SOCKETS, SHARED_WITH_THE_HOST],
        Fence::SessionNamespaces => &[
            NAMESPACES,
            ALWAYS,
            IMPOSSIBLE_TYPES,
            SOCKETS,
            DATAGRAMS,
            TYPES_OF_INTERNET,
            OTHER_SOCKETS,
            SHARED_WITH_THE_HOST,
        ],
    };
    parts.concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FENCES: [Fence; 3] = [Fence::Namespaces, Fence::NestedNamespaces, Fence::LandlockOnly];

    /// The verdict of the rules as they are written: the oracle that compiled programs are tested against.
    fn verdict(fence: Fence, name: &str, args: &[u64]) -> SyscallAction {
        let matches = |test: &ArgTest| args.get(usize::from(test.arg)).copied().unwrap_or(0) & test.mask == test.value;
        let rules = syscalls(fence);
        let mut rules = rules.iter().filter(|rule| rule.name == name);
        rules.find(|rule| rule.when.iter().all(matches)).map_or(SyscallAction::Allow, |rule| rule.action)
    }

    #[track_caller]
    fn check(name: &str, args: &[u64], expected: [Option<Errno>; 3]) {
        for (fence, errno) in FENCES.into_iter().zip(expected) {
            let expected = errno.map_or(SyscallAction::Allow, SyscallAction::Errno);
            assert_eq!(verdict(fence, name, args), expected, "{name}({args:x?}) in {fence:?}");
        }
    }

    const EPERM: Option<Errno> = Some(Errno::EPERM);
    const ENOSYS: Option<Errno> = Some(Errno::ENOSYS);
    const PROTO: Option<Errno> = Some(Errno::EPROTONOSUPPORT);
    const FAMILY: Option<Errno> = Some(Errno::EAFNOSUPPORT);

    #[test]
    fn namespaces_and_mounts() {
        check("mount", &[], [EPERM, None, EPERM]);
        check("setns", &[], [EPERM, None, EPERM]);
        check("clone3", &[], [ENOSYS, None, ENOSYS]);
        // fork, a thread, vfork.
        check("clone", &[0x120_0011], [None; 3]);
        check("clone", &[0x3d_0f00], [None; 3]);
        check("clone", &[0x4111], [None; 3]);
        for namespace in [0x2_0000, 0x200_0000, 0x400_0000, 0x800_0000, 0x1000_0000, 0x2000_0000, 0x4000_0000] {
            check("clone", &[namespace | 0x11], [EPERM, None, EPERM]);
            check("unshare", &[namespace], [EPERM, None, EPERM]);
        }
        check("unshare", &[0x80], [EPERM, None, EPERM]);
        check("unshare", &[0x600], [None; 3]);
    }

    #[test]
    fn sockets() {
        check("socket", &[AF_UNIX, SOCK_DGRAM | 0x80000, 0], [None, None, EPERM]);
        check("socket", &[AF_INET, SOCK_STREAM | 0x80800, 0], [None, None, FAMILY]);
        check("socket", &[AF_INET6, SOCK_STREAM, IPPROTO_TCP], [None, None, FAMILY]);
        check("socket", &[AF_INET, SOCK_DGRAM | 0x80000, 0], [None, None, FAMILY]);
        check("socket", &[AF_INET6, SOCK_DGRAM, IPPROTO_UDP], [None, None, FAMILY]);
        // Multipath TCP, SCTP, ping.
        check("socket", &[AF_INET, SOCK_STREAM, 262], [PROTO, PROTO, FAMILY]);
        check("socket", &[AF_INET, SOCK_STREAM, 132], [PROTO, PROTO, FAMILY]);
        check("socket", &[AF_INET, SOCK_DGRAM, 1], [PROTO, PROTO, FAMILY]);
        check("socket", &[AF_INET, SOCK_RAW, 1], [EPERM; 3]);
        check("socket", &[AF_INET6, SOCK_RAW | 0x80000, 58], [EPERM; 3]);
        check("socket", &[AF_INET, SOCK_PACKET, 0], [EPERM; 3]);
        // Packet sockets, vsock, the kernel's crypto, bluetooth.
        check("socket", &[17, SOCK_RAW, 0], [EPERM; 3]);
        check("socket", &[17, SOCK_DGRAM, 0], [FAMILY; 3]);
        check("socket", &[40, SOCK_STREAM, 0], [FAMILY; 3]);
        check("socket", &[38, 5, 0], [FAMILY; 3]);
        check("socket", &[31, SOCK_STREAM, 3], [FAMILY; 3]);
        // Netlink: routes, as glibc asks for them; audit, netfilter.
        check("socket", &[AF_NETLINK, SOCK_RAW | 0x80000, NETLINK_ROUTE], [None; 3]);
        check("socket", &[AF_NETLINK, SOCK_DGRAM, 9], [FAMILY; 3]);
        check("socket", &[AF_NETLINK, SOCK_RAW, 12], [EPERM; 3]);
        check("socketpair", &[AF_UNIX, SOCK_STREAM, 0], [None; 3]);
        check("socketpair", &[30, SOCK_STREAM, 0], [FAMILY; 3]);
        // [D] What the kernel says of a kind that there is not.
        const TYPE: Option<Errno> = Some(Errno::ESOCKTNOSUPPORT);
        const PAIR: Option<Errno> = Some(Errno::EOPNOTSUPP);
        check("socket", &[AF_INET, 75, 0], [None, None, FAMILY]);
        check("socket", &[40, 11, 0], [None, None, FAMILY]);
        check("socket", &[AF_INET, 0, 0], [TYPE, TYPE, FAMILY]);
        check("socket", &[AF_INET6, SOCK_SEQPACKET, 0], [TYPE, TYPE, FAMILY]);
        check("socket", &[AF_INET, SOCK_SEQPACKET, 132], [PROTO, PROTO, FAMILY]);
        check("socket", &[AF_INET, 6, 33], [PROTO, PROTO, FAMILY]);
        check("socketpair", &[AF_INET, 75, 0], [None, None, FAMILY]);
        check("socketpair", &[AF_INET, SOCK_DGRAM, IPPROTO_UDP], [PAIR, PAIR, FAMILY]);
        check("socketpair", &[AF_INET6, SOCK_STREAM, 262], [PROTO, PROTO, FAMILY]);
    }

    /// btrfs makes subvolumes (`0x5000_940e`) and snapshots (`0x5000_9401`, `0x5000_9417`) of directories, as bcachefs does.
    #[test]
    fn names_are_not_made_by_ioctl() {
        for command in [0x5000_940e, 0x5000_9401, 0x5000_940f, 0x5000_9417, 0x5000_9418, 0x5000_943f] {
            check("ioctl", &[3, command], [EPERM; 3]);
            check("ioctl", &[3, (7 << 32) | command], [EPERM; 3]);
        }
        check("ioctl", &[3, 0x4020_bc10], [EPERM; 3]);
        check("ioctl", &[3, 0x4018_6f04], [EPERM; 3]);
        // Copies that share what they hold, and what is asked of terminals and sockets.
        for command in [0x4004_9409, 0x4020_940d, 0xc018_9436, 0x5401, 0x5421, 0x541b, 0x8008_6601] {
            check("ioctl", &[3, command], [None; 3]);
        }
    }

    /// The kernel ignores the upper half of these arguments, so a bit up there must not change the verdict.
    #[test]
    fn the_upper_half_does_not_count() {
        const HIGH: u64 = 1 << 32;
        check("ioctl", &[0, 0x5412], [EPERM; 3]);
        check("ioctl", &[0, HIGH | 0x5412], [EPERM; 3]);
        check("ioctl", &[0, (0xdead_beef << 32) | 0x541c], [EPERM; 3]);
        check("ioctl", &[0, 0x5413], [None; 3]);
        check("personality", &[HIGH | 0x40_0000], [EPERM; 3]);
        check("personality", &[HIGH], [None; 3]);
        check("socket", &[HIGH | 40, SOCK_STREAM, 0], [FAMILY; 3]);
        check("socket", &[AF_INET, HIGH | SOCK_RAW, 0], [EPERM; 3]);
        check("clone", &[HIGH | 0x1000_0011], [EPERM, None, EPERM]);
    }

    #[test]
    fn without_namespaces_more_is_closed() {
        check("shmget", &[], [None, None, ENOSYS]);
        check("shmctl", &[], [None, None, ENOSYS]);
        for name in ["prlimit64", "sched_setaffinity", "sched_setscheduler", "move_pages"] {
            check(name, &[0], [None; 3]);
            check(name, &[7], [None, None, EPERM]);
        }
        // `nice`, somebody else, everybody of the user.
        check("setpriority", &[0, 0, 5], [None; 3]);
        check("setpriority", &[0, 7, 5], [None, None, EPERM]);
        check("setpriority", &[2, 0, 5], [None, None, EPERM]);
        check("ioprio_set", &[1, 0, 0], [None; 3]);
        check("ioprio_set", &[3, 0, 0], [None, None, EPERM]);
        check("socketpair", &[AF_UNIX, SOCK_SEQPACKET | 0x80000, 0], [None; 3]);
        check("socketpair", &[AF_UNIX, SOCK_DGRAM, 0], [None, None, PROTO]);
    }

    /// [H5] A call inside has the session's sockets, and neither its shared memory nor the scheduling of its processes.
    #[test]
    fn h5_a_call_shares_the_network_of_its_session_only() {
        let call = |name: &str, args: &[u64]| verdict(Fence::SessionNamespaces, name, args);
        let refused = |errno: Errno| SyscallAction::Errno(errno);
        for (name, args) in [
            ("socket", [AF_UNIX, SOCK_DGRAM, 0]),
            ("socket", [AF_INET, SOCK_STREAM, 0]),
            ("socket", [AF_INET, SOCK_DGRAM, 0]),
        ] {
            assert_eq!(call(name, &args), SyscallAction::Allow, "{name} {args:?}");
        }
        for name in ["shmget", "shmat", "semget", "semop", "msgget", "msgsnd", "mq_open", "mq_unlink"] {
            assert_eq!(call(name, &[]), refused(Errno::ENOSYS), "{name}");
        }
        for name in
            ["sched_setaffinity", "sched_setattr", "sched_setparam", "sched_setscheduler", "prlimit64", "migrate_pages"]
        {
            assert_eq!((call(name, &[0]), call(name, &[1])), (SyscallAction::Allow, refused(Errno::EPERM)), "{name}");
        }
        assert_eq!(call("mount", &[]), refused(Errno::EPERM));
        for rule in SHARED_WITH_THE_HOST {
            assert!(syscalls(Fence::SessionNamespaces).contains(rule), "{rule:?}");
        }
    }

    /// A mode counts only where it is one: opening what exists leaves anything in its register.
    #[test]
    fn programs_that_run_as_their_owner() {
        let is_refused = |name: &str, args: &[u64]| {
            let matches =
                |test: &ArgTest| args.get(usize::from(test.arg)).copied().unwrap_or(0) & test.mask == test.value;
            SET_IDS.iter().any(|rule| rule.name == name && rule.when.iter().all(matches))
        };
        for mode in [0o4755, 0o2755, 0o6000] {
            assert!(is_refused("chmod", &[0, mode]) && is_refused("fchmodat2", &[0, 0, mode, 0]));
            assert!(is_refused("openat", &[0, 0, 0x41, mode]) && is_refused("openat", &[0, 0, 0x41_0002, mode]));
            assert!(is_refused("mknodat", &[0, 0, 0o10_0000 | mode, 0]));
            assert!(!is_refused("openat", &[0, 0, 0x1, mode]));
        }
        assert!(!is_refused("chmod", &[0, 0o1777]) && !is_refused("openat", &[0, 0, 0x41, 0o644]));
    }

    /// What a read is must never leave the kernel, and what changes anything must.
    #[test]
    fn only_what_changes_files_is_brokered() {
        let action = |name: &str, args: &[u64]| {
            let matches =
                |test: &ArgTest| args.get(usize::from(test.arg)).copied().unwrap_or(0) & test.mask == test.value;
            let mut rules = BROKERED.iter().filter(|rule| rule.name == name);
            rules.find(|rule| rule.when.iter().all(matches)).map_or(SyscallAction::Allow, |rule| rule.action)
        };
        let (cloexec, directory, large) = (0x8_0000, 0x1_0000, 0x8000);
        for flags in [0, cloexec, cloexec | directory, large, O_PATH, O_PATH | 0x42, O_PATH | directory] {
            assert_eq!(action("openat", &[0, 0, flags]), SyscallAction::Allow, "{flags:x}");
            assert_eq!(action("open", &[0, flags]), SyscallAction::Allow, "{flags:x}");
        }
        for flags in [1, 2, 3, 0x40, 0x200, 0x241, 0xc1 | cloexec, O_TMPFILE | directory | 2, O_TMPFILE | directory] {
            assert_eq!(action("openat", &[0, 0, flags]), SyscallAction::Notify, "{flags:x}");
            assert_eq!(action("open", &[0, flags]), SyscallAction::Notify, "{flags:x}");
        }
        // Limits: of one's own, of another, only asked for, and the one that is a mark.
        assert_eq!(action("prlimit64", &[0, 7, 0x7fff_0000]), SyscallAction::Allow);
        assert_eq!(action("prlimit64", &[1, 7, 0]), SyscallAction::Allow);
        for (name, args) in [
            ("prlimit64", &[1, 7, 0x7fff_0000][..]),
            ("prlimit64", &[1, 7, 1 << 32]),
            ("prlimit64", &[0, 10, 0x7fff_0000]),
            ("prlimit64", &[0, 1 << 32 | 10, 0x7fff_0000]),
            ("setrlimit", &[10, 0x7fff_0000]),
        ] {
            assert_eq!(action(name, args), SyscallAction::Errno(Errno::EPERM), "{name} {args:x?}");
        }
        for (number, expected) in [(3, SyscallAction::Allow), (991, SyscallAction::Allow), (1024, SyscallAction::Allow)]
            .into_iter()
            .chain([992, 1023, 1 << 32 | 1000].map(|number| (number, SyscallAction::Notify)))
        {
            assert_eq!(action("close", &[number]), expected, "{number}");
        }
        for name in ["stat", "newfstatat", "statx", "readlink", "access", "getdents64", "write", "fchmod", "sendto"] {
            assert_eq!(action(name, &[]), SyscallAction::Allow, "{name}");
        }
    }

    #[test]
    fn what_programs_need_is_open() {
        for name in [
            "execve",
            "ptrace",
            "process_vm_readv",
            "openat",
            "openat2",
            "memfd_create",
            "landlock_restrict_self",
            "seccomp",
            "name_to_handle_at",
            "listmount",
            "statmount",
            "inotify_init1",
            "futex",
            "prctl",
        ] {
            check(name, &[], [None; 3]);
        }
    }

    #[test]
    fn the_tables_are_in_order() {
        for table in [NAMESPACES, ALWAYS, SHARED_WITH_THE_HOST, SET_IDS, BROKERED, LOOKED_AT] {
            assert!(table.is_sorted_by_key(|rule| rule.name));
        }
        for fence in FENCES {
            let rules = syscalls(fence);
            for (at, rule) in rules.iter().enumerate() {
                assert!(
                    rule.when.iter().all(|test| test.arg < 6 && test.value & !test.mask == 0),
                    "{rule:?} never matches"
                );
                let covered = rules[..at].iter().any(|other| other.name == rule.name && other.when.is_empty());
                assert!(!covered, "{rule:?} comes after a rule that always matches");
                assert!(!rule.reason.is_empty());
            }
        }
    }
}
