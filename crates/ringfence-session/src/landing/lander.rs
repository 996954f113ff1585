//! The thread of the supervisor that puts changes in place.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{self, Sender};
use std::time::{Duration, Instant};

use ringfence_git::layout::{FileKind, file_kind};
use ringfence_git::settings::Age;
use ringfence_surface::{AbsPath, Access, Because, Effect, Surface};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::net::SendFlags;

use super::versions::{Host, Versions};
use super::wire::{LONGEST, Landing, NotLanded, Outcome, SettingsFile};
use crate::broker::wire::Told;
use crate::git_files::{ContentJudge, GitPlace, HostPaths, HostView as _, References, Region, Regions, put, read_all};
use crate::git_gains::{GitSnapshot, KnownVersions};
use crate::place::open_root;
use crate::temporary::Journal;

/// The broker waits a little longer for an answer. What it no longer waits for is not done.
const PATIENCE: Duration = Duration::from_secs(25);

/// Puts changes in place, one after the other, as long as this exists.
#[derive(Debug)]
pub(crate) struct Lander {
    requests: Sender<(u64, OwnedFd, Instant)>,
}

impl Lander {
    /// Starts the thread. Answers go to the broker. `repositories` are those of the start, where changes reach the host at once;
    /// without them nothing is put in place.
    ///
    /// # Errors
    /// When no thread can be started.
    pub(crate) fn start(
        (surface, repositories): (Arc<Surface>, Option<Arc<GitSnapshot>>),
        broker: OwnedFd,
        journal: Journal,
    ) -> io::Result<Self> {
        let (requests, received) = mpsc::channel::<(u64, OwnedFd, Instant)>();
        let root = Arc::new(open_root()?);
        let run = move || {
            let versions = repositories.map(|repositories| Versions::new(KnownVersions::new(repositories)));
            let mut work = Work { surface: &surface, root: &root, journal: &journal, versions };
            for (id, request, since) in received {
                let carry_out = || work.carry_out(&request, since + PATIENCE);
                // The broker waits for an answer whatever happens.
                let landed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(carry_out));
                let (outcome, about) = landed.unwrap_or((Outcome::Failed(Errno::IO), None));
                let told = Told::Landed { id, outcome: outcome.to_number(), about }.encode();
                // A broker that does not listen has ended.
                let _ = rustix::net::send(&broker, &told, SendFlags::NOSIGNAL);
            }
        };
        std::thread::Builder::new().name("lander".to_owned()).stack_size(256 << 10).spawn(run)?;
        Ok(Self { requests })
    }

    /// Asks for a change. What it is lies in a file in memory.
    pub(crate) fn ask(&self, id: u64, request: OwnedFd) {
        // The thread ends only with this.
        let _ = self.requests.send((id, request, Instant::now()));
    }
}

struct Work<'l> {
    surface: &'l Surface,
    /// The host's root.
    root: &'l Arc<OwnedFd>,
    journal: &'l Journal,
    /// Where the state of repositories at the start is known.
    versions: Option<Versions>,
}

