//! What systems other than Linux get: no layer can hold there, so nothing is started. The queries work everywhere.
//!
//! It is compiled on Linux for its tests only.

/// `ringfence run`.
pub(crate) mod run {
    use std::path::Path;
    use std::process::ExitCode;

    use crate::cli::RunArgs;
    use crate::error::Failure;

    pub(crate) fn run(_: &RunArgs, _managed: &Path) -> Result<ExitCode, Failure> {
        Err(Failure::NotLinux)
    }

    #[cfg(not(target_os = "linux"))]
    pub(crate) fn trial(args: &crate::cli::TrialArgs, _managed: &Path) -> Result<ExitCode, Failure> {
        let crate::cli::TrialArgs { policy: _, text: _, at: _, into: _, parent: _, command: _ } = args;
        Err(Failure::NotLinux)
    }

    #[cfg(not(target_os = "linux"))]
    pub(crate) fn try_start(args: &crate::cli::TryStartArgs) -> Result<ExitCode, Failure> {
        let crate::cli::TryStartArgs { backend: _, policy: _ } = args;
        Err(Failure::NotLinux)
    }
}

/// `ringfence render docker` and `podman`: what is denied is searched for where a fence can be built.
#[cfg(not(target_os = "linux"))]
pub(crate) mod container {
    use std::process::ExitCode;

    use ringfence_plan::Engine;
    use ringfence_surface::AbsPath;

    use crate::cli::RenderArgs;
    use crate::error::Failure;
    use crate::load::Here;

    pub(crate) fn run(args: &RenderArgs, _: Here, _: Engine, _: &AbsPath) -> Result<ExitCode, Failure> {
        let RenderArgs { json: _, no_surface: _, .. } = args;
        Err(Failure::NotLinux)
    }
}

/// `ringfence diff`, `apply` and `discard`.
#[cfg(not(target_os = "linux"))]
pub(crate) mod review {
    use std::process::ExitCode;

    use crate::cli::{ApplyArgs, DiffArgs, DiscardArgs};
    use crate::error::Failure;

    pub(crate) fn diff(args: &DiffArgs) -> Result<ExitCode, Failure> {
        let DiffArgs { session: _, paths: _, stat: _, json: _ } = args;
        Err(Failure::NotLinux)
    }

    pub(crate) fn apply(args: &ApplyArgs) -> Result<ExitCode, Failure> {
        let ApplyArgs { session: _, paths: _, force: _, json: _ } = args;
        Err(Failure::NotLinux)
    }

    pub(crate) fn discard(args: &DiscardArgs) -> Result<ExitCode, Failure> {
        let DiscardArgs { session: _, paths: _, json: _ } = args;
        Err(Failure::NotLinux)
    }
}

/// `ringfence learn`.
#[cfg(not(target_os = "linux"))]
pub(crate) mod learn {
    use std::path::Path;
    use std::process::ExitCode;

    use crate::cli::LearnArgs;
    use crate::error::Failure;

    pub(crate) fn run(args: &LearnArgs, _managed: &Path) -> Result<ExitCode, Failure> {
        let LearnArgs { policy: _, shrink: _, sessions: _, runs: _, json: _, write: _, yes: _, command: _ } = args;
        Err(Failure::NotLinux)
    }
}

/// `ringfence render kubernetes`: the same.
#[cfg(not(target_os = "linux"))]
pub(crate) mod kubernetes {
    use std::process::ExitCode;

    use crate::cli::{KubernetesArgs, RenderArgs};
    use crate::error::Failure;
    use crate::load::Here;

    pub(crate) fn run(args: &RenderArgs, _: Here) -> Result<ExitCode, Failure> {
        let KubernetesArgs { kind: _, cilium: _, claim: _, cluster: _, name: _, runtime_class: _ } = args.kubernetes;
        Err(Failure::NotLinux)
    }
}

/// `ringfence verify`.
#[cfg(not(target_os = "linux"))]
pub(crate) mod verify {
    use std::path::Path;
    use std::process::ExitCode;

    use crate::cli::VerifyArgs;
    use crate::error::Failure;

    pub(crate) fn run(args: &VerifyArgs, _managed: &Path) -> Result<ExitCode, Failure> {
        let VerifyArgs { policy: _, layers: _, user: _, root: _, all: _, json: _ } = args;
        Err(Failure::NotLinux)
    }
}

/// `ringfence exec`.
pub(crate) mod exec {
    use std::process::ExitCode;

