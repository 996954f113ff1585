//! A work tree of git for one session: made before it starts, removed after it has ended where nothing in it would be lost.
//!
//! It lies in the repository's pool, or among ringfence's own state, never in the user's work tree. What it is made of is written
//! into the session's directory first: whoever collects what a killed supervisor left finds it there.

mod git;

use std::ffi::OsStr;
use std::fs;
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::{Duration, Instant};

use ringfence_surface::{AbsPath, Shown};
use rustix::fs::{FlockOperation, Mode, OFlags};
use serde::{Deserialize, Serialize};

use crate::remove::remove_tree;
use crate::store::{Held, Session};
use crate::text::Bytes;
use crate::walk::os_path;

use self::git::{Git, Place};

pub use self::git::GitError;

/// The version of what is written here.
const SCHEMA: u32 = 1;
/// The file in a session's directory.
const FILE: &str = "worktree";
/// Where those of dead sessions wait to be collected, below the state.
const LEFT: &str = "worktrees/left";
/// Before the name of each branch.
const BRANCHES: &str = "ringfence/";

/// Why there is no work tree.
#[derive(Debug, thiserror::Error)]
pub enum WorktreeError {
    /// The name is none that a branch can have.
    #[error("`{name}` is no name for a work tree: letters, digits, `.`, `_` and `-`, at most 64")]
    Name {
        /// As asked.
        name: String,
    },
    /// There is nothing to make one of.
    #[error("{dir} is in no work tree of git")]
    NoRepository {
        /// Where it was looked for.
        dir: AbsPath,
        /// What git says.
        source: GitError,
    },
    /// Nothing was ever committed.
    #[error("the repository {main} has no commits yet")]
    NoCommits {
        /// Which.
        main: AbsPath,
    },
    /// There is one of this name.
    #[error("there is a branch {branch} already")]
    Branch {
        /// Which.
        branch: String,
    },
    /// Something is there.
    #[error("{path} is there already")]
    There {
        /// What.
        path: AbsPath,
    },
    /// The pool is in the user's own work tree.
    #[error("the pool {pool} lies in the work tree {main}")]
    PoolInside {
        /// Which.
        pool: AbsPath,
        /// In which.
        main: AbsPath,
    },
    /// git did not do it.
    #[error(transparent)]
    Git(#[from] GitError),
    /// A file could not be read or written.
    #[error("{what}")]
    File {
        /// Which.
        what: &'static str,
        /// Why.
        source: io::Error,
    },
}

/// The repository that somebody works in.
#[derive(Debug, Clone)]
pub struct Repository {
    /// The work tree.
    pub main: AbsPath,
    /// Where it keeps its objects and refs.
    pub common_dir: AbsPath,
    /// What is checked out.
    base: String,
}

/// What is known of a work tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Record {
    schema: u32,
    session: String,
    main: Bytes,
    common_dir: Bytes,
    tree: Bytes,
    branch: String,
    base: String,
    /// None while it is being made: then nobody has worked in it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    git_dir: Option<Bytes>,
    /// Goes with it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    cache: Option<Bytes>,
}

/// A session's own work tree.
#[derive(Debug)]
pub struct Own {
    /// The work tree where the user works.
    pub main: AbsPath,
    /// The session's.
    pub tree: AbsPath,
    /// Its git directory.
    pub git_dir: AbsPath,
    /// The repository's.
    pub common_dir: AbsPath,
    /// What is checked out in it.
    pub branch: String,
    /// Filters of the repository, which were not run to make it.
    pub filters: Vec<String>,
    record: AbsPath,
    session: AbsPath,
    state: AbsPath,
}

/// What became of a work tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finished {
    /// It is gone, with its branch.
    Removed,
    /// It is there.
    Kept {
        /// Why.
        why: String,
    },
}

/// What was found of a dead session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Left {
    /// Which session's.
    pub session: String,
    /// Where.
    pub tree: AbsPath,
    /// On which branch.
    pub branch: String,
    /// What became of it.
    pub finished: Finished,
}

