//! What the files, the packs and the host grant: the rules that allow.

use super::{Cx, Layer, Level, Reading, TaskChoice, Trust, source_of};
use crate::curated::{self, Row, packs::Pack};
use crate::decide::PROJECT_IS_WRITABLE;
use crate::facts::PathFact;
use crate::path::{AbsPath, Shown};
use crate::pattern::{PathRule, Pattern};
use crate::policy::{AllowRule, Persona, Rules, Task};
use crate::report::Dropped;
use crate::source::Source;
use crate::surface::{Effect, Role, Rule, Sense};
use crate::template::TemplateKind;
use crate::text::Diagnostic;

/// A rule that allows, on its way into the Surface.
#[derive(Debug, Clone)]
pub(super) struct Grant {
    pub(super) effect: Effect,
    pub(super) pattern: Pattern,
    pub(super) text: String,
    pub(super) source: Source,
    /// The links it was reached through.
    pub(super) links: Vec<AbsPath>,
    /// Asked for by a project file that is not trusted.
    pub(super) trust: Trust,
}

impl Grant {
    pub(super) fn to_rule(&self) -> Rule {
        Rule {
            effect: self.effect,
            sense: Sense::Rule,
            pattern: self.pattern.clone(),
            text: self.text.clone().into(),
            source: self.source.clone(),
            list: 0,
        }
    }

    pub(super) fn known(effect: Effect, path: AbsPath, source: Source) -> Self {
        let text = path.to_string();
        Self { effect, pattern: Pattern::path(path), text, source, links: Vec::new(), trust: Trust::Trusted }
    }
}

/// Where toolchains live outside homes.
const TOOL_PLACES: &[&str] = &["/gnu", "/nix", "/opt", "/usr"];

fn trust_of(layer: &Layer) -> Trust {
    if layer.level == Level::Project(Trust::Untrusted) { Trust::Untrusted } else { Trust::Trusted }
}

