//! The payload's environment, built from nothing.
//!
//! A variable passes if the policy names it, or if a table does and it neither points at something that is not there nor holds
//! an address with a password. One that names a socket that is given (`SSH_AUTH_SOCK`, `DOCKER_HOST`) passes with it.
//! Home, temporary files and the caches of toolchains are the session's own.

use std::collections::BTreeMap;
use std::ffi::CString;

use ringfence_surface::command::{GIT_NO_LOCKS, GIT_QUIET};
use ringfence_surface::curated::packs::pack;
use ringfence_surface::curated::system::SYSTEM;
use ringfence_surface::{AbsPath, Access, HostFacts, Look, Outcome, PathFact, Surface, follow};

use crate::beneath::read_real;
use crate::doors::Doors;
use crate::home::{Signing, has_password};
use crate::secrets::Secrets;

/// Directories of programs that every system has, where the caller's PATH names none that is readable.
const SYSTEM_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// The variables of the payload, by name.
pub(crate) type Variables = BTreeMap<Vec<u8>, Vec<u8>>;

/// What the session itself decides.
pub(crate) struct Own<'a> {
    pub(crate) session: &'a AbsPath,
    /// The directory in which ringfence itself is inside.
    pub(crate) given: Option<AbsPath>,
    pub(crate) name: &'a str,
    /// For temporary files.
    pub(crate) tmp: &'a AbsPath,
    /// Who works inside, where that is not the caller.
    pub(crate) user: Option<u32>,
    pub(crate) signing: Signing,
    pub(crate) doors: &'a Doors,
    pub(crate) secrets: &'a Secrets,
    /// What the agent's client is told.
    pub(crate) client: &'a [(&'static str, Vec<u8>)],
}

/// Builds the environment from the caller's.
pub(crate) fn build(
    caller: &Variables,
    surface: &Surface,
    facts: &HostFacts,
    look: &mut dyn Look,
    own: &Own<'_>,
) -> Variables {
    let mut variables: Variables = caller
        .iter()
        .filter_map(|(name, value)| {
            // Whoever looks for a socket that a policy names must find it.
            let is_door = |path: &AbsPath| own.doors.has(path);
            if let Some(value) = names_socket(value, look, is_door) {
                return Some((name.clone(), value));
            }
            if surface.decide_variable(name) == Outcome::Deny {
                return None;
            }
            // What somebody named is passed as it is; what a table brings along must be of use inside, and no secret.
            let value = match value {
                value if is_named(name, surface) => value.clone(),
                value if has_password(value) || is_key(value) => return None,
                value => inside(value, surface, look)?,
            };
            Some((name.clone(), value))
        })
        .collect();
    let home = home(own.session, look);
    let mut set = |name: &str, value: &[u8]| variables.insert(name.into(), value.to_vec());
    let path = caller.get(b"PATH".as_slice()).map(Vec::as_slice).unwrap_or_default();
    let dirs = path.split(|b| *b == b':').filter(|dir| dir.first() == Some(&b'/'));
    let readable: Vec<Vec<u8>> = dirs.filter_map(|dir| inside(dir, surface, look)).collect();
    set("PATH", if readable.is_empty() { SYSTEM_PATH.into() } else { readable.join(&b':') }.as_slice());
    set("HOME", home.as_bytes());
    set("TMPDIR", own.tmp.as_bytes());
    set("RINGFENCE", b"1");
    set("RINGFENCE_SESSION", own.name.as_bytes());
    if let Some(given) = &own.given {
        set("RINGFENCE_EXE", real(given.clone(), look).join(crate::given::PROGRAM).as_bytes());
    }
    if let Some(name) = own.user.and_then(account_name) {
        set("LOGNAME", &name);
        set("USER", &name);
    }
    // Every commit would fail: there is no key inside, and no socket to ask for one.
    let is_unsigned = own.signing == Signing::AskedByRepository && surface.reach().sockets.is_empty();
    let unsigned: &[(&str, &str)] =
        if is_unsigned { &[("commit.gpgSign", "false"), ("tag.gpgSign", "false")] } else { &[] };
    set_git(&mut variables, GIT_QUIET.iter().chain(GIT_DERIVED).chain(unsigned));
    for (name, value) in toolchains(caller, surface, facts, look) {
        variables.insert(name, value);
    }
    variables.extend(own.client.iter().map(|(name, value)| (name.as_bytes().to_vec(), value.clone())));
    own.secrets.hide(&mut variables);
    variables
}

