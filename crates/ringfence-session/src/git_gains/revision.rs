//! Which commit a word of a command line names, as git would find it.

use std::collections::BTreeMap;

use ringfence_git::history::History;
use ringfence_git::object::ReadBudget;
use ringfence_git::object_id::ObjectId;
use ringfence_git::replacement::{Step, steps};
use ringfence_surface::AbsPath;

use super::disk::{Disk, DiskObjects};

/// The fewest digits of a shortened id.
const SHORTEST: usize = 4;

/// The refs of a repository as they are now, seen from one work tree.
pub(super) struct Revisions<'d> {
    disk: &'d Disk,
    git_dir: AbsPath,
    common_dir: AbsPath,
    refs: BTreeMap<Vec<u8>, ObjectId>,
}

impl<'d> Revisions<'d> {
    pub(super) fn read(disk: &'d Disk, git_dir: &AbsPath, common_dir: &AbsPath) -> Self {
        let refs = disk.refs(common_dir);
        Self { disk, git_dir: git_dir.clone(), common_dir: common_dir.clone(), refs }
    }

    /// The commit, if it is found with certainty.
    pub(super) fn resolve(
        &self,
        word: &[u8],
        history: &mut History<DiskObjects>,
        budget: &mut ReadBudget,
    ) -> Option<ObjectId> {
        let (base, steps) = steps(word)?;
        let tip = self.base(base, history, budget)?;
        let mut id = history.peel(&tip, budget).ok()??;
        for step in steps {
            let (parent, times) = match step {
                Step::Parent(0) => continue,
                Step::Parent(number) => (number - 1, 1),
                Step::Ancestor(times) => (0, times),
            };
            for _ in 0..times {
                id = *history.commit(&id, budget).ok()?.parents.get(parent)?;
            }
        }
        Some(id)
    }

    fn base(&self, word: &[u8], history: &mut History<DiskObjects>, budget: &mut ReadBudget) -> Option<ObjectId> {
        if word == b"-" || word == b"@{-1}" {
            let before = self.previous_branch()?;
            return self.base(&before, history, budget);
        }
        if let Some((name, number)) = word.strip_suffix(b"}").and_then(split_log) {
            return self.logged(name, number);
        }
        self.named(if word == b"@" { b"HEAD" } else { word })
            .or_else(|| ObjectId::from_hex(word))
            .or_else(|| self.shortened(word, history, budget))
            .or_else(|| self.of_one_remote(word))
    }

    fn named(&self, name: &[u8]) -> Option<ObjectId> {
        let is_own = !name.is_empty() && name.iter().all(|byte| byte.is_ascii_uppercase() || *byte == b'_');
        if is_own && let Some(id) = self.of_git_dir(name) {
            return Some(id);
        }
        let fronts: [&[u8]; 5] = [b"", b"refs/", b"refs/tags/", b"refs/heads/", b"refs/remotes/"];
        let found = fronts.iter().find_map(|front| self.refs.get(&[front, name].concat()));
        found.or_else(|| self.refs.get(&[b"refs/remotes/", name, b"/HEAD"].concat())).copied()
    }

    /// `HEAD`, `FETCH_HEAD`, `ORIG_HEAD`, ...
    fn of_git_dir(&self, name: &[u8]) -> Option<ObjectId> {
        let text = self.disk.read(&self.git_dir.child(name))?;
        if let Some(target) = text.strip_prefix(b"ref: ") {
            return self.refs.get(target.trim_ascii()).copied();
        }
        let mut lines = text.split(|byte| *byte == b'\n');
        let line = lines.find(|line| !line.windows(13).any(|part| part == b"not-for-merge"))?;
        ObjectId::from_hex(line.split(|byte| !byte.is_ascii_hexdigit()).next()?)
    }

    fn log(&self, name: &[u8]) -> Option<Vec<u8>> {
        let dir = if name == b"HEAD" { &self.git_dir } else { &self.common_dir };
        self.disk.read(&AbsPath::lexical(&[dir.as_bytes(), b"/logs/", name].concat()).ok()?)
    }

    /// Where a ref was so many changes ago.
    fn logged(&self, name: &[u8], number: usize) -> Option<ObjectId> {
        let names: [&[u8]; 4] = [b"", b"refs/", b"refs/heads/", b"refs/remotes/"];
        let name = if name.is_empty() { b"HEAD" } else { name };
        let log = names.iter().find_map(|front| self.log(&[front, name].concat()))?;
        let line = log.split(|byte| *byte == b'\n').rev().filter(|line| !line.is_empty()).nth(number)?;
        ObjectId::from_hex(line.split(|byte| *byte == b' ').nth(1)?)
    }

    fn previous_branch(&self) -> Option<Vec<u8>> {
        const MOVING: &[u8] = b"checkout: moving from ";
        let log = self.log(b"HEAD")?;
        let mut lines = log.split(|byte| *byte == b'\n').rev();
        lines.find_map(|line| {
            let at = line.windows(MOVING.len()).position(|part| part == MOVING)?;
            line[at + MOVING.len()..].split(|byte| *byte == b' ').next().map(<[u8]>::to_vec)
        })
    }

    fn shortened(
        &self,
        digits: &[u8],
        history: &mut History<DiskObjects>,
        budget: &mut ReadBudget,
    ) -> Option<ObjectId> {
        if digits.len() < SHORTEST || !digits.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')) {
            return None;
        }
        let mut found = history.packed_with_prefix(digits);
        let (front, rest) = digits.split_at(2);
        for (name, _) in self.disk.names(&self.common_dir.child(b"objects").child(front)) {
            found.extend(ObjectId::from_hex(&[front, &name].concat()).filter(|_| name.starts_with(rest)));
        }
        found.sort();
        found.dedup();
        found.retain(|id| matches!(history.peel(id, budget), Ok(Some(_))));
        if let [id] = found.as_slice() { Some(*id) } else { None }
    }

    /// A branch that only one remote has, for `git switch NAME`.
    fn of_one_remote(&self, name: &[u8]) -> Option<ObjectId> {
        let mut found = self.refs.iter().filter(|(full, _)| {
            let below = full.strip_prefix(b"refs/remotes/").unwrap_or_default();
            below.iter().position(|byte| *byte == b'/').is_some_and(|at| &below[at + 1..] == name)
        });
        let (_, id) = found.next()?;
        found.next().is_none().then_some(*id)
    }
}

/// `NAME@{N}`, without the brace at the end.
fn split_log(word: &[u8]) -> Option<(&[u8], usize)> {
    let at = word.windows(2).position(|two| two == b"@{")?;
    Some((&word[..at], std::str::from_utf8(&word[at + 2..]).ok()?.parse().ok()?))
}
