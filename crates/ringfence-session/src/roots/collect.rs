//! Which files a root is made of: programs, whatever their headers ask for, and data, each at its own path with every link on
//! the way. Nothing is copied here.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;

use ringfence_surface::{AbsPath, Shown};
use rustix::fs::{FileType, Mode, OFlags};

use super::elf::{self, Needs};
use super::search::{Libraries, Searched};
use crate::walk::os_path;

/// Something in a root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Item {
    Directory,
    /// As on the host, whose file is at the same path.
    File,
    Link {
        target: Vec<u8>,
    },
    /// Written by us.
    Text {
        content: Vec<u8>,
    },
    /// A device by its numbers.
    Device {
        major: u32,
        minor: u32,
    },
}

/// Something that is not in the root although its class has it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LeftOut {
    pub(crate) what: String,
    pub(crate) why: String,
}

/// What becomes of scripts in a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scripts {
    /// They are started: without their interpreter they are left out.
    Run,
    /// They are read by a program that is there: their first line does not matter.
    Read,
}

/// How many links may lead to each other.
const MOST_HOPS: u32 = 40;

/// Where programs are looked for first: those of the system, before whatever stands before them on somebody's PATH.
const SYSTEM: &[&str] = &["usr/bin", "bin", "usr/local/bin", "usr/sbin", "sbin"];

/// What a program needs, and how that was found.
struct Closure {
    paths: Vec<AbsPath>,
    /// Those that only the program itself knows of.
    carried: Vec<AbsPath>,
    by_cache: bool,
}

pub(crate) struct Collector {
    pub(crate) items: BTreeMap<AbsPath, Item>,
    pub(crate) left_out: BTreeSet<LeftOut>,
    /// What programs are told by variables, since there is no `/proc` by which they could find out.
    pub(crate) variables: BTreeMap<&'static str, AbsPath>,
    libraries: Libraries,
    search: Vec<AbsPath>,
    /// Programs and libraries that are done.
    done: BTreeSet<AbsPath>,
    needs_cache: bool,
}

impl Collector {
    /// `path` is the caller's PATH, searched after the system's directories.
    pub(crate) fn new(path: &[u8]) -> Self {
        let own = path.split(|byte| *byte == b':').filter_map(|dir| AbsPath::lexical(dir).ok());
        let search = SYSTEM.iter().map(|dir| AbsPath::root().join(dir)).chain(own).collect();
        Self {
            items: BTreeMap::new(),
            left_out: BTreeSet::new(),
            variables: BTreeMap::new(),
            libraries: Libraries::of_host(),
            search,
            done: BTreeSet::new(),
            needs_cache: false,
        }
    }

    /// Where a program of this name is.
    pub(crate) fn which(&self, name: &str) -> Option<AbsPath> {
        let is_program = |path: &AbsPath| {
            fs::metadata(os_path(path)).is_ok_and(|found| {
                found.is_file() && std::os::unix::fs::PermissionsExt::mode(&found.permissions()) & 0o111 != 0
            })
        };
        self.search.iter().map(|dir| dir.join(name)).find(is_program)
    }

    /// A program by its name, with what it needs. Returns where it really is.
    pub(crate) fn program(&mut self, name: &str) -> Option<AbsPath> {
        let Some(path) = self.which(name) else {
            self.leave_out(name.as_bytes(), "it is not installed");
            return None;
        };
        self.file(&path)
    }

    /// A file by its path, with what it needs to run, if it runs. Returns where it really is.
    pub(crate) fn file(&mut self, path: &AbsPath) -> Option<AbsPath> {
        self.file_with(path, Scripts::Run)
    }

    /// What a program needs that is not part of the root itself.
    pub(crate) fn needs_of(&mut self, program: &AbsPath) -> Result<(), String> {
        let real = real_path(program).ok_or_else(|| "it is not there".to_owned())?;
        self.requirements(&real, Scripts::Run)
    }

    /// The loader that a program names and the libraries that it needs, for whoever brings them along. None for one that needs none.
    pub(crate) fn brought(&self, program: &AbsPath) -> Result<Option<(AbsPath, Vec<AbsPath>)>, String> {
        let file = File::open(os_path(program)).map_err(|cause| cause.to_string())?;
        let Some(needs) = elf::needs_of(&file).filter(|needs| needs.interpreter.is_some()) else { return Ok(None) };
        let mut found = Closure { paths: Vec::new(), carried: Vec::new(), by_cache: false };
        self.closure(program, &needs, &[], &mut found)?;
        let loader = found.paths.remove(0);
        Ok(Some((loader, found.paths)))
    }

    fn file_with(&mut self, path: &AbsPath, scripts: Scripts) -> Option<AbsPath> {
        let real = real_path(path)?;
        if !self.done.contains(&real) {
            if let Err(why) = self.requirements(&real, scripts) {
                self.leave_out(path.as_bytes(), &why);
                return None;
            }
            self.done.insert(real);
        }
        self.put(path)
    }

