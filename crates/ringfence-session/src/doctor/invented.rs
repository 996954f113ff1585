//! Hosts that nobody has at hand, and what is said about them.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use ringfence_plan::Rung;
use ringfence_plan::features::Finding;
use ringfence_sys::landlock::{AccessFs, AccessNet, Scope, Supported};
use rustix::io::Errno;

use super::*;
use crate::probe::{
    Blocked, Bwrap, Caller, Cause, Cgroup, Engine, Landlock, NoBwrap, Seccomp, Signs, Step, Surroundings,
};

/// A workstation on which everything works, for an ordinary user.
fn whole() -> Host {
    let landlock = |abi| Landlock {
        supported: Supported {
            abi,
            fs: AccessFs::of_abi(abi),
            net: AccessNet::of_abi(abi),
            scoped: Scope::of_abi(abi),
        },
        errata: Some(7),
    };
    Host {
        kernel: "6.18.1".into(),
        system: System { name: "Debian GNU/Linux 13 (trixie)".into(), packager: Some(Packager::Apt) },
        signs: Signs {
            caller: Caller::User,
            surroundings: Surroundings::Host,
            forbidden: Vec::new(),
            absent: Vec::new(),
            unprivileged_userns_clone: Some(1),
            apparmor_restricts: None,
            selinux: false,
            filtered: false,
            administers: false,
            chrooted: false,
            proc: true,
        },
        native: Ok(()),
        starts: Starts::of_all(|_| Started::Works),
        bwrap: Ok(Bwrap { path: "/usr/bin/bwrap".into(), version: "0.11.0".into() }),
        landlock: Ok(landlock(7)),
        seccomp: Seccomp { filter: Ok(()), listener: Ok(()) },
        cgroup: Cgroup {
            dir: Some("/sys/fs/cgroup/user.slice".into()),
            controllers: vec!["cpu".into(), "memory".into(), "pids".into()],
        },
        limits: vec!["memory", "pids"],
        gateway: Ok(()),
        overlay: Ok(()),
        idmap: None,
        openat2: Ok(()),
        pidfd: Ok(()),
        close_range: Ok(()),
        pty: Ok(()),
        engines: vec![Engine {
            name: "podman",
            path: "/usr/bin/podman".into(),
            version: Finding::present("5.4.0 at /usr/bin/podman"),
        }],
        program: Some("/usr/local/bin/ringfence".into()),
        program_is_trusted: true,
        nologin: "/usr/sbin/nologin".into(),
        agent_user: false,
        modules: Some("capability,landlock,yama,apparmor".into()),
    }
}

fn blocked(step: Step, errno: Errno, cause: Cause) -> Result<(), Blocked> {
    Err(Blocked { step, errno, cause })
}

fn ubuntu() -> Host {
    let mut host = whole();
    host.system = System { name: "Ubuntu 24.04.1 LTS".into(), packager: Some(Packager::Apt) };
    host.signs.apparmor_restricts = Some(1);
    host.native = blocked(Step::Propagation, Errno::ACCESS, Cause::AppArmor);
    host.bwrap = Err(NoBwrap::Fails { path: "/usr/bin/bwrap".into(), said: "setting up uid map: denied".into() });
    host
}

/// The remedies as somebody would do them.
fn script(host: &Host) -> String {
    let mut lines = Vec::new();
    for remedy in remedies(host) {
        lines.push(format!("{:?} {}: {}", remedy.need, remedy.name, remedy.title));
        assert!(NAMES.contains(&remedy.name) || matches!(remedy.way, Way::ByHand(_)), "{}", remedy.name);
        match &remedy.way {
            Way::ByHand(advice) => lines.push(format!("  by hand: {advice}")),
            Way::Steps(steps) => lines.extend(steps.iter().map(|step| match step {
                Action::Write { path, text } => format!("  {}: {text:?}", path.display()),
                Action::Run { .. } => format!("  $ {}", step.command_line().unwrap()),
            })),
        }
        lines.extend(remedy.caution.map(|caution| format!("  caution: {caution}")));
    }
    lines.join("\n")
}

