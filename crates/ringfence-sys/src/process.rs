//! Processes: making one, becoming another program, giving up rights.
//!
//! What runs in a new process before it becomes another program allocates nothing and takes no locks: see [`clone_process`].

use std::ffi::{CStr, CString, c_char};
use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::process::{Pid, Resource, Rlimit, Signal, WaitOptions};

use crate::descriptors;

/// Which namespaces a new process gets, as the kernel's own bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Namespaces(u64);

impl Namespaces {
    /// A plain child.
    pub const NONE: Self = Self(0);
    /// Mounts, processes, IPC, host name, network and cgroups.
    pub const FENCE: Self = Self(
        (libc::CLONE_NEWNS
            | libc::CLONE_NEWPID
            | libc::CLONE_NEWIPC
            | libc::CLONE_NEWUTS
            | libc::CLONE_NEWNET
            | libc::CLONE_NEWCGROUP) as u64,
    );

    /// The same, owned by a user namespace of its own: what an ordinary user needs.
    #[must_use]
    pub const fn with_user(self) -> Self {
        Self(self.0 | libc::CLONE_NEWUSER as u64)
    }
}

/// Of clone3 only; the C library's constant does not fit its own type.
const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;

/// A new process.
#[derive(Debug)]
pub struct Child {
    /// Its number, seen from here.
    pub pid: Pid,
    /// A handle that no other process can take over.
    pub pidfd: OwnedFd,
}

impl Child {
    /// Kills it, unless it has ended, and collects it. For a child that nothing has waited for. Where the kernel collects children by
    /// itself, since the caller ignores `SIGCHLD`, this waits for its end as well. Allocates nothing.
    pub fn end(&self) {
        let wait = |options| rustix::io::retry_on_intr(|| rustix::process::waitpid(Some(self.pid), options));
        let killed = match rustix::process::pidfd_send_signal(&self.pidfd, Signal::KILL) {
            Ok(()) => true,
            // A filter may refuse that call. The number is the child's as long as the child is there to be waited for.
            Err(_) => {
                matches!(wait(WaitOptions::NOHANG), Ok(None))
                    && rustix::process::kill_process(self.pid, Signal::KILL).is_ok()
            }
        };
        // What cannot be killed may not end.
        let _ = wait(if killed { WaitOptions::empty() } else { WaitOptions::NOHANG });
    }
}

/// Makes a process in new namespaces that runs `main` and ends with the code it returns.
///
/// `main` runs in a copy of this process: it must not allocate, print or panic. Locks held elsewhere would be held forever
/// in the copy, so this is refused in a process with several threads.
///
/// # Errors
/// When there are several threads, or when clone3 fails; `ENOSPC` and `EPERM` mean that namespaces are not to be had here.
pub fn clone_process(namespaces: Namespaces, main: impl FnOnce() -> u8) -> io::Result<Child> {
    if has_threads().unwrap_or(false) {
        return Err(io::Error::other("a process with several threads cannot be copied safely"));
    }
    clone_into(namespaces, None, main)
}

/// The same in a process that may have several threads, and the process begins in this control group: a descriptor of its
/// directory.
///
/// Of the threads only the calling one is in the copy. What another one had locked stays locked there, also inside the
/// allocator: a `main` that allocates, or takes any lock, may wait for ever. Whatever is called in there says of itself that
/// it allocates nothing.
///
/// # Errors
/// When clone3 fails, with `EACCES` where the caller may not move processes to the group.
pub fn clone_into(
    namespaces: Namespaces,
    cgroup: Option<BorrowedFd<'_>>,
    main: impl FnOnce() -> u8,
) -> io::Result<Child> {
    let mut pidfd: RawFd = -1;
    let pid = copy(namespaces, cgroup, &mut pidfd);
    match i32::try_from(pid) {
        Ok(0) => {
            let code = main();
            // SAFETY: ends the copy at once; the buffers and exit handlers belong to the original.
            unsafe { libc::_exit(i32::from(code)) }
        }
        Ok(pid) if pid > 0 => {
            // SAFETY: clone3 with CLONE_PIDFD stored a descriptor there that nobody else owns.
            let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
            let pid = Pid::from_raw(pid).ok_or_else(|| io::Error::other("clone3 returned no process"))?;
            Ok(Child { pid, pidfd })
        }
        _ => Err(io::Error::last_os_error()),
    }
}

