//! `install.sh` with a release of stand-ins, served on loopback: what it installs, and that of an error nothing is left.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use super::archive::{Entry, Time, gzip, sha256, tar};

const VERSION: &str = "1.2.3";

/// What a machine here calls itself.
const MACHINE: &str = std::env::consts::ARCH;

/// A release in a directory, a home to install to, and a server.
struct Ground {
    dir: tempfile::TempDir,
    url: String,
    script: PathBuf,
}

impl Ground {
    fn new() -> Self {
        Self::signed_by("")
    }

    fn signed_by(signer: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        for name in ["release", "home", "tmp"] {
            std::fs::create_dir(dir.path().join(name)).unwrap();
        }
        let template = include_str!("../../../packaging/install.sh");
        let text = [("VERSION", VERSION), ("SSH_SIGNER", signer), ("MINISIGN_KEY", "")]
            .iter()
            .fold(template.to_owned(), |text, (name, value)| text.replace(&format!("@{name}@"), value));
        let script = dir.path().join("install.sh");
        std::fs::write(&script, text).unwrap();
        let ground = Self { url: serve(&dir.path().join("release")), dir, script };
        let program = format!("#!/bin/sh\necho ringfence {VERSION}\n");
        ground.publish(&program);
        ground
    }

    fn tarball(&self) -> PathBuf {
        self.path(&format!("release/ringfence-{VERSION}-linux-{MACHINE}.tar.gz"))
    }

    /// A release whose program is this script.
    fn publish(&self, program: &str) {
        let name = format!("ringfence-{VERSION}-linux-{MACHINE}");
        let tree = [Entry::program("bin/ringfence", program), Entry::file("share/man/man1/ringfence.1.gz", "page")];
        let tarball = gzip(&tar(&tree.map(|entry| entry.below(&name)), "", Time(0)));
        std::fs::write(self.tarball(), &tarball).unwrap();
        std::fs::write(self.path("release/SHA256SUMS"), format!("{}  {name}.tar.gz\n", sha256(&tarball))).unwrap();
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("/bin/sh");
        command.arg(&self.script).args(arguments).env_clear().env("PATH", "/usr/bin:/bin");
        command.env("HOME", self.path("home")).env("TMPDIR", self.path("tmp")).env("RINGFENCE_DOWNLOAD_URL", &self.url);
        command
    }

    /// Everything in the home, and everything that is left of what passes.
    fn files(&self) -> Vec<String> {
        let output = Command::new("find").args(["home", "tmp", "-mindepth", "1"]).current_dir(self.dir.path()).output();
        let mut files: Vec<String> =
            String::from_utf8(output.unwrap().stdout).unwrap().lines().map(str::to_owned).collect();
        files.sort();
        files
    }

    #[track_caller]
    fn fails(&self, command: &mut Command, expected: &str) {
        let before = self.files();
        let output = command.output().unwrap();
        assert!(!output.status.success() && said(&output).contains(expected), "{expected}: {}", said(&output));
        assert!(said(&output).contains("install.sh: error: "), "{}", said(&output));
        assert_eq!(self.files(), before, "something is left of what failed: {expected}");
    }

    #[track_caller]
    fn installs(&self, arguments: &[&str]) -> String {
        let output = self.command(arguments).output().unwrap();
        assert!(output.status.success(), "{}", said(&output));
        said(&output)
    }

    /// Directories with these programs of the system only.
    fn only(&self, tools: &[&str]) -> PathBuf {
        let bin = self.path("bin");
        std::fs::create_dir_all(&bin).unwrap();
        for tool in tools {
            let from = ["/usr/bin", "/bin"].map(|dir| Path::new(dir).join(tool)).into_iter().find(|path| path.exists());
            symlink(from.unwrap(), bin.join(tool)).unwrap();
        }
        bin
    }
}

fn said(output: &Output) -> String {
    [&output.stdout[..], &output.stderr].concat().escape_ascii().to_string().replace("\\n", "\n").replace("\\'", "'")
}