/// The private home.
pub(crate) fn home(session: &AbsPath, look: &mut dyn Look) -> AbsPath {
    real(session.join("home"), look)
}

/// Settings of git's, after those that a policy passes: git runs nothing that was planted in the work tree, and commands that
/// only look write nothing. Commands count as read-only on this ground.
fn set_git<'a>(variables: &mut Variables, settings: impl Iterator<Item = &'a (&'a str, &'a str)>) {
    let passed = variables.get(b"GIT_CONFIG_COUNT".as_slice()).and_then(|count| std::str::from_utf8(count).ok());
    let mut count = passed.and_then(|count| count.parse::<usize>().ok()).unwrap_or(0);
    for (key, value) in settings {
        variables.insert(format!("GIT_CONFIG_KEY_{count}").into(), key.as_bytes().to_vec());
        variables.insert(format!("GIT_CONFIG_VALUE_{count}").into(), value.as_bytes().to_vec());
        count += 1;
    }
    variables.insert(b"GIT_CONFIG_COUNT".to_vec(), count.to_string().into());
    variables.insert(GIT_NO_LOCKS.0.into(), GIT_NO_LOCKS.1.into());
}

/// Git makes no files by itself that say what is in a commit or how a conflict was resolved: those cannot be judged, and are refused. It
/// moves an object to its place at once, where a link would be refused first.
const GIT_DERIVED: &[(&str, &str)] = &[
    ("core.createObject", "rename"),
    ("fetch.writeCommitGraph", "false"),
    ("gc.writeCommitGraph", "false"),
    ("rerere.enabled", "false"),
];

/// What keys begin with, whatever variable they stand in.
const KEYS: [&[u8]; 12] = [
    b"-----BEGIN ",
    b"AIza",
    b"AKIA",
    b"ASIA",
    b"eyJ",
    b"ghp_",
    b"gho_",
    b"ghs_",
    b"github_pat_",
    b"glpat-",
    b"sk-",
    b"xox",
];

/// Does a value look like a key? None of the variables that pass by a table has a use for one.
fn is_key(value: &[u8]) -> bool {
    const LEAST: usize = 16;
    value.len() >= LEAST && KEYS.iter().any(|start| value.starts_with(start))
}

/// Where a place of ours really is: its directory may be a link to another disk, which is not there inside.
fn real(path: AbsPath, look: &mut dyn Look) -> AbsPath {
    follow(&AbsPath::root(), path.as_bytes(), look).map_or(path, |found| found.path)
}

/// Does a policy or a flag name this variable?
fn is_named(name: &[u8], surface: &Surface) -> bool {
    surface.env().iter().any(|entry| entry.source.is_written() && entry.value.means(name))
}

/// A value as it is right inside. A path that leads to nothing there has none; one that leads through a link of the user's is
/// replaced by where it leads, since the link is not there. The system's own links, as `/bin`, are.
fn inside(value: &[u8], surface: &Surface, look: &mut dyn Look) -> Option<Vec<u8>> {
    if value.first() != Some(&b'/') {
        return Some(value.to_vec());
    }
    let named = AbsPath::lexical(value).ok()?;
    let real = follow(&AbsPath::root(), value, look).ok()?.path;
    if !surface.decide(&real, Access::Read).is_allowed() {
        return None;
    }
    let is_system = |row: &&str| AbsPath::lexical(row.as_bytes()).is_ok_and(|row| named.is_within(&row));
    let is_there = named == real || SYSTEM.iter().map(|row| row.pattern).any(|row| is_system(&row));
    Some(if is_there { value.to_vec() } else { real.as_bytes().to_vec() })
}

/// What stands before the path of a socket in the variables that name one.
const SOCKET_PREFIXES: [&[u8]; 3] = [b"", b"unix://", b"unix:path="];

