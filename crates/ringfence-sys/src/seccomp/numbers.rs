//! The numbers of the calls that filters speak of, for every architecture that is known: one table, so that the filter of one
//! architecture can be looked at on another.

use crate::bpf::Arch;

/// The architecture has no such call.
const NONE: u32 = u32::MAX;

/// Name, number on x86-64, number on 64-bit ARM. Sorted by name. The calls that reach hardware by ports, and the oldest ways to name
/// a file, exist on x86-64 only.
static NUMBERS: &[(&str, u32, u32)] = &[
    ("access", 21, NONE),
    ("acct", 163, 89),
    ("add_key", 248, 217),
    ("bind", 49, 200),
    ("bpf", 321, 280),
    ("chdir", 80, 49),
    ("chmod", 90, NONE),
    ("chown", 92, NONE),
    ("chroot", 161, 51),
    ("clock_settime", 227, 112),
    ("clone", 56, 220),
    ("clone3", 435, 435),
    ("close", 3, 57),
    ("connect", 42, 203),
    ("creat", 85, NONE),
    ("delete_module", 176, 106),
    ("execve", 59, 221),
    ("execveat", 322, 281),
    ("faccessat", 269, 48),
    ("faccessat2", 439, 439),
    ("fchmod", 91, 52),
    ("fchmodat", 268, 53),
    ("fchmodat2", 452, 452),
    ("fchown", 93, 55),
    ("fchownat", 260, 54),
    ("file_setattr", 469, 469),
    ("finit_module", 313, 273),
    ("fsconfig", 431, 431),
    ("fsmount", 432, 432),
    ("fsopen", 430, 430),
    ("fspick", 433, 433),
    ("futimesat", 261, NONE),
    ("getppid", 110, 173),
    ("init_module", 175, 105),
    ("io_uring_enter", 426, 426),
    ("io_uring_register", 427, 427),
    ("io_uring_setup", 425, 425),
    ("ioctl", 16, 29),
    ("ioperm", 173, NONE),
    ("iopl", 172, NONE),
    ("ioprio_set", 251, 30),
    ("kexec_file_load", 320, 294),
    ("kexec_load", 246, 104),
    ("keyctl", 250, 219),
    ("landlock_add_rule", 445, 445),
    ("landlock_create_ruleset", 444, 444),
    ("landlock_restrict_self", 446, 446),
    ("lchown", 94, NONE),
    ("link", 86, NONE),
    ("linkat", 265, 37),
    ("lookup_dcookie", 212, 18),
    ("lremovexattr", 198, 15),
    ("lsetxattr", 189, 6),
    ("lstat", 6, NONE),
    ("migrate_pages", 256, 238),
    ("mkdir", 83, NONE),
    ("mkdirat", 258, 34),
    ("mknod", 133, NONE),
    ("mknodat", 259, 33),
    ("mount", 165, 40),
    ("mount_setattr", 442, 442),
    ("move_mount", 429, 429),
    ("move_pages", 279, 239),
    ("mq_open", 240, 180),
    ("mq_unlink", 241, 181),
    ("msgctl", 71, 187),
    ("msgget", 68, 186),
    ("msgrcv", 70, 188),
    ("msgsnd", 69, 189),
    ("newfstatat", 262, 79),
    ("open", 2, NONE),
    ("open_by_handle_at", 304, 265),
    ("open_tree", 428, 428),
    ("open_tree_attr", 467, 467),
    ("openat", 257, 56),
    ("openat2", 437, 437),
    ("perf_event_open", 298, 241),
    ("personality", 135, 92),
    ("pivot_root", 155, 41),
    ("prlimit64", 302, 261),
    ("quotactl", 179, 60),
    ("quotactl_fd", 443, 443),
    ("readlink", 89, NONE),
    ("readlinkat", 267, 78),
    ("reboot", 169, 142),
    ("removexattr", 197, 14),
    ("removexattrat", 466, 466),
    ("rename", 82, NONE),
    ("renameat", 264, 38),
    ("renameat2", 316, 276),
    ("request_key", 249, 218),
    ("rmdir", 84, NONE),
    ("sched_setaffinity", 203, 122),
    ("sched_setattr", 314, 274),
    ("sched_setparam", 142, 118),
    ("sched_setscheduler", 144, 119),
    ("semctl", 66, 191),
    ("semget", 64, 190),
    ("semop", 65, 193),
    ("semtimedop", 220, 192),
    ("sendmmsg", 307, 269),
    ("sendmsg", 46, 211),
    ("sendto", 44, 206),
    ("setgid", 106, 144),
    ("setns", 308, 268),
    ("setpriority", 141, 140),
    ("setregid", 114, 143),
    ("setresgid", 119, 149),
    ("setresuid", 117, 147),
    ("setreuid", 113, 145),
    ("setrlimit", 160, 164),
    ("settimeofday", 164, 170),
    ("setuid", 105, 146),
    ("setxattr", 188, 5),
    ("setxattrat", 463, 463),
    ("shmat", 30, 196),
    ("shmctl", 31, 195),
    ("shmget", 29, 194),
    ("socket", 41, 198),
    ("socketpair", 53, 199),
    ("stat", 4, NONE),
    ("statx", 332, 291),
    ("swapoff", 168, 225),
    ("swapon", 167, 224),
    ("symlink", 88, NONE),
    ("symlinkat", 266, 36),
    ("syslog", 103, 116),
    ("truncate", 76, 45),
    ("umask", 95, 166),
    ("umount2", 166, 39),
    ("unlink", 87, NONE),
    ("unlinkat", 263, 35),
    ("unshare", 272, 97),
    ("uselib", 134, NONE),
    ("userfaultfd", 323, 282),
    ("utime", 132, NONE),
    ("utimensat", 280, 88),
    ("utimes", 235, NONE),
];

