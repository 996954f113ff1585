//! What each class of tools needs: programs by name, and the data that no header asks for.

use std::fmt;
use std::os::unix::ffi::OsStrExt as _;

use ringfence_surface::AbsPath;

use super::collect::{Collector, Item, Scripts};
use super::compilers;
use super::error::RootError;
use crate::walk::os_path;

/// A class of tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// Files are read and written from outside: nothing is needed.
    File,
    /// git, and what it starts.
    Git,
    /// A shell and the usual small programs.
    Shell,
    /// Python and its library.
    Python,
    /// Node.js and npm.
    Node,
    /// rustc, cargo, and a linker.
    Rust,
    /// The go command with its library.
    Go,
    /// A compiler for C, with the C library's headers, and a linker.
    C,
}

impl Class {
    /// All of them.
    pub const ALL: [Self; 8] =
        [Self::File, Self::Git, Self::Shell, Self::Python, Self::Node, Self::Rust, Self::Go, Self::C];

    /// Its name.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Git => "git",
            Self::Shell => "shell",
            Self::Python => "python",
            Self::Node => "node",
            Self::Rust => "rust",
            Self::Go => "go",
            Self::C => "c",
        }
    }

    /// The class that has a program of this name; the first, where several have.
    #[must_use]
    pub fn having(program: &str) -> Option<Self> {
        match program {
            "git" => Some(Self::Git),
            "python" | "python3" => Some(Self::Python),
            "node" | "npm" | "npx" => Some(Self::Node),
            "cargo" | "cargo-fmt" | "rustc" | "rustdoc" | "rustfmt" => Some(Self::Rust),
            "go" | "gofmt" => Some(Self::Go),
            "ar" | "as" | "cc" | "gcc" | "ld" => Some(Self::C),
            name if SMALL.contains(&name) || EDITORS.contains(&name) => Some(Self::Shell),
            _ => None,
        }
    }

    /// The class of this name.
    #[must_use]
    pub fn named(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|class| class.word() == word)
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// Small programs that scripts lean on. Those that a host does not have are left out, and that is said.
const SMALL: &[&str] = &[
    "[",
    "awk",
    "basename",
    "bash",
    "bzip2",
    "cat",
    "chmod",
    "cmp",
    "comm",
    "cp",
    "cut",
    "date",
    "dd",
    "diff",
    "dirname",
    "du",
    "echo",
    "egrep",
    "env",
    "expand",
    "expr",
    "false",
    "fgrep",
    "find",
    "flock",
    "fold",
    "getent",
    "grep",
    "gunzip",
    "gzip",
    "head",
    "hostname",
    "id",
    "install",
    "join",
    "less",
    "link",
    "ln",
    "locale",
    "ls",
    "make",
    "md5sum",
    "mkdir",
    "mkfifo",
    "mktemp",
    "mv",
    "nice",
    "nl",
    "nohup",
    "nproc",
    "od",
    "paste",
    "patch",
    "printenv",
    "printf",
    "pwd",
    "readlink",
    "realpath",
    "rm",
    "rmdir",
    "sed",
    "seq",
    "sh",
    "sha1sum",
    "sha256sum",
    "shuf",
    "sleep",
    "sort",
    "split",
    "stat",
    "stdbuf",
    "stty",
    "sync",
    "tac",
    "tail",
    "tar",
    "tee",
    "test",
    "timeout",
    "touch",
    "tput",
    "tr",
    "true",
    "truncate",
    "tty",
    "uname",
    "uniq",
    "unlink",
    "unxz",
    "unzip",
    "wc",
    "which",
    "whoami",
    "xargs",
    "xz",
    "yes",
    "zcat",
    "zip",
];

/// Terminals that people have.
const TERMINALS: &[&str] = &[
    "a/ansi",
    "d/dumb",
    "l/linux",
    "r/rxvt",
    "s/screen",
    "s/screen-256color",
    "t/tmux",
    "t/tmux-256color",
    "v/vt100",
    "v/vt220",
    "x/xterm",
    "x/xterm-256color",
    "x/xterm-color",
];

