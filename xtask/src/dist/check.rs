//! Each package, installed in a clean root, used, and removed again without a file left.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::{Entry, Release, done, packages, target_directory};
use crate::say;
use crate::steps::{Failure, Outcome, cargo, must_succeed};

/// A Debian 12 and nothing more than what downloads: made once, and kept.
const SUITE: &str = "bookworm";

/// All packages of a release, in `output`.
pub(super) fn all(release: &Release, output: &Path) -> Result<(), Failure> {
    if release.architecture.rust != std::env::consts::ARCH {
        return Err(Failure::Found(format!("what is built for {} cannot be checked on this machine", release.triple)));
    }
    let place = target_directory(&release.root).join("dist-check");
    done(std::fs::create_dir_all(&place), &place)?;
    let root = debian_root(&place)?;
    let name = |entry: Entry| entry.path;
    let deb = name(packages::deb(release)?);
    let step = |what: &str| say::progress(format!("xtask dist: installing {what}"));
    step("the Debian package");
    in_root(&root, output, &[&format!("dpkg --install /dist/{deb}"), USE, "dpkg --purge ringfence"])?;
    step("with install.sh");
    let install = "RINGFENCE_DOWNLOAD_URL=file:///dist sh /dist/install.sh --prefix /usr/local";
    in_root(&root, output, &[install, install, USE, "sh /dist/install.sh --prefix /usr/local --uninstall"])?;
    step("the RPM package");
    rpm(release, &root, output)?;
    step("the npm package");
    npm(release, &place, output)?;
    step("the wheel");
    wheel(release, &place, output)?;
    step("the image");
    oci(release, output)?;
    step("the crates: each is compiled from its own package");
    let package = ["package", "--workspace", "--exclude", "xtask", "--exclude", "ringfence-testkit", "--allow-dirty"];
    must_succeed(&mut cargo(&release.root, &package)).map(|_| ())
}

/// What is done with each of them. Whether the full sandbox works in the container of this check is the container's matter; that
/// something holds there, and that doctor answers, is ours.
const USE: &str = "mkdir -p /tmp/home/project && cd /tmp/home/project && export HOME=/tmp/home && ringfence run -- true && \
                   { ringfence doctor > /tmp/doctor || [ $? = 1 ]; } && head -n 3 /tmp/doctor && \
                   ringfence --version --verbose";

fn debian_root(place: &Path) -> Result<PathBuf, Failure> {
    let root = place.join(SUITE);
    if !root.join("complete").exists() {
        let mut command = Command::new("debootstrap");
        must_succeed(command.args(["--variant=minbase", "--include=curl", SUITE]).arg(&root))?;
        done(std::fs::write(root.join("complete"), ""), &root)?;
    }
    Ok(root)
}

/// Runs lines of shell in the root, as its root, in a container that loads no image and reaches no network. Every file that is
/// there afterwards was there before.
fn in_root(root: &Path, output: &Path, lines: &[&str]) -> Result<(), Failure> {
    let list = |to: &str| format!("find / -xdev \\( {UNLISTED} \\) -prune -o -print | sort > /tmp/{to}");
    let (before, after) = (list("before"), list("after"));
    let script = [&["set -e", &before][..], lines, &[&after, "diff /tmp/before /tmp/after"]].concat();
    let mut command = container();
    command
        .arg("--volume")
        .arg(format!("{}:/dist:ro", output.display()))
        .arg("--rootfs")
        .arg(format!("{}:O", root.display()));
    must_succeed(command.args(["sh", "-c", &script.join("\n")])).map(|_| ())
}

/// A container that makes sandboxes itself, and reaches no network. Podman asks for more open files than a container in CI may have,
/// and its usual runtime refuses some kinds of control groups.
fn container() -> Command {
    let mut command = Command::new("podman");
    command.args(["--runtime", "runc", "--cgroup-manager", "cgroupfs", "--events-backend", "file", "run", "--rm"]);
    command.args(["--privileged", "--ulimit", "nofile=1024:1024", "--ulimit", "nproc=4096:4096", "--network", "none"]);
    command.args(["--tmpfs", "/tmp:exec"]);
    command
}

/// What is not a package's: what the kernel shows, what the container mounts, and the log and backups of dpkg.
const UNLISTED: &str = "-path /proc -o -path /sys -o -path /dev -o -path /tmp -o -path /run -o -path /dist -o -path /var/log \
                        -o -path /var/lib/dpkg/*-old -o -path /var/cache/ldconfig -o -path /var/lib/rpm";

