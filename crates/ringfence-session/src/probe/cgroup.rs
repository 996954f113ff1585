//! Limits on memory and processes: version 2 of cgroups, as far as it is ours to use.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;

use crate::cgroup::{Group, Wanted};
use crate::text::new_token;

/// The cgroup that this process is in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cgroup {
    /// Its directory; nothing where version 2 is not mounted.
    pub dir: Option<PathBuf>,
    /// What can be limited in it.
    pub controllers: Vec<String>,
}

impl Cgroup {
    /// Why a session gets no group with this controller.
    pub fn why_unlimited(&self, controller: &str) -> String {
        match &self.dir {
            None => "cgroup version 2 is not mounted".to_owned(),
            Some(_) if !self.has(controller) => format!("the {controller} controller is not given to this cgroup"),
            Some(_) => "this cgroup is not delegated to the caller".to_owned(),
        }
    }

    /// Is there such a controller, ours to use or not?
    pub fn has(&self, controller: &str) -> bool {
        self.controllers.iter().any(|known| known == controller)
    }
}

/// Looks; changes nothing.
pub fn look() -> Cgroup {
    let read = |path: &str| fs::read(path).unwrap_or_default();
    let dir = directory(&read("/proc/self/mountinfo"), &read("/proc/self/cgroup"));
    let Some(dir) = dir.filter(|dir| dir.is_dir()) else { return Cgroup { dir: None, controllers: Vec::new() } };
    let controllers = fs::read_to_string(dir.join("cgroup.controllers")).unwrap_or_default();
    Cgroup { dir: Some(dir), controllers: controllers.split_whitespace().map(str::to_owned).collect() }
}

/// The controllers with which a session gets a group: one is made for each, as a session makes its own, and goes away at once.
pub fn limits() -> Vec<&'static str> {
    let wanted = [
        ("memory", Wanted { memory: Some(1 << 40), pids: None }),
        ("pids", Wanted { memory: None, pids: Some(1 << 15) }),
    ];
    let Ok(name) = new_token() else { return Vec::new() };
    let makes = |wanted: Wanted| Group::create(wanted, &name).is_some();
    wanted.into_iter().filter_map(|(controller, wanted)| makes(wanted).then_some(controller)).collect()
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
    fn the_reason_is_the_first_that_is_missing() {
        let group = |dir: Option<&str>, names: &[&str]| Cgroup {
            dir: dir.map(PathBuf::from),
            controllers: names.iter().map(|name| (*name).to_owned()).collect(),
        };
        assert_eq!(group(None, &[]).why_unlimited("memory"), "cgroup version 2 is not mounted");
        let other = group(Some("/x"), &["pids"]).why_unlimited("memory");
        assert_eq!(other, "the memory controller is not given to this cgroup");
        let foreign = group(Some("/x"), &["memory"]).why_unlimited("memory");
        assert_eq!(foreign, "this cgroup is not delegated to the caller");
    }
}
