//! Which system this is, and how programs are installed on it.

use std::fs;

/// The system, as its own description has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct System {
    /// For people: `Debian GNU/Linux 12 (bookworm)`.
    pub name: String,
    /// How programs are installed; nothing where nobody has written it down.
    pub packager: Option<Packager>,
}

/// How programs are installed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Packager {
    /// Debian and its kin.
    Apt,
    /// Fedora and its kin.
    Dnf,
    /// Arch and its kin.
    Pacman,
    /// Alpine.
    Apk,
    /// openSUSE and SUSE.
    Zypper,
}

/// The name under which a system describes itself, and its way to install programs.
const SYSTEMS: &[(&str, Packager)] = &[
    ("alpine", Packager::Apk),
    ("arch", Packager::Pacman),
    ("centos", Packager::Dnf),
    ("debian", Packager::Apt),
    ("fedora", Packager::Dnf),
    ("opensuse", Packager::Zypper),
    ("rhel", Packager::Dnf),
    ("sles", Packager::Zypper),
    ("suse", Packager::Zypper),
    ("ubuntu", Packager::Apt),
];

impl System {
    /// Reads the description that systems keep of themselves.
    pub(super) fn read() -> Self {
        let text = fs::read_to_string("/etc/os-release").or_else(|_| fs::read_to_string("/usr/lib/os-release"));
        Self::parse(&text.unwrap_or_default())
    }

    fn parse(text: &str) -> Self {
        let value = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='))?;
            Some(line.trim().trim_matches(['"', '\'']))
        };
        // What it is comes before what it is like.
        let names = [value("ID"), value("ID_LIKE")];
        let mut names = names.iter().flatten().flat_map(|names| names.split_whitespace());
        let packager = names.find_map(|name| SYSTEMS.iter().find(|(known, _)| name == *known));
        Self {
            name: value("PRETTY_NAME").or(value("ID")).unwrap_or("Linux").to_owned(),
            packager: packager.map(|(_, packager)| *packager),
        }
    }
}

impl Packager {
    /// The commands that install a package, each a program and its arguments.
    pub(super) fn install(self, package: &str) -> Vec<(&'static str, Vec<String>)> {
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        match self {
            Self::Apt => vec![
                ("apt-get", words(&["update"])),
                ("apt-get", words(&["install", "--yes", "--no-install-recommends", package])),
            ],
            Self::Dnf => vec![("dnf", words(&["install", "--assumeyes", package]))],
            Self::Pacman => vec![("pacman", words(&["-S", "--needed", "--noconfirm", package]))],
            Self::Apk => vec![("apk", words(&["add", package]))],
            Self::Zypper => vec![("zypper", words(&["--non-interactive", "install", package]))],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, name: &str, packager: Option<Packager>) {
        assert_eq!(System::parse(text), System { name: name.to_owned(), packager });
    }

    #[test]
    fn descriptions() {
        let ubuntu = "PRETTY_NAME=\"Ubuntu 24.04.1 LTS\"\nID=ubuntu\nID_LIKE=debian\n";
        check(ubuntu, "Ubuntu 24.04.1 LTS", Some(Packager::Apt));
        check("ID=linuxmint\nID_LIKE=\"ubuntu debian\"\n", "linuxmint", Some(Packager::Apt));
        check("ID=\"rocky\"\nID_LIKE=\"rhel centos fedora\"\n", "rocky", Some(Packager::Dnf));
        check("ID=\"opensuse-tumbleweed\"\nID_LIKE=\"opensuse suse\"\n", "opensuse-tumbleweed", Some(Packager::Zypper));
        check("ID=endeavouros\nID_LIKE='arch'\n", "endeavouros", Some(Packager::Pacman));
        check("ID=alpine\n", "alpine", Some(Packager::Apk));
        check("ID=nixos\n", "nixos", None);
        check("", "Linux", None);
        assert!(SYSTEMS.is_sorted_by_key(|(name, _)| name));
    }
}
