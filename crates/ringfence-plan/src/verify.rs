//! What would show that a layer holds what it claims: a tree of canaries, and deeds in it with what must come of each.
//!
//! Everything here is data. A [`Shape`] says what is made, a [`Deed`] what is tried inside a layer, and an [`Oracle`] what must
//! come of it: what `decide` answers for every path that the deed touches. [`judge`] lays what came of it beside that and
//! beside the layer's receipt. Making the tree and doing the deeds is left to whoever runs layers.

mod examples;
mod expect;
mod generate;
mod hook;
mod judge;
mod moved;
mod shape;

use std::fmt;

use ringfence_surface::{AbsPath, Shown};

pub use expect::{Expected, Oracle};
pub use generate::{Standing, Subject, Trial, Trials, generate};
pub use hook::hook;
pub use judge::{Judged, Said, judge};
pub use moved::Moved;
pub use shape::{Node, Shape};

/// What is done to one path. Whoever does it undoes it at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum One {
    /// Read a file.
    Read,
    /// List a directory.
    List,
    /// See that it is there.
    See,
    /// Write into a file.
    Write,
    /// Empty a file.
    Truncate,
    /// Change the mode.
    Mode,
    /// Make a file.
    Create,
    /// Make a directory.
    MakeDirectory,
    /// Make a symbolic link.
    MakeLink,
    /// Make a socket.
    MakeSocket,
    /// Remove a file.
    Remove,
    /// Remove a directory.
    RemoveDirectory,
    /// Connect to a socket.
    Connect,
}

impl One {
    /// All of them.
    pub const ALL: [Self; 13] = [
        Self::Read,
        Self::List,
        Self::See,
        Self::Write,
        Self::Truncate,
        Self::Mode,
        Self::Create,
        Self::MakeDirectory,
        Self::MakeLink,
        Self::MakeSocket,
        Self::Remove,
        Self::RemoveDirectory,
        Self::Connect,
    ];

    /// In a word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::List => "list",
            Self::See => "see",
            Self::Write => "write",
            Self::Truncate => "truncate",
            Self::Mode => "mode",
            Self::Create => "create",
            Self::MakeDirectory => "mkdir",
            Self::MakeLink => "symlink",
            Self::MakeSocket => "bind",
            Self::Remove => "remove",
            Self::RemoveDirectory => "rmdir",
            Self::Connect => "connect",
        }
    }
}

/// What is done to two paths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Two {
    /// Give the first the name of the second, where nothing is.
    Rename,
    /// Give each the name of the other.
    Exchange,
    /// Make the second another name of the first.
    Link,
}

impl Two {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Rename, Self::Exchange, Self::Link];

    /// In a word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Rename => "rename",
            Self::Exchange => "exchange",
            Self::Link => "link",
        }
    }
}

/// What is tried.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Deed {
    /// Something with one path.
    One(One, AbsPath),
    /// Something with two.
    Two(Two, AbsPath, AbsPath),
    /// Give a directory another name, and read a file in it there.
    Around {
        /// The directory.
        dir: AbsPath,
        /// Its other name.
        to: AbsPath,
        /// The file, seen from the directory: names with `/` between.
        file: Vec<u8>,
    },
    /// Ask for the address of a host.
    Resolve(String),
    /// Connect to a port of the loopback, and hear somebody of the host's.
    Dial(u16),
    /// Connect to a unix socket of the host's with an abstract name.
    Abstract(Vec<u8>),
    /// Signal a process of the host's.
    Signal(u32),
}

impl fmt::Display for Deed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::One(one, path) => write!(f, "{} {path}", one.word()),
            Self::Two(two, from, to) => write!(f, "{} {from} {to}", two.word()),
            Self::Around { dir, to, file } => write!(f, "rename {dir} {to} and read {} there", Shown(file)),
            Self::Resolve(name) => write!(f, "resolve {}", Shown(name.as_bytes())),
            Self::Dial(port) => write!(f, "connect to port {port} of the host"),
            Self::Abstract(name) => write!(f, "connect to the abstract socket {}", Shown(name)),
            Self::Signal(pid) => write!(f, "signal process {pid} of the host"),
        }
    }
}

/// Where a deed lies, seen from the rule that it is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Edge {
    /// At what the rule names.
    Itself,
    /// Below it.
    Inside,
    /// Beside it.
    Outside,
    /// At a name that the rule means and that does not exist.
    NotYet,
    /// At what the rule names, through a symbolic link.
    ThroughLink,
    /// At a directory above it.
    Above,
}

impl Edge {
    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Itself => "itself",
            Self::Inside => "inside",
            Self::Outside => "just outside",
            Self::NotYet => "not existing",
            Self::ThroughLink => "through a link",
            Self::Above => "a directory above",
        }
    }
}

/// What came of a deed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Came {
    /// It was done, and undone again.
    Done,
    /// The system refused it, with this number.
    Refused(i32),
    /// It was read, and is not what stands there.
    Strange,
    /// It was done and could not be undone.
    Stuck,
    /// Whoever does deeds got no further, or does none of this kind.
    NotTried,
}

impl Came {
    /// As a number, for a pipe.
    pub fn number(self) -> i32 {
        match self {
            Self::Done => 0,
            Self::Refused(errno) => errno,
            Self::Strange => -1,
            Self::Stuck => -2,
            Self::NotTried => -3,
        }
    }

    /// What a number says.
    pub fn from_number(number: i32) -> Self {
        match number {
            0 => Self::Done,
            -1 => Self::Strange,
            -2 => Self::Stuck,
            errno if errno > 0 => Self::Refused(errno),
            _ => Self::NotTried,
        }
    }
}

impl fmt::Display for Came {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Done => f.write_str("done"),
            Self::Refused(errno) => write!(f, "refused (errno {errno})"),
            Self::Strange => f.write_str("something else was read than stands there"),
            Self::Stuck => f.write_str("done, and could not be undone"),
            Self::NotTried => f.write_str("not tried"),
        }
    }
}
