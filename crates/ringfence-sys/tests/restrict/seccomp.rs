//! The filters on the real kernel: each refused call fails with exactly its error, ordinary programs run.

use std::io;
use std::process::Command;
use std::time::Instant;

use ringfence_plan::{ArgTest, Errno, Fence, SyscallAction, syscalls};
use ringfence_sys::bpf::{self, Arch, Program};
use ringfence_sys::seccomp::{self, Flags, NEWEST};

use crate::child::{Who, everybody, expect_silence, in_child};

fn filter(fence: Fence) -> Program {
    seccomp::compile(&syscalls(fence)).expect("the built-in rules compile").program
}

/// Installs a filter for a fence, or complains.
fn fence(program: &Program) -> Vec<String> {
    let installed = rustix::thread::set_no_new_privs(true).map_err(io::Error::from);
    match installed.and_then(|()| seccomp::install(program, Flags::NONE)) {
        Ok(()) => Vec::new(),
        Err(cause) => vec![format!("the filter cannot be installed: {cause}")],
    }
}

/// Makes a call and returns its error, 0 for none.
fn errno(number: u32, args: [u64; 6]) -> i32 {
    let [a, b, c, d, e, f] = args;
    // SAFETY: the callers pass arguments with which the kernel fails before it does anything or reads through a pointer: -1,
    // or a number that names nothing. Without a filter each of these calls fails with EFAULT, EBADF or EINVAL.
    let result = unsafe { libc::syscall(libc::c_long::from(number), a, b, c, d, e, f) };
    if result == -1 { io::Error::last_os_error().raw_os_error().unwrap_or(0) } else { 0 }
}

fn number(name: &str) -> u32 {
    seccomp::number(name).expect("a call with a number")
}

/// What is refused whatever its arguments: each is tried.
#[test]
fn each_refused_call_fails_with_its_error() {
    for which in [Fence::Namespaces, Fence::NestedNamespaces, Fence::LandlockOnly, Fence::SessionNamespaces] {
        let program = filter(which);
        let rules = syscalls(which);
        let refused: Vec<(&str, u32, u16)> = rules
            .iter()
            .filter_map(|rule| match rule.action {
                SyscallAction::Errno(errno) if rule.when.is_empty() => Some((rule.name, number(rule.name), errno.0)),
                _ => None,
            })
            // -1 as flags: a process in every namespace; -1 as a personality: a question; -1 as a socket's type: the kernel's to refuse.
            .filter(|(name, ..)| !matches!(*name, "personality" | "socket" | "socketpair"))
            .collect();
        assert!(refused.len() >= 25, "{} calls", refused.len());
        for who in everybody() {
            let complaints = in_child(who, || {
                let mut complaints = fence(&program);
                for (name, number, expected) in &refused {
                    let got = errno(*number, [u64::MAX; 6]);
                    if got != i32::from(*expected) {
                        complaints.push(format!("{name}: errno {got}, not {expected}"));
                    }
                }
                complaints
            });
            expect_silence(who, &complaints);
        }
    }
}

#[track_caller]
fn check(which: Fence, calls: &[(&str, [u64; 3], i32)]) {
    let program = filter(which);
    for who in everybody() {
        let complaints = in_child(who, || {
            let mut complaints = fence(&program);
            for (name, [a, b, c], expected) in calls {
                let got = errno(number(name), [*a, *b, *c, 0, 0, 0]);
                if got != *expected {
                    complaints.push(format!("{name}({a:#x}, {b:#x}, {c:#x}): errno {got}, not {expected}"));
                }
            }
            complaints
        });
        expect_silence(who, &complaints);
    }
}