/// A variable's value that names one socket, as it is right inside: there a link that leads to it does not exist.
pub fn names_socket(value: &[u8], look: &mut dyn Look, is_named: impl Fn(&AbsPath) -> bool) -> Option<Vec<u8>> {
    SOCKET_PREFIXES.iter().find_map(|prefix| {
        let path = value.strip_prefix(*prefix).filter(|path| path.first() == Some(&b'/'))?;
        // The address of a bus may say more after a comma.
        let end = path.iter().position(|byte| *byte == b',').filter(|_| !prefix.is_empty()).unwrap_or(path.len());
        let real = follow(&AbsPath::root(), &path[..end], look).ok()?.path;
        is_named(&real).then(|| [*prefix, real.as_bytes(), &path[end..]].concat())
    })
}

/// The name of an account, as the system's own list has it.
fn account_name(uid: u32) -> Option<Vec<u8>> {
    let list = read_real(&AbsPath::lexical(b"/etc/passwd").ok()?, 16 << 20).ok()?;
    list.split(|byte| *byte == b'\n').find_map(|line| {
        let mut fields = line.split(|byte| *byte == b':');
        let (name, _, number) = (fields.next()?, fields.next()?, fields.next()?);
        (number == uid.to_string().as_bytes()).then(|| name.to_vec())
    })
}

/// Where toolchains are, since the home directory no longer says so, and where their private caches are.
fn toolchains(
    caller: &Variables,
    surface: &Surface,
    facts: &HostFacts,
    look: &mut dyn Look,
) -> Vec<(Vec<u8>, Vec<u8>)> {
    let home = facts.all_homes().into_iter().next();
    let packs: Vec<_> = surface.packs().iter().filter_map(|name| pack(name)).collect();
    let has_caches = packs.iter().any(|pack| !pack.caches.is_empty());
    let caches = has_caches.then(|| facts.project_cache(surface.root())).flatten();
    let caches = caches.map(|caches| real(caches, look));
    let mut found = Vec::new();
    for pack in packs {
        for tool in pack.homes {
            if let Some(value) = caller.get(tool.variable.as_bytes()) {
                found.push((tool.variable.into(), value.clone()));
                continue;
            }
            let places = tool.places.iter().filter_map(|place| Some(home.as_ref()?.join(place.strip_prefix("~/")?)));
            if let Some(place) = places.into_iter().find(|place| look.path(place) != PathFact::Missing) {
                found.push((tool.variable.into(), place.as_bytes().to_vec()));
            }
        }
        for cache in pack.caches {
            if let Some(caches) = &caches {
                let value = [cache.prefix.as_bytes(), caches.join(cache.dir).as_bytes()].concat();
                found.push((cache.variable.into(), value));
            }
        }
    }
    found
}

/// `NAME=value` as the kernel takes it; a value with a NUL cannot be passed and is left out.
pub(crate) fn lines(variables: &Variables) -> Vec<CString> {
    variables.iter().filter_map(|(name, value)| CString::new([name.as_slice(), b"=", value].concat()).ok()).collect()
}

/// The files to try for a program: itself if it has a slash, else in each directory of PATH.
pub(crate) fn candidates(program: &[u8], workdir: &AbsPath, variables: &Variables) -> Vec<CString> {
    if program.contains(&b'/') {
        let absolute = if program.first() == Some(&b'/') {
            program.to_vec()
        } else {
            [workdir.as_bytes(), b"/", program].concat()
        };
        return CString::new(absolute).into_iter().collect();
    }
    let path = variables.get(b"PATH".as_slice()).map(Vec::as_slice).unwrap_or_default();
    path.split(|b| *b == b':').filter_map(|dir| CString::new([dir, b"/", program].concat()).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A4: a value that is a key does not pass, whatever it is called.
    #[test]
    fn a4_values_that_look_like_keys() {
        for value in ["sk-0123456789abcdef", "ghp_0123456789abcdef", "AKIAIOSFODNN7EXAMPLE", "-----BEGIN KEY-----"] {
            assert!(is_key(value.as_bytes()), "{value}");
        }
        for value in ["xterm-256color", "en_US.UTF-8", "sk-SK", "sk_SK.UTF-8", "", "Europe/Berlin", "truecolor"] {
            assert!(!is_key(value.as_bytes()), "{value}");
        }
    }
}
