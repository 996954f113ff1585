//! landlock(7): rights on files for a thread and everything it starts.
//!
//! The number that a kernel reports is no promise: some vendors report one and leave features out. [`supported`] tries the
//! bits. Nothing here falls back: what the kernel does not take is an error.

use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};

use rustix::fs::{FileType, fstat};

macro_rules! bits {
    ($(#[$doc:meta])* $type:ident { $($(#[$bit_doc:meta])* $name:ident = $bit:expr,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub struct $type(u64);

        impl $type {
            /// None of them.
            pub const NONE: Self = Self(0);
            $($(#[$bit_doc])* pub const $name: Self = Self($bit);)*

            /// The kernel's bits.
            pub const fn from_bits(bits: u64) -> Self {
                Self(bits)
            }

            /// As the kernel has them.
            pub const fn bits(self) -> u64 {
                self.0
            }

            /// What either has.
            #[must_use]
            pub const fn union(self, other: Self) -> Self {
                Self(self.0 | other.0)
            }

            /// What both have.
            #[must_use]
            pub const fn intersection(self, other: Self) -> Self {
                Self(self.0 & other.0)
            }

            /// Does it have all of these?
            pub const fn contains(self, other: Self) -> bool {
                self.0 & other.0 == other.0
            }

            /// Is there nothing in it?
            pub const fn is_empty(self) -> bool {
                self.0 == 0
            }

            /// Its bits one by one, the lowest first.
            pub fn each(self) -> impl Iterator<Item = Self> {
                (0..u64::BITS).map(|bit| Self(1 << bit)).filter(move |one| self.contains(*one))
            }
        }
    };
}

bits! {
    /// Rights on files.
    AccessFs {
        /// Execute a file.
        EXECUTE = 1 << 0,
        /// Open a file for writing.
        WRITE_FILE = 1 << 1,
        /// Open a file for reading.
        READ_FILE = 1 << 2,
        /// Open a directory, list it.
        READ_DIR = 1 << 3,
        /// Remove an empty directory, or rename one.
        REMOVE_DIR = 1 << 4,
        /// Unlink a file, or rename one.
        REMOVE_FILE = 1 << 5,
        /// Make a character device.
        MAKE_CHAR = 1 << 6,
        /// Make a directory.
        MAKE_DIR = 1 << 7,
        /// Make a regular file.
        MAKE_REG = 1 << 8,
        /// Make a unix socket.
        MAKE_SOCK = 1 << 9,
        /// Make a named pipe.
        MAKE_FIFO = 1 << 10,
        /// Make a block device.
        MAKE_BLOCK = 1 << 11,
        /// Make a symbolic link.
        MAKE_SYM = 1 << 12,
        /// Link or rename into another directory. ABI 2.
        REFER = 1 << 13,
        /// Cut a file short. ABI 3.
        TRUNCATE = 1 << 14,
        /// ioctl on devices. ABI 5.
        IOCTL_DEV = 1 << 15,
        /// Everything of ABI 1.
        ABI_1 = (1 << 13) - 1,
        /// Everything of ABI 2.
        ABI_2 = (1 << 14) - 1,
        /// Everything of ABI 3.
        ABI_3 = (1 << 15) - 1,
        /// Everything of ABI 5; later ones up to 8 add no right on files.
        ABI_5 = (1 << 16) - 1,
        /// Everything but reading, executing and cutting short: a domain that handles one of these looks at every open.
        CHANGES = (1 << 16) - 1 - (1 << 0 | 1 << 2 | 1 << 3 | 1 << 14),
        /// Reading and executing.
        READ = 1 << 0 | 1 << 2 | 1 << 3,
        /// Reading, writing and control of a device.
        DEVICE = 1 << 1 | 1 << 2 | 1 << 14 | 1 << 15,
        /// The rights that a file can have; the others concern what is in a directory.
        OF_A_FILE = 1 << 0 | 1 << 1 | 1 << 2 | 1 << 14 | 1 << 15,
    }
}

bits! {
    /// Rights on TCP ports.
    AccessNet {
        /// Bind a socket. ABI 4.
        BIND_TCP = 1 << 0,
        /// Connect a socket. ABI 4.
        CONNECT_TCP = 1 << 1,
        /// Everything of ABI 4.
        ABI_4 = 3,
    }
}

bits! {
    /// What is reached only among the restricted processes.
    Scope {
        /// Unix sockets with abstract names. ABI 6.
        ABSTRACT_UNIX_SOCKET = 1 << 0,
        /// Signals. ABI 6.
        SIGNAL = 1 << 1,
        /// Everything of ABI 6.
        ABI_6 = 3,
    }
}

bits! {
    /// How a thread is restricted; all of them since ABI 7, and about the audit log only.
    RestrictFlags {
        /// Log no refusal of this program.
        LOG_SAME_EXEC_OFF = 1 << 0,
        /// Log refusals of the programs that it executes.
        LOG_NEW_EXEC_ON = 1 << 1,
        /// Log no refusal of domains inside this one.
        LOG_SUBDOMAINS_OFF = 1 << 2,
    }
}

impl AccessFs {
    /// Every right that an ABI of this number has.
    pub const fn of_abi(abi: u32) -> Self {
        match abi {
            0 => Self::NONE,
            1 => Self::ABI_1,
            2 => Self::ABI_2,
            3 | 4 => Self::ABI_3,
            _ => Self::ABI_5,
        }
    }
}

impl AccessNet {
    /// Every right that an ABI of this number has.
    pub const fn of_abi(abi: u32) -> Self {
        if abi >= 4 { Self::ABI_4 } else { Self::NONE }
    }
}

impl Scope {
    /// Every scope that an ABI of this number has.
    pub const fn of_abi(abi: u32) -> Self {
        if abi >= 6 { Self::ABI_6 } else { Self::NONE }
    }
}

/// What a kernel really takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Supported {
    /// The number it reports.
    pub abi: u32,
    /// Rights on files.
    pub fs: AccessFs,
    /// Rights on TCP ports.
    pub net: AccessNet,
    /// Scopes.
    pub scoped: Scope,
}

/// The ABI number that the kernel reports. Changes nothing.
///
/// # Errors
/// ENOSYS without Landlock, EOPNOTSUPP if it is switched off at boot, others if a filter refuses the question.
pub fn abi() -> io::Result<u32> {
    const VERSION: u32 = 1;
    let no_attributes = std::ptr::null::<RulesetAttr>();
    // SAFETY: with the VERSION flag the kernel takes no attributes, which are null and of size 0, and returns a number.
    let result = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, no_attributes, 0_usize, VERSION) };
    u32::try_from(result).map_err(|_| io::Error::last_os_error())
}

