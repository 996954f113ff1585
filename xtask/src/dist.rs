//! `cargo xtask dist`: ringfence as it is handed out: one program that needs no library of the host, its manual pages and
//! completions, and a Debian package of them.
//!
//! Without libraries to find and join the program starts in half the time, and it runs on hosts with another C library.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use crate::say;
use crate::steps::{Failure, Outcome, cargo, has_subcommand, must_succeed};

/// Builds all of it, and says where it is.
pub(crate) fn run(root: &Path) -> ExitCode {
    let made = build(root).and_then(|program| Ok((triple()?, program)));
    match made.and_then(|(triple, program)| package(root, &program, &["--target", &triple, "--profile", "dist"])) {
        Ok(made) => {
            say::result(made.program.display().to_string());
            say::result(made.package.display().to_string());
            ExitCode::SUCCESS
        }
        Err(failure) => {
            say::progress(format!("xtask dist: FAILED: {failure}"));
            ExitCode::FAILURE
        }
    }
}

/// What was made.
struct Made {
    program: PathBuf,
    package: PathBuf,
}

/// No library of the host.
const STATIC: &str = "-C target-feature=+crt-static";

/// Addresses that depend on where the program is loaded, as a bitmap: the list of them would be a sixth of what a start reads.
const SHORT_RELOCATIONS: &str = "-C link-arg=-Wl,-z,pack-relative-relocs";

/// Builds the program: with musl where its target and its compiler are installed, otherwise with the static library of the host's
/// own C library, which comes with its headers on Debian.
pub(crate) fn build(root: &Path) -> Result<PathBuf, Failure> {
    let triple = triple()?;
    let flags = [std::env::var("RUSTFLAGS").unwrap_or_default().as_str(), STATIC, SHORT_RELOCATIONS].join(" ");
    // Where a target is named, the flags do not reach what runs while building, which must be able to load libraries.
    let arguments = ["build", "--profile", "dist", "-p", "ringfence", "--target", &triple];
    must_succeed(cargo(root, &arguments).env("RUSTFLAGS", flags.trim()))?;
    Ok(target_directory(root).join(triple).join("dist/ringfence"))
}

/// The version that packages are made with. What it is told is in the manifest of the command line.
const CARGO_DEB: &str = "3.8.0";

/// Makes the package from a built program. `built` says how it was, in the packager's words.
fn package(root: &Path, program: &Path, built: &[&str]) -> Result<Made, Failure> {
    let release = program.parent().unwrap_or(root);
    // Files beside the program: the packager looks there for whatever its table calls `target/release`.
    let texts = release.join("texts");
    write_texts(program, &texts)?;
    let tools = tools(root)?;
    let output = target_directory(root).join("dist");
    made(std::fs::create_dir_all(&output), &output)?;
    let mut command = cargo(root, &["deb", "--no-build", "--no-strip", "--package", "ringfence"]);
    command.args(built).arg("--output").arg(&output).env("PATH", tools);
    let package = said(&mut command)?;
    Ok(Made { program: program.to_owned(), package: PathBuf::from(package.trim_end()) })
}

/// Completions by the name that their shell looks for.
const COMPLETIONS: [(&str, &str); 3] = [("bash", "ringfence"), ("zsh", "_ringfence"), ("fish", "ringfence.fish")];

/// Manual pages and completions, as the program itself prints them.
fn write_texts(program: &Path, directory: &Path) -> Result<(), Failure> {
    if directory.exists() {
        // A page of a command that is gone would be packaged too.
        made(std::fs::remove_dir_all(directory), directory)?;
    }
    let write = |path: PathBuf, text: String| {
        let parent = path.parent().unwrap_or(directory);
        made(std::fs::create_dir_all(parent).and_then(|()| std::fs::write(&path, text)), &path)
    };
    for (shell, name) in COMPLETIONS {
        let text = said(Command::new(program).args(["completions", shell]))?;
        write(directory.join("completions").join(shell).join(name), text)?;
    }
    // Each page names those of the commands below it.
    let mut pages = vec![Vec::<String>::new()];
    let mut written = 0;
    while let Some(words) = pages.pop() {
        let page = said(Command::new(program).arg("man").args(&words))?;
        let name = std::iter::once("ringfence").chain(words.iter().map(String::as_str)).collect::<Vec<_>>().join("-");
        pages.extend(named(&page, &name).into_iter().map(|inner| [words.as_slice(), &[inner]].concat()));
        write(directory.join(format!("man/{name}.1")), page)?;
        written += 1;
    }
    if written < 10 {
        return Err(Failure::Found(format!("there are only {written} manual pages")));
    }
    Ok(())
}

/// The commands below this one that have a page of their own, by what its page says of them.
fn named(page: &str, name: &str) -> Vec<String> {
    let plain = page.lines().map(|line| line.replace("\\-", "-"));
    plain.filter_map(|line| Some(line.strip_prefix(name)?.strip_prefix('-')?.strip_suffix("(1)")?.to_owned())).collect()
}

