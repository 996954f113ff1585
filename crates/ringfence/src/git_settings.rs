//! What the user's git executes, or reads settings from, because of settings: the system's, the user's, the repository's, and every file
//! that they include.
//!
//! Conditions of includes (`includeIf`) are not evaluated: an agent switches branches, and a file counts if any condition may hold.

use std::collections::BTreeSet;
use std::os::unix::ffi::OsStringExt;

use ringfence_git::config::{self, Entry};
use ringfence_git::mentions::{Mention, Prefixes, mentions};
use ringfence_git::settings::key_of;
use ringfence_surface::{AbsPath, GitNamed, GitRun, Look, PathFact, Shown, follow};

use crate::git::LONGEST_SETTINGS;
use crate::host::{os_path, read_bounded};

/// How deeply files of settings may include each other, as for git.
const DEEPEST: usize = 10;
/// More hooks are not looked at.
const MOST_HOOKS: usize = 1000;

/// Where git may be installed, beyond the directory of the program itself.
const INSTALLED: &[&str] = &["/usr", "/usr/local", "/opt/homebrew"];

/// Variables whose value git executes, or takes programs or settings from.
const VARIABLES: &[&str] = &[
    "EDITOR",
    "GIT_ASKPASS",
    "GIT_EDITOR",
    "GIT_EXEC_PATH",
    "GIT_EXTERNAL_DIFF",
    "GIT_PAGER",
    "GIT_PROXY_COMMAND",
    "GIT_SEQUENCE_EDITOR",
    "GIT_SSH",
    "GIT_SSH_COMMAND",
    "GIT_TEMPLATE_DIR",
    "PAGER",
    "SSH_ASKPASS",
    "VISUAL",
];

/// Whose setting it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scope {
    /// Relative paths are seen from the top of any work tree.
    User,
    /// Only of this repository's work trees.
    Repository,
}

/// What git executes or reads for a work tree, outside of its git directory.
pub(crate) fn runs(git_dir: &AbsPath, tree: &AbsPath, homes: &[AbsPath], look: &mut dyn Look) -> Vec<GitRun> {
    let own_home = variable("HOME").and_then(|home| AbsPath::lexical(&home).ok());
    let homes: BTreeSet<AbsPath> = homes.iter().cloned().chain(own_home.clone()).collect();
    let mut search = Search {
        trees: work_trees(git_dir, tree, look),
        installed: installed(),
        look,
        found: BTreeSet::new(),
        read: BTreeSet::new(),
    };
    for path in system_files(&search.installed) {
        homes.iter().for_each(|home| search.file(&path, Scope::User, home, 0));
    }
    for home in &homes {
        let is_own = own_home.as_ref() == Some(home);
        user_files(home, is_own).iter().for_each(|path| search.file(path, Scope::User, home, 0));
        let mut own = vec![git_dir.child(b"config"), git_dir.child(b"config.worktree")];
        let names = names_in(&git_dir.child(b"worktrees"));
        own.extend(names.map(|name| git_dir.child(b"worktrees").child(&name).child(b"config.worktree")));
        own.iter().for_each(|path| search.file(path, Scope::Repository, home, 0));
        search.environment(home);
    }
    search.hooks(&git_dir.child(b"hooks"));
    let in_hooks = |run: &GitRun| matches!(&run.named, GitNamed::At(path) if path.is_within(&git_dir.child(b"hooks")));
    search.found.into_iter().filter(|run| !in_hooks(run)).collect()
}

/// The top of each work tree of a repository.
fn work_trees(git_dir: &AbsPath, tree: &AbsPath, look: &mut dyn Look) -> Vec<AbsPath> {
    let main = git_dir.parent().filter(|_| git_dir.file_name() == Some(b".git"));
    let mut trees: Vec<AbsPath> = main.into_iter().chain([tree.clone()]).collect();
    let entries = git_dir.child(b"worktrees");
    for name in names_in(&entries) {
        let entry = entries.child(&name);
        let Ok(text) = read_bounded(os_path(&entry.child(b"gitdir")), 8192) else { continue };
        let dot_git = follow(&entry, text.trim_ascii_end(), look).ok();
        trees.extend(dot_git.and_then(|dot_git| dot_git.path.parent()));
    }
    trees.sort();
    trees.dedup();
    trees
}