    #[cfg(not(target_os = "linux"))]
    use crate::cli::CalledArgs;
    use crate::cli::ExecArgs;
    use crate::error::Failure;

    pub(crate) fn run(_: &ExecArgs) -> Result<ExitCode, Failure> {
        Err(Failure::NotLinux)
    }

    #[cfg(not(target_os = "linux"))]
    pub(crate) fn called(args: &CalledArgs) -> Result<ExitCode, Failure> {
        let CalledArgs { inside: _, session: _ } = args;
        Err(Failure::NotLinux)
    }
}

/// `ringfence serve`.
#[cfg(not(target_os = "linux"))]
pub(crate) mod serve {
    use std::path::Path;
    use std::process::ExitCode;

    use crate::cli::ServeArgs;
    use crate::error::Failure;

    pub(crate) fn run(args: &ServeArgs, _managed: &Path) -> Result<ExitCode, Failure> {
        let ServeArgs { port: _ } = args;
        Err(Failure::NotLinux)
    }
}

/// `ringfence shell-install` and `shell-uninstall`.
#[cfg(not(target_os = "linux"))]
pub(crate) mod shell {
    use std::process::ExitCode;

    use crate::cli::{ShellInstallArgs, ShellUninstallArgs};
    use crate::error::Failure;

    pub(crate) fn install(args: &ShellInstallArgs) -> Result<ExitCode, Failure> {
        let ShellInstallArgs { shell: _, yes: _, names: _ } = args;
        Err(Failure::NotLinux)
    }

    pub(crate) fn uninstall(args: &ShellUninstallArgs) -> Result<ExitCode, Failure> {
        let ShellUninstallArgs { shell: _, names: _ } = args;
        Err(Failure::NotLinux)
    }
}

/// `ringfence root`.
#[cfg(not(target_os = "linux"))]
pub(crate) mod root {
    use std::process::ExitCode;

    use crate::cli::RootArgs;
    use crate::error::Failure;

    pub(crate) fn run(args: &RootArgs) -> Result<ExitCode, Failure> {
        let RootArgs { command: _ } = args;
        Err(Failure::NotLinux)
    }
}

/// `ringfence statusline`.
pub(crate) mod statusline {
    use std::process::ExitCode;

    use crate::cli::StatuslineArgs;
    use crate::error::Failure;
    use crate::out;

