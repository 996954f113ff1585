//! What the user can do about what went wrong.

#[cfg(target_os = "linux")]
use std::path::Path;

#[cfg(target_os = "linux")]
use ringfence_session::{
    container::{NoContainer, NoEngine},
    give::GiveError,
    launch::StartError,
    start::{PrepareError, ScriptError},
    store::FindError,
    walk::WalkError,
};
#[cfg(target_os = "linux")]
use ringfence_surface::{
    NotGiven, Shown, Word,
    curated::packs::{PACKS, Pack},
};

use super::Failure;
#[cfg(target_os = "linux")]
use super::{review, root, worktree};

impl Failure {
    pub(crate) fn hint(&self) -> Option<String> {
        if self.is_for_want_of_descriptors() {
            return Some("`ulimit -n 1024` lets that many files be open at once; a session needs a few dozen".into());
        }
        Some(match self {
            Self::Exists { .. } => "look at it first; `--force` replaces it".into(),
            Self::NoProjectFile { .. } => "`ringfence init` writes a starter policy".into(),
            Self::LinkedProjectFile { .. } => "copy the file there, or name the other one with `--policy`".into(),
            Self::TrustedBefore { .. } => "read what has changed, then `ringfence trust --force`".into(),
            Self::NoCommand { known, .. } => format!("the commands are {}", known.join(", ")),
            Self::UnreadableDirectory { .. } => "go to a directory that you may open by its full name".into(),
            Self::CurrentDirectory { .. } => "it was removed, or moved out of reach: go to one that is there".into(),
            // Only where nobody has named the place.
            Self::Write { path, .. } if path.ancestors().any(|above| above.ends_with(".local/state/ringfence")) => {
                "ringfence keeps its state there: XDG_STATE_HOME names another place".into()
            }
            Self::SmallStack { .. } => "`ulimit -s 8192` raises it".into(),
            Self::NoHome => "set HOME or XDG_STATE_HOME".into(),
            Self::Host { source } => return source.hint(),
            Self::VariableName { .. } => "name one variable: letters, digits and `_`".into(),
            #[cfg(target_os = "linux")]
            Self::Prepare { source: PrepareError::NoCommand } => "name one: `ringfence run -- bash`".into(),
            #[cfg(target_os = "linux")]
            Self::Prepare { source: PrepareError::Workdir { .. } } => {
                "start in a directory that may be read; for one call, `--workdir DIR` names it".into()
            }
            #[cfg(target_os = "linux")]
            Self::Widens { .. } => "ask for no more than the session has, or start a session that has it: what it has is in its policy".into(),
            #[cfg(target_os = "linux")]
            Self::PartOfTheNetwork => "`--no-network` closes it; from outside the fence a call can have a part".into(),
            #[cfg(target_os = "linux")]
            Self::Within { .. } => "name a session that runs: `ringfence ps` lists yours, and inside it is $RINGFENCE_SESSION".into(),
            #[cfg(target_os = "linux")]
            Self::Amount { .. } => "a time is written 30s, 5m or 1h30m, a size 512MiB or 2GiB".into(),
            #[cfg(target_os = "linux")]
            Self::Prepare { source: PrepareError::Container(NoContainer::NeedsLibraries) } => {
                "install the program that `cargo xtask dist` builds, or use `image = \"host\"`".into()
            }
            #[cfg(target_os = "linux")]
            Self::Engine { source: NoEngine::Remote { .. } } => {
                "use an engine on this machine: unset DOCKER_HOST, DOCKER_CONTEXT, CONTAINER_HOST and CONTAINER_CONNECTION".into()
            }
            #[cfg(target_os = "linux")]
            Self::Engine { source: NoEngine::Missing { .. } } => "install it, or leave `--backend` out".into(),
            #[cfg(target_os = "linux")]
            Self::Engine { .. } => {
                "start its service, or see to it that you may use it (`ringfence doctor` tries); or leave `--backend` out".into()
            }
            #[cfg(target_os = "linux")]
            Self::Start { source: StartError::NotFound { program } } => return where_it_is(program),
            #[cfg(target_os = "linux")]
            Self::Start { source: StartError::TooManyLayers } => {
                "the kernel stacks 16 layers of Landlock: make the call from a fence that is less deep, or from outside".into()
            }
            #[cfg(target_os = "linux")]
            Self::Start { source: StartError::Clone { .. } } | Self::NoRung { .. } => {
                "`ringfence doctor` says what this host lacks, and what helps".into()
            }
            #[cfg(target_os = "linux")]
            Self::Start { source: StartError::FileSystem { kind: "proc", .. } } => {
                "a container that masks parts of /proc forbids another: start it with `--security-opt systempaths=unconfined` \
                 (docker) or `unmask=ALL` (podman)"
                    .into()
            }
            #[cfg(target_os = "linux")]
            Self::Start { source: StartError::FileSystem { kind: "devpts", .. } } => {
                "this kernel has no terminals of its own for a session (CONFIG_UNIX98_PTYS), or a container forbids them".into()
            }
            #[cfg(target_os = "linux")]
            Self::Start { source: StartError::Replaced { .. } }
            | Self::Prepare { source: PrepareError::Walk(WalkError::Changing { .. }) } => {
                "start it again when nothing moves files about there".into()
            }
            #[cfg(target_os = "linux")]
            Self::Prepare { source: PrepareError::Walk(WalkError::List { path, .. }) }
            | Self::Give { source: GiveError::Walk(WalkError::List { path, .. }) } => {
                format!("what cannot be listed cannot be guarded: name a place in {path} that you may list, or leave it out")
            }
            #[cfg(target_os = "linux")]
            Self::Prepare { source: PrepareError::Script(ScriptError::WritableRoot) } => {
                "name the directories that are to be written, in `write` of [files]; `view = \"host\"` shows the others".into()
            }
            #[cfg(target_os = "linux")]
            Self::Prepare { source: PrepareError::Script(ScriptError::NoPlace { .. }) } => {
                "something that was named would stand in the place of what is the session's own: name a smaller place, or \
                 `view = \"host\"` in [files] for all of the host"
                    .into()
            }
            #[cfg(target_os = "linux")]
            Self::Shortfalls { .. } => {
                "`--allow-shortfall NAME` accepts one of them, by the name in brackets or its text".into()
            }
            #[cfg(target_os = "linux")]
            Self::NoAgent { agent, .. } => {
                format!("install it, or name it: `[agent.{agent}] command = [\"/path/to/it\"]`")
            }
            #[cfg(target_os = "linux")]
            Self::WithoutHooks { .. } => "leave it out; with `ringfence run -- env CLIENT` the fence alone holds".into(),
            #[cfg(target_os = "linux")]
            Self::NobodyToAsk => "`--yes` does it without asking; without `--fix` nothing is changed".into(),
            #[cfg(target_os = "linux")]
            Self::Learn { source } => return source.hint(),
            #[cfg(target_os = "linux")]
            Self::Shell(source) => return source.hint(),
            Self::Root { source } => return source.hint(),
            Self::Render { source } => return source.hint(),
            #[cfg(target_os = "linux")]
            Self::Review { source } => return source.hint(),
            #[cfg(target_os = "linux")]
            Self::Prepare { source: PrepareError::MountedBelow { .. } } => review::MOUNTED.into(),
            #[cfg(target_os = "linux")]
            Self::Start { source: StartError::NoRight } => root::NO_RIGHT.into(),
            #[cfg(any(test, not(target_os = "linux")))]
            Self::NotLinux => "`explain`, `plan`, `check` and the other queries work here".into(),
            #[cfg(target_os = "linux")]
            Self::Served { address } if address.is_empty() => "end the other one first".into(),
            #[cfg(target_os = "linux")]
            Self::Served { address } => format!("it is at {address}, and its token in the file `serve/token` of ringfence's state"),
            #[cfg(target_os = "linux")]
            Self::Listen { .. } => "name another with `--port`; without it any free one is taken".into(),
            #[cfg(target_os = "linux")]
            Self::Find { source: FindError::Ended { .. } } => "`ringfence ps` lists those that run".into(),
            #[cfg(target_os = "linux")]
            Self::Find { .. } => "`ringfence ps --all` lists them".into(),
            #[cfg(target_os = "linux")]
            Self::Control { id, .. } => {
                format!("`ringfence show {id}` says which process it is; TERM ends it with its command")
            }
            #[cfg(target_os = "linux")]
            Self::Refused { hint, .. } => return hint.clone(),
            #[cfg(target_os = "linux")]
            Self::Give { source: GiveError::NotGiven(NotGiven::Denied { .. }) } => {
                "what is denied is not given while a session runs; `ringfence explain --read` says where that is written".into()
            }
            #[cfg(target_os = "linux")]
            Self::Give { source: GiveError::NotGiven(NotGiven::Own { .. }) } => {
                "copy it to a place of another name, and give that".into()
            }
            #[cfg(target_os = "linux")]
            Self::Give { source: GiveError::NotGiven(NotGiven::Network { .. }) } => {
                "name one address in it; `allow` in [network] takes networks, from the next start on".into()
            }
            #[cfg(target_os = "linux")]
            Self::Worktree { source } => return worktree::hint(source),
            #[cfg(target_os = "linux")]
            Self::Give { source: GiveError::TooMuch { .. } } => "name a smaller place in it".into(),
            #[cfg(target_os = "linux")]
            Self::KnownLine { .. } => "`ringfence audit verify` prints the last line so".into(),
            Self::Facts { .. } => "`ringfence plan --facts` prints those of this host".into(),
            _ => return None,
        })
    }