fn names_in(dir: &AbsPath) -> impl Iterator<Item = Vec<u8>> + use<> {
    let entries = std::fs::read_dir(os_path(dir)).into_iter().flatten().flatten();
    entries.take(MOST_HOOKS).map(|entry| entry.file_name().into_vec())
}

fn variable(name: &str) -> Option<Vec<u8>> {
    std::env::var_os(name).map(OsStringExt::into_vec).filter(|value| !value.is_empty())
}

/// The directories above the `bin` of each git that is found on `PATH`, and the usual ones.
fn installed() -> Vec<Vec<u8>> {
    let path = variable("PATH").unwrap_or_default();
    let bins = path.split(|byte| *byte == b':').filter_map(|dir| AbsPath::lexical(dir).ok());
    let with_git = bins.filter(|bin| os_path(&bin.child(b"git")).exists()).filter_map(|bin| bin.parent());
    let mut found: Vec<Vec<u8>> = with_git.map(|prefix| prefix.as_bytes().to_vec()).collect();
    found.extend(INSTALLED.iter().map(|prefix| prefix.as_bytes().to_vec()));
    found.sort();
    found.dedup();
    found
}

fn system_files(installed: &[Vec<u8>]) -> Vec<AbsPath> {
    let set = variable("GIT_CONFIG_SYSTEM").and_then(|path| AbsPath::lexical(&path).ok());
    let prefixes = installed.iter().filter_map(|prefix| AbsPath::lexical(prefix).ok());
    let usual = prefixes.map(|prefix| prefix.join("etc/gitconfig"));
    set.into_iter().chain(usual).chain([AbsPath::root().join("etc/gitconfig")]).collect()
}

fn user_files(home: &AbsPath, is_own: bool) -> Vec<AbsPath> {
    let set = |name| variable(name).filter(|_| is_own).and_then(|path| AbsPath::lexical(&path).ok());
    let configured = set("XDG_CONFIG_HOME").unwrap_or_else(|| home.child(b".config"));
    let mut files = vec![configured.join("git/config"), home.child(b".gitconfig")];
    files.extend(set("GIT_CONFIG_GLOBAL"));
    files
}

struct Search<'s> {
    trees: Vec<AbsPath>,
    installed: Vec<Vec<u8>>,
    look: &'s mut dyn Look,
    found: BTreeSet<GitRun>,
    /// Files that were read, and for which home.
    read: BTreeSet<(AbsPath, AbsPath)>,
}

