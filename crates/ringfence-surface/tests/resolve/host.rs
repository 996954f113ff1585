//! A host made of data, and policies on it.

#![expect(clippy::unwrap_used, reason = "a test that cannot build its host has failed")]

use std::sync::Arc;

use ringfence_surface::policy::{PolicyFile, Task};
use ringfence_surface::text::{Diagnostic, PolicyText};
use ringfence_surface::{
    AbsPath, Access, GitFact, HostFacts, HostTarget, Inputs, Layer, Level, PathFact, Request, Resolved, TaskChoice,
    Trust, Via, resolve,
};

pub(crate) fn abs(text: &str) -> AbsPath {
    AbsPath::lexical(text.as_bytes()).unwrap()
}

/// `/home/u/proj` with a home, as most users have it.
pub(crate) struct Host {
    pub(crate) facts: HostFacts,
    layers: Vec<Layer>,
    pub(crate) request: Request,
}

impl Host {
    pub(crate) fn new() -> Self {
        let facts = HostFacts {
            environment: [(b"HOME".to_vec(), b"/home/u".to_vec()), (b"USER".to_vec(), b"u".to_vec())].into(),
            cwd: abs("/home/u/proj"),
            homes: vec![abs("/home/u")],
            paths: std::collections::BTreeMap::new(),
            git: std::collections::BTreeMap::new(),
            git_runs: std::collections::BTreeMap::new(),
            mounts: Vec::new(),
            kernel: "6.18".into(),
            session: None,
        };
        let request = Request {
            persona: None,
            task: None,
            agent: None,
            references: Vec::new(),
            writes: Vec::new(),
            env: Vec::new(),
            worktree: None,
        };
        Self { facts, layers: Vec::new(), request }
            .dir("/home/u/proj")
            .dir("/usr/bin")
            .link("/bin", "usr/bin")
            .dir("/etc")
    }

    fn put(mut self, path: &str, fact: PathFact) -> Self {
        let path = abs(path);
        for above in path.ancestors().skip(1).filter(|p| !p.is_root()) {
            self.facts.paths.entry(above).or_insert(PathFact::Directory);
        }
        self.facts.paths.insert(path, fact);
        self
    }

    pub(crate) fn dir(self, path: &str) -> Self {
        self.put(path, PathFact::Directory)
    }

    pub(crate) fn file(self, path: &str) -> Self {
        self.put(path, PathFact::File)
    }