#[test]
fn arguments_decide() {
    let high = 0xdead_beef << 32;
    let no_fd = u64::MAX;
    check(
        Fence::Namespaces,
        &[
            ("socket", [1, 1, 0], 0),
            ("socket", [2, 1, 0], 0),
            ("socket", [10, 0x80001, 6], 0),
            ("socket", [2, 2, 0], 0),
            ("socket", [16, 0x80003, 0], 0),
            ("socket", [high | 2, high | 1, high], 0),
            ("socket", [2, 3, 1], libc::EPERM),
            ("socket", [17, 3, 0], libc::EPERM),
            ("socket", [17, 2, 0], libc::EAFNOSUPPORT),
            ("socket", [38, 5, 0], libc::EAFNOSUPPORT),
            ("socket", [40, 1, 0], libc::EAFNOSUPPORT),
            ("socket", [high | 40, 1, 0], libc::EAFNOSUPPORT),
            ("socket", [16, 2, 15], libc::EAFNOSUPPORT),
            ("socket", [2, 1, 262], libc::EPROTONOSUPPORT),
            ("socketpair", [2, 1, 0], libc::EOPNOTSUPP),
            ("socketpair", [30, 1, 0], libc::EAFNOSUPPORT),
            ("socket", [2, 75, 0], libc::EINVAL),
            ("socket", [40, 15, 0], libc::EINVAL),
            ("socketpair", [2, 75, 0], libc::EINVAL),
            ("socket", [2, 4, 0], libc::ESOCKTNOSUPPORT),
            ("ioctl", [no_fd, 0x5412, 0], libc::EPERM),
            ("ioctl", [no_fd, high | 0x5412, 0], libc::EPERM),
            ("ioctl", [no_fd, high | 0x541c, 0], libc::EPERM),
            ("ioctl", [no_fd, 0x5413, 0], libc::EBADF),
            // A snapshot of btrfs, and a copy that shares what it holds.
            ("ioctl", [no_fd, 0x5000_9401, 0], libc::EPERM),
            ("ioctl", [no_fd, high | 0x5000_9417, 0], libc::EPERM),
            ("ioctl", [no_fd, 0x4004_9409, 0], libc::EBADF),
            // A new namespace and a shared root directory do not go together: without the filter EINVAL.
            ("clone", [0x2_0200, 0, 0], libc::EPERM),
            ("clone", [high | 0x2_0200, 0, 0], libc::EPERM),
            ("unshare", [0x1000_0000, 0, 0], libc::EPERM),
            ("unshare", [0x80, 0, 0], libc::EPERM),
            ("unshare", [0x600, 0, 0], 0),
            ("personality", [0xffff_ffff, 0, 0], 0),
            ("personality", [0x4_0000, 0, 0], 0),
            ("personality", [0, 0, 0], 0),
            ("personality", [0x40_0000, 0, 0], libc::EPERM),
            ("personality", [high | 0x40_0000, 0, 0], libc::EPERM),
        ],
    );
    check(
        Fence::NestedNamespaces,
        &[
            ("mount", [no_fd, no_fd, no_fd], libc::EFAULT),
            ("clone", [0x2_0200, 0, 0], libc::EINVAL),
            ("clone3", [0, 0, 0], libc::EINVAL),
            ("setns", [no_fd, 0, 0], libc::EBADF),
            ("keyctl", [no_fd, 0, 0], libc::EPERM),
        ],
    );
    check(
        Fence::LandlockOnly,
        &[
            ("socket", [1, 1, 0], libc::EPERM),
            ("socket", [2, 1, 0], libc::EAFNOSUPPORT),
            ("socket", [2, 2, 0], libc::EAFNOSUPPORT),
            ("socket", [10, 2, 17], libc::EAFNOSUPPORT),
            ("socketpair", [1, 2, 0], libc::EPROTONOSUPPORT),
            ("socketpair", [1, 1, 0], libc::EFAULT),
            ("sendmsg", [no_fd, 0, 0], libc::EBADF),
        ],
    );
}

