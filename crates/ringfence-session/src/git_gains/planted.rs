//! Repositories that a session left and that nothing judged: what the broker should have refused is found at the end, and named.
//!
//! The same list and grammars that the broker applies are applied to every git directory in what the session could write. Only what was
//! made or changed since the session began counts, by the time that the kernel sets (ctime): no process inside can set it back.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::CString;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use ringfence_git::layout::{self, FileKind, file_kind};
use ringfence_git::settings::Age;
use ringfence_surface::{AbsPath, Effect, Role, Rule, Sense, Surface};
use rustix::fs::{AtFlags, FileType};

use super::GitSnapshot;
use super::disk::Disk;
use super::gain::{Gain, GainKind};
use crate::git_files::{
    Content, ContentJudge, GitPlace, HostPaths, References, Refusal, Regions, is_git_directory, is_own,
};

/// More names are not looked at, and the report says so.
const MOST_NAMES: usize = 500_000;
/// More findings are not listed.
const MOST_FOUND: usize = 64;

/// Now, in the time of files. The kernel dates changes by a clock that is some milliseconds behind; a session takes longer to start.
pub(super) fn now() -> (i64, i64) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    (i64::try_from(now.as_secs()).unwrap_or(i64::MAX), i64::from(now.subsec_nanos()))
}

/// Where a directory is that is looked at.
#[derive(Debug, Clone)]
enum In {
    /// In no git directory.
    Ordinary,
    /// In this git directory, below this path.
    Git(Arc<AbsPath>, Vec<u8>),
}

struct Search<'s> {
    disk: &'s Disk,
    surface: &'s Surface,
    regions: Regions,
    references: References,
    root: Arc<OwnedFd>,
    since: (i64, i64),
    /// The git directories of the start.
    known: BTreeSet<AbsPath>,
    seen: usize,
    /// By git directory, or by work tree for a `.git` file: what was found, and why it is refused.
    found: BTreeMap<AbsPath, Vec<(Vec<u8>, String)>>,
    count: usize,
}

impl GitSnapshot {
    /// What git would take for a repository in what the session could write, and that has something that the broker refuses.
    pub(super) fn planted(&self, surface: &Surface) -> Vec<Gain> {
        let mut search = Search {
            disk: &self.disk,
            surface,
            regions: Regions::new(),
            references: References::new(),
            root: self.disk.root(),
            since: self.since,
            known: self
                .repositories
                .iter()
                .flat_map(|one| one.trees.keys().chain([&one.common_dir]))
                .cloned()
                .collect(),
            seen: 0,
            found: BTreeMap::new(),
            count: 0,
        };
        // What it only reads, such as the whole host, is not searched.
        let is_worked_on = |rule: &&Rule| {
            matches!(rule.effect, Effect::Write(Role::WorkingDir | Role::GitDir | Role::Write))
                && rule.sense == Sense::Rule
        };
        let places = surface.allowed_writes().filter(is_worked_on).filter_map(|rule| rule.pattern.base());
        let mut roots: Vec<&AbsPath> = places.filter(|place| place.parent().is_some()).collect();
        roots.sort();
        roots.dedup_by(|later, first| later.is_within(first));
        for root in &roots {
            search.look_through(root);
        }
        let planted =
            search.found.into_iter().map(|(repository, found)| Gain { repository, kind: GainKind::Planted(found) });
        let mut gains: Vec<Gain> = planted.collect();
        if let Some(root) = roots.first().filter(|_| search.seen > MOST_NAMES) {
            let why = format!(
                "more than {MOST_NAMES} names; the search for git directories that the broker refuses stopped there"
            );
            gains.push(Gain { repository: (*root).clone(), kind: GainKind::Unknown(why) });
        }
        // Decoys must not hide the rest.
        if let (Some(root), Some(more @ 1..)) = (roots.first(), search.count.checked_sub(MOST_FOUND)) {
            let why = format!("{more} more files of git directories that the broker refuses are not listed");
            gains.push(Gain { repository: (*root).clone(), kind: GainKind::Unknown(why) });
        }
        gains
    }
}