/// The number of a call on an architecture.
pub(super) fn number_on(arch: Arch, name: &str) -> Option<u32> {
    let at = NUMBERS.binary_search_by_key(&name, |(name, ..)| name).ok()?;
    let (_, x86_64, aarch64) = NUMBERS[at];
    let number = match arch {
        Arch::X86_64 => x86_64,
        Arch::Aarch64 => aarch64,
    };
    (number != NONE).then_some(number)
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use ringfence_plan::{BROKERED, LOOKED_AT};

    use super::*;

    #[test]
    fn the_table_is_sorted_and_no_number_is_there_twice() {
        assert!(NUMBERS.is_sorted_by_key(|(name, ..)| *name));
        for arch in [Arch::X86_64, Arch::Aarch64] {
            let numbers: Vec<u32> = NUMBERS.iter().filter_map(|(name, ..)| number_on(arch, name)).collect();
            assert_eq!(numbers.iter().collect::<BTreeSet<_>>().len(), numbers.len(), "{arch:?}");
            assert!(numbers.iter().all(|number| *number <= super::super::NEWEST), "{arch:?}");
        }
    }

    /// Since 5.1 a new call has the same number everywhere.
    #[test]
    fn new_calls_have_one_number() {
        for (name, x86_64, aarch64) in NUMBERS {
            assert!(*x86_64 < 403 || *x86_64 == NONE || x86_64 == aarch64, "{name}");
            assert!(*aarch64 < 403 || *aarch64 == NONE || x86_64 == aarch64, "{name}");
        }
    }

    /// The C library's headers of both architectures, where they are installed, have the same numbers.
    #[test]
    fn the_kernels_headers_agree() {
        for (arch, path) in [
            (Arch::X86_64, "/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
            (Arch::Aarch64, "/usr/aarch64-linux-gnu/include/asm-generic/unistd.h"),
        ] {
            let Ok(text) = std::fs::read_to_string(path) else {
                ringfence_testkit::report_skip(&format!("the numbers of calls in {path} (it is not installed)"));
                continue;
            };
            let line = |line: &str| {
                let mut words = line.strip_prefix("#define __NR")?.split_whitespace();
                let name = words.next()?.trim_start_matches("3264").strip_prefix('_')?.to_owned();
                Some((name, words.next()?.parse::<u32>().ok()?))
            };
            let mut headers: BTreeMap<String, u32> = text.lines().filter_map(line).collect();
            // The generic header has this one under another name.
            if let (Arch::Aarch64, Some(number)) = (arch, headers.get("fstatat").copied()) {
                headers.insert("newfstatat".to_owned(), number);
            }
            let newest = headers.values().copied().filter(|number| *number < 1000).max().unwrap_or(0);
            assert!(newest > 440, "{path} was not read");
            for (name, ..) in NUMBERS {
                let ours = number_on(arch, name).filter(|number| *number <= newest);
                assert_eq!(ours, headers.get(*name).copied(), "{name} on {arch:?}");
            }
        }
    }

    /// What the broker carries out has a number on x86-64, and on 64-bit ARM unless the call does not exist there.
    #[test]
    fn every_call_that_rules_name_is_known_on_both() {
        let names: BTreeSet<&str> = BROKERED.iter().chain(LOOKED_AT).map(|rule| rule.name).collect();
        let lacks = |arch| names.iter().copied().filter(|name| number_on(arch, name).is_none()).collect::<Vec<_>>();
        assert_eq!(lacks(Arch::X86_64), [""; 0]);
        assert_eq!(lacks(Arch::Aarch64), OLD_NAMES);
    }

    /// The calls of x86-64 that 64-bit ARM has only in their newer form, with a directory.
    const OLD_NAMES: &[&str] = &[
        "access",
        "chmod",
        "chown",
        "creat",
        "futimesat",
        "lchown",
        "link",
        "lstat",
        "mkdir",
        "mknod",
        "open",
        "readlink",
        "rename",
        "rmdir",
        "stat",
        "symlink",
        "unlink",
        "utime",
        "utimes",
    ];
}
