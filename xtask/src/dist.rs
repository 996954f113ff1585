//! `cargo xtask dist`: ringfence as it is handed out: one program that needs no library of the host, with its manual pages and
//! completions, in every kind of package that can be made here.
//!
//! Without libraries to find and join the program starts in half the time, and it runs on hosts with another C library. What is
//! made depends on the commit and the toolchain, and not on the directory, the time or the user.

mod archive;
mod build;
mod check;
#[cfg(test)]
mod installer;
mod packages;
mod papers;
mod recipes;
mod texts;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use crate::say;
use crate::steps::{Failure, Outcome, cargo, must_succeed};
use archive::{Entry, Time};

pub(crate) use build::{Options, build};

/// An architecture, as each kind of package spells it.
#[derive(Debug, PartialEq, Eq)]
struct Architecture {
    rust: &'static str,
    debian: &'static str,
    rpm: &'static str,
    node: &'static str,
    oci: &'static str,
    homebrew: &'static str,
}

/// Those that releases are made for.
const ARCHITECTURES: [Architecture; 2] = [
    Architecture { rust: "x86_64", debian: "amd64", rpm: "x86_64", node: "x64", oci: "amd64", homebrew: "x86_64" },
    Architecture { rust: "aarch64", debian: "arm64", rpm: "aarch64", node: "arm64", oci: "arm64", homebrew: "arm64" },
];

/// Where the project and its releases are.
const REPOSITORY: &str = "https://github.com/ringfence/ringfence";

/// What every package is made of.
struct Release {
    version: String,
    commit: String,
    time: Time,
    triple: String,
    profile: String,
    architecture: &'static Architecture,
    /// Below a prefix: `bin/ringfence`, `share/man/man1/ringfence.1`, and so on.
    tree: Vec<Entry>,
    readme: Vec<u8>,
    licenses: Vec<Entry>,
    root: PathBuf,
}

impl Release {
    fn gather(root: &Path, program: &Path, triple: String, profile: &str) -> Result<Self, Failure> {
        let rust = triple.split('-').next().unwrap_or_default();
        let architecture = ARCHITECTURES.iter().find(|one| one.rust == rust);
        let architecture = architecture.ok_or_else(|| Failure::Found(format!("no package is made for {triple}")))?;
        let bytes = read(program)?;
        let version = env!("CARGO_PKG_VERSION").to_owned();
        let license = |name: &str| Ok(Entry::file(name, read(&root.join(name))?));
        let mut tree = vec![Entry::program("bin/ringfence", bytes)];
        tree.extend(texts::of(root, program, &triple)?);
        tree.push(Entry::file("share/ringfence/apparmor", read(&root.join("packaging/apparmor"))?));
        Ok(Self {
            version,
            commit: build::commit(root),
            time: build::time(root),
            triple,
            profile: profile.to_owned(),
            architecture,
            tree,
            readme: read(&root.join("README.md"))?,
            licenses: vec![license("LICENSE")?, license("LICENSE-MIT")?, license("LICENSE-APACHE")?],
            root: root.to_owned(),
        })
    }

    fn program(&self) -> &Entry {
        &self.tree[0]
    }

    /// `ringfence-0.1.0-linux-x86_64`.
    fn name(&self) -> String {
        format!("ringfence-{}-linux-{}", self.version, self.architecture.rust)
    }

    /// A file of `packaging/`, with what it leaves open filled in.
    fn recipe(&self, path: &str, more: &[(&str, &str)]) -> Result<String, Failure> {
        let path = self.root.join("packaging").join(path);
        let text = String::from_utf8(read(&path)?).unwrap_or_default();
        let own = [("VERSION", self.version.as_str()), ("RUST_ARCH", self.architecture.rust)];
        let filled = own.iter().chain(more).fold(text, |text, (name, value)| text.replace(&format!("@{name}@"), value));
        let is_open =
            |word: &&str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_');
        match filled.split('@').find(is_open) {
            Some(open) => Err(Failure::Found(format!("{}: @{open}@ is left open", path.display()))),
            None => Ok(filled),
        }
    }
}

/// A package, or why there is none.
struct Made {
    what: &'static str,
    result: Result<Entry, String>,
}

/// Builds all of it, and prints a table of what is where.
pub(crate) fn run(root: &Path, options: &Options) -> ExitCode {
    match all(root, options) {
        Ok(rows) => {
            say::result(rows.join("\n"));
            ExitCode::SUCCESS
        }
        Err(failure) => {
            say::progress(format!("xtask dist: FAILED: {failure}"));
            ExitCode::FAILURE
        }
    }
}

fn all(root: &Path, options: &Options) -> Result<Vec<String>, Failure> {
    let program = build(root, options)?;
    let release = Release::gather(root, &program, options.triple()?, &options.profile)?;
    let made = make(&release)?;
    let output = output(root);
    put(&output, &release, &made)?;
    let mut rows: Vec<String> = made
        .iter()
        .map(|made| match &made.result {
            Ok(entry) => format!("{:<22} {}", made.what, output.join(&entry.path).display()),
            Err(why) => format!("{:<22} not built here: {why}", made.what),
        })
        .collect();
    for other in ARCHITECTURES.iter().filter(|other| *other != release.architecture) {
        let triple = format!("{}-unknown-linux-gnu", other.rust);
        rows.push(format!("{:<22} not built here: `cargo xtask dist --target {triple}` makes them", other.rust));
    }
    if options.is_checked {
        check::all(&release, &output)?;
        rows.push("each package that was built was installed, used and removed".to_owned());
    }
    Ok(rows)
}

