//! What an agent's client finds in its session: settings that it cannot change, a home that it can, its sign-in, its past.
//!
//! The plan says what is in each file. Here it is written, before anything starts, and said which of it must be guarded.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};

use ringfence_plan::{AgentFile, AgentPlan, FilePlace, MountOp};
use ringfence_surface::{AbsPath, Look, PathFact};

use crate::beneath::{Dir, Owner};
use crate::walk::os_path;

/// A client and what it is started with.
#[derive(Debug)]
pub struct Furnishing {
    /// What the plan says.
    pub plan: AgentPlan,
    /// Where what it remembers is kept from session to session.
    pub history: Option<AbsPath>,
    /// Files with a secret, below the home.
    pub sign_in: Vec<(&'static str, Vec<u8>)>,
}

/// What was written.
pub(crate) struct Furnished {
    /// Files of the home that stay as they are.
    pub(crate) frozen: Vec<AbsPath>,
    /// Files that stand somewhere else in the view, each with its name in the session's directory.
    pub(crate) shown: Vec<(AbsPath, String)>,
    /// Why nothing is remembered.
    pub(crate) forgetful: Option<io::Error>,
}

impl Furnishing {
    /// Writes everything.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub(crate) fn write(&self, session: &AbsPath, owner: Owner) -> io::Result<Furnished> {
        let home = Dir::open(&session.join("home"), owner)?;
        let mut furnished = Furnished { frozen: Vec::new(), shown: Vec::new(), forgetful: None };
        for AgentFile { place, content } in &self.plan.files {
            match place {
                FilePlace::Home(path) => put(&home, path, |dir, name| dir.put(name, content.as_bytes()))?,
                FilePlace::Frozen(path) => {
                    put(&home, path, |dir, name| dir.put(name, content.as_bytes()))?;
                    furnished.frozen.push(session.join("home").join(path));
                }
                FilePlace::Given(name) => give(session, name, content)?,
                FilePlace::Shown(path) => {
                    // Only the last two names tell such files apart.
                    let name = path.trim_start_matches('/').replace('/', "-");
                    give(session, &name, content)?;
                    let path = AbsPath::lexical(path.as_bytes()).map_err(io::Error::other)?;
                    furnished.shown.push((path, format!("given/{name}")));
                }
            }
        }
        for (path, secret) in &self.sign_in {
            put(&home, path, |dir, name| dir.put_secret(name, secret))?;
        }
        furnished.forgetful = self.remember(&home, owner).err();
        Ok(furnished)
    }

    /// Directories of the home that lead to what is kept. What is kept is the agent's to write: whatever it put in the place of
    /// a directory costs it its memory, not the session its start.
    fn remember(&self, home: &Dir, owner: Owner) -> io::Result<()> {
        let Some(history) = &self.history else { return Ok(()) };
        let kept = Dir::open(history, owner)?;
        for (from, name) in &self.plan.remembered {
            kept.below(name.as_bytes())?;
            let target = history.join(name);
            put(home, from, |dir, link| dir.link(link, target.as_bytes()))?;
        }
        Ok(())
    }
}

/// Writes below the home, whose directories are made as needed.
fn put(home: &Dir, path: &str, write: impl FnOnce(&Dir, &[u8]) -> io::Result<()>) -> io::Result<()> {
    match path.rsplit_once('/') {
        Some((dir, name)) => write(&home.below(dir.as_bytes())?, name.as_bytes()),
        None => write(home, path.as_bytes()),
    }
}

/// Writes what is read inside and belongs to whoever started the session.
fn give(session: &AbsPath, name: &str, content: &str) -> io::Result<()> {
    let dir = session.join("given");
    match fs::DirBuilder::new().mode(0o755).create(os_path(&dir)) {
        Err(cause) if cause.kind() != io::ErrorKind::AlreadyExists => return Err(cause),
        _ => {}
    }
    let path = dir.join(name);
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o644).open(os_path(&path))?;
    io::Write::write_all(&mut file, content.as_bytes())
}

/// The mounts with a place for each file that is shown. Where the host has no such file, the directory above is made anew, with
/// everything that the host has in it, so that there is room for one more name: nothing of the host is touched.
pub(crate) fn with_room(mut mounts: Vec<MountOp>, shown: &[(AbsPath, String)], look: &mut dyn Look) -> Vec<MountOp> {
    let mut rebuilt: Vec<AbsPath> = Vec::new();
    for (path, _) in shown {
        if look.path(path) == PathFact::File {
            continue;
        }
        let Some(above) = path.ancestors().skip(1).find(|dir| dir.is_root() || look.path(dir) == PathFact::Directory)
        else {
            continue;
        };
        if above.is_root() || rebuilt.contains(&above) {
            continue;
        }
        let at = mounts.iter().position(|op| *op.destination() >= above).unwrap_or(mounts.len());
        let is_bound = matches!(mounts.get(at), Some(MountOp::Bind { path, .. }) if *path == above);
        let mut ops = vec![MountOp::Rebuilt { path: above.clone() }];
        ops.extend(entries(&above));
        mounts.splice(at..at + usize::from(is_bound), ops);
        rebuilt.push(above);
    }
    mounts
}

/// Each name of a directory, as a mount or a link.
fn entries(dir: &AbsPath) -> Vec<MountOp> {
    use std::os::unix::ffi::OsStrExt as _;
    let listed = fs::read_dir(os_path(dir)).into_iter().flatten().flatten();
    let mut ops: Vec<MountOp> = listed
        .filter_map(|entry| {
            let path = dir.child(entry.file_name().as_bytes());
            let kind = entry.file_type().ok()?;
            if kind.is_symlink() {
                let target = fs::read_link(os_path(&path)).ok()?;
                return Some(MountOp::Link { path, target: target.as_os_str().as_bytes().to_vec() });
            }
            let access = ringfence_plan::MountAccess::ReadOnly;
            let bind = MountOp::Bind { path, access, role: ringfence_surface::Role::System };
            (kind.is_dir() || kind.is_file()).then_some(bind)
        })
        .collect();
    ops.sort_by(|a, b| a.destination().cmp(b.destination()));
    ops
}
