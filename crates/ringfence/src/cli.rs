//! The command line as typed.

mod kubernetes;
mod learn;
mod review;
mod roots;
mod sessions;
mod verify;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueHint};

pub(crate) use kubernetes::KubernetesArgs;
#[cfg(target_os = "linux")]
pub(crate) use kubernetes::PodKindArg;
pub(crate) use learn::{LearnArgs, TrialArgs};
pub(crate) use review::{ApplyArgs, DiffArgs, DiscardArgs, WorktreeArgs};
pub(crate) use roots::RootArgs;
#[cfg(target_os = "linux")]
pub(crate) use roots::{ClassArg, RootCommand};
#[cfg(target_os = "linux")]
pub(crate) use sessions::AuditCommand;
pub(crate) use sessions::Lasting;
pub(crate) use sessions::{
    ApproveArgs, AuditArgs, DenyArgs, GcArgs, GrantArgs, LogsArgs, ModeArgs, OneArgs, PsArgs, RevokeArgs, ServeArgs,
    ViolationsArgs, Wanted,
};
pub(crate) use verify::VerifyArgs;
#[cfg(target_os = "linux")]
pub(crate) use verify::VerifyLayer;

/// What each exit code means.
const EXIT_CODES: &str = "\
Exit codes:
  0    done; explain: allowed, or read-only; check: every file can be used; doctor: native, with its second wall
  1    explain: denied, or mutating; check: a file cannot be read, or cannot be used here; doctor: a rung is lost;
       verify: a layer does not do what it claims;
       audit verify: the audit is not whole; gc: something is left; apply: something was not applied
  2    the command line is wrong
  125  ringfence refused or failed, and nothing was started
  126  run, exec: the command cannot be executed
  127  run, exec: the command is not there
  otherwise run and exec end with the command's own code, or with 128 and the signal that ended it

`ringfence --version --verbose` prints the commit, profile, target and features that this program was built from.";

/// Decide which files and hosts a spawned coding agent may touch.
///
/// Name what an agent may touch, once, in ringfence.toml. Without one the current directory is writable, the system is
/// read-only, your home directory is not there, and the network is what the project's toolchains need.
#[derive(Debug, Parser)]
#[command(name = "ringfence", version, max_term_width = 100, after_help = EXIT_CODES)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Run(RunArgs),
    Exec(ExecArgs),
    Explain(ExplainArgs),
    Plan(PlanArgs),
    Check(CheckArgs),
    Init(InitArgs),
    Trust(TrustArgs),
    Doctor(DoctorArgs),
    Verify(VerifyArgs),
    Learn(LearnArgs),
    Render(RenderArgs),
    Statusline(StatuslineArgs),
    Ps(PsArgs),
    /// Show one session, and what was given to it
    Show(OneArgs),
    Logs(LogsArgs),
    /// End a session
    ///
    /// Its command is asked to end, after two seconds it is ended with everything it has started, and after two more the kernel
    /// kills what is left. Exits with 0 once the session has ended, and with 1 where it still runs after 30 seconds.
    Stop(OneArgs),
    /// Stop everything in a session until it is resumed
    Pause(OneArgs),
    /// Let a paused session go on
    Resume(OneArgs),
    Violations(ViolationsArgs),
    Approve(ApproveArgs),
    Deny(DenyArgs),
    Diff(DiffArgs),
    Apply(ApplyArgs),
    Discard(DiscardArgs),
    Gc(GcArgs),
    Grant(GrantArgs),
    Revoke(RevokeArgs),
    Mode(ModeArgs),
    Audit(AuditArgs),
    Root(RootArgs),
    Serve(ServeArgs),
    /// Print the JSON Schema of a policy file
    Schema,
    Completions(CompletionsArgs),
    Man(ManArgs),
    ShellInstall(ShellInstallArgs),
    ShellUninstall(ShellUninstallArgs),
    Hook(HookArgs),
    #[command(hide = true)]
    JailExec(JailExecArgs),
    #[command(hide = true)]
    Called(CalledArgs),
    /// What bubblewrap starts: becomes the command inside the view that it made
    #[command(hide = true)]
    Inside(InsideArgs),
    /// What `verify` starts inside a layer: does what its input says and answers what came of it
    #[command(hide = true)]
    TryDeeds,
    /// What `learn` starts for each of its runs
    #[command(hide = true)]
    Trial(TrialArgs),
    /// What `doctor` starts for each backend: a session in which nothing happens
    #[command(hide = true)]
    TryStart(TryStartArgs),
    /// What runs first in a container
    #[command(hide = true)]
    Arrive(ArriveArgs),
}

