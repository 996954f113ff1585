//! The guards of the session, and whoever keeps them.

use std::any::Any;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ringfence_surface::{AbsPath, Shown, Surface};
use ringfence_sys::memory;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{Pid, WaitId, WaitIdOptions};

use crate::audit::What;
use crate::git_gains::GitSnapshot;
use crate::keeper::{Found, Guarded, Keeper};
use crate::live::Cover;
use crate::text::Bytes;

use super::clients::KEPT;
use super::events::Notice;
use super::{Desk, Gives};

/// A session that ends before this has nobody look around in its project: what is guarded when it starts is guarded.
const SETTLE: Duration = Duration::from_millis(25);

/// Has a child of ours ended? Somebody else waits for it.
fn has_ended(child: Pid) -> bool {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    matches!(rustix::process::waitid(WaitId::Pid(child), options), Ok(Some(_)))
}

/// A process that is ending leaves its view a moment before it has ended, and one that has left it has no table of mounts.
fn has_left_its_view(child: Pid) -> bool {
    let table = format!("/proc/{}/mountinfo", child.as_raw_pid());
    let opened = rustix::fs::open(table, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
    matches!(opened, Err(Errno::INVAL))
}

impl Desk {
    /// What is to be kept as it is while the session runs, where that can be done.
    pub fn guard(&mut self, surface: Surface, guarded: Option<Guarded>) {
        self.beside_allow = surface.beside_allow();
        self.guarded = guarded;
        self.surface = Some(Arc::new(surface));
    }

    /// What is written inside lands on the host: settings of git, and versions of protected files that these repositories had at the start.
    pub fn know_versions(&mut self, repositories: Arc<GitSnapshot>) {
        self.repositories = Some(repositories);
    }

    /// What only the start needed. A session that lasts gives it back, one that does not has no time for that.
    pub fn let_go_later(&mut self, needless: impl Any) {
        self.needless = Some(Box::new(needless));
    }

    /// From soon on it is kept. `first` is the first process inside.
    pub(crate) fn keep_guards(&mut self, first: Pid) {
        self.keeps_from = Some((Instant::now() + SETTLE, first));
    }

    /// Begins to keep it, and to wait: what only the start needed is given back.
    pub(super) fn begin_to_keep(&mut self) {
        let Some((_, first)) = self.keeps_from.take() else { return };
        self.needless = None;
        let _ = memory::let_go_of_program();
        memory::let_go_of_heap();
        let (Some(guarded), Some(surface)) = (self.guarded.take(), self.surface.clone()) else { return };
        let root = surface.root().clone();
        let view = match self.view.as_ref().map(crate::live::LiveView::of_mounts) {
            Some(Ok(view)) => view,
            Some(Err(cause)) => return self.nobody_watches(&root, &cause.to_string()),
            None => return self.nobody_watches(&root, "the view of this session cannot be changed"),
        };
        let kept = Keeper::start(view, first, surface, guarded)
            .and_then(|keeper| self.clients.watch(keeper.bell(), KEPT).map(|()| keeper));
        match kept {
            Ok(keeper) => self.keeper = Some(keeper),
            // Nobody is left for whom anything is to be kept.
            Err(_) if has_ended(first) || has_left_its_view(first) => {}
            Err(cause) => self.nobody_watches(&root, &cause.to_string()),
        }
    }

    fn nobody_watches(&mut self, below: &AbsPath, why: &str) {
        self.is_found(Found::Unwatched { below: below.clone(), count: 1, why: why.to_owned() });
    }

    /// What the keeper found since it was last asked.
    pub(super) fn kept(&mut self) {
        for found in self.keeper.as_ref().map(Keeper::found).unwrap_or_default() {
            self.is_found(found);
        }
    }

    fn is_found(&mut self, found: Found) {
        let guard = |cover| if cover == Cover::Mask { "deny" } else { "protect" }.to_owned();
        let (line, what) = match found {
            Found::Gap { path, lasted, cover } => {
                let ms = u64::try_from(lasted.as_millis()).unwrap_or(u64::MAX);
                let line = format!("{path} was replaced outside: it had no guard for {ms} ms");
                let path = Bytes::new(path.as_bytes());
                (line, What::Gap { path, guard: guard(cover), ms: Some(ms), why: None })
            }
            Found::Bare { path, cover, why } => {
                let line = format!("{path} was replaced outside and has NO GUARD: {}", Shown(why.as_bytes()));
                self.notices.add_urgent(format!("ringfence: {line}"));
                let path = Bytes::new(path.as_bytes());
                return self.note(What::Gap { path, guard: guard(cover), ms: None, why: Some(why) });
            }
            Found::Unchecked { path, more, why } => {
                let others = if more == 0 { String::new() } else { format!(" and {more} more guarded places") };
                let shown = Shown(why.as_bytes());
                let line = format!(
                    "{path}{others} could not be checked: {shown}; if something outside replaced it, it has no guard"
                );
                self.notices.add_urgent(format!("ringfence: {line}"));
                return self.note(What::Unchecked { path: Bytes::new(path.as_bytes()), more, why });
            }
            Found::Unwatched { below, count, why } => {
                let line = format!(
                    "{count} directories below {below} are not watched ({why}): what others make there is not guarded"
                );
                (line, What::Unwatched { path: Bytes::new(below.as_bytes()), count, why })
            }
            Found::Unheard { count } => {
                let line = format!("{count} more things were replaced, and could not be told one by one");
                (line.clone(), What::Failed { why: line })
            }
        };
        self.notices.add(Notice::Line(format!("ringfence: {line}")));
        self.note(what);
    }

    /// What was given is kept too.
    pub(super) fn keep_given(&mut self, path: &AbsPath, gives: Gives) {
        self.begin_to_keep();
        if let Some(keeper) = &self.keeper {
            keeper.given(path.clone(), gives);
        }
    }

    pub(super) fn keep_taken(&self, path: &AbsPath) {
        if let Some(keeper) = &self.keeper {
            keeper.taken(path.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whoever has ended has no view, and nobody else is taken for one who has.
    #[test]
    fn who_has_left_is_told_from_who_has_not() {
        assert!(!has_left_its_view(rustix::process::getpid()));
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = Pid::from_child(&child);
        // It is not waited for yet: its number is still its own.
        let ended = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        rustix::io::retry_on_intr(|| rustix::process::waitid(WaitId::Pid(pid), ended)).unwrap();
        assert!(has_ended(pid) && has_left_its_view(pid));
        child.wait().unwrap();
        assert!(!has_left_its_view(pid), "nobody is there any more");
    }
}
