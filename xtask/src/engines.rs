//! Container engines for the tests: a Docker daemon of our own that touches nothing of the host's network, and settings by which
//! Podman works where there is no service manager. Both keep everything beside what is built, and end with the tests.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::say;
use crate::steps::Failure;

/// Names the engines to the tests.
pub(crate) const VARIABLE: &str = "RINGFENCE_TEST_ENGINES";

/// The ordinary user of the tests, who needs further numbers for containers of its own.
const NOBODY: u32 = 65_534;
const NUMBERS: &str = "nobody:1000000:65536\n";
const NUMBER_FILES: [&str; 2] = ["/etc/subuid", "/etc/subgid"];

/// How long a daemon may take to answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// Podman asks for more open files than a container in CI may have, and its usual runtime refuses some kinds of control groups.
const PODMAN: &str = "[containers]\ndefault_ulimits = [\"nofile=1024:1024\", \"nproc=4096:4096\"]\n\
                      [engine]\nruntime = \"runc\"\ncgroup_manager = \"cgroupfs\"\nevents_logger = \"file\"\n";

/// Engines that run. They end with the value.
#[derive(Debug)]
pub(crate) struct Engines {
    /// Short, since sockets are in it.
    dir: PathBuf,
    daemon: Option<Child>,
    /// Files to which numbers were added.
    added: Vec<&'static str>,
}

impl Engines {
    /// Starts them. In CI they must start; elsewhere it is said why not.
    pub(crate) fn start(root: &Path) -> Result<Result<Self, String>, Failure> {
        let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
        let data = root.join(target).join("engines");
        let started =
            if is_root() { Self::start_as_root(&data) } else { Err("containers (only root can start engines)".into()) };
        match started {
            Err(why) if std::env::var_os("CI").is_some_and(|value| value == "true") => Err(Failure::Found(why)),
            started => Ok(started),
        }
    }

    fn start_as_root(data: &Path) -> Result<Self, String> {
        let failed = |cause: std::io::Error| format!("containers (no place for engines: {cause})");
        fs::create_dir_all(data).map_err(failed)?;
        let dir = tempfile::Builder::new().prefix("rf-engines-").tempdir().map_err(failed)?.keep();
        let mut engines = Self { dir, daemon: None, added: Vec::new() };
        engines.settle(data).map_err(failed)?;
        engines.daemon = Some(engines.daemon(data).map_err(failed)?);
        engines.wait()?;
        Ok(engines)
    }

    /// The directory that the tests look into.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    fn settle(&mut self, data: &Path) -> std::io::Result<()> {
        fs::set_permissions(&self.dir, Permissions::from_mode(0o755))?;
        fs::write(self.dir.join("containers.conf"), PODMAN)?;
        for (who, store) in [("root", data.join("podman")), ("user", self.dir.join("user/store"))] {
            let place = self.dir.join(who);
            fs::create_dir(&place)?;
            fs::create_dir(place.join("run"))?;
            fs::set_permissions(place.join("run"), Permissions::from_mode(0o700))?;
            let driver = if who == "root" { "overlay" } else { "vfs" };
            let (store, state) = (store.display(), place.join("state"));
            let text = format!(
                "[storage]\ndriver = \"{driver}\"\ngraphroot = \"{store}\"\nrunroot = \"{}\"\n",
                state.display()
            );
            fs::write(place.join("storage.conf"), text)?;
        }
        for path in ["user", "user/run"] {
            chown(self.dir.join(path), Some(NOBODY), Some(NOBODY))?;
        }
        for file in NUMBER_FILES {
            let text = fs::read_to_string(file).unwrap_or_default();
            if !text.lines().any(|line| line.starts_with("nobody:")) {
                fs::write(file, text + NUMBERS)?;
                self.added.push(file);
            }
        }
        Ok(())
    }

    /// A daemon without a bridge that leaves the packet filter and forwarding of the host as they are.
    fn daemon(&self, data: &Path) -> std::io::Result<Child> {
        let log = fs::File::create(data.join("dockerd.log"))?;
        let mut command = Command::new("dockerd");
        command.args(["--bridge=none", "--iptables=false", "--ip6tables=false", "--ip-forward=false"]);
        command.arg("--data-root").arg(data.join("docker")).arg("--exec-root").arg(self.dir.join("exec"));
        command.arg("--pidfile").arg(self.dir.join("docker.pid"));
        command.arg("--host").arg(format!("unix://{}", self.socket().display()));
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).spawn()
    }

    fn socket(&self) -> PathBuf {
        self.dir.join("docker.sock")
    }

    fn wait(&mut self) -> Result<(), String> {
        let begun = Instant::now();
        loop {
            let mut ask = Command::new("docker");
            ask.arg("--host").arg(format!("unix://{}", self.socket().display())).args([
                "version",
                "--format",
                "{{.Server.Version}}",
            ]);
            let answer = ask.stdin(Stdio::null()).stderr(Stdio::null()).output();
            if let Some(answer) = answer.ok().filter(|answer| answer.status.success()) {
                say::progress(format!("Docker {} answers", answer.stdout.trim_ascii().escape_ascii()));
                break;
            }
            let has_ended = self.daemon.as_mut().is_some_and(|daemon| !matches!(daemon.try_wait(), Ok(None)));
            if has_ended || begun.elapsed() > PATIENCE {
                return Err("containers (dockerd does not answer; its log is beside what is built)".to_owned());
            }
            // There is nothing to wait on but its answer.
            std::thread::sleep(Duration::from_millis(100));
        }
        // The ordinary user may ask it, and nobody else.
        let opened = chown(self.socket(), Some(0), Some(NOBODY));
        let opened = opened.and_then(|()| fs::set_permissions(self.socket(), Permissions::from_mode(0o660)));
        opened.map_err(|cause| format!("containers (the socket of dockerd: {cause})"))
    }
}

impl Drop for Engines {
    fn drop(&mut self) {
        if let Some(mut daemon) = self.daemon.take() {
            // It ends what it has started, if it is asked.
            let _ = Command::new("kill").arg(daemon.id().to_string()).status();
            let _ = daemon.wait();
        }
        // Podman of a user's keeps a process that holds its namespaces.
        if let Ok(id) = fs::read_to_string(self.dir.join("user/run/libpod/tmp/pause.pid")) {
            let _ = Command::new("kill").arg(id.trim()).status();
        }
        for file in &self.added {
            if let Ok(text) = fs::read_to_string(file) {
                let _ = fs::write(file, text.replace(NUMBERS, ""));
            }
        }
        // What is left of it is in the way of nobody.
        let _ = fs::remove_dir_all(&self.dir);
    }
}

fn is_root() -> bool {
    Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// They answer, and nothing of them is left.
    #[test]
    fn engines_start_and_end() {
        if !is_root() || !Path::new("/usr/sbin/dockerd").exists() {
            return say::progress("skipped: only root can start engines that are installed");
        }
        let data = tempfile::tempdir().expect("a place for data");
        let before = NUMBER_FILES.map(|file| fs::read_to_string(file).unwrap_or_default());
        let engines = Engines::start_as_root(data.path()).expect("the engines start");
        let (dir, id) = (engines.dir().to_owned(), engines.daemon.as_ref().expect("a daemon").id());
        for name in ["docker.sock", "containers.conf", "root/storage.conf", "user/storage.conf", "user/run"] {
            assert!(dir.join(name).exists(), "{name}");
        }
        drop(engines);
        assert!(!dir.exists() && !Path::new(&format!("/proc/{id}")).exists());
        assert_eq!(NUMBER_FILES.map(|file| fs::read_to_string(file).unwrap_or_default()), before);
    }
}
