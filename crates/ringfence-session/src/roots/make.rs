//! Copies what was collected into a directory, and writes down what was written.
//!
//! Files are copied, or share their blocks where the file system can do that. They are never hard links to the host's own files:
//! one that whoever works inside may write, or whose mode they may change, would be changed outside with it, and an upgrade
//! outside would change it inside.

use std::collections::BTreeMap;
use std::fs::{self, File, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use ringfence_surface::AbsPath;
use rustix::fs::{FileType, Mode};
use rustix::io::Errno;
use sha2::{Digest as _, Sha256};

use super::collect::{Item, open_source};
use super::error::RootError;
use super::manifest::{Entry, Kind};
use super::within;
use crate::text::{Bytes, hex};
use crate::walk::os_path;

/// Writes all of it below `tree`, in the order of the paths: what contains comes before what is contained.
pub(crate) fn make(items: &BTreeMap<AbsPath, Item>, tree: &AbsPath) -> Result<Vec<Entry>, RootError> {
    let mut copies: BTreeMap<(u64, u64), Copied> = BTreeMap::new();
    let mut entries = Vec::new();
    for (path, item) in items {
        let place = within(tree, path);
        let failed = |source| RootError::File { path: path.clone(), source };
        let kind = match item {
            Item::Directory => {
                let made = fs::DirBuilder::new().mode(0o755).create(os_path(&place));
                made.and_then(|()| fs::set_permissions(os_path(&place), Permissions::from_mode(0o755)))
                    .map_err(failed)?;
                Kind::Directory
            }
            Item::File => copy(path, &place, &mut copies).map_err(failed)?,
            Item::Link { target } => {
                rustix::fs::symlink(target.as_slice(), place.as_bytes()).map_err(|errno| failed(errno.into()))?;
                Kind::Link { target: Bytes::new(target) }
            }
            Item::Text { content } => {
                let mut file = create(&place, 0o444).map_err(failed)?;
                file.write_all(content).map_err(failed)?;
                file.set_permissions(Permissions::from_mode(0o444)).map_err(failed)?;
                let sha256 = hex(&Sha256::digest(content));
                Kind::File { executable: false, size: content.len() as u64, sha256 }
            }
            Item::Device { major, minor } => match device(&place, *major, *minor).map_err(failed)? {
                Some(kind) => kind,
                None => continue,
            },
        };
        entries.push(Entry { path: Bytes::new(path.as_bytes()), kind });
    }
    Ok(entries)
}

/// A file that was copied already: another name of it is one of the copy.
struct Copied {
    place: PathBuf,
    kind: Kind,
}

fn create(place: &AbsPath, mode: u32) -> io::Result<File> {
    fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(os_path(place))
}

fn copy(source: &AbsPath, place: &AbsPath, copies: &mut BTreeMap<(u64, u64), Copied>) -> io::Result<Kind> {
    let mut file = open_source(source)?;
    let found = file.metadata()?;
    let id = (found.dev(), found.ino());
    if let Some(copied) = copies.get(&id) {
        fs::hard_link(&copied.place, os_path(place))?;
        return Ok(copied.kind.clone());
    }
    // No program in a root runs as its owner.
    let executable = found.mode() & 0o111 != 0;
    let mut copy = create(place, 0o600)?;
    let sha256 = if rustix::fs::ioctl_ficlone(&copy, &file).is_ok() {
        hash(File::open(os_path(place))?)?
    } else {
        hash(Tee { from: &mut file, to: &mut copy })?
    };
    let size = copy.metadata()?.len();
    copy.set_permissions(Permissions::from_mode(if executable { 0o555 } else { 0o444 }))?;
    // Python believes what it compiled before only of a file of the same age.
    copy.set_modified(found.modified()?)?;
    let kind = Kind::File { executable, size, sha256 };
    if found.nlink() > 1 {
        copies.insert(id, Copied { place: os_path(place).to_owned(), kind: kind.clone() });
    }
    Ok(kind)
}

/// Reads, and writes what was read.
struct Tee<'f> {
    from: &'f mut File,
    to: &'f mut File,
}

impl io::Read for Tee<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.from.read(buffer)?;
        self.to.write_all(&buffer[..length])?;
        Ok(length)
    }
}

/// The hash of everything that can be read, in hexadecimal digits.
pub(crate) fn hash(mut from: impl io::Read) -> io::Result<String> {
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 1 << 17];
    loop {
        match from.read(&mut buffer)? {
            0 => return Ok(hex(&hasher.finalize())),
            length => hasher.update(&buffer[..length]),
        }
    }
}

/// A device that can be opened, where the caller may make it. Of the others, only what programs cannot do without has a
/// substitute.
fn device(place: &AbsPath, major: u32, minor: u32) -> io::Result<Option<Kind>> {
    let everybody = Mode::from_raw_mode(0o666);
    let number = rustix::fs::makedev(major, minor);
    match rustix::fs::mknodat(rustix::fs::CWD, place.as_bytes(), FileType::CharacterDevice, everybody, number) {
        Ok(()) => {
            fs::set_permissions(os_path(place), Permissions::from_mode(0o666))?;
            // A file system may have devices and not let them be opened. A terminal is there only for who has one.
            let opens = File::open(os_path(place));
            let is_dead = opens.is_err_and(|cause| cause.raw_os_error() == Some(Errno::ACCESS.raw_os_error()));
            if !is_dead {
                return Ok(Some(Kind::Device { major, minor }));
            }
            fs::remove_file(os_path(place))?;
        }
        Err(Errno::PERM | Errno::ACCESS | Errno::NOSYS) => {}
        Err(errno) => return Err(errno.into()),
    }
    match (major, minor) {
        NULL => {
            create(place, 0o666)?.set_permissions(Permissions::from_mode(0o666))?;
            Ok(Some(Kind::Substitute))
        }
        RANDOM | URANDOM => {
            let mode = Mode::from_raw_mode(PIPE_MODE);
            rustix::fs::mknodat(rustix::fs::CWD, place.as_bytes(), FileType::Fifo, mode, 0)?;
            fs::set_permissions(os_path(place), Permissions::from_mode(PIPE_MODE))?;
            Ok(Some(Kind::Pipe))
        }
        _ => Ok(None),
    }
}

const NULL: (u32, u32) = (1, 3);
const RANDOM: (u32, u32) = (1, 8);
const URANDOM: (u32, u32) = (1, 9);

/// Whoever fills it is its owner.
pub(crate) const PIPE_MODE: u32 = 0o644;

/// Empties what stands in the place of `/dev/null`.
pub(crate) fn empty_substitute(tree: &Path) {
    // It is there to be written; that it could not be emptied is no reason not to start.
    let _ = fs::OpenOptions::new().write(true).truncate(true).open(tree.join("dev/null"));
}
