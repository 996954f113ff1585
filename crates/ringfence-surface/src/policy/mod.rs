//! Policy files: text → [`PolicyFile`], with every mistake found in one go.
//!
//! Nothing here knows a host. What is read is checked as far as text can be: keys, words, templates, patterns, host names,
//! packs and groups. What depends on a machine is left to `resolve`.

mod amounts;
mod inject;
pub(crate) mod node;
mod scalars;
pub mod shape;
mod watch;

use std::collections::BTreeMap;
use std::sync::Arc;

pub use crate::text::Format;
use crate::text::{Diagnostic, Place, PolicyText, Spanned, short};
pub use amounts::{Bytes, Pids, SizeError, TimeError, Wall};
pub use inject::{FRAMING, HeaderName, HeaderText, Inject};
pub use scalars::{
    AllowRule, Credentials, DenyRule, EnvName, Extension, HostRule, Mode, MountMode, PlaceRule, Port, Sense,
    SocketRule, SurfaceMode, Tier, Version, View,
};
use shape::{Schema, Shape, table};
pub use watch::{Counted, Then, Threshold, ThresholdError, Watch, WatchRule, When};

/// The largest policy that is read. 5,000 rules are a quarter of a megabyte, and nobody has trusted the file yet.
pub const MAX_POLICY_BYTES: usize = 1 << 20;

/// How many mistakes are shown: a file with more is most likely not a policy at all.
pub const MOST_DIAGNOSTICS: usize = 50;

/// A list of rules, each knowing where it was written.
pub type Rules<T> = Option<Vec<Spanned<T>>>;

table! {
    /// A ringfence policy.
    pub struct PolicyFile {
        /// The version of the policy language: 1.
        version: Spanned<Version>,
        /// Packs (`git go jvm node python rust`) and other policy files this one builds on. Without it the packs are chosen by what the project holds.
        extends: Rules<Extension>,
        /// The project and what surrounds it.
        workspace: Option<Workspace>,
        /// Files and directories.
        files: Option<Files>,
        /// Hosts, ports and sockets.
        network: Option<Network>,
        /// Environment variables.
        env: Option<Env>,
        /// Resources.
        limits: Option<Limits>,
        /// What is done when too much of something happens in a session. Watches of all files add up.
        watch: Option<Vec<WatchRule>>,
        /// Roles, chosen with `--persona NAME`.
        persona: Option<BTreeMap<String, Persona>>,
        /// Work items, chosen with `--task NAME`.
        task: Option<BTreeMap<String, Task>>,
        /// Settings of each agent client.
        agent: Option<BTreeMap<String, Agent>>,
    }
}

table! {
    /// The project and what surrounds it.
    pub struct Workspace {
        /// The project's root, relative to this file. Default: the directory of this file.
        root: Option<Spanned<PlaceRule>>,
        /// `production` refuses to start when a kernel layer is missing.
        tier: Option<Spanned<Tier>>,
        /// The session governs its own project: the root is writable and no OS layer is applied.
        self_governing: Option<Spanned<bool>>,
        /// A directory of workspace metadata, readable and never writable.
        metadata: Option<Spanned<PlaceRule>>,
        /// The repositories of this workspace. Those that are not the project are readable.
        repo: Option<Vec<Repo>>,
    }
}

table! {
    /// A repository of the workspace.
    pub struct Repo {
        /// Its name; each once.
        name: Spanned<String>,
        /// Where it is.
        path: Spanned<PlaceRule>,
        /// Where its work trees are; takes the place of `path`.
        worktrees_dir: Option<Spanned<PlaceRule>>,
    }
}

table! {
    /// Files and directories. Each entry covers everything below it.
    pub struct Files {
        /// `surface`: nothing else exists. `host`: everything is readable but the sensitive set.
        view: Option<Spanned<View>>,
        /// Readable and writable. Default: the project's root.
        write: Rules<AllowRule>,
        /// Readable.
        read: Rules<AllowRule>,
        /// Neither readable nor writable, whatever else is said. `!` makes an exception to the patterns above it in this file.
        deny: Rules<DenyRule>,
        /// Never writable. `!` makes an exception to the patterns above it in this file.
        protect: Rules<DenyRule>,
    }
}