impl<'a> Cx<'a> {
    pub(super) fn grants(
        &mut self,
        reading: Reading,
        root: &AbsPath,
        workdir: &AbsPath,
        persona: Option<(&'a Persona, &'a Layer)>,
        packs: &[&'static Pack],
    ) -> Result<Vec<Grant>, Diagnostic> {
        let mut grants = Vec::new();
        self.project(&mut grants, reading, root, workdir, persona);
        self.work_item(&mut grants, reading)?;
        self.neighbours(&mut grants, reading, root);
        self.to_the_worktree(&mut grants);
        self.references(&mut grants);
        self.git_directories(&mut grants);
        self.ground(&mut grants, root, packs);
        for grant in &mut grants {
            if grant.pattern.as_path().is_some_and(|path| path == root || path == workdir) {
                match &mut grant.effect {
                    Effect::Write(role @ Role::Write) | Effect::Read(role @ Role::Read) => *role = Role::WorkingDir,
                    _ => {}
                }
            }
        }
        Ok(grants)
    }

    /// What the project itself may write and read.
    fn project(
        &mut self,
        grants: &mut Vec<Grant>,
        reading: Reading,
        root: &AbsPath,
        workdir: &AbsPath,
        persona: Option<(&'a Persona, &'a Layer)>,
    ) {
        let readable = Source::Default { reason: "the project is readable" };
        grants.push(Grant::known(Effect::Read(Role::WorkingDir), root.clone(), readable.clone()));
        if !workdir.is_within(root) {
            // Only a persona leads out of the root, so its file must be trusted for it.
            let trust = persona.map_or(Trust::Trusted, |(_, layer)| trust_of(layer));
            grants.push(Grant { trust, ..Grant::known(Effect::Read(Role::WorkingDir), workdir.clone(), readable) });
        }
        let layers = self.layers(reading);
        let speaks_for_the_project = |layer: &&&Layer| matches!(layer.level, Level::Project(_) | Level::Explicit);
        let project_writes = layers
            .iter()
            .filter(speaks_for_the_project)
            .any(|l| l.file.files.as_ref().is_some_and(|f| f.write.is_some()));
        let persona_decides = persona.is_some_and(|(p, _)| p.write.is_some() || p.workdir.is_some());
        for layer in &layers {
            let Some(files) = &layer.file.files else { continue };
            // A persona's own list takes the place of the project's, not of what the user grants everywhere.
            if !persona_decides || layer.level == Level::User {
                self.list(grants, &files.write, Effect::Write(Role::Write), layer);
            }
            self.list(grants, &files.read, Effect::Read(Role::Read), layer);
        }
        if let Some((persona, layer)) = persona {
            self.list(grants, &persona.write, Effect::Write(Role::Write), layer);
            self.list(grants, &persona.read, Effect::Read(Role::Read), layer);
            if persona.write.is_none() && persona.workdir.is_some() {
                let source = Source::Default { reason: "a persona writes in its working directory" };
                let grant = Grant::known(Effect::Write(Role::WorkingDir), workdir.clone(), source);
                grants.push(Grant { trust: trust_of(layer), ..grant });
            }
        }
        if !project_writes && !persona_decides {
            let own = self.pooled(root.clone());
            grants.push(Grant::known(Effect::Write(Role::WorkingDir), own, PROJECT_IS_WRITABLE));
        }
    }

    /// The work item adds to what the project has.
    fn work_item(&mut self, grants: &mut Vec<Grant>, reading: Reading) -> Result<(), Diagnostic> {
        let inputs = self.inputs;
        let (task, dir, trust): (&Task, AbsPath, Trust) = match &inputs.request.task {
            None => return Ok(()),
            Some(TaskChoice::File { task, path }) => {
                (task, path.parent().unwrap_or_else(AbsPath::root), Trust::Trusted)
            }
            Some(TaskChoice::Named(name)) => {
                let layers = self.layers(reading);
                let found = layers.iter().rev().find_map(|l| Some((l.file.task.as_ref()?.get(name)?, *l)));
                match found {
                    Some((task, layer)) => (task, layer.path.parent().unwrap_or_else(AbsPath::root), trust_of(layer)),
                    None if reading == Reading::WithoutUntrusted => return Ok(()),
                    None => {
                        let known =
                            layers.iter().flat_map(|l| l.file.task.iter().flat_map(|t| t.keys().map(String::as_str)));
                        return Err(super::root::unknown_name("task", name, known.collect()));
                    }
                }
            }
        };
        self.list_from(grants, &task.write, Effect::Write(Role::Write), &dir, trust);
        self.list_from(grants, &task.read, Effect::Read(Role::Read), &dir, trust);
        Ok(())
    }

    /// Sibling repositories and the workspace's metadata.
    fn neighbours(&mut self, grants: &mut Vec<Grant>, reading: Reading, root: &AbsPath) {
        for layer in self.layers(reading) {
            let Some(workspace) = &layer.file.workspace else { continue };
            let dir = layer.path.parent().unwrap_or_else(AbsPath::root);
            if let Some(metadata) = &workspace.metadata {
                self.one(
                    grants,
                    &metadata.value.0,
                    Effect::Read(Role::Metadata),
                    &dir,
                    source_of(metadata),
                    trust_of(layer),
                );
            }
            for repo in workspace.repo.iter().flatten() {
                let rule = repo.worktrees_dir.as_ref().unwrap_or(&repo.path);
                let own = self.place(&repo.path.value.0, &dir).is_ok_and(|f| root.is_within(&f.path))
                    || self.place(&rule.value.0, &dir).is_ok_and(|f| root.is_within(&f.path));
                if !own {
                    self.one(
                        grants,
                        &rule.value.0,
                        Effect::Read(Role::Sibling),
                        &dir,
                        source_of(rule),
                        trust_of(layer),
                    );
                }
            }
        }
    }

    /// What the user names on the command line, relative to where the user is.
    fn references(&mut self, grants: &mut Vec<Grant>) {
        let request = &self.inputs.request;
        let cwd = self.facts.cwd.clone();
        let reads = request.references.iter().map(|raw| (raw, Effect::Read(Role::Reference), "--ref"));
        let writes = request.writes.iter().map(|raw| (raw, Effect::Write(Role::Write), "ringfence grant"));
        for (raw, effect, name) in reads.chain(writes) {
            let source = Source::Flag { name };
            // Whoever names something means it, also in the work tree that the session does not work on.
            match self.trail.follow(&cwd, raw, self.look) {
                Ok(found) => grants.push(Grant {
                    effect,
                    pattern: Pattern::path(found.path),
                    text: Shown(raw).to_string(),
                    source,
                    links: found.links,
                    trust: Trust::Trusted,
                }),
                Err(why) => self.omit(Shown(raw).to_string(), source, why),
            }
        }
    }

    /// What would have the user's own work tree written has the session's written instead.
    fn to_the_worktree(&self, grants: &mut [Grant]) {
        let Some(worktree) = &self.inputs.request.worktree else { return };
        for grant in grants {
            let holds_main = grant.pattern.base().is_some_and(|base| worktree.main.is_within(base));
            if holds_main && matches!(grant.effect, Effect::Write(_)) {
                grant.pattern = Pattern::path(worktree.tree.clone());
            }
        }
    }

    /// A linked work tree or a submodule keeps its git directory elsewhere. It is writable where that directory vouches for
    /// the work tree: a `.git` file alone is a line of text that anybody could have written.
    fn git_directories(&mut self, grants: &mut Vec<Grant>) {
        let trees: Vec<(AbsPath, Trust)> = grants
            .iter()
            .filter(|grant| matches!(grant.effect, Effect::Write(_)))
            .filter_map(|grant| Some((grant.pattern.as_path()?.clone(), grant.trust)))
            .collect();
        for (tree, trust) in trees {
            let Some(git) = self.look.git(&tree.child(b".git")) else { continue };
            if !git.vouched
                || self.is_no_git_directory(&git.common_dir, &tree)
                || self.is_no_git_directory(&git.git_dir, &tree)
            {
                let message =
                    format!("{tree}/.git names {}, which does not name it back: git will not work there", git.git_dir);
                let warning = Diagnostic::warning(None, message)
                    .help("run `git worktree repair`, or name the directory in `write`");
                if !self.said.contains(&warning) {
                    self.said.push(warning);
                }
                continue;
            }
            for dir in [git.common_dir, git.git_dir] {
                let source = Source::Host { reason: "the work tree's git directory" };
                grants.push(Grant { trust, ..Grant::known(Effect::Write(Role::GitDir), dir, source) });
            }
        }
    }

    /// Whatever a directory says of itself: a whole disk, a home, or what holds the work tree is no git directory, and one
    /// inside the work tree was made by whoever writes there.
    fn is_no_git_directory(&self, dir: &AbsPath, tree: &AbsPath) -> bool {
        let homes = self.facts.all_homes();
        dir.is_within(tree) || homes.iter().chain([tree]).any(|inner| inner.is_within(dir))
    }

    /// What programs need to run at all: the system, toolchains, caches, the session's own directories.
    fn ground(&mut self, grants: &mut Vec<Grant>, root: &AbsPath, packs: &[&'static Pack]) {
        let system = |row: &Row| Source::Table { name: "system", reason: row.reason };
        for row in curated::system::SYSTEM {
            self.row(grants, row, Effect::Read(Role::System), system(row));
        }
        // Private places are made inside, so a link on the host plays no part.
        let private = |rows: &'static [Row], effect| {
            rows.iter().filter_map(move |row| {
                Some(Grant::known(effect, AbsPath::lexical(row.pattern.as_bytes()).ok()?, system(row)))
            })
        };
        grants.extend(private(curated::system::PRIVATE_WRITABLE, Effect::Write(Role::Private)));
        grants.extend(private(curated::system::PRIVATE_READABLE, Effect::Read(Role::Private)));
        // Its name takes a hash, which a project without caches does not need.
        let has_caches = packs.iter().any(|pack| !pack.caches.is_empty());
        let caches = has_caches.then(|| self.facts.project_cache(root)).flatten().map(|path| self.real(path));
        for pack in packs {
            for row in pack.reads {
                let source = Source::Pack { name: pack.name, reason: row.reason };
                let from = grants.len();
                self.row(grants, row, Effect::Read(Role::Tooling), source.clone());
                let broad = grants.get(from).cloned().and_then(|grant| self.too_broad(&grant, root));
                if let Some(path) = broad {
                    grants.truncate(from);
                    self.omit(row.pattern, source, Dropped::TooBroad { path });
                }
            }
            for cache in pack.caches {
                let source = Source::Pack { name: pack.name, reason: cache.reason };
                match &caches {
                    Some(caches) => {
                        grants.push(Grant::known(Effect::Write(Role::Cache), caches.join(cache.dir), source))
                    }
                    None => self.omit(format!("cache {}", cache.dir), source, Dropped::Unset { variable: "HOME" }),
                }
            }
        }
        if let Some(session) = &self.facts.session {
            // What is given is read, never written: settings, and the record of this Surface.
            for (name, effect) in [
                ("given", Effect::Read(Role::Scratch)),
                ("home", Effect::Write(Role::Scratch)),
                ("tmp", Effect::Write(Role::Scratch)),
            ] {
                let source = Source::Host { reason: "the session's own directory" };
                let path = self.real(session.join(name));
                grants.push(Grant::known(effect, path, source));
            }
        }
    }

    /// Where a place of ours really is: the cache directory may be a link to another disk.
    pub(super) fn real(&mut self, path: AbsPath) -> AbsPath {
        self.follow(&AbsPath::root(), path.as_bytes()).map_or(path, |found| found.path)
    }

    /// A toolchain is never a whole home or disk. A variable such as `JAVA_HOME=/`, or a link that somebody planted among the
    /// dotfiles, would make it one.
    fn too_broad(&mut self, grant: &Grant, root: &AbsPath) -> Option<AbsPath> {
        let path = grant.pattern.base()?;
        let homes = self.facts.all_homes();
        let holds_a_home = path.is_root() || homes.iter().chain([root]).any(|inner| inner.is_within(path));
        let is_known_place = homes.iter().any(|home| path.is_within(home))
            || TOOL_PLACES
                .iter()
                .any(|place| AbsPath::lexical(place.as_bytes()).is_ok_and(|place| path.is_within(&place)));
        let leads_astray = !grant.links.is_empty() && !is_known_place && self.look.path(path) != PathFact::File;
        (holds_a_home || leads_astray).then(|| path.clone())
    }

    fn row(&mut self, grants: &mut Vec<Grant>, row: &Row, effect: Effect, source: Source) {
        let rule = PathRule::built_in(row.pattern.into(), TemplateKind::Path);
        self.one(grants, &rule, effect, &AbsPath::root(), source, Trust::Trusted);
    }

    fn list(&mut self, grants: &mut Vec<Grant>, rules: &Rules<AllowRule>, effect: Effect, layer: &Layer) {
        let dir = layer.path.parent().unwrap_or_else(AbsPath::root);
        self.list_from(grants, rules, effect, &dir, trust_of(layer));
    }

    fn list_from(
        &mut self,
        grants: &mut Vec<Grant>,
        rules: &Rules<AllowRule>,
        effect: Effect,
        dir: &AbsPath,
        trust: Trust,
    ) {
        for rule in rules.iter().flatten() {
            self.one(grants, &rule.value.0, effect, dir, source_of(rule), trust);
        }
    }

    fn one(
        &mut self,
        grants: &mut Vec<Grant>,
        rule: &PathRule,
        effect: Effect,
        dir: &AbsPath,
        source: Source,
        trust: Trust,
    ) {
        let found = rule.split(&self.facts.environment).and_then(|split| {
            let followed = self.follow(dir, &split.literal)?;
            Ok((followed, split.rest))
        });
        match found {
            Ok((followed, rest)) => {
                let base = if rest.is_empty() { self.pooled(followed.path) } else { followed.path };
                let pattern = Pattern { rest, ..Pattern::path(base) };
                grants.push(Grant {
                    effect,
                    pattern,
                    text: rule.text().to_owned(),
                    source,
                    links: followed.links,
                    trust,
                });
            }
            Err(why) => self.omit(rule.text(), source, why),
        }
    }

    /// Where a repository keeps a pool of work trees, the pool stands in the repository's place.
    pub(super) fn pooled(&mut self, path: AbsPath) -> AbsPath {
        if self.inputs.request.worktree.as_ref().is_some_and(|worktree| worktree.tree == path) {
            // Of the pool the session has its own work tree.
            return path;
        }
        for layer in self.layers(Reading::WithProject) {
            let dir = layer.path.parent().unwrap_or_else(AbsPath::root);
            if trust_of(layer) == Trust::Untrusted {
                continue;
            }
            for repo in layer.file.workspace.iter().flat_map(|w| w.repo.iter().flatten()) {
                let Some(pool) = &repo.worktrees_dir else { continue };
                let is_repo = self.place(&repo.path.value.0, &dir).is_ok_and(|f| f.path == path);
                if let (true, Ok(found)) = (is_repo, self.place(&pool.value.0, &dir)) {
                    return found.path;
                }
            }
        }
        path
    }

    /// A directory must be there to start in.
    pub(super) fn is_directory(&mut self, path: &AbsPath) -> bool {
        path.is_root() || self.look.path(path) == PathFact::Directory
    }
}

/// Why a grant is not among what the level above permits.
pub(super) fn beyond(limit: String) -> Dropped {
    Dropped::BeyondCeiling { limit }
}
