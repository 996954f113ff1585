//! `ringfence learn`: runs a command inside the fence until nothing that may be given is missing, and proposes the lines.

mod asked;
mod private;
mod show;
mod shrink;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::io::{self, IsTerminal as _, Read as _, Seek as _, Write as _};
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use ringfence_surface::learn::{self, Addition, Asked, Ground, Key, Proposal, Risk, Thing, Want};
use ringfence_surface::{AbsPath, HostFacts, Layer, Shown, Surface};
use rustix::fs::MemfdFlags;

use super::run::Outcome;
use crate::cli::{LearnArgs, PolicyArgs};
use crate::error::{Failure, LearnFailure};
use crate::host::os_path;
use crate::load::Loader;
use crate::out::{ask, say};
use crate::trust::{self, Known};
use crate::write;

pub(crate) fn run(args: &LearnArgs, managed: &Path) -> Result<ExitCode, Failure> {
    let loader = Loader::new(managed)?;
    let policy = Policy::find(loader, &args.policy)?;
    if args.write && !args.yes && !std::io::stdin().is_terminal() {
        return Err(Failure::Learn { source: LearnFailure::NobodyThere { path: policy.path } });
    }
    if args.shrink {
        return shrink::run(args, &policy, managed);
    }
    let mut lesson = Lesson::new(args, managed, policy)?;
    let ended = lesson.learn()?;
    show::proposal(args, &lesson, &ended)?;
    if args.write && !lesson.proposal.additions.is_empty() {
        let text = lesson.text(&lesson.proposal.additions)?;
        lesson.policy.write(&text, args, managed)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The file that lines go to.
struct Policy {
    path: AbsPath,
    /// What it says, where it is there.
    text: Option<String>,
    /// What it extends, and what that says.
    bases: Vec<(AbsPath, String)>,
    facts: HostFacts,
    /// Whether it is the project's own: then it must be trusted.
    is_project: bool,
}

impl Policy {
    fn find(mut loader: Loader<'_>, args: &PolicyArgs) -> Result<Self, Failure> {
        let facts = loader.facts().clone();
        let (layers, is_project) = match &args.policy {
            Some(path) => (loader.explicit(path)?, false),
            None => match loader.find_project_file()? {
                Some(path) => {
                    let project = loader.project(os_path(&path))?;
                    if project.known != Known::AsItIs {
                        return Err(Failure::Learn { source: LearnFailure::Untrusted { path } });
                    }
                    (project.layers, true)
                }
                None => (Vec::new(), true),
            },
        };
        let mut texts: Vec<(AbsPath, String)> = texts(&layers);
        Ok(match texts.pop() {
            Some((path, text)) => Self { path, text: Some(text), bases: texts, facts, is_project },
            None => {
                let path = facts.cwd.child(crate::load::PROJECT_FILE);
                Self { path, text: None, bases: Vec::new(), facts, is_project }
            }
        })
    }

    /// What would hold if the file said this.
    fn saying(&self, text: &str, args: &PolicyArgs, managed: &Path) -> Result<Surface, Failure> {
        let loader = Loader::with_facts(managed, self.facts.clone()).saying(self.path.clone(), text.to_owned());
        Ok(loader.resolve(args)?.resolved.surface)
    }

    /// Changes it, after a question.
    fn write(&self, text: &str, args: &LearnArgs, managed: &Path) -> Result<(), Failure> {
        if !args.yes && !ask(&format!("ringfence: change {}?", self.path)) {
            say("ringfence: nothing was changed");
            return Ok(());
        }
        let file = os_path(&self.path);
        let unwritten = |source| Failure::Write { path: file.into(), source };
        match &self.text {
            Some(before) => {
                // It was shown what changes of what was there.
                if fs::read(file).ok().as_deref() != Some(before.as_bytes()) {
                    return Err(Failure::Learn { source: LearnFailure::Changed { path: self.path.clone() } });
                }
                write::replace(file, text.as_bytes()).map_err(unwritten)?;
            }
            None => write::create(file, text.as_bytes()).map_err(unwritten)?,
        }
        say(&format!("ringfence: wrote {}", self.path));
        if self.is_project {
            // What was there was trusted, and what is new was looked at just now. What stands there by now may be neither.
            let mut loader = Loader::with_facts(managed, self.facts.clone());
            let project = loader.project(file)?;
            let looked_at = self.bases.iter().cloned().chain([(self.path.clone(), text.to_owned())]);
            if texts(&project.layers) != looked_at.collect::<Vec<_>>() {
                return Err(Failure::Learn { source: LearnFailure::Changed { path: self.path.clone() } });
            }
            trust::store(loader.facts(), &project.layers, &project.hash)?;
            say("ringfence: it is trusted as it is now");
        }
        Ok(())
    }
}

/// Every file and what it says; the last is the one that extends the others.
fn texts(layers: &[Layer]) -> Vec<(AbsPath, String)> {
    layers.iter().map(|layer| (layer.path.clone(), layer.text.text.clone())).collect()
}

/// How it ended.
struct Ended {
    runs: u32,
    /// The code of the last run.
    code: u8,
    /// Whether the last run had exactly the lines that are proposed, and missed nothing that could be given.
    is_proven: bool,
    /// What of the proposal was not tried.
    untried: usize,
    /// How often something was asked for of which no more is known.
    more: u64,
}

/// What is known so far.
struct Lesson<'l> {
    args: &'l LearnArgs,
    managed: &'l Path,
    policy: Policy,
    base: Surface,
    homes: Vec<AbsPath>,
    asked: Vec<Asked>,
    /// Directories of which only was asked whether they are there.
    looked: BTreeSet<AbsPath>,
    /// What was stopped for another reason than that nobody named it.
    stopped: BTreeMap<String, String>,
    proposal: Proposal,
    /// Lines that the user does not want to be tried.
    declined: BTreeSet<(Key, String)>,
    approved: BTreeSet<(Key, String)>,
}

impl<'l> Lesson<'l> {
    fn new(args: &'l LearnArgs, managed: &'l Path, policy: Policy) -> Result<Self, Failure> {
        let base = policy.saying(policy.text.as_deref().unwrap_or("version = 1\n"), &args.policy, managed)?;
        let homes = policy.facts.all_homes();
        let proposal = Proposal { additions: Vec::new(), refused: Vec::new() };
        let (asked, looked, stopped) = (Vec::new(), BTreeSet::new(), BTreeMap::new());
        let (declined, approved) = (BTreeSet::new(), BTreeSet::new());
        Ok(Self { args, managed, policy, base, homes, asked, looked, stopped, proposal, declined, approved })
    }

    fn text(&self, additions: &[Addition]) -> Result<String, Failure> {
        let edit = |source| Failure::Learn { source: LearnFailure::Edit { path: self.policy.path.clone(), source } };
        if additions.is_empty() {
            return Ok(self.policy.text.clone().unwrap_or_else(|| "version = 1\n".to_owned()));
        }
        learn::add(self.policy.text.as_deref(), additions, self.base.packs()).map_err(edit)
    }

    /// Runs the command until a run with exactly what is to be tried shows nothing new.
    fn learn(&mut self) -> Result<Ended, Failure> {
        let mut tried: Vec<Addition> = Vec::new();
        let mut around: Vec<AbsPath> = Vec::new();
        let mut explored: BTreeSet<AbsPath> = BTreeSet::new();
        let (mut runs, mut more, mut worked_with_more) = (0, 0, false);
        loop {
            runs += 1;
            let outcome = self.run(&tried, &around)?;
            more += outcome.learned.more;
            asked::merge(self, &outcome.learned);
            match (around.is_empty(), outcome.code) {
                // With more to see it worked, and nothing of that was read: it needs the directories themselves.
                (true, 1..) if worked_with_more => {
                    self.want_directories(&explored);
                    worked_with_more = false;
                }
                (true, _) => {}
                (false, code) => worked_with_more = code == 0,
            }
            self.propose();
            let next = self.choose();
            let untried = self.proposal.additions.len() - next.len();
            // What lies beside a file that is missing, and what is in a directory that somebody looked for, may be needed next: it is
            // shown for one run, and only what is used of it is proposed. The run after that has no more than what is proposed.
            let mut wider = self.around(&next, outcome.code);
            wider.retain(|dir| !explored.contains(dir));
            let is_done = wider.is_empty() && around.is_empty() && names(&next) == names(&tried);
            if is_done || runs >= self.args.runs || outcome.is_cut {
                let is_enough = outcome.code == 0 || self.looked.is_empty();
                let is_proven = is_done && is_enough && untried == 0 && outcome.learned.more == 0;
                return Ok(Ended { runs, code: outcome.code, is_proven, untried, more });
            }
            explored.extend(wider.iter().cloned());
            (tried, around) = (next, wider);
            let shown = if around.is_empty() { "" } else { ", and what is beside what was missing" };
            say(&format!("ringfence: once more, with {} of the proposed lines{shown}", tried.len()));
        }
    }

    /// Directories of which somebody only asked whether they are there, after all.
    fn want_directories(&mut self, explored: &BTreeSet<AbsPath>) {
        let known = self.asked.iter().map(|asked| asked.want.clone()).collect::<BTreeSet<_>>();
        for path in self.looked.intersection(explored) {
            let want = Want::Read { path: path.clone(), thing: Thing::Directory };
            if !known.contains(&want) {
                self.asked.push(Asked { want, programs: BTreeMap::new(), times: 1 });
            }
        }
        self.looked.retain(|dir| !explored.contains(dir));
    }

    fn propose(&mut self) {
        let home = self.homes.first();
        let dir = self.policy.path.parent().unwrap_or_else(AbsPath::root);
        let ground = Ground { dir: &dir, home, homes: &self.homes, is_private: &private::is_private };
        let mut with = |additions: &[Addition]| {
            let text = self.text(additions).ok()?;
            self.policy.saying(&text, &self.args.policy, self.managed).ok()
        };
        self.proposal = learn::propose(&self.base, &self.asked, &ground, &mut with);
    }

    /// The lines that are tried next: those of low risk, and those that the user agrees to.
    fn choose(&mut self) -> Vec<Addition> {
        let is_new = |name: &(Key, String)| !self.approved.contains(name) && !self.declined.contains(name);
        let name = |addition: &Addition| (addition.key, addition.value.clone());
        let doubtful: Vec<&Addition> = self
            .proposal
            .additions
            .iter()
            .filter(|addition| addition.risk > Risk::Low && !self.args.yes && is_new(&name(addition)))
            .collect();
        if !doubtful.is_empty() {
            let names: Vec<(Key, String)> = doubtful.iter().map(|addition| name(addition)).collect();
            let agrees = std::io::stdin().is_terminal() && {
                for addition in &doubtful {
                    say(&format!("ringfence: {}", show::line(addition)));
                }
                ask("ringfence: try it with these?")
            };
            if agrees { self.approved.extend(names) } else { self.declined.extend(names) }
        }
        let is_tried = |addition: &&Addition| !self.declined.contains(&name(addition));
        self.proposal.additions.iter().filter(is_tried).cloned().collect()
    }

    /// Directories that are shown for one run: those of low risk, unless the user agrees to everything.
    fn around(&self, next: &[Addition], code: u8) -> Vec<AbsPath> {
        let dir = self.policy.path.parent().unwrap_or_else(AbsPath::root);
        let home = self.homes.first();
        let ground = Ground { dir: &dir, home, homes: &self.homes, is_private: &private::is_private };
        let tried: BTreeSet<usize> = next.iter().flat_map(|addition| addition.covers.iter().copied()).collect();
        let beside = tried.iter().filter_map(|at| match &self.asked[*at].want {
            Want::Read { path, .. } => path.parent(),
            _ => None,
        });
        // A command that did its work did not miss them.
        let looked = self.looked.iter().filter(|_| code != 0).cloned();
        let most = if self.args.yes { Risk::High } else { Risk::Low };
        ground.open(&self.base, beside.chain(looked), most)
    }

    /// One run, in a process of its own: a fence whose calls are seen is started by a program without threads.
    fn run(&self, tried: &[Addition], around: &[AbsPath]) -> Result<Outcome, Failure> {
        let failed = |source: io::Error| Failure::Output { source };
        // Nothing but memory, which the other process inherits: there is nothing to be left over.
        let memory =
            |name| rustix::fs::memfd_create(name, MemfdFlags::empty()).map(fs::File::from).map_err(io::Error::from);
        let (mut text, mut into) = (memory(c"policy").map_err(failed)?, memory(c"learned").map_err(failed)?);
        text.write_all(self.text(tried)?.as_bytes()).map_err(failed)?;
        let by_descriptor = |file: &fs::File| format!("/proc/self/fd/{}", file.as_raw_fd());
        let program = std::env::current_exe().map_err(|source| Failure::Output { source })?;
        let stderr = std::io::stderr().as_fd().try_clone_to_owned().map_err(|source| Failure::Output { source })?;
        let mut command = Command::new(program);
        command.arg("trial").arg("--text").arg(by_descriptor(&text)).arg("--into").arg(by_descriptor(&into));
        command.arg("--parent").arg(std::process::id().to_string());
        command.arg("--at").arg(os_path(&self.policy.path)).args(words(&self.args.policy));
        around.iter().for_each(|dir| {
            command.arg("--ref").arg(os_path(dir));
        });
        command.arg("--").args(&self.args.command).stdout(Stdio::from(stderr));
        command.status().map_err(|source| Failure::Output { source })?;
        let mut outcome = Vec::new();
        into.rewind().and_then(|()| into.read_to_end(&mut outcome)).map_err(failed)?;
        if outcome.is_empty() {
            return Err(Failure::Learn { source: LearnFailure::NotRun });
        }
        serde_json::from_slice(&outcome).map_err(|source| Failure::Learn { source: LearnFailure::Unread { source } })
    }
}

fn names(additions: &[Addition]) -> BTreeSet<(Key, &str)> {
    additions.iter().map(|addition| (addition.key, addition.value.as_str())).collect()
}

/// The options again, as typed.
fn words(args: &PolicyArgs) -> Vec<OsString> {
    let PolicyArgs { policy, persona, task, references, writes: _, env, agent } = args;
    let mut words: Vec<OsString> = Vec::new();
    let mut put = |name: &str, value: OsString| {
        words.push(name.into());
        words.push(value);
    };
    policy.iter().for_each(|policy| put("--policy", policy.into()));
    persona.iter().for_each(|persona| put("--persona", persona.into()));
    task.iter().for_each(|task| put("--task", task.clone()));
    references.iter().for_each(|path| put("--ref", path.clone()));
    env.iter().for_each(|name| put("--env", name.into()));
    agent.iter().for_each(|agent| put("--agent", agent.into()));
    words
}

/// What was asked for, in words.
fn want_words(want: &Want) -> String {
    match want {
        Want::Read { path, .. } => format!("read {path}"),
        Want::Write { path, .. } => format!("write {path}"),
        Want::Host { name, port: Some(port) } => format!("reach {}:{port}", Shown(name.as_bytes())),
        Want::Host { name, port: None } => format!("reach {}", Shown(name.as_bytes())),
        Want::Socket { path } => format!("connect to {path}"),
    }
}
