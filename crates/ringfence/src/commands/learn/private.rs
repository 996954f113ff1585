//! Who on the machine may read something.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::PermissionsExt as _;

use ringfence_surface::AbsPath;

use crate::host::os_path;

/// More names are not looked at: where there are so many, something may be among them.
const MOST_NAMES: usize = 10_000;

/// Everybody may go through it; list and go through it; read it.
const ENTER: u32 = 0o001;
const LIST: u32 = 0o005;
const READ: u32 = 0o004;

/// Is there something at a path, or below it, that not everybody may read? What cannot be looked at counts as such.
pub(super) fn is_private(path: &AbsPath) -> bool {
    let is_closed = |dir: AbsPath| !fs::metadata(os_path(&dir)).is_ok_and(|metadata| has(&metadata, ENTER));
    path.ancestors().skip(1).any(is_closed) || holds_private(path)
}

fn has(metadata: &Metadata, bits: u32) -> bool {
    metadata.permissions().mode() & bits == bits
}

fn holds_private(path: &AbsPath) -> bool {
    let (mut left, mut seen) = (vec![os_path(path).to_owned()], 0);
    while let Some(next) = left.pop() {
        seen += 1;
        let is_private = match fs::symlink_metadata(&next) {
            // What a link leads to has a place of its own; what has gone meanwhile has none.
            Ok(metadata) if metadata.is_symlink() => false,
            Err(cause) => cause.kind() != io::ErrorKind::NotFound,
            Ok(metadata) if metadata.is_dir() => {
                let names = fs::read_dir(&next).map(|entries| entries.flatten().map(|entry| entry.path()));
                left.extend(names.into_iter().flatten().take(MOST_NAMES + 1));
                !has(&metadata, LIST)
            }
            Ok(metadata) => metadata.is_file() && !has(&metadata, READ),
        };
        if is_private || seen + left.len() > MOST_NAMES {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt as _;

    use super::*;

    #[test]
    fn what_not_everybody_may_read() {
        let dir = tempfile::tempdir().unwrap();
        let mode = |name: &str, mode| fs::set_permissions(dir.path().join(name), fs::Permissions::from_mode(mode));
        let path = |name: &str| AbsPath::lexical(dir.path().join(name).as_os_str().as_bytes()).unwrap();
        let holds = |name: &str| holds_private(&path(name));
        fs::create_dir_all(dir.path().join("data/deep")).unwrap();
        fs::write(dir.path().join("data/deep/open"), "").unwrap();
        fs::write(dir.path().join("data/key"), "").unwrap();
        std::os::unix::fs::symlink("/nowhere", dir.path().join("data/link")).unwrap();
        for (name, bits) in
            [("", 0o755), ("data", 0o755), ("data/deep", 0o755), ("data/deep/open", 0o644), ("data/key", 0o604)]
        {
            mode(name, bits).unwrap();
        }
        assert!(!holds("data") && !holds("data/key"));
        mode("data/key", 0o640).unwrap();
        assert!(holds("data") && holds("data/key") && !holds("data/deep"));
        mode("data/deep", 0o711).unwrap();
        assert!(holds("data/deep") && !holds("data/deep/open"));
        // Nobody else comes so far.
        mode("data", 0o750).unwrap();
        assert!(is_private(&path("data/deep/open")));
    }
}