/// Which policy, and for whom.
#[derive(Debug, Clone, Args)]
pub(crate) struct PolicyArgs {
    /// Use this policy file in the place of the project's; it is trusted
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) policy: Option<PathBuf>,
    /// Work as one of the policy's personas
    #[arg(long, value_name = "NAME")]
    pub(crate) persona: Option<String>,
    /// Work on one of the policy's tasks, or on a work item in a file (TOML or JSON)
    #[arg(long, value_name = "NAME|FILE")]
    pub(crate) task: Option<OsString>,
    /// Make this readable for this run, by naming it
    #[arg(long = "ref", value_name = "PATH", value_hint = ValueHint::AnyPath)]
    pub(crate) references: Vec<OsString>,
    /// What is asked for to be written, which no option names.
    #[arg(skip)]
    pub(crate) writes: Vec<OsString>,
    /// Pass this environment variable on
    #[arg(long = "env", value_name = "NAME")]
    pub(crate) env: Vec<String>,
    /// Let this agent reach its model (claude, codex, gemini)
    #[arg(long, value_name = "AGENT")]
    pub(crate) agent: Option<String>,
}

impl PolicyArgs {
    /// A policy file, or those that hold here, and nothing else asked for.
    pub(crate) fn only(policy: Option<&Path>) -> Self {
        Self {
            policy: policy.map(PathBuf::from),
            persona: None,
            task: None,
            references: Vec::new(),
            writes: Vec::new(),
            env: Vec::new(),
            agent: None,
        }
    }
}

/// Run a command inside the fence
///
/// `run -- claude`, `codex` and `gemini` are run as those agents (`--agent`); `run -- env claude` runs the bare program.
#[derive(Debug, Clone, Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) policy: PolicyArgs,
    /// How much the agent's own tool calls are held back
    #[arg(long, value_name = "MODE", requires = "agent")]
    pub(crate) mode: Option<ModeArg>,
    /// Build the fence in this way only; without it, in the strongest way that this host allows
    #[arg(long, value_name = "BACKEND")]
    pub(crate) backend: Option<Backend>,
    /// With `--backend chroot`: the root to run in, as `ringfence root create` made it
    #[arg(long, value_name = "NAME")]
    pub(crate) root: Option<String>,
    /// Started by root: run the command as this user (a name, or UID:GID)
    #[arg(long, value_name = "USER")]
    pub(crate) user: Option<String>,
    /// In tier production: start although this claim does not hold, by its name in the receipt
    #[arg(long = "allow-shortfall", value_name = "CLAIM", value_parser = sessions::claim)]
    pub(crate) allow_shortfall: Vec<String>,
    /// Leave calls that change files to the kernel: names that do not exist yet are then not guarded
    #[arg(long)]
    pub(crate) no_broker: bool,
    /// Also tell which files the fence kept from being opened for reading; every open is then looked at, which takes its time
    #[arg(long, conflicts_with = "no_broker")]
    pub(crate) report_reads: bool,
    /// Let the command ask for further commands in fences of their own that are tighter: $RINGFENCE_CALLS inside is the token
    #[arg(long)]
    pub(crate) calls: bool,
    /// Say claim by claim what holds, and keep it as JSON
    #[arg(long)]
    pub(crate) receipt: bool,
    /// Ask before something is denied that could be allowed, and wait this long for the answer; silence is a no
    ///
    /// Questions are answered on the terminal or with `ringfence approve`.
    #[arg(long, value_name = "TIME", num_args = 0..=1, require_equals = true, default_missing_value = "1m", value_parser = sessions::patience)]
    pub(crate) ask: Option<Duration>,
    /// When it has ended, write what was denied in it to this file, as JSON
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) report: Option<PathBuf>,
    /// Let this pack take part for one run, although the project did not ask for it when a session last ran in it
    #[arg(long = "pack", value_name = "NAME", value_parser = pack)]
    pub(crate) packs: Vec<String>,
    #[command(flatten)]
    pub(crate) worktree: WorktreeArgs,
    /// The command and its arguments
    #[arg(last = true, value_name = "CMD", value_hint = ValueHint::CommandWithArguments)]
    pub(crate) command: Vec<OsString>,
}