impl Repository {
    /// The one around a directory.
    ///
    /// # Errors
    /// [`WorktreeError`].
    pub fn around(dir: &AbsPath) -> Result<Self, WorktreeError> {
        let none = |source| WorktreeError::NoRepository { dir: dir.clone(), source };
        let git = Git::at(Place::From(dir)).map_err(none)?;
        let path = |option: &str| {
            let words = ["rev-parse", "--path-format=absolute", option].map(OsStr::new);
            let said = git.ask("rev-parse", &words)?;
            let wrong = |_| GitError::Refused { what: "rev-parse", said: Shown(&said).to_string() };
            AbsPath::lexical(&said).map_err(wrong)
        };
        let main = real(&path("--show-toplevel").map_err(none)?)?;
        let common_dir = real(&path("--git-common-dir").map_err(none)?)?;
        let words = ["rev-parse", "--verify", "--quiet", "HEAD^{commit}"].map(OsStr::new);
        let base = git.ask("rev-parse", &words).map_err(|cause| match cause {
            GitError::Refused { .. } => WorktreeError::NoCommits { main: main.clone() },
            other => WorktreeError::Git(other),
        })?;
        Ok(Self { main, common_dir, base: Shown(&base).to_string() })
    }

    /// Makes a work tree for a session. `pool` is where the repository keeps its own.
    ///
    /// # Errors
    /// [`WorktreeError`]; nothing is left of it then.
    pub fn make(&self, session: &Session, name: Option<&str>, pool: Option<AbsPath>) -> Result<Own, WorktreeError> {
        let name = checked(name.unwrap_or(session.name()))?;
        let pool = match pool {
            Some(pool) if pool.is_within(&self.main) => {
                return Err(WorktreeError::PoolInside { pool, main: self.main.clone() });
            }
            Some(pool) => pool,
            None => reachable(session.state(), &self.main).join("worktrees").child(&own_name(&self.main)),
        };
        let is_new = os_path(&pool).symlink_metadata().is_err();
        let mode = if rustix::process::geteuid().is_root() { 0o711 } else { 0o700 };
        fs::DirBuilder::new().recursive(true).mode(mode).create(os_path(&pool)).map_err(file("mkdir of the pool"))?;
        if let Some((uid, gid)) = git::owner(&self.main).filter(|_| is_new) {
            std::os::unix::fs::lchown(os_path(&pool), Some(uid), Some(gid)).map_err(file("chown of the pool"))?;
        }
        let pool = real(&pool)?;
        let (tree, branch) = (pool.join(name), format!("{BRANCHES}{name}"));
        if os_path(&tree).symlink_metadata().is_ok() {
            return Err(WorktreeError::There { path: tree });
        }
        let git = Git::at(Place::From(&self.main))?;
        let full = format!("refs/heads/{branch}");
        if git.holds("show-ref", &["show-ref", "--verify", "--quiet", &full].map(OsStr::new))? {
            return Err(WorktreeError::Branch { branch });
        }
        let record = session.dir().join(FILE);
        let mut known = Record {
            schema: SCHEMA,
            session: session.name().to_owned(),
            main: Bytes::new(self.main.as_bytes()),
            common_dir: Bytes::new(self.common_dir.as_bytes()),
            tree: Bytes::new(tree.as_bytes()),
            branch: branch.clone(),
            base: self.base.clone(),
            git_dir: None,
            cache: None,
        };
        known.write(&record)?;
        // Whoever collects what this one left, if it is killed, waits until what it has started has ended as well.
        let lock = fs::File::open(os_path(&record)).map_err(file("opening what is known of the work tree"))?;
        rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive)
            .map_err(|errno| file("locking what is known of the work tree")(errno.into()))?;
        let git = git.holding(&lock).map_err(file("holding what is known of the work tree"))?;
        let git_dir = match self.add(&git, &lock, &tree, (name, &full), session.name()) {
            Ok(git_dir) => git_dir,
            Err(error) => {
                // What cannot be removed now is found by its record.
                let _ = known.finish();
                return Err(error);
            }
        };
        known.git_dir = Some(Bytes::new(git_dir.as_bytes()));
        known.write(&record)?;
        let (main, common_dir, filters) = (self.main.clone(), self.common_dir.clone(), git.filters());
        let (session, state) = (session.dir().clone(), session.state().clone());
        Ok(Own { main, tree, git_dir, common_dir, branch, filters, record, session, state })
    }

    /// What `git worktree add` does, but that whoever lists work trees meanwhile finds a whole one or none: others, and agents,
    /// use the repository at the same time.
    fn add(
        &self,
        git: &Git<'_>,
        lock: &fs::File,
        tree: &AbsPath,
        (name, branch): (&str, &str),
        session: &str,
    ) -> Result<AbsPath, WorktreeError> {
        let none = "0".repeat(self.base.len());
        git.ask("update-ref", &["update-ref", "--create-reflog", branch, &self.base, &none].map(OsStr::new))?;
        let (unfinished, place) = (unfinished(session), os_path(&self.common_dir).as_os_str());
        let words = [name, branch, &unfinished].map(OsStr::new);
        git.shell("worktree add", ADD, &[os_path(tree).as_os_str(), place, words[0], words[1], words[2]])?;
        let git_dir = self.git_dir_of(tree)?;
        let own = Git::at(Place::Exactly { tree, git_dir: &git_dir, common_dir: &self.common_dir })?;
        let own = own.holding(lock).map_err(file("holding what is known of the work tree"))?;
        own.ask("reset", &["reset", "--hard", "--quiet", "--no-recurse-submodules"].map(OsStr::new))?;
        Ok(git_dir)
    }

    /// The git directory of a work tree that nobody has worked in yet.
    fn git_dir_of(&self, tree: &AbsPath) -> Result<AbsPath, WorktreeError> {
        let wrong = || file("reading .git")(io::ErrorKind::InvalidData.into());
        let text = fs::read(os_path(&tree.child(b".git"))).map_err(file("reading .git"))?;
        let named = text.trim_ascii_end().strip_prefix(b"gitdir: ").and_then(|path| AbsPath::lexical(path).ok());
        let named = real(&named.ok_or_else(wrong)?)?;
        if named.parent() == Some(self.common_dir.join("worktrees")) { Ok(named) } else { Err(wrong()) }
    }
}

