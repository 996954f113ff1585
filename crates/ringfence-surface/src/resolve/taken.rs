//! What is taken away: escape vectors, the sensitive set, authority sockets, every file's `deny`; then what is protected.
//!
//! Each source is a list of its own, since an exception counts only in the list that wrote it. A rule that leads through a
//! link stands twice, for the path as written and for where it leads: the link may be replaced while the agent runs.

use std::borrow::Cow;

use super::grants::Grant;
use super::{Cx, Layer, Level, TaskChoice, Worktree, covering, reach, source_of};
use crate::curated::{self, Row};
use crate::facts::{GitNamed, GitRun, HostFacts, PathFact};
use crate::path::AbsPath;
use crate::pattern::{Anchor, PathRule, Pattern};
use crate::policy::{DenyRule, Rules};
use crate::report::Dropped;
use crate::source::Source;
use crate::surface::{Effect, GIT_DIRECTORY, MANAGED, PROTECTED_ANYWHERE, Role, Rule, Sense};
use crate::template::{TemplateKind, Variables};
use crate::text::Spanned;

/// Lists of the built-in rules. Their numbers only keep them apart.
const ESCAPES: u32 = 0;
const OWN: u32 = 1;
const SECRETS: u32 = 2;
const SOCKETS: u32 = 3;
const HOME: u32 = 4;
const WORKTREE: u32 = 6;
/// The files come after the built-in lists.
const FILES: u32 = 100;

/// Room for the built-in rules of one home, with some to spare.
const ROOM: usize = 2_048;

/// Every rule that denies or protects.
pub(super) fn rules(cx: &mut Cx<'_>, grants: &[Grant], asked: &reach::Asked) -> Vec<Rule> {
    let mut taken = Taken { homes: homes(cx), cx, rules: Vec::with_capacity(ROOM) };
    taken.escapes(grants);
    taken.secrets(grants, asked);
    taken.protected(grants);
    taken.rows(curated::protected::LOCKFILES, Effect::Ask, "lockfile", 0);
    let inputs = taken.cx.inputs;
    for (list, layer) in (FILES..).zip(&inputs.layers) {
        let list = if layer.level == Level::Managed { MANAGED } else { list };
        if let Some(files) = &layer.file.files {
            let from = taken.rules.len();
            taken.file_list(&files.deny, Effect::Deny, layer, list);
            taken.except_own(grants, from, list);
            taken.file_list(&files.protect, Effect::Protect, layer, list);
        }
    }
    taken.rules
}

/// A home directory that secrets are looked for in, and the variables that lead there.
struct Home {
    path: AbsPath,
    vars: Variables,
}

/// Every home that is known, as it is called and as it leads: a secret is one in each of them.
fn homes(cx: &mut Cx<'_>) -> Vec<Home> {
    let mut paths = Vec::new();
    for home in cx.facts.all_homes() {
        let leads_to = cx.follow(&AbsPath::root(), home.as_bytes()).map(|found| found.path);
        for path in [Some(home), leads_to.ok()].into_iter().flatten() {
            if !paths.contains(&path) {
                paths.push(path);
            }
        }
    }
    let with_home = |path: AbsPath| {
        let mut vars = cx.facts.environment.clone();
        vars.insert(b"HOME".to_vec(), path.as_bytes().to_vec());
        Home { path, vars }
    };
    paths.into_iter().map(with_home).collect()
}

/// Why ringfence's own configuration is protected.
pub(crate) const OWN_CONFIGURATION: &str = "ringfence's own configuration";

struct Taken<'c, 'a> {
    cx: &'c mut Cx<'a>,
    homes: Vec<Home>,
    rules: Vec<Rule>,
}

/// What `use flake`, `use nix` and the like evaluate whenever the user enters the directory.
const DIRENV_EVALUATES: &[&str] = &["default.nix", "flake.lock", "flake.nix", "shell.nix"];
const DIRENV: &str = "direnv: evaluated by an approved .envrc when the directory is entered";

/// Is this a directory that ringfence made for the session: its home, its temporary directory, its caches?
fn is_private(effect: Effect) -> bool {
    matches!(effect, Effect::Write(Role::Scratch | Role::Cache) | Effect::Read(Role::Scratch))
}