/// clone3, or clone where a filter hides clone3, as ours and those of container engines do: they cannot see its flags. A plain
/// child needs none of them.
fn copy(namespaces: Namespaces, cgroup: Option<BorrowedFd<'_>>, pidfd: &mut RawFd) -> libc::c_long {
    let flags = namespaces.0 | libc::CLONE_PIDFD as u64;
    if namespaces != Namespaces::NONE || cgroup.is_some() {
        // SAFETY: clone_args is a plain struct of integers, for which zero is a value.
        let mut args: libc::clone_args = unsafe { std::mem::zeroed() };
        args.flags = flags;
        args.pidfd = &raw mut *pidfd as u64;
        args.exit_signal = libc::SIGCHLD as u64;
        if let Some(cgroup) = cgroup {
            args.flags |= CLONE_INTO_CGROUP;
            args.cgroup = u64::from(cgroup.as_raw_fd().unsigned_abs());
        }
        // SAFETY: without a stack the child goes on here on a copy of ours, as after fork; what it runs takes no lock that another
        // thread may have held. The arguments and the place for the descriptor outlive the call.
        let pid = unsafe { libc::syscall(libc::SYS_clone3, &raw const args, size_of::<libc::clone_args>()) };
        // What is to be limited does not start without its limits.
        if pid >= 0 || cgroup.is_some() || io::Error::last_os_error().raw_os_error() != Some(libc::ENOSYS) {
            return pid;
        }
    }
    let flags = flags | libc::SIGCHLD as u64;
    let (no_stack, no_tls, place) = (0_usize, 0_usize, &raw mut *pidfd);
    // SAFETY: as above; with CLONE_PIDFD the third argument is where the descriptor is stored, and the last two are not used.
    unsafe { libc::syscall(libc::SYS_clone, flags, no_stack, place, no_tls, no_tls) }
}

/// Does this process have several threads? A copy of one that has none may allocate.
///
/// # Errors
/// When `/proc` cannot be looked at.
pub fn has_threads() -> io::Result<bool> {
    // One name for each thread, beside the two that every directory has.
    Ok(rustix::fs::stat(c"/proc/self/task")?.st_nlink > 3)
}

/// A program and what it is started with, ready for the kernel.
#[derive(Debug)]
pub struct Program {
    words: Words,
    /// Lead into the words above.
    arguments: Vec<*const c_char>,
    environment: Vec<*const c_char>,
}

/// What a program is started with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Words {
    /// The files to try, in order.
    pub candidates: Vec<CString>,
    /// From its own name on.
    pub arguments: Vec<CString>,
    /// `NAME=value`.
    pub environment: Vec<CString>,
}

impl Program {
    /// Lays everything out before the fork.
    pub fn new(words: Words) -> Self {
        let pointers = |strings: &[CString]| {
            strings.iter().map(|s| s.as_ptr()).chain([std::ptr::null()]).collect::<Vec<*const c_char>>()
        };
        // A CString's bytes stay where they are when the CString moves.
        let (arguments, environment) = (pointers(&words.arguments), pointers(&words.environment));
        Self { words, arguments, environment }
    }

    /// What it was made of.
    pub fn words(&self) -> &Words {
        &self.words
    }

