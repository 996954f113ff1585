//! `cargo xtask kernels`: boots kernels of Debian's, and compares what `doctor` says, which backend `run` takes, its receipt, and
//! what the basic attacks achieve. The table that it prints stands in docs/kernel-features.md.
//!
//! Nothing is installed: kernels are unpacked from their packages, which apt finds by name in Debian's own archive. A kernel or a
//! program that is missing is reported, and the rest goes on. 5.10 is User Mode Linux, a program; the others run in qemu without
//! hardware support, which takes minutes.

mod cpio;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use crate::dist::{self, target_directory};
use crate::say;
use crate::steps::{Failure, must_succeed};

/// A kernel, and where it is had.
struct Kernel {
    name: &'static str,
    /// The suite of Debian's archive.
    suite: &'static str,
    /// A package that depends on the newest one of its kind; nothing where `package` is it.
    meta: Option<&'static str>,
    /// How the name of the package begins.
    package: &'static str,
    machine: Machine,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Machine {
    /// A program.
    UserMode,
    /// qemu.
    Emulated,
}

const KERNELS: [Kernel; 3] = [
    Kernel { name: "5.10", suite: "bullseye", meta: None, package: "user-mode-linux", machine: Machine::UserMode },
    Kernel {
        name: "6.1",
        suite: "bookworm",
        meta: Some("linux-image-amd64"),
        package: "linux-image-6.1",
        machine: Machine::Emulated,
    },
    Kernel {
        name: "6.12",
        suite: "bookworm-backports",
        meta: Some("linux-image-cloud-amd64"),
        package: "linux-image-6.12",
        machine: Machine::Emulated,
    },
];

/// Programs of the host's, and the packages that bring them.
const PROGRAMS: [(&str, &str); 7] = [
    ("/usr/bin/busybox", "busybox-static"),
    ("/usr/bin/bwrap", "bubblewrap"),
    ("/usr/bin/perl", "perl-base"),
    ("/usr/bin/chattr", "e2fsprogs"),
    ("/usr/sbin/mkfs.ext4", "e2fsprogs"),
    ("/usr/sbin/mkfs.vfat", "dosfstools"),
    ("/usr/bin/qemu-system-x86_64", "qemu-system-x86"),
];

/// Modules in the order in which they need each other. What a kernel has built in is not there as a module.
const MODULES: [&str; 23] = [
    "virtio_ring",
    "virtio",
    "virtio_pci_legacy_dev",
    "virtio_pci_modern_dev",
    "virtio_pci",
    "virtio_blk",
    "crc16",
    "crc32c_generic",
    "libcrc32c",
    "mbcache",
    "jbd2",
    "ext4",
    "nls_ascii",
    "nls_cp437",
    "nls_iso8859-1",
    "nls_utf8",
    "fat",
    "vfat",
    "overlay",
    "ipv6",
    "veth",
    "unix",
    "loop",
];

/// How long a boot with everything that is tried in it may take, in seconds.
const LONGEST: &str = "900";
/// How often a kernel is booted that does not come to our first process.
const BOOTS: usize = 3;

/// Boots them all, and prints the table.
pub(crate) fn run(root: &Path, only: Option<&str>) -> ExitCode {
    match table(root, only) {
        Ok((lines, agrees)) => {
            lines.iter().for_each(say::result);
            if agrees { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(failure) => {
            say::progress(format!("xtask kernels: FAILED: {failure}"));
            ExitCode::FAILURE
        }
    }
}

fn table(root: &Path, only: Option<&str>) -> Result<(Vec<String>, bool), Failure> {
    for (program, package) in PROGRAMS {
        if !Path::new(program).exists() {
            say::progress(format!("xtask kernels: {program} is missing: install the package {package}"));
        }
    }
    let place = target_directory(root).join("kernels");
    made(fs::create_dir_all(&place), &place)?;
    let ringfence = dist::quick(root)?;
    let mut lines = vec![
        "| kernel | project on | as | `doctor` | backend | not held | attacks that succeed | agrees |".to_owned(),
        "| --- | --- | --- | --- | --- | --- | --- | --- |".to_owned(),
    ];
    let mut agrees = true;
    for kernel in KERNELS.iter().filter(|kernel| only.is_none_or(|only| only == kernel.name)) {
        say::progress(format!("xtask kernels: {} ({})", kernel.name, kernel.suite));
        match unpacked(kernel, &place).and_then(|at| boot(root, kernel, (&at, &place), &ringfence)) {
            Ok(printed) => {
                let (rows, all) = rows(kernel.name, &printed);
                agrees &= all;
                lines.extend(rows);
            }
            Err(failure) => {
                say::progress(format!("xtask kernels: {} was not booted: {failure}", kernel.name));
                // What was not tried does not agree.
                agrees = false;
                lines.push(format!("| {} | not booted | | | | | | |", kernel.name));
            }
        }
    }
    Ok((lines, agrees))
}

/// A kernel's package, unpacked.
fn unpacked(kernel: &Kernel, place: &Path) -> Result<PathBuf, Failure> {
    let at = place.join(kernel.name);
    if at.join("done").exists() {
        return Ok(at);
    }
    let apt = Apt::new(place, kernel.suite)?;
    let package = match kernel.meta {
        None => kernel.package.to_owned(),
        Some(meta) => apt.dependency(meta, kernel.package)?,
    };
    let package = format!("{package}/{}", apt.suite_of(&package));
    let debs = at.join("debs");
    made(fs::create_dir_all(&debs), &debs)?;
    must_succeed(apt.command("apt-get").args(["--quiet", "download", &package]).current_dir(&debs))?;
    for deb in files(&debs)? {
        must_succeed(Command::new("dpkg-deb").arg("--extract").arg(&deb).arg(&at))?;
    }
    made(fs::write(at.join("done"), ""), &at)?;
    Ok(at)
}

/// apt with lists of its own: the host's sources and its installed packages stay as they are.
struct Apt {
    options: Vec<String>,
    suite: &'static str,
}

impl Apt {
    fn new(place: &Path, suite: &'static str) -> Result<Self, Failure> {
        let own = place.join(format!("apt-{suite}"));
        for dir in ["lists/partial", "cache/archives/partial"] {
            made(fs::create_dir_all(own.join(dir)), &own)?;
        }
        let sources = own.join("sources.list");
        let key = "[signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]";
        let text: String = archives()?
            .iter()
            .map(|site| match site.ends_with("-security") {
                true => format!("deb {key} {site} {suite}-security main\n"),
                false => format!("deb {key} {site} {suite} main\n"),
            })
            // Backports have no updates of their own.
            .filter(|line| !(line.contains("-security") && suite.ends_with("-backports")))
            .collect();
        made(fs::write(&sources, text), &sources)?;
        let option = |name: &str, path: &Path| format!("{name}={}", path.display());
        let options = vec![
            option("Dir::Etc::SourceList", &sources),
            "Dir::Etc::SourceParts=/dev/null".to_owned(),
            option("Dir::State::Lists", &own.join("lists")),
            option("Dir::Cache", &own.join("cache")),
            "APT::Sandbox::User=root".to_owned(),
        ];
        let apt = Self { options, suite };
        must_succeed(apt.command("apt-get").args(["--quiet", "update"]).stdout(Stdio::null()))?;
        Ok(apt)
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.args(self.options.iter().flat_map(|option| ["-o", option.as_str()]));
        command
    }

    /// The package that a package without content depends on.
    fn dependency(&self, meta: &str, start: &str) -> Result<String, Failure> {
        let output = self.command("apt-cache").args(["show", "--no-all-versions", meta]).output();
        let output = output.map_err(|cause| Failure::Found(cause.to_string()))?;
        let text = String::from_utf8(output.stdout).unwrap_or_default();
        let words =
            text.lines().filter_map(|line| line.strip_prefix("Depends: ")).flat_map(|line| line.split([' ', ',']));
        let found = words.into_iter().find(|word| word.starts_with(start)).map(str::to_owned);
        found.ok_or_else(|| Failure::Found(format!("{meta} of {} depends on no {start}", self.suite)))
    }

    /// The suite that has it: updates of security have one of their own.
    fn suite_of(&self, package: &str) -> String {
        let output = self.command("apt-cache").args(["madison", package]).output().map(|output| output.stdout);
        let text = String::from_utf8(output.unwrap_or_default()).unwrap_or_default();
        let is_security = text.lines().next().is_some_and(|line| line.contains("-security"));
        if is_security { format!("{}-security", self.suite) } else { self.suite.to_owned() }
    }
}

/// Where this host has Debian's packages from: the archive, and updates of security.
fn archives() -> Result<Vec<String>, Failure> {
    let output = Command::new("apt-get").args(["indextargets", "--format", "$(SITE)"]).output();
    let output = output.map_err(|cause| Failure::Start { command: "apt-get".to_owned(), cause })?;
    let text = String::from_utf8(output.stdout).unwrap_or_default();
    let is_debians = |site: &&str| site.ends_with("/debian") || site.ends_with("/debian-security");
    let sites: std::collections::BTreeSet<String> =
        text.lines().map(|line| line.trim_end_matches('/')).filter(is_debians).map(str::to_owned).collect();
    if sites.is_empty() {
        return Err(Failure::Found("apt has no archive of Debian's".to_owned()));
    }
    Ok(sites.into_iter().collect())
}

/// Boots a kernel with everything, and returns what it printed.
fn boot(root: &Path, kernel: &Kernel, (at, place): (&Path, &Path), ringfence: &Path) -> Result<String, Failure> {
    let image = place.join(format!("{}.cpio", kernel.name));
    made(fs::write(&image, initial(root, at, ringfence)?), &image)?;
    let disks = disks(place, kernel.name)?;
    let mut command = Command::new("timeout");
    command.args(["--kill-after=5", LONGEST]);
    match kernel.machine {
        Machine::UserMode => {
            command.arg(at.join("usr/bin/linux.uml")).args(["mem=900M", "con=null", "con0=null,fd:1", "ssl=null"]);
            command.arg(format!("initrd={}", image.display())).args(["rdinit=/init", "quiet"]);
            let numbered = disks.iter().zip(["ubda", "ubdb", "ubdc"]);
            command.args(numbered.map(|(disk, name)| format!("{name}={}", disk.display())));
        }
        Machine::Emulated => {
            let vmlinuz = files(&at.join("boot"))?.into_iter().find(|file| name_of(file).starts_with("vmlinuz"));
            let vmlinuz = vmlinuz.ok_or_else(|| Failure::Found(format!("no kernel in {}", at.display())))?;
            command.arg("qemu-system-x86_64").args([
                "-accel",
                "tcg",
                "-cpu",
                "Nehalem,-cx16",
                "-m",
                "1200",
                "-nographic",
                "-no-reboot",
            ]);
            command.args(["-nic", "none", "-append", "console=ttyS0 panic=-1 quiet rdinit=/init"]);
            command.arg("-kernel").arg(vmlinuz).arg("-initrd").arg(&image);
            command.args(
                disks
                    .iter()
                    .flat_map(|disk| ["-drive".to_owned(), format!("file={},format=raw,if=virtio", disk.display())]),
            );
        }
    }
    // An emulated machine on a busy host may find no timer that ticks, and panics before anything runs in it.
    let mut printed = String::new();
    for _ in 0..BOOTS {
        let output = command.stdin(Stdio::null()).stderr(Stdio::null()).output();
        let output = output.map_err(|cause| Failure::Start { command: kernel.name.to_owned(), cause })?;
        printed = String::from_utf8(output.stdout.into_iter().filter(u8::is_ascii).collect()).unwrap_or_default();
        if printed.contains("KERNEL|") {
            break;
        }
    }
    made(fs::write(place.join(format!("{}.log", kernel.name)), &printed), place)?;
    if printed.lines().any(|line| line.trim_end() == "END") {
        return Ok(printed);
    }
    let last = printed.lines().rev().take(3).collect::<Vec<_>>().join(" / ");
    Err(Failure::Found(format!("it did not come to its end within {LONGEST} s: {last}")))
}

/// The initial ram disk.
fn initial(root: &Path, at: &Path, ringfence: &Path) -> Result<Vec<u8>, Failure> {
    let mut archive = cpio::Archive::new();
    for dir in ["bin", "etc", "lib", "lib64", "usr", "usr/bin", "usr/lib", "modules", "proc", "dev"] {
        archive.directory(dir);
    }
    archive.console();
    let own = root.join("xtask/src/kernels");
    let mut add = |name: &str, from: &Path| -> Result<(), Failure> {
        let content = fs::read(from).map_err(|cause| Failure::Found(format!("{}: {cause}", from.display())))?;
        archive.file(name, &content);
        Ok(())
    };
    add("init", &own.join("init.sh"))?;
    add("usr/bin/attack.pl", &own.join("attack.pl"))?;
    add("usr/bin/doctor.pl", &own.join("doctor.pl"))?;
    add("bin/ringfence", ringfence)?;
    add("bin/busybox", Path::new("/usr/bin/busybox"))?;
    let mut libraries = BTreeMap::new();
    for (name, from) in
        [("bin/perl", "/usr/bin/perl"), ("usr/bin/bwrap", "/usr/bin/bwrap"), ("bin/chattr", "/usr/bin/chattr")]
    {
        add(name, Path::new(from))?;
        libraries.extend(needed_by(from)?);
    }
    for (name, from) in libraries {
        add(&name, &from)?;
    }
    let modules = modules(at);
    for (number, name) in MODULES.iter().enumerate() {
        let Some(module) = modules.get(*name) else { continue };
        let packed = if name_of(module).ends_with(".xz") { "xz" } else { "cat" };
        let arguments: &[&str] = if packed == "xz" { &["-dc"] } else { &[] };
        let output = Command::new(packed).args(arguments).arg(module).output();
        let output = output.map_err(|cause| Failure::Start { command: packed.to_owned(), cause })?;
        archive.file(&format!("modules/{number:02}-{name}.ko"), &output.stdout);
    }
    archive.file(
        "etc/passwd",
        b"root:x:0:0:root:/root:/bin/sh\nu:x:1000:1000:u:/home/u:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\n",
    );
    archive.file("etc/group", b"root:x:0:\nu:x:1000:\nnogroup:x:65534:\n");
    Ok(archive.finish())
}

/// Shared libraries of a program, by the name that it looks for.
fn needed_by(program: &str) -> Result<Vec<(String, PathBuf)>, Failure> {
    let output = Command::new("ldd").arg(program).output();
    let output = output.map_err(|cause| Failure::Start { command: "ldd".to_owned(), cause })?;
    let text = String::from_utf8(output.stdout).unwrap_or_default();
    let paths = text.split_whitespace().filter(|word| word.starts_with('/'));
    Ok(paths.map(|path| (path.trim_start_matches('/').replace("x86_64-linux-gnu/", ""), PathBuf::from(path))).collect())
}

/// Modules of a kernel, by name.
fn modules(at: &Path) -> BTreeMap<String, PathBuf> {
    let mut found = BTreeMap::new();
    let mut left = vec![at.join("lib/modules"), at.join("usr/lib/modules"), at.join("usr/lib/uml/modules")];
    while let Some(dir) = left.pop() {
        for path in files(&dir).unwrap_or_default() {
            if path.is_dir() {
                left.push(path);
            } else if let Some((name, _)) = name_of(&path).split_once(".ko") {
                found.insert(name.to_owned(), path.clone());
            }
        }
    }
    found
}

/// Empty file systems: ext4, ext4 that may fold case, FAT.
fn disks(place: &Path, name: &str) -> Result<[PathBuf; 3], Failure> {
    let disks = ["ext4", "casefold", "vfat"].map(|kind| place.join(format!("{name}-{kind}.img")));
    let makers: [&[&str]; 3] = [
        &["mkfs.ext4", "-q", "-F"],
        &["mkfs.ext4", "-q", "-F", "-O", "casefold", "-E", "encoding=utf8"],
        &["mkfs.vfat"],
    ];
    for (disk, maker) in disks.iter().zip(makers) {
        let file = fs::File::create(disk).and_then(|file| file.set_len(48 << 20));
        made(file, disk)?;
        let path = "/usr/sbin:/usr/bin:/sbin:/bin";
        must_succeed(Command::new(maker[0]).args(&maker[1..]).arg(disk).env("PATH", path).stdout(Stdio::null()))?;
    }
    Ok(disks)
}

/// What a kernel printed, as rows of the table; and whether everything agrees.
fn rows(kernel: &str, printed: &str) -> (Vec<String>, bool) {
    let mut doctor: BTreeMap<(String, String), (String, String)> = BTreeMap::new();
    let (mut rows, mut all) = (Vec::new(), true);
    if !printed.lines().any(|line| line.trim_end() == "CONTROL|hello|hello") {
        rows.push(format!("| {kernel} | NO: the server outside was not reached without a fence either | | | | | | |"));
        all = false;
    }
    for line in printed.lines().map(str::trim_end) {
        let words: Vec<&str> = line.split('|').collect();
        match words.as_slice() {
            ["DOCTOR", fs, who, verdict, works, _] => {
                doctor.insert(((*fs).to_owned(), (*who).to_owned()), ((*verdict).to_owned(), (*works).to_owned()));
            }
            ["SKIP", fs, why] => rows.push(format!("| {kernel} | {fs} | | {why} | | | | |")),
            ["ROW", fs, who, asked, code, ran, lost, attacks, after] => {
                let (verdict, works) = doctor.get(&((*fs).to_owned(), (*who).to_owned())).cloned().unwrap_or_default();
                let row =
                    Row { fs, asked, code, ran: ran.trim(), lost, attacks, after, verdict: &verdict, works: &works };
                let wrong = row.wrong();
                all &= wrong.is_empty();
                let done = row.done().collect::<Vec<_>>().join(", ");
                let said = if *asked == "auto" { verdict } else { format!("`--backend {asked}`: {}", row.said(asked)) };
                let ran = if *code == "0" { ran.trim().to_owned() } else { format!("refused ({code})") };
                let agrees = if wrong.is_empty() { "yes".to_owned() } else { format!("NO: {}", wrong.join("; ")) };
                let lost = lost.split_whitespace().collect::<Vec<_>>().join(", ");
                rows.push(format!("| {kernel} | {fs} | {who} | {said} | {ran} | {lost} | {done} | {agrees} |"));
            }
            _ => {}
        }
    }
    (rows, all)
}

/// One start.
struct Row<'r> {
    fs: &'r str,
    asked: &'r str,
    code: &'r str,
    ran: &'r str,
    lost: &'r str,
    attacks: &'r str,
    after: &'r str,
    verdict: &'r str,
    works: &'r str,
}

/// A protected name is made in another spelling.
const SPELLED: &str = "make-protected-spelled";

/// Attacks, and the claim that does not hold where they succeed. Some hold on every backend that starts.
const ATTACKS: [(&str, Option<&str>); 9] = [
    ("read-denied", None),
    ("truncate-denied", None),
    ("write-outside", None),
    ("truncate-outside", None),
    ("reach-outside", None),
    ("write-protected", Some("protect")),
    ("make-protected", Some("protected-later")),
    (SPELLED, Some("protected-later")),
    ("make-denied", Some("denied-later")),
];

impl Row<'_> {
    /// The attacks that succeeded. Where names do not fold, another spelling is another name, which nothing protects.
    fn done(&self) -> impl Iterator<Item = &str> {
        let is_attack = |name: &&str| *name != "write-inside" && !(*name == SPELLED && self.fs == "ext4");
        self.attacks.split(' ').filter_map(|word| word.strip_suffix("=done")).filter(is_attack)
    }

    /// What `doctor` said of a backend.
    fn said(&self, backend: &str) -> &'static str {
        let is = |word: &str| self.works.split(' ').any(|said| said == format!("{backend}={word}"));
        if is("true") { "works" } else { "does not work" }
    }

