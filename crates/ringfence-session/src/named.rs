//! What rules name outside the roots: looked up where it would stand, and nothing else is searched.
//!
//! A rule without wildcards is one lookup. One with wildcards is followed name by name from its fixed beginning. Where the
//! whole host is shown, a pattern such as `**/.env` holds everywhere; it is searched for in the roots and in the homes, and
//! what lies elsewhere is reported.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::Path;
use std::rc::Rc;

use ringfence_plan::{Claim, Found, HOST_SOCKETS, LayerName, Shortfall};
use ringfence_surface::policy::View;
use ringfence_surface::{
    AbsPath, Anchor, Effect, HostFacts, PATH_MAX, PathFact, Rule, Segment, Sense, Source, Standing,
};
use rustix::fs::{Access, AtFlags, FileType, OFlags, RawDir};

use crate::place::{open_beneath, open_place, relative};
use crate::visible::Ground;
use crate::walk::{Guard, Order, Reached, Starts, Walk, WalkError, WhyHidden};

/// How many names are listed for one rule with wildcards outside the roots.
const MOST_FOR_A_RULE: usize = 100_000;

/// How many names are looked at in the homes.
const MOST_IN_HOMES: usize = 200_000;

/// Listings that several rules share.
type Listings = HashMap<AbsPath, Option<Rc<Names>>>;

/// What a directory holds.
type Names = Vec<(Box<[u8]>, FileType)>;

/// A rule's search ended early.
struct Cut;

impl<'s> Walk<'s> {
    /// Looks at the places that rules name outside the roots; those inside were met on the walk.
    pub(crate) fn named(&mut self, starts: &Starts, facts: &HostFacts) {
        let takes_away = |rule: &&Rule| matches!(rule.effect, Effect::Escape | Effect::Deny | Effect::Protect);
        let surface = self.surface;
        let mut listings = Listings::new();
        // Asked for as often as there are rules, and their paths begin alike.
        let known: HashSet<&AbsPath> = facts.paths.keys().collect();
        for rule in surface.rules().iter().filter(takes_away).filter(|rule| rule.sense == Sense::Rule) {
            let Anchor::At(base) = &rule.pattern.anchor else { continue };
            // Built-in rules name over a thousand places. Which of them exist was found out when they were resolved.
            let is_known_missing = matches!(rule.source, Source::Table { .. }) && !known.contains(base);
            if is_known_missing || starts.hold(base) {
                continue;
            }
            // What lies in something read-only cannot be written anyway, unless it is mounted elsewhere too.
            let is_moot = rule.effect == Effect::Protect && self.is_read_only(base) && !self.aliases.touch(base);
            if rule.pattern.rest.is_empty() {
                match facts.paths.get(base) {
                    _ if is_moot => {}
                    // The session's own has the same names as the host's, and nothing else of it is needed.
                    Some(PathFact::Missing) => {}
                    Some(fact) if self.visible.ground(base) == Some(Ground::Processes) => self.of_processes(base, fact),
                    _ => self.look_at(base),
                }
            } else if (!is_moot || self.visible.is_written_below(base)) && self.visible.shows_below(base)
                || self.aliases.touch(base)
            {
                let mut left = MOST_FOR_A_RULE;
                let found = self.expand(base.clone(), &rule.pattern.rest, &mut listings, &mut left);
                if let Err(Cut) = found {
                    self.hide_shown(base, starts);
                }
            }
        }
    }

    /// Hides what is shown at a place or below it and was not searched: names that a rule means may be left in there.
    fn hide_shown(&mut self, base: &AbsPath, starts: &Starts) {
        if self.visible.ground(base).is_some() {
            return self.hide_found(base, WhyHidden::TooMany);
        }
        let below: Vec<AbsPath> = self.visible.of_host().filter(|path| path.is_within(base)).collect();
        for path in below.iter().filter(|path| !starts.hold(path)) {
            self.hide_found(path, WhyHidden::TooMany);
        }
    }

    fn is_read_only(&self, path: &AbsPath) -> bool {
        matches!(self.visible.ground(path), Some(Ground::Host { is_writable: false } | Ground::Processes))
    }