/// Which of Landlock's known mistakes this kernel has repaired, a bit for each. Changes nothing.
///
/// # Errors
/// EINVAL on kernels that do not tell (before 6.15), and those of [`abi`].
pub fn errata() -> io::Result<u32> {
    const ERRATA: u32 = 1 << 1;
    let no_attributes = std::ptr::null::<RulesetAttr>();
    // SAFETY: with the ERRATA flag the kernel takes no attributes, which are null and of size 0, and returns a number.
    let result = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, no_attributes, 0_usize, ERRATA) };
    u32::try_from(result).map_err(|_| io::Error::last_os_error())
}

/// What the kernel really takes: of the bits that belong to its number, those with which it makes a ruleset. The rulesets are
/// closed again; nothing is restricted.
///
/// # Errors
/// As [`abi`].
pub fn supported() -> io::Result<Supported> {
    let abi = abi()?;
    let taken = |fs, net, scoped| Ruleset::create(fs, net, scoped).is_ok();
    let all = Supported { abi, fs: AccessFs::of_abi(abi), net: AccessNet::of_abi(abi), scoped: Scope::of_abi(abi) };
    if taken(all.fs, all.net, all.scoped) {
        return Ok(all);
    }
    let fs = all.fs.each().filter(|bit| taken(*bit, AccessNet::NONE, Scope::NONE));
    let net = all.net.each().filter(|bit| taken(AccessFs::NONE, *bit, Scope::NONE));
    let scoped = all.scoped.each().filter(|bit| taken(AccessFs::NONE, AccessNet::NONE, *bit));
    Ok(Supported {
        abi,
        fs: fs.fold(AccessFs::NONE, AccessFs::union),
        net: net.fold(AccessNet::NONE, AccessNet::union),
        scoped: scoped.fold(Scope::NONE, Scope::union),
    })
}

#[repr(C)]
struct RulesetAttr {
    handled_access_fs: u64,
    handled_access_net: u64,
    scoped: u64,
}

#[repr(C, packed)]
struct PathBeneathAttr {
    allowed_access: u64,
    parent_fd: i32,
}

/// A rule on a place and everything below it: 8 bytes of rights, 4 of a descriptor.
pub const RULE_PATH_BENEATH: u32 = 1;
/// A rule on a TCP port: 8 bytes of rights, 8 of a number.
pub const RULE_NET_PORT: u32 = 2;

/// A domain that is being made. What it handles and no rule gives will be refused.
#[derive(Debug)]
pub struct Ruleset {
    fd: OwnedFd,
    handled_fs: AccessFs,
}