#[track_caller]
fn check(host: &Host, verdict: &str, expected: &str) {
    let diagnosis = diagnose(host);
    assert_eq!(diagnosis.verdict.to_string(), verdict);
    assert_eq!(script(host), expected);
    for group in &diagnosis.groups {
        let costly = group.features.iter().any(|feature| feature.costs == Costs::Rung && !feature.finding.is_present());
        assert_eq!(group.answer == Answer::Works, !costly, "{:?}: a rung is as good as its features", group.rung);
    }
}

#[test]
fn a15_a_host_where_everything_works() {
    let host = whole();
    check(&host, "native: everything holds here", "");
    assert!(diagnose(&host).verdict.is_full);
    let mut lesser = whole();
    lesser.limits = vec!["pids"];
    lesser.bwrap = Err(NoBwrap::Absent);
    check(
        &lesser,
        "native: the fence holds here, without a memory limit",
        "Optional bubblewrap: install bubblewrap, the fallback\n  \
         $ apt-get update\n  \
         $ apt-get install --yes --no-install-recommends bubblewrap",
    );
    assert!(diagnose(&lesser).verdict.is_full, "a limit costs no rung");
}

/// A15 K4: Ubuntu since 23.10.
#[test]
fn a15_apparmor_restricts_user_namespaces() {
    let profile = "\"# Written by `ringfence doctor --fix`.\\n\
                   # It lets this one program make user namespaces, and takes nothing away from it.\\n\
                   abi <abi/4.0>,\\ninclude <tunables/global>\\n\\n\
                   profile ringfence /usr/local/bin/ringfence flags=(unconfined) {\\n  userns,\\n\\n  \
                   include if exists <local/ringfence>\\n}\\n\"";
    let verdict = "landlock: falls back to Landlock and seccomp alone, because AppArmor restricts user namespaces: \
                   kernel.apparmor_restrict_unprivileged_userns is 1 (mount(/, MS_REC|MS_PRIVATE): Permission denied \
                   (os error 13)); /usr/bin/bwrap: setting up uid map: denied";
    let steps = format!(
        "Needed apparmor: give ringfence an AppArmor profile that permits `userns`\n  \
         /etc/apparmor.d/ringfence: {profile}\n  \
         $ apparmor_parser --replace /etc/apparmor.d/ringfence\n  \
         caution: what ringfence starts is under the same profile; a session refuses it namespaces of its own, \
         `jail-exec` does not"
    );
    check(&ubuntu(), verdict, &steps);
    let mut own = ubuntu();
    own.program_is_trusted = false;
    assert!(script(&own).contains("; and others than root can change /usr/local/bin/ringfence: better install"));
    // A star in a profile means any program.
    for path in ["/home/u/a*b/ringfence", "/home/u/{a,b}/ringfence", "/home/u/a b", "/home/u/\u{e9}", "ringfence"] {
        own.program = Some(path.into());
        assert!(script(&own).contains("by hand: install ringfence at a path without special"), "{path}");
    }
    // Ubuntu 25.04 has a profile for bubblewrap.
    let mut later = ubuntu();
    later.bwrap = whole().bwrap;
    let verdict = diagnose(&later).verdict;
    assert_eq!((verdict.rung, verdict.is_full), (Some(Rung::Bwrap), false));
    assert!(verdict.to_string().starts_with("bwrap: falls back to bubblewrap, because AppArmor"), "{verdict}");
}

