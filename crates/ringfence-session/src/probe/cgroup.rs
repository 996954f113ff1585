//! Limits on memory and processes: version 2 of cgroups, as far as it is ours to use.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, CWD, accessat};

/// The cgroup that this process is in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cgroup {
    /// Its directory; nothing where version 2 is not mounted.
    pub dir: Option<PathBuf>,
    /// Is it ours to divide?
    pub delegated: bool,
    /// What can be limited in it.
    pub controllers: Vec<String>,
}

impl Cgroup {
    /// Can this be limited by us?
    pub fn limits(&self, controller: &str) -> bool {
        self.delegated && self.controllers.iter().any(|known| known == controller)
    }
}

/// Looks; changes nothing.
pub fn cgroup() -> Cgroup {
    let read = |path: &str| fs::read(path).unwrap_or_default();
    let dir = directory(&read("/proc/self/mountinfo"), &read("/proc/self/cgroup"));
    let Some(dir) = dir.filter(|dir| dir.is_dir()) else {
        return Cgroup { dir: None, delegated: false, controllers: Vec::new() };
    };
    // A group below is made, controllers are passed down to it, and processes are moved there.
    let ours = ["", "cgroup.subtree_control", "cgroup.procs"];
    let delegated = ours.iter().all(|name| is_writable(&dir.join(name)));
    let controllers = fs::read_to_string(dir.join("cgroup.controllers")).unwrap_or_default();
    Cgroup { dir: Some(dir), delegated, controllers: controllers.split_whitespace().map(str::to_owned).collect() }
}

fn is_writable(path: &Path) -> bool {
    accessat(CWD, path, Access::WRITE_OK, AtFlags::EACCESS).is_ok()
}

/// Where our own group shows: the mount of version 2, and the path below it. `/proc/self/cgroup` names the group from the root of
/// the caller's cgroup namespace, and a mount shows a part of the tree from its own root on.
fn directory(mounts: &[u8], groups: &[u8]) -> Option<PathBuf> {
    let group = groups.split(|b| *b == b'\n').find_map(|line| line.strip_prefix(b"0::"))?;
    let (root, target) = mounts.split(|b| *b == b'\n').find_map(cgroup2)?;
    let below = if root == b"/" { group } else { group.strip_prefix(root.as_slice())? };
    let below = below.strip_prefix(b"/").unwrap_or(below);
    let target = PathBuf::from(OsString::from_vec(target));
    Some(if below.is_empty() { target } else { target.join(OsString::from_vec(below.to_vec())) })
}

/// The root and the target of a line of the table, if it is one of version 2.
fn cgroup2(line: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    let fields: Vec<&[u8]> = line.split(|b| *b == b' ').collect();
    let dash = fields.iter().position(|field| *field == b"-")?;
    let is_it = fields.get(dash + 1) == Some(&b"cgroup2".as_slice());
    is_it.then(|| Some((fields.get(3)?.to_vec(), fields.get(4)?.to_vec()))).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(mounts: &str, groups: &str, expected: Option<&str>) {
        assert_eq!(directory(mounts.as_bytes(), groups.as_bytes()), expected.map(PathBuf::from));
    }

    #[test]
    fn where_our_group_is() {
        let whole = "31 24 0:27 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        let user = "0::/user.slice/user-1000.slice/session-2.scope\n";
        check(whole, user, Some("/sys/fs/cgroup/user.slice/user-1000.slice/session-2.scope"));
        check(whole, "0::/\n", Some("/sys/fs/cgroup"));
        let hybrid = "30 24 0:26 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
                      31 24 0:27 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
        check(hybrid, "4:memory:/x\n0::/a\n", Some("/sys/fs/cgroup/unified/a"));
        check("31 24 0:27 /docker/1 /sys/fs/cgroup ro - cgroup2 c ro\n", "0::/docker/1/x\n", Some("/sys/fs/cgroup/x"));
        check("31 24 0:27 /docker/1 /sys/fs/cgroup ro - cgroup2 c ro\n", "0::/docker/1\n", Some("/sys/fs/cgroup"));
        check("31 24 0:27 /other /sys/fs/cgroup ro - cgroup2 c ro\n", "0::/docker/1\n", None);
        check("30 24 0:26 / /sys/fs/cgroup/memory rw - cgroup cgroup rw\n", "0::/\n", None);
        check(whole, "4:memory:/\n", None);
    }

    #[test]
    fn a_limit_needs_both() {
        let group = |delegated, names: &[&str]| Cgroup {
            dir: None,
            delegated,
            controllers: names.iter().map(|name| (*name).to_owned()).collect(),
        };
        assert!(group(true, &["memory", "pids"]).limits("memory"));
        assert!(!group(false, &["memory"]).limits("memory"));
        assert!(!group(true, &["pids"]).limits("memory"));
    }
}
