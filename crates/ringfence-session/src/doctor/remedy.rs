//! What would put a host right, as commands and files.

use std::path::PathBuf;

use ringfence_plan::features::Feature;
use ringfence_plan::namespaces_profile;
use ringfence_surface::Shown;

use super::host::Host;
use super::system::Packager;
use crate::probe::{Blocked, Caller, Cause, NoBwrap, Surroundings};

/// The user that agents of root's own sessions can run as.
pub const AGENT_USER: &str = "ringfence-agent";

/// The remedies that have steps, by name.
pub const NAMES: [&str; 4] = ["agent-user", "apparmor", "bubblewrap", "sysctl"];

/// The line by which a file is known to be ours.
pub(super) const MARK: &str = "# Written by `ringfence doctor --fix`.";

/// What can be done about one thing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remedy {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it does, in a line.
    pub title: String,
    /// Must it be done for a full fence?
    pub need: Need,
    /// How.
    pub way: Way,
    /// What whoever does it should know.
    pub caution: Option<String>,
}

/// Whether something must be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Need {
    /// Without it something is lost.
    Needed,
    /// Only when it is asked for by its name.
    Optional,
}

/// How something is done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Way {
    /// By these steps, in order, as root. Doing them again changes nothing.
    Steps(Vec<Action>),
    /// By somebody, elsewhere.
    ByHand(String),
}

/// One step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// A file is written, whole.
    Write {
        /// Where.
        path: PathBuf,
        /// What.
        text: String,
    },
    /// A program of the system is run.
    Run {
        /// Its name; it is looked for in the system's own directories only.
        program: &'static str,
        /// Its arguments.
        arguments: Vec<String>,
    },
}

impl Action {
    fn run(program: &'static str, arguments: &[&str]) -> Self {
        Self::Run { program, arguments: arguments.iter().map(|word| (*word).to_owned()).collect() }
    }
}

/// What can be done about a host, what is needed first.
pub fn remedies(host: &Host) -> Vec<Remedy> {
    let mut remedies = Vec::new();
    remedies.extend(host.native.as_ref().err().map(|blocked| unblock(blocked, host)));
    remedies.extend(landlock(host));
    remedies.extend(bubblewrap(host));
    remedies.extend(agent_user(host));
    remedies.sort_by_key(|remedy| remedy.need);
    remedies
}

/// What lets a native session start.
fn unblock(blocked: &Blocked, host: &Host) -> Remedy {
    let title = blocked.cause.remedy();
    let by_hand = |name, text: String| Remedy {
        name,
        title: title.clone(),
        need: Need::Needed,
        way: Way::ByHand(text),
        caution: None,
    };
    if host.signs.surroundings == Surroundings::Container {
        return by_hand("container", in_a_container(blocked.cause));
    }
    match blocked.cause {
        Cause::Forbidden { kind } => sysctl(title, &format!("user.max_{kind}_namespaces"), MOST_NAMESPACES),
        Cause::UsernsClone => sysctl(title, "kernel.unprivileged_userns_clone", 1),
        Cause::AppArmor => apparmor(title, host),
        cause => by_hand("native", cause.remedy()),
    }
}

/// Enough for many sessions at once; the kernel's own figure is half of the threads that it allows.
const MOST_NAMESPACES: u64 = 16_384;

fn sysctl(title: String, key: &str, value: u64) -> Remedy {
    // Files are read in the order of their names, so that a late one counts.
    let path = format!("/etc/sysctl.d/99-ringfence-{}.conf", key.replace(['.', '_'], "-"));
    let steps = vec![
        Action::Write { path: path.clone().into(), text: format!("{MARK}\n{key} = {value}\n") },
        Action::run("sysctl", &["-p", &path]),
    ];
    Remedy { name: "sysctl", title, need: Need::Needed, way: Way::Steps(steps), caution: None }
}

const PROFILE: &str = "/etc/apparmor.d/ringfence";

