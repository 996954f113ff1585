//! A tree of canaries on the disk.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::os::unix::net::UnixListener;

use ringfence_plan::verify::{Node, Shape};
use ringfence_surface::AbsPath;
use rustix::fs::{AtFlags, CWD, Gid, Mode, OFlags, Uid};

use super::CANARY;
use crate::walk::os_path;

/// A tree that was made, and whoever listens in it.
#[derive(Debug)]
pub(super) struct Tree {
    pub(super) listeners: Vec<UnixListener>,
}

impl Tree {
    /// Makes everything, for this owner where root makes it. The place must not be there yet.
    pub(super) fn make(shape: &Shape, owner: Option<(u32, u32)>) -> io::Result<Self> {
        let mut tree = Self { listeners: Vec::new() };
        for (path, node) in shape.nodes() {
            tree.node(path, node)?;
        }
        for (path, node) in shape.nodes() {
            if let Node::Name(of) = node {
                fs::hard_link(os_path(of), os_path(path))?;
            }
            if let Some((uid, gid)) = owner {
                let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
                rustix::fs::chownat(CWD, path.as_bytes(), Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)?;
            }
        }
        Ok(tree)
    }

    fn node(&mut self, path: &AbsPath, node: &Node) -> io::Result<()> {
        match node {
            // The mode must not depend on the caller's mask.
            Node::Directory => {
                fs::create_dir(os_path(path))?;
                fs::set_permissions(os_path(path), fs::Permissions::from_mode(0o755))
            }
            Node::File => {
                let mut file = OpenOptions::new().write(true).create_new(true).mode(0o644).open(os_path(path))?;
                file.set_permissions(fs::Permissions::from_mode(0o644))?;
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
                fs::set_permissions(os_path(path), fs::Permissions::from_mode(0o666))
            }
        }
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