table! {
    /// What can be reached. Nothing else can.
    pub struct Network {
        /// Groups (`github`), hosts (`api.example.com`, ports 80 and 443), hosts with a port, `*.` below a registered domain. Default: the groups of the packs.
        allow: Rules<HostRule>,
        /// Hosts of `allow` whose names may lead to private addresses, as those of a company's own network do. Without it such an answer is refused.
        private: Rules<HostRule>,
        /// Ports of services on the host's loopback.
        host_ports: Rules<Port>,
        /// Unix sockets, by path.
        sockets: Rules<SocketRule>,
        /// Headers that are added to the requests for a host on the way out, by host.
        inject: Option<BTreeMap<String, Inject>>,
    }
}

table! {
    /// Environment variables.
    pub struct Env {
        /// Names that are passed on beside the built-in table.
        pass: Rules<EnvName>,
    }
}

table! {
    /// Resources.
    pub struct Limits {
        /// Memory, as in `4GiB`.
        memory: Option<Spanned<Bytes>>,
        /// Processes and threads.
        pids: Option<Spanned<Pids>>,
        /// How long the session may last, as in `2h` or `1h30m`.
        wall: Option<Spanned<Wall>>,
    }
}

table! {
    /// A role.
    pub struct Persona {
        /// Where it works. Default: the project's root.
        workdir: Option<Spanned<PlaceRule>>,
        /// What it may write, in place of `files.write`. Default: its working directory, when it names one.
        write: Rules<AllowRule>,
        /// What it may read besides.
        read: Rules<AllowRule>,
    }
}

table! {
    /// A work item.
    pub struct Task {
        /// What it may write besides.
        write: Rules<AllowRule>,
        /// What it may read besides.
        read: Rules<AllowRule>,
    }
}

table! {
    /// Settings of one agent client.
    pub struct Agent {
        /// The command line that starts it.
        command: Option<Spanned<Vec<String>>>,
        /// `accept-edits` or `auto`.
        mode: Option<Spanned<Mode>>,
        /// What it signs in with: `none` (default), `inject` (the key is added on the way out) or `copy` (the user's sign-in, without what renews it).
        credentials: Option<Spanned<Credentials>>,
        /// How it runs in a container.
        container: Option<Container>,
    }
}

table! {
    /// How an agent runs in a container.
    pub struct Container {
        /// The image, or `host` for the host's own programs.
        image: Option<Spanned<String>>,
        /// Further mounts.
        mounts: Option<Vec<ContainerMount>>,
        /// `additive`: mounts are added, the surface wins a conflict. `exclusive`: they are dropped.
        surface_mode: Option<Spanned<SurfaceMode>>,
    }
}

table! {
    /// A mount of an operator.
    pub struct ContainerMount {
        /// On the host.
        src: Spanned<PlaceRule>,
        /// In the container.
        dst: Spanned<PlaceRule>,
        /// `ro` or `rw`. Default: `ro`.
        mode: Option<Spanned<MountMode>>,
    }
}

impl PolicyText {
    /// Takes what was read from a file.
    ///
    /// # Errors
    /// When it is larger than [`MAX_POLICY_BYTES`] or not UTF-8.
    pub fn new(name: &[u8], bytes: Vec<u8>) -> Result<Arc<Self>, Diagnostic> {
        let empty = |text: String| Arc::new(Self { name: name.to_vec(), text });
        if bytes.len() > MAX_POLICY_BYTES {
            let message = format!("this is {} bytes; a policy has at most {MAX_POLICY_BYTES}", bytes.len());
            return Err(Diagnostic::error(Place::new(&empty(String::new()), 0..0), message));
        }
        String::from_utf8(bytes).map(empty).map_err(|e| {
            // What is text up to there is kept, so that line and column are right.
            let valid = e.utf8_error().valid_up_to();
            let mut bytes = e.into_bytes();
            bytes.truncate(valid);
            let text = empty(String::from_utf8(bytes).unwrap_or_default());
            Diagnostic::error(Place::new(&text, valid..valid), "not a policy: this is not UTF-8 text")
                .help("save the file as UTF-8")
        })
    }
}

