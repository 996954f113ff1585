//! Where the project is, where the agent starts, which packs it needs.

use super::{Cx, Layer, Level, Reading, Trust, Via, whole};
use crate::curated::packs::{PACKS, Pack};
use crate::facts::PathFact;
use crate::path::AbsPath;
use crate::policy::{Extension, Persona, PlaceRule};
use crate::report::Dropped;
use crate::source::Source;
use crate::text::{Diagnostic, Spanned, did_you_mean, short};

/// Directories of the system that nobody means to hand to an agent.
const SYSTEM_ROOTS: &[&str] = &[
    "/bin", "/boot", "/dev", "/etc", "/lib", "/lib64", "/proc", "/run", "/sbin", "/sys", "/usr", "/var/lib", "/var/run",
];

/// Directories that hold what belongs to many.
const SHARED_ROOTS: &[&str] = &["/home", "/media", "/mnt", "/opt", "/srv"];

impl<'a> Cx<'a> {
    /// The file that speaks for the project.
    fn main_layer(&self, reading: Reading) -> Option<&'a Layer> {
        let is_main =
            |layer: &&&Layer| matches!(layer.level, Level::Project(_) | Level::Explicit) && layer.via == Via::Itself;
        self.layers(reading).iter().rfind(is_main).copied()
    }

    /// The project's root, links followed.
    pub(super) fn root(&mut self, reading: Reading) -> Result<AbsPath, Diagnostic> {
        let Some(layer) = self.main_layer(reading) else {
            return self.default_root();
        };
        let dir = layer.path.parent().unwrap_or_else(AbsPath::root);
        let asked = layer.file.workspace.as_ref().and_then(|w| w.root.as_ref());
        let root = match asked {
            Some(rule) => self.directory(rule, &dir, "the project's root")?,
            None if layer.level == Level::Explicit => self.default_root()?,
            None => self.moved(&dir).unwrap_or(dir),
        };
        let root = match &self.inputs.request.worktree {
            // A file above the repository speaks for more than the session works on.
            Some(worktree) if !root.is_within(&worktree.tree) => worktree.tree.clone(),
            _ => root,
        };
        if layer.level != Level::Project(Trust::Untrusted) {
            return Ok(root);
        }
        // Without trust a file found further up, or its `root`, must not hand out more than the current directory.
        let baseline = self.root(Reading::WithoutUntrusted)?;
        if root.is_within(&baseline) {
            return Ok(root);
        }
        let place = asked.map_or_else(|| whole(layer), |rule| rule.place.clone());
        self.omit(format!("the root {root}"), Source::File(place), Dropped::Untrusted);
        Ok(baseline)
    }

    fn default_root(&mut self) -> Result<AbsPath, Diagnostic> {
        let cwd = self.facts.cwd.clone();
        let is_system =
            |dir: &&str| AbsPath::lexical(dir.as_bytes()).is_ok_and(|dir| cwd.is_within(&dir) || dir.is_within(&cwd));
        let is_shared = |dir: &&str| cwd.as_bytes() == dir.as_bytes();
        if SYSTEM_ROOTS.iter().any(is_system) || SHARED_ROOTS.iter().any(is_shared) {
            let message =
                format!("the current directory is {cwd}, which belongs to the system: it cannot be a project");
            return Err(Diagnostic::refusal(message)
                .help("go to the project's directory, or name one as `workspace.root` in a file for `--policy`"));
        }
        if let Some(home) = self.facts.all_homes().into_iter().find(|home| home.is_within(&cwd)) {
            let message = format!(
                "the current directory is {cwd}: all of {home} but the sensitive and protected names is writable"
            );
            let warning = Diagnostic::warning(None, message).help("go to the project's directory first");
            if !self.said.contains(&warning) {
                self.said.push(warning);
            }
        }
        Ok(cwd)
    }

    /// A directory that a trusted file names. A link inside the project could have been planted by an agent of an earlier
    /// session to move the fence, so none is followed there.
    fn directory(&mut self, rule: &Spanned<PlaceRule>, dir: &AbsPath, what: &str) -> Result<AbsPath, Diagnostic> {
        let refuse = |message: String| Diagnostic::error(rule.place.clone(), message);
        let followed = self.place(&rule.value.0, dir).map_err(|why| refuse(format!("{what} cannot be used: {why}")))?;
        if let Some(link) = followed.links.iter().find(|link| link.is_within(dir)) {
            let message = format!("{what} leads through {link}, a symbolic link that an agent could have planted");
            return Err(refuse(message).help(format!("write the real path: {}", followed.path)));
        }
        if followed.fact != PathFact::Directory {
            return Err(refuse(format!("{what} is {}, which is not a directory", followed.path)));
        }
        Ok(followed.path)
    }

    /// The chosen persona, and the file that describes it.
    pub(super) fn persona(&self, reading: Reading) -> Result<Option<(&'a Persona, &'a Layer)>, Diagnostic> {
        let Some(name) = &self.inputs.request.persona else { return Ok(None) };
        let layers = self.layers(reading);
        let found = layers.iter().rev().find_map(|layer| Some((layer.file.persona.as_ref()?.get(name)?, *layer)));
        if found.is_some() || reading == Reading::WithoutUntrusted {
            return Ok(found);
        }
        let known =
            layers.iter().flat_map(|layer| layer.file.persona.iter().flat_map(|p| p.keys().map(String::as_str)));
        Err(unknown_name("persona", name, known.collect()))
    }

    /// Where the agent starts.
    pub(super) fn workdir(
        &mut self,
        root: &AbsPath,
        persona: Option<(&'a Persona, &'a Layer)>,
    ) -> Result<AbsPath, Diagnostic> {
        if let Some((persona, layer)) = persona
            && let Some(rule) = &persona.workdir
        {
            let dir = layer.path.parent().unwrap_or_else(AbsPath::root);
            let named = self.directory(rule, &dir, "the working directory")?;
            return Ok(self.pooled(named));
        }
        let cwd = &self.facts.cwd;
        Ok(if cwd.is_within(root) { cwd.clone() } else { root.clone() })
    }

    /// The packs of the files, or those that the project's root asks for by what it holds.
    pub(super) fn packs(&mut self, reading: Reading, root: &AbsPath) -> Vec<&'static Pack> {
        let layers = self.layers(reading);
        // A project that names packs, or none at all, has the last word; the user's own packs come beside them.
        let names_packs = |layer: &&Layer| {
            let extends = layer.file.extends.as_ref().filter(|_| layer.level != Level::User);
            extends.is_some_and(|list| list.is_empty() || list.iter().any(|e| matches!(e.value, Extension::Pack(_))))
        };
        let mut packs = if layers.iter().any(names_packs) { Vec::new() } else { self.detected_packs(reading, root) };
        for layer in layers {
            let is_untrusted = layer.level == Level::Project(Trust::Untrusted);
            let baseline = if is_untrusted { self.packs(Reading::WithoutUntrusted, root) } else { Vec::new() };
            for extension in layer.file.extends.iter().flatten() {
                let Extension::Pack(pack) = &extension.value else { continue };
                if is_untrusted && !baseline.iter().any(|known| known.name == pack.name) {
                    self.omit(format!("pack {}", pack.name), super::source_of(extension), Dropped::Untrusted);
                    continue;
                }
                if !packs.iter().any(|known| known.name == pack.name) {
                    packs.push(pack);
                }
            }
        }
        packs.sort_by_key(|pack| pack.name);
        packs
    }

    /// The packs that the project asks for by what it holds, of those that the user agreed to.
    ///
    /// An agent can make any such file, and the next session would reach the pack's hosts. What was there before the first
    /// session is not the agent's.
    fn detected_packs(&mut self, reading: Reading, root: &AbsPath) -> Vec<&'static Pack> {
        let mut packs = Vec::new();
        let mut agreed = None;
        for pack in PACKS {
            let mut holds = |marker: &&&'static str| self.look.path(&root.join(marker)) != PathFact::Missing;
            let Some(marker) = pack.markers.iter().find(&mut holds).copied() else { continue };
            let seen_root =
                self.inputs.request.worktree.as_ref().map_or_else(|| root.clone(), |tree| tree.origin(root));
            let agreed = agreed.get_or_insert_with(|| self.look.agreed_packs(&seen_root));
            if agreed.as_ref().is_none_or(|agreed| agreed.contains(pack.name)) {
                packs.push(pack);
            } else if reading != Reading::WithoutUntrusted {
                // A project's file that names its packs has no use for this one, although it only narrows.
                let source = Source::Default { reason: "chosen by what the project holds" };
                self.omit(format!("pack {}", pack.name), source, Dropped::NewPack { name: pack.name, marker });
            }
        }
        packs
    }
}

/// The error for a name that no file describes.
pub(super) fn unknown_name(what: &str, name: &str, known: Vec<&str>) -> Diagnostic {
    let help = match did_you_mean(name, known.iter().copied()) {
        Some(meant) => format!("did you mean `{meant}`?"),
        None if known.is_empty() => format!("no policy file describes a {what}"),
        None => format!("known: {}", known.join(", ")),
    };
    Diagnostic::refusal(format!("there is no {what} called `{}`", short(name))).help(help)
}
