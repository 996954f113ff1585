//! A whole session, started as `run` starts one, in a directory that goes away afterwards.
//!
//! The single probes name the cause of a refusal. They cannot prove that a start succeeds: a start makes more calls than any list
//! of them that is kept elsewhere. So `doctor` starts one on each backend, through the same code.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use ringfence_surface::Shown;

use super::host::Started;
use crate::probe::run_command;
use crate::text::new_token;

/// It takes a hundredth of this.
const LIMIT: Duration = Duration::from_secs(20);

/// The codes with which `run` says that the command was not there or cannot be executed: the sandbox stood by then.
const NO_COMMAND: [i32; 2] = [126, 127];

/// A session that reaches a host has more to make at its start. Nothing connects to this one.
const POLICY: &str = "version = 1\n[network]\nallow = [\"example.com:443\"]\n";

/// Runs this program with these arguments, which are to start a session, and the name of a policy file, in a project and a home of
/// its own. Nothing of the user's policies, state or environment takes part, and nothing is left.
pub fn try_start(arguments: &[&OsStr]) -> Started {
    let untried = |cause: &io::Error| Started::Untried(format!("a session could not be tried: {cause}"));
    let place = match Place::make() {
        Ok(place) => place,
        Err(cause) => return untried(&cause),
    };
    let mut command = Command::new("/proc/self/exe");
    command.args(arguments).arg(place.0.join("policy.toml")).env_clear().current_dir(place.0.join("project"));
    command.env("HOME", place.0.join("home")).env("PATH", "/usr/local/bin:/usr/bin:/bin").env("LC_ALL", "C");
    // Inside a session of ringfence a start is another one.
    command.envs(std::env::var_os("RINGFENCE").map(|value| ("RINGFENCE", value)));
    match run_command(command, LIMIT) {
        Ok(ran) if ran.status.success() => Started::Works,
        Ok(ran) if ran.status.code().is_some_and(|code| NO_COMMAND.contains(&code)) => Started::Works,
        Ok(ran) => Started::Fails(reason(&ran.said).unwrap_or_else(|| ran.status.to_string())),
        Err(cause) if cause.kind() == io::ErrorKind::TimedOut => {
            Started::Unknown(format!("a session did not end within {} s", LIMIT.as_secs()))
        }
        Err(cause) => untried(&cause),
    }
}

/// The error and its causes, in one line.
fn reason(said: &[u8]) -> Option<String> {
    let lines = said.split(|byte| *byte == b'\n');
    let causes = lines.filter_map(|line| line.strip_prefix(b"error: ").or_else(|| line.strip_prefix(b"caused by: ")));
    let causes: Vec<String> = causes.map(|line| Shown(line).to_string()).collect();
    (!causes.is_empty()).then(|| causes.join(": "))
}

/// A directory of its own. It goes with this.
struct Place(PathBuf);

impl Place {
    fn make() -> io::Result<Self> {
        let path = std::env::temp_dir().join(format!("ringfence-doctor-{}", new_token()?));
        DirBuilder::new().mode(0o700).create(&path)?;
        let place = Self(path);
        for dir in ["home", "project"] {
            make_reachable(&place.0.join(dir))?;
        }
        fs::write(place.0.join("policy.toml"), POLICY)?;
        // What root starts for another user has to get there; its name cannot be guessed.
        fs::set_permissions(&place.0, Permissions::from_mode(0o711))?;
        Ok(place)
    }
}

fn make_reachable(dir: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(dir)?;
    fs::set_permissions(dir, Permissions::from_mode(0o711))
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_one_line() {
        let said = b"ringfence: writes x\nerror: cannot start\ncaused by: close_range\ncaused by: ENOSYS\n\nhint: no\n";
        assert_eq!(reason(said).as_deref(), Some("cannot start: close_range: ENOSYS"));
        assert_eq!(reason(b"killed\n"), None);
    }
}
