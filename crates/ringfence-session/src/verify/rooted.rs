//! A root of its own to try the chroot backend in: it holds what the program that tries needs, that program, and the tree.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;

use ringfence_surface::AbsPath;

use rustix::thread::CapabilitySet;

use super::NotTried;
use crate::launch::StartError;
use crate::roots::{Passing, Root, Roots, Wanted};
use crate::walk::os_path;

/// A root that goes with the value.
#[derive(Debug)]
pub struct Rooted {
    passing: Passing,
    /// This program, in it. Nothing of ringfence is given to whoever works in a root.
    pub(super) program: AbsPath,
}

impl Rooted {
    /// Makes one among the user's, for whoever will own the tree where root tries.
    ///
    /// # Errors
    /// [`NotTried`]; nothing is left.
    pub fn make(roots: &Roots, owner: Option<(u32, u32)>) -> Result<Self, NotTried> {
        // What takes longest is not begun where nothing could be started in it.
        let rights = rustix::thread::capabilities(None).map_err(|errno| NotTried::Talk { source: errno.into() })?;
        if !rights.effective.contains(CapabilitySet::SYS_CHROOT) {
            return Err(StartError::NoRight.into());
        }
        let own = own_program().map_err(|source| NotTried::Talk { source })?;
        let with = BTreeSet::new();
        let wanted = Wanted { name: "verify", with, owner, workspace: None, path: OsStr::new(""), carries: Some(&own) };
        let passing = roots.create_passing(&wanted)?;
        let program = passing.root().work().join("ringfence");
        let put = || {
            fs::copy(os_path(&own), os_path(&program))?;
            fs::set_permissions(os_path(&program), Permissions::from_mode(0o755))
        };
        put().map_err(|source| NotTried::Tree { place: program.clone(), source })?;
        Ok(Self { passing, program })
    }

    /// The root.
    #[must_use]
    pub fn root(&self) -> &Root {
        self.passing.root()
    }

    /// A new directory in its work, for a tree.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn room(&self, name: &str) -> io::Result<AbsPath> {
        let room = self.root().work().join(name);
        fs::create_dir(os_path(&room))?;
        fs::set_permissions(os_path(&room), Permissions::from_mode(0o755))?;
        Ok(room)
    }
}

fn own_program() -> io::Result<AbsPath> {
    let path = std::env::current_exe()?;
    AbsPath::lexical(path.as_os_str().as_bytes()).map_err(io::Error::other)
}