/// The name of a pack.
fn pack(name: &str) -> Result<String, String> {
    match ringfence_surface::curated::packs::pack(name) {
        Some(_) => Ok(name.to_owned()),
        None => Err("there is no pack of this name".to_owned()),
    }
}

impl RunArgs {
    /// A command, and nothing else asked for.
    pub(crate) fn plain(command: &[OsString]) -> Self {
        Self {
            policy: PolicyArgs::only(None),
            mode: None,
            backend: None,
            root: None,
            user: None,
            allow_shortfall: Vec::new(),
            no_broker: false,
            report_reads: false,
            calls: false,
            receipt: false,
            report: None,
            ask: None,
            packs: Vec::new(),
            worktree: WorktreeArgs::IN_PLACE,
            command: command.to_vec(),
        }
    }
}

/// How much an agent's own tool calls are held back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum ModeArg {
    /// Reads, edits and commands that only read pass
    AcceptEdits,
    /// Everything passes; the fence is the guard
    Auto,
}

/// Run one command within a session, in a fence of its own that is tighter
///
/// The command writes where the session works and nowhere else, has an empty home, its own temporary files and none but the
/// built-in variables, and ends with the session. Whatever is named here narrows that further; what the session does not have
/// is refused. It starts in the current directory where the session may read it, and otherwise where the session started.
///
/// Inside a fence, `--within "$RINGFENCE_SESSION"` names the session one is in. Where it has no namespaces to give, Landlock and
/// a filter hold the rest, and what they do not hold is said.
#[derive(Debug, Args)]
pub(crate) struct ExecArgs {
    /// The session, or how its name begins
    #[arg(long, value_name = "SESSION")]
    pub(crate) within: String,
    /// Write only here, of what the session may write
    #[arg(long, value_name = "DIR", value_hint = ValueHint::AnyPath)]
    pub(crate) write: Vec<String>,
    /// Write nothing but temporary files
    #[arg(long, conflicts_with = "write")]
    pub(crate) read_only: bool,
    /// Read only this and what programs need, of what the session may read
    #[arg(long, value_name = "PATH", value_hint = ValueHint::AnyPath)]
    pub(crate) read: Vec<String>,
    /// Deny this besides
    #[arg(long, value_name = "PATTERN")]
    pub(crate) deny: Vec<String>,
    /// Protect this besides
    #[arg(long, value_name = "PATTERN")]
    pub(crate) protect: Vec<String>,
    /// Reach nothing
    #[arg(long, conflicts_with_all = ["host", "host_port", "socket"])]
    pub(crate) no_network: bool,
    /// Reach only this host, of those that the session reaches
    #[arg(long, value_name = "HOST[:PORT]", value_hint = ValueHint::Hostname)]
    pub(crate) host: Vec<String>,
    /// Reach only this port of the host's loopback, of those that the session reaches
    #[arg(long, value_name = "PORT")]
    pub(crate) host_port: Vec<u16>,
    /// Reach only this unix socket, of those that the session reaches
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub(crate) socket: Vec<OsString>,
    /// Pass this variable on, of those that the session has by name
    #[arg(long, value_name = "NAME")]
    pub(crate) env: Vec<String>,
    /// Start here
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) workdir: Option<OsString>,
    /// End it after this time: 30s, 5m, 1h30m
    #[arg(long, value_name = "TIME")]
    pub(crate) timeout: Option<String>,
    /// At most this much memory: 512MiB, 2GiB
    #[arg(long, value_name = "SIZE")]
    pub(crate) memory: Option<String>,
    /// At most this many processes
    #[arg(long, value_name = "COUNT")]
    pub(crate) pids: Option<u32>,
    /// Keep the last bytes of each stream, and print them when it has ended
    #[arg(long, value_name = "BYTES")]
    pub(crate) max_output: Option<usize>,
    /// Print how it ended, and what it printed, as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// The command and its arguments
    #[arg(last = true, value_name = "CMD", value_hint = ValueHint::CommandWithArguments)]
    pub(crate) command: Vec<OsString>,
}

