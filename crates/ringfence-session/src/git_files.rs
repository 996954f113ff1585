//! Files of git directories on the disk: which directories are one, and whether content may be put there.
//!
//! The broker asks for what is written inside; the supervisor for what it puts in place outside; a review for what it applies.

mod content;
mod frozen;
mod local_address;
mod references;
mod regions;

use std::ffi::CString;

use ringfence_git::settings::Age;
use ringfence_surface::AbsPath;
use rustix::io::Errno;

pub(crate) use self::content::{Content, ContentJudge, HostPaths, HostView, Refusal};
pub(crate) use self::frozen::{Frozen, NotFrozen, Writers, are_same, put, read_all, read_part};
pub(crate) use self::references::{
    DirectoryMove, GitReference, NoneAccepted, Redirected, References, WaysOfStart, is_on_way, is_without_links,
    standing,
};
pub(crate) use self::regions::{GitRegion, Region, Regions, is_git_directory, is_telling, is_there};
pub(crate) use crate::repository::is_own;

/// The longest file that is judged: the index of a very large repository.
pub(crate) const LONGEST: usize = 1 << 30;
/// No real settings are longer.
const LONGEST_SETTINGS: usize = 1 << 20;

/// A place in a git directory.
#[derive(Debug, Clone)]
pub(crate) struct GitPlace {
    /// The git directory.
    pub(crate) root: AbsPath,
    /// The path below it.
    pub(crate) relative: Vec<u8>,
    pub(crate) age: Age,
}

/// A name as the kernel takes it.
fn c_string(bytes: &[u8]) -> rustix::io::Result<CString> {
    CString::new(bytes).map_err(|_| Errno::INVAL)
}
