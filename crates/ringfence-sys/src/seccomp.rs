//! seccomp(2): the numbers behind the names, compiling, installing.

use std::io;
use std::os::fd::{FromRawFd as _, OwnedFd};

use ringfence_plan::SyscallRule;

use crate::bpf::{self, Arch, AssembleError, Program};

/// The newest call whose meaning was known when this was written: `file_setattr` of Linux 6.17. Since 5.1 new calls have the
/// same number on every architecture.
pub const NEWEST: u32 = 469;

/// Rules as a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filter {
    /// What the kernel takes.
    pub program: Program,
    /// Names in the rules that this architecture has no call for.
    pub skipped: Vec<&'static str>,
}

/// Compiles rules for the architecture that this program was built for.
///
/// # Errors
/// When that architecture is not known, a rule is impossible, or the program is longer than the kernel takes.
pub fn compile(rules: &[SyscallRule]) -> Result<Filter, AssembleError> {
    let arch = Arch::NATIVE.ok_or(AssembleError::UnknownArchitecture)?;
    let mut skipped = Vec::new();
    let mut numbered = Vec::new();
    for rule in rules {
        match number(rule.name) {
            Some(number) => numbered.push(bpf::Rule { number, when: rule.when, action: rule.action }),
            None if skipped.contains(&rule.name) => {}
            None => skipped.push(rule.name),
        }
    }
    Ok(Filter { program: bpf::filter(&numbered, NEWEST, arch)?, skipped })
}

/// The number of a call on this architecture.
pub fn number(name: &str) -> Option<u32> {
    let at = NUMBERS.binary_search_by_key(&name, |(name, _)| name).ok()?;
    Some(NUMBERS[at].1)
}

