//! The values of which there is one: view, tier, governance, limits; and the variables that pass.

use super::reach::Asked;
use super::{Collected, Cx, Layer, Level, source_of};
use crate::curated::{self, Row};
use crate::policy::{AllowRule, DenyRule, EnvName, Limits, PolicyFile, Rules, Tier, View};
use crate::report::Dropped;
use crate::source::Source;
use crate::surface::{Caps, Sourced};
use crate::text::{Diagnostic, Place, Spanned};

/// What the files set.
#[derive(Debug, Clone)]
pub(super) struct Settings {
    pub(super) view: Sourced<View>,
    pub(super) tier: Sourced<Tier>,
    pub(super) self_governing: Option<Place>,
    pub(super) env: Vec<Sourced<EnvName>>,
    pub(super) caps: Caps,
}

/// Later files have the last word, each for what it says.
pub(super) fn collect(layers: &[&Layer]) -> Settings {
    let default = |reason| Source::Default { reason };
    let mut settings = Settings {
        view: Sourced { value: View::Surface, source: default("nothing else exists") },
        tier: Sourced { value: Tier::Development, source: default("a missing layer may be accepted, visibly") },
        self_governing: None,
        env: Vec::new(),
        caps: Caps { memory: None, pids: None, wall: None },
    };
    for layer in layers {
        if let Some(view) = layer.file.files.as_ref().and_then(|f| f.view.as_ref()) {
            settings.view = sourced(view);
        }
        if let Some(workspace) = &layer.file.workspace {
            if let Some(tier) = &workspace.tier {
                settings.tier = sourced(tier);
            }
            if let Some(own) = &workspace.self_governing {
                settings.self_governing = own.value.then(|| own.place.clone());
            }
        }
        for name in layer.file.env.iter().flat_map(|e| e.pass.iter().flatten()) {
            settings.env.push(Sourced { value: name.value.clone(), source: source_of(name) });
        }
        if let Some(limits) = &layer.file.limits {
            override_caps(&mut settings.caps, limits);
        }
    }
    settings
}

fn sourced<T: Copy>(spanned: &Spanned<T>) -> Sourced<T> {
    Sourced { value: spanned.value, source: source_of(spanned) }
}

fn override_caps(caps: &mut Caps, limits: &Limits) {
    let asked = caps_of(limits);
    caps.memory = asked.memory.or(caps.memory.take());
    caps.pids = asked.pids.or(caps.pids.take());
    caps.wall = asked.wall.or(caps.wall.take());
}

fn caps_of(limits: &Limits) -> Caps {
    Caps {
        memory: limits.memory.as_ref().map(|m| Sourced { value: m.value.0, source: source_of(m) }),
        pids: limits.pids.as_ref().map(|p| Sourced { value: p.value.0, source: source_of(p) }),
        wall: limits.wall.as_ref().map(|w| Sourced { value: w.value.0, source: source_of(w) }),
    }
}