impl PolicyFile {
    /// Reads a policy.
    ///
    /// # Errors
    /// Every mistake in it, in the order of the file.
    pub fn parse(text: &Arc<PolicyText>) -> Result<Self, Vec<Diagnostic>> {
        let tree = node::from_toml(text)?;
        let mut said = Vec::new();
        refuse_other_versions(&tree, &mut said)?;
        let file = Self::read(&tree, &mut said);
        if let Some(file) = &file {
            file.check_names(&mut said);
            file.check_agents(&mut said);
            file.check_watches(&mut said);
            file.network.iter().for_each(|network| network.check_inject(&mut said));
        }
        finish(file, said)
    }

    /// What a policy looks like.
    pub fn schema() -> Schema {
        <Self as Shape>::schema()
    }

    fn check_names(&self, said: &mut Vec<Diagnostic>) {
        let repos = self.workspace.iter().flat_map(|w| w.repo.iter().flatten());
        let mut seen: BTreeMap<&str, &Place> = BTreeMap::new();
        for repo in repos {
            if let Some(first) = seen.get(repo.name.value.as_str()) {
                said.push(
                    Diagnostic::error(
                        repo.name.place.clone(),
                        format!("two repositories are called `{}`", short(&repo.name.value)),
                    )
                    .also((*first).clone(), "the first"),
                );
            } else {
                seen.insert(&repo.name.value, &repo.name.place);
            }
        }
    }

    /// What cannot be started: the kernel takes no NUL in an argument, and no program has an empty name.
    fn check_agents(&self, said: &mut Vec<Diagnostic>) {
        for agent in self.agent.iter().flat_map(BTreeMap::values) {
            if let Some(command) = &agent.command {
                if command.value.first().is_none_or(String::is_empty) {
                    said.push(Diagnostic::error(command.place.clone(), "a command needs at least a program"));
                }
                if command.value.iter().any(|word| word.contains('\0')) {
                    said.push(Diagnostic::error(command.place.clone(), "a command cannot hold a NUL byte"));
                }
            }
            let image = agent.container.as_ref().and_then(|container| container.image.as_ref());
            if let Some(image) = image.filter(|image| image.value.contains('\0')) {
                said.push(Diagnostic::error(image.place.clone(), "an image cannot hold a NUL byte"));
            }
        }
    }
}

/// A later version may mean anything by its keys, so none of them is judged.
fn refuse_other_versions(tree: &node::Node, said: &mut Vec<Diagnostic>) -> Result<(), Vec<Diagnostic>> {
    // What is wrong with the table is reported when it is read.
    let found = shape::fields(tree, &mut Vec::new()).unwrap_or_default();
    if let Some((_, version)) = found.iter().find(|(key, _)| key.name == "version")
        && Version::read(version, said).is_none()
    {
        return Err(std::mem::take(said));
    }
    Ok(())
}

impl Task {
    /// Reads a work item that an orchestrator wrote into a file of its own.
    ///
    /// # Errors
    /// Every mistake in it, in the order of the file.
    pub fn parse(text: &Arc<PolicyText>, format: Format) -> Result<Self, Vec<Diagnostic>> {
        let tree = match format {
            Format::Toml => node::from_toml(text)?,
            Format::Json => node::from_json(text)?,
        };
        let mut said = Vec::new();
        let task = Self::read(&tree, &mut said);
        finish(task, said)
    }
}

fn finish<T>(value: Option<T>, mut said: Vec<Diagnostic>) -> Result<T, Vec<Diagnostic>> {
    match value {
        Some(value) if said.is_empty() => Ok(value),
        _ => {
            said.sort_by_key(|d| d.place.as_ref().map(Place::start));
            Err(node::first_few(said))
        }
    }
}