#[test]
fn a15_switched_off_by_sysctl() {
    let mut host = whole();
    host.native = blocked(Step::Clone, Errno::NOSPC, Cause::Forbidden { kind: "user" });
    host.bwrap = Err(NoBwrap::Absent);
    host.system.packager = Some(Packager::Dnf);
    check(
        &host,
        "landlock: falls back to Landlock and seccomp alone, because user.max_user_namespaces is 0 \
         (clone3(CLONE_NEWNS|CLONE_NEWPID|CLONE_NEWNET|..): No space left on device (os error 28)); bubblewrap is not \
         installed",
        "Needed sysctl: set the sysctl user.max_user_namespaces above 0\n  \
         /etc/sysctl.d/99-ringfence-user-max-user-namespaces.conf: \
         \"# Written by `ringfence doctor --fix`.\\nuser.max_user_namespaces = 16384\\n\"\n  \
         $ sysctl -p /etc/sysctl.d/99-ringfence-user-max-user-namespaces.conf\n\
         Optional bubblewrap: install bubblewrap, the fallback\n  \
         $ dnf install --assumeyes bubblewrap",
    );
    host.native = blocked(Step::Clone, Errno::PERM, Cause::UsernsClone);
    let steps = script(&host);
    assert!(steps.contains("kernel.unprivileged_userns_clone = 1"), "{steps}");
}

/// K4: without any layer there is no session, and the reasons are said, each with its remedy.
#[test]
fn k4_nothing_holds() {
    let mut host = whole();
    host.signs.filtered = true;
    host.signs.surroundings = Surroundings::Container;
    host.native = blocked(Step::Clone, Errno::NOSYS, Cause::Filter);
    host.bwrap = Err(NoBwrap::Absent);
    host.landlock = Err(Errno::NOSYS);
    check(
        &host,
        "none: `ringfence run` refuses here, because a seccomp filter around this process refuses it, as container \
         engines do (clone3(CLONE_NEWNS|CLONE_NEWPID|CLONE_NEWNET|..): Function not implemented (os error 38)); \
         bubblewrap is not installed; this kernel has no Landlock (Function not implemented (os error 38))",
        "Needed container: start the container with a seccomp profile that permits namespaces and mounts\n  \
         by hand: start the container as an ordinary user (`--user 1000`) with `--security-opt seccomp=unconfined \
         --security-opt systempaths=unconfined`, or let the container be the fence\n\
         Needed landlock: let the kernel hold a second wall (Landlock)\n  \
         by hand: permit landlock_* in the seccomp profile of the container\n\
         Optional bubblewrap: install bubblewrap, the fallback\n  \
         $ apt-get update\n  \
         $ apt-get install --yes --no-install-recommends bubblewrap",
    );
    let mut unfiltered = host.clone();
    unfiltered.landlock = whole().landlock;
    unfiltered.seccomp.filter = Err(Errno::INVAL);
    assert_eq!(diagnose(&unfiltered).verdict.rung, None, "Landlock alone is no fence");
    assert!(diagnose(&unfiltered).verdict.to_string().ends_with("no seccomp filter: Invalid argument (os error 22)"));
}

/// The view stands, and nothing stands behind it.
#[test]
fn a15_landlock_is_off_or_half_there() {
    let mut host = whole();
    host.landlock = Err(Errno::OPNOTSUPP);
    host.modules = Some("capability,yama,apparmor".into());
    check(
        &host,
        "native: the fence holds here, without a second wall",
        "Needed landlock: let the kernel hold a second wall (Landlock)\n  \
         by hand: add landlock to the kernel's lsm= parameter (now: capability,yama,apparmor)",
    );
    assert!(!diagnose(&host).verdict.is_full);
    // Some vendors report a number and leave features out.
    let mut vendor = whole();
    vendor.native = ubuntu().native;
    vendor.bwrap = Err(NoBwrap::Untrusted { path: "/usr/local/bin/bwrap".into() });
    let supported =
        Supported { abi: 6, fs: AccessFs::ABI_5, net: AccessNet::ABI_4, scoped: Scope::ABSTRACT_UNIX_SOCKET };
    vendor.landlock = Ok(Landlock { supported, errata: None });
    let verdict = diagnose(&vendor).verdict;
    assert_eq!((verdict.rung, verdict.lost), (Some(Rung::LandlockOnly), vec!["signals"]));
    let old = Supported { abi: 1, fs: AccessFs::ABI_1, net: AccessNet::NONE, scoped: Scope::NONE };
    vendor.landlock = Ok(Landlock { supported: old, errata: None });
    assert_eq!(diagnose(&vendor).verdict.rung, None);
}

