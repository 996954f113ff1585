//! The built-in escape vectors (claim K6): denied for reading and writing in every view, whatever a policy says.
//!
//! A row is here only if nothing an agent builds or tests reads it, since no policy can bring it back. Left out on purpose:
//! the rest of `/proc/sys` and `/sys/module/*/parameters` (programs size themselves by them; the mount is read-only),
//! `/proc/*/mem` and `/proc/*/root` (debuggers and runtimes use their own; other processes are hidden by the pid
//! namespace), `/sys/fs/selinux` (libselinux asks it), and devices that are somebody's work rather than a way out:
//! `/dev/dri`, `/dev/nvidia*`, `/dev/snd`, `/dev/video*`, `/dev/ttyUSB*` are absent until a policy names them.

use super::Row;

/// Ways out of any fence.
pub static ESCAPES: &[Row] = rows! {
    "/dev/autofs" => "makes the host mount",
    "/dev/bcache*" => "raw disk, below every file permission",
    "/dev/binder*" => "calls into Android services of the host",
    "/dev/binderfs" => "calls into Android services of the host",
    "/dev/block" => "raw disk, below every file permission",
    "/dev/bsg" => "commands to disks",
    "/dev/btrfs-control" => "control of file systems",
    "/dev/bus" => "raw USB devices: keyboards, security keys, disks",
    "/dev/cachefiles" => "file access with the kernel's rights",
    "/dev/console" => "the host's console",
    "/dev/cpu" => "machine registers",
    "/dev/cuse" => "makes device files",
    "/dev/dax*" => "raw memory that holds files",
    "/dev/disk" => "raw disk, below every file permission",
    "/dev/dm-*" => "raw disk, below every file permission",
    "/dev/drbd*" => "raw disk, below every file permission",
    "/dev/ecryptfs" => "keys of encrypted directories",
    "/dev/fb*" => "what the screen shows",
    "/dev/fuse" => "mounts file systems whose answers the agent invents",
    "/dev/hd*" => "raw disk, below every file permission",
    "/dev/hidraw*" => "raw keyboards and security keys",
    "/dev/initctl" => "commands to init",
    "/dev/input" => "every key press on the host",
    "/dev/ipmi*" => "management controller of the machine",
    "/dev/kmem" => "kernel memory",
    "/dev/kmsg" => "the kernel's log, with addresses",
    "/dev/kvm" => "virtual machines: a large kernel interface for a stranger",
    "/dev/loop*" => "mounts a file's contents as a disk",
    "/dev/mapper" => "raw disk, below every file permission",
    "/dev/md*" => "raw disk, below every file permission",
    "/dev/mei*" => "management engine of the machine",
    "/dev/mem" => "physical memory",
    "/dev/mmcblk*" => "raw disk, below every file permission",
    "/dev/mtd*" => "raw flash memory",
    "/dev/nbd*" => "raw disk, below every file permission",
    "/dev/net" => "makes network interfaces",
    "/dev/nst*" => "raw tape",
    "/dev/nvme*" => "raw disk, below every file permission",
    "/dev/nvram" => "firmware settings",
    "/dev/pmem*" => "raw disk, below every file permission",
    "/dev/port" => "machine ports",
    "/dev/ppp" => "makes network interfaces",
    "/dev/ram*" => "raw disk, below every file permission",
    "/dev/rbd*" => "raw disk, below every file permission",
    "/dev/root" => "raw disk, below every file permission",
    "/dev/sd*" => "raw disk, below every file permission",
    "/dev/sg*" => "commands to disks",
    "/dev/snapshot" => "memory image of hibernation",
    "/dev/sr*" => "raw disk, below every file permission",
    "/dev/st[0-9]*" => "raw tape",
    "/dev/tpm*" => "keys inside the security chip",
    "/dev/tty[0-9]*" => "other people's consoles: reading keys, typing commands",
    "/dev/ubi*" => "raw flash memory",
    "/dev/uhid" => "types on the host's keyboard",
    "/dev/uinput" => "types on the host's keyboard",
    "/dev/usbmon*" => "every key press on the host",
    "/dev/userfaultfd" => "makes kernel races winnable",
    "/dev/vboxdrv*" => "virtual machines: a large kernel interface for a stranger",
    "/dev/vcs*" => "what the consoles show",
    "/dev/vd*" => "raw disk, below every file permission",
    "/dev/vfio" => "devices with access to memory",
    "/dev/vga_arbiter" => "control of graphics cards",
    "/dev/vhci" => "makes Bluetooth devices",
    "/dev/vhost-*" => "virtual machines: a large kernel interface for a stranger",
    "/dev/vmci" => "channel to the hypervisor",
    "/dev/vmmon" => "virtual machines: a large kernel interface for a stranger",
    "/dev/vsock" => "channel to the hypervisor",
    "/dev/watchdog*" => "restarts the host",
    "/dev/xen" => "commands to the hypervisor",
    "/dev/xvd*" => "raw disk, below every file permission",
    "/dev/zd*" => "raw disk, below every file permission",
    "/dev/zfs" => "control of file systems",
    "/dev/zram*" => "raw swap: memory of every process",
    "/proc/acpi" => "firmware controls; masked by every container runtime",
    "/proc/bus/pci" => "raw configuration space of devices",
    "/proc/dynamic_debug" => "switches of the kernel's own logging",
    "/proc/fs/nfsd" => "controls of the kernel's file server",
    "/proc/kallsyms" => "kernel addresses, the first step of a kernel exploit",
    "/proc/kcore" => "the memory of the whole machine",
    "/proc/key-users" => "kernel keyrings are not in any namespace",
    "/proc/keys" => "kernel keyrings are not in any namespace",
    "/proc/kmsg" => "the kernel's log, with addresses",
    "/proc/kpagecgroup" => "physical pages, the first step of a row hammer attack",
    "/proc/kpagecount" => "physical pages, the first step of a row hammer attack",
    "/proc/kpageflags" => "physical pages, the first step of a row hammer attack",
    "/proc/latency_stats" => "what other processes wait for",
    "/proc/mtrr" => "caching of physical memory",
    "/proc/sched_debug" => "processes of every namespace",
    "/proc/scsi" => "commands to disks; can remove a device",
    "/proc/slabinfo" => "kernel heap layout, the first step of a kernel exploit",
    "/proc/sys/fs/binfmt_misc" => "registers a program that the host runs for other users' files",
    "/proc/sys/kernel/core_pattern" => "a program that the kernel runs as root on the host",
    "/proc/sys/kernel/hotplug" => "a program that the kernel runs as root on the host",
    "/proc/sys/kernel/modprobe" => "a program that the kernel runs as root on the host",
    "/proc/sys/kernel/poweroff_cmd" => "a program that the kernel runs as root on the host",
    "/proc/sys/kernel/usermodehelper" => "what the kernel's own helpers may do",
    "/proc/sysrq-trigger" => "restarts or crashes the host",
    "/proc/timer_list" => "processes of every namespace",
    "/proc/timer_stats" => "processes of every namespace",
    "/proc/vmallocinfo" => "kernel addresses, the first step of a kernel exploit",
    "/proc/vmcore" => "memory of a crashed kernel",
    "/proc/xen" => "commands to the hypervisor",
    "/sys/class/powercap" => "power readings that leak keys",
    "/sys/devices/virtual/powercap" => "power readings that leak keys",
    "/sys/firmware/acpi" => "firmware tables, and code to override them",
    "/sys/firmware/dmi" => "serial numbers of the machine",
    "/sys/firmware/efi/efivars" => "firmware variables; erasing one can brick the machine",
    "/sys/firmware/efi/vars" => "firmware variables; erasing one can brick the machine",
    "/sys/firmware/qemu_fw_cfg" => "what the hypervisor hands in, often secrets",
    "/sys/fs/bpf" => "programs and maps inside the kernel",
    "/sys/fs/cgroup/**/release_agent" => "a program that the kernel runs as root on the host",
    "/sys/fs/cgroup/release_agent" => "a program that the kernel runs as root on the host",
    "/sys/fs/pstore" => "logs of crashed kernels",
    "/sys/kernel/config" => "makes devices and file servers in the kernel",
    "/sys/kernel/debug" => "kernel internals with no access rules of their own",
    "/sys/kernel/security" => "rules of the security modules",
    "/sys/kernel/tracing" => "what every process does",
    "/sys/kernel/uevent_helper" => "a program that the kernel runs as root on the host",
    "/sys/kernel/vmcoreinfo" => "kernel addresses, the first step of a kernel exploit",
    "/sys/power" => "suspends the host",
};

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(pattern: &str, listed: bool) {
        assert_eq!(ESCAPES.iter().any(|row| row.pattern == pattern), listed, "{pattern}");
    }

    #[test]
    fn ways_out_are_listed_and_nothing_else() {
        check("/proc/kcore", true);
        check("/proc/sysrq-trigger", true);
        check("/proc/sys/kernel/core_pattern", true);
        check("/sys/fs/cgroup/**/release_agent", true);
        check("/sys/fs/bpf", true);
        check("/dev/mem", true);
        check("/dev/nvme*", true);
        check("/dev/input", true);
        check("/dev/fuse", true);
        for needed in
            ["/proc", "/proc/sys", "/proc/self", "/sys", "/sys/fs/cgroup", "/dev", "/dev/null", "/dev/tty", "/dev/s*"]
        {
            check(needed, false);
        }
    }

    #[test]
    fn no_wildcard_reaches_a_device_that_programs_need() {
        let needed = crate::curated::system::PRIVATE_WRITABLE.iter().map(|row| row.pattern);
        for device in needed.chain(["/dev/fd", "/dev/stdin", "/dev/stdout", "/dev/stderr", "/dev/core"]) {
            for row in ESCAPES {
                let hit = match row.pattern.split_once(['*', '[']) {
                    // What follows `[` is a digit in every row.
                    Some((front, rest)) if rest.starts_with("0-9]") => {
                        device.strip_prefix(front).is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
                    }
                    Some((front, "")) => device.starts_with(front),
                    Some(_) | None => device == row.pattern,
                };
                assert!(!hit, "{} hides {device}", row.pattern);
            }
        }
    }

    #[test]
    fn only_the_kernels_own_trees() {
        for row in ESCAPES {
            let first = row.pattern.split('/').nth(1);
            assert!(matches!(first, Some("proc" | "sys" | "dev")), "{}", row.pattern);
        }
    }
}
