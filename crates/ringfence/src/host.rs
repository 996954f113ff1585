//! The facts of this host. Everything that is asked is recorded, so that the record answers the same again.

mod names;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::OsStr;
use std::fs;
use std::io::Read as _;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use ringfence_surface::{
    AbsPath, Client, GitFact, GitRun, HostFacts, Look, MountFact, PATH_VARIABLES, PathFact, SOCKET_VARIABLES,
};
use rustix::fs::{FileType, OFlags};

use crate::error::Failure;
use crate::remembered::Remembered;

use crate::git_settings::runs;

use names::{Names, Worth};

/// A live host that remembers what it was asked.
pub(crate) struct Recorder {
    directories: Vec<Directory>,
    /// Where each directory is in the list.
    places: HashMap<AbsPath, usize>,
    /// The one that was asked for last: rules come sorted.
    last: usize,
    /// Hundreds of rules speak of what may be in a home, and few of a home's names are in rules elsewhere.
    homes: Vec<AbsPath>,
    git: BTreeMap<AbsPath, Option<GitFact>>,
    git_runs: BTreeMap<AbsPath, Vec<GitRun>>,
    remembered: Option<Remembered>,
    /// Packs that the user agrees to for now.
    agreed: BTreeSet<String>,
    /// The places that sessions could write: read when something asks for it.
    written: Option<Option<BTreeSet<Vec<u8>>>>,
}

/// What is known of a directory.
struct Directory {
    path: AbsPath,
    worth: Worth,
    asked: Asked,
    /// What was looked at in it.
    known: HashMap<Vec<u8>, PathFact>,
}

/// How often names in a directory were asked for.
enum Asked {
    /// A few times.
    Times(u32),
    /// So often that it was listed.
    Often(Names),
    /// Often, and a listing would not answer.
    Unlisted,
}

/// From here on a directory is listed, if that is worth it.
const OFTEN: u32 = 6;

/// A path of ours as the system takes it.
pub(crate) fn os_path(path: &AbsPath) -> &Path {
    Path::new(OsStr::from_bytes(path.as_bytes()))
}

/// Everything about this host but what stands at paths, and what is mounted: nothing here depends on that, and the kernel's
/// table of it is slow to read.
pub(crate) fn facts() -> Result<HostFacts, Failure> {
    let cwd = std::env::current_dir().map_err(|source| Failure::CurrentDirectory { source })?;
    // A process may stand where it could not go. Every look from there would find nothing, and be taken for an answer.
    fs::metadata(&cwd).map_err(|source| Failure::UnreadableDirectory { dir: cwd.clone(), source })?;
    Ok(facts_at(AbsPath::lexical(cwd.as_os_str().as_bytes()).map_err(|source| Failure::Path { source })?))
}

/// Where the state of this user's sessions is. `None` without a home.
#[cfg(target_os = "linux")]
pub(crate) fn own_state() -> Option<AbsPath> {
    facts_at(AbsPath::root()).own_directories().state
}

/// The same, for whoever stands here.
pub(crate) fn facts_at(cwd: AbsPath) -> HostFacts {
    // Only what a rule may name: other variables hold secrets, and facts are written to files.
    let names = PATH_VARIABLES.iter().chain(SOCKET_VARIABLES).chain(&["XDG_STATE_HOME", "PATH"]);
    let value = |name: &str| Some((name.as_bytes().to_vec(), std::env::var_os(name)?.into_vec()));
    // Where an agent's model is. With a password in it, or a key, it is none.
    let addresses = Client::ALL.map(|client| client.provider().base_url);
    let is_plain = |(_, value): &(Vec<u8>, Vec<u8>)| !value.iter().any(|byte| b"@?#".contains(byte));
    let addresses = addresses.iter().filter_map(|name| value(name)).filter(is_plain);
    let environment = names.filter_map(|name| value(name)).chain(addresses).collect();
    HostFacts {
        environment,
        cwd,
        homes: account_homes(),
        paths: BTreeMap::new(),
        git: BTreeMap::new(),
        git_runs: BTreeMap::new(),
        mounts: Vec::new(),
        kernel: rustix::system::uname().release().to_str().unwrap_or_default().to_owned(),
        session: None,
    }
}

/// The homes that the account database knows for whoever runs this, and for the user behind `sudo`.
fn account_homes() -> Vec<AbsPath> {
    let mut uids = vec![rustix::process::getuid().as_raw(), rustix::process::geteuid().as_raw()];
    let sudo: Option<u32> = std::env::var_os("SUDO_UID").and_then(|uid| uid.to_str()?.parse().ok());
    uids.extend(sudo);
    let Ok(passwd) = read_bounded(Path::new("/etc/passwd"), 16 << 20) else { return Vec::new() };
    let mut homes = Vec::new();
    for line in passwd.split(|b| *b == b'\n') {
        let fields: Vec<&[u8]> = line.split(|b| *b == b':').collect();
        let [_, _, uid, _, _, home, ..] = fields.as_slice() else { continue };
        let uid = std::str::from_utf8(uid).ok().and_then(|uid| uid.parse().ok());
        if let (Some(uid), Ok(home)) = (uid, AbsPath::lexical(home)) {
            // Service accounts live in `/`, which is nobody's home.
            if uids.contains(&uid) && !home.is_root() && !homes.contains(&home) {
                homes.push(home);
            }
        }
    }
    homes
}