impl Taken<'_, '_> {
    /// Ways out of any fence, and ringfence's own state: an agent that could write it would hold its own keys.
    fn escapes(&mut self, grants: &[Grant]) {
        self.rows(curated::escape::ESCAPES, Effect::Escape, "escape", ESCAPES);
        let own = self.cx.facts.own_directories();
        let places = [(own.state, "ringfence's own state"), (own.cache, "the caches of other projects")];
        for (path, reason) in places.iter().filter_map(|(path, reason)| Some((path.as_ref()?, *reason))) {
            self.place(Effect::Escape, path, Source::Table { name: "escape", reason }, OWN);
        }
        for home in self.cx.facts.all_homes() {
            for below in [".local/state/ringfence", ".cache/ringfence"] {
                let source = Source::Table { name: "escape", reason: "ringfence's own, whatever the variables say" };
                self.place(Effect::Escape, &home.join(below), source, OWN);
            }
        }
        for grant in grants.iter().filter(|grant| is_private(grant.effect)) {
            self.exception(Effect::Escape, grant.pattern.clone(), &grant.text, grant.source.clone(), OWN);
        }
        if let Some(worktree) = &self.cx.inputs.request.worktree {
            let (tree, source) = (worktree.tree.clone(), Source::Flag { name: "--worktree" });
            self.exception(Effect::Escape, Pattern::path(tree), "the session's work tree", source, OWN);
        }
    }

    /// A policy that denies a directory means what the user keeps there. The session's private home and caches often lie below it
    /// (`deny = ["~"]`), were made by ringfence, and stay usable.
    fn except_own(&mut self, grants: &[Grant], from: usize, list: u32) {
        let denied = covering(self.rules[from..].iter().map(|rule| &rule.pattern));
        for grant in grants.iter().filter(|grant| is_private(grant.effect)) {
            if grant.pattern.base().is_some_and(|base| !denied.hits(base).is_empty()) {
                self.exception(Effect::Deny, grant.pattern.clone(), "the session's own", grant.source.clone(), list);
            }
        }
    }

    /// Secrets, and sockets that carry the authority of another program. What the user names on the command line is readable
    /// by construction, if it is a secret itself or lies inside one; naming a directory above does not open the secrets in it,
    /// and neither does naming a link, which an agent may have planted. A socket is open where the policy names it.
    fn secrets(&mut self, grants: &[Grant], asked: &reach::Asked) {
        let named = grants.iter().filter(|g| g.effect == Effect::Read(Role::Reference) && g.links.is_empty());
        let named: Vec<(&AbsPath, Source)> =
            named.filter_map(|g| Some((g.pattern.as_path()?, g.source.clone()))).collect();
        let source = Source::Default { reason: "a socket that is named" };
        let sockets = asked.sockets.iter().map(|socket| (socket.value(), source.clone()));
        let sockets: Vec<(&AbsPath, Source)> = sockets.chain(named.iter().cloned()).collect();
        self.closed(curated::sensitive::SENSITIVE, "sensitive", SECRETS, &named);
        self.closed(curated::sockets::AUTHORITY_SOCKETS, "authority socket", SOCKETS, &sockets);
    }

    /// A table of what is denied, but for what is open.
    fn closed(&mut self, rows: &'static [Row], table: &'static str, list: u32, open: &[(&AbsPath, Source)]) {
        let from = self.rules.len();
        self.rows(rows, Effect::Deny, table, list);
        if open.is_empty() {
            return;
        }
        let closed = covering(self.rules[from..].iter().map(|rule| &rule.pattern));
        for (path, source) in open.iter().filter(|(path, _)| !closed.hits(path).is_empty()) {
            self.exception(Effect::Deny, Pattern::path((*path).clone()), &path.to_string(), source.clone(), list);
        }
    }

