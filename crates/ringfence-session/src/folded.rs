//! Directories in which a name has more than one spelling. Rules compare bytes, so there `.VSCODE` is `.vscode` to whoever opens
//! it, and not to a rule. What exists is guarded by what it is, under any spelling; names that appear later are not.

use std::collections::HashSet;
use std::os::fd::OwnedFd;

use ringfence_plan::{Claim, LayerName, Shortfall};
use ringfence_surface::{Effect, Role, Surface};
use rustix::fs::{AtFlags, Dir, OFlags};

use crate::place::{open_beneath, open_root, relative};

/// The kernel's `FS_CASEFOLD_FL`.
const FOLDED: u32 = 0x4000_0000;
/// So many names of a directory are tried: one that is no hard link is enough.
const FEW: usize = 64;

/// What does not hold where something may be written and names are not taken as they are.
pub(crate) fn shortfall(surface: &Surface) -> Option<Shortfall> {
    let is_given = |effect| matches!(effect, Effect::Write(Role::WorkingDir | Role::Write | Role::Sibling));
    let given = surface.rules().iter().filter(|rule| is_given(rule.effect)).filter_map(|rule| rule.pattern.as_path());
    let top = open_root().ok()?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let folds = |dir: &OwnedFd| is_marked(dir) || is_found(&names(dir), |name| number(dir, name));
    let place =
        given.into_iter().find(|path| open_beneath(&top, &relative(path), flags).is_ok_and(|dir| folds(&dir)))?;
    Some(Shortfall {
        claim: Claim::ProtectedLater,
        layer: LayerName::Broker,
        reason: format!(
            "{place} takes names in upper and lower case for the same, and rules compare them byte by byte"
        ),
    })
}

fn is_marked(dir: &OwnedFd) -> bool {
    rustix::fs::ioctl_getflags(dir).is_ok_and(|flags| flags.bits() & FOLDED != 0)
}

/// Some of the names of a directory.
fn names(dir: &OwnedFd) -> Vec<Vec<u8>> {
    let entries = Dir::read_from(dir).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_bytes().to_vec()).take(FEW).collect()
}

fn number(dir: &OwnedFd, name: &[u8]) -> Option<(u64, u64)> {
    let status = rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    // A file with several names may have two that differ in nothing else.
    (status.st_nlink == 1 || status.st_mode & 0o170_000 == 0o040_000).then_some((status.st_dev, status.st_ino))
}

/// Is something found by another spelling of its name?
fn is_found(names: &[Vec<u8>], number: impl Fn(&[u8]) -> Option<(u64, u64)>) -> bool {
    let listed: HashSet<&[u8]> = names.iter().map(Vec::as_slice).collect();
    names.iter().any(|name| {
        let other: Vec<u8> = name.iter().map(|byte| byte ^ if byte.is_ascii_alphabetic() { 0x20 } else { 0 }).collect();
        other != *name
            && !listed.contains(other.as_slice())
            && number(name).is_some_and(|it| number(&other) == Some(it))
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn names_that_are_taken_as_they_are() {
        let place = tempfile::tempdir().unwrap();
        let dir = || OwnedFd::from(fs::File::open(place.path()).unwrap());
        let folds = || is_marked(&dir()) || is_found(&names(&dir()), |name| number(&dir(), name));
        fs::write(place.path().join("one"), "").unwrap();
        fs::create_dir(place.path().join("Dir")).unwrap();
        assert!(!folds());
        fs::hard_link(place.path().join("one"), place.path().join("ONE")).unwrap();
        assert!(!folds());
    }

    #[test]
    fn names_that_are_found_by_another_spelling() {
        let names = |all: &[&str]| all.iter().map(|name| name.as_bytes().to_vec()).collect::<Vec<_>>();
        let folding = |name: &[u8]| name.eq_ignore_ascii_case(b"readme").then_some((1, 2));
        assert!(is_found(&names(&[".", "..", "1", "README"]), folding));
        assert!(!is_found(&names(&[".", "..", "1"]), folding));
        assert!(!is_found(&names(&["readme", "README"]), folding));
        assert!(!is_found(&names(&["README"]), |name| (name == b"README").then_some((1, 2))));
    }
}
