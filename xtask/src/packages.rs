//! System packages that the checks need, as one table, and how they are installed.

use std::ffi::OsStr;
use std::process::{Command, Stdio};

use crate::say;
use crate::steps::{Failure, Outcome, must_succeed};

/// What shows that a package is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sign {
    /// A program that PATH finds.
    Program(&'static str),
    /// A file: the system's own program, which is there inside the fence too, and not one that only a home directory has.
    File(&'static str),
    /// A module that the system's own Python can import.
    Module(&'static str),
}

/// A package by its Debian name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Package {
    name: &'static str,
    sign: Sign,
    why: &'static str,
}

/// Everything that has to be installed beside a Rust toolchain. A check that needs another program adds its row here.
const PACKAGES: &[Package] = &[
    Package { name: "apparmor", sign: Sign::File("/usr/sbin/apparmor_parser"), why: PROFILES },
    Package { name: "bubblewrap", sign: Sign::File("/usr/bin/bwrap"), why: "one way to build a fence is made of it" },
    // The other busybox needs libraries, which the tests' image does not have.
    Package { name: "busybox-static", sign: Sign::File("/var/lib/dpkg/info/busybox-static.list"), why: LINES },
    Package { name: "ca-certificates", sign: Sign::File("/etc/ssl/certs/ca-certificates.crt"), why: WORK },
    Package { name: "catatonit", sign: Sign::File("/usr/bin/catatonit"), why: ENGINES },
    Package { name: "curl", sign: Sign::File("/usr/bin/curl"), why: NET },
    Package { name: "docker.io", sign: Sign::File("/usr/sbin/dockerd"), why: ENGINES },
    Package { name: "fish", sign: Sign::File("/usr/bin/fish"), why: "the lines of `shell-install` are read by it" },
    Package { name: "gawk", sign: Sign::File("/usr/bin/gawk"), why: LINES },
    Package { name: "gcc", sign: Sign::File("/usr/bin/gcc"), why: WORK },
    Package {
        name: "gcc-aarch64-linux-gnu",
        sign: Sign::File("/usr/bin/aarch64-linux-gnu-gcc"),
        why: "what TLS is made of is compiled for 64-bit ARM too",
    },
    Package { name: "git", sign: Sign::Program("git"), why: "tidy asks it which files belong to the project" },
    Package {
        name: "git-lfs",
        sign: Sign::File("/usr/bin/git-lfs"),
        why: "the oracle about git runs it as users' settings do",
    },
    Package { name: "golang-go", sign: Sign::File("/usr/bin/go"), why: WORK },
    Package { name: "iproute2", sign: Sign::File("/usr/sbin/ip"), why: NET },
    Package { name: "less", sign: Sign::File("/usr/bin/less"), why: WORK },
    Package { name: "libc6-dev", sign: Sign::File("/usr/include/stdio.h"), why: WORK },
    Package {
        name: "libc6-dev-arm64-cross",
        sign: Sign::File("/usr/aarch64-linux-gnu/include/stdio.h"),
        why: "what TLS is made of is compiled for 64-bit ARM too",
    },
    Package { name: "libcap2-bin", sign: Sign::File("/usr/sbin/setcap"), why: ROOTS },
    Package { name: "make", sign: Sign::File("/usr/bin/make"), why: WORK },
    Package { name: "netbase", sign: Sign::File("/etc/services"), why: WORK },
    Package { name: "nodejs", sign: Sign::File("/usr/bin/node"), why: WORK },
    Package { name: "npm", sign: Sign::File("/usr/bin/npm"), why: WORK },
    Package { name: "openssh-client", sign: Sign::File("/usr/bin/ssh-agent"), why: WORK },
    Package { name: "openssh-server", sign: Sign::File("/usr/sbin/sshd"), why: NET },
    Package { name: "openssl", sign: Sign::File("/usr/bin/openssl"), why: NET },
    Package {
        name: "patch",
        sign: Sign::File("/usr/bin/patch"),
        why: "what `learn` proposes is a change that it takes",
    },
    Package { name: "podman", sign: Sign::File("/usr/bin/podman"), why: ENGINES },
    Package { name: "procps", sign: Sign::File("/usr/bin/ps"), why: "the tests of the fence look at processes" },
    Package { name: "python3", sign: Sign::File("/usr/bin/python3"), why: "the tests of the fence make calls" },
    Package { name: "python3-venv", sign: Sign::Module("ensurepip"), why: WORK },
    Package { name: "ripgrep", sign: Sign::File("/usr/bin/rg"), why: LINES },
    Package { name: "runc", sign: Sign::File("/usr/sbin/runc"), why: ENGINES },
    Package { name: "secilc", sign: Sign::File("/usr/bin/secilc"), why: PROFILES },
    Package { name: "selinux-utils", sign: Sign::File("/usr/sbin/selabel_lookup"), why: PROFILES },
    Package { name: "strace", sign: Sign::File("/usr/bin/strace"), why: WORK },
    Package { name: "tree", sign: Sign::File("/usr/bin/tree"), why: LINES },
    Package { name: "tzdata", sign: Sign::File("/usr/share/zoneinfo/Europe/Berlin"), why: WORK },
    Package { name: "uidmap", sign: Sign::File("/usr/bin/newuidmap"), why: ENGINES },
    Package { name: "unzip", sign: Sign::File("/usr/bin/unzip"), why: WORK },
    Package { name: "util-linux", sign: Sign::File("/usr/bin/setpriv"), why: "tests run as an ordinary user too" },
    Package { name: "vim", sign: Sign::File("/usr/bin/vim"), why: WORK },
    Package { name: "zip", sign: Sign::File("/usr/bin/zip"), why: WORK },
    Package { name: "zsh", sign: Sign::File("/usr/bin/zsh"), why: LINES },
];

/// Two ways to build a fence are made of engines for containers.
const ENGINES: &str = "the tests of containers start it";

/// Lines that count as read-only are run by every shell and program that reads them.
const LINES: &str = "lines of shell that count as read-only are run with it";

/// A little internet of network namespaces, and a client that everybody has.
const NET: &str = "the tests of the way out build an internet with it";

/// What is rendered for the host's own security modules is read by their compilers.
const PROFILES: &str = "profiles for AppArmor and SELinux are compiled with it";

/// One right, by a file.
const ROOTS: &str = "the tests of roots give a program one right with it";

/// What developers use all day has to work inside, so the tests use it.
const WORK: &str = "the tests of ordinary work inside the fence use it";

/// Installs what is missing when that is possible without asking anybody, and says what and why.
pub(crate) fn install_missing() -> Result<Outcome, Failure> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let missing = missing(PACKAGES, |sign| is_there(sign, &path));
    for package in &missing {
        say::progress(format!("missing: {} ({})", package.name, package.why));
    }
    if missing.is_empty() {
        say::progress("nothing is missing");
        return Ok(Outcome::Passed);
    }
    let install = install_arguments(&missing);
    if !is_there(Sign::Program("apt-get"), &path) {
        return Err(Failure::Found(format!(
            "there is no apt-get here; please install by hand: {}",
            install[3..].join(" ")
        )));
    }
    if !is_root() {
        return Err(Failure::Found(format!("please run: sudo apt-get update && sudo apt-get {}", install.join(" "))));
    }
    must_succeed(&mut apt_get(&["update"]))?;
    must_succeed(&mut apt_get(&install))
}

