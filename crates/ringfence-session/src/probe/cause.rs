//! Why a step of a native start was refused: a guess, from the error and the signs.

use std::fmt;

use rustix::io::Errno;

use super::native::Step;
use super::signs::{Caller, Signs, Surroundings};

/// Why a native session is not to be had.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Cause {
    /// `user.max_KIND_namespaces` is 0.
    Forbidden {
        /// Which kind.
        kind: &'static str,
    },
    /// A limit above 0 is used up, or namespaces are nested too deep; an outer sandbox may have set it.
    UsedUp,
    /// `kernel.unprivileged_userns_clone` is 0.
    UsernsClone,
    /// AppArmor takes the rights away that a user namespace gives (Ubuntu since 23.10).
    AppArmor,
    /// SELinux refuses.
    SeLinux,
    /// A filter on this process refuses, as that of a container does.
    Filter,
    /// Another session of ringfence refuses: its policy does not allow sandboxes inside.
    InsideRingfence,
    /// Root without the right to administer, as in a container.
    NoCapability,
    /// Root that cannot become anybody else, as in a user namespace that holds nobody else.
    NoOtherUser,
    /// A part of `/proc` is covered, and the kernel shows no fresh one beside it.
    CoveredProc,
    /// User namespaces cannot be made after chroot.
    Chroot,
    /// There is no `/proc`.
    NoProc,
    /// The kernel was built without it.
    NotBuilt {
        /// The kernel's own option.
        option: &'static str,
    },
    /// The kernel is older than the call.
    OldKernel {
        /// The first with it.
        since: &'static str,
    },
    /// Nobody has written down the calls of this machine's processor.
    UnknownArchitecture,
    /// The process that asks has several threads.
    Threads,
    /// Something ended the process that tried.
    Killed,
    /// It did not end in time.
    TimedOut,
    /// Nothing on this host shows why.
    Unknown,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Forbidden { kind } => write!(f, "user.max_{kind}_namespaces is 0"),
            Self::UsedUp => f.write_str("a limit on namespaces is used up, or they are nested too deep"),
            Self::UsernsClone => f.write_str("kernel.unprivileged_userns_clone is 0"),
            Self::AppArmor => {
                f.write_str("AppArmor restricts user namespaces: kernel.apparmor_restrict_unprivileged_userns is 1")
            }
            Self::SeLinux => f.write_str("SELinux may refuse it"),
            Self::Filter => f.write_str("a seccomp filter around this process refuses it, as container engines do"),
            Self::InsideRingfence => f.write_str("this is inside a session of ringfence that allows no sandbox within"),
            Self::NoCapability => f.write_str("root has no CAP_SYS_ADMIN here"),
            Self::NoOtherUser => f.write_str("root cannot become anybody else here, and no session runs as root"),
            Self::CoveredProc => f.write_str("a part of /proc is covered here, as container engines do"),
            Self::Chroot => f.write_str("user namespaces cannot be made after chroot"),
            Self::NoProc => f.write_str("/proc is not mounted"),
            Self::NotBuilt { option } => write!(f, "this kernel was built without {option}"),
            Self::OldKernel { since } => write!(f, "this kernel is older than Linux {since}"),
            Self::UnknownArchitecture => f.write_str("ringfence does not know the system calls of this processor"),
            Self::Threads => f.write_str("the process that asks has several threads"),
            Self::Killed => f.write_str("a filter that kills may have done it"),
            Self::TimedOut => f.write_str("a file system may hang"),
            Self::Unknown => f.write_str("nothing on this host shows why"),
        }
    }
}

impl Cause {
    /// Was there no answer? Then nothing is known about the host.
    pub fn is_no_answer(self) -> bool {
        matches!(self, Self::TimedOut | Self::Threads)
    }

