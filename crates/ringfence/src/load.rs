//! Finds and reads the policy files that hold here, and puts them in their order.

mod bases;
mod request;

use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use ringfence_surface::{
    AbsPath, Dropped, Followed, HostFacts, Inputs, Layer, Level, Look, Omission, Request, Resolved, Trust, Via,
    Worktree, follow, resolve,
};

#[cfg(target_os = "linux")]
use ringfence_surface::pool_of;

use crate::cli::PolicyArgs;
use crate::error::Failure;
use crate::host::{Recorder, facts, os_path};
use crate::remembered::Remembered;
use crate::trust::{self, ContentHash, Known};

/// The project's file.
pub(crate) const PROJECT_FILE: &[u8] = b"ringfence.toml";

/// A policy resolved on a host.
pub(crate) struct Here {
    pub(crate) inputs: Inputs,
    pub(crate) facts: HostFacts,
    pub(crate) resolved: Resolved,
}

/// The project's file with what it extends.
pub(crate) struct Project {
    /// What is extended comes first, the file itself last.
    pub(crate) layers: Vec<Layer>,
    pub(crate) known: Known,
    pub(crate) hash: ContentHash,
}

/// Reads policy files on this host, and remembers what it looked at.
pub(crate) struct Loader<'m> {
    /// The administrator's file. Only `main` says where it is: a way to name another would be a way around the ceiling.
    managed: &'m Path,
    facts: HostFacts,
    look: Recorder,
    /// Of the session, where it has one of its own.
    worktree: Option<Worktree>,
    /// A text that is read in the place of what a file says.
    said: Option<(AbsPath, String)>,
    /// Asks the user whether packs that are new in a project take part.
    asks: Option<fn(&[NewPack]) -> bool>,
}

/// A pack that a project asks for and did not when a session last ran in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NewPack {
    pub(crate) name: &'static str,
    /// The file that chooses it.
    pub(crate) marker: &'static str,
}

/// The packs that wait for the user.
pub(crate) fn new_packs(omissions: &[Omission]) -> Vec<NewPack> {
    let new = omissions.iter().filter_map(|omission| match omission.why {
        Dropped::NewPack { name, marker } => Some(NewPack { name, marker }),
        _ => None,
    });
    new.collect()
}

impl<'m> Loader<'m> {
    /// For this host as it is now.
    pub(crate) fn new(managed: &'m Path) -> Result<Self, Failure> {
        Ok(Self::with_facts(managed, facts()?))
    }

    /// For a directory and an environment that somebody else found out.
    pub(crate) fn with_facts(managed: &'m Path, facts: HostFacts) -> Self {
        let remembered = facts.own_directories().state.map(|state| Remembered::in_state(&state));
        let look = Recorder::new(facts.all_homes()).remembering(remembered);
        Self { managed, facts, look, worktree: None, said: None, asks: None }
    }

    pub(crate) fn facts(&self) -> &HostFacts {
        &self.facts
    }

    /// As if a project's or a named file said this. Whoever says so has looked at it: it is trusted.
    #[cfg(target_os = "linux")]
    pub(crate) fn saying(mut self, path: AbsPath, text: String) -> Self {
        self.said = Some((path, text));
        self
    }

    /// Packs that the user names for this once, and how the user is asked about others.
    #[cfg(target_os = "linux")]
    pub(crate) fn with_packs(mut self, packs: &[String], asks: Option<fn(&[NewPack]) -> bool>) -> Self {
        self.look.agree(packs.iter().map(String::as_str));
        Self { asks, ..self }
    }

    fn is_said(&self, path: &AbsPath) -> Option<&str> {
        self.said.as_ref().filter(|(said, _)| said == path).map(|(_, text)| text.as_str())
    }

    /// For a session, whose own directories are writable.
    pub(crate) fn in_session(mut self, dir: &AbsPath) -> Self {
        self.facts.session = Some(dir.clone());
        self
    }

