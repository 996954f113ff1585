//! What can go wrong with files and with commands, told apart as far as a caller can act on it.

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use ringfence_surface::Shown;

/// How a path leads out of the root.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Escape {
    /// It begins with `/`.
    Absolute,
    /// It climbs above the root with `..`.
    Parent,
    /// Something on it, or at its end, is a symbolic link.
    Link,
    /// The kernel says that it is not beneath the root, or that another file system begins on the way where one only was asked
    /// for.
    Elsewhere,
}

impl fmt::Display for Escape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Absolute => "it is absolute",
            Self::Parent => "it climbs above the root with `..`",
            Self::Link => "a symbolic link is on the way, and none is followed",
            Self::Elsewhere => "it is not beneath the root",
        })
    }
}

/// What was to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Reading a file.
    Read,
    /// Opening or replacing a file.
    Write,
    /// Making a directory.
    CreateDirectory,
    /// Removing a file or an empty directory.
    Remove,
    /// Giving a file or directory another name.
    Rename,
    /// Listing or searching a directory.
    List,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Read => "read",
            Self::Write => "written",
            Self::CreateDirectory => "made",
            Self::Remove => "removed",
            Self::Rename => "renamed",
            Self::List => "listed",
        })
    }
}

/// What stands at a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FileKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link. It is never followed.
    Link,
    /// A named pipe.
    Fifo,
    /// A unix socket.
    Socket,
    /// A character or block device.
    Device,
    /// Something that this version does not know.
    Unknown,
}

impl fmt::Display for FileKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::File => "a regular file",
            Self::Directory => "a directory",
            Self::Link => "a symbolic link",
            Self::Fifo => "a named pipe",
            Self::Socket => "a socket",
            Self::Device => "a device",
            Self::Unknown => "of an unknown kind",
        })
    }
}

/// Why something was not done with a file.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The path leads out of the root. Nothing was touched.
    #[error("`{}` leads out of the root: {how}", Shown(path.as_os_str().as_bytes()))]
    PathEscape {
        /// As given.
        path: PathBuf,
        /// In which way.
        how: Escape,
    },
    /// The path is beneath the root, and no glob allows the change. Nothing was touched.
    #[error("`{}` may not be {operation}: no writable glob matches it", Shown(path.as_os_str().as_bytes()))]
    PathNotAllowed {
        /// As given.
        path: PathBuf,
        /// What was asked.
        operation: Operation,
    },
    /// The path cannot be one.
    #[error("`{}` is no usable path: {fault}", Shown(path.as_os_str().as_bytes()))]
    BadPath {
        /// As given.
        path: PathBuf,
        /// Why not.
        fault: &'static str,
    },
    /// What stands there is not what the operation is for: a read of a pipe would wait for ever.
    #[error("`{}` cannot be {operation}: it is {found}", Shown(path.as_os_str().as_bytes()))]
    WrongKind {
        /// As given.
        path: PathBuf,
        /// What was asked.
        operation: Operation,
        /// What stands there.
        found: FileKind,
    },
    /// The file has other names, and writing into it would change what those show.
    #[error("`{}` has other names, which would change with it", Shown(path.as_os_str().as_bytes()))]
    HardLinked {
        /// As given.
        path: PathBuf,
    },
    /// There is more than the caller takes.
    #[error("`{}` holds more than {most} {unit}", Shown(path.as_os_str().as_bytes()))]
    TooLarge {
        /// As given.
        path: PathBuf,
        /// What the caller takes.
        most: u64,
        /// Of what.
        unit: &'static str,
    },
    /// A pattern to search for cannot be used.
    #[error("cannot search")]
    Pattern(#[from] ringfence_surface::GlobListError),
    /// Somebody renamed something on the way at every try.
    #[error("`{}` could not be opened in {tries} tries: something on the way is renamed again and again", Shown(path.as_os_str().as_bytes()))]
    KeepsChanging {
        /// As given.
        path: PathBuf,
        /// How often it was tried.
        tries: u32,
    },
    /// This kernel, or a filter, does not let us ask it to stay beneath the root.
    #[error("openat2 is not to be had here, and nothing else keeps a path beneath its root (Linux 5.6 has it)")]
    NoOpenat2,
    /// The root was opened on a system on which nothing can be held.
    #[error("files can be held beneath a root on Linux only")]
    NotLinux,
    /// Anything else, as the kernel says it: there is no such file, a permission is missing, the disk is full.
    #[error("{call}({})", Shown(path.as_os_str().as_bytes()))]
    Io {
        /// The call.
        call: &'static str,
        /// As given.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl FileError {
    /// Did the path lead out of the root?
    pub fn is_escape(&self) -> bool {
        matches!(self, Self::PathEscape { .. })
    }

    /// What the kernel said, if the failure is a plain one.
    pub fn io_kind(&self) -> Option<io::ErrorKind> {
        match self {
            Self::Io { source, .. } => Some(source.kind()),
            _ => None,
        }
    }

    /// What the caller can do about it.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::PathEscape { how: Escape::Link, .. } => Some("name the real file: links are not followed"),
            Self::PathEscape { .. } => Some("write it relative to the root"),
            Self::PathNotAllowed { .. } => Some("add a writable glob that matches it, such as `DIR/**`"),
            Self::HardLinked { .. } => Some("`write` puts a new file in its place and leaves the other names alone"),
            Self::TooLarge { unit: "bytes", .. } => Some("read a part of it"),
            Self::NoOpenat2 => Some("Linux 5.6 or later is needed; old container engines filter the call"),
            _ => None,
        }
    }
}

