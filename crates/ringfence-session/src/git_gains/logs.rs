//! The reflogs of a repository: git takes commits from them (`stash@{1}`, `HEAD@{2}`, `git checkout -`), and any process may write them.

use std::collections::{BTreeMap, HashMap, HashSet};

use ringfence_git::object_id::{ObjectFormat, ObjectId};
use ringfence_surface::AbsPath;

use super::disk::{Disk, FileState};

/// More reflogs are not looked at.
const MOST_LOGS: usize = 50_000;
/// More names of one id are not printed: most are in the reflogs of `HEAD` and of a branch.
const MOST_PLACES: usize = 3;
/// More bytes of reflogs are not read.
const MOST_BYTES: u64 = 64 << 20;

/// The reflogs at the start of a session.
#[derive(Debug)]
pub(super) struct Logs {
    states: BTreeMap<AbsPath, FileState>,
    /// Every id that they contain.
    ids: HashSet<ObjectId>,
}

/// What reflogs contain that they did not contain at the start.
#[derive(Debug)]
pub(super) struct LoggedIds {
    /// Each id with names by which git takes it.
    pub(super) new: Vec<(ObjectId, Vec<String>)>,
    /// A reflog that was not read to its end.
    pub(super) unread: Option<String>,
}

impl Logs {
    pub(super) fn read(disk: &Disk, common_dir: &AbsPath, format: ObjectFormat) -> Self {
        let mut left = MOST_BYTES;
        let (mut states, mut ids) = (BTreeMap::new(), HashSet::new());
        for (path, _) in logs(disk, common_dir) {
            let Some(state) = disk.state(&path) else { continue };
            states.insert(path.clone(), state);
            // What is not read counts as new when the file changes.
            if let Some(text) = read(disk, &path, state, &mut left) {
                ids.extend(text.split(|byte| *byte == b'\n').flat_map(|line| ids_in(format, line)).map(|(_, id)| id));
            }
        }
        Self { states, ids }
    }

    /// What the reflogs that were changed since contain.
    pub(super) fn gained(&self, disk: &Disk, common_dir: &AbsPath, format: ObjectFormat) -> LoggedIds {
        let mut left = MOST_BYTES;
        let mut gained = LoggedIds { new: Vec::new(), unread: None };
        let mut seen: HashMap<ObjectId, usize> = HashMap::new();
        for (path, name) in logs(disk, common_dir) {
            let Some(state) = disk.state(&path).filter(|state| self.states.get(&path) != Some(state)) else { continue };
            let Some(text) = read(disk, &path, state, &mut left) else {
                gained.unread.get_or_insert(name);
                continue;
            };
            let lines = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
            // The last line is `@{0}`.
            for (number, line) in lines.rev().enumerate() {
                for (at, id) in ids_in(format, line).filter(|(_, id)| !self.ids.contains(id)) {
                    let place = match at {
                        // It is the value of the entry before.
                        At::Before => format!("{name}@{{{}}}", number + 1),
                        At::After => format!("{name}@{{{number}}}"),
                        At::MovedFrom => format!("`git checkout -` from {name}@{{{number}}}"),
                    };
                    let next = gained.new.len();
                    let at = *seen.entry(id).or_insert(next);
                    match gained.new.get_mut(at) {
                        None => gained.new.push((id, vec![place])),
                        Some((_, places)) if places.len() >= MOST_PLACES || places.contains(&place) => {}
                        Some((_, places)) => places.push(place),
                    }
                }
            }
        }
        gained
    }
}

/// Every reflog, with the name of its ref as git prints it.
fn logs(disk: &Disk, common_dir: &AbsPath) -> Vec<(AbsPath, String)> {
    let mut left = vec![(common_dir.child(b"logs"), Vec::new())];
    let trees = common_dir.child(b"worktrees");
    for (name, _) in disk.names(&trees).into_iter().filter(|(_, is_directory)| *is_directory) {
        left.push((trees.child(&name).child(b"logs"), [b"worktrees/", name.as_slice()].concat()));
    }
    let mut found = Vec::new();
    while let Some((dir, front)) = left.pop() {
        for (entry, is_directory) in disk.names(&dir) {
            let name = if front.is_empty() { entry.clone() } else { [front.as_slice(), b"/", &entry].concat() };
            if found.len() >= MOST_LOGS {
                return found;
            }
            if is_directory {
                left.push((dir.child(&entry), name));
            } else {
                let short = [b"refs/heads/".as_slice(), b"refs/"].iter().find_map(|front| name.strip_prefix(*front));
                let short = short.unwrap_or(&name);
                found.push((dir.child(&entry), ringfence_surface::Shown(short).to_string()));
            }
        }
    }
    // `HEAD` first: most entries are in several reflogs, and the first is printed.
    found.sort_by_key(|(path, name)| (name != "HEAD", path.clone()));
    found
}

fn read(disk: &Disk, path: &AbsPath, state: FileState, left: &mut u64) -> Option<Vec<u8>> {
    *left = left.checked_sub(state.size())?;
    disk.read(path)
}

/// Where an id is in a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    Before,
    After,
    /// In the message of a change of `HEAD`: `git checkout -` returns to it.
    MovedFrom,
}

/// The ids in a line that git uses.
fn ids_in(format: ObjectFormat, line: &[u8]) -> impl Iterator<Item = (At, ObjectId)> {
    const MOVED: &[u8] = b"\tcheckout: moving from ";
    let message = line.iter().position(|byte| *byte == b'\t').map_or(b"".as_slice(), |tab| &line[tab..]);
    let from = message.strip_prefix(MOVED).and_then(|rest| rest.split(|byte| *byte == b' ').next());
    let mut words = line.split(|byte| *byte == b' ');
    let found = [(At::Before, words.next()), (At::After, words.next()), (At::MovedFrom, from)];
    let is_id = move |word: &&[u8]| word.len() == 2 * format.id_len();
    let found = found.into_iter().filter_map(move |(at, word)| Some((at, ObjectId::from_hex(word.filter(is_id)?)?)));
    found.filter(|(_, id)| !id.is_zero())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a8_ids_of_a_reflog_line() {
        let id = |digit: &str| ObjectId::from_hex(digit.repeat(40).as_bytes()).unwrap();
        let check = |line: &str, expected: &[&str]| {
            let found: Vec<ObjectId> = ids_in(ObjectFormat::Sha1, line.as_bytes()).map(|(_, id)| id).collect();
            assert_eq!(found, expected.iter().map(|digit| id(digit)).collect::<Vec<_>>(), "{line}");
        };
        let (zero, one, two, upper) = ("0".repeat(40), "1".repeat(40), "2".repeat(40), "A".repeat(40));
        check(&format!("{zero} {one} u <u> 1700000000 +0000\tcommit (initial): words"), &["1"]);
        check(&format!("{one} {one} u <u> 1 +0000\tcheckout: moving from {two} to main"), &["1", "1", "2"]);
        check(&format!("{one} {one} u <u> 1 +0000\tcheckout: moving from {upper} to {two}"), &["1", "1", "a"]);
        // The subject of a commit is not what git resolves.
        check(&format!("{one} {one} u <u> 1 +0000\tcommit: Revert {two} on main"), &["1", "1"]);
        check(&format!("{one}x {two}1"), &[]);
        check("", &[]);
    }
}
