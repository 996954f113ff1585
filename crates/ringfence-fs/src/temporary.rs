//! Names that a file has for the moment before it takes the place of another.

use std::fmt::Debug;
use std::io;
use std::os::fd::BorrowedFd;

/// Records temporary names before they exist, so that another process can remove those of one that was killed.
///
/// linkat(2) replaces nothing, so a file without a name (`O_TMPFILE`) that is to replace another needs a name for the rename.
pub trait RecordNames: Debug + Send + Sync {
    /// Chooses a new name in a directory, records it, and calls `work` with it. The name stays recorded until `work` returns.
    ///
    /// # Errors
    /// When the name cannot be recorded; what `work` returns.
    fn with_name(&self, dir: BorrowedFd<'_>, work: &mut dyn FnMut(&str) -> io::Result<()>) -> io::Result<()>;
}