/// A profile that takes nothing away from ringfence and lets it make user namespaces; what runs inside is held by the fence.
fn apparmor(title: String, host: &Host) -> Remedy {
    let program = host.program.as_ref().and_then(|program| program.to_str());
    let Some((program, profile)) = program.and_then(|program| Some((program, namespaces_profile(program)?))) else {
        let text = "install ringfence at a path without special characters, then run `ringfence doctor --fix`";
        let way = Way::ByHand(text.to_owned());
        return Remedy { name: "apparmor", title, need: Need::Needed, way, caution: None };
    };
    let text = format!("{MARK}\n{profile}");
    let steps =
        vec![Action::Write { path: PROFILE.into(), text }, Action::run("apparmor_parser", &["--replace", PROFILE])];
    // A profile of this kind goes on to what the program starts. A session's filter refuses namespaces; `jail-exec` has none.
    let mut caution = "what ringfence starts is under the same profile; a session refuses it namespaces of its own, \
                       `jail-exec` does not"
        .to_owned();
    if !host.program_is_trusted {
        caution += &format!("; and others than root can change {program}: better install it in /usr/local/bin first");
    }
    Remedy { name: "apparmor", title, need: Need::Needed, way: Way::Steps(steps), caution: Some(caution) }
}

/// What whoever starts the container can do; from inside nothing can be changed.
fn in_a_container(cause: Cause) -> String {
    match cause {
        Cause::NoCapability | Cause::Filter | Cause::CoveredProc => {
            "start the container as an ordinary user (`--user 1000`) with `--security-opt seccomp=unconfined \
             --security-opt systempaths=unconfined`, or let the container be the fence"
                .to_owned()
        }
        cause => format!("on the container's host: {}", cause.remedy()),
    }
}

fn landlock(host: &Host) -> Option<Remedy> {
    if host.landlock.is_ok_and(|landlock| landlock.is_sufficient()) {
        return None;
    }
    let title = "let the kernel hold a second wall (Landlock)".to_owned();
    let text = match host.landlock {
        Ok(_) => Feature::LandlockFiles.remedy(),
        Err(errno) => super::findings::no_landlock(errno, host),
    };
    Some(Remedy { name: "landlock", title, need: Need::Needed, way: Way::ByHand(text), caution: None })
}

/// bubblewrap helps where the kernel gives namespaces and something about our own start fails.
fn bubblewrap(host: &Host) -> Option<Remedy> {
    if host.bwrap != Err(NoBwrap::Absent) {
        return None;
    }
    let helps = |blocked: &Blocked| {
        let may_help = matches!(
            blocked.cause,
            Cause::AppArmor | Cause::SeLinux | Cause::OldKernel { .. } | Cause::UnknownArchitecture | Cause::Unknown
        );
        may_help && host.signs.surroundings == Surroundings::Host
    };
    let need = if host.native.as_ref().is_err_and(helps) { Need::Needed } else { Need::Optional };
    let way = match host.system.packager {
        Some(packager) => {
            let commands = packager.install("bubblewrap").into_iter();
            Way::Steps(commands.map(|(program, arguments)| Action::Run { program, arguments }).collect())
        }
        None => Way::ByHand("install the package bubblewrap".to_owned()),
    };
    let title = "install bubblewrap, the fallback".to_owned();
    Some(Remedy { name: "bubblewrap", title, need, way, caution: None })
}

/// Root's sessions run as the user behind `sudo` or as the project's owner. Where both are root, a user of its own owns nothing
/// else.
fn agent_user(host: &Host) -> Option<Remedy> {
    if host.agent_user || host.signs.caller != Caller::Root {
        return None;
    }
    let shell = Shown(host.nologin.as_os_str().as_encoded_bytes()).to_string();
    let steps = if host.system.packager == Some(Packager::Apk) {
        let user = ["-S", "-D", "-H", "-h", "/nonexistent", "-s", &shell, "-G", AGENT_USER, AGENT_USER];
        vec![Action::run("addgroup", &["-S", AGENT_USER]), Action::run("adduser", &user)]
    } else {
        let home = ["--no-create-home", "--home-dir", "/nonexistent"];
        let words = [["--system", "--user-group", "--no-log-init"], home, ["--shell", &shell, AGENT_USER]].concat();
        vec![Action::run("useradd", &words)]
    };
    Some(Remedy {
        name: "agent-user",
        title: format!("make the user {AGENT_USER}, without a home and without a login"),
        need: Need::Optional,
        way: Way::Steps(steps),
        caution: None,
    })
}