/// PATH with the packager on it, which is built once, beside what is built.
fn tools(root: &Path) -> Result<std::ffi::OsString, Failure> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    if has_subcommand(root, "deb") {
        return Ok(path);
    }
    let tools = target_directory(root).join("tools");
    if !tools.join("bin/cargo-deb").exists() {
        let install = ["install", "--locked", "--version", CARGO_DEB, "cargo-deb", "--root"];
        must_succeed(cargo(root, &install).arg(&tools))?;
    }
    let all = std::iter::once(tools.join("bin")).chain(std::env::split_paths(&path));
    std::env::join_paths(all).map_err(|cause| Failure::Found(cause.to_string()))
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

fn made(done: std::io::Result<()>, path: &Path) -> Result<(), Failure> {
    done.map_err(|cause| Failure::Found(format!("{}: {cause}", path.display())))
}

/// Where cargo builds.
pub(crate) fn target_directory(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from)
}

/// What to build for: this machine, with musl where that can be had.
fn triple() -> Result<String, Failure> {
    let host = host()?;
    let musl = host.replace("-gnu", "-musl");
    let compiler = Command::new("musl-gcc").arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).status();
    let has_musl = musl != host && crate::test::has_target(&musl) && compiler.is_ok_and(|status| status.success());
    Ok(if has_musl { musl } else { host })
}

/// The machine that we are on, as the compiler names it.
fn host() -> Result<String, Failure> {
    let output = Command::new("rustc").arg("-vV").output();
    let output = output.map_err(|cause| Failure::Start { command: "rustc -vV".to_owned(), cause })?;
    let text = String::from_utf8(output.stdout).unwrap_or_default();
    host_in(&text).ok_or_else(|| Failure::Found("`rustc -vV` does not say which host this is".to_owned()))
}

fn host_in(text: &str) -> Option<String> {
    text.lines().find_map(|line| line.strip_prefix("host: ")).map(str::to_owned)
}

/// Whether the package can be installed, used and removed. As root it really is, unless there is one already; otherwise it is
/// unpacked and used from there.
pub(crate) fn try_it(root: &Path) -> Result<Outcome, Failure> {
    // What a developer types, with what the tests have built already.
    let place = target_directory(root).join("installed");
    let install = ["install", "--debug", "--locked", "--path", "crates/ringfence", "--root"];
    must_succeed(cargo(root, &install).arg(&place))?;
    used(&place.join("bin/ringfence"), root)?;
    // Of the program that the tests have run: it differs from the one that is handed out in how it was compiled only.
    let made = package(root, &target_directory(root).join("debug/ringfence"), &["--profile", "dev"])?;
    let unpacked = target_directory(root).join("dist/unpacked");
    if unpacked.exists() {
        self::made(std::fs::remove_dir_all(&unpacked), &unpacked)?;
    }
    must_succeed(Command::new("dpkg-deb").arg("--extract").arg(&made.package).arg(&unpacked))?;
    for file in EXPECTED {
        // Pages are compressed in what is handed out only.
        let names = [file, file.trim_end_matches(".gz")];
        if !names.iter().any(|name| unpacked.join(name).exists()) {
            return Err(Failure::Found(format!("the package lacks {file}")));
        }
    }
    used(&unpacked.join("usr/bin/ringfence"), root)?;
    let is_installed = Path::new("/usr/bin/ringfence").exists();
    if !crate::packages::is_root() || is_installed {
        return Ok(Outcome::NotRun("installing the package (only as root, and where there is none)".to_owned()));
    }
    let tried = must_succeed(Command::new("dpkg").arg("--install").arg(&made.package))
        .and_then(|_| used(Path::new("/usr/bin/ringfence"), root));
    // Also after a failure: nothing of it stays on the machine.
    must_succeed(Command::new("dpkg").args(["--purge", "ringfence"]))?;
    tried?;
    match Path::new("/usr/bin/ringfence").exists() {
        true => Err(Failure::Found("the program is still there after the package was removed".to_owned())),
        false => Ok(Outcome::Passed),
    }
}

/// What the package must hold, beside whatever else.
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

/// Whether the program, where it is now, fences a command.
fn used(program: &Path, root: &Path) -> Result<Outcome, Failure> {
    let home = target_directory(root).join("dist/home");
    let project = home.join("project");
    made(std::fs::create_dir_all(&project), &project)?;
    let mut command = Command::new(program);
    command.args(["run", "--", "sh", "-c", "echo $RINGFENCE; cat /etc/shadow"]);
    command.current_dir(&project).env("HOME", &home).env_remove("XDG_STATE_HOME");
    let output = command.stdin(Stdio::null()).output();
    let name = program.display().to_string();
    let output = output.map_err(|cause| Failure::Start { command: name.clone(), cause })?;
    if output.stdout != b"1\n" || output.status.success() {
        let said = String::from_utf8(output.stderr).unwrap_or_default();
        return Err(Failure::Found(format!("{name} does not fence a command:\n{said}")));
    }
    Ok(Outcome::Passed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_is_read() {
        let text = "rustc 1.95.0\nbinary: rustc\nhost: aarch64-unknown-linux-gnu\nrelease: 1.95.0\n";
        assert_eq!(host_in(text).as_deref(), Some("aarch64-unknown-linux-gnu"));
        assert_eq!(host_in("rustc 1.95.0\n"), None);
    }

    #[test]
    fn pages_are_read() {
        let text = ".TP\nringfence\\-run(1)\nRun\n.TP\nringfence\\-jail\\-exec(1)\n.TP\nfork(2)\n";
        assert_eq!(named(text, "ringfence"), ["run", "jail-exec"]);
    }
}
