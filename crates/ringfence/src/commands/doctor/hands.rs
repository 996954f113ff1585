//! What touches this host when a remedy is carried out.

use std::fs;
use std::io;
use std::os::fd::AsFd as _;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};

use ringfence_session::doctor::Hands;
use ringfence_session::probe::system_program;

use crate::host::read_bounded;
use crate::write;

/// The host itself. Programs are the system's own, with an environment of their own.
pub(super) struct SystemHands;

/// Longer than any file that we write.
const MOST: u64 = 64 << 10;

/// Where packages come from may be a matter of the caller's network.
const PROXIES: &[&str] = &["HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"];

impl Hands for SystemHands {
    fn read(&mut self, path: &Path) -> io::Result<Option<Vec<u8>>> {
        match read_bounded(path, MOST) {
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(None),
            read => read.map(Some),
        }
    }

    fn write(&mut self, path: &Path, text: &str) -> io::Result<()> {
        fs::create_dir_all(path.parent().unwrap_or(Path::new("/")))?;
        write::replace(path, text.as_bytes())
    }

    fn run(&mut self, program: &str, arguments: &[String]) -> io::Result<ExitStatus> {
        let missing = || io::Error::new(io::ErrorKind::NotFound, "it is in none of the system's directories");
        let mut command = Command::new(system_program(program).ok_or_else(missing)?);
        command.args(arguments).current_dir("/").env_clear();
        command.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").env("HOME", "/root").env("LC_ALL", "C");
        // A package may stop to ask a question that nobody is there to answer.
        command.env("DEBIAN_FRONTEND", "noninteractive").stdin(Stdio::null());
        command.envs(PROXIES.iter().filter_map(|name| Some((name, std::env::var_os(name)?))));
        // What it prints is no answer of ours.
        command.stdout(io::stderr().as_fd().try_clone_to_owned()?);
        command.status()
    }
}