    /// Guards a name among the session's processes.
    fn of_processes(&mut self, path: &AbsPath, fact: &PathFact) {
        let (Some(name), Some(parent)) = (path.file_name(), path.parent()) else { return };
        if let Standing::Denied(_) = self.surface.cursor(&parent).standing(name) {
            let kind = if *fact == PathFact::Directory { Found::Directory } else { Found::File };
            self.walked.findings.denied.push((path.clone(), kind));
        }
    }

    /// Guards what stands at a place, if it is shown and something takes it away.
    pub(crate) fn look_at(&mut self, path: &AbsPath) {
        // What is not shown here may be shown where else it is mounted.
        if matches!(self.visible.ground(path), None | Some(Ground::Own)) && !self.aliases.touch(path) {
            return;
        }
        let (Some(name), Some(parent)) = (path.file_name(), path.parent()) else { return };
        // A link on the way means that the path as written leads elsewhere: that place has a rule of its own.
        let Ok(status) = open_place(&self.top, &relative(path)).and_then(rustix::fs::fstat) else { return };
        let guard = match self.surface.cursor(&parent).standing(name) {
            Standing::Denied(_) => Guard::Deny,
            Standing::Protected(_) => Guard::Protect,
            Standing::Open => return,
        };
        self.guard(path, &status, guard);
    }

    /// Follows the rest of a pattern below a directory.
    fn expand(&mut self, dir: AbsPath, rest: &[Segment], listings: &mut Listings, left: &mut usize) -> Result<(), Cut> {
        if dir.as_bytes().len() >= PATH_MAX {
            return Err(Cut);
        }
        match rest {
            [] => {
                self.look_at(&dir);
                Ok(())
            }
            [Segment::Name(name), tail @ ..] => self.expand(dir.child(name), tail, listings, left),
            [Segment::Glob(glob), tail @ ..] => {
                for (name, kind) in self.listed(&dir, listings, left)?.iter() {
                    if glob.matches(name) && (tail.is_empty() || *kind == FileType::Directory) {
                        self.expand(dir.child(name), tail, listings, left)?;
                    }
                }
                Ok(())
            }
            [Segment::Any, tail @ ..] => {
                let names = self.listed(&dir, listings, left)?;
                for (name, _) in names.iter().filter(|(_, kind)| *kind == FileType::Directory) {
                    self.expand(dir.child(name), rest, listings, left)?;
                }
                self.expand(dir, tail, listings, left)
            }
        }
    }

    /// The names in a directory, listed once for all rules.
    fn listed(&mut self, dir: &AbsPath, listings: &mut Listings, left: &mut usize) -> Result<Rc<Names>, Cut> {
        if let Some(known) = listings.get(dir) {
            return known.clone().ok_or(Cut);
        }
        let names = self.read(dir, left);
        listings.insert(dir.clone(), names.clone());
        names.ok_or(Cut)
    }

    fn read(&mut self, dir: &AbsPath, left: &mut usize) -> Option<Rc<Names>> {
        let path = relative(dir);
        let mut names = Names::new();
        let opened = match open_beneath(&self.top, &path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW) {
            Ok(opened) => opened,
            Err(_) => {
                // Whoever may go into it could open a name that is only guessed.
                let is_open = rustix::fs::accessat(&self.top, &path, Access::EXEC_OK, AtFlags::EACCESS).is_ok();
                let is_directory = open_place(&self.top, &path)
                    .and_then(rustix::fs::fstat)
                    .is_ok_and(|status| FileType::from_raw_mode(status.st_mode) == FileType::Directory);
                if is_open && is_directory && self.visible.ground(dir).is_some() {
                    self.hide_found(dir, WhyHidden::Unlisted);
                }
                return Some(Rc::new(names));
            }
        };
        let mut buffer = vec![std::mem::MaybeUninit::uninit(); 1 << 15];
        let mut listing = RawDir::new(&opened, &mut buffer);
        while let Some(Ok(entry)) = listing.next() {
            *left = left.checked_sub(1)?;
            let name = entry.file_name().to_bytes();
            if !matches!(name, b"." | b"..") {
                names.push((name.into(), entry.file_type()));
            }
        }
        Some(Rc::new(names))
    }