    /// What does not agree.
    fn wrong(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        let expected = if self.asked == "auto" { self.verdict } else { self.asked };
        let starts = if self.asked == "auto" { self.verdict != "none" } else { self.said(self.asked) == "works" };
        if starts != (self.code == "0") {
            wrong.push(format!("doctor says that it {}", if starts { "starts" } else { "does not start" }));
        }
        if self.code == "0" {
            if self.ran != expected {
                wrong.push(format!("the receipt is of `{}`", self.ran));
            }
            // Root's own project, where no mount shows it as another user's: a start reports that.
            let is_read_only = self.lost.split(' ').any(|lost| lost == "project-not-writable");
            if !is_read_only && !self.attacks.contains("write-inside=done") {
                wrong.push("nothing can be written inside".to_owned());
            }
            for (attack, claim) in ATTACKS {
                let is_admitted = claim.is_some_and(|claim| self.lost.split(' ').any(|lost| lost == claim));
                if self.done().any(|done| done == attack) && !is_admitted {
                    wrong.push(format!("{attack} succeeds"));
                }
            }
        }
        if self.after != "same" {
            wrong.push("a denied file or one outside was changed".to_owned());
        }
        wrong
    }
}

fn files(dir: &Path) -> Result<Vec<PathBuf>, Failure> {
    let entries = fs::read_dir(dir).map_err(|cause| Failure::Found(format!("{}: {cause}", dir.display())))?;
    Ok(entries.flatten().map(|entry| entry.path()).collect())
}