/// What the git directory is called in the repository before it is whole.
fn unfinished(session: &str) -> String {
    format!("ringfence-{session}")
}

/// Takes the work tree, the repository, a name, a branch and what it is called before it is whole. The git directory comes to its place in one step; a name that is taken
/// gets a number, as git does it.
const ADD: &str = r#"
umask 022
mkdir -- "$1"
new=$2/$5
mkdir -- "$new"
trap 'rm -rf -- "$new"' EXIT
printf 'ref: %s\n' "$4" > "$new/HEAD"
printf '../..\n' > "$new/commondir"
printf '%s/.git\n' "$1" > "$new/gitdir"
mkdir -p -- "$2/worktrees"
name=$3
number=0
until [ ! -e "$2/worktrees/$name" ] && mv -n -T -- "$new" "$2/worktrees/$name" && [ ! -e "$new" ]; do
    number=$((number + 1))
    [ $number -lt 1000 ]
    name=$3$number
done
printf 'gitdir: %s/worktrees/%s\n' "$2" "$name" > "$1/.git"
"#;

impl Own {
    /// Notes what goes with it: caches that are for this work tree alone.
    ///
    /// # Errors
    /// When it cannot be written down.
    pub fn with_cache(&self, cache: &AbsPath) -> Result<(), WorktreeError> {
        let mut known = Record::read(&self.record)?;
        known.cache = Some(Bytes::new(cache.as_bytes()));
        known.write(&self.record)
    }