    /// There is never a session.
    pub(crate) fn run(args: &StatuslineArgs) -> Result<ExitCode, Failure> {
        if args.json {
            out::print_json(&serde_json::json!({ "schema": crate::wire::SCHEMA, "session": null }))?;
        } else {
            out::print("ringfence: no session here\n")?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// The commands about sessions: none is ever started.
#[cfg(not(target_os = "linux"))]
pub(crate) mod sessions {
    use std::path::Path;
    use std::process::ExitCode;

    use crate::cli::{
        ApproveArgs, AuditArgs, DenyArgs, GcArgs, GrantArgs, Lasting, LogsArgs, ModeArgs, OneArgs, PsArgs, RevokeArgs,
        ViolationsArgs, Wanted,
    };
    use crate::error::Failure;

    pub(crate) fn surface_of(_session: &str) -> Result<ringfence_surface::Surface, Failure> {
        Err(Failure::NotLinux)
    }

    pub(crate) fn mode_of(session: &str) -> Result<Option<ringfence_surface::policy::Mode>, Failure> {
        surface_of(session).map(|_| None)
    }

    pub(crate) fn ps(args: &PsArgs) -> Result<ExitCode, Failure> {
        let PsArgs { all: _, json: _ } = args;
        Err(Failure::NotLinux)
    }

    pub(crate) fn show(args: &OneArgs) -> Result<ExitCode, Failure> {
        let OneArgs { session: _, json: _ } = args;
        Err(Failure::NotLinux)
    }

    pub(crate) fn logs(args: &LogsArgs) -> Result<ExitCode, Failure> {
        let LogsArgs { session: _, follow: _, json: _ } = args;
        Err(Failure::NotLinux)
    }

    pub(crate) fn stop(args: &OneArgs) -> Result<ExitCode, Failure> {
        show(args)
    }

    pub(crate) fn pause(args: &OneArgs) -> Result<ExitCode, Failure> {
        show(args)
    }

    pub(crate) fn resume(args: &OneArgs) -> Result<ExitCode, Failure> {
        show(args)
    }

    pub(crate) fn violations(args: &ViolationsArgs) -> Result<ExitCode, Failure> {
        let ViolationsArgs { session: _, follow: _, json: _ } = args;
        Err(Failure::NotLinux)
    }

    pub(crate) fn approve(args: &ApproveArgs, _managed: &Path) -> Result<ExitCode, Failure> {
        let ApproveArgs { which: _, lasting: Lasting { once: _, command: _, session: _, for_ms: _ }, json: _ } = args;
        Err(Failure::NotLinux)
    }

    pub(crate) fn deny(args: &DenyArgs) -> Result<ExitCode, Failure> {
        let DenyArgs { which: _, json: _ } = args;
        Err(Failure::NotLinux)
    }

    pub(crate) fn gc(args: &GcArgs) -> Result<ExitCode, Failure> {
        let GcArgs { all: _, json: _ } = args;
        Err(Failure::NotLinux)
    }

    pub(crate) fn grant(args: &GrantArgs, _managed: &Path) -> Result<ExitCode, Failure> {
        let GrantArgs { session: _, what: Wanted { read: _, write: _, host: _ }, for_ms: _, json: _ } = args;
        Err(Failure::NotLinux)
    }

    pub(crate) fn revoke(args: &RevokeArgs, _managed: &Path) -> Result<ExitCode, Failure> {
        let RevokeArgs { session: _, path: _, host: _, json: _ } = args;
        Err(Failure::NotLinux)
    }

    pub(crate) fn mode(args: &ModeArgs) -> Result<ExitCode, Failure> {
        let ModeArgs { session: _, mode: _, json: _ } = args;
        Err(Failure::NotLinux)
    }

    pub(crate) fn audit(args: &AuditArgs, _managed: &Path) -> Result<ExitCode, Failure> {
        let AuditArgs { verify: _, session: _, path: _, since: _, json: _ } = args;
        Err(Failure::NotLinux)
    }
}

/// `ringfence doctor`.
pub(crate) mod doctor {
    use std::process::ExitCode;

    use crate::cli::DoctorArgs;
    use crate::error::Failure;
    use crate::out;
    use crate::wire::SCHEMA;

    /// Like every verdict: the rung, and why.
    pub(super) const VERDICT: &str = "none: `ringfence run` refuses here, because only Linux can hold the fence";

    pub(crate) fn run(args: &DoctorArgs) -> Result<ExitCode, Failure> {
        if args.json {
            out::print_json(&answer())?;
        } else {
            out::print(&format!("{VERDICT}\n"))?;
        }
        Ok(ExitCode::from(1))
    }

    pub(super) fn answer() -> serde_json::Value {
        let verdict = serde_json::json!({
            "rung": null, "full": false, "words": VERDICT, "because": ["only Linux can hold the fence"], "lost": [],
        });
        serde_json::json!({ "schema": SCHEMA, "verdict": verdict, "rungs": [], "beside": [], "remedies": [] })
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::process::ExitCode;

    use clap::Parser as _;

    use crate::cli::{Cli, Command};
    use crate::error::{Failure, REFUSED};

    /// K15 T10: on another system nothing is started, with the code of a refusal and a sentence that says why.
    #[test]
    fn k15_elsewhere_nothing_is_started() {
        let cli = Cli::parse_from(["ringfence", "run", "--", "true"]);
        let Command::Run(args) = cli.command else { panic!("{cli:?}") };
        let failed = super::run::run(&args, Path::new("/managed.toml")).unwrap_err();
        assert!(matches!(failed, Failure::NotLinux));
        assert_eq!((failed.exit_code(), REFUSED), (125, 125));
        let expected = "only Linux has what the fence is made of, so no command is started on this system";
        assert_eq!(failed.to_string(), expected);
        let cli = Cli::parse_from(["ringfence", "exec", "--within", "x", "--", "true"]);
        let Command::Exec(args) = cli.command else { panic!("{cli:?}") };
        assert!(matches!(super::exec::run(&args), Err(Failure::NotLinux)));
        let cli = Cli::parse_from(["ringfence", "statusline"]);
        let Command::Statusline(args) = cli.command else { panic!("{cli:?}") };
        assert_eq!(format!("{:?}", super::statusline::run(&args).unwrap()), format!("{:?}", ExitCode::SUCCESS));
        let cli = Cli::parse_from(["ringfence", "doctor"]);
        let Command::Doctor(args) = cli.command else { panic!("{cli:?}") };
        assert_eq!(super::doctor::answer()["verdict"]["rung"], serde_json::Value::Null);
        let code = super::doctor::run(&args).unwrap();
        assert_eq!(format!("{code:?}"), format!("{:?}", ExitCode::from(1)));
    }
}