    /// Names that make code run later, wherever they are and whether or not they exist.
    fn protected(&mut self, grants: &[Grant]) {
        self.rows(curated::protected::PROTECTED_ANYWHERE, Effect::Protect, "protected", PROTECTED_ANYWHERE);
        // Packages ship such files by the thousand and nobody opens them as projects; refusing them would break installs.
        self.rows(curated::protected::THIRD_PARTY, Effect::ThirdParty, "third-party", 0);
        self.rows(curated::protected::PROTECTED_HOME, Effect::Protect, "protected", HOME);
        for row in curated::protected::GIT_DIR {
            // `*.git` is `.git` and also a bare repository.
            let text = format!("**/*.git/{}", row.pattern);
            self.text(text.into(), Effect::Protect, protected(row.reason), GIT_DIRECTORY, &AbsPath::root());
        }
        for grant in grants {
            if let Some(path) = grant.pattern.as_path() {
                self.protected_in(grant, path, grants);
            }
        }
        let inputs = self.cx.inputs;
        if let Some(worktree) = &inputs.request.worktree {
            self.of_other_worktrees(worktree);
        }
        for layer in &inputs.layers {
            self.place(Effect::Protect, &layer.path, protected("the policy itself"), OWN);
        }
        if let Some(TaskChoice::File { path, .. }) = &inputs.request.task {
            self.place(Effect::Protect, path, protected("the work item itself"), OWN);
        }
        if let Some(config) = self.cx.facts.own_directories().config {
            self.place(Effect::Protect, &config, protected(OWN_CONFIGURATION), OWN);
        }
    }

    /// In the repository of a session's own work tree, what belongs to the others and to the user's.
    fn of_other_worktrees(&mut self, worktree: &Worktree) {
        for row in curated::protected::GIT_OTHER_TREES {
            self.text(row.pattern.into(), Effect::Protect, protected(row.reason), WORKTREE, &worktree.common_dir);
        }
        let source = Source::Flag { name: "--worktree" };
        let own = Pattern::path(worktree.git_dir.clone());
        self.exception(Effect::Protect, own, "the session's work tree", source, WORKTREE);
    }

    /// What a grant brings with it that must not change.
    fn protected_in(&mut self, grant: &Grant, path: &AbsPath, grants: &[Grant]) {
        match grant.effect {
            Effect::Write(Role::GitDir) => {
                for row in curated::protected::GIT_DIR {
                    self.text(row.pattern.into(), Effect::Protect, protected(row.reason), GIT_DIRECTORY, path);
                }
            }
            Effect::Read(Role::Metadata) => self.place(Effect::Protect, path, grant.source.clone(), OWN),
            Effect::Write(role) if !role.is_ground() => {
                let dot_git = path.child(b".git");
                let git_dir =
                    self.cx.look.git(&dot_git).filter(|git| git.vouched).map_or(dot_git.clone(), |git| git.common_dir);
                // A hook may be a link into the work tree, `core.hooksPath` and drivers name places there: to write those is
                // to write the hook. The repository may be the one around the project.
                let around = self.repository_around(path);
                let (git_dir, tree) = around.unwrap_or_else(|| (git_dir, path.clone()));
                for run in self.cx.look.git_runs(&git_dir, &tree) {
                    self.run_by_git(run, grants);
                }
                // direnv approves the content of `.envrc` alone: what it goes on to evaluate decides as much. Whether it does is not looked up.
                if self.cx.look.path(&path.child(b".envrc")) != PathFact::Missing {
                    for name in DIRENV_EVALUATES {
                        self.place(Effect::Protect, &path.child(name.as_bytes()), protected(DIRENV), OWN);
                    }
                }
                // A file or link of that name chooses the git directory. (Where there is none yet, `git init` makes a directory.)
                if matches!(self.cx.look.path(&dot_git), PathFact::File | PathFact::Link(_)) {
                    let rule = Pattern::path(dot_git.clone());
                    self.push(
                        Effect::Protect,
                        rule,
                        dot_git.to_string().into(),
                        protected("names the git directory"),
                        OWN,
                    );
                }
            }
            _ => {}
        }
    }

    /// The repository that a directory without `.git` belongs to: its git directory, and the top of its work tree.
    fn repository_around(&mut self, path: &AbsPath) -> Option<(AbsPath, AbsPath)> {
        let mut is_missing = |path: &AbsPath| self.cx.look.path(path) == PathFact::Missing;
        let tree = path.ancestors().find(|above| !is_missing(&above.child(b".git")))?;
        let dot_git = tree.child(b".git");
        let git_dir = self.cx.look.git(&dot_git).filter(|git| git.vouched).map_or(dot_git, |git| git.common_dir);
        Some((git_dir, tree))
    }

