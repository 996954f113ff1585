//! The payload's environment, built from nothing.
//!
//! A variable passes if a table or the policy names it, and then only if it does not point at something that is not there.
//! Home, temporary files and the caches of toolchains are the session's own.

use std::collections::BTreeMap;
use std::ffi::CString;

use ringfence_surface::curated::packs::pack;
use ringfence_surface::{AbsPath, Access, HostFacts, Look, Outcome, PathFact, Surface};

/// Directories of programs that every system has, where the caller's PATH names none that is readable.
const SYSTEM_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// The variables of the payload, by name.
pub(crate) type Variables = BTreeMap<Vec<u8>, Vec<u8>>;

/// What the session itself decides.
pub(crate) struct Own<'a> {
    pub(crate) session: &'a AbsPath,
    pub(crate) name: &'a str,
    /// For temporary files.
    pub(crate) tmp: &'a AbsPath,
}

/// Builds the environment from the caller's.
pub(crate) fn build(
    caller: &Variables,
    surface: &Surface,
    facts: &HostFacts,
    look: &mut dyn Look,
    own: &Own<'_>,
) -> Variables {
    let is_readable =
        |path: &[u8]| AbsPath::lexical(path).is_ok_and(|path| surface.decide(&path, Access::Read).is_allowed());
    let mut variables: Variables = caller
        .iter()
        .filter(|(name, _)| surface.decide_variable(name) == Outcome::Allow)
        .filter(|(_, value)| value.first() != Some(&b'/') || is_readable(value))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    let mut set = |name: &str, value: &[u8]| variables.insert(name.into(), value.to_vec());
    let path = caller.get(b"PATH".as_slice()).map(Vec::as_slice).unwrap_or_default();
    let readable: Vec<&[u8]> =
        path.split(|b| *b == b':').filter(|dir| dir.first() == Some(&b'/') && is_readable(dir)).collect();
    set("PATH", if readable.is_empty() { SYSTEM_PATH.into() } else { readable.join(&b':') }.as_slice());
    set("HOME", own.session.join("home").as_bytes());
    set("TMPDIR", own.tmp.as_bytes());
    set("RINGFENCE", b"1");
    set("RINGFENCE_SESSION", own.name.as_bytes());
    for (name, value) in toolchains(caller, surface, facts, look) {
        variables.insert(name, value);
    }
    variables
}

/// Where toolchains are, since the home directory no longer says so, and where their private caches are.
fn toolchains(
    caller: &Variables,
    surface: &Surface,
    facts: &HostFacts,
    look: &mut dyn Look,
) -> Vec<(Vec<u8>, Vec<u8>)> {
    let home = facts.all_homes().into_iter().next();
    let caches = facts.project_cache(surface.root());
    let mut found = Vec::new();
    for pack in surface.packs().iter().filter_map(|name| pack(name)) {
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