impl Cx<'_> {
    /// An untrusted project may only tighten what holds without it.
    pub(super) fn narrow_settings(&mut self, settings: &mut Settings, baseline: Settings) {
        if settings.view.value > baseline.view.value {
            self.omit("view = \"host\"", settings.view.source.clone(), Dropped::Untrusted);
            settings.view = baseline.view;
        }
        if settings.tier.value < baseline.tier.value {
            self.omit("tier = \"development\"", settings.tier.source.clone(), Dropped::Untrusted);
            settings.tier = baseline.tier;
        }
        if let (Some(place), None) = (&settings.self_governing, &baseline.self_governing) {
            self.omit("self_governing = true", Source::File(place.clone()), Dropped::Untrusted);
            settings.self_governing = None;
        }
        let known: Vec<&EnvName> = baseline.env.iter().map(|e| &e.value).collect();
        let is_kept = |e: &Sourced<EnvName>| known.contains(&&e.value);
        let (kept, refused) = std::mem::take(&mut settings.env).into_iter().partition(is_kept);
        settings.env = kept;
        for entry in refused {
            self.omit(format!("env {}", entry.value.as_str()), entry.source, Dropped::Untrusted);
        }
        self.lower_caps(&mut settings.caps, baseline.caps, || Dropped::Untrusted);
    }

    /// Nothing passes the managed file, where it speaks.
    pub(super) fn cap_settings(&mut self, settings: &mut Settings, managed: &Layer) {
        let beyond = |word: &str| super::grants::beyond(format!("the managed policy's `{word}`"));
        let file = &managed.file;
        if let Some(limit) = view_limit(file)
            && settings.view.value > limit.value
        {
            self.omit("view = \"host\"", settings.view.source.clone(), beyond("view"));
            settings.view = limit;
        }
        if let Some(workspace) = &file.workspace
            && let Some(tier) = workspace.tier.as_ref().filter(|tier| settings.tier.value < tier.value)
        {
            if settings.tier.source.is_written() {
                self.omit("tier = \"development\"", settings.tier.source.clone(), beyond("tier"));
            }
            settings.tier = sourced(tier);
        }
        // Where an administrator has spoken at all, a session without any OS layer needs leave.
        let may_govern = file.workspace.as_ref().and_then(|w| w.self_governing.as_ref()).is_some_and(|own| own.value);
        if !may_govern && let Some(place) = settings.self_governing.take() {
            self.omit("self_governing = true", Source::File(place), beyond("self_governing"));
        }
        if let Some(pass) = file.env.as_ref().and_then(|e| e.pass.as_ref()) {
            let known: Vec<&EnvName> = pass.iter().map(|name| &name.value).collect();
            let is_kept = |e: &Sourced<EnvName>| !e.source.is_written() || known.contains(&&e.value);
            let (kept, refused) = std::mem::take(&mut settings.env).into_iter().partition(is_kept);
            settings.env = kept;
            for entry in refused {
                self.omit(format!("env {}", entry.value.as_str()), entry.source, beyond("env.pass"));
            }
        }
        if let Some(limits) = &file.limits {
            self.lower_caps(&mut settings.caps, caps_of(limits), || beyond("limits"));
        }
    }

    fn lower_caps(&mut self, caps: &mut Caps, limit: Caps, why: impl Fn() -> Dropped) {
        self.lower(&mut caps.memory, limit.memory, "limits.memory", &why);
        self.lower(&mut caps.pids, limit.pids, "limits.pids", &why);
        self.lower(&mut caps.wall, limit.wall, "limits.wall", &why);
    }

    fn lower<T: PartialOrd>(
        &mut self,
        cap: &mut Option<Sourced<T>>,
        limit: Option<Sourced<T>>,
        name: &str,
        why: &impl Fn() -> Dropped,
    ) {
        let Some(limit) = limit else { return };
        match cap {
            Some(asked) if asked.value <= limit.value => {}
            Some(asked) => {
                self.omit(name, asked.source.clone(), why());
                *cap = Some(limit);
            }
            None => *cap = Some(limit),
        }
    }

    /// Variables that the packs and the command line pass, beside those of the files.
    pub(super) fn variables(&self, collected: &mut Collected) {
        for pack in &collected.packs {
            let entry = |row: &Row| {
                let source = Source::Pack { name: pack.name, reason: row.reason };
                Sourced { value: EnvName::built_in(row.pattern), source }
            };
            collected.settings.env.extend(pack.env.iter().map(entry));
        }
        for name in &self.inputs.request.env {
            collected.settings.env.push(Sourced { value: name.clone(), source: Source::Flag { name: "--env" } });
        }
    }

    /// A variable that carries a secret or runs code is passed when somebody names it, and somebody should know.
    pub(super) fn warn_of_variables(&mut self, settings: &Settings, reach: &Asked) {
        let by_hand = |entry: &&Sourced<EnvName>| {
            entry.source.is_written() && !matches!(entry.source, Source::Flag { name: "--agent" })
        };
        for entry in settings.env.iter().filter(by_hand) {
            if reach.injects(&entry.value) {
                let message = format!("{} is not passed: `inject` keeps its value outside", entry.value.as_str());
                self.said.push(Diagnostic::warning(entry.source.place().cloned(), message));
                continue;
            }
            if let Some(row) = curated::env::dangerous(entry.value.as_str().as_bytes()) {
                let message = format!("{} is passed to the agent: {}", entry.value.as_str(), row.reason);
                self.said.push(Diagnostic::warning(entry.source.place().cloned(), message));
            }
        }
    }
}