/// A session that is started to see whether it starts.
#[derive(Debug, Args)]
pub(crate) struct TryStartArgs {
    /// How the fence is built
    #[arg(long, value_enum)]
    pub(crate) backend: Backend,
    /// By which policy
    #[arg(long, value_name = "FILE")]
    pub(crate) policy: PathBuf,
}

/// How a fence is built.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Backend {
    /// Namespaces and mounts of our own, with Landlock and seccomp
    Native,
    /// The same mounts, made by bubblewrap
    Bwrap,
    /// Landlock and seccomp on the host's own files
    Landlock,
    /// A root of its own, with Landlock and seccomp in it: needs CAP_SYS_CHROOT and nothing else
    Chroot,
    /// The same mounts in a container, made by Docker
    Docker,
    /// The same, made by Podman
    Podman,
}

/// Say whether something is allowed, by which rule, and where it was written
///
/// Exits with 0 when it is allowed, 1 when it is denied. A line of shell is read-only (0) or mutating (1); the policy has no part
/// in that, and of a session only its mode.
#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    #[command(flatten)]
    pub(crate) policy: PolicyArgs,
    /// In a session that runs, with what was given to it since
    #[arg(long, value_name = "SESSION", conflicts_with_all = ["policy", "persona", "task", "references", "env", "agent"])]
    pub(crate) session: Option<String>,
    #[command(flatten)]
    pub(crate) question: Question,
    /// Answer as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(crate) struct Question {
    /// May this path be read?
    #[arg(long, value_name = "PATH", value_hint = ValueHint::AnyPath)]
    pub(crate) read: Option<OsString>,
    /// May this path be written, existing or not?
    #[arg(long, value_name = "PATH", value_hint = ValueHint::AnyPath)]
    pub(crate) write: Option<OsString>,
    /// May this host be reached? Without a port: 443. On localhost: may this port of the host's be reached?
    #[arg(long, value_name = "HOST[:PORT]", value_hint = ValueHint::Hostname)]
    pub(crate) host: Option<String>,
    /// May this unix socket of the host be connected to?
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub(crate) socket: Option<OsString>,
    /// Is this environment variable passed on?
    #[arg(long, value_name = "NAME")]
    pub(crate) variable: Option<String>,
    /// Is this line of shell proved to change nothing?
    #[arg(long, value_name = "LINE")]
    pub(crate) command: Option<OsString>,
}

/// Show what would be enforced here
#[derive(Debug, Args)]
pub(crate) struct PlanArgs {
    #[command(flatten)]
    pub(crate) policy: PolicyArgs,
    /// Plan for the host that this file describes, with the policies in it; a task's file is read here
    #[arg(long, value_name = "FACTS", value_hint = ValueHint::FilePath, conflicts_with = "policy")]
    pub(crate) host: Option<PathBuf>,
    /// Print the facts of this host, for `--host` elsewhere
    #[arg(long, conflicts_with = "host")]
    pub(crate) facts: bool,
    /// Print as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Show the built-in rules too
    #[arg(long)]
    pub(crate) all: bool,
}