/// A server of files on loopback, for as long as the test's process.
fn serve(dir: &Path) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let dir = dir.to_owned();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut lines = BufReader::new(&stream).lines().map_while(Result::ok);
            let first = lines.next().unwrap_or_default();
            lines.find(String::is_empty);
            let name = first.split(' ').nth(1).unwrap_or_default().trim_start_matches('/').to_owned();
            let (status, body) = match std::fs::read(dir.join(name)) {
                Ok(body) => ("200 OK", body),
                Err(_) => ("404 Not Found", Vec::new()),
            };
            let head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
            // A client that has gone away is no matter of the server's.
            let _ = (&stream).write_all(&[head.as_bytes(), &body].concat());
        }
    });
    url
}

const TOOLS: &[&str] = &[
    "awk",
    "cat",
    "cp",
    "curl",
    "dirname",
    "find",
    "gzip",
    "mkdir",
    "mktemp",
    "mv",
    "rm",
    "rmdir",
    "sha256sum",
    "sort",
    "tar",
    "uname",
];

#[test]
fn it_installs_twice_and_removes_without_a_trace() {
    let ground = Ground::new();
    std::fs::create_dir_all(ground.path("home/.local/share/man")).unwrap();
    let before = ground.files();
    let text = ground.installs(&[]);
    let bin = ground.path("home/.local/bin");
    assert!(
        text.contains("is not on PATH") && text.contains(&format!("next: {}/ringfence doctor", bin.display())),
        "{text}"
    );
    let once = ground.files();
    ground.installs(&["--version", VERSION]);
    assert_eq!(ground.files(), once, "twice is once");
    let output = ground.command(&[]).env("PATH", format!("{}:/usr/bin:/bin", bin.display())).output().unwrap();
    assert!(said(&output).ends_with("next: ringfence doctor\n") && !said(&output).contains("not on PATH"));
    // What an older version had installed, and this one does not have, is removed too.
    ground.installs(&["--uninstall"]);
    assert_eq!(ground.files(), before, "empty directories of others stay, ours go");
    ground.fails(&mut ground.command(&["--uninstall"]), "has installed nothing to");
}

#[test]
fn another_prefix_and_files_of_others() {
    let ground = Ground::new();
    let prefix = ground.path("home/my tools");
    std::fs::create_dir_all(prefix.join("bin")).unwrap();
    std::fs::write(prefix.join("bin/other"), "").unwrap();
    let prefix = prefix.to_str().unwrap();
    ground.installs(&["--prefix", prefix]);
    assert!(ground.path("home/my tools/bin/ringfence").exists());
    ground.installs(&["--prefix", prefix, "--uninstall"]);
    assert_eq!(ground.files(), ["home/my tools", "home/my tools/bin", "home/my tools/bin/other"]);
}

/// A list that another program has changed removes nothing outside what the installer writes.
#[test]
fn a_changed_list_removes_nothing_else() {
    let ground = Ground::new();
    ground.installs(&[]);
    std::fs::write(ground.path("home/precious"), "").unwrap();
    let list = ground.path("home/.local/share/ringfence/installed");
    let text = std::fs::read_to_string(&list).unwrap();
    std::fs::write(&list, format!("../precious\nshare/../../precious\n/etc/hostname\n{text}")).unwrap();
    ground.installs(&["--uninstall"]);
    assert_eq!(ground.files(), ["home/precious"]);
}

#[test]
fn of_what_fails_nothing_is_installed() {
    let ground = Ground::new();
    let whole = std::fs::read(ground.tarball()).unwrap();
    let mut changed = whole.clone();
    changed[20] ^= 1;
    std::fs::write(ground.tarball(), &changed).unwrap();
    ground.fails(&mut ground.command(&[]), "the checksum of ringfence-1.2.3");
    std::fs::write(ground.tarball(), &whole[..whole.len() / 2]).unwrap();
    ground.fails(&mut ground.command(&[]), "the checksum of ringfence-1.2.3");
    std::fs::remove_file(ground.tarball()).unwrap();
    ground.fails(&mut ground.command(&[]), "cannot download http://127.0.0.1");
    std::fs::write(ground.tarball(), &whole).unwrap();
    std::fs::write(ground.path("release/SHA256SUMS"), "").unwrap();
    ground.fails(&mut ground.command(&[]), "does not list ringfence-1.2.3");
    ground.publish("#!/bin/sh\nexit 1\n");
    ground.fails(&mut ground.command(&[]), "does not start on this machine");
    ground.fails(&mut ground.command(&["--version", "9.9.9"]), "cannot download");
    ground.fails(&mut ground.command(&["--version", "../1"]), "not a version");
    ground.fails(&mut ground.command(&["--prefix"]), "--prefix needs a value");
    ground.fails(&mut ground.command(&["--frobnicate"]), "unknown argument");
    ground.fails(ground.command(&[]).env_remove("HOME"), "HOME is not set");
}