/// Every package. Those that another program makes are reported as missing where there is no such program.
fn make(release: &Release) -> Result<Vec<Made>, Failure> {
    let tarball = packages::tarball(release);
    let sum = archive::sha256(&tarball.bytes);
    let always = |what, entry| Made { what, result: Ok(entry) };
    let mut made = vec![
        always("Debian package", packages::deb(release)?),
        Made { what: "RPM package", result: packages::rpm(release)? },
        always("npm package", packages::npm(release)?),
        always("npm platform package", packages::npm_platform(release)),
        always("Python wheel", packages::wheel(release)?),
        always("OCI image", packages::oci(release)),
        always("install.sh", recipes::installer(release)?),
        always("Homebrew formula", recipes::homebrew(release, &tarball.path, &sum)?),
        always("AUR PKGBUILD", recipes::aur(release, &tarball.path, &sum)?),
        always("GitHub Action", recipes::action(release)?),
        always("devcontainer feature", recipes::devcontainer(release)?),
        always("SBOM", papers::sbom(release)?),
    ];
    made.insert(0, always("static program", tarball));
    let provenance = papers::provenance(release, &made)?;
    made.push(always("provenance", provenance));
    made.push(always("checksums", papers::checksums(&made)));
    Ok(made)
}

/// Writes them to an empty directory.
fn put(output: &Path, release: &Release, made: &[Made]) -> Result<(), Failure> {
    if output.exists() {
        done(std::fs::remove_dir_all(output), output)?;
    }
    done(std::fs::create_dir_all(output), output)?;
    let program = Entry { path: release.name(), ..release.program().clone() };
    for entry in made.iter().filter_map(|made| made.result.as_ref().ok()).chain([&program]) {
        write(output, entry)?;
    }
    Ok(())
}

fn output(root: &Path) -> PathBuf {
    target_directory(root).join("dist")
}

/// Writes a file below a directory, with its mode.
fn write(dir: &Path, entry: &Entry) -> Result<(), Failure> {
    use std::os::unix::fs::PermissionsExt as _;
    let path = dir.join(&entry.path);
    let parent = path.parent().unwrap_or(dir);
    done(std::fs::create_dir_all(parent), parent)?;
    done(std::fs::write(&path, &entry.bytes), &path)?;
    done(std::fs::set_permissions(&path, std::fs::Permissions::from_mode(entry.mode)), &path)
}

fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    std::fs::read(path).map_err(|cause| Failure::Found(format!("{}: {cause}", path.display())))
}

/// What a program prints.
fn said(command: &mut Command) -> Result<String, Failure> {
    let name = command.get_program().display().to_string();
    let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output();
    let output = output.map_err(|cause| Failure::Start { command: name.clone(), cause })?;
    if !output.status.success() {
        return Err(Failure::Status { command: name, status: output.status });
    }
    Ok(String::from_utf8(output.stdout).unwrap_or_default().trim_end().to_owned() + "\n")
}

fn done(result: std::io::Result<()>, path: &Path) -> Result<(), Failure> {
    result.map_err(|cause| Failure::Found(format!("{}: {cause}", path.display())))
}

/// The same program for what is tried with it and not handed out: by the profile that is built in minutes.
pub(crate) fn quick(root: &Path) -> Result<PathBuf, Failure> {
    build::build(root, &Options { profile: "release".to_owned(), ..Options::handed_out() })
}

/// Where cargo builds.
pub(crate) fn target_directory(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from)
}

/// Whether the Debian package can be installed, used and removed, with the program that the tests have built: it differs from the one
/// that is handed out in how it was compiled only. As root it really is installed, unless there is one already; otherwise it is
/// unpacked and used from there.
pub(crate) fn try_it(root: &Path) -> Result<Outcome, Failure> {
    // What a developer types, with what the tests have built already.
    let place = target_directory(root).join("installed");
    let install = ["install", "--debug", "--locked", "--path", "crates/ringfence", "--root"];
    must_succeed(cargo(root, &install).arg(&place))?;
    check::used(&place.join("bin/ringfence"), root)?;
    let program = target_directory(root).join("debug/ringfence");
    let release = Release::gather(root, &program, build::host()?, "dev")?;
    let output = target_directory(root).join("dist-test");
    let package = packages::deb(&release)?;
    write(&output, &package)?;
    check::debian(&output.join(&package.path), root)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_architecture_has_its_own_name_in_every_kind_of_package() {
        let [one, other] = &ARCHITECTURES;
        let names = |a: &'static Architecture| [a.rust, a.debian, a.rpm, a.node, a.oci, a.homebrew];
        for (one, other) in names(one).into_iter().zip(names(other)) {
            assert_ne!(one, other);
        }
    }
}
