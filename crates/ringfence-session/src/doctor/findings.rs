//! What the probes found, feature by feature.

use ringfence_plan::features::{Feature, FeatureFindings, FeatureUse, Finding, Without, uses};
use ringfence_plan::{BrokerUnavailable, Rung};
use ringfence_surface::Shown;
use ringfence_sys::landlock::{AccessFs, Scope};
use rustix::io::Errno;

use super::host::{Host, Started};
use crate::probe::{Blocked, Caller, Landlock, NoBwrap, Step, is_no_answer};
use crate::sufficient::{LandlockUnavailable, SufficientLandlock};

/// The findings about a host. A feature that was not probed has no entry.
pub(super) fn findings(host: &Host) -> FeatureFindings {
    let mut findings = FeatureFindings::untried();
    note_native(&mut findings, &host.native);
    if findings.of(Feature::SeccompFilter).reason().is_none() {
        findings.note(Feature::SeccompFilter, filter(host));
    }
    findings.note(Feature::Gateway, gateway(host));
    note_landlock(&mut findings, host);
    findings.note(Feature::SeccompListener, listener(host));
    findings.note(Feature::Pidfd, tried(host.pidfd, host));
    findings.note(Feature::CloseRange, tried(host.close_range, host));
    findings.note(Feature::Terminal, tried(host.pty, host));
    if let Some(idmap) = host.idmap {
        let found = tried(idmap, host);
        let is_file_system = idmap == Err(Errno::INVAL);
        let remedy = "put the project on ext4, xfs or btrfs, or let a user own it";
        findings.note(Feature::IdmappedMounts, if is_file_system { found.helped_by(remedy) } else { found });
    }
    findings.note(Feature::MemoryCgroup, limit(host, "memory").helped_by(delegation(host)));
    findings.note(Feature::PidsCgroup, limit(host, "pids").helped_by(delegation(host)));
    findings.note(Feature::Overlay, tried(host.overlay, host));
    findings.note(Feature::Openat2, tried(host.openat2, host));
    findings.note(Feature::Bubblewrap, bubblewrap(host));
    if host.signs.caller == Caller::Root {
        let found = if host.agent_user { Finding::present("") } else { Finding::missing("there is none") };
        findings.note(Feature::AgentUser, found);
    }
    for engine in &host.engines {
        let feature = if engine.name == "docker" { Feature::Docker } else { Feature::Podman };
        findings.note(feature, engine.version.clone());
    }
    findings
}

/// The features that a native start tries in order: one works when the start came past all its steps.
pub(super) fn note_native(findings: &mut FeatureFindings, native: &Result<(), Blocked>) {
    for feature in NATIVE_PARTS {
        let steps = || Step::ALL.iter().filter(|step| step.feature() == *feature);
        let finding = match native {
            Err(blocked) if blocked.step.feature() == *feature && blocked.cause.is_no_answer() => {
                Finding::unknown(blocked.to_string()).helped_by(blocked.cause.remedy())
            }
            Err(blocked) if blocked.step.feature() == *feature => {
                Finding::missing(blocked.to_string()).helped_by(blocked.cause.remedy())
            }
            Err(blocked) if !steps().all(|step| *step < blocked.step) => Finding::Untried,
            Ok(()) | Err(_) => Finding::present(""),
        };
        findings.note(*feature, finding);
    }
}

/// In the order of the steps.
const NATIVE_PARTS: &[Feature] = &[
    Feature::Namespaces,
    Feature::Loopback,
    Feature::Mounts,
    Feature::DetachedMounts,
    Feature::MountAttributes,
    Feature::Proc,
    Feature::Devpts,
    Feature::PivotRoot,
    Feature::Credentials,
    Feature::SeccompFilter,
];

/// An error in words.
fn said(errno: Errno) -> String {
    std::io::Error::from(errno).to_string()
}

/// A single call that was tried.
fn tried(result: Result<(), Errno>, host: &Host) -> Finding {
    match result {
        Ok(()) => Finding::present(""),
        Err(errno) if is_no_answer(errno) => Finding::unknown("it did not answer in time"),
        // As container engines answer what their profile does not know.
        Err(errno @ (Errno::PERM | Errno::NOSYS)) if host.signs.filtered => {
            Finding::missing(said(errno)).helped_by("permit the call in the seccomp profile of the container")
        }
        Err(errno) => Finding::missing(said(errno)),
    }
}

fn filter(host: &Host) -> Finding {
    match host.seccomp.filter {
        Err(errno) if !is_no_answer(errno) => Finding::missing(format!("no seccomp filter: {}", said(errno))),
        found => tried(found, host),
    }
}

fn listener(host: &Host) -> Finding {
    match host.seccomp.listener {
        Err(Errno::BUSY) => {
            let by = "start it outside of what listens";
            Finding::missing(BrokerUnavailable::OtherListener.to_string()).helped_by(by)
        }
        Err(Errno::INVAL) => Finding::missing(BrokerUnavailable::NoListener.to_string()),
        found => tried(found, host),
    }
}

const NO_GATEWAY: &str = "no gateway to listed hosts can be made";

fn gateway(host: &Host) -> Finding {
    match (&host.native, host.gateway) {
        // It needs the same namespaces.
        (Err(_), Err(_)) => Finding::Untried,
        (_, Err(Errno::ROFS)) => {
            let by = "start the container with a writable /proc/sys (Docker: systempaths=unconfined)";
            Finding::missing(format!("{NO_GATEWAY}: /proc/sys is read-only")).helped_by(by)
        }
        (_, Err(errno)) if !is_no_answer(errno) => Finding::missing(format!("{NO_GATEWAY}: {}", said(errno))),
        (_, found) => tried(found, host),
    }
}