/// Numbers that nobody has looked at, and the x32 calls: as if the kernel did not have them. Without the filter the x32 number
/// of getpid works where the kernel has x32.
#[test]
fn unknown_calls_do_not_exist() {
    for which in [Fence::Namespaces, Fence::NestedNamespaces, Fence::LandlockOnly, Fence::SessionNamespaces] {
        let program = filter(which);
        for who in everybody() {
            let complaints = in_child(who, || {
                let mut complaints = fence(&program);
                for number in [NEWEST + 1, NEWEST + 100, 512, 0x4000_0000 | 39, 0x7fff_ffff] {
                    let got = errno(number, [u64::MAX; 6]);
                    if got != libc::ENOSYS {
                        complaints.push(format!("call {number}: errno {got}"));
                    }
                }
                complaints
            });
            expect_silence(who, &complaints);
        }
    }
}

/// The 32-bit entry of AMD64 has other numbers for everything: none of them is answered, and nobody is killed for asking.
#[cfg(target_arch = "x86_64")]
#[test]
fn the_32_bit_entry_has_no_calls() {
    fn getpid_by_interrupt() -> i64 {
        let number: i64 = 20;
        let result: i64;
        // SAFETY: interrupt 0x80 with number 20 is getpid: it reads no memory and changes rax only. r8 to r11 are not kept by
        // some kernels on this entry.
        unsafe {
            std::arch::asm!("int 0x80", inlateout("rax") number => result, out("r8") _, out("r9") _, out("r10") _, out("r11") _);
        }
        result
    }
    let program = filter(Fence::Namespaces);
    let complaints = in_child(Who::Caller, || {
        let complaints = fence(&program);
        if complaints.is_empty() { vec![format!("getpid said {}", getpid_by_interrupt())] } else { complaints }
    });
    assert_eq!(complaints, [format!("getpid said {}", -libc::ENOSYS)]);
}

/// What developers type runs under every filter.
#[test]
fn ordinary_programs_run() {
    let programs: &[(&str, &[&str])] = &[
        ("/bin/sh", &["-c", "echo a | cat | grep -q a && (exit 0) && test -d /proc/self"]),
        ("git", &["--version"]),
        (
            "/usr/bin/python3",
            &[
                "-c",
                "import subprocess, socket, threading, multiprocessing, asyncio\n\
                subprocess.run(['true'], check=True)\n\
                t = threading.Thread(target=lambda: None); t.start(); t.join()\n\
                socket.socketpair()\n\
                asyncio.run(asyncio.sleep(0))",
            ],
        ),
        ("ls", &["-l", "/usr"]),
        ("find", &["/etc", "-maxdepth", "1", "-name", "passwd"]),
        ("tar", &["-cf", "/dev/null", "-C", "/etc", "passwd"]),
        ("cc", &["--version"]),
        ("getent", &["hosts", "localhost"]),
        ("setarch", &["-R", "true"]),
    ];
    for which in [Fence::Namespaces, Fence::NestedNamespaces, Fence::LandlockOnly, Fence::SessionNamespaces] {
        let program = filter(which);
        for who in everybody() {
            let complaints = in_child(who, || {
                let mut complaints = fence(&program);
                for (name, arguments) in programs {
                    let mut command = Command::new(name);
                    command.args(*arguments).current_dir("/").env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin");
                    match command.output() {
                        Ok(output) if output.status.success() => {}
                        // Not every machine has all of them; sh is on all of them.
                        Err(cause) if cause.kind() == io::ErrorKind::NotFound && *name != "/bin/sh" => {}
                        Ok(output) => {
                            complaints.push(format!("{name}: {}, {}", output.status, output.stderr.escape_ascii()))
                        }
                        Err(cause) => complaints.push(format!("{name}: {cause}")),
                    }
                }
                complaints
            });
            expect_silence(who, &complaints);
        }
    }
}

/// Without `no_new_privs` an ordinary user could confuse programs that run with more rights.
#[test]
fn installing_needs_no_new_privs() {
    let program = filter(Fence::Namespaces);
    let who = everybody().pop().expect("somebody");
    let complaints = in_child(who, || match seccomp::install(&program, Flags::NONE) {
        Err(cause) if cause.raw_os_error() == Some(libc::EACCES) => Vec::new(),
        other => vec![format!("{other:?}")],
    });
    expect_silence(who, &complaints);
}

