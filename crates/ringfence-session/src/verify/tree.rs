//! A tree of canaries on the disk.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::os::unix::net::UnixListener;

use ringfence_plan::verify::{Node, Shape};
use ringfence_surface::AbsPath;
use rustix::fs::{AtFlags, CWD, Gid, Mode, OFlags, Uid};

use super::{CANARY, NotTried};
use crate::remove::remove_tree;
use crate::walk::os_path;

/// A tree that stands, and whoever listens in it. What it is made of lies in somebody else's directory, and goes with that.
#[derive(Debug)]
pub struct Tree {
    shape: Shape,
    listeners: Vec<UnixListener>,
    /// Whose everything in it is.
    owner: (Uid, Gid),
}

impl Tree {
    /// Makes everything, for this owner where root makes it. The place must not be there yet.
    ///
    /// # Errors
    /// When something of it cannot be made.
    pub fn make(shape: Shape, owner: Option<(u32, u32)>) -> Result<Self, NotTried> {
        let own = (rustix::process::geteuid(), rustix::process::getegid());
        let given = owner.map(|(uid, gid)| (Uid::from_raw(uid), Gid::from_raw(gid)));
        let mut tree = Self { shape, listeners: Vec::new(), owner: given.unwrap_or(own) };
        match tree.fill() {
            Ok(()) => Ok(tree),
            Err(source) => Err(NotTried::Tree { place: tree.shape.place().clone(), source }),
        }
    }

    /// What it is made of.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Has everything be as it was made, for whoever tries next: deeds that could not be undone leave something behind, and
    /// what was removed and made again belongs to whoever did it.
    ///
    /// # Errors
    /// When something of it cannot be made.
    pub fn set_right(&mut self) -> Result<(), NotTried> {
        let failed = |source| NotTried::Tree { place: self.shape.place().clone(), source };
        if differences(&self.shape).is_empty() && self.give().map_err(failed)? {
            return Ok(());
        }
        remove_tree(os_path(self.shape.place())).map_err(failed)?;
        self.listeners.clear();
        self.fill().map_err(|source| NotTried::Tree { place: self.shape.place().clone(), source })
    }

    /// Gives some of it to somebody else, until it is set right.
    pub(super) fn lend(&self, to: (u32, u32), is_theirs: impl Fn(&AbsPath) -> bool) -> Result<(), NotTried> {
        let (uid, gid) = (Uid::from_raw(to.0), Gid::from_raw(to.1));
        let paths = self.shape.nodes().map(|(path, _)| path).filter(|path| is_theirs(path));
        for path in paths {
            rustix::fs::chownat(CWD, path.as_bytes(), Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)
                .map_err(|errno| NotTried::Tree { place: path.clone(), source: errno.into() })?;
        }
        Ok(())
    }

    pub(super) fn listeners(&self) -> &[UnixListener] {
        &self.listeners
    }

    fn fill(&mut self) -> io::Result<()> {
        let shape = self.shape.clone();
        for (path, node) in shape.nodes() {
            self.node(path, node)?;
        }
        for (path, node) in shape.nodes() {
            if let Node::Name(of) = node {
                fs::hard_link(os_path(of), os_path(path))?;
            }
        }
        self.give().map(|_| ())
    }

    /// Gives what belongs to somebody else to whom it belongs. Has everything the mode that it was made with?
    fn give(&self) -> io::Result<bool> {
        let (uid, gid) = self.owner;
        let mut is_as_made = true;
        for (path, node) in self.shape.nodes() {
            let found = fs::symlink_metadata(os_path(path))?;
            if (found.uid(), found.gid()) != (uid.as_raw(), gid.as_raw()) {
                rustix::fs::chownat(CWD, path.as_bytes(), Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)?;
            }
            is_as_made &= mode(node).is_none_or(|mode| found.mode() & 0o7777 == mode);
        }
        Ok(is_as_made)
    }

    fn node(&mut self, path: &AbsPath, node: &Node) -> io::Result<()> {
        match node {
            // The mode must not depend on the caller's mask.
            Node::Directory => {
                fs::create_dir(os_path(path))?;
                fs::set_permissions(os_path(path), fs::Permissions::from_mode(DIRECTORY))
            }
            Node::File => {
                let mut file = OpenOptions::new().write(true).create_new(true).mode(FILE).open(os_path(path))?;
                file.set_permissions(fs::Permissions::from_mode(FILE))?;
                file.write_all(CANARY)
            }
            Node::Link(target) => Ok(rustix::fs::symlink(target.as_slice(), path.as_bytes())?),
            // Once every file is there.
            Node::Name(_) => Ok(()),
            Node::Socket => {
                let (parent, name) = path.split_last();
                let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
                let dir = rustix::fs::open(parent, flags, Mode::empty())?;
                let place = std::path::Path::new("/proc/self/fd").join(dir.as_raw_fd().to_string());
                let place = place.join(std::ffi::OsStr::from_bytes(name.unwrap_or_default()));
                self.listeners.push(UnixListener::bind(place)?);
                fs::set_permissions(os_path(path), fs::Permissions::from_mode(SOCKET))
            }
        }
    }
}

const DIRECTORY: u32 = 0o755;
const FILE: u32 = 0o644;
const SOCKET: u32 = 0o666;

/// The mode that something is made with; links have none.
fn mode(node: &Node) -> Option<u32> {
    match node {
        Node::Directory => Some(DIRECTORY),
        Node::File | Node::Name(_) => Some(FILE),
        Node::Socket => Some(SOCKET),
        Node::Link(_) => None,
    }
}

/// Is everything as it was made? What is not, in words.
pub fn differences(shape: &Shape) -> Vec<String> {
    let mut wrong = Vec::new();
    for (path, node) in shape.nodes() {
        let found = fs::symlink_metadata(os_path(path));
        let is_as_made = match (node, &found) {
            (_, Err(_)) => false,
            (Node::Directory, Ok(found)) => found.is_dir(),
            (Node::File | Node::Name(_), Ok(found)) => {
                found.is_file() && fs::read(os_path(path)).is_ok_and(|content| content == CANARY)
            }
            (Node::Link(target), Ok(_)) => {
                fs::read_link(os_path(path)).is_ok_and(|found| found.as_os_str().as_bytes() == target)
            }
            (Node::Socket, Ok(found)) => !found.is_file() && !found.is_dir(),
        };
        if !is_as_made {
            wrong.push(format!("{path} is not as it was"));
        }
        if *node == Node::Directory {
            let entries = fs::read_dir(os_path(path)).into_iter().flatten().flatten();
            let new = entries.map(|entry| path.child(entry.file_name().as_bytes()));
            wrong.extend(new.filter(|new| shape.get(new).is_none()).map(|new| format!("{new} was not there")));
        }
    }
    wrong
}
