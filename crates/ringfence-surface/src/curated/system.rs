//! What programs need to run at all, and what exists only inside the fence.

use super::Row;

/// Read-only, as on the host. What is secret in there is in the sensitive set.
pub static SYSTEM: &[Row] = &[
    Row { pattern: "/bin", reason: "programs" },
    Row { pattern: "/etc", reason: "the system's configuration" },
    Row { pattern: "/gnu/store", reason: "programs of Guix" },
    Row { pattern: "/lib", reason: "libraries" },
    Row { pattern: "/lib32", reason: "libraries" },
    Row { pattern: "/lib64", reason: "libraries" },
    Row { pattern: "/libx32", reason: "libraries" },
    Row { pattern: "/nix/store", reason: "programs of Nix" },
    Row { pattern: "/run/current-system", reason: "programs of NixOS" },
    Row { pattern: "/sbin", reason: "programs" },
    Row { pattern: "/usr", reason: "programs and libraries" },
];

/// Made anew for each session: nothing of the host's shows through, and nothing stays.
pub static PRIVATE_WRITABLE: &[Row] = &[
    Row { pattern: "/dev/full", reason: "a device without authority" },
    Row { pattern: "/dev/null", reason: "a device without authority" },
    Row { pattern: "/dev/ptmx", reason: "the session's own terminals" },
    Row { pattern: "/dev/pts", reason: "the session's own terminals" },
    Row { pattern: "/dev/random", reason: "a device without authority" },
    Row { pattern: "/dev/shm", reason: "the session's own shared memory" },
    Row { pattern: "/dev/tty", reason: "the session's own terminal" },
    Row { pattern: "/dev/urandom", reason: "a device without authority" },
    Row { pattern: "/dev/zero", reason: "a device without authority" },
    Row { pattern: "/tmp", reason: "the session's own temporary files" },
    Row { pattern: "/var/tmp", reason: "the session's own temporary files" },
];

/// Made anew for each session, for reading.
pub static PRIVATE_READABLE: &[Row] = &[Row { pattern: "/proc", reason: "the session's own processes" }];

/// What is not the host's where the whole host is shown, but for what is granted there: its devices, and where its services listen.
pub static HIDDEN_IN_HOST_VIEW: &[&str] = &["/dev", "/run", "/var/run"];
