//! A root to try the chroot backend in: one of its own, or the user's. It holds what the program that tries needs, that program,
//! and the tree.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::PermissionsExt as _;

use ringfence_surface::AbsPath;

use rustix::thread::CapabilitySet;

use super::NotTried;
use crate::launch::StartError;
use crate::remove::remove_tree;
use crate::roots::{Depth, Passing, Root, Roots, Wanted, brought};
use crate::store::Session;
use crate::walk::os_path;

/// A root to try the chroot backend in, and what was put there for it. All of that goes with the value.
#[derive(Debug)]
pub struct Rooted {
    at: At,
    /// How this program is started in it. Nothing of ringfence is given to whoever works in a root.
    pub(super) command: Vec<AbsPath>,
    /// Where it is.
    pub(super) programs: AbsPath,
}

/// Which root.
#[derive(Debug)]
enum At {
    /// One that was made for this.
    Passing(Passing),
    /// The user's own.
    Own(Root, Guest),
}

/// A directory in a root of the user's, where its sessions have what is theirs: whoever works in the root can write nothing
/// there, and what a killed one left is collected.
#[derive(Debug)]
struct Guest {
    dir: AbsPath,
    _session: Session,
}

impl Drop for Guest {
    fn drop(&mut self) {
        // What cannot be removed now is collected later.
        let _ = remove_tree(os_path(&self.dir));
    }
}

impl Rooted {
    /// Makes one among the user's, for whoever will own the tree where root tries.
    ///
    /// # Errors
    /// [`NotTried`]; nothing is left.
    pub fn make(roots: &Roots, owner: Option<(u32, u32)>) -> Result<Self, NotTried> {
        // What takes longest is not begun where nothing could be started in it.
        may_be_tried()?;
        let own = own_program().map_err(|source| NotTried::Talk { source })?;
        let with = BTreeSet::new();
        let wanted = Wanted { name: "verify", with, owner, workspace: None, path: OsStr::new(""), carries: Some(&own) };
        let passing = roots.create_passing(&wanted)?;
        let program = passing.root().work().join("ringfence");
        put(&own, &program)?;
        Ok(Self { at: At::Passing(passing), command: vec![program.clone()], programs: program })
    }

    /// Tries in a root of the user's, which has a place for sessions below this state. What is in it stays as it is; this program
    /// brings along what it needs.
    ///
    /// # Errors
    /// [`NotTried`]; nothing is left.
    pub fn in_root(root: Root, state: &AbsPath) -> Result<Self, NotTried> {
        may_be_tried()?;
        root.check(Depth::Changed)?;
        let own = own_program().map_err(|source| NotTried::Talk { source })?;
        let failed = |source| NotTried::Tree { place: root.tree(), source };
        let session = Session::create_call(state).map_err(failed)?;
        let dir = root.within(session.dir());
        make_room(&dir).map_err(failed)?;
        let guest = Guest { dir, _session: session };
        let programs = guest.dir.join("bin");
        make_room(&programs).map_err(failed)?;
        let program = programs.join("ringfence");
        put(&own, &program)?;
        let mut command = vec![program];
        if let Some((loader, libraries)) = brought(&own)? {
            for file in std::iter::once(&loader).chain(&libraries) {
                put(file, &programs.child(file.file_name().unwrap_or_default()))?;
            }
            command.insert(0, programs.child(loader.file_name().unwrap_or_default()));
        }
        Ok(Self { at: At::Own(root, guest), command, programs })
    }

    /// The root.
    #[must_use]
    pub fn root(&self) -> &Root {
        match &self.at {
            At::Passing(passing) => passing.root(),
            At::Own(root, _) => root,
        }
    }

    /// A new directory in it, for a tree.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn room(&self, name: &str) -> io::Result<AbsPath> {
        let room = match &self.at {
            At::Passing(passing) => passing.root().work().join(name),
            At::Own(_, guest) => guest.dir.join(name),
        };
        make_room(&room)?;
        Ok(room)
    }

    /// The words that start this program inside.
    pub(super) fn words(&self) -> Vec<OsString> {
        let word = |path: &AbsPath| OsString::from_vec(path.as_bytes().to_vec());
        match self.command.as_slice() {
            [loader, program] => vec![word(loader), "--library-path".into(), word(&self.programs), word(program)],
            others => others.iter().map(word).collect(),
        }
    }
}

fn may_be_tried() -> Result<(), NotTried> {
    let rights = rustix::thread::capabilities(None).map_err(|errno| NotTried::Talk { source: errno.into() })?;
    if rights.effective.contains(CapabilitySet::SYS_CHROOT) { Ok(()) } else { Err(StartError::NoRight.into()) }
}

fn make_room(dir: &AbsPath) -> io::Result<()> {
    fs::create_dir(os_path(dir))?;
    fs::set_permissions(os_path(dir), Permissions::from_mode(0o755))
}

fn put(from: &AbsPath, to: &AbsPath) -> Result<(), NotTried> {
    let put = || {
        fs::copy(os_path(from), os_path(to))?;
        fs::set_permissions(os_path(to), Permissions::from_mode(0o755))
    };
    put().map_err(|source| NotTried::Tree { place: to.clone(), source })
}

fn own_program() -> io::Result<AbsPath> {
    let path = std::env::current_exe()?;
    AbsPath::lexical(path.as_os_str().as_bytes()).map_err(io::Error::other)
}
