//! The commands about roots.

use std::ffi::OsString;

use clap::{Args, Subcommand, ValueHint};

/// Make, list, show and remove roots: small trees of programs to run commands in
///
/// A root holds the programs of a few classes of tools, exactly the libraries and files that those need, and a directory to work
/// in, `/work`. `ringfence run --backend chroot --root NAME` runs a command in it. A path below a root is the same inside and outside.
#[derive(Debug, Args)]
pub(crate) struct RootArgs {
    #[command(subcommand)]
    pub(crate) command: RootCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum RootCommand {
    /// Make a root
    Create {
        /// What it is called
        #[arg(value_name = "NAME")]
        name: String,
        /// Which tools it is for
        #[arg(long, value_name = "CLASS", value_delimiter = ',', required = true)]
        with: Vec<ClassArg>,
        /// Made by root: who works in it (a name, or UID:GID)
        #[arg(long, value_name = "USER")]
        owner: Option<String>,
        /// The directory outside that it is made for; `gc` removes the root when that is gone and `/work` is empty
        #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
        workspace: Option<OsString>,
        /// Print as JSON
        #[arg(long)]
        json: bool,
    },
    /// List the roots
    List {
        /// Print as JSON
        #[arg(long)]
        json: bool,
    },
    /// Show one, after reading every file in it and comparing it with the manifest
    ///
    /// Exits with 1 when it is not as it was made.
    Show {
        /// Which
        #[arg(value_name = "NAME")]
        name: String,
        /// Print as JSON, with every file
        #[arg(long)]
        json: bool,
    },
    /// Remove one
    Remove {
        /// Which
        #[arg(value_name = "NAME")]
        name: String,
        /// Also if there is work in it
        #[arg(long)]
        force: bool,
    },
}

/// A class of tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum ClassArg {
    /// Files are read and written from outside: no program
    File,
    /// git, and what it starts
    Git,
    /// A shell and the usual small programs
    Shell,
    /// Python 3 and its library
    Python,
    /// Node.js and npm
    Node,
    /// rustc, cargo, and a linker
    Rust,
    /// The go command and its library
    Go,
    /// A compiler for C with the C library's headers, and a linker
    C,
}