/// Installed from outside, by `rpm --root`, in a copy of the root.
fn rpm(release: &Release, root: &Path, output: &Path) -> Result<(), Failure> {
    let name = format!("ringfence-{}-1.{}.rpm", release.version, release.architecture.rpm);
    if !output.join(&name).exists() {
        say::progress("xtask dist: there is no RPM package to install");
        return Ok(());
    }
    let copy = root.with_extension("rpm");
    remove(&copy)?;
    must_succeed(Command::new("cp").arg("--archive").arg("--reflink=auto").arg(root).arg(&copy))?;
    let rpm = |words: &[&str]| {
        let mut command = Command::new("rpm");
        must_succeed(command.arg("--root").arg(&copy).args(["--dbpath", "/var/lib/rpm"]).args(words)).map(|_| ())
    };
    let before = files(&copy)?;
    let package = output.join(&name).display().to_string();
    rpm(&["--initdb"])?;
    rpm(&["--install", "--nodeps", &package])?;
    rpm(&["--verify", "--nodeps", "ringfence"])?;
    in_root(&copy, output, &[USE])?;
    rpm(&["--erase", "ringfence"])?;
    let left: Vec<PathBuf> =
        files(&copy)?.difference(&before).filter(|path| !path.starts_with("var/lib/rpm")).cloned().collect();
    remove(&copy)?;
    nothing_left("rpm", &left)
}

fn npm(release: &Release, place: &Path, output: &Path) -> Result<(), Failure> {
    let prefix = place.join("npm");
    remove(&prefix)?;
    done(std::fs::create_dir_all(&prefix), &prefix)?;
    let version = &release.version;
    let own =
        [format!("ringfence-linux-{}-{version}.tgz", release.architecture.node), format!("ringfence-{version}.tgz")];
    let npm = |words: &[&str]| {
        let mut command = Command::new("npm");
        command.args(words).args(["--global", "--ignore-scripts", "--no-audit", "--no-fund", "--offline", "--prefix"]);
        must_succeed(command.arg(&prefix)).map(|_| ())
    };
    for name in own {
        npm(&["install", &output.join(name).display().to_string()])?;
    }
    used(&prefix.join("bin/ringfence"), &release.root)?;
    npm(&["uninstall", "ringfence", &format!("@ringfence/linux-{}", release.architecture.node)])?;
    let left: Vec<PathBuf> = files(&prefix)?.into_iter().filter(|path| path.ends_with("ringfence")).collect();
    remove(&prefix)?;
    nothing_left("npm", &left)
}

fn wheel(release: &Release, place: &Path, output: &Path) -> Result<(), Failure> {
    let venv = place.join("venv");
    remove(&venv)?;
    must_succeed(Command::new("python3").args(["-m", "venv"]).arg(&venv))?;
    let before = files(&venv)?;
    let wheel = packages::wheel(release)?;
    let pip = |words: &[&str]| {
        let mut command = Command::new(venv.join("bin/python"));
        command.args(["-m", "pip", "--quiet", "--disable-pip-version-check"]).args(words);
        must_succeed(command.env("PYTHONDONTWRITEBYTECODE", "1")).map(|_| ())
    };
    pip(&["install", "--no-index", "--no-deps", &output.join(wheel.path).display().to_string()])?;
    used(&venv.join("bin/ringfence"), &release.root)?;
    pip(&["uninstall", "--yes", "ringfence"])?;
    let left: Vec<PathBuf> = files(&venv)?.difference(&before).cloned().collect();
    remove(&venv)?;
    nothing_left("pip", &left)
}

/// The image has no command but ringfence itself.
fn oci(release: &Release, output: &Path) -> Result<(), Failure> {
    let archive = output.join(packages::oci(release).path);
    let image = super::said(
        Command::new("podman").args(["pull", "--quiet"]).arg(format!("oci-archive:{}", archive.display())),
    )?;
    let run = |words: &[&str]| {
        let mut command = container();
        command.args(["--env", "HOME=/tmp", "--workdir", "/tmp/project"]);
        let status = command.arg(image.trim()).args(words).stdin(Stdio::null()).status();
        status.map_err(|cause| Failure::Start { command: "podman run".to_owned(), cause })
    };
    let version = run(&["--version", "--verbose"])?;
    let doctor = run(&["doctor"])?;
    let fenced = run(&["run", "--", "/usr/bin/ringfence", "--version"])?;
    must_succeed(Command::new("podman").args(["rmi", "--force", image.trim()]))?;
    match version.success() && matches!(doctor.code(), Some(0 | 1)) && fenced.success() {
        true => Ok(()),
        false => Err(Failure::Found(format!("the image: version {version}, doctor {doctor}, run {fenced}"))),
    }
}