fn missing(table: &[Package], is_there: impl Fn(Sign) -> bool) -> Vec<Package> {
    table.iter().copied().filter(|package| !is_there(package.sign)).collect()
}

fn install_arguments(packages: &[Package]) -> Vec<&'static str> {
    let options = ["install", "--yes", "--no-install-recommends"];
    options.into_iter().chain(packages.iter().map(|package| package.name)).collect()
}

fn is_there(sign: Sign, path: &OsStr) -> bool {
    match sign {
        Sign::Program(name) => std::env::split_paths(path).any(|directory| directory.join(name).is_file()),
        Sign::File(path) => std::path::Path::new(path).is_file(),
        Sign::Module(name) => {
            let mut python = Command::new("/usr/bin/python3");
            python.args(["-c", &format!("import {name}")]).stdin(Stdio::null()).stderr(Stdio::null());
            python.status().is_ok_and(|status| status.success())
        }
    }
}

fn apt_get(arguments: &[&str]) -> Command {
    let mut command = Command::new("apt-get");
    // Without this a package may stop to ask a question that nobody is there to answer.
    command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive").stdin(Stdio::null());
    command
}

/// Whether we run as root. The standard library has no call for it, and `id` is on every system that has apt-get.
pub(crate) fn is_root() -> bool {
    let output = Command::new("id").arg("-u").output();
    output.is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    const GIT: Package = Package { name: "git", sign: Sign::Program("git"), why: "files" };
    const BWRAP: Package = Package { name: "bubblewrap", sign: Sign::Program("bwrap"), why: "fallback" };

    #[test]
    fn only_what_is_missing_is_installed() {
        let lacking = missing(&[GIT, BWRAP], |sign| sign == Sign::Program("git"));
        assert_eq!(lacking, [BWRAP]);
        assert_eq!(install_arguments(&lacking), ["install", "--yes", "--no-install-recommends", "bubblewrap"]);
        assert_eq!(missing(&[GIT, BWRAP], |_| true), []);
    }

    #[test]
    fn a_program_is_looked_for_in_path_only() {
        assert!(!is_there(Sign::Program("cargo"), OsStr::new("")));
        let cargo = std::env::var_os("CARGO").expect("cargo sets CARGO for tests");
        let directory = Path::new(&cargo).parent().expect("a program is in a directory");
        assert!(is_there(Sign::Program("cargo"), directory.as_os_str()));
    }

    #[test]
    fn a_module_is_asked_for() {
        let python = is_there(Sign::File("/usr/bin/python3"), OsStr::new(""));
        assert_eq!(is_there(Sign::Module("sys"), OsStr::new("")), python);
        assert!(!is_there(Sign::Module("no_such_module"), OsStr::new("")));
    }

    #[test]
    fn every_package_says_why() {
        for package in PACKAGES {
            assert!(package.why.len() > 10, "{}", package.name);
        }
        assert!(PACKAGES.is_sorted_by_key(|package| package.name));
    }
}