/// With TSYNC a thread that was there before is bound too.
#[test]
fn tsync_binds_every_thread() {
    let program = filter(Fence::Namespaces);
    let complaints = in_child(Who::Caller, || {
        let (start, started) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            let _ = started.recv();
            errno(number("keyctl"), [u64::MAX; 6])
        });
        let installed = rustix::thread::set_no_new_privs(true).map_err(io::Error::from);
        if let Err(cause) = installed.and_then(|()| seccomp::install(&program, Flags::TSYNC.and(Flags::SPEC_ALLOW))) {
            return vec![cause.to_string()];
        }
        drop(start);
        match thread.join() {
            Ok(libc::EPERM) => Vec::new(),
            other => vec![format!("{other:?}")],
        }
    });
    expect_silence(Who::Caller, &complaints);
}

#[test]
fn a_listener_is_a_descriptor() {
    let program = filter(Fence::Namespaces);
    let complaints = in_child(Who::Caller, || {
        let _ = rustix::thread::set_no_new_privs(true);
        match seccomp::install_with_listener(&program, Flags::WAIT_KILLABLE_RECV) {
            Ok(fd) if rustix::io::fcntl_getfd(&fd).is_ok_and(|flags| flags.contains(rustix::io::FdFlags::CLOEXEC)) => {
                Vec::new()
            }
            other => vec![format!("{other:?}")],
        }
    });
    expect_silence(Who::Caller, &complaints);
}

/// A filter of filters: the kernel that has no seccomp says so. (A filter that answers ENOSYS to seccomp is such a kernel.)
#[test]
fn a_kernel_without_seccomp_is_an_error() {
    let rules = [bpf::Rule {
        number: u32::try_from(libc::SYS_seccomp).expect("a number"),
        when: &[] as &[ArgTest],
        action: SyscallAction::Errno(Errno::ENOSYS),
    }];
    let old_kernel = bpf::filter(&rules, NEWEST, Arch::NATIVE.expect("known")).expect("one rule");
    let complaints = in_child(Who::Caller, || {
        let mut complaints = fence(&old_kernel);
        let result = seccomp::install(&old_kernel, Flags::NONE);
        if result.as_ref().err().and_then(io::Error::raw_os_error) != Some(libc::ENOSYS) {
            complaints.push(format!("{result:?}"));
        }
        complaints
    });
    expect_silence(Who::Caller, &complaints);
}

/// Calls that are allowed without a look at their arguments cost nothing that can be measured; this only guards against a
/// filter that is an order of magnitude off. Run with `--nocapture` to see the figures.
#[test]
fn an_allowed_call_stays_cheap() {
    fn nanoseconds(number: u32, args: [u64; 6]) -> f64 {
        const CALLS: u32 = 20_000;
        let rounds = (0..15).map(|_| {
            let start = Instant::now();
            for _ in 0..CALLS {
                errno(number, args);
            }
            start.elapsed().as_nanos() as f64 / f64::from(CALLS)
        });
        rounds.fold(f64::INFINITY, f64::min)
    }
    let program = filter(Fence::Namespaces);
    let complaints = in_child(Who::Caller, || {
        let calls = [("getppid", [0; 6]), ("ioctl", [u64::MAX, 0x5401, 0, 0, 0, 0])];
        let before = calls.map(|(name, args)| nanoseconds(number(name), args));
        let mut complaints = fence(&program);
        for ((name, args), before) in calls.into_iter().zip(before) {
            let after = nanoseconds(number(name), args);
            let figures = format!("{name}: {before:.0} ns without a filter, {after:.0} ns with it");
            let _ = rustix::io::write(rustix::stdio::stderr(), format!("{figures}\n").as_bytes());
            if after > before * 8.0 + 1000.0 {
                complaints.push(figures);
            }
        }
        complaints
    });
    expect_silence(Who::Caller, &complaints);
}
