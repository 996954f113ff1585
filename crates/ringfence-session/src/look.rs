//! What stands at the paths that a Surface speaks of, looked up now.
//!
//! A Surface that was read back, or made tighter, comes without the facts that it was resolved from, and those would be old.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};

use ringfence_surface::{AbsPath, GitFact, HostFacts, Look, PATH_VARIABLES, PathFact, SOCKET_VARIABLES, Surface};

use crate::walk::os_path;

/// The host as it is, each path looked at once. For one call: afterwards it is old.
#[derive(Debug)]
pub struct Live {
    known: HashMap<AbsPath, PathFact>,
}

impl Live {
    /// Nothing is known yet.
    #[expect(clippy::new_without_default, reason = "what is known is not a default of anything")]
    pub fn new() -> Self {
        Self { known: HashMap::with_capacity(4096) }
    }
}

impl Look for Live {
    fn path(&mut self, path: &AbsPath) -> PathFact {
        if let Some(fact) = self.known.get(path) {
            return fact.clone();
        }
        // Below nothing there is nothing, and most of what built-in tables name does not exist.
        let above = path.parent().filter(|above| !above.is_root()).map(|above| self.path(&above));
        let fact = if above == Some(PathFact::Missing) { PathFact::Missing } else { look(path) };
        self.known.insert(path.clone(), fact.clone());
        fact
    }

    fn git(&mut self, _: &AbsPath) -> Option<GitFact> {
        // Only a policy that is resolved asks where work trees belong.
        None
    }

    fn git_runs(&mut self, _: &AbsPath, _: &AbsPath) -> Vec<ringfence_surface::GitRun> {
        Vec::new()
    }
}

fn look(path: &AbsPath) -> PathFact {
    let Ok(metadata) = fs::symlink_metadata(os_path(path)) else { return PathFact::Missing };
    let kind = metadata.file_type();
    if kind.is_dir() {
        PathFact::Directory
    } else if kind.is_file() {
        PathFact::File
    } else if kind.is_symlink() {
        fs::read_link(os_path(path)).map_or(PathFact::Missing, |to| PathFact::Link(to.into_os_string().into_vec()))
    } else {
        PathFact::Special
    }
}

/// Everything about this host, seen from a directory, but what stands at paths.
///
/// # Errors
/// When the directory is no usable path.
pub fn facts_here(cwd: &std::path::Path) -> io::Result<HostFacts> {
    let cwd = fs::canonicalize(cwd)?;
    let cwd = AbsPath::lexical(cwd.as_os_str().as_bytes()).map_err(io::Error::other)?;
    // Only what a rule may name: other variables hold secrets.
    let names = PATH_VARIABLES.iter().chain(SOCKET_VARIABLES).chain(&["XDG_STATE_HOME"]);
    let held = |name: &&str| Some((name.as_bytes().to_vec(), std::env::var_os(name)?.into_vec()));
    Ok(HostFacts {
        environment: names.filter_map(held).collect(),
        cwd,
        homes: account_home().into_iter().collect(),
        paths: BTreeMap::new(),
        git: BTreeMap::new(),
        git_runs: BTreeMap::new(),
        mounts: Vec::new(),
        kernel: rustix::system::uname().release().to_str().unwrap_or_default().to_owned(),
        session: None,
    })
}

/// The home that the account database knows for whoever runs this.
fn account_home() -> Option<AbsPath> {
    let uid = rustix::process::geteuid().as_raw().to_string();
    let passwd = fs::read("/etc/passwd").ok()?;
    passwd.split(|byte| *byte == b'\n').find_map(|line| {
        let fields: Vec<&[u8]> = line.split(|byte| *byte == b':').collect();
        let [_, _, number, _, _, home, ..] = fields.as_slice() else { return None };
        let home = AbsPath::lexical(home).ok().filter(|home| !home.is_root())?;
        (*number == uid.as_bytes()).then_some(home)
    })
}

/// Where the host's services listen: the broad view hides them.
const SOCKET_DIRECTORIES: [&str; 2] = ["/run", "/var/run"];

/// The facts with what stands now wherever a rule names a place.
pub fn facts_of(surface: &Surface, mut facts: HostFacts, look: &mut dyn Look) -> HostFacts {
    facts.paths.clear();
    let mut record = |path: &AbsPath| {
        let fact = look.path(path);
        if fact != PathFact::Missing {
            facts.paths.insert(path.clone(), fact);
        }
    };
    for rule in surface.rules() {
        if let Some(base) = rule.pattern.base() {
            record(base);
        }
        // `/bin` may be a link, and is written as it is named.
        if let Ok(written) = AbsPath::lexical(rule.text.as_bytes()) {
            record(&written);
        }
    }
    SOCKET_DIRECTORIES.iter().filter_map(|dir| AbsPath::lexical(dir.as_bytes()).ok()).for_each(|dir| record(&dir));
    facts
}
