//! What the host shows about why something is refused. Signs explain; they decide nothing.

use std::fs;
use std::path::Path;

use rustix::fs::StatVfsMountFlags;

/// The kinds of namespaces that a native session has, as `/proc/self/ns` names them.
const KINDS: &[&str] = &["cgroup", "ipc", "mnt", "net", "pid", "user", "uts"];

/// Who asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Caller {
    /// Somebody with the user number 0.
    Root,
    /// Anybody else.
    User,
}

/// What surrounds the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Surroundings {
    /// Nothing that shows.
    Host,
    /// A container: the kernel's settings are read-only.
    Container,
    /// Another session of ringfence.
    Ringfence,
}

/// What the host shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signs {
    /// Who asks.
    pub caller: Caller,
    /// Where.
    pub surroundings: Surroundings,
    /// Kinds of namespaces that may not be made at all: `user.max_KIND_namespaces` is 0.
    pub forbidden: Vec<&'static str>,
    /// Kinds of namespaces that the kernel does not have.
    pub absent: Vec<&'static str>,
    /// `kernel.unprivileged_userns_clone`, on kernels that have it.
    pub unprivileged_userns_clone: Option<u64>,
    /// `kernel.apparmor_restrict_unprivileged_userns`, on kernels that have it.
    pub apparmor_restricts: Option<u64>,
    /// SELinux enforces.
    pub selinux: bool,
    /// A filter is on this process already.
    pub filtered: bool,
    /// The process may administer its user namespace.
    pub administers: bool,
    /// The root directory is no mount: somebody called chroot.
    pub chrooted: bool,
    /// `/proc` is there.
    pub proc: bool,
}

impl Signs {
    /// Looks at this host. What cannot be read is no sign.
    pub fn read() -> Self {
        let number = |path: &str| fs::read_to_string(path).ok().and_then(|text| text.trim().parse::<u64>().ok());
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let limit = |kind: &str| number(&format!("/proc/sys/user/max_{kind}_namespaces"));
        let proc = Path::new("/proc/self/ns").is_dir();
        let is_absent = |kind: &&&str| proc && !Path::new("/proc/self/ns").join(kind).exists();
        Self {
            caller: if rustix::process::geteuid().is_root() { Caller::Root } else { Caller::User },
            surroundings: surroundings(),
            forbidden: KINDS.iter().filter(|kind| limit(kind) == Some(0)).copied().collect(),
            absent: KINDS.iter().filter(is_absent).copied().collect(),
            unprivileged_userns_clone: number("/proc/sys/kernel/unprivileged_userns_clone"),
            apparmor_restricts: number("/proc/sys/kernel/apparmor_restrict_unprivileged_userns"),
            selinux: number("/sys/fs/selinux/enforce") == Some(1),
            filtered: field(&status, "Seccomp").is_some_and(|mode| mode == "2"),
            administers: administers(&status),
            chrooted: fs::read_to_string("/proc/self/mountinfo").is_ok_and(|table| is_chrooted(&table)),
            proc,
        }
    }
}

/// Container engines cover the kernel's settings with a read-only mount, whatever else they do. Where they do not, as for a
/// privileged container, a session is as good as on the host.
fn surroundings() -> Surroundings {
    let settings = rustix::fs::statvfs(c"/proc/sys");
    if std::env::var_os("RINGFENCE").is_some_and(|value| value == "1") {
        Surroundings::Ringfence
    } else if settings.is_ok_and(|settings| settings.f_flag.contains(StatVfsMountFlags::RDONLY)) {
        Surroundings::Container
    } else {
        Surroundings::Host
    }
}

fn field<'t>(status: &'t str, name: &str) -> Option<&'t str> {
    status.lines().find_map(|line| Some(line.strip_prefix(name)?.strip_prefix(':')?.trim()))
}

fn administers(status: &str) -> bool {
    const SYS_ADMIN: u64 = 1 << 21;
    field(status, "CapEff")
        .and_then(|bits| u64::from_str_radix(bits, 16).ok())
        .is_some_and(|bits| bits & SYS_ADMIN != 0)
}

/// The table shows the mounts below the caller's root, so without chroot it has one at `/`.
fn is_chrooted(table: &str) -> bool {
    !table.is_empty() && !table.lines().any(|line| line.split(' ').nth(4) == Some("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_fields() {
        let status = "Name:\tx\nCapInh:\t0\nCapEff:\t000001ffffffffff\nSeccomp:\t2\nSeccomp_filters:\t1\n";
        assert_eq!(field(status, "Seccomp"), Some("2"));
        assert!(administers(status));
        assert!(!administers("CapEff:\t00000000a80425fb\n"));
        assert!(!administers(""));
    }

    #[test]
    fn a_root_that_is_no_mount() {
        assert!(!is_chrooted("22 1 254:0 / / rw - ext4 /dev/root rw\n23 22 0:21 / /proc rw - proc proc rw\n"));
        assert!(is_chrooted("23 22 0:21 / /proc rw - proc proc rw\n"));
        assert!(!is_chrooted(""));
    }
}