    /// What git executes or reads because of a setting. Only what a grant gives to write needs a rule.
    fn run_by_git(&mut self, run: GitRun, grants: &[Grant]) {
        let is_written = |path: &AbsPath| {
            let roots = grants.iter().filter(|grant| matches!(grant.effect, Effect::Write(role) if !role.is_ground()));
            roots.filter_map(|grant| grant.pattern.as_path()).any(|root| path.is_within(root) && path != root)
        };
        let leads_to = match &run.named {
            GitNamed::At(path) => self.cx.follow(&AbsPath::root(), path.as_bytes()).ok().map(|followed| followed.path),
            GitNamed::InEachWorkTree(_) | GitNamed::Unknown(_) => None,
        };
        let also = leads_to.map(|path| GitRun { named: GitNamed::At(path), setting: run.setting.clone() });
        for run in [Some(&run), also.as_ref()].into_iter().flatten() {
            if !matches!(&run.named, GitNamed::At(path) if !is_written(path)) {
                self.rules.extend(Rule::of_git_run(run));
            }
        }
    }

    fn push(&mut self, effect: Effect, pattern: Pattern, text: Cow<'static, str>, source: Source, list: u32) {
        self.rules.push(Rule { effect, sense: Sense::Rule, pattern, text, source, list });
    }

    fn exception(&mut self, effect: Effect, pattern: Pattern, text: &str, source: Source, list: u32) {
        let text = text.to_owned().into();
        self.rules.push(Rule { effect, sense: Sense::Exception, pattern, text, source, list });
    }

    /// One place, as written and as it leads.
    fn place(&mut self, effect: Effect, path: &AbsPath, source: Source, list: u32) {
        let leads_to = self.cx.follow(&AbsPath::root(), path.as_bytes()).map(|followed| followed.path);
        for path in [Some(path.clone()), leads_to.ok().filter(|other| other != path)].into_iter().flatten() {
            let text = path.to_string().into();
            self.push(effect, Pattern::path(path), text, source.clone(), list);
        }
    }

    /// A built-in table.
    fn rows(&mut self, rows: &'static [Row], effect: Effect, table: &'static str, list: u32) {
        let root = AbsPath::root();
        for row in rows.iter().filter(|row| self.cx.facts.may_mean(row)) {
            let source = Source::Table { name: table, reason: row.reason };
            let Some(below) = row.pattern.strip_prefix("~/") else {
                self.text(row.pattern.into(), effect, source, list, &root);
                continue;
            };
            // From the home on: what lies above it has been followed once.
            let homes = std::mem::take(&mut self.homes);
            for home in &homes {
                let rule = PathRule::built_in(below.into(), TemplateKind::Socket);
                self.rule(&rule, row.pattern.into(), effect, source.clone(), list, (&home.path, &home.vars));
            }
            self.homes = homes;
        }
    }

    fn text(&mut self, text: Cow<'static, str>, effect: Effect, source: Source, list: u32, dir: &AbsPath) {
        let facts = self.cx.facts;
        let rule = PathRule::built_in(text.clone(), TemplateKind::Socket);
        self.rule(&rule, text, effect, source, list, (dir, &facts.environment));
    }

    /// One rule, shown as `text`, seen from a directory with some variables.
    fn rule(
        &mut self,
        rule: &PathRule,
        text: Cow<'static, str>,
        effect: Effect,
        source: Source,
        list: u32,
        (dir, vars): (&AbsPath, &Variables),
    ) {
        match self.patterns(rule, dir, vars) {
            Ok((pattern, None)) => self.push(effect, pattern, text, source, list),
            Ok((pattern, Some(other))) => {
                self.push(effect, pattern, text.clone(), source.clone(), list);
                self.push(effect, other, text, source, list);
            }
            Err(why) => self.cx.omit(text, source, why),
        }
    }