    /// May this process have no more files open? The hint is the same wherever that shows.
    fn is_for_want_of_descriptors(&self) -> bool {
        let mut causes = std::iter::successors(std::error::Error::source(self), |cause| cause.source());
        causes.any(|cause| {
            let cause = cause.downcast_ref::<std::io::Error>();
            cause.and_then(rustix::io::Errno::from_io_error) == Some(rustix::io::Errno::MFILE)
        })
    }
}

/// Where a program is that the fence does not have, and what shows it there. What is of the system is in every fence.
#[cfg(target_os = "linux")]
fn where_it_is(program: &str) -> Option<String> {
    let search = std::env::var_os("PATH").unwrap_or_default();
    let places = std::env::split_paths(&search).map(|dir| dir.join(program));
    let found = places.into_iter().find(|path| path.is_absolute() && path.is_file())?;
    let real = found.canonicalize().ok()?;
    let mut dirs = vec![found.parent()?, real.parent()?];
    dirs.dedup();
    dirs.retain(|dir| !dir.starts_with("/usr") && !dir.starts_with("/bin"));
    let shown = |path: &Path| Shown(path.as_os_str().as_encoded_bytes()).to_string();
    if let Some(pack) = pack_of(&found, &real) {
        // A toolchain needs more than the directory that its programs are in.
        return Some(format!(
            "outside it is {}, of pack {pack}: add \"{pack}\" to `extends` in ringfence.toml (`ringfence init` writes one), then \
             `ringfence trust`",
            shown(&found)
        ));
    }
    let references: Vec<String> =
        dirs.into_iter().map(|dir| format!("--ref {}", Word(dir.as_os_str().as_encoded_bytes()))).collect();
    (!references.is_empty()).then(|| {
        format!(
            "outside it is {}: `{}` shows it for one run, `read` in [files] always",
            shown(&found),
            references.join(" ")
        )
    })
}

/// The one pack that has this program among its toolchains.
#[cfg(target_os = "linux")]
fn pack_of(found: &Path, real: &Path) -> Option<&'static str> {
    let place = |pattern: &str| {
        let (first, rest) = pattern.split_once('/').unwrap_or((pattern, ""));
        let variable = if first == "~" { "HOME" } else { first.strip_prefix('$')? };
        Some(Path::new(&std::env::var_os(variable)?).join(rest))
    };
    let has = |pack: &&Pack| {
        let places = pack.reads.iter().filter_map(|row| place(row.pattern)).filter(|place| place.is_absolute());
        places.into_iter().any(|place| found.starts_with(&place) || real.starts_with(&place))
    };
    let mut packs = PACKS.iter().filter(has).map(|pack| pack.name);
    packs.next().filter(|_| packs.next().is_none())
}