#[cfg(target_os = "linux")]
/// The user that `--user` names: an account, or `UID:GID`. Root is nobody that an agent runs as.
pub(crate) fn user(name: &str) -> Result<(u32, u32), Failure> {
    let unusable = |why| Failure::User { name: name.to_owned(), why };
    let numbers = name.split_once(':').and_then(|(uid, gid)| Some((uid.parse().ok()?, gid.parse().ok()?)));
    let (uid, gid): (u32, u32) = match numbers {
        Some(numbers) => numbers,
        None => {
            let passwd = read_bounded(Path::new("/etc/passwd"), 16 << 20).unwrap_or_default();
            account(&passwd, name).ok_or(unusable("there is no such account in /etc/passwd"))?
        }
    };
    if uid == 0 || gid == 0 {
        return Err(unusable("an agent never runs as root or in root's group"));
    }
    if !rustix::process::geteuid().is_root() && rustix::process::geteuid().as_raw() != uid {
        return Err(unusable("only root can run a command as somebody else"));
    }
    Ok((uid, gid))
}

#[cfg(target_os = "linux")]
/// User and group of an account, by name or by number.
fn account(passwd: &[u8], name: &str) -> Option<(u32, u32)> {
    let number = |field: &[u8]| std::str::from_utf8(field).ok()?.parse::<u32>().ok();
    passwd.split(|b| *b == b'\n').find_map(|line| {
        let fields: Vec<&[u8]> = line.split(|b| *b == b':').collect();
        let [account, _, uid, gid, ..] = fields.as_slice() else { return None };
        (*account == name.as_bytes() || *uid == name.as_bytes()).then_some((number(uid)?, number(gid)?))
    })
}

/// What is mounted, for a description of this host.
pub(crate) fn mounts() -> Vec<MountFact> {
    let Ok(table) = fs::read("/proc/self/mountinfo") else { return Vec::new() };
    table.split(|b| *b == b'\n').filter_map(mount_fact).collect()
}

/// One line of mountinfo: the fifth field is the target, the first after ` - ` the kind.
fn mount_fact(line: &[u8]) -> Option<MountFact> {
    let fields: Vec<&[u8]> = line.split(|b| *b == b' ').collect();
    let dash = fields.iter().position(|field| *field == b"-")?;
    let target = AbsPath::lexical(&unescape(fields.get(4)?)).ok()?;
    let kind = std::str::from_utf8(fields.get(dash + 1)?).ok()?.to_owned();
    Some(MountFact { target, kind })
}

/// The kernel writes space, tab, newline and backslash as `\ooo`.
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((byte, after)) = rest.split_first() {
        let octal =
            after.get(..3).and_then(|d| std::str::from_utf8(d).ok()).and_then(|d| u8::from_str_radix(d, 8).ok());
        match (byte, octal) {
            (b'\\', Some(value)) => {
                out.push(value);
                rest = &after[3..];
            }
            _ => {
                out.push(*byte);
                rest = after;
            }
        }
    }
    out
}

/// Reads a regular file of at most `most` bytes; one more byte is returned when it is longer. A pipe or device, which might
/// never end or never begin, is refused.
pub(crate) fn read_bounded(path: &Path, most: u64) -> std::io::Result<Vec<u8>> {
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed();
    let file = fs::OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(std::io::Error::new(std::io::ErrorKind::InvalidInput, "not a regular file"));
    }
    // Room for all of it, so that it is read in one call.
    let mut bytes = Vec::with_capacity(usize::try_from(metadata.len().min(most)).unwrap_or(0) + 64);
    file.take(most + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

impl Recorder {
    pub(crate) fn new(homes: Vec<AbsPath>) -> Self {
        let (directories, places) = (Vec::with_capacity(64), HashMap::with_capacity(64));
        Self {
            directories,
            places,
            last: 0,
            homes,
            git: BTreeMap::new(),
            git_runs: BTreeMap::new(),
            remembered: None,
            agreed: BTreeSet::new(),
            written: None,
        }
    }

    /// With what is remembered of earlier sessions.
    pub(crate) fn remembering(self, remembered: Option<Remembered>) -> Self {
        Self { remembered, ..self }
    }

    /// The user agrees to packs, for this once.
    pub(crate) fn agree<'p>(&mut self, packs: impl IntoIterator<Item = &'p str>) {
        self.agreed.extend(packs.into_iter().map(str::to_owned));
    }

    /// Hands the record over. What is not in it counts as missing.
    pub(crate) fn into_facts(self, mut facts: HostFacts) -> HostFacts {
        for Directory { path, asked, known, .. } in self.directories {
            let looked = known.into_iter().filter(|(_, fact)| *fact != PathFact::Missing);
            facts.paths.extend(looked.map(|(name, fact)| (path.child(&name), fact)));
            if let Asked::Often(names) = asked {
                let listed = names.asked().filter_map(|(name, kind)| Some((path.child(name), fact(kind)?)));
                facts.paths.extend(listed);
            }
        }
        facts.git = self.git.into_iter().filter_map(|(path, fact)| Some((path, fact?))).collect();
        facts.git_runs = self.git_runs;
        facts
    }

    /// The directory that a path is in.
    fn directory(&mut self, dir: &[u8], path: &AbsPath) -> &mut Directory {
        if self.directories.get(self.last).is_none_or(|last| last.path.as_bytes() != dir) {
            self.last = match self.places.get(dir) {
                Some(place) => *place,
                None => {
                    let path = path.parent().unwrap_or_else(AbsPath::root);
                    let is_home = self.homes.iter().any(|home| path.is_within(home));
                    let worth = if is_home { Worth::Always } else { Worth::Little };
                    self.places.insert(path.clone(), self.directories.len());
                    self.directories.push(Directory { path, worth, asked: Asked::Times(0), known: HashMap::new() });
                    self.directories.len() - 1
                }
            };
        }
        &mut self.directories[self.last]
    }
}