    /// A directory with everything below it for which `wanted` says so.
    pub(crate) fn tree(&mut self, dir: &AbsPath, scripts: Scripts, wanted: &dyn Fn(&AbsPath) -> bool) {
        let Ok(entries) = fs::read_dir(os_path(dir)) else { return };
        self.put(dir);
        for entry in entries.flatten() {
            let path = dir.child(entry.file_name().as_bytes());
            if !wanted(&path) {
                continue;
            }
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => self.tree(&path, scripts, wanted),
                Ok(kind) if kind.is_file() || kind.is_symlink() => {
                    self.file_with(&path, scripts);
                }
                _ => {}
            }
        }
    }

    /// Written by us, in the place of the host's.
    pub(crate) fn text(&mut self, path: &str, content: impl Into<Vec<u8>>) {
        self.own(&AbsPath::root().join(path), Item::Text { content: content.into() });
    }

    /// An item of ours, and the directories above it.
    pub(crate) fn own(&mut self, path: &AbsPath, item: Item) {
        for above in path.ancestors().skip(1).filter(|above| !above.is_root()) {
            self.items.entry(above).or_insert(Item::Directory);
        }
        self.items.insert(path.clone(), item);
    }

    /// What the loader needs inside, once everything is there.
    pub(crate) fn finish(&mut self) {
        if self.needs_cache {
            self.put(&AbsPath::root().join("etc/ld.so.cache"));
        }
    }

    pub(crate) fn leave_out(&mut self, what: &[u8], why: &str) {
        self.left_out.insert(LeftOut { what: Shown(what).to_string(), why: why.to_owned() });
    }

    /// Everything that a file needs to run, put beside it: all of it, or an error and nothing.
    fn requirements(&mut self, real: &AbsPath, scripts: Scripts) -> Result<(), String> {
        let Ok(mut file) = File::open(os_path(real)) else { return Err("it cannot be read".to_owned()) };
        let mut start = [0; 256];
        let length = file.read(&mut start).unwrap_or(0);
        if let Some(line) = start[..length].strip_prefix(b"#!") {
            return if scripts == Scripts::Run { self.interpreter(line) } else { Ok(()) };
        }
        let Some(needs) = elf::needs_of(&file) else { return Ok(()) };
        let mut found = Closure { paths: Vec::new(), carried: Vec::new(), by_cache: false };
        self.closure(real, &needs, &[], &mut found)?;
        self.needs_cache |= found.by_cache;
        for path in found.paths {
            self.put(&path);
            self.done.extend(real_path(&path));
        }
        for path in found.carried {
            // Where the loader looks without being told.
            let place = AbsPath::root().join("usr/lib").child(path.file_name().unwrap_or_default());
            if !self.items.contains_key(&place) {
                self.own(&place, Item::Link { target: path.as_bytes().to_vec() });
            }
        }
        Ok(())
    }

    /// The program that reads a script: a shell comes along, others are worth a script only where they are there anyway.
    fn interpreter(&mut self, line: &[u8]) -> Result<(), String> {
        let line = line.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let mut words = line.split(|byte| byte.is_ascii_whitespace()).filter(|word| !word.is_empty());
        let Some(program) = words.next().and_then(|word| AbsPath::lexical(word).ok()) else { return Ok(()) };
        let named = match program.file_name() {
            Some(b"env") => words.find(|word| !word.starts_with(b"-")).and_then(|name| std::str::from_utf8(name).ok()),
            _ => None,
        };
        let reads = match named {
            Some(name) => self.which(name),
            None => Some(program.clone()),
        };
        let is_here = |path: &AbsPath| real_path(path).is_some_and(|real| self.done.contains(&real));
        let is_shell = |path: &AbsPath| matches!(path.file_name(), Some(b"sh" | b"bash" | b"dash"));
        match reads {
            Some(path) if is_here(&path) || is_shell(&path) => {
                let programs = [Some(path), named.map(|_| program)];
                programs.into_iter().flatten().for_each(|path| {
                    self.file(&path);
                });
                Ok(())
            }
            _ => Err(format!("it is a script for {}, which is not part of this root", Shown(line))),
        }
    }

    /// The libraries that a program needs, and theirs.
    fn closure(&self, path: &AbsPath, needs: &Needs, above: &[Searched], found: &mut Closure) -> Result<(), String> {
        if let Some(interpreter) = &needs.interpreter {
            let loader = AbsPath::lexical(interpreter).ok().filter(|path| real_path(path).is_some());
            let loader = loader.ok_or_else(|| format!("its loader {} is not there", Shown(interpreter)))?;
            if !found.paths.contains(&loader) {
                found.paths.push(loader);
            }
        }
        let chain: Vec<Searched> =
            std::iter::once(Searched::of(needs, path)).chain(above.iter().cloned()).take(64).collect();
        for name in &needs.libraries {
            let place = self.libraries.find(name, needs, path, above);
            let place = place.ok_or_else(|| format!("its library {} is not there", Shown(name)))?;
            found.by_cache |= place.by_cache;
            if found.paths.contains(&place.path) {
                continue;
            }
            found.paths.push(place.path.clone());
            found.carried.extend(place.is_carried.then(|| place.path.clone()));
            let file = File::open(os_path(&place.path)).map_err(|cause| format!("{}: {cause}", place.path))?;
            if let Some(needs) = elf::needs_of(&file) {
                self.closure(&place.path, &needs, &chain, found)?;
            }
        }
        Ok(())
    }

    /// Puts a path into the root: every directory and every link on the way, and what is at the end. Returns where that is.
    pub(crate) fn put(&mut self, path: &AbsPath) -> Option<AbsPath> {
        let mut seen = Vec::new();
        let real = follow(path, &mut |path, item| seen.push((path.clone(), item)))?;
        for (path, item) in seen {
            self.items.entry(path).or_insert(item);
        }
        Some(real)
    }
}