fn note_landlock(findings: &mut FeatureFindings, host: &Host) {
    let missing = |errno: Errno| match errno {
        errno if is_no_answer(errno) => Finding::unknown("Landlock did not answer in time"),
        errno => LandlockUnavailable::Missing { source: errno.into() }.finding().helped_by(no_landlock(errno, host)),
    };
    let files = match host.landlock {
        Ok(found) => match SufficientLandlock::new(found.supported) {
            Ok(_) => {
                let errata = found.errata.map_or_else(String::new, |bits| format!(", errata {bits:#x}"));
                Finding::present(format!("ABI {}{errata}", found.supported.abi))
            }
            Err(unavailable) => unavailable.finding(),
        },
        Err(errno) => missing(errno),
    };
    findings.note(Feature::LandlockFiles, files);
    let has = |feature: Feature, has: LandlockHas| match host.landlock {
        Ok(found) if has(found) => Finding::present(""),
        Ok(found) => {
            // The number alone is no promise.
            let since = feature.row().since;
            Finding::missing(format!("ABI {} here does not take it (Linux {since} has it)", found.supported.abi))
        }
        Err(errno) => missing(errno),
    };
    for (feature, is_there) in LANDLOCK_PARTS {
        findings.note(feature, has(feature, is_there));
    }
}

/// Does this Landlock have it?
type LandlockHas = fn(Landlock) -> bool;

/// Rights and scopes, and how they show.
const LANDLOCK_PARTS: [(Feature, LandlockHas); 4] = [
    (Feature::LandlockDevices, |found| found.supported.fs.contains(AccessFs::IOCTL_DEV)),
    (Feature::LandlockSignals, |found| found.supported.scoped.contains(Scope::SIGNAL)),
    (Feature::LandlockAbstractSockets, |found| found.supported.scoped.contains(Scope::ABSTRACT_UNIX_SOCKET)),
    (Feature::LandlockAudit, |found| found.supported.abi >= 7),
];

pub(super) fn no_landlock(errno: Errno, host: &Host) -> String {
    match errno {
        Errno::OPNOTSUPP => {
            let now = host.modules.as_ref().map(|list| format!(" (now: {list})")).unwrap_or_default();
            format!("add landlock to the kernel's lsm= parameter{now}")
        }
        Errno::NOSYS if host.signs.filtered => "permit landlock_* in the seccomp profile of the container".to_owned(),
        Errno::NOSYS => format!("{} with CONFIG_SECURITY_LANDLOCK", Feature::LandlockFiles.remedy()),
        Errno::TOOBIG => "start it outside: sixteen Landlock domains are around it already".to_owned(),
        _ => "permit landlock_* where something around this process refuses it".to_owned(),
    }
}

fn limit(host: &Host, controller: &'static str) -> Finding {
    if host.limits.contains(&controller) {
        return Finding::present("");
    }
    Finding::missing(host.cgroup.why_unlimited(controller))
}

/// What makes a cgroup ours.
fn delegation(host: &Host) -> String {
    if host.cgroup.dir.is_none() {
        return "boot with systemd.unified_cgroup_hierarchy=1, or mount cgroup2".to_owned();
    }
    if !host.cgroup.has("memory") {
        return "`systemctl edit user@.service`, with Delegate=memory pids; on cgroup version 1, boot with \
                systemd.unified_cgroup_hierarchy=1"
            .to_owned();
    }
    let user = if host.signs.caller == Caller::User { "--user " } else { "" };
    format!("start it with `systemd-run {user}--scope -p Delegate=yes ringfence run ..`")
}

fn bubblewrap(host: &Host) -> Finding {
    let missing = match &host.bwrap {
        Ok(bwrap) => {
            let path = Shown(bwrap.path.as_os_str().as_encoded_bytes());
            return Finding::present(format!("{} at {path}", bwrap.version));
        }
        Err(missing @ NoBwrap::TimedOut { .. }) => Finding::unknown(missing.to_string()),
        Err(missing) => Finding::missing(missing.to_string()),
    };
    match (&host.native, &host.bwrap) {
        (Ok(()), _) => missing.helped_by("not needed, since native works"),
        (Err(_), Err(NoBwrap::Absent)) => missing,
        (Err(_), Err(NoBwrap::TimedOut { .. })) => missing.helped_by("ask again when this host has less to do"),
        (Err(blocked), _) => missing.helped_by(blocked.cause.remedy()),
    }
}

/// A whole session on a backend. One that could not be tried says nothing.
pub(super) fn start(started: &Started) -> Finding {
    match started {
        Started::Works => Finding::present(""),
        Started::Fails(why) => Finding::missing(why),
        Started::Unknown(why) => Finding::unknown(why),
        Started::Untried(_) => Finding::Untried,
    }
}

/// What a backend uses, and was asked for here.
pub(super) fn asked_of(rung: Rung, findings: &FeatureFindings) -> impl Iterator<Item = &'static FeatureUse> {
    uses(rung).iter().filter(|using| findings.is_noted(using.feature))
}

/// What helps, where it is worth doing: where nothing is lost there is nothing to do.
pub(super) fn remedy(using: &FeatureUse, finding: &Finding) -> Option<String> {
    match finding {
        Finding::Missing { remedy, .. } if using.without != Without::Nothing => {
            Some(remedy.clone().unwrap_or_else(|| using.feature.remedy()))
        }
        Finding::Unknown { remedy, .. } => remedy.clone(),
        Finding::Missing { .. } | Finding::Present { .. } | Finding::Untried => None,
    }
}