fn name_of(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).unwrap_or_default()
}

fn made(done: std::io::Result<()>, path: &Path) -> Result<(), Failure> {
    done.map_err(|cause| Failure::Found(format!("{}: {cause}", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A claim that is not held must be in the receipt, and `doctor` must have said what runs.
    #[test]
    fn what_does_not_agree_is_found() {
        let printed = |row: &str| {
            format!("noise\r\nCONTROL|hello|hello\r\nDOCTOR|ext4|root|bwrap|native=false bwrap=true|false\r\n{row}\r\n")
        };
        let agrees = |row: &str| rows("6.1", &printed(row)).1;
        assert!(agrees("ROW|ext4|root|auto|0|bwrap |protected-later|make-protected=done write-inside=done|same"));
        assert!(!agrees("ROW|ext4|root|auto|0|bwrap |denied-later|make-protected=done write-inside=done|same"));
        assert!(!agrees("ROW|ext4|root|auto|0|native |protected-later|write-inside=done|same"));
        assert!(!agrees("ROW|ext4|root|auto|0|bwrap ||reach-outside=done write-inside=done|same"));
        assert!(!agrees("ROW|ext4|root|auto|0|bwrap ||read-denied=done write-inside=done|same"));
        assert!(!agrees("ROW|ext4|root|auto|0|bwrap ||write-inside=done|CHANGED"));
        assert!(!agrees("ROW|ext4|root|native|0|native ||write-inside=done|same"));
        assert!(agrees("ROW|ext4|root|native|125||||same"));
        assert!(!rows("6.1", "ROW|ext4|root|native|125||||same").1, "no server was there to be reached");
        assert!(!agrees("ROW|ext4|root|bwrap|125||||same"));
    }
}