impl Ruleset {
    /// Starts a domain that handles these. Allocates nothing.
    ///
    /// # Errors
    /// EINVAL or E2BIG for what the kernel does not know, ENOMSG for nothing at all, and those of [`abi`].
    pub fn create(handled_fs: AccessFs, handled_net: AccessNet, scoped: Scope) -> io::Result<Self> {
        // Kernels that know less take the longer structure as long as what they do not know is zero.
        let attr = RulesetAttr { handled_access_fs: handled_fs.0, handled_access_net: handled_net.0, scoped: scoped.0 };
        let no_flags = 0_u32;
        // SAFETY: the kernel reads as many bytes from `attr` as it is large, and `attr` outlives the call.
        let result = unsafe {
            libc::syscall(libc::SYS_landlock_create_ruleset, &raw const attr, size_of::<RulesetAttr>(), no_flags)
        };
        let fd = i32::try_from(result).ok().filter(|fd| *fd >= 0).ok_or_else(io::Error::last_os_error)?;
        // SAFETY: the kernel made this descriptor for this call, so nobody else owns it.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Self { fd, handled_fs })
    }

    /// Gives rights on what a descriptor stands for and on everything below it; O_PATH is enough. Rights that the domain does
    /// not handle are not asked for, and on a file neither are those that concern what is in a directory. Allocates nothing.
    ///
    /// # Errors
    /// Those of fstat, EBADFD for what is no place in a file system (a pipe, a socket, the kernel's own files).
    pub fn add_path(&self, path: BorrowedFd<'_>, access: AccessFs) -> io::Result<()> {
        let kind = FileType::from_raw_mode(fstat(path)?.st_mode);
        let possible = if kind == FileType::Directory { AccessFs::ABI_5 } else { AccessFs::OF_A_FILE };
        let allowed = access.intersection(possible).intersection(self.handled_fs);
        if allowed.is_empty() {
            // The kernel refuses an empty rule (ENOMSG). Nothing that is handled was asked for, so nothing is missing.
            return Ok(());
        }
        let attr = PathBeneathAttr { allowed_access: allowed.0, parent_fd: path.as_raw_fd() };
        let (ruleset, no_flags) = (self.fd.as_raw_fd(), 0_u32);
        // SAFETY: for this kind of rule the kernel reads a `PathBeneathAttr`, which `attr` is and which outlives the call.
        let result = unsafe {
            libc::syscall(libc::SYS_landlock_add_rule, ruleset, RULE_PATH_BENEATH, &raw const attr, no_flags)
        };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Restricts the calling thread and everything it starts, for good. The caller must have set `no_new_privs`, or hold
    /// CAP_SYS_ADMIN.
    ///
    /// Allocates nothing and takes no lock: may be called between fork and exec.
    ///
    /// # Errors
    /// EPERM without `no_new_privs`, E2BIG inside sixteen domains, EINVAL for flags that the kernel does not know.
    pub fn restrict_self(&self, flags: RestrictFlags) -> io::Result<()> {
        // The flags are 32 bits wide.
        let flags = flags.0 as u32;
        // SAFETY: the call takes two numbers; the descriptor is owned by `self` and open.
        let result = unsafe { libc::syscall(libc::SYS_landlock_restrict_self, self.fd.as_raw_fd(), flags) };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

/// Adds a rule to a ruleset that another process made; descriptors in it are this process's.
///
/// # Errors
/// What the kernel says; EINVAL for a rule that is shorter than its kind is.
pub fn add_rule(ruleset: BorrowedFd<'_>, kind: u32, rule: &[u8], flags: u32) -> rustix::io::Result<()> {
    let longest = if kind == RULE_PATH_BENEATH { 12 } else { 16 };
    if rule.len() < longest {
        return Err(rustix::io::Errno::INVAL);
    }
    // SAFETY: the kernel reads 12 bytes for a rule on a place and 16 for one on a port, and `rule` has as many.
    let result = unsafe { libc::syscall(libc::SYS_landlock_add_rule, ruleset.as_raw_fd(), kind, rule.as_ptr(), flags) };
    if result == 0 {
        return Ok(());
    }
    Err(rustix::io::Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(rustix::io::Errno::IO))
}

/// Enters a ruleset that another process made, by a descriptor of it. The calling thread alone does.
///
/// # Errors
/// As [`Ruleset::restrict_self`]; EBADFD where the descriptor is of something else.
pub fn enter(ruleset: BorrowedFd<'_>, flags: u32) -> rustix::io::Result<()> {
    // SAFETY: the call takes two numbers.
    let result = unsafe { libc::syscall(libc::SYS_landlock_restrict_self, ruleset.as_raw_fd(), flags) };
    if result == 0 {
        return Ok(());
    }
    Err(rustix::io::Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(rustix::io::Errno::IO))
}
