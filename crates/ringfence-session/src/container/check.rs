//! What the first process of a container finds, beside what was asked for. It runs before any other program does.

use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;

use ringfence_plan::MountAccess;
use ringfence_surface::{AbsPath, Shown};
use rustix::fs::StatVfsMountFlags;

use crate::place::{Id, open_place, open_root, relative};

/// One mount that must be there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Check {
    pub(crate) path: AbsPath,
    pub(crate) expected: Expected,
}

/// What must be mounted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expected {
    /// This, of the host's.
    Host { id: Id, access: MountAccess },
    /// Memory.
    Memory,
}

/// What an engine mounts without being asked, beside what is below `/proc`, `/dev` and `/sys`.
const ENGINES_FILES: [&[u8]; 7] =
    [b"/", b"/etc/hosts", b"/etc/hostname", b"/etc/resolv.conf", b"/run/.containerenv", b"/etc/mtab", b"/.dockerenv"];

/// What every engine puts into `/dev`. What else is there belongs to the host, and somebody's settings ask for it.
const DEVICES: [&str; 16] = [
    "console", "core", "fd", "full", "mqueue", "null", "ptmx", "pts", "random", "shm", "stderr", "stdin", "stdout",
    "tty", "urandom", "zero",
];

/// Kinds of file systems that hold nothing of anybody's: what an engine makes, or masks with, below `/proc`, `/dev` and `/sys`.
const KERNELS: [&[u8]; 20] = [
    b"binfmt_misc",
    b"bpf",
    b"cgroup",
    b"cgroup2",
    b"configfs",
    b"debugfs",
    b"devpts",
    b"devtmpfs",
    b"efivarfs",
    b"fuse.lxcfs",
    b"fusectl",
    b"hugetlbfs",
    b"mqueue",
    b"proc",
    b"pstore",
    b"securityfs",
    b"selinuxfs",
    b"sysfs",
    b"tmpfs",
    b"tracefs",
];

/// The number of a memory file system.
const TMPFS: u64 = 0x0102_1994;

/// Says what is not as it should be, if anything is not.
pub(crate) fn differs(checks: &[Check], user: u32) -> io::Result<Option<String>> {
    let top = open_root()?;
    for check in checks {
        if let Some(why) = mount_differs(&top, check) {
            return Ok(Some(format!("at {}: {why}", check.path)));
        }
    }
    if let Some(why) = unasked_mount(&fs::read("/proc/self/mountinfo")?, checks) {
        return Ok(Some(why));
    }
    for entry in fs::read_dir("/dev")? {
        let name = entry?.file_name();
        if !DEVICES.iter().any(|known| name == *known) {
            return Ok(Some(format!("there is a device, {}", Shown(name.as_bytes()))));
        }
    }
    // Where others could be seen and signalled, or somebody else ends with the container in our place.
    let number = rustix::process::getpid().as_raw_nonzero().get();
    if number != 1 {
        return Ok(Some(format!("the container's processes are not its own: the first one has number {number}")));
    }
    let status = fs::read_to_string("/proc/self/status")?;
    if let Some(why) = unasked_rights(&status, user) {
        return Ok(Some(why));
    }
    let interfaces = fs::read_to_string("/proc/net/dev")?;
    let mut names = interfaces.lines().skip(2).filter_map(|line| line.split(':').next()).map(str::trim);
    Ok(names.find(|name| *name != "lo" && !is_idle(name)).map(|name| format!("there is a network interface, {name}")))
}

/// Some kernels make these in every network namespace; they lead nowhere until somebody with the right sets them up.
fn is_idle(name: &str) -> bool {
    ["tunl0", "sit0", "gre0", "gretap0", "erspan0", "ip_vti0", "ip6_vti0", "ip6tnl0", "ip6gre0"].contains(&name)
}

fn mount_differs(top: &std::os::fd::OwnedFd, check: &Check) -> Option<String> {
    let place = match open_place(top, &relative(&check.path)) {
        Ok(place) => place,
        // A directory that nobody here may enter hides what is in it as well.
        Err(rustix::io::Errno::ACCESS) => return None,
        Err(errno) => return Some(format!("nothing can be seen there ({errno})")),
    };
    match check.expected {
        Expected::Memory => {
            let found = rustix::fs::fstatfs(&place).map(|status| status.f_type as u64);
            (found != Ok(TMPFS)).then(|| "no memory is mounted there".to_owned())
        }
        Expected::Host { id, access } => {
            if rustix::fs::fstat(&place).map(|status| Id::of(&status)) != Ok(id) {
                return Some("the engine has mounted something else than this host has there".to_owned());
            }
            let flags = rustix::fs::fstatvfs(&place).map(|status| status.f_flag);
            let is_read_only = flags.is_ok_and(|flags| flags.contains(StatVfsMountFlags::RDONLY));
            (access == MountAccess::ReadOnly && !is_read_only).then(|| "it can be written".to_owned())
        }
    }
}