/// A15: the user for root's own sessions, on each kind of system.
#[test]
fn a15_a_user_for_roots_sessions() {
    let mut host = whole();
    host.signs.caller = Caller::Root;
    host.idmap = Some(Ok(()));
    check(
        &host,
        "native: everything holds here",
        "Optional agent-user: make the user ringfence-agent, without a home and without a login\n  \
         $ useradd --system --user-group --no-log-init --no-create-home --home-dir /nonexistent \
         --shell /usr/sbin/nologin ringfence-agent",
    );
    host.system.packager = Some(Packager::Apk);
    host.nologin = "/sbin/nologin".into();
    let steps = script(&host);
    assert!(
        steps.contains("$ addgroup -S ringfence-agent\n  $ adduser -S -D -H -h /nonexistent -s /sbin/nologin"),
        "{steps}"
    );
    host.agent_user = true;
    assert_eq!(script(&host), "");
}

/// A15: an engine that does not answer is not said to work, and costs nothing.
#[test]
fn a15_an_engine_that_does_not_answer() {
    let mut host = whole();
    host.engines[0].version = Finding::missing("podman does not answer");
    let diagnosis = diagnose(&host);
    let podman = diagnosis.beside.iter().find(|feature| feature.name == "podman").map(|row| &row.finding);
    assert_eq!(podman, Some(&Finding::missing("podman does not answer")));
    assert_eq!(diagnosis.verdict, diagnose(&whole()).verdict);
}

#[test]
fn a15_bubblewrap_on_each_system() {
    let mut host = whole();
    host.native = blocked(Step::Attributes, Errno::NOSYS, Cause::OldKernel { since: "5.12" });
    host.bwrap = Err(NoBwrap::Absent);
    for (packager, command) in [
        (Some(Packager::Apt), "$ apt-get install --yes --no-install-recommends bubblewrap"),
        (Some(Packager::Dnf), "$ dnf install --assumeyes bubblewrap"),
        (Some(Packager::Pacman), "$ pacman -S --needed --noconfirm bubblewrap"),
        (Some(Packager::Apk), "$ apk add bubblewrap"),
        (Some(Packager::Zypper), "$ zypper --non-interactive install bubblewrap"),
        (None, "by hand: install the package bubblewrap"),
    ] {
        host.system.packager = packager;
        let steps = script(&host);
        assert!(steps.contains("Needed bubblewrap") && steps.ends_with(command), "{steps}");
    }
}

/// Hands that touch nothing but themselves.
#[derive(Default)]
struct Invented {
    files: BTreeMap<PathBuf, Vec<u8>>,
    ran: Vec<String>,
    code: i32,
}

impl Hands for Invented {
    fn read(&mut self, path: &Path) -> io::Result<Option<Vec<u8>>> {
        Ok(self.files.get(path).cloned())
    }

    fn write(&mut self, path: &Path, text: &str) -> io::Result<()> {
        self.files.insert(path.to_owned(), text.into());
        Ok(())
    }

    fn run(&mut self, program: &str, arguments: &[String]) -> io::Result<ExitStatus> {
        self.ran.push(format!("{program} {}", arguments.join(" ")));
        Ok(ExitStatus::from_raw(self.code << 8))
    }
}

/// A15: the package brings the same profile along, and says that it is the package's.
#[test]
fn a15_the_package_has_the_same_profile() {
    let mut host = ubuntu();
    host.program = Some("/usr/bin/ringfence".into());
    let mut hands = Invented::default();
    apply(&remedies(&host)[0], &mut hands).unwrap();
    let written = &hands.files[&PathBuf::from("/etc/apparmor.d/ringfence")];
    let written = String::from_utf8(written.clone()).unwrap();
    let packaged = include_str!("../../../../packaging/apparmor");
    let rules = |text: &str| text.split_once('\n').unwrap().1.to_owned();
    assert_eq!(rules(&written), rules(packaged));
}