    fn file_list(&mut self, list: &Rules<DenyRule>, effect: Effect, layer: &Layer, number: u32) {
        let facts = self.cx.facts;
        for rule in list.iter().flatten() {
            let text = rule.value.rule.text();
            let is_home = text.starts_with('~') || text.starts_with("$HOME") || text.starts_with("${HOME}");
            if layer.level != Level::Managed || !is_home {
                self.file_rule(rule, effect, layer, number, &facts.environment);
                continue;
            }
            // An administrator's rule holds in every home that is known, whatever the caller's `$HOME` says.
            let homes = std::mem::take(&mut self.homes);
            for home in &homes {
                self.file_rule(rule, effect, layer, number, &home.vars);
            }
            self.homes = homes;
        }
    }

    fn file_rule(&mut self, rule: &Spanned<DenyRule>, effect: Effect, layer: &Layer, list: u32, vars: &Variables) {
        let dir = layer.path.parent().unwrap_or_else(AbsPath::root);
        let (text, source, sense) = (rule.value.rule.text(), source_of(rule), rule.value.sense);
        let patterns = match (sense, self.patterns(&rule.value.rule, &dir, vars)) {
            // An exception holds as written: a link that an agent planted there must not move it.
            (Sense::Exception, Ok((leads_to, Some(_)))) => {
                let link = leads_to.base().cloned().unwrap_or_else(AbsPath::root);
                return self.cx.omit(text, source, Dropped::LeadsElsewhere { target: link });
            }
            (_, Ok((pattern, other))) => [Some(pattern), other],
            (_, Err(why)) => return self.cx.omit(text, source, why),
        };
        for pattern in patterns.into_iter().flatten() {
            // Also in the work tree where the user works, which may be named to be read.
            let twin = self.cx.inputs.request.worktree.as_ref().and_then(|worktree| {
                let base = super::rebased(pattern.base()?, &worktree.tree, &worktree.main)?;
                Some(Pattern { rest: pattern.rest.clone(), ..Pattern::path(base) })
            });
            for pattern in [Some(pattern), twin].into_iter().flatten() {
                let (text, source) = (text.to_owned().into(), source.clone());
                self.rules.push(Rule { effect, sense, pattern, text, source, list });
            }
        }
    }

    /// A rule that takes away, as it leads and, where that differs, as written.
    fn patterns(
        &mut self,
        rule: &PathRule,
        dir: &AbsPath,
        vars: &Variables,
    ) -> Result<(Pattern, Option<Pattern>), Dropped> {
        let split = rule.split(vars)?;
        if rule.is_floating_split(&split) {
            return Ok((Pattern { anchor: Anchor::Floating, rest: split.rest }, None));
        }
        // Links in a circle lead nowhere now, and the path as written must still be closed.
        let followed = match self.cx.follow(dir, &split.literal) {
            Ok(found) if found.links.is_empty() => {
                return Ok((Pattern { rest: split.rest, ..Pattern::path(found.path) }, None));
            }
            other => other.ok(),
        };
        let at = |base: AbsPath| Pattern { rest: split.rest.clone(), ..Pattern::path(base) };
        let written =
            if split.absolute { split.literal.to_vec() } else { [dir.as_bytes(), b"/", &split.literal].concat() };
        let written = AbsPath::lexical(&written)?;
        match followed {
            Some(found) if found.path != written => Ok((at(found.path), Some(at(written)))),
            _ => Ok((at(written), None)),
        }
    }
}

fn protected(reason: &'static str) -> Source {
    Source::Table { name: "protected", reason }
}

impl HostFacts {
    /// Has the variable that a row begins with a value? A fifth of the rows begin with one, and most are not set.
    fn may_mean(&self, row: &Row) -> bool {
        let variable = row.pattern.strip_prefix('$').map(|rest| rest.split('/').next().unwrap_or(rest));
        variable.is_none_or(|name| self.environment.get(name.as_bytes()).is_some_and(|value| !value.is_empty()))
    }

    /// Where the private caches of a project are: its name to recognise it, its path's hash so that no two share one.
    pub fn project_cache(&self, root: &AbsPath) -> Option<AbsPath> {
        use sha2::Digest as _;
        let digest = sha2::Sha256::digest(root.as_bytes());
        let hash: String = digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
        let name: Vec<u8> = root.file_name().unwrap_or(b"root").iter().copied().take(64).collect();
        let name = [name.as_slice(), b"-", hash.as_bytes()].concat();
        Some(self.own_directories().cache?.join("projects").child(&name))
    }
}