    /// With the caches of projects elsewhere.
    #[cfg(target_os = "linux")]
    pub(crate) fn caching_in(mut self, dir: &AbsPath) -> Self {
        self.facts.environment.insert(b"XDG_CACHE_HOME".to_vec(), dir.as_bytes().to_vec());
        self
    }

    /// For a session with a work tree of its own: what holds here holds there.
    #[cfg(target_os = "linux")]
    pub(crate) fn in_worktree(mut self, worktree: Worktree) -> Self {
        self.worktree = Some(worktree);
        self
    }

    /// Where the policy has a repository keep its work trees.
    #[cfg(target_os = "linux")]
    pub(crate) fn pool(&mut self, args: &PolicyArgs, repository: &AbsPath) -> Result<Option<AbsPath>, Failure> {
        let inputs = Inputs { layers: self.layers(args)?, request: self.request(args)? };
        Ok(pool_of(&inputs, &self.facts, &mut self.look, repository))
    }

    fn layers(&mut self, args: &PolicyArgs) -> Result<Vec<Layer>, Failure> {
        let mut layers = self.own()?;
        match &args.policy {
            Some(path) => layers.extend(self.explicit(path)?),
            None => {
                let said = self.said.as_ref().map(|(path, _)| path.clone());
                if let Some(path) = said.map_or_else(|| self.find_project_file(), |path| Ok(Some(path)))? {
                    layers.extend(self.project(os_path(&path))?.layers);
                }
            }
        }
        Ok(layers)
    }

    /// Loads every file that holds here and resolves them.
    pub(crate) fn resolve(mut self, args: &PolicyArgs) -> Result<Here, Failure> {
        let layers = self.layers(args)?;
        let mut request = self.request(args)?;
        if let Some(worktree) = self.worktree.take() {
            // What the user names is seen from where the user is; from now on that is the same place in the work tree.
            for raw in request.references.iter_mut().filter(|raw| !raw.starts_with(b"/")) {
                *raw = [self.facts.cwd.as_bytes(), b"/", raw.as_slice()].concat();
            }
            let twin = worktree.twin(&self.facts.cwd).filter(|twin| os_path(twin).is_dir());
            self.facts.cwd = twin.unwrap_or_else(|| worktree.tree.clone());
            request.worktree = Some(worktree);
        }
        let inputs = Inputs { layers, request };
        let mut found = resolved(&inputs, &self.facts, &mut self.look)?;
        let new = new_packs(&found.omissions);
        if let Some(asks) = self.asks.filter(|_| !new.is_empty())
            && asks(&new)
        {
            self.look.agree(new.iter().map(|pack| pack.name));
            found = resolved(&inputs, &self.facts, &mut self.look)?;
        }
        let resolved = found;
        Ok(Here { inputs, facts: self.look.into_facts(self.facts), resolved })
    }

    /// What the command line asks for.
    pub(crate) fn request(&mut self, args: &PolicyArgs) -> Result<Request, Failure> {
        request::request(self, args)
    }

    /// The files that do not depend on the project: the administrator's and the user's.
    pub(crate) fn own(&mut self) -> Result<Vec<Layer>, Failure> {
        let mut layers = self.optional(self.managed, Level::Managed)?;
        let config = self.facts.own_directories().config.map(|dir| dir.child(b"config.toml"));
        let mut user = match &config {
            Some(config) => self.optional(os_path(config), Level::User)?,
            None => Vec::new(),
        };
        // Where the home directory is the project, what looks like the user's own file came with the project: it narrows.
        for layer in user.iter_mut().filter(|layer| layer.path.is_within(&self.facts.cwd)) {
            (layer.level, layer.via) = (Level::Project(Trust::Untrusted), Via::Extends);
        }
        layers.extend(user);
        Ok(layers)
    }

    /// A file that the user names in the project's place.
    pub(crate) fn explicit(&mut self, path: &Path) -> Result<Vec<Layer>, Failure> {
        bases::with_bases(self, path, Level::Explicit)
    }