macro_rules! numbers {
    ($($(#[$only:meta])* $name:ident: $number:expr,)*) => { &[$($(#[$only])* (stringify!($name), $number as u32)),*] };
}

/// The calls that filters speak of, sorted. Those with a number here have no name in the C library on some systems; those that
/// reach hardware by ports, and the oldest ways to name a file, exist on one architecture only.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
static NUMBERS: &[(&str, u32)] = numbers! {
    #[cfg(target_arch = "x86_64")]
    access: libc::SYS_access,
    acct: libc::SYS_acct,
    add_key: libc::SYS_add_key,
    bind: libc::SYS_bind,
    bpf: libc::SYS_bpf,
    chdir: libc::SYS_chdir,
    #[cfg(target_arch = "x86_64")]
    chmod: libc::SYS_chmod,
    #[cfg(target_arch = "x86_64")]
    chown: libc::SYS_chown,
    chroot: libc::SYS_chroot,
    clock_settime: libc::SYS_clock_settime,
    clone: libc::SYS_clone,
    clone3: libc::SYS_clone3,
    close: libc::SYS_close,
    connect: libc::SYS_connect,
    #[cfg(target_arch = "x86_64")]
    creat: libc::SYS_creat,
    delete_module: libc::SYS_delete_module,
    execve: libc::SYS_execve,
    execveat: libc::SYS_execveat,
    faccessat: libc::SYS_faccessat,
    faccessat2: 439,
    fchmod: libc::SYS_fchmod,
    fchmodat: libc::SYS_fchmodat,
    fchmodat2: 452,
    fchown: libc::SYS_fchown,
    fchownat: libc::SYS_fchownat,
    file_setattr: 469,
    finit_module: libc::SYS_finit_module,
    fsconfig: libc::SYS_fsconfig,
    fsmount: libc::SYS_fsmount,
    fsopen: libc::SYS_fsopen,
    fspick: libc::SYS_fspick,
    #[cfg(target_arch = "x86_64")]
    futimesat: libc::SYS_futimesat,
    getppid: libc::SYS_getppid,
    init_module: libc::SYS_init_module,
    io_uring_enter: libc::SYS_io_uring_enter,
    io_uring_register: libc::SYS_io_uring_register,
    io_uring_setup: libc::SYS_io_uring_setup,
    ioctl: libc::SYS_ioctl,
    #[cfg(target_arch = "x86_64")]
    ioperm: libc::SYS_ioperm,
    #[cfg(target_arch = "x86_64")]
    iopl: libc::SYS_iopl,
    ioprio_set: libc::SYS_ioprio_set,
    #[cfg(target_arch = "x86_64")]
    kexec_file_load: libc::SYS_kexec_file_load,
    #[cfg(target_arch = "aarch64")]
    kexec_file_load: 294,
    kexec_load: libc::SYS_kexec_load,
    keyctl: libc::SYS_keyctl,
    landlock_add_rule: libc::SYS_landlock_add_rule,
    landlock_create_ruleset: libc::SYS_landlock_create_ruleset,
    landlock_restrict_self: libc::SYS_landlock_restrict_self,
    #[cfg(target_arch = "x86_64")]
    lchown: libc::SYS_lchown,
    #[cfg(target_arch = "x86_64")]
    link: libc::SYS_link,
    linkat: libc::SYS_linkat,
    lookup_dcookie: libc::SYS_lookup_dcookie,
    lremovexattr: libc::SYS_lremovexattr,
    lsetxattr: libc::SYS_lsetxattr,
    #[cfg(target_arch = "x86_64")]
    lstat: libc::SYS_lstat,
    migrate_pages: libc::SYS_migrate_pages,
    #[cfg(target_arch = "x86_64")]
    mkdir: libc::SYS_mkdir,
    mkdirat: libc::SYS_mkdirat,
    #[cfg(target_arch = "x86_64")]
    mknod: libc::SYS_mknod,
    mknodat: libc::SYS_mknodat,
    mount: libc::SYS_mount,
    mount_setattr: libc::SYS_mount_setattr,
    move_mount: libc::SYS_move_mount,
    move_pages: libc::SYS_move_pages,
    mq_open: libc::SYS_mq_open,
    mq_unlink: libc::SYS_mq_unlink,
    msgctl: libc::SYS_msgctl,
    msgget: libc::SYS_msgget,
    msgrcv: libc::SYS_msgrcv,
    msgsnd: libc::SYS_msgsnd,
    newfstatat: libc::SYS_newfstatat,
    #[cfg(target_arch = "x86_64")]
    open: libc::SYS_open,
    open_by_handle_at: libc::SYS_open_by_handle_at,
    open_tree: libc::SYS_open_tree,
    open_tree_attr: 467,
    openat: libc::SYS_openat,
    openat2: libc::SYS_openat2,
    perf_event_open: libc::SYS_perf_event_open,
    personality: libc::SYS_personality,
    pivot_root: libc::SYS_pivot_root,
    prlimit64: libc::SYS_prlimit64,
    quotactl: libc::SYS_quotactl,
    quotactl_fd: libc::SYS_quotactl_fd,
    #[cfg(target_arch = "x86_64")]
    readlink: libc::SYS_readlink,
    readlinkat: libc::SYS_readlinkat,
    reboot: libc::SYS_reboot,
    removexattr: libc::SYS_removexattr,
    removexattrat: 466,
    #[cfg(target_arch = "x86_64")]
    rename: libc::SYS_rename,
    renameat: libc::SYS_renameat,
    renameat2: libc::SYS_renameat2,
    request_key: libc::SYS_request_key,
    #[cfg(target_arch = "x86_64")]
    rmdir: libc::SYS_rmdir,
    sched_setaffinity: libc::SYS_sched_setaffinity,
    sched_setattr: libc::SYS_sched_setattr,
    sched_setparam: libc::SYS_sched_setparam,
    sched_setscheduler: libc::SYS_sched_setscheduler,
    semctl: libc::SYS_semctl,
    semget: libc::SYS_semget,
    semop: libc::SYS_semop,
    semtimedop: libc::SYS_semtimedop,
    sendmmsg: libc::SYS_sendmmsg,
    sendmsg: libc::SYS_sendmsg,
    sendto: libc::SYS_sendto,
    setns: libc::SYS_setns,
    setpriority: libc::SYS_setpriority,
    setrlimit: libc::SYS_setrlimit,
    settimeofday: libc::SYS_settimeofday,
    setxattr: libc::SYS_setxattr,
    setxattrat: 463,
    shmat: libc::SYS_shmat,
    shmctl: libc::SYS_shmctl,
    shmget: libc::SYS_shmget,
    socket: libc::SYS_socket,
    socketpair: libc::SYS_socketpair,
    #[cfg(target_arch = "x86_64")]
    stat: libc::SYS_stat,
    statx: libc::SYS_statx,
    swapoff: libc::SYS_swapoff,
    swapon: libc::SYS_swapon,
    #[cfg(target_arch = "x86_64")]
    symlink: libc::SYS_symlink,
    symlinkat: libc::SYS_symlinkat,
    syslog: libc::SYS_syslog,
    truncate: libc::SYS_truncate,
    umask: libc::SYS_umask,
    umount2: libc::SYS_umount2,
    #[cfg(target_arch = "x86_64")]
    unlink: libc::SYS_unlink,
    unlinkat: libc::SYS_unlinkat,
    unshare: libc::SYS_unshare,
    #[cfg(target_arch = "x86_64")]
    uselib: libc::SYS_uselib,
    userfaultfd: libc::SYS_userfaultfd,
    #[cfg(target_arch = "x86_64")]
    utime: libc::SYS_utime,
    utimensat: libc::SYS_utimensat,
    #[cfg(target_arch = "x86_64")]
    utimes: libc::SYS_utimes,
};

/// No other architecture is known: `compile` refuses.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
static NUMBERS: &[(&str, u32)] = &[];

/// How a filter is installed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Flags(libc::c_ulong);

impl Flags {
    /// For the calling thread and what it starts.
    pub const NONE: Self = Self(0);
    /// For every thread of the process, or for none.
    pub const TSYNC: Self = Self(libc::SECCOMP_FILTER_FLAG_TSYNC | libc::SECCOMP_FILTER_FLAG_TSYNC_ESRCH);
    /// Refusals are in the kernel's log.
    pub const LOG: Self = Self(libc::SECCOMP_FILTER_FLAG_LOG);
    /// No speculation barrier; kernels from 5.16 on set none by themselves.
    pub const SPEC_ALLOW: Self = Self(libc::SECCOMP_FILTER_FLAG_SPEC_ALLOW);
    /// A call that waits for a listener is interrupted by fatal signals only. Otherwise a timer that ticks makes one call
    /// many notifications. Since Linux 5.19, and only with a listener.
    pub const WAIT_KILLABLE_RECV: Self = Self(libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV);

    /// Both.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// Installs a filter. It cannot be removed, and everything started from here has it too. The caller must have set
/// `no_new_privs`, or hold CAP_SYS_ADMIN.
///
/// Allocates nothing and takes no lock: may be called between fork and exec.
///
/// # Errors
/// EACCES without `no_new_privs`, EINVAL for a flag or an instruction that the kernel does not know, ESRCH if the threads
/// cannot be brought together, ENOSYS without seccomp.
pub fn install(program: &Program, flags: Flags) -> io::Result<()> {
    set_mode_filter(program, flags.0).map(|_| ())
}

/// Installs a filter and returns the listener that its notifications arrive on.
///
/// Allocates nothing and takes no lock: may be called between fork and exec.
///
/// # Errors
/// As [`install`]; EBUSY if a filter with a listener is there already.
pub fn install_with_listener(program: &Program, flags: Flags) -> io::Result<OwnedFd> {
    let fd = set_mode_filter(program, flags.0 | libc::SECCOMP_FILTER_FLAG_NEW_LISTENER)?;
    // SAFETY: with NEW_LISTENER the kernel returned a descriptor that it made for this call, so nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn set_mode_filter(program: &Program, flags: libc::c_ulong) -> io::Result<libc::c_int> {
    let instructions = program.instructions();
    let fprog = libc::sock_fprog {
        // A program has at most 4096 instructions.
        len: instructions.len() as libc::c_ushort,
        filter: instructions.as_ptr().cast::<libc::sock_filter>().cast_mut(),
    };
    // SAFETY: `fprog` and the instructions it points to outlive the call, `len` is their count, and `Instruction` is laid out
    // as `sock_filter` (asserted beside it). The kernel copies the program and does not write through the pointer.
    let result = unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, &raw const fprog) };
    // A descriptor, or zero; it fits.
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as libc::c_int) }
}

/// May a filter with a listener be installed here, whose calls wait through signals? Changes nothing, so it is not seen whether
/// somebody else listens already; without filters nobody does.
pub fn can_listen() -> bool {
    let flags = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER | libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV;
    let no_program = std::ptr::null::<libc::sock_fprog>();
    // SAFETY: the kernel looks at the flags first, and then finds no program to read.
    let result = unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, no_program) };
    result == -1 && io::Error::last_os_error().raw_os_error() == Some(libc::EFAULT)
}

/// Is there a filter on this thread already?
pub fn is_filtered() -> bool {
    // SAFETY: takes no further arguments.
    unsafe { libc::prctl(libc::PR_GET_SECCOMP, 0, 0, 0, 0) != 0 }
}