    /// Removes it where nothing would be lost. Nothing of the session may run any more.
    ///
    /// # Errors
    /// When git cannot tell, or something cannot be removed: it is there then.
    pub fn finish(self) -> Result<Finished, WorktreeError> {
        let finished = Record::read(&self.record).and_then(|record| record.finish());
        if finished.is_err() {
            // The session's directory goes with the session; somebody else may have more luck.
            set_aside(&self.state, &self.session);
        } else {
            let _ = fs::remove_file(os_path(&self.record));
        }
        finished
    }

    /// Leaves it where it is.
    pub fn keep(self) {
        let _ = fs::remove_file(os_path(&self.record));
    }
}

/// A session that is collected leaves word of its work tree: to look at that takes longer than a start may.
pub(crate) fn set_aside(state: &AbsPath, dir: &AbsPath) {
    let from = dir.join(FILE);
    if os_path(&from).symlink_metadata().is_err() {
        return;
    }
    let left = Held::open(&state.join(LEFT), Some(Mode::RWXU));
    let name = dir.file_name().unwrap_or(b"unknown");
    // Where it cannot be, the work tree stays; `git worktree list` shows it.
    let _ = left.and_then(|left| fs::rename(os_path(&from), os_path(&left.at().child(name))));
}

/// Removes the work trees of dead sessions where nothing would be lost, for at most this long. Several may do it at once.
pub fn collect(state: &AbsPath, time: Duration) -> Vec<Left> {
    let (left, until) = (state.join(LEFT), Instant::now() + time);
    let mut found = Vec::new();
    for entry in fs::read_dir(os_path(&left)).into_iter().flatten().flatten() {
        if Instant::now() > until {
            break;
        }
        let path = left.child(entry.file_name().as_bytes());
        let Ok(held) = fs::File::open(os_path(&path)) else { continue };
        if rustix::fs::flock(&held, FlockOperation::NonBlockingLockExclusive).is_err() {
            continue;
        }
        let Ok(record) = Record::read(&path) else { continue };
        let Some(tree) = record.tree.path() else { continue };
        let finished = record.finish().unwrap_or_else(|error| Finished::Kept { why: error.to_string() });
        if finished == Finished::Removed {
            let _ = fs::remove_file(os_path(&path));
        }
        found.push(Left { session: record.session, tree, branch: record.branch, finished });
    }
    found
}

impl Record {
    fn read(path: &AbsPath) -> Result<Self, WorktreeError> {
        let failed = || file("reading what is known of the work tree");
        let careful = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
        let opened = fs::OpenOptions::new().read(true).custom_flags(careful).open(os_path(path)).map_err(failed())?;
        // What is removed by it is removed with the rights of whoever reads it.
        if opened.metadata().map_err(failed())?.uid() != rustix::process::geteuid().as_raw() {
            return Err(failed()(io::ErrorKind::PermissionDenied.into()));
        }
        let mut text = Vec::new();
        (&opened).read_to_end(&mut text).map_err(failed())?;
        let record: Self = serde_json::from_slice(&text).map_err(|cause| file("reading it")(cause.into()))?;
        if record.schema == SCHEMA { Ok(record) } else { Err(file("reading it")(io::ErrorKind::InvalidData.into())) }
    }

    fn write(&self, path: &AbsPath) -> Result<(), WorktreeError> {
        let failed = file("writing what is known of the work tree");
        let new = path.parent().unwrap_or_else(AbsPath::root).join("worktree.new");
        let text = serde_json::to_vec(self).map_err(|cause| file("writing it")(cause.into()))?;
        let mut options = fs::OpenOptions::new();
        let options = options.write(true).create(true).truncate(true).mode(0o600);
        let written = options.open(os_path(&new)).and_then(|mut file| io::Write::write_all(&mut file, &text));
        written.and_then(|()| fs::rename(os_path(&new), os_path(path))).map_err(failed)
    }