/// Print what one layer is made of
///
/// What belongs to a session, as its home, stands there with the name SESSION.
#[derive(Debug, Args)]
pub(crate) struct RenderArgs {
    #[command(flatten)]
    pub(crate) policy: PolicyArgs,
    /// As for `run`
    #[arg(long, value_name = "MODE")]
    pub(crate) mode: Option<ModeArg>,
    /// With `chroot`: the root, as `ringfence root create` made it
    #[arg(long, value_name = "NAME")]
    pub(crate) root: Option<String>,
    /// Which layer
    #[arg(value_name = "LAYER")]
    pub(crate) layer: RenderLayer,
    /// Print an engine's arguments, or a cluster's objects, as JSON, with what was left out
    #[arg(long)]
    pub(crate) json: bool,
    /// Describe a container from the operator's mounts alone
    #[arg(long)]
    pub(crate) no_surface: bool,
    #[command(flatten)]
    pub(crate) kubernetes: KubernetesArgs,
}

/// What can be printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum RenderLayer {
    /// What the model is told
    Preamble,
    /// What Claude Code is started with
    Claude,
    /// What Gemini CLI is started with
    Gemini,
    /// What Codex is started with
    Codex,
    /// Who is asked before each tool
    Hook,
    /// Which variables pass, and why
    Env,
    /// A profile for AppArmor, with what is given and taken of files
    Apparmor,
    /// A module for SELinux, in CIL
    Selinux,
    /// The steps by which a command gets a root of its own
    Chroot,
    /// What Docker is started with, one argument to a line
    Docker,
    /// What Podman is started with, one argument to a line
    Podman,
    /// What a cluster of Kubernetes is told, as objects
    Kubernetes,
}

/// Print the session that this runs in as one line, for clients that show one
#[derive(Debug, Args)]
pub(crate) struct StatuslineArgs {
    /// Print as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Check policy files; without any, those that hold here
///
/// Each file is read with what it extends, and then used in the project's place, as `--policy FILE` does. What contradicts
/// itself and what takes no part is a warning. Exits with 0 when every file can be used, 1 when one cannot.
#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// Policy files
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) files: Vec<PathBuf>,
    /// Print as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Write a starter policy that fits this directory
#[derive(Debug, Args)]
pub(crate) struct InitArgs {
    /// Replace a policy that is there
    #[arg(long)]
    pub(crate) force: bool,
    /// Print it only
    #[arg(long)]
    pub(crate) print: bool,
}

/// Trust this project's policy as it is now
///
/// Until it is trusted, a project's file can only narrow the fence. Trust ends with the first change to the file or to what
/// it extends.
#[derive(Debug, Args)]
pub(crate) struct TrustArgs {
    /// The policy file; without it the one that holds here
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) file: Option<PathBuf>,
    /// Trust it again after a change
    #[arg(long)]
    pub(crate) force: bool,
    /// Trust it no longer
    #[arg(long, conflicts_with = "force")]
    pub(crate) revoke: bool,
    /// Instead of a file: agree to the packs that this project asks for now
    #[arg(long, conflicts_with_all = ["file", "force", "revoke"])]
    pub(crate) packs: bool,
}

/// Show what this host can enforce, and put right what is missing
///
/// Each feature is tried, in a process of its own, and nothing is changed. Exits with 0 when the native fence works here with its
/// second wall, 1 when something is missing that costs a rung: `run` then falls back, or refuses.
#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// Put right what is missing, asking before each remedy; with a name, that one, also if it is not needed
    #[arg(long, value_name = "REMEDY", num_args = 0.., value_parser = REMEDIES, conflicts_with = "json")]
    pub(crate) fix: Option<Vec<String>>,
    /// Ask nothing, do it
    #[arg(long, requires = "fix")]
    pub(crate) yes: bool,
    /// Print as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// The remedies that can be asked for by name.
pub(crate) const REMEDIES: [&str; 4] = ["agent-user", "apparmor", "bubblewrap", "sysctl"];

/// Print completions for a shell
#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell
    pub(crate) shell: clap_complete::Shell,
}

/// Print the manual page, of ringfence or of one command
#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// The command, and which of its own where it has some: `root create`
    #[arg(value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
}

