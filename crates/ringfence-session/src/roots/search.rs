//! Where the dynamic loader finds a library, in the order in which it looks: the paths that a program carries, the cache that
//! `ldconfig` made, and the loader's own directories.

use std::collections::HashMap;
use std::fs::{self, File};

use ringfence_surface::AbsPath;

use super::elf::{self, Kind, Needs};
use crate::walk::os_path;

/// The cache of this host, and which programs were read.
pub(crate) struct Libraries {
    cache: HashMap<Vec<u8>, Vec<AbsPath>>,
}

/// A library that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) path: AbsPath,
    /// Only the cache knows of it: inside, the loader needs the cache too.
    pub(crate) by_cache: bool,
    /// The program says where it is, perhaps by where it is itself. The loader finds that out by way of `/proc`, which a root does
    /// not have.
    pub(crate) is_carried: bool,
}

/// What the loader searches without being told.
const STANDARD: &[&str] = &["lib64", "usr/lib64", "lib", "usr/lib"];

impl Libraries {
    pub(crate) fn of_host() -> Self {
        let bytes = fs::read("/etc/ld.so.cache").unwrap_or_default();
        Self { cache: cache(&bytes) }
    }

    /// The library of this name for a program at `origin`, loaded by programs with these rpaths, the nearest first.
    pub(crate) fn find(&self, name: &[u8], needs: &Needs, origin: &AbsPath, above: &[Searched]) -> Option<Place> {
        let fits = |path: &AbsPath| kind_of(path) == Some(needs.kind);
        if name.contains(&b'/') {
            let path = AbsPath::lexical(name).ok()?;
            return fits(&path).then_some(Place { path, by_cache: false, is_carried: false });
        }
        let own = Searched::of(needs, origin);
        let rpaths = [&own].into_iter().chain(above).take_while(|_| needs.runpath.is_none());
        let carried = rpaths.flat_map(|searched| &searched.rpath).chain(&own.runpath);
        if let Some(path) = carried.map(|dir| dir.child(name)).find(&fits) {
            return Some(Place { path, by_cache: false, is_carried: true });
        }
        if let Some(path) = standard(needs.kind).into_iter().map(|dir| dir.child(name)).find(&fits) {
            return Some(Place { path, by_cache: false, is_carried: false });
        }
        let path = self.cache.get(name)?.iter().find(|path| fits(path))?.clone();
        Some(Place { path, by_cache: true, is_carried: false })
    }
}

/// The directories that a program carries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Searched {
    rpath: Vec<AbsPath>,
    runpath: Vec<AbsPath>,
}

impl Searched {
    pub(crate) fn of(needs: &Needs, origin: &AbsPath) -> Self {
        let list = |text: &Option<Vec<u8>>| text.as_deref().map(|text| directories(text, origin)).unwrap_or_default();
        // The loader ignores one where the other is there.
        let rpath = if needs.runpath.is_some() { Vec::new() } else { list(&needs.rpath) };
        Self { rpath, runpath: list(&needs.runpath) }
    }
}

/// `a:$ORIGIN/b` as directories. What names anything else than `$ORIGIN`, or no whole path, is left out: the loader would look
/// where we do not.
fn directories(text: &[u8], origin: &AbsPath) -> Vec<AbsPath> {
    let dir = origin.parent().unwrap_or_else(AbsPath::root);
    let one = |part: &[u8]| {
        let rest = [&b"$ORIGIN"[..], b"${ORIGIN}"].iter().find_map(|token| part.strip_prefix(*token));
        let whole = match rest {
            Some(rest) => [dir.as_bytes(), rest].concat(),
            None => part.to_vec(),
        };
        if whole.contains(&b'$') { None } else { AbsPath::lexical(&whole).ok() }
    };
    text.split(|byte| *byte == b':').filter_map(one).collect()
}

/// The loader's own directories: Debian's name the machine, the others' its word size.
fn standard(kind: Kind) -> Vec<AbsPath> {
    let triplet = match (kind.is_64, kind.machine) {
        (true, 62) => Some("x86_64-linux-gnu"),
        (true, 183) => Some("aarch64-linux-gnu"),
        (false, 3) => Some("i386-linux-gnu"),
        _ => None,
    };
    let named = triplet.map(|name| ["lib", "usr/lib"].map(|dir| AbsPath::root().join(dir).join(name)));
    let plain = STANDARD.iter().map(|dir| AbsPath::root().join(dir));
    named.into_iter().flatten().chain(plain).collect()
}

fn kind_of(path: &AbsPath) -> Option<Kind> {
    let file = File::open(os_path(path)).ok()?;
    file.metadata().ok().filter(fs::Metadata::is_file)?;
    elf::needs_of(&file).map(|needs| needs.kind)
}

const MAGIC: &[u8] = b"glibc-ld.so.cache1.1";
const OLD_MAGIC: &[u8] = b"ld.so-1.7.0";

/// Which libraries the cache knows, by name. A cache that cannot be read knows none.
fn cache(bytes: &[u8]) -> HashMap<Vec<u8>, Vec<AbsPath>> {
    let mut found: HashMap<Vec<u8>, Vec<AbsPath>> = HashMap::new();
    let Some(bytes) = newer(bytes) else { return found };
    let number = |at: usize| Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?) as usize);
    let text = |at: usize| bytes.get(at..)?.split(|byte| *byte == 0).next();
    for at in 0..number(20).unwrap_or(0) {
        let Some(entry) = at.checked_mul(24).and_then(|past| past.checked_add(48)) else { break };
        let named = || Some((text(number(entry + 4)?)?, text(number(entry + 8)?)?));
        let Some((name, path)) = named() else { break };
        if let Ok(path) = AbsPath::lexical(path) {
            found.entry(name.to_vec()).or_default().push(path);
        }
    }
    found
}

/// The newer part of a cache, which an older one may stand before.
fn newer(bytes: &[u8]) -> Option<&[u8]> {
    let bytes = match bytes.strip_prefix(OLD_MAGIC) {
        None => bytes,
        Some(_) => {
            let count = u32::from_le_bytes(*bytes.get(12..)?.first_chunk()?) as usize;
            let end = count.checked_mul(12)?.checked_add(16)?.checked_next_multiple_of(8)?;
            bytes.get(end..)?
        }
    };
    bytes.starts_with(MAGIC).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn abs(text: &str) -> AbsPath {
        AbsPath::lexical(text.as_bytes()).unwrap()
    }

    #[test]
    fn carried_paths() {
        #[track_caller]
        fn check(text: &str, expected: &[&str]) {
            let found = directories(text.as_bytes(), &abs("/opt/x/bin/prog"));
            assert_eq!(found, expected.iter().map(|path| abs(path)).collect::<Vec<_>>(), "{text}");
        }
        check("", &[]);
        check("$ORIGIN/../lib", &["/opt/x/lib"]);
        check("${ORIGIN}:/usr/lib/x", &["/opt/x/bin", "/usr/lib/x"]);
        check("$LIB/x:lib:/a$PLATFORM", &[]);
    }

    #[test]
    fn the_cache_of_this_host() {
        let found = cache(&fs::read("/etc/ld.so.cache").unwrap());
        assert!(found.get(&b"libc.so.6"[..]).is_some_and(|paths| os_path(&paths[0]).exists()));
    }

    proptest! {
        #[test]
        fn no_cache_is_too_strange(bytes in prop::collection::vec(any::<u8>(), 0..300), old in any::<bool>()) {
            let magic = if old { OLD_MAGIC } else { MAGIC };
            let _ = cache(&[magic, bytes.as_slice()].concat());
        }
    }
}