/// A15: what is done is said; done again it changes nothing; what is not ours stays.
#[test]
fn a15_a_remedy_is_carried_out() {
    let remedy = &remedies(&ubuntu())[0];
    let mut hands = Invented::default();
    let path = PathBuf::from("/etc/apparmor.d/ringfence");
    let ran = Change::Ran("apparmor_parser --replace /etc/apparmor.d/ringfence".into());
    assert_eq!(apply(remedy, &mut hands).unwrap(), [Change::Wrote(path.clone()), ran.clone()]);
    let before = hands.files.clone();
    assert_eq!(apply(remedy, &mut hands).unwrap(), [Change::WasSo(path.clone()), ran]);
    assert_eq!(hands.files, before);
    // An older text of ours gives way; somebody else's does not, and nothing runs.
    hands.files.insert(path.clone(), b"# Written by `ringfence doctor --fix`.\nolder\n".into());
    assert_eq!(apply(remedy, &mut hands).unwrap()[0], Change::Wrote(path.clone()));
    hands.files.insert(path.clone(), b"profile ringfence {}\n".into());
    hands.ran.clear();
    assert!(matches!(apply(remedy, &mut hands), Err(FixError::NotOurs { .. })));
    assert_eq!((hands.files[&path].as_slice(), hands.ran.len()), (b"profile ringfence {}\n".as_slice(), 0));
}

#[test]
fn a_remedy_that_fails_stops_there() {
    let mut host = whole();
    host.bwrap = Err(NoBwrap::Absent);
    let mut hands = Invented { code: 100, ..Invented::default() };
    let failed = apply(&remedies(&host)[0], &mut hands).unwrap_err();
    assert_eq!(failed.to_string(), "`apt-get update` ended with exit status: 100");
    assert_eq!(hands.ran, ["apt-get update"]);
    host.system.packager = None;
    let failed = apply(&remedies(&host)[0], &mut hands).unwrap_err();
    assert_eq!(failed.to_string(), "this has to be done by hand: install the package bubblewrap");
}

/// I9: a probe that times out is unknown, and is not reported as not working.
#[test]
fn i9_a_timeout_is_unknown() {
    let mut host = whole();
    host.native = blocked(Step::Clone, Errno::PERM, Cause::UsernsClone);
    host.starts.note(Rung::Native, Started::Fails("refused".to_owned()));
    host.bwrap = Err(NoBwrap::TimedOut { path: "/usr/bin/bwrap".into() });
    let diagnosis = diagnose(&host);
    let answers: Vec<Answer> = diagnosis.groups.iter().map(|group| group.answer).collect();
    assert_eq!(answers, [Answer::Fails, Answer::Unknown, Answer::Works]);
    assert_eq!(
        (diagnosis.verdict.rung, &diagnosis.verdict.unknown[..]),
        (Some(Rung::LandlockOnly), &[Rung::Bwrap][..])
    );
    let words = diagnosis.verdict.to_string();
    assert!(words.contains("it is unknown whether bwrap works: /usr/bin/bwrap did not end within"), "{words}");
    // The native probe has a limit too, and so has a whole start.
    let mut host = whole();
    host.native = blocked(Step::Tmpfs, Errno::TIMEDOUT, Cause::TimedOut);
    assert_eq!(diagnose(&host).groups[0].answer, Answer::Unknown);
    let mut host = whole();
    host.starts.note(Rung::Native, Started::Unknown("it did not end within 10 s".to_owned()));
    assert_eq!(diagnose(&host).groups[0].answer, Answer::Unknown);
    assert!(!diagnose(&host).verdict.is_full);
}

/// I1: a start that fails although every part works is what counts.
#[test]
fn i1_a_start_counts_more_than_its_parts() {
    let mut host = whole();
    host.starts.note(Rung::Native, Started::Fails("cannot start inside the fence: close_range: ENOSYS".to_owned()));
    let verdict = diagnose(&host).verdict;
    assert_eq!((verdict.rung, verdict.is_full), (Some(Rung::Bwrap), false));
    assert!(verdict.to_string().contains("native does not start: cannot start inside the fence"), "{verdict}");
}