/// A managed list of what may be read would mean nothing beside a view in which everything is.
fn view_limit(file: &PolicyFile) -> Option<Sourced<View>> {
    let files = file.files.as_ref()?;
    let read = || files.read.as_ref().map(|_| Source::Default { reason: "the managed policy limits `read`" });
    match &files.view {
        Some(view) => Some(sourced(view)),
        None => Some(Sourced { value: View::Surface, source: read()? }),
    }
}

/// A limit of the administrator's that a variable of the caller's could move would be none. `~` and `$HOME` are the account's
/// own there; nothing else is known to be.
fn variables_of_the_caller(layer: &Layer) -> Vec<Diagnostic> {
    let Some(files) = layer.file.files.as_ref().filter(|_| layer.level == Level::Managed) else { return Vec::new() };
    let allow = |rules: &Rules<AllowRule>| {
        rules.iter().flatten().map(|r| (r.value.0.text().to_owned(), r.place.clone())).collect::<Vec<_>>()
    };
    let deny = |rules: &Rules<DenyRule>| {
        rules.iter().flatten().map(|r| (r.value.rule.text().to_owned(), r.place.clone())).collect::<Vec<_>>()
    };
    let rules = [allow(&files.write), allow(&files.read), deny(&files.deny), deny(&files.protect)].concat();
    let moves = |text: &str| text.replace("${HOME}", "").replace("$HOME/", "").replace("\\$", "").contains('$');
    let refuse = |place| {
        Diagnostic::error(place, "a variable of the caller cannot stand in this file")
            .help("write the path out, or begin it with `~`")
    };
    rules.into_iter().filter(|(text, _)| moves(text)).map(|(_, place)| refuse(place)).collect()
}

/// Keys that mean nothing in the file they stand in are refused, so that nobody believes in them.
pub(super) fn keys_in_the_wrong_file(layer: &Layer) -> Vec<Diagnostic> {
    let mut said = variables_of_the_caller(layer);
    let mut refuse = |place: Option<Place>, key: &str, where_to: &str| {
        let place = place.unwrap_or_else(|| super::whole(layer));
        said.push(Diagnostic::error(place, format!("`{key}` has no meaning in this file")).help(where_to));
    };
    let project = "it belongs in a project's ringfence.toml";
    let file = &layer.file;
    if matches!(layer.level, Level::Managed | Level::User)
        && let Some(workspace) = &file.workspace
    {
        if let Some(root) = &workspace.root {
            refuse(Some(root.place.clone()), "workspace.root", project);
        }
        if let Some(repo) = workspace.repo.iter().flatten().next() {
            refuse(Some(repo.name.place.clone()), "workspace.repo", project);
        }
        if let Some(metadata) = &workspace.metadata {
            refuse(Some(metadata.place.clone()), "workspace.metadata", project);
        }
        // In the managed file it gives leave to others.
        let speaks_for_all = |own: &&Spanned<bool>| own.value && layer.level == Level::User;
        if let Some(own) = workspace.self_governing.as_ref().filter(speaks_for_all) {
            refuse(Some(own.place.clone()), "workspace.self_governing", project);
        }
    }
    if layer.level == Level::Managed {
        let ceiling = "the managed file is a ceiling: it limits and denies, it grants nothing";
        if let Some(extends) = file.extends.iter().flatten().next() {
            refuse(Some(extends.place.clone()), "extends", ceiling);
        }
        let inject = file.network.as_ref().and_then(|network| network.inject.as_ref()?.values().next());
        if let Some(inject) = inject {
            refuse(Some(inject.header.place.clone()), "network.inject", ceiling);
        }
        for (key, present) in
            [("persona", file.persona.is_some()), ("task", file.task.is_some()), ("agent", file.agent.is_some())]
        {
            if present {
                refuse(None, key, ceiling);
            }
        }
    }
    said
}
