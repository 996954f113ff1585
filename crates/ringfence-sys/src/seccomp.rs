//! seccomp(2): the numbers behind the names, compiling, installing.

mod numbers;

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
    compile_for(Arch::NATIVE.ok_or(AssembleError::UnknownArchitecture)?, rules)
}

/// Compiles rules for one of the known architectures. Only the kernel of that architecture understands the result.
///
/// # Errors
/// When a rule is impossible, or the program is longer than the kernel takes.
pub fn compile_for(arch: Arch, rules: &[SyscallRule]) -> Result<Filter, AssembleError> {
    let mut skipped = Vec::new();
    let mut numbered = Vec::new();
    for rule in rules {
        match numbers::number_on(arch, rule.name) {
            Some(number) => numbered.push(bpf::Rule { number, when: rule.when, action: rule.action }),
            None if skipped.contains(&rule.name) => {}
            None => skipped.push(rule.name),
        }
    }
    Ok(Filter { program: bpf::filter(&numbered, NEWEST, arch)?, skipped })
}

/// The number of a call on this architecture.
pub fn number(name: &str) -> Option<u32> {
    numbers::number_on(Arch::NATIVE?, name)
}

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