    fn finish(&self) -> Result<Finished, WorktreeError> {
        let wrong = || file("reading it")(io::ErrorKind::InvalidData.into());
        let place = |bytes: &Bytes| bytes.path().ok_or_else(wrong);
        let (tree, common_dir) = (place(&self.tree)?, place(&self.common_dir)?);
        let cache = self.cache.as_ref().map(place).transpose()?;
        let git_dir = match &self.git_dir {
            Some(git_dir) => {
                let git_dir = place(git_dir)?;
                if let Some(why) = self.would_be_lost(&tree, &git_dir, &common_dir)? {
                    return Ok(Finished::Kept { why });
                }
                Some(git_dir)
            }
            // Nobody has worked in it.
            None => git_dir_by_name(&common_dir, &tree),
        };
        // Only where it is still what it was.
        let (common, full) = (
            Place::Exactly { tree: &common_dir, git_dir: &common_dir, common_dir: &common_dir },
            format!("refs/heads/{}", self.branch),
        );
        let git = Git::at(common)?;
        let unfinished = common_dir.join(&unfinished(&self.session));
        // In one step: a tree of which half is gone would look like one that somebody has changed.
        let gone = tree.parent().unwrap_or_else(AbsPath::root).join(&format!(".removed-{}", self.session));
        remove(&git, &gone)?;
        move_away(&git, &tree, &gone)?;
        for path in [Some(&gone), git_dir.as_ref(), Some(&unfinished)].into_iter().flatten() {
            remove(&git, path)?;
        }
        cache.as_ref().map_or(Ok(()), remove_own)?;
        if git.holds("show-ref", &["show-ref", "--verify", "--quiet", &full].map(OsStr::new))? {
            git.ask("update-ref", &["update-ref", "-d", &full, &self.base].map(OsStr::new))?;
        }
        // Others of the same repository may be beside it, and a pool stays.
        if let Some(above) =
            tree.parent().filter(|above| above.parent().is_some_and(|dir| dir.file_name() == Some(b"worktrees")))
        {
            let _ = fs::remove_dir(os_path(&above));
        }
        Ok(Finished::Removed)
    }

    /// What would be lost with it, if anything.
    fn would_be_lost(
        &self,
        tree: &AbsPath,
        git_dir: &AbsPath,
        common_dir: &AbsPath,
    ) -> Result<Option<String>, WorktreeError> {
        if os_path(tree).symlink_metadata().is_err() {
            // Somebody has removed it.
            return Ok(None);
        }
        if os_path(&git_dir.join("modules")).exists() {
            return Ok(Some("it has submodules".to_owned()));
        }
        let git = Git::at(Place::Exactly { tree, git_dir, common_dir })?;
        let commit = |name: &str| {
            let name = format!("{name}^{{commit}}");
            let words = ["rev-parse", "--verify", "--quiet", &name].map(OsStr::new);
            git.ask("rev-parse", &words).map(|said| Shown(&said).to_string())
        };
        if commit(&format!("refs/heads/{}", self.branch)).is_ok_and(|commit| commit != self.base)
            || commit("HEAD")? != self.base
        {
            return Ok(Some("it has new commits".to_owned()));
        }
        let words =
            ["status", "--porcelain", "-z", "--untracked-files=normal", "--ignore-submodules=all", "--no-renames"];
        if git.ask("status", &words.map(OsStr::new))?.is_empty() {
            return Ok(None);
        }
        Ok(Some("it has changes that are not committed".to_owned()))
    }
}

/// The git directory that names a work tree: of one that was not made to its end nothing else is known.
fn git_dir_by_name(common_dir: &AbsPath, tree: &AbsPath) -> Option<AbsPath> {
    let all = common_dir.join("worktrees");
    let dot_git = tree.child(b".git");
    let names = |dir: &AbsPath| {
        let text = fs::read(os_path(&dir.join("gitdir"))).unwrap_or_default();
        text.trim_ascii_end() == dot_git.as_bytes()
    };
    let entries = fs::read_dir(os_path(&all)).into_iter().flatten().flatten();
    entries.map(|entry| all.child(entry.file_name().as_bytes())).find(names)
}

