//! This machine, with its files held beneath a root.

use std::fmt;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;
use std::process::Command;

use crate::environment::Environment;
use crate::error::{ExecError, FileError, Operation};
use crate::exec::{Exec, Executed};
use crate::path::RelPath;
use crate::process;
use crate::root::{Root, own_path};
use crate::search::Found;

type Wrapper = Box<dyn Fn(Command) -> io::Result<Command> + Send + Sync>;
type Opener = Box<dyn Fn(&Root, &Path) -> Result<File, FileError> + Send + Sync>;
type Remover = Box<dyn Fn(&Root, &Path) -> Result<(), FileError> + Send + Sync>;

/// This machine: files beneath a [`Root`], and commands only where the caller has said how.
///
/// ```
/// use std::path::Path;
/// use std::time::Duration;
/// use ringfence_fs::{Environment, Exec, ExecError, LocalEnvironment, Outcome, Root, Writable};
///
/// let dir = tempfile::tempdir()?;
/// let files = LocalEnvironment::new(Root::open(dir.path(), Writable::everything())?);
/// files.write(Path::new("a/b.txt"), b"hello")?;
/// assert_eq!(files.glob(Path::new("**/*.txt"), 100)?.entries[0].path, Path::new("a/b.txt"));
///
/// // Nothing would confine a command, so none is run..
/// let cat = Exec::new("/bin/cat", Duration::from_secs(10)).arg("a/b.txt");
/// assert!(matches!(files.exec(&cat), Err(ExecError::Refused { .. })));
///
/// // ..unless that is what the caller asks for, by name.
/// let all = LocalEnvironment::with_unfenced_exec(Root::open(dir.path(), Writable::everything())?);
/// let done = all.exec(&cat)?;
/// assert_eq!((done.outcome, done.stdout.tail.as_slice()), (Outcome::Exited(0), b"hello".as_slice()));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct LocalEnvironment {
    root: Root,
    commands: Commands,
    opener: Option<Opener>,
    remover: Option<Remover>,
}

/// What happens with a command.
enum Commands {
    Refused,
    Unfenced,
    Wrapped(Wrapper),
}

impl LocalEnvironment {
    /// Files only: every command is refused.
    pub fn new(root: Root) -> Self {
        Self { root, commands: Commands::Refused, opener: None, remover: None }
    }

    /// Files beneath the root, and commands that **nothing confines**: they can read and change whatever this process can, also
    /// outside the root, and reach the network. When the time is up they are ended with what they started, as far as it can be
    /// found; a program that wants to stay can.
    pub fn with_unfenced_exec(root: Root) -> Self {
        Self { commands: Commands::Unfenced, ..Self::new(root) }
    }

    /// Files beneath the root, and commands as `wrapper` makes them: it gets program, arguments, environment and directory, and
    /// returns what is started instead, such as the same command in a jail. What it does not confine is not confined. A
    /// command that it refuses is not started.
    pub fn with_wrapped_exec(
        root: Root,
        wrapper: impl Fn(Command) -> io::Result<Command> + Send + Sync + 'static,
    ) -> Self {
        Self { commands: Commands::Wrapped(Box::new(wrapper)), ..Self::new(root) }
    }

    /// Writes through a file that `opener` opens, and no longer by replacing. It is asked only for a path that the root's globs
    /// allow, and the file must be empty: what [`Root::open_for_write`] gives is.
    #[must_use]
    pub fn write_opener(
        mut self,
        opener: impl Fn(&Root, &Path) -> Result<File, FileError> + Send + Sync + 'static,
    ) -> Self {
        self.opener = Some(Box::new(opener));
        self
    }

    /// Removes through `remover`. It is asked only for a path that the root's globs allow.
    #[must_use]
    pub fn remover(mut self, remover: impl Fn(&Root, &Path) -> Result<(), FileError> + Send + Sync + 'static) -> Self {
        self.remover = Some(Box::new(remover));
        self
    }

    /// The root of its files.
    pub fn root(&self) -> &Root {
        &self.root
    }

    /// The path below the root, if it may be changed. Whoever carries the change out, this comes first.
    fn allowed<'p>(&self, path: &'p Path, operation: Operation) -> Result<&'p Path, FileError> {
        let below = self.root.below(path);
        self.root.writable().allow(&RelPath::new(below)?, operation)?;
        Ok(below)
    }
}

impl Environment for LocalEnvironment {
    fn working_dir(&self) -> &Path {
        self.root.path()
    }

    fn read(&self, path: &Path, most: u64) -> Result<Vec<u8>, FileError> {
        self.root.read(self.root.below(path), most)
    }

    fn write(&self, path: &Path, content: &[u8]) -> Result<(), FileError> {
        let below = self.allowed(path, Operation::Write)?;
        let Some(opener) = &self.opener else { return self.root.write(below, content) };
        let written = opener(&self.root, below)?.write_all(content);
        written.map_err(|source| FileError::Io { call: "write", path: below.to_owned(), source })
    }

    fn remove(&self, path: &Path) -> Result<(), FileError> {
        let below = self.allowed(path, Operation::Remove)?;
        match &self.remover {
            Some(remover) => remover(&self.root, below),
            None => self.root.remove(below),
        }
    }

    fn glob(&self, pattern: &Path, most: usize) -> Result<Found, FileError> {
        self.root.glob(self.root.below(pattern), most)
    }

    fn exec(&self, exec: &Exec) -> Result<Executed, ExecError> {
        let program = || exec.program().to_owned();
        let wrapper = match &self.commands {
            Commands::Refused => return Err(ExecError::Refused { program: program() }),
            Commands::Unfenced => None,
            Commands::Wrapped(wrapper) => Some(wrapper),
        };
        let dir = self.root.open_directory(self.root.below(exec.directory().unwrap_or(Path::new(""))));
        let dir = dir.map_err(|source| ExecError::Directory { program: program(), source: Box::new(source) })?;
        let mut command = Command::new(exec.program());
        command.args(exec.arguments()).env_clear();
        command.envs(exec.environment().iter().map(|(name, value)| (name, value)));
        // By its descriptor: what has its name by now may be another directory.
        command.current_dir(own_path(std::os::fd::AsFd::as_fd(&dir)));
        let command = match wrapper {
            Some(wrapper) => wrapper(command).map_err(|source| ExecError::Wrapper { program: program(), source })?,
            None => command,
        };
        process::run(command, exec)
    }
}

impl fmt::Debug for LocalEnvironment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let commands = match self.commands {
            Commands::Refused => "refused",
            Commands::Unfenced => "unfenced",
            Commands::Wrapped(_) => "wrapped",
        };
        f.debug_struct("LocalEnvironment")
            .field("root", &self.root)
            .field("commands", &commands)
            .finish_non_exhaustive()
    }
}