/// Why there is no root.
#[derive(Debug, thiserror::Error)]
pub enum RootError {
    /// The directory cannot be opened.
    #[error("open({}, O_PATH|O_DIRECTORY)", Shown(path.as_os_str().as_bytes()))]
    Open {
        /// As given.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A working directory leads out of the root of its session.
    #[error(
        "the working directory `{}` escapes the session root `{}`",
        Shown(working_dir.as_os_str().as_bytes()),
        Shown(session_root.as_os_str().as_bytes())
    )]
    WorkingDirEscapes {
        /// The root of the session.
        session_root: PathBuf,
        /// As given.
        working_dir: PathBuf,
        /// How.
        source: Box<FileError>,
    },
    /// This kernel, or a filter, does not let us ask it to stay beneath a root.
    #[error("openat2 is not to be had here, and nothing else keeps a path beneath its root (Linux 5.6 has it)")]
    NoOpenat2,
    /// Nothing can be held on this system.
    #[error("files can be held beneath a root on Linux only")]
    NotLinux,
}

/// Why a command was not run.
#[derive(Debug, thiserror::Error)]
pub enum ExecError {
    /// The environment runs nothing.
    #[error("this environment runs no commands: nothing would confine `{}`", Shown(program.as_bytes()))]
    Refused {
        /// What was to be run.
        program: OsString,
    },
    /// The fence could not be put up; nothing was started.
    #[error("`{}` was not started: the fence does not stand", Shown(program.as_bytes()))]
    Fence {
        /// What was to be run.
        program: OsString,
        /// Why.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The wrapper of the environment failed; nothing was started.
    #[error("`{}` was not started: its wrapper failed", Shown(program.as_bytes()))]
    Wrapper {
        /// What was to be run.
        program: OsString,
        /// Why.
        source: io::Error,
    },
    /// The directory that it was to start in cannot be used; nothing was started.
    #[error("`{}` was not started: its directory cannot be used", Shown(program.as_bytes()))]
    Directory {
        /// What was to be run.
        program: OsString,
        /// Why.
        source: Box<FileError>,
    },
    /// It cannot be started: there is no such program, or it cannot be executed.
    #[error("cannot start `{}`", Shown(program.as_bytes()))]
    Start {
        /// What was to be run.
        program: OsString,
        /// Why.
        source: io::Error,
    },
    /// It was started, and could not be waited for to the end. What was started has been ended.
    #[error("`{}` was started and ended, since {call} failed", Shown(program.as_bytes()))]
    Lost {
        /// What was to be run.
        program: OsString,
        /// The call.
        call: &'static str,
        /// Why.
        source: io::Error,
    },
    /// On this system nothing can be run so.
    #[error("commands are run by this library on Linux only")]
    NotLinux,
}