    /// Hides a directory outside the roots.
    fn hide_found(&mut self, path: &AbsPath, why: WhyHidden) {
        if let Ok(status) = open_place(&self.top, &relative(path)).and_then(rustix::fs::fstat) {
            self.walked.seen.insert(path.clone(), crate::place::Id::of(&status));
            self.hide(path, why);
        }
    }

    /// What holds only because the whole host is shown: its homes are searched, its sockets closed.
    pub(crate) fn whole_host(&mut self, starts: &Starts, homes: &[AbsPath]) -> Result<(), WalkError> {
        if self.surface.view() != View::Host {
            return Ok(());
        }
        let floats = |rule: &&Rule| {
            let denies = matches!(rule.effect, Effect::Escape | Effect::Deny) && rule.sense == Sense::Rule;
            denies && rule.pattern.anchor == Anchor::Floating
        };
        let patterns: Vec<String> =
            self.surface.rules().iter().filter(floats).map(|rule| rule.pattern.to_string()).collect();
        let mut reached = Reached::All;
        if !patterns.is_empty() {
            for home in homes.iter().filter(|home| !starts.hold(home)) {
                if matches!(self.visible.ground(home), Some(Ground::Host { .. })) {
                    reached = self.home(home).unwrap_or(Reached::Cut);
                }
            }
        }
        for pattern in patterns {
            let reason = match reached {
                Reached::All => "outside the roots and the homes it is not searched for",
                Reached::Cut => {
                    "outside the roots it is searched for in a part of the homes only: they hold too many names"
                }
            };
            let claim = Claim::Denied { pattern };
            self.walked.shortfalls.push(Shortfall { claim, layer: LayerName::Mounts, reason: reason.to_owned() });
        }
        self.sockets();
        Ok(())
    }

    /// Searches a home, which may not be there.
    fn home(&mut self, home: &AbsPath) -> Result<Reached, WalkError> {
        if open_place(&self.top, &relative(home)).is_err() {
            return Ok(Reached::All);
        }
        self.below(home, MOST_IN_HOMES, Order::ShallowestFirst)
    }

    /// Closes every socket that somebody listens on: the kernel knows their names.
    fn sockets(&mut self) {
        let table = fs::read("/proc/net/unix").unwrap_or_default();
        for line in table.split(|byte| *byte == b'\n').skip(1) {
            let Some(path) = bound_path(line) else { continue };
            let real = fs::canonicalize(Path::new(OsStr::from_bytes(path)));
            let real = real.ok().and_then(|path| AbsPath::lexical(&path.into_os_string().into_vec()).ok());
            let Some(real) = real else { continue };
            if let Ok(status) = open_place(&self.top, &relative(&real)).and_then(rustix::fs::fstat)
                && FileType::from_raw_mode(status.st_mode) == FileType::Socket
            {
                self.guard(&real, &status, Guard::Deny);
            }
        }
        let claim = Claim::Denied { pattern: HOST_SOCKETS.into() };
        let reason = "those are closed whose whole path the kernel knows; outside the roots, one that was bound by another name \
                      or appears later can be connected to";
        self.walked.shortfalls.push(Shortfall { claim, layer: LayerName::Mounts, reason: reason.into() });
    }
}

/// The path at the end of a line of `/proc/net/unix`, after seven numbers; abstract names begin with `@`, and one that is
/// relative says nothing.
fn bound_path(line: &[u8]) -> Option<&[u8]> {
    let mut rest = line;
    for _ in 0..7 {
        let from = rest.iter().position(|byte| *byte != b' ')?;
        let length = rest[from..].iter().position(|byte| *byte == b' ')?;
        rest = &rest[from + length..];
    }
    rest.strip_prefix(b" ").filter(|path| path.first() == Some(&b'/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_socket_table() {
        let line =
            |inode: &str, path: &str| format!("00000000c8b2bb20: 00000003 00000000 00010000 0001 01 {inode}{path}");
        for (inode, path, expected) in [
            ("868354", "", None),
            ("868354", " /run/x", Some("/run/x")),
            ("   54", " /run/a b", Some("/run/a b")),
            ("868354", " @abstract", None),
            ("868354", " relative", None),
        ] {
            let line = line(inode, path);
            assert_eq!(bound_path(line.as_bytes()), expected.map(str::as_bytes), "{line}");
        }
        assert_eq!(bound_path(b""), None);
    }
}