impl Work<'_> {
    /// What came of it, and which file it is about where the request does not say.
    fn carry_out(&mut self, request: &OwnedFd, until: Instant) -> (Outcome, Option<AbsPath>) {
        let text = match read_all(request.as_fd(), LONGEST) {
            Ok(text) => text.unwrap_or_default(),
            Err(errno) => return (Outcome::Failed(errno), None),
        };
        let mut about = None;
        let landed = match Landing::decode(&text) {
            Some(Landing::Settings { path, kind, text }) => self.put_settings(&path, kind, &text),
            Some(Landing::Version { path, mode, text, repositories }) => {
                self.with_versions(|versions, host| versions.put(host, (&path, repositories), (mode, &text), until))
            }
            Some(Landing::Entry { path, change, repositories }) => {
                self.with_versions(|versions, host| versions.change(host, (&path, repositories), change, until))
            }
            Some(Landing::Moved { from, to }) => self.with_versions(|versions, _| {
                versions.moved(&from, &to);
                Ok(())
            }),
            Some(Landing::Vacant { path }) => match HostPaths::new(self.root, self.surface).is_vacant(&path) {
                true => Ok(()),
                false => Err(NotLanded::Path.into()),
            },
            Some(Landing::Foresee { git_dir, command }) => {
                self.with_versions(|versions, host| match versions.foresee(host, &git_dir, &command) {
                    None => Ok(()),
                    Some((path, cause)) => {
                        about = Some(path);
                        Err(NotLanded::Version(cause).into())
                    }
                })
            }
            None => Err(NotLanded::Malformed.into()),
        };
        let outcome = match landed {
            Ok(()) => Outcome::Done,
            Err(Failure::Not(why)) => Outcome::Not(why),
            Err(Failure::Failed(errno)) => Outcome::Failed(errno),
        };
        (outcome, about)
    }

    fn with_versions(
        &mut self,
        change: impl FnOnce(&mut Versions, Host<'_>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let host = Host { surface: self.surface, root: self.root, journal: self.journal };
        change(self.versions.as_mut().ok_or(NotLanded::Path)?, host)
    }

    fn put_settings(&self, path: &AbsPath, kind: SettingsFile, text: &[u8]) -> Result<(), Failure> {
        // What is written inside waits for a review, or is thrown away: nothing changes on the host.
        if self.versions.is_none() {
            return Err(NotLanded::Path.into());
        }
        let (parent, name) = path.parent().zip(path.file_name()).ok_or(NotLanded::Path)?;
        // Regions of a host that others change are looked up anew each time.
        let (regions, references) = (Regions::new(), References::new());
        let host = &HostPaths::new(self.root, self.surface);
        let judge =
            ContentJudge { surface: self.surface, regions: &regions, references: &references, host, root: self.root };
        let dir = judge.open_without_links(&parent, OFlags::PATH | OFlags::DIRECTORY).ok_or(NotLanded::Path)?;
        let git = match regions.of(self.surface, dir.as_fd(), &parent)? {
            Region::Git(region) => {
                Some(GitPlace { relative: region.entry(name), root: region.root, age: Age::Existing })
            }
            Region::Ordinary => None,
        };
        let is_it = match (&git, kind) {
            (Some(git), SettingsFile::Repository) => file_kind(&git.relative) == FileKind::Settings,
            (None, SettingsFile::Modules) => name == b".gitmodules",
            _ => false,
        };
        if !is_it || !self.is_protected_by_default(path, kind) {
            return Err(NotLanded::Path.into());
        }
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
        let before = judge.open_without_links(path, flags);
        let (before, mode, owner) = match before {
            Some(file) => {
                let status = rustix::fs::fstat(&file)?;
                let text = read_all(file.as_fd(), LONGEST)?.ok_or(NotLanded::Content)?;
                (text, Mode::from_raw_mode(status.st_mode & 0o777), (status.st_uid, status.st_gid))
            }
            None => {
                let status = rustix::fs::fstat(&dir)?;
                (Vec::new(), Mode::from_raw_mode(0o644), (status.st_uid, status.st_gid))
            }
        };
        let anew = judge
            .judge(kind.content(), (&parent, git.as_ref()), text, &before)
            .map_err(|_| Failure::from(NotLanded::Content))?;
        Ok(put(dir.as_fd(), name, anew.as_deref().unwrap_or(text), (mode, Some(owner)), Some(self.journal))?)
    }

    /// Is it only a built-in rule that protects the file? What a policy protects stays as it is.
    fn is_protected_by_default(&self, path: &AbsPath, kind: SettingsFile) -> bool {
        let verdict = self.surface.decide(path, Access::Write);
        match verdict.because {
            Because::Rule(rule) if rule.is_of_git_directory() => true,
            Because::Rule(rule) => {
                kind == SettingsFile::Modules && rule.effect == Effect::Protect && !rule.source.is_written()
            }
            Because::OnlyReadable(_) | Because::View(_) => false,
        }
    }
}

/// Why something is not in place.
pub(super) enum Failure {
    Not(NotLanded),
    Failed(Errno),
}

impl From<NotLanded> for Failure {
    fn from(why: NotLanded) -> Self {
        Self::Not(why)
    }
}

impl From<Errno> for Failure {
    fn from(errno: Errno) -> Self {
        Self::Failed(errno)
    }
}
