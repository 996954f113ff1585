//! seccomp_unotify(2): calls that wait for a listener, what the listener may do about them, and how it looks at the caller.
//!
//! A listener that answers "go on" has decided from memory that the caller may have changed since, so [`Answer::Continue`] is
//! for calls whose arguments are all numbers.

use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd};

use rustix::process::Pid;

/// A call that waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Notification {
    /// Names it, as long as the caller waits.
    pub id: u64,
    /// The calling thread, as numbered where the listener is.
    pub thread: Pid,
    /// The call's number.
    pub number: u32,
    /// Its arguments.
    pub arguments: [u64; 6],
}

/// What the caller is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// The call returned this.
    Value(i64),
    /// It failed with this error.
    Error(rustix::io::Errno),
    /// The kernel carries it out after all.
    Continue,
}

/// `struct seccomp_notif`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct Received {
    id: u64,
    pid: u32,
    flags: u32,
    number: i32,
    arch: u32,
    instruction_pointer: u64,
    arguments: [u64; 6],
}

/// `struct seccomp_notif_resp`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct Response {
    id: u64,
    value: i64,
    error: i32,
    flags: u32,
}

/// `struct seccomp_notif_addfd`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct AddFd {
    id: u64,
    flags: u32,
    from: u32,
    to: u32,
    to_flags: u32,
}

// linux/seccomp.h: the sizes are a part of the numbers.
const RECV: u64 = 0xc050_2100;
const SEND: u64 = 0xc018_2101;
const ID_VALID: u64 = 0x4008_2102;
const ADDFD: u64 = 0x4018_2103;
const SET_FLAGS: u64 = 0x4008_2104;
const RESPONSE_CONTINUE: u32 = 1;
const ADDFD_FLAG_SETFD: u32 = 1;
const SYNC_WAKE_UP: u64 = 1;

const _: () = assert!(size_of::<Received>() == 0x50 && size_of::<Response>() == 0x18 && size_of::<AddFd>() == 0x18);

/// Waits for a call.
///
/// # Errors
/// ENOENT when the caller ended meanwhile, or when nobody is left who could call; EINTR.
pub fn receive(listener: BorrowedFd<'_>) -> rustix::io::Result<Notification> {
    // The kernel takes only zeros.
    let mut received =
        Received { id: 0, pid: 0, flags: 0, number: 0, arch: 0, instruction_pointer: 0, arguments: [0; 6] };
    // SAFETY: the kernel writes one `struct seccomp_notif` there, whose size is in the request's number.
    check(unsafe { libc::ioctl(listener.as_raw_fd(), RECV as _, &raw mut received) })?;
    let thread = i32::try_from(received.pid).ok().and_then(Pid::from_raw).ok_or(rustix::io::Errno::SRCH)?;
    Ok(Notification { id: received.id, thread, number: received.number.unsigned_abs(), arguments: received.arguments })
}

/// Does the caller still wait? What was read of it before this was its own, and nobody's who has its number now.
pub fn is_valid(listener: BorrowedFd<'_>, id: u64) -> bool {
    // SAFETY: the kernel reads one number from there.
    unsafe { libc::ioctl(listener.as_raw_fd(), ID_VALID as _, &raw const id) == 0 }
}

/// Answers a call.
///
/// # Errors
/// ENOENT when the caller waits no longer.
pub fn answer(listener: BorrowedFd<'_>, id: u64, answer: Answer) -> rustix::io::Result<()> {
    let (value, error, flags) = match answer {
        Answer::Value(value) => (value, 0, 0),
        Answer::Error(errno) => (0, -errno.raw_os_error(), 0),
        Answer::Continue => (0, 0, RESPONSE_CONTINUE),
    };
    let response = Response { id, value, error, flags };
    // SAFETY: the kernel reads one `struct seccomp_notif_resp` from there.
    check(unsafe { libc::ioctl(listener.as_raw_fd(), SEND as _, &raw const response) })
}

/// Whether a descriptor stays open when its holder becomes another program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnExec {
    /// It is closed.
    Close,
    /// It stays.
    Keep,
}