    /// Becomes the first candidate that can be executed. Returns only on failure: `EACCES` if one was there but could not be
    /// executed, else the last error. Allocates nothing.
    pub fn exec(&self) -> io::Error {
        let mut worst = libc::ENOENT;
        for candidate in &self.words.candidates {
            // SAFETY: the path ends in NUL; both arrays end in a null pointer and lead to strings that `self` keeps alive.
            unsafe { libc::execve(candidate.as_ptr(), self.arguments.as_ptr(), self.environment.as_ptr()) };
            let errno = io::Error::last_os_error().raw_os_error().unwrap_or(libc::ENOENT);
            if !matches!(errno, libc::ENOENT | libc::ENOTDIR) {
                worst = errno;
            }
        }
        io::Error::from_raw_os_error(worst)
    }
}

/// Closes every descriptor from `first` on when the process becomes another program. Where the kernel has no close_range with this
/// flag (before 5.11), or a filter refuses it, the descriptors are marked one by one. Allocates nothing.
///
/// # Errors
/// When `/proc/self/fd` has to be read and cannot be.
pub fn close_on_exec_from(first: RawFd) -> io::Result<()> {
    mark_range_close_on_exec(first).or_else(|_| {
        descriptors::for_each_open(first, |fd| {
            // SAFETY: takes two integers and a flag; marking a descriptor changes no memory.
            let done = unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) };
            if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
        })
    })
}

/// Does this kernel have `close_range` with `CLOSE_RANGE_CLOEXEC`, and does no filter refuse it?
///
/// # Errors
/// `ENOSYS` before Linux 5.9, `EINVAL` before 5.11; what a filter answers.
pub fn has_close_range() -> io::Result<()> {
    // No process has descriptors with such numbers, so nothing changes.
    mark_range_close_on_exec(1 << 30)
}