/// Collects what a class needs.
///
/// # Errors
/// When the program that the class is about is not on this host, or cannot be run.
pub(crate) fn collect(class: Class, into: &mut Collector) -> Result<(), RootError> {
    match class {
        Class::File => {}
        Class::Git => git(into)?,
        Class::Shell => shell(into)?,
        Class::Python => python(into)?,
        Class::Node => node(into)?,
        Class::Rust => compilers::rust(into)?,
        Class::Go => compilers::go(into)?,
        Class::C => compilers::c(into)?,
    }
    Ok(())
}

pub(super) fn at(path: &str) -> AbsPath {
    AbsPath::root().join(path)
}

/// A program without which the class is none.
pub(super) fn essential(class: Class, name: &str, into: &mut Collector) -> Result<AbsPath, RootError> {
    let found = into.program(name);
    found.ok_or_else(|| {
        let why = into.left_out.iter().filter(|left| left.what.ends_with(name)).map(|left| left.why.clone()).next();
        RootError::Missing { class, program: name.to_owned(), why: why.unwrap_or_default() }
    })
}

/// What every program may look for: who there is, the machine's own names, and what the C library loads by itself.
pub(crate) fn common(into: &mut Collector, owner: Option<(u32, u32)>) {
    let (uid, gid) = owner.unwrap_or((rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw()));
    let mut users = "root:x:0:0:root:/:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\n".to_owned();
    let mut groups = "root:x:0:\nnogroup:x:65534:\n".to_owned();
    if ![0, 65_534].contains(&uid) {
        users += &format!("worker:x:{uid}:{gid}:worker:/work:/bin/sh\n");
    }
    if ![0, 65_534].contains(&gid) {
        groups += &format!("worker:x:{gid}:\n");
    }
    into.text("etc/passwd", users);
    into.text("etc/group", groups);
    into.text("etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files\nservices: files\n");
    into.text("etc/hosts", "127.0.0.1 localhost\n::1 localhost\n");
    for library in ["libgcc_s.so.1", "libnss_files.so.2"] {
        for dir in ["lib/x86_64-linux-gnu", "lib/aarch64-linux-gnu", "lib64", "usr/lib64"] {
            into.file(&at(dir).join(library));
        }
    }
    for dir in ["usr/lib/locale/C.utf8", "usr/lib/locale/C.UTF-8"] {
        into.tree(&at(dir), Scripts::Read, &|_| true);
    }
}

/// The host's devices that hold nothing. Where none can be made, the first is an ordinary file, and that is said.
pub(crate) const DEVICES: &[(&str, u32, u32)] = &[
    ("dev/null", 1, 3),
    ("dev/zero", 1, 5),
    ("dev/full", 1, 7),
    ("dev/random", 1, 8),
    ("dev/urandom", 1, 9),
    ("dev/tty", 5, 0),
];

/// Those, as items.
pub(crate) fn devices(into: &mut Collector) {
    for (path, major, minor) in DEVICES {
        into.own(&at(path), Item::Device { major: *major, minor: *minor });
    }
}

pub(super) fn certificates(into: &mut Collector) {
    for path in ["etc/pki/tls/certs/ca-bundle.crt", "etc/ssl/openssl.cnf"] {
        into.file(&at(path));
    }
    // Each certificate by its hash, as OpenSSL looks for them, and where it does.
    for dir in ["etc/ssl/certs", "usr/lib/ssl"] {
        into.tree(&at(dir), Scripts::Read, &|path| path.file_name() != Some(b"private"));
    }
}

fn shell(into: &mut Collector) -> Result<(), RootError> {
    essential(Class::Shell, "sh", into)?;
    for name in SMALL {
        into.program(name);
    }
    for dir in ["etc/terminfo", "lib/terminfo", "usr/share/terminfo"] {
        for terminal in TERMINALS {
            into.file(&at(dir).join(terminal));
        }
    }
    into.file(&at("etc/services"));
    into.file(&at("usr/share/zoneinfo/UTC"));
    into.file(&at("etc/localtime"));
    editors(into);
    Ok(())
}

/// Editors that people and git know. One is enough.
const EDITORS: &[&str] = &["ed", "nano", "vi", "vim"];