    /// The project's file, and whether it is trusted.
    pub(crate) fn project(&mut self, path: &Path) -> Result<Project, Failure> {
        // Trust and root go with the path, so a link would borrow those of another project.
        if std::fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_symlink()) {
            return Err(Failure::LinkedProjectFile { path: path.into() });
        }
        let mut layers = bases::with_bases(self, path, Level::Project(Trust::Untrusted))?;
        let hash = ContentHash::of(layers.iter().map(|layer| (&layer.path, layer.text.text.as_str())));
        let known = layers.last().map_or(Known::Never, |main| match self.is_said(&main.path) {
            Some(_) => Known::AsItIs,
            None => trust::known(&self.facts, &main.path, &hash),
        });
        for layer in &mut layers {
            layer.level = Level::Project(known.trust());
        }
        Ok(Project { layers, known, hash })
    }

    /// The nearest `ringfence.toml`, from the current directory up.
    pub(crate) fn find_project_file(&self) -> Result<Option<AbsPath>, Failure> {
        nearest(&self.facts.cwd, |path| std::fs::symlink_metadata(path).map(|_| ()))
    }

    /// A path from the command line, links followed.
    pub(crate) fn absolute(&mut self, path: &Path) -> Result<AbsPath, Failure> {
        self.followed(path).map(|found| found.path)
    }

    /// The same, with the links on the way.
    pub(crate) fn followed(&mut self, path: &Path) -> Result<Followed, Failure> {
        let followed = follow(&self.facts.cwd, path.as_os_str().as_bytes(), &mut self.look);
        followed.map_err(|why| Failure::BadPath { reason: why.to_string() })
    }

    /// The same host, seen from another directory.
    pub(crate) fn standing_in(mut self, dir: AbsPath) -> Self {
        self.facts.cwd = dir;
        self
    }

    /// Resolves the files that do not depend on the project, and what is asked for.
    #[cfg(target_os = "linux")]
    pub(crate) fn resolve_own(mut self, args: &PolicyArgs) -> Result<Resolved, Failure> {
        let layers = self.own()?;
        let request = self.request(args)?;
        resolved(&Inputs { layers, request }, &self.facts, &mut self.look)
    }

    /// Resolves layers that were read here, as if this was asked on the command line.
    pub(crate) fn resolve_layers(&mut self, layers: Vec<Layer>, args: &PolicyArgs) -> Result<Resolved, Failure> {
        let request = self.request(args)?;
        resolved(&Inputs { layers, request }, &self.facts, &mut self.look)
    }

    fn optional(&mut self, path: &Path, level: Level) -> Result<Vec<Layer>, Failure> {
        // A file that is there but cannot be read is an error: a ceiling that is silently skipped is none.
        match std::fs::symlink_metadata(path) {
            Err(cause) if is_absent(&cause) => Ok(Vec::new()),
            _ => bases::with_bases(self, path, level),
        }
    }
}

/// Resolves, and tells a slip on the command line from a mistake in a file.
pub(crate) fn resolved(inputs: &Inputs, facts: &HostFacts, look: &mut dyn Look) -> Result<Resolved, Failure> {
    resolve(inputs, facts, look).map_err(|said| {
        let has_place = said.iter().any(|diagnostic| diagnostic.place.is_some());
        if !has_place && request::names_unknown(inputs) { Failure::Unknown { said } } else { Failure::Policy { said } }
    })
}

fn is_absent(cause: &io::Error) -> bool {
    matches!(cause.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// The nearest project file. One that may not be looked at is no missing one: without it less would be denied. Only above
/// the current directory a closed door is taken for the end of the project.
fn nearest(cwd: &AbsPath, look: impl Fn(&Path) -> io::Result<()>) -> Result<Option<AbsPath>, Failure> {
    for dir in cwd.ancestors() {
        let path = dir.child(PROJECT_FILE);
        match look(os_path(&path)) {
            Ok(()) => return Ok(Some(path)),
            Err(cause) if is_absent(&cause) => {}
            Err(cause) if cause.kind() == io::ErrorKind::PermissionDenied && dir != *cwd => {}
            Err(source) => return Err(Failure::Read { path: PathBuf::from(os_path(&path)), source }),
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests;
