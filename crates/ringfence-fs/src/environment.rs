//! What the tools of an orchestrator are written against: files and commands, wherever they are.

use std::path::Path;

use crate::error::{ExecError, FileError};
use crate::exec::{Exec, Executed};
use crate::search::Found;

/// Where an agent's tools run: on this machine, in a fence, in a container.
///
/// Every path is relative to [`working_dir`](Self::working_dir), or absolute and below it. No call leaves it, whoever chose the
/// path and whatever happens to the tree meanwhile.
///
/// The calls block. In asynchronous code they belong on a thread that may block:
///
/// ```
/// use std::path::PathBuf;
/// use std::sync::Arc;
/// use ringfence_fs::{Environment, FileError};
///
/// async fn read_tool(environment: Arc<dyn Environment>, path: PathBuf) -> Result<Vec<u8>, FileError> {
///     let read = move || environment.read(&path, 1 << 20);
///     tokio::task::spawn_blocking(read).await.expect("reading does not panic")
/// }
/// ```
///
/// A call that is dropped there goes on until it ends by itself, so give [`Exec`] a time limit that you can wait for.
pub trait Environment: Send + Sync {
    /// The directory in which everything happens, as it was named when the environment was made.
    fn working_dir(&self) -> &Path;

    /// What a regular file holds.
    ///
    /// # Errors
    /// `TooLarge` where that is more than `most` bytes, `WrongKind` for a pipe or a device. It never waits for a writer.
    fn read(&self, path: &Path, most: u64) -> Result<Vec<u8>, FileError>;

    /// Puts a file there, whole or not at all; missing directories are made.
    ///
    /// # Errors
    /// `PathNotAllowed` before anything is changed, also before a directory is made.
    fn write(&self, path: &Path, content: &[u8]) -> Result<(), FileError>;

    /// Removes a file. A link is removed itself, and a directory is not removed.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    fn remove(&self, path: &Path) -> Result<(), FileError>;

    /// What matches a pattern such as `src/**/*.rs`, sorted. Links are found and not followed.
    ///
    /// # Errors
    /// When the pattern cannot be used. What could not be looked at, and whether there is more than `most`, is in the answer.
    fn glob(&self, pattern: &Path, most: usize) -> Result<Found, FileError>;

    /// Runs a command and waits for it. An exit code other than zero is a result.
    ///
    /// # Errors
    /// When it was not started, or got lost.
    fn exec(&self, exec: &Exec) -> Result<Executed, ExecError>;
}