/// What vim reads before it shows a file, but what it knows of each language.
const VIM: &[&str] = &[
    "autoload/dist",
    "colors/lists",
    "debian.vim",
    "defaults.vim",
    "filetype.vim",
    "ftplugin.vim",
    "import",
    "indent.vim",
    "scripts.vim",
    "syntax/nosyntax.vim",
    "syntax/syncolor.vim",
    "syntax/synload.vim",
    "syntax/syntax.vim",
];

fn editors(into: &mut Collector) {
    let there: Vec<&str> = EDITORS.iter().copied().filter(|name| into.which(name).is_some()).collect();
    for name in &there {
        into.program(name);
    }
    if there.is_empty() {
        into.leave_out(b"an editor", "none of ed, nano, vi and vim is installed");
    }
    let runtimes = std::fs::read_dir(os_path(&at("usr/share/vim"))).into_iter().flatten().flatten();
    for runtime in runtimes.filter(|entry| entry.file_name().as_bytes().starts_with(b"vim")) {
        let runtime = at("usr/share/vim").child(runtime.file_name().as_bytes());
        for part in VIM {
            let part = runtime.join(part);
            into.file(&part);
            into.tree(&part, Scripts::Read, &|_| true);
        }
    }
    for name in ["etc/vim/vimrc", "etc/vim/vimrc.tiny", "usr/share/vim/vimrc"] {
        into.file(&at(name));
    }
}

fn git(into: &mut Collector) -> Result<(), RootError> {
    // Its scripts, and the hooks and helpers that it starts, are for a shell.
    essential(Class::Git, "sh", into)?;
    essential(Class::Git, "git", into)?;
    for name in ["cat", "cut", "dirname", "basename", "expr", "sed", "tr", "uname", "wc", "less"] {
        into.program(name);
    }
    for dir in ["usr/lib/git-core", "usr/libexec/git-core"] {
        into.tree(&at(dir), Scripts::Run, &|_| true);
    }
    into.tree(&at("usr/share/git-core/templates"), Scripts::Read, &|_| true);
    certificates(into);
    Ok(())
}

/// Parts of Python's library that are for its own makers, or for screens.
const PYTHON_WITHOUT: &[&[u8]] = &[b"test", b"tests", b"idlelib", b"idle_test", b"turtledemo", b"tkinter"];

fn python(into: &mut Collector) -> Result<(), RootError> {
    let program = essential(Class::Python, "python3", into)?;
    into.program("python");
    let without = |path: &AbsPath| {
        let name = path.file_name().unwrap_or_default();
        !PYTHON_WITHOUT.contains(&name) && !name.starts_with(b"config-") && !name.ends_with(b".a")
    };
    let (Some(name), Some(bin)) = (program.file_name(), program.parent()) else { return Ok(()) };
    let prefix = bin.parent().unwrap_or_else(AbsPath::root);
    for lib in ["lib", "lib64"] {
        // What the system's packages put beside it is not the language's own.
        into.tree(&prefix.join(lib).child(name), Scripts::Read, &without);
    }
    // Its own library has none. Each zone once: not again with other ways to count leap seconds.
    let is_zone = |path: &AbsPath| !matches!(path.file_name(), Some(b"right" | b"posix"));
    into.tree(&at("usr/share/zoneinfo"), Scripts::Read, &is_zone);
    into.file(&at("etc/localtime"));
    // What new environments are made from.
    into.tree(&at("usr/share/python-wheels"), Scripts::Read, &|_| true);
    certificates(into);
    Ok(())
}

fn node(into: &mut Collector) -> Result<(), RootError> {
    essential(Class::Node, "node", into)?;
    essential(Class::Node, "sh", into)?;
    into.program("env");
    for name in ["npm", "npx"] {
        let Some(real) = into.program(name) else { continue };
        // The package that it belongs to; where packages of the system share a directory, all of that.
        let package = real.ancestors().skip(1).find(|dir| os_path(&dir.join("package.json")).is_file());
        let package =
            package.map(|dir| if dir.is_within(&at("usr/share/nodejs")) { at("usr/share/nodejs") } else { dir });
        let is_wanted = |path: &AbsPath| !matches!(path.file_name(), Some(b"man" | b"docs"));
        package.into_iter().for_each(|dir| into.tree(&dir, Scripts::Read, &is_wanted));
    }
    certificates(into);
    Ok(())
}
