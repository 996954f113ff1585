//! Where the fence is measured: a directory of its own, with a home, a project and the programs, all of an ordinary user.
//!
//! Started by root, the measuring itself is done by somebody who is not: a fence for root is another thing, and bubblewrap
//! works differently too.

use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::{Effort, Part, Parts};
use crate::dist;
use crate::steps::{Failure, Outcome, cargo, must_succeed};

/// Somebody without an account: no file of the machine is theirs.
const ORDINARY: u32 = 44_444;

/// A name for the machine while it is measured, and where it leads.
pub(super) const NAME: &str = "site.ringfence.example";
const NAMED: &str = "10.47.11.1";

/// The places in the directory.
#[derive(Debug, Clone)]
pub(crate) struct Ground {
    pub(super) dir: PathBuf,
}

impl Ground {
    pub(crate) fn at(dir: &Path) -> Self {
        Self { dir: dir.to_owned() }
    }

    /// The program as it is handed out.
    pub(super) fn ringfence(&self) -> PathBuf {
        self.dir.join("bin/ringfence")
    }

    /// This program.
    fn own_program(&self) -> PathBuf {
        self.dir.join("bin/xtask")
    }

    /// The program as cargo builds it by itself, with the host's libraries.
    pub(super) fn plain(&self) -> PathBuf {
        self.dir.join("bin/ringfence-plain")
    }

    /// An orchestrator that makes calls within a session.
    pub(super) fn calls(&self) -> PathBuf {
        self.dir.join("bin/calls")
    }

    /// What restricts itself by next to nothing.
    pub(super) fn bare_walls(&self) -> PathBuf {
        self.dir.join("bin/bare_walls")
    }

    /// This program, as a helper inside the fence: programs of the project can be read there.
    pub(super) fn helper(&self) -> PathBuf {
        self.project().join("helper")
    }

    /// Real sources, one after the other.
    pub(super) fn text(&self) -> PathBuf {
        self.dir.join("text")
    }

    /// A compiler, if there is one.
    pub(super) fn toolchain(&self) -> Option<PathBuf> {
        Some(self.dir.join("toolchain")).filter(|dir| dir.join("bin/cargo").is_file())
    }

    /// A small project with a repository.
    pub(super) fn project(&self) -> PathBuf {
        self.dir.join("home/project")
    }

    pub(super) fn home(&self) -> PathBuf {
        self.dir.join("home")
    }

    /// What the home is on, where root measures.
    fn disk(&self) -> PathBuf {
        self.dir.join("disk")
    }

    /// A directory for this name that is made if it is not there.
    pub(super) fn scratch(&self, name: &str) -> Result<PathBuf, Failure> {
        let path = self.dir.join("scratch").join(name);
        fs::create_dir_all(&path).map_err(|cause| failed(&path, &cause))?;
        Ok(path)
    }

