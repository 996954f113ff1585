//! How the program is built that is handed out: static, and with the same bytes from any directory.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::{Time, target_directory};
use crate::steps::{Failure, cargo, must_succeed};

/// What is asked for on the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Options {
    /// The profile; another than `dist` is for trying the packages themselves.
    pub(crate) profile: String,
    /// What to build for; without it this machine.
    pub(crate) target: Option<String>,
    /// Whether each package is installed, used and removed too.
    pub(crate) is_checked: bool,
}

impl Options {
    /// What is handed out.
    pub(crate) fn handed_out() -> Self {
        Self { profile: "dist".to_owned(), target: None, is_checked: false }
    }

    /// Reads `[--profile NAME] [--target TRIPLE] [--check]`.
    pub(crate) fn read(mut words: &[&str]) -> Option<Self> {
        let mut options = Self::handed_out();
        loop {
            words = match words {
                [] => return Some(options),
                ["--check", rest @ ..] => {
                    options.is_checked = true;
                    rest
                }
                ["--profile", name, rest @ ..] => {
                    options.profile = (*name).to_owned();
                    rest
                }
                ["--target", triple, rest @ ..] => {
                    options.target = Some((*triple).to_owned());
                    rest
                }
                _ => return None,
            };
        }
    }

    /// The target: the requested one, otherwise this machine, with musl where that is installed.
    pub(super) fn triple(&self) -> Result<String, Failure> {
        if let Some(target) = &self.target {
            return Ok(target.clone());
        }
        let host = host()?;
        let musl = host.replace("-gnu", "-musl");
        let compiler = Command::new("musl-gcc").arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).status();
        let has_musl = musl != host && crate::test::has_target(&musl) && compiler.is_ok_and(|status| status.success());
        Ok(if has_musl { musl } else { host })
    }
}

/// No library of the host.
const STATIC: &str = "-Ctarget-feature=+crt-static";

/// Addresses that depend on where the program is loaded, as a bitmap: the list of them would be a sixth of what a start reads.
const SHORT_RELOCATIONS: &str = "-Clink-arg=-Wl,-z,pack-relative-relocs";

/// Builds the program: with musl where its target and its compiler are installed, otherwise with the static library of the host's
/// own C library, which comes with its headers on Debian.
pub(crate) fn build(root: &Path, options: &Options) -> Result<PathBuf, Failure> {
    let triple = options.triple()?;
    if !crate::test::has_target(&triple) {
        return Err(Failure::Found(format!(
            "the standard library for {triple} is missing: `rustup target add {triple}`"
        )));
    }
    // Paths are in messages of panics. They are the same wherever this was checked out and built.
    let places = [(root.to_owned(), "/ringfence"), (cargo_home(), "/cargo"), (target_directory(root), "/target")];
    let maps = places.map(|(from, to)| format!("{}={to}", from.display()));
    let rust = maps.iter().map(|map| format!("--remap-path-prefix={map}"));
    let c: Vec<String> = maps.iter().map(|map| quoted(&format!("-ffile-prefix-map={map}"))).collect();
    let given = std::env::var("RUSTFLAGS").unwrap_or_default();
    let given = given.split_whitespace().map(str::to_owned);
    let flags: Vec<String> = given.chain([STATIC.to_owned(), SHORT_RELOCATIONS.to_owned()]).chain(rust).collect();
    // Where a target is named, the flags do not reach what runs while building, which must be able to load libraries.
    let arguments = ["build", "--locked", "-p", "ringfence", "--profile", &options.profile, "--target", &triple];
    let mut command = cargo(root, &arguments);
    // Directories may have blanks in their names: cargo splits these flags at another byte, and cc reads its own as a shell would.
    command.env("CARGO_ENCODED_RUSTFLAGS", flags.join("\x1f"));
    command.env("CC_SHELL_ESCAPED_FLAGS", "1").env("CFLAGS", c.join(" ")).env("RINGFENCE_COMMIT", commit(root));
    if triple != host()? && triple.starts_with("aarch64") {
        command.env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", "aarch64-linux-gnu-gcc");
    }
    must_succeed(&mut command)?;
    let directory = if options.profile == "dev" { "debug" } else { &options.profile };
    Ok(target_directory(root).join(triple).join(directory).join("ringfence"))
}

/// One word of a shell's.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

fn cargo_home() -> PathBuf {
    let below_home = || PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(".cargo");
    std::env::var_os("CARGO_HOME").map_or_else(below_home, PathBuf::from)
}

/// The commit that is checked out.
pub(super) fn commit(root: &Path) -> String {
    git(root, &["rev-parse", "HEAD"]).unwrap_or_else(|| "unknown".to_owned())
}

/// What everything in the packages has as its time: `SOURCE_DATE_EPOCH`, otherwise the time of the commit.
pub(super) fn time(root: &Path) -> Time {
    let named = std::env::var("SOURCE_DATE_EPOCH").ok();
    let text = named.or_else(|| git(root, &["log", "-1", "--format=%ct"]));
    // The first day that every kind of archive can express.
    Time(text.and_then(|text| text.parse().ok()).unwrap_or(315_532_800))
}

fn git(root: &Path, arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).current_dir(root).stderr(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8(output.stdout).ok().map(|text| text.trim().to_owned()))?
}

/// The machine that we are on, as the compiler names it.
pub(super) fn host() -> Result<String, Failure> {
    host_in(&compiler()?).ok_or_else(|| Failure::Found("`rustc -vV` does not say which host this is".to_owned()))
}

/// What the compiler says about itself.
pub(super) fn compiler() -> Result<String, Failure> {
    super::said(Command::new("rustc").arg("-vV"))
}

fn host_in(text: &str) -> Option<String> {
    text.lines().find_map(|line| line.strip_prefix("host: ")).map(str::to_owned)
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
    fn options_are_read() {
        assert_eq!(Options::read(&[]), Some(Options::handed_out()));
        let read = Options::read(&["--check", "--target", "t", "--profile", "release"]);
        assert_eq!(read, Some(Options { profile: "release".into(), target: Some("t".into()), is_checked: true }));
        assert!(Options::read(&["--profile"]).is_none() && Options::read(&["--chek"]).is_none());
    }
}