impl Search<'_> {
    fn look_through(&mut self, top: &AbsPath) {
        let mut left = vec![(top.clone(), In::Ordinary)];
        while let Some((at, above)) = left.pop() {
            if self.seen > MOST_NAMES || is_own(self.surface, &at) {
                continue;
            }
            let Some(dir) = self.disk.directory(&at) else { continue };
            let names = self.disk.kinds(&dir, &at);
            self.seen += names.len();
            let has = |name: &[u8]| names.iter().any(|(known, _)| known == name);
            let here = match above {
                // What belongs to a linked work tree is a part of its repository.
                In::Git(root, below) if below.starts_with(b"worktrees/") => In::Git(root, below),
                above if at.file_name() == Some(b".git") || is_git_directory(has) => {
                    if let In::Git(outer, below) = &above
                        && !layout::is_place_of_git_directory(below)
                        && self.is_recent(&dir, b".")
                    {
                        self.note(outer, below, &Refusal::Misplaced(at.clone()));
                    }
                    In::Git(Arc::new(at.clone()), Vec::new())
                }
                // A work tree in the directory of a bare repository.
                In::Git(_, below) if layout::is_foreign_directory(&below) && has(b".git") => In::Ordinary,
                above => above,
            };
            for (name, kind) in &names {
                let inner = match &here {
                    In::Ordinary => {
                        if name == b".git" && *kind == FileType::RegularFile {
                            self.look_at_git_file(&dir, &at);
                        }
                        In::Ordinary
                    }
                    In::Git(root, below) => {
                        let relative =
                            if below.is_empty() { name.clone() } else { [below.as_slice(), b"/", name].concat() };
                        self.look_at(&dir, (root, &at), &relative, (name, *kind));
                        In::Git(Arc::clone(root), relative)
                    }
                };
                // Nothing but objects can be in there, and there are many of them.
                let is_fan_out = matches!(&inner, In::Git(_, relative) if is_fan_out(relative));
                if *kind == FileType::Directory && !is_fan_out {
                    left.push((at.child(name), inner));
                }
            }
        }
    }

    fn look_at(
        &mut self,
        dir: &OwnedFd,
        (root, at): (&Arc<AbsPath>, &AbsPath),
        relative: &[u8],
        (name, kind): (&[u8], FileType),
    ) {
        let file = file_kind(relative);
        // The user's own git writes to the user's repositories meanwhile, and its files there are guarded by mounts. Git runs no sample.
        let is_known = self.known.contains(root.as_ref()) && !name.eq_ignore_ascii_case(b".git");
        let refusal = match (kind, file) {
            (FileType::Directory, _) => return,
            (FileType::RegularFile, _) if is_known || name.ends_with(b".sample") => return,
            (FileType::RegularFile, FileKind::Closed) => Refusal::Closed,
            (FileType::RegularFile, FileKind::Settings | FileKind::Vetted(_)) => {
                if !self.is_recent(dir, name) {
                    return;
                }
                let content = match file {
                    FileKind::Vetted(grammar) => Content::Vetted(grammar),
                    _ => Content::Settings,
                };
                let git = GitPlace { root: root.as_ref().clone(), relative: relative.to_vec(), age: Age::New };
                match self.judge(content, at, Some(&git), name) {
                    Ok(()) => return,
                    Err(refusal) => refusal,
                }
            }
            // What else is in a repository that was made inside is not compared.
            (FileType::RegularFile, _) => return,
            _ => Refusal::Link,
        };
        if self.is_recent(dir, name) {
            self.note(root, relative, &refusal);
        }
    }

    /// A `.git` file must name a git directory that is judged, too.
    fn look_at_git_file(&mut self, dir: &OwnedFd, tree: &AbsPath) {
        if self.is_recent(dir, b".git")
            && let Err(refusal) = self.judge(Content::GitFile, tree, None, b".git")
        {
            self.note(tree, b".git", &refusal);
        }
    }

    fn judge(&self, content: Content, at: &AbsPath, git: Option<&GitPlace>, name: &[u8]) -> Result<(), Refusal> {
        let host = &HostPaths::new(&self.root, self.surface);
        let judge = ContentJudge {
            host,
            surface: self.surface,
            regions: &self.regions,
            references: &self.references,
            root: &self.root,
        };
        let text = self.disk.read(&at.child(name)).ok_or(Refusal::Unreadable)?;
        judge.judge(content, (at, git), &text, b"").map(drop)
    }

    fn is_recent(&self, dir: &OwnedFd, name: &[u8]) -> bool {
        let Ok(name) = CString::new(name) else { return false };
        let status = rustix::fs::statat(dir, name.as_c_str(), AtFlags::SYMLINK_NOFOLLOW);
        status.is_ok_and(|status| (status.st_ctime, status.st_ctime_nsec as i64) >= self.since)
    }

    fn note(&mut self, repository: &AbsPath, path: &[u8], refusal: &Refusal) {
        self.count += 1;
        if self.count <= MOST_FOUND {
            self.found.entry(repository.clone()).or_default().push((path.to_vec(), refusal.to_string()));
        }
    }
}

/// `objects/ab`.
fn is_fan_out(relative: &[u8]) -> bool {
    matches!(relative.strip_prefix(b"objects/"), Some([_, _]))
}