    /// What can be done about it, in one line.
    pub fn remedy(self) -> String {
        match self {
            Self::Forbidden { kind } => return format!("set the sysctl user.max_{kind}_namespaces above 0"),
            Self::UsedUp => "raise the sysctls user.max_*_namespaces, or start outside the other sandbox",
            Self::UsernsClone => "set the sysctl kernel.unprivileged_userns_clone to 1",
            Self::AppArmor => "give ringfence an AppArmor profile that permits `userns`",
            Self::SeLinux => "look for the refusal with `ausearch -m avc`, and permit it in the SELinux policy",
            Self::Filter => "start the container with a seccomp profile that permits namespaces and mounts",
            Self::InsideRingfence => "start it outside of that session",
            Self::NoCapability => "start as an ordinary user, or give the container CAP_SYS_ADMIN",
            Self::NoOtherUser => "start as an ordinary user, or give the user namespace more than one user",
            Self::CoveredProc => "start the container with an uncovered /proc (Docker: systempaths=unconfined)",
            Self::Chroot => "start it outside the chroot",
            Self::NoProc => "mount proc at /proc",
            Self::NotBuilt { option } => return format!("use a kernel with {option}"),
            Self::OldKernel { since } => return format!("use Linux {since} or later"),
            Self::UnknownArchitecture => "use a machine with x86-64 or 64-bit ARM",
            Self::Threads => "ask before any thread is started",
            Self::Killed => "start it without the filter that ends processes",
            Self::TimedOut => "look for a mount that does not answer",
            Self::Unknown => "look in the kernel's log for a refusal",
        }
        .to_owned()
    }
}

/// The guess. The order counts: what explains the error best comes first.
pub(super) fn cause(step: Step, errno: Errno, signs: &Signs) -> Cause {
    let refused = matches!(errno, Errno::PERM | Errno::ACCESS);
    if !signs.proc {
        return Cause::NoProc;
    }
    if signs.surroundings == Surroundings::Ringfence && (refused || errno == Errno::NOSYS) {
        return Cause::InsideRingfence;
    }
    match (step, errno) {
        // Linux before 4.9 said USERS.
        (Step::Clone, Errno::NOSPC | Errno::USERS) => {
            signs.forbidden.first().map_or(Cause::UsedUp, |kind| Cause::Forbidden { kind })
        }
        (_, Errno::NOSYS) if signs.filtered => Cause::Filter,
        (_, Errno::NOSYS) => Cause::OldKernel { since: step.feature().row().since.linux().unwrap_or_default() },
        (Step::Clone, Errno::INVAL) if !signs.absent.is_empty() => Cause::NotBuilt { option: option(signs.absent[0]) },
        (Step::Proc | Step::Devpts | Step::Tmpfs, Errno::NODEV) => Cause::NotBuilt { option: file_system(step) },
        (Step::Seccomp, Errno::INVAL) => Cause::NotBuilt { option: "CONFIG_SECCOMP_FILTER" },
        (Step::Identity, Errno::INVAL | Errno::PERM) => Cause::NoOtherUser,
        _ if refused => refusal(step, errno, signs),
        _ => Cause::Unknown,
    }
}

fn refusal(step: Step, errno: Errno, signs: &Signs) -> Cause {
    match signs.caller {
        Caller::Root if !signs.administers => Cause::NoCapability,
        Caller::User if step == Step::Clone && signs.unprivileged_userns_clone == Some(0) => Cause::UsernsClone,
        Caller::User if signs.apparmor_restricts.is_some_and(|value| value != 0) => Cause::AppArmor,
        // The kernel mounts a fresh one only where the caller sees all of an old one.
        _ if step == Step::Proc && errno == Errno::PERM => Cause::CoveredProc,
        _ if signs.filtered => Cause::Filter,
        Caller::User if step == Step::Clone && signs.chrooted => Cause::Chroot,
        _ if signs.selinux => Cause::SeLinux,
        _ => Cause::Unknown,
    }
}

fn option(kind: &str) -> &'static str {
    match kind {
        "cgroup" => "CONFIG_CGROUPS",
        "ipc" => "CONFIG_IPC_NS",
        "net" => "CONFIG_NET_NS",
        "pid" => "CONFIG_PID_NS",
        "user" => "CONFIG_USER_NS",
        "uts" => "CONFIG_UTS_NS",
        _ => "CONFIG_NAMESPACES",
    }
}