/// A script that was cut short anywhere does nothing: its functions are called by the last line.
#[test]
fn a_truncated_script_does_nothing() {
    let ground = Ground::new();
    let text = std::fs::read_to_string(&ground.script).unwrap();
    let last = text.rfind("main \"$@\"").unwrap();
    for cut in [last, last / 2, last / 3, text.find("place \"$tree/bin").unwrap() + 30] {
        std::fs::write(&ground.script, &text[..cut]).unwrap();
        ground.command(&[]).output().unwrap();
        assert_eq!(ground.files(), [""; 0], "cut at {cut}");
    }
}

#[test]
fn a_missing_tool_is_named() {
    for missing in ["curl", "sha256sum", "tar"] {
        let ground = Ground::new();
        let tools: Vec<&str> = TOOLS.iter().copied().filter(|tool| *tool != missing).collect();
        let bin = ground.only(&tools);
        let expected = format!("`{missing}`");
        ground.fails(ground.command(&[]).env("PATH", &bin), &expected);
    }
    let ground = Ground::new();
    let bin = ground.only(TOOLS);
    let output = ground.command(&[]).env("PATH", &bin).output().unwrap();
    assert!(output.status.success(), "these are enough: {}", said(&output));
}

#[test]
fn an_unsupported_machine_is_named() {
    for (system, machine, expected) in
        [("Linux", "riscv64", "no build of ringfence for riscv64"), ("Darwin", "arm64", "this is Darwin")]
    {
        let ground = Ground::new();
        let tools: Vec<&str> = TOOLS.iter().copied().filter(|tool| *tool != "uname").collect();
        let bin = ground.only(&tools);
        let uname = format!("#!/bin/sh\ncase $1 in -s) echo {system} ;; -m) echo {machine} ;; esac\n");
        std::fs::write(bin.join("uname"), uname).unwrap();
        std::fs::set_permissions(bin.join("uname"), std::fs::Permissions::from_mode(0o755)).unwrap();
        ground.fails(ground.command(&[]).env("PATH", &bin), expected);
    }
}

/// `/proc` cannot be written, not even by root.
#[test]
fn a_place_that_cannot_be_written_is_reported() {
    let ground = Ground::new();
    std::fs::write(ground.path("home/file"), "").unwrap();
    let below = ground.path("home/file/below");
    ground.fails(&mut ground.command(&["--prefix", below.to_str().unwrap()]), "cannot write to");
    let output = ground.command(&["--prefix", "/proc/ringfence"]).output().unwrap();
    assert!(!output.status.success() && said(&output).contains("cannot write to /proc"), "{}", said(&output));
}

#[test]
fn a_signature_is_verified_where_the_release_has_one() {
    let keys = tempfile::tempdir().unwrap();
    let key = |name: &str| {
        let path = keys.path().join(name);
        let mut command = Command::new("ssh-keygen");
        assert!(command.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(&path).status().unwrap().success());
        path
    };
    let (ours, theirs) = (key("ours"), key("theirs"));
    let public = std::fs::read_to_string(ours.with_extension("pub")).unwrap();
    let ground = Ground::signed_by(&format!("ringfence {}", public.trim()));
    ground.fails(&mut ground.command(&[]), "cannot download");
    let sign = |key: &Path| {
        let _ = std::fs::remove_file(ground.path("release/SHA256SUMS.sig"));
        let mut command = Command::new("ssh-keygen");
        command.args(["-q", "-Y", "sign", "-n", "file", "-f"]).arg(key).arg(ground.path("release/SHA256SUMS"));
        assert!(command.status().unwrap().success());
    };
    sign(&theirs);
    ground.fails(&mut ground.command(&[]), "the signature of SHA256SUMS is wrong");
    sign(&ours);
    assert!(ground.installs(&[]).contains("verified: checksum, signature (ssh-keygen)"));
}
