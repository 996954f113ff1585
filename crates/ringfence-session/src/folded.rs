//! Directories that fold names. There an open of `.VSCODE` finds `.vscode`, so what rules say
//! of the one holds for the other: see [`FoldedSurface`].

use std::borrow::Cow;
use std::collections::HashSet;
use std::os::fd::{AsFd, OwnedFd};

use ringfence_plan::{Claim, LayerName, Shortfall};
use ringfence_surface::{AbsPath, Access, FoldedSurface, Rule};
use rustix::fs::{AtFlags, Dir, Mode, OFlags, Stat};
use rustix::io::Errno;

use crate::walk::os_path;

/// The kernel's `FS_CASEFOLD_FL`.
const FOLDED: u32 = 0x4000_0000;
/// So many names of a directory are tried: one that is no hard link is enough.
const FEW: usize = 64;
/// File systems on which each directory says whether it folds: ext4, f2fs, tmpfs, overlayfs, bcachefs.
const SAYS_SO: &[u64] = &[0xef53, 0xf2f5_2010, 0x0102_1994, 0x794c_7630, 0xca45_1a4e];
/// File systems that never do: btrfs, xfs.
const NEVER: &[u64] = &[0x9123_683e, 0x5846_5342];

/// The shortfall of a session with such a directory.
pub(crate) fn shortfall(dir: &AbsPath) -> Shortfall {
    let reason = format!(
        "{dir} takes different spellings for one name, such as upper and lower case: in another spelling none can be made \
         inside, and what another process makes later is not hidden"
    );
    Shortfall { claim: Claim::DeniedLater, layer: LayerName::Mounts, reason }
}

/// Does a directory, open for reading, take different spellings for one name? Where that cannot be found out, yes: what a rule
/// says of another spelling is refused then, and nothing else.
pub(crate) fn folds(dir: impl AsFd) -> bool {
    let kind = rustix::fs::fstatfs(dir.as_fd()).map_or(0, |found| found.f_type as u64);
    if NEVER.contains(&kind) {
        return false;
    }
    if SAYS_SO.contains(&kind) {
        return match rustix::fs::ioctl_getflags(dir.as_fd()) {
            Ok(flags) => flags.bits() & FOLDED != 0,
            // A kernel that knows no such flags there knows no folding there.
            Err(Errno::NOTTY | Errno::OPNOTSUPP | Errno::NOSYS) => false,
            Err(_) => true,
        };
    }
    other_spelling_is_found(&names(dir.as_fd()), |name| number(dir.as_fd(), name)).unwrap_or(true)
}

/// The rule that takes a path away because of a directory on the way that folds names.
pub(crate) fn taken_away<'s>(rules: &FoldedSurface<'s>, path: &AbsPath, access: Access) -> Option<&'s Rule> {
    let rule = rules.taken_away(&with_long_names(path), access)?;
    path.ancestors().skip(1).any(|dir| folds_at(&dir)).then_some(rule)
}

/// Does the directory at a path fold names? One that is not there does what the one above it does.
pub(crate) fn folds_at(dir: &AbsPath) -> bool {
    match open_to_list(dir) {
        Ok(open) => folds(open),
        Err(Errno::NOENT | Errno::NOTDIR) => false,
        Err(_) => true,
    }
}

fn open_to_list(dir: &AbsPath) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    rustix::fs::open(os_path(dir), flags, Mode::empty())
}

/// A path in which each name that may be FAT's short one (`VSCODE~1`) is the long one of the same file.
fn with_long_names(path: &AbsPath) -> Cow<'_, AbsPath> {
    if !path.components().any(is_short_name) {
        return Cow::Borrowed(path);
    }
    let long = |at: AbsPath, name: &[u8]| match is_short_name(name).then(|| long_name(&at, name)).flatten() {
        Some(long) => at.child(&long),
        None => at.child(name),
    };
    Cow::Owned(path.components().fold(AbsPath::root(), long))
}