/// Where a path really leads; nothing where that is no file and no directory.
pub(crate) fn real_path(path: &AbsPath) -> Option<AbsPath> {
    follow(path, &mut |_, _| {})
}

/// Goes along a path name by name, and tells what stands at each.
fn follow(path: &AbsPath, tell: &mut dyn FnMut(&AbsPath, Item)) -> Option<AbsPath> {
    let mut rest: VecDeque<Vec<u8>> = path.components().map(<[u8]>::to_vec).collect();
    let (mut here, mut hops) = (AbsPath::root(), 0);
    while let Some(name) = rest.pop_front() {
        match name.as_slice() {
            b"" | b"." => continue,
            b".." => {
                here = here.parent().unwrap_or_else(AbsPath::root);
                continue;
            }
            _ => {}
        }
        let next = here.child(&name);
        let status = rustix::fs::lstat(next.as_bytes()).ok()?;
        match FileType::from_raw_mode(status.st_mode) {
            FileType::Directory => {
                tell(&next, Item::Directory);
                here = next;
            }
            FileType::Symlink => {
                hops += 1;
                let target = rustix::fs::readlink(next.as_bytes(), Vec::new()).ok().filter(|_| hops <= MOST_HOPS)?;
                let target = target.into_bytes();
                if target.starts_with(b"/") {
                    here = AbsPath::root();
                }
                target.split(|byte| *byte == b'/').rev().for_each(|part| rest.push_front(part.to_vec()));
                tell(&next, Item::Link { target });
            }
            FileType::RegularFile if rest.is_empty() => {
                tell(&next, Item::File);
                return Some(next);
            }
            _ => return None,
        }
    }
    Some(here)
}

/// Opens a host's file to be copied; never what somebody put in its place since.
pub(crate) fn open_source(path: &AbsPath) -> std::io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path.as_bytes(), flags, Mode::empty())?);
    if file.metadata()?.is_file() { Ok(file) } else { Err(std::io::ErrorKind::InvalidData.into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn abs(path: &std::path::Path) -> AbsPath {
        AbsPath::lexical(path.as_os_str().as_bytes()).unwrap()
    }

    #[test]
    fn links_are_kept_as_they_are() {
        let place = tempfile::tempdir().unwrap();
        let place = place.path().canonicalize().unwrap();
        fs::create_dir_all(place.join("a/b")).unwrap();
        fs::write(place.join("a/real"), "x").unwrap();
        std::os::unix::fs::symlink("../real", place.join("a/b/one")).unwrap();
        std::os::unix::fs::symlink(place.join("a/b"), place.join("two")).unwrap();
        let mut collector = Collector::new(b"");
        let real = collector.put(&abs(&place.join("two/one"))).unwrap();
        assert_eq!(real, abs(&place.join("a/real")));
        assert_eq!(collector.items[&abs(&place.join("a/b/one"))], Item::Link { target: b"../real".to_vec() });
        assert!(matches!(collector.items[&abs(&place.join("two"))], Item::Link { .. }));
        assert_eq!(collector.items[&real], Item::File);
    }

    #[test]
    fn links_that_lead_nowhere() {
        let place = tempfile::tempdir().unwrap();
        let place = place.path().canonicalize().unwrap();
        std::os::unix::fs::symlink("b", place.join("a")).unwrap();
        std::os::unix::fs::symlink("a", place.join("b")).unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, place.join("pipe"), FileType::Fifo, Mode::RUSR, 0).unwrap();
        for name in ["a", "pipe", "missing", "pipe/x"] {
            assert_eq!(real_path(&abs(&place.join(name))), None, "{name}");
        }
    }

    #[test]
    fn a_program_comes_with_its_libraries() {
        let mut collector = Collector::new(b"");
        collector.program("sh").unwrap();
        let has = |name: &str| collector.items.keys().any(|path| path.file_name() == Some(name.as_bytes()));
        assert!(has("libc.so.6") && has("sh"), "{:?}", collector.items.keys());
        assert!(collector.items.keys().any(|path| path.file_name().is_some_and(|name| name.starts_with(b"ld-"))));
    }
}