fn file_system(step: Step) -> &'static str {
    match step {
        Step::Proc => "CONFIG_PROC_FS",
        Step::Devpts => "CONFIG_UNIX98_PTYS",
        _ => "CONFIG_TMPFS",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quiet(caller: Caller) -> Signs {
        Signs {
            caller,
            surroundings: Surroundings::Host,
            forbidden: Vec::new(),
            absent: Vec::new(),
            unprivileged_userns_clone: None,
            apparmor_restricts: None,
            selinux: false,
            filtered: false,
            administers: caller == Caller::Root,
            chrooted: false,
            proc: true,
        }
    }

    #[track_caller]
    fn check(step: Step, errno: Errno, signs: &Signs, expected: Cause) {
        assert_eq!(cause(step, errno, signs), expected);
    }

    /// K4: each way in which a host refuses has a name.
    #[test]
    fn k4_every_refusal_has_a_cause() {
        let user = quiet(Caller::User);
        let with = |change: &dyn Fn(&mut Signs)| {
            let mut signs = user.clone();
            change(&mut signs);
            signs
        };
        check(Step::Clone, Errno::NOSPC, &with(&|s| s.forbidden = vec!["user"]), Cause::Forbidden { kind: "user" });
        check(Step::Clone, Errno::NOSPC, &with(&|s| s.forbidden = vec!["net"]), Cause::Forbidden { kind: "net" });
        check(Step::Clone, Errno::NOSPC, &user, Cause::UsedUp);
        check(Step::Clone, Errno::PERM, &with(&|s| s.unprivileged_userns_clone = Some(0)), Cause::UsernsClone);
        check(Step::Clone, Errno::PERM, &with(&|s| s.filtered = true), Cause::Filter);
        check(Step::Clone, Errno::NOSYS, &with(&|s| s.filtered = true), Cause::Filter);
        check(Step::Clone, Errno::NOSYS, &user, Cause::OldKernel { since: "3.8" });
        check(Step::Attributes, Errno::NOSYS, &user, Cause::OldKernel { since: "5.12" });
        check(Step::Clone, Errno::PERM, &with(&|s| s.chrooted = true), Cause::Chroot);
        check(Step::Clone, Errno::ACCESS, &with(&|s| s.selinux = true), Cause::SeLinux);
        let user_ns = Cause::NotBuilt { option: "CONFIG_USER_NS" };
        check(Step::Clone, Errno::INVAL, &with(&|s| s.absent = vec!["user"]), user_ns);
        check(Step::Devpts, Errno::NODEV, &user, Cause::NotBuilt { option: "CONFIG_UNIX98_PTYS" });
        check(Step::Maps, Errno::NOENT, &with(&|s| s.proc = false), Cause::NoProc);
        check(Step::Proc, Errno::PERM, &user, Cause::CoveredProc);
        check(Step::Propagation, Errno::PERM, &user, Cause::Unknown);
        check(Step::Propagation, Errno::PERM, &with(&|s| s.filtered = true), Cause::Filter);
        let inside = with(&|s| (s.surroundings, s.filtered) = (Surroundings::Ringfence, true));
        check(Step::Clone, Errno::PERM, &inside, Cause::InsideRingfence);
        check(Step::Clone, Errno::NOSPC, &inside, Cause::UsedUp);
    }

    /// Ubuntu lets the process be made and refuses what it does then, wherever that is.
    #[test]
    fn k4_apparmor_refuses_late() {
        let signs = Signs { apparmor_restricts: Some(1), ..quiet(Caller::User) };
        for step in [Step::Maps, Step::Loopback, Step::Propagation, Step::Proc] {
            check(step, Errno::PERM, &signs, Cause::AppArmor);
            check(step, Errno::ACCESS, &signs, Cause::AppArmor);
        }
        check(Step::Propagation, Errno::PERM, &Signs { apparmor_restricts: Some(0), ..signs.clone() }, Cause::Unknown);
        // It restricts nobody who may do it anyway.
        let root = Signs { apparmor_restricts: Some(1), ..quiet(Caller::Root) };
        check(Step::Propagation, Errno::PERM, &root, Cause::Unknown);
    }

    #[test]
    fn root_in_a_container() {
        let signs = Signs { administers: false, filtered: true, ..quiet(Caller::Root) };
        check(Step::Clone, Errno::PERM, &signs, Cause::NoCapability);
        check(Step::Clone, Errno::NOSYS, &signs, Cause::Filter);
        check(Step::Identity, Errno::INVAL, &quiet(Caller::Root), Cause::NoOtherUser);
        check(Step::Identity, Errno::PERM, &quiet(Caller::Root), Cause::NoOtherUser);
    }
}