/// `NAME~1`, and the like.
fn is_short_name(name: &[u8]) -> bool {
    name.windows(2).any(|two| two[0] == b'~' && two[1].is_ascii_digit())
}

fn long_name(dir: &AbsPath, name: &[u8]) -> Option<Vec<u8>> {
    let open = open_to_list(dir).ok()?;
    let status = |name: &[u8]| rustix::fs::statat(&open, name, AtFlags::SYMLINK_NOFOLLOW).ok();
    let id = |status: Stat| (status.st_dev, status.st_ino);
    let wanted = id(status(name)?);
    let entries = Dir::read_from(&open).ok()?.flatten().map(|entry| entry.file_name().to_bytes().to_vec());
    let mut entries: Vec<Vec<u8>> = entries.collect();
    if entries.iter().any(|entry| entry == name) {
        return None;
    }
    entries.retain(|entry| status(entry).map(id) == Some(wanted));
    entries.pop()
}

/// Some of the names of a directory.
fn names(dir: impl AsFd) -> Vec<Vec<u8>> {
    let entries = Dir::read_from(dir).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_bytes().to_vec()).take(FEW).collect()
}

fn number(dir: impl AsFd, name: &[u8]) -> Option<(u64, u64)> {
    let status = rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    // A file with several names may have two that differ in nothing else.
    (status.st_nlink == 1 || status.st_mode & 0o170_000 == 0o040_000).then_some((status.st_dev, status.st_ino))
}

/// Is something found by another spelling of its name? Nothing where no name can be tried.
fn other_spelling_is_found(names: &[Vec<u8>], number: impl Fn(&[u8]) -> Option<(u64, u64)>) -> Option<bool> {
    let listed: HashSet<&[u8]> = names.iter().map(Vec::as_slice).collect();
    let mut tried = None;
    for name in names {
        let other: Vec<u8> = name.iter().map(|byte| byte ^ if byte.is_ascii_alphabetic() { 0x20 } else { 0 }).collect();
        if other == *name || listed.contains(other.as_slice()) {
            continue;
        }
        let Some(it) = number(name) else { continue };
        if number(&other) == Some(it) {
            return Some(true);
        }
        tried = Some(false);
    }
    tried
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn names_that_are_taken_as_they_are() {
        let place = tempfile::tempdir().unwrap();
        let dir = || OwnedFd::from(fs::File::open(place.path()).unwrap());
        fs::write(place.path().join("one"), "").unwrap();
        fs::create_dir(place.path().join("Dir")).unwrap();
        assert!(!folds(dir()));
        fs::hard_link(place.path().join("one"), place.path().join("ONE")).unwrap();
        assert!(!folds(dir()));
        assert_eq!(other_spelling_is_found(&names(dir()), |name| number(dir(), name)), Some(false));
    }

    #[test]
    fn names_that_are_found_by_another_spelling() {
        let names = |all: &[&str]| all.iter().map(|name| name.as_bytes().to_vec()).collect::<Vec<_>>();
        let folding = |name: &[u8]| name.eq_ignore_ascii_case(b"readme").then_some((1, 2));
        assert_eq!(other_spelling_is_found(&names(&[".", "..", "1", "README"]), folding), Some(true));
        assert_eq!(other_spelling_is_found(&names(&[".", "..", "1"]), folding), None);
        assert_eq!(other_spelling_is_found(&names(&["readme", "README"]), folding), None);
        let exact = |name: &[u8]| (name == b"README").then_some((1, 2));
        assert_eq!(other_spelling_is_found(&names(&["README"]), exact), Some(false));
    }

    #[test]
    fn i5_short_names_of_fat_are_looked_up() {
        for (name, is_short) in [("VSCODE~1", true), ("A~12.TXT", true), ("notes~", false), ("a~b", false)] {
            assert_eq!(is_short_name(name.as_bytes()), is_short, "{name}");
        }
    }
}