/// Make the names of agents start them fenced in your shell
///
/// Adds a marked block with a function for each name to the start file of the shell: `claude` then runs `ringfence run -- claude`.
/// The lines are shown before they are written. `command claude` still starts the program itself.
#[derive(Debug, Args)]
pub(crate) struct ShellInstallArgs {
    /// The shell; without it the one that SHELL names
    #[arg(long)]
    pub(crate) shell: Option<Shell>,
    /// Write without asking
    #[arg(long)]
    pub(crate) yes: bool,
    /// The programs to fence, in addition to those installed earlier; without any, claude, codex and gemini
    #[arg(value_name = "PROGRAM")]
    pub(crate) names: Vec<String>,
}

/// Take the block of `shell-install` out of the start file of your shell
///
/// Everything else in the file stays as it is, byte for byte.
#[derive(Debug, Args)]
pub(crate) struct ShellUninstallArgs {
    /// The shell; without it the one that SHELL names
    #[arg(long)]
    pub(crate) shell: Option<Shell>,
    /// Only these programs; without any, the whole block
    #[arg(value_name = "PROGRAM")]
    pub(crate) names: Vec<String>,
}

/// A shell that has a start file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Shell {
    /// `~/.bashrc`
    Bash,
    /// `~/.zshrc`, or in ZDOTDIR
    Zsh,
    /// `~/.config/fish/config.fish`, or in XDG_CONFIG_HOME
    Fish,
}

/// Judge one tool call of an agent's client
///
/// Clients start it, by the settings that `run --agent` writes, before each tool. The call is read from the standard input. Exits
/// with 0 and says nothing when the tool may run; otherwise with 2, and one line on the error output says why. Whatever fails,
/// hangs or is not understood is refused.
#[derive(Debug, Args)]
pub(crate) struct HookArgs {
    /// The client: claude, codex, gemini or qwen
    #[arg(value_name = "CLIENT")]
    _client: String,
    /// Where the session's record is; without it, beside the program by whose whole path the hook was started
    #[arg(long = "given", value_name = "DIR", value_hint = ValueHint::DirPath)]
    _given: Option<PathBuf>,
    /// How long the client waits; the answer comes before
    #[arg(long = "timeout", value_name = "SECONDS", default_value_t = 10)]
    _timeout: u64,
}

/// Become a command whose writes end at named directories
///
/// Everything can be read and executed as before. Below ANCHOR, what stands before a glob's first wildcard can be written: all
/// of `src` for `src/*.rs`, and for a glob without a wildcard the directory that it names or is in. These directories must
/// exist, without symbolic links on the way. The restriction is Landlock's: it binds every descendant and cannot be lifted.
/// Mode, owner and times of the user's own files, and descriptors that are open already, are outside of it.
///
/// Exits with 2 when the arguments cannot be used, 3 when the restriction failed, 4 when the command cannot be executed; each
/// time nothing was started. Otherwise it is the command.
#[derive(Debug, Args)]
#[command(override_usage = "ringfence jail-exec -- ANCHOR GLOB... -- CMD [ARGS]...")]
pub(crate) struct JailExecArgs {
    /// `-- ANCHOR GLOB... -- CMD ARGS...`, taken as they are
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    _arguments: Vec<OsString>,
}

/// Make the call that a supervisor was asked for; the order comes by the standard input, with the streams
#[derive(Debug, Args)]
pub(crate) struct CalledArgs {
    /// It was asked for inside the session
    #[arg(long)]
    pub(crate) inside: bool,
    /// The session
    pub(crate) session: String,
}

/// Become the first process of a container
#[derive(Debug, Args)]
pub(crate) struct ArriveArgs {
    /// Where the supervisor listens
    #[arg(value_name = "SOCKET")]
    pub(crate) socket: OsString,
}

/// Become the command that two inherited descriptors describe
#[derive(Debug, Args)]
pub(crate) struct InsideArgs {
    /// Where the orders are, and where to report to
    #[arg(value_name = "FD", num_args = 2)]
    pub(crate) descriptors: Vec<OsString>,
}