/// A mount that nobody asked for, or one below something read-only that can be written.
fn unasked_mount(mountinfo: &[u8], checks: &[Check]) -> Option<String> {
    for line in mountinfo.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let mut fields = line.split(|byte| *byte == b' ');
        let (path, options) = (fields.nth(4)?, fields.next()?);
        // What may stand between is closed by a dash.
        let kind = fields.skip_while(|field| *field != b"-").nth(1).unwrap_or_default();
        let Ok(path) = AbsPath::lexical(&unescaped(path)) else { return Some("a mount has no path".to_owned()) };
        let around = checks.iter().filter(|check| path.is_within(&check.path));
        let innermost = around.max_by_key(|check| check.path.as_bytes().len());
        let is_engines = ringfence_plan::ENGINES_OWN.iter().any(|own| {
            path.as_bytes().strip_prefix(own.as_bytes()).is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
        });
        let can_be_written = options.split(|byte| *byte == b',').any(|option| option == b"rw");
        match innermost.map(|check| (check.path == path, check.expected)) {
            None if is_engines && KERNELS.contains(&kind) || ENGINES_FILES.contains(&path.as_bytes()) => {}
            None => return Some(format!("{path} is mounted, which nobody asked for")),
            Some((false, Expected::Host { access: MountAccess::ReadOnly, .. }))
                if can_be_written && !ENGINES_FILES.contains(&path.as_bytes()) =>
            {
                return Some(format!("{path} is mounted below something read-only, and can be written"));
            }
            Some(_) => {}
        }
    }
    None
}

/// As the kernel writes paths: blanks and the like by their number.
pub(super) fn unescaped(path: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path;
    while let Some((first, more)) = rest.split_first() {
        let octal = |digits: &[u8]| {
            digits
                .iter()
                .try_fold(0_u32, |sum, digit| (b'0'..=b'7').contains(digit).then(|| sum * 8 + u32::from(digit - b'0')))
        };
        let number = (*first == b'\\' && more.len() >= 3).then(|| octal(&more[..3])).flatten();
        match number.and_then(|number| u8::try_from(number).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &more[3..];
            }
            None => {
                bytes.push(*first);
                rest = more;
            }
        }
    }
    bytes
}

/// Who we are and what we may, as the kernel says it.
fn unasked_rights(status: &str, user: u32) -> Option<String> {
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim);
    for name in ["CapPrm", "CapEff", "CapBnd", "CapAmb", "CapInh"] {
        let holds = field(name).and_then(|value| u64::from_str_radix(value, 16).ok());
        if holds != Some(0) {
            return Some(format!("the container has capabilities ({name} {})", field(name).unwrap_or("unknown")));
        }
    }
    if field("NoNewPrivs") != Some("1") {
        return Some("the container may gain privileges".to_owned());
    }
    let users: Vec<&str> = field("Uid").unwrap_or_default().split_whitespace().collect();
    let expected = user.to_string();
    let is_right = users.len() == 4 && users.iter().all(|number| *number == expected);
    (!is_right).then(|| format!("the container runs as user {users:?}, and not as {user}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn abs(text: &str) -> AbsPath {
        AbsPath::lexical(text.as_bytes()).unwrap()
    }

    fn host(path: &str, access: MountAccess) -> Check {
        Check { path: abs(path), expected: Expected::Host { id: Id::from_numbers((1, 2)), access } }
    }

    /// G10: what an engine mounts beside what it was asked for is found.
    #[test]
    fn g10_mounts_that_nobody_asked_for() {
        let checks = [host("/usr", MountAccess::ReadOnly), host("/w", MountAccess::ReadWrite)];
        for (line, expected) in [
            ("1 0 0:1 / / ro - overlay o rw", None),
            ("1 0 0:1 / /proc/keys rw - tmpfs t rw", None),
            ("1 0 0:1 / /dev/pts rw shared:1 master:2 - devpts t rw", None),
            (
                "1 0 0:1 /secrets /dev/more rw shared:1 - ext4 d rw",
                Some("/dev/more is mounted, which nobody asked for"),
            ),
            ("1 0 0:1 /secrets /proc/more rw - overlay d rw", Some("/proc/more is mounted")),
            ("1 0 0:1 /secrets /sys/tmpfs ro - xfs tmpfs rw", Some("/sys/tmpfs is mounted")),
            ("1 0 0:1 / /dev/more rw", Some("/dev/more is mounted")),
            ("1 0 0:1 / /usr ro,relatime - ext4 d rw", None),
            ("1 0 0:1 / /w/deep rw - ext4 d rw", None),
            ("1 0 0:1 / /usr/local rw - ext4 d rw", Some("/usr/local is mounted below something read-only")),
            ("1 0 0:1 / /usr/local ro - ext4 d rw", None),
            ("1 0 0:1 / /home rw - ext4 d rw", Some("/home is mounted, which nobody asked for")),
            ("1 0 0:1 / /processes ro - ext4 d rw", Some("/processes is mounted")),
            ("1 0 0:1 / /w\\040x ro - ext4 d rw", Some("/w x is mounted")),
        ] {
            let said = unasked_mount(line.as_bytes(), &checks);
            assert_eq!(said.is_some(), expected.is_some(), "{line}: {said:?}");
            assert!(said.unwrap_or_default().starts_with(expected.unwrap_or_default()), "{line}");
        }
    }

    /// G10: rights that an engine left are found.
    #[test]
    fn g10_rights_that_nobody_asked_for() {
        let good = "Uid:\t7\t7\t7\t7\nCapInh:\t0000\nCapPrm:\t0\nCapEff:\t0\nCapBnd:\t0\nCapAmb:\t0\nNoNewPrivs:\t1\n";
        assert_eq!(unasked_rights(good, 7), None);
        for (from, to) in
            [("CapBnd:\t0", "CapBnd:\t20"), ("NoNewPrivs:\t1", "NoNewPrivs:\t0"), ("\t7\t7\t7", "\t7\t0\t7")]
        {
            assert!(unasked_rights(&good.replace(from, to), 7).is_some(), "{to}");
        }
        assert!(unasked_rights("", 7).is_some());
    }

    #[test]
    fn paths_as_the_kernel_writes_them() {
        assert_eq!(unescaped(b"/a\\040b\\134c\\011"), b"/a b\\c\t");
        assert_eq!(unescaped(b"/a\\09"), b"/a\\09");
    }
}
