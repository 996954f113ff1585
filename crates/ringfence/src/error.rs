//! What can go wrong, and which exit code it has. What the user can do about it is in `hint`.

mod hint;
#[cfg(target_os = "linux")]
mod learn;
mod render;
#[cfg(target_os = "linux")]
mod review;
mod root;
#[cfg(target_os = "linux")]
mod shell;
#[cfg(target_os = "linux")]
mod worktree;

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

#[cfg(target_os = "linux")]
use ringfence_session::{
    alive::NotWithin,
    container::{NoContainer, NoEngine},
    doctor::FixError,
    give::GiveError,
    launch::StartError,
    record::RecordError,
    start::PrepareError,
    store::FindError,
    worktree::WorktreeError,
};
#[cfg(target_os = "linux")]
use ringfence_surface::Widens;
use ringfence_surface::text::Diagnostic;
use ringfence_surface::{AbsPath, HostError, PathError, Shown};

use crate::out::say;
use crate::tell;

#[cfg(target_os = "linux")]
pub(crate) use learn::LearnFailure;
pub(crate) use render::RenderFailure;
#[cfg(target_os = "linux")]
pub(crate) use review::ReviewFailure;
pub(crate) use root::RootFailure;
#[cfg(target_os = "linux")]
pub(crate) use shell::ShellFailure;