/// Puts a descriptor into the caller's table, and returns its number there. The caller goes on to wait, so that whoever has opened
/// the file can close it first: a file that is still open for writing somewhere cannot be executed.
///
/// # Errors
/// ENOENT when the caller waits no longer; EMFILE when its table is full.
pub fn add_descriptor(
    listener: BorrowedFd<'_>,
    id: u64,
    fd: BorrowedFd<'_>,
    on_exec: OnExec,
) -> rustix::io::Result<i32> {
    add(listener, AddFd { id, flags: 0, from: fd.as_raw_fd().unsigned_abs(), to: 0, to_flags: flags_of(on_exec) })
}

/// The same under a number that the caller does not choose. What is open there is closed.
///
/// # Errors
/// Those of [`add_descriptor`]; EBADF when the caller may not have that many open.
pub fn add_descriptor_at(
    listener: BorrowedFd<'_>,
    id: u64,
    fd: BorrowedFd<'_>,
    number: u32,
    on_exec: OnExec,
) -> rustix::io::Result<i32> {
    let from = fd.as_raw_fd().unsigned_abs();
    add(listener, AddFd { id, flags: ADDFD_FLAG_SETFD, from, to: number, to_flags: flags_of(on_exec) })
}

fn flags_of(on_exec: OnExec) -> u32 {
    if on_exec == OnExec::Close { libc::O_CLOEXEC.unsigned_abs() } else { 0 }
}

fn add(listener: BorrowedFd<'_>, add: AddFd) -> rustix::io::Result<i32> {
    // SAFETY: the kernel reads one `struct seccomp_notif_addfd` from there, and takes a reference of its own to the file.
    let number = unsafe { libc::ioctl(listener.as_raw_fd(), ADDFD as _, &raw const add) };
    if number >= 0 { Ok(number) } else { Err(last()) }
}

/// Where somebody runs who was waiting for a call, or for its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wakes {
    /// On the processor of whoever calls or answers: one caller and one listener take turns anyway.
    Here,
    /// Wherever there is room.
    Anywhere,
}

/// Says where.
///
/// # Errors
/// EINVAL before Linux 6.6, where it is anywhere.
pub fn wake(listener: BorrowedFd<'_>, wakes: Wakes) -> rustix::io::Result<()> {
    let flags = if wakes == Wakes::Here { SYNC_WAKE_UP } else { 0 };
    // SAFETY: the argument is a number.
    check(unsafe { libc::ioctl(listener.as_raw_fd(), SET_FLAGS as _, flags) })
}

/// Reads from a thread's memory. What is read may end before `into` does.
///
/// # Errors
/// EFAULT where nothing is mapped, EPERM where the thread cannot be looked at, ESRCH when it has ended.
pub fn read_memory(thread: Pid, address: u64, into: &mut [u8]) -> rustix::io::Result<usize> {
    let local = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    let remote = libc::iovec { iov_base: std::ptr::without_provenance_mut(address as usize), iov_len: into.len() };
    let pid = thread.as_raw_nonzero().get();
    // SAFETY: the kernel writes at most `iov_len` bytes into `into`, and checks the other address itself.
    let read = unsafe { libc::process_vm_readv(pid, &raw const local, 1, &raw const remote, 1, 0) };
    usize::try_from(read).map_err(|_| last())
}

/// The most locks that a process may hold. The kernel stopped counting them long ago, but keeps the number: it goes to
/// children, and whoever has lowered it cannot raise it again.
///
/// # Errors
/// ESRCH when the process has ended.
pub fn most_locks(process: Pid) -> rustix::io::Result<u64> {
    let mut limit = libc::rlimit64 { rlim_cur: 0, rlim_max: 0 };
    let pid = process.as_raw_nonzero().get();
    // SAFETY: no new limit is given, and the kernel writes the present one to `limit`.
    check(unsafe { libc::prlimit64(pid, libc::RLIMIT_LOCKS, std::ptr::null(), &raw mut limit) })?;
    Ok(limit.rlim_max)
}

/// Lowers [`most_locks`] of a process.
///
/// # Errors
/// EPERM for a process of another user, and for a higher number.
pub fn lower_most_locks(process: Pid, most: u64) -> rustix::io::Result<()> {
    let limit = libc::rlimit64 { rlim_cur: most, rlim_max: most };
    let pid = process.as_raw_nonzero().get();
    // SAFETY: the kernel reads `limit`, and no old limit is asked for.
    check(unsafe { libc::prlimit64(pid, libc::RLIMIT_LOCKS, &raw const limit, std::ptr::null_mut()) })
}