fn mark_range_close_on_exec(first: RawFd) -> io::Result<()> {
    // SAFETY: takes three integers; marking descriptors changes no memory.
    let done = unsafe { libc::syscall(libc::SYS_close_range, first, u32::MAX, libc::CLOSE_RANGE_CLOEXEC) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Gives up every capability that a program could bring. It takes one itself, so it comes before another identity does.
/// Allocates nothing.
///
/// # Errors
/// When the caller has no right to, or the kernel refuses.
pub fn drop_bounding_set() -> io::Result<()> {
    // The kernel says EINVAL at the first number it does not know. Every kernel that this runs on knows those up to CAP_AUDIT_READ
    // (Linux 3.16); at one of them EINVAL is a failure.
    const LAST_OLD: libc::c_int = 37;
    for capability in 0..64 {
        // SAFETY: prctl with these arguments reads only integers.
        let dropped = unsafe { libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0) };
        if dropped != 0 {
            let cause = io::Error::last_os_error();
            if cause.raw_os_error() == Some(libc::EINVAL) && capability > LAST_OLD {
                break;
            }
            return Err(cause);
        }
    }
    Ok(())
}

/// Gives up every capability that the process has. Allocates nothing.
///
/// # Errors
/// When the kernel refuses one of the calls.
pub fn drop_capabilities() -> io::Result<()> {
    // SAFETY: prctl with these arguments reads only integers.
    let cleared = unsafe { libc::prctl(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) };
    if cleared != 0 {
        return Err(io::Error::last_os_error());
    }
    let none = rustix::thread::CapabilitySets {
        effective: rustix::thread::CapabilitySet::empty(),
        permitted: rustix::thread::CapabilitySet::empty(),
        inheritable: rustix::thread::CapabilitySet::empty(),
    };
    Ok(rustix::thread::set_capabilities(None, none)?)
}

/// Becomes another user and group, with no further groups. Allocates nothing.
///
/// # Errors
/// When the caller may not.
pub fn become_user(uid: u32, gid: u32) -> io::Result<()> {
    // SAFETY: a length of zero makes the kernel read no memory.
    if unsafe { libc::syscall(libc::SYS_setgroups, 0, std::ptr::null::<libc::gid_t>()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: takes three integers.
    if unsafe { libc::syscall(libc::SYS_setresgid, gid, gid, gid) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: takes three integers.
    if unsafe { libc::syscall(libc::SYS_setresuid, uid, uid, uid) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Moves into a user namespace of one's own. Allocates nothing.
///
/// # Errors
/// When the host allows none.
pub fn unshare_user() -> io::Result<()> {
    // SAFETY: takes a number; no memory is shared with another thread whose rights would now differ.
    if unsafe { libc::unshare(libc::CLONE_NEWUSER) } == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Moves into a mount namespace of one's own, a copy of the present one. Allocates nothing.
///
/// # Errors
/// When the caller has no right to.
pub fn unshare_mounts() -> io::Result<()> {
    // SAFETY: takes a number; the caller is a process of one thread, and nothing in memory changes.
    if unsafe { libc::unshare(libc::CLONE_NEWNS) } == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Moves into a network namespace of one's own, in which there is nothing yet. Allocates nothing.
///
/// # Errors
/// When the caller has no right to.
pub fn unshare_network() -> io::Result<()> {
    // SAFETY: takes a number; nothing in memory changes.
    if unsafe { libc::unshare(libc::CLONE_NEWNET) } == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Moves into a user, a mount or a network namespace, by a descriptor of it. Allocates nothing.
///
/// # Errors
/// When the caller has no right to, or has several threads.
pub fn enter_namespace(namespace: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: takes two numbers; of a process with one thread nothing in memory changes.
    if unsafe { libc::setns(namespace.as_raw_fd(), 0) } == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Writes to a file that is there, in one call. Allocates nothing.
///
/// # Errors
/// When it cannot be opened, or does not take all of it at once.
pub fn write_file(path: &CStr, bytes: &[u8]) -> io::Result<()> {
    write_file_at(rustix::fs::CWD, path, bytes)
}

/// The same, in a directory. Allocates nothing.
///
/// # Errors
/// As [`write_file`].
pub fn write_file_at(dir: BorrowedFd<'_>, path: &CStr, bytes: &[u8]) -> io::Result<()> {
    let flags = rustix::fs::OFlags::WRONLY | rustix::fs::OFlags::CLOEXEC;
    let file = rustix::fs::openat(dir, path, flags, rustix::fs::Mode::empty())?;
    let written = rustix::io::write(&file, bytes)?;
    if written == bytes.len() { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
}

/// The signal that ends this process when its parent does. Allocates nothing.
///
/// # Errors
/// When the kernel refuses.
pub fn die_with_parent() -> io::Result<()> {
    Ok(rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?)
}

/// Signals that a caller ignores on purpose, for the command as well: `nohup` the first, a shell without job control the others
/// of what it starts in the background.
const MEANT_FOR_COMMAND: [libc::c_int; 3] = [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT];

/// Sets every signal to its default disposition and unblocks all of them: what a program expects to start with. `SIGHUP`,
/// `SIGINT` and `SIGQUIT` stay ignored where they are, so that `nohup` and `&` mean what they say. Allocates nothing.
pub fn reset_signals() {
    for signal in 1..=64 {
        if !(MEANT_FOR_COMMAND.contains(&signal) && is_number_ignored(signal)) {
            set_default(signal);
        }
    }
    unblock_all();
}

/// The first thing that a program does which waits for its children: undoes what its caller passed on across `execve`. An
/// ignored `SIGCHLD` has the kernel collect children by itself, so that `waitpid` never returns one; a blocked `SIGTERM` never
/// arrives. Ignored signals that are meant for the command, or that keep a background job from being stopped, stay ignored.
///
/// `SIGXFSZ` is ignored: beyond `RLIMIT_FSIZE` a write fails with `EFBIG`, which can be reported, and does not end the process.
pub fn adopt_own_signals() {
    let kept = [libc::SIGPIPE, libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU];
    for signal in 1..=64 {
        // The handlers of the Rust runtime (stack overflow) are no concern of the caller's.
        if is_number_ignored(signal) && !MEANT_FOR_COMMAND.contains(&signal) && !kept.contains(&signal) {
            set_default(signal);
        }
    }
    // SAFETY: SIG_IGN is a value that needs no code of ours.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
    unblock_all();
}

/// Does this process ignore a signal? Allocates nothing.
#[must_use]
pub fn is_ignored(signal: rustix::process::Signal) -> bool {
    is_number_ignored(signal.as_raw())
}

/// Sets a signal to its default disposition. Allocates nothing.
pub fn default_signal(signal: rustix::process::Signal) {
    set_default(signal.as_raw());
}

fn is_number_ignored(signal: libc::c_int) -> bool {
    let mut found = std::mem::MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: a null pointer asks for no change, and `found` has room for one action, which the call writes on success.
    let asked = unsafe { libc::sigaction(signal, std::ptr::null(), found.as_mut_ptr()) };
    // SAFETY: it is only read where the call returned 0, so it wrote the whole of it.
    asked == 0 && unsafe { found.assume_init() }.sa_sigaction == libc::SIG_IGN
}

fn set_default(signal: libc::c_int) {
    // SAFETY: SIG_DFL is a value that needs no code of ours; signals that cannot be set are refused, which is fine.
    unsafe { libc::signal(signal, libc::SIG_DFL) };
}

fn unblock_all() {
    // SAFETY: sigset_t is a plain bit set, for which zero is the empty one.
    let none: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: the set is valid for the call and no old set is asked for.
    unsafe { libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut()) };
}

/// The mask that a supervisor makes its own files with: the state of a session is written by its owner alone.
const OWN_UMASK: u32 = 0o022;
/// No mask: it has nine bits.
const NONE_TAKEN: u32 = u32::MAX;
/// The caller's mask, while this process has one of its own.
static CALLERS_UMASK: AtomicU32 = AtomicU32::new(NONE_TAKEN);

/// Takes a mask for new files of our own, whatever the caller's is: with 0 everybody could write what a session is given, and with
/// 0777 its directory could not be entered. What belongs to the user gets the caller's back: see [`restore_callers_umask`].
pub fn adopt_own_umask() {
    let callers = rustix::process::umask(rustix::fs::Mode::from_raw_mode(OWN_UMASK)).as_raw_mode();
    let _ = CALLERS_UMASK.compare_exchange(NONE_TAKEN, callers, Ordering::SeqCst, Ordering::SeqCst);
}

/// Gives a command, or what is written for the user, the mask of the caller again. Allocates nothing.
pub fn restore_callers_umask() {
    let callers = CALLERS_UMASK.load(Ordering::SeqCst);
    if callers != NONE_TAKEN {
        rustix::process::umask(rustix::fs::Mode::from_raw_mode(callers));
    }
}

/// The mask of the caller: the one that a command has to have.
pub fn callers_umask() -> rustix::fs::Mode {
    match CALLERS_UMASK.load(Ordering::SeqCst) {
        NONE_TAKEN => {
            // It can only be read by changing it.
            let mask = rustix::process::umask(rustix::fs::Mode::empty());
            rustix::process::umask(mask);
            mask
        }
        callers => rustix::fs::Mode::from_raw_mode(callers),
    }
}

/// Lets a program start with the caller's mask.
pub fn with_callers_umask(command: &mut std::process::Command) -> &mut std::process::Command {
    use std::os::unix::process::CommandExt as _;
    let restore = || {
        restore_callers_umask();
        Ok(())
    };
    // SAFETY: the closure runs in the child before exec; it reads an atomic number and makes one system call.
    unsafe { command.pre_exec(restore) }
}

/// Puts a descriptor in the place of another. Allocates nothing.
///
/// # Errors
/// When the kernel refuses.
pub fn put_at(from: BorrowedFd<'_>, place: RawFd) -> io::Result<()> {
    if from.as_raw_fd() == place {
        return Ok(());
    }
    // SAFETY: both are numbers; what stood at `place` belongs to nobody else in the copied process.
    if unsafe { libc::dup2(from.as_raw_fd(), place) } < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Makes a plain child of a process that [`clone_process`] made: it has one thread, so nothing is checked, and nothing is
/// allocated.
///
/// # Errors
/// What fork says.
pub fn fork_in_copy(main: impl FnOnce() -> u8) -> io::Result<Pid> {
    // SAFETY: the caller is a process with one thread, so the copy holds no lock that nobody would release.
    let pid = unsafe { libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) };
    match i32::try_from(pid) {
        Ok(0) => {
            let code = main();
            // SAFETY: ends the copy at once; the buffers and exit handlers belong to the original.
            unsafe { libc::_exit(i32::from(code)) }
        }
        Ok(pid) if pid > 0 => Pid::from_raw(pid).ok_or_else(|| io::Error::other("clone returned no process")),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Ends a process that [`clone_process`] made, whatever its other threads do.
pub fn end_copy(code: u8) -> ! {
    // SAFETY: ends the copy at once; the buffers and exit handlers belong to the original.
    unsafe { libc::_exit(i32::from(code)) }
}

/// The same for a child that becomes a program: it works in the caller's own memory, which is not copied, and the caller waits
/// until it has become the program or has ended. What is kept with the memory, such as whether others may look into it, is one
/// for both until then: `main` must not change it. Nor can it make a user namespace.
///
/// # Errors
/// What clone says.
pub fn spawn_in_copy<F: FnOnce() -> u8>(main: F) -> io::Result<Pid> {
    /// What is run there is a list of calls into the kernel, with a page at most for their arguments.
    #[repr(align(16))]
    struct Stack([std::mem::MaybeUninit<u8>; 64 << 10]);

    extern "C" fn enter<F: FnOnce() -> u8>(main: *mut libc::c_void) -> libc::c_int {
        // SAFETY: this is the place that was handed to clone, and its owner waits.
        let main = unsafe { &mut *main.cast::<Option<F>>() };
        let code = main.take().map_or(125, |main| main());
        // SAFETY: ends the child at once; the buffers and exit handlers belong to the caller.
        unsafe { libc::_exit(i32::from(code)) }
    }

    let mut stack = Stack([const { std::mem::MaybeUninit::uninit() }; 64 << 10]);
    let mut main = Some(main);
    let top = stack.0.as_mut_ptr_range().end.cast::<libc::c_void>();
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
    let place = (&raw mut main).cast::<libc::c_void>();
    // SAFETY: with CLONE_VFORK the caller waits until the child no longer uses its memory, so the stack and `main` outlive that;
    // the caller has one thread, so nobody else sees what the child does there. The stack grows down from an aligned end.
    let pid = unsafe { libc::clone(enter::<F>, top, flags, place) };
    // A failure is -1, which is no process and must not be made one.
    match (pid > 0).then(|| Pid::from_raw(pid)).flatten() {
        Some(pid) => Ok(pid),
        None => Err(io::Error::last_os_error()),
    }
}

/// Kills every other process of the namespace, where this is the first one of it. Anywhere else it does nothing.
pub fn kill_all_others() {
    if rustix::process::getpid().is_init() {
        // SAFETY: takes two numbers. For the first process of a namespace -1 means all others in it, and none outside.
        let _ = unsafe { libc::kill(-1, libc::SIGKILL) };
    }
}

/// A limit of this process. The kernel always answers, but a seccomp filter around it may not let it, and `rustix::process::getrlimit`
/// then panics, or returns what was in memory. Allocates nothing.
///
/// # Errors
/// What a filter answers.
pub fn getrlimit(resource: Resource) -> io::Result<Rlimit> {
    // `struct rlimit64`: the soft and the hard limit.
    let mut limit = [0_u64; 2];
    let old = limit.as_mut_ptr();
    // SAFETY: there is no new limit, and the kernel writes the old one, two numbers of 64 bits, to where `old` points.
    let done = unsafe { libc::syscall(libc::SYS_prlimit64, 0, resource as u32, std::ptr::null::<u64>(), old) };
    if done != 0 {
        return Err(io::Error::last_os_error());
    }
    let [current, maximum] = limit.map(|most| (most != u64::MAX).then_some(most));
    Ok(Rlimit { current, maximum })
}

/// Closes a descriptor that this copy of a process has and does not use. Allocates nothing.
pub fn close(fd: RawFd) {
    // SAFETY: only closes a number; in the copied process nothing else refers to it.
    unsafe { libc::close(fd) };
}

/// Closes every descriptor from 3 on but these: one by one where the kernel has no close_range (before 5.9) or a filter refuses it.
/// Allocates nothing.
///
/// # Errors
/// When `/proc/self/fd` has to be read and cannot be.
pub fn close_all_but(keep: &mut [RawFd]) -> io::Result<()> {
    keep.sort_unstable();
    close_gaps(keep).or_else(|_| {
        descriptors::for_each_open(3, |fd| {
            if keep.binary_search(&fd).is_err() {
                close(fd);
            }
            Ok(())
        })
    })
}

/// `keep` is sorted.
fn close_gaps(keep: &[RawFd]) -> io::Result<()> {
    let mut next: RawFd = 3;
    for fd in keep {
        if *fd > next {
            close_range(next, *fd - 1)?;
        }
        next = next.max(*fd + 1);
    }
    close_range(next, RawFd::MAX)
}

fn close_range(first: RawFd, last: RawFd) -> io::Result<()> {
    // SAFETY: takes three integers; in the copied process nothing else refers to these descriptors.
    let done = unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Lets a descriptor come along when the process becomes another program. Allocates nothing.
///
/// # Errors
/// When it is not open.
pub fn keep_on_exec(fd: BorrowedFd<'_>) -> io::Result<()> {
    Ok(rustix::io::fcntl_setfd(fd, rustix::io::FdFlags::empty())?)
}

/// Takes over a descriptor that whoever started this program left open, by number.
///
/// # Errors
/// When it is not open, or one of the three standard ones.
pub fn inherited(number: RawFd) -> io::Result<OwnedFd> {
    if number < 3 {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: only asks for a flag of a number.
    if unsafe { libc::fcntl(number, libc::F_GETFD) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: it is open, and this program, which has just begun, has made no descriptor of this number itself.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// One of the three standard descriptors, by number.
pub fn standard(number: RawFd) -> BorrowedFd<'static> {
    // SAFETY: 0, 1 and 2 stay open for the life of a process that [`clone_process`] made; a closed one gives EBADF.
    unsafe { BorrowedFd::borrow_raw(number) }
}

#[cfg(test)]
mod tests {

    use super::*;

    fn code_of(pid: Pid) -> Option<i32> {
        let (_, status) = rustix::process::waitpid(Some(pid), WaitOptions::empty()).unwrap().unwrap();
        status.exit_status()
    }

    /// The caller goes on only when the child has ended, and sees what it did to their memory.
    #[test]
    fn a_child_in_the_same_memory() {
        let mut seen = 0;
        let pid = spawn_in_copy(|| {
            seen = 7;
            3
        });
        assert_eq!(seen, 7);
        assert_eq!(code_of(pid.unwrap()), Some(3));
    }

    /// One that becomes a program leaves the caller's memory as it was, and takes no descriptor with it.
    #[test]
    fn a_child_that_becomes_a_program() {
        let program = Program::new(Words {
            candidates: vec![c"/nowhere/sh".into(), c"/bin/sh".into()],
            arguments: vec![c"sh".into(), c"-c".into(), c"exit 5".into()],
            environment: Vec::new(),
        });
        let pid = spawn_in_copy(|| {
            let _ = program.exec();
            9
        });
        assert_eq!(code_of(pid.unwrap()), Some(5));
        let missing = Program::new(Words { candidates: vec![c"/nowhere".into()], ..program.words().clone() });
        let mut errno = None;
        let pid = spawn_in_copy(|| {
            errno = missing.exec().raw_os_error();
            9
        });
        assert_eq!((code_of(pid.unwrap()), errno), (Some(9), Some(libc::ENOENT)));
    }
}
