//! What an order that was given inside a session may find out of the host: what the session itself can see.

use ringfence_surface::curated::system::HIDDEN_IN_HOST_VIEW;
use ringfence_surface::{AbsPath, Access, Because, Effect, GitFact, GitRun, Look, PathFact, Role, Surface};

/// Looks at the host as a session sees it. What the session has of its own (`/tmp`) counts as missing: the host's file of that name is
/// another. Without this an order would follow the host's symbolic links, and its refusal would tell where they lead.
pub(super) struct SessionLook<'s> {
    surface: &'s Surface,
    host: &'s mut dyn Look,
}

impl<'s> SessionLook<'s> {
    pub(super) fn new(surface: &'s Surface, host: &'s mut dyn Look) -> Self {
        Self { surface, host }
    }

    fn is_shown(&self, path: &AbsPath) -> bool {
        let verdict = self.surface.decide(path, Access::Read);
        let is_hidden = || {
            HIDDEN_IN_HOST_VIEW.iter().any(|dir| {
                path.as_bytes().strip_prefix(dir.as_bytes()).is_some_and(|rest| matches!(rest, [] | [b'/', ..]))
            })
        };
        match verdict.because {
            Because::Rule(rule) => {
                verdict.is_allowed()
                    && !matches!(rule.effect, Effect::Read(Role::Private) | Effect::Write(Role::Private))
            }
            Because::View(_) | Because::OnlyReadable(_) => verdict.is_allowed() && !is_hidden(),
        }
    }
}

impl Look for SessionLook<'_> {
    fn path(&mut self, path: &AbsPath) -> PathFact {
        // A grant is known by the name that it was written with, such as `/bin` where that is a link.
        let is_written =
            |surface: &Surface| surface.allowed_reads().any(|rule| rule.text.as_bytes() == path.as_bytes());
        if self.is_shown(path) || is_written(self.surface) {
            return self.host.path(path);
        }
        let is_above = |rule: &ringfence_surface::Rule| rule.pattern.base().is_some_and(|base| base.is_within(path));
        if self.surface.allowed_reads().any(is_above) { PathFact::Directory } else { PathFact::Missing }
    }

    fn git(&mut self, dot_git: &AbsPath) -> Option<GitFact> {
        self.is_shown(dot_git).then(|| self.host.git(dot_git))?
    }

    fn git_runs(&mut self, git_dir: &AbsPath, tree: &AbsPath) -> Vec<GitRun> {
        if self.is_shown(git_dir) { self.host.git_runs(git_dir, tree) } else { Vec::new() }
    }
}