/// Gives the calling thread a working directory and a mask for new files of its own.
///
/// # Errors
/// When there is no memory.
pub fn unshare_fs() -> rustix::io::Result<()> {
    // SAFETY: takes a number; what other threads know of directories does not change.
    check(unsafe { libc::unshare(libc::CLONE_FS) })
}

/// From now on the calling thread, when it is woken, lets whoever runs go on until that one waits or has had its time. A thread that has
/// been given another way to be scheduled keeps it.
///
/// # Errors
/// EPERM where something forbids it.
pub fn interrupt_nobody() -> rustix::io::Result<()> {
    let none = libc::sched_param { sched_priority: 0 };
    // SAFETY: the argument is a number, and zero stands for the calling thread; no memory is touched.
    match unsafe { libc::sched_getscheduler(0) } {
        // SAFETY: the kernel reads `none`.
        libc::SCHED_OTHER => check(unsafe { libc::sched_setscheduler(0, libc::SCHED_BATCH, &raw const none) }),
        other => check(other),
    }
}

/// Are two descriptors of this process one open file?
///
/// # Errors
/// ENOSYS on a kernel that compares none, EPERM where something forbids it.
pub fn is_same_file(one: BorrowedFd<'_>, other: BorrowedFd<'_>) -> rustix::io::Result<bool> {
    const KCMP_FILE: i32 = 0;
    let own = rustix::process::getpid().as_raw_nonzero().get();
    let (one, other) = (one.as_raw_fd(), other.as_raw_fd());
    // SAFETY: the call takes five numbers.
    let order = unsafe { libc::syscall(libc::SYS_kcmp, own, own, KCMP_FILE, one, other) };
    check(if order < 0 { -1 } else { 0 }).map(|()| order == 0)
}

/// connect(2), with an address as the caller gave it.
///
/// # Errors
/// What the kernel says.
pub fn connect(socket: BorrowedFd<'_>, address: &[u8]) -> rustix::io::Result<()> {
    let length = u32::try_from(address.len()).map_err(|_| rustix::io::Errno::INVAL)?;
    // SAFETY: the kernel reads `length` bytes from there, and checks what they say.
    check(unsafe { libc::connect(socket.as_raw_fd(), address.as_ptr().cast(), length) })
}

/// bind(2), with an address as the caller gave it.
///
/// # Errors
/// What the kernel says.
pub fn bind(socket: BorrowedFd<'_>, address: &[u8]) -> rustix::io::Result<()> {
    let length = u32::try_from(address.len()).map_err(|_| rustix::io::Errno::INVAL)?;
    // SAFETY: the kernel reads `length` bytes from there, and checks what they say.
    check(unsafe { libc::bind(socket.as_raw_fd(), address.as_ptr().cast(), length) })
}

/// truncate(2).
///
/// # Errors
/// What the kernel says.
pub fn truncate(path: &std::ffi::CStr, length: i64) -> rustix::io::Result<()> {
    // SAFETY: the path ends in NUL.
    check(unsafe { libc::truncate64(path.as_ptr(), length) })
}

/// mknodat(2), with a mode and a device as the caller gave them.
///
/// # Errors
/// What the kernel says.
pub fn mknodat(dir: BorrowedFd<'_>, name: &std::ffi::CStr, mode: u32, device: u64) -> rustix::io::Result<()> {
    // The kernel takes the device's number as 32 bits.
    let (fd, number) = (dir.as_raw_fd(), libc::SYS_mknodat);
    // SAFETY: the name ends in NUL.
    let made = unsafe { libc::syscall(number, fd, name.as_ptr(), mode, device as u32) };
    if made == 0 { Ok(()) } else { Err(last()) }
}

fn check(result: libc::c_int) -> rustix::io::Result<()> {
    if result >= 0 { Ok(()) } else { Err(last()) }
}

fn last() -> rustix::io::Errno {
    rustix::io::Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(rustix::io::Errno::IO)
}