/// Why a command did not do its job.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The policy is wrong, or it cannot be used here.
    #[error("the policy cannot be used")]
    Policy {
        /// The mistakes, each with its place where it has one.
        said: Vec<Diagnostic>,
    },
    /// The command line names a persona, a task or an agent that no file describes.
    #[error("the command line names what no policy file describes")]
    Unknown {
        /// Which.
        said: Vec<Diagnostic>,
    },
    /// The command line asks for the manual of a command that does not exist.
    #[error("there is no command `{}`", Shown(name.as_bytes()))]
    NoCommand {
        /// As typed.
        name: String,
        /// Those that exist.
        known: Vec<String>,
    },
    /// A layer could not be tried.
    #[cfg(target_os = "linux")]
    #[error("cannot try {layer}")]
    Verify {
        /// Which.
        layer: &'static str,
        /// Why.
        source: ringfence_session::verify::NotTried,
    },
    /// A file could not be read.
    #[error("cannot read {}", Shown(path.as_os_str().as_encoded_bytes()))]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file could not be written.
    #[error("cannot write {}", Shown(path.as_os_str().as_encoded_bytes()))]
    Write {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Writing would replace something.
    #[error("{} exists already", Shown(path.as_os_str().as_encoded_bytes()))]
    Exists {
        /// Which.
        path: PathBuf,
    },
    /// There is no project file to trust.
    #[error("there is no ringfence.toml in {dir} or above")]
    NoProjectFile {
        /// Where the search began.
        dir: AbsPath,
    },
    /// Trusted once, and changed since.
    #[error("{path} has changed since it was trusted")]
    TrustedBefore {
        /// Which.
        path: AbsPath,
    },
    /// A link in the place of a project's policy.
    #[error("{} is a symbolic link", Shown(path.as_os_str().as_encoded_bytes()))]
    LinkedProjectFile {
        /// Which.
        path: PathBuf,
    },
    /// Something that an untrusted project extends; its content is not shown.
    #[error("{path} is not a policy, and what is wrong with it is not shown since the project is not trusted")]
    NotAPolicy {
        /// Which.
        path: AbsPath,
    },
    /// No home directory, so no place for state.
    #[error("there is no place outside the project to keep trust in")]
    NoHome,
    /// The caller's limit on the stack is too small to go on.
    #[error("the stack limit is {} KiB, and ringfence needs {} KiB", has >> 10, needs >> 10)]
    SmallStack {
        /// The limit in bytes.
        has: u64,
        /// What is needed.
        needs: u64,
    },
    /// The current directory cannot be told.
    #[error("cannot tell the current directory")]
    CurrentDirectory {
        /// Why.
        source: io::Error,
    },
    /// The current directory has a name, and whoever runs this may not go there by it.
    #[error("cannot look at the current directory, {}", Shown(dir.as_os_str().as_encoded_bytes()))]
    UnreadableDirectory {
        /// Which.
        dir: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A path on the command line.
    #[error("not a usable path")]
    Path {
        /// Why.
        source: PathError,
    },
    /// A path on the command line that leads nowhere.
    #[error("not a usable path: {reason}")]
    BadPath {
        /// Why.
        reason: String,
    },
    /// A host on the command line.
    #[error("not a usable host")]
    Host {
        /// Why.
        source: HostError,
    },
    /// Facts that were given are not facts.
    #[error("{} does not describe a host", Shown(path.as_os_str().as_encoded_bytes()))]
    Facts {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: serde_json::Error,
    },
    /// A variable's name on the command line.
    #[error("`{name}` is not the name of a variable")]
    VariableName {
        /// As typed.
        name: String,
    },
    #[cfg(target_os = "linux")]
    /// A session could not be laid out.
    #[error("cannot prepare the fence")]
    Prepare {
        /// Why.
        source: PrepareError,
    },
    #[cfg(target_os = "linux")]
    /// A container cannot be described.
    #[error("cannot describe the container")]
    Container {
        /// Why.
        source: NoContainer,
    },
    #[cfg(target_os = "linux")]
    /// A container engine cannot be used.
    #[error("cannot use the container engine")]
    Engine {
        /// Why.
        source: NoEngine,
    },
    #[cfg(target_os = "linux")]
    /// A session could not be started.
    #[error("cannot start inside the fence")]
    Start {
        /// Why.
        source: StartError,
    },
    #[cfg(target_os = "linux")]
    /// There is no such session to work within.
    #[error("cannot work within that session")]
    Within {
        /// Why.
        source: NotWithin,
    },
    #[cfg(target_os = "linux")]
    /// What a session may touch cannot be read back.
    #[error("cannot tell what the session may touch")]
    Record {
        /// Why.
        source: RecordError,
    },
    #[cfg(target_os = "linux")]
    /// A call asks for what its session does not have.
    #[error("this call would be wider than its session")]
    Widens {
        /// What would be gained.
        source: Widens,
    },
    #[cfg(target_os = "linux")]
    /// A call inside asks for a part of the network.
    #[error("a call inside the fence has all of its session's network, or none of it")]
    PartOfTheNetwork,
    #[cfg(target_os = "linux")]
    /// A size or a time on the command line.
    #[error("`{}`: {why}", Shown(text.as_bytes()))]
    Amount {
        /// As typed.
        text: String,
        /// Why.
        why: String,
    },
    #[cfg(target_os = "linux")]
    /// No way to build a fence is left.
    #[error("this host can carry no fence")]
    NoRung {
        /// Those before the last, with the reason.
        tried: Vec<String>,
        /// The last.
        last: Box<Failure>,
    },
    #[cfg(target_os = "linux")]
    /// A user on the command line.
    #[error("cannot run as `{name}`: {why}")]
    User {
        /// As typed.
        name: String,
        /// Why.
        why: &'static str,
    },
    #[cfg(target_os = "linux")]
    /// Production needs every claim.
    #[error("tier = \"production\", and not every claim holds")]
    Shortfalls {
        /// Those that do not, with the reason.
        short: Vec<String>,
    },
    #[cfg(target_os = "linux")]
    /// The agent's program is not there.
    #[error("`{}` is not among the programs of your PATH", Shown(program.as_bytes()))]
    NoAgent {
        /// What was looked for.
        program: String,
        /// Which agent.
        agent: &'static str,
    },
    #[cfg(target_os = "linux")]
    /// An argument or a variable that switches the client's hooks off.
    #[error("`{flag}` switches off the hooks that `--agent` brings, or moves its settings")]
    WithoutHooks {
        /// As typed.
        flag: String,
    },
    /// The start file of a shell is not changed.
    #[cfg(target_os = "linux")]
    #[error(transparent)]
    Shell(#[from] ShellFailure),
    #[cfg(target_os = "linux")]
    /// A remedy would be carried out, and nobody is there to say yes.
    #[error("there is no terminal to ask on")]
    NobodyToAsk,
    #[cfg(target_os = "linux")]
    /// A remedy could not be carried out.
    #[error("cannot put it right")]
    Fix {
        /// Why.
        source: FixError,
    },
    #[cfg(target_os = "linux")]
    /// No such session.
    #[error("cannot find that session")]
    Find {
        /// Why.
        source: FindError,
    },
    #[cfg(target_os = "linux")]
    /// A supervisor does not answer.
    #[error("the supervisor of session {id} does not answer")]
    Control {
        /// Which.
        id: String,
        /// Why.
        source: io::Error,
    },
    #[cfg(target_os = "linux")]
    /// A supervisor, or a policy, says no.
    #[error("{}", Shown(why.as_bytes()))]
    Refused {
        /// Why.
        why: String,
        /// What helps.
        hint: Option<String>,
    },
    #[cfg(target_os = "linux")]
    /// Something cannot be given to a session.
    #[error("cannot be given to the session")]
    Give {
        /// Why.
        source: GiveError,
    },
    #[cfg(target_os = "linux")]
    /// There is no work tree for the session.
    #[error("cannot make a work tree")]
    Worktree {
        /// Why.
        source: WorktreeError,
    },
    #[cfg(target_os = "linux")]
    /// Another server is there already.
    #[error("the sessions are served already")]
    Served {
        /// Where, if it is known.
        address: String,
    },
    #[cfg(target_os = "linux")]
    /// The port is not to be had.
    #[error("cannot listen on port {port} of 127.0.0.1")]
    Listen {
        /// As asked.
        port: u16,
        /// Why.
        source: io::Error,
    },
    #[cfg(target_os = "linux")]
    /// The server cannot go on.
    #[error("cannot serve")]
    Serve {
        /// Why.
        source: io::Error,
    },
    #[cfg(target_os = "linux")]
    /// A line of the audit on the command line.
    #[error("`{}` is not NUMBER:HASH", Shown(text.as_bytes()))]
    KnownLine {
        /// As typed.
        text: String,
    },
    /// Nothing is learned.
    #[cfg(target_os = "linux")]
    #[error(transparent)]
    Learn { source: LearnFailure },
    /// Something about roots.
    #[error(transparent)]
    Root { source: RootFailure },
    /// Something about changes that wait for a review.
    #[cfg(target_os = "linux")]
    #[error(transparent)]
    Review { source: ReviewFailure },
    /// A layer cannot be printed.
    #[error(transparent)]
    Render { source: RenderFailure },
    /// There is no fence on this system.
    #[cfg(any(test, not(target_os = "linux")))]
    #[error("only Linux has what the fence is made of, so no command is started on this system")]
    NotLinux,
    /// Printing failed.
    #[error("cannot print")]
    Output {
        /// Why.
        source: io::Error,
    },
    /// Printing JSON failed.
    #[error("cannot print JSON")]
    Json {
        /// Why.
        source: serde_json::Error,
    },
}

/// ringfence refused or failed; nothing was started.
pub(crate) const REFUSED: u8 = 125;
/// The command is there and cannot be executed.
#[cfg(target_os = "linux")]
const NOT_EXECUTABLE: u8 = 126;
/// The command is not there.
#[cfg(target_os = "linux")]
const NOT_FOUND: u8 = 127;
/// The command line is wrong.
const USAGE: u8 = 2;

impl Failure {
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            #[cfg(target_os = "linux")]
            Self::Start { source: StartError::NotFound { .. } }
            | Self::Root { source: RootFailure::NoProgram { .. } } => NOT_FOUND,
            #[cfg(target_os = "linux")]
            Self::Start { source: StartError::NotExecutable { .. } } => NOT_EXECUTABLE,
            #[cfg(target_os = "linux")]
            Self::Prepare { source: PrepareError::NoCommand } => USAGE,
            #[cfg(target_os = "linux")]
            Self::User { .. } | Self::Amount { .. } | Self::WithoutHooks { .. } | Self::KnownLine { .. } => USAGE,
            Self::Root { source } if source.is_usage() => USAGE,
            #[cfg(target_os = "linux")]
            Self::Shell(source) if source.is_usage() => USAGE,
            Self::Render { source: RenderFailure::OnlyWith { .. } } => USAGE,
            #[cfg(target_os = "linux")]
            Self::NoAgent { .. } => NOT_FOUND,
            Self::Path { .. }
            | Self::BadPath { .. }
            | Self::Host { .. }
            | Self::VariableName { .. }
            | Self::Unknown { .. }
            | Self::NoCommand { .. } => USAGE,
            _ => REFUSED,
        }
    }

    #[cfg(target_os = "linux")]
    /// What failed and why, in one line.
    pub(crate) fn whole(&self) -> String {
        let causes = std::iter::successors(std::error::Error::source(self), |cause| cause.source());
        let causes: String = causes.map(|cause| format!(": {cause}")).collect();
        format!("{self}{causes}")
    }

    #[cfg(target_os = "linux")]
    /// Is the host itself in the way, so that another way to build the fence may do?
    pub(crate) fn is_the_hosts(&self) -> bool {
        match self {
            Self::Prepare { source } => source.is_the_hosts(),
            Self::Start { source } => source.is_the_hosts(),
            _ => false,
        }
    }

    #[cfg(target_os = "linux")]
    /// The causes without what was attempted.
    pub(crate) fn in_one_line(&self) -> String {
        let causes = std::iter::successors(std::error::Error::source(self), |cause| cause.source());
        causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
    }

    /// The failure as something said about a policy; itself again when it is about something else.
    pub(crate) fn into_said(self) -> Result<Vec<Diagnostic>, Self> {
        match self {
            Self::Policy { said } | Self::Unknown { said } => Ok(said),
            Self::Read { ref source, .. } => Ok(vec![Diagnostic::refusal(format!("{self}: {source}"))]),
            Self::BadPath { .. } | Self::LinkedProjectFile { .. } => {
                let said = Diagnostic::refusal(self.to_string());
                Ok(vec![match self.hint() {
                    Some(hint) => said.help(hint),
                    None => said,
                }])
            }
            other => Err(other),
        }
    }

    /// Tells the user, and gives the exit code.
    pub(crate) fn report(&self) -> ExitCode {
        match self {
            Self::Policy { said } | Self::Unknown { said } => {
                tell::diagnostics(said);
                // What has no place in a file is about the command line or this host, and has said so itself.
                if said.iter().any(|diagnostic| diagnostic.place.is_some()) {
                    say(&format!("error: {self}"));
                }
            }
            #[cfg(target_os = "linux")]
            Self::NoRung { tried, last } => {
                say(&format!("error: {self}"));
                tried.iter().for_each(|line| say(&format!("  {line}")));
                last.tell_causes();
            }
            #[cfg(target_os = "linux")]
            Self::Shortfalls { short } => {
                say(&format!("error: {self}"));
                short.iter().for_each(|line| say(&format!("  not held: {line}")));
            }
            _ => self.tell_causes(),
        }
        if let Some(hint) = self.hint() {
            say(&format!("\nhint: {hint}"));
        }
        ExitCode::from(self.exit_code())
    }

    fn tell_causes(&self) {
        say(&format!("error: {self}"));
        let mut cause = std::error::Error::source(self);
        while let Some(error) = cause {
            say(&format!("caused by: {error}"));
            cause = error.source();
        }
    }
}