    pub(crate) fn link(self, path: &str, target: &str) -> Self {
        self.put(path, PathFact::Link(target.as_bytes().to_vec()))
    }

    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        self.facts.environment.insert(name.into(), value.into());
        self
    }

    pub(crate) fn cwd(mut self, path: &str) -> Self {
        self.facts.cwd = abs(path);
        self.dir(path)
    }

    pub(crate) fn git(mut self, dot_git: &str, git_dir: &str, common_dir: &str, vouched: bool) -> Self {
        let fact = GitFact { git_dir: abs(git_dir), common_dir: abs(common_dir), vouched };
        self.facts.git.insert(abs(dot_git), fact);
        self.file(dot_git).dir(git_dir).dir(common_dir)
    }

    /// Adds a policy file; the version is added.
    pub(crate) fn policy(mut self, level: Level, path: &str, text: &str) -> Self {
        let text = PolicyText::new(path.as_bytes(), format!("version = 1\n{text}").into_bytes()).unwrap();
        let file = PolicyFile::parse(&text).unwrap_or_else(|said| panic!("{}", show(&said)));
        self.layers.push(Layer { level, via: Via::Itself, file, text, path: abs(path) });
        self.file(path)
    }

    pub(crate) fn project(self, text: &str) -> Self {
        self.policy(Level::Project(Trust::Trusted), "/home/u/proj/ringfence.toml", text)
    }

    pub(crate) fn untrusted(self, text: &str) -> Self {
        self.policy(Level::Project(Trust::Untrusted), "/home/u/proj/ringfence.toml", text)
    }

    pub(crate) fn user(self, text: &str) -> Self {
        self.policy(Level::User, "/home/u/.config/ringfence/config.toml", text)
    }

    pub(crate) fn managed(self, text: &str) -> Self {
        self.policy(Level::Managed, "/etc/ringfence/managed.toml", text)
    }

    pub(crate) fn persona(mut self, name: &str) -> Self {
        self.request.persona = Some(name.into());
        self
    }

    /// A work tree for the session, of the repository where the user works.
    pub(crate) fn worktree(mut self, main: &str, tree: &str) -> Self {
        let common_dir = format!("{main}/.git");
        let git_dir = format!("{common_dir}/worktrees/own");
        self.request.worktree = Some(ringfence_surface::Worktree {
            main: abs(main),
            tree: abs(tree),
            git_dir: abs(&git_dir),
            common_dir: abs(&common_dir),
        });
        self.dir(main).cwd(tree).git(&format!("{tree}/.git"), &git_dir, &common_dir, true)
    }

    pub(crate) fn task(mut self, name: &str) -> Self {
        self.request.task = Some(TaskChoice::Named(name.into()));
        self
    }

    pub(crate) fn task_file(mut self, path: &str, text: &str) -> Self {
        let format = if path.ends_with(".json") {
            ringfence_surface::policy::Format::Json
        } else {
            ringfence_surface::policy::Format::Toml
        };
        let text: Arc<PolicyText> = PolicyText::new(path.as_bytes(), text.into()).unwrap();
        let task = Task::parse(&text, format).unwrap_or_else(|said| panic!("{}", show(&said)));
        self.request.task = Some(TaskChoice::File { task, path: abs(path) });
        self
    }

    pub(crate) fn reference(mut self, path: &[u8]) -> Self {
        self.request.references.push(path.to_vec());
        self
    }

    pub(crate) fn inputs(&self) -> Inputs {
        Inputs { layers: self.layers.clone(), request: self.request.clone() }
    }

    pub(crate) fn try_resolve(&self) -> Result<Resolved, String> {
        resolve(&self.inputs(), &self.facts, &mut &self.facts).map_err(|said| show(&said))
    }

    #[track_caller]
    pub(crate) fn resolve(&self) -> Answers {
        Answers(self.try_resolve().unwrap_or_else(|said| panic!("{said}")))
    }
}

pub(crate) fn show(said: &[Diagnostic]) -> String {
    said.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n\n")
}

/// Asks a resolved Surface.
pub(crate) struct Answers(pub Resolved);

impl Answers {
    pub(crate) fn reads(&self, path: &str) -> bool {
        self.0.surface.decide(&abs(path), Access::Read).is_allowed()
    }

    pub(crate) fn writes(&self, path: &str) -> bool {
        self.0.surface.decide(&abs(path), Access::Write).is_allowed()
    }

    pub(crate) fn reaches(&self, host: &str) -> bool {
        self.0.surface.decide_host(&HostTarget::parse(host).unwrap()).is_some()
    }

    /// One line for each path: `rw`, `r-` or `--`.
    #[track_caller]
    pub(crate) fn check(&self, expected: &[(&str, &str)]) {
        for (path, rights) in expected {
            let read = if self.reads(path) { 'r' } else { '-' };
            let write = if self.writes(path) { 'w' } else { '-' };
            assert_eq!(format!("{read}{write}"), *rights, "{path}\n{}", self.why(path));
        }
    }

    pub(crate) fn why(&self, path: &str) -> String {
        let surface = &self.0.surface;
        let read = surface.decide(&abs(path), Access::Read).because.to_string();
        let write = surface.decide(&abs(path), Access::Write).because.to_string();
        format!("read: {read}; write: {write}; omitted: {:?}", self.omitted())
    }

    /// What was left out of what somebody wrote: `entry: reason`.
    pub(crate) fn omitted(&self) -> Vec<String> {
        let written = self.0.omissions.iter().filter(|o| o.source.is_written());
        written.map(|o| format!("{}: {}", o.entry, o.why)).collect()
    }

    pub(crate) fn said(&self) -> String {
        show(&self.0.diagnostics)
    }
}