    /// A command in the project, with an environment that does not depend on who measures.
    pub(super) fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        command.env_clear().env("HOME", self.home()).env("PATH", "/usr/local/bin:/usr/bin:/bin").env("LANG", "C.UTF-8");
        command.current_dir(self.project()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    /// `ringfence run -- COMMAND..`, in the project.
    pub(super) fn fenced(&self, options: &[&std::ffi::OsStr], words: &[&str]) -> Command {
        let mut command = self.command(self.ringfence());
        command.arg("run").args(options).arg("--").args(words);
        command
    }
}

/// Builds what is measured, lays it out, and measures as an ordinary user.
pub(super) fn measure(root: &Path, effort: Effort, parts: Parts) -> Result<Outcome, Failure> {
    let handed_out = dist::build(root, &dist::Options::handed_out())?;
    let plain = dist::target_directory(root).join("release/ringfence");
    // Building takes longer than a quick run: it measures what is handed out, and nothing else.
    let release = dist::target_directory(root).join("release");
    if parts.has(Part::Within) {
        let example = ["build", "--release", "-p", "ringfence", "-p", "ringfence-session", "--bin", "ringfence"];
        must_succeed(cargo(root, &example).args(["--example", "calls"]))?;
    }
    if parts.has(Part::Work) {
        must_succeed(&mut cargo(root, &["build", "--release", "-p", "ringfence-sys", "--example", "bare_walls"]))?;
    }
    let plain = if effort == Effort::Full && parts.has(Part::Start) || parts.has(Part::Within) {
        must_succeed(&mut cargo(root, &["build", "--release", "-p", "ringfence"]))?;
        plain
    } else {
        handed_out.clone()
    };
    let is_root = is_root()?;
    let base = base(is_root);
    let place = tempfile::Builder::new().prefix("ringfence-bench-").tempdir_in(&base);
    let place = place.map_err(|cause| failed(&base, &cause))?;
    let ground = Ground::at(place.path());
    lay_out(&ground, &handed_out, &plain).map_err(|cause| failed(&ground.dir, &cause))?;
    if parts.has(Part::Work) {
        let made = release.join("examples/bare_walls");
        fs::copy(made, ground.bare_walls()).map_err(|cause| failed(&ground.bare_walls(), &cause))?;
    }
    if parts.has(Part::Within) {
        fs::copy(release.join("examples/calls"), ground.calls()).map_err(|cause| failed(&ground.calls(), &cause))?;
    }
    if [Part::Work, Part::Broker, Part::Git].into_iter().any(|part| parts.has(part)) {
        bring_text(root, &ground)?;
    }
    if effort == Effort::Full && parts.has(Part::Work) || parts == Parts::One(Part::Broker) {
        bring_toolchain(&ground)?;
    }
    let mut command = if is_root {
        give(&ground.dir).map_err(|cause| failed(&ground.dir, &cause))?;
        make_disk(&ground)?;
        as_somebody(&ground)
    } else {
        Command::new(ground.own_program())
    };
    command.arg("bench-fence").arg(&ground.dir).args((effort == Effort::Quick).then_some("--quick"));
    if let Parts::One(part) = parts {
        command.args(["--only", part.name()]);
    }
    must_succeed(command.current_dir(&ground.dir))
}

/// The way out leads to names. Root can give the machine one for as long as this takes: a network of its own with one address,
/// and a file of hosts that names it. That file is nowhere else: what a host shows at two places is guarded at both, which takes
/// time that most hosts do not have to spend. In a minute more connections are made than a network has ports for by itself. The
/// home is on a disk of its own. Whoever then measures is not root.
const WITH_A_NAME: &str = r#"
ip link set lo up
echo 1024 65535 > /proc/sys/net/ipv4/ip_local_port_range
ip addr add "$1" dev lo
mount -t tmpfs tmpfs "$4"
cp "$2" "$4/hosts"
mount --bind "$4/hosts" /etc/hosts
umount -l "$4"
mount -o loop "$3" "$4"
shift 4
exec setpriv "$@"
"#;

/// As much as is read of sources.
const TEXT: usize = 48 << 20;

/// Room for every file that is made.
const DISK: &str = "16G";

/// The home, as a disk in a file. People's disks have a journal, and some machines that measure do not: without one, ext4 looks
/// at every inode that was deleted in the last minutes before it makes another, which would be most of what is measured.
fn make_disk(ground: &Ground) -> Result<(), Failure> {
    let mut make = Command::new("mkfs.ext4");
    let owner = format!("root_owner={ORDINARY}:{ORDINARY},lazy_itable_init=0,lazy_journal_init=0,nodiscard");
    make.args(["-q", "-F", "-N", "1500000", "-E", &owner, "-d"]);
    must_succeed(make.arg(ground.home()).arg(ground.disk()).arg(DISK)).map(drop)
}

fn as_somebody(ground: &Ground) -> Command {
    let mut command = Command::new("unshare");
    command.args(["--net", "--mount", "--propagation", "private", "--", "sh", "-euc", WITH_A_NAME, "with-a-name"]);
    command.arg(format!("{NAMED}/32")).arg(ground.dir.join("hosts")).arg(ground.disk()).arg(ground.home());
    command.args([format!("--reuid={ORDINARY}"), format!("--regid={ORDINARY}")]);
    command.args(["--clear-groups", "--"]).arg(ground.own_program());
    command
}

/// Where projects lie. Not below `/tmp`, which is another directory inside the fence.
fn base(is_root: bool) -> PathBuf {
    let home = if is_root { Some(PathBuf::from("/home")) } else { std::env::var_os("HOME").map(PathBuf::from) };
    home.filter(|home| home.is_dir()).unwrap_or_else(std::env::temp_dir)
}

fn lay_out(ground: &Ground, handed_out: &Path, plain: &Path) -> io::Result<()> {
    fs::set_permissions(&ground.dir, fs::Permissions::from_mode(0o755))?;
    for dir in ["bin", "scratch", "home/project"] {
        fs::create_dir_all(ground.dir.join(dir))?;
    }
    fs::copy(handed_out, ground.ringfence())?;
    fs::copy(plain, ground.plain())?;
    fs::copy(std::env::current_exe()?, ground.own_program())?;
    fs::write(ground.dir.join("hosts"), format!("127.0.0.1 localhost\n::1 localhost\n{NAMED} {NAME}\n"))?;
    fs::copy(std::env::current_exe()?, ground.helper())?;
    fs::write(ground.project().join("README"), "A project to start commands in.\n")?;
    // Nearly every project is a repository, in which hooks and settings are guarded.
    match ground.command("git").args(["init", "-q"]).status()? {
        status if status.success() => Ok(()),
        status => Err(io::Error::other(format!("`git init` ended with {status}"))),
    }
}

/// The compiler of whoever measures may lie in a home that nobody else may enter: its programs and libraries are linked here,
/// which copies nothing.
fn bring_toolchain(ground: &Ground) -> Result<(), Failure> {
    let sysroot = Command::new("rustc").args(["--print", "sysroot"]).output();
    let Some(sysroot) = sysroot.ok().and_then(|output| String::from_utf8(output.stdout).ok()) else { return Ok(()) };
    let (from, to) = (PathBuf::from(sysroot.trim()), ground.dir.join("toolchain"));
    for part in ["bin", "lib"] {
        link_tree(&from.join(part), &to.join(part)).map_err(|cause| failed(&to, &cause))?;
    }
    Ok(())
}

/// The sources of the crates that this program is built from, as files are to be made of: what git takes out of its own files takes as
/// long as it does for whoever works.
fn bring_text(root: &Path, ground: &Ground) -> Result<(), Failure> {
    let metadata = cargo(root, &["metadata", "--format-version", "1", "--locked"]).output();
    let metadata = metadata.map_err(|cause| failed(root, &cause))?.stdout;
    let metadata: serde_json::Value =
        serde_json::from_slice(&metadata).map_err(|cause| Failure::Found(format!("`cargo metadata`: {cause}")))?;
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let manifests = packages.filter_map(|package| package["manifest_path"].as_str()).map(PathBuf::from);
    let mut dirs: Vec<PathBuf> = manifests.filter_map(|manifest| manifest.parent().map(Path::to_owned)).collect();
    dirs.sort();
    let mut text = Vec::new();
    for dir in &dirs {
        add_sources(&dir.join("src"), &mut text).map_err(|cause| failed(dir, &cause))?;
    }
    if text.len() < TEXT {
        return Err(Failure::Found(format!("only {} bytes of sources were found", text.len())));
    }
    text.truncate(TEXT);
    fs::write(ground.text(), text).map_err(|cause| failed(&ground.text(), &cause))
}

fn add_sources(dir: &Path, text: &mut Vec<u8>) -> io::Result<()> {
    let Ok(listing) = fs::read_dir(dir) else { return Ok(()) };
    let mut entries = listing.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
    entries.sort();
    for entry in entries {
        if text.len() >= TEXT {
            break;
        }
        if entry.is_dir() {
            add_sources(&entry, text)?;
        } else if entry.extension().is_some_and(|ending| ending == "rs") {
            text.extend(fs::read(&entry)?);
        }
    }
    Ok(())
}

fn link_tree(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let (entry, kind) = entry.and_then(|entry| Ok((entry.path(), entry.file_type()?)))?;
        let target = to.join(entry.file_name().unwrap_or_default());
        if kind.is_dir() {
            link_tree(&entry, &target)?;
        } else if fs::hard_link(&entry, &target).is_err() {
            fs::copy(&entry, &target)?;
        }
    }
    Ok(())
}

/// Gives away what was made here; what is linked stays whose it is.
fn give(dir: &Path) -> io::Result<()> {
    chown(dir, Some(ORDINARY), Some(ORDINARY))?;
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_name() == "toolchain" {
            continue;
        }
        if entry.file_type()?.is_dir() {
            give(&entry.path())?;
        } else {
            chown(entry.path(), Some(ORDINARY), Some(ORDINARY))?;
        }
    }
    Ok(())
}

fn is_root() -> Result<bool, Failure> {
    use std::os::unix::fs::MetadataExt as _;
    let own = Path::new("/proc/self");
    Ok(fs::metadata(own).map_err(|cause| failed(own, &cause))?.uid() == 0)
}

pub(super) fn failed(path: &Path, cause: &io::Error) -> Failure {
    Failure::Found(format!("{}: {cause}", path.display()))
}