fn nothing_left(what: &str, left: &[PathBuf]) -> Result<(), Failure> {
    if left.is_empty() {
        return Ok(());
    }
    let names: Vec<String> = left.iter().map(|path| path.display().to_string()).collect();
    Err(Failure::Found(format!("{what} left behind: {}", names.join(", "))))
}

/// Every name below a directory, relative to it.
fn files(dir: &Path) -> Result<BTreeSet<PathBuf>, Failure> {
    let mut found = BTreeSet::new();
    let mut queue = vec![dir.to_owned()];
    while let Some(next) = queue.pop() {
        let entries = std::fs::read_dir(&next).and_then(Iterator::collect::<std::io::Result<Vec<_>>>);
        for entry in entries.map_err(|cause| Failure::Found(format!("{}: {cause}", next.display())))? {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                queue.push(entry.path());
            }
            found.insert(entry.path().strip_prefix(dir).unwrap_or(dir).to_owned());
        }
    }
    Ok(found)
}

fn remove(dir: &Path) -> Result<(), Failure> {
    if dir.exists() { done(std::fs::remove_dir_all(dir), dir) } else { Ok(()) }
}

/// What a Debian package must have, beside whatever else.
const EXPECTED: [&str; 9] = [
    "usr/bin/ringfence",
    "usr/share/bash-completion/completions/ringfence",
    "usr/share/doc/ringfence/README.md",
    "usr/share/doc/ringfence/copyright",
    "usr/share/fish/vendor_completions.d/ringfence.fish",
    "usr/share/man/man1/ringfence-run.1.gz",
    "usr/share/man/man1/ringfence.1.gz",
    "usr/share/ringfence/apparmor",
    "usr/share/zsh/vendor-completions/_ringfence",
];

/// A Debian package on this machine. As root it really is installed, unless there is one already.
pub(super) fn debian(package: &Path, root: &Path) -> Result<Outcome, Failure> {
    let unpacked = package.with_extension("unpacked");
    remove(&unpacked)?;
    must_succeed(Command::new("dpkg-deb").arg("--extract").arg(package).arg(&unpacked))?;
    if let Some(file) = EXPECTED.iter().find(|file| !unpacked.join(file).exists()) {
        return Err(Failure::Found(format!("the package lacks {file}")));
    }
    used(&unpacked.join("usr/bin/ringfence"), root)?;
    let is_installed = Path::new("/usr/bin/ringfence").exists();
    if !crate::packages::is_root() || is_installed {
        return Ok(Outcome::NotRun("installing the package (only as root, and where there is none)".to_owned()));
    }
    let tried = must_succeed(Command::new("dpkg").arg("--install").arg(package))
        .and_then(|_| used(Path::new("/usr/bin/ringfence"), root));
    // Also after a failure: nothing of it stays on the machine.
    must_succeed(Command::new("dpkg").args(["--purge", "ringfence"]))?;
    tried?;
    match EXPECTED.iter().find(|file| Path::new("/").join(file).exists()) {
        Some(file) => Err(Failure::Found(format!("/{file} is still there after the package was removed"))),
        None => Ok(Outcome::Passed),
    }
}

/// Whether the program, where it is now, fences a command, and doctor answers.
pub(super) fn used(program: &Path, root: &Path) -> Result<Outcome, Failure> {
    let home = target_directory(root).join("dist-home");
    let project = home.join("project");
    done(std::fs::create_dir_all(&project), &project)?;
    let name = program.display().to_string();
    let output = |words: &[&str]| {
        let mut command = Command::new(program);
        command.args(words).current_dir(&project).env("HOME", &home).env_remove("XDG_STATE_HOME").stdin(Stdio::null());
        command.output().map_err(|cause| Failure::Start { command: name.clone(), cause })
    };
    let said = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap_or_default();
    let run = output(&["run", "--", "sh", "-c", "echo $RINGFENCE; cat /etc/shadow"])?;
    if run.stdout != b"1\n" || run.status.success() {
        return Err(Failure::Found(format!("{name} does not fence a command:\n{}", said(run.stderr))));
    }
    let doctor = output(&["doctor"])?;
    if !matches!(doctor.status.code(), Some(0 | 1)) || doctor.stdout.is_empty() {
        return Err(Failure::Found(format!("{name} doctor ended with {}:\n{}", doctor.status, said(doctor.stderr))));
    }
    Ok(Outcome::Passed)
}