/// Moves a work tree away, if it is there.
fn move_away(git: &Git<'_>, tree: &AbsPath, to: &AbsPath) -> Result<(), WorktreeError> {
    if os_path(tree).symlink_metadata().is_err() {
        return Ok(());
    }
    if git.is_for_another() {
        let paths = [os_path(tree).as_os_str(), os_path(to).as_os_str()];
        return Ok(git.shell("mv", "mv -T -- \"$1\" \"$2\"", &paths)?);
    }
    fs::rename(os_path(tree), os_path(to)).map_err(file("moving the work tree away"))
}

/// Removes something of the repository, or a work tree.
fn remove(git: &Git<'_>, path: &AbsPath) -> Result<(), WorktreeError> {
    if git.is_for_another() {
        // Whoever owns it may have put links on the way.
        return Ok(git.shell("rm", "rm -rf -- \"$1\"", &[os_path(path).as_os_str()])?);
    }
    remove_own(path)
}

fn remove_own(path: &AbsPath) -> Result<(), WorktreeError> {
    match remove_tree(os_path(path)) {
        Err(cause) if os_path(path).symlink_metadata().is_ok() => Err(file("removing the work tree")(cause)),
        _ => Ok(()),
    }
}

fn checked(name: &str) -> Result<&str, WorktreeError> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    let is_good = !name.is_empty()
        && name.len() <= 64
        && name.bytes().all(is_plain)
        && !name.starts_with(['.', '-'])
        && !name.ends_with(['.'])
        && !name.contains("..")
        && !name.to_ascii_lowercase().ends_with(".lock");
    if is_good { Ok(name) } else { Err(WorktreeError::Name { name: Shown(name.as_bytes()).to_string() }) }
}

/// A directory for the work trees of one repository: its name to recognise it, its path's hash so that no two share one.
fn own_name(main: &AbsPath) -> Vec<u8> {
    use sha2::Digest as _;
    let hash = crate::text::hex(&sha2::Sha256::digest(main.as_bytes())[..8]);
    let name: Vec<u8> = main.file_name().unwrap_or(b"root").iter().copied().take(64).collect();
    [name.as_slice(), b"-", hash.as_bytes()].concat()
}

/// Where those of a repository can be: whom root works for must be able to go there.
fn reachable(state: &AbsPath, main: &AbsPath) -> AbsPath {
    use std::os::unix::fs::PermissionsExt as _;
    let is_open = |dir: AbsPath| fs::metadata(os_path(&dir)).is_ok_and(|found| found.permissions().mode() & 0o001 != 0);
    match git::owner(main) {
        Some(_) if !state.ancestors().all(is_open) => AbsPath::root().join("var/lib/ringfence"),
        _ => state.clone(),
    }
}

/// Links on the way followed.
fn real(path: &AbsPath) -> Result<AbsPath, WorktreeError> {
    let real = fs::canonicalize::<&Path>(os_path(path)).map_err(file("realpath"))?;
    AbsPath::lexical(real.as_os_str().as_bytes()).map_err(|cause| file("realpath")(io::Error::other(cause)))
}

fn file(what: &'static str) -> impl FnOnce(io::Error) -> WorktreeError {
    move |source| WorktreeError::File { what, source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g11_names() {
        for name in ["a", "fix-42", "A.b_c", "9", &"x".repeat(64)] {
            assert!(checked(name).is_ok(), "{name}");
        }
        for name in
            ["", ".", "..", "-x", ".x", "a..b", "a/b", "../x", "x.lock", "X.LOCK", "x.", "a b", "a\n", "é", "@{", "~"]
        {
            assert!(checked(name).is_err(), "{name:?}");
        }
        assert!(checked(&"x".repeat(65)).is_err());
    }
}