impl Search<'_> {
    /// What a file of settings names, and the files that it includes.
    fn file(&mut self, path: &AbsPath, scope: Scope, home: &AbsPath, depth: usize) {
        if depth > DEEPEST || !self.read.insert((path.clone(), home.clone())) {
            return;
        }
        let Ok(text) = read_bounded(os_path(path), LONGEST_SETTINGS) else { return };
        for entry in config::parse(&text) {
            self.entry(&entry, scope, home, (Some(path), depth));
        }
    }

    fn entry(&mut self, entry: &Entry, scope: Scope, home: &AbsPath, (file, depth): (Option<&AbsPath>, usize)) {
        let origin = file.map_or_else(|| "the environment".to_owned(), AbsPath::to_string);
        let key = key_of(entry);
        let setting = format!("{} in {origin}", Shown(key.strip_prefix(b"$.").unwrap_or(&key)));
        let installed = std::mem::take(&mut self.installed);
        let named = mentions(entry, Prefixes { home: Some(home.as_bytes()), installed: &installed });
        self.installed = installed;
        for mention in named {
            match mention {
                Mention::Include(path) => {
                    // The settings are in the directory that a link to them leads to, and git looks from there.
                    let Some(dir) = file.and_then(AbsPath::parent) else { continue };
                    let Some(path) = self.seen_from(&dir, &path) else { continue };
                    self.add(GitNamed::At(path.clone()), &setting);
                    self.file(&path, scope, home, depth + 1);
                }
                Mention::Path(path) => self.path(&path, scope, &setting, entry.is("core", "hookspath")),
                Mention::Word(word) => self.word(&word, &setting),
                Mention::Unpredictable => {
                    self.add(GitNamed::Unknown("the program depends on something unknown".to_owned()), &setting);
                }
            }
        }
    }

    fn environment(&mut self, home: &AbsPath) {
        for name in VARIABLES {
            let Some(value) = variable(name) else { continue };
            let entry =
                Entry { section: b"$".to_vec(), subsection: None, name: name.as_bytes().to_vec(), value: Some(value) };
            self.entry(&entry, Scope::User, home, (None, 0));
        }
        let count = variable("GIT_CONFIG_COUNT").and_then(|count| String::from_utf8(count).ok()?.parse::<usize>().ok());
        for number in 0..count.unwrap_or(0).min(MOST_HOOKS) {
            let part = |part: &str| variable(&format!("GIT_CONFIG_{part}_{number}"));
            let Some((key, value)) = part("KEY").zip(part("VALUE")) else { continue };
            let (first, last) = (key.iter().position(|byte| *byte == b'.'), key.iter().rposition(|byte| *byte == b'.'));
            let Some((first, last)) = first.zip(last) else { continue };
            let entry = Entry {
                section: key[..first].to_ascii_lowercase(),
                subsection: (first < last).then(|| key[first + 1..last].to_vec()),
                name: key[last + 1..].to_ascii_lowercase(),
                value: Some(value),
            };
            self.entry(&entry, Scope::User, home, (None, 0));
        }
    }

    /// A path that git executes or reads, whether it exists or not.
    fn path(&mut self, path: &[u8], scope: Scope, setting: &str, is_hooks: bool) {
        let mut at = Vec::new();
        for tree in self.trees.clone() {
            at.extend(self.both(&tree, path));
        }
        if at.iter().any(|path| self.trees.contains(path)) {
            let why = "it names the whole work tree, which an agent must be able to write";
            self.add(GitNamed::Unknown(why.to_owned()), setting);
        }
        for path in &at {
            self.add(GitNamed::At(path.clone()), setting);
            if is_hooks {
                self.hooks(path);
            }
        }
        let Some(relative) = Some(path).filter(|path| scope == Scope::User && path.first() != Some(&b'/')) else {
            return;
        };
        let Some(below) = AbsPath::lexical(&[b"/", relative].concat()).ok().filter(|path| !path.is_root()) else {
            return;
        };
        let below = below.as_bytes()[1..].to_vec();
        let is_plain = !relative.split(|byte| *byte == b'/').any(|name| name == b"..");
        if is_plain && (below.contains(&b'/') || below.starts_with(b".")) {
            self.add(GitNamed::InEachWorkTree(below), setting);
        } else {
            // `**/hooks` would protect directories of that name all over a project.
            let why =
                format!("{} is protected in repositories that exist, and not in one made inside", Shown(relative));
            self.add(GitNamed::Unknown(why), setting);
        }
    }

    /// A word that counts where it names a file.
    fn word(&mut self, word: &[u8], setting: &str) {
        for tree in self.trees.clone() {
            for path in self.both(&tree, word) {
                if matches!(self.look.path(&path), PathFact::File | PathFact::Link(_)) {
                    self.add(GitNamed::At(path), setting);
                }
            }
        }
    }

    /// Hooks that are links to somewhere else.
    fn hooks(&mut self, hooks: &AbsPath) {
        for name in names_in(hooks) {
            if matches!(self.look.path(&hooks.child(&name)), PathFact::Link(_))
                && let Some(path) = self.seen_from(hooks, &name)
            {
                self.add(GitNamed::At(path), &format!("the hook {}", Shown(hooks.child(&name).as_bytes())));
            }
        }
    }

    fn add(&mut self, named: GitNamed, setting: &str) {
        self.found.insert(GitRun { named, setting: setting.to_owned() });
    }

    /// A path as it is written and as it leads: a link on the way may be replaced.
    fn both(&mut self, dir: &AbsPath, path: &[u8]) -> Vec<AbsPath> {
        let is_absolute = path.first() == Some(&b'/');
        let written = if is_absolute { path.to_vec() } else { [dir.as_bytes(), b"/", path].concat() };
        let mut both: Vec<AbsPath> = AbsPath::lexical(&written).ok().into_iter().collect();
        both.extend(self.seen_from(dir, path));
        both.dedup();
        both
    }

    fn seen_from(&mut self, dir: &AbsPath, path: &[u8]) -> Option<AbsPath> {
        if path.is_empty() { None } else { Some(follow(dir, path, self.look).ok()?.path) }
    }
}