impl Directory {
    /// What stands there under a name.
    fn look(&mut self, name: &[u8], path: &AbsPath) -> PathFact {
        if let Asked::Times(OFTEN) = self.asked {
            self.asked = Names::of(os_path(&self.path), self.worth).map_or(Asked::Unlisted, Asked::Often);
        }
        match &mut self.asked {
            Asked::Often(names) => match names.kind(name).map(fact) {
                None => return PathFact::Missing,
                Some(Some(fact)) => return fact,
                // What a link says is not in the list.
                Some(None) => {}
            },
            Asked::Times(times) => *times += 1,
            Asked::Unlisted => {}
        }
        if let Some(fact) = self.known.get(name) {
            return fact.clone();
        }
        let fact = look(path);
        self.known.insert(name.to_vec(), fact.clone());
        fact
    }
}

/// What a listing tells, where it tells enough.
fn fact(kind: FileType) -> Option<PathFact> {
    match kind {
        FileType::Directory => Some(PathFact::Directory),
        FileType::RegularFile => Some(PathFact::File),
        FileType::Symlink | FileType::Unknown => None,
        _ => Some(PathFact::Special),
    }
}

impl Look for Recorder {
    fn path(&mut self, path: &AbsPath) -> PathFact {
        let (dir, Some(name)) = path.split_last() else { return PathFact::Directory };
        self.directory(dir, path).look(name, path)
    }

    fn git(&mut self, dot_git: &AbsPath) -> Option<GitFact> {
        if let Some(fact) = self.git.get(dot_git) {
            return fact.clone();
        }
        let fact = crate::git::fact(dot_git, self);
        self.git.insert(dot_git.clone(), fact.clone());
        fact
    }

    fn git_runs(&mut self, git_dir: &AbsPath, tree: &AbsPath) -> Vec<GitRun> {
        if let Some(runs) = self.git_runs.get(git_dir) {
            return runs.clone();
        }
        let homes = self.homes.clone();
        let runs = runs(git_dir, tree, &homes, self);
        self.git_runs.insert(git_dir.clone(), runs.clone());
        runs
    }

    fn agreed_packs(&mut self, root: &AbsPath) -> Option<BTreeSet<String>> {
        let known = self.remembered.as_ref()?.packs(root);
        // A session of another project, above this one, may have made what is here.
        let known = known.or_else(|| self.was_writable(root).then(BTreeSet::new))?;
        Some(known.into_iter().chain(self.agreed.iter().cloned()).collect())
    }

    fn was_writable(&mut self, path: &AbsPath) -> bool {
        let Some(remembered) = &self.remembered else { return false };
        match self.written.get_or_insert_with(|| remembered.written()) {
            Some(written) => path.ancestors().any(|above| written.contains(above.as_bytes())),
            None => true,
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mountinfo_lines() {
        let line = b"36 35 98:0 /mnt1 /mnt\\0402/a\\134b rw,noatime master:1 shared:2 - ext3 /dev/root rw";
        let fact = mount_fact(line).unwrap();
        assert_eq!((fact.target.as_bytes(), fact.kind.as_str()), (b"/mnt 2/a\\b".as_slice(), "ext3"));
        assert_eq!(mount_fact(b"garbage"), None);
        assert_eq!(mount_fact(b""), None);
    }

    #[test]
    fn a_device_is_not_read() {
        assert!(read_bounded(Path::new("/dev/zero"), 10).is_err());
        assert!(read_bounded(Path::new("/dev"), 10).is_err());
    }
}
